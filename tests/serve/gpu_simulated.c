/* In place of examples/common/gpu.c: the program's GPU is the simulator. A finding of the simulator ends the program at
 * its next copy from the GPU, with what was found. The context opens with the simulator's driver: the linker sends
 * glint_context_init here. */
#include <stdio.h>
#include <string.h>

#include "examples/common/gpu.h"
#include "lib/context.h"
#include "tests/hostsim/driver.h"

enum { COMPUTE_CAPABILITY = 90 };

enum glint_status __real_glint_context_init(void *storage, size_t storage_bytes, const struct glint_options *options,
                                            struct glint_context **context);
enum glint_status __wrap_glint_context_init(void *storage, size_t storage_bytes, const struct glint_options *options,
                                            struct glint_context **context);

enum glint_status __wrap_glint_context_init(void *storage, size_t storage_bytes, const struct glint_options *options,
                                            struct glint_context **context)
{
    return options->device == GLINT_DEVICE_CPU
               ? __real_glint_context_init(storage, storage_bytes, options, context)
               : glint_context_init_with_driver(storage, storage_bytes, options, sim_driver(COMPUTE_CAPABILITY), context);
}

static void *memory; /* a program takes one block */
static size_t in_use;

int gpu_open(struct gpu *gpu)
{
    memset(gpu, 0, sizeof *gpu);
    snprintf(gpu->name, sizeof gpu->name, "simulated");
    return 0;
}

void gpu_close(struct gpu *gpu)
{
    (void)gpu;
    if (memory)
        sim_release(memory);
    memory = NULL;
    in_use = 0;
}

size_t gpu_used(struct gpu *gpu)
{
    (void)gpu;
    return in_use;
}

void *gpu_allocate(struct gpu *gpu, size_t bytes)
{
    if (memory) {
        snprintf(gpu->reason, sizeof gpu->reason, "a second block: all memory was to be taken at once");
        return NULL;
    }
    in_use = bytes;
    return memory = sim_allocate(bytes);
}

int gpu_put(struct gpu *gpu, void *to, const void *from, size_t bytes)
{
    (void)gpu;
    sim_put(to, from, bytes);
    return 0;
}

int gpu_get(struct gpu *gpu, void *to, const void *from, size_t bytes)
{
    if (sim_findings() > 0) {
        fprintf(stderr, "%s\n", sim_finding_text(0));
        snprintf(gpu->reason, sizeof gpu->reason, "a finding of the simulator");
        return -1;
    }
    sim_get(to, from, bytes);
    return 0;
}
