/* The steps between the products, on one column of vectors of a tile: lanes are queries, so rows of keys are walked and
 * nothing is reduced across lanes. `pitch` counts floats between keys. Included by emitted kernels only, after
 * vector.h. */
#ifndef GLINT_CPU_SOFTMAX_H
#define GLINT_CPU_SOFTMAX_H

#include "lib/cpu/bias.h"
#include "lib/cpu/cpu.h"
#include "lib/cpu/vector.h"

/* What a band leaves of a tile for a panel of queries, side by side: lane x of the panel sees key r of the tile iff x
 * >= r + shift, by the band's last side, and r >= x + lag, by its first. A kernel has the sides that its mask
 * bounds. */
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

/* What intervals leave of a tile for a panel of queries: lane x sees key r iff first[x] <= r < end[x]. With a tree it
 * sees key r from tree_from on iff tree[r * tree_pitch + x] is all ones; else that is 0. */
struct glint_limits {
    _Alignas(64) int32_t first[GLINT_CPU_VECS * GLINT_CPU_LANES];
    _Alignas(64) int32_t end[GLINT_CPU_VECS * GLINT_CPU_LANES];
#ifdef GLINT_CPU_TREE
    int32_t *tree;
    int64_t tree_pitch, tree_from;
#endif
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

GLINT_INLINE glint_veci glint_load_limits(const int32_t *limits)
{
    glint_veci x;
    memcpy(&x, limits, sizeof x);
    return x;
}

/* All ones in the lanes of vector v of a panel that see key r. */
GLINT_INLINE glint_veci glint_within(const struct glint_limits *limits, int v, int64_t r)
{
    const glint_veci key = (int32_t)r - (glint_veci){0};
#ifdef GLINT_CPU_TREE
    if (r >= limits->tree_from)
        return glint_load_limits(limits->tree + r * limits->tree_pitch + v * GLINT_CPU_LANES);
#endif
    return (glint_load_limits(limits->first + v * GLINT_CPU_LANES) <= key) &
           (key < glint_load_limits(limits->end + v * GLINT_CPU_LANES));
}

/* Which queries of a head a kernel works on, and where their intervals and their tree are. */
struct glint_intervals {
    const struct glint_problem *problem;
    struct glint_band band;
    const int32_t *begin, *end;
#ifdef GLINT_CPU_TREE
    struct glint_cpu_tree tree;
#endif
};

/* What a query sees, from the first key to the last. */
#ifdef GLINT_CPU_TREE
#define GLINT_SEEN_BY(of, query) glint_cpu_seen_in_tree((of)->problem, (of)->begin, (of)->end, (of)->tree, query)
#else
#define GLINT_SEEN_BY(of, query) glint_cpu_seen_by((of)->problem, (of)->band, (of)->begin, (of)->end, query)
#endif

#ifdef GLINT_CPU_TREE
/* Whether every query sees all of `keys` keys from first_key on for certain: they lie before the tree, and neither an
 * interval nor the band hides such keys. Most tiles are so, and none of them looks at a row's bits then. */
GLINT_INLINE bool glint_all_see(const struct glint_intervals *of, int64_t first_key, int64_t keys)
{
    const struct glint_problem *p = of->problem;
    const struct glint_band sides = glint_sides_of(p);
    return !of->begin && !of->end && first_key + keys <= p->seqlen_k - p->seqlen_q && sides.first == -GLINT_NO_SIDE &&
           (sides.last == GLINT_NO_SIDE || (glint_bottom_right(p) && sides.last >= 0));
}

/* What the bits of a tree leave of the limits of a tile of `keys` keys from first_key on, for the panel's `lanes`
 * queries from `query` on. */
GLINT_OUTLINE void glint_find_tree(const struct glint_intervals *of, int64_t query, int64_t lanes, int64_t columns,
                                   int64_t first_key, int64_t keys, struct glint_limits *limits)
{
    const int64_t before = of->problem->seqlen_k - of->problem->seqlen_q;
    limits->tree_from = glint_clamp(before - first_key, 0, keys);
    for (int64_t r = limits->tree_from; r < keys; r++)
        for (int64_t x = 0; x < columns; x++)
            limits->tree[r * limits->tree_pitch + x] =
                x < lanes && limits->first[x] <= r && r < limits->end[x] &&
                        glint_cpu_tree_has(of->tree.bits + (query + x) * of->tree.words, first_key + r - before)
                    ? -1
                    : 0;
}
#endif

/* The limits of `lanes` queries from `query` on, in a tile of `keys` keys from first_key on, and of the `columns` lanes
 * of the panel; those beyond see nothing. */
GLINT_OUTLINE void glint_find_limits(const struct glint_intervals *of, int64_t query, int64_t lanes, int64_t columns,
                                     int64_t first_key, int64_t keys, struct glint_limits *limits, struct glint_visible *visible,
                                     struct glint_late *late)
{
    *visible = (struct glint_visible){keys, 0, 0};
    *late = (struct glint_late){keys, 0, 0};
#ifdef GLINT_CPU_TREE
    if (glint_all_see(of, first_key, keys)) {
        *visible = (struct glint_visible){keys, keys, 0}; /* no limit is looked at */
        *late = (struct glint_late){0, 0, 0};
        return;
    }
#endif
    for (int64_t x = 0; x < columns; x++) {
        struct glint_cpu_keys_seen seen = {0, 0};
        if (x < lanes)
            seen = GLINT_SEEN_BY(of, query + x);
        const int64_t first = glint_clamp(seen.first - first_key, 0, keys), end = glint_clamp(seen.end - first_key, 0, keys);
        const bool some = first < end;
        limits->first[x] = (int32_t)(some ? first : keys);
        limits->end[x] = (int32_t)(some ? end : 0);
        if (x >= lanes)
            continue;
        visible->all = limits->end[x] < visible->all ? limits->end[x] : visible->all;
        visible->any = limits->end[x] > visible->any ? limits->end[x] : visible->any;
        late->none = limits->first[x] < late->none ? limits->first[x] : late->none;
        late->all = limits->first[x] > late->all ? limits->first[x] : late->all;
    }
#ifdef GLINT_CPU_TREE
    glint_find_tree(of, query, lanes, columns, first_key, keys, limits);
    visible->all = limits->tree_from < visible->all ? limits->tree_from : visible->all;
#endif
}

GLINT_INLINE bool glint_sees(const struct glint_intervals *of, int64_t query, int64_t key)
{
    const struct glint_cpu_keys_seen seen = GLINT_SEEN_BY(of, query);
    return seen.first <= key && key < seen.end;
}

/* What queries [query, query + count) see: the first and the end of all that some of them sees, and of what each of
 * them sees. Both are empty, or the wrong way round, where there is nothing. Query query + x sees no key from x + lead
 * on. */
struct glint_extent {
    int64_t first, end, last_first, first_end, lead;
};

GLINT_OUTLINE struct glint_extent glint_extent_of(const struct glint_intervals *of, int64_t query, int64_t count)
{
    struct glint_extent extent = {of->problem->seqlen_k, 0, 0, of->problem->seqlen_k, -count};
#ifdef GLINT_CPU_TREE
    extent.first_end -= of->problem->seqlen_q; /* no key of the tree is seen by all for certain */
#endif
    for (int64_t x = 0; x < count; x++) {
        const struct glint_cpu_keys_seen seen = GLINT_SEEN_BY(of, query + x);
        if (seen.first >= seen.end) {
            extent.first_end = 0;
            continue;
        }
        extent.first = seen.first < extent.first ? seen.first : extent.first;
        extent.end = seen.end > extent.end ? seen.end : extent.end;
        extent.lead = seen.end - x > extent.lead ? seen.end - x : extent.lead;
        extent.last_first = seen.first > extent.last_first ? seen.first : extent.last_first;
        extent.first_end = seen.end < extent.first_end ? seen.end : extent.first_end;
    }
    return extent;
}

/* Does a block of `rows` queries see some of `keys` keys from first_key on; does any block of `queries` queries? There
 * may be a key between two intervals that nobody sees. */
GLINT_INLINE bool glint_block_sees(const struct glint_intervals *of, int64_t query, int64_t rows, int64_t first_key, int64_t keys)
{
    const struct glint_extent extent = glint_extent_of(of, query, rows);
    return extent.first < first_key + keys && extent.end > first_key;
}

GLINT_INLINE bool glint_blocks_see(const struct glint_intervals *of, int64_t query, int64_t queries, int64_t rows,
                                   int64_t first_key, int64_t keys)
{
#ifdef GLINT_CPU_TREE
    if (glint_all_see(of, first_key, keys))
        return queries > 0;
#endif
    for (int64_t i = 0; i < queries; i += rows)
        if (glint_block_sees(of, query + i, glint_clamp(queries - i, 0, rows), first_key, keys))
            return true;
    return false;
}

/* All ones in the lanes of a vector of `count` queries from `query` on that see a key. */
GLINT_INLINE glint_veci glint_see_some(const struct glint_intervals *of, int64_t query, int64_t count)
{
    int32_t some[GLINT_CPU_LANES] = {0};
    for (int64_t x = 0; x < count && x < GLINT_CPU_LANES; x++) {
        const struct glint_cpu_keys_seen seen = GLINT_SEEN_BY(of, query + x);
        some[x] = seen.first < seen.end ? -1 : 0;
    }
    return glint_load_limits(some);
}

/* The largest of *largest and of `count` numbers; NaN are none. */
GLINT_INLINE void glint_take_largest(float *largest, const float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        *largest = x[i] > *largest ? x[i] : *largest;
}

/* The end of a row's softmax: what its unnormalised output is multiplied by, and its log-sum-exp. The sink is one more
 * term of the sum, -inf where there is none; that one changes no bit, for exp(0) is 1 and exp(-inf) is 0. */
struct glint_total {
    glint_vec factor, lse;
};

GLINT_INLINE struct glint_total glint_total(glint_vec max, glint_vec sum, float sink)
{
    const glint_vec s = glint_splat(sink), top = glint_max(s, max);
    const glint_vec base = (glint_vec)((glint_veci)top & (top != -INFINITY)); /* -inf - -inf would be NaN */
    const glint_vec kept = glint_exp(max - base), total = glint_fma(sum, kept, glint_exp(s - base));
    return (struct glint_total){1.0f / total * kept, top + glint_log(total)};
}

/* Backward: scores become P = exp(score - LSE), and dP becomes dS = P (dP - delta). Rounding can leave a score a little
 * above its LSE, where exp is not defined. bias is NULL, or what the scores lack; the vector's first query and the
 * first key are `query` and `key` of it. */
GLINT_INLINE void glint_softmax_gradient(float *s, float *dp, ptrdiff_t pitch, int64_t keys, const float *lse, const float *delta,
                                         const struct glint_bias *bias, int64_t query, int64_t key)
{
    const glint_vec l = glint_load(lse), d = glint_load(delta);
    const float least = bias ? glint_bias_least(bias) : GLINT_EXP_LEAST;
    for (int64_t r = 0; r < keys; r++) {
        const glint_vec score = glint_load(s + r * pitch);
        const glint_vec t = (bias ? glint_with_bias(score, bias, query, key + r) : score) - l;
        const glint_vec p = glint_exp_from((glint_vec)((glint_veci)t & ~(t > 0.0f)), least);
        glint_store(s + r * pitch, p);
        glint_store(dp + r * pitch, p * (glint_load(dp + r * pitch) - d));
    }
}

/* dLSE of `queries` queries of a head, no more than a vector has lanes, from `first` on; zeros where there is none. */
GLINT_INLINE glint_vec glint_dlse_of(const struct glint_cpu_call *call, int64_t batch, int64_t head, int64_t first, int64_t queries)
{
    float dlse[GLINT_CPU_LANES] = {0};
    if (call->tensors->dlse)
        memcpy(dlse, call->tensors->dlse + (batch * call->problem->heads_q + head) * call->queries + first,
               sizeof(float) * (size_t)queries);
    return glint_load(dlse);
}

/* All ones in the lanes of a vector of queries from `first` on that see a key, by their band. */
GLINT_INLINE glint_veci glint_rows_with_keys(const struct glint_cpu_call *call, int64_t first)
{
    const struct glint_cpu_rows rows = glint_cpu_rows_with_keys(call);
    const glint_veci lane = glint_lane_index();
    return (lane >= (int32_t)glint_clamp(rows.first - first, 0, GLINT_CPU_LANES)) &
           (lane < (int32_t)glint_clamp(rows.end - first, 0, GLINT_CPU_LANES));
}

/* What a vector of queries, of which some see keys, gives to exp(sink - LSE) delta of its head. LSE of one that sees no
 * key is the sink, and its delta is - dLSE, whatever dO is; where the sink is -inf nothing of it counts. */
GLINT_INLINE glint_vec glint_sink_share(glint_veci sees, float sink, glint_vec lse, glint_vec delta, glint_vec dlse)
{
    const glint_vec above = sink - lse; /* 0 at most, but for rounding */
    const glint_vec share = glint_exp((glint_vec)((glint_veci)above & ~(above > 0.0f))) * delta;
    return glint_select(sees, share, (glint_vec)((glint_veci)(0.0f - dlse) & (lse != -INFINITY)));
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

/* P and dS of the keys [from, to) become zero. */
GLINT_INLINE void glint_clear_gradient(int64_t vecs, float *p, float *ds, ptrdiff_t pitch, int64_t from, int64_t to)
{
    for (int64_t r = from; r < to; r++)
        for (int64_t x = 0; x < vecs * GLINT_CPU_LANES; x += GLINT_CPU_LANES) {
            glint_store(p + r * pitch + x, glint_splat(0.0f));
            glint_store(ds + r * pitch + x, glint_splat(0.0f));
        }
}

/* P and dS of the keys [from, to) that intervals hide become zero, in vector v of a panel. */
GLINT_INLINE void glint_mask_gradient_within(float *p, float *ds, ptrdiff_t pitch, int64_t from, int64_t to,
                                             const struct glint_limits *limits, int v)
{
    for (int64_t r = from; r < to; r++) {
        const glint_veci sees = glint_within(limits, v, r);
        glint_store(p + r * pitch, (glint_vec)(sees & (glint_veci)glint_load(p + r * pitch)));
        glint_store(ds + r * pitch, (glint_vec)(sees & (glint_veci)glint_load(ds + r * pitch)));
    }
}

#endif
