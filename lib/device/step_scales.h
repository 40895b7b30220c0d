/* A step's scales of keys, where K and V are of 8 bits. A score is multiplied by the scale of its key in K. A weight is
 * multiplied by the scale of its key in V before it is rounded, as in decode/products.h. So a hidden key's scales play
 * no part, whatever they are. The scales of a tile lie in shared memory, K's before V's, in the order in which a thread
 * has columns of an accumulator, four at a time. */
#ifndef GLINT_DEVICE_STEP_SCALES_H
#define GLINT_DEVICE_STEP_SCALES_H

#include "lib/device/step.h"

/* The scales of one key. */
struct key_scales {
    float k, v;
};

/* The scales of key `key` of a sequence that has `keys`; a key past the end has 0. */
GLINT_DEVICE struct key_scales scales_of_key(const struct glint_gpu_step &p, int32_t batch, int32_t first_k, int32_t head,
                                             int32_t key, int32_t keys)
{
    struct key_scales own = {0.0f, 0.0f};

    if (key < keys) {
        const struct key_place at = place_of_key(p, batch, first_k, key);
        const int64_t index = at.batch * p.scales.unit + head * p.scales.head + at.row * (int64_t)p.scales.row;

        own.k = ld_global_f32(p.scales.k + index);
        own.v = ld_global_f32(p.scales.v + index);
    }
    return own;
}

template <int TILE_N, class Stored> struct tile_scales {
    enum {
        V_AT = TILE_N * 4,
        BYTES = 2 * V_AT,
    };

    /* Where the scales of key `key` of a tile are: a thread has columns 8 i + 2 (lane & 3) + {0, 1}. */
    GLINT_DEVICE uint32_t offset(uint32_t key)
    {
        return (key / 16 * 16 + key / 2 % 4 * 4 + key / 8 % 2 * 2 + key % 2) * 4;
    }

    GLINT_DEVICE void put(uint32_t at, uint32_t key, const struct key_scales &own)
    {
        st_shared_f32(at + offset(key), own.k * Stored::UNIT);
        st_shared_f32(at + V_AT + offset(key), own.v * Stored::UNIT);
    }

    /* take(i, scale) for each number i of an accumulator. */
    template <class take_t> GLINT_DEVICE void for_each(uint32_t at, const take_t &take)
    {
#pragma unroll
        for (int i = 0; i < TILE_N / 2; i += 8) {
            uint32_t of_keys[4];

            ld_shared_u32x4(of_keys, at + lane_index() % 4 * 16 + i * 8);
#pragma unroll
            for (int j = 0; j < 8; ++j)
                take(i + j, float_of(of_keys[j / 4 * 2 + j % 2]));
        }
    }

    GLINT_DEVICE void scale_scores(uint32_t at, float (&s)[TILE_N / 2])
    {
        for_each(at, [&](const int i, float of_key) { s[i] *= of_key; });
    }

    /* hidden: some weights are 0 because their keys are hidden. */
    GLINT_DEVICE void scale_weights(uint32_t at, float (&s)[TILE_N / 2], bool hidden)
    {
        if (hidden)
            for_each(at + V_AT, [&](const int i, float of_key) { s[i] = s[i] == 0.0f ? 0.0f : s[i] * of_key; });
        else
            for_each(at + V_AT, [&](const int i, float of_key) { s[i] *= of_key; });
    }
};

#endif
