/* Runs a kernel's phases on the context's executor. */
#include <stdatomic.h>
#include <string.h>

#include "lib/backend.h"
#include "lib/context.h"
#include "lib/cpu/cpu.h"

/* The outlined form of atomics would need a function of libgcc that a firmware may not have. */
#if defined(__aarch64__) && !defined(__clang__)
#define ATOMIC_INLINE __attribute__((target("no-outline-atomics")))
#else
#define ATOMIC_INLINE
#endif

/* Each body's share of the tasks. A body draws from its own share first, so that call after call it finds the same tensors in its
 * core's cache, and then helps the others. */
struct share {
    _Alignas(64) _Atomic int64_t next; /* the first task that no body has drawn */
    int64_t end;
};

struct launch {
    const struct glint_cpu_call *call;
    glint_cpu_phase_fn *phase;
    struct share *shares;
    unsigned char *scratch;
    int64_t sequence_tasks; /* above 0: lengths are read at run time, and so many tasks after one another are of a sequence */
    uint32_t bodies;
};

/* The length of a sequence, between 0 and its bound. */
static int64_t length_of(const int32_t *lengths, int64_t sequence, int64_t bound)
{
    const int64_t length = lengths ? lengths[sequence] : bound;
    return length < 0 ? 0 : length > bound ? bound : length;
}

/* The problem that a sequence with lengths of its own is. */
static struct glint_problem problem_of(const struct glint_problem *p, const struct glint_tensors *t, int64_t sequence)
{
    struct glint_problem own = *p;
    own.seqlen_q = length_of(t->seqlens_q, sequence, p->seqlen_q);
    own.seqlen_k = length_of(t->seqlens_k, sequence, p->seqlen_k);
    return own;
}

static void run_task(const struct launch *launch, float *scratch, int64_t task)
{
    const struct glint_cpu_call *all = launch->call;
    if (launch->sequence_tasks == 0) {
        launch->phase(all, scratch, task);
        return;
    }
    const int64_t sequence = task / launch->sequence_tasks;
    const struct glint_problem own = problem_of(all->problem, all->tensors, sequence);
    struct glint_cpu_call call = *all;
    call.problem = &own;
    call.band = glint_band_of(&own);
    launch->phase(&call, scratch, task);
}

/* Has the sequence a length outside of its bounds, or a page outside of the pool with a key that some query sees? */
static bool is_faulty(const struct glint_problem *p, const struct glint_tensors *t, int64_t sequence)
{
    const struct glint_problem own = problem_of(p, t, sequence);
    if (t->seqlens_k[sequence] != own.seqlen_k || (t->seqlens_q && t->seqlens_q[sequence] != own.seqlen_q))
        return true;
    if (p->page_rows == 0 || own.seqlen_q == 0)
        return false;
    const int32_t *pages = t->page_table + sequence * p->pages_per_sequence;
    const int64_t last = glint_last_key(&own, own.seqlen_q - 1);
    for (int64_t key = glint_first_key(&own, 0) / p->page_rows * p->page_rows; key <= last; key += p->page_rows)
        if (pages[key / p->page_rows] < 0 || pages[key / p->page_rows] >= p->pages)
            return true;
    return false;
}

/* Lowers the word to the first sequence at fault. */
static void note_fault(const struct glint_problem *p, const struct glint_tensors *t)
{
    for (int64_t b = 0; t->fault && b < p->batch && b < (int64_t)*t->fault; b++)
        if (is_faulty(p, t, b))
            *t->fault = (uint32_t)b;
}

/* The gradient of a sink: what the sequences give to it, in their order. */
static void sum_sinks(const struct glint_cpu_call *call)
{
    const struct glint_problem *p = call->problem;
    for (int64_t h = 0; h < p->heads_q; h++) {
        float sum = 0.0f;
        for (int64_t b = 0; b < p->batch; b++)
            sum += *glint_cpu_sink_delta(call, b, h);
        call->tensors->dsinks[h] = 0.0f - sum;
    }
}

ATOMIC_INLINE static void body(void *argument, uint32_t index)
{
    const struct launch *launch = argument;
    const uint64_t floats = launch->call->geometry.region[GLINT_CPU_REGIONS];
    float *scratch = (float *)(void *)launch->scratch + index * floats;
    for (uint32_t i = 0; i < launch->bodies; i++) {
        struct share *share = &launch->shares[(index + i) % launch->bodies];
        for (;;) {
            const int64_t task = atomic_fetch_add_explicit(&share->next, 1, memory_order_relaxed);
            if (task >= share->end)
                break;
            run_task(launch, scratch, task);
        }
    }
}

bool glint_cpu_plan(const struct glint_variant *variant, const struct glint_problem *problem, uint32_t concurrency,
                    struct glint_family_plan *plan)
{
    struct glint_cpu_geometry geometry;
    if (!glint_cpu_geometry(variant, problem, concurrency, &geometry))
        return false;
    plan->workspace_bytes = (size_t)geometry.workspace_bytes;
    memcpy(plan->word, &geometry, sizeof geometry);
    return true;
}

_Static_assert(sizeof(struct glint_cpu_geometry) <= GLINT_FAMILY_WORDS * sizeof(uint64_t), "the geometry fits into a plan");

enum glint_status glint_cpu_run(const struct glint_context *context, const struct glint_variant *variant,
                                const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace, void *stream)
{
    (void)stream;
    const struct glint_executor *executor = &context->executor;
    const struct glint_cpu_kernel *kernel = variant->kernel;
    const struct glint_problem *p = &plan->problem;
    const bool lengths = p->lengths == GLINT_LENGTHS_DEVICE;
    struct glint_cpu_call call = {.problem = p, .tensors = tensors, .queries = p->seqlen_q, .band = glint_band_of(p)};
    if (lengths)
        note_fault(p, tensors);
    memcpy(&call.geometry, plan->internal, sizeof call.geometry);

    unsigned char *base = workspace;
    call.partials = (float *)(void *)(base + call.geometry.partials_offset);
    struct share *shares = (struct share *)(void *)base;
    for (int i = 0; i < GLINT_CPU_PHASES; i++) {
        const int64_t tasks = call.geometry.tasks[i];
        if (tasks == 0)
            continue;
        const uint32_t bodies = (uint32_t)(tasks < call.geometry.lanes ? tasks : call.geometry.lanes);
        struct launch launch = {
            &call, kernel->phase[i], shares, base + call.geometry.scratch_offset, lengths ? tasks / p->batch : 0, bodies};
        int64_t first = 0;
        for (uint32_t b = 0; b < bodies; b++) {
            atomic_init(&shares[b].next, first);
            first += tasks / bodies + (b < tasks % bodies);
            shares[b].end = first;
        }
        executor->parallel_for(executor->user, bodies, body, &launch);
    }
    if (p->sinks != 0 && plan->pass == GLINT_BACKWARD)
        sum_sinks(&call);
    return GLINT_OK;
}
