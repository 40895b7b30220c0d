/* Comparing results: with the fp64 reference by the yardstick of plain attention, and with other results bit by bit. */
#ifndef GLINT_TESTS_ACCURACY_H
#define GLINT_TESTS_ACCURACY_H

#include "tests/checks/experiment.h"

/* Fails the check unless every output of the pass is within its bound of e->exact (experiment_reference must have run):
 *
 *     |got - exact| <= factor * max(error of plain attention, noise) + ulp * max |exact|       factor: 2 forward, 3 backward
 *
 * where maxima go over the tensor, and for O also within each row, relative to the row's largest element. `noise` is
 * what float32 rounding alone makes: it keeps plain attention that is lucky on a tiny tensor from being a trap. */
void expect_accurate(struct experiment *e, enum glint_pass pass, const struct results *got);

/* For float32, normal data and the usual softmax_scale, whatever plain attention does: |got - exact| <= 6 + sqrt(head_dim) ulps of
 * max |exact| forward, twice that backward. An exp that is wrong by 1e-5 is 84 ulps off; the exp/ checks look closer. Variants of one
 * tf32 product get 3.2e-3 (8 roundings of 2^-11 sqrt(2/3)) on top, 6.4e-3 backward; on a GPU what
 * tensor cores cut off is allowed besides (sum_error). */
void expect_absolutely_accurate(struct experiment *e, enum glint_pass pass, const struct results *got);

/* The same bits. `equal_zeros`: -0 equals +0. */
void expect_same(const struct experiment *e, enum tensor t, const float *got, const float *expected, bool equal_zeros,
                 const char *what);

/* One row of two arrays, which may be of different experiments with the same dim. */
void expect_same_row(const struct experiment *e, enum tensor t, const float *got, const float *expected, int64_t b, int64_t h,
                     int64_t row, const char *what);

/* |got - expected| <= bound everywhere; NaN must meet NaN and an infinity the same one. */
void expect_near(const struct experiment *e, enum tensor t, const char *category, const float *got, const double *expected,
                 double bound);

/* What tensor cores leave out of a sum of head_dim terms, relative to it; 0 on a CPU. */
double sum_error(const struct experiment *e);

/* What a sum of `terms` terms that grows step by step is off by, of its last size: a sum is half of what it becomes, in
 * the mean. Tensor cores cut off, as sum_error says, and other sums round to either side. */
double running_sum_error(const struct experiment *e, double terms);

double max_magnitude(const double *x, int64_t count);

#endif
