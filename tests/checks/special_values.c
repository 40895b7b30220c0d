/* Infinities, NaN, huge and tiny numbers. The contract (glint.h): a hidden element reaches nothing; a visible one
 * follows IEEE arithmetic into the rows that see it, and no other; a query that sees no key gives O = 0, LSE = -inf,
 * zero gradients, and adds nothing to dK and dV. */
#include <math.h>
#include <string.h>

#include "tests/checks/accuracy.h"
#include "tests/checks/contained.h"
#include "tests/oracle/half.h"
#include "tests/support/rand.h"

static enum glint_pass pass_of(const struct subject *subject)
{
    return (enum glint_pass)subject->info.pass;
}

/* ---- one poisoned element ---- */

void expect_contained(struct experiment *clean, const struct results *before, struct experiment *poisoned, bool unchanged_only)
{
    const enum glint_pass pass = pass_of(clean->subject);
    experiment_reference(poisoned, pass == GLINT_BACKWARD);
    struct results after = experiment_run_plainly(poisoned);

    /* A score of infinity is the cap, and LSE tells what is 2^-10 below it. */
    const bool finite_weights = clean->shape.softcap != 0 && clean->shape.softcap < 0x1p10f && clean->shape.detail <= K;
    for (const enum tensor *out = pass_outputs(pass); *out != TENSORS; out++) {
        const enum tensor t = *out;
        const int64_t dim = tensor_dim(clean, t), rows = tensor_rows(clean, t), heads = tensor_heads(clean, t);
        const double scale = max_magnitude(clean->exact[t], tensor_count(clean, t));
        const double bound = (8 * factor_ulp(clean->math, tensor_dtype(clean, t)) + 64 * dtype_ulp(GLINT_F32)) * (scale + 1);
        for (int64_t i = 0; i < tensor_count(clean, t); i++) {
            const double expected = poisoned->exact[t][i];
            const float got = after.at[t][i];
            const char *fault = NULL;
            if (memcmp(&expected, &clean->exact[t][i], sizeof expected) == 0)
                fault = memcmp(&got, &before->at[t][i], sizeof got) != 0 ? "changed, and does not see it" : NULL;
            else if (unchanged_only && !(t == DV && finite_weights))
                continue;
            else if (isnan(expected) || isinf(expected))
                fault = !(isnan(expected) ? isnan(got) : (double)got == expected) ? "does not follow IEEE arithmetic" : NULL;
            else
                fault = !(fabs((double)got - expected) <= bound + 8 * dtype_ulp(GLINT_F32) * fabs(expected)) ? "is off" : NULL;
            if (fault != NULL)
                check_fail("a poisoned element: %s[batch %lld, head %lld, row %lld, %lld] %s: %.9g, clean %.9g, reference %.9g",
                           tensor_name[t], (long long)(i / dim / rows / heads), (long long)(i / dim / rows % heads),
                           (long long)(i / dim % rows), (long long)(i % dim), fault, (double)got, (double)before->at[t][i],
                           expected);
        }
        check_within("special value", 0, 0);
    }
}

/* shape->detail is the tensor; of the last head of the last batch, one element of the first row is poisoned, or of the
 * last, or half of a row in the middle, here and there: of the last one of a tile where there are six keys more. */
static void poison(struct subject *subject, const struct shape *shape, float with, bool unchanged_only)
{
    const enum tensor t = (enum tensor)shape->detail;
    struct experiment *clean = experiment_new(subject, shape);
    experiment_reference(clean, pass_of(subject) == GLINT_BACKWARD);
    struct results before = experiment_run_plainly(clean);

    const int64_t rows = tensor_rows(clean, t), dim = tensor_dim(clean, t), n = subject->info.tile_n;
    const struct {
        int64_t row, first, count;
    } place[] = {{0, dim - 3, 1}, {rows == n + 6 ? n - 1 : rows / 2, 0, dim}, {rows - 1, 5, 1}};
    for (size_t c = 0; c < sizeof place / sizeof place[0]; c++) {
        struct experiment *poisoned = experiment_copy(clean);
        struct rand r = rand_stream(shape->seed, 109);
        float *row = tensor_row(poisoned, poisoned->in[t], t, shape->batch - 1, tensor_heads(clean, t) - 1, place[c].row);
        for (int64_t d = place[c].first; d < place[c].first + place[c].count; d++)
            if (place[c].count == 1 || rand_below(&r, 2) == 0)
                row[d] = with;
        expect_contained(clean, &before, poisoned, unchanged_only);
    }
}

static void nan_in(struct subject *subject, const struct shape *shape)
{
    poison(subject, shape, NAN, false);
}

static void infinity_in(struct subject *subject, const struct shape *shape)
{
    poison(subject, shape, INFINITY, pass_of(subject) == GLINT_BACKWARD);
}

static void minus_infinity_in(struct subject *subject, const struct shape *shape)
{
    poison(subject, shape, -INFINITY, pass_of(subject) == GLINT_BACKWARD);
}

/* NaN, inf and zero in the scale of the first key, one in the middle, or the last; of the last head of the last
 * batch. */
static void special_scale(struct subject *subject, const struct shape *shape)
{
    static const float with[] = {NAN, INFINITY, -INFINITY, 0};
    const enum tensor t = (enum tensor)shape->detail;
    struct experiment *clean = experiment_new(subject, shape);
    clean->problem.kv_scales = GLINT_SCALES_ROW;
    clean->cache[0].given = clean->cache[1].given = true;
    experiment_reference(clean, false);
    struct results before = experiment_run_plainly(clean);
    const int64_t keys = shape->seqlen_k, row[] = {0, keys / 2, keys - 1};
    for (int i = 0; i < 12; i++) {
        struct experiment *poisoned = experiment_copy(clean);
        const int64_t at = (shape->batch * shape->heads_kv - 1) * keys + row[i / 4];
        float *const x = poisoned->in[t] + at * clean->ref.head_dim;
        poisoned->cache[t - K].scale[at] = with[i % 4];
        for (int64_t d = 0; d < clean->ref.head_dim; d++)
            x[d] = with[i % 4]; /* what they stand for is not compared: bits and scale are */
        expect_contained(clean, &before, poisoned, false);
    }
}

/* Queries that see no key hold NaN in Q and dO: O = 0, LSE = -inf, dQ = 0, and nothing of it reaches dK, dV. In the
 * last batch each head has them in every eighth column of Q alone, beside zeros: no other word of the row tells. */
static void nan_in_blind_rows(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_new(subject, shape);
    for (int64_t bh = 0; bh < shape->batch * shape->heads_q; bh++)
        for (int64_t i = 0; i < shape->seqlen_q && ref_end(&e->ref, i) == ref_first(&e->ref, i); i++)
            for (int64_t d = 0; d < e->ref.head_dim; d++) {
                const int64_t at = (bh * shape->seqlen_q + i) * e->ref.head_dim + d;
                const bool alone = bh / shape->heads_q == shape->batch - 1;
                e->in[Q][at] = !alone || d % 8 == bh % 8 ? NAN : 0;
                if (!alone)
                    e->in[DOUT][at] = d % 2 == 0 ? NAN : INFINITY;
            }
    experiment_reference(e, true);
    struct results got = experiment_run_plainly(e);
    for (int64_t h = 0; h < shape->heads_q && got.dsinks != NULL; h++)
        if (!check_within("special value", isfinite(got.dsinks[h]) ? 0 : 1, 0))
            check_fail("queries that see no key give the sink of head %lld the gradient %g", (long long)h, (double)got.dsinks[h]);
    for (const enum tensor *t = pass_outputs(pass_of(subject)); *t != TENSORS; t++)
        expect_near(e, *t, "special value", got.at[*t], e->exact[*t],
                    (8 * factor_ulp(e->math, tensor_dtype(e, *t)) + 32 * dtype_ulp(GLINT_F32)) *
                        (1 + max_magnitude(e->exact[*t], tensor_count(e, *t))));
}

/* There are no keys, and of every fifth query, the first one too, Q and dO are NaN or -inf: O and dQ are zeros, and LSE
 * is that of no key, in all rows alike. No part of Q may be taken for K or V, which have no memory. */
static void special_queries_of_no_keys(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_new(subject, shape);
    for (int64_t i = 0, count = tensor_count(e, Q); i < count; i++) {
        const int64_t row = i / e->ref.head_dim;
        if (row % 5 == 0)
            e->in[Q][i] = e->in[DOUT][i] = row % 2 == 0 ? NAN : -INFINITY;
    }
    experiment_reference(e, true);
    struct results got = experiment_run_plainly(e);
    for (const enum tensor *t = pass_outputs(pass_of(subject)); *t != TENSORS; t++)
        expect_near(e, *t, "special value", got.at[*t], e->exact[*t], 0);
    for (int64_t h = 0; h < shape->heads_q && got.dsinks != NULL; h++)
        if (!check_within("special value", got.dsinks[h] == 0 ? 0 : 1, 0))
            check_fail("without keys the sink of head %lld has the gradient %g", (long long)h, (double)got.dsinks[h]);
}

/* Half of the queries have no score above -inf. Their sums of exponentials are 0, and O = 0 / 0 is NaN in rows that see
 * a key, and zeros in those that see none. With a sink O = 0 in both. With shape->detail, V of three keys has an
 * infinity, which others that see it take over. */
static void only_minus_infinity(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_new(subject, shape);
    experiment_put_minus_infinity(e, 2);
    for (int64_t h = 0; h < shape->heads_kv; h++)
        for (int64_t i = 0; i < shape->detail; i++)
            tensor_row(e, e->in[V], V, 0, h, i * (shape->seqlen_k - 1) / 2)[3 * i] = i == 1 ? -INFINITY : INFINITY;
    experiment_reference(e, false);
    struct results got = experiment_run_plainly(e);
    for (const enum tensor *out = pass_outputs(GLINT_FORWARD); *out != TENSORS; out++) {
        const enum tensor t = *out;
        const double bound = (8 * factor_ulp(e->math, tensor_dtype(e, t)) + 64 * dtype_ulp(GLINT_F32)) * 8;
        for (int64_t i = 0, count = tensor_count(e, t); i < count; i++) {
            const double expected = e->exact[t][i], x = (double)got.at[t][i];
            if (isnan(expected)   ? isnan(x)
                : isinf(expected) ? x == expected
                                  : fabs(x - expected) <= bound + 8 * dtype_ulp(GLINT_F32) * fabs(expected))
                continue;
            check_fail("with scores of -inf alone %s[%lld] of row %lld is %g, the reference %g", tensor_name[t],
                       (long long)(i % tensor_dim(e, t)), (long long)(i / tensor_dim(e, t) % shape->seqlen_q), x, expected);
        }
        check_within("special value", 0, 0);
    }
}

/* Every seventh query has no score above -inf. Its P = exp(-inf + inf) is NaN, and so are its dQ, and dK and dV of the
 * keys that it sees; no others. */
static void gradients_of_minus_infinity(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_new(subject, shape);
    experiment_put_minus_infinity(e, 7);
    experiment_reference(e, true);
    struct results got = experiment_run_plainly(e);
    for (const enum tensor *out = pass_outputs(GLINT_BACKWARD); *out != TENSORS; out++) {
        const enum tensor t = *out;
        for (int64_t i = 0, count = tensor_count(e, t); i < count; i++)
            if (isnan(e->exact[t][i]) != isnan(got.at[t][i]))
                check_fail("with scores of -inf alone %s[%lld] of row %lld is %g, the reference %g", tensor_name[t],
                           (long long)(i % tensor_dim(e, t)), (long long)(i / tensor_dim(e, t) % tensor_rows(e, t)),
                           (double)got.at[t][i], e->exact[t][i]);
        check_within("special value", 0, 0);
    }
}

/* The same queries beside a sink. P = exp(-inf - sink) is 0: dQ is 0, and dV and the sinks' gradient take nothing. To
 * dK of the keys that they see they give 0 times what Q is, which is NaN where Q is infinite; to no other key. One of
 * them has NaN in dO, too, and its dS is NaN. */
static void gradients_of_minus_infinity_and_sink(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_new(subject, shape);
    const int64_t nth = 7, dim = e->ref.head_dim;
    experiment_put_minus_infinity(e, nth);
    e->in[DOUT][(4 * nth - 1) * dim + dim / 2] = NAN; /* later ones see more keys */
    experiment_reference(e, true);
    struct results got = experiment_run_plainly(e);
    const double terms = fmax(64, (double)shape->seqlen_q); /* of a sum over queries, each rounded */
    const double bound = 8 * factor_ulp(e->math, e->dtype) + terms * dtype_ulp(GLINT_F32);
    for (const enum tensor *t = pass_outputs(GLINT_BACKWARD); *t != TENSORS; t++)
        expect_near(e, *t, "special value", got.at[*t], e->exact[*t],
                    bound * (1 + max_magnitude(e->exact[*t], tensor_count(e, *t))));
    for (int64_t h = 0; h < shape->heads_q; h++) {
        const double x = (double)got.dsinks[h], expected = e->exact_dsinks[h];
        const bool both = isnan(x) && isnan(expected);
        if (!check_within("special value", both ? 0 : fabs(x - expected),
                          bound * (1 + max_magnitude(e->exact_dsinks, shape->heads_q))))
            check_fail("beside scores of -inf alone the sink of head %lld has the gradient %g, exact %g", (long long)h, x,
                       expected);
    }
}

/* NaN in the gradient of LSE: of rows that see nothing it is not read. Of another it reaches dQ of that row, and dK of
 * the keys that the row sees. */
static void nan_in_dlse(struct subject *subject, const struct shape *shape)
{
    struct experiment *clean = experiment_new(subject, shape), *poisoned;
    experiment_reference(clean, false);
    poisoned = experiment_copy(clean);
    const int64_t row = shape->seqlen_q - 3;
    for (int64_t i = 0; i < tensor_count(clean, LSE); i++) {
        const int64_t query = i % shape->seqlen_q;
        if (query == row || ref_first(&clean->ref, query) == ref_end(&clean->ref, query))
            poisoned->dlse[i] = NAN;
    }
    const struct results before = experiment_run_plainly(clean), after = experiment_run_plainly(poisoned);
    for (const enum tensor *t = pass_outputs(GLINT_BACKWARD); *t != TENSORS; t++)
        for (int64_t i = 0; i < tensor_count(clean, *t); i++) {
            const int64_t at = i / tensor_dim(clean, *t) % tensor_rows(clean, *t);
            const bool reached =
                *t == DQ ? at == row : *t == DK && ref_first(&clean->ref, row) <= at && at < ref_end(&clean->ref, row);
            const bool right = reached ? isnan(after.at[*t][i]) : memcmp(&after.at[*t][i], &before.at[*t][i], sizeof(float)) == 0;
            if (!check_within("contained", right ? 0 : 1, 0))
                check_fail("with NaN in the gradient of LSE of row %lld, %s[%lld] is %.9g, without %.9g", (long long)row,
                           tensor_name[*t], (long long)i, (double)after.at[*t][i], (double)before.at[*t][i]);
        }
}

/* NaN or inf in the sink of a head: nothing but that head's rows, and they follow IEEE arithmetic. */
static void special_sink(struct subject *subject, const struct shape *shape)
{
    const enum glint_pass pass = pass_of(subject);
    struct experiment *clean = experiment_new(subject, shape);
    experiment_reference(clean, false);
    struct results before = experiment_run_plainly(clean);
    static const float special[] = {NAN, INFINITY};
    for (size_t c = 0; c < sizeof special / sizeof special[0]; c++) {
        struct experiment *e = experiment_copy(clean);
        e->sinks[1] = special[c];
        experiment_reference(e, false);
        struct results got = experiment_run_plainly(e);
        const int64_t group = shape->heads_q / shape->heads_kv;
        for (const enum tensor *t = pass_outputs(pass); *t != TENSORS; t++)
            for (int64_t i = 0; i < tensor_count(e, *t); i++) {
                const int64_t head = i / tensor_dim(e, *t) / tensor_rows(e, *t) % tensor_heads(e, *t);
                const bool keys = *t == DK || *t == DV, touched = head == (keys ? 1 / group : 1);
                const float x = got.at[*t][i], y = before.at[*t][i];
                if (!touched && memcmp(&x, &y, sizeof x) != 0)
                    check_fail("a special sink of head 1 changes %s of head %lld", tensor_name[*t], (long long)head);
                if (touched && pass == GLINT_FORWARD && !(isnan(e->exact[*t][i]) ? isnan(x) : (double)x == e->exact[*t][i]))
                    check_fail("with a sink of %g %s is %g, the reference %g", (double)special[c], tensor_name[*t], (double)x,
                               e->exact[*t][i]);
            }
        for (int64_t h = 0; h < shape->heads_q && got.dsinks != NULL; h++)
            if (h != 1 && memcmp(&got.dsinks[h], &before.dsinks[h], sizeof(float)) != 0)
                check_fail("a special sink of head 1 changes the gradient of that of head %lld", (long long)h);
        check_within("special value", 0, 0);
    }
}

/* ---- huge logits ---- */

/* Every query and key is +-a in one element: logits +-L, equal for half of the keys. With a^2 = L no step of the plain
 * formula overflows except to the right infinity: exp(-2L) = 0. O is the average of the V of the larger half, LSE = L +
 * log(half). */
static void huge(struct subject *subject, const struct shape *shape, double logit)
{
    struct experiment *e = experiment_new(subject, shape);
    const int64_t dim = e->ref.head_dim;
    const float a = e->dtype == GLINT_F16 ? 256.0f : factor_round(e->math, dtype_round(e->dtype, (float)sqrt(logit)));
    e->ref.softmax_scale = e->problem.softmax_scale = (float)(logit / ((double)a * (double)a));
    memset(e->in[Q], 0, (size_t)tensor_count(e, Q) * sizeof(float));
    memset(e->in[K], 0, (size_t)tensor_count(e, K) * sizeof(float));
    for (int64_t i = 0; i < tensor_count(e, Q) / dim; i++)
        e->in[Q][i * dim] = i % 3 == 0 ? -a : a;
    for (int64_t j = 0; j < tensor_count(e, K) / dim; j++)
        e->in[K][j * dim] = j % 2 == 0 ? -a : a;
    experiment_reference(e, true);
    struct results got = experiment_run_plainly(e);
    if (pass_of(subject) == GLINT_FORWARD) {
        /* Half of the keys have one weight: a random walk of their number, as expect_absolutely_accurate has it. Tensor
         * cores cut each step off beside that. */
        const double walk = sqrt((double)shape->seqlen_k) / 2 * dtype_ulp(GLINT_F32) +
                            (e->subject->info.sm == 0 ? 0 : running_sum_error(e, (double)shape->seqlen_k));
        expect_near(e, O, "huge logits", got.at[O], e->exact[O],
                    (2 * factor_ulp(e->math, e->dtype) + fmax(0x1p-21, walk) + 6 * 0x1p-23 * (double)shape->softcap) *
                        max_magnitude(e->exact[O], tensor_count(e, O)));
        expect_near(e, LSE, "huge logits", got.at[LSE], e->exact[LSE],
                    0x1p-22 * max_magnitude(e->exact[LSE], tensor_count(e, LSE)));
        return;
    }
    /* LSE cannot hold log(half) beside 3e38, so P may be 1 instead of 1 / half, and dQ and dK as large as the scale:
     * but no NaN. */
    for (enum tensor t = DQ; t <= DV; t++)
        for (int64_t i = 0, count = tensor_count(e, t); i < count; i++) {
            const bool fine = t == DV ? isfinite(got.at[t][i]) : !isnan(got.at[t][i]);
            if (!fine)
                check_fail("%s[%lld] is %g with logits of +-%g, exact %g", tensor_name[t], (long long)i, (double)got.at[t][i],
                           logit, e->exact[t][i]);
        }
    check_within("special value", 0, 0);
    if (logit < 1e6)
        expect_near(e, DV, "huge logits", got.at[DV], e->exact[DV],
                    (4 * factor_ulp(e->math, e->dtype) + 4 * dtype_ulp(GLINT_F32) * logit) *
                        max_magnitude(e->exact[DV], tensor_count(e, DV)));
}

static void logits_1e4(struct subject *subject, const struct shape *shape)
{
    huge(subject, shape, 1e4);
}

/* A maximum times the scale is rounded by hundreds here: as an exponent that would be infinity, or zero. Forward only:
 * LSE, which the backward begins with, is rounded as much. */
static void logits_1e10(struct subject *subject, const struct shape *shape)
{
    huge(subject, shape, 1e10);
}

static void logits_3e38(struct subject *subject, const struct shape *shape)
{
    huge(subject, shape, 3e38);
}

/* ---- tiny numbers ---- */

/* The smallest number that the arithmetic tells from zero: of factors of tf32 2^-136. Tiles of bf16 count what is below
 * 2^-126 as zero, products too: those of numbers from 2^-113 on with weights are off by less than rounding. */
static double smallest_factor(const struct experiment *e)
{
    return e->math == GLINT_MATH_NATIVE ? dtype_smallest(e->dtype) : e->math == GLINT_MATH_BF16 ? 0x1p-113 : 0x1p-136;
}

/* V (dO in the backward) is denormal in the dtype: averages of it come out to the last unit, apart from what rounding P
 * to tf32 takes. */
static void denormals(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_new(subject, shape);
    const bool forward = pass_of(subject) == GLINT_FORWARD;
    const enum tensor t = forward ? V : DOUT, out = forward ? O : DV;
    const double unit = dtype_smallest(e->dtype);
    for (int64_t i = 0, count = tensor_count(e, t); i < count; i++)
        e->in[t][i] = (float)(smallest_factor(e) * rint(30 * (double)e->in[t][i]));
    experiment_reference(e, true);
    struct results got = experiment_run_plainly(e);
    const int64_t terms = forward ? shape->seqlen_k : shape->seqlen_q;
    const double units = (double)(e->dtype == GLINT_F32 ? terms + 1 : 1) * (forward ? 1 : 2) * unit;
    const double rounding =
        e->math == GLINT_MATH_NATIVE ? 0 : 2 * factor_ulp(e->math, e->dtype) * max_magnitude(e->exact[out], tensor_count(e, out));
    expect_near(e, out, "denormals", got.at[out], e->exact[out], units + rounding);
}

/* Q and K are denormal: all logits are 0, softmax is uniform. */
static void denormal_logits(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_new(subject, shape);
    for (enum tensor t = Q; t <= K; t++)
        for (int64_t i = 0, count = tensor_count(e, t); i < count; i++)
            e->in[t][i] = (float)(smallest_factor(e) * rint(30 * (double)e->in[t][i]));
    experiment_reference(e, true);
    struct results got = experiment_run_plainly(e);
    expect_accurate(e, pass_of(subject), &got);
}

/* The largest float16: an average of 65504 is 65504, not infinity. */
static void largest_v(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_new(subject, shape);
    const float large = e->dtype == GLINT_F16 ? 65504.0f : 0x1p120f;
    for (int64_t i = 0, count = tensor_count(e, V); i < count; i++)
        e->in[V][i] = large;
    experiment_reference(e, false);
    struct results got = experiment_run_plainly(e);
    expect_near(e, O, "special value", got.at[O], e->exact[O],
                (factor_ulp(e->math, e->dtype) + 8 * dtype_ulp(GLINT_F32)) * (double)large);
}

/* ---- the list ---- */

void special_values_checks(struct check_list *list, const struct subject *subject)
{
    /* a sum of 3e38 would, before K's scale halves it */
    const bool overflows = subject->info.kv_dtype == GLINT_E4M3 && subject->info.dtype == GLINT_F16;
    const bool forward = subject->info.pass == GLINT_FORWARD, causal = (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0;
    const int64_t n = (int64_t)subject->info.tile_n;
    struct shape s = {.batch = subject->backend->exact ? 1 : 2, .heads_q = 2, .heads_kv = 1, .seqlen_q = 11, .seqlen_k = n + 6};
    s.mask = causal ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;

    for (enum tensor t = Q; t <= DOUT; t++) {
        if (t == O || t == LSE || (t == DOUT && forward))
            continue;
        s.detail = t;
        checks_add(list, nan_in, &s, "special/nan_in_%s", tensor_name[t]);
        checks_add(list, infinity_in, &s, "special/inf_in_%s", tensor_name[t]);
        checks_add(list, minus_infinity_in, &s, "special/minus_inf_in_%s", tensor_name[t]);
    }
    if (forward) {
        /* More queries than keys: with a mask the first ones see none. And more keys than a block has, which decode
         * gives to several blocks. */
        struct shape few = s, many = s;
        few.detail = many.detail = 0;
        few.seqlen_q = 40, few.seqlen_k = 13;
        many.seqlen_q = subject->info.queries_up_to > 0 ? 2 : 11, many.seqlen_k = 5 * n + 9;
        for (int window = 0; window < ((subject->info.features & GLINT_FEATURE_LEFT_BOUND) != 0 ? 3 : 1); window++) {
            const enum glint_mask mask = window == 1   ? GLINT_MASK_BAND_BOTTOM_RIGHT
                                         : window == 2 ? GLINT_MASK_BAND_TOP_LEFT
                                                       : s.mask;
            few.mask = many.mask = mask;
            few.window_left = many.window_left = window == 0 ? 0 : 5;
            few.window_right = many.window_right = window == 0 ? 0 : 1;
            for (int sinks = 0; sinks < (subject_checks_sinks(subject) ? 2 : 1); sinks++) {
                static const char *const name[] = {"", "window_bottom_right_", "window_top_left_"};
                few.sinks = many.sinks = sinks == 1;
                checks_add(list, only_minus_infinity, &few, "special/%s%sonly_minus_inf", name[window], sinks == 1 ? "sinks_" : "");
                checks_add(list, only_minus_infinity, &many, "special/%s%sonly_minus_inf_many_keys", name[window],
                           sinks == 1 ? "sinks_" : "");
            }
        }
    }
    if (!forward) {
        struct shape few = s;
        few.seqlen_q = 40;
        checks_add(list, gradients_of_minus_infinity, &few, "special/only_minus_inf");
        /* The kernels that the sinks' gradient is not checked of, as those of other head dims show it, take what it
         * says of a row, too. */
        const bool takes_sinks = subject->info.isa != GLINT_ISA_ANY || strcmp(subject->info.family, "sm80") == 0;
        struct shape sinks = few;
        sinks.sinks = true;
        if (takes_sinks)
            checks_add(list, gradients_of_minus_infinity_and_sink, &sinks, "special/sinks_only_minus_inf");
        sinks.seqlen_k = few.seqlen_k = 13;
        checks_add(list, gradients_of_minus_infinity, &few, "special/only_minus_inf_blind_rows");
        if ((subject->info.features & GLINT_FEATURE_LEFT_BOUND) != 0) {
            sinks.mask = few.mask = GLINT_MASK_BAND_TOP_LEFT;
            sinks.window_left = few.window_left = 5;
            sinks.window_right = few.window_right = 1;
            checks_add(list, gradients_of_minus_infinity, &few, "special/window_only_minus_inf");
        }
        if (takes_sinks && causal)
            checks_add(list, gradients_of_minus_infinity_and_sink, &sinks, "special/sinks_only_minus_inf_blind_rows");
        /* More rows than a GPU's block has threads, several times: every turn of its loop has such rows. */
        struct shape turns = {.batch = 1, .heads_q = 2, .heads_kv = 1, .seqlen_q = 7 * 256 + 40, .seqlen_k = 13, .sinks = true};
        turns.mask = causal ? GLINT_MASK_CAUSAL_TOP_LEFT : GLINT_MASK_NONE;
        if (subject_checks_sinks(subject))
            checks_add(list, gradients_of_minus_infinity_and_sink, &turns, "special/sinks_only_minus_inf_many_rows");
        turns.mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
        if (subject_checks_sinks(subject) && causal)
            checks_add(list, gradients_of_minus_infinity_and_sink, &turns, "special/sinks_only_minus_inf_many_blind_rows");
    }
    struct shape none = s; /* some tiles of queries */
    none.seqlen_q = (int64_t)subject->info.tile_m + 9;
    none.seqlen_k = 0;
    checks_add(list, special_queries_of_no_keys, &none, "special/queries_of_no_keys");
    if (causal) {
        struct shape blind = {.batch = 2, .heads_kv = 1, .seqlen_q = 40, .seqlen_k = 13, .mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT};
        blind.heads_q = forward ? 2 : 8;
        checks_add(list, nan_in_blind_rows, &blind, "special/nan_in_blind_rows");
        struct shape top_left = s;
        top_left.mask = GLINT_MASK_CAUSAL_TOP_LEFT;
        top_left.detail = V;
        checks_add(list, nan_in, &top_left, "special/nan_in_V_top_left");
    }
    if ((subject->info.features & GLINT_FEATURE_LEFT_BOUND) != 0) {
        none.mask = GLINT_MASK_BAND_TOP_LEFT;
        none.window_left = 5;
        none.window_right = 1;
        checks_add(list, special_queries_of_no_keys, &none, "special/window_queries_of_no_keys");
        none.mask = s.mask;
        none.window_left = none.window_right = 0;
        /* The key in the middle is hidden from some queries by the left side, and between the sides whole blocks are
         * seen. */
        struct shape cut = s;
        cut.seqlen_q = 40;
        cut.seqlen_k = 8 * n + 2;
        cut.mask = GLINT_MASK_BAND_BOTTOM_RIGHT;
        cut.window_left = 4 * n - 20;
        cut.window_right = 0;
        cut.detail = V;
        checks_add(list, nan_in, &cut, "special/window_of_whole_blocks_nan_in_V");
        struct shape window = s;
        window.seqlen_q = 40;
        window.seqlen_k = n + 31;
        window.window_left = 13;
        window.window_right = 3;
        for (int top_left = 0; top_left < 2; top_left++) {
            window.mask = top_left ? GLINT_MASK_BAND_TOP_LEFT : GLINT_MASK_BAND_BOTTOM_RIGHT;
            for (enum tensor t = Q; t <= DOUT; t++) {
                if (t == O || t == LSE || (t == DOUT && forward))
                    continue;
                window.detail = t;
                checks_add(list, nan_in, &window, "special/window_%s_nan_in_%s", top_left ? "top_left" : "bottom_right",
                           tensor_name[t]);
                checks_add(list, infinity_in, &window, "special/window_%s_inf_in_%s", top_left ? "top_left" : "bottom_right",
                           tensor_name[t]);
            }
            const struct shape blind = {.batch = 2,
                                        .heads_q = 2,
                                        .heads_kv = 1,
                                        .seqlen_q = 40,
                                        .seqlen_k = 13,
                                        .mask = window.mask,
                                        .window_left = 5,
                                        .window_right = 1};
            checks_add(list, nan_in_blind_rows, &blind, "special/window_%s_nan_in_blind_rows",
                       top_left ? "top_left" : "bottom_right");
        }
    }
    if (subject_checks_sinks(subject)) {
        struct shape sinks = s;
        sinks.sinks = true;
        sinks.heads_q = sinks.heads_kv = 3;
        checks_add(list, special_sink, &sinks, "special/sink");
        sinks.heads_q = 4, sinks.heads_kv = 2;
        checks_add(list, special_sink, &sinks, "special/sink_of_a_group");
        none.sinks = true;
        checks_add(list, special_queries_of_no_keys, &none, "special/sinks_queries_of_no_keys");
        none.sinks = false;
        if (causal) {
            const struct shape blind = {.batch = 2,
                                        .heads_q = 2,
                                        .heads_kv = 1,
                                        .seqlen_q = 40,
                                        .seqlen_k = 13,
                                        .mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT,
                                        .sinks = true};
            checks_add(list, nan_in_blind_rows, &blind, "special/sinks_nan_in_blind_rows");
        }
    }
    if (subject_caps(subject)) {
        struct shape capped = s;
        capped.softcap = none.softcap = 3;
        checks_add(list, special_queries_of_no_keys, &none, "special/softcap_queries_of_no_keys");
        for (enum tensor t = Q; t <= DOUT; t++) {
            if (t == O || t == LSE || (t == DOUT && forward))
                continue;
            capped.detail = t;
            checks_add(list, nan_in, &capped, "special/softcap_nan_in_%s", tensor_name[t]);
            checks_add(list, infinity_in, &capped, "special/softcap_inf_in_%s", tensor_name[t]);
            checks_add(list, minus_infinity_in, &capped, "special/softcap_minus_inf_in_%s", tensor_name[t]);
        }
        checks_add(list, logits_1e4, &capped, "special/softcap_logits_1e4");
        if (!overflows)
            checks_add(list, logits_3e38, &capped, "special/softcap_logits_3e38");
        if (causal) {
            struct shape blind = {.batch = 2, .heads_q = 2, .heads_kv = 1, .seqlen_q = 40, .seqlen_k = 13};
            blind.mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
            blind.softcap = 3;
            checks_add(list, nan_in_blind_rows, &blind, "special/softcap_nan_in_blind_rows");
        }
    }
    for (enum tensor t = K; t <= V && subject->info.kv_dtype != 0; t++) {
        s.detail = t;
        checks_add(list, special_scale, &s, "special/scale_of_%s", tensor_name[t]);
    }
    checks_add(list, logits_1e4, &s, "special/logits_1e4");
    if (forward)
        checks_add(list, logits_1e10, &s, "special/logits_1e10");
    if (!overflows)
        checks_add(list, logits_3e38, &s, "special/logits_3e38");
    checks_add(list, denormals, &s, "special/denormals");
    checks_add(list, denormal_logits, &s, "special/denormal_logits");
    if (forward)
        checks_add(list, largest_v, &s, "special/largest_v");
}

/* Of trees: the last row of K is a new key, which few queries see, and so are others of the second shape. In the third
 * every query sees keys on both sides of the row in the middle, the first new key, and some do not see that. */
void tree_special_checks(struct check_list *list, const struct subject *subject)
{
    const int64_t n = (int64_t)subject->info.tile_n;
    struct shape s = {.batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = 45, .seqlen_k = 2 * n + 9, .tree = OWN_TREE};
    s.intervals = WIDE_INTERVALS;
    for (enum tensor t = Q; t <= V; t++)
        for (int any = 0; any < 2; any++) {
            s.detail = t;
            s.tree = any != 0 ? ANY_TREE : OWN_TREE;
            s.seqlen_k = any != 0 ? 47 : 2 * n + 9;
            s.mask = any != 0 ? GLINT_MASK_BAND_BOTTOM_RIGHT : GLINT_MASK_NONE;
            s.window_left = any != 0 ? 12 : 0;
            checks_add(list, nan_in, &s, "special/tree_%d_nan_in_%s", any, tensor_name[t]);
            checks_add(list, infinity_in, &s, "special/tree_%d_inf_in_%s", any, tensor_name[t]);
        }
    s.tree = HOLES_TREE;
    s.mask = GLINT_MASK_NONE;
    s.window_left = 0;
    s.seqlen_q = subject->info.queries_up_to > 0 ? 37 : n + 9;
    s.seqlen_k = 2 * s.seqlen_q;
    for (enum tensor t = K; t <= V; t++) {
        s.detail = t;
        checks_add(list, nan_in, &s, "special/tree_of_holes_nan_in_%s", tensor_name[t]);
        checks_add(list, infinity_in, &s, "special/tree_of_holes_inf_in_%s", tensor_name[t]);
    }
}

/* NaN and inf in the slope of one head reach its rows, each of which sees some key, and no other head's. */
static void special_slope(struct subject *subject, const struct shape *shape)
{
    static const float with[] = {NAN, INFINITY};
    struct experiment *clean = experiment_new(subject, shape);
    experiment_reference(clean, false);
    const struct results before = experiment_run_plainly(clean);
    for (int i = 0; i < 2; i++) {
        struct experiment *poisoned = experiment_copy(clean);
        poisoned->slopes[1] = with[i];
        const struct results after = experiment_run_plainly(poisoned);
        for (const enum tensor *t = pass_outputs(pass_of(subject)); *t == O || *t == LSE || *t == DQ; t++)
            for (int64_t bh = 0; bh < shape->batch * shape->heads_q; bh++)
                for (int64_t x = 0; x < shape->seqlen_q * tensor_dim(clean, *t); x++) {
                    const int64_t at = bh * shape->seqlen_q * tensor_dim(clean, *t) + x;
                    const float was = before.at[*t][at], is = after.at[*t][at];
                    const bool right = bh % shape->heads_q != 1 ? memcmp(&was, &is, sizeof is) == 0 : i != 0 || isnan(is);
                    if (!check_within("special slope", right ? 0 : 1, 0))
                        check_fail("%s of head %lld is %g, and was %g, with %g in the slope of head 1", tensor_name[*t],
                                   (long long)(bh % shape->heads_q), (double)is, (double)was, (double)with[i]);
                }
    }
}

/* V of one key is infinite in all columns, of each of the last keys in turn: no finite number is left in the rows that
 * see the key, and of the others not a bit changes. Every row begins and ends with another key, so that each is looked
 * at from both sides. */
static void infinity_at_each_key(struct subject *subject, const struct shape *shape)
{
    struct experiment *clean = experiment_new(subject, shape);
    const int64_t dim = tensor_dim(clean, V);
    experiment_reference(clean, false);
    const struct results before = experiment_run_plainly(clean);
    for (int64_t key = shape->seqlen_k - shape->detail; key < shape->seqlen_k; key++) {
        struct experiment *poisoned = experiment_copy(clean);
        for (int64_t h = 0; h < shape->heads_kv; h++)
            for (int64_t d = 0; d < dim; d++)
                tensor_row(poisoned, poisoned->in[V], V, 0, h, key)[d] = INFINITY;
        const struct results after = experiment_run_plainly(poisoned);
        for (int64_t i = 0; i < tensor_count(clean, O); i++) {
            const int64_t query = i / dim % shape->seqlen_q;
            const bool sees = ref_first(&clean->ref, query) <= key && key < ref_end(&clean->ref, query);
            const bool right = sees ? !isfinite(after.at[O][i]) : memcmp(&after.at[O][i], &before.at[O][i], sizeof(float)) == 0;
            if (!check_within("contained", right ? 0 : 1, 0))
                check_fail("with infinities in V of key %lld, O of query %lld at %lld is %.9g, without %.9g", (long long)key,
                           (long long)query, (long long)(i % dim), (double)after.at[O][i], (double)before.at[O][i]);
        }
    }
}

void each_key_checks(struct check_list *list, const struct subject *subject)
{
    const int64_t n = (int64_t)subject->info.tile_n;
    struct shape s = {.batch = 1, .heads_q = 1, .heads_kv = 1, .seqlen_q = 8, .seqlen_k = n + 5, .detail = 11};
    if (subject->info.queries_up_to == 0 || subject->info.kv_dtype != 0 || subject_tree(subject) ||
        (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) == 0)
        return;
    s.mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
    checks_add(list, infinity_at_each_key, &s, "special/inf_at_each_key");
    if ((subject->info.features & GLINT_FEATURE_LEFT_BOUND) == 0)
        return;
    s.mask = GLINT_MASK_BAND_BOTTOM_RIGHT;
    s.window_left = 4;
    s.detail = 13;
    checks_add(list, infinity_at_each_key, &s, "special/inf_at_each_key_of_a_window");
}

/* The queries of only_minus_infinity beside infinities of V, which 8 bits have not, in tiles that a mask cuts and in
 * others. */
void infinite_values_checks(struct check_list *list, const struct subject *subject)
{
    const int64_t n = (int64_t)subject->info.tile_n;
    struct shape s = {.batch = 1, .heads_q = 2, .heads_kv = 1, .seqlen_q = 11, .seqlen_k = 2 * n + 9, .detail = 3};
    if (pass_of(subject) != GLINT_FORWARD || subject_tree(subject) || subject->info.kv_dtype != 0)
        return;
    for (int which = 0; subject_band(subject, which, &s); which++)
        for (int sinks = 0; sinks < (subject_checks_sinks(subject) ? 2 : 1); sinks++) {
            s.sinks = sinks == 1;
            checks_add(list, only_minus_infinity, &s, "special/%sonly_minus_inf_%d_inf_in_V", s.sinks ? "sinks_" : "", which);
        }
}

void later_special_values_checks(struct check_list *list, const struct subject *subject)
{
    struct shape s = {.batch = 2, .heads_q = 2, .heads_kv = 1, .seqlen_q = 40, .seqlen_k = 27, .dlse = true};
    s.mask = (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0 ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
    if (subject->info.pass == GLINT_BACKWARD)
        checks_add(list, nan_in_dlse, &s, "special/nan_in_dlse");
    for (enum tensor t = Q; t <= DOUT && subject_intervals(subject); t++) {
        struct shape own = {
            .batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = 45, .seqlen_k = 2 * (int64_t)subject->info.tile_n + 9};
        own.mask = GLINT_MASK_NONE;
        own.intervals = OWN_INTERVALS;
        own.detail = t;
        if (t == O || t == LSE || (t == DOUT && subject->info.pass != GLINT_BACKWARD))
            continue;
        checks_add(list, nan_in, &own, "special/intervals_nan_in_%s", tensor_name[t]);
        checks_add(list, infinity_in, &own, "special/intervals_inf_in_%s", tensor_name[t]);
    }
    if (pass_of(subject) != GLINT_FORWARD)
        return;
    /* Six tiles of queries, for the simulator's four multiprocessors: in a persistent kernel a tile ends while the next
     * one begins. */
    struct shape tiles = {.batch = 1, .heads_q = 6, .heads_kv = 1, .seqlen_q = 11, .mask = s.mask, .detail = V};
    tiles.seqlen_k = 8 * (int64_t)subject->info.tile_n + 6;
    checks_add(list, nan_in, &tiles, "special/several_tiles_nan_in_V");
    if (subject->info.kv_dtype != GLINT_E4M3 || subject->info.dtype != GLINT_F16) /* K's scale halves too late */
        checks_add(list, logits_3e38, &tiles, "special/several_tiles_logits_3e38");
    struct shape alibi = {.batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = 45, .seqlen_k = 45, .mask = s.mask, .alibi = SLOPES};
    for (enum tensor t = Q; t <= DOUT && subject_alibi(subject); t++) {
        alibi.detail = t;
        if (t != O && t != LSE && (t != DOUT || subject->info.pass == GLINT_BACKWARD))
            checks_add(list, nan_in, &alibi, "special/alibi_nan_in_%s", tensor_name[t]);
    }
    if (subject_alibi(subject))
        checks_add(list, special_slope, &alibi, "special/slope");
    /* NaN so far away that a kernel may leave weights out. */
    struct shape far = {.batch = 1, .heads_q = 5, .heads_kv = 1, .seqlen_q = 3, .seqlen_k = 5003, .alibi = SLOPES, .detail = K};
    far.mask = s.mask;
    if (subject_alibi(subject) && subject->info.isa == GLINT_ISA_ANY)
        checks_add(list, nan_in, &far, "special/alibi_far_nan_in_K");
}

static bool sees_key(const struct experiment *e, int64_t query, int64_t key)
{
    return ref_first(&e->ref, query) <= key && key < ref_end(&e->ref, query);
}

/* Rows of a tensor: `first`, and with `every` each that is so many further. What they hold: NaN, or, of K, infinities
 * whose product with query `tuned` is -inf, or with the query whose first or last key a row is. */
struct special_rows {
    int64_t first, every, tuned;
};

enum { NO_QUERY = -1, QUERY_BEGUN = -2, QUERY_ENDED = -3 };

static bool is_special(const struct special_rows *rows, int64_t row)
{
    return rows->every > 0 ? row % rows->every == rows->first : row == rows->first;
}

/* Rows of `out` that look at one are not finite, and of the others not a bit changes. */
static void special_in_rows(struct experiment *clean, const struct results *before, enum tensor t, struct special_rows rows,
                            enum tensor out)
{
    struct experiment *poisoned = experiment_copy(clean);
    const bool is_key = t == K || t == V;
    const int64_t others = tensor_rows(clean, out), beside = rows.tuned == QUERY_BEGUN ? -1 : 1;
    bool *const reached = check_memory((size_t)others + 1);
    for (int64_t row = 0; row < tensor_rows(clean, t); row++) {
        int64_t tuned = rows.tuned;
        if (!is_special(&rows, row))
            continue;
        for (int64_t other = 0; other < others; other++) {
            const bool sees = sees_key(clean, is_key ? other : row, is_key ? row : other);
            reached[other] = reached[other] || sees;
            if (rows.tuned < NO_QUERY && sees && !sees_key(clean, other, row + beside))
                tuned = other;
        }
        const float *const query = tuned >= 0 ? tensor_row(clean, clean->in[Q], Q, 0, 0, tuned) : NULL;
        float *const at = tensor_row(poisoned, poisoned->in[t], t, 0, 0, row);
        for (int64_t d = 0; d < tensor_dim(clean, t); d++)
            at[d] = query == NULL ? NAN : query[d] > 0 ? -INFINITY : INFINITY;
    }
    experiment_reference(poisoned, false); /* the backward pass is given what the forward pass makes of it */
    const struct results after = experiment_run_plainly(poisoned);
    for (int64_t i = 0; i < tensor_count(clean, out); i++) {
        const int64_t other = i / tensor_dim(clean, out) % others;
        const float x = after.at[out][i], y = before->at[out][i];
        if (!check_within("contained", (reached[other] ? !isfinite(x) : memcmp(&x, &y, sizeof x) == 0) ? 0 : 1, 0))
            check_fail("with special rows %lld (+ %lld) of %s, %s[row %lld] is %.9g, without %.9g", (long long)rows.first,
                       (long long)rows.every, tensor_name[t], tensor_name[out], (long long)other, (double)x, (double)y);
    }
}

/* At both sides of the first key and of the last one of `detail` queries here and there; backward in these queries,
 * too. Of a score of -inf the weight is 0, and nothing but the infinities in K tells. */
static void special_at_edges(struct subject *subject, const struct shape *shape)
{
    struct experiment *clean = experiment_new(subject, shape);
    experiment_reference(clean, false);
    const struct results before = experiment_run_plainly(clean);
    const bool forward = pass_of(subject) == GLINT_FORWARD;
    const enum tensor out = forward ? O : DQ;
    const int64_t step = shape->seqlen_q / shape->detail;
    for (int64_t key = 0; key < shape->seqlen_k; key++) {
        const struct special_rows nan = {key, 0, NO_QUERY};
        bool edge = false;
        for (int64_t query = 0; query < shape->seqlen_q; query += step) {
            const bool sees = sees_key(clean, query, key), first = sees && !sees_key(clean, query, key - 1),
                       last = sees && !sees_key(clean, query, key + 1);
            if (!forward && (first || last))
                special_in_rows(clean, &before, K, (struct special_rows){key, 0, query}, out);
            edge = edge || first || last || (!sees && (sees_key(clean, query, key - 1) || sees_key(clean, query, key + 1)));
        }
        if (edge && forward)
            special_in_rows(clean, &before, K, nan, out);
        if (edge)
            special_in_rows(clean, &before, V, nan, out);
    }
    for (int64_t query = 0; query < shape->seqlen_q && !forward; query += step) {
        special_in_rows(clean, &before, Q, (struct special_rows){query, 0, NO_QUERY}, DK);
        special_in_rows(clean, &before, DOUT, (struct special_rows){query, 0, NO_QUERY}, DV);
    }
}

/* Of a window of some keys the edges of all queries: of special rows that are one further apart than it is wide a query
 * sees one, at each of its places in turn, or none, of which one is right before it and one behind. */
static void special_at_all_edges(struct subject *subject, const struct shape *shape)
{
    struct experiment *clean = experiment_new(subject, shape);
    experiment_reference(clean, false);
    const struct results before = experiment_run_plainly(clean);
    struct special_rows rows = {.every = shape->window_left + shape->window_right + 2};
    for (; rows.first < rows.every; rows.first++) {
        rows.tuned = NO_QUERY;
        if (pass_of(subject) == GLINT_FORWARD) {
            special_in_rows(clean, &before, K, rows, O);
            special_in_rows(clean, &before, V, rows, O);
            continue;
        }
        special_in_rows(clean, &before, V, rows, DQ);
        special_in_rows(clean, &before, Q, rows, DK);
        special_in_rows(clean, &before, DOUT, rows, DV);
        for (rows.tuned = QUERY_ENDED; rows.tuned <= QUERY_BEGUN; rows.tuned++)
            special_in_rows(clean, &before, K, rows, DQ);
    }
}

void edges_checks(struct check_list *list, const struct subject *subject)
{
    const int64_t m = (int64_t)subject->info.tile_m, n = (int64_t)subject->info.tile_n;
    const bool masked = (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0, forward = pass_of(subject) == GLINT_FORWARD;
    struct shape one = {.batch = 1, .heads_q = 2, .heads_kv = 1, .seqlen_q = 29, .seqlen_k = 1};
    one.mask = masked ? GLINT_MASK_CAUSAL_TOP_LEFT : GLINT_MASK_NONE;
    if (forward)
        checks_add(list, only_minus_infinity, &one, "special/only_minus_inf_one_key");
    struct shape s = {.batch = 1, .heads_q = 1, .heads_kv = 1, .seqlen_q = 36, .seqlen_k = n + 20, .detail = 4};
    if (subject->info.kv_dtype != 0 || subject_tree(subject) || !masked)
        return;
    const bool windows = (subject->info.features & GLINT_FEATURE_LEFT_BOUND) != 0;
    s.mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
    s.detail = windows ? 2 : 4; /* a window has the same edges */
    checks_add(list, special_at_edges, &s, "special/at_edges");
    if (windows) {
        struct shape window = s; /* the queries of a tile of the backward pass */
        window.seqlen_q = forward || m < s.seqlen_q ? s.seqlen_q : m < 64 ? m : 64;
        window.mask = GLINT_MASK_BAND_BOTTOM_RIGHT;
        window.window_left = 3;
        checks_add(list, special_at_all_edges, &window, "special/at_edges_of_a_window");
    }
    if (subject_intervals(subject)) {
        s.mask = GLINT_MASK_NONE;
        s.detail = 4;
        s.intervals = OWN_INTERVALS;
        checks_add(list, special_at_edges, &s, "special/at_edges_of_intervals");
    }
}
