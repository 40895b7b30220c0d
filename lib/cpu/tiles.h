/* What the kernels for products of bf16 share: tiles, how matrices are packed into them, the softmax, and the
 * exponential. The products are those of AMX's tile registers (amx.h) or of vdpbf16ps (dot.h), whose files define the
 * same functions. Included by emitted kernels only, through one of those, and after they define HEAD_DIM. Element type:
 * bf16, sums in float32.
 *
 * A tile is 16 rows of 64 bytes, one KiB that lies in one piece, row after row. The one product is C [16][16] += A
 * [16][32] B [32][16], where C is float32 and A and B are bf16. A row of A is 32 numbers of it; a row of B is a pair of
 * its rows, [column][2]. So of a matrix X [rows][numbers]
 *
 *   as it is        A of X, 16 rows by 32 numbers                          K and V of S^T = K Q^T and dP^T = V dO^T
 *   across          B of X^T: words of two numbers, transposed             Q and dO of the same
 *   in pairs        B of X: rows 2 i and 2 i + 1, number by number         Q and dO of dV += P^T dO and dK += dS^T Q
 *   transposed      A of X^T: words of two rows, transposed; a tile of     V of O^T += V^T P^T, K of dQ^T += K^T dS^T
 *                   the even numbers of a step, then one of the odd ones
 *
 * Scores are made as S^T, whose vectors lie along the queries: then the softmax moves nothing between lanes, and P^T
 * goes straight into the next product, as B in pairs of keys (forward and dQ) or as A (dV and dK). Rows and numbers
 * beyond the matrix are zero in a tile. */
#ifndef GLINT_CPU_TILES_H
#define GLINT_CPU_TILES_H

#include <stdbool.h>

#include "lib/cpu/rows.h"
#include "lib/cpu/softmax.h"

enum {
    GLINT_TILE_ROWS = 16,
    GLINT_TILE_FLOATS = 256,                /* of a tile of C */
    GLINT_TILE_HALVES = 512,                /* of a tile of A or B */
    GLINT_DIM_STEPS = (HEAD_DIM + 31) / 32, /* tiles along head_dim where it is summed over */
    GLINT_DIM_TILES = 2 * GLINT_DIM_STEPS,  /* tiles along head_dim of a result; the last may be all padding */
    GLINT_DIM_REST = HEAD_DIM % 32,         /* numbers in the last step, 0: 32 */
    GLINT_PANEL = 32,                       /* queries that are worked on together: two tiles */
    GLINT_NEAR = 1 << 20,                   /* more than the keys and queries of a tile */
};

/* ---- packing ---------------------------------------------------------------------------------------------------------------------- */

typedef uint32_t glint_words __attribute__((vector_size(64))); /* pairs of bf16, the first in the low half */
typedef uint16_t glint_halves __attribute__((vector_size(64)));

#if defined(__clang__)
#define GLINT_SHUFFLE_WORDS(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#define GLINT_SHUFFLE_HALVES(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define GLINT_SHUFFLE_WORDS(x, y, ...) __builtin_shuffle(x, y, (glint_words){__VA_ARGS__})
#define GLINT_SHUFFLE_HALVES(x, y, ...) __builtin_shuffle(x, y, (glint_halves){__VA_ARGS__})
#endif

/* Rows of a tensor, and what is done to their numbers on the way: sign is xored; with `clean` infinities and NaN become
 * zero. */
struct glint_rows {
    const glint_element *row;
    int64_t stride, rows;
    uint32_t sign;
    bool clean;
};

/* All ones where a half is infinite or NaN. */
GLINT_INLINE glint_halves glint_special_halves(glint_halves h)
{
    return (glint_halves)((h & 0x7f80) == 0x7f80);
}

/* Numbers 32 step ... 32 step + 31 of row r; nothing past the row's end is read. With `whole` the row is there. */
GLINT_INLINE glint_words glint_load_words(const bool whole, const struct glint_rows *x, int64_t r, int step)
{
    glint_halves h = {0};
    if (whole || r < x->rows) {
        const glint_element *from = x->row + r * x->stride + step * 32;
        if (GLINT_DIM_REST == 0 || step < GLINT_DIM_STEPS - 1)
            memcpy(&h, from, sizeof h);
        else
            memcpy(&h, from, GLINT_DIM_REST * sizeof *from);
    }
    if (x->clean)
        h &= ~glint_special_halves(h);
    return (glint_words)h ^ x->sign;
}

/* The larger of each half. */
GLINT_INLINE void glint_grow(glint_halves *largest, glint_halves x)
{
    __asm__("vpmaxuw %1, %0, %0" : "+v"(*largest) : "v"(x));
}

/* 16 x 16 words: rows become columns. */
GLINT_INLINE void glint_transpose_words(glint_words x[16])
{
    glint_words y[16];
    GLINT_UNROLL
    for (int i = 0; i < 16; i += 2) {
        y[i] = GLINT_SHUFFLE_WORDS(x[i], x[i + 1], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
        y[i + 1] = GLINT_SHUFFLE_WORDS(x[i], x[i + 1], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
    }
    GLINT_UNROLL
    for (int i = 0; i < 16; i += 4) {
        GLINT_UNROLL
        for (int j = 0; j < 2; j++) {
            x[i + 2 * j] = GLINT_SHUFFLE_WORDS(y[i + j], y[i + j + 2], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
            x[i + 2 * j + 1] =
                GLINT_SHUFFLE_WORDS(y[i + j], y[i + j + 2], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
        }
    }
    GLINT_UNROLL
    for (int i = 0; i < 4; i++) {
        y[i] = GLINT_SHUFFLE_WORDS(x[i], x[i + 4], 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
        y[i + 4] = GLINT_SHUFFLE_WORDS(x[i], x[i + 4], 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
        y[i + 8] = GLINT_SHUFFLE_WORDS(x[i + 8], x[i + 12], 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
        y[i + 12] = GLINT_SHUFFLE_WORDS(x[i + 8], x[i + 12], 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    }
    GLINT_UNROLL
    for (int i = 0; i < 8; i++) {
        x[i] = GLINT_SHUFFLE_WORDS(y[i], y[i + 8], 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
        x[i + 8] = GLINT_SHUFFLE_WORDS(y[i], y[i + 8], 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    }
}

GLINT_INLINE void glint_store_words(uint16_t *to, const glint_words x[16])
{
    GLINT_UNROLL
    for (int r = 0; r < 16; r++)
        memcpy(to + 32 * r, &x[r], sizeof x[r]);
}

/* Tiles as they are, of `rows` rows, a multiple of 16: [rows / 16][GLINT_DIM_STEPS]. */
GLINT_OUTLINE void glint_pack_rows(uint16_t *to, const struct glint_rows *rows_of, int64_t rows)
{
    const struct glint_rows x = *rows_of;
    for (int64_t first = 0; first < rows; first += 16, to += GLINT_DIM_STEPS * GLINT_TILE_HALVES) {
        const bool whole = first + 16 <= x.rows;
        for (int64_t r = 0; r < 16; r++) {
            GLINT_UNROLL
            for (int step = 0; step < GLINT_DIM_STEPS; step++) {
                const glint_words words =
                    whole ? glint_load_words(true, &x, first + r, step) : glint_load_words(false, &x, first + r, step);
                memcpy(to + step * GLINT_TILE_HALVES + r * 32, &words, sizeof words);
            }
        }
    }
}

/* Tiles across: [rows / 16][GLINT_DIM_STEPS]. */
GLINT_OUTLINE void glint_pack_across(uint16_t *to, const struct glint_rows *rows_of, int64_t rows)
{
    const struct glint_rows own = *rows_of, *x = &own;
    for (int64_t first = 0; first < rows; first += 16)
        for (int step = 0; step < GLINT_DIM_STEPS; step++, to += GLINT_TILE_HALVES) {
            glint_words words[16];
            if (first + 16 <= x->rows) {
                GLINT_UNROLL
                for (int r = 0; r < 16; r++)
                    words[r] = glint_load_words(true, x, first + r, step);
            } else {
                GLINT_UNROLL
                for (int r = 0; r < 16; r++)
                    words[r] = glint_load_words(false, x, first + r, step);
            }
            glint_transpose_words(words);
            glint_store_words(to, words);
        }
}

/* Two tiles of 32 rows from `first` on, in pairs: the numbers of a step in two halves. Each row of a tile is stored
 * when it is made, so that no tile is on the stack. */
GLINT_INLINE void glint_pair_rows(const bool whole, uint16_t *to, const struct glint_rows *x, int64_t first, int step)
{
    GLINT_UNROLL
    for (int i = 0; i < 16; i++) {
        const glint_halves a = (glint_halves)glint_load_words(whole, x, first + 2 * i, step);
        const glint_halves b = (glint_halves)glint_load_words(whole, x, first + 2 * i + 1, step);
        const glint_halves low = GLINT_SHUFFLE_HALVES(a, b, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39, 8, 40, 9, 41,
                                                      10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47);
        const glint_halves high = GLINT_SHUFFLE_HALVES(a, b, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55, 24, 56,
                                                       25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63);
        memcpy(to + 32 * i, &low, sizeof low);
        memcpy(to + GLINT_TILE_HALVES + 32 * i, &high, sizeof high);
    }
}

/* Two tiles of 32 rows from `first` on, with the numbers of even and of odd index told apart: by shifts, so that the
 * shuffles of a transposition go on beside them. With `look` *largest grows to twice the largest half, without its
 * sign. */
GLINT_INLINE void glint_split_rows(const bool whole, const bool look, glint_words even[16], glint_words odd[16],
                                   glint_halves *largest, const struct glint_rows *x, int64_t first, int step)
{
    GLINT_UNROLL
    for (int i = 0; i < 16; i++) {
        const glint_words a = glint_load_words(whole, x, first + 2 * i, step);
        const glint_words b = glint_load_words(whole, x, first + 2 * i + 1, step);
        if (look) {
            glint_grow(largest, (glint_halves)a + (glint_halves)a);
            glint_grow(largest, (glint_halves)b + (glint_halves)b);
        }
        even[i] = (a & 0xffff) | b << 16;
        odd[i] = a >> 16 | (b & 0xffff0000);
    }
}

/* Tiles transposed, of `rows` rows, a multiple of 32: [rows / 32][GLINT_DIM_TILES]; with `look` the answer says whether
 * any number is infinite or NaN. */
GLINT_INLINE bool glint_transpose_rows(const bool look, uint16_t *to, const struct glint_rows *rows_of, int64_t rows)
{
    const struct glint_rows own = *rows_of, *x = &own;
    glint_halves largest = {0};
    for (int64_t first = 0; first < rows; first += 32)
        for (int step = 0; step < GLINT_DIM_STEPS; step++, to += 2 * GLINT_TILE_HALVES) {
            glint_words even[16], odd[16];
            if (first + 32 <= x->rows)
                glint_split_rows(true, look, even, odd, &largest, x, first, step);
            else
                glint_split_rows(false, look, even, odd, &largest, x, first, step);
            glint_transpose_words(even);
            glint_store_words(to, even);
            glint_transpose_words(odd);
            glint_store_words(to + GLINT_TILE_HALVES, odd);
        }
    glint_grow(&largest, (glint_halves)((glint_words)largest << 16)); /* to the upper half of each word */
    return look && __builtin_ia32_cvtd2mask512((glint_veci)((glint_words)largest >= 0xff000000)) != 0;
}

GLINT_OUTLINE void glint_pack_transposed(uint16_t *to, const struct glint_rows *rows_of, int64_t rows)
{
    glint_transpose_rows(false, to, rows_of, rows);
}

/* Packs the rows as they are; the answer says whether any number is infinite or NaN. */
GLINT_OUTLINE bool glint_pack_and_look(uint16_t *to, const struct glint_rows *rows_of, int64_t rows)
{
    return glint_transpose_rows(true, to, rows_of, rows);
}

/* Packs the rows with zeros where a number is infinite or NaN; the answer says whether there is such a number. Two
 * calls beside each other, as the frame of either is large. */
GLINT_INLINE bool glint_pack_transposed_clean(uint16_t *to, struct glint_rows *rows_of, int64_t rows)
{
    rows_of->clean = glint_pack_and_look(to, rows_of, rows);
    if (rows_of->clean)
        glint_pack_transposed(to, rows_of, rows);
    return rows_of->clean;
}

/* Where number d of a row is among the rows of a product with tiles transposed. */
GLINT_INLINE int glint_transposed_row(int d)
{
    return d / 32 * 32 + d % 2 * 16 + d % 32 / 2;
}

/* Tiles in pairs, of `rows` rows, a multiple of 32: [rows / 32][GLINT_DIM_TILES]. */
GLINT_OUTLINE void glint_pack_pairs(uint16_t *to, const struct glint_rows *rows_of, int64_t rows)
{
    const struct glint_rows own = *rows_of, *x = &own;
    for (int64_t first = 0; first < rows; first += 32)
        for (int step = 0; step < GLINT_DIM_STEPS; step++, to += 2 * GLINT_TILE_HALVES) {
            if (first + 32 <= x->rows)
                glint_pair_rows(true, to, x, first, step);
            else
                glint_pair_rows(false, to, x, first, step);
        }
}

/* Is any number of the rows infinite or NaN? Zero times those is NaN, so the zeros of hidden pairs do not hide them.
 * One more in the last place of such an exponent is carried into the sign. */
GLINT_OUTLINE bool glint_any_special_half(const struct glint_rows *x)
{
    const struct glint_rows as_it_is = {x->row, x->stride, x->rows, 0, false};
    glint_halves any = {0};
    for (int64_t r = 0; r < as_it_is.rows; r++) {
        GLINT_UNROLL
        for (int step = 0; step < GLINT_DIM_STEPS; step++)
            any |= ((glint_halves)glint_load_words(true, &as_it_is, r, step) & 0x7fff) + 0x80;
    }
    const glint_words carried = (glint_words)any & 0x80008000;
    return __builtin_ia32_cvtd2mask512((glint_veci)(carried | carried << 16)) != 0;
}

GLINT_INLINE float glint_float_of(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- exponential and rounding ----------------------------------------------------------------------------------------------------- */

/* 2^y, NaN for NaN. With f = y - floor(y), 2^y = 2^floor(y) 2^f; 2^f by the polynomial of degree 5 with constant term 1
 * of least relative error (9.4e-8). P is rounded to bf16, for which degree 3 would do (7.5e-5, one clock in four less);
 * but the sum of P is LSE, which is float32. */
GLINT_INLINE glint_vec glint_exp2(glint_vec y)
{
    enum { MINUS_FLOOR = 1, AS_MXCSR_SAYS = 4 };
#if defined(__clang__)
    const glint_vec f = __builtin_ia32_reduceps512_mask(y, MINUS_FLOOR, y, 0xffff, AS_MXCSR_SAYS);
#else
    const glint_vec f = __builtin_ia32_reduceps512_mask(y, MINUS_FLOOR, y, 0xffff);
#endif
    glint_vec p = glint_horner(glint_splat(0x1.e974fap-10f), f, 0x1.277856p-7f);
    p = glint_horner(p, f, 0x1.c91ce6p-5f);
    p = glint_horner(p, f, 0x1.ebdb56p-3f);
    p = glint_horner(p, f, 0x1.62e4bap-1f);
    p = glint_horner(p, f, 1.0f);
#if defined(__clang__)
    return __builtin_ia32_scalefps512_mask(p, y, p, 0xffff, AS_MXCSR_SAYS);
#else
    return __builtin_ia32_scalefps512_mask(p, y, p, -1, AS_MXCSR_SAYS);
#endif
}

/* Two vectors rounded to bf16, one after the other; denormals become zero. */
GLINT_INLINE glint_halves glint_round_pair(glint_vec first, glint_vec second)
{
    glint_halves h;
#if defined(GLINT_ROUND_PAIR) /* tests/dot has it in C */
    GLINT_ROUND_PAIR(h, first, second);
#elif defined(__clang__) || __GNUC__ >= 13 /* whose built-in function has another name */
    __asm__("vcvtne2ps2bf16 %1, %2, %0" : "=v"(h) : "v"(first), "v"(second));
#else
    typedef int16_t rounded __attribute__((vector_size(64)));
    const rounded r = (rounded)__builtin_ia32_cvtne2ps2bf16_v32hi(second, first);
    memcpy(&h, &r, sizeof h);
#endif
    return h;
}

/* A row of a tile B in pairs: of two rows of C. */
GLINT_INLINE glint_words glint_pair_of(glint_vec first, glint_vec second)
{
    const glint_halves h = glint_round_pair(first, second);
    return (glint_words)GLINT_SHUFFLE_HALVES(h, h, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25, 10, 26, 11,
                                             27, 12, 28, 13, 29, 14, 30, 15, 31);
}

/* The reverse of glint_load_words: half of a step is not there where head_dim ends before. */
GLINT_INLINE void glint_store_step(glint_element *to, glint_words x, int step)
{
    if (GLINT_DIM_REST == 0 || step < GLINT_DIM_STEPS - 1)
        memcpy(to + step * 32, &x, sizeof x);
    else
        memcpy(to + step * 32, &x, GLINT_DIM_REST * sizeof *to);
}

/* Tiles of float32 [rows / 16][GLINT_DIM_TILES][16][16], times `scale`, to rows of a tensor. */
GLINT_OUTLINE void glint_unpack_rows(glint_element *to, int64_t stride, const float *from, int64_t rows, float scale)
{
    for (int64_t r = 0; r < rows; r++)
        for (int step = 0; step < GLINT_DIM_STEPS; step++) {
            const float *x = from + (r / 16 * GLINT_DIM_TILES + 2 * step) * GLINT_TILE_FLOATS + r % 16 * 16;
            const glint_halves h = glint_round_pair(glint_load(x) * scale, glint_load(x + GLINT_TILE_FLOATS) * scale);
            glint_store_step(to + r * stride, (glint_words)h, step);
        }
}

/* [dim][16] of float32, a product with tiles transposed, a column a row of a tensor, times `factor`; rows that are not
 * kept become zero. */
GLINT_INLINE void glint_unpack_kept(const bool all, glint_element *to, int64_t stride, const float *from, int64_t rows,
                                    glint_vec scale, glint_veci kept)
{
    for (int step = 0; step < GLINT_DIM_STEPS; step++, from += 2 * GLINT_TILE_FLOATS) {
        glint_words x[16];
        GLINT_UNROLL
        for (int i = 0; i < 16; i++) {
            const glint_veci a = (glint_veci)(glint_load(from + 16 * i) * scale);
            const glint_veci b = (glint_veci)(glint_load(from + GLINT_TILE_FLOATS + 16 * i) * scale);
            x[i] = all ? glint_pair_of((glint_vec)a, (glint_vec)b) : glint_pair_of((glint_vec)(a & kept), (glint_vec)(b & kept));
        }
        glint_transpose_words(x);
        if (rows >= 16) {
            GLINT_UNROLL
            for (int r = 0; r < 16; r++)
                glint_store_step(to + r * stride, x[r], step);
        } else {
            GLINT_UNROLL
            for (int r = 0; r < 16; r++)
                if (r < rows)
                    glint_store_step(to + r * stride, x[r], step);
        }
    }
}

GLINT_OUTLINE void glint_unpack_columns(glint_element *to, int64_t stride, const float *from, int64_t rows, const glint_vec *factor,
                                        const glint_veci *keep)
{
    if (__builtin_ia32_cvtd2mask512(~*keep) == 0)
        glint_unpack_kept(true, to, stride, from, rows, *factor, *keep);
    else
        glint_unpack_kept(false, to, stride, from, rows, *factor, *keep);
}

/* ---- forward ---------------------------------------------------------------------------------------------------------------------- */

/* Scores that the mask hides become -inf, of `keys` keys by the 16 queries of a tile: lane x sees key r iff x >= r +
 * shift and x <= r - lag. */
GLINT_INLINE void glint_tile_hide(float *s, int64_t from, int64_t to, int64_t shift, int64_t lag)
{
    const glint_veci lane = glint_lane_index();
    glint_veci first = glint_splati((int32_t)glint_clamp(from + shift, -GLINT_NEAR, GLINT_NEAR));
    glint_veci last = glint_splati((int32_t)glint_clamp(from - lag, -GLINT_NEAR, GLINT_NEAR));
    for (int64_t r = from; r < to; r++, first += 1, last += 1) {
        float *row = s + r / 16 * 2 * GLINT_TILE_FLOATS + r % 16 * 16;
        glint_store(row, glint_select((lane >= first) & (lane <= last), glint_load(row), glint_splat(-INFINITY)));
    }
}

/* A row of a tile B in pairs, of two rows of P, which is not negative: rounded to nearest by adding half of the last
 * place to the bits. A tie goes up, NaN stays NaN, and subnormals stay, which the products take for zero. This is half
 * the work of glint_pair_of. */
GLINT_INLINE glint_words glint_pair_of_weights(glint_vec first, glint_vec second)
{
    const glint_words upper = {0x0302, 0x0706, 0x0b0a, 0x0f0e, 0x0302, 0x0706, 0x0b0a, 0x0f0e, 0x0302,
                               0x0706, 0x0b0a, 0x0f0e, 0x0302, 0x0706, 0x0b0a, 0x0f0e}; /* bytes of the upper half of each word */
    const glint_words low = (glint_words)first + 0x8000;
    glint_words pair = (glint_words)second + 0x8000;
    __asm__("vpshufb %2, %1, %0%{%3%}" : "+v"(pair) : "v"(low), "v"(upper), "Yk"(UINT64_C(0x3333333333333333)));
    return pair;
}

/* P = 2^(scale (s - max)) of `keys` keys, a multiple of 32, and a tile of queries: s [keys / 16], every other tile,
 * becomes p [keys / 32] in pairs of keys, every other tile. The answer is the sum of P, not rounded. (scale s - scale
 * max in one fused instruction would save one of twelve, and is wrong where scale max is so large that its rounding is
 * a score's difference.) */
GLINT_INLINE glint_vec glint_tile_weights(uint16_t *p, const float *s, int64_t keys, glint_vec scale, glint_vec max)
{
    const glint_vec base = (glint_vec)((glint_veci)max & (max != -INFINITY)); /* -inf - -inf would be NaN */
    glint_vec total[2] = {glint_splat(0.0f), glint_splat(0.0f)};
    for (int64_t step = 0; step < keys / 32; step++, p += GLINT_TILE_HALVES)
        for (int half = 0; half < 2; half++, s += 2 * GLINT_TILE_FLOATS) {
            GLINT_UNROLL
            for (int i = 0; i < 8; i++, p += 32) {
                const glint_vec first = glint_exp2((glint_load(s + 32 * i) - base) * scale);
                const glint_vec second = glint_exp2((glint_load(s + 32 * i + 16) - base) * scale);
                total[0] += first;
                total[1] += second;
                const glint_words pair = glint_pair_of_weights(first, second);
                memcpy(p, &pair, sizeof pair);
            }
        }
    return total[0] + total[1];
}

/* Online softmax of a tile of queries over `keys` keys, as glint_tile_weights. P is relative to a score that was the
 * largest when it was taken, and is taken anew where P of these keys sums up to more than GLINT_MOST_WEIGHT: so O is
 * seldom multiplied, and the largest score is seldom looked for. The factor is 1 where it is not; the answer says
 * whether any is needed. What a query gets does not depend on its neighbours. A query that has seen no key yet keeps
 * max = -inf and sum = 0. */
GLINT_INLINE bool glint_tile_softmax(uint16_t *p, const float *s, int64_t keys, float log2_scale, float *max, float *sum,
                                     glint_vec *factor)
{
    const glint_vec old = glint_load(max), scale = glint_splat(log2_scale);
    const glint_veci seen = old != -INFINITY;
    glint_vec total = glint_splat(0.0f);
    if (__builtin_ia32_cvtd2mask512(seen) != 0)
        total = glint_tile_weights(p, s, keys, scale, old);
    const glint_veci stays = seen & (total <= GLINT_MOST_WEIGHT);
    const bool moves = (uint16_t)__builtin_ia32_cvtd2mask512(stays) != 0xffff;
    *factor = glint_splat(1.0f);
    if (moves) {
        glint_vec now = old;
        for (int64_t r = 0; r < keys; r++)
            now = glint_max(glint_load(s + r / 16 * 2 * GLINT_TILE_FLOATS + r % 16 * 16), now);
        now = glint_select(stays, old, now);
        *factor = glint_select(seen, glint_exp2((old - now) * scale), *factor);
        glint_store(max, now);
        total = glint_tile_weights(p, s, keys, scale, now);
    }
    glint_store(sum, glint_fma(glint_load(sum), *factor, total));
    return moves;
}

/* The largest of *largest and of the scores of a tile's first `queries` queries, times scale. P may be relative to a
 * score that is not the largest, so these are looked at by themselves. */
GLINT_INLINE void glint_tile_take_largest(float *largest, const float *s, int64_t keys, int64_t queries, float scale)
{
    float lanes[16];
    glint_vec most = glint_splat(-INFINITY);
    for (int64_t r = 0; r < keys; r++)
        most = glint_max(glint_load(s + r / 16 * 2 * GLINT_TILE_FLOATS + r % 16 * 16), most);
    glint_store(lanes, most);
    for (int64_t i = 0; i < 16 && i < queries; i++) {
        const float score = lanes[i] == -INFINITY ? lanes[i] : lanes[i] * scale; /* a scale of 0 would make NaN of it */
        glint_take_largest(largest, &score, 1);
    }
}

/* ---- backward --------------------------------------------------------------------------------------------------------------------- */

/* A panel's queries: LSE and delta of each, [32], and what they see of the keys of a tile. Query i sees key r iff i >=
 * r + shift, i <= r - lag, i < queries and r < keys. */
struct glint_tile_panel {
    const float *lse, *delta;
    int64_t shift, lag, queries, keys;
};

/* All ones in the lanes of a tile of 16 queries, from query `lane` of the panel on, that see key r. */
GLINT_INLINE glint_veci glint_tile_sees(const struct glint_tile_panel *x, int64_t r, int64_t lane)
{
    const glint_veci index = glint_lane_index();
    const int64_t first = (r < x->keys ? r + x->shift : lane + 16) - lane;
    const int64_t last = (r - x->lag < x->queries ? r - x->lag : x->queries - 1) - lane;
    return (index >= (int32_t)glint_clamp(first, 0, 16)) & (index <= (int32_t)glint_clamp(last, -1, 15));
}

#endif
