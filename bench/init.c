/* How long a context takes to open on a GPU, where all kernels are loaded, what it leaves of the device's memory, and
 * whether the self test of what was loaded passes: init [OPENINGS]. The first opening of a process is said apart: the
 * driver's own code may be cold then. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "lib/glint.h"
#include "tests/cuda/device.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void must(enum glint_status status, const char *what)
{
    if (status == GLINT_OK)
        return;
    printf("%s: %s\n", what, glint_status_sentence(status));
    exit(1);
}

int main(int argc, char **argv)
{
    const int openings = argc > 1 ? atoi(argv[1]) : 21;
    struct device device;
    double *ms = calloc(openings > 0 ? (size_t)openings : 1, sizeof *ms);
    void *storage = aligned_alloc(GLINT_CONTEXT_ALIGNMENT, glint_context_size());
    if (openings < 1 || !ms || !storage || !device_open(&device, 0)) {
        printf("a GPU, memory and a count from 1 are wanted\n");
        return 1;
    }
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = GLINT_DEVICE_CUDA_CURRENT;
    struct glint_context *context = NULL;
    size_t before = 0, after = 0, all = 0;
    double first = 0;
    for (int i = 0; i < openings; i++) {
        DEVICE(&device, memory_info, &before, &all);
        const double start = now();
        must(glint_context_init(storage, glint_context_size(), &options, &context), "glint_context_init");
        ms[i] = now() - start;
        DEVICE(&device, memory_info, &after, &all);
        if (i == 0)
            first = ms[0];
        if (i + 1 < openings)
            must(glint_context_close(context), "glint_context_close");
    }
    qsort(ms, (size_t)openings, sizeof *ms, ascending);
    struct glint_device_info info = GLINT_DEVICE_INFO_INIT;
    struct glint_selftest_result result = GLINT_SELFTEST_RESULT_INIT;
    size_t bytes = 0;
    must(glint_context_device(context, &info), "glint_context_device");
    must(glint_selftest_size(context, &bytes), "glint_selftest_size");
    void *memory = device_alloc(&device, bytes);
    const enum glint_status status = glint_selftest(context, memory, bytes, NULL, &result);
    printf(
        "%s, driver %d: %u rows; %d openings: first %.2f ms, median %.2f, least %.2f; %.1f MiB of the device; self test %s, %u rows, "
        "worst %.3f\n",
        device.name, device.driver_version, (unsigned)info.variants_loaded, openings, first, ms[openings / 2], ms[0],
        (double)(before - after) / 1048576, status == GLINT_OK ? "OK" : glint_status_sentence(status),
        (unsigned)result.variants_run, (double)result.worst_error);
    must(glint_context_close(context), "glint_context_close");
    return status != GLINT_OK;
}
