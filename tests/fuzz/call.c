/* The fuzz target of calls: bytes become a plan, and arguments at any addresses, of any strides and sizes, of
 * glint_forward or glint_backward, glint_append or glint_merge. Nothing is computed. What glint.h promises of them:
 * what is refused gives one status, however it is asked, and does not reach the executor; a text fits its buffer, and
 * is as long as it was said to be; an accepted plan has a workspace below 2^63 bytes. The sanitizers look for the
 * rest: sums of addresses and products of strides are where the checks may go wrong. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/contract/suite.h"
#include "tests/contract/world.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"

enum { POINTERS = (sizeof(struct glint_tensors) - 8) / 8, PARTS = 3 };

static struct counting counting;
static struct glint_context *context;
static uint64_t last;    /* the address given last */
static uint64_t step[3]; /* bytes of the strides of K */

/* None, any, or one that is a shifted number of bytes or a few strides from the last one, as neighbours are. */
static uint64_t take_address(struct bytes *b)
{
    const uint64_t how = take(b, 1);
    if (how == 0)
        return 0;
    if (how % 4 == 0)
        last = take(b, 8);
    else if (how % 4 == 1)
        last += take(b, 2) << how / 4 % 48;
    else if (how % 4 == 2)
        last -= take(b, 2) << how / 4 % 48;
    else
        last += step[how / 4 % 3] * (how / 12 % 4) + 8 * (uint64_t)(int64_t)(int8_t)take(b, 1);
    return last;
}

/* A stride that K and V share, and their gradients, as those that interleave do; up to two of the three. */
static void widen(struct bytes *b, struct glint_problem *p)
{
    for (uint64_t times = take(b, 1) % 3; times > 0; times--) {
        const uint64_t how = take(b, 1);
        const int64_t stride = (int64_t)(take(b, 1) << how / 3 % 56);
        struct glint_strides *const all[] = {&p->k, &p->v, &p->dk, &p->dv};
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
            *(how % 3 == 0 ? &all[i]->batch : how % 3 == 1 ? &all[i]->head : &all[i]->row) = stride;
    }
}

static void set_pointer(struct glint_tensors *t, size_t index, uint64_t address)
{
    memcpy((unsigned char *)t + 8 + 8 * index, &address, 8);
}

#define WANTED(field, condition) wanted[(offsetof(struct glint_tensors, field) - 8) / 8] = (condition)

/* All that a problem asks for, each far from the others, but for a few that are moved. */
static void read_tensors(struct bytes *b, const struct glint_problem *p, uint32_t pass, struct glint_tensors *t)
{
    const bool ragged = p->lengths == GLINT_LENGTHS_RAGGED, pages = p->page_rows > 0;
    bool wanted[POINTERS] = {false};
    *t = (struct glint_tensors)GLINT_TENSORS_INIT;
    WANTED(q, true), WANTED(k, true), WANTED(v, true), WANTED(o, true), WANTED(lse, true);
    WANTED(dout, pass == GLINT_BACKWARD), WANTED(dq, true), WANTED(dk, true), WANTED(dv, true);
    WANTED(first_q, ragged), WANTED(first_k, ragged && !pages);
    WANTED(seqlens_k, p->lengths != GLINT_LENGTHS_HOST && (!ragged || pages));
    WANTED(page_table, pages), WANTED(sinks, p->sinks != 0), WANTED(dsinks, p->sinks != 0 && pass == GLINT_BACKWARD);
    WANTED(key_begin, p->intervals != 0), WANTED(key_end, p->intervals != 0);
    WANTED(tree_bits, p->tree != 0);
    WANTED(alibi_slopes, p->alibi != 0), WANTED(bias, p->bias_dtype != 0), WANTED(dbias, p->dbias != 0 && pass == GLINT_BACKWARD);
    WANTED(k_scale, p->kv_scales != GLINT_SCALES_NONE), WANTED(v_scale, p->kv_scales != GLINT_SCALES_NONE);
    for (size_t i = 0; i < POINTERS; i++)
        if (wanted[i])
            set_pointer(t, i, last = (uint64_t)(i + 1) << 56);
    for (uint64_t edits = take(b, 1) % 6; edits > 0; edits--) {
        const uint64_t field = take(b, 1);
        last = field % 2 == 0 ? (uint64_t)(uintptr_t)t->k : last;
        if (field == 255)
            edit_words(b, t, sizeof *t / 8, 0, take(b, 1));
        else
            set_pointer(t, field % POINTERS, take_address(b));
    }
}

/* ---- what is asked of each --------------------------------------------------------------------------------------- */

struct asked {
    enum { CALL, APPEND, MERGE } what;
    struct glint_plan plan;
    enum glint_pass pass;
    struct glint_tensors tensors;
    void *workspace;
    size_t workspace_bytes;
    void *stream;
    struct glint_append append;
    struct glint_merge merge;
    struct glint_part part[PARTS];
};

static enum glint_status explain(const struct asked *a, char *text, size_t bytes, size_t *needed)
{
    switch (a->what) {
    case CALL:
        return glint_explain_call(&a->plan, a->pass, &a->tensors, a->workspace, a->workspace_bytes, a->stream, text, bytes, needed);
    case APPEND: return glint_explain_append(&a->plan, &a->append, &a->tensors, a->stream, text, bytes, needed);
    default: return glint_explain_merge(context, &a->merge, a->stream, text, bytes, needed);
    }
}

static enum glint_status run(const struct asked *a)
{
    switch (a->what) {
    case CALL:
        return (a->pass == GLINT_FORWARD ? glint_forward : glint_backward)(&a->plan, &a->tensors, a->workspace, a->workspace_bytes,
                                                                           a->stream);
    case APPEND: return glint_append(&a->plan, &a->append, &a->tensors, a->stream);
    default: return glint_merge(context, &a->merge, a->stream);
    }
}

static void ask(const struct asked *a, size_t bytes)
{
    size_t needed = 0, again = 0;
    char *const part = malloc(bytes + 1) /* bytes may be 0; the one more is poisoned by what follows */, *text;
    part[bytes] = 0x55;
    const enum glint_status status = explain(a, part, bytes, &needed);
    EXPECT(part[bytes] == 0x55, "wrote past a buffer of %zu bytes", bytes);
    EXPECT(needed > 1 && (bytes == 0 || memchr(part, 0, bytes) != NULL), "a text of %zu bytes without an end in %zu", needed,
           bytes);
    text = malloc(needed);
    EXPECT(explain(a, text, needed, &again) == status && again == needed, "asked twice, said twice");
    EXPECT(strlen(text) == needed - 1, "a text of %zu bytes that needs %zu", strlen(text), needed);
    EXPECT(bytes == 0 || strncmp(text, part, bytes - 1) == 0 || strlen(part) < bytes - 1, "the shorter text is another one");
    free(text);
    free(part);
    if (status == GLINT_OK) /* addresses are made up: it cannot be run */
        return;
    const uint64_t calls = counting.calls;
    EXPECT(run(a) == status, "refused with another status than %s", glint_status_name(status));
    EXPECT(counting.calls == calls, "refused, and the executor was called");
}

/* ---- the target -------------------------------------------------------------------------------------------------- */

static void read_append(struct bytes *b, const struct glint_problem *p, struct glint_append *append)
{
    *append = (struct glint_append)GLINT_APPEND_INIT;
    append->dtype = p->dtype;
    append->k = (void *)(uintptr_t)(last = (uint64_t)100 << 56);
    append->v = (void *)(uintptr_t)(last = (uint64_t)101 << 56);
    append->k_strides = append->v_strides =
        (struct glint_strides){p->seqlen_q * p->heads_kv * p->head_dim, p->head_dim, p->heads_kv * p->head_dim};
    for (uint64_t edits = take(b, 1) % 4; edits > 0; edits--)
        edit_words(b, append, sizeof *append / 8, 1, take(b, 1));
}

static void read_merge(struct bytes *b, struct asked *a)
{
    struct glint_merge *const m = &a->merge;
    *m = (struct glint_merge)GLINT_MERGE_INIT;
    m->dtype = 1 + (uint32_t)take(b, 1) % 3;
    m->parts = PARTS;
    m->batch = 1 + (int64_t)take(b, 1) % 3, m->heads = 1 + (int64_t)take(b, 1) % 3;
    m->seqlen = (int64_t)take(b, 1) % 9, m->head_dim = 8 + 8 * ((int64_t)take(b, 1) % 3);
    m->o_strides = (struct glint_strides){m->heads * m->seqlen * m->head_dim, m->seqlen * m->head_dim, m->head_dim};
    m->lse_strides = (struct glint_strides){m->heads * m->seqlen, m->seqlen, 1};
    m->o = (void *)(uintptr_t)((uint64_t)1 << 56), m->lse = (float *)(uintptr_t)((uint64_t)2 << 56);
    for (uint64_t i = 0; i < PARTS; i++) {
        last = (uint64_t)(3 + i) << 56;
        a->part[i] = (struct glint_part){
            (void *)(uintptr_t)last, (float *)(uintptr_t)(last + ((uint64_t)1 << 55)), m->o_strides, m->lse_strides, m->dtype, 0};
    }
    for (uint64_t edits = take(b, 1) % 6; edits > 0; edits--) {
        const uint64_t which = take(b, 1), field = take(b, 1);
        if (which % 4 < PARTS)
            edit_words(b, &a->part[which % 4], sizeof a->part[0] / 8, 0, field);
        else
            edit_words(b, m, sizeof *m / 8, 1, field);
    }
    m->part = a->part;                                                             /* host memory, which is read */
    m->parts = m->parts > PARTS && m->parts <= GLINT_MAX_PARTS ? PARTS : m->parts; /* as many as there are */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void *storage;
    struct bytes b = {data, size};
    struct asked a;
    struct glint_problem p;
    struct glint_cost cost = GLINT_COST_INIT;
    uint32_t pass;
    memset(&a, 0, sizeof a);
    if (context == NULL)
        context = open_context(&counting, 3, &storage);
    last = 0;
    const uint64_t what = take(&b, 1);
    const size_t bytes = (size_t)take(&b, 1);
    a.stream = (void *)(uintptr_t)(what / 3 % 16 == 15);
    a.what = what % 3 == 0 ? CALL : what % 3 == 1 ? APPEND : MERGE;
    if (a.what == MERGE) {
        read_merge(&b, &a);
        ask(&a, bytes);
        return 0;
    }
    read_problem(&b, &p, &pass, (int)(take(&b, 1) % 6));
    widen(&b, &p);
    const uint64_t element = p.kv_dtype != 0 ? 1 : p.dtype == GLINT_F32 ? 4 : 2;
    step[0] = element * (uint64_t)p.k.batch, step[1] = element * (uint64_t)p.k.head, step[2] = element * (uint64_t)p.k.row;
    if (glint_plan(context, &p, (enum glint_pass)pass, &a.plan) != GLINT_OK)
        return 0;
    EXPECT(a.plan.workspace_bytes <= INT64_MAX, "a workspace of %zu bytes", a.plan.workspace_bytes);
    EXPECT(glint_plan_cost(&a.plan, &cost) == GLINT_OK, "a plan without a cost");
    a.pass = (enum glint_pass)pass;
    read_tensors(&b, &p, pass, &a.tensors);
    a.workspace = (void *)(uintptr_t)((uint64_t)200 << 56);
    a.workspace_bytes = a.plan.workspace_bytes;
    if (a.what == APPEND)
        read_append(&b, &p, &a.append);
    const uint64_t place = take(&b, 1);
    if (place & 1)
        a.workspace = (void *)(uintptr_t)take_address(&b);
    if (place & 2)
        a.workspace_bytes += take(&b, 8);
    if (place & 4)
        a.pass = a.pass == GLINT_FORWARD ? GLINT_BACKWARD : GLINT_FORWARD;
    if (place & 8)
        edit_words(&b, &a.plan, sizeof a.plan / 8, 0, take(&b, 1));
    ask(&a, bytes);
    return 0;
}
