// A kernel with static shared memory, which asks for what one architecture alone has where it can.
#pragma once

extern "C" __global__ void __launch_bounds__(256) glint_two(double *out, int n)
{
    __shared__ __align__(1024) double shared[256];
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
#endif
    shared[threadIdx.x] = out[n];
    __syncthreads();
    out[threadIdx.x] = shared[255 - threadIdx.x] / n;
}
