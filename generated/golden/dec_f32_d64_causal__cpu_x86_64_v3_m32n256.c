/* dec_f32_d64_causal__cpu_x86_64_v3_m32n256
 *
 * Attention, decode: O and LSE of few queries, split over the keys; f32, head_dim 64, causal, both alignments.
 * ISA: x86-64-v3 (AVX2, FMA, F16C).
 * Split over the keys in chunks of 256, read in blocks of 32; taken for up to 10 queries, whatever the mask.
 * Rows: 32 queries of all heads that share a key head, worked on 4 at a time.
 * Working set of a chunk: 88 KiB.
 *
 * Made from gen/templates/cpu_dec.c.lua by
 *   lua5.4 gen/glint.lua emit --spec generated/golden/golden.lua --variant dec_f32_d64_causal__cpu_x86_64_v3_m32n256
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
#define GLINT_CPU_TOGETHER 1 /* see glint_row_vector */

enum {
    HEAD_DIM = 64,
    ROWS = 32,  /* of Q that a task works on: queries of all the heads that share a key head */
    CHUNK = 256, /* keys */
    FEW_PITCH = 4 * (CHUNK + GLINT_CPU_LANES), /* floats of the scores of up to four rows */
};
#include "lib/cpu/decode.h"

/* Rows that are worked on together when `left` rows are left: of a block of four one may be idle. */
static int64_t few_of(int64_t left)
{
    return left >= 3 ? 4 : left;
}

/* The steps, with `few` a constant. */
GLINT_OUTLINE void scores(int64_t few, float *s, const float *q, const struct glint_dec_rows *k)
{
    switch (few) {
    case 4: glint_dec_scores(4, s, q, k); break;
    case 2: glint_dec_scores(2, s, q, k); break;
    default: glint_dec_scores(1, s, q, k);
    }
}

GLINT_OUTLINE void softmax(int64_t few, float *s, int64_t keys, float *max, float *sum)
{
    switch (few) {
    case 4: glint_dec_softmax(4, s, keys, max, sum, GLINT_EXP_LEAST); break;
    case 2: glint_dec_softmax(2, s, keys, max, sum, GLINT_EXP_LEAST); break;
    default: glint_dec_softmax(1, s, keys, max, sum, GLINT_EXP_LEAST);
    }
}

GLINT_OUTLINE void values(int64_t few, float *o, const float *p, const struct glint_dec_rows *v)
{
    switch (few) {
    case 4: glint_dec_values(4, o, p, v); break;
    case 2: glint_dec_values(2, o, p, v); break;
    default: glint_dec_values(1, o, p, v);
    }
}

/* One (batch, key head) pair and a block of its rows. Row r is query r / group of query head r % group. */
struct work {
    const struct glint_problem *problem;
    const int32_t *page_table;
    int64_t batch, head_kv, group, first_row, rows;
    const glint_kv *k, *v; /* of the key head, in its sequence; in pages in the first one */
    bool early;            /* K and V are more than the second-level cache holds: rows_of */
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

/* The rows of Q, times softmax_scale, in the order of elements that decode uses; rows that fill up a block of four are
 * zero. */
static void load_queries(const struct work *w, const struct glint_tensors *t, float *q, float *row)
{
    const struct glint_problem *p = w->problem;
    for (int64_t r = 0; r < (w->rows + 3) / 4 * 4; r++, q += GLINT_DEC_DIM) {
        memset(q, 0, sizeof(float) * GLINT_DEC_DIM);
        if (r >= w->rows)
            continue;
        const int64_t query = (w->first_row + r) / w->group, head = w->head_kv * w->group + (w->first_row + r) % w->group;
        glint_widen_rows(row, HEAD_DIM, (const glint_element *)t->q + w->batch * p->q.batch + head * p->q.head + query * p->q.row, 0, 1,
                         HEAD_DIM);
        for (int i = 0; i < GLINT_DEC_DIM; i++)
            if (glint_dec_element(i) < HEAD_DIM)
                q[i] = row[glint_dec_element(i)] * p->softmax_scale;
    }
}

/* Neighbouring keys whose rows lie one after another, in K as in V: GLINT_DEC_BLOCK at most. */
struct run {
    const glint_kv *k, *v;
    int64_t rows;
};

/* The runs of some keys, a chunk's at most: a page has 16 rows at least. */
struct runs {
    struct run run[CHUNK / 16];
    int64_t count;
};

/* Of the keys [key, end). Pages are looked up here alone, once a chunk and once ahead of it. */
GLINT_OUTLINE void find_runs(const struct work *w, struct runs *found, int64_t key, int64_t end)
{
    const struct glint_problem *p = w->problem;
    found->count = 0;
    for (int64_t last; key < end; key = last) {
        const struct glint_cpu_keys at = glint_cpu_keys_at(p, w->page_table, w->page_table ? w->batch : 0, key);
        const glint_kv *k = w->k + at.page * p->k.batch + at.row * p->k.row, *v = w->v + at.page * p->v.batch + at.row * p->v.row;
        last = key + (at.rows < end - key ? at.rows : end - key); /* at.rows has no end where K and V are linear */
        for (; key < last; key += GLINT_DEC_BLOCK, k += GLINT_DEC_BLOCK * p->k.row, v += GLINT_DEC_BLOCK * p->v.row)
            found->run[found->count++] = (struct run){k, v, last - key < GLINT_DEC_BLOCK ? last - key : GLINT_DEC_BLOCK};
    }
}

/* Run i of a chunk's K or V, and what comes next: the run that follows; after the last one of K the first of V, and
 * after that of V the next chunk's first of K. Rows that are used a chunk of K or of V later come into the second-level
 * cache meanwhile: V during K, the next chunk's K during V. Without this, decode from memory took 1.0 to 1.6 times as
 * long with linear K and V, 1.2 to 2.2 times with pages of 64 rows (Zen 4, 32,768 keys, glint_bench
 * --decode --page-rows 64, medians of three, in turns). It costs 4 % where K and V are in the third-level cache, 12 % at most, and small ones go without.
 * With this, and without the first-level cache asked for, it gains less. Where it is left to hardware:
 * glint_dec_streams. */
GLINT_INLINE struct glint_dec_rows rows_of(const struct work *w, const struct runs *here, const struct runs *then, const bool of_v, int64_t i)
{
    const ptrdiff_t k_row = w->problem->k.row, v_row = w->problem->v.row;
    const struct run *run = &here->run[i];
    struct glint_dec_rows x = {.row = of_v ? run->v : run->k, .stride = of_v ? v_row : k_row, .rows = run->rows};
    x.dense = !w->page_table && x.stride == HEAD_DIM;
    const struct runs *far = of_v ? then : here;
    if (i + 1 < here->count)
        x.next = of_v ? run[1].v : run[1].k, x.next_stride = x.stride, x.next_rows = run[1].rows;
    else if (far->count > 0)
        x.next = of_v ? far->run[0].k : far->run[0].v, x.next_stride = of_v ? k_row : v_row, x.next_rows = far->run[0].rows;
    if (w->early && i < far->count)
        x.far = of_v ? far->run[i].k : far->run[i].v, x.far_stride = of_v ? k_row : v_row, x.far_rows = far->run[i].rows;
    return x;
}

/* s[r / 4][key][few] = Q K^T of the chunk's first `keys` keys, and -inf where a row does not see the key. */
static void make_scores(const struct work *w, const struct runs *here, float *s, const float *q, int64_t first_key, int64_t keys)
{
    for (int64_t i = 0, block = 0; i < here->count; block += here->run[i++].rows) {
        struct glint_dec_rows rows = rows_of(w, here, here, false, i);
        for (int64_t r = 0, few; r < w->rows; r += few, rows.next_rows = rows.far_rows = 0) {
            few = few_of(w->rows - r);
            scores(few, s + r / 4 * FEW_PITCH + block * few, q + r * GLINT_DEC_DIM, &rows);
        }
    }
    for (int64_t r = 0; r < w->rows; r++) {
        const int64_t few = few_of(w->rows - r / 4 * 4);
        for (int64_t key = glint_clamp(keys_of(w, r) - first_key, 0, keys); key < keys; key++)
            s[r / 4 * FEW_PITCH + key * few + r % 4] = -INFINITY;
    }
}

/* o[r] = P V of the chunk, not yet divided by the sum. The first `all` keys are seen by every row; of the others a row
 * adds those that it sees, for zero times an infinity or a NaN would not be zero. */
static void make_output(const struct work *w, const struct runs *here, const struct runs *then, float *o, const float *s, int64_t first_key,
                        int64_t all, int64_t keys)
{
    for (int64_t r = 0; r < w->rows; r++)
        memset(o + r * GLINT_DEC_DIM, 0, sizeof(float) * GLINT_DEC_DIM);
    for (int64_t i = 0, block = 0; i < here->count; block += here->run[i++].rows) {
        struct glint_dec_rows rows = rows_of(w, here, then, true, i);
        const int64_t from = block, to = block + rows.rows < all ? block + rows.rows : all;
        rows.rows = to - from;
        if (from >= to)
            continue;
        for (int64_t r = 0, few; r < w->rows; r += few, rows.next_rows = rows.far_rows = 0) {
            few = few_of(w->rows - r);
            values(few, o + r * GLINT_DEC_DIM, s + r / 4 * FEW_PITCH + from * few, &rows);
        }
    }
    for (int64_t r = 0; r < w->rows; r++) {
        const int64_t few = few_of(w->rows - r / 4 * 4), seen = glint_clamp(keys_of(w, r) - first_key, 0, keys);
        float weight[GLINT_DEC_BLOCK];
        for (int64_t key = all, count; key < seen; key += count) {
            const struct place at = place_of(w, true, first_key + key, seen - key);
            const struct glint_dec_rows rows = {.row = at.row, .stride = w->problem->v.row, .rows = at.rows};
            count = rows.rows;
            for (int64_t j = 0; j < count; j++)
                weight[j] = s[r / 4 * FEW_PITCH + (key + j) * few + r % 4];
            values(1, o + r * GLINT_DEC_DIM, weight, &rows);
        }
    }
}

/* The matrices of a lane's scratch: lib/cpu/cpu.h gives their shapes. */
struct matrices {
    float *q, *o, *s, *max, *sum, *all_o, *all_max, *all_sum, *row;
};

static struct matrices matrices_of(const struct glint_cpu_call *call, float *scratch)
{
    const uint64_t *region = call->geometry.region;
    struct matrices m = {.q = scratch + region[GLINT_DEC_Q], .o = scratch + region[GLINT_DEC_O], .s = scratch + region[GLINT_DEC_S],
                         .max = scratch + region[GLINT_DEC_STATS], .all_o = scratch + region[GLINT_DEC_ALL_O],
                         .row = scratch + region[GLINT_DEC_ROW]};
    m.sum = m.max + ROWS;
    m.all_max = m.max + 2 * ROWS;
    m.all_sum = m.max + 3 * ROWS;
    return m;
}

/* What one chunk of keys gives each row that sees some of it: O, not divided by the sum; the maximum; the sum. */
static void chunk(const struct work *w, const struct matrices *m, int64_t first_key)
{
    const int64_t all = glint_clamp(keys_of(w, 0) - first_key, 0, CHUNK);           /* keys that every row sees */
    const int64_t keys = glint_clamp(keys_of(w, w->rows - 1) - first_key, 0, CHUNK); /* that some row sees */
    struct runs here, then;
    find_runs(w, &here, first_key, first_key + keys);
    find_runs(w, &then, first_key + CHUNK, glint_clamp(keys_of(w, w->rows - 1), 0, first_key + 2 * CHUNK));
    make_scores(w, &here, m->s, m->q, first_key, keys);
    for (int64_t r = 0, few; r < w->rows; r += few) {
        few = few_of(w->rows - r);
        softmax(few, m->s + r / 4 * FEW_PITCH, keys, m->max + r, m->sum + r);
    }
    make_output(w, &here, &then, m->o, m->s, first_key, all, keys);
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
    w.early = 2.0 * (double)p->batch * (double)p->heads_kv * (double)p->seqlen_k * (double)(HEAD_DIM * sizeof(glint_kv)) > 1 << 20;
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
    load_queries(&w, call->tensors, m.q, m.row);
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
    load_queries(&w, call->tensors, m.q, m.row);
    chunk(&w, &m, first_key);
    for (int64_t r = 0; r < w.rows; r++) {
        float *partial = partial_of(call, &w, r, index);
        memcpy(partial, m.o + r * GLINT_DEC_DIM, sizeof(float) * GLINT_DEC_DIM);
        partial[GLINT_DEC_DIM] = m.max[r];
        partial[GLINT_DEC_DIM + 1] = m.sum[r];
    }
}

glint_cpu_phase_fn glint_dec_f32_d64_causal__cpu_x86_64_v3_m32n256;
void glint_dec_f32_d64_causal__cpu_x86_64_v3_m32n256(const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    if (call->geometry.split > 1)
        part(call, scratch, task);
    else
        whole(call, scratch, task);
}

/* Split, the second phase: a block of rows. */
glint_cpu_phase_fn glint_dec_f32_d64_causal__cpu_x86_64_v3_m32n256_then;
void glint_dec_f32_d64_causal__cpu_x86_64_v3_m32n256_then(const struct glint_cpu_call *call, float *scratch, int64_t task)
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
