#include "tests/cuda/device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *symbol;
    size_t offset;
} entries[] = {
#define ENTRY(member, symbol, parameters) {#symbol, offsetof(struct device_driver, member)},
    DEVICE_ENTRIES(ENTRY)
#undef ENTRY
};

void device_must(glint_cu_result result, const char *what)
{
    if (result == GLINT_CU_SUCCESS)
        return;
    fprintf(stderr, "%s: the CUDA driver answers %u\n", what, result);
    exit(EXIT_FAILURE);
}

static int load(struct device_driver *driver)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return 0;
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        void *address = dlsym(library, entries[i].symbol);
        if (!address) {
            fprintf(stderr, "the CUDA driver has no %s\n", entries[i].symbol);
            return 0;
        }
        memcpy((char *)driver + entries[i].offset, &address, sizeof address);
    }
    return 1;
}

int device_open(struct device *device, int ordinal)
{
    int major = 0, minor = 0;
    memset(device, 0, sizeof *device);
    if (!load(&device->driver) || device->driver.init(0) != GLINT_CU_SUCCESS ||
        device->driver.device_count(&device->count) != GLINT_CU_SUCCESS || ordinal >= device->count)
        return 0;
    device->ordinal = ordinal;
    DEVICE(device, driver_version, &device->driver_version);
    DEVICE(device, device_get, &device->handle, ordinal);
    DEVICE(device, device_name, device->name, (int)sizeof device->name, device->handle);
    DEVICE(device, device_attribute, &major, GLINT_CU_DEVICE_MAJOR, device->handle);
    DEVICE(device, device_attribute, &minor, GLINT_CU_DEVICE_MINOR, device->handle);
    device->sm = 10 * major + minor;
    DEVICE(device, primary_retain, &device->context, device->handle);
    DEVICE(device, context_set, device->context);
    return 1;
}

void device_close(struct device *device)
{
    DEVICE(device, context_set, NULL);
    DEVICE(device, primary_release, device->handle);
}

static glint_cu_address number(const void *address)
{
    return (glint_cu_address)(uintptr_t)address;
}

void *device_alloc(struct device *device, size_t bytes)
{
    glint_cu_address address = 0;
    DEVICE(device, memory_alloc, &address, bytes ? bytes : 1);
    return (void *)(uintptr_t)address;
}

void device_free(struct device *device, void *address)
{
    if (address)
        DEVICE(device, memory_free, number(address));
}

void device_put(struct device *device, void *to, const void *from, size_t bytes)
{
    if (bytes)
        DEVICE(device, copy_to_device, number(to), from, bytes);
}

void device_get(struct device *device, void *to, const void *from, size_t bytes)
{
    if (bytes)
        DEVICE(device, copy_to_host, to, number(from), bytes);
}

void device_set(struct device *device, void *address, unsigned char value, size_t bytes, void *stream)
{
    if (bytes)
        DEVICE(device, memory_set, number(address), value, bytes, stream);
}

void device_wait(struct device *device)
{
    device_must(device->driver.context_synchronize(), "context_synchronize");
}

size_t device_free_bytes(struct device *device)
{
    size_t free_bytes = 0, total_bytes = 0;
    DEVICE(device, memory_info, &free_bytes, &total_bytes);
    return free_bytes;
}
