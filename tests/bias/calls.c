/* The rules of glint.h about a bias and its gradient in a plan and in a call: each argument wrong by itself is refused
 * with its status and a sentence that names it, and nothing is written. */
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

int main(void)
{
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = GLINT_DEVICE_CPU;
    struct glint_context *context;
    const size_t bytes = (glint_context_size() + 63) / 64 * 64;
    void *const storage = aligned_alloc(64, bytes);
    if (storage == NULL || glint_context_init(storage, bytes, &options, &context) != GLINT_OK)
        return 1;
    plans(context);
    calls(context);
    free(storage);
    printf("%d failures\n", failures);
    return failures > 0;
}
