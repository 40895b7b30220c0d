/* Which tensors of a call share memory: two at a time lie in one small buffer, in drawn places with drawn strides, and
 * the answer is that of a count of bytes. Where strides differ, or do not step over each other once both tensors'
 * dimensions are in one, ranges that meet are refused, as glint.h says. The table is that of made_up.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/check.h"
#include "tests/contract/made_up.h"
#include "tests/contract/suite.h"
#include "tests/support/rand.h"

enum { DRAWN = 200000, TENSORS = 8, DIM = 40, BYTES = 1 << 16 };

struct tensor {
    const char *name;
    size_t strides, address; /* in the problem, and in what a call is given */
    bool of_keys;
};
static const struct tensor tensors[TENSORS] = {
#define T(name, field, keys)                                                                     \
    {                                                                                            \
        name, offsetof(struct glint_problem, field), offsetof(struct glint_tensors, field), keys \
    }
    T("q", q, false),       T("k", k, true),    T("v", v, true),   T("o", o, false),
    T("dout", dout, false), T("dq", dq, false), T("dk", dk, true), T("dv", dv, true),
#undef T
};
enum { O = 3, DOUT, DQ };

struct layout {
    int64_t extent[3], stride[3], at, element; /* `at`: in bytes */
};

static bool written(int tensor, enum glint_pass pass)
{
    return pass == GLINT_FORWARD ? tensor == O : tensor >= DQ;
}

/* In how many bytes of the buffer is an element of both? */
static bool share_bytes(const struct layout *a, const struct layout *b)
{
    static unsigned char has[BYTES];
    bool share = false;
    memset(has, 0, sizeof has);
    for (int side = 0; side < 2; side++) {
        const struct layout *const t = side == 0 ? a : b;
        for (int64_t x = 0; x < t->extent[0]; x++)
            for (int64_t y = 0; y < t->extent[1]; y++)
                for (int64_t z = 0; z < t->extent[2]; z++) {
                    unsigned char *const row = &has[t->at + (x * t->stride[0] + y * t->stride[1] + z * t->stride[2]) * t->element];
                    for (int64_t byte = 0; byte < DIM * t->element; byte++) {
                        share = share || (side == 1 && row[byte] != 0);
                        row[byte] = side == 0 ? 1 : row[byte];
                    }
                }
    }
    return share;
}

static int64_t end_of(const struct layout *t)
{
    int64_t span = DIM;
    for (int i = 0; i < 3; i++)
        span += (t->extent[i] - 1) * t->stride[i];
    return t->at + span * t->element;
}

/* Can the two be told apart? Their strides are the same, and each steps over what is inside it. */
static bool comparable(const struct layout *a, const struct layout *b)
{
    bool done[3] = {false, false, false};
    int64_t stride[3], extent[3];
    for (int i = 0; i < 3; i++) {
        if (a->extent[i] > 1 && b->extent[i] > 1 && a->stride[i] != b->stride[i])
            return false;
        stride[i] = a->extent[i] > 1 ? a->stride[i] : b->stride[i];
        extent[i] = a->extent[i] > b->extent[i] ? a->extent[i] : b->extent[i];
        done[i] = extent[i] == 1;
    }
    for (int64_t inner = DIM;;) {
        int least = -1;
        for (int i = 0; i < 3; i++)
            if (!done[i] && (least < 0 || stride[i] < stride[least]))
                least = i;
        if (least < 0)
            return (a->at - b->at) % a->element == 0;
        if (stride[least] < inner)
            return false;
        inner += (extent[least] - 1) * stride[least];
        done[least] = true;
    }
}

static int64_t pick(struct rand *r, const int64_t *values, int64_t count)
{
    return values[rand_below(r, count)];
}

static void draw_strides(struct rand *r, int64_t stride[3])
{
    static const int64_t values[] = {0,           2,       DIM / 2, DIM - 2, DIM,     DIM,     DIM + 2,
                                     2 * DIM - 2, 2 * DIM, 2 * DIM, 3 * DIM, 4 * DIM, 4 * DIM, 4 * DIM + 2,
                                     6 * DIM,     7 * DIM, 8 * DIM, 9 * DIM, 12 * DIM};
    for (int i = 0; i < 3; i++)
        stride[i] = pick(r, values, sizeof values / sizeof values[0]);
}

/* Rows, heads and batches one after another, in any order of the three. */
static void step_strides(struct rand *r, const int64_t most[3], int64_t stride[3])
{
    const int64_t first = rand_below(r, 3), second = (first + 1 + rand_below(r, 2)) % 3, third = 3 - first - second;
    stride[first] = DIM * (1 + rand_below(r, 3));
    stride[second] = stride[first] * most[first] + DIM / 2 * rand_below(r, 3);
    stride[third] = stride[second] * most[second] + DIM / 2 * rand_below(r, 3);
}

static void set_strides(struct glint_problem *p, int tensor, const int64_t stride[3])
{
    const struct glint_strides s = {stride[0], stride[1], stride[2]};
    memcpy((char *)p + tensors[tensor].strides, &s, sizeof s);
}

static void set_address(struct glint_tensors *t, int tensor, int64_t place)
{
    const uintptr_t address = (uintptr_t)place;
    memcpy((char *)t + tensors[tensor].address, &address, sizeof address);
}

static void pairs_in_a_buffer(void)
{
    const int64_t begin = INT64_C(1) << 40, far = INT64_C(1) << 41;
    struct rand r = rand_stream(26, 3);
    uint32_t row[2] = {UINT32_MAX, UINT32_MAX}; /* forward, backward */
    unsigned told_apart = 0, shared = 0, refused = 0;
    for (uint32_t i = 0; i < made_up_rows; i++)
        if (glint_variants[i].head_dim == DIM && glint_variants[i].queries_up_to == 0)
            row[glint_variants[i].pass == GLINT_BACKWARD] = i;
    EXPECT(row[0] != UINT32_MAX && row[1] != UINT32_MAX, "no row of head_dim %d", DIM);
    const struct glint_context *const context = made_up_context(1, GLINT_ISA_ANY, 1);
    for (int draw = 0; draw < DRAWN; draw++) {
        const enum glint_pass pass = rand_below(&r, 3) == 0 ? GLINT_FORWARD : GLINT_BACKWARD;
        const int count = pass == GLINT_FORWARD ? O + 1 : TENSORS;
        const int64_t batch = 1 + rand_below(&r, 2), heads_kv = 1 + rand_below(&r, 2), heads_q = heads_kv * (1 + rand_below(&r, 2)),
                      queries = 1 + rand_below(&r, 3), keys = 1 + rand_below(&r, 3);
        const int64_t most[3] = {batch, heads_q, queries > keys ? queries : keys};
        int64_t stride[3], own[3];
        struct glint_problem p;
        struct glint_plan plan;
        struct glint_tensors t = GLINT_TENSORS_INIT;
        glint_problem_bshd(&p, (enum glint_dtype)glint_variants[row[pass == GLINT_BACKWARD]].dtype, batch, queries, keys, heads_q,
                           heads_kv, DIM);
        p.mask = glint_mask_of(&glint_variants[row[pass == GLINT_BACKWARD]]), p.softcap = 20;
        if (rand_below(&r, 2) == 0)
            step_strides(&r, most, stride);
        else
            draw_strides(&r, stride);
        for (int i = 0; i < count; i++) {
            draw_strides(&r, own);
            set_strides(&p, i, rand_below(&r, 4) == 0 ? own : stride);
            set_address(&t, i, far + ((int64_t)i << 20));
        }
        t.lse = (float *)(uintptr_t)(far + ((int64_t)TENSORS << 20));
        if (glint_plan_variant(context, &p, pass, row[pass == GLINT_BACKWARD], &plan) != GLINT_OK)
            continue; /* an output overlaps itself */
        const int a = (int)rand_below(&r, count), b = (int)((a + 1 + rand_below(&r, count - 1)) % count);
        struct layout in[2];
        for (int side = 0; side < 2; side++) {
            const struct tensor *const of = &tensors[side == 0 ? a : b];
            struct layout *const l = &in[side];
            memcpy(l->stride, (const char *)&p + of->strides, sizeof l->stride);
            *l = (struct layout){{batch, of->of_keys ? heads_kv : heads_q, of->of_keys ? keys : queries},
                                 {l->stride[0], l->stride[1], l->stride[2]},
                                 4 * (rand_below(&r, 2) == 0 ? DIM / 2 * rand_below(&r, 40) : rand_below(&r, 500)),
                                 2};
            set_address(&t, side == 0 ? a : b, begin + l->at);
        }
        void *const workspace = (void *)(uintptr_t)(far << 1);
        char text[512];
        const enum glint_status status =
            glint_explain_call(&plan, pass, &t, workspace, plan.workspace_bytes, NULL, text, sizeof text, NULL);
        const bool matters = written(a, pass) || written(b, pass), meet = in[0].at < end_of(&in[1]) && in[1].at < end_of(&in[0]);
        const bool share = share_bytes(&in[0], &in[1]), known = comparable(&in[0], &in[1]);
        EXPECT(status == (matters && meet && (share || !known) ? GLINT_TENSOR_OVERLAP : GLINT_OK), "draw %d, %s and %s: %s", draw,
               tensors[a].name, tensors[b].name, text);
        told_apart += matters && meet && !share && known, shared += matters && share,
            refused += matters && meet && !share && !known;
    }
    contract_note("%u told apart, %u share memory, %u refused all the same", told_apart, shared, refused);
    EXPECT(told_apart > 1000 && shared > 1000 && refused > 1000, "too few of a kind");
}

static const struct contract_case cases[] = {{"pairs_in_a_buffer", pairs_in_a_buffer, 0}};
CONTRACT_MAIN("overlaps", cases)
