/* The CPU as a backend, and its family of kernels: C with vector extensions. */
#include "lib/backend.h"

#include <string.h>

#include "lib/axes.h"
#include "lib/context.h"
#include "lib/cpu/cpu.h"
#include "lib/text.h"

/* What a context on the CPU knows. */
struct state {
    uint32_t isas;                    /* bit mask of 1 << enum glint_isa that may be used */
    uint32_t slow;                    /* of those: a plan takes them where there is nothing else */
    uint32_t over_cap, no_permission; /* what else this CPU has, by the reason why it is not used */
};

static size_t size(void)
{
    return sizeof(struct state);
}

static enum glint_status open(struct glint_context *context, const struct glint_options *options, const void *driver)
{
    (void)driver;
    struct state *state = context->state;
    const uint32_t amx = 1u << GLINT_ISA_X86_64_AMX, here = glint_cpu_probe();
    const uint32_t below = options->max_isa == GLINT_ISA_ANY ? UINT32_MAX : (2u << options->max_isa) - 1;
    state->isas = here & below & (options->amx ? UINT32_MAX : ~amx);
    state->slow = glint_cpu_slow();
    state->over_cap = here & ~below;
    state->no_permission = here & below & ~state->isas;
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
    const uint32_t fast = state->isas & ~state->slow;
    for (uint32_t isa = 0; isa < 32; isa++)
        if (fast >> isa & 1u)
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

static bool slow(const struct glint_context *context, uint32_t index)
{
    const struct state *state = context->state;
    return (state->slow >> glint_variants[index].isa & 1u) != 0;
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

/* Why a row of a higher instruction set than the plan's, for what it computes, was not taken. */
static void explain(const struct glint_plan *plan, struct glint_text *text)
{
    const struct state *state = plan->context->state;
    const struct glint_variant *taken = &glint_variants[plan->variant];
    const struct glint_key key = glint_key_of_problem(&plan->problem, (enum glint_pass)plan->pass);
    for (uint32_t i = 0; i < glint_variants_count; i++) {
        const struct glint_variant *row = &glint_variants[i];
        if (row->family != taken->family || row->isa <= taken->isa || row->isa >= 32 || !glint_has_key(row, &key) ||
            (row->queries_up_to > 0) != (taken->queries_up_to > 0) || (runs(plan->context, i) && !slow(plan->context, i)))
            continue;
        glint_text_str(text, "\nNot taken: ");
        glint_text_str(text, row->name);
        glint_text_str(text, (state->no_permission >> row->isa & 1u) != 0
                                 ? ", as glint_options.amx is 0; glint_permit_amx asks for the permission and sets it."
                             : runs(plan->context, i) ? ", as this CPU is not known to run it faster; glint_plan_variant takes it."
                             : (state->over_cap >> row->isa & 1u) != 0 ? ", as it is above glint_options.max_isa."
                                                                       : ", as this CPU or its system has not what it needs.");
    }
}

const struct glint_backend glint_cpu_backend = {
    .device = GLINT_DEVICE_CPU,
    .size = size,
    .open = open,
    .close = close,
    .describe = describe,
    .put_target = put_target,
    .runs = runs,
    .slow = slow,
    .plan = glint_cpu_plan,
    .run = glint_cpu_run,
    .append = glint_cpu_append,
    .merge = glint_cpu_merge,
    .copy_in = copy_in,
    .copy_out = copy_out,
};

const struct glint_family glint_family_cpu = {
    .name = "cpu",
    .backend = &glint_cpu_backend,
    .fits = fits,
    .explain = explain,
};
