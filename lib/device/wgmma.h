/* Matrix products of a warpgroup (sm_90a), part of hopper.h.
 *
 * A warpgroup is 4 warps, the first of index 0 mod 4; all its threads issue every product. "wgmma.mma_async": d = a b,
 * or d += a b when `accumulate` is not 0, with a 64 x k, b k x n, d 64 x n floats, spread over the threads as n / 2 of
 * d. With w = warp % 4, g = lane >> 2 and q = lane & 3:
 *     d[4j], d[4j + 1]: (16 w + g, 8 j + 2 q), its neighbour      d[4j + 2], d[4j + 3]: the same of row 16 w + g + 8
 *     a in registers, as mma_m16n8k16's and mma_m16n8k8's, of the warp's own 16 rows.
 * Operands in shared memory are given by descriptors (matrix_descriptor).
 *
 * A product is not done when the next instruction is. Until a wgmma_wait covers its group, none of its registers may be
 * touched, nor the shared memory that it reads be written; only further products of the same shape may add to the same
 * d. wgmma_fence comes before the first product and whenever its registers were touched since the last one.
 *
 *     wgmma_fence();
 *     wgmma_m64n128k16_bf16<0, 0>(s, q_descriptor, k_descriptor, 0);  ...
 *     wgmma_commit();
 *     wgmma_wait<0>();
 *     wgmma_hold(s, 64);                                              the compiler reads s no earlier than here */
#ifndef GLINT_DEVICE_WGMMA_H
#define GLINT_DEVICE_WGMMA_H

/* "Matrix Descriptor Format" of an operand that begins at `shared`, a multiple of 16. `swizzle` as the tensor map's. An
 * operand is cut into atoms of 8 rows of 16, 32, 64 or 128 bytes (none, 32B, 64B, 128B), a row being along k (K-major)
 * or along m or n (MN-major):
 *     K-major:  `stride` bytes to the next 8 rows; without a swizzle `leading` bytes to the next 16 bytes of k.
 *     MN-major: `stride` bytes to the next 8 k, `leading` to the next row's worth of m or n; without a swizzle the
 *     other way round.
 * Atoms begin at multiples of 128, 256, 512 or 1024 bytes; a k-step within an atom's row just adds its bytes to the
 * address. */
GLINT_DEVICE uint64_t matrix_descriptor(uint32_t shared, uint32_t leading, uint32_t stride, const enum tensor_map_swizzle swizzle)
{
    const uint64_t mode = swizzle == TENSOR_MAP_NO_SWIZZLE ? 0 : 4 - (int)swizzle;

    return (shared >> 4 & 0x3fff) | (uint64_t)(leading >> 4 & 0x3fff) << 16 | (uint64_t)(stride >> 4 & 0x3fff) << 32 | mode << 62;
}

#include "wgmma_impl.h"

/* n, and the numbers of the nine operands after d: n / 2, ... */
/* clang-format off */
GLINT_WGMMA_SHAPE(8, 4, 5, 6, 7, 8, 9, 10, 11, 12)
GLINT_WGMMA_SHAPE(16, 8, 9, 10, 11, 12, 13, 14, 15, 16)
GLINT_WGMMA_SHAPE(24, 12, 13, 14, 15, 16, 17, 18, 19, 20)
GLINT_WGMMA_SHAPE(32, 16, 17, 18, 19, 20, 21, 22, 23, 24)
GLINT_WGMMA_SHAPE(40, 20, 21, 22, 23, 24, 25, 26, 27, 28)
GLINT_WGMMA_SHAPE(48, 24, 25, 26, 27, 28, 29, 30, 31, 32)
GLINT_WGMMA_SHAPE(56, 28, 29, 30, 31, 32, 33, 34, 35, 36)
GLINT_WGMMA_SHAPE(64, 32, 33, 34, 35, 36, 37, 38, 39, 40)
GLINT_WGMMA_SHAPE(72, 36, 37, 38, 39, 40, 41, 42, 43, 44)
GLINT_WGMMA_SHAPE(80, 40, 41, 42, 43, 44, 45, 46, 47, 48)
GLINT_WGMMA_SHAPE(88, 44, 45, 46, 47, 48, 49, 50, 51, 52)
GLINT_WGMMA_SHAPE(96, 48, 49, 50, 51, 52, 53, 54, 55, 56)
GLINT_WGMMA_SHAPE(104, 52, 53, 54, 55, 56, 57, 58, 59, 60)
GLINT_WGMMA_SHAPE(112, 56, 57, 58, 59, 60, 61, 62, 63, 64)
GLINT_WGMMA_SHAPE(120, 60, 61, 62, 63, 64, 65, 66, 67, 68)
GLINT_WGMMA_SHAPE(128, 64, 65, 66, 67, 68, 69, 70, 71, 72)
GLINT_WGMMA_SHAPE(136, 68, 69, 70, 71, 72, 73, 74, 75, 76)
GLINT_WGMMA_SHAPE(144, 72, 73, 74, 75, 76, 77, 78, 79, 80)
GLINT_WGMMA_SHAPE(152, 76, 77, 78, 79, 80, 81, 82, 83, 84)
GLINT_WGMMA_SHAPE(160, 80, 81, 82, 83, 84, 85, 86, 87, 88)
GLINT_WGMMA_SHAPE(168, 84, 85, 86, 87, 88, 89, 90, 91, 92)
GLINT_WGMMA_SHAPE(176, 88, 89, 90, 91, 92, 93, 94, 95, 96)
GLINT_WGMMA_SHAPE(184, 92, 93, 94, 95, 96, 97, 98, 99, 100)
GLINT_WGMMA_SHAPE(192, 96, 97, 98, 99, 100, 101, 102, 103, 104)
GLINT_WGMMA_SHAPE(200, 100, 101, 102, 103, 104, 105, 106, 107, 108)
GLINT_WGMMA_SHAPE(208, 104, 105, 106, 107, 108, 109, 110, 111, 112)
GLINT_WGMMA_SHAPE(216, 108, 109, 110, 111, 112, 113, 114, 115, 116)
GLINT_WGMMA_SHAPE(224, 112, 113, 114, 115, 116, 117, 118, 119, 120)
GLINT_WGMMA_SHAPE(232, 116, 117, 118, 119, 120, 121, 122, 123, 124)
GLINT_WGMMA_SHAPE(240, 120, 121, 122, 123, 124, 125, 126, 127, 128)
GLINT_WGMMA_SHAPE(248, 124, 125, 126, 127, 128, 129, 130, 131, 132)
GLINT_WGMMA_SHAPE(256, 128, 129, 130, 131, 132, 133, 134, 135, 136)
/* clang-format on */

#endif
