/* The rules of glint.h about a call: what can change between a plan and its runs. */
#include "lib/backend.h"
#include "lib/check.h"

/* Do two tensors laid out with the same strides, largest first, share an element? Then
 *   offset = sum of digit_i * stride_i + e   with -row_a < e < row_b and -extent_a[i] < digit_i < extent_b[i].
 * Each stride steps over all that is inside it, so a digit can only be the floor of its quotient or one more: 2^3
 * candidates. */
static bool elements_meet(int64_t offset, int64_t row_a, int64_t row_b, const int64_t *stride, const int64_t *extent_a,
                          const int64_t *extent_b, int dims)
{
    for (uint32_t candidate = 0; candidate < 1u << dims; candidate++) {
        int64_t rest = offset;
        bool possible = true;
        for (int i = 0; i < dims && possible; i++) {
            const int64_t part = rest % stride[i], before = part < 0, more = candidate >> i & 1;
            const int64_t digit = rest / stride[i] - before + more;
            possible = digit > -extent_a[i] && digit < extent_b[i];
            /* less digit * stride[i], which need not fit while the digit may be impossible */
            rest = part + (before - more) * stride[i];
        }
        if (possible && rest > -row_a && rest < row_b)
            return true;
    }
    return false;
}

/* Interleaved tensors, such as dQ, dK and dV in one fused buffer, have meeting ranges and no common element. They
 * are told apart when they share their strides; with different strides meeting ranges count as overlap. */
static bool share_elements(const struct glint_region *a, const struct glint_region *b)
{
    const int64_t element = a->element;
    if (!glint_regions_meet(a, b))
        return false;
    if (b->element != element)
        return true;
    const int64_t sa[3] = {a->strides.batch, a->strides.head, a->strides.row};
    const int64_t sb[3] = {b->strides.batch, b->strides.head, b->strides.row};
    int64_t stride[3] = {0}, ea[3] = {0}, eb[3] = {0};
    int dims = 0;
    for (int i = 0; i < 3; i++) {
        if (a->extent[i] == 1 && b->extent[i] == 1)
            continue;
        if (a->extent[i] > 1 && b->extent[i] > 1 && sa[i] != sb[i])
            return true;
        int at = dims++;
        const int64_t s = a->extent[i] > 1 ? sa[i] : sb[i];
        for (; at > 0 && stride[at - 1] < s; at--) {
            stride[at] = stride[at - 1];
            ea[at] = ea[at - 1];
            eb[at] = eb[at - 1];
        }
        stride[at] = s;
        ea[at] = a->extent[i];
        eb[at] = b->extent[i];
    }
    /* the digits are unique only if each stride steps over what is inside it */
    int64_t inner = a->row > b->row ? a->row : b->row;
    for (int i = dims - 1; i >= 0; i--) {
        if (stride[i] < inner)
            return true;
        inner += ((ea[i] > eb[i] ? ea[i] : eb[i]) - 1) * stride[i];
    }
    const int64_t bytes = b->begin >= a->begin ? (int64_t)(b->begin - a->begin) : -(int64_t)(a->begin - b->begin);
    if (bytes % element != 0)
        return true;
    /* element x of a is element y of b: x = bytes / element + y, so that the digits of b's offset lie in (-extent_b,
     * extent_a) */
    return elements_meet(bytes / element, b->row, a->row, stride, eb, ea, dims);
}

/* A pointer that the call needs and that is NULL. `owner`: the struct that it is a member of, where the name does
 * not say it. */
static enum glint_status refuse_null(struct glint_fault *fault, const char *owner, const char *name)
{
    const enum glint_status status = glint_refuse(fault, GLINT_REASON_NULL_TENSOR, name, NULL, 0, 0);
    fault->place = owner;
    return status;
}

/* Puts a tensor of `bytes` bytes where it is; without any it is nowhere. `unit`: bytes of which the address is a
 * multiple. */
static enum glint_status place(struct glint_region *r, const char *owner, const void *tensor, uint64_t bytes, int64_t unit,
                               struct glint_fault *fault)
{
    const uintptr_t address = (uintptr_t)tensor;
    const int64_t past = (int64_t)(address % (uintptr_t)unit);
    if (bytes == 0)
        return GLINT_OK;
    if (address == 0)
        return refuse_null(fault, owner, r->name);
    if (past != 0)
        return glint_refuse(fault, GLINT_REASON_ADDRESS, r->name, NULL, past, unit);
    if (address + (uintptr_t)bytes < address)
        return glint_refuse(fault, GLINT_REASON_SIZE, r->name, NULL, 0, INT64_MAX);
    r->begin = address;
    r->end = address + (uintptr_t)bytes;
    return GLINT_OK;
}

/* Of an output: do its strides step over all that is inside them? */
static enum glint_status check_steps(const struct glint_region *r, const char *strides_name, struct glint_fault *fault)
{
    const int64_t stride[3] = {r->strides.batch, r->strides.head, r->strides.row};
    const int at = glint_overlapping_dimension(r->extent, &r->strides, r->row);
    return at < 0 ? GLINT_OK
                  : glint_refuse(fault, GLINT_REASON_STRIDE_OVERLAP, strides_name, glint_dimension[at], stride[at], r->row);
}

enum glint_status glint_place_rows(struct glint_region *r, const char *strides_name, const void *address, int64_t unit,
                                   struct glint_fault *fault)
{
    const int64_t stride[3] = {r->strides.batch, r->strides.head, r->strides.row}, step = unit / r->element;
    int64_t span;
    for (int i = 0; i < 3; i++)
        if (stride[i] < 0)
            return glint_refuse(fault, GLINT_REASON_STRIDE_NEGATIVE, strides_name, glint_dimension[i], stride[i], 0);
        else if (r->extent[i] > 1 && stride[i] % step != 0)
            return glint_refuse(fault, GLINT_REASON_STRIDE_ON_DEVICE, strides_name, glint_dimension[i], stride[i], step);
    if (!glint_span_of(r->extent, &r->strides, r->row, r->element, &span))
        return glint_refuse(fault, GLINT_REASON_SIZE, r->name, NULL, 0, INT64_MAX);
    const enum glint_status status = r->use == GLINT_ROLE_WRITTEN && span > 0 ? check_steps(r, strides_name, fault) : GLINT_OK;
    return status == GLINT_OK ? place(r, "", address, (uint64_t)(span * r->element), unit, fault) : status;
}

/* A tensor of the plan, whose strides the plan has checked. */
static enum glint_status region_of(const struct glint_tensor_role *role, enum glint_pass pass, const struct glint_plan *plan,
                                   const struct glint_tensors *tensors, struct glint_region *r, struct glint_fault *fault)
{
    const struct glint_problem *p = &plan->problem;
    const int64_t element = glint_role_element_bytes(role, p);
    const void *address = *(void *const *)(const void *)((const char *)tensors + role->address);
    *r = (struct glint_region){.name = role->name,
                               .strides = *glint_role_strides(role, p),
                               .row = glint_role_width(role, p),
                               .element = element,
                               .use = role->use[pass]};
    glint_role_extents(role, p, r->extent);
    return place(r, "tensors.", address, (uint64_t)(glint_role_span(role, p) * element),
                 glint_role_alignment(role, p, &glint_variants[plan->variant]), fault);
}

static enum glint_status region_of_lse(enum glint_pass pass, const struct glint_plan *plan, const struct glint_tensors *tensors,
                                       struct glint_region *r, struct glint_fault *fault)
{
    const struct glint_problem *p = &plan->problem;
    const int64_t rows = p->lengths == GLINT_LENGTHS_RAGGED ? p->rows_q : p->batch * p->seqlen_q;
    *r = (struct glint_region){.name = "lse", .use = pass == GLINT_FORWARD ? GLINT_ROLE_WRITTEN : GLINT_ROLE_READ};
    return place(r, "tensors.", tensors->lse, (uint64_t)rows * (uint64_t)p->heads_q * sizeof(float), sizeof(float), fault);
}

static enum glint_status check_overlap(const struct glint_region *r, int count, const struct glint_region *lse,
                                       const struct glint_region *workspace, struct glint_fault *fault)
{
    for (int i = 0; i < count; i++) {
        if (glint_regions_meet(&r[i], workspace))
            return glint_refuse(fault, GLINT_REASON_OVERLAP, r[i].name, "workspace", 0, 0);
        if ((r[i].use == GLINT_ROLE_WRITTEN || lse->use == GLINT_ROLE_WRITTEN) && glint_regions_meet(&r[i], lse))
            return glint_refuse(fault, GLINT_REASON_OVERLAP, r[i].name, "lse", 0, 0);
        for (int j = 0; j < i; j++)
            if ((r[i].use == GLINT_ROLE_WRITTEN || r[j].use == GLINT_ROLE_WRITTEN) && share_elements(&r[i], &r[j]))
                return glint_refuse(fault, GLINT_REASON_OVERLAP, r[i].name, r[j].name, 0, 0);
    }
    if (glint_regions_meet(lse, workspace))
        return glint_refuse(fault, GLINT_REASON_OVERLAP, "lse", "workspace", 0, 0);
    return GLINT_OK;
}

/* An array of the call that is no tensor with strides. Small, as there are many, on the caller's stack. */
struct word_array {
    const char *name;
    const void *address;
    int64_t count; /* of words */
    uint8_t use;
    bool wanted;               /* the problem asks for it, and so it must be given */
    uint8_t bytes;             /* of a word */
    enum glint_reason unasked; /* why it is refused where the problem does not ask for its kind; else NONE */
};

static uint64_t bytes_of_words(const struct word_array *a)
{
    return a->address ? (uint64_t)(a->count * a->bytes) : 0;
}

/* Where an array is that place() took. One is made at a time: all of them would be most of a call's stack. */
static struct glint_region region_of_words(const struct word_array *a)
{
    const uintptr_t begin = (uintptr_t)a->address;
    return (struct glint_region){.name = a->name, .begin = begin, .end = begin + (uintptr_t)bytes_of_words(a), .use = a->use};
}

/* Lengths, the page table, the word for a fault, sinks, gradients of sinks and of LSE, intervals, a tree, slopes,
 * logits, a bias and its gradient, scales: given where they are asked for and only there, aligned, and apart from what
 * is written; address ranges count. `scaled`: what the call does with the scales. */
static enum glint_status check_words(const struct glint_problem *p, enum glint_pass pass, const struct glint_tensors *t, int scaled,
                                     const struct glint_region *r, int count, const struct glint_region *lse,
                                     const struct glint_region *workspace, struct glint_fault *fault)
{
    const bool lengths = p->lengths != GLINT_LENGTHS_HOST, sinks = p->sinks != 0, pages = p->page_rows > 0;
    const bool ragged = p->lengths == GLINT_LENGTHS_RAGGED, ragged_keys = ragged && !pages;
    const int64_t scales = glint_scales_of(p);
    const enum glint_reason no_lengths = lengths ? GLINT_REASON_NONE : GLINT_REASON_LENGTHS_GIVEN;
    const enum glint_reason not_ragged = ragged ? GLINT_REASON_NONE : GLINT_REASON_FIRST_GIVEN;
    const enum glint_reason no_first_k = ragged && pages ? GLINT_REASON_FIRST_GIVEN_IN_PAGES : not_ragged;
    const enum glint_reason no_pages = pages ? GLINT_REASON_NONE : GLINT_REASON_TABLE_GIVEN;
    const enum glint_reason no_sinks = sinks ? GLINT_REASON_NONE : GLINT_REASON_SINKS_GIVEN;
    const enum glint_reason no_scales = p->kv_scales != GLINT_SCALES_NONE ? GLINT_REASON_NONE : GLINT_REASON_SCALES_GIVEN;
    const float *const dsinks = pass == GLINT_BACKWARD ? t->dsinks : NULL, *const dlse = pass == GLINT_BACKWARD ? t->dlse : NULL;
    const int64_t queries = ragged ? p->rows_q : p->batch * p->seqlen_q;
    const bool intervals = p->intervals != 0;
    const enum glint_reason no_intervals = intervals ? GLINT_REASON_NONE : GLINT_REASON_INTERVALS_GIVEN;
    const int64_t of_tree = p->tree != 0 ? queries * glint_tree_words(p) : 0;
    const enum glint_reason no_tree = p->tree != 0 ? GLINT_REASON_NONE : GLINT_REASON_TREE_GIVEN;
    const bool alibi = p->alibi != 0;
    const enum glint_reason no_alibi = alibi ? GLINT_REASON_NONE : GLINT_REASON_ALIBI_GIVEN;
    float *const max_logit = pass == GLINT_FORWARD ? t->max_logit : NULL;
    const enum glint_reason no_logit = p->max_logit != 0 ? GLINT_REASON_NONE : GLINT_REASON_LOGIT_GIVEN;
    const bool bias = p->bias_dtype != 0, with_dbias = p->dbias != 0 && pass == GLINT_BACKWARD;
    const int64_t of_bias = bias ? glint_bias_span(p) : 0;
    const uint8_t bias_bytes = (uint8_t)glint_dtype_bytes(p->bias_dtype), scales_use = (uint8_t)scaled;
    void *const dbias = pass == GLINT_BACKWARD ? t->dbias : NULL;
    const enum glint_reason no_bias = bias ? GLINT_REASON_NONE : GLINT_REASON_BIAS_GIVEN;
    const enum glint_reason no_dbias = with_dbias ? GLINT_REASON_NONE : GLINT_REASON_BIAS_GIVEN;
    const struct word_array arrays[] = {
        {"first_q", t->first_q, p->batch + 1, GLINT_ROLE_READ, ragged, 4, not_ragged},
        {"first_k", t->first_k, p->batch + 1, GLINT_ROLE_READ, ragged_keys, 4, no_first_k},
        {"seqlens_q", t->seqlens_q, p->batch, GLINT_ROLE_READ, false, 4, no_lengths},
        {"seqlens_k", t->seqlens_k, p->batch, GLINT_ROLE_READ, lengths && !ragged_keys, 4, no_lengths},
        {"page_table", t->page_table, p->batch * p->pages_per_sequence, GLINT_ROLE_READ, pages, 4, no_pages},
        {"fault", t->fault, 1, GLINT_ROLE_WRITTEN, false, 4, no_lengths},
        {"sinks", t->sinks, p->heads_q, GLINT_ROLE_READ, sinks, 4, no_sinks},
        {"dsinks", dsinks, p->heads_q, GLINT_ROLE_WRITTEN, sinks && pass == GLINT_BACKWARD, 4, no_sinks},
        {"dlse", dlse, p->heads_q * queries, GLINT_ROLE_READ, false, 4, GLINT_REASON_NONE},
        {"key_begin", t->key_begin, queries, GLINT_ROLE_READ, intervals && queries > 0, 4, no_intervals},
        {"key_end", t->key_end, queries, GLINT_ROLE_READ, intervals && queries > 0, 4, no_intervals},
        {"tree_bits", t->tree_bits, of_tree, GLINT_ROLE_READ, of_tree > 0, 4, no_tree},
        {"alibi_slopes", t->alibi_slopes, p->heads_q, GLINT_ROLE_READ, alibi, 4, no_alibi},
        {"max_logit", max_logit, p->heads_q, GLINT_ROLE_WRITTEN, p->max_logit != 0, 4, no_logit},
        {"bias", t->bias, of_bias, GLINT_ROLE_READ, of_bias > 0, bias_bytes, no_bias},
        {"dbias", dbias, of_bias, GLINT_ROLE_WRITTEN, with_dbias && of_bias > 0, bias_bytes, no_dbias},
        {"k_scale", t->k_scale, scales, scales_use, scales > 0, 4, no_scales},
        {"v_scale", t->v_scale, scales, scales_use, scales > 0, 4, no_scales},
    };
    enum { ARRAYS = sizeof arrays / sizeof arrays[0] };
    struct glint_region placed;
    for (int i = 0; i < ARRAYS; i++) {
        const struct word_array *a = &arrays[i];
        if (a->wanted && a->address == NULL)
            return refuse_null(fault, "tensors.", a->name);
        if (a->unasked != GLINT_REASON_NONE && a->address != NULL)
            return glint_refuse(fault, a->unasked, a->name, NULL, 0, 0);
        placed.name = a->name;
        const enum glint_status status = place(&placed, "tensors.", a->address, bytes_of_words(a), a->bytes, fault);
        if (status != GLINT_OK)
            return status;
    }
    for (int i = 0; i < ARRAYS; i++) {
        const struct glint_region w = region_of_words(&arrays[i]);
        if (glint_regions_meet(&w, workspace))
            return glint_refuse(fault, GLINT_REASON_OVERLAP, w.name, "workspace", 0, 0);
        if ((w.use == GLINT_ROLE_WRITTEN || lse->use == GLINT_ROLE_WRITTEN) && glint_regions_meet(&w, lse))
            return glint_refuse(fault, GLINT_REASON_OVERLAP, w.name, "lse", 0, 0);
        for (int j = 0; j < count; j++)
            if ((w.use == GLINT_ROLE_WRITTEN || r[j].use == GLINT_ROLE_WRITTEN) && glint_regions_meet(&w, &r[j]))
                return glint_refuse(fault, GLINT_REASON_OVERLAP, w.name, r[j].name, 0, 0);
        for (int j = 0; j < i; j++) {
            const struct glint_region other = region_of_words(&arrays[j]);
            if ((w.use == GLINT_ROLE_WRITTEN || other.use == GLINT_ROLE_WRITTEN) && glint_regions_meet(&w, &other))
                return glint_refuse(fault, GLINT_REASON_OVERLAP, w.name, other.name, 0, 0);
        }
    }
    return GLINT_OK;
}

enum glint_status glint_check_plan(const struct glint_plan *plan, enum glint_pass pass, struct glint_fault *fault)
{
    /* The sum comes first: until it holds, nothing in the plan may be followed. */
    if (plan->struct_size != sizeof *plan || plan->internal[GLINT_PLAN_SUM_WORD] != glint_plan_sum(plan) || !plan->context ||
        plan->variant >= glint_variants_count)
        return glint_refuse(fault, GLINT_REASON_PLAN, "plan", NULL, 0, 0);
    if (plan->context->magic != GLINT_CONTEXT_OPEN)
        return glint_refuse(fault, GLINT_REASON_CONTEXT_CLOSED, "context", NULL, 0, 0);
    if (plan->internal[GLINT_PLAN_CONTEXT_WORD] != plan->context->fingerprint)
        return glint_refuse(fault, GLINT_REASON_PLAN, "plan", NULL, 0, 0);
    if (plan->pass != (uint32_t)pass)
        return glint_refuse(fault, GLINT_REASON_WRONG_PASS, "plan", NULL, plan->pass, (int64_t)pass);
    return GLINT_OK;
}

enum glint_status glint_check_call(const struct glint_plan *plan, enum glint_pass pass, const struct glint_tensors *tensors,
                                   const void *workspace, size_t workspace_bytes, const void *stream, struct glint_fault *fault)
{
    if (!plan)
        return glint_refuse(fault, GLINT_REASON_NULL_ARGUMENT, "plan", NULL, 0, 0);
    if (!tensors)
        return glint_refuse(fault, GLINT_REASON_NULL_ARGUMENT, "tensors", NULL, 0, 0);
    enum glint_status status = glint_check_plan(plan, pass, fault);
    if (status != GLINT_OK)
        return status;
    if (tensors->struct_size != sizeof *tensors)
        return glint_refuse(fault, GLINT_REASON_STRUCT_SIZE, "tensors.struct_size", NULL, tensors->struct_size,
                            (int64_t)sizeof *tensors);
    if (tensors->reserved != 0)
        return glint_refuse(fault, GLINT_REASON_RESERVED, "tensors.reserved", NULL, tensors->reserved, 0);
    if (plan->context->backend->device == GLINT_DEVICE_CPU && stream)
        return glint_refuse(fault, GLINT_REASON_STREAM, "stream", NULL, 0, 0);
    if (workspace_bytes < plan->workspace_bytes || (!workspace && plan->workspace_bytes > 0))
        return glint_refuse(fault, GLINT_REASON_WORKSPACE, "workspace", NULL, workspace ? (int64_t)workspace_bytes : 0,
                            (int64_t)plan->workspace_bytes);
    if ((uintptr_t)workspace % GLINT_WORKSPACE_ALIGNMENT != 0)
        return glint_refuse(fault, GLINT_REASON_WORKSPACE_ADDRESS, "workspace", NULL,
                            (int64_t)((uintptr_t)workspace % GLINT_WORKSPACE_ALIGNMENT), GLINT_WORKSPACE_ALIGNMENT);

    struct glint_region regions[GLINT_ROLES], lse, work = {.name = "workspace"};
    int count = 0;
    for (int i = 0; i < GLINT_ROLES; i++) {
        if (glint_roles[i].use[pass] == GLINT_ROLE_UNUSED)
            continue;
        status = region_of(&glint_roles[i], pass, plan, tensors, &regions[count++], fault);
        if (status != GLINT_OK)
            return status;
    }
    status = region_of_lse(pass, plan, tensors, &lse, fault);
    if (status != GLINT_OK)
        return status;
    work.begin = (uintptr_t)workspace;
    work.end = work.begin + (workspace ? plan->workspace_bytes : 0);
    status = check_overlap(regions, count, &lse, &work, fault);
    return status == GLINT_OK ? check_words(&plan->problem, pass, tensors, GLINT_ROLE_READ, regions, count, &lse, &work, fault)
                              : status;
}

/* New rows of K or V, whose role is `role`. */
static enum glint_status region_of_new(const struct glint_tensor_role *role, const char *name, const char *strides_name,
                                       const void *rows, const struct glint_strides *s, const struct glint_append *append,
                                       const struct glint_plan *plan, struct glint_region *r, struct glint_fault *fault)
{
    const struct glint_problem *const p = &plan->problem;
    const int64_t element = glint_dtype_bytes(append->dtype), asked = plan->context->backend->row_bytes;
    const bool ragged = p->lengths == GLINT_LENGTHS_RAGGED;
    *r = (struct glint_region){.name = name,
                               .extent = {ragged ? 1 : p->batch, p->heads_kv, ragged ? p->rows_q : p->seqlen_q},
                               .strides = *s,
                               .row = glint_role_width(role, p),
                               .element = element,
                               .use = GLINT_ROLE_READ};
    return glint_place_rows(r, strides_name, rows, asked > element ? asked : element, fault);
}

/* K or V of the cache, which is written. */
static enum glint_status region_of_cache(const struct glint_tensor_role *role, const struct glint_plan *plan,
                                         const struct glint_tensors *tensors, struct glint_region *r, struct glint_fault *fault)
{
    const enum glint_status status = region_of(role, GLINT_FORWARD, plan, tensors, r, fault);
    r->use = GLINT_ROLE_WRITTEN;
    return status == GLINT_OK && r->begin != r->end ? check_steps(r, role->name, fault) : status;
}

enum glint_status glint_check_append(const struct glint_plan *plan, const struct glint_append *append,
                                     const struct glint_tensors *tensors, const void *stream, struct glint_fault *fault)
{
    enum { K, V, NEW_K, NEW_V, REGIONS };
    struct glint_region r[REGIONS], none = {0};
    if (!plan || !append || !tensors)
        return glint_refuse(fault, GLINT_REASON_NULL_ARGUMENT, !plan ? "plan" : !append ? "append" : "tensors", NULL, 0, 0);
    enum glint_status status = glint_check_plan(plan, GLINT_FORWARD, fault);
    if (status != GLINT_OK)
        return status;
    const struct glint_problem *p = &plan->problem;
    if (append->struct_size != sizeof *append)
        return glint_refuse(fault, GLINT_REASON_STRUCT_SIZE, "append.struct_size", NULL, append->struct_size,
                            (int64_t)sizeof *append);
    if (tensors->struct_size != sizeof *tensors)
        return glint_refuse(fault, GLINT_REASON_STRUCT_SIZE, "tensors.struct_size", NULL, tensors->struct_size,
                            (int64_t)sizeof *tensors);
    if (append->reserved[0] != 0 || append->reserved[1] != 0)
        return glint_refuse(fault, GLINT_REASON_RESERVED, "append.reserved", NULL,
                            (int64_t)append->reserved[append->reserved[0] == 0], 0);
    if (tensors->reserved != 0)
        return glint_refuse(fault, GLINT_REASON_RESERVED, "tensors.reserved", NULL, tensors->reserved, 0);
    if (p->kv_dtype == GLINT_I8 && p->kv_scales != GLINT_SCALES_ROW)
        return glint_refuse(fault, GLINT_REASON_APPEND_SCALES, "kv_scales", NULL, p->kv_scales, 0);
    if (append->dtype != GLINT_F32 && append->dtype != p->dtype)
        return glint_refuse(fault, GLINT_REASON_APPEND_DTYPE, "append.dtype", NULL, append->dtype, p->dtype);
    if (p->lengths == GLINT_LENGTHS_RAGGED && p->page_rows == 0)
        return glint_refuse(fault, GLINT_REASON_APPEND_RAGGED, "lengths", NULL, p->lengths, 0);
    const int64_t most = plan->context->backend->token_elements;
    if (most > 0 && p->heads_kv * p->head_dim > most)
        return glint_refuse(fault, GLINT_REASON_APPEND_HEADS, "heads_kv", NULL, p->heads_kv, most / p->head_dim);
    if (plan->context->backend->device == GLINT_DEVICE_CPU && stream)
        return glint_refuse(fault, GLINT_REASON_STREAM, "stream", NULL, 0, 0);

    const struct glint_tensor_role *const k = &glint_roles[1], *const v = &glint_roles[2];
    status = region_of_cache(k, plan, tensors, &r[K], fault);
    if (status == GLINT_OK)
        status = region_of_cache(v, plan, tensors, &r[V], fault);
    if (status == GLINT_OK)
        status = region_of_new(k, "append.k", "append.k_strides", append->k, &append->k_strides, append, plan, &r[NEW_K], fault);
    if (status == GLINT_OK)
        status = region_of_new(v, "append.v", "append.v_strides", append->v, &append->v_strides, append, plan, &r[NEW_V], fault);
    if (status != GLINT_OK)
        return status;
    if (share_elements(&r[K], &r[V]))
        return glint_refuse(fault, GLINT_REASON_OVERLAP, "k", "v", 0, 0);
    for (int i = NEW_K; i <= NEW_V; i++)
        for (int j = K; j <= V; j++)
            if (glint_regions_meet(&r[i], &r[j]))
                return glint_refuse(fault, GLINT_REASON_OVERLAP, r[i].name, r[j].name, 0, 0);
    struct glint_problem of_cache = *p;
    of_cache.sinks = 0;
    of_cache.intervals = 0;
    of_cache.tree = 0;
    of_cache.alibi = 0;
    of_cache.max_logit = 0;
    of_cache.bias_dtype = of_cache.dbias = 0;
    const struct glint_tensors words = {.first_q = tensors->first_q,
                                        .first_k = tensors->first_k,
                                        .seqlens_q = tensors->seqlens_q,
                                        .seqlens_k = tensors->seqlens_k,
                                        .page_table = tensors->page_table,
                                        .k_scale = tensors->k_scale,
                                        .v_scale = tensors->v_scale,
                                        .fault = tensors->fault};
    const int scaled = p->kv_scales == GLINT_SCALES_ROW ? GLINT_ROLE_WRITTEN : GLINT_ROLE_READ;
    return check_words(&of_cache, GLINT_FORWARD, &words, scaled, r, REGIONS, &none, &none, fault);
}
