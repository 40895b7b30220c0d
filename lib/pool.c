/* A fixed-storage pthread pool for hosts that have none. It is an archive of its own (libglint_pool.a), so that
 * libglint.a needs no threads; nothing in the library may depend on it.
 *
 * One job at a time. `ticket` holds the job's generation (high half) and the next index (low half): a thread owns
 * index i of a job when its compare-and-swap moves the ticket from (generation, i) to (generation, i + 1), which
 * also proves that the job it read before is still that one. The caller works too, so a job never waits for a
 * sleeping worker that has claimed nothing. Threads spin for some microseconds before they sleep: attention calls
 * come in bursts, and a futex wake costs as much as a small call. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "lib/glint.h"

enum { POOL_SPINS = 4000 };

struct glint_pool {
    _Alignas(64) _Atomic uint64_t ticket;
    _Alignas(64) _Atomic uint32_t done;
    _Alignas(64) _Atomic uint32_t count;
    void (*_Atomic body)(void *, uint32_t);
    void *_Atomic argument;
    _Atomic uint32_t sleepers;
    _Atomic uint32_t caller_sleeps;
    _Atomic uint32_t stop;
    pthread_mutex_t callers;  /* one parallel_for at a time */
    pthread_mutex_t sleeping; /* guards the two conditions */
    pthread_cond_t work, finished;
    uint32_t threads;
    pthread_t worker[];
};

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static uint32_t generation_of(uint64_t ticket)
{
    return (uint32_t)(ticket >> 32);
}

/* Claims and runs indices of the job `generation` until none is left or another job has begun. */
static void work_on(struct glint_pool *pool, uint32_t generation)
{
    for (;;) {
        uint64_t ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
        const uint32_t index = (uint32_t)ticket, count = atomic_load_explicit(&pool->count, memory_order_acquire);
        void (*body)(void *, uint32_t) = atomic_load_explicit(&pool->body, memory_order_relaxed);
        void *argument = atomic_load_explicit(&pool->argument, memory_order_relaxed);
        if (generation_of(ticket) != generation || index >= count)
            return;
        if (!atomic_compare_exchange_weak_explicit(&pool->ticket, &ticket, ticket + 1, memory_order_acq_rel, memory_order_relaxed))
            continue;
        body(argument, index);
        if (atomic_fetch_add_explicit(&pool->done, 1, memory_order_seq_cst) + 1 == count &&
            atomic_load_explicit(&pool->caller_sleeps, memory_order_seq_cst)) {
            pthread_mutex_lock(&pool->sleeping);
            pthread_cond_signal(&pool->finished);
            pthread_mutex_unlock(&pool->sleeping);
        }
    }
}

static uint32_t next_generation(struct glint_pool *pool, uint32_t seen)
{
    for (int spin = 0; spin < POOL_SPINS; spin++) {
        const uint32_t now = generation_of(atomic_load_explicit(&pool->ticket, memory_order_acquire));
        if (now != seen || atomic_load_explicit(&pool->stop, memory_order_relaxed))
            return now;
        pause_cpu();
    }
    pthread_mutex_lock(&pool->sleeping);
    atomic_fetch_add_explicit(&pool->sleepers, 1, memory_order_seq_cst);
    uint32_t now;
    while ((now = generation_of(atomic_load_explicit(&pool->ticket, memory_order_seq_cst))) == seen &&
           !atomic_load_explicit(&pool->stop, memory_order_seq_cst))
        pthread_cond_wait(&pool->work, &pool->sleeping);
    atomic_fetch_sub_explicit(&pool->sleepers, 1, memory_order_seq_cst);
    pthread_mutex_unlock(&pool->sleeping);
    return now;
}

static void *worker_main(void *argument)
{
    struct glint_pool *pool = argument;
    uint32_t seen = 0;
    while (!atomic_load_explicit(&pool->stop, memory_order_acquire)) {
        seen = next_generation(pool, seen);
        work_on(pool, seen);
    }
    return NULL;
}

static void wait_for_all(struct glint_pool *pool, uint32_t count)
{
    for (int spin = 0; spin < POOL_SPINS; spin++) {
        if (atomic_load_explicit(&pool->done, memory_order_acquire) == count)
            return;
        pause_cpu();
    }
    pthread_mutex_lock(&pool->sleeping);
    atomic_store_explicit(&pool->caller_sleeps, 1, memory_order_seq_cst);
    while (atomic_load_explicit(&pool->done, memory_order_seq_cst) != count)
        pthread_cond_wait(&pool->finished, &pool->sleeping);
    atomic_store_explicit(&pool->caller_sleeps, 0, memory_order_relaxed);
    pthread_mutex_unlock(&pool->sleeping);
}

static void pool_parallel_for(void *user, uint32_t count, void (*body)(void *argument, uint32_t index), void *argument)
{
    struct glint_pool *pool = user;
    if (count == 0)
        return;
    pthread_mutex_lock(&pool->callers);
    /* While the fields change, the ticket is the last job's with an index that no count reaches: nobody can claim. The
     * count is released behind it, so that who sees the new count sees this ticket, too. A larger count beside the
     * ticket from before would let a late worker run an index of this job as one of the last. */
    const uint32_t last = generation_of(atomic_load_explicit(&pool->ticket, memory_order_relaxed)), generation = last + 1;
    atomic_store_explicit(&pool->ticket, (uint64_t)last << 32 | UINT32_MAX, memory_order_seq_cst);
    atomic_store_explicit(&pool->body, body, memory_order_relaxed);
    atomic_store_explicit(&pool->argument, argument, memory_order_relaxed);
    atomic_store_explicit(&pool->count, count, memory_order_release);
    atomic_store_explicit(&pool->done, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->ticket, (uint64_t)generation << 32, memory_order_seq_cst);
    if (count > 1 && atomic_load_explicit(&pool->sleepers, memory_order_seq_cst) > 0) {
        pthread_mutex_lock(&pool->sleeping);
        pthread_cond_broadcast(&pool->work);
        pthread_mutex_unlock(&pool->sleeping);
    }
    work_on(pool, generation);
    wait_for_all(pool, count);
    pthread_mutex_unlock(&pool->callers);
}

size_t glint_pool_size(uint32_t threads)
{
    if (threads < 1 || threads > GLINT_POOL_MAX_THREADS)
        return 0;
    const size_t bytes = sizeof(struct glint_pool) + (threads - 1) * sizeof(pthread_t);
    return (bytes + 63) / 64 * 64;
}

static void stop_workers(struct glint_pool *pool, uint32_t started)
{
    pthread_mutex_lock(&pool->sleeping);
    atomic_store_explicit(&pool->stop, 1, memory_order_seq_cst);
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->sleeping);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(pool->worker[i], NULL);
    pthread_cond_destroy(&pool->finished);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->sleeping);
    pthread_mutex_destroy(&pool->callers);
}

enum glint_status glint_pool_init(void *storage, size_t storage_bytes, uint32_t threads, struct glint_pool **pool,
                                  struct glint_executor *executor)
{
    if (pool)
        *pool = NULL;
    if (!storage || !pool || !executor)
        return GLINT_NULL_ARGUMENT;
    if (threads < 1 || threads > GLINT_POOL_MAX_THREADS)
        return GLINT_BAD_OPTION;
    if ((uintptr_t)storage % _Alignof(struct glint_pool) != 0)
        return GLINT_STORAGE_MISALIGNED;
    if (storage_bytes < glint_pool_size(threads))
        return GLINT_STORAGE_TOO_SMALL;

    struct glint_pool *opened = storage;
    memset(opened, 0, glint_pool_size(threads));
    opened->threads = threads;
    pthread_mutex_init(&opened->callers, NULL);
    pthread_mutex_init(&opened->sleeping, NULL);
    pthread_cond_init(&opened->work, NULL);
    pthread_cond_init(&opened->finished, NULL);
    for (uint32_t i = 0; i + 1 < threads; i++)
        if (pthread_create(&opened->worker[i], NULL, worker_main, opened) != 0) {
            stop_workers(opened, i);
            return GLINT_BAD_EXECUTOR;
        }
    *executor = (struct glint_executor){sizeof *executor, threads, pool_parallel_for, opened};
    *pool = opened;
    return GLINT_OK;
}

enum glint_status glint_pool_close(struct glint_pool *pool)
{
    if (!pool || pool->threads == 0)
        return GLINT_CONTEXT_CLOSED;
    stop_workers(pool, pool->threads - 1);
    pool->threads = 0;
    return GLINT_OK;
}
