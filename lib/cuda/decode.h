/* How a decode call is shared out to blocks, and where its workspace lies. Host only; no result depends on what is decided here. */
#ifndef GLINT_CUDA_DECODE_H
#define GLINT_CUDA_DECODE_H

#include "lib/device/decode.h"

struct glint_decode_tile {
    int32_t rows, keys, chunk_steps, span_chunks, warps;
    int32_t dim; /* head_dim rounded up to 16 */
};

/* Shares the keys of the call out to at most `slots` blocks, as many as run at a time, and places the workspace from address `base` (aligned to
 * 256 bytes; NULL to count only). Returns its bytes. params->shape is filled in. No result depends on what is decided here. */
static inline uint64_t glint_decode_layout(struct glint_decode_params *params, const struct glint_decode_tile *tile, int32_t slots,
                                           char *base)
{
    const struct glint_gpu_shape *shape = &params->shape;
    const int64_t steps = ((int64_t)shape->seqlen_k + tile->keys - 1) / tile->keys;
    const int64_t chunk = tile->chunk_steps, span = chunk * tile->span_chunks;
    int64_t tiles, parts, range, entries;
    uint64_t o_bytes, row_bytes;

    params->rows = shape->seqlen_q * shape->group;
    params->row_tiles = (params->rows + tile->rows - 1) / tile->rows;
    tiles = (int64_t)shape->batch * shape->heads_kv * params->row_tiles;
    parts = tiles > 0 && tiles < slots * 3 / 4 && shape->seqlen_k > 256 ? slots / tiles : 1;
    range = (steps + parts - 1) / parts;
    params->level = GLINT_DECODE_STEP;
    if (range <= chunk / 2) {
        int64_t least = range;

        for (range = 1; range < least;)
            range *= 2; /* chunk_steps is a power of two */
        entries = steps;
    } else if (range <= span * 3 / 4) {
        params->level = GLINT_DECODE_CHUNK;
        range = (range + chunk - 1) / chunk * chunk;
        entries = (steps + chunk - 1) / chunk;
    } else {
        params->level = GLINT_DECODE_SPAN;
        range = (range + span - 1) / span * span;
        entries = (steps + span - 1) / span;
    }
    parts = (steps + range - 1) / range;
    if (parts <= 1) {
        params->level = GLINT_DECODE_ROW;
        parts = 1;
        entries = 0;
    }
    params->range = (int32_t)range;
    params->parts = (int32_t)parts;
    params->entries = (int32_t)entries;
    params->items = (uint32_t)(tiles * parts);
    params->blocks = params->items < (uint32_t)slots ? params->items : (uint32_t)slots;
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
