/* float16, bfloat16 and e4m3 as bits, one number at a time: for the self test. Kernels have vector forms of their own.
 * Internal. */
#ifndef GLINT_HALF_H
#define GLINT_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t glint_bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float glint_float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Round to nearest even. Finite numbers only. */
static inline uint16_t glint_bf16_of(float x)
{
    const uint32_t bits = glint_bits_of(x);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static inline float glint_float_of_bf16(uint16_t h)
{
    return glint_float_of((uint32_t)h << 16);
}

/* Round to nearest even; |x| < 65520. Below 2^-14 the grid is 2^-24: adding and removing 0.5 rounds to it. */
static inline uint16_t glint_f16_of(float x)
{
    const uint32_t bits = glint_bits_of(x), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude < 0x38800000u)
        return (uint16_t)(sign | (glint_bits_of(glint_float_of(magnitude) + 0.5f) - 0x3f000000u));
    return (uint16_t)(sign | ((magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13));
}

static inline float glint_float_of_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, magnitude = h & 0x7fffu;
    if (magnitude >= 0x7c00u)
        return glint_float_of(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    if (magnitude < 0x400u)
        return glint_float_of(sign | glint_bits_of((float)magnitude * 0x1p-24f));
    return glint_float_of(sign | ((magnitude << 13) + 0x38000000u));
}

/* e4m3, to nearest even; above its largest, 448, it stays there, and NaN and infinities become NaN. Below 2^-6 the grid
 * is 2^-9. */
static inline uint8_t glint_e4m3_of(float x)
{
    const uint32_t bits = glint_bits_of(x), sign = bits >> 24 & 0x80u, magnitude = bits & 0x7fffffffu;
    if (magnitude >= 0x7f800000u)
        return (uint8_t)(sign | 0x7fu);
    if (magnitude >= 0x43e00000u)
        return (uint8_t)(sign | 0x7eu);
    if (magnitude < 0x3c800000u)
        return (uint8_t)(sign | (glint_bits_of(glint_float_of(magnitude) + 0x1p14f) - 0x46800000u));
    return (uint8_t)(sign | ((magnitude - 0x3c000000u + 0x7ffffu + (magnitude >> 20 & 1u)) >> 20));
}

#endif
