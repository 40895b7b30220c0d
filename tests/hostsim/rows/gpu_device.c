/* What rows.c asks of the simulator's driver, by a GPU and its own driver. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/cuda/device.h"
#include "tests/hostsim/driver.h"
#include "tests/hostsim/rows/gpu.h"

enum { NO_GPU = 77, CANARY = 0xa5 };

static struct device device;
static glint_cu_stream stream;
static glint_cu_result result;

/* NULL: a context loads the system's. */
const struct glint_cuda_driver *sim_driver(uint32_t sm)
{
    (void)sm;
    if (!device.context && !device_open(&device, 0)) {
        printf("no GPU: nothing was checked\n");
        exit(NO_GPU);
    }
    if (!stream)
        DEVICE(&device, stream_create, &stream, DEVICE_STREAM_NON_BLOCKING);
    return NULL;
}

void *gpu_stream(void)
{
    return stream;
}

void *sim_allocate(size_t bytes)
{
    return device_alloc(&device, bytes);
}

void sim_release(void *memory)
{
    device_free(&device, memory);
}

void sim_put(void *to, const void *from, size_t bytes)
{
    device_put(&device, to, from, bytes);
    device_wait(&device);
}

void sim_get(void *to, const void *from, size_t bytes)
{
    device_wait(&device);
    device_get(&device, to, from, bytes);
}

void sim_forget(void *memory, size_t bytes)
{
    device_set(&device, memory, CANARY, bytes, NULL);
    device_wait(&device);
}

void sim_seed(uint64_t seed)
{
    (void)seed;
}

uint32_t sim_findings(void)
{
    result = device.driver.context_synchronize();
    return result != GLINT_CU_SUCCESS;
}

const char *sim_finding_text(uint32_t i)
{
    static char text[80];
    snprintf(text, sizeof text, "finding %u: the CUDA driver answers %u", i, result);
    return text;
}
