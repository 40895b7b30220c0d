#include "tests/contract/refusal_oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef __int128 wide; /* exact for every product that the fields can make */

static void add(struct faults *f, enum glint_status status, bool open, const char *tensor, const char *field)
{
    if (f->count == ORACLE_MAX)
        return; /* more faults than that allow any of the ones kept */
    struct fault *const one = &f->at[f->count++];
    one->status = status;
    one->open = open;
    snprintf(one->field, sizeof one->field, "%s%s%s", tensor, tensor[0] && field[0] ? "." : "", field);
}

static void fault(struct faults *f, enum glint_status status, const char *field)
{
    add(f, status, false, "", field);
}

/* ---- the problem ------------------------------------------------------------------------------------------------- */

static bool extent_fits(int64_t value, int64_t lowest)
{
    return value >= lowest && value <= GLINT_MAX_EXTENT;
}

static wide shape_bytes(const struct tensor_layout *s)
{
    if (s->batch == 0 || s->heads == 0 || s->rows == 0)
        return 0;
    const wide last =
        (wide)(s->batch - 1) * s->strides.batch + (wide)(s->heads - 1) * s->strides.head + (wide)(s->rows - 1) * s->strides.row;
    return (last + s->columns) * s->element_bytes;
}

enum overlap { DISJOINT, OVERLAPS, DISJOINT_INTERLEAVED, UNKNOWN };

static int compare_int64(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Whether two rows of one tensor share an element. Nested strides (each at least the span of all smaller ones)
 * cannot; otherwise the rows are listed and sorted when they are few. */
static enum overlap self_overlap(const struct tensor_layout *s)
{
    enum { LIMIT = 4096 };
    if (s->batch == 0 || s->heads == 0 || s->rows == 0)
        return DISJOINT;
    const int64_t extent[3] = {s->batch, s->heads, s->rows}, stride[3] = {s->strides.batch, s->strides.head, s->strides.row};
    int order[3] = {0, 1, 2};
    for (int i = 0; i < 3; i++) {
        for (int j = i + 1; j < 3; j++) {
            if (stride[order[j]] < stride[order[i]]) {
                const int swapped = order[i];
                order[i] = order[j];
                order[j] = swapped;
            }
        }
    }
    wide span = s->columns;
    bool nested = true, certain = false;
    for (int i = 0; i < 3; i++) {
        const int d = order[i];
        if (extent[d] == 1)
            continue;
        if (stride[d] < s->columns)
            certain = true; /* neighbours along this dimension share elements */
        if (stride[d] < span)
            nested = false;
        span += (wide)(extent[d] - 1) * stride[d];
    }
    if (nested)
        return DISJOINT;
    if (certain)
        return OVERLAPS;
    if ((wide)s->batch * s->heads * s->rows > LIMIT || span > INT64_MAX)
        return UNKNOWN;

    static int64_t starts[LIMIT];
    size_t n = 0;
    for (int64_t b = 0; b < s->batch; b++) {
        for (int64_t h = 0; h < s->heads; h++) {
            for (int64_t r = 0; r < s->rows; r++)
                starts[n++] = b * stride[0] + h * stride[1] + r * stride[2];
        }
    }
    qsort(starts, n, sizeof starts[0], compare_int64);
    for (size_t i = 1; i < n; i++) {
        if (starts[i] - starts[i - 1] < s->columns)
            return OVERLAPS;
    }
    return DISJOINT_INTERLEAVED;
}

static bool multiple(int64_t elements, int64_t size, uint32_t alignment)
{
    return (wide)elements * size % alignment == 0;
}

static bool is_band(const struct glint_problem *p)
{
    return p->mask == GLINT_MASK_BAND_TOP_LEFT || p->mask == GLINT_MASK_BAND_BOTTOM_RIGHT;
}

uint32_t oracle_features(const struct glint_problem *p)
{
    const bool window = is_band(p), left = window && p->window_left != GLINT_UNBOUNDED;
    const uint32_t scores = (p->softcap == 0 ? 0u : GLINT_FEATURE_SOFTCAP) | (p->alibi == 0 ? 0u : GLINT_FEATURE_ALIBI) |
                            (p->bias_dtype == 0 ? 0u : GLINT_FEATURE_BIAS);
    if (p->tree != 0)
        return scores | GLINT_FEATURE_LEFT_BOUND | GLINT_FEATURE_RIGHT_BOUND | GLINT_FEATURE_INTERVALS | GLINT_FEATURE_TREE;
    if (p->intervals != 0)
        return scores | GLINT_FEATURE_LEFT_BOUND | GLINT_FEATURE_RIGHT_BOUND | GLINT_FEATURE_INTERVALS;
    if (left)
        return scores | GLINT_FEATURE_LEFT_BOUND | GLINT_FEATURE_RIGHT_BOUND;
    return scores | (window ? (p->window_right != GLINT_UNBOUNDED ? GLINT_FEATURE_RIGHT_BOUND : 0u)
                            : (p->mask != GLINT_MASK_NONE ? GLINT_FEATURE_RIGHT_BOUND : 0u));
}

bool oracle_serves(const struct glint_variant_info *info, const struct glint_problem *p)
{
    const uint32_t biases = GLINT_FEATURE_ALIBI | GLINT_FEATURE_BIAS;
    const uint32_t wanted = oracle_features(p), sides = ~(uint32_t)(GLINT_FEATURE_SOFTCAP | biases);
    const bool caps = (info->features & GLINT_FEATURE_SOFTCAP) != 0, capped = (wanted & GLINT_FEATURE_SOFTCAP) != 0;
    const bool cap_fits = caps == capped || (caps && strcmp(info->family, "cpu") == 0);
    return cap_fits && ((info->features ^ wanted) & biases) == 0 && info->kv_dtype == p->kv_dtype &&
           ((info->features & sides) == (wanted & sides) || (info->queries_up_to > 0 && (wanted & sides & ~info->features) == 0));
}

/* Of addresses and strides: of an element, or of what the row asks beyond that. */
static uint32_t needed_alignment(const struct glint_variant_info *info, const struct glint_problem *p, enum tensor t)
{
    const uint32_t element = (uint32_t)element_bytes(tensor_dtype(p, t));
    return info->alignment_bytes > (uint32_t)element_bytes(p->dtype) ? info->alignment_bytes : element;
}

/* Whether row i writes the largest logits: it plans its simplest problem with them. */
static bool writes_logits(const struct glint_context *context, uint32_t i)
{
    const struct glint_variant_info info = row_at(i);
    struct glint_problem p;
    struct glint_plan plan = {.struct_size = sizeof plan};
    glint_problem_bshd(&p, (enum glint_dtype)info.dtype, 1, 1, 1, 1, 1, info.head_dim);
    serve_cache(&p, &info);
    p.intervals = (info.features & GLINT_FEATURE_INTERVALS) != 0;
    p.tree = (info.features & GLINT_FEATURE_TREE) != 0;
    p.alibi = (info.features & GLINT_FEATURE_ALIBI) != 0;
    p.softcap = (info.features & GLINT_FEATURE_SOFTCAP) != 0 ? 1.0f : 0.0f;
    p.mask = (info.features & GLINT_FEATURE_LEFT_BOUND) != 0    ? GLINT_MASK_BAND_BOTTOM_RIGHT
             : (info.features & GLINT_FEATURE_RIGHT_BOUND) != 0 ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT
                                                                : GLINT_MASK_NONE;
    p.max_logit = 1;
    return glint_plan_variant(context, &p, GLINT_FORWARD, i, &plan) == GLINT_OK;
}

/* Rows of the table for this problem: whether any exists, any runs here, and any accepts the strides. */
static void oracle_table(struct faults *f, const struct glint_context *context, const struct glint_problem *p, uint32_t pass,
                         bool strides_fit)
{
    bool exists = false, runs = false;
    struct faults best = {0};
    bool have_best = false;
    for (uint32_t i = 0; i < glint_variant_count(); i++) {
        const struct glint_variant_info info = row_at(i);
        if (info.pass != pass || info.dtype != p->dtype || info.head_dim != (uint64_t)p->head_dim || !oracle_serves(&info, p))
            continue;
        exists = true;
        if (glint_variant_available(context, i) != GLINT_OK)
            continue;
        runs = true;
        struct faults here = {0};
        if (p->order == GLINT_ORDER_CANONICAL && info.queries_up_to > 0) /* a spec may have decode alone for a key */
            fault(&here, GLINT_BAD_ORDER, "order");
        if (p->max_logit == 1 && !writes_logits(context, i))
            fault(&here, GLINT_BAD_LOGIT, "max_logit");
        for (enum tensor t = Q; t < TENSORS && strides_fit; t++) {
            if (t == LSE || !pass_uses((enum glint_pass)pass, t))
                continue;
            const struct tensor_layout s = tensor_layout(p, t);
            const uint32_t needs = needed_alignment(&info, p, t);
            if (s.batch > 1 && !multiple(s.strides.batch, s.element_bytes, needs))
                add(&here, GLINT_STRIDE_MISALIGNED, s.rows == 0, tensor_field[t], "batch");
            if (s.heads > 1 && !multiple(s.strides.head, s.element_bytes, needs))
                add(&here, GLINT_STRIDE_MISALIGNED, s.rows == 0, tensor_field[t], "head");
            if (s.rows > 1 && !multiple(s.strides.row, s.element_bytes, needs))
                add(&here, GLINT_STRIDE_MISALIGNED, false, tensor_field[t], "row");
        }
        if (!have_best || here.count < best.count)
            best = here;
        have_best = true;
    }
    if (!exists)
        fault(f, GLINT_NOT_IN_SPEC, "head_dim");
    else if (!runs)
        fault(f, GLINT_NOT_ON_DEVICE, "");
    for (size_t i = 0; i < best.count && f->count < ORACLE_MAX; i++)
        f->at[f->count++] = best.at[i];
}

/* The extents fit: offsets can be computed. */
static void oracle_bias(struct faults *f, const struct glint_problem *p, uint32_t pass, bool extents_fit)
{
    const int64_t extent[4] = {p->batch, p->heads_q, p->seqlen_q, p->seqlen_k};
    const int64_t stride[4] = {p->bias.batch, p->bias.head, p->bias.query, p->bias.key};
    static const char *const dimension[4] = {"batch", "head", "query", "key"};
    const bool given = p->bias_dtype != 0;
    if (given && p->bias_dtype != GLINT_F32 && p->bias_dtype != p->dtype)
        fault(f, GLINT_BAD_BIAS, "bias_dtype");
    if (given && p->alibi != 0)
        fault(f, GLINT_BAD_BIAS, "bias_dtype");
    if (p->dbias > 1 || (p->dbias != 0 && !given))
        fault(f, GLINT_BAD_BIAS, "dbias");
    wide span = 1;
    bool empty = false, fits = extents_fit, apart = true;
    for (int i = 0; i < 4 && given; i++) {
        if (stride[i] < 0) {
            add(f, GLINT_BAD_STRIDE, false, "bias", dimension[i]);
            fits = false;
        }
        empty = empty || extent[i] == 0;
    }
    bool seen[4] = {false};
    for (int round = 0; round < 4 && given && fits; round++) { /* the smallest stride first */
        int at = -1;
        for (int i = 0; i < 4; i++)
            at = !seen[i] && (at < 0 || stride[i] < stride[at]) ? i : at;
        seen[at] = true;
        apart = apart && (extent[at] <= 1 || stride[at] == 0 || stride[at] >= span);
        span += (wide)(extent[at] - 1) * stride[at];
    }
    if (given && fits && !empty && span * (p->bias_dtype == GLINT_F32 ? 4 : 2) > INT64_MAX)
        fault(f, GLINT_SIZE_OVERFLOW, "bias");
    if (given && fits && !empty && !apart && p->dbias != 0 && pass == GLINT_BACKWARD)
        add(f, GLINT_BAD_STRIDE, true, "bias", ""); /* interleaved, as those of other outputs */
}

void oracle_plan(struct faults *f, enum context_state state, const struct glint_context *context, const struct glint_problem *p,
                 uint32_t pass, const struct glint_plan *plan)
{
    f->count = 0;
    if (state == CONTEXT_NULL)
        fault(f, GLINT_NULL_ARGUMENT, "context");
    if (p == NULL)
        fault(f, GLINT_NULL_ARGUMENT, "problem");
    if (plan == NULL)
        fault(f, GLINT_NULL_ARGUMENT, "plan");
    if (f->count > 0)
        return;
    if (state == CONTEXT_IS_CLOSED)
        fault(f, GLINT_CONTEXT_CLOSED, "context");
    if (p->struct_size != sizeof *p) { /* the rest cannot be read */
        fault(f, GLINT_STRUCT_SIZE, "struct_size");
        return;
    }

    const bool pass_fits = pass == GLINT_FORWARD || pass == GLINT_BACKWARD;
    const bool dtype_fits = p->dtype >= GLINT_F32 && p->dtype <= GLINT_BF16;
    const bool mask_fits = p->mask >= GLINT_MASK_NONE && p->mask <= GLINT_MASK_BAND_BOTTOM_RIGHT;
    const bool head_dim_fits = p->head_dim > 0 && p->head_dim % 8 == 0;
    if (!pass_fits)
        fault(f, GLINT_BAD_PASS, "pass");
    if (!dtype_fits)
        fault(f, GLINT_BAD_DTYPE, "dtype");
    if (!mask_fits)
        fault(f, GLINT_BAD_MASK, "mask");
    if (is_band(p) ? p->window_left < GLINT_UNBOUNDED || p->window_left > GLINT_MAX_EXTENT : p->window_left != 0)
        fault(f, GLINT_BAD_WINDOW, "window_left");
    if (is_band(p) ? p->window_right < GLINT_UNBOUNDED || p->window_right > GLINT_MAX_EXTENT : p->window_right != 0)
        fault(f, GLINT_BAD_WINDOW, "window_right");
    if (p->mask == GLINT_MASK_NONE && p->diagonal != 0)
        fault(f, GLINT_BAD_DIAGONAL, "diagonal");
    if (!head_dim_fits)
        fault(f, GLINT_BAD_HEAD_DIM, "head_dim");
    if (head_dim_fits && p->head_dim > GLINT_MAX_EXTENT) /* in no spec; but a planner may also say that it is no head dim at all */
        add(f, GLINT_BAD_HEAD_DIM, true, "", "head_dim");
    if (p->head_dim_v != p->head_dim) /* no row of any spec has another */
        fault(f, GLINT_BAD_HEAD_DIM, "head_dim_v");
    const size_t before_extents = f->count;
    if (!extent_fits(p->batch, 1))
        fault(f, GLINT_BAD_BATCH, "batch");
    if (!extent_fits(p->heads_q, 1))
        fault(f, GLINT_BAD_HEADS, "heads_q");
    if (!extent_fits(p->heads_kv, 1))
        fault(f, GLINT_BAD_HEADS, "heads_kv");
    if (!extent_fits(p->seqlen_q, 0))
        fault(f, GLINT_BAD_SEQLEN, "seqlen_q");
    if (!extent_fits(p->seqlen_k, 0))
        fault(f, GLINT_BAD_SEQLEN, "seqlen_k");
    const bool extents_fit = f->count == before_extents;
    if (extent_fits(p->heads_q, 1) && extent_fits(p->heads_kv, 1) && p->heads_q % p->heads_kv != 0)
        fault(f, GLINT_BAD_HEAD_GROUP, "heads_q");
    if (!isfinite(p->softmax_scale))
        fault(f, GLINT_BAD_SCALE, "softmax_scale");
    if (p->lengths > GLINT_LENGTHS_RAGGED)
        fault(f, GLINT_BAD_LENGTHS, "lengths");
    const double cap = (double)p->softcap;
    if (cap != 0 && !(cap >= ldexp(1, -126) && cap <= ldexp(1, 124)))
        fault(f, GLINT_BAD_SOFTCAP, "softcap");
    if (p->kv_dtype != 0 && ((p->kv_dtype != GLINT_I8 && p->kv_dtype != GLINT_E4M3) || pass == GLINT_BACKWARD))
        fault(f, GLINT_BAD_KV_DTYPE, "kv_dtype");
    if (p->kv_scales > GLINT_SCALES_ROW || (p->kv_dtype == 0) != (p->kv_scales == GLINT_SCALES_NONE))
        fault(f, GLINT_BAD_SCALES, "kv_scales");
    if (p->sinks > 1)
        fault(f, GLINT_BAD_SINKS, "sinks");
    bool pages_fit = true; /* what the shape of K and V in pages is made of */
    if (p->page_rows == 0) {
        if (p->pages != 0)
            fault(f, GLINT_BAD_PAGES, "pages");
        if (p->pages_per_sequence != 0)
            fault(f, GLINT_BAD_PAGES, "pages_per_sequence");
    } else {
        const int64_t r = p->page_rows;
        pages_fit = (r == 16 || r == 32 || r == 64 || r == 128 || r == 256) && extent_fits(p->pages, 1);
        if (!(r == 16 || r == 32 || r == 64 || r == 128 || r == 256))
            fault(f, GLINT_BAD_PAGES, "page_rows");
        if (!extent_fits(p->pages, 1))
            fault(f, GLINT_BAD_PAGES, "pages");
        if (!extent_fits(p->pages_per_sequence, 1))
            fault(f, GLINT_BAD_PAGES, "pages_per_sequence");
        else if (pages_fit && extent_fits(p->seqlen_k, 0) && p->pages_per_sequence * r < p->seqlen_k)
            fault(f, GLINT_BAD_PAGES, "pages_per_sequence");
        if (pass != GLINT_FORWARD || p->lengths == GLINT_LENGTHS_HOST)
            fault(f, GLINT_BAD_PAGES, "page_rows");
    }
    const int64_t rows = p->lengths == GLINT_LENGTHS_RAGGED ? GLINT_MAX_EXTENT : 0;
    if (p->rows_q < 0 || p->rows_q > rows)
        fault(f, GLINT_BAD_RAGGED, "rows_q");
    if (p->rows_k < 0 || p->rows_k > (p->page_rows == 0 ? rows : 0))
        fault(f, GLINT_BAD_RAGGED, "rows_k");
    if (p->order > (pass == GLINT_FORWARD || !pass_fits ? GLINT_ORDER_CANONICAL : GLINT_ORDER_ANY))
        fault(f, GLINT_BAD_ORDER, "order");
    if (p->intervals > 1)
        fault(f, GLINT_BAD_INTERVALS, "intervals");
    if (p->tree > (pass == GLINT_FORWARD || !pass_fits ? 1u : 0u) || (p->tree == 1 && p->alibi != 0))
        fault(f, GLINT_BAD_TREE, "tree");
    if (p->alibi > 1)
        fault(f, GLINT_BAD_ALIBI, "alibi");
    oracle_bias(f, p, pass, extents_fit);
    if (p->max_logit > (pass == GLINT_FORWARD || !pass_fits ? 1u : 0u))
        fault(f, GLINT_BAD_LOGIT, "max_logit");
    if (p->reserved[0] != 0)
        fault(f, GLINT_BAD_RESERVED, "reserved");

    bool strides_fit = true;
    for (enum tensor t = Q; t < TENSORS; t++) {
        /* With a pass that is none, which strides are read is nobody's promise: all may be complained about. */
        if (t == LSE || (pass_fits && !pass_uses((enum glint_pass)pass, t)))
            continue;
        const struct tensor_layout s = tensor_layout(p, t);
        const size_t before = f->count;
        if (s.strides.batch < 0)
            add(f, GLINT_BAD_STRIDE, false, tensor_field[t], "batch");
        if (s.strides.head < 0)
            add(f, GLINT_BAD_STRIDE, false, tensor_field[t], "head");
        if (s.strides.row < 0)
            add(f, GLINT_BAD_STRIDE, false, tensor_field[t], "row");
        if (f->count > before)
            strides_fit = false;
        if (f->count > before || !extents_fit || !pages_fit || !head_dim_fits || !dtype_fits || !pass_fits)
            continue;

        if (pass_writes((enum glint_pass)pass, t)) {
            const enum overlap o = self_overlap(&s);
            /* Interleaved strides of which no two rows meet are legal by the letter; a planner that refuses what it
             * cannot cheaply prove is tolerated, and counted by the test. */
            if (o != DISJOINT)
                add(f, GLINT_BAD_STRIDE, o != OVERLAPS, tensor_field[t], "");
        }
        const wide bytes = shape_bytes(&s);
        struct tensor_layout one_row = s; /* an empty tensor has no offsets; one of its first row may be computed all the same */
        one_row.rows = 1;
        if (bytes > INT64_MAX || (s.rows == 0 && shape_bytes(&one_row) > INT64_MAX))
            add(f, GLINT_SIZE_OVERFLOW, s.rows == 0, tensor_field[t], "");
    }
    if (extents_fit && pass_fits) {
        const bool ragged = p->lengths == GLINT_LENGTHS_RAGGED;
        const wide rows = (wide)p->batch * p->heads_q * p->seqlen_q;
        if (rows * 4 > INT64_MAX && !ragged)
            fault(f, GLINT_SIZE_OVERFLOW, "lse");
        else if (rows * 4 > INT64_MAX / 4096) /* a workspace of O(rows) is a byte count too, of a size that only the plan knows */
            add(f, GLINT_SIZE_OVERFLOW, true, "", "workspace");
        const wide key_rows = (wide)p->batch * p->heads_kv * p->seqlen_k;
        if (key_rows * 4 > INT64_MAX / 4096)
            add(f, GLINT_SIZE_OVERFLOW, true, "", "workspace");
    }
    if (pass_fits && dtype_fits && mask_fits && head_dim_fits && state == CONTEXT_OPEN)
        oracle_table(f, context, p, pass, strides_fit && extents_fit && pages_fit);
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */

/* Whether a row of one tensor shares a byte with the interval. */
static bool rows_meet(const struct tensor_layout *s, uintptr_t base, uintptr_t from, uintptr_t to)
{
    for (int64_t b = 0; b < s->batch; b++) {
        for (int64_t h = 0; h < s->heads; h++) {
            for (int64_t r = 0; r < s->rows; r++) {
                const int64_t element = b * s->strides.batch + h * s->strides.head + r * s->strides.row;
                const uintptr_t first = base + (uintptr_t)(element * s->element_bytes);
                const uintptr_t last = first + (uintptr_t)(s->columns * s->element_bytes);
                if (first < to && from < last)
                    return true;
            }
        }
    }
    return false;
}

static bool rows_meet_of(const struct glint_problem *p, enum tensor t, uintptr_t base, uintptr_t from, uintptr_t to)
{
    const struct tensor_layout s = tensor_layout(p, t);
    return rows_meet(&s, base, from, to);
}

static bool tensors_meet(const struct glint_problem *p, enum tensor a, uintptr_t at_a, enum tensor b, uintptr_t at_b)
{
    const struct tensor_layout s = tensor_layout(p, a), other = tensor_layout(p, b);
    const size_t bytes_a = tensor_bytes(p, a), bytes_b = tensor_bytes(p, b);
    if (bytes_a == 0 || bytes_b == 0 || at_a + bytes_a <= at_b || at_b + bytes_b <= at_a)
        return false;
    for (int64_t i = 0; i < s.batch; i++) {
        for (int64_t h = 0; h < s.heads; h++) {
            for (int64_t r = 0; r < s.rows; r++) {
                const int64_t element = i * s.strides.batch + h * s.strides.head + r * s.strides.row;
                const uintptr_t first = at_a + (uintptr_t)(element * s.element_bytes);
                if (rows_meet(&other, at_b, first, first + (uintptr_t)(s.columns * s.element_bytes)))
                    return true;
            }
        }
    }
    return false;
}

static bool ranges_meet(uintptr_t a, size_t a_bytes, uintptr_t b, size_t b_bytes)
{
    const wide a_end = (wide)a + a_bytes, b_end = (wide)b + b_bytes;
    return a_bytes > 0 && b_bytes > 0 && (wide)a < b_end && (wide)b < a_end;
}

/* An array of `bytes` of floats, which the problem asks for or must not be given. */
static void oracle_floats(struct faults *f, const struct call_arguments *a, enum glint_pass pass, const void *array, size_t bytes,
                          bool asked, enum glint_status stray, const char *name, bool written)
{
    const struct glint_problem *const p = &a->plan->problem;
    const uintptr_t at = (uintptr_t)array, workspace = (uintptr_t)a->workspace;
    if (!asked) {
        if (array != NULL)
            fault(f, stray, name);
        return;
    }
    if (array == NULL) {
        if (bytes > 0)
            fault(f, GLINT_NULL_TENSOR, name);
        return;
    }
    if (at % sizeof(float) != 0)
        fault(f, GLINT_TENSOR_MISALIGNED, name);
    if (a->workspace != NULL && ranges_meet(at, bytes, workspace, a->plan->workspace_bytes))
        fault(f, GLINT_TENSOR_OVERLAP, name);
    for (enum tensor t = Q; t < TENSORS; t++) {
        const uintptr_t other = (uintptr_t)tensor_get(a->tensors, t);
        if (other == 0 || !pass_uses(pass, t) || !(written || pass_writes(pass, t)))
            continue;
        if (rows_meet_of(p, t, other, at, at + bytes))
            fault(f, GLINT_TENSOR_OVERLAP, name);
        else if (ranges_meet(at, bytes, other,
                             tensor_bytes(p, t))) /* between the rows of a tensor: dear to prove, may be refused */
            add(f, GLINT_TENSOR_OVERLAP, true, name, "");
    }
}

void oracle_call(struct faults *f, const struct call_arguments *a)
{
    f->count = 0;
    if (a->plan_null)
        fault(f, GLINT_NULL_ARGUMENT, "plan");
    if (a->tensors == NULL)
        fault(f, GLINT_NULL_ARGUMENT, "tensors");
    if (f->count > 0)
        return;
    if (a->context_closed)
        fault(f, GLINT_CONTEXT_CLOSED, "context");
    if (a->plan_changed)
        fault(f, GLINT_BAD_PLAN, "plan");
    const enum glint_pass pass = (enum glint_pass)a->plan->pass;
    if (a->called != pass)
        fault(f, GLINT_WRONG_PASS, "pass");
    if (a->tensors->struct_size != sizeof *a->tensors) { /* the rest cannot be read */
        fault(f, GLINT_STRUCT_SIZE, "struct_size");
        return;
    }
    if (a->tensors->reserved != 0)
        fault(f, GLINT_BAD_RESERVED, "reserved");
    if (a->stream != NULL)
        fault(f, GLINT_BAD_STREAM, "stream");

    const size_t needed = a->plan->workspace_bytes;
    const uintptr_t workspace = (uintptr_t)a->workspace;
    if (needed > 0 && (a->workspace_bytes < needed || a->workspace == NULL))
        fault(f, GLINT_WORKSPACE_TOO_SMALL, "workspace");
    if (a->workspace != NULL && workspace % GLINT_WORKSPACE_ALIGNMENT != 0)
        add(f, GLINT_WORKSPACE_MISALIGNED, needed == 0, "", "workspace"); /* one that nothing needs may be any address */

    const struct glint_variant_info row = row_at(a->plan->variant);
    const struct glint_problem *const p = &a->plan->problem;
    const size_t sinks = (size_t)p->heads_q * sizeof(float);
    const bool scaled = p->kv_dtype != 0;
    oracle_floats(f, a, pass, a->tensors->sinks, sinks, p->sinks != 0, GLINT_BAD_SINKS, "sinks", false);
    oracle_floats(f, a, pass, a->tensors->k_scale, scale_bytes(p), scaled, GLINT_BAD_SCALES, "k_scale", false);
    oracle_floats(f, a, pass, a->tensors->v_scale, scale_bytes(p), scaled, GLINT_BAD_SCALES, "v_scale", false);
    if (pass == GLINT_BACKWARD) {
        oracle_floats(f, a, pass, a->tensors->dsinks, sinks, p->sinks != 0, GLINT_BAD_SINKS, "dsinks", true);
        if (p->sinks != 0 && a->tensors->sinks != NULL && a->tensors->dsinks != NULL &&
            ranges_meet((uintptr_t)a->tensors->sinks, sinks, (uintptr_t)a->tensors->dsinks, sinks))
            fault(f, GLINT_TENSOR_OVERLAP, "dsinks");
    }
    /* A call of the wrong pass may be judged by either pass's needs: faults beside WRONG_PASS are welcome, not
     * required. */
    for (enum tensor t = Q; t < TENSORS; t++) {
        if (!pass_uses(pass, t))
            continue;
        const uintptr_t at = (uintptr_t)tensor_get(a->tensors, t);
        const size_t bytes = tensor_bytes(p, t);
        if (at == 0) {
            add(f, GLINT_NULL_TENSOR, bytes == 0, tensor_field[t], ""); /* an empty tensor has no element to point at */
            continue;
        }
        const uint32_t alignment = needed_alignment(&row, p, t);
        const uint32_t needs = t == LSE && alignment < 4 ? 4 : alignment; /* LSE is a float * whatever the dtype */
        if (at % needs != 0)
            add(f, GLINT_TENSOR_MISALIGNED, bytes == 0, tensor_field[t], "");
        if (a->workspace != NULL && ranges_meet(at, bytes, workspace, needed)) {
            /* an input in the workspace would be overwritten; glint.h forbids it of outputs only, so that it is left
             * open */
            add(f, GLINT_TENSOR_OVERLAP, !pass_writes(pass, t), tensor_field[t], "");
        } else if (a->workspace != NULL && ranges_meet(at, bytes, workspace, a->workspace_bytes)) {
            add(f, GLINT_TENSOR_OVERLAP, true, tensor_field[t], ""); /* in the part of a larger workspace that nothing needs */
        }
        for (enum tensor u = Q; u < TENSORS; u++) {
            if (u == t || !pass_uses(pass, u) || !(pass_writes(pass, t) || pass_writes(pass, u)))
                continue;
            const uintptr_t other = (uintptr_t)tensor_get(a->tensors, u);
            if (other == 0)
                continue;
            const struct glint_strides x = tensor_layout(p, t).strides, y = tensor_layout(p, u).strides;
            const bool views = x.batch == y.batch && x.head == y.head && x.row == y.row; /* of one fused tensor */
            if (tensors_meet(p, t, at, u, other))
                add(f, GLINT_TENSOR_OVERLAP, false, tensor_field[t], "");
            else if (!views && ranges_meet(at, bytes, other, tensor_bytes(p, u)))
                /* Disjoint bytes in one range of addresses, laid out differently: legal by the letter, dear to
                 * prove; refusing is tolerated. Views of one fused tensor have equal strides and must pass. */
                add(f, GLINT_TENSOR_OVERLAP, true, tensor_field[t], "");
        }
    }
}

/* ---- judging ----------------------------------------------------------------------------------------------------- */

bool oracle_allows(const struct faults *f, enum glint_status status)
{
    bool may_pass = true;
    for (size_t i = 0; i < f->count; i++) {
        if (f->at[i].status == status)
            return true;
        if (!f->at[i].open)
            may_pass = false;
    }
    return may_pass && status == GLINT_OK;
}

static bool word_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool text_has_word(const char *text, const char *word)
{
    const size_t length = strlen(word);
    if (length == 0)
        return true;
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) {
        if ((at == text || !word_character(at[-1])) && !word_character(at[length]))
            return true;
    }
    return false;
}

bool oracle_text_names(const struct faults *f, enum glint_status status, const char *text)
{
    for (size_t i = 0; i < f->count; i++) {
        if (f->at[i].status == status && text_has_word(text, f->at[i].field))
            return true;
    }
    return false;
}

const char *oracle_print(const struct faults *f)
{
    static char text[1024];
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < f->count && at + 80 < sizeof text; i++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s(%s)%s", i > 0 ? " or " : "", glint_status_name(f->at[i].status),
                               f->at[i].field, f->at[i].open ? "?" : "");
    }
    if (f->count == 0)
        snprintf(text, sizeof text, "GLINT_OK");
    return text;
}
