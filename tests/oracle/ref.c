/* The fp64 reference. One query row at a time:
 *
 *   s_j = softmax_scale * <q, k_j>      p_j = exp(s_j - m) / l      o = sum_j p_j v_j      lse = m + log l
 *   dp_j = <dout, v_j>   delta = <dout, o>   ds_j = p_j (dp_j - delta)
 *   dv_j += p_j dout     dq = softmax_scale * sum_j ds_j k_j        dk_j += softmax_scale * ds_j q
 *
 * over the keys j that the query sees. With a softcap c, s_j = c tanh(softmax_scale * <q, k_j> / c) and ds_j is
 * multiplied by the slope 1 - tanh^2. With ALiBi or a bias s_j has one more term after the cap, whose gradient is
 * ds_j without that slope. With sinks, s_h of the query's head is one more term of l, and of m: l = exp(s_h
 * - m) + sum_j exp(s_j - m); then
 *
 *   dsinks_h = sum over the head's rows of exp(s_h - lse) (0 - delta)
 *
 * as the sink were a key whose V is 0. Values that no visible pair touches are zero; nothing hidden is ever multiplied
 * in. */
#include "tests/oracle/ref.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void ref_mask(struct ref_shape *s, enum glint_mask mask, int64_t window_left, int64_t window_right, int64_t diagonal)
{
    const int64_t everything = s->seqlen_q + s->seqlen_k;
    const bool top_left = mask == GLINT_MASK_CAUSAL_TOP_LEFT || mask == GLINT_MASK_BAND_TOP_LEFT;
    /* of a diagonal so far out that no window reaches back, any other such one is as good */
    const int64_t far = INT64_C(1) << 40, moved = diagonal < -far ? -far : diagonal > far ? far : diagonal;
    const int64_t offset = (top_left ? 0 : s->seqlen_k - s->seqlen_q) + moved;
    const int64_t most = INT64_C(1) << 30; /* as glint.h says */
    s->offset = offset < -most ? -most : offset > most ? most : offset;
    s->first = -everything;
    s->last = everything;
    switch (mask) {
    case GLINT_MASK_NONE: break;
    case GLINT_MASK_CAUSAL_TOP_LEFT:
    case GLINT_MASK_CAUSAL_BOTTOM_RIGHT: s->last = offset; break;
    case GLINT_MASK_BAND_TOP_LEFT:
    case GLINT_MASK_BAND_BOTTOM_RIGHT:
        if (window_left != GLINT_UNBOUNDED)
            s->first = offset - window_left;
        if (window_right != GLINT_UNBOUNDED)
            s->last = offset + window_right;
        break;
    default: abort();
    }
}

static bool has_bit(const struct ref_shape *s, int64_t query, int64_t slot)
{
    return (s->tree[query * s->tree_words + slot / 32] >> slot % 32 & 1) != 0;
}

/* New keys that a query sees, of the first `slots`. */
static int64_t path_to(const struct ref_shape *s, int64_t query, int64_t slots)
{
    int64_t length = 0;
    for (int64_t slot = 0; slot < slots; slot++)
        length += has_bit(s, query, slot);
    return length;
}

bool ref_sees(const struct ref_shape *s, int64_t query, int64_t key)
{
    const int64_t before = s->seqlen_k - s->seqlen_q;
    int64_t stands = query, place = key;
    if (s->begin != NULL && (key < s->begin[query] || key >= s->end[query]))
        return false;
    if (key < 0 || key >= s->seqlen_k)
        return false;
    if (s->tree != NULL) {
        stands = path_to(s, query, s->seqlen_q) - 1;
        if (key >= before && !has_bit(s, query, key - before))
            return false;
        place = key < before ? key : before + path_to(s, query, key - before);
    }
    return stands + s->first <= place && place <= stands + s->last;
}

int64_t ref_end(const struct ref_shape *s, int64_t query)
{
    if (s->tree != NULL) {
        int64_t key = s->seqlen_k;
        while (key > 0 && !ref_sees(s, query, key - 1))
            key--;
        return key;
    }
    const int64_t of_band = query + s->last + 1, end = s->end != NULL && s->end[query] < of_band ? s->end[query] : of_band;
    return end < 0 ? 0 : end > s->seqlen_k ? s->seqlen_k : end;
}

int64_t ref_first(const struct ref_shape *s, int64_t query)
{
    if (s->tree != NULL) {
        const int64_t end = ref_end(s, query);
        int64_t key = 0;
        while (key < end && !ref_sees(s, query, key))
            key++;
        return key;
    }
    const int64_t of_band = query + s->first, end = ref_end(s, query);
    const int64_t first = s->begin != NULL && s->begin[query] > of_band ? s->begin[query] : of_band;
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

/* What ALiBi or a bias adds to the score of query i of head h and key j. */
static double bias_of(const struct ref_shape *s, int64_t b, int64_t h, int64_t i, int64_t j)
{
    if (s->bias != NULL)
        return (double)s->bias[((b * s->heads_q + h) * s->seqlen_q + i) * s->seqlen_k + j];
    return s->slopes == NULL ? 0 : -(double)s->slopes[h] * fabs((double)(i + s->offset - j));
}

static double sink_of(const struct ref_shape *s, int64_t head)
{
    return s->sinks != NULL ? (double)s->sinks[head] : -INFINITY;
}

/* k_transposed and v begin at the first key that query i of head h sees, which is `first` of the rows from `keys` on. */
static void forward_row(const struct ref_shape *s, int64_t b, int64_t h, int64_t i, const double *q, const double *k_transposed,
                        const double *v, int64_t keys, int64_t first, int64_t visible, double *scores, double *o, double *lse)
{
    const int64_t key = keys + first;
    const double sink = sink_of(s, h);
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
        scores[j] = capped(s, scores[j]) + bias_of(s, b, h, i, first + j);
        if (s->tree != NULL && !ref_sees(s, i, first + j))
            scores[j] = -INFINITY;
        nothing = nothing && scores[j] == -INFINITY;
        max = scores[j] > max ? scores[j] : max;
        if (s->max_logit != NULL && scores[j] > s->max_logit[h])
            s->max_logit[h] = scores[j];
    }
    double sum = sink == -INFINITY ? 0 : exp(sink - max);
    for (int64_t j = 0; j < visible; j++)
        sum += scores[j] = exp(scores[j] - max);
    for (int64_t j = 0; j < visible; j++)
        if (s->tree == NULL || ref_sees(s, i, first + j))
            add_scaled(o, scores[j] / sum * (s->v_scale ? s->v_scale[key + j] : 1), v + j * s->head_dim, s->head_dim);
    *lse = nothing ? -INFINITY : max + log(sum);
}

void reference_forward(const struct ref_shape *s, const double *q, const double *k, const double *v, double *o, double *lse)
{
    const int64_t dim = s->head_dim;
    double *k_transposed = numbers(s->seqlen_k * dim);
    double *scores = numbers(s->seqlen_k);

    for (int64_t h = 0; h < s->heads_q && s->max_logit != NULL; h++)
        s->max_logit[h] = -INFINITY;
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads_q; h++) {
            const int64_t keys = k_row(s, b, h, 0);
            transpose(k_transposed, k + keys * dim, s->seqlen_k, dim);
            for (int64_t i = 0; i < s->seqlen_q; i++) {
                const int64_t row = q_row(s, b, h, i), first = ref_first(s, i);
                forward_row(s, b, h, i, q + row * dim, k_transposed + first, v + (keys + first) * dim, keys, first,
                            ref_end(s, i) - first, scores, o + row * dim, lse + row);
            }
        }
    free(scores);
    free(k_transposed);
}

void reference_backward(const struct ref_shape *s, const double *q, const double *k, const double *v, const double *o,
                        const double *lse, const double *dout, const float *dlse, double *dq, double *dk, double *dv,
                        double *dsinks, double *dbias)
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
    for (int64_t i = 0; i < s->batch * s->heads_q * s->seqlen_q * s->seqlen_k && dbias != NULL; i++)
        dbias[i] = 0;

    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads_q; h++) {
            const int64_t keys = k_row(s, b, h, 0);
            transpose(k_transposed, k + keys * dim, s->seqlen_k, dim);
            transpose(v_transposed, v + keys * dim, s->seqlen_k, dim);
            for (int64_t i = 0; i < s->seqlen_q; i++) {
                const int64_t first = ref_first(s, i), visible = ref_end(s, i) - first, seen = keys + first;
                const int64_t row = q_row(s, b, h, i);
                const double *qi = q + row * dim, *douti = dout + row * dim;
                if (visible == 0) {
                    if (dsinks != NULL && dlse != NULL && sink_of(s, h) != -INFINITY) /* LSE is the sink */
                        dsinks[h] += (double)dlse[row];
                    continue;
                }
                products(scores, qi, k_transposed + first, visible, s->seqlen_k, dim);
                products(dp, douti, v_transposed + first, visible, s->seqlen_k, dim);
                double delta = dlse != NULL ? -(double)dlse[row] : 0;
                for (int64_t d = 0; d < dim; d++)
                    delta += douti[d] * o[row * dim + d];
                if (dsinks != NULL)
                    dsinks[h] -= exp(sink_of(s, h) - lse[row]) * delta;
                for (int64_t j = 0; j < visible; j++) {
                    const double score = scale * scores[j], p = exp(capped(s, score) + bias_of(s, b, h, i, first + j) - lse[row]);
                    const double of_bias = p * (dp[j] - delta), ds = of_bias * slope(s, score);
                    if (dbias != NULL)
                        dbias[row * s->seqlen_k + first + j] = of_bias;
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
