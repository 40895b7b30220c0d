#include "tests/hostsim/numbers.h"

#include <cmath>

namespace sim
{

float from_f16(uint32_t half)
{
    const uint32_t sign = (half & 0x8000u) << 16, exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;

    if (exponent == 0x1f)
        return fraction != 0 ? float_from(0x7fffffffu) : float_from(sign | 0x7f800000u);
    if (exponent != 0)
        return float_from(sign | (exponent + 112) << 23 | fraction << 13);
    const float tiny = (float)fraction * 0x1p-24f;
    return sign != 0 ? -tiny : tiny;
}

uint32_t to_bf16(float value)
{
    const uint32_t bits = bits_from(value);

    if (std::isnan(value))
        return 0x7fff;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

uint32_t to_f16(float value)
{
    const uint32_t sign = bits_from(value) >> 16 & 0x8000u;
    const float magnitude = std::fabs(value);

    if (std::isnan(value))
        return 0x7fff;
    if (magnitude >= 65520.0f)
        return sign | 0x7c00u;
    if (magnitude < 0x1p-14f) /* denormals: the sum's last place is 2^-24 */
        return sign | (bits_from(magnitude + 0.5f) - bits_from(0.5f));
    const uint32_t bits = bits_from(magnitude);
    return sign | (((bits + 0xfff + (bits >> 13 & 1)) >> 13) - (112u << 10));
}

/* The neighbour of a rounded value whose last bit is odd, if it is not exact: what is rounded again later is then
 * rounded as if once. */
static uint64_t to_odd(uint64_t bits, bool exact, bool magnitude_is_greater)
{
    return exact || (bits & 1) != 0 ? bits : magnitude_is_greater ? bits + 1 : bits - 1;
}

/* a b + c of numbers of 16 bits, so that a b is exact in double precision; rounded to odd. */
static float fma_odd(float a, float b, float c)
{
    const double product = (double)a * (double)b, sum = product + (double)c;
    const double part = sum - product, lost = (product - (sum - part)) + ((double)c - part);
    uint64_t bits;
    double odd;

    if (!std::isfinite(sum))
        return (float)sum;
    std::memcpy(&bits, &sum, sizeof bits);
    bits = to_odd(bits, lost == 0, (lost > 0) == (sum > 0));
    std::memcpy(&odd, &bits, sizeof odd);
    const float single = (float)odd;
    if (!std::isfinite(single))
        return single;
    return float_from((uint32_t)to_odd(bits_from(single), (double)single == odd, std::fabs(odd) > std::fabs((double)single)));
}

uint32_t fma_bf16(uint32_t a, uint32_t b, uint32_t c)
{
    return to_bf16(fma_odd(from_bf16(a), from_bf16(b), from_bf16(c)));
}

uint32_t fma_f16(uint32_t a, uint32_t b, uint32_t c)
{
    return to_f16(fma_odd(from_f16(a), from_f16(b), from_f16(c)));
}

static float flush(float x)
{
    return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x;
}

float add_flushed(float a, float b)
{
    const float sum = flush(flush(a) + flush(b));

    return std::isnan(sum) ? float_from(0x7fffffffu) : sum;
}

float ex2(float x)
{
    return std::isnan(x) ? float_from(0x7fffffffu) : flush((float)std::exp2((double)flush(x)));
}

float lg2(float x)
{
    return std::isnan(x) || x < 0 ? float_from(0x7fffffffu) : (float)std::log2((double)x);
}

} // namespace sim
