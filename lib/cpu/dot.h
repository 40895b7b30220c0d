/* The products of tiles.h without tile registers: by vdpbf16ps of AVX-512 BF16, which adds two products of bf16 to each
 * of 16 float32 sums. A word of A, two terms, is broadcast to all lanes, and a row of B is the other factor; 8 rows by
 * 2 vectors of sums hide its latency of 6 clocks. (With the broadcast as an operand in memory, twice, it is no faster:
 * bench/floors/dot_rates.c.) Included by emitted kernels only, after they define HEAD_DIM.
 *
 * An element of a product is one chain of fused multiply-adds to nearest even: of each word in order the odd term, then
 * the even one. Denormals that go in or come out are zero, whatever MXCSR says. So terms that are zero change nothing,
 * and the bits do not depend on how many fill up a tile. */
#ifndef GLINT_CPU_DOT_H
#define GLINT_CPU_DOT_H

/* Of a block of keys: glint_tile_softmax. LSE is the score that P is relative to plus the logarithm of the sum. Each is
 * rounded, so a sum of 2^16 would leave LSE twice as far off; one of 64 keys is seldom above 2^8. */
#define GLINT_MOST_WEIGHT 0x1p8f
#include "lib/cpu/tiles.h"

enum { GLINT_DOT_ROWS = 8 };

#if !defined(GLINT_DOT) /* tests/dot has it in C */
#define GLINT_DOT(sum, a, b) __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b))
#endif

/* sum += A B of a tile's 32 terms: rows of A lie a_row halves apart, and B is two tiles, b_tile halves apart. */
GLINT_INLINE void glint_dot(glint_vec sum[GLINT_DOT_ROWS][2], const uint16_t *a, ptrdiff_t a_row, const uint16_t *b,
                            ptrdiff_t b_tile)
{
    for (int word = 0; word < 16; word++, a += 2, b += 32) {
        glint_words b0, b1;
        memcpy(&b0, b, sizeof b0);
        memcpy(&b1, b + b_tile, sizeof b1);
        GLINT_UNROLL
        for (int r = 0; r < GLINT_DOT_ROWS; r++) {
            uint32_t pair;
            memcpy(&pair, a + r * a_row, sizeof pair);
            const glint_words x = pair - (glint_words){0};
            GLINT_DOT(sum[r][0], x, b0);
            GLINT_DOT(sum[r][1], x, b1);
        }
    }
}

GLINT_INLINE void glint_dot_begin(glint_vec sum[GLINT_DOT_ROWS][2], const float *c, ptrdiff_t c_tile, bool add)
{
    GLINT_UNROLL
    for (int r = 0; r < GLINT_DOT_ROWS; r++) {
        sum[r][0] = add ? glint_load(c + 16 * r) : glint_splat(0.0f);
        sum[r][1] = add ? glint_load(c + c_tile + 16 * r) : glint_splat(0.0f);
    }
}

GLINT_INLINE void glint_dot_end(float *c, ptrdiff_t c_tile, glint_vec sum[GLINT_DOT_ROWS][2])
{
    GLINT_UNROLL
    for (int r = 0; r < GLINT_DOT_ROWS; r++) {
        glint_store(c + 16 * r, sum[r][0]);
        glint_store(c + c_tile + 16 * r, sum[r][1]);
    }
}

/* s [key tiles][2][16][16] = K Q^T for `tiles` tiles of keys and the two tiles of queries of a panel. Rows of K are
 * `row` halves apart, its tiles k_step and k_tile. */
GLINT_INLINE void glint_dot_scores(float *s, const uint16_t *k, ptrdiff_t row, ptrdiff_t k_step, ptrdiff_t k_tile,
                                   const uint16_t *q, int64_t tiles)
{
    for (int64_t t = 0; t < tiles; t++, k += k_tile, s += 2 * GLINT_TILE_FLOATS)
        for (int r = 0; r < 16; r += GLINT_DOT_ROWS) {
            glint_vec sum[GLINT_DOT_ROWS][2];
            glint_dot_begin(sum, s, 0, false);
            for (int step = 0; step < GLINT_DIM_STEPS; step++)
                glint_dot(sum, k + r * row + step * k_step, row, q + step * GLINT_TILE_HALVES, GLINT_DIM_STEPS * GLINT_TILE_HALVES);
            glint_dot_end(s + 16 * r, GLINT_TILE_FLOATS, sum);
        }
}

/* Of K in tiles as they are. */
GLINT_OUTLINE void glint_tile_scores(float *s, const uint16_t *k, const uint16_t *q, int64_t tiles)
{
    glint_dot_scores(s, k, 32, GLINT_TILE_HALVES, GLINT_DIM_STEPS * GLINT_TILE_HALVES, q, tiles);
}

/* Of rows of a tensor, where they are: all of them are there, and head_dim is whole steps. */
GLINT_OUTLINE void glint_tile_scores_of_rows(float *s, const uint16_t *k, ptrdiff_t stride, const uint16_t *q, int64_t tiles)
{
    glint_dot_scores(s, k, stride, 32, 16 * stride, q, tiles);
}

/* c [2][GLINT_DIM_TILES][16][16] (+)= A B for `steps` steps of 32 terms: A [steps][GLINT_DIM_TILES] is a matrix
 * transposed, and B has a tile for each of the two tiles of queries, b_step and b_tile halves apart. */
GLINT_OUTLINE void glint_tile_transposed_product(float *c, const uint16_t *a, const uint16_t *b, ptrdiff_t b_step, ptrdiff_t b_tile,
                                                 int64_t steps, bool add)
{
    for (int r = 0; r < 16 * GLINT_DIM_TILES; r += GLINT_DOT_ROWS) {
        glint_vec sum[GLINT_DOT_ROWS][2];
        glint_dot_begin(sum, c + 16 * r, GLINT_DIM_TILES * GLINT_TILE_FLOATS, add);
        for (int64_t step = 0; step < steps; step++)
            glint_dot(sum, a + (step * GLINT_DIM_TILES * 16 + r) * 32, 32, b + step * b_step, b_tile);
        glint_dot_end(c + 16 * r, GLINT_DIM_TILES * GLINT_TILE_FLOATS, sum);
    }
}

/* c [2][GLINT_DIM_TILES][16][16] += A B for `steps` steps of 32 queries: A has a tile for each of two tiles of keys,
 * a_tile halves apart, and its steps lie in a row; B [steps][GLINT_DIM_TILES] is in pairs. */
GLINT_OUTLINE void glint_tile_product(float *c, const uint16_t *a, ptrdiff_t a_tile, const uint16_t *b, int64_t steps)
{
    for (int half = 0; half < 2; half++, a += a_tile, c += GLINT_DIM_TILES * GLINT_TILE_FLOATS)
        for (int tile = 0; tile < GLINT_DIM_TILES; tile += 2)
            for (int r = 0; r < 16; r += GLINT_DOT_ROWS) {
                float *to = c + tile * GLINT_TILE_FLOATS + 16 * r;
                glint_vec sum[GLINT_DOT_ROWS][2];
                glint_dot_begin(sum, to, GLINT_TILE_FLOATS, true);
                for (int64_t step = 0; step < steps; step++)
                    glint_dot(sum, a + step * GLINT_TILE_HALVES + r * 32, 32,
                              b + (step * GLINT_DIM_TILES + tile) * GLINT_TILE_HALVES, GLINT_TILE_HALVES);
                glint_dot_end(to, GLINT_TILE_FLOATS, sum);
            }
}

#endif
