/* Decode's steps for AMX: up to 8 rows of Q, a panel, against a chunk of keys. Included by emitted kernels only, after
 * they define HEAD_DIM and GLINT_CPU_TOGETHER as 2. Element type: bf16, sums in float32. The words of lib/cpu/amx.h are
 * used here.
 *
 *   S^T [16 keys][rows] = K Q^T       K as it is, where it lies, with the tensor's own stride; Q across, packed once
 *                                     a task
 *   O [rows][2][16] += (P, 0; 0, P) V   V where it lies, too
 *
 * A tile of V, 16 keys by 32 numbers, is B of 16 words a key: an even and an odd number of a key share a word, as two
 * rows of B would in a product over keys. So A has two rows for each row of P: with (p, 0) in their words, which gives
 * the even numbers of O, and with (0, p), which gives the odd ones. Nothing of V is packed, and one product a tile of V
 * does both.
 *
 * Zero times an infinity is NaN. So an infinity or a NaN of V reaches the number beside it, and rows that do not see
 * its key. Then all of the panel is computed again with such numbers as zero, and each row adds those that it sees. A
 * finite element has met none, and gets the bits that it had.
 *
 * Scores lie as [key][few], few the power of two that holds the panel's rows. What is computed of a row does not depend
 * on the rows beside it, to the bit: each is a column of S^T, a lane of the softmax, two rows of O. Keys that it does
 * not see have the weight 0, which changes no bit of a sum. */
#ifndef GLINT_CPU_AMX_DECODE_H
#define GLINT_CPU_AMX_DECODE_H

#include "lib/cpu/amx.h"
#include "lib/cpu/decode.h"

#if !defined(GLINT_TILE_LOAD_FROM) /* tests/amx has them in C */
#define GLINT_TILE_LOAD_FROM(t, from, bytes) \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t : : "r"((const void *)(from)), "r"((ptrdiff_t)(bytes)) : "memory")
#define GLINT_TILE_STORE_TO(t, to, bytes) \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" : : "r"((void *)(to)), "r"((ptrdiff_t)(bytes)) : "memory")
#endif

enum {
    GLINT_DEC_PANEL = 8,
    GLINT_DEC_STEPS = HEAD_DIM / 32,              /* whole tiles along head_dim */
    GLINT_DEC_HELD = GLINT_DIM_REST == 0 ? 4 : 3, /* those of Q that stay in registers */
};

/* ---- tiles ------------------------------------------------------------------------------------------------------------------------ */

/* Scores: 0 and 1 of S^T; 2 of K, and 3 of its last, narrower tile where there is one; 4 to 7 of Q, 7 the last one
 * then. */
GLINT_INLINE void glint_dec_tiles_of_scores(int few)
{
    struct glint_tiles tiles = {.palette = 1, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    for (int t = 0; t < 8; t++)
        tiles.row_bytes[t] = (uint16_t)(t == 2 || t == 3 ? 64 : 4 * few);
    if (GLINT_DIM_REST > 0) {
        tiles.row_bytes[3] = 2 * GLINT_DIM_REST;
        tiles.rows[7] = GLINT_DIM_REST / 2;
    }
    GLINT_TILES_CONFIGURE(&tiles);
}

/* Values: 0 to 3 of O, of four tiles of V; 5 of P; 6 and 7 of V. Where the last tile of V is narrower, 4 and 7 are for
 * that one. */
GLINT_INLINE void glint_dec_tiles_of_values(int rows)
{
    struct glint_tiles tiles = {.palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {[6] = 16, [7] = 16}};
    for (int t = 0; t < 6; t++)
        tiles.rows[t] = (uint8_t)(2 * rows);
    if (GLINT_DIM_REST > 0)
        tiles.row_bytes[4] = tiles.row_bytes[7] = 2 * GLINT_DIM_REST;
    GLINT_TILES_CONFIGURE(&tiles);
}

/* ---- scores ----------------------------------------------------------------------------------------------------------------------- */

/* Q [GLINT_DIM_STEPS] is across. What stays in registers is loaded once a chunk. */
GLINT_INLINE void glint_dec_hold_queries(const uint16_t *q)
{
    if (GLINT_DIM_REST > 0)
        GLINT_TILE_LOAD(7, q + GLINT_DEC_STEPS * GLINT_TILE_HALVES);
    if (GLINT_DEC_STEPS > GLINT_DEC_HELD)
        return;
    if (GLINT_DEC_STEPS > 0)
        GLINT_TILE_LOAD(4, q);
    if (GLINT_DEC_STEPS > 1)
        GLINT_TILE_LOAD(5, q + GLINT_TILE_HALVES);
    if (GLINT_DEC_STEPS > 2)
        GLINT_TILE_LOAD(6, q + 2 * GLINT_TILE_HALVES);
    if (GLINT_DEC_STEPS > 3)
        GLINT_TILE_LOAD(7, q + 3 * GLINT_TILE_HALVES);
}

/* s [16][few] = K Q^T of 16 keys, `bytes` apart, in tile C. */
#define GLINT_DEC_SCORE(C, s, few, k, bytes, q)                         \
    do {                                                                \
        GLINT_TILE_ZERO(C);                                             \
        if (GLINT_DEC_STEPS > GLINT_DEC_HELD) {                         \
            for (int step = 0; step < GLINT_DEC_STEPS; step++) {        \
                GLINT_TILE_LOAD(4, (q) + step * GLINT_TILE_HALVES);     \
                GLINT_TILE_LOAD_FROM(2, (k) + step * 32, bytes);        \
                GLINT_TILE_MULTIPLY_ADD(C, 2, 4);                       \
            }                                                           \
        } else {                                                        \
            GLINT_DEC_SCORE_STEP(C, 4, 0, k, bytes);                    \
            GLINT_DEC_SCORE_STEP(C, 5, 1, k, bytes);                    \
            GLINT_DEC_SCORE_STEP(C, 6, 2, k, bytes);                    \
            GLINT_DEC_SCORE_STEP(C, 7, 3, k, bytes);                    \
        }                                                               \
        if (GLINT_DIM_REST > 0) {                                       \
            GLINT_TILE_LOAD_FROM(3, (k) + GLINT_DEC_STEPS * 32, bytes); \
            GLINT_TILE_MULTIPLY_ADD(C, 3, 7);                           \
        }                                                               \
        GLINT_TILE_STORE_TO(C, s, 4 * (few));                           \
    } while (0)

#define GLINT_DEC_SCORE_STEP(C, Q, step, k, bytes)           \
    do {                                                     \
        if ((step) < GLINT_DEC_STEPS) {                      \
            GLINT_TILE_LOAD_FROM(2, (k) + (step)*32, bytes); \
            GLINT_TILE_MULTIPLY_ADD(C, 2, Q);                \
        }                                                    \
    } while (0)

/* Two tiles take turns, so that one is stored while the next is computed. */
GLINT_INLINE void glint_dec_scores_of_tile(int64_t tile, float *s, int few, const uint16_t *k, ptrdiff_t bytes, const uint16_t *q)
{
    (void)q;
    if (tile % 2 == 0)
        GLINT_DEC_SCORE(0, s, few, k, bytes, q);
    else
        GLINT_DEC_SCORE(1, s, few, k, bytes, q);
}

/* ---- softmax ---------------------------------------------------------------------------------------------------------------------- */

/* The rows of a panel see keys [first, end) of a chunk, a lane a row; every row sees those of the tiles [inner,
 * inner_end). */
struct glint_dec_sight {
    int32_t first[GLINT_DEC_PANEL], end[GLINT_DEC_PANEL];
    int64_t inner, inner_end;
};

/* few rows of words that are [16 keys][few], a vector after another, to [few][16 keys]. */
GLINT_INLINE void glint_dec_turn_words(const int few, glint_words x[])
{
    for (int level = 1; level < few; level *= 2) {
        glint_words y[GLINT_DEC_PANEL];
        GLINT_UNROLL
        for (int i = 0; i < few / 2; i++) {
            y[i] = GLINT_SHUFFLE_WORDS(x[2 * i], x[2 * i + 1], 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            y[i + few / 2] = GLINT_SHUFFLE_WORDS(x[2 * i], x[2 * i + 1], 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
        }
        GLINT_UNROLL
        for (int i = 0; i < few; i++)
            x[i] = y[i];
    }
}

/* s[key][few], what Q K^T gives, becomes the scores of the tiles [tile, tile_end): times scale, and -inf where a row
 * does not see the key; max [few]. */
GLINT_INLINE void glint_dec_finish_scores(const int few, float *s, int64_t tile, int64_t tile_end,
                                          const struct glint_dec_sight *sight, float scale, float *max)
{
    _Alignas(64) float lanes[GLINT_CPU_LANES];
    _Alignas(64) int32_t bounds[2][GLINT_CPU_LANES];
    for (int i = 0; i < GLINT_CPU_LANES; i++)
        bounds[0][i] = sight->first[i % few] - i / few, bounds[1][i] = sight->end[i % few] - i / few;
    glint_veci first, end;
    memcpy(&first, bounds[0], sizeof first);
    memcpy(&end, bounds[1], sizeof end);
    glint_vec most = glint_splat(-INFINITY);
    for (int64_t t = tile; t < tile_end; t++) {
        const bool inner = sight->inner <= t && t < sight->inner_end;
        GLINT_UNROLL
        for (int i = 0; i < few; i++) {
            float *at = s + t * 16 * few + i * GLINT_CPU_LANES;
            glint_vec x = glint_load(at) * scale;
            if (!inner) {
                const int32_t key = (int32_t)(t * 16) + i * (GLINT_CPU_LANES / few);
                x = glint_select((first <= key) & (end > key), x, glint_splat(-INFINITY));
            }
            glint_store(at, x);
            most = glint_max(x, most);
        }
    }
    glint_store(lanes, most);
    for (int r = 0; r < few; r++)
        max[r] = -INFINITY;
    for (int i = 0; i < GLINT_CPU_LANES; i++)
        max[i % few] = lanes[i] > max[i % few] ? lanes[i] : max[i % few];
}

/* P of one or two tiles of 16 keys, from its scores. */
GLINT_INLINE void glint_dec_weigh_tiles(const int few, const bool two, uint32_t *p, const float *s, glint_vec base,
                                        glint_vec total[GLINT_DEC_PANEL])
{
    glint_words words[GLINT_DEC_PANEL];
    GLINT_UNROLL
    for (int i = 0; i < few; i++) {
        const glint_vec a = glint_exp(glint_load(s + i * GLINT_CPU_LANES) - base);
        const glint_vec b = two ? glint_exp(glint_load(s + (few + i) * GLINT_CPU_LANES) - base) : glint_splat(0.0f);
        total[i] += a;
        if (two)
            total[i] += b;
        words[i] = glint_pair_of(a, b);
    }
    glint_dec_turn_words(few, words);
    GLINT_UNROLL
    for (int r = 0; r < few; r++) {
        const glint_words x[4] = {words[r] & 0xffff, words[r] << 16, words[r] >> 16, words[r] & 0xffff0000u};
        memcpy(p + r * 32, &x[0], sizeof x[0]);
        memcpy(p + r * 32 + 16, &x[1], sizeof x[1]);
        if (two) {
            memcpy(p + (few + r) * 32, &x[2], sizeof x[2]);
            memcpy(p + (few + r) * 32 + 16, &x[3], sizeof x[3]);
        }
    }
}

/* Scores become P = exp(s - max), rounded, as words [tile][few][(p, 0), (0, p)][16 keys]. A row's sum, of P before it
 * is rounded, is one of 16 sums, of the keys with the same remainder, added up in order. */
GLINT_INLINE void glint_dec_weigh(const int few, uint32_t *p, const float *s, int64_t tile, int64_t tile_end, const float *max,
                                  float *sum)
{
    _Alignas(64) float lanes[GLINT_DEC_PANEL * GLINT_CPU_LANES];
    for (int i = 0; i < GLINT_CPU_LANES; i++) /* a row that sees no key of the chunk: exp(-inf - 0) = 0 */
        lanes[i] = max[i % few] == -INFINITY ? 0.0f : max[i % few];
    const glint_vec base = glint_load(lanes);
    glint_vec total[GLINT_DEC_PANEL];
    GLINT_UNROLL
    for (int i = 0; i < few; i++)
        total[i] = glint_splat(0.0f);
    for (; tile + 2 <= tile_end; tile += 2)
        glint_dec_weigh_tiles(few, true, p + tile * 32 * few, s + tile * 16 * few, base, total);
    if (tile < tile_end)
        glint_dec_weigh_tiles(few, false, p + tile * 32 * few, s + tile * 16 * few, base, total);
    GLINT_UNROLL
    for (int i = 0; i < few; i++)
        glint_store(lanes + i * GLINT_CPU_LANES, total[i]);
    for (int r = 0; r < few; r++)
        sum[r] = 0.0f;
    for (int i = 0; i < few * GLINT_CPU_LANES; i++)
        sum[i % few] += lanes[i];
}

/* ---- values ----------------------------------------------------------------------------------------------------------------------- */

/* O += P V of 16 keys, for up to four tiles of V along head_dim from `v` on, and where `rest` says so for the narrower
 * last one. */
GLINT_INLINE void glint_dec_values_of_tile(const int steps, const bool rest, const uint32_t *p, const uint16_t *v,
                                           const uint16_t *last, ptrdiff_t bytes)
{
    GLINT_TILE_LOAD(5, p);
    if (steps > 0) {
        GLINT_TILE_LOAD_FROM(6, v, bytes);
        GLINT_TILE_MULTIPLY_ADD(0, 5, 6);
    }
    if (steps > 1) {
        GLINT_TILE_LOAD_FROM(6, v + 32, bytes);
        GLINT_TILE_MULTIPLY_ADD(1, 5, 6);
    }
    if (steps > 2) {
        GLINT_TILE_LOAD_FROM(6, v + 64, bytes);
        GLINT_TILE_MULTIPLY_ADD(2, 5, 6);
    }
    if (steps > 3) {
        GLINT_TILE_LOAD_FROM(6, v + 96, bytes);
        GLINT_TILE_MULTIPLY_ADD(3, 5, 6);
    }
    if (rest) {
        GLINT_TILE_LOAD_FROM(7, last, bytes);
        GLINT_TILE_MULTIPLY_ADD(4, 5, 7);
    }
}

GLINT_INLINE void glint_dec_begin_values(void)
{
    GLINT_TILE_ZERO(0);
    GLINT_TILE_ZERO(1);
    GLINT_TILE_ZERO(2);
    GLINT_TILE_ZERO(3);
    GLINT_TILE_ZERO(4);
}

/* To sums [GLINT_DIM_STEPS][8 rows][even, odd][16], of which the first steps are at `to`. */
GLINT_INLINE void glint_dec_end_values(const int steps, const bool rest, float *to, float *last)
{
    if (steps > 0)
        GLINT_TILE_STORE(0, to);
    if (steps > 1)
        GLINT_TILE_STORE(1, to + GLINT_TILE_FLOATS);
    if (steps > 2)
        GLINT_TILE_STORE(2, to + 2 * GLINT_TILE_FLOATS);
    if (steps > 3)
        GLINT_TILE_STORE(3, to + 3 * GLINT_TILE_FLOATS);
    if (rest)
        GLINT_TILE_STORE(4, last);
}

/* Row r of sums to O, in the order of elements that decode uses: glint_dec_element. The answer: all are finite. */
GLINT_INLINE bool glint_dec_take_row(float *o, const float *sums, int64_t r)
{
    const float *from = sums + r * 32;
    glint_veci all = glint_splati(-1);
    for (int step = 0; step < GLINT_DEC_STEPS; step++, o += 32, from += GLINT_TILE_FLOATS) {
        const glint_vec even = glint_load(from), odd = glint_load(from + 16);
        all &= (((glint_veci)even & 0x7f800000) != 0x7f800000) & (((glint_veci)odd & 0x7f800000) != 0x7f800000);
        glint_store(o, even);
        glint_store(o + 16, odd);
    }
    if (GLINT_DIM_REST > 0) {
        float rest[32] = {0};
        for (int i = 0; i < GLINT_DIM_REST; i++)
            rest[i] = from[i % 2 * 16 + i / 2];
        for (int i = 0; i < GLINT_DEC_DIM - 32 * GLINT_DEC_STEPS; i += 16) {
            const glint_vec x = glint_load(rest + i);
            all &= ((glint_veci)x & 0x7f800000) != 0x7f800000;
            glint_store(o + i, x);
        }
    }
    return (uint16_t)__builtin_ia32_cvtd2mask512(all) == 0xffff;
}

/* Infinities and NaN of a row of V become zero. */
GLINT_INLINE void glint_dec_clean(uint16_t *row)
{
    for (int i = 0; i < HEAD_DIM; i++)
        if ((row[i] & 0x7f80) == 0x7f80)
            row[i] = 0;
}

/* o += p v for those alone. */
GLINT_INLINE void glint_dec_add_special(float *o, float p, const uint16_t *row)
{
    for (int i = 0; i < GLINT_DEC_DIM; i++) {
        const int element = glint_dec_element(i);
        if (element < HEAD_DIM && (row[element] & 0x7f80) == 0x7f80)
            o[i] = glint_fma_scalar(p, glint_float_of(row[element]), o[i]);
    }
}

#endif
