/* What nvcc includes before each file, in the place of CUDA's header of this name (-Ilib/device/nvcc). Kernels use a
 * few built-in names. CUDA's header declares so many more that a compilation takes a third of a second to read them.
 * The declarations are those of CUDA 13. Another CUDA's own header is included in the place of this one. nvcc makes the
 * same PTX of a kernel with both: //tests/cuda:headers_test. */
#if __CUDACC_VER_MAJOR__ != 13
#include_next <cuda_runtime.h>
#else
#ifndef GLINT_DEVICE_NVCC_CUDA_RUNTIME_H
#define GLINT_DEVICE_NVCC_CUDA_RUNTIME_H

#include <vector_types.h>

#include <device_launch_parameters.h>

#define GLINT_BUILT_IN extern "C" __device__ __device_builtin__
GLINT_BUILT_IN int __float_as_int(float x);
GLINT_BUILT_IN float __int_as_float(int x);
GLINT_BUILT_IN unsigned __float_as_uint(float x);
GLINT_BUILT_IN float __uint_as_float(unsigned x);
GLINT_BUILT_IN float fabsf(float x);
GLINT_BUILT_IN float fmaxf(float x, float y);
GLINT_BUILT_IN float fminf(float x, float y);
GLINT_BUILT_IN float fmaf(float x, float y, float z);
GLINT_BUILT_IN int min(int x, int y);
GLINT_BUILT_IN int max(int x, int y);
GLINT_BUILT_IN unsigned umin(unsigned x, unsigned y);
GLINT_BUILT_IN unsigned umax(unsigned x, unsigned y);
GLINT_BUILT_IN long long llmin(long long x, long long y);
GLINT_BUILT_IN long long llmax(long long x, long long y);
#undef GLINT_BUILT_IN

static __device__ __forceinline__ unsigned min(unsigned x, unsigned y)
{
    return umin(x, y);
}

static __device__ __forceinline__ unsigned max(unsigned x, unsigned y)
{
    return umax(x, y);
}

static __device__ __forceinline__ long min(long x, long y)
{
    return llmin(x, y);
}

static __device__ __forceinline__ long max(long x, long y)
{
    return llmax(x, y);
}

/* Shuffles and votes are written with the built-in names above. */
#include <sm_20_intrinsics.h>
#include <sm_30_intrinsics.h>

#include <device_atomic_functions.h>

#endif
#endif
