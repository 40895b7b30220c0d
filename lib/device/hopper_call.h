/* What a kernel is given that uses tensor maps: what every GPU kernel is given, and behind it the maps. Plain C that
 * nvcc reads too. Which maps there are, and their boxes, the variant's descriptor says (struct glint_gpu_map of
 * lib/cuda/kernel.h), in this order. A tensor without elements has a map that nobody may copy by. Where a kernel reads
 * lengths, the maps are of the bounds; of ragged sequences they are of the rows of all. */
#ifndef GLINT_DEVICE_HOPPER_CALL_H
#define GLINT_DEVICE_HOPPER_CALL_H

#include "lib/device/decode.h"
#include "lib/device/tensor_map.h"

#define GLINT_FORWARD_MAPS 4
#define GLINT_BACKWARD_MAPS 12 /* two kernels may want other boxes of the same tensor */

/* 1088, 1216 and 2112 bytes, aligned to 64: the maps are at the same place in all, so that one function fills any. */
struct glint_gpu_forward_maps {
    struct glint_gpu_call base;
    struct tensor_map map[GLINT_FORWARD_MAPS];
};

/* Of a step (lib/device/warpgroup_step.h): any rows of queries against any keys. Without first rows the tensors are
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
    uint32_t *plan;                    /* as lib/device/warpgroup_step_plan.h says */
    float *partial;                    /* [partial_rows, head_dim + 2] */
    struct glint_decode_scales scales; /* of K and V of 8 bits */
};

struct glint_gpu_backward_maps {
    struct glint_gpu_call base;
    struct tensor_map map[GLINT_BACKWARD_MAPS];
};

#endif
