/* How long single calls take, at worst: planning, a refusal, a query against a cache and a small forward pass, on one
 * thread of the CPU.
 *
 *   jitter [--calls N]      N calls of each, 1000000 if not given; nanoseconds: median, 99 %, 99.99 %, the longest,
 *                           and the longest over the median
 *
 * The clock itself is the first line. What a call takes beyond its median is almost all the machine's: interrupts,
 * other programs, a clock that changes. For a bound on a product's own machine: an isolated core (isolcpus, nohz_full),
 * SCHED_FIFO, a fixed frequency:
 *
 *   chrt -f 80 taskset -c 3 bazel-bin/bench/jitter */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "glint.h"

enum { HEADS = 4, KEYS = 256, ROWS = 16, MOST_DIM = 256, WORKSPACE = 1 << 22 };

static _Alignas(64) unsigned char storage[1 << 20];
static _Alignas(GLINT_WORKSPACE_ALIGNMENT) unsigned char workspace[WORKSPACE];
static float q[ROWS * HEADS * MOST_DIM], k[KEYS * HEADS * MOST_DIM], v[KEYS * HEADS * MOST_DIM], o[ROWS * HEADS * MOST_DIM],
    lse[ROWS * HEADS];

struct subject {
    struct glint_context *context;
    struct glint_problem problem, refused;
    struct glint_plan plan;
    struct glint_tensors tensors;
};

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static enum glint_status nothing(struct subject *s)
{
    (void)s;
    return GLINT_OK;
}

static enum glint_status plan(struct subject *s)
{
    return glint_plan(s->context, &s->problem, GLINT_FORWARD, &s->plan);
}

static enum glint_status refuse(struct subject *s)
{
    struct glint_plan none;
    return glint_plan(s->context, &s->refused, GLINT_FORWARD, &none) == GLINT_OK ? GLINT_BAD_PLAN : GLINT_OK;
}

static enum glint_status cost(struct subject *s)
{
    struct glint_cost c = {.struct_size = sizeof c};
    return glint_plan_cost(&s->plan, &c);
}

static enum glint_status run(struct subject *s)
{
    return glint_forward(&s->plan, &s->tensors, workspace, sizeof workspace, NULL);
}

static int compare(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int measure(const char *name, enum glint_status (*call)(struct subject *), struct subject *s, uint32_t *times, size_t calls)
{
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    for (size_t i = 0; i < calls + calls / 100; i++) { /* the first hundredth warms up */
        const uint64_t begin = now();
        const enum glint_status status = call(s);
        const uint64_t taken = now() - begin;
        if (status != GLINT_OK)
            return printf("%s: %s\n", name, glint_status_name(status)), 1;
        if (i >= calls / 100)
            times[i - calls / 100] = taken < UINT32_MAX ? (uint32_t)taken : UINT32_MAX;
    }
    getrusage(RUSAGE_SELF, &after);
    qsort(times, calls, sizeof *times, compare);
    const uint32_t median = times[calls / 2], longest = times[calls - 1];
    printf("%-28s %8u %8u %8u %10u %8.2f %8ld\n", name, median, times[calls - 1 - calls / 100], times[calls - 1 - calls / 10000],
           longest, median > 0 ? (double)longest / median : 0.0, after.ru_nivcsw - before.ru_nivcsw);
    return 0;
}

int main(int argc, char **argv)
{
    const size_t calls = argc == 3 && strcmp(argv[1], "--calls") == 0 ? (size_t)strtoull(argv[2], NULL, 10) : 1000000;
    struct subject s = {0};
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = GLINT_DEVICE_CPU;
    if (argc > 3 || argc == 2 || calls < 100 || calls > 100000000)
        return fprintf(stderr, "usage: jitter [--calls N], N from 100 to 100000000\n"), 2;
    if (glint_context_size() > sizeof storage || glint_context_init(storage, sizeof storage, &options, &s.context) != GLINT_OK)
        return fprintf(stderr, "jitter: no context\n"), 1;
    uint32_t *times = malloc(calls * sizeof *times);
    for (size_t i = 0; i < sizeof k / sizeof k[0]; i++)
        k[i] = v[i] = (float)(i % 31) / 31.0f - 0.5f;
    for (size_t i = 0; i < sizeof q / sizeof q[0]; i++)
        q[i] = (float)(i % 29) / 29.0f - 0.5f;
    s.tensors = (struct glint_tensors)GLINT_TENSORS_INIT;
    s.tensors.q = q, s.tensors.k = k, s.tensors.v = v, s.tensors.o = o, s.tensors.lse = lse;

    int64_t dim; /* the smallest from 32 on that the table has */
    for (dim = 32; dim <= MOST_DIM; dim += 8) {
        glint_problem_bshd(&s.problem, GLINT_F32, 1, ROWS, ROWS, HEADS, HEADS, dim);
        if (plan(&s) == GLINT_OK)
            break;
    }
    s.refused = s.problem;
    s.refused.batch = 0;
    printf("%zu calls of each on one thread, float32, %d heads of %lld; nanoseconds\n", calls, HEADS, (long long)dim);
    printf("%-28s %8s %8s %8s %10s %8s %8s\n", "", "p50", "p99", "p99.99", "most", "/ p50", "switches");
    int failed = measure("the clock", nothing, &s, times, calls) || measure("glint_plan", plan, &s, times, calls) ||
                 measure("glint_plan, refused", refuse, &s, times, calls) || measure("glint_plan_cost", cost, &s, times, calls) ||
                 measure("glint_forward, 16 x 16", run, &s, times, calls);
    glint_problem_bshd(&s.problem, GLINT_F32, 1, 1, KEYS, HEADS, HEADS, dim);
    failed = failed || plan(&s) != GLINT_OK || measure("glint_forward, 1 x 256", run, &s, times, calls);
    free(times);
    return failed || glint_context_close(s.context) != GLINT_OK;
}
