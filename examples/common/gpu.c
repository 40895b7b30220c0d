#include "examples/common/gpu.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int fail(struct gpu *gpu, const char *what, unsigned result)
{
    if (result != 0)
        snprintf(gpu->reason, sizeof gpu->reason, "%s: the CUDA driver answers %u", what, result);
    return result == 0 ? 0 : -1;
}

/* The functions by the names and versions that every driver since CUDA 11 has. */
static int load(struct gpu *gpu)
{
    const struct {
        const char *name;
        void *member;
    } entries[] = {
        {"cuInit", &gpu->driver.init},
        {"cuDeviceGet", &gpu->driver.device_get},
        {"cuDeviceGetName", &gpu->driver.device_name},
        {"cuDevicePrimaryCtxRetain", &gpu->driver.retain},
        {"cuDevicePrimaryCtxRelease_v2", &gpu->driver.release},
        {"cuCtxSetCurrent", &gpu->driver.set_current},
        {"cuMemGetInfo_v2", &gpu->driver.memory},
        {"cuMemAlloc_v2", &gpu->driver.allocate},
        {"cuMemcpyHtoD_v2", &gpu->driver.to_device},
        {"cuMemcpyDtoH_v2", &gpu->driver.to_host},
    };
    gpu->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!gpu->library) {
        snprintf(gpu->reason, sizeof gpu->reason, "there is no NVIDIA driver (libcuda.so.1) on this machine");
        return -1;
    }
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        void *address = dlsym(gpu->library, entries[i].name);
        if (!address) {
            snprintf(gpu->reason, sizeof gpu->reason, "the NVIDIA driver has no %s: it is too old", entries[i].name);
            return -1;
        }
        memcpy(entries[i].member, &address, sizeof address); /* C has no cast from an object's address to a function's */
    }
    return 0;
}

static int start(struct gpu *gpu)
{
    void *context = NULL;
    if (load(gpu) != 0 || fail(gpu, "cuInit", gpu->driver.init(0)) != 0 ||
        fail(gpu, "cuDeviceGet", gpu->driver.device_get(&gpu->device, 0)) != 0 ||
        fail(gpu, "cuDeviceGetName", gpu->driver.device_name(gpu->name, (int)sizeof gpu->name, gpu->device)) != 0 ||
        fail(gpu, "cuDevicePrimaryCtxRetain", gpu->driver.retain(&context, gpu->device)) != 0)
        return -1;
    if (fail(gpu, "cuCtxSetCurrent", gpu->driver.set_current(context)) == 0)
        return 0;
    gpu->driver.release(gpu->device);
    return -1;
}

int gpu_open(struct gpu *gpu)
{
    memset(gpu, 0, sizeof *gpu);
    if (start(gpu) == 0)
        return 0;
    if (gpu->library)
        dlclose(gpu->library);
    gpu->library = NULL;
    return -1;
}

void gpu_close(struct gpu *gpu)
{
    if (!gpu->library)
        return;
    gpu->driver.set_current(NULL);
    gpu->driver.release(gpu->device); /* the last one to release it: the context ends, and its memory is free */
    dlclose(gpu->library);
    gpu->library = NULL;
}

size_t gpu_used(struct gpu *gpu)
{
    size_t free = 0, total = 0;
    return gpu->library && gpu->driver.memory(&free, &total) == 0 ? total - free : 0;
}

void *gpu_allocate(struct gpu *gpu, size_t bytes)
{
    unsigned long long address = 0;
    return fail(gpu, "cuMemAlloc", gpu->driver.allocate(&address, bytes ? bytes : 1)) == 0 ? (void *)(uintptr_t)address : NULL;
}

int gpu_put(struct gpu *gpu, void *to, const void *from, size_t bytes)
{
    return bytes == 0 ? 0 : fail(gpu, "cuMemcpyHtoD", gpu->driver.to_device((uintptr_t)to, from, bytes));
}

int gpu_get(struct gpu *gpu, void *to, const void *from, size_t bytes)
{
    return bytes == 0 ? 0 : fail(gpu, "cuMemcpyDtoH", gpu->driver.to_host(to, (uintptr_t)from, bytes));
}
