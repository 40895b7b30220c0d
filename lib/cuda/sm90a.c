/* The sm90a family: kernels for Hopper alone, which find their tensors by maps. */
#include "lib/check.h"
#include "lib/cuda/cuda.h"
#include "lib/text.h"

static enum glint_status fits(const struct glint_variant *row, const struct glint_problem *problem,
                              const struct glint_context *context, struct glint_fault *fault)
{
    (void)context;
    enum glint_status status = glint_cuda_softcap_fits(problem, fault);
    if (status == GLINT_OK)
        status = glint_strides_fit(row, problem, fault);
    return status == GLINT_OK ? glint_cuda_maps_fit(row, problem, fault) : status;
}

/* How the backward pass is shared out, and in which order a step sums its keys up. */
static void explain(const struct glint_plan *plan, struct glint_text *text)
{
    const struct glint_gpu_kernel *kernel = glint_gpu_kernel_of(&glint_variants[plan->variant]);
    if (kernel->strategy == GLINT_GPU_STEP)
        glint_step_explain(plan, text);
    glint_cuda_explain_order(plan, text);
}

const struct glint_family glint_family_sm90a = {
    .name = "sm90a",
    .rank = 90,
    .backend = &glint_cuda_backend,
    .fits = fits,
    .explain = explain,
};
