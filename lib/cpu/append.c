/* glint_append on the CPU: tokens are shared out in equal runs, one a body. It reads and writes each number once, so
 * memory bounds it and the lowest instruction set does. */
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

/* ---- a row ------------------------------------------------------------------------------------------------------- */

/* Four elements of a row in f32. */
GLINT_INLINE glint_f4 load_new(const void *row, uint32_t dtype, int64_t i)
{
    float wide[8];
    if (dtype == GLINT_F32)
        return glint_load4((const float *)row + i);
    if (dtype == GLINT_F16)
        glint_widen_f16(wide, (const uint16_t *)row + i / 8 * 8);
    else
        glint_widen_bf16(wide, (const uint16_t *)row + i / 8 * 8);
    return glint_load4(wide + i % 8);
}

/* |x| as an integer: in the order of the numbers, infinity and then NaN the largest. */
GLINT_INLINE glint_i4 magnitude_of(glint_f4 x)
{
    return (glint_i4)x & 0x7fffffff;
}

/* The largest |x| of a row, NaN if an element is infinite or NaN. */
static float largest_of(const void *row, uint32_t dtype, int64_t width)
{
    glint_i4 most = {0};
    for (int64_t i = 0; i < width; i += 4) {
        const glint_i4 m = magnitude_of(load_new(row, dtype, i)), more = m > most;
        most = (m & more) | (most & ~more);
    }
    int32_t largest = 0;
    for (int i = 0; i < 4; i++)
        largest = most[i] > largest ? most[i] : largest;
    if (largest >= 0x7f800000)
        largest = 0x7fc00000;
    float x;
    memcpy(&x, &largest, sizeof x);
    return x;
}

/* To the nearest integer, ties to even: the sum with 1.5 * 2^23 has it in its last places, as two's complement. |x|
 * is at most 127 (1 + 2^-23), for the scale is the row's own: 1 / 127 of its largest element, rounded. */
GLINT_INLINE void store_i8(void *to, glint_f4 x)
{
    typedef int8_t bytes __attribute__((vector_size(4)));
    const bytes q = __builtin_convertvector((glint_i4)(x + 0x1.8p23f), bytes);
    memcpy(to, &q, sizeof q);
}

/* To e4m3, to nearest even:
 *
 *   |x| from 2^-6 to 448    half of the last place kept is added, less one when that place is even
 *   |x| below 2^-6          adding 2^14 leaves multiples of 2^-9 in the low bits; the addition itself rounds
 *   |x| above 448           0x7e with x's sign, which is 448
 *   infinity and NaN        0x7f, which is NaN. It has no sign, for that of a NaN would be the processor's */
GLINT_INLINE void store_e4m3(void *to, glint_f4 x)
{
    typedef uint8_t bytes __attribute__((vector_size(4)));
    const glint_i4 magnitude = magnitude_of(x), sign = (glint_i4)x >> 24 & 0x80;
    const glint_i4 normal = (magnitude - 0x3c000000 + 0x7ffff + (magnitude >> 20 & 1)) >> 20;
    const glint_i4 subnormal = (glint_i4)((glint_f4)magnitude + 0x1p14f) - 0x46800000;
    const glint_i4 small = magnitude<0x3c800000, large = magnitude> 0x43e00000, nan = magnitude >= 0x7f800000;
    const glint_i4 value = (small & subnormal) | (~small & ~large & normal) | (large & 0x7e) | sign;
    const bytes q = __builtin_convertvector((nan & 0x7f) | (~nan & value), bytes);
    memcpy(to, &q, sizeof q);
}

/* One row of one key head in 8 bits, as glint.h has it. `own`: *scale is made, else it is read. */
static void store_narrow(unsigned char *to, uint32_t to_dtype, const void *from, uint32_t from_dtype, int64_t width, bool own,
                         float *scale)
{
    if (own) {
        const float s = largest_of(from, from_dtype, width) / (to_dtype == GLINT_I8 ? 127.0f : 448.0f);
        *scale = s < 0x1p-126f ? 0x1p-126f : s;
        if (s != s) {
            memset(to, 0, (size_t)width);
            return;
        }
    }
    const glint_f4 divisor = {*scale, *scale, *scale, *scale};
    for (int64_t i = 0; i < width; i += 4) {
        const glint_f4 x = load_new(from, from_dtype, i) / divisor;
        if (to_dtype == GLINT_I8)
            store_i8(to + i, x);
        else
            store_e4m3(to + i, x);
    }
}

/* One row of one key head, from the new rows' dtype to the cache's, which is not of 8 bits. */
static void store_row(void *to, uint32_t to_dtype, const void *from, uint32_t from_dtype, int64_t width)
{
    if (to_dtype == from_dtype) {
        memcpy(to, from, (size_t)(width * glint_dtype_bytes(to_dtype)));
        return;
    }
    const float *src = from;
    uint16_t *dst = to;
    for (int64_t i = 0; i < width && to_dtype == GLINT_F16; i += 4)
        glint_narrow_f16(dst + i, glint_load4(src + i));
    for (int64_t i = 0; i < width && to_dtype == GLINT_BF16; i += 4)
        glint_narrow_bf16(dst + i, glint_load4(src + i));
}

/* ---- a batch ----------------------------------------------------------------------------------------------------- */

/* K or V: the cache and the new rows. */
struct stream {
    unsigned char *cache;
    const struct glint_strides *to;
    float *scale; /* of 8 bits */
    const unsigned char *rows;
    const struct glint_strides *from;
    int64_t width; /* elements of a row */
};

/* The rows of a token, of all key heads: new row `row` of `batch`, and where its key goes. */
static void store_token(const struct job *job, const struct stream *s, int64_t batch, int64_t row, struct glint_cpu_keys at)
{
    const struct glint_problem *p = job->problem;
    const uint32_t from_dtype = job->append->dtype, to_dtype = p->kv_dtype != 0 ? p->kv_dtype : p->dtype;
    const bool own = p->kv_scales == GLINT_SCALES_ROW;
    for (int64_t h = 0; h < p->heads_kv; h++) {
        unsigned char *to =
            s->cache + (at.page * s->to->batch + h * s->to->head + at.row * s->to->row) * glint_dtype_bytes(to_dtype);
        const unsigned char *from =
            s->rows + (batch * s->from->batch + h * s->from->head + row * s->from->row) * glint_dtype_bytes(from_dtype);
        const int64_t of_head = p->page_rows > 0 ? p->page_rows : p->seqlen_k;
        const int64_t scale = own ? (at.page * p->heads_kv + h) * of_head + at.row : p->kv_scales == GLINT_SCALES_HEAD ? h : 0;
        if (p->kv_dtype != 0)
            store_narrow(to, to_dtype, from, from_dtype, s->width, own, s->scale + scale);
        else
            store_row(to, to_dtype, from, from_dtype, s->width);
    }
}

/* New rows of a sequence, from lengths that may be anything: `rows` of them from row `at` of the batch on, of which
 * the first is key `first`. */
struct span {
    int64_t at, rows, first;
    bool bounded; /* both lengths are within their bounds */
};

/* Of the next sequence on the side of the queries. */
static struct span span_of(const struct job *job, struct glint_cpu_side *queries, int64_t sequence)
{
    const struct glint_problem *p = job->problem;
    const struct glint_cpu_place q = glint_cpu_place_of(queries, sequence);
    const int64_t keys = job->tensors->seqlens_k ? job->tensors->seqlens_k[sequence] : p->seqlen_k;
    return (struct span){q.at, q.length, keys - q.given, q.right && keys >= 0 && keys <= p->seqlen_k};
}

static struct glint_cpu_side queries_of(const struct job *job)
{
    const struct glint_problem *p = job->problem;
    return (struct glint_cpu_side){job->tensors->first_q, job->tensors->seqlens_q, p->seqlen_q, p->rows_q, 0};
}

/* Is there a place for this key? No other one is ever written. */
static bool has_place(const struct job *job, int64_t sequence, int64_t key)
{
    const struct glint_problem *p = job->problem;
    if (key < 0 || key >= p->seqlen_k)
        return false;
    if (p->page_rows == 0)
        return true;
    const int64_t page = job->tensors->page_table[sequence * p->pages_per_sequence + key / p->page_rows];
    return page >= 0 && page < p->pages;
}

/* The first sequence at fault, before the one that the word has. */
static void note_fault(const struct job *job)
{
    struct glint_cpu_side queries = queries_of(job);
    uint32_t *word = job->tensors->fault;
    for (int64_t b = 0; word && b < job->problem->batch && b < (int64_t)*word; b++) {
        const struct span s = span_of(job, &queries, b);
        bool right = s.bounded;
        for (int64_t i = 0; right && i < s.rows; i++)
            right = has_place(job, b, s.first + i);
        if (!right)
            *word = (uint32_t)b;
    }
}

/* A body's share of the tokens. Token t is row t of ragged ones, and else row t % seqlen_q of sequence t / seqlen_q. */
static void body(void *argument, uint32_t index)
{
    const struct job *job = argument;
    const struct glint_problem *p = job->problem;
    const struct glint_append *a = job->append;
    const struct glint_tensors *t = job->tensors;
    const bool ragged = p->lengths == GLINT_LENGTHS_RAGGED;
    const struct stream k = {(void *)(uintptr_t)t->k, &p->k, (float *)(uintptr_t)t->k_scale, a->k, &a->k_strides, p->head_dim};
    const struct stream v = {(void *)(uintptr_t)t->v, &p->v, (float *)(uintptr_t)t->v_scale, a->v, &a->v_strides, p->head_dim_v};
    const int64_t each = job->tokens / job->bodies, more = job->tokens % job->bodies;
    const int64_t begin = each * index + (index < more ? index : more), end = begin + each + (index < more);
    struct glint_cpu_side queries = queries_of(job);
    for (int64_t b = ragged ? 0 : begin / p->seqlen_q; b < p->batch; b++) {
        const struct span s = span_of(job, &queries, b);
        const int64_t token = ragged ? s.at : b * p->seqlen_q; /* of row 0 */
        if (token >= end)
            break;
        const int64_t last = token + s.rows < end ? s.rows : end - token;
        for (int64_t i = token < begin ? begin - token : 0; i < last; i++) {
            if (!has_place(job, b, s.first + i))
                continue;
            const struct glint_cpu_keys place = glint_cpu_keys_at(p, t->page_table, b, s.first + i);
            store_token(job, &k, ragged ? 0 : b, s.at + i, place);
            store_token(job, &v, ragged ? 0 : b, s.at + i, place);
        }
    }
}

enum glint_status glint_cpu_append(const struct glint_context *context, const struct glint_plan *plan,
                                   const struct glint_append *append, const struct glint_tensors *tensors, void *stream)
{
    (void)stream;
    const struct glint_executor *executor = &context->executor;
    const struct glint_problem *p = &plan->problem;
    struct job job = {p, append, tensors, p->lengths == GLINT_LENGTHS_RAGGED ? p->rows_q : p->batch * p->seqlen_q, 1};
    note_fault(&job);
    if (job.tokens == 0)
        return GLINT_OK;
    const int64_t token_bytes = p->heads_kv * (p->head_dim + p->head_dim_v) * glint_dtype_bytes(append->dtype);
    const int64_t worth = 1 + job.tokens / (1 + BYTES_PER_BODY / token_bytes);
    job.bodies = worth < (int64_t)executor->concurrency ? (uint32_t)worth : executor->concurrency;
    executor->parallel_for(executor->user, job.bodies, body, &job);
    return GLINT_OK;
}
