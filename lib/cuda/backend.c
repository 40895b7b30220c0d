/* A GPU under the CUDA driver as a backend. */
#include "lib/backend.h"

#include "lib/cuda/cuda.h"
#include "lib/text.h"

static enum glint_status open(struct glint_context *context, const struct glint_options *options, const void *driver)
{
    struct glint_cuda *cuda = context->state;
    const enum glint_status status = glint_cuda_open(cuda, options->device, options->cuda_device, driver);
    context->driver_error = glint_cuda_error(cuda);
    if (status == GLINT_OK)
        context->executor.concurrency = cuda->multiprocessors;
    return status;
}

static enum glint_status close(struct glint_context *context)
{
    return glint_cuda_close(context->state);
}

static void describe(const struct glint_context *context, struct glint_device_info *info)
{
    glint_cuda_describe(context->state, info);
}

static void put_target(const struct glint_context *context, struct glint_text *text)
{
    const struct glint_cuda *cuda = context->state;
    glint_text_str(text, "sm_");
    glint_text_uint(text, cuda->sm);
    glint_text_str(text, " to archs of a family for GPUs");
}

static bool runs(const struct glint_context *context, uint32_t index)
{
    const struct glint_cuda *cuda = context->state;
    return cuda->rows[index].module != NULL;
}

const struct glint_backend glint_cuda_backend = {
    .device = GLINT_DEVICE_CUDA,
    .size = glint_cuda_size,
    .open = open,
    .close = close,
    .describe = describe,
    .put_target = put_target,
    .runs = runs,
    .plan = glint_cuda_plan,
    .plan_tuned = glint_cuda_plan_tuned,
    .run = glint_cuda_run,
    .row_bytes = 16,
    .token_elements = INT32_MAX, /* chunks of a token are counted in 32 bits: struct glint_append_params */
    .append = glint_cuda_append,
    .merge = glint_cuda_merge,
    .copy_in = glint_cuda_copy_in,
    .copy_out = glint_cuda_copy_out,
};
