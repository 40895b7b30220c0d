/* The CPU as a backend, and its family of kernels: C with vector extensions. */
#include "lib/backend.h"

#include <string.h>

#include "lib/context.h"
#include "lib/cpu/cpu.h"
#include "lib/text.h"

/* What a context on the CPU knows. */
struct state {
    uint32_t isas; /* bit mask of 1 << enum glint_isa that may be used */
};

static size_t size(void)
{
    return sizeof(struct state);
}

static enum glint_status open(struct glint_context *context, const struct glint_options *options, const void *driver)
{
    (void)driver;
    struct state *state = context->state;
    state->isas = glint_cpu_probe(options->max_isa);
    return GLINT_OK;
}

static enum glint_status close(struct glint_context *context)
{
    (void)context;
    return GLINT_OK;
}

static void describe(const struct glint_context *context, struct glint_device_info *info)
{
    const struct state *state = context->state;
    for (uint32_t isa = 0; isa < 32; isa++)
        if (state->isas >> isa & 1u)
            info->isa = isa;
}

static void put_target(const struct glint_context *context, struct glint_text *text)
{
    struct glint_device_info info = GLINT_DEVICE_INFO_INIT;
    describe(context, &info);
    const char *isa = glint_isa_name(info.isa);
    glint_text_char(text, '"');
    glint_text_str(text, isa ? isa : "this CPU's instruction set");
    glint_text_str(text, "\" to isas of the family cpu");
}

static bool runs(const struct glint_context *context, uint32_t index)
{
    const struct state *state = context->state;
    return (state->isas >> glint_variants[index].isa & 1u) != 0;
}

static enum glint_status copy_in(const struct glint_context *context, void *device, const void *host, size_t bytes, void *stream)
{
    (void)context, (void)stream;
    memcpy(device, host, bytes);
    return GLINT_OK;
}

static enum glint_status copy_out(const struct glint_context *context, void *host, const void *device, size_t bytes, void *stream)
{
    (void)context, (void)stream;
    memcpy(host, device, bytes);
    return GLINT_OK;
}

static enum glint_status fits(const struct glint_variant *row, const struct glint_problem *problem,
                              const struct glint_context *context, struct glint_fault *fault)
{
    (void)context;
    return glint_strides_fit(row, problem, fault);
}

const struct glint_backend glint_cpu_backend = {
    .device = GLINT_DEVICE_CPU,
    .size = size,
    .open = open,
    .close = close,
    .describe = describe,
    .put_target = put_target,
    .runs = runs,
    .plan = glint_cpu_plan,
    .run = glint_cpu_run,
    .copy_in = copy_in,
    .copy_out = copy_out,
};

const struct glint_family glint_family_cpu = {.name = "cpu", .lengths = true, .backend = &glint_cpu_backend, .fits = fits};
