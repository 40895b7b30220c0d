/* Right answers and right gradients of one variant:
 *
 *   accuracy/...     against the fp64 reference, by the yardstick of plain attention, over shapes, layouts and data
 *   exp/...          the exponential alone, to a few ulps at every argument, through what the API shows of it
 *   derivative/...   <gradient, u> against differences of f = <dO, O(x)> at x +- h u and x +- 2h u: no reference needed
 *   identity/...     what the gradients of any softmax attention satisfy: no reference needed
 */
#include <math.h>
#include <string.h>

#include "tests/checks/accuracy.h"
#include "tests/oracle/half.h"
#include "tests/support/rand.h"

static enum glint_pass pass_of(const struct subject *subject)
{
    return (enum glint_pass)subject->info.pass;
}

/* ---- accuracy ---- */

static void accuracy(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_new(subject, shape);
    experiment_reference(e, pass_of(subject) == GLINT_BACKWARD);
    struct results got = experiment_run_plainly(e);
    expect_accurate(e, pass_of(subject), &got);
    if (e->dtype == GLINT_F32 && shape->data == DATA_NORMAL && shape->softmax_scale == 0 && shape->seqlen_q > 0 &&
        shape->seqlen_k > 0)
        expect_absolutely_accurate(e, pass_of(subject), &got);
}

/* ---- exp ---- */

/* Logits of these checks are exact products, so that what is seen is exp: x is a factor as the variant's arithmetic
 * takes it. */
static float logit_of(const struct experiment *e, double x)
{
    return factor_round(e->math, dtype_round(e->dtype, (float)x));
}

/* A relative error r of exp(x), x < 0, must stay below this in float32: a polynomial of 3 ulps, and rounding of an
 * argument of that size. 1e-5, which hides in averages, is over it for x > -50. */
static double exp_bound(double x)
{
    return (12 + 3 * fabs(x)) * 0x1p-24;
}

/* Two keys with logits 0 and x, V = 0 and 1: O = e^x / (1 + e^x). One query a head, so that every head has its own
 * x. */
static void exp_in_o(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_new(subject, shape);
    const int64_t dim = e->ref.head_dim, heads = shape->batch * shape->heads_q;
    memset(e->in[Q], 0, (size_t)tensor_count(e, Q) * sizeof(float));
    memset(e->in[K], 0, (size_t)tensor_count(e, K) * sizeof(float));
    struct rand r = rand_stream(shape->seed, 1);
    for (int64_t h = 0; h < heads; h++) {
        e->in[Q][h * dim] = logit_of(e, -40 * rand_uniform(&r));
        e->in[K][(2 * h + 1) * dim] = 1;
        for (int64_t d = 0; d < dim; d++) {
            e->in[V][2 * h * dim + d] = 0;
            e->in[V][(2 * h + 1) * dim + d] = 1;
        }
    }
    struct results got = experiment_run_plainly(e);
    for (int64_t h = 0; h < heads; h++) {
        const double x = (double)e->in[Q][h * dim], exact = exp(x) / (1 + exp(x));
        const double bound = (exp_bound(x) + factor_ulp(e->math, e->dtype)) * exact + dtype_smallest(e->dtype);
        const double error = fabs((double)got.at[O][h * dim] - exact);
        if (!check_within("exp in O", error, bound))
            check_fail("O of two keys with logits 0 and %.9g is %.9g, exact %.9g, relative error %.3g, bound %.3g", x,
                       (double)got.at[O][h * dim], exact, error / exact, bound / exact);
    }
}

/* n keys of logit x and one of logit 0: LSE = log(1 + n e^x). LSE is float32 in every dtype, and so shows exp in all of
 * them. */
static void exp_in_lse(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_new(subject, shape);
    const int64_t dim = e->ref.head_dim, heads = shape->batch * shape->heads_q, n = shape->seqlen_k - 1;
    memset(e->in[Q], 0, (size_t)tensor_count(e, Q) * sizeof(float));
    memset(e->in[K], 0, (size_t)tensor_count(e, K) * sizeof(float));
    struct rand r = rand_stream(shape->seed, 1);
    for (int64_t h = 0; h < heads; h++) {
        e->in[Q][h * dim] = logit_of(e, -4 * rand_uniform(&r));
        for (int64_t j = 1; j <= n; j++)
            e->in[K][(h * (n + 1) + j) * dim] = 1;
    }
    struct results got = experiment_run_plainly(e);
    for (int64_t h = 0; h < heads; h++) {
        const double x = (double)e->in[Q][h * dim], rest = (double)n * exp(x), exact = log1p(rest);
        const double bound = rest / (1 + rest) * exp_bound(x) + (double)n * 0x1p-25 + 0x1p-23 * fmax(exact, 1);
        const double error = fabs((double)got.at[LSE][h] - exact);
        if (!check_within("exp in LSE", error, bound))
            check_fail("LSE of one key of logit 0 and %lld of %.9g is %.9g, exact %.9g, error %.3g, bound %.3g", (long long)n, x,
                       (double)got.at[LSE][h], exact, error, bound);
    }
}

/* One query, dO = 1: dV_j = P_j, over the whole range of P. */
static void exp_in_dv(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_new(subject, shape);
    const int64_t dim = e->ref.head_dim, heads = shape->batch * shape->heads_q;
    memset(e->in[Q], 0, (size_t)tensor_count(e, Q) * sizeof(float));
    memset(e->in[K], 0, (size_t)tensor_count(e, K) * sizeof(float));
    struct rand r = rand_stream(shape->seed, 1);
    for (int64_t h = 0; h < heads; h++) {
        e->in[Q][h * dim] = 1;
        for (int64_t j = 0; j < shape->seqlen_k; j++)
            e->in[K][(h * shape->seqlen_k + j) * dim] = logit_of(e, -40 * rand_uniform(&r));
        for (int64_t d = 0; d < dim; d++)
            e->in[DOUT][h * dim + d] = 1;
    }
    experiment_reference(e, true);
    struct results got = experiment_run_plainly(e);
    for (int64_t row = 0; row < heads * shape->seqlen_k; row++) {
        const double exact = e->exact[DV][row * dim], x = (double)e->in[K][row * dim];
        const double bound = (exp_bound(x) + exp_bound(8) + factor_ulp(e->math, e->dtype)) * exact + dtype_smallest(e->dtype);
        const double error = fabs((double)got.at[DV][row * dim] - exact);
        if (!check_within("exp in dV", error, bound))
            check_fail("P of a key of logit %.9g is %.9g, exact %.9g, relative error %.3g, bound %.3g", x,
                       (double)got.at[DV][row * dim], exact, error / exact, bound / exact);
    }
}

/* ---- derivative ---- */

/* h ~ eps^(1/5). In float32 right implementations were measured to disagree by up to 2.7e-5 at head dims of 8 to 24, in
 * 40 seeds, and the gate has twice as much. From 36 on it grows with the root of the head dim, as the rounding of
 * scores does. P of tf32 factors has as many bits as float16's. */
static bool whole_float32(const struct glint_variant_info *info)
{
    return info->dtype == GLINT_F32 && info->math != GLINT_MATH_TF32;
}

static float step_of(const struct glint_variant_info *info)
{
    return whole_float32(info) ? 0x1p-6f : 0x1p-3f;
}

/* How rounding of a score grows with the head dim. */
static double growth_of(const struct experiment *e)
{
    return fmax(1, sqrt((double)e->ref.head_dim / 36));
}

static double gate_of(const struct experiment *e)
{
    if (whole_float32(&e->subject->info))
        return 6e-5 * growth_of(e);
    return 4 * (e->dtype == GLINT_BF16 ? 1.1e-2 : 4e-3);
}

static double inner(const float *a, const float *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static double value_at(const struct experiment *e, const float *const u[3], const float *of_sinks, const float *of_bias, float h)
{
    struct experiment *moved = experiment_copy(e);
    for (int64_t pair = 0; pair < pair_count(e) && e->problem.dbias != 0; pair++)
        moved->bias[pair] += h * of_bias[pair_of_bias(e, pair)];
    for (int64_t i = 0; i < e->shape.heads_q && e->sinks != NULL; i++)
        moved->sinks[i] += h * of_sinks[i];
    for (enum tensor t = Q; t <= V; t++)
        for (int64_t i = 0, count = tensor_count(e, t); i < count; i++)
            moved->in[t][i] += h * u[t][i];
    struct results got = experiment_forward(moved);
    double value = inner(got.at[O], e->in[DOUT], tensor_count(e, O));
    for (int64_t i = 0; i < tensor_count(e, LSE) && e->dlse != NULL; i++)
        value += got.at[LSE][i] > -INFINITY ? (double)got.at[LSE][i] * (double)e->dlse[i] : 0;
    return value;
}

/* The derivative along u by four points, which are off by h^4 f''''' / 30. Two would be off by h^2 f''' / 6: in 16 bits
 * that came to 0.99 of the bound with a kernel that is at 0.35 of it by four. */
static double slope_at(const struct experiment *e, const float *const u[3], const float *of_sinks, const float *of_bias, float h)
{
    const double near = value_at(e, u, of_sinks, of_bias, h) - value_at(e, u, of_sinks, of_bias, -h);
    const double far = value_at(e, u, of_sinks, of_bias, 2 * h) - value_at(e, u, of_sinks, of_bias, -2 * h);
    return (8 * near - far) / (12 * (double)h);
}

/* shape->detail: 0 moves Q, K, V, the sinks and a bias that has a gradient; 1, 2, 3, 4, 5 only one of them. Data lie on multiples
 * of the step and directions are +-1 or 0, so that x + h u and x + 2h u are exact in every dtype. Disagreement is
 * measured
 * against |gradient|, the root mean square of <gradient, u> when all move. */
static void derivative(struct subject *subject, const struct shape *shape)
{
    struct shape grid = *shape;
    grid.data = DATA_GRID;
    grid.step = step_of(&subject->info);
    struct experiment *e = experiment_new(subject, &grid);

    float *gradient[3], *dsinks = NULL, *dbias = NULL;
    for (int64_t pair = 0; pair < pair_count(e) && e->problem.dbias != 0; pair++)
        e->bias[pair] = rintf(e->bias[pair] / grid.step) * grid.step;
    for (int64_t i = 0; i < e->shape.heads_q && e->sinks != NULL; i++)
        e->sinks[i] = rintf(e->sinks[i] / grid.step) * grid.step;
    if (pass_of(subject) == GLINT_BACKWARD) {
        struct results forward = experiment_forward(e);
        e->in[O] = forward.at[O];
        e->in[LSE] = forward.at[LSE];
        struct results got = experiment_run_plainly(e);
        for (int t = 0; t < 3; t++)
            gradient[t] = got.at[DQ + t];
        dsinks = got.dsinks;
        dbias = got.dbias;
    } else {
        experiment_reference(e, true);
        for (int t = 0; t < 3; t++) {
            gradient[t] = check_memory((size_t)tensor_count(e, DQ + (enum tensor)t) * sizeof(float));
            for (int64_t i = 0; i < tensor_count(e, DQ + (enum tensor)t); i++)
                gradient[t][i] = (float)e->exact[DQ + t][i];
        }
        dsinks = check_memory((size_t)e->shape.heads_q * sizeof(float));
        for (int64_t i = 0; i < e->shape.heads_q && e->sinks != NULL; i++)
            dsinks[i] = (float)e->exact_dsinks[i];
        dbias = check_memory((size_t)pair_count(e) * sizeof(float));
        for (int64_t pair = 0; pair < pair_count(e) && e->problem.dbias != 0; pair++)
            dbias[pair] = (float)e->exact_dbias[pair];
    }

    for (uint64_t round = 0; round < 2; round++) {
        const float *u[3];
        double expected = 0, norm = 0;
        for (int t = 0; t < 3; t++) {
            const int64_t count = tensor_count(e, (enum tensor)t);
            float *direction = check_memory((size_t)count * sizeof(float));
            struct rand r = rand_stream(shape->seed, 200 + 3 * round + (uint64_t)t);
            for (int64_t i = 0; i < count; i++)
                direction[i] = shape->detail == 0 || shape->detail == t + 1 ? rand_sign(&r) : 0.0f;
            u[t] = direction;
            expected += inner(gradient[t], direction, count);
            norm += inner(gradient[t], gradient[t], count);
        }
        float *of_sinks = check_memory((size_t)e->shape.heads_q * sizeof(float));
        if (e->sinks != NULL) {
            struct rand r = rand_stream(shape->seed, 220 + round);
            for (int64_t i = 0; i < e->shape.heads_q; i++)
                of_sinks[i] = shape->detail == 0 || shape->detail == 4 ? rand_sign(&r) : 0.0f;
            expected += inner(dsinks, of_sinks, e->shape.heads_q);
            norm += inner(dsinks, dsinks, e->shape.heads_q);
        }
        float *of_bias = check_memory((size_t)pair_count(e) * sizeof(float));
        struct rand of_pairs = rand_stream(shape->seed, 230 + round);
        for (int64_t pair = 0; pair < pair_count(e) && e->problem.dbias != 0; pair++) {
            if (pair_of_bias(e, pair) != pair)
                continue;
            of_bias[pair] = shape->detail == 0 || shape->detail == 5 ? rand_sign(&of_pairs) : 0.0f;
            expected += (double)dbias[pair] * (double)of_bias[pair];
            norm += (double)dbias[pair] * (double)dbias[pair];
        }
        const double measured = slope_at(e, u, of_sinks, of_bias, grid.step);
        const double error = fabs(measured - expected), bound = gate_of(e) * sqrt(norm);
        const char *category = e->math == GLINT_MATH_TF32 ? "derivative tf32"
                               : e->dtype == GLINT_F32    ? "derivative f32"
                               : e->dtype == GLINT_F16    ? "derivative f16"
                                                          : "derivative bf16";
        if (!check_within(category, error, bound))
            check_fail(
                "the derivative along a direction is %.9g by the gradient, %.9g by differences: off by %.3g |gradient|, bound %.3g",
                expected, measured, error / sqrt(norm), gate_of(e));
    }
}

/* ---- identities ---- */

/* For every batch, key head and column d, summing over keys j and over all queries i of the head's group:
 *
 *   sum_j dK_jd = 0                        adding a constant to all keys shifts each row of scores by a constant
 *   sum_j dV_jd V_jd = sum_i dO_id O_id    both are sum_ij P_ij dO_id V_jd
 *   sum_i dQ_id Q_id = sum_j dK_jd K_jd    both are sum_ij dS_ij Q_id K_jd
 *
 * The tolerances are what rounding each term once, to the dtype or to a factor, gives as a random walk, and float32
 * sums on the way. Scores are such sums. Forward and backward may add them in two orders, and P then differs by what
 * grows with the root of the head dim. Without that growth a right backward was off by 1.34 bounds at 256 beside
 * decode's forward, and by 0.996 beside the forward that adds in its own order. */
static void identity(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_new(subject, shape);
    struct results forward = experiment_forward(e);
    e->in[O] = forward.at[O];
    e->in[LSE] = forward.at[LSE];
    struct results got = experiment_run_plainly(e);

    const int64_t dim = e->ref.head_dim, group = shape->heads_q / shape->heads_kv;
    const double ulp = factor_ulp(e->math, e->dtype), scale = (double)e->ref.softmax_scale, growth = growth_of(e);
    for (int64_t head = 0; head < shape->batch * shape->heads_kv; head++)
        for (int64_t d = 0; d < dim; d++) {
            double dk = 0, dk2 = 0, dvv = 0, dvv2 = 0, doo = 0, doo2 = 0, dqq = 0, dqq2 = 0, dkk = 0, dkk2 = 0, delta2 = 0;
            for (int64_t j = head * shape->seqlen_k; j < (head + 1) * shape->seqlen_k; j++) {
                const double k = (double)got.at[DK][j * dim + d],
                             v = (double)got.at[DV][j * dim + d] * (double)e->in[V][j * dim + d];
                const double kk = k * (double)e->in[K][j * dim + d];
                dk += k, dk2 += k * k, dvv += v, dvv2 += v * v, dkk += kk, dkk2 += kk * kk;
            }
            for (int64_t i = head * group * shape->seqlen_q; i < (head + 1) * group * shape->seqlen_q; i++) {
                const double o = (double)e->in[DOUT][i * dim + d] * (double)e->in[O][i * dim + d];
                const double q = (double)got.at[DQ][i * dim + d] * (double)e->in[Q][i * dim + d];
                const double weight = scale * (double)e->in[Q][i * dim + d];
                doo += o, doo2 += o * o, dqq += q, dqq2 += q * q;
                delta2 += weight * weight * (double)dim * o * o; /* rounding of O in delta = <dO, O> */
            }
            const struct {
                const char *text;
                double left, right, walk;
            } law[] = {
                {"sum dK = 0", dk, 0, sqrt(dk2 + delta2)},
                {"sum dV V = sum dO O", dvv, doo, sqrt(dvv2 + doo2)},
                {"sum dQ Q = sum dK K", dqq, dkk, sqrt(dqq2 + dkk2)},
            };
            for (size_t l = 0; l < sizeof law / sizeof law[0]; l++) {
                const double error = fabs(law[l].left - law[l].right),
                             bound = (6 * ulp + 12 * growth * dtype_ulp(GLINT_F32) + 2 * sum_error(e)) * law[l].walk;
                if (!check_within("identity", error, bound))
                    check_fail("%s: batch*head %lld column %lld: %.9g against %.9g, error %.3g, bound %.3g", law[l].text,
                               (long long)head, (long long)d, law[l].left, law[l].right, error, bound);
            }
        }
}

/* ---- the list ---- */

static enum glint_mask causal_or_none(const struct subject *subject, bool top_left)
{
    return (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) == 0 ? GLINT_MASK_NONE
           : top_left                                                ? GLINT_MASK_CAUSAL_TOP_LEFT
                                                                     : GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
}

/* Rows around one and two tiles in both directions: 15 of the 25 pairs, every extent with three others. */
static void add_tile_shapes(struct check_list *list, const struct subject *subject)
{
    const int64_t m = (int64_t)subject->info.tile_m, n = (int64_t)subject->info.tile_n;
    const int64_t rows[5] = {1, m - 1, m, m + 1, 2 * m + 3}, keys[5] = {1, n - 1, n, n + 1, 2 * n + 3};
    for (int a = 0; a < 5; a++)
        for (int step = 0; step < 3; step++) {
            const int b = (a + 2 * step) % 5;
            const bool small = rows[a] * keys[b] < 1000;
            const bool top_left = (a + step) % 2 == 0;
            const struct shape s = {.batch = small ? 3 : 1,
                                    .heads_q = small ? 4 : 1,
                                    .heads_kv = small ? 4 : 1,
                                    .seqlen_q = rows[a],
                                    .seqlen_k = keys[b],
                                    .mask = causal_or_none(subject, top_left),
                                    .layout = (a + b) % 3 == 0   ? LAYOUT_PADDED
                                              : (a + b) % 3 == 1 ? LAYOUT_BSHD
                                                                 : LAYOUT_MIXED};
            checks_add(list, accuracy, &s, "accuracy/q%lld_k%lld%s", (long long)rows[a], (long long)keys[b],
                       (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) == 0 ? ""
                       : top_left                                                ? "_top_left"
                                                                                 : "_bottom_right");
        }
}

static void add_feature_shapes(struct check_list *list, const struct subject *subject)
{
    static const struct {
        const char *name;
        int64_t batch, heads_q, heads_kv, seqlen_q, seqlen_k;
        enum layout layout;
        enum data data;
        float softmax_scale;
    } feature[] = {
        {"gqa_8_2", 2, 8, 2, 19, 37, LAYOUT_MIXED, DATA_NORMAL, 0},
        {"mqa_8_1", 2, 8, 1, 33, 17, LAYOUT_BSHD, DATA_NORMAL, 0},
        {"gqa_6_3_padded", 1, 6, 3, 21, 70, LAYOUT_PADDED, DATA_NORMAL, 0},
        {"batch_3", 3, 2, 2, 23, 29, LAYOUT_SBHD, DATA_NORMAL, 0},
        {"fused_qkv", 2, 3, 3, 41, 41, LAYOUT_FUSED, DATA_NORMAL, 0},
        {"fused_qkv_gqa", 2, 4, 2, 35, 35, LAYOUT_FUSED, DATA_NORMAL, 0},
        {"bhsd", 2, 2, 2, 30, 31, LAYOUT_BHSD, DATA_NORMAL, 0},
        {"broadcast", 2, 4, 2, 13, 25, LAYOUT_BROADCAST, DATA_NORMAL, 0},
        {"one_row", 2, 2, 1, 11, 18, LAYOUT_ONE_ROW, DATA_NORMAL, 0},
        {"decode", 4, 8, 2, 1, 67, LAYOUT_BSHD, DATA_NORMAL, 0},
        {"one_query_one_key", 3, 4, 2, 1, 1, LAYOUT_BSHD, DATA_NORMAL, 0},
        {"one_key", 2, 4, 2, 9, 1, LAYOUT_BSHD, DATA_NORMAL, 0},
        {"two_keys", 2, 4, 2, 9, 2, LAYOUT_PADDED, DATA_NORMAL, 0},
        {"q64", 1, 1, 1, 64, 40, LAYOUT_BSHD, DATA_NORMAL, 0}, /* seqlen_q % 128 == 64: NaN in dQ elsewhere, with low LSE */
        {"q64_low", 1, 1, 1, 64, 64, LAYOUT_BSHD, DATA_LOW, 0},
        {"q192_low", 1, 1, 1, 192, 33, LAYOUT_BHSD, DATA_LOW, 0},
        {"low", 2, 2, 1, 17, 50, LAYOUT_BSHD, DATA_LOW, 0},
        {"high", 2, 2, 1, 17, 50, LAYOUT_BSHD, DATA_HIGH, 0},
        {"below_sentinel", 2, 2, 1, 20, 40, LAYOUT_BSHD, DATA_BELOW_SENTINEL, 0},
        {"one_hot", 2, 2, 1, 37, 45, LAYOUT_BSHD, DATA_ONE_HOT, 0},
        {"tiny_scale", 2, 2, 1, 21, 22, LAYOUT_BSHD, DATA_NORMAL, 1e-20f},
        {"negative_scale", 2, 2, 1, 21, 42, LAYOUT_BSHD, DATA_NORMAL, -0.3f},
        {"no_keys", 2, 2, 1, 5, 0, LAYOUT_BSHD, DATA_NORMAL, 0},
        {"no_queries", 2, 2, 1, 0, 7, LAYOUT_PADDED, DATA_NORMAL, 0},
        {"nothing", 1, 1, 1, 0, 0, LAYOUT_BSHD, DATA_NORMAL, 0},
        {"gqa_7_1", 1, 7, 1, 26, 40, LAYOUT_BSHD, DATA_NORMAL, 0},
    };
    for (size_t i = 0; i < sizeof feature / sizeof feature[0]; i++) {
        const struct shape s = {.batch = feature[i].batch,
                                .heads_q = feature[i].heads_q,
                                .heads_kv = feature[i].heads_kv,
                                .seqlen_q = feature[i].seqlen_q,
                                .seqlen_k = feature[i].seqlen_k,
                                .mask = causal_or_none(subject, i % 2 == 0),
                                .layout = feature[i].layout,
                                .data = feature[i].data,
                                .softmax_scale = feature[i].softmax_scale};
        checks_add(list, accuracy, &s, "accuracy/%s", feature[i].name);
    }
    const int64_t n = (int64_t)subject->info.tile_n;
    struct shape s = {
        .batch = 1, .heads_q = 1, .heads_kv = 1, .seqlen_q = 9, .seqlen_k = 3 * n + 2, .mask = causal_or_none(subject, false)};
    s.data = DATA_RISING;
    checks_add(list, accuracy, &s, "accuracy/rising");
    s.data = DATA_FALLING;
    checks_add(list, accuracy, &s, "accuracy/falling");
    s.data = DATA_NORMAL;
    s.zero_scale = true;
    checks_add(list, accuracy, &s, "accuracy/zero_scale");
    /* Several steps in a row that see all keys of a block, and of the last one. */
    if (subject->info.pass == GLINT_BACKWARD && strcmp(subject->info.family, "sm90a") == 0) {
        s.zero_scale = false;
        s.seqlen_q = 3 * (int64_t)subject->info.tile_m + 3, s.seqlen_k = 2 * n, s.mask = causal_or_none(subject, true);
        checks_add(list, accuracy, &s, "accuracy/whole_key_blocks");
    }
}

/* What the two alignments do when lengths differ: whole rows without a key, whole keys without a query. */
static void add_causal_shapes(struct check_list *list, const struct subject *subject)
{
    const int64_t m = (int64_t)subject->info.tile_m, n = (int64_t)subject->info.tile_n;
    const struct {
        const char *name;
        int64_t seqlen_q, seqlen_k;
        bool top_left;
    } causal[] = {
        {"some_rows_see_nothing", 31, 12, false},      {"a_tile_sees_nothing", 2 * m + 5, m - 3, false},
        {"bottom_right_long_keys", 13, n + 20, false}, {"top_left_long_keys", 13, n + 20, true},
        {"top_left_long_queries", m + 9, 21, true},    {"square_top_left", 45, 45, true},
        {"square_bottom_right", 45, 45, false},
    };
    for (size_t i = 0; i < sizeof causal / sizeof causal[0] && (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0; i++) {
        const struct shape s = {.batch = 1,
                                .heads_q = 2,
                                .heads_kv = 1,
                                .seqlen_q = causal[i].seqlen_q,
                                .seqlen_k = causal[i].seqlen_k,
                                .mask = causal_or_none(subject, causal[i].top_left),
                                .layout = LAYOUT_PADDED};
        checks_add(list, accuracy, &s, "accuracy/%s", causal[i].name);
    }
    /* Six tiles of each head, which are more than one part of sm90a's, of more heads than are worked on together. */
    if (subject->info.pass == GLINT_FORWARD && strcmp(subject->info.family, "sm90a") == 0 &&
        (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0) {
        const struct shape s = {.batch = 1,
                                .heads_q = 17,
                                .heads_kv = 1,
                                .seqlen_q = 6 * m + 7,
                                .seqlen_k = 5,
                                .mask = causal_or_none(subject, false),
                                .layout = LAYOUT_BSHD};
        checks_add(list, accuracy, &s, "accuracy/many_tiles_see_nothing");
    }
}

/* Windows narrower and wider than a tile, on and beside its edges; rows that see nothing at either end. */
static void add_window_shapes(struct check_list *list, const struct subject *subject)
{
    const int64_t m = (int64_t)subject->info.tile_m, n = (int64_t)subject->info.tile_n;
    const struct {
        const char *name;
        int64_t heads_q, heads_kv, seqlen_q, seqlen_k;
        enum glint_mask mask;
        int64_t left, right;
        enum layout layout;
        enum data data;
    } window[] = {
        {"one_key", 2, 1, 2 * m + 3, 2 * n + 5, GLINT_MASK_BAND_TOP_LEFT, 0, 0, LAYOUT_PADDED, DATA_NORMAL},
        {"one_key_bottom_right", 2, 1, 33, 40, GLINT_MASK_BAND_BOTTOM_RIGHT, 0, 0, LAYOUT_BSHD, DATA_NORMAL},
        {"sliding", 4, 2, m + 9, n + 14, GLINT_MASK_BAND_BOTTOM_RIGHT, 12, 0, LAYOUT_MIXED, DATA_NORMAL},
        {"sliding_top_left", 3, 1, m + 9, n + 14, GLINT_MASK_BAND_TOP_LEFT, 12, 0, LAYOUT_BHSD, DATA_NORMAL},
        {"a_tile", 2, 2, m + 5, 3 * n + 2, GLINT_MASK_BAND_BOTTOM_RIGHT, n, 0, LAYOUT_BSHD, DATA_NORMAL},
        {"whole_blocks_between", 4, 2, m + 5, 2 * m + 3 * n, GLINT_MASK_BAND_BOTTOM_RIGHT, m + 2 * n, 0, LAYOUT_BSHD, DATA_NORMAL},
        {"almost_a_tile", 2, 2, m + 5, 3 * n + 2, GLINT_MASK_BAND_BOTTOM_RIGHT, n - 2, 1, LAYOUT_PADDED, DATA_RISING},
        {"both_sides", 4, 1, 37, 2 * n + 1, GLINT_MASK_BAND_TOP_LEFT, 5, 9, LAYOUT_SBHD, DATA_FALLING},
        {"two_tiles_ahead", 2, 1, 50, 3 * n + 1, GLINT_MASK_BAND_TOP_LEFT, 3, 2 * n, LAYOUT_BHSD, DATA_ONE_HOT},
        {"left_only", 2, 1, m + 21, n + 30, GLINT_MASK_BAND_BOTTOM_RIGHT, 7, GLINT_UNBOUNDED, LAYOUT_PADDED, DATA_NORMAL},
        {"first_rows_see_nothing", 4, 2, 2 * m + 5, 19, GLINT_MASK_BAND_BOTTOM_RIGHT, 6, 3, LAYOUT_MIXED, DATA_NORMAL},
        {"last_rows_see_nothing", 4, 2, 2 * m + 5, 19, GLINT_MASK_BAND_TOP_LEFT, 6, 3, LAYOUT_MIXED, DATA_NORMAL},
        {"low", 2, 1, 30, 50, GLINT_MASK_BAND_BOTTOM_RIGHT, 17, 4, LAYOUT_BSHD, DATA_LOW},
        {"below_sentinel", 2, 1, 40, 60, GLINT_MASK_BAND_TOP_LEFT, 17, 0, LAYOUT_BSHD, DATA_BELOW_SENTINEL},
        {"fused_qkv", 4, 2, n + 3, n + 3, GLINT_MASK_BAND_TOP_LEFT, 11, 0, LAYOUT_FUSED, DATA_NORMAL},
        {"broadcast", 4, 2, 21, 34, GLINT_MASK_BAND_BOTTOM_RIGHT, 8, 2, LAYOUT_BROADCAST, DATA_NORMAL},
        {"decode_step", 8, 2, 1, 4 * n + 7, GLINT_MASK_BAND_BOTTOM_RIGHT, n + 2, 0, LAYOUT_BSHD, DATA_NORMAL},
        {"decode_step_few_keys", 8, 2, 1, n, GLINT_MASK_BAND_BOTTOM_RIGHT, 2 * n, 0, LAYOUT_BSHD, DATA_NORMAL},
        {"drafts", 6, 2, 5, 2 * n + 2, GLINT_MASK_BAND_BOTTOM_RIGHT, 2, 0, LAYOUT_BHSD, DATA_NORMAL},
        {"widest", 2, 1, 17, 23, GLINT_MASK_BAND_BOTTOM_RIGHT, GLINT_MAX_EXTENT, GLINT_MAX_EXTENT, LAYOUT_BSHD, DATA_NORMAL},
        {"no_keys", 2, 1, 5, 0, GLINT_MASK_BAND_BOTTOM_RIGHT, 3, 3, LAYOUT_BSHD, DATA_NORMAL},
    };
    for (size_t i = 0; i < sizeof window / sizeof window[0] && (subject->info.features & GLINT_FEATURE_LEFT_BOUND) != 0; i++) {
        const struct shape s = {.batch = 2,
                                .heads_q = window[i].heads_q,
                                .heads_kv = window[i].heads_kv,
                                .seqlen_q = window[i].seqlen_q,
                                .seqlen_k = window[i].seqlen_k,
                                .mask = window[i].mask,
                                .window_left = window[i].left,
                                .window_right = window[i].right,
                                .layout = window[i].layout,
                                .data = window[i].data};
        checks_add(list, accuracy, &s, "accuracy/window_%s", window[i].name);
    }
    /* A right side alone is of the class of the causal masks. */
    struct shape ahead = {
        .batch = 1, .heads_q = 2, .heads_kv = 1, .seqlen_q = 35, .seqlen_k = n + 20, .window_left = GLINT_UNBOUNDED};
    ahead.mask = GLINT_MASK_BAND_TOP_LEFT;
    ahead.window_right = 9;
    if ((subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0 &&
        ((subject->info.features & GLINT_FEATURE_LEFT_BOUND) == 0 || subject->info.queries_up_to > 0))
        checks_add(list, accuracy, &ahead, "accuracy/window_right_only");
}

/* The diagonal somewhere else: before the first key of most rows, behind the last one, and beyond all of them. */
static void add_diagonal_shapes(struct check_list *list, const struct subject *subject)
{
    const int64_t m = (int64_t)subject->info.tile_m, n = (int64_t)subject->info.tile_n;
    const bool causal = (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0;
    const struct {
        const char *name;
        int64_t seqlen_q, seqlen_k;
        bool top_left;
        int64_t left, right, diagonal; /* a left side below -1: no window */
    } moved[] = {
        {"ahead", m + 21, 2 * n + 30, true, -2, 0, n + 7},
        {"behind", m + 21, n + 40, false, -2, 0, -(n / 2 + 29)},
        {"all", 45, 37, true, -2, 0, INT64_MAX},
        {"nothing", 33, 40, false, -2, 0, INT64_MIN},
        {"window", m + 21, 2 * n + 30, false, 13, 4, -(n + 3)},
        {"window_ahead", m + 21, n + 30, true, 13, GLINT_UNBOUNDED, n / 2},
        {"window_past", 45, 37, true, 5, 0, INT64_MAX},
    };
    for (size_t i = 0; i < sizeof moved / sizeof moved[0] && causal; i++) {
        const bool window = moved[i].left >= GLINT_UNBOUNDED;
        const struct shape s = {.batch = 1,
                                .heads_q = 2,
                                .heads_kv = 1,
                                .seqlen_q = moved[i].seqlen_q,
                                .seqlen_k = moved[i].seqlen_k,
                                .mask = !window             ? causal_or_none(subject, moved[i].top_left)
                                        : moved[i].top_left ? GLINT_MASK_BAND_TOP_LEFT
                                                            : GLINT_MASK_BAND_BOTTOM_RIGHT,
                                .window_left = window ? moved[i].left : 0,
                                .window_right = moved[i].right,
                                .diagonal = moved[i].diagonal,
                                .layout = LAYOUT_PADDED};
        if (!window || (subject->info.features & GLINT_FEATURE_LEFT_BOUND) != 0)
            checks_add(list, accuracy, &s, "accuracy/diagonal_%s", moved[i].name);
    }
}

/* More queries than keys, by two and more, under bands of every kind: with the bottom right alignment the first queries
 * are far before key 0. */
static void add_few_keys(struct check_list *list, const struct subject *subject)
{
    static const int64_t shapes[][2] = {{3, 1}, {4, 2}, {8, 3}};
    struct shape s = {.batch = 1, .heads_q = 2, .heads_kv = 1};
    for (int which = 0; subject_band(subject, which, &s); which++)
        for (int i = which % 2; i < 3; i += 2) {
            s.seqlen_q = shapes[i][0];
            s.seqlen_k = shapes[i][1];
            checks_add(list, accuracy, &s, "accuracy/few_keys_q%lld_k%lld_%d", (long long)s.seqlen_q, (long long)s.seqlen_k, which);
        }
}

/* One query and so many keys that decode on a small device gives chunks of them to several blocks, or spans of
 * chunks. */
static void add_many_keys(struct check_list *list, const struct subject *subject)
{
    const int64_t n = (int64_t)subject->info.tile_n;
    struct shape s = {
        .batch = 1, .heads_q = 2, .heads_kv = 1, .seqlen_q = 1, .seqlen_k = 63 * n - 3, .mask = causal_or_none(subject, false)};
    if (subject->info.queries_up_to == 0)
        return;
    checks_add(list, accuracy, &s, "accuracy/many_keys_in_chunks");
    s.heads_kv = 2;
    s.seqlen_k = 33 * n + 5;
    checks_add(list, accuracy, &s, "accuracy/many_keys_in_spans");
}

/* A cap on the scores, sinks, and both: with scores far below the cap, about it and far above it; with rows that see
 * nothing. */
static void add_score_shapes(struct check_list *list, const struct subject *subject)
{
    const int64_t m = (int64_t)subject->info.tile_m, n = (int64_t)subject->info.tile_n;
    const struct {
        const char *name;
        int64_t batch, heads_q, heads_kv, seqlen_q, seqlen_k;
        bool top_left;
        float softcap;
        bool sinks;
        enum layout layout;
        enum data data;
        float softmax_scale;
    } score[] = {
        {"sinks", 2, 4, 2, m + 5, n + 9, false, 0, true, LAYOUT_MIXED, DATA_NORMAL, 0},
        {"sinks_top_left", 3, 6, 2, 33, 40, true, 0, true, LAYOUT_PADDED, DATA_NORMAL, 0},
        {"sinks_blind_rows", 2, 3, 1, 2 * m + 3, m - 5, false, 0, true, LAYOUT_BSHD, DATA_NORMAL, 0},
        {"sinks_low", 2, 2, 1, 17, 50, false, 0, true, LAYOUT_BSHD, DATA_LOW, 0},
        {"sinks_high", 1, 2, 2, 17, 50, true, 0, true, LAYOUT_FUSED, DATA_HIGH, 0},
        {"sinks_below_sentinel", 2, 2, 1, 20, 40, false, 0, true, LAYOUT_BSHD, DATA_BELOW_SENTINEL, 0},
        {"sinks_rising", 1, 1, 1, 9, 3 * n + 2, false, 0, true, LAYOUT_BSHD, DATA_RISING, 0},
        {"sinks_decode", 4, 8, 2, 1, 2 * n + 7, false, 0, true, LAYOUT_BSHD, DATA_NORMAL, 0},
        {"sinks_no_keys", 2, 2, 1, 5, 0, false, 0, true, LAYOUT_BSHD, DATA_NORMAL, 0},
        {"sinks_no_queries", 2, 2, 1, 0, 7, false, 0, true, LAYOUT_BSHD, DATA_NORMAL, 0},
        {"softcap_50", 2, 4, 2, m + 5, n + 9, false, 50, false, LAYOUT_MIXED, DATA_NORMAL, 0},
        {"softcap_2", 2, 4, 1, 33, 2 * n + 4, true, 2, false, LAYOUT_PADDED, DATA_NORMAL, 0},
        {"softcap_half", 1, 2, 2, 41, 41, false, 0.5f, false, LAYOUT_FUSED, DATA_NORMAL, 0},
        {"softcap_blind_rows", 2, 3, 1, 2 * m + 3, m - 5, false, 3, false, LAYOUT_BSHD, DATA_NORMAL, 0},
        {"softcap_low", 2, 2, 1, 17, 50, false, 80, false, LAYOUT_BSHD, DATA_LOW, 0},
        {"softcap_high", 2, 2, 1, 17, 50, false, 120, false, LAYOUT_BSHD, DATA_HIGH, 0},
        {"softcap_one_hot", 2, 2, 1, 37, 45, true, 20, false, LAYOUT_BSHD, DATA_ONE_HOT, 0},
        {"softcap_rising", 1, 1, 1, 9, 3 * n + 2, false, 10, false, LAYOUT_BSHD, DATA_RISING, 0},
        {"softcap_falling", 1, 1, 1, 9, 3 * n + 2, false, 10, false, LAYOUT_BSHD, DATA_FALLING, 0},
        {"softcap_tiny_scale", 2, 2, 1, 21, 22, false, 30, false, LAYOUT_BSHD, DATA_NORMAL, 1e-20f},
        {"softcap_tiny", 2, 2, 1, 21, 22, false, 0x1p-126f, false, LAYOUT_BSHD, DATA_NORMAL, 0},
        {"softcap_negative_scale", 2, 2, 1, 21, 42, true, 1, false, LAYOUT_BSHD, DATA_NORMAL, -0.3f},
        {"softcap_decode", 4, 8, 2, 1, 2 * n + 7, false, 2, false, LAYOUT_BSHD, DATA_NORMAL, 0},
        {"softcap_drafts", 2, 6, 2, 5, n + 3, false, 2, false, LAYOUT_BHSD, DATA_NORMAL, 0},
        {"softcap_no_keys", 2, 2, 1, 5, 0, false, 4, false, LAYOUT_BSHD, DATA_NORMAL, 0},
        {"softcap_and_sinks", 2, 4, 2, m + 5, n + 9, false, 5, true, LAYOUT_MIXED, DATA_NORMAL, 0},
        {"softcap_and_sinks_decode", 2, 8, 1, 1, 2 * n + 7, false, 1, true, LAYOUT_PADDED, DATA_NORMAL, 0},
    };
    for (size_t i = 0; i < sizeof score / sizeof score[0]; i++) {
        struct shape s = {.batch = score[i].batch,
                          .heads_q = score[i].heads_q,
                          .heads_kv = score[i].heads_kv,
                          .seqlen_q = score[i].seqlen_q,
                          .seqlen_k = score[i].layout == LAYOUT_FUSED ? score[i].seqlen_q : score[i].seqlen_k,
                          .mask = causal_or_none(subject, score[i].top_left),
                          .layout = score[i].layout,
                          .data = score[i].data,
                          .softmax_scale = score[i].softmax_scale,
                          .softcap = score[i].softcap,
                          .sinks = score[i].sinks};
        if ((s.softcap != 0 && !subject_caps(subject)) || (s.sinks && !subject_checks_sinks(subject)))
            continue;
        checks_add(list, accuracy, &s, "accuracy/%s", score[i].name);
        const bool window = (subject->info.features & GLINT_FEATURE_LEFT_BOUND) != 0 && s.seqlen_q > 1 && s.data == DATA_NORMAL;
        if (!window || i % 2 != 0)
            continue;
        s.mask = score[i].top_left ? GLINT_MASK_BAND_TOP_LEFT : GLINT_MASK_BAND_BOTTOM_RIGHT; /* both sides in most tiles */
        s.window_left = 13;
        s.window_right = 4;
        checks_add(list, accuracy, &s, "accuracy/window_%s", score[i].name);
    }
}

/* Intervals beside the mask, of the kinds that models have and of none: a query in the middle may see nothing. */
static void add_interval_shapes(struct check_list *list, const struct subject *subject)
{
    static const char *const names[PATTERNS] = {"any", "prefix", "blocks", "chunks", "padding"};
    const int64_t m = (int64_t)subject->info.tile_m, n = (int64_t)subject->info.tile_n;
    for (int pattern = 0; pattern < PATTERNS && subject_intervals(subject); pattern++)
        for (int masked = 0; masked < (pattern == PATTERN_ANY ? 3 : 1); masked++) {
            struct shape s = {
                .batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = m + 21, .seqlen_k = 2 * n + 30, .layout = LAYOUT_MIXED};
            s.intervals = OWN_INTERVALS;
            s.pattern = pattern;
            s.mask = masked == 0 ? GLINT_MASK_NONE : masked == 1 ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_BAND_TOP_LEFT;
            s.window_left = masked == 2 ? n / 2 : 0;
            s.window_right = masked == 2 ? 9 : 0;
            s.sinks = masked == 1;
            s.softcap = masked == 2 && subject_caps(subject) ? 2.0f : 0;
            s.dlse = masked == 1 && pass_of(subject) == GLINT_BACKWARD;
            checks_add(list, accuracy, &s, "accuracy/intervals_%s_%d", names[pattern], masked);
            s.seqlen_q = 5;
            s.seqlen_k = n - 3;
            checks_add(list, accuracy, &s, "accuracy/intervals_%s_%d_few", names[pattern], masked);
        }
    /* keys that several blocks share, of which no query sees the first and the last, and some see none */
    struct shape s = {.batch = 1, .heads_q = 4, .heads_kv = 2, .seqlen_q = 13, .seqlen_k = 8 * n, .intervals = OWN_INTERVALS};
    s.mask = GLINT_MASK_NONE;
    s.pattern = PATTERN_MIDDLE;
    if (subject_intervals(subject) && pass_of(subject) == GLINT_FORWARD)
        checks_add(list, accuracy, &s, "accuracy/intervals_middle_of_many");
    s = (struct shape){.batch = 1, .heads_q = 2, .heads_kv = 1, .seqlen_q = 29, .seqlen_k = 43, .intervals = OWN_INTERVALS};
    s.mask = GLINT_MASK_NONE;
    if (subject_intervals(subject) && subject->info.kv_dtype == 0) /* 8-bit K and V cannot be moved by a step */
        checks_add(list, derivative, &s, "derivative/intervals");
}

/* Trees beside masks and intervals, of more new tokens than a word has bits and of few, and of more than there are
 * keys. */
void tree_checks(struct check_list *list, struct subject *subject)
{
    const int64_t m = (int64_t)subject->info.tile_m, n = (int64_t)subject->info.tile_n;
    const bool decode = subject->info.queries_up_to > 0;
    static const struct {
        const char *name;
        enum glint_mask mask;
        int64_t left, right, diagonal;
    } masks[] = {
        {"none", GLINT_MASK_NONE, 0, 0, 0},
        {"causal", GLINT_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0},
        {"window", GLINT_MASK_BAND_BOTTOM_RIGHT, 7, 0, 0},
        {"long_window", GLINT_MASK_BAND_BOTTOM_RIGHT, 60, 2, 0},
        {"top_left", GLINT_MASK_BAND_TOP_LEFT, 11, 3, 20},
        {"diagonal", GLINT_MASK_BAND_BOTTOM_RIGHT, 30, 1, -3},
    };
    if (!subject_tree(subject))
        return;
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++)
        for (int any = 0; any < 2; any++) {
            struct shape s = {.batch = 2,
                              .heads_q = 4,
                              .heads_kv = 2,
                              .seqlen_q = decode ? 41 : m + 21,
                              .seqlen_k = 2 * n + 30,
                              .layout = LAYOUT_MIXED};
            s.tree = any != 0 ? ANY_TREE : OWN_TREE;
            s.mask = masks[i].mask;
            s.window_left = masks[i].left;
            s.window_right = masks[i].right;
            s.diagonal = masks[i].diagonal;
            s.sinks = i % 3 == 1 && subject_checks_sinks(subject);
            s.softcap = i % 3 == 2 && subject_caps(subject) ? 2.0f : 0;
            s.bias = subject_bias(subject) && i % 2 == 0 ? BIAS : NO_BIAS;
            s.max_logit = subject_takes_logit(subject);
            s.intervals = i % 2 != 0 ? OWN_INTERVALS : WIDE_INTERVALS;
            checks_add(list, accuracy, &s, "accuracy/tree_%s_%d", masks[i].name, any);
            s.seqlen_q = 9;
            s.seqlen_k = n + 5;
            s.intervals = i % 2 == 0 ? OWN_INTERVALS : WIDE_INTERVALS;
            checks_add(list, accuracy, &s, "accuracy/tree_%s_%d_few", masks[i].name, any);
            s.seqlen_q = 37;
            s.seqlen_k = 33;
            checks_add(list, accuracy, &s, "accuracy/tree_%s_%d_long", masks[i].name, any);
        }
    struct shape wide = {.batch = 1, .heads_q = 2, .heads_kv = 1, .seqlen_q = 2 * n + 9, .seqlen_k = 3 * n, .tree = OWN_TREE};
    wide.intervals = WIDE_INTERVALS;
    wide.mask = GLINT_MASK_NONE;
    checks_add(list, accuracy, &wide, "accuracy/tree_wider_than_tiles");
    tree_special_checks(list, subject);
    tree_laws_checks(list, subject);
    tree_sequences_checks(list, subject);
}

/* What is added to scores, under the mask of s; with intervals of their own, and under a window, where asked. */
static void add_under_masks(struct check_list *list, const struct subject *subject, struct shape s, const char *kind,
                            const char *name, bool intervals, bool window, bool top_left)
{
    checks_add(list, accuracy, &s, "accuracy/%s_%s", kind, name);
    if (intervals && subject_intervals(subject)) {
        s.intervals = OWN_INTERVALS;
        checks_add(list, accuracy, &s, "accuracy/%s_intervals_%s", kind, name);
        s.intervals = NO_INTERVALS;
    }
    if (!window || (subject->info.features & GLINT_FEATURE_LEFT_BOUND) == 0)
        return;
    s.mask = top_left ? GLINT_MASK_BAND_TOP_LEFT : GLINT_MASK_BAND_BOTTOM_RIGHT; /* both sides in most tiles */
    s.window_left = 13;
    s.window_right = 4;
    s.dbias = false;
    checks_add(list, accuracy, &s, "accuracy/%s_window_%s", kind, name);
}

/* ALiBi, alone and beside a window, a diagonal, intervals, sinks, a cap. The widest distances are of many keys. */
static void add_alibi_shapes(struct check_list *list, const struct subject *subject)
{
    const int64_t m = (int64_t)subject->info.tile_m, n = (int64_t)subject->info.tile_n;
    const struct {
        const char *name;
        int64_t batch, heads_q, heads_kv, seqlen_q, seqlen_k, diagonal;
        bool top_left, sinks;
        float softcap;
        enum layout layout;
    } alibi[] = {
        {"mixed", 2, 4, 2, m + 5, n + 9, 0, false, false, 0, LAYOUT_MIXED},
        {"top_left", 3, 6, 2, 33, 2 * n + 4, 0, true, true, 0, LAYOUT_PADDED},
        {"blind_rows", 2, 3, 1, 2 * m + 3, m - 5, 0, false, false, 0, LAYOUT_BSHD},
        {"diagonal", 1, 5, 1, m + 3, n + 5, 37, true, false, 0, LAYOUT_BHSD},
        {"decode", 4, 8, 2, 1, 2 * n + 7, 0, false, true, 0, LAYOUT_BSHD},
        {"drafts", 2, 6, 2, 5, n + 3, 0, false, false, 0, LAYOUT_BHSD},
        {"long", 1, 5, 1, 3, 6001, 0, false, false, 0, LAYOUT_BHSD},
        {"softcap", 2, 4, 2, m + 5, n + 9, 0, false, true, 2, LAYOUT_MIXED},
        {"softcap_top_left", 1, 6, 2, 33, 2 * n + 4, -3, true, false, 0.5f, LAYOUT_BSHD},
        {"softcap_decode", 4, 8, 2, 1, 2 * n + 7, 0, false, false, 5, LAYOUT_BSHD},
    };
    for (size_t i = 0; i < sizeof alibi / sizeof alibi[0] && subject_alibi(subject); i++) {
        struct shape s = {.batch = alibi[i].batch,
                          .heads_q = alibi[i].heads_q,
                          .heads_kv = alibi[i].heads_kv,
                          .seqlen_q = alibi[i].seqlen_q,
                          .seqlen_k = alibi[i].seqlen_k,
                          .mask = causal_or_none(subject, alibi[i].top_left),
                          .layout = alibi[i].layout,
                          .softcap = alibi[i].softcap,
                          .sinks = alibi[i].sinks,
                          .alibi = SLOPES};
        if (s.softcap != 0 && !subject_caps(subject))
            continue;
        s.diagonal = s.mask != GLINT_MASK_NONE ? alibi[i].diagonal : 0;
        s.dlse = i % 2 == 0 && pass_of(subject) == GLINT_BACKWARD;
        add_under_masks(list, subject, s, "alibi", alibi[i].name, i % 2 != 0, i % 2 == 0, alibi[i].top_left);
    }
    struct shape s = {.batch = 1, .heads_q = 2, .heads_kv = 1, .seqlen_q = 29, .seqlen_k = 23, .sinks = true, .alibi = SLOPES};
    s.mask = causal_or_none(subject, false);
    if (subject_alibi(subject) && subject->info.kv_dtype == 0) /* 8-bit K and V cannot be moved by a step */
        checks_add(list, derivative, &s, "derivative/alibi");
}

/* A bias of every shape that models give it, and what else it may meet. */
static void add_bias_shapes(struct check_list *list, const struct subject *subject)
{
    const int64_t m = (int64_t)subject->info.tile_m, n = (int64_t)subject->info.tile_n;
    const bool backward = pass_of(subject) == GLINT_BACKWARD;
    const struct {
        const char *name;
        int64_t batch, heads_q, heads_kv, seqlen_q, seqlen_k, diagonal;
        unsigned shared;
        bool narrow, turned, sinks, top_left;
        float softcap;
        enum layout layout;
    } bias[] = {
        {"full", 2, 4, 2, m + 5, n + 9, 0, 0, false, false, false, false, 0, LAYOUT_MIXED},
        {"triangle", 11, 4, 4, 37, 37, 0, SHARED_BATCH, false, false, false, false, 0, LAYOUT_BSHD},
        {"triangle_turned", 5, 4, 4, m + 9, n + 1, 0, SHARED_BATCH, true, true, false, false, 0, LAYOUT_BSHD},
        {"t5", 3, 6, 6, m + 3, m + 3, 0, SHARED_BATCH, false, false, false, true, 0, LAYOUT_FUSED},
        {"swin", 9, 3, 3, 49, 49, 0, SHARED_BATCH, true, false, false, false, 0, LAYOUT_BSHD},
        {"pairs", 2, 6, 2, 2 * m + 3, n - 1, 0, SHARED_HEAD, false, false, true, false, 0, LAYOUT_PADDED},
        {"keys", 3, 4, 2, 33, 2 * n + 4, 0, SHARED_HEAD | SHARED_QUERY, false, false, false, true, 0, LAYOUT_BHSD},
        {"keys_of_all", 2, 5, 1, m + 3, n + 5, 0, SHARED_BATCH | SHARED_QUERY, true, false, true, false, 0, LAYOUT_BSHD},
        {"queries", 2, 4, 2, m + 3, 600, 0, SHARED_BATCH | SHARED_KEY, false, false, false, false, 0, LAYOUT_BHSD},
        {"one_number", 2, 2, 1, 19, 23, 0, SHARED_BATCH | SHARED_HEAD | SHARED_QUERY | SHARED_KEY, false, false, false, false, 0,
         LAYOUT_BSHD},
        {"blind_rows", 2, 3, 1, 2 * m + 3, m - 5, 0, 0, true, false, false, false, 0, LAYOUT_BSHD},
        {"lines", 2, 4, 2, m + 5, (2 * n + 12) / 8 * 8 + 4, 0, BIAS_OF_LINES, false, false, false, false, 0, LAYOUT_BHSD},
        {"lines_narrow", 2, 4, 4, m + 5, (2 * n + 15) / 8 * 8, 0, SHARED_BATCH | BIAS_OF_LINES, true, false, false, true, 0,
         LAYOUT_BSHD},
        {"diagonal", 1, 5, 1, m + 3, n + 5, 37, SHARED_BATCH, false, false, false, true, 0, LAYOUT_BHSD},
        {"decode", 4, 8, 2, 1, 2 * n + 7, 0, SHARED_BATCH, false, false, true, false, 0, LAYOUT_BSHD},
        {"drafts", 2, 6, 2, 5, n + 3, 0, 0, true, false, false, false, 0, LAYOUT_BHSD},
        {"split", 1, 2, 1, 70, 1301, 0, 0, false, false, false, false, 0, LAYOUT_BSHD},
        {"softcap", 2, 4, 2, m + 5, n + 9, 0, 0, false, false, true, false, 2, LAYOUT_MIXED},
        {"softcap_shared", 3, 6, 2, 33, 2 * n + 4, -3, SHARED_BATCH | SHARED_HEAD, true, true, false, true, 0.5f, LAYOUT_BSHD},
    };
    for (size_t i = 0; i < sizeof bias / sizeof bias[0] && subject_bias(subject); i++) {
        struct shape s = {.batch = bias[i].batch,
                          .heads_q = bias[i].heads_q,
                          .heads_kv = bias[i].heads_kv,
                          .seqlen_q = bias[i].seqlen_q,
                          .seqlen_k = bias[i].seqlen_k,
                          .mask = causal_or_none(subject, bias[i].top_left),
                          .layout = bias[i].layout,
                          .softcap = bias[i].softcap,
                          .sinks = bias[i].sinks,
                          .bias = BIAS,
                          .bias_shared = bias[i].shared,
                          .bias_narrow = bias[i].narrow,
                          .bias_turned = bias[i].turned,
                          .dbias = backward};
        if (s.softcap != 0 && !subject_caps(subject))
            continue;
        s.diagonal = s.mask != GLINT_MASK_NONE ? bias[i].diagonal : 0;
        s.dlse = i % 2 == 0 && backward;
        add_under_masks(list, subject, s, "bias", bias[i].name, i % 2 != 0, i % 3 == 0, bias[i].top_left);
    }
    struct shape s = {.batch = 2, .heads_q = 2, .heads_kv = 1, .seqlen_q = 29, .seqlen_k = 23, .sinks = true, .bias = BIAS};
    s.mask = causal_or_none(subject, false);
    s.bias_shared = SHARED_BATCH;
    s.dbias = true;
    if (subject_bias(subject) && subject->info.kv_dtype == 0) /* 8-bit K and V cannot be moved by a step */
        checks_add(list, derivative, &s, "derivative/bias");
}

/* A gradient of LSE, in the backward pass: of rows that see nothing, too, whose LSE is their sink. */
static void add_dlse_shapes(struct check_list *list, const struct subject *subject)
{
    const int64_t m = (int64_t)subject->info.tile_m, n = (int64_t)subject->info.tile_n;
    const bool sinks = subject_checks_sinks(subject);
    struct shape s = {
        .batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = m + 5, .seqlen_k = n + 9, .layout = LAYOUT_MIXED, .dlse = true};
    s.mask = causal_or_none(subject, false);
    checks_add(list, accuracy, &s, "accuracy/dlse");
    s.softcap = subject_caps(subject) ? 2.0f : 0;
    s.sinks = sinks;
    s.seqlen_q = m + 37;
    s.seqlen_k = 29;
    checks_add(list, accuracy, &s, "accuracy/dlse_blind_rows");
    s.seqlen_k = 0;
    if (sinks)
        checks_add(list, accuracy, &s, "accuracy/dlse_no_keys");
    s = (struct shape){.batch = 1, .heads_q = 2, .heads_kv = 1, .seqlen_q = 19, .seqlen_k = 23, .sinks = sinks, .dlse = true};
    s.mask = causal_or_none(subject, false);
    checks_add(list, derivative, &s, "derivative/dlse");
}

static void add_exp(struct check_list *list, const struct subject *subject)
{
    /* A block is simulated for each argument; the exponential there is the simulator's own. */
    const bool simulated = subject->backend->exact;
    struct shape s = {.batch = simulated ? 1 : 8, .seqlen_q = 1, .seqlen_k = 2, .softmax_scale = 1};
    s.heads_q = s.heads_kv = simulated ? 8 : 32;
    s.mask = causal_or_none(subject, false);
    if (subject->info.pass == GLINT_FORWARD) {
        checks_add(list, exp_in_o, &s, "exp/o");
        s.seqlen_k = 10;
        checks_add(list, exp_in_lse, &s, "exp/lse");
    } else {
        s.batch = 2;
        s.heads_q = s.heads_kv = 2;
        s.seqlen_k = 150;
        checks_add(list, exp_in_dv, &s, "exp/dv");
    }
}

static void add_derivatives(struct check_list *list, const struct subject *subject)
{
    static const char *const moved[] = {"qkv", "q", "k", "v"};
    const int64_t m = (int64_t)subject->info.tile_m, n = (int64_t)subject->info.tile_n;
    struct shape s = {.batch = 1, .heads_q = 2, .heads_kv = 1, .seqlen_q = m + 1, .seqlen_k = n + 1};
    for (int64_t i = 0; i < 4; i++) {
        if (i > 0 &&
            subject->backend->exact) /* more tiles than one are moved together above; alone, a tile tells whose gradient is off */
            s.seqlen_q = 19, s.seqlen_k = 23;
        s.detail = i;
        s.mask = causal_or_none(subject, false);
        if (subject->info.kv_dtype == 0 || s.detail == 1) /* 8-bit K and V cannot be moved by a step */
            checks_add(list, derivative, &s, "derivative/%s", moved[i]);
    }
    s = (struct shape){.batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = 24, .seqlen_k = 15, .layout = LAYOUT_MIXED};
    s.mask = causal_or_none(subject, true);
    if (subject->info.kv_dtype == 0)
        checks_add(list, derivative, &s, "derivative/gqa");
    struct shape scored = s;
    scored.sinks = subject_checks_sinks(subject);
    if (scored.sinks && subject->info.kv_dtype == 0) {
        checks_add(list, derivative, &scored, "derivative/gqa_with_sinks");
        scored.detail = 4;
        checks_add(list, derivative, &scored, "derivative/sinks");
    }
    if (subject_caps(subject) && subject->info.kv_dtype == 0) { /* scores are about 1 */
        scored.detail = 0;
        scored.softcap = 1.5f;
        checks_add(list, derivative, &scored, "derivative/softcap");
        scored.sinks = false;
        scored.detail = 1;
        checks_add(list, derivative, &scored, "derivative/softcap_q");
    }
    if (subject->info.pass != GLINT_BACKWARD)
        return;
    checks_add(list, identity, &s, "identity/gqa");
    s.seqlen_q = 12, s.seqlen_k = m + 7, s.mask = causal_or_none(subject, false);
    checks_add(list, identity, &s, "identity/long_keys");
    s.batch = 1, s.seqlen_q = n + 7, s.seqlen_k = 12;
    checks_add(list, identity, &s, "identity/long_queries");
}

/* Blocks of queries that see keys far from each other's: between the first and the last that see a block of keys there
 * are some that see none of it. */
void apart_checks(struct check_list *list, const struct subject *subject)
{
    const int64_t m = (int64_t)subject->info.tile_m, n = (int64_t)subject->info.tile_n;
    struct shape s = {.batch = 1, .heads_q = 4, .heads_kv = 2, .seqlen_q = 5 * m - 3, .seqlen_k = 6 * n, .detail = m};
    s.intervals = OWN_INTERVALS;
    s.pattern = PATTERN_APART;
    s.mask = GLINT_MASK_NONE;
    if (!subject_intervals(subject) || subject->info.queries_up_to > 0)
        return;
    checks_add(list, accuracy, &s, "accuracy/intervals_apart");
    s.pattern = PATTERN_FAR;
    s.detail = 2 * m;
    s.seqlen_q = 10 * m - 3;
    checks_add(list, accuracy, &s, "accuracy/intervals_far");
    s.detail = m + m / 2; /* a block that sees all, before one that does not */
    s.seqlen_q = 3 * m - 3;
    checks_add(list, accuracy, &s, "accuracy/intervals_between");
}

void gradient_checks(struct check_list *list, const struct subject *subject)
{
    add_tile_shapes(list, subject);
    add_feature_shapes(list, subject);
    add_causal_shapes(list, subject);
    add_window_shapes(list, subject);
    add_few_keys(list, subject);
    add_score_shapes(list, subject);
    add_exp(list, subject);
    add_derivatives(list, subject);
}

/* Shapes for parts of GPU kernels that no other shape enters (docs/checked.md). The queries, backward, are for each copy
 * of the unrolled sum over rows; and on a GPU the heads of the group are shared out to parts. The six tiles, of
 * queries forward, of keys backward, are for a persistent kernel, where a tile ends while the next one begins, whose
 * queries end at each of its keys; four queries less, as then each of a thread's two rows ends at a fragment's edge. */
static void add_reached_shapes(struct check_list *list, const struct subject *subject)
{
    const struct shape queries = {.batch = 1,
                                  .heads_q = 5,
                                  .heads_kv = 1,
                                  .seqlen_q = 2580,
                                  .seqlen_k = 20,
                                  .mask = causal_or_none(subject, true),
                                  .sinks = subject_checks_sinks(subject)};
    const struct shape tiles = {.batch = 1,
                                .heads_q = 6,
                                .heads_kv = pass_of(subject) == GLINT_FORWARD ? 1 : 6,
                                .seqlen_q = subject->info.queries_up_to > 0 ? 11 : (int64_t)subject->info.tile_m - 4,
                                .seqlen_k = (int64_t)subject->info.tile_n,
                                .mask = causal_or_none(subject, false),
                                .softmax_scale = -0.3f};
    if (pass_of(subject) == GLINT_BACKWARD)
        checks_add(list, accuracy, &queries, "accuracy/many_queries");
    checks_add(list, accuracy, &tiles, "accuracy/several_tiles_negative_scale");
    add_many_keys(list, subject);
}

void later_gradient_checks(struct check_list *list, const struct subject *subject)
{
    add_diagonal_shapes(list, subject);
    if (pass_of(subject) == GLINT_BACKWARD)
        add_dlse_shapes(list, subject);
    add_interval_shapes(list, subject);
    add_reached_shapes(list, subject);
    add_alibi_shapes(list, subject);
    add_bias_shapes(list, subject);
}

/* Rows that see no key, beside sinks, whose LSE has a gradient, for each copy of the unrolled sum over rows. */
void blind_rows_checks(struct check_list *list, const struct subject *subject)
{
    struct shape s = {.batch = 1, .heads_q = 1, .heads_kv = 1, .seqlen_q = 2580, .seqlen_k = 20, .sinks = true, .dlse = true};
    s.mask = causal_or_none(subject, false);
    if (pass_of(subject) == GLINT_BACKWARD && s.mask != GLINT_MASK_NONE && subject_checks_sinks(subject))
        checks_add(list, accuracy, &s, "accuracy/many_blind_rows");
}

/* Each column of a block of keys is some row's last key, or its first one, and has nearly all of the weight: in the blocks
 * that a tile meets first and in those after them. */
void edge_columns_checks(struct check_list *list, const struct subject *subject)
{
    const int64_t m = (int64_t)subject->info.tile_m, n = (int64_t)subject->info.tile_n;
    const bool left = (subject->info.features & GLINT_FEATURE_LEFT_BOUND) != 0;
    struct shape s = {.batch = 1, .heads_q = 1, .heads_kv = 1, .seqlen_q = m, .data = DATA_RISING};
    s.mask = causal_or_none(subject, false);
    if (s.mask == GLINT_MASK_NONE || subject->info.queries_up_to > 0)
        return;
    for (int half = 0; half < 2; half++) {
        s.seqlen_k = m + half * n / 2;
        checks_add(list, accuracy, &s, "accuracy/last_columns_%d", half);
    }
    s.data = DATA_FALLING;
    s.mask = GLINT_MASK_BAND_BOTTOM_RIGHT;
    s.window_left = n / 2 + 3;
    for (int half = 0; half < (left ? 2 : 0); half++) {
        s.seqlen_k = m + n + half * n / 2;
        checks_add(list, accuracy, &s, "accuracy/first_columns_%d", half);
    }
}
