/* What is said of a plan: of any row, any accepted problem and any words that a backend left in the plan. Comparison of
 * rows, and what each family adds, are among it. */
#include "any.h"
#include "lib/explain.c"

static char buffer[4096];
static struct glint_context context;
static struct glint_plan plan;

int main(void)
{
    any_context(&context);
    accepted_problem(&plan.problem);
    plan.struct_size = sizeof plan;
    plan.context = &context;
    plan.pass = word(GLINT_FORWARD, GLINT_BACKWARD);
    plan.workspace_bytes = (size_t)from(0, INT64_MAX);
    for (int i = 0; i < 32; i++)
        plan.internal[i] = (uint64_t)from(INT64_MIN, INT64_MAX);
    plan.variant = word(0, glint_variants_count - 1);
    struct glint_text text = start(buffer, (size_t)from(0, sizeof buffer), GLINT_OK);
    put_choice(&text, &context, &plan);
    finish(&text, GLINT_OK, NULL);
    return 0;
}
