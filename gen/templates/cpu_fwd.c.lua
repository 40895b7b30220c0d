$ include("cpu_head.c.lua")
$ local keys = causal and "visible.any" or "keys"

enum {
    HEAD_DIM = ${head_dim},
    TILE_M = ${tile_m}, /* queries */
    TILE_N = ${tile_n}, /* keys */
    PITCH_M = GLINT_CPU_PITCH(TILE_M),
    PITCH_D = GLINT_CPU_PITCH(HEAD_DIM),
    BLOCK_T = HEAD_DIM * PITCH_M, /* floats of a transposed query block */
};

/* The matrices of a lane's scratch: lib/cpu/cpu.h gives their shapes. */
struct matrices {
    float *q_t, *o_t, *stats, *s_t, *k, *v, *row, *scale;
};

/* Q^T times softmax_scale; O = 0, max = -inf, sum = 0. */
static void begin_block(const struct glint_problem *p, const struct matrices *m, int64_t block, const glint_element *q, int64_t queries)
{
    const int64_t columns = glint_panel_columns(queries);
    float *max = m->stats + block * 2 * PITCH_M, *sum = max + PITCH_M;
    for (int64_t i = 0; i < columns; i += 4) {
        const int64_t rows = glint_clamp(queries - i, 0, 4);
        glint_widen_rows(m->row, PITCH_D, q + i * p->q.row, p->q.row, rows, HEAD_DIM);
        glint_transpose_in(m->q_t + block * BLOCK_T + i, PITCH_M, m->row, PITCH_D, rows, HEAD_DIM, p->softmax_scale);
    }
    memset(m->o_t + block * BLOCK_T, 0, sizeof(float) * BLOCK_T);
    for (int64_t x = 0; x < columns; x += GLINT_CPU_LANES) {
        glint_store(max + x, glint_splat(-INFINITY));
        glint_store(sum + x, glint_splat(0.0f));
    }
}

$ if causal then
/* One tile: online softmax of `queries` queries over `keys` keys. Query i of the tile sees key r of it iff i >= r + shift. */
static void tile(const struct matrices *m, int64_t block, int64_t queries, const float *k, int64_t k_pitch, const float *v, int64_t v_pitch,
                 int64_t keys, int64_t shift)
$ else
/* One tile: online softmax of `queries` queries over `keys` keys. */
static void tile(const struct matrices *m, int64_t block, int64_t queries, const float *k, int64_t k_pitch, const float *v, int64_t v_pitch,
                 int64_t keys)
$ end
{
    const float *q_t = m->q_t + block * BLOCK_T;
    float *o_t = m->o_t + block * BLOCK_T, *max = m->stats + block * 2 * PITCH_M, *sum = max + PITCH_M;
    for (int64_t lane = 0, vecs; lane < queries; lane += vecs * GLINT_CPU_LANES) {
        vecs = glint_panel_vecs(queries - lane);
$ if causal then
        const int64_t lanes = glint_clamp(queries - lane, 0, vecs * GLINT_CPU_LANES);
        const struct glint_visible visible = glint_visible_keys(keys, lanes, lane, shift);
$ end

        /* S^T = K Q^T${causal and ", for the keys that some query of the panel sees" or ""}. */
        glint_gemm(vecs, &(struct glint_gemm){.c = m->s_t + lane, .ldc = PITCH_M, .a = k, .a_row = k_pitch, .a_k = 1, .b = q_t + lane,
                                              .ldb = PITCH_M, .rows = ${keys}, .depth = HEAD_DIM, .first_k = -TILE_N});

        /* P^T = exp(S^T - max). */
        for (int64_t x = lane; x < lane + vecs * GLINT_CPU_LANES; x += GLINT_CPU_LANES) {
$ if causal then
            glint_mask_scores(m->s_t + x, PITCH_M, visible, x - lane);
$ end
            glint_softmax_step(m->s_t + x, PITCH_M, ${keys}, max + x, sum + x, m->scale + x);
        }

$ if causal then
        /* O^T = scale O^T + V^T P^T. A hidden key has P = 0, which hides any finite V; other V rows are left out lane by lane. */
        struct glint_gemm pv = {.c = o_t + lane, .ldc = PITCH_M, .a = v, .a_row = 1, .a_k = v_pitch, .b = m->s_t + lane, .ldb = PITCH_M,
                                .rows = HEAD_DIM, .depth = visible.any, .first_k = -HEAD_DIM, .scale = m->scale + lane};
        if (glint_any_special(v + visible.all * v_pitch, v_pitch, visible.any - visible.all, HEAD_DIM)) {
            pv.depth = visible.all;
            glint_gemm(vecs, &pv);
            pv.depth = visible.any;
            glint_gemm_visible(vecs, &pv, visible.all, visible.shift);
        } else {
            glint_gemm(vecs, &pv);
        }
$ else
        /* O^T = scale O^T + V^T P^T. */
        glint_gemm(vecs, &(struct glint_gemm){.c = o_t + lane, .ldc = PITCH_M, .a = v, .a_row = 1, .a_k = v_pitch, .b = m->s_t + lane,
                                              .ldb = PITCH_M, .rows = HEAD_DIM, .depth = keys, .first_k = -HEAD_DIM,
                                              .scale = m->scale + lane});
$ end
    }
}

/* O = O / sum and LSE = max + log(sum). The first `blind` queries see no key: O = 0 and LSE = -inf. */
static void end_block(const struct glint_problem *p, const struct matrices *m, int64_t block, glint_element *o, float *lse, int64_t queries,
                      int64_t blind)
{
    const glint_veci lane_index = glint_lane_index();
    float *o_t = m->o_t + block * BLOCK_T, *max = m->stats + block * 2 * PITCH_M, *sum = max + PITCH_M;
    for (int64_t x = 0; x < queries; x += GLINT_CPU_LANES) {
        const glint_veci sees = lane_index >= (int32_t)glint_clamp(blind - x, 0, GLINT_CPU_LANES);
        const glint_vec total = glint_load(sum + x), inverse = 1.0f / total;
        for (int64_t d = 0; d < HEAD_DIM; d++) {
            const glint_vec value = glint_load(o_t + d * PITCH_M + x) * inverse;
            glint_store(o_t + d * PITCH_M + x, (glint_vec)(sees & (glint_veci)value));
        }
        glint_store(sum + x, glint_select(sees, glint_load(max + x) + glint_log(total), glint_splat(-INFINITY)));
    }
    memcpy(lse, sum, sizeof(float) * (size_t)queries);
    glint_transpose_out(o, p->o.row, o_t, PITCH_M, queries, HEAD_DIM, 1.0f, m->row, PITCH_D);
}

/* O and LSE of a few query blocks of one head, in one pass over its keys. Everything is transposed, so that vector lanes are queries:
$ if causal then
 * softmax needs no sum across lanes. Tasks of a head come last queries first: under the mask those see the most keys. */
$ else
 * softmax needs no sum across lanes. */
$ end
static void forward(const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    const struct glint_problem *p = call->problem;
    const struct glint_cpu_geometry *g = &call->geometry;
    const struct matrices m = {
        scratch + g->region[GLINT_FWD_Q_T], scratch + g->region[GLINT_FWD_O_T], scratch + g->region[GLINT_FWD_STATS],
        scratch + g->region[GLINT_FWD_S_T], scratch + g->region[GLINT_FWD_K],   scratch + g->region[GLINT_FWD_V],
        scratch + g->region[GLINT_FWD_ROW], scratch + g->region[GLINT_FWD_SCALE],
    };
    const int64_t head = task / g->tasks_per_head % p->heads_q, batch = task / g->tasks_per_head / p->heads_q;
$ if causal then
    const int64_t first_query = (g->tasks_per_head - 1 - task % g->tasks_per_head) * g->blocks_per_task * TILE_M;
$ else
    const int64_t first_query = task % g->tasks_per_head * g->blocks_per_task * TILE_M;
$ end
    const int64_t queries = glint_clamp(p->seqlen_q - first_query, 0, g->blocks_per_task * TILE_M);
    const int64_t head_kv = head / (p->heads_q / p->heads_kv);
    const glint_element *q = (const glint_element *)call->tensors->q + batch * p->q.batch + head * p->q.head + first_query * p->q.row;
    const glint_element *k = (const glint_element *)call->tensors->k + batch * p->k.batch + head_kv * p->k.head;
    const glint_element *v = (const glint_element *)call->tensors->v + batch * p->v.batch + head_kv * p->v.head;
    glint_element *o = (glint_element *)call->tensors->o + batch * p->o.batch + head * p->o.head + first_query * p->o.row;
    float *lse = call->tensors->lse + (batch * p->heads_q + head) * p->seqlen_q + first_query;

    for (int64_t i = 0; i < queries; i += TILE_M)
        begin_block(p, &m, i / TILE_M, q + i * p->q.row, glint_clamp(queries - i, 0, TILE_M));

$ if causal then
    const int64_t keys_seen = glint_clamp(first_query + queries + call->offset, 0, p->seqlen_k);
$ else
    const int64_t keys_seen = p->seqlen_k;
$ end
    for (int64_t first_key = 0; first_key < keys_seen; first_key += TILE_N) {
        const int64_t keys = glint_clamp(p->seqlen_k - first_key, 0, TILE_N);
        const glint_element *k_rows = k + first_key * p->k.row, *v_rows = v + first_key * p->v.row;
$ if dtype == "f32" then
        const float *k_tile = k_rows, *v_tile = v_rows;
        int64_t k_pitch = p->k.row, v_pitch = p->v.row;
        if (queries > GLINT_CPU_VECS * GLINT_CPU_LANES) { /* read more than once: worth a copy whose rows lie close together */
            glint_widen_rows(m.k, PITCH_D, k_rows, k_pitch, keys, HEAD_DIM);
            glint_widen_rows(m.v, PITCH_D, v_rows, v_pitch, keys, HEAD_DIM);
            k_tile = m.k, v_tile = m.v;
            k_pitch = v_pitch = PITCH_D;
        }
$ else
        glint_widen_rows(m.k, PITCH_D, k_rows, p->k.row, keys, HEAD_DIM);
        glint_widen_rows(m.v, PITCH_D, v_rows, p->v.row, keys, HEAD_DIM);
$ end
$ local tiles = dtype == "f32" and "k_tile, k_pitch, v_tile, v_pitch" or "m.k, PITCH_D, m.v, PITCH_D"
$ if causal then
        const int64_t first = glint_clamp(first_key - call->offset - first_query, 0, queries); /* to see any of these keys */
        for (int64_t i = first / TILE_M * TILE_M; i < queries; i += TILE_M)
            tile(&m, i / TILE_M, glint_clamp(queries - i, 0, TILE_M), ${tiles}, keys,
                 first_key - call->offset - first_query - i);
$ else
        for (int64_t i = 0; i < queries; i += TILE_M)
            tile(&m, i / TILE_M, glint_clamp(queries - i, 0, TILE_M), ${tiles}, keys);
$ end
    }

$ if causal then
    const int64_t blind = p->seqlen_k > 0 ? glint_clamp(-call->offset - first_query, 0, queries) : queries;
$ else
    const int64_t blind = p->seqlen_k > 0 ? 0 : queries;
$ end
    for (int64_t i = 0; i < queries; i += TILE_M)
        end_block(p, &m, i / TILE_M, o + i * p->o.row, lse + i, glint_clamp(queries - i, 0, TILE_M), blind - i);
}

const struct glint_cpu_kernel ${symbol};
const struct glint_cpu_kernel ${symbol} = {.phase = {forward, NULL}};
