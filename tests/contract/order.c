/* GLINT_ORDER_CANONICAL on the CPU: O and LSE of a query have the bits that they have in a whole prompt, however the
 * sequence came: in chunks, as single tokens, beside speculative ones, linear and in pages, in batches whose bounds are
 * others, on three threads. Sequences have 1,000 to 5,000 tokens, and schedules are random, on each instruction set
 * that runs here, of each dtype. GLINT_SCHEDULES=N: so many of each (4; 1 where that is slow). */
#include <stdlib.h>
#include <string.h>

#include "tests/contract/suite.h"
#include "tests/contract/world.h"

enum { HEADS_Q = 4, HEADS_KV = 2, PAGE_ROWS = 16, MOST = 3, LONGEST_CHUNK = 512 };

/* A sequence: its rows, the same keys in pages, and what a whole prompt gives. */
struct sequence {
    struct glint_problem problem; /* of the whole prompt */
    uint32_t variant;
    int64_t length, pages;
    size_t row_q, row_kv, row_scale; /* bytes of a row of all heads */
    unsigned char *q, *k, *v, *o, *k_pages, *v_pages;
    float *k_scale, *v_scale, *k_scale_pages, *v_scale_pages; /* of int8 and e4m3: [head][key], [page][head][row] */
    float *lse;                                               /* [head][length] */
    float sinks[HEADS_Q];
    int32_t *table;
};

/* Up to MOST pieces of the sequence, [at, at + rows), that are computed in one call. */
struct step {
    int64_t pieces, at[MOST], rows[MOST];
    bool paged, ragged;
    int64_t bound_q, bound_k; /* that are not below what is there */
    const struct glint_context *context;
};

static void *memory(size_t bytes)
{
    return aligned_memory(64, bytes);
}

static struct glint_tensors tensors_of(struct sequence *s)
{
    struct glint_tensors t = GLINT_TENSORS_INIT;
    t.q = s->q, t.k = s->k, t.v = s->v;
    t.sinks = s->problem.sinks != 0 ? s->sinks : NULL;
    t.k_scale = s->k_scale, t.v_scale = s->v_scale;
    return t;
}

static void run(const struct glint_plan *plan, const struct glint_tensors *t)
{
    void *workspace = aligned_memory(GLINT_WORKSPACE_ALIGNMENT, plan->workspace_bytes);
    const enum glint_status status = glint_forward(plan, t, workspace, plan->workspace_bytes, NULL);
    EXPECT(status == GLINT_OK, "glint_forward: %s", glint_status_sentence(status));
    free(workspace);
}

static struct glint_plan plan_of(const struct glint_context *context, const struct glint_problem *p)
{
    struct glint_plan plan;
    char why[1024];
    EXPECT(glint_plan(context, p, GLINT_FORWARD, &plan) == GLINT_OK, "glint_plan: %s",
           (glint_explain(context, p, GLINT_FORWARD, why, sizeof why, NULL), why));
    return plan;
}

/* Random rows; their pages lie in no order. */
static void make(struct sequence *s, const struct glint_context *context, const struct glint_variant_info *row, int64_t length,
                 struct rand *r)
{
    const int64_t d = row->head_dim;
    struct glint_problem *p = &s->problem;
    memset(s, 0, sizeof *s);
    glint_problem_bshd(p, (enum glint_dtype)row->dtype, 1, length, length, HEADS_Q, HEADS_KV, d);
    p->mask = row_mask(row, true);
    p->order = GLINT_ORDER_CANONICAL;
    if (p->mask == GLINT_MASK_BAND_BOTTOM_RIGHT)
        p->window_left = 1 + (int64_t)rand_below(r, 700);
    p->sinks = (uint32_t)rand_below(r, 2);
    if ((row->features & GLINT_FEATURE_SOFTCAP) != 0)
        p->softcap = 3;
    serve_cache(p, row);
    s->length = length;
    s->pages = (length + PAGE_ROWS - 1) / PAGE_ROWS;
    s->row_q = (size_t)(HEADS_Q * d * element_bytes(row->dtype));
    s->row_kv = (size_t)(HEADS_KV * d * element_bytes(row->kv_dtype != 0 ? row->kv_dtype : row->dtype));
    const size_t rows = (size_t)length, page_rows = (size_t)s->pages * PAGE_ROWS;
    s->q = memory(rows * s->row_q), s->o = memory(rows * s->row_q);
    s->k = memory(rows * s->row_kv), s->v = memory(rows * s->row_kv);
    s->k_pages = memory(page_rows * s->row_kv), s->v_pages = memory(page_rows * s->row_kv);
    s->lse = memory(rows * HEADS_Q * sizeof(float));
    s->table = memory((size_t)s->pages * sizeof *s->table);
    const uint32_t kv = tensor_dtype(p, K);
    fill_random(r, row->dtype, s->q, rows * s->row_q);
    fill_random(r, kv, s->k, rows * s->row_kv);
    fill_random(r, kv, s->v, rows * s->row_kv);
    for (int h = 0; h < HEADS_Q; h++)
        s->sinks[h] = (float)rand_uniform(r);
    for (int64_t i = 0; i < s->pages; i++) {
        const int64_t at = (int64_t)rand_below(r, i + 1);
        s->table[i] = s->table[at];
        s->table[at] = (int32_t)i;
    }
    memset(s->k_pages, 0xff, page_rows * s->row_kv);
    memset(s->v_pages, 0xff, page_rows * s->row_kv);
    if (p->kv_dtype != 0) {
        float **scales[] = {&s->k_scale, &s->v_scale, &s->k_scale_pages, &s->v_scale_pages};
        for (int i = 0; i < 4; i++)
            *scales[i] = memory(page_rows * HEADS_KV * sizeof(float));
        for (size_t i = 0; i < rows * HEADS_KV; i++) {
            s->k_scale[i] = 0x1p-7f * (1 + (float)rand_uniform(r));
            s->v_scale[i] = 0x1p-7f * (1 + (float)rand_uniform(r));
        }
    }
    for (int64_t i = 0; i < length; i++) {
        const size_t from = (size_t)i * s->row_kv, page = (size_t)s->table[i / PAGE_ROWS], row_at = (size_t)(i % PAGE_ROWS);
        memcpy(s->k_pages + (page * PAGE_ROWS + row_at) * s->row_kv, s->k + from, s->row_kv);
        memcpy(s->v_pages + (page * PAGE_ROWS + row_at) * s->row_kv, s->v + from, s->row_kv);
        for (size_t h = 0; h < HEADS_KV && p->kv_dtype != 0; h++) {
            s->k_scale_pages[(page * HEADS_KV + h) * PAGE_ROWS + row_at] = s->k_scale[h * rows + (size_t)i];
            s->v_scale_pages[(page * HEADS_KV + h) * PAGE_ROWS + row_at] = s->v_scale[h * rows + (size_t)i];
        }
    }
    const struct glint_plan plan = plan_of(context, p);
    struct glint_tensors t = tensors_of(s);
    t.o = s->o, t.lse = s->lse;
    run(&plan, &t);
    s->variant = plan.variant;
}

static void drop(struct sequence *s)
{
    void *all[] = {s->q,   s->k,     s->v,       s->o,       s->k_pages,       s->v_pages,
                   s->lse, s->table, s->k_scale, s->v_scale, s->k_scale_pages, s->v_scale_pages};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

/* Computes the pieces; the number of rows whose bits are not those of the whole prompt. */
static int64_t differing(struct sequence *s, const struct step *c, enum glint_order order, uint32_t *variant)
{
    struct glint_problem p = s->problem;
    int32_t first[MOST + 1] = {0}, lengths_q[MOST], lengths_k[MOST], tables[MOST * (5000 / PAGE_ROWS + 1)];
    for (int64_t i = 0; i < c->pieces; i++) {
        first[i + 1] = first[i] + (int32_t)c->rows[i];
        lengths_q[i] = (int32_t)c->rows[i];
        lengths_k[i] = (int32_t)(c->at[i] + c->rows[i]);
        memcpy(tables + i * s->pages, s->table, (size_t)s->pages * sizeof *tables);
    }
    const size_t rows = (size_t)(c->ragged ? first[c->pieces] : c->pieces * c->bound_q);
    p.order = order;
    p.batch = c->pieces;
    p.seqlen_q = c->bound_q, p.seqlen_k = c->bound_k;
    p.q.batch = p.o.batch = c->bound_q * p.q.row;
    struct glint_tensors t = tensors_of(s);
    if (c->paged) {
        p.lengths = c->ragged ? GLINT_LENGTHS_RAGGED : GLINT_LENGTHS_DEVICE;
        p.rows_q = c->ragged ? (int64_t)rows : 0;
        p.page_rows = PAGE_ROWS, p.pages = p.pages_per_sequence = s->pages;
        p.k.batch = p.v.batch = PAGE_ROWS * p.k.row;
        t.k = s->k_pages, t.v = s->v_pages, t.k_scale = s->k_scale_pages, t.v_scale = s->v_scale_pages;
        t.page_table = tables, t.seqlens_k = lengths_k;
        t.first_q = c->ragged ? first : NULL, t.seqlens_q = c->ragged ? NULL : lengths_q;
    }
    unsigned char *q = memory(rows * s->row_q), *o = memory(rows * s->row_q);
    float *lse = memory(rows * HEADS_Q * sizeof(float));
    memset(q, 0xff, rows * s->row_q);
    for (int64_t i = 0; i < c->pieces; i++)
        memcpy(q + (size_t)(c->ragged ? first[i] : i * c->bound_q) * s->row_q, s->q + (size_t)c->at[i] * s->row_q,
               (size_t)c->rows[i] * s->row_q);
    t.q = q, t.o = o, t.lse = lse;
    const struct glint_plan plan = plan_of(c->context, &p);
    run(&plan, &t);
    *variant = plan.variant;
    int64_t differ = 0;
    for (int64_t i = 0; i < c->pieces; i++) {
        for (int64_t j = 0; j < c->rows[i]; j++) {
            const size_t row = (size_t)((c->ragged ? first[i] : i * c->bound_q) + j), whole = (size_t)(c->at[i] + j);
            bool same = memcmp(o + row * s->row_q, s->o + whole * s->row_q, s->row_q) == 0;
            for (int64_t h = 0; h < HEADS_Q; h++) {
                const int64_t at = c->ragged ? h * (int64_t)rows + (int64_t)row : (i * HEADS_Q + h) * c->bound_q + j;
                same = same && memcmp(lse + at, s->lse + h * s->length + (int64_t)whole, sizeof *lse) == 0;
            }
            differ += !same;
        }
    }
    free(q), free(o), free(lse);
    return differ;
}

/* Tokens of the next piece: one, a few speculative ones, or a chunk. */
static int64_t draw_rows(struct rand *r, int64_t left)
{
    static const int64_t most[] = {1, 1, 8, 40, LONGEST_CHUNK};
    const int64_t kind = (int64_t)rand_below(r, 5), rows = 1 + (int64_t)rand_below(r, most[kind]);
    return rows < left ? rows : left;
}

/* The sequence comes piece by piece; beside a piece pieces from before may be computed again, in the same call. */
static int64_t schedule(struct sequence *s, const struct glint_context *const contexts[2], struct rand *r)
{
    int64_t calls = 0;
    for (int64_t at = 0, rows; at < s->length; at += rows, calls++) {
        rows = draw_rows(r, s->length - at);
        struct step c = {.pieces = 1, .at = {at}, .rows = {rows}, .bound_q = rows, .bound_k = at + rows};
        c.context = contexts[rand_below(r, 2)];
        /* scales of linear rows lie by the number of all keys */
        c.paged = s->problem.kv_dtype != 0 || rand_below(r, 3) != 0;
        c.ragged = c.paged && rand_below(r, 2) != 0;
        while (c.paged && at > 0 && c.pieces < MOST && rand_below(r, 2) != 0) {
            const int64_t again = (int64_t)rand_below(r, at);
            c.at[c.pieces] = again;
            c.rows[c.pieces] = draw_rows(r, at - again);
            c.bound_q = c.rows[c.pieces] > c.bound_q ? c.rows[c.pieces] : c.bound_q;
            c.pieces++;
        }
        if (c.paged) {
            c.bound_q += (int64_t)rand_below(r, 3) * 20;
            c.bound_k = rand_below(r, 2) != 0 ? s->length : c.bound_k;
        }
        uint32_t variant;
        const int64_t differ = differing(s, &c, GLINT_ORDER_CANONICAL, &variant);
        EXPECT(variant == s->variant, "%s, and the whole prompt had %s", row_at(variant).name, row_at(s->variant).name);
        EXPECT(differ == 0, "%s: %lld rows differ, of %lld pieces from %lld on, %lld rows%s%s", row_at(variant).name,
               (long long)differ, (long long)c.pieces, (long long)at, (long long)rows, c.paged ? ", in pages" : "",
               c.ragged ? ", ragged" : "");
    }
    return calls;
}

/* Causal and band rows of this context, a random one for each dtype of Q and of K and V. */
static void each_dtype(const struct glint_context *const contexts[2], uint64_t seed)
{
    const char *asked = getenv("GLINT_SCHEDULES");
    const int64_t schedules = asked ? atoi(asked) : CONTRACT_EMULATED || CONTRACT_SANITIZED ? 1 : 4;
    struct glint_device_info device = GLINT_DEVICE_INFO_INIT;
    EXPECT(glint_context_device(contexts[0], &device) == GLINT_OK, "no device");
    for (uint32_t dtype = GLINT_F32; dtype <= GLINT_BF16; dtype++) {
        for (uint32_t kv = 0; kv <= GLINT_E4M3; kv += kv == 0 ? GLINT_I8 : 1) {
            int64_t calls = 0;
            for (int64_t i = 0; i < schedules; i++) {
                struct rand r = rand_stream(seed + device.isa, (uint64_t)((i * 4 + dtype) * 8 + kv));
                struct glint_variant_info row = {0};
                int64_t seen = 0;
                for (uint32_t j = 0; j < glint_variant_count(); j++) {
                    const struct glint_variant_info info = row_at(j);
                    if (info.pass == GLINT_FORWARD && info.queries_up_to == 0 && (info.features & GLINT_FEATURE_RIGHT_BOUND) != 0 &&
                        info.dtype == dtype && info.kv_dtype == kv && info.head_dim <= 128 && row_serves(contexts[0], j) &&
                        rand_below(&r, ++seen) == 0)
                        row = info;
                }
                if (seen == 0)
                    continue;
                struct sequence s;
                make(&s, contexts[0], &row, 1000 + (int64_t)rand_below(&r, i % 4 == 3 ? 4001 : 300), &r);
                calls += schedule(&s, contexts, &r);
                drop(&s);
            }
            if (calls > 0)
                contract_note("%s, dtype %u of %u: %lld calls", glint_isa_name(device.isa), dtype, kv, (long long)calls);
        }
    }
}

struct world {
    struct counting counting;
    void *storage[2];
    struct glint_context *contexts[2];
};

/* A serial context and one with three bodies; false where the machine has no more than the instruction set below. */
static bool open(struct world *w, uint32_t isa)
{
    struct glint_device_info device = GLINT_DEVICE_INFO_INIT;
    for (int i = 0; i < 2; i++) {
        struct glint_options options = GLINT_OPTIONS_INIT;
        options.device = GLINT_DEVICE_CPU;
        options.max_isa = isa;
        if (isa == GLINT_ISA_X86_64_AMX && glint_permit_amx(&options) != GLINT_OK)
            return false;
        if (i == 1)
            options.executor = counting_executor(&w->counting, 3);
        w->storage[i] = aligned_memory(GLINT_CONTEXT_ALIGNMENT, glint_context_size());
        if (glint_context_init(w->storage[i], glint_context_size(), &options, &w->contexts[i]) != GLINT_OK)
            return false;
    }
    return glint_context_device(w->contexts[0], &device) == GLINT_OK && device.isa == isa;
}

static void schedules(void)
{
    for (uint32_t isa = GLINT_ISA_X86_64; isa <= GLINT_ISA_AARCH64; isa++) {
        struct world w = {0};
        if (glint_isa_name(isa) != NULL && open(&w, isa)) {
            const struct glint_context *const contexts[2] = {w.contexts[0], w.contexts[1]};
            each_dtype(contexts, 20);
        }
        free(w.storage[0]);
        free(w.storage[1]);
    }
}

/* Without the order a token has a row of its own, and another order of sums: so what is compared above may differ. */
static void tokens_differ_otherwise(void)
{
    struct world w = {0};
    struct glint_device_info device = GLINT_DEVICE_INFO_INIT;
    w.contexts[0] = open_serial(&w.storage[0]);
    EXPECT(glint_context_device(w.contexts[0], &device) == GLINT_OK, "no device");
    for (uint32_t i = 0; i < glint_variant_count(); i++) {
        const struct glint_variant_info row = row_at(i);
        if (row.queries_up_to == 0 || (row.features & GLINT_FEATURE_RIGHT_BOUND) == 0 || row.kv_dtype != 0 || row.head_dim > 128 ||
            row.isa != device.isa)
            continue;
        struct rand r = rand_stream(21, i);
        struct sequence s;
        make(&s, w.contexts[0], &row, 1000, &r);
        const struct step c = {.pieces = 1, .at = {999}, .rows = {1}, .bound_q = 1, .bound_k = 1000, .context = w.contexts[0]};
        uint32_t variant;
        EXPECT(differing(&s, &c, GLINT_ORDER_CANONICAL, &variant) == 0, "%s", row_at(variant).name);
        const int64_t differ = differing(&s, &c, GLINT_ORDER_ANY, &variant);
        EXPECT(variant != s.variant && differ == 1, "%s has the bits of %s", row_at(variant).name, row_at(s.variant).name);
        drop(&s);
        break;
    }
    free(w.storage[0]);
}

static const struct contract_case cases[] = {{"schedules", schedules, 600},
                                             {"tokens_differ_otherwise", tokens_differ_otherwise, 0}};
CONTRACT_MAIN("order", cases)
