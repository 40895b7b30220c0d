/* glint_append on the CPU: tokens are shared out in equal runs, one a body. It reads and writes each number once, so memory bounds it and the
 * lowest instruction set does. */
#define GLINT_CPU_LANES 4
#define GLINT_CPU_DTYPE f32
#define GLINT_CPU_ELEMENT float
#include "lib/cpu/rows.h"

#include "lib/backend.h"
#include "lib/check.h"
#include "lib/context.h"
#include "lib/cpu/cpu.h"

enum { BYTES_PER_BODY = 1 << 16 }; /* what is worth a body of its own */

struct job {
    const struct glint_problem *problem;
    const struct glint_append *append;
    const struct glint_tensors *tensors;
    int64_t tokens;
    uint32_t bodies;
};

/* One row of one key head, from the new rows' dtype to the cache's. */
static void store_row(void *to, uint32_t to_dtype, const void *from, uint32_t from_dtype, int64_t head_dim)
{
    if (to_dtype == from_dtype) {
        memcpy(to, from, (size_t)(head_dim * glint_dtype_bytes(to_dtype)));
        return;
    }
    const float *src = from;
    uint16_t *dst = to;
    for (int64_t i = 0; i < head_dim && to_dtype == GLINT_F16; i += 4)
        glint_narrow_f16(dst + i, glint_load4(src + i));
    for (int64_t i = 0; i < head_dim && to_dtype == GLINT_BF16; i += 4)
        glint_narrow_bf16(dst + i, glint_load4(src + i));
}

/* The rows of a token, of all key heads. `strides` of the new rows and of the cache. */
static void store_token(void *cache, const struct glint_strides *to, struct glint_cpu_keys at, uint32_t to_dtype, const void *rows,
                        const struct glint_strides *from, int64_t sequence, int64_t i, uint32_t from_dtype,
                        const struct glint_problem *p)
{
    unsigned char *dst = cache;
    const unsigned char *src = rows;
    for (int64_t h = 0; h < p->heads_kv; h++)
        store_row(dst + (at.page * to->batch + h * to->head + at.row * to->row) * glint_dtype_bytes(to_dtype), to_dtype,
                  src + (sequence * from->batch + h * from->head + i * from->row) * glint_dtype_bytes(from_dtype), from_dtype,
                  p->head_dim);
}

/* New rows of a sequence and their first key, from lengths that may be anything. */
struct span {
    int64_t rows, first;
    bool bounded; /* both lengths are within their bounds */
};

static struct span span_of(const struct glint_problem *p, const struct glint_tensors *t, int64_t sequence)
{
    const int64_t queries = t->seqlens_q ? t->seqlens_q[sequence] : p->seqlen_q;
    const int64_t keys = t->seqlens_k ? t->seqlens_k[sequence] : p->seqlen_k;
    const int64_t rows = queries < 0 ? 0 : queries < p->seqlen_q ? queries : p->seqlen_q;
    return (struct span){rows, keys - queries, rows == queries && keys >= 0 && keys <= p->seqlen_k};
}

/* Is there a place for this key? No other one is ever written. */
static bool has_place(const struct glint_problem *p, const struct glint_tensors *t, int64_t sequence, int64_t key)
{
    if (key < 0 || key >= p->seqlen_k)
        return false;
    if (p->page_rows == 0)
        return true;
    const int64_t page = t->page_table[sequence * p->pages_per_sequence + key / p->page_rows];
    return page >= 0 && page < p->pages;
}

static bool is_faulty(const struct glint_problem *p, const struct glint_tensors *t, int64_t sequence)
{
    const struct span s = span_of(p, t, sequence);
    for (int64_t i = 0; s.bounded && i < s.rows; i++)
        if (!has_place(p, t, sequence, s.first + i))
            return true;
    return !s.bounded;
}

static void body(void *argument, uint32_t index)
{
    const struct job *job = argument;
    const struct glint_problem *p = job->problem;
    const struct glint_append *a = job->append;
    const int64_t each = job->tokens / job->bodies, more = job->tokens % job->bodies;
    int64_t at = each * index + (index < more ? index : more);
    const int64_t end = at + each + (index < more);
    while (at < end) {
        const int64_t sequence = at / p->seqlen_q, first = at % p->seqlen_q;
        const int64_t last = first + end - at < p->seqlen_q ? first + end - at : p->seqlen_q;
        const struct span s = span_of(p, job->tensors, sequence);
        for (int64_t i = first; i < last && i < s.rows; i++) {
            if (!has_place(p, job->tensors, sequence, s.first + i))
                continue;
            const struct glint_cpu_keys place = glint_cpu_keys_at(p, job->tensors->page_table, sequence, s.first + i);
            store_token((void *)(uintptr_t)job->tensors->k, &p->k, place, p->dtype, a->k, &a->k_strides, sequence, i, a->dtype, p);
            store_token((void *)(uintptr_t)job->tensors->v, &p->v, place, p->dtype, a->v, &a->v_strides, sequence, i, a->dtype, p);
        }
        at += last - first;
    }
}

enum glint_status glint_cpu_append(const struct glint_context *context, const struct glint_plan *plan,
                                   const struct glint_append *append, const struct glint_tensors *tensors, void *stream)
{
    (void)stream;
    const struct glint_executor *executor = &context->executor;
    const struct glint_problem *p = &plan->problem;
    for (int64_t b = 0; tensors->fault && b < p->batch && b < (int64_t)*tensors->fault; b++)
        if (is_faulty(p, tensors, b))
            *tensors->fault = (uint32_t)b;
    struct job job = {p, append, tensors, p->batch * p->seqlen_q, 1};
    if (job.tokens == 0)
        return GLINT_OK;
    const int64_t token_bytes = 2 * p->heads_kv * p->head_dim * glint_dtype_bytes(append->dtype);
    const int64_t worth = 1 + job.tokens / (1 + BYTES_PER_BODY / token_bytes);
    job.bodies = worth < (int64_t)executor->concurrency ? (uint32_t)worth : executor->concurrency;
    executor->parallel_for(executor->user, job.bodies, body, &job);
    return GLINT_OK;
}
