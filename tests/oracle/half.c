#include "tests/oracle/half.h"

#include <math.h>
#include <string.h>

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* bits >> shift, rounded to nearest even. */
static uint32_t shift_round(uint32_t bits, uint32_t shift)
{
    uint32_t kept = bits >> shift;
    uint32_t rest = bits & ((1u << shift) - 1u);
    uint32_t tie = 1u << (shift - 1u);
    if (rest > tie || (rest == tie && (kept & 1u) != 0))
        kept += 1u;
    return kept;
}

uint16_t half_from_float(float value)
{
    uint32_t bits = bits_of(value);
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;

    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    if (magnitude >= 0x47800000u) /* 2^16 and above; 65520 ... 65535 overflow by rounding below */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude >=
        0x38800000u) /* 2^-14: normal; the exponent's bias drops from 127 to 15, a carry out of the mantissa is right */
        return (uint16_t)(sign | shift_round(magnitude - (112u << 23), 13));
    if (magnitude < 0x33000000u) /* below half of the smallest subnormal, 2^-24 */
        return (uint16_t)sign;
    uint32_t exponent = magnitude >> 23; /* subnormal: count units of 2^-24 */
    return (uint16_t)(sign | shift_round((magnitude & 0x7fffffu) | 0x800000u, 126u - exponent));
}

float float_from_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = (half >> 10) & 0x1fu;
    uint32_t mantissa = half & 0x3ffu;

    if (exponent == 0x1fu)
        return float_of(sign | 0x7f800000u | (mantissa << 13));
    if (exponent == 0) {
        float magnitude = (float)mantissa * 0x1p-24f;
        return sign != 0 ? -magnitude : magnitude;
    }
    return float_of(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

uint16_t bfloat_from_float(float value)
{
    uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)shift_round(bits, 16);
}

float float_from_bfloat(uint16_t bits)
{
    return float_of((uint32_t)bits << 16);
}

float float_from_e4m3(uint8_t bits)
{
    const int exponent = bits >> 3 & 15, mantissa = bits & 7;
    const float magnitude =
        (bits & 0x7f) == 0x7f ? NAN : ldexpf((float)(exponent == 0 ? mantissa : mantissa + 8), (exponent == 0 ? 1 : exponent) - 10);
    return bits & 0x80 ? -magnitude : magnitude;
}

uint8_t e4m3_from_float(float value)
{
    const uint8_t sign = (uint8_t)(bits_of(value) >> 24 & 0x80u);
    int exponent;
    (void)frexpf(value, &exponent);
    if (!isfinite(value))
        return (uint8_t)(sign | 0x7f);
    exponent = value == 0 || exponent < -5 ? -6 : exponent - 1; /* of the power of two below it; least normal 2^-6 */
    if (exponent > 8)
        return (uint8_t)(sign | 0x7e);
    int units = (int)rint(ldexp(fabs((double)value), 3 - exponent)); /* to nearest, ties to even */
    if (units == 16)
        units = 8, exponent++;
    const int bits = units < 8 ? units : (exponent + 7) << 3 | (units - 8);
    return (uint8_t)(sign | (bits > 0x7e ? 0x7e : bits));
}

float dtype_round(enum glint_dtype dtype, float value)
{
    switch (dtype) {
    case GLINT_F16: return float_from_half(half_from_float(value));
    case GLINT_BF16: return float_from_bfloat(bfloat_from_float(value));
    default: return value;
    }
}

size_t dtype_bytes(enum glint_dtype dtype)
{
    return dtype == GLINT_F32 ? 4 : dtype == GLINT_I8 || dtype == GLINT_E4M3 ? 1 : 2;
}

void dtype_store(enum glint_dtype dtype, void *to, float value)
{
    uint16_t half = dtype == GLINT_F16 ? half_from_float(value) : bfloat_from_float(value);
    if (dtype == GLINT_F32)
        memcpy(to, &value, sizeof value);
    else
        memcpy(to, &half, sizeof half);
}

float dtype_load(enum glint_dtype dtype, const void *from)
{
    float value;
    uint16_t half;
    if (dtype == GLINT_F32) {
        memcpy(&value, from, sizeof value);
        return value;
    }
    memcpy(&half, from, sizeof half);
    return dtype == GLINT_F16 ? float_from_half(half) : float_from_bfloat(half);
}

void dtype_store_row(enum glint_dtype dtype, void *to, const float *from, int64_t count)
{
    uint16_t *half = to;
    if (dtype == GLINT_F32)
        memcpy(to, from, (size_t)count * sizeof *from);
    else if (dtype == GLINT_F16)
        for (int64_t i = 0; i < count; i++)
            half[i] = half_from_float(from[i]);
    else
        for (int64_t i = 0; i < count; i++)
            half[i] = bfloat_from_float(from[i]);
}

void dtype_load_row(enum glint_dtype dtype, float *to, const void *from, int64_t count)
{
    const uint16_t *half = from;
    if (dtype == GLINT_F32)
        memcpy(to, from, (size_t)count * sizeof *to);
    else if (dtype == GLINT_F16)
        for (int64_t i = 0; i < count; i++)
            to[i] = float_from_half(half[i]);
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = float_from_bfloat(half[i]);
}

double dtype_ulp(enum glint_dtype dtype)
{
    return dtype == GLINT_F32 ? 0x1p-23 : dtype == GLINT_F16 ? 0x1p-10 : 0x1p-7;
}

double dtype_smallest(enum glint_dtype dtype)
{
    return dtype == GLINT_F32 ? 0x1p-149 : dtype == GLINT_F16 ? 0x1p-24 : 0x1p-133;
}

const char *dtype_name(enum glint_dtype dtype)
{
    return dtype == GLINT_F32 ? "f32" : dtype == GLINT_F16 ? "f16" : dtype == GLINT_BF16 ? "bf16" : "?";
}

float factor_round(enum glint_math math, float value)
{
    uint32_t bits;
    if (math != GLINT_MATH_TF32 || !isfinite(value))
        return value;
    memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x1000u) & ~0x1fffu;
    memcpy(&value, &bits, sizeof value);
    return value;
}

double factor_ulp(enum glint_math math, enum glint_dtype dtype)
{
    return math == GLINT_MATH_TF32 ? 0x1p-10 : dtype_ulp(dtype);
}
