/* The locks of the pool: its mutexes check who holds them, and each operation on them has to succeed. A condition is
 * signalled, and waited for, only by who holds `sleeping`. The text of lib/pool.c is part of this file. Workers and
 * callers fall asleep, so that every place with a lock is passed. What is begun is ended, also where a thread cannot be
 * started: each worker is joined once, and each mutex and each condition is destroyed. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/contract/suite.h"

static _Thread_local const void *held[2]; /* the mutexes that this thread has, in their order */
static _Thread_local int holds;
static atomic_uint signals, broadcasts, waits;

enum { MOST_THREADS = 8 };
static pthread_t started[MOST_THREADS];
static int threads, joined, refused = -1; /* `refused`: which thread is not started */
static int mutexes, conditions;           /* that are initialised and not destroyed */

static int checked_create(pthread_t *thread, void *(*main)(void *), void *argument)
{
    const int code = threads == refused ? EAGAIN : pthread_create(thread, NULL, main, argument);
    if (code == 0)
        started[threads++] = *thread;
    return code;
}

static int checked_join(pthread_t thread)
{
    EXPECT(joined < threads && pthread_equal(thread, started[joined]), "a thread is joined that was not started");
    joined++;
    return pthread_join(thread, NULL);
}

static int checked_init(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    const int code = pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    mutexes += code == 0;
    return code;
}

static int checked_lock(pthread_mutex_t *mutex)
{
    const int code = pthread_mutex_lock(mutex);
    EXPECT(code == 0, "pthread_mutex_lock answers %d", code);
    held[holds++] = mutex;
    return code;
}

static int checked_unlock(pthread_mutex_t *mutex)
{
    const int code = pthread_mutex_unlock(mutex);
    EXPECT(code == 0 && holds > 0 && held[holds - 1] == mutex, "pthread_mutex_unlock answers %d", code);
    holds--;
    return code;
}

static void expect_held(const pthread_mutex_t *mutex, const char *by)
{
    EXPECT(holds > 0 && held[holds - 1] == mutex, "%s by a thread that does not hold the mutex", by);
}

static int checked_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    atomic_fetch_add(&waits, 1);
    expect_held(mutex, "a wait");
    const int code = pthread_cond_wait(condition, mutex);
    EXPECT(code == 0, "pthread_cond_wait answers %d", code);
    return code;
}

static int checked_destroy(pthread_mutex_t *mutex)
{
    const int code = pthread_mutex_destroy(mutex);
    EXPECT(code == 0, "pthread_mutex_destroy answers %d", code);
    mutexes--;
    return code;
}

#define signalled(condition, mutex) (atomic_fetch_add(&signals, 1), expect_held(mutex, "a signal"), pthread_cond_signal(condition))
#define told_all(condition, mutex) \
    (atomic_fetch_add(&broadcasts, 1), expect_held(mutex, "a broadcast"), pthread_cond_broadcast(condition))

/* Each of them has a pool of that name. */
#define pthread_mutex_init(mutex, attributes) ((void)(attributes), checked_init(mutex))
#define pthread_mutex_destroy(mutex) checked_destroy(mutex)
#define pthread_cond_init(condition, attributes) (conditions++, pthread_cond_init(condition, attributes))
#define pthread_cond_destroy(condition) (conditions--, pthread_cond_destroy(condition))
#define pthread_create(thread, attributes, main, argument) ((void)(attributes), checked_create(thread, main, argument))
#define pthread_join(thread, result) ((void)(result), checked_join(thread))
#define pthread_mutex_lock(mutex) checked_lock(mutex)
#define pthread_mutex_unlock(mutex) checked_unlock(mutex)
#define pthread_cond_wait(condition, mutex) checked_wait(condition, mutex)
#define pthread_cond_signal(condition) signalled(condition, &pool->sleeping)
#define pthread_cond_broadcast(condition) told_all(condition, &pool->sleeping)
#include "lib/pool.c"
#undef pthread_create
#undef pthread_join

enum { THREADS = 4, JOBS = 6, CALLERS = 2, ROUNDS = 1000 };

static void body(void *argument, uint32_t index)
{
    atomic_fetch_add((atomic_uint *)argument, 1u << 8 * index);
    if (index % 2 == 1) /* a worker's, or the caller's: who waits for it falls asleep */
        usleep(1000);
}

static bool all_passed(void)
{
    return atomic_load(&signals) > 0 && atomic_load(&broadcasts) > 1 && atomic_load(&waits) > 1;
}

/* Until every place is passed, which a busy machine may put off. */
static void *call(void *argument)
{
    const struct glint_executor *const e = argument;
    for (int job = 0; job < JOBS || (job < ROUNDS && !all_passed()); job++) {
        atomic_uint ran = 0;
        usleep(job % 3 == 0 ? 2000 : 0); /* the workers fall asleep */
        e->parallel_for(e->user, THREADS, body, &ran);
        EXPECT(atomic_load(&ran) == 0x01010101, "ran %#x", atomic_load(&ran));
        EXPECT(holds == 0, "%d mutexes are held after a job", holds);
    }
    return NULL;
}

static void every_lock(void)
{
    static _Alignas(64) unsigned char storage[2048];
    struct glint_pool *pool;
    struct glint_executor e;
    pthread_t callers[CALLERS];
    EXPECT(glint_pool_size(THREADS) <= sizeof storage, "storage");
    EXPECT(glint_pool_init(storage, sizeof storage, THREADS, &pool, &e) == GLINT_OK, "init");
    for (int i = 0; i < CALLERS; i++)
        if (pthread_create(&callers[i], NULL, call, &e) != 0)
            abort();
    for (int i = 0; i < CALLERS; i++)
        pthread_join(callers[i], NULL);
    EXPECT(glint_pool_close(pool) == GLINT_OK && holds == 0, "close");
    contract_note("%u signals, %u broadcasts, %u waits", atomic_load(&signals), atomic_load(&broadcasts), atomic_load(&waits));
    EXPECT(all_passed(), "a place is not passed");
}

/* Pools of each number of threads, of which one is not started, or all are. */
static void every_end(void)
{
    static _Alignas(64) unsigned char storage[2048];
    for (uint32_t count = 1; count <= MOST_THREADS; count++)
        for (refused = -1; refused < (int)count - 1; refused++) {
            struct glint_pool *pool = NULL;
            struct glint_executor e;
            threads = joined = 0;
            const enum glint_status status = glint_pool_init(storage, sizeof storage, count, &pool, &e);
            EXPECT(status == (refused < 0 ? GLINT_OK : GLINT_BAD_EXECUTOR), "%u threads, %d is refused: %d", count, refused,
                   status);
            EXPECT(threads == (refused < 0 ? (int)count - 1 : refused) && (pool != NULL) == (refused < 0), "%d threads", threads);
            EXPECT(pool == NULL || (mutexes == 2 && conditions == 2), "%d mutexes, %d conditions", mutexes, conditions);
            EXPECT(pool == NULL || glint_pool_close(pool) == GLINT_OK, "close");
            EXPECT(joined == threads, "%d threads of %d are joined", joined, threads);
            EXPECT(mutexes == 0 && conditions == 0, "%d mutexes, %d conditions", mutexes, conditions);
            EXPECT(pool == NULL || glint_pool_close(pool) == GLINT_CONTEXT_CLOSED, "closed again");
        }
}

static const struct contract_case cases[] = {{"every_lock", every_lock, 0}, {"every_end", every_end, 0}};
CONTRACT_MAIN("pool_locks", cases)
