/* What kernels of a CPU are given: every task of drawn calls, of each row of the table of made_up.c, with its problem,
 * its tensors, its part of the workspace and its geometry; and what the library itself writes, which is the word for a
 * fault, the gradients of sinks and the largest logits. Several bodies work at a time: a task lets the next body begin
 * before it ends. tasks.txt keeps some of the calls, and of each row a sum of all.
 *
 * tasks tasks.txt; without a file it prints what that file is to be, and with `each` all calls. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cpu/cpu.h"
#include "lib/takes.h"
#include "tests/contract/made_up.h"
#include "tests/contract/serve.h"
#include "tests/support/golden.h"
#include "tests/support/rand.h"

enum { DRAWN = 300, SHOWN = 5, BATCH = 5, HEADS = 16, ROWS = 1 << 15, PAGES = 1 << 10, WORDS = 1 << 16, WORKSPACE = 1 << 26 };

/* What the library reads or writes of a call; all other tensors are addresses alone. */
static struct {
    int32_t first_q[BATCH + 1], first_k[BATCH + 1], seqlens_q[BATCH], seqlens_k[BATCH];
    int32_t pages[PAGES], begin[ROWS], end[ROWS];
    uint32_t bits[WORDS], fault;
    float dsinks[HEADS], max_logit[HEADS];
} given;
static _Alignas(GLINT_WORKSPACE_ALIGNMENT) unsigned char workspace[WORKSPACE];

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

static struct {
    uint64_t sum, tasks;
    uint32_t next, count; /* bodies that have not begun */
    void (*body)(void *argument, uint32_t index);
    void *argument;
} run;

static void put(uint64_t word)
{
    run.sum = (run.sum ^ word) * UINT64_C(0xbf58476d1ce4e5b9);
    run.sum ^= run.sum >> 29;
}

static void put_bytes(const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i += sizeof(uint32_t)) {
        uint32_t word;
        memcpy(&word, (const char *)bytes + i, sizeof word);
        put(word);
    }
}

static void put_address(uintptr_t at)
{
    const uintptr_t of_given = (uintptr_t)&given, of_workspace = (uintptr_t)workspace;
    if (at - of_given < sizeof given)
        put(UINT64_C(1) << 60 | (at - of_given));
    else if (at - of_workspace < sizeof workspace)
        put(UINT64_C(2) << 60 | (at - of_workspace));
    else
        put(at);
}

static void begin_next(void)
{
    run.body(run.argument, run.next++);
}

static void bodies(void *user, uint32_t count, void (*body)(void *argument, uint32_t index), void *argument)
{
    (void)user;
    run.next = 0, run.count = count, run.body = body, run.argument = argument;
    put(count);
    while (run.next < count)
        begin_next();
}

static void task_of(uint32_t phase, const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    const struct glint_problem *const p = call->problem;
    put(phase), put((uint64_t)task), put((uint64_t)call->queries), put((uint64_t)call->keys), put((uint64_t)call->tree_words);
    put((uint64_t)call->band.first), put((uint64_t)call->band.last);
    put_address((uintptr_t)scratch), put_address((uintptr_t)call->partials), put_address((uintptr_t)call->dbias.sums);
    put((uint64_t)call->dbias.sequence), put((uint64_t)call->dbias.per_group), put((uint64_t)call->dbias.key_blocks);
    put((uint64_t)call->dbias.pitch);
    put_bytes(p, sizeof *p), put_bytes(&call->geometry, sizeof call->geometry);
    for (size_t at = offsetof(struct glint_tensors, q); at < sizeof *call->tensors; at += sizeof(uintptr_t)) {
        uintptr_t address;
        memcpy(&address, (const char *)call->tensors + at, sizeof address);
        put_address(address);
    }
    for (int64_t h = 0; p->max_logit != 0 && h < p->heads_q; h++) {
        float *const most = &glint_cpu_max_logit(call, scratch)[h], logit = (float)((task * 7 + h * 3) % 101) - 60.0f;
        *most = logit > *most ? logit : *most;
    }
    run.tasks++;
    if (run.next < run.count && run.tasks % 3 != 0)
        begin_next();
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static bool one_of(struct rand *r, int64_t count)
{
    return rand_below(r, count) == 0;
}

/* A power of two up to 2^most, or beside one. */
static int64_t drawn_size(struct rand *r, int64_t most)
{
    const int64_t power = INT64_C(1) << rand_below(r, most + 1), times = one_of(r, 4) ? 3 : 1;
    return times * power + rand_below(r, 3) - 1;
}

static void draw_strides(struct rand *r, struct glint_strides *s, int64_t heads, int64_t rows, int64_t dim)
{
    const int64_t more = 16 * rand_below(r, 3), outer = 16 * rand_below(r, 3);
    *s = one_of(r, 3) ? (struct glint_strides){heads * (rows * dim + more) + outer, rows * dim + more, dim}
                      : (struct glint_strides){rows * (heads * dim + more) + outer, dim, heads * dim + more};
}

static void draw_problem(struct rand *r, const struct glint_variant *v, size_t number, struct glint_problem *p)
{
    const bool tree = (v->features & GLINT_FEATURE_TREE) != 0;
    const int64_t batch = 1 + rand_below(r, BATCH), heads_kv = 1 + rand_below(r, 3),
                  heads_q = heads_kv * (1 + rand_below(r, HEADS / 3)),
                  seqlen_q = drawn_size(r, v->queries_up_to > 0 ? 4
                                           : tree               ? 7
                                                                : 10),
                  keys = drawn_size(r, tree ? 10 : 11);
    glint_problem_bshd(p, (enum glint_dtype)v->dtype, batch, seqlen_q, tree ? seqlen_q + keys : keys, heads_q, heads_kv,
                       v->head_dim);
    serve(p, v, number);
    p->lengths = (uint32_t)rand_below(r, 3);
    if (p->lengths != 0 && v->pass == GLINT_FORWARD && one_of(r, 2)) {
        p->page_rows = INT64_C(16) << (tree ? 0 : rand_below(r, 3)), p->pages = 1 + rand_below(r, 20);
        p->pages_per_sequence = (p->seqlen_k + p->page_rows - 1) / p->page_rows + rand_below(r, 2);
    }
    const bool ragged = p->lengths == GLINT_LENGTHS_RAGGED;
    p->rows_q = ragged ? rand_below(r, p->batch * p->seqlen_q + 3) : 0;
    p->rows_k = ragged && p->page_rows == 0 ? rand_below(r, p->batch * p->seqlen_k + 3) : 0;
    const int64_t rows_q = ragged ? p->rows_q : p->seqlen_q, rows_k = p->page_rows > 0 ? p->page_rows
                                                                      : ragged         ? p->rows_k
                                                                                       : p->seqlen_k;
    struct glint_strides *const of_queries[] = {&p->q, &p->o, &p->dout, &p->dq}, *const of_keys[] = {&p->k, &p->v, &p->dk, &p->dv};
    for (int i = 0; i < 4; i++) {
        draw_strides(r, of_queries[i], heads_q, rows_q, v->head_dim);
        draw_strides(r, of_keys[i], heads_kv, rows_k, v->head_dim);
    }
    if (p->mask != GLINT_MASK_NONE && one_of(r, 2)) /* of the two alignments that a row serves, the other */
        p->mask = p->mask == GLINT_MASK_CAUSAL_BOTTOM_RIGHT ? GLINT_MASK_CAUSAL_TOP_LEFT : GLINT_MASK_BAND_TOP_LEFT;
    if (p->mask != GLINT_MASK_NONE && one_of(r, 3))
        p->diagonal = rand_below(r, 7) - 3;
    if ((v->features & GLINT_FEATURE_LEFT_BOUND) != 0 && one_of(r, 2))
        p->window_left = rand_below(r, 200), p->window_right = rand_below(r, 5);
    if (v->kv_dtype != 0)
        p->kv_scales = (uint32_t)rand_below(r, 4);
    int64_t step = 1;
    int64_t *const strides[] = {&p->bias.key, &p->bias.query, &p->bias.head, &p->bias.batch};
    const int64_t extents[] = {p->seqlen_k, p->seqlen_q, p->heads_q, p->batch};
    for (int i = 0; i < 4; i++) {
        *strides[i] = one_of(r, i == 0 ? 6 : 3) ? 0 : step;
        step *= *strides[i] != 0 && extents[i] > 0 ? extents[i] : 1;
    }
}

/* Lengths of 0 ... bound, of which few are none. */
static void draw_lengths(struct rand *r, int32_t *lengths, int64_t batch, int64_t bound)
{
    for (int64_t b = 0; b < batch; b++)
        lengths[b] = (int32_t)(one_of(r, 16)   ? bound + 1 + rand_below(r, 3)
                               : one_of(r, 16) ? -1 - rand_below(r, 3)
                               : one_of(r, 4)  ? bound
                                               : rand_below(r, bound + 1));
}

/* First rows of sequences of at most `bound`, of which few are none. */
static void draw_first(struct rand *r, int32_t *first, int64_t batch, int64_t bound, int64_t rows)
{
    int64_t at = one_of(r, 3) ? rand_below(r, 3) : 0;
    for (int64_t b = 0; b <= batch; b++) {
        first[b] = (int32_t)(one_of(r, 20) ? rand_below(r, rows + 9) - 4 : at);
        at += rand_below(r, bound + 1);
        at = at < rows ? at : rows;
    }
}

static void *address(int64_t place)
{
    return (void *)(uintptr_t)(place << 40);
}

/* Of what `given` has no room for, nothing. */
static bool draw_call(struct rand *r, const struct glint_problem *p, enum glint_pass pass, struct glint_tensors *t)
{
    const bool ragged = p->lengths == GLINT_LENGTHS_RAGGED, paged = p->page_rows > 0, backward = pass == GLINT_BACKWARD;
    const int64_t rows = ragged ? p->rows_q : p->batch * p->seqlen_q, words = (p->seqlen_q + 31) / 32;
    if (rows > ROWS || (p->tree != 0 && rows * words > WORDS) || p->batch * p->pages_per_sequence > PAGES)
        return false;
    *t = (struct glint_tensors)GLINT_TENSORS_INIT;
    t->q = address(1), t->k = address(2), t->v = address(3), t->o = address(4), t->lse = address(5);
    if (backward) {
        t->dout = address(6), t->dq = address(7), t->dk = address(8), t->dv = address(9);
        t->dlse = one_of(r, 2) ? address(10) : NULL;
    }
    draw_lengths(r, given.seqlens_q, p->batch, p->seqlen_q);
    draw_lengths(r, given.seqlens_k, p->batch, p->seqlen_k);
    draw_first(r, given.first_q, p->batch, p->seqlen_q, p->rows_q);
    draw_first(r, given.first_k, p->batch, p->seqlen_k, p->rows_k);
    for (int64_t i = 0; i < p->batch * p->pages_per_sequence; i++)
        given.pages[i] = (int32_t)(one_of(r, 60) ? p->pages + rand_below(r, 2) : one_of(r, 60) ? -1 : rand_below(r, p->pages));
    for (int64_t i = 0; i < rows; i++) {
        given.begin[i] = (int32_t)(one_of(r, 2) ? rand_below(r, p->seqlen_k + 9) - 5 : 0);
        given.end[i] = (int32_t)(one_of(r, 4) ? rand_below(r, p->seqlen_k + 9) - 5 : given.begin[i] + drawn_size(r, 8));
    }
    const int64_t kind = rand_below(r, 3); /* all bits, few, or none of the first page */
    for (int64_t i = 0; p->tree != 0 && i < rows * words; i++) {
        const uint32_t few = one_of(r, 2) ? 0 : 1u << rand_below(r, 32);
        given.bits[i] = kind == 0 ? (uint32_t)rand_bits(r) : kind == 1 ? few : few & 0xffff0000u;
    }
    /* The first new key begins a page that is none. */
    for (int64_t b = 0; p->tree != 0 && paged && b < p->batch; b++)
        if (one_of(r, 2)) {
            const int64_t page = rand_below(r, (p->seqlen_k + p->page_rows - 1) / p->page_rows + 1),
                          queries = one_of(r, 2) ? rand_below(r, 4) : 17 + rand_below(r, 20);
            given.seqlens_q[b] = (int32_t)(queries < p->seqlen_q ? queries : p->seqlen_q);
            given.seqlens_k[b] = (int32_t)(page * p->page_rows) + given.seqlens_q[b];
            if (page < p->pages_per_sequence && one_of(r, 2))
                given.pages[b * p->pages_per_sequence + page] = -1;
        }
    if (p->lengths != GLINT_LENGTHS_HOST) {
        t->first_q = ragged ? given.first_q : NULL, t->first_k = ragged && !paged ? given.first_k : NULL;
        t->seqlens_q = one_of(r, 3) ? NULL : given.seqlens_q;
        t->seqlens_k = ragged && !paged && one_of(r, 2) ? NULL : given.seqlens_k;
        t->fault = one_of(r, 5) ? NULL : &given.fault;
    }
    t->page_table = paged ? given.pages : NULL;
    if (p->sinks != 0)
        t->sinks = address(11), t->dsinks = backward ? given.dsinks : NULL;
    if (p->kv_scales != 0)
        t->k_scale = address(12), t->v_scale = address(13);
    if (p->intervals != 0)
        t->key_begin = given.begin, t->key_end = given.end;
    t->alibi_slopes = p->alibi != 0 ? address(14) : NULL;
    t->max_logit = p->max_logit != 0 ? given.max_logit : NULL;
    if (p->bias_dtype != 0)
        t->bias = address(15), t->dbias = p->dbias != 0 ? address(16) : NULL;
    t->tree_bits = p->tree != 0 ? given.bits : NULL;
    return true;
}

static void put_call(FILE *out, uint32_t row, size_t number, struct rand *r, bool shown)
{
    static const uint32_t concurrency[] = {1, 2, 3, 5, 16};
    const struct glint_variant *const v = &glint_variants[row];
    const enum glint_pass pass = (enum glint_pass)v->pass;
    struct glint_problem p;
    struct glint_plan plan;
    struct glint_tensors t;
    draw_problem(r, v, number, &p);
    const struct glint_context *const context = made_up_context(concurrency[rand_below(r, 5)], GLINT_ISA_ANY, 1);
    const enum glint_status planned = glint_plan_variant(context, &p, pass, row, &plan);
    put((uint64_t)planned);
    if (planned != GLINT_OK || plan.workspace_bytes > sizeof workspace || !draw_call(r, &p, pass, &t))
        return;
    struct glint_cpu_geometry g;
    memcpy(&g, plan.internal, sizeof g);
    for (uint64_t at = g.partials_offset; at < g.scratch_offset; at += sizeof(float)) { /* each of its own */
        const float x = (float)(at / sizeof(float) % 251);
        memcpy(workspace + at, &x, sizeof x);
    }
    given.fault = one_of(r, 3) ? 1 : GLINT_NO_FAULT;
    memset(given.dsinks, 0, sizeof given.dsinks), memset(given.max_logit, 0, sizeof given.max_logit);
    const uint64_t tasks = run.tasks;
    const enum glint_status status =
        (pass == GLINT_BACKWARD ? glint_backward : glint_forward)(&plan, &t, workspace, plan.workspace_bytes, NULL);
    put((uint64_t)status), put(given.fault);
    put_bytes(given.dsinks, sizeof given.dsinks), put_bytes(given.max_logit, sizeof given.max_logit);
    if (shown)
        fprintf(out,
                "    batch %d heads %d:%d queries %d keys %d lengths %u pages %d: %s, %" PRIu64 " tasks, fault %d, sum %08" PRIx32
                "\n",
                (int)p.batch, (int)p.heads_q, (int)p.heads_kv, (int)p.seqlen_q, (int)p.seqlen_k, p.lengths, (int)p.page_rows,
                glint_status_name(status), run.tasks - tasks, (int)given.fault, (uint32_t)run.sum);
}

int main(int argc, char **argv)
{
    char *have = NULL;
    size_t bytes = 0;
    const bool each = argc > 1 && strcmp(argv[1], "each") == 0;
    FILE *const out = open_memstream(&have, &bytes);
    made_up_task = task_of, made_up_executor = bodies;
    for (uint32_t row = 0; row < made_up_rows; row++) {
        struct rand r = rand_stream(row, 26);
        fprintf(out, "%s\n", glint_variants[row].name);
        run.sum = UINT64_C(0xcbf29ce484222325), run.tasks = 0;
        const size_t drawn = (glint_variants[row].features & GLINT_FEATURE_TREE) != 0 ? 3 * DRAWN : DRAWN;
        for (size_t i = 0; i < drawn; i++)
            put_call(out, row, i, &r, each || i < SHOWN);
        fprintf(out, "    %zu calls, %" PRIu64 " tasks, sum %016" PRIx64 "\n", drawn, run.tasks, run.sum);
    }
    return golden_finish(out, &have, argc < 2 || each ? NULL : argv[1]);
}
