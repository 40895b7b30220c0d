/* What a kernel is given that uses tensor maps: the parameters of every GPU kernel, and behind them the maps. Plain C that nvcc reads too.
 * Which maps there are, and their boxes, the variant's descriptor says (struct glint_gpu_map of lib/cuda/kernel.h), in this order. A tensor
 * without elements has a map that nobody may copy by. */
#ifndef GLINT_DEVICE_HOPPER_PARAMS_H
#define GLINT_DEVICE_HOPPER_PARAMS_H

#include "lib/device/params.h"
#include "lib/device/tensor_map.h"

#define GLINT_MAPS_GRIDS 4
#define GLINT_FORWARD_MAPS 4
#define GLINT_BACKWARD_MAPS 12 /* two kernels may want other boxes of the same tensor */

/* 768, 832, 832, 1984 and 2048 bytes, aligned to 64. */
struct glint_forward_maps_params {
    struct glint_forward_params base;
    uint32_t *words;                   /* zero_words of them, 0 when the first kernel begins; NULL where there are none */
    uint32_t blocks[GLINT_MAPS_GRIDS]; /* of the grid, by launch: a persistent block's next tile is so many further */
    struct tensor_map map[GLINT_FORWARD_MAPS];
};

/* Of the kernel that reads lengths: the maps are of the bounds. */
struct glint_lengths_maps_params {
    struct glint_lengths_params base;
    uint32_t *words; /* lengths_words of them */
    uint32_t blocks[GLINT_MAPS_GRIDS];
    struct tensor_map map[GLINT_FORWARD_MAPS];
};

/* Of the kernel that takes ragged sequences: the maps, and seqlen_q and seqlen_k of the shape, are of the rows of all. */
struct glint_ragged_maps_params {
    struct glint_ragged_params base;
    int32_t bound_q, bound_k; /* of a sequence */
    int32_t section_keys;     /* keys of the sequences that are worked on together: see lib/device/warpgroup_ragged.h */
    uint32_t *words;          /* lengths_words of them */
    uint32_t blocks[GLINT_MAPS_GRIDS];
    struct tensor_map map[GLINT_FORWARD_MAPS];
};

struct glint_backward_maps_params {
    struct glint_backward_params base;
    uint32_t *words;
    uint32_t blocks[GLINT_MAPS_GRIDS];
    struct tensor_map map[GLINT_BACKWARD_MAPS];
};

/* Of the kernels that read lengths, of ragged sequences too: the maps are of the bounds, or of the rows of all. */
struct glint_ragged_backward_maps_params {
    struct glint_ragged_backward_params base;
    struct tensor_map map[GLINT_BACKWARD_MAPS];
};

#endif
