/* What a GPU kernel is given: read by the kernels of every GPU family, by the launch code and by the simulator. Plain C that nvcc reads
 * too; host and device agree on every byte. A kernel takes one of these structs, or a family's own that begins with one of them, and
 * nothing else. A change here compiles every GPU kernel again: what only the host needs is in lib/cuda/kernel.h and lib/cuda/policy.h.
 *
 * Grids are one-dimensional; blocks find their place from blockIdx.x and the struct. */
#ifndef GLINT_DEVICE_PARAMS_H
#define GLINT_DEVICE_PARAMS_H

#include <stdint.h>

/* A tensor of shape [batch, heads, seqlen, head_dim]: element strides, head_dim contiguous. Address and strides are multiples of
 * 16 bytes, except where an extent is 1. */
struct glint_gpu_view {
    void *address;
    int64_t batch, head, row;
};

/* Both passes. mask_first and mask_offset are the sides of the mask's band (struct glint_band): query i sees key j iff i + mask_first <= j <=
 * i + mask_offset. Kernels read those that their mask has.
 * `section` sets the order of blocks: that many consecutive (batch, head) pairs are worked on together, and within a section the
 * longest blocks of every pair come first. 1 walks one head after another. See lib/cuda/policy.h. */
struct glint_gpu_shape {
    int32_t batch, heads_q, heads_kv, group; /* group = heads_q / heads_kv */
    int32_t seqlen_q, seqlen_k;
    int32_t mask_offset;
    int32_t section;
    float softmax_scale;
    float scale_log2; /* softmax_scale * log2(e): kernels work in powers of two */
    int32_t mask_first;
};

struct glint_forward_params {
    struct glint_gpu_view q, k, v, o;
    float *lse; /* [batch, heads_q, seqlen_q], natural logarithm */
    struct glint_gpu_shape shape;
    const float *sinks; /* [heads_q], or NULL */
    float score_ratio,
        score_limit; /* of a softcap: |softmax_scale| / softcap, and 9.02 times its inverse, from where on tanh is 1 */
};

/* The same where the kernel reads the lengths of the sequences: those of `shape` are bounds, and its mask_offset and mask_first are not read. */
struct glint_lengths_params {
    struct glint_forward_params base;
    const int32_t *seqlens_q; /* [batch], or NULL: seqlen_q for all */
    const int32_t *seqlens_k; /* [batch] */
    uint32_t *fault;          /* or NULL: lowered to the first sequence with a length out of bounds */
    int32_t bottom_right;     /* 1: the mask's offset is seqlen_k - seqlen_q of the sequence; 0: it is 0 */
    int32_t window_left,
        window_right; /* query i sees key j iff i + offset - window_left <= j <= i + offset + window_right; -1: unbounded */
};

/* The same where K and V are in pages: `batch` of their views steps from page to page. */
struct glint_pages_params {
    struct glint_lengths_params base;
    const int32_t *page_table; /* [batch, pages_per_sequence] */
    int32_t pages;             /* of the pool */
    int32_t pages_per_sequence;
    int32_t page_shift; /* log2 of the keys of a page */
};

/* Sequences that follow one another: sequence b has the queries first_q[b] ... first_q[b + 1] - 1, and the keys so too. The kernel reads the first
 * rows; the lengths of `shape` are bounds, and its mask_offset and mask_first are not read. */
struct glint_ragged {
    const int32_t *first_q, *first_k;     /* [batch + 1] */
    const int32_t *seqlens_q, *seqlens_k; /* [batch], or NULL: how many of them, from the first on */
    uint32_t *fault;                      /* or NULL: lowered to the first sequence with a first row or a length that is none */
    int32_t rows_q, rows_k;               /* of all sequences: rows of the tensors, and of LSE from head to head */
    int32_t bottom_right, window_left, window_right; /* as those of glint_lengths_params */
};

struct glint_ragged_params {
    struct glint_forward_params base;
    struct glint_ragged ragged;
};

/* The same where K and V are in pages: sequence b has seqlens_k[b] keys, and first_k and rows_k are not read. */
struct glint_ragged_pages_params {
    struct glint_ragged_params base;
    const int32_t *page_table; /* as those of glint_pages_params */
    int32_t pages, pages_per_sequence, page_shift;
};

struct glint_backward_params {
    struct glint_gpu_view q, k, v, o, dout, dq, dk, dv;
    const float *lse;
    struct glint_gpu_shape shape;
    /* workspace, placed by glint_backward_layout; the first kernel of the variant fills in what the others read */
    int64_t padded_q; /* seqlen_q rounded up to GLINT_GPU_ROW_PAD */
    float *lse_log2;  /* [batch * heads_q, padded_q]: lse * log2(e); +inf for a row that has no weights or lies past the end */
    float *delta;     /* [batch * heads_q, padded_q]: rowsum(dO * O); 0 past the end; -0: see delta.h */
    float
        *dq_sum; /* fused: [batch * heads_q, padded_q, row_dim of the variant] partial sums in the kernel's own order; else NULL */
    uint32_t
        *turn; /* fused: [0] blocks that have begun; [1 + ...]: [batch * heads_q, padded_q / tile_m] keys whose blocks have added
                         theirs; else NULL */
    /* The query heads of a key head are walked over by `parts` blocks, part_heads by each (the last one may have fewer). With more than
     * one part (fused) they add to dK and dV one after another: */
    int32_t parts, part_heads;
    float *key_sum; /* [batch * heads_kv, key blocks, 2 * tile_n, row_dim of the variant], in the kernel's own order; else NULL */
    uint32_t *key_turn; /* [batch * heads_kv, key blocks, warps] parts whose warp has added its own; else NULL */
};

/* The same for the kernel that makes the gradient of the sinks. */
struct glint_sinks_params {
    struct glint_backward_params base;
    const float *sinks; /* [heads_q] */
    float *dsinks;      /* [heads_q] */
};

/* The same for kernels that cap scores: a problem may have both. */
struct glint_capped_params {
    struct glint_sinks_params base;
    float score_ratio, score_limit; /* as those of glint_forward_params */
};

/* Of a backward pass over ragged sequences: all that its kernels are given. padded_q is of all sequences: the rows of one begin there at
 * (first_q + GLINT_GPU_ROW_PAD * sequence), rounded down to whole GLINT_GPU_ROW_PAD, and arrays have one batch.
 *
 * The same struct where the sequences of a batch have lengths of their own in tensors that are laid out for the bounds: first_q, first_k, rows_q and
 * rows_k are not read then, and padded_q and the arrays are those of the bounds. */
struct glint_ragged_backward_params {
    struct glint_capped_params base;
    struct glint_ragged ragged;
};

#define GLINT_GPU_ROW_PAD 128

#endif
