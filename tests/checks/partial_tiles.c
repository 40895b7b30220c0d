/* Infinities beside tiles that are not full. A kernel fills what lies beyond the last query or key with zeros, and 0
 * times an infinity is NaN: it must not reach dQ, dK and dV of rows that there are. All other numbers of the inputs are
 * positive, so that each sum has one infinity or none, and does not depend on its order. */
#include <math.h>
#include <string.h>

#include "tests/checks/accuracy.h"
#include "tests/oracle/half.h"

/* One element, of a column of its own, of the first row, one in the middle and the last one. */
static void put_infinities(const struct experiment *e, enum tensor t, float with)
{
    const int64_t rows = tensor_rows(e, t), at[] = {0, rows / 2, rows - 1};
    for (int64_t h = 0; h < tensor_heads(e, t); h++)
        for (int i = 0; i < 3; i++)
            tensor_row(e, e->in[t], t, 0, h, at[i])[3 * i + 1] = with;
    for (int64_t h = 0; h < tensor_heads(e, Q) && t == Q && e->sinks != NULL; h++) /* as forward */
        for (int i = 0; i < 3; i++) {
            e->in[LSE][h * rows + at[i]] = e->sinks[h];
            memset(tensor_row(e, e->in[O], O, 0, h, at[i]), 0, (size_t)tensor_dim(e, O) * sizeof(float));
        }
    for (int64_t h = 0; h < tensor_heads(e, DOUT) && t == DOUT; h++) /* so that dP - delta is no NaN */
        for (int i = 0; i < 3; i++)
            tensor_row(e, e->in[O], O, 0, h, at[i])[3 * i + 1] = -1;
}

/* The gradients of the inputs as they are, O and LSE too. */
static void exact_gradients(struct experiment *e)
{
    double *in[TENSORS] = {NULL};
    for (enum tensor t = Q; t <= DOUT; t++) {
        in[t] = check_memory((size_t)tensor_count(e, t) * sizeof(double));
        for (int64_t i = 0, count = tensor_count(e, t); i < count; i++)
            in[t][i] = (double)e->in[t][i];
    }
    reference_backward(&e->ref, in[Q], in[K], in[V], in[O], in[LSE], in[DOUT], e->dlse, e->exact[DQ], e->exact[DK], e->exact[DV],
                       NULL, NULL);
}

/* shape->detail is the tensor. Scores of -inf of K and Q have no weight; V and dO make infinite gradients of those that
 * see them. O and LSE, which the backward pass is given, are of the inputs without infinities, but for rows of Q beside
 * a sink. */
static void infinities(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_new(subject, shape);
    const enum tensor t = (enum tensor)shape->detail;
    for (enum tensor of = Q; of <= DOUT; of++)
        for (int64_t i = 0; i < tensor_count(e, of) && of != O && of != LSE; i++)
            e->in[of][i] = dtype_round(e->dtype, fabsf(e->in[of][i]) + 0.125f);
    experiment_reference(e, false);
    put_infinities(e, t, t == Q || t == K ? -INFINITY : INFINITY);
    exact_gradients(e);
    const struct results got = experiment_run_plainly(e);
    for (const enum tensor *out = pass_outputs(GLINT_BACKWARD); *out != TENSORS; out++) {
        double largest = 1;
        for (int64_t i = 0; i < tensor_count(e, *out); i++)
            if (isfinite(e->exact[*out][i]))
                largest = fmax(largest, fabs(e->exact[*out][i]));
        /* dP and delta, sums of numbers of one sign, are dozens of times as large as their difference. */
        const double bound = (16 * factor_ulp(e->math, e->dtype) + 2048 * dtype_ulp(GLINT_F32)) * largest;
        for (int64_t i = 0; i < tensor_count(e, *out); i++) {
            const double expected = e->exact[*out][i], is = (double)got.at[*out][i];
            const double error = isnan(expected)   ? (isnan(is) ? 0 : INFINITY)
                                 : isinf(expected) ? (is == expected ? 0 : INFINITY)
                                                   : fabs(is - expected);
            const int64_t dim = tensor_dim(e, *out), rows = tensor_rows(e, *out);
            if (!check_within("infinities beside partial tiles", error, bound))
                check_fail("infinities in %s: %s[head %lld, row %lld, %lld] is %.9g, exact %.9g", tensor_name[t], tensor_name[*out],
                           (long long)(i / dim / rows), (long long)(i / dim % rows), (long long)(i % dim), is, expected);
        }
    }
}

void partial_tiles_checks(struct check_list *list, const struct subject *subject)
{
    const int64_t m = subject->info.tile_m, n = subject->info.tile_n;
    struct shape s = {.batch = 1, .heads_q = 3, .heads_kv = 1, .seqlen_q = m + 7, .seqlen_k = 2 * n + 5};
    const bool masked = (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0;
    if (subject->info.pass != GLINT_BACKWARD)
        return;
    for (int which = 0; subject_band(subject, which, &s); which++)
        for (enum tensor t = Q; t <= DOUT; t++) {
            s.detail = t;
            s.sinks = t == Q && masked; /* LSE tells that a query has no weight */
            if (t != O && t != LSE && (!s.sinks || subject_checks_sinks(subject)))
                checks_add(list, infinities, &s, "special/partial_tiles_%d_inf_in_%s", which, tensor_name[t]);
        }
}
