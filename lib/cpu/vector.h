/* Vectors of GLINT_CPU_LANES floats in GCC vector extensions, and the few functions that attention needs on them: no
 * libm, no intrinsics header (those double a kernel's compile time). Included by emitted kernels and by merge.c, after
 * they define GLINT_CPU_LANES. */
#ifndef GLINT_CPU_VECTOR_H
#define GLINT_CPU_VECTOR_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define GLINT_INLINE static inline __attribute__((always_inline))
#define GLINT_OUTLINE static __attribute__((noinline, unused)) /* one copy in a kernel; not every kernel needs it */
#if defined(__clang__)
#define GLINT_UNROLL _Pragma("unroll")
#else
#define GLINT_UNROLL _Pragma("GCC unroll 16")
#endif

typedef float glint_vec __attribute__((vector_size(4 * GLINT_CPU_LANES)));
typedef int32_t glint_veci __attribute__((vector_size(4 * GLINT_CPU_LANES)));
typedef float glint_vec_unaligned __attribute__((vector_size(4 * GLINT_CPU_LANES), aligned(4), may_alias));

GLINT_INLINE glint_vec glint_load(const float *p)
{
    return *(const glint_vec_unaligned *)p;
}
GLINT_INLINE void glint_store(float *p, glint_vec x)
{
    *(glint_vec_unaligned *)p = x;
}
GLINT_INLINE glint_vec glint_splat(float x)
{
    return x - (glint_vec){0};
}
GLINT_INLINE glint_veci glint_splati(int32_t x)
{
    return x - (glint_veci){0};
}

/* Whether a product is fused with a sum. A source that defines GLINT_CPU_UNFUSED has the bits of a machine without an
 * instruction for it. */
#if (defined(__FMA__) || defined(__aarch64__)) && !defined(GLINT_CPU_UNFUSED)
#define GLINT_CPU_FUSES 1
#else
#define GLINT_CPU_FUSES 0
#endif

/* a b + c, rounded once where it is fused, else twice; never by libm's fma. Only what is written so is fused: kernels
 * are compiled with -ffp-contract=off. If compilers had the choice, they would fuse two copies of a loop in two ways,
 * and a row's bits would depend on how it is called. */
GLINT_INLINE glint_vec glint_fma(glint_vec a, glint_vec b, glint_vec c)
{
#if !GLINT_CPU_FUSES
    return a * b + c;
#elif defined(__clang__)
#pragma clang fp contract(on)
    return a * b + c;
#elif defined(__AVX512F__) && GLINT_CPU_LANES == 16
    return __builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4);
#elif defined(__FMA__) && GLINT_CPU_LANES == 8
    return __builtin_ia32_vfmaddps256(a, b, c);
#elif defined(__FMA__) && GLINT_CPU_LANES == 4
    return __builtin_ia32_vfmaddps(a, b, c);
#elif defined(__aarch64__) && GLINT_CPU_LANES == 4
    return __builtin_aarch64_fmav4sf(a, b, c);
#else
#error "no fused multiply-add of so many lanes"
#endif
}

/* a b + c of one number, rounded as often as glint_fma rounds. */
GLINT_INLINE float glint_fma_scalar(float a, float b, float c)
{
#if !GLINT_CPU_FUSES
    return a * b + c;
#elif defined(__clang__)
#pragma clang fp contract(on)
    return a * b + c;
#else
    return __builtin_fmaf(a, b, c);
#endif
}

/* A step of Horner's rule: p x + c. */
GLINT_INLINE glint_vec glint_horner(glint_vec p, glint_vec x, float c)
{
    return glint_fma(p, x, glint_splat(c));
}

/* mask ? a : b; every lane of the mask is all ones or all zeros. */
GLINT_INLINE glint_vec glint_select(glint_veci mask, glint_vec a, glint_vec b)
{
    return (glint_vec)((mask & (glint_veci)a) | (~mask & (glint_veci)b));
}

/* a > b ? a : b: NaN in a gives b. */
GLINT_INLINE glint_vec glint_max(glint_vec a, glint_vec b)
{
#if defined(__AVX512F__) && GLINT_CPU_LANES == 16 && !defined(__clang__)
    return __builtin_ia32_maxps512_mask(a, b, a, -1, 4);
#elif defined(__AVX512F__) && GLINT_CPU_LANES == 16
    return __builtin_ia32_maxps512(a, b, 4);
#elif defined(__AVX__) && GLINT_CPU_LANES == 8
    return __builtin_ia32_maxps256(a, b);
#elif defined(__SSE__) && GLINT_CPU_LANES == 4
    return __builtin_ia32_maxps(a, b);
#else
    return glint_select(a > b, a, b);
#endif
}

/* a < b ? a : b: NaN in a gives b. */
GLINT_INLINE glint_vec glint_min(glint_vec a, glint_vec b)
{
#if defined(__AVX512F__) && GLINT_CPU_LANES == 16 && !defined(__clang__)
    return __builtin_ia32_minps512_mask(a, b, a, -1, 4);
#elif defined(__AVX512F__) && GLINT_CPU_LANES == 16
    return __builtin_ia32_minps512(a, b, 4);
#elif defined(__AVX__) && GLINT_CPU_LANES == 8
    return __builtin_ia32_minps256(a, b);
#elif defined(__SSE__) && GLINT_CPU_LANES == 4
    return __builtin_ia32_minps(a, b);
#else
    return glint_select(a < b, a, b);
#endif
}

/* Whether no lane is above `limit`; NaN is not. */
GLINT_INLINE bool glint_none_above(glint_vec x, float limit)
{
#if defined(__AVX512F__) && GLINT_CPU_LANES == 16 && !defined(__clang__)
    enum { NOT_LESS = 5, AS_MXCSR_SAYS = 4 }; /* a predicate, true for NaN; a rounding */
    return (uint16_t)__builtin_ia32_cmpps512_mask(glint_splat(limit), x, NOT_LESS, 0xffff, AS_MXCSR_SAYS) == 0xffff;
#elif defined(__AVX__) && GLINT_CPU_LANES == 8
    return __builtin_ia32_movmskps256((glint_vec)(x > limit)) == 0;
#elif defined(__SSE__) && GLINT_CPU_LANES == 4
    return __builtin_ia32_movmskps((glint_vec)(x > limit)) == 0;
#else
    const glint_veci above = x > limit;
    int32_t any = 0;
    for (int i = 0; i < GLINT_CPU_LANES; i++)
        any |= above[i];
    return any == 0;
#endif
}

/* 0, 1, 2, ... */
GLINT_INLINE glint_veci glint_lane_index(void)
{
    static const int32_t index[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    glint_veci lanes;
    memcpy(&lanes, index, sizeof lanes);
    return lanes;
}

GLINT_INLINE glint_vec glint_abs(glint_vec x)
{
    return (glint_vec)((glint_veci)x & 0x7fffffff);
}

/* exp(t) for t <= 0, NaN for NaN, and 0 for t < least. `least` is at least GLINT_EXP_LEAST, above which results are
 * normal numbers. With n = round(t log2 e) and r = t log2 e - n in [-1/2, 1/2], exp(t) = 2^n 2^r; 2^r by the
 * polynomial of degree 5 with constant term 1 of least relative error (9.2e-8), so exp(0) is exactly 1. Adding
 * 1.5 * 2^23 rounds to an integer and leaves it in the low bits of the sum; with the exponent's bias added too, they
 * are shifted into a power of two. AVX-512 multiplies by 2^n, and leaves lanes out, in one instruction, with the same
 * bits; a table of 2^(i/16) there would take as many. Backward recomputes with the same function what forward
 * computed. */
#define GLINT_EXP_LEAST (-0x1.5d58p+6f) /* -87.3359: log2 e times it is above -126 */
GLINT_INLINE glint_vec glint_exp_from(glint_vec t, const float least)
{
    const float log2e = 0x1.715476p+0f, magic = 0x1.8p23f + 127.0f;
    const glint_vec shifted = glint_horner(t, glint_splat(log2e), magic);
    const glint_vec n = shifted - magic;
    const glint_vec r = glint_fma(t, glint_splat(log2e), -n);
    glint_vec p = glint_horner(glint_splat(0x1.5bba14p-10f), r, 0x1.3cea88p-7f);
    p = glint_horner(p, r, 0x1.c6b752p-5f);
    p = glint_horner(p, r, 0x1.ebf9bcp-3f);
    p = glint_horner(p, r, 0x1.62e42ap-1f);
    p = glint_horner(p, r, 1.0f);
#if defined(__AVX512F__) && GLINT_CPU_LANES == 16 && !defined(__clang__)
    enum { NOT_LESS = 5, AS_MXCSR_SAYS = 4 }; /* a predicate, true for NaN; a rounding */
    const uint16_t kept = __builtin_ia32_cmpps512_mask(t, glint_splat(least), NOT_LESS, 0xffff, AS_MXCSR_SAYS);
    return __builtin_ia32_scalefps512_mask(p, n, glint_splat(0.0f), (int16_t)kept, AS_MXCSR_SAYS);
#else
    const glint_vec power = (glint_vec)((glint_veci)shifted << 23);
    return (glint_vec)((glint_veci)(p * power) & ~(t < least));
#endif
}

GLINT_INLINE glint_vec glint_exp(glint_vec t)
{
    return glint_exp_from(t, GLINT_EXP_LEAST);
}

/* log(x) for x >= 1 or NaN: x = 2^e (1 + f), f in [sqrt(1/2) - 1, sqrt(2) - 1]; log(1 + f) = f - f^2/2 + f^3 P(f)
 * (Cephes logf). */
GLINT_INLINE glint_vec glint_log(glint_vec x)
{
    const glint_veci bits = (glint_veci)x - 0x3f3504f3; /* sqrt(1/2) */
    const glint_vec e = __builtin_convertvector(bits >> 23, glint_vec);
    const glint_vec f = (glint_vec)((bits & 0x007fffff) + 0x3f3504f3) - 1.0f;
    const glint_vec f2 = f * f;
    glint_vec p = glint_horner(glint_splat(7.0376836292e-2f), f, -1.1514610310e-1f);
    p = glint_horner(p, f, 1.1676998740e-1f);
    p = glint_horner(p, f, -1.2420140846e-1f);
    p = glint_horner(p, f, 1.4249322787e-1f);
    p = glint_horner(p, f, -1.6668057665e-1f);
    p = glint_horner(p, f, 2.0000714765e-1f);
    p = glint_horner(p, f, -2.4999993993e-1f);
    p = glint_horner(p, f, 3.3333331174e-1f);
    const glint_vec tail = glint_fma(f2, glint_splat(-0.5f), glint_fma(f * f2, p, e * -2.12194440e-4f));
    const glint_vec y = glint_fma(e, glint_splat(0.693359375f), tail + f);
    return glint_select(x == x, y, x);
}

#endif
