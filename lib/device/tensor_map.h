/* The descriptor of a tensor in global memory that the tensor copy engine of Hopper reads: CUtensorMap of <cuda.h>,
 * made on the host by cuTensorMapEncodeTiled and handed to a kernel by value, as a member of its parameter struct.
 * Plain C that nvcc reads too. */
#ifndef GLINT_DEVICE_TENSOR_MAP_H
#define GLINT_DEVICE_TENSOR_MAP_H

#include <stdint.h>

/* What the words mean is the driver's affair. */
struct tensor_map {
#ifdef __cplusplus
    alignas(64)
#else
    _Alignas(64)
#endif
        uint64_t words[16];
};

enum { TENSOR_MAP_RANK = 5 }; /* at most */

/* CUtensorMapDataType */
enum tensor_map_type {
    TENSOR_MAP_U8 = 0,
    TENSOR_MAP_U16 = 1,
    TENSOR_MAP_U32 = 2,
    TENSOR_MAP_S32 = 3,
    TENSOR_MAP_U64 = 4,
    TENSOR_MAP_S64 = 5,
    TENSOR_MAP_F16 = 6,
    TENSOR_MAP_F32 = 7,
    TENSOR_MAP_F64 = 8,
    TENSOR_MAP_BF16 = 9,
    TENSOR_MAP_F32_FTZ = 10,
    TENSOR_MAP_TF32 = 11,
    TENSOR_MAP_TF32_FTZ = 12
};

/* CUtensorMapInterleave */
enum { TENSOR_MAP_NO_INTERLEAVE = 0, TENSOR_MAP_INTERLEAVE_16B = 1, TENSOR_MAP_INTERLEAVE_32B = 2 };

/* CUtensorMapSwizzle: within a tile in shared memory, address bits 4 (5, 6) are exclusive-ored with bits 7 (8, 9). */
enum tensor_map_swizzle {
    TENSOR_MAP_NO_SWIZZLE = 0,
    TENSOR_MAP_SWIZZLE_32B = 1,
    TENSOR_MAP_SWIZZLE_64B = 2,
    TENSOR_MAP_SWIZZLE_128B = 3
};

/* CUtensorMapL2promotion */
enum { TENSOR_MAP_L2_NONE = 0, TENSOR_MAP_L2_64B = 1, TENSOR_MAP_L2_128B = 2, TENSOR_MAP_L2_256B = 3 };

/* CUtensorMapFloatOOBfill: what a tile has beyond the tensor's ends. */
enum { TENSOR_MAP_FILL_ZERO = 0, TENSOR_MAP_FILL_NAN = 1 };

#endif
