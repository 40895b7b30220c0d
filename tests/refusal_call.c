/* glint_forward and glint_backward given each argument wrong, alone and in pairs: the oracle's status, every byte of every tensor
 * and of the workspace as it was, the executor never called, glint_explain_call of the same mind; and the context works afterwards.
 * A pair that turns out to be correct (say, Q and K in one place) is run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/contract_suite.h"
#include "tests/contract_world.h"
#include "tests/refusal_oracle.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- what can be done to a call --------------------------------------------------------------------------------------------- */

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
    OTHER_PASS
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
    for (enum tensor a = T_Q; a < TENSORS; a++) {
        add(c, TENSOR_NULL, a, a, 0);
        add(c, TENSOR_SHIFTED, a, a, 1);
        add(c, TENSOR_SHIFTED, a, a, 2);
        if (!tensor_used(call->pass, a))
            continue;
        add(c, TENSOR_IN_WORKSPACE, a, a, 0);
        add(c, TENSOR_IN_WORKSPACE, a, a, (int64_t)(call->workspace_bytes & ~(size_t)63) - 64);
        for (enum tensor b = T_Q; b < TENSORS; b++) {
            if (b == a || !tensor_used(call->pass, b))
                continue;
            add(c, TENSOR_ONTO, a, b, 0);
            add(c, TENSOR_BEFORE, a, b, 64 < row ? 64 : row);
            add(c, TENSOR_ONTO, a, b, ((int64_t)call->bytes[b] - row) / 64 * 64);
        }
    }
    add(c, TENSORS_NULL, T_Q, T_Q, 0);
    const int64_t sizes[] = {0, 1, sizeof(struct glint_tensors) - 8, sizeof(struct glint_tensors) + 8, UINT32_MAX};
    for (size_t i = 0; i < COUNT(sizes); i++)
        add(c, TENSORS_SIZE, T_Q, T_Q, sizes[i]);
    add(c, TENSORS_RESERVED, T_Q, T_Q, 1);
    add(c, TENSORS_RESERVED, T_Q, T_Q, UINT32_MAX);
    add(c, WORKSPACE_NULL, T_Q, T_Q, 0);
    const int64_t shifts[] = {1, 2, 4, 16, 32, 64, 128};
    for (size_t i = 0; i < COUNT(shifts); i++)
        add(c, WORKSPACE_SHIFTED, T_Q, T_Q, shifts[i]);
    add(c, WORKSPACE_BYTES, T_Q, T_Q, -1);
    add(c, WORKSPACE_BYTES, T_Q, T_Q, -64);
    add(c, WORKSPACE_BYTES, T_Q, T_Q, -(int64_t)call->workspace_bytes);
    add(c, WORKSPACE_BYTES, T_Q, T_Q, 1);
    add(c, WORKSPACE_HUGE, T_Q, T_Q, 0);
    add(c, STREAM, T_Q, T_Q, 1);
    add(c, STREAM, T_Q, T_Q, 2);
    add(c, PLAN_NULL, T_Q, T_Q, 0);
    add(c, OTHER_PASS, T_Q, T_Q, 0);
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
    case OTHER_PASS: to->called = call->pass == GLINT_FORWARD ? GLINT_BACKWARD : GLINT_FORWARD; break;
    }
}

/* Applied in this order: first what moves tensors, so that a later change of the same tensor wins. Two runs must not leave the block. */
static bool inside_block(const struct call *c, const struct arguments *a)
{
    for (enum tensor t = T_Q; t < TENSORS; t++) {
        const unsigned char *const at = tensor_get(&a->tensors, t);
        if (at == NULL || !tensor_used(c->pass, t))
            continue;
        if (at < c->block || at + c->bytes[t] > c->block + c->block_bytes)
            return false;
    }
    return a->workspace == NULL || (a->workspace >= c->block && a->workspace + c->workspace_bytes <= c->block + c->block_bytes);
}

/* ---- one case --------------------------------------------------------------------------------------------------------------- */

static struct {
    uint64_t cases, refused, ran, outside, wider;
    uint64_t by_status[128];
} tally;

static enum glint_status invoke(const struct arguments *a)
{
    const struct glint_tensors *const tensors = a->tensors_null ? NULL : &a->tensors;
    return a->called == GLINT_FORWARD ? glint_forward(a->plan, tensors, a->workspace, a->workspace_bytes, a->stream)
                                      : glint_backward(a->plan, tensors, a->workspace, a->workspace_bytes, a->stream);
}

static void judge(struct call *c, const unsigned char *pristine, const struct change *first, const struct change *second,
                  struct counting *counting)
{
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
    const uint64_t calls = counting->calls;
    const enum glint_status explained =
        glint_explain_call(a.plan, a.called, tensors, a.workspace, a.workspace_bytes, a.stream, text, sizeof text, &needed);
    EXPECT(counting->calls == calls && memcmp(c->block, pristine, c->block_bytes) == 0, "glint_explain_call ran something");
    const enum glint_status status = invoke(&a);
    const int one = (int)first->action, two = second ? (int)second->action : -1;
    EXPECT(oracle_allows(&faults, status), "%s: gives %s, not %s (changes %d of %s/%s by %lld, %d of %s/%s by %lld)",
           pass_name((uint32_t)c->pass), glint_status_name(status), oracle_print(&faults), one, tensor_names[first->a],
           tensor_names[first->b], (long long)first->amount, two, second ? tensor_names[second->a] : "",
           second ? tensor_names[second->b] : "", second ? (long long)second->amount : 0);
    EXPECT(explained == status, "glint_explain_call gives %s, the call %s (oracle %s)", glint_status_name(explained),
           glint_status_name(status), oracle_print(&faults));
    EXPECT(needed > 1 && needed <= sizeof text && text[needed - 1] == '\0' && strlen(text) == needed - 1, "needed_bytes is %zu",
           needed);
    tally.cases++;
    tally.by_status[status]++;
    if (status == GLINT_OK) {
        tally.ran++;
        memcpy(c->block, pristine, c->block_bytes);
        return;
    }
    tally.refused++;
    EXPECT(counting->calls == calls, "refused with %s after running", glint_status_name(status));
    EXPECT(memcmp(c->block, pristine, c->block_bytes) == 0, "refused with %s after writing", glint_status_name(status));
    EXPECT(oracle_text_names(&faults, status, text), "the text should name one of %s:\n%s", oracle_print(&faults), text);
}

static const enum glint_status call_statuses[] = {
    GLINT_NULL_ARGUMENT,     GLINT_STRUCT_SIZE,    GLINT_BAD_RESERVED,        GLINT_WRONG_PASS,           GLINT_NULL_TENSOR,
    GLINT_TENSOR_MISALIGNED, GLINT_TENSOR_OVERLAP, GLINT_WORKSPACE_TOO_SMALL, GLINT_WORKSPACE_MISALIGNED, GLINT_BAD_STREAM};

static void judge_all(enum glint_pass pass, bool fused)
{
    void *storage;
    struct counting counting;
    struct glint_context *const context = open_context(&counting, 2, &storage);
    if (!runs_pass(context, pass)) {
        contract_note("skipped: no %s in the spec", pass_name((uint32_t)pass));
        free(storage);
        return;
    }
    const struct glint_variant_info info = first_row(context, pass);
    struct glint_problem p = {0};
    glint_problem_bshd(&p, (enum glint_dtype)info.dtype, 2, 3, 3, 2, 1, info.head_dim);
    if (fused) { /* Q, K, V and dQ, dK, dV as views: the parts of call_make's block then hold the whole of each view */
        const struct glint_strides view = {3 * 4 * p.head_dim, p.head_dim, 4 * p.head_dim};
        p.q = p.k = p.v = p.dq = p.dk = p.dv = view;
    }
    p.mask = row_mask(&info, true);
    struct call c;
    static struct changes changes;
    call_make(&c, context, &p, pass, 11);
    list_changes(&changes, &c);
    unsigned char *const pristine = malloc(c.block_bytes);
    memcpy(pristine, c.block, c.block_bytes);
    for (size_t i = 0; i < changes.count; i++) {
        judge(&c, pristine, &changes.at[i], NULL, &counting);
        /* of the backward's 60,000 pairs a third, another third for each i; fewer under an emulator */
        const size_t step = CONTRACT_EMULATED ? 11 : changes.count > 150 ? 3 : 1;
        for (size_t j = i + 1 + i % step; j < changes.count; j += step)
            judge(&c, pristine, &changes.at[i], &changes.at[j], &counting);
    }
    EXPECT(call_run(&c) == GLINT_OK && call_canaries_hold(&c), "the context does not work afterwards");
    contract_note("%s%s: %llu cases: %llu refused, %llu correct and run, %llu not tried", pass_name((uint32_t)pass),
                  fused ? " of views" : "", (unsigned long long)tally.cases, (unsigned long long)tally.refused,
                  (unsigned long long)tally.ran, (unsigned long long)tally.outside);
    EXPECT(tally.refused >= (CONTRACT_EMULATED ? 500 : 3000), "only %llu refusals", (unsigned long long)tally.refused);
    for (size_t i = 0; i < COUNT(call_statuses); i++) {
        EXPECT(tally.by_status[call_statuses[i]] > 0, "no case gave %s", glint_status_name(call_statuses[i]));
    }
    free(pristine);
    call_free(&c);
    free(storage);
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

/* ---- outputs that interleave ------------------------------------------------------------------------------------------------- */

/* dQ, dK, dV in one fused tensor share an address range and no byte; moved by one element they share one. */
static void interleaved_outputs(void)
{
    void *storage;
    struct counting counting;
    struct glint_context *const context = open_context(&counting, 1, &storage);
    if (!runs_pass(context, GLINT_BACKWARD)) {
        contract_note("skipped: no backward in the spec");
        free(storage);
        return;
    }
    const struct glint_variant_info info = first_row(context, GLINT_BACKWARD);
    struct glint_problem p = {0};
    glint_problem_bshd(&p, (enum glint_dtype)info.dtype, 2, 4, 4, 2, 2, info.head_dim);
    const int64_t d = p.head_dim, row = 6 * d, size = element_bytes(p.dtype);
    const struct glint_strides view = {4 * row, d, row};
    p.q = p.k = p.v = p.dq = p.dk = p.dv = view;
    p.mask = row_mask(&info, false);
    struct call c;
    call_make(&c, context, &p, GLINT_BACKWARD, 5);
    const size_t fused_bytes = (size_t)(2 * 4 * row * size);
    unsigned char *const inputs = aligned_memory(256, fused_bytes), *const outputs = aligned_memory(256, fused_bytes + 4096);
    struct random_stream random = {3};
    fill_random(&random, p.dtype, inputs, fused_bytes);
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
    const uint64_t calls = counting.calls;
    const int64_t step = info.alignment_bytes > (uint32_t)size ? info.alignment_bytes : size;
    for (int64_t by = step; by < 2 * d * size; by += step) {
        struct call moved = c;
        moved.tensors.dk = outputs + 2 * d * size + by;
        const enum glint_status status = call_run(&moved);
        EXPECT(status == GLINT_TENSOR_OVERLAP, "dK moved by %lld bytes gives %s", (long long)by, glint_status_name(status));
    }
    EXPECT(counting.calls == calls, "a refused call ran");
    free(inputs);
    free(outputs);
    call_free(&c);
    free(storage);
}

/* ---- plans that are not what glint_plan made --------------------------------------------------------------------------------- */

static void refuses_plan(const struct call *c, const struct glint_plan *plan, const struct counting *counting, uint64_t calls,
                         const unsigned char *pristine, const char *what, size_t at)
{
    char text[1024];
    const size_t needed = plan->workspace_bytes > c->workspace_bytes ? plan->workspace_bytes : c->workspace_bytes;
    const enum glint_status status = c->pass == GLINT_FORWARD ? glint_forward(plan, &c->tensors, c->workspace, needed, NULL)
                                                              : glint_backward(plan, &c->tensors, c->workspace, needed, NULL);
    const bool other = (at / 8 < 4 && status == GLINT_STRUCT_SIZE) || (at / 32 == 1 && status == GLINT_WRONG_PASS);
    EXPECT(status == GLINT_BAD_PLAN || other, "%s %zu gives %s", what, at, glint_status_name(status));
    EXPECT(glint_explain_call(plan, c->pass, &c->tensors, c->workspace, needed, NULL, text, sizeof text, NULL) == status,
           "glint_explain_call differs at %s %zu", what, at);
    EXPECT(text_has_word(text, "plan") || other, "%s", text);
    EXPECT(counting->calls == calls, "%s %zu ran", what, at);
    EXPECT(memcmp(c->block, pristine, c->block_bytes) == 0, "%s %zu wrote", what, at);
}

static void changed_plans(void)
{
    size_t cases = 0;
    for (enum glint_pass pass = GLINT_FORWARD; pass <= GLINT_BACKWARD; pass++) {
        void *storage;
        struct counting counting;
        struct glint_context *const context = open_context(&counting, 2, &storage);
        if (!runs_pass(context, pass)) {
            free(storage);
            continue;
        }
        const struct glint_variant_info info = first_row(context, pass);
        struct glint_problem p = {0};
        glint_problem_bshd(&p, (enum glint_dtype)info.dtype, 1, 3, 4, 2, 2, info.head_dim);
        p.mask = row_mask(&info, false);
        struct call c;
        call_make(&c, context, &p, pass, 2);
        unsigned char *const pristine = malloc(c.block_bytes);
        memcpy(pristine, c.block, c.block_bytes);

        for (size_t bit = 0; bit < 8 * sizeof c.plan; bit++, cases++) {
            struct glint_plan changed = c.plan;
            ((unsigned char *)&changed)[bit / 8] ^= (unsigned char)(1u << bit % 8);
            refuses_plan(&c, &changed, &counting, counting.calls, pristine, "bit", bit);
        }
        for (size_t byte = 0; byte < sizeof c.plan; byte++) { /* every byte to every extreme */
            for (int v = 0; v < 3; v++) {
                struct glint_plan changed = c.plan;
                const unsigned char value = v == 0 ? 0 : v == 1 ? 0xff : (unsigned char)(((unsigned char *)&changed)[byte] + 1);
                if (((unsigned char *)&changed)[byte] == value)
                    continue;
                ((unsigned char *)&changed)[byte] = value;
                refuses_plan(&c, &changed, &counting, counting.calls, pristine, "bit", 8 * byte);
                cases++;
            }
        }
        struct random_stream random = {99};
        for (size_t i = 0; i < 2000; i++, cases++) { /* two words swapped, or a word of noise; the pointer among them */
            struct glint_plan changed = c.plan;
            uint64_t words[sizeof c.plan / 8];
            memcpy(words, &changed, sizeof words);
            const size_t a = random_below(&random, COUNT(words)), b = random_below(&random, COUNT(words));
            const uint64_t was = words[a], other = words[b];
            words[a] = i % 2 ? random_next(&random) : other;
            if (i % 2 == 0)
                words[b] = was;
            if (words[a] == was && words[b] == other)
                continue;
            memcpy(&changed, words, sizeof words);
            refuses_plan(&c, &changed, &counting, counting.calls, pristine, "bit", a == 0 || (i % 2 == 0 && b == 0) ? 0 : 64);
        }
        struct glint_plan none;
        memset(&none, 0, sizeof none);
        refuses_plan(&c, &none, &counting, counting.calls, pristine, "bit", 0);
        EXPECT(call_run(&c) == GLINT_OK, "the genuine plan does not work afterwards");
        free(pristine);
        call_free(&c);
        free(storage);
    }
    contract_note("%zu changed plans refused", cases);
}

/* A plan outlives its context: the storage is closed, or opened again with another executor, or another problem was planned. */
static void plan_of_a_closed_context(void)
{
    for (enum glint_pass pass = GLINT_FORWARD; pass <= GLINT_BACKWARD; pass++) {
        void *storage;
        char text[1024];
        struct counting counting;
        struct glint_context *const context = open_context(&counting, 2, &storage);
        if (!runs_pass(context, pass)) {
            free(storage);
            continue;
        }
        const struct glint_variant_info info = first_row(context, pass);
        struct glint_problem p = {0};
        glint_problem_bshd(&p, (enum glint_dtype)info.dtype, 1, 3, 4, 2, 2, info.head_dim);
        p.mask = row_mask(&info, false);
        struct call c;
        call_make(&c, context, &p, pass, 2);
        unsigned char *const pristine = malloc(c.block_bytes);
        memcpy(pristine, c.block, c.block_bytes);
        EXPECT(call_run(&c) == GLINT_OK, "before");
        memcpy(c.block, pristine, c.block_bytes);
        const uint64_t calls = counting.calls;
        EXPECT(glint_context_close(context) == GLINT_OK, "close");
        const enum glint_status status = call_run(&c);
        EXPECT(status == GLINT_CONTEXT_CLOSED, "a plan of a closed context gives %s", glint_status_name(status));
        EXPECT(glint_explain_call(&c.plan, pass, &c.tensors, c.workspace, c.workspace_bytes, NULL, text, sizeof text, NULL) ==
                   status,
               "glint_explain_call");
        EXPECT(text_has_word(text, "context"), "%s", text);
        memset(storage, 0, glint_context_size());
        EXPECT(call_run(&c) == GLINT_CONTEXT_CLOSED, "zeroed storage");
        EXPECT(counting.calls == calls && memcmp(c.block, pristine, c.block_bytes) == 0, "a refused call ran");
        free(pristine);
        call_free(&c);
        free(storage);
    }
}

/* Lengths of zero need no addresses that can be read; what an output then holds is glint.h's: O = 0, LSE = -inf, zero gradients. */
static void empty_tensors(void)
{
    for (enum glint_pass pass = GLINT_FORWARD; pass <= GLINT_BACKWARD; pass++) {
        void *storage;
        struct counting counting;
        struct glint_context *const context = open_context(&counting, 2, &storage);
        if (!runs_pass(context, pass)) {
            free(storage);
            continue;
        }
        const struct glint_variant_info info = first_row(context, pass);
        const int64_t lengths[][2] = {{0, 0}, {0, 5}, {5, 0}};
        for (size_t i = 0; i < COUNT(lengths); i++) {
            struct glint_problem p = {0};
            glint_problem_bshd(&p, (enum glint_dtype)info.dtype, 2, lengths[i][0], lengths[i][1], 2, 1, info.head_dim);
            p.mask = row_mask(&info, true);
            struct call c;
            call_make(&c, context, &p, pass, 4);
            EXPECT(call_run(&c) == GLINT_OK && call_canaries_hold(&c), "lengths %lld, %lld give %s", (long long)lengths[i][0],
                   (long long)lengths[i][1], glint_status_name(call_run(&c)));
            for (enum tensor t = T_Q; t < TENSORS; t++) {
                if (!tensor_is_output(pass, t))
                    continue;
                for (size_t b = 0; b < c.bytes[t]; b += 2) {
                    const unsigned char *const at = c.block + c.offset[t] + b;
                    const bool infinite = b % 4 == 0 ? at[0] == 0 && at[1] == 0 : at[0] == 0x80 && at[1] == 0xff;
                    const bool zero = at[0] == 0 && (at[1] == 0 || at[1] == 0x80); /* of either sign */
                    EXPECT(t == T_LSE ? infinite : zero, "%s holds %02x%02x where no key is seen", tensor_names[t], at[1], at[0]);
                }
            }
            call_free(&c);
        }
        free(storage);
    }
}

static const struct contract_case cases[] = {
    {"forward_arguments", forward_arguments, 120},
    {"backward_arguments", backward_arguments, 240},
    {"forward_of_views", forward_of_views, 120},
    {"backward_of_views", backward_of_views, 240},
    {"interleaved_outputs", interleaved_outputs, 0},
    {"changed_plans", changed_plans, 0},
    {"plan_of_a_closed_context", plan_of_a_closed_context, 0},
    {"empty_tensors", empty_tensors, 0},
};
CONTRACT_MAIN("refusal_call", cases)
