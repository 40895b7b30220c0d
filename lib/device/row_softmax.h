/* Softmax of 16 rows of a warp that come block by block, where a lane holds accumulators of two of them: of wgmma, and
 * of mma.sync in a step. What is done to a row depends on that row alone, to the bit. */
#ifndef GLINT_DEVICE_ROW_SOFTMAX_H
#define GLINT_DEVICE_ROW_SOFTMAX_H

#include "lib/device/softmax.h"

/* A thread has keys 8 j + 2 (lane & 3) + {0, 1} of queries lane / 4 (half 0) and lane / 4 + 8 (half 1) of its warp's
 * sixteen: s[4 j + 2 half + {0, 1}]. Maxima are a query's, so the same in the four lanes of a quad; sums are the
 * thread's own part. */
struct softmax_rows {
    float max[2], sum[2];
};

GLINT_DEVICE void softmax_begin(struct softmax_rows &rows)
{
    rows.max[0] = rows.max[1] = -GLINT_INFINITY;
    rows.sum[0] = rows.sum[1] = 0.0f;
}

/* Hides the keys after last[half], counted from this thread's first key of the block on. */
template <int keys> GLINT_DEVICE void hide_after(float (&s)[keys / 2], const int32_t (&last)[2])
{
#pragma unroll
    for (int i = 0; i < keys / 2; ++i)
        s[i] = i / 4 * 8 + i % 2 > last[i / 2 % 2] ? -GLINT_INFINITY : s[i];
}

/* The greatest score of either query that this lane holds. */
template <int keys> GLINT_DEVICE void find_maxima(float (&maxima)[2], const float (&s)[keys / 2])
{
    maxima[0] = s[0];
    maxima[1] = s[2];
#pragma unroll
    for (int i = 0; i < keys / 2; ++i)
        maxima[i / 2 % 2] = fmaxf(maxima[i / 2 % 2], s[i]);
}

/* Exponents are relative to a maximum that follows the true one only when that has grown by more than 2^12. A query's
 * greatest weight is then 2^-BELOW again, and is never beyond 2^(12 - BELOW). O and the sums carry the same factor, so
 * the result is the same, and most blocks need no rescaling; a quad's lanes need not even know each other's maxima.
 * What is done to a row depends on that row alone. With a mask, whose first block may show a single key, a growth of
 * 2^4 takes 8 % longer than one of 2^8.
 *
 * shift is what scaled scores are shifted by: the maximum times the scale, rounded, and what the rounding leaves
 * over is an exponent that all weights of the row have in common. So that it stays below 1, scores beyond 10^7 are
 * made relative to the maximum here, before they are scaled; so are those of a row that has seen nothing yet (-inf).
 * Returns whether what was summed before is to be multiplied by factor[half], the same in all lanes. */
template <int keys, int below>
GLINT_DEVICE bool follow_maxima(struct softmax_rows &rows, float (&s)[keys / 2], float (&shift)[2], float (&factor)[2], float scale)
{
    float maxima[2];
    bool wanted = false;

    find_maxima<keys>(maxima, s);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        shift[half] = fmaf(-rows.max[half], scale, (float)-below);
        wanted |= !(fmaf(maxima[half], scale, shift[half]) <= (float)(12 - below)) || !(fabsf(shift[half]) < 1e7f);
    }
    wanted = warp_any(wanted);
    if (!wanted)
        return false;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const float before = rows.max[half], maximum = quad_max(maxima[half]);
        const bool grown = !(fmaf(maximum, scale, shift[half]) <= (float)(12 - below));
        const float now = grown ? fmaxf(before, maximum) : before;
        const bool moderate = fabsf(now) * scale < 1e7f;

        factor[half] = before != -GLINT_INFINITY && grown ? ex2((before - now) * scale) : 1.0f;
        rows.max[half] = now;
        rows.sum[half] *= factor[half];
        shift[half] = moderate ? fmaf(-now, scale, (float)-below) : (float)-below;
        if (!moderate && now != -GLINT_INFINITY) {
#pragma unroll
            for (int i = 0; i < keys / 2; ++i)
                if (i / 2 % 2 == half)
                    s[i] -= now;
        }
    }
    return true;
}

/* NaN and infinities of one key's V, of which this lane has columns from `row` on, to O of the rows that see it:
 * sees(half). */
template <class Element, int n, class sees_t> GLINT_DEVICE void add_special_key(float (&o)[n], const char *row, const sees_t &sees)
{
#pragma unroll
    for (int i = 0; i < n; i += 4) {
        const uint32_t pair = bits_of(ld_global_f32((const float *)(row + 4 * i)));
        const uint32_t special = pair ^ finite_part(pair, Element::EXPONENT, 2);
#pragma unroll
        for (int half = 0; half < 2; ++half)
            if (special != 0 && sees(half)) {
                o[i + 2 * half] += Element::low(special);
                o[i + 2 * half + 1] += Element::high(special);
            }
    }
}

/* P = 2^(scale (S - max) - BELOW), in place of S; a query that has seen nothing yet keeps zeros. */
template <int keys>
GLINT_DEVICE void make_weights(struct softmax_rows &rows, float (&s)[keys / 2], const float (&shift)[2], float scale)
{
    float odd[2] = {0.0f, 0.0f}; /* a second chain of additions */

#pragma unroll
    for (int i = 0; i < keys / 2; ++i) {
        s[i] = ex2(fmaf(s[i], scale, shift[i / 2 % 2]));
        if (i % 2)
            odd[i / 2 % 2] += s[i];
        else
            rows.sum[i / 2 % 2] += s[i];
    }
    rows.sum[0] += odd[0];
    rows.sum[1] += odd[1];
}

template <int columns> GLINT_DEVICE void rescale(float (&o)[columns / 2], const float (&factor)[2])
{
#pragma unroll
    for (int i = 0; i < columns / 2; ++i)
        o[i] *= factor[i / 2 % 2];
}

/* words[j] of lane q of a quad becomes words[q] of its lane j. */
GLINT_DEVICE void quad_transpose(uint32_t (&words)[4])
{
    const bool odd = lane_index() & 1, upper = lane_index() & 2;

#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const uint32_t other = bits_of(shfl_xor(float_of(odd ? words[i] : words[i + 1]), 1));

        words[i] = odd ? other : words[i];
        words[i + 1] = odd ? words[i + 1] : other;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const uint32_t other = bits_of(shfl_xor(float_of(upper ? words[i] : words[i + 2]), 2));

        words[i] = upper ? other : words[i];
        words[i + 2] = upper ? words[i + 2] : other;
    }
}

#endif
