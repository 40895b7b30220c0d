/* The sm80 family: kernels that find their tensors by address, for every GPU since Ampere. */
#include "lib/check.h"
#include "lib/cuda/cuda.h"
#include "lib/text.h"

static enum glint_status fits(const struct glint_variant *row, const struct glint_problem *problem,
                              const struct glint_context *context, struct glint_fault *fault)
{
    (void)context;
    const enum glint_status status = glint_cuda_softcap_fits(problem, fault);
    return status == GLINT_OK ? glint_strides_fit(row, problem, fault) : status;
}

/* Into how many parts blocks share the keys, and what the workspace is for. */
static void explain_decode(const struct glint_decode_layout *layout, struct glint_text *text)
{
    if (layout->parts < 2)
        return;
    glint_text_str(text, "\nThe keys are shared by ");
    glint_text_int(text, layout->parts);
    glint_text_str(text, " blocks, whose results, float32 in the workspace, a second kernel folds.");
}

static void explain(const struct glint_plan *plan, struct glint_text *text)
{
    const struct glint_cuda_plan own = glint_cuda_plan_of(plan);
    const struct glint_gpu_kernel *kernel = glint_gpu_kernel_of(&glint_variants[plan->variant]);
    if (kernel->strategy == GLINT_GPU_DECODE) {
        explain_decode(&own.decode, text);
        return;
    }
    if (kernel->strategy == GLINT_GPU_STEP)
        glint_step_explain(plan, text);
    glint_cuda_explain_order(plan, text);
}

const struct glint_family glint_family_sm80 = {
    .name = "sm80",
    .rank = 80,
    .backend = &glint_cuda_backend,
    .fits = fits,
    .explain = explain,
};
