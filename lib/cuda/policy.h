/* What the host decides about a launch and a kernel merely follows: the order of blocks, how a group's query heads are
 * shared out, where the arrays of a workspace lie. Pure functions of lengths, heads and the row's descriptor. Headers
 * declare them, policy.c defines them: a changed rule compiles policy.c alone. Internal: only lib/cuda/ and its tests
 * include it. */
#ifndef GLINT_CUDA_POLICY_H
#define GLINT_CUDA_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/cuda/kernel.h"
#include "lib/device/call.h"
#include "lib/device/decode.h"

/* Forward: (batch, query head) pairs of a section, at least 1. `seqlen` is the longer of the two. */
int32_t glint_gpu_section(int causal, int64_t seqlen, int64_t head_dim, int64_t element_bytes);

/* The pairs of a section in kernels with tensor maps, under a causal mask: a power of two, at least 16. persistent: a
 * multiprocessor has one block; else it has several. */
int32_t glint_gpu_tile_section(int64_t seqlen, int64_t head_dim, int64_t element_bytes, int32_t group, int persistent);

/* Ragged sequences of kernels with tensor maps: how many keys the sequences have that are worked on together, at least
 * 1. */
int32_t glint_gpu_section_keys(const struct glint_gpu_shape *shape, uint32_t head_dim, uint32_t element_bytes, int masked);

/* Queries of one head that see a key, on average over the keys, rounded down: what a key block walks over for each
 * query head. */
int64_t glint_gpu_visible_queries(const struct glint_gpu_shape *shape);

/* How many query heads of a group a key block of the fused backward walks over, 1 to group. The rule knows no batch and
 * no number of heads, so a sequence's result does not depend on what it is batched with. glint_gpu_parts: by how many
 * blocks, the `parts` of struct glint_gpu_call, the query heads of a key head are then walked over. */
int32_t glint_gpu_part_heads(const struct glint_gpu_shape *shape, const struct glint_gpu_kernel *kernel);
int32_t glint_gpu_parts(const struct glint_gpu_shape *shape, int32_t part_heads);

/* glint_gpu_part_heads of a fused backward whose blocks are persistent. The rule knows no batch and no number of heads,
 * either. */
int32_t glint_gpu_persistent_part_heads(const struct glint_gpu_shape *shape, const struct glint_gpu_kernel *kernel,
                                        uint32_t head_dim);

/* The most parts that a sequence may have whose queries and keys are as many as the shape's at most, where the kernel
 * reads lengths. own_heads: a row's own number of heads, or 0. */
int32_t glint_gpu_most_parts(const struct glint_gpu_shape *shape, int32_t own_heads, uint32_t head_dim);

/* Backward: (part, batch, key head) triples of a section, from 1 to as many as there are. */
int32_t glint_gpu_backward_section(const struct glint_gpu_shape *shape, const struct glint_gpu_kernel *kernel, int32_t part_heads,
                                   uint32_t head_dim);

/* The triples of a section in a fused backward whose blocks are persistent: they take turns at dQ through helpers, and
 * seldom wait. In staggered_order of lib/device/warpgroup_backward.h a section has so many columns of heads. */
int32_t glint_gpu_persistent_section(const struct glint_gpu_shape *shape, int32_t part_heads, uint32_t head_dim, uint32_t tile_n);

/* The arrays of a backward pass in the workspace, in their order. One that is left out has no words. */
enum glint_backward_array {
    GLINT_GPU_BIAS_SUM, /* of dBias in parts */
    GLINT_GPU_LSE,
    GLINT_GPU_DELTA,
    GLINT_GPU_DQ_SUM, /* fused, and GLINT_GPU_TURN */
    GLINT_GPU_TURN,
    GLINT_GPU_KEY_SUM, /* with more than one part, and GLINT_GPU_KEY_TURN */
    GLINT_GPU_KEY_TURN,
    GLINT_GPU_ROW_KEYS, /* of a mask with intervals, and GLINT_GPU_BLOCK_KEYS */
    GLINT_GPU_BLOCK_KEYS,
    GLINT_GPU_UNITS, /* where persistent blocks read lengths */
    GLINT_GPU_BACKWARD_ARRAYS
};

/* How a backward pass is shared out, and where its arrays lie: members of struct glint_gpu_call. */
struct glint_backward_layout {
    int32_t part_heads, parts;
    int32_t bias_tiles, bias_parts;
    /* Blocks of the first kernel that make units, or 0; and which of them is the first one. */
    uint32_t unit_blocks, first_unit_block;
    int64_t padded_q;
    uint64_t at[GLINT_GPU_BACKWARD_ARRAYS + 1]; /* words from the start of the workspace: see glint_place_arrays */
};

/* Words that an array begins at a multiple of: 256 bytes. */
#define GLINT_GPU_LINE 64

/* By how many blocks a tile of dBias is summed, of `tiles` and a bias that `batch` sequences share. */
int32_t glint_gpu_bias_parts(int64_t tiles, int64_t batch);

/* Lays the arrays out from word `begin` on, which begins a line. All but `at` and padded_q is given. False where that
 * does not fit in 63 bits. */
bool glint_backward_lay_out(struct glint_backward_layout *layout, const struct glint_gpu_shape *shape,
                            const struct glint_gpu_kernel *kernel, uint32_t tile_m, uint32_t tile_n, uint64_t begin);

/* The arrays of a step in the workspace: plans, and partial results of rows with O of the spans before behind them. */
enum glint_step_array { GLINT_GPU_PLANS, GLINT_GPU_PARTIAL, GLINT_GPU_STEP_ARRAYS };

/* Where a step's arrays lie, and how many blocks it has. No bit of a result depends on it. */
struct glint_step_layout {
    int32_t block_queries; /* of 16 rows */
    int32_t partial_rows;  /* of which partial results are kept; 0: the merge is left out */
    int32_t own_plan;      /* words of a block's own plan; 0: a kernel makes one for all */
    uint32_t blocks, merge_blocks;
    uint64_t at[GLINT_GPU_STEP_ARRAYS + 1]; /* likewise */
};

/* Numbers in place of those that the rules here give, for measuring the rules (bench/). 0: the rule's own. A number
 * that the row or the shape does not allow is not taken. */
struct glint_gpu_tuning {
    int32_t part_heads; /* backward, fused: query heads of a block */
    int32_t section;    /* of struct glint_gpu_shape: heads whose blocks run side by side */
    int32_t range;      /* decode: steps of an item */
};

/* The arrays of a decode call in the workspace; without words at the row level. */
enum glint_decode_array { GLINT_GPU_PARTIAL_O, GLINT_GPU_PARTIAL_ROWS, GLINT_GPU_DECODE_ARRAYS };

/* How a decode call is shared out, and where its arrays lie: members of struct glint_decode_params. No result depends
 * on it. */
struct glint_decode_layout {
    int32_t rows, row_tiles, range, parts, level, entries;
    uint32_t items, blocks, merge_blocks;
    uint64_t at[GLINT_GPU_DECODE_ARRAYS + 1]; /* likewise */
};

/* Shares the keys out to blocks, of which the device runs its first launch's blocks_per_sm on each of its
 * multiprocessors at a time, and lays the arrays out, likewise. `range`: steps of an item, about so many; 0: by the
 * rule. False also when there are more rows of a key head than 2^30, or more items or blocks of the merge than a grid
 * has. */
bool glint_decode_lay_out(struct glint_decode_layout *layout, const struct glint_gpu_shape *shape,
                          const struct glint_gpu_kernel *kernel, uint32_t tile_m, uint32_t tile_n, uint32_t multiprocessors,
                          int32_t range, uint64_t begin);

#endif
