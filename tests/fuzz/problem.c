/* The fuzz target of planning and running: bytes become a problem, and glint.h must hold for it. glint_plan gives a
 * status that the refusal oracle allows, glint_explain the same; a problem that plans and is small is run in memory of
 * exactly the size that it needs, and its result compared with the reference's. Built with -fsanitize=fuzzer it
 * searches; with replay.c it repeats the corpus. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/contract/refusal_oracle.h"
#include "tests/contract/suite.h"
#include "tests/contract/world.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"
#include "tests/oracle/half.h"
#include "tests/oracle/ref.h"

/* ---- the answer ----------------------------------------------------------------------------------------------------------------- */

static double element(const struct tensor_layout *s, uint32_t dtype, const unsigned char *base, int64_t b, int64_t h, int64_t r,
                      int64_t d)
{
    const unsigned char *const at = base + (b * s->strides.batch + h * s->strides.head + r * s->strides.row + d) * s->element_bytes;
    if (dtype == GLINT_I8)
        return (double)(int8_t)*at;
    return dtype == GLINT_E4M3 ? (double)float_from_e4m3(*at) : (double)dtype_load((enum glint_dtype)dtype, at);
}

static double *gather(const struct call *c, enum tensor t)
{
    const struct tensor_layout s = tensor_layout(&c->problem, t);
    double *const dense = calloc((size_t)(s.batch * s.heads * s.rows * s.columns) + 1, sizeof *dense), *to = dense;
    for (int64_t b = 0; b < s.batch; b++)
        for (int64_t h = 0; h < s.heads; h++)
            for (int64_t r = 0; r < s.rows; r++)
                for (int64_t d = 0; d < s.columns; d++)
                    *to++ = element(&s, tensor_dtype(&c->problem, t), tensor_get(&c->tensors, t), b, h, r, d);
    return dense;
}

/* The page of key j of sequence b. */
static int64_t page_of(const struct call *c, int64_t b, int64_t j)
{
    const struct glint_problem *const p = &c->problem;
    const int64_t page = c->tensors.page_table[b * p->pages_per_sequence + j / p->page_rows];
    return page < 0 ? 0 : page >= p->pages ? p->pages - 1 : page;
}

/* K or V of all sequences, [batch, heads_kv, seqlen_k, head_dim], through the page table where there is one. */
static double *gather_keys(const struct call *c, enum tensor t)
{
    const struct glint_problem *const p = &c->problem;
    if (p->page_rows == 0)
        return gather(c, t);
    const struct tensor_layout s = tensor_layout(p, t);
    double *const dense = calloc((size_t)(p->batch * p->heads_kv * p->seqlen_k * p->head_dim) + 1, sizeof *dense), *to = dense;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads_kv; h++)
            for (int64_t j = 0; j < p->seqlen_k; j++) {
                const int64_t page = page_of(c, b, j);
                for (int64_t d = 0; d < p->head_dim; d++)
                    *to++ = element(&s, tensor_dtype(p, t), tensor_get(&c->tensors, t), page, h, j % p->page_rows, d);
            }
    return dense;
}

static double tolerance(uint32_t dtype)
{
    return dtype == GLINT_F32 ? 2e-4 : dtype == GLINT_F16 ? 2e-2 : 1e-1;
}

static void close_to(const struct call *c, enum tensor t, const double *truth)
{
    const struct tensor_layout s = tensor_layout(&c->problem, t);
    const size_t count = (size_t)(s.batch * s.heads * s.rows * s.columns);
    double *const got = gather(c, t), largest = 0;
    double worst = 0;
    bool wrong = false;
    for (size_t i = 0; i < count; i++) {
        if (isfinite(truth[i]))
            worst = fmax(worst, fabs(truth[i]));
    }
    const double scale = fmax(1.0, worst);
    worst = largest;
    for (size_t i = 0; i < count; i++) {
        if (isinf(truth[i]) || isinf(got[i]))
            wrong = wrong || truth[i] != got[i];
        else
            worst = fmax(worst, isnan(got[i]) ? INFINITY : fabs(got[i] - truth[i]));
    }
    EXPECT(!wrong && worst <= scale * tolerance(c->problem.dtype), "%s: error %g where values go to %g", tensor_field[t], worst,
           scale);
    free(got);
}

/* Scales of every key; NULL where there are none. */
static double *scales(const struct call *c, const float *given)
{
    const struct glint_problem *const p = &c->problem;
    double *const all = given != NULL ? calloc((size_t)(p->batch * p->heads_kv * p->seqlen_k) + 1, sizeof *all) : NULL, *to = all;
    for (int64_t b = 0; b < p->batch && given != NULL; b++)
        for (int64_t h = 0; h < p->heads_kv; h++)
            for (int64_t j = 0; j < p->seqlen_k; j++) {
                const int64_t rows = p->page_rows > 0 ? p->page_rows : p->seqlen_k;
                const int64_t page = p->page_rows > 0 ? page_of(c, b, j) : b;
                *to++ = (double)given[p->kv_scales == GLINT_SCALES_ROW    ? (page * p->heads_kv + h) * rows + j % rows
                                      : p->kv_scales == GLINT_SCALES_HEAD ? h
                                                                          : 0];
            }
    return all;
}

static void compare(const struct call *c)
{
    const struct glint_problem *const p = &c->problem;
    struct ref_shape s = {p->batch,
                          p->heads_q,
                          p->heads_kv,
                          p->seqlen_q,
                          p->seqlen_k,
                          p->head_dim,
                          p->softmax_scale,
                          0,
                          0,
                          p->softcap,
                          c->tensors.sinks,
                          NULL,
                          NULL,
                          NULL,
                          NULL,
                          NULL,
                          0,
                          NULL,
                          NULL,
                          NULL,
                          0};
    ref_mask(&s, (enum glint_mask)p->mask, p->window_left, p->window_right, p->diagonal);
    const size_t rows = (size_t)(p->batch * p->heads_q * p->seqlen_q), key_rows = (size_t)(p->batch * p->heads_kv * p->seqlen_k);
    const size_t d = (size_t)p->head_dim;
    double *const q = gather(c, Q), *const k = gather_keys(c, K), *const v = gather_keys(c, V);
    double *const k_scale = scales(c, c->tensors.k_scale), *const v_scale = scales(c, c->tensors.v_scale);
    s.k_scale = k_scale;
    s.v_scale = v_scale;
    double *const o = calloc(rows * d + 1, sizeof *o), *const lse = calloc(rows + 1, sizeof *lse);
    reference_forward(&s, q, k, v, o, lse);
    if (c->pass == GLINT_FORWARD) {
        close_to(c, O, o);
        close_to(c, LSE, lse);
    } else {
        double *const dout = gather(c, DOUT), *const dq = calloc(rows * d + 1, sizeof *dq);
        double *const dk = calloc(key_rows * d + 1, sizeof *dk), *const dv = calloc(key_rows * d + 1, sizeof *dv);
        double *const dsinks = calloc((size_t)p->heads_q + 1, sizeof *dsinks);
        reference_backward(&s, q, k, v, o, lse, dout, NULL, dq, dk, dv, p->sinks != 0 ? dsinks : NULL, NULL);
        for (int64_t h = 0; h < p->heads_q && p->sinks != 0; h++)
            EXPECT(fabs((double)c->tensors.dsinks[h] - dsinks[h]) <=
                       tolerance(p->dtype) * fmax(1.0, (double)(p->batch * p->seqlen_q * p->head_dim)),
                   "dsinks[%lld] is %g, exact %g", (long long)h, (double)c->tensors.dsinks[h], dsinks[h]);
        free(dsinks);
        close_to(c, DQ, dq);
        close_to(c, DK, dk);
        close_to(c, DV, dv);
        free(dout), free(dq), free(dk), free(dv);
    }
    free(q), free(k), free(v), free(o), free(lse), free(k_scale), free(v_scale);
}

/* ---- the target ----------------------------------------------------------------------------------------------------------------- */

/* Few elements to compute, and few bytes to lay out: strides of the problem may be anything. */
static bool small(const struct glint_problem *p, uint32_t pass)
{
    if (p->pages > 64 || p->pages_per_sequence > 256)
        return false;
    if (p->batch > 16 || p->heads_q > 16 || p->heads_kv > 16 || p->seqlen_q > 256 || p->seqlen_k > 256)
        return false;
    if (p->batch * p->heads_q * p->seqlen_q * p->seqlen_k * p->head_dim > 3000000)
        return false;
    for (enum tensor t = Q; t < TENSORS; t++) {
        const struct tensor_layout s = tensor_layout(p, t);
        if (!pass_uses((enum glint_pass)pass, t))
            continue;
        if ((s.batch > 1 && s.strides.batch > 1 << 20) || (s.heads > 1 && s.strides.head > 1 << 20) ||
            (s.rows > 1 && s.strides.row > 1 << 20))
            return false;
        if (tensor_bytes(p, t) > (size_t)4 << 20)
            return false;
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct glint_context *context;
    static struct counting counting;
    static void *storage;
    struct bytes b = {data, size};
    struct glint_problem p;
    struct glint_plan plan, before;
    struct faults faults;
    uint32_t pass;
    char text[2048];
    if (context == NULL)
        context = open_context(&counting, 3, &storage);
    read_problem(&b, &p, &pass, 8);
    memset(&plan, 0x6b, sizeof plan);
    before = plan;
    oracle_plan(&faults, CONTEXT_OPEN, context, &p, pass, &plan);
    const enum glint_status status = glint_plan(context, &p, (enum glint_pass)pass, &plan);
    EXPECT(oracle_allows(&faults, status), "glint_plan gives %s, not %s", glint_status_name(status), oracle_print(&faults));
    EXPECT(glint_explain(context, &p, (enum glint_pass)pass, text, sizeof text, NULL) == status, "glint_explain differs");
    if (status != GLINT_OK) {
        EXPECT(memcmp(&plan, &before, sizeof plan) == 0, "refused, and the plan was written");
        EXPECT(oracle_text_names(&faults, status, text), "the text should name one of %s:\n%s", oracle_print(&faults), text);
        return 0;
    }
    if (!small(&p, pass))
        return 0;
    struct call c;
    call_make(&c, context, &p, (enum glint_pass)pass, 1 + size);
    int32_t seqlens_k[16],
        first[17]; /* at the bound, or clamped to it: `small` has no more sequences; ragged ones begin anywhere */
    for (int i = 0; i < 17; i++)
        first[i] = (int32_t)((uint64_t)i * size * 37 % 300) - 20;
    for (int i = 0; i < 16; i++)
        seqlens_k[i] = i % 2 == 0 ? (int32_t)p.seqlen_k : INT32_MAX;
    if (p.lengths == GLINT_LENGTHS_DEVICE || (p.lengths == GLINT_LENGTHS_RAGGED && p.page_rows > 0))
        c.tensors.seqlens_k = seqlens_k;
    float sinks[16], dsinks[16]; /* no more heads */
    for (int i = 0; i < 16; i++) {
        sinks[i] = (float)(i % 5 - 2);
        dsinks[i] = NAN;
    }
    if (p.sinks != 0)
        c.tensors.sinks = sinks;
    if (p.sinks != 0 && pass == GLINT_BACKWARD)
        c.tensors.dsinks = dsinks;
    static int32_t table[16 * 256]; /* of `small` problems, whose rows of a table are not longer than their lengths need */
    for (int64_t i = 0; i < 16 * 256; i++)
        table[i] = i % 7 == 6 ? INT32_MIN : i % 5 == 4 ? INT32_MAX : (int32_t)(i * 11 % (p.pages + 1));
    if (p.page_rows > 0)
        c.tensors.page_table = table;
    if (p.lengths == GLINT_LENGTHS_RAGGED)
        c.tensors.first_q = first;
    if (p.lengths == GLINT_LENGTHS_RAGGED && p.page_rows == 0)
        c.tensors.first_k = first;
    const bool tame = isfinite(p.softmax_scale) && fabs((double)p.softmax_scale) * sqrt((double)p.head_dim) <= 4;
    if (pass == GLINT_BACKWARD) {
        struct glint_plan forward;
        if (glint_plan(context, &p, GLINT_FORWARD, &forward) != GLINT_OK) { /* O overlaps itself: an input here, but no output */
            call_free(&c);
            return 0;
        }
        call_fill_forward(&c, context);
    }
    const enum glint_status ran = call_run(&c);
    EXPECT(ran == GLINT_OK, "a planned problem gives %s", glint_status_name(ran));
    EXPECT(call_canaries_hold(&c), "wrote outside what it was given");
    if (tame && p.lengths != GLINT_LENGTHS_RAGGED)
        compare(&c);
    call_free(&c);
    return 0;
}
