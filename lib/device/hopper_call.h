/* What a kernel is given that uses tensor maps: what every GPU kernel is given, and behind it the maps. Plain C that
 * nvcc reads too. Which maps there are, and their boxes, the variant's descriptor says (struct glint_gpu_map of
 * lib/cuda/kernel.h), in this order. A tensor without elements has a map that nobody may copy by. Where a kernel reads
 * lengths, the maps are of the bounds; of ragged sequences they are of the rows of all. */
#ifndef GLINT_DEVICE_HOPPER_CALL_H
#define GLINT_DEVICE_HOPPER_CALL_H

#include "lib/device/step_call.h"

#define GLINT_BACKWARD_MAPS 12 /* two kernels may want other boxes of the same tensor */

/* 1088, 1216 and 2112 bytes, aligned to 64: the maps are at the same place in all, so that one function fills any. */
struct glint_gpu_forward_maps {
    struct glint_gpu_call base;
    struct tensor_map map[GLINT_FORWARD_MAPS];
};

/* What forward kernels with a bias by a tensor are given: they have no fourth map. */
struct glint_gpu_biased_maps {
    struct glint_gpu_call base;
    struct tensor_map map[GLINT_FORWARD_MAPS - 1];
    struct glint_gpu_bias_tensor tensor;
};

struct glint_gpu_backward_maps {
    struct glint_gpu_call base;
    struct tensor_map map[GLINT_BACKWARD_MAPS];
};

#endif
