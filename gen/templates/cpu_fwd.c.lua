$ include("cpu_head.c.lua")
$ -- Longer rows gain nothing (Zen 3): at strides of a power of two, two tiles of them do not stay in a second-level cache of 512 KiB.
$ local ahead = head_dim * kv_bytes <= 256
#include "lib/cpu/forward.h"
$ if capped or biased and not bias_tensor then
#include "lib/cpu/softcap.h"
$ end

enum {
    HEAD_DIM = ${head_dim},
    TILE_M = ${tile_m}, /* queries */
    TILE_N = ${tile_n}, /* keys */
    PITCH_M = GLINT_CPU_PITCH(TILE_M),
    PITCH_D = GLINT_CPU_PITCH(HEAD_DIM),
    BLOCK_T = HEAD_DIM * PITCH_M, /* floats of a transposed query block */
$ if biased then
    BIAS = TILE_N * PITCH_M, /* of a panel, after the scores */
$ end
$ if tree_bits then
    TREE = (${bias_tensor and "TILE_N + 16 + " or ""}TILE_N) * PITCH_M, /* of a panel, after them */
$ end
};

$ local k_scale, v_scale = narrow and "m->k_scale" or "NULL", narrow and "m->v_scale" or "NULL"
$ local widen_rows = narrow and "glint_widen_kv_rows" or "glint_widen_rows"
$ local special = "glint_any_special(t.v, t.v_pitch, t.keys, HEAD_DIM)" -- int8 has no such numbers, but its scales may be
$ if narrow then special = "(glint_any_special(m.v_scale, 8, (t.keys + 7) / 8, 8)" .. (kv_dtype == "e4m3" and " || " .. special or "") .. ")" end
/* The matrices of a lane's scratch: lib/cpu/cpu.h gives their shapes. */
struct matrices {
    float *q_t, *o_t, *stats, *s_t, *k, *v, *row, *scale;
$ if narrow then
    float *k_scale, *v_scale; /* of the tile's keys */
$ end
};

/* Q^T times softmax_scale; max = -inf, sum = 0. */
static void begin_block(const struct glint_problem *p, const struct matrices *m, int64_t block, const glint_element *q, int64_t queries)
{
    const int64_t columns = glint_panel_columns(queries);
    float *max = m->stats + block * 2 * PITCH_M, *sum = max + PITCH_M;
    for (int64_t i = 0; i < columns; i += GLINT_CPU_SQUARE) {
        const int64_t rows = glint_clamp(queries - i, 0, GLINT_CPU_SQUARE);
        const glint_element *q_rows = rows > 0 ? q + i * p->q.row : q; /* the stride of a single row may be any number */
        float *q_t = m->q_t + block * BLOCK_T + i;
$ if dtype == "f32" then
        glint_transpose_in(q_t, PITCH_M, q_rows, p->q.row, rows, HEAD_DIM, p->softmax_scale);
$ else
        glint_widen_rows(m->row, PITCH_D, q_rows, p->q.row, rows, HEAD_DIM);
        glint_transpose_in(q_t, PITCH_M, m->row, PITCH_D, rows, HEAD_DIM, p->softmax_scale);
$ end
    }
    for (int64_t x = 0; x < columns; x += GLINT_CPU_LANES) {
        glint_store(max + x, glint_splat(-INFINITY));
        glint_store(sum + x, glint_splat(0.0f));
    }
$ if bounds_first then
    memset(m->o_t + block * BLOCK_T, 0, sizeof(float) * BLOCK_T);
$ end
}

/* A tile: keys and values in f32, [keys][pitch]. */
struct tile {
    const float *k, *v;
    ptrdiff_t k_pitch, v_pitch;
    int64_t keys;
$ if not bounds_first then
    bool first; /* nothing is summed yet */
$ end
$ if ahead then
    struct glint_ahead *ahead;
$ end
$ if causal then
    bool special; /* some value is inf or NaN, in a tile that not every query of the task sees whole */
    int64_t shift; /* query i of the block sees key r of the tile iff i >= r + shift */
$ end
$ if bounds_first then
    int64_t lag; /* and r >= i + lag */
$ end
$ if capped then
    const struct glint_softcap *cap; /* NULL: none */
$ end
$ if intervals then
    const struct glint_intervals *intervals;
    int64_t query, key; /* where the block and the tile begin */
$ end
$ if biased then
    struct glint_bias_source bias; /* of the task's first query and the tile's first key */
    int64_t queries;               /* of the task */
$ end
};

$ local parameter, argument = causal and ", struct glint_visible visible" or "", causal and ", visible" or ""
$ if bounds_first then parameter, argument = parameter .. ", struct glint_late late", argument .. ", late" end
$ if intervals then parameter, argument = parameter .. ", const struct glint_limits *limits", argument .. ", &limits" end
$ local first_row = bounds_first and "late.none" or "0" -- of S^T, that some query may see
$ local limits, cap = intervals and "limits" or "NULL", capped and "t->cap" or "NULL"
$ -- A tensor is added where its scores are summed, unless a cap comes between. ALiBi would spill a register there.
$ local added_in_product = bias_tensor and not capped
$ local added = added_in_product and "bias.panel" or "NULL"
$ local bring, v_scale_of_keys = ahead and "t->ahead" or "NULL", narrow and "m->v_scale + none" or "NULL"
/* Online softmax of `vecs` vectors of queries, from query `lane` of the block on, over a tile. */
GLINT_INLINE void panel(const int vecs, const struct matrices *m, int64_t block, int64_t lane, const struct tile *t${parameter})
{
$ if not causal then
    const struct glint_visible visible = {t->keys, t->keys, 0};
$ end
    const float *q_t = m->q_t + block * BLOCK_T + lane;
    float *o_t = m->o_t + block * BLOCK_T + lane, *max = m->stats + block * 2 * PITCH_M + lane, *sum = max + PITCH_M, *s_t = m->s_t + lane;
    _Alignas(64) float new_max[GLINT_CPU_VECS * GLINT_CPU_LANES];
    memcpy(new_max, max, sizeof(float) * (size_t)(vecs * GLINT_CPU_LANES));
$ if biased then
    const struct glint_bias bias = glint_bias_panel(&t->bias, m->s_t + BIAS, PITCH_M, vecs * GLINT_CPU_LANES, block * TILE_M + lane,
                                                    t->queries - block * TILE_M - lane, ${first_row}, visible.any);
$ end

$ if bounds_first then
    /* S^T = K Q^T, for the keys that some query of the panel sees; then P^T = exp(S^T - max). */
    const int64_t none = late.none, keys = visible.any - none;
    glint_scores_band(vecs, s_t, PITCH_M, t->k, t->k_pitch, q_t, HEAD_DIM, new_max, visible, late, ${limits}, ${bring},
                      HEAD_DIM * (ptrdiff_t)sizeof(glint_kv), ${k_scale}, ${added});
$   if biased and not added_in_product then
    glint_bias_step(vecs, s_t, PITCH_M, new_max, max, ${cap}, &bias, true, visible, true, late, ${limits});
    glint_softmax_step_from(vecs, s_t + none * PITCH_M, PITCH_M, keys, new_max, max, sum, m->scale, ${v_scale_of_keys},
                            glint_bias_least(&bias));
$   elseif capped then
    if (t->cap)
        glint_softcap_step(vecs, s_t, PITCH_M, new_max, max, sum, m->scale, *t->cap, true, visible, true, late, ${limits}, ${v_scale});
    else
        glint_softmax_step(vecs, s_t + none * PITCH_M, PITCH_M, keys, new_max, max, sum, m->scale, ${v_scale_of_keys});
$   else
    glint_softmax_step(vecs, s_t + none * PITCH_M, PITCH_M, keys, new_max, max, sum, m->scale, ${v_scale_of_keys});
$   end

    /* O^T = scale O^T + V^T P^T. A hidden key has P = 0, which hides any finite V; with other V rows all are added lane
     * by lane. */
    glint_values(vecs, o_t, PITCH_M, HEAD_DIM, t->v + none * t->v_pitch, t->v_pitch, s_t + none * PITCH_M, t->special ? 0 : keys, m->scale);
$   if intervals then
    if (t->special)
        ${tree_bits and "glint_gemm_in_tree" or "glint_gemm_within"}(vecs, &(struct glint_gemm){.c = o_t, .ldc = PITCH_M, .a = t->v, .a_row = 1, .a_k = t->v_pitch, .b = s_t,
                                                     .ldb = PITCH_M, .rows = HEAD_DIM, .depth = visible.any},
                          none, limits->first, limits->end${tree_bits and ", limits->tree, limits->tree_from" or ""});
$   else
    if (t->special)
        glint_gemm_band(vecs, &(struct glint_gemm){.c = o_t, .ldc = PITCH_M, .a = t->v, .a_row = 1, .a_k = t->v_pitch, .b = s_t,
                                                   .ldb = PITCH_M, .rows = HEAD_DIM, .depth = visible.any},
                        none, visible.shift, late.lag);
$   end
$ else
    /* S^T = K Q^T${causal and ", for the keys that some query of the panel sees" or ""}; then P^T = exp(S^T - max). */
    glint_scores(vecs, s_t, PITCH_M, t->k, t->k_pitch, q_t, HEAD_DIM, new_max, ${tostring(causal)}, visible, ${bring},
                 HEAD_DIM * (ptrdiff_t)sizeof(glint_kv), ${k_scale}, ${added});
$   if biased and not added_in_product then
    glint_bias_step(vecs, s_t, PITCH_M, new_max, max, ${cap}, &bias, ${tostring(causal)}, visible, false, (struct glint_late){0, 0, 0}, NULL);
    glint_softmax_step_from(vecs, s_t, PITCH_M, visible.any, new_max, max, sum, m->scale, ${v_scale}, glint_bias_least(&bias));
$   elseif capped then
    if (t->cap)
        glint_softcap_step(vecs, s_t, PITCH_M, new_max, max, sum, m->scale, *t->cap, ${tostring(causal)}, visible, false,
                           (struct glint_late){0, 0, 0}, NULL, ${v_scale});
    else
        glint_softmax_step(vecs, s_t, PITCH_M, visible.any, new_max, max, sum, m->scale, ${v_scale});
$   else
    glint_softmax_step(vecs, s_t, PITCH_M, visible.any, new_max, max, sum, m->scale, ${v_scale});
$   end

    const float *scale = t->first ? NULL : m->scale;
$ if causal then
    /* O^T = scale O^T + V^T P^T. A hidden key has P = 0, which hides any finite V; other V rows are left out lane by
     * lane. */
    glint_values(vecs, o_t, PITCH_M, HEAD_DIM, t->v, t->v_pitch, s_t, t->special ? visible.all : visible.any, scale);
    if (t->special)
        glint_gemm_visible(vecs, &(struct glint_gemm){.c = o_t, .ldc = PITCH_M, .a = t->v, .a_row = 1, .a_k = t->v_pitch, .b = s_t,
                                                      .ldb = PITCH_M, .rows = HEAD_DIM, .depth = visible.any},
                           visible.all, visible.shift);
$ else
    /* O^T = scale O^T + V^T P^T. */
    glint_values(vecs, o_t, PITCH_M, HEAD_DIM, t->v, t->v_pitch, s_t, t->keys, scale);
$ end
$ end
}

/* Out of line: a copy for each width that glint_panel_vecs gives. */
$ local widths = { 1 }
$ if micro_vecs > 1 then widths[2] = 2 end
$ if micro_vecs > 2 then widths[3] = micro_vecs end
$ for _, vecs in ipairs(widths) do
GLINT_OUTLINE void panel_${vecs}(const struct matrices *m, int64_t block, int64_t lane, const struct tile *t${parameter})
{
    panel(${vecs}, m, block, lane, t${(argument:gsub("&", ""))});
}
$ end

/* Online softmax of a block's queries over a tile. */
static void block_by_tile(const struct matrices *m, int64_t block, int64_t queries, const struct tile *t)
{
    for (int64_t lane = 0, vecs; lane < queries; lane += vecs * GLINT_CPU_LANES) {
        vecs = glint_panel_vecs(queries - lane);
$ if intervals then
        struct glint_limits limits;
$   if tree_bits then
        limits.tree = (int32_t *)(void *)(m->s_t + TREE);
        limits.tree_pitch = PITCH_M;
$   end
        struct glint_visible visible;
        struct glint_late late;
        glint_find_limits(t->intervals, t->query + lane, queries - lane, vecs * GLINT_CPU_LANES, t->key, t->keys, &limits, &visible, &late);
        if (late.none >= visible.any)
            continue;
$ elseif causal then
        struct glint_visible visible = glint_visible_keys(t->keys, glint_clamp(queries - lane, 0, vecs * GLINT_CPU_LANES), lane, t->shift);
$   if micro_vecs > 2 then
        /* On the diagonal narrower panels leave out more that is hidden. */
        if (vecs > 2 && visible.all < visible.any) {
            vecs = 2;
            visible = glint_visible_keys(t->keys, glint_clamp(queries - lane, 0, vecs * GLINT_CPU_LANES), lane, t->shift);
        }
$   end
$ end
$ if bounds_first and not intervals then
        const struct glint_late late = glint_late_keys(t->keys, glint_clamp(queries - lane, 0, vecs * GLINT_CPU_LANES), lane, t->lag);
        if (late.none >= visible.any)
            continue;
$ end
        switch (vecs) {
$ for i, vecs in ipairs(widths) do
        ${i < #widths and "case " .. vecs or "default"}: panel_${vecs}(m, block, lane, t${argument}); break;
$ end
        }
    }
}

$ local end_parameter, end_argument, row_sees = "int64_t blind", "blind - i", "i + r >= blind ? -1 : 0"
$ local hidden = "glint_clamp(first_query + call->band.first, 0, p->seqlen_k)" -- keys before the first that some query of the task sees
$ if intervals then
$   end_parameter, end_argument = "const struct glint_intervals *intervals, int64_t query", "&seen_by, first_query + i"
$   row_sees, hidden = "i + r < queries ? lane_sees[i + r] : 0", "all.first"
$ elseif bounds_first then
$   end_parameter, end_argument, row_sees = "int64_t blind, int64_t end", "blind - i, end - i", "i + r >= blind && i + r < end ? -1 : 0"
$ end
$ if max_logit then end_parameter, end_argument = end_parameter .. ", float *largest", end_argument .. ", largest" end
$ if intervals then
/* O = O / sum and LSE = max + log(sum), with the sink in both. Queries that see no key have O = 0 and LSE = sink.
 * `query`: the block's first. */
$ elseif bounds_first then
/* O = O / sum and LSE = max + log(sum), with the sink in both. Queries before `blind` and from `end` on see no key: O =
 * 0 and LSE = sink. */
$ else
/* O = O / sum and LSE = max + log(sum), with the sink in both. The first `blind` queries see no key: O = 0 and LSE =
 * sink. */
$ end
static void end_block(const struct glint_problem *p, const struct matrices *m, int64_t block, glint_element *o, float *lse, int64_t queries,
                      float sink, ${end_parameter})
{
$ if intervals then
    glint_veci see_some[TILE_M / GLINT_CPU_LANES];
    int32_t lane_sees[TILE_M];
$ else
    const glint_veci lane_index = glint_lane_index();
$ end
    float *max = m->stats + block * 2 * PITCH_M, *sum = max + PITCH_M;
$ if max_logit then
    if (largest) {
        float most = -INFINITY; /* of queries that see no key it stays so */
        glint_take_largest(&most, max, queries);
$   if capped and not biased then
        if (p->softcap != 0.0f && most > -INFINITY)
            most = glint_softcap(glint_splat(most), glint_softcap_of(p->softcap))[0];
$   end
        glint_take_largest(largest, &most, 1);
    }
$ end
    for (int64_t x = 0; x < queries; x += GLINT_CPU_LANES) {
$ if intervals then
        const glint_veci sees = glint_see_some(intervals, query + x, queries - x);
        see_some[x / GLINT_CPU_LANES] = sees;
$ elseif bounds_first then
        const glint_veci sees = (lane_index >= (int32_t)glint_clamp(blind - x, 0, GLINT_CPU_LANES)) &
                                (lane_index < (int32_t)glint_clamp(end - x, 0, GLINT_CPU_LANES));
$ else
        const glint_veci sees = lane_index >= (int32_t)glint_clamp(blind - x, 0, GLINT_CPU_LANES);
$ end
$ if capped and not biased then
        if (p->softcap != 0.0f)
            glint_store(max + x, glint_softcap(glint_load(max + x), glint_softcap_of(p->softcap)));
$ end
        const struct glint_total total = glint_total(glint_load(max + x), glint_load(sum + x), sink);
        glint_store(max + x, glint_select(sees, total.lse, glint_splat(sink)));
        glint_store(sum + x, total.factor);
    }
    memcpy(lse, max, sizeof(float) * (size_t)queries);
$ if intervals then
    memcpy(lane_sees, see_some, sizeof lane_sees);
$ end
    for (int64_t i = 0; i < queries; i += GLINT_CPU_SQUARE) {
        const glint_line inverse = *(const glint_line_unaligned *)(sum + i);
        glint_linei sees;
        for (int r = 0; r < GLINT_CPU_SQUARE; r++)
            sees[r] = ${row_sees};
        glint_transpose_out(o + i * p->o.row, p->o.row, m->o_t + block * BLOCK_T + i, PITCH_M, queries - i, HEAD_DIM, &inverse, &sees);
    }
}

/* Rows of K or V from `key` on, in f32, [keys][PITCH_D]. `rows`: of the key head, in the first sequence or page. */
GLINT_OUTLINE void copy_rows(const struct glint_cpu_call *call, float *dst, const glint_kv *rows, const struct glint_strides *s,
                             int64_t batch, int64_t key, int64_t keys)
{
    for (int64_t i = 0, count; i < keys; i += count) {
        const struct glint_cpu_keys at = glint_cpu_keys_at(call->problem, call->tensors->page_table, batch, key + i);
        count = glint_clamp(keys - i, 0, at.rows);
        ${widen_rows}(dst + i * PITCH_D, PITCH_D, rows + at.page * s->batch + at.row * s->row, s->row, count, HEAD_DIM);
    }
}

/* O and LSE of a few query blocks of one head, in one pass over its keys. Everything is transposed: vector lanes are
 * queries, and softmax needs no sum across them. Under a mask the tasks of the last queries, which see the most keys,
 * come first. */
glint_cpu_phase_fn ${symbol};
void ${symbol}(const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    const struct glint_problem *p = call->problem;
    const struct glint_cpu_geometry *g = &call->geometry;
    const struct matrices m = {
        scratch + g->region[GLINT_FWD_Q_T], scratch + g->region[GLINT_FWD_O_T], scratch + g->region[GLINT_FWD_STATS],
        scratch + g->region[GLINT_FWD_S_T], scratch + g->region[GLINT_FWD_K],   scratch + g->region[GLINT_FWD_V],
        scratch + g->region[GLINT_FWD_ROW], scratch + g->region[GLINT_FWD_SCALE],
$ if narrow then
        scratch + g->region[GLINT_FWD_KEYS], scratch + g->region[GLINT_FWD_KEYS] + TILE_N + 16,
$ end
    };
    const int64_t head = task / g->tasks_per_head % p->heads_q, batch = task / g->tasks_per_head / p->heads_q;
$ if causal then
    const int64_t first_query = (g->tasks_per_head - 1 - task % g->tasks_per_head) * g->blocks_per_task * TILE_M;
$ else
    const int64_t first_query = task % g->tasks_per_head * g->blocks_per_task * TILE_M;
$ end
    const int64_t queries = glint_clamp(p->seqlen_q - first_query, 0, g->blocks_per_task * TILE_M);
    if (queries == 0)
        return; /* all of the task lies beyond the sequence's own length */
    const int64_t head_kv = head / (p->heads_q / p->heads_kv);
    const glint_element *q = (const glint_element *)call->tensors->q + batch * p->q.batch + head * p->q.head + first_query * p->q.row;
    const glint_kv *k = (const glint_kv *)call->tensors->k + head_kv * p->k.head;
    const glint_kv *v = (const glint_kv *)call->tensors->v + head_kv * p->v.head;
    glint_element *o = (glint_element *)call->tensors->o + batch * p->o.batch + head * p->o.head + first_query * p->o.row;
    float *lse = call->tensors->lse + (batch * p->heads_q + head) * call->queries + first_query;
    const float sink = p->sinks != 0 ? call->tensors->sinks[head] : -INFINITY;
$ if capped then
    const struct glint_softcap cap = glint_softcap_of(p->softcap);
$ end

    for (int64_t i = 0; i < queries; i += TILE_M)
        begin_block(p, &m, i / TILE_M, q + i * p->q.row, glint_clamp(queries - i, 0, TILE_M));

$ if intervals then
    const struct glint_intervals seen_by = {p, call->band, glint_cpu_interval(call, call->tensors->key_begin, batch),
                                            glint_cpu_interval(call, call->tensors->key_end, batch)${tree_bits and ", glint_cpu_tree_of(call, batch)" or ""}};
    const struct glint_extent all = glint_extent_of(&seen_by, first_query, queries);
    const int64_t keys_seen = all.end;
$ elseif causal then
    const int64_t keys_seen = glint_clamp(first_query + queries + call->band.last, 0, p->seqlen_k);
$ else
    const int64_t keys_seen = p->seqlen_k;
$ end
$ if bounds_first then
    const int64_t keys_hidden = ${hidden};
    for (int64_t first_key = keys_hidden / TILE_N * TILE_N; first_key < keys_seen; first_key += TILE_N) {
$ else
    for (int64_t first_key = 0; first_key < keys_seen; first_key += TILE_N) {
$ end
$ if intervals then
        if (!glint_blocks_see(&seen_by, first_query, queries, TILE_M, first_key, TILE_N))
            continue;
$ end
        struct tile t = {.k = m.k, .v = m.v, .k_pitch = PITCH_D, .v_pitch = PITCH_D${bounds_first and "" or ", .first = first_key == 0"}};
$ if capped then
        t.cap = p->softcap != 0.0f ? &cap : NULL;
$ end
        t.keys = glint_clamp(p->seqlen_k - first_key, 0, TILE_N);
$ if biased then
        t.bias = glint_bias_between(p, call->tensors, batch, head, first_query, first_key);
        t.queries = queries;
$ end
$ if ahead then
        struct glint_ahead ahead = {.rows = glint_clamp(keys_seen - first_key - TILE_N, 0, TILE_N)};
        if (ahead.rows > 0) { /* the stride of a single row may be any number */
            const struct glint_cpu_keys next = glint_cpu_keys_at(p, call->tensors->page_table, batch, first_key + TILE_N);
            ahead.rows = glint_clamp(ahead.rows, 0, next.rows);
            ahead.k = (const char *)(k + next.page * p->k.batch + next.row * p->k.row), ahead.k_stride = p->k.row * (ptrdiff_t)sizeof *k;
            ahead.v = (const char *)(v + next.page * p->v.batch + next.row * p->v.row), ahead.v_stride = p->v.row * (ptrdiff_t)sizeof *v;
        }
        t.ahead = &ahead;
$ end
$ if dtype == "f32" and not narrow then
        const struct glint_cpu_keys at = glint_cpu_keys_at(p, call->tensors->page_table, batch, first_key);
        if (queries > GLINT_CPU_VECS * GLINT_CPU_LANES || at.rows < t.keys) {
            /* read more than once: worth a copy whose rows lie close together; or of several pages */
            copy_rows(call, m.k, k, &p->k, batch, first_key, t.keys);
            copy_rows(call, m.v, v, &p->v, batch, first_key, t.keys);
        } else {
            t.k = k + at.page * p->k.batch + at.row * p->k.row, t.v = v + at.page * p->v.batch + at.row * p->v.row;
            t.k_pitch = p->k.row, t.v_pitch = p->v.row;
        }
$ else
        copy_rows(call, m.k, k, &p->k, batch, first_key, t.keys);
        copy_rows(call, m.v, v, &p->v, batch, first_key, t.keys);
$ end
$ if narrow then
        glint_bring_scales(m.k_scale, call, call->tensors->k_scale, batch, head_kv, first_key, t.keys);
        glint_bring_scales(m.v_scale, call, call->tensors->v_scale, batch, head_kv, first_key, t.keys);
$ end
$ if intervals then
        t.special = (all.last_first > first_key || all.first_end < first_key + t.keys) && ${special};
        t.intervals = &seen_by;
        t.key = first_key;
        for (int64_t i = 0; i < queries; i += TILE_M) {
            t.query = first_query + i;
            block_by_tile(&m, i / TILE_M, glint_clamp(queries - i, 0, TILE_M), &t);
        }
$ elseif causal then
        const int64_t shift = first_key - call->band.last - first_query; /* query i of the task sees key r of the tile iff i >= r + shift */
$ if bounds_first then
        const int64_t lag = first_query + call->band.first - first_key; /* and r >= i + lag */
        t.special = (t.keys - 1 + shift > 0 || queries - 1 + lag > 0) && ${special};
        for (int64_t i = glint_clamp(shift, 0, queries) / TILE_M * TILE_M; i < glint_clamp(t.keys - lag, 0, queries); i += TILE_M) {
            t.lag = lag + i;
$ else
        t.special = t.keys - 1 + shift > 0 && ${special};
        for (int64_t i = glint_clamp(shift, 0, queries) / TILE_M * TILE_M; i < queries; i += TILE_M) {
$ end
            t.shift = shift - i;
            block_by_tile(&m, i / TILE_M, glint_clamp(queries - i, 0, TILE_M), &t);
        }
$ else
        for (int64_t i = 0; i < queries; i += TILE_M)
            block_by_tile(&m, i / TILE_M, glint_clamp(queries - i, 0, TILE_M), &t);
$ end
    }

$ if causal and not intervals then
    const int64_t blind = p->seqlen_k > 0 ? glint_clamp(-call->band.last - first_query, 0, queries) : queries;
$ elseif not causal then
    const int64_t blind = p->seqlen_k > 0 ? 0 : queries;
$ end
$ if bounds_first and not intervals then
    const int64_t end = call->band.first <= call->band.last ? glint_clamp(p->seqlen_k - call->band.first - first_query, 0, queries) : 0;
$ end
$ if max_logit then
    float *const largest = p->max_logit != 0 ? glint_cpu_max_logit(call, scratch) + head : NULL;
$ end
    for (int64_t i = 0; i < queries; i += TILE_M)
        end_block(p, &m, i / TILE_M, o + i * p->o.row, lse + i, glint_clamp(queries - i, 0, TILE_M), sink, ${end_argument});
}
