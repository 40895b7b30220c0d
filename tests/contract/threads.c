/* Any number of threads may use one context, each with a workspace of its own: every thread gets the bits that one
 * thread alone gets, for any concurrency of the executor. Under --config=tsan this is also the race test. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/contract/suite.h"
#include "tests/contract/world.h"

enum { THREADS = 8, ROWS = 12, ROUNDS = CONTRACT_SANITIZED || CONTRACT_EMULATED ? 2 : 6 };

/* An executor that starts threads, so that bodies of one call race with each other too. */
struct body_range {
    void (*body)(void *argument, uint32_t index);
    void *argument;
    uint32_t index;
};
static void *run_body(void *argument)
{
    struct body_range *const b = argument;
    b->body(b->argument, b->index);
    return NULL;
}
static void spawning_for(void *user, uint32_t count, void (*body)(void *argument, uint32_t index), void *argument)
{
    pthread_t threads[8];
    struct body_range ranges[8];
    (void)user;
    if (count > 8)
        abort();
    for (uint32_t i = 0; i < count; i++)
        ranges[i] = (struct body_range){body, argument, count - 1 - i}; /* the last index first */
    for (uint32_t i = 0; i + 1 < count; i++) {
        if (pthread_create(&threads[i], NULL, run_body, &ranges[i]) != 0)
            abort();
    }
    if (count > 0)
        run_body(&ranges[count - 1]);
    for (uint32_t i = 0; i + 1 < count; i++)
        pthread_join(threads[i], NULL);
}

struct job {
    const struct glint_context *context;
    struct call calls[ROWS]; /* this thread's own tensors and workspaces */
    size_t count;
    unsigned char *expected[ROWS];
    atomic_int *failures;
};

static void make_calls(struct job *job, const struct glint_context *context)
{
    const uint32_t rows = glint_variant_count();
    uint32_t available = 0, seen = 0;
    for (uint32_t i = 0; i < rows; i++)
        available += glint_variant_available(context, i) == GLINT_OK;
    const uint32_t step = available / ROWS + 1;
    job->context = context;
    job->count = 0;
    for (uint32_t i = 0; i < rows && job->count < ROWS; i++) {
        if (glint_variant_available(context, i) != GLINT_OK || seen++ % step != 0)
            continue;
        const struct glint_variant_info info = row_at(i);
        struct glint_problem p;
        glint_problem_bshd(&p, (enum glint_dtype)info.dtype, 2, info.tile_m + 7, info.tile_n / 2 + 3, 4, 2, info.head_dim);
        serve_cache(&p, &info);
        p.mask = row_mask(&info, i % 2 == 0);
        if ((info.features & GLINT_FEATURE_LEFT_BOUND) != 0)
            p.window_left = info.tile_n / 4;
        struct call *const c = &job->calls[job->count++];
        call_make(c, context, &p, (enum glint_pass)info.pass, 40 + i);
        if (info.pass == GLINT_BACKWARD)
            call_fill_forward(c, context);
    }
}

static void drop_calls(struct job *job)
{
    for (size_t i = 0; i < job->count; i++)
        call_free(&job->calls[i]);
}

static bool outputs_equal(const struct call *c, const unsigned char *expected)
{
    for (enum tensor t = Q; t < TENSORS; t++) {
        if (pass_writes(c->pass, t) && memcmp(c->block + c->offset[t], expected + c->offset[t], c->bytes[t]) != 0)
            return false;
    }
    return true;
}

static void *work(void *argument)
{
    struct job *const job = argument;
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < job->count; i++) {
            struct call *const c = &job->calls[i];
            struct glint_plan plan;
            char text[512];
            for (enum tensor t = Q; t < TENSORS; t++) {
                if (pass_writes(c->pass, t))
                    memset(c->block + c->offset[t], round, c->bytes[t]);
            }
            if (glint_plan(job->context, &c->problem, c->pass, &plan) != GLINT_OK || plan.workspace_bytes != c->workspace_bytes ||
                glint_explain(job->context, &c->problem, c->pass, text, sizeof text, NULL) != GLINT_OK || call_run(c) != GLINT_OK ||
                !outputs_equal(c, job->expected[i]) || !call_canaries_hold(c))
                atomic_fetch_add(job->failures, 1);
        }
    }
    return NULL;
}

/* One thread, serial executor, sets the bits; then `threads` at a time on a context with `concurrency`. */
static void same_bits(uint32_t concurrency, int threads)
{
    static struct job jobs[THREADS];
    static struct job alone;
    pthread_t ids[THREADS];
    atomic_int failures = 0;
    void *serial_storage, *storage = aligned_memory(GLINT_CONTEXT_ALIGNMENT, glint_context_size());
    struct glint_context *const serial = open_serial(&serial_storage);
    make_calls(&alone, serial);
    for (size_t i = 0; i < alone.count; i++) {
        EXPECT(call_run(&alone.calls[i]) == GLINT_OK, "serial call %zu", i);
        EXPECT(call_canaries_hold(&alone.calls[i]), "serial call %zu wrote outside", i);
    }
    struct glint_options options = GLINT_OPTIONS_INIT;
    struct glint_context *context = NULL;
    options.device = GLINT_DEVICE_CPU;
    options.executor = (struct glint_executor){sizeof options.executor, concurrency, spawning_for, NULL};
    EXPECT(glint_context_init(storage, glint_context_size(), &options, &context) == GLINT_OK, "init");
    for (int t = 0; t < threads; t++) {
        make_calls(&jobs[t], context);
        EXPECT(jobs[t].count == alone.count && alone.count > 0, "%zu calls", jobs[t].count);
        jobs[t].failures = &failures;
        for (size_t i = 0; i < alone.count; i++)
            jobs[t].expected[i] = alone.calls[i].block;
    }
    for (int t = 0; t < threads; t++) {
        if (pthread_create(&ids[t], NULL, work, &jobs[t]) != 0)
            abort();
    }
    for (int t = 0; t < threads; t++)
        pthread_join(ids[t], NULL);
    EXPECT(atomic_load(&failures) == 0, "%d of %zu calls differ from one thread's", atomic_load(&failures),
           (size_t)threads * ROUNDS * alone.count);
    contract_note("concurrency %u: %zu calls on %d threads", concurrency, (size_t)threads * ROUNDS * alone.count, threads);
    for (int t = 0; t < threads; t++)
        drop_calls(&jobs[t]);
    drop_calls(&alone);
    EXPECT(glint_context_close(context) == GLINT_OK && glint_context_close(serial) == GLINT_OK, "close");
    free(storage);
    free(serial_storage);
}

static void serial_executor(void)
{
    same_bits(1, THREADS);
}
static void two_bodies(void)
{
    same_bits(2, THREADS);
}
static void seven_bodies(void)
{
    same_bits(7, 3);
}

/* The library's own pool under several threads. */
static void through_the_pool(void)
{
    static struct job jobs[4];
    static struct job alone;
    pthread_t ids[4];
    atomic_int failures = 0;
    void *serial_storage, *storage = aligned_memory(GLINT_CONTEXT_ALIGNMENT, glint_context_size());
    void *const pool_storage = aligned_memory(64, glint_pool_size(3));
    struct glint_pool *pool = NULL;
    struct glint_context *const serial = open_serial(&serial_storage), *context = NULL;
    make_calls(&alone, serial);
    for (size_t i = 0; i < alone.count; i++)
        EXPECT(call_run(&alone.calls[i]) == GLINT_OK, "serial call %zu", i);
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = GLINT_DEVICE_CPU;
    EXPECT(glint_pool_init(pool_storage, glint_pool_size(3), 3, &pool, &options.executor) == GLINT_OK, "pool");
    EXPECT(glint_context_init(storage, glint_context_size(), &options, &context) == GLINT_OK, "init");
    for (int t = 0; t < 4; t++) {
        make_calls(&jobs[t], context);
        jobs[t].failures = &failures;
        for (size_t i = 0; i < alone.count; i++)
            jobs[t].expected[i] = alone.calls[i].block;
    }
    for (int t = 0; t < 4; t++) {
        if (pthread_create(&ids[t], NULL, work, &jobs[t]) != 0)
            abort();
    }
    for (int t = 0; t < 4; t++)
        pthread_join(ids[t], NULL);
    EXPECT(atomic_load(&failures) == 0, "%d calls differ from one thread's", atomic_load(&failures));
    for (int t = 0; t < 4; t++)
        drop_calls(&jobs[t]);
    drop_calls(&alone);
    EXPECT(glint_context_close(context) == GLINT_OK && glint_pool_close(pool) == GLINT_OK, "close");
    free(pool_storage);
    free(storage);
    free(serial_storage);
}

static const struct contract_case cases[] = {
    {"serial_executor", serial_executor, 300},
    {"two_bodies", two_bodies, 300},
    {"seven_bodies", seven_bodies, 300},
    {"through_the_pool", through_the_pool, 300},
};
CONTRACT_MAIN("contract_threads", cases)
