/* Everything that this program asks of Glint, and nothing else: open, plan, forward, backward, one decode step. On a
 * GPU too the tensors of these functions are in host memory, where the rest of the model is: they are copied there and
 * back. */
#ifndef EXAMPLES_TRAIN_TEXT_ATTENTION_H
#define EXAMPLES_TRAIN_TEXT_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

#include "examples/common/gpu.h"
#include "lib/glint.h"

enum { HEAD_DIM = 64 };

struct attention {
    struct glint_pool *pool;
    struct glint_executor executor; /* the pool's: the model's other work runs on it too */
    struct glint_context *context;
    struct glint_plan forward, backward; /* of a training batch */
    struct glint_plan widest_decode;     /* of the longest decode step: its workspace fits every shorter one */
    size_t workspace_bytes;              /* the most that any of the three needs */
    size_t host_bytes;                   /* as many, or 0 on a GPU: what the caller sets `workspace` to hold, */
    void *workspace;                     /* aligned to GLINT_WORKSPACE_ALIGNMENT */
    int on_gpu;
    struct gpu gpu;
    struct {
        float *qkv, *o, *lse, *dout, *dqkv; /* of a training batch; a decode step has room in them */
        void *workspace;
        size_t bytes; /* of all of it */
    } device;
    char reason[512]; /* after a failure, what was wrong */
};

/* Starts the threads and opens a context on "cpu" or "cuda". 0, or -1 with a->reason filled in, as for every function
 * below. */
int attention_open(struct attention *a, const char *device, uint32_t threads);
void attention_close(struct attention *a);

/* Plans the training batch, causal, and finds the workspace; takes the memory on the GPU. No other call takes any. */
int attention_plan(struct attention *a, size_t batch, size_t seqlen, size_t heads);

/* qkv [batch][seqlen][3][heads][HEAD_DIM]  ->  o [batch][seqlen][heads][HEAD_DIM], lse [batch][heads][seqlen] */
int attention_forward(struct attention *a, const float *qkv, float *o, float *lse);

/* The gradient of all of it: dout as o, dqkv as qkv. */
int attention_backward(struct attention *a, const float *qkv, const float *o, const float *lse, const float *dout, float *dqkv);

/* One query q [heads][HEAD_DIM] against `keys` rows of a cache, k and v [keys][heads][HEAD_DIM] -> o as q, lse
 * [heads]. */
int attention_decode(struct attention *a, size_t heads, size_t keys, const float *q, const float *k, const float *v, float *o,
                     float *lse);

#endif
