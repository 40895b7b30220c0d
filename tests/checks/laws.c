/* Laws of attention, mostly to the bit: what must not change the results, and what must change them in a known way.
 * None needs a reference except as a source of the backward's inputs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/checks/accuracy.h"
#include "tests/oracle/half.h"
#include "tests/support/rand.h"

static enum glint_pass pass_of(const struct subject *subject)
{
    return (enum glint_pass)subject->info.pass;
}

static struct experiment *prepared(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_new(subject, shape);
    experiment_reference(e, false);
    return e;
}

static void expect_same_results(const struct experiment *e, const struct results *got, const struct results *expected,
                                const char *what)
{
    for (const enum tensor *t = pass_outputs(pass_of(e->subject)); *t != TENSORS; t++)
        expect_same(e, *t, got->at[*t], expected->at[*t], false, what);
    for (int64_t h = 0; h < e->shape.heads_q && expected->dsinks != NULL; h++)
        if (!check_within("bitwise", memcmp(&got->dsinks[h], &expected->dsinks[h], sizeof(float)) == 0 ? 0 : 1, 0))
            check_fail("%s: the gradient of the sink of head %lld is %.9g, expected the same bits as %.9g", what, (long long)h,
                       (double)got->dsinks[h], (double)expected->dsinks[h]);
    for (int64_t pair = 0; pair < pair_count(e) && expected->dbias != NULL; pair++)
        if (!check_within("bitwise", memcmp(&got->dbias[pair], &expected->dbias[pair], sizeof(float)) == 0 ? 0 : 1, 0))
            check_fail("%s: the gradient of the bias of pair %lld is %.9g, expected the same bits as %.9g", what, (long long)pair,
                       (double)got->dbias[pair], (double)expected->dbias[pair]);
}

/* ---- what must not matter ---- */

static void repeat(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = prepared(subject, shape);
    struct results once = experiment_run_plainly(e);
    for (int i = 0; i < 3; i++) {
        struct results again = experiment_run_plainly(e);
        expect_same_results(e, &again, &once, "run again");
    }
}

static void workspace_contents(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = prepared(subject, shape);
    struct results clean = experiment_run_plainly(e);
    struct results poisoned = experiment_run(e, pass_of(subject), (struct how){LANES_SERIAL, POISON_SIGNALLING_NAN, FENCE_NONE});
    expect_same_results(e, &poisoned, &clean, "workspace full of NaN");
}

static void lanes(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = prepared(subject, shape);
    struct results serial = experiment_run_plainly(e);
    struct results two = experiment_run(e, pass_of(subject), (struct how){LANES_REVERSED_2, POISON_AA, FENCE_NONE});
    struct results five = experiment_run(e, pass_of(subject), (struct how){LANES_THREADS_5, POISON_SIGNALLING_NAN, FENCE_NONE});
    expect_same_results(e, &two, &serial, "2 lanes, last first");
    expect_same_results(e, &five, &serial, "5 threads, workspace full of NaN"); /* more of it is used than by one lane */
}

/* Nothing is read or written beyond a buffer, not even by one byte: an inaccessible page begins there. */
static void fences(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = prepared(subject, shape);
    struct results clean = experiment_run_plainly(e);
    struct results after = experiment_run(e, pass_of(subject), (struct how){LANES_SERIAL, POISON_AA, FENCE_AFTER});
    struct results before = experiment_run(e, pass_of(subject), (struct how){LANES_SERIAL, POISON_AA, FENCE_BEFORE});
    expect_same_results(e, &after, &clean, "a fence after every buffer");
    expect_same_results(e, &before, &clean, "a fence before every buffer");
}

static void layouts(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = prepared(subject, shape);
    struct results expected = experiment_run_plainly(e);
    for (enum layout layout = LAYOUT_BHSD; layout <= LAYOUT_FUSED; layout++) {
        struct shape other = *shape;
        other.layout = layout;
        struct experiment *f = prepared(subject, &other);
        struct results got = experiment_run_plainly(f);
        expect_same_results(e, &got, &expected, "another layout of the same data");
    }
}

/* A batch item computed alone has the bits that it has in the batch. */
static void batch_alone(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = prepared(subject, shape);
    struct results all = experiment_run_plainly(e);
    struct shape one = *shape;
    float *dsinks = check_memory((size_t)shape->heads_q * sizeof *dsinks); /* the sum of the batch items', in their order */
    one.batch = 1;
    for (int64_t b = 0; b < shape->batch; b++) {
        struct experiment *f = experiment_new(subject, &one);
        if (e->sinks != NULL)
            memcpy(f->sinks, e->sinks, (size_t)shape->heads_q * sizeof *f->sinks);
        for (enum tensor t = Q; t <= DOUT; t++)
            memcpy(f->in[t], tensor_row(e, e->in[t], t, b, 0, 0), (size_t)tensor_count(f, t) * sizeof(float));
        struct results alone = experiment_run_plainly(f);
        for (const enum tensor *t = pass_outputs(pass_of(subject)); *t != TENSORS; t++)
            expect_same(f, *t, alone.at[*t], tensor_row(e, all.at[*t], *t, b, 0, 0), false, "a batch item alone");
        for (int64_t h = 0; h < shape->heads_q && all.dsinks != NULL; h++)
            dsinks[h] += alone.dsinks[h];
    }
    for (int64_t h = 0; h < shape->heads_q && all.dsinks != NULL; h++)
        if (!check_within("bitwise", all.dsinks[h] == dsinks[h] ? 0 : 1, 0))
            check_fail("the gradient of the sink of head %lld is %.9g, the sum over the batch items alone %.9g", (long long)h,
                       (double)all.dsinks[h], (double)dsinks[h]);
}

/* A query head computed alone, with the key head that it shares, has the bits that it has in its group. */
static void head_alone(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = prepared(subject, shape);
    struct results all = experiment_run_plainly(e);
    struct shape one = *shape;
    one.batch = one.heads_q = one.heads_kv = 1;
    for (int64_t b = 0; b < shape->batch; b++)
        for (int64_t h = 0; h < shape->heads_q; h++) {
            struct experiment *f = experiment_new(subject, &one);
            for (enum tensor t = Q; t <= V; t++)
                memcpy(f->in[t], tensor_row(e, e->in[t], t, b, t == Q ? h : h * shape->heads_kv / shape->heads_q, 0),
                       (size_t)tensor_count(f, t) * sizeof(float));
            if (e->sinks != NULL)
                f->sinks[0] = e->sinks[h];
            struct results alone = experiment_run_plainly(f);
            for (const enum tensor *t = pass_outputs(GLINT_FORWARD); *t != TENSORS; t++)
                expect_same(f, *t, alone.at[*t], tensor_row(e, all.at[*t], *t, b, h, 0), false, "a query head alone");
        }
}

/* Batches and key head groups in reverse order: the results follow, bit by bit. */
static void permutation(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = prepared(subject, shape), *f = experiment_copy(e);
    const int64_t group = shape->heads_q / shape->heads_kv;
    struct results expected = experiment_run_plainly(e), moved = expected;
    for (enum tensor t = Q; t < TENSORS; t++) {
        const int64_t per_group = tensor_heads(e, t) == shape->heads_kv && group > 1 ? 1 : tensor_heads(e, t) / shape->heads_kv;
        const int64_t groups = tensor_heads(e, t) / per_group;
        const size_t bytes = (size_t)(tensor_rows(e, t) * tensor_dim(e, t)) * sizeof(float);
        const bool output = expected.at[t] != NULL;
        float *to = t <= DOUT ? f->in[t] : NULL;
        if (output)
            moved.at[t] = to = check_memory((size_t)tensor_count(e, t) * sizeof(float));
        const float *from = output ? expected.at[t] : e->in[t];
        for (int64_t b = 0; b < shape->batch && to != NULL; b++)
            for (int64_t h = 0; h < tensor_heads(e, t); h++) {
                const int64_t other = (groups - 1 - h / per_group) * per_group + h % per_group;
                memcpy(tensor_row(e, to, t, b, h, 0), tensor_row(e, (float *)(uintptr_t)from, t, shape->batch - 1 - b, other, 0),
                       bytes);
            }
    }
    struct results got = experiment_run_plainly(f);
    expect_same_results(e, &got, &moved, "batches and head groups in reverse order");
}

/* The two alignments are one when lengths agree. */
static void square_alignments(struct subject *subject, const struct shape *shape)
{
    struct shape other = *shape;
    other.mask = shape->mask == GLINT_MASK_CAUSAL_TOP_LEFT ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_BAND_BOTTOM_RIGHT;
    struct experiment *e = prepared(subject, shape), *f = prepared(subject, &other);
    struct results top_left = experiment_run_plainly(e), bottom_right = experiment_run_plainly(f);
    expect_same_results(e, &bottom_right, &top_left, "both alignments of a square");
}

/* ---- linearity: factors of 2 and signs are exact ---- */

static void multiply(const struct experiment *e, enum tensor t, float *x, float factor)
{
    for (int64_t i = 0, count = tensor_count(e, t); i < count; i++)
        x[i] *= factor;
}

/* Twice the result, except where float16 runs out of bits. A result below 2^-13 is right within one unit of 2^-24. dQ
 * and dK are sums over dS, which GPUs keep in float16 too: terms below 2^-14 lose bits, and may move such a sum to the
 * number beside the one that is expected. */
static void expect_scaled(const struct experiment *e, enum tensor t, const float *got, const float *once, float factor,
                          const char *what)
{
    float *expected = check_memory((size_t)tensor_count(e, t) * sizeof(float));
    for (int64_t i = 0, count = tensor_count(e, t); i < count; i++) {
        expected[i] = factor * once[i];
        const float size = fabsf(expected[i]), unit = t == DQ || t == DK ? 0x1p-10f * size : 0;
        if (e->dtype == GLINT_F16 && fabsf(got[i] - expected[i]) <= fmaxf(size < 0x1p-12f ? 0x1p-24f : 0, unit))
            expected[i] = got[i];
    }
    expect_same(e, t, got, expected, true, what);
}

static void linear_in_v(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_new(subject, shape);
    struct results once = experiment_run_plainly(e);
    static const float factor[] = {2, -1};
    for (int i = 0; i < 2; i++) {
        struct experiment *f = experiment_copy(e);
        multiply(f, V, f->in[V], factor[i]);
        struct results got = experiment_run_plainly(f);
        expect_scaled(e, O, got.at[O], once.at[O], factor[i], factor[i] > 0 ? "O(2 V) = 2 O(V)" : "O(-V) = -O(V)");
        expect_same(e, LSE, got.at[LSE], once.at[LSE], false, "LSE does not depend on V");
    }
}

static void linear_in_dout(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = prepared(subject, shape);
    struct results once = experiment_run_plainly(e);
    static const float factor[] = {2, -1, 0};
    for (int i = 0; i < 3; i++) {
        struct experiment *f = experiment_copy(e);
        multiply(f, DOUT, f->in[DOUT], factor[i]);
        if (f->dlse != NULL)
            multiply(f, LSE, f->dlse, factor[i]);
        struct results got = experiment_run_plainly(f);
        for (enum tensor t = DQ; t <= DV; t++)
            expect_scaled(e, t, got.at[t], once.at[t], factor[i], "gradients are linear in dO");
        for (int64_t h = 0; h < shape->heads_q && got.dsinks != NULL; h++)
            if (!check_within("bitwise", got.dsinks[h] == factor[i] * once.dsinks[h] ? 0 : 1, 0))
                check_fail("%g dO gives the sink of head %lld %.9g, dO %.9g", (double)factor[i], (long long)h,
                           (double)got.dsinks[h], (double)once.dsinks[h]);
    }
}

/* A gradient of LSE that is zero is none. */
static void no_dlse(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = prepared(subject, shape), *f = experiment_copy(e);
    f->dlse = check_memory((size_t)tensor_count(f, LSE) * sizeof *f->dlse);
    struct results without = experiment_run_plainly(e), got = experiment_run_plainly(f);
    expect_same_results(e, &got, &without, "zeros as the gradient of LSE");
}

/* ---- causality ---- */

/* The first rows of a causal problem are the problem of the first rows. */
static void causal_prefix(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = prepared(subject, shape);
    struct results all = experiment_run_plainly(e);
    const int64_t cuts[] = {1, shape->seqlen_q / 3, shape->seqlen_q / 2 + 1, shape->seqlen_q - 1};
    for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++) {
        struct shape cut = *shape;
        cut.seqlen_q = cut.seqlen_k = cuts[c];
        struct experiment *f = experiment_new(subject, &cut);
        for (enum tensor t = Q; t <= V; t++)
            for (int64_t b = 0; b < shape->batch; b++)
                for (int64_t h = 0; h < tensor_heads(e, t); h++)
                    memcpy(tensor_row(f, f->in[t], t, b, h, 0), tensor_row(e, e->in[t], t, b, h, 0),
                           (size_t)(cuts[c] * tensor_dim(e, t)) * sizeof(float));
        struct results got = experiment_run_plainly(f);
        for (const enum tensor *t = pass_outputs(GLINT_FORWARD); *t != TENSORS; t++)
            for (int64_t b = 0; b < shape->batch; b++)
                for (int64_t h = 0; h < tensor_heads(e, *t); h++)
                    for (int64_t i = 0; i < cuts[c]; i++)
                        expect_same_row(e, *t, tensor_row(f, got.at[*t], *t, b, h, i), tensor_row(e, all.at[*t], *t, b, h, i), b, h,
                                        i, "the first rows alone");
    }
}

/* Queries from shape->detail on by themselves, and those before them: with the diagonal moved to where they lie in the
 * whole, they have the bits that they have there (O, LSE; dQ). */
static void chunks(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = prepared(subject, shape);
    struct results all = experiment_run_plainly(e);
    const bool top_left = shape->mask == GLINT_MASK_CAUSAL_TOP_LEFT || shape->mask == GLINT_MASK_BAND_TOP_LEFT;
    for (int part = 0; part < 2; part++) {
        const int64_t from = part ? shape->detail : 0, rows = part ? shape->seqlen_q - from : shape->detail;
        struct shape own = *shape;
        own.seqlen_q = rows;
        own.diagonal += from + (top_left ? 0 : rows - shape->seqlen_q);
        struct experiment *f = prepared(subject, &own);
        for (enum tensor t = Q; t <= DOUT; t++)
            for (int64_t b = 0; b < shape->batch; b++)
                for (int64_t h = 0; h < tensor_heads(e, t); h++)
                    memcpy(tensor_row(f, f->in[t], t, b, h, 0), tensor_row(e, e->in[t], t, b, h, t == K || t == V ? 0 : from),
                           (size_t)(tensor_rows(f, t) * tensor_dim(e, t)) * sizeof(float));
        for (int64_t h = 0; h < shape->heads_q && e->slopes != NULL; h++)
            f->slopes[h] = e->slopes[h];
        struct results got = experiment_run_plainly(f);
        for (const enum tensor *t = pass_outputs(pass_of(subject)); *t != TENSORS; t++)
            for (int64_t b = 0; b < shape->batch && *t != DK && *t != DV; b++)
                for (int64_t h = 0; h < tensor_heads(e, *t); h++)
                    for (int64_t i = 0; i < rows; i++)
                        expect_same_row(e, *t, tensor_row(f, got.at[*t], *t, b, h, i),
                                        tensor_row(e, all.at[*t], *t, b, h, from + i), b, h, i,
                                        "a chunk of the queries with its diagonal");
    }
}

/* Keys from `first` on are replaced: queries that see none of them keep their bits (O, LSE; dQ). shape->detail chooses
 * the key. */
static void future_keys(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = prepared(subject, shape);
    struct results before = experiment_run_plainly(e);
    static const float junk[] = {1e4f, NAN, INFINITY};
    for (size_t c = 0; c < sizeof junk / sizeof junk[0]; c++) {
        struct experiment *f = experiment_copy(e);
        for (enum tensor t = K; t <= V; t++)
            for (int64_t bh = 0; bh < shape->batch * shape->heads_kv; bh++)
                for (int64_t x = shape->detail * tensor_dim(e, t); x < shape->seqlen_k * tensor_dim(e, t); x++)
                    f->in[t][bh * shape->seqlen_k * tensor_dim(e, t) + x] = junk[c];
        experiment_reference(f, false);
        struct results after = experiment_run_plainly(f);
        for (const enum tensor *t = pass_outputs(pass_of(subject)); *t == O || *t == LSE || *t == DQ; t++)
            for (int64_t b = 0; b < shape->batch; b++)
                for (int64_t h = 0; h < shape->heads_q; h++)
                    for (int64_t i = 0; i < shape->seqlen_q && ref_end(&e->ref, i) <= shape->detail; i++)
                        expect_same_row(e, *t, tensor_row(e, after.at[*t], *t, b, h, i), tensor_row(e, before.at[*t], *t, b, h, i),
                                        b, h, i, "keys changed that the query does not see");
    }
}

/* Queries before `detail` are replaced: keys that none of them sees keep the bits of dK and dV. */
static void past_queries(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = prepared(subject, shape);
    struct results before = experiment_run_plainly(e);
    static const float junk[] = {100.0f, NAN, INFINITY};
    for (size_t c = 0; c < sizeof junk / sizeof junk[0]; c++) {
        struct experiment *f = experiment_copy(e);
        for (int64_t bh = 0; bh < shape->batch * shape->heads_q; bh++)
            for (int64_t x = 0; x < shape->detail * e->ref.head_dim; x++)
                f->in[Q][bh * shape->seqlen_q * e->ref.head_dim + x] = f->in[DOUT][bh * shape->seqlen_q * e->ref.head_dim + x] =
                    junk[c];
        experiment_reference(f, false);
        struct results after = experiment_run_plainly(f);
        for (enum tensor t = DK; t <= DV; t++)
            for (int64_t b = 0; b < shape->batch; b++)
                for (int64_t h = 0; h < shape->heads_kv; h++)
                    for (int64_t j = ref_end(&e->ref, shape->detail - 1); j < shape->seqlen_k; j++)
                        expect_same_row(e, t, tensor_row(e, after.at[t], t, b, h, j), tensor_row(e, before.at[t], t, b, h, j), b, h,
                                        j, "queries changed that do not see the key");
    }
}

/* ---- windows ---- */

/* Keys before `detail` are replaced: queries whose window begins later keep their bits (O, LSE; dQ). */
static void past_keys(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = prepared(subject, shape);
    struct results before = experiment_run_plainly(e);
    static const float junk[] = {1e4f, NAN, INFINITY};
    for (size_t c = 0; c < sizeof junk / sizeof junk[0]; c++) {
        struct experiment *f = experiment_copy(e);
        for (enum tensor t = K; t <= V; t++)
            for (int64_t bh = 0; bh < shape->batch * shape->heads_kv; bh++)
                for (int64_t x = 0; x < shape->detail * tensor_dim(e, t); x++)
                    f->in[t][bh * shape->seqlen_k * tensor_dim(e, t) + x] = junk[c];
        experiment_reference(f, false);
        struct results after = experiment_run_plainly(f);
        for (const enum tensor *t = pass_outputs(pass_of(subject)); *t == O || *t == LSE || *t == DQ; t++)
            for (int64_t b = 0; b < shape->batch; b++)
                for (int64_t h = 0; h < shape->heads_q; h++)
                    for (int64_t i = 0; i < shape->seqlen_q; i++)
                        if (ref_first(&e->ref, i) >= shape->detail || ref_first(&e->ref, i) == ref_end(&e->ref, i))
                            expect_same_row(e, *t, tensor_row(e, after.at[*t], *t, b, h, i),
                                            tensor_row(e, before.at[*t], *t, b, h, i), b, h, i, "keys changed before the window");
    }
}

/* Queries from `detail` on are replaced: keys that none of them sees keep the bits of dK and dV. */
static void future_queries(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = prepared(subject, shape);
    struct results before = experiment_run_plainly(e);
    static const float junk[] = {100.0f, NAN, INFINITY};
    for (size_t c = 0; c < sizeof junk / sizeof junk[0]; c++) {
        struct experiment *f = experiment_copy(e);
        for (int64_t bh = 0; bh < shape->batch * shape->heads_q; bh++)
            for (int64_t x = shape->detail * e->ref.head_dim; x < shape->seqlen_q * e->ref.head_dim; x++)
                f->in[Q][bh * shape->seqlen_q * e->ref.head_dim + x] = f->in[DOUT][bh * shape->seqlen_q * e->ref.head_dim + x] =
                    junk[c];
        experiment_reference(f, false);
        struct results after = experiment_run_plainly(f);
        for (enum tensor t = DK; t <= DV; t++)
            for (int64_t b = 0; b < shape->batch; b++)
                for (int64_t h = 0; h < shape->heads_kv; h++)
                    for (int64_t j = 0; j < ref_first(&e->ref, shape->detail); j++)
                        expect_same_row(e, t, tensor_row(e, after.at[t], t, b, h, j), tensor_row(e, before.at[t], t, b, h, j), b, h,
                                        j, "queries changed whose windows begin after the key");
    }
}

/* The same mask, said as a band with sides that hide nothing more, has the same bits. */
static void as_a_window(struct subject *subject, const struct shape *shape)
{
    struct shape other = *shape;
    other.mask = shape->mask == GLINT_MASK_CAUSAL_TOP_LEFT ? GLINT_MASK_BAND_TOP_LEFT : GLINT_MASK_BAND_BOTTOM_RIGHT;
    other.window_left = GLINT_UNBOUNDED;
    other.window_right = shape->mask == GLINT_MASK_NONE ? GLINT_UNBOUNDED : 0;
    struct experiment *e = prepared(subject, shape), *f = prepared(subject, &other);
    struct results plain = experiment_run_plainly(e), window = experiment_run_plainly(f);
    expect_same_results(e, &window, &plain, "the mask as a window");
}

/* A window that is wider than what there is has the bits of one that is just wide enough. */
static void wider_window(struct subject *subject, const struct shape *shape)
{
    struct shape other = *shape;
    other.window_left = GLINT_MAX_EXTENT;
    other.window_right = shape->detail != 0 ? GLINT_UNBOUNDED : GLINT_MAX_EXTENT;
    struct experiment *e = prepared(subject, shape), *f = prepared(subject, &other);
    struct results narrow = experiment_run_plainly(e), wide = experiment_run_plainly(f);
    expect_same_results(e, &wide, &narrow, "a wider window");
}

/* ---- scores ---- */

/* Sinks of -inf are no sinks. `detail`: beside scores that are all -inf, too, where P and the sinks' gradient are
 * NaN. */
static void no_sinks(struct subject *subject, const struct shape *shape)
{
    struct shape with = *shape;
    with.sinks = true;
    struct experiment *e = experiment_new(subject, shape), *f = experiment_new(subject, &with);
    for (int64_t h = 0; h < shape->heads_q; h++)
        f->sinks[h] = -INFINITY;
    if (shape->detail != 0) {
        experiment_put_minus_infinity(e, 7);
        experiment_put_minus_infinity(f, 7);
    }
    experiment_reference(e, false);
    experiment_reference(f, false);
    struct results without = experiment_run_plainly(e), got = experiment_run_plainly(f);
    expect_same_results(e, &got, &without, "sinks of -inf");
    for (int64_t h = 0; h < shape->heads_q && got.dsinks != NULL && shape->detail == 0; h++)
        if (!check_within("bitwise", got.dsinks[h] == 0 ? 0 : 1, 0))
            check_fail("the gradient of a sink of -inf is %.9g", (double)got.dsinks[h]);
}

/* A cap far above all scores is none. */
static void no_softcap(struct subject *subject, const struct shape *shape)
{
    struct shape capped = *shape;
    capped.softcap = subject->info.isa != GLINT_ISA_ANY ? 0x1p124f : 0x1p100f; /* on a GPU the range depends on the scale */
    struct experiment *e = prepared(subject, shape), *f = prepared(subject, &capped);
    struct results without = experiment_run_plainly(e), got = experiment_run_plainly(f);
    expect_same_results(e, &got, &without, "a softcap far above all scores");
}

static double *as_double(const struct experiment *e, enum tensor t, const float *x)
{
    double *y = check_memory((size_t)tensor_count(e, t) * sizeof *y);
    for (int64_t i = 0, count = tensor_count(e, t); i < count; i++)
        y[i] = (double)x[i];
    return y;
}

/* A sink is one more key, before the others, whose score with every query is the sink and whose value is 0. */
static void sink_is_a_key(struct subject *subject, const struct shape *shape)
{
    struct shape keyed = *shape;
    keyed.sinks = false;
    keyed.seqlen_k++;
    struct experiment *e = experiment_new(subject, shape), *f = experiment_new(subject, &keyed);
    const int64_t dim = e->ref.head_dim, n = shape->seqlen_k;
    for (int64_t row = 0; row < tensor_count(e, Q) / dim; row++)
        e->in[Q][row * dim] = 1;
    for (enum tensor t = Q; t <= DOUT; t++)
        if (t == Q || t == DOUT)
            memcpy(f->in[t], e->in[t], (size_t)tensor_count(e, t) * sizeof(float));
    for (int64_t bh = 0; bh < shape->batch * shape->heads_kv; bh++)
        for (enum tensor t = K; t <= V; t++) {
            float *to = f->in[t] + bh * (n + 1) * dim;
            memset(to, 0, (size_t)dim * sizeof *to);
            memcpy(to + dim, e->in[t] + bh * n * dim, (size_t)(n * dim) * sizeof *to);
            if (t == K)
                to[0] = dtype_round(e->dtype, e->sinks[bh % shape->heads_q] / e->ref.softmax_scale);
        }
    for (int64_t h = 0; h < shape->heads_q; h++) /* what the key scores */
        e->sinks[h] = e->ref.softmax_scale * dtype_round(e->dtype, e->sinks[h] / e->ref.softmax_scale);
    for (int64_t bh = 0; bh < shape->batch * shape->heads_kv; bh++)
        f->in[K][bh * (n + 1) * dim] = dtype_round(e->dtype, e->sinks[bh % shape->heads_q] / e->ref.softmax_scale);
    experiment_reference(e, true);
    experiment_reference(f, true);
    struct results sink = experiment_run_plainly(e), key = experiment_run_plainly(f);
    const double unit = 4 * factor_ulp(e->math, e->dtype) + (12 + sqrt((double)dim)) * dtype_ulp(GLINT_F32);
    if (pass_of(subject) == GLINT_FORWARD) {
        for (const enum tensor *t = pass_outputs(GLINT_FORWARD); *t != TENSORS; t++)
            expect_near(e, *t, "law in tolerance", sink.at[*t], as_double(e, *t, key.at[*t]),
                        unit * (max_magnitude(e->exact[*t], tensor_count(e, *t)) + 1));
        return;
    }
    const double size = max_magnitude(e->exact[DV], tensor_count(e, DV)) + max_magnitude(e->exact[DQ], tensor_count(e, DQ));
    double *dq = as_double(e, DQ, key.at[DQ]);
    for (int64_t row = 0; row < tensor_count(e, DQ) / dim; row++) /* the key's own K is in this element */
        dq[row * dim] = (double)sink.at[DQ][row * dim];
    expect_near(e, DQ, "law in tolerance", sink.at[DQ], dq, 8 * unit * (size + 1));
    for (int64_t h = 0; h < shape->heads_q; h++) { /* dK of the key: the sum over rows of dS times q, of which one element is 1 */
        double sum = 0;
        for (int64_t b = 0; b < shape->batch; b++)
            sum += (double)key.at[DK][(b * shape->heads_kv + h) * (n + 1) * dim] / (double)e->ref.softmax_scale;
        const double error = fabs((double)sink.dsinks[h] - sum),
                     bound = 8 * unit * (fabs(sum) + sqrt((double)(dim * shape->seqlen_q)));
        if (!check_within("law in tolerance", error, bound))
            check_fail("the gradient of the sink of head %lld is %.9g, that of a key in its place %.9g, error %.3g, bound %.3g",
                       (long long)h, (double)sink.dsinks[h], sum, error, bound);
    }
}

/* ---- within tolerance ---- */

/* K + c shifts every row of scores by <q, c>: O stays, LSE moves by softmax_scale <q, c>. On the grid K + c is
 * exact. */
static void shift_keys(struct subject *subject, const struct shape *shape)
{
    struct shape grid = *shape;
    grid.data = DATA_GRID;
    grid.step = 0x1p-4f;
    struct experiment *e = experiment_new(subject, &grid), *f = experiment_copy(e);
    struct rand r = rand_stream(shape->seed, 7);
    float *c = check_memory((size_t)e->ref.head_dim * sizeof *c);
    for (int64_t d = 0; d < e->ref.head_dim; d++)
        c[d] = 0.5f * rand_sign(&r);
    for (int64_t x = 0; x < tensor_count(e, K); x++)
        f->in[K][x] += c[x % e->ref.head_dim];

    struct results base = experiment_run_plainly(e), got = experiment_run_plainly(f);
    double *o = as_double(e, O, base.at[O]), *lse = as_double(e, LSE, base.at[LSE]);
    for (int64_t i = 0, count = tensor_count(e, LSE); i < count; i++)
        for (int64_t d = 0; d < e->ref.head_dim; d++)
            lse[i] += (double)e->ref.softmax_scale * (double)e->in[Q][i * e->ref.head_dim + d] * (double)c[d];
    const double size = max_magnitude(lse, tensor_count(e, LSE)) + 4;
    const double rounding = (6 + sqrt((double)e->ref.head_dim)) * dtype_ulp(GLINT_F32) * size;
    expect_near(e, O, "law in tolerance", got.at[O], o,
                rounding + 2 * factor_ulp(e->math, e->dtype) * max_magnitude(o, tensor_count(e, O)));
    expect_near(e, LSE, "law in tolerance", got.at[LSE], lse, rounding);
}

/* Keys and values in reverse order: the same sums in another order. */
static void permute_keys(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_new(subject, shape), *f = experiment_copy(e);
    for (enum tensor t = K; t <= V; t++)
        for (int64_t bh = 0; bh < shape->batch * shape->heads_kv; bh++)
            for (int64_t j = 0; j < shape->seqlen_k; j++)
                memcpy(f->in[t] + (bh * shape->seqlen_k + j) * e->ref.head_dim,
                       e->in[t] + ((bh + 1) * shape->seqlen_k - 1 - j) * e->ref.head_dim, (size_t)e->ref.head_dim * sizeof(float));
    struct results base = experiment_run_plainly(e), got = experiment_run_plainly(f);
    double *o = as_double(e, O, base.at[O]), *lse = as_double(e, LSE, base.at[LSE]);
    const double size = max_magnitude(lse, tensor_count(e, LSE)) + 1, o_size = max_magnitude(o, tensor_count(e, O));
    const double rounding = (6 + sqrt((double)e->ref.head_dim)) * dtype_ulp(GLINT_F32);
    expect_near(e, O, "law in tolerance", got.at[O], o, (rounding + 2 * factor_ulp(e->math, e->dtype)) * o_size);
    expect_near(e, LSE, "law in tolerance", got.at[LSE], lse, rounding * size);
}

/* An average of ones is one. Its two sums, of weights and of weights times 1, add `keys` terms in different orders: the
 * roundings of either are a random walk of about 0.3 sqrt(keys / 3) units, and there are thousands of rows, so three of
 * those units are allowed and a few. */
static void ones(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_new(subject, shape);
    double *one = check_memory((size_t)tensor_count(e, O) * sizeof *one);
    for (int64_t i = 0, count = tensor_count(e, V); i < count; i++)
        e->in[V][i] = 1;
    for (int64_t row = 0; row < tensor_count(e, LSE); row++)
        for (int64_t d = 0; d < e->ref.head_dim; d++)
            one[row * e->ref.head_dim + d] =
                ref_end(&e->ref, row % shape->seqlen_q) > ref_first(&e->ref, row % shape->seqlen_q) ? 1 : 0;
    struct results got = experiment_run_plainly(e);
    const double rounding = (4 + sqrt((double)shape->seqlen_k) / 2) * dtype_ulp(GLINT_F32);
    expect_near(e, O, "law in tolerance", got.at[O], one, rounding + factor_ulp(e->math, e->dtype));
}

/* ---- scales of 8-bit K and V ---- */

/* Every row the same scale, whatever in[] holds. */
static void give_scales(struct experiment *e, uint32_t kind, float k_scale, float v_scale)
{
    e->problem.kv_scales = kind;
    for (enum tensor t = K; t <= V; t++) {
        e->cache[t - K].given = true;
        for (int64_t row = 0; row < tensor_count(e, t) / e->ref.head_dim; row++)
            e->cache[t - K].scale[row] = t == K ? k_scale : v_scale;
    }
    experiment_store(e);
}

/* One scale is the same said once, for each head or for each row. */
static void scale_kinds(struct subject *subject, const struct shape *shape)
{
    struct results first = {.at = {NULL}};
    for (uint32_t kind = GLINT_SCALES_TENSOR; kind <= GLINT_SCALES_ROW; kind++) {
        struct experiment *e = experiment_new(subject, shape);
        give_scales(e, kind, 0.03f, 0.07f);
        struct results got = experiment_run_plainly(e);
        if (kind == GLINT_SCALES_TENSOR)
            first = got;
        else
            expect_same_results(e, &got, &first, "the same scale in another shape");
    }
}

/* What is a power of two may stand in K's scale or in softmax_scale; in V's it multiplies O, and nothing else. */
static void scale_powers(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_new(subject, shape), *moved = experiment_new(subject, shape),
                      *twice = experiment_new(subject, shape);
    give_scales(e, GLINT_SCALES_ROW, 0.03f, 0.07f);
    give_scales(moved, GLINT_SCALES_ROW, 0.03f, 0.07f);
    give_scales(twice, GLINT_SCALES_ROW, 0.03f, 0.07f);
    for (int64_t row = 0; row < tensor_count(e, K) / e->ref.head_dim; row++) {
        moved->cache[0].scale[row] *= 8; /* the bits stay: in[] is what they stand for */
        twice->cache[1].scale[row] *= -2;
    }
    for (int64_t i = 0, count = tensor_count(e, K); i < count; i++) {
        moved->in[K][i] *= 8;
        twice->in[V][i] *= -2;
    }
    moved->problem.softmax_scale /= 8;
    moved->ref.softmax_scale /= 8;
    struct results base = experiment_run_plainly(e), got = experiment_run_plainly(moved), doubled = experiment_run_plainly(twice);
    expect_same_results(e, &got, &base, "8 times K's scale, an eighth of softmax_scale");
    expect_scaled(e, O, doubled.at[O], base.at[O], -2, "V's scale times -2");
    expect_same(e, LSE, doubled.at[LSE], base.at[LSE], false, "LSE does not depend on V's scale");
}

/* Any scales, of all bits, of either sign and zero, different for each row or head. */
static void scales(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_new(subject, shape);
    struct rand r = rand_stream(shape->seed, 8);
    e->problem.kv_scales = (uint32_t)shape->detail;
    for (enum tensor t = K; t <= V; t++) {
        struct scaled *c = &e->cache[t - K];
        float scale = 0;
        c->given = true;
        for (int64_t row = 0; row < tensor_count(e, t) / e->ref.head_dim; row++) {
            const bool another =
                shape->detail == GLINT_SCALES_ROW || (shape->detail == GLINT_SCALES_HEAD && row % shape->seqlen_k == 0);
            if (another || row == 0)
                scale = rand_sign(&r) * 0.05f * (0.25f + (float)rand_uniform(&r));
            if (shape->detail == GLINT_SCALES_ROW && row % 11 == 3)
                scale = 0;
            /* a head's scale is the same in every batch */
            c->scale[row] = shape->detail == GLINT_SCALES_HEAD && row >= shape->heads_kv * shape->seqlen_k
                                ? c->scale[row - shape->heads_kv * shape->seqlen_k]
                                : scale;
            for (int64_t d = 0; d < e->ref.head_dim; d++) {
                const int64_t i = row * e->ref.head_dim + d;
                const int8_t number = (int8_t)(rand_below(&r, 255) - 127);
                c->bits[i] = (uint8_t)number;
                if (e->problem.kv_dtype == GLINT_E4M3 && (c->bits[i] & 0x7f) == 0x7f)
                    c->bits[i] = 0x80;
                e->in[t][i] = c->scale[row] * (e->problem.kv_dtype == GLINT_I8 ? (float)number : float_from_e4m3(c->bits[i]));
            }
        }
    }
    experiment_reference(e, false);
    struct results got = experiment_run_plainly(e);
    expect_accurate(e, GLINT_FORWARD, &got);
}

static void scale_laws(struct check_list *list, const struct subject *subject)
{
    static const char *const kinds[] = {"", "tensor", "head", "row"};
    const bool causal = (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0;
    struct shape s = {.batch = 2, .heads_q = 6, .heads_kv = 3, .seqlen_q = 5, .seqlen_k = 2 * (int64_t)subject->info.tile_n + 9};
    s.mask = causal ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
    if (subject->info.kv_dtype == 0)
        return;
    checks_add(list, scale_kinds, &s, "law/scale_kinds");
    checks_add(list, scale_powers, &s, "law/scale_powers");
    for (uint32_t kind = GLINT_SCALES_TENSOR; kind <= GLINT_SCALES_ROW; kind++)
        for (int64_t queries = 1; queries < 80; queries += 39) {
            s.detail = kind;
            s.seqlen_q = queries;
            s.layout = queries == 1 ? LAYOUT_BHSD : LAYOUT_PADDED;
            checks_add(list, scales, &s, "accuracy/scales_%s_q%d", kinds[kind], (int)queries);
        }
}

/* ---- the list ---- */

/* What decode is for: few queries, several chunks of keys, shared by several bodies where there are any. */
static void decode_laws(struct check_list *list, const struct subject *subject)
{
    /* A GPU never shares fewer keys than 256. */
    const bool gpu = subject->info.sm > 0, masked = (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0;
    const int64_t n = gpu && (int64_t)subject->info.tile_n < 256 ? 256 : (int64_t)subject->info.tile_n;
    static const struct {
        const char *name;
        int64_t heads_q, heads_kv, seqlen_q;
        enum glint_mask mask;
    } steps[] = {
        {"one_query", 1, 1, 1, GLINT_MASK_CAUSAL_BOTTOM_RIGHT},   {"group_of_4", 4, 1, 1, GLINT_MASK_CAUSAL_BOTTOM_RIGHT},
        {"group_of_7", 14, 2, 1, GLINT_MASK_CAUSAL_BOTTOM_RIGHT}, {"group_of_18", 18, 1, 1, GLINT_MASK_CAUSAL_BOTTOM_RIGHT},
        {"drafts", 6, 2, 5, GLINT_MASK_CAUSAL_BOTTOM_RIGHT},      {"group_of_2_none", 2, 1, 3, GLINT_MASK_NONE},
    };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct shape s = {.batch = 1, .heads_q = steps[i].heads_q, .heads_kv = steps[i].heads_kv, .seqlen_q = steps[i].seqlen_q};
        s.mask = masked ? steps[i].mask : GLINT_MASK_NONE;
        s.seqlen_k = 3 * n + 7;
        if (subject->backend->executors)
            checks_add(list, lanes, &s, "law/decode_lanes_%s", steps[i].name);
        checks_add(list, head_alone, &s, "law/decode_head_alone_%s", steps[i].name);
        s.batch = 2;
        checks_add(list, batch_alone, &s, "law/decode_batch_alone_%s", steps[i].name);
        checks_add(list, workspace_contents, &s, "law/decode_workspace_contents_%s", steps[i].name);
        s.detail = 2 * n + 3;
        if (s.mask != GLINT_MASK_NONE && s.seqlen_q > 1) {
            s.seqlen_k = 2 * n + 4;
            checks_add(list, future_keys, &s, "law/decode_future_keys_%s", steps[i].name);
        }
        if (subject->backend->fences)
            checks_add(list, fences, &s, "law/decode_fences_%s", steps[i].name);
    }
    /* More steps than a GPU's second kernel folds at a time. */
    if (!gpu)
        return;
    struct shape long_one = {.batch = 2, .heads_q = 2, .heads_kv = 1, .seqlen_q = 1};
    long_one.mask = masked ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
    long_one.seqlen_k = 66 * (int64_t)subject->info.tile_n + 7;
    checks_add(list, batch_alone, &long_one, "law/decode_batch_alone_many_keys");
    long_one.batch = 1;
    checks_add(list, workspace_contents, &long_one, "law/decode_workspace_contents_many_keys");
}

/* What holds of any attention holds with capped scores and with sinks. */
static void score_laws(struct check_list *list, const struct subject *subject)
{
    const bool forward = subject->info.pass == GLINT_FORWARD, causal = (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0;
    const int64_t m = (int64_t)subject->info.tile_m, n = (int64_t)subject->info.tile_n;
    const enum glint_mask mask = causal ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
    const struct shape plain = {.batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = m + 5, .seqlen_k = n + 11, .mask = mask};
    const struct shape blind = {.batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = 40, .seqlen_k = 23, .mask = mask};
    const struct shape many = {.batch = 3, .heads_q = 4, .heads_kv = 2, .seqlen_q = 37, .seqlen_k = 26, .mask = mask};
    for (int capped = 0; capped < 2; capped++) {
        const char *name = capped ? "softcap" : "sinks";
        const bool sinks = subject_checks_sinks(subject);
        if (capped ? !subject_caps(subject) : !sinks)
            continue;
        struct shape s = plain;
        s.softcap = capped ? 2.5f : 0;
        s.sinks = sinks;
        if (subject->backend->executors)
            checks_add(list, lanes, &s, "law/%s_lanes", name);
        if (subject->backend->fences)
            checks_add(list, fences, &s, "law/%s_fences", name);
        checks_add(list, workspace_contents, &s, "law/%s_workspace_contents", name);
        s = many;
        s.softcap = capped ? 2.5f : 0;
        s.sinks = sinks;
        if (subject->backend->executors) { /* one head, split over its keys where that can be */
            struct shape few = s;
            few.batch = few.heads_q = few.heads_kv = 1;
            few.seqlen_q = 5;
            few.seqlen_k = 1100;
            checks_add(list, lanes, &few, "law/%s_lanes_one_head", name);
        }
        checks_add(list, batch_alone, &s, "law/%s_batch_alone", name);
        if (forward)
            checks_add(list, head_alone, &s, "law/%s_head_alone", name);
        if (causal) { /* what a query sees is nothing to other heads, of which the laws before this one have several */
            s.batch = s.heads_kv = 1;
            s.heads_q = 2;
            s.seqlen_q = s.seqlen_k = m + 21;
            s.mask = GLINT_MASK_CAUSAL_TOP_LEFT;
            s.detail = 15;
            checks_add(list, future_keys, &s, "law/%s_future_keys", name);
            if (!forward)
                checks_add(list, past_queries, &s, "law/%s_past_queries", name);
        }
        if (!forward) {
            s = many;
            s.softcap = capped ? 2.5f : 0;
            s.sinks = sinks;
            checks_add(list, linear_in_dout, &s, "law/%s_linear_in_dout", name);
        }
        checks_add(list, capped ? no_softcap : no_sinks, &plain, "law/no_%s", name);
        s = blind;
        s.detail = !forward && !capped;
        checks_add(list, capped ? no_softcap : no_sinks, &s, "law/no_%s_blind_rows", name);
        if ((subject->info.features & GLINT_FEATURE_LEFT_BOUND) != 0 && subject->info.queries_up_to == 0) {
            /* In a tile some queries see keys, and those beside them none yet. */
            struct shape window = {.batch = 1, .heads_q = 2, .heads_kv = 1, .seqlen_q = m + 2 * n, .seqlen_k = m + 2 * n};
            window.mask = GLINT_MASK_BAND_TOP_LEFT;
            window.window_left = 13;
            window.window_right = 4;
            checks_add(list, capped ? no_softcap : no_sinks, &window, "law/no_%s_window", name);
        }
        if (!capped) {
            struct shape keys = many;
            keys.heads_kv = keys.heads_q;
            keys.sinks = true;
            keys.seqlen_q = 23;
            if (subject->info.kv_dtype == 0) /* 8 bits hold no key of just that logit */
                checks_add(list, sink_is_a_key, &keys, "law/sink_is_a_key");
        }
    }
}

static void window_laws(struct check_list *list, const struct subject *subject)
{
    const bool forward = subject->info.pass == GLINT_FORWARD, decode = subject->info.queries_up_to > 0;
    const int64_t m = (int64_t)subject->info.tile_m, n = (int64_t)subject->info.tile_n;
    struct shape s = {.batch = 1, .heads_q = 4, .heads_kv = 2, .seqlen_q = decode ? 6 : m + 21, .seqlen_k = n + 40};
    s.mask = GLINT_MASK_BAND_BOTTOM_RIGHT;
    s.window_left = decode ? n / 2 : 18;
    s.window_right = 2;
    for (int top_left = 0; top_left < 2; top_left++) {
        static const char *const names[] = {"bottom_right", "top_left"};
        const char *name = names[top_left];
        s.mask = top_left ? GLINT_MASK_BAND_TOP_LEFT : GLINT_MASK_BAND_BOTTOM_RIGHT;
        if (subject->backend->executors)
            checks_add(list, lanes, &s, "law/window_lanes_%s", name);
        if (subject->backend->fences)
            checks_add(list, fences, &s, "law/window_fences_%s", name);
        checks_add(list, workspace_contents, &s, "law/window_workspace_contents_%s", name);
        checks_add(list, permutation, &s, "law/window_permutation_%s", name);
        if (forward)
            checks_add(list, head_alone, &s, "law/window_head_alone_%s", name);
        struct shape two = s;
        two.batch = 2;
        checks_add(list, batch_alone, &two, "law/window_batch_alone_%s", name);
        struct shape changed = s; /* what a query sees is nothing to other heads */
        changed.heads_q = 2;
        changed.heads_kv = 1;
        changed.seqlen_q = changed.seqlen_k = m + 60;
        changed.window_left = 18;
        const int64_t places[] = {20, m / 2 + 30, m + 30};
        static const char *const at[] = {"first", "middle", "last"};
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            changed.detail = places[i];
            checks_add(list, future_keys, &changed, "law/window_future_keys_%s_%s", name, at[i]);
            checks_add(list, past_keys, &changed, "law/window_past_keys_%s_%s", name, at[i]);
            if (!forward) {
                checks_add(list, past_queries, &changed, "law/window_past_queries_%s_%s", name, at[i]);
                checks_add(list, future_queries, &changed, "law/window_future_queries_%s_%s", name, at[i]);
            }
        }
        if (decode && !top_left) { /* a few queries, whose windows begin in the second chunk */
            changed.seqlen_q = 6;
            changed.seqlen_k = 2 * n + 40;
            changed.window_left = n / 2;
            changed.detail = n + n / 2;
            checks_add(list, past_keys, &changed, "law/window_past_chunks");
            if (subject->backend->executors)
                checks_add(list, lanes, &changed, "law/window_lanes_past_chunks");
            checks_add(list, head_alone, &changed, "law/window_head_alone_past_chunks");
        }
        struct shape wide = s;
        wide.window_left = wide.window_right = s.seqlen_q + s.seqlen_k;
        checks_add(list, wider_window, &wide, "law/wider_window_%s", name);
        wide.detail = 1;
        checks_add(list, wider_window, &wide, "law/window_without_right_%s", name);
    }
    s.seqlen_q = s.seqlen_k = 40;
    checks_add(list, layouts, &s, "law/window_layouts");
    if (forward)
        checks_add(list, ones, &s, "law/window_ones");
    else
        checks_add(list, linear_in_dout, &s, "law/window_linear_in_dout");
}

static void add_laws(struct check_list *list, const struct subject *subject)
{
    const bool forward = subject->info.pass == GLINT_FORWARD, causal = (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0;
    const int64_t m = (int64_t)subject->info.tile_m, n = (int64_t)subject->info.tile_n;
    const enum glint_mask mask = causal ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
    const struct shape small = {.batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = 21, .seqlen_k = 34, .mask = mask};
    const struct shape tiles = {.batch = 1, .heads_q = 2, .heads_kv = 1, .seqlen_q = m + 5, .seqlen_k = n + 11, .mask = mask};
    const struct shape many = {.batch = 3, .heads_q = 4, .heads_kv = 2, .seqlen_q = 37, .seqlen_k = 26, .mask = mask};
    struct shape square = {.batch = 2, .heads_q = 2, .heads_kv = 1, .seqlen_q = 40, .seqlen_k = 40, .mask = mask};

    checks_add(list, repeat, &tiles, "law/repeat");
    checks_add(list, workspace_contents, &tiles, "law/workspace_contents");
    checks_add(list, workspace_contents, &many, "law/workspace_contents_many_heads");
    if (subject->backend->executors) {
        checks_add(list, lanes, &tiles, "law/lanes");
        checks_add(list, lanes, &many, "law/lanes_many_heads");
        struct shape few = many;
        few.batch = few.heads_q = few.heads_kv = 1;
        few.seqlen_k = 2 * n + 1;
        checks_add(list, lanes, &few, "law/lanes_one_head");
    }
    if (subject->backend->fences) {
        checks_add(list, fences, &small, "law/fences");
        checks_add(list, fences, &tiles, "law/fences_tiles");
        struct shape fenced = small;
        fenced.layout = LAYOUT_PADDED;
        checks_add(list, fences, &fenced, "law/fences_padded");
    }
    if ((subject->info.features & GLINT_FEATURE_LEFT_BOUND) != 0)
        window_laws(list, subject);
    if ((subject->info.features & GLINT_FEATURE_LEFT_BOUND) == 0 || subject->info.queries_up_to > 0)
        checks_add(list, as_a_window, &small, "law/as_a_window");
    score_laws(list, subject);
    checks_add(list, layouts, &square, "law/layouts");
    checks_add(list, batch_alone, &many, "law/batch_alone");
    checks_add(list, permutation, &many, "law/permutation");
    if (causal) {
        square.mask = GLINT_MASK_CAUSAL_TOP_LEFT;
        square.seqlen_q = square.seqlen_k = m + 21;
        checks_add(list, square_alignments, &square, "law/square_alignments");
        if (forward)
            checks_add(list, causal_prefix, &square, "law/causal_prefix");
        square.detail = 15;
        checks_add(list, future_keys, &square, "law/future_keys");
        if (!forward)
            checks_add(list, past_queries, &square, "law/past_queries");
        struct shape longer = {.batch = 1, .heads_q = 2, .heads_kv = 2, .seqlen_q = 30, .seqlen_k = n + 13};
        longer.mask = GLINT_MASK_CAUSAL_TOP_LEFT;
        longer.detail = 22;
        checks_add(list, future_keys, &longer, "law/future_keys_top_left");
        longer.mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
        longer.detail = n;
        checks_add(list, future_keys, &longer, "law/future_keys_bottom_right");
    }
    if (!forward) {
        checks_add(list, linear_in_dout, &many, "law/linear_in_dout");
        return;
    }
    checks_add(list, head_alone, &many, "law/head_alone");
    if (subject->info.queries_up_to > 0)
        decode_laws(list, subject);
    checks_add(list, linear_in_v, &many, "law/linear_in_v");
    if (subject->info.kv_dtype != GLINT_E4M3) /* whose 4 bits do not hold the grid */
        checks_add(list, shift_keys, &tiles, "law/shift_keys");
    scale_laws(list, subject);
    checks_add(list, ones, &tiles, "law/ones");
    struct shape all_visible = tiles; /* of a causal variant: the one row of a decode step sees every key */
    all_visible.seqlen_q = causal ? 1 : tiles.seqlen_q;
    all_visible.heads_q = 8;
    checks_add(list, permute_keys, &all_visible, "law/permute_keys");
}

void laws_checks(struct check_list *list, const struct subject *subject)
{
    const size_t first = list->count;
    add_laws(list, subject);
    for (size_t i = first; i < list->count; i++)
        list->at[i].threads = list->at[i].run == lanes;
}

/* What holds of any attention holds with ALiBi, whose distances are those of the whole. */
static void alibi_laws(struct check_list *list, const struct subject *subject)
{
    const bool causal = (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0, decode = subject->info.queries_up_to > 0;
    const int64_t m = (int64_t)subject->info.tile_m, n = (int64_t)subject->info.tile_n;
    struct shape s = {.batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = m + 5, .seqlen_k = n + 11, .alibi = SLOPES};
    s.mask = causal ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
    if (subject->backend->executors) {
        checks_add(list, lanes, &s, "law/alibi_lanes");
        list->at[list->count - 1].threads = true;
    }
    if (subject->backend->fences)
        checks_add(list, fences, &s, "law/alibi_fences");
    checks_add(list, batch_alone, &s, "law/alibi_batch_alone");
    if (!causal || subject_intervals(subject)) /* intervals that say a mask have the distances of no mask */
        return;
    s = (struct shape){
        .batch = 1, .heads_q = 4, .heads_kv = 2, .seqlen_q = decode ? 6 : m + 21, .seqlen_k = n + 40, .alibi = SLOPES};
    s.detail = decode ? 2 : m;
    s.mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
    checks_add(list, chunks, &s, "law/alibi_chunks");
    s.mask = GLINT_MASK_CAUSAL_TOP_LEFT;
    s.diagonal = 17;
    checks_add(list, chunks, &s, "law/alibi_chunks_top_left");
    s.diagonal = 0;
    s.seqlen_k = s.seqlen_q;
    checks_add(list, square_alignments, &s, "law/alibi_square_alignments");
}

/* A tensor of ALiBi's numbers is ALiBi: what is exact is made of the slopes. */
static void tensor_of_alibi(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_new(subject, shape);
    float *slopes = check_memory((size_t)shape->heads_q * sizeof *slopes);
    for (int64_t h = 0; h < shape->heads_q; h++)
        slopes[h] = experiment_slope(shape, h);
    e->ref.slopes = slopes;
    e->ref.bias = NULL;
    experiment_reference(e, pass_of(subject) == GLINT_BACKWARD);
    struct results got = experiment_run_plainly(e);
    expect_accurate(e, pass_of(subject), &got);
}

/* Likewise with a bias: its gradient, too, has the same bits with any number of lanes. */
static void bias_laws(struct check_list *list, const struct subject *subject)
{
    const bool causal = (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0, backward = pass_of(subject) == GLINT_BACKWARD;
    const int64_t m = (int64_t)subject->info.tile_m, n = (int64_t)subject->info.tile_n;
    static const unsigned shared[] = {0, SHARED_BATCH, SHARED_BATCH | SHARED_HEAD, SHARED_QUERY, SHARED_BATCH | SHARED_KEY};
    for (int i = 0; i < 5; i++) {
        struct shape s = {.batch = i == 1 ? 19 : 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = m + 5, .seqlen_k = i == 1 ? n : 600};
        s.mask = causal ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
        s.bias = BIAS;
        s.bias_shared = shared[i];
        s.bias_narrow = i % 2 != 0;
        s.dbias = backward;
        if (subject->backend->executors && i % 3 != 0) {
            checks_add(list, lanes, &s, "law/bias_lanes_%d", i);
            list->at[list->count - 1].threads = i == 1;
        }
        s.seqlen_k = n + 11;
        s.batch = 2;
        s.bias_turned = i == 3;
        if (subject->backend->fences && i % 3 == 0)
            checks_add(list, fences, &s, "law/bias_fences_%d", i);
    }
    struct shape s = {.batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = m + 5, .seqlen_k = n + 11, .bias = ALIBI_AS_BIAS};
    for (int top_left = 0; top_left <= causal; top_left++) {
        s.mask = !causal ? GLINT_MASK_NONE : top_left ? GLINT_MASK_CAUSAL_TOP_LEFT : GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
        s.bias_shared = top_left ? SHARED_BATCH : 0;
        checks_add(list, tensor_of_alibi, &s, top_left ? "law/bias_of_alibi_top_left" : "law/bias_of_alibi");
    }
}

void later_laws_checks(struct check_list *list, const struct subject *subject)
{
    const bool causal = (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0;
    const int64_t m = (int64_t)subject->info.tile_m, n = (int64_t)subject->info.tile_n;
    if (causal) {
        struct shape cut = {.batch = 1, .heads_q = 4, .heads_kv = 2, .seqlen_q = m + 21, .seqlen_k = n + 40, .detail = m};
        if (subject->info.queries_up_to > 0)
            cut.seqlen_q = 6, cut.detail = 2;
        cut.mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
        checks_add(list, chunks, &cut, "law/chunks");
        cut.mask = GLINT_MASK_CAUSAL_TOP_LEFT;
        cut.diagonal = 17;
        if ((subject->info.features & GLINT_FEATURE_LEFT_BOUND) != 0) {
            cut.mask = GLINT_MASK_BAND_TOP_LEFT;
            cut.window_left = 30;
            cut.window_right = 3;
        }
        checks_add(list, chunks, &cut, "law/chunks_top_left");
    }
    if (subject->info.pass == GLINT_BACKWARD) {
        struct shape s = {
            .batch = 3, .heads_q = 4, .heads_kv = 2, .seqlen_q = 37, .seqlen_k = 26, .sinks = subject_checks_sinks(subject)};
        s.mask = causal ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
        checks_add(list, no_dlse, &s, "law/no_dlse");
        s.dlse = true;
        checks_add(list, linear_in_dout, &s, "law/linear_in_dlse");
    }
    if (subject_alibi(subject))
        alibi_laws(list, subject);
    if (subject_bias(subject))
        bias_laws(list, subject);
}

/* ---- intervals ---- */

/* Intervals that say what a mask says give the bits of that mask beside intervals that hide nothing. */
static void intervals_say_the_mask(struct subject *subject, const struct shape *shape)
{
    struct shape said = *shape;
    said.intervals = MASK_AS_INTERVALS;
    struct experiment *e = prepared(subject, shape), *f = prepared(subject, &said);
    struct results masked = experiment_run_plainly(e), got = experiment_run_plainly(f);
    expect_same_results(e, &got, &masked, "intervals that say the mask");
}

/* A row of decode serves problems without intervals and trees, too: a chain, and intervals that hide nothing, have the
 * bits of neither. */
static void chain_says_nothing(struct subject *subject, const struct shape *shape)
{
    struct shape bare = *shape;
    bare.intervals = NO_INTERVALS;
    bare.tree = NO_TREE;
    struct experiment *e = prepared(subject, shape), *f = prepared(subject, &bare);
    struct results said = experiment_run_plainly(e), got = experiment_run_plainly(f);
    expect_same_results(e, &said, &got, "neither intervals nor a tree");
}

/* Bits that say what a mask says of the new keys give the bits of the intervals that say it, and a chain those of the
 * causal mask or the window. */
static void tree_says_the_mask(struct subject *subject, const struct shape *shape)
{
    struct shape said = *shape;
    said.tree = WIDE_TREE;
    struct experiment *e = prepared(subject, shape), *f = prepared(subject, &said);
    struct results by_bits = experiment_run_plainly(e), masked = experiment_run_plainly(f);
    expect_same_results(e, &by_bits, &masked, "a tree that says the mask");
}

void tree_laws_checks(struct check_list *list, const struct subject *subject)
{
    const int64_t m = subject->info.tile_m, n = subject->info.tile_n;
    struct shape s = {.batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = subject->info.queries_up_to > 0 ? 37 : m + 21};
    s.seqlen_k = 2 * n + 40;
    s.sinks = subject_checks_sinks(subject);
    s.softcap = subject_caps(subject) ? 3.0f : 0.0f;
    s.intervals = WIDE_INTERVALS;
    for (int chain = 0; chain < 2; chain++) {
        static const char *const by[] = {"bits", "a_chain"};
        s.tree = chain != 0 ? CHAIN_TREE : MASK_AS_TREE;
        s.mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
        s.window_left = s.window_right = s.diagonal = 0;
        checks_add(list, tree_says_the_mask, &s, "law/%s_say_causal", by[chain]);
        s.mask = GLINT_MASK_BAND_BOTTOM_RIGHT;
        s.window_left = 20;
        checks_add(list, tree_says_the_mask, &s, "law/%s_say_a_window", by[chain]);
        s.window_left = n / 2;
        checks_add(list, tree_says_the_mask, &s, "law/%s_say_a_wide_window", by[chain]);
        s.mask = GLINT_MASK_BAND_TOP_LEFT;
        s.diagonal = s.seqlen_k - s.seqlen_q;
        checks_add(list, tree_says_the_mask, &s, "law/%s_say_a_diagonal", by[chain]);
    }
    s.tree = MASK_AS_TREE;
    s.diagonal = s.window_left = 0;
    s.mask = GLINT_MASK_NONE;
    checks_add(list, tree_says_the_mask, &s, "law/bits_say_none");
    s.intervals = OWN_INTERVALS;
    checks_add(list, tree_says_the_mask, &s, "law/bits_say_intervals");
    s.pattern = PATTERN_CHUNKS;
    checks_add(list, tree_says_the_mask, &s, "law/bits_say_chunks");
}

void interval_laws_checks(struct check_list *list, struct subject *subject)
{
    const int64_t m = subject->info.tile_m, n = subject->info.tile_n;
    const bool decode = subject->info.queries_up_to > 0;
    if (!subject_intervals(subject))
        return;
    struct shape s = {.batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = decode ? 6 : m + 21, .seqlen_k = 2 * n + 40};
    s.sinks = subject_checks_sinks(subject);
    s.softcap = subject_caps(subject) ? 3.0f : 0.0f;
    s.intervals = WIDE_INTERVALS;
    for (int window = 0; window < (decode ? 2 : 0); window++) {
        s.mask = window ? GLINT_MASK_BAND_BOTTOM_RIGHT : GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
        s.window_left = window ? n + 7 : 0;
        s.tree = subject_tree(subject) ? CHAIN_TREE : NO_TREE;
        checks_add(list, chain_says_nothing, &s, "law/intervals_or_a_chain_say_nothing_%d", window);
    }
    s.tree = NO_TREE;
    s.window_left = 0;
    s.mask = GLINT_MASK_NONE;
    checks_add(list, intervals_say_the_mask, &s, "law/intervals_say_none");
    s.mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
    checks_add(list, intervals_say_the_mask, &s, "law/intervals_say_bottom_right");
    s.mask = GLINT_MASK_CAUSAL_TOP_LEFT;
    checks_add(list, intervals_say_the_mask, &s, "law/intervals_say_top_left");
    s.mask = GLINT_MASK_BAND_BOTTOM_RIGHT;
    s.window_left = n / 2;
    s.window_right = 3;
    checks_add(list, intervals_say_the_mask, &s, "law/intervals_say_a_window");
    s.mask = GLINT_MASK_BAND_TOP_LEFT;
    s.diagonal = -(s.seqlen_q / 2); /* some queries see nothing */
    checks_add(list, intervals_say_the_mask, &s, "law/intervals_say_a_diagonal");
}

/* Decode on devices of all sizes, which share the keys out as rows, spans, chunks and steps: the answers are right, and
 * have the same bits. `detail`: how many ways there are at least. */
static void any_division(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = prepared(subject, shape);
    const struct ways ways = experiment_ways(subject, &e->problem);
    struct results whole = {.at = {NULL}};
    if (ways.count < shape->detail)
        check_fail("the keys are shared out in %d ways, not in %lld", ways.count, (long long)shape->detail);
    for (int way = 0; way < ways.count; way++)
        for (int large = 0; large <= (ways.largest[way] > ways.smallest[way]); large++) {
            subject->multiprocessors = large ? ways.largest[way] : ways.smallest[way];
            struct results got = experiment_run(e, GLINT_FORWARD, (struct how){LANES_SERIAL, POISON_SIGNALLING_NAN, FENCE_NONE});
            if (way == 0 && !large)
                whole = got;
            expect_same_results(e, &got, &whole, "keys shared out in another way");
        }
    experiment_reference(e, false);
    expect_accurate(e, GLINT_FORWARD, &whole);
}

void divided_laws_checks(struct check_list *list, struct subject *subject)
{
    const bool masked = (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0;
    const int64_t n = (int64_t)subject->info.tile_n;
    if (subject->info.queries_up_to == 0 || subject->backend->plan_for == NULL)
        return;
    struct shape s = {.batch = 1, .heads_q = 4, .heads_kv = 2, .seqlen_q = 1, .seqlen_k = experiment_divisible_keys(subject, 4)};
    s.mask = masked ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
    s.sinks = subject_checks_sinks(subject);
    s.detail = 4;
    checks_add(list, any_division, &s, "divided/spans");
    if (subject_intervals(subject)) {
        struct shape own = s;
        own.heads_q = 3; /* neighbouring rows are of different queries */
        own.heads_kv = 1;
        own.seqlen_q = 3;
        own.mask = GLINT_MASK_NONE;
        own.intervals = OWN_INTERVALS;
        checks_add(list, any_division, &own, "divided/intervals");
        own.mask = GLINT_MASK_BAND_BOTTOM_RIGHT;
        own.window_left = own.seqlen_k / 2;
        own.seqlen_q = 21;
        own.tree = subject_tree(subject) ? ANY_TREE : NO_TREE;
        own.detail = 2; /* so many rows are shared out in fewer ways */
        checks_add(list, any_division, &own, "divided/window");
    }
    s.heads_q = 3;
    s.heads_kv = 1;
    s.seqlen_q = 5;
    s.seqlen_k = experiment_divisible_keys(subject, 3);
    s.layout = LAYOUT_PADDED;
    s.detail = 3;
    checks_add(list, any_division, &s, "divided/chunks");
    struct shape rising = {
        .batch = 1, .heads_q = 2, .heads_kv = 1, .seqlen_q = 2, .data = DATA_RISING, .detail = 1, .mask = s.mask};
    for (int64_t steps = 4; steps <= 36; steps += 4) { /* the largest scores are in the last part, whichever it is of its fold */
        rising.seqlen_k = steps * n - 7;
        checks_add(list, any_division, &rising, "divided/rising_%d", (int)steps);
    }
    if ((subject->info.features & GLINT_FEATURE_LEFT_BOUND) == 0)
        return;
    s.mask = GLINT_MASK_BAND_BOTTOM_RIGHT; /* from the middle of a chunk on; and of so few keys that most parts are empty */
    s.window_left = 7 * n + 3;
    checks_add(list, any_division, &s, "divided/window");
    s.mask = GLINT_MASK_BAND_TOP_LEFT;
    s.window_left = 2;
    s.window_right = n;
    checks_add(list, any_division, &s, "divided/few_keys_of_many");
}

/* A step on devices of several sizes, which share the keys out as more and more units: the answers are right, and have
 * the same bits. */
static void any_device(struct subject *subject, const struct shape *shape)
{
    static const uint32_t devices[] = {1, 3, 12};
    struct experiment *e = prepared(subject, shape);
    struct results whole = {.at = {NULL}};
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        subject->multiprocessors = devices[i];
        struct results got = experiment_run(e, GLINT_FORWARD, (struct how){LANES_SERIAL, POISON_SIGNALLING_NAN, FENCE_NONE});
        if (i == 0)
            whole = got;
        expect_same_results(e, &got, &whole, "keys shared out on another device");
    }
    expect_accurate(e, GLINT_FORWARD, &whole);
}

/* Ends of the keys here and there in a tile, where the tensors end, too: no row beyond them is looked at. */
static void each_end(struct subject *subject, const struct shape *shape)
{
    for (int64_t keys = 3; keys <= 2 * (int64_t)subject->info.tile_n; keys += 16) {
        struct shape s = *shape;
        s.seqlen_k = keys;
        struct experiment *e = prepared(subject, &s);
        const struct results got = experiment_run_plainly(e);
        expect_accurate(e, GLINT_FORWARD, &got);
    }
}

void each_end_checks(struct check_list *list, struct subject *subject)
{
    const bool masked = (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0;
    struct shape s = {.batch = 1, .heads_q = 4, .heads_kv = 2, .seqlen_q = 9}; /* more tiles than blocks at a time */
    s.mask = masked ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
    if (subject->info.queries_up_to > 0 && subject->backend->exact)
        checks_add(list, each_end, &s, "law/each_end");
}

/* Keys of all kinds of spans: of one tile, of two and of four. */
void step_laws_checks(struct check_list *list, struct subject *subject)
{
    const bool band = (subject->info.features & GLINT_FEATURE_LEFT_BOUND) != 0;
    const bool masked = (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0;
    const int64_t n = (int64_t)subject->info.tile_n;
    if (!subject_is_step(subject))
        return;
    struct shape s = {.batch = 1, .heads_q = 2, .heads_kv = 1, .seqlen_q = 3, .seqlen_k = 42 * n + 5, .data = DATA_RISING};
    s.softcap = subject_caps(subject) ? 3.0f : 0.0f;
    s.mask = band ? GLINT_MASK_BAND_BOTTOM_RIGHT : masked ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
    s.window_left = band ? 20 * n : 0;
    checks_add(list, any_device, &s, "law/devices");
}

/* Scores of one size: each span matters, and each head has slots of its own. */
void later_step_laws_checks(struct check_list *list, struct subject *subject)
{
    const bool band = (subject->info.features & GLINT_FEATURE_LEFT_BOUND) != 0;
    const bool masked = (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0;
    const int64_t n = (int64_t)subject->info.tile_n;
    struct shape s = {.batch = 1, .heads_q = 10, .heads_kv = 2, .seqlen_q = 3, .seqlen_k = 42 * n + 5};
    if (!subject_is_step(subject))
        return;
    s.mask = band ? GLINT_MASK_BAND_BOTTOM_RIGHT : masked ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
    s.window_left = band ? 40 * n : 0;
    checks_add(list, any_device, &s, "law/devices_of_even_scores");
}
