/* K and V of 8 bits: types that say how they become bf16. What is summed over may be in any order that both operands
 * have, so no byte changes its place: of the four numbers of a word, widen gives those of bytes 0 and 2, or 1 and 3
 * (ODD), as bf16, exactly. For four numbers i8 takes three integer instructions and two multiply-adds; e4m3 takes
 * seven and two, and two more that look for NaN. All GPUs since sm_80 have them. */
#ifndef GLINT_DEVICE_DECODE_NARROW_H
#define GLINT_DEVICE_DECODE_NARROW_H

#include "lib/device/decode/walk.h"

namespace decode
{

GLINT_DEVICE const struct glint_gpu_shape &shape_of(const struct glint_decode_params &p)
{
    return p.shape;
}

GLINT_DEVICE const struct glint_gpu_shape &shape_of(const struct glint_gpu_call &p)
{
    return p.shape;
}

struct i8 {
    static constexpr bool WIDENED = true, HAS_NAN = false;
    enum { UNIT = 64 }; /* widen() gives a number over it */

    /* The signs of bytes 0 and 2, and of 1 and 3, as numbers that the compiler does not know: one instruction does
     * both and and xor, but has room for one constant alone. */
    struct signs {
        uint32_t even, odd;
    };
    template <class Params> GLINT_DEVICE struct signs unknown_signs(const Params &p)
    {
        const bool any = shape_of(p).batch > 0; /* it is */

        return {any ? 0x00800080u : 0, any ? 0x80008000u : 0};
    }
    template <int ODD> GLINT_DEVICE uint32_t widen(uint32_t word, const struct signs &signs)
    {
        /* 128 more, without a sign: as bits of bf16 that many times 2^-133, denormal or not */
        const uint32_t raised = ODD ? ((word & 0xff00ff00u) ^ signs.odd) >> 8 : (word & 0x00ff00ffu) ^ signs.even;

        return fma_bf16x2(raised, 0x7f007f00u, 0xc000c000u); /* times 2^127, less 2 */
    }
};

struct e4m3 {
    static constexpr bool WIDENED = true, HAS_NAN = true;
    enum { UNIT = 1 }; /* and 2^120 is in the constants */

    struct signs {
    };
    template <class Params> GLINT_DEVICE struct signs unknown_signs(const Params &)
    {
        return {};
    }
    template <int ODD> GLINT_DEVICE uint32_t widen(uint32_t word, const struct signs &)
    {
        /* The sign, and exponent and mantissa where bf16 has them: the number over 2^120, also where it is denormal.
         * NaN becomes 480. */
        const uint32_t small =
            ODD ? (word & 0x80008000u) | (word >> 4 & 0x07f007f0u) : (word << 8 & 0x80008000u) | (word << 4 & 0x07f007f0u);

        return fma_bf16x2(small, 0x7b807b80u, 0x80008000u);
    }
};

/* All four numbers of a word, in their order. */
template <class Stored> GLINT_DEVICE void widen_word(uint32_t *to, uint32_t word, const typename Stored::signs &signs)
{
    const uint32_t even = Stored::template widen<0>(word, signs), odd = Stored::template widen<1>(word, signs);

    to[0] = (even & 0xffffu) | odd << 16;
    to[1] = even >> 16 | (odd & 0xffff0000u);
}

/* ---- NaN of e4m3 ------------------------------------------------------------------------------------------------ */

/* Keeps in mind whether a byte of the word is NaN: adding 1 changes the highest bit of a byte where the others are
 * ones, and of the bytes above the first such one. */
GLINT_DEVICE void look_for_nan(uint32_t word, uint32_t &codes)
{
    codes |= word ^ (word + 0x01010101u);
}

/* Does a lane of the warp know of a NaN? */
GLINT_DEVICE bool any_nan(uint32_t codes)
{
    return warp_any((codes & 0x80808080u) != 0);
}

/* The highest bit of each byte that is NaN. */
GLINT_DEVICE uint32_t nan_bits(uint32_t word)
{
    return ((word & 0x7f7f7f7fu) + 0x01010101u) & 0x80808080u;
}

GLINT_DEVICE bool has_nan(uint32_t word)
{
    return nan_bits(word) != 0;
}

/* What widen_word made of a word gets NaN where a byte is NaN. */
GLINT_DEVICE void put_nan(uint32_t *to, uint32_t word)
{
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const uint32_t nan = nan_bits(word) >> 16 * i;

        to[i] |= ((nan & 0x80u) >> 7) * 0x7fffu | ((nan & 0x8000u) >> 15) * 0x7fff0000u;
    }
}

/* Scores with keys that hold a NaN are NaN. Seldom: it reads K again. */
template <class S> GLINT_DEVICE void add_nan_of_keys(typename S::scores_t &s, uint32_t k_tile, uint32_t warp)
{
#pragma unroll
    for (int kt = 0; kt < S::KEY_TILES; ++kt)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            bool found = false;

#pragma unroll 1
            for (uint32_t chunk = 0; chunk < S::CHUNKS; ++chunk) {
                uint32_t v[4];

                ld_shared_u32x4(v, k_tile + tile_offset<typename S::kv_tile>(
                                                warp * S::WARP_KEYS + kt * 16 + half * 8 + (lane_index() >> 2), chunk));
                found = found || has_nan(v[0]) || has_nan(v[1]) || has_nan(v[2]) || has_nan(v[3]);
            }
#pragma unroll
            for (int rt = 0; rt < S::ROW_TILES; ++rt)
#pragma unroll
                for (int odd = 0; odd < 2; ++odd)
                    s[kt][rt][2 * half + odd] = found ? float_of(0x7fffffffu) : s[kt][rt][2 * half + odd];
        }
}

/* Columns of O whose V has a NaN are NaN in the rows that see its key. Seldom: it reads V again. */
template <class S>
GLINT_DEVICE void add_nan_of_values(typename S::output_t &o, uint32_t v_tile, int32_t first_key, const struct sight<S> &sight,
                                    uint32_t warp)
{
    const uint32_t pair = lane_index() >> 2;

#pragma unroll 1
    for (uint32_t key = 0; key < S::TILE_N; ++key)
#pragma unroll
        for (int dt = 0; dt < S::DIM_MINE; ++dt) {
            if (S::UNEVEN && dt * S::WARPS + (int)warp >= S::DIM_TILES)
                continue;
            const uint32_t bytes =
                ld_shared_u32(v_tile + tile_offset<typename S::kv_tile>(key, dt * S::WARPS + warp) + (pair >> 1) * 4) >>
                (pair & 1) * 16;

#pragma unroll
            for (int half = 0; half < 2; ++half)
#pragma unroll
                for (int rt = 0; rt < S::ROW_TILES; ++rt)
#pragma unroll
                    for (int odd = 0; odd < 2; ++odd)
                        if ((bytes >> 8 * half & 0x7f) == 0x7f && sees(sight, rt, odd, first_key + (int32_t)key))
                            o[dt][rt][2 * half + odd] = float_of(0x7fffffffu);
        }
}

} // namespace decode

#endif
