/* The yardstick: attention as one would write it without a fused kernel, in the variant's own dtype. See
 * tests/oracle/ref.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/oracle/half.h"
#include "tests/oracle/ref.h"

static float *numbers(int64_t count)
{
    float *memory = malloc((size_t)(count > 0 ? count : 1) * sizeof *memory);
    if (memory == NULL)
        abort();
    return memory;
}

static float *factors(enum glint_math math, const float *x, int64_t count)
{
    float *rounded = numbers(count);
    for (int64_t i = 0; i < count; i++)
        rounded[i] = factor_round(math, x[i]);
    return rounded;
}

static void transpose(float *to, const float *from, int64_t rows, int64_t dim)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t d = 0; d < dim; d++)
            to[d * rows + r] = from[r * dim + d];
}

static void products(float *y, const float *x, const float *a_transposed, int64_t count, int64_t rows, int64_t dim)
{
    for (int64_t j = 0; j < count; j++)
        y[j] = 0;
    for (int64_t d = 0; d < dim; d++)
        for (int64_t j = 0; j < count; j++)
            y[j] += x[d] * a_transposed[d * rows + j];
}

static void add_scaled(float *y, float a, const float *x, int64_t dim)
{
    for (int64_t d = 0; d < dim; d++)
        y[d] += a * x[d];
}

static void store(enum glint_dtype dtype, float *to, const float *from, float scale, int64_t count)
{
    for (int64_t d = 0; d < count; d++)
        to[d] = dtype_round(dtype, scale * from[d]);
}

static float capped(const struct ref_shape *s, float score)
{
    return s->softcap == 0 ? score : s->softcap * tanhf(score / s->softcap);
}

/* bh: the batch and the head; the last dimension of a bias are keys. */
static float bias_of(const struct ref_shape *s, int64_t bh, int64_t i, int64_t j)
{
    const int64_t h = bh % s->heads_q;
    if (s->bias != NULL)
        return s->bias[(bh * s->seqlen_q + i) * s->seqlen_k + j];
    return s->slopes == NULL ? 0 : -s->slopes[h] * fabsf((float)(i + s->offset - j));
}

void plain_forward(const struct ref_shape *s, enum glint_dtype dtype, enum glint_math math, const float *q_stored,
                   const float *k_stored, const float *v_stored, float *o, float *lse)
{
    const int64_t dim = s->head_dim, group = s->heads_q / s->heads_kv, key_numbers = s->batch * s->heads_kv * s->seqlen_k * dim;
    float *q = factors(math, q_stored, s->batch * s->heads_q * s->seqlen_q * dim);
    float *k = factors(math, k_stored, key_numbers), *v = factors(math, v_stored, key_numbers);
    float *k_transposed = numbers(s->seqlen_k * dim), *p = numbers(s->seqlen_k), *sum_pv = numbers(dim);

    for (int64_t bh = 0; bh < s->batch * s->heads_q; bh++) {
        const int64_t keys = (bh / s->heads_q * s->heads_kv + bh % s->heads_q / group) * s->seqlen_k;
        transpose(k_transposed, k + keys * dim, s->seqlen_k, dim);
        for (int64_t i = 0; i < s->seqlen_q; i++) {
            const int64_t row = bh * s->seqlen_q + i, first = ref_first(s, i), visible = ref_end(s, i) - first;
            const float sink = s->sinks != NULL ? s->sinks[bh % s->heads_q] : -INFINITY;
            float max = sink, sum = 0;
            memset(sum_pv, 0, (size_t)dim * sizeof *sum_pv);
            products(p, q + row * dim, k_transposed + first, visible, s->seqlen_k, dim);
            for (int64_t j = 0; j < visible; j++) {
                p[j] = capped(s, s->softmax_scale * p[j]) + bias_of(s, bh, i, first + j);
                if (s->tree != NULL && !ref_sees(s, i, first + j))
                    p[j] = -INFINITY;
                max = p[j] > max ? p[j] : max;
            }
            for (int64_t j = 0; j < visible; j++)
                sum += p[j] = expf(p[j] - max);
            sum += sink == -INFINITY ? 0 : expf(sink - max);
            for (int64_t j = 0; j < visible; j++)
                if (s->tree == NULL || ref_sees(s, i, first + j))
                    add_scaled(sum_pv, factor_round(math, dtype_round(dtype, p[j] / sum)), v + (keys + first + j) * dim, dim);
            store(dtype, o + row * dim, sum_pv, 1, dim);
            lse[row] = visible > 0 ? max + logf(sum) : sink;
        }
    }
    free(sum_pv);
    free(p);
    free(k_transposed);
    free(v);
    free(k);
    free(q);
}

void plain_backward(const struct ref_shape *s, enum glint_dtype dtype, enum glint_math math, const float *q_stored,
                    const float *k_stored, const float *v_stored, const float *o, const float *lse, const float *dout_stored,
                    const float *dlse, float *dq, float *dk, float *dv, float *dsinks, float *dbias)
{
    const int64_t dim = s->head_dim, group = s->heads_q / s->heads_kv;
    const int64_t query_numbers = s->batch * s->heads_q * s->seqlen_q * dim,
                  key_numbers = s->batch * s->heads_kv * s->seqlen_k * dim;
    float *q = factors(math, q_stored, query_numbers), *dout = factors(math, dout_stored, query_numbers);
    float *k = factors(math, k_stored, key_numbers), *v = factors(math, v_stored, key_numbers);
    float *k_transposed = numbers(s->seqlen_k * dim), *v_transposed = numbers(s->seqlen_k * dim);
    float *p = numbers(s->seqlen_k), *dp = numbers(s->seqlen_k), *sum_dq = numbers(dim);

    for (int64_t h = 0; h < s->heads_q && dsinks != NULL; h++)
        dsinks[h] = 0;
    for (int64_t i = 0; i < s->batch * s->heads_q * s->seqlen_q * s->seqlen_k && dbias != NULL; i++)
        dbias[i] = 0;
    memset(dk, 0, (size_t)key_numbers * sizeof *dk);
    memset(dv, 0, (size_t)key_numbers * sizeof *dv);
    for (int64_t bh = 0; bh < s->batch * s->heads_q; bh++) {
        const int64_t keys = (bh / s->heads_q * s->heads_kv + bh % s->heads_q / group) * s->seqlen_k;
        transpose(k_transposed, k + keys * dim, s->seqlen_k, dim);
        transpose(v_transposed, v + keys * dim, s->seqlen_k, dim);
        for (int64_t i = 0; i < s->seqlen_q; i++) {
            const int64_t row = bh * s->seqlen_q + i, first = ref_first(s, i), visible = ref_end(s, i) - first, seen = keys + first;
            const float *qi = q + row * dim, *douti = dout + row * dim;
            float delta = 0;
            for (int64_t d = 0; d < dim; d++)
                delta += dout_stored[row * dim + d] * o[row * dim + d];
            delta -= dlse != NULL ? dlse[row] : 0;
            memset(sum_dq, 0, (size_t)dim * sizeof *sum_dq);
            products(p, qi, k_transposed + first, visible, s->seqlen_k, dim);
            products(dp, douti, v_transposed + first, visible, s->seqlen_k, dim);
            if (dsinks != NULL && (visible > 0 || s->sinks[bh % s->heads_q] != -INFINITY)) /* delta is - dLSE where O is 0 */
                dsinks[bh % s->heads_q] -= expf(s->sinks[bh % s->heads_q] - lse[row]) * delta;
            for (int64_t j = 0; j < visible; j++) {
                const float score = capped(s, s->softmax_scale * p[j]), tanh = s->softcap == 0 ? 0 : score / s->softcap;
                const float biased = score + bias_of(s, bh, i, first + j);
                const float pj = dtype_round(dtype, expf(biased - lse[row])); /* as forward stores it */
                const float ds = factor_round(math, dtype_round(dtype, pj * (dp[j] - delta) * (1 - tanh * tanh)));
                if (dbias != NULL)
                    dbias[row * s->seqlen_k + first + j] = dtype_round(dtype, pj * (dp[j] - delta));
                add_scaled(dv + (seen + j) * dim, factor_round(math, pj), douti, dim);
                add_scaled(dk + (seen + j) * dim, ds, qi, dim);
                add_scaled(sum_dq, ds, k + (seen + j) * dim, dim);
            }
            store(dtype, dq + row * dim, sum_dq, s->softmax_scale, dim);
        }
    }
    store(dtype, dk, dk, s->softmax_scale, key_numbers);
    store(dtype, dv, dv, 1, key_numbers);
    free(sum_dq);
    free(dp);
    free(p);
    free(v_transposed);
    free(k_transposed);
    free(v);
    free(k);
    free(dout);
    free(q);
}
