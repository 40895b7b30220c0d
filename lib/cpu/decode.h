/* Decode's steps: a few rows of Q against a chunk of keys. Vectors lie along head_dim: K and V are read in place, once,
 * and widened in registers. The rows are all queries of all query heads that share the key head. Included by emitted
 * kernels only, after rows.h and softmax.h, and after they define HEAD_DIM.
 *
 * `few` rows (1, 2 or 4, a constant where these are called) are worked on together. Their scores are interleaved,
 * [key][few]: a vector holds the scores of several keys and of all rows, a sum over head_dim is reduced straight into
 * that order, and the softmax moves nothing between lanes before the chunk's end. What is computed of a row does not
 * depend on the rows beside it, to the bit. */
#ifndef GLINT_CPU_DECODE_H
#define GLINT_CPU_DECODE_H

#include "lib/cpu/rows.h"
#include "lib/cpu/softmax.h"

enum {
    GLINT_DEC_WHOLE = HEAD_DIM / GLINT_CPU_LANES, /* whole vectors of a row */
    GLINT_DEC_VECS =
        (HEAD_DIM + GLINT_CPU_LANES - 1) / GLINT_CPU_LANES, /* and one more, filled up with zeros, when it is not a multiple */
    GLINT_DEC_DIM = GLINT_DEC_VECS * GLINT_CPU_LANES,
    GLINT_DEC_SUMS = GLINT_CPU_LANES > 8 ? GLINT_CPU_LANES : 8, /* (key, row) pairs whose scores are summed at a time */
    GLINT_DEC_BLOCK = 32, /* keys that all rows walk over before the next ones are read: they stay in the first-level cache */
    GLINT_DEC_HALF = GLINT_CPU_LANES == 16 ? 16 : 8, /* half of the vector registers */
};

/* ---- vectors of a row ------------------------------------------------------------------------------------------------------------- */

typedef uint16_t glint_vech __attribute__((vector_size(2 * GLINT_CPU_LANES)));
typedef uint32_t glint_vecu __attribute__((vector_size(4 * GLINT_CPU_LANES)));
#if defined(GLINT_CPU_KV_ELEMENT) && GLINT_CPU_TOGETHER == 2
typedef glint_vech glint_dec_words;
#else
typedef glint_vecu glint_dec_words;
#endif

GLINT_INLINE glint_vec glint_vector_f32(const float *p)
{
    return glint_load(p);
}

GLINT_INLINE glint_vec glint_vector_bf16(const uint16_t *p)
{
    glint_vech h;
    memcpy(&h, p, sizeof h);
    return (glint_vec)(__builtin_convertvector(h, glint_vecu) << 16);
}

GLINT_INLINE glint_vec glint_vector_f16(const uint16_t *p)
{
    glint_vech h;
    memcpy(&h, p, sizeof h);
#if defined(__AVX512F__) && GLINT_CPU_LANES == 16 && !defined(__clang__)
    typedef int16_t signed_halves __attribute__((vector_size(32)));
    return __builtin_ia32_vcvtph2ps512_mask((signed_halves)h, (glint_vec){0}, -1, 4);
#elif defined(__F16C__) && GLINT_CPU_LANES == 8
    return __builtin_ia32_vcvtph2ps256((glint_s8)h);
#elif defined(__aarch64__) && GLINT_CPU_LANES == 4
    return __builtin_convertvector((glint_fp16x4)h, glint_vec);
#else
    /* as glint_widen_f16 of rows.h */
    const glint_vecu wide = __builtin_convertvector(h, glint_vecu), magnitude = (wide & 0x7fff) << 13;
    const glint_vecu special = (glint_vecu)(magnitude >= 0x0f800000) & 0x7f800000;
    return (glint_vec)((glint_vecu)((glint_vec)magnitude * 0x1p112f) | special | (wide & 0x8000) << 16);
#endif
}

typedef int8_t glint_vecb __attribute__((vector_size(GLINT_CPU_LANES)));
typedef int16_t glint_vecs __attribute__((vector_size(2 * GLINT_CPU_LANES)));

/* 8 bits. A vector by itself, and vector `i` of several that are read as one of words. */
GLINT_INLINE glint_vec glint_vector_i8(const int8_t *p)
{
#if defined(__AVX512F__) && GLINT_CPU_LANES == 16 && !defined(__clang__) /* gcc takes such a conversion apart */
    typedef char bytes __attribute__((vector_size(16)));
    bytes x;
    memcpy(&x, p, sizeof x);
    const glint_veci wide = __builtin_ia32_pmovsxbd512_mask(x, (glint_veci){0}, 0xffff);
#else
    glint_vecb x;
    memcpy(&x, p, sizeof x);
    const glint_veci wide = __builtin_convertvector(__builtin_convertvector(x, glint_vecs), glint_veci);
#endif
    return __builtin_convertvector(wide, glint_vec);
}

GLINT_INLINE glint_vec glint_vector_of_words_i8(glint_vecu words, int i)
{
    return __builtin_convertvector((glint_veci)(words << (24 - 8 * i)) >> 24, glint_vec);
}

/* Of e4m3: the number over GLINT_DEC_UNIT, a power of two. Where float16 is converted by an instruction it goes through
 * that: the byte in the high half of 16 bits, moved down by one with its sign, is a float16 less 8 in the exponent. Its
 * bit 14 is a copy of the sign, and becomes what carries out of one added to the last place: nothing, or of NaN the
 * exponent's highest bit. */
#if GLINT_CPU_TOGETHER != 4
GLINT_INLINE glint_vec glint_vector_of_high_bytes_e4m3(glint_vecs high_bytes)
{
    const glint_vecs half = high_bytes >> 1, bits = half ^ ((half + 0x80) & 0x4000);
    uint16_t numbers[GLINT_CPU_LANES];
    memcpy(numbers, &bits, sizeof numbers);
    return glint_vector_f16(numbers);
}

GLINT_INLINE glint_vec glint_vector_e4m3(const uint8_t *p)
{
    glint_vecb x;
    memcpy(&x, p, sizeof x);
    return glint_vector_of_high_bytes_e4m3((glint_vecs)((glint_vech) __builtin_convertvector(x, glint_vecs) << 8));
}

GLINT_INLINE glint_vec glint_vector_of_words_e4m3(glint_vech words, int i)
{
    return glint_vector_of_high_bytes_e4m3((glint_vecs)(i == 0 ? words << 8 : words & 0xff00));
}
#else
/* As glint_widen_e4m3 of rows.h. */
GLINT_INLINE glint_vec glint_vector_of_high_bytes_e4m3(glint_vecu high_bytes)
{
    const glint_veci bits = (glint_veci)high_bytes >> 4 & (int32_t)0x87f00000;
    const glint_veci nan = ((bits & 0x07f00000) == 0x07f00000) & 0x7f800000;
    return (glint_vec)((glint_veci)((glint_vec)bits * 0x1p120f) | nan);
}

GLINT_INLINE glint_vec glint_vector_e4m3(const uint8_t *p)
{
    glint_vecb x;
    memcpy(&x, p, sizeof x);
    return glint_vector_of_high_bytes_e4m3((glint_vecu) __builtin_convertvector(__builtin_convertvector(x, glint_vecs), glint_veci)
                                           << 24);
}

GLINT_INLINE glint_vec glint_vector_of_words_e4m3(glint_vecu words, int i)
{
    return glint_vector_of_high_bytes_e4m3(i < 3 ? words << (24 - 8 * i) : words & 0xff000000u);
}
#endif

GLINT_INLINE glint_vec glint_vector_of_words_bf16(glint_vecu words, int i)
{
    return (glint_vec)(i == 0 ? words << 16 : words & 0xffff0000u);
}

/* Vector `i` of a row of K or V in f32. Nothing past the row's end is read. GLINT_CPU_TOGETHER vectors are read as one
 * of words, of which each is a lane of all of them. Of bf16 two are: two instructions, where widening each by itself
 * takes four (on Zen 5 a chunk takes 0.6 to 0.7 times as long). So in decode the elements of such vectors are in
 * another order: glint_dec_element. */
GLINT_INLINE glint_vec glint_row_vector(const glint_kv *row, int i)
{
#if GLINT_CPU_TOGETHER > 1
    enum { T = GLINT_CPU_TOGETHER, AT_MOST = GLINT_DEC_WHOLE / T * T };
    if (i < AT_MOST) {
        glint_dec_words words;
        memcpy(&words, row + i / T * T * GLINT_CPU_LANES, sizeof words);
        return GLINT_PASTE(glint_vector_of_words_, GLINT_CPU_KV_DTYPE)(words, i % T);
    }
#endif
    if (i < GLINT_DEC_WHOLE)
        return GLINT_PASTE(glint_vector_, GLINT_CPU_KV_DTYPE)(row + i * GLINT_CPU_LANES);
    glint_kv rest[GLINT_CPU_LANES] = {0};
    memcpy(rest, row + i * GLINT_CPU_LANES, HEAD_DIM % GLINT_CPU_LANES * sizeof *row);
    return GLINT_PASTE(glint_vector_, GLINT_CPU_KV_DTYPE)(rest);
}

/* The element of a row that lane i % GLINT_CPU_LANES of vector i / GLINT_CPU_LANES holds. */
GLINT_INLINE int glint_dec_element(int i)
{
    enum { T = GLINT_CPU_TOGETHER, FLOATS = T * GLINT_CPU_LANES };
    if (i >= GLINT_DEC_WHOLE / T * FLOATS)
        return i;
    return i / FLOATS * FLOATS + i % GLINT_CPU_LANES * T + i % FLOATS / GLINT_CPU_LANES;
}

/* ---- sums over lanes -------------------------------------------------------------------------------------------------------------- */

#if defined(__clang__)
#define GLINT_SHUFFLE_VEC(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define GLINT_SHUFFLE_VEC(x, y, ...) __builtin_shuffle(x, y, (glint_veci){__VA_ARGS__})
#endif

/* Lane i of the result is x[index[i]]. */
GLINT_INLINE glint_vec glint_permute_vec(glint_vec x, glint_veci index)
{
#if defined(__clang__)
    glint_vec y;
    for (int i = 0; i < GLINT_CPU_LANES; i++)
        y[i] = x[index[i]];
    return y;
#else
    return __builtin_shuffle(x, index);
#endif
}

/* Sums over lanes: with x[i] for i < GLINT_CPU_LANES, glint_sum_quads of the vectors glint_sum_quad(x + 4 j) has in
 * lane i the sum of x[i]. Each level halves the vectors, so a sum costs about three instructions. */
GLINT_INLINE glint_vec glint_sum_quad(const glint_vec a[4])
{
#if GLINT_CPU_LANES == 16
#define EACH_QUARTER(a, b, c, d) a, b, c, d, a + 4, b + 4, c + 4, d + 4, a + 8, b + 8, c + 8, d + 8, a + 12, b + 12, c + 12, d + 12
#elif GLINT_CPU_LANES == 8
#define EACH_QUARTER(a, b, c, d) a, b, c, d, a + 4, b + 4, c + 4, d + 4
#else
#define EACH_QUARTER(a, b, c, d) a, b, c, d
#endif
    enum { Y = GLINT_CPU_LANES };
    const glint_vec ab = GLINT_SHUFFLE_VEC(a[0], a[1], EACH_QUARTER(0, Y, 1, Y + 1)) +
                         GLINT_SHUFFLE_VEC(a[0], a[1], EACH_QUARTER(2, Y + 2, 3, Y + 3));
    const glint_vec cd = GLINT_SHUFFLE_VEC(a[2], a[3], EACH_QUARTER(0, Y, 1, Y + 1)) +
                         GLINT_SHUFFLE_VEC(a[2], a[3], EACH_QUARTER(2, Y + 2, 3, Y + 3));
    return GLINT_SHUFFLE_VEC(ab, cd, EACH_QUARTER(0, 1, Y, Y + 1)) + GLINT_SHUFFLE_VEC(ab, cd, EACH_QUARTER(2, 3, Y + 2, Y + 3));
#undef EACH_QUARTER
}

GLINT_INLINE glint_vec glint_sum_quads(const glint_vec four[GLINT_CPU_LANES / 4])
{
#if GLINT_CPU_LANES == 16
    const glint_vec low = GLINT_SHUFFLE_VEC(four[0], four[1], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
                          GLINT_SHUFFLE_VEC(four[0], four[1], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    const glint_vec high = GLINT_SHUFFLE_VEC(four[2], four[3], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
                           GLINT_SHUFFLE_VEC(four[2], four[3], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    return GLINT_SHUFFLE_VEC(low, high, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
           GLINT_SHUFFLE_VEC(low, high, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
#elif GLINT_CPU_LANES == 8
    return GLINT_SHUFFLE_VEC(four[0], four[1], 0, 1, 2, 3, 8, 9, 10, 11) +
           GLINT_SHUFFLE_VEC(four[0], four[1], 4, 5, 6, 7, 12, 13, 14, 15);
#else
    return four[0];
#endif
}

/* ---- a chunk ---------------------------------------------------------------------------------------------------------------------- */

/* A block of rows of K or V. While they are used, those that are used next are brought into the first-level cache, and
 * `far` rows, which are used a chunk of K or of V later, into the second-level one. dense: rows follow one another
 * without a gap, and are not in pages. */
struct glint_dec_rows {
    const glint_kv *row, *next, *far;
    ptrdiff_t stride, next_stride, far_stride;
    int64_t rows, next_rows, far_rows;
    bool dense;
};

/* A loop that stays one. Unrolled whole, gcc converts many vectors before it uses the first one, and spills them. */
#if defined(__clang__)
#define GLINT_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define GLINT_ROLLED _Pragma("GCC unroll 1")
#endif

/* Asks for what the row `key` has beside it, by one instruction for the lines of all rows: unrolled, decode from memory
 * takes 1.1 times as long. */
GLINT_INLINE void glint_dec_ask(const struct glint_dec_rows *x, int64_t key)
{
    enum { BYTES = HEAD_DIM * sizeof(glint_kv) };
    if (key < x->next_rows) {
        const char *line = (const char *)(x->next + key * x->next_stride), *end = line + BYTES;
        GLINT_ROLLED
        for (; line < end; line += 64)
            __builtin_prefetch(line, 0, 3);
    }
    if (key < x->far_rows) {
        const char *line = (const char *)(x->far + key * x->far_stride), *end = line + BYTES;
        GLINT_ROLLED
        for (; line < end; line += 64)
            __builtin_prefetch(line, 0, 2);
    }
}

/* Vector i of `keys` rows of K, times that of `few` rows of Q. */
GLINT_INLINE void glint_dec_add_products(const int few, const int keys, glint_vec *sum, const float *q, const glint_kv *const *row,
                                         int i)
{
    GLINT_UNROLL
    for (int j = 0; j < keys; j++) {
        const glint_vec kv = glint_row_vector(row[j], i);
        GLINT_UNROLL
        for (int r = 0; r < few; r++)
            sum[j * few + r] = glint_fma(kv, glint_load(q + r * GLINT_DEC_DIM + i * GLINT_CPU_LANES), sum[j * few + r]);
    }
}

/* Are K and V left to hardware's own streams? Those of two bytes, for one row of Q that stays in registers, where rows
 * follow one another without a gap: then rows are read one by one, their lines in order, and none is asked for. Two
 * rows side by side in one page of memory halve what hardware brings (bench/results/cpu_decode_notes.md). */
GLINT_INLINE bool glint_dec_streams(const int few)
{
    return GLINT_CPU_LANES == 16 && few == 1 && sizeof(glint_kv) == 2 && GLINT_DEC_VECS <= GLINT_DEC_HALF / 2;
}

/* s[key][few] = K Q^T. q [few][GLINT_DEC_DIM] is scaled already. Sums are made for GLINT_DEC_SUMS / few keys at a time,
 * four of which are read at a time; past the last key they are of the last key again, and the caller overwrites
 * them. */
GLINT_INLINE void glint_dec_scores(const int few, float *s, const float *q, const struct glint_dec_rows *k)
{
    enum { SUMS = GLINT_DEC_SUMS, GROUP = 4, STEP = GLINT_CPU_TOGETHER > 2 ? GLINT_CPU_TOGETHER : 2 };
    const int step = SUMS / few, group = step < GROUP ? step : GROUP;
    const bool streams = glint_dec_streams(few);
    glint_vec kept[GLINT_DEC_VECS];
    if (streams) {
        GLINT_UNROLL
        for (int i = 0; i < GLINT_DEC_VECS; i++)
            kept[i] = glint_load(q + i * GLINT_CPU_LANES);
    }
    for (int64_t key = 0; key < k->rows; key += step) {
        glint_vec four[SUMS / 4];
        GLINT_ROLLED
        for (int g = 0; g < step; g += group) {
            const glint_kv *row[GROUP];
            GLINT_UNROLL
            for (int j = 0; j < group; j++)
                row[j] = k->row + (key + g + j < k->rows ? key + g + j : k->rows - 1) * k->stride;
            if (!streams || !k->dense) {
                GLINT_ROLLED
                for (int j = 0; j < group; j++)
                    glint_dec_ask(k, key + g + j);
            }
            glint_vec sum[SUMS] = {0};
            if (streams) {
                GLINT_UNROLL
                for (int j = 0; j < group; j++) {
                    GLINT_UNROLL
                    for (int i = 0; i < GLINT_DEC_VECS; i++)
                        sum[j] = glint_fma(glint_row_vector(row[j], i), kept[i], sum[j]);
                    __asm__ volatile("" ::: "memory"); /* a compiler would read two rows at a time */
                }
            } else {
                GLINT_ROLLED
                for (int i = 0; i < GLINT_DEC_WHOLE / STEP * STEP; i += STEP) {
                    GLINT_UNROLL
                    for (int j = 0; j < STEP; j++)
                        glint_dec_add_products(few, group, sum, q, row, i + j);
                }
                GLINT_UNROLL
                for (int i = GLINT_DEC_WHOLE / STEP * STEP; i < GLINT_DEC_VECS; i++)
                    glint_dec_add_products(few, group, sum, q, row, i);
            }
            GLINT_UNROLL
            for (int i = 0; i < group * few / 4; i++)
                four[g * few / 4 + i] = glint_sum_quad(sum + 4 * i);
        }
        GLINT_UNROLL
        for (int i = 0; i < SUMS; i += GLINT_CPU_LANES)
            glint_store(s + key * few + i, glint_sum_quads(four + i / 4));
    }
}

/* s[key][few] times the scale of its key, and times `unit`; of 8-bit K and V. Up to GLINT_CPU_LANES keys more are
 * multiplied, by whatever follows. */
GLINT_INLINE void glint_dec_scale(const int few, float *s, int64_t keys, const float *scale, const float unit)
{
    const glint_veci lane = glint_lane_index();
    for (int64_t key = 0; key < keys; key += GLINT_CPU_LANES) {
        const glint_vec of_keys = glint_load(scale + key);
        GLINT_UNROLL
        for (int j = 0; j < few; j++) {
            float *const at = s + key * few + j * GLINT_CPU_LANES;
            const glint_veci index = (lane + j * GLINT_CPU_LANES) >> (few == 4 ? 2 : few == 2 ? 1 : 0);
            glint_store(at, glint_load(at) * unit * glint_permute_vec(of_keys, index));
        }
    }
}

#if defined(GLINT_CPU_BIAS_TENSOR)
/* s[key][few] plus the bias of its row, of which bias[few] has key 0; a row without one is none. */
GLINT_OUTLINE void glint_dec_bias(int64_t few, float *s, int64_t keys, const struct glint_bias_source *bias)
{
    float piece[GLINT_BIAS_STEP];
    for (int64_t r = 0; r < few; r++)
        for (int64_t key = 0; key < keys && bias[r].element; key += GLINT_BIAS_STEP) {
            const int64_t count = keys - key < GLINT_BIAS_STEP ? keys - key : GLINT_BIAS_STEP;
            glint_bias_row(piece, &bias[r], 0, key, count);
            for (int64_t i = 0; i < count; i++)
                s[(key + i) * few + r] += piece[i];
        }
}
#else
/* s[key][few] plus the bias of its row, of which bias[few] has key 0. Up to GLINT_CPU_LANES keys more get one, too. */
GLINT_OUTLINE void glint_dec_bias(int64_t few, float *s, int64_t keys, const struct glint_bias *bias)
{
    _Alignas(64) float slope[GLINT_CPU_LANES];
    glint_veci distance = {0};
    for (int i = 0; i < GLINT_CPU_LANES; i++) {
        slope[i] = -bias[i % few].slope;
        distance[i] = bias[i % few].distance - (int32_t)(i / few);
    }
    const glint_vec factor = glint_load(slope);
    for (int64_t i = 0; i < keys * few; i += GLINT_CPU_LANES, distance -= (int32_t)(GLINT_CPU_LANES / few)) {
        glint_store(s + i, glint_fma(glint_abs(__builtin_convertvector(distance, glint_vec)), factor, glint_load(s + i)));
    }
}
#endif

/* s[key][few] becomes exp(s - max of its row) for the first `keys` keys; max and sum [few]. s has room for whole
 * vectors of all rows: up to GLINT_CPU_LANES keys more, which get the weight 0. A row's sum is one of GLINT_CPU_LANES
 * sums, of the keys with the same remainder, added up in order: so it has the same bits whatever `few` is. least: as
 * glint_exp_from has it. */
GLINT_INLINE void glint_dec_softmax(const int few, float *s, int64_t keys, float *max, float *sum, const float least)
{
    const int64_t whole = (keys + GLINT_CPU_LANES - 1) / GLINT_CPU_LANES * GLINT_CPU_LANES * few;
    for (int64_t i = keys * few; i < whole; i++)
        s[i] = -INFINITY;
    _Alignas(64) float lanes[4 * GLINT_CPU_LANES];
    glint_vec m = glint_splat(-INFINITY), total[4] = {{0}};
    for (int64_t i = 0; i < whole; i += GLINT_CPU_LANES)
        m = glint_max(glint_load(s + i), m);
    glint_store(lanes, m);
    for (int r = 0; r < few; r++) {
        max[r] = -INFINITY;
        sum[r] = 0.0f;
    }
    for (int i = 0; i < GLINT_CPU_LANES; i++)
        max[i % few] = lanes[i] > max[i % few] ? lanes[i] : max[i % few];
    for (int i = 0; i < GLINT_CPU_LANES; i++) /* a row that sees no key of the chunk: exp(-inf - 0) = 0 */
        lanes[i] = max[i % few] == -INFINITY ? 0.0f : max[i % few];
    m = glint_load(lanes);
    for (int64_t i = 0; i < whole; i += few * GLINT_CPU_LANES) {
        GLINT_UNROLL
        for (int j = 0; j < few; j++) {
            const glint_vec p = glint_exp_from(glint_load(s + i + j * GLINT_CPU_LANES) - m, least);
            glint_store(s + i + j * GLINT_CPU_LANES, p);
            total[j] += p;
        }
    }
    for (int j = 0; j < few; j++)
        glint_store(lanes + j * GLINT_CPU_LANES, total[j]);
    for (int i = 0; i < few * GLINT_CPU_LANES; i++)
        sum[i % few] += lanes[i];
}

/* o[few][GLINT_DEC_DIM] += P V, vectors [at, at + vecs) of head_dim. */
GLINT_INLINE void glint_dec_values_slice(const int few, const int vecs, const int at, float *o, const float *p,
                                         const struct glint_dec_rows *v)
{
    glint_vec sum[4][GLINT_DEC_HALF];
    GLINT_UNROLL
    for (int r = 0; r < few; r++) {
        GLINT_UNROLL
        for (int i = 0; i < vecs; i++)
            sum[r][i] = glint_load(o + r * GLINT_DEC_DIM + (at + i) * GLINT_CPU_LANES);
    }
    for (int64_t key = 0; key < v->rows; key++) {
        const glint_kv *row = v->row + key * v->stride;
        if (at == 0 && (!glint_dec_streams(few) || !v->dense))
            glint_dec_ask(v, key);
        GLINT_UNROLL
        for (int i = 0; i < vecs; i++) {
            const glint_vec vv = glint_row_vector(row, at + i);
            GLINT_UNROLL
            for (int r = 0; r < few; r++)
                sum[r][i] = glint_fma(glint_splat(p[key * few + r]), vv, sum[r][i]);
        }
    }
    GLINT_UNROLL
    for (int r = 0; r < few; r++) {
        GLINT_UNROLL
        for (int i = 0; i < vecs; i++)
            glint_store(o + r * GLINT_DEC_DIM + (at + i) * GLINT_CPU_LANES, sum[r][i]);
    }
}

/* All of head_dim, in slices whose sums take half of the registers at most. */
GLINT_INLINE void glint_dec_values(const int few, float *o, const float *p, const struct glint_dec_rows *v)
{
    const int most = GLINT_DEC_HALF / few < 8 ? GLINT_DEC_HALF / few : 8;
    const int slices = (GLINT_DEC_VECS + most - 1) / most,
              vecs = (GLINT_DEC_VECS + slices - 1) / slices / 2 * 2 + (slices == 1 ? GLINT_DEC_VECS % 2 : 0);
    GLINT_UNROLL
    for (int at = 0; at < GLINT_DEC_VECS; at += vecs)
        glint_dec_values_slice(few, GLINT_DEC_VECS - at < vecs ? GLINT_DEC_VECS - at : vecs, at, o, p, v);
}

#endif
