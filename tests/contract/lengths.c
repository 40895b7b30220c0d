/* Lengths that are read at run time (GLINT_LENGTHS_DEVICE): every sequence has the bits of a problem of its own lengths, on every forward row that
 * runs here; what lies beyond a length is NaN and reaches nothing, rows beyond one are not written; lengths out of bounds are clamped and noted. */
#include <stdlib.h>
#include <string.h>

#include "tests/contract/suite.h"
#include "tests/contract/world.h"

enum { BATCH = 5, HEADS_Q = 4, HEADS_KV = 2, UNTOUCHED = 0x5a };

/* A problem of BATCH sequences, and its memory. */
struct batch {
    struct glint_problem problem;
    struct glint_tensors tensors;
    int32_t seqlens_q[BATCH], seqlens_k[BATCH];
    float sinks[HEADS_Q];
    unsigned char *memory[LSE + 1];
    size_t bytes[LSE + 1];
};

static int64_t clamped(int64_t length, int64_t bound)
{
    return length < 0 ? 0 : length > bound ? bound : length;
}

static int64_t length_of(const struct batch *x, enum tensor t, int64_t b)
{
    return t == K || t == V ? clamped(x->seqlens_k[b], x->problem.seqlen_k) : clamped(x->seqlens_q[b], x->problem.seqlen_q);
}

static unsigned char *row_of(const struct glint_problem *p, unsigned char *base, enum tensor t, int64_t b, int64_t h, int64_t i)
{
    const struct tensor_layout s = tensor_layout(p, t);
    const int64_t at = t == LSE ? (b * s.heads + h) * s.rows + i : b * s.strides.batch + h * s.strides.head + i * s.strides.row;
    return base + at * s.element_bytes;
}

/* Numbers within a sequence's length, NaN beyond it. */
static void make(struct batch *x, uint64_t seed)
{
    struct rand r = rand_stream(seed, 1);
    for (enum tensor t = Q; t <= LSE; t++) {
        const struct tensor_layout s = tensor_layout(&x->problem, t);
        x->bytes[t] = (size_t)(s.batch * s.heads * s.rows * s.columns * s.element_bytes);
        x->memory[t] = aligned_memory(64, x->bytes[t]);
        memset(x->memory[t], t <= V ? 0xff : UNTOUCHED, x->bytes[t]);
        for (int64_t b = 0; t <= V && b < s.batch; b++)
            for (int64_t h = 0; h < s.heads; h++)
                for (int64_t i = 0; i < length_of(x, t, b); i++)
                    fill_random(&r, x->problem.dtype, row_of(&x->problem, x->memory[t], t, b, h, i),
                                (size_t)(s.columns * s.element_bytes));
    }
    x->tensors = (struct glint_tensors)GLINT_TENSORS_INIT;
    x->tensors.q = x->memory[Q];
    x->tensors.k = x->memory[K];
    x->tensors.v = x->memory[V];
    x->tensors.o = x->memory[O];
    x->tensors.lse = (float *)(void *)x->memory[LSE];
    x->tensors.seqlens_q = x->seqlens_q;
    x->tensors.seqlens_k = x->seqlens_k;
}

static void drop(struct batch *x)
{
    for (enum tensor t = Q; t <= LSE; t++)
        free(x->memory[t]);
}

static void run(const struct glint_context *context, uint32_t row, const struct glint_problem *p, const struct glint_tensors *t)
{
    struct glint_plan plan;
    plan.struct_size = sizeof plan;
    EXPECT(glint_plan_variant(context, p, GLINT_FORWARD, row, &plan) == GLINT_OK, "%s does not take the problem", row_at(row).name);
    void *workspace = aligned_memory(GLINT_WORKSPACE_ALIGNMENT, plan.workspace_bytes);
    memset(workspace, 0xff, plan.workspace_bytes);
    const enum glint_status status = glint_forward(&plan, t, workspace, plan.workspace_bytes, NULL);
    EXPECT(status == GLINT_OK, "%s: %s", row_at(row).name, glint_status_name(status));
    free(workspace);
}

/* Sequence b as a problem by itself, with O and LSE of its own; they are compared with the batch's, byte by byte. */
static void compare(const struct glint_context *context, uint32_t row, struct batch *x, int64_t b, uint64_t *rows)
{
    struct glint_problem p = x->problem;
    p.lengths = GLINT_LENGTHS_HOST;
    p.batch = 1;
    p.seqlen_q = length_of(x, Q, b);
    p.seqlen_k = length_of(x, K, b);
    unsigned char *o = aligned_memory(64, x->bytes[O]), *lse = aligned_memory(64, x->bytes[LSE]);
    struct glint_tensors t = GLINT_TENSORS_INIT;
    t.q = row_of(&x->problem, x->memory[Q], Q, b, 0, 0);
    t.k = row_of(&x->problem, x->memory[K], K, b, 0, 0);
    t.v = row_of(&x->problem, x->memory[V], V, b, 0, 0);
    t.o = o;
    t.lse = (float *)(void *)lse;
    t.sinks = x->tensors.sinks;
    run(context, row, &p, &t);
    for (enum tensor out = O; out <= LSE; out++) {
        const struct tensor_layout s = tensor_layout(&x->problem, out);
        const size_t bytes = (size_t)(s.columns * s.element_bytes);
        for (int64_t h = 0; h < s.heads; h++)
            for (int64_t i = 0; i < s.rows; i++, ++*rows) {
                const unsigned char *got = row_of(&x->problem, x->memory[out], out, b, h, i);
                bool same = true;
                if (i < p.seqlen_q)
                    same = memcmp(got, row_of(&p, out == O ? o : lse, out, 0, h, i), bytes) == 0;
                for (size_t k = 0; i >= p.seqlen_q && k < bytes; k++)
                    same = same && got[k] == UNTOUCHED;
                EXPECT(same, "%s: %s of sequence %lld (%lld x %lld of %lld x %lld), head %lld, row %lld", row_at(row).name,
                       tensor_field[out], (long long)b, (long long)p.seqlen_q, (long long)p.seqlen_k,
                       (long long)x->problem.seqlen_q, (long long)x->problem.seqlen_k, (long long)h, (long long)i);
            }
    }
    free(o);
    free(lse);
}

static void describe(struct batch *x, const struct glint_variant_info *info, uint32_t mask, bool bhsd)
{
    const int64_t m = info->queries_up_to > 0 ? 6 : (int64_t)info->tile_m + 9, n = 2 * (int64_t)info->tile_n + 9;
    memset(x, 0, sizeof *x);
    (bhsd ? glint_problem_bhsd : glint_problem_bshd)(&x->problem, (enum glint_dtype)info->dtype, BATCH, m, n, HEADS_Q, HEADS_KV,
                                                     info->head_dim);
    x->problem.lengths = GLINT_LENGTHS_DEVICE;
    x->problem.mask = mask;
    if (mask == GLINT_MASK_BAND_TOP_LEFT || mask == GLINT_MASK_BAND_BOTTOM_RIGHT) {
        x->problem.window_left = (int64_t)info->tile_n / 2;
        x->problem.window_right = 1;
    }
    const int64_t q[BATCH] = {m, 1, m - 2, 0, 3}, k[BATCH] = {n, n - 3, (int64_t)info->tile_n, 5, 0};
    for (int b = 0; b < BATCH; b++) {
        x->seqlens_q[b] = (int32_t)q[b];
        x->seqlens_k[b] = (int32_t)k[b];
    }
}

static void each_row(uint32_t concurrency)
{
    void *storage;
    struct counting counting;
    struct glint_context *const context = open_context(&counting, concurrency, &storage);
    uint64_t rows = 0;
    uint32_t tried = 0;
    for (uint32_t row = 0; row < glint_variant_count(); row++) {
        const struct glint_variant_info info = row_at(row);
        if (info.pass != GLINT_FORWARD || glint_variant_available(context, row) != GLINT_OK)
            continue;
        for (int way = 0; way < 3; way++) {
            struct batch x;
            describe(&x, &info, row_mask(&info, way > 0), way == 1);
            if (way == 2) { /* all queries, and two lengths out of bounds */
                x.seqlens_q[1] = x.seqlens_q[2] = x.seqlens_q[3] = x.seqlens_q[4] = x.seqlens_q[0];
                x.seqlens_k[2] = INT32_MAX;
                x.seqlens_k[3] = INT32_MIN;
            }
            if (way > 0) { /* with sinks, and capped where the row can */
                x.problem.sinks = 1;
                x.problem.softcap = (info.features & GLINT_FEATURE_SOFTCAP) != 0 ? 1.5f : 0;
                for (int h = 0; h < HEADS_Q; h++)
                    x.sinks[h] = (float)h - 1;
            }
            make(&x, row * 3 + (uint32_t)way);
            x.tensors.sinks = way > 0 ? x.sinks : NULL;
            if (way == 2)
                x.tensors.seqlens_q = NULL;
            run(context, row, &x.problem, &x.tensors);
            for (int64_t b = 0; b < BATCH; b++)
                compare(context, row, &x, b, &rows);
            drop(&x);
        }
        tried++;
    }
    EXPECT(tried > 0 && rows > 0, "no forward row runs here");
    contract_note("concurrency %u: %u rows of the table, %llu rows of O and LSE", concurrency, tried, (unsigned long long)rows);
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

/* ---- one sequence, whatever it is planned with ----------------------------------------------------------------------------------- */

enum { QUERY_HEADS = 2 }; /* of a key head */

/* What may differ around a sequence of `queries` and `keys`: the bounds, where it is in which batch, how many key heads there are, the executor. */
struct around {
    uint32_t lengths;
    int64_t more_queries, more_keys, batch, at, heads_kv;
    uint32_t concurrency;
};

/* O and LSE of the sequence and its first key head, from the row that glint_plan takes. The other sequences have other numbers and lengths. */
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

/* The bits of a sequence are those that it has alone, whatever the bounds, the batch, the heads and the threads. Its number of queries and their
 * bound are on the same side of what decode is taken for. */
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
        if (info.pass != GLINT_FORWARD || info.queries_up_to > 0 || glint_variant_available(context, row) != GLINT_OK)
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
    struct batch x;
    describe(&x, &info, row_mask(&info, true), false);
    make(&x, 1);
    x.tensors.fault = &word;
    const struct {
        int32_t *at;
        int64_t value;
        uint32_t expected;
    } step[] = {
        {&x.seqlens_q[0], x.problem.seqlen_q, GLINT_NO_FAULT},
        {&x.seqlens_k[4], x.problem.seqlen_k + 1, 4},
        {&x.seqlens_q[2], -1, 2},
        {&x.seqlens_q[2], 0, 2}, /* it stays */
        {&x.seqlens_k[0], INT32_MIN, 0},
        {&x.seqlens_k[1], INT32_MAX, 0},
    };
    for (size_t i = 0; i < sizeof step / sizeof step[0]; i++) {
        *step[i].at = (int32_t)step[i].value;
        run(context, row, &x.problem, &x.tensors);
        EXPECT(word == step[i].expected, "after step %zu the word is %u, not %u", i, word, step[i].expected);
    }
    x.tensors.fault = NULL;
    run(context, row, &x.problem, &x.tensors);
    drop(&x);
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

static void refusals(void)
{
    void *storage;
    struct counting counting;
    char text[1024];
    struct glint_context *const context = open_context(&counting, 2, &storage);
    const struct glint_variant_info info = first_row(context, GLINT_FORWARD);
    struct batch x;
    struct glint_plan plan;
    plan.struct_size = sizeof plan;
    describe(&x, &info, row_mask(&info, true), false);
    make(&x, 1);
    EXPECT(glint_plan(context, &x.problem, GLINT_FORWARD, &plan) == GLINT_OK, "plan");
    unsigned char *workspace = aligned_memory(GLINT_WORKSPACE_ALIGNMENT, plan.workspace_bytes);
    uint32_t word = GLINT_NO_FAULT;
    struct glint_tensors t = x.tensors;

    t.seqlens_k = NULL;
    expect_refused(&plan, &t, workspace, GLINT_NULL_TENSOR, "seqlens_k");
    t = x.tensors;
    t.seqlens_q = (const int32_t *)(const void *)((const char *)x.seqlens_q + 2);
    expect_refused(&plan, &t, workspace, GLINT_TENSOR_MISALIGNED, "seqlens_q");
    t = x.tensors;
    t.seqlens_k = (const int32_t *)(const void *)x.memory[O];
    expect_refused(&plan, &t, workspace, GLINT_TENSOR_OVERLAP, "seqlens_k");
    t.seqlens_k = (const int32_t *)(const void *)x.memory[LSE];
    expect_refused(&plan, &t, workspace, GLINT_TENSOR_OVERLAP, "seqlens_k");
    t = x.tensors;
    t.fault = (uint32_t *)(void *)x.memory[K];
    expect_refused(&plan, &t, workspace, GLINT_TENSOR_OVERLAP, "fault");
    t.fault = (uint32_t *)(void *)&x.seqlens_k[BATCH - 1];
    expect_refused(&plan, &t, workspace, GLINT_TENSOR_OVERLAP, "fault");
    t.fault = (uint32_t *)(void *)workspace;
    expect_refused(&plan, &t, workspace, GLINT_TENSOR_OVERLAP, "fault");
    for (size_t i = 0; i < x.bytes[O]; i++)
        EXPECT(x.memory[O][i] == UNTOUCHED, "a refused call wrote O");

    /* Lengths that the plan does not ask for. */
    x.problem.lengths = GLINT_LENGTHS_HOST;
    EXPECT(glint_plan(context, &x.problem, GLINT_FORWARD, &plan) == GLINT_OK, "plan");
    free(workspace);
    workspace = aligned_memory(GLINT_WORKSPACE_ALIGNMENT, plan.workspace_bytes);
    expect_refused(&plan, &x.tensors, workspace, GLINT_BAD_LENGTHS, "GLINT_LENGTHS_DEVICE");
    t = x.tensors;
    t.seqlens_q = t.seqlens_k = NULL;
    t.fault = &word;
    expect_refused(&plan, &t, workspace, GLINT_BAD_LENGTHS, "fault");

    drop(&x);
    if (runs_pass(context, GLINT_BACKWARD)) {
        const struct glint_variant_info back = first_row(context, GLINT_BACKWARD);
        describe(&x, &back, row_mask(&back, true), false);
        const enum glint_status status = glint_explain(context, &x.problem, GLINT_BACKWARD, text, sizeof text, NULL);
        EXPECT(status == GLINT_BAD_LENGTHS && strstr(text, "lengths") != NULL, "%s: %s", glint_status_name(status), text);
    }
    free(workspace);
    free(storage);
}

static const struct contract_case cases[] = {
    {"one_body", one_body, 0}, {"seven_bodies", seven_bodies, 0}, {"bits_of_a_sequence", bits_of_a_sequence, 0},
    {"faults", faults, 0},     {"refusals", refusals, 0},
};
CONTRACT_MAIN("lengths", cases)
