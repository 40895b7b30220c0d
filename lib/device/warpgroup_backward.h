/* Steps of the backward kernels whose products are a warpgroup's (sm_90a): what they are given, where a block works, masks, NaN and
 * infinity, and sums of blocks in a fixed order. */
#ifndef GLINT_DEVICE_WARPGROUP_BACKWARD_H
#define GLINT_DEVICE_WARPGROUP_BACKWARD_H

#include "lib/device/warpgroup.h"

/* The maps of a backward kernel, in the order of its descriptor: boxes of all of head_dim by BOX_ROWS rows, swizzled as a slab tile. */
enum { MAP_Q, MAP_K, MAP_V, MAP_DOUT, MAP_DQ, MAP_DK, MAP_DV };

enum { BOX_ROWS = 64, NO_WORK = -1 };

/* ---- tiles to and from memory: one thread for all -------------------------------------------------------------------------- */

/* Rows [row, row + rows) of a head. A tile of more than one slab has BOX_ROWS rows. */
template <class tile>
GLINT_DEVICE void load_tile(uint32_t to, const struct tensor_map *map, int32_t row, int32_t head, int32_t batch, uint32_t full,
                            uint64_t hint)
{
#pragma unroll
    for (int part = 0; part < tile::rows / BOX_ROWS; ++part) {
        const int32_t at[5] = {0, row + part * BOX_ROWS, 0, head, batch};

        tma_load(to + part * (BOX_ROWS * tile::width), map, 5, at, full, hint);
    }
}

template <class tile>
GLINT_DEVICE void store_tile(const struct tensor_map *map, int32_t row, int32_t head, int32_t batch, uint32_t from)
{
#pragma unroll
    for (int part = 0; part < tile::rows / BOX_ROWS; ++part) {
        const int32_t at[5] = {0, row + part * BOX_ROWS, 0, head, batch};

        tma_store(map, 5, at, from + part * (BOX_ROWS * tile::width));
    }
}

/* Stores 16 columns of a warp's 16 rows, two fragments of 8 columns packed to words of 16 bits, to a slab tile: w[0], w[1] are rows
 * lane / 4 and lane / 4 + 8 of columns 16 kk ..., w[2], w[3] of the next eight. `lane_at` is tile_offset of the lane's row (16 warp + lane % 16)
 * and chunk lane / 16 in the first slab, from the tile's address. */
template <class tile> GLINT_DEVICE void store_fragment(uint32_t lane_at, const int kk, const uint32_t (&w)[4])
{
    stmatrix_x4(tile_move(lane_at, 0, 2 * kk, tile::rows, tile::chunks), w);
}

GLINT_DEVICE void st_shared_floats(uint32_t address, const float *v)
{
    const uint32_t words[4] = {bits_of(v[0]), bits_of(v[1]), bits_of(v[2]), bits_of(v[3])};

    st_shared_u32x4(address, words);
}

/* `tiles` tiles, one after another, copied once more by ordinary loads and stores; zeros after the last row. For what seldom happens. */
template <class tile>
GLINT_DEVICE void reload_tile(uint32_t to, const struct glint_gpu_view *view, int32_t batch, int32_t head, int32_t first_row,
                              int32_t seqlen, uint32_t tiles, uint32_t thread, const uint32_t threads)
{
    const uint32_t row_chunks = tile::columns / 8;

#pragma unroll 1
    for (uint32_t i = thread; i < tiles * tile::rows * row_chunks; i += threads) {
        const uint32_t row = i / row_chunks, chunk = i % row_chunks;
        uint32_t v[4] = {0, 0, 0, 0};

        if (first_row + (int32_t)row < seqlen)
            ld_global_u32x4(v, view_row(view, batch, head, first_row + (int32_t)row, 2) + chunk * 16);
        st_shared_u32x4(to + row / tile::rows * tile::bytes + tile_offset(row % tile::rows, chunk, tile::rows, tile::chunks), v);
    }
}

/* ---- scores of keys by queries (S^T, P^T, dS^T) ---------------------------------------------------------------------------- */

/* Which queries of a step see this thread's keys, counted from the thread's first query: of key lane / 4 + 8 side those from first[side] on
 * and before end. */
struct sight {
    int32_t first[2], end;
};

/* key: the thread's first one. Every key before seqlen_k is seen by queries from key - offset on; without a mask offset is seqlen_k. */
GLINT_DEVICE struct sight sight_of_keys(int32_t key, int32_t query0, int32_t offset, int32_t seqlen_q, int32_t seqlen_k)
{
    const int32_t column = 2 * (int32_t)(thread_index_anew() & 3);
    struct sight sight;

#pragma unroll
    for (int side = 0; side < 2; ++side)
        sight.first[side] = key + 8 * side >= seqlen_k ? 1 << 30 : key + 8 * side - offset - query0 - column;
    sight.end = seqlen_q - query0 - column;
    return sight;
}

template <int queries> GLINT_DEVICE void hide_queries(float (&s)[queries / 2], const struct sight &sight)
{
#pragma unroll
    for (int i = 0; i < queries / 2; ++i) {
        const int column = i / 4 * 8 + i % 2;

        s[i] = column < sight.first[i / 2 % 2] || column >= sight.end ? 0.0f : s[i];
    }
}

/* ---- NaN and infinity ------------------------------------------------------------------------------------------------------ */

/* Whether LSE or delta of a step's queries say that a Q or dO holds any: the same in all lanes. LSE = +inf is a query that sees nothing. */
template <int queries> GLINT_DEVICE bool queries_special(uint32_t lse, uint32_t delta)
{
    bool found = false;

#pragma unroll
    for (int i = 0; i < queries / 32; ++i) {
        const uint32_t l = ld_shared_u32(lse + (thread_index_anew() % 32 + 32 * i) * 4);
        const uint32_t d = ld_shared_u32(delta + (thread_index_anew() % 32 + 32 * i) * 4);

        found |= (l & 0x7fffffffu) > 0x7f800000u || (d & 0x7f800000u) == 0x7f800000u;
    }
    return warp_any(found);
}

/* Adds what is special in row z_row of a tile, times `factor`, to the rows of the accumulator that see it: sees(side) for this thread's
 * two, lane / 4 + 8 side. Columns first_chunk * 8 ... of the tile. */
template <class tile, int columns, class Sees>
GLINT_DEVICE void add_special_row(float *d, uint32_t at, uint32_t z_row, uint32_t first_chunk, float factor,
                                  const uint32_t exponent, Sees sees)
{
    const bool seen[2] = {sees(0), sees(1)};

#pragma unroll
    for (int ct = 0; ct < columns / 8; ++ct) {
        const uint32_t word =
            ld_shared_u32(at + tile_offset(z_row, first_chunk + ct, tile::rows, tile::chunks) + (thread_index_anew() & 3) * 4);
        const uint32_t special = word ^ finite_part(word, exponent, 2);
        const float v[2] = {exponent == 0x7c000000u ? low_f16(special) : low_bf16(special),
                            exponent == 0x7c000000u ? high_f16(special) : high_bf16(special)};
#pragma unroll
        for (int e = 0; e < 4; ++e)
            if (seen[e / 2])
                d[4 * ct + e] += v[e % 2] * factor;
    }
}

/* ---- sums of blocks, in order ---------------------------------------------------------------------------------------------- */

/* Blocks add to a tile one after another. Its turn counts the keys whose blocks have; one thread of a block does all of this, and
 * what it did to the tile, by bulk copies that it has waited for, is seen by the one whose turn comes next. */
GLINT_DEVICE void turn_wait(const uint32_t *turn, uint32_t keys)
{
    while (ld_acquire_u32(turn) < keys)
        continue;
}

GLINT_DEVICE void turn_pass(uint32_t *turn, uint32_t keys)
{
    bulk_wait<0>();
    st_release_u32(turn, keys);
}

#endif
