/* Finds the CUDA driver at run time and translates its results. The only file that calls dlopen. */
#include "lib/cuda/driver.h"

#include <dlfcn.h>
#include <string.h>

/* The driver keeps threads and exit handlers of its own, so its code must stay mapped after our reference is given
 * back. */
#ifdef RTLD_NODELETE
#define GLINT_CUDA_OPEN_FLAGS (RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)
#else
#define GLINT_CUDA_OPEN_FLAGS (RTLD_NOW | RTLD_LOCAL)
#endif

enum { OPTIONAL, REQUIRED };

struct entry {
    char symbol[32];
    uint16_t offset; /* of the member */
    uint16_t presence;
};

static const struct entry entries[] = {
#define ENTRY(member, symbol, presence, parameters) {#symbol, offsetof(struct glint_cuda_driver, member), presence},
    GLINT_CUDA_ENTRIES(ENTRY)
#undef ENTRY
};

/* POSIX lets a function's address travel through void *, C does not: its bytes are copied. */
_Static_assert(sizeof(void *) == sizeof(void (*)(void)), "dlsym can return a function");
_Static_assert(sizeof(struct glint_cuda_driver) == sizeof entries / sizeof entries[0] * sizeof(void *),
               "the table is nothing but function pointers");

enum glint_status glint_cuda_driver_load(struct glint_cuda_driver *driver, void **library)
{
    void *opened = dlopen("libcuda.so.1", GLINT_CUDA_OPEN_FLAGS);
    if (!opened)
        return GLINT_NO_DRIVER;
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        void *address = dlsym(opened, entries[i].symbol);
        if (!address && entries[i].presence == REQUIRED) {
            glint_cuda_driver_unload(opened);
            return GLINT_DRIVER_TOO_OLD;
        }
        memcpy((unsigned char *)driver + entries[i].offset, &address, sizeof address);
    }
    *library = opened;
    return GLINT_OK;
}

void glint_cuda_driver_unload(void *library)
{
    if (library)
        (void)dlclose(library);
}

static const struct {
    uint16_t result;
    uint16_t status;
} statuses[] = {
    {GLINT_CU_SUCCESS, GLINT_OK},
    {GLINT_CU_OUT_OF_MEMORY, GLINT_DEVICE_OUT_OF_MEMORY},
    {GLINT_CU_STUB_LIBRARY, GLINT_NO_DRIVER},
    {GLINT_CU_CALL_REQUIRES_NEWER_DRIVER, GLINT_DRIVER_TOO_OLD},
    {GLINT_CU_NO_DEVICE, GLINT_NO_DEVICE},
    {GLINT_CU_INVALID_DEVICE, GLINT_NO_DEVICE},
    {GLINT_CU_NO_BINARY_FOR_GPU, GLINT_NO_KERNEL_IMAGE},
    /* <cuda.h>: "leaves the process in an inconsistent state and any further CUDA work will return the same error" */
    {GLINT_CU_ILLEGAL_ADDRESS, GLINT_DEVICE_LOST},
    {GLINT_CU_LAUNCH_TIMEOUT, GLINT_DEVICE_LOST},
    {GLINT_CU_ASSERT, GLINT_DEVICE_LOST},
    {GLINT_CU_HARDWARE_STACK_ERROR, GLINT_DEVICE_LOST},
    {GLINT_CU_ILLEGAL_INSTRUCTION, GLINT_DEVICE_LOST},
    {GLINT_CU_MISALIGNED_ADDRESS, GLINT_DEVICE_LOST},
    {GLINT_CU_INVALID_ADDRESS_SPACE, GLINT_DEVICE_LOST},
    {GLINT_CU_INVALID_PC, GLINT_DEVICE_LOST},
    {GLINT_CU_LAUNCH_FAILED, GLINT_DEVICE_LOST},
    {GLINT_CU_TENSOR_MEMORY_LEAK, GLINT_DEVICE_LOST},
    {GLINT_CU_CONTAINED, GLINT_DEVICE_LOST},
    {GLINT_CU_EXTERNAL_DEVICE, GLINT_DEVICE_LOST},
    /* the device, its context, the server in front of it or the driver itself is gone */
    {GLINT_CU_ECC_UNCORRECTABLE, GLINT_DEVICE_LOST},
    {GLINT_CU_NVLINK_UNCORRECTABLE, GLINT_DEVICE_LOST},
    {GLINT_CU_CONTEXT_IS_DESTROYED, GLINT_DEVICE_LOST},
    {GLINT_CU_MPS_CLIENT_TERMINATED, GLINT_DEVICE_LOST},
    {GLINT_CU_DEINITIALIZED, GLINT_DEVICE_LOST},
};

enum glint_status glint_cuda_status(glint_cu_result result)
{
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
        if (statuses[i].result == result)
            return (enum glint_status)statuses[i].status;
    return GLINT_DRIVER_ERROR;
}
