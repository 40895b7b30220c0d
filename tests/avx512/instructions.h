/* The instructions of AVX-512 that lib/cpu/vector.h asks for by name, said in C as the Intel SDM, volume 2, defines
 * them (MAXPS, MINPS, VCMPPS, VCVTPH2PS, VFMADD, VPMOVSXBD, VSCALEFPS and its tables of special cases). Put in front
 * of the emitted kernels of x86-64-v4, it lets them run on a machine without AVX-512: with vectors of 16 floats in two
 * halves, and everything else as it is. */
#ifndef GLINT_TESTS_AVX512_INSTRUCTIONS_H
#define GLINT_TESTS_AVX512_INSTRUCTIONS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define EMULATED static inline __attribute__((always_inline))

typedef float emulated_vec __attribute__((vector_size(64)));

/* Kernels take the maximum of all lanes. */
EMULATED emulated_vec emulated_max(emulated_vec a, emulated_vec b)
{
    emulated_vec max;
    for (int i = 0; i < 16; i++)
        max[i] = a[i] > b[i] ? a[i] : b[i]; /* NaN in either: the second */
    return max;
}

/* And the minimum. */
EMULATED emulated_vec emulated_min(emulated_vec a, emulated_vec b)
{
    emulated_vec min;
    for (int i = 0; i < 16; i++)
        min[i] = a[i] < b[i] ? a[i] : b[i]; /* NaN in either: the second */
    return min;
}

/* a b + c in halves. */
EMULATED emulated_vec emulated_multiply_add(emulated_vec a, emulated_vec b, emulated_vec c)
{
    typedef float half __attribute__((vector_size(32)));
    half x[2], y[2], z[2];
    memcpy(x, &a, sizeof x);
    memcpy(y, &b, sizeof y);
    memcpy(z, &c, sizeof z);
    for (int i = 0; i < 2; i++)
        z[i] = __builtin_ia32_vfmaddps256(x[i], y[i], z[i]);
    memcpy(&c, z, sizeof c);
    return c;
}

/* 16 bytes with their signs. */
typedef int32_t emulated_words __attribute__((vector_size(64)));
typedef char emulated_bytes __attribute__((vector_size(16)));
EMULATED emulated_words emulated_widen_bytes(emulated_bytes b)
{
    emulated_words wide;
    for (int i = 0; i < 16; i++)
        wide[i] = (int8_t)b[i];
    return wide;
}

/* Predicate 5, not-less-than: true for NaN. */
EMULATED uint16_t emulated_not_less(emulated_vec a, emulated_vec b)
{
    uint16_t mask = 0;
    for (int i = 0; i < 16; i++)
        mask = (uint16_t)(mask | (a[i] < b[i] ? 0 : 1 << i));
    return mask;
}

/* a * 2^floor(b). */
EMULATED float emulated_scale(float a, float b)
{
    if (isnan(a) && isinf(b))
        return b > 0 ? b : 0.0f;
    if (isnan(a) || isnan(b))
        return isnan(a) ? a : b;
    if (isinf(b) && b > 0)
        return a == 0 ? NAN : copysignf(b, a);
    if (isinf(b))
        return isinf(a) ? NAN : copysignf(0.0f, a);
    const float n = floorf(b);
    return ldexpf(a, n > 1000 ? 1000 : n < -1000 ? -1000 : (int)n);
}

/* Lanes that the mask leaves out are those of `other`. */
EMULATED emulated_vec emulated_scale_lanes(emulated_vec a, emulated_vec b, emulated_vec other, int16_t mask)
{
    for (int i = 0; i < 16; i++)
        if ((mask >> i & 1) != 0)
            other[i] = emulated_scale(a[i], b[i]);
    return other;
}

/* Lanes that the mask leaves out are those of `other`: none is. A float16 is sign, 5 bits of exponent with bias 15, 10
 * bits. */
typedef int16_t emulated_halves __attribute__((vector_size(32)));
EMULATED emulated_vec emulated_widen(emulated_halves h)
{
    emulated_vec wide;
    for (int i = 0; i < 16; i++) {
        const int exponent = h[i] >> 10 & 31, fraction = h[i] & 1023;
        const float magnitude = exponent == 31  ? (fraction != 0 ? NAN : INFINITY)
                                : exponent == 0 ? ldexpf((float)fraction, -24)
                                                : ldexpf((float)(1024 + fraction), exponent - 25);
        wide[i] = h[i] < 0 ? -magnitude : magnitude;
    }
    return wide;
}

/* Any other mask, predicate or rounding than those above does not compile. */
#define EMULATED_ONLY(condition) (void)sizeof(char[(condition) ? 1 : -1])
#define __builtin_ia32_maxps512_mask(a, b, other, mask, rounding) \
    __extension__({                                               \
        EMULATED_ONLY((mask) == -1 && (rounding) == 4);           \
        emulated_max(a, b);                                       \
    })
#define __builtin_ia32_minps512_mask(a, b, other, mask, rounding) \
    __extension__({                                               \
        EMULATED_ONLY((mask) == -1 && (rounding) == 4);           \
        emulated_min(a, b);                                       \
    })
#define __builtin_ia32_vfmaddps512_mask(a, b, c, mask, rounding) \
    __extension__({                                              \
        EMULATED_ONLY((mask) == -1 && (rounding) == 4);          \
        emulated_multiply_add(a, b, c);                          \
    })
#define __builtin_ia32_pmovsxbd512_mask(a, other, mask) \
    __extension__({                                     \
        EMULATED_ONLY((mask) == 0xffff);                \
        (void)(other);                                  \
        emulated_widen_bytes(a);                        \
    })
#define __builtin_ia32_cmpps512_mask(a, b, predicate, mask, rounding)           \
    __extension__({                                                             \
        EMULATED_ONLY((predicate) == 5 && (mask) == 0xffff && (rounding) == 4); \
        emulated_not_less(a, b);                                                \
    })
#define __builtin_ia32_scalefps512_mask(a, b, other, mask, rounding) \
    __extension__({                                                  \
        EMULATED_ONLY((rounding) == 4);                              \
        emulated_scale_lanes(a, b, other, mask);                     \
    })
#define __builtin_ia32_vcvtph2ps512_mask(a, other, mask, rounding) \
    __extension__({                                                \
        EMULATED_ONLY((mask) == -1 && (rounding) == 4);            \
        (void)(other);                                             \
        emulated_widen(a);                                         \
    })

#endif
