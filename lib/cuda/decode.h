/* How a decode call is shared out to blocks, and where its workspace lies. Host only; no result depends on what is decided here. */
#ifndef GLINT_CUDA_DECODE_H
#define GLINT_CUDA_DECODE_H

#include "lib/device/decode.h"

/* Bytes of K and V. */
#define GLINT_DECODE_LARGE_ITEM (INT64_C(1) << 20)

struct glint_decode_tile {
    int32_t rows, keys, chunk_steps, span_chunks, warps;
    int32_t dim; /* head_dim rounded up to 16 */
};

/* Shares the keys of the call out to blocks, `slots` of which run at a time, and places the workspace from address `base` (aligned to 256
 * bytes; NULL to count only). Returns its bytes. params->shape and the window (INT32_MAX where there is none) are filled in. */
static inline uint64_t glint_decode_layout(struct glint_decode_params *params, const struct glint_decode_tile *tile, int32_t slots,
                                           char *base)
{
    const struct glint_gpu_shape *shape = &params->shape;
    /* Keys that the queries see together; if these are not all, they begin anywhere. */
    const int64_t all = shape->seqlen_k, reach = (int64_t)params->window_left + params->window_right + shape->seqlen_q;
    const int64_t keys = reach < all ? reach : all, loose = reach < all;
    const int64_t steps = (keys + tile->keys - 1) / tile->keys + loose;
    const int64_t chunk = tile->chunk_steps, span = chunk * tile->span_chunks;
    int64_t tiles, parts, range, entries;
    uint64_t o_bytes, row_bytes;

    params->rows = shape->seqlen_q * shape->group;
    params->row_tiles = (params->rows + tile->rows - 1) / tile->rows;
    tiles = (int64_t)shape->batch * shape->heads_kv * params->row_tiles;
    /* Results of larger pieces are fewer, but there should be an item for each block. Up to four are better than one: blocks then walk
     * side by side. Tiles enough to fill the machine are not divided. */
    params->level = GLINT_DECODE_SPAN;
    entries = (steps + span - 1) / span + loose;
    range = span;
    if (tiles * entries < slots * 7 / 8) {
        params->level = GLINT_DECODE_CHUNK;
        entries = (steps + chunk - 1) / chunk + loose;
        range = chunk;
    }
    if (tiles * entries < slots * 7 / 8) {
        params->level = GLINT_DECODE_STEP;
        entries = steps;
        for (range = 1; tiles * ((steps + range - 1) / range) > slots && range < chunk / 2;)
            range *= 2; /* chunk_steps is a power of two */
    } else if (tiles * entries > 4 * slots)
        range *= (tiles * entries + 4 * slots - 1) / (4 * slots);
    parts = (entries * (params->level == GLINT_DECODE_STEP    ? 1
                        : params->level == GLINT_DECODE_CHUNK ? chunk
                                                              : span) +
             range - 1) /
            range;
    if (tiles >= slots * 3 / 4 || keys <= 256)
        parts = 1;
    if (parts <= 1) {
        params->level = GLINT_DECODE_ROW;
        parts = 1;
        entries = 0;
        range = steps;
    }
    params->range = (int32_t)range;
    params->parts = (int32_t)parts;
    params->entries = (int32_t)entries;
    params->items = (uint32_t)(tiles * parts);
    /* Blocks that go on from one item to the next have no start to wait for; where there are many and large ones, blocks that come as
     * others end are spread better. */
    params->blocks = params->items;
    if (params->items > (uint32_t)slots &&
        (params->items <= 8 * (uint32_t)slots || range * tile->keys * tile->dim * INT64_C(4) < GLINT_DECODE_LARGE_ITEM))
        params->blocks = (uint32_t)slots;
    o_bytes = (uint64_t)tiles * (uint64_t)entries * (uint64_t)tile->rows * (uint64_t)tile->dim * sizeof(float);
    row_bytes = (uint64_t)tiles * (uint64_t)entries * (uint64_t)tile->rows * 2 * (uint64_t)tile->warps * sizeof(float);
    params->partial_o = base && entries > 0 ? (float *)(void *)base : (float *)0;
    params->partial_rows = base && entries > 0 ? (float *)(void *)(base + o_bytes) : (float *)0;
    return (o_bytes + row_bytes + 255) / 256 * 256;
}

/* Blocks of the second kernel; the first has params->blocks. */
static inline uint64_t glint_decode_merge_blocks(const struct glint_decode_params *params, const struct glint_decode_tile *tile)
{
    if (params->level == GLINT_DECODE_ROW)
        return 0;
    return (uint64_t)params->shape.batch * (uint64_t)params->shape.heads_kv * (uint64_t)((params->rows + 1) / 2) *
           (uint64_t)(tile->dim / 16);
}

#endif
