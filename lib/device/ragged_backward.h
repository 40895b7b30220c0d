/* The backward pass over ragged sequences: where the rows of one lie, and what that changes in the steps of delta.h and gradients.h. */
#ifndef GLINT_DEVICE_RAGGED_BACKWARD_H
#define GLINT_DEVICE_RAGGED_BACKWARD_H

#include "lib/device/delta.h"
#include "lib/device/gradients.h"
#include "lib/device/ragged.h"

/* Rows of a head of a sequence, for delta.h. */
struct ragged_row_block {
    uint32_t lane;
    int32_t head_q, row0;
    int32_t first, padded, end; /* where the sequence begins in tensors and in padded arrays, and how many rows it has */
    int32_t rows;               /* of all sequences */
};

GLINT_DEVICE char *row_of(const struct glint_gpu_view &view, const struct ragged_row_block &block, int32_t row,
                          const int element_bytes)
{
    return view_row(&view, 0, block.head_q, block.first + row, element_bytes);
}

GLINT_DEVICE const float *lse_of(const struct glint_backward_params &p, const struct ragged_row_block &block, int32_t row)
{
    return p.lse + (int64_t)block.head_q * block.rows + block.first + row;
}

GLINT_DEVICE int64_t place_of(const struct glint_backward_params &p, const struct ragged_row_block &block, int32_t row)
{
    return block.head_q * p.padded_q + block.padded + row;
}

GLINT_DEVICE int32_t end_of(const struct glint_backward_params &, const struct ragged_row_block &block)
{
    return block.end;
}

template <int ROW_CHUNKS> GLINT_DEVICE struct ragged_row_block row_block_of(const struct glint_ragged &r, uint32_t kept)
{
    const struct ragged_tile tile = get_ragged_tile(kept);

    return {lane_index() % row_lanes<ROW_CHUNKS>::LANES, tile.head,         tile.row0, tile.first_q,
            (int32_t)ld_shared_u32(kept + 32),           tile.own.seqlen_q, r.rows_q};
}

/* make_blind_row of delta.h. */
template <class Element, int ROW_CHUNKS, bool CLEARS>
GLINT_DEVICE void make_ragged_blind_row(const struct glint_backward_params &p, const struct ragged_row_block &block, int32_t row)
{
    const int64_t place = place_of(p, block, row);
    const char *q_row = row_of(p.q, block, row, Element::BYTES);
    const uint32_t zero[4] = {0, 0, 0, 0};
    bool special = false;

#pragma unroll 1
    for (uint32_t chunk = 0; chunk < ROW_CHUNKS; ++chunk) {
        uint32_t q[4];

        ld_global_u32x4(q, q_row + chunk * 16);
        for (int i = 0; i < 4; ++i)
            special |= finite_part(q[i], Element::EXPONENT, Element::BYTES) != q[i];
        if (CLEARS)
            st_global_u32x4(row_of(p.dq, block, row, Element::BYTES) + chunk * 16, zero);
    }
    st_global_f32(p.lse_log2 + place, GLINT_INFINITY);
    if (special)
        st_global_f32(p.delta + place, GLINT_INFINITY);
}

/* What make_sink_gradient does with one sequence: its rows that see a key add exp(sink - LSE) delta to `total` of thread 0. `sums`: 32 bytes of
 * shared memory. The two share no code: the machine code of kernels without ragged sequences would be another. */
template <class Element, int ROW_CHUNKS, bool CLEARS, class Band>
GLINT_DEVICE void add_sink_gradient(const struct glint_backward_params &p, const struct ragged_row_block &block, const Band &mask,
                                    float sink, uint32_t sums, float &total)
{
    const uint32_t own = sums + warp_index() * 4;
    float sum = 0.0f;

#pragma unroll 4
    for (int32_t row = (int32_t)thread_index(); row < end_of(p, block); row += 256) {
        const float lse = ld_global_f32(lse_of(p, block, row));
        const float delta = ld_global_f32(p.delta + place_of(p, block, row));
        const float above = sink - lse; /* 0 at most, but for rounding */

        if (first_key(mask, row) <= last_key(mask, row) && lse != -GLINT_INFINITY)
            sum = fmaf(ex2((above > 0.0f ? 0.0f : above) * 1.44269504088896340736f), delta, sum);
    }
#pragma unroll 1
    for (int32_t row = (int32_t)thread_index(); row < end_of(p, block); row += 256)
        if (first_key(mask, row) > last_key(mask, row))
            make_ragged_blind_row<Element, ROW_CHUNKS, CLEARS>(p, block, row);
#pragma unroll
    for (uint32_t lanes = 1; lanes < 32; lanes *= 2)
        sum += shfl_xor(sum, lanes);
    if (lane_index() == 0)
        st_shared_f32(own, sum);
    block_sync();
    if (thread_index() == 0) {
        float of_batch = 0.0f;

        for (uint32_t warp = 0; warp < 8; ++warp)
            of_batch += ld_shared_f32(sums + warp * 4);
        total += of_batch;
    }
    block_sync();
}

/* The gradient of a head's sink, as make_sink_gradient makes it: each thread goes through the sequences, in their order. */
template <class Element, int ROW_CHUNKS, bool CLEARS, class Band>
GLINT_DEVICE void make_ragged_sink_gradient(const struct glint_sinks_params &call, const struct glint_ragged &r, uint32_t sums)
{
    const struct glint_backward_params &p = call.base;
    const struct ragged_side queries = queries_of(r, p.shape), keys = keys_of(r, p.shape);
    const int32_t head_q = (int32_t)block_index();
    const float sink = ld_global_f32(call.sinks + head_q);
    int32_t at_q = row_at(queries, 0), at_k = row_at(keys, 0);
    float total = 0.0f;

#pragma unroll 1
    for (int32_t batch = 0; batch < p.shape.batch; ++batch) {
        const int32_t end_q = max(at_q, row_at(queries, batch + 1)), end_k = max(at_k, row_at(keys, batch + 1));
        struct sequence own = {rows_of(queries, batch, at_q, end_q), rows_of(keys, batch, at_k, end_k), 0, 0};
        const struct ragged_row_block block = {0, head_q, 0, at_q, padded_first(at_q, batch), own.seqlen_q, r.rows_q};

        find_sides(own, r);
        const Band mask = {own.left, own.right, own.seqlen_q, own.seqlen_k};
        add_sink_gradient<Element, ROW_CHUNKS, CLEARS>(p, block, mask, sink, sums, total);
        at_q = end_q;
        at_k = end_k;
    }
    if (thread_index() == 0)
        st_global_f32(call.dsinks + head_q, 0.0f - total);
}

/* copy_queries of gradients.h, of the sequence that is kept in shared memory. */
template <class Q, int THREADS>
GLINT_DEVICE void copy_ragged_queries(uint32_t thread, const struct glint_backward_params &p, uint32_t kept, int32_t head_q,
                                      int32_t m, uint32_t stage, uint32_t q_tiles, uint32_t do_tiles, uint32_t rows_lse,
                                      uint32_t rows_delta)
{
    enum { TILE_M = Q::ROWS, ROW_BYTES = TILE_M * 4 };
    const struct ragged_tile tile = get_ragged_tile(kept);
    const int32_t first = tile.first_q + m * TILE_M, end = tile.first_q + tile.own.seqlen_q;
    const int64_t row = head_q * p.padded_q + (int32_t)ld_shared_u32(kept + 32) + m * TILE_M;

    copy_tile_by<Q, THREADS>(thread, q_tiles + stage * Q::BYTES, p.q, 0, head_q, first, end);
    copy_tile_by<Q, THREADS>(thread, do_tiles + stage * Q::BYTES, p.dout, 0, head_q, first, end);
    if (thread < ROW_BYTES / 16) {
        cp_async_16(rows_lse + stage * ROW_BYTES + thread * 16, p.lse_log2 + row + thread * 4, true);
        cp_async_16(rows_delta + stage * ROW_BYTES + thread * 16, p.delta + row + thread * 4, true);
    }
}

#endif
