#include "examples/train_text/attention.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(struct attention *a, const char *what, enum glint_status status)
{
    snprintf(a->reason, sizeof a->reason, "%s: %s: %s", what, glint_status_name(status), glint_status_sentence(status));
    return -1;
}

static size_t align_up(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static int open_device(struct attention *a, struct glint_options *options)
{
    if (!a->on_gpu) {
        options->device = GLINT_DEVICE_CPU;
        options->executor = a->executor;
        return 0;
    }
    options->device = GLINT_DEVICE_CUDA_CURRENT; /* the one that gpu_open makes current */
    if (gpu_open(&a->gpu) == 0)
        return 0;
    snprintf(a->reason, sizeof a->reason, "the GPU: %s", a->gpu.reason);
    return -1;
}

int attention_open(struct attention *a, const char *device, uint32_t threads)
{
    memset(a, 0, sizeof *a);
    a->on_gpu = strcmp(device, "cuda") == 0;
    if (!a->on_gpu && strcmp(device, "cpu") != 0) {
        snprintf(a->reason, sizeof a->reason, "the device '%s' is not known to this program: use cpu or cuda", device);
        return -1;
    }
    size_t pool_bytes = align_up(glint_pool_size(threads)), context_bytes = align_up(glint_context_size());
    unsigned char *storage = aligned_alloc(256, pool_bytes + context_bytes);
    if (!storage) {
        snprintf(a->reason, sizeof a->reason, "no memory for the thread pool and the context");
        return -1;
    }
    enum glint_status status = glint_pool_init(storage, pool_bytes, threads, &a->pool, &a->executor);
    if (status != GLINT_OK) {
        free(storage);
        a->pool = NULL;
        return fail(a, "the thread pool", status);
    }
    struct glint_options options = GLINT_OPTIONS_INIT;
    (void)glint_permit_amx(&options); /* where there is none, another instruction set is taken */
    if (open_device(a, &options) == 0) {
        status = glint_context_init(storage + pool_bytes, context_bytes, &options, &a->context);
        if (status == GLINT_OK)
            return 0;
        fail(a, "the context", status);
    }
    attention_close(a);
    return -1;
}

void attention_close(struct attention *a)
{
    if (a->context)
        glint_context_close(a->context);
    gpu_close(&a->gpu);
    if (a->pool)
        glint_pool_close(a->pool);
    free(a->pool); /* the pool sits at the start of the storage that attention_open took */
    a->context = NULL;
    a->pool = NULL;
}

static int plan(struct attention *a, const struct glint_problem *problem, enum glint_pass pass, struct glint_plan *plan)
{
    enum glint_status status = glint_plan(a->context, problem, pass, plan);
    if (status == GLINT_OK)
        return 0;
    glint_explain(a->context, problem, pass, a->reason, sizeof a->reason, NULL);
    return -1;
}

/* The step of a decode loop: one query, every key of the cache. The last query sees every key under a bottom-right
 * causal mask, so the kernels of training serve here too; and as it sees them all, their order does not matter: the
 * cache may be a ring. */
static void decode_problem(struct glint_problem *problem, size_t heads, size_t keys)
{
    int64_t h = (int64_t)heads;
    glint_problem_bshd(problem, GLINT_F32, 1, 1, (int64_t)keys, h, h, HEAD_DIM);
    problem->mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
}

/* Memory on the GPU for the tensors of a training batch and the workspace, in one block. */
static int place_on_gpu(struct attention *a, size_t rows, size_t heads)
{
    size_t wide = align_up(rows * heads * HEAD_DIM * sizeof(float)), lse = align_up(rows * heads * sizeof(float));
    a->device.bytes = 8 * wide + lse + a->workspace_bytes;
    char *at = gpu_allocate(&a->gpu, a->device.bytes);
    if (!at) {
        snprintf(a->reason, sizeof a->reason, "%zu MB on the GPU: %s", a->device.bytes >> 20, a->gpu.reason);
        return -1;
    }
    a->device.qkv = (float *)(void *)at;
    a->device.dqkv = (float *)(void *)(at + 3 * wide);
    a->device.o = (float *)(void *)(at + 6 * wide);
    a->device.dout = (float *)(void *)(at + 7 * wide);
    a->device.lse = (float *)(void *)(at + 8 * wide);
    a->device.workspace = at + 8 * wide + lse;
    return 0;
}

int attention_plan(struct attention *a, size_t batch, size_t seqlen, size_t heads)
{
    int64_t b = (int64_t)batch, s = (int64_t)seqlen, h = (int64_t)heads;
    struct glint_problem training, decode;
    glint_problem_bshd(&training, GLINT_F32, b, s, s, h, h, HEAD_DIM);
    training.mask = GLINT_MASK_CAUSAL_TOP_LEFT;
    /* Q, K and V are views of one fused tensor: a row of it holds all three. */
    struct glint_strides fused = {s * 3 * h * HEAD_DIM, HEAD_DIM, 3 * h * HEAD_DIM};
    training.q = training.k = training.v = training.dq = training.dk = training.dv = fused;
    decode_problem(&decode, heads, seqlen);
    if (plan(a, &training, GLINT_FORWARD, &a->forward) != 0 || plan(a, &training, GLINT_BACKWARD, &a->backward) != 0 ||
        plan(a, &decode, GLINT_FORWARD, &a->widest_decode) != 0)
        return -1;
    const struct glint_plan *plans[] = {&a->forward, &a->backward, &a->widest_decode};
    a->workspace_bytes = 0;
    for (size_t i = 0; i < 3; i++)
        if (plans[i]->workspace_bytes > a->workspace_bytes)
            a->workspace_bytes = plans[i]->workspace_bytes;
    a->host_bytes = a->on_gpu ? 0 : a->workspace_bytes;
    return a->on_gpu ? place_on_gpu(a, batch * seqlen, heads) : 0;
}

/* Where a pass reads `count` floats that the host has: there on the CPU, in a copy at `device` on a GPU. NULL when the
 * copy failed. */
static const float *in(struct attention *a, float *device, const float *host, size_t count)
{
    if (!a->on_gpu)
        return host;
    if (gpu_put(&a->gpu, device, host, count * sizeof *host) == 0)
        return device;
    snprintf(a->reason, sizeof a->reason, "%s", a->gpu.reason);
    return NULL;
}

/* Where a pass writes what the host wants; `out` then brings it there. */
static float *at(const struct attention *a, float *device, float *host)
{
    return a->on_gpu ? device : host;
}

static int out(struct attention *a, float *host, const float *device, size_t count)
{
    if (!a->on_gpu || gpu_get(&a->gpu, host, device, count * sizeof *host) == 0)
        return 0;
    snprintf(a->reason, sizeof a->reason, "%s", a->gpu.reason);
    return -1;
}

static int run(struct attention *a, const struct glint_plan *plan, const struct glint_tensors *t, const char *what)
{
    void *workspace = a->on_gpu ? a->device.workspace : a->workspace;
    enum glint_status status = plan->pass == GLINT_FORWARD ? glint_forward(plan, t, workspace, a->workspace_bytes, NULL)
                                                           : glint_backward(plan, t, workspace, a->workspace_bytes, NULL);
    return status == GLINT_OK ? 0 : fail(a, what, status);
}

/* Floats of Q in a training batch: [batch][seqlen][heads][HEAD_DIM]. */
static size_t floats(const struct glint_problem *p)
{
    return (size_t)(p->batch * p->seqlen_q * p->heads_q * p->head_dim);
}

int attention_forward(struct attention *a, const float *qkv, float *o, float *lse)
{
    size_t n = floats(&a->forward.problem), d = (size_t)a->forward.problem.heads_q * HEAD_DIM;
    struct glint_tensors t = GLINT_TENSORS_INIT;
    const float *x = in(a, a->device.qkv, qkv, 3 * n);
    if (!x)
        return -1;
    t.q = x;
    t.k = x + d;
    t.v = x + 2 * d;
    t.o = at(a, a->device.o, o);
    t.lse = at(a, a->device.lse, lse);
    if (run(a, &a->forward, &t, "attention forward") != 0 || out(a, o, a->device.o, n) != 0)
        return -1;
    return out(a, lse, a->device.lse, n / HEAD_DIM);
}

int attention_backward(struct attention *a, const float *qkv, const float *o, const float *lse, const float *dout, float *dqkv)
{
    size_t n = floats(&a->backward.problem), d = (size_t)a->backward.problem.heads_q * HEAD_DIM;
    struct glint_tensors t = GLINT_TENSORS_INIT;
    const float *x = in(a, a->device.qkv, qkv, 3 * n), *y = in(a, a->device.o, o, n);
    const float *l = in(a, a->device.lse, lse, n / HEAD_DIM), *dy = in(a, a->device.dout, dout, n);
    if (!x || !y || !l || !dy)
        return -1;
    float *dx = at(a, a->device.dqkv, dqkv);
    t.q = x;
    t.k = x + d;
    t.v = x + 2 * d;
    t.o = (void *)(uintptr_t)y; /* backward only reads O and LSE */
    t.lse = (float *)(uintptr_t)l;
    t.dout = dy;
    t.dq = dx;
    t.dk = dx + d;
    t.dv = dx + 2 * d;
    return run(a, &a->backward, &t, "attention backward") != 0 ? -1 : out(a, dqkv, a->device.dqkv, 3 * n);
}

int attention_decode(struct attention *a, size_t heads, size_t keys, const float *q, const float *k, const float *v, float *o,
                     float *lse)
{
    size_t d = heads * HEAD_DIM;
    struct glint_problem problem;
    struct glint_plan step;
    decode_problem(&problem, heads, keys);
    if (plan(a, &problem, GLINT_FORWARD, &step) != 0)
        return -1;
    struct glint_tensors t = GLINT_TENSORS_INIT;
    t.q = in(a, a->device.dout, q, d);
    t.k = in(a, a->device.qkv, k, keys * d);
    t.v = in(a, a->device.dqkv, v, keys * d);
    if (!t.q || !t.k || !t.v)
        return -1;
    t.o = at(a, a->device.o, o);
    t.lse = at(a, a->device.lse, lse);
    if (run(a, &step, &t, "attention of one decode step") != 0 || out(a, o, a->device.o, d) != 0)
        return -1;
    return out(a, lse, a->device.lse, heads);
}
