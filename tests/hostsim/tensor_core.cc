#include "tests/hostsim/tensor_core.h"

#include <algorithm>
#include <cmath>

#include "tests/hostsim/numbers.h"

namespace sim
{

namespace
{

constexpr int FRACTION_BITS = 25;
constexpr int NOTHING = -10000; /* the exponent of zero: below every other, even when two are added */
constexpr int MOST_K = 16, MOST_ROWS = 16;
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
    const float value = (float)significand * float_from((uint32_t)(127 - fraction_bits) << 23); /* 2^-fraction_bits */
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
uint32_t special(const Number *a, const Number *b, int k, const Number &c)
{
    bool plus = c.kind == INFINITY_ && c.fraction > 0, minus = c.kind == INFINITY_ && c.fraction < 0, nan = c.kind == NAN_;

    for (int i = 0; i < k; ++i) {
        const Number &x = a[i], &y = b[i];
        if (x.kind == FINITE && y.kind == FINITE)
            continue;
        nan |= x.kind == NAN_ || y.kind == NAN_ || x.fraction == 0 || y.fraction == 0;
        ((x.fraction < 0) != (y.fraction < 0) ? minus : plus) = true;
    }
    return nan || (plus && minus) ? NOT_A_NUMBER : plus ? INFINITE : minus ? INFINITE | 0x80000000u : 0;
}

/* fraction * 2^(FRACTION_BITS - below), cut off to an integer. What is 2^-128 of the greatest term or less is nothing
 * anyway. */
int64_t term(float fraction, int below)
{
    const uint64_t power = (uint64_t)(1023 + FRACTION_BITS - std::min(below, 127)) << 52;
    double scale;

    __builtin_memcpy(&scale, &power, sizeof scale);
    return (int64_t)((double)fraction * scale);
}

/* One element, as the definition in the header says it. */
uint32_t element_of(const Number *a, const Number *b, int k, const Number &c)
{
    const uint32_t other = special(a, b, k, c);
    if (other != 0)
        return other;
    int most = c.exponent;
    for (int i = 0; i < k; ++i)
        most = std::max(most, a[i].exponent + b[i].exponent);
    int64_t sum = term(c.fraction, most - c.exponent);
    for (int i = 0; i < k; ++i)
        sum += term(a[i].fraction * b[i].fraction, most - a[i].exponent - b[i].exponent);
    return cut(sum, most);
}

void row_of(Element element, int k, uint32_t n, const uint32_t *a, const uint32_t *b, uint32_t *d)
{
    Number left[MOST_K], right[MOST_K];

    for (int i = 0; i < k; ++i)
        left[i] = decode(element, a[i]);
    for (uint32_t j = 0; j < n; ++j) {
        for (int i = 0; i < k; ++i)
            right[i] = decode(element, b[(uint32_t)i * n + j]);
        d[j] = element_of(left, right, k, decode(d[j], 8, 23));
    }
}

/* ---- the same, eight columns at a time, of finite numbers -------------------------------------------------------------------- */

typedef float Floats __attribute__((vector_size(32)));
typedef int32_t Ints __attribute__((vector_size(32)));
typedef uint32_t Words __attribute__((vector_size(32)));
typedef double Doubles __attribute__((vector_size(64)));
typedef int64_t Longs __attribute__((vector_size(64)));
#define INLINE inline __attribute__((always_inline))

INLINE bool any(const Ints &x)
{
    int32_t all = 0;

    for (int i = 0; i < 8; ++i)
        all |= x[i];
    return all != 0;
}

/* Factors, as numbers and as fraction * 2^exponent. `moderate`: none but 0 is below 2^-MODERATE or at least 2^MODERATE,
 * so that all products of two of them, and these times 2^FRACTION_BITS over the greatest, are normal floats or 0. NaNs and
 * infinities are 0 here; `finite`: there are none. */
struct Factors {
    alignas(32) float number[MOST_K * TENSOR_CORE_COLUMNS];
    alignas(32) float fraction[MOST_K * TENSOR_CORE_COLUMNS];
    alignas(32) int32_t exponent[MOST_K * TENSOR_CORE_COLUMNS];
    bool finite, moderate;
};
constexpr int MODERATE = 48, LEAST = -2 * MODERATE; /* LEAST: exponent of a product of moderate factors */

/* `count` is a multiple of 8. */
template <int exponent_bits, int fraction_bits, int shift>
INLINE void decode_all(const uint32_t *bits, uint32_t count, Factors &factors)
{
    constexpr int32_t top = (1 << exponent_bits) - 1, hidden = 1 << fraction_bits, bias = top / 2;
    Ints specials = {}, wild = {};

    for (uint32_t i = 0; i < count; i += 8) {
        Words x;
        __builtin_memcpy(&x, bits + i, sizeof x);
        x >>= shift;
        const Ints power = (Ints)(x >> fraction_bits) & top, denormal = power == 0, special = power == top;
        const Ints sign = (Ints)(x >> (exponent_bits + fraction_bits) << 31);
        const Ints significand = ~special & (((Ints)x & (hidden - 1)) | (~denormal & hidden)),
                   exponent = power - denormal - bias; /* true is -1 */
        const Floats size = __builtin_convertvector(significand, Floats) * (1.0f / (float)hidden);
        const Ints outside = (exponent < -MODERATE) | (exponent >= MODERATE), zero = significand == 0;
        *(Ints *)(void *)(factors.fraction + i) = (Ints)size | sign;
        *(Ints *)(void *)(factors.number + i) =
            (Ints)(size * (Floats)((~outside & (exponent + 127)) << 23)) | sign; /* if moderate */
        *(Ints *)(void *)(factors.exponent + i) = zero ? Ints{} + NOTHING : exponent;
        specials |= special;
        wild |= outside & ~zero;
    }
    factors.finite = !any(specials);
    factors.moderate = !any(wild);
}

INLINE void decode_all(Element element, const uint32_t *bits, uint32_t count, Factors &factors)
{
    switch (element) {
    case Element::bf16: decode_all<8, 7, 0>(bits, count, factors); return;
    case Element::f16: decode_all<5, 10, 0>(bits, count, factors); return;
    default: decode_all<8, 10, 13>(bits, count, factors);
    }
}

/* The exponents of eight addends, SPECIAL where one is a NaN or an infinity. */
constexpr int32_t SPECIAL = 128;

INLINE void exponents_of(const uint32_t *bits, int32_t *exponents)
{
    Words x;
    __builtin_memcpy(&x, bits, sizeof x);
    const Ints power = (Ints)(x >> 23) & 0xff, exponent = x << 1 == 0 ? Ints{} + NOTHING : power - (power == 0) - 127;
    __builtin_memcpy(exponents, &exponent, sizeof exponent);
}

/* Bits from the 24th leading one of an integer on are cut off, as doubles that hold one have the first 24 in one
 * place. */
INLINE void add_and_cut(Floats &result, const Ints &a, const Ints &b)
{
    const Doubles exact = __builtin_convertvector(a, Doubles) + __builtin_convertvector(b, Doubles);
    const Doubles kept = (Doubles)((Longs)exact & ~((INT64_C(1) << 29) - 1));
    result = __builtin_convertvector(kept, Floats);
}

INLINE void greatest_exponents(Ints &most, int k, uint32_t n, const int32_t *x_exponent, const Factors &b, uint32_t at,
                               const int32_t *c_exponent)
{
    most = *(const Ints *)(const void *)c_exponent;
    for (int i = 0; i < k; ++i) {
        const Ints exponent = x_exponent[i] + *(const Ints *)(const void *)(b.exponent + at + (uint32_t)i * n);
        most = exponent > most ? exponent : most;
    }
}

/* Eight elements of a row whose factors are all moderate. If no term is as great as such a product can be, the addend
 * is all there is. A product is below 4, so that 16 of them fit into 32 bits; the sum, 2^(LEAST - FRACTION_BITS) or
 * more, is never denormal. */
INLINE void eight_moderate(int k, uint32_t n, const float *x, const int32_t *x_exponent, const Factors &b, uint32_t at, uint32_t *d,
                           const float *c, const int32_t *c_exponent)
{
    Ints most, sum = {};
    greatest_exponents(most, k, n, x_exponent, b, at, c_exponent);
    const Ints kept = most < LEAST ? Ints{} + LEAST : most;
    const Floats up = (Floats)((127 + FRACTION_BITS - kept) << 23), down = (Floats)((127 - FRACTION_BITS + kept) << 23);
    const Floats addend = *(const Floats *)(const void *)c;

    for (int i = 0; i < k; ++i)
        sum += __builtin_convertvector(x[i] * *(const Floats *)(const void *)(b.number + at + (uint32_t)i * n) * up, Ints);
    const Floats scaled = most < LEAST ? Floats{} : addend * up;
    Floats total;
    add_and_cut(total, sum, __builtin_convertvector(scaled, Ints));
    const Floats all = most < LEAST ? addend + 0.0f : total * down;
    __builtin_memcpy(d, &all, sizeof all);
}

/* 2^exponent, of -1022 ... 1023. */
INLINE void powers(Doubles &result, const Ints &exponent)
{
    result = (Doubles)((__builtin_convertvector(exponent, Longs) + 1023) << 52);
}

/* Adds to sum the products of k factors with as many rows of eight columns. A product is below 4, so that 16 of them
 * fit into 32 bits. */
INLINE void add_products(Ints &sum, const Ints &most, const float *x, const int32_t *x_exponent, const Factors &b, uint32_t at,
                         uint32_t n, int k)
{
    for (int i = 0; i < k; ++i) {
        const Ints below = most - (x_exponent[i] + *(const Ints *)(const void *)(b.exponent + at + (uint32_t)i * n));
        const Ints kept = below > 127 ? Ints{} + 127 : below;
        const Floats scale = (Floats)((127 + FRACTION_BITS - kept) << 23);
        sum += __builtin_convertvector(x[i] * *(const Floats *)(const void *)(b.fraction + at + (uint32_t)i * n) * scale, Ints);
    }
}

/* Eight elements of a row; false if one is denormal: it is cut off elsewhere than the others. */
INLINE bool eight_of(int k, uint32_t n, const float *x, const int32_t *x_exponent, const Factors &b, uint32_t at, uint32_t *d,
                     const float *c, const int32_t *c_exponent)
{
    Ints most, sum = {};
    greatest_exponents(most, k, n, x_exponent, b, at, c_exponent);
    add_products(sum, most, x, x_exponent, b, at, n, k);

    const Ints power = most < -400 ? Ints{} - 400 : most; /* all are zero then */
    Doubles up, down;
    powers(up, FRACTION_BITS - power);
    powers(down, power - FRACTION_BITS);
    const Ints addend = __builtin_convertvector(__builtin_convertvector(*(const Floats *)(const void *)c, Doubles) * up, Ints);
    const Doubles exact = __builtin_convertvector(sum, Doubles) + __builtin_convertvector(addend, Doubles);
    const Doubles result = (Doubles)((Longs)exact & ~((INT64_C(1) << 29) - 1)) * down; /* 24 of the 53 bits of a double */
    const Floats rounded = __builtin_convertvector(result, Floats);                    /* or too large */
    __builtin_memcpy(d, &rounded, sizeof rounded);

    const Longs size = (Longs)result & INT64_MAX, denormal = (size < ((INT64_C(1023) - 126) << 52)) & (size != 0);
    int64_t any = 0;
    for (int j = 0; j < 8; ++j)
        any |= denormal[j];
    return any == 0;
}

/* What the factors of a row or a column are, a bit each. */
struct Kinds {
    uint32_t nan, special /* NaN or infinite */, zero, negative;
};

Kinds kinds_of(Element element, const uint32_t *bits, uint32_t k, uint32_t step)
{
    Kinds kinds = {};

    for (uint32_t i = 0; i < k; ++i) {
        const Number factor = decode(element, bits[i * step]);
        kinds.nan |= (uint32_t)(factor.kind == NAN_) << i;
        kinds.special |= (uint32_t)(factor.kind != FINITE) << i;
        kinds.zero |= (uint32_t)(factor.fraction == 0) << i;
        kinds.negative |= (uint32_t)(factor.fraction < 0) << i;
    }
    return kinds;
}

/* special() of a row and a column of which one has a NaN or an infinity. */
uint32_t special_of(const Kinds &a, const Kinds &b, uint32_t addend)
{
    const uint32_t special = a.special | b.special, signs = a.negative ^ b.negative;
    const bool nan = (a.nan | b.nan | (special & (a.zero | b.zero))) != 0 || addend << 1 > INFINITE << 1;
    const bool plus = (special & ~signs) != 0 || addend == INFINITE,
               minus = (special & signs) != 0 || addend == (INFINITE | 0x80000000u);
    return nan || (plus && minus) ? NOT_A_NUMBER : plus ? INFINITE : INFINITE | 0x80000000u;
}

bool is_special(Element element, uint32_t bits)
{
    const uint32_t top = element == Element::f16 ? 0x7c00u : element == Element::bf16 ? 0x7f80u : 0x7f800000u;
    return (bits & top) == top;
}

/* The elements of rows and columns that have a NaN or an infinity among their factors. */
void special_products(Element element, uint32_t k, uint32_t rows, uint32_t n, const uint32_t *a, const uint32_t *b,
                      const uint32_t *addends, uint32_t *d)
{
    Kinds left[MOST_ROWS];
    bool some_row = false;

    for (uint32_t row = 0; row < rows; ++row) {
        left[row] = kinds_of(element, a + row * k, k, 1);
        some_row |= left[row].special != 0;
    }
    for (uint32_t j = 0; j < n; ++j) {
        bool special_column = false;
        for (uint32_t i = 0; i < k; ++i)
            special_column |= is_special(element, b[i * n + j]);
        if (!special_column && !some_row)
            continue;
        const Kinds right = kinds_of(element, b + j, k, n);
        for (uint32_t row = 0; row < rows; ++row)
            if (special_column || left[row].special != 0)
                d[row * n + j] = special_of(left[row], right, addends[row * n + j]);
    }
}

/* All elements; those with a NaN or an infinity among their factors have no meaning yet. */
INLINE void finite_product(Element element, int k, uint32_t rows, uint32_t n, const Factors &a, const Factors &b,
                           const uint32_t *a_bits, const uint32_t *b_bits, uint32_t *d)
{
    alignas(32) float c[TENSOR_CORE_COLUMNS];
    alignas(32) int32_t c_exponent[TENSOR_CORE_COLUMNS];
    uint32_t result[TENSOR_CORE_COLUMNS];
    const bool moderate = a.moderate && b.moderate;

    for (uint32_t row = 0; row < rows; ++row, d += n) {
        const uint32_t first = row * (uint32_t)k;
        Ints specials = {};
        for (uint32_t at = 0; at < n; at += 8) {
            Words x;
            __builtin_memcpy(&x, d + at, sizeof x);
            exponents_of(d + at, c_exponent + at);
            specials |= (Ints)(x << 1 >= INFINITE << 1);
        }
        const bool some_special = any(specials);
        bool plain = true;
        __builtin_memcpy(c, d, n * sizeof *d);
        for (uint32_t at = 0; at < n && plain; at += 8)
            if (moderate)
                eight_moderate(k, n, a.number + first, a.exponent + first, b, at, result + at, c + at, c_exponent + at);
            else
                plain = eight_of(k, n, a.fraction + first, a.exponent + first, b, at, result + at, c + at, c_exponent + at);
        if (!plain) {
            row_of(element, k, n, a_bits + first, b_bits, d);
            continue;
        }
        for (uint32_t at = 0; at < n && some_special; ++at) /* NaNs and infinities are left as they are */
            if (c_exponent[at] == SPECIAL)
                result[at] = d[at] << 1 == INFINITE << 1 ? d[at] : NOT_A_NUMBER;
        __builtin_memcpy(d, result, n * sizeof *d);
    }
}

INLINE void product(Element element, uint32_t rows, uint32_t n, const uint32_t *a, const uint32_t *b, uint32_t *d)
{
    static Factors left, right;
    static uint32_t addends[MOST_ROWS * TENSOR_CORE_COLUMNS];
    const uint32_t k = element == Element::tf32 ? 8 : 16;

    if (n % 8 != 0) {
        for (uint32_t row = 0; row < rows; ++row)
            row_of(element, (int)k, n, a + row * k, b, d + row * n);
        return;
    }
    decode_all(element, a, rows * k, left);
    decode_all(element, b, k * n, right);
    const bool finite = left.finite && right.finite;
    if (!finite)
        __builtin_memcpy(addends, d, rows * n * sizeof *d);
    if (n == 8 && k == 16) /* mma.sync: loops of known length */
        finite_product(element, 16, rows, 8, left, right, a, b, d);
    else if (n == 8)
        finite_product(element, 8, rows, 8, left, right, a, b, d);
    else
        finite_product(element, (int)k, rows, n, left, right, a, b, d);
    if (!finite)
        special_products(element, k, rows, n, a, b, addends, d);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void product_avx2(Element element, uint32_t rows, uint32_t n, const uint32_t *a, const uint32_t *b,
                                                  uint32_t *d)
{
    product(element, rows, n, a, b, d);
}
#endif

} // namespace

void tensor_core(Element element, uint32_t rows, uint32_t n, const uint32_t *a, const uint32_t *b, uint32_t *d)
{
#if defined(__x86_64__)
    static const bool avx2 = __builtin_cpu_supports("avx2");
    if (avx2) {
        product_avx2(element, rows, n, a, b, d);
        return;
    }
#endif
    product(element, rows, n, a, b, d);
}

void tensor_core_by_definition(Element element, uint32_t rows, uint32_t n, const uint32_t *a, const uint32_t *b, uint32_t *d)
{
    const uint32_t k = element == Element::tf32 ? 8 : 16;

    for (uint32_t row = 0; row < rows; ++row)
        row_of(element, (int)k, n, a + row * k, b, d + row * n);
}

} // namespace sim
