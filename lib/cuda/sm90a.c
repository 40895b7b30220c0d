/* The sm90a family: kernels for Hopper alone, which find their tensors by maps. */
#include "lib/check.h"
#include "lib/cuda/cuda.h"
#include "lib/cuda/policy.h"

static enum glint_status fits(const struct glint_variant *row, const struct glint_problem *problem,
                              const struct glint_context *context, struct glint_fault *fault)
{
    (void)context;
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
    const uint32_t lengths = glint_cuda_lengths_of(kernel, &plan->problem);
    void *const words = kernel->lengths_words > 0 ? workspace : NULL;
    struct glint_lengths_maps_params *of_lengths = params;
    struct glint_ragged_maps_params *of_ragged = params;
    struct glint_ragged_backward_maps_params *of_backward = params;
    glint_cuda_fill_params(row, plan, tensors, workspace, params);
    if (lengths != GLINT_LENGTHS_HOST && row->pass == GLINT_BACKWARD) {
        of_backward->base.ragged = glint_cuda_ragged_of(&plan->problem, tensors);
    } else if (lengths == GLINT_LENGTHS_DEVICE) {
        glint_cuda_fill_lengths(plan, tensors, &of_lengths->base);
        of_lengths->words = words;
        memcpy(of_lengths->blocks, own.blocks, sizeof of_lengths->blocks);
    } else if (lengths == GLINT_LENGTHS_RAGGED) {
        struct glint_gpu_shape *shape = &of_ragged->base.base.shape;
        of_ragged->base.ragged = glint_cuda_ragged_of(&plan->problem, tensors);
        of_ragged->bound_q = shape->seqlen_q;
        of_ragged->bound_k = shape->seqlen_k;
        of_ragged->section_keys =
            glint_gpu_section_keys(shape, (uint32_t)plan->problem.head_dim, (uint32_t)glint_dtype_bytes(plan->problem.dtype),
                                   plan->problem.mask != GLINT_MASK_NONE);
        shape->seqlen_q = (int32_t)plan->problem.rows_q;
        shape->seqlen_k = (int32_t)plan->problem.rows_k;
        of_ragged->words = words;
        memcpy(of_ragged->blocks, own.blocks, sizeof of_ragged->blocks);
    }
}

const struct glint_family glint_family_sm90a = {
    .name = "sm90a",
    .rank = 90,
    .backend = &glint_cuda_backend,
    .fits = fits,
    .fill_params = fill_params,
};
