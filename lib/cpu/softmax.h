/* The steps between the products, on one column of vectors of a tile: lanes are queries, so rows of keys are walked and nothing is
 * reduced across lanes. `pitch` counts floats between keys. Included by emitted kernels only, after vector.h. */
#ifndef GLINT_CPU_SOFTMAX_H
#define GLINT_CPU_SOFTMAX_H

#include "lib/cpu/vector.h"

/* What a band leaves of a tile for a panel of queries, side by side: lane x of the panel sees key r of the tile iff x >= r + shift, by the
 * band's last side, and r >= x + lag, by its first. A kernel has the sides that its mask bounds. */
struct glint_visible {
    int64_t all; /* the first `all` keys are seen by every lane */
    int64_t any; /* no key from `any` on is seen by any lane */
    int64_t shift;
};

struct glint_late {
    int64_t none; /* no key before `none` is seen by any lane */
    int64_t all;  /* keys from `all` on are seen by every lane */
    int64_t lag;
};

GLINT_INLINE int64_t glint_clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* Of a tile in which query i sees key r iff i >= r + shift; the panel is its `lanes` queries from `lane` on. */
GLINT_INLINE struct glint_visible glint_visible_keys(int64_t keys, int64_t lanes, int64_t lane, int64_t shift)
{
    shift -= lane;
    return (struct glint_visible){glint_clamp(1 - shift, 0, keys), glint_clamp(lanes - shift, 0, keys), shift};
}

/* Of a tile in which query i sees key r iff r >= i + lag. */
GLINT_INLINE struct glint_late glint_late_keys(int64_t keys, int64_t lanes, int64_t lane, int64_t lag)
{
    lag += lane;
    return (struct glint_late){glint_clamp(lag, 0, keys), glint_clamp(lanes - 1 + lag, 0, keys), lag};
}

/* The end of a row's softmax: what its unnormalised output is multiplied by, and its log-sum-exp. The sink is one more term of the sum, -inf
 * where there is none; that one changes no bit, for exp(0) is 1 and exp(-inf) is 0. */
struct glint_total {
    glint_vec factor, lse;
};

GLINT_INLINE struct glint_total glint_total(glint_vec max, glint_vec sum, float sink)
{
    const glint_vec s = glint_splat(sink), top = glint_max(s, max);
    const glint_vec base = (glint_vec)((glint_veci)top & (top != -INFINITY)); /* -inf - -inf would be NaN */
    const glint_vec kept = glint_exp(max - base), total = sum * kept + glint_exp(s - base);
    return (struct glint_total){1.0f / total * kept, top + glint_log(total)};
}

/* Backward: scores become P = exp(score - LSE), and dP becomes dS = P (dP - delta). Rounding can leave a score a little above its LSE,
 * where exp is not defined. */
GLINT_INLINE void glint_softmax_gradient(float *s, float *dp, ptrdiff_t pitch, int64_t keys, const float *lse, const float *delta)
{
    const glint_vec l = glint_load(lse), d = glint_load(delta);
    for (int64_t r = 0; r < keys; r++) {
        const glint_vec t = glint_load(s + r * pitch) - l;
        const glint_vec p = glint_exp((glint_vec)((glint_veci)t & ~(t > 0.0f)));
        glint_store(s + r * pitch, p);
        glint_store(dp + r * pitch, p * (glint_load(dp + r * pitch) - d));
    }
}

/* P and dS that the mask hides become zero. */
GLINT_INLINE void glint_mask_gradient(float *p, float *ds, ptrdiff_t pitch, struct glint_visible visible, int64_t first_lane)
{
    const glint_veci lane = glint_lane_index();
    for (int64_t r = visible.all; r < visible.any; r++) {
        const glint_veci sees = lane >= (int32_t)(r + visible.shift - first_lane);
        glint_store(p + r * pitch, (glint_vec)(sees & (glint_veci)glint_load(p + r * pitch)));
        glint_store(ds + r * pitch, (glint_vec)(sees & (glint_veci)glint_load(ds + r * pitch)));
    }
}

/* The same for the first side. */
GLINT_INLINE void glint_mask_gradient_late(float *p, float *ds, ptrdiff_t pitch, struct glint_late late, int64_t first_lane)
{
    const glint_veci lane = glint_lane_index();
    for (int64_t r = 0; r < late.all; r++) {
        const glint_veci sees = lane <= (int32_t)(r - late.lag - first_lane);
        glint_store(p + r * pitch, (glint_vec)(sees & (glint_veci)glint_load(p + r * pitch)));
        glint_store(ds + r * pitch, (glint_vec)(sees & (glint_veci)glint_load(ds + r * pitch)));
    }
}

#endif
