/* Every field of a problem set to every value that could hurt, alone and in pairs, on several correct problems:
 * glint_plan gives the status that the oracle works out, leaves the plan untouched when it refuses, and
 * glint_explain gives the same status and names the field. No plan is run here. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/contract/refusal_oracle.h"
#include "tests/contract/suite.h"
#include "tests/contract/world.h"

/* ---- fields and values ------------------------------------------------------------------------------------------- */

enum kind { KIND_U32, KIND_F32, KIND_I64, KIND_U64, KIND_PASS };

struct field {
    const char *name;
    size_t offset;
    enum kind kind;
};

#define FIELD(name, kind)                                 \
    {                                                     \
#name, offsetof(struct glint_problem, name), kind \
    }
#define STRIDES(tensor) FIELD(tensor.batch, KIND_I64), FIELD(tensor.head, KIND_I64), FIELD(tensor.row, KIND_I64)

static const struct field fields[] = {
    FIELD(struct_size, KIND_U32),
    FIELD(dtype, KIND_U32),
    FIELD(mask, KIND_U32),
    FIELD(softmax_scale, KIND_F32),
    FIELD(batch, KIND_I64),
    FIELD(heads_q, KIND_I64),
    FIELD(heads_kv, KIND_I64),
    FIELD(head_dim, KIND_I64),
    FIELD(seqlen_q, KIND_I64),
    FIELD(seqlen_k, KIND_I64),
    STRIDES(q),
    STRIDES(k),
    STRIDES(v),
    STRIDES(o),
    STRIDES(dout),
    STRIDES(dq),
    STRIDES(dk),
    STRIDES(dv),
    FIELD(window_left, KIND_I64),
    FIELD(window_right, KIND_I64),
    FIELD(rows_q, KIND_I64),
    FIELD(rows_k, KIND_I64),
    FIELD(lengths, KIND_U32),
    FIELD(order, KIND_U32),
    FIELD(softcap, KIND_F32),
    FIELD(sinks, KIND_U32),
    FIELD(page_rows, KIND_I64),
    FIELD(pages, KIND_I64),
    FIELD(pages_per_sequence, KIND_I64),
    FIELD(kv_dtype, KIND_U32),
    FIELD(kv_scales, KIND_U32),
    FIELD(diagonal, KIND_I64),
    FIELD(intervals, KIND_U32),
    FIELD(alibi, KIND_U32),
    FIELD(max_logit, KIND_U32),
    FIELD(bias_dtype, KIND_U32),
    FIELD(dbias, KIND_U32),
    FIELD(tree, KIND_U32),
    FIELD(bias.batch, KIND_I64),
    FIELD(bias.head, KIND_I64),
    FIELD(bias.query, KIND_I64),
    FIELD(bias.key, KIND_I64),
    FIELD(head_dim_v, KIND_I64),
    FIELD(reserved[0], KIND_U64),
    {"pass", 0, KIND_PASS},
};
enum { FIELDS = sizeof fields / sizeof fields[0] };

struct subject { /* what glint_plan is given */
    struct glint_problem problem;
    uint32_t pass;
};

static const uint32_t u32_values[] = {0,
                                      1,
                                      2,
                                      3,
                                      4,
                                      5,
                                      7,
                                      8,
                                      16,
                                      31,
                                      255,
                                      256,
                                      65536,
                                      0x7fffffffu,
                                      0x80000000u,
                                      0xfffffffeu,
                                      0xffffffffu,
                                      sizeof(struct glint_problem) - 1,
                                      sizeof(struct glint_problem) + 1,
                                      sizeof(struct glint_problem) - 8,
                                      sizeof(struct glint_problem) + 8,
                                      2 * sizeof(struct glint_problem)};
static const int64_t i64_values[] = {0,
                                     1,
                                     -1,
                                     2,
                                     -2,
                                     3,
                                     4,
                                     5,
                                     6,
                                     7,
                                     -8,
                                     8,
                                     12,
                                     16,
                                     24,
                                     40,
                                     63,
                                     64,
                                     65,
                                     127,
                                     128,
                                     256,
                                     257,
                                     4096,
                                     65536,
                                     GLINT_MAX_EXTENT - 1,
                                     GLINT_MAX_EXTENT,
                                     GLINT_MAX_EXTENT + 1,
                                     INT32_MAX,
                                     INT64_C(0x80000000),
                                     UINT32_MAX,
                                     INT64_C(0x100000000),
                                     INT64_C(0x100000001),
                                     INT64_C(1) << 61,
                                     INT64_C(1) << 62,
                                     INT64_MAX - 7,
                                     INT64_MAX,
                                     INT64_MIN,
                                     INT64_MIN + 1,
                                     -INT64_C(0x100000000)};
static const uint64_t u64_values[] = {1, 2, 0x80000000u, UINT64_C(1) << 32, UINT64_C(1) << 63, UINT64_MAX};
static const uint32_t f32_bits[] = {0x00000000,
                                    0x80000000,
                                    0x3f800000,
                                    0xbf800000,
                                    0x00000001,
                                    0x007fffff,
                                    0x7f7fffff,
                                    0xff7fffff,
                                    0x7f800000,
                                    0xff800000,
                                    0x7fc00000,
                                    0xffc00000,
                                    0x7f800001,
                                    0x7fbfffff,
                                    0x42480000 /* 50 */,
                                    0x00800000,
                                    0x7d800000 /* 2^124 */,
                                    0x7d800001};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
enum { I64_NEAR = 8 }; /* values made from the field's own: twice, half, one more, ... */

static size_t value_count(const struct field *f)
{
    switch (f->kind) {
    case KIND_U32:
    case KIND_PASS: return COUNT(u32_values);
    case KIND_F32: return COUNT(f32_bits);
    case KIND_I64: return COUNT(i64_values) + I64_NEAR;
    default: return COUNT(u64_values);
    }
}

static void set_value(struct subject *s, const struct field *f, size_t value)
{
    unsigned char *const at = (unsigned char *)&s->problem + f->offset;
    int64_t was;
    switch (f->kind) {
    case KIND_PASS: s->pass = u32_values[value]; return;
    case KIND_U32: memcpy(at, &u32_values[value], 4); return;
    case KIND_F32: memcpy(at, &f32_bits[value], 4); return;
    case KIND_U64: memcpy(at, &u64_values[value], 8); return;
    case KIND_I64: break;
    }
    memcpy(&was, at, 8);
    if (value < COUNT(i64_values)) {
        was = i64_values[value];
    } else if (was > -INT32_MAX && was < INT32_MAX) {
        const int64_t near[I64_NEAR] = {was + 1, was - 1, was * 2, was / 2, was + 8, was - 8, was * 3 / 2, -was};
        was = near[value - COUNT(i64_values)];
    }
    memcpy(at, &was, 8);
}

/* ---- one case ---------------------------------------------------------------------------------------------------- */

static struct { /* each case runs in a process of its own, with counts from zero */
    uint64_t cases, refused, planned, refused_open;
    uint64_t by_status[128];
} tally;

static const char *describe(const struct subject *s)
{
    static char text[1024];
    const size_t bytes = sizeof text;
    const struct glint_problem *const p = &s->problem;
    size_t at = (size_t)snprintf(
        text, bytes, "pass %u struct_size %u dtype %u mask %u scale %g batch %lld heads %lld/%lld d %lld seqlen %lld/%lld", s->pass,
        p->struct_size, p->dtype, p->mask, (double)p->softmax_scale, (long long)p->batch, (long long)p->heads_q,
        (long long)p->heads_kv, (long long)p->head_dim, (long long)p->seqlen_q, (long long)p->seqlen_k);
    for (enum tensor t = Q; t < TENSORS && at + 100 < bytes; t++) {
        if (t == LSE)
            continue;
        const struct glint_strides g = tensor_layout(p, t).strides;
        at += (size_t)snprintf(text + at, bytes - at, " %s %lld,%lld,%lld", tensor_field[t], (long long)g.batch, (long long)g.head,
                               (long long)g.row);
    }
    return text;
}

static void judge(const struct glint_context *context, const struct subject *s)
{
    struct faults faults;
    struct glint_plan plan, before;
    char text[4096];
    memset(&plan, 0xA7, sizeof plan);
    before = plan;
    oracle_plan(&faults, CONTEXT_OPEN, context, &s->problem, s->pass, &plan);
    const enum glint_status status = glint_plan(context, &s->problem, (enum glint_pass)s->pass, &plan);

    EXPECT(oracle_allows(&faults, status), "glint_plan gives %s, not %s; %s", glint_status_name(status), oracle_print(&faults),
           describe(s));
    size_t needed = 0;
    memset(text, 'x', sizeof text);
    const enum glint_status explained = glint_explain(context, &s->problem, (enum glint_pass)s->pass, text, sizeof text, &needed);
    EXPECT(explained == status, "glint_explain gives %s, glint_plan %s; %s", glint_status_name(explained),
           glint_status_name(status), describe(s));
    EXPECT(needed > 1 && needed <= sizeof text && memchr(text, '\0', sizeof text) == text + needed - 1,
           "needed_bytes is %zu, and the text does not end there; %s", needed, describe(s));
    tally.cases++;
    tally.by_status[status]++;
    if (status == GLINT_OK) {
        const struct glint_variant_info info = row_at(plan.variant);
        EXPECT(plan.pass == s->pass && plan.context == context && memcmp(&plan.problem, &s->problem, sizeof s->problem) == 0,
               "the plan holds another problem; %s", describe(s));
        EXPECT(info.pass == s->pass && info.dtype == s->problem.dtype && info.head_dim == (uint64_t)s->problem.head_dim &&
                   oracle_serves(&info, &s->problem),
               "the plan's variant is %s; %s", info.name, describe(s));
        EXPECT(strstr(text, info.name) != NULL, "the explanation does not name %s:\n%s", info.name, text);
        tally.planned++;
        return;
    }
    EXPECT(memcmp(&plan, &before, sizeof plan) == 0, "%s, and the plan was written; %s", glint_status_name(status), describe(s));
    EXPECT(oracle_text_names(&faults, status, text), "the text should name one of %s; %s\n%s", oracle_print(&faults), describe(s),
           text);
    tally.refused++;
    bool certain = false;
    for (size_t i = 0; i < faults.count; i++)
        certain = certain || !faults.at[i].open;
    tally.refused_open += !certain;
}

/* ---- the correct problems to start from -------------------------------------------------------------------------- */

static void
fused_qkv(struct glint_problem *p) /* views of one [batch, seqlen, heads_q + 2 heads_kv, head_dim] tensor and its gradient */
{
    const int64_t row = (p->heads_q + 2 * p->heads_kv) * p->head_dim;
    const struct glint_strides q = {p->seqlen_q * row, p->head_dim, row}, k = {p->seqlen_k * row, p->head_dim, row};
    p->q = p->dq = q;
    p->k = p->v = p->dk = p->dv = k;
}

/* One problem of each pass, dtype and mask, in turns of three layouts; a small table is gone through again, for
 * other layouts. */
static size_t make_subjects(const struct glint_context *context, struct subject *subjects, size_t limit)
{
    enum { ENOUGH = 12 };
    const uint32_t rows = glint_variant_count();
    size_t count = 0;
    struct glint_variant_info last = {0};
    for (uint32_t i = 0; i < ENOUGH * rows && count < limit && (i < rows || count < ENOUGH); i++) {
        const struct glint_variant_info info = row_at(i % rows);
        if (glint_variant_available(context, i % rows) != GLINT_OK)
            continue;
        if (info.pass == last.pass && info.dtype == last.dtype && info.kv_dtype == last.kv_dtype &&
            info.features == last.features && rows > 1)
            continue; /* one head dim of each */
        last = info;
        struct glint_problem *const p = &subjects[count].problem;
        memset(p, 0, sizeof *p);
        switch (count % 3) {
        case 0: glint_problem_bshd(p, (enum glint_dtype)info.dtype, 2, 5, 7, 4, 2, info.head_dim); break;
        case 1: glint_problem_bhsd(p, (enum glint_dtype)info.dtype, 3, 9, 4, 6, 3, info.head_dim); break;
        default:
            glint_problem_bshd(p, (enum glint_dtype)info.dtype, 2, 6, 6, 4, 1, info.head_dim);
            fused_qkv(p);
            break;
        }
        serve_cache(p, &info);
        p->mask = row_mask(&info, count / 2 % 2 == 1);
        if (info.pass == GLINT_FORWARD &&
            count % 4 == 3) { /* K and V in pages; the strides fit as they are, or step over too much */
            p->lengths = GLINT_LENGTHS_DEVICE;
            p->page_rows = 16;
            p->pages = 5;
            p->pages_per_sequence = 3;
        }
        subjects[count++].pass = info.pass;
    }
    return count;
}

enum { SUBJECTS = 32 };

/* The suite is about refusals: every status that a problem alone can give was given. */
static const enum glint_status problem_statuses[] = {GLINT_STRUCT_SIZE,  GLINT_BAD_PASS,   GLINT_BAD_DTYPE,    GLINT_BAD_MASK,
                                                     GLINT_BAD_HEAD_DIM, GLINT_BAD_BATCH,  GLINT_BAD_HEADS,    GLINT_BAD_HEAD_GROUP,
                                                     GLINT_BAD_SEQLEN,   GLINT_BAD_SCALE,  GLINT_BAD_STRIDE,   GLINT_SIZE_OVERFLOW,
                                                     GLINT_BAD_RESERVED, GLINT_BAD_WINDOW, GLINT_BAD_LENGTHS,  GLINT_NOT_IN_SPEC,
                                                     GLINT_BAD_PAGES,    GLINT_BAD_RAGGED, GLINT_BAD_KV_DTYPE, GLINT_BAD_SCALES};

static void report(size_t subjects, uint64_t at_least)
{
    contract_note("%llu cases on %zu problems: %llu refused, %llu planned; %llu interleaved or near-overflow ones refused where "
                  "glint.h leaves room",
                  (unsigned long long)tally.cases, subjects, (unsigned long long)tally.refused, (unsigned long long)tally.planned,
                  (unsigned long long)tally.refused_open);
    EXPECT(tally.refused >= at_least, "only %llu refusals", (unsigned long long)tally.refused);
    for (size_t i = 0; i < COUNT(problem_statuses); i++) {
        EXPECT(tally.by_status[problem_statuses[i]] > 0, "no case gave %s", glint_status_name(problem_statuses[i]));
    }
}

static void each_field_alone(void)
{
    static struct subject subjects[SUBJECTS];
    void *storage;
    struct counting counting;
    struct glint_context *const context = open_context(&counting, 2, &storage);
    const size_t count = make_subjects(context, subjects, SUBJECTS);
    for (size_t i = 0; i < count; i++) {
        judge(context, &subjects[i]); /* as it stands */
        EXPECT(tally.planned == i + 1, "problem %zu was refused", i);
    }
    tally.planned = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t f = 0; f < FIELDS; f++) {
            for (size_t v = 0; v < value_count(&fields[f]); v++) {
                struct subject s = subjects[i];
                set_value(&s, &fields[f], v);
                judge(context, &s);
            }
        }
    }
    EXPECT(counting.calls == 0, "planning ran the executor %llu times", (unsigned long long)counting.calls);
    report(count, 1500);
    free(storage);
}

static void fields_in_pairs(void)
{
    enum { DRAWS = 8 };
    static struct subject subjects[SUBJECTS];
    void *storage;
    struct counting counting;
    struct rand random = {20260101};
    struct glint_context *const context = open_context(&counting, 1, &storage);
    const size_t count = make_subjects(context, subjects, SUBJECTS);
    for (size_t i = 0; i < count; i++) {
        for (size_t f = 0; f < FIELDS; f++) {
            for (size_t g = f + 1; g < FIELDS; g++) {
                for (int draw = 0; draw < DRAWS; draw++) {
                    struct subject s = subjects[i];
                    set_value(&s, &fields[f], (size_t)rand_below(&random, (int64_t)value_count(&fields[f])));
                    set_value(&s, &fields[g], (size_t)rand_below(&random, (int64_t)value_count(&fields[g])));
                    judge(context, &s);
                }
            }
        }
    }
    EXPECT(counting.calls == 0, "planning ran the executor %llu times", (unsigned long long)counting.calls);
    report(count, 3000);
    free(storage);
}

/* Three fields and more: only the status and the untouched plan matter, and that nothing is dereferenced or divided
 * by. */
static void fields_at_random(void)
{
    static struct subject subjects[SUBJECTS];
    void *storage;
    struct counting counting;
    struct rand random = {7};
    struct glint_context *const context = open_context(&counting, 1, &storage);
    const size_t count = make_subjects(context, subjects, SUBJECTS);
    for (int i = 0; i < 40000; i++) {
        struct subject s = subjects[(size_t)rand_below(&random, (int64_t)count)];
        for (uint64_t n = 3 + (size_t)rand_below(&random, (int64_t)6); n > 0; n--) {
            const struct field *const f = &fields[(size_t)rand_below(&random, (int64_t)FIELDS)];
            set_value(&s, f, (size_t)rand_below(&random, (int64_t)value_count(f)));
        }
        judge(context, &s);
    }
    report(count, 3000);
    free(storage);
}

/* A bias of every size: strides beside powers of two, up to what 64 bits hold, alone and together; at times one of them
 * reaches just as far as its bytes may, or an element further. */
static void biases_at_random(void)
{
    static struct subject subjects[SUBJECTS];
    void *storage;
    struct counting counting;
    struct rand random = {11};
    struct glint_context *const context = open_context(&counting, 1, &storage);
    const size_t count = make_subjects(context, subjects, SUBJECTS);
    for (int i = 0; i < 40000; i++) {
        struct subject s = subjects[(size_t)rand_below(&random, (int64_t)count)];
        struct glint_problem *const p = &s.problem;
        int64_t *const stride[4] = {&p->bias.batch, &p->bias.head, &p->bias.query, &p->bias.key};
        p->bias_dtype = rand_below(&random, 2) == 0 ? GLINT_F32 : p->dtype;
        p->dbias = s.pass == GLINT_BACKWARD && rand_below(&random, 2) == 0;
        p->batch = 1 + rand_below(&random, 3);
        for (int at = 0; at < 4; at++) {
            const int64_t power =
                INT64_C(1) << (rand_below(&random, 3) == 0 ? 50 + rand_below(&random, 13) : rand_below(&random, 12));
            *stride[at] = rand_below(&random, 3) == 0 ? 0 : power + rand_below(&random, 3) - 1;
        }
        if (rand_below(&random, 4) == 0) {
            const int64_t most = INT64_MAX / (p->bias_dtype == GLINT_F32 ? 4 : 2),
                          extent[4] = {p->batch, p->heads_q, p->seqlen_q, p->seqlen_k};
            const int64_t at = rand_below(&random, 4);
            for (int other = 0; other < 4; other++)
                *stride[other] = 0;
            *stride[at] = extent[at] > 1 ? (most - 1) / (extent[at] - 1) + rand_below(&random, 2) : 0;
        }
        judge(context, &s);
        /* no row of the table has a bias, which is told last */
        struct faults faults;
        struct glint_plan plan;
        oracle_plan(&faults, CONTEXT_OPEN, context, p, s.pass, &plan);
        const enum glint_status status = glint_plan(context, p, (enum glint_pass)s.pass, &plan);
        for (size_t at = 0; at < faults.count && status == GLINT_NOT_IN_SPEC; at++)
            EXPECT(faults.at[at].open || faults.at[at].status == GLINT_NOT_IN_SPEC,
                   "glint_plan gives %s, not %s; %s, bias %lld,%lld,%lld,%lld", glint_status_name(status), oracle_print(&faults),
                   describe(&s), (long long)p->bias.batch, (long long)p->bias.head, (long long)p->bias.query,
                   (long long)p->bias.key);
    }
    EXPECT(tally.by_status[GLINT_SIZE_OVERFLOW] > 1000 && tally.by_status[GLINT_BAD_STRIDE] > 1000 &&
               tally.by_status[GLINT_NOT_IN_SPEC] > 1000,
           "of a size %llu, of a stride %llu, of neither %llu", (unsigned long long)tally.by_status[GLINT_SIZE_OVERFLOW],
           (unsigned long long)tally.by_status[GLINT_BAD_STRIDE], (unsigned long long)tally.by_status[GLINT_NOT_IN_SPEC]);
    free(storage);
}

/* ---- refusals that are not a field's value ----------------------------------------------------------------------- */

static void null_arguments(void)
{
    void *storage;
    struct glint_context *const context = open_serial(&storage);
    struct subject s;
    struct glint_plan plan, before;
    char text[1024];
    EXPECT(make_subjects(context, &s, 1) == 1, "no variant runs here");
    memset(&plan, 0x3C, sizeof plan);
    before = plan;
    const struct glint_context *contexts[] = {context, NULL};
    const struct glint_problem *problems[] = {&s.problem, NULL};
    for (int i = 1; i < 8; i++) {
        const struct glint_context *const c = contexts[i & 1];
        const struct glint_problem *const p = problems[i >> 1 & 1];
        struct glint_plan *const to = i >> 2 & 1 ? NULL : &plan;
        const enum glint_status status = glint_plan(c, p, (enum glint_pass)s.pass, to);
        EXPECT(status == GLINT_NULL_ARGUMENT, "case %d gives %s", i, glint_status_name(status));
        EXPECT(memcmp(&plan, &before, sizeof plan) == 0, "case %d wrote the plan", i);
        EXPECT(glint_plan_variant(c, p, (enum glint_pass)s.pass, 0, to) == GLINT_NULL_ARGUMENT, "plan_variant, case %d", i);
        if (c != NULL && p != NULL)
            continue; /* glint_explain takes no plan */
        struct faults faults;
        oracle_plan(&faults, c ? CONTEXT_OPEN : CONTEXT_NULL, c, p, s.pass, &plan);
        EXPECT(glint_explain(c, p, (enum glint_pass)s.pass, text, sizeof text, NULL) == GLINT_NULL_ARGUMENT, "explain, case %d", i);
        EXPECT(oracle_text_names(&faults, GLINT_NULL_ARGUMENT, text), "should name %s: %s", oracle_print(&faults), text);
    }
    free(storage);
    glint_problem_bshd(NULL, GLINT_F32, 1, 1, 1, 1, 1, 64); /* there is nothing to fill in */
    glint_problem_bhsd(NULL, GLINT_F32, 1, 1, 1, 1, 1, 64);
}

static void closed_context(void)
{
    void *storage;
    struct glint_context *const context = open_serial(&storage);
    struct subject s;
    struct glint_plan plan, before;
    char text[1024];
    EXPECT(make_subjects(context, &s, 1) == 1, "no variant runs here");
    EXPECT(glint_context_close(context) == GLINT_OK, "close");
    memset(&plan, 0x3C, sizeof plan);
    before = plan;
    for (int fill = -1; fill < 3; fill++) { /* closed; then storage that holds zeros, ones, noise: never opened */
        if (fill >= 0)
            memset(storage, fill == 0 ? 0 : fill == 1 ? 0xff : 0x5a, glint_context_size());
        EXPECT(glint_plan(context, &s.problem, (enum glint_pass)s.pass, &plan) == GLINT_CONTEXT_CLOSED, "fill %d", fill);
        EXPECT(memcmp(&plan, &before, sizeof plan) == 0, "the plan was written");
        EXPECT(glint_plan_variant(context, &s.problem, (enum glint_pass)s.pass, 0, &plan) == GLINT_CONTEXT_CLOSED, "plan_variant");
        EXPECT(glint_explain(context, &s.problem, (enum glint_pass)s.pass, text, sizeof text, NULL) == GLINT_CONTEXT_CLOSED,
               "explain");
        EXPECT(text_has_word(text, "context"), "%s", text);
        EXPECT(glint_variant_available(context, 0) == GLINT_CONTEXT_CLOSED, "variant_available");
        size_t bytes = 77;
        EXPECT(glint_selftest_size(context, &bytes) == GLINT_CONTEXT_CLOSED && bytes == 77, "selftest_size");
        struct glint_device_info info = {sizeof info, 9, 9, 9, 9, 9, 9, 9};
        EXPECT(glint_context_device(context, &info) == GLINT_CONTEXT_CLOSED && info.device == 9, "context_device");
        EXPECT(glint_context_close(context) == GLINT_CONTEXT_CLOSED, "close again");
    }
    free(storage);
}

/* A struct of an unknown version may be shorter than ours: its first word, flush with an inaccessible page, is all
 * that may be read; and of a struct to fill in, nothing may be written. */
static void struct_size_alone_is_read(void)
{
    void *storage;
    struct glint_context *const context = open_serial(&storage);
    struct guarded g = guarded_make(8, 8, true);
    const uint32_t sizes[] = {0, 1, 3, 4, 8, 15, 63, 4095, 0x80000000u, 0xffffffffu}; /* of no struct of ours */
    char text[512];
    for (size_t i = 0; i < COUNT(sizes); i++) {
        memcpy(g.at, &sizes[i], 4);
        guarded_read_only(&g);
        struct glint_plan plan;
        struct glint_context *other = NULL;
        void *const fresh = aligned_memory(GLINT_CONTEXT_ALIGNMENT, glint_context_size());
        const void *const in = g.at;
        void *const out = g.at;
        EXPECT(glint_plan(context, in, GLINT_FORWARD, &plan) == GLINT_STRUCT_SIZE, "problem of %u", sizes[i]);
        EXPECT(glint_plan_variant(context, in, GLINT_FORWARD, 0, &plan) == GLINT_STRUCT_SIZE, "problem of %u", sizes[i]);
        EXPECT(glint_explain(context, in, GLINT_FORWARD, text, sizeof text, NULL) == GLINT_STRUCT_SIZE, "explain %u", sizes[i]);
        EXPECT(text_has_word(text, "struct_size"), "%s", text);
        EXPECT(glint_context_init(fresh, glint_context_size(), in, &other) == GLINT_STRUCT_SIZE && other == NULL, "options of %u",
               sizes[i]);
        EXPECT(glint_variant_at(0, out) == GLINT_STRUCT_SIZE, "variant info of %u", sizes[i]);
        EXPECT(glint_context_device(context, out) == GLINT_STRUCT_SIZE, "device info of %u", sizes[i]);
        const enum glint_status forward = glint_forward(in, (const struct glint_tensors *)in, NULL, 0, NULL);
        EXPECT(forward == GLINT_STRUCT_SIZE || forward == GLINT_BAD_PLAN, "plan of %u gives %d", sizes[i], (int)forward);
        size_t bytes = 0;
        EXPECT(glint_selftest_size(context, &bytes) == GLINT_OK, "selftest_size");
        void *const memory = aligned_memory(GLINT_WORKSPACE_ALIGNMENT, bytes);
        EXPECT(glint_selftest(context, memory, bytes, NULL, out) == GLINT_STRUCT_SIZE, "selftest result of %u", sizes[i]);
        free(memory);
        free(fresh);
        guarded_free(&g);
        g = guarded_make(8, 8, true);
    }
    guarded_free(&g);
    free(storage);
}

static const struct contract_case cases[] = {
    {"each_field_alone", each_field_alone, 120},
    {"fields_in_pairs", fields_in_pairs, 240},
    {"fields_at_random", fields_at_random, 240},
    {"biases_at_random", biases_at_random, 240},
    {"null_arguments", null_arguments, 0},
    {"closed_context", closed_context, 0},
    {"struct_size_alone_is_read", struct_size_alone_is_read, 0},
};
CONTRACT_MAIN("refusal_plan", cases)
