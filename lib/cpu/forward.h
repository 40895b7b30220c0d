/* Forward's steps on a panel: `vecs` vectors of queries by the keys of a tile. The two products are those of gemm.h,
 * each fused with what would otherwise be a pass of its own over the scores: the largest score of a query is taken from
 * the registers in which its scores were summed, and the mask is applied there. `vecs` and the pitches are constants
 * where these are called, so that the addresses of a register tile are offsets in the instructions, and no register (or
 * spill) is spent on them. Included by emitted kernels only. */
#ifndef GLINT_CPU_FORWARD_H
#define GLINT_CPU_FORWARD_H

#include "lib/cpu/gemm.h"
#include "lib/cpu/softmax.h"

/* Rows of the next tile in the tensors, [rows][bytes] of K and of V, to be brought into the second-level cache while
 * this one is computed:
 * one of each a register tile. The copy into scratch would wait for memory. */
struct glint_ahead {
    const char *k, *v;
    ptrdiff_t k_stride, v_stride; /* bytes */
    int64_t rows;                 /* still to come */
};

GLINT_INLINE void glint_bring_row(struct glint_ahead *ahead, ptrdiff_t bytes)
{
    if (ahead->rows <= 0)
        return;
    for (ptrdiff_t i = 0; i < bytes; i += 64) {
        __builtin_prefetch(ahead->k + i, 0, 2);
        __builtin_prefetch(ahead->v + i, 0, 2);
    }
    ahead->k += ahead->k_stride;
    ahead->v += ahead->v_stride;
    ahead->rows--;
}

GLINT_INLINE void glint_scores_tile(const int rows, const int vecs, float *s, ptrdiff_t pitch, const float *k, ptrdiff_t k_pitch,
                                    const float *q_t, int64_t head_dim, float *max, const bool masked, int64_t row,
                                    struct glint_visible visible, const bool lags, struct glint_late late,
                                    const struct glint_limits *limits, const float *k_scale, const float *bias)
{
    glint_vec acc[GLINT_CPU_ROWS][GLINT_CPU_VECS] = {0};
    glint_multiply_add(rows, vecs, acc, k + row * k_pitch, k_pitch, 1, q_t, pitch, head_dim);
    GLINT_UNROLL
    for (int r = 0; k_scale && r < rows; r++) {
        GLINT_UNROLL
        for (int v = 0; v < vecs; v++)
            acc[r][v] *= glint_splat(k_scale[row + r]);
    }
    GLINT_UNROLL
    for (int r = 0; bias && r < rows; r++) {
        GLINT_UNROLL
        for (int v = 0; v < vecs; v++)
            acc[r][v] += glint_load(bias + (row + r) * pitch + v * GLINT_CPU_LANES);
    }
    if (limits && (row + rows > visible.all || row < late.all)) {
        GLINT_UNROLL
        for (int r = 0; r < rows; r++) {
            GLINT_UNROLL
            for (int v = 0; v < vecs; v++)
                acc[r][v] = glint_select(glint_within(limits, v, row + r), acc[r][v], glint_splat(-INFINITY));
        }
    }
    if (!limits && masked && row + rows > visible.all) {
        const glint_veci lane = glint_lane_index();
        GLINT_UNROLL
        for (int r = 0; r < rows; r++) {
            GLINT_UNROLL
            for (int v = 0; v < vecs; v++) {
                const glint_veci sees = lane >= (int32_t)(row + r + visible.shift - v * GLINT_CPU_LANES);
                acc[r][v] = glint_select(sees, acc[r][v], glint_splat(-INFINITY));
            }
        }
    }
    if (!limits && lags && row < late.all) {
        const glint_veci lane = glint_lane_index();
        GLINT_UNROLL
        for (int r = 0; r < rows; r++) {
            GLINT_UNROLL
            for (int v = 0; v < vecs; v++) {
                const glint_veci sees = lane <= (int32_t)(row + r - late.lag - v * GLINT_CPU_LANES);
                acc[r][v] = glint_select(sees, acc[r][v], glint_splat(-INFINITY));
            }
        }
    }
    GLINT_UNROLL
    for (int v = 0; v < vecs; v++) {
        glint_vec m = glint_load(max + v * GLINT_CPU_LANES);
        GLINT_UNROLL
        for (int r = 0; r < rows; r++) {
            m = glint_max(acc[r][v], m);
            glint_store(s + (row + r) * pitch + v * GLINT_CPU_LANES, acc[r][v]);
        }
        glint_store(max + v * GLINT_CPU_LANES, m);
    }
}

/* Without `masked` every query sees the last of the visible.any keys, without `lags` the first. With `limits`, which
 * are NULL or a constant where this is called, they say what is hidden. */
GLINT_INLINE void glint_scores_between(const int vecs, float *s, ptrdiff_t pitch, const float *k, ptrdiff_t k_pitch,
                                       const float *q_t, int64_t head_dim, float *max, const bool masked,
                                       struct glint_visible visible, const bool lags, struct glint_late late,
                                       const struct glint_limits *limits, struct glint_ahead *ahead, ptrdiff_t row_bytes,
                                       const float *k_scale, const float *bias)
{
    int64_t rows;
    for (int64_t row = lags ? late.none : 0; row < visible.any; row += rows) {
        rows = glint_tile_rows(visible.any - row);
        if (ahead)
            glint_bring_row(ahead, row_bytes);
        if (rows == GLINT_CPU_ROWS)
            glint_scores_tile(GLINT_CPU_ROWS, vecs, s, pitch, k, k_pitch, q_t, head_dim, max, masked, row, visible, lags, late,
                              limits, k_scale, bias);
        else if (rows == GLINT_CPU_FEW_ROWS)
            glint_scores_tile(GLINT_CPU_FEW_ROWS, vecs, s, pitch, k, k_pitch, q_t, head_dim, max, masked, row, visible, lags, late,
                              limits, k_scale, bias);
        else
            glint_scores_tile(1, vecs, s, pitch, k, k_pitch, q_t, head_dim, max, masked, row, visible, lags, late, limits, k_scale,
                              bias);
    }
}

/* S^T = K Q^T for the keys that some query of the panel sees; hidden scores are -inf. max becomes the largest of it and
 * the scores. Without `masked` every query sees all visible.any keys. ahead may be NULL, and so may k_scale, of 8-bit
 * K a scale a key, and bias, [key][pitch], which is added to S^T. */
GLINT_INLINE void glint_scores(const int vecs, float *s, ptrdiff_t pitch, const float *k, ptrdiff_t k_pitch, const float *q_t,
                               int64_t head_dim, float *max, const bool masked, struct glint_visible visible,
                               struct glint_ahead *ahead, ptrdiff_t row_bytes, const float *k_scale, const float *bias)
{
    const struct glint_late all = {0, 0, 0};
    glint_scores_between(vecs, s, pitch, k, k_pitch, q_t, head_dim, max, masked, visible, false, all, NULL, ahead, row_bytes,
                         k_scale, bias);
}

/* The same where the band bounds the first key too: rows before late.none are left as they are. */
GLINT_INLINE void glint_scores_band(const int vecs, float *s, ptrdiff_t pitch, const float *k, ptrdiff_t k_pitch, const float *q_t,
                                    int64_t head_dim, float *max, struct glint_visible visible, struct glint_late late,
                                    const struct glint_limits *limits, struct glint_ahead *ahead, ptrdiff_t row_bytes,
                                    const float *k_scale, const float *bias)
{
    glint_scores_between(vecs, s, pitch, k, k_pitch, q_t, head_dim, max, true, visible, true, late, limits, ahead, row_bytes,
                         k_scale, bias);
}

/* Online softmax: scores [keys] become exp(score - max), where new_max is the largest score of the query up to here and
 * max what it was before; sum is carried over, and scale is what older sums must be multiplied by. A query that has
 * seen no key yet keeps max = -inf and sum = 0. v_scale may be NULL: of 8-bit V, a scale a key, by which exp(score -
 * max) is multiplied after it is summed. least: as glint_exp_from has it. */
GLINT_INLINE void glint_softmax_step_from(const int vecs, float *s, ptrdiff_t pitch, int64_t keys, const float *new_max, float *max,
                                          float *sum, float *scale, const float *v_scale, const float least)
{
    glint_vec base[GLINT_CPU_VECS], total[GLINT_CPU_VECS];
    GLINT_UNROLL
    for (int v = 0; v < vecs; v++) {
        const glint_vec old = glint_load(max + v * GLINT_CPU_LANES), new = glint_load(new_max + v * GLINT_CPU_LANES);
        base[v] = (glint_vec)((glint_veci) new &(new != -INFINITY)); /* -inf - -inf would be NaN */
        const glint_vec factor = glint_exp(old - base[v]);
        total[v] = glint_load(sum + v * GLINT_CPU_LANES) * factor;
        glint_store(max + v * GLINT_CPU_LANES, new);
        glint_store(scale + v * GLINT_CPU_LANES, factor);
    }
    for (int64_t r = 0; r < keys; r++) {
        GLINT_UNROLL
        for (int v = 0; v < vecs; v++) {
            const glint_vec p = glint_exp_from(glint_load(s + r * pitch + v * GLINT_CPU_LANES) - base[v], least);
            glint_store(s + r * pitch + v * GLINT_CPU_LANES, v_scale ? p * glint_splat(v_scale[r]) : p);
            total[v] += p;
        }
    }
    GLINT_UNROLL
    for (int v = 0; v < vecs; v++)
        glint_store(sum + v * GLINT_CPU_LANES, total[v]);
}

GLINT_INLINE void glint_softmax_step(const int vecs, float *s, ptrdiff_t pitch, int64_t keys, const float *new_max, float *max,
                                     float *sum, float *scale, const float *v_scale)
{
    glint_softmax_step_from(vecs, s, pitch, keys, new_max, max, sum, scale, v_scale, GLINT_EXP_LEAST);
}

GLINT_INLINE void glint_values_tile(const int rows, const int vecs, float *o_t, ptrdiff_t pitch, const float *v_rows,
                                    ptrdiff_t v_pitch, const float *p_t, int64_t keys, const float *scale, int64_t row)
{
    glint_vec acc[GLINT_CPU_ROWS][GLINT_CPU_VECS] = {0};
    float *c = o_t + row * pitch;
    if (scale) {
        GLINT_UNROLL
        for (int v = 0; v < vecs; v++) {
            const glint_vec factor = glint_load(scale + v * GLINT_CPU_LANES);
            GLINT_UNROLL
            for (int r = 0; r < rows; r++)
                acc[r][v] = glint_load(c + r * pitch + v * GLINT_CPU_LANES) * factor;
        }
    }
    glint_multiply_add(rows, vecs, acc, v_rows + row, 1, v_pitch, p_t, pitch, keys);
    GLINT_UNROLL
    for (int r = 0; r < rows; r++) {
        GLINT_UNROLL
        for (int v = 0; v < vecs; v++)
            glint_store(c + r * pitch + v * GLINT_CPU_LANES, acc[r][v]);
    }
}

/* O^T = scale O^T + V^T P^T; without scale, O^T = V^T P^T. */
GLINT_INLINE void glint_values(const int vecs, float *o_t, ptrdiff_t pitch, int64_t head_dim, const float *v_rows,
                               ptrdiff_t v_pitch, const float *p_t, int64_t keys, const float *scale)
{
    int64_t rows;
    for (int64_t row = 0; row < head_dim; row += rows) {
        rows = glint_tile_rows(head_dim - row);
        if (rows == GLINT_CPU_ROWS)
            glint_values_tile(GLINT_CPU_ROWS, vecs, o_t, pitch, v_rows, v_pitch, p_t, keys, scale, row);
        else if (rows == GLINT_CPU_FEW_ROWS)
            glint_values_tile(GLINT_CPU_FEW_ROWS, vecs, o_t, pitch, v_rows, v_pitch, p_t, keys, scale, row);
        else
            glint_values_tile(1, vecs, o_t, pitch, v_rows, v_pitch, p_t, keys, scale, row);
    }
}

#endif
