#include <stdint.h>

#include "tests/hostsim/rows/gpu.h"

void *gpu_stream(void)
{
    return (void *)(uintptr_t)4096;
}
