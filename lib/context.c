/* Opening and closing a context. Everything slow happens here, nothing later. */
#include "lib/context.h"

#include <string.h>

#include "lib/backend.h"

static void serial_parallel_for(void *user, uint32_t count, void (*body)(void *argument, uint32_t index), void *argument)
{
    (void)user;
    for (uint32_t i = 0; i < count; i++)
        body(argument, i);
}

static const struct glint_executor serial = {sizeof(struct glint_executor), 1, serial_parallel_for, NULL};

static size_t round_up(size_t bytes)
{
    return (bytes + GLINT_CONTEXT_ALIGNMENT - 1) / GLINT_CONTEXT_ALIGNMENT * GLINT_CONTEXT_ALIGNMENT;
}

/* The backend of the GPU rows; NULL when the table has none. */
static const struct glint_backend *gpu_backend(void)
{
    for (uint32_t i = 0; i < glint_variants_count; i++)
        if (glint_family_of(&glint_variants[i])->backend->device == GLINT_DEVICE_CUDA)
            return glint_family_of(&glint_variants[i])->backend;
    return NULL;
}

size_t glint_context_size(void)
{
    const struct glint_backend *gpu = gpu_backend();
    const size_t cpu_bytes = round_up(glint_cpu_backend.size()), gpu_bytes = gpu ? round_up(gpu->size()) : 0;
    return round_up(sizeof(struct glint_context)) + (cpu_bytes > gpu_bytes ? cpu_bytes : gpu_bytes);
}

static bool is_zero(const struct glint_executor *e)
{
    return e->struct_size == 0 && e->concurrency == 0 && !e->parallel_for && !e->user;
}

static enum glint_status check_options(const struct glint_options *options)
{
    if (options->struct_size != sizeof *options)
        return GLINT_STRUCT_SIZE;
    if (options->device > GLINT_DEVICE_CUDA || options->cuda_device < 0 ||
        (options->max_isa != GLINT_ISA_ANY && !glint_isa_name(options->max_isa)))
        return GLINT_BAD_OPTION;
    if (options->device != GLINT_DEVICE_CUDA && options->cuda_device != 0)
        return GLINT_BAD_OPTION;
    if (options->amx > 1 || options->reserved != 0)
        return GLINT_BAD_OPTION;
    const struct glint_executor *e = &options->executor;
    if (is_zero(e))
        return GLINT_OK;
    if (e->struct_size != sizeof *e)
        return GLINT_STRUCT_SIZE;
    if (!e->parallel_for || e->concurrency < 1 || e->concurrency > GLINT_MAX_CONCURRENCY)
        return GLINT_BAD_EXECUTOR;
    return GLINT_OK;
}

/* No GPU to be had, as against a GPU that fails: GLINT_DEVICE_AUTO turns to the CPU for these only. */
static bool is_absence(enum glint_status status)
{
    return status == GLINT_NO_DRIVER || status == GLINT_DRIVER_TOO_OLD || status == GLINT_NO_DEVICE ||
           status == GLINT_NO_KERNEL_IMAGE;
}

static enum glint_status open_backend(struct glint_context *context, const struct glint_backend *backend,
                                      const struct glint_options *options, const void *driver)
{
    context->backend = backend;
    context->state = (unsigned char *)context + round_up(sizeof *context);
    memset(context->state, 0, glint_context_size() - round_up(sizeof *context));
    return backend->open(context, options, driver);
}

static enum glint_status open_device(struct glint_context *context, const struct glint_options *options, const void *driver)
{
    enum glint_status status = GLINT_NO_KERNEL_IMAGE;
    const struct glint_backend *gpu = gpu_backend();
    if (options->device != GLINT_DEVICE_CPU && gpu)
        status = open_backend(context, gpu, options, driver);
    if (options->device == GLINT_DEVICE_CPU || (options->device == GLINT_DEVICE_AUTO && is_absence(status)))
        status = open_backend(context, &glint_cpu_backend, options, NULL);
    return status;
}

/* Mixes in a word (the multiplier is that of splitmix64's first step). */
static uint64_t mix(uint64_t sum, uint64_t word)
{
    sum = (sum ^ word) * UINT64_C(0xbf58476d1ce4e5b9);
    return sum ^ sum >> 29;
}

/* What glint_plan reads of a context: the device, its width, which rows it runs. */
static void examine_rows(struct glint_context *context)
{
    uint64_t sum = mix(context->backend->device, glint_context_concurrency(context));
    for (uint32_t i = 0; i < glint_variants_count; i++)
        if (glint_variant_available(context, i) == GLINT_OK) {
            context->variants_loaded++;
            sum = mix(sum, i);
        }
    context->fingerprint = sum;
}

enum glint_status glint_context_init_with_driver(void *storage, size_t storage_bytes, const struct glint_options *options,
                                                 const void *driver, struct glint_context **context)
{
    static const struct glint_options defaults = GLINT_OPTIONS_INIT;

    if (!context)
        return GLINT_NULL_ARGUMENT;
    *context = NULL;
    if (!storage)
        return GLINT_NULL_ARGUMENT;
    if (!options)
        options = &defaults;
    enum glint_status status = check_options(options);
    if (status != GLINT_OK)
        return status;
    if ((uintptr_t)storage % GLINT_CONTEXT_ALIGNMENT != 0)
        return GLINT_STORAGE_MISALIGNED;
    if (storage_bytes < glint_context_size())
        return GLINT_STORAGE_TOO_SMALL;

    struct glint_context *opened = storage;
    memset(opened, 0, glint_context_size());
    opened->executor = is_zero(&options->executor) ? serial : options->executor;
    status = open_device(opened, options, driver);
    if (status != GLINT_OK) {
        opened->magic = GLINT_CONTEXT_FAILED;
        return status;
    }
    opened->magic = GLINT_CONTEXT_OPEN;
    examine_rows(opened);
    *context = opened;
    return GLINT_OK;
}

enum glint_status glint_context_init(void *storage, size_t storage_bytes, const struct glint_options *options,
                                     struct glint_context **context)
{
    return glint_context_init_with_driver(storage, storage_bytes, options, NULL, context);
}

enum glint_status glint_context_close(struct glint_context *context)
{
    if (!context || context->magic != GLINT_CONTEXT_OPEN)
        return GLINT_CONTEXT_CLOSED;
    context->magic = GLINT_CONTEXT_SHUT;
    return context->backend->close(context);
}

enum glint_status glint_context_device(const struct glint_context *context, struct glint_device_info *info)
{
    if (!context || !info)
        return GLINT_NULL_ARGUMENT;
    if (context->magic != GLINT_CONTEXT_OPEN)
        return GLINT_CONTEXT_CLOSED;
    if (info->struct_size != sizeof *info)
        return GLINT_STRUCT_SIZE;
    *info = (struct glint_device_info){
        .struct_size = sizeof *info,
        .device = context->backend->device,
        .cuda_device = -1,
        .concurrency = glint_context_concurrency(context),
        .variants_loaded = context->variants_loaded,
    };
    context->backend->describe(context, info);
    return GLINT_OK;
}

int32_t glint_context_driver_error(const void *storage)
{
    const struct glint_context *context = storage;
    struct glint_device_info info = GLINT_DEVICE_INFO_INIT;
    if (!context)
        return 0;
    if (context->magic == GLINT_CONTEXT_OPEN)
        context->backend->describe(context, &info);
    return context->magic == GLINT_CONTEXT_FAILED ? context->driver_error : info.driver_error;
}
