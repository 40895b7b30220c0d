/* What a row's indexes stand for in the tables of lib/cuda/kernel.h. */
#ifndef GLINT_CUDA_TABLE_H
#define GLINT_CUDA_TABLE_H

#include "lib/cuda/kernel.h"

static inline const struct glint_gpu_kernel *glint_gpu_kernel_of(const struct glint_variant *row)
{
    return &glint_gpu_kernels[row->kernel];
}

static inline const struct glint_gpu_launch *glint_gpu_launch_at(const struct glint_gpu_kernel *kernel, uint32_t index)
{
    return &glint_gpu_launches[kernel->first_launch + index];
}

static inline const struct glint_gpu_map *glint_gpu_map_at(const struct glint_gpu_kernel *kernel, uint32_t index)
{
    return &glint_gpu_maps[kernel->first_map + index];
}

#endif
