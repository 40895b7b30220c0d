/* Where answers change. Each field of a problem, a call, an append and a merge walks through all of its values, in
 * steps that double; between two steps with different answers the first value of the new one is searched by halving.
 * So each limit, whatever it is of, is found to the last digit, with the sentence on either side of it. edges.txt keeps
 * the edges of some rows, and of each row a sum of all edges and texts; the table is what this file is linked with.
 *
 * edges FILE; without a file it prints what that file is to be, and with `each` the edges of all rows. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/check.h"
#include "lib/takes.h"
#include "tests/contract/edges.h"
#include "tests/contract/serve.h"
#include "tests/support/golden.h"

struct scene {
    struct glint_context *context;
    struct glint_problem problem;
    uint32_t pass, called;
    struct glint_plan plan;
    struct glint_tensors tensors;
    struct glint_append append;
    struct glint_merge merge;
    struct glint_part part[2];
    void *workspace, *stream;
    size_t workspace_bytes;
};

enum call { PROBLEM, CALL, FORGED, APPEND, MERGE }; /* FORGED: a call with a plan that was edited, and its sum, too */
enum kind { WORD, LONG, REAL, PLACE };

static const struct field {
    const char *name;
    size_t at;
    enum call call;
    enum kind kind;
} fields[] = {
#define F(call, kind, field) {#field, offsetof(struct scene, field), call, kind},
#define STRIDES(call, field) F(call, LONG, field.batch) F(call, LONG, field.head) F(call, LONG, field.row)
    /* clang-format off */
    F(PROBLEM, WORD, pass) F(PROBLEM, WORD, problem.struct_size) F(PROBLEM, WORD, problem.dtype) F(PROBLEM, WORD, problem.mask)
    F(PROBLEM, REAL, problem.softmax_scale) F(PROBLEM, LONG, problem.batch) F(PROBLEM, LONG, problem.heads_q)
    F(PROBLEM, LONG, problem.heads_kv) F(PROBLEM, LONG, problem.head_dim) F(PROBLEM, LONG, problem.seqlen_q)
    F(PROBLEM, LONG, problem.seqlen_k) STRIDES(PROBLEM, problem.q) STRIDES(PROBLEM, problem.k) STRIDES(PROBLEM, problem.v)
    STRIDES(PROBLEM, problem.o) STRIDES(PROBLEM, problem.dout) STRIDES(PROBLEM, problem.dq) STRIDES(PROBLEM, problem.dk)
    STRIDES(PROBLEM, problem.dv) F(PROBLEM, LONG, problem.window_left) F(PROBLEM, LONG, problem.window_right)
    F(PROBLEM, LONG, problem.rows_q) F(PROBLEM, LONG, problem.rows_k) F(PROBLEM, WORD, problem.lengths)
    F(PROBLEM, WORD, problem.order) F(PROBLEM, REAL, problem.softcap) F(PROBLEM, WORD, problem.sinks)
    F(PROBLEM, LONG, problem.page_rows) F(PROBLEM, LONG, problem.pages) F(PROBLEM, LONG, problem.pages_per_sequence)
    F(PROBLEM, WORD, problem.kv_dtype) F(PROBLEM, WORD, problem.kv_scales) F(PROBLEM, LONG, problem.diagonal)
    F(PROBLEM, WORD, problem.intervals) F(PROBLEM, WORD, problem.alibi) F(PROBLEM, WORD, problem.max_logit)
    F(PROBLEM, WORD, problem.bias_dtype) F(PROBLEM, WORD, problem.dbias) F(PROBLEM, WORD, problem.tree)
    F(PROBLEM, LONG, problem.bias.batch) F(PROBLEM, LONG, problem.bias.head) F(PROBLEM, LONG, problem.bias.query) F(PROBLEM, LONG, problem.bias.key)
    F(PROBLEM, LONG, problem.head_dim_v) F(PROBLEM, LONG, problem.reserved[0])
    F(CALL, WORD, called) F(CALL, WORD, plan.struct_size) F(CALL, WORD, plan.pass) F(CALL, WORD, plan.variant)
    F(CALL, WORD, plan.reserved) F(CALL, LONG, plan.workspace_bytes) F(CALL, LONG, plan.problem.seqlen_k)
    F(CALL, LONG, plan.internal[0]) F(CALL, WORD, tensors.struct_size) F(CALL, WORD, tensors.reserved)
    F(CALL, LONG, workspace_bytes) F(CALL, PLACE, workspace) F(CALL, PLACE, stream) F(CALL, PLACE, tensors.q)
    F(CALL, PLACE, tensors.k) F(CALL, PLACE, tensors.v) F(CALL, PLACE, tensors.o) F(CALL, PLACE, tensors.lse)
    F(CALL, PLACE, tensors.dout) F(CALL, PLACE, tensors.dq) F(CALL, PLACE, tensors.dk) F(CALL, PLACE, tensors.dv)
    F(CALL, PLACE, tensors.first_q) F(CALL, PLACE, tensors.first_k) F(CALL, PLACE, tensors.seqlens_q)
    F(CALL, PLACE, tensors.seqlens_k) F(CALL, PLACE, tensors.fault) F(CALL, PLACE, tensors.sinks) F(CALL, PLACE, tensors.dsinks)
    F(CALL, PLACE, tensors.page_table) F(CALL, PLACE, tensors.k_scale) F(CALL, PLACE, tensors.v_scale)
    F(CALL, PLACE, tensors.dlse) F(CALL, PLACE, tensors.key_begin) F(CALL, PLACE, tensors.key_end)
    F(CALL, PLACE, tensors.alibi_slopes) F(CALL, PLACE, tensors.max_logit) F(CALL, PLACE, tensors.bias)
    F(CALL, PLACE, tensors.dbias) F(CALL, PLACE, tensors.tree_bits)
    F(FORGED, WORD, plan.struct_size) F(FORGED, WORD, plan.pass) F(FORGED, WORD, plan.variant)
    F(FORGED, LONG, plan.workspace_bytes) F(FORGED, LONG, plan.internal[GLINT_PLAN_CONTEXT_WORD])
    F(APPEND, WORD, append.struct_size) F(APPEND, WORD, append.dtype) F(APPEND, PLACE, append.k) F(APPEND, PLACE, append.v)
    STRIDES(APPEND, append.k_strides) STRIDES(APPEND, append.v_strides) F(APPEND, LONG, append.reserved[0])
    F(APPEND, LONG, append.reserved[1]) F(APPEND, PLACE, stream) F(APPEND, WORD, tensors.struct_size)
    F(APPEND, WORD, tensors.reserved) F(APPEND, PLACE, tensors.k) F(APPEND, PLACE, tensors.v) F(APPEND, PLACE, tensors.first_q)
    F(APPEND, PLACE, tensors.first_k) F(APPEND, PLACE, tensors.seqlens_q) F(APPEND, PLACE, tensors.seqlens_k)
    F(APPEND, PLACE, tensors.page_table) F(APPEND, PLACE, tensors.fault) F(APPEND, PLACE, tensors.k_scale)
    F(APPEND, PLACE, tensors.v_scale)
    F(MERGE, WORD, merge.struct_size) F(MERGE, WORD, merge.dtype) F(MERGE, WORD, merge.reserved) F(MERGE, LONG, merge.batch)
    F(MERGE, LONG, merge.heads) F(MERGE, LONG, merge.seqlen) F(MERGE, LONG, merge.head_dim) F(MERGE, PLACE, merge.sinks)
    F(MERGE, PLACE, merge.o) F(MERGE, PLACE, merge.lse) STRIDES(MERGE, merge.o_strides) STRIDES(MERGE, merge.lse_strides)
    F(MERGE, PLACE, part[0].o) F(MERGE, PLACE, part[0].lse) STRIDES(MERGE, part[0].o_strides)
    STRIDES(MERGE, part[1].lse_strides) F(MERGE, PLACE, part[1].o) F(MERGE, PLACE, part[1].lse) F(MERGE, WORD, part[0].dtype)
    F(MERGE, WORD, part[1].reserved) F(MERGE, PLACE, stream)
    /* clang-format on */
};
enum { FIELDS = sizeof fields / sizeof fields[0] };

/* ---- values ----------------------------------------------------------------------------------------------------- */

enum { MOST = 1500 };

static void *address(int64_t place)
{
    return (void *)(uintptr_t)(place << 32);
}

/* Keys, in their order; set() makes a value of a key. head_dim takes head_dim_v along, which has a walk of its own. */
static size_t ladder(enum kind kind, int64_t keys[MOST])
{
    size_t n = 0;
    if (kind == REAL) { /* exponents, as integers that are ordered as the numbers are */
        for (int64_t exponent = -255; exponent <= 255; exponent += 3)
            keys[n++] = exponent * (1 << 23);
        return n;
    }
    if (kind == PLACE) { /* in units of 4 bytes, beside each array that there may be */
        keys[n++] = 0;
        for (int64_t place = 1; place < 64; place++)
            for (int64_t step = -(1 << 24); step <= 1 << 24; step = step < -4   ? step / 16
                                                                    : step < 0  ? 0
                                                                    : step == 0 ? 4
                                                                                : step * 16)
                keys[n++] = (place << 30) + step;
        keys[n++] = (INT64_C(1) << 62) - 1; /* the end of memory */
        return n;
    }
    if (kind == LONG) {
        keys[n++] = INT64_MIN;
        for (int k = 62; k >= 6; k -= 2)
            keys[n++] = -(INT64_C(1) << k);
    }
    for (int64_t small = kind == LONG ? -9 : 0; small < 26; small++)
        keys[n++] = small;
    for (int k = 5; k < (kind == LONG ? 63 : 32); k++)
        keys[n++] = INT64_C(1) << k;
    keys[n++] = kind == LONG ? INT64_MAX : UINT32_MAX;
    return n;
}

static void set(struct scene *s, const struct field *f, int64_t key)
{
    void *const at = (char *)s + f->at;
    const uint32_t word = f->kind == REAL && key < 0 ? 0x80000000u | (uint32_t)(0 - (uint64_t)key) : (uint32_t)key;
    const uint64_t place = (uint64_t)key * 4;
    if (f->kind == WORD || f->kind == REAL)
        memcpy(at, &word, sizeof word);
    else
        memcpy(at, f->kind == PLACE ? (const void *)&place : (const void *)&key, sizeof key);
    if (at == (void *)&s->problem.head_dim)
        s->problem.head_dim_v = key;
}

/* ---- answers ---------------------------------------------------------------------------------------------------- */

struct answer {
    enum glint_status status;
    uint32_t sense; /* of the text without its numbers; of a row that is taken with its name */
    char text[2048];
};

static uint32_t sum_of(uint32_t sum, const char *text, bool numbers)
{
    for (; *text != '\0'; text++)
        if (numbers || (*text != '-' && (*text < '0' || *text > '9')))
            sum = (sum ^ (uint8_t)*text) * 16777619u; /* FNV-1a */
    return sum;
}

static void ask(const struct scene *s, enum call call, struct answer *a)
{
    switch (call) {
    case PROBLEM:
        a->status = glint_explain(s->context, &s->problem, (enum glint_pass)s->pass, a->text, sizeof a->text, NULL);
        break;
    case CALL:
        a->status = glint_explain_call(&s->plan, (enum glint_pass)s->called, &s->tensors, s->workspace, s->workspace_bytes,
                                       s->stream, a->text, sizeof a->text, NULL);
        break;
    case FORGED: {
        struct glint_plan plan = s->plan;
        plan.internal[GLINT_PLAN_SUM_WORD] = glint_plan_sum(&plan);
        a->status = glint_explain_call(&plan, (enum glint_pass)s->called, &s->tensors, s->workspace, s->workspace_bytes, s->stream,
                                       a->text, sizeof a->text, NULL);
        break;
    }
    case APPEND:
        a->status = glint_explain_append(&s->plan, &s->append, &s->tensors, s->stream, a->text, sizeof a->text, NULL);
        break;
    case MERGE: a->status = glint_explain_merge(s->context, &s->merge, s->stream, a->text, sizeof a->text, NULL); break;
    }
    a->sense = sum_of(2166136261u, a->text, false);
    char *const end = a->status == GLINT_OK ? strchr(a->text, ',') : NULL; /* behind the row's name and family */
    if (end != NULL) {
        *end = '\0';
        a->sense = sum_of(a->sense, a->text, true);
        *end = ',';
    }
}

/* ---- walks ------------------------------------------------------------------------------------------------------ */

struct count {
    uint32_t edges, sum;
};

static void put_edge(FILE *out, const struct field *f, int64_t key, const struct answer *a)
{
    const char *const name = glint_status_name(a->status);
    float number;
    uint32_t word = key < 0 ? 0x80000000u | (uint32_t)(0 - (uint64_t)key) : (uint32_t)key;
    memcpy(&number, &word, sizeof number);
    if (f->kind == REAL)
        fprintf(out, " %a", (double)number);
    else if (f->kind == PLACE)
        fprintf(out, " %" PRId64 "%+" PRId64, (key + (1 << 29)) >> 30, 4 * (key - ((key + (1 << 29)) >> 30) * (INT64_C(1) << 30)));
    else
        fprintf(out, " %" PRId64, key);
    fprintf(out, " %s", name != NULL && strncmp(name, "GLINT_", 6) == 0 ? name + 6 : "?");
}

/* `shown`: the edges are printed. */
static void walk(FILE *out, struct scene *s, const struct field *f, bool shown, struct count *count)
{
    static int64_t keys[MOST];
    static struct answer last, now;
    const struct scene whole = *s;
    const size_t n = ladder(f->kind, keys);
    if (shown)
        fprintf(out, "    %s:", f->name);
    for (size_t i = 0; i < n; i++) {
        set(s, f, keys[i]);
        ask(s, f->call, &now);
        count->sum = sum_of(count->sum, now.text, true);
        for (int round = 0; i > 0 && round < 8 && now.sense != last.sense; round++) {
            int64_t low = round == 0 ? keys[i - 1] : low, high = keys[i];
            const uint32_t before = last.sense;
            while ((uint64_t)high - (uint64_t)low > 1) {
                const int64_t middle = (int64_t)((uint64_t)low + ((uint64_t)high - (uint64_t)low) / 2);
                set(s, f, middle);
                ask(s, f->call, &last);
                if (last.sense == before)
                    low = middle;
                else
                    high = middle;
            }
            set(s, f, high);
            ask(s, f->call, &last);
            count->edges++;
            count->sum = sum_of(count->sum ^ (uint32_t)high ^ (uint32_t)((uint64_t)high >> 32), last.text, true);
            if (shown)
                put_edge(out, f, high, &last);
            low = high;
        }
        if (i == 0 && shown)
            put_edge(out, f, keys[i], &now);
        last = now;
    }
    if (shown)
        fprintf(out, "\n");
    *s = whole;
}

static void walk_all(FILE *out, struct scene *s, enum call call, const char *title, bool shown)
{
    struct count count = {0, 2166136261u};
    static struct answer a;
    ask(s, call, &a);
    fprintf(out, "  %s: %.*s\n", title, (int)strcspn(a.text, "\n"), a.text);
    for (size_t i = 0; i < FIELDS; i++)
        if (fields[i].call == call)
            walk(out, s, &fields[i], shown, &count);
    fprintf(out, "    %" PRIu32 " edges, sum %08" PRIx32 "\n", count.edges, count.sum);
}

/* ---- scenes ----------------------------------------------------------------------------------------------------- */

static void give(struct scene *s)
{
    const struct glint_problem *const p = &s->problem;
    const bool forward = s->pass == GLINT_FORWARD, ragged = p->lengths == GLINT_LENGTHS_RAGGED, pages = p->page_rows != 0;
    struct glint_tensors *const t = &s->tensors;
    *t = (struct glint_tensors)GLINT_TENSORS_INIT;
    t->q = address(1), t->k = address(2), t->v = address(3), t->o = address(4), t->lse = address(5);
    s->workspace = address(6), s->workspace_bytes = s->plan.workspace_bytes;
    if (!forward)
        t->dout = address(7), t->dq = address(8), t->dk = address(9), t->dv = address(10), t->dlse = address(11);
    if (ragged)
        t->first_q = address(12), t->first_k = pages ? NULL : address(13);
    if (p->lengths != GLINT_LENGTHS_HOST)
        t->seqlens_k = address(14), t->seqlens_q = address(15), t->fault = address(16);
    if (pages)
        t->page_table = address(17);
    if (p->sinks != 0)
        t->sinks = address(18), t->dsinks = forward ? NULL : address(19);
    if (p->kv_scales != 0)
        t->k_scale = address(20), t->v_scale = address(21);
    if (p->intervals != 0)
        t->key_begin = address(22), t->key_end = address(23);
    if (p->alibi != 0)
        t->alibi_slopes = address(24);
    if (p->max_logit != 0)
        t->max_logit = address(25);
    if (p->bias_dtype != 0)
        t->bias = address(26), t->dbias = p->dbias != 0 ? address(27) : NULL;
    if (p->tree != 0)
        t->tree_bits = address(28);
    s->append = (struct glint_append)GLINT_APPEND_INIT;
    s->append.dtype = p->dtype;
    s->append.k = address(29), s->append.v = address(30);
    s->append.k_strides = s->append.v_strides = p->q;
}

/* Extents whose products 64 bits do not hold at some value of a field; inputs repeat themselves, as outputs may not. */
static const struct {
    const char *title;
    int64_t batch, heads_q, heads_kv, seqlen_q, seqlen_k;
    bool repeated, alike;
} shapes[] = {
    {"a problem", 3, 4, 2, 7, 300, false, false},
    {"a problem of many heads", 1 << 17, 1 << 16, 1 << 16, 1, 1 << 10, true, false},
    {"a problem of many queries", 2, 3, 3, GLINT_MAX_EXTENT, 5, true, false},
    {"a problem of tensors that are alike", 2, 4, 4, 7, 7, false, true},
    {"a problem without keys", 2, 4, 2, 7, 0, false, false},
    {"a problem without queries", 2, 4, 2, 0, 7, false, false},
    {"a problem of one of each", 1, 1, 1, 1, 1, false, false},
};

static void make(struct scene *s, const struct glint_variant *v, size_t shape, size_t number)
{
    struct glint_problem *const p = &s->problem;
    memset(s, 0, sizeof *s);
    s->context = edges_context();
    s->pass = s->called = v->pass;
    glint_problem_bshd(p, (enum glint_dtype)v->dtype, shapes[shape].batch, shapes[shape].seqlen_q, shapes[shape].seqlen_k,
                       shapes[shape].heads_q, shapes[shape].heads_kv, v->head_dim);
    serve(p, v, number);
    p->bias = (struct glint_bias_strides){p->heads_q * p->seqlen_q * p->seqlen_k, p->seqlen_q * p->seqlen_k, p->seqlen_k, 1};
    const bool padded = (v->takes & GLINT_TAKES_LENGTHS) != 0, ragged = (v->takes & GLINT_TAKES_RAGGED) != 0;
    p->lengths = number % 3 == 1 && padded ? GLINT_LENGTHS_DEVICE : number % 3 == 2 && ragged ? GLINT_LENGTHS_RAGGED : 0;
    const uint32_t of_pages = p->lengths == GLINT_LENGTHS_RAGGED ? GLINT_TAKES_RAGGED_PAGES : GLINT_TAKES_PAGES;
    if (p->lengths != 0 && number % 2 == 0 && (v->takes & of_pages) != 0)
        p->page_rows = 64, p->pages = 70, p->pages_per_sequence = 20;
    if (p->lengths == GLINT_LENGTHS_RAGGED)
        p->rows_q = 2 * p->seqlen_q < GLINT_MAX_EXTENT ? 2 * p->seqlen_q : p->seqlen_q, p->rows_k = p->page_rows != 0 ? 0 : 500;
    if (shapes[shape].alike) /* between rows there is room for two tensors more */
        p->q = p->k = p->v = p->o = p->dout = p->dq = p->dk = p->dv =
            (struct glint_strides){p->seqlen_q * 3 * p->heads_q * p->head_dim, p->head_dim, 3 * p->heads_q * p->head_dim};
    if (shapes[shape].repeated) {
        p->k = p->v = (struct glint_strides){0, 0, 0};
        p->bias = (struct glint_bias_strides){0, 0, 0, 0};
        p->q = p->dout = v->pass == GLINT_BACKWARD ? p->k : p->q;
    }
}

/* Every byte of a plan is in its sum. */
static void put_bytes(FILE *out, struct scene *s)
{
    const struct glint_plan whole = s->plan;
    static struct answer a;
    size_t refused = 0;
    for (size_t i = 0; i < sizeof whole; i++) {
        ((unsigned char *)&s->plan)[i] ^= (unsigned char)(1u << i % 8);
        ask(s, CALL, &a);
        refused += a.status == GLINT_BAD_PLAN;
        s->plan = whole;
    }
    fprintf(out, "  a plan with a byte that was changed is refused: %zu of %zu\n", refused, sizeof whole);
}

static void put_row(FILE *out, uint32_t row, bool each)
{
    static struct scene s;
    const struct glint_variant *const v = &glint_variants[row];
    fprintf(out, "%s\n", v->name);
    for (size_t shape = 0; shape < sizeof shapes / sizeof shapes[0]; shape++) {
        make(&s, v, shape, row + shape);
        walk_all(out, &s, PROBLEM, shapes[shape].title, each || (shape == 0 && row % 7 == 3));
    }
    static const size_t of_calls[] = {0, 0, 0, 3, 3, 4, 5, 6};
    for (size_t i = 0; i < sizeof of_calls / sizeof of_calls[0]; i++) {
        make(&s, v, of_calls[i], row + i);
        if (glint_plan_variant(s.context, &s.problem, (enum glint_pass)s.pass, row, &s.plan) != GLINT_OK)
            continue;
        give(&s);
        walk_all(out, &s, CALL, "a call", each);
        if (i == 0) {
            walk_all(out, &s, FORGED, "a forged plan", each);
            put_bytes(out, &s);
        }
        if (v->pass == GLINT_FORWARD)
            walk_all(out, &s, APPEND, "new rows", each);
    }
}

static void put_merge(FILE *out, uint32_t dtype, bool each)
{
    static struct scene s;
    struct glint_merge *const m = &s.merge;
    memset(&s, 0, sizeof s);
    s.context = edges_context();
    *m = (struct glint_merge)GLINT_MERGE_INIT;
    m->dtype = dtype, m->parts = 2;
    m->batch = 3, m->heads = 4, m->seqlen = 50, m->head_dim = 64;
    m->part = s.part;
    m->o = address(1), m->lse = address(2), m->sinks = address(3);
    m->o_strides = (struct glint_strides){4 * 50 * 64, 64, 4 * 64};
    m->lse_strides = (struct glint_strides){200, 50, 1};
    for (int i = 0; i < 2; i++)
        s.part[i] = (struct glint_part){.o = address(4 + 2 * i),
                                        .lse = address(5 + 2 * i),
                                        .o_strides = m->o_strides,
                                        .lse_strides = m->lse_strides,
                                        .dtype = i == 0 ? GLINT_F32 : dtype};
    walk_all(out, &s, MERGE, "a merge", each || dtype == GLINT_F16);
}

int main(int argc, char **argv)
{
    char *have = NULL;
    size_t bytes = 0;
    const bool each = argc > 1 && strcmp(argv[1], "each") == 0;
    FILE *const out = open_memstream(&have, &bytes);
    for (uint32_t i = 0; i < glint_variants_count; i++)
        put_row(out, i, each);
    for (uint32_t dtype = GLINT_F32; dtype <= GLINT_BF16; dtype++)
        put_merge(out, dtype, each);
    return golden_finish(out, &have, argc < 2 || each ? NULL : argv[1]);
}
