/* glint_append: rows come where the next call reads them, rounded as IEEE says, and nothing else is written; a cache
 * that is filled in steps, linear or in pages, gives the bits of one that was there at once; 10,000 steps of a ring
 * of pages behind a window; what cannot be placed is left out and noted; refusals. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/contract/suite.h"
#include "tests/contract/world.h"
#include "tests/oracle/half.h"

enum { BATCH = 3, HEADS_Q = 4, HEADS_KV = 2, NOT_YET = 0xff };

/* A forward row, a problem of a cache, and its memory. The rows that are to be appended are float32 in
 * [BATCH][tokens][HEADS_KV][head_dim]. */
struct cache {
    struct glint_context *context;
    uint32_t row; /* of the table */
    struct glint_problem problem;
    struct glint_tensors tensors;
    int32_t seqlens_q[BATCH], seqlens_k[BATCH];
    struct guarded memory[LSE + 1], table;
    uint32_t fault;
    struct glint_plan plan;
    void *workspace;
};

static size_t element_of(const struct cache *x)
{
    return (size_t)element_bytes(x->problem.dtype);
}

/* Bounds of `queries` and `capacity` keys; linear when page_rows is 0. The pages of a sequence lie in the pool from
 * its last one to its first one. K and V begin as NaN. */
static void make(struct cache *x, struct glint_context *context, uint32_t row, uint32_t mask, int64_t queries, int64_t capacity,
                 int64_t page_rows, bool heads_first)
{
    const struct glint_variant_info info = row_at(row);
    memset(x, 0, sizeof *x);
    x->context = context;
    x->row = row;
    struct glint_problem *const p = &x->problem;
    (heads_first ? glint_problem_bhsd : glint_problem_bshd)(p, (enum glint_dtype)info.dtype, BATCH, queries, capacity, HEADS_Q,
                                                            HEADS_KV, info.head_dim);
    p->mask = mask;
    p->lengths = GLINT_LENGTHS_DEVICE;
    if (page_rows > 0) {
        p->page_rows = page_rows;
        p->pages_per_sequence = (capacity + page_rows - 1) / page_rows;
        p->pages = BATCH * p->pages_per_sequence;
        const int64_t d = p->head_dim;
        p->k = p->v = heads_first ? (struct glint_strides){HEADS_KV * page_rows * d, page_rows * d, d}
                                  : (struct glint_strides){page_rows * HEADS_KV * d, d, HEADS_KV * d};
    }
    x->tensors = (struct glint_tensors)GLINT_TENSORS_INIT;
    for (enum tensor t = Q; t <= LSE; t++) {
        x->memory[t] = guarded_make(tensor_bytes(p, t), (size_t)element_bytes(p->dtype), true);
        memset(x->memory[t].at, NOT_YET, x->memory[t].bytes);
        tensor_set(&x->tensors, t, x->memory[t].at);
    }
    x->table = guarded_make((size_t)(p->batch * p->pages_per_sequence * 4), 4, true);
    for (int64_t i = 0; i < p->pages; i++)
        ((int32_t *)(void *)x->table.at)[i] = (int32_t)(p->pages - 1 - i);
    x->tensors.page_table = page_rows > 0 ? (const int32_t *)(const void *)x->table.at : NULL;
    x->tensors.seqlens_q = x->seqlens_q;
    x->tensors.seqlens_k = x->seqlens_k;
    x->fault = GLINT_NO_FAULT;
    x->tensors.fault = &x->fault;
}

static void plan(struct cache *x)
{
    const enum glint_status status = glint_plan_variant(x->context, &x->problem, GLINT_FORWARD, x->row, &x->plan);
    EXPECT(status == GLINT_OK, "%s: %s", row_at(x->row).name, glint_status_name(status));
    x->workspace = aligned_memory(GLINT_WORKSPACE_ALIGNMENT, x->plan.workspace_bytes);
}

static void drop(struct cache *x)
{
    for (enum tensor t = Q; t <= LSE; t++)
        guarded_free(&x->memory[t]);
    guarded_free(&x->table);
    free(x->workspace);
}

static unsigned char *place(const struct cache *x, enum tensor t, int64_t b, int64_t h, int64_t key)
{
    const struct glint_problem *const p = &x->problem;
    const struct glint_strides s = t == K ? p->k : p->v;
    int64_t page = b, row = key;
    if (p->page_rows > 0) {
        page = ((const int32_t *)(const void *)x->table.at)[b * p->pages_per_sequence + key / p->page_rows];
        row = key % p->page_rows;
    }
    return x->memory[t].at + (size_t)(page * s.batch + h * s.head + row * s.row) * element_of(x);
}

static float number(int64_t b, int64_t h, int64_t key, int64_t d, enum tensor t)
{
    struct rand r = rand_stream((uint64_t)(t == K), (uint64_t)(((b * HEADS_KV + h) * 65536 + key) * 1024 + d));
    return rand_normal(&r);
}

/* The new rows of all sequences, those up to seqlens_k: [BATCH][bound][HEADS_KV][head_dim]; in the cache's dtype
 * they are rounded already. */
static void new_rows(const struct cache *x, struct glint_append *a, void *const memory[2], enum glint_dtype dtype)
{
    const struct glint_problem *const p = &x->problem;
    const size_t bytes = dtype_bytes(dtype);
    for (int i = 0; i < 2; i++) {
        memset(memory[i], NOT_YET, (size_t)(BATCH * p->seqlen_q * HEADS_KV * p->head_dim) * bytes);
        for (int64_t b = 0; b < BATCH; b++)
            for (int64_t q = 0; q < x->seqlens_q[b]; q++)
                for (int64_t h = 0; h < HEADS_KV; h++)
                    for (int64_t d = 0; d < p->head_dim; d++)
                        dtype_store(dtype,
                                    (unsigned char *)memory[i] +
                                        (size_t)(((b * p->seqlen_q + q) * HEADS_KV + h) * p->head_dim + d) * bytes,
                                    number(b, h, x->seqlens_k[b] - x->seqlens_q[b] + q, d, i == 0 ? K : V));
    }
    *a = (struct glint_append)GLINT_APPEND_INIT;
    a->dtype = (uint32_t)dtype;
    a->k = memory[0];
    a->v = memory[1];
    a->k_strides = a->v_strides = (struct glint_strides){p->seqlen_q * HEADS_KV * p->head_dim, p->head_dim, HEADS_KV * p->head_dim};
}

static void append(const struct cache *x, const struct glint_append *a)
{
    const enum glint_status status = glint_append(&x->plan, a, &x->tensors, NULL);
    EXPECT(status == GLINT_OK, "%s", glint_status_name(status));
}

static void attend(const struct cache *x)
{
    memset(x->workspace, 0xff, x->plan.workspace_bytes);
    const enum glint_status status = glint_forward(&x->plan, &x->tensors, x->workspace, x->plan.workspace_bytes, NULL);
    EXPECT(status == GLINT_OK, "%s", glint_status_name(status));
}

/* Key `key` of every sequence is there, rounded by the oracle. */
static void put_at_once(struct cache *x)
{
    const struct glint_problem *const p = &x->problem;
    for (enum tensor t = K; t <= V; t++)
        for (int64_t b = 0; b < BATCH; b++)
            for (int64_t h = 0; h < HEADS_KV; h++)
                for (int64_t key = 0; key < x->seqlens_k[b]; key++)
                    for (int64_t d = 0; d < p->head_dim; d++)
                        dtype_store((enum glint_dtype)p->dtype, place(x, t, b, h, key) + (size_t)d * element_of(x),
                                    number(b, h, key, d, t));
}

static void fill_queries(struct cache *x, uint64_t seed)
{
    struct rand r = rand_stream(seed, 3);
    fill_random(&r, x->problem.dtype, x->memory[Q].at, x->memory[Q].bytes);
}

/* One whose cache can be appended to: not of 8 bits. */
static bool is_forward_row(const struct glint_context *context, uint32_t row)
{
    return row_at(row).kv_dtype == 0 && row_at(row).pass == GLINT_FORWARD && row_serves(context, row);
}

/* The first forward row of a dtype that runs here, or UINT32_MAX. `windowed`: one with both sides of a window. */
static uint32_t row_of(const struct glint_context *context, uint32_t dtype, bool windowed)
{
    for (uint32_t row = 0; row < glint_variant_count(); row++)
        if (is_forward_row(context, row) && (dtype == 0 || row_at(row).dtype == dtype) &&
            (!windowed || (row_at(row).features & GLINT_FEATURE_LEFT_BOUND) != 0))
            return row;
    return UINT32_MAX;
}

/* ---- what is written --------------------------------------------------------------------------------------------- */

/* Random bit patterns and the numbers where rounding turns, from float32 and as they are, into every dtype; nothing
 * else changes. */
static void rounding(void)
{
    static const uint32_t turns[] = {0,          0x80000000, 0x00000001, 0x807fffff, 0x7f7fffff, 0xff7fffff, 0x7f800000,
                                     0xff800000, 0x7fc00000, 0x7f800001, 0xffffffff, 0x3f808000, 0x3f818000, 0x3f807fff,
                                     0x3f808001, 0x477fefff, 0x477ff000, 0x477fe000, 0x33000000, 0x33000001, 0x33800000,
                                     0x387fc000, 0x387fe000, 0x38800000, 0x3f801000, 0x3f803000, 0x3f802fff, 0x7f7f8000,
                                     0x7f7f7fff, 0xb3000001, 0x00008000, 0x00018000};
    void *storage;
    struct glint_context *const context = open_serial(&storage);
    uint64_t compared = 0;
    for (uint32_t dtype = GLINT_F32; dtype <= GLINT_BF16; dtype++) {
        const uint32_t row = row_of(context, dtype, false);
        struct rand r = rand_stream(dtype, 5);
        if (row == UINT32_MAX)
            continue;
        const struct glint_variant_info info = row_at(row);
        struct cache x;
        make(&x, context, row, row_mask(&info, true), 64, 200, dtype == GLINT_F16 ? 32 : 0, dtype != GLINT_BF16);
        plan(&x);
        const int64_t d = x.problem.head_dim, count = BATCH * x.problem.seqlen_q * HEADS_KV * d;
        float *const rows[2] = {malloc((size_t)count * 4), malloc((size_t)count * 4)};
        for (int64_t i = 0; i < 2 * count; i++) {
            uint32_t bits =
                i % 3 == 0 ? (uint32_t)rand_bits(&r) : turns[rand_below(&r, 32)] ^ (i % 3 == 1 ? 0 : (uint32_t)(i % 2) << 31);
            memcpy(&rows[i / count][i % count], &bits, 4);
        }
        for (int b = 0; b < BATCH; b++) {
            x.seqlens_q[b] = 64 - 7 * b;
            x.seqlens_k[b] = 150 + b;
        }
        const struct glint_append a = {.struct_size = sizeof a,
                                       .dtype = GLINT_F32,
                                       .k = rows[0],
                                       .v = rows[1],
                                       .k_strides = {64 * HEADS_KV * d, d, HEADS_KV * d},
                                       .v_strides = {64 * HEADS_KV * d, d, HEADS_KV * d}};
        append(&x, &a);
        EXPECT(x.fault == GLINT_NO_FAULT, "fault %u", x.fault);
        for (enum tensor t = K; t <= V; t++)
            for (int64_t b = 0; b < BATCH; b++)
                for (int64_t h = 0; h < HEADS_KV; h++)
                    for (int64_t key = 0; key < 200; key++)
                        for (int64_t e = 0; e < d; e++, compared++) {
                            const unsigned char *const at = place(&x, t, b, h, key) + (size_t)e * element_of(&x);
                            const int64_t i = key - (x.seqlens_k[b] - x.seqlens_q[b]);
                            if (i < 0 || i >= x.seqlens_q[b]) {
                                EXPECT(at[0] == NOT_YET && at[element_of(&x) - 1] == NOT_YET, "key %lld was written",
                                       (long long)key);
                                continue;
                            }
                            const float from = rows[t - K][((b * 64 + i) * HEADS_KV + h) * d + e];
                            const float got = dtype_load((enum glint_dtype)dtype, at),
                                        right = dtype_round((enum glint_dtype)dtype, from);
                            EXPECT(isnan(right) ? isnan(got) : memcmp(&got, &right, 4) == 0, "%a became %a, not %a, as %s",
                                   (double)from, (double)got, (double)right, dtype_name((enum glint_dtype)dtype));
                        }
        free(rows[0]), free(rows[1]);
        drop(&x);
    }
    EXPECT(compared > 0, "no forward row runs here");
    free(storage);
}

/* ---- a cache that grows ------------------------------------------------------------------------------------------ */

/* A prompt for each sequence, then a few tokens at a time, some sequences pausing, over the ends of pages: after
 * each step O, LSE, K and V have the bits of a linear cache that was there at once. */
static void grows(uint32_t concurrency)
{
    enum { PROMPT = 70, CAPACITY = 300, STEPS = 6 };
    static const int32_t more[STEPS][BATCH] = {{61, 1, 33}, {1, 0, 1}, {1, 15, 1}, {64, 16, 0}, {2, 17, 70}, {1, 1, 1}};
    void *storage;
    struct counting counting;
    struct glint_context *const context = open_context(&counting, concurrency, &storage);
    uint32_t compared = 0;
    for (uint32_t row = 0; row < glint_variant_count(); row++) {
        const struct glint_variant_info info = row_at(row);
        if (!is_forward_row(context, row) || (row % 5 != 0 && glint_variant_count() > 60))
            continue;
        static const int64_t page_rows[] = {0, 16, 64, 256};
        for (uint32_t way = CONTRACT_EMULATED ? row % 4 : 0; way < 4; way += CONTRACT_EMULATED ? 4 : 1) {
            struct cache x, at_once;
            const uint32_t mask = row_mask(&info, true);
            make(&x, context, row, mask, PROMPT, CAPACITY, page_rows[way], (row + way) % 2 == 0);
            make(&at_once, context, row, mask, PROMPT, CAPACITY, 0, false);
            if (mask == GLINT_MASK_BAND_BOTTOM_RIGHT)
                x.problem.window_left = at_once.problem.window_left = 50;
            x.problem.q = at_once.problem.q, x.problem.o = at_once.problem.o; /* only the caches differ */
            plan(&x);
            plan(&at_once);
            const enum glint_dtype dtype = way % 2 == 0 ? GLINT_F32 : (enum glint_dtype)info.dtype;
            void *const memory[2] = {malloc((size_t)(BATCH * PROMPT * HEADS_KV * x.problem.head_dim * 4)),
                                     malloc((size_t)(BATCH * PROMPT * HEADS_KV * x.problem.head_dim * 4))};
            for (int step = 0; step < STEPS; step++, compared++) {
                struct glint_append a;
                for (int b = 0; b < BATCH; b++) {
                    x.seqlens_q[b] = at_once.seqlens_q[b] = more[step][b];
                    x.seqlens_k[b] += more[step][b];
                    at_once.seqlens_k[b] = x.seqlens_k[b];
                }
                fill_queries(&x, (uint64_t)step);
                fill_queries(&at_once, (uint64_t)step);
                new_rows(&x, &a, memory, dtype);
                append(&x, &a);
                put_at_once(&at_once);
                attend(&x);
                attend(&at_once);
                EXPECT(x.fault == GLINT_NO_FAULT, "fault %u", x.fault);
                for (enum tensor t = O; t <= LSE; t++)
                    EXPECT(memcmp(x.memory[t].at, at_once.memory[t].at, x.memory[t].bytes) == 0,
                           "%s, pages of %lld rows, step %d: %s differs", info.name, (long long)page_rows[way], step,
                           tensor_name[t]);
            }
            free(memory[0]), free(memory[1]);
            drop(&x);
            drop(&at_once);
        }
    }
    EXPECT(compared > 0, "no forward row runs here");
    contract_note("concurrency %u: %u steps with the bits of a cache that was there at once", concurrency, compared);
    free(storage);
}

static void grows_on_one_body(void)
{
    grows(1);
}

static void grows_on_seven_bodies(void)
{
    grows(7);
}

static long resident_pages(void)
{
    long all = 0, resident = 0;
    FILE *const f = fopen("/proc/self/statm", "r");
    EXPECT(f != NULL && fscanf(f, "%ld %ld", &all, &resident) == 2, "no /proc/self/statm");
    fclose(f);
    return resident;
}

/* 10,000 steps of one query. With windows in the spec the window is of 100 keys, and the pages of a sequence are
 * nine, which come round again and again in its row of the table: the ring has the bits of a linear cache that keeps
 * everything. Without, sequences of 600 tokens come one after another. No memory grows. */
static void ten_thousand_steps(void)
{
    enum { STEPS = 10000, WINDOW = 100, TOKENS = 600 };
    void *storage;
    struct counting counting;
    struct glint_context *const context = open_context(&counting, 2, &storage);
    const bool windowed = row_of(context, 0, true) != UINT32_MAX;
    const uint32_t row = row_of(context, 0, windowed);
    const struct glint_variant_info info = row_at(row);
    const uint32_t mask = windowed ? GLINT_MASK_BAND_BOTTOM_RIGHT : row_mask(&info, true);
    const int64_t tokens = windowed ? STEPS : TOKENS, pages = windowed ? 9 : (TOKENS + 15) / 16;
    struct cache ring, all;
    make(&ring, context, row, mask, 1, tokens, 16, true);
    make(&all, context, row, mask, 1, tokens, 0, false);
    if (windowed)
        ring.problem.window_left = all.problem.window_left = WINDOW - 1;
    ring.problem.q = all.problem.q, ring.problem.o = all.problem.o;
    ring.problem.pages = BATCH * pages;
    int32_t *const table = (int32_t *)(void *)ring.table.at;
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t i = 0; i < ring.problem.pages_per_sequence; i++)
            table[b * ring.problem.pages_per_sequence + i] = (int32_t)(b * pages + i % pages);
    const size_t pool = tensor_bytes(&ring.problem, K);
    guarded_free(&ring.memory[K]);
    guarded_free(&ring.memory[V]);
    for (enum tensor t = K; t <= V; t++) { /* the ring and not a page more */
        ring.memory[t] = guarded_make(pool, element_of(&ring), true);
        memset(ring.memory[t].at, NOT_YET, pool);
        tensor_set(&ring.tensors, t, ring.memory[t].at);
    }
    plan(&ring);
    plan(&all);
    void *const memory[2] = {malloc((size_t)(BATCH * HEADS_KV * ring.problem.head_dim * 4)),
                             malloc((size_t)(BATCH * HEADS_KV * ring.problem.head_dim * 4))};
    long before = 0;
    for (int step = 0; step < STEPS; step++) {
        struct glint_append a;
        for (int b = 0; b < BATCH; b++) {
            ring.seqlens_q[b] = all.seqlens_q[b] = 1;
            ring.seqlens_k[b] = all.seqlens_k[b] = (int32_t)(step % tokens) + 1;
        }
        if (step % 50 == 0)
            fill_queries(&ring, (uint64_t)step);
        new_rows(&ring, &a, memory, GLINT_F32);
        append(&ring, &a);
        attend(&ring);
        append(&all, &a);
        if (step % 97 == 0 || step > STEPS - 40) {
            memcpy(all.memory[Q].at, ring.memory[Q].at, ring.memory[Q].bytes);
            attend(&all);
            EXPECT(memcmp(ring.memory[O].at, all.memory[O].at, all.memory[O].bytes) == 0 &&
                       memcmp(ring.memory[LSE].at, all.memory[LSE].at, all.memory[LSE].bytes) == 0,
                   "step %d: the ring has other bits", step);
        }
        if (step == 200)
            before = resident_pages();
    }
    EXPECT(ring.fault == GLINT_NO_FAULT && all.fault == GLINT_NO_FAULT, "faults %u, %u", ring.fault, all.fault);
    /* The linear cache was written whole by `make`: nothing of the process may have grown but by the noise of its
     * own files. */
    const long grown = resident_pages() - before;
    contract_note("%s: 10,000 steps, %ld pages of memory more", windowed ? "a ring behind a window" : "no windows in the spec",
                  grown);
    EXPECT(CONTRACT_SANITIZED || CONTRACT_EMULATED || grown <= 64, "10,000 steps grew the process by %ld pages", grown);
    free(memory[0]), free(memory[1]);
    drop(&ring);
    drop(&all);
    free(storage);
}

/* One query sees the last keys without a window too: the table of the appending plan has the ring's pages again and
 * again, that of the attending plan has them once, and no mask minds their order. The bits are those of the same
 * rows in that order in a linear cache. */
static void ring_without_a_window(void)
{
    enum { STEPS = 150, ROWS = 64 };
    void *storage;
    struct counting counting;
    struct glint_context *const context = open_context(&counting, 2, &storage);
    const uint32_t row = row_of(context, 0, false);
    struct cache grown, ring;
    const struct glint_variant_info info = row_at(row);
    make(&grown, context, row, row_mask(&info, true), 1, STEPS, 16, true);
    make(&ring, context, row, row_mask(&info, true), 1, ROWS, 0, false); /* linear: the right answer */
    if (grown.problem.mask == GLINT_MASK_BAND_BOTTOM_RIGHT)
        grown.problem.window_left = ring.problem.window_left = STEPS; /* hides nothing */
    grown.problem.q = ring.problem.q, grown.problem.o = ring.problem.o;
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t i = 0; i < grown.problem.pages_per_sequence; i++)
            ((int32_t *)(void *)grown.table.at)[b * grown.problem.pages_per_sequence + i] =
                (int32_t)(b * ROWS / 16 + i % (ROWS / 16));
    plan(&grown);
    plan(&ring);
    struct glint_plan attending;
    struct glint_problem p = grown.problem;
    p.seqlen_k = ROWS;
    int32_t once[BATCH * ROWS / 16], lengths[BATCH];
    p.pages_per_sequence = ROWS / 16;
    EXPECT(glint_plan_variant(context, &p, GLINT_FORWARD, row, &attending) == GLINT_OK, "plan");
    EXPECT(attending.workspace_bytes <= grown.plan.workspace_bytes, "fewer keys want more workspace");
    for (int i = 0; i < BATCH * ROWS / 16; i++)
        once[i] = i;
    void *const memory[2] = {malloc((size_t)(BATCH * HEADS_KV * p.head_dim * 4)),
                             malloc((size_t)(BATCH * HEADS_KV * p.head_dim * 4))};
    for (int step = 0; step < STEPS; step++) {
        struct glint_append a;
        for (int b = 0; b < BATCH; b++) {
            grown.seqlens_q[b] = ring.seqlens_q[b] = 1;
            grown.seqlens_k[b] = step + 1;
            ring.seqlens_k[b] = lengths[b] = step < ROWS ? step + 1 : ROWS;
        }
        fill_queries(&grown, (uint64_t)step);
        fill_queries(&ring, (uint64_t)step);
        new_rows(&grown, &a, memory, GLINT_F32);
        append(&grown, &a);
        for (enum tensor t = K; t <= V; t++)
            for (int64_t b = 0; b < BATCH; b++)
                for (int64_t h = 0; h < HEADS_KV; h++)
                    for (int64_t d = 0; d < p.head_dim; d++)
                        dtype_store((enum glint_dtype)p.dtype, place(&ring, t, b, h, step % ROWS) + (size_t)d * element_of(&ring),
                                    number(b, h, step, d, t));
        struct glint_tensors t = grown.tensors;
        t.page_table = once;
        t.seqlens_k = lengths;
        EXPECT(glint_forward(&attending, &t, grown.workspace, attending.workspace_bytes, NULL) == GLINT_OK, "forward");
        attend(&ring);
        EXPECT(memcmp(grown.memory[O].at, ring.memory[O].at, ring.memory[O].bytes) == 0, "step %d: the ring has other bits", step);
    }
    EXPECT(grown.fault == GLINT_NO_FAULT, "fault %u", grown.fault);
    free(memory[0]), free(memory[1]);
    drop(&grown);
    drop(&ring);
    free(storage);
}

/* ---- what has no place ------------------------------------------------------------------------------------------- */

/* Lengths and pages out of bounds: the rows that have a place are written and no byte beside them, and the word is
 * the first sequence at fault. */
static void left_out(void)
{
    enum { BOUND = 4, CAPACITY = 40 };
    static const struct {
        int32_t queries, keys;
        bool fault;
    } of[] = {
        {4, 40, false},       {4, 4, false},        {0, 0, false},
        {1, 1, false},        {4, 41, true},        {4, 43, true},
        {4, 44, true},        {3, 2, true},         {4, 0, true},
        {5, 20, true},        {-1, 20, true},       {2, -1, true},
        {0, 41, true},        {INT32_MAX, 7, true}, {INT32_MIN, 20, true},
        {1, INT32_MAX, true}, {1, INT32_MIN, true}, {INT32_MIN, INT32_MAX, true},
    };
    void *storage;
    struct counting counting;
    struct glint_context *const context = open_context(&counting, 2, &storage);
    const uint32_t row = row_of(context, 0, false);
    for (int64_t page_rows = 0; page_rows <= 16; page_rows += 16)
        for (int bad_page = 0; bad_page < (page_rows > 0 ? 3 : 1); bad_page++)
            for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
                const struct glint_variant_info info = row_at(row);
                struct cache x;
                make(&x, context, row, row_mask(&info, true), BOUND, CAPACITY, page_rows, true);
                plan(&x);
                const int64_t d = x.problem.head_dim;
                unsigned char *const rows = malloc((size_t)(BATCH * BOUND * HEADS_KV * d) * element_of(&x));
                memset(rows, 0x11, (size_t)(BATCH * BOUND * HEADS_KV * d) * element_of(&x));
                int32_t table[BATCH * 3];
                memcpy(table, x.table.at, x.table.bytes);
                if (bad_page > 0)
                    table[3 + 2] = bad_page == 1 ? (int32_t)x.problem.pages : -1; /* keys 32 to 39 of sequence 1 */
                if (page_rows > 0)
                    x.tensors.page_table = table;
                for (int b = 0; b < BATCH; b++) {
                    x.seqlens_q[b] = b == 1 ? of[i].queries : 0;
                    x.seqlens_k[b] = b == 1 ? of[i].keys : 9;
                }
                struct glint_append a = GLINT_APPEND_INIT;
                a.dtype = x.problem.dtype;
                a.k = a.v = rows;
                a.k_strides = a.v_strides = (struct glint_strides){BOUND * HEADS_KV * d, BOUND * d, d};
                append(&x, &a);
                bool fault = of[i].fault;
                for (enum tensor t = K; t <= V; t++)
                    for (int64_t b = 0; b < BATCH; b++)
                        for (int64_t h = 0; h < HEADS_KV; h++)
                            for (int64_t key = 0; key < CAPACITY; key++) {
                                const int64_t from = key - ((int64_t)of[i].keys - of[i].queries);
                                bool wanted = b == 1 && from >= 0 && from < of[i].queries && from < BOUND;
                                if (wanted && bad_page > 0 && key >= 32)
                                    wanted = false, fault = true;
                                for (size_t e = 0; e < (size_t)d * element_of(&x); e++)
                                    EXPECT(place(&x, t, b, h, key)[e] == (wanted ? 0x11 : NOT_YET),
                                           "%d new of %d: key %lld of sequence %lld %s", of[i].queries, of[i].keys, (long long)key,
                                           (long long)b, wanted ? "is missing" : "was written");
                            }
                EXPECT(x.fault == (fault ? 1 : GLINT_NO_FAULT), "%d new of %d, pages of %lld, bad page %d: the word is %u",
                       of[i].queries, of[i].keys, (long long)page_rows, bad_page, x.fault);
                x.seqlens_k[0] = -1;
                append(&x, &a);
                EXPECT(x.fault == 0, "the word is %u", x.fault);
                x.tensors.fault = NULL;
                append(&x, &a);
                free(rows);
                drop(&x);
            }
    free(storage);
}

/* Lengths of the host: every sequence appends its last seqlen_q keys. No queries, no rows. */
static void lengths_of_the_host(void)
{
    void *storage;
    struct glint_context *const context = open_serial(&storage);
    const uint32_t row = row_of(context, 0, false);
    const struct glint_variant_info info = row_at(row);
    struct cache x;
    make(&x, context, row, row_mask(&info, true), 5, 30, 0, true);
    x.problem.lengths = GLINT_LENGTHS_HOST;
    x.tensors.seqlens_q = x.tensors.seqlens_k = NULL;
    x.tensors.fault = NULL;
    plan(&x);
    const int64_t d = x.problem.head_dim;
    unsigned char *const rows = malloc((size_t)(BATCH * 5 * HEADS_KV * d) * element_of(&x));
    memset(rows, 0x11, (size_t)(BATCH * 5 * HEADS_KV * d) * element_of(&x));
    struct glint_append a = GLINT_APPEND_INIT;
    a.dtype = x.problem.dtype;
    a.k = a.v = rows;
    a.k_strides = a.v_strides = (struct glint_strides){0, 0, 0}; /* one row for all: new rows may repeat */
    append(&x, &a);
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t key = 0; key < 30; key++)
            EXPECT(*place(&x, V, b, 1, key) == (key >= 25 ? 0x11 : NOT_YET), "key %lld", (long long)key);
    free(x.workspace);
    x.problem.seqlen_q = 0;
    plan(&x);
    a.k = a.v = NULL;
    append(&x, &a);
    free(rows);
    drop(&x);
    free(storage);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

struct subject {
    struct cache cache;
    struct glint_append append;
    unsigned char *rows;
    size_t rows_bytes;
};

static void expect_refused(const struct subject *s, const struct glint_plan *of, const struct glint_append *a,
                           const struct glint_tensors *t, void *stream, enum glint_status expected, const char *word)
{
    char text[1024];
    size_t needed = 0;
    const enum glint_status status = glint_append(of, a, t, stream);
    EXPECT(status == expected, "%s, not %s (%s)", glint_status_name(status), glint_status_name(expected), word);
    EXPECT(glint_explain_append(of, a, t, stream, text, sizeof text, &needed) == expected && strstr(text, word) != NULL &&
               needed == strlen(text) + 1,
           "no %s in: %s", word, text);
    for (enum tensor k = K; k <= V; k++)
        for (size_t i = 0; i < s->cache.memory[k].bytes; i++)
            EXPECT(s->cache.memory[k].at[i] == NOT_YET, "a refused call wrote");
    EXPECT(s->cache.fault == GLINT_NO_FAULT, "a refused call wrote the word");
}

static void refusals(void)
{
    void *storage;
    struct counting counting;
    char text[1024];
    struct glint_context *const context = open_context(&counting, 2, &storage);
    struct subject s;
    struct cache *const x = &s.cache;
    const uint32_t row = row_of(context, 0, false);
    const struct glint_variant_info info = row_at(row);
    make(x, context, row, row_mask(&info, true), 4, 40, 16, true);
    plan(x);
    const int64_t d = x->problem.head_dim;
    s.rows_bytes = (size_t)(BATCH * 4 * HEADS_KV * d * 4);
    s.rows = malloc(s.rows_bytes);
    memset(s.rows, 0, s.rows_bytes);
    s.append = (struct glint_append)GLINT_APPEND_INIT;
    s.append.dtype = GLINT_F32;
    s.append.k = s.append.v = s.rows;
    s.append.k_strides = s.append.v_strides = (struct glint_strides){4 * HEADS_KV * d, 4 * d, d};
    for (int b = 0; b < BATCH; b++)
        x->seqlens_q[b] = 4, x->seqlens_k[b] = 11;
    struct glint_append a;
    struct glint_tensors t;
    struct glint_plan other;
    EXPECT(glint_explain_append(&x->plan, &s.append, &x->tensors, NULL, text, sizeof text, NULL) == GLINT_OK, "%s", text);
#define REFUSED(expected, word, change)                             \
    do {                                                            \
        a = s.append;                                               \
        t = x->tensors;                                             \
        change;                                                     \
        expect_refused(&s, &x->plan, &a, &t, NULL, expected, word); \
    } while (0)
    expect_refused(&s, NULL, &s.append, &x->tensors, NULL, GLINT_NULL_ARGUMENT, "plan");
    expect_refused(&s, &x->plan, NULL, &x->tensors, NULL, GLINT_NULL_ARGUMENT, "append");
    expect_refused(&s, &x->plan, &s.append, NULL, NULL, GLINT_NULL_ARGUMENT, "tensors");
    expect_refused(&s, &x->plan, &s.append, &x->tensors, s.rows, GLINT_BAD_STREAM, "stream");
    other = x->plan;
    other.problem.seqlen_k++;
    expect_refused(&s, &other, &s.append, &x->tensors, NULL, GLINT_BAD_PLAN, "plan");
    REFUSED(GLINT_STRUCT_SIZE, "append.struct_size", a.struct_size -= 8);
    REFUSED(GLINT_STRUCT_SIZE, "tensors.struct_size", t.struct_size += 8);
    REFUSED(GLINT_BAD_RESERVED, "append.reserved", a.reserved[1] = 1);
    REFUSED(GLINT_BAD_RESERVED, "tensors.reserved", t.reserved = 1);
    REFUSED(GLINT_BAD_APPEND, "append.dtype", a.dtype = 0);
    REFUSED(GLINT_BAD_APPEND, "append.dtype is 9", a.dtype = 9);
    if (info.dtype != GLINT_F16)
        REFUSED(GLINT_BAD_APPEND, "append.dtype", a.dtype = GLINT_F16);
    REFUSED(GLINT_NULL_TENSOR, "append.k is NULL", a.k = NULL);
    REFUSED(GLINT_NULL_TENSOR, "append.v is NULL", a.v = NULL);
    REFUSED(GLINT_NULL_TENSOR, "tensors.k is NULL", t.k = NULL);
    REFUSED(GLINT_NULL_TENSOR, "tensors.v is NULL", t.v = NULL);
    REFUSED(GLINT_NULL_TENSOR, "seqlens_k", t.seqlens_k = NULL);
    REFUSED(GLINT_NULL_TENSOR, "page_table", t.page_table = NULL);
    REFUSED(GLINT_BAD_STRIDE, "append.k_strides.head is -8", a.k_strides.head = -8);
    REFUSED(GLINT_BAD_STRIDE, "append.v_strides.row", a.v_strides.row = INT64_MIN);
    REFUSED(GLINT_SIZE_OVERFLOW, "append.k", a.k_strides.batch = INT64_MAX / 2);
    REFUSED(GLINT_SIZE_OVERFLOW, "append.v", a.v = (const void *)(UINTPTR_MAX - 7));
    REFUSED(GLINT_TENSOR_MISALIGNED, "append.k", a.k = s.rows + 2);
    REFUSED(GLINT_TENSOR_MISALIGNED, "of v must", t.v = x->memory[V].at - 1);
    REFUSED(GLINT_TENSOR_MISALIGNED, "seqlens_q", t.seqlens_q = (const int32_t *)(const void *)((const char *)x->seqlens_q + 1));
    REFUSED(GLINT_TENSOR_OVERLAP, "append.k", a.k = x->memory[V].at);
    REFUSED(GLINT_TENSOR_OVERLAP, "append.v", a.v = x->memory[K].at + x->memory[K].bytes - 16);
    REFUSED(GLINT_TENSOR_OVERLAP, "k shares memory with v", t.v = t.k);
    REFUSED(GLINT_TENSOR_OVERLAP, "seqlens_k", t.seqlens_k = (const int32_t *)(const void *)x->memory[K].at);
    REFUSED(GLINT_TENSOR_OVERLAP, "page_table", t.page_table = (const int32_t *)(const void *)x->memory[V].at);
    REFUSED(GLINT_TENSOR_OVERLAP, "fault", t.fault = (uint32_t *)(void *)s.rows);
    REFUSED(GLINT_TENSOR_OVERLAP, "fault", t.fault = (uint32_t *)(void *)x->memory[K].at);
    REFUSED(GLINT_TENSOR_OVERLAP, "fault", t.fault = (uint32_t *)(void *)&x->seqlens_q[1]);

    /* K and V that overlap themselves may be read, and not written. */
    struct glint_problem p = x->problem;
    p.k.row = 0;
    EXPECT(glint_plan_variant(context, &p, GLINT_FORWARD, row, &other) == GLINT_OK, "plan");
    expect_refused(&s, &other, &s.append, &x->tensors, NULL, GLINT_BAD_STRIDE, "k.row is 0");
    p = x->problem;
    p.v.batch = p.v.head;
    EXPECT(glint_plan_variant(context, &p, GLINT_FORWARD, row, &other) == GLINT_OK, "plan");
    expect_refused(&s, &other, &s.append, &x->tensors, NULL, GLINT_BAD_STRIDE, "v.");
    if (runs_pass(context, GLINT_BACKWARD)) {
        const struct glint_variant_info back = first_row(context, GLINT_BACKWARD);
        glint_problem_bshd(&p, (enum glint_dtype)back.dtype, 1, 4, 4, 1, 1, back.head_dim);
        p.mask = row_mask(&back, true);
        EXPECT(glint_plan(context, &p, GLINT_BACKWARD, &other) == GLINT_OK, "plan");
        expect_refused(&s, &other, &s.append, &x->tensors, NULL, GLINT_WRONG_PASS, "forward");
    }
    EXPECT(counting.calls == 0, "a refused call ran the executor");

    /* K and V that interleave, and tensors that are not looked at. */
    struct glint_tensors only = GLINT_TENSORS_INIT;
    only.seqlens_q = x->seqlens_q, only.seqlens_k = x->seqlens_k, only.page_table = x->tensors.page_table;
    p = x->problem;
    p.k.batch *= 2, p.k.head *= 2, p.k.row *= 2;
    p.v = p.k;
    unsigned char *const both = malloc(2 * x->memory[K].bytes + 64);
    only.k = both;
    only.v = both + d * element_bytes(info.dtype);
    EXPECT(glint_plan_variant(context, &p, GLINT_FORWARD, row, &other) == GLINT_OK, "plan");
    EXPECT(glint_append(&other, &s.append, &only, NULL) == GLINT_OK, "K and V may interleave");
    free(both);

    EXPECT(glint_append(&x->plan, &s.append, &x->tensors, NULL) == GLINT_OK, "the call that all of these began with");
    EXPECT(glint_context_close(context) == GLINT_OK, "close");
    EXPECT(glint_append(&x->plan, &s.append, &x->tensors, NULL) == GLINT_CONTEXT_CLOSED, "a closed context");
    free(s.rows);
    drop(x);
    free(storage);
}

/* Random arguments, all of them in memory that ends at inaccessible pages: whatever the status, nothing is touched
 * that is not theirs. */
static void at_random(void)
{
    void *storage;
    struct counting counting;
    struct rand r = {11};
    struct glint_context *const context = open_context(&counting, 3, &storage);
    uint64_t ran = 0, faults = 0;
    for (int i = 0; i < (CONTRACT_EMULATED ? 300 : 3000); i++) {
        const uint32_t row = (uint32_t)rand_below(&r, glint_variant_count());
        if (!is_forward_row(context, row))
            continue;
        const struct glint_variant_info info = row_at(row);
        struct cache x;
        const int64_t bound = rand_below(&r, 9), capacity = 1 + rand_below(&r, 90);
        make(&x, context, row, row_mask(&info, true), bound, capacity, rand_below(&r, 2) ? 16 << rand_below(&r, 3) : 0,
             rand_below(&r, 2));
        plan(&x);
        for (int b = 0; b < BATCH; b++) {
            x.seqlens_q[b] = (int32_t)(rand_below(&r, 8) ? rand_below(&r, bound + 1) : (int64_t)rand_bits(&r));
            x.seqlens_k[b] = (int32_t)(rand_below(&r, 8) ? rand_below(&r, capacity + 3) : (int64_t)rand_bits(&r));
        }
        for (int64_t e = 0; e < BATCH * x.problem.pages_per_sequence; e++)
            if (rand_below(&r, 6) == 0)
                ((int32_t *)(void *)x.table.at)[e] = (int32_t)rand_bits(&r);
        const enum glint_dtype dtype = rand_below(&r, 2) ? GLINT_F32 : (enum glint_dtype)info.dtype;
        struct guarded rows =
            guarded_make((size_t)(BATCH * bound * HEADS_KV * x.problem.head_dim) * dtype_bytes(dtype), dtype_bytes(dtype), true);
        memset(rows.at, 0x22, rows.bytes);
        guarded_read_only(&rows);
        struct glint_append a = GLINT_APPEND_INIT;
        a.dtype = (uint32_t)dtype;
        a.k = a.v = rows.at;
        a.k_strides = a.v_strides =
            (struct glint_strides){bound * HEADS_KV * x.problem.head_dim, x.problem.head_dim, HEADS_KV * x.problem.head_dim};
        append(&x, &a);
        attend(&x); /* of NaN and of what was appended */
        for (enum tensor t = K; t <= V; t++)
            EXPECT(guarded_canaries_hold(&x.memory[t]), "wrote before the cache");
        faults += x.fault != GLINT_NO_FAULT;
        ran++;
        guarded_free(&rows);
        drop(&x);
    }
    EXPECT(ran > 100 && faults > 50 && faults < ran, "%llu ran, %llu with faults", (unsigned long long)ran,
           (unsigned long long)faults);
    free(storage);
}

static const struct contract_case cases[] = {
    {"rounding", rounding, 0},
    {"grows_on_one_body", grows_on_one_body, 300},
    {"grows_on_seven_bodies", grows_on_seven_bodies, 300},
    {"ten_thousand_steps", ten_thousand_steps, 300},
    {"ring_without_a_window", ring_without_a_window, 0},
    {"left_out", left_out, 0},
    {"lengths_of_the_host", lengths_of_the_host, 0},
    {"refusals", refusals, 0},
    {"at_random", at_random, 120},
};
CONTRACT_MAIN("append", cases)
