/* The fp64 reference. One query row at a time:
 *
 *   s_j = softmax_scale * <q, k_j>      p_j = exp(s_j - m) / l      o = sum_j p_j v_j      lse = m + log l
 *   dp_j = <dout, v_j>   delta = <dout, o>   ds_j = p_j (dp_j - delta)
 *   dv_j += p_j dout     dq = softmax_scale * sum_j ds_j k_j        dk_j += softmax_scale * ds_j q
 *
 * over the keys j that the query sees. With a softcap c, s_j = c tanh(softmax_scale * <q, k_j> / c) and ds_j is multiplied by the slope
 * 1 - tanh^2. With sinks, s_h of the query's head is one more term of l, and of m: l = exp(s_h - m) + sum_j exp(s_j - m); then
 *
 *   dsinks_h = sum over the head's rows of exp(s_h - lse) (0 - delta)
 *
 * as the sink were a key whose V is 0. Values that no visible pair touches are zero; nothing hidden is ever multiplied in. */
#include "tests/oracle/ref.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void ref_mask(struct ref_shape *s, enum glint_mask mask, int64_t window_left, int64_t window_right)
{
    const int64_t everything = s->seqlen_q + s->seqlen_k;
    const int64_t bottom_right = s->seqlen_k - s->seqlen_q;
    s->first = -everything;
    s->last = everything;
    switch (mask) {
    case GLINT_MASK_NONE: break;
    case GLINT_MASK_CAUSAL_TOP_LEFT: s->last = 0; break;
    case GLINT_MASK_CAUSAL_BOTTOM_RIGHT: s->last = bottom_right; break;
    case GLINT_MASK_BAND_TOP_LEFT:
    case GLINT_MASK_BAND_BOTTOM_RIGHT:
        if (window_left != GLINT_UNBOUNDED)
            s->first = (mask == GLINT_MASK_BAND_TOP_LEFT ? 0 : bottom_right) - window_left;
        if (window_right != GLINT_UNBOUNDED)
            s->last = (mask == GLINT_MASK_BAND_TOP_LEFT ? 0 : bottom_right) + window_right;
        break;
    default: abort();
    }
}

int64_t ref_end(const struct ref_shape *s, int64_t query)
{
    const int64_t end = query + s->last + 1;
    return end < 0 ? 0 : end > s->seqlen_k ? s->seqlen_k : end;
}

int64_t ref_first(const struct ref_shape *s, int64_t query)
{
    const int64_t first = query + s->first, end = ref_end(s, query);
    return first < 0 ? 0 : first > end ? end : first;
}

/* Rows of one head, and of the key head that it reads. */
static int64_t q_row(const struct ref_shape *s, int64_t b, int64_t h, int64_t i)
{
    return (b * s->heads_q + h) * s->seqlen_q + i;
}

static int64_t k_row(const struct ref_shape *s, int64_t b, int64_t h, int64_t j)
{
    return (b * s->heads_kv + h / (s->heads_q / s->heads_kv)) * s->seqlen_k + j;
}

/* [rows, dim] -> [dim, rows]: products over dim then run along memory, which compilers turn into vector code. */
static void transpose(double *to, const double *from, int64_t rows, int64_t dim)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t d = 0; d < dim; d++)
            to[d * rows + r] = from[r * dim + d];
}

/* y_j = <x, a_j> for the first `count` of `rows` vectors a_j, given transposed. */
static void products(double *y, const double *x, const double *a_transposed, int64_t count, int64_t rows, int64_t dim)
{
    for (int64_t j = 0; j < count; j++)
        y[j] = 0;
    for (int64_t d = 0; d < dim; d++)
        for (int64_t j = 0; j < count; j++)
            y[j] += x[d] * a_transposed[d * rows + j];
}

static void add_scaled(double *y, double a, const double *x, int64_t dim)
{
    for (int64_t d = 0; d < dim; d++)
        y[d] += a * x[d];
}

static double *numbers(int64_t count)
{
    double *memory = malloc((size_t)(count > 0 ? count : 1) * sizeof *memory);
    if (memory == NULL)
        abort();
    return memory;
}

static double capped(const struct ref_shape *s, double score)
{
    const double cap = (double)s->softcap;
    return cap == 0 ? score : cap * tanh(score / cap);
}

/* d capped / d score. 1 - tanh^2 would lose its digits where tanh is almost 1. */
static double slope(const struct ref_shape *s, double score)
{
    const double cap = (double)s->softcap, c = cap == 0 ? 1 : cosh(score / cap);
    return 1 / (c * c);
}

static double sink_of(const struct ref_shape *s, int64_t head)
{
    return s->sinks != NULL ? (double)s->sinks[head] : -INFINITY;
}

/* k_transposed and v begin at the first key that the query sees. */
static void forward_row(const struct ref_shape *s, const double *q, const double *k_transposed, const double *v, int64_t key,
                        int64_t visible, double sink, double *scores, double *o, double *lse)
{
    memset(o, 0, (size_t)s->head_dim * sizeof *o);
    *lse = sink;
    if (visible == 0)
        return;

    products(scores, q, k_transposed, visible, s->seqlen_k, s->head_dim);
    double max = sink;
    bool nothing = sink == -INFINITY; /* every term is -inf: the sum of their exponentials is 0, LSE is -inf, and O is 0 / 0 */
    for (int64_t j = 0; j < visible; j++) {
        scores[j] *= (double)s->softmax_scale;
        if (s->k_scale)
            scores[j] *= s->k_scale[key + j];
        scores[j] = capped(s, scores[j]);
        nothing = nothing && scores[j] == -INFINITY;
        max = scores[j] > max ? scores[j] : max;
    }
    double sum = sink == -INFINITY ? 0 : exp(sink - max);
    for (int64_t j = 0; j < visible; j++)
        sum += scores[j] = exp(scores[j] - max);
    for (int64_t j = 0; j < visible; j++)
        add_scaled(o, scores[j] / sum * (s->v_scale ? s->v_scale[key + j] : 1), v + j * s->head_dim, s->head_dim);
    *lse = nothing ? -INFINITY : max + log(sum);
}

void reference_forward(const struct ref_shape *s, const double *q, const double *k, const double *v, double *o, double *lse)
{
    const int64_t dim = s->head_dim;
    double *k_transposed = numbers(s->seqlen_k * dim);
    double *scores = numbers(s->seqlen_k);

    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads_q; h++) {
            const int64_t keys = k_row(s, b, h, 0);
            transpose(k_transposed, k + keys * dim, s->seqlen_k, dim);
            for (int64_t i = 0; i < s->seqlen_q; i++) {
                const int64_t row = q_row(s, b, h, i), first = ref_first(s, i);
                forward_row(s, q + row * dim, k_transposed + first, v + (keys + first) * dim, keys + first, ref_end(s, i) - first,
                            sink_of(s, h), scores, o + row * dim, lse + row);
            }
        }
    free(scores);
    free(k_transposed);
}

void reference_backward(const struct ref_shape *s, const double *q, const double *k, const double *v, const double *o,
                        const double *lse, const double *dout, double *dq, double *dk, double *dv, double *dsinks)
{
    const int64_t dim = s->head_dim;
    const double scale = (double)s->softmax_scale;
    double *k_transposed = numbers(s->seqlen_k * dim);
    double *v_transposed = numbers(s->seqlen_k * dim);
    double *scores = numbers(s->seqlen_k);
    double *dp = numbers(s->seqlen_k);

    memset(dq, 0, (size_t)(s->batch * s->heads_q * s->seqlen_q * dim) * sizeof *dq);
    memset(dk, 0, (size_t)(s->batch * s->heads_kv * s->seqlen_k * dim) * sizeof *dk);
    memset(dv, 0, (size_t)(s->batch * s->heads_kv * s->seqlen_k * dim) * sizeof *dv);

    for (int64_t h = 0; h < s->heads_q && dsinks != NULL; h++)
        dsinks[h] = 0;

    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads_q; h++) {
            const int64_t keys = k_row(s, b, h, 0);
            transpose(k_transposed, k + keys * dim, s->seqlen_k, dim);
            transpose(v_transposed, v + keys * dim, s->seqlen_k, dim);
            for (int64_t i = 0; i < s->seqlen_q; i++) {
                const int64_t first = ref_first(s, i), visible = ref_end(s, i) - first, seen = keys + first;
                const int64_t row = q_row(s, b, h, i);
                const double *qi = q + row * dim, *douti = dout + row * dim;
                if (visible == 0)
                    continue;
                products(scores, qi, k_transposed + first, visible, s->seqlen_k, dim);
                products(dp, douti, v_transposed + first, visible, s->seqlen_k, dim);
                double delta = 0;
                for (int64_t d = 0; d < dim; d++)
                    delta += douti[d] * o[row * dim + d];
                if (dsinks != NULL)
                    dsinks[h] -= exp(sink_of(s, h) - lse[row]) * delta;
                for (int64_t j = 0; j < visible; j++) {
                    const double score = scale * scores[j], p = exp(capped(s, score) - lse[row]);
                    const double ds = p * (dp[j] - delta) * slope(s, score);
                    add_scaled(dv + (seen + j) * dim, p, douti, dim);
                    add_scaled(dq + row * dim, scale * ds, k + (seen + j) * dim, dim);
                    add_scaled(dk + (seen + j) * dim, scale * ds, qi, dim);
                }
            }
        }
    free(dp);
    free(scores);
    free(v_transposed);
    free(k_transposed);
}
