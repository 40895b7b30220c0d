/* The promises of a GPU context, on a real GPU and over every row of the table that it runs:
 *
 *   selftest   known answers through every variant
 *   memory     device memory and host heap stand still over a million launches and ten thousand graph replays
 *   graphs     captured calls, replayed on old and on new inputs, give the bits that eager calls give
 *   lengths    a captured call of lengths on the device, replayed ten thousand times with other lengths, gives the
 *              bits that an eager call gives; device memory and host heap stand still
 *   repeat     a thousand runs beside a busy second stream give the same bits, whatever the workspace holds; nothing
 *              is written outside outputs and workspace
 *   latency    how long glint_forward and glint_backward keep the host: the median forward is below 8 microseconds,
 *              which is a launch or two, and on Hopper the tensor maps and a counter to clear
 *   devices    with several GPUs: one context each, used in turn; GPUs of one kind give the same bits
 *   bare       the same bits with every array in an allocation of its own, of exact size, outputs and workspace
 *              never initialised: what compute-sanitizer is to watch; not part of `all`
 *   names      only names the variants, a line each after `variant`, for scripts; not part of `all`
 *   lost       a launch that faults: GLINT_DEVICE_LOST from then on, and the context still closes. Ends the
 *              process's use of the GPU, so it is not part of `all`
 *
 * usage: on_device [--device N] [--launches N] [--replays N] [--runs N] [--only TEXT]... [--without TEXT] CHECK...
 * CHECK may be `all`. Prints a line a check; the exit status is 0 when at least one check ran on at least one
 * variant and none failed, 77 without a GPU. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/cuda/job.h"

enum { NO_GPU = 77, MAX_JOBS = 1024, WARM_UP = 3 };

/* ---- host heap: every allocation of the process, the driver's too ------------------------------------------------ */

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *address);

static unsigned long long heap_calls;
static long long heap_bytes;

static void *counted(void *address)
{
    __atomic_add_fetch(&heap_calls, 1, __ATOMIC_RELAXED);
    if (address)
        __atomic_add_fetch(&heap_bytes, (long long)malloc_usable_size(address), __ATOMIC_RELAXED);
    return address;
}

static void discounted(void *address)
{
    if (address)
        __atomic_sub_fetch(&heap_bytes, (long long)malloc_usable_size(address), __ATOMIC_RELAXED);
}

void *malloc(size_t bytes)
{
    return counted(__libc_malloc(bytes));
}

void *calloc(size_t count, size_t bytes)
{
    return counted(__libc_calloc(count, bytes));
}

void *realloc(void *old, size_t bytes)
{
    discounted(old);
    return counted(__libc_realloc(old, bytes));
}

void *memalign(size_t alignment, size_t bytes)
{
    return counted(__libc_memalign(alignment, bytes));
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return counted(__libc_memalign(alignment, bytes));
}

int posix_memalign(void **address, size_t alignment, size_t bytes)
{
    *address = counted(__libc_memalign(alignment, bytes));
    return *address ? 0 : ENOMEM;
}

void free(void *address)
{
    discounted(address);
    __libc_free(address);
}

/* Resident pages: mappings that no malloc sees. */
static long long resident_bytes(void)
{
    long long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%lld %lld", &total, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident * 4096;
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

struct run {
    struct device device;
    struct glint_context *context;
    void *storage;
    unsigned long launches, replays, runs;
    const char *only[4]; /* texts that a variant's name contains */
    const char *without; /* a text that it does not contain, or NULL */
    int only_count;
    int failures, checks, variants; /* variants: checked, over all checks */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void verdict(struct run *run, const char *check, int ok, int variants, double start)
{
    printf("%s %s: %d variants, %.1f s\n", ok && variants > 0 ? "PASS" : "FAIL", check, variants, now() - start);
    fflush(stdout);
    run->checks++;
    run->variants += variants;
    run->failures += !(ok && variants > 0);
}

static void must(enum glint_status status, const char *what)
{
    if (status == GLINT_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, glint_status_name(status), glint_status_sentence(status));
    exit(EXIT_FAILURE);
}

static struct glint_context *open_context(void **storage, int ordinal)
{
    struct glint_options options = GLINT_OPTIONS_INIT;
    struct glint_context *context = NULL;
    options.device = GLINT_DEVICE_CUDA;
    options.cuda_device = ordinal;
    *storage = aligned_alloc(GLINT_CONTEXT_ALIGNMENT, glint_context_size());
    if (!*storage)
        exit(EXIT_FAILURE);
    const enum glint_status status = glint_context_init(*storage, glint_context_size(), &options, &context);
    if (status != GLINT_OK)
        fprintf(stderr, "the driver's code is %d\n", glint_context_driver_error(*storage));
    must(status, "glint_context_init");
    return context;
}

static int wanted(const struct run *run, uint32_t variant)
{
    struct glint_variant_info info = GLINT_VARIANT_INFO_INIT;
    if (glint_variant_at(variant, &info) != GLINT_OK || (run->without && strstr(info.name, run->without)))
        return 0;
    for (int i = 0; i < run->only_count; i++)
        if (!strstr(info.name, run->only[i]))
            return 0;
    return glint_variant_available(run->context, variant) == GLINT_OK;
}

/* Two tiles and a bit both ways, grouped heads; `scale` makes it longer. */
static struct job_shape shape_of(uint32_t variant, int64_t scale)
{
    struct glint_variant_info info = GLINT_VARIANT_INFO_INIT;
    must(glint_variant_at(variant, &info), "glint_variant_at");
    return (struct job_shape){1, 2 * scale, scale, scale * info.tile_m + 3, scale * info.tile_n + 5, 0};
}

/* One job for each wanted row; returns how many. */
static int make_jobs(struct run *run, struct job *jobs, int64_t scale)
{
    int count = 0;
    for (uint32_t i = 0; i < glint_variant_count() && count < MAX_JOBS; i++)
        if (wanted(run, i))
            job_make(&jobs[count++], &run->device, run->context, i, shape_of(i, scale), GLINT_MASK_CAUSAL_BOTTOM_RIGHT, i + 1);
    return count;
}

static void free_jobs(struct run *run, struct job *jobs, int count)
{
    for (int i = 0; i < count; i++)
        job_free(&jobs[i], &run->device);
}

static glint_cu_stream new_stream(struct run *run)
{
    glint_cu_stream stream = NULL;
    DEVICE(&run->device, stream_create, &stream, DEVICE_STREAM_NON_BLOCKING);
    return stream;
}

/* Runs the jobs [0, count) on the stream. */
static void run_jobs(const struct job *jobs, int count, void *stream)
{
    for (int i = 0; i < count; i++)
        must(job_run(&jobs[i], stream), jobs[i].info.name);
}

static glint_cu_replay capture(struct run *run, const struct job *jobs, int count, glint_cu_stream stream)
{
    glint_cu_graph graph = NULL;
    glint_cu_replay replay = NULL;
    DEVICE(&run->device, capture_begin, stream, DEVICE_CAPTURE_GLOBAL);
    run_jobs(jobs, count, stream);
    DEVICE(&run->device, capture_end, stream, &graph);
    DEVICE(&run->device, graph_instantiate, &replay, graph, 0);
    DEVICE(&run->device, graph_destroy, graph);
    return replay;
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static void check_selftest(struct run *run)
{
    const double start = now();
    struct glint_selftest_result result = GLINT_SELFTEST_RESULT_INIT;
    size_t bytes = 0;
    must(glint_selftest_size(run->context, &bytes), "glint_selftest_size");
    void *memory = device_alloc(&run->device, bytes);
    const enum glint_status status = glint_selftest(run->context, memory, bytes, NULL, &result);
    device_free(&run->device, memory);
    if (status != GLINT_OK) {
        struct glint_variant_info info = GLINT_VARIANT_INFO_INIT;
        if (glint_variant_at(result.first_failed, &info) == GLINT_OK)
            printf("  first wrong: %s, %u of %u\n", info.name, result.variants_failed, result.variants_run);
        else
            printf("  %s\n", glint_status_name(status));
    }
    printf("  worst error %.3f of its tolerance, %zu bytes\n", (double)result.worst_error, bytes);
    verdict(run, "selftest", status == GLINT_OK, (int)result.variants_run, start);
}

struct level {
    size_t device_free;
    unsigned long long heap_calls;
    long long heap_bytes, resident;
};

static struct level level(struct run *run)
{
    device_wait(&run->device);
    return (struct level){device_free_bytes(&run->device), heap_calls, heap_bytes, resident_bytes()};
}

/* Device memory must not move at all. The library calls no allocator (its symbols say so), so host counts are the
 * driver's own: they are printed, and fail only when they keep something. */
static int stands_still(const char *what, unsigned long count, const struct level *a, const struct level *b)
{
    const long long device = (long long)a->device_free - (long long)b->device_free, heap = b->heap_bytes - a->heap_bytes;
    printf("  %lu %s: device memory %+lld bytes, heap %+lld bytes in %llu allocations, resident %+lld bytes\n", count, what, device,
           heap, b->heap_calls - a->heap_calls, b->resident - a->resident);
    return device == 0 && heap < (64 << 10) && b->resident - a->resident < (4 << 20);
}

static int guards_hold(struct run *run, const struct job *job)
{
    const int hold = job_guards_hold(job, &run->device);
    if (!hold)
        printf("  %s wrote outside its arrays\n", job->info.name);
    return hold;
}

static void check_memory(struct run *run)
{
    static struct job jobs[MAX_JOBS];
    const double start = now();
    const int count = make_jobs(run, jobs, 1);
    glint_cu_stream streams[2] = {new_stream(run), new_stream(run)};
    int ok = 1;
    if (count == 0) {
        verdict(run, "memory", 0, 0, start);
        return;
    }
    glint_cu_replay replay = capture(run, jobs, count, streams[0]);
    for (int i = 0; i < WARM_UP; i++) { /* what the driver makes for a stream or a graph when it is first used */
        run_jobs(jobs, count, streams[0]);
        device_wait(&run->device);
        run_jobs(jobs, count, streams[1]);
        DEVICE(&run->device, graph_launch, replay, streams[0]);
        device_wait(&run->device);
    }
    for (unsigned long i = 0; i < run->launches / 50; i++) {
        must(job_run(&jobs[i % (unsigned)count], streams[0]), "launch");
        if (i % 256 == 255)
            DEVICE(&run->device, stream_synchronize, streams[0]);
    }
    struct level before = level(run);
    for (unsigned long i = 0; i < run->launches; i++) {
        must(job_run(&jobs[i % (unsigned)count], streams[i / 256 % 2]), "launch");
        if (i % 256 == 255) /* a job's outputs are written on one stream at a time */
            DEVICE(&run->device, stream_synchronize, streams[i / 256 % 2]);
    }
    struct level after = level(run);
    ok &= stands_still("calls", run->launches, &before, &after);

    before = level(run);
    for (unsigned long i = 0; i < run->replays; i++) {
        DEVICE(&run->device, graph_launch, replay, streams[0]);
        if (i % 16 == 15)
            DEVICE(&run->device, stream_synchronize, streams[0]);
    }
    after = level(run);
    ok &= stands_still("replays of one graph with every variant", run->replays, &before, &after);
    for (int i = 0; i < count; i++)
        ok &= guards_hold(run, &jobs[i]);
    DEVICE(&run->device, replay_destroy, replay);
    for (int i = 0; i < 2; i++)
        DEVICE(&run->device, stream_destroy, streams[i]);
    free_jobs(run, jobs, count);
    verdict(run, "memory", ok, count, start);
}

static unsigned char *outputs(struct run *run, const struct job *job)
{
    unsigned char *bytes = malloc(job_output_bytes(job) + 1);
    if (!bytes)
        exit(EXIT_FAILURE);
    job_outputs(job, &run->device, bytes);
    return bytes;
}

/* The outputs now, against `expected`; frees nothing. */
static int same(struct run *run, const struct job *job, const unsigned char *expected, const char *what)
{
    unsigned char *got = outputs(run, job);
    const int equal = memcmp(got, expected, job_output_bytes(job)) == 0;
    size_t at = 0;
    for (int i = 0; i < JOB_ARRAYS && !equal; i++) {
        const size_t bytes = job->array[i].written ? job->array[i].bytes : 0;
        size_t count = 0, first = 0;
        for (size_t b = bytes; b-- > 0;)
            if (got[at + b] != expected[at + b])
                count++, first = b;
        if (count > 0)
            printf("  %s: %s differs in %zu of %zu bytes of %s, the first is %zu\n", job->info.name, what, count, bytes,
                   i < TENSORS ? tensor_name[i] : "the rest", first);
        at += bytes;
    }
    free(got);
    return equal;
}

static unsigned char *eager(struct run *run, const struct job *job, glint_cu_stream stream)
{
    job_poison(job, &run->device, 0xaa, 0xaa, stream);
    must(job_run(job, stream), job->info.name);
    DEVICE(&run->device, stream_synchronize, stream);
    return outputs(run, job);
}

static int graph_equals_eager(struct run *run, struct job *job, glint_cu_stream stream)
{
    int ok = 1;
    unsigned char *old = eager(run, job, stream);
    glint_cu_replay replay = capture(run, job, 1, stream);
    for (int pass = 0; pass < 2; pass++) {
        unsigned char *expected = old;
        if (pass == 1) {
            job_inputs(job, &run->device, UINT64_MAX); /* not a seed of job_make */
            expected = eager(run, job, stream);
            if (memcmp(expected, old, job_output_bytes(job)) == 0) {
                printf("  %s: the inputs make no difference\n", job->info.name);
                ok = 0;
            }
        }
        job_poison(job, &run->device, 0x55, 0xff, stream);
        DEVICE(&run->device, graph_launch, replay, stream);
        DEVICE(&run->device, stream_synchronize, stream);
        ok &= same(run, job, expected, pass ? "a replay on new inputs" : "a replay");
        if (pass == 1)
            free(expected);
    }
    free(old);
    DEVICE(&run->device, replay_destroy, replay);
    return ok & guards_hold(run, job);
}

static void check_graphs(struct run *run)
{
    const double start = now();
    glint_cu_stream stream = new_stream(run);
    int ok = 1, count = 0;
    for (uint32_t i = 0; i < glint_variant_count(); i++) {
        struct job job;
        if (!wanted(run, i))
            continue;
        job_make(&job, &run->device, run->context, i, shape_of(i, 2), GLINT_MASK_CAUSAL_TOP_LEFT, i + 1);
        ok &= graph_equals_eager(run, &job, stream);
        job_free(&job, &run->device);
        count++;
    }
    DEVICE(&run->device, stream_destroy, stream);
    verdict(run, "graphs", ok, count, start);
}

/* Lengths number `turn`: any within the bounds, none and all of them among them. */
static void set_lengths(struct run *run, const struct job *job, unsigned long turn)
{
    int32_t lengths[2 * JOB_BATCH];
    const uint32_t batch = (uint32_t)job->problem.batch;
    for (uint32_t i = 0; i < 2 * batch; i++) {
        const uint32_t bound = (uint32_t)(i < batch ? job->problem.seqlen_q : job->problem.seqlen_k);
        const uint32_t mixed = (uint32_t)(turn + 1) * UINT32_C(2654435761) ^ (i + 1) * UINT32_C(2246822519);
        lengths[i] = (int32_t)(mixed >> 29 == 0 ? bound : (mixed >> 7) % (bound + 1));
    }
    job_lengths(job, &run->device, lengths);
}

/* Sequences of the variant whose lengths are on the device. */
static struct job_shape shape_of_lengths(uint32_t variant)
{
    struct job_shape shape = shape_of(variant, 2);
    shape.batch = 5;
    shape.device_lengths = 1;
    return shape;
}

/* Whether the variant is wanted, and has a kernel that reads lengths. */
static int reads_lengths(const struct run *run, uint32_t variant)
{
    return wanted(run, variant) && job_possible(run->context, variant, shape_of_lengths(variant), GLINT_MASK_CAUSAL_BOTTOM_RIGHT);
}

static int one_replay_for_all_lengths(struct run *run, const struct job *job, glint_cu_stream stream, unsigned long replays)
{
    enum { COMPARED = 24 };
    int ok = 1, other = 0;
    set_lengths(run, job, 0);
    unsigned char *first = eager(run, job, stream);
    glint_cu_replay replay = capture(run, job, 1, stream);
    for (unsigned long i = 1; i <= COMPARED && ok; i++) {
        set_lengths(run, job, i);
        unsigned char *expected =
            eager(run, job, stream); /* outputs are poisoned with the same byte: what is not written, too, is the same */
        job_poison(job, &run->device, 0xaa, 0xff, stream);
        DEVICE(&run->device, graph_launch, replay, stream);
        DEVICE(&run->device, stream_synchronize, stream);
        ok = same(run, job, expected, "a replay with other lengths");
        other |= memcmp(first, expected, job_output_bytes(job)) != 0;
        free(expected);
    }
    struct level before = level(run);
    for (unsigned long i = 0; i < replays; i++) {
        set_lengths(run, job, i);
        DEVICE(&run->device, graph_launch, replay, stream);
        DEVICE(&run->device, stream_synchronize, stream); /* lengths are as they are until the call has ended */
    }
    struct level after = level(run);
    ok &= stands_still("replays, each with other lengths", replays, &before, &after);
    if (ok && !other)
        printf("  %s: the lengths make no difference\n", job->info.name);
    free(first);
    DEVICE(&run->device, replay_destroy, replay);
    return ok & other & guards_hold(run, job);
}

static void check_lengths(struct run *run)
{
    const double start = now();
    glint_cu_stream stream = new_stream(run);
    int ok = 1, count = 0, rows = 0;
    for (uint32_t i = 0; i < glint_variant_count(); i++)
        rows += reads_lengths(run, i);
    for (uint32_t i = 0; i < glint_variant_count(); i++) {
        struct job job;
        if (!reads_lengths(run, i))
            continue;
        job_make(&job, &run->device, run->context, i, shape_of_lengths(i), GLINT_MASK_CAUSAL_BOTTOM_RIGHT, i + 1);
        ok &= one_replay_for_all_lengths(run, &job, stream, run->replays / (unsigned)rows + 1);
        job_free(&job, &run->device);
        count++;
    }
    DEVICE(&run->device, stream_destroy, stream);
    if (rows == 0)
        printf("SKIP lengths: no variant here reads lengths on the device\n");
    else
        verdict(run, "lengths", ok, count, start);
}

/* Each run starts from other garbage in outputs and workspace. */
static int repeats(struct run *run, const struct job *job, const struct job *other, glint_cu_stream stream, glint_cu_stream beside)
{
    static const unsigned char garbage[4] = {0x00, 0xaa, 0xff, 0x7f}; /* zeros; a number; NaN; a large number or NaN */
    unsigned char *expected = eager(run, job, stream);
    int ok = 1;
    for (unsigned long i = 0; i < run->runs && ok; i++) {
        must(job_run(other, beside), "beside");
        job_poison(job, &run->device, garbage[i % 4], garbage[i / 4 % 4], stream);
        must(job_run(job, stream), job->info.name);
        DEVICE(&run->device, stream_synchronize, stream);
        ok = same(run, job, expected, "a repeated run");
        if (i % 64 == 63)
            DEVICE(&run->device, stream_synchronize, beside);
    }
    free(expected);
    device_wait(&run->device);
    return ok & guards_hold(run, job);
}

static void check_repeat(struct run *run)
{
    const double start = now();
    glint_cu_stream stream = new_stream(run), beside = new_stream(run);
    int ok = 1, count = 0;
    for (uint32_t i = 0; i < glint_variant_count(); i++) {
        struct job job, other;
        if (!wanted(run, i))
            continue;
        job_make(&job, &run->device, run->context, i, shape_of(i, 3), GLINT_MASK_CAUSAL_BOTTOM_RIGHT, i + 1);
        job_make(&other, &run->device, run->context, i, shape_of(i, 4), GLINT_MASK_CAUSAL_TOP_LEFT, i + 77);
        ok &= repeats(run, &job, &other, stream, beside);
        job_free(&job, &run->device);
        job_free(&other, &run->device);
        count++;
    }
    DEVICE(&run->device, stream_destroy, stream);
    DEVICE(&run->device, stream_destroy, beside);
    verdict(run, "repeat", ok, count, start);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of 4096 calls in microseconds, with no call waiting for room in the stream. */
static double latency(struct run *run, const struct job *job, glint_cu_stream stream, double *slow)
{
    enum { CALLS = 4096, BURST = 64 };
    static double took[CALLS];
    for (int i = 0; i < CALLS; i++) {
        const double start = now();
        must(job_run(job, stream), job->info.name);
        took[i] = 1e6 * (now() - start);
        if (i % BURST == BURST - 1)
            DEVICE(&run->device, stream_synchronize, stream);
    }
    qsort(took, CALLS, sizeof took[0], ascending);
    *slow = took[CALLS * 99 / 100];
    return took[CALLS / 2];
}

static void check_latency(struct run *run)
{
    const double start = now();
    glint_cu_stream stream = new_stream(run);
    double worst[3] = {0.0, 0.0, 0.0}, slowest[3] = {0.0, 0.0, 0.0};
    int count = 0;
    for (uint32_t i = 0; i < glint_variant_count(); i++) {
        struct job job;
        double slow;
        if (!wanted(run, i))
            continue;
        job_make(&job, &run->device, run->context, i, shape_of(i, 1), GLINT_MASK_CAUSAL_BOTTOM_RIGHT, 1);
        (void)latency(run, &job, stream, &slow);
        const double median = latency(run, &job, stream, &slow);
        const uint32_t pass = job.info.pass;
        worst[pass] = median > worst[pass] ? median : worst[pass];
        slowest[pass] = slow > slowest[pass] ? slow : slowest[pass];
        job_free(&job, &run->device);
        count++;
    }
    DEVICE(&run->device, stream_destroy, stream);
    printf("  glint_forward: median %.2f us, 99 %% below %.2f us; glint_backward: %.2f us, %.2f us (each of the worst variant)\n",
           worst[GLINT_FORWARD], slowest[GLINT_FORWARD], worst[GLINT_BACKWARD], slowest[GLINT_BACKWARD]);
    verdict(run, "latency", worst[GLINT_FORWARD] < 8.0, count, start);
}

/* The first device's bits for a variant, then the others', each from its own context, in turn. */
static void check_devices(struct run *run)
{
    enum { DEVICES = 2 };
    const double start = now();
    struct device second;
    struct glint_context *contexts[DEVICES] = {run->context, NULL};
    void *storage = NULL;
    int ok = 1, count = 0;
    if (run->device.count < DEVICES) {
        printf("SKIP devices: there is one GPU\n");
        return;
    }
    if (!device_open(&second, (run->device.ordinal + 1) % run->device.count))
        exit(EXIT_FAILURE);
    contexts[1] = open_context(&storage, second.ordinal); /* opened while its device is current, used while the other one is */
    struct device *devices[DEVICES] = {&run->device, &second};
    for (uint32_t i = 0; i < glint_variant_count(); i++) {
        struct job job[DEVICES];
        unsigned char *bits[DEVICES];
        if (!wanted(run, i) || glint_variant_available(contexts[1], i) != GLINT_OK)
            continue;
        for (int d = 0; d < DEVICES; d++) {
            DEVICE(devices[d], context_set, devices[d]->context);
            job_make(&job[d], devices[d], contexts[d], i, shape_of(i, 2), GLINT_MASK_CAUSAL_TOP_LEFT, i + 1);
            job_poison(&job[d], devices[d], 0xaa, 0xaa, NULL);
        }
        for (int d = 0; d < DEVICES; d++) { /* with the wrong device current, on the default stream of the right one */
            DEVICE(devices[1 - d], context_set, devices[1 - d]->context);
            must(job_run(&job[d], NULL), job[d].info.name);
            glint_cu_context current = NULL;
            DEVICE(devices[d], context_current, &current);
            ok &= current == devices[1 - d]->context;
        }
        for (int d = 0; d < DEVICES; d++) {
            DEVICE(devices[d], context_set, devices[d]->context);
            device_wait(devices[d]);
            bits[d] = malloc(job_output_bytes(&job[d]) + 1);
            if (!bits[d])
                exit(EXIT_FAILURE);
            job_outputs(&job[d], devices[d], bits[d]);
            ok &= job_guards_hold(&job[d], devices[d]);
        }
        if (devices[0]->sm == devices[1]->sm && memcmp(bits[0], bits[1], job_output_bytes(&job[0])) != 0) {
            printf("  %s: the second GPU gives other bits\n", job[0].info.name);
            ok = 0;
        }
        for (int d = 0; d < DEVICES; d++) {
            DEVICE(devices[d], context_set, devices[d]->context);
            job_free(&job[d], devices[d]);
            free(bits[d]);
        }
        count++;
    }
    must(glint_context_close(contexts[1]), "glint_context_close");
    device_close(&second);
    free(storage);
    DEVICE(&run->device, context_set, run->device.context);
    verdict(run, "devices", ok, count, start);
}

/* For compute-sanitizer: every array in an allocation of its own, outputs and workspace never initialised, shapes
 * that are a tile and a bit, both alignments of the mask. The bits are those of the same problem among guards and in
 * a poisoned workspace. */
static void check_bare(struct run *run)
{
    static const enum glint_mask masks[] = {GLINT_MASK_CAUSAL_TOP_LEFT, GLINT_MASK_CAUSAL_BOTTOM_RIGHT};
    const double start = now();
    int ok = 1, count = 0;
    for (uint32_t i = 0; i < glint_variant_count(); i++) {
        struct glint_variant_info info = GLINT_VARIANT_INFO_INIT;
        if (!wanted(run, i))
            continue;
        must(glint_variant_at(i, &info), "glint_variant_at");
        const struct job_shape shapes[] = {{1, 2, 1, info.tile_m + 3, 2 * (int64_t)info.tile_n + 5, 0},
                                           {2, 1, 1, 1, info.tile_n - 1, 0}};
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
            for (int mask = 0; mask <= ((info.features & GLINT_FEATURE_RIGHT_BOUND) ? 1 : 0); mask++) {
                struct job job;
                job_make(&job, &run->device, run->context, i, shapes[s], masks[mask], i + 1);
                job_poison(&job, &run->device, 0xaa, 0xaa, NULL);
                must(job_run(&job, NULL), info.name);
                unsigned char *expected = outputs(run, &job);
                ok &= job_guards_hold(&job, &run->device);
                job_spread(&job, &run->device);
                must(job_run(&job, NULL), info.name);
                ok &= same(run, &job, expected, "the result in allocations of its own");
                job_free(&job, &run->device);
                free(expected);
            }
        count++;
    }
    verdict(run, "bare", ok, count, start);
}

static void name_variants(struct run *run)
{
    const double start = now();
    int count = 0;
    for (uint32_t i = 0; i < glint_variant_count(); i++) {
        struct glint_variant_info info = GLINT_VARIANT_INFO_INIT;
        if (!wanted(run, i))
            continue;
        must(glint_variant_at(i, &info), "glint_variant_at");
        printf("variant %s\n", info.name);
        count++;
    }
    verdict(run, "names", 1, count, start);
}

/* Reads through an address that nobody has mapped. */
static void check_lost(struct run *run)
{
    const double start = now();
    int ok = 1, count = 0;
    for (uint32_t i = 0; i < glint_variant_count() && count == 0; i++) {
        struct job job;
        if (!wanted(run, i))
            continue;
        job_make(&job, &run->device, run->context, i, shape_of(i, 1), GLINT_MASK_CAUSAL_TOP_LEFT, 1);
        struct job broken = job;
        broken.tensors.q = (void *)(uintptr_t)(UINT64_C(1) << 46);
        const enum glint_status status = job_run(&broken, NULL); /* its second kernel may hear of the first one's fault */
        ok &= status == GLINT_OK || status == GLINT_DEVICE_LOST;
        const glint_cu_result result = run->device.driver.context_synchronize();
        ok &= result != GLINT_CU_SUCCESS && job_run(&job, NULL) == GLINT_DEVICE_LOST && job_run(&job, NULL) == GLINT_DEVICE_LOST;
        ok &= glint_context_driver_error(run->storage) == (int32_t)result;
        const enum glint_status closed = glint_context_close(run->context);
        ok &= closed == GLINT_OK || closed == GLINT_DEVICE_LOST;
        ok &= glint_context_close(run->context) == GLINT_CONTEXT_CLOSED && job_run(&job, NULL) == GLINT_CONTEXT_CLOSED;
        printf("  the driver answers %u; closing: %s\n", result, glint_status_name(closed));
        count++;
    }
    run->context = NULL;
    verdict(run, "lost", ok, count, start);
}

static const struct {
    const char *name;
    void (*check)(struct run *run);
    int in_all;
} checks[] = {
    {"selftest", check_selftest, 1}, {"graphs", check_graphs, 1},   {"lengths", check_lengths, 1}, {"repeat", check_repeat, 1},
    {"memory", check_memory, 1},     {"latency", check_latency, 1}, {"devices", check_devices, 1}, {"bare", check_bare, 0},
    {"names", name_variants, 0},     {"lost", check_lost, 0},
};

static int usage(void)
{
    fprintf(stderr,
            "usage: on_device [--device N] [--launches N] [--replays N] [--runs N] [--only TEXT]... [--without TEXT] CHECK...\n"
            "CHECK: all");
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++)
        fprintf(stderr, " %s", checks[i].name);
    fprintf(stderr, "\n");
    return 2;
}

static int known(const char *name)
{
    int found = strcmp(name, "all") == 0;
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++)
        found |= strcmp(name, checks[i].name) == 0;
    return found;
}

int main(int argc, char **argv)
{
    static struct run run = {.launches = 1000000, .replays = 10000, .runs = 1000};
    int ordinal = 0, first = 1;
    for (; first + 1 < argc && strncmp(argv[first], "--", 2) == 0; first += 2) {
        const unsigned long value = strtoul(argv[first + 1], NULL, 10);
        if (strcmp(argv[first], "--device") == 0)
            ordinal = (int)value;
        else if (strcmp(argv[first], "--launches") == 0)
            run.launches = value;
        else if (strcmp(argv[first], "--replays") == 0)
            run.replays = value;
        else if (strcmp(argv[first], "--runs") == 0)
            run.runs = value;
        else if (strcmp(argv[first], "--only") == 0 && run.only_count < (int)(sizeof run.only / sizeof run.only[0]))
            run.only[run.only_count++] = argv[first + 1];
        else if (strcmp(argv[first], "--without") == 0)
            run.without = argv[first + 1];
        else
            return usage();
    }
    if (first >= argc)
        return usage();
    for (int a = first; a < argc; a++)
        if (!known(argv[a]))
            return usage();
    if (!device_open(&run.device, ordinal)) {
        printf("no GPU: nothing was checked\n");
        return NO_GPU;
    }
    const double start = now();
    run.context = open_context(&run.storage, ordinal);
    struct glint_device_info info = GLINT_DEVICE_INFO_INIT;
    must(glint_context_device(run.context, &info), "glint_context_device");
    printf("%s, sm_%u, %u multiprocessors, driver %d; %u of %u variants run here; context of %zu bytes opened in %.2f s\n",
           run.device.name, info.sm, info.concurrency, run.device.driver_version, info.variants_loaded, glint_variant_count(),
           glint_context_size(), now() - start);
    for (int a = first; a < argc; a++)
        for (size_t i = 0; i < sizeof checks / sizeof checks[0] && run.context; i++)
            if (strcmp(argv[a], checks[i].name) == 0 || (checks[i].in_all && strcmp(argv[a], "all") == 0))
                checks[i].check(&run);
    if (run.context)
        must(glint_context_close(run.context), "glint_context_close");
    printf("%d checks, %d failed\n", run.checks, run.failures);
    return run.checks > 0 && run.variants > 0 && run.failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
