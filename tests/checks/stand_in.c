#include "tests/checks/stand_in.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/checks/backend_host.h"
#include "tests/oracle/half.h"

enum { TILE_M = 8, TILE_N = 12, DIM = 16 };

static enum fault fault;

#define IF_FAULT(name) (fault == FAULT_##name)

void stand_in_set_fault(enum fault new_fault)
{
    fault = new_fault;
}

const char *fault_name(enum fault which)
{
    static const char *const name[FAULTS] = {"none",
#define FAULT(name) #name,
                                             FORWARD_FAULTS(FAULT) "ignored", BACKWARD_FAULTS(FAULT)
#undef FAULT
    };
    return name[which];
}

/* ---- the table ---- */

#define ROW(pass, dtype, causal, math, name)                                                                                     \
    {                                                                                                                            \
        sizeof(struct glint_variant_info), pass, dtype, causal, DIM, DIM, 0, 0, TILE_M, TILE_N, 16, math, 0, 0, name, "stand_in" \
    }
#define NATIVE(pass, dtype, name)                                         \
    ROW(pass, dtype, 1, GLINT_MATH_NATIVE, name "_d16_causal__stand_in"), \
        ROW(pass, dtype, 0, GLINT_MATH_NATIVE, name "_d16_none__stand_in")
#define TF32(pass, name)                                                                     \
    ROW(pass, GLINT_F32, 1, GLINT_MATH_TF32, name "_f32_d16_causal__stand_in_tf32"),         \
        ROW(pass, GLINT_F32, 1, GLINT_MATH_TF32X3, name "_f32_d16_causal__stand_in_tf32x3"), \
        ROW(pass, GLINT_F32, 0, GLINT_MATH_TF32, name "_f32_d16_none__stand_in_tf32")
static const struct glint_variant_info table[] = {
    NATIVE(GLINT_BACKWARD, GLINT_BF16, "bwd_bf16"), NATIVE(GLINT_BACKWARD, GLINT_F16, "bwd_f16"),
    NATIVE(GLINT_BACKWARD, GLINT_F32, "bwd_f32"),   TF32(GLINT_BACKWARD, "bwd"),
    NATIVE(GLINT_FORWARD, GLINT_BF16, "fwd_bf16"),  NATIVE(GLINT_FORWARD, GLINT_F16, "fwd_f16"),
    NATIVE(GLINT_FORWARD, GLINT_F32, "fwd_f32"),    TF32(GLINT_FORWARD, "fwd"),
};

static uint32_t variant_count(void)
{
    return (uint32_t)(sizeof table / sizeof table[0]);
}

static enum glint_status variant_at(uint32_t index, struct glint_variant_info *info)
{
    if (index >= variant_count())
        return GLINT_BAD_INDEX;
    *info = table[index];
    return GLINT_OK;
}

/* ---- context and plan ---- */

struct glint_context {
    struct glint_executor executor;
};

static enum glint_status open_context(const struct glint_executor *executor, struct glint_context **context)
{
    *context = calloc(1, sizeof **context);
    if (*context == NULL)
        abort();
    if (executor != NULL)
        (*context)->executor = *executor;
    return GLINT_OK;
}

static void close_context(struct glint_context *context)
{
    free(context);
}

static enum glint_status variant_available(const struct glint_context *context, uint32_t index)
{
    (void)context;
    return index < variant_count() ? GLINT_OK : GLINT_BAD_INDEX;
}

static uint32_t lanes_of(const struct glint_context *context)
{
    return context->executor.concurrency > 1 ? context->executor.concurrency : 1;
}

/* A lane's floats: forward one row of O and a tile of scores; backward dK and dV of one key head and a row of dQ. */
static size_t lane_floats(const struct glint_problem *p, enum glint_pass pass)
{
    return pass == GLINT_FORWARD ? DIM + TILE_N : (size_t)(2 * p->seqlen_k + 1) * DIM;
}

static enum glint_status make_plan(const struct glint_context *context, const struct glint_problem *problem, enum glint_pass pass,
                                   uint32_t index, struct glint_plan *plan)
{
    if (pass != (enum glint_pass)table[index].pass || problem->dtype != table[index].dtype || problem->max_logit != 0)
        return GLINT_NOT_IN_SPEC;
    plan->pass = pass;
    plan->variant = index;
    plan->context = context;
    plan->problem = *problem;
    plan->workspace_bytes = lanes_of(context) * lane_floats(problem, pass) * sizeof(float);
    return GLINT_OK;
}

/* ---- one lane of work ---- */

struct work {
    const struct glint_problem *p;
    const struct glint_tensors *t;
    float *workspace;
    size_t workspace_bytes;
    uint32_t lanes;
    enum glint_math math;
};

/* A factor of a product: what is stored, or rounded to tf32. */
static float factor(const struct work *w, float x)
{
    enum glint_math math = w->math;
    if (math == GLINT_MATH_TF32 && IF_FAULT(COARSE_TF32))
        return dtype_round(GLINT_BF16, x);
    if (math == GLINT_MATH_TF32X3 && (IF_FAULT(ONE_TF32_OF_THREE) || IF_FAULT(ONE_TF32_OF_THREE_BACKWARD)))
        math = GLINT_MATH_TF32;
    return factor_round(math, x);
}

static float get(const struct work *w, const void *tensor, const struct glint_strides *s, int64_t b, int64_t h, int64_t row,
                 int64_t d)
{
    const enum glint_dtype dtype = (enum glint_dtype)w->p->dtype;
    const int64_t at = b * s->batch + h * s->head + row * s->row + d;
    return dtype_load(dtype, (const unsigned char *)tensor + at * (int64_t)dtype_bytes(dtype));
}

static void put(const struct work *w, void *tensor, const struct glint_strides *s, int64_t b, int64_t h, int64_t row, int64_t d,
                float x)
{
    const enum glint_dtype dtype = (enum glint_dtype)w->p->dtype;
    const int64_t at = b * s->batch + h * s->head + row * s->row + d;
    dtype_store(dtype, (unsigned char *)tensor + at * (int64_t)dtype_bytes(dtype), x);
}

static float exp_of(float x, bool backward)
{
    const float y = expf(x);
    if (IF_FAULT(EXP_CONSTANT_1E5))
        return y * (1 + 1e-5f);
    if (backward ? IF_FAULT(BACKWARD_EXP_1E5) : IF_FAULT(EXP_WAVE_1E5))
        return y * (1 + 1e-5f * sinf(x));
    return y;
}

static int64_t visible_of(const struct glint_problem *p, int64_t i)
{
    const bool band = p->mask == GLINT_MASK_BAND_TOP_LEFT || p->mask == GLINT_MASK_BAND_BOTTOM_RIGHT; /* without a left side */
    if (band && p->window_right == GLINT_UNBOUNDED)
        return p->seqlen_k;
    const bool top_left = p->mask == GLINT_MASK_CAUSAL_TOP_LEFT || p->mask == GLINT_MASK_BAND_TOP_LEFT ||
                          (p->mask != GLINT_MASK_NONE && IF_FAULT(ALIGNMENT_IGNORED));
    int64_t n = p->mask == GLINT_MASK_NONE ? p->seqlen_k
                                           : i + 1 + (band ? p->window_right : 0) + (top_left ? 0 : p->seqlen_k - p->seqlen_q);
    if (p->mask != GLINT_MASK_NONE)
        n += IF_FAULT(MASK_ONE_SHORT) ? -1 : IF_FAULT(MASK_ONE_LONG) ? 1 : 0;
    const int64_t diagonal = IF_FAULT(DIAGONAL_IGNORED) ? 0 : p->diagonal, all = p->seqlen_q + p->seqlen_k;
    n += diagonal < -all ? -all : diagonal > all ? all : diagonal;
    n = n < 0 ? 0 : n > p->seqlen_k ? p->seqlen_k : n;
    return IF_FAULT(TAIL_TILE_DROPPED) && n > TILE_N ? n / TILE_N * TILE_N : n;
}

static int64_t key_head(const struct glint_problem *p, int64_t h)
{
    return IF_FAULT(GROUP_BY_REMAINDER) ? h % p->heads_kv : h / (p->heads_q / p->heads_kv);
}

static float score(const struct work *w, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const struct glint_problem *p = w->p;
    float scale = IF_FAULT(SCALE_IGNORED) ? 0.25f : p->softmax_scale;
    float sum = 0;
    if (IF_FAULT(SCALE_OFF_BY_1E4))
        scale *= 1 + 1e-4f;
    for (int64_t d = 0; d < DIM; d++)
        sum += factor(w, get(w, w->t->q, &p->q, IF_FAULT(BATCH_STRIDE_IGNORED) ? 0 : b, h, i, d)) *
               factor(w, get(w, w->t->k, &p->k, b, key_head(p, h), j, d));
    if (IF_FAULT(READS_PAST_K) && j == p->seqlen_k - 1)
        sum += 0 * get(w, w->t->k, &p->k, b, key_head(p, h), j, DIM);
    sum *= scale;
    return IF_FAULT(ROUNDED_SCORES) ? dtype_round(p->dtype == GLINT_F32 ? GLINT_F16 : (enum glint_dtype)p->dtype, sum) : sum;
}

static void forward_row(const struct work *w, uint32_t lane, int64_t b, int64_t h, int64_t i)
{
    const struct glint_problem *p = w->p;
    const int64_t visible = visible_of(p, i), hk = key_head(p, h);
    struct glint_strides v_strides = p->v;
    float *o = w->workspace + lane * lane_floats(p, GLINT_FORWARD), *s = o + DIM;
    float max = IF_FAULT(SENTINEL) ? -5e4f : -INFINITY, sum = 0;

    if (IF_FAULT(ROW_STRIDE_OF_K_FOR_V))
        v_strides.row = p->k.row;
    if (!IF_FAULT(WORKSPACE_TRUSTED))
        memset(o, 0, DIM * sizeof *o);
    for (int64_t j0 = 0; j0 < visible; j0 += TILE_N) {
        const int64_t n = visible - j0 < TILE_N ? visible - j0 : TILE_N;
        float new_max = max;
        for (int64_t j = 0; j < n; j++) {
            s[j] = score(w, b, h, i, j0 + j);
            new_max = s[j] > new_max ? s[j] : new_max;
        }
        const float rescale = max == -INFINITY ? 0 : expf(max - new_max);
        max = IF_FAULT(NO_MAX) ? 0 : new_max;
        for (int64_t d = 0; d < DIM && j0 > 0 && !IF_FAULT(NO_RESCALE); d++)
            o[d] *= rescale;
        if (j0 > 0 && !IF_FAULT(NO_RESCALE) && !IF_FAULT(NO_RESCALE_OF_SUM))
            sum *= rescale;
        const float base = max == -INFINITY ? 0 : max; /* -inf - -inf would be NaN */
        for (int64_t x = 0; x < n; x++) {
            const int64_t j = IF_FAULT(LANES_DIFFER) && lane % 2 == 1 ? n - 1 - x : x;
            const float e = exp_of(s[j] - base, false);
            sum += e;
            for (int64_t d = 0; d < DIM; d++) {
                const float v = get(w, w->t->v, &v_strides, b, hk, j0 + j, d);
                o[d] += factor(w, e) * (IF_FAULT(FLUSH_TO_ZERO) && fabsf(v) < 0x1p-14f ? 0 : factor(w, v));
            }
        }
    }
    if (IF_FAULT(LAST_TILE_NOT_MASKED) && visible > 0 && visible < p->seqlen_k)
        for (int64_t d = 0; d < DIM; d++)
            o[d] += 0 * get(w, w->t->v, &v_strides, b, hk, visible, d);

    const bool empty = (visible == 0 && !IF_FAULT(EMPTY_ROW_IS_NAN)) || (IF_FAULT(NAN_BECOMES_ZERO) && isnan(sum));
    for (int64_t d = 0; d < DIM; d++)
        put(w, w->t->o, &p->o, b, h, i, d, empty ? 0 : o[d] / sum);
    if (IF_FAULT(WRITES_PAST_ROW))
        put(w, w->t->o, &p->o, b, h, i, DIM, 0);
    w->t->lse[(b * p->heads_q + h) * p->seqlen_q + i] = empty                       ? (IF_FAULT(EMPTY_ROW_LSE_ZERO) ? 0 : -INFINITY)
                                                        : IF_FAULT(LSE_BASE_2)      ? max * 1.4426950f + log2f(sum)
                                                        : IF_FAULT(LSE_WITHOUT_MAX) ? logf(sum)
                                                                                    : max + logf(sum);
}

static void forward_lane(void *argument, uint32_t lane)
{
    const struct work *w = argument;
    const struct glint_problem *p = w->p;
    const int64_t rows = p->seqlen_q - (IF_FAULT(LAST_ROW_NOT_WRITTEN) ? 1 : 0);
    for (int64_t bh = lane; bh < p->batch * p->heads_q; bh += w->lanes)
        for (int64_t i = 0; i < rows; i++)
            forward_row(w, lane, bh / p->heads_q, bh % p->heads_q, i);
}

static void backward_row(const struct work *w, int64_t b, int64_t h, int64_t i, float *dk, float *dv, float *dq)
{
    const struct glint_problem *p = w->p;
    const int64_t hk = key_head(p, h);
    int64_t visible = visible_of(p, i);
    const float lse = w->t->lse[(b * p->heads_q + h) * p->seqlen_q + i];
    float delta = 0;

    if (IF_FAULT(BACKWARD_MASK_LONG) && visible > 0 && visible < p->seqlen_k)
        visible++;
    if (IF_FAULT(BLIND_ROWS_NOT_SKIPPED) && visible == 0)
        visible = p->seqlen_k;
    for (int64_t d = 0; d < DIM; d++)
        delta += get(w, w->t->dout, &p->dout, b, h, i, d) * get(w, w->t->o, &p->o, b, h, i, d);
    if (w->t->dlse && !IF_FAULT(DLSE_IGNORED))
        delta -= w->t->dlse[(b * p->heads_q + h) * p->seqlen_q + i];
    if (IF_FAULT(NO_DELTA))
        delta = 0;
    if (IF_FAULT(DELTA_OFF_BY_1E3))
        delta *= 1 + 1e-3f;
    memset(dq, 0, DIM * sizeof *dq);
    for (int64_t j = 0; j < visible; j++) {
        const float s = score(w, b, h, i, j), pij = IF_FAULT(EXP_OF_LSE) ? expf(s) * expf(-lse) : exp_of(s - lse, true);
        float dp = 0;
        for (int64_t d = 0; d < DIM; d++)
            dp += factor(w, get(w, w->t->dout, &p->dout, b, h, i, d)) * factor(w, get(w, w->t->v, &p->v, b, hk, j, d));
        const float ds = factor(w, pij * (dp - delta));
        for (int64_t d = 0; d < DIM; d++) {
            dq[d] += ds * factor(w, get(w, w->t->k, &p->k, b, hk, j, d));
            dk[j * DIM + d] += ds * factor(w, get(w, w->t->q, &p->q, b, h, i, d));
            dv[j * DIM + d] += (IF_FAULT(DV_FROM_DS) ? ds : factor(w, pij)) * factor(w, get(w, w->t->dout, &p->dout, b, h, i, d));
        }
    }
    for (int64_t d = 0; d < DIM && IF_FAULT(HIDDEN_KEY_TIMES_ZERO) && visible < p->seqlen_k; d++)
        dq[d] += 0 * get(w, w->t->k, &p->k, b, hk, visible, d);
    for (int64_t d = 0; d < DIM && !(IF_FAULT(DQ_OF_BLIND_ROWS_UNSET) && visible == 0); d++)
        put(w, w->t->dq, &p->dq, b, h, i, d, IF_FAULT(DQ_NOT_SCALED) ? dq[d] : p->softmax_scale * dq[d]);
}

static void backward_lane(void *argument, uint32_t lane)
{
    const struct work *w = argument;
    const struct glint_problem *p = w->p;
    const int64_t group = p->heads_q / p->heads_kv;
    float *dk = w->workspace + lane * lane_floats(p, GLINT_BACKWARD), *dv = dk + p->seqlen_k * DIM, *dq = dv + p->seqlen_k * DIM;

    for (int64_t bh = lane; bh < p->batch * p->heads_kv; bh += w->lanes) {
        const int64_t b = bh / p->heads_kv, hk = bh % p->heads_kv;
        if (!IF_FAULT(BACKWARD_WORKSPACE))
            memset(dk, 0, (size_t)p->seqlen_k * DIM * sizeof *dk);
        memset(dv, 0, (size_t)p->seqlen_k * DIM * sizeof *dv);
        for (int64_t g = 0; g < group; g++) {
            const int64_t h = hk * group + (IF_FAULT(BACKWARD_LANES) && lane % 2 == 1 ? group - 1 - g : g);
            if (IF_FAULT(DK_ONLY_LAST_OF_GROUP))
                memset(dk, 0, (size_t)p->seqlen_k * DIM * sizeof *dk);
            for (int64_t i = 0; i < p->seqlen_q; i++)
                if (!(IF_FAULT(BACKWARD_TAIL_DROPPED) && i >= TILE_M && i >= p->seqlen_q / TILE_M * TILE_M))
                    backward_row(w, b, h, i, dk, dv, dq);
        }
        for (int64_t j = 0; j < p->seqlen_k; j++)
            for (int64_t d = 0; d < DIM; d++) {
                float x = (IF_FAULT(DK_NOT_SCALED) ? 1 : p->softmax_scale) * dk[j * DIM + d];
                float y = dv[j * DIM + d] * (IF_FAULT(DV_OFF_BY_A_TENTH) ? 1.1f : 1);
                if (IF_FAULT(GRADIENTS_ADDED)) {
                    x += get(w, w->t->dk, &p->dk, b, hk, j, d);
                    y += get(w, w->t->dv, &p->dv, b, hk, j, d);
                }
                put(w, w->t->dk, &p->dk, b, hk, j, d, x);
                put(w, w->t->dv, &p->dv, b, hk, j, d, y);
            }
    }
}

static enum glint_status run(const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace, size_t bytes,
                             void (*lane)(void *, uint32_t))
{
    struct work work = {
        &plan->problem, tensors, workspace, bytes, lanes_of(plan->context), (enum glint_math)table[plan->variant].math};
    if (IF_FAULT(WORKSPACE_OVERRUN))
        ((unsigned char *)workspace)[bytes] = 0;
    if (IF_FAULT(INPUT_WRITTEN) && plan->problem.seqlen_q > 0)
        put(&work, (void *)(uintptr_t)tensors->q, &plan->problem.q, 0, 0, 0, 0, 0);
    const struct glint_executor *executor = &plan->context->executor;
    if (executor->parallel_for != NULL)
        executor->parallel_for(executor->user, work.lanes, lane, &work);
    else
        lane(&work, 0);
    return GLINT_OK;
}

static enum glint_status forward(const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace, size_t bytes,
                                 void *stream)
{
    (void)stream;
    return run(plan, tensors, workspace, bytes, forward_lane);
}

static enum glint_status backward(const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace, size_t bytes,
                                  void *stream)
{
    (void)stream;
    return run(plan, tensors, workspace, bytes, backward_lane);
}

static const char *status_name(enum glint_status status)
{
    return status == GLINT_OK ? "GLINT_OK" : "a refusal of the stand-in";
}

const struct backend *stand_in_backend(void)
{
    static const struct backend stand_in = {
        .name = "stand-in",
        .executors = true,
        .fences = false,
        .stream = NULL,
        .open = open_context,
        .close = close_context,
        .alloc = host_alloc,
        .release = host_release,
        .copy_in = host_copy,
        .copy_out = host_copy,
        .finish = host_finish,
        .variant_count = variant_count,
        .variant_at = variant_at,
        .variant_available = variant_available,
        .plan = make_plan,
        .forward = forward,
        .backward = backward,
        .status_name = status_name,
    };
    return &stand_in;
}
