/* Every reason of lib/sentences.h is reached through the public calls, and printed as its sentence says: a reason
 * that nothing here reaches fails, and so does a word in braces that is not replaced. On a driver that owns no GPU,
 * whose table has rows of both GPU families. */
#define _POSIX_C_SOURCE 200809L
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/check.h"
#include "lib/takes.h"
#include "tests/cuda/fake_driver.h"
#include "tests/cuda/fake_table.h"
#include "tests/support/golden.h"

enum { STORAGE = 16384 };
static _Alignas(64) unsigned char storage[2][STORAGE];

enum call { PROBLEM, CALL, APPEND, MERGE };

/* What a case is asked with. */
struct scene {
    struct glint_context *context; /* on a GPU */
    struct glint_context *other;   /* on the CPU */
    const struct glint_problem *asked;
    struct glint_problem problem;
    enum glint_pass pass, called;
    struct glint_plan plan;
    struct glint_tensors tensors;
    struct glint_append append;
    struct glint_merge merge;
    struct glint_part part[2];
    void *workspace, *stream;
    size_t workspace_bytes;
};

static void *address(int64_t place)
{
    return (void *)(uintptr_t)(place << 32);
}

static void plan(struct scene *s)
{
    ck_assert_int_eq(glint_plan(s->context, &s->problem, s->pass, &s->plan), GLINT_OK);
    s->called = s->pass;
    s->workspace = address(50);
    s->workspace_bytes = s->plan.workspace_bytes;
}

/* The row FAKE_PLAIN's problem, planned; tensors, new rows and parts that all calls take. */
static void begin(struct scene *s)
{
    memset(s, 0, sizeof *s);
    struct glint_options options = GLINT_OPTIONS_INIT;
    fake_reset();
    options.device = GLINT_DEVICE_CUDA;
    ck_assert_int_eq(glint_context_init(storage[0], STORAGE, &options, &s->context), GLINT_OK);
    options.device = GLINT_DEVICE_CPU;
    ck_assert_int_eq(glint_context_init(storage[1], STORAGE, &options, &s->other), GLINT_OK);
    glint_problem_bshd(&s->problem, GLINT_F16, 2, 100, 100, 4, 2, 64);
    s->asked = &s->problem;
    s->pass = GLINT_FORWARD;
    plan(s);
    struct glint_tensors *const t = &s->tensors;
    *t = (struct glint_tensors)GLINT_TENSORS_INIT;
    t->q = address(1), t->k = address(2), t->v = address(3), t->o = address(4), t->lse = address(5);
    t->dout = address(6), t->dq = address(7), t->dk = address(8), t->dv = address(9);
    s->append = (struct glint_append)GLINT_APPEND_INIT;
    s->append.dtype = GLINT_F16;
    s->append.k = address(10), s->append.v = address(11);
    s->append.k_strides = s->append.v_strides = s->problem.k;
    s->merge = (struct glint_merge)GLINT_MERGE_INIT;
    s->merge.dtype = GLINT_F16;
    s->merge.parts = 2;
    s->merge.batch = 2, s->merge.heads = 4, s->merge.seqlen = 100, s->merge.head_dim = 64;
    s->merge.part = s->part;
    s->merge.o = address(12), s->merge.lse = address(13);
    s->merge.o_strides = s->problem.q;
    s->merge.lse_strides = (struct glint_strides){400, 100, 1};
    for (int i = 0; i < 2; i++)
        s->part[i] = (struct glint_part){.o = address(20 + 2 * i),
                                         .lse = address(21 + 2 * i),
                                         .o_strides = s->merge.o_strides,
                                         .lse_strides = s->merge.lse_strides,
                                         .dtype = GLINT_F16};
}

/* The rows FAKE_DECODE, FAKE_CAUSAL with ragged sequences, FAKE_MAPS_FORWARD and FAKE_SPLIT. */
static void decode(struct scene *s)
{
    glint_problem_bshd(&s->problem, GLINT_BF16, 2, 1, 100, 4, 2, 256);
    s->problem.mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
}

static void ragged(struct scene *s)
{
    s->problem.mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
    s->problem.lengths = GLINT_LENGTHS_RAGGED;
    s->problem.rows_q = s->problem.rows_k = 150;
}

static void in_pages(struct scene *s)
{
    s->problem.page_rows = 16;
    s->problem.pages = s->problem.pages_per_sequence = 10;
    s->problem.rows_k = 0;
}

static void hopper(struct scene *s)
{
    glint_problem_bshd(&s->problem, GLINT_BF16, 2, 100, 100, 4, 2, 128);
}

static void backward(struct scene *s)
{
    s->pass = GLINT_BACKWARD;
    plan(s);
}

/* C(reason, the call, what is wrong with it) */
/* clang-format off */
#define CASES(C) \
    C(NULL_ARGUMENT, PROBLEM, s->asked = NULL) \
    C(CONTEXT_CLOSED, PROBLEM, ck_assert_int_eq(glint_context_close(s->context), GLINT_OK)) \
    C(STRUCT_SIZE, PROBLEM, s->problem.struct_size--) \
    C(RESERVED, APPEND, s->append.reserved[1] = 7) \
    C(PASS, PROBLEM, s->pass = (enum glint_pass)7) \
    C(DTYPE, MERGE, s->part[1].dtype = GLINT_I8) \
    C(MASK, PROBLEM, s->problem.mask = 6) \
    C(WINDOW, PROBLEM, s->problem.mask = GLINT_MASK_BAND_TOP_LEFT, s->problem.window_right = -2) \
    C(WINDOW_WITHOUT_BAND, PROBLEM, s->problem.window_left = 3) \
    C(DIAGONAL_OF_NONE, PROBLEM, s->problem.diagonal = -3) \
    C(KV_DTYPE, PROBLEM, s->problem.kv_dtype = GLINT_F16) \
    C(KV_DTYPE_BACKWARD, PROBLEM, s->pass = GLINT_BACKWARD, s->problem.kv_dtype = GLINT_I8) \
    C(SCALES, PROBLEM, s->problem.kv_dtype = GLINT_E4M3) \
    C(SCALES_WITHOUT_KV_DTYPE, PROBLEM, s->problem.kv_scales = GLINT_SCALES_ROW) \
    C(LENGTHS, PROBLEM, s->problem.lengths = 3) \
    C(SINKS, PROBLEM, s->problem.sinks = 2) \
    C(ORDER, PROBLEM, s->problem.order = 2) \
    C(ORDER_BACKWARD, PROBLEM, s->pass = GLINT_BACKWARD, s->problem.order = GLINT_ORDER_CANONICAL) \
    C(INTERVALS, PROBLEM, s->problem.intervals = 2) \
    C(TREE, PROBLEM, s->pass = GLINT_BACKWARD, s->problem.tree = 1) \
    C(TREE_AND_ALIBI, PROBLEM, s->problem.tree = s->problem.alibi = 1) \
    C(ALIBI, PROBLEM, s->problem.alibi = 2) \
    C(LOGIT, PROBLEM, s->problem.max_logit = 2) \
    C(BIAS_DTYPE, PROBLEM, s->problem.bias_dtype = GLINT_I8) \
    C(BIAS_AND_ALIBI, PROBLEM, s->problem.bias_dtype = GLINT_F32, s->problem.alibi = 1) \
    C(DBIAS, PROBLEM, s->problem.bias_dtype = GLINT_F32, s->problem.dbias = 2) \
    C(DBIAS_OF_NONE, PROBLEM, s->problem.dbias = 1) \
    C(DBIAS_OVERLAP, PROBLEM, s->pass = GLINT_BACKWARD, s->problem.bias_dtype = GLINT_F32, s->problem.dbias = 1, \
        s->problem.bias.query = 1, s->problem.bias.key = 1) \
    C(BATCH, MERGE, s->merge.batch = 0) \
    C(HEADS, PROBLEM, s->problem.heads_kv = GLINT_MAX_EXTENT + 1) \
    C(HEAD_GROUP, PROBLEM, s->problem.heads_kv = 3) \
    C(HEAD_DIM, MERGE, s->merge.head_dim = 12) \
    C(HEAD_DIM_V, PROBLEM, s->problem.head_dim_v = s->problem.head_dim - 8) \
    C(SEQLEN, PROBLEM, s->problem.seqlen_k = -1) \
    C(ROWS, PROBLEM, ragged(s), s->problem.rows_k = -4) \
    C(ROWS_WITHOUT_RAGGED, PROBLEM, s->problem.rows_q = 5) \
    C(ROWS_IN_PAGES, PROBLEM, ragged(s), in_pages(s), s->problem.rows_k = 5) \
    C(SCALE, PROBLEM, s->problem.softmax_scale = INFINITY) \
    C(SOFTCAP, PROBLEM, s->problem.softcap = -1) \
    C(PAGE_ROWS, PROBLEM, s->problem.page_rows = 48) \
    C(PAGES, PROBLEM, in_pages(s), s->problem.pages = 0) \
    C(PAGES_OF_LINEAR, PROBLEM, s->problem.pages_per_sequence = 9) \
    C(PAGES_BACKWARD, PROBLEM, s->pass = GLINT_BACKWARD, in_pages(s)) \
    C(PAGES_OF_HOST, PROBLEM, in_pages(s)) \
    C(PAGES_TOO_FEW, PROBLEM, ragged(s), in_pages(s), s->problem.pages_per_sequence = 6) \
    C(STRIDE_NEGATIVE, MERGE, s->part[0].lse_strides.head = -1) \
    C(STRIDE_OVERLAP, PROBLEM, s->problem.o.head = 32) \
    C(SIZE, APPEND, s->append.v_strides.batch = INT64_C(1) << 62) \
    C(STRIDE_OF_ROW, PROBLEM, s->problem.q.row += 4) \
    C(STRIDE_TOO_LARGE, PROBLEM, hopper(s), s->problem.k.batch = INT64_C(1) << 40) \
    C(LACKS_LENGTHS, PROBLEM, s->problem.lengths = GLINT_LENGTHS_DEVICE) \
    C(LACKS_SINKS, PROBLEM, hopper(s), s->problem.sinks = 1) \
    C(LACKS_PAGES, PROBLEM, decode(s), in_pages(s), s->problem.lengths = GLINT_LENGTHS_DEVICE) \
    C(LACKS_ORDER, PROBLEM, s->problem.order = GLINT_ORDER_CANONICAL) \
    C(LACKS_LOGIT, PROBLEM, s->problem.max_logit = 1) \
    C(NOT_IN_SPEC, PROBLEM, glint_problem_bshd(&s->problem, GLINT_F16, 2, 100, 100, 4, 2, 72)) \
    C(NOT_ON_DEVICE, PROBLEM, s->problem.dtype = GLINT_BF16) \
    C(PLAN, CALL, s->plan.workspace_bytes++) \
    C(WRONG_PASS, CALL, s->called = GLINT_BACKWARD) \
    C(STREAM, MERGE, s->context = s->other, s->stream = s) \
    C(WORKSPACE, CALL, backward(s), s->workspace_bytes--) \
    C(WORKSPACE_ADDRESS, CALL, s->workspace = (char *)s->workspace + 128) \
    C(ADDRESS, CALL, s->tensors.v = (const char *)s->tensors.v + 8) \
    C(NULL_TENSOR, CALL, s->tensors.k = NULL) \
    C(STRIDE_ON_DEVICE, APPEND, s->append.k_strides.row += 4) \
    C(OVERLAP, CALL, s->tensors.o = (void *)(uintptr_t)s->tensors.q) \
    C(LENGTHS_GIVEN, CALL, s->tensors.seqlens_k = address(30)) \
    C(FIRST_GIVEN, CALL, s->tensors.first_k = address(30)) \
    C(FIRST_GIVEN_IN_PAGES, CALL, ragged(s), in_pages(s), s->problem.v = s->problem.k = (struct glint_strides){2048, 64, 128}, plan(s), \
        s->tensors.first_q = address(30), s->tensors.first_k = address(31)) \
    C(TABLE_GIVEN, CALL, s->tensors.page_table = address(30)) \
    C(SINKS_GIVEN, CALL, s->tensors.sinks = address(30)) \
    C(INTERVALS_GIVEN, CALL, s->tensors.key_end = address(30)) \
    C(TREE_GIVEN, CALL, s->tensors.tree_bits = address(31)) \
    C(ALIBI_GIVEN, CALL, s->tensors.alibi_slopes = address(30)) \
    C(LOGIT_GIVEN, CALL, s->tensors.max_logit = address(31)) \
    C(BIAS_GIVEN, CALL, s->tensors.bias = address(30)) \
    C(SCALES_GIVEN, CALL, s->tensors.v_scale = address(30)) \
    /* no row of this table has K and V of 8 bits, so this plan says so of itself */ \
    C(APPEND_SCALES, APPEND, s->plan.problem.kv_dtype = GLINT_I8, s->plan.problem.kv_scales = GLINT_SCALES_HEAD, \
        s->plan.internal[GLINT_PLAN_SUM_WORD] = glint_plan_sum(&s->plan)) \
    C(APPEND_DTYPE, APPEND, s->append.dtype = GLINT_BF16) \
    C(APPEND_RAGGED, APPEND, ragged(s), plan(s)) \
    C(APPEND_HEADS, APPEND, s->plan.problem.heads_kv = 1 << 26, s->plan.internal[GLINT_PLAN_SUM_WORD] = glint_plan_sum(&s->plan)) \
    C(PARTS, MERGE, s->merge.parts = 33) \
    C(RESULT_OVERLAP, MERGE, s->merge.lse = (float *)(uintptr_t)s->part[1].lse + 1)
/* clang-format on */

#define FUNCTION(reason, call, ...)            \
    static void make_##reason(struct scene *s) \
    {                                          \
        __VA_ARGS__;                           \
    }
CASES(FUNCTION)

static const struct {
    enum call call;
    void (*make)(struct scene *s);
} cases[GLINT_REASON_COUNT] = {
#define CASE(reason, call, ...) [GLINT_REASON_##reason] = {call, make_##reason},
    CASES(CASE)};

static const struct {
    const char *name, *sentence;
    enum glint_status status;
} reasons[GLINT_REASON_COUNT] = {
#define REASON(reason, status, sentence) [GLINT_REASON_##reason] = {#reason, sentence, status},
    GLINT_REASONS(REASON)};

static enum glint_status explain(const struct scene *s, enum call call, char *text, size_t bytes)
{
    switch (call) {
    case PROBLEM: return glint_explain(s->context, s->asked, s->pass, text, bytes, NULL);
    case CALL:
        return glint_explain_call(&s->plan, s->called, &s->tensors, s->workspace, s->workspace_bytes, s->stream, text, bytes, NULL);
    case APPEND: return glint_explain_append(&s->plan, &s->append, &s->tensors, s->stream, text, bytes, NULL);
    default: return glint_explain_merge(s->context, &s->merge, s->stream, text, bytes, NULL);
    }
}

/* Is the text the sentence, with anything but nothing and braces for its words? */
static bool is_sentence(const char *text, const char *sentence)
{
    while (*sentence != '\0' && *sentence != '{')
        if (*text++ != *sentence++)
            return false;
    if (*sentence == '\0')
        return *text == '\0';
    const char *const after = strchr(sentence, '}') + 1;
    for (const char *rest = text + 1; text[0] != '\0' && rest[-1] != '{'; rest++) {
        if (is_sentence(rest, after))
            return true;
        if (*rest == '\0')
            return false;
    }
    return false;
}

/* All calls of the scene are right as they are. */
START_TEST(nothing_is_wrong)
{
    struct scene s;
    char text[2048];
    begin(&s);
    for (enum call call = PROBLEM; call <= MERGE; call++)
        ck_assert_msg(explain(&s, call, text, sizeof text) == GLINT_OK, "%s", text);
}
END_TEST

START_TEST(every_reason)
{
    struct scene s;
    char text[2048], name[64];
    ck_assert_msg(cases[_i].make != NULL, "no case reaches the reason %s", reasons[_i].name);
    begin(&s);
    cases[_i].make(&s);
    const enum glint_status status = explain(&s, cases[_i].call, text, sizeof text);
    ck_assert_msg(status == reasons[_i].status, "%s: %s", reasons[_i].name, text);
    snprintf(name, sizeof name, "%s: ", glint_status_name(status));
    ck_assert_msg(strncmp(text, name, strlen(name)) == 0 && is_sentence(text + strlen(name), reasons[_i].sentence), "%s: %s",
                  reasons[_i].name, text);
    for (int other = 1; other < GLINT_REASON_COUNT; other++) /* some texts two reasons share: not two of one status */
        ck_assert_msg(other == _i || reasons[other].status != status || !is_sentence(text + strlen(name), reasons[other].sentence),
                      "%s says what %s does: %s", reasons[_i].name, reasons[other].name, text);
}
END_TEST

/* ---- each row asked for everything ------------------------------------------------------------------------------ */

/* A row takes a problem that needs what its column `takes` has, and no other: of lengths, pages, sinks and orders each
 * with each, asked of the row by its number and of the table. */
START_TEST(each_row_asked)
{
    const struct glint_variant *const v = &glint_variants[_i];
    struct scene s;
    int taken = 0;
    begin(&s);
    ck_assert_int_eq(glint_context_close(s.context), GLINT_OK);
    fake.device[0].sm = v == &glint_variants[FAKE_ONLY_120] ? 120 : 90;
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = GLINT_DEVICE_CUDA;
    ck_assert_int_eq(glint_context_init(storage[0], STORAGE, &options, &s.context), GLINT_OK);
    if (glint_variant_available(s.context, (uint32_t)_i) != GLINT_OK) /* of the other architecture */
        return;
    for (uint32_t asked = 0; asked < 24; asked++) {
        const uint32_t lengths = asked % 3, pages = asked / 3 % 2, sinks = asked / 6 % 2, order = asked / 12;
        if ((pages != 0 && (lengths == GLINT_LENGTHS_HOST || v->pass == GLINT_BACKWARD)) ||
            (order != 0 && v->pass == GLINT_BACKWARD))
            continue; /* no problem at all */
        struct glint_problem p;
        struct glint_plan one;
        glint_problem_bshd(&p, (enum glint_dtype)v->dtype, 2, v->queries_up_to > 0 ? 3 : 130, 128, 6, 2, v->head_dim);
        p.mask = glint_mask_of(v);
        p.lengths = lengths, p.sinks = sinks, p.order = order;
        p.softcap = (v->features & GLINT_FEATURE_SOFTCAP) != 0 ? 30 : 0;
        if (lengths == GLINT_LENGTHS_RAGGED)
            p.rows_q = 200, p.rows_k = pages != 0 ? 0 : 200;
        if (pages != 0)
            p.page_rows = 16, p.pages = 40, p.pages_per_sequence = 8;
        const uint32_t needs = (lengths == GLINT_LENGTHS_DEVICE ? GLINT_TAKES_LENGTHS : 0) |
                               (lengths == GLINT_LENGTHS_RAGGED ? GLINT_TAKES_RAGGED : 0) | (sinks != 0 ? GLINT_TAKES_SINKS : 0) |
                               (pages != 0 && lengths == GLINT_LENGTHS_DEVICE ? GLINT_TAKES_PAGES : 0) |
                               (pages != 0 && lengths == GLINT_LENGTHS_RAGGED ? GLINT_TAKES_RAGGED_PAGES : 0) |
                               (order != 0 ? GLINT_TAKES_CANONICAL : 0);
        const uint32_t lacks = needs & ~(uint32_t)v->takes;
        const enum glint_status expected = (lacks & (GLINT_TAKES_LENGTHS | GLINT_TAKES_RAGGED)) != 0       ? GLINT_BAD_LENGTHS
                                           : (lacks & GLINT_TAKES_SINKS) != 0                              ? GLINT_BAD_SINKS
                                           : (lacks & (GLINT_TAKES_PAGES | GLINT_TAKES_RAGGED_PAGES)) != 0 ? GLINT_BAD_PAGES
                                           : (lacks & GLINT_TAKES_CANONICAL) != 0                          ? GLINT_BAD_ORDER
                                                                                                           : GLINT_OK;
        const enum glint_status by_number = glint_plan_variant(s.context, &p, (enum glint_pass)v->pass, (uint32_t)_i, &one),
                                by_table = glint_plan(s.context, &p, (enum glint_pass)v->pass, &one);
        taken += expected == GLINT_OK;
        ck_assert_msg(by_number == expected, "%s, lengths %u, pages %u, sinks %u, order %u: %s", v->name, lengths, pages, sinks,
                      order, glint_status_name(by_number));
        ck_assert_msg((by_table == GLINT_OK) >= (expected == GLINT_OK), "%s, lengths %u, pages %u, sinks %u: the table says %s",
                      v->name, lengths, pages, sinks, glint_status_name(by_table));
        if (by_table == GLINT_OK) /* the row that is taken takes it */
            ck_assert_uint_eq(needs & ~(uint32_t)glint_variants[one.variant].takes, 0);
    }
    ck_assert_int_gt(taken, 0);
}
END_TEST

/* ---- the texts as they are -------------------------------------------------------------------------------------- */

static void put(FILE *out, const char *title, const char *text)
{
    fprintf(out, "%s\n    ", title);
    for (; *text != '\0'; text++)
        fprintf(out, *text == '\n' ? "\n    " : "%c", *text);
    fputs("\n", out);
}

/* What glint_explain says of a problem, on a device of that compute capability. */
static void put_problem(FILE *out, const char *title, int capability, const struct glint_problem *p, enum glint_pass pass)
{
    struct scene s;
    char text[2048], whole[160];
    begin(&s);
    ck_assert_int_eq(glint_context_close(s.context), GLINT_OK);
    fake.device[0].sm = capability;
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = GLINT_DEVICE_CUDA;
    if (glint_context_init(storage[0], STORAGE, &options, &s.context) != GLINT_OK)
        return;
    glint_explain(s.context, p, pass, text, sizeof text, NULL);
    snprintf(whole, sizeof whole, "%s, sm_%d", title, capability);
    put(out, whole, text);
}

static void put_all(FILE *out)
{
    struct scene s;
    char text[2048];
    for (int reason = 1; reason < GLINT_REASON_COUNT; reason++) {
        begin(&s);
        cases[reason].make(&s);
        explain(&s, cases[reason].call, text, sizeof text);
        put(out, reasons[reason].name, text);
    }
    for (int status = -1; status < 70; status++) {
        snprintf(text, sizeof text, "%s: %s", glint_status_name((enum glint_status)status),
                 glint_status_sentence((enum glint_status)status));
        put(out, "a status", text);
    }
    for (uint32_t isa = 0; isa < 12; isa++)
        put(out, "an instruction set", glint_isa_name(isa) != NULL ? glint_isa_name(isa) : "none");
    begin(&s);
    for (enum call call = CALL; call <= MERGE; call++) {
        explain(&s, call, text, sizeof text);
        put(out, "a call that would run", text);
    }
    for (uint32_t i = 0; i < glint_variants_count; i++) {
        const struct glint_variant *const v = &glint_variants[i];
        struct glint_problem p, q;
        glint_problem_bshd(&p, (enum glint_dtype)v->dtype, 2, v->queries_up_to > 0 ? 3 : 300, 400, 6, 2, v->head_dim);
        p.mask = glint_mask_of(v);
        p.softcap = (v->features & GLINT_FEATURE_SOFTCAP) != 0 ? 0x1p-120f : 0;
        const enum glint_pass pass = (enum glint_pass)v->pass;
        put_problem(out, v->name, 80, &p, pass);
        put_problem(out, v->name, 90, &p, pass);
        /* what a GPU cannot do: a cap that is nothing beside the scale, more blocks than a grid has */
        q = p, q.q.row += 4;
        put_problem(out, "a row of Q that begins off its alignment", 90, &q, pass);
        q = p, q.softmax_scale = 1024;
        put_problem(out, "a scale of 1024", 90, &q, pass);
        for (int64_t heads = 1024; heads <= 4096; heads *= 2) {
            glint_problem_bshd(&q, (enum glint_dtype)v->dtype, 1 << 20, 1, 1, heads, heads, v->head_dim);
            q.mask = p.mask, q.softcap = p.softcap;
            put_problem(out, "2^20 sequences of many heads", 90, &q, pass);
        }
        /* what no row has, axis by axis: the nearest row, and what in the spec would make one */
        glint_problem_bshd(&q, (enum glint_dtype)v->dtype, 2, 300, 400, 6, 2, v->head_dim + 8);
        put_problem(out, "another head_dim", 90, &q, pass);
        q = p, q.softcap = p.softcap == 0 ? 30 : 0;
        put_problem(out, "another softcap", 90, &q, pass);
        q = p, q.mask = GLINT_MASK_BAND_TOP_LEFT, q.window_left = 7, q.window_right = GLINT_UNBOUNDED;
        put_problem(out, "a window", 90, &q, pass);
        q = p, q.lengths = GLINT_LENGTHS_RAGGED, q.rows_q = q.rows_k = 500, q.sinks = 1;
        put_problem(out, "ragged with sinks", 90, &q, pass);
    }
}

static const char *golden;

/* Every text is that of sentences.txt: a word that changes is seen in review. */
START_TEST(texts)
{
    char *have = NULL;
    size_t bytes = 0;
    FILE *const out = open_memstream(&have, &bytes);
    put_all(out);
    fclose(out);
    if (golden == NULL)
        fputs(have, stdout);
    ck_assert(golden == NULL || golden_is(golden, have));
    free(have);
}
END_TEST

/* sentences_test sentences.txt; without an argument it prints what that file is to be. */
int main(int argc, char **argv)
{
    golden = argc > 1 ? argv[1] : NULL;
    Suite *suite = suite_create("sentences");
    TCase *tcase = tcase_create("reasons");
    if (golden != NULL) {
        tcase_add_test(tcase, nothing_is_wrong);
        tcase_add_loop_test(tcase, every_reason, 1, GLINT_REASON_COUNT);
    }
    if (golden != NULL)
        tcase_add_loop_test(tcase, each_row_asked, 0, FAKE_ROWS);
    tcase_add_test(tcase, texts);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, golden != NULL ? CK_ENV : CK_SILENT);
    const int failed = srunner_ntests_failed(runner), ran = srunner_ntests_run(runner);
    srunner_free(runner);
    return failed != 0 || ran != (golden != NULL ? GLINT_REASON_COUNT + 1 + FAKE_ROWS : 1);
}
