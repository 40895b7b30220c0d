/* Rows between a tensor's dtype and f32 in scratch, and transposition. A row is read and written exactly to its end: what follows
 * may be another thread's or an unmapped page. Included by emitted kernels only, after vector.h. */
#ifndef GLINT_CPU_ROWS_H
#define GLINT_CPU_ROWS_H

#include "lib/cpu/vector.h"

typedef float glint_f4 __attribute__((vector_size(16)));
typedef int32_t glint_i4 __attribute__((vector_size(16)));
typedef uint32_t glint_u4 __attribute__((vector_size(16)));
typedef uint16_t glint_h4 __attribute__((vector_size(8)));
typedef float glint_f4_unaligned __attribute__((vector_size(16), aligned(4), may_alias));

typedef float glint_f8 __attribute__((vector_size(32)));
typedef uint32_t glint_u8 __attribute__((vector_size(32)));
typedef uint16_t glint_h8 __attribute__((vector_size(16)));
typedef float glint_f8_unaligned __attribute__((vector_size(32), aligned(4), may_alias));

#if defined(__clang__)
#define GLINT_SHUFFLE4(x, y, i, j, k, l) __builtin_shufflevector(x, y, i, j, k, l)
#else
#define GLINT_SHUFFLE4(x, y, i, j, k, l) __builtin_shuffle(x, y, (glint_i4){i, j, k, l})
#endif

/* Widen: eight elements to f32. Narrow: four. Every head dim is a multiple of 8. */
GLINT_INLINE glint_f4 glint_load4(const float *src)
{
    return *(const glint_f4_unaligned *)src;
}
GLINT_INLINE void glint_widen_f32(float *dst, const float *src)
{
    *(glint_f8_unaligned *)dst = *(const glint_f8_unaligned *)src;
}
GLINT_INLINE void glint_narrow_f32(float *dst, glint_f4 x)
{
    *(glint_f4_unaligned *)dst = x;
}
GLINT_INLINE void glint_store4(float *dst, glint_f4 x)
{
    *(glint_f4_unaligned *)dst = x;
}

GLINT_INLINE void glint_widen_bf16(float *dst, const uint16_t *src)
{
    glint_h8 h;
    memcpy(&h, src, sizeof h);
    *(glint_f8_unaligned *)dst = (glint_f8)(__builtin_convertvector(h, glint_u8) << 16);
}

/* Round to nearest even; NaN stays a NaN. */
GLINT_INLINE void glint_narrow_bf16(uint16_t *dst, glint_f4 x)
{
    const glint_u4 bits = (glint_u4)x;
    const glint_u4 rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const glint_u4 nan = (glint_u4)(x != x);
    const glint_h4 h = __builtin_convertvector((nan & (bits >> 16 | 0x40)) | (~nan & rounded), glint_h4);
    memcpy(dst, &h, sizeof h);
}

#if defined(__F16C__)
typedef int16_t glint_s8 __attribute__((vector_size(16)));

GLINT_INLINE void glint_widen_f16(float *dst, const uint16_t *src)
{
    glint_s8 h;
    memcpy(&h, src, sizeof h);
    *(glint_f8_unaligned *)dst = __builtin_ia32_vcvtph2ps256(h);
}

GLINT_INLINE void glint_narrow_f16(uint16_t *dst, glint_f4 x)
{
    const glint_s8 h = __builtin_ia32_vcvtps2ph(x, 0); /* 0: to nearest even, whatever MXCSR says */
    memcpy(dst, &h, 8);
}
#elif defined(__aarch64__)
typedef __fp16 glint_fp16x4 __attribute__((vector_size(8)));

GLINT_INLINE void glint_widen_f16(float *dst, const uint16_t *src)
{
    glint_fp16x4 h[2];
    memcpy(h, src, sizeof h);
    glint_store4(dst, __builtin_convertvector(h[0], glint_f4));
    glint_store4(dst + 4, __builtin_convertvector(h[1], glint_f4));
}

GLINT_INLINE void glint_narrow_f16(uint16_t *dst, glint_f4 x)
{
    const glint_fp16x4 h = __builtin_convertvector(x, glint_fp16x4);
    memcpy(dst, &h, sizeof h);
}
#else
/* In integers. Widen: the exponent moves from bias 15 to 127 by a multiplication with 2^112, which is exact for subnormals too; inf and
 * NaN then get the full exponent. */
GLINT_INLINE void glint_widen_f16(float *dst, const uint16_t *src)
{
    glint_h8 h;
    memcpy(&h, src, sizeof h);
    const glint_u8 wide = __builtin_convertvector(h, glint_u8);
    const glint_u8 magnitude = (wide & 0x7fff) << 13;
    const glint_u8 special = (glint_u8)(magnitude >= 0x0f800000) & 0x7f800000;
    *(glint_f8_unaligned *)dst = (glint_f8)((glint_u8)((glint_f8)magnitude * 0x1p112f) | special | (wide & 0x8000) << 16);
}

/* Narrow, to nearest even. Normal: add half of the last place kept, less one when that place is even. Subnormal: adding 1/2 leaves
 * multiples of 2^-24 in the low bits, rounded by the addition itself. */
GLINT_INLINE void glint_narrow_f16(uint16_t *dst, glint_f4 x)
{
    const glint_u4 bits = (glint_u4)x, sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    const glint_u4 normal = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
    const glint_u4 subnormal = (glint_u4)((glint_f4)magnitude + 0.5f) - 0x3f000000;
    const glint_u4 special = 0x7c00 | ((glint_u4)((glint_i4)magnitude > 0x7f800000) & 0x200);
    const glint_u4 small = (glint_u4)((glint_i4)magnitude < 0x38800000), large = (glint_u4)((glint_i4)magnitude >= 0x477ff000);
    const glint_u4 value = (small & subnormal) | (large & special) | (~small & ~large & normal);
    const glint_h4 h = __builtin_convertvector(value | sign, glint_h4);
    memcpy(dst, &h, sizeof h);
}
#endif

/* Transposes 4 x 4 floats, times `scale`. */
GLINT_INLINE void glint_transpose4(float *dst, ptrdiff_t dst_pitch, const float *src, ptrdiff_t src_pitch, float scale)
{
    const glint_f4 a = glint_load4(src), b = glint_load4(src + src_pitch);
    const glint_f4 c = glint_load4(src + 2 * src_pitch), d = glint_load4(src + 3 * src_pitch);
    const glint_f4 ab_low = GLINT_SHUFFLE4(a, b, 0, 4, 1, 5), ab_high = GLINT_SHUFFLE4(a, b, 2, 6, 3, 7);
    const glint_f4 cd_low = GLINT_SHUFFLE4(c, d, 0, 4, 1, 5), cd_high = GLINT_SHUFFLE4(c, d, 2, 6, 3, 7);
    glint_store4(dst, GLINT_SHUFFLE4(ab_low, cd_low, 0, 1, 4, 5) * scale);
    glint_store4(dst + dst_pitch, GLINT_SHUFFLE4(ab_low, cd_low, 2, 3, 6, 7) * scale);
    glint_store4(dst + 2 * dst_pitch, GLINT_SHUFFLE4(ab_high, cd_high, 0, 1, 4, 5) * scale);
    glint_store4(dst + 3 * dst_pitch, GLINT_SHUFFLE4(ab_high, cd_high, 2, 3, 6, 7) * scale);
}

/* The variant's dtype: GLINT_CPU_DTYPE is f32, f16 or bf16, and GLINT_CPU_ELEMENT its C type. */
#define GLINT_PASTE_(a, b) a##b
#define GLINT_PASTE(a, b) GLINT_PASTE_(a, b)
typedef GLINT_CPU_ELEMENT glint_element;

/* src [rows][count], rows `stride` elements apart  ->  dst [rows][count], rows `pitch` floats apart. */
GLINT_OUTLINE void glint_widen_rows(float *dst, ptrdiff_t pitch, const glint_element *src, int64_t stride, int64_t rows,
                                    int64_t count)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < count; i += 8)
            GLINT_PASTE(glint_widen_, GLINT_CPU_DTYPE)(dst + r * pitch + i, src + r * stride + i);
}

/* The reverse, times `scale`. */
GLINT_OUTLINE void glint_narrow_rows(glint_element *dst, int64_t stride, const float *src, ptrdiff_t pitch, int64_t rows,
                                     int64_t count, float scale)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < count; i += 4)
            GLINT_PASTE(glint_narrow_, GLINT_CPU_DTYPE)(dst + r * stride + i, glint_load4(src + r * pitch + i) * scale);
}

/* Four rows of src [rows][count] in f32  ->  four columns of dst [count][pitch], times `scale`; columns from `rows` on become zero. */
GLINT_OUTLINE void glint_transpose_in(float *dst, ptrdiff_t dst_pitch, const float *src, ptrdiff_t src_pitch, int64_t rows,
                                      int64_t count, float scale)
{
    if (rows >= 4) {
        for (int64_t i = 0; i < count; i += 4)
            glint_transpose4(dst + i * dst_pitch, dst_pitch, src + i, src_pitch, scale);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        for (int64_t r = 0; r < 4; r++)
            dst[i * dst_pitch + r] = r < rows ? src[r * src_pitch + i] * scale : 0.0f;
}

/* src [count][pitch] in f32  ->  dst [rows][count], times `scale`; `row` holds 4 rows of count floats. */
GLINT_OUTLINE void glint_transpose_out(glint_element *dst, int64_t stride, const float *src, ptrdiff_t src_pitch, int64_t rows,
                                       int64_t count, float scale, float *row, ptrdiff_t row_pitch)
{
    for (int64_t r = 0; r < rows; r += 4) {
        for (int64_t i = 0; i < count; i += 4)
            glint_transpose4(row + i, row_pitch, src + i * src_pitch + r, src_pitch, scale);
        glint_narrow_rows(dst + r * stride, stride, row, row_pitch, rows - r < 4 ? rows - r : 4, count, 1.0f);
    }
}

/* Does any of `rows` rows of `count` floats (a multiple of 4) hold inf or NaN? */
GLINT_OUTLINE int glint_any_special(const float *src, ptrdiff_t pitch, int64_t rows, int64_t count)
{
    glint_i4 found = {0};
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < count; i += 4)
            found |= ((glint_i4)glint_load4(src + r * pitch + i) & 0x7f800000) == 0x7f800000;
    return (found[0] | found[1] | found[2] | found[3]) != 0;
}

#endif
