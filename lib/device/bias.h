/* What is added to a score, after the scale and the cap and before the mask, as a type: a number of each pair of a
 * query and a key, of a head of a sequence. Kernels ask for it by these coordinates, and nothing else in them knows
 * what it is.
 *
 *     no_bias       nothing, which costs nothing
 *     alibi_bias    ALiBi: a slope a query head times the distance of the query and the key
 *
 * A type has the numbers of one head. Of a fragment's scores a lane takes a `tile` of it, from the query and the key of
 * the lane's first score on; bias_of gives the number of a score that lies so many queries and keys further, which are
 * constants. A score with a bias is in natural units from there on. */
#ifndef GLINT_DEVICE_BIAS_H
#define GLINT_DEVICE_BIAS_H

#include "lib/device/lengths.h"

#define GLINT_LOG2_E 1.44269504088896340736f

struct no_bias {
    static constexpr bool NONE = true;

    /* Of query head `head` in a sequence. */
    template <class Call> GLINT_DEVICE struct no_bias of(const Call &, int32_t, const struct sequence &)
    {
        return {};
    }
};

GLINT_DEVICE struct no_bias tile_of(const struct no_bias &, int32_t, int32_t)
{
    return {};
}

GLINT_DEVICE float bias_of(const struct no_bias &, const int, const int)
{
    return 0.0f;
}

struct alibi_bias {
    static constexpr bool NONE = false;
    float slope;    /* of a distance, below 0 where keys that are near are preferred */
    int32_t offset; /* query i stands at the place of key i + offset */

    template <class Call> GLINT_DEVICE struct alibi_bias of(const Call &p, int32_t head, const struct sequence &own)
    {
        const int64_t end = p.bias.from_end ? own.seqlen_k - own.seqlen_q : 0, most = 1 << 30;
        const int64_t offset = max(-most, min(most, end + p.bias.diagonal));

        return {-ld_global_f32(p.bias.slopes + head), (int32_t)offset};
    }
};

struct alibi_tile {
    float slope, distance; /* from the key to the query */
};

/* The difference of 32 bits has no overflow but where nobody sees the key. */
GLINT_DEVICE struct alibi_tile tile_of(const struct alibi_bias &bias, int32_t query, int32_t key)
{
    return {bias.slope, (float)(int32_t)((uint32_t)query + (uint32_t)bias.offset - (uint32_t)key)};
}

GLINT_DEVICE float bias_of(const struct alibi_tile &tile, const int queries, const int keys)
{
    return tile.slope * fabsf(tile.distance + (float)(queries - keys));
}

/* ---- what a kernel that has them computes with ------------------------------------------------------------------- */

/* What a score is multiplied by for an exponent of 2; and for natural units. */
template <class Bias> GLINT_DEVICE float exponent_scale(const struct glint_gpu_shape &shape)
{
    return Bias::NONE ? fmaxf(fabsf(shape.scale_log2), 1e-37f) : GLINT_LOG2_E; /* not 0: hidden scores stay -inf */
}

template <class Bias> GLINT_DEVICE float natural_scale(const struct glint_gpu_shape &shape)
{
    return Bias::NONE ? shape.softmax_scale : 1.0f;
}

/* The tile of a lane in fragments of queries by keys; of keys by queries. */
template <class Bias> GLINT_DEVICE auto tile_of_queries(const Bias &bias, int32_t first_query, int32_t first_key)
{
    const int32_t lane = (int32_t)lane_index();

    return tile_of(bias, first_query + (lane >> 2), first_key + 2 * (lane & 3));
}

template <class Bias> GLINT_DEVICE auto tile_of_keys(const Bias &bias, int32_t first_key, int32_t first_query)
{
    const int32_t lane = (int32_t)(thread_index_anew() % 32);

    return tile_of(bias, first_query + 2 * (lane & 3), first_key + (lane >> 2));
}

/* s of queries by keys, from first_query and first_key on: with a bias scaled and added to it. Q has the sign of the
 * scale. */
template <int ROWS, int COLUMNS>
GLINT_DEVICE void add_bias(float (&)[ROWS][COLUMNS][4], const struct no_bias &, const struct glint_gpu_shape &, int32_t, int32_t)
{
}

template <class Bias, int ROWS, int COLUMNS>
GLINT_DEVICE void add_bias(float (&s)[ROWS][COLUMNS][4], const Bias &bias, const struct glint_gpu_shape &shape, int32_t first_query,
                           int32_t first_key)
{
    const auto tile = tile_of_queries(bias, first_query, first_key);
    const float scale = fabsf(shape.softmax_scale);

#pragma unroll
    for (int rt = 0; rt < ROWS; ++rt)
#pragma unroll
        for (int nt = 0; nt < COLUMNS; ++nt)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                s[rt][nt][e] = fmaf(s[rt][nt][e], scale, bias_of(tile, rt * 16 + (e >> 1) * 8, nt * 8 + (e & 1)));
}

/* Backward: the exponent of a weight, of a score that lies so many queries and keys from the tile's. */
GLINT_DEVICE float exponent_of(float s, const struct glint_gpu_shape &shape, float lse, const struct no_bias &, const int,
                               const int)
{
    return fmaf(s, shape.scale_log2, -lse);
}

template <class Tile>
GLINT_DEVICE float exponent_of(float s, const struct glint_gpu_shape &shape, float lse, const Tile &tile, const int queries,
                               const int keys)
{
    return fmaf(fmaf(s, shape.softmax_scale, bias_of(tile, queries, keys)), GLINT_LOG2_E, -lse);
}

/* The exponent of a weight, of a capped score. It is at most 0 where there is a bias: scores at a cap far from 0 are
 * some ulps above LSE, and a weight of infinity times the slope of 0 would be NaN. */
GLINT_DEVICE float capped_exponent_of(float s, const struct glint_gpu_shape &shape, float lse, const struct no_bias &tile,
                                      const int queries, const int keys)
{
    return exponent_of(s, shape, lse, tile, queries, keys);
}

template <class Tile>
GLINT_DEVICE float capped_exponent_of(float s, const struct glint_gpu_shape &shape, float lse, const Tile &tile, const int queries,
                                      const int keys)
{
    const float x = exponent_of(s, shape, lse, tile, queries, keys);

    return x > 0.0f ? 0.0f : x; /* NaN stays NaN */
}

#endif
