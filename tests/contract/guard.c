/* Every variant that this machine runs, with each tensor and the workspace between inaccessible pages: flush at the
 * end, then at the start. Inputs are mapped read-only. The workspace is exactly plan.workspace_bytes, poisoned with
 * 0xAA and then with signalling NaN; neither that nor the place of anything changes a bit of the result. Bytes
 * between strided rows stay as they were. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/contract/suite.h"
#include "tests/contract/world.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum layout { BSHD, BHSD, FUSED, PADDED, BROADCAST, ANY_STRIDE, LAYOUTS };

struct dimensions {
    int64_t batch, heads_q, heads_kv, seqlen_q, seqlen_k;
    enum layout layout;
};

static void make_problem(struct glint_problem *p, const struct glint_variant_info *info, const struct dimensions *s,
                         bool bottom_right)
{
    (s->layout == BHSD ? glint_problem_bhsd : glint_problem_bshd)(p, (enum glint_dtype)info->dtype, s->batch, s->seqlen_q,
                                                                  s->seqlen_k, s->heads_q, s->heads_kv, info->head_dim);
    serve_cache(p, info);
    p->mask = row_mask(info, bottom_right);
    if ((info->features & GLINT_FEATURE_LEFT_BOUND) != 0 && bottom_right) /* whole tiles; beside it a window of one key */
        p->window_left = 2 * (int64_t)info->tile_n;
    const int64_t d = p->head_dim,
                  unit = info->alignment_bytes / element_bytes(p->dtype); /* of 8-bit K and V more than it must be */
    const int64_t odd = d + (unit > 0 ? unit : 1); /* the smallest padding: rows at the least aligned addresses allowed */
    struct glint_strides *const all[] = {&p->q, &p->k, &p->v, &p->o, &p->dout, &p->dq, &p->dk, &p->dv};
    switch (s->layout) {
    case FUSED: {
        const int64_t row = (s->heads_q + 2 * s->heads_kv) * d;
        p->q = p->dq = (struct glint_strides){s->seqlen_q * row, d, row};
        p->k = p->v = p->dk = p->dv = (struct glint_strides){s->seqlen_k * row, d, row};
        break;
    }
    case PADDED: /* heads innermost, then batch, then rows */
        for (size_t i = 0; i < COUNT(all); i++) {
            const int64_t heads = i == 1 || i == 2 || i >= 6 ? s->heads_kv : s->heads_q;
            *all[i] = (struct glint_strides){heads * odd, odd, s->batch * heads * odd + unit};
        }
        break;
    case BROADCAST: /* inputs: one head for all, one batch for all, one row for all */
        p->k.head = p->v.head = 0;
        p->q.batch = 0;
        p->dout.row = p->dout.head = 0;
        break;
    case ANY_STRIDE: /* of dimensions of extent 1; no sum of addresses may overflow (--config=ubsan) */
        for (size_t i = 0; i < COUNT(all); i++) {
            const bool keys = i == 1 || i == 2 || i >= 6;
            all[i]->batch = s->batch == 1 ? INT64_MAX : all[i]->batch;
            all[i]->head = (keys ? s->heads_kv : s->heads_q) == 1 ? INT64_MAX : all[i]->head;
            all[i]->row = (keys ? s->seqlen_k : s->seqlen_q) == 1 ? INT64_MAX : all[i]->row;
        }
        break;
    default: break;
    }
}

/* The bits of the outputs' rows alone; what lies between them must be what was there. */
static bool same_rows(const struct glint_problem *p, enum tensor t, const unsigned char *a, const unsigned char *b)
{
    const struct tensor_layout s = tensor_layout(p, t);
    for (int64_t i = 0; i < s.batch; i++) {
        for (int64_t h = 0; h < s.heads; h++) {
            for (int64_t r = 0; r < s.rows; r++) {
                const int64_t at = (i * s.strides.batch + h * s.strides.head + r * s.strides.row) * s.element_bytes;
                if (memcmp(a + at, b + at, (size_t)(s.columns * s.element_bytes)) != 0)
                    return false;
            }
        }
    }
    return true;
}

/* Copies `from` with every byte of a row replaced by `with`; what remains are the gaps. */
static void blank_rows(const struct glint_problem *p, enum tensor t, unsigned char *at, unsigned char with)
{
    const struct tensor_layout s = tensor_layout(p, t);
    for (int64_t i = 0; i < s.batch; i++) {
        for (int64_t h = 0; h < s.heads; h++) {
            for (int64_t r = 0; r < s.rows; r++)
                memset(at + (i * s.strides.batch + h * s.strides.head + r * s.strides.row) * s.element_bytes, with,
                       (size_t)(s.columns * s.element_bytes));
        }
    }
}

static void poison(void *workspace, size_t bytes, bool signalling)
{
    memset(workspace, 0xAA, bytes);
    if (!signalling)
        return;
    const uint32_t snan = 0x7fa00001u;
    for (size_t i = 0; i + 4 <= bytes; i += 4)
        memcpy((unsigned char *)workspace + i, &snan, 4);
}

static uint64_t runs;

/* The plain run is in c's one block; this one must give its bits. */
static void guarded_run(const struct call *c, const unsigned char *inputs, uint32_t row, bool at_end, const char *name,
                        size_t which)
{
    const struct glint_variant_info info = row_at(row);
    struct guarded g[TENSORS], w = guarded_make(c->workspace_bytes, GLINT_WORKSPACE_ALIGNMENT, at_end);
    struct call moved = *c;
    for (enum tensor t = Q; t < TENSORS; t++) {
        if (!pass_uses(c->pass, t))
            continue;
        const size_t alignment = t == LSE && info.alignment_bytes < 4 ? 4 : info.alignment_bytes;
        g[t] = guarded_make(c->bytes[t], alignment, at_end);
        memcpy(g[t].at, inputs + c->offset[t], c->bytes[t]);
        if (!pass_writes(c->pass, t))
            guarded_read_only(&g[t]);
        tensor_set(&moved.tensors, t, g[t].at);
    }
    moved.workspace = w.at;
    poison(w.at, w.bytes, at_end);
    const enum glint_status status = call_run(&moved);
    EXPECT(status == GLINT_OK, "%s, shape %zu: %s", name, which, glint_status_name(status));
    runs++;
    EXPECT(guarded_canaries_hold(&w), "%s, shape %zu: wrote beside the workspace", name, which);
    for (enum tensor t = Q; t < TENSORS; t++) {
        if (!pass_uses(c->pass, t))
            continue;
        EXPECT(guarded_canaries_hold(&g[t]), "%s, shape %zu: wrote beside %s", name, which, tensor_field[t]);
        if (pass_writes(c->pass, t)) {
            EXPECT(same_rows(&c->problem, t, g[t].at, c->block + c->offset[t]), "%s, shape %zu: other bits in %s at another place",
                   name, which, tensor_field[t]);
            unsigned char *const expected = malloc(c->bytes[t] + 1);
            memcpy(expected, inputs + c->offset[t], c->bytes[t]);
            blank_rows(&c->problem, t, expected, 0);
            blank_rows(&c->problem, t, g[t].at, 0);
            EXPECT(memcmp(expected, g[t].at, c->bytes[t]) == 0, "%s, shape %zu: wrote between the rows of %s", name, which,
                   tensor_field[t]);
            free(expected);
        }
        guarded_free(&g[t]);
    }
    guarded_free(&w);
}

static void shape_of_variant(const struct glint_context *context, uint32_t row, const struct dimensions *s, bool bottom_right,
                             size_t which)
{
    const struct glint_variant_info info = row_at(row);
    struct glint_problem p;
    struct call c;
    make_problem(&p, &info, s, bottom_right);
    call_make(&c, context, &p, (enum glint_pass)info.pass, 1000 + which);
    if (info.pass == GLINT_BACKWARD)
        call_fill_forward(&c, context);
    const enum glint_status planned = glint_plan_variant(context, &p, (enum glint_pass)info.pass, row, &c.plan);
    EXPECT(planned == GLINT_OK, "%s: %s", info.name, glint_status_name(planned));
    /* glint_plan may have chosen another row with a smaller workspace */
    c.workspace_bytes = c.plan.workspace_bytes;
    c.workspace = aligned_memory(GLINT_WORKSPACE_ALIGNMENT, c.workspace_bytes);
    memset(c.workspace, 0, c.workspace_bytes);
    unsigned char *const inputs = malloc(c.block_bytes);
    memcpy(inputs, c.block, c.block_bytes);
    const enum glint_status status = call_run(&c);
    EXPECT(status == GLINT_OK, "%s, shape %zu: %s", info.name, which, glint_status_name(status));
    for (int at_end = 0; at_end < 2; at_end++)
        guarded_run(&c, inputs, row, at_end, info.name, which);

    /* One byte less is refused, and the context works afterwards (the next shape shows it). */
    if (c.workspace_bytes > 0) {
        c.workspace_bytes--;
        EXPECT(call_run(&c) == GLINT_WORKSPACE_TOO_SMALL, "%s, shape %zu: one byte less", info.name, which);
    }
    free(c.workspace);
    free(inputs);
    call_free(&c);
}

static void variants(enum glint_pass pass, uint32_t concurrency)
{
    void *storage;
    struct counting counting;
    struct glint_context *const context = open_context(&counting, concurrency, &storage);
    uint32_t tried = 0;
    if (!runs_pass(context, pass)) {
        contract_note("skipped: no %s in the spec", pass_name(pass));
        free(storage);
        return;
    }
    for (uint32_t i = 0; i < glint_variant_count(); i++) {
        if (!row_serves(context, i))
            continue;
        const struct glint_variant_info info = row_at(i);
        if (info.pass != (uint32_t)pass)
            continue;
        const int64_t m = info.tile_m, n = info.tile_n;
        const struct dimensions shapes[] = {
            {1, 1, 1, 1, 1, BSHD},         {1, 2, 2, 3, 2, PADDED},         {2, 4, 2, 5, 9, FUSED},
            {1, 3, 1, m - 1, n + 1, BHSD}, {1, 1, 1, m + 1, n - 1, PADDED}, {2, 2, 1, 1, n, BROADCAST},
            {1, 2, 2, m, 1, BHSD},         {1, 1, 1, 4, 0, BSHD},           {1, 1, 1, 0, 4, BSHD},
            {1, 1, 1, 1, 1, ANY_STRIDE},   {1, 3, 1, 1, 2, ANY_STRIDE},     {1, 1, 1, 3, 1, ANY_STRIDE},
        };
        for (size_t s = 0; s < COUNT(shapes); s++) {
            shape_of_variant(context, i, &shapes[s], false, s);
            if (info.features & GLINT_FEATURE_RIGHT_BOUND)
                shape_of_variant(context, i, &shapes[s], true, s);
        }
        tried++;
    }
    EXPECT(tried > 0 && runs > 0, "no %s variant runs here", pass_name(pass));
    EXPECT(counting.calls > 0, "the executor was never called");
    contract_note("%s: %u variants, %llu guarded runs", pass_name(pass), tried, (unsigned long long)runs);
    free(storage);
}

static void forward(void)
{
    variants(GLINT_FORWARD, 1);
}
static void backward(void)
{
    variants(GLINT_BACKWARD, 1);
}
static void forward_in_parts(void)
{
    variants(GLINT_FORWARD, 3);
}
static void backward_in_parts(void)
{
    variants(GLINT_BACKWARD, 3);
}

static const struct contract_case cases[] = {
    {"forward", forward, 300},
    {"backward", backward, 300},
    {"forward_in_parts", forward_in_parts, 300},
    {"backward_in_parts", backward_in_parts, 300},
};
CONTRACT_MAIN("guard", cases)
