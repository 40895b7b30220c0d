/* What the kernels of no variant are given, those of glint_merge and glint_append (rows.cu): they move and weigh rows
 * of any head_dim and dtype. Plain C that nvcc reads too; host and device agree on every byte.
 *
 * Addresses and strides of rows are multiples of 16 bytes, where an extent is above 1. A row is `chunks` chunks of 8
 * elements. */
#ifndef GLINT_CUDA_ROWS_H
#define GLINT_CUDA_ROWS_H

#include "lib/device/call.h"
#include "lib/glint.h"

#define GLINT_GPU_ROW_THREADS 128 /* of a block of each kernel */
#define GLINT_GPU_ROW_TEAM 8      /* of them, that make a row of 8 bits */

/* O and LSE of a part, or of the result. The strides of LSE count floats. */
struct glint_gpu_part {
    struct glint_gpu_view o, lse;
    int64_t dtype; /* enum glint_dtype of O */
};

/* Block b takes `block_rows` rows at a time, of the batch * heads * seqlen in all: from the row b * block_rows on, and
 * blocks * block_rows further each time. `row_threads` threads work on a row; what is left of the block does
 * nothing. */
struct glint_merge_params {
    struct glint_gpu_part part[GLINT_MAX_PARTS];
    struct glint_gpu_part result;
    const float *sinks; /* [heads], or NULL */
    int64_t rows;
    int32_t heads, seqlen, parts, chunks;
    int32_t row_threads, block_rows, blocks;
};

/* A thread takes a chunk of K and of V at a time, of the `tokens` * token_chunks in all: a token is a new row of a
 * sequence, of all heads. Of ragged queries it is a row of the tensors, and a sequence without rows has none. */
struct glint_append_params {
    struct glint_gpu_view k, v, new_k, new_v;
    const int32_t *first_q;               /* [batch + 1], or NULL: not ragged */
    const int32_t *seqlens_q, *seqlens_k; /* [batch], or NULL: the bound, or of ragged queries all rows of a sequence */
    const int32_t *page_table;            /* [batch, pages_per_sequence], or NULL: linear */
    uint32_t *fault;                      /* or NULL */
    int64_t
        tokens; /* batch * seqlen_q, and batch where that is 0: a sequence's first one looks at its lengths; rows_q of ragged queries */
    int32_t batch, seqlen_q, seqlen_k; /* the last two are bounds */
    int32_t rows_q;                    /* of ragged queries, those of all sequences */
    int32_t chunks;
    int32_t token_chunks; /* heads_kv * chunks; 1 where seqlen_q is 0 */
    int32_t page_rows, pages, pages_per_sequence;
    uint32_t dtype, new_dtype; /* enum glint_dtype of the cache and of the new rows */
    int32_t blocks;
};

/* The same into K and V of 8 bits. A team of threads makes a row of K or of V of one head at a time: of the 2 * tokens
 * * token_rows in all row 2 r is of K and 2 r + 1 of V. `dtype` of the base is that of the cache, its `chunks` are
 * those of a row, and token_chunks plays no part. */
struct glint_append_narrow_params {
    struct glint_append_params base;
    float *k_scale, *v_scale; /* as enum glint_scales has them */
    int32_t token_rows;       /* heads_kv; 1 where seqlen_q is 0 */
    int32_t unit_scales;      /* of scales a row, those of a head of a sequence or of a page: seqlen_k or page_rows */
    int32_t head_scales;      /* of others 1 for one a head, 0 for one of all */
    uint32_t own;             /* 1: each row has a scale of its own, which is written; 0: it is read */
};

#endif
