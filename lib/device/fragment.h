/* Products of fragments, between tiles in shared memory and the accumulators of a warp:
 *
 *     float d[ROWS][COLUMNS][4]     [fragment of 16 rows][fragment of 8 columns][register of mma's d]
 *
 * Registers 0, 1 belong to row lane / 4 of the fragment, to columns 2 (lane % 4) and the next, registers 2, 3 to row
 * lane / 4 + 8: `side` tells them apart. */
#ifndef GLINT_DEVICE_FRAGMENT_H
#define GLINT_DEVICE_FRAGMENT_H

#include "lib/device/special.h"
#include "lib/device/tile.h"

template <int ROWS, int COLUMNS> GLINT_DEVICE void set_zero(float (&d)[ROWS][COLUMNS][4])
{
#pragma unroll
    for (int rt = 0; rt < ROWS; ++rt)
#pragma unroll
        for (int ct = 0; ct < COLUMNS; ++ct)
            d[rt][ct][0] = d[rt][ct][1] = d[rt][ct][2] = d[rt][ct][3] = 0.0f;
}

/* ---- operand A from a tile --------------------------------------------------------------------------------------- */

/* ROWS fragments of 16 rows of a tile: of the first KEPT steps along its columns, in registers. */
template <int ROWS, int KEPT> struct kept_rows {
    uint32_t step[KEPT][ROWS][4];
};

template <int ROWS> struct kept_rows<ROWS, 0> {
};

/* Takes them; the tile must be complete. lane: operand A's. */
template <class Tile, int ROWS, int KEPT> GLINT_DEVICE void keep_rows(struct kept_rows<ROWS, KEPT> &kept, uint32_t lane)
{
#pragma unroll
    for (int kk = 0; kk < KEPT; ++kk)
#pragma unroll
        for (int rt = 0; rt < ROWS; ++rt)
            ldmatrix_x4(kept.step[kk][rt], tile_move<Tile>(lane, rt * 16, kk * 2));
}

/* Fragment rt of step kk. */
template <class Tile, int ROWS, int KEPT>
GLINT_DEVICE void take_rows(uint32_t a[4], const struct kept_rows<ROWS, KEPT> &kept, uint32_t lane, const int kk, const int rt)
{
    if constexpr (KEPT > 0) {
        if (kk < KEPT) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                a[i] = kept.step[kk][rt][i];
            return;
        }
    }
    ldmatrix_x4(a, tile_move<Tile>(lane, rt * 16, kk * 2));
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* d = x y^T over all columns of two tiles, from x_lane (operand A, rounded already, the first steps in x_kept) and
 * y_lane (operand B) on. between() is called once: after the second step's fragments were asked for, so that the first
 * products do not wait behind what it begins. */
template <class X, class Y, int ROWS, int COLUMNS, int KEPT, class between_t>
GLINT_DEVICE void multiply_rows(float (&d)[ROWS][COLUMNS][4], const struct kept_rows<ROWS, KEPT> &x_kept, uint32_t x_lane,
                                uint32_t y_lane, between_t between)
{
    typedef typename X::element element;
    const int STEPS = X::DIM / element::K_STEP;

    set_zero(d);
#pragma unroll
    for (int kk = 0; kk < STEPS; ++kk) {
        uint32_t x[ROWS][4];

#pragma unroll
        for (int rt = 0; rt < ROWS; ++rt)
            take_rows<X>(x[rt], x_kept, x_lane, kk, rt);
#pragma unroll
        for (int ct = 0; ct < COLUMNS; ct += 2) {
            uint32_t y[4];

            ldmatrix_x4(y, tile_move<Y>(y_lane, ct * 8, kk * 2));
            if (kk == (STEPS > 1) && ct + 2 >= COLUMNS)
                between();
            element::round(y);
#pragma unroll
            for (int rt = 0; rt < ROWS; ++rt) {
                element::mma(d[rt][ct], x[rt], y[0], y[1]);
                element::mma(d[rt][ct + 1], x[rt], y[2], y[3]);
            }
        }
    }
}

template <class X, class Y, int ROWS, int COLUMNS, int KEPT>
GLINT_DEVICE void multiply_rows(float (&d)[ROWS][COLUMNS][4], const struct kept_rows<ROWS, KEPT> &x_kept, uint32_t x_lane,
                                uint32_t y_lane)
{
    multiply_rows<X, Y>(d, x_kept, x_lane, y_lane, [] {});
}

/* Which part of a tile a product takes. */
enum numbers { ALL_NUMBERS, FINITE_NUMBERS };

/* d += a z for K_STEP rows of tile z, from row kk * K_STEP on. */
template <class Z, int ROWS, int COLUMNS>
GLINT_DEVICE void multiply_step(float (&d)[ROWS][COLUMNS][4], const uint32_t (&a)[ROWS][4], uint32_t z_lane, const int kk,
                                const enum rounding rounding = UNROUNDED, const enum numbers numbers = ALL_NUMBERS)
{
    typedef typename Z::element element;

#pragma unroll
    for (int ct = 0; ct < COLUMNS; ct += 2) {
        uint32_t z[4];

        load_rows<Z>(z, z_lane, kk * element::K_STEP, ct * element::FRAGMENT_CHUNKS);
#pragma unroll
        for (int i = 0; i < 4; ++i)
            z[i] = numbers == FINITE_NUMBERS ? finite_part(z[i], element::EXPONENT, element::BYTES) : z[i];
        if (rounding == UNROUNDED)
            element::round(z);
#pragma unroll
        for (int rt = 0; rt < ROWS; ++rt) {
            element::mma(d[rt][ct], a[rt], z[0], z[1]);
            element::mma(d[rt][ct + 1], a[rt], z[2], z[3]);
        }
    }
}

/* ---- accumulators as operand A of the next product, which contracts their columns -------------------------------- */

/* Step kk of them. */
template <class Element, int ROWS, int COLUMNS>
GLINT_DEVICE void to_operand(uint32_t (&a)[ROWS][4], const float (&s)[ROWS][COLUMNS][4], const int kk,
                             const enum rounding rounding = UNROUNDED)
{
#pragma unroll
    for (int rt = 0; rt < ROWS; ++rt)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if constexpr (Element::BYTES == 4) {
                const float x = s[rt][kk][2 * (i & 1) + (i >> 1)];

                a[rt][i] = rounding == ROUNDED ? bits_of(x) : Element::rounded(x);
            } else
                a[rt][i] = Element::pack(s[rt][2 * kk + (i >> 1)][2 * (i & 1)], s[rt][2 * kk + (i >> 1)][2 * (i & 1) + 1]);
        }
}

/* All steps of scores that are rounded. */
template <class Element, int STEPS, int ROWS, int COLUMNS>
GLINT_DEVICE void to_operands(uint32_t (&a)[STEPS][ROWS][4], const float (&s)[ROWS][COLUMNS][4])
{
#pragma unroll
    for (int kk = 0; kk < STEPS; ++kk)
        to_operand<Element>(a[kk], s, kk, ROUNDED);
}

/* Rounds all of them, in place: for those that are operands of more than one product. */
template <class Element, int ROWS, int COLUMNS> GLINT_DEVICE void round_scores(float (&s)[ROWS][COLUMNS][4])
{
#pragma unroll
    for (int rt = 0; rt < ROWS; ++rt)
#pragma unroll
        for (int ct = 0; ct < COLUMNS; ++ct)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                s[rt][ct][i] = float_of(Element::rounded(s[rt][ct][i]));
}

#endif
