/* What compute-sanitizer's racecheck understands: pairs of warps pass words through shared memory, step after step, as those of the fused
 * backward do, and nothing else. The same exchange five times, ordered by other means; each checks what it has read.
 *
 *   nvcc -arch=native -o exchange tests/gpu/exchange.cu
 *   for way in 0 1 2 3 4; do compute-sanitizer --tool racecheck ./exchange $way; done */
#include <cstdint>
#include <cstdio>
#include <cstdlib>

enum { STEPS = 64, PAIRS = 4, WAYS = 5 };
enum way { SYNC_BOTH, ARRIVE_NUMBER, ARRIVE_CONSTANT, MBARRIER_LANES, MBARRIER_LANE };

static __device__ uint32_t address_of(const void *shared)
{
    return (uint32_t)__cvta_generic_to_shared(shared);
}

static __device__ void wait_phase(uint32_t barrier, uint32_t parity)
{
    uint32_t done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
}

/* Barriers 1 ... 4 named by constants of the instruction. */
static __device__ void arrive_constant(uint32_t pair)
{
    switch (pair) {
    case 0: asm volatile("bar.arrive 1, 64;" ::: "memory"); break;
    case 1: asm volatile("bar.arrive 2, 64;" ::: "memory"); break;
    case 2: asm volatile("bar.arrive 3, 64;" ::: "memory"); break;
    default: asm volatile("bar.arrive 4, 64;" ::: "memory"); break;
    }
}

static __device__ void sync_constant(uint32_t pair)
{
    switch (pair) {
    case 0: asm volatile("bar.sync 1, 64;" ::: "memory"); break;
    case 1: asm volatile("bar.sync 2, 64;" ::: "memory"); break;
    case 2: asm volatile("bar.sync 3, 64;" ::: "memory"); break;
    default: asm volatile("bar.sync 4, 64;" ::: "memory"); break;
    }
}

/* The first warp of a pair writes 32 words a step, the second reads those of the other lanes; two stages, and all threads meet once a
 * step. */
template <int WAY> static __global__ void exchange(uint32_t *wrong)
{
    __shared__ uint32_t words[2][PAIRS][32];
    __shared__ uint64_t full[PAIRS];
    const uint32_t lane = threadIdx.x % 32, warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), pair = warp % PAIRS;
    const uint32_t barrier = address_of(&full[pair]);

    if (threadIdx.x < PAIRS)
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address_of(&full[threadIdx.x])), "r"(WAY == MBARRIER_LANES ? 32 : 1)
                     : "memory");
    __syncthreads();
    for (uint32_t step = 0; step < STEPS; ++step) {
        if (warp < PAIRS) {
            words[step & 1][pair][lane] = 100 * step + lane + pair;
            if (WAY == SYNC_BOTH)
                asm volatile("bar.sync %0, 64;" ::"r"(1 + pair) : "memory");
            if (WAY == ARRIVE_NUMBER)
                asm volatile("bar.arrive %0, 64;" ::"r"(1 + pair) : "memory");
            if (WAY == ARRIVE_CONSTANT)
                arrive_constant(pair);
            if (WAY == MBARRIER_LANE)
                __syncwarp();
            if (WAY == MBARRIER_LANES || (WAY == MBARRIER_LANE && lane == 0))
                asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" ::"r"(barrier) : "memory");
        } else {
            if (WAY == SYNC_BOTH || WAY == ARRIVE_NUMBER)
                asm volatile("bar.sync %0, 64;" ::"r"(1 + pair) : "memory");
            else if (WAY == ARRIVE_CONSTANT)
                sync_constant(pair);
            else
                wait_phase(barrier, step & 1);
            if (words[step & 1][pair][31 - lane] != 100 * step + 31 - lane + pair)
                atomicAdd(wrong, 1);
        }
        __syncthreads();
    }
}

int main(int argc, char **argv)
{
    static void (*const kernels[WAYS])(uint32_t *) = {exchange<SYNC_BOTH>, exchange<ARRIVE_NUMBER>, exchange<ARRIVE_CONSTANT>,
                                                      exchange<MBARRIER_LANES>, exchange<MBARRIER_LANE>};
    static const char *const names[WAYS] = {"bar.sync on both sides", "bar.arrive, number in a register",
                                            "bar.arrive, constant number", "mbarrier, all lanes arrive",
                                            "mbarrier, one lane arrives"};
    const int way = argc > 1 ? atoi(argv[1]) : -1;
    uint32_t *wrong, count = 1;

    if (way < 0 || way >= WAYS)
        return fprintf(stderr, "usage: exchange 0|1|2|3|4\n"), 2;
    cudaMalloc(&wrong, sizeof *wrong);
    cudaMemset(wrong, 0, sizeof *wrong);
    kernels[way]<<<1000, 64 * PAIRS>>>(wrong);
    const cudaError_t status = cudaMemcpy(&count, wrong, sizeof count, cudaMemcpyDeviceToHost);
    printf("%s: %u wrong words, %s\n", names[way], count, cudaGetErrorString(status));
    return status != cudaSuccess || count != 0;
}
