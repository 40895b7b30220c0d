/* What is added to the scores of a step's rows: the types of bias.h, of which a lane has one for each of its two rows,
 * as a row has a query head and a query of its own. A number depends on its row and its key's place in the sequence
 * alone, to the bit, as the canonical order wants it (step.h). */
#ifndef GLINT_DEVICE_STEP_BIAS_H
#define GLINT_DEVICE_STEP_BIAS_H

#include "lib/device/bias.h"
#include "lib/device/step.h"

GLINT_DEVICE const struct glint_gpu_bias_tensor &tensor_of(const struct glint_gpu_step &p)
{
    return reinterpret_cast<const struct glint_gpu_biased_step &>(p).tensor; /* which begins with the step's */
}

/* Where the rows of a tile stand: the sequence, which is number `number` of the call, and the tile's first query. */
struct biased_tile {
    struct sequence own;
    int32_t number, head, query0; /* head: a group of query heads */
};

/* Nothing. */
struct unbiased_rows {
    static constexpr bool NONE = true;
};

GLINT_DEVICE struct unbiased_rows bias_of_rows(const struct no_bias &, const struct glint_gpu_step &, const struct biased_tile &,
                                               int32_t, int32_t)
{
    return {};
}

template <int keys>
GLINT_DEVICE void add_to_rows(float (&)[keys / 2], const struct unbiased_rows &, const struct glint_gpu_shape &, int32_t, int32_t)
{
}

/* Of ALiBi, whose numbers along a row's keys are a straight line on either side of the row's place. */
struct alibi_rows {
    float slope[2];   /* of a distance */
    int32_t place[2]; /* among the keys */
    int32_t turn;     /* the least place of the warp's rows; beyond all keys where no row sees one behind its place */
};

/* row: the lane's first one of the tile; first: the warp's. */
GLINT_DEVICE struct alibi_rows bias_of_rows(const struct alibi_bias &, const struct glint_gpu_step &p,
                                            const struct biased_tile &tile, int32_t row, int32_t first)
{
    struct alibi_rows rows;
    int32_t offset = 0;

#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const struct step_row at = row_of_tile(p, row + 8 * half, tile.query0, 0);
        const struct alibi_bias bias = alibi_bias::at(p.base, tile.head * p.group + at.head, tile.own, 0);

        rows.slope[half] = bias.slope;
        rows.place[half] = (int32_t)((uint32_t)at.query + (uint32_t)bias.offset);
        offset = bias.offset;
    }
    rows.turn =
        tile.own.right <= offset ? INT32_MAX : (int32_t)((uint32_t)row_of_tile(p, first, tile.query0, 0).query + (uint32_t)offset);
    return rows;
}

/* s scaled and with the bias added to it, from this lane's key `from` on; `end`: behind the tile's last key. Keys
 * behind a row's place are the mirror image of keys before it. Of keys that are before it either loop makes the same
 * bits, so that it does not matter which rows share a warp. */
template <int keys>
GLINT_DEVICE void add_to_rows(float (&s)[keys / 2], const struct alibi_rows &rows, const struct glint_gpu_shape &shape,
                              int32_t from, int32_t end)
{
    const float scale = fabsf(shape.softmax_scale);
    float line[2], mirror[2];

#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const float distance = (float)(int32_t)((uint32_t)rows.place[half] - (uint32_t)from);

        line[half] = rows.slope[half] * distance;
        mirror[half] = 2.0f * distance;
    }
    if (end - 1 <= rows.turn) {
#pragma unroll
        for (int i = 0; i < keys / 2; ++i)
            s[i] = fmaf(s[i], scale, fmaf((float)(i / 4 * 8 + i % 2), -rows.slope[i / 2 % 2], line[i / 2 % 2]));
    } else {
#pragma unroll
        for (int i = 0; i < keys / 2; ++i) {
            const float key = (float)(i / 4 * 8 + i % 2), folded = fminf(key, mirror[i / 2 % 2] - key);

            s[i] = fmaf(s[i], scale, fmaf(folded, -rows.slope[i / 2 % 2], line[i / 2 % 2]));
        }
    }
}

/* Of a tensor: where the elements of either row begin. Rows that are nobody's have those of the first one that is
 * somebody's. */
template <class Element> struct tensor_rows {
    struct tensor_bias<Element> bias;
    int64_t at[2]; /* elements before the row's */
};

template <class Element>
GLINT_DEVICE struct tensor_rows<Element> bias_of_rows(const struct tensor_bias<Element> &, const struct glint_gpu_step &p,
                                                      const struct biased_tile &tile, int32_t row, int32_t) {
    const struct glint_gpu_bias_tensor &all = tensor_of(p);
    struct tensor_rows<Element> rows;

    rows.bias = tensor_bias<Element>::at(p, tile.number, tile.head *p.group, tile.own);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const struct step_row at = row_of_tile(p, row + 8 * half, tile.query0, tile.own.seqlen_q);

        rows.at[half] = at.exists ? at.head * all.head + at.query * all.query : tile.query0 * all.query;
    }
    return rows;
}

/* Elements of neighbouring keys are loaded together where both rows' pairs are aligned. */
template <int keys, class Element>
GLINT_DEVICE void add_to_rows(float (&s)[keys / 2], const struct tensor_rows<Element> &rows, const struct glint_gpu_shape &shape,
                              int32_t from, int32_t end)
{
    const struct tensor_bias<Element> &bias = rows.bias;
    const float scale = fabsf(shape.softmax_scale);
    const int64_t bytes = is_narrow(bias) ? 2 : 4, step = bias.all->key * bytes;
    const char *const row[2] = {bias.first + (rows.at[0] * bytes + from * step), bias.first + (rows.at[1] * bytes + from * step)};

    if (bias.all->key == 1 && end <= bias.seqlen_k && (((uint64_t)row[0] | (uint64_t)row[1]) & (uint64_t)(2 * bytes - 1)) == 0) {
        if (is_narrow(bias)) {
#pragma unroll
            for (int i = 0; i < keys / 2; i += 2) {
                const uint32_t pair = bits_of(ld_global_f32((const float *)(const void *)(row[i / 2 % 2] + i / 4 * 16)));

                s[i] = fmaf(s[i], scale, widen<Element>(pair));
                s[i + 1] = fmaf(s[i + 1], scale, widen<Element>(pair >> 16));
            }
        } else {
#pragma unroll
            for (int i = 0; i < keys / 2; i += 2) {
                float pair[2];

                ld_global_f32x2(pair, row[i / 2 % 2] + i / 4 * 32);
                s[i] = fmaf(s[i], scale, pair[0]);
                s[i + 1] = fmaf(s[i + 1], scale, pair[1]);
            }
        }
    } else {
        const int32_t left = bias.seqlen_k - from;

#pragma unroll
        for (int i = 0; i < keys / 2; ++i) {
            const int32_t key = i / 4 * 8 + i % 2;
            const char *const at = row[i / 2 % 2] + key * step;
            float x = 0.0f;

            if (key < left)
                x = is_narrow(bias) ? widen<Element>(ld_global_u16(at)) : ld_global_f32((const float *)(const void *)at);
            s[i] = fmaf(s[i], scale, x);
        }
    }
}

/* ---- the largest logit ------------------------------------------------------------------------------------------- */

/* What a lane has met of its two rows. Of a step that writes no such number, nothing. */
struct no_largest {
};

struct largest_of_rows {
    float of[2];
};

template <bool LOGIT> struct logit_of {
    typedef struct no_largest type;
};

template <> struct logit_of<true> {
    typedef struct largest_of_rows type;
};

GLINT_DEVICE void begin_largest(struct no_largest &) {}

GLINT_DEVICE void begin_largest(struct largest_of_rows &largest)
{
    largest.of[0] = largest.of[1] = -GLINT_INFINITY;
}

template <int keys> GLINT_DEVICE void follow_largest(struct no_largest &, const float (&)[keys / 2]) {}

/* The maxima are those that follow_maxima asks for next: the compiler makes them once. */
template <int keys> GLINT_DEVICE void follow_largest(struct largest_of_rows &largest, const float (&s)[keys / 2])
{
    float maxima[2];

    find_maxima<keys>(maxima, s);
    largest.of[0] = fmaxf(largest.of[0], maxima[0]);
    largest.of[1] = fmaxf(largest.of[1], maxima[1]);
}

GLINT_DEVICE void raise_largest(const struct glint_gpu_step &, const struct no_largest &, int32_t, int32_t, int32_t, int32_t, float)
{
}

/* Of a unit that ends, to the query heads of group `head`; row: the lane's first one of the tile. Heads of a block's
 * rows differ, so each quad raises its own. */
GLINT_DEVICE void raise_largest(const struct glint_gpu_step &p, const struct largest_of_rows &largest, int32_t head, int32_t row,
                                int32_t query0, int32_t seqlen_q, float scale)
{
    if (!p.base.max_logit)
        return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const struct step_row at = row_of_tile(p, row + 8 * half, query0, seqlen_q);
        const float own = quad_max(largest.of[half]);

        if (at.exists && lane_index() % 4 == 0)
            raise_logit(p.base.max_logit + head * p.group + at.head, own * fabsf(scale));
    }
}

#endif
