#include "bench/policies.h"

#include <stdio.h>
#include <string.h>

#include "lib/backend.h"
#include "lib/check.h"
#include "lib/context.h"
#include "lib/cuda/cuda.h"

/* Plans the cell again with these numbers; 0, or -1 where its backend has no such rules. */
static int tune(struct cell *cell, const struct glint_gpu_tuning *tuning)
{
    const struct glint_variant *row = &glint_variants[cell->plan.variant];
    struct glint_family_plan family = {0};

    if (!glint_family_of(row)->backend->plan_tuned ||
        !glint_family_of(row)->backend->plan_tuned(row, &cell->plan.problem, glint_context_concurrency(cell->machine->context),
                                                   tuning, &family))
        return -1;
    cell->plan.workspace_bytes = family.workspace_bytes;
    memcpy(cell->plan.internal, family.word, sizeof family.word);
    cell->plan.internal[GLINT_PLAN_SUM_WORD] = glint_plan_sum(&cell->plan);
    return 0;
}

/* Which numbers a plan has. */
struct numbers {
    int32_t part_heads, parts, section, range, range_parts;
};

static struct numbers numbers_of(const struct cell *cell)
{
    const struct glint_cuda_plan own = glint_cuda_plan_of(&cell->plan);
    const uint32_t strategy = glint_gpu_kernel_of(&glint_variants[cell->plan.variant])->strategy;

    if (strategy == GLINT_GPU_DECODE)
        return (struct numbers){.range = own.decode.range, .range_parts = own.decode.parts};
    if (strategy == GLINT_GPU_STEP)
        return (struct numbers){0};
    if (cell->pass == GLINT_BACKWARD)
        return (struct numbers){.part_heads = own.backward.part_heads, .parts = own.backward.parts, .section = own.shape.section};
    return (struct numbers){.section = own.shape.section};
}

static void say(struct cell *cell)
{
    const struct numbers n = numbers_of(cell);

    if (n.range > 0)
        snprintf(cell->policy, sizeof cell->policy, "%d x %d steps", (int)n.range_parts, (int)n.range);
    else if (n.parts > 0)
        snprintf(cell->policy, sizeof cell->policy, "%d parts section %d", (int)n.parts, (int)n.section);
    else
        snprintf(cell->policy, sizeof cell->policy, "section %d", (int)n.section);
}

/* One cell more, unless its plan has the numbers of the ruled one or of one before it. */
static size_t add(const struct cell *ruled, const struct glint_gpu_tuning *tuning, struct cell *others, size_t count, size_t most)
{
    struct cell cell = *ruled;

    if (count == most || tune(&cell, tuning) != 0)
        return count;
    say(&cell);
    cell.tuned = 1;
    int known = strcmp(cell.policy, ruled->policy) == 0;
    for (size_t i = 0; i < count; i++)
        known |= strcmp(cell.policy, others[i].policy) == 0;
    if (!known)
        others[count++] = cell;
    return count;
}

size_t policies_of(struct cell *cell, struct cell *others, size_t most)
{
    if (!cell->machine->device)
        return 0;
    struct numbers ruled = numbers_of(cell);
    const int32_t group = (int32_t)(cell->heads_q / cell->heads_kv);
    const int64_t heads_q = cell->batch * cell->heads_q;
    size_t count = 0;

    say(cell);
    if (ruled.section > heads_q) /* forward: more are all */
        ruled.section = (int32_t)heads_q;
    /* A part's heads are halved from all to one, each with the rule's own section; then other sections, and other
     * items, with the rule's parts. */
    for (int32_t heads = group; ruled.parts > 0 && heads > 0; heads = heads > 1 ? (heads + 1) / 2 : 0) {
        struct glint_gpu_tuning tuning = {.part_heads = heads};
        count = add(cell, &tuning, others, count, most);
    }
    for (int32_t by = 1; by <= 4; by++) {
        static const int32_t times[] = {0, 1, 2, 8, 16}; /* quarters of the rule's */
        struct glint_gpu_tuning tuning = {
            .part_heads = ruled.part_heads, .section = ruled.section * times[by] / 4, .range = ruled.range * times[by] / 4};
        if ((tuning.section > 0 && tuning.section <= heads_q) || tuning.range > 0)
            count = add(cell, &tuning, others, count, most);
    }
    return count;
}
