/* What glint_selftest is for: it fails for a kernel that is wrong, whatever is wrong. Calls of the library by the self
 * test come through here (--wrap): the kernel then has been told another problem, or an output is damaged by a known
 * amount. The table is one row at a time, of each kind that the linked table has. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/check.h"
#include "lib/half.h"
#include "lib/takes.h"
#include "lib/variant.h"
#include "tests/contract/suite.h"
#include "tests/contract/world.h"

extern const struct glint_variant genuine_variants[];
extern const uint32_t genuine_variants_count;

/* The library sees these as the constant table that lib/variant.h declares. */
struct glint_variant table[1] __asm__("glint_variants");
uint32_t table_count __asm__("glint_variants_count") = 1;

/* ---- calls that go wrong ---------------------------------------------------------------------------------------- */

typedef enum glint_status call_fn(const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace,
                                  size_t workspace_bytes, void *stream);
call_fn __real_glint_forward, __real_glint_backward, __wrap_glint_forward, __wrap_glint_backward;

enum damage { NOTHING, ZEROS, INFINITE, UNWRITTEN, OFF };

static struct {
    enum damage damage;
    int output;                            /* of outputs_of() */
    int64_t at;                            /* UNWRITTEN: the element */
    double by;                             /* OFF: the largest element times 1 + by */
    void (*told)(struct glint_problem *p); /* what the kernel is told in place of the problem */
    float sinks_by;                        /* added to every sink */
    int32_t begin_by, end_by;              /* added to both ends of every interval */
    bool tree;                             /* of every query the first bit of its tree is the other */
    enum glint_status status;              /* answered in place of running */
    unsigned calls;
} wrong;

struct output {
    void *memory;
    int64_t count;
    uint32_t dtype;
    bool summed; /* of both signs: its tolerance is of the terms */
};

/* The outputs of a call: O and LSE, or dQ, dK, dV and dsinks. Answers how many there are. */
static int outputs_of(const struct glint_problem *p, uint32_t pass, const struct glint_tensors *t, struct output output[4])
{
    const int64_t queries = p->heads_q * p->seqlen_q, keys = p->heads_kv * p->seqlen_k;
    int n = 0;
    if (pass == GLINT_FORWARD) {
        output[n++] = (struct output){t->o, queries * p->head_dim, p->dtype, false};
        output[n++] = (struct output){t->lse, queries, GLINT_F32, false};
        return n;
    }
    output[n++] = (struct output){t->dq, queries * p->head_dim, p->dtype, false};
    output[n++] = (struct output){t->dk, keys * p->head_dim, p->dtype, false};
    output[n++] = (struct output){t->dv, keys * p->head_dim, p->dtype, false};
    if (p->sinks != 0)
        output[n++] = (struct output){t->dsinks, p->heads_q, GLINT_F32, true};
    return n;
}

static float number_at(const struct output *o, int64_t i)
{
    return o->dtype == GLINT_F32   ? ((const float *)o->memory)[i]
           : o->dtype == GLINT_F16 ? glint_float_of_f16(((const uint16_t *)o->memory)[i])
                                   : glint_float_of_bf16(((const uint16_t *)o->memory)[i]);
}

static void put_number(const struct output *o, int64_t i, float x)
{
    if (o->dtype == GLINT_F32)
        ((float *)o->memory)[i] = x;
    else if (o->dtype == GLINT_F16)
        ((uint16_t *)o->memory)[i] = isinf(x) ? 0x7c00 : glint_f16_of(x);
    else
        ((uint16_t *)o->memory)[i] = isinf(x) ? 0x7f80 : glint_bf16_of(x);
}

static void damage(const struct output *o)
{
    int64_t largest = -1;
    for (int64_t i = 0; i < o->count; i++) {
        if (wrong.damage == ZEROS || wrong.damage == INFINITE)
            put_number(o, i, wrong.damage == ZEROS ? 0.0f : INFINITY);
        const float x = fabsf(number_at(o, i));
        if (isfinite(x) && (largest < 0 || x > fabsf(number_at(o, largest))))
            largest = i;
    }
    if (wrong.damage == OFF)
        put_number(o, largest, (float)((double)number_at(o, largest) * (1 + wrong.by)));
}

static enum glint_status call(call_fn *real, const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace,
                              size_t workspace_bytes, void *stream)
{
    struct output output[4];
    struct glint_plan told = *plan;
    unsigned char before[sizeof(float)] = {0};
    wrong.calls++;
    if (wrong.status != GLINT_OK)
        return wrong.status;
    outputs_of(&plan->problem, plan->pass, tensors, output);
    const struct output *const o = &output[wrong.output];
    const int64_t element = element_bytes(o->dtype);
    if (wrong.damage == UNWRITTEN)
        memcpy(before, (char *)o->memory + wrong.at * element, (size_t)element);
    if (wrong.told != NULL) {
        wrong.told(&told.problem);
        told.internal[GLINT_PLAN_SUM_WORD] = glint_plan_sum(&told);
    }
    for (int64_t h = 0; h < plan->problem.heads_q && plan->problem.sinks != 0; h++)
        ((float *)(uintptr_t)tensors->sinks)[h] += wrong.sinks_by;
    for (int64_t i = 0; i < plan->problem.seqlen_q && plan->problem.intervals != 0; i++) {
        ((int32_t *)(uintptr_t)tensors->key_begin)[i] += wrong.begin_by;
        ((int32_t *)(uintptr_t)tensors->key_end)[i] += wrong.end_by;
    }
    const int64_t words = (plan->problem.seqlen_q + 31) / 32;
    for (int64_t i = 0; i < plan->problem.seqlen_q && plan->problem.tree != 0 && wrong.tree; i++)
        ((uint32_t *)(uintptr_t)tensors->tree_bits)[i * words] ^= 1;
    const enum glint_status status = real(&told, tensors, workspace, workspace_bytes, stream);
    EXPECT(status == GLINT_OK, "%s", glint_status_name(status));
    if (wrong.damage == UNWRITTEN)
        memcpy((char *)o->memory + wrong.at * element, before, (size_t)element);
    else if (wrong.damage != NOTHING)
        damage(o);
    return status;
}

enum glint_status __wrap_glint_forward(const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace,
                                       size_t workspace_bytes, void *stream)
{
    return call(__real_glint_forward, plan, tensors, workspace, workspace_bytes, stream);
}

enum glint_status __wrap_glint_backward(const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace,
                                        size_t workspace_bytes, void *stream)
{
    return call(__real_glint_backward, plan, tensors, workspace, workspace_bytes, stream);
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

/* The context with the first row of each kind that this machine runs, one at a time: *row counts them. */
struct bench {
    struct glint_context *context;
    void *storage, *memory;
    size_t bytes;
    struct glint_selftest_result result;
};

static bool same_kind(const struct glint_variant *a, const struct glint_variant *b)
{
    return a->pass == b->pass && a->dtype == b->dtype && a->kv_dtype == b->kv_dtype && a->features == b->features &&
           a->takes == b->takes && a->math == b->math && (a->queries_up_to > 0) == (b->queries_up_to > 0);
}

static bool next_row(struct bench *b, uint32_t *row)
{
    static uint32_t taken[64];
    static size_t count;
    count = *row == 0 ? 0 : count;
    for (; *row < genuine_variants_count; ++*row) {
        const struct glint_variant *const v = &genuine_variants[*row];
        bool seen = v->isa == GLINT_ISA_ANY;
        for (size_t i = 0; i < count && !seen; i++)
            seen = same_kind(&genuine_variants[taken[i]], v);
        if (seen)
            continue;
        table[0] = *v;
        memset(&wrong, 0, sizeof wrong);
        b->context = open_serial(&b->storage);
        if (glint_variant_available(b->context, 0) == GLINT_OK) {
            EXPECT(glint_selftest_size(b->context, &b->bytes) == GLINT_OK && b->bytes > 0 && count < 64, "%s", v->name);
            b->memory = aligned_memory(GLINT_WORKSPACE_ALIGNMENT, b->bytes);
            taken[count++] = (*row)++;
            return true;
        }
        free(b->storage);
    }
    return false;
}

static void done(struct bench *b)
{
    free(b->memory);
    free(b->storage);
}

static enum glint_status run(struct bench *b)
{
    b->result = (struct glint_selftest_result)GLINT_SELFTEST_RESULT_INIT;
    wrong.calls = 0;
    const enum glint_status status = glint_selftest(b->context, b->memory, b->bytes, NULL, &b->result);
    EXPECT(wrong.calls == 1, "%s: %u calls", table[0].name, wrong.calls);
    return status;
}

static void expect_right(struct bench *b)
{
    memset(&wrong, 0, sizeof wrong);
    EXPECT(run(b) == GLINT_OK && b->result.worst_error <= 1, "%s: error %g", table[0].name, (double)b->result.worst_error);
}

static void expect_found(struct bench *b, const char *what)
{
    const enum glint_status status = run(b);
    EXPECT(status == GLINT_SELFTEST_FAILED && b->result.variants_failed == 1 && b->result.first_failed == 0 &&
               !(b->result.worst_error <= 1),
           "%s: %s, output %d, element %lld: %s, error %g", table[0].name, what, wrong.output, (long long)wrong.at,
           glint_status_name(status), (double)b->result.worst_error);
}

/* The outputs of the row's own test. */
static int outputs(struct output output[4])
{
    const struct glint_variant *const v = &table[0];
    struct glint_problem p;
    /* as glint_selftest has it: two query heads of one key head, a few rows beyond a tile */
    glint_problem_bshd(&p, (enum glint_dtype)v->dtype, 1, v->tile_m + 3 < 131 ? v->tile_m + 3 : 131, v->tile_n + 5, 2, 1,
                       v->head_dim);
    p.sinks = (v->takes & GLINT_TAKES_SINKS) != 0;
    return outputs_of(&p, v->pass, &(struct glint_tensors){0}, output);
}

/* ---- damaged outputs -------------------------------------------------------------------------------------------- */

static void damaged_outputs(void)
{
    static const char *const names[] = {"nothing", "zeros", "infinities", "an element that is not written", "an element off"};
    struct bench b;
    unsigned rows = 0, damages = 0;
    for (uint32_t row = 0; next_row(&b, &row); rows++) {
        struct output output[4];
        const int count = outputs(output);
        expect_right(&b); /* leaves right answers in the memory: what is not written must not look right */
        for (int o = 0; o < count; o++) {
            wrong.output = o;
            for (wrong.damage = ZEROS; wrong.damage <= INFINITE; wrong.damage++, damages++)
                expect_found(&b, names[wrong.damage]);
            const int64_t last = output[o].count - 1, at[] = {0, last / 3, last / 2, last};
            wrong.damage = UNWRITTEN;
            for (int i = 0; i < 4; i++, damages++) {
                expect_right(&b);
                wrong.damage = UNWRITTEN, wrong.output = o, wrong.at = at[i];
                expect_found(&b, names[UNWRITTEN]);
            }
        }
        done(&b);
    }
    EXPECT(rows > 0, "no row");
    contract_note("%u kinds of rows, %u damages", rows, damages);
}

/* The tolerance is what lib/selftest.c says: 8 half ulps forward (16 of products of bf16) and 32 backward, of the
 * largest element. An element off by 100 of them is reported as 100, give or take the kernel's own error. */
static void reported_error(void)
{
    struct bench b;
    for (uint32_t row = 0; next_row(&b, &row);) {
        struct output output[4];
        const struct glint_variant *const v = &table[0];
        const int count = outputs(output);
        const double half_ulp = v->dtype == GLINT_BF16 ? 0x1p-9 : v->dtype == GLINT_F16 ? 0x1p-12 : 0x1p-20;
        const double tolerance = (v->pass == GLINT_BACKWARD ? 32 : v->math == GLINT_MATH_BF16 ? 16 : 8) * half_ulp;
        for (int o = 0; o < count; o++)
            for (int sign = -1; sign <= 1; sign += 2) {
                wrong.damage = OFF, wrong.output = o, wrong.by = sign * 100 * tolerance;
                if (output[o].summed) {
                    wrong.by = sign;
                    expect_found(&b, "a sink's gradient that is doubled or 0");
                    continue;
                }
                expect_found(&b, "an element off by 100 tolerances");
                EXPECT(fabs((double)b.result.worst_error - 100) <= 2.5, "%s, output %d: reported as %g tolerances", v->name, o,
                       (double)b.result.worst_error);
                wrong.by = sign * 0.5 * tolerance;
                EXPECT(b.result.worst_error > 1 && (run(&b) == GLINT_OK || b.result.worst_error < 1.5),
                       "%s, output %d: half a tolerance is reported as %g", v->name, o, (double)b.result.worst_error);
            }
        done(&b);
    }
}

/* ---- kernels of another problem --------------------------------------------------------------------------------- */

static void left_wider(struct glint_problem *p)
{
    p->window_left++;
}

static void left_narrower(struct glint_problem *p)
{
    p->window_left = p->window_left < 3 ? p->window_left - 1 : p->window_left - 3;
}

static void left_short(struct glint_problem *p)
{
    p->window_left = p->window_left < 2 ? p->window_left : 2;
}

static void right_wider(struct glint_problem *p)
{
    p->window_right++;
}

static void right_narrower(struct glint_problem *p)
{
    p->window_right = 0;
}

static void top_left(struct glint_problem *p)
{
    p->mask = p->mask == GLINT_MASK_CAUSAL_BOTTOM_RIGHT ? GLINT_MASK_CAUSAL_TOP_LEFT : GLINT_MASK_BAND_TOP_LEFT;
}

static void another_scale(struct glint_problem *p)
{
    p->softmax_scale *= 1.25f;
}

static void another_cap(struct glint_problem *p)
{
    p->softcap *= 1.25f;
}

static void other_problems(void)
{
    static const struct {
        const char *name;
        void (*told)(struct glint_problem *p);
        uint16_t feature;
    } lies[] = {
        {"another softmax_scale", another_scale, 0},
        {"a window a key wider on the left", left_wider, GLINT_FEATURE_LEFT_BOUND},
        {"a window narrower on the left", left_narrower, GLINT_FEATURE_LEFT_BOUND},
        {"a window of two keys on the left", left_short, GLINT_FEATURE_LEFT_BOUND},
        {"a window a key wider on the right", right_wider, GLINT_FEATURE_LEFT_BOUND},
        {"a window without its right side", right_narrower, GLINT_FEATURE_LEFT_BOUND},
        {"the other alignment", top_left, GLINT_FEATURE_RIGHT_BOUND},
        {"another softcap", another_cap, GLINT_FEATURE_SOFTCAP},
    };
    struct bench b;
    unsigned found = 0;
    for (uint32_t row = 0; next_row(&b, &row);) {
        for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
            if ((table[0].features & lies[i].feature) != lies[i].feature)
                continue;
            if ((table[0].features & GLINT_FEATURE_TREE) != 0 && (lies[i].told == right_wider || lies[i].told == right_narrower))
                continue; /* on its path a query is the last */
            wrong.told = lies[i].told;
            expect_found(&b, lies[i].name);
            found++;
        }
        expect_right(&b);
        if ((table[0].takes & GLINT_TAKES_SINKS) != 0) {
            wrong.sinks_by = 2.0f;
            expect_found(&b, "other sinks");
            wrong.sinks_by = 0;
        }
        for (int by = -1; by <= 1 && (table[0].features & GLINT_FEATURE_INTERVALS) != 0; by += 2) {
            wrong.begin_by = by;
            expect_found(&b, "intervals that begin elsewhere");
            wrong.begin_by = 0, wrong.end_by = by;
            expect_found(&b, "intervals that end elsewhere");
            wrong.end_by = 0;
        }
        wrong.tree = (table[0].features & GLINT_FEATURE_TREE) != 0;
        if (wrong.tree)
            expect_found(&b, "another tree");
        wrong.tree = false;
        done(&b);
    }
    contract_note("%u lies", found);
}

/* What the call answers in place of running is the self test's answer, and nothing is said of rows. */
static void failed_calls(void)
{
    static const enum glint_status statuses[] = {GLINT_DRIVER_ERROR, GLINT_DEVICE_LOST, GLINT_BAD_PLAN};
    struct bench b;
    for (uint32_t row = 0; next_row(&b, &row);) {
        for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
            wrong.status = statuses[i];
            const enum glint_status status = run(&b);
            EXPECT(status == statuses[i] && b.result.variants_run == 0, "%s for %s, %u rows run", glint_status_name(status),
                   glint_status_name(statuses[i]), b.result.variants_run);
        }
        done(&b);
    }
}

static const struct contract_case cases[] = {
    {"damaged_outputs", damaged_outputs, 240},
    {"reported_error", reported_error, 120},
    {"other_problems", other_problems, 120},
    {"failed_calls", failed_calls, 0},
};
CONTRACT_MAIN("selftest_wrong", cases)
