/* Planning: check the problem, choose the row, let the row's family lay out its workspace. A pure function.
 *
 * The rule of choice. Of the rows with the problem's pass, dtype, head_dim and mask that the device can run:
 *   1. the highest family, and within the CPU family the highest instruction set;
 *   2. then the lowest enum glint_math: one tf32 product before three. What a product is worth is the table's doing, not the lengths';
 *   3. then a row meant for lengths up to a bound that holds the shorter one, the least bound first; then rows without a bound;
 *   4. then, on a GPU, the row made for the newest architectures only;
 *   5. then the tile that computes least beyond the problem: the smallest ceil(seqlen_q / tile_m) tile_m * ceil(seqlen_k / tile_n) tile_n;
 *   6. then the largest tile_m * tile_n, which reads K and V least often;
 *   7. then the first by name.
 * It depends on lengths only, never on batch or heads, so that a sequence's result does not depend on what it is batched with. */
#include <string.h>

#include "lib/backend.h"
#include "lib/check.h"

static uint64_t key_of(uint32_t pass, uint32_t dtype, int64_t head_dim, uint32_t causal)
{
    return (uint64_t)head_dim << 24 | (uint64_t)pass << 16 | (uint64_t)dtype << 8 | causal;
}

static uint64_t key_of_row(const struct glint_variant *v)
{
    return key_of(v->pass, v->dtype, v->head_dim, v->causal);
}

static uint32_t is_causal(const struct glint_problem *p)
{
    return p->mask != GLINT_MASK_NONE;
}

static double padded_work(const struct glint_variant *v, const struct glint_problem *p)
{
    const int64_t m = (p->seqlen_q + v->tile_m - 1) / v->tile_m * v->tile_m;
    const int64_t n = (p->seqlen_k + v->tile_n - 1) / v->tile_n * v->tile_n;
    return (double)m * (double)n;
}

/* Of rows that are meant for lengths up to a bound, the narrowest that holds the problem comes first, and those that it exceeds last. The
 * shorter length counts: few queries or few keys are what such rows are for. */
static uint64_t reach(const struct glint_variant *v, const struct glint_problem *p)
{
    const int64_t shorter = p->seqlen_q < p->seqlen_k ? p->seqlen_q : p->seqlen_k;
    if (v->up_to == 0)
        return UINT32_MAX;
    return shorter <= (int64_t)v->up_to ? v->up_to : UINT64_MAX - v->up_to;
}

/* Whether row a is to be taken before row b, which comes earlier by name. */
static bool better(const struct glint_variant *a, const struct glint_variant *b, const struct glint_problem *p)
{
    if (a->family->rank != b->family->rank)
        return a->family->rank > b->family->rank;
    if (a->isa != b->isa)
        return a->isa > b->isa;
    if (a->math != b->math)
        return a->math < b->math;
    const uint64_t reach_a = reach(a, p), reach_b = reach(b, p);
    if (reach_a != reach_b)
        return reach_a < reach_b;
    if (a->sm != b->sm)
        return a->sm > b->sm;
    const double work_a = padded_work(a, p), work_b = padded_work(b, p);
    if (work_a != work_b)
        return work_a < work_b;
    return a->tile_m * a->tile_n > b->tile_m * b->tile_n;
}

/* For the explanation of a refusal: the row of this pass that differs in the fewest fields, then in the least head_dim. */
static uint32_t nearest(const struct glint_problem *p, enum glint_pass pass)
{
    uint32_t found = UINT32_MAX;
    int64_t least = INT64_MAX;
    for (uint32_t i = 0; i < glint_variants_count; i++) {
        const struct glint_variant *v = &glint_variants[i];
        const int64_t gap = v->head_dim > p->head_dim ? v->head_dim - p->head_dim : p->head_dim - v->head_dim;
        const int64_t distance =
            gap + ((v->pass != pass) + (v->dtype != p->dtype) + (v->causal != is_causal(p)) + (gap != 0)) * (INT64_C(1) << 32);
        if (distance < least) {
            least = distance;
            found = i;
        }
    }
    return found;
}

static enum glint_status choose_row(const struct glint_context *context, const struct glint_problem *p, enum glint_pass pass,
                                    uint32_t only, uint32_t *row, struct glint_fault *fault)
{
    const uint64_t key = key_of((uint32_t)pass, p->dtype, p->head_dim, is_causal(p));
    bool exists = false;
    *row = UINT32_MAX;
    for (uint32_t i = 0; i < glint_variants_count; i++) {
        const struct glint_variant *v = &glint_variants[i];
        if (key_of_row(v) != key || (only != UINT32_MAX && i != only))
            continue;
        exists = true;
        if (glint_variant_available(context, i) == GLINT_OK && (*row == UINT32_MAX || better(v, &glint_variants[*row], p)))
            *row = i;
    }
    if (*row != UINT32_MAX)
        return GLINT_OK;
    *fault = (struct glint_fault){"head_dim", NULL, p->head_dim, 0, nearest(p, pass)};
    return exists ? GLINT_NOT_ON_DEVICE : GLINT_NOT_IN_SPEC;
}

/* Mixes 64-bit words (the multiplier is that of splitmix64's first step); enough to notice a plan that was edited or made up. */
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

enum glint_status glint_choose(const struct glint_context *context, const struct glint_problem *problem, enum glint_pass pass,
                               uint32_t only, struct glint_plan *plan, struct glint_fault *fault)
{
    uint32_t row;
    enum glint_status status = choose_row(context, problem, pass, only, &row, fault);
    if (status != GLINT_OK)
        return status;
    const struct glint_variant *v = &glint_variants[row];
    status = v->family->fits(v, problem, context, fault);
    fault->variant = row;
    if (status != GLINT_OK)
        return status;

    struct glint_family_plan family = {0};
    if (!v->family->backend->plan(v, problem, glint_context_concurrency(context), &family)) {
        *fault = (struct glint_fault){"workspace", NULL, 0, INT64_MAX, row};
        return GLINT_SIZE_OVERFLOW;
    }
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
    return status != GLINT_OK ? status : glint_choose(context, problem, pass, only, plan, &fault);
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
