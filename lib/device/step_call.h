/* What the kernels of a step are given. The maps are where those of all other kernels that use any are
 * (hopper_call.h); a kernel that finds its tensors by address reads none. */
#ifndef GLINT_DEVICE_STEP_CALL_H
#define GLINT_DEVICE_STEP_CALL_H

#include "lib/device/decode.h"
#include "lib/device/tensor_map.h"

#define GLINT_FORWARD_MAPS 4

/* Of a step (lib/device/step.h): any rows of queries against any keys. Without first rows the tensors are
 * laid out for the bounds, and without a page table K and V are linear. */
struct glint_gpu_step {
    struct glint_gpu_call base;
    struct tensor_map map[GLINT_FORWARD_MAPS];
    int32_t group;                     /* query heads that rows are packed of, at most 16 */
    int32_t heads, parts;              /* such groups; those of a key head */
    int32_t block_queries;             /* queries of 16 rows: 16 / group */
    int32_t blocks;                    /* of the kernel that computes */
    int32_t partial_rows;              /* that `partial` has room for */
    int32_t own_plan;                  /* words from a block's plan to the next one's; 0: one plan is for all */
    uint32_t *plan;                    /* as lib/device/step_plan.h says */
    float *partial;                    /* [partial_rows, head_dim + 2]; then perhaps the rows of all blocks */
    struct glint_decode_scales scales; /* of K and V of 8 bits */
};

/* Of a step whose rows have a bias by a tensor. */
struct glint_gpu_biased_step {
    struct glint_gpu_step base;
    struct glint_gpu_bias_tensor tensor;
};

#endif
