/* How long single calls take, at worst: planning, a refusal, a query against a cache and a small forward pass, on one
 * thread of the CPU, and the decode calls of a token in a graph on a GPU.
 *
 *   jitter [--calls N] [--replays N]
 *
 * N calls of each, 1000000 if not given; nanoseconds: median, 99 %, 99.99 %, the longest, and the longest over the
 * median. Replays of the graph are none if not given. Each is timed by the device, from an event ahead of it to one
 * behind it; the line before it is of two events with nothing between them.
 *
 * Planning's own tail, apart from the machine's: each of N problems that are drawn from a seed is planned TIMES
 * times in a row, and the least of these times counts. An interruption is in some of them; what the problem itself
 * takes is in all. The first of each TIMES, ahead of which a thousand other problems were planned, has a line of its
 * own, and the loop of multiplications has the same two lines. An interruption may be longer than all TIMES, and slow
 * what follows: so the slowest hundredth, by their least, is planned AGAIN times more, and `slowest again` is all N
 * problems after that. The caches then have the problem's rows of the table: `cold` is for what they take without.
 *
 * The clock itself is the first line. `multiplications` is a loop of them in registers, about as long as planning,
 * which calls nothing and reads no memory: the two are timed in turn, so that what both have in their tails is the
 * machine's. `cold` are a thousandth of the calls, each after a walk over more memory than caches have. What a call
 * takes beyond its median is almost all the machine's: interrupts, other programs, a clock that changes. `switched`
 * counts the calls in which the system took the core away, as the thread's ru_nivcsw says, which is read between two
 * calls; the two columns before it leave them out. Interrupts are left in: `interrupts` is how many /proc/interrupts
 * counts meanwhile on the core where the calls end, and `> 2 p50` how many calls took longer than twice the median. For
 * a bound on a product's own machine: an isolated core (isolcpus, nohz_full), SCHED_FIFO, a fixed frequency:
 *
 *   chrt -f 80 taskset -c 3 bazel-bin/bench/jitter */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "bench/drawn_problems.h"
#include "glint.h"
#include "tests/cuda/device.h"

enum { HEADS = 4, KEYS = 256, ROWS = 16, MOST_DIM = 256, WORKSPACE = 1 << 22, CACHES = 1 << 26, LINE = 64, PRODUCTS = 1000 };

/* Planning's own tail. */
enum { SEED = 29, TIMES = 8, AGAIN = 200, BLOCK = 1000 };

/* The token's calls: a layer each, with a cache of its own, so that keys come from memory. */
enum { LAYERS = 32, CACHE_KEYS = 4096, CACHE_HEADS = 8, QUERY_HEADS = 32, CACHE_DIM = 128, IN_FLIGHT = 64 };

static _Alignas(64) unsigned char storage[1 << 20];
static _Alignas(GLINT_WORKSPACE_ALIGNMENT) unsigned char workspace[WORKSPACE];
static volatile unsigned char walked[CACHES];
static float q[ROWS * HEADS * MOST_DIM], k[KEYS * HEADS * MOST_DIM], v[KEYS * HEADS * MOST_DIM], o[ROWS * HEADS * MOST_DIM],
    lse[ROWS * HEADS];

struct subject {
    struct glint_context *context;
    struct glint_problem problem, refused;
    struct glint_plan plan;
    struct glint_tensors tensors;
    uint64_t products;
};

/* A call that is timed, and its times: those of calls with a switch come from the end. */
struct timed {
    const char *name;
    enum glint_status (*call)(struct subject *);
    void (*ahead)(void); /* of each call, and not timed; or NULL */
    uint32_t *times;     /* [calls] */
    size_t quiet, switched;
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

static enum glint_status multiply(struct subject *s)
{
    uint64_t product = s->products;
    for (int i = 0; i < PRODUCTS; i++)
        product = product * UINT64_C(0xbf58476d1ce4e5b9) + 1;
    s->products = product;
    return GLINT_OK;
}

/* Pushes out of the caches what is in them. */
static void walk(void)
{
    for (size_t i = 0; i < CACHES; i += LINE)
        walked[i]++;
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

/* How often the system has taken the core away from this thread. */
static long switches(void)
{
    struct rusage now;
    getrusage(RUSAGE_THREAD, &now);
    return now.ru_nivcsw;
}

/* All interrupts of this core until now; 0 where the system does not say. */
static unsigned long long interrupts(void)
{
    const int core = sched_getcpu();
    unsigned long long sum = 0;
    char line[8192];
    FILE *file = fopen("/proc/interrupts", "r");
    for (int row = 0, column = -1; file && fgets(line, sizeof line, file); row++) {
        char *word = strtok(line, " \n"), *end;
        for (int i = row == 0 ? 0 : -1; word && (row == 0 || i < column); i++, word = strtok(NULL, " \n"))
            if (row == 0 && strncmp(word, "CPU", 3) == 0 && atoi(word + 3) == core)
                column = i;
        const unsigned long long count = word ? strtoull(word, &end, 10) : 0;
        sum += row > 0 && column >= 0 && word && *end == '\0' ? count : 0;
    }
    if (file)
        fclose(file);
    return sum;
}

static const uint32_t *one_in(const uint32_t *times, size_t count, size_t of)
{
    return &times[count - 1 - count / of];
}

static void print_columns(void)
{
    printf("%-28s %8s %8s %8s %10s %10s %8s %8s %8s %8s %10s\n", "", "p50", "p99", "p99.99", "most", "/ p50", "p99.99 -", "most -",
           "switched", "> 2 p50", "interrupts");
}

/* Sorts the times and prints their line. The last `switched` of them were of calls in which the core was taken away. */
static void print(const char *name, uint32_t *times, size_t calls, size_t switched, unsigned long long interrupted)
{
    const size_t quiet = calls - switched;
    uint32_t quiet_tail = 0, quiet_most = 0;
    if (quiet > 0) {
        qsort(times, quiet, sizeof *times, compare);
        quiet_tail = *one_in(times, quiet, 10000);
        quiet_most = times[quiet - 1];
    }
    qsort(times, calls, sizeof *times, compare);
    const uint32_t median = times[calls / 2], longest = times[calls - 1];
    size_t slow = 0;
    while (slow < calls && times[calls - 1 - slow] > 2 * (uint64_t)median)
        slow++;
    const uint32_t percent = *one_in(times, calls, 100), tail = *one_in(times, calls, 10000);
    printf("%-28s %8u %8u %8u %10u %10.3f %8u %8u %8zu %8zu %10llu\n", name, median, percent, tail, longest,
           median > 0 ? (double)longest / median : 0.0, quiet_tail, quiet_most, switched, slow, interrupted);
}

/* Times several calls in turn. The interrupts are those of all of them. */
static int measure_in_turn(struct timed *timed, int count, struct subject *s, size_t calls)
{
    const unsigned long long interrupts_before = interrupts();
    long before = switches();
    for (size_t i = 0; i < calls + calls / 100; i++) /* the first hundredth warms up */
        for (struct timed *t = timed; t < timed + count; t++) {
            if (t->ahead) {
                t->ahead();
                before = switches();
            }
            const uint64_t begin = now();
            const enum glint_status status = t->call(s);
            const uint64_t taken = now() - begin;
            const long after = switches();
            if (status != GLINT_OK)
                return printf("%s: %s\n", t->name, glint_status_name(status)), 1;
            if (i >= calls / 100)
                t->times[after == before ? t->quiet++ : calls - ++t->switched] = taken < UINT32_MAX ? (uint32_t)taken : UINT32_MAX;
            before = after;
        }
    const unsigned long long interrupted = interrupts() - interrupts_before;
    for (int i = 0; i < count; i++)
        print(timed[i].name, timed[i].times, calls, timed[i].switched, interrupted);
    return 0;
}

/* The least time of a drawn problem. */
struct least {
    uint32_t time, index;
};

static int slowest_first(const void *a, const void *b)
{
    const struct least *x = a, *y = b;
    return x->time != y->time ? (x->time < y->time) - (x->time > y->time) : (x->index > y->index) - (x->index < y->index);
}

static uint32_t clocked(const struct drawn_problem *drawn, struct subject *s)
{
    struct glint_plan made;
    const uint64_t begin = now();
    if (drawn)
        (void)glint_plan(s->context, &drawn->problem, drawn->pass, &made);
    else
        (void)multiply(s);
    const uint64_t taken = now() - begin;
    return taken < UINT32_MAX ? (uint32_t)taken : UINT32_MAX;
}

/* Of some calls in a row: the first one's time, and the least. */
static uint32_t least_of(const struct drawn_problem *drawn, struct subject *s, int times, uint32_t *first)
{
    uint32_t least = UINT32_MAX;
    for (int i = 0; i < times; i++) {
        const uint32_t taken = clocked(drawn, s);
        if (i == 0 && first)
            *first = taken;
        least = taken < least ? taken : least;
    }
    return least;
}

static void print_leasts(const char *name, const struct least *leasts, size_t count, uint32_t *times)
{
    for (size_t i = 0; i < count; i++)
        times[i] = leasts[i].time;
    print(name, times, count, 0, 0);
}

/* The slowest hundredth of the drawn problems once more. */
static int measure_again(struct subject *s, struct least *leasts, size_t calls, uint32_t *times)
{
    struct drawn_problem drawn;
    struct glint_plan made;
    struct glint_variant_info row = GLINT_VARIANT_INFO_INIT;
    qsort(leasts, calls, sizeof *leasts, slowest_first);
    for (size_t i = 0; i < calls / 100; i++) {
        if (!draw_problem(s->context, SEED, leasts[i].index, &drawn))
            return 1;
        const uint32_t again = least_of(&drawn, s, AGAIN, NULL);
        leasts[i].time = again < leasts[i].time ? again : leasts[i].time;
    }
    qsort(leasts, calls, sizeof *leasts, slowest_first);
    print_leasts("glint_plan, slowest again", leasts, calls, times);
    if (!draw_problem(s->context, SEED, leasts[0].index, &drawn) ||
        glint_plan(s->context, &drawn.problem, drawn.pass, &made) != GLINT_OK || glint_variant_at(made.variant, &row) != GLINT_OK)
        return 1;
    const struct glint_problem *p = &drawn.problem;
    printf(
        "    the slowest is number %lu of seed %d: %s, %lld x %lld x %lld, %lld heads of %lld, lengths %u, order %u, pages of %lld\n",
        (unsigned long)leasts[0].index, SEED, row.name, (long long)p->batch, (long long)p->seqlen_q, (long long)p->seqlen_k,
        (long long)p->heads_q, (long long)p->heads_kv, p->lengths, p->order, (long long)p->page_rows);
    return 0;
}

/* Planning's own tail, and the loop's beside it. */
static int measure_drawn(struct subject *s, uint32_t *times, size_t calls)
{
    static struct drawn_problem drawn[BLOCK];
    struct least *leasts = malloc(2 * calls * sizeof *leasts), *of_loop = leasts + calls;
    if (!leasts)
        return printf("jitter: no memory\n"), 1;
    for (size_t from = 0; from < calls; from += BLOCK) {
        const size_t block = calls - from < BLOCK ? calls - from : BLOCK;
        for (size_t i = 0; i < block; i++)
            if (!draw_problem(s->context, SEED, from + i, &drawn[i]))
                return free(leasts), printf("jitter: no problem can be drawn\n"), 1;
        for (size_t i = 0; i < block; i++) {
            const size_t at = from + i;
            leasts[at] = (struct least){least_of(&drawn[i], s, TIMES, &times[at]), (uint32_t)at};
            of_loop[at] = (struct least){least_of(NULL, s, TIMES, &times[calls + at]), (uint32_t)at};
        }
    }
    print("glint_plan, drawn, first", times, calls, 0, 0);
    print("multiplications, first", times + calls, calls, 0, 0);
    print_leasts("glint_plan, drawn, least", leasts, calls, times);
    print_leasts("multiplications, least", of_loop, calls, times);
    const int failed = measure_again(s, leasts, calls, times);
    free(leasts);
    return failed;
}

static int measure(const char *name, enum glint_status (*call)(struct subject *), struct subject *s, uint32_t *times, size_t calls)
{
    struct timed timed = {.name = name, .call = call, .times = times};
    return measure_in_turn(&timed, 1, s, calls);
}

/* Planning beside what no library is in, and from cold caches. */
static int measure_planning(struct subject *s, uint32_t *times, size_t calls)
{
    struct timed both[2] = {{.name = "multiplications", .call = multiply, .times = times + calls},
                            {.name = "glint_plan", .call = plan, .times = times}};
    struct timed cold[2] = {{.name = "multiplications, cold", .call = multiply, .ahead = walk, .times = times + calls},
                            {.name = "glint_plan, cold", .call = plan, .ahead = walk, .times = times}};
    return measure_in_turn(both, 2, s, calls) || (calls >= 100000 && measure_in_turn(cold, 2, s, calls / 1000));
}

static void must(enum glint_status status, const char *what)
{
    if (status == GLINT_OK)
        return;
    printf("%s: %s\n", what, glint_status_sentence(status));
    exit(1);
}

/* Times replays on a stream that always has the next ones behind it; a NULL graph is nothing between two events. */
static void replay(const char *name, struct device *d, glint_cu_replay graph, glint_cu_stream stream, uint32_t *times,
                   size_t replays)
{
    glint_cu_event from[IN_FLIGHT], to[IN_FLIGHT];
    for (int i = 0; i < IN_FLIGHT; i++) {
        DEVICE(d, event_create, &from[i], 0);
        DEVICE(d, event_create, &to[i], 0);
    }
    const size_t warm = replays / 100, all = warm + replays;
    for (size_t i = 0; i < all + IN_FLIGHT; i++) {
        const size_t at = i % IN_FLIGHT;
        if (i >= IN_FLIGHT) {
            float ms = 0;
            DEVICE(d, event_synchronize, to[at]);
            DEVICE(d, event_elapsed, &ms, from[at], to[at]);
            if (i - IN_FLIGHT >= warm)
                times[i - IN_FLIGHT - warm] = (uint32_t)(1e6f * ms);
        }
        if (i < all) {
            DEVICE(d, event_record, from[at], stream);
            if (graph)
                DEVICE(d, graph_launch, graph, stream);
            DEVICE(d, event_record, to[at], stream);
        }
    }
    print(name, times, replays, 0, 0); /* the device's time, whatever the host does */
    for (int i = 0; i < IN_FLIGHT; i++) {
        DEVICE(d, event_destroy, from[i]);
        DEVICE(d, event_destroy, to[i]);
    }
}

/* A query of each layer against its cache, in a graph. */
static int measure_graph(size_t replays)
{
    struct device d;
    if (!device_open(&d, 0))
        return printf("a GPU is wanted\n"), 1;
    uint32_t *times = malloc(replays * sizeof *times);
    void *room = aligned_alloc(GLINT_CONTEXT_ALIGNMENT, glint_context_size());
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = GLINT_DEVICE_CUDA_CURRENT;
    struct glint_context *context;
    struct glint_problem problem;
    struct glint_plan plan;
    struct glint_variant_info row = GLINT_VARIANT_INFO_INIT;
    must(glint_context_init(room, glint_context_size(), &options, &context), "glint_context_init");
    glint_problem_bshd(&problem, GLINT_BF16, 1, 1, CACHE_KEYS, QUERY_HEADS, CACHE_HEADS, CACHE_DIM);
    must(glint_plan(context, &problem, GLINT_FORWARD, &plan), "glint_plan");
    must(glint_variant_at(plan.variant, &row), "glint_variant_at");

    const size_t cache = (size_t)CACHE_KEYS * CACHE_HEADS * CACHE_DIM * 2, query = (size_t)QUERY_HEADS * CACHE_DIM * 2;
    struct glint_tensors tensors = GLINT_TENSORS_INIT;
    void *keys = device_alloc(&d, 2 * LAYERS * cache), *queries = device_alloc(&d, 2 * query);
    void *of_rows = device_alloc(&d, QUERY_HEADS * sizeof(float)); /* LSE */
    void *scratch = device_alloc(&d, plan.workspace_bytes > 0 ? plan.workspace_bytes : 1);
    device_set(&d, keys, 0x3c, 2 * LAYERS * cache, NULL); /* 0.0115 */
    device_set(&d, queries, 0x3c, query, NULL);
    device_wait(&d);
    tensors.q = queries;
    tensors.o = (char *)queries + query;
    tensors.lse = of_rows;

    glint_cu_stream stream;
    glint_cu_graph graph = NULL;
    glint_cu_replay token = NULL;
    DEVICE(&d, stream_create, &stream, DEVICE_STREAM_NON_BLOCKING);
    DEVICE(&d, capture_begin, stream, DEVICE_CAPTURE_GLOBAL);
    for (size_t i = 0; i < LAYERS; i++) {
        tensors.k = (char *)keys + 2 * i * cache;
        tensors.v = (char *)keys + (2 * i + 1) * cache;
        must(glint_forward(&plan, &tensors, scratch, plan.workspace_bytes, stream), "glint_forward");
    }
    DEVICE(&d, capture_end, stream, &graph);
    DEVICE(&d, graph_instantiate, &token, graph, 0);
    printf("%zu replays of a graph of %d calls, %s: 1 query x %d keys, bf16, %d heads of %d, %d of keys; %s, driver %d\n", replays,
           LAYERS, row.name, CACHE_KEYS, QUERY_HEADS, CACHE_DIM, CACHE_HEADS, d.name, d.driver_version);
    print_columns();
    replay("two events", &d, NULL, stream, times, replays);
    replay("a graph of decode calls", &d, token, stream, times, replays);
    DEVICE(&d, replay_destroy, token);
    DEVICE(&d, graph_destroy, graph);
    DEVICE(&d, stream_destroy, stream);
    device_free(&d, scratch);
    device_free(&d, of_rows);
    device_free(&d, queries);
    device_free(&d, keys);
    must(glint_context_close(context), "glint_context_close");
    device_close(&d);
    free(room);
    free(times);
    return 0;
}

/* The number behind an option, or what is taken without it. */
static size_t number(int argc, char **argv, const char *option, size_t otherwise)
{
    for (int i = 1; i + 1 < argc; i += 2)
        if (strcmp(argv[i], option) == 0)
            return (size_t)strtoull(argv[i + 1], NULL, 10);
    return otherwise;
}

int main(int argc, char **argv)
{
    const size_t calls = number(argc, argv, "--calls", 1000000), replays = number(argc, argv, "--replays", 0);
    struct subject s = {0};
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = GLINT_DEVICE_CPU;
    for (int i = 1; i < argc; i += 2)
        if (i + 1 == argc || (strcmp(argv[i], "--calls") != 0 && strcmp(argv[i], "--replays") != 0))
            return fprintf(stderr, "usage: jitter [--calls N] [--replays N]\n"), 2;
    if (calls < 100 || calls > 100000000 || (replays != 0 && replays < 100) || replays > 100000000)
        return fprintf(stderr, "jitter: from 100 to 100000000 calls and replays\n"), 2;
    if (glint_context_size() > sizeof storage || glint_context_init(storage, sizeof storage, &options, &s.context) != GLINT_OK)
        return fprintf(stderr, "jitter: no context\n"), 1;
    uint32_t *times = malloc(2 * calls * sizeof *times);
    if (!times)
        return fprintf(stderr, "jitter: no memory\n"), 1;
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
    print_columns();
    int failed = measure("the clock", nothing, &s, times, calls) || measure_planning(&s, times, calls) ||
                 measure_drawn(&s, times, calls) || measure("glint_plan, refused", refuse, &s, times, calls) ||
                 measure("glint_plan_cost", cost, &s, times, calls) || measure("glint_forward, 16 x 16", run, &s, times, calls);
    glint_problem_bshd(&s.problem, GLINT_F32, 1, 1, KEYS, HEADS, HEADS, dim);
    failed = failed || plan(&s) != GLINT_OK || measure("glint_forward, 1 x 256", run, &s, times, calls);
    free(times);
    failed = failed || glint_context_close(s.context) != GLINT_OK;
    return failed || (replays > 0 && measure_graph(replays));
}
