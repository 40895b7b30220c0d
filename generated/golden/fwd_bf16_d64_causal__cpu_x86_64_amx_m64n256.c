/* fwd_bf16_d64_causal__cpu_x86_64_amx_m64n256
 *
 * Attention, forward: O and LSE from Q, K, V; bf16, head_dim 64, causal, both alignments.
 * ISA: AMX-BF16 tiles, softmax in AVX-512.
 * Tile: 64 queries x 256 keys, in panels of 32 queries. Products: bf16, P rounded to it; sums: float32.
 * Working set of a tile: 112 KiB.
 *
 * Made from gen/templates/cpu_tiles_fwd.c.lua by
 *   lua5.4 gen/glint.lua emit --spec generated/golden/golden.lua --variant fwd_bf16_d64_causal__cpu_x86_64_amx_m64n256
 * and overwritten by it: change the template or the spec. */

#define GLINT_CPU_LANES 16 /* floats in a vector */
#define GLINT_CPU_ROWS 6
#define GLINT_CPU_VECS 4
#define GLINT_CPU_DTYPE bf16
#define GLINT_CPU_ELEMENT uint16_t

enum {
    HEAD_DIM = 64,
    DIM = 64, /* filled up to whole tiles */
    TILE_M = 64, /* queries */
    TILE_N = 256, /* keys */
};
#include "lib/cpu/cpu.h"
#include "lib/cpu/amx.h"

#define GLINT_FAR (INT64_C(1) << 40) /* beyond every row */

/* The matrices of a lane's scratch: lib/cpu/cpu.h gives their shapes. */
struct matrices {
    uint16_t *q;
    float *o, *stats, *s;
    uint16_t *p, *k, *v;
};

/* What a panel has of them. */
struct panel {
    const uint16_t *q;
    float *o, *max, *sum;
};

static struct panel panel_of(const struct matrices *m, int64_t panel)
{
    float *max = m->stats + panel * 2 * GLINT_PANEL;
    return (struct panel){m->q + panel * GLINT_PANEL * DIM, m->o + panel * GLINT_PANEL * DIM, max, max + GLINT_PANEL};
}

/* Q across. The sign of softmax_scale is Q's; where softmax_scale is 0 so is Q, with the infinities and NaN that 0
 * makes NaN. max = -inf, sum = 0. */
GLINT_OUTLINE void begin_panel(const struct glint_problem *p, const struct matrices *m, int64_t panel, const glint_element *q, int64_t queries)
{
    struct glint_rows rows = {.row = q, .stride = p->q.row, .rows = queries};
    if (p->softmax_scale < 0.0f)
        rows.sign = 0x80008000;
    uint16_t *to = m->q + panel * GLINT_PANEL * DIM;
    glint_pack_across(to, &rows, GLINT_PANEL);
    for (int64_t i = 0; p->softmax_scale == 0.0f && i < GLINT_PANEL * DIM; i++)
        to[i] = (to[i] & 0x7f80) == 0x7f80 ? 0x7fc0 : 0;
    const struct panel x = panel_of(m, panel);
    for (int64_t i = 0; i < GLINT_PANEL; i += GLINT_CPU_LANES) {
        glint_store(x.max + i, glint_splat(-INFINITY));
        glint_store(x.sum + i, glint_splat(0.0f));
    }
}

/* Keys and values of a tile, as rows of the tensors; packed they lie in scratch. */
struct tile {
    const glint_element *k; /* rows of the tensor, NULL: packed */
    int64_t k_stride;
    struct glint_rows v;
    int64_t keys;
    float log2_scale; /* what differences of scores are multiplied by, for powers of two */
    bool first; /* nothing is summed yet */
    bool special;  /* some value is inf or NaN, in a tile that not every query of the task sees whole: packed as zero */
    int64_t shift; /* query i of the panel sees key r of the tile iff i >= r + shift */
};

/* O^T += V^T P^T for what was packed as zero: an infinite or NaN element of V at keys [from, to), and the queries of a
 * tile that see its key. */
static void add_special(const struct tile *t, float *o, const uint16_t *p, int64_t from, int64_t to, int64_t shift, int64_t lag)
{
    const glint_veci lane = glint_lane_index();
    for (int64_t r = from; r < to; r++) {
        const glint_element *v = t->v.row + r * t->v.stride;
        const glint_veci sees = (lane >= (int32_t)glint_clamp(r + shift, 0, 16)) & (lane <= (int32_t)glint_clamp(r - lag, -1, 15));
        glint_words pair;
        memcpy(&pair, p + (r - from) / 32 * 2 * GLINT_TILE_HALVES + r % 32 / 2 * 32, sizeof pair);
        const glint_vec weight = (glint_vec)(r % 2 == 0 ? pair << 16 : pair & 0xffff0000);
        for (int d = 0; d < HEAD_DIM; d++)
            if ((v[d] & 0x7f80) == 0x7f80) {
                float *row = o + glint_transposed_row(d) * 16;
                glint_store(row, glint_select(sees, glint_fma(weight, glint_splat(glint_float_of(v[d])), glint_load(row)), glint_load(row)));
            }
    }
}

/* O^T += V^T P^T over the keys [from, to) of a tile, or = where there is nothing to add to. P begins at key `begin`. */
static void add_values(const struct matrices *m, const struct panel *x, int64_t begin, int64_t from, int64_t to, bool add)
{
    glint_tile_transposed_product(x->o, m->v + from * DIM, m->p + (from - begin) * GLINT_PANEL, 2 * GLINT_TILE_HALVES, GLINT_TILE_HALVES,
                                 (to - from + 31) / 32, add);
}

/* Online softmax of a panel's queries over a tile. Scores are made a block at a time, so that they stay in the
 * first-level cache; P of all blocks goes into one product, unless P of a block is relative to another score than that
 * before it. */
GLINT_OUTLINE void panel_by_tile(const struct matrices *m, const struct panel *x, int64_t queries, const struct tile *t)
{
    const struct glint_visible visible = glint_visible_keys(t->keys, queries, 0, t->shift);
    const int64_t begin = 0, end = visible.any;
    if (begin >= end)
        return;
    (void)queries;

    float *s = m->s;
    bool add = !t->first;
    int64_t summed = begin; /* keys before it are in O */
    for (int64_t from = begin, to; from < end; from = to) {
        to = glint_clamp((from / GLINT_AMX_BLOCK + 1) * GLINT_AMX_BLOCK, 0, end);
        const int64_t keys = (to - from + 31) / 32 * 32; /* beyond the last one they are hidden */

        /* S^T = K Q^T; P^T = exp(S^T - max), rounded. */
        if (t->k)
            glint_tile_scores_of_rows(s, t->k + from * t->k_stride, t->k_stride, x->q, keys / 16);
        else
            glint_tile_scores(s, m->k + from * DIM, x->q, keys / 16);
        for (int64_t lane = 0; lane < GLINT_PANEL; lane += 16) {
            float *column = s + lane / 16 * GLINT_TILE_FLOATS;
            const int64_t shift = t->shift - lane + from;
            glint_tile_hide(column, glint_clamp(1 - shift, 0, keys), keys, shift, -GLINT_FAR);
            glint_tile_hide(column, to - from, keys, GLINT_FAR, -GLINT_FAR);
            uint16_t *weights = m->p + (from - begin) * GLINT_PANEL + lane / 16 * GLINT_TILE_HALVES;
            glint_vec factor;
            if (!glint_tile_softmax(weights, column, keys, t->log2_scale, x->max + lane, x->sum + lane, &factor))
                continue;
            if (summed < from) {
                add_values(m, x, begin, summed, from, add);
                summed = from;
                add = true;
            }
            float *o = x->o + lane * DIM;
            for (int64_t d = 0; add && d < DIM; d++)
                glint_store(o + d * 16, glint_load(o + d * 16) * factor);
        }
    }
    add_values(m, x, begin, summed, end, add);
    for (int64_t lane = 0; t->special && lane < GLINT_PANEL; lane += 16)
        add_special(t, x->o + lane * DIM, m->p + lane / 16 * GLINT_TILE_HALVES, begin, end, t->shift - lane,
                    -GLINT_FAR);
}

/* O = O / sum and LSE = max + log(sum), with the sink in both. The first `blind` queries see no key: O = 0 and LSE =
 * sink. */
GLINT_OUTLINE void end_panel(const struct glint_problem *p, const struct panel *x, glint_element *o, float *lse, int64_t queries,
                      float sink, int64_t blind)
{
    const glint_veci lane = glint_lane_index();
    const float scale = __builtin_fabsf(p->softmax_scale);
    for (int64_t i = 0; i < queries; i += GLINT_CPU_LANES) {
        glint_veci sees = lane >= (int32_t)glint_clamp(blind - i, 0, GLINT_CPU_LANES);
        const struct glint_total total = glint_total(glint_load(x->max + i) * scale, glint_load(x->sum + i), sink);
        glint_store(x->max + i, glint_select(sees, total.lse, glint_splat(sink)));
        glint_unpack_columns(o + i * p->o.row, p->o.row, x->o + i * DIM, queries - i, &total.factor, &sees);
    }
    memcpy(lse, x->max, sizeof(float) * (size_t)queries);
}

/* Rows of K or V of a tile, from `key` on: where they are, or together in `to` when they lie in pages. `rows`: of the
 * key head, in its sequence; in pages in the first one. */
static struct glint_rows rows_of(const struct glint_cpu_call *call, const glint_element *rows, const struct glint_strides *s, int64_t batch,
                                 int64_t key, int64_t keys, uint16_t *to)
{
    if (call->problem->page_rows == 0)
        return (struct glint_rows){.row = rows + key * s->row, .stride = s->row, .rows = keys};
    for (int64_t i = 0; i < keys; i++) {
        const struct glint_cpu_keys at = glint_cpu_keys_at(call->problem, call->tensors->page_table, batch, key + i);
        memcpy(to + i * HEAD_DIM, rows + at.page * s->batch + at.row * s->row, HEAD_DIM * sizeof *to);
    }
    return (struct glint_rows){.row = to, .stride = HEAD_DIM, .rows = keys};
}

/* O and LSE of a few query blocks of one head, in one pass over its keys, which are packed a tile at a time.
 * Tasks of a head come last queries first: under the mask those see the most keys. */
glint_cpu_phase_fn glint_fwd_bf16_d64_causal__cpu_x86_64_amx_m64n256;
void glint_fwd_bf16_d64_causal__cpu_x86_64_amx_m64n256(const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    const struct glint_problem *p = call->problem;
    const struct glint_cpu_geometry *g = &call->geometry;
    const struct matrices m = {
        (uint16_t *)(scratch + g->region[GLINT_AMX_FWD_Q]), scratch + g->region[GLINT_AMX_FWD_O],
        scratch + g->region[GLINT_AMX_FWD_STATS],           scratch + g->region[GLINT_AMX_FWD_S],
        (uint16_t *)(scratch + g->region[GLINT_AMX_FWD_P]), (uint16_t *)(scratch + g->region[GLINT_AMX_FWD_K]),
        (uint16_t *)(scratch + g->region[GLINT_AMX_FWD_V]),
    };
    const int64_t head = task / g->tasks_per_head % p->heads_q, batch = task / g->tasks_per_head / p->heads_q;
    const int64_t first_query = (g->tasks_per_head - 1 - task % g->tasks_per_head) * g->blocks_per_task * TILE_M;
    const int64_t queries = glint_clamp(p->seqlen_q - first_query, 0, g->blocks_per_task * TILE_M);
    if (queries == 0)
        return; /* all of the task lies beyond the sequence's own length */
    const int64_t head_kv = head / (p->heads_q / p->heads_kv);
    const glint_element *q = (const glint_element *)call->tensors->q + batch * p->q.batch + head * p->q.head + first_query * p->q.row;
    const int64_t first_page = p->page_rows > 0 ? 0 : batch;
    const glint_element *k = (const glint_element *)call->tensors->k + first_page * p->k.batch + head_kv * p->k.head;
    const glint_element *v = (const glint_element *)call->tensors->v + first_page * p->v.batch + head_kv * p->v.head;
    uint16_t *together = (uint16_t *)(scratch + g->region[GLINT_AMX_FWD_PAGED]);
    glint_element *o = (glint_element *)call->tensors->o + batch * p->o.batch + head * p->o.head + first_query * p->o.row;
    float *lse = call->tensors->lse + (batch * p->heads_q + head) * call->queries + first_query;
    const float sink = p->sinks != 0 ? call->tensors->sinks[head] : -INFINITY, scale = __builtin_fabsf(p->softmax_scale);
    const float log2_scale = (p->softmax_scale == 0.0f ? 1.0f : scale) * 0x1.715476p+0f;

    struct glint_tiles found;
    glint_tiles_begin(&found);
    const int64_t keys_seen = glint_clamp(first_query + queries + call->band.last, 0, p->seqlen_k);
    const int64_t blind = p->seqlen_k > 0 ? glint_clamp(-call->band.last - first_query, 0, queries) : queries;
    const int64_t keys_hidden = 0;
    /* With one tile of keys a panel is begun, worked on and ended at once: all of them have the room of the first,
     * which stays in the cache. */
    const bool one_tile = keys_hidden < keys_seen && keys_seen - keys_hidden <= TILE_N;
    const bool in_place = queries <= 4 * GLINT_PANEL && HEAD_DIM % 32 == 0 && p->page_rows == 0; /* more panels read a copy faster */
    for (int64_t i = 0; i < queries && !one_tile; i += GLINT_PANEL)
        begin_panel(p, &m, i / GLINT_PANEL, q + i * p->q.row, glint_clamp(queries - i, 0, GLINT_PANEL));

    for (int64_t first_key = keys_hidden; first_key < keys_seen; first_key += TILE_N) {
        const int64_t keys = glint_clamp(p->seqlen_k - first_key, 0, TILE_N), whole = (keys + 31) / 32 * 32;
        const struct glint_rows k_rows = rows_of(call, k, &p->k, batch, first_key, keys, together);
        struct tile t = {.v = rows_of(call, v, &p->v, batch, first_key, keys, together + TILE_N * HEAD_DIM), .keys = keys,
                         .log2_scale = log2_scale, .first = first_key == 0};
        const int64_t shift = first_key - call->band.last - first_query; /* query i of the task sees key r of the tile iff i >= r + shift */
        if (in_place && keys == whole)
            t.k = k_rows.row, t.k_stride = k_rows.stride;
        else
            glint_pack_rows(m.k, &k_rows, whole);
        if (keys - 1 + shift > 0)
            t.special = glint_pack_transposed_clean(m.v, &t.v, whole);
        else
            glint_pack_transposed(m.v, &t.v, whole);
        const int64_t first_seeing = one_tile ? 0 : glint_clamp(shift, 0, queries) / GLINT_PANEL * GLINT_PANEL;
        const int64_t end_seeing = queries;
        for (int64_t i = first_seeing; i < end_seeing; i += GLINT_PANEL) {
            t.shift = shift - i;
            const struct panel x = panel_of(&m, one_tile ? 0 : i / GLINT_PANEL);
            const int64_t rows = glint_clamp(queries - i, 0, GLINT_PANEL);
            if (one_tile)
                begin_panel(p, &m, 0, q + i * p->q.row, rows);
            panel_by_tile(&m, &x, rows, &t);
            if (one_tile)
                end_panel(p, &x, o + i * p->o.row, lse + i, rows, sink, blind - i);
        }
    }
    glint_tiles_end(&found);

    for (int64_t i = 0; i < queries && !one_tile; i += GLINT_PANEL) {
        const struct panel x = panel_of(&m, i / GLINT_PANEL);
        end_panel(p, &x, o + i * p->o.row, lse + i, glint_clamp(queries - i, 0, GLINT_PANEL), sink, blind - i);
    }
}
