/* dec_bf16_d64_causal__cpu_x86_64_amx_m32n512
 *
 * Attention, decode: O and LSE of few queries, split over the keys; bf16, head_dim 64, causal, both alignments.
 * ISA: AMX-BF16 tiles, softmax in AVX-512.
 * Split over the keys in chunks of 512, read in tiles of 16; taken for up to 9 queries, whatever the mask.
 * Rows: 32 queries of all heads that share a key head, worked on 8 at a time. Products: bf16, P rounded to it; sums: float32.
 * Working set of a chunk: 80 KiB.
 *
 * Made from gen/templates/cpu_amx_dec.c.lua by
 *   lua5.4 gen/glint.lua emit --spec generated/golden/golden.lua --variant dec_bf16_d64_causal__cpu_x86_64_amx_m32n512
 * and overwritten by it: change the template or the spec. */

#define GLINT_CPU_LANES 16 /* floats in a vector */
#define GLINT_CPU_ROWS 6
#define GLINT_CPU_VECS 4
#define GLINT_CPU_DTYPE bf16
#define GLINT_CPU_ELEMENT uint16_t
#define GLINT_CPU_TOGETHER 2 /* see glint_row_vector */

enum {
    HEAD_DIM = 64,
    ROWS = 32,  /* of Q that a task works on: queries of all the heads that share a key head */
    CHUNK = 512, /* keys */
};
#include "lib/cpu/cpu.h"
#include "lib/cpu/amx_decode.h"

/* One (batch, key head) pair and a block of its rows. Row r is query r / group of query head r % group. */
struct work {
    const struct glint_problem *problem;
    const int32_t *page_table;
    int64_t batch, head_kv, group, first_row, rows;
    const glint_kv *k, *v; /* of the key head, in its sequence; in pages in the first one */
    struct glint_band band;
};

/* Keys that row r of the block sees: the first so many. */
static int64_t keys_of(const struct work *w, int64_t r)
{
    return glint_clamp((w->first_row + r) / w->group + w->band.last + 1, 0, w->problem->seqlen_k);
}

/* Rows of K or V that lie one after another. */
struct place {
    const glint_kv *row;
    int64_t rows;
};

/* Where the row of a key is, and how many of the next `rows` rows follow there. In pages, out of line: */
GLINT_OUTLINE struct place place_in_page(const struct work *w, bool of_v, int64_t key, int64_t rows)
{
    const struct glint_strides *s = of_v ? &w->problem->v : &w->problem->k;
    const struct glint_cpu_keys at = glint_cpu_keys_at(w->problem, w->page_table, w->batch, key);
    return (struct place){(of_v ? w->v : w->k) + at.page * s->batch + at.row * s->row, rows < at.rows ? rows : at.rows};
}

GLINT_INLINE struct place place_of(const struct work *w, const bool of_v, int64_t key, int64_t rows)
{
    rows = glint_clamp(rows, 0, GLINT_DEC_BLOCK);
    if (w->page_table)
        return place_in_page(w, of_v, key, rows);
    return (struct place){of_v ? w->v + key * w->problem->v.row : w->k + key * w->problem->k.row, rows};
}

/* The matrices of a lane's scratch: lib/cpu/cpu.h gives their shapes. */
struct matrices {
    uint16_t *q, *edge;
    uint32_t *p;
    float *o, *s, *sums, *max, *sum, *all_o, *all_max, *all_sum, *row;
};

static struct matrices matrices_of(const struct glint_cpu_call *call, float *scratch)
{
    const uint64_t *region = call->geometry.region;
    struct matrices m = {.q = (uint16_t *)(scratch + region[GLINT_AMX_DEC_Q]), .edge = (uint16_t *)(scratch + region[GLINT_AMX_DEC_EDGE]),
                         .p = (uint32_t *)(scratch + region[GLINT_AMX_DEC_P]), .o = scratch + region[GLINT_AMX_DEC_O],
                         .s = scratch + region[GLINT_AMX_DEC_S], .sums = scratch + region[GLINT_AMX_DEC_SUMS], .max = scratch + region[GLINT_AMX_DEC_STATS],
                         .all_o = scratch + region[GLINT_AMX_DEC_ALL_O], .row = scratch + region[GLINT_AMX_DEC_ROW]};
    m.sum = m.max + ROWS;
    m.all_max = m.max + 2 * ROWS;
    m.all_sum = m.max + 3 * ROWS;
    return m;
}

/* The rows of Q across, a panel after another; rows that fill up a panel are zero. */
static void load_queries(const struct work *w, const struct glint_tensors *t, const struct matrices *m)
{
    const struct glint_problem *p = w->problem;
    for (int64_t first = 0; first < w->rows; first += GLINT_DEC_PANEL) {
        const struct glint_rows rows = {.row = m->edge, .stride = HEAD_DIM, .rows = glint_clamp(w->rows - first, 0, GLINT_DEC_PANEL)};
        for (int64_t r = 0; r < rows.rows; r++) {
            const int64_t row = w->first_row + first + r, query = row / w->group, head = w->head_kv * w->group + row % w->group;
            memcpy(m->edge + r * HEAD_DIM, (const glint_element *)t->q + w->batch * p->q.batch + head * p->q.head + query * p->q.row,
                   HEAD_DIM * sizeof *m->edge);
        }
        glint_pack_across(m->q + first / GLINT_DEC_PANEL * GLINT_DIM_STEPS * GLINT_TILE_HALVES, &rows, 16);
    }
}

/* 16 rows of K or V, `bytes` apart. They are read where they lie and nothing is asked for ahead: on a Xeon of the
 * Sapphire Rapids class hardware does that well enough, and each way of asking took longer
 * (bench/results/cpu_amx_decode.md). */
struct sixteen {
    const uint16_t *row;
    ptrdiff_t bytes;
};

/* The sixteen rows of the keys from `key` on, of which [begin, end) are read. All others are zero, as what is there may
 * be anything, or no memory; with `clean` infinities and NaN are zero, too. */
GLINT_OUTLINE struct sixteen bring_together(const struct work *w, bool of_v, int64_t key, int64_t begin, int64_t end, bool clean, uint16_t *edge)
{
    memset(edge, 0, 16 * HEAD_DIM * sizeof *edge);
    begin = begin > key ? begin : key;
    end = end < key + 16 ? end : key + 16;
    const int64_t stride = of_v ? w->problem->v.row : w->problem->k.row;
    for (int64_t at = begin, count; at < end; at += count) {
        const struct place here = place_of(w, of_v, at, end - at);
        count = here.rows;
        for (int64_t i = 0; i < count; i++)
            memcpy(edge + (at - key + i) * HEAD_DIM, here.row + i * stride, HEAD_DIM * sizeof *edge);
    }
    for (int64_t i = 0; clean && i < 16; i++)
        glint_dec_clean(edge + i * HEAD_DIM);
    return (struct sixteen){edge, HEAD_DIM * sizeof *edge};
}

GLINT_INLINE struct sixteen sixteen_at(const struct work *w, const bool of_v, int64_t key, int64_t begin, int64_t end, bool clean, uint16_t *edge)
{
    if (begin <= key && key + 16 <= end && !clean) {
        const struct place here = place_of(w, of_v, key, 16);
        if (here.rows == 16)
            return (struct sixteen){here.row, (of_v ? w->problem->v.row : w->problem->k.row) * (int64_t)sizeof *here.row};
    }
    return bring_together(w, of_v, key, begin, end, clean, edge);
}

/* The softmax's steps, with `few` a constant. */
GLINT_INLINE void softmax_of(const int few, const struct matrices *m, int64_t tile, int64_t tile_end, const struct glint_dec_sight *sight,
                             const struct glint_problem *p, float *max, float *sum)
{
    float of_panel[2][GLINT_DEC_PANEL];
    const float scale = p->softmax_scale;
    glint_dec_finish_scores(few, m->s, tile, tile_end, sight, scale, of_panel[0]);
    glint_dec_weigh(few, m->p, m->s, tile, tile_end, of_panel[0], of_panel[1]);
    memcpy(max, of_panel[0], sizeof(float) * (size_t)few);
    memcpy(sum, of_panel[1], sizeof(float) * (size_t)few);
}

GLINT_OUTLINE void softmax(int few, const struct matrices *m, int64_t tile, int64_t tile_end, const struct glint_dec_sight *sight,
                           const struct glint_problem *p, float *max, float *sum)
{
    switch (few) {
    case 8: softmax_of(8, m, tile, tile_end, sight, p, max, sum); break;
    case 4: softmax_of(4, m, tile, tile_end, sight, p, max, sum); break;
    case 2: softmax_of(2, m, tile, tile_end, sight, p, max, sum); break;
    default: softmax_of(1, m, tile, tile_end, sight, p, max, sum);
    }
}

/* Keys of a chunk that something is read or computed of. */
struct span {
    int64_t first_key; /* the chunk's */
    int64_t begin, end;
    int few;
};

/* A sweep over the keys of a chunk for up to four tiles of V along head_dim, from `step` on, and the narrower last
 * one. */
GLINT_INLINE void sweep(const struct work *w, const struct matrices *m, const struct span *x, const int step, const int steps, const bool rest,
                        bool clean)
{
    glint_dec_begin_values();
    for (int64_t tile = x->begin / 16; tile * 16 < x->end; tile++) {
        const int64_t key = x->first_key + tile * 16;
        const struct sixteen v = sixteen_at(w, true, key, x->first_key + x->begin, x->first_key + x->end, clean, m->edge);
        glint_dec_values_of_tile(steps, rest, m->p + tile * 32 * x->few, v.row + step * 32, v.row + GLINT_DEC_STEPS * 32, v.bytes);
    }
    glint_dec_end_values(steps, rest, m->sums + step * GLINT_TILE_FLOATS, m->sums + GLINT_DEC_STEPS * GLINT_TILE_FLOATS);
}

/* sums = P V. */
GLINT_INLINE void products_with_values(const struct work *w, const struct matrices *m, const struct span *x, bool clean)
{
    sweep(w, m, x, 0, 2, false, clean);
}

/* The same where V has infinities or NaN among the keys. */
GLINT_OUTLINE void values_with_special(const struct work *w, const struct matrices *m, const struct span *x, const struct glint_dec_sight *sight,
                                       int64_t rows)
{
    products_with_values(w, m, x, true);
    for (int64_t r = 0; r < rows; r++) {
        float *o = m->o + r * GLINT_DEC_DIM;
        glint_dec_take_row(o, m->sums, r);
        for (int64_t key = sight->first[r], count; key < sight->end[r]; key += count) {
            const struct place here = place_of(w, true, x->first_key + key, sight->end[r] - key);
            count = here.rows;
            for (int64_t i = 0; i < count; i++) {
                float p;
                memcpy(&p, m->p + ((key + i) / 16 * x->few + r) * 32 + 16 + (key + i) % 16, sizeof p);
                glint_dec_add_special(o, p, here.row + i * w->problem->v.row);
            }
        }
    }
}

/* What a chunk gives the rows of a panel. */
static void panel_by_chunk(const struct work *w, const struct matrices *m, int64_t first_row, int64_t first_key)
{
    const int64_t rows = glint_clamp(w->rows - first_row, 0, GLINT_DEC_PANEL);
    int few = 1;
    while (few < rows)
        few *= 2;
    struct matrices mine = *m; /* the panel's own */
    mine.q += first_row / GLINT_DEC_PANEL * GLINT_DIM_STEPS * GLINT_TILE_HALVES;
    mine.o += first_row * GLINT_DEC_DIM;

    /* Some row sees the keys [begin, end), none when that is empty; every row sees [inner, inner_end). */
    struct glint_dec_sight sight = {{0}, {0}, 0, 0};
    for (int64_t r = 0; r < rows; r++) {
        sight.end[r] = (int32_t)glint_clamp(keys_of(w, first_row + r) - first_key, 0, CHUNK);
    }
    const struct span x = {first_key, sight.first[0], sight.end[rows - 1], few};
    if (x.begin >= x.end) {
        memset(mine.o, 0, sizeof(float) * (size_t)rows * GLINT_DEC_DIM);
        for (int64_t r = 0; r < rows; r++)
            m->max[first_row + r] = -INFINITY, m->sum[first_row + r] = 0.0f;
        return;
    }
    sight.inner = (sight.first[rows - 1] + 15) / 16;
    sight.inner_end = sight.end[0] / 16;
    const int64_t tile_end = (x.end + 15) / 16;

    glint_dec_tiles_of_scores(few);
    glint_dec_hold_queries(mine.q);
    for (int64_t tile = x.begin / 16; tile < tile_end; tile++) {
        const int64_t key = first_key + tile * 16;
        const struct sixteen k = sixteen_at(w, false, key, first_key + x.begin, first_key + x.end, false, m->edge);
        glint_dec_scores_of_tile(tile, m->s + tile * 16 * few, few, k.row, k.bytes, mine.q);
    }
    softmax(few, m, x.begin / 16, tile_end, &sight, w->problem, m->max + first_row, m->sum + first_row);

    glint_dec_tiles_of_values((int)rows);
    products_with_values(w, &mine, &x, false);
    bool finite = true;
    for (int64_t r = 0; r < rows; r++)
        finite &= glint_dec_take_row(mine.o + r * GLINT_DEC_DIM, mine.sums, r);
    if (!finite)
        values_with_special(w, &mine, &x, &sight, rows);
}

/* What one chunk of keys gives each row that sees some of it: O, not divided by the sum; the maximum; the sum. */
static void chunk(const struct work *w, const struct matrices *m, int64_t first_key)
{
    for (int64_t first_row = 0; first_row < w->rows; first_row += GLINT_DEC_PANEL)
        panel_by_chunk(w, m, first_row, first_key);
}

/* O = o / sum and LSE = max + log(sum) of a row, with the sink in both; a row that sees no key has O = 0 and LSE =
 * sink. */
static void end_row(const struct glint_cpu_call *call, const struct work *w, int64_t r, const float *o, float max, float sum, float *row)
{
    const struct glint_problem *p = call->problem;
    const int64_t query = (w->first_row + r) / w->group, head = w->head_kv * w->group + (w->first_row + r) % w->group;
    glint_element *out = (glint_element *)call->tensors->o + w->batch * p->o.batch + head * p->o.head + query * p->o.row;
    float *lse = call->tensors->lse + (w->batch * p->heads_q + head) * call->queries + query;
    const bool blind = keys_of(w, r) == 0;
    const float sink = p->sinks != 0 ? call->tensors->sinks[head] : -INFINITY;
    const struct glint_total total = glint_total(glint_splat(max), glint_splat(sum), sink);
    const float factor = total.factor[0];
    for (int i = 0; i < GLINT_DEC_DIM; i++)
        if (glint_dec_element(i) < HEAD_DIM)
            row[glint_dec_element(i)] = blind ? 0.0f : o[i] * factor;
    glint_narrow_rows(out, 0, row, HEAD_DIM, 1, HEAD_DIM, 1.0f);
    *lse = blind ? sink : total.lse[0];
}

/* Where the workspace has what a chunk leaves of a row: O [GLINT_DEC_DIM], not divided; the maximum; the sum. */
static float *partial_of(const struct glint_cpu_call *call, const struct work *w, int64_t r, int64_t chunk)
{
    const struct glint_problem *p = call->problem;
    const int64_t row = (w->batch * p->heads_kv + w->head_kv) * w->group * p->seqlen_q + w->first_row + r;
    return call->partials + (row * call->geometry.key_blocks + chunk) * GLINT_DEC_PITCH(HEAD_DIM);
}

/* The block of rows of a task, which is `pair` (batch, key head). */
static struct work work_at(const struct glint_cpu_call *call, int64_t pair, int64_t block)
{
    const struct glint_problem *p = call->problem;
    struct work w = {.problem = p, .band = call->band, .batch = pair / p->heads_kv, .head_kv = pair % p->heads_kv};
    w.group = p->heads_q / p->heads_kv;
    w.first_row = block * ROWS;
    w.rows = glint_clamp(w.group * p->seqlen_q - w.first_row, 0, ROWS);
    w.page_table = call->tensors->page_table;
    const int64_t first = w.page_table ? 0 : w.batch;
    w.k = (const glint_kv *)call->tensors->k + first * p->k.batch + w.head_kv * p->k.head;
    w.v = (const glint_kv *)call->tensors->v + first * p->v.batch + w.head_kv * p->v.head;
    return w;
}

/* A row's chunks are added up in their order, whoever does it and wherever they come from, so the bits are the same:
 *   m' = max(m, m_c)    O = e^(m - m') O + e^(m_c - m') O_c    s = e^(m - m') s + e^(m_c - m') s_c */
static void add_chunk(float *all_o, float *all_max, float *all_sum, const float *o, float max, float sum)
{
    const float m = max > *all_max ? max : *all_max;
    const float before = m == *all_max ? 1.0f : glint_exp(glint_splat(*all_max - m))[0];
    const float now = m == max ? 1.0f : glint_exp(glint_splat(max - m))[0];
    for (int i = 0; i < GLINT_DEC_DIM; i += GLINT_CPU_LANES)
        glint_store(all_o + i, glint_fma(glint_load(all_o + i), glint_splat(before), glint_load(o + i) * now));
    *all_sum = glint_fma_scalar(*all_sum, before, sum * now);
    *all_max = m;
}

static void begin_rows(const struct matrices *m)
{
    memset(m->all_o, 0, sizeof(float) * ROWS * GLINT_DEC_DIM);
    for (int r = 0; r < ROWS; r++) {
        m->all_max[r] = -INFINITY;
        m->all_sum[r] = 0.0f;
    }
}

/* All chunks of a block of rows, one after another: where there are enough such blocks, or many queries. */
static void whole(const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    const struct matrices m = matrices_of(call, scratch);
    const struct work w = work_at(call, task / call->geometry.query_blocks, task % call->geometry.query_blocks);
    begin_rows(&m);
    load_queries(&w, call->tensors, &m);
    for (int64_t first_key = 0; first_key < keys_of(&w, w.rows - 1); first_key += CHUNK) {
        chunk(&w, &m, first_key);
        for (int64_t r = 0; r < w.rows; r++)
            if (keys_of(&w, r) > first_key)
                add_chunk(m.all_o + r * GLINT_DEC_DIM, &m.all_max[r], &m.all_sum[r], m.o + r * GLINT_DEC_DIM, m.max[r], m.sum[r]);
    }
    for (int64_t r = 0; r < w.rows; r++)
        end_row(call, &w, r, m.all_o + r * GLINT_DEC_DIM, m.all_max[r], m.all_sum[r], m.row);
}

/* Split, the first phase: one chunk of keys for a block of rows, left in the workspace. */
static void part(const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    const struct glint_problem *p = call->problem;
    const struct glint_cpu_geometry *g = &call->geometry;
    const struct matrices m = matrices_of(call, scratch);
    /* Where heads lie side by side in a row of keys they are worked on one after another: together they read whole
     * pages. */
    const int64_t chunks = g->key_blocks, heads = p->heads_kv, pairs = task / g->query_blocks;
    const bool heads_first = p->k.head < p->k.row;
    const int64_t in_batch = pairs % (chunks * heads), batch = pairs / (chunks * heads);
    const int64_t index = heads_first ? in_batch / heads : in_batch % chunks;
    const int64_t head_kv = heads_first ? in_batch % heads : in_batch / chunks;
    const struct work w = work_at(call, batch * heads + head_kv, task % g->query_blocks);
    const int64_t first_key = index * CHUNK;
    if (keys_of(&w, w.rows - 1) <= first_key)
        return;
    load_queries(&w, call->tensors, &m);
    chunk(&w, &m, first_key);
    for (int64_t r = 0; r < w.rows; r++) {
        float *partial = partial_of(call, &w, r, index);
        memcpy(partial, m.o + r * GLINT_DEC_DIM, sizeof(float) * GLINT_DEC_DIM);
        partial[GLINT_DEC_DIM] = m.max[r];
        partial[GLINT_DEC_DIM + 1] = m.sum[r];
    }
}

glint_cpu_phase_fn glint_dec_bf16_d64_causal__cpu_x86_64_amx_m32n512;
void glint_dec_bf16_d64_causal__cpu_x86_64_amx_m32n512(const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    struct glint_tiles found;
    GLINT_TILES_SAVE(&found);
    if (call->geometry.split > 1)
        part(call, scratch, task);
    else
        whole(call, scratch, task);
    glint_tiles_end(&found);
}

/* Split, the second phase: a block of rows. */
glint_cpu_phase_fn glint_dec_bf16_d64_causal__cpu_x86_64_amx_m32n512_then;
void glint_dec_bf16_d64_causal__cpu_x86_64_amx_m32n512_then(const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    const struct matrices m = matrices_of(call, scratch);
    const struct work w = work_at(call, task / call->geometry.query_blocks, task % call->geometry.query_blocks);
    begin_rows(&m);
    for (int64_t r = 0; r < w.rows; r++) {
        float *all_o = m.all_o + r * GLINT_DEC_DIM;
        for (int64_t c = 0; c * CHUNK < keys_of(&w, r); c++) {
            const float *partial = partial_of(call, &w, r, c);
            add_chunk(all_o, &m.all_max[r], &m.all_sum[r], partial, partial[GLINT_DEC_DIM], partial[GLINT_DEC_DIM + 1]);
        }
        end_row(call, &w, r, all_o, m.all_max[r], m.all_sum[r], m.row);
    }
}
