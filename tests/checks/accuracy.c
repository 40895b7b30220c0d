#include "tests/checks/accuracy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/oracle/half.h"

/* ---- saying where ---- */

struct place {
    char text[112];
};

static struct place place_of(const struct experiment *e, enum tensor t, int64_t index)
{
    struct place p;
    const int64_t dim = tensor_dim(e, t), rows = tensor_rows(e, t), heads = tensor_heads(e, t);
    snprintf(p.text, sizeof p.text, "%s[batch %lld, head %lld, row %lld, %lld]", tensor_name[t],
             (long long)(index / dim / rows / heads), (long long)(index / dim / rows % heads), (long long)(index / dim % rows),
             (long long)(index % dim));
    return p;
}

/* 0 when equal or both NaN, or the same infinity; NaN when only one of them is a number. */
static double error_of(double got, double expected)
{
    if (isnan(expected))
        return isnan(got) ? 0 : NAN;
    if (isinf(expected) || isinf(got))
        return got == expected ? 0 : NAN;
    return fabs(got - expected);
}

double max_magnitude(const double *x, int64_t count)
{
    double max = 0;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(x[i]) && fabs(x[i]) > max)
            max = fabs(x[i]);
    return max;
}

void expect_near(const struct experiment *e, enum tensor t, const char *category, const float *got, const double *expected,
                 double bound)
{
    int64_t worst = 0;
    double worst_error = 0;
    for (int64_t i = 0, count = tensor_count(e, t); i < count; i++) {
        const double error = error_of((double)got[i], expected[i]);
        if (!(error <= worst_error)) {
            worst_error = error;
            worst = i;
            if (isnan(error))
                break;
        }
    }
    if (!check_within(category, worst_error, bound))
        check_fail("%s is %.9g, exact %.9g, error %.3g, bound %.3g", place_of(e, t, worst).text, (double)got[worst],
                   expected[worst], worst_error, bound);
}

/* ---- against the reference ---- */

static double max_input(const struct experiment *e, enum tensor t)
{
    double max = 0;
    for (int64_t i = 0; i < tensor_count(e, t); i++) /* with a count before the loop gcc 12 for AArch64 fails to vectorise it */
        max = fmax(max, fabs((double)e->in[t][i]));
    return max;
}

/* How far the worst error may lie above a random walk's mean: the largest element, which for normal data is three times
 * the usual one. Where all rows are one, or one column holds the logits, few independent errors are seen and each may
 * be a large one. */
static double size_of(const struct experiment *e, enum tensor t)
{
    const bool normal = e->shape.data == DATA_NORMAL && e->shape.layout != LAYOUT_ONE_ROW;
    return normal ? max_input(e, t) / 3 : max_input(e, t);
}

static double root_mean_square(const float *x, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    return count > 0 ? sqrt(sum / (double)count) : 0;
}

static double max_error(const struct experiment *e, enum tensor t, const float *got)
{
    double max = 0;
    for (int64_t i = 0, count = tensor_count(e, t); i < count; i++) {
        const double error = error_of((double)got[i], e->exact[t][i]);
        if (error > max) /* where the yardstick breaks down (NaN), it allows nothing */
            max = error;
    }
    return max;
}

/* The relative error of a product whose factors were rounded, root mean square. A factor rounded to 11 bits is off by
 * at most u = 2^-11 of itself, evenly spread between -u and u where its mantissa is 1: u / sqrt(3), and two of them add
 * as squares. Other arithmetic multiplies what is stored: exactly for the 16-bit dtypes, to 2^-22 for three tf32
 * products, which the float32 terms below hold. */
static double product_error(enum glint_math math)
{
    return math == GLINT_MATH_TF32 ? 0x1p-11 * sqrt(2.0 / 3) : 0;
}

/* What the tensor cores' own sums add to that. They cut off what does not fit instead of rounding: each step leaves the
 * sum up to an ulp nearer to zero, half of one in the mean, all to one side. A step takes 16 terms of the 16-bit dtypes
 * and 8 of tf32, and three products are three steps: so a score or dP is off by steps * 2^-24 of its size. Where delta
 * cancels dP, that is what remains. */
double sum_error(const struct experiment *e)
{
    if (e->subject->info.sm == 0)
        return 0;
    const double steps = (double)e->ref.head_dim / (e->dtype == GLINT_F32 ? 8 : 16) * (e->math == GLINT_MATH_TF32X3 ? 3 : 1);
    return steps * 0x1p-24;
}

double running_sum_error(const struct experiment *e, double terms)
{
    if (e->subject->info.sm == 0)
        return 0x1p-25 * sqrt(terms);
    return 0x1p-26 * terms / (e->dtype == GLINT_F32 ? 8 : 16) * (e->math == GLINT_MATH_TF32X3 ? 3 : 1);
}

/* What the sums of dK and dV over the queries of a group add, of the tensor's size. */
static double queries_error(const struct experiment *e)
{
    return running_sum_error(e, (double)(e->shape.heads_q / e->shape.heads_kv * e->shape.seqlen_q));
}

/* sqrt(sum_d mean(a_d^2) mean(b_d^2)): how far a sum of head_dim products goes when each is off by its own share of
 * itself. */
static double walk_of(const struct experiment *e, enum tensor a, enum tensor b)
{
    const int64_t dim = e->ref.head_dim, rows_a = tensor_count(e, a) / dim, rows_b = tensor_count(e, b) / dim;
    double walk = 0;
    for (int64_t d = 0; d < dim && rows_a > 0 && rows_b > 0; d++) {
        double square_a = 0, square_b = 0;
        for (int64_t i = 0; i < rows_a; i++)
            square_a += (double)e->in[a][i * dim + d] * (double)e->in[a][i * dim + d];
        for (int64_t i = 0; i < rows_b; i++)
            square_b += (double)e->in[b][i * dim + d] * (double)e->in[b][i * dim + d];
        walk += square_a / (double)rows_a * (square_b / (double)rows_b);
    }
    return sqrt(walk);
}

/* What rounding alone leaves in a tensor, as a random walk: the least that the yardstick is taken to be, so that plain
 * attention which is lucky on a few numbers is no trap. A score is a sum of head_dim products, of the size of LSE, or of
 * the walk of large products that cancel: scores of DATA_ONE_HOT have such, and where a query sees few keys none of them
 * need be large. dP is another sum. With tf32 each of these products is off by product_error, and so is each of P V,
 * P^T dO, dS K and dS^T Q: O and dV by that share of their terms, which averages do not exceed; dQ and dK by that of dS,
 * twice, as dP is such a sum itself. A weight below 2^-126 counts as 0: where each query's sink takes all the weight, dV
 * has no others. */
static double noise_of(const struct experiment *e, enum tensor t, double scale)
{
    const struct shape *s = &e->shape;
    const double terms = sqrt((double)e->ref.head_dim);
    const double product = product_error(e->math), softmax_scale = fabs((double)e->ref.softmax_scale);
    const double walk = s->data == DATA_ONE_HOT || product > 0 ? softmax_scale * walk_of(e, Q, K) : 0;
    const double size = fmax(fmax(1, max_magnitude(e->exact[LSE], tensor_count(e, LSE))), s->data == DATA_ONE_HOT ? walk : 0);
    const double score = (1.5 * 0x1p-25 * terms + sum_error(e) + (s->softcap != 0 ? 6 * 0x1p-24 : 0)) * size + product * walk;
    const double v = root_mean_square(e->in[V], tensor_count(e, V)), dout = root_mean_square(e->in[DOUT], tensor_count(e, DOUT));
    const double delta = dtype_ulp(e->dtype) / 4 * terms * dout * root_mean_square(e->in[O], tensor_count(e, O)); /* O is rounded */
    const double slope = s->softcap != 0 ? 0x1p-20 : 0; /* 1 - tanh^2, with a tanh of 6 ulps */
    const double ds = (0x1p-24 * terms + sum_error(e) + score + 2 * product + slope) * terms * v * dout + delta;
    const double group_rows = sqrt((double)(s->heads_q / s->heads_kv * s->seqlen_q));
    switch (t) {
    case LSE: return score;
    case O: return fmax((score + product) * size_of(e, V), dtype_ulp(GLINT_F32) * scale);
    case DQ: return softmax_scale * ds * size_of(e, K);
    case DK: return softmax_scale * ds * size_of(e, Q) * group_rows + queries_error(e) * scale;
    default:
        return (score + product + dtype_ulp(GLINT_F32) + queries_error(e)) * scale +
               0x1p-126 * group_rows * group_rows * max_input(e, DOUT);
    }
}

static const char *category_of(enum tensor t, enum glint_dtype dtype, bool by_row)
{
    static const char *const name[TENSORS][4] = {[O] = {"", "O f32", "O f16", "O bf16"},
                                                 [LSE] = {"", "LSE f32", "LSE f16", "LSE bf16"},
                                                 [DQ] = {"", "dQ f32", "dQ f16", "dQ bf16"},
                                                 [DK] = {"", "dK f32", "dK f16", "dK bf16"},
                                                 [DV] = {"", "dV f32", "dV f16", "dV bf16"}};
    static const char *const row_name[TENSORS][4] = {[O] = {"", "O f32 by row", "O f16 by row", "O bf16 by row"}};

    return by_row ? row_name[t][dtype] : name[t][dtype];
}

/* The largest error within a row over the row's largest exact element, over all rows. */
static double worst_row(const struct experiment *e, enum tensor t, const float *got, int64_t *row)
{
    const int64_t dim = tensor_dim(e, t);
    double worst = 0;
    *row = 0;
    for (int64_t r = 0; r < tensor_count(e, t) / dim; r++) {
        const double scale = max_magnitude(e->exact[t] + r * dim, dim);
        double error = 0;
        for (int64_t d = 0; d < dim; d++)
            error = fmax(error, error_of((double)got[r * dim + d], e->exact[t][r * dim + d]));
        if (scale > 0 && error / scale > worst) {
            worst = error / scale;
            *row = r;
        }
    }
    return worst;
}

/* Rows of O are averages, of a size of their own; a row of a gradient may be nothing but what cancellation left. */
static bool judged_by_row(const struct experiment *e, enum tensor t)
{
    return t == O && (e->shape.data == DATA_NORMAL || e->shape.data == DATA_LOW || e->shape.data == DATA_HIGH);
}

/* The sinks' gradient: a sum over all rows of a head of P_sink delta. It is off by what rounding leaves in each of
 * them, as a random walk: delta by that of O and of its own sum, P_sink by that of LSE. Each of the rows is added to a
 * sum that is as large as the rows before it, and this rounds, too: it is all there is where no row sees a key and delta
 * is the gradient of LSE. */
static void expect_accurate_dsinks(struct experiment *e, const float *got, const float *plain)
{
    const struct shape *s = &e->shape;
    const double terms = sqrt((double)e->ref.head_dim), rows = sqrt((double)(s->batch * s->seqlen_q));
    const double o = root_mean_square(e->in[O], tensor_count(e, O)), dout = root_mean_square(e->in[DOUT], tensor_count(e, DOUT));
    const double lse = 0x1p-23 * fmax(1, max_magnitude(e->exact[LSE], tensor_count(e, LSE)));
    const double dlse = e->dlse != NULL ? 1 : 0, sum = 0x1p-25 * rows * (terms * o * dout + dlse); /* a normal number */
    const double noise = ((dtype_ulp(e->dtype) / 4 + lse + 0x1p-24 * terms + sum_error(e)) * terms * o * dout + sum) * rows;
    double scale = 0, off = 0;
    for (int64_t h = 0; h < s->heads_q; h++) {
        scale = fmax(scale, fabs(e->exact_dsinks[h]));
        off = fmax(off, error_of((double)plain[h], e->exact_dsinks[h]));
    }
    const double bound = 3 * fmax(off, noise) + dtype_ulp(GLINT_F32) * scale;
    for (int64_t h = 0; h < s->heads_q; h++) {
        const double error = error_of((double)got[h], e->exact_dsinks[h]);
        if (!check_within("dsinks", error, bound))
            check_fail("the gradient of the sink of head %lld is %.9g, exact %.9g, error %.3g, bound %.3g", (long long)h,
                       (double)got[h], e->exact_dsinks[h], error, bound);
    }
}

/* The largest logits: off by what LSE is, of which a score is the greater part. Such a score is no mean one: its
 * products are large, and it is the largest the more for an error that is added. */
static void expect_accurate_logits(const struct experiment *e, const float *got, const float *plain_lse)
{
    double scale = fmax(1, max_magnitude(e->exact[LSE], tensor_count(e, LSE)));
    for (int64_t h = 0; h < e->shape.heads_q; h++)
        scale = isfinite(e->exact_logit[h]) ? fmax(scale, fabs(e->exact_logit[h])) : scale;
    const double bound = 3 * fmax(max_error(e, LSE, plain_lse), noise_of(e, LSE, scale)) + dtype_ulp(GLINT_F32) * scale;
    for (int64_t h = 0; h < e->shape.heads_q; h++) {
        const double error = error_of((double)got[h], e->exact_logit[h]);
        if (!check_within("largest logit", error, bound))
            check_fail("the largest logit of head %lld is %.9g, exact %.9g, error %.3g, bound %.3g", (long long)h, (double)got[h],
                       e->exact_logit[h], error, bound);
    }
}

/* The gradient of a bias: sums of dS over what the bias shares, which are off as random walks of what rounding leaves in
 * each: as noise_of has it of dS. */
static void expect_accurate_dbias(struct experiment *e, const float *got, float *plain)
{
    const struct shape *s = &e->shape;
    const int64_t pairs = pair_count(e);
    double *sums = check_memory((size_t)pairs * sizeof *sums), *shares = check_memory((size_t)pairs * sizeof *shares);
    for (int64_t pair = 0; pair < pairs; pair++)
        sums[pair] = (double)plain[pair], shares[pair] = 1;
    experiment_sum_pairs(e, sums);
    experiment_sum_pairs(e, shares);
    const double terms = sqrt((double)e->ref.head_dim), walk = sqrt(max_magnitude(shares, pairs));
    const double v = root_mean_square(e->in[V], tensor_count(e, V)), dout = root_mean_square(e->in[DOUT], tensor_count(e, DOUT));
    const double delta = dtype_ulp(e->dtype) / 4 * terms * dout * root_mean_square(e->in[O], tensor_count(e, O));
    const double lse = 0x1p-23 * fmax(1, max_magnitude(e->exact[LSE], tensor_count(e, LSE)));
    const double noise = ((0x1p-24 * terms + sum_error(e) + lse + 2 * product_error(e->math)) * terms * v * dout + delta) * walk;
    double off = 0;
    for (int64_t pair = 0; pair < pairs; pair++)
        off = fmax(off, error_of(sums[pair], e->exact_dbias[pair]));
    const double scale = max_magnitude(e->exact_dbias, pairs);
    const double ulp = dtype_ulp((enum glint_dtype)e->problem.bias_dtype) + running_sum_error(e, walk * walk);
    const double bound = 3 * fmax(off, noise) + ulp * scale;
    for (int64_t pair = 0; pair < pairs; pair++) {
        const double error = error_of((double)got[pair], e->exact_dbias[pair]);
        if (!check_within("dbias", error, bound))
            check_fail(
                "the gradient of the bias of batch %lld, head %lld, query %lld and key %lld is %.9g, exact %.9g, error %.3g, bound %.3g",
                (long long)(pair / s->seqlen_k / s->seqlen_q / s->heads_q),
                (long long)(pair / s->seqlen_k / s->seqlen_q % s->heads_q), (long long)(pair / s->seqlen_k % s->seqlen_q),
                (long long)(pair % s->seqlen_k), (double)got[pair], e->exact_dbias[pair], error, bound);
    }
}

void expect_accurate(struct experiment *e, enum glint_pass pass, const struct results *got)
{
    struct results plain = {.at = {NULL}};
    for (enum tensor t = O; t < TENSORS; t++)
        plain.at[t] = check_memory((size_t)tensor_count(e, t) * sizeof(float));
    if (e->sinks != NULL)
        plain.dsinks = check_memory((size_t)e->shape.heads_q * sizeof(float));
    if (e->problem.dbias != 0)
        plain.dbias = check_memory((size_t)pair_count(e) * sizeof(float));
    if (pass == GLINT_FORWARD)
        plain_forward(&e->ref, e->dtype, e->math, e->in[Q], e->in[K], e->in[V], plain.at[O], plain.at[LSE]);
    else
        plain_backward(&e->ref, e->dtype, e->math, e->in[Q], e->in[K], e->in[V], e->in[O], e->in[LSE], e->in[DOUT], e->dlse,
                       plain.at[DQ], plain.at[DK], plain.at[DV], plain.dsinks, plain.dbias);

    const double factor = pass == GLINT_FORWARD ? 2 : 3;
    for (const enum tensor *out = pass_outputs(pass); *out != TENSORS; out++) {
        const enum tensor t = *out;
        double scale = max_magnitude(e->exact[t], tensor_count(e, t));
        if (t == LSE && scale < 1)
            scale = 1; /* maximum and log of the sum cancel */
        const double ulp = dtype_ulp(tensor_dtype(e, t));
        const double yardstick = fmax(max_error(e, t, plain.at[t]), noise_of(e, t, scale));
        expect_near(e, t, category_of(t, e->dtype, false), got->at[t], e->exact[t], factor * yardstick + ulp * scale);

        if (judged_by_row(e, t)) {
            int64_t row, ignored;
            const double error = worst_row(e, t, got->at[t], &row);
            const double row_bound = factor * fmax(worst_row(e, t, plain.at[t], &ignored), noise_of(e, t, 1)) + ulp;
            if (!check_within(category_of(t, e->dtype, true), error, row_bound))
                check_fail("row at %s: error %.3g of its largest element, bound %.3g", place_of(e, t, row * tensor_dim(e, t)).text,
                           error, row_bound);
        }
    }
    if (e->exact_logit != NULL)
        expect_accurate_logits(e, got->max_logit, plain.at[LSE]);
    if (pass == GLINT_BACKWARD && e->sinks != NULL)
        expect_accurate_dsinks(e, got->dsinks, plain.dsinks);
    if (pass == GLINT_BACKWARD && e->problem.dbias != 0)
        expect_accurate_dbias(e, got->dbias, plain.dbias);
}

void expect_absolutely_accurate(struct experiment *e, enum glint_pass pass, const struct results *got)
{
    const double terms = sqrt((double)e->ref.head_dim);
    for (const enum tensor *t = pass_outputs(pass); *t != TENSORS; t++) {
        const double least = *t == LSE ? 1 : *t == DQ || *t == DK ? fabs((double)e->ref.softmax_scale) * terms : 0;
        const double scale = fmax(max_magnitude(e->exact[*t], tensor_count(e, *t)), least); /* terms may cancel */
        /* O adds up as many terms as there are keys: a random walk of about sqrt(keys) / 8 units, whose largest is four
         * times as far. */
        const double keys = *t == O ? sqrt((double)e->shape.seqlen_k) / 2 : 0;
        /* A score is a sum of head_dim terms in plain order; in the backward dP is a second one. */
        const double bias = e->slopes != NULL || e->shape.bias == ALIBI_AS_BIAS ? max_magnitude(e->exact[LSE], tensor_count(e, LSE))
                                                                                : 0; /* of far keys alone */
        const double ulps = (pass == GLINT_FORWARD ? 1 : 2) * (6 + terms + bias + (e->shape.softcap != 0 ? 6 : 0)) + keys;
        /* With tf32, Q K^T and P V (in the backward also dO V^T and the product with dS) are off by product_error of
         * their terms. For data of size 1 a score is then off by as much, and moves P by that share of itself: two
         * shares forward and four backward, and the largest of many thousands of normal numbers is four times their
         * root mean square. dK adds up a share of each query of a group, in a random walk; with one key, whose dP
         * cancels delta, that is all there is of it. */
        const double rows = *t == DK ? sqrt((double)(e->shape.heads_q / e->shape.heads_kv * e->shape.seqlen_q)) : 1;
        const double shares = 4 * fmax(pass == GLINT_FORWARD ? 2 : 4, rows) * product_error(e->math);
        /* The largest of what its sums leave, too, which dK adds up likewise. */
        const double sums = 4 * rows * sum_error(e) + (*t == DK || *t == DV ? 3 * queries_error(e) : 0);
        const char *category = e->math == GLINT_MATH_TF32 ? pass == GLINT_FORWARD ? "absolute tf32 fwd" : "absolute tf32 bwd"
                               : pass == GLINT_FORWARD    ? "absolute f32 fwd"
                                                          : "absolute f32 bwd";
        expect_near(e, *t, category, got->at[*t], e->exact[*t], (ulps * dtype_ulp(GLINT_F32) + shares + sums) * scale);
    }
}

/* ---- bit by bit ---- */

static bool same(float a, float b, bool equal_zeros)
{
    if (isnan(a) && isnan(b))
        return true;
    return equal_zeros ? a == b : memcmp(&a, &b, sizeof a) == 0;
}

void expect_same(const struct experiment *e, enum tensor t, const float *got, const float *expected, bool equal_zeros,
                 const char *what)
{
    int64_t at = 0;
    const int64_t count = tensor_count(e, t);
    while (at < count && same(got[at], expected[at], equal_zeros))
        at++;
    check_within("bitwise", at < count ? 1 : 0, 0);
    if (at < count)
        check_fail("%s: %s is %.9g, expected the same bits as %.9g", what, place_of(e, t, at).text, (double)got[at],
                   (double)expected[at]);
}

void expect_same_row(const struct experiment *e, enum tensor t, const float *got, const float *expected, int64_t b, int64_t h,
                     int64_t row, const char *what)
{
    bool all = true;
    const int64_t dim = tensor_dim(e, t);
    int64_t at = 0;
    for (int64_t d = 0; d < dim && all; d++) {
        all = same(got[d], expected[d], false);
        at = d;
    }
    check_within("bitwise", all ? 0 : 1, 0);
    if (!all)
        check_fail("%s: %s[batch %lld, head %lld, row %lld, %lld] is %.9g, expected the same bits as %.9g", what, tensor_name[t],
                   (long long)b, (long long)h, (long long)row, (long long)at, (double)got[at], (double)expected[at]);
}
