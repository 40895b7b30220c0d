#include "tests/checks/executors.h"

#include <pthread.h>
#include <stdlib.h>

/* Last index first, on the calling thread. */
static void run_reversed(void *user, uint32_t count, void (*body)(void *, uint32_t), void *argument)
{
    (void)user;
    for (uint32_t i = count; i-- > 0;)
        body(argument, i);
}

struct job {
    void (*body)(void *, uint32_t);
    void *argument;
    uint32_t index;
};

static void *run_job(void *job)
{
    const struct job *j = job;
    j->body(j->argument, j->index);
    return NULL;
}

enum { THREADS = 5 };

/* One thread an index: the most parallel order that the contract allows. */
static void run_threads(void *user, uint32_t count, void (*body)(void *, uint32_t), void *argument)
{
    (void)user;
    if (count > THREADS)
        abort(); /* glint.h: count never exceeds concurrency */
    pthread_t thread[THREADS];
    struct job job[THREADS];
    for (uint32_t i = 0; i < count; i++) {
        job[i] = (struct job){body, argument, i};
        if (pthread_create(&thread[i], NULL, run_job, &job[i]) != 0)
            abort();
    }
    for (uint32_t i = 0; i < count; i++)
        pthread_join(thread[i], NULL);
}

static const struct glint_executor reversed = {sizeof(struct glint_executor), 2, run_reversed, NULL};
static const struct glint_executor threads = {sizeof(struct glint_executor), THREADS, run_threads, NULL};

const struct glint_executor *test_executor(enum lanes lanes)
{
    return lanes == LANES_REVERSED_2 ? &reversed : lanes == LANES_THREADS_5 ? &threads : NULL;
}
