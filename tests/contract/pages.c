/* K and V in pages (problem.page_rows): every forward row that runs here gives the bits of linear K and V, for each
 * page size, layout of pages and kind of mask, with sinks and softcaps. The pool's other rows are NaN, table entries
 * beyond a length are no pages of the pool, and memory ends where the pool and the table do. Bad entries are clamped
 * and noted; entries may repeat. */
#include <stdlib.h>
#include <string.h>

#include "tests/contract/suite.h"
#include "tests/contract/world.h"

enum { BATCH = 5, HEADS_Q = 4, HEADS_KV = 2, UNTOUCHED = 0x5a };

/* A problem of BATCH sequences and its memory, of which K, V and the table end, or begin, at an inaccessible page. */
struct batch {
    struct glint_problem problem;
    struct glint_tensors tensors;
    int32_t seqlens_q[BATCH], seqlens_k[BATCH];
    float sinks[HEADS_Q];
    struct guarded memory[LSE + 1], table, scale[2]; /* scales of 8-bit K and V, which lie as their rows do */
    uint32_t fault;
};

static int64_t length_of(const struct batch *x, enum tensor t, int64_t b)
{
    return t == K || t == V ? x->seqlens_k[b] : x->seqlens_q[b];
}

static int32_t *table_of(const struct batch *x, int64_t b)
{
    return (int32_t *)(void *)x->table.at + b * x->problem.pages_per_sequence;
}

/* Where row i of sequence b lies; of K and V through the table. */
static unsigned char *row_of(const struct batch *x, enum tensor t, int64_t b, int64_t h, int64_t i)
{
    const struct tensor_layout s = tensor_layout(&x->problem, t);
    if (x->problem.page_rows > 0 && (t == K || t == V)) {
        b = table_of(x, b)[i / x->problem.page_rows];
        i %= x->problem.page_rows;
    }
    const int64_t at = t == LSE ? (b * s.heads + h) * s.rows + i : b * s.strides.batch + h * s.strides.head + i * s.strides.row;
    return x->memory[t].at + at * s.element_bytes;
}

/* The numbers of a row are the same wherever it lies. */
static void fill_row(const struct batch *x, enum tensor t, int64_t b, int64_t h, int64_t i, uint64_t seed)
{
    struct rand r = rand_stream(seed, (uint64_t)((((int64_t)t * BATCH + b) * HEADS_Q + h) * 8192 + i));
    const uint32_t dtype = tensor_dtype(&x->problem, t);
    fill_random(&r, dtype, row_of(x, t, b, h, i), (size_t)(x->problem.head_dim * element_bytes(dtype)));
    if (dtype == GLINT_I8 || dtype == GLINT_E4M3) {
        const int64_t rows = x->problem.page_rows, page = rows > 0 ? table_of(x, b)[i / rows] : b;
        const int64_t at = (page * HEADS_KV + h) * (rows > 0 ? rows : x->problem.seqlen_k) + (rows > 0 ? i % rows : i);
        const float scale = 0x1p-7f * (1 + (float)rand_uniform(&r));
        memcpy(x->scale[t - K].at + 4 * at, &scale, sizeof scale);
    }
}

/* NaN everywhere but in the rows of the sequences. */
static void fill(struct batch *x, uint64_t seed)
{
    for (int i = 0; i < 2 && x->problem.kv_dtype != 0; i++)
        memset(x->scale[i].at, 0xff, x->scale[i].bytes);
    for (enum tensor t = Q; t <= LSE; t++) {
        memset(x->memory[t].at, t <= V ? 0xff : UNTOUCHED, x->memory[t].bytes);
        for (int64_t b = 0; t <= V && b < BATCH; b++)
            for (int64_t h = 0; h < (t == Q ? HEADS_Q : HEADS_KV); h++)
                for (int64_t i = 0; i < length_of(x, t, b); i++)
                    fill_row(x, t, b, h, i, seed);
    }
}

static void allocate(struct batch *x, bool at_end)
{
    const struct glint_problem *const p = &x->problem;
    x->tensors = (struct glint_tensors)GLINT_TENSORS_INIT;
    for (enum tensor t = Q; t <= LSE; t++) {
        x->memory[t] = guarded_make(tensor_bytes(p, t), (size_t)element_bytes(tensor_dtype(p, t)), at_end);
        tensor_set(&x->tensors, t, x->memory[t].at);
    }
    for (int i = 0; i < 2 && p->kv_dtype != 0; i++) {
        x->scale[i] = guarded_make(scale_bytes(p), sizeof(float), at_end);
        *(i == 0 ? &x->tensors.k_scale : &x->tensors.v_scale) = (const float *)(const void *)x->scale[i].at;
    }
    x->table = guarded_make((size_t)(p->batch * p->pages_per_sequence * 4), 4, at_end);
    x->tensors.seqlens_q = x->seqlens_q;
    x->tensors.seqlens_k = x->seqlens_k;
    x->fault = GLINT_NO_FAULT;
    x->tensors.fault = &x->fault;
    for (int h = 0; h < HEADS_Q; h++)
        x->sinks[h] = (float)h - 1;
    x->tensors.sinks = p->sinks != 0 ? x->sinks : NULL;
    x->tensors.page_table = p->page_rows > 0 ? (const int32_t *)(const void *)x->table.at : NULL;
}

static void drop(struct batch *x)
{
    for (enum tensor t = Q; t <= LSE; t++)
        guarded_free(&x->memory[t]);
    for (int i = 0; i < 2 && x->problem.kv_dtype != 0; i++)
        guarded_free(&x->scale[i]);
    guarded_free(&x->table);
}

static void run(const struct glint_context *context, uint32_t row, const struct batch *x)
{
    struct glint_plan plan;
    plan.struct_size = sizeof plan;
    enum glint_status status = glint_plan_variant(context, &x->problem, GLINT_FORWARD, row, &plan);
    EXPECT(status == GLINT_OK, "%s does not take the problem: %s", row_at(row).name, glint_status_name(status));
    void *workspace = aligned_memory(GLINT_WORKSPACE_ALIGNMENT, plan.workspace_bytes);
    memset(workspace, 0xff, plan.workspace_bytes);
    status = glint_forward(&plan, &x->tensors, workspace, plan.workspace_bytes, NULL);
    EXPECT(status == GLINT_OK, "%s: %s", row_at(row).name, glint_status_name(status));
    free(workspace);
}

static void describe(struct batch *x, const struct glint_variant_info *info, bool bottom_right, bool bhsd)
{
    const int64_t m = info->queries_up_to > 0 ? 6 : (int64_t)info->tile_m + 9, n = 2 * (int64_t)info->tile_n + 9;
    memset(x, 0, sizeof *x);
    (bhsd ? glint_problem_bhsd : glint_problem_bshd)(&x->problem, (enum glint_dtype)info->dtype, BATCH, m, n, HEADS_Q, HEADS_KV,
                                                     info->head_dim);
    serve_cache(&x->problem, info);
    x->problem.lengths = GLINT_LENGTHS_DEVICE;
    x->problem.mask = row_mask(info, bottom_right);
    if (x->problem.mask == GLINT_MASK_BAND_TOP_LEFT || x->problem.mask == GLINT_MASK_BAND_BOTTOM_RIGHT) {
        x->problem.window_left = (int64_t)info->tile_n / 2;
        x->problem.window_right = 1;
    }
    /* all keys; a key into a page; whole pages and tiles; a key; none */
    const int64_t q[BATCH] = {m, 1, m - 2, 2, 3}, k[BATCH] = {n, 257 < n ? 257 : n - 1, (int64_t)info->tile_n, 1, 0};
    for (int b = 0; b < BATCH; b++) {
        x->seqlens_q[b] = (int32_t)q[b];
        x->seqlens_k[b] = (int32_t)k[b];
    }
}

/* The same sequences in pages, which are drawn from the pool without order; entries beyond a length are no pages. */
static void put_into_pages(struct batch *x, const struct batch *linear, int64_t page_rows, bool bhsd, bool at_end, uint64_t seed)
{
    struct rand r = rand_stream(seed, 77);
    memset(x, 0, sizeof *x);
    x->problem = linear->problem;
    memcpy(x->seqlens_q, linear->seqlens_q, sizeof x->seqlens_q);
    memcpy(x->seqlens_k, linear->seqlens_k, sizeof x->seqlens_k);
    struct glint_problem *const p = &x->problem;
    const int64_t d = p->head_dim, each = (p->seqlen_k + page_rows - 1) / page_rows;
    p->page_rows = page_rows;
    p->pages_per_sequence = each + 1;
    p->pages = BATCH * each + 1;
    for (int i = 0; i < 2; i++) { /* V's pages have a gap at their end, and both a gap between rows */
        struct glint_strides *const s = i == 0 ? &p->k : &p->v;
        if (bhsd)
            *s = (struct glint_strides){HEADS_KV * page_rows * (d + 8) + 8 * i, page_rows * (d + 8), d + 8};
        else
            *s = (struct glint_strides){page_rows * HEADS_KV * (d + 8) + 8 * i, d + 8, HEADS_KV * (d + 8)};
    }
    allocate(x, at_end);
    int32_t *const free_pages = malloc((size_t)p->pages * sizeof *free_pages);
    int64_t left = p->pages;
    for (int64_t i = 0; i < left; i++)
        free_pages[i] = (int32_t)i;
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t i = 0; i < p->pages_per_sequence; i++) {
            if (i * page_rows >= x->seqlens_k[b]) {
                table_of(x, b)[i] = i % 2 == 0 ? INT32_MAX : INT32_MIN;
                continue;
            }
            const int64_t at = rand_below(&r, left);
            table_of(x, b)[i] = free_pages[at];
            free_pages[at] = free_pages[--left];
        }
    free(free_pages);
    fill(x, seed);
    guarded_read_only(&x->memory[K]);
    guarded_read_only(&x->memory[V]);
    guarded_read_only(&x->table);
}

static void expect_same(const struct batch *a, const struct batch *b, const char *name)
{
    for (enum tensor t = O; t <= LSE; t++)
        EXPECT(a->memory[t].bytes == b->memory[t].bytes && memcmp(a->memory[t].at, b->memory[t].at, a->memory[t].bytes) == 0,
               "%s, pages of %lld rows: %s has other bits than of linear K and V", name, (long long)b->problem.page_rows,
               tensor_name[t]);
}

/* The rows for AMX run too, where the system permits them. */
static struct glint_context *open_with_amx(struct counting *counting, uint32_t concurrency, void **storage)
{
    struct glint_options options = GLINT_OPTIONS_INIT;
    struct glint_context *context = NULL;
    options.device = GLINT_DEVICE_CPU;
    options.executor = counting_executor(counting, concurrency);
    (void)glint_permit_amx(&options);
    *storage = aligned_memory(GLINT_CONTEXT_ALIGNMENT, glint_context_size());
    EXPECT(glint_context_init(*storage, glint_context_size(), &options, &context) == GLINT_OK, "no context");
    return context;
}

static void each_row(uint32_t concurrency)
{
    static const int64_t sizes[] = {16, 32, 64, 128, 256};
    void *storage;
    struct counting counting;
    struct glint_context *const context = open_with_amx(&counting, concurrency, &storage);
    uint32_t tried = 0, compared = 0;
    for (uint32_t row = 0; row < glint_variant_count(); row++) {
        const struct glint_variant_info info = row_at(row);
        if (info.pass != GLINT_FORWARD || !row_serves(context, row))
            continue;
        for (uint32_t way = 0; way < 2; way++) {
            struct batch linear, paged;
            if (glint_variant_count() > 60 && (row + concurrency / 7) % 2 != way) /* of a large table half in each case */
                continue;
            describe(&linear, &info, way == 0, (row + way) % 2 == 0);
            if (way == 1) { /* with sinks, and capped where the row can */
                linear.problem.sinks = 1;
                linear.problem.softcap = (info.features & GLINT_FEATURE_SOFTCAP) != 0 ? 1.5f : 0;
            }
            allocate(&linear, way == 0);
            fill(&linear, row);
            run(context, row, &linear);
            EXPECT(linear.fault == GLINT_NO_FAULT, "linear: fault %u", linear.fault);
            for (size_t i = 0; i < 5; i++) {
                if (i >= 2 && (row + i + way + concurrency) % 3 != 0) /* the two smallest always, a third of the others */
                    continue;
                put_into_pages(&paged, &linear, sizes[i], (i + way) % 2 == 0, way == 0, row);
                run(context, row, &paged);
                expect_same(&linear, &paged, info.name);
                EXPECT(paged.fault == GLINT_NO_FAULT, "%s: fault %u", info.name, paged.fault);
                drop(&paged);
                compared++;
            }
            drop(&linear);
        }
        tried++;
    }
    EXPECT(tried > 0 && compared >= 2 * tried, "no forward row runs here");
    contract_note("concurrency %u: %u rows of the table, %u paged runs with the bits of linear K and V", concurrency, tried,
                  compared);
    free(storage);
}

static void one_body(void)
{
    each_row(1);
}

static void seven_bodies(void)
{
    each_row(7);
}

/* The first row that runs here, of a window if one is wanted and not of 8 bits, and two batches of the same
 * sequences. */
struct pair {
    void *storage;
    struct counting counting;
    struct glint_context *context;
    struct batch linear, paged;
    uint32_t row;
};

static void pair_make(struct pair *x, bool windowed, int64_t page_rows)
{
    struct glint_variant_info info;
    x->context = open_with_amx(&x->counting, 2, &x->storage);
    for (x->row = 0;; x->row++) {
        EXPECT(x->row < glint_variant_count(), "no forward row runs here");
        info = row_at(x->row);
        if (info.pass == GLINT_FORWARD && info.kv_dtype == 0 && row_serves(x->context, x->row) &&
            (!windowed || (info.features & GLINT_FEATURE_LEFT_BOUND) != 0))
            break;
    }
    describe(&x->linear, &info, true, false);
    allocate(&x->linear, true);
    fill(&x->linear, 9);
    put_into_pages(&x->paged, &x->linear, page_rows, false, true, 9);
}

static void pair_drop(struct pair *x)
{
    drop(&x->linear);
    drop(&x->paged);
    free(x->storage);
}

/* A table that may be written. */
static void own_table(struct batch *x, int32_t *entries)
{
    memcpy(entries, x->table.at, x->table.bytes);
    x->tensors.page_table = entries;
}

/* An entry out of the pool counts as its first or last page, and is a fault where a query sees the page; the other
 * sequences have their bits. */
static void bad_entries(void)
{
    struct pair x;
    int32_t entries[4096];
    pair_make(&x, false, 32);
    struct batch *const paged = &x.paged;
    const struct tensor_layout o = tensor_layout(&paged->problem, O);
    const int64_t last = paged->problem.pages - 1, each = paged->problem.pages_per_sequence;
    int32_t *const entry = &entries[2 * each + (paged->seqlens_k[2] - 1) / 32]; /* of a page that the last query sees */
    own_table(paged, entries);
    run(x.context, x.row, &x.linear);
    const int32_t bad[] = {(int32_t)last + 1, INT32_MAX, -1, INT32_MIN};
    for (size_t i = 0; i < 4; i++) {
        *entry = bad[i] < 0 ? 0 : (int32_t)last; /* what it counts as */
        run(x.context, x.row, paged);
        EXPECT(paged->fault == GLINT_NO_FAULT, "fault %u", paged->fault);
        unsigned char *const clamped = malloc(paged->memory[O].bytes);
        memcpy(clamped, paged->memory[O].at, paged->memory[O].bytes);
        *entry = bad[i];
        run(x.context, x.row, paged);
        EXPECT(paged->fault == 2, "entry %d: the word is %u", bad[i], paged->fault);
        EXPECT(memcmp(clamped, paged->memory[O].at, paged->memory[O].bytes) == 0, "entry %d is not clamped", bad[i]);
        for (int64_t b = 0; b < BATCH; b++) {
            const int64_t at = b * o.strides.batch * o.element_bytes;
            EXPECT(b == 2 || memcmp(x.linear.memory[O].at + at, paged->memory[O].at + at,
                                    (size_t)(o.strides.batch * o.element_bytes)) == 0,
                   "entry %d of sequence 2 changes sequence %lld", bad[i], (long long)b);
        }
        free(clamped);
        paged->fault = GLINT_NO_FAULT;
    }
    *entry = -5;
    entries[(paged->seqlens_k[0] - 1) / 32] = (int32_t)last + 7;
    run(x.context, x.row, paged);
    EXPECT(paged->fault == 0, "the first at fault is 0, not %u", paged->fault);
    pair_drop(&x);
}

/* Pages that a window has passed may be given back: what their entries say matters to no query and is no fault. */
static void passed_pages(void)
{
    struct pair x;
    int32_t entries[4096];
    bool any = false;
    for (uint32_t row = 0; row < glint_variant_count(); row++)
        any = any || (row_at(row).pass == GLINT_FORWARD && (row_at(row).features & GLINT_FEATURE_LEFT_BOUND) != 0);
    if (!any) {
        contract_note("skipped: no windows in the spec");
        return;
    }
    pair_make(&x, true, 16);
    struct batch *const paged = &x.paged;
    own_table(paged, entries);
    run(x.context, x.row, &x.linear);
    int passed = 0;
    for (int64_t b = 0; b < BATCH; b++) {
        const int64_t first = paged->seqlens_k[b] - paged->seqlens_q[b] - paged->problem.window_left; /* seen by the first query */
        for (int64_t i = 0; (i + 1) * 16 <= first && first > 0; i++, passed++)
            entries[b * paged->problem.pages_per_sequence + i] = i % 2 == 0 ? INT32_MAX : -1;
    }
    EXPECT(passed > 0, "no page is passed");
    run(x.context, x.row, paged);
    expect_same(&x.linear, paged, row_at(x.row).name);
    EXPECT(paged->fault == GLINT_NO_FAULT, "fault %u", paged->fault);

    x.linear.problem.diagonal = paged->problem.diagonal = INT64_MAX; /* all windows lie beyond the keys */
    for (int64_t i = 0; i < BATCH * paged->problem.pages_per_sequence; i++)
        entries[i] = -1;
    run(x.context, x.row, &x.linear);
    run(x.context, x.row, paged);
    expect_same(&x.linear, paged, row_at(x.row).name);
    EXPECT(paged->fault == GLINT_NO_FAULT, "of windows beyond the keys, fault %u", paged->fault);
    pair_drop(&x);
}

/* Two sequences with the same pages, one of them further on: a shared prefix. */
static void shared_pages(void)
{
    struct pair x;
    int32_t entries[4096];
    pair_make(&x, false, 16);
    struct batch *const paged = &x.paged;
    const int64_t each = paged->problem.pages_per_sequence;
    own_table(paged, entries);
    /* Sequence 1 becomes sequence 0, and 3 the first keys of it. */
    memcpy(entries + each, entries, (size_t)each * sizeof *entries);
    memcpy(entries + 3 * each, entries, (size_t)each * sizeof *entries);
    paged->seqlens_q[1] = paged->seqlens_q[3] = x.linear.seqlens_q[1] = x.linear.seqlens_q[3] = 3;
    paged->seqlens_k[1] = x.linear.seqlens_k[1] = x.linear.seqlens_k[0];
    paged->seqlens_k[3] = x.linear.seqlens_k[3] = 37;
    fill(&x.linear, 9);
    memset(paged->memory[O].at, UNTOUCHED, paged->memory[O].bytes);
    memset(paged->memory[LSE].at, UNTOUCHED, paged->memory[LSE].bytes);
    for (enum tensor t = Q; t <= V; t++) {
        const int64_t from[] = {1, 3};
        for (int k = 0; k < 2; k++)
            for (int64_t h = 0; h < (t == Q ? HEADS_Q : HEADS_KV); h++)
                for (int64_t i = 0; i < length_of(&x.linear, t, from[k]); i++) {
                    const size_t bytes = (size_t)(x.linear.problem.head_dim * element_bytes(x.linear.problem.dtype));
                    memcpy(row_of(&x.linear, t, from[k], h, i), row_of(&x.linear, t, 0, h, i), bytes);
                    if (t == Q)
                        memcpy(row_of(paged, t, from[k], h, i), row_of(paged, t, 0, h, i), bytes);
                }
    }
    run(x.context, x.row, &x.linear);
    run(x.context, x.row, paged);
    expect_same(&x.linear, paged, row_at(x.row).name);
    pair_drop(&x);
}

static void expect_refused(const struct glint_plan *plan, const struct glint_tensors *t, void *workspace,
                           enum glint_status expected, const char *word)
{
    char text[1024];
    const enum glint_status status = glint_forward(plan, t, workspace, plan->workspace_bytes, NULL);
    EXPECT(status == expected, "%s, not %s", glint_status_name(status), glint_status_name(expected));
    EXPECT(glint_explain_call(plan, GLINT_FORWARD, t, workspace, plan->workspace_bytes, NULL, text, sizeof text, NULL) ==
                   expected &&
               strstr(text, word) != NULL,
           "no %s in: %s", word, text);
}

static void expect_not_planned(const struct glint_context *context, const struct glint_problem *p, const char *word)
{
    char text[1024];
    struct glint_plan plan;
    EXPECT(glint_plan(context, p, GLINT_FORWARD, &plan) == GLINT_BAD_PAGES, "planned, or for another reason");
    EXPECT(glint_explain(context, p, GLINT_FORWARD, text, sizeof text, NULL) == GLINT_BAD_PAGES && strstr(text, word) != NULL,
           "no %s in: %s", word, text);
}

static void refusals(void)
{
    struct pair x;
    struct glint_plan plan;
    pair_make(&x, false, 64);
    struct batch *const paged = &x.paged;
    EXPECT(glint_plan(x.context, &paged->problem, GLINT_FORWARD, &plan) == GLINT_OK, "plan");
    unsigned char *workspace = aligned_memory(GLINT_WORKSPACE_ALIGNMENT, plan.workspace_bytes);
    struct glint_tensors t = paged->tensors;
    t.page_table = NULL;
    expect_refused(&plan, &t, workspace, GLINT_NULL_TENSOR, "page_table");
    t.page_table = (const int32_t *)(const void *)(paged->table.at - 2);
    expect_refused(&plan, &t, workspace, GLINT_TENSOR_MISALIGNED, "page_table");
    t.page_table = (const int32_t *)(const void *)paged->memory[LSE].at;
    expect_refused(&plan, &t, workspace, GLINT_TENSOR_OVERLAP, "page_table");
    t.page_table = (const int32_t *)(const void *)workspace;
    expect_refused(&plan, &t, workspace, GLINT_TENSOR_OVERLAP, "page_table");
    t = paged->tensors;
    t.fault = (uint32_t *)(void *)paged->table.at + BATCH * paged->problem.pages_per_sequence - 1;
    expect_refused(&plan, &t, workspace, GLINT_TENSOR_OVERLAP, "fault");
    t = paged->tensors;
    t.k = NULL;
    expect_refused(&plan, &t, workspace, GLINT_NULL_TENSOR, "k");
    for (size_t i = 0; i < paged->memory[O].bytes; i++)
        EXPECT(paged->memory[O].at[i] == UNTOUCHED, "a refused call wrote O");

    EXPECT(glint_plan(x.context, &x.linear.problem, GLINT_FORWARD, &plan) == GLINT_OK, "plan");
    free(workspace);
    workspace = aligned_memory(GLINT_WORKSPACE_ALIGNMENT, plan.workspace_bytes);
    t = x.linear.tensors;
    t.page_table = (const int32_t *)(const void *)paged->table.at;
    expect_refused(&plan, &t, workspace, GLINT_BAD_PAGES, "page_table");
    free(workspace);

    struct glint_problem p = paged->problem;
    p.page_rows = 48;
    expect_not_planned(x.context, &p, "page_rows is 48; it must be 16, 32");
    p.page_rows = 512;
    expect_not_planned(x.context, &p, "page_rows is 512");
    p.page_rows = 0;
    expect_not_planned(x.context, &p, "pages");
    p = paged->problem;
    p.pages = 0;
    expect_not_planned(x.context, &p, "pages is 0; it must be from 1 to 1073741823");
    p = paged->problem;
    p.pages_per_sequence = 1;
    expect_not_planned(x.context, &p, "pages_per_sequence is 1; seqlen_k and page_rows want");
    p = paged->problem;
    p.lengths = GLINT_LENGTHS_HOST;
    expect_not_planned(x.context, &p, "GLINT_LENGTHS_DEVICE");
    pair_drop(&x);
}

static const struct contract_case cases[] = {
    {"one_body", one_body, 300},       {"seven_bodies", seven_bodies, 300}, {"bad_entries", bad_entries, 0},
    {"passed_pages", passed_pages, 0}, {"shared_pages", shared_pages, 0},   {"refusals", refusals, 0},
};
CONTRACT_MAIN("pages", cases)
