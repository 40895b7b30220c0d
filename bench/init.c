/* How long a context takes to open on a GPU, where all kernels are loaded, what the driver takes of that by its
 * entries, what it takes of the device's and the host's memory, and whether the self test of what was loaded passes:
 * init [OPENINGS [IMAGE...]]. The first opening of a process is said apart: the driver's own code may be cold then.
 * IMAGES are files that cuModuleLoadData takes, such as bazel-bin/lib/glint_modules.fwd.sm_90.cubin and .fatbin, which
 * is packed: before the library's, all of them are loaded as many times, and their kernels are not looked up. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "lib/context.h"
#include "tests/cuda/device.h"

/* The entries that load kernels: each is the driver's own with a clock around it. */
/* clang-format off */
#define TIMED(X)                                                                                                      \
    X(module_load, (glint_cu_module *module, const void *image), (module, image))                                     \
    X(module_function, (glint_cu_function *function, glint_cu_module module, const char *name), (function, module, name)) \
    X(function_load, (glint_cu_function function), (function))                                                        \
    X(function_attribute, (int *value, unsigned int attribute, glint_cu_function function), (value, attribute, function)) \
    X(function_set_attribute, (glint_cu_function function, unsigned int attribute, int value), (function, attribute, value))
/* clang-format on */

#define NUMBER(entry, parameters, arguments) of_##entry,
enum { TIMED(NUMBER) ENTRIES };
struct spent {
    double ms[ENTRIES];
    int calls[ENTRIES];
};
static struct glint_cuda_driver real;
static struct spent spent;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

#define CLOCKED(entry, parameters, arguments)                \
    static glint_cu_result entry parameters                  \
    {                                                        \
        const double start = now();                          \
        const glint_cu_result result = real.entry arguments; \
        spent.ms[of_##entry] += now() - start;               \
        spent.calls[of_##entry]++;                           \
        return result;                                       \
    }
TIMED(CLOCKED)

/* MiB of the host's memory that this process has in use. */
static double resident(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long all = 0, pages = 0;
    if (!file || fscanf(file, "%ld %ld", &all, &pages) != 2)
        pages = 0;
    if (file)
        fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1048576;
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

struct image {
    void *data;
    glint_cu_module module;
};

static int read_image(const char *path, struct image *image, long *all)
{
    FILE *file = fopen(path, "rb");
    long bytes = 0;
    if (file && fseek(file, 0, SEEK_END) == 0 && (bytes = ftell(file)) > 0 && fseek(file, 0, SEEK_SET) == 0)
        image->data = malloc((size_t)bytes);
    const int given = image->data && fread(image->data, 1, (size_t)bytes, file) == (size_t)bytes;
    if (file)
        fclose(file);
    if (!given)
        printf("%s: no image can be read\n", path);
    *all += bytes;
    return given;
}

/* How long cuModuleLoadData takes of all the images, one after another. */
static int time_images(char **paths, int count, int times, double *ms)
{
    struct image *images = calloc((size_t)count, sizeof *images);
    long bytes = 0;
    int given = images != NULL;
    double first = 0, unloading = 0;
    for (int i = 0; given && i < count; i++)
        given = read_image(paths[i], &images[i], &bytes);
    for (int t = 0; given && t < times; t++) {
        const double start = now();
        for (int i = 0; i < count; i++)
            device_must(real.module_load(&images[i].module, images[i].data), "cuModuleLoadData");
        const double loaded = now();
        for (int i = 0; i < count; i++)
            device_must(real.module_unload(images[i].module), "cuModuleUnload");
        unloading += (now() - loaded) / times;
        ms[t] = loaded - start;
        first = t == 0 ? ms[0] : first;
    }
    if (given) {
        qsort(ms, (size_t)times, sizeof *ms, ascending);
        printf(
            "%d images, %ld bytes; %d times: first %.2f ms to load them, median %.2f, least %.2f; %.2f to unload them in the mean\n",
            count, bytes, times, first, ms[times / 2], ms[0], unloading);
    }
    for (int i = 0; images && i < count; i++)
        free(images[i].data);
    free(images);
    return given;
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
    void *library;
    must(glint_cuda_driver_load(&real, &library), "glint_cuda_driver_load");
    if (argc > 2 && !time_images(argv + 2, argc - 2, openings, ms))
        return 1;
    struct glint_cuda_driver clocked = real;
#define PUT(entry, parameters, arguments) clocked.entry = real.entry ? entry : NULL;
    TIMED(PUT)
    struct glint_context *context = NULL;
    struct spent first_spent = {0}, all_spent = {0};
    size_t before = 0, after = 0, all = 0;
    double first = 0, host = 0;
    for (int i = 0; i < openings; i++) {
        DEVICE(&device, memory_info, &before, &all);
        const double resident_before = resident(), start = now();
        spent = (struct spent){0};
        must(glint_context_init_with_driver(storage, glint_context_size(), &options, &clocked, &context), "glint_context_init");
        ms[i] = now() - start;
        DEVICE(&device, memory_info, &after, &all);
        if (i == 0) {
            first = ms[0];
            first_spent = spent;
            host = resident() - resident_before;
        }
        for (int e = 0; e < ENTRIES; e++)
            all_spent.ms[e] += spent.ms[e] / openings;
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
        "%s, driver %d: %u rows; %d openings: first %.2f ms, median %.2f, least %.2f; %.1f MiB of the device, the first one %.1f of the "
        "host; self test %s, %u rows, worst %.3f\n",
        device.name, device.driver_version, (unsigned)info.variants_loaded, openings, first, ms[openings / 2], ms[0],
        (double)(before - after) / 1048576, host, status == GLINT_OK ? "OK" : glint_status_sentence(status),
        (unsigned)result.variants_run, (double)result.worst_error);
#define PRINT(entry, parameters, arguments)                                                                                \
    printf("  %-22s %4d calls, %6.2f ms in the first opening, %6.2f in the mean\n", #entry, first_spent.calls[of_##entry], \
           first_spent.ms[of_##entry], all_spent.ms[of_##entry]);
    TIMED(PRINT)
    must(glint_context_close(context), "glint_context_close");
    glint_cuda_driver_unload(library);
    return status != GLINT_OK;
}
