/* ALiBi in the softmax of a warpgroup's queries, forward. Along the keys of a query the bias is a straight line on
 * either side of the query's place. So a weight is 2 to the power of
 *
 *     scale s + (rise c + shift)
 *
 * for the c-th key after the thread's first one of a block. c is a constant. shift is the line at that first key less
 * the query's reference. Exponents are relative to the reference, as they are to the maximum elsewhere (follow_maxima).
 *
 * A score takes two instructions here, and one without a bias. The search for the largest score takes half an
 * instruction less: it looks at scores above 0 alone, their bits are ordered as integers, and one instruction compares
 * three. The largest score and the highest point of the line bound the exponents of a block. Few blocks go beyond the
 * bound that a row's reference allows. Of many blocks all weights are 0, as the line is low where keys are far. */
#ifndef GLINT_DEVICE_WARPGROUP_BIAS_H
#define GLINT_DEVICE_WARPGROUP_BIAS_H

#include "lib/device/bias.h"
#include "lib/device/row_softmax.h"
#include "lib/device/wgmma.h"

#define GLINT_LN_2 0.693147180559945309f

/* Which block of a tile it is. */
struct first_block {
    static constexpr bool IS_FIRST = true;
};

struct later_block {
    static constexpr bool IS_FIRST = false;
};

/* The line of a head over the keys of a tile, for the queries of a warpgroup. */
struct alibi_line {
    float rise;      /* what an exponent grows by from key to key, before a query's place */
    float behind;    /* what it grows by behind the place, if a query sees a key there */
    int32_t place;   /* of the warpgroup's first query among the keys */
    uint32_t turned; /* a block b keys before the place may have keys on both sides if 0 <= b + 62 <= turned */
};

/* query0: the warpgroup's first; keys: of a block. */
template <class Band>
GLINT_DEVICE struct alibi_line line_of(const struct alibi_bias &bias, const Band &mask, int32_t query0, const int keys)
{
    const float rise = -bias.slope * GLINT_LOG2_E;
    bool all_before = false;

    if constexpr (Band::RIGHT && !Band::INTERVALS)
        all_before = mask.right <= bias.offset;
    return {rise, all_before ? rise : -rise, (int32_t)((uint32_t)query0 + (uint32_t)bias.offset), all_before ? 0u : keys + 60u};
}

/* Beyond it exponents are natural ones, and are made relative to a reference after they are rounded. */
GLINT_DEVICE bool is_moderate(float x)
{
    return fabsf(x) < 1e6f;
}

/* How far above its greatest weight a row's reference goes, where all keys of a block are behind the row's place: by
 * what the line will rise on the way there, so that it need not follow block by block. For weights with float32's
 * exponents. */
template <int below> GLINT_DEVICE float headroom(const struct alibi_line &line, int32_t ahead)
{
    return below > 0 && ahead <= 0 ? fmaxf(fminf(line.rise * (float)-ahead, 64.0f), 0.0f) : 0.0f;
}

/* Exponents of the scores of a block that is not plain, in their place: where a row has met no score, where exponents
 * may go beyond 12 - below, where scores are of such a size that a sum with them has no digits left, or where the line
 * turns. Keys behind a query's place are the mirror image of keys before it; a query of which all keys of the block are
 * behind has a line that falls from the first one on. A row's reference follows when its greatest weight goes beyond
 * 2^(12 - below), so that this is 2^-below again. References are natural ones, as scores may be up to float32's end.
 * `before`: keys of the block before the place of the warpgroup's first query. */
template <int keys, int below, class Block>
GLINT_DEVICE void follow_references(struct softmax_rows &rows, float (&s)[keys / 2], const struct alibi_line &line, int32_t before,
                                    float (&factor)[2], float scale)
{
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float rise, distance, mirror, room;
        /* Anew each time, so that what is made of it takes no registers. */
        auto look = [&](float unit) {
            const int32_t thread = (int32_t)(thread_index_anew() % 128), column = 2 * (thread & 3);
            const int32_t ahead = (int32_t)((uint32_t)before + (uint32_t)(thread / 32 * 16 + thread % 32 / 4 + 8 * half));
            const bool behind = ahead <= 0;

            rise = (behind ? line.behind : line.rise) * unit;
            distance = (float)(ahead - column);
            room = headroom<below>(line, ahead) + (float)below;
            mirror = shfl_xor(behind ? GLINT_INFINITY : 2.0f * distance, 0);
        };
        auto exponent = [&](const int i, float of_score, float shift) {
            const float key = (float)(i / 4 * 8 + i % 2);

            return fmaf(s[i], of_score, fmaf(fminf(key, mirror - key), rise, shift));
        };
        const float reference = rows.max[half];
        float largest = -GLINT_INFINITY;

        if constexpr (Block::IS_FIRST) {
            look(GLINT_LN_2);
#pragma unroll
            for (int i = 2 * half; i < keys / 2; i += i % 2 ? 3 : 1) {
                s[i] = exponent(i, scale * GLINT_LN_2, -rise * distance);
                largest = fmaxf(largest, s[i]);
            }
            rows.max[half] = quad_max(largest) + room * GLINT_LN_2;
            const float step = rows.max[half] == -GLINT_INFINITY ? 0.0f : rows.max[half];
#pragma unroll
            for (int i = 2 * half; i < keys / 2; i += i % 2 ? 3 : 1)
                s[i] = (s[i] - step) * GLINT_LOG2_E;
        } else {
            const bool first = reference == -GLINT_INFINITY;

#pragma unroll
            for (int i = 2 * half; i < keys / 2; i += i % 2 ? 3 : 1)
                largest = fmaxf(largest, s[i]);
            largest = quad_max(largest) * scale;
            const bool natural = !is_moderate(reference) || largest >= 1e6f;
            const float unit = natural ? GLINT_LN_2 : 1.0f, of_score = scale * unit;
            look(unit);
            float shift = fmaf(-rise, distance, natural ? 0.0f : -reference * GLINT_LOG2_E);
            largest = -GLINT_INFINITY;
#pragma unroll
            for (int i = 2 * half; i < keys / 2; i += i % 2 ? 3 : 1)
                largest = fmaxf(largest, exponent(i, of_score, shift));
            largest = quad_max(largest);
            const float growth = natural ? (largest - reference) * GLINT_LOG2_E : largest;
            const bool grown = first ? largest > -GLINT_INFINITY : growth > (float)(12 - below);
            const float now = !grown    ? reference
                              : natural ? largest + room * GLINT_LN_2
                                        : fmaf(largest + room, GLINT_LN_2, reference);

            factor[half] = grown && !first ? ex2((reference - now) * GLINT_LOG2_E) : 1.0f;
            rows.sum[half] *= factor[half];
            rows.max[half] = now;
            const float step = natural && now != -GLINT_INFINITY ? now : 0.0f, per_unit = natural ? GLINT_LOG2_E : 1.0f;
            look(unit);
            shift = fmaf(-rise, distance, natural ? 0.0f : -now * GLINT_LOG2_E);
#pragma unroll
            for (int i = 2 * half; i < keys / 2; i += i % 2 ? 3 : 1)
                s[i] = (exponent(i, of_score, shift) - step) * per_unit;
        }
    }
}

enum softened { STAYS, GROWN, FADED };

/* P in place of S of the keys from key0 on, where scores that the mask hides are -inf. GROWN: what was summed before
 * is to be multiplied by factor[half]. FADED: all weights would be 0, as all exponents are below -127, and S is
 * left. */
template <int keys, int below, class Block>
GLINT_DEVICE enum softened soften_block(struct softmax_rows &rows, float (&s)[keys / 2], const struct alibi_line &line,
                                        int32_t key0, float (&factor)[2], float scale)
{
    const int32_t before = (int32_t)((uint32_t)line.place - (uint32_t)key0);
    const int32_t own = (int32_t)((uint32_t)before + thread_index() % 128 / 32 * 16 + lane_index() / 4);
    const float rise = before < -62 ? line.behind : line.rise;
    float shift[2], most[2], odd[2] = {0.0f, 0.0f};
    int32_t largest = 0; /* or NaN, as the NaN of a product has no sign */

#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const float distance = (float)(own + 8 * half - 2 * (int32_t)(lane_index() & 3));

        shift[half] = fmaf(-rise, distance, -rows.max[half] * GLINT_LOG2_E);
        most[half] = fmaxf(shift[half], fmaf((float)(keys - 1), rise, shift[half]));
    }
#pragma unroll
    for (int i = 0; i < keys / 2; ++i)
        largest = max(largest, (int32_t)bits_of(s[i]));
    const float score = float_of((uint32_t)largest), bound = fmaf(score, scale, fmaxf(most[0], most[1]));
    const bool general =
        (uint32_t)before + 62 <= line.turned || !is_moderate(fmaxf(fmaxf(fabsf(rows.max[0]), fabsf(rows.max[1])), score * scale));
    bool followed = true;

    if (Block::IS_FIRST || warp_any(general)) {
        follow_references<keys, below, Block>(rows, s, line, before, factor, scale);
    } else {
        followed = warp_any(!(bound <= (float)(12 - below)));
        if (followed) { /* as follow_references does */
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int32_t ahead = own + 8 * half;
                const float reference = rows.max[half];
                float most_here = -GLINT_INFINITY;

#pragma unroll
                for (int i = 2 * half; i < keys / 2; i += i % 2 ? 3 : 1)
                    most_here = fmaxf(most_here, fmaf(s[i], scale, fmaf((float)(i / 4 * 8 + i % 2), rise, shift[half])));
                most_here = quad_max(most_here);
                const bool grown = most_here > (float)(12 - below);
                const float now =
                    grown ? fmaf(most_here + (headroom<below>(line, ahead) + (float)below), GLINT_LN_2, reference) : reference;

                factor[half] = grown ? ex2((reference - now) * GLINT_LOG2_E) : 1.0f;
                rows.sum[half] *= factor[half];
                rows.max[half] = now;
                shift[half] = fmaf(-rise, (float)(ahead - 2 * (int32_t)(lane_index() & 3)), -now * GLINT_LOG2_E);
            }
        } else if (!warp_any(!(bound < -127.0f))) {
            return FADED;
        }
#pragma unroll
        for (int i = 0; i < keys / 2; ++i)
            s[i] = fmaf(s[i], scale, fmaf((float)(i / 4 * 8 + i % 2), rise, shift[i / 2 % 2]));
    }
#pragma unroll
    for (int i = 0; i < keys / 2; ++i) { /* as in make_weights, whose machine code a common loop would change */
        s[i] = ex2(s[i]);
        if (i % 2)
            odd[i / 2 % 2] += s[i];
        else
            rows.sum[i / 2 % 2] += s[i];
    }
    rows.sum[0] += odd[0];
    rows.sum[1] += odd[1];
    return followed ? GROWN : STAYS;
}

#endif
