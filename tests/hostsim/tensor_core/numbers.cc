/* Conversions to tf32 against their definition: of the two neighbours the nearer one. */
#include "tests/hostsim/numbers.h"

#include <cmath>
#include <cstdio>

extern "C" {
#include "tests/support/rand.h"
}

namespace
{

enum { LOW_BITS = 13 };

/* A float, or 2^128 in place of infinity: what rounding is to be done as if there were no end to exponents. */
double value_of(uint32_t bits)
{
    const double value = (double)sim::float_from(bits);

    return std::isinf(value) ? std::copysign(0x1p128, value) : value;
}

/* Of a number that is not NaN. Magnitudes grow with their bits. */
uint32_t nearest(uint32_t bits, bool ties_to_even)
{
    const uint32_t below = bits >> LOW_BITS << LOW_BITS, above = below + (1u << LOW_BITS);
    const double down = std::fabs(value_of(bits) - value_of(below)), up = std::fabs(value_of(above) - value_of(bits));

    if (below == bits || down < up)
        return below;
    return down == up && ties_to_even && (below >> LOW_BITS & 1) == 0 ? below : above;
}

uint32_t wrong_conversions(uint32_t bits)
{
    const float value = sim::float_from(bits);

    if (std::isnan(value))
        return sim::nearest_tf32(value) != 0x7fffe000u;
    return (sim::nearest_tf32(value) != nearest(bits, true)) + (sim::round_tf32(value) != nearest(bits, false));
}

} // namespace

int main()
{
    static const uint32_t special[] = {0, 0x00001000, 0x00003000, 0x007fffff, 0x7f7fefff, 0x7f7ff000, 0x7f7fffff, 0x7f800000};
    struct rand r = rand_stream(1, 0);
    uint32_t wrong = 0;

    for (int i = 0; i < 1000000; ++i) {
        const uint32_t bits = (uint32_t)rand_bits(&r), kept = bits >> LOW_BITS << LOW_BITS;

        wrong += wrong_conversions(bits);
        for (uint32_t low = 0xfff; low <= 0x1001; ++low) /* a tie and its neighbours */
            wrong += wrong_conversions(kept | low);
    }
    for (uint32_t bits : special)
        wrong += wrong_conversions(bits) + wrong_conversions(bits | 0x80000000u);
    printf("%u wrong\n", wrong);
    return wrong != 0;
}
