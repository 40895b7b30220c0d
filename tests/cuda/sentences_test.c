/* Every reason of lib/sentences.h is reached through the public calls, and printed as its sentence says: a reason
 * that nothing here reaches fails, and so does a word in braces that is not replaced. On a driver that owns no GPU,
 * whose table has rows of both GPU families. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/check.h"
#include "tests/cuda/fake_driver.h"
#include "tests/cuda/fake_table.h"

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
    C(KV_DTYPE, PROBLEM, s->problem.kv_dtype = GLINT_F16) \
    C(KV_DTYPE_BACKWARD, PROBLEM, s->pass = GLINT_BACKWARD, s->problem.kv_dtype = GLINT_I8) \
    C(SCALES, PROBLEM, s->problem.kv_dtype = GLINT_E4M3) \
    C(SCALES_WITHOUT_KV_DTYPE, PROBLEM, s->problem.kv_scales = GLINT_SCALES_ROW) \
    C(LENGTHS, PROBLEM, s->problem.lengths = 3) \
    C(SINKS, PROBLEM, s->problem.sinks = 2) \
    C(BATCH, MERGE, s->merge.batch = 0) \
    C(HEADS, PROBLEM, s->problem.heads_kv = GLINT_MAX_EXTENT + 1) \
    C(HEAD_GROUP, PROBLEM, s->problem.heads_kv = 3) \
    C(HEAD_DIM, MERGE, s->merge.head_dim = 12) \
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

int main(void)
{
    Suite *suite = suite_create("sentences");
    TCase *tcase = tcase_create("reasons");
    tcase_add_test(tcase, nothing_is_wrong);
    tcase_add_loop_test(tcase, every_reason, 1, GLINT_REASON_COUNT);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner), ran = srunner_ntests_run(runner);
    srunner_free(runner);
    return failed != 0 || ran != GLINT_REASON_COUNT;
}
