/* What the host decides about a launch and a kernel merely follows: the order of blocks, how a group's query heads are shared out, where
 * the arrays of a workspace lie. Pure functions of lengths, heads and the row's descriptor. Headers declare them, policy.c defines them: a
 * changed rule compiles policy.c alone. Internal: only lib/cuda/ and its tests include it. */
#ifndef GLINT_CUDA_POLICY_H
#define GLINT_CUDA_POLICY_H

#include <stdint.h>

#include "lib/cuda/kernel.h"
#include "lib/device/params.h"

/* Forward: (batch, query head) pairs of a section, at least 1. `seqlen` is the longer of the two. */
int32_t glint_gpu_section(int causal, int64_t seqlen, int64_t head_dim, int64_t element_bytes);

/* Queries of one head that see a key, on average over the keys, rounded down: what a key block walks over for each query head. */
int64_t glint_gpu_visible_queries(const struct glint_gpu_shape *shape);

/* How many query heads of a group a key block of the fused backward walks over, 1 to group. The rule knows no batch and no number of heads,
 * so a sequence's result does not depend on what it is batched with. glint_gpu_parts: by how many blocks, the `parts` of
 * struct glint_backward_params, the query heads of a key head are then walked over. */
int32_t glint_gpu_part_heads(const struct glint_gpu_shape *shape, const struct glint_gpu_kernel *kernel);
int32_t glint_gpu_parts(const struct glint_gpu_shape *shape, int32_t part_heads);

/* Backward: (part, batch, key head) triples of a section, from 1 to as many as there are. */
int32_t glint_gpu_backward_section(const struct glint_gpu_shape *shape, int32_t part_heads, uint32_t strategy, uint32_t head_dim);

/* Workspace of a backward variant of the given tile: places the arrays of *params from address `base` (aligned to 256 bytes; NULL to
 * count only) and returns the bytes that they take. shape must be filled in; its section is set anew, and so are part_heads and parts.
 * Products do not overflow once the planner has checked that batch * heads_q * seqlen_q * head_dim and the number of blocks fit. */
uint64_t glint_backward_layout(struct glint_backward_params *params, const struct glint_gpu_kernel *kernel, uint32_t head_dim,
                               uint32_t tile_m, uint32_t tile_n, char *base);

#endif
