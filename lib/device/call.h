/* What a GPU kernel is given: read by the kernels of every GPU family, by the launch code and by the simulator. Plain C
 * that nvcc reads too; host and device agree on every byte. A kernel takes struct glint_gpu_call, or one that begins
 * with it (below, and hopper_call.h), and nothing else; decode and the kernels of glint_merge and glint_append have
 * structs of their own. A kernel reads the members that its work needs: those that it does not read cost nothing on the
 * device. A change here compiles every GPU kernel again: what only the host needs is in lib/cuda/kernel.h and
 * lib/cuda/policy.h.
 *
 * Grids are one-dimensional; blocks find their place from blockIdx.x and the struct. */
#ifndef GLINT_DEVICE_CALL_H
#define GLINT_DEVICE_CALL_H

#include <stdint.h>

/* A tensor of shape [batch, heads, seqlen, head_dim]: element strides, head_dim contiguous. Address and strides are
 * multiples of 16 bytes, except where an extent is 1. Of K and V in pages, `batch` steps from page to page. */
struct glint_gpu_view {
    void *address;
    int64_t batch, head, row;
};

/* mask_first and mask_offset are the sides of the mask's band (struct glint_band): query i sees key j iff i +
 * mask_first <= j <= i + mask_offset. Kernels read those that their mask has; a kernel that reads lengths reads
 * neither. seqlen_q and seqlen_k are bounds where the kernel reads lengths. For Hopper's forward kernel of ragged
 * sequences they are the rows of all sequences. `section` sets the order of blocks: that many consecutive (batch, head)
 * pairs are worked on together, and within a section the longest blocks of every pair come first. 1 walks one head
 * after another. See lib/cuda/policy.h. */
struct glint_gpu_shape {
    int32_t batch, heads_q, heads_kv, group; /* group = heads_q / heads_kv */
    int32_t seqlen_q, seqlen_k;
    int32_t mask_offset;
    int32_t section;
    float softmax_scale;
    float scale_log2; /* softmax_scale * log2(e): kernels work in powers of two */
    int32_t mask_first;
};

/* Where sequences lie whose lengths the kernel reads:
 *
 *     padded    sequence b of a batch has seqlens_q[b] queries and seqlens_k[b] keys, from row 0 of its part of the
 *               tensors on. first_q, first_k, rows_q and rows_k are not read.
 *     ragged    sequences follow one another: sequence b has rows first_q[b] ... first_q[b + 1] - 1 of Q, or as many of
 *               them as seqlens_q says, and rows of K and V so too. With K and V in pages, first_k and rows_k are not
 *               read.
 *
 * The kernel lowers the word at `fault` to the first sequence with a first row or a length that is out of bounds. Query
 * i of a sequence sees key j iff i + offset + left <= j <= i + offset + right. With bottom_right = 1 the offset is the
 * keys of the sequence less its queries, else it is 0. Sides are from -2^30, which is no bound on the left, to 2^30,
 * which is none on the right: an offset added to one stays below 2^31. */
struct glint_gpu_sequences {
    const int32_t *first_q, *first_k;     /* [batch + 1] */
    const int32_t *seqlens_q, *seqlens_k; /* [batch], or NULL: the bound, or all rows of a ragged sequence */
    uint32_t *fault;                      /* or NULL */
    int32_t rows_q, rows_k;               /* of all ragged sequences: rows of the tensors, and of a line of LSE */
    int32_t bottom_right, left, right;
    int32_t bound_q, bound_k; /* of a sequence */
    int32_t section_keys;     /* keys of ragged sequences that are worked on together: warpgroup_ragged.h */
};

/* K and V in pages. */
struct glint_gpu_pages {
    const int32_t *table; /* [batch, per_sequence] */
    int32_t count;        /* of the pool: an index outside of it counts as the nearest one */
    int32_t per_sequence;
    int32_t shift; /* log2 of the keys of a page */
};

/* Backward of sm90a where lengths are read, the workspace: what the blocks of keys work on, by number, in an order that
 * lib/device/warpgroup_units.h has. The first kernel makes it, by blocks from `first` on, which have no rows. */
struct glint_gpu_units {
    uint32_t *unit; /* [units, GLINT_GPU_UNIT_WORDS] */
    uint32_t first;
};

#define GLINT_GPU_UNIT_WORDS 16
#define GLINT_GPU_UNITS_OF_BLOCK 32

/* ALiBi: what is added to scores. The slopes are one a query head, or NULL. Query i of a sequence stands at the place
 * of key i + offset, where the offset is the diagonal and, with from_end = 1, the keys of the sequence less its
 * queries, and no further than 2^30 from 0. */
struct glint_gpu_bias {
    const float *slopes; /* [heads_q] */
    int32_t from_end, diagonal;
};

/* A bias: element strides of [batch, heads_q, seqlen_q, seqlen_k], 0 where it is shared. */
struct glint_gpu_bias_tensor {
    const void *address;
    void *gradient; /* backward: dBias, which has these strides, or NULL */
    int64_t batch, head, query, key;
    int32_t narrow; /* 1: of the kernel's 16 bits; 0: float32 */
    int32_t tiles;  /* of dBias */
    int32_t parts;  /* blocks that share the sequences of a tile of dBias, each a row of them; 1: none do */
    float *sums;    /* with more than one: [parts, tiles, tile, tile], in the blocks' own order, else NULL */
};

#define GLINT_CALL_GRIDS 4

struct glint_gpu_call {
    struct glint_gpu_view q, k, v, o;
    float *lse; /* [batch, heads_q, seqlen_q], natural logarithm; of ragged sequences [heads_q, rows_q] */
    struct glint_gpu_shape shape;
    const float *sinks; /* [heads_q], or NULL */
    /* Of a softcap: |softmax_scale| / softcap, and 9.02 times its inverse, from where on tanh is 1. */
    float score_ratio, score_limit;
    struct glint_gpu_sequences sequences;
    union {
        struct glint_gpu_pages pages;
        struct glint_gpu_units units; /* backward, where lengths are read */
    };
    uint32_t *words;                   /* of the workspace, 0 when the first kernel begins, or NULL */
    uint32_t blocks[GLINT_CALL_GRIDS]; /* of the grid, by launch: a persistent block's next tile is so many further */

    /* Backward alone. */
    struct glint_gpu_view dout, dq, dk, dv;
    /* Backward, the workspace, placed by glint_backward_lay_out. The first kernel of the variant fills in what the
     * others read. Sequence b of ragged ones has its rows from (first_q[b] + GLINT_GPU_ROW_PAD * b) on, rounded down to
     * whole GLINT_GPU_ROW_PAD; the arrays have one batch then. padded_q is seqlen_q, or the rows of all ragged
     * sequences, in whole GLINT_GPU_ROW_PAD. lse_log2 is +inf for a row that has no weights or lies past the end. delta
     * is 0 past the end; delta.h says what -0 is. */
    int64_t padded_q;
    float *lse_log2; /* [batch * heads_q, padded_q]: lse * log2(e) */
    float *delta;    /* [batch * heads_q, padded_q]: rowsum(dO * O) - dLSE */
    /* Of a fused variant, else NULL: partial sums of dQ in the kernel's own order, and turns. turn[0] counts the blocks
     * that have begun; from turn[1] on there are the keys whose blocks have added theirs. */
    float *dq_sum;  /* [batch * heads_q, padded_q, row_dim of the variant] */
    uint32_t *turn; /* [1 + batch * heads_q * padded_q / tile_m] */
    /* The query heads of a key head are walked over by `parts` blocks, part_heads by each; the last one may have fewer,
     * in sm90a the first one. Where sm90a reads lengths, each sequence has parts of its own, `parts` at most, and
     * part_heads is 0, or a number in place of the rule's. With more than one part (fused) they add to dK and dV one
     * after another, else key_sum and key_turn are NULL. key_turn counts the parts that have added theirs: in sm80 a
     * warp's, in sm90a what leaves by one stage. Sequence b of ragged ones has its blocks of keys in both as if it
     * began at key first_k[b] + GLINT_GPU_ROW_PAD * b, rounded down to whole GLINT_GPU_ROW_PAD. */
    int32_t parts, part_heads;
    float *key_sum;     /* [batch * heads_kv, key blocks, 2 * tile_n, row_dim of the variant], in its own order */
    uint32_t *key_turn; /* [batch * heads_kv, key blocks, warps, or stages in sm90a] */
    float *dsinks;      /* [heads_q], the gradient of the sinks, where there are any */
    const float *dlse;  /* the gradient of LSE, which it lies as; or NULL */

    /* Of a mask with intervals, else NULL: the keys from key_begin to key_end - 1, of which a query sees what the band
     * leaves. [batch, seqlen_q]; of ragged sequences [rows_q]. */
    const int32_t *key_begin, *key_end;
    /* Backward, the workspace: what the first kernel makes of them (intervals.h), for all heads. The keys that a row
     * sees, and the bounds of each tile_m rows. */
    union {
        int32_t *row_keys; /* [batch, padded_q, 2] */
        /* Forward, of a mask with a tree: [batch, seqlen_q, words]; of ragged sequences [rows_q, words]. `words` is for
         * sequences.bound_q bits. */
        const uint32_t *tree_bits;
    };
    union {
        int32_t *block_keys; /* [batch, padded_q / tile_m, 4] */
        float *max_logit;    /* forward: [heads_q], -inf when the kernel begins, or NULL */
    };
    struct glint_gpu_bias bias;
};

/* What kernels with a bias by a tensor are given. */
struct glint_gpu_biased_call {
    struct glint_gpu_call base;
    struct glint_gpu_bias_tensor tensor;
};

#define GLINT_GPU_ROW_PAD 128

#endif
