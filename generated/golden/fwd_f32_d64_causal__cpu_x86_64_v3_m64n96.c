/* fwd_f32_d64_causal__cpu_x86_64_v3_m64n96
 *
 * Attention, forward: O and LSE from Q, K, V; f32, head_dim 64, causal, both alignments.
 * ISA: x86-64-v3 (AVX2, FMA, F16C).
 * Tile: 64 queries x 96 keys. Micro-kernel: 6 rows x 2 vectors of 8 floats.
 * Working set of a tile: 104 KiB in f32.
 *
 * Made from gen/templates/cpu_fwd.c.lua by
 *   lua5.4 gen/glint.lua emit --spec generated/golden/golden.lua --variant fwd_f32_d64_causal__cpu_x86_64_v3_m64n96
 * and overwritten by it: change the template or the spec. */

#define GLINT_CPU_LANES 8  /* floats in a vector */
#define GLINT_CPU_ROWS 6   /* register tile of the products: rows */
#define GLINT_CPU_VECS 2   /* by vectors */
#define GLINT_CPU_DTYPE f32
#define GLINT_CPU_ELEMENT float
#include "lib/cpu/cpu.h"
#include "lib/cpu/gemm.h"
#include "lib/cpu/rows.h"
#include "lib/cpu/softmax.h"
#include "lib/cpu/forward.h"

enum {
    HEAD_DIM = 64,
    TILE_M = 64, /* queries */
    TILE_N = 96, /* keys */
    PITCH_M = GLINT_CPU_PITCH(TILE_M),
    PITCH_D = GLINT_CPU_PITCH(HEAD_DIM),
    BLOCK_T = HEAD_DIM * PITCH_M, /* floats of a transposed query block */
};

/* The matrices of a lane's scratch: lib/cpu/cpu.h gives their shapes. */
struct matrices {
    float *q_t, *o_t, *stats, *s_t, *k, *v, *row, *scale;
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
        glint_transpose_in(q_t, PITCH_M, q_rows, p->q.row, rows, HEAD_DIM, p->softmax_scale);
    }
    for (int64_t x = 0; x < columns; x += GLINT_CPU_LANES) {
        glint_store(max + x, glint_splat(-INFINITY));
        glint_store(sum + x, glint_splat(0.0f));
    }
}

/* A tile: keys and values in f32, [keys][pitch]. */
struct tile {
    const float *k, *v;
    ptrdiff_t k_pitch, v_pitch;
    int64_t keys;
    bool first; /* nothing is summed yet */
    struct glint_ahead *ahead;
    bool special; /* some value is inf or NaN, in a tile that not every query of the task sees whole */
    int64_t shift; /* query i of the block sees key r of the tile iff i >= r + shift */
};

/* Online softmax of `vecs` vectors of queries, from query `lane` of the block on, over a tile. */
GLINT_INLINE void panel(const int vecs, const struct matrices *m, int64_t block, int64_t lane, const struct tile *t, struct glint_visible visible)
{
    const float *q_t = m->q_t + block * BLOCK_T + lane;
    float *o_t = m->o_t + block * BLOCK_T + lane, *max = m->stats + block * 2 * PITCH_M + lane, *sum = max + PITCH_M, *s_t = m->s_t + lane;
    _Alignas(64) float new_max[GLINT_CPU_VECS * GLINT_CPU_LANES];
    memcpy(new_max, max, sizeof(float) * (size_t)(vecs * GLINT_CPU_LANES));

    /* S^T = K Q^T, for the keys that some query of the panel sees; then P^T = exp(S^T - max). */
    glint_scores(vecs, s_t, PITCH_M, t->k, t->k_pitch, q_t, HEAD_DIM, new_max, true, visible, t->ahead,
                 HEAD_DIM * (ptrdiff_t)sizeof(glint_kv), NULL, NULL);
    glint_softmax_step(vecs, s_t, PITCH_M, visible.any, new_max, max, sum, m->scale, NULL);

    const float *scale = t->first ? NULL : m->scale;
    /* O^T = scale O^T + V^T P^T. A hidden key has P = 0, which hides any finite V; other V rows are left out lane by
     * lane. */
    glint_values(vecs, o_t, PITCH_M, HEAD_DIM, t->v, t->v_pitch, s_t, t->special ? visible.all : visible.any, scale);
    if (t->special)
        glint_gemm_visible(vecs, &(struct glint_gemm){.c = o_t, .ldc = PITCH_M, .a = t->v, .a_row = 1, .a_k = t->v_pitch, .b = s_t,
                                                      .ldb = PITCH_M, .rows = HEAD_DIM, .depth = visible.any},
                           visible.all, visible.shift);
}

/* Out of line: a copy for each width that glint_panel_vecs gives. */
GLINT_OUTLINE void panel_1(const struct matrices *m, int64_t block, int64_t lane, const struct tile *t, struct glint_visible visible)
{
    panel(1, m, block, lane, t, visible);
}
GLINT_OUTLINE void panel_2(const struct matrices *m, int64_t block, int64_t lane, const struct tile *t, struct glint_visible visible)
{
    panel(2, m, block, lane, t, visible);
}

/* Online softmax of a block's queries over a tile. */
static void block_by_tile(const struct matrices *m, int64_t block, int64_t queries, const struct tile *t)
{
    for (int64_t lane = 0, vecs; lane < queries; lane += vecs * GLINT_CPU_LANES) {
        vecs = glint_panel_vecs(queries - lane);
        struct glint_visible visible = glint_visible_keys(t->keys, glint_clamp(queries - lane, 0, vecs * GLINT_CPU_LANES), lane, t->shift);
        switch (vecs) {
        case 1: panel_1(m, block, lane, t, visible); break;
        default: panel_2(m, block, lane, t, visible); break;
        }
    }
}

/* O = O / sum and LSE = max + log(sum), with the sink in both. The first `blind` queries see no key: O = 0 and LSE =
 * sink. */
static void end_block(const struct glint_problem *p, const struct matrices *m, int64_t block, glint_element *o, float *lse, int64_t queries,
                      float sink, int64_t blind)
{
    const glint_veci lane_index = glint_lane_index();
    float *max = m->stats + block * 2 * PITCH_M, *sum = max + PITCH_M;
    for (int64_t x = 0; x < queries; x += GLINT_CPU_LANES) {
        const glint_veci sees = lane_index >= (int32_t)glint_clamp(blind - x, 0, GLINT_CPU_LANES);
        const struct glint_total total = glint_total(glint_load(max + x), glint_load(sum + x), sink);
        glint_store(max + x, glint_select(sees, total.lse, glint_splat(sink)));
        glint_store(sum + x, total.factor);
    }
    memcpy(lse, max, sizeof(float) * (size_t)queries);
    for (int64_t i = 0; i < queries; i += GLINT_CPU_SQUARE) {
        const glint_line inverse = *(const glint_line_unaligned *)(sum + i);
        glint_linei sees;
        for (int r = 0; r < GLINT_CPU_SQUARE; r++)
            sees[r] = i + r >= blind ? -1 : 0;
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
        glint_widen_rows(dst + i * PITCH_D, PITCH_D, rows + at.page * s->batch + at.row * s->row, s->row, count, HEAD_DIM);
    }
}

/* O and LSE of a few query blocks of one head, in one pass over its keys. Everything is transposed: vector lanes are
 * queries, and softmax needs no sum across them. Under a mask the tasks of the last queries, which see the most keys,
 * come first. */
glint_cpu_phase_fn glint_fwd_f32_d64_causal__cpu_x86_64_v3_m64n96;
void glint_fwd_f32_d64_causal__cpu_x86_64_v3_m64n96(const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    const struct glint_problem *p = call->problem;
    const struct glint_cpu_geometry *g = &call->geometry;
    const struct matrices m = {
        scratch + g->region[GLINT_FWD_Q_T], scratch + g->region[GLINT_FWD_O_T], scratch + g->region[GLINT_FWD_STATS],
        scratch + g->region[GLINT_FWD_S_T], scratch + g->region[GLINT_FWD_K],   scratch + g->region[GLINT_FWD_V],
        scratch + g->region[GLINT_FWD_ROW], scratch + g->region[GLINT_FWD_SCALE],
    };
    const int64_t head = task / g->tasks_per_head % p->heads_q, batch = task / g->tasks_per_head / p->heads_q;
    const int64_t first_query = (g->tasks_per_head - 1 - task % g->tasks_per_head) * g->blocks_per_task * TILE_M;
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

    for (int64_t i = 0; i < queries; i += TILE_M)
        begin_block(p, &m, i / TILE_M, q + i * p->q.row, glint_clamp(queries - i, 0, TILE_M));

    const int64_t keys_seen = glint_clamp(first_query + queries + call->band.last, 0, p->seqlen_k);
    for (int64_t first_key = 0; first_key < keys_seen; first_key += TILE_N) {
        struct tile t = {.k = m.k, .v = m.v, .k_pitch = PITCH_D, .v_pitch = PITCH_D, .first = first_key == 0};
        t.keys = glint_clamp(p->seqlen_k - first_key, 0, TILE_N);
        struct glint_ahead ahead = {.rows = glint_clamp(keys_seen - first_key - TILE_N, 0, TILE_N)};
        if (ahead.rows > 0) { /* the stride of a single row may be any number */
            const struct glint_cpu_keys next = glint_cpu_keys_at(p, call->tensors->page_table, batch, first_key + TILE_N);
            ahead.rows = glint_clamp(ahead.rows, 0, next.rows);
            ahead.k = (const char *)(k + next.page * p->k.batch + next.row * p->k.row), ahead.k_stride = p->k.row * (ptrdiff_t)sizeof *k;
            ahead.v = (const char *)(v + next.page * p->v.batch + next.row * p->v.row), ahead.v_stride = p->v.row * (ptrdiff_t)sizeof *v;
        }
        t.ahead = &ahead;
        const struct glint_cpu_keys at = glint_cpu_keys_at(p, call->tensors->page_table, batch, first_key);
        if (queries > GLINT_CPU_VECS * GLINT_CPU_LANES || at.rows < t.keys) {
            /* read more than once: worth a copy whose rows lie close together; or of several pages */
            copy_rows(call, m.k, k, &p->k, batch, first_key, t.keys);
            copy_rows(call, m.v, v, &p->v, batch, first_key, t.keys);
        } else {
            t.k = k + at.page * p->k.batch + at.row * p->k.row, t.v = v + at.page * p->v.batch + at.row * p->v.row;
            t.k_pitch = p->k.row, t.v_pitch = p->v.row;
        }
        const int64_t shift = first_key - call->band.last - first_query; /* query i of the task sees key r of the tile iff i >= r + shift */
        t.special = t.keys - 1 + shift > 0 && glint_any_special(t.v, t.v_pitch, t.keys, HEAD_DIM);
        for (int64_t i = glint_clamp(shift, 0, queries) / TILE_M * TILE_M; i < queries; i += TILE_M) {
            t.shift = shift - i;
            block_by_tile(&m, i / TILE_M, glint_clamp(queries - i, 0, TILE_M), &t);
        }
    }

    const int64_t blind = p->seqlen_k > 0 ? glint_clamp(-call->band.last - first_query, 0, queries) : queries;
    for (int64_t i = 0; i < queries; i += TILE_M)
        end_block(p, &m, i / TILE_M, o + i * p->o.row, lse + i, glint_clamp(queries - i, 0, TILE_M), sink, blind - i);
}
