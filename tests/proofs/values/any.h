/* Values that Eva starts from: any number of a type, and a problem of any numbers that glint_check_problem accepts
 * (contracts/rules.acsl, enums.acsl). Fields are written one by one, as Eva keeps them apart then. */
#ifndef VALUES_ANY_H
#define VALUES_ANY_H

#include "__fc_builtin.h"
#include "lib/backend.h"
#include "lib/check.h"
#include "lib/context.h"
#include "lib/cuda/cuda.h"

static int64_t from(int64_t low, int64_t high)
{
    return Frama_C_long_interval(low, high);
}

static uint32_t word(uint32_t low, uint32_t high)
{
    return Frama_C_unsigned_int_interval(low, high);
}

static uint32_t any_word(void)
{
    return word(0, UINT32_MAX);
}

static float any_float(void)
{
    float x;
    Frama_C_make_unknown((char *)&x, sizeof x);
    return x;
}

static struct glint_strides natural_strides(void)
{
    return (struct glint_strides){from(0, INT64_MAX), from(0, INT64_MAX), from(0, INT64_MAX)};
}

static void accepted_problem(struct glint_problem *p)
{
    p->struct_size = sizeof *p;
    p->dtype = word(GLINT_F32, GLINT_BF16);
    p->mask = word(GLINT_MASK_NONE, GLINT_MASK_BAND_BOTTOM_RIGHT);
    p->softmax_scale = any_float(), p->softcap = any_float();
    p->batch = from(1, GLINT_MAX_EXTENT), p->heads_q = from(1, GLINT_MAX_EXTENT), p->heads_kv = from(1, GLINT_MAX_EXTENT);
    p->head_dim = p->head_dim_v = from(8, GLINT_MAX_EXTENT);
    p->seqlen_q = from(0, GLINT_MAX_EXTENT), p->seqlen_k = from(0, GLINT_MAX_EXTENT);
    p->q = natural_strides(), p->k = natural_strides(), p->v = natural_strides(), p->o = natural_strides();
    p->dout = natural_strides(), p->dq = natural_strides(), p->dk = natural_strides(), p->dv = natural_strides();
    p->bias = (struct glint_bias_strides){from(0, INT64_MAX), from(0, INT64_MAX), from(0, INT64_MAX), from(0, INT64_MAX)};
    p->window_left = from(-1, GLINT_MAX_EXTENT), p->window_right = from(-1, GLINT_MAX_EXTENT);
    p->rows_q = from(0, GLINT_MAX_EXTENT), p->rows_k = from(0, GLINT_MAX_EXTENT);
    p->lengths = word(0, GLINT_LENGTHS_RAGGED), p->order = word(0, GLINT_ORDER_CANONICAL);
    p->page_rows = 0, p->pages = 0, p->pages_per_sequence = 0;
    if (Frama_C_interval(0, 1)) {
        p->page_rows = 1l << from(4, 8);
        p->pages = from(1, GLINT_MAX_EXTENT), p->pages_per_sequence = from(1, GLINT_MAX_EXTENT);
    }
    p->kv_dtype = Frama_C_interval(0, 1) ? word(GLINT_I8, GLINT_E4M3) : 0, p->kv_scales = word(0, GLINT_SCALES_ROW);
    p->diagonal = from(INT64_MIN, INT64_MAX);
    p->sinks = word(0, 1), p->intervals = word(0, 1), p->alibi = word(0, 1), p->max_logit = word(0, 1), p->tree = word(0, 1);
    p->bias_dtype = word(0, GLINT_BF16), p->dbias = word(0, 1);
    p->reserved[0] = 0;
}

/* An open context on a CPU of any instruction sets, or on a GPU that runs any of the rows. */
enum { MOST_ROWS = 64 };
static uint32_t cpu_state[4];
static union {
    struct glint_cuda cuda;
    unsigned char bytes[sizeof(struct glint_cuda) + MOST_ROWS * sizeof(struct glint_cuda_row)];
} cuda_state;

static void any_context(struct glint_context *context)
{
    context->magic = GLINT_CONTEXT_OPEN;
    context->fingerprint = (uint64_t)from(INT64_MIN, INT64_MAX);
#ifdef CUDA
    context->backend = &glint_cuda_backend;
    context->executor.concurrency = any_word();
    for (int i = 0; i < MOST_ROWS; i++)
        cuda_state.cuda.rows[i].module = Frama_C_interval(0, 1) ? (glint_cu_module)&cuda_state : 0;
    cuda_state.cuda.sm = any_word();
    context->state = &cuda_state;
#else
    context->backend = &glint_cpu_backend;
    context->executor.concurrency = word(1, GLINT_MAX_CONCURRENCY);
    for (int i = 0; i < 4; i++)
        cpu_state[i] = any_word();
    context->state = cpu_state;
#endif
}

#endif
