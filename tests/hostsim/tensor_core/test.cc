/* The vectors of tensor_core against its definition, element by element: factors and addends of all kinds, and of
 * exponents so close or so extreme that sums cancel, are denormal or overflow. That the definition is the hardware's is
 * the micro-tests' matter. */
#include "tests/hostsim/tensor_core.h"

#include <cstdio>
#include <cstring>
#include <vector>

extern "C" {
#include "tests/support/rand.h"
}

namespace
{

/* Of `fraction_bits` and biased exponents from ... from + count - 1, of either sign. */
struct Format {
    int exponent_bits, fraction_bits;
};

enum { EXPONENT_RANGES = 6 };

uint32_t number(struct rand *r, const Format &format, int range)
{
    const int top = 1 << format.exponent_bits, bias = top / 2 - 1;
    const int first[EXPONENT_RANGES] = {0, bias - 3, 0, top - 4, bias - 8, bias / 2};
    const int count[EXPONENT_RANGES] = {top, 6, 3, 3, 16, 4};
    const uint32_t fraction = (uint32_t)rand_bits(r) & ((1u << format.fraction_bits) - 1);

    if (rand_below(r, 8) == 0)
        return 0;
    return (uint32_t)rand_below(r, 2) << (format.exponent_bits + format.fraction_bits) |
           (uint32_t)(first[range] + rand_below(r, count[range])) << format.fraction_bits | fraction;
}

/* Makes some numbers NaNs or infinities: none of most products, one of a few, several of the rest. */
void spoil(struct rand *r, const Format &format, std::vector<uint32_t> &numbers)
{
    const uint32_t infinite = ((1u << format.exponent_bits) - 1) << format.fraction_bits;
    const uint32_t sign = 1u << (format.exponent_bits + format.fraction_bits);

    for (uint32_t left = (uint32_t)rand_below(r, 4) / 2 * (uint32_t)rand_below(r, 6); left > 0; --left) {
        uint32_t &x = numbers[(size_t)rand_below(r, (int64_t)numbers.size())];
        x = infinite | (rand_below(r, 2) == 0 ? sign : 0) | (rand_below(r, 2) == 0 ? 1u << (format.fraction_bits - 1) : 0);
    }
}

/* The number of elements that differ. */
uint32_t compare(struct rand *r, sim::Element element, uint32_t n, bool special)
{
    const Format single = {8, 23};
    const Format format = element == sim::Element::bf16 ? Format{8, 7} : element == sim::Element::f16 ? Format{5, 10} : single;
    const uint32_t k = element == sim::Element::tf32 ? 8 : 16;
    const int range = (int)rand_below(r, EXPONENT_RANGES), c_range = (int)rand_below(r, EXPONENT_RANGES);
    std::vector<uint32_t> a(16 * k), b(k * n), fast(16 * n);

    for (uint32_t &x : a)
        x = number(r, format, range);
    for (uint32_t &x : b)
        x = number(r, format, range);
    for (uint32_t &x : fast)
        x = number(r, single, c_range);
    if (special) {
        spoil(r, format, a);
        spoil(r, format, b);
        spoil(r, single, fast);
    }
    std::vector<uint32_t> slow = fast;
    sim::tensor_core(element, 16, n, a.data(), b.data(), fast.data());
    sim::tensor_core_by_definition(element, 16, n, a.data(), b.data(), slow.data());

    uint32_t differ = 0;
    for (uint32_t i = 0; i < 16 * n; ++i)
        differ += fast[i] != slow[i];
    return differ;
}

} // namespace

int main()
{
    const uint32_t columns[] = {8, 24, sim::TENSOR_CORE_COLUMNS};
    const char *const name[] = {"bf16", "f16", "tf32"};
    struct rand r = rand_stream(1, 0);
    int failed = 0;

    for (int e = 0; e < 3; ++e)
        for (uint32_t n : columns)
            for (bool special : {false, true}) {
                uint32_t differ = 0;
                for (uint32_t i = 0; i < 20000 / n; ++i)
                    differ += compare(&r, (sim::Element)e, n, special);
                std::printf("%s, %u columns%s: %u elements differ\n", name[e], n, special ? ", NaNs and infinities" : "", differ);
                failed |= differ != 0;
            }
    return failed;
}
