/* glint_merge: held against its formula in double in every layout and dtype, its laws to the bit, special values,
 * guard pages, and every argument given wrong, alone and together. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/contract/refusal_oracle.h"
#include "tests/contract/suite.h"
#include "tests/contract/world.h"
#include "tests/oracle/half.h"

enum { MOST = GLINT_MAX_PARTS };

/* ---- a call and its memory --------------------------------------------------------------------------------------- */

struct tensor_at {
    int64_t extent[3], columns;
    const struct glint_strides *strides;
    enum glint_dtype dtype;
    void *address;
};

struct merging {
    struct glint_merge m;
    struct glint_part part[MOST];
    struct guarded memory[2 * MOST + 3]; /* O and LSE of the parts, sinks, O, LSE */
    int count;
};

static struct tensor_at result_o(const struct glint_merge *m)
{
    return (struct tensor_at){{m->batch, m->heads, m->seqlen}, m->head_dim, &m->o_strides, (enum glint_dtype)m->dtype, m->o};
}

static struct tensor_at result_lse(const struct glint_merge *m)
{
    return (struct tensor_at){{m->batch, m->heads, m->seqlen}, 1, &m->lse_strides, GLINT_F32, m->lse};
}

static struct tensor_at part_o(const struct glint_merge *m, uint32_t i)
{
    const struct glint_part *part = &m->part[i];
    return (struct tensor_at){
        {m->batch, m->heads, m->seqlen}, m->head_dim, &part->o_strides, (enum glint_dtype)part->dtype, (void *)(uintptr_t)part->o};
}

static struct tensor_at part_lse(const struct glint_merge *m, uint32_t i)
{
    const struct glint_part *part = &m->part[i];
    return (struct tensor_at){{m->batch, m->heads, m->seqlen}, 1, &part->lse_strides, GLINT_F32, (void *)(uintptr_t)part->lse};
}

static unsigned char *row_of(const struct tensor_at *t, int64_t b, int64_t h, int64_t i)
{
    return (unsigned char *)t->address +
           (b * t->strides->batch + h * t->strides->head + i * t->strides->row) * (int64_t)dtype_bytes(t->dtype);
}

static size_t bytes_of(const struct tensor_at *t)
{
    const int64_t last = (t->extent[0] - 1) * t->strides->batch + (t->extent[1] - 1) * t->strides->head +
                         (t->extent[2] - 1) * t->strides->row + t->columns;
    return t->extent[2] == 0 ? 0 : (size_t)last * dtype_bytes(t->dtype);
}

enum layout { BHSD, BSHD, PADDED, REPEATED, LAYOUTS }; /* the last for inputs */

static struct glint_strides strides_of(const struct glint_merge *m, enum layout layout, int64_t columns)
{
    const int64_t b = m->batch, h = m->heads, s = m->seqlen;
    switch (layout) {
    case BHSD: return (struct glint_strides){h * s * columns, s * columns, columns};
    case BSHD: return (struct glint_strides){s * h * columns, columns, h * columns};
    case PADDED: return (struct glint_strides){columns + 3, b * (columns + 3), h * b * (columns + 3) + 5};
    default: return (struct glint_strides){0, columns + 1, b > 1 ? h * (columns + 1) : 0};
    }
}

static void store(const struct tensor_at *t, int64_t b, int64_t h, int64_t i, int64_t d, float x)
{
    dtype_store(t->dtype, row_of(t, b, h, i) + (size_t)d * dtype_bytes(t->dtype), x);
}

static float load(const struct tensor_at *t, int64_t b, int64_t h, int64_t i, int64_t d)
{
    return dtype_load(t->dtype, row_of(t, b, h, i) + (size_t)d * dtype_bytes(t->dtype));
}

static void *room(struct merging *x, const struct tensor_at *t, bool at_end)
{
    x->memory[x->count] = guarded_make(bytes_of(t) > 0 ? bytes_of(t) : 4, dtype_bytes(t->dtype), at_end);
    return x->memory[x->count++].at;
}

#define EACH_ROW(m, b, h, i)                     \
    for (int64_t b = 0; b < (m)->batch; b++)     \
        for (int64_t h = 0; h < (m)->heads; h++) \
            for (int64_t i = 0; i < (m)->seqlen; i++)

/* Random numbers; every fourth row of a part sees nothing there, with NaN in O. */
static void fill_part(struct glint_merge *m, uint32_t p, struct rand *r)
{
    const struct tensor_at o = part_o(m, p), lse = part_lse(m, p);
    EACH_ROW(m, b, h, i)
    {
        for (int64_t d = 0; d < m->head_dim; d++)
            store(&o, b, h, i, d, rand_normal(r));
        store(&lse, b, h, i, 0, 4 * rand_normal(r) + (float)rand_below(r, 3) * 10);
    }
    EACH_ROW(m, b, h, i)
    {
        if (rand_below(r, 4) > 0)
            continue;
        store(&lse, b, h, i, 0, -INFINITY);
        for (int64_t d = 0; d < m->head_dim && o.strides->batch > 0; d++)
            store(&o, b, h, i, d, NAN);
    }
    EACH_ROW(m, b, h, i) /* rows that lie in one place are of one mind */
    if (load(&lse, b, h, i, 0) != -INFINITY)
        for (int64_t d = 0; d < m->head_dim; d++)
            if (isnan(load(&o, b, h, i, d)))
                store(&o, b, h, i, d, 0.5f);
}

static void make(struct merging *x, uint32_t parts, int64_t batch, int64_t heads, int64_t seqlen, int64_t head_dim,
                 enum glint_dtype dtype, uint64_t seed)
{
    struct rand r = rand_stream(seed, 2);
    const bool at_end = seed % 2 == 0;
    memset(x, 0, sizeof *x);
    x->m = (struct glint_merge)GLINT_MERGE_INIT;
    struct glint_merge *const m = &x->m;
    m->dtype = dtype;
    m->parts = parts;
    m->batch = batch;
    m->heads = heads;
    m->seqlen = seqlen;
    m->head_dim = head_dim;
    m->part = x->part;
    m->o_strides = strides_of(m, (enum layout)rand_below(&r, REPEATED), head_dim);
    m->lse_strides = strides_of(m, (enum layout)rand_below(&r, REPEATED), 1);
    for (uint32_t p = 0; p < parts; p++) {
        struct glint_part *const part = &x->part[p];
        part->dtype = rand_below(&r, 2) ? (uint32_t)dtype : (uint32_t)(GLINT_F32 + rand_below(&r, 3));
        part->o_strides = strides_of(m, (enum layout)rand_below(&r, LAYOUTS), head_dim);
        part->lse_strides = strides_of(m, (enum layout)rand_below(&r, LAYOUTS), 1);
        struct tensor_at t = part_o(m, p);
        part->o = room(x, &t, at_end);
        t = part_lse(m, p);
        part->lse = room(x, &t, at_end);
        fill_part(m, p, &r);
    }
    if (rand_below(&r, 2)) {
        float *const sinks = (float *)(void *)(x->memory[x->count++] = guarded_make((size_t)heads * 4, 4, at_end)).at;
        for (int64_t h = 0; h < heads; h++)
            sinks[h] = h % 3 == 2 ? -INFINITY : 6 * rand_normal(&r);
        m->sinks = sinks;
    }
    for (int i = 0; i < x->count; i++)
        guarded_read_only(&x->memory[i]);
    struct tensor_at t = result_o(m);
    m->o = room(x, &t, at_end);
    t = result_lse(m);
    m->lse = (float *)room(x, &t, at_end);
}

static void drop(struct merging *x)
{
    for (int i = 0; i < x->count; i++)
        guarded_free(&x->memory[i]);
}

/* ---- the formula ------------------------------------------------------------------------------------------------- */

/* O and LSE of a row in double; the answer is the largest |O_i| that counts. */
static double truth(const struct glint_merge *m, int64_t b, int64_t h, int64_t i, double *o, double *lse)
{
    double max = m->sinks ? (double)m->sinks[h] : -INFINITY, sum = 0, largest = 0;
    for (uint32_t p = 0; p < m->parts; p++) {
        const struct tensor_at t = part_lse(m, p);
        max = fmax(max, (double)load(&t, b, h, i, 0));
    }
    memset(o, 0, (size_t)m->head_dim * sizeof *o);
    *lse = -INFINITY;
    if (max == -INFINITY)
        return 0;
    if (m->sinks)
        sum += exp((double)m->sinks[h] - max);
    for (uint32_t p = 0; p < m->parts; p++) {
        const struct tensor_at t = part_lse(m, p);
        sum += exp((double)load(&t, b, h, i, 0) - max);
    }
    for (uint32_t p = 0; p < m->parts; p++) {
        const struct tensor_at t = part_lse(m, p), from = part_o(m, p);
        const double weight = exp((double)load(&t, b, h, i, 0) - max) / sum;
        for (int64_t d = 0; d < m->head_dim && weight > 0; d++) {
            o[d] += weight * (double)load(&from, b, h, i, d);
            largest = fmax(largest, fabs((double)load(&from, b, h, i, d)));
        }
    }
    *lse = max + log(sum);
    return largest;
}

static uint64_t compare(const struct glint_merge *m, const char *what)
{
    const struct tensor_at o = result_o(m), lse = result_lse(m);
    double want[512], want_lse;
    uint64_t numbers = 0;
    EACH_ROW(m, b, h, i)
    {
        const double largest = truth(m, b, h, i, want, &want_lse);
        const double near =
            (3e-6 + 0.51 * dtype_ulp((enum glint_dtype)m->dtype)) * largest + dtype_smallest((enum glint_dtype)m->dtype);
        for (int64_t d = 0; d < m->head_dim; d++, numbers++)
            EXPECT(fabs((double)load(&o, b, h, i, d) - want[d]) <= near, "%s: O[%lld, %lld, %lld, %lld] is %g, not %g", what,
                   (long long)b, (long long)h, (long long)i, (long long)d, (double)load(&o, b, h, i, d), want[d]);
        const double got = (double)load(&lse, b, h, i, 0);
        EXPECT(got == want_lse || fabs(got - want_lse) <= 3e-7 * (2 + fabs(want_lse)), "%s: LSE[%lld, %lld, %lld] is %g, not %g",
               what, (long long)b, (long long)h, (long long)i, got, want_lse);
    }
    return numbers;
}

/* What lies between the rows of a result is what was there. */
static void gaps_hold(const struct tensor_at *t, const char *name)
{
    const size_t bytes = bytes_of(t);
    unsigned char *const copy = malloc(bytes + 1);
    memcpy(copy, t->address, bytes);
    for (int64_t b = 0; b < t->extent[0]; b++)
        for (int64_t h = 0; h < t->extent[1]; h++)
            for (int64_t i = 0; i < t->extent[2]; i++)
                memset(copy + (row_of(t, b, h, i) - (unsigned char *)t->address), CANARY,
                       (size_t)t->columns * dtype_bytes(t->dtype));
    EXPECT(all_canaries(copy, bytes), "something between the rows of %s was written", name);
    free(copy);
}

static void run(const struct glint_context *context, const struct glint_merge *m)
{
    const enum glint_status status = glint_merge(context, m, NULL);
    EXPECT(status == GLINT_OK, "glint_merge gives %s", glint_status_name(status));
}

/* The rows of O and LSE, dense. */
static unsigned char *bits(const struct glint_merge *m, size_t *bytes)
{
    const struct tensor_at tensors[2] = {result_o(m), result_lse(m)};
    const size_t row = (size_t)m->head_dim * dtype_bytes((enum glint_dtype)m->dtype) + 4;
    *bytes = (size_t)(m->batch * m->heads * m->seqlen) * row;
    unsigned char *const all = malloc(*bytes + 1), *to = all;
    for (int t = 0; t < 2; t++)
        EACH_ROW(m, b, h, i)
        {
            const size_t part = (size_t)tensors[t].columns * dtype_bytes(tensors[t].dtype);
            memcpy(to, row_of(&tensors[t], b, h, i), part);
            to += part;
        }
    return all;
}

/* ---- right, everywhere ------------------------------------------------------------------------------------------- */

static const enum glint_dtype dtypes[] = {GLINT_F32, GLINT_F16, GLINT_BF16};

/* Every number of parts, layouts and dtypes mixed, on one and on seven bodies: the formula; the same bits; guard
 * pages and gaps. */
static void formula(void)
{
    void *storage[2];
    struct counting counting[2];
    struct glint_context *const one = open_context(&counting[0], 1, &storage[0]), *const seven =
                                                                                      open_context(&counting[1], 7, &storage[1]);
    uint64_t numbers = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct rand r = rand_stream(seed, 7);
        const int64_t head_dim = seed % 50 == 0 ? 264 : 8 * (1 + rand_below(&r, 20));
        const uint32_t parts = seed < 3 * MOST ? 1 + (uint32_t)seed % MOST : 1 + (uint32_t)rand_below(&r, 6);
        struct merging x;
        size_t bytes;
        make(&x, parts, 1 + rand_below(&r, 3), 1 + rand_below(&r, 5), seed % 40 == 7 ? 0 : 1 + rand_below(&r, 40), head_dim,
             dtypes[seed % 3], seed);
        run(one, &x.m);
        numbers += compare(&x.m, "one body");
        unsigned char *const first = bits(&x.m, &bytes);
        const struct tensor_at o = result_o(&x.m), lse = result_lse(&x.m);
        gaps_hold(&o, "O");
        gaps_hold(&lse, "LSE");
        memset(o.address, CANARY, bytes_of(&o));
        memset(lse.address, CANARY, bytes_of(&lse));
        run(seven, &x.m);
        unsigned char *const second = bits(&x.m, &bytes);
        EXPECT(memcmp(first, second, bytes) == 0, "seven bodies have other bits");
        for (int i = 0; i < x.count; i++)
            EXPECT(guarded_canaries_hold(&x.memory[i]), "canaries of memory %d", i);
        free(first);
        free(second);
        drop(&x);
    }
    contract_note("%llu numbers of O; %llu bodies at a time for %llu calls", (unsigned long long)numbers,
                  (unsigned long long)counting[1].bodies, (unsigned long long)counting[1].calls);
    EXPECT(counting[1].bodies > counting[1].calls, "no call had more than one body");
    free(storage[0]);
    free(storage[1]);
}

/* ---- laws to the bit --------------------------------------------------------------------------------------------- */

static void expect_same(const struct glint_merge *m, const unsigned char *want, size_t want_bytes, const char *law)
{
    size_t bytes;
    unsigned char *const got = bits(m, &bytes);
    EXPECT(bytes == want_bytes && memcmp(got, want, bytes) == 0, "%s has other bits", law);
    free(got);
}

/* A part that sees nothing changes no bit, wherever it stands; so do sinks of -inf; in place is the same as apart. */
static void laws(void)
{
    void *storage;
    struct glint_context *const context = open_serial(&storage);
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct merging x;
        struct glint_part with[MOST + 1];
        float *sinks = calloc(8, sizeof *sinks);
        size_t bytes;
        make(&x, 1 + (uint32_t)seed % 5, 2, 3, 9, 40, dtypes[seed % 3], seed);
        struct glint_merge m = x.m;
        m.sinks = NULL;
        run(context, &m);
        unsigned char *const want = bits(&m, &bytes);

        float *const nothing = malloc(2 * 3 * 9 * sizeof *nothing), *const garbage = malloc(40 * sizeof *garbage);
        for (int i = 0; i < 2 * 3 * 9; i++)
            nothing[i] = -INFINITY;
        for (int i = 0; i < 40; i++)
            garbage[i] = NAN;
        for (uint32_t at = 0; at <= m.parts; at++) {
            struct glint_merge more = m;
            memcpy(with, m.part, at * sizeof *with);
            with[at] = (struct glint_part){garbage, nothing, {0, 0, 0}, {27, 9, 1}, GLINT_F32, 0};
            memcpy(with + at + 1, m.part + at, (m.parts - at) * sizeof *with);
            more.part = with;
            more.parts++;
            run(context, &more);
            expect_same(&more, want, bytes, "a part that sees nothing");
        }

        for (int h = 0; h < 3; h++)
            sinks[h] = -INFINITY;
        m.sinks = sinks;
        run(context, &m);
        expect_same(&m, want, bytes, "a sink of -inf");
        m.sinks = NULL;

        /* The last part moves to where the result will be. */
        memcpy(with, m.part, m.parts * sizeof *with);
        struct glint_part *const last = &with[m.parts - 1];
        if (last->dtype == m.dtype) {
            const struct tensor_at from = part_o(&m, m.parts - 1), from_lse = part_lse(&m, m.parts - 1);
            const struct tensor_at to = result_o(&m), to_lse = result_lse(&m);
            EACH_ROW(&m, b, h, i)
            {
                memcpy(row_of(&to, b, h, i), row_of(&from, b, h, i), 40 * dtype_bytes(to.dtype));
                store(&to_lse, b, h, i, 0, load(&from_lse, b, h, i, 0));
            }
            last->o = m.o;
            last->lse = m.lse;
            last->o_strides = m.o_strides;
            last->lse_strides = m.lse_strides;
            m.part = with;
            run(context, &m);
            expect_same(&m, want, bytes, "a result in the place of a part");
        }
        free(want);
        free(nothing);
        free(garbage);
        free(sinks);
        drop(&x);
    }
    free(storage);
}

/* One part alone is copied: subnormals, infinities, zeros of either sign, any finite LSE. */
static void one_part_is_copied(void)
{
    void *storage;
    struct glint_context *const context = open_serial(&storage);
    static const float odd[] = {0.0f, -0.0f, 0x1p-149f, -0x1p-140f, INFINITY, -INFINITY, 3.5f, -0x1.fffffep127f};
    static const float lses[] = {0.0f, -0.0f, 88.0f, -500.0f, 0x1p-149f, 1e30f, -1e30f};
    for (int t = 0; t < 3; t++)
        for (size_t l = 0; l < sizeof lses / sizeof lses[0]; l++) {
            const enum glint_dtype dtype = dtypes[t];
            unsigned char from[8 * 4], to[8 * 4];
            float lse = lses[l], got = 1;
            for (int i = 0; i < 8; i++)
                dtype_store(dtype, from + (size_t)i * dtype_bytes(dtype), odd[i]);
            struct glint_part part = {from, &lse, {0, 0, 0}, {0, 0, 0}, (uint32_t)dtype, 0};
            struct glint_merge m = GLINT_MERGE_INIT;
            m.dtype = (uint32_t)dtype;
            m.parts = 1;
            m.batch = m.heads = m.seqlen = 1;
            m.head_dim = 8;
            m.part = &part;
            m.o = to;
            m.lse = &got;
            run(context, &m);
            EXPECT(memcmp(from, to, 8 * dtype_bytes(dtype)) == 0 && memcmp(&lse, &got, 4) == 0, "%s, LSE %g: not the same bits",
                   dtype_name(dtype), (double)lse);
        }
    free(storage);
}

/* NaN in O reaches its own element; NaN and +inf in an LSE reach their row; nothing reaches another row. */
static void special_values(void)
{
    void *storage;
    struct glint_context *const context = open_serial(&storage);
    enum { ROWS = 12, DIM = 16, PARTS = 3 };
    static float o[PARTS][ROWS][DIM], lse[PARTS][ROWS], sinks[1] = {0.25f}, got[ROWS][DIM], clean[ROWS][DIM], got_lse[ROWS],
                                                        clean_lse[ROWS];
    struct glint_part part[PARTS];
    struct rand r = {4};
    struct glint_merge m = GLINT_MERGE_INIT;
    m.dtype = GLINT_F32;
    m.parts = PARTS;
    m.batch = m.heads = 1;
    m.seqlen = ROWS;
    m.head_dim = DIM;
    m.part = part;
    m.sinks = sinks;
    m.o_strides.row = DIM;
    m.lse_strides.row = 1;
    for (int p = 0; p < PARTS; p++) {
        part[p] = (struct glint_part){o[p], lse[p], {0, 0, DIM}, {0, 0, 1}, GLINT_F32, 0};
        for (int i = 0; i < ROWS; i++) {
            lse[p][i] = rand_normal(&r);
            for (int d = 0; d < DIM; d++)
                o[p][i][d] = rand_normal(&r);
        }
    }
    m.o = clean;
    m.lse = clean_lse;
    run(context, &m);
    o[1][2][5] = NAN;
    o[0][4][1] = INFINITY;
    lse[2][6] = NAN;
    lse[1][8] = INFINITY;
    for (int p = 0; p < PARTS; p++)
        lse[p][10] = -INFINITY;
    m.o = got;
    m.lse = got_lse;
    run(context, &m);
    for (int i = 0; i < ROWS; i++)
        for (int d = 0; d < DIM; d++) {
            const float x = got[i][d];
            if (i == 6 || i == 8)
                EXPECT(isnan(x) && isnan(got_lse[i]), "row %d is %g", i, (double)x);
            else if (i == 2 && d == 5)
                EXPECT(isnan(x), "%g", (double)x);
            else if (i == 4 && d == 1)
                EXPECT(x == INFINITY, "%g", (double)x);
            else if (i == 10)
                EXPECT(x == 0.0f && got_lse[i] == sinks[0], "where only the sink is: %g, %g", (double)x, (double)got_lse[i]);
            else
                EXPECT(memcmp(&x, &clean[i][d], 4) == 0 && got_lse[i] == clean_lse[i], "row %d changed", i);
        }
    m.sinks = NULL;
    run(context, &m);
    EXPECT(got[10][0] == 0.0f && got_lse[10] == -INFINITY, "where nothing is: %g, %g", (double)got[10][0], (double)got_lse[10]);
    free(storage);
}

/* ---- keys computed apart ----------------------------------------------------------------------------------------- */

static void forward(const struct glint_context *context, const struct glint_problem *p, const struct glint_tensors *t)
{
    struct glint_plan plan;
    EXPECT(glint_plan(context, p, GLINT_FORWARD, &plan) == GLINT_OK, "plan");
    void *const workspace = aligned_memory(GLINT_WORKSPACE_ALIGNMENT, plan.workspace_bytes);
    EXPECT(glint_forward(&plan, t, workspace, plan.workspace_bytes, NULL) == GLINT_OK, "forward");
    free(workspace);
}

/* Attention to all keys is the merge of attention to the ranges that they are cut into, of every forward row that
 * masks nothing: with GQA, and with a causal mask over the last range where the spec has one. */
static void ranges_of_keys(void)
{
    void *storage;
    struct glint_context *const context = open_serial(&storage);
    const int64_t cuts[][4] = {{0, 70, 70, 203}, {0, 1, 64, 203}, {0, 0, 200, 203}};
    uint64_t compared = 0;
    for (uint32_t row = 0; row < glint_variant_count(); row++) {
        const struct glint_variant_info info = row_at(row);
        if (info.pass != GLINT_FORWARD || info.queries_up_to > 0 || info.features != 0 ||
            glint_variant_available(context, row) != GLINT_OK)
            continue;
        for (size_t cut = 0; cut < sizeof cuts / sizeof cuts[0]; cut++)
            for (int causal = 0; causal < 2; causal++) {
                const int64_t queries = causal ? 3 : 9, keys = 203, rows = 2 * 4 * queries;
                struct glint_problem p;
                struct call whole;
                glint_problem_bhsd(&p, (enum glint_dtype)info.dtype, 2, queries, keys, 4, 2, info.head_dim);
                p.mask = causal ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
                struct glint_plan plan;
                if (glint_plan(context, &p, GLINT_FORWARD, &plan) != GLINT_OK)
                    continue; /* no causal rows in this spec */
                call_make(&whole, context, &p, GLINT_FORWARD, row);
                forward(context, &p, &whole.tensors);
                const size_t o_bytes = (size_t)(rows * info.head_dim * element_bytes(info.dtype));
                struct glint_part part[3];
                for (int i = 0; i < 3; i++) {
                    struct glint_problem range = p;
                    struct glint_tensors t = whole.tensors;
                    const int64_t from = cuts[cut][i] * p.k.row * element_bytes(info.dtype);
                    range.seqlen_k = cuts[cut][i + 1] - cuts[cut][i];
                    range.mask = i < 2 ? GLINT_MASK_NONE : p.mask;
                    t.k = (const char *)t.k + from;
                    t.v = (const char *)t.v + from;
                    t.o = aligned_memory(64, o_bytes);
                    t.lse = aligned_memory(64, (size_t)rows * 4);
                    forward(context, &range, &t);
                    part[i] = (struct glint_part){t.o, t.lse, p.o, {4 * queries, queries, 1}, info.dtype, 0};
                }
                struct glint_merge m = GLINT_MERGE_INIT;
                m.dtype = info.dtype;
                m.parts = 3;
                m.batch = 2;
                m.heads = 4;
                m.seqlen = queries;
                m.head_dim = info.head_dim;
                m.part = part;
                m.o_strides = p.o;
                m.lse_strides = part[0].lse_strides;
                m.o = aligned_memory(64, o_bytes);
                m.lse = aligned_memory(64, (size_t)rows * 4);
                run(context, &m);
                const struct tensor_at o = result_o(&m), lse = result_lse(&m);
                struct tensor_at right = o, right_lse = lse;
                right.address = whole.tensors.o;
                right_lse.address = whole.tensors.lse;
                const double near = 4e-6 + 1.6 * dtype_ulp(o.dtype);
                EACH_ROW(&m, b, h, i)
                {
                    EXPECT(fabsf(load(&lse, b, h, i, 0) - load(&right_lse, b, h, i, 0)) < 5e-6f, "%s: LSE", info.name);
                    for (int64_t d = 0; d < m.head_dim; d++, compared++)
                        EXPECT(fabs((double)load(&o, b, h, i, d) - (double)load(&right, b, h, i, d)) <= near, "%s: %g, not %g",
                               info.name, (double)load(&o, b, h, i, d), (double)load(&right, b, h, i, d));
                }
                for (int i = 0; i < 3; i++) {
                    free((void *)(uintptr_t)part[i].o);
                    free((void *)(uintptr_t)part[i].lse);
                }
                free(m.o);
                free(m.lse);
                call_free(&whole);
            }
    }
    contract_note("%llu numbers of O", (unsigned long long)compared);
    free(storage);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

/* All tensors in one block, and what is done to the arguments. */
struct trial {
    struct glint_merge m;
    struct glint_part part[3];
    unsigned char *block;
};

enum { BLOCK = 1 << 15, EDITS = 21 };

static void correct(struct trial *t, struct rand *r)
{
    unsigned char *at = t->block + 1024;
    t->m = (struct glint_merge)GLINT_MERGE_INIT;
    struct glint_merge *const m = &t->m;
    m->dtype = GLINT_F32 + (uint32_t)rand_below(r, 3);
    m->parts = 1 + (uint32_t)rand_below(r, 3);
    m->batch = 1 + rand_below(r, 2);
    m->heads = 1 + rand_below(r, 3);
    m->seqlen = rand_below(r, 4);
    m->head_dim = 8 * (1 + rand_below(r, 3));
    m->part = t->part;
    m->o_strides = strides_of(m, (enum layout)rand_below(r, REPEATED), m->head_dim);
    m->lse_strides = strides_of(m, (enum layout)rand_below(r, REPEATED), 1);
    for (uint32_t p = 0; p < 3; p++) {
        t->part[p] = (struct glint_part){at, (const float *)(const void *)(at + 4096), {0, 0, 0}, {0, 0, 0}, 0, 0};
        t->part[p].dtype = GLINT_F32 + (uint32_t)rand_below(r, 3);
        t->part[p].o_strides = strides_of(m, (enum layout)rand_below(r, LAYOUTS), m->head_dim);
        t->part[p].lse_strides = strides_of(m, (enum layout)rand_below(r, LAYOUTS), 1);
        at += 4096 + 512;
        if (p < m->parts)
            fill_part(m, p, r);
    }
    m->o = at;
    m->lse = (float *)(void *)(at + 4096);
    at += 4096 + 512;
    if (rand_below(r, 2)) {
        float *const sinks = (float *)(void *)at;
        for (int64_t h = 0; h < m->heads; h++)
            sinks[h] = rand_normal(r);
        m->sinks = sinks;
    }
}

static int64_t odd_number(struct rand *r)
{
    static const int64_t odd[] = {0,       1, -1, 2, 7, 8, 33, INT64_MIN, INT64_MAX, GLINT_MAX_EXTENT, GLINT_MAX_EXTENT + 1,
                                  1 << 20, 3, 4};
    return odd[rand_below(r, (int64_t)(sizeof odd / sizeof odd[0]))];
}

static int64_t *any_stride(struct trial *t, struct rand *r)
{
    struct glint_part *const part = &t->part[rand_below(r, 3)];
    struct glint_strides *const all[] = {&t->m.o_strides, &t->m.lse_strides, &part->o_strides, &part->lse_strides};
    struct glint_strides *const s = all[rand_below(r, 4)];
    int64_t *const each[] = {&s->batch, &s->head, &s->row};
    return each[rand_below(r, 3)];
}

/* The addresses as one list: O and LSE of the result, the sinks, O and LSE of the parts. */
static void set_address(struct trial *t, int64_t which, void *to)
{
    if (which == 0)
        t->m.o = to;
    else if (which == 1)
        memcpy(&t->m.lse, &to, sizeof to);
    else if (which == 2)
        memcpy(&t->m.sinks, &to, sizeof to);
    else if (which % 2 == 1)
        t->part[which / 2 - 1].o = to;
    else
        memcpy(&t->part[which / 2 - 2].lse, &to, sizeof to);
}

static unsigned char *get_address(const struct trial *t, int64_t which)
{
    const void *const all[] = {t->m.o,       t->m.lse,       t->m.sinks,   t->part[0].o,  t->part[0].lse,
                               t->part[1].o, t->part[1].lse, t->part[2].o, t->part[2].lse};
    return (unsigned char *)(uintptr_t)all[which];
}

static void edit(struct trial *t, struct rand *r)
{
    struct glint_part *const part = &t->part[rand_below(r, 3)];
    switch (rand_below(r, EDITS)) {
    case 0: t->m.struct_size = (uint32_t)odd_number(r); break;
    case 1: t->m.dtype = (uint32_t)rand_below(r, 6); break;
    case 2: t->m.parts = rand_below(r, 2) ? 1 + (uint32_t)rand_below(r, 3) : (uint32_t)(33 * rand_below(r, 3)); break;
    case 3: t->m.reserved = (uint32_t)rand_below(r, 2); break;
    case 4: t->m.batch = odd_number(r); break;
    case 5: t->m.heads = odd_number(r); break;
    case 6: t->m.seqlen = odd_number(r); break;
    case 7: t->m.head_dim = odd_number(r); break;
    case 8: t->m.part = rand_below(r, 2) ? NULL : t->part; break;
    case 9: part->dtype = (uint32_t)rand_below(r, 6); break;
    case 10: part->reserved = (uint32_t)rand_below(r, 2); break;
    case 11:
    case 12: *any_stride(t, r) = odd_number(r); break;
    case 13: ++*any_stride(t, r); break;
    case 14: set_address(t, rand_below(r, 9), NULL); break;
    case 15:
    case 16: { /* a few bytes off */
        const int64_t which = rand_below(r, 9);
        if (get_address(t, which) != NULL)
            set_address(t, which, get_address(t, which) + rand_below(r, 9));
        break;
    }
    case 17:
    case 18: set_address(t, rand_below(r, 9), get_address(t, rand_below(r, 9))); break;
    case 19: { /* the result where a part is */
        t->m.o = (void *)(uintptr_t)part->o;
        t->m.o_strides = part->o_strides;
        t->m.dtype = rand_below(r, 4) ? part->dtype : t->m.dtype;
        break;
    }
    default: /* its LSE too */ memcpy(&t->m.lse, &part->lse, sizeof part->lse); t->m.lse_strides = part->lse_strides;
    }
}

struct allowed {
    uint64_t must, may; /* sets of statuses */
};

static void fault(struct allowed *a, enum glint_status status)
{
    a->must |= UINT64_C(1) << status;
}

__extension__ typedef __int128 wide;

/* One past the last byte of a tensor, from its first; -1: a stride is negative. */
static wide reach_of(const struct tensor_at *t)
{
    const int64_t stride[3] = {t->strides->batch, t->strides->head, t->strides->row};
    wide elements = t->columns;
    bool empty = false;
    for (int i = 0; i < 3; i++) {
        empty = empty || t->extent[i] == 0;
        if (stride[i] < 0)
            return -1;
        elements += (wide)(t->extent[i] - 1) * stride[i];
    }
    return empty ? 0 : elements * (wide)dtype_bytes(t->dtype);
}

/* Do two of its rows share an element? Of few rows all pairs are looked at; of many it is left open. */
static void self_overlap(struct allowed *a, const struct tensor_at *t)
{
    const wide rows = (wide)t->extent[0] * t->extent[1] * t->extent[2];
    const int64_t count = rows < 200 ? (int64_t)rows : 0;
    a->may |= UINT64_C(1) << GLINT_BAD_STRIDE; /* interleaved rows may be refused */
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < i; j++) {
            const int64_t x[2] = {i, j};
            wide at[2];
            for (int k = 0; k < 2; k++)
                at[k] = (wide)(x[k] / t->extent[2] / t->extent[1]) * t->strides->batch +
                        (wide)(x[k] / t->extent[2] % t->extent[1]) * t->strides->head +
                        (wide)(x[k] % t->extent[2]) * t->strides->row;
            const wide apart = at[0] > at[1] ? at[0] - at[1] : at[1] - at[0];
            if (apart < t->columns) {
                fault(a, GLINT_BAD_STRIDE);
                return;
            }
        }
}

static void judge_tensor(struct allowed *a, const struct tensor_at *t, bool written)
{
    const wide reach = reach_of(t);
    const uintptr_t address = (uintptr_t)t->address;
    if (reach < 0)
        fault(a, GLINT_BAD_STRIDE);
    if (reach > INT64_MAX)
        fault(a, GLINT_SIZE_OVERFLOW);
    struct tensor_at one_row = *t; /* an empty tensor has no offsets; those of its first row may be computed all the same */
    one_row.extent[2] = 1;
    if (reach == 0 && reach_of(&one_row) > INT64_MAX)
        a->may |= UINT64_C(1) << GLINT_SIZE_OVERFLOW;
    if (reach > 0 && written)
        self_overlap(a, t);
    if (reach > 0 && address == 0)
        fault(a, GLINT_NULL_TENSOR);
    if (reach > 0 && address % dtype_bytes(t->dtype) != 0)
        fault(a, GLINT_TENSOR_MISALIGNED);
    if (reach > 0 && (wide)address + reach > UINTPTR_MAX)
        fault(a, GLINT_SIZE_OVERFLOW);
}

static bool meet(const struct tensor_at *x, const struct tensor_at *y)
{
    const wide a = (wide)(uintptr_t)x->address, b = (wide)(uintptr_t)y->address, ra = reach_of(x), rb = reach_of(y);
    return a != 0 && b != 0 && ra > 0 && rb > 0 && a < b + rb && b < a + ra;
}

static bool same_place(const struct tensor_at *x, const struct tensor_at *y)
{
    const int64_t *const e = x->extent;
    return x->address == y->address && x->dtype == y->dtype && x->columns == y->columns &&
           (e[0] == 1 || x->strides->batch == y->strides->batch) && (e[1] == 1 || x->strides->head == y->strides->head) &&
           (e[2] == 1 || x->strides->row == y->strides->row);
}

static bool right_extent(int64_t x, int64_t low)
{
    return x >= low && x <= GLINT_MAX_EXTENT;
}

static bool is_dtype(uint32_t dtype)
{
    return dtype >= GLINT_F32 && dtype <= GLINT_BF16;
}

/* What glint.h allows glint_merge to say. */
static struct allowed judge(const struct glint_merge *m)
{
    struct allowed a = {0, 0};
    if (m->struct_size != sizeof *m) {
        fault(&a, GLINT_STRUCT_SIZE);
        return a;
    }
    if (m->parts < 1 || m->parts > GLINT_MAX_PARTS)
        fault(&a, GLINT_BAD_MERGE);
    if (!is_dtype(m->dtype))
        fault(&a, GLINT_BAD_DTYPE);
    if (m->reserved != 0)
        fault(&a, GLINT_BAD_RESERVED);
    if (!right_extent(m->batch, 1))
        fault(&a, GLINT_BAD_BATCH);
    if (!right_extent(m->heads, 1))
        fault(&a, GLINT_BAD_HEADS);
    if (!right_extent(m->seqlen, 0))
        fault(&a, GLINT_BAD_SEQLEN);
    if (m->head_dim < 8 || m->head_dim % 8 != 0 || m->head_dim > GLINT_MAX_EXTENT)
        fault(&a, GLINT_BAD_HEAD_DIM);
    if (m->part == NULL)
        fault(&a, GLINT_NULL_ARGUMENT);
    const uint32_t parts = m->part == NULL || m->parts > 3 ? 0 : m->parts;
    for (uint32_t p = 0; p < parts; p++) {
        if (!is_dtype(m->part[p].dtype))
            fault(&a, GLINT_BAD_DTYPE);
        if (m->part[p].reserved != 0)
            fault(&a, GLINT_BAD_RESERVED);
    }
    if (a.must & ~(UINT64_C(1) << GLINT_BAD_RESERVED | UINT64_C(1) << GLINT_BAD_MERGE)) {
        a.may = a.must != 0 ? ~UINT64_C(0) : 0; /* of tensors whose shape is wrong nothing is to be said */
        return a;
    }
    static const struct glint_strides of_sinks = {0, 1, 0};
    const struct tensor_at o = result_o(m), lse = result_lse(m);
    const struct tensor_at sinks = {{m->batch, m->heads, m->seqlen}, 1, &of_sinks, GLINT_F32, (void *)(uintptr_t)m->sinks};
    judge_tensor(&a, &o, true);
    judge_tensor(&a, &lse, true);
    if (m->sinks != NULL)
        judge_tensor(&a, &sinks, false);
    if (meet(&o, &lse) || meet(&sinks, &o) || meet(&sinks, &lse))
        fault(&a, GLINT_TENSOR_OVERLAP);
    for (uint32_t p = 0; p < parts; p++) {
        const struct tensor_at from = part_o(m, p), from_lse = part_lse(m, p);
        judge_tensor(&a, &from, false);
        judge_tensor(&a, &from_lse, false);
        if (meet(&from, &lse) || meet(&from_lse, &o) || (meet(&from, &o) && !same_place(&from, &o)) ||
            (meet(&from_lse, &lse) && !same_place(&from_lse, &lse)))
            fault(&a, GLINT_TENSOR_OVERLAP);
    }
    return a;
}

static bool inside(const struct trial *t, const struct tensor_at *x)
{
    const unsigned char *const at = x->address;
    const wide reach = reach_of(x);
    return reach == 0 || (at >= t->block && reach <= BLOCK && at + (size_t)reach <= t->block + BLOCK);
}

static bool all_inside(const struct trial *t)
{
    const struct tensor_at o = result_o(&t->m), lse = result_lse(&t->m);
    bool fits = inside(t, &o) && inside(t, &lse) && t->m.head_dim <= 512 && t->m.parts <= 3;
    for (uint32_t p = 0; fits && p < t->m.parts; p++) {
        const struct tensor_at from = part_o(&t->m, p), from_lse = part_lse(&t->m, p);
        fits = inside(t, &from) && inside(t, &from_lse);
    }
    return fits && (t->m.sinks == NULL || ((const unsigned char *)t->m.sinks >= t->block && t->m.heads <= 64));
}

/* Bytes are random numbers after some edits: rows that share memory may hold anything, so only what is tame is
 * compared with the formula. */
static bool tame(const struct glint_merge *m)
{
    for (uint32_t p = 0; p < m->parts; p++) {
        const struct tensor_at from = part_o(m, p), from_lse = part_lse(m, p);
        if (from.address == m->o || from_lse.address == (void *)m->lse)
            return false;
        EACH_ROW(m, b, h, i)
        {
            const float lse = load(&from_lse, b, h, i, 0);
            bool fine = lse == -INFINITY || fabsf(lse) < 100;
            for (int64_t d = 0; fine && lse != -INFINITY && d < m->head_dim; d++)
                fine = fabsf(load(&from, b, h, i, d)) < 1e4f;
            if (!fine)
                return false;
        }
    }
    for (int64_t h = 0; m->sinks != NULL && h < m->heads; h++)
        if (!(fabsf(m->sinks[h]) < 100))
            return false;
    return true;
}

/* From no edit to four: the status is allowed, the explanation is of the same mind, nothing is written, and what
 * runs is right. */
static void refusals(void)
{
    void *storage;
    struct counting counting;
    struct glint_context *const context = open_context(&counting, 2, &storage);
    struct trial t;
    uint64_t given[64] = {0}, ran = 0, compared = 0;
    unsigned char *const before = malloc(BLOCK);
    t.block = aligned_memory(256, BLOCK);
    for (uint64_t seed = 0; seed < (CONTRACT_EMULATED || CONTRACT_SANITIZED ? 6000 : 60000); seed++) {
        struct rand r = rand_stream(seed, 3);
        memset(t.block, 0x3b, BLOCK); /* a small finite number in every dtype */
        correct(&t, &r);
        for (uint64_t edits = seed % 5; edits > 0; edits--)
            edit(&t, &r);
        memcpy(before, t.block, BLOCK);
        char text[1024];
        size_t needed;
        const uint64_t calls = counting.calls;
        const struct allowed allowed = judge(&t.m);
        const enum glint_status status = glint_explain_merge(context, &t.m, NULL, text, sizeof text, &needed);
        EXPECT(needed == strlen(text) + 1 && strncmp(text, glint_status_name(status), strlen(glint_status_name(status))) == 0, "%s",
               text);
        EXPECT(status == GLINT_OK ? allowed.must == 0 : (int)status < 64 && ((allowed.must | allowed.may) >> status & 1u) != 0,
               "seed %llu: %s; allowed %#llx, must %#llx", (unsigned long long)seed, text, (unsigned long long)allowed.may,
               (unsigned long long)allowed.must);
        given[status]++;
        if (status == GLINT_OK && !all_inside(&t))
            continue;
        EXPECT(glint_merge(context, &t.m, NULL) == status, "glint_merge is of another mind: %s", text);
        if (status != GLINT_OK) {
            EXPECT(counting.calls == calls && memcmp(before, t.block, BLOCK) == 0, "a refused call wrote: %s", text);
            EXPECT(status == GLINT_NULL_ARGUMENT || strstr(text, "merge.") != NULL, "no field in: %s", text);
            continue;
        }
        ran++;
        if (t.m.seqlen > 0 && tame(&t.m))
            compared += compare(&t.m, "after edits");
    }
    static const enum glint_status all[] = {GLINT_OK,           GLINT_NULL_ARGUMENT,     GLINT_STRUCT_SIZE,   GLINT_BAD_DTYPE,
                                            GLINT_BAD_MERGE,    GLINT_BAD_BATCH,         GLINT_BAD_HEADS,     GLINT_BAD_SEQLEN,
                                            GLINT_BAD_HEAD_DIM, GLINT_BAD_STRIDE,        GLINT_SIZE_OVERFLOW, GLINT_BAD_RESERVED,
                                            GLINT_NULL_TENSOR,  GLINT_TENSOR_MISALIGNED, GLINT_TENSOR_OVERLAP};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        EXPECT(given[all[i]] > 0, "no case gave %s", glint_status_name(all[i]));
    contract_note("%llu ran, %llu numbers compared", (unsigned long long)ran, (unsigned long long)compared);
    EXPECT(compared > 10000, "too few were right");
    free(before);
    free(t.block);
    free(storage);
}

/* What is no field of the struct, and the sentences. */
static void sentences(void)
{
    void *storage;
    struct glint_context *const context = open_serial(&storage);
    struct merging x;
    char text[1024];
    make(&x, 3, 2, 3, 4, 16, GLINT_F32, 1);
#define REFUSED(expected, pointer, stream, ...)                                                          \
    do {                                                                                                 \
        const char *const words[] = {__VA_ARGS__};                                                       \
        EXPECT(glint_merge(context, pointer, stream) == (expected) &&                                    \
                   glint_explain_merge(context, pointer, stream, text, sizeof text, NULL) == (expected), \
               "%s", text);                                                                              \
        for (size_t w = 0; w < sizeof words / sizeof words[0]; w++)                                      \
            EXPECT(text_has_word(text, words[w]), "no %s in: %s", words[w], text);                       \
    } while (0)
    int nothing;
    REFUSED(GLINT_NULL_ARGUMENT, NULL, NULL, "merge");
    REFUSED(GLINT_BAD_STREAM, &x.m, &nothing, "stream");
    struct glint_merge m = x.m;
    m.parts = 33;
    REFUSED(GLINT_BAD_MERGE, &m, NULL, "parts", "33", "32", "several");
    m.parts = 0;
    REFUSED(GLINT_BAD_MERGE, &m, NULL, "parts", "0");
    m = x.m;
    x.part[2].o_strides.row = -5;
    REFUSED(GLINT_BAD_STRIDE, &m, NULL, "part[2].o_strides.row", "5", "negative");
    x.part[2].o_strides.row = 16;
    x.part[1].dtype = 9;
    REFUSED(GLINT_BAD_DTYPE, &m, NULL, "part[1].dtype", "9", "GLINT_BF16");
    x.part[1].dtype = GLINT_F32;
    m.o_strides.head = 3;
    REFUSED(GLINT_BAD_STRIDE, &m, NULL, "merge.o_strides.head", "3", "overlap");
    m = x.m;
    m.lse = NULL;
    REFUSED(GLINT_NULL_TENSOR, &m, NULL, "merge.lse");
    m = x.m;
    m.o = (void *)(uintptr_t)x.part[0].lse;
    REFUSED(GLINT_TENSOR_OVERLAP, &m, NULL, "part[0].lse", "o");
    const float *const places[] = {m.lse, (const float *)x.m.o, (const float *)((uintptr_t)m.lse + 2)};
    const char *const others[] = {"lse", "o", "multiple"};
    m = x.m;
    for (int i = 0; i < 3; i++) {
        m.sinks = places[i];
        REFUSED(i < 2 ? GLINT_TENSOR_OVERLAP : GLINT_TENSOR_MISALIGNED, &m, NULL, "merge.sinks", others[i]);
    }
    float side_by_side[2 * 3 * 4 + 2 * 3]; /* sinks right before and right after LSE are no overlap */
    m.lse = side_by_side + 3;
    for (int i = 0; i < 2; i++) {
        float *const sinks = i == 0 ? side_by_side : side_by_side + 3 + 2 * 3 * 4;
        m.sinks = memset(sinks, 0, 3 * sizeof *sinks);
        m.lse_strides = (struct glint_strides){3 * 4, 4, 1};
        run(context, &m);
    }
    EXPECT(glint_merge(NULL, &x.m, NULL) == GLINT_NULL_ARGUMENT, "no context");
    EXPECT(glint_explain_merge(context, &x.m, NULL, text, sizeof text, NULL) == GLINT_OK && strstr(text, "would run") != NULL, "%s",
           text);
    run(context, &x.m);
    EXPECT(glint_context_close(context) == GLINT_OK && glint_merge(context, &x.m, NULL) == GLINT_CONTEXT_CLOSED, "closed");
    drop(&x);
    free(storage);
}

static const struct contract_case cases[] = {
    {"formula", formula, 0},
    {"laws", laws, 0},
    {"one_part_is_copied", one_part_is_copied, 0},
    {"special_values", special_values, 0},
    {"ranges_of_keys", ranges_of_keys, 0},
    {"refusals", refusals, 0},
    {"sentences", sentences, 0},
};
CONTRACT_MAIN("merge", cases)
