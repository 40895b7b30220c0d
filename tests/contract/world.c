#define _POSIX_C_SOURCE 200809L /* posix_memalign, clock_gettime */
#include "tests/contract/world.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/contract/suite.h"

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

int64_t element_bytes(uint32_t dtype)
{
    return dtype == GLINT_F32 ? 4 : dtype == GLINT_I8 || dtype == GLINT_E4M3 ? 1 : 2;
}

uint32_t tensor_dtype(const struct glint_problem *p, enum tensor t)
{
    return t == LSE ? (uint32_t)GLINT_F32 : (t == K || t == V) && p->kv_dtype != 0 ? p->kv_dtype : p->dtype;
}

size_t scale_bytes(const struct glint_problem *p)
{
    switch (p->kv_scales) {
    case GLINT_SCALES_TENSOR: return 4;
    case GLINT_SCALES_HEAD: return 4 * (size_t)p->heads_kv;
    case GLINT_SCALES_ROW: break;
    default: return 0;
    }
    if (p->page_rows > 0)
        return 4 * (size_t)(p->pages * p->heads_kv * p->page_rows);
    return 4 * (size_t)(p->heads_kv * (p->lengths == GLINT_LENGTHS_RAGGED ? p->rows_k : p->batch * p->seqlen_k));
}

struct tensor_layout tensor_layout(const struct glint_problem *p, enum tensor t)
{
    const bool of_keys = t == K || t == V || t == DK || t == DV, ragged = p->lengths == GLINT_LENGTHS_RAGGED;
    const bool paged = (t == K || t == V) && p->page_rows != 0;
    const int64_t keys = paged ? p->page_rows : ragged ? p->rows_k : p->seqlen_k;
    struct tensor_layout s = {paged    ? p->pages
                              : ragged ? 1
                                       : p->batch,
                              of_keys ? p->heads_kv : p->heads_q,
                              of_keys  ? keys
                              : ragged ? p->rows_q
                                       : p->seqlen_q,
                              p->head_dim,
                              {0, 0, 0},
                              element_bytes(tensor_dtype(p, t))};
    switch (t) {
    case Q: s.strides = p->q; break;
    case K: s.strides = p->k; break;
    case V: s.strides = p->v; break;
    case O: s.strides = p->o; break;
    case DOUT: s.strides = p->dout; break;
    case DQ: s.strides = p->dq; break;
    case DK: s.strides = p->dk; break;
    case DV: s.strides = p->dv; break;
    default: /* LSE: contiguous float32; the strides mean something only where heads * rows fits */
        s.columns = 1;
        s.strides = (struct glint_strides){s.heads * s.rows, s.rows, 1};
        break;
    }
    return s;
}

size_t tensor_bytes(const struct glint_problem *p, enum tensor t)
{
    const struct tensor_layout s = tensor_layout(p, t);
    if (s.batch == 0 || s.heads == 0 || s.rows == 0)
        return 0;
    const int64_t last = (s.batch - 1) * s.strides.batch + (s.heads - 1) * s.strides.head + (s.rows - 1) * s.strides.row;
    return (size_t)((last + s.columns) * s.element_bytes);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

void fill_random(struct rand *r, uint32_t dtype, void *memory, size_t bytes)
{
    unsigned char *at = memory;
    const size_t step = (size_t)element_bytes(dtype);
    for (size_t i = 0; i + step <= bytes; i += step) {
        const uint64_t z = rand_bits(r);
        const uint32_t sign = (uint32_t)(z & 1u), below = (uint32_t)(z >> 8) % 7u; /* exponent 0 ... -6 */
        const uint32_t mantissa = (uint32_t)(z >> 32);
        if (step == 1) {
            at[i] = dtype == GLINT_I8 ? (unsigned char)mantissa : (unsigned char)(sign << 7 | (7u - below) << 3 | (mantissa & 7u));
        } else if (dtype == GLINT_F32) {
            const uint32_t bits = sign << 31 | (127u - below) << 23 | (mantissa & 0x7fffffu);
            memcpy(at + i, &bits, 4);
        } else {
            const uint32_t wide = dtype == GLINT_F16 ? sign << 15 | (15u - below) << 10 | (mantissa & 0x3ffu)
                                                     : sign << 15 | (127u - below) << 7 | (mantissa & 0x7fu);
            const uint16_t bits = (uint16_t)wide;
            memcpy(at + i, &bits, 2);
        }
    }
}

void *aligned_memory(size_t alignment, size_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, alignment, bytes > 0 ? bytes : 1) != 0)
        abort();
    return memory;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare_doubles);
    return values[count / 2];
}

double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

struct glint_variant_info row_at(uint32_t index)
{
    struct glint_variant_info info;
    memset(&info, 0, sizeof info);
    info.struct_size = sizeof info;
    const enum glint_status status = glint_variant_at(index, &info);
    EXPECT(status == GLINT_OK, "glint_variant_at(%u) gives %d", index, (int)status);
    return info;
}

const char *pass_name(uint32_t pass)
{
    return pass == GLINT_FORWARD ? "forward" : "backward";
}

enum glint_mask row_mask(const struct glint_variant_info *info, bool bottom_right)
{
    if (!(info->features & GLINT_FEATURE_RIGHT_BOUND))
        return GLINT_MASK_NONE;
    if (info->features & GLINT_FEATURE_LEFT_BOUND)
        return bottom_right ? GLINT_MASK_BAND_BOTTOM_RIGHT : GLINT_MASK_BAND_TOP_LEFT;
    return bottom_right ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_CAUSAL_TOP_LEFT;
}

void serve_cache(struct glint_problem *p, const struct glint_variant_info *info)
{
    p->kv_dtype = info->kv_dtype;
    p->kv_scales = info->kv_dtype != 0 ? GLINT_SCALES_ROW : GLINT_SCALES_NONE;
}

bool row_serves(const struct glint_context *context, uint32_t index)
{
    const struct glint_variant_info info = row_at(index);
    const bool needs_intervals = (info.features & GLINT_FEATURE_INTERVALS) != 0 && info.queries_up_to == 0;
    const bool needs_bias = (info.features & (GLINT_FEATURE_ALIBI | GLINT_FEATURE_BIAS)) != 0;
    return !needs_intervals && !needs_bias && glint_variant_available(context, index) == GLINT_OK;
}

static bool find_row(const struct glint_context *context, enum glint_pass pass, struct glint_variant_info *info)
{
    for (uint32_t i = 0; i < glint_variant_count(); i++) {
        *info = row_at(i);
        if (info->pass == (uint32_t)pass && row_serves(context, i))
            return true;
    }
    return false;
}

bool runs_pass(const struct glint_context *context, enum glint_pass pass)
{
    struct glint_variant_info info;
    return find_row(context, pass, &info);
}

struct glint_variant_info first_row(const struct glint_context *context, enum glint_pass pass)
{
    struct glint_variant_info info;
    EXPECT(find_row(context, pass, &info), "this context runs no %s variant", pass_name((uint32_t)pass));
    return info;
}

/* ---- contexts ---------------------------------------------------------------------------------------------------- */

void counting_for(void *user, uint32_t count, void (*body)(void *argument, uint32_t index), void *argument)
{
    struct counting *const counting = user;
    EXPECT(count <= counting->concurrency, "parallel_for of %u bodies, with a concurrency of %u", count, counting->concurrency);
    counting->calls++;
    for (uint32_t i = count; i > 0; i--) {
        counting->bodies++;
        body(argument, i - 1);
    }
}

struct glint_executor counting_executor(struct counting *counting, uint32_t concurrency)
{
    *counting = (struct counting){0, 0, concurrency};
    return (struct glint_executor){sizeof(struct glint_executor), concurrency, counting_for, counting};
}

static struct glint_context *open_with(const struct glint_options *options, void **storage)
{
    struct glint_context *context = NULL;
    const size_t bytes = glint_context_size();
    *storage = aligned_memory(GLINT_CONTEXT_ALIGNMENT, bytes);
    const enum glint_status status = glint_context_init(*storage, bytes, options, &context);
    EXPECT(status == GLINT_OK && (void *)context == *storage, "glint_context_init gives %d: %s", (int)status,
           glint_status_sentence(status));
    return context;
}

struct glint_context *open_context(struct counting *counting, uint32_t concurrency, void **storage)
{
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = GLINT_DEVICE_CPU;
    options.executor = counting_executor(counting, concurrency);
    return open_with(&options, storage);
}

struct glint_context *open_serial(void **storage)
{
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = GLINT_DEVICE_CPU;
    return open_with(&options, storage);
}

/* ---- a problem with memory for it -------------------------------------------------------------------------------- */

#define GAP 64u

static size_t round_up(size_t value, size_t to)
{
    return (value + to - 1) / to * to;
}

void call_make(struct call *c, const struct glint_context *context, const struct glint_problem *problem, enum glint_pass pass,
               uint64_t seed)
{
    struct rand r = {seed};
    memset(c, 0, sizeof *c);
    c->problem = *problem;
    c->pass = pass;
    const enum glint_status status = glint_plan(context, problem, pass, &c->plan);
    EXPECT(status == GLINT_OK, "glint_plan gives %d: %s", (int)status, glint_status_sentence(status));
    c->workspace_bytes = c->plan.workspace_bytes;

    size_t at = GAP;
    for (enum tensor t = Q; t < TENSORS; t++) {
        at = round_up(at, 64);
        c->offset[t] = at;
        c->bytes[t] = pass_uses(pass, t) ? tensor_bytes(problem, t) : 0;
        at += c->bytes[t] + GAP;
    }
    c->sinks_bytes = problem->sinks != 0 ? (size_t)problem->heads_q * sizeof(float) : 0;
    for (int i = 0; i < 2; i++) {
        c->sinks_offset[i] = at = round_up(at, 64);
        at += c->sinks_bytes + GAP;
    }
    c->scale_bytes = scale_bytes(problem);
    for (int i = 0; i < 2; i++) {
        c->scale_offset[i] = at = round_up(at, 64);
        at += c->scale_bytes + GAP;
    }
    c->workspace_offset = round_up(at, GLINT_WORKSPACE_ALIGNMENT);
    c->block_bytes = round_up(c->workspace_offset + c->workspace_bytes + GAP, GLINT_WORKSPACE_ALIGNMENT);
    c->block = aligned_memory(GLINT_WORKSPACE_ALIGNMENT, c->block_bytes);
    memset(c->block, CANARY, c->block_bytes);
    c->workspace = c->block + c->workspace_offset;
    c->tensors = (struct glint_tensors)GLINT_TENSORS_INIT;
    for (enum tensor t = Q; t < TENSORS; t++) {
        if (!pass_uses(pass, t))
            continue;
        tensor_set(&c->tensors, t, c->block + c->offset[t]);
        fill_random(&r, tensor_dtype(problem, t), c->block + c->offset[t], c->bytes[t]);
    }
    for (int i = 0; i < 2 && c->scale_bytes > 0; i++) { /* small: int8 goes to 127 */
        float *const scale = (float *)(void *)(c->block + c->scale_offset[i]);
        fill_random(&r, GLINT_F32, scale, c->scale_bytes);
        for (size_t j = 0; j < c->scale_bytes / 4; j++)
            scale[j] *= 0x1p-7f;
        *(i == 0 ? &c->tensors.k_scale : &c->tensors.v_scale) = scale;
    }
    if (c->sinks_bytes > 0) {
        void *const sinks = c->block + c->sinks_offset[0], *const dsinks = c->block + c->sinks_offset[1];
        c->tensors.sinks = sinks;
        fill_random(&r, GLINT_F32, sinks, c->sinks_bytes);
        fill_random(&r, GLINT_F32, dsinks, c->sinks_bytes);
        c->tensors.dsinks = pass == GLINT_BACKWARD ? dsinks : NULL;
    }
}

void call_free(struct call *c)
{
    free(c->block);
    memset(c, 0, sizeof *c);
}

enum glint_status call_run(const struct call *c)
{
    return c->pass == GLINT_FORWARD ? glint_forward(&c->plan, &c->tensors, c->workspace, c->workspace_bytes, NULL)
                                    : glint_backward(&c->plan, &c->tensors, c->workspace, c->workspace_bytes, NULL);
}

void call_fill_forward(struct call *c, const struct glint_context *context)
{
    struct glint_plan plan;
    enum glint_status status = glint_plan(context, &c->problem, GLINT_FORWARD, &plan);
    if (status == GLINT_NOT_IN_SPEC)
        return; /* a spec may list backward alone; random O and LSE are inputs as good as any */
    EXPECT(status == GLINT_OK, "the forward plan gives %d", (int)status);
    void *const workspace = aligned_memory(GLINT_WORKSPACE_ALIGNMENT, plan.workspace_bytes);
    status = glint_forward(&plan, &c->tensors, workspace, plan.workspace_bytes, NULL);
    EXPECT(status == GLINT_OK, "the forward gives %d", (int)status);
    free(workspace);
}

bool call_canaries_hold(const struct call *c)
{
    size_t at = 0;
    for (enum tensor t = Q; t < TENSORS; t++) {
        if (!all_canaries(c->block + at, c->offset[t] - at))
            return false;
        at = c->offset[t] + c->bytes[t];
    }
    for (int i = 0; i < 2; i++) {
        if (!all_canaries(c->block + at, c->sinks_offset[i] - at))
            return false;
        at = c->sinks_offset[i] + c->sinks_bytes;
    }
    for (int i = 0; i < 2; i++) {
        if (!all_canaries(c->block + at, c->scale_offset[i] - at))
            return false;
        at = c->scale_offset[i] + c->scale_bytes;
    }
    if (!all_canaries(c->block + at, c->workspace_offset - at))
        return false;
    at = c->workspace_offset + c->workspace_bytes;
    return all_canaries(c->block + at, c->block_bytes - at);
}
