/* The emulated instructions of AVX-512 BF16 against scalar ones that flush denormals, and where the CPU has them
 * against the CPU, bit by bit. */
#define HEAD_DIM 32
#define GLINT_CPU_LANES 16
#define GLINT_CPU_VECS 1
#define GLINT_CPU_DTYPE bf16
#define GLINT_CPU_ELEMENT uint16_t
#include "lib/cpu/cpu.h"
#include "lib/cpu/dot.h" /* the instructions themselves */

#include <immintrin.h>
#include <stdio.h>

#include "tests/dot/instructions.h"

static int failures;

static uint32_t state = 1;
static uint32_t next(void)
{
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* A third ordinary numbers, a third any bits at all, the rest edges: zeros, denormals, the smallest and largest normal
 * ones, what a product of two makes a last bit of 2^-126, infinities, NaN. */
static uint16_t some_half(void)
{
    static const uint16_t edges[] = {0,      0x8000, 0x0001, 0x807f, 0x0080, 0x8080, 0x0081, 0x1a00, 0x9a00, 0x1a80,
                                     0x2000, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0xffa0, 0x3f80, 0xbf80};
    switch (next() % 3) {
    case 0: return edges[next() % (sizeof edges / sizeof edges[0])];
    case 1: return (uint16_t)next();
    default: return (uint16_t)((next() & 0x80ff) | (0x3e00 + (next() % 4 << 7)));
    }
}

static float some_float(void)
{
    static const uint32_t edges[] = {0,          0x80000000, 1,          0x807fffff, 0x00800000, 0x80800000,
                                     0x00800001, 0x3f7fffff, 0x3f808000, 0x3f818000, 0x3f808001, 0x7f7fffff,
                                     0xff7f8000, 0x7f800000, 0xff800000, 0x7f800001, 0xffc00000};
    const uint32_t any = next() << 16 ^ next();
    switch (next() % 3) {
    case 0: return float_of(edges[next() % (sizeof edges / sizeof edges[0])]);
    case 1: return float_of(any);
    default: return float_of((any & 0x807fffff) | (uint32_t)(120 + next() % 16) << 23);
    }
}

/* As the manual has it: the odd terms first. */
__attribute__((noinline)) static float plain_dot(float sum, uint32_t a, uint32_t b)
{
    __m128 s = _mm_set_ss(sum);
    s = _mm_fmadd_ss(_mm_set_ss(float_of(a & 0xffff0000)), _mm_set_ss(float_of(b & 0xffff0000)), s);
    return _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(float_of(a << 16)), _mm_set_ss(float_of(b << 16)), s));
}

static uint16_t plain_rounded(float x)
{
    const uint32_t bits = bits_of(x), exponent = bits >> 23 & 0xff, half = bits >> 16;
    if (exponent == 0)
        return (uint16_t)(half & 0x8000);
    if (exponent == 0xff)
        return (uint16_t)((bits & 0x7fffff) != 0 ? half | 0x40 : half);
    const uint32_t rest = bits & 0xffff;
    return (uint16_t)(half + (rest > 0x8000 || (rest == 0x8000 && half % 2 == 1)));
}

static bool same(float a, float b)
{
    return bits_of(a) == bits_of(b) || (a != a && b != b);
}

static void expect(bool right, const char *what, int round, int lane)
{
    if (!right && failures++ < 20)
        printf("%s differs, round %d, lane %d\n", what, round, lane);
}

static void dots(bool on_cpu)
{
    for (int round = 0; round < 200000; round++) {
        float sum[16], want[16];
        uint32_t a[16], b[16];
        for (int i = 0; i < 16; i++) {
            sum[i] = some_float();
            a[i] = some_half() | (uint32_t)some_half() << 16;
            b[i] = some_half() | (uint32_t)some_half() << 16;
        }
        const unsigned mode = _mm_getcsr();
        _mm_setcsr(0x9fc0); /* exceptions masked, to nearest, DAZ and FTZ */
        for (int i = 0; i < 16; i++)
            want[i] = plain_dot(sum[i], a[i], b[i]);
        _mm_setcsr(mode);
        glint_vec s, t;
        glint_words x, y;
        memcpy(&s, sum, sizeof s);
        memcpy(&x, a, sizeof x);
        memcpy(&y, b, sizeof y);
        t = emulated_dot(s, x, y);
        if (on_cpu)
            GLINT_DOT(s, x, y);
        for (int i = 0; i < 16; i++) {
            expect(same(t[i], want[i]), "the emulated product", round, i);
            expect(!on_cpu || same(s[i], want[i]), "the CPU's product", round, i);
        }
    }
}

static void roundings(bool on_cpu)
{
    for (int round = 0; round < 100000; round++) {
        glint_vec x[2];
        for (int i = 0; i < 32; i++)
            x[i / 16][i % 16] = some_float();
        glint_halves emulated, cpu = {0};
        emulated_round_pair(&emulated, x[0], x[1]);
        if (on_cpu)
            cpu = glint_round_pair(x[0], x[1]);
        for (int i = 0; i < 32; i++) {
            const uint16_t want = plain_rounded(x[i / 16][i % 16]);
            expect(emulated[i] == want, "the emulated rounding", round, i);
            expect(!on_cpu || cpu[i] == want, "the CPU's rounding", round, i);
        }
    }
}

/* --cpu: beside the CPU's own instructions, which it must have. */
int main(int count, char **arguments)
{
    const bool on_cpu = count == 2 && strcmp(arguments[1], "--cpu") == 0;
    dots(on_cpu);
    roundings(on_cpu);
    printf("%s: %d failures\n", on_cpu ? "the emulation and the CPU" : "the emulation alone", failures);
    return failures != 0;
}
