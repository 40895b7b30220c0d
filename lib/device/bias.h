/* What is added to a score, after the scale and the cap and before the mask, as a type: a number of each pair of a
 * query and a key, of a head of a sequence. Kernels ask for it by these coordinates, and nothing else in them knows
 * what it is.
 *
 *     no_bias        nothing, which costs nothing
 *     alibi_bias     ALiBi: a slope a query head times the distance of the query and the key
 *     tensor_bias    an element of a tensor, float32 or of the kernel's 16 bits, of any strides
 *
 * A type has the numbers of one head. Of a fragment's scores a lane takes a `tile` of it, from the query and the key of
 * the lane's first score on; bias_of gives the number of a score that lies so many queries and keys further, which are
 * constants. A score with a bias is in natural units from there on. */
#ifndef GLINT_DEVICE_BIAS_H
#define GLINT_DEVICE_BIAS_H

#include "lib/device/element.h"
#include "lib/device/lengths.h"

#define GLINT_LOG2_E 1.44269504088896340736f

struct no_bias {
    static constexpr bool NONE = true, LINE = false;

    /* Of query head `head`. Place: what a block works on, or of decode its tile of rows; `kept`: where it waits. */
    template <class Rows, class Call, class Place> GLINT_DEVICE struct no_bias of(const Call &, int32_t, const Place &, uint32_t)
    {
        return {};
    }
    /* Of a head of a sequence, whose queries are counted from `first_q` rows before it on. */
    template <class Call> GLINT_DEVICE struct no_bias at(const Call &, int32_t, const struct sequence &, int32_t)
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
    static constexpr bool NONE = false, LINE = true; /* along the keys */
    float slope;                                     /* of a distance, below 0 where keys that are near are preferred */
    int32_t offset;                                  /* query i stands at the place of key i + offset */

    template <class Rows, class Call, class Place>
    GLINT_DEVICE struct alibi_bias of(const Call &p, int32_t head, const Place &at, uint32_t)
    {
        return alibi_bias::at(p, head, at.own, 0);
    }
    template <class Call>
    GLINT_DEVICE struct alibi_bias at(const Call &p, int32_t head, const struct sequence &own, int32_t first_q)
    {
        const int64_t end = p.bias.from_end ? own.seqlen_k - own.seqlen_q : 0, most = 1 << 30;
        const int64_t offset = max(-most, min(most, end + p.bias.diagonal));

        return {-ld_global_f32(p.bias.slopes + head), (int32_t)offset - first_q};
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

/* ---- a tensor ---------------------------------------------------------------------------------------------------- */

GLINT_DEVICE const struct glint_gpu_bias_tensor &tensor_of(const struct glint_gpu_call &p)
{
    return reinterpret_cast<const struct glint_gpu_biased_call &>(p).tensor; /* which begins with the call */
}

template <class Call> GLINT_DEVICE const struct glint_gpu_bias_tensor &tensor_of(const Call &p)
{
    return p.tensor;
}

template <class Element> struct tensor_bias {
    static constexpr bool NONE = false, LINE = false;
    const struct glint_gpu_bias_tensor *all;
    const char *first; /* of query 0 and key 0 */
    int32_t seqlen_q, seqlen_k;

    template <class Rows, class Call, class Place>
    GLINT_DEVICE struct tensor_bias of(const Call &p, int32_t head, const Place &place, uint32_t kept)
    {
        return at(p, Rows::sequence_of_block(place, kept), head, place.own);
    }
    /* Of a head of sequence `number`. */
    template <class Call>
    GLINT_DEVICE struct tensor_bias at(const Call &p, int32_t number, int32_t head, const struct sequence &own)
    {
        const struct glint_gpu_bias_tensor &all = tensor_of(p);
        const int64_t first = number * all.batch + head * all.head;

        return {&all, (const char *)all.address + first * (Element::BYTES == 2 && all.narrow ? 2 : 4), own.seqlen_q, own.seqlen_k};
    }
};

template <class Element> GLINT_DEVICE bool is_narrow(const struct tensor_bias<Element> &bias)
{
    return Element::BYTES == 2 && bias.all->narrow;
}

/* An element of 16 bits. */
template <class Element> GLINT_DEVICE float widen(uint32_t word)
{
    if constexpr (Element::BYTES == 2)
        return Element::low(word);
    else
        return 0.0f; /* there is none */
}

/* The element of a query and a key; 0 beyond the sequence, where nothing is read. */
template <class Element> GLINT_DEVICE float element_of(const struct tensor_bias<Element> &bias, int32_t query, int32_t key)
{
    const int64_t at = query * bias.all->query + key * bias.all->key;
    float x = 0.0f;

    if (query < bias.seqlen_q && key < bias.seqlen_k)
        x = is_narrow(bias) ? widen<Element>(ld_global_u16(bias.first + at * 2)) : ld_global_f32((const float *)bias.first + at);
    return x;
}

/* Element by element, where few are wanted: in decode. */
template <class Element> struct tensor_place {
    struct tensor_bias<Element> bias;
    int32_t query, key;
};

template <class Element>
GLINT_DEVICE struct tensor_place<Element> tile_of(const struct tensor_bias<Element> &bias, int32_t query, int32_t key) {
    return {bias, query, key};
}

template <class Element>
GLINT_DEVICE float bias_of(const struct tensor_place<Element> &at, const int queries, const int keys)
{
    return element_of(at.bias, at.query + queries, at.key + keys);
}

/* The elements of a lane's scores, in fragments of queries by keys; of keys by queries. */
template <int ROWS, int COLUMNS> struct tensor_of_queries {
    float of[ROWS][COLUMNS][4];
};

template <int ROWS, int COLUMNS>
GLINT_DEVICE float bias_of(const struct tensor_of_queries<ROWS, COLUMNS> &tile, const int queries, const int keys)
{
    return tile.of[queries / 16][keys / 8][queries / 8 % 2 * 2 + keys % 2];
}

template <int ROWS, int COLUMNS> struct tensor_of_keys {
    float of[ROWS][COLUMNS][4];
};

template <int ROWS, int COLUMNS>
GLINT_DEVICE float bias_of(const struct tensor_of_keys<ROWS, COLUMNS> &tile, const int queries, const int keys)
{
    return tile.of[keys / 16][queries / 8][keys / 8 % 2 * 2 + queries % 2];
}

/* Whether fragments lie within the sequence, so that no element has to be asked for. */
template <class Element>
GLINT_DEVICE bool has_all(const struct tensor_bias<Element> &bias, int32_t first_query, const int queries, int32_t first_key,
                          const int keys)
{
    return first_query + queries <= bias.seqlen_q && first_key + keys <= bias.seqlen_k;
}

/* Elements of neighbouring keys are loaded together where all such pairs are aligned. */
template <int ROWS, int COLUMNS, class Element>
GLINT_DEVICE struct tensor_of_queries<ROWS, COLUMNS> load_queries_by_keys(const struct tensor_bias<Element> &bias,
                                                                          int32_t first_query, int32_t first_key) {
    struct tensor_of_queries<ROWS, COLUMNS> tile;
    const int32_t lane = (int32_t)lane_index(), query = first_query + (lane >> 2), key = first_key + 2 * (lane & 3);
    const int64_t bytes = is_narrow(bias) ? 2 : 4, row_bytes = bias.all->query * bytes;
    const bool paired = bias.all->key == 1 && (((uint64_t)bias.first | (uint64_t)row_bytes) & (uint64_t)(2 * bytes - 1)) == 0;

    if (paired && has_all(bias, first_query, ROWS * 16, first_key, COLUMNS * 8)) {
        const char *const from = bias.first + query * row_bytes + key * bytes;

#pragma unroll
        for (int rt = 0; rt < ROWS; ++rt)
#pragma unroll
            for (int side = 0; side < 2; ++side) {
                const char *const row = from + (rt * 16 + side * 8) * row_bytes;

                if (is_narrow(bias)) {
#pragma unroll
                    for (int nt = 0; nt < COLUMNS; ++nt) {
                        const uint32_t pair = bits_of(ld_global_f32((const float *)(const void *)(row + nt * 16)));

                        tile.of[rt][nt][2 * side] = widen<Element>(pair);
                        tile.of[rt][nt][2 * side + 1] = widen<Element>(pair >> 16);
                    }
                } else {
#pragma unroll
                    for (int nt = 0; nt < COLUMNS; ++nt) {
                        float pair[2];

                        ld_global_f32x2(pair, row + nt * 32);
                        tile.of[rt][nt][2 * side] = pair[0];
                        tile.of[rt][nt][2 * side + 1] = pair[1];
                    }
                }
            }
    } else {
#pragma unroll
        for (int rt = 0; rt < ROWS; ++rt)
#pragma unroll
            for (int nt = 0; nt < COLUMNS; ++nt)
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    tile.of[rt][nt][e] = element_of(bias, query + rt * 16 + (e >> 1) * 8, key + nt * 8 + (e & 1));
    }
    return tile;
}

/* A load's lanes have eight neighbouring keys of four queries. */
template <int ROWS, int COLUMNS, class Element>
GLINT_DEVICE struct tensor_of_keys<ROWS, COLUMNS> load_keys_by_queries(const struct tensor_bias<Element> &bias, int32_t first_key,
                                                                       int32_t first_query) {
    struct tensor_of_keys<ROWS, COLUMNS> tile;
    const int32_t lane = (int32_t)(thread_index_anew() % 32), query = first_query + 2 * (lane & 3), key = first_key + (lane >> 2);
    const int64_t bytes = is_narrow(bias) ? 2 : 4, row_bytes = bias.all->query * bytes;

    if (bias.all->key == 1 && has_all(bias, first_query, COLUMNS * 8, first_key, ROWS * 16)) {
        const char *const from = bias.first + query * row_bytes + key * bytes;

#pragma unroll
        for (int mt = 0; mt < COLUMNS; ++mt)
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const char *const row = from + (mt * 8 + e) * row_bytes;

#pragma unroll
                for (int kt = 0; kt < ROWS; ++kt)
#pragma unroll
                    for (int side = 0; side < 2; ++side)
                        tile.of[kt][mt][2 * side + e] =
                            is_narrow(bias) ? widen<Element>(ld_global_u16(row + (kt * 16 + side * 8) * 2))
                                            : ld_global_f32((const float *)(const void *)(row + (kt * 16 + side * 8) * 4));
            }
    } else {
#pragma unroll
        for (int kt = 0; kt < ROWS; ++kt)
#pragma unroll
            for (int mt = 0; mt < COLUMNS; ++mt)
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    tile.of[kt][mt][e] = element_of(bias, query + mt * 8 + (e & 1), key + kt * 16 + (e >> 1) * 8);
    }
    return tile;
}

/* ---- what a kernel that has them computes with ------------------------------------------------------------------- */

/* What a score is multiplied by for an exponent of 2; and for natural units. */
template <class Bias>
GLINT_DEVICE float exponent_scale(const struct glint_gpu_shape &shape)
{
    return Bias::NONE ? fmaxf(fabsf(shape.scale_log2), 1e-37f) : GLINT_LOG2_E; /* not 0: hidden scores stay -inf */
}

template <class Bias> GLINT_DEVICE float natural_scale(const struct glint_gpu_shape &shape)
{
    return Bias::NONE ? shape.softmax_scale : 1.0f;
}

/* The tile of a lane in ROWS by COLUMNS fragments of queries by keys; of keys by queries. */
template <int ROWS, int COLUMNS, class Bias>
GLINT_DEVICE auto tile_of_queries(const Bias &bias, int32_t first_query, int32_t first_key)
{
    const int32_t lane = (int32_t)lane_index();

    return tile_of(bias, first_query + (lane >> 2), first_key + 2 * (lane & 3));
}

template <int ROWS, int COLUMNS, class Element>
GLINT_DEVICE auto tile_of_queries(const struct tensor_bias<Element> &bias, int32_t first_query, int32_t first_key)
{
    return load_queries_by_keys<ROWS, COLUMNS>(bias, first_query, first_key);
}

template <int ROWS, int COLUMNS, class Bias>
GLINT_DEVICE auto tile_of_keys(const Bias &bias, int32_t first_key, int32_t first_query)
{
    const int32_t lane = (int32_t)(thread_index_anew() % 32);

    return tile_of(bias, first_query + 2 * (lane & 3), first_key + (lane >> 2));
}

template <int ROWS, int COLUMNS, class Element>
GLINT_DEVICE auto tile_of_keys(const struct tensor_bias<Element> &bias, int32_t first_key, int32_t first_query)
{
    return load_keys_by_queries<ROWS, COLUMNS>(bias, first_key, first_query);
}

/* What is loaded before the products whose scores it is added to: of a tensor the tile, of others nothing. */
struct nothing_ahead {
};

template <int ROWS, int COLUMNS, class Bias> GLINT_DEVICE struct nothing_ahead load_ahead(const Bias &, int32_t, int32_t)
{
    return {};
}

template <int ROWS, int COLUMNS, class Element>
GLINT_DEVICE auto load_ahead(const struct tensor_bias<Element> &bias, int32_t first_query, int32_t first_key)
{
    return load_queries_by_keys<ROWS, COLUMNS>(bias, first_query, first_key);
}

template <int ROWS, int COLUMNS, class Bias>
GLINT_DEVICE auto tile_of_queries(const Bias &bias, const struct nothing_ahead &, int32_t first_query, int32_t first_key)
{
    return tile_of_queries<ROWS, COLUMNS>(bias, first_query, first_key);
}

template <int ROWS, int COLUMNS, class Bias, class Ahead>
GLINT_DEVICE const Ahead &tile_of_queries(const Bias &, const Ahead &ahead, int32_t, int32_t)
{
    return ahead;
}

/* s of queries by keys, from first_query and first_key on: with a bias scaled and added to it. Q has the sign of the
 * scale. `ahead`: what load_ahead gave. */
template <int ROWS, int COLUMNS>
GLINT_DEVICE void add_bias(float (&)[ROWS][COLUMNS][4], const struct no_bias &, const struct nothing_ahead &,
                           const struct glint_gpu_shape &, int32_t, int32_t)
{
}

template <class Bias, class Ahead, int ROWS, int COLUMNS>
GLINT_DEVICE void add_bias(float (&s)[ROWS][COLUMNS][4], const Bias &bias, const Ahead &ahead, const struct glint_gpu_shape &shape,
                           int32_t first_query, int32_t first_key)
{
    const auto tile = tile_of_queries<ROWS, COLUMNS>(bias, ahead, first_query, first_key);
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
