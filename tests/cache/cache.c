/* glint_append into caches of 8 bits, and a step of a server: ragged queries, keys in pages. What a row becomes is what
 * glint.h says, computed here in plain code, for every kind of row; nothing else is written, whatever the arrays hold;
 * a cache that is filled in steps is attended to as its numbers times their scales are in double, with the bits of a
 * linear one; a sequence has the bits that it has alone; refusals. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/contract/suite.h"
#include "tests/contract/world.h"
#include "tests/oracle/half.h"
#include "tests/oracle/ref.h"

enum { BATCH = 4, HEADS_Q = 4, HEADS_KV = 2, NOT_YET = 0xee };

/* A problem of BATCH sequences, the rows that are to be appended, and all memory, which ends at inaccessible pages. */
struct cache {
    struct glint_problem problem;
    struct glint_tensors tensors;
    struct glint_append append;
    int32_t first_q[BATCH + 1], seqlens_q[BATCH], seqlens_k[BATCH];
    struct guarded memory[LSE + 1], scale[2], table, rows[2];
    uint32_t fault;
    struct glint_plan plan;
    void *workspace;
};

static bool is_ragged(const struct cache *x)
{
    return x->problem.lengths == GLINT_LENGTHS_RAGGED;
}

/* Elements of the new rows of K, and of V; they lie as [batch][row][head] or, ragged, as [row][head]. */
static int64_t new_elements(const struct cache *x)
{
    const struct glint_problem *const p = &x->problem;
    return (is_ragged(x) ? p->rows_q : BATCH * p->seqlen_q) * HEADS_KV * p->head_dim;
}

static void make(struct cache *x, const struct glint_context *context, uint32_t row, uint32_t scales, uint32_t lengths,
                 int64_t queries, int64_t capacity, int64_t page_rows, enum glint_dtype from)
{
    const struct glint_variant_info info = row_at(row);
    const bool ragged = lengths == GLINT_LENGTHS_RAGGED;
    memset(x, 0, sizeof *x);
    struct glint_problem *const p = &x->problem;
    const int64_t rows = ragged ? BATCH * queries + 5 : queries, d = info.head_dim;
    glint_problem_bshd(p, (enum glint_dtype)info.dtype, BATCH, rows, capacity, HEADS_Q, HEADS_KV, d);
    p->seqlen_q = queries;
    p->rows_q = ragged ? rows : 0;
    p->mask = row_mask(&info, true);
    p->lengths = lengths;
    p->kv_dtype = info.kv_dtype;
    p->kv_scales = scales;
    if (page_rows > 0) {
        p->page_rows = page_rows;
        p->pages_per_sequence = (capacity + page_rows - 1) / page_rows;
        p->pages = BATCH * p->pages_per_sequence;
        p->k = (struct glint_strides){page_rows * HEADS_KV * d, d, HEADS_KV * d};
        p->v = (struct glint_strides){HEADS_KV * page_rows * (d + 8), page_rows * (d + 8), d + 8};
    }
    x->tensors = (struct glint_tensors)GLINT_TENSORS_INIT;
    for (enum tensor t = Q; t <= LSE; t++) {
        x->memory[t] = guarded_make(tensor_bytes(p, t), (size_t)element_bytes(tensor_dtype(p, t)), true);
        memset(x->memory[t].at, NOT_YET, x->memory[t].bytes);
        tensor_set(&x->tensors, t, x->memory[t].at);
    }
    for (int i = 0; i < 2 && scales != GLINT_SCALES_NONE; i++) {
        x->scale[i] = guarded_make(scale_bytes(p), 4, true);
        memset(x->scale[i].at, NOT_YET, x->scale[i].bytes);
        *(i == 0 ? &x->tensors.k_scale : &x->tensors.v_scale) = (const float *)(const void *)x->scale[i].at;
    }
    x->table = guarded_make((size_t)(p->batch * p->pages_per_sequence * 4), 4, true);
    for (int64_t i = 0; i < p->pages; i++)
        ((int32_t *)(void *)x->table.at)[i] = (int32_t)(p->pages - 1 - i);
    x->tensors.page_table = page_rows > 0 ? (const int32_t *)(const void *)x->table.at : NULL;
    x->tensors.first_q = ragged ? x->first_q : NULL;
    x->tensors.seqlens_q = x->seqlens_q;
    x->tensors.seqlens_k = x->seqlens_k;
    x->fault = GLINT_NO_FAULT;
    x->tensors.fault = &x->fault;
    x->append = (struct glint_append)GLINT_APPEND_INIT;
    x->append.dtype = (uint32_t)from;
    for (int i = 0; i < 2; i++)
        x->rows[i] = guarded_make((size_t)new_elements(x) * dtype_bytes(from), dtype_bytes(from), true);
    x->append.k = x->rows[0].at;
    x->append.v = x->rows[1].at;
    x->append.k_strides = x->append.v_strides = (struct glint_strides){rows * HEADS_KV * d, d, HEADS_KV * d};
    const enum glint_status status = glint_plan_variant(context, p, GLINT_FORWARD, row, &x->plan);
    EXPECT(status == GLINT_OK, "%s: %s", info.name, glint_status_name(status));
    x->workspace = aligned_memory(GLINT_WORKSPACE_ALIGNMENT, x->plan.workspace_bytes);
}

static void drop(struct cache *x)
{
    for (enum tensor t = Q; t <= LSE; t++)
        guarded_free(&x->memory[t]);
    for (int i = 0; i < 2; i++) {
        if (x->problem.kv_scales != GLINT_SCALES_NONE)
            guarded_free(&x->scale[i]);
        guarded_free(&x->rows[i]);
    }
    guarded_free(&x->table);
    free(x->workspace);
}

static void append(const struct cache *x)
{
    const enum glint_status status = glint_append(&x->plan, &x->append, &x->tensors, NULL);
    EXPECT(status == GLINT_OK, "%s", glint_status_name(status));
}

static void attend(const struct cache *x)
{
    memset(x->workspace, 0xff, x->plan.workspace_bytes);
    const enum glint_status status = glint_forward(&x->plan, &x->tensors, x->workspace, x->plan.workspace_bytes, NULL);
    EXPECT(status == GLINT_OK, "%s", glint_status_name(status));
}

/* ---- what glint.h says ------------------------------------------------------------------------------------------------------------------ */

/* A row of 8 bits and, if it has one of its own, its scale. Quotients of floats in double, rounded once more, are
 * float's: 53 bits are more than twice 24. */
static void quantise(uint32_t kv_dtype, bool own, const float *x, int64_t d, float *scale, unsigned char *code)
{
    double largest = 0;
    bool special = false;
    for (int64_t i = 0; i < d; i++) {
        largest = fmax(largest, fabs((double)x[i]));
        special = special || !isfinite(x[i]);
    }
    if (own)
        *scale = special ? NAN : fmaxf((float)(largest / (kv_dtype == GLINT_I8 ? 127 : 448)), ldexpf(1, -126));
    for (int64_t i = 0; i < d; i++) {
        const float quotient = (float)((double)x[i] / (double)*scale);
        if (own && special)
            code[i] = 0;
        else if (kv_dtype == GLINT_I8)
            code[i] = (unsigned char)(int8_t)fmax(-127, fmin(127, rint((double)quotient)));
        else
            code[i] = isfinite(quotient) ? e4m3_from_float(quotient) : 0x7f;
    }
}

/* New row `row` of the batch (of sequence b where they are not ragged) in float32. */
static void load_row(const struct cache *x, int i, int64_t b, int64_t row, int64_t h, float *to)
{
    const struct glint_problem *const p = &x->problem;
    const int64_t at = (((is_ragged(x) ? 0 : b * p->seqlen_q) + row) * HEADS_KV + h) * p->head_dim;
    const size_t bytes = dtype_bytes((enum glint_dtype)x->append.dtype);
    dtype_load_row((enum glint_dtype)x->append.dtype, to, x->rows[i].at + (size_t)at * bytes, p->head_dim);
}

struct span {
    int64_t at, rows, first; /* new rows from `at` on, the first of which is key `first` */
    bool wrong;
};

static int64_t clamped(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* What the arrays come to, of all sequences. */
static void read_arrays(const struct cache *x, struct span span[BATCH])
{
    const struct glint_problem *const p = &x->problem;
    int64_t end = 0;
    for (int b = 0; b < BATCH; b++) {
        struct span *const s = &span[b];
        int64_t room = p->seqlen_q, given = p->seqlen_q;
        memset(s, 0, sizeof *s);
        if (is_ragged(x)) {
            s->at = clamped(x->first_q[b], end, p->rows_q);
            end = clamped(x->first_q[b + 1], s->at, p->rows_q);
            s->wrong = s->at != x->first_q[b] || end != x->first_q[b + 1];
            given = end - s->at;
            room = given < room ? given : room;
        }
        given = x->tensors.seqlens_q != NULL ? x->seqlens_q[b] : given;
        s->rows = clamped(given, 0, room);
        s->first = x->seqlens_k[b] - given;
        s->wrong = s->wrong || s->rows != given || x->seqlens_k[b] < 0 || x->seqlens_k[b] > p->seqlen_k;
    }
}

static int64_t page_of(const struct cache *x, int64_t b, int64_t key)
{
    const struct glint_problem *const p = &x->problem;
    return p->page_rows == 0 ? b : ((const int32_t *)(const void *)x->table.at)[b * p->pages_per_sequence + key / p->page_rows];
}

static int64_t row_of(const struct cache *x, int64_t key)
{
    return x->problem.page_rows == 0 ? key : key % x->problem.page_rows;
}

static unsigned char *place(const struct cache *x, enum tensor t, int64_t b, int64_t h, int64_t key)
{
    const struct glint_strides s = t == K ? x->problem.k : x->problem.v;
    return x->memory[t].at + (size_t)(page_of(x, b, key) * s.batch + h * s.head + row_of(x, key) * s.row) *
                                 (size_t)element_bytes(tensor_dtype(&x->problem, t));
}

static int64_t scale_index(const struct cache *x, int64_t b, int64_t h, int64_t key)
{
    const struct glint_problem *const p = &x->problem;
    if (p->kv_scales != GLINT_SCALES_ROW)
        return p->kv_scales == GLINT_SCALES_HEAD ? h : 0;
    return (page_of(x, b, key) * HEADS_KV + h) * (p->page_rows == 0 ? p->seqlen_k : p->page_rows) + row_of(x, key);
}

static float scale_at(const struct cache *x, enum tensor t, int64_t index)
{
    float scale;
    memcpy(&scale, x->scale[t - K].at + 4 * index, 4);
    return scale;
}

/* Appends, and holds K, V and the scales, all of their bytes, against what they should be. Returns how many rows were
 * written. */
static uint64_t append_and_compare(struct cache *x, const char *what)
{
    const struct glint_problem *const p = &x->problem;
    const size_t element = (size_t)element_bytes(tensor_dtype(p, K)), row_bytes = (size_t)p->head_dim * element;
    const bool own = p->kv_scales == GLINT_SCALES_ROW;
    unsigned char *expected[2], *expected_scale[2];
    struct span span[BATCH];
    uint32_t fault = GLINT_NO_FAULT;
    uint64_t written = 0;
    float *const row = malloc((size_t)p->head_dim * 4);
    read_arrays(x, span);
    for (int i = 0; i < 2; i++) {
        const enum tensor t = i == 0 ? K : V;
        expected[i] = malloc(x->memory[t].bytes);
        memcpy(expected[i], x->memory[t].at, x->memory[t].bytes);
        expected_scale[i] = malloc(scale_bytes(p) + 1);
        if (scale_bytes(p) > 0)
            memcpy(expected_scale[i], x->scale[i].at, scale_bytes(p));
        for (int b = 0; b < BATCH; b++) {
            bool wrong = span[b].wrong;
            for (int64_t r = 0; r < span[b].rows; r++) {
                const int64_t key = span[b].first + r;
                const bool there = key >= 0 && key < p->seqlen_k && page_of(x, b, key) >= 0 &&
                                   (p->page_rows == 0 || page_of(x, b, key) < p->pages);
                wrong = wrong || !there;
                for (int64_t h = 0; h < HEADS_KV && there; h++, written++) {
                    unsigned char *const to = expected[i] + (place(x, t, b, h, key) - x->memory[t].at);
                    load_row(x, i, b, span[b].at + r, h, row);
                    if (p->kv_dtype == 0) {
                        dtype_store_row((enum glint_dtype)p->dtype, to, row, p->head_dim);
                        continue;
                    }
                    float scale = own ? 0 : scale_at(x, t, scale_index(x, b, h, key));
                    quantise(p->kv_dtype, own, row, p->head_dim, &scale, to);
                    if (own)
                        memcpy(expected_scale[i] + 4 * scale_index(x, b, h, key), &scale, 4);
                }
            }
            if (wrong && fault == GLINT_NO_FAULT)
                fault = (uint32_t)b;
        }
    }
    x->fault = GLINT_NO_FAULT;
    append(x);
    EXPECT(x->fault == fault, "%s: the word is %u, not %u", what, x->fault, fault);
    for (int i = 0; i < 2; i++) {
        const enum tensor t = i == 0 ? K : V;
        for (size_t at = 0; at < x->memory[t].bytes; at++)
            EXPECT(x->memory[t].at[at] == expected[i][at], "%s: byte %zu of %s (rows of %zu) is %d, not %d", what, at,
                   tensor_name[t], row_bytes, x->memory[t].at[at], expected[i][at]);
        for (size_t at = 0; at < scale_bytes(p); at += 4) {
            float got, right;
            memcpy(&got, x->scale[i].at + at, 4);
            memcpy(&right, expected_scale[i] + at, 4);
            EXPECT(memcmp(&got, &right, 4) == 0 || (isnan(got) && isnan(right)), "%s: scale %zu of %s is %a, not %a", what, at / 4,
                   tensor_name[t], (double)got, (double)right);
        }
        EXPECT(guarded_canaries_hold(&x->memory[t]) && (scale_bytes(p) == 0 || guarded_canaries_hold(&x->scale[i])),
               "%s: wrote before the cache", what);
        free(expected[i]), free(expected_scale[i]);
    }
    free(row);
    return written;
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------------------- */

/* Rows of every kind that the formulas tell apart, in turns. */
static void fill_row(struct rand *r, float *x, int64_t d)
{
    const int kind = (int)rand_below(r, 12);
    for (int64_t i = 0; i < d; i++) {
        const float tie = (float)rand_below(r, 254) - 127 + 0.5f; /* s = 1: between two integers */
        const float e4m3_tie = ldexpf((float)(2 * rand_below(r, 16) + 17), (int)rand_below(r, 20) - 13);
        switch (kind) {
        case 0: x[i] = 0; break;
        case 1: x[i] = i % 2 == 0 ? -0.0f : 0.0f; break;
        case 2: x[i] = i == 0 ? -127 : tie; break;
        case 3: x[i] = i == 0 ? 448 : i % 2 == 0 ? e4m3_tie : -e4m3_tie; break;
        case 4: x[i] = rand_normal(r) * 0x1p-130f; break;
        case 5: x[i] = rand_normal(r) * 0x1p-122f; break;
        case 6: x[i] = rand_normal(r) < 0 ? -FLT_MAX : FLT_MAX; break;
        case 7: x[i] = rand_normal(r) * 0x1p120f; break;
        default: x[i] = rand_normal(r) * (kind < 10 ? 1 : expf(4 * rand_normal(r))); break;
        }
    }
    if (kind == 11 || kind == 7)
        x[rand_below(r, d)] = rand_below(r, 3) == 0 ? NAN : rand_below(r, 2) ? INFINITY : -INFINITY;
}

static void fill_rows(struct cache *x, struct rand *r, bool plain)
{
    const int64_t d = x->problem.head_dim;
    float *const row = malloc((size_t)d * 4);
    for (int i = 0; i < 2; i++)
        for (int64_t at = 0; at < new_elements(x); at += d) {
            if (plain)
                for (int64_t e = 0; e < d; e++)
                    row[e] = rand_normal(r);
            else
                fill_row(r, row, d);
            dtype_store_row((enum glint_dtype)x->append.dtype,
                            x->rows[i].at + (size_t)at * dtype_bytes((enum glint_dtype)x->append.dtype), row, d);
        }
    free(row);
}

/* Scales that the host gives, strange ones among them. */
static void fill_scales(struct cache *x, struct rand *r)
{
    static const float scales[] = {1, 0.01f, -0.5f, 0, NAN, INFINITY, 0x1p-149f, FLT_MAX};
    for (int i = 0; i < 2; i++)
        for (size_t at = 0; at < scale_bytes(&x->problem); at += 4)
            memcpy(x->scale[i].at + at, &scales[rand_below(r, 4) ? rand_below(r, 3) : rand_below(r, 8)], 4);
}

static int32_t anything(struct rand *r, int64_t near)
{
    switch (rand_below(r, 12)) {
    case 0: return INT32_MIN;
    case 1: return INT32_MAX;
    case 2: return -1;
    default: return (int32_t)rand_below(r, near + 2);
    }
}

/* Lengths that are right: up to the bound of new rows each, ragged with a gap here and there. */
static void right_arrays(struct cache *x, struct rand *r)
{
    const struct glint_problem *const p = &x->problem;
    int64_t at = rand_below(r, 2);
    for (int b = 0; b < BATCH; b++) {
        x->seqlens_q[b] = (int32_t)rand_below(r, p->seqlen_q + 1);
        x->seqlens_k[b] = (int32_t)(x->seqlens_q[b] + rand_below(r, p->seqlen_k - x->seqlens_q[b] + 1));
        x->first_q[b] = (int32_t)at;
        at += x->seqlens_q[b] + (rand_below(r, 4) == 0);
    }
    x->first_q[BATCH] = (int32_t)at;
    x->tensors.seqlens_q = x->seqlens_q;
}

static void scramble(struct cache *x, struct rand *r)
{
    const struct glint_problem *const p = &x->problem;
    const int32_t no_page[] = {(int32_t)p->pages, INT32_MAX, -1, INT32_MIN};
    for (int edit = (int)rand_below(r, 4); edit > 0; edit--)
        switch (rand_below(r, 4)) {
        case 0: x->seqlens_q[rand_below(r, BATCH)] = anything(r, p->seqlen_q); break;
        case 1: x->seqlens_k[rand_below(r, BATCH)] = anything(r, p->seqlen_k); break;
        case 2: x->first_q[rand_below(r, BATCH + 1)] = anything(r, p->rows_q); break;
        default:
            if (p->page_rows > 0) /* never a page of another */
                ((int32_t *)(void *)x->table.at)[rand_below(r, p->pages)] = no_page[rand_below(r, 4)];
        }
    if (rand_below(r, 3) == 0)
        x->tensors.seqlens_q = NULL;
}

/* All rows of the table that run here, all scales, layouts and dtypes of new rows: what is written, and what is not. */
static void what_is_written(uint32_t concurrency)
{
    void *storage;
    struct counting counting;
    struct glint_context *const context = open_context(&counting, concurrency, &storage);
    uint64_t rows = 0, calls = 0, faults = 0;
    for (uint32_t row = 0; row < glint_variant_count(); row++) {
        const struct glint_variant_info info = row_at(row);
        if (info.pass != GLINT_FORWARD || glint_variant_available(context, row) != GLINT_OK)
            continue;
        for (int turn = 0; turn < (CONTRACT_EMULATED ? 12 : 60); turn++, calls++) {
            struct rand r = rand_stream(row * 1000 + (uint64_t)turn, concurrency);
            const uint32_t scales = info.kv_dtype == 0          ? GLINT_SCALES_NONE
                                    : info.kv_dtype == GLINT_I8 ? (uint32_t)GLINT_SCALES_ROW
                                                                : GLINT_SCALES_TENSOR + (uint32_t)turn % 3;
            const bool ragged = turn % 4 == 3;
            const int64_t page_rows = ragged || turn % 2 == 1 ? 16 << rand_below(&r, 2) : 0;
            struct cache x;
            make(&x, context, row, scales, ragged ? GLINT_LENGTHS_RAGGED : GLINT_LENGTHS_DEVICE, 1 + rand_below(&r, 30), 70,
                 page_rows, turn / 4 % 2 == 0 ? GLINT_F32 : (enum glint_dtype)info.dtype);
            fill_rows(&x, &r, false);
            fill_scales(&x, &r);
            if (scales == GLINT_SCALES_ROW)
                for (int i = 0; i < 2; i++)
                    memset(x.scale[i].at, NOT_YET, x.scale[i].bytes);
            right_arrays(&x, &r);
            if (turn % 3 == 2)
                scramble(&x, &r);
            for (int i = 0; i < 2; i++)
                guarded_read_only(&x.rows[i]);
            rows += append_and_compare(&x, info.name);
            faults += x.fault != GLINT_NO_FAULT;
            if (page_rows > 0 && !ragged && turn % 3 != 2) { /* and again, over what is there */
                right_arrays(&x, &r);
                rows += append_and_compare(&x, info.name);
            }
            drop(&x);
        }
    }
    contract_note("concurrency %u: %llu calls, %llu with a fault, %llu rows of a head as glint.h has them", concurrency,
                  (unsigned long long)calls, (unsigned long long)faults, (unsigned long long)rows);
    EXPECT(rows > 1000 && faults > 0 && faults < calls, "the arrays are all of one kind");
    free(storage);
}

static void written_by_one_body(void)
{
    what_is_written(1);
}

static void written_by_seven_bodies(void)
{
    what_is_written(7);
}

/* ---- attention to what was appended ------------------------------------------------------------------------------------------------------- */

/* Attention of sequence b in double, its keys read from the cache with their scales: in 8 bits the numbers that are
 * there, and beside them those that were appended (`exact`, [2][HEADS_KV][keys][head_dim]), if given. */
static void reference(const struct cache *x, int64_t b, const double *exact, double *o, double *lse)
{
    const struct glint_problem *const p = &x->problem;
    const int64_t queries = x->seqlens_q[b], keys = x->seqlens_k[b], d = p->head_dim;
    struct ref_shape s = {1,    HEADS_Q, HEADS_KV, queries, keys, d, p->softmax_scale, 0, 0, 0, NULL, NULL, NULL, NULL, NULL,
                          NULL, 0,       NULL,     NULL,    NULL, 0};
    ref_mask(&s, (enum glint_mask)p->mask, p->window_left, p->window_right, p->diagonal);
    double *const q = calloc((size_t)(HEADS_Q * queries * d) + 1, sizeof *q);
    double *const kv = calloc((size_t)(2 * HEADS_KV * keys * d) + 1, sizeof *kv), *to = kv;
    for (int64_t h = 0; h < HEADS_Q; h++)
        for (int64_t i = 0; i < queries; i++)
            for (int64_t e = 0; e < d; e++)
                q[(h * queries + i) * d + e] =
                    (double)dtype_load((enum glint_dtype)p->dtype,
                                       x->memory[Q].at + (size_t)((is_ragged(x) ? 0 : b) * p->q.batch + h * p->q.head +
                                                                  ((is_ragged(x) ? x->first_q[b] : 0) + i) * p->q.row + e) *
                                                             dtype_bytes((enum glint_dtype)p->dtype));
    for (enum tensor t = K; t <= V && exact == NULL; t++)
        for (int64_t h = 0; h < HEADS_KV; h++)
            for (int64_t key = 0; key < keys; key++)
                for (int64_t e = 0; e < d; e++) {
                    const unsigned char *const at = place(x, t, b, h, key);
                    if (p->kv_dtype == 0) {
                        *to++ = (double)dtype_load((enum glint_dtype)p->dtype,
                                                   at + (size_t)e * dtype_bytes((enum glint_dtype)p->dtype));
                        continue;
                    }
                    const double code = p->kv_dtype == GLINT_I8 ? (double)(int8_t)at[e] : (double)float_from_e4m3(at[e]);
                    *to++ = code * (double)scale_at(x, t, scale_index(x, b, h, key));
                }
    const double *const from = exact != NULL ? exact : kv;
    reference_forward(&s, q, from, from + HEADS_KV * keys * d, o, lse);
    free(q), free(kv);
}

static double output(const struct cache *x, int64_t b, int64_t h, int64_t i, int64_t e)
{
    const struct glint_problem *const p = &x->problem;
    const int64_t at =
        (is_ragged(x) ? 0 : b) * p->o.batch + h * p->o.head + ((is_ragged(x) ? x->first_q[b] : 0) + i) * p->o.row + e;
    return (double)dtype_load((enum glint_dtype)p->dtype, x->memory[O].at + (size_t)at * dtype_bytes((enum glint_dtype)p->dtype));
}

/* A prompt, then tokens one or a few at a time, over the ends of pages: after each step O is that of the cache's
 * numbers times their scales in double, and near that of the rows as they were before they were rounded; a linear cache
 * that is appended to alike gives the same bits. */
static void grows_and_is_attended(void)
{
    enum { CAPACITY = 90, STEPS = 5 };
    static const int32_t more[STEPS][BATCH] = {{8, 1, 5, 0}, {1, 1, 1, 1}, {8, 7, 0, 8}, {2, 8, 8, 1}, {1, 1, 1, 1}};
    void *storage;
    struct counting counting;
    struct glint_context *const context = open_context(&counting, 3, &storage);
    double worst = 0, worst_rounding[6] = {0};
    uint64_t compared = 0;
    for (uint32_t row = 0; row < glint_variant_count(); row++) {
        const struct glint_variant_info info = row_at(row);
        if (info.pass != GLINT_FORWARD || glint_variant_available(context, row) != GLINT_OK)
            continue;
        for (int way = 0; way < 2; way++) {
            struct rand r = rand_stream(row, (uint64_t)way);
            const uint32_t scales = info.kv_dtype == 0                        ? GLINT_SCALES_NONE
                                    : info.kv_dtype == GLINT_E4M3 && way == 1 ? (uint32_t)GLINT_SCALES_HEAD
                                                                              : GLINT_SCALES_ROW;
            const enum glint_dtype from = way == 0 ? GLINT_F32 : (enum glint_dtype)info.dtype;
            const int64_t d = info.head_dim;
            struct cache paged, linear;
            make(&paged, context, row, scales, GLINT_LENGTHS_DEVICE, 8, CAPACITY, 16, from);
            make(&linear, context, row, scales, GLINT_LENGTHS_DEVICE, 8, CAPACITY, 0, from);
            for (int i = 0; i < 2 && scales == GLINT_SCALES_HEAD; i++) {
                const float own[HEADS_KV] = {0.01f, 0.02f};
                memcpy(paged.scale[i].at, own, sizeof own);
                memcpy(linear.scale[i].at, own, sizeof own);
            }
            double *const exact = calloc((size_t)(BATCH * 2 * HEADS_KV * CAPACITY * d), sizeof *exact);
            double *const dense = calloc((size_t)(2 * HEADS_KV * CAPACITY * d), sizeof *dense);
            double *const o = calloc((size_t)(HEADS_Q * 8 * d), sizeof *o), lse[HEADS_Q * 8];
            float *const new = malloc((size_t)d * 4);
            for (int step = 0; step < STEPS; step++) {
                fill_rows(&paged, &r, true);
                for (int i = 0; i < 2; i++)
                    memcpy(linear.rows[i].at, paged.rows[i].at, paged.rows[i].bytes);
                fill_random(&r, info.dtype, paged.memory[Q].at, paged.memory[Q].bytes);
                memcpy(linear.memory[Q].at, paged.memory[Q].at, paged.memory[Q].bytes);
                for (int b = 0; b < BATCH; b++) {
                    paged.seqlens_q[b] = linear.seqlens_q[b] = more[step][b];
                    linear.seqlens_k[b] = paged.seqlens_k[b] += more[step][b];
                    for (int i = 0; i < 2; i++)
                        for (int64_t h = 0; h < HEADS_KV; h++)
                            for (int64_t n = 0; n < more[step][b]; n++) {
                                load_row(&paged, i, b, n, h, new);
                                for (int64_t e = 0; e < d; e++)
                                    exact[(((b * 2 + i) * HEADS_KV + h) * CAPACITY + paged.seqlens_k[b] - more[step][b] + n) * d +
                                          e] = (double)new[e];
                            }
                }
                append(&paged);
                append(&linear);
                attend(&paged);
                attend(&linear);
                EXPECT(paged.fault == GLINT_NO_FAULT && linear.fault == GLINT_NO_FAULT, "faults %u, %u", paged.fault, linear.fault);
                for (enum tensor t = O; t <= LSE; t++)
                    EXPECT(memcmp(paged.memory[t].at, linear.memory[t].at, paged.memory[t].bytes) == 0, "%s, step %d: %s differs",
                           info.name, step, tensor_name[t]);
                for (int64_t b = 0; b < BATCH; b++) {
                    const int64_t keys = paged.seqlens_k[b], queries = paged.seqlens_q[b];
                    for (int64_t i = 0; i < 2 * HEADS_KV; i++)
                        memcpy(dense + i * keys * d, exact + (b * 2 * HEADS_KV + i) * CAPACITY * d,
                               (size_t)(keys * d) * sizeof *dense);
                    for (int of_rounding = 0; of_rounding < 2; of_rounding++) {
                        double *const seen = of_rounding ? &worst_rounding[info.kv_dtype] : &worst;
                        const double unit = info.dtype == GLINT_F32 || of_rounding ? 1 : 0x1p-8; /* of bf16's own rounding */
                        reference(&paged, b, of_rounding ? dense : NULL, o, lse);
                        for (int64_t h = 0; h < HEADS_Q; h++)
                            for (int64_t i = 0; i < queries; i++)
                                for (int64_t e = 0; e < d; e++, compared++) {
                                    const double right = o[(h * queries + i) * d + e],
                                                 error = fabs(output(&paged, b, h, i, e) - right);
                                    *seen = fmax(*seen, unit == 1 ? error : 0);
                                    EXPECT(of_rounding || error <= 2e-6 + (unit == 1 ? 0 : unit * fabs(right)),
                                           "%s, step %d: %g, not %g", info.name, step, output(&paged, b, h, i, e), right);
                                }
                    }
                }
            }
            free(exact), free(dense), free(o), free(new);
            drop(&paged);
            drop(&linear);
        }
    }
    contract_note("%llu elements of O: largest error %.1e in float32; of int8 %.1e and of e4m3 %.1e from the rows before rounding",
                  (unsigned long long)compared, worst, worst_rounding[GLINT_I8], worst_rounding[GLINT_E4M3]);
    /* Rows are normal, so |x| is under 5: half of a step of int8 is 0.02, of e4m3 below 2^3 a quarter; scores differ by the same times |q|. */
    EXPECT(compared > 0 && worst_rounding[GLINT_I8] < 0.1 && worst_rounding[GLINT_E4M3] < 1, "rounding costs more than it can");
    free(storage);
}

/* A step of a server: prompts of any length and single tokens in one batch, appended and attended to with one plan.
 * Each sequence has the bits that it has alone, in a linear cache that it is appended to with a batch of one. */
static void a_step_of_a_server(void)
{
    enum { CAPACITY = 130, BOUND = 70 };
    void *storage[2];
    struct counting counting;
    struct glint_context *const context = open_context(&counting, 3, &storage[0]), *const alone = open_serial(&storage[1]);
    uint64_t compared = 0;
    for (uint32_t row = 0; row < glint_variant_count(); row++) {
        const struct glint_variant_info info = row_at(row);
        if (info.pass != GLINT_FORWARD || glint_variant_available(context, row) != GLINT_OK)
            continue;
        struct rand r = rand_stream(row, 3);
        struct cache x;
        const int64_t bound = info.queries_up_to > 0 ? 7 : BOUND, d = info.head_dim;
        const uint32_t scales = info.kv_dtype == 0 ? GLINT_SCALES_NONE : GLINT_SCALES_ROW;
        make(&x, context, row, scales, GLINT_LENGTHS_RAGGED, bound, CAPACITY, 32, GLINT_F32);
        struct glint_problem p = x.problem;
        p.batch = 1;
        p.lengths = GLINT_LENGTHS_DEVICE;
        p.rows_q = p.page_rows = p.pages = p.pages_per_sequence = 0;
        p.k = p.v = (struct glint_strides){0, d, HEADS_KV * d};
        const size_t bytes = (size_t)(CAPACITY * HEADS_KV * d) * (size_t)element_bytes(tensor_dtype(&p, K));
        unsigned char *const own = calloc(BATCH * 2, bytes);
        float *const own_scale = calloc(BATCH * 2, (size_t)(HEADS_KV * CAPACITY) * 4);
        struct glint_plan plan;
        EXPECT(glint_plan_variant(alone, &p, GLINT_FORWARD, row, &plan) == GLINT_OK, "plan");
        void *const workspace = aligned_memory(GLINT_WORKSPACE_ALIGNMENT, plan.workspace_bytes);
        unsigned char *const o = malloc(tensor_bytes(&p, O));
        float lse[HEADS_Q * BOUND];
        for (int step = 0; step < 3; step++) {
            const int32_t more[3][BATCH] = {{(int32_t)bound, 1, 3, 0}, {1, (int32_t)bound, 1, 1}, {1, 1, (int32_t)bound - 1, 1}};
            int32_t at = 2;
            fill_rows(&x, &r, true);
            fill_random(&r, info.dtype, x.memory[Q].at, x.memory[Q].bytes);
            memset(x.memory[O].at, NOT_YET, x.memory[O].bytes);
            for (int b = 0; b < BATCH; b++) {
                x.first_q[b] = at;
                x.seqlens_q[b] = more[step][b];
                x.seqlens_k[b] += more[step][b];
                at += more[step][b];
            }
            x.first_q[BATCH] = at;
            if (step == 1) /* all of the ragged rows */
                x.tensors.seqlens_q = NULL;
            append(&x);
            attend(&x);
            EXPECT(x.fault == GLINT_NO_FAULT, "fault %u", x.fault);
            for (int64_t b = 0; b < BATCH; b++) {
                struct glint_tensors t = GLINT_TENSORS_INIT;
                struct glint_append a = x.append;
                const size_t element = dtype_bytes((enum glint_dtype)p.dtype);
                t.q = x.memory[Q].at + (size_t)(x.first_q[b] * p.q.row) * element;
                t.k = own + (size_t)(2 * b) * bytes;
                t.v = own + (size_t)(2 * b + 1) * bytes;
                t.o = o;
                t.lse = lse;
                t.seqlens_q = &x.seqlens_q[b];
                t.seqlens_k = &x.seqlens_k[b];
                if (scales != GLINT_SCALES_NONE) {
                    t.k_scale = own_scale + 2 * b * HEADS_KV * CAPACITY;
                    t.v_scale = t.k_scale + HEADS_KV * CAPACITY;
                }
                a.k = x.rows[0].at + (size_t)(x.first_q[b] * HEADS_KV * d) * 4;
                a.v = x.rows[1].at + (size_t)(x.first_q[b] * HEADS_KV * d) * 4;
                EXPECT(glint_append(&plan, &a, &t, NULL) == GLINT_OK &&
                           glint_forward(&plan, &t, workspace, plan.workspace_bytes, NULL) == GLINT_OK,
                       "alone");
                for (int64_t h = 0; h < HEADS_Q; h++)
                    for (int64_t i = 0; i < x.seqlens_q[b]; i++, compared++) {
                        unsigned char *const got = x.memory[O].at + (size_t)(h * p.o.head + (x.first_q[b] + i) * p.o.row) * element;
                        EXPECT(memcmp(got, o + (size_t)(h * p.o.head + i * p.o.row) * element, (size_t)d * element) == 0 &&
                                   memcmp(x.memory[LSE].at + 4 * (h * x.problem.rows_q + x.first_q[b] + i), &lse[h * bound + i],
                                          4) == 0,
                               "%s, step %d: sequence %lld, head %lld, row %lld", info.name, step, (long long)b, (long long)h,
                               (long long)i);
                        memset(got, NOT_YET, (size_t)d * element);
                    }
            }
            for (size_t i = 0; i < x.memory[O].bytes; i++)
                EXPECT(x.memory[O].at[i] == NOT_YET, "%s: a row of no sequence was written", info.name);
            x.tensors.seqlens_q = x.seqlens_q;
        }
        free(own), free(own_scale), free(workspace), free(o);
        drop(&x);
    }
    EXPECT(compared > 0, "no forward row runs here");
    contract_note("%llu rows of O with the bits of their sequence alone", (unsigned long long)compared);
    for (int i = 0; i < 2; i++)
        free(storage[i]);
}

/* A row with an infinity or a NaN gives NaN to the queries that see it, and to no other. */
static void what_is_not_finite(void)
{
    void *storage;
    struct glint_context *const context = open_serial(&storage);
    uint32_t tried = 0;
    for (uint32_t row = 0; row < glint_variant_count(); row++) {
        const struct glint_variant_info info = row_at(row);
        if (info.pass != GLINT_FORWARD || info.kv_dtype == 0 || glint_variant_available(context, row) != GLINT_OK)
            continue;
        static const float bad[] = {NAN, INFINITY, -INFINITY};
        for (int i = 0; i < 6; i++, tried++) {
            struct rand r = {7};
            struct cache x;
            make(&x, context, row, GLINT_SCALES_ROW, GLINT_LENGTHS_DEVICE, 6, 40, 16, GLINT_F32);
            const int64_t d = info.head_dim;
            fill_rows(&x, &r, true);
            fill_random(&r, info.dtype, x.memory[Q].at, x.memory[Q].bytes);
            for (int b = 0; b < BATCH; b++)
                x.seqlens_q[b] = x.seqlens_k[b] = 6;
            /* of sequence 1, new row 3, key head 0: queries 3 to 5 of query heads 0 and 1 see it */
            memcpy(x.rows[i % 2].at + (size_t)(((1 * 6 + 3) * HEADS_KV + 0) * d + 5) * 4, &bad[i / 2], 4);
            append(&x);
            attend(&x);
            for (int64_t b = 0; b < BATCH; b++)
                for (int64_t h = 0; h < HEADS_Q; h++)
                    for (int64_t q = 0; q < 6; q++)
                        for (int64_t e = 0; e < d; e++)
                            EXPECT(!isfinite(output(&x, b, h, q, e)) == (b == 1 && h < HEADS_Q / HEADS_KV && q >= 3),
                                   "%s: sequence %lld, head %lld, query %lld is %g", info.name, (long long)b, (long long)h,
                                   (long long)q, output(&x, b, h, q, e));
            drop(&x);
        }
    }
    EXPECT(tried > 0, "no row of 8 bits runs here");
    free(storage);
}

/* ---- refusals ----------------------------------------------------------------------------------------------------------------------------- */

static void expect_refused(const struct cache *x, const struct glint_plan *plan, const struct glint_append *a,
                           const struct glint_tensors *t, enum glint_status expected, const char *word)
{
    char text[1024];
    const enum glint_status status = glint_append(plan, a, t, NULL);
    EXPECT(status == expected, "%s, not %s (%s)", glint_status_name(status), glint_status_name(expected), word);
    EXPECT(glint_explain_append(plan, a, t, NULL, text, sizeof text, NULL) == expected && strstr(text, word) != NULL,
           "no %s in: %s", word, text);
    for (int i = 0; i < 2; i++) {
        const struct guarded *const parts[] = {&x->memory[i == 0 ? K : V], &x->scale[i]};
        for (int k = 0; k < 2; k++)
            for (size_t at = 0; at < parts[k]->bytes; at++)
                EXPECT(parts[k]->at[at] == NOT_YET, "a refused call wrote (%s)", word);
    }
    EXPECT(x->fault == GLINT_NO_FAULT, "a refused call wrote the word");
}

static void refusals(void)
{
    void *storage;
    struct counting counting;
    struct glint_context *const context = open_context(&counting, 2, &storage);
    for (uint32_t row = 0; row < glint_variant_count(); row++) {
        const struct glint_variant_info info = row_at(row);
        if (info.pass != GLINT_FORWARD || info.kv_dtype == 0 || glint_variant_available(context, row) != GLINT_OK)
            continue;
        struct rand r = {3};
        struct cache x;
        make(&x, context, row, GLINT_SCALES_ROW, GLINT_LENGTHS_RAGGED, 5, 40, 16, GLINT_F32);
        fill_rows(&x, &r, true);
        right_arrays(&x, &r);
        struct glint_append a;
        struct glint_tensors t;
#define REFUSED(expected, word, change)                      \
    do {                                                     \
        a = x.append;                                        \
        t = x.tensors;                                       \
        change;                                              \
        expect_refused(&x, &x.plan, &a, &t, expected, word); \
    } while (0)
        float *const k_scale = (float *)(void *)x.scale[0].at;
        REFUSED(GLINT_NULL_TENSOR, "k_scale", t.k_scale = NULL);
        REFUSED(GLINT_NULL_TENSOR, "v_scale", t.v_scale = NULL);
        REFUSED(GLINT_NULL_TENSOR, "first_q", t.first_q = NULL);
        REFUSED(GLINT_NULL_TENSOR, "seqlens_k", t.seqlens_k = NULL);
        REFUSED(GLINT_NULL_TENSOR, "append.k is NULL", a.k = NULL);
        REFUSED(GLINT_BAD_RAGGED, "first_k is given", t.first_k = x.first_q);
        REFUSED(GLINT_BAD_APPEND, "append.dtype is 4", a.dtype = GLINT_I8);
        REFUSED(GLINT_BAD_APPEND, "append.dtype is 5", a.dtype = GLINT_E4M3);
        REFUSED(GLINT_TENSOR_MISALIGNED, "k_scale", t.k_scale = (const float *)(const void *)(x.scale[0].at + 2));
        REFUSED(GLINT_TENSOR_OVERLAP, "v_scale", t.v_scale = t.k_scale);
        REFUSED(GLINT_TENSOR_OVERLAP, "k_scale", t.k_scale = (const float *)t.k);
        REFUSED(GLINT_TENSOR_OVERLAP, "v_scale", t.v_scale = (const float *)t.k);
        REFUSED(GLINT_TENSOR_OVERLAP, "k_scale", t.k_scale = (const float *)(const void *)x.rows[1].at);
        REFUSED(GLINT_TENSOR_OVERLAP, "k_scale", t.page_table = (const int32_t *)(const void *)k_scale);
        REFUSED(GLINT_TENSOR_OVERLAP, "k_scale",
                t.seqlens_q = (const int32_t *)(const void *)(k_scale + scale_bytes(&x.problem) / 4 - BATCH));
        REFUSED(GLINT_TENSOR_OVERLAP, "append.k", a.k = x.memory[V].at);
        REFUSED(GLINT_BAD_STRIDE, "append.k_strides.row", a.k_strides.row = -1);
        REFUSED(GLINT_SIZE_OVERFLOW, "append.v", a.v_strides.row = INT64_MAX / 4);
        if (info.dtype != GLINT_BF16)
            REFUSED(GLINT_BAD_APPEND, "append.dtype", a.dtype = GLINT_BF16);

        /* Scales of the host are read, int8 takes none, and keys that follow one another have no room. */
        struct glint_problem p = x.problem;
        struct glint_plan plan;
        p.kv_scales = GLINT_SCALES_HEAD;
        EXPECT(glint_plan_variant(context, &p, GLINT_FORWARD, row, &plan) == GLINT_OK, "plan");
        if (info.kv_dtype == GLINT_I8) {
            expect_refused(&x, &plan, &x.append, &x.tensors, GLINT_BAD_APPEND,
                           "kv_scales is 2; rows of int8 are made with a scale each");
            p.kv_scales = GLINT_SCALES_TENSOR;
            EXPECT(glint_plan_variant(context, &p, GLINT_FORWARD, row, &plan) == GLINT_OK, "plan");
            expect_refused(&x, &plan, &x.append, &x.tensors, GLINT_BAD_APPEND, "kv_scales is 1");
        } else {
            const float scales[2][HEADS_KV] = {{1, 1}, {1, 1}};
            unsigned char *const cache = malloc(x.memory[K].bytes + x.memory[V].bytes);
            t = x.tensors;
            t.k = cache;
            t.v = cache + x.memory[K].bytes;
            t.k_scale = scales[0];
            t.v_scale = scales[0]; /* only read: they may be one */
            EXPECT(glint_append(&plan, &x.append, &t, NULL) == GLINT_OK, "scales of the host");
            free(cache);
        }
        p = x.problem;
        p.page_rows = p.pages = p.pages_per_sequence = 0;
        p.rows_k = 40;
        EXPECT(glint_plan_variant(context, &p, GLINT_FORWARD, row, &plan) == GLINT_OK, "ragged keys of 8 bits");
        expect_refused(&x, &plan, &x.append, &x.tensors, GLINT_BAD_APPEND, "lengths is 2");
        append(&x); /* what all of these began with */
        EXPECT(x.fault == GLINT_NO_FAULT, "fault %u", x.fault);
        drop(&x);
    }
    free(storage);
}

static const struct contract_case cases[] = {
    {"written_by_one_body", written_by_one_body, 120},     {"written_by_seven_bodies", written_by_seven_bodies, 120},
    {"grows_and_is_attended", grows_and_is_attended, 120}, {"a_step_of_a_server", a_step_of_a_server, 120},
    {"what_is_not_finite", what_is_not_finite, 0},         {"refusals", refusals, 0},
};
CONTRACT_MAIN("cache", cases)
