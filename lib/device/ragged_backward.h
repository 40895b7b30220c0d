/* The backward pass over sequences whose lengths the kernel reads, ragged ones and those of a padded batch: where the rows of one lie, and what that
 * changes in the steps of delta.h and gradients.h. */
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

GLINT_DEVICE const float *lse_of(const struct glint_gpu_call &p, const struct ragged_row_block &block, int32_t row)
{
    return p.lse + (int64_t)block.head_q * block.rows + block.first + row;
}

GLINT_DEVICE int64_t place_of(const struct glint_gpu_call &p, const struct ragged_row_block &block, int32_t row)
{
    return block.head_q * p.padded_q + block.padded + row;
}

GLINT_DEVICE int32_t end_of(const struct glint_gpu_call &, const struct ragged_row_block &block)
{
    return block.end;
}

template <int ROW_CHUNKS> GLINT_DEVICE struct ragged_row_block row_block_of(const struct glint_gpu_sequences &r, uint32_t kept)
{
    const struct ragged_tile tile = get_ragged_tile(kept);

    return {lane_index() % row_lanes<ROW_CHUNKS>::LANES, tile.head,         tile.row0, tile.first_q,
            (int32_t)ld_shared_u32(kept + 32),           tile.own.seqlen_q, r.rows_q};
}

/* ---- a padded batch: tensors are laid out for the bounds --------------------------------------------------------------------- */

/* A sequence of a call, as find_sequence finds it for the forward pass; the word for a fault, as note_fault. */
GLINT_DEVICE struct sequence find_padded_sequence(const struct glint_gpu_sequences &r, const struct glint_gpu_shape &shape,
                                                  int32_t batch)
{
    struct sequence own;

    own.seqlen_q = max(0, min(given_length(r.seqlens_q, batch, shape.seqlen_q), shape.seqlen_q));
    own.seqlen_k = max(0, min(given_length(r.seqlens_k, batch, shape.seqlen_k), shape.seqlen_k));
    find_sides(own, r);
    return own;
}

GLINT_DEVICE void note_padded_fault(const struct glint_gpu_sequences &r, const struct glint_gpu_shape &shape, int32_t batch)
{
    if (r.fault && ((uint32_t)given_length(r.seqlens_q, batch, shape.seqlen_q) > (uint32_t)shape.seqlen_q ||
                    (uint32_t)given_length(r.seqlens_k, batch, shape.seqlen_k) > (uint32_t)shape.seqlen_k))
        atomicMin(r.fault, (uint32_t)batch);
}

/* What a block works on: rows of a tile from row0 of a head of a sequence on. row0 below 0: nothing, as the sequence ends before. */
struct padded_tile {
    int32_t row0, head, batch, index; /* index: of the tile in its head */
    struct sequence own;
};

/* Finds the tile of this block among those of TILE queries, or keys, at the bound, of `heads` heads, and leaves it at `kept` as put_ragged_tile does.
 * One thread calls it. `section`: see find_place. */
template <int TILE, bool KEYS>
GLINT_DEVICE void find_padded_tile(const struct glint_gpu_sequences &r, const struct glint_gpu_shape &shape, int32_t heads,
                                   int32_t section, uint32_t kept)
{
    const int32_t bound = max(1, KEYS ? shape.seqlen_k : shape.seqlen_q), tiles = (bound + TILE - 1) / TILE;
    const struct block_place place = find_place(block_index(), (uint32_t)tiles, (uint32_t)(shape.batch * heads), (uint32_t)section);
    const int32_t batch = place.head / heads, index = KEYS ? place.index : tiles - 1 - place.index;
    const struct sequence own = find_padded_sequence(r, shape, batch);
    const bool any = index * TILE < (KEYS ? own.seqlen_k : own.seqlen_q);

    put_ragged_tile(kept, {any ? index * TILE : -1, place.head - batch * heads, batch, index, own});
}

GLINT_DEVICE struct padded_tile get_padded_tile(uint32_t kept)
{
    const struct ragged_tile tile = get_ragged_tile(kept);

    return {tile.row0, tile.head, tile.first_q, tile.first_k, tile.own};
}

/* Rows of a head of a sequence, for delta.h: its end alone is not the bound. */
struct padded_row_block : row_block {
    int32_t end;
};

GLINT_DEVICE int32_t end_of(const struct glint_gpu_call &, const struct padded_row_block &block)
{
    return block.end;
}

template <int ROW_CHUNKS>
GLINT_DEVICE struct padded_row_block padded_row_block_of(const struct glint_gpu_shape &shape, int32_t batch, int32_t head_q,
                                                         int32_t row0, int32_t end)
{
    struct padded_row_block block;

    block.lane = lane_index() % row_lanes<ROW_CHUNKS>::LANES;
    block.head = batch * shape.heads_q + head_q;
    block.row0 = row0;
    block.batch = batch;
    block.head_q = head_q;
    block.end = end;
    return block;
}

/* copy_queries of gradients.h, of the sequence that is kept in shared memory. */
template <class Q, int THREADS>
GLINT_DEVICE void copy_padded_queries(uint32_t thread, const struct glint_gpu_call &p, uint32_t kept, int32_t head_q, int32_t m,
                                      uint32_t stage, uint32_t q_tiles, uint32_t do_tiles, uint32_t rows_lse, uint32_t rows_delta)
{
    const struct padded_tile tile = get_padded_tile(kept);

    copy_queries<Q, THREADS>(thread, p, tile.batch, head_q, m, tile.own.seqlen_q, stage, q_tiles, do_tiles, rows_lse, rows_delta);
}

/* ---- both ---------------------------------------------------------------------------------------------------------------------- */

/* The gradient of a head's sink, as make_sink_gradient makes it: each thread goes through the sequences, in their order. */
template <class Element, int ROW_CHUNKS, bool CLEARS, class Band>
GLINT_DEVICE void make_ragged_sink_gradient(const struct glint_gpu_call &p, uint32_t sums)
{
    const struct glint_gpu_sequences &r = p.sequences;
    const struct ragged_side queries = queries_of(r, p.shape), keys = keys_of(r, p.shape);
    const int32_t head_q = (int32_t)block_index();
    const float sink = ld_global_f32(p.sinks + head_q);
    int32_t at_q = row_at(queries, 0), at_k = row_at(keys, 0);
    float total = 0.0f;

#pragma unroll 1
    for (int32_t batch = 0; batch < p.shape.batch; ++batch) {
        const int32_t end_q = max(at_q, row_at(queries, batch + 1)), end_k = max(at_k, row_at(keys, batch + 1));
        struct sequence own = {rows_of(queries, batch, at_q, end_q), rows_of(keys, batch, at_k, end_k), 0, 0};
        const struct ragged_row_block block = {0, head_q, 0, at_q, padded_first(at_q, batch), own.seqlen_q, r.rows_q};

        find_sides(own, r);
        const Band mask = mask_of<Band>(own);
        add_sink_gradient<Element, ROW_CHUNKS, CLEARS>(p, block, mask, sink, sums, total);
        at_q = end_q;
        at_k = end_k;
    }
    if (thread_index() == 0)
        st_global_f32(p.dsinks + head_q, 0.0f - total);
}

/* The same of a padded batch. */
template <class Element, int ROW_CHUNKS, bool CLEARS, class Band>
GLINT_DEVICE void make_padded_sink_gradient(const struct glint_gpu_call &p, uint32_t sums)
{
    const struct glint_gpu_sequences &r = p.sequences;
    const int32_t head_q = (int32_t)block_index();
    const float sink = ld_global_f32(p.sinks + head_q);
    float total = 0.0f;

#pragma unroll 1
    for (int32_t batch = 0; batch < p.shape.batch; ++batch) {
        const struct sequence own = find_padded_sequence(r, p.shape, batch);
        const struct padded_row_block block = padded_row_block_of<ROW_CHUNKS>(p.shape, batch, head_q, 0, own.seqlen_q);
        const Band mask = mask_of<Band>(own);

        add_sink_gradient<Element, ROW_CHUNKS, CLEARS>(p, block, mask, sink, sums, total);
    }
    if (thread_index() == 0)
        st_global_f32(p.dsinks + head_q, 0.0f - total);
}

/* copy_queries of gradients.h, of the sequence that is kept in shared memory. */
template <class Q, int THREADS>
GLINT_DEVICE void copy_ragged_queries(uint32_t thread, const struct glint_gpu_call &p, uint32_t kept, int32_t head_q, int32_t m,
                                      uint32_t stage, uint32_t q_tiles, uint32_t do_tiles, uint32_t rows_lse, uint32_t rows_delta)
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
