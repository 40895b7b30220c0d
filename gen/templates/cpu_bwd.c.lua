$ include("cpu_head.c.lua")
$ if capped then
#include "lib/cpu/softcap.h"
$ end
$ local at_none, k_none, with_keys = "", "", "glint_rows_with_keys(call, first)"
$ local first_row, last_row = "0", "rows" -- the rows of S^T that some query of the block may see
$ if intervals then first_row, last_row = "none", "none + rows" end
$ if intervals then at_none, k_none, with_keys = "none * PITCH_M + ", " + none * PITCH_D", "glint_see_some(&seen_by, first, queries)" end
$ local lag = bounds_first and "lag, " or ""
$ local score_parameters, score = capped and "float softcap, " or "", capped and "p->softcap, " or ""
$ if biased then -- a bias of query 0 and the first key
$   score_parameters, score = score_parameters .. "const struct glint_bias_source *source, ", score .. "&source, "
$ end
$ if bias_tensor then
$   score_parameters, score = score_parameters .. "const struct glint_dbias *dbias, ", score .. "&dbias, "
$ end
$ local slope = bias_tensor and "m->ds_t + BIAS + " .. at_none .. "x - lane" or "NULL"
$ local bias = biased and "&bias, x - lane, " .. first_row or "NULL, 0, 0"

enum {
    HEAD_DIM = ${head_dim},
    TILE_M = ${tile_m}, /* queries */
    TILE_N = ${tile_n}, /* keys */
    PITCH_M = GLINT_CPU_PITCH(TILE_M),
    PITCH_D = GLINT_CPU_PITCH(HEAD_DIM),
    BLOCK_T = HEAD_DIM * PITCH_M, /* floats of a transposed query block */
    BLOCK = TILE_M * PITCH_D,     /* floats of a query block */
$ if biased then
    BIAS = TILE_N * PITCH_M, /* of a panel, after dS */
$ end
};

/* The matrices of a lane's scratch: lib/cpu/cpu.h gives their shapes. */
struct matrices {
    float *q_t, *dout_t, *dq_t, *q, *dout, *stats, *dk, *dv, *k, *v, *p_t, *ds_t, *row, *o_t;
};

/* Brings one query head into scratch in f32: Q and dO both ways, LSE, and delta = rowsum(dO * O) - dLSE. Where
 * sink_delta is given it becomes the sum over the rows of exp(sink - LSE) delta; of delta a row that sees no key has -
 * dLSE alone. */
static void load_head(const struct glint_cpu_call *call, const struct matrices *m, int64_t batch, int64_t head, float *sink_delta)
{
    const struct glint_problem *p = call->problem;
    const struct glint_tensors *t = call->tensors;
    const glint_element *q = (const glint_element *)t->q + batch * p->q.batch + head * p->q.head;
    const glint_element *o = (const glint_element *)t->o + batch * p->o.batch + head * p->o.head;
    const glint_element *dout = (const glint_element *)t->dout + batch * p->dout.batch + head * p->dout.head;
    const float *lse = t->lse + (batch * p->heads_q + head) * call->queries;
    glint_vec sink_sum = glint_splat(0.0f);
$ if intervals then
    const struct glint_intervals seen_by = {p, call->band, glint_cpu_interval(call, t->key_begin, batch),
                                            glint_cpu_interval(call, t->key_end, batch)};
$ end
    for (int64_t first = 0; first < p->seqlen_q; first += GLINT_CPU_LANES) {
        const int64_t queries = glint_clamp(p->seqlen_q - first, 0, GLINT_CPU_LANES), lane = first % TILE_M;
        float *q_rows = m->q + first * PITCH_D, *dout_rows = m->dout + first * PITCH_D;
        float *q_t = m->q_t + first / TILE_M * BLOCK_T + lane, *dout_t = m->dout_t + first / TILE_M * BLOCK_T + lane;
        glint_widen_rows(q_rows, PITCH_D, q + first * p->q.row, p->q.row, queries, HEAD_DIM);
        glint_widen_rows(dout_rows, PITCH_D, dout + first * p->dout.row, p->dout.row, queries, HEAD_DIM);
        for (int64_t i = 0; i < GLINT_CPU_LANES; i += GLINT_CPU_SQUARE) {
            const int64_t rows = glint_clamp(queries - i, 0, GLINT_CPU_SQUARE);
            glint_transpose_in(q_t + i, PITCH_M, q_rows + i * PITCH_D, PITCH_D, rows, HEAD_DIM, p->softmax_scale);
            glint_transpose_in(dout_t + i, PITCH_M, dout_rows + i * PITCH_D, PITCH_D, rows, HEAD_DIM, 1.0f);
            glint_widen_rows(m->row, PITCH_D, rows > 0 ? o + (first + i) * p->o.row : o, p->o.row, rows, HEAD_DIM);
            glint_transpose_in(m->o_t + i, 16, m->row, PITCH_D, rows, HEAD_DIM, 1.0f);
        }

        /* Summed in the order of dP: where one key has all the weight, dP - delta is exactly zero. */
        glint_vec delta = glint_splat(0.0f);
        for (int64_t d = 0; d < HEAD_DIM; d++)
            delta = glint_fma(glint_load(m->o_t + d * 16), glint_load(dout_t + d * PITCH_M), delta);
        float *stats = m->stats + first / TILE_M * 2 * PITCH_M + lane;
        glint_store(stats, glint_splat(0.0f));
        memcpy(stats, lse + first, sizeof(float) * (size_t)queries);
        const glint_vec dlse = glint_dlse_of(call, batch, head, first, queries);
        delta -= dlse;
        glint_store(stats + PITCH_M, delta);
        if (sink_delta)
            sink_sum += glint_sink_share(${with_keys}, t->sinks[head],
                                         glint_load(stats), delta, dlse);
    }
    if (sink_delta) {
        *sink_delta = 0.0f;
        for (int i = 0; i < GLINT_CPU_LANES; i++)
            *sink_delta += sink_sum[i];
    }
}

$ if intervals then
/* One tile: adds what its keys, from first_key on, and its queries give each other to dK, dV and dQ^T. */
static void tile(const struct matrices *m, ${score_parameters}int64_t block, int64_t queries, int64_t keys, const struct glint_intervals *seen_by,
                 int64_t first_key, float *dq_t, float *dk, float *dv)
$ elseif bounds_first then
/* One tile: adds what its keys and queries give each other to dK, dV and dQ^T. Query i of the tile sees key r of it iff
 * i >= r + shift and r >= i + lag. */
static void tile(const struct matrices *m, ${score_parameters}int64_t block, int64_t queries, int64_t keys, int64_t shift, int64_t lag, float *dq_t,
                 float *dk, float *dv)
$ elseif causal then
/* One tile: adds what its keys and queries give each other to dK, dV and dQ^T. Query i of the tile sees key r of it iff
 * i >= r + shift. */
static void tile(const struct matrices *m, ${score_parameters}int64_t block, int64_t queries, int64_t keys, int64_t shift, float *dq_t, float *dk, float *dv)
$ else
/* One tile: adds what its keys and queries give each other to dK, dV and dQ^T. */
static void tile(const struct matrices *m, ${score_parameters}int64_t block, int64_t queries, int64_t keys, float *dq_t, float *dk, float *dv)
$ end
{
    const float *q = m->q + block * BLOCK, *dout = m->dout + block * BLOCK;
    const float *q_t = m->q_t + block * BLOCK_T, *dout_t = m->dout_t + block * BLOCK_T, *stats = m->stats + block * 2 * PITCH_M;
    dq_t += block * BLOCK_T;
$ if causal then

    /* A hidden pair has P = dS = 0, which hides any finite Q, dO and K; otherwise pairs are left out one by one. */
$ if intervals then
    const struct glint_extent extent = glint_extent_of(seen_by, block * TILE_M, queries);
    const bool hides = extent.last_first > first_key || extent.first_end < first_key + keys;
    const bool special = hides && (glint_any_special(q, PITCH_D, queries, HEAD_DIM) || glint_any_special(dout, PITCH_D, queries, HEAD_DIM) ||
                                   glint_any_special(m->k, PITCH_D, keys, HEAD_DIM));
$ elseif bounds_first then
    const bool hides = keys - 1 + shift > 0 || queries - 1 + lag > 0;
    const bool special = hides && (glint_any_special(q, PITCH_D, queries, HEAD_DIM) || glint_any_special(dout, PITCH_D, queries, HEAD_DIM) ||
                                   glint_any_special(m->k, PITCH_D, keys, HEAD_DIM));
$ else
    const bool special = keys - 1 + shift > 0 && (glint_any_special(q, PITCH_D, queries, HEAD_DIM) ||
                                                  glint_any_special(dout, PITCH_D, queries, HEAD_DIM) ||
                                                  glint_any_special(m->k, PITCH_D, keys, HEAD_DIM));
$ end
$ end
    for (int64_t lane = 0, vecs; lane < queries; lane += vecs * GLINT_CPU_LANES) {
        vecs = glint_panel_vecs(queries - lane);
$ if intervals then
        struct glint_limits limits;
        struct glint_visible visible;
        struct glint_late late;
        glint_find_limits(seen_by, block * TILE_M + lane, queries - lane, vecs * GLINT_CPU_LANES, first_key, keys, &limits, &visible, &late);
        /* Of the panel some query sees the keys [none, none + rows) at most; the rest of P and dS is zero. */
        const int64_t rows = glint_clamp(visible.any - late.none, 0, keys), none = rows > 0 ? late.none : 0;
        glint_clear_gradient(vecs, m->p_t + lane, m->ds_t + lane, PITCH_M, 0, none);
        glint_clear_gradient(vecs, m->p_t + lane, m->ds_t + lane, PITCH_M, none + rows, keys);
        if (rows == 0)
            continue;
$ elseif causal then
        const int64_t lanes = glint_clamp(queries - lane, 0, vecs * GLINT_CPU_LANES);
        const struct glint_visible visible = glint_visible_keys(keys, lanes, lane, shift);
        /* A few rows more, so that the row tiles of dV and dK, which cross the diagonal, find zeros there. */
        const struct glint_visible needed = {visible.all, glint_clamp(visible.any + GLINT_CPU_ROWS - 1, 0, keys), visible.shift};
        const int64_t rows = needed.any;
$ if bounds_first then
        const struct glint_late late = glint_late_keys(keys, lanes, lane, lag);
$ end
$ else
        const int64_t rows = keys;
$ end

        /* S^T = K Q^T and dP^T = V dO^T. */
        glint_gemm(vecs, &(struct glint_gemm){.c = m->p_t + ${at_none}lane, .ldc = PITCH_M, .a = m->k${k_none}, .a_row = PITCH_D, .a_k = 1,
                                              .b = q_t + lane, .ldb = PITCH_M, .rows = rows, .depth = HEAD_DIM, .first_k = -TILE_N});
        glint_gemm(vecs, &(struct glint_gemm){.c = m->ds_t + ${at_none}lane, .ldc = PITCH_M, .a = m->v${k_none}, .a_row = PITCH_D, .a_k = 1,
                                              .b = dout_t + lane, .ldb = PITCH_M, .rows = rows, .depth = HEAD_DIM, .first_k = -TILE_N});
$ if biased then
        const struct glint_bias bias = glint_bias_panel(source, m->ds_t + BIAS, PITCH_M, vecs * GLINT_CPU_LANES, block * TILE_M + lane,
                                                        queries - lane, ${first_row}, ${last_row});
$ end

        /* P = exp(S - LSE) and dS = P (dP - delta). */
        for (int64_t x = lane; x < lane + vecs * GLINT_CPU_LANES; x += GLINT_CPU_LANES) {
$ if capped then
            if (softcap != 0.0f)
                glint_softcap_gradient(m->p_t + ${at_none}x, m->ds_t + ${at_none}x, PITCH_M, rows, stats + x, stats + PITCH_M + x, glint_softcap_of(softcap), ${bias}, ${slope});
            else
                glint_softmax_gradient(m->p_t + ${at_none}x, m->ds_t + ${at_none}x, PITCH_M, rows, stats + x, stats + PITCH_M + x, ${bias});
$ else
            glint_softmax_gradient(m->p_t + ${at_none}x, m->ds_t + ${at_none}x, PITCH_M, rows, stats + x, stats + PITCH_M + x, ${bias});
$ end
$ if intervals then
            if (visible.all < none + rows || late.all > none)
                glint_mask_gradient_within(m->p_t + x, m->ds_t + x, PITCH_M, none, none + rows, &limits, (int)((x - lane) / GLINT_CPU_LANES));
$ elseif causal then
            glint_mask_gradient(m->p_t + x, m->ds_t + x, PITCH_M, needed, x - lane);
$ end
$ if bounds_first and not intervals then
            glint_mask_gradient_late(m->p_t + x, m->ds_t + x, PITCH_M, late, x - lane);
$ end
        }
$ if bias_tensor then
        if (dbias->sums)
            glint_dbias_add(dbias->sums + block * PITCH_M + lane, dbias->pitch, m->ds_t + lane, PITCH_M,
                            glint_clamp(queries - lane, 0, vecs * GLINT_CPU_LANES), ${first_row}, ${last_row});
$ end
$ if bias_tensor and capped then
        for (int64_t r = ${first_row}; softcap != 0.0f && r < ${last_row}; r++)
            for (int64_t x = 0; x < vecs * GLINT_CPU_LANES; x += GLINT_CPU_LANES) {
                float *ds = m->ds_t + r * PITCH_M + lane + x;
                glint_store(ds, glint_load(ds) * glint_load(m->ds_t + BIAS + r * PITCH_M + x));
            }
$ end

        /* dQ^T += K^T dS^T. */
$ if causal then
        struct glint_gemm dq = {.c = dq_t + lane, .ldc = PITCH_M, .a = m->k, .a_row = 1, .a_k = PITCH_D, .b = m->ds_t + lane,
                                .ldb = PITCH_M, .rows = HEAD_DIM, .depth = visible.any, .first_k = -HEAD_DIM, .add = true};
$ if intervals then
        if (special) {
            glint_gemm_within(vecs, &dq, none, limits.first, limits.end);
        } else {
            dq.a += none * PITCH_D, dq.b += none * PITCH_M, dq.depth = rows;
            glint_gemm(vecs, &dq);
        }
$ elseif bounds_first then
        if (special)
            glint_gemm_band(vecs, &dq, late.none, visible.shift, late.lag);
        else
            glint_gemm(vecs, &dq);
$ else
        if (special) {
            dq.depth = visible.all;
            glint_gemm(vecs, &dq);
            dq.depth = visible.any;
            glint_gemm_visible(vecs, &dq, visible.all, visible.shift);
        } else {
            glint_gemm(vecs, &dq);
        }
$ end
$ else
        glint_gemm(vecs, &(struct glint_gemm){.c = dq_t + lane, .ldc = PITCH_M, .a = m->k, .a_row = 1, .a_k = PITCH_D,
                                              .b = m->ds_t + lane, .ldb = PITCH_M, .rows = HEAD_DIM, .depth = keys,
                                              .first_k = -HEAD_DIM, .add = true});
$ end
    }

$ if intervals then
    const int64_t shift = glint_clamp(first_key + 1 - extent.lead, -TILE_N, queries); /* query i sees no key r beyond i - shift */
$ end
$ local first_k = causal and "shift" or "-TILE_N"
    /* dV += P^T dO and dK += dS^T Q; lanes are now the head dim. */
    for (int64_t x = 0, vecs; x < HEAD_DIM; x += vecs * GLINT_CPU_LANES) {
        vecs = glint_panel_vecs(HEAD_DIM - x);
        struct glint_gemm dv_gemm = {.c = dv + x, .ldc = PITCH_D, .a = m->p_t, .a_row = PITCH_M, .a_k = 1, .b = dout + x, .ldb = PITCH_D,
                                     .rows = keys, .depth = queries, .first_k = ${first_k}, .add = true};
        struct glint_gemm dk_gemm = {.c = dk + x, .ldc = PITCH_D, .a = m->ds_t, .a_row = PITCH_M, .a_k = 1, .b = q + x, .ldb = PITCH_D,
                                     .rows = keys, .depth = queries, .first_k = ${first_k}, .add = true};
$ if causal then
        if (special) {
            dv_gemm.rows = dk_gemm.rows = 1;
            for (int64_t r = 0; r < keys; r++) {
$ if intervals then
                /* queries, one after another, that see the key */
                for (int64_t i = 0, end; i < queries; i = end + 1) {
                    for (end = i; end < queries && glint_sees(seen_by, block * TILE_M + end, first_key + r); end++)
                        ;
                    dv_gemm.first_k = dk_gemm.first_k = i;
                    dv_gemm.depth = dk_gemm.depth = end;
                    if (i < end) {
                        glint_gemm(vecs, &dv_gemm);
                        glint_gemm(vecs, &dk_gemm);
                    }
                }
                dv_gemm.c += PITCH_D, dv_gemm.a += PITCH_M;
                dk_gemm.c += PITCH_D, dk_gemm.a += PITCH_M;
$ else
$ if bounds_first then
                const int64_t start = glint_clamp(r + shift, 0, queries); /* of the queries that see the key */
                dv_gemm.depth = dk_gemm.depth = glint_clamp(r - lag + 1, start, queries);
$ end
                glint_gemm(vecs, &dv_gemm);
                glint_gemm(vecs, &dk_gemm);
                dv_gemm.c += PITCH_D, dv_gemm.a += PITCH_M, dv_gemm.first_k++;
                dk_gemm.c += PITCH_D, dk_gemm.a += PITCH_M, dk_gemm.first_k++;
$ end
            }
            continue;
        }
$ end
        glint_gemm(vecs, &dv_gemm);
        glint_gemm(vecs, &dk_gemm);
    }
}

/* Writes dQ of query block `block` of a head. */
static void store_dq(const struct glint_cpu_call *call, int64_t batch, int64_t head, int64_t block, const float *dq_t)
{
    const struct glint_problem *p = call->problem;
    const int64_t first = block * TILE_M, queries = glint_clamp(p->seqlen_q - first, 0, TILE_M);
    glint_element *dq = (glint_element *)call->tensors->dq + batch * p->dq.batch + head * p->dq.head + first * p->dq.row;
    const glint_line scale = p->softmax_scale - (glint_line){0};
    const glint_linei keep = ~(glint_linei){0};
    for (int64_t i = 0; i < queries; i += GLINT_CPU_SQUARE)
        glint_transpose_out(dq + i * p->dq.row, p->dq.row, dq_t + i, PITCH_M, queries - i, HEAD_DIM, &scale, &keep);
}

/* dK and dV of one key head, and dQ of the query heads that read it. When the problem is split, of one group of key
 * blocks, and its part of dQ goes to the workspace. dQ is summed within a group of key blocks (kb = group mod
 * key_groups), then over the groups in order. */
glint_cpu_phase_fn ${symbol};
void ${symbol}(const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    const struct glint_problem *p = call->problem;
    const struct glint_cpu_geometry *g = &call->geometry;
    const struct matrices m = {
        scratch + g->region[GLINT_BWD_Q_T], scratch + g->region[GLINT_BWD_DO_T], scratch + g->region[GLINT_BWD_DQ_T],
        scratch + g->region[GLINT_BWD_Q], scratch + g->region[GLINT_BWD_DO], scratch + g->region[GLINT_BWD_STATS],
        scratch + g->region[GLINT_BWD_DK], scratch + g->region[GLINT_BWD_DV], scratch + g->region[GLINT_BWD_K],
        scratch + g->region[GLINT_BWD_V], scratch + g->region[GLINT_BWD_P_T], scratch + g->region[GLINT_BWD_DS_T],
        scratch + g->region[GLINT_BWD_ROW], scratch + g->region[GLINT_BWD_O_T],
    };
    const bool split = g->split > 1;
    const int64_t first_group = task % g->split, last_group = split ? first_group : g->key_groups - 1;
    const int64_t block_step = g->split, first_block = first_group; /* key blocks of this task; the n-th has the n-th dK and dV */
    const int64_t head_kv = task / g->split % p->heads_kv, batch = task / g->split / p->heads_kv;
    const int64_t head_group = p->heads_q / p->heads_kv;
    const glint_element *k = (const glint_element *)call->tensors->k + batch * p->k.batch + head_kv * p->k.head;
    const glint_element *v = (const glint_element *)call->tensors->v + batch * p->v.batch + head_kv * p->v.head;

$ if intervals then
    const struct glint_intervals seen_by = {p, call->band, glint_cpu_interval(call, call->tensors->key_begin, batch),
                                            glint_cpu_interval(call, call->tensors->key_end, batch)};
$ end
    const int64_t own_blocks = (g->key_blocks - first_block + block_step - 1) / block_step;
    memset(m.dk, 0, sizeof(float) * (size_t)(own_blocks * TILE_N * PITCH_D));
    memset(m.dv, 0, sizeof(float) * (size_t)(own_blocks * TILE_N * PITCH_D));
    for (int64_t head = head_kv * head_group; head < (head_kv + 1) * head_group; head++) {
$ if bias_tensor then
        float *sums = NULL; /* of this head's dBias */
        if (call->dbias.sums) {
            const struct glint_cpu_dbias *d = &call->dbias;
            const int64_t sequence = d->sequence + batch;
            sums = glint_cpu_dbias_sums(p, d, sequence / d->per_group, p->bias.head != 0 ? head : head_kv, TILE_N);
            const bool begins = sequence % d->per_group == 0 && (p->bias.head != 0 || head == head_kv * head_group);
            for (int64_t b = first_block; begins && b < d->key_blocks; b += block_step)
                memset(sums + b * TILE_N * d->pitch, 0, sizeof(float) * (size_t)(TILE_N * d->pitch));
        }
$ end
        load_head(call, &m, batch, head, p->sinks != 0 && first_group == 0 ? glint_cpu_sink_delta(call, batch, head) : NULL);
        for (int64_t group = first_group; group <= last_group; group++) {
            float *dq_t = m.dq_t;
            if (split)
                dq_t = call->partials + (uint64_t)((group * p->batch + batch) * p->heads_q + head) * g->partial_floats;
            else if (group > 0)
                dq_t += g->query_blocks * BLOCK_T;
            memset(dq_t, 0, sizeof(float) * (size_t)(g->query_blocks * BLOCK_T));
            for (int64_t key_block = group; key_block < g->key_blocks; key_block += g->key_groups) {
                const int64_t first_key = key_block * TILE_N, keys = glint_clamp(p->seqlen_k - first_key, 0, TILE_N);
$ if biased then
                const struct glint_bias_source source = glint_bias_between(p, call->tensors, batch, head, 0, first_key);
$ end
$ if bias_tensor then
                const struct glint_dbias dbias = {sums ? sums + first_key * call->dbias.pitch : NULL, call->dbias.pitch};
$ end
                const int64_t n = (key_block - first_block) / block_step * TILE_N * PITCH_D;
$ if intervals then
                if (!glint_blocks_see(&seen_by, 0, p->seqlen_q, TILE_M, first_key, keys))
                    continue;
$ elseif bounds_first then
                const int64_t first_query = glint_clamp(first_key - call->band.last, 0, p->seqlen_q); /* to see any of these keys */
                const int64_t end_query = glint_clamp(first_key + keys - call->band.first, 0, p->seqlen_q);
                if (first_query >= end_query)
                    continue;
$ end
                glint_widen_rows(m.k, PITCH_D, k + first_key * p->k.row, p->k.row, keys, HEAD_DIM);
                glint_widen_rows(m.v, PITCH_D, v + first_key * p->v.row, p->v.row, keys, HEAD_DIM);
$ if intervals then
                for (int64_t block = 0; block < g->query_blocks; block++) {
                    const int64_t queries = glint_clamp(p->seqlen_q - block * TILE_M, 0, TILE_M);
                    if (glint_block_sees(&seen_by, block * TILE_M, queries, first_key, keys))
                        tile(&m, ${score}block, queries, keys, &seen_by, first_key, dq_t, m.dk + n, m.dv + n);
                }
$ elseif causal then
$ if not bounds_first then
                const int64_t first_query = glint_clamp(first_key - call->band.last, 0, p->seqlen_q); /* to see any of these keys */
$ end
$ if bounds_first then
                for (int64_t block = first_query / TILE_M; block * TILE_M < end_query; block++) {
                    const int64_t queries = glint_clamp(p->seqlen_q - block * TILE_M, 0, TILE_M);
                    const int64_t lag = block * TILE_M + call->band.first - first_key;
$ else
                for (int64_t block = first_query / TILE_M; block < g->query_blocks; block++) {
                    const int64_t queries = glint_clamp(p->seqlen_q - block * TILE_M, 0, TILE_M);
$ end
                    tile(&m, ${score}block, queries, keys, first_key - block * TILE_M - call->band.last, ${lag}dq_t, m.dk + n, m.dv + n);
                }
$ else
                for (int64_t block = 0; block < g->query_blocks; block++)
                    tile(&m, ${score}block, glint_clamp(p->seqlen_q - block * TILE_M, 0, TILE_M), keys, dq_t, m.dk + n, m.dv + n);
$ end
            }
            if (!split && group > 0)
                for (int64_t i = 0; i < g->query_blocks * BLOCK_T; i += GLINT_CPU_LANES)
                    glint_store(m.dq_t + i, glint_load(m.dq_t + i) + glint_load(dq_t + i));
        }
        if (!split)
            for (int64_t block = 0; block < g->query_blocks; block++)
                store_dq(call, batch, head, block, m.dq_t + block * BLOCK_T);
    }

    glint_element *dk = (glint_element *)call->tensors->dk + batch * p->dk.batch + head_kv * p->dk.head;
    glint_element *dv = (glint_element *)call->tensors->dv + batch * p->dv.batch + head_kv * p->dv.head;
    for (int64_t key_block = first_block; key_block < g->key_blocks; key_block += block_step) {
        const int64_t first_key = key_block * TILE_N, keys = glint_clamp(p->seqlen_k - first_key, 0, TILE_N);
        const int64_t n = (key_block - first_block) / block_step * TILE_N * PITCH_D;
        glint_narrow_rows(dk + first_key * p->dk.row, p->dk.row, m.dk + n, PITCH_D, keys, HEAD_DIM, p->softmax_scale);
        glint_narrow_rows(dv + first_key * p->dv.row, p->dv.row, m.dv + n, PITCH_D, keys, HEAD_DIM, 1.0f);
    }
}

$ if bias_tensor then
$ include("cpu_dbias.c.lua")
/* dQ of one query block of one head: the sum of the groups' parts, in order. Only when the problem is split. Tasks
 * below 0 are of dBias. */
$ else
/* dQ of one query block of one head: the sum of the groups' parts, in order. Only when the problem is split. */
$ end
glint_cpu_phase_fn ${symbol}_then;
void ${symbol}_then(const struct glint_cpu_call *call, float *scratch, int64_t task)
{
$ if bias_tensor then
    if (task < 0) {
        sum_dbias(call, scratch, -1 - task);
        return;
    }
$ end
    const struct glint_problem *p = call->problem;
    const struct glint_cpu_geometry *g = &call->geometry;
    const int64_t block = task % g->query_blocks, head = task / g->query_blocks % p->heads_q;
    const int64_t batch = task / g->query_blocks / p->heads_q;
    float *dq_t = scratch + g->region[GLINT_BWD_Q_T];
    for (int64_t group = 0; group < g->key_groups; group++) {
        const float *part = call->partials + (uint64_t)((group * p->batch + batch) * p->heads_q + head) * g->partial_floats +
                            block * BLOCK_T;
        for (int64_t i = 0; i < BLOCK_T; i += GLINT_CPU_LANES)
            glint_store(dq_t + i, group == 0 ? glint_load(part + i) : glint_load(dq_t + i) + glint_load(part + i));
    }
    store_dq(call, batch, head, block, dq_t);
}
