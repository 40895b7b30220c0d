/* glint_merge: every rule about its arguments, and their sentences. The backend computes. */
#include "lib/backend.h"
#include "lib/check.h"
#include "lib/context.h"
#include "lib/text.h"

/* What is wrong: with the struct itself (part UINT32_MAX), or with merge.part[part]. */
struct merge_fault {
    const char *field, *other;
    int64_t value, want;
    uint32_t part;
};

static enum glint_status refuse(struct merge_fault *fault, enum glint_status status, const char *field, const char *other,
                                int64_t value, int64_t want)
{
    fault->field = field;
    fault->other = other;
    fault->value = value;
    fault->want = want;
    return status;
}

static bool is_dtype(uint32_t dtype)
{
    return dtype >= GLINT_F32 && dtype <= GLINT_BF16;
}

/* The numbers of the struct itself. */
static enum glint_status check_shape(const struct glint_merge *m, struct merge_fault *fault)
{
    const struct {
        const char *name;
        int64_t value, low;
        enum glint_status status;
    } extent[] = {{"batch", m->batch, 1, GLINT_BAD_BATCH},
                  {"heads", m->heads, 1, GLINT_BAD_HEADS},
                  {"seqlen", m->seqlen, 0, GLINT_BAD_SEQLEN}};

    if (m->struct_size != sizeof *m)
        return refuse(fault, GLINT_STRUCT_SIZE, "struct_size", NULL, m->struct_size, (int64_t)sizeof *m);
    if (!is_dtype(m->dtype))
        return refuse(fault, GLINT_BAD_DTYPE, "dtype", NULL, m->dtype, GLINT_F32);
    if (m->parts < 1 || m->parts > GLINT_MAX_PARTS)
        return refuse(fault, GLINT_BAD_MERGE, "parts", NULL, m->parts, GLINT_MAX_PARTS);
    if (m->reserved != 0)
        return refuse(fault, GLINT_BAD_RESERVED, "reserved", NULL, m->reserved, 0);
    for (int i = 0; i < 3; i++)
        if (extent[i].value < extent[i].low || extent[i].value > GLINT_MAX_EXTENT)
            return refuse(fault, extent[i].status, extent[i].name, NULL, extent[i].value, extent[i].low);
    if (m->head_dim < 8 || m->head_dim % 8 != 0 || m->head_dim > GLINT_MAX_EXTENT)
        return refuse(fault, GLINT_BAD_HEAD_DIM, "head_dim", NULL, m->head_dim, 8);
    return m->part ? GLINT_OK : refuse(fault, GLINT_NULL_ARGUMENT, "part", NULL, 0, 0);
}

/* A tensor of the call: rows of `row` elements at an address. */
struct tensor {
    const char *name, *strides_name;
    const void *address;
    const struct glint_strides *strides;
    int64_t row, element, unit; /* bytes: of an element; what address and strides are multiples of */
    bool written;
    uintptr_t begin, end; /* bytes, begin == end when it has no element */
};

static struct tensor tensor_of_o(const struct glint_context *context, const void *o, const struct glint_strides *strides,
                                 int64_t head_dim, uint32_t dtype)
{
    const int64_t element = glint_dtype_bytes(dtype), asked = context->backend->row_bytes;
    return (struct tensor){"o", "o_strides", o, strides, head_dim, element, asked > element ? asked : element, false, 0, 0};
}

static struct tensor tensor_of_lse(const float *lse, const struct glint_strides *strides)
{
    return (struct tensor){"lse", "lse_strides", lse, strides, 1, sizeof(float), sizeof(float), false, 0, 0};
}

/* One copy of each is enough: a refusal need not be fast. */
#define ONCE __attribute__((noinline)) static

/* Its strides and its address, and the range that it covers. */
ONCE enum glint_status check_tensor(const struct glint_merge *m, struct tensor *t, struct merge_fault *fault)
{
    static const char *const dimension[3] = {"batch", "head", "row"};
    const int64_t extent[3] = {m->batch, m->heads, m->seqlen};
    const int64_t stride[3] = {t->strides->batch, t->strides->head, t->strides->row};
    const uintptr_t address = (uintptr_t)t->address;
    int64_t span;

    for (int i = 0; i < 3; i++)
        if (stride[i] < 0)
            return refuse(fault, GLINT_BAD_STRIDE, t->strides_name, dimension[i], stride[i], 0);
        else if (extent[i] > 1 && stride[i] % (t->unit / t->element) != 0)
            return refuse(fault, GLINT_STRIDE_MISALIGNED, t->strides_name, dimension[i], stride[i], t->unit / t->element);
    if (!glint_span_of(extent, t->strides, t->row, t->element, &span))
        return refuse(fault, GLINT_SIZE_OVERFLOW, t->name, NULL, 0, INT64_MAX);
    const int at = t->written && span > 0 ? glint_overlapping_dimension(extent, t->strides, t->row) : -1;
    if (at >= 0)
        return refuse(fault, GLINT_BAD_STRIDE, t->strides_name, dimension[at], stride[at], t->row);
    if (span == 0)
        return GLINT_OK;
    if (address == 0)
        return refuse(fault, GLINT_NULL_TENSOR, t->name, NULL, 0, 0);
    if (address % (uintptr_t)t->unit != 0)
        return refuse(fault, GLINT_TENSOR_MISALIGNED, t->name, NULL, (int64_t)(address % (uintptr_t)t->unit), t->unit);
    t->begin = address;
    t->end = address + (uintptr_t)(span * t->element);
    return t->end < t->begin ? refuse(fault, GLINT_SIZE_OVERFLOW, t->name, NULL, 0, INT64_MAX) : GLINT_OK;
}

static bool meet(const struct tensor *a, const struct tensor *b)
{
    return a->begin < b->end && b->begin < a->end;
}

/* The same elements at the same addresses: each is read before it is written. */
static bool same_place(const struct glint_merge *m, const struct tensor *a, const struct tensor *b)
{
    return a->begin == b->begin && a->row == b->row && a->element == b->element &&
           (m->batch == 1 || a->strides->batch == b->strides->batch) && (m->heads == 1 || a->strides->head == b->strides->head) &&
           (m->seqlen == 1 || a->strides->row == b->strides->row);
}

static enum glint_status check_part(const struct glint_context *context, const struct glint_merge *m, const struct tensor *o,
                                    const struct tensor *lse, struct merge_fault *fault)
{
    const struct glint_part *part = &m->part[fault->part];
    if (!is_dtype(part->dtype))
        return refuse(fault, GLINT_BAD_DTYPE, "dtype", NULL, part->dtype, GLINT_F32);
    if (part->reserved != 0)
        return refuse(fault, GLINT_BAD_RESERVED, "reserved", NULL, part->reserved, 0);
    struct tensor part_o = tensor_of_o(context, part->o, &part->o_strides, m->head_dim, part->dtype);
    struct tensor part_lse = tensor_of_lse(part->lse, &part->lse_strides);
    enum glint_status status = check_tensor(m, &part_o, fault);
    if (status == GLINT_OK)
        status = check_tensor(m, &part_lse, fault);
    if (status != GLINT_OK)
        return status;
    if (meet(&part_o, lse) || (meet(&part_o, o) && !(part->dtype == m->dtype && same_place(m, &part_o, o))))
        return refuse(fault, GLINT_TENSOR_OVERLAP, "o", meet(&part_o, lse) ? "lse" : "o", 0, 0);
    if (meet(&part_lse, o) || (meet(&part_lse, lse) && !same_place(m, &part_lse, lse)))
        return refuse(fault, GLINT_TENSOR_OVERLAP, "lse", meet(&part_lse, o) ? "o" : "lse", 0, 0);
    return GLINT_OK;
}

ONCE enum glint_status check(const struct glint_context *context, const struct glint_merge *m, const void *stream,
                             struct merge_fault *fault)
{
    static const struct glint_strides of_sinks = {0, 1, 0};
    fault->part = UINT32_MAX;
    if (!context || !m)
        return refuse(fault, GLINT_NULL_ARGUMENT, context ? "merge" : "context", NULL, 0, 0);
    if (context->magic != GLINT_CONTEXT_OPEN)
        return refuse(fault, GLINT_CONTEXT_CLOSED, "context", NULL, 0, 0);
    enum glint_status status = check_shape(m, fault);
    if (status != GLINT_OK)
        return status;
    if (context->backend->device == GLINT_DEVICE_CPU && stream)
        return refuse(fault, GLINT_BAD_STREAM, "stream", NULL, 0, 0);
    struct tensor o = tensor_of_o(context, m->o, &m->o_strides, m->head_dim, m->dtype);
    struct tensor lse = tensor_of_lse(m->lse, &m->lse_strides);
    struct tensor sinks = tensor_of_lse(m->sinks, &of_sinks);
    o.written = lse.written = true;
    sinks.name = "sinks";
    status = check_tensor(m, &o, fault);
    if (status == GLINT_OK)
        status = check_tensor(m, &lse, fault);
    if (status == GLINT_OK && m->sinks)
        status = check_tensor(m, &sinks, fault);
    if (status != GLINT_OK)
        return status;
    if (meet(&o, &lse))
        return refuse(fault, GLINT_TENSOR_OVERLAP, "o", "lse", 0, 0);
    if (meet(&sinks, &o) || meet(&sinks, &lse))
        return refuse(fault, GLINT_TENSOR_OVERLAP, "sinks", meet(&sinks, &o) ? "o" : "lse", 0, 0);
    for (fault->part = 0; fault->part < m->parts; fault->part++) {
        status = check_part(context, m, &o, &lse, fault);
        if (status != GLINT_OK)
            return status;
    }
    return GLINT_OK;
}

enum glint_status glint_merge(const struct glint_context *context, const struct glint_merge *merge, void *stream)
{
    struct merge_fault fault;
    const enum glint_status status = check(context, merge, stream, &fault);
    return status == GLINT_OK ? context->backend->merge(context, merge, stream) : status;
}

/* ---- sentences ---------------------------------------------------------------------------------------------------------------- */

/* merge.part[3].o_strides.row */
static void put_place(struct glint_text *t, const struct merge_fault *fault)
{
    glint_text_str(t, "merge.");
    if (fault->part != UINT32_MAX) {
        glint_text_str(t, "part[");
        glint_text_uint(t, fault->part);
        glint_text_str(t, "].");
    }
    glint_text_str(t, fault->field);
}

static void put_value(struct glint_text *t, const struct merge_fault *fault)
{
    put_place(t, fault);
    glint_text_str(t, " is ");
    glint_text_int(t, fault->value);
}

static void put_stride(struct glint_text *t, const struct merge_fault *fault)
{
    put_place(t, fault);
    glint_text_char(t, '.');
    glint_text_str(t, fault->other);
    glint_text_str(t, " is ");
    glint_text_int(t, fault->value);
    glint_text_str(t, fault->value < 0 ? "; strides must not be negative."
                                       : "; elements of this output overlap: each stride must step over all that is inside it.");
}

static void put_fault(struct glint_text *t, enum glint_status status, const struct merge_fault *fault)
{
    switch (status) {
    case GLINT_NULL_ARGUMENT: glint_text_str(t, fault->field), glint_text_str(t, " is NULL."); break;
    case GLINT_STRUCT_SIZE:
        put_value(t, fault), glint_text_str(t, " bytes; it must be "), glint_text_int(t, fault->want), glint_text_char(t, '.');
        break;
    case GLINT_BAD_DTYPE: put_value(t, fault), glint_text_str(t, "; use GLINT_F32 (1), GLINT_F16 (2) or GLINT_BF16 (3)."); break;
    case GLINT_BAD_MERGE:
        put_value(t, fault);
        glint_text_str(t, "; it must be from 1 to ");
        glint_text_int(t, fault->want);
        glint_text_str(t, ". More parts are merged in several calls, with O of float32 between them.");
        break;
    case GLINT_BAD_RESERVED: put_value(t, fault), glint_text_str(t, "; it must be 0."); break;
    case GLINT_BAD_BATCH:
    case GLINT_BAD_HEADS:
    case GLINT_BAD_SEQLEN:
        put_value(t, fault);
        glint_text_str(t, "; it must be from ");
        glint_text_int(t, fault->want);
        glint_text_str(t, " to ");
        glint_text_int(t, GLINT_MAX_EXTENT);
        glint_text_char(t, '.');
        break;
    case GLINT_BAD_HEAD_DIM: put_value(t, fault), glint_text_str(t, "; it must be a multiple of 8, 8 or more."); break;
    case GLINT_BAD_STRIDE: put_stride(t, fault); break;
    case GLINT_STRIDE_MISALIGNED:
        put_place(t, fault);
        glint_text_char(t, '.');
        glint_text_str(t, fault->other);
        glint_text_str(t, " is ");
        glint_text_int(t, fault->value);
        glint_text_str(t, "; on this device it must be a multiple of ");
        glint_text_int(t, fault->want);
        glint_text_str(t, " elements.");
        break;
    case GLINT_SIZE_OVERFLOW:
        glint_text_str(t, "The size in bytes of ");
        put_place(t, fault);
        glint_text_str(t, " does not fit in 63 bits; use shorter lengths or smaller strides.");
        break;
    case GLINT_NULL_TENSOR: put_place(t, fault), glint_text_str(t, " is NULL; it is needed."); break;
    case GLINT_TENSOR_MISALIGNED:
        glint_text_str(t, "The address of ");
        put_place(t, fault);
        glint_text_str(t, " must be a multiple of ");
        glint_text_int(t, fault->want);
        glint_text_str(t, " bytes; it is ");
        glint_text_int(t, fault->value);
        glint_text_str(t, " past one.");
        break;
    case GLINT_TENSOR_OVERLAP:
        put_place(t, fault);
        glint_text_str(t, " shares memory with the result's ");
        glint_text_str(t, fault->other);
        glint_text_str(t,
                       "; they need ranges of their own, or O (or LSE) exactly the place, the dtype and the strides of a part's.");
        break;
    case GLINT_BAD_STREAM: glint_text_str(t, "stream is not NULL; a context on the CPU takes none."); break;
    default: glint_text_str(t, glint_status_sentence(status)); break;
    }
}

enum glint_status glint_explain_merge(const struct glint_context *context, const struct glint_merge *merge, const void *stream,
                                      char *buffer, size_t buffer_bytes, size_t *needed_bytes)
{
    struct glint_text t = {buffer, buffer ? buffer_bytes : 0, 0};
    struct merge_fault fault;
    const enum glint_status status = check(context, merge, stream, &fault);
    glint_text_str(&t, glint_status_name(status));
    glint_text_str(&t, ": ");
    if (status == GLINT_OK)
        glint_text_str(&t, "The call would run.");
    else
        put_fault(&t, status, &fault);
    const size_t needed = glint_text_end(&t);
    if (needed_bytes)
        *needed_bytes = needed;
    return status;
}
