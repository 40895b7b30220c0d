/* glint_forward and glint_backward given each argument wrong, alone and in pairs: the oracle's status, every byte of
 * every tensor and of the workspace as it was, the executor never called, glint_explain_call of the same mind; and
 * the context works afterwards. A pair that turns out to be correct (say, Q and K in one place) is run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/contract/refusal_oracle.h"
#include "tests/contract/suite.h"
#include "tests/contract/world.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- what can be done to a call ---------------------------------------------------------------------------------- */

struct arguments {
    const struct glint_plan *plan;
    struct glint_tensors tensors;
    bool tensors_null;
    enum glint_pass called;
    unsigned char *workspace;
    size_t workspace_bytes;
    void *stream;
};

enum action {
    TENSOR_NULL,    /* tensor a */
    TENSOR_SHIFTED, /* tensor a, by `amount` bytes */
    TENSOR_ONTO,    /* tensor a at tensor b's address + amount */
    TENSOR_BEFORE,  /* tensor a ends `amount` bytes into b */
    TENSOR_IN_WORKSPACE,
    TENSORS_NULL,
    TENSORS_SIZE,
    TENSORS_RESERVED,
    WORKSPACE_NULL,
    WORKSPACE_SHIFTED,
    WORKSPACE_BYTES, /* needed + amount */
    WORKSPACE_HUGE,
    STREAM,
    PLAN_NULL,
    OTHER_PASS,
    SINKS_NULL, /* by `amount` % 4: the sinks, their gradient, k_scale, v_scale; here and below */
    SINKS_SHIFTED,
    SINKS_ONTO, /* tensor a, at byte amount / 4 */
    SINKS_IN_WORKSPACE,
    SINKS_IN_ONE_PLACE
};

struct change {
    enum action action;
    enum tensor a, b;
    int64_t amount;
};

enum { MAX_CHANGES = 512 };
struct changes {
    size_t count;
    struct change at[MAX_CHANGES];
};

static void add(struct changes *c, enum action action, enum tensor a, enum tensor b, int64_t amount)
{
    if (c->count == MAX_CHANGES)
        abort();
    c->at[c->count++] = (struct change){action, a, b, amount};
}

static void list_changes(struct changes *c, const struct call *call)
{
    const int64_t row = call->problem.head_dim * element_bytes(call->problem.dtype);
    c->count = 0;
    for (enum tensor a = Q; a < TENSORS; a++) {
        add(c, TENSOR_NULL, a, a, 0);
        add(c, TENSOR_SHIFTED, a, a, 1);
        add(c, TENSOR_SHIFTED, a, a, 2);
        if (!pass_uses(call->pass, a))
            continue;
        add(c, TENSOR_IN_WORKSPACE, a, a, 0);
        add(c, TENSOR_IN_WORKSPACE, a, a, (int64_t)(call->workspace_bytes & ~(size_t)63) - 64);
        for (enum tensor b = Q; b < TENSORS; b++) {
            if (b == a || !pass_uses(call->pass, b))
                continue;
            add(c, TENSOR_ONTO, a, b, 0);
            add(c, TENSOR_BEFORE, a, b, 64 < row ? 64 : row);
            add(c, TENSOR_ONTO, a, b, ((int64_t)call->bytes[b] - row) / 64 * 64);
        }
    }
    add(c, TENSORS_NULL, Q, Q, 0);
    const int64_t sizes[] = {0, 1, sizeof(struct glint_tensors) - 8, sizeof(struct glint_tensors) + 8, UINT32_MAX};
    for (size_t i = 0; i < COUNT(sizes); i++)
        add(c, TENSORS_SIZE, Q, Q, sizes[i]);
    add(c, TENSORS_RESERVED, Q, Q, 1);
    add(c, TENSORS_RESERVED, Q, Q, UINT32_MAX);
    add(c, WORKSPACE_NULL, Q, Q, 0);
    const int64_t shifts[] = {1, 2, 4, 16, 32, 64, 128};
    for (size_t i = 0; i < COUNT(shifts); i++)
        add(c, WORKSPACE_SHIFTED, Q, Q, shifts[i]);
    add(c, WORKSPACE_BYTES, Q, Q, -1);
    add(c, WORKSPACE_BYTES, Q, Q, -64);
    add(c, WORKSPACE_BYTES, Q, Q, -(int64_t)call->workspace_bytes);
    add(c, WORKSPACE_BYTES, Q, Q, 1);
    add(c, WORKSPACE_HUGE, Q, Q, 0);
    add(c, STREAM, Q, Q, 1);
    add(c, STREAM, Q, Q, 2);
    add(c, PLAN_NULL, Q, Q, 0);
    add(c, OTHER_PASS, Q, Q, 0);
}

/* Of the sinks and their gradient, or of the scales. */
static void list_sink_changes(struct changes *c, const struct call *call, bool scales)
{
    c->count = 0;
    for (int which = scales ? 2 : 0; which < (scales ? 4 : 2); which++) {
        if (scales ? call->problem.kv_scales != GLINT_SCALES_NONE : call->problem.sinks != 0)
            add(c, SINKS_NULL, Q, Q, which);
        add(c, SINKS_SHIFTED, Q, Q, which);
        add(c, SINKS_IN_WORKSPACE, Q, Q, which);
        add(c, SINKS_IN_ONE_PLACE, Q, Q, which);
        for (enum tensor a = Q; a < TENSORS; a++) {
            if (!pass_uses(call->pass, a))
                continue;
            add(c, SINKS_ONTO, a, a, which);
            add(c, SINKS_ONTO, a, a, 4 * (((int64_t)call->bytes[a] - 4) / 4 * 4) + which);
        }
    }
}

/* No cast: it may be misaligned on purpose. */
static void set_sinks(struct arguments *to, int64_t which, const unsigned char *address)
{
    switch (which % 4) {
    case 0: memcpy(&to->tensors.sinks, &address, sizeof address); break;
    case 1: memcpy(&to->tensors.dsinks, &address, sizeof address); break;
    case 2: memcpy(&to->tensors.k_scale, &address, sizeof address); break;
    default: memcpy(&to->tensors.v_scale, &address, sizeof address); break;
    }
}

static const unsigned char *place_of_sinks(const struct call *call, int64_t which)
{
    return call->block + (which < 2 ? call->sinks_offset[which] : call->scale_offset[which - 2]);
}

static void apply(struct arguments *to, const struct change *change, const struct call *call)
{
    unsigned char *const here = tensor_get(&to->tensors, change->a);
    unsigned char *const there = tensor_get(&to->tensors, change->b);
    switch (change->action) {
    case TENSOR_NULL: tensor_set(&to->tensors, change->a, NULL); break;
    case TENSOR_SHIFTED:
        if (here != NULL)
            tensor_set(&to->tensors, change->a, here + change->amount);
        break;
    case TENSOR_ONTO:
        if (there != NULL)
            tensor_set(&to->tensors, change->a, there + change->amount);
        break;
    case TENSOR_BEFORE:
        if (there != NULL)
            tensor_set(&to->tensors, change->a, there - call->bytes[change->a] + change->amount);
        break;
    case TENSOR_IN_WORKSPACE:
        if (to->workspace != NULL)
            tensor_set(&to->tensors, change->a, to->workspace + change->amount);
        break;
    case TENSORS_NULL: to->tensors_null = true; break;
    case TENSORS_SIZE: to->tensors.struct_size = (uint32_t)change->amount; break;
    case TENSORS_RESERVED: to->tensors.reserved = (uint32_t)change->amount; break;
    case WORKSPACE_NULL: to->workspace = NULL; break;
    case WORKSPACE_SHIFTED:
        if (to->workspace != NULL)
            to->workspace += change->amount;
        break;
    case WORKSPACE_BYTES: to->workspace_bytes = (size_t)((int64_t)to->workspace_bytes + change->amount); break;
    case WORKSPACE_HUGE: to->workspace_bytes = SIZE_MAX; break;
    case STREAM: to->stream = (void *)(uintptr_t)change->amount; break;
    case PLAN_NULL: to->plan = NULL; break;
    case SINKS_NULL: set_sinks(to, change->amount, NULL); break;
    case SINKS_SHIFTED: set_sinks(to, change->amount, place_of_sinks(call, change->amount) + 2); break;
    case SINKS_ONTO: set_sinks(to, change->amount, call->block + call->offset[change->a] + change->amount / 4); break;
    case SINKS_IN_WORKSPACE: set_sinks(to, change->amount, (const unsigned char *)call->workspace + 16); break;
    case SINKS_IN_ONE_PLACE: set_sinks(to, change->amount, place_of_sinks(call, change->amount ^ 1)); break;
    case OTHER_PASS: to->called = call->pass == GLINT_FORWARD ? GLINT_BACKWARD : GLINT_FORWARD; break;
    }
}

/* Applied in this order: first what moves tensors, so that a later change of the same tensor wins. Two runs must not
 * leave the block. */
static bool inside_block(const struct call *c, const struct arguments *a)
{
    for (enum tensor t = Q; t < TENSORS; t++) {
        const unsigned char *const at = tensor_get(&a->tensors, t);
        if (at == NULL || !pass_uses(c->pass, t))
            continue;
        if (at < c->block || at + c->bytes[t] > c->block + c->block_bytes)
            return false;
    }
    return a->workspace == NULL || (a->workspace >= c->block && a->workspace + c->workspace_bytes <= c->block + c->block_bytes);
}

/* ---- a call to begin with ---------------------------------------------------------------------------------------- */

/* A context, a correct call of the first row that has the pass, and what every byte was before anything ran. */
struct trial {
    enum glint_pass pass;
    void *storage;
    struct counting counting;
    struct glint_context *context;
    struct glint_variant_info info;
    struct glint_problem problem;
    struct call call;
    unsigned char *pristine;
};

/* False, and says so, when the spec has no such pass; otherwise trial_close() ends it. */
static bool trial_open(struct trial *t, enum glint_pass pass, uint32_t concurrency)
{
    t->pass = pass;
    t->context = open_context(&t->counting, concurrency, &t->storage);
    if (!runs_pass(t->context, pass)) {
        contract_note("skipped: no %s in the spec", pass_name((uint32_t)pass));
        free(t->storage);
        return false;
    }
    t->info = first_row(t->context, pass);
    return true;
}

static void trial_close(struct trial *t)
{
    free(t->storage);
}

/* Contiguous tensors; the mask is the row's. */
static void trial_problem(struct trial *t, int64_t batch, int64_t seqlen_q, int64_t seqlen_k, int64_t heads_q, int64_t heads_kv,
                          bool bottom_right)
{
    t->problem = (struct glint_problem){0};
    glint_problem_bshd(&t->problem, (enum glint_dtype)t->info.dtype, batch, seqlen_q, seqlen_k, heads_q, heads_kv,
                       t->info.head_dim);
    serve_cache(&t->problem, &t->info);
    t->problem.mask = row_mask(&t->info, bottom_right);
}

/* Tensors, workspace and plan of the problem, filled; trial_drop_call() frees them. */
static void trial_call(struct trial *t, uint64_t seed)
{
    call_make(&t->call, t->context, &t->problem, t->pass, seed);
    t->pristine = malloc(t->call.block_bytes);
    memcpy(t->pristine, t->call.block, t->call.block_bytes);
}

static void trial_drop_call(struct trial *t)
{
    free(t->pristine);
    call_free(&t->call);
}

static bool trial_untouched(const struct trial *t)
{
    return memcmp(t->call.block, t->pristine, t->call.block_bytes) == 0;
}

/* ---- one case ---------------------------------------------------------------------------------------------------- */

static struct {
    uint64_t cases, refused, ran, outside;
    uint64_t by_status[128];
} tally;

static enum glint_status invoke(const struct arguments *a)
{
    const struct glint_tensors *const tensors = a->tensors_null ? NULL : &a->tensors;
    return a->called == GLINT_FORWARD ? glint_forward(a->plan, tensors, a->workspace, a->workspace_bytes, a->stream)
                                      : glint_backward(a->plan, tensors, a->workspace, a->workspace_bytes, a->stream);
}

static void judge(struct trial *t, const struct change *first, const struct change *second)
{
    struct call *const c = &t->call;
    struct faults faults;
    char text[4096];
    size_t needed = 0;
    struct arguments a = {&c->plan, c->tensors, false, c->pass, c->workspace, c->workspace_bytes, NULL};
    apply(&a, first, c);
    if (second != NULL)
        apply(&a, second, c);
    if (!inside_block(c, &a)) {
        tally.outside++;
        return;
    }
    const struct call_arguments told = {
        a.plan == NULL,    false,   false, &c->plan, a.called, a.tensors_null ? NULL : &a.tensors, a.workspace,
        a.workspace_bytes, a.stream};
    oracle_call(&faults, &told);
    const struct glint_tensors *const tensors = told.tensors;
    const uint64_t calls = t->counting.calls;
    const enum glint_status explained =
        glint_explain_call(a.plan, a.called, tensors, a.workspace, a.workspace_bytes, a.stream, text, sizeof text, &needed);
    EXPECT(t->counting.calls == calls && trial_untouched(t), "glint_explain_call ran something");
    const enum glint_status status = invoke(&a);
    const int one = (int)first->action, two = second ? (int)second->action : -1;
    EXPECT(oracle_allows(&faults, status), "%s: gives %s, not %s (changes %d of %s/%s by %lld, %d of %s/%s by %lld)",
           pass_name((uint32_t)c->pass), glint_status_name(status), oracle_print(&faults), one, tensor_field[first->a],
           tensor_field[first->b], (long long)first->amount, two, second ? tensor_field[second->a] : "",
           second ? tensor_field[second->b] : "", second ? (long long)second->amount : 0);
    EXPECT(explained == status, "glint_explain_call gives %s, the call %s (oracle %s)", glint_status_name(explained),
           glint_status_name(status), oracle_print(&faults));
    EXPECT(needed > 1 && needed <= sizeof text && text[needed - 1] == '\0' && strlen(text) == needed - 1, "needed_bytes is %zu",
           needed);
    tally.cases++;
    tally.by_status[status]++;
    if (status == GLINT_OK) {
        tally.ran++;
        memcpy(c->block, t->pristine, c->block_bytes);
        return;
    }
    tally.refused++;
    EXPECT(t->counting.calls == calls, "refused with %s after running", glint_status_name(status));
    EXPECT(trial_untouched(t), "refused with %s after writing", glint_status_name(status));
    EXPECT(oracle_text_names(&faults, status, text), "the text should name one of %s:\n%s", oracle_print(&faults), text);
}

static const enum glint_status call_statuses[] = {
    GLINT_NULL_ARGUMENT,     GLINT_STRUCT_SIZE,    GLINT_BAD_RESERVED,        GLINT_WRONG_PASS,           GLINT_NULL_TENSOR,
    GLINT_TENSOR_MISALIGNED, GLINT_TENSOR_OVERLAP, GLINT_WORKSPACE_TOO_SMALL, GLINT_WORKSPACE_MISALIGNED, GLINT_BAD_STREAM};

static void judge_all(enum glint_pass pass, bool fused)
{
    struct trial t;
    static struct changes changes;
    if (!trial_open(&t, pass, 2))
        return;
    trial_problem(&t, 2, 3, 3, 2, 1, true);
    if (fused) { /* Q, K, V and dQ, dK, dV as views: the parts of call_make's block then hold the whole of each view */
        struct glint_problem *const p = &t.problem;
        p->q = p->k = p->v = p->dq = p->dk = p->dv = (struct glint_strides){3 * 4 * p->head_dim, p->head_dim, 4 * p->head_dim};
    }
    trial_call(&t, 11);
    list_changes(&changes, &t.call);
    for (size_t i = 0; i < changes.count; i++) {
        judge(&t, &changes.at[i], NULL);
        /* of the backward's 60,000 pairs a third, another third for each i; fewer under an emulator */
        const size_t step = CONTRACT_EMULATED ? 11 : changes.count > 150 ? 3 : 1;
        for (size_t j = i + 1 + i % step; j < changes.count; j += step)
            judge(&t, &changes.at[i], &changes.at[j]);
    }
    EXPECT(call_run(&t.call) == GLINT_OK && call_canaries_hold(&t.call), "the context does not work afterwards");
    contract_note("%s%s: %llu cases: %llu refused, %llu correct and run, %llu not tried", pass_name((uint32_t)pass),
                  fused ? " of views" : "", (unsigned long long)tally.cases, (unsigned long long)tally.refused,
                  (unsigned long long)tally.ran, (unsigned long long)tally.outside);
    EXPECT(tally.refused >= (CONTRACT_EMULATED ? 500 : 3000), "only %llu refusals", (unsigned long long)tally.refused);
    for (size_t i = 0; i < COUNT(call_statuses); i++) {
        EXPECT(tally.by_status[call_statuses[i]] > 0, "no case gave %s", glint_status_name(call_statuses[i]));
    }
    trial_drop_call(&t);
    trial_close(&t);
}

/* Each change alone, beside each other, and beside every seventh of the others. */
static void judge_beside(struct trial *t, const struct changes *changes, const struct changes *others)
{
    for (size_t i = 0; i < changes->count; i++) {
        judge(t, &changes->at[i], NULL);
        for (size_t j = 0; j < changes->count; j++)
            judge(t, &changes->at[j], &changes->at[i]);
        for (size_t j = i % 7; j < others->count; j += 7)
            judge(t, &others->at[j], &changes->at[i]);
    }
    EXPECT(call_run(&t->call) == GLINT_OK && call_canaries_hold(&t->call), "the context does not work afterwards");
}

/* Sinks given and wanted, or not wanted, each in each wrong place, alone and beside every other change of a call. */
static void sinks(void)
{
    for (int pass = GLINT_FORWARD; pass <= GLINT_BACKWARD; pass++)
        for (uint32_t wanted = 0; wanted < 2; wanted++) {
            struct trial t;
            static struct changes others, changes;
            if (!trial_open(&t, (enum glint_pass)pass, 2))
                continue;
            trial_problem(&t, 2, 3, 3, 2, 1, true);
            t.problem.sinks = wanted;
            trial_call(&t, 12);
            list_changes(&others, &t.call);
            list_sink_changes(&changes, &t.call, false);
            judge_beside(&t, &changes, &others);
            trial_drop_call(&t);
            trial_close(&t);
        }
    contract_note("%llu cases: %llu refused, %llu correct and run", (unsigned long long)tally.cases,
                  (unsigned long long)tally.refused, (unsigned long long)tally.ran);
    const enum glint_status statuses[] = {GLINT_BAD_SINKS, GLINT_NULL_TENSOR, GLINT_TENSOR_MISALIGNED, GLINT_TENSOR_OVERLAP};
    for (size_t i = 0; i < COUNT(statuses); i++)
        EXPECT(tally.by_status[statuses[i]] > 0, "no case gave %s", glint_status_name(statuses[i]));
}

/* Scales of each shape are checked like sinks, on a row of 8-bit K and V, and on a row of others, which takes none. */
static void scales(void)
{
    uint32_t tried = 0;
    for (uint32_t kind = GLINT_SCALES_NONE; kind <= GLINT_SCALES_ROW; kind++) {
        struct trial t;
        static struct changes others, changes;
        if (!trial_open(&t, GLINT_FORWARD, 2))
            return;
        for (uint32_t i = 0; i < glint_variant_count() && (t.info.kv_dtype != 0) != (kind != GLINT_SCALES_NONE); i++)
            if (row_at(i).pass == GLINT_FORWARD && glint_variant_available(t.context, i) == GLINT_OK)
                t.info = row_at(i);
        if ((t.info.kv_dtype != 0) == (kind != GLINT_SCALES_NONE)) {
            trial_problem(&t, 2, 3, 3, 2, 1, true);
            t.problem.kv_scales = kind;
            trial_call(&t, 13);
            list_changes(&others, &t.call);
            list_sink_changes(&changes, &t.call, true);
            judge_beside(&t, &changes, &others);
            trial_drop_call(&t);
            tried += kind != GLINT_SCALES_NONE;
        }
        trial_close(&t);
    }
    contract_note("%llu cases: %llu refused, %llu correct and run", (unsigned long long)tally.cases,
                  (unsigned long long)tally.refused, (unsigned long long)tally.ran);
    const enum glint_status statuses[] = {GLINT_BAD_SCALES, GLINT_NULL_TENSOR, GLINT_TENSOR_MISALIGNED, GLINT_TENSOR_OVERLAP};
    for (size_t i = 0; i < (tried > 0 ? COUNT(statuses) : 1); i++)
        EXPECT(tally.by_status[statuses[i]] > 0, "no case gave %s", glint_status_name(statuses[i]));
}

static void forward_arguments(void)
{
    judge_all(GLINT_FORWARD, false);
}
static void backward_arguments(void)
{
    judge_all(GLINT_BACKWARD, false);
}
static void forward_of_views(void)
{
    judge_all(GLINT_FORWARD, true);
}
static void backward_of_views(void)
{
    judge_all(GLINT_BACKWARD, true);
}

/* ---- outputs that interleave ------------------------------------------------------------------------------------- */

/* dQ, dK, dV in one fused tensor share an address range and no byte; moved by one element they share one. */
static void interleaved_outputs(void)
{
    struct trial t;
    if (!trial_open(&t, GLINT_BACKWARD, 1))
        return;
    trial_problem(&t, 2, 4, 4, 2, 2, false);
    struct glint_problem *const p = &t.problem;
    const int64_t d = p->head_dim, row = 6 * d, size = element_bytes(p->dtype);
    p->q = p->k = p->v = p->dq = p->dk = p->dv = (struct glint_strides){4 * row, d, row};
    trial_call(&t, 5);
    struct call c = t.call; /* its tensors are moved into one buffer */
    const size_t fused_bytes = (size_t)(2 * 4 * row * size);
    unsigned char *const inputs = aligned_memory(256, fused_bytes), *const outputs = aligned_memory(256, fused_bytes + 4096);
    struct rand random = {3};
    fill_random(&random, p->dtype, inputs, fused_bytes);
    memset(outputs, CANARY, fused_bytes + 4096);
    c.tensors.q = inputs;
    c.tensors.k = inputs + 2 * d * size;
    c.tensors.v = inputs + 4 * d * size;
    c.tensors.dq = outputs;
    c.tensors.dk = outputs + 2 * d * size;
    c.tensors.dv = outputs + 4 * d * size;
    EXPECT(call_run(&c) == GLINT_OK, "a fused dQKV gives %s", glint_status_name(call_run(&c)));
    for (size_t i = 0; i < fused_bytes; i += (size_t)size) {
        EXPECT(memcmp(outputs + i, "\xC5\xC5\xC5\xC5", (size_t)size) != 0, "byte %zu of the fused gradient was not written", i);
    }
    const uint64_t calls = t.counting.calls;
    const int64_t step = t.info.alignment_bytes > (uint32_t)size ? t.info.alignment_bytes : size;
    for (int64_t by = step; by < 2 * d * size; by += step) {
        struct call moved = c;
        moved.tensors.dk = outputs + 2 * d * size + by;
        const enum glint_status status = call_run(&moved);
        EXPECT(status == GLINT_TENSOR_OVERLAP, "dK moved by %lld bytes gives %s", (long long)by, glint_status_name(status));
    }
    EXPECT(t.counting.calls == calls, "a refused call ran");
    free(inputs);
    free(outputs);
    trial_drop_call(&t);
    trial_close(&t);
}

/* ---- plans that are not what glint_plan made --------------------------------------------------------------------- */

/* A plan that was changed at this bit is refused, and nothing else happens. */
static void refuses_plan(const struct trial *t, const struct glint_plan *plan, size_t bit)
{
    const struct call *const c = &t->call;
    const uint64_t calls = t->counting.calls;
    char text[1024];
    const size_t needed = plan->workspace_bytes > c->workspace_bytes ? plan->workspace_bytes : c->workspace_bytes;
    const enum glint_status status = c->pass == GLINT_FORWARD ? glint_forward(plan, &c->tensors, c->workspace, needed, NULL)
                                                              : glint_backward(plan, &c->tensors, c->workspace, needed, NULL);
    const bool other = (bit / 8 < 4 && status == GLINT_STRUCT_SIZE) || (bit / 32 == 1 && status == GLINT_WRONG_PASS);
    EXPECT(status == GLINT_BAD_PLAN || other, "changed at bit %zu: %s", bit, glint_status_name(status));
    EXPECT(glint_explain_call(plan, c->pass, &c->tensors, c->workspace, needed, NULL, text, sizeof text, NULL) == status,
           "glint_explain_call differs at bit %zu", bit);
    EXPECT(text_has_word(text, "plan") || other, "%s", text);
    EXPECT(t->counting.calls == calls, "changed at bit %zu it ran", bit);
    EXPECT(trial_untouched(t), "changed at bit %zu it wrote", bit);
}

static size_t refuses_flipped_bits(const struct trial *t)
{
    for (size_t bit = 0; bit < 8 * sizeof t->call.plan; bit++) {
        struct glint_plan changed = t->call.plan;
        ((unsigned char *)&changed)[bit / 8] ^= (unsigned char)(1u << bit % 8);
        refuses_plan(t, &changed, bit);
    }
    return 8 * sizeof t->call.plan;
}

/* Every byte to 0, to 255, and one more. */
static size_t refuses_changed_bytes(const struct trial *t)
{
    size_t cases = 0;
    for (size_t byte = 0; byte < sizeof t->call.plan; byte++)
        for (int v = 0; v < 3; v++) {
            struct glint_plan changed = t->call.plan;
            unsigned char *const at = (unsigned char *)&changed + byte;
            const unsigned char value = v == 0 ? 0 : v == 1 ? 0xff : (unsigned char)(*at + 1);
            if (*at == value)
                continue;
            *at = value;
            refuses_plan(t, &changed, 8 * byte);
            cases++;
        }
    return cases;
}

/* Two words swapped, or a word of noise; the pointer among them. */
static size_t refuses_changed_words(const struct trial *t)
{
    struct rand random = {99};
    size_t cases = 0;
    for (size_t i = 0; i < 2000; i++) {
        struct glint_plan changed = t->call.plan;
        uint64_t words[sizeof changed / 8];
        memcpy(words, &changed, sizeof words);
        const size_t a = (size_t)rand_below(&random, (int64_t)COUNT(words)), b = (size_t)rand_below(&random, (int64_t)COUNT(words));
        const uint64_t was = words[a], other = words[b];
        words[a] = i % 2 ? rand_bits(&random) : other;
        if (i % 2 == 0)
            words[b] = was;
        if (words[a] == was && words[b] == other)
            continue;
        memcpy(&changed, words, sizeof words);
        refuses_plan(t, &changed, a == 0 || (i % 2 == 0 && b == 0) ? 0 : 64);
        cases++;
    }
    return cases;
}

static void changed_plans(void)
{
    const struct glint_plan none = {0};
    size_t cases = 0;
    for (enum glint_pass pass = GLINT_FORWARD; pass <= GLINT_BACKWARD; pass++) {
        struct trial t;
        if (!trial_open(&t, pass, 2))
            continue;
        trial_problem(&t, 1, 3, 4, 2, 2, false);
        trial_call(&t, 2);
        cases += refuses_flipped_bits(&t) + refuses_changed_bytes(&t) + refuses_changed_words(&t);
        refuses_plan(&t, &none, 0);
        EXPECT(call_run(&t.call) == GLINT_OK, "the genuine plan does not work afterwards");
        trial_drop_call(&t);
        trial_close(&t);
    }
    contract_note("%zu changed plans refused", cases);
}

/* A plan outlives its context: closed, or its storage zeroed. */
static void plan_of_a_closed_context(void)
{
    for (enum glint_pass pass = GLINT_FORWARD; pass <= GLINT_BACKWARD; pass++) {
        struct trial t;
        char text[1024];
        if (!trial_open(&t, pass, 2))
            continue;
        trial_problem(&t, 1, 3, 4, 2, 2, false);
        trial_call(&t, 2);
        struct call *const c = &t.call;
        EXPECT(call_run(c) == GLINT_OK, "before");
        memcpy(c->block, t.pristine, c->block_bytes);
        const uint64_t calls = t.counting.calls;
        EXPECT(glint_context_close(t.context) == GLINT_OK, "close");
        const enum glint_status status = call_run(c);
        EXPECT(status == GLINT_CONTEXT_CLOSED, "a plan of a closed context gives %s", glint_status_name(status));
        EXPECT(glint_explain_call(&c->plan, pass, &c->tensors, c->workspace, c->workspace_bytes, NULL, text, sizeof text, NULL) ==
                   status,
               "glint_explain_call");
        EXPECT(text_has_word(text, "context"), "%s", text);
        memset(t.storage, 0, glint_context_size());
        EXPECT(call_run(c) == GLINT_CONTEXT_CLOSED, "zeroed storage");
        EXPECT(t.counting.calls == calls && trial_untouched(&t), "a refused call ran");
        trial_drop_call(&t);
        trial_close(&t);
    }
}

/* What an output of a call without a visible key holds: O = 0, LSE = -inf, zero gradients of either sign. */
static void expect_nothing_seen(const struct call *c, enum tensor t)
{
    for (size_t b = 0; b < c->bytes[t]; b += 2) {
        const unsigned char *const at = c->block + c->offset[t] + b;
        const bool infinite = b % 4 == 0 ? at[0] == 0 && at[1] == 0 : at[0] == 0x80 && at[1] == 0xff;
        const bool zero = at[0] == 0 && (at[1] == 0 || at[1] == 0x80);
        EXPECT(t == LSE ? infinite : zero, "%s holds %02x%02x where no key is seen", tensor_field[t], at[1], at[0]);
    }
}

/* Lengths of zero need no addresses that can be read. */
static void empty_tensors(void)
{
    const int64_t lengths[][2] = {{0, 0}, {0, 5}, {5, 0}};
    for (enum glint_pass pass = GLINT_FORWARD; pass <= GLINT_BACKWARD; pass++) {
        struct trial t;
        if (!trial_open(&t, pass, 2))
            continue;
        for (size_t i = 0; i < COUNT(lengths); i++) {
            trial_problem(&t, 2, lengths[i][0], lengths[i][1], 2, 1, true);
            trial_call(&t, 4);
            const enum glint_status status = call_run(&t.call);
            EXPECT(status == GLINT_OK && call_canaries_hold(&t.call), "lengths %lld, %lld give %s", (long long)lengths[i][0],
                   (long long)lengths[i][1], glint_status_name(status));
            for (enum tensor tensor = Q; tensor < TENSORS; tensor++)
                if (pass_writes(pass, tensor))
                    expect_nothing_seen(&t.call, tensor);
            trial_drop_call(&t);
        }
        trial_close(&t);
    }
}

static const struct contract_case cases[] = {
    {"forward_arguments", forward_arguments, 120},
    {"backward_arguments", backward_arguments, 240},
    {"forward_of_views", forward_of_views, 120},
    {"backward_of_views", backward_of_views, 240},
    {"sinks", sinks, 120},
    {"scales", scales, 120},
    {"interleaved_outputs", interleaved_outputs, 0},
    {"changed_plans", changed_plans, 0},
    {"plan_of_a_closed_context", plan_of_a_closed_context, 0},
    {"empty_tensors", empty_tensors, 0},
};
CONTRACT_MAIN("refusal_call", cases)
