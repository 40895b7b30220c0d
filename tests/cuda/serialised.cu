// Products whose registers the compiler cannot keep in place while they are under way, so that ptxas makes each wait for the one before:
// right, and slow. The build must refuse it; with -DHELD it is as it should be.
#include "lib/device/hopper.h"
#include "lib/device/wgmma.h"

extern "C" __global__ void __launch_bounds__(128) serialised(float *out, uint64_t a, uint64_t b)
{
    float d[32];
    for (int i = 0; i < 32; i++)
        d[i] = out[i];
#ifdef HELD
    wgmma_hold(d, 32);
#endif
    wgmma_fence();
    wgmma_m64n64k16_bf16<0, 0>(d, a, b, 1);
    wgmma_commit();
#ifdef HELD
    wgmma_wait<0>();
    wgmma_hold(d, 32);
#else
    d[5] += 1;
#endif
    wgmma_fence();
    wgmma_m64n64k16_bf16<0, 0>(d, a, b, 1);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_hold(d, 32);
    for (int i = 0; i < 32; i++)
        out[threadIdx.x + 128 * i] = d[i];
}
