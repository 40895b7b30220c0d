/* The sm90a family: kernels for Hopper alone, which find their tensors by maps. */
#include "lib/check.h"
#include "lib/cuda/cuda.h"

static bool reads_lengths(const struct glint_variant *row)
{
    const struct glint_gpu_kernel *kernel = row->kernel;
    return kernel->launch_count > 1 && kernel->launch[1].lengths != 0;
}

/* The first kernels of other rows were measured without sinks, and stay as they are. */
static bool takes_sinks(const struct glint_variant *row)
{
    return (row->features & (GLINT_FEATURE_LEFT_BOUND | GLINT_FEATURE_SOFTCAP)) != 0 || reads_lengths(row);
}

static enum glint_status fits(const struct glint_variant *row, const struct glint_problem *problem,
                              const struct glint_context *context, struct glint_fault *fault)
{
    const uint32_t most = row->pass == GLINT_FORWARD && reads_lengths(row) ? GLINT_LENGTHS_DEVICE : GLINT_LENGTHS_HOST;
    (void)context;
    if (problem->lengths > most)
        return glint_refuse(fault, GLINT_BAD_LENGTHS, "lengths", NULL, problem->lengths, most);
    enum glint_status status = glint_cuda_softcap_fits(problem, fault);
    if (status == GLINT_OK)
        status = glint_strides_fit(row, problem, fault);
    return status == GLINT_OK ? glint_cuda_maps_fit(row, problem, fault) : status;
}

static void fill_params(const struct glint_variant *row, const struct glint_plan *plan, const struct glint_tensors *tensors,
                        void *workspace, void *params)
{
    const struct glint_gpu_kernel *kernel = row->kernel;
    const struct glint_cuda_plan own = glint_cuda_plan_of(plan);
    struct glint_lengths_maps_params *of_lengths = params;
    glint_cuda_fill_params(row, plan, tensors, workspace, params);
    if (row->pass != GLINT_FORWARD || !glint_cuda_reads_lengths(kernel, &plan->problem))
        return;
    glint_cuda_fill_lengths(plan, tensors, &of_lengths->base);
    of_lengths->words = kernel->lengths_words > 0 ? workspace : NULL;
    memcpy(of_lengths->blocks, own.blocks, sizeof of_lengths->blocks);
}

const struct glint_family glint_family_sm90a = {
    .name = "sm90a",
    .rank = 90,
    .lengths = {[GLINT_FORWARD] = GLINT_LENGTHS_RAGGED}, /* what a row takes of them says fits, and what would be right */
    .sinks = 1u << GLINT_FORWARD,
    .takes_sinks = takes_sinks,
    .backend = &glint_cuda_backend,
    .fits = fits,
    .fill_params = fill_params,
};
