/* How a decode call is shared out to blocks, and where its workspace lies. Host only; no result depends on what is decided here. */
#ifndef GLINT_CUDA_DECODE_H
#define GLINT_CUDA_DECODE_H

#include "lib/device/decode.h"

struct glint_decode_tile {
    int32_t rows, keys, chunk_steps, span_chunks;
    int32_t dim; /* head_dim rounded up to 16 */
};

/* Shares the keys of the call out to at most `slots` blocks, as many as run at a time, and places the workspace from address `base` (aligned to
 * 256 bytes; NULL to count only). Returns its bytes. params->shape is filled in. No result depends on what is decided here. */
static inline uint64_t glint_decode_layout(struct glint_decode_params *params, const struct glint_decode_tile *tile, int32_t slots,
                                           char *base)
{
    const struct glint_gpu_shape *shape = &params->shape;
    const int64_t steps = ((int64_t)shape->seqlen_k + tile->keys - 1) / tile->keys;
    int64_t tiles, parts, range;
    uint64_t o_bytes, row_bytes;

    params->rows = shape->seqlen_q * shape->group;
    params->row_tiles = (params->rows + tile->rows - 1) / tile->rows;
    tiles = (int64_t)shape->batch * shape->heads_kv * params->row_tiles;
    parts = tiles > 0 && tiles < slots * 3 / 8 && steps > 4 ? slots / tiles : 1;
    range = (steps + parts - 1) / parts;
    if (range <= tile->chunk_steps) {
        int64_t least = range;

        for (range = 1; range < least;)
            range *= 2; /* chunk_steps is a power of two */
    } else
        range = (range + tile->chunk_steps - 1) / tile->chunk_steps * tile->chunk_steps;
    params->range = (int32_t)(range > 0 ? range : 1);
    params->parts = (int32_t)((steps + params->range - 1) / params->range);
    params->partial_o = params->partial_rows = (float *)0;
    if (params->parts <= 1) {
        params->parts = 1;
        params->by_step = params->entries = 0;
        return 0;
    }
    params->by_step = params->range < tile->chunk_steps;
    params->entries = (int32_t)(params->by_step ? steps : (steps + tile->chunk_steps - 1) / tile->chunk_steps);
    o_bytes = (uint64_t)tiles * (uint64_t)params->entries * (uint64_t)tile->rows * (uint64_t)tile->dim * sizeof(float);
    row_bytes = (uint64_t)tiles * (uint64_t)params->entries * (uint64_t)tile->rows * 2 * sizeof(float);
    if (base) {
        params->partial_o = (float *)(void *)base;
        params->partial_rows = (float *)(void *)(base + o_bytes);
    }
    return (o_bytes + row_bytes + 255) / 256 * 256;
}

/* Blocks of the two kernels. */
static inline uint64_t glint_decode_blocks(const struct glint_decode_params *params)
{
    return (uint64_t)params->shape.batch * (uint64_t)params->shape.heads_kv * (uint64_t)params->row_tiles * (uint64_t)params->parts;
}

static inline uint64_t glint_decode_merge_blocks(const struct glint_decode_params *params, const struct glint_decode_tile *tile)
{
    if (params->parts == 1)
        return 0;
    return (uint64_t)params->shape.batch * (uint64_t)params->shape.heads_kv * (uint64_t)((params->rows + 1) / 2) *
           (uint64_t)(tile->dim / 16);
}

#endif
