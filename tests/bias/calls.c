/* The rules of glint.h about a bias and its gradient in a plan and in a call: each argument wrong by itself is refused
 * with its status and a sentence that names it, and nothing is written. And of dBias beyond a length. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/glint.h"

enum { BATCH = 2, HEADS = 2, QUERIES = 5, KEYS = 7, DIM = 32, ROOM = 1 << 20 };

static int failures;

#define EXPECT(condition, ...)                                \
    do {                                                      \
        if (!(condition)) {                                   \
            failures++;                                       \
            printf("calls.c:%d: %s: ", __LINE__, #condition); \
            printf(__VA_ARGS__);                              \
            printf("\n");                                     \
        }                                                     \
    } while (0)

static struct glint_problem problem(void)
{
    struct glint_problem p;
    glint_problem_bhsd(&p, GLINT_F32, BATCH, QUERIES, KEYS, HEADS, HEADS, DIM);
    p.bias_dtype = GLINT_F32;
    p.bias = (struct glint_bias_strides){HEADS * QUERIES * KEYS, QUERIES * KEYS, KEYS, 1};
    p.dbias = 1;
    return p;
}

static void plan_says(const struct glint_context *context, const struct glint_problem *p, enum glint_pass pass,
                      enum glint_status wanted, const char *word)
{
    struct glint_plan plan = {.struct_size = sizeof plan};
    char text[512];
    size_t needed;
    const enum glint_status status = glint_plan(context, p, pass, &plan);
    EXPECT(status == wanted, "%s, and not %s", glint_status_name(status), glint_status_name(wanted));
    EXPECT(glint_explain(context, p, pass, text, sizeof text, &needed) == wanted, "glint_explain is of another mind");
    EXPECT(strstr(text, word) != NULL, "no \"%s\" in: %s", word, text);
}

static void plans(const struct glint_context *context)
{
    struct glint_problem p = problem();
    plan_says(context, &p, GLINT_FORWARD, GLINT_OK, "A bias is added");
    plan_says(context, &p, GLINT_BACKWARD, GLINT_OK, "A bias is added");
    p.bias_dtype = GLINT_BF16;
    plan_says(context, &p, GLINT_FORWARD, GLINT_BAD_BIAS, "bias_dtype is 3");
    p = problem();
    p.alibi = 1;
    plan_says(context, &p, GLINT_FORWARD, GLINT_BAD_BIAS, "alibi is 1");
    p = problem();
    p.dbias = 2;
    plan_says(context, &p, GLINT_FORWARD, GLINT_BAD_BIAS, "dbias is 2");
    p.bias_dtype = 0;
    p.dbias = 1;
    plan_says(context, &p, GLINT_BACKWARD, GLINT_BAD_BIAS, "dbias is 1");
    p = problem();
    p.bias.query = -1;
    plan_says(context, &p, GLINT_FORWARD, GLINT_BAD_STRIDE, "bias.query is -1");
    p.bias.query = INT64_MAX / 2;
    plan_says(context, &p, GLINT_FORWARD, GLINT_SIZE_OVERFLOW, "bias");
    p.bias.query = KEYS - 1; /* neighbours share elements, which an input may */
    plan_says(context, &p, GLINT_FORWARD, GLINT_OK, "A bias is added");
    plan_says(context, &p, GLINT_BACKWARD, GLINT_BAD_STRIDE, "bias.query is 6");
    p.dbias = 0;
    plan_says(context, &p, GLINT_BACKWARD, GLINT_OK, "A bias is added");
    p = problem();
    p.bias = (struct glint_bias_strides){0, 0, 0, 0}; /* one number */
    plan_says(context, &p, GLINT_BACKWARD, GLINT_OK, "A bias is added");
    p.bias = (struct glint_bias_strides){0, 1, HEADS, HEADS * QUERIES}; /* any order of the dimensions */
    plan_says(context, &p, GLINT_BACKWARD, GLINT_OK, "A bias is added");
}

/* A call's memory: a sixteenth for each tensor and for the workspace. */
static _Alignas(256) unsigned char memory[16 * ROOM], before[16 * ROOM];

static void call_says(const struct glint_plan *plan, enum glint_pass pass, const struct glint_tensors *t, enum glint_status wanted,
                      const char *word)
{
    char text[512];
    size_t needed;
    void *const workspace = memory + 15 * ROOM;
    memset(memory, 0, sizeof memory);
    memcpy(before, memory, sizeof memory);
    const enum glint_status status =
        (pass == GLINT_FORWARD ? glint_forward : glint_backward)(plan, t, workspace, plan->workspace_bytes, NULL);
    EXPECT(status == wanted, "%s, and not %s", glint_status_name(status), glint_status_name(wanted));
    EXPECT(wanted == GLINT_OK || memcmp(memory, before, sizeof memory) == 0, "something was written");
    EXPECT(glint_explain_call(plan, pass, t, workspace, plan->workspace_bytes, NULL, text, sizeof text, &needed) == wanted,
           "glint_explain_call is of another mind");
    EXPECT(strstr(text, word) != NULL, "no \"%s\" in: %s", word, text);
}

static void calls(const struct glint_context *context)
{
    struct glint_problem p = problem();
    struct glint_plan plan = {.struct_size = sizeof plan}, forward = plan, without = plan, none = plan;
    EXPECT(glint_plan(context, &p, GLINT_BACKWARD, &plan) == GLINT_OK, "no plan");
    EXPECT(glint_plan(context, &p, GLINT_FORWARD, &forward) == GLINT_OK, "no plan");
    p.dbias = 0;
    EXPECT(glint_plan(context, &p, GLINT_BACKWARD, &without) == GLINT_OK, "no plan");
    p.bias_dtype = 0;
    EXPECT(glint_plan(context, &p, GLINT_BACKWARD, &none) == GLINT_OK, "no plan");
    EXPECT(plan.workspace_bytes <= ROOM, "%zu bytes of workspace", plan.workspace_bytes);
    EXPECT(plan.workspace_bytes > without.workspace_bytes, "no room for dBias");
    if (failures > 0)
        return;
    struct glint_tensors good = GLINT_TENSORS_INIT, t;
    const void **const inputs[] = {&good.q, &good.k, &good.v, &good.dout, &good.bias};
    void **const outputs[] = {&good.o, &good.dq, &good.dk, &good.dv, &good.dbias};
    for (int i = 0; i < 5; i++) {
        *inputs[i] = memory + i * ROOM;
        *outputs[i] = memory + (5 + i) * ROOM;
    }
    good.lse = (float *)(void *)(memory + 10 * ROOM);
    call_says(&plan, GLINT_BACKWARD, &good, GLINT_OK, "would run");
    t = good;
    t.bias = NULL;
    call_says(&plan, GLINT_BACKWARD, &t, GLINT_NULL_TENSOR, "bias");
    call_says(&forward, GLINT_FORWARD, &t, GLINT_NULL_TENSOR, "bias");
    t.bias = memory + 4 * ROOM + 2;
    call_says(&plan, GLINT_BACKWARD, &t, GLINT_TENSOR_MISALIGNED, "bias");
    t.bias = good.dq;
    call_says(&plan, GLINT_BACKWARD, &t, GLINT_TENSOR_OVERLAP, "bias");
    t.bias = good.q;
    call_says(&plan, GLINT_BACKWARD, &t, GLINT_OK, "would run"); /* inputs may share */
    t.bias = memory + 15 * ROOM;
    call_says(&plan, GLINT_BACKWARD, &t, GLINT_TENSOR_OVERLAP, "bias");
    const void *const taken[] = {good.q,  good.k,  good.dout, good.o,    good.lse,
                                 good.dq, good.dk, good.dv,   good.bias, memory + 15 * ROOM};
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        t = good;
        t.dbias = (void *)(uintptr_t)taken[i];
        call_says(&plan, GLINT_BACKWARD, &t, GLINT_TENSOR_OVERLAP, "dbias");
    }
    t = good;
    t.dbias = NULL;
    call_says(&plan, GLINT_BACKWARD, &t, GLINT_NULL_TENSOR, "dbias");
    call_says(&without, GLINT_BACKWARD, &t, GLINT_OK, "would run");
    call_says(&without, GLINT_BACKWARD, &good, GLINT_BAD_BIAS, "dbias");
    call_says(&none, GLINT_BACKWARD, &t, GLINT_BAD_BIAS, "bias");
    t = good;
    t.dbias = t.o; /* forward does not look at it */
    call_says(&forward, GLINT_FORWARD, &t, GLINT_OK, "would run");
}

/* A sequence of 2 queries where there is room for 5, and a NaN among its keys: of dBias the rows beyond the 2 have no
 * pair in it. They are 0, or where sequences share the bias finite. */
static void beyond_a_length(const struct glint_context *context, bool shared)
{
    static const int32_t queries[BATCH] = {2, QUERIES}, keys[BATCH] = {KEYS, KEYS};
    struct glint_problem p = problem();
    p.lengths = GLINT_LENGTHS_DEVICE;
    if (shared)
        p.bias.batch = 0;
    struct glint_plan plan = {.struct_size = sizeof plan};
    EXPECT(glint_plan(context, &p, GLINT_BACKWARD, &plan) == GLINT_OK, "no plan");
    if (plan.workspace_bytes == 0 || plan.workspace_bytes > ROOM)
        return;
    memset(memory, 0, sizeof memory);
    float *tensors[11];
    for (int i = 0; i < 11; i++)
        tensors[i] = (float *)(void *)(memory + i * ROOM);
    for (int head = 0; head < HEADS; head++)
        for (int d = 0; d < DIM; d++)
            tensors[1][(head * KEYS + 3) * DIM + d] = NAN;
    const struct glint_tensors t = {.struct_size = sizeof t,
                                    .q = tensors[0],
                                    .k = tensors[1],
                                    .v = tensors[2],
                                    .dout = tensors[3],
                                    .bias = tensors[4],
                                    .o = tensors[5],
                                    .dq = tensors[6],
                                    .dk = tensors[7],
                                    .dv = tensors[8],
                                    .dbias = tensors[9],
                                    .lse = tensors[10],
                                    .seqlens_q = queries,
                                    .seqlens_k = keys};
    EXPECT(glint_backward(&plan, &t, memory + 15 * ROOM, plan.workspace_bytes, NULL) == GLINT_OK, "it does not run");
    for (int head = 0; head < HEADS; head++)
        for (int i = 2 * KEYS; i < QUERIES * KEYS; i++) {
            const float x = tensors[9][head * QUERIES * KEYS + i];
            EXPECT(shared ? isfinite(x) : x == 0.0f, "dBias of head %d, query %d, key %d is %g", head, i / KEYS, i % KEYS,
                   (double)x);
        }
}

int main(void)
{
    const uint32_t isas[] = {GLINT_ISA_X86_64, GLINT_ISA_X86_64_V3, GLINT_ISA_ANY};
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = GLINT_DEVICE_CPU;
    struct glint_context *context;
    const size_t bytes = (glint_context_size() + 63) / 64 * 64;
    void *const storage = aligned_alloc(64, bytes);
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++) {
        options.max_isa = isas[i];
        if (storage == NULL || glint_context_init(storage, bytes, &options, &context) != GLINT_OK)
            return 1;
        beyond_a_length(context, false);
        beyond_a_length(context, true);
    }
    plans(context);
    calls(context);
    free(storage);
    printf("%d failures\n", failures);
    return failures > 0;
}
