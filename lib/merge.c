/* glint_merge: every rule about its arguments. The backend computes. */
#include "lib/backend.h"
#include "lib/check.h"
#include "lib/context.h"

static bool is_dtype(uint32_t dtype)
{
    return dtype >= GLINT_F32 && dtype <= GLINT_BF16;
}

/* The numbers of the struct itself. */
static enum glint_status check_shape(const struct glint_merge *m, struct glint_fault *fault)
{
    const struct {
        const char *name;
        int64_t value, low;
        enum glint_reason reason;
    } extent[] = {{"batch", m->batch, 1, GLINT_REASON_BATCH},
                  {"heads", m->heads, 1, GLINT_REASON_HEADS},
                  {"seqlen", m->seqlen, 0, GLINT_REASON_SEQLEN}};

    if (m->struct_size != sizeof *m)
        return glint_refuse(fault, GLINT_REASON_STRUCT_SIZE, "struct_size", NULL, m->struct_size, (int64_t)sizeof *m);
    if (!is_dtype(m->dtype))
        return glint_refuse(fault, GLINT_REASON_DTYPE, "dtype", NULL, m->dtype, 0);
    if (m->parts < 1 || m->parts > GLINT_MAX_PARTS)
        return glint_refuse(fault, GLINT_REASON_PARTS, "parts", NULL, m->parts, GLINT_MAX_PARTS);
    if (m->reserved != 0)
        return glint_refuse(fault, GLINT_REASON_RESERVED, "reserved", NULL, m->reserved, 0);
    for (int i = 0; i < 3; i++)
        if (extent[i].value < extent[i].low || extent[i].value > GLINT_MAX_EXTENT)
            return glint_refuse(fault, extent[i].reason, extent[i].name, NULL, extent[i].value, GLINT_MAX_EXTENT);
    if (m->head_dim < 8 || m->head_dim % 8 != 0 || m->head_dim > GLINT_MAX_EXTENT)
        return glint_refuse(fault, GLINT_REASON_HEAD_DIM, "head_dim", NULL, m->head_dim, 0);
    return m->part ? GLINT_OK : glint_refuse(fault, GLINT_REASON_NULL_ARGUMENT, "part", NULL, 0, 0);
}

/* One copy of each is enough: a refusal need not be fast. */
#define ONCE __attribute__((noinline)) static

/* An O, or with one column an LSE or the sinks, of the result or of a part. */
ONCE enum glint_status region_of(const struct glint_merge *m, const char *name, const char *strides_name, const void *address,
                                 const struct glint_strides *strides, int64_t row, int64_t element, int64_t unit, int use,
                                 struct glint_region *r, struct glint_fault *fault)
{
    *r = (struct glint_region){
        .name = name, .extent = {m->batch, m->heads, m->seqlen}, .strides = *strides, .row = row, .element = element, .use = use};
    return glint_place_rows(r, strides_name, address, unit, fault);
}

static enum glint_status region_of_o(const struct glint_context *context, const struct glint_merge *m, const void *o,
                                     const struct glint_strides *strides, uint32_t dtype, int use, struct glint_region *r,
                                     struct glint_fault *fault)
{
    const int64_t element = glint_dtype_bytes(dtype), asked = context->backend->row_bytes;
    return region_of(m, "o", "o_strides", o, strides, m->head_dim, element, asked > element ? asked : element, use, r, fault);
}

static enum glint_status region_of_lse(const struct glint_merge *m, const char *name, const float *lse,
                                       const struct glint_strides *strides, int use, struct glint_region *r,
                                       struct glint_fault *fault)
{
    return region_of(m, name, "lse_strides", lse, strides, 1, sizeof(float), sizeof(float), use, r, fault);
}

/* The same elements at the same addresses: each is read before it is written. */
static bool same_place(const struct glint_merge *m, const struct glint_region *a, const struct glint_region *b)
{
    return a->begin == b->begin && a->row == b->row && a->element == b->element &&
           (m->batch == 1 || a->strides.batch == b->strides.batch) && (m->heads == 1 || a->strides.head == b->strides.head) &&
           (m->seqlen == 1 || a->strides.row == b->strides.row);
}

static enum glint_status overlap(struct glint_fault *fault, const char *field, const char *of_result)
{
    return glint_refuse(fault, GLINT_REASON_RESULT_OVERLAP, field, of_result, 0, 0);
}

static enum glint_status check_part(const struct glint_context *context, const struct glint_merge *m, const struct glint_part *part,
                                    const struct glint_region *o, const struct glint_region *lse, struct glint_fault *fault)
{
    struct glint_region part_o, part_lse;
    if (!is_dtype(part->dtype))
        return glint_refuse(fault, GLINT_REASON_DTYPE, "dtype", NULL, part->dtype, 0);
    if (part->reserved != 0)
        return glint_refuse(fault, GLINT_REASON_RESERVED, "reserved", NULL, part->reserved, 0);
    enum glint_status status = region_of_o(context, m, part->o, &part->o_strides, part->dtype, GLINT_ROLE_READ, &part_o, fault);
    if (status == GLINT_OK)
        status = region_of_lse(m, "lse", part->lse, &part->lse_strides, GLINT_ROLE_READ, &part_lse, fault);
    if (status != GLINT_OK)
        return status;
    if (glint_regions_meet(&part_o, lse) ||
        (glint_regions_meet(&part_o, o) && !(part->dtype == m->dtype && same_place(m, &part_o, o))))
        return overlap(fault, "o", glint_regions_meet(&part_o, lse) ? "lse" : "o");
    if (glint_regions_meet(&part_lse, o) || (glint_regions_meet(&part_lse, lse) && !same_place(m, &part_lse, lse)))
        return overlap(fault, "lse", glint_regions_meet(&part_lse, o) ? "o" : "lse");
    return GLINT_OK;
}

static enum glint_status check_result(const struct glint_context *context, const struct glint_merge *m, struct glint_region *o,
                                      struct glint_region *lse, struct glint_fault *fault)
{
    static const struct glint_strides of_sinks = {0, 1, 0};
    struct glint_region sinks = {0};
    enum glint_status status = region_of_o(context, m, m->o, &m->o_strides, m->dtype, GLINT_ROLE_WRITTEN, o, fault);
    if (status == GLINT_OK)
        status = region_of_lse(m, "lse", m->lse, &m->lse_strides, GLINT_ROLE_WRITTEN, lse, fault);
    if (status == GLINT_OK && m->sinks)
        status = region_of_lse(m, "sinks", m->sinks, &of_sinks, GLINT_ROLE_READ, &sinks, fault);
    if (status != GLINT_OK)
        return status;
    if (glint_regions_meet(o, lse))
        return overlap(fault, "o", "lse");
    if (glint_regions_meet(&sinks, o) || glint_regions_meet(&sinks, lse))
        return overlap(fault, "sinks", glint_regions_meet(&sinks, o) ? "o" : "lse");
    return GLINT_OK;
}

ONCE enum glint_status check(const struct glint_context *context, const struct glint_merge *m, const void *stream,
                             struct glint_fault *fault)
{
    struct glint_region o, lse;
    if (!context || !m)
        return glint_refuse(fault, GLINT_REASON_NULL_ARGUMENT, context ? "merge" : "context", NULL, 0, 0);
    if (context->magic != GLINT_CONTEXT_OPEN)
        return glint_refuse(fault, GLINT_REASON_CONTEXT_CLOSED, "context", NULL, 0, 0);
    enum glint_status status = check_shape(m, fault);
    if (status == GLINT_OK && context->backend->device == GLINT_DEVICE_CPU && stream)
        return glint_refuse(fault, GLINT_REASON_STREAM, "stream", NULL, 0, 0);
    if (status == GLINT_OK)
        status = check_result(context, m, &o, &lse, fault);
    uint32_t index = UINT32_MAX;
    for (uint32_t i = 0; i < m->parts && status == GLINT_OK; i++) {
        status = check_part(context, m, &m->part[i], &o, &lse, fault);
        index = i;
    }
    fault->place = "merge.";
    fault->index = index;
    return status;
}

enum glint_status glint_merge(const struct glint_context *context, const struct glint_merge *merge, void *stream)
{
    struct glint_fault fault;
    const enum glint_status status = check(context, merge, stream, &fault);
    return status == GLINT_OK ? context->backend->merge(context, merge, stream) : status;
}

enum glint_status glint_explain_merge(const struct glint_context *context, const struct glint_merge *merge, const void *stream,
                                      char *buffer, size_t buffer_bytes, size_t *needed_bytes)
{
    struct glint_fault fault;
    const enum glint_status status = check(context, merge, stream, &fault);
    return glint_explain_outcome(status, &fault, context, NULL, GLINT_FORWARD, buffer, buffer_bytes, needed_bytes);
}
