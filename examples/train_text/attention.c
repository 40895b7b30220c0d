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

int attention_open(struct attention *a, const char *device, uint32_t threads)
{
    memset(a, 0, sizeof *a);
    if (strcmp(device, "cpu") != 0) {
        snprintf(a->reason, sizeof a->reason, "the device '%s' is not known to this program: use cpu", device);
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
    options.device = GLINT_DEVICE_CPU;
    options.executor = a->executor;
    status = glint_context_init(storage + pool_bytes, context_bytes, &options, &a->context);
    if (status != GLINT_OK) {
        attention_close(a);
        return fail(a, "the context", status);
    }
    return 0;
}

void attention_close(struct attention *a)
{
    if (a->context)
        glint_context_close(a->context);
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

/* The step of a decode loop: one query, every key of the cache. The last query sees every key under a bottom-right causal mask, so
 * the kernels of training serve here too; and as it sees them all, their order does not matter: the cache may be a ring. */
static void decode_problem(struct glint_problem *problem, size_t heads, size_t keys)
{
    int64_t h = (int64_t)heads;
    glint_problem_bshd(problem, GLINT_F32, 1, 1, (int64_t)keys, h, h, HEAD_DIM);
    problem->mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
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
    return 0;
}

int attention_forward(struct attention *a, const float *qkv, float *o, float *lse)
{
    struct glint_tensors t = GLINT_TENSORS_INIT;
    size_t d = (size_t)a->forward.problem.heads_q * HEAD_DIM;
    t.q = qkv;
    t.k = qkv + d;
    t.v = qkv + 2 * d;
    t.o = o;
    t.lse = lse;
    enum glint_status status = glint_forward(&a->forward, &t, a->workspace, a->workspace_bytes, NULL);
    return status == GLINT_OK ? 0 : fail(a, "attention forward", status);
}

int attention_backward(struct attention *a, const float *qkv, const float *o, const float *lse, const float *dout, float *dqkv)
{
    struct glint_tensors t = GLINT_TENSORS_INIT;
    size_t d = (size_t)a->backward.problem.heads_q * HEAD_DIM;
    t.q = qkv;
    t.k = qkv + d;
    t.v = qkv + 2 * d;
    t.o = (void *)(uintptr_t)o; /* backward only reads O and LSE */
    t.lse = (float *)(uintptr_t)lse;
    t.dout = dout;
    t.dq = dqkv;
    t.dk = dqkv + d;
    t.dv = dqkv + 2 * d;
    enum glint_status status = glint_backward(&a->backward, &t, a->workspace, a->workspace_bytes, NULL);
    return status == GLINT_OK ? 0 : fail(a, "attention backward", status);
}

int attention_decode(struct attention *a, size_t heads, size_t keys, const float *q, const float *k, const float *v, float *o,
                     float *lse)
{
    struct glint_problem problem;
    struct glint_plan step;
    decode_problem(&problem, heads, keys);
    if (plan(a, &problem, GLINT_FORWARD, &step) != 0)
        return -1;
    struct glint_tensors t = GLINT_TENSORS_INIT;
    t.q = q;
    t.k = k;
    t.v = v;
    t.o = o;
    t.lse = lse;
    enum glint_status status = glint_forward(&step, &t, a->workspace, a->workspace_bytes, NULL);
    return status == GLINT_OK ? 0 : fail(a, "attention of one decode step", status);
}
