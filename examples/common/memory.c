#include "examples/common/memory.h"

int memory_open_gpu(struct memory *memory)
{
    if (gpu_open(&memory->gpu) != 0)
        return -1;
    memory->device = gpu_allocate(&memory->gpu, memory->bytes);
    if (memory->device)
        return 0;
    gpu_close(&memory->gpu);
    memory->device = memory->host;
    return -1;
}

void *memory_take(struct memory *memory, size_t bytes)
{
    size_t step = (bytes + 255) / 256 * 256;
    if (bytes > memory->bytes || step > memory->bytes - memory->used)
        return NULL;
    memory->used += step;
    return memory->device + memory->used - step;
}

void *memory_host(const struct memory *memory, const void *address)
{
    return memory->host + ((const unsigned char *)address - memory->device);
}

int memory_put(struct memory *memory, void *address, size_t bytes)
{
    return memory->gpu.library ? gpu_put(&memory->gpu, address, memory_host(memory, address), bytes) : 0;
}

int memory_get(struct memory *memory, const void *address, size_t bytes)
{
    return memory->gpu.library ? gpu_get(&memory->gpu, memory_host(memory, address), address, bytes) : 0;
}
