/* glint_selftest: a known answer through every variant that the device can run, on the device itself.
 *
 * The inputs are rank one, Q_i = a_i u, K_j = b_j u, V_j = c_j w, dO_i = g_i x with u in R^head_dim and w, x in
 * R^head_dim_v, so the answer needs no matrix and no memory: with softmax_scale = 1 / |u|^2, S_ij = a_i b_j, P =
 * softmax(S) over the visible keys and z = <x, w>,
 *   O_i = (sum_j P_ij c_j) w          LSE_i = log sum_j exp(S_ij)      delta_i = g_i z sum_j P_ij c_j
 *   dS_ij = P_ij (g_i c_j z - delta_i)
 *   dQ_i = scale (sum_j dS_ij b_j) u   dK_j = scale (sum_i dS_ij a_i) u   dV_j = (sum_i P_ij g_i) x
 * All inputs are small multiples of 1/8 or 1/4, exact in every dtype. Two query heads share one key head, both
 * lengths cross a tile boundary, and causal rows are seen from the bottom right. Rows that can cap scores do, S_ij =
 * c tanh(a_i b_j / c), where dS_ij has the factor 1 - tanh^2; those that take sinks have one a head, a term exp(s)
 * of the denominator with ds = -sum_i exp(s - LSE_i) delta_i; those with ALiBi have a slope a head. 8-bit K and V hold
 * multiples of u and w, and b_j and c_j are their scales. */
#include <string.h>

#include "lib/backend.h"
#include "lib/check.h"
#include "lib/half.h"
#include "lib/takes.h"

/* exp for x <= 0 and log for x >= 1 in double to about 1e-15: the self test must not trust the kernels' own. */
static double exp_reference(double x)
{
    if (x < -700.0)
        return 0.0;
    double scale = 1.0;
    while (x < -0.5) { /* exp(x) = exp(x / 2)^2 would lose digits; peel whole units off instead */
        x += 1.0;
        scale *= 0.36787944117144232160;
    }
    double term = 1.0, sum = 1.0;
    for (int k = 1; k < 20; k++) {
        term *= x / k;
        sum += term;
    }
    return sum * scale;
}

/* tanh from exp of a negative number: nothing cancels but where the result is near 0, which costs absolute 1e-16. */
static double tanh_reference(double x)
{
    const double e = exp_reference(x < 0.0 ? 2.0 * x : -2.0 * x), t = (1.0 - e) / (1.0 + e);
    return x < 0.0 ? -t : t;
}

static double log_reference(double x)
{
    double result = 0.0;
    for (; x > 1.5; x *= 0.5)
        result += 0.69314718055994530942;
    const double t = (x - 1.0) / (x + 1.0), t2 = t * t; /* log x = 2 atanh t */
    double term = t;
    for (int k = 1; k < 60; k += 2) {
        result += 2.0 * term / k;
        term *= t2;
    }
    return result;
}

static double root_reference(double x)
{
    double root = x > 1.0 ? x : 1.0;
    for (int k = 0; k < 40; k++) /* Newton's, from above: halves what is far too large, then doubles its digits */
        root = 0.5 * (root + x / root);
    return root;
}

/* Small exact numbers from an index; different patterns for a, b, c, g and for the vectors. */
static double pattern(int64_t i, int64_t factor, int64_t modulus, double unit)
{
    return (double)(i * factor % modulus - modulus / 2) * unit;
}

static double q_of(int64_t head, int64_t i)
{
    return pattern(i + 5 * head, 7, 13, 0.125);
}

static double k_of(int64_t j)
{
    return pattern(j, 5, 11, 0.25);
}

static double v_of(int64_t j)
{
    return pattern(j + 3, 11, 15, 0.125);
}

static double g_of(int64_t head, int64_t i)
{
    return pattern(i + 2 * head, 4, 9, 0.25);
}

static double u_of(int64_t d)
{
    return d % 3 == 0 ? -1.0 : 0.5;
}

static double w_of(int64_t d)
{
    return pattern(d, 3, 7, 0.25) + 0.125;
}

static double sink_of(int64_t head)
{
    return pattern(head + 1, 3, 5, 0.5);
}

static double slope_of(int64_t head)
{
    return head == 0 ? 0.0625 : -0.03125;
}

static double bias_of(int64_t head, int64_t j)
{
    return pattern(j + head, 3, 7, 0.5);
}

static double x_of(int64_t d)
{
    return pattern(d, 2, 5, 0.5) + 0.25;
}

enum {
    HEADS = 2,
    QUERIES_MAX = 131,
    CHUNK = 64 /* elements copied at a time, on the stack */
};

/* One variant's test: the problem, where its tensors lie in the device's memory, and scalars of the answer. */
struct test {
    const struct glint_context *context;
    void *stream;
    struct glint_problem problem;
    struct glint_tensors tensors;
    void *workspace;
    size_t workspace_bytes, bytes;
    double z, scale;
    enum glint_status status; /* of the copies */
};

/* Each query row's log-sum-exp and expectation of c, kept as floats: 2 KiB. */
struct answer {
    float lse[HEADS * QUERIES_MAX], mean_c[HEADS * QUERIES_MAX];
};

static void describe(const struct glint_variant *v, struct test *t)
{
    const int64_t seqlen_q = v->tile_m + 3 < QUERIES_MAX ? v->tile_m + 3 : QUERIES_MAX;
    glint_problem_bshd(&t->problem, (enum glint_dtype)v->dtype, 1, seqlen_q, v->tile_n + 5, HEADS, 1, v->head_dim);
    t->problem.mask = glint_mask_of(v);
    t->problem.intervals = (v->features & GLINT_FEATURE_INTERVALS) != 0;
    t->problem.tree = (v->features & GLINT_FEATURE_TREE) != 0;
    t->problem.alibi = (v->features & GLINT_FEATURE_ALIBI) != 0;
    if ((v->features & GLINT_FEATURE_BIAS) != 0) { /* a number a head and a key */
        t->problem.bias_dtype = GLINT_F32;
        t->problem.bias = (struct glint_bias_strides){0, v->tile_n + 5, 0, 1};
    }
    t->problem.kv_dtype = v->kv_dtype;
    t->problem.kv_scales = v->kv_dtype != 0 ? GLINT_SCALES_ROW : GLINT_SCALES_NONE;
    if ((v->features & GLINT_FEATURE_LEFT_BOUND) != 0) { /* both sides within a tile of keys, and rows that see none */
        t->problem.window_left = v->tile_n / 3;
        t->problem.window_right = 2;
    }
    t->problem.softcap = (v->features & GLINT_FEATURE_SOFTCAP) != 0 ? 0.75f : 0.0f;
    t->problem.sinks = (v->takes & GLINT_TAKES_SINKS) != 0;
    double square = 0.0;
    t->z = 0.0;
    for (int64_t d = 0; d < v->head_dim; d++)
        square += u_of(d) * u_of(d);
    for (int64_t d = 0; d < v->head_dim_v; d++)
        t->z += x_of(d) * w_of(d);
    t->problem.softmax_scale = (float)(1.0 / square);
    t->scale = 1.0 / square;
    t->status = GLINT_OK;
}

static void *place(char *memory, size_t *at, size_t bytes)
{
    void *address = memory ? memory + *at : NULL;
    *at += (bytes + GLINT_WORKSPACE_ALIGNMENT - 1) / GLINT_WORKSPACE_ALIGNMENT * GLINT_WORKSPACE_ALIGNMENT;
    return address;
}

/* Counts and places in one: with memory == NULL only t->bytes is of use. */
static void layout(struct test *t, const struct glint_plan *plan, char *memory)
{
    const struct glint_problem *p = &t->problem;
    const size_t element = (size_t)glint_dtype_bytes(p->dtype);
    const size_t cached = p->kv_dtype != 0 ? (size_t)glint_dtype_bytes(p->kv_dtype) : element;
    const size_t rows_q = (size_t)(p->heads_q * p->seqlen_q), rows_k = (size_t)(p->heads_kv * p->seqlen_k);
    const size_t queries = rows_q * (size_t)p->head_dim * element, outputs = rows_q * (size_t)p->head_dim_v * element;
    const size_t keys = rows_k * (size_t)p->head_dim * cached, values = rows_k * (size_t)p->head_dim_v * cached;
    const size_t scales = (size_t)glint_scales_of(p) * sizeof(float);
    size_t at = 0;
    t->tensors = (struct glint_tensors){.struct_size = sizeof t->tensors};
    t->tensors.q = place(memory, &at, queries);
    t->tensors.k = place(memory, &at, keys);
    t->tensors.v = place(memory, &at, values);
    if (scales > 0) {
        t->tensors.k_scale = place(memory, &at, scales);
        t->tensors.v_scale = place(memory, &at, scales);
    }
    t->tensors.o = place(memory, &at, outputs);
    t->tensors.lse = place(memory, &at, rows_q * sizeof(float));
    if (p->intervals != 0) {
        t->tensors.key_begin = place(memory, &at, (size_t)p->seqlen_q * sizeof(int32_t));
        t->tensors.key_end = place(memory, &at, (size_t)p->seqlen_q * sizeof(int32_t));
    }
    if (p->tree != 0)
        t->tensors.tree_bits = place(memory, &at, (size_t)(p->seqlen_q * glint_tree_words(p)) * sizeof(uint32_t));
    if (p->alibi != 0)
        t->tensors.alibi_slopes = place(memory, &at, (size_t)p->heads_q * sizeof(float));
    if (p->bias_dtype != 0)
        t->tensors.bias = place(memory, &at, (size_t)(p->heads_q * p->seqlen_k) * sizeof(float));
    if (p->sinks != 0)
        t->tensors.sinks = place(memory, &at, (size_t)p->heads_q * sizeof(float));
    if (p->sinks != 0 && plan->pass == GLINT_BACKWARD)
        t->tensors.dsinks = place(memory, &at, (size_t)p->heads_q * sizeof(float));
    if (plan->pass == GLINT_BACKWARD) {
        t->tensors.dout = place(memory, &at, outputs);
        t->tensors.dq = place(memory, &at, queries);
        t->tensors.dk = place(memory, &at, keys);
        t->tensors.dv = place(memory, &at, values);
    }
    t->workspace_bytes = plan->workspace_bytes;
    t->workspace = place(memory, &at, plan->workspace_bytes);
    t->bytes = at;
}

/* LSE of a row, and expectations under its P of c, and with the slope of the cap as a factor of b and b c. A row
 * that sees no key: zeros, and LSE the sink. */
struct row {
    double lse, mean_c, mean_b, mean_bc;
};

/* A score as the softmax sees it, and its derivative by the score. */
static double score_of(const struct test *t, int64_t head, int64_t i, int64_t j, double *slope)
{
    const double s = q_of(head, i) * k_of(j), cap = (double)t->problem.softcap, tanh = cap == 0.0 ? 0.0 : tanh_reference(s / cap);
    const double distance = (double)(i + glint_offset_of(&t->problem) - j);
    const double alibi = t->problem.alibi != 0 ? -slope_of(head) * (distance < 0.0 ? -distance : distance) : 0.0;
    const double bias = t->problem.bias_dtype != 0 ? bias_of(head, j) : alibi;
    *slope = 1.0 - tanh * tanh;
    return (cap == 0.0 ? s : cap * tanh) + bias;
}

/* The interval of a query, where there are any. Each of its ends cuts off keys that the mask shows, or lies beyond
 * them, and some are empty: so either decides somewhere what a row sees. */
static int32_t begin_of(const struct test *t, int64_t i)
{
    return (int32_t)(glint_first_key(&t->problem, i) + i % 7 * 2 - 3);
}

static int32_t end_of(const struct test *t, int64_t i)
{
    return i % 11 == 10 ? begin_of(t, i) : (int32_t)(glint_last_key(&t->problem, i) + 5 - i % 5 * 2);
}

/* Whether the tree, of a problem that has one, has a new key on a query's path. Paths of one depth differ, and deep
 * ones are longer than a window. */
static bool on_path(int64_t i, int64_t slot)
{
    return slot == i || (slot < i && (slot + i) % 3 != 0) || (slot == i + 1 && i % 4 == 0);
}

static int64_t path_to(int64_t i, int64_t slot)
{
    int64_t length = 0;
    for (int64_t s = 0; s < slot; s++)
        length += on_path(i, s);
    return length;
}

static bool sees(const struct test *t, int64_t i, int64_t j)
{
    const struct glint_problem *p = &t->problem;
    const int64_t before = p->seqlen_k - p->seqlen_q;
    int64_t query = i, key = j;
    if (p->intervals != 0 && (j < begin_of(t, i) || j >= end_of(t, i)))
        return false;
    if (p->tree != 0) {
        query = path_to(i, p->seqlen_q) - 1;
        if (j >= before && !on_path(i, j - before))
            return false;
        key = j < before ? j : before + path_to(i, j - before);
    }
    return key >= glint_first_key(p, query) && key <= glint_last_key(p, query);
}

static struct row softmax_row(const struct test *t, int64_t head, int64_t i)
{
    const bool sinks = t->problem.sinks != 0;
    const double nothing = (double)glint_float_of(0xff800000u);
    double slope, top = sinks ? sink_of(head) : nothing, sum = 0.0;
    struct row r = {0};
    int64_t first = t->problem.seqlen_k, last = -1;
    for (int64_t j = 0; j < t->problem.seqlen_k; j++) {
        if (!sees(t, i, j))
            continue;
        const double score = score_of(t, head, i, j, &slope);
        top = score > top ? score : top;
        first = j < first ? j : first;
        last = j;
    }
    if (last < first) {
        r.lse = top;
        return r;
    }
    if (sinks)
        sum = exp_reference(sink_of(head) - top);
    for (int64_t j = first; j <= last; j++) {
        if (!sees(t, i, j))
            continue;
        const double e = exp_reference(score_of(t, head, i, j, &slope) - top);
        sum += e;
        r.mean_c += e * v_of(j);
        r.mean_b += e * slope * k_of(j);
        r.mean_bc += e * slope * k_of(j) * v_of(j);
    }
    r.lse = top + log_reference(sum);
    r.mean_c /= sum;
    r.mean_b /= sum;
    r.mean_bc /= sum;
    return r;
}

static float float_of(uint32_t dtype, const unsigned char *element)
{
    float x;
    uint16_t half;
    if (dtype == GLINT_F32) {
        memcpy(&x, element, sizeof x);
        return x;
    }
    memcpy(&half, element, sizeof half);
    return dtype == GLINT_F16 ? glint_float_of_f16(half) : glint_float_of_bf16(half);
}

static void store(uint32_t dtype, unsigned char *element, double value)
{
    const float x = (float)value;
    if (dtype == GLINT_F32) {
        memcpy(element, &x, sizeof x);
        return;
    }
    if (dtype == GLINT_I8 || dtype == GLINT_E4M3) {
        *element = dtype == GLINT_I8 ? (unsigned char)(int)x : glint_e4m3_of(x);
        return;
    }
    const uint16_t half = dtype == GLINT_F16 ? glint_f16_of(x) : glint_bf16_of(x);
    memcpy(element, &half, sizeof half);
}

/* Elements of a row that is a multiple of `vector`: u is Q's and K's, w and x are V's and O's. */
static int64_t width_of(const struct test *t, double (*vector)(int64_t))
{
    return vector == u_of ? t->problem.head_dim : t->problem.head_dim_v;
}

/* Writes factor * vector(d) to row `index` of a contiguous tensor on the device. */
static void put_row_as(struct test *t, uint32_t dtype, const void *tensor, int64_t index, double factor, double (*vector)(int64_t))
{
    unsigned char chunk[CHUNK * sizeof(float)];
    const int64_t element = glint_dtype_bytes(dtype), width = width_of(t, vector);
    for (int64_t d = 0; d < width && t->status == GLINT_OK; d += CHUNK) {
        const int64_t n = width - d < CHUNK ? width - d : CHUNK;
        for (int64_t k = 0; k < n; k++)
            store(dtype, chunk + k * element, factor * vector(d + k));
        t->status = t->context->backend->copy_in(t->context, (char *)(uintptr_t)tensor + (index * width + d) * element, chunk,
                                                 (size_t)(n * element), t->stream);
    }
}

static void put_row(struct test *t, const void *tensor, int64_t index, double factor, double (*vector)(int64_t))
{
    put_row_as(t, t->problem.dtype, tensor, index, factor, vector);
}

/* Puts a row of K or V: where it is of 8 bits it holds whole numbers, and the factor is its scale. */
static void put_key(struct test *t, const void *tensor, const float *scales, int64_t index, double factor,
                    double (*vector)(int64_t), double unit)
{
    const float scale = (float)(factor * unit);
    if (!scales) {
        put_row(t, tensor, index, factor, vector);
        return;
    }
    put_row_as(t, t->problem.kv_dtype, tensor, index, 1.0 / unit, vector);
    if (t->status == GLINT_OK)
        t->status = t->context->backend->copy_in(t->context, (char *)(uintptr_t)scales + index * (int64_t)sizeof scale, &scale,
                                                 sizeof scale, t->stream);
}

static double larger(double a, double b)
{
    return a >= b || a != a ? a : b; /* NaN when either is */
}

/* The largest difference from the answer and the largest answer of one tensor. */
struct worst {
    double difference, magnitude;
};

static void note(struct worst *w, double got, double want)
{
    if (got == want && got == got * 2.0)
        return; /* both zero, or both the same infinity */
    const double difference = got > want ? got - want : want - got, magnitude = want < 0.0 ? -want : want;
    w->difference = larger(w->difference, difference); /* a NaN stays */
    w->magnitude = larger(w->magnitude, magnitude);
}

static void check_row(struct test *t, const void *tensor, int64_t index, double factor, double (*vector)(int64_t), struct worst *w)
{
    unsigned char chunk[CHUNK * sizeof(float)];
    const int64_t element = glint_dtype_bytes(t->problem.dtype), width = width_of(t, vector);
    for (int64_t d = 0; d < width && t->status == GLINT_OK; d += CHUNK) {
        const int64_t n = width - d < CHUNK ? width - d : CHUNK;
        t->status = t->context->backend->copy_out(t->context, chunk, (const char *)tensor + (index * width + d) * element,
                                                  (size_t)(n * element), t->stream);
        for (int64_t k = 0; k < n && t->status == GLINT_OK; k++)
            note(w, (double)float_of(t->problem.dtype, chunk + k * element), factor * vector(d + k));
    }
}

/* NaN everywhere: an element that the kernel does not write fails. */
static void poison_rows(struct test *t, const void *tensor, int64_t rows, int64_t width)
{
    unsigned char chunk[CHUNK * sizeof(float)];
    memset(chunk, 0xff, sizeof chunk);
    const int64_t bytes = rows * width * glint_dtype_bytes(t->problem.dtype);
    for (int64_t at = 0; at < bytes && t->status == GLINT_OK; at += (int64_t)sizeof chunk) {
        const int64_t n = bytes - at < (int64_t)sizeof chunk ? bytes - at : (int64_t)sizeof chunk;
        t->status = t->context->backend->copy_in(t->context, (char *)(uintptr_t)tensor + at, chunk, (size_t)n, t->stream);
    }
}

static void put_lse(struct test *t, int64_t row, float lse)
{
    if (t->status == GLINT_OK)
        t->status = t->context->backend->copy_in(t->context, t->tensors.lse + row, &lse, sizeof lse, t->stream);
}

static void put_float(struct test *t, const float *to, float value)
{
    if (t->status == GLINT_OK)
        t->status = t->context->backend->copy_in(t->context, (void *)(uintptr_t)to, &value, sizeof value, t->stream);
}

static void put_word(struct test *t, const int32_t *to, int32_t value)
{
    if (t->status == GLINT_OK)
        t->status = t->context->backend->copy_in(t->context, (void *)(uintptr_t)to, &value, sizeof value, t->stream);
}

static void put_inputs(struct test *t, bool backward)
{
    const int64_t rows_q = t->problem.seqlen_q, rows_k = t->problem.seqlen_k;
    for (int64_t i = 0; i < rows_q && t->problem.intervals != 0; i++) {
        put_word(t, t->tensors.key_begin + i, begin_of(t, i));
        put_word(t, t->tensors.key_end + i, end_of(t, i));
    }
    for (int64_t word = 0; word < rows_q * glint_tree_words(&t->problem) && t->problem.tree != 0; word++) {
        const int64_t i = word / glint_tree_words(&t->problem), slot = word % glint_tree_words(&t->problem) * 32;
        uint32_t bits = 0;
        for (int64_t bit = 0; bit < 32; bit++)
            bits |= on_path(i, slot + bit) ? UINT32_C(1) << bit : 0;
        put_word(t, (const int32_t *)(const void *)(t->tensors.tree_bits + word), (int32_t)bits);
    }
    for (int64_t head = 0; head < HEADS && t->problem.alibi != 0; head++)
        put_float(t, t->tensors.alibi_slopes + head, (float)slope_of(head));
    for (int64_t at = 0; at < HEADS * rows_k && t->problem.bias_dtype != 0; at++)
        put_float(t, (const float *)t->tensors.bias + at, (float)bias_of(at / rows_k, at % rows_k));
    for (int64_t head = 0; head < HEADS && t->problem.sinks != 0; head++) {
        put_float(t, t->tensors.sinks + head, (float)sink_of(head));
        if (backward)
            put_float(t, t->tensors.dsinks + head, glint_float_of(0x7fc00000u));
    }
    for (int64_t head = 0; head < HEADS; head++)
        for (int64_t i = 0; i < rows_q; i++) {
            put_row(t, t->tensors.q, i * HEADS + head, q_of(head, i), u_of);
            put_lse(t, head * rows_q + i, glint_float_of(0x7fc00000u));
            if (!backward)
                continue;
            const struct row r = softmax_row(t, head, i);
            put_row(t, t->tensors.o, i * HEADS + head, r.mean_c, w_of);
            put_row(t, t->tensors.dout, i * HEADS + head, g_of(head, i), x_of);
            put_lse(t, head * rows_q + i, (float)r.lse);
        }
    for (int64_t j = 0; j < rows_k; j++) {
        put_key(t, t->tensors.k, t->tensors.k_scale, j, k_of(j), u_of, 0.5);
        put_key(t, t->tensors.v, t->tensors.v_scale, j, v_of(j), w_of, 0.125);
    }
    if (backward) {
        poison_rows(t, t->tensors.dq, HEADS * rows_q, t->problem.head_dim);
        poison_rows(t, t->tensors.dk, rows_k, t->problem.head_dim);
        poison_rows(t, t->tensors.dv, rows_k, t->problem.head_dim_v);
    } else {
        poison_rows(t, t->tensors.o, HEADS * rows_q, t->problem.head_dim_v);
    }
}

static double relative(const struct worst *w)
{
    return w->difference / (w->magnitude > 0.0 ? w->magnitude : 1.0);
}

static double check_forward(struct test *t)
{
    struct worst o = {0}, lse = {0};
    for (int64_t head = 0; head < HEADS; head++)
        for (int64_t i = 0; i < t->problem.seqlen_q; i++) {
            const struct row r = softmax_row(t, head, i);
            float got = 0.0f;
            check_row(t, t->tensors.o, i * HEADS + head, r.mean_c, w_of, &o);
            if (t->status == GLINT_OK)
                t->status = t->context->backend->copy_out(t->context, &got, t->tensors.lse + head * t->problem.seqlen_q + i,
                                                          sizeof got, t->stream);
            note(&lse, (double)got, r.lse);
        }
    return larger(relative(&o), relative(&lse));
}

/* Not inlined: its answer must not be on the stack while the kernel runs. */
__attribute__((noinline)) static double check_backward(struct test *t)
{
    struct answer answer;
    struct worst dq = {0}, dk = {0}, dv = {0};
    const int64_t rows_q = t->problem.seqlen_q;
    for (int64_t head = 0; head < HEADS; head++)
        for (int64_t i = 0; i < rows_q; i++) {
            const struct row r = softmax_row(t, head, i);
            answer.lse[head * rows_q + i] = (float)r.lse;
            answer.mean_c[head * rows_q + i] = (float)r.mean_c;
            check_row(t, t->tensors.dq, i * HEADS + head, t->scale * g_of(head, i) * t->z * (r.mean_bc - r.mean_c * r.mean_b), u_of,
                      &dq);
        }
    for (int64_t j = 0; j < t->problem.seqlen_k; j++) {
        double pg = 0.0, dsa = 0.0;
        for (int64_t head = 0; head < HEADS; head++)
            for (int64_t i = 0; i < rows_q; i++) {
                if (!sees(t, i, j))
                    continue;
                const double a = q_of(head, i), g = g_of(head, i);
                double slope;
                const double p = exp_reference(score_of(t, head, i, j, &slope) - (double)answer.lse[head * rows_q + i]);
                pg += p * g;
                dsa += p * g * t->z * (v_of(j) - (double)answer.mean_c[head * rows_q + i]) * slope * a;
            }
        check_row(t, t->tensors.dk, j, t->scale * dsa, u_of, &dk);
        check_row(t, t->tensors.dv, j, pg, x_of, &dv);
    }
    struct worst dsinks = {0};
    for (int64_t head = 0; head < HEADS && t->problem.sinks != 0 && t->status == GLINT_OK; head++) {
        float got = 0.0f;
        double want = 0.0, squares = 0.0; /* of terms: the sum of both signs may be small, and O in each was rounded */
        for (int64_t i = 0; i < rows_q; i++) {
            const double above = sink_of(head) - (double)answer.lse[head * rows_q + i];
            const double term =
                exp_reference(above < 0.0 ? above : 0.0) * g_of(head, i) * t->z * (double)answer.mean_c[head * rows_q + i];
            want -= term;
            squares += term * term;
        }
        t->status = t->context->backend->copy_out(t->context, &got, t->tensors.dsinks + head, sizeof got, t->stream);
        note(&dsinks, (double)got, want);
        dsinks.magnitude = larger(dsinks.magnitude, root_reference(squares));
    }
    return larger(larger(larger(relative(&dq), relative(&dk)), relative(&dv)), relative(&dsinks));
}

/* Relative to the tensor's largest element. The rounding of inputs is nil. O and P are rounded to half an ulp of the
 * dtype (of tf32 where products are). Few weights differ, so the error of each is in many terms; and the terms partly
 * cancel: the average of V is a small part of what is averaged, and sinks make it smaller. An f16 row without a mask
 * and with sinks was off by 8.4 half ulps on an H200. On a CPU P is rounded for AMX and AVX-512 BF16 alone. */
static double tolerance(const struct glint_variant *v)
{
    const double half_ulp = v->dtype == GLINT_BF16                                ? 0x1p-9
                            : v->dtype == GLINT_F16 || v->math == GLINT_MATH_TF32 ? 0x1p-12
                                                                                  : 0x1p-20;
    return (v->pass == GLINT_BACKWARD ? 32.0 : v->math == GLINT_MATH_BF16 || v->sm != 0 ? 16.0 : 8.0) * half_ulp;
}

static enum glint_status prepare(const struct glint_context *context, uint32_t index, char *memory, struct test *t,
                                 struct glint_plan *plan)
{
    const struct glint_variant *v = &glint_variants[index];
    t->context = context;
    describe(v, t);
    const enum glint_status status = glint_plan_variant(context, &t->problem, (enum glint_pass)v->pass, index, plan);
    if (status == GLINT_OK)
        layout(t, plan, memory);
    return status;
}

static enum glint_status run_variant(const struct glint_context *context, uint32_t index, char *memory, void *stream, double *error)
{
    struct test t = {.stream = stream};
    struct glint_plan plan;
    enum glint_status status = prepare(context, index, memory, &t, &plan);
    if (status != GLINT_OK)
        return status;
    const bool backward = plan.pass == GLINT_BACKWARD;
    put_inputs(&t, backward);
    if (t.status != GLINT_OK)
        return t.status;
    status = (backward ? glint_backward : glint_forward)(&plan, &t.tensors, t.workspace, t.workspace_bytes, stream);
    if (status != GLINT_OK)
        return status;
    *error = (backward ? check_backward(&t) : check_forward(&t)) / tolerance(&glint_variants[index]);
    return t.status;
}

enum glint_status glint_selftest_size(const struct glint_context *context, size_t *bytes)
{
    if (!context || !bytes)
        return GLINT_NULL_ARGUMENT;
    if (context->magic != GLINT_CONTEXT_OPEN)
        return GLINT_CONTEXT_CLOSED;
    size_t most = 0;
    for (uint32_t i = 0; i < glint_variants_count; i++) {
        struct test t = {0};
        struct glint_plan plan;
        if (glint_variant_available(context, i) == GLINT_OK && prepare(context, i, NULL, &t, &plan) == GLINT_OK && t.bytes > most)
            most = t.bytes;
    }
    *bytes = most;
    return GLINT_OK;
}

enum glint_status glint_selftest(const struct glint_context *context, void *memory, size_t memory_bytes, void *stream,
                                 struct glint_selftest_result *result)
{
    size_t bytes;
    enum glint_status status = glint_selftest_size(context, &bytes);
    if (status != GLINT_OK)
        return status;
    if (!result || (!memory && bytes > 0))
        return GLINT_NULL_ARGUMENT;
    if (result->struct_size != sizeof *result)
        return GLINT_STRUCT_SIZE;
    if (context->backend->device == GLINT_DEVICE_CPU && stream)
        return GLINT_BAD_STREAM;
    if (memory_bytes < bytes)
        return GLINT_WORKSPACE_TOO_SMALL;
    if ((uintptr_t)memory % GLINT_WORKSPACE_ALIGNMENT != 0)
        return GLINT_WORKSPACE_MISALIGNED;

    struct glint_selftest_result r = {sizeof r, 0, 0, UINT32_MAX, 0.0f};
    for (uint32_t i = 0; i < glint_variants_count; i++) {
        double error = 0.0;
        if (glint_variant_available(context, i) != GLINT_OK)
            continue;
        status = run_variant(context, i, memory, stream, &error);
        if (status != GLINT_OK)
            return status;
        r.variants_run++;
        if (!(error <= 1.0)) {
            r.variants_failed++;
            r.first_failed = r.first_failed == UINT32_MAX ? i : r.first_failed;
        }
        if (!(error <= (double)r.worst_error))
            r.worst_error = error < 1e30 ? (float)error : 1e30f; /* NaN and inf become 1e30 */
    }
    *result = r;
    return r.variants_failed ? GLINT_SELFTEST_FAILED : GLINT_OK;
}
