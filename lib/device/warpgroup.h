/* Steps of the kernels whose products are a warpgroup's (sm_90a): rings of stages, tiles as the copy engine leaves them, softmax of the
 * 64 queries that a warpgroup owns, and how their results leave. wgmma.h says which thread holds what of an accumulator. */
#ifndef GLINT_DEVICE_WARPGROUP_H
#define GLINT_DEVICE_WARPGROUP_H

#include "lib/device/hopper.h"
#include "lib/device/hopper_params.h"
#include "lib/device/steps.h"

/* ---- rings -------------------------------------------------------------------------------------------------------------- */

/* A ring of stages, each with two mbarriers: full (its data has arrived) and empty (its readers are done). This is one party's place in
 * it. `phase` is the parity to wait for at the stage's full barrier; whoever fills the stage waits for the other one at the empty barrier,
 * which a barrier that nobody used yet has passed. */
struct ring {
    uint32_t stage, phase;
};

template <int stages> GLINT_DEVICE void ring_advance(struct ring &ring)
{
    if (stages == 1 || ++ring.stage == stages) {
        ring.stage = 0;
        ring.phase ^= 1;
    }
}

/* Past `steps` stages at once. */
template <int stages> GLINT_DEVICE void ring_skip(struct ring &ring, uint32_t steps)
{
    const uint32_t to = ring.stage + steps;

    ring.phase ^= to / stages & 1;
    ring.stage = to % stages;
}

/* ---- tiles -------------------------------------------------------------------------------------------------------------- */

/* `rows` x `columns` numbers of 16 bits in shared memory, as one tma_load of a box of {width / 2, rows, columns * 2 / width} elements with
 * the swizzle of `width` bytes (128 or 64) leaves them: slab after slab, a slab being all rows of width / 2 columns. The tile begins at a
 * multiple of 8 * width bytes. It serves as an operand both ways, so nothing is ever transposed:
 *     K-major,  the contraction runs along columns: Q and K in Q K^T,
 *     MN-major, the contraction runs along rows: V in P V. */
template <int rows_, int columns_, int width_> struct slab_tile {
    enum {
        rows = rows_,
        columns = columns_,
        width = width_,
        chunks = width / 16,
        slab_bytes = rows * width,
        bytes = rows * columns * 2
    };
    enum { swizzle = width == 128 ? TENSOR_MAP_SWIZZLE_128B : TENSOR_MAP_SWIZZLE_64B };
};

/* The operand's descriptor for step 0, and what is added for step kk of 16 along the contraction. Descriptors count 16 bytes. */
template <class tile> GLINT_DEVICE uint64_t along_columns(uint32_t at)
{
    return matrix_descriptor(at, 16, 8 * tile::width, (enum tensor_map_swizzle)tile::swizzle);
}

template <class tile> GLINT_DEVICE uint64_t column_step(const int kk)
{
    const int steps = tile::width / 32; /* of a slab */

    return (uint64_t)((kk / steps * tile::slab_bytes + kk % steps * 32) >> 4);
}

template <class tile> GLINT_DEVICE uint64_t along_rows(uint32_t at)
{
    return matrix_descriptor(at, tile::slab_bytes, 8 * tile::width, (enum tensor_map_swizzle)tile::swizzle);
}

template <class tile> GLINT_DEVICE uint64_t row_step(const int kk)
{
    return (uint64_t)(kk * 16 * tile::width >> 4);
}

/* Negates every number of a tile of a warpgroup's own, which has arrived. barrier: a named one of the warpgroup. */
template <class tile> GLINT_DEVICE void negate_slabs(uint32_t at, uint32_t barrier)
{
    for (uint32_t i = thread_index() % 128 * 16; i < tile::bytes; i += 128 * 16) {
        uint32_t v[4];

        ld_shared_u32x4(v, at + i);
        for (int j = 0; j < 4; ++j)
            v[j] ^= 0x80008000u;
        st_shared_u32x4(at + i, v);
    }
    fence_async_shared();
    named_sync(barrier, 128);
}

/* Whether `threads` threads, of which this is number `thread`, see NaN or infinity in bytes [0, bytes) at `at`: true in the threads that
 * do. They look without a branch, at four chunks at a time. */
GLINT_DEVICE bool sees_special(uint32_t at, const uint32_t bytes, uint32_t thread, const uint32_t threads, const uint32_t exponent)
{
    uint32_t sum = 0;

#pragma unroll 4
    for (uint32_t i = thread * 16; i < bytes; i += threads * 16) {
        uint32_t v[4];

        ld_shared_u32x4(v, at + i);
#pragma unroll
        for (int j = 0; j < 4; ++j)
            sum = gather_special(sum, v[j], exponent, 2);
    }
    return (sum & 0x7fff7fffu) != 0;
}

/* Makes zeros of them. Not for the inner loop. */
GLINT_DEVICE void remove_special(uint32_t at, const uint32_t bytes, uint32_t thread, const uint32_t threads,
                                 const uint32_t exponent)
{
#pragma unroll 1
    for (uint32_t i = thread * 16; i < bytes; i += threads * 16) {
        uint32_t v[4];

        ld_shared_u32x4(v, at + i);
#pragma unroll
        for (int j = 0; j < 4; ++j)
            v[j] = finite_part(v[j], exponent, 2);
        st_shared_u32x4(at + i, v);
    }
}

/* ---- softmax ------------------------------------------------------------------------------------------------------------ */

/* A thread has keys 8 j + 2 (lane & 3) + {0, 1} of queries lane / 4 (half 0) and lane / 4 + 8 (half 1) of its warp's sixteen:
 * s[4 j + 2 half + {0, 1}]. Maxima are a query's, so the same in the four lanes of a quad; sums are the thread's own part. */
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

/* Exponents are relative to a maximum that follows the true one only when that has grown by more than 2^12. A query's greatest weight is
 * then 2^-BELOW again, and is never beyond 2^(12 - BELOW). O and the sums carry the same factor, so the result is the same, and most
 * blocks need no rescaling; a quad's lanes need not even know each other's maxima. What is done to a row depends on that row alone. With
 * a mask, whose first block may show a single key, a growth of 2^4 takes 8 % longer than one of 2^8.
 *
 * shift is what scaled scores are shifted by: the maximum times the scale, rounded, and what the rounding leaves over is an exponent that
 * all weights of the row have in common. So that it stays below 1, scores beyond 10^7 are made relative to the maximum here, before they
 * are scaled; so are those of a row that has seen nothing yet (-inf). Returns whether what was summed before is to be multiplied by
 * factor[half], the same in all lanes. */
template <int keys, int below>
GLINT_DEVICE bool follow_maxima(struct softmax_rows &rows, float (&s)[keys / 2], float (&shift)[2], float (&factor)[2], float scale)
{
    float maxima[2] = {s[0], s[2]};
    bool wanted = false;

#pragma unroll
    for (int i = 0; i < keys / 2; ++i)
        maxima[i / 2 % 2] = fmaxf(maxima[i / 2 % 2], s[i]);
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

/* Natural logarithm of a row's sum of exponentials, of which the sum of weights and their maximum are known. */
template <int below> GLINT_DEVICE float log_sum(float max, float sum, float softmax_scale)
{
    return sum == 0.0f ? -GLINT_INFINITY : max * fabsf(softmax_scale) + (lg2(sum) + (float)below) * 0.693147180559945309f;
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
