// Kernels that keep something in local memory, which the build must refuse: with -DSPILLING registers, else an array that is indexed at
// run time. Each is otherwise right.
extern "C" __global__ void __launch_bounds__(1024) local_memory(float *x, int count)
{
#ifdef SPILLING
    float held[128]; // twice what a thread of a block of 1024 has
#pragma unroll
    for (int i = 0; i < 128; i++)
        held[i] = x[(threadIdx.x * 131 + i * 17) % 4096];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 128; i++)
        x[(threadIdx.x * 127 + i * 13) % 4096] = held[i] * held[127 - i];
#else
    float held[16];
    for (int i = 0; i < 16; i++)
        held[i] = x[i];
    for (int i = 0; i < count; i++)
        held[(int)x[i] & 15] += x[i + 16];
    x[threadIdx.x] = held[count & 15];
#endif
}
