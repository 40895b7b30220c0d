/* ALiBi in the backward kernels whose products are a warpgroup's (sm_90a). A weight is 2 to the power of
 *
 *     scale s + (rise c + shift - LSE)
 *
 * of a query that lies c queries after the thread's first one of a step, or c keys before its first one of a block. On
 * either side of a query's place the bias is a straight line, so c is a constant, rise is the same for a whole step,
 * and shift is the line at the thread's first query and key. Of few steps some keys lie before a query's place and some
 * behind it: these have the line of keys before it, which is bent behind it by a further pass.
 *
 * Query heads follow each other from step to step, and threads that compute have no registers for what is known of
 * them. So what loads a step leaves its line in shared memory, beside LSE. */
#ifndef GLINT_DEVICE_WARPGROUP_BACKWARD_BIAS_H
#define GLINT_DEVICE_WARPGROUP_BACKWARD_BIAS_H

#include "lib/device/bias.h"
#include "lib/device/warpgroup.h"

/* The line of a step, and how many bytes it leaves in each stage. */
struct no_line {
    enum : uint32_t { BYTES = 0 };
};

struct slope_line {
    enum : uint32_t { BYTES = 16 };
    float rise;   /* of an exponent, by the distance of the place of a query from a key before it */
    int32_t from; /* that distance, of the step's first query and the block's first key */
    float bend;   /* what the exponent of a key behind the place has more by that distance, which is below 0; or 0 */
};

/* By the one thread that loads, between its wait for an empty stage and its arrival. */
GLINT_DEVICE void leave_line(const struct no_line &, uint32_t) {}

GLINT_DEVICE void leave_line(const struct slope_line &line, uint32_t at)
{
    const uint32_t words[4] = {bits_of(line.rise), (uint32_t)line.from, bits_of(line.bend), 0};

    st_shared_u32x4(at, words);
}

/* Whether keys behind a query's place are seen by nobody. */
template <class Band> GLINT_DEVICE bool sees_before_alone(const struct alibi_bias &bias, const Band &mask)
{
    if constexpr (Band::RIGHT && !Band::INTERVALS)
        return mask.right <= bias.offset;
    else
        return false;
}

/* The line of queries [query0, query0 + queries) over keys [key0, key0 + keys). */
template <class Band>
GLINT_DEVICE struct slope_line line_over(const struct alibi_bias &bias, const Band &mask, int32_t query0, const int queries,
                                         int32_t key0, const int keys)
{
    const int32_t from = (int32_t)((uint32_t)query0 + (uint32_t)bias.offset - (uint32_t)key0);
    const float rise = bias.slope * GLINT_LOG2_E;

    if (from >= keys - 1 || sees_before_alone(bias, mask))
        return {rise, from, 0.0f};
    if (from <= 1 - queries)
        return {-rise, from, 0.0f};
    return {rise, from, -2.0f * rise};
}

/* What a row's bias makes of a call. */
template <class Bias> struct step_lines {
    typedef struct no_line line;

    template <class Mask> GLINT_DEVICE struct no_bias of_head(const struct glint_gpu_call &, int32_t, const Mask &)
    {
        return {};
    }
    template <class Mask>
    GLINT_DEVICE struct no_line of(const struct glint_gpu_call &, int32_t, const Mask &, int32_t, const int, int32_t, const int)
    {
        return {};
    }
};

template <> struct step_lines<alibi_bias> {
    typedef struct slope_line line;

    /* Of a head of the sequence that has this mask. */
    template <class Mask> GLINT_DEVICE struct alibi_bias of_head(const struct glint_gpu_call &p, int32_t head, const Mask &mask)
    {
        return alibi_bias::at(p, head, {mask.seqlen_q, mask.seqlen_k, 0, 0}, 0);
    }
    /* The line of a step. */
    template <class Mask>
    GLINT_DEVICE struct slope_line of(const struct glint_gpu_call &p, int32_t head, const Mask &mask, int32_t query0,
                                      const int queries, int32_t key0, const int keys)
    {
        return line_over(of_head(p, head, mask), mask, query0, queries, key0, keys);
    }
};

/* ---- keys by queries --------------------------------------------------------------------------------------------- */

/* P^T in place of S^T. rows: LSE of the thread's queries; line_at: where the step's line is; key(): the thread's first
 * one, of the block's. */
template <class Line, int queries, class Key>
GLINT_DEVICE void make_weights_of_keys(float (&s)[queries / 2], const float (&rows)[queries / 8][2], float scale, uint32_t line_at,
                                       const Key &key)
{
    if constexpr (Line::BYTES == 0) {
#pragma unroll
        for (int i = 0; i < queries / 2; ++i)
            s[i] = ex2(fmaf(s[i], scale, -rows[i / 4][i % 2]));
    } else {
        /* Anew each time, so that what is made of it takes no registers. */
        auto look = [&](float(&line)[2]) {
            ld_shared_f32x2(line, line_at);
            line[1] = (float)(int32_t)(bits_of(line[1]) + 2 * (thread_index_anew() & 3) - key());
        };
        float line[2];

        look(line);
        const float shift[2] = {line[0] * line[1], line[0] * (line[1] - 8.0f)};
#pragma unroll
        for (int i = 0; i < queries / 2; ++i)
            s[i] = fmaf(s[i], scale, shift[i / 2 % 2] - fmaf(-(float)(i / 4 * 8 + i % 2), line[0], rows[i / 4][i % 2]));
        const float bend = float_of(ld_shared_u32(line_at + 8));
        if (bend != 0.0f) {
            look(line);
#pragma unroll
            for (int i = 0; i < queries / 2; ++i)
                s[i] = fmaf(fminf(line[1] + (float)(i / 4 * 8 + i % 2 - i / 2 % 2 * 8), 0.0f), bend, s[i]);
        }
#pragma unroll
        for (int i = 0; i < queries / 2; ++i)
            s[i] = ex2(s[i]);
    }
}

/* ---- queries by keys --------------------------------------------------------------------------------------------- */

/* P in place of S, of a block of keys that has this line. lse: of the thread's two queries, from `query` on, of the
 * line's first one. */
template <int keys>
GLINT_DEVICE void make_weights_of_queries(float (&s)[keys / 2], const struct slope_line &line, const float (&lse)[2], float scale,
                                          int32_t query)
{
    const float first = (float)(int32_t)((uint32_t)line.from + (uint32_t)query - 2 * (lane_index() & 3));
    const float shift[2] = {fmaf(line.rise, first, -lse[0]), fmaf(line.rise, first + 8.0f, -lse[1])};

#pragma unroll
    for (int i = 0; i < keys / 2; ++i)
        s[i] = fmaf(s[i], scale, fmaf(-(float)(i / 4 * 8 + i % 2), line.rise, shift[i / 2 % 2]));
    if (line.bend != 0.0f) {
#pragma unroll
        for (int i = 0; i < keys / 2; ++i)
            s[i] = fmaf(fminf(first + (float)(i / 2 % 2 * 8 - i / 4 * 8 - i % 2), 0.0f), line.bend, s[i]);
    }
#pragma unroll
    for (int i = 0; i < keys / 2; ++i)
        s[i] = ex2(s[i]);
}

#endif
