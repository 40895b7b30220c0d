/* The formats of numbers, and the conversions of the PTX ISA. */
#ifndef GLINT_HOSTSIM_NUMBERS_H
#define GLINT_HOSTSIM_NUMBERS_H

#include <cstdint>
#include <cstring>

namespace sim
{

inline float float_from(uint32_t bits)
{
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

inline uint32_t bits_from(float value)
{
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float from_bf16(uint32_t half)
{
    return float_from(half << 16);
}

float from_f16(uint32_t half);

/* "cvt", .rn: to the nearest, ties to even; NaN becomes 0x7fff. */
uint32_t to_bf16(float value);
uint32_t to_f16(float value);

/* "fma.rn", 16 bits. */
uint32_t fma_bf16(uint32_t a, uint32_t b, uint32_t c);
uint32_t fma_f16(uint32_t a, uint32_t b, uint32_t c);

/* "red", .add.f32 on global memory: denormals count as zero, before and after; NaN becomes 0x7fffffff. */
float add_flushed(float a, float b);

/* "ex2.approx.ftz.f32" and "lg2.approx.f32": within 2 ulps there; here, the nearest. */
float ex2(float x);
float lg2(float x);

/* "cvt.rna.tf32.f32": to the nearest, ties away from zero; NaNs are cut off, which can leave an infinity. */
inline uint32_t round_tf32(float value)
{
    const uint32_t bits = bits_from(value);

    if ((bits & 0x7f800000u) == 0x7f800000u) /* a NaN may become an infinity */
        return bits & 0xffffe000u;
    return (bits + 0x1000u) & 0xffffe000u;
}

/* "cvt.rn.tf32.f32": to the nearest, ties to even; every NaN becomes 0x7fffe000. */
inline uint32_t nearest_tf32(float value)
{
    const uint32_t bits = bits_from(value);

    if (value != value)
        return 0x7fffe000u;
    return (bits + 0xfffu + (bits >> 13 & 1)) & 0xffffe000u;
}

} // namespace sim

#endif
