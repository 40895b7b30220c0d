/* Tiles in shared memory: how a tile's rows lie, where the lanes of a warp find fragments in it, and how it is copied
 * from global memory and back. A tile's type carries its shape, so no call says it again. */
#ifndef GLINT_DEVICE_TILE_H
#define GLINT_DEVICE_TILE_H

#include "lib/device/element.h"
#include "lib/device/steps.h"
#include "lib/device/unrolled.h"

/* ROWS rows of COLUMNS elements. In memory a row has DIM of them, a multiple of 16: the rest are zeros. Rows are split
 * by columns into pages of PAGE_CHUNKS (8, 4 or 2) chunks of 16 bytes, each page ROWS x PAGE_CHUNKS chunks, row after
 * row. Within a row chunks are permuted by an exclusive or with bits of the row, so that the eight rows of an 8x8
 * matrix, and the eight neighbours of a row, lie in different banks: neither ldmatrix, nor fragment stores, nor 16-byte
 * copies conflict. Tiles begin at multiples of 128 bytes, so that the permutation is the address's. */
template <class Element, int ROWS_, int COLUMNS_, int PAGE_CHUNKS_, int DIM_ = (COLUMNS_ + 15) / 16 * 16> struct tile {
    typedef Element element;
    static constexpr uint32_t ROWS = ROWS_, COLUMNS = COLUMNS_, DIM = DIM_;
    static constexpr uint32_t BYTES = ROWS * DIM * Element::BYTES;
    static constexpr uint32_t CHUNKS = DIM * Element::BYTES / 16,
                              ROW_CHUNKS = COLUMNS * Element::BYTES / 16; /* with zeros; without */
    static constexpr uint32_t PAGE_CHUNKS = PAGE_CHUNKS_, PAGES = CHUNKS / PAGE_CHUNKS, PAGE_ROW = PAGE_CHUNKS * 16; /* bytes */
};

/* Where chunk `chunk` of row `row` is. */
template <class Tile> GLINT_DEVICE uint32_t tile_offset(uint32_t row, uint32_t chunk)
{
    return tile_offset(row, chunk, Tile::ROWS, Tile::PAGE_CHUNKS);
}

template <class Tile> GLINT_DEVICE uint32_t tile_move(uint32_t address, const uint32_t row, const uint32_t chunk)
{
    return tile_move(address, row, chunk, Tile::ROWS, Tile::PAGE_CHUNKS);
}

/* ---- where a lane begins to read or write fragments -------------------------------------------------------------- */

/* For ldmatrix_x4. As operand A (16 rows, 32 bytes of columns): r[] in the order of mma's a[]. */
template <class Tile> GLINT_DEVICE uint32_t lane_offset_a(uint32_t lane)
{
    return lane_offset_a(lane, Tile::ROWS, Tile::PAGE_CHUNKS);
}

/* As two operands B, 16 rows of the tile being 16 columns n of the product: r[0], r[1] the first 8, r[2], r[3] the
 * others. */
template <class Tile> GLINT_DEVICE uint32_t lane_offset_b(uint32_t lane)
{
    return lane_offset_b(lane, Tile::ROWS, Tile::PAGE_CHUNKS);
}

/* As two operands B, rows of the tile being the k of the product, from chunk `chunk` on: for load_rows. Numbers of 16
 * bits are loaded with .trans; with the roles of r[1] and r[2] exchanged that is one operand A. Numbers of 32 bits have
 * no transposing load. There 8 rows of the tile are the 8 k: the k of a product are summed in any order, so k = q takes
 * row 2q and k = q + 4 row 2q + 1, which is also how accumulators become operand A without a move: a = {d[0], d[2],
 * d[1], d[3]}. */
template <class Tile> GLINT_DEVICE uint32_t lane_offset_rows(uint32_t lane, uint32_t chunk)
{
    if constexpr (Tile::element::BYTES == 4)
        return lane_offset_rows(lane, chunk, Tile::ROWS, Tile::PAGE_CHUNKS);
    else
        return tile_offset(lane & 15, chunk + (lane >> 4), Tile::ROWS, Tile::PAGE_CHUNKS);
}

/* From a lane's address, `row` rows and `chunk` chunks further. For numbers of 32 bits r[0], r[1] are of column lane /
 * 4, r[2], r[3] of the eighth from there, and what is exclusive in an address comes first, so that one register serves
 * all rows and pages. */
template <class Tile> GLINT_DEVICE void load_rows(uint32_t r[4], uint32_t lane_address, const uint32_t row, const uint32_t chunk)
{
    if constexpr (Tile::element::BYTES == 4)
        load_rows(r, lane_address, row, chunk, Tile::ROWS, Tile::PAGE_CHUNKS);
    else
        ldmatrix_x4_trans(r, tile_move<Tile>(lane_address, row, chunk));
}

/* Where a lane's first accumulators of a fragment lie: two columns of row lane / 4. The lane's accumulators eight
 * columns further are FRAGMENT_CHUNKS chunks away. */
template <class Tile> GLINT_DEVICE uint32_t lane_offset_pairs(uint32_t lane)
{
    if constexpr (Tile::element::BYTES == 4)
        return tile_offset<Tile>(lane >> 2, lane >> 1 & 1) + (lane & 1) * 8;
    else
        return tile_offset<Tile>(lane >> 2, 0) + (lane & 3) * 4;
}

/* The same with the tile's shape in numbers. nvcc simplifies a function of constants before it knows that a lane's
 * number is below 32, and one of numbers after: so the kernels' machine code is what it was before they had types of
 * tiles. */
template <class Element> GLINT_DEVICE uint32_t lane_offset_pairs(uint32_t lane, const uint32_t rows, const uint32_t page_chunks)
{
    if constexpr (Element::BYTES == 4)
        return tile_offset(lane >> 2, lane >> 1 & 1, rows, page_chunks) + (lane & 1) * 8;
    else
        return tile_offset(lane >> 2, 0, rows, page_chunks) + (lane & 3) * 4;
}

/* A tile in stages: where the one of step `step` lies, from the first on. */
template <class Tile> GLINT_DEVICE uint32_t stage_of(int32_t step)
{
    return (step & 1) * Tile::BYTES;
}

/* ---- from global memory ------------------------------------------------------------------------------------------ */

/* Where `thread` begins to copy a tile whose first row is at `rows`. */
template <class Tile> GLINT_DEVICE const char *copy_from(const char *rows, int64_t row_bytes)
{
    return copy_from(rows, row_bytes, Tile::PAGE_CHUNKS);
}

/* The part of `thread` of THREADS in the copy of a tile, which begins at `from`; rows from valid_rows on, and columns
 * from COLUMNS on, become zero. */
template <class Tile, int THREADS_>
GLINT_DEVICE void copy_part(uint32_t thread, uint32_t tile, const char *from, int64_t row_bytes, int32_t valid_rows)
{
    copy_part(thread, tile, from, row_bytes, valid_rows, Tile::ROWS, Tile::ROW_CHUNKS, Tile::PAGES, Tile::PAGE_CHUNKS, THREADS_);
}

/* The same by all threads. */
template <class Tile, int THREADS>
GLINT_DEVICE void copy_tile(uint32_t tile, const char *from, int64_t row_bytes, int32_t valid_rows)
{
    copy_tile(tile, from, row_bytes, valid_rows, Tile::ROWS, Tile::ROW_CHUNKS, Tile::PAGES, Tile::PAGE_CHUNKS, THREADS);
}

/* A source of rows for tiles: one row of a head after the other, `row_bytes` apart. */
template <class Tile> struct linear_rows {
    const char *from; /* this thread's first copy */
    int64_t row_bytes;
};

/* The rows of a head of a tensor from row `row` on. */
template <class Tile>
GLINT_DEVICE struct linear_rows<Tile> rows_of(const struct glint_gpu_view &view, int64_t row_bytes, int32_t batch, int32_t head,
                                              int32_t row) {
    struct linear_rows<Tile> rows;

    rows.row_bytes = row_bytes;
    rows.from = copy_from<Tile>(view_row(&view, batch, head, row, Tile::element::BYTES), row_bytes);
    return rows;
}

/* Begins the copy of a tile by all threads. */
template <int THREADS, class Tile>
GLINT_DEVICE void copy_tile(uint32_t tile, const struct linear_rows<Tile> &rows, int32_t valid_rows)
{
    copy_part<Tile, THREADS>(thread_index(), tile, rows.from, rows.row_bytes, valid_rows);
}

/* Begins the part of `thread` in the copy of a tile: rows of a head of a tensor from row `row` to row `end`. */
template <class Tile, int THREADS>
GLINT_DEVICE void copy_tile_by(uint32_t thread, uint32_t tile, const struct glint_gpu_view &view, int32_t batch, int32_t head,
                               int32_t row, int32_t end)
{
    copy_part<Tile, THREADS>(
        thread, tile, copy_from<Tile>(view_row(&view, batch, head, row, Tile::element::BYTES), view.row * Tile::element::BYTES),
        view.row * Tile::element::BYTES, end - row);
}

template <class Tile, int THREADS>
GLINT_DEVICE void copy_tile(uint32_t tile, const struct glint_gpu_view &view, int32_t batch, int32_t head, int32_t row, int32_t end)
{
    copy_tile_by<Tile, THREADS>(thread_index(), tile, view, batch, head, row, end);
}

/* The copy of the tile before, in COPIES pieces from the last to the first, for threads that keep their addresses:
 * which of its rows the threads copy at once, and where this thread's copies of the first piece go. */
template <class Tile, int THREADS> struct pieces {
    static constexpr int ROWS = THREADS / (int)Tile::PAGE_CHUNKS, COUNT = ((int)Tile::ROWS + ROWS - 1) / ROWS;
    static constexpr int LAST_ROWS = (int)Tile::ROWS - (COUNT - 1) * ROWS;
};

template <class Tile> GLINT_DEVICE uint32_t copy_offset(void)
{
    return copy_offset(Tile::ROWS, Tile::PAGE_CHUNKS);
}

/* Piece i of the tile before the last one that was copied: moves `rows` to it and begins its copies to copy_offset's
 * place in the tile. Zeros unless `wanted`. */
template <int THREADS, class Tile>
GLINT_DEVICE void copy_piece_before(uint32_t to, struct linear_rows<Tile> &rows, bool wanted, const int i)
{
    typedef struct pieces<Tile, THREADS> cut;

    rows.from -= (i == cut::COUNT - 1 ? cut::LAST_ROWS : cut::ROWS) * rows.row_bytes;
    copy_rows(to, rows.from, wanted, i * cut::ROWS, Tile::ROWS, Tile::ROW_CHUNKS, Tile::PAGES, Tile::PAGE_CHUNKS, THREADS);
}

/* ---- what this thread copied; its copies must have arrived ------------------------------------------------------- */

/* Flips the sign bits. */
template <class Tile, int THREADS> GLINT_DEVICE void negate_tile(uint32_t tile)
{
    negate_tile(tile, Tile::element::SIGNS, Tile::ROWS, Tile::PAGES, Tile::PAGE_CHUNKS, THREADS);
}

/* Rounds it as operands must be: a tile that is read many times is better rounded once. */
template <class Tile, int THREADS> GLINT_DEVICE void round_tile(uint32_t tile)
{
    round_tile(tile, Tile::ROWS, Tile::PAGES, Tile::PAGE_CHUNKS, THREADS);
}

/* ---- to global memory -------------------------------------------------------------------------------------------- */

/* One factor for all rows, or one for rows lane / 4 and another for rows lane / 4 + 8. */
GLINT_DEVICE float factor_of(float factor, const int)
{
    return factor;
}

GLINT_DEVICE float factor_of(const float *factor, const int side)
{
    return factor[side];
}

/* 16 rows of accumulators, times a factor, from row first_row of a tile on. */
template <class Tile, int COLUMNS, class factor_t>
GLINT_DEVICE void stage_rows(uint32_t tile_lane, const float (&d)[COLUMNS][4], const factor_t factor, const uint32_t first_row)
{
    unrolled<COLUMNS, 2>([&](int ct, int side) {
        st_shared_pair<typename Tile::element>(
            tile_move<Tile>(tile_lane, first_row + side * 8, ct * Tile::element::FRAGMENT_CHUNKS),
            d[ct][2 * side] * factor_of(factor, side), d[ct][2 * side + 1] * factor_of(factor, side));
    });
}

/* Writes 16 rows, staged by this warp in the first PAGES pages of a tile, to global memory in chunks of 16 bytes; rows
 * from valid_rows on, and chunks from row_chunks on, are left out. */
template <class Tile, int PAGES = Tile::PAGES>
GLINT_DEVICE void store_rows(char *target, int64_t row_bytes, int32_t valid_rows, uint32_t tile, const uint32_t first_row,
                             const uint32_t row_chunks)
{
    store_rows(target, row_bytes, valid_rows, tile, first_row, Tile::ROWS, row_chunks, PAGES, Tile::PAGE_CHUNKS);
}

/* Accumulators of this warp, times a factor, to the rows of a head of a tensor from first_row on, and to its columns
 * from part * Part::DIM on:
 * through the warp's own rows of a tile, from out_tile (its own place for a row from out_lane) on. Rows from `end` on
 * are left out. */
template <class Tile, class Part, int ROWS, int COLUMNS>
GLINT_DEVICE void write_rows(const struct glint_gpu_view &view, int32_t batch, int32_t head, int32_t first_row, int32_t end,
                             uint32_t part, const float (&d)[ROWS][COLUMNS][4], const float factor, uint32_t out_tile,
                             uint32_t out_lane)
{
    typedef typename Tile::element element;

#pragma unroll
    for (int rt = 0; rt < ROWS; ++rt) {
        stage_rows<Tile>(out_lane, d[rt], factor, rt * 16);
        warp_sync();
        store_rows<Part>(view_row(&view, batch, head, first_row + rt * 16, element::BYTES) + part * (Part::DIM * element::BYTES),
                         view.row * element::BYTES, end - first_row - rt * 16, out_tile, rt * 16,
                         Tile::ROW_CHUNKS - part * Part::CHUNKS);
    }
}

#endif
