/* The CUDA driver as Glint sees it: the few types and entries it uses, declared here so that nothing of CUDA is needed
 * to build.
 *
 * `struct glint_cuda_driver` is the only door to a GPU. It is filled from libcuda.so.1 when a context is opened, or
 * handed in by a test or a simulator; no other file may name a driver function. Nothing here is global: a context owns
 * its copy of the table.
 *
 * Types are those of <cuda.h> under our names: the driver's own struct tags, `unsigned int` for its enums. So each
 * member has the type of the function in <cuda.h>, and tests/cuda/prototypes.c does not compile if one has not. */
#ifndef GLINT_CUDA_DRIVER_H
#define GLINT_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "lib/glint.h"

typedef unsigned int glint_cu_result;        /* CUresult; 0 is success */
typedef int glint_cu_device;                 /* CUdevice */
typedef unsigned long long glint_cu_address; /* CUdeviceptr */
typedef struct CUctx_st *glint_cu_context;   /* CUcontext */
typedef struct CUmod_st *glint_cu_module;    /* CUmodule */
typedef struct CUfunc_st *glint_cu_function; /* CUfunction */
typedef struct CUstream_st *glint_cu_stream; /* CUstream, cudaStream_t */

/* CUlaunchConfig and CUlaunchAttribute, whose tags are the driver's; the address of one is the address of the other. */
struct glint_cu_launch_attribute {
    unsigned int id;
    unsigned int reserved;
    unsigned int value[16];
};
struct glint_cu_launch_config {
    unsigned int grid[3], block[3];
    unsigned int shared_bytes;
    glint_cu_stream stream;
    struct glint_cu_launch_attribute *attributes;
    unsigned int attribute_count;
};
struct CUlaunchConfig_st;
struct CUtensorMap_st; /* 128 bytes, aligned to 64: struct tensor_map of lib/device/tensor_map.h */

/* Values of <cuda.h> that are used by name; tests/cuda/prototypes.c compares them. */
enum {
    GLINT_CU_SUCCESS = 0,
    GLINT_CU_OUT_OF_MEMORY = 2,
    GLINT_CU_DEINITIALIZED = 4,
    GLINT_CU_STUB_LIBRARY = 34,
    GLINT_CU_CALL_REQUIRES_NEWER_DRIVER = 36,
    GLINT_CU_NO_DEVICE = 100,
    GLINT_CU_INVALID_DEVICE = 101,
    GLINT_CU_NO_BINARY_FOR_GPU = 209,
    GLINT_CU_ECC_UNCORRECTABLE = 214,
    GLINT_CU_NVLINK_UNCORRECTABLE = 220,
    GLINT_CU_CONTAINED = 226,
    GLINT_CU_ILLEGAL_ADDRESS = 700,
    GLINT_CU_LAUNCH_TIMEOUT = 702,
    GLINT_CU_CONTEXT_IS_DESTROYED = 709,
    GLINT_CU_ASSERT = 710,
    GLINT_CU_HARDWARE_STACK_ERROR = 714,
    GLINT_CU_ILLEGAL_INSTRUCTION = 715,
    GLINT_CU_MISALIGNED_ADDRESS = 716,
    GLINT_CU_INVALID_ADDRESS_SPACE = 717,
    GLINT_CU_INVALID_PC = 718,
    GLINT_CU_LAUNCH_FAILED = 719,
    GLINT_CU_TENSOR_MEMORY_LEAK = 721,
    GLINT_CU_MPS_CLIENT_TERMINATED = 810,
    GLINT_CU_EXTERNAL_DEVICE = 911
};
/* CUdevice_attribute */
enum {
    GLINT_CU_DEVICE_MULTIPROCESSORS = 16,
    GLINT_CU_DEVICE_MAJOR = 75,
    GLINT_CU_DEVICE_MINOR = 76,
    GLINT_CU_DEVICE_SHARED_BYTES_PER_BLOCK = 97 /* ..._MAX_SHARED_MEMORY_PER_BLOCK_OPTIN */
};
/* CUfunction_attribute */
enum { GLINT_CU_FUNCTION_LOCAL_BYTES = 3, GLINT_CU_FUNCTION_DYNAMIC_SHARED_BYTES = 8 };
/* CUlaunchAttributeID. The first: value[0] to [2], blocks of a cluster in x, y and z; the second: value[0], 1 for
 * programmatic dependent launch (..._PROGRAMMATIC_STREAM_SERIALIZATION). */
enum { GLINT_CU_LAUNCH_CLUSTER = 4, GLINT_CU_LAUNCH_DEPENDENT = 6 };

/* X(member, symbol, presence, parameters). Symbols are exact versions, which dlsym gives with the ABI that they had
 * when they appeared; `_v2` where <cuda.h> maps the plain name to it. Without a `_ptsz` suffix a NULL stream is the
 * legacy default stream. Every driver since CUDA 11.0 exports the required ones. The others:
 *     cuFuncLoad              12.4   without it the attribute calls load a kernel just as well
 *     cuLaunchKernelEx        11.8   without it no row whose blocks come in clusters is run
 *     cuTensorMapEncodeTiled  12.0   without it no row that has tensor maps is run */
/* clang-format off */
#define GLINT_CUDA_ENTRIES(X)                                                                                                     \
    X(init, cuInit, REQUIRED, (unsigned int flags))                                                                               \
    X(device_count, cuDeviceGetCount, REQUIRED, (int *count))                                                                     \
    X(device_get, cuDeviceGet, REQUIRED, (glint_cu_device * device, int ordinal))                                                 \
    X(device_attribute, cuDeviceGetAttribute, REQUIRED, (int *value, unsigned int attribute, glint_cu_device device))             \
    X(primary_retain, cuDevicePrimaryCtxRetain, REQUIRED, (glint_cu_context * context, glint_cu_device device))                   \
    X(primary_release, cuDevicePrimaryCtxRelease_v2, REQUIRED, (glint_cu_device device))                                          \
    X(context_current, cuCtxGetCurrent, REQUIRED, (glint_cu_context * context))                                                   \
    X(context_push, cuCtxPushCurrent_v2, REQUIRED, (glint_cu_context context))                                                    \
    X(context_pop, cuCtxPopCurrent_v2, REQUIRED, (glint_cu_context * context))                                                    \
    X(context_device, cuCtxGetDevice, REQUIRED, (glint_cu_device * device))                                                       \
    X(module_load, cuModuleLoadData, REQUIRED, (glint_cu_module * module, const void *image))                                     \
    X(module_unload, cuModuleUnload, REQUIRED, (glint_cu_module module))                                                          \
    X(module_function, cuModuleGetFunction, REQUIRED, (glint_cu_function * function, glint_cu_module module, const char *name))   \
    X(function_load, cuFuncLoad, OPTIONAL, (glint_cu_function function))                                                          \
    X(function_attribute, cuFuncGetAttribute, REQUIRED, (int *value, unsigned int attribute, glint_cu_function function))         \
    X(function_set_attribute, cuFuncSetAttribute, REQUIRED, (glint_cu_function function, unsigned int attribute, int value))      \
    X(launch, cuLaunchKernel, REQUIRED,                                                                                           \
      (glint_cu_function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,           \
       unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, glint_cu_stream stream, void **parameters,          \
       void **extra))                                                                                                             \
    X(launch_ex, cuLaunchKernelEx, OPTIONAL,                                                                                      \
      (const struct CUlaunchConfig_st *config, glint_cu_function function, void **parameters, void **extra))                      \
    X(tensor_map_encode, cuTensorMapEncodeTiled, OPTIONAL,                                                                        \
      (struct CUtensorMap_st * map, unsigned int type, uint32_t rank, void *address, const uint64_t *extents,                     \
       const uint64_t *strides, const uint32_t *box, const uint32_t *steps, unsigned int interleave, unsigned int swizzle,        \
       unsigned int l2, unsigned int fill))                                                                                       \
    X(memory_set_words, cuMemsetD32Async, REQUIRED,                                                                               \
      (glint_cu_address to, unsigned int value, size_t words, glint_cu_stream stream))                                            \
    X(copy_to_device, cuMemcpyHtoDAsync_v2, REQUIRED,                                                                             \
      (glint_cu_address to, const void *from, size_t bytes, glint_cu_stream stream))                                              \
    X(copy_to_host, cuMemcpyDtoHAsync_v2, REQUIRED, (void *to, glint_cu_address from, size_t bytes, glint_cu_stream stream))      \
    X(stream_synchronize, cuStreamSynchronize, REQUIRED, (glint_cu_stream stream))
/* clang-format on */

struct glint_cuda_driver {
#define GLINT_CUDA_MEMBER(member, symbol, presence, parameters) glint_cu_result(*member) parameters;
    GLINT_CUDA_ENTRIES(GLINT_CUDA_MEMBER)
#undef GLINT_CUDA_MEMBER
};

/* Opens libcuda.so.1 and fills *driver from it. *library is what glint_cuda_driver_unload takes back.
 * GLINT_NO_DRIVER: no such library; GLINT_DRIVER_TOO_OLD: a required entry is missing. On failure nothing stays
 * open. Calls no driver entry. */
enum glint_status glint_cuda_driver_load(struct glint_cuda_driver *driver, void **library);

/* Gives the library back; NULL (a table that was handed in) does nothing. */
void glint_cuda_driver_unload(void *library);

/* The status that a driver's result becomes; GLINT_OK for success. Results after which a device can do nothing more
 * until its context is destroyed ("sticky" ones) become GLINT_DEVICE_LOST; what has no status of its own,
 * GLINT_DRIVER_ERROR. Pure. */
enum glint_status glint_cuda_status(glint_cu_result result);

#endif
