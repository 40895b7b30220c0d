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

#endif
