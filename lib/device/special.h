/* NaN and infinity in tiles. Zero times NaN is NaN, so a number that is hidden by a weight of zero must not be in a
 * tile at all: it goes to the rows that see it, and leaves the tile before the product. */
#ifndef GLINT_DEVICE_SPECIAL_H
#define GLINT_DEVICE_SPECIAL_H

#include "lib/device/tile.h"

/* Whether there are any in what this thread copied of a tile; its copies must have arrived. */
template <class Tile, int THREADS_> GLINT_DEVICE bool find_special(uint32_t tile)
{
    return find_special(tile, Tile::ROWS, Tile::PAGES, Tile::PAGE_CHUNKS, THREADS_, Tile::element::EXPONENT, Tile::element::BYTES);
}

/* Makes zeros of them; all threads call it, each for a column of chunks in some rows. */
template <class Tile, int THREADS> GLINT_DEVICE void clear_special(uint32_t tile)
{
    clear_special(tile, thread_index() < THREADS / Tile::CHUNKS * Tile::CHUNKS ? thread_index() / Tile::CHUNKS : Tile::ROWS,
                  THREADS / Tile::CHUNKS, thread_index() % Tile::CHUNKS, Tile::CHUNKS, Tile::ROWS, Tile::CHUNKS, Tile::PAGE_CHUNKS,
                  Tile::element::EXPONENT, Tile::element::BYTES);
}

/* Gives them the exponent below, so that an infinity is the largest power of two; all threads call it. */
template <class Tile, int THREADS> GLINT_DEVICE void lower_special(uint32_t tile)
{
    typedef typename Tile::element element;
    const uint32_t one = element::EXPONENT & (0u - element::EXPONENT), words = Tile::DIM * element::BYTES / 4;

#pragma unroll 1
    for (uint32_t i = thread_index_anew(); i < Tile::ROWS * words; i += THREADS) {
        const uint32_t address = tile + tile_offset<Tile>(i / words, i % words / 4) + i % 4 * 4, word = ld_shared_u32(address);
        const uint32_t special = word ^ finite_part(word, element::EXPONENT, element::BYTES);

        if (element::BYTES == 4)
            st_shared_u32(address, special != 0 ? word - one : word);
        else
            st_shared_u32(address, word - (special >> 16 != 0 ? one : 0) - ((special & 0xffffu) != 0 ? one >> 16 : 0));
    }
}

/* Which columns of a tile are meant: those of the type, in the tile or, of several such tiles one after another, in
 * number `part`; or those from a chunk on. */
struct in_tile {
};
struct in_part {
    uint32_t part;
};
struct from_chunk {
    uint32_t chunk;
};

template <class Tile> GLINT_DEVICE uint32_t columns_offset(struct in_tile, uint32_t row, const uint32_t chunk)
{
    return tile_offset<Tile>(row, chunk);
}

template <class Tile> GLINT_DEVICE uint32_t columns_offset(struct in_part columns, uint32_t row, uint32_t chunk)
{
    return columns.part * Tile::BYTES + tile_offset<Tile>(row, chunk);
}

template <class Tile> GLINT_DEVICE uint32_t columns_offset(struct from_chunk columns, uint32_t row, uint32_t chunk)
{
    return tile_offset<Tile>(row, columns.chunk + chunk);
}

/* Adds the special numbers of all rows of a tile, times `factor`, to the rows of d that see them, as sees(row of d, row
 * of the tile) says. `columns` are the columns of d. ANEW: no register is to be kept for it. */
template <class Tile, bool ANEW = false, int ROWS, int COLUMNS, class columns_t, class sees_t>
GLINT_DEVICE void spread_special(float (&d)[ROWS][COLUMNS][4], uint32_t tile, columns_t columns, float factor, sees_t sees)
{
    typedef typename Tile::element element;

#pragma unroll 1
    for (uint32_t row = 0; row < Tile::ROWS; ++row) {
        const uint32_t lane = ANEW ? thread_index_anew() % 32 : lane_index();

#pragma unroll
        for (int ct = 0; ct < COLUMNS; ++ct) {
            float v[2];

            if constexpr (element::BYTES == 4) {
                ld_shared_f32x2(v, tile + columns_offset<Tile>(columns, row, ct * 2 + (lane >> 1 & 1)) + (lane & 1) * 8);
                v[0] = float_of(bits_of(v[0]) ^ finite_part(bits_of(v[0]), element::EXPONENT, element::BYTES));
                v[1] = float_of(bits_of(v[1]) ^ finite_part(bits_of(v[1]), element::EXPONENT, element::BYTES));
            } else {
                const uint32_t word = ld_shared_u32(tile + columns_offset<Tile>(columns, row, ct) + (lane & 3) * 4);
                const uint32_t special = word ^ finite_part(word, element::EXPONENT, element::BYTES);

                v[0] = element::low(special);
                v[1] = element::high(special);
            }
            unrolled<ROWS, 2>([&](int rt, int side) {
                if (sees(rt * 16 + side * 8 + (int32_t)(lane >> 2), (int32_t)row)) {
                    d[rt][ct][2 * side] += v[0] * factor;
                    d[rt][ct][2 * side + 1] += v[1] * factor;
                }
            });
        }
    }
}

#endif
