/* Problems in the two common tensor layouts. */
#include <string.h>

#include "lib/glint.h"

/* 1 / sqrt(x) for x >= 1 without libm: Newton's iteration y += y (1 - x y^2) / 2 from below converges for 0 < x y^2
 * < 3. */
static float reciprocal_sqrt(int64_t x)
{
    if (x < 1)
        return 0.0f;
    double y = 1.0;
    while (y * y * (double)x > 1.0)
        y *= 0.5;
    for (int i = 0; i < 8; i++)
        y += 0.5 * y * (1.0 - (double)x * y * y);
    return (float)y;
}

static void fill(struct glint_problem *p, enum glint_dtype dtype, const int64_t extent[6], struct glint_strides q,
                 struct glint_strides kv)
{
    memset(p, 0, sizeof *p);
    p->struct_size = sizeof *p;
    p->dtype = (uint32_t)dtype;
    p->mask = GLINT_MASK_NONE;
    p->softmax_scale = reciprocal_sqrt(extent[5]);
    p->batch = extent[0];
    p->seqlen_q = extent[1];
    p->seqlen_k = extent[2];
    p->heads_q = extent[3];
    p->heads_kv = extent[4];
    p->head_dim = p->head_dim_v = extent[5];
    p->q = p->o = p->dout = p->dq = q;
    p->k = p->v = p->dk = p->dv = kv;
}

/* Products of unchecked lengths: unsigned, so that absurd ones wrap instead of being undefined; glint_plan refuses
 * their lengths. */
static int64_t product(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

void glint_problem_bshd(struct glint_problem *problem, enum glint_dtype dtype, int64_t batch, int64_t seqlen_q, int64_t seqlen_k,
                        int64_t heads_q, int64_t heads_kv, int64_t head_dim)
{
    if (!problem)
        return;
    const int64_t extent[6] = {batch, seqlen_q, seqlen_k, heads_q, heads_kv, head_dim};
    const int64_t row_q = product(heads_q, head_dim), row_kv = product(heads_kv, head_dim);
    fill(problem, dtype, extent, (struct glint_strides){product(seqlen_q, row_q), head_dim, row_q},
         (struct glint_strides){product(seqlen_k, row_kv), head_dim, row_kv});
}

void glint_problem_bhsd(struct glint_problem *problem, enum glint_dtype dtype, int64_t batch, int64_t seqlen_q, int64_t seqlen_k,
                        int64_t heads_q, int64_t heads_kv, int64_t head_dim)
{
    if (!problem)
        return;
    const int64_t extent[6] = {batch, seqlen_q, seqlen_k, heads_q, heads_kv, head_dim};
    const int64_t head_q = product(seqlen_q, head_dim), head_kv = product(seqlen_k, head_dim);
    fill(problem, dtype, extent, (struct glint_strides){product(heads_q, head_q), head_q, head_dim},
         (struct glint_strides){product(heads_kv, head_kv), head_kv, head_dim});
}
