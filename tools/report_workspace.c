/* Prints "variant bytes" for each row of the table: its workspace for the problem of the report, on one thread. */
#include <stdio.h>

#include "lib/backend.h"

int main(void)
{
    for (uint32_t i = 0; i < glint_variants_count; i++) {
        const struct glint_variant *variant = &glint_variants[i];
        struct glint_problem problem;
        glint_problem_bshd(&problem, (enum glint_dtype)variant->dtype, 1, 2048, 2048, 8, 8, variant->head_dim);
        problem.mask = glint_mask_of(variant);
        struct glint_family_plan plan = {0};
        if (!glint_family_of(variant)->backend->plan(variant, &problem, 1, &plan)) {
            fprintf(stderr, "%s: the family cannot plan the report's problem\n", variant->name);
            return 1;
        }
        printf("%s %zu\n", variant->name, plan.workspace_bytes);
    }
    return ferror(stdout) || fclose(stdout) ? 1 : 0;
}
