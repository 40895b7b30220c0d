/* What is added to scores, after the scale and the cap and before the mask: ALiBi, or a tensor where
 * GLINT_CPU_BIAS_TENSOR is defined. All passes ask this file for it. The steps take it as a pointer that is NULL, a
 * constant, in kernels without the feature. Included by softmax.h.
 *
 *   struct glint_bias_source   the bias from a query and a key on: glint_bias_between
 *   struct glint_bias          the bias of a panel, whose first query has the number 0: glint_bias_panel */
#ifndef GLINT_CPU_BIAS_H
#define GLINT_CPU_BIAS_H

#include "lib/cpu/cpu.h"
#include "lib/cpu/vector.h"

#if defined(GLINT_CPU_BIAS_TENSOR)
#include "lib/cpu/rows.h"

/* `key` and `query` are strides. */
struct glint_bias_source {
    const char *element;
    int64_t query, key;
    bool narrow; /* of the row's dtype, which is not float32 */
};

struct glint_bias {
    const float *panel; /* [keys][pitch], float32 */
    ptrdiff_t pitch;
};

GLINT_INLINE struct glint_bias_source glint_bias_between(const struct glint_problem *p, const struct glint_tensors *t,
                                                         int64_t batch, int64_t head, int64_t query, int64_t key)
{
    const bool narrow = p->bias_dtype != GLINT_F32;
    const int64_t at = batch * p->bias.batch + head * p->bias.head + query * p->bias.query + key * p->bias.key;
    return (struct glint_bias_source){(const char *)t->bias + at * (narrow ? 2 : 4), p->bias.query, p->bias.key, narrow};
}

GLINT_INLINE float glint_bias_least(const struct glint_bias *bias)
{
    (void)bias;
    return GLINT_EXP_LEAST;
}

enum { GLINT_BIAS_STEP = 16 }; /* keys that are brought at a time */

/* to[GLINT_BIAS_STEP]: the bias of a query and `count` keys, then zeros. */
GLINT_INLINE void glint_bias_row(float *to, const struct glint_bias_source *b, int64_t query, int64_t key, int64_t count)
{
    const int64_t at = query * b->query + key * b->key;
    if (!b->narrow) {
        const float *from = (const float *)(const void *)b->element + at;
        for (int64_t i = 0; i < GLINT_BIAS_STEP; i++)
            to[i] = i < count ? from[i * b->key] : 0.0f;
        return;
    }
    const glint_element *from = (const glint_element *)(const void *)b->element + at;
    if (b->key == 1 && count == GLINT_BIAS_STEP) {
        GLINT_PASTE(glint_widen_, GLINT_CPU_DTYPE)(to, from);
        GLINT_PASTE(glint_widen_, GLINT_CPU_DTYPE)(to + 8, from + 8);
        return;
    }
    glint_element part[GLINT_BIAS_STEP] = {0};
    if (b->key == 1)
        memcpy(part, from, (size_t)count * sizeof *part);
    else
        for (int64_t i = 0; i < count; i++)
            part[i] = from[i * b->key];
    glint_widen_rows(to, GLINT_BIAS_STEP, part, GLINT_BIAS_STEP, 1, GLINT_BIAS_STEP);
}

/* The bias of a panel of `columns` lanes, of which `queries` are queries, from `query` on, and of the keys [key, end)
 * is brought into to[key ... end - 1][pitch]; there is room for GLINT_BIAS_STEP - 1 rows more. Lanes beyond the
 * queries get zeros. Where keys follow one another in memory this is a transposition. */
GLINT_OUTLINE struct glint_bias glint_bias_panel(const struct glint_bias_source *b, float *to, ptrdiff_t pitch, int64_t columns,
                                                 int64_t query, int64_t queries, int64_t key, int64_t end)
{
    _Alignas(64) float stage[GLINT_CPU_SQUARE * GLINT_BIAS_STEP];
    for (int64_t r = key; r < end; r += GLINT_BIAS_STEP) {
        const int64_t count = end - r < GLINT_BIAS_STEP ? end - r : GLINT_BIAS_STEP;
        if (b->query == 0) { /* all queries have the same */
            glint_bias_row(stage, b, 0, r, count);
            for (int64_t i = 0; i < count; i++)
                for (int64_t x = 0; x < columns; x += GLINT_CPU_LANES)
                    glint_store(to + (r + i) * pitch + x, glint_splat(stage[i]));
            continue;
        }
        for (int64_t x = 0; x < columns; x += GLINT_CPU_SQUARE) {
            const int64_t rows = queries - x < 0 ? 0 : queries - x < GLINT_CPU_SQUARE ? queries - x : GLINT_CPU_SQUARE;
            /* The rows of the next tile, whose lines hardware does not foresee, come into the second-level cache. */
            const char *ahead = b->element + ((query + x) * b->query + (r + end - key) * b->key) * (b->narrow ? 2 : 4);
            for (int64_t i = 0; i < rows; i++)
                __builtin_prefetch(ahead + i * b->query * (b->narrow ? 2 : 4), 0, 2);
            const float *from = stage;
            int64_t stride = GLINT_BIAS_STEP;
            if (!b->narrow && b->key == 1 && count == GLINT_BIAS_STEP && rows > 0)
                from = (const float *)(const void *)b->element + (query + x) * b->query + r, stride = b->query;
            else
                for (int64_t i = 0; i < rows; i++)
                    glint_bias_row(stage + i * GLINT_BIAS_STEP, b, query + x + i, r, count);
            glint_transpose_in(to + r * pitch + x, pitch, from, stride, rows, GLINT_BIAS_STEP, 1.0f);
        }
    }
    return (struct glint_bias){to, pitch};
}

/* Scores of lanes of queries, from `query` on, and one key, and their bias. */
GLINT_INLINE glint_vec glint_with_bias(glint_vec score, const struct glint_bias *bias, int64_t query, int64_t key)
{
    return score + glint_load(bias->panel + key * bias->pitch + query);
}

/* ---- its gradient ------------------------------------------------------------------------------------------------ */

/* Where a call's tile adds its dS: sums of the keys from its first one on, and of all queries of the head. */
struct glint_dbias {
    float *sums; /* NULL: nowhere */
    ptrdiff_t pitch;
};

/* sums[keys][pitch] += ds[keys][ds_pitch], of the first `lanes` lanes of the keys [from, to). What lanes beyond them
 * hold is no pair's: K and V of a key that no query of theirs sees may have made it NaN. */
GLINT_INLINE void glint_dbias_add(float *sums, ptrdiff_t pitch, const float *ds, ptrdiff_t ds_pitch, int64_t lanes, int64_t from,
                                  int64_t to)
{
    const int64_t whole = lanes / GLINT_CPU_LANES * GLINT_CPU_LANES;
    const glint_veci rest = glint_lane_index() < (int32_t)(lanes - whole);
    for (int64_t r = from; r < to; r++) {
        for (int64_t x = 0; x < whole; x += GLINT_CPU_LANES)
            glint_store(sums + r * pitch + x, glint_load(sums + r * pitch + x) + glint_load(ds + r * ds_pitch + x));
        if (lanes > whole) {
            const glint_vec last = (glint_vec)(rest & (glint_veci)glint_load(ds + r * ds_pitch + whole));
            glint_store(sums + r * pitch + whole, glint_load(sums + r * pitch + whole) + last);
        }
    }
}

/* An element of dBias, rounded once. */
GLINT_INLINE void glint_dbias_put(const struct glint_problem *p, void *dbias, int64_t at, float x)
{
    if (p->bias_dtype == GLINT_F32) {
        ((float *)dbias)[at] = x;
        return;
    }
    glint_element four[4];
    GLINT_PASTE(glint_narrow_, GLINT_CPU_DTYPE)(four, x - (glint_f4){0});
    ((glint_element *)dbias)[at] = four[0];
}

/* Of a block of sums, what all groups and heads that share an element add up to, in their order. `first`, `groups` and
 * `slots`: the first of the sums, and how many follow it, `group` and `slot` floats apart. */
struct glint_dbias_part {
    const float *first;
    int64_t groups, slots, group, slot;
};

GLINT_INLINE glint_vec glint_dbias_total(const struct glint_dbias_part *of, int64_t at)
{
    glint_vec total = glint_load(of->first + at);
    for (int64_t i = 1; i < of->groups * of->slots; i++)
        total += glint_load(of->first + i / of->slots * of->group + i % of->slots * of->slot + at);
    return total;
}

/* A tile of sums, transposed: to element at + query * p->bias.query + key * p->bias.key. */
GLINT_OUTLINE void glint_dbias_tile(const struct glint_problem *p, void *dbias, int64_t at, const float *tile, ptrdiff_t pitch,
                                    int64_t queries, int64_t keys)
{
    const int64_t whole_keys = p->bias.key == 1 ? keys / GLINT_CPU_SQUARE * GLINT_CPU_SQUARE : 0;
    const int64_t whole_queries = whole_keys > 0 ? queries / GLINT_CPU_SQUARE * GLINT_CPU_SQUARE : 0;
    for (int64_t x = 0; x < whole_queries; x += GLINT_CPU_SQUARE)
        for (int64_t r = 0; r < whole_keys; r += GLINT_CPU_SQUARE) {
            glint_line line[GLINT_CPU_SQUARE];
            GLINT_UNROLL
            for (int i = 0; i < GLINT_CPU_SQUARE; i++)
                line[i] = *(const glint_line_unaligned *)(tile + (r + i) * pitch + x);
            glint_transpose_square(line);
            for (int i = 0; i < GLINT_CPU_SQUARE; i++) {
                const int64_t to = at + (x + i) * p->bias.query + r;
                if (p->bias_dtype == GLINT_F32)
                    memcpy((float *)dbias + to, &line[i], sizeof line[i]);
                else
                    glint_narrow_line((glint_element *)dbias + to, line[i]);
            }
        }
    for (int64_t x = 0; x < queries; x++)
        for (int64_t r = x < whole_queries ? whole_keys : 0; r < keys; r++)
            glint_dbias_put(p, dbias, at + x * p->bias.query + r * p->bias.key, tile[r * pitch + x]);
}
#else
struct glint_bias {
    float slope;
    int32_t distance; /* from the key to the query */
};
#define glint_bias_source glint_bias

GLINT_INLINE struct glint_bias glint_bias_between(const struct glint_problem *p, const struct glint_tensors *t, int64_t batch,
                                                  int64_t head, int64_t query, int64_t key)
{
    (void)batch;
    return (struct glint_bias){t->alibi_slopes[head], (int32_t)(query + glint_offset_of(p) - key)};
}

/* The logarithm of the least weight that is not taken for 0. With a slope that weight is 2^-100: every row has keys so
 * far away that products of their weights would be below 2^-126, and such products took the backward pass three times
 * as long. */
GLINT_INLINE float glint_bias_least(const struct glint_bias *bias)
{
    return bias->slope == 0.0f ? GLINT_EXP_LEAST : -69.3147f;
}

/* Scores of lanes of queries, from `query` on, and one key, and their bias. The sum of 32 bits has no overflow but
 * where nobody sees the key. */
GLINT_INLINE glint_vec glint_with_bias(glint_vec score, const struct glint_bias *bias, int64_t query, int64_t key)
{
    const uint32_t first = (uint32_t)bias->distance + (uint32_t)query - (uint32_t)key;
    const glint_vec distance = __builtin_convertvector(glint_lane_index() + (int32_t)first, glint_vec);
    return glint_fma(glint_abs(distance), glint_splat(-bias->slope), score);
}

/* The bias of a panel, whose first query is `query`; nothing has to be brought. */
GLINT_INLINE struct glint_bias glint_bias_panel(const struct glint_bias *bias, float *to, ptrdiff_t pitch, int64_t columns,
                                                int64_t query, int64_t queries, int64_t key, int64_t end)
{
    (void)to, (void)pitch, (void)columns, (void)queries, (void)key, (void)end;
    return (struct glint_bias){bias->slope, bias->distance + (int32_t)query};
}
#endif

#endif
