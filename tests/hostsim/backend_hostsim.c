/* The backend of the simulator (tests/checks/backend.h): the checks of a GPU variant, on a machine without a GPU,
 * through the library's own planning and launch code. A finding of the simulator fails the check that it came up in.
 * Calls are repeated under other seeds and must write the same bytes; HOSTSIM_SEED is the first seed, HOSTSIM_SM the
 * simulated architecture, which need run no row but HOSTSIM_VARIANT if that is set. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/context.h"
#include "lib/cuda/table.h"
#include "tests/checks/backend.h"
#include "tests/hostsim/driver.h"

static bool has_image(const struct glint_variant *variant, uint32_t sm)
{
    const struct glint_gpu_kernel *kernel = glint_gpu_kernel_of(variant);
    for (uint32_t i = 0; i < kernel->image_count; i++)
        if (strtoul(glint_gpu_images[kernel->first_image + i].arch, NULL, 10) ==
            sm) /* "90a" too: the simulator has all that it adds */
            return true;
    return false;
}

/* Does this architecture run the variant under test, and for one of backward or decode a forward variant too? Tiles
 * differ between architectures, so not every forward variant need run. */
static bool runs_here(uint32_t sm)
{
    enum { FORWARD, DECODE, BACKWARD, KINDS };
    uint32_t rows[KINDS] = {0}, run[KINDS] = {0};
    const char *only = getenv("HOSTSIM_VARIANT");
    for (uint32_t v = 0; v < glint_variants_count; v++)
        if (glint_variants[v].sm != 0 && (only == NULL || strcmp(glint_variants[v].name, only) == 0)) {
            const int kind = glint_variants[v].pass == GLINT_BACKWARD ? BACKWARD
                             : glint_variants[v].queries_up_to > 0    ? DECODE
                                                                      : FORWARD;
            rows[kind]++;
            run[kind] += has_image(&glint_variants[v], sm);
        }
    const int tested = rows[BACKWARD] != 0 ? BACKWARD : rows[DECODE] != 0 ? DECODE : FORWARD;
    return run[tested] == rows[tested] && (run[FORWARD] > 0 || rows[FORWARD] == 0);
}

/* The newest architecture that will do, or the one that HOSTSIM_SM names. */
static uint32_t simulated_sm(void)
{
    static const uint32_t sm[] = {120, 110, 100, 90, 89, 87, 86, 80};
    const char *named = getenv("HOSTSIM_SM");
    if (named != NULL) {
        const uint32_t asked = (uint32_t)strtoul(named, NULL, 10);
        if (runs_here(asked))
            return asked;
        fprintf(
            stderr,
            "HOSTSIM_SM=%s: the variants of this test do not run there; an architecture such as 90, for which they have images, would be right\n",
            named);
        exit(EXIT_FAILURE);
    }
    for (size_t s = 0; s < sizeof sm / sizeof sm[0]; s++)
        if (runs_here(sm[s]))
            return sm[s];
    fprintf(stderr, "no architecture runs all variants that this test was linked with\n");
    exit(EXIT_FAILURE);
}

static enum glint_status open_context(const struct glint_executor *executor, struct glint_context **context)
{
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = GLINT_DEVICE_CUDA_CURRENT;
    if (executor != NULL)
        options.executor = *executor;
    void *storage = aligned_alloc(GLINT_CONTEXT_ALIGNMENT, glint_context_size());
    if (storage == NULL)
        abort();
    enum glint_status status =
        glint_context_init_with_driver(storage, glint_context_size(), &options, sim_driver(simulated_sm()), context);
    if (status != GLINT_OK) {
        fprintf(stderr, "the context does not open: %s\n", glint_status_name(status));
        free(storage);
    }
    return status;
}

static void close_context(struct glint_context *context)
{
    glint_context_close(context);
    free(context); /* the context is its storage */
}

static void plan_for(struct glint_context *context, uint32_t multiprocessors)
{
    struct glint_device_info info = GLINT_DEVICE_INFO_INIT;
    if (glint_context_device(context, &info) != GLINT_OK)
        abort();
    context->executor.concurrency = multiprocessors > 0 ? multiprocessors : info.concurrency;
}

static void *allocate(size_t bytes, size_t alignment, enum fence fence)
{
    (void)alignment, (void)fence;
    return sim_allocate(bytes);
}

typedef enum glint_status call(const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace,
                               size_t workspace_bytes, void *stream);

enum { MORE_SEEDS = 2 };

static struct {
    uint64_t steps; /* spent on repetitions */
    bool differs;
    uint64_t seed, first_seed;
} repeated;

/* Every order of threads gives the same bytes: the library promises that its results are the same every time. The same
 * call again under other seeds, as long as all repetitions together take at most an eighth of all steps: so calls that
 * are cheap after dear ones, which are those of the short and odd shapes. */
static void repeat(call *run, const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace,
                   size_t workspace_bytes, void *stream, uint64_t steps)
{
    const uint64_t first_seed = sim_seed_now();
    uint64_t first = 0;
    for (uint64_t more = 1; more <= MORE_SEEDS && sim_findings() == 0 && !repeated.differs; more++) {
        if (8 * (repeated.steps + steps) > sim_steps() + steps)
            break;
        if (more == 1)
            first = sim_digest(workspace);
        const uint64_t before = sim_steps();
        sim_seed(first_seed + (more << 32));
        run(plan, tensors, workspace, workspace_bytes, stream);
        sim_seed(first_seed);
        repeated.steps += sim_steps() - before;
        repeated.differs = sim_findings() == 0 && sim_digest(workspace) != first;
        repeated.seed = first_seed + (more << 32);
        repeated.first_seed = first_seed;
    }
}

static enum glint_status under_seeds(call *run, const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace,
                                     size_t workspace_bytes, void *stream)
{
    const uint64_t before = sim_steps();
    const enum glint_status status = run(plan, tensors, workspace, workspace_bytes, stream);
    if (status == GLINT_OK && sim_findings() == 0)
        repeat(run, plan, tensors, workspace, workspace_bytes, stream, sim_steps() - before);
    return status;
}

static enum glint_status forward(const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace,
                                 size_t workspace_bytes, void *stream)
{
    return under_seeds(glint_forward, plan, tensors, workspace, workspace_bytes, stream);
}

static enum glint_status backward(const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace,
                                  size_t workspace_bytes, void *stream)
{
    return under_seeds(glint_backward, plan, tensors, workspace, workspace_bytes, stream);
}

static const char *finish(void)
{
    static char text[4096];
    if (repeated.differs) {
        repeated.differs = false;
        snprintf(text, sizeof text, "other bytes under seed %llu than under seed %llu", (unsigned long long)repeated.seed,
                 (unsigned long long)repeated.first_seed);
        return text;
    }
    if (sim_findings() == 0)
        return NULL;
    snprintf(text, sizeof text, "%s", sim_finding_text(0));
    sim_clear();
    return text;
}

static struct backend simulator = {
    .name = "hostsim",
    .executors = false,
    .fences = false,
    .exact = true,
    .sparse = true,
    .open = open_context,
    .close = close_context,
    .plan_for = plan_for,
    .alloc = allocate,
    .release = sim_release,
    .copy_in = sim_put,
    .copy_out = sim_get,
    .forget = sim_forget,
    .finish = finish,
    .variant_count = glint_variant_count,
    .variant_at = glint_variant_at,
    .variant_available = glint_variant_available,
    .plan = glint_plan_variant,
    .forward = forward,
    .backward = backward,
    .status_name = glint_status_name,
};

const struct backend *test_backend(void)
{
    const char *seed = getenv("HOSTSIM_SEED");
    if (seed != NULL)
        sim_seed(strtoull(seed, NULL, 10));
    return &simulator;
}
