/* The first kernel of every backward pass. */
#ifndef GLINT_DEVICE_DELTA_H
#define GLINT_DEVICE_DELTA_H

#include "lib/device/tile.h"

/* Lanes of a warp that share a row. */
template <class Row> struct row_lanes {
    enum { LANES = Row::ROW_CHUNKS <= 8 ? 8 : Row::ROW_CHUNKS <= 16 ? 16 : 32 };
};

/* delta = rowsum(dO o O) and LSE in powers of two, for GLINT_GPU_ROW_PAD queries of one head by 256 threads; a row that sees no key, or lies
 * past the end, gets LSE = +inf, which makes its P exactly 0. A row whose dO holds NaN or infinity has a delta that is neither finite; of
 * a row that sees no key, neither is it when its Q does. blind_chunk is told of every chunk of rows that see no
 * key. `lane`: of those that share the row. Row: a type of tiles with such rows. */
template <class Row, class blind_row_t>
GLINT_DEVICE void make_delta(const struct glint_backward_params &p, uint32_t lane, int32_t batch, int32_t head_q, int32_t head,
                             int32_t row0, blind_row_t blind_chunk)
{
    typedef typename Row::element element;
    enum { ROW_CHUNKS = Row::ROW_CHUNKS, LANES = row_lanes<Row>::LANES, ROWS = 32 / LANES }; /* rows that a warp takes at a time */

    for (int32_t row = row0 + (int32_t)(thread_index() / LANES); row < row0 + GLINT_GPU_ROW_PAD; row += 8 * ROWS) {
        const char *o_row = view_row(&p.o, batch, head_q, row, element::BYTES);
        const char *dout_row = view_row(&p.dout, batch, head_q, row, element::BYTES);
        const int64_t place = head * p.padded_q + row;
        float sum = 0.0f, lse = GLINT_INFINITY;

        if (row < p.shape.seqlen_q) {
            lse = ld_global_f32(p.lse + (int64_t)head * p.shape.seqlen_q + row);
            lse = lse == -GLINT_INFINITY ? GLINT_INFINITY : lse * 1.44269504088896340736f;
            for (uint32_t chunk = lane; chunk < ROW_CHUNKS; chunk += LANES) {
                uint32_t o[4], dout[4];

                ld_global_u32x4(o, o_row + chunk * 16);
                ld_global_u32x4(dout, dout_row + chunk * 16);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    if constexpr (element::BYTES == 4)
                        sum = fmaf(float_of(o[i]), float_of(dout[i]), sum);
                    else {
                        sum = fmaf(element::low(o[i]), element::low(dout[i]), sum);
                        sum = fmaf(element::high(o[i]), element::high(dout[i]), sum);
                    }
                }
            }
            if (lse == GLINT_INFINITY) {
                const char *q_row = view_row(&p.q, batch, head_q, row, element::BYTES);

                for (uint32_t chunk = lane; chunk < ROW_CHUNKS; chunk += LANES) {
                    uint32_t q[4];

                    ld_global_u32x4(q, q_row + chunk * 16);
                    for (int i = 0; i < 4; ++i)
                        if (finite_part(q[i], element::EXPONENT, element::BYTES) != q[i])
                            sum = GLINT_INFINITY;
                    blind_chunk(row, chunk);
                }
            }
        }
#pragma unroll
        for (uint32_t mask = 1; mask < LANES; mask *= 2)
            sum += shfl_xor(sum, mask);
        if (lane == 0) {
            st_global_f32(p.lse_log2 + place, lse);
            st_global_f32(p.delta + place, lse == GLINT_INFINITY && fabsf(sum) < GLINT_INFINITY ? 0.0f : sum);
        }
    }
}

#endif
