/* Nothing allocates after glint_context_init. This file defines the C library's allocation functions anew, so that a
 * call from anywhere in the process counts; and in a second case the kernel itself is the witness: under seccomp's
 * strict mode any system call but read, write and exit kills the process.
 *
 *   alloc calls 10000000    runs that many, for hosts with patience; otherwise as many as fit in 20 s. */
#define _GNU_SOURCE /* syscall */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/contract/suite.h"
#include "tests/contract/world.h"

/* ---- counters ---------------------------------------------------------------------------------------------------- */

static volatile uint64_t allocations;
static volatile bool counting_on;

#if CONTRACT_SANITIZED

/* The sanitizer owns malloc; its hooks see the same calls. */
__attribute__((weak)) int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                                                    void (*on_free)(const volatile void *));
static void on_malloc(const volatile void *p, size_t n)
{
    (void)p, (void)n;
    if (counting_on)
        allocations++;
}
static void on_free(const volatile void *p)
{
    (void)p;
    if (counting_on)
        allocations++;
}
static void install(void)
{
    static bool done;
    if (!done && __sanitizer_install_malloc_and_free_hooks)
        __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
    done = true;
}

#else

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t m);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t a, size_t n);
extern void __libc_free(void *p);

static void count(void)
{
    if (counting_on)
        allocations++;
}
void *malloc(size_t n)
{
    count();
    return __libc_malloc(n);
}
void *calloc(size_t n, size_t m)
{
    count();
    return __libc_calloc(n, m);
}
void *realloc(void *p, size_t n)
{
    count();
    return __libc_realloc(p, n);
}
void *reallocarray(void *p, size_t n, size_t m)
{
    count();
    return m != 0 && n > SIZE_MAX / m ? NULL : __libc_realloc(p, n * m);
}
void free(void *p)
{
    count();
    __libc_free(p);
}
void *memalign(size_t a, size_t n)
{
    count();
    return __libc_memalign(a, n);
}
void *aligned_alloc(size_t a, size_t n)
{
    count();
    return __libc_memalign(a, n);
}
void *valloc(size_t n)
{
    count();
    return __libc_memalign((size_t)sysconf(_SC_PAGESIZE), n);
}
int posix_memalign(void **p, size_t a, size_t n)
{
    count();
    *p = __libc_memalign(a, n);
    return *p == NULL ? ENOMEM : 0;
}
void *mmap(void *at, size_t n, int protection, int flags, int file, off_t offset)
{
    count();
    return (void *)syscall(SYS_mmap, at, n, protection, flags, file, offset);
}
int munmap(void *at, size_t n)
{
    count();
    return (int)syscall(SYS_munmap, at, n);
}
int mprotect(void *at, size_t n, int protection)
{
    count();
    return (int)syscall(SYS_mprotect, at, n, protection);
}
int brk(void *to)
{
    count();
    return (int)syscall(SYS_brk, to);
}
void *sbrk(intptr_t by) /* nobody here needs its memory */
{
    (void)by;
    count();
    errno = ENOMEM;
    return (void *)-1;
}
static void install(void) {}

#endif

static void counters_count(void)
{
    install();
    counting_on = true;
    const uint64_t before = allocations;
    void *volatile p = malloc(100);
    free(p);
    counting_on = false;
    EXPECT(allocations - before == 2, "malloc and free gave %llu counts", (unsigned long long)(allocations - before));
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */

enum { ROWS = 64 };
struct work { /* small problems of as many rows of the table as fit; everything allocated beforehand */
    struct glint_context *context;
    void *storage, *memory;
    size_t memory_bytes;
    struct call calls[ROWS];
    size_t count;
};

static void prepare(struct work *w, int64_t seqlen)
{
    memset(w, 0, sizeof *w);
    w->context = open_serial(&w->storage);
    const uint32_t rows = glint_variant_count(), step = rows / ROWS + 1;
    for (uint32_t i = 0; i < rows && w->count < ROWS; i += step) {
        uint32_t row = i;
        while (row < rows && !row_serves(w->context, row))
            row++;
        if (row >= rows)
            break;
        const struct glint_variant_info info = row_at(row);
        struct glint_problem p;
        glint_problem_bshd(&p, (enum glint_dtype)info.dtype, 1, seqlen, seqlen, 1, 1, info.head_dim);
        serve_cache(&p, &info);
        p.mask = row_mask(&info, false);
        call_make(&w->calls[w->count++], w->context, &p, (enum glint_pass)info.pass, i);
    }
    EXPECT(w->count > 0, "no variant runs here");
    EXPECT(glint_selftest_size(w->context, &w->memory_bytes) == GLINT_OK, "selftest size");
    w->memory = aligned_memory(GLINT_WORKSPACE_ALIGNMENT, w->memory_bytes);
}

static void drop(struct work *w)
{
    for (size_t i = 0; i < w->count; i++)
        call_free(&w->calls[i]);
    free(w->memory);
    free(w->storage);
}

/* Merges what a forward call left with itself, in place; the status. */
static enum glint_status merge_again(const struct work *w, const struct call *c)
{
    const struct glint_problem *const p = &c->problem;
    const struct glint_strides lse = {p->heads_q * p->seqlen_q, p->seqlen_q, 1};
    const struct glint_part part = {c->tensors.o, c->tensors.lse, p->o, lse, p->dtype, 0}, parts[2] = {part, part};
    struct glint_merge m = GLINT_MERGE_INIT;
    m.dtype = p->dtype;
    m.parts = 2;
    m.batch = p->batch;
    m.heads = p->heads_q;
    m.seqlen = p->seqlen_q;
    m.head_dim = p->head_dim;
    m.part = parts;
    m.o = c->tensors.o;
    m.lse = c->tensors.lse;
    m.o_strides = p->o;
    m.lse_strides = lse;
    return glint_merge(w->context, &m, NULL);
}

/* Puts the queries into the cache as its last keys; the status. */
static enum glint_status append_queries(const struct call *c)
{
    struct glint_append a = GLINT_APPEND_INIT;
    a.dtype = c->problem.dtype;
    a.k = a.v = c->tensors.q;
    a.k_strides = a.v_strides = c->problem.q;
    return glint_append(&c->plan, &a, &c->tensors, NULL);
}

/* Plans, explains, runs, merges, appends, is refused: once for each problem; the number of library calls, 0 when one
 * went wrong. */
static uint64_t round_of_calls(struct work *w, bool with_text)
{
    uint64_t calls = 0;
    char text[256];
    for (size_t i = 0; i < w->count; i++) {
        struct call *const c = &w->calls[i];
        struct glint_problem bad = c->problem;
        struct glint_plan plan;
        bad.seqlen_k = -1;
        if (glint_plan(w->context, &c->problem, c->pass, &plan) != GLINT_OK || call_run(c) != GLINT_OK)
            return 0;
        if (glint_plan(w->context, &bad, c->pass, &plan) != GLINT_BAD_SEQLEN)
            return 0;
        if (c->pass == GLINT_FORWARD &&
            (merge_again(w, c) != GLINT_OK || (c->problem.kv_dtype == 0 && append_queries(c) != GLINT_OK)))
            return 0;
        calls += c->pass == GLINT_FORWARD ? 5 : 3;
        if (!with_text)
            continue;
        if (glint_explain(w->context, &c->problem, c->pass, text, sizeof text, NULL) != GLINT_OK)
            return 0;
        if (glint_explain(w->context, &bad, c->pass, text, sizeof text, NULL) != GLINT_BAD_SEQLEN)
            return 0;
        if (glint_explain_call(&c->plan, c->pass, &c->tensors, c->workspace, c->workspace_bytes, NULL, text, sizeof text, NULL) !=
            GLINT_OK)
            return 0;
        struct glint_device_info device = {.struct_size = sizeof device};
        struct glint_variant_info info = {.struct_size = sizeof info};
        if (glint_context_device(w->context, &device) != GLINT_OK || glint_variant_at((uint32_t)i, &info) != GLINT_OK)
            return 0;
        if (glint_status_sentence(GLINT_OK) == NULL)
            return 0;
        calls += 6;
    }
    return calls;
}

static uint64_t wanted_calls; /* 0: as many as fit in the time below */

static void nothing_allocates(void)
{
    const double limit = CONTRACT_SANITIZED || CONTRACT_EMULATED ? 3 : 5;
    struct work w;
    install();
    prepare(&w, 1);
    struct glint_selftest_result result = {.struct_size = sizeof result};
    uint64_t calls = 0;
    const double start = seconds_now();
    counting_on = true;
    for (uint64_t round = 0; wanted_calls > 0 ? calls < wanted_calls : seconds_now() - start < limit; round++) {
        const uint64_t made = round_of_calls(&w, round % 16 == 0);
        if (made == 0)
            break;
        calls += made;
    }
    const enum glint_status selftest = glint_selftest(w.context, w.memory, w.memory_bytes, NULL, &result);
    const enum glint_status closed = glint_context_close(w.context);
    counting_on = false;
    const uint64_t made = allocations;
    contract_note("%llu calls of the library in %.1f s: %llu allocations", (unsigned long long)calls, seconds_now() - start,
                  (unsigned long long)made);
    EXPECT(calls >= 1000, "a call failed after %llu", (unsigned long long)calls);
    EXPECT(selftest == GLINT_OK && closed == GLINT_OK, "selftest %s, close %s", glint_status_name(selftest),
           glint_status_name(closed));
    EXPECT(made == 0, "%llu allocations", (unsigned long long)made);
    drop(&w);
}

/* The pages of the process are the same after as before, however they might have been got. */
static long address_pages(void)
{
    long size = -1;
    FILE *const f = fopen("/proc/self/statm", "r");
    if (f == NULL)
        return -1;
    if (fscanf(f, "%ld", &size) != 1)
        size = -1;
    fclose(f);
    return size;
}

static void address_space_is_flat(void)
{
    struct work w;
    if (CONTRACT_EMULATED) {
        contract_note("skipped: the address space is the emulator's");
        return;
    }
    prepare(&w, 70);
    EXPECT(round_of_calls(&w, true) > 0, "a call failed");
    const long before = address_pages();
    for (int i = 0; i < 50; i++)
        EXPECT(round_of_calls(&w, true) > 0, "a call failed");
    const long after = address_pages();
    EXPECT(before == after, "the address space went from %ld to %ld pages", before, after);
    drop(&w);
}

/* ---- no system call at all --------------------------------------------------------------------------------------- */

/* In a child: strict seccomp, then every kind of call. `saboteur` makes one system call too many, to see that it is
 * noticed. */
static int under_seccomp(bool saboteur)
{
    struct work w;
    prepare(&w, 70);
    struct glint_selftest_result result = {.struct_size = sizeof result};
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        if (prctl(PR_SET_SECCOMP, 1 /* SECCOMP_MODE_STRICT */) != 0)
            syscall(SYS_exit, 77);
        int code = 0;
        if (saboteur)
            syscall(SYS_getpid);
        for (int i = 0; i < 3; i++)
            code |= round_of_calls(&w, true) == 0;
        code |= glint_selftest(w.context, w.memory, w.memory_bytes, NULL, &result) != GLINT_OK;
        code |= (glint_context_close(w.context) != GLINT_OK) << 1;
        syscall(SYS_exit, code);
    }
    int state = 0;
    EXPECT(child > 0 && waitpid(child, &state, 0) == child, "cannot fork");
    drop(&w);
    return WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state);
}

static void no_system_calls(void)
{
    if (CONTRACT_SANITIZED) {
        contract_note("skipped: a sanitizer makes system calls of its own");
        return;
    }
    const int code = under_seccomp(false);
    if (code == 77 || under_seccomp(true) != -9) {
        contract_note("skipped: this kernel or emulator has no strict seccomp");
        return;
    }
    EXPECT(code == 0, "plan, explain, forward, backward, self test or close: %s %d",
           code < 0 ? "killed for a system call, signal" : "failed with", code < 0 ? -code : code);
    contract_note("3 rounds, the self test and close under strict seccomp: no system call");
}

static const struct contract_case cases[] = {
    {"counters_count", counters_count, 0},
    {"nothing_allocates", nothing_allocates, 3600},
    {"address_space_is_flat", address_space_is_flat, 120},
    {"no_system_calls", no_system_calls, 120},
};

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "calls") == 0) {
        wanted_calls = strtoull(argv[2], NULL, 10);
        argv[1] = (char *)(uintptr_t) "nothing_allocates";
        argc = 2;
    }
    return contract_run("alloc", cases, sizeof cases / sizeof cases[0], argc, argv);
}
