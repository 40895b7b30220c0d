/* What everything else is measured with: the fp64 reference against its own central differences and against the
 * definition, the yardstick against the reference, and the 16-bit conversions over all their values and all their
 * rounding boundaries. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/checks/runner.h"
#include "tests/oracle/half.h"
#include "tests/oracle/ref.h"
#include "tests/support/rand.h"

/* ---- conversions ---- */

struct format {
    enum glint_dtype dtype;
    int mantissa_bits, bias;
    float (*widen)(uint16_t);
    uint16_t (*narrow)(float);
};
static const struct format half = {GLINT_F16, 10, 15, float_from_half, half_from_float};
static const struct format bfloat = {GLINT_BF16, 7, 127, float_from_bfloat, bfloat_from_float};

/* The value of the bits from the definition of the format. */
static double definition(const struct format *f, uint16_t bits)
{
    const int mantissa = bits & ((1 << f->mantissa_bits) - 1), exponent = (bits & 0x7fff) >> f->mantissa_bits;
    const double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == 0x7fff >> f->mantissa_bits)
        return mantissa != 0 ? NAN : sign * INFINITY;
    const int hidden = exponent == 0 ? 0 : 1 << f->mantissa_bits;
    return sign * ldexp(hidden + mantissa, (exponent == 0 ? 1 : exponent) - f->bias - f->mantissa_bits);
}

static void narrow_to(const struct format *f, float value, uint16_t expected)
{
    const uint16_t got = f->narrow(value);
    if (!check_within("bits", got == expected ? 0 : 1, 0))
        check_fail("%s of %a is %#06x, expected %#06x", dtype_name(f->dtype), (double)value, got, expected);
}

/* Between each finite magnitude and the next (or infinity, one step beyond the largest): the middle goes to the even
 * one, the floats beside the middle to the nearer one. */
static void rounding_above(const struct format *f, uint16_t bits, uint16_t sign)
{
    const double low = definition(f, bits), next = definition(f, (uint16_t)(bits + 1));
    const double high = isinf(next) ? low + (low - definition(f, (uint16_t)(bits - 1))) : next;
    const float middle = (float)((low + high) / 2), s = sign != 0 ? -1.0f : 1.0f;
    if ((double)middle != (low + high) / 2)
        check_fail("the middle above %s %#06x is no float", dtype_name(f->dtype), bits);
    narrow_to(f, s * middle, (uint16_t)(sign | (bits % 2 == 0 ? bits : bits + 1)));
    narrow_to(f, s * nextafterf(middle, 0), (uint16_t)(sign | bits));
    narrow_to(f, s * nextafterf(middle, INFINITY), (uint16_t)(sign | (bits + 1)));
}

static void conversions(const struct format *f)
{
    for (uint32_t i = 0; i <= 0xffff; i++) {
        const uint16_t bits = (uint16_t)i, sign = bits & 0x8000;
        const double expected = definition(f, bits);
        const float got = f->widen(bits);
        const bool same = isnan(expected) ? isnan(got) : (double)got == expected && (signbit(got) != 0) == (signbit(expected) != 0);
        if (!check_within("bits", same ? 0 : 1, 0))
            check_fail("%s %#06x is %a, expected %a", dtype_name(f->dtype), bits, (double)got, expected);
        if (isnan(expected)) {
            if (!check_within("bits", isnan(f->widen(f->narrow(got))) ? 0 : 1, 0))
                check_fail("%s of the NaN %#06x is no NaN", dtype_name(f->dtype), bits);
            continue;
        }
        narrow_to(f, got, bits);
        if (!isinf(expected))
            rounding_above(f, (uint16_t)(bits & 0x7fff), sign);
    }
}

static void half_conversions(struct subject *subject, const struct shape *shape)
{
    (void)subject, (void)shape;
    conversions(&half);
}

static void bfloat_conversions(struct subject *subject, const struct shape *shape)
{
    (void)subject, (void)shape;
    conversions(&bfloat);
}

/* A tf32 factor is the nearest multiple of 2^-10 of the power of two below it, of 2^-136 at least; of two, the one
 * further from zero. */
static void factors(struct subject *subject, const struct shape *shape)
{
    (void)subject;
    struct rand r = rand_stream(shape->seed, 1);
    for (int i = 0; i < 1000000; i++) {
        uint32_t bits = (uint32_t)rand_bits(&r);
        if (i % 4 == 0)
            bits = (bits & ~0x1fffu) | 0x1000u; /* halfway */
        float x;
        memcpy(&x, &bits, sizeof x);
        if (!isfinite(x) || fabsf(x) > 0x1.ff8p127f)
            continue;
        int exponent;
        frexp((double)x, &exponent);
        const double step = ldexp(1, exponent < -125 ? -136 : exponent - 11), expected = step * round((double)x / step);
        const double got = (double)factor_round(GLINT_MATH_TF32, x);
        if (!check_within("bits", got == expected ? 0 : 1, 0))
            check_fail("the tf32 of %a is %a, expected %a", (double)x, got, expected);
        if (!check_within("bits", factor_round(GLINT_MATH_NATIVE, x) == x && factor_round(GLINT_MATH_TF32X3, x) == x ? 0 : 1, 0))
            check_fail("%a is rounded by arithmetic that takes it whole", (double)x);
    }
}

/* ---- the reference ---- */

enum { MAX_NUMBERS = 2 * 4 * 16 * 8 };

struct world {
    struct ref_shape s;
    double q[MAX_NUMBERS], k[MAX_NUMBERS], v[MAX_NUMBERS], dout[MAX_NUMBERS];
    float sinks[4], slopes[4], dlse[MAX_NUMBERS / 8];
    float bias[MAX_NUMBERS];
    double dsinks[4], dbias[MAX_NUMBERS];
    bool of_lse; /* dlse counts */
    double o[MAX_NUMBERS], lse[MAX_NUMBERS], dq[MAX_NUMBERS], dk[MAX_NUMBERS], dv[MAX_NUMBERS];
};

static void draw(double *x, int64_t count, double step, uint64_t seed)
{
    struct rand r = rand_stream(seed, 1);
    for (int64_t i = 0; i < count; i++)
        x[i] = rint((double)rand_normal(&r) / step) * step;
}

static int64_t q_count(const struct ref_shape *s)
{
    return s->batch * s->heads_q * s->seqlen_q * s->head_dim;
}

static int64_t k_count(const struct ref_shape *s)
{
    return s->batch * s->heads_kv * s->seqlen_k * s->head_dim;
}

static int64_t bias_count(const struct ref_shape *s)
{
    return s->batch * s->heads_q * s->seqlen_q * s->seqlen_k;
}

static struct world *world_of(const struct shape *shape, double step)
{
    struct world *w = check_memory(sizeof *w);
    w->s = (struct ref_shape){.batch = shape->batch,
                              .heads_q = shape->heads_q,
                              .heads_kv = shape->heads_kv,
                              .seqlen_q = shape->seqlen_q,
                              .seqlen_k = shape->seqlen_k,
                              .head_dim = 8,
                              .softmax_scale = 0.375f,
                              .softcap = shape->softcap};
    for (int64_t h = 0; h < shape->heads_q && shape->alibi == SLOPES; h++) {
        w->slopes[h] = 0.25f - 0.125f * (float)h;
        w->s.slopes = w->slopes;
    }
    if (shape->bias == BIAS) {
        struct rand r = rand_stream(shape->seed, 2);
        for (int64_t i = 0; i < bias_count(&w->s); i++)
            w->bias[i] = rintf(64 * rand_normal(&r)) / 64;
        w->s.bias = w->bias;
    }
    for (int64_t h = 0; h < shape->heads_q && shape->sinks; h++) {
        w->sinks[h] = 0.75f * (float)h - 1;
        w->s.sinks = w->sinks;
    }
    ref_mask(&w->s, shape->mask, shape->window_left, shape->window_right, shape->diagonal);
    draw(w->q, q_count(&w->s), step, shape->seed);
    draw(w->k, k_count(&w->s), step, shape->seed + 1);
    draw(w->v, k_count(&w->s), step, shape->seed + 2);
    draw(w->dout, q_count(&w->s), step, shape->seed + 3);
    reference_forward(&w->s, w->q, w->k, w->v, w->o, w->lse);
    w->of_lse = shape->dlse;
    for (int64_t row = 0; row < q_count(&w->s) / 8; row++)
        w->dlse[row] = 0.25f * (float)(row % 7) - 0.75f;
    reference_backward(&w->s, w->q, w->k, w->v, w->o, w->lse, w->dout, w->of_lse ? w->dlse : NULL, w->dq, w->dk, w->dv,
                       w->s.sinks != NULL ? w->dsinks : NULL, w->s.bias != NULL ? w->dbias : NULL);
    return w;
}

static double inner(const double *a, const double *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* <dO, O> + <dLSE, LSE> with the tensor moved by h u. */
static double value_at(struct world *w, double *tensor, const double *u, int64_t count, double h)
{
    double *o = check_memory(sizeof w->o), *lse = check_memory(sizeof w->lse);
    for (int64_t i = 0; i < count; i++)
        tensor[i] += h * u[i];
    reference_forward(&w->s, w->q, w->k, w->v, o, lse);
    for (int64_t i = 0; i < count; i++)
        tensor[i] -= h * u[i];
    double value = inner(o, w->dout, q_count(&w->s));
    for (int64_t row = 0; row < q_count(&w->s) / 8 && w->of_lse; row++)
        value += lse[row] > -INFINITY ? (double)w->dlse[row] * lse[row] : 0;
    return value;
}

static void differences(struct subject *subject, const struct shape *shape)
{
    (void)subject;
    const double h = 0x1p-18, gate = 5 * 3e-10;
    struct world *w = world_of(shape, h);
    const struct {
        const char *name;
        double *tensor, *gradient;
        int64_t count;
    } part[] = {{"Q", w->q, w->dq, q_count(&w->s)}, {"K", w->k, w->dk, k_count(&w->s)}, {"V", w->v, w->dv, k_count(&w->s)}};
    double norm = 0;
    for (int p = 0; p < 3; p++)
        norm += inner(part[p].gradient, part[p].gradient, part[p].count);
    for (int p = 0; p < 3; p++)
        for (uint64_t round = 0; round < 8; round++) {
            double u[MAX_NUMBERS];
            struct rand r = rand_stream(shape->seed + round, (uint64_t)p + 10);
            for (int64_t i = 0; i < part[p].count; i++)
                u[i] = (double)rand_sign(&r);
            const double expected = inner(part[p].gradient, u, part[p].count);
            const double measured =
                (value_at(w, part[p].tensor, u, part[p].count, h) - value_at(w, part[p].tensor, u, part[p].count, -h)) / (2 * h);
            const double error = fabs(measured - expected) / sqrt(norm);
            if (!check_within("derivative f64", error, gate))
                check_fail("moving %s: %.15g by the gradient, %.15g by differences, off by %.3g |gradient|, gate %.3g",
                           part[p].name, expected, measured, error, gate);
        }
    for (int64_t i = 0; i < bias_count(&w->s) && w->s.bias != NULL; i++) {
        const double none = 0;
        const float bias = w->bias[i];
        w->bias[i] = bias + (float)h;
        const double above = value_at(w, w->q, &none, 0, h);
        w->bias[i] = bias - (float)h;
        const double below = value_at(w, w->q, &none, 0, h);
        w->bias[i] = bias;
        const double measured = (above - below) / (2 * h), error = fabs(measured - w->dbias[i]) / sqrt(norm);
        if (!check_within("derivative f64", error, gate))
            check_fail("moving bias %lld: %.15g by the gradient, %.15g by differences, off by %.3g |gradient|, gate %.3g",
                       (long long)i, w->dbias[i], measured, error, gate);
    }
    for (int64_t head = 0; head < w->s.heads_q && w->s.sinks != NULL; head++) {
        const double none = 0;
        const float sink = w->sinks[head]; /* a sum of few powers of two: moving it by h is exact */
        w->sinks[head] = sink + (float)h;
        const double above = value_at(w, w->q, &none, 0, h);
        w->sinks[head] = sink - (float)h;
        const double below = value_at(w, w->q, &none, 0, h);
        w->sinks[head] = sink;
        const double measured = (above - below) / (2 * h), error = fabs(measured - w->dsinks[head]) / sqrt(norm);
        if (!check_within("derivative f64", error, gate))
            check_fail(
                "moving the sink of head %lld: %.15g by the gradient, %.15g by differences, off by %.3g |gradient|, gate %.3g",
                (long long)head, w->dsinks[head], measured, error, gate);
    }
}

/* The distance of key j from the diagonal of query i, to the left: it is counted from the first query and key, or from
 * the last. */
static int64_t distance_of(const struct shape *s, int64_t i, int64_t j)
{
    const int64_t from_first = i - j, from_last = (s->seqlen_k - 1 - j) - (s->seqlen_q - 1 - i);
    const bool top_left = s->mask == GLINT_MASK_CAUSAL_TOP_LEFT || s->mask == GLINT_MASK_BAND_TOP_LEFT;
    return (top_left ? from_first : from_last) + s->diagonal; /* the key is so much further to the left then */
}

/* Whether query i sees key j. */
static bool sees(const struct shape *s, int64_t i, int64_t j)
{
    const int64_t distance = distance_of(s, i, j);
    if (s->mask == GLINT_MASK_NONE)
        return true;
    if (s->mask == GLINT_MASK_CAUSAL_TOP_LEFT || s->mask == GLINT_MASK_CAUSAL_BOTTOM_RIGHT)
        return distance >= 0;
    return (s->window_left == GLINT_UNBOUNDED || distance <= s->window_left) &&
           (s->window_right == GLINT_UNBOUNDED || -distance <= s->window_right);
}

/* O and LSE from the definition, without subtracting a maximum and without any of the reference's code. */
static void by_definition(struct subject *subject, const struct shape *shape)
{
    (void)subject;
    const struct world *w = world_of(shape, 0x1p-18);
    const struct ref_shape *s = &w->s;
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads_q; h++)
            for (int64_t i = 0; i < s->seqlen_q; i++) {
                const int64_t row = (b * s->heads_q + h) * s->seqlen_q + i, hk = h * s->heads_kv / s->heads_q;
                double sum = s->sinks != NULL ? exp((double)s->sinks[h]) : 0, o[8] = {0};
                for (int64_t j = 0; j < s->seqlen_k; j++) {
                    const bool seen = sees(shape, i, j);
                    const int64_t key = ((b * s->heads_kv + hk) * s->seqlen_k + j) * 8;
                    double score = inner(w->q + row * 8, w->k + key, 8) * 0.375;
                    if (s->softcap != 0)
                        score = (double)s->softcap * (1 - 2 / (exp(2 * score / (double)s->softcap) + 1));
                    if (s->bias != NULL)
                        score += (double)s->bias[((b * s->heads_q + h) * s->seqlen_q + i) * s->seqlen_k + j];
                    if (s->slopes != NULL) /* nearer keys count more, on both sides, where the slope is above 0 */
                        score -= (double)s->slopes[h] * (double)llabs(distance_of(shape, i, j));
                    const double p = seen ? exp(score) : 0;
                    sum += p;
                    for (int64_t d = 0; d < 8; d++)
                        o[d] += p * w->v[key + d];
                }
                double error = sum > 0 ? fabs(log(sum) - w->lse[row]) : w->lse[row] == -INFINITY ? 0 : 1;
                for (int64_t d = 0; d < 8; d++)
                    error = fmax(error, fabs((sum > 0 ? o[d] / sum : 0) - w->o[row * 8 + d]));
                if (!check_within("definition", error, 1e-13))
                    check_fail("batch %lld head %lld row %lld is off the definition by %g", (long long)b, (long long)h,
                               (long long)i, error);
            }
}

/* The distance between plain attention and the truth. */
static double yardstick_error(const struct world *w, enum glint_dtype dtype, enum glint_math math, float *const in[6])
{
    const double *exact[3] = {w->dq, w->dk, w->dv};
    float *out[3], *forward[2];
    for (int t = 0; t < 3; t++)
        out[t] = check_memory(MAX_NUMBERS * sizeof(float));
    for (int t = 0; t < 2; t++)
        forward[t] = check_memory(MAX_NUMBERS * sizeof(float));
    plain_forward(&w->s, dtype, math, in[0], in[1], in[2], forward[0], forward[1]);
    float dsinks[4] = {0}, *const dbias = w->s.bias != NULL ? check_memory(MAX_NUMBERS * sizeof(float)) : NULL;
    plain_backward(&w->s, dtype, math, in[0], in[1], in[2], in[3], in[4], in[5], w->of_lse ? w->dlse : NULL, out[0], out[1], out[2],
                   w->s.sinks != NULL ? dsinks : NULL, dbias);
    double error = 0;
    for (int64_t i = 0; i < q_count(&w->s); i++)
        error = fmax(error, fabs((double)forward[0][i] - w->o[i]));
    for (int64_t i = 0; i < q_count(&w->s) / 8; i++)
        error = fmax(error, w->lse[i] == (double)forward[1][i] ? 0 : fabs((double)forward[1][i] - w->lse[i]));
    for (int t = 0; t < 3; t++)
        for (int64_t i = 0; i < (t == 0 ? q_count(&w->s) : k_count(&w->s)); i++)
            error = fmax(error, fabs((double)out[t][i] - exact[t][i]));
    for (int64_t h = 0; h < w->s.heads_q && w->s.sinks != NULL; h++)
        error = fmax(error, fabs((double)dsinks[h] - w->dsinks[h]));
    for (int64_t i = 0; i < bias_count(&w->s) && dbias != NULL; i++)
        error = fmax(error, fabs((double)dbias[i] - w->dbias[i]));
    return error;
}

/* The yardstick is close to the truth: float32 within 1e-5, the others and tf32 products within a few ulps. */
static void yardstick(struct subject *subject, const struct shape *shape)
{
    (void)subject;
    struct world *w = world_of(shape, 0x1p-4); /* such data are exact in every dtype */
    float *in[6];
    const double *from[6] = {w->q, w->k, w->v, w->o, w->lse, w->dout};
    for (int t = 0; t < 6; t++) {
        in[t] = check_memory(MAX_NUMBERS * sizeof(float));
        for (int i = 0; i < MAX_NUMBERS; i++)
            in[t][i] = (float)from[t][i];
    }
    static const struct {
        enum glint_dtype dtype;
        enum glint_math math;
        double least; /* a yardstick that rounds nothing measures nothing */
    } kind[] = {{GLINT_F32, GLINT_MATH_NATIVE, 0},
                {GLINT_F16, GLINT_MATH_NATIVE, 1e-5},
                {GLINT_BF16, GLINT_MATH_NATIVE, 1e-4},
                {GLINT_F32, GLINT_MATH_TF32, 1e-5},
                {GLINT_F32, GLINT_MATH_TF32X3, 0}};
    for (size_t i = 0; i < sizeof kind / sizeof kind[0]; i++) {
        const double ulp = factor_ulp(kind[i].math, kind[i].dtype), bound = ulp < 1e-6 ? 1e-5 : 8 * ulp;
        const double error = yardstick_error(w, kind[i].dtype, kind[i].math, in);
        if (!check_within("yardstick", error, bound) || error < kind[i].least)
            check_fail("plain attention in %s, arithmetic %d, is off by %g, bound %g", dtype_name(kind[i].dtype), kind[i].math,
                       error, bound);
    }
}

int main(int argc, char **argv)
{
    struct runner_options options;
    if (!runner_arguments(argc, argv, &options, NULL, NULL))
        return 2;
    struct check_list list = {.target = "//tests/oracle:reference_selftest"};
    static const struct {
        const char *name;
        struct shape shape;
    } shapes[] = {
        {"none", {.batch = 2, .heads_q = 2, .heads_kv = 2, .seqlen_q = 7, .seqlen_k = 11, .mask = GLINT_MASK_NONE}},
        {"gqa", {.batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = 9, .seqlen_k = 5, .mask = GLINT_MASK_NONE}},
        {"top_left", {.batch = 1, .heads_q = 2, .heads_kv = 1, .seqlen_q = 12, .seqlen_k = 9, .mask = GLINT_MASK_CAUSAL_TOP_LEFT}},
        {"bottom_right",
         {.batch = 1, .heads_q = 2, .heads_kv = 1, .seqlen_q = 6, .seqlen_k = 14, .mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT}},
        {"blind_rows",
         {.batch = 2, .heads_q = 4, .heads_kv = 1, .seqlen_q = 13, .seqlen_k = 5, .mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT}},
        {"window_top_left",
         {1, 2, 1, 13, 8, .mask = GLINT_MASK_BAND_TOP_LEFT, .window_left = 2, .window_right = 1}}, /* the last rows see nothing */
        {"window_bottom_right",                                                                    /* the first rows see nothing */
         {1, 2, 1, 13, 8, .mask = GLINT_MASK_BAND_BOTTOM_RIGHT, .window_left = 2, .window_right = 1}},
        {"window_long_keys", {1, 2, 2, 6, 14, .mask = GLINT_MASK_BAND_BOTTOM_RIGHT, .window_left = 0, .window_right = 3}},
        {"window_left_only",
         {1, 2, 2, 9, 12, .mask = GLINT_MASK_BAND_BOTTOM_RIGHT, .window_left = 3, .window_right = GLINT_UNBOUNDED}},
        {"window_right_only",
         {1, 2, 1, 9, 12, .mask = GLINT_MASK_BAND_TOP_LEFT, .window_left = GLINT_UNBOUNDED, .window_right = 2}},
        {"window_of_all",
         {1, 2, 1, 9, 7, .mask = GLINT_MASK_BAND_TOP_LEFT, .window_left = GLINT_UNBOUNDED, .window_right = GLINT_UNBOUNDED}},
        {"diagonal",
         {.batch = 1,
          .heads_q = 2,
          .heads_kv = 1,
          .seqlen_q = 9,
          .seqlen_k = 12,
          .mask = GLINT_MASK_CAUSAL_TOP_LEFT,
          .diagonal = 4}},
        {"diagonal_of_a_window",
         {1, 2, 1, 9, 12, .mask = GLINT_MASK_BAND_BOTTOM_RIGHT, .window_left = 3, .window_right = 1, .diagonal = -5}},
        {"sinks", {.batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = 9, .seqlen_k = 5, .mask = GLINT_MASK_NONE, .sinks = true}},
        {"sinks_blind_rows",
         {.batch = 2,
          .heads_q = 4,
          .heads_kv = 1,
          .seqlen_q = 13,
          .seqlen_k = 5,
          .mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT,
          .sinks = true}},
        {"softcap",
         {.batch = 1,
          .heads_q = 2,
          .heads_kv = 1,
          .seqlen_q = 12,
          .seqlen_k = 9,
          .mask = GLINT_MASK_CAUSAL_TOP_LEFT,
          .softcap = 1.5f}},
        {"dlse", {2, 4, 2, 9, 7, .mask = GLINT_MASK_CAUSAL_TOP_LEFT, .dlse = true}},
        {"dlse_blind_rows_and_sinks", {2, 4, 2, 13, 5, .mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT, .sinks = true, .dlse = true}},
        {"alibi", {2, 4, 2, 9, 12, .mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT, .alibi = SLOPES, .dlse = true}},
        {"alibi_of_all_keys", {1, 3, 1, 11, 7, .mask = GLINT_MASK_NONE, .alibi = SLOPES, .sinks = true}},
        {"alibi_of_a_diagonal_with_a_softcap",
         {1, 2, 1, 9, 12, .mask = GLINT_MASK_BAND_TOP_LEFT, .window_left = 4, .window_right = 3, .diagonal = 5, .alibi = SLOPES,
          .softcap = 2}},
        {"bias", {2, 4, 2, 9, 7, .mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT, .bias = BIAS, .dlse = true}},
        {"bias_with_a_softcap", {1, 2, 1, 9, 12, .mask = GLINT_MASK_NONE, .bias = BIAS, .softcap = 2, .sinks = true}},
        {"softcap_50",
         {.batch = 1, .heads_q = 2, .heads_kv = 1, .seqlen_q = 6, .seqlen_k = 14, .mask = GLINT_MASK_NONE, .softcap = 50}},
        {"softcap_and_sinks",
         {2, 4, 2, 13, 8, .mask = GLINT_MASK_BAND_TOP_LEFT, .window_left = 2, .window_right = 1, .softcap = 0.5f, .sinks = true}},
    };
    const struct shape no_shape = {.mask = GLINT_MASK_NONE};
    checks_add(&list, half_conversions, &no_shape, "conversions/f16");
    checks_add(&list, bfloat_conversions, &no_shape, "conversions/bf16");
    checks_add(&list, factors, &no_shape, "conversions/tf32");
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        checks_add(&list, differences, &shapes[i].shape, "differences/%s", shapes[i].name);
        checks_add(&list, by_definition, &shapes[i].shape, "definition/%s", shapes[i].name);
        checks_add(&list, yardstick, &shapes[i].shape, "yardstick/%s", shapes[i].name);
    }
    const int status = runner_run("reference_selftest", &list, &options);
    checks_free(&list);
    return status;
}
