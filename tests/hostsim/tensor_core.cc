#include "tests/hostsim/tensor_core.h"

#include <algorithm>

#include "tests/hostsim/numbers.h"

namespace sim
{

namespace
{

constexpr int FRACTION_BITS = 25;
constexpr int NOTHING = -10000; /* the exponent of zero: below every other, even when two are added */
constexpr int MOST_K = 16;
constexpr uint32_t NOT_A_NUMBER = 0x7fffffffu, INFINITE = 0x7f800000u;

enum Class : uint8_t { FINITE, INFINITY_, NAN_ };

/* fraction * 2^exponent, |fraction| < 2. */
struct Number {
    float fraction;
    int exponent;
    Class kind;
};

Number decode(uint32_t bits, int exponent_bits, int fraction_bits)
{
    const uint32_t top = (1u << exponent_bits) - 1, exponent = bits >> fraction_bits & top;
    const uint32_t fraction = bits & ((1u << fraction_bits) - 1);
    const bool negative = bits >> (exponent_bits + fraction_bits) & 1;
    const int bias = (int)top / 2;

    if (exponent == top)
        return {negative ? -1.0f : 1.0f, NOTHING, fraction != 0 ? NAN_ : INFINITY_};
    const uint32_t significand = exponent == 0 ? fraction : fraction | 1u << fraction_bits;
    const float value = (float)significand / (float)(1u << fraction_bits);
    return {negative ? -value : value, significand == 0 ? NOTHING : std::max((int)exponent, 1) - bias, FINITE};
}

Number decode(Element element, uint32_t bits)
{
    switch (element) {
    case Element::bf16: return decode(bits, 8, 7);
    case Element::f16: return decode(bits, 5, 10);
    default: return decode(bits >> 13, 8, 10);
    }
}

/* sum * 2^(exponent - FRACTION_BITS), cut off to a float. */
uint32_t cut(int64_t sum, int exponent)
{
    if (sum == 0)
        return 0;
    const uint32_t sign = sum < 0 ? 0x80000000u : 0;
    const uint64_t size = (uint64_t)(sum < 0 ? -sum : sum);
    const int leading = 63 - __builtin_clzll(size), power = exponent + leading - FRACTION_BITS;
    if (power > 127)
        return sign | INFINITE;
    const int shift = std::max(power, -126) - 23 - (exponent - FRACTION_BITS); /* to units of the result's last place */
    const uint32_t significand = (uint32_t)(shift < 0 ? size << -shift : shift > 63 ? 0 : size >> shift);
    if (power < -126)
        return significand == 0 ? 0 : sign | significand;
    return sign | (uint32_t)(power + 127) << 23 | (significand & 0x7fffffu);
}

/* What NaNs and infinities make of a sum; 0 when there are none. */
uint32_t special(const Number *a, const Number *b, uint32_t stride, int k, const Number &c)
{
    bool plus = c.kind == INFINITY_ && c.fraction > 0, minus = c.kind == INFINITY_ && c.fraction < 0, nan = c.kind == NAN_;

    for (int i = 0; i < k; ++i) {
        const Number &x = a[i], &y = b[(uint32_t)i * stride];
        if (x.kind == FINITE && y.kind == FINITE)
            continue;
        nan |= x.kind == NAN_ || y.kind == NAN_ || x.fraction == 0 || y.fraction == 0;
        ((x.fraction < 0) != (y.fraction < 0) ? minus : plus) = true;
    }
    return nan || (plus && minus) ? NOT_A_NUMBER : plus ? INFINITE : minus ? INFINITE | 0x80000000u : 0;
}

/* The columns of b, an array for each property, so that the loops over them are the compiler's to vectorise. */
struct Columns {
    float fraction[MOST_K][TENSOR_CORE_COLUMNS];
    int exponent[MOST_K][TENSOR_CORE_COLUMNS];
};

void greatest(int *__restrict most, int exponent, const int *__restrict column, uint32_t n)
{
    for (uint32_t j = 0; j < n; ++j)
        most[j] = std::max(most[j], exponent + column[j]);
}

/* Adds the products of one factor with a row of b. A product is below 4, so that 16 of them fit into 32 bits; what is 2^-128 of the
 * greatest or less is nothing anyway. */
void add(int32_t *__restrict sum, const int *__restrict most, const Number &x, const float *__restrict fraction,
         const int *__restrict exponent, uint32_t n)
{
    for (uint32_t j = 0; j < n; ++j) {
        const int below = std::min(most[j] - x.exponent - exponent[j], 127);
        const uint32_t scale_bits = (uint32_t)(127 + FRACTION_BITS - below) << 23;
        float scale;
        std::memcpy(&scale, &scale_bits, sizeof scale);
        sum[j] += (int32_t)(x.fraction * fraction[j] * scale);
    }
}

int64_t addend(const Number &c, int most)
{
    const int shift = FRACTION_BITS - 23 - (most - c.exponent);
    const int64_t significand = (int64_t)(std::abs(c.fraction) * 0x1p23f);
    const int64_t kept = shift >= 0 ? significand << shift : -shift > 62 ? 0 : significand >> -shift;

    return c.fraction < 0 ? -kept : kept;
}

} // namespace

void tensor_core(Element element, uint32_t rows, uint32_t n, const uint32_t *a, const uint32_t *b, uint32_t *d)
{
    const int k = element == Element::tf32 ? 8 : 16;
    static Columns columns;
    static Number factors[MOST_K * TENSOR_CORE_COLUMNS];
    bool specials = false;

    for (uint32_t i = 0; i < (uint32_t)k; ++i)
        for (uint32_t j = 0; j < n; ++j) {
            const Number x = factors[i * n + j] = decode(element, b[i * n + j]);
            columns.fraction[i][j] = x.fraction;
            columns.exponent[i][j] = x.exponent;
            specials |= x.kind != FINITE;
        }
    for (uint32_t row = 0; row < rows; ++row, d += n) {
        Number left[MOST_K], c[TENSOR_CORE_COLUMNS];
        int most[TENSOR_CORE_COLUMNS];
        int32_t sum[TENSOR_CORE_COLUMNS];
        bool row_specials = specials;

        for (int i = 0; i < k; ++i) {
            left[i] = decode(element, a[row * (uint32_t)k + (uint32_t)i]);
            row_specials |= left[i].kind != FINITE;
        }
        for (uint32_t j = 0; j < n; ++j) {
            c[j] = decode(d[j], 8, 23);
            most[j] = c[j].exponent;
            sum[j] = 0;
        }
        for (int i = 0; i < k; ++i)
            greatest(most, left[i].exponent, columns.exponent[i], n);
        for (int i = 0; i < k; ++i)
            add(sum, most, left[i], columns.fraction[i], columns.exponent[i], n);
        for (uint32_t j = 0; j < n; ++j) {
            const uint32_t other = row_specials || c[j].kind != FINITE ? special(left, factors + j, n, k, c[j]) : 0;
            d[j] = other != 0 ? other : cut(sum[j] + addend(c[j], most[j]), most[j]);
        }
    }
}

} // namespace sim
