/* Rows between a tensor's dtype and f32 in scratch, and transposition. A row is read and written exactly to its end:
 * what follows may be another thread's or an unmapped page. Included by emitted kernels, and by merge.c. */
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
/* In integers. Widen: the exponent moves from bias 15 to 127 by a multiplication with 2^112, which is exact for
 * subnormals too; inf and NaN then get the full exponent. */
GLINT_INLINE void glint_widen_f16(float *dst, const uint16_t *src)
{
    glint_h8 h;
    memcpy(&h, src, sizeof h);
    const glint_u8 wide = __builtin_convertvector(h, glint_u8);
    const glint_u8 magnitude = (wide & 0x7fff) << 13;
    const glint_u8 special = (glint_u8)(magnitude >= 0x0f800000) & 0x7f800000;
    *(glint_f8_unaligned *)dst = (glint_f8)((glint_u8)((glint_f8)magnitude * 0x1p112f) | special | (wide & 0x8000) << 16);
}

/* Narrow, to nearest even. Normal: add half of the last place kept, less one when that place is even. Subnormal: adding
 * 1/2 leaves multiples of 2^-24 in the low bits, rounded by the addition itself. */
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

/* ---- 8-bit K and V: the numbers that are stored; their scales come later ---------------------------------------------------------- */

typedef int8_t glint_b8 __attribute__((vector_size(8)));
typedef int32_t glint_i8 __attribute__((vector_size(32)));

GLINT_INLINE void glint_widen_i8(float *dst, const int8_t *src)
{
    glint_b8 x;
    memcpy(&x, src, sizeof x);
    *(glint_f8_unaligned *)dst = __builtin_convertvector(__builtin_convertvector(x, glint_i8), glint_f8);
}

/* e4m3 has sign, 4 bits of exponent with bias 7 and 3 of mantissa, and NaN where all seven are ones; no infinity. Its
 * magnitude, moved up by 20, is that of a float less 120 in the exponent, so a multiplication with 2^120 is right for
 * subnormals too. */
GLINT_INLINE void glint_widen_e4m3(float *dst, const uint8_t *src)
{
    glint_b8 x;
    memcpy(&x, src, sizeof x);
    const glint_i8 bits = __builtin_convertvector(x, glint_i8) << 20 & (int32_t)0x87f00000;
    const glint_i8 nan = ((bits & 0x07f00000) == 0x07f00000) & 0x7f800000;
    *(glint_f8_unaligned *)dst = (glint_f8)((glint_i8)((glint_f8)bits * 0x1p120f) | nan);
}

/* The variant's dtype: GLINT_CPU_DTYPE is f32, f16 or bf16, and GLINT_CPU_ELEMENT its C type. K and V may have another:
 * i8 or e4m3. */
#define GLINT_PASTE_(a, b) a##b
#define GLINT_PASTE(a, b) GLINT_PASTE_(a, b)
typedef GLINT_CPU_ELEMENT glint_element;
#if defined(GLINT_CPU_KV_DTYPE)
typedef GLINT_CPU_KV_ELEMENT glint_kv;
#else
#define GLINT_CPU_KV_DTYPE GLINT_CPU_DTYPE
typedef glint_element glint_kv;
#endif

/* src [rows][count], rows `stride` elements apart  ->  dst [rows][count], rows `pitch` floats apart. */
GLINT_OUTLINE void glint_widen_rows(float *dst, ptrdiff_t pitch, const glint_element *src, int64_t stride, int64_t rows,
                                    int64_t count)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < count; i += 8)
            GLINT_PASTE(glint_widen_, GLINT_CPU_DTYPE)(dst + r * pitch + i, src + r * stride + i);
}

#if defined(GLINT_CPU_KV_ELEMENT)
/* glint_widen_rows for rows of K and V, which have a dtype of their own. */
GLINT_OUTLINE void glint_widen_kv_rows(float *dst, ptrdiff_t pitch, const glint_kv *src, int64_t stride, int64_t rows,
                                       int64_t count)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < count; i += 8)
            GLINT_PASTE(glint_widen_, GLINT_CPU_KV_DTYPE)(dst + r * pitch + i, src + r * stride + i);
}

/* Scales of `keys` keys from `key` on  ->  dst, filled up to whole vectors with zeros. They lie as the keys do. */
GLINT_OUTLINE void glint_bring_scales(float *dst, const struct glint_cpu_call *call, const float *scales, int64_t batch,
                                      int64_t head_kv, int64_t key, int64_t keys)
{
    const struct glint_problem *p = call->problem;
    const bool by_row = p->kv_scales == GLINT_SCALES_ROW;
    const float one = by_row ? 0.0f : scales[p->kv_scales == GLINT_SCALES_HEAD ? head_kv : 0];
    for (int64_t i = 0, count; i < keys && by_row; i += count) {
        const struct glint_cpu_keys at = glint_cpu_keys_at(p, call->tensors->page_table, batch, key + i);
        count = keys - i < at.rows ? keys - i : at.rows;
        memcpy(dst + i, scales + (at.page * p->heads_kv + head_kv) * (p->page_rows > 0 ? p->page_rows : call->keys) + at.row,
               sizeof(float) * (size_t)count);
    }
    for (int64_t i = 0; i < keys && !by_row; i++)
        dst[i] = one;
    for (int64_t i = keys; i % 16 != 0; i++)
        dst[i] = 0.0f;
}
#endif

/* The reverse, times `scale`. */
GLINT_OUTLINE void glint_narrow_rows(glint_element *dst, int64_t stride, const float *src, ptrdiff_t pitch, int64_t rows,
                                     int64_t count, float scale)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < count; i += 4)
            GLINT_PASTE(glint_narrow_, GLINT_CPU_DTYPE)(dst + r * stride + i, glint_load4(src + r * pitch + i) * scale);
}

/* Transposition goes by squares of GLINT_CPU_SQUARE floats: 8 x 8 where vectors hold as many, which halves the
 * instructions. */
#if GLINT_CPU_LANES >= 8
#define GLINT_CPU_SQUARE 8
typedef glint_f8 glint_line;
typedef int32_t glint_linei __attribute__((vector_size(32)));
typedef glint_f8_unaligned glint_line_unaligned;
#if defined(__clang__)
#define GLINT_SHUFFLE8(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define GLINT_SHUFFLE8(x, y, ...) __builtin_shuffle(x, y, (glint_linei){__VA_ARGS__})
#endif

GLINT_INLINE void glint_transpose_square(glint_line x[8])
{
    glint_line pair[8], four[8];
    GLINT_UNROLL
    for (int i = 0; i < 8; i += 2) {
        pair[i] = GLINT_SHUFFLE8(x[i], x[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        pair[i + 1] = GLINT_SHUFFLE8(x[i], x[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    GLINT_UNROLL
    for (int i = 0; i < 8; i += 4) {
        GLINT_UNROLL
        for (int j = 0; j < 2; j++) {
            four[i + 2 * j] = GLINT_SHUFFLE8(pair[i + j], pair[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            four[i + 2 * j + 1] = GLINT_SHUFFLE8(pair[i + j], pair[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    }
    GLINT_UNROLL
    for (int i = 0; i < 4; i++) {
        x[i] = GLINT_SHUFFLE8(four[i], four[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        x[i + 4] = GLINT_SHUFFLE8(four[i], four[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}
#else
#define GLINT_CPU_SQUARE 4
typedef glint_f4 glint_line;
typedef glint_i4 glint_linei;
typedef glint_f4_unaligned glint_line_unaligned;

GLINT_INLINE void glint_transpose_square(glint_line x[4])
{
    const glint_line ab_low = GLINT_SHUFFLE4(x[0], x[1], 0, 4, 1, 5), ab_high = GLINT_SHUFFLE4(x[0], x[1], 2, 6, 3, 7);
    const glint_line cd_low = GLINT_SHUFFLE4(x[2], x[3], 0, 4, 1, 5), cd_high = GLINT_SHUFFLE4(x[2], x[3], 2, 6, 3, 7);
    x[0] = GLINT_SHUFFLE4(ab_low, cd_low, 0, 1, 4, 5);
    x[1] = GLINT_SHUFFLE4(ab_low, cd_low, 2, 3, 6, 7);
    x[2] = GLINT_SHUFFLE4(ab_high, cd_high, 0, 1, 4, 5);
    x[3] = GLINT_SHUFFLE4(ab_high, cd_high, 2, 3, 6, 7);
}
#endif

GLINT_INLINE void glint_narrow_line(glint_element *dst, glint_line x)
{
    if (sizeof *dst == sizeof(float)) {
        memcpy(dst, &x, sizeof x);
        return;
    }
    glint_f4 quarter[GLINT_CPU_SQUARE / 4];
    memcpy(quarter, &x, sizeof x);
    for (int i = 0; i < GLINT_CPU_SQUARE / 4; i++)
        GLINT_PASTE(glint_narrow_, GLINT_CPU_DTYPE)(dst + 4 * i, quarter[i]);
}

/* The rows of a square of src [rows][count] in f32  -> columns of dst [count][pitch], times `scale`; columns from
 *                                                   `rows` on become
 * zero. */
GLINT_OUTLINE void glint_transpose_in(float *dst, ptrdiff_t dst_pitch, const float *src, ptrdiff_t src_pitch, int64_t rows,
                                      int64_t count, float scale)
{
    if (rows >= GLINT_CPU_SQUARE) {
        for (int64_t i = 0; i < count; i += GLINT_CPU_SQUARE) {
            glint_line x[GLINT_CPU_SQUARE];
            GLINT_UNROLL
            for (int r = 0; r < GLINT_CPU_SQUARE; r++)
                x[r] = *(const glint_line_unaligned *)(src + r * src_pitch + i) * scale;
            glint_transpose_square(x);
            GLINT_UNROLL
            for (int r = 0; r < GLINT_CPU_SQUARE; r++)
                *(glint_line_unaligned *)(dst + (i + r) * dst_pitch) = x[r];
        }
        return;
    }
    for (int64_t i = 0; i < count; i++)
        for (int64_t r = 0; r < GLINT_CPU_SQUARE; r++)
            dst[i * dst_pitch + r] = r < rows ? src[r * src_pitch + i] * scale : 0.0f;
}

/* The columns of a square of src [count][pitch] in f32  -> up to `rows` rows of dst [rows][count]. Column r is
 *                                                       multiplied by scale[r],
 * or gives zeros where keep[r] is 0 (it is -1 elsewhere). */
GLINT_OUTLINE void glint_transpose_out(glint_element *dst, int64_t stride, const float *src, ptrdiff_t src_pitch, int64_t rows,
                                       int64_t count, const glint_line *scale, const glint_linei *keep)
{
    const glint_line factor = *scale;
    const glint_linei kept = *keep;
    for (int64_t i = 0; i < count; i += GLINT_CPU_SQUARE) {
        glint_line x[GLINT_CPU_SQUARE];
        GLINT_UNROLL
        for (int d = 0; d < GLINT_CPU_SQUARE; d++)
            x[d] = (glint_line)((glint_linei)(*(const glint_line_unaligned *)(src + (i + d) * src_pitch) * factor) & kept);
        glint_transpose_square(x);
        GLINT_UNROLL
        for (int r = 0; r < GLINT_CPU_SQUARE; r++)
            if (r < rows)
                glint_narrow_line(dst + r * stride + i, x[r]);
    }
}

/* Does any of `rows` rows of `count` floats (a multiple of 8) hold inf or NaN? Such a number less itself is NaN, and a
 * NaN stays in the sum. */
GLINT_OUTLINE int glint_any_special(const float *src, ptrdiff_t pitch, int64_t rows, int64_t count)
{
    glint_f8 sum[2] = {{0}, {0}};
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < count; i += 8) {
            const glint_f8 x = *(const glint_f8_unaligned *)(src + r * pitch + i);
            sum[r & 1] += x - x;
        }
    const glint_f8 all = sum[0] + sum[1];
    float total = 0;
    for (int i = 0; i < 8; i++)
        total += all[i];
    return total != 0.0f;
}

#endif
