/* Planning: check the problem, choose the row (lib/choose.c), let the row's backend lay out its workspace. A pure
 * function. */
#include <string.h>

#include "lib/backend.h"
#include "lib/check.h"

/* Mixes 64-bit words (the multiplier is that of splitmix64's first step); enough to notice a plan that was edited or
 * made up. */
uint64_t glint_plan_sum(const struct glint_plan *plan)
{
    struct glint_plan copy = *plan;
    copy.internal[GLINT_PLAN_SUM_WORD] = 0;
    uint64_t word, sum = 0;
    for (size_t i = 0; i + sizeof word <= sizeof copy; i += sizeof word) {
        memcpy(&word, (const char *)&copy + i, sizeof word);
        sum = (sum ^ word) * UINT64_C(0xbf58476d1ce4e5b9);
        sum ^= sum >> 29;
    }
    return sum;
}

_Static_assert(sizeof(struct glint_plan) % sizeof(uint64_t) == 0, "glint_plan_sum reads whole words");
_Static_assert(GLINT_FAMILY_WORDS <= (int)GLINT_PLAN_CONTEXT_WORD, "the backend's words come first");

/* The row's backend lays out workspace and launches; false: a count does not fit. */
static bool lay_out(const struct glint_backend *backend, const struct glint_variant *row, const struct glint_problem *problem,
                    uint32_t concurrency, struct glint_family_plan *family)
{
    return backend->plan(row, problem, concurrency, family);
}

enum glint_status glint_plan_checked(const struct glint_context *context, const struct glint_problem *problem, enum glint_pass pass,
                                     uint32_t only, struct glint_plan *plan, struct glint_fault *fault)
{
    uint32_t row;
    const enum glint_status status = glint_choose_row(context, problem, pass, only, &row, fault);
    if (status != GLINT_OK)
        return status;
    const struct glint_variant *v = &glint_variants[row];
    struct glint_family_plan family = {0};
    if (!lay_out(glint_family_of(v)->backend, v, problem, glint_context_concurrency(context), &family))
        return glint_refuse(fault, GLINT_REASON_SIZE, "workspace", NULL, 0, INT64_MAX);
    memset(plan, 0, sizeof *plan);
    plan->struct_size = sizeof *plan;
    plan->pass = (uint32_t)pass;
    plan->variant = row;
    plan->workspace_bytes = family.workspace_bytes;
    plan->context = context;
    plan->problem = *problem;
    memcpy(plan->internal, family.word, sizeof family.word);
    plan->internal[GLINT_PLAN_CONTEXT_WORD] = context->fingerprint;
    plan->internal[GLINT_PLAN_SUM_WORD] = glint_plan_sum(plan);
    return GLINT_OK;
}

static enum glint_status plan_row(const struct glint_context *context, const struct glint_problem *problem, enum glint_pass pass,
                                  uint32_t only, struct glint_plan *plan)
{
    struct glint_fault fault;
    if (!context || !problem || !plan)
        return GLINT_NULL_ARGUMENT;
    if (context->magic != GLINT_CONTEXT_OPEN)
        return GLINT_CONTEXT_CLOSED;
    enum glint_status status = glint_check_problem(problem, pass, &fault);
    return status != GLINT_OK ? status : glint_plan_checked(context, problem, pass, only, plan, &fault);
}

enum glint_status glint_plan(const struct glint_context *context, const struct glint_problem *problem, enum glint_pass pass,
                             struct glint_plan *plan)
{
    return plan_row(context, problem, pass, UINT32_MAX, plan);
}

enum glint_status glint_plan_variant(const struct glint_context *context, const struct glint_problem *problem, enum glint_pass pass,
                                     uint32_t index, struct glint_plan *plan)
{
    if (context && problem && plan && context->magic == GLINT_CONTEXT_OPEN && index >= glint_variants_count)
        return GLINT_BAD_INDEX;
    return plan_row(context, problem, pass, index, plan);
}
