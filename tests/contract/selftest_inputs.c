/* What glint_selftest asks of a kernel, and what it makes of an answer: the problem and inputs of each row, as
 * selftest_inputs.txt keeps them, and the errors that it reports of answers that are right, or off by a known amount.
 * The table is written here and nothing of the library computes: the answers are the oracle's.
 *
 * selftest_inputs selftest_inputs.txt; without an argument it prints what that file is to be. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/backend.h"
#include "lib/check.h"
#include "lib/cpu/cpu.h"
#include "lib/takes.h"
#include "tests/oracle/half.h"
#include "tests/oracle/ref.h"
#include "tests/support/golden.h"

extern const struct glint_family glint_family_cpu;
/* The CPU's own, but for copies and plans: one of them can fail. main() fills them in. */
static struct glint_backend backend;
static struct glint_family family;
const struct glint_family *const glint_families[] = {&family};

void glint_cpu_run_task(uint32_t kernel, uint32_t phase, const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    (void)kernel, (void)phase, (void)call, (void)scratch, (void)task; /* nothing is computed */
}

enum {
    CAUSAL = GLINT_FEATURE_RIGHT_BOUND,
    BAND = GLINT_FEATURE_RIGHT_BOUND | GLINT_FEATURE_LEFT_BOUND,
    INTERVAL = BAND | GLINT_FEATURE_INTERVALS,
    TREE = INTERVAL | GLINT_FEATURE_TREE,
    CAP = GLINT_FEATURE_SOFTCAP,
    ALIBI = GLINT_FEATURE_ALIBI,
    TENSOR = GLINT_FEATURE_BIAS,
    SINKS = GLINT_TAKES_SINKS
};
#define ROW(name, pass, dtype, kv_dtype, features, head_dim, m, n, sm, math, takes)                                               \
    {                                                                                                                             \
        name, GLINT_##pass, GLINT_##dtype, kv_dtype, math, features, head_dim, head_dim, m, n, GLINT_ISA_ANY + 1, sm, 0, 0, 0, 0, \
            0, 0, 0, 4, takes, takes, 0, 0, 0                                                                                     \
    }
static const struct glint_variant kinds[] = {
    ROW("bwd_bf16_d40_band_softcap", BACKWARD, BF16, 0, BAND | CAP, 40, 64, 96, 0, GLINT_MATH_NATIVE, SINKS),
    ROW("bwd_f16_d72_causal", BACKWARD, F16, 0, CAUSAL, 72, 32, 64, 80, GLINT_MATH_NATIVE, 0),
    ROW("bwd_f32_d64_causal_alibi", BACKWARD, F32, 0, CAUSAL | ALIBI, 64, 64, 96, 0, GLINT_MATH_NATIVE, SINKS),
    ROW("bwd_f32_d64_interval_tensor", BACKWARD, F32, 0, INTERVAL | TENSOR, 64, 32, 48, 0, GLINT_MATH_NATIVE, 0),
    ROW("bwd_f32_d96_none", BACKWARD, F32, 0, 0, 96, 32, 64, 80, GLINT_MATH_TF32, SINKS),
    ROW("fwd_bf16_d72_causal", FORWARD, BF16, 0, CAUSAL, 72, 64, 96, 0, GLINT_MATH_NATIVE, 0),
    ROW("fwd_bf16_d72_causal_products", FORWARD, BF16, 0, CAUSAL, 72, 64, 96, 0, GLINT_MATH_BF16, 0),
    ROW("fwd_bf16_e4m3_d64_none", FORWARD, BF16, GLINT_E4M3, 0, 64, 32, 64, 80, GLINT_MATH_NATIVE, SINKS),
    ROW("fwd_f16_d256_band", FORWARD, F16, 0, BAND, 256, 128, 64, 90, GLINT_MATH_NATIVE, SINKS),
    ROW("fwd_f32_d64_causal_alibi_softcap", FORWARD, F32, 0, CAUSAL | ALIBI | CAP, 64, 64, 96, 0, GLINT_MATH_NATIVE, SINKS),
    ROW("fwd_f32_d64_interval", FORWARD, F32, 0, INTERVAL, 64, 64, 96, 0, GLINT_MATH_NATIVE, 0),
    ROW("fwd_f32_d64_none_tensor", FORWARD, F32, 0, TENSOR, 64, 32, 64, 0, GLINT_MATH_TF32, 0),
    ROW("fwd_f32_d64_tree", FORWARD, F32, 0, TREE, 64, 32, 48, 0, GLINT_MATH_NATIVE, SINKS),
    ROW("fwd_f32_i8_d64_causal", FORWARD, F32, GLINT_I8, CAUSAL, 64, 64, 96, 0, GLINT_MATH_NATIVE, 0),
    /* two chunks of a row, a few rows, and whatever there is to copy */
    ROW("bwd_f32_d72_interval_softcap_tensor", BACKWARD, F32, 0, INTERVAL | CAP | TENSOR, 72, 15, 8, 0, GLINT_MATH_NATIVE, SINKS),
    ROW("fwd_f32_i8_d72_tree", FORWARD, F32, GLINT_I8, TREE, 72, 6, 8, 0, GLINT_MATH_NATIVE, SINKS),
    /* as many queries as there are at most */
    ROW("fwd_f32_d8_none", FORWARD, F32, 0, 0, 8, 192, 8, 0, GLINT_MATH_NATIVE, 0),
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };
/* The library sees these as the constant table that lib/variant.h declares: one row at a time. */
struct glint_variant table[1] __asm__("glint_variants");
uint32_t table_count __asm__("glint_variants_count") = 1;

static unsigned failures;
#define EXPECT(condition, ...)                                                        \
    do {                                                                              \
        if (!(condition)) {                                                           \
            failures++;                                                               \
            printf("%s:%d: %s: %s: ", __FILE__, __LINE__, table[0].name, #condition); \
            printf(__VA_ARGS__);                                                      \
            printf("\n");                                                             \
        }                                                                             \
    } while (0)

/* ---- tensors ---------------------------------------------------------------------------------------------------- */

static size_t bytes_of(uint32_t dtype)
{
    return dtype == GLINT_I8 || dtype == GLINT_E4M3 ? 1 : dtype_bytes((enum glint_dtype)dtype);
}

static double number_of(uint32_t dtype, const void *tensor, int64_t at)
{
    const char *const element = (const char *)tensor + (size_t)at * bytes_of(dtype);
    return dtype == GLINT_I8     ? (double)*(const int8_t *)element
           : dtype == GLINT_E4M3 ? (double)float_from_e4m3(*(const uint8_t *)element)
                                 : (double)dtype_load((enum glint_dtype)dtype, element);
}

/* A tensor's numbers as [heads][rows][head_dim] of doubles. The self test has one sequence. */
struct heads {
    int64_t heads, rows;
    const struct glint_strides *strides;
    uint32_t dtype;
};

static double *loaded(const void *tensor, struct heads h, int64_t head_dim)
{
    double *const all = malloc((size_t)(h.heads * h.rows * head_dim) * sizeof *all);
    for (int64_t head = 0; head < h.heads; head++)
        for (int64_t row = 0; row < h.rows; row++)
            for (int64_t d = 0; d < head_dim; d++)
                all[(head * h.rows + row) * head_dim + d] =
                    number_of(h.dtype, tensor, head * h.strides->head + row * h.strides->row + d);
    return all;
}

static void stored(void *tensor, struct heads h, int64_t head_dim, const double *all)
{
    for (int64_t head = 0; head < h.heads; head++)
        for (int64_t row = 0; row < h.rows; row++)
            for (int64_t d = 0; d < head_dim; d++) {
                const int64_t at = head * h.strides->head + row * h.strides->row + d;
                dtype_store((enum glint_dtype)h.dtype, (char *)tensor + (size_t)at * bytes_of(h.dtype),
                            (float)all[(head * h.rows + row) * head_dim + d]);
            }
}

/* ---- what is asked ---------------------------------------------------------------------------------------------- */

static FILE *golden; /* NULL: nothing is written */

static void put_tensor(const char *name, const void *tensor, uint32_t dtype, int64_t count)
{
    uint32_t sum = 2166136261u; /* FNV-1a of all bytes */
    for (size_t i = 0; i < (size_t)count * bytes_of(dtype); i++)
        sum = (sum ^ ((const uint8_t *)tensor)[i]) * 16777619u;
    fprintf(golden, "    %-12s %6" PRId64 " numbers, sum %08" PRIx32 ":", name, count, sum);
    for (int64_t i = 0; i < count && i < 6; i++)
        fprintf(golden, " %g", number_of(dtype, tensor, i));
    fprintf(golden, "\n");
}

static void put_words(const char *name, const void *words, int64_t count)
{
    fprintf(golden, "    %-12s %6" PRId64 " words:", name, count);
    for (int64_t i = 0; i < count; i++)
        fprintf(golden, " %" PRId32, ((const int32_t *)words)[i]);
    fprintf(golden, "\n");
}

static void put_strides(const char *name, const struct glint_strides *s)
{
    fprintf(golden, " %s %" PRId64 ":%" PRId64 ":%" PRId64, name, s->batch, s->head, s->row);
}

static void put_question(const struct glint_problem *p, bool backward, const struct glint_tensors *t)
{
    const int64_t queries = p->heads_q * p->seqlen_q, keys = p->heads_kv * p->seqlen_k;
    const uint32_t kv_dtype = p->kv_dtype != 0 ? p->kv_dtype : p->dtype;
    fprintf(golden, "%s\n    batch %d heads %d:%d queries %d keys %d, mask %u window %d:%d diagonal %d softcap %g scale %.9g",
            table[0].name, (int)p->batch, (int)p->heads_q, (int)p->heads_kv, (int)p->seqlen_q, (int)p->seqlen_k, p->mask,
            (int)p->window_left, (int)p->window_right, (int)p->diagonal, (double)p->softcap, (double)p->softmax_scale);
    put_strides("q", &p->q);
    put_strides("k", &p->k);
    fprintf(golden, "\n");
    put_tensor("q", t->q, p->dtype, queries * p->head_dim);
    put_tensor("k", t->k, kv_dtype, keys * p->head_dim);
    put_tensor("v", t->v, kv_dtype, keys * p->head_dim);
    if (p->kv_dtype != 0)
        put_tensor("k_scale", t->k_scale, GLINT_F32, keys), put_tensor("v_scale", t->v_scale, GLINT_F32, keys);
    if (p->intervals != 0)
        put_words("key_begin", t->key_begin, p->seqlen_q), put_words("key_end", t->key_end, p->seqlen_q);
    if (p->tree != 0)
        put_words("tree_bits", t->tree_bits, p->seqlen_q * glint_tree_words(p));
    if (p->alibi != 0)
        put_tensor("alibi_slopes", t->alibi_slopes, GLINT_F32, p->heads_q);
    if (p->bias_dtype != 0)
        put_tensor("bias", t->bias, p->bias_dtype, p->heads_q * p->seqlen_k);
    if (p->sinks != 0)
        put_tensor("sinks", t->sinks, GLINT_F32, p->heads_q);
    if (backward)
        put_tensor("dout", t->dout, p->dtype, queries * p->head_dim);
}

/* What a kernel does not write must not look like an answer. */
static void expect_poison(const char *name, const void *tensor, uint32_t dtype, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const double x = number_of(dtype, tensor, i);
        if (!isnan(x)) {
            EXPECT(false, "number %" PRId64 " of %s is %g before the kernel runs", i, name, x);
            return;
        }
    }
}

/* Of the memory that the self test was given, what no tensor has stays as it was. */
enum { BESIDE = 0xa5 };
static unsigned char *memory;
static size_t memory_bytes;

struct taken {
    unsigned char *is; /* of each byte of the memory, whether a tensor has it */
};

static void take(const struct taken *taken, const char *name, const void *tensor, int64_t count, size_t element)
{
    const size_t bytes = (size_t)count * element, at = (size_t)((const unsigned char *)tensor - memory);
    EXPECT(tensor != NULL && at % GLINT_WORKSPACE_ALIGNMENT == 0 && at <= memory_bytes && bytes <= memory_bytes - at,
           "%s lies at %zu of %zu bytes", name, at, memory_bytes);
    for (size_t i = 0; failures == 0 && i < bytes; i++) {
        if (taken->is[at + i] != 0)
            EXPECT(false, "byte %zu of %s is of another tensor, too", i, name);
        taken->is[at + i] = 1;
    }
}

static void expect_nothing_beside(const struct glint_problem *p, bool backward, const struct glint_tensors *t,
                                  const void *workspace, size_t workspace_bytes)
{
    const int64_t queries = p->heads_q * p->seqlen_q, keys = p->heads_kv * p->seqlen_k;
    const size_t number = bytes_of(p->dtype), of_keys = bytes_of(p->kv_dtype != 0 ? p->kv_dtype : p->dtype);
    const struct taken taken = {calloc(memory_bytes, 1)};
    take(&taken, "q", t->q, queries * p->head_dim, number);
    take(&taken, "k", t->k, keys * p->head_dim, of_keys);
    take(&taken, "v", t->v, keys * p->head_dim, of_keys);
    take(&taken, "o", t->o, queries * p->head_dim, number);
    take(&taken, "lse", t->lse, queries, sizeof(float));
    if (p->kv_dtype != 0)
        take(&taken, "k_scale", t->k_scale, keys, sizeof(float)), take(&taken, "v_scale", t->v_scale, keys, sizeof(float));
    if (p->intervals != 0)
        take(&taken, "key_begin", t->key_begin, p->seqlen_q, 4), take(&taken, "key_end", t->key_end, p->seqlen_q, 4);
    if (p->tree != 0)
        take(&taken, "tree_bits", t->tree_bits, p->seqlen_q * glint_tree_words(p), 4);
    if (p->alibi != 0)
        take(&taken, "alibi_slopes", t->alibi_slopes, p->heads_q, sizeof(float));
    if (p->bias_dtype != 0)
        take(&taken, "bias", t->bias, p->heads_q * p->seqlen_k, bytes_of(p->bias_dtype));
    if (p->sinks != 0)
        take(&taken, "sinks", t->sinks, p->heads_q, sizeof(float));
    if (backward) {
        take(&taken, "dout", t->dout, queries * p->head_dim, number);
        take(&taken, "dq", t->dq, queries * p->head_dim, number);
        take(&taken, "dk", t->dk, keys * p->head_dim, number);
        take(&taken, "dv", t->dv, keys * p->head_dim, number);
        if (p->sinks != 0)
            take(&taken, "dsinks", t->dsinks, p->heads_q, sizeof(float));
    }
    for (size_t i = 0; i < memory_bytes; i++)
        if (!taken.is[i] && memory[i] != BESIDE) {
            EXPECT(false, "byte %zu of the memory, which no tensor has, is written", i);
            break;
        }
    take(&taken, "workspace", workspace, (int64_t)workspace_bytes, 1);
    free(taken.is);
}

/* ---- answers ---------------------------------------------------------------------------------------------------- */

/* The output whose largest number is wrong, and by how many tolerances. dsinks has the tolerance of all its terms. */
static struct {
    int output;
    double by;
    unsigned calls;
} off;
enum { NONE, O, LSE, DQ, DK, DV, DSINKS };

static double tolerance(void)
{
    const struct glint_variant *const v = &table[0];
    const double half_ulp = v->dtype == GLINT_BF16                                ? 0x1p-9
                            : v->dtype == GLINT_F16 || v->math == GLINT_MATH_TF32 ? 0x1p-12
                                                                                  : 0x1p-20;
    const bool rounds_weights = v->sm != 0 || v->math == GLINT_MATH_BF16;
    return half_ulp * (v->pass == GLINT_BACKWARD ? 32 : rounds_weights ? 16 : 8);
}

static void damage(int output, double *all, int64_t count)
{
    int64_t largest = 0;
    for (int64_t i = 1; i < count; i++) /* LSE of a row that sees no key is infinite */
        largest = isfinite(all[i]) && fabs(all[i]) > fabs(all[largest]) ? i : largest;
    if (off.output == output)
        all[largest] *= 1 + off.by * tolerance();
}

static void answer(const struct glint_problem *p, bool backward, const struct glint_tensors *t)
{
    const struct heads of_q = {p->heads_q, p->seqlen_q, &p->q, p->dtype};
    const struct heads of_k = {p->heads_kv, p->seqlen_k, &p->k, p->kv_dtype != 0 ? p->kv_dtype : p->dtype};
    const int64_t rows = p->heads_q * p->seqlen_q, queries = rows * p->head_dim, keys = p->heads_kv * p->seqlen_k * p->head_dim;
    double *const q = loaded(t->q, of_q, p->head_dim), *const k = loaded(t->k, of_k, p->head_dim),
                  *const v = loaded(t->v, of_k, p->head_dim), *const o = calloc((size_t)queries, sizeof *o),
                  *const lse = calloc((size_t)rows, sizeof *lse),
                  *const scale = malloc(2 * (size_t)(keys / p->head_dim) * sizeof *scale);
    float *const bias = malloc((size_t)(rows * p->seqlen_k) * sizeof *bias);
    struct ref_shape s = {.batch = 1,
                          .heads_q = p->heads_q,
                          .heads_kv = p->heads_kv,
                          .seqlen_q = p->seqlen_q,
                          .seqlen_k = p->seqlen_k,
                          .head_dim = p->head_dim,
                          .softmax_scale = p->softmax_scale,
                          .softcap = p->softcap,
                          .sinks = p->sinks != 0 ? t->sinks : NULL,
                          .begin = p->intervals != 0 ? t->key_begin : NULL,
                          .end = p->intervals != 0 ? t->key_end : NULL,
                          .slopes = p->alibi != 0 ? t->alibi_slopes : NULL,
                          .tree = p->tree != 0 ? t->tree_bits : NULL,
                          .tree_words = glint_tree_words(p)};
    ref_mask(&s, (enum glint_mask)p->mask, p->window_left, p->window_right, p->diagonal);
    for (int64_t i = 0; i < rows * p->seqlen_k && p->bias_dtype != 0; i++) {
        const int64_t head = i / p->seqlen_k / p->seqlen_q, query = i / p->seqlen_k % p->seqlen_q, key = i % p->seqlen_k;
        bias[i] = ((const float *)t->bias)[head * p->bias.head + query * p->bias.query + key * p->bias.key];
    }
    s.bias = p->bias_dtype != 0 ? bias : NULL;
    const int64_t of_scales = keys / p->head_dim;
    for (int64_t i = 0; i < of_scales && p->kv_dtype != 0; i++)
        scale[i] = (double)t->k_scale[i], scale[of_scales + i] = (double)t->v_scale[i];
    s.k_scale = p->kv_dtype != 0 ? scale : NULL;
    s.v_scale = p->kv_dtype != 0 ? scale + of_scales : NULL;
    reference_forward(&s, q, k, v, o, lse);
    if (!backward) {
        damage(O, o, queries);
        damage(LSE, lse, rows);
        stored(t->o, of_q, p->head_dim, o);
        for (int64_t i = 0; i < rows; i++)
            t->lse[i] = (float)lse[i];
    } else {
        double *const dout = loaded(t->dout, of_q, p->head_dim), *const given = loaded(t->o, of_q, p->head_dim);
        double *const dq = calloc((size_t)queries, sizeof *dq), *const dk = calloc((size_t)keys, sizeof *dk),
                      *const dv = calloc((size_t)keys, sizeof *dv);
        double dsinks[2] = {0}, together = 0;
        for (int64_t i = 0; i < queries; i++)
            EXPECT(fabs(given[i] - o[i]) <= fabs(o[i]) * dtype_ulp((enum glint_dtype)p->dtype) / 2 + 1e-7, "O is %g, not %g",
                   given[i], o[i]);
        for (int64_t i = 0; i < rows; i++)
            EXPECT(fabs((double)t->lse[i] - lse[i]) <= 1e-6 || (double)t->lse[i] == lse[i], "LSE is %g, not %g", (double)t->lse[i],
                   lse[i]);
        reference_backward(&s, q, k, v, o, lse, dout, NULL, dq, dk, dv, dsinks, NULL);
        for (int64_t head = 0; head < p->heads_q && p->sinks != 0; head++) {
            double squares = 0;
            for (int64_t i = 0; i < p->seqlen_q; i++) {
                double delta = 0;
                for (int64_t d = 0; d < p->head_dim; d++)
                    delta += dout[(head * p->seqlen_q + i) * p->head_dim + d] * o[(head * p->seqlen_q + i) * p->head_dim + d];
                squares += pow(exp((double)t->sinks[head] - lse[head * p->seqlen_q + i]) * delta, 2);
            }
            together = fmax(together, fmax(fabs(dsinks[head]), sqrt(squares)));
        }
        damage(DQ, dq, queries);
        damage(DK, dk, keys);
        damage(DV, dv, keys);
        stored(t->dq, of_q, p->head_dim, dq);
        stored(t->dk, of_k, p->head_dim, dk);
        stored(t->dv, of_k, p->head_dim, dv);
        for (int64_t head = 0; head < p->heads_q && p->sinks != 0; head++)
            t->dsinks[head] = (float)(dsinks[head] + (off.output == DSINKS ? off.by * tolerance() * together : 0));
        free(dout), free(given), free(dq), free(dk), free(dv);
    }
    free(q), free(k), free(v), free(o), free(lse), free(scale), free(bias);
}

static bool kernel_fails;

static enum glint_status call(const struct glint_plan *plan, const struct glint_tensors *t, const void *workspace,
                              size_t workspace_bytes)
{
    const struct glint_problem *const p = &plan->problem;
    const bool backward = plan->pass == GLINT_BACKWARD;
    const int64_t queries = p->heads_q * p->seqlen_q, keys = p->heads_kv * p->seqlen_k;
    off.calls++;
    if (kernel_fails)
        return GLINT_DRIVER_ERROR;
    EXPECT(workspace_bytes == plan->workspace_bytes, "the workspace has %zu bytes, not %zu", workspace_bytes,
           plan->workspace_bytes);
    expect_nothing_beside(p, backward, t, workspace, workspace_bytes);
    if (golden != NULL)
        put_question(p, backward, t);
    if (backward) {
        expect_poison("dq", t->dq, p->dtype, queries * p->head_dim);
        expect_poison("dk", t->dk, p->dtype, keys * p->head_dim);
        expect_poison("dv", t->dv, p->dtype, keys * p->head_dim);
        if (p->sinks != 0)
            expect_poison("dsinks", t->dsinks, GLINT_F32, p->heads_q);
    } else {
        expect_poison("o", t->o, p->dtype, queries * p->head_dim);
        expect_poison("lse", t->lse, GLINT_F32, queries);
    }
    answer(p, backward, t);
    return GLINT_OK;
}

typedef enum glint_status call_fn(const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace,
                                  size_t workspace_bytes, void *stream);
call_fn __wrap_glint_forward, __wrap_glint_backward;

enum glint_status __wrap_glint_forward(const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace,
                                       size_t workspace_bytes, void *stream)
{
    (void)stream;
    EXPECT(plan->pass == GLINT_FORWARD, "the pass is %u", plan->pass);
    return call(plan, tensors, workspace, workspace_bytes);
}

enum glint_status __wrap_glint_backward(const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace,
                                        size_t workspace_bytes, void *stream)
{
    (void)stream;
    EXPECT(plan->pass == GLINT_BACKWARD, "the pass is %u", plan->pass);
    return call(plan, tensors, workspace, workspace_bytes);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

/* The error that the self test reports, in tolerances. */
static double reported(const struct glint_context *context, int output, double by)
{
    struct glint_selftest_result result = GLINT_SELFTEST_RESULT_INIT;
    off.output = output, off.by = by, off.calls = 0;
    memset(memory, BESIDE, memory_bytes);
    const enum glint_status status = glint_selftest(context, memory, memory_bytes, NULL, &result);
    const bool wrong = result.worst_error > 1;
    EXPECT(status == (wrong ? GLINT_SELFTEST_FAILED : GLINT_OK) && off.calls == 1 && result.variants_run == 1 &&
               result.variants_failed == wrong && result.first_failed == (wrong ? 0 : UINT32_MAX),
           "%s, %u calls, %u run, %u failed", glint_status_name(status), off.calls, result.variants_run, result.variants_failed);
    return (double)result.worst_error;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

static struct {
    int64_t fails, count; /* the number of the one that fails, and how many there were */
    unsigned calls;       /* of kernels before it */
} copies = {-1, 0, 0};

static enum glint_status next_copy(void)
{
    if (copies.count++ == copies.fails)
        copies.calls = off.calls;
    return copies.count - 1 == copies.fails ? GLINT_DRIVER_ERROR : GLINT_OK;
}

static enum glint_status copy_in(const struct glint_context *context, void *device, const void *host, size_t bytes, void *stream)
{
    const enum glint_status status = next_copy();
    return status != GLINT_OK ? status : glint_family_cpu.backend->copy_in(context, device, host, bytes, stream);
}

static enum glint_status copy_out(const struct glint_context *context, void *host, const void *device, size_t bytes, void *stream)
{
    const enum glint_status status = next_copy();
    return status != GLINT_OK ? status : glint_family_cpu.backend->copy_out(context, host, device, bytes, stream);
}

/* Each copy fails where all others do not: it is the last one, its status is answered, and the result stays. */
static void fail_each_copy(const struct glint_context *context)
{
    const struct glint_selftest_result before = {sizeof before, 77, 78, 79, 80};
    copies.count = 0;
    reported(context, NONE, 0);
    const int64_t count = copies.count;
    for (copies.fails = 0; copies.fails < count; copies.fails++) {
        struct glint_selftest_result result = before;
        copies.count = 0, off.calls = 0;
        memset(memory, BESIDE, memory_bytes);
        const enum glint_status status = glint_selftest(context, memory, memory_bytes, NULL, &result);
        EXPECT(status == GLINT_DRIVER_ERROR && copies.count == copies.fails + 1 && off.calls == copies.calls &&
                   memcmp(&result, &before, sizeof result) == 0,
               "copy %d of %d fails: %s after %d copies", (int)copies.fails, (int)count, glint_status_name(status),
               (int)copies.count);
    }
    copies.fails = -1;
}

/* ---- plans ------------------------------------------------------------------------------------------------------- */

static struct {
    int fails, count; /* the number of the one that fails, and how many there were */
} plans = {-1, 0};

static bool next_plan(const struct glint_variant *row, const struct glint_problem *problem, uint32_t concurrency,
                      struct glint_family_plan *plan)
{
    return plans.count++ != plans.fails && glint_family_cpu.backend->plan(row, problem, concurrency, plan);
}

/* The row is planned for the size, and then to be run. What cannot be planned for the size needs no memory; what cannot
 * be planned later ends the test, as a kernel does that fails, and the result stays. */
static void fail_each_plan(const struct glint_context *context)
{
    const struct glint_selftest_result before = {sizeof before, 77, 78, 79, 80};
    for (plans.fails = 0; plans.fails < 2; plans.fails++) {
        struct glint_selftest_result result = before;
        size_t bytes = 99;
        plans.count = 0, off.output = NONE, off.calls = 0, copies.count = 0;
        memset(memory, BESIDE, memory_bytes);
        const enum glint_status sized = glint_selftest_size(context, &bytes);
        EXPECT(sized == GLINT_OK && bytes == (plans.fails == 0 ? 0 : memory_bytes), "%s, %zu bytes", glint_status_name(sized),
               bytes);
        plans.count = 0;
        const enum glint_status status = glint_selftest(context, memory, memory_bytes, NULL, &result);
        EXPECT(status == (plans.fails == 0 ? GLINT_OK : GLINT_SIZE_OVERFLOW) && plans.count == 2,
               "plan %d fails: %s after %d plans", plans.fails, glint_status_name(status), plans.count);
        if (plans.fails == 1)
            EXPECT(off.calls == 0 && copies.count == 0 && memcmp(&result, &before, sizeof result) == 0, "%u calls, %d copies",
                   off.calls, (int)copies.count);
    }
    plans.fails = -1;
    struct glint_selftest_result result = before;
    kernel_fails = true, off.calls = 0, copies.count = 0;
    const enum glint_status failed = glint_selftest(context, memory, memory_bytes, NULL, &result);
    const int64_t inputs = copies.count; /* no output is looked at */
    kernel_fails = false, copies.count = 0;
    glint_selftest(context, memory, memory_bytes, NULL, &result);
    EXPECT(failed == GLINT_DRIVER_ERROR && off.calls == 2 && inputs < copies.count, "%s, %d copies of %d",
           glint_status_name(failed), (int)inputs, (int)copies.count);
}

/* ---- all of a row ----------------------------------------------------------------------------------------------- */

/* Right answers are rounded, which is at most an eighth of the tolerance. */
static void ask(void)
{
    static const char *const names[] = {"nothing", "O", "LSE", "dQ", "dK", "dV", "dsinks"};
    static const double by[] = {-1.3, -0.7, 0.7, 1.3, 40};
    static _Alignas(64) unsigned char storage[1 << 14];
    struct glint_options options = GLINT_OPTIONS_INIT;
    struct glint_context *context = NULL;
    options.device = GLINT_DEVICE_CPU;
    if (glint_context_size() > sizeof storage || glint_context_init(storage, sizeof storage, &options, &context) != GLINT_OK)
        exit(1);
    context->backend = &backend;
    if (glint_selftest_size(context, &memory_bytes) != GLINT_OK || memory_bytes == 0)
        exit(1);
    memory = aligned_alloc(GLINT_WORKSPACE_ALIGNMENT, memory_bytes);
    FILE *const out = golden;
    const double right = reported(context, NONE, 0);
    golden = NULL;
    EXPECT(right <= 0.15, "a right answer is reported as %g", right);
    const bool backward = table[0].pass == GLINT_BACKWARD;
    const int first = backward ? DQ : O, last = !backward ? LSE : (table[0].takes & SINKS) != 0 ? DSINKS : DV;
    for (int output = first; output <= last; output++)
        for (size_t i = 0; i < sizeof by / sizeof by[0]; i++) {
            const double error = reported(context, output, by[i]);
            EXPECT(fabs(error - fabs(by[i])) <= 0.15 + 0.02 * fabs(by[i]), "%s off by %g tolerances is reported as %g",
                   names[output], by[i], error);
        }
    if (table[0].tile_m < 32)
        fail_each_copy(context);
    fail_each_plan(context);
    golden = out;
    free(memory);
}

int main(int argc, char **argv)
{
    char *have = NULL;
    size_t bytes = 0;
    golden = open_memstream(&have, &bytes);
    backend = *glint_family_cpu.backend, family = glint_family_cpu;
    backend.copy_in = copy_in, backend.copy_out = copy_out, backend.plan = next_plan, family.backend = &backend;
    for (size_t i = 0; i < KINDS; i++) {
        table[0] = kinds[i];
        ask();
    }
    return golden_finish(golden, &have, argc < 2 ? NULL : argv[1]) != 0 || failures > 0;
}
