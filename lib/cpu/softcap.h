/* What is done to scores between their product and the softmax: a cap, s = cap tanh(s / cap), then a bias; and what the
 * cap does to the softmax's gradient. Included by emitted kernels only, after forward.h or softmax.h, and only by those
 * that have one of the features: whether a problem asks for a cap they read at run time. */
#ifndef GLINT_CPU_SOFTCAP_H
#define GLINT_CPU_SOFTCAP_H

#include "lib/cpu/gemm.h"
#include "lib/cpu/softmax.h"

/* From |s| = 9.02 cap on, tanh(s / cap) is 1 in float32. */
struct glint_softcap {
    float inverse; /* 1 / cap */
    float limit;   /* 9.02 cap */
};

GLINT_INLINE struct glint_softcap glint_softcap_of(float cap)
{
    return (struct glint_softcap){1.0f / cap, 9.02f * cap};
}

/* cap tanh(s / cap) = s R((s / cap)^2) with R(u) = tanh(sqrt u) / sqrt u, which is P(u) / Q(u) on [0, 9.02^2] to a
 * relative 2.2e-8: the ratio of polynomials of degree 4 with constant terms 1 of least such error. Their coefficients
 * are positive, so nothing cancels and the result is off by at most 6 ulps (tests/contract/softcap.c). A score far
 * below the cap stays as it is, to the bit. Inf gives the cap, NaN stays NaN.
 * Where |s| <= 0.7 cap, as nearly all scores of a model are, R is a polynomial to a relative 1.5e-8; a vector of such scores needs no division.
 * A score's bits do not depend on the others in its vector. */
GLINT_INLINE glint_vec glint_softcap(glint_vec s, struct glint_softcap cap)
{
    const glint_vec y = s * cap.inverse, w = y * y;
    glint_vec r = glint_horner(glint_splat(-0x1.50c474p-8f), w, 0x1.492fd6p-6f);
    r = glint_horner(r, w, -0x1.b6c112p-5f);
    r = glint_horner(r, w, 0x1.10faeep-3f);
    r = glint_horner(r, w, -0x1.5554f6p-2f);
    r = glint_horner(r, w, 1.0f);
    const glint_vec small = s * r;
    if (glint_none_above(w, 0.49f))
        return small;
    s = glint_min(glint_splat(cap.limit), glint_max(glint_splat(-cap.limit), s));
    const glint_vec x = s * cap.inverse, u = x * x;
    glint_vec p = glint_horner(glint_splat(0x1.cbd272p-27f), u, 0x1.5a30fap-16f);
    glint_vec q = glint_horner(glint_splat(0x1.a232d4p-21f), u, 0x1.58d046p-12f);
    p = glint_horner(p, u, 0x1.ca68ccp-9f);
    q = glint_horner(q, u, 0x1.a815bep-6f);
    p = glint_horner(p, u, 0x1.121384p-3f);
    q = glint_horner(q, u, 0x1.de5f0ep-2f);
    p = glint_horner(p, u, 1.0f);
    q = glint_horner(q, u, 1.0f);
    return glint_select(w > 0.49f, s * (p / q), small);
}

/* Forward's glint_softmax_step where scores are capped: what is in s, max and new_max is not capped yet. The cap rises
 * with the score, so the largest capped score is the largest score's. v_scale as there. Hidden keys, whose -inf would
 * give -cap, get the weight 0 here. Rows of s before late.none are left as they are. */
GLINT_INLINE void glint_softcap_step(const int vecs, float *s, ptrdiff_t pitch, const float *new_max, float *max, float *sum,
                                     float *scale, struct glint_softcap cap, const bool masked, struct glint_visible visible,
                                     const bool lags, struct glint_late late, const struct glint_limits *limits,
                                     const float *v_scale)
{
    const glint_veci lane = glint_lane_index();
    glint_vec base[GLINT_CPU_VECS], total[GLINT_CPU_VECS];
    GLINT_UNROLL
    for (int v = 0; v < vecs; v++) {
        const glint_vec old = glint_load(max + v * GLINT_CPU_LANES), new = glint_load(new_max + v * GLINT_CPU_LANES);
        base[v] = glint_softcap(new, cap);
        const glint_vec factor = glint_exp(glint_softcap(old, cap) - base[v]);
        total[v] = glint_load(sum + v * GLINT_CPU_LANES) * factor;
        glint_store(max + v * GLINT_CPU_LANES, new);
        glint_store(scale + v * GLINT_CPU_LANES, factor);
    }
    for (int64_t r = lags ? late.none : 0; r < visible.any; r++) {
        GLINT_UNROLL
        for (int v = 0; v < vecs; v++) {
            float *at = s + r * pitch + v * GLINT_CPU_LANES;
            glint_vec p = glint_exp(glint_softcap(glint_load(at), cap) - base[v]);
            if (limits && (r >= visible.all || r < late.all))
                p = (glint_vec)((glint_veci)p & glint_within(limits, v, r));
            if (!limits && masked && r >= visible.all)
                p = (glint_vec)((glint_veci)p & (lane >= (int32_t)(r + visible.shift - v * GLINT_CPU_LANES)));
            if (!limits && lags && r < late.all)
                p = (glint_vec)((glint_veci)p & (lane <= (int32_t)(r - late.lag - v * GLINT_CPU_LANES)));
            glint_store(at, v_scale ? p * glint_splat(v_scale[r]) : p);
            total[v] += p;
        }
    }
    GLINT_UNROLL
    for (int v = 0; v < vecs; v++)
        glint_store(sum + v * GLINT_CPU_LANES, total[v]);
}

/* Forward, between glint_scores and glint_softmax_step: scores are capped, unless cap is NULL, and get their bias,
 * which `bias` gives for the panel's first query and row 0. Hidden scores become -inf. new_max becomes the largest of
 * the scores and of max, in place of what glint_scores found. Other parameters are those of glint_softcap_step. Within
 * glint_scores this would spill a register in the inner loop: 0.18 of the speed at head_dim 64 with AVX2. */
GLINT_INLINE void glint_bias_step(const int vecs, float *s, ptrdiff_t pitch, float *new_max, const float *max,
                                  const struct glint_softcap *cap, const struct glint_bias *bias, const bool masked,
                                  struct glint_visible visible, const bool lags, struct glint_late late,
                                  const struct glint_limits *limits)
{
    const glint_veci lane = glint_lane_index();
    glint_vec most[GLINT_CPU_VECS];
    GLINT_UNROLL
    for (int v = 0; v < vecs; v++)
        most[v] = glint_load(max + v * GLINT_CPU_LANES);
    for (int64_t r = lags ? late.none : 0; r < visible.any; r++) {
        GLINT_UNROLL
        for (int v = 0; v < vecs; v++) {
            float *at = s + r * pitch + v * GLINT_CPU_LANES;
            glint_vec score = glint_load(at);
            if (cap)
                score = glint_softcap(score, *cap);
            score = glint_with_bias(score, bias, v * GLINT_CPU_LANES, r);
            if (limits && (r >= visible.all || r < late.all))
                score = glint_select(glint_within(limits, v, r), score, glint_splat(-INFINITY));
            if (!limits && masked && r >= visible.all)
                score = glint_select(lane >= (int32_t)(r + visible.shift - v * GLINT_CPU_LANES), score, glint_splat(-INFINITY));
            if (!limits && lags && r < late.all)
                score = glint_select(lane <= (int32_t)(r - late.lag - v * GLINT_CPU_LANES), score, glint_splat(-INFINITY));
            glint_store(at, score);
            most[v] = glint_max(score, most[v]);
        }
    }
    GLINT_UNROLL
    for (int v = 0; v < vecs; v++)
        glint_store(new_max + v * GLINT_CPU_LANES, most[v]);
}

/* Decode: `count` scores, in whole vectors. */
GLINT_INLINE void glint_softcap_scores(float *s, int64_t count, struct glint_softcap cap)
{
    for (int64_t i = 0; i < count; i += GLINT_CPU_LANES)
        glint_store(s + i, glint_softcap(glint_load(s + i), cap));
}

/* Backward's glint_softmax_gradient where scores are capped; d cap tanh(s / cap) / ds = 1 - tanh(s / cap)^2. Where
 * slope, a constant, is not NULL, that goes there, and dS is without it: the gradient of a bias. */
GLINT_INLINE void glint_softcap_gradient(float *s, float *dp, ptrdiff_t pitch, int64_t keys, const float *lse, const float *delta,
                                         struct glint_softcap cap, const struct glint_bias *bias, int64_t query, int64_t key,
                                         float *slope)
{
    const glint_vec l = glint_load(lse), d = glint_load(delta);
    const float least = bias ? glint_bias_least(bias) : GLINT_EXP_LEAST;
    for (int64_t r = 0; r < keys; r++) {
        const glint_vec capped = glint_softcap(glint_load(s + r * pitch), cap), tanh = capped * cap.inverse;
        const glint_vec t = (bias ? glint_with_bias(capped, bias, query, key + r) : capped) - l;
        const glint_vec p = glint_exp_from((glint_vec)((glint_veci)t & ~(t > 0.0f)), least);
        glint_store(s + r * pitch, p);
        const glint_vec of_bias = p * (glint_load(dp + r * pitch) - d), of_score = glint_horner(-tanh, tanh, 1.0f);
        if (slope)
            glint_store(slope + r * pitch, of_score);
        glint_store(dp + r * pitch, slope ? of_bias : of_bias * of_score);
    }
}

#endif
