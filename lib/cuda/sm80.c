/* The sm80 family: kernels that find their tensors by address, for every GPU since Ampere. */
#include "lib/cuda/cuda.h"
#include "lib/text.h"

static enum glint_status fits(const struct glint_variant *row, const struct glint_problem *problem,
                              const struct glint_context *context, struct glint_fault *fault)
{
    (void)context;
    return glint_strides_fit(row, problem, fault);
}

/* Of query heads that share a key head, when several blocks do: it is why the workspace is larger. */
static void explain(const struct glint_plan *plan, struct glint_text *text)
{
    const int32_t parts = glint_cuda_plan_of(plan).backward.parts;
    if (parts < 2)
        return;
    glint_text_str(text, "\nThe ");
    glint_text_int(text, plan->problem.heads_q / plan->problem.heads_kv);
    glint_text_str(text, " query heads of a key head are shared by ");
    glint_text_int(text, parts);
    glint_text_str(text, " blocks, which add to dK and dV in turn: float32 sums of both are in the workspace.");
}

const struct glint_family glint_family_sm80 = {
    .name = "sm80",
    .rank = 80,
    .backend = &glint_cuda_backend,
    .fits = fits,
    .fill_params = glint_cuda_fill_params,
    .explain = explain,
};
