/* What kernels multiply: numbers of 16 bits, or of 32 bits as tf32. Each kind is a type with the same members, so that
 * a step of the algorithm is written once for all of them:
 *
 *     BYTES, K_STEP      of an element; elements that one mma contracts
 *     EXPONENT           all ones in NaN and infinity, of the (highest) number in a word
 *     SIGNS              the sign bits of a word
 *     mma                d += a b, of fragments as device.h says
 *     round              what an operand must be put through before mma, word by word; nothing, except for tf32
 *     operand            accumulators i of two neighbouring fragments as word i of operand A
 *     FRAGMENT_CHUNKS    chunks of 16 bytes that a fragment's 8 columns take in a tile
 *     st_pair, ld_pair   two neighbours of a row in shared memory */
#ifndef GLINT_DEVICE_ELEMENT_H
#define GLINT_DEVICE_ELEMENT_H

#include "lib/device/device.h"

/* Whether an operand has been put through round() already. */
enum rounding { UNROUNDED, ROUNDED };

struct bf16 {
    /* Weights are at most 2^4 (see follow_maxima), so that sums of them times the largest V do not overflow. */
    static constexpr int BELOW = 8;
    static constexpr uint32_t BYTES = 2, K_STEP = 16, FRAGMENT_CHUNKS = 1, EXPONENT = 0x7f800000u, SIGNS = 0x80008000u;

    GLINT_DEVICE void mma(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
    {
        mma_m16n8k16_bf16(d, a, b0, b1);
    }
    template <int N> GLINT_DEVICE void round(uint32_t (&)[N]) {}
    GLINT_DEVICE uint32_t pack(float low, float high)
    {
        return pack_bf16(low, high);
    }
    GLINT_DEVICE float low(uint32_t pair)
    {
        return low_bf16(pair);
    }
    GLINT_DEVICE float high(uint32_t pair)
    {
        return high_bf16(pair);
    }
};

struct f16 {
    /* See follow_maxima: float16 ends at 2^-24 below, and sums are far from float32's end above. */
    static constexpr int BELOW = 0;
    static constexpr uint32_t BYTES = 2, K_STEP = 16, FRAGMENT_CHUNKS = 1, EXPONENT = 0x7c000000u, SIGNS = 0x80008000u;

    GLINT_DEVICE void mma(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
    {
        mma_m16n8k16_f16(d, a, b0, b1);
    }
    template <int N> GLINT_DEVICE void round(uint32_t (&)[N]) {}
    GLINT_DEVICE uint32_t pack(float low, float high)
    {
        return pack_f16(low, high);
    }
    GLINT_DEVICE float low(uint32_t pair)
    {
        return low_f16(pair);
    }
    GLINT_DEVICE float high(uint32_t pair)
    {
        return high_f16(pair);
    }
};

/* Numbers of 32 bits, one product each: operands are rounded to tf32, with relative errors of 2^-11. */
struct tf32 {
    static constexpr uint32_t BYTES = 4, K_STEP = 8, FRAGMENT_CHUNKS = 2, EXPONENT = 0x7f800000u, SIGNS = 0x80000000u;

    GLINT_DEVICE void mma(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
    {
        mma_m16n8k8_tf32(d, a, b0, b1);
    }
    template <int N> GLINT_DEVICE void round(uint32_t (&x)[N])
    {
#pragma unroll
        for (int i = 0; i < N; ++i)
            x[i] = nearest_tf32(float_of(x[i]));
    }
    GLINT_DEVICE uint32_t rounded(float x)
    {
        return nearest_tf32(x);
    }
};

/* x as the sum of two tf32: the nearest one and what is left. Of an infinity that is the largest number and an
 * infinity, for its own remainder would be no number, and nor would its product with a remainder of 0. A NaN is left
 * over too. */
GLINT_DEVICE void split_tf32(uint32_t x, uint32_t &high, uint32_t &low)
{
    const float largest = 0x1.ffcp127f;

    high = bits_of(fminf(fmaxf(float_of(nearest_tf32(float_of(x))), -largest), largest));
    low = nearest_tf32(float_of(x) - float_of(high));
}

/* Numbers of 32 bits, three products each: an operand is the sum of two tf32, and only the product of the two
 * remainders is left out, 2^-22. */
struct tf32x3 {
    static constexpr uint32_t BYTES = 4, K_STEP = 8, FRAGMENT_CHUNKS = 2, EXPONENT = 0x7f800000u, SIGNS = 0x80000000u;

    GLINT_DEVICE void mma(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
    {
        uint32_t high[4], low[4], b_high[2], b_low[2];

#pragma unroll
        for (int i = 0; i < 4; ++i)
            split_tf32(a[i], high[i], low[i]);
        split_tf32(b0, b_high[0], b_low[0]);
        split_tf32(b1, b_high[1], b_low[1]);
        mma_m16n8k8_tf32(d, low, b_high[0], b_high[1]);
        mma_m16n8k8_tf32(d, high, b_low[0], b_low[1]);
        mma_m16n8k8_tf32(d, high, b_high[0], b_high[1]);
    }
    template <int N> GLINT_DEVICE void round(uint32_t (&)[N]) {}
    GLINT_DEVICE uint32_t rounded(float x)
    {
        return bits_of(x);
    }
};

/* Two neighbours of a row as they are in memory, to shared memory and from there. */
template <class Element> GLINT_DEVICE void st_shared_pair(uint32_t address, float x, float y)
{
    if constexpr (Element::BYTES == 4)
        st_shared_f32x2(address, x, y);
    else
        st_shared_u32(address, Element::pack(x, y));
}

#endif
