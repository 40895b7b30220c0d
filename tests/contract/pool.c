/* The thread pool: every index exactly once, before parallel_for returns and with its writes visible, from any
 * number of calling threads; sizes, refusals, closing and opening again. Under --config=tsan this is also the race
 * test. */
#define _GNU_SOURCE /* usleep */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__) && defined(__linux__)
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#include "tests/contract/suite.h"
#include "tests/contract/world.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
enum { POOL_ALIGNMENT = 64, CALLS = CONTRACT_SANITIZED || CONTRACT_EMULATED ? 500 : 20000 };

struct opened {
    void *storage;
    struct glint_pool *pool;
    struct glint_executor executor;
};

static struct opened open_pool(uint32_t threads)
{
    const size_t bytes = glint_pool_size(threads);
    struct opened o = {aligned_memory(POOL_ALIGNMENT, bytes + POOL_ALIGNMENT), NULL, {0, 0, NULL, NULL}};
    memset(o.storage, 0xa5, bytes + POOL_ALIGNMENT); /* a pool needs no zeros, and writes nothing behind its end */
    const enum glint_status status = glint_pool_init(o.storage, glint_pool_size(threads), threads, &o.pool, &o.executor);
    EXPECT(status == GLINT_OK && o.pool != NULL, "%u threads: %s", threads, glint_status_name(status));
    EXPECT(o.executor.struct_size == sizeof o.executor && o.executor.concurrency == threads && o.executor.parallel_for != NULL,
           "the executor of %u threads has concurrency %u", threads, o.executor.concurrency);
    return o;
}

static void close_pool(struct opened *o)
{
    const unsigned char *const behind = (unsigned char *)o->storage + glint_pool_size(o->executor.concurrency);
    EXPECT(glint_pool_close(o->pool) == GLINT_OK, "close");
    for (int i = 0; i < POOL_ALIGNMENT; i++)
        EXPECT(behind[i] == 0xa5, "byte %d behind a pool of %u threads is written", i, o->executor.concurrency);
    free(o->storage);
}

/* ---- each index once --------------------------------------------------------------------------------------------- */

enum { MAX_COUNT = GLINT_MAX_CONCURRENCY };
struct tally {
    unsigned plain[MAX_COUNT]; /* written without atomics: its visibility to the caller is part of the promise */
    atomic_uint each[MAX_COUNT];
    uint32_t count;
};

static void count_body(void *argument, uint32_t index)
{
    struct tally *const t = argument;
    if (index >= t->count)
        abort();
    t->plain[index]++;
    atomic_fetch_add(&t->each[index], 1u);
}

/* Calls parallel_for once and returns whether each index was run once more, and no other. */
static bool once_each(const struct glint_executor *e, struct tally *t, uint32_t count, unsigned times)
{
    t->count = count;
    e->parallel_for(e->user, count, count_body, t);
    for (uint32_t i = 0; i < count; i++) {
        if (t->plain[i] != times || atomic_load(&t->each[i]) != times)
            return false;
    }
    return true;
}

static void each_index_once(void)
{
    const uint32_t threads[] = {1, 2, 3, 4, 8, 17};
    for (size_t k = 0; k < COUNT(threads); k++) {
        struct opened o = open_pool(threads[k]);
        for (uint32_t count = 0; count <= threads[k]; count++) {
            struct tally t;
            memset(&t, 0, sizeof t);
            for (unsigned i = 1; i <= 200; i++)
                EXPECT(once_each(&o.executor, &t, count, i), "%u threads, count %u, call %u", threads[k], count, i);
        }
        close_pool(&o);
    }
}

struct caller {
    const struct glint_executor *executor;
    unsigned calls;
    bool wrong;
};

static void *call_many(void *argument)
{
    struct caller *const c = argument;
    struct tally *const t = calloc(1, sizeof *t);
    for (unsigned i = 1; i <= c->calls && !c->wrong; i++) {
        const uint32_t count = c->executor->concurrency;
        c->wrong = !once_each(c->executor, t, count, i);
    }
    free(t);
    return NULL;
}

static void several_callers(void)
{
    struct opened o = open_pool(3);
    struct caller callers[6];
    pthread_t ids[6];
    const double start = seconds_now();
    for (int i = 0; i < 6; i++) {
        callers[i] = (struct caller){&o.executor, CALLS / 4, false};
        if (pthread_create(&ids[i], NULL, call_many, &callers[i]) != 0)
            abort();
    }
    for (int i = 0; i < 6; i++)
        pthread_join(ids[i], NULL);
    for (int i = 0; i < 6; i++)
        EXPECT(!callers[i].wrong, "caller %d saw an index run other than once", i);
    contract_note("%d calls from 6 threads on a pool of 3 in %.2f s", 6 * (CALLS / 4), seconds_now() - start);
    close_pool(&o);
}

static void one_caller(void)
{
    struct opened o = open_pool(2);
    struct caller c = {&o.executor, CALLS, false};
    const double start = seconds_now();
    call_many(&c);
    EXPECT(!c.wrong, "an index was run other than once");
    contract_note("%d calls on a pool of 2 in %.2f s", CALLS, seconds_now() - start);
    close_pool(&o);
}

/* Bodies of very different length, and pauses between calls in which workers fall asleep. */
static void slow_body(void *argument, uint32_t index)
{
    if (index % 2 == 0)
        usleep(2000);
    count_body(argument, index);
}

static void sleepy_calls(void)
{
    struct opened o = open_pool(4);
    struct tally t;
    memset(&t, 0, sizeof t);
    for (unsigned i = 1; i <= 20; i++) {
        t.count = 4;
        o.executor.parallel_for(o.executor.user, 4, slow_body, &t);
        for (int k = 0; k < 4; k++)
            EXPECT(t.plain[k] == i, "call %u, index %d", i, k);
        usleep(i % 4 == 0 ? 20000 : 100);
    }
    close_pool(&o);
}

/* The calling thread works too: bodies run on at most `threads` threads, and with one thread on the caller alone. */
static void note_thread(void *argument, uint32_t index)
{
    ((pthread_t *)argument)[index] = pthread_self();
}

static void one_thread_is_the_caller(void)
{
    struct opened o = open_pool(1);
    pthread_t on[1];
    o.executor.parallel_for(o.executor.user, 1, note_thread, on);
    EXPECT(pthread_equal(on[0], pthread_self()), "a pool of one ran its body on another thread");
    close_pool(&o);
}

/* A pool of n runs n bodies at a time: each waits (up to seconds) until all have begun. */
static void wait_for_all(void *argument, uint32_t index)
{
    atomic_uint *const begun = argument;
    const double start = seconds_now();
    (void)index;
    atomic_fetch_add(begun, 1u);
    while (atomic_load(begun) < 3 && seconds_now() - start < 10)
        usleep(50);
}

static void bodies_run_together(void)
{
    struct opened o = open_pool(3);
    for (int i = 0; i < 20; i++) {
        atomic_uint begun = 0;
        const double start = seconds_now();
        o.executor.parallel_for(o.executor.user, 3, wait_for_all, &begun);
        EXPECT(seconds_now() - start < 9, "call %d: three bodies never ran at the same time", i);
        if (i % 5 == 4)
            usleep(20000);
    }
    close_pool(&o);
}

/* Both indices have begun, and the one that a worker has takes long: the caller waits for it. */
struct long_job {
    pthread_t caller;
    atomic_uint begun;
    bool done; /* of the worker; without atomics */
};

static void be_long_on_worker(void *argument, uint32_t index)
{
    struct long_job *const job = argument;
    const double start = seconds_now();
    (void)index;
    atomic_fetch_add(&job->begun, 1u);
    while (atomic_load(&job->begun) < 2 && seconds_now() - start < 10)
        usleep(50);
    if (pthread_equal(pthread_self(), job->caller))
        return;
    usleep(50000);
    job->done = true;
}

/* A caller whose own share is done sleeps until the last body has ended, and is woken then. */
static void caller_waits(void)
{
    struct opened o = open_pool(2);
    for (int i = 0; i < 4; i++) {
        struct long_job job = {pthread_self(), 0, false};
        struct timespec before, after;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
        const double start = seconds_now();
        o.executor.parallel_for(o.executor.user, 2, be_long_on_worker, &job);
        const double waited = seconds_now() - start;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
        const double seconds = (double)(after.tv_sec - before.tv_sec) + 1e-9 * (double)(after.tv_nsec - before.tv_nsec);
        EXPECT(job.done, "call %d came back before its last body had ended", i);
        EXPECT(waited < 5, "call %d took %.1f s for a body of 0.05 s", i, waited);
        EXPECT(seconds < (CONTRACT_SANITIZED || CONTRACT_EMULATED ? 0.04 : 0.01),
               "call %d took %.3f s of its caller's processor while a worker slept for 0.05 s", i, seconds);
    }
    close_pool(&o);
}

/* Workers of a pool that has nothing to do sleep. */
static void idle(void)
{
    struct opened o = open_pool(4);
    struct tally t;
    struct timespec before, after;
    memset(&t, 0, sizeof t);
    EXPECT(once_each(&o.executor, &t, 4, 1), "a call before");
    usleep(50000); /* they spin for a while before they sleep */
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    usleep(300000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    const double seconds = (double)(after.tv_sec - before.tv_sec) + 1e-9 * (double)(after.tv_nsec - before.tv_nsec);
    /* Spinning workers take less than that where other programs take the processors, too. */
    EXPECT(seconds < (CONTRACT_SANITIZED || CONTRACT_EMULATED ? 0.1 : 0.02),
           "a pool took %.3f s of processors in 0.3 s without work", seconds);
    close_pool(&o);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void open_and_close(void)
{
    const uint32_t threads = 4;
    const size_t bytes = glint_pool_size(threads);
    unsigned char *const storage = aligned_memory(POOL_ALIGNMENT, bytes);
    for (int i = 0; i < 200; i++) {
        struct glint_pool *pool = NULL;
        struct glint_executor e;
        struct tally t;
        memset(&t, 0, sizeof t);
        if (i % 2)
            memset(storage, i & 0xff, bytes);
        EXPECT(glint_pool_init(storage, bytes, threads, &pool, &e) == GLINT_OK, "cycle %d", i);
        if (i % 3)
            EXPECT(once_each(&e, &t, threads, 1), "cycle %d", i);
        EXPECT(glint_pool_close(pool) == GLINT_OK, "cycle %d", i);
        EXPECT(glint_pool_close(pool) == GLINT_CONTEXT_CLOSED, "closed twice, cycle %d", i);
    }
    free(storage);
}

static void exact_storage(void)
{
    for (uint32_t threads = 1; threads <= 8; threads++) {
        const size_t bytes = glint_pool_size(threads);
        for (int at_end = 0; at_end < 2; at_end++) {
            struct guarded g = guarded_make(bytes, POOL_ALIGNMENT, at_end);
            struct glint_pool *pool = (struct glint_pool *)(void *)g.at;
            struct glint_executor e, before;
            struct tally t;
            memset(&t, 0, sizeof t);
            memset(&e, 0x21, sizeof e);
            before = e;
            const enum glint_status status = glint_pool_init(g.at, bytes - 1, threads, &pool, &e);
            EXPECT(status == GLINT_STORAGE_TOO_SMALL, "one byte less gives %s", glint_status_name(status));
            EXPECT(memcmp(&e, &before, sizeof e) == 0, "a refused init wrote the executor");
            EXPECT(glint_pool_init(g.at, bytes, threads, &pool, &e) == GLINT_OK, "%u threads in %zu bytes", threads, bytes);
            EXPECT(once_each(&e, &t, threads, 1), "%u threads", threads);
            EXPECT(glint_pool_close(pool) == GLINT_OK, "close");
            EXPECT(guarded_canaries_hold(&g), "the pool wrote outside its storage");
            guarded_free(&g);
        }
    }
    const uint32_t a_line = 64 / sizeof(pthread_t); /* so many threads more take a line more, wherever lines begin */
    for (uint32_t threads = 1; threads + a_line <= GLINT_POOL_MAX_THREADS; threads++)
        EXPECT(glint_pool_size(threads + a_line) == glint_pool_size(threads) + 64 && glint_pool_size(threads) % 64 == 0,
               "%u threads", threads);
    contract_note("glint_pool_size(2) = %zu, glint_pool_size(%u) = %zu", glint_pool_size(2), GLINT_POOL_MAX_THREADS,
                  glint_pool_size(GLINT_POOL_MAX_THREADS));
}

static void refusals(void)
{
    const uint32_t counts[] = {0, GLINT_POOL_MAX_THREADS + 1, 1024, 65536, 0x80000000u, UINT32_MAX};
    const size_t bytes = 1 << 20;
    unsigned char *const storage = aligned_memory(POOL_ALIGNMENT, bytes), *const before = malloc(bytes);
    struct glint_executor e, e_before;
    memset(&e, 0x44, sizeof e);
    e_before = e;
    memset(storage, CANARY, bytes);
    memcpy(before, storage, bytes);
    for (size_t i = 0; i < COUNT(counts); i++) {
        struct glint_pool *pool = NULL;
        EXPECT(glint_pool_size(counts[i]) == 0, "a pool of %u threads has a size", counts[i]);
        const enum glint_status status = glint_pool_init(storage, bytes, counts[i], &pool, &e);
        EXPECT(status == GLINT_BAD_OPTION && pool == NULL, "%u threads give %s", counts[i], glint_status_name(status));
    }
    struct glint_pool *pool = NULL;
    EXPECT(glint_pool_init(NULL, bytes, 2, &pool, &e) == GLINT_NULL_ARGUMENT, "NULL storage");
    EXPECT(glint_pool_init(storage, bytes, 2, NULL, &e) == GLINT_NULL_ARGUMENT, "NULL pool");
    EXPECT(glint_pool_init(storage, bytes, 2, &pool, NULL) == GLINT_NULL_ARGUMENT, "NULL executor");
    for (size_t shift = 1; shift < POOL_ALIGNMENT; shift++) {
        const enum glint_status status = glint_pool_init(storage + shift, bytes - shift, 2, &pool, &e);
        EXPECT(status == GLINT_STORAGE_MISALIGNED, "storage at + %zu gives %s", shift, glint_status_name(status));
    }
    for (size_t given = 0; given < glint_pool_size(2); given += 13)
        EXPECT(glint_pool_init(storage, given, 2, &pool, &e) == GLINT_STORAGE_TOO_SMALL, "%zu bytes", given);
    EXPECT(memcmp(storage, before, bytes) == 0 && memcmp(&e, &e_before, sizeof e) == 0, "a refused init wrote");
    EXPECT(glint_pool_close(NULL) != GLINT_OK, "closing NULL");
    free(storage);
    free(before);
}

/* The system refuses threads: a status, the threads that had started are gone, and the storage can be used again. */
static void threads_refused(void)
{
    if (CONTRACT_SANITIZED || CONTRACT_EMULATED) {
        contract_note("skipped: a sanitizer or an emulator needs address space of its own");
        return;
    }
    struct rlimit was, small;
    const uint32_t threads = GLINT_POOL_MAX_THREADS;
    const size_t bytes = glint_pool_size(threads);
    void *const storage = aligned_memory(POOL_ALIGNMENT, bytes);
    struct glint_pool *pool = NULL;
    struct glint_executor e;
    if (getrlimit(RLIMIT_AS, &was) != 0)
        abort();
    small = was;
    small.rlim_cur = (rlim_t)256 << 20; /* stacks of 8 MiB: some threads start, not all */
    if (setrlimit(RLIMIT_AS, &small) != 0)
        abort();
    const enum glint_status status = glint_pool_init(storage, bytes, threads, &pool, &e);
    if (setrlimit(RLIMIT_AS, &was) != 0)
        abort();
    if (status == GLINT_OK) {
        contract_note("skipped: the limit on address space has no effect here");
    } else {
        EXPECT(status == GLINT_BAD_EXECUTOR, "%s", glint_status_name(status));
        EXPECT(glint_pool_init(storage, bytes, 2, &pool, &e) == GLINT_OK, "the storage cannot be used again");
        struct tally t;
        memset(&t, 0, sizeof t);
        EXPECT(once_each(&e, &t, 2, 1), "after a refusal");
    }
    EXPECT(glint_pool_close(pool) == GLINT_OK, "close");
    free(storage);
}

/* ---- the permission for AMX -------------------------------------------------------------------------------------- */

/* The answer is this machine's, and the same each time; the options are good either way, and nothing else in them is
 * touched. */
static void permit_amx(void)
{
    struct glint_options options = GLINT_OPTIONS_INIT, before = options;
    EXPECT(glint_permit_amx(NULL) == GLINT_NULL_ARGUMENT, "NULL");
    options.struct_size--;
    EXPECT(glint_permit_amx(&options) == GLINT_STRUCT_SIZE && options.amx == 0, "another size");
    options.struct_size++;
    options.device = before.device = GLINT_DEVICE_CPU;
    const enum glint_status first = glint_permit_amx(&options);
    for (int i = 0; i < 3; i++) {
        options.amx = (uint32_t)i;
        EXPECT(glint_permit_amx(&options) == first, "another answer");
        before.amx = first == GLINT_OK;
        EXPECT((first == GLINT_OK || first == GLINT_NO_AMX) && memcmp(&options, &before, sizeof options) == 0, "%s, amx %u",
               glint_status_name(first), options.amx);
    }
    /* The option asks for nothing that is not there: 1 on a machine without AMX opens with the next instruction set. */
    void *const storage = aligned_memory(GLINT_CONTEXT_ALIGNMENT, glint_context_size());
    struct glint_context *context;
    struct glint_device_info info = GLINT_DEVICE_INFO_INIT;
    options.amx = 1;
    EXPECT(first != GLINT_NO_AMX || (glint_context_init(storage, glint_context_size(), &options, &context) == GLINT_OK &&
                                     glint_context_device(context, &info) == GLINT_OK && glint_context_close(context) == GLINT_OK),
           "a context with the option and without AMX");
    FILE *const file = fopen("/proc/cpuinfo", "r");
    char line[8192];
    bool listed = false;
    while (file && fgets(line, sizeof line, file))
        listed = listed || strstr(line, " amx_tile") != NULL;
    if (file)
        fclose(file);
    EXPECT(listed || info.isa != GLINT_ISA_X86_64_AMX, "AMX on a CPU that has none");
    contract_note("%s", glint_status_name(first));
    free(storage);
}

/* Where the system refuses the permission, the answer is no, whatever the CPU and the kernel support: here the one
 * request of it fails. */
static void permit_refused(void)
{
#if defined(__x86_64__) && defined(__linux__)
    enum { ARCH_REQUEST = 0x1023 };
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH_REQUEST, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {COUNT(filter), filter};
    if (CONTRACT_EMULATED || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        contract_note("skipped: system calls cannot be refused here");
        return;
    }
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.amx = 1;
    const enum glint_status status = glint_permit_amx(&options);
    EXPECT(status == GLINT_NO_AMX && options.amx == 0, "%s, amx %u", glint_status_name(status), options.amx);
#else
    contract_note("skipped: there is no AMX");
#endif
}

static const struct contract_case cases[] = {
    {"each_index_once", each_index_once, 120},
    {"one_caller", one_caller, 120},
    {"several_callers", several_callers, 120},
    {"sleepy_calls", sleepy_calls, 0},
    {"bodies_run_together", bodies_run_together, 240},
    {"one_thread_is_the_caller", one_thread_is_the_caller, 0},
    {"caller_waits", caller_waits, 60},
    {"idle", idle, 0},
    {"open_and_close", open_and_close, 120},
    {"exact_storage", exact_storage, 0},
    {"refusals", refusals, 0},
    {"threads_refused", threads_refused, 0},
    {"permit_amx", permit_amx, 0},
    {"permit_refused", permit_refused, 0},
};
CONTRACT_MAIN("pool", cases)
