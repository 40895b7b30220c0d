/* Steps of the backward pass: transposed scores (keys by queries) between the warps of a block, products with them, and sums of several
 * blocks in memory. */
#ifndef GLINT_DEVICE_GRADIENTS_H
#define GLINT_DEVICE_GRADIENTS_H

#include "lib/device/fragment.h"

/* ---- scores in shared memory: P^T and dS^T, keys by the queries of a step, in a tile of one page -------------------------------------- */

/* Numbers of 32 bits have their chunks permuted in another way: by twos, so that neither fragments, which are stored 8 bytes a lane by four
 * neighbouring rows at a time, nor load_scores, by four even or four odd rows, have two lanes at one bank. */
GLINT_DEVICE uint32_t scores_offset(uint32_t row, uint32_t chunk, const uint32_t page_chunks)
{
    return page_chunks == 8 ? row * 128 + ((chunk ^ (row & 6) ^ (row & 1) << 2) << 4) : tile_offset(row, chunk, 0, page_chunks);
}

/* Where a lane's first accumulators lie. */
template <class S> GLINT_DEVICE uint32_t lane_offset_put(uint32_t lane)
{
    if constexpr (S::element::BYTES == 4)
        return scores_offset(lane >> 2, lane >> 1 & 1, S::PAGE_CHUNKS) + (lane & 1) * 8;
    else
        return lane_offset_pairs(lane & 31, S::ROWS, S::PAGE_CHUNKS);
}

template <class S, int ROWS, int COLUMNS> GLINT_DEVICE void put_scores(const float (&s)[ROWS][COLUMNS][4], uint32_t lane_address)
{
#pragma unroll
    for (int mt = 0; mt < COLUMNS; ++mt)
#pragma unroll
        for (int kt = 0; kt < ROWS; ++kt)
#pragma unroll
            for (int side = 0; side < 2; ++side)
                st_shared_pair<typename S::element>(
                    tile_move<S>(lane_address, kt * 16 + 8 * side, mt * S::element::FRAGMENT_CHUNKS), s[kt][mt][2 * side],
                    s[kt][mt][2 * side + 1]);
}

/* s times what put_scores left there. Of 16 bits all are loaded first: they wait for nothing. */
template <class S, int ROWS, int COLUMNS> GLINT_DEVICE void times_scores(float (&s)[ROWS][COLUMNS][4], uint32_t lane_address)
{
    typedef typename S::element element;

    if constexpr (element::BYTES == 4) {
#pragma unroll
        for (int mt = 0; mt < COLUMNS; ++mt)
#pragma unroll
            for (int kt = 0; kt < ROWS; ++kt)
#pragma unroll
                for (int side = 0; side < 2; ++side) {
                    float p[2];

                    ld_shared_f32x2(p, tile_move<S>(lane_address, kt * 16 + 8 * side, mt * element::FRAGMENT_CHUNKS));
                    s[kt][mt][2 * side] *= p[0];
                    s[kt][mt][2 * side + 1] *= p[1];
                }
    } else {
        uint32_t p[COLUMNS][ROWS][2];

#pragma unroll
        for (int mt = 0; mt < COLUMNS; ++mt)
#pragma unroll
            for (int kt = 0; kt < ROWS; ++kt)
#pragma unroll
                for (int side = 0; side < 2; ++side)
                    p[mt][kt][side] = ld_shared_u32(tile_move<S>(lane_address, kt * 16 + 8 * side, mt));
#pragma unroll
        for (int mt = 0; mt < COLUMNS; ++mt)
#pragma unroll
            for (int kt = 0; kt < ROWS; ++kt)
#pragma unroll
                for (int side = 0; side < 2; ++side) {
                    s[kt][mt][2 * side] *= element::low(p[mt][kt][side]);
                    s[kt][mt][2 * side + 1] *= element::high(p[mt][kt][side]);
                }
    }
}

/* Scores as operand A of dQ = dS K: the keys are the contraction. For 32 bits, 8 rows of the tile are the 8 k, as in load_rows, and row
 * g + 8 side of the operand is query 2g + side, so that numbers of two rows are neighbours; for 16 bits it is query g + 8 side. */
template <class S> GLINT_DEVICE uint32_t lane_offset_queries(uint32_t lane, uint32_t first_query)
{
    if constexpr (S::element::BYTES == 4)
        return scores_offset(2 * (lane & 3), first_query / 4 + (lane >> 3), S::PAGE_CHUNKS) + (lane >> 2 & 1) * 8;
    else
        return tile_offset<S>((lane & 7) + (lane >> 4 << 3), first_query / 8 + (lane >> 3 & 1));
}

template <class S> GLINT_DEVICE void load_queries(uint32_t a[4], uint32_t lane_address, const int kk, const int rt)
{
    if constexpr (S::element::BYTES == 4) {
        float even[2], odd[2];

        ld_shared_f32x2(even, tile_move(lane_address, kk * 8, rt * 4, 0, S::PAGE_CHUNKS));
        ld_shared_f32x2(odd, tile_move(lane_address ^ (S::PAGE_CHUNKS == 8 ? 64 : 0), kk * 8 + 1, rt * 4, 0, S::PAGE_CHUNKS));
        a[0] = bits_of(even[0]), a[1] = bits_of(even[1]), a[2] = bits_of(odd[0]), a[3] = bits_of(odd[1]);
    } else
        ldmatrix_x4_trans(a, tile_move<S>(lane_address, kk * 16, rt * 2));
}

/* The query of such an operand's row, counted from its first one. */
template <class Element> GLINT_DEVICE int32_t query_of_row(int32_t row)
{
    return Element::BYTES == 4 ? row / 16 * 16 + row % 8 * 2 + row / 8 % 2 : row;
}

/* ---- products ------------------------------------------------------------------------------------------------------------------ */

/* d += s z over all columns of s, which are rounded. */
template <class Z, int ROWS, int COLUMNS, int SUMMED>
GLINT_DEVICE void add_products(float (&d)[ROWS][COLUMNS][4], const float (&s)[ROWS][SUMMED][4], uint32_t z_lane)
{
    typedef typename Z::element element;
    const int STEPS = SUMMED * 8 / (int)element::K_STEP;
    uint32_t a[STEPS][ROWS][4];

#pragma unroll
    for (int kk = 0; kk < STEPS; ++kk)
        to_operand<element>(a[kk], s, kk, ROUNDED);
#pragma unroll
    for (int kk = 0; kk < STEPS; ++kk)
        multiply_step<Z>(d, a[kk], z_lane, kk);
}

/* d += s z, s from a tile where two warps have put it. */
template <class S, class Z, int ROWS, int COLUMNS>
GLINT_DEVICE void add_products_of(float (&d)[ROWS][COLUMNS][4], uint32_t s_lane, uint32_t z_lane)
{
#pragma unroll
    for (int kk = 0; kk < (int)S::DIM / (int)S::element::K_STEP; ++kk) {
        uint32_t a[ROWS][4];

#pragma unroll
        for (int kt = 0; kt < ROWS; ++kt)
            ldmatrix_x4(a[kt], tile_move<S>(s_lane, kt * 16, kk * 2));
        multiply_step<Z>(d, a, z_lane, kk);
    }
}

/* ---- NaN and infinity -------------------------------------------------------------------------------------------------------- */

/* Whether LSE or delta of four queries say that their Q or dO holds any. LSE = +inf is a query that sees nothing. */
GLINT_DEVICE bool are_special(uint32_t lse, uint32_t delta)
{
    uint32_t l[4], d[4];
    bool found = false;

    ld_shared_u32x4(l, lse);
    ld_shared_u32x4(d, delta);
#pragma unroll
    for (int i = 0; i < 4; ++i)
        found |= (l[i] & 0x7fffffffu) > 0x7f800000u || (d[i] & 0x7f800000u) == 0x7f800000u;
    return found;
}

/* ---- sums of several blocks, in turn: each thread's accumulators in the order of slot_of_four ------------------------------------------ */

/* The first block stores, others add. */
template <int THREADS, int ROWS, int COLUMNS>
GLINT_DEVICE void add_to_memory(float *sum, const float (&d)[ROWS][COLUMNS][4], bool first)
{
    if (first) {
#pragma unroll
        for (int i = 0; i < ROWS * COLUMNS; ++i)
            st_four(sum + i * (4 * THREADS), d[i / COLUMNS][i % COLUMNS], THREADS);
    } else {
#pragma unroll
        for (int i = 0; i < ROWS * COLUMNS; ++i)
            red_four(sum + i * (4 * THREADS), d[i / COLUMNS][i % COLUMNS], THREADS);
    }
}

/* What the others left of AT_ONCE fragments from `start` on, for the last one. Their loads are under way together: one after another, they
 * were the longest part of a step. */
template <int THREADS, int AT_ONCE, int ROWS, int COLUMNS>
GLINT_DEVICE void add_from_memory(float (&d)[ROWS][COLUMNS][4], const float *sum, const int start)
{
    float before[AT_ONCE][4];

#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i)
        if (start + i < ROWS * COLUMNS)
            ld_four(before[i], sum + (start + i) * (4 * THREADS), THREADS);
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i)
        if (start + i < ROWS * COLUMNS)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                d[(start + i) / COLUMNS][(start + i) % COLUMNS][e] += before[i][e];
}

/* Two neighbours of a row to global memory. */
template <class Element> GLINT_DEVICE void st_global_pair(void *global, float x, float y)
{
    if constexpr (Element::BYTES == 4)
        st_global_f32x2(global, x, y);
    else
        st_global_u32(global, Element::pack(x, y));
}

/* dQ, made of operands of load_queries: the query of a lane's first row, counted from the first one. */
template <class Element> GLINT_DEVICE uint32_t query_of_lane(uint32_t lane)
{
    return Element::BYTES == 4 ? (lane >> 2) * 2 : lane >> 2;
}

/* The last block's part: adds what the others left in `sum`, if there are others, and writes rows of dQ from this lane's first row, row0, and
 * column `column` on, times `factor`. */
template <class Tile, int THREADS, int AT_ONCE, int ROWS, int COLUMNS>
GLINT_DEVICE void finish_queries(float (&dq)[ROWS][COLUMNS][4], const float *sum, bool others, const struct glint_gpu_view &view,
                                 int32_t batch, int32_t head, int32_t row0, int32_t end, uint32_t column, uint32_t lane,
                                 float factor)
{
    typedef typename Tile::element element;
    const int BYTES = element::BYTES, SIDE = BYTES == 4 ? 1 : 8; /* rows from one side of a fragment to the other */
    char *rows = view_row(&view, batch, head, row0, BYTES);

#pragma unroll
    for (int start = 0; start < ROWS * COLUMNS; start += AT_ONCE) {
        if (others)
            add_from_memory<THREADS, AT_ONCE>(dq, sum, start);
#pragma unroll
        for (int i = start; i < start + AT_ONCE && i < ROWS * COLUMNS; ++i) {
            const int rt = i / COLUMNS, dt = i % COLUMNS;
#pragma unroll
            for (int side = 0; side < 2; ++side)
                if (row0 + rt * 16 + side * SIDE < end && (Tile::DIM == Tile::COLUMNS || column + dt * 8 < Tile::COLUMNS))
                    st_global_pair<element>(rows + (rt * 16 + side * SIDE) * view.row * BYTES +
                                                (column + dt * 8 + (lane & 3) * 2) * BYTES,
                                            dq[rt][dt][2 * side] * factor, dq[rt][dt][2 * side + 1] * factor);
        }
    }
}

#endif
