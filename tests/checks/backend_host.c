/* The backend of the CPU family: host memory and the library's own calls. */
#include "tests/checks/backend_host.h"

#include <stdlib.h>

static enum glint_status open_context(const struct glint_executor *executor, struct glint_context **context)
{
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = GLINT_DEVICE_CPU;
    (void)glint_permit_amx(&options); /* without it the rows for AMX are not available */
    if (executor != NULL)
        options.executor = *executor;

    const size_t bytes = glint_context_size();
    const size_t rounded = (bytes + GLINT_CONTEXT_ALIGNMENT - 1) / GLINT_CONTEXT_ALIGNMENT * GLINT_CONTEXT_ALIGNMENT;
    void *storage = aligned_alloc(GLINT_CONTEXT_ALIGNMENT, rounded);
    if (storage == NULL)
        abort();
    enum glint_status status = glint_context_init(storage, bytes, &options, context);
    if (status != GLINT_OK)
        free(storage);
    return status;
}

static void close_context(struct glint_context *context)
{
    glint_context_close(context);
    free(context); /* the context is its storage */
}

static const struct backend host = {
    .name = "host",
    .executors = true,
    .fences = true,
    .stream = NULL,
    .open = open_context,
    .close = close_context,
    .alloc = host_alloc,
    .release = host_release,
    .copy_in = host_copy,
    .copy_out = host_copy,
    .finish = host_finish,
    .variant_count = glint_variant_count,
    .variant_at = glint_variant_at,
    .variant_available = glint_variant_available,
    .plan = glint_plan_variant,
    .forward = glint_forward,
    .backward = glint_backward,
    .status_name = glint_status_name,
};

const struct backend *test_backend(void)
{
    return &host;
}
