#include "tests/cuda/job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/rand.h"

enum { GUARD = 0x5a, GUARD_BYTES = 256, UNIT = 256 };
enum { WORKSPACE = TENSORS, LENGTHS, K_SCALE, V_SCALE, INTERVALS, TREE };

/* Random bits of a number of magnitude 2^-4 ... 1 in the dtype: no conversion, every mantissa. Of 8 bits any number. */
static void fill(unsigned char *to, size_t bytes, uint32_t dtype, struct rand *random)
{
    if (dtype == GLINT_I8 || dtype == GLINT_E4M3)
        for (size_t i = 0; i < bytes; i++) {
            const unsigned char byte = (unsigned char)(rand_bits(random) >> 40);
            to[i] = dtype == GLINT_E4M3 && (byte & 0x7f) == 0x7f ? 0 : byte; /* not NaN */
        }
    if (dtype == GLINT_I8 || dtype == GLINT_E4M3)
        return;
    const size_t element = dtype == GLINT_F32 ? 4 : 2;
    for (size_t i = 0; i + element <= bytes; i += element) {
        const uint64_t r = rand_bits(random);
        const uint32_t sign = (uint32_t)(r >> 63), exponent = (uint32_t)(r >> 40 & 3), mantissa = (uint32_t)r;
        const uint32_t f32 = sign << 31 | (123 + exponent) << 23 | (mantissa & 0x7fffff);
        const uint16_t f16 = (uint16_t)(sign << 15 | (11 + exponent) << 10 | (mantissa & 0x3ff));
        const uint16_t bf16 = (uint16_t)(f32 >> 16);
        memcpy(to + i,
               dtype == GLINT_F32   ? (const void *)&f32
               : dtype == GLINT_F16 ? (const void *)&f16
                                    : (const void *)&bf16,
               element);
    }
}

static void stop(const char *what, const struct job *job, enum glint_status status)
{
    fprintf(stderr, "%s: %s: %s\n", job->info.name, what, glint_status_name(status));
    exit(EXIT_FAILURE);
}

static void lay_out(struct job *job)
{
    const struct glint_problem *p = &job->problem;
    const size_t element = p->dtype == GLINT_F32 ? 4 : 2, d = (size_t)p->head_dim, b = (size_t)p->batch;
    const size_t stored = p->kv_dtype == 0 ? element : 1;
    const size_t scales = p->kv_scales == GLINT_SCALES_ROW    ? b * (size_t)(p->heads_kv * p->seqlen_k)
                          : p->kv_scales == GLINT_SCALES_HEAD ? (size_t)p->heads_kv
                                                              : 0;
    const size_t queries = b * (size_t)(p->heads_q * p->seqlen_q), keys = b * (size_t)(p->heads_kv * p->seqlen_k);
    const size_t bytes[JOB_ARRAYS] = {
        [Q] = queries * d * element,
        [K] = keys * d * stored,
        [V] = keys * d * stored,
        [O] = queries * d * element,
        [LSE] = queries * 4,
        [DOUT] = queries * d * element,
        [DQ] = queries * d * element,
        [DK] = keys * d * element,
        [DV] = keys * d * element,
        [WORKSPACE] = job->plan.workspace_bytes,
        [LENGTHS] = p->lengths == GLINT_LENGTHS_DEVICE ? 2 * b * sizeof(int32_t) : 0,
        [K_SCALE] = scales * sizeof(float),
        [V_SCALE] = scales * sizeof(float),
        [TREE] = p->tree != 0 ? b * (size_t)(p->seqlen_q * ((p->seqlen_q + 31) / 32)) * sizeof(uint32_t) : 0,
        [INTERVALS] = p->intervals != 0 ? 2 * b * (size_t)p->seqlen_q * sizeof(int32_t) : 0,
    };
    const enum glint_pass pass = (enum glint_pass)job->info.pass;
    job->bytes = GUARD_BYTES;
    for (int i = 0; i < JOB_ARRAYS; i++) {
        const int used = i >= WORKSPACE || pass_uses(pass, (enum tensor)i);
        const int written = i < WORKSPACE && pass_writes(pass, (enum tensor)i);
        job->array[i] = (struct job_array){job->bytes, used ? bytes[i] : 0, NULL, written};
        job->bytes += (job->array[i].bytes + GUARD_BYTES + UNIT - 1) / UNIT * UNIT;
    }
}

static void point(struct job *job)
{
    job->tensors = (struct glint_tensors)GLINT_TENSORS_INIT;
    for (enum tensor t = Q; t < TENSORS; t++)
        tensor_set(&job->tensors, t, job->array[t].bytes ? job->array[t].address : NULL);
    job->workspace = job->array[WORKSPACE].bytes ? job->array[WORKSPACE].address : NULL;
    job->tensors.k_scale = job->array[K_SCALE].bytes ? (const float *)(const void *)job->array[K_SCALE].address : NULL;
    job->tensors.v_scale = job->array[V_SCALE].bytes ? (const float *)(const void *)job->array[V_SCALE].address : NULL;
    if (job->array[LENGTHS].bytes > 0) {
        job->tensors.seqlens_q = (const int32_t *)(const void *)job->array[LENGTHS].address;
        job->tensors.seqlens_k = job->tensors.seqlens_q + job->problem.batch;
    }
    if (job->array[INTERVALS].bytes > 0) {
        job->tensors.key_begin = (const int32_t *)(const void *)job->array[INTERVALS].address;
        job->tensors.key_end = job->tensors.key_begin + job->problem.batch * job->problem.seqlen_q;
    }
    if (job->array[TREE].bytes > 0) /* any bits are right, those of numbers too */
        job->tensors.tree_bits = (const uint32_t *)(const void *)job->array[TREE].address;
}

void job_lengths(const struct job *job, struct device *device, const int32_t *lengths)
{
    device_put(device, job->array[LENGTHS].address, lengths, job->array[LENGTHS].bytes);
}

/* Begins, then ends: some are empty, and some reach beyond the keys. */
static void fill_intervals(unsigned char *to, size_t bytes, const struct glint_problem *p, struct rand *random)
{
    const size_t half = bytes / 2;
    for (size_t at = 0; at < half; at += sizeof(int32_t)) {
        const int64_t begin = rand_below(random, p->seqlen_k + 9) - 4, length = rand_below(random, 2 * p->seqlen_k + 1);
        const int32_t bounds[2] = {(int32_t)begin, (int32_t)(begin + length)};
        memcpy(to + at, &bounds[0], sizeof bounds[0]);
        memcpy(to + half + at, &bounds[1], sizeof bounds[1]);
    }
}

void job_inputs(struct job *job, struct device *device, uint64_t seed)
{
    struct rand random = {seed};
    for (int i = 0; i < JOB_ARRAYS; i++) {
        const struct job_array *a = &job->array[i];
        if (a->written || a->bytes == 0 || i == WORKSPACE || i == LENGTHS)
            continue;
        unsigned char *host = malloc(a->bytes);
        if (!host)
            exit(EXIT_FAILURE);
        const int narrow = (i == K || i == V) && job->problem.kv_dtype != 0;
        if (i == INTERVALS)
            fill_intervals(host, a->bytes, &job->problem, &random);
        else
            fill(host, a->bytes,
                 i >= WORKSPACE || i == LSE ? GLINT_F32
                 : narrow                   ? job->problem.kv_dtype
                                            : job->problem.dtype,
                 &random);
        if (i == LSE) { /* near the true one, so that probabilities are of the right size; -inf where no key is seen */
            const struct glint_problem *p = &job->problem;
            const int bottom_right = p->mask == GLINT_MASK_CAUSAL_BOTTOM_RIGHT || p->mask == GLINT_MASK_BAND_BOTTOM_RIGHT;
            const int64_t blind = bottom_right ? p->seqlen_q - p->seqlen_k - p->window_right : 0; /* the first rows of a head */
            const float shift = logf((float)(job->problem.seqlen_k > 0 ? job->problem.seqlen_k : 1));
            for (size_t r = 0; r < a->bytes; r += sizeof shift) {
                float lse;
                memcpy(&lse, host + r, sizeof lse);
                lse = (int64_t)(r / sizeof shift) % p->seqlen_q < blind ? -INFINITY : lse * 0.125f + shift;
                memcpy(host + r, &lse, sizeof lse);
            }
        }
        device_put(device, a->address, host, a->bytes);
        free(host);
    }
}

/* The variant's information, the problem, and the plan. */
static enum glint_status plan_job(struct job *job, const struct glint_context *context, uint32_t variant, struct job_shape shape,
                                  enum glint_mask causal)
{
    memset(job, 0, sizeof *job);
    job->info = (struct glint_variant_info)GLINT_VARIANT_INFO_INIT;
    if (glint_variant_at(variant, &job->info) != GLINT_OK)
        exit(EXIT_FAILURE);
    glint_problem_bshd(&job->problem, (enum glint_dtype)job->info.dtype, shape.batch, shape.seqlen_q, shape.seqlen_k, shape.heads_q,
                       shape.heads_kv, job->info.head_dim);
    job->problem.kv_dtype = job->info.kv_dtype;
    job->problem.kv_scales = job->info.kv_dtype == GLINT_I8     ? GLINT_SCALES_ROW
                             : job->info.kv_dtype == GLINT_E4M3 ? GLINT_SCALES_HEAD
                                                                : GLINT_SCALES_NONE;
    job->problem.softcap = (job->info.features & GLINT_FEATURE_SOFTCAP) ? 30 : 0;
    job->problem.mask = (job->info.features & GLINT_FEATURE_RIGHT_BOUND) ? causal : GLINT_MASK_NONE;
    if (job->info.features & GLINT_FEATURE_LEFT_BOUND) { /* a window, aligned as the causal mask */
        job->problem.mask = causal == GLINT_MASK_CAUSAL_TOP_LEFT ? GLINT_MASK_BAND_TOP_LEFT : GLINT_MASK_BAND_BOTTOM_RIGHT;
        job->problem.window_left = 100;
        job->problem.window_right = 3;
    }
    job->problem.intervals = (job->info.features & GLINT_FEATURE_INTERVALS) != 0;
    job->problem.tree = (job->info.features & GLINT_FEATURE_TREE) != 0;
    job->problem.lengths = shape.device_lengths ? GLINT_LENGTHS_DEVICE : GLINT_LENGTHS_HOST;
    return glint_plan_variant(context, &job->problem, (enum glint_pass)job->info.pass, variant, &job->plan);
}

int job_possible(const struct glint_context *context, uint32_t variant, struct job_shape shape, enum glint_mask causal)
{
    struct job job;
    return plan_job(&job, context, variant, shape, causal) == GLINT_OK;
}

void job_make(struct job *job, struct device *device, const struct glint_context *context, uint32_t variant, struct job_shape shape,
              enum glint_mask causal, uint64_t seed)
{
    const enum glint_status status = plan_job(job, context, variant, shape, causal);
    if (status != GLINT_OK)
        stop("plan", job, status);
    lay_out(job);
    job->arena = device_alloc(device, job->bytes);
    device_set(device, job->arena, GUARD, job->bytes, NULL);
    for (int i = 0; i < JOB_ARRAYS; i++)
        job->array[i].address = job->arena + job->array[i].at;
    point(job);
    job_inputs(job, device, seed);
    if (shape.device_lengths) { /* the bounds */
        int32_t bounds[2 * JOB_BATCH];
        for (int64_t b = 0; b < shape.batch && b < JOB_BATCH; b++)
            bounds[b] = (int32_t)shape.seqlen_q, bounds[shape.batch + b] = (int32_t)shape.seqlen_k;
        job_lengths(job, device, bounds);
    }
}

void job_free(struct job *job, struct device *device)
{
    for (int i = 0; i < JOB_ARRAYS && !job->arena; i++)
        device_free(device, job->array[i].address);
    device_free(device, job->arena);
    job->arena = NULL;
}

void job_spread(struct job *job, struct device *device)
{
    for (int i = 0; i < JOB_ARRAYS; i++) {
        struct job_array *a = &job->array[i];
        unsigned char *const from = a->address;
        a->address = a->bytes ? device_alloc(device, a->bytes) : NULL;
        if (a->bytes == 0 || a->written || i == WORKSPACE)
            continue;
        unsigned char *host = malloc(a->bytes);
        if (!host)
            exit(EXIT_FAILURE);
        device_get(device, host, from, a->bytes);
        device_put(device, a->address, host, a->bytes);
        free(host);
    }
    device_free(device, job->arena);
    job->arena = NULL;
    point(job);
}

enum glint_status job_run(const struct job *job, void *stream)
{
    return job->info.pass == GLINT_FORWARD
               ? glint_forward(&job->plan, &job->tensors, job->workspace, job->plan.workspace_bytes, stream)
               : glint_backward(&job->plan, &job->tensors, job->workspace, job->plan.workspace_bytes, stream);
}

void job_poison(const struct job *job, struct device *device, unsigned char outputs, unsigned char workspace, void *stream)
{
    for (int i = 0; i < JOB_ARRAYS; i++)
        if (job->array[i].written || i == WORKSPACE)
            device_set(device, job->array[i].address, i == WORKSPACE ? workspace : outputs, job->array[i].bytes, stream);
}

size_t job_output_bytes(const struct job *job)
{
    size_t bytes = 0;
    for (int i = 0; i < JOB_ARRAYS; i++)
        bytes += job->array[i].written ? job->array[i].bytes : 0;
    return bytes;
}

void job_outputs(const struct job *job, struct device *device, unsigned char *to)
{
    for (int i = 0; i < JOB_ARRAYS; i++)
        if (job->array[i].written) {
            device_get(device, to, job->array[i].address, job->array[i].bytes);
            to += job->array[i].bytes;
        }
}

int job_guards_hold(const struct job *job, struct device *device)
{
    unsigned char *host = malloc(job->bytes);
    int hold = host != NULL;
    if (!host)
        return 0;
    device_get(device, host, job->arena, job->bytes);
    size_t at = 0;
    for (int i = 0; i <= JOB_ARRAYS; i++) {
        const size_t until = i < JOB_ARRAYS ? job->array[i].at : job->bytes;
        for (; at < until; at++)
            hold = hold && host[at] == GUARD;
        if (i < JOB_ARRAYS)
            at = job->array[i].at + job->array[i].bytes;
    }
    free(host);
    return hold;
}
