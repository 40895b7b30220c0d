/* What decode knows of rows from some of their keys, how two such results become one, and how the last one becomes O
 * and LSE. */
#ifndef GLINT_DEVICE_DECODE_RESULTS_H
#define GLINT_DEVICE_DECODE_RESULTS_H

#include "lib/device/decode/walk.h"

namespace decode
{

/* 2^(x log2(e)). Scores are in natural units as long as they may be large: times log2(e) a logit of 3e38 would be
 * infinite. */
GLINT_DEVICE float exponential(float x)
{
    return ex2(x * 1.44269504088896341f);
}

/* What is known of rows from some keys: the greatest score, and relative to it the sum of weights times V and that of
 * the weights, of which each warp has its own keys' part. */
template <class S> struct result {
    typename S::rows_t maximum, sum;
    typename S::output_t o;
};

template <class S> GLINT_DEVICE void begin_result(struct result<S> &r)
{
#pragma unroll
    for (int rt = 0; rt < S::ROW_TILES; ++rt) {
        r.maximum[rt][0] = r.maximum[rt][1] = -GLINT_INFINITY;
        r.sum[rt][0] = r.sum[rt][1] = 0.0f;
#pragma unroll
        for (int dt = 0; dt < S::DIM_MINE; ++dt)
            r.o[dt][rt][0] = r.o[dt][rt][1] = r.o[dt][rt][2] = r.o[dt][rt][3] = 0.0f;
    }
}

/* The maximum of a row over more keys goes into that so far; by what sums and O so far and theirs are multiplied. */
GLINT_DEVICE void fold_maximum(float &maximum, float more, float &keep, float &add)
{
    const float now = fmaxf(maximum, more), finite = now == -GLINT_INFINITY ? 0.0f : now;

    keep = exponential(maximum - finite);
    add = exponential(more - finite);
    maximum = now;
}

GLINT_DEVICE float fold_number(float x, float more, float keep, float add)
{
    return fmaf(keep, x, add * more);
}

/* Folds what is known of `keys` keys from first_key on into what is known of those before. Rows that see none of them
 * stay as they are, to the bit. */
template <class S>
GLINT_DEVICE void fold(struct result<S> &r, const struct result<S> &more, int32_t first_key, int32_t keys,
                       const struct sight<S> &sight)
{
#pragma unroll
    for (int rt = 0; rt < S::ROW_TILES; ++rt)
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
            float keep, add;

            if (S::mask::RIGHT && !reaches(sight, rt, odd, first_key, keys))
                continue;
            fold_maximum(r.maximum[rt][odd], more.maximum[rt][odd], keep, add);
            r.sum[rt][odd] = fold_number(r.sum[rt][odd], more.sum[rt][odd], keep, add);
#pragma unroll
            for (int dt = 0; dt < S::DIM_MINE; ++dt)
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    r.o[dt][rt][2 * half + odd] =
                        fold_number(r.o[dt][rt][2 * half + odd], more.o[dt][rt][2 * half + odd], keep, add);
        }
}

/* ---- results in the workspace ----------------------------------------------------------------------------------- */

/* A result's O lies as fragments, [row tile][column tile][lane % 4][lane / 4][register], so that a warp's stores are
 * whole lines of those rows that exist. */
template <class S>
GLINT_DEVICE float *partial_o_at(const struct glint_decode_params &p, int32_t tile, int32_t entry, int32_t rt, int32_t dt)
{
    return p.partial_o + ((((int64_t)tile * p.entries + entry) * S::ROW_TILES + rt) * S::DIM_TILES + dt) * 128;
}

template <class S> GLINT_DEVICE float *partial_row_at(const struct glint_decode_params &p, int32_t tile, int32_t entry, int32_t row)
{
    return p.partial_rows + (((int64_t)tile * p.entries + entry) * S::TILE_M + row) * S::ROW_FLOATS;
}

template <class S>
GLINT_DEVICE void store_partial(const struct glint_decode_params &p, const struct row_tile &t, int32_t entry,
                                const struct result<S> &r, uint32_t warp)
{
    const uint32_t lane = lane_index();

#pragma unroll
    for (int rt = 0; rt < S::ROW_TILES; ++rt) {
        const int32_t row = rt * 8 + 2 * (int32_t)(lane & 3);

        if (t.row0 + row < p.rows) {
#pragma unroll
            for (int dt = 0; dt < S::DIM_MINE; ++dt) {
                const uint32_t v[4] = {bits_of(r.o[dt][rt][0]), bits_of(r.o[dt][rt][1]), bits_of(r.o[dt][rt][2]),
                                       bits_of(r.o[dt][rt][3])};

                if (!S::UNEVEN || dt * S::WARPS + (int)warp < S::DIM_TILES)
                    st_global_u32x4(partial_o_at<S>(p, t.index, entry, rt, dt * S::WARPS + (int32_t)warp) +
                                        ((lane & 3) * 8 + (lane >> 2)) * 4,
                                    v);
            }
            if (lane < 4) {
                float *const at = partial_row_at<S>(p, t.index, entry, row);

                st_global_f32(at + S::WARPS + warp, r.sum[rt][0]);
                st_global_f32(at + S::ROW_FLOATS + S::WARPS + warp, r.sum[rt][1]);
                if (warp == 0) {
                    st_global_f32(at, r.maximum[rt][0]);
                    st_global_f32(at + S::ROW_FLOATS, r.maximum[rt][1]);
                }
            }
        }
    }
}

/* ---- O and LSE -------------------------------------------------------------------------------------------------- */

/* What a row ends with: the factor of its O, and its LSE. */
struct ending {
    float factor, lse;
};

/* The logit of a row's sink; -inf where there is none. */
GLINT_DEVICE float find_sink(const struct glint_decode_params &p, const struct row_tile &t, int32_t row)
{
    return p.sinks ? ld_global_f32(p.sinks + t.head_kv * p.shape.group + row % p.shape.group) : -GLINT_INFINITY;
}

/* A sink is one more score, of a key whose V is zero. A sum of zero is that of a row that sees no key, whose O is 0,
 * or whose scores are all -inf: its O, 0 / 0, is NaN. */
GLINT_DEVICE struct ending end_row(float maximum, float sum, float sink, bool sees)
{
    struct ending e;
    float keep = 1.0f;

    if (sink != -GLINT_INFINITY) {
        const float now = fmaxf(maximum, sink);

        keep = exponential(maximum - now);
        sum = fmaf(keep, sum, exponential(sink - now));
        maximum = now;
    }
    e.factor = sum == 0.0f && !sees ? 0.0f : keep / sum;
    e.lse = sum == 0.0f ? -GLINT_INFINITY : fmaf(lg2(sum), 0.693147180559945309f, maximum);
    return e;
}

/* Writes O and LSE of this warp's columns. Of 16-bit V a lane has a column of either half of a fragment: of two lanes
 * with neighbouring columns each stores both columns of one row. Of 8-bit V a lane has two neighbouring columns. */
template <class S, class Rows>
GLINT_DEVICE void store_output(const struct glint_decode_params &p, const struct row_tile &t, int32_t rows,
                               const struct result<S> &r, const typename S::rows_t &sinks, const struct sight<S> &sight,
                               uint32_t warp)
{
    typedef typename S::element element;
    const uint32_t lane = lane_index();

#pragma unroll
    for (int rt = 0; rt < S::ROW_TILES; ++rt) {
        const int32_t row = t.row0 + rt * 8 + 2 * (int32_t)(lane & 3);
        const struct ending end[2] = {end_row(r.maximum[rt][0], r.sum[rt][0], sinks[rt][0], sees_some(sight, rt, 0)),
                                      end_row(r.maximum[rt][1], r.sum[rt][1], sinks[rt][1], sees_some(sight, rt, 1))};

        if constexpr (S::WIDENED) {
#pragma unroll
            for (int odd = 0; odd < 2; ++odd) {
                char *const to = query_row<S, Rows>(p, p.o, t, row + odd < rows ? row + odd : t.row0);

#pragma unroll
                for (int dt = 0; dt < S::DIM_MINE; ++dt) {
                    const int32_t column = (dt * S::WARPS + (int32_t)warp) * 16 + (int32_t)(lane >> 2) * 2;

                    if (row + odd < rows && column < S::HEAD_DIM)
                        st_global_u32(to + column * S::BYTES,
                                      element::pack(r.o[dt][rt][odd] * end[odd].factor, r.o[dt][rt][2 + odd] * end[odd].factor));
                }
            }
        } else {
            const bool odd = (lane >> 2 & 1) != 0, mine = row + (int32_t)odd < rows;
            char *const to = query_row<S, Rows>(p, p.o, t, mine ? row + (int32_t)odd : t.row0);

#pragma unroll
            for (int dt = 0; dt < S::DIM_MINE; ++dt)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const float even_row = r.o[dt][rt][2 * half] * end[0].factor,
                                odd_row = r.o[dt][rt][2 * half + 1] * end[1].factor;
                    const float other = shfl_xor(odd ? even_row : odd_row, 4);
                    const int32_t column = (dt * S::WARPS + (int32_t)warp) * 16 + half * 8 + (int32_t)(lane >> 2 & 6);

                    if (mine && column < S::HEAD_DIM)
                        st_global_u32(to + column * S::BYTES, odd ? element::pack(other, odd_row) : element::pack(even_row, other));
                }
        }
        if (warp == 0 && lane < 4) {
            if (row < rows) {
                store_lse<Rows>(p, t, row, end[0].lse);
                note_logit<S>(p, t, row, r.maximum[rt][0]);
            }
            if (row + 1 < rows) {
                store_lse<Rows>(p, t, row + 1, end[1].lse);
                note_logit<S>(p, t, row + 1, r.maximum[rt][1]);
            }
        }
    }
}

} // namespace decode

#endif
