/* What the decode kernels of the GPU families are given: few queries against many keys. Plain C that nvcc reads too,
 * as lib/device/call.h; how a call is shared out, lib/cuda/policy.c decides.
 *
 * The rows of a key head are its (query, query head) pairs: row r is query r / group of query head
 * head_kv * group + r % group. A block takes a tile of `tile.rows` of them, so K and V are read once for all query
 * heads of a group, and a part of the keys: an item.
 *
 * Keys are summed up in a tree that depends on nothing but the sequence: `keys` keys from 0, keys, 2 keys, ... are a
 * step; chunk_steps steps from step 0 on are a chunk, span_chunks chunks a span. A step's result (maximum, sum, O) is
 * made from nothing; those of a chunk's steps are folded into the chunk's one after another, those of a span's chunks
 * into the span's, all spans into the row's. How many steps an item has is free: a result that is not folded by the
 * block that made it goes to the workspace, and the second kernel folds it. */
#ifndef GLINT_DEVICE_DECODE_H
#define GLINT_DEVICE_DECODE_H

#include "lib/device/call.h"

/* Of what the blocks leave results in the workspace. */
enum glint_decode_level {
    GLINT_DECODE_ROW = 0, /* of nothing: a block folds all keys of its rows, and writes O */
    GLINT_DECODE_STEP = 1,
    GLINT_DECODE_CHUNK = 2,
    GLINT_DECODE_SPAN = 3
};

/* Scales of K and V of 8 bits. Row r of a head of a unit, which is a sequence or a page, has the scale at
 * [index * unit + head * head + r * row]; steps are 0 where rows, heads or units share one. Ragged sequences are one
 * unit, of all rows. */
struct glint_decode_scales {
    const float *k, *v;
    int64_t unit, head;
    int32_t row; /* 1, or 0 */
};

/* What all kernels of decode are given. Each reads what its work needs. */
struct glint_decode_params {
    struct glint_gpu_view q, k, v, o;
    float *lse;                           /* [batch, heads_q, seqlen_q], natural logarithm */
    const float *sinks;                   /* [heads_q], or NULL: logits that only the sums of weights have */
    struct glint_gpu_shape shape;         /* lengths are bounds; mask_offset, mask_first and section are not read */
    float score_ratio, score_limit;       /* of a softcap: see struct glint_gpu_call */
    struct glint_gpu_sequences sequences; /* lengths count as 0 below 0, as the bound above */
    struct glint_gpu_pages pages;         /* of K and V, whose views step from page to page by `batch` */
    int32_t rows;                         /* of a key head: seqlen_q * group */
    int32_t row_tiles;                    /* rows / tile.rows, rounded up */
    int32_t range;                        /* steps of an item: a divisor of chunk_steps, whole chunks or whole spans */
    int32_t parts;                        /* items that share a tile's keys; 1: the row level */
    int32_t level;                        /* enum glint_decode_level */
    int32_t entries;                      /* steps, chunks or spans at the bound; 0 at the row level */
    uint32_t items;                       /* batch * heads_kv * row_tiles * parts */
    uint32_t blocks;                      /* a block takes every blocks-th item */
    /* workspace, placed by glint_decode_lay_out of lib/cuda/policy.c; NULL at the row level. A tile is batch, key
     * head, tile of rows: row-major. */
    float *partial_o;                  /* [tile, entry, rows / 8, dim / 16, 4, 8, 4]: see store_partial */
    float *partial_rows;               /* [tile, entry, rows, 2 * warps]: the maximum; from [warps] on, sums */
    struct glint_decode_scales scales; /* of K and V of 8 bits */
    struct glint_gpu_bias bias;
    struct glint_gpu_bias_tensor tensor; /* of a bias by a tensor */
    /* Of a mask with intervals and of one with a tree, as in struct glint_gpu_call; NULL where the problem has none. */
    const int32_t *key_begin, *key_end;
    const uint32_t *tree_bits;
    float *max_logit; /* [heads_q], -inf when the first kernel begins, or NULL */
};

#endif
