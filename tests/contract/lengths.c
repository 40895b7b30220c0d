/* Lengths that are read at run time, GLINT_LENGTHS_DEVICE and GLINT_LENGTHS_RAGGED, the latter with keys in pages
 * too: every sequence has the bits of a problem of its own lengths, with linear K and V, on every row that runs
 * here, forward, decode and backward, and of 8-bit K and V; what lies beyond a length is NaN and reaches nothing,
 * rows beyond one are not written; arrays that hold anything are clamped and noted, and nothing outside of the
 * tensors is touched. What a problem of its own lengths gives is held against double elsewhere (tests/checks). */
#include <stdlib.h>
#include <string.h>

#include "tests/contract/suite.h"
#include "tests/contract/world.h"

enum { BATCH = 5, HEADS_Q = 4, HEADS_KV = 2 };

/* A third way that lengths may be given, beside those of enum glint_lengths: ragged queries, keys in pages. */
enum { RAGGED_AND_PAGES = GLINT_LENGTHS_RAGGED + 1 };

/* A problem of BATCH sequences, and its memory, each tensor at the end or the start of its pages. */
struct batch {
    struct glint_problem problem;
    enum glint_pass pass;
    struct glint_tensors tensors;
    struct guarded memory[TENSORS];
    int32_t *first_q, *first_k, *seqlens_q, *seqlens_k; /* in pages of their own */
    float *sinks, *dsinks;                              /* of a problem with sinks */
    int32_t *table;                                     /* of pages */
    float *scale[2];                                    /* of 8-bit K and V */
    struct guarded arrays[9];
    int64_t at[2][BATCH], length[2][BATCH]; /* of queries, of keys: what the arrays come to */
    uint32_t at_fault;
};

static bool of_keys(enum tensor t)
{
    return t == K || t == V || t == DK || t == DV;
}

static int64_t clamped(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* What glint.h makes of the arrays of one side; the first sequence at fault. */
static uint32_t read_side(struct batch *x, bool keys)
{
    const struct glint_problem *const p = &x->problem;
    const bool ragged = p->lengths == GLINT_LENGTHS_RAGGED && !(keys && p->page_rows > 0);
    const int32_t *const first = keys ? x->first_k : x->first_q, *const used = keys ? x->tensors.seqlens_k : x->tensors.seqlens_q;
    const int64_t bound = keys ? p->seqlen_k : p->seqlen_q, rows = keys ? p->rows_k : p->rows_q;
    int64_t begin = 0;
    uint32_t at_fault = GLINT_NO_FAULT;
    for (int b = 0; b < BATCH; b++) {
        int64_t room = bound, end = 0;
        bool wrong = false;
        if (ragged) {
            if (b == 0)
                begin = clamped(first[0], 0, rows);
            end = clamped(first[b + 1], begin, rows);
            wrong = (b == 0 && begin != first[0]) || begin != first[b] || end != first[b + 1];
            room = end - begin;
            wrong = wrong || (used == NULL && room > bound);
            room = room < bound ? room : bound;
        }
        x->at[keys][b] = ragged ? begin : 0;
        x->length[keys][b] = used == NULL ? room : clamped(used[b], 0, room);
        wrong = wrong || (used != NULL && used[b] != x->length[keys][b]);
        if (wrong && at_fault == GLINT_NO_FAULT)
            at_fault = (uint32_t)b;
        begin = end;
    }
    return at_fault;
}

static void read_arrays(struct batch *x)
{
    const uint32_t queries = read_side(x, false), keys = read_side(x, true);
    x->at_fault = queries < keys ? queries : keys;
}

/* Row i of a head of sequence b; ragged tensors are of one batch. */
static unsigned char *row_of(const struct glint_problem *p, void *base, enum tensor t, int64_t b, int64_t h, int64_t i)
{
    const struct tensor_layout s = tensor_layout(p, t);
    return (unsigned char *)base + (b * s.strides.batch + h * s.strides.head + i * s.strides.row) * s.element_bytes;
}

static bool in_pages(const struct batch *x, enum tensor t)
{
    return of_keys(t) && x->problem.page_rows > 0;
}

static unsigned char *row_in(const struct batch *x, enum tensor t, int64_t b, int64_t h, int64_t i)
{
    const struct glint_problem *const p = &x->problem;
    if (in_pages(x, t))
        return row_of(p, x->memory[t].at, t, x->table[b * p->pages_per_sequence + i / p->page_rows], h, i % p->page_rows);
    return row_of(p, x->memory[t].at, t, p->lengths == GLINT_LENGTHS_RAGGED ? 0 : b, h, i + x->at[of_keys(t)][b]);
}

/* The scale of a row of 8-bit K or V. */
static float *scale_in(const struct batch *x, enum tensor t, int64_t b, int64_t h, int64_t i)
{
    const struct glint_problem *const p = &x->problem;
    float *const scale = x->scale[t - K];
    if (in_pages(x, t))
        return scale + (x->table[b * p->pages_per_sequence + i / p->page_rows] * HEADS_KV + h) * p->page_rows + i % p->page_rows;
    return p->lengths == GLINT_LENGTHS_RAGGED ? scale + h * p->rows_k + x->at[1][b] + i
                                              : scale + (b * HEADS_KV + h) * p->seqlen_k + i;
}

static size_t row_bytes(const struct glint_problem *p, enum tensor t)
{
    const struct tensor_layout s = tensor_layout(p, t);
    return (size_t)(s.columns * s.element_bytes);
}

/* Memory: outputs of canaries, inputs of NaN with numbers within the lengths. */
static void make(struct batch *x, uint64_t seed)
{
    struct rand r = rand_stream(seed, 1);
    read_arrays(x);
    for (enum tensor t = Q; t < TENSORS; t++) {
        const size_t bytes = tensor_bytes(&x->problem, t);
        const struct tensor_layout s = tensor_layout(&x->problem, t);
        x->memory[t] = guarded_make(bytes > 0 ? bytes : 4, (size_t)s.element_bytes, seed % 2 == 0);
        if (!pass_uses(x->pass, t))
            continue;
        tensor_set(&x->tensors, t, x->memory[t].at);
        if (pass_writes(x->pass, t))
            continue;
        memset(x->memory[t].at, 0xff, bytes);
        for (int64_t b = 0; b < BATCH; b++)
            for (int64_t h = 0; h < s.heads; h++)
                for (int64_t i = 0; i < x->length[of_keys(t)][b]; i++) {
                    fill_random(&r, tensor_dtype(&x->problem, t), row_in(x, t, b, h, i), row_bytes(&x->problem, t));
                    if (of_keys(t) && x->problem.kv_dtype != 0)
                        *scale_in(x, t, b, h, i) = 0x1p-7f * (1 + (float)rand_uniform(&r));
                }
        guarded_read_only(&x->memory[t]);
    }
}

static void drop(struct batch *x)
{
    for (enum tensor t = Q; t < TENSORS; t++)
        guarded_free(&x->memory[t]);
    for (int i = 0; i < 9; i++)
        guarded_free(&x->arrays[i]);
}

static void run(const struct glint_context *context, uint32_t row, enum glint_pass pass, const struct glint_problem *p,
                const struct glint_tensors *t)
{
    struct glint_plan plan;
    EXPECT(glint_plan_variant(context, p, pass, row, &plan) == GLINT_OK, "%s does not take the problem", row_at(row).name);
    struct guarded workspace = guarded_make(plan.workspace_bytes, GLINT_WORKSPACE_ALIGNMENT, true);
    memset(workspace.at, 0xff, plan.workspace_bytes);
    const enum glint_status status =
        (pass == GLINT_FORWARD ? glint_forward : glint_backward)(&plan, t, workspace.at, plan.workspace_bytes, NULL);
    EXPECT(status == GLINT_OK && guarded_canaries_hold(&workspace), "%s: %s", row_at(row).name, glint_status_name(status));
    guarded_free(&workspace);
}

/* Sequence b as a problem by itself, with outputs of its own; they are compared with the batch's, byte by byte, and
 * the batch's are wiped. What it gives to the gradients of the sinks is added up. */
static void compare(const struct glint_context *alone, uint32_t row, struct batch *x, int64_t b, float *sink_sums, uint64_t *rows)
{
    struct glint_problem p = x->problem;
    p.lengths = GLINT_LENGTHS_HOST;
    p.rows_q = p.rows_k = 0;
    p.page_rows = p.pages = p.pages_per_sequence = 0;
    p.batch = 1;
    p.seqlen_q = x->length[0][b];
    p.seqlen_k = x->length[1][b];
    if (x->problem.page_rows > 0)
        p.k = p.v = (struct glint_strides){0, HEADS_KV > 1 ? p.seqlen_k * p.head_dim : 0, p.head_dim};
    struct glint_tensors t = GLINT_TENSORS_INIT;
    unsigned char *own[TENSORS] = {NULL};
    float *scale[2] = {NULL};
    for (int k = 0; k < 2 && p.kv_dtype != 0; k++) {
        scale[k] = malloc(scale_bytes(&p) + 4);
        for (int64_t h = 0; h < HEADS_KV; h++)
            for (int64_t i = 0; i < p.seqlen_k; i++)
                scale[k][h * p.seqlen_k + i] = *scale_in(x, k == 0 ? K : V, b, h, i);
        *(k == 0 ? &t.k_scale : &t.v_scale) = scale[k];
    }
    for (enum tensor k = Q; k < TENSORS; k++) {
        if (!pass_uses(x->pass, k))
            continue;
        own[k] = aligned_memory(64, tensor_bytes(&p, k) + 64);
        for (int64_t h = 0; h < tensor_layout(&p, k).heads && pass_reads(x->pass, k) && !pass_writes(x->pass, k); h++)
            for (int64_t i = 0; i < x->length[of_keys(k)][b]; i++)
                memcpy(row_of(&p, own[k], k, 0, h, i), row_in(x, k, b, h, i), row_bytes(&p, k));
        tensor_set(&t, k, own[k]);
    }
    t.dlse = x->tensors.dlse != NULL ? t.lse : NULL;
    float dsinks[HEADS_Q];
    if (p.sinks != 0) {
        t.sinks = x->sinks;
        t.dsinks = dsinks;
    }
    run(alone, row, x->pass, &p, &t);
    for (int h = 0; h < HEADS_Q && p.sinks != 0 && x->pass == GLINT_BACKWARD; h++)
        sink_sums[h] += 0.0f - dsinks[h];
    for (enum tensor k = Q; k < TENSORS; k++)
        for (int64_t h = 0; pass_writes(x->pass, k) && h < tensor_layout(&p, k).heads; h++)
            for (int64_t i = 0; i < x->length[of_keys(k)][b]; i++, ++*rows) {
                unsigned char *const got = row_in(x, k, b, h, i);
                EXPECT(memcmp(got, row_of(&p, own[k], k, 0, h, i), row_bytes(&p, k)) == 0,
                       "%s, lengths %u: %s of sequence %lld (%lld x %lld of %lld x %lld), head %lld, row %lld", row_at(row).name,
                       x->problem.lengths, tensor_name[k], (long long)b, (long long)p.seqlen_q, (long long)p.seqlen_k,
                       (long long)x->problem.seqlen_q, (long long)x->problem.seqlen_k, (long long)h, (long long)i);
                memset(got, CANARY, row_bytes(&p, k));
            }
    for (enum tensor k = Q; k < TENSORS; k++)
        free(own[k]);
    free(scale[0]), free(scale[1]);
}

static void nothing_else_is_written(const struct batch *x, uint32_t row)
{
    for (enum tensor t = Q; t < TENSORS; t++)
        if (pass_writes(x->pass, t))
            EXPECT(all_canaries(x->memory[t].at, x->memory[t].bytes) && guarded_canaries_hold(&x->memory[t]),
                   "%s, lengths %u: %s has rows that are no sequence's", row_at(row).name, x->problem.lengths, tensor_name[t]);
}

static int32_t *array(struct batch *x, int which, int64_t count)
{
    x->arrays[which] = guarded_make((size_t)count * 4, 4, true);
    return (int32_t *)(void *)x->arrays[which].at;
}

enum layout { BSHD, BHSD, GAPS };

/* K and V in pages of 16 to 64 rows, whose order in the pool is that of the sequences from behind; the table's
 * entries beyond all keys are no pages. */
static void put_into_pages(struct batch *x, enum layout layout)
{
    struct glint_problem *const p = &x->problem;
    const int64_t d = p->head_dim, rows = p->page_rows = 16 << layout, each = (p->seqlen_k + rows - 1) / rows;
    p->rows_k = 0;
    p->pages = BATCH * each;
    p->pages_per_sequence = each + 1;
    p->k = layout == BSHD ? (struct glint_strides){rows * HEADS_KV * d, d, HEADS_KV * d}
                          : (struct glint_strides){HEADS_KV * rows * (d + 8), rows * (d + 8), d + 8};
    p->v = p->k;
    x->table = array(x, 6, BATCH * p->pages_per_sequence);
    for (int b = 0; b < BATCH; b++)
        for (int64_t i = 0; i < p->pages_per_sequence; i++)
            x->table[b * p->pages_per_sequence + i] = i == each ? INT32_MAX : (int32_t)(p->pages - 1 - (b * each + i));
    x->tensors.page_table = x->table;
    x->tensors.first_k = NULL;
}

/* Lengths from none to the bounds, of a row: m queries and n keys and a little. Ragged, sequences follow one another
 * with gaps after two of them, which the used lengths leave, and rows of no sequence at either end. */
static void describe(struct batch *x, const struct glint_variant_info *info, uint32_t given, enum layout layout, bool bottom_right)
{
    const uint32_t lengths = given == RAGGED_AND_PAGES ? (uint32_t)GLINT_LENGTHS_RAGGED : given;
    const bool decode = info->queries_up_to > 0, ragged = lengths == GLINT_LENGTHS_RAGGED;
    const int64_t m = decode ? 6 : (int64_t)info->tile_m + 9;
    const int64_t n =
        decode || info->pass == GLINT_FORWARD ? 2 * (int64_t)info->tile_n + 9 : 530; /* backward: two groups of keys */
    const int64_t q[BATCH] = {m, 1, m - 2, 0, 3}, k[BATCH] = {n - 3, (int64_t)info->tile_n, n, 5, 0};
    memset(x, 0, sizeof *x);
    x->pass = (enum glint_pass)info->pass;
    (layout == BHSD ? glint_problem_bhsd : glint_problem_bshd)(&x->problem, (enum glint_dtype)info->dtype, ragged ? 1 : BATCH,
                                                               ragged ? 3 * m : m, ragged ? 3 * n : n, HEADS_Q, HEADS_KV,
                                                               info->head_dim);
    struct glint_problem *const p = &x->problem;
    if (layout == GAPS)
        for (struct glint_strides *s = &p->q; s <= &p->dv; s++)
            *s = (struct glint_strides){s->batch * 5, s->head * 2, s->row * 2 + 3 * info->head_dim};
    for (struct glint_strides *s = &p->q; ragged && s <= &p->dv; s++)
        s->batch = 12345; /* counts for nothing */
    p->batch = BATCH;
    p->seqlen_q = m;
    p->seqlen_k = n;
    p->lengths = lengths;
    p->rows_q = ragged ? 3 * m : 0;
    p->rows_k = ragged ? 3 * n : 0;
    serve_cache(p, info);
    p->mask = row_mask(info, bottom_right);
    if (p->mask == GLINT_MASK_BAND_TOP_LEFT || p->mask == GLINT_MASK_BAND_BOTTOM_RIGHT) {
        p->window_left = (int64_t)info->tile_n / 2;
        p->window_right = 1;
    }
    x->tensors = (struct glint_tensors)GLINT_TENSORS_INIT;
    x->first_q = array(x, 0, BATCH + 1);
    x->first_k = array(x, 1, BATCH + 1);
    x->seqlens_q = array(x, 2, BATCH);
    x->seqlens_k = array(x, 3, BATCH);
    x->first_q[0] = ragged ? 2 : 0;
    x->first_k[0] = ragged ? 1 : 0;
    for (int b = 0; b < BATCH; b++) {
        x->seqlens_q[b] = (int32_t)q[b];
        x->seqlens_k[b] = (int32_t)k[b];
        x->first_q[b + 1] = x->first_q[b] + (int32_t)q[b] + (b == 1 ? 2 : 0);
        x->first_k[b + 1] = x->first_k[b] + (int32_t)k[b] + (b == 1 ? 4 : 0);
    }
    x->tensors.seqlens_q = x->seqlens_q;
    x->tensors.seqlens_k = x->seqlens_k;
    x->sinks = (float *)(void *)array(x, 4, HEADS_Q);
    x->dsinks = (float *)(void *)array(x, 5, HEADS_Q);
    if (bottom_right) { /* with sinks, and capped where the row can */
        p->sinks = 1;
        p->softcap = (info->features & GLINT_FEATURE_SOFTCAP) != 0 ? 1.5f : 0;
        for (int h = 0; h < HEADS_Q; h++)
            x->sinks[h] = (float)h - 1;
        x->tensors.sinks = x->sinks;
        x->tensors.dsinks = x->pass == GLINT_BACKWARD ? x->dsinks : NULL;
    }
    if (ragged) {
        x->tensors.first_q = x->first_q;
        x->tensors.first_k = x->first_k;
    }
    if (given == RAGGED_AND_PAGES)
        put_into_pages(x, layout);
    for (int i = 0; i < 2 && p->kv_dtype != 0; i++) {
        x->scale[i] = (float *)(void *)array(x, 7 + i, (int64_t)scale_bytes(p) / 4);
        memset(x->scale[i], 0xff, scale_bytes(p));
        *(i == 0 ? &x->tensors.k_scale : &x->tensors.v_scale) = x->scale[i];
    }
}

/* Runs it, and holds each sequence against itself alone. */
static void judge(const struct glint_context *context, const struct glint_context *alone, uint32_t row, struct batch *x,
                  uint64_t seed, uint64_t *rows)
{
    uint32_t word = GLINT_NO_FAULT;
    make(x, seed);
    x->tensors.fault = seed % 4 == 3 ? NULL : &word;
    x->tensors.dlse = x->pass == GLINT_BACKWARD && seed % 3 < 2 ? x->tensors.lse : NULL; /* any numbers */
    run(context, row, x->pass, &x->problem, &x->tensors);
    EXPECT(x->tensors.fault == NULL || word == x->at_fault, "%s: the word is %u, not %u", row_at(row).name, word, x->at_fault);
    float sink_sums[HEADS_Q] = {0.0f};
    for (int64_t b = 0; b < BATCH; b++)
        compare(alone, row, x, b, sink_sums, rows);
    for (int h = 0; h < HEADS_Q && x->problem.sinks != 0 && x->pass == GLINT_BACKWARD; h++)
        EXPECT(x->dsinks[h] == 0.0f - sink_sums[h], "%s: dsinks[%d] is %g, not %g", row_at(row).name, h, (double)x->dsinks[h],
               (double)-sink_sums[h]);
    nothing_else_is_written(x, row);
    drop(x);
}

/* A number that is no length, or a strange one. */
static int32_t anything(struct rand *r, int64_t near)
{
    switch (rand_below(r, 8)) {
    case 0: return INT32_MIN;
    case 1: return INT32_MAX;
    case 2: return -1;
    case 3: return 0;
    default: return (int32_t)(rand_below(r, near + 3) - 1);
    }
}

static void scramble(struct batch *x, struct rand *r)
{
    const struct glint_problem *const p = &x->problem;
    const bool ragged = p->lengths == GLINT_LENGTHS_RAGGED;
    for (int edit = 1 + (int)rand_below(r, 4); edit > 0; edit--)
        switch (rand_below(r, 4)) {
        case 0: x->seqlens_q[rand_below(r, BATCH)] = anything(r, p->seqlen_q); break;
        case 1: x->seqlens_k[rand_below(r, BATCH)] = anything(r, p->seqlen_k); break;
        case 2: x->first_q[rand_below(r, BATCH + 1)] = anything(r, p->rows_q); break;
        default: x->first_k[rand_below(r, BATCH + 1)] = anything(r, p->rows_k); break;
        }
    if (rand_below(r, 3) == 0)
        x->tensors.seqlens_q = NULL;
    if (ragged && rand_below(r, 3) == 0 && p->page_rows == 0)
        x->tensors.seqlens_k = NULL;
}

static void each_row(uint32_t concurrency)
{
    void *storage[2];
    struct counting counting;
    struct glint_context *const context = open_context(&counting, concurrency, &storage[0]), *const alone =
                                                                                                 open_serial(&storage[1]);
    uint64_t rows = 0;
    uint32_t tried = 0;
    for (uint32_t row = 0; row < glint_variant_count(); row++) {
        const struct glint_variant_info info = row_at(row);
        if (!row_serves(context, row))
            continue;
        const uint32_t last = info.pass == GLINT_FORWARD ? RAGGED_AND_PAGES : GLINT_LENGTHS_RAGGED;
        for (uint32_t lengths = GLINT_LENGTHS_DEVICE; lengths <= last; lengths++) {
            /* Of the three ways one, in turns, where the rows are many or slow: what tells ways apart knows no row
             * (lib/cpu/launch.c). */
            const bool one = concurrency == 1 || lengths == RAGGED_AND_PAGES || glint_variant_count() > 60 || CONTRACT_EMULATED ||
                             CONTRACT_SANITIZED;
            for (uint32_t way = one ? (row + lengths) % 3 : 0; way < 3; way += one ? 3 : 1) {
                struct batch x;
                struct rand r = rand_stream(row, lengths * 3 + way);
                describe(&x, &info, lengths, (enum layout)((way + lengths) % 3), way > 0);
                if (way == 2)
                    scramble(&x, &r);
                judge(context, alone, row, &x, row + way, &rows);
            }
        }
        tried++;
    }
    EXPECT(tried > 0 && rows > 0, "no row runs here");
    contract_note("concurrency %u: %u rows of the table, %llu rows of outputs", concurrency, tried, (unsigned long long)rows);
    for (int i = 0; i < 2; i++)
        free(storage[i]);
}

static void one_body(void)
{
    each_row(1);
}

static void seven_bodies(void)
{
    each_row(7);
}

/* Arrays that hold anything, on one row of each pass. */
static void any_arrays(void)
{
    void *storage[2];
    struct counting counting;
    struct glint_context *const context = open_context(&counting, 3, &storage[0]), *const alone = open_serial(&storage[1]);
    uint64_t rows = 0, tried = 0, at_fault = 0;
    bool done[3] = {false};
    for (uint32_t row = 0; row < glint_variant_count(); row++) {
        const struct glint_variant_info info = row_at(row);
        bool *const this = &done[info.queries_up_to > 0 ? 0 : info.pass];
        if (*this || !row_serves(context, row))
            continue;
        *this = true;
        for (uint64_t seed = 0; seed < (CONTRACT_EMULATED || CONTRACT_SANITIZED ? 8 : 150); seed++, tried++) {
            struct rand r = rand_stream(seed, row);
            struct batch x;
            describe(&x, &info,
                     seed % 4 == 0                                 ? GLINT_LENGTHS_DEVICE
                     : seed % 4 == 1 && info.pass == GLINT_FORWARD ? RAGGED_AND_PAGES
                                                                   : GLINT_LENGTHS_RAGGED,
                     (enum layout)rand_below(&r, 3), seed % 3 > 0);
            scramble(&x, &r);
            read_arrays(&x);
            at_fault += x.at_fault != GLINT_NO_FAULT;
            judge(context, alone, row, &x, seed, &rows);
        }
    }
    contract_note("%llu calls, %llu with a fault, %llu rows of outputs", (unsigned long long)tried, (unsigned long long)at_fault,
                  (unsigned long long)rows);
    EXPECT(at_fault > tried / 4 && at_fault < tried, "the arrays are all of one kind");
    for (int i = 0; i < 2; i++)
        free(storage[i]);
}

/* ---- one sequence, whatever it is planned with ------------------------------------------------------------------- */

enum { QUERY_HEADS = 2 }; /* of a key head */

/* What may differ around a sequence of `queries` and `keys`: the bounds, where it is in which batch, how many key
 * heads there are, the executor. */
struct around {
    uint32_t lengths;
    int64_t more_queries, more_keys, batch, at, heads_kv;
    uint32_t concurrency;
};

/* O and LSE of the sequence and its first key head, from the row that glint_plan takes. The other sequences have
 * other numbers and lengths. */
static const char *result_within(const struct around *a, const struct glint_variant_info *info, int64_t queries, int64_t keys,
                                 unsigned char *result)
{
    void *storage;
    struct counting counting;
    struct glint_context *const context = open_context(&counting, a->concurrency, &storage);
    struct glint_problem p;
    struct call c;
    int32_t seqlens_q[8], seqlens_k[8];
    glint_problem_bhsd(&p, (enum glint_dtype)info->dtype, a->batch, queries + a->more_queries, keys + a->more_keys,
                       QUERY_HEADS * a->heads_kv, a->heads_kv, info->head_dim);
    p.mask = row_mask(info, true);
    p.lengths = a->lengths;
    if ((info->features & GLINT_FEATURE_LEFT_BOUND) != 0)
        p.window_left = keys / 2;
    call_make(&c, context, &p, GLINT_FORWARD, (uint64_t)(a->batch * 100 + a->at));
    for (int64_t b = 0; b < a->batch; b++) {
        seqlens_q[b] = (int32_t)(b == a->at ? queries : 1);
        seqlens_k[b] = (int32_t)(b == a->at ? keys : p.seqlen_k);
    }
    if (a->lengths == GLINT_LENGTHS_DEVICE) {
        c.tensors.seqlens_q = seqlens_q;
        c.tensors.seqlens_k = seqlens_k;
    }
    struct rand r = {9};
    for (enum tensor t = Q; t <= V; t++)
        for (int64_t h = 0; h < (t == Q ? QUERY_HEADS : 1); h++)
            for (int64_t i = 0; i < (t == Q ? queries : keys); i++)
                fill_random(&r, info->dtype, row_of(&p, tensor_get(&c.tensors, t), t, a->at, h, i),
                            (size_t)(info->head_dim * element_bytes(info->dtype)));
    EXPECT(call_run(&c) == GLINT_OK, "it does not run");
    for (enum tensor t = O; t <= LSE; t++)
        for (int64_t h = 0; h < QUERY_HEADS; h++)
            for (int64_t i = 0; i < queries; i++) {
                const size_t bytes = (size_t)(t == O ? info->head_dim * element_bytes(info->dtype) : 4);
                memcpy(result, row_of(&p, tensor_get(&c.tensors, t), t, a->at, h, i), bytes);
                result += bytes;
            }
    const char *name = row_at(c.plan.variant).name;
    call_free(&c);
    free(storage);
    return name;
}

/* The bits of a sequence are those that it has alone, whatever the bounds, the batch, the heads and the threads. Its
 * number of queries and their bound are on the same side of what decode is taken for. */
static void bits_of_a_sequence(void)
{
    static const struct around around[] = {
        {GLINT_LENGTHS_HOST, 0, 0, 1, 0, 1, 3},   {GLINT_LENGTHS_HOST, 0, 0, 4, 2, 1, 1},
        {GLINT_LENGTHS_HOST, 0, 0, 2, 1, 3, 5},   {GLINT_LENGTHS_DEVICE, 0, 0, 1, 0, 1, 1},
        {GLINT_LENGTHS_DEVICE, 0, 1, 1, 0, 1, 4}, {GLINT_LENGTHS_DEVICE, 1, 700, 1, 0, 1, 1},
        {GLINT_LENGTHS_DEVICE, 1, 3, 5, 3, 1, 2}, {GLINT_LENGTHS_DEVICE, 1, 2000, 3, 0, 2, 7},
    };
    static const int64_t sizes[][2] = {{1, 3}, {1, 300}, {5, 20}, {7, 600}, {40, 30}, {40, 600}};
    void *storage;
    struct glint_context *const context = open_serial(&storage);
    uint64_t compared = 0;
    uint32_t keys_seen = 0;
    for (uint32_t row = 0; row < glint_variant_count() && keys_seen < 12; row++) {
        const struct glint_variant_info info = row_at(row);
        if (info.pass != GLINT_FORWARD || info.queries_up_to > 0 || info.kv_dtype != 0 || !row_serves(context, row))
            continue;
        keys_seen++;
        for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++) {
            const int64_t queries = sizes[n][0], keys = sizes[n][1];
            const size_t bytes = (size_t)(QUERY_HEADS * queries * (info.head_dim * element_bytes(info.dtype) + 4));
            unsigned char *alone = malloc(bytes), *got = malloc(bytes);
            const char *name = result_within(&(struct around){GLINT_LENGTHS_HOST, 0, 0, 1, 0, 1, 1}, &info, queries, keys, alone);
            for (size_t i = 0; i < sizeof around / sizeof around[0]; i++, compared++) {
                const char *taken = result_within(&around[i], &info, queries, keys, got);
                EXPECT(strcmp(name, taken) == 0 && memcmp(alone, got, bytes) == 0,
                       "%lld queries, %lld keys: case %zu has other bits; alone %s, there %s", (long long)queries, (long long)keys,
                       i, name, taken);
            }
            free(alone);
            free(got);
        }
    }
    EXPECT(compared > 0, "no forward row runs here");
    contract_note("%llu results have the bits of their sequence alone", (unsigned long long)compared);
    free(storage);
}

/* The word is lowered to the first sequence at fault, and never raised. */
static void faults(void)
{
    void *storage;
    struct counting counting;
    struct glint_context *const context = open_context(&counting, 2, &storage);
    const struct glint_variant_info info = first_row(context, GLINT_FORWARD);
    uint32_t row = 0, word = GLINT_NO_FAULT;
    while (strcmp(row_at(row).name, info.name) != 0)
        row++;
    for (uint32_t lengths = GLINT_LENGTHS_DEVICE; lengths <= RAGGED_AND_PAGES; lengths++) {
        struct batch x;
        describe(&x, &info, lengths, BSHD, true);
        make(&x, 1);
        word = GLINT_NO_FAULT;
        x.tensors.fault = &word;
        const struct {
            int32_t *at;
            int64_t value;
            uint32_t expected;
        } step[] = {
            {&x.seqlens_q[0], lengths == GLINT_LENGTHS_DEVICE ? x.problem.seqlen_q : 1, GLINT_NO_FAULT},
            {&x.seqlens_k[4], x.problem.seqlen_k + 1, 4},
            {&x.seqlens_q[2], -1, 2},
            {&x.seqlens_q[2], 0, 2}, /* it stays */
            {&x.seqlens_k[0], INT32_MIN, 0},
            {&x.seqlens_k[1], INT32_MAX, 0},
        };
        for (size_t i = 0; i < sizeof step / sizeof step[0]; i++) {
            *step[i].at = (int32_t)step[i].value;
            run(context, row, x.pass, &x.problem, &x.tensors);
            EXPECT(word == step[i].expected, "after step %zu the word is %u, not %u", i, word, step[i].expected);
        }
        x.tensors.fault = NULL;
        run(context, row, x.pass, &x.problem, &x.tensors);
        drop(&x);
    }
    free(storage);
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

static void expect_not_planned(const struct glint_context *context, const struct glint_problem *p, enum glint_status expected,
                               const char *word)
{
    char text[1024];
    EXPECT(glint_explain(context, p, GLINT_FORWARD, text, sizeof text, NULL) == expected && strstr(text, word) != NULL,
           "no %s in: %s", word, text);
}

/* Ragged queries with keys in pages: the keys have no rows of their own to begin at, and seqlens_k says how many
 * there are. */
static void refusals_in_pages(void)
{
    void *storage;
    struct counting counting;
    struct glint_context *const context = open_context(&counting, 2, &storage);
    const struct glint_variant_info info = first_row(context, GLINT_FORWARD);
    struct batch x;
    struct glint_plan plan;
    describe(&x, &info, RAGGED_AND_PAGES, BSHD, true);
    make(&x, 1);
    EXPECT(glint_plan(context, &x.problem, GLINT_FORWARD, &plan) == GLINT_OK, "plan");
    unsigned char *const workspace = aligned_memory(GLINT_WORKSPACE_ALIGNMENT, plan.workspace_bytes);
    struct glint_tensors t = x.tensors;
    t.first_k = x.first_k;
    expect_refused(&plan, &t, workspace, GLINT_BAD_RAGGED, "first_k is given, and the plan's K and V are in pages");
    t = x.tensors;
    t.seqlens_k = NULL;
    expect_refused(&plan, &t, workspace, GLINT_NULL_TENSOR, "seqlens_k");
    t = x.tensors;
    t.first_q = NULL;
    expect_refused(&plan, &t, workspace, GLINT_NULL_TENSOR, "first_q");
    t = x.tensors;
    t.page_table = NULL;
    expect_refused(&plan, &t, workspace, GLINT_NULL_TENSOR, "page_table");
    nothing_else_is_written(&x, 0);
    EXPECT(counting.calls == 0, "a refused call ran the executor");
    struct glint_problem bad = x.problem;
    bad.rows_k = 1;
    expect_not_planned(context, &bad, GLINT_BAD_RAGGED, "rows_k is 1, and K and V are in pages");
    bad = x.problem;
    bad.rows_q = -1;
    expect_not_planned(context, &bad, GLINT_BAD_RAGGED, "rows_q");
    bad = x.problem;
    bad.pages_per_sequence = 1;
    expect_not_planned(context, &bad, GLINT_BAD_PAGES, "pages_per_sequence");
    run(context, plan.variant, x.pass, &x.problem, &x.tensors);
    free(workspace);
    drop(&x);
    free(storage);
}

static void refusals(void)
{
    void *storage;
    struct counting counting;
    struct glint_context *const context = open_context(&counting, 2, &storage);
    const struct glint_variant_info info = first_row(context, GLINT_FORWARD);
    char text[1024];
    uint32_t word = GLINT_NO_FAULT;
    for (uint32_t lengths = GLINT_LENGTHS_DEVICE; lengths <= GLINT_LENGTHS_RAGGED; lengths++) {
        const bool ragged = lengths == GLINT_LENGTHS_RAGGED;
        struct batch x;
        struct glint_plan plan;
        describe(&x, &info, lengths, BSHD, true);
        make(&x, 1);
        EXPECT(glint_plan(context, &x.problem, GLINT_FORWARD, &plan) == GLINT_OK, "plan");
        unsigned char *workspace = aligned_memory(GLINT_WORKSPACE_ALIGNMENT, plan.workspace_bytes);
        struct glint_tensors t = x.tensors;

        if (ragged) {
            struct glint_append append = GLINT_APPEND_INIT;
            append.dtype = GLINT_F32;
            EXPECT(glint_append(&plan, &append, &t, NULL) == GLINT_BAD_APPEND &&
                       glint_explain_append(&plan, &append, &t, NULL, text, sizeof text, NULL) == GLINT_BAD_APPEND &&
                       strstr(text, "lengths is 2 (GLINT_LENGTHS_RAGGED)") != NULL,
                   "%s", text);
            t.first_k = NULL;
            expect_refused(&plan, &t, workspace, GLINT_NULL_TENSOR, "first_k");
            t = x.tensors;
            t.first_q = NULL;
            expect_refused(&plan, &t, workspace, GLINT_NULL_TENSOR, "first_q");
            t = x.tensors;
            t.first_q = (const int32_t *)(const void *)((const char *)x.first_q - 1);
            expect_refused(&plan, &t, workspace, GLINT_TENSOR_MISALIGNED, "first_q");
            t = x.tensors;
            t.first_k = (const int32_t *)(const void *)x.memory[LSE].at;
            expect_refused(&plan, &t, workspace, GLINT_TENSOR_OVERLAP, "first_k");
            t = x.tensors;
            t.fault = (uint32_t *)(void *)&x.first_k[BATCH];
            expect_refused(&plan, &t, workspace, GLINT_TENSOR_OVERLAP, "fault");
        } else {
            t.seqlens_k = NULL;
            expect_refused(&plan, &t, workspace, GLINT_NULL_TENSOR, "seqlens_k");
            t = x.tensors;
            t.first_q = x.first_q;
            expect_refused(&plan, &t, workspace, GLINT_BAD_RAGGED, "first_q");
        }
        t = x.tensors;
        t.seqlens_q = (const int32_t *)(const void *)((const char *)x.seqlens_q - 2);
        expect_refused(&plan, &t, workspace, GLINT_TENSOR_MISALIGNED, "seqlens_q");
        t = x.tensors;
        t.seqlens_k = (const int32_t *)(const void *)x.memory[O].at;
        expect_refused(&plan, &t, workspace, GLINT_TENSOR_OVERLAP, "seqlens_k");
        t.seqlens_k = (const int32_t *)(const void *)x.memory[LSE].at;
        expect_refused(&plan, &t, workspace, GLINT_TENSOR_OVERLAP, "seqlens_k");
        t = x.tensors;
        t.fault = (uint32_t *)(void *)x.memory[K].at;
        expect_refused(&plan, &t, workspace, GLINT_TENSOR_OVERLAP, "fault");
        t.fault = (uint32_t *)(void *)&x.seqlens_k[BATCH - 1];
        expect_refused(&plan, &t, workspace, GLINT_TENSOR_OVERLAP, "fault");
        t.fault = (uint32_t *)(void *)workspace;
        expect_refused(&plan, &t, workspace, GLINT_TENSOR_OVERLAP, "fault");
        nothing_else_is_written(&x, 0);

        /* Lengths that the plan does not ask for. */
        struct glint_problem host = x.problem;
        host.lengths = GLINT_LENGTHS_HOST;
        if (ragged)
            EXPECT(glint_explain(context, &host, GLINT_FORWARD, text, sizeof text, NULL) == GLINT_BAD_RAGGED &&
                       strstr(text, "rows_q") != NULL,
                   "%s", text);
        host.rows_q = host.rows_k = 0;
        host.batch = ragged ? 1 : host.batch;
        EXPECT(glint_plan(context, &host, GLINT_FORWARD, &plan) == GLINT_OK, "plan");
        free(workspace);
        workspace = aligned_memory(GLINT_WORKSPACE_ALIGNMENT, plan.workspace_bytes);
        expect_refused(&plan, &x.tensors, workspace, ragged ? GLINT_BAD_RAGGED : GLINT_BAD_LENGTHS, "GLINT_LENGTHS_RAGGED");
        t = x.tensors;
        t.seqlens_q = t.seqlens_k = t.first_q = t.first_k = NULL;
        t.fault = &word;
        expect_refused(&plan, &t, workspace, GLINT_BAD_LENGTHS, "fault");
        free(workspace);

        /* Rows that are none. */
        const int64_t rows[] = {-1, GLINT_MAX_EXTENT + 1, INT64_MIN};
        for (int i = 0; ragged && i < 6; i++) {
            struct glint_problem bad = x.problem;
            *(i < 3 ? &bad.rows_q : &bad.rows_k) = rows[i % 3];
            EXPECT(glint_explain(context, &bad, GLINT_FORWARD, text, sizeof text, NULL) == GLINT_BAD_RAGGED &&
                       strstr(text, i < 3 ? "rows_q" : "rows_k") != NULL,
                   "%s", text);
        }
        drop(&x);
    }
    free(storage);
}

static const struct contract_case cases[] = {
    {"one_body", one_body, 300},
    {"seven_bodies", seven_bodies, 300},
    {"any_arrays", any_arrays, 300},
    {"bits_of_a_sequence", bits_of_a_sequence, 300},
    {"faults", faults, 0},
    {"refusals", refusals, 0},
    {"refusals_in_pages", refusals_in_pages, 0},
};
CONTRACT_MAIN("lengths", cases)
