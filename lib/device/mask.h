/* Which keys a query sees. Masks are bands: query i sees key j iff i + left <= j <= i + right. A side that a variant
 * does not have costs nothing: BANDS says at compile time which there are. Hiding is one step, here, and nothing
 * else in a kernel knows the mask. intervals.h has the masks of which each query has bounds of its own, and tree.h
 * those with bits beside them. */
#ifndef GLINT_DEVICE_MASK_H
#define GLINT_DEVICE_MASK_H

#include "lib/device/unrolled.h"

/* LEFT: there is a first key; RIGHT: there is a last one, as under a causal mask. */
template <bool LEFT_, bool RIGHT_> struct band {
    static constexpr bool LEFT = LEFT_, RIGHT = RIGHT_, INTERVALS = false, TREE = false;
    int32_t left, right; /* only what LEFT and RIGHT say is read */
    int32_t seqlen_q, seqlen_k;
};

typedef struct band<false, false> no_mask;
typedef struct band<false, true> causal_mask;
typedef struct band<true, true> window_mask;

/* The last key that a query sees, -1 or less if none. Of a mask with intervals keys_of_query has the range. */
template <class Band> GLINT_DEVICE int32_t last_key(const Band &band, int32_t query)
{
    if constexpr (Band::INTERVALS)
        return keys_of_query(band, query).end - 1;
    else
        return Band::RIGHT ? min(query + band.right, band.seqlen_k - 1) : band.seqlen_k - 1;
}

/* The first one. */
template <class Band> GLINT_DEVICE int32_t first_key(const Band &band, int32_t query)
{
    if constexpr (Band::INTERVALS)
        return keys_of_query(band, query).first;
    else
        return Band::LEFT ? max(query + band.left, 0) : 0;
}

/* Whether a query sees a key. */
template <class Band> GLINT_DEVICE bool sees_some(const Band &band, int32_t query)
{
    if constexpr (Band::INTERVALS)
        return keys_of_query(band, query).end > 0;
    else
        return band.seqlen_k > 0 && (!Band::RIGHT || query + band.right >= 0) && (!Band::LEFT || query + band.left < band.seqlen_k);
}

/* Whether query query0 + i sees key key0 + j. */
template <class Band> GLINT_DEVICE bool sees(const Band &band, int32_t query0, int32_t i, int32_t key0, int32_t j)
{
    return (!Band::LEFT || key0 + j >= query0 + i + band.left) && (!Band::RIGHT || key0 + j <= query0 + i + band.right);
}

/* The same band for those who count queries from query0 on and keys from key0 on. */
template <class Band> GLINT_DEVICE Band band_from(const Band &band, int32_t query0, int32_t key0)
{
    return {query0 + band.left - key0, query0 + band.right - key0, band.seqlen_q - query0, band.seqlen_k - key0};
}

/* Whether query i sees key j. */
template <class Band> GLINT_DEVICE bool sees(const Band &band, int32_t i, int32_t j)
{
    return (!Band::LEFT || j >= band.left + i) && (!Band::RIGHT || j <= band.right + i);
}

/* One past the last key that queries up to last_query see, at least 0. */
template <class Band> GLINT_DEVICE int32_t end_key(const Band &band, int32_t last_query)
{
    return Band::RIGHT ? max(0, min(band.seqlen_k, last_query + band.right + 1)) : band.seqlen_k;
}

/* Blocks of keys: from first to last there are keys that some of a block of queries see, and in those from whole_from
 * to hidden_from - 1 each query sees every key. Without a left side the first ones are constants: ptxas orders a loop
 * down to 0 otherwise. */
template <bool LEFT> struct first_blocks {
    int32_t first, whole_from;
};

template <> struct first_blocks<false> {
    static constexpr int32_t first = 0, whole_from = 0;
};

template <class Band> struct key_blocks : first_blocks<Band::LEFT> {
    int32_t last, hidden_from;
};

template <int TILE_N, class Band>
GLINT_DEVICE struct key_blocks<Band> find_key_blocks(const Band &band, int32_t first_query, int32_t last_query) {
    struct key_blocks<Band> blocks;

    const int32_t end = end_key(band, last_query);

    blocks.hidden_from = end_key(band, first_query) / TILE_N;
    blocks.last = (end + TILE_N - 1) / TILE_N - 1;
    if constexpr (Band::LEFT) {
        blocks.first = min(band.seqlen_k, first_key(band, first_query)) / TILE_N;
        blocks.whole_from = (first_key(band, last_query) + TILE_N - 1) / TILE_N;
    }
    return blocks;
}

/* Whether some query does not see some key of a block: whole_from and hidden_from are those of key_blocks. */
template <class Band>
GLINT_DEVICE bool hides_some(const Band &, int32_t block, int32_t whole_from, int32_t hidden_from)
{
    return block >= hidden_from || (Band::LEFT && block < whole_from);
}

/* Whether none of `queries` queries from query0 on sees any of the TILE_N keys of a block. */
template <int TILE_N, class Band>
GLINT_DEVICE bool hides_all(const Band &band, int32_t query0, const int32_t queries, int32_t block)
{
    return (Band::RIGHT && block * TILE_N > query0 + (queries - 1) + band.right) ||
           (Band::LEFT && block * TILE_N + (TILE_N - 1) < query0 + band.left);
}

/* s of queries by keys, from first_query and first_key on: `hidden` takes the place of scores that the mask hides and
 * of keys past the end. */
template <class Band, int ROWS, int COLUMNS>
GLINT_DEVICE void hide_keys(float (&s)[ROWS][COLUMNS][4], const Band &band, int32_t first_query, int32_t first, const float hidden)
{
#pragma unroll
    for (int rt = 0; rt < ROWS; ++rt)
#pragma unroll
        for (int side = 0; side < 2; ++side) {
            const int32_t query = first_query + rt * 16 + side * 8 + (int32_t)(lane_index() >> 2);
            const int32_t last = last_key(band, query) - first - 2 * (int32_t)(lane_index() & 3);
            const int32_t begin = first_key(band, query) - first - 2 * (int32_t)(lane_index() & 3);
#pragma unroll
            for (int nt = 0; nt < COLUMNS; ++nt) {
                s[rt][nt][2 * side] = nt * 8 > last || (Band::LEFT && nt * 8 < begin) ? hidden : s[rt][nt][2 * side];
                s[rt][nt][2 * side + 1] =
                    nt * 8 + 1 > last || (Band::LEFT && nt * 8 + 1 < begin) ? hidden : s[rt][nt][2 * side + 1];
            }
        }
}

/* ---- the other way round: which queries see a key ---------------------------------------------------------------- */

/* One past the last key that queries before end_query see; 0 or less if none. */
template <class Band> GLINT_DEVICE int32_t keys_seen(const Band &band, int32_t end_query)
{
    return Band::RIGHT ? min(band.seqlen_k, end_query + band.right) : band.seqlen_k;
}

/* Blocks of queries: from first to last there are queries that see some of a block of keys, and from clear_from on each
 * of them sees all of it, up to clear_to. */
struct query_blocks {
    int32_t first, last, clear_from, clear_to;
};

template <int TILE_M, int TILE_N, class Band> GLINT_DEVICE struct query_blocks find_query_blocks(const Band &band, int32_t key0)
{
    struct query_blocks blocks;
    const int32_t last_m = (band.seqlen_q + TILE_M - 1) / TILE_M - 1;
    const int32_t last_query = key0 + TILE_N - 1 - band.left; /* that sees any of the keys: below 0, none */

    blocks.last = Band::LEFT ? min(last_m, last_query < 0 ? -1 : last_query / TILE_M) : last_m;
    blocks.first = Band::RIGHT ? max(0, key0 - band.right) / TILE_M : 0;
    blocks.clear_from = key0 + TILE_N > band.seqlen_k ? last_m + 1
                        : Band::RIGHT                 ? (max(0, key0 + TILE_N - 1 - band.right) + TILE_M - 1) / TILE_M
                                                      : 0;
    blocks.clear_to = Band::LEFT ? (key0 - band.left + 1) / TILE_M - 1 : last_m;
    return blocks;
}

/* s of keys by queries, from first_key and first_query on: zero where the mask hides the key, and where the key or the
 * query lies past the end. TILE_M: no less than the queries of s. */
template <int TILE_M, class Band, int ROWS, int COLUMNS>
GLINT_DEVICE void hide_queries(float (&s)[ROWS][COLUMNS][4], const Band &band, int32_t first_key, int32_t first_query)
{
    const uint32_t lane = thread_index_anew() % 32;

    unrolled<ROWS, 2>([&](int kt, int side) {
        const int32_t key = first_key + kt * 16 + side * 8 + (int32_t)(lane >> 2);
        const int32_t column = 2 * (int32_t)(lane & 3), end = band.seqlen_q - first_query - column;
        const int32_t first = key >= band.seqlen_k ? TILE_M : Band::RIGHT ? key - band.right - first_query - column : -TILE_M;
        const int32_t last = Band::LEFT ? key - band.left - first_query - column : TILE_M;
#pragma unroll
        for (int mt = 0; mt < COLUMNS; ++mt) {
            s[kt][mt][2 * side] = mt * 8 < first || mt * 8 >= end || (Band::LEFT && mt * 8 > last) ? 0.0f : s[kt][mt][2 * side];
            s[kt][mt][2 * side + 1] =
                mt * 8 + 1 < first || mt * 8 + 1 >= end || (Band::LEFT && mt * 8 + 1 > last) ? 0.0f : s[kt][mt][2 * side + 1];
        }
    });
}

#endif
