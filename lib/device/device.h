/* The machine as the GPU kernels see it: every primitive is one PTX instruction, or the register that one reads.
 *
 * Kernels and the steps in lib/device/ use the GPU through these names alone: no asm, no threadIdx, no __shared__
 * anywhere else. So the same emitted file runs on a GPU and, with another implementation of these names, on a machine
 * without one. The include path chooses: device_impl.h, hopper_impl.h and wgmma_impl.h are found in lib/device/ptx/ by
 * nvcc (-Ilib/device/ptx). Read them there.
 *
 * Shared memory is one dynamic array of the kernel; a shared address is its byte offset in the shared window
 * (uint32_t). */
#ifndef GLINT_DEVICE_DEVICE_H
#define GLINT_DEVICE_DEVICE_H

#include <stdint.h>

#include "device_impl.h"

#define GLINT_INFINITY float_of(0x7f800000u)

/* f(i, j) for all i < I and j < J, or f(i, j, k) for all k < K, too: the last one runs fastest. Arrays of a thread are
 * registers only where the numbers of their elements are known to the compiler, so nothing is left of these loops. */
template <int I, int J, class f_t> GLINT_DEVICE void unroll(const f_t &f)
{
#pragma unroll
    for (int i = 0; i < I; ++i)
#pragma unroll
        for (int j = 0; j < J; ++j)
            f(i, j);
}

template <int I, int J, int K, class f_t> GLINT_DEVICE void unroll(const f_t &f)
{
#pragma unroll
    for (int i = 0; i < I; ++i)
        unroll<J, K>([&](int j, int k) { f(i, j, k); });
}

#endif
