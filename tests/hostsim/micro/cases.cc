#include "tests/hostsim/micro/cases.h"

micro_random::micro_random(const std::string &seed) : stream{0x9e3779b97f4a7c15u}
{
    for (char c : seed)
        stream.state = (stream.state ^ (unsigned char)c) * 0x100000001b3u;
}

uint64_t micro_random::next()
{
    return rand_bits(&stream);
}

uint64_t micro_hash(const uint32_t *words, size_t n)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (size_t i = 0; i < n; ++i)
        for (int byte = 0; byte < 4; ++byte)
            hash = (hash ^ (words[i] >> 8 * byte & 0xff)) * 0x100000001b3u;
    return hash;
}

/* A number of 1 + exponent_bits + mantissa_bits bits. */
static uint32_t number(micro_random &random, int regime, int exponent_bits, int mantissa_bits)
{
    const uint32_t top = (1u << exponent_bits) - 1, bias = top / 2;
    const uint32_t mantissa = random.word() & ((1u << mantissa_bits) - 1);
    const uint32_t sign = random.below(2) << (exponent_bits + mantissa_bits);
    uint32_t exponent = bias;

    switch (regime) {
    case 0: exponent = bias - 1 + random.below(2); break;
    case 1: exponent = bias - 4 + random.below(9); break;
    case 2: exponent = bias - 12 + random.below(25); break;
    case 3: return sign | bias << mantissa_bits | (random.below(8) == 0 ? mantissa & 1 : 0);
    case 6: {
        static const uint32_t few[] = {0, 0, 0, 1};
        return sign | (random.below(8) == 0 ? bias << mantissa_bits : few[random.below(4)]);
    }
    case 4: exponent = random.below(4) == 0 ? random.below(3) : random.below(top); break;
    default: exponent = random.below(8) == 0 ? top * random.below(2) : random.below(top + 1); break;
    }
    return sign | exponent << mantissa_bits | (random.below(16) == 0 ? 0 : mantissa);
}

uint32_t micro_bf16(micro_random &random, int regime)
{
    return number(random, regime, 8, 7);
}

uint32_t micro_f16(micro_random &random, int regime)
{
    return number(random, regime, 5, 10);
}

uint32_t micro_f32(micro_random &random, int regime)
{
    return number(random, regime, 8, 23);
}

uint32_t micro_hard_f32(micro_random &random)
{
    static const uint32_t special[] = {0,          0x80000000, 1,          0x007fffff, 0x00800000, 0x7f7fffff,
                                       0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001, 0x7f800001, 0x7fffffff,
                                       0x477fe000, 0x477ff000, 0x477fefff, 0x38800000, 0x387fc000, 0x33800000,
                                       0x33000000, 0x33000001, 0x32ffffff, 0x7f7f8000, 0x7f7f7fff, 0x7f7ff000};
    const uint32_t x = random.word();

    switch (random.below(8)) {
    case 0: return special[random.below(sizeof special / sizeof *special)];
    case 1: return (x & 0xffff0000u) | 0x8000u;                         /* a tie of bf16 */
    case 2: return (x & 0x8fffe000u) + 0x38001000u;                     /* a tie of f16, of tf32 */
    case 3: return (x & 0x807fffffu) | (97 + random.below(20)) << 23;   /* denormals of f16 */
    case 4: return x & 0x807fffffu;                                     /* denormals */
    case 5: return (x & 0x807fffffu) | (120 + random.below(14)) << 23;  /* round 1 */
    case 6: return (x & 0xffffe000u) | (random.below(3) - 1 + 0x1000u); /* round a tie */
    default: return x;
    }
}
