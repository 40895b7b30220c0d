/* The pool, one atomic operation after another: a caller and a late worker as two coroutines of one thread, which are
 * switched at every pair of places in the caller's jobs and every place in the worker's claim. Each index of each job
 * is run once, with its own body and argument. The text of lib/pool.c is part of this file, so that its order of
 * operations is what is tried; what memory orders are worth, ThreadSanitizer sees. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "tests/contract/suite.h"

static void step(void);
static int create(void);

/* An order is an argument of each operation, and so is made before it. */
#define memory_order_relaxed (step(), memory_order_relaxed)
#define memory_order_acquire (step(), memory_order_acquire)
#define memory_order_release (step(), memory_order_release)
#define memory_order_acq_rel (step(), memory_order_acq_rel)
#define memory_order_seq_cst (step(), memory_order_seq_cst)
#define pthread_create(id, attributes, main, argument) ((void)(id), (void)(main), (void)(argument), create())
#include "lib/pool.c"
#undef pthread_create

enum { JOBS = 3, MOST = 4, STACK = 1 << 16, LIMIT = 3000 };

/* A worker that has seen a job and is late. */
static struct {
    ucontext_t caller, worker;
    bool in_worker, begun, ended;
    uint32_t late;   /* the job whose indices it claims */
    int place, next; /* the caller's operations before which the worker goes on */
    int back;        /* the worker's, before which the caller does */
    int of_caller, of_worker, since;
} now;

static int create(void)
{
    return 0; /* no worker but ours */
}

static void to_caller(void)
{
    now.in_worker = false;
    swapcontext(&now.worker, &now.caller);
}

static void to_worker(void)
{
    now.in_worker = true;
    now.since = 0;
    swapcontext(&now.caller, &now.worker);
}

static void step(void)
{
    if (!now.begun || now.ended)
        return;
    if (now.in_worker) {
        if (now.of_worker++ == now.back)
            to_caller();
        return;
    }
    const int at = now.of_caller++;
    if (at == now.place || at == now.next || ++now.since > LIMIT) /* who waits for the worker lets it go on */
        to_worker();
}

static unsigned ran[JOBS][MOST];
static const uint32_t *counts;

static void run(void *argument, uint32_t index, size_t job)
{
    EXPECT(argument == &ran[job] && index < counts[job], "job %zu: index %u of %u, with the argument of job %td", job, index,
           counts[job], (unsigned(*)[MOST])argument - ran);
    ran[job][index]++;
}

static void body_0(void *argument, uint32_t index)
{
    run(argument, index, 0);
}
static void body_1(void *argument, uint32_t index)
{
    run(argument, index, 1);
}
static void body_2(void *argument, uint32_t index)
{
    run(argument, index, 2);
}
static void (*const bodies[JOBS])(void *, uint32_t) = {body_0, body_1, body_2};

static struct glint_pool *pool;

static void worker(void)
{
    work_on(pool, now.late);
    now.ended = true;
    now.in_worker = false;
    setcontext(&now.caller);
}

/* One schedule; answers how many operations the caller made. */
static int schedule(struct glint_executor *e, const uint32_t sizes[JOBS], uint32_t late, int place, int next, int back)
{
    static _Alignas(64) unsigned char storage[1024], stack[STACK];
    memset(&now, 0, sizeof now);
    memset(ran, 0, sizeof ran);
    counts = sizes;
    if (glint_pool_size(4) > sizeof storage || glint_pool_init(storage, sizeof storage, 4, &pool, e) != GLINT_OK)
        abort();
    getcontext(&now.worker);
    now.worker.uc_stack.ss_sp = stack, now.worker.uc_stack.ss_size = sizeof stack;
    makecontext(&now.worker, worker, 0);
    now.late = late, now.place = place, now.next = next, now.back = back;
    now.begun = true;
    for (int job = 0; job < JOBS; job++)
        e->parallel_for(e->user, sizes[job], bodies[job], &ran[job]);
    const int made = now.of_caller;
    for (int job = 0; job < JOBS; job++)
        for (uint32_t i = 0; i < MOST; i++)
            EXPECT(ran[job][i] == (i < sizes[job]),
                   "sizes %u %u %u, a worker of job %u at %d, %d and its %d: job %d ran index %u %u times", sizes[0], sizes[1],
                   sizes[2], late, place, next, back, job, i, ran[job][i]);
    now.begun = false;
    return made;
}

static void every_schedule(void)
{
    static const uint32_t sizes[][JOBS] = {{1, 2, 1}, {2, 1, 3}, {1, 4, 2}, {3, 3, 3}};
    struct glint_executor e;
    long tried = 0;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (uint32_t late = 0; late <= JOBS; late++) /* the first job is 1; before it there is none */
            for (int back = 0; back < 9; back++) {
                const int most = schedule(&e, sizes[s], late, -1, -1, back);
                for (int place = 0; place < most; place++)
                    for (int next = place + 1; next < most; next++, tried++)
                        schedule(&e, sizes[s], late, place, next, back);
            }
    contract_note("%ld schedules", tried);
    EXPECT(tried > 10000, "%ld schedules", tried);
}

static const struct contract_case cases[] = {{"every_schedule", every_schedule, 0}};
CONTRACT_MAIN("pool_steps", cases)
