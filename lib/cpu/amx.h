/* The products of tiles.h by AMX. Included by emitted kernels only, after they define HEAD_DIM.
 *
 * An element of a product is, for each tile of 32 terms, the sum of the even terms and the sum of the odd ones, each by
 * fused multiply-adds in their order, both added to C: terms that are zero change nothing, so its bits do not depend on
 * how many of them fill up a tile. */
#ifndef GLINT_CPU_AMX_H
#define GLINT_CPU_AMX_H

#define GLINT_MOST_WEIGHT 0x1p16f /* of a block of keys: glint_tile_softmax */
#include "lib/cpu/tiles.h"

/* ---- the instructions ------------------------------------------------------------------------------------------------------------- */

/* What LDTILECFG reads and STTILECFG writes (Intel SDM, volume 1, 18.2). */
struct glint_tiles {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

#if !defined(GLINT_TILE_ZERO) /* tests/amx has them in C */
#define GLINT_TILES_SAVE(found) __asm__ volatile("sttilecfg %0" : "=m"(*(found)))
#define GLINT_TILES_CONFIGURE(wanted) __asm__ volatile("ldtilecfg %0" : : "m"(*(wanted)))
#define GLINT_TILES_RELEASE() __asm__ volatile("tilerelease")
#define GLINT_TILE_ZERO(t) __asm__ volatile("tilezero %%tmm" #t : :)
#define GLINT_TILE_LOAD(t, from) \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t : : "r"((const void *)(from)), "r"((ptrdiff_t)64) : "memory")
/* Rows `bytes` apart, with the hint that they will not be read again soon: what is, stays in the first-level cache. */
#define GLINT_TILE_LOAD_ROWS(t, from, bytes) \
    __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm" #t : : "r"((const void *)(from)), "r"((ptrdiff_t)(bytes)) : "memory")
#define GLINT_TILE_LOAD_ONCE(t, from) GLINT_TILE_LOAD_ROWS(t, from, 64)
#define GLINT_TILE_STORE(t, to) \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" : : "r"((void *)(to)), "r"((ptrdiff_t)64) : "memory")
#define GLINT_TILE_MULTIPLY_ADD(c, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c : :)
#endif

/* All eight tiles whole. What the thread had is kept, and is there again at the end; nothing, most often. */
GLINT_INLINE void glint_tiles_begin(struct glint_tiles *found)
{
    static const struct glint_tiles whole = {
        .palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    GLINT_TILES_SAVE(found);
    GLINT_TILES_CONFIGURE(&whole);
}

GLINT_INLINE void glint_tiles_end(const struct glint_tiles *found)
{
    if (found->palette == 0)
        GLINT_TILES_RELEASE();
    else
        GLINT_TILES_CONFIGURE(found);
}

/* ---- products --------------------------------------------------------------------------------------------------------------------- */

/* s [key tiles][2][16][16] = K Q^T for `tiles` tiles of keys, an even number, and the two tiles of queries of a panel.
 * Two sums alternate, so that those of one tile of keys are stored while the next is computed. Rows of K are `row`
 * halves apart, its tiles k_step and k_tile. */
GLINT_INLINE void glint_tile_scores_of(float *s, const uint16_t *k, ptrdiff_t row, ptrdiff_t k_step, ptrdiff_t k_tile,
                                       const uint16_t *q, int64_t tiles)
{
    const uint16_t *q1 = q + GLINT_DIM_STEPS * GLINT_TILE_HALVES;
    for (int64_t t = 0; t < tiles; t += 2, k += k_tile) {
        GLINT_TILE_ZERO(0);
        GLINT_TILE_ZERO(1);
        GLINT_UNROLL
        for (int step = 0; step < GLINT_DIM_STEPS; step++) {
            GLINT_TILE_LOAD_ROWS(4, k + step * k_step, 2 * row);
            GLINT_TILE_LOAD(6, q + step * GLINT_TILE_HALVES);
            GLINT_TILE_MULTIPLY_ADD(0, 4, 6);
            GLINT_TILE_LOAD(7, q1 + step * GLINT_TILE_HALVES);
            GLINT_TILE_MULTIPLY_ADD(1, 4, 7);
        }
        k += k_tile;
        GLINT_TILE_ZERO(2);
        GLINT_TILE_ZERO(3);
        GLINT_UNROLL
        for (int step = 0; step < GLINT_DIM_STEPS; step++) {
            GLINT_TILE_LOAD_ROWS(5, k + step * k_step, 2 * row);
            GLINT_TILE_LOAD(6, q + step * GLINT_TILE_HALVES);
            GLINT_TILE_MULTIPLY_ADD(2, 5, 6);
            GLINT_TILE_LOAD(7, q1 + step * GLINT_TILE_HALVES);
            GLINT_TILE_MULTIPLY_ADD(3, 5, 7);
            if (step == 0) {
                GLINT_TILE_STORE(0, s);
                GLINT_TILE_STORE(1, s + GLINT_TILE_FLOATS);
            }
        }
        GLINT_TILE_STORE(2, s + 2 * GLINT_TILE_FLOATS);
        GLINT_TILE_STORE(3, s + 3 * GLINT_TILE_FLOATS);
        s += 4 * GLINT_TILE_FLOATS;
    }
}

/* Of K in tiles as they are. */
GLINT_OUTLINE void glint_tile_scores(float *s, const uint16_t *k, const uint16_t *q, int64_t tiles)
{
    glint_tile_scores_of(s, k, 32, GLINT_TILE_HALVES, GLINT_DIM_STEPS * GLINT_TILE_HALVES, q, tiles);
}

/* Of rows of a tensor, where they are: all of them are there, and head_dim is whole steps. */
GLINT_OUTLINE void glint_tile_scores_of_rows(float *s, const uint16_t *k, ptrdiff_t stride, const uint16_t *q, int64_t tiles)
{
    glint_tile_scores_of(s, k, stride, 32, 16 * stride, q, tiles);
}

/* c [2][GLINT_DIM_TILES][16][16] (+)= A B for `steps` steps of 32 terms: A [steps][GLINT_DIM_TILES] is a matrix
 * transposed, and B has a tile for each of the two tiles of queries, b_step and b_tile halves apart. */
GLINT_OUTLINE void glint_tile_transposed_product(float *c, const uint16_t *a, const uint16_t *b, ptrdiff_t b_step, ptrdiff_t b_tile,
                                                 int64_t steps, bool add)
{
    float *c1 = c + GLINT_DIM_TILES * GLINT_TILE_FLOATS;
    for (int tile = 0; tile < GLINT_DIM_TILES; tile += 2, c += 2 * GLINT_TILE_FLOATS, c1 += 2 * GLINT_TILE_FLOATS) {
        const uint16_t *a0 = a + tile * GLINT_TILE_HALVES, *b0 = b;
        if (add) {
            GLINT_TILE_LOAD(0, c);
            GLINT_TILE_LOAD(1, c1);
            GLINT_TILE_LOAD(2, c + GLINT_TILE_FLOATS);
            GLINT_TILE_LOAD(3, c1 + GLINT_TILE_FLOATS);
        } else {
            GLINT_TILE_ZERO(0);
            GLINT_TILE_ZERO(1);
            GLINT_TILE_ZERO(2);
            GLINT_TILE_ZERO(3);
        }
        for (int64_t step = 0; step < steps; step++, a0 += GLINT_DIM_TILES * GLINT_TILE_HALVES, b0 += b_step) {
            GLINT_TILE_LOAD_ONCE(4, a0);
            GLINT_TILE_LOAD(6, b0);
            GLINT_TILE_MULTIPLY_ADD(0, 4, 6);
            GLINT_TILE_LOAD(7, b0 + b_tile);
            GLINT_TILE_MULTIPLY_ADD(1, 4, 7);
            GLINT_TILE_LOAD_ONCE(5, a0 + GLINT_TILE_HALVES);
            GLINT_TILE_MULTIPLY_ADD(2, 5, 6);
            GLINT_TILE_MULTIPLY_ADD(3, 5, 7);
        }
        GLINT_TILE_STORE(0, c);
        GLINT_TILE_STORE(1, c1);
        GLINT_TILE_STORE(2, c + GLINT_TILE_FLOATS);
        GLINT_TILE_STORE(3, c1 + GLINT_TILE_FLOATS);
    }
}

/* c [2][GLINT_DIM_TILES][16][16] += A B for `steps` steps of 32 queries: A has a tile for each of two tiles of keys,
 * a_tile halves apart, and its steps lie in a row; B [steps][GLINT_DIM_TILES] is in pairs. */
GLINT_OUTLINE void glint_tile_product(float *c, const uint16_t *a, ptrdiff_t a_tile, const uint16_t *b, int64_t steps)
{
    float *c1 = c + GLINT_DIM_TILES * GLINT_TILE_FLOATS;
    for (int tile = 0; tile < GLINT_DIM_TILES; tile += 2, c += 2 * GLINT_TILE_FLOATS, c1 += 2 * GLINT_TILE_FLOATS) {
        const uint16_t *a0 = a, *b0 = b + tile * GLINT_TILE_HALVES;
        GLINT_TILE_LOAD(0, c);
        GLINT_TILE_LOAD(1, c + GLINT_TILE_FLOATS);
        GLINT_TILE_LOAD(2, c1);
        GLINT_TILE_LOAD(3, c1 + GLINT_TILE_FLOATS);
        for (int64_t step = 0; step < steps; step++, a0 += GLINT_TILE_HALVES, b0 += GLINT_DIM_TILES * GLINT_TILE_HALVES) {
            GLINT_TILE_LOAD(4, a0);
            GLINT_TILE_LOAD(6, b0);
            GLINT_TILE_MULTIPLY_ADD(0, 4, 6);
            GLINT_TILE_LOAD(7, b0 + GLINT_TILE_HALVES);
            GLINT_TILE_MULTIPLY_ADD(1, 4, 7);
            GLINT_TILE_LOAD(5, a0 + a_tile);
            GLINT_TILE_MULTIPLY_ADD(2, 5, 6);
            GLINT_TILE_MULTIPLY_ADD(3, 5, 7);
        }
        GLINT_TILE_STORE(0, c);
        GLINT_TILE_STORE(1, c + GLINT_TILE_FLOATS);
        GLINT_TILE_STORE(2, c1);
        GLINT_TILE_STORE(3, c1 + GLINT_TILE_FLOATS);
    }
}

#endif
