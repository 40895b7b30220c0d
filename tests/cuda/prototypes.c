/* lib/cuda/driver.h and tests/cuda/device.h against <cuda.h>, by the compiler: every entry's prototype, every
 * handle's type, every value used by name. It needs the CUDA toolkit's header and neither its libraries nor a GPU. A
 * difference does not compile. */
#include <cuda.h>
#include <stddef.h>
#include <stdio.h>

#include "lib/cuda/driver.h"
#include "lib/device/tensor_map.h"
#include "tests/cuda/device.h"

/* To the compiler a CUresult is an unsigned int, and so is every enum of <cuda.h>: function types are compatible or
 * they are not. */
#define SAME_PROTOTYPE(member, symbol, presence, parameters) \
    _Static_assert(_Generic(&symbol, glint_cu_result(*) parameters : 1, default : 0), #symbol);
GLINT_CUDA_ENTRIES(SAME_PROTOTYPE)

/* What <cuda.h> maps to a versioned name is declared under that name only. */
#define SAME_TEST_PROTOTYPE(member, symbol, parameters) SAME_PROTOTYPE(member, symbol, 0, parameters)
DEVICE_ENTRIES(SAME_TEST_PROTOTYPE)

#define SAME_TYPE(ours, theirs) _Static_assert(_Generic((ours)0, theirs : 1, default : 0), #ours)
SAME_TYPE(glint_cu_result, unsigned int);
SAME_TYPE(glint_cu_device, CUdevice);
SAME_TYPE(glint_cu_address, CUdeviceptr);
SAME_TYPE(glint_cu_context, CUcontext);
SAME_TYPE(glint_cu_module, CUmodule);
SAME_TYPE(glint_cu_function, CUfunction);
SAME_TYPE(glint_cu_stream, CUstream);
SAME_TYPE(glint_cu_event, CUevent);
SAME_TYPE(glint_cu_graph, CUgraph);
SAME_TYPE(glint_cu_replay, CUgraphExec);
_Static_assert(sizeof(CUresult) == sizeof(glint_cu_result), "CUresult");

#define SAME_VALUE(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours);
#define SAME_RESULT(name) SAME_VALUE(GLINT_CU_##name, CUDA_ERROR_##name)
SAME_VALUE(GLINT_CU_SUCCESS, CUDA_SUCCESS)
SAME_RESULT(OUT_OF_MEMORY)
SAME_RESULT(DEINITIALIZED)
SAME_RESULT(STUB_LIBRARY)
SAME_RESULT(CALL_REQUIRES_NEWER_DRIVER)
SAME_RESULT(NO_DEVICE)
SAME_RESULT(INVALID_DEVICE)
SAME_RESULT(NO_BINARY_FOR_GPU)
SAME_RESULT(ECC_UNCORRECTABLE)
SAME_RESULT(NVLINK_UNCORRECTABLE)
SAME_RESULT(CONTAINED)
SAME_RESULT(ILLEGAL_ADDRESS)
SAME_RESULT(LAUNCH_TIMEOUT)
SAME_RESULT(CONTEXT_IS_DESTROYED)
SAME_RESULT(ASSERT)
SAME_RESULT(HARDWARE_STACK_ERROR)
SAME_RESULT(ILLEGAL_INSTRUCTION)
SAME_RESULT(MISALIGNED_ADDRESS)
SAME_RESULT(INVALID_ADDRESS_SPACE)
SAME_RESULT(INVALID_PC)
SAME_RESULT(LAUNCH_FAILED)
SAME_RESULT(TENSOR_MEMORY_LEAK)
SAME_RESULT(MPS_CLIENT_TERMINATED)
SAME_RESULT(EXTERNAL_DEVICE)
SAME_VALUE(GLINT_CU_DEVICE_MULTIPROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
SAME_VALUE(GLINT_CU_DEVICE_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
SAME_VALUE(GLINT_CU_DEVICE_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
SAME_VALUE(GLINT_CU_DEVICE_SHARED_BYTES_PER_BLOCK, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
SAME_VALUE(GLINT_CU_FUNCTION_LOCAL_BYTES, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)
SAME_VALUE(GLINT_CU_FUNCTION_DYNAMIC_SHARED_BYTES, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
SAME_VALUE(GLINT_CU_LAUNCH_CLUSTER, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
SAME_VALUE(GLINT_CU_LAUNCH_DEPENDENT, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
SAME_VALUE(DEVICE_CAPTURE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL)
SAME_VALUE(DEVICE_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING)

/* Structs that are passed by address. */
#define SAME_STRUCT(ours, theirs) _Static_assert(sizeof(struct ours) == sizeof(theirs), #ours);
#define SAME_MEMBER(ours, member, theirs, name) \
    _Static_assert(offsetof(struct ours, member) == offsetof(theirs, name), #ours "." #member);
SAME_STRUCT(glint_cu_launch_config, CUlaunchConfig)
SAME_MEMBER(glint_cu_launch_config, grid[1], CUlaunchConfig, gridDimY)
SAME_MEMBER(glint_cu_launch_config, block, CUlaunchConfig, blockDimX)
SAME_MEMBER(glint_cu_launch_config, shared_bytes, CUlaunchConfig, sharedMemBytes)
SAME_MEMBER(glint_cu_launch_config, stream, CUlaunchConfig, hStream)
SAME_MEMBER(glint_cu_launch_config, attributes, CUlaunchConfig, attrs)
SAME_MEMBER(glint_cu_launch_config, attribute_count, CUlaunchConfig, numAttrs)
SAME_STRUCT(glint_cu_launch_attribute, CUlaunchAttribute)
SAME_MEMBER(glint_cu_launch_attribute, id, CUlaunchAttribute, id)
SAME_MEMBER(glint_cu_launch_attribute, value[0], CUlaunchAttribute, value.clusterDim.x)
SAME_MEMBER(glint_cu_launch_attribute, value[2], CUlaunchAttribute, value.clusterDim.z)
SAME_MEMBER(glint_cu_launch_attribute, value[0], CUlaunchAttribute, value.programmaticStreamSerializationAllowed)
SAME_STRUCT(tensor_map, CUtensorMap)
SAME_VALUE(TENSOR_MAP_F16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16)
SAME_VALUE(TENSOR_MAP_F32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32)
SAME_VALUE(TENSOR_MAP_BF16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16)
SAME_VALUE(TENSOR_MAP_NO_INTERLEAVE, CU_TENSOR_MAP_INTERLEAVE_NONE)
SAME_VALUE(TENSOR_MAP_NO_SWIZZLE, CU_TENSOR_MAP_SWIZZLE_NONE)
SAME_VALUE(TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_SWIZZLE_128B)
SAME_VALUE(TENSOR_MAP_L2_256B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B)
SAME_VALUE(TENSOR_MAP_FILL_ZERO, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)

int main(void)
{
    return printf("every prototype and value agrees with <cuda.h> %d\n", CUDA_VERSION) < 0;
}
