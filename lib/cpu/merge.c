/* glint_merge on the CPU: rows are shared out in equal runs, one a body. It reads each number once, so memory bounds
 * it and the lowest instruction set does. */
#define GLINT_CPU_LANES 4
#define GLINT_CPU_DTYPE f32
#define GLINT_CPU_ELEMENT float
#define GLINT_CPU_UNFUSED /* the bits are the same on every CPU, and on a GPU */
#include "lib/cpu/rows.h"

#include "lib/backend.h"
#include "lib/check.h"
#include "lib/context.h"
#include "lib/cpu/cpu.h"

enum { PIECE = 64, BYTES_PER_BODY = 1 << 16 }; /* floats that are worked on together; what is worth a body of its own */

struct job {
    const struct glint_merge *merge;
    int64_t rows;
    uint32_t bodies;
};

/* Element of a row in a tensor. */
static int64_t place_of(const struct glint_strides *s, const int64_t row[3])
{
    return row[0] * s->batch + row[1] * s->head + row[2] * s->row;
}

static const void *element_of(const void *base, uint32_t dtype, int64_t element)
{
    return (const char *)base + element * glint_dtype_bytes(dtype);
}

static void widen(float *dst, const void *src, uint32_t dtype, int64_t count)
{
    for (int64_t i = 0; i < count; i += 8)
        if (dtype == GLINT_F32)
            glint_widen_f32(dst + i, (const float *)src + i);
        else if (dtype == GLINT_F16)
            glint_widen_f16(dst + i, (const uint16_t *)src + i);
        else
            glint_widen_bf16(dst + i, (const uint16_t *)src + i);
}

static void narrow(void *dst, uint32_t dtype, const float *src, int64_t count)
{
    for (int64_t i = 0; i < count; i += 4)
        if (dtype == GLINT_F32)
            glint_narrow_f32((float *)dst + i, glint_load4(src + i));
        else if (dtype == GLINT_F16)
            glint_narrow_f16((uint16_t *)dst + i, glint_load4(src + i));
        else
            glint_narrow_bf16((uint16_t *)dst + i, glint_load4(src + i));
}

/* weight[i] = exp(LSE_i - LSE) for `count` parts and the sink; the answer is LSE. With m the largest of all and s =
 * sum exp(LSE_i - m), which is at least 1, LSE = m + log s; where s is 1, one part has all the weight, and LSE is
 * its LSE to the bit. */
static float weigh(float *weight, const float *lse, int64_t count, float sink)
{
    float m = sink, s = 0.0f;
    for (int64_t i = 0; i < count; i++)
        m = !(lse[i] <= m) && m == m ? lse[i] : m; /* a NaN stays */
    if (m == -INFINITY)
        return m;
    for (int64_t i = 0; i < count; i += GLINT_CPU_LANES)
        glint_store(weight + i, glint_exp(glint_load(lse + i) - m));
    for (int64_t i = 0; i < count; i++)
        s += weight[i];
    s += glint_exp(glint_splat(sink - m))[0];
    for (int64_t i = 0; i < count; i++)
        weight[i] /= s;
    return s == 1.0f ? m : m + glint_log(glint_splat(s))[0];
}

/* One row: batch, head, query. The parts that see no key are left out. */
static void merge_row(const struct glint_merge *m, const int64_t row[3])
{
    float lse[GLINT_MAX_PARTS + GLINT_CPU_LANES], weight[GLINT_MAX_PARTS + GLINT_CPU_LANES], sum[PIECE], piece[PIECE];
    const struct glint_part *part[GLINT_MAX_PARTS];
    int64_t count = 0;
    for (uint32_t i = 0; i < m->parts; i++) {
        lse[count] = m->part[i].lse[place_of(&m->part[i].lse_strides, row)];
        part[count] = &m->part[i];
        count += lse[count] != -INFINITY;
    }
    for (int64_t i = count; i < (count + GLINT_CPU_LANES - 1) / GLINT_CPU_LANES * GLINT_CPU_LANES; i++)
        lse[i] = -INFINITY;
    const float all = weigh(weight, lse, count, m->sinks ? m->sinks[row[1]] : -INFINITY);
    const int64_t to = place_of(&m->o_strides, row);
    for (int64_t d = 0; d < m->head_dim; d += PIECE) {
        const int64_t floats = m->head_dim - d < PIECE ? m->head_dim - d : PIECE;
        memset(sum, 0, sizeof sum);
        for (int64_t i = 0; i < count; i++) {
            const uint32_t dtype = part[i]->dtype;
            widen(piece, element_of(part[i]->o, dtype, place_of(&part[i]->o_strides, row) + d), dtype, floats);
            for (int64_t x = 0; x < floats; x += GLINT_CPU_LANES) {
                const glint_vec product = glint_load(piece + x) * weight[i];
                glint_store(sum + x, i == 0 ? product : glint_load(sum + x) + product); /* 0 + -0 would be 0 */
            }
        }
        narrow((void *)(uintptr_t)element_of(m->o, m->dtype, to + d), m->dtype, sum, floats);
    }
    m->lse[place_of(&m->lse_strides, row)] = all;
}

static void body(void *argument, uint32_t index)
{
    const struct job *job = argument;
    const struct glint_merge *m = job->merge;
    const int64_t each = job->rows / job->bodies, more = job->rows % job->bodies;
    int64_t at = each * index + (index < more ? index : more);
    const int64_t end = at + each + (index < more);
    int64_t row[3] = {at / m->seqlen / m->heads, at / m->seqlen % m->heads, at % m->seqlen};
    for (; at < end; at++) {
        merge_row(m, row);
        if (++row[2] < m->seqlen)
            continue;
        row[2] = 0;
        if (++row[1] < m->heads)
            continue;
        row[1] = 0;
        row[0]++;
    }
}

enum glint_status glint_cpu_merge(const struct glint_context *context, const struct glint_merge *merge, void *stream)
{
    (void)stream;
    const struct glint_executor *executor = &context->executor;
    struct job job = {merge, merge->batch * merge->heads * merge->seqlen, 1};
    if (job.rows == 0)
        return GLINT_OK;
    const int64_t row_bytes = (int64_t)(merge->parts + 1) * merge->head_dim * 4;
    const int64_t worth = 1 + job.rows / (1 + BYTES_PER_BODY / row_bytes);
    job.bodies = worth < (int64_t)executor->concurrency ? (uint32_t)worth : executor->concurrency;
    executor->parallel_for(executor->user, job.bodies, body, &job);
    return GLINT_OK;
}
