/* Runs a kernel's phases on the context's executor. */
#include <math.h>
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

/* Each body's share of the tasks. A body draws from its own share first, so that call after call it finds the same
 * tensors in its core's cache, and then helps the others. */
struct share {
    _Alignas(64) _Atomic int64_t next; /* the first task that no body has drawn */
    int64_t end;
};

struct launch {
    const struct glint_cpu_call *call;
    const struct glint_variant *variant;
    const struct glint_cpu_sequence *sequences; /* [batch + 1], the last has the totals; NULL: one problem */
    struct share *shares;
    struct glint_cpu_work *works; /* [lanes]; NULL: one problem */
    unsigned char *scratch;
    int64_t most; /* glint_cpu_most_blocks */
    uint32_t phase;
    uint32_t bodies;
    bool sums_dbias; /* of the first phase: a task is all sequences of a group; of the second: it sums groups */
};

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

struct glint_cpu_place glint_cpu_place_of(struct glint_cpu_side *side, int64_t b)
{
    struct glint_cpu_place place = {.at = 0, .given = side->bound, .right = true};
    if (side->first) {
        place.at = clamp(side->first[b], side->end, side->rows);
        side->end = clamp(side->first[b + 1], place.at, side->rows);
        place.given = side->end - place.at;
        place.right = place.at == side->first[b] && side->end == side->first[b + 1];
    }
    const int64_t room = place.given < side->bound ? place.given : side->bound;
    if (side->lengths)
        place.given = side->lengths[b];
    place.length = clamp(place.given, 0, room);
    place.right = place.right && place.length == place.given;
    return place;
}

/* The problem that sequence b is by itself, with a batch of one. */
static struct glint_problem problem_of(const struct glint_problem *p, const struct glint_cpu_sequence *s)
{
    struct glint_problem own = *p;
    own.batch = 1;
    own.seqlen_q = s->seqlen_q;
    own.seqlen_k = s->seqlen_k;
    return own;
}

/* Does some query see a key of the page that begins with `key`, by its interval and its tree? `row`: of the sequence's
 * first query. `words`: of a row of the tree. */
static bool is_seen(const struct glint_problem *own, const struct glint_tensors *t, int64_t row, int64_t words, int64_t key)
{
    const struct glint_band band = glint_band_of(own);
    const int32_t *const begin = own->intervals != 0 ? t->key_begin + row : NULL;
    const int32_t *const last = own->intervals != 0 ? t->key_end + row : NULL;
    const struct glint_cpu_tree tree = {own->tree != 0 ? t->tree_bits + row * words : NULL, words};
    const int64_t before = own->tree != 0 ? own->seqlen_k - own->seqlen_q : own->seqlen_k;
    for (int64_t i = 0; i < own->seqlen_q; i++) {
        const struct glint_cpu_keys_seen seen =
            own->tree != 0 ? glint_cpu_seen_in_tree(own, begin, last, tree, i) : glint_cpu_seen_by(own, band, begin, last, i);
        int64_t at = seen.first > key ? seen.first : key;
        const int64_t end = seen.end < key + own->page_rows ? seen.end : key + own->page_rows;
        while (at < end && at >= before && !glint_cpu_tree_has(tree.bits + i * words, at - before))
            at++;
        if (at < end)
            return true;
    }
    return false;
}

/* Has the sequence a page outside of the pool with a key that some query sees? */
static bool has_bad_page(const struct glint_problem *p, const struct glint_tensors *t, const struct glint_cpu_sequence *s,
                         int64_t sequence)
{
    if (p->page_rows == 0 || s->seqlen_q == 0)
        return false;
    const struct glint_problem own = problem_of(p, s);
    const int32_t *pages = t->page_table + sequence * p->pages_per_sequence;
    const bool rows_differ = p->intervals != 0 || p->tree != 0;
    const int64_t row = p->lengths == GLINT_LENGTHS_RAGGED ? s->first_q : sequence * p->seqlen_q;
    const int64_t first = p->tree != 0 ? 0 : glint_first_key(&own, 0); /* a query of a tree stands elsewhere */
    const int64_t last = p->tree != 0 ? own.seqlen_k - 1 : glint_last_key(&own, own.seqlen_q - 1);
    for (int64_t key = first / p->page_rows * p->page_rows; first <= last && key <= last; key += p->page_rows)
        if ((pages[key / p->page_rows] < 0 || pages[key / p->page_rows] >= p->pages) &&
            (!rows_differ || is_seen(&own, t, row, glint_tree_words(p), key)))
            return true;
    return false;
}

/* Reads the lengths, once; counts the tasks before each sequence. Lowers the word to the first sequence with a
 * length or a page that is none. */
__attribute__((noinline)) static int64_t read_lengths(const struct glint_cpu_call *call, const struct glint_variant *variant,
                                                      uint32_t concurrency, struct glint_cpu_sequence *sequences)
{
    const struct glint_problem *p = call->problem;
    const struct glint_tensors *t = call->tensors;
    struct glint_cpu_side queries = {t->first_q, t->seqlens_q, p->seqlen_q, p->rows_q, 0};
    struct glint_cpu_side keys = {t->first_k, t->seqlens_k, p->seqlen_k, p->rows_k, 0};
    int64_t tiles = 0;
    uint32_t at_fault = GLINT_NO_FAULT;
    for (int64_t b = 0; b < p->batch; b++) {
        struct glint_cpu_sequence *s = &sequences[b];
        const struct glint_cpu_place q = glint_cpu_place_of(&queries, b), k = glint_cpu_place_of(&keys, b);
        s->first_q = (int32_t)q.at, s->seqlen_q = (int32_t)q.length;
        s->first_k = (int32_t)k.at, s->seqlen_k = (int32_t)k.length;
        if (at_fault == GLINT_NO_FAULT && (!(q.right && k.right) || (t->fault && has_bad_page(p, t, s, b))))
            at_fault = (uint32_t)b;
        tiles += (s->seqlen_q + variant->tile_m - 1) / variant->tile_m * p->heads_q;
    }
    if (t->fault && at_fault < *t->fault)
        *t->fault = at_fault;
    const int64_t most = glint_cpu_most_blocks(&call->geometry, tiles, concurrency);
    struct glint_cpu_sequence before = {0};
    for (int64_t b = 0; b <= p->batch; b++) {
        struct glint_cpu_sequence *s = &sequences[b];
        memcpy(s->tasks, before.tasks, sizeof s->tasks);
        s->partials = before.partials;
        if (b == p->batch)
            break;
        const struct glint_problem own = problem_of(p, s);
        struct glint_cpu_geometry g = call->geometry;
        glint_cpu_sequence_geometry(variant, &own, most, &g);
        before.tasks[0] += g.tasks[0];
        before.tasks[1] += g.tasks[1];
        before.partials += g.split > 1 ? (uint64_t)(g.split * p->heads_q) * g.partial_floats : 0;
        if (p->sinks != 0 && variant->pass == GLINT_BACKWARD)
            before.partials += GLINT_CPU_LINE((uint64_t)p->heads_q);
    }
    return most;
}

/* The element of a tensor where a sequence begins; a tensor without elements stays where it is. */
static void move(const void *field, const struct glint_strides *s, int64_t batch, int64_t row, int64_t length, uint32_t dtype)
{
    char *address;
    if (length == 0)
        return;
    memcpy(&address, field, sizeof address);
    address += (batch * s->batch + row * s->row) * (dtype == GLINT_F32 ? 4 : dtype >= GLINT_I8 ? 1 : 2);
    memcpy((void *)(uintptr_t)field, &address, sizeof address);
}

/* Makes of the call that of the sequence which the task is of. Out of line: the stack is a kernel's. */
__attribute__((noinline)) static void begin_sequence(const struct launch *launch, struct glint_cpu_work *w, int64_t task)
{
    const struct glint_cpu_call *all = launch->call;
    const struct glint_problem *p = all->problem;
    int64_t low = 0, high = p->batch; /* the last sequence with no more tasks before it than this task's number */
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (launch->sequences[middle].tasks[launch->phase] <= task)
            low = middle;
        else
            high = middle;
    }
    const struct glint_cpu_sequence *s = &launch->sequences[low];
    const bool ragged = p->lengths == GLINT_LENGTHS_RAGGED;
    const int64_t batch = ragged ? 0 : low;
    w->first = s[0].tasks[launch->phase];
    w->end = s[1].tasks[launch->phase];
    w->problem = problem_of(p, s);
    w->tensors = *all->tensors;
    struct glint_tensors *t = &w->tensors;
    move(&t->q, &p->q, batch, s->first_q, s->seqlen_q, p->dtype);
    move(&t->o, &p->o, batch, s->first_q, s->seqlen_q, p->dtype);
    if (p->page_rows > 0) {
        t->page_table += low * p->pages_per_sequence;
    } else {
        const uint32_t dtype = p->kv_dtype != 0 ? p->kv_dtype : p->dtype;
        move(&t->k, &p->k, batch, s->first_k, s->seqlen_k, dtype);
        move(&t->v, &p->v, batch, s->first_k, s->seqlen_k, dtype);
        if (p->kv_scales == GLINT_SCALES_ROW && s->seqlen_k > 0) {
            const int64_t first = batch * p->heads_kv * p->seqlen_k + s->first_k;
            t->k_scale += first;
            t->v_scale += first;
        }
    }
    if (p->bias_dtype != 0 && p->seqlen_q > 0 && p->seqlen_k > 0)
        t->bias = (const char *)t->bias + low * p->bias.batch * (p->bias_dtype == GLINT_F32 ? 4 : 2);
    if (launch->variant->pass == GLINT_BACKWARD) {
        move(&t->dout, &p->dout, batch, s->first_q, s->seqlen_q, p->dtype);
        move(&t->dq, &p->dq, batch, s->first_q, s->seqlen_q, p->dtype);
        move(&t->dk, &p->dk, batch, s->first_k, s->seqlen_k, p->dtype);
        move(&t->dv, &p->dv, batch, s->first_k, s->seqlen_k, p->dtype);
    }
    if (s->seqlen_q > 0) {
        const int64_t first = ragged ? s->first_q : low * p->heads_q * p->seqlen_q;
        t->lse += first;
        t->dlse = t->dlse ? t->dlse + first : NULL;
        if (p->intervals != 0) {
            t->key_begin += ragged ? s->first_q : low * p->seqlen_q;
            t->key_end += ragged ? s->first_q : low * p->seqlen_q;
        }
        if (p->tree != 0)
            t->tree_bits += (ragged ? s->first_q : low * p->seqlen_q) * all->tree_words;
    }
    w->call = *all;
    w->call.problem = &w->problem;
    w->call.tensors = t;
    w->call.band = glint_band_of(&w->problem);
    w->call.partials += s->partials;
    w->call.dbias.sequence = low;
    glint_cpu_sequence_geometry(launch->variant, &w->problem, launch->most, &w->call.geometry);
}

/* The gradient of a sink: what the sequences give to it, in their order. */
static void sum_sinks(const struct glint_cpu_call *call, const struct glint_cpu_sequence *sequences)
{
    const struct glint_problem *p = call->problem;
    for (int64_t h = 0; h < p->heads_q; h++) {
        float sum = 0.0f;
        for (int64_t b = 0; b < p->batch; b++)
            sum += sequences ? call->partials[sequences[b + 1].partials - GLINT_CPU_LINE((uint64_t)p->heads_q) + (uint64_t)h]
                             : *glint_cpu_sink_delta(call, b, h);
        call->tensors->dsinks[h] = 0.0f - sum;
    }
}

/* The largest logit of each head: before the tasks that of no pair, in every lane, and after them the largest of the
 * lanes'. */
static void begin_logits(const struct glint_cpu_call *call, float *scratch)
{
    const struct glint_cpu_geometry *g = &call->geometry;
    for (int64_t lane = 0; lane < g->lanes; lane++, scratch += g->region[GLINT_CPU_REGIONS])
        for (int64_t h = 0; h < call->problem->heads_q; h++)
            glint_cpu_max_logit(call, scratch)[h] = -INFINITY;
}

static void end_logits(const struct glint_cpu_call *call, float *scratch)
{
    const struct glint_cpu_geometry *g = &call->geometry;
    for (int64_t h = 0; h < call->problem->heads_q; h++) {
        float most = -INFINITY;
        for (int64_t lane = 0; lane < g->lanes; lane++) {
            const float x = glint_cpu_max_logit(call, scratch + (uint64_t)lane * g->region[GLINT_CPU_REGIONS])[h];
            most = x > most ? x : most;
        }
        call->tensors->max_logit[h] = most + 0.0f; /* of 0 and -0 either is the largest: whoever met it first */
    }
}

/* With dBias: the tasks of a key head, or of a part of its keys, in all sequences of a group, in their order. */
__attribute__((noinline)) static void run_group(const struct launch *launch, struct glint_cpu_work *work, float *scratch,
                                                int64_t unit)
{
    const struct glint_cpu_call *call = launch->call;
    const int64_t batch = call->problem->batch;
    const int64_t tasks = call->problem->heads_kv * call->geometry.split; /* of a sequence */
    const int64_t group = unit / tasks, first = group * call->dbias.per_group;
    for (int64_t b = first; b < first + call->dbias.per_group && b < batch; b++) {
        if (!launch->sequences) {
            glint_cpu_run_task(launch->variant->kernel, 0, call, scratch, b * tasks + unit % tasks);
            continue;
        }
        begin_sequence(launch, work, launch->sequences[b].tasks[0]);
        glint_cpu_run_task(launch->variant->kernel, 0, &work->call, scratch, unit % tasks);
    }
}

ATOMIC_INLINE static void body(void *argument, uint32_t index)
{
    const struct launch *launch = argument;
    const uint64_t floats = launch->call->geometry.region[GLINT_CPU_REGIONS];
    const uint32_t kernel = launch->variant->kernel, phase = launch->phase;
    float *scratch = (float *)(void *)launch->scratch + index * floats;
    struct glint_cpu_work *work = launch->works ? &launch->works[index] : NULL;
    if (work)
        work->first = work->end = 0;
    for (uint32_t i = 0; i < launch->bodies; i++) {
        struct share *share = &launch->shares[(index + i) % launch->bodies];
        for (;;) {
            const int64_t task = atomic_fetch_add_explicit(&share->next, 1, memory_order_relaxed);
            if (task >= share->end)
                break;
            if (launch->sums_dbias && phase == 0) {
                run_group(launch, work, scratch, task);
                continue;
            }
            if (!launch->sequences || launch->sums_dbias) {
                glint_cpu_run_task(kernel, phase, launch->call, scratch, launch->sums_dbias ? -1 - task : task);
                continue;
            }
            if (task < work->first || task >= work->end)
                begin_sequence(launch, work, task);
            glint_cpu_run_task(kernel, phase, &work->call, scratch, task - work->first);
        }
    }
}

bool glint_cpu_plan(const struct glint_variant *variant, const struct glint_problem *problem, uint32_t concurrency,
                    struct glint_family_plan *plan)
{
    struct glint_cpu_geometry geometry;
    uint64_t bytes;
    if (!glint_cpu_geometry(variant, problem, concurrency, &geometry, &bytes))
        return false;
    plan->workspace_bytes = (size_t)bytes;
    memcpy(plan->word, &geometry, sizeof geometry);
    return true;
}

static void run_phase(struct launch *launch, const struct glint_executor *executor, uint32_t phase, int64_t tasks)
{
    const int64_t lanes = launch->call->geometry.lanes;
    const uint32_t bodies = (uint32_t)(tasks < lanes ? tasks : lanes);
    struct share *const shares = launch->shares;
    if (tasks == 0)
        return;
    launch->phase = phase;
    launch->bodies = bodies;
    int64_t first = 0;
    for (uint32_t b = 0; b < bodies; b++) {
        atomic_init(&shares[b].next, first);
        first += tasks / bodies + (b < tasks % bodies);
        shares[b].end = first;
    }
    executor->parallel_for(executor->user, bodies, body, launch);
}

/* Elements of dBias that a task sums: those of a head, or of a block of its queries. */
static int64_t tasks_of_dbias(const struct glint_cpu_call *call)
{
    const struct glint_problem *p = call->problem;
    const int64_t heads = (p->bias.batch != 0 ? p->batch : 1) * (p->bias.head != 0 ? p->heads_q : 1);
    return p->seqlen_q == 0 || p->seqlen_k == 0 ? 0 : heads * (p->bias.query != 0 ? call->geometry.query_blocks : 1);
}

/* The first phase of a call that asks for dBias, and the sum of its groups. Out of line: the stack is a kernel's. */
__attribute__((noinline)) static void run_with_dbias(struct launch *launch, const struct glint_executor *executor,
                                                     struct glint_cpu_call *call, unsigned char *workspace)
{
    const struct glint_problem *p = call->problem;
    const struct glint_cpu_geometry *g = &call->geometry;
    call->dbias = (struct glint_cpu_dbias){(float *)(void *)(workspace + g->dbias_offset), 0, glint_cpu_dbias_per_group(p),
                                           g->key_blocks, g->query_blocks * GLINT_CPU_PITCH(launch->variant->tile_m)};
    launch->sums_dbias = true;
    run_phase(launch, executor, 0, glint_cpu_dbias_groups(p) * p->heads_kv * g->split);
    run_phase(launch, executor, 1, tasks_of_dbias(call));
    launch->sums_dbias = false;
}

_Static_assert(sizeof(struct glint_cpu_geometry) <= GLINT_FAMILY_WORDS * sizeof(uint64_t), "the geometry fits into a plan");

enum glint_status glint_cpu_run(const struct glint_context *context, const struct glint_variant *variant,
                                const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace, void *stream)
{
    (void)stream;
    const struct glint_executor *executor = &context->executor;
    const struct glint_problem *p = &plan->problem;
    const bool ragged = p->lengths == GLINT_LENGTHS_RAGGED;
    struct glint_cpu_call call = {.problem = p, .tensors = tensors, .band = glint_band_of(p), .tree_words = glint_tree_words(p)};
    call.queries = ragged ? p->rows_q : p->seqlen_q;
    call.keys = ragged ? p->rows_k : p->seqlen_k;
    memcpy(&call.geometry, plan->internal, sizeof call.geometry);
    const struct glint_cpu_geometry *g = &call.geometry;

    unsigned char *base = workspace;
    call.partials = (float *)(void *)(base + g->partials_offset);
    struct share *shares = (struct share *)(void *)base;
    struct launch launch = {.call = &call, .variant = variant, .shares = shares, .scratch = base + g->scratch_offset};
    int64_t total[GLINT_CPU_PHASES] = {g->tasks[0], g->tasks[1]};
    if (p->lengths != GLINT_LENGTHS_HOST) {
        const int64_t lanes = g->lanes > 0 ? g->lanes : 1;
        launch.works = (struct glint_cpu_work *)(void *)(shares + lanes);
        struct glint_cpu_sequence *sequences = (struct glint_cpu_sequence *)(void *)(launch.works + lanes);
        launch.most = read_lengths(&call, variant, executor->concurrency, sequences);
        launch.sequences = sequences;
        memcpy(total, sequences[p->batch].tasks, sizeof total);
    }
    if (p->max_logit != 0)
        begin_logits(&call, (float *)(void *)launch.scratch);
    if (plan->pass == GLINT_BACKWARD && p->dbias != 0) {
        run_with_dbias(&launch, executor, &call, base);
        total[0] = 0;
    }
    for (uint32_t i = 0; i < GLINT_CPU_PHASES; i++)
        run_phase(&launch, executor, i, total[i]);
    if (p->sinks != 0 && plan->pass == GLINT_BACKWARD)
        sum_sinks(&call, launch.sequences);
    if (p->max_logit != 0)
        end_logits(&call, (float *)(void *)launch.scratch);
    return GLINT_OK;
}
