/* The rules of glint.h about a problem, one function a rule, in the order in which they are reported. */
#include "lib/backend.h"
#include "lib/check.h"

#define TENSOR(field) offsetof(struct glint_tensors, field)
#define STRIDES(field) offsetof(struct glint_problem, field)

const struct glint_tensor_role glint_roles[GLINT_ROLES] = {
    {TENSOR(q), STRIDES(q), false, false, false, {0, GLINT_ROLE_READ, GLINT_ROLE_READ}, "q"},
    {TENSOR(k), STRIDES(k), true, true, false, {0, GLINT_ROLE_READ, GLINT_ROLE_READ}, "k"},
    {TENSOR(v), STRIDES(v), true, true, true, {0, GLINT_ROLE_READ, GLINT_ROLE_READ}, "v"},
    {TENSOR(o), STRIDES(o), false, false, true, {0, GLINT_ROLE_WRITTEN, GLINT_ROLE_READ}, "o"},
    {TENSOR(dout), STRIDES(dout), false, false, true, {0, GLINT_ROLE_UNUSED, GLINT_ROLE_READ}, "dout"},
    {TENSOR(dq), STRIDES(dq), false, false, false, {0, GLINT_ROLE_UNUSED, GLINT_ROLE_WRITTEN}, "dq"},
    {TENSOR(dk), STRIDES(dk), true, false, false, {0, GLINT_ROLE_UNUSED, GLINT_ROLE_WRITTEN}, "dk"},
    {TENSOR(dv), STRIDES(dv), true, false, true, {0, GLINT_ROLE_UNUSED, GLINT_ROLE_WRITTEN}, "dv"},
};

const char glint_dimension[3][6] = {"batch", "head", "row"};

static enum glint_status check_enums(const struct glint_problem *p, enum glint_pass pass, struct glint_fault *fault)
{
    if (p->struct_size != sizeof *p)
        return glint_refuse(fault, GLINT_REASON_STRUCT_SIZE, "struct_size", NULL, p->struct_size, (int64_t)sizeof *p);
    if (pass != GLINT_FORWARD && pass != GLINT_BACKWARD)
        return glint_refuse(fault, GLINT_REASON_PASS, "pass", NULL, (int64_t)pass, GLINT_FORWARD);
    if (p->dtype < GLINT_F32 || p->dtype > GLINT_BF16)
        return glint_refuse(fault, GLINT_REASON_DTYPE, "dtype", NULL, p->dtype, GLINT_F32);
    if (p->mask < GLINT_MASK_NONE || p->mask > GLINT_MASK_BAND_BOTTOM_RIGHT)
        return glint_refuse(fault, GLINT_REASON_MASK, "mask", NULL, p->mask, GLINT_MASK_NONE);
    if (p->kv_dtype != 0 && p->kv_dtype != GLINT_I8 && p->kv_dtype != GLINT_E4M3)
        return glint_refuse(fault, GLINT_REASON_KV_DTYPE, "kv_dtype", NULL, p->kv_dtype, 0);
    if (p->kv_dtype != 0 && pass == GLINT_BACKWARD)
        return glint_refuse(fault, GLINT_REASON_KV_DTYPE_BACKWARD, "kv_dtype", NULL, p->kv_dtype, 0);
    if (p->kv_scales != GLINT_SCALES_NONE && p->kv_dtype == 0)
        return glint_refuse(fault, GLINT_REASON_SCALES_WITHOUT_KV_DTYPE, "kv_scales", NULL, p->kv_scales, 0);
    if (p->kv_scales > GLINT_SCALES_ROW || (p->kv_scales == GLINT_SCALES_NONE && p->kv_dtype != 0))
        return glint_refuse(fault, GLINT_REASON_SCALES, "kv_scales", NULL, p->kv_scales, 0);
    if (p->lengths > GLINT_LENGTHS_RAGGED)
        return glint_refuse(fault, GLINT_REASON_LENGTHS, "lengths", NULL, p->lengths, 0);
    if (p->order > GLINT_ORDER_CANONICAL)
        return glint_refuse(fault, GLINT_REASON_ORDER, "order", NULL, p->order, 0);
    if (p->order != GLINT_ORDER_ANY && pass == GLINT_BACKWARD)
        return glint_refuse(fault, GLINT_REASON_ORDER_BACKWARD, "order", NULL, p->order, 0);
    if (p->intervals > 1)
        return glint_refuse(fault, GLINT_REASON_INTERVALS, "intervals", NULL, p->intervals, 1);
    if (p->sinks > 1)
        return glint_refuse(fault, GLINT_REASON_SINKS, "sinks", NULL, p->sinks, 1);
    if (p->alibi > 1)
        return glint_refuse(fault, GLINT_REASON_ALIBI, "alibi", NULL, p->alibi, 1);
    if (p->max_logit > (pass == GLINT_FORWARD ? 1 : 0))
        return glint_refuse(fault, GLINT_REASON_LOGIT, "max_logit", NULL, p->max_logit, 0);
    if (p->tree > (pass == GLINT_FORWARD ? 1 : 0))
        return glint_refuse(fault, GLINT_REASON_TREE, "tree", NULL, p->tree, 0);
    if (p->tree != 0 && p->alibi != 0)
        return glint_refuse(fault, GLINT_REASON_TREE_AND_ALIBI, "tree", NULL, p->tree, 0);
    if (p->bias_dtype != 0 && p->bias_dtype != GLINT_F32 && p->bias_dtype != p->dtype)
        return glint_refuse(fault, GLINT_REASON_BIAS_DTYPE, "bias_dtype", NULL, p->bias_dtype, p->dtype);
    if (p->bias_dtype != 0 && p->alibi != 0)
        return glint_refuse(fault, GLINT_REASON_BIAS_AND_ALIBI, "bias_dtype", NULL, p->bias_dtype, 0);
    if (p->dbias > (p->bias_dtype != 0))
        return glint_refuse(fault, p->dbias > 1 ? GLINT_REASON_DBIAS : GLINT_REASON_DBIAS_OF_NONE, "dbias", NULL, p->dbias, 0);
    if (p->reserved[0] != 0)
        return glint_refuse(fault, GLINT_REASON_RESERVED, "reserved", NULL, (int64_t)p->reserved[0], 0);
    return GLINT_OK;
}

static bool in_range(int64_t value, int64_t low)
{
    return value >= low && value <= GLINT_MAX_EXTENT;
}

/* A window beside a mask that has none is a mistake too: without it the host would get attention to all that it
 * meant to hide. */
static enum glint_status check_window(const struct glint_problem *p, struct glint_fault *fault)
{
    const bool band = glint_is_window(p);
    const int64_t low = band ? GLINT_UNBOUNDED : 0, high = band ? GLINT_MAX_EXTENT : 0;
    const enum glint_reason reason = band ? GLINT_REASON_WINDOW : GLINT_REASON_WINDOW_WITHOUT_BAND;
    if (p->window_left < low || p->window_left > high)
        return glint_refuse(fault, reason, "window_left", NULL, p->window_left, high);
    if (p->window_right < low || p->window_right > high)
        return glint_refuse(fault, reason, "window_right", NULL, p->window_right, high);
    if (p->diagonal != 0 && p->mask == GLINT_MASK_NONE)
        return glint_refuse(fault, GLINT_REASON_DIAGONAL_OF_NONE, "diagonal", NULL, p->diagonal, 0);
    return GLINT_OK;
}

static enum glint_status check_extents(const struct glint_problem *p, struct glint_fault *fault)
{
    if (!in_range(p->batch, 1))
        return glint_refuse(fault, GLINT_REASON_BATCH, "batch", NULL, p->batch, GLINT_MAX_EXTENT);
    if (!in_range(p->heads_q, 1))
        return glint_refuse(fault, GLINT_REASON_HEADS, "heads_q", NULL, p->heads_q, GLINT_MAX_EXTENT);
    if (!in_range(p->heads_kv, 1))
        return glint_refuse(fault, GLINT_REASON_HEADS, "heads_kv", NULL, p->heads_kv, GLINT_MAX_EXTENT);
    if (p->heads_q % p->heads_kv != 0)
        return glint_refuse(fault, GLINT_REASON_HEAD_GROUP, "heads_q", NULL, p->heads_q, p->heads_kv);
    if (p->head_dim < 8 || p->head_dim % 8 != 0 || p->head_dim > GLINT_MAX_EXTENT)
        return glint_refuse(fault, GLINT_REASON_HEAD_DIM, "head_dim", NULL, p->head_dim, 8);
    if (p->head_dim_v != p->head_dim)
        return glint_refuse(fault, GLINT_REASON_HEAD_DIM_V, "head_dim_v", NULL, p->head_dim_v, p->head_dim);
    if (!in_range(p->seqlen_q, 0))
        return glint_refuse(fault, GLINT_REASON_SEQLEN, "seqlen_q", NULL, p->seqlen_q, GLINT_MAX_EXTENT);
    if (!in_range(p->seqlen_k, 0))
        return glint_refuse(fault, GLINT_REASON_SEQLEN, "seqlen_k", NULL, p->seqlen_k, GLINT_MAX_EXTENT);
    const bool ragged = p->lengths == GLINT_LENGTHS_RAGGED, ragged_keys = ragged && p->page_rows == 0;
    if (ragged ? !in_range(p->rows_q, 0) : p->rows_q != 0)
        return glint_refuse(fault, ragged ? GLINT_REASON_ROWS : GLINT_REASON_ROWS_WITHOUT_RAGGED, "rows_q", NULL, p->rows_q,
                            GLINT_MAX_EXTENT);
    if (ragged_keys ? !in_range(p->rows_k, 0) : p->rows_k != 0)
        return glint_refuse(fault,
                            ragged_keys ? GLINT_REASON_ROWS
                            : ragged    ? GLINT_REASON_ROWS_IN_PAGES
                                        : GLINT_REASON_ROWS_WITHOUT_RAGGED,
                            "rows_k", NULL, p->rows_k, GLINT_MAX_EXTENT);
    /* inf - inf and NaN - NaN are NaN, every finite number less itself is 0 */
    if (!(p->softmax_scale - p->softmax_scale == 0.0f))
        return glint_refuse(fault, GLINT_REASON_SCALE, "softmax_scale", NULL, 0, 0);
    /* Its reciprocal is a normal number then, and so is nine times the cap, from where on tanh is 1; NaN fails both
     * comparisons. */
    if (p->softcap != 0.0f && !(p->softcap >= 0x1p-126f && p->softcap <= 0x1p124f))
        return glint_refuse(fault, GLINT_REASON_SOFTCAP, "softcap", NULL, 0, 0);
    return GLINT_OK;
}

/* Pages: a row of the table holds the longest sequence, and the kernels of the pass look rows up in it. */
static enum glint_status check_pages(const struct glint_problem *p, enum glint_pass pass, struct glint_fault *fault)
{
    const int64_t rows = p->page_rows;
    if (rows != 0 && (rows < 16 || rows > 256 || (rows & (rows - 1)) != 0))
        return glint_refuse(fault, GLINT_REASON_PAGE_ROWS, "page_rows", NULL, rows, 0);
    if (rows == 0 && p->pages != 0)
        return glint_refuse(fault, GLINT_REASON_PAGES_OF_LINEAR, "pages", NULL, p->pages, 0);
    if (rows == 0 && p->pages_per_sequence != 0)
        return glint_refuse(fault, GLINT_REASON_PAGES_OF_LINEAR, "pages_per_sequence", NULL, p->pages_per_sequence, 0);
    if (rows == 0)
        return GLINT_OK;
    if (!in_range(p->pages, 1))
        return glint_refuse(fault, GLINT_REASON_PAGES, "pages", NULL, p->pages, GLINT_MAX_EXTENT);
    if (!in_range(p->pages_per_sequence, 1))
        return glint_refuse(fault, GLINT_REASON_PAGES, "pages_per_sequence", NULL, p->pages_per_sequence, GLINT_MAX_EXTENT);
    if (pass != GLINT_FORWARD)
        return glint_refuse(fault, GLINT_REASON_PAGES_BACKWARD, "page_rows", NULL, rows, 0);
    if (p->lengths == GLINT_LENGTHS_HOST)
        return glint_refuse(fault, GLINT_REASON_PAGES_OF_HOST, "page_rows", NULL, rows, 0);
    const int64_t needed = (p->seqlen_k + rows - 1) / rows;
    if (needed > p->pages_per_sequence)
        return glint_refuse(fault, GLINT_REASON_PAGES_TOO_FEW, "pages_per_sequence", NULL, p->pages_per_sequence, needed);
    return GLINT_OK;
}

bool glint_span_of(const int64_t extent[3], const struct glint_strides *s, int64_t row, int64_t element, int64_t *span)
{
    const int64_t stride[3] = {s->batch, s->head, s->row};
    int64_t reach, total = row;
    for (int i = 0; i < 3; i++) {
        if (extent[i] == 0) {
            *span = 0;
            return true;
        }
        if (__builtin_mul_overflow(extent[i] - 1, stride[i], &reach) || __builtin_add_overflow(total, reach, &total))
            return false;
    }
    *span = total;
    return !__builtin_mul_overflow(total, element, &reach);
}

int64_t glint_role_span(const struct glint_tensor_role *role, const struct glint_problem *p)
{
    int64_t extent[3], span = 0;
    glint_role_extents(role, p, extent);
    (void)glint_span_of(extent, glint_role_strides(role, p), glint_role_width(role, p), 1, &span);
    return span;
}

int glint_overlapping_dimension(const int64_t extent[3], const struct glint_strides *s, int64_t row)
{
    const int64_t stride[3] = {s->batch, s->head, s->row};
    bool done[3] = {extent[0] <= 1, extent[1] <= 1, extent[2] <= 1};
    int64_t inner = row;
    for (int round = 0; round < 3; round++) {
        int next = -1;
        for (int i = 0; i < 3; i++)
            if (!done[i] && (next < 0 || stride[i] < stride[next]))
                next = i;
        if (next < 0)
            return -1;
        if (stride[next] < inner)
            return next;
        inner += (extent[next] - 1) * stride[next];
        done[next] = true;
    }
    return -1;
}

static const char *const bias_dimension[4] = {"batch", "head", "query", "key"};

int64_t glint_bias_span(const struct glint_problem *p)
{
    const int64_t extent[4] = {p->batch, p->heads_q, p->seqlen_q, p->seqlen_k};
    const int64_t stride[4] = {p->bias.batch, p->bias.head, p->bias.query, p->bias.key};
    int64_t span = 1, reach;
    for (int i = 0; i < 4; i++)
        if (extent[i] == 0)
            return 0;
    for (int i = 0; i < 4; i++)
        if (__builtin_mul_overflow(extent[i] - 1, stride[i], &reach) || __builtin_add_overflow(span, reach, &span))
            return -1;
    return __builtin_mul_overflow(span, glint_dtype_bytes(p->bias_dtype), &reach) ? -1 : span;
}

/* The dimension whose stride, which is not 0, does not step over all that is inside it, or -1. */
static int overlapping_dimension_of_bias(const int64_t extent[4], const int64_t stride[4])
{
    bool done[4];
    for (int i = 0; i < 4; i++)
        done[i] = extent[i] <= 1 || stride[i] == 0;
    int64_t inner = 1;
    for (;;) {
        int next = -1;
        for (int i = 0; i < 4; i++)
            if (!done[i] && (next < 0 || stride[i] < stride[next]))
                next = i;
        if (next < 0)
            return -1;
        if (stride[next] < inner)
            return next;
        inner += (extent[next] - 1) * stride[next];
        done[next] = true;
    }
}

static enum glint_status check_bias(const struct glint_problem *p, enum glint_pass pass, struct glint_fault *fault)
{
    const int64_t extent[4] = {p->batch, p->heads_q, p->seqlen_q, p->seqlen_k};
    const int64_t stride[4] = {p->bias.batch, p->bias.head, p->bias.query, p->bias.key};
    for (int i = 0; i < 4; i++)
        if (stride[i] < 0)
            return glint_refuse(fault, GLINT_REASON_STRIDE_NEGATIVE, "bias", bias_dimension[i], stride[i], 0);
    const int64_t span = glint_bias_span(p);
    if (span < 0)
        return glint_refuse(fault, GLINT_REASON_SIZE, "bias", NULL, 0, INT64_MAX);
    const int at = p->dbias != 0 && pass == GLINT_BACKWARD && span > 0 ? overlapping_dimension_of_bias(extent, stride) : -1;
    return at < 0 ? GLINT_OK : glint_refuse(fault, GLINT_REASON_DBIAS_OVERLAP, "bias", bias_dimension[at], stride[at], 0);
}

static enum glint_status check_tensor(const struct glint_tensor_role *role, enum glint_pass pass, const struct glint_problem *p,
                                      struct glint_fault *fault)
{
    const struct glint_strides *s = glint_role_strides(role, p);
    const int64_t width = glint_role_width(role, p);
    int64_t extent[3], span;
    const int64_t stride[3] = {s->batch, s->head, s->row};

    glint_role_extents(role, p, extent);
    for (int i = 0; i < 3; i++)
        if (stride[i] < 0)
            return glint_refuse(fault, GLINT_REASON_STRIDE_NEGATIVE, role->name, glint_dimension[i], stride[i], 0);
    if (!glint_span_of(extent, s, width, glint_role_element_bytes(role, p), &span))
        return glint_refuse(fault, GLINT_REASON_SIZE, role->name, NULL, 0, INT64_MAX);
    const int at = role->use[pass] == GLINT_ROLE_WRITTEN && span > 0 ? glint_overlapping_dimension(extent, s, width) : -1;
    if (at >= 0)
        return glint_refuse(fault, GLINT_REASON_STRIDE_OVERLAP, role->name, glint_dimension[at], stride[at], width);
    return GLINT_OK;
}

/* Arrays that are no tensors, where their bytes are products of three numbers: two factors of 30 bits always fit, the
 * third may not. */
static enum glint_status check_sizes(const struct glint_problem *p, struct glint_fault *fault)
{
    const bool paged = p->page_rows > 0, ragged = p->lengths == GLINT_LENGTHS_RAGGED;
    const int64_t queries = ragged ? p->rows_q : p->batch * p->seqlen_q;
    const int64_t keys = (paged ? p->pages : ragged ? 1 : p->batch) * p->heads_kv;
    const int64_t of_unit = paged ? p->page_rows : ragged ? p->rows_k : p->seqlen_k;
    int64_t words;
    if (__builtin_mul_overflow(queries, p->heads_q, &words) || __builtin_mul_overflow(words, 4, &words))
        return glint_refuse(fault, GLINT_REASON_SIZE, "lse", NULL, 0, INT64_MAX);
    if (p->tree != 0 && (__builtin_mul_overflow(queries, glint_tree_words(p), &words) || __builtin_mul_overflow(words, 4, &words)))
        return glint_refuse(fault, GLINT_REASON_SIZE, "tree_bits", NULL, 0, INT64_MAX);
    if (p->kv_scales == GLINT_SCALES_ROW &&
        (__builtin_mul_overflow(keys, of_unit, &words) || __builtin_mul_overflow(words, 4, &words)))
        return glint_refuse(fault, GLINT_REASON_SIZE, "k_scale", NULL, 0, INT64_MAX);
    return GLINT_OK;
}

enum glint_status glint_check_problem(const struct glint_problem *p, enum glint_pass pass, struct glint_fault *fault)
{
    enum glint_status status = check_enums(p, pass, fault);
    if (status == GLINT_OK)
        status = check_window(p, fault);
    if (status == GLINT_OK)
        status = check_extents(p, fault);
    if (status == GLINT_OK)
        status = check_pages(p, pass, fault);
    for (int i = 0; status == GLINT_OK && i < GLINT_ROLES; i++)
        if (glint_roles[i].use[pass] != GLINT_ROLE_UNUSED)
            status = check_tensor(&glint_roles[i], pass, p, fault);
    if (status == GLINT_OK && p->bias_dtype != 0)
        status = check_bias(p, pass, fault);
    return status == GLINT_OK ? check_sizes(p, fault) : status;
}

enum glint_status glint_strides_fit(const struct glint_variant *row, const struct glint_problem *p, struct glint_fault *fault)
{
    for (int i = 0; i < GLINT_ROLES; i++) {
        const struct glint_tensor_role *role = &glint_roles[i];
        if (role->use[row->pass] == GLINT_ROLE_UNUSED)
            continue;
        const int64_t element = glint_role_element_bytes(role, p), alignment = glint_role_alignment(role, p, row);
        if (alignment < 2 * element) /* rows are many, and a division takes as long as all else here */
            continue;
        const int64_t unit = alignment / element;
        const struct glint_strides *s = glint_role_strides(role, p);
        const int64_t stride[3] = {s->batch, s->head, s->row};
        int64_t extent[3];
        glint_role_extents(role, p, extent);
        for (int d = 0; d < 3; d++)
            if (extent[d] > 1 && stride[d] % unit != 0)
                return glint_refuse(fault, GLINT_REASON_STRIDE_OF_ROW, role->name, glint_dimension[d], stride[d], unit);
    }
    return GLINT_OK;
}
