/* Random numbers that are the same on every machine and compiler: integer arithmetic, and floating point that never
 * rounds. */
#ifndef GLINT_TESTS_RAND_H
#define GLINT_TESTS_RAND_H

#include <stdint.h>

struct rand {
    uint64_t state;
};

/* splitmix64 (Steele, Lea, Flood 2014). */
static inline uint64_t rand_bits(struct rand *r)
{
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* A generator for one purpose: streams of the same seed do not overlap in practice. */
static inline struct rand rand_stream(uint64_t seed, uint64_t stream)
{
    struct rand r = {seed ^ (stream + 1) * UINT64_C(0xd1342543de82ef95)};
    rand_bits(&r);
    return r;
}

/* 0 ... count - 1; the bias is below 2^-32 for the small counts used here. */
static inline int64_t rand_below(struct rand *r, int64_t count)
{
    return (int64_t)((rand_bits(r) >> 32) * (uint64_t)count >> 32);
}

static inline double rand_uniform(struct rand *r)
{
    return (double)(rand_bits(r) >> 11) * 0x1p-53;
}

/* Mean 0, variance 1, |x| < 3.47: the sum of four uniform 16-bit numbers. Exact, unlike one that calls log and cos. */
static inline float rand_normal(struct rand *r)
{
    uint64_t bits = rand_bits(r);
    int32_t sum =
        (int32_t)(bits & 0xffff) + (int32_t)(bits >> 16 & 0xffff) + (int32_t)(bits >> 32 & 0xffff) + (int32_t)(bits >> 48);
    return (float)(sum - 131070) * (1.7320508f / 65536.0f);
}

static inline float rand_sign(struct rand *r)
{
    return (rand_bits(r) >> 63) != 0 ? 1.0f : -1.0f;
}

#endif
