/* Ragged sequences (GLINT_LENGTHS_RAGGED), for the rows of a GPU that take them: every sequence has the bits of a
 * problem of its lengths, wherever it begins and whatever is beside it, NaN and infinities in V too, from one plan for
 * all first rows. Rows of no sequence are NaN and reach nothing, and those of outputs are not written; first rows and
 * lengths out of bounds are clamped, and the first sequence that has one is noted. The same where K and V are in pages,
 * for the rows that find them there, with the bits of linear ones. The CPU's rows: tests/contract/lengths.c.
 *
 * The experiment is one sequence of all rows: a ragged sequence is some of them, in pages the keys from a first row
 * on. */
#include <math.h>
#include <string.h>

#include "tests/checks/experiment.h"
#include "tests/oracle/half.h"

enum { FEW = 6, MANY = 300, THOUSANDS = 4200, UNTOUCHED = 0x5a };

/* What a call says of one side, queries or keys. */
struct side {
    int32_t first[THOUSANDS + 1], used[THOUSANDS];
    bool all; /* no `used`: all rows of a sequence */
};

struct batch {
    int64_t count, bound[2];
    bool special;        /* NaN and infinities in V, backward in K and dO, too, of every other sequence */
    struct side side[2]; /* queries, keys */
    int64_t at[2][THOUSANDS], length[2][THOUSANDS]; /* what that means */
    int64_t page_rows;                              /* 0: linear K and V */
    bool alone;  /* `special` is one element of each head of a sequence, in one of its last rows */
    bool padded; /* no ragged ones: tensors are laid out for the bounds, GLINT_LENGTHS_DEVICE */
    uint32_t first_fault;
};

static int64_t within(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

static int64_t rows_of(const struct experiment *e, int keys)
{
    return keys ? e->shape.seqlen_k : e->shape.seqlen_q;
}

/* Carries the rules of glint.h out, one sequence after another. */
static void understand(const struct experiment *e, struct batch *b)
{
    b->first_fault = GLINT_NO_FAULT;
    for (int keys = 0; keys < 2; keys++) {
        const struct side *s = &b->side[keys];
        for (int64_t i = 0; i < b->count && b->padded; i++) {
            b->at[keys][i] = i * b->bound[keys];
            b->length[keys][i] = s->all ? b->bound[keys] : within(s->used[i], 0, b->bound[keys]);
            if (!s->all && b->length[keys][i] != s->used[i] && (uint32_t)i < b->first_fault)
                b->first_fault = (uint32_t)i;
        }
        int64_t row = within(s->first[0], 0, rows_of(e, keys));
        for (int64_t i = 0; i < b->count && keys && b->page_rows > 0;
             i++) { /* no first rows: those here are the experiment's alone */
            b->at[keys][i] = s->first[i];
            b->length[keys][i] = within(s->used[i], 0, b->bound[keys]);
            if (b->length[keys][i] != s->used[i] && (uint32_t)i < b->first_fault)
                b->first_fault = (uint32_t)i;
        }
        for (int64_t i = 0; i < b->count && !b->padded && !(keys && b->page_rows > 0); i++) {
            const int64_t end = within(within(s->first[i + 1], 0, rows_of(e, keys)), row, rows_of(e, keys));
            const int64_t given = s->all ? end - row : s->used[i];
            b->at[keys][i] = row;
            b->length[keys][i] = within(given, 0, end - row < b->bound[keys] ? end - row : b->bound[keys]);
            if ((row != s->first[i] || end != s->first[i + 1] || b->length[keys][i] != given) && (uint32_t)i < b->first_fault)
                b->first_fault = (uint32_t)i;
            row = end;
        }
    }
}

static bool has_keys(enum tensor t)
{
    return t == K || t == V || t == DK || t == DV;
}

/* Where a row lies in its tensor's bytes. The sequences of a padded batch have their LSE by themselves. */
static size_t place(const struct experiment *e, const struct batch *b, enum tensor t, int64_t h, int64_t row)
{
    const struct glint_strides *s = &e->view[t].strides;
    const int64_t of_padded =
        b->padded && b->bound[0] > 0 ? row / b->bound[0] * (e->shape.heads_q - 1) * b->bound[0] + h * b->bound[0] + row : 0;
    const int64_t of_lse = b->padded ? of_padded : h * e->shape.seqlen_q + row, at = t == LSE ? of_lse : h * s->head + row * s->row;
    return (size_t)at * dtype_bytes(tensor_dtype(e, t));
}

static size_t row_bytes(const struct experiment *e, enum tensor t)
{
    return (size_t)tensor_dim(e, t) * dtype_bytes(tensor_dtype(e, t));
}

static size_t all_bytes(const struct experiment *e, enum tensor t)
{
    return (size_t)tensor_heads(e, t) * (size_t)tensor_rows(e, t) * row_bytes(e, t);
}

/* The device's memory of a check. `elsewhere`: outputs of a sequence alone. */
struct memory {
    void *at[TENSORS], *elsewhere[TENSORS];
    int32_t *first[2], *used[2];
    uint32_t *fault;
    float *slopes, *bias;
    int32_t *begin, *end; /* which hide nothing; alike in all rows, as the bits of trees are */
    uint32_t *tree;
    float *sinks, *dsinks; /* [heads_q], and twice that, of a sequence alone in the second half; NULL: none */
    struct glint_plan plan;
    void *workspace; /* of the plan */
    size_t workspace_bytes;
    float *scales[2], *scales_elsewhere[2]; /* of 8-bit K and V; of a sequence alone */
    void *pool[2];                          /* K and V in pages, and the table of these */
    int32_t *table;
    size_t pool_bytes;
};

static enum glint_pass pass_of(const struct experiment *e)
{
    return (enum glint_pass)e->subject->info.pass;
}

/* Does query `row` of sequence i see none of the keys from `begin` to `end` - 1? */
static bool sees_none_of(const struct experiment *e, const struct batch *b, int64_t i, int64_t row, int64_t begin, int64_t end)
{
    const struct glint_problem *p = &e->problem;
    struct ref_shape own = {.seqlen_q = b->length[0][i], .seqlen_k = b->length[1][i]};
    ref_mask(&own, (enum glint_mask)p->mask, p->window_left, p->window_right, p->diagonal);
    const int64_t first = ref_first(&own, row), seen = ref_end(&own, row);
    return (first > begin ? first : begin) >= (seen < end ? seen : end);
}

static bool sees_none(const struct experiment *e, const struct batch *b, int64_t i, int64_t row)
{
    return sees_none_of(e, b, i, row, 0, INT64_MAX);
}

static bool narrow(const struct experiment *e)
{
    return e->problem.kv_dtype != 0;
}

/* The scale of a row of K (0) or V (1) of the experiment, of another number than its neighbours have. */
static float scale_of(const struct experiment *e, int v, int64_t h, int64_t row)
{
    return 0.25f + (float)((e->problem.kv_scales == GLINT_SCALES_ROW ? h * 1009 + row * 7 + v : h * 17 + v) % 61) / 16;
}

/* Scales of `units` of `rows` rows each, of which row r of unit u is row at[u] + r of the experiment if there are so
 * many in it: length[u]. Others are NaN. */
static void put_scales(const struct experiment *e, float *const device[2], int64_t units, int64_t rows, const int64_t *at,
                       const int64_t *length)
{
    const bool of_rows = e->problem.kv_scales == GLINT_SCALES_ROW;
    const int64_t heads = e->shape.heads_kv, count = of_rows ? units * heads * rows : heads;
    for (int v = 0; v < 2 && narrow(e); v++) {
        float *const scales = check_memory((size_t)(count + 1) * sizeof *scales);
        for (int64_t h = 0; h < heads && !of_rows; h++)
            scales[h] = scale_of(e, v, h, 0);
        for (int64_t i = 0; i < count && of_rows; i++) {
            const int64_t u = i / (heads * rows), row = i % rows;
            scales[i] = row < length[u] ? scale_of(e, v, i / rows % heads, at[u] + row) : NAN;
        }
        e->subject->backend->copy_in(device[v], scales, (size_t)count * sizeof *scales);
    }
}

/* Of a batch that is not in pages: one unit, in which rows of no sequence have none. */
static void put_ragged_scales(const struct experiment *e, const struct memory *memory, const struct batch *b)
{
    const bool of_rows = e->problem.kv_scales == GLINT_SCALES_ROW;
    const int64_t heads = e->shape.heads_kv, rows = rows_of(e, 1), count = of_rows ? heads * rows : heads;
    for (int v = 0; v < 2 && narrow(e); v++) {
        float *const scales = check_memory((size_t)(count + 1) * sizeof *scales);
        for (int64_t i = 0; i < count; i++)
            scales[i] = of_rows ? NAN : scale_of(e, v, i, 0);
        for (int64_t i = 0; i < b->count && of_rows; i++)
            for (int64_t h = 0; h < heads; h++)
                for (int64_t row = b->at[1][i]; row < b->at[1][i] + b->length[1][i]; row++)
                    scales[b->padded ? (i * heads + h) * b->bound[1] + row - b->at[1][i] : h * rows + row] = scale_of(e, v, h, row);
        e->subject->backend->copy_in(memory->scales[v], scales, (size_t)count * sizeof *scales);
    }
}

/* Row `row` of the experiment as it is stored: of 16 bits the numbers of `values`. */
static void store_row(const struct experiment *e, unsigned char *to, enum tensor t, int64_t h, int64_t row, const float *values)
{
    const float *const from = tensor_row(e, e->in[t], t, 0, h, row);
    if ((t == K || t == V) && narrow(e))
        memcpy(to, e->cache[t - K].bits + (from - e->in[t]), row_bytes(e, t));
    else
        dtype_store_row(tensor_dtype(e, t), to, values, tensor_dim(e, t));
}

/* A number of a tensor, in whose rows NaN and infinities of both signs are here and there. With `every` they are in each
 * row, in a column of its own, so that a query's O tells the keys that it sees. */
static float special_or(float value, int64_t row, int64_t d, int64_t dim, bool every)
{
    static const float special[] = {NAN, INFINITY, -INFINITY};
    return (every || row % 11 == 4) && d == row % dim ? special[row % 3] : value;
}

/* What the backward pass is given of O and LSE: any numbers where a query sees a key, and what the forward pass makes
 * of one that sees none. Q and dO of a sequence without keys are NaN. */
static float input_of(const struct experiment *e, const struct batch *b, enum tensor t, int64_t i, int64_t h, int64_t row,
                      int64_t d)
{
    const int64_t of_all = b->at[has_keys(t)][i] + row;
    const float value = tensor_row(e, e->in[t], t, 0, h, of_all)[d];
    const bool of_special = b->special && (i % 2 == 0 || b->page_rows > 0); /* in pages sequences share rows of the experiment */
    if (b->special && b->alone && (t == V || (pass_of(e) == GLINT_BACKWARD && (t == K || t == DOUT)))) {
        const int64_t last = b->length[has_keys(t)][i] - 1, dim = tensor_dim(e, t);
        const bool here =
            h == 0 ? row == last && d == (i % 2 != 0 ? dim / 2 : dim) - 1 : row == last - (i + 3 * h) % 7 && d == 5 * row % dim;
        return here ? NAN : value;
    }
    if (of_special && (t == V || (pass_of(e) == GLINT_BACKWARD && (t == K || t == DOUT))))
        return special_or(value, of_all, d, tensor_dim(e, t), pass_of(e) == GLINT_FORWARD);
    if ((t == Q || t == DOUT) && b->length[1][i] == 0)
        return NAN;
    if (t == LSE && e->sinks != NULL && row % 7 == 3 && !sees_none(e, b, i, row))
        return e->sinks[h] - 0x1p-9f; /* as if LSE had been rounded too far down */
    if ((t != O && t != LSE) || !sees_none(e, b, i, row))
        return t == LSE && value < -1e30f ? 1.0f : value;
    return t == O ? 0.0f : e->sinks != NULL ? e->sinks[h] : -INFINITY;
}

static void put_inputs(const struct experiment *e, const struct memory *memory, const struct batch *b)
{
    float *row_of_it = check_memory(1024 * sizeof(float));
    for (enum tensor t = Q; t < TENSORS; t++) {
        if (!pass_reads(pass_of(e), t))
            continue;
        unsigned char *bytes = check_memory(all_bytes(e, t) + 1);
        memset(bytes, 0xff, all_bytes(e, t)); /* NaN, in rows of no sequence */
        for (int64_t i = 0; i < b->count; i++)
            for (int64_t row = 0; row < b->length[has_keys(t)][i]; row++)
                for (int64_t h = 0; h < tensor_heads(e, t); h++) {
                    for (int64_t d = 0; d < tensor_dim(e, t); d++)
                        row_of_it[d] = input_of(e, b, t, i, h, row, d);
                    store_row(e, bytes + place(e, b, t, h, b->at[has_keys(t)][i] + row), t, h, b->at[has_keys(t)][i] + row,
                              row_of_it);
                }
        e->subject->backend->copy_in(memory->at[t], bytes, all_bytes(e, t));
    }
    if (b->page_rows == 0)
        put_ragged_scales(e, memory, b);
}

/* The keys of a batch in pages, in an order of the pool's own, which is NaN elsewhere. Of the table, entries of pages
 * whose keys no query sees are outside of the pool, those without a key are not there at all; `wild` puts the pool's
 * first and last page outside, too, which count as themselves. */
static void put_pages(const struct experiment *e, const struct memory *memory, struct batch *b, bool wild)
{
    const struct glint_problem *const p = &memory->plan.problem;
    const struct backend *const backend = e->subject->backend;
    const int64_t entries = b->count * p->pages_per_sequence;
    float *const row_of_it = check_memory(1024 * sizeof(float));
    int32_t *const table = check_memory((size_t)entries * sizeof *table);
    int64_t *const at_of = check_memory((size_t)p->pages * sizeof *at_of), *const keys_of =
                                                                               check_memory((size_t)p->pages * sizeof *keys_of);
    for (int v = 0; v < 2; v++) {
        const struct glint_strides *const s = v ? &p->v : &p->k;
        const enum tensor t = v ? V : K;
        const size_t element = dtype_bytes(tensor_dtype(e, t));
        unsigned char *const pool = check_memory(memory->pool_bytes);
        memset(pool, 0xff, memory->pool_bytes);
        for (int64_t at = 0; at < entries; at++) {
            const int64_t i = at / p->pages_per_sequence, key0 = at % p->pages_per_sequence * b->page_rows;
            const int64_t page = (7 * at + 5) % p->pages, keys = within(b->length[1][i] - key0, 0, b->page_rows);
            bool seen = false;
            for (int64_t row = 0; row < b->length[0][i]; row++)
                seen = seen || !sees_none_of(e, b, i, row, key0, key0 + keys);
            const bool outside = seen && wild && (page == 0 || page == p->pages - 1);
            table[at] = !seen ? (at % 2 ? -1 : (int32_t)p->pages) : !outside ? (int32_t)page : page == 0 ? -3 : INT32_MAX;
            if (outside && (uint32_t)i < b->first_fault)
                b->first_fault = (uint32_t)i;
            at_of[page] = b->at[1][i] + key0;
            keys_of[page] = seen ? keys : 0;
            for (int64_t row = 0; seen && row < keys; row++)
                for (int64_t h = 0; h < tensor_heads(e, t); h++) {
                    for (int64_t d = 0; d < tensor_dim(e, t); d++)
                        row_of_it[d] = input_of(e, b, t, i, h, key0 + row, d);
                    store_row(e, pool + (size_t)(page * s->batch + h * s->head + row * s->row) * element, t, h, at_of[page] + row,
                              row_of_it);
                }
        }
        backend->copy_in(memory->pool[v], pool, memory->pool_bytes);
    }
    put_scales(e, memory->scales, p->pages, b->page_rows, at_of, keys_of);
    backend->copy_in(memory->table, table, (size_t)entries * sizeof *table);
    for (int64_t at = 0; backend->forget != NULL && at < entries; at++)
        if (at % p->pages_per_sequence * b->page_rows >= b->length[1][at / p->pages_per_sequence])
            backend->forget(memory->table + at, sizeof *table);
}

static void fill_outputs(const struct experiment *e, void *const device[TENSORS])
{
    for (const enum tensor *t = pass_outputs(pass_of(e)); *t != TENSORS; t++) {
        unsigned char *bytes = check_memory(all_bytes(e, *t) + 1);
        memset(bytes, UNTOUCHED, all_bytes(e, *t));
        e->subject->backend->copy_in(device[*t], bytes, all_bytes(e, *t));
    }
}

static void call(const struct subject *subject, const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace)
{
    const struct backend *backend = subject->backend;
    const enum glint_status status = (subject->info.pass == GLINT_FORWARD ? backend->forward : backend->backward)(
        plan, tensors, workspace, plan->workspace_bytes, backend->stream);
    const char *finding = backend->finish();
    if (status != GLINT_OK)
        check_fail("the call was refused: %s", backend->status_name(status));
    if (finding != NULL)
        check_fail("the device failed: %s", finding);
}

static struct glint_tensors tensors_at(void *const at[TENSORS], const struct memory *memory)
{
    struct glint_tensors tensors = GLINT_TENSORS_INIT;
    for (enum tensor t = Q; t < TENSORS; t++)
        tensor_set(&tensors, t, at[t]);
    tensors.sinks = memory->sinks;
    tensors.dsinks = memory->dsinks;
    tensors.alibi_slopes = memory->slopes;
    tensors.bias = memory->bias;
    tensors.key_begin = memory->begin;
    tensors.key_end = memory->end;
    tensors.tree_bits = memory->tree;
    tensors.k_scale = memory->scales[0];
    tensors.v_scale = memory->scales[1];
    return tensors;
}

/* Sequence i by itself. */
static void run_alone(const struct experiment *e, const struct memory *memory, const struct batch *b, int64_t i)
{
    struct glint_problem alone = e->problem;
    void *at[TENSORS] = {NULL};
    alone.seqlen_q = b->length[0][i];
    alone.seqlen_k = b->length[1][i];
    for (enum tensor t = Q; t < TENSORS; t++)
        if (pass_reads(pass_of(e), t))
            at[t] = (unsigned char *)memory->at[t] + place(e, b, t, 0, b->at[has_keys(t)][i]);
        else
            at[t] = memory->elsewhere[t];
    if (pass_of(e) == GLINT_BACKWARD) { /* LSE is contiguous: it moves */
        float *lse = check_memory(all_bytes(e, LSE) + 1);
        at[LSE] = memory->elsewhere[LSE];
        for (int64_t h = 0; h < e->shape.heads_q; h++)
            for (int64_t row = 0; row < alone.seqlen_q; row++)
                lse[h * alone.seqlen_q + row] = input_of(e, b, LSE, i, h, row, 0);
        e->subject->backend->copy_in(at[LSE], lse, all_bytes(e, LSE));
    }
    fill_outputs(e, at);
    const struct glint_plan plan = experiment_plan(e->subject, &alone, pass_of(e), e->subject->variant, LANES_SERIAL);
    void *workspace = memory->workspace;
    if (e->subject->info.queries_up_to > 0 && plan.workspace_bytes > 0) /* in decode, fewer sequences are shared by more blocks */
        workspace = check_device_memory(e->subject->backend, plan.workspace_bytes, GLINT_WORKSPACE_ALIGNMENT, FENCE_NONE);
    else if (plan.workspace_bytes > memory->workspace_bytes)
        check_fail("a sequence alone wants %zu bytes of workspace, and the batch %zu", plan.workspace_bytes,
                   memory->workspace_bytes);
    struct glint_tensors tensors = tensors_at(at, memory);
    tensors.dsinks = memory->dsinks != NULL ? memory->dsinks + e->shape.heads_q : NULL;
    put_scales(e, memory->scales_elsewhere, 1, alone.seqlen_k, &b->at[1][i], &b->length[1][i]);
    tensors.dlse = e->shape.dlse ? tensors.lse : NULL;
    tensors.k_scale = memory->scales_elsewhere[0];
    tensors.v_scale = memory->scales_elsewhere[1];
    call(e->subject, &plan, &tensors, workspace);
}

/* The same bytes, or NaN in both places: which NaN the sum of two is, in the simulator the host's compiler decides. */
static bool same_row(const struct experiment *e, enum tensor t, const unsigned char *got, const unsigned char *expected)
{
    float one[2];
    const size_t element = dtype_bytes(tensor_dtype(e, t));
    bool same = true;
    for (size_t at = 0; at < row_bytes(e, t) && same; at += element) {
        dtype_load_row(tensor_dtype(e, t), &one[0], got + at, 1);
        dtype_load_row(tensor_dtype(e, t), &one[1], expected + at, 1);
        same = memcmp(got + at, expected + at, element) == 0 || (isnan(one[0]) && isnan(one[1]));
    }
    return same;
}

/* Sequence i of the batch against itself alone, byte by byte but for which NaN there is. */
static void compare(const struct experiment *e, unsigned char *const got[TENSORS], const struct memory *memory,
                    const struct batch *b, int64_t i)
{
    run_alone(e, memory, b, i);
    for (const enum tensor *t = pass_outputs(pass_of(e)); *t != TENSORS; t++) {
        unsigned char *expected = check_memory(all_bytes(e, *t) + 1);
        const int64_t length = b->length[has_keys(*t)][i], first = b->at[has_keys(*t)][i];
        e->subject->backend->copy_out(expected, memory->elsewhere[*t], all_bytes(e, *t));
        for (int64_t h = 0; h < tensor_heads(e, *t); h++)
            for (int64_t row = 0; row < length; row++) {
                const size_t own = *t == LSE ? (size_t)(h * length + row) * sizeof(float) : place(e, b, *t, h, row);
                const bool same = same_row(e, *t, got[*t] + place(e, b, *t, h, first + row), expected + own);
                if (!check_within("ragged", same ? 0 : 1, 0))
                    check_fail("%s[head %lld, row %lld] of sequence %lld, of %lld queries and %lld keys, is not what it is alone",
                               tensor_name[*t], (long long)h, (long long)row, (long long)i, (long long)b->length[0][i],
                               (long long)b->length[1][i]);
            }
    }
}

static void expect_untouched(const struct experiment *e, unsigned char *const got[TENSORS], const struct batch *b)
{
    for (const enum tensor *t = pass_outputs(pass_of(e)); *t != TENSORS; t++) {
        const int64_t rows = tensor_rows(e, *t);
        bool *const of_some = check_memory((size_t)rows + 1);
        for (int64_t i = 0; i < b->count; i++)
            memset(of_some + b->at[has_keys(*t)][i], 1, (size_t)b->length[has_keys(*t)][i]);
        for (int64_t row = 0; row < rows; row++)
            for (int64_t h = 0; h < tensor_heads(e, *t) && !of_some[row]; h++)
                for (size_t byte = 0; byte < row_bytes(e, *t); byte++)
                    if (!check_within("ragged: no sequence's", got[*t][place(e, b, *t, h, row) + byte] == UNTOUCHED ? 0 : 1, 0))
                        check_fail("%s[head %lld, row %lld], which is of no sequence, is written", tensor_name[*t], (long long)h,
                                   (long long)row);
    }
}

/* One batch of the plan. Of many sequences only some are run alone: each `stride`-th. `wild`: of put_pages. */
static void run_batch(struct experiment *e, const struct memory *memory, struct batch *b, int64_t stride, bool wild)
{
    const struct backend *backend = e->subject->backend;
    struct glint_tensors tensors = tensors_at(memory->at, memory);
    uint32_t word = GLINT_NO_FAULT;
    unsigned char *got[TENSORS] = {NULL};
    understand(e, b);
    for (int keys = 0; keys < 2; keys++) {
        backend->copy_in(memory->first[keys], b->side[keys].first, (size_t)(b->count + 1) * sizeof(int32_t));
        backend->copy_in(memory->used[keys], b->side[keys].used, (size_t)b->count * sizeof(int32_t));
    }
    backend->copy_in(memory->fault, &word, sizeof word);
    put_inputs(e, memory, b);
    fill_outputs(e, memory->at);
    tensors.dlse =
        e->shape.dlse ? tensors.lse : NULL; /* any numbers: -inf of a row that sees no key, NaN of one that is of no sequence */
    tensors.first_q = memory->first[0];
    tensors.first_k = memory->first[1];
    if (b->page_rows > 0) {
        put_pages(e, memory, b, wild);
        tensors.k = memory->pool[0];
        tensors.v = memory->pool[1];
        tensors.page_table = memory->table;
        tensors.first_k = NULL;
    }
    if (b->padded)
        tensors.first_q = tensors.first_k = NULL;
    tensors.seqlens_q = b->side[0].all ? NULL : memory->used[0];
    tensors.seqlens_k = b->side[1].all ? NULL : memory->used[1];
    tensors.fault = b->first_fault == GLINT_NO_FAULT && e->shape.detail != 0 ? NULL : memory->fault;
    call(e->subject, &memory->plan, &tensors, memory->workspace);
    backend->copy_out(&word, memory->fault, sizeof word);
    if (!check_within("ragged: fault", word == b->first_fault ? 0 : 1, 0))
        check_fail("the word for a fault is %u, not %u, the first sequence with a first row or a length that is none", word,
                   b->first_fault);
    for (const enum tensor *t = pass_outputs(pass_of(e)); *t != TENSORS; t++) {
        got[*t] = check_memory(all_bytes(e, *t) + 1);
        backend->copy_out(got[*t], memory->at[*t], all_bytes(e, *t));
    }
    expect_untouched(e, got, b);
    float *const sum = check_memory((size_t)e->shape.heads_q * sizeof(float));
    if (memory->dsinks != NULL)
        backend->copy_out(sum, memory->dsinks, (size_t)e->shape.heads_q * sizeof(float));
    float *const total = check_memory((size_t)e->shape.heads_q * sizeof(float)), *const one = check_memory(
                                                                                     (size_t)e->shape.heads_q * sizeof(float));
    for (int64_t i = 0; i < b->count; i += stride) {
        compare(e, got, memory, b, i);
        if (memory->dsinks != NULL)
            backend->copy_out(one, memory->dsinks + e->shape.heads_q, (size_t)e->shape.heads_q * sizeof(float));
        for (int64_t h = 0; h < e->shape.heads_q; h++)
            total[h] += -one[h];
    }
    for (int64_t h = 0; h < e->shape.heads_q && memory->dsinks != NULL && stride == 1; h++)
        if (!check_within("ragged: sinks", sum[h] == -total[h] || (isnan(sum[h]) && isnan(total[h])) ? 0 : 1, 0))
            check_fail("the gradient of sink %lld is %g, and those of the sequences alone sum up to %g", (long long)h,
                       (double)sum[h], (double)-total[h]);
}

/* What a row reads beside K and V: slopes, a bias of one zero, intervals and trees of all keys. */
static void put_what_hides_nothing(const struct experiment *e, const struct batch *b, struct memory *memory)
{
    const struct backend *backend = e->subject->backend;
    const int64_t queries = b->padded ? b->count * b->bound[0] : rows_of(e, 0), words = queries * ((b->bound[0] + 31) / 32);
    const int64_t elements = words > queries ? words : queries;
    int32_t *const fill = check_memory((size_t)(elements + 1) * sizeof *fill);
    for (int side = 0; side < 2 && e->problem.intervals != 0; side++) {
        for (int64_t i = 0; i < queries; i++)
            fill[i] = side == 0 ? INT32_MIN : INT32_MAX;
        *(side == 0 ? &memory->begin : &memory->end) =
            check_device_memory(backend, (size_t)queries * sizeof *fill + 1, 256, FENCE_NONE);
        backend->copy_in(side == 0 ? memory->begin : memory->end, fill, (size_t)queries * sizeof *fill);
    }
    if (e->problem.tree != 0) {
        memset(fill, 0xff, (size_t)words * sizeof *fill);
        memory->tree = check_device_memory(backend, (size_t)words * sizeof *fill + 1, 256, FENCE_NONE);
        backend->copy_in(memory->tree, fill, (size_t)words * sizeof *fill);
    }
    if (e->slopes != NULL) {
        memory->slopes = check_device_memory(backend, (size_t)e->shape.heads_q * sizeof(float), 256, FENCE_NONE);
        backend->copy_in(memory->slopes, e->slopes, (size_t)e->shape.heads_q * sizeof(float));
    }
    if (e->problem.bias_dtype != 0) {
        const float zero = 0;
        memory->bias = check_device_memory(backend, sizeof zero, 256, FENCE_NONE);
        backend->copy_in(memory->bias, &zero, sizeof zero);
    }
}

/* Plans the batch, and takes the memory that its calls want. */
static struct memory prepare(const struct experiment *e, const struct batch *b)
{
    const struct backend *backend = e->subject->backend;
    struct glint_problem problem = e->problem;
    struct memory memory = {.sinks = NULL};
    problem.lengths = GLINT_LENGTHS_RAGGED;
    problem.batch = b->count;
    problem.rows_q = rows_of(e, 0);
    problem.rows_k = b->page_rows > 0 ? 0 : rows_of(e, 1);
    problem.seqlen_q = b->bound[0];
    problem.seqlen_k = b->bound[1];
    if (b->padded) {
        struct glint_strides *const of_queries[] = {&problem.q, &problem.o, &problem.dout, &problem.dq}, *const of_keys[] = {
                                                                                                             &problem.k, &problem.v,
                                                                                                             &problem.dk,
                                                                                                             &problem.dv};
        problem.lengths = GLINT_LENGTHS_DEVICE;
        problem.rows_q = problem.rows_k = 0;
        for (int i = 0; i < 4; i++) {
            of_queries[i]->batch = b->bound[0] * of_queries[i]->row;
            of_keys[i]->batch = b->bound[1] * of_keys[i]->row;
        }
    }
    if (b->page_rows > 0) { /* pages of [head][row] of K, of [row][head] of V */
        const int64_t heads = e->shape.heads_kv, dim = tensor_dim(e, K), rows = b->page_rows;
        problem.page_rows = rows;
        problem.pages_per_sequence = (b->bound[1] + rows - 1) / rows + 1;
        problem.pages = b->count * problem.pages_per_sequence;
        problem.pages += problem.pages % 7 == 0; /* 7 does not divide it */
        problem.k = (struct glint_strides){heads * rows * dim, rows * dim, dim};
        problem.v = (struct glint_strides){heads * rows * dim, dim, heads * dim};
        memory.pool_bytes = (size_t)(problem.pages * problem.k.batch) * dtype_bytes(tensor_dtype(e, K));
        for (int v = 0; v < 2; v++)
            memory.pool[v] = check_device_memory(backend, memory.pool_bytes, 256, FENCE_NONE);
        memory.table = check_device_memory(backend, (size_t)(b->count * problem.pages_per_sequence) * 4, 256, FENCE_NONE);
    }
    for (int v = 0; v < 2 && narrow(e); v++) {
        const int64_t heads = e->shape.heads_kv, in_pages = problem.pages * b->page_rows, rows = rows_of(e, 1);
        memory.scales[v] =
            check_device_memory(backend, (size_t)(heads * (in_pages > rows ? in_pages : rows)) * sizeof(float), 256, FENCE_NONE);
        memory.scales_elsewhere[v] = check_device_memory(backend, (size_t)(heads * rows) * sizeof(float), 256, FENCE_NONE);
    }
    experiment_share_out(e->subject, &problem, e->shape.way);
    memory.plan = experiment_plan(e->subject, &problem, pass_of(e), e->subject->variant, LANES_SERIAL);
    memory.workspace_bytes = memory.plan.workspace_bytes;
    if (memory.plan.workspace_bytes > 0)
        memory.workspace = check_device_memory(backend, memory.plan.workspace_bytes, GLINT_WORKSPACE_ALIGNMENT, FENCE_NONE);
    for (enum tensor t = Q; t < TENSORS; t++) {
        if (pass_uses(pass_of(e), t))
            memory.at[t] = check_device_memory(backend, all_bytes(e, t) + 1, 256, FENCE_NONE);
        if (pass_writes(pass_of(e), t) || (pass_of(e) == GLINT_BACKWARD && t == LSE))
            memory.elsewhere[t] = check_device_memory(backend, all_bytes(e, t) + 1, 256, FENCE_NONE);
    }
    for (int keys = 0; keys < 2; keys++) {
        memory.first[keys] = check_device_memory(backend, (size_t)(b->count + 1) * sizeof(int32_t), 256, FENCE_NONE);
        memory.used[keys] = check_device_memory(backend, (size_t)b->count * sizeof(int32_t), 256, FENCE_NONE);
    }
    memory.fault = check_device_memory(backend, sizeof *memory.fault, 256, FENCE_NONE);
    put_what_hides_nothing(e, b, &memory);
    if (e->sinks != NULL) {
        memory.sinks = check_device_memory(backend, (size_t)e->shape.heads_q * sizeof(float), 256, FENCE_NONE);
        backend->copy_in(memory.sinks, e->sinks, (size_t)e->shape.heads_q * sizeof(float));
        if (pass_of(e) == GLINT_BACKWARD)
            memory.dsinks = check_device_memory(backend, 2 * (size_t)e->shape.heads_q * sizeof(float), 256, FENCE_NONE);
    }
    return memory;
}

static void set_first(struct side *side, const int64_t *first, int64_t count)
{
    for (int64_t i = 0; i <= count; i++)
        side->first[i] = (int32_t)first[i];
}

/* Keys per page of a check's second kind, by its shape. */
enum { LINEAR = 0, PADDED = 0, TOP_LEFT = 1, PAGES = 2 };

static struct experiment *experiment_of(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_new(subject, shape);
    e->problem.tree = subject->info.queries_up_to == 0 && subject_tree(subject);
    if (subject->info.pass == GLINT_FORWARD || shape->sinks)
        experiment_put_minus_infinity(e, 6);
    if (subject->info.pass == GLINT_FORWARD && shape->sinks) /* of one head none */
        e->sinks[shape->heads_q - 1] = -INFINITY;
    if (subject->info.pass == GLINT_BACKWARD) /* O = 0 and LSE = the sink in those rows */
        experiment_reference(e, false);
    if (e->problem.kv_dtype == GLINT_E4M3) /* int8 has a scale a row alone */
        e->problem.kv_scales = (shape->detail & TOP_LEFT) != 0 ? GLINT_SCALES_HEAD : GLINT_SCALES_ROW;
    return e;
}

static int64_t page_rows_of(const struct shape *shape)
{
    return (shape->detail & PAGES) == 0 ? 0 : (shape->detail & TOP_LEFT) != 0 ? 64 : 16;
}

/* Sequences of several lengths, none among them, with gaps and without; then fewer of their rows; then what no host
 * should give. */
static void few(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_of(subject, shape);
    const int64_t m = subject->info.tile_m, n = subject->info.tile_n, rows_q = shape->seqlen_q, rows_k = shape->seqlen_k;
    struct batch b = {.count = FEW, .bound = {m + 9, 2 * n + 9}, .page_rows = page_rows_of(shape)};
    const bool paged = b.page_rows > 0;
    const struct memory memory = prepare(e, &b);

    set_first(&b.side[0], (const int64_t[]){2, 3, 3, m + 12, m + 12 + m, m + 12 + m + 3, rows_q - 1}, FEW);
    set_first(&b.side[1], (const int64_t[]){0, n, n, 3 * n + 9, 3 * n + 9, paged ? 3 * n : 4 * n, rows_k}, FEW);
    const int32_t all_keys[] = {(int32_t)n, 0, (int32_t)(2 * n) + 9, 0, (int32_t)n - 9, 13};
    memcpy(b.side[1].used, all_keys, sizeof all_keys);
    b.side[0].all = true;
    b.side[1].all = !paged;
    run_batch(e, &memory, &b, 1, false);

    const int32_t fewer[] = {1, 0, (int32_t)m + 1, 5, 0, 2}, fewer_keys[] = {(int32_t)n - 1, 0, (int32_t)(2 * n), 0, 3, (int32_t)n};
    memcpy(b.side[0].used, fewer, sizeof fewer);
    memcpy(b.side[1].used, fewer_keys, sizeof fewer_keys);
    if (paged && (shape->detail & TOP_LEFT) != 0) /* in pages a length may be the only one that is none */
        b.side[1].used[3] = -1;
    b.side[0].all = b.side[1].all = false;
    b.special = !narrow(e);
    run_batch(e, &memory, &b, 1, true);

    set_first(&b.side[0], (const int64_t[]){INT32_MIN, m, 7, 2 * m, INT32_MAX, rows_q - 3, -1}, FEW);
    if (!paged)
        set_first(&b.side[1], (const int64_t[]){-1, 3, 2 * n, n, 5 * n, INT32_MAX, 0}, FEW);
    b.side[0].used[2] = INT32_MAX, b.side[0].used[3] = -1, b.side[1].used[0] = INT32_MIN;
    if (paged)
        b.side[1].used[2] = INT32_MAX;
    b.side[1].all = !paged && shape->detail != 0;
    run_batch(e, &memory, &b, 1, false);
    check_device_release_all();
}

/* So few rows, in decode, that blocks share the keys of a sequence: their results are folded by a kernel that looks for
 * the rows, too. */
static void shared_keys(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_of(subject, shape);
    const int32_t n = (int32_t)subject->info.tile_n, most = (int32_t)(shape->seqlen_k - 2) / 2;
    struct batch b = {.count = 2, .bound = {2, most}, .page_rows = page_rows_of(shape)};
    const struct memory memory = prepare(e, &b);
    const int32_t queries[2][2] = {{2, 1}, {1, 2}}, keys[2][2] = {{most, n + 1}, {n - 1, most - 9}};
    if (memory.plan.workspace_bytes == 0 && shape->way != 1)
        check_fail("blocks do not share the keys");
    set_first(&b.side[0], (const int64_t[]){1, 4, 6}, 2);
    set_first(&b.side[1], (const int64_t[]){2, most + 2, 2 * most + 2}, 2);
    for (int set = 0; set < 2; set++) {
        memcpy(b.side[0].used, queries[set], sizeof queries[0]);
        memcpy(b.side[1].used, keys[set], sizeof keys[0]);
        run_batch(e, &memory, &b, 1, set == 1);
    }
    check_device_release_all();
}

/* More queries than keys, by two and more; one key. */
static void few_keys(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_of(subject, shape);
    struct batch b = {.count = FEW, .bound = {8, 16}, .page_rows = page_rows_of(shape)};
    const struct memory memory = prepare(e, &b);
    set_first(&b.side[0], (const int64_t[]){0, 3, 7, 15, 16, 18, 18}, FEW);
    set_first(&b.side[1], (const int64_t[]){0, 1, 3, 6, 7, 12, 12}, FEW);
    memcpy(b.side[1].used, (const int32_t[]){1, 2, 3, 1, 5, 0}, sizeof(int32_t[FEW]));
    b.side[0].all = true;
    run_batch(e, &memory, &b, 1, false);
    check_device_release_all();
}

/* A padded batch, in the backward pass: lengths of several kinds, and the bound for all queries; then lengths that are
 * none. */
static void padded(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_of(subject, shape);
    const int32_t m = (int32_t)(shape->seqlen_q / FEW), n = (int32_t)(shape->seqlen_k / FEW), tile = (int32_t)subject->info.tile_n;
    const int32_t queries[2][FEW] = {{m, 1, m - 9, 0, 3, m - 1}, {2, INT32_MAX, -1, m, m - 1, 0}};
    const int32_t keys[3][FEW] = {
        {n, n - 3, tile, 5, 0, 1}, {tile + 1, n, 1, 0, n, tile}, {tile - 1, n - 1, n, INT32_MIN, INT32_MAX, n}};
    struct batch b = {.count = FEW, .bound = {m, n}, .padded = true};
    const struct memory memory = prepare(e, &b);
    for (int set = 0; set < 3; set++) { /* of one plan */
        b.special = set == 2;
        memcpy(b.side[0].used, queries[set / 2], sizeof queries[0]);
        memcpy(b.side[1].used, keys[set], sizeof keys[0]);
        b.side[0].all = set == 1;
        run_batch(e, &memory, &b, 1, false);
    }
    check_device_release_all();
}

/* A bound of no queries, or of no keys: the gradients of the others are zeros, and lengths are looked at all the
 * same. */
static void padded_of_none(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_of(subject, shape);
    const int32_t m = (int32_t)(shape->seqlen_q / FEW), n = (int32_t)(shape->seqlen_k / FEW);
    struct batch b = {.count = FEW, .bound = {m, n}, .padded = true};
    const struct memory memory = prepare(e, &b);
    for (int set = 0; set < 2; set++) {
        const int32_t queries[FEW] = {m, 0, m, 0, m, m}, keys[FEW] = {0, n, n, 0, set == 0 ? n : n + 1, n};
        memcpy(b.side[0].used, queries, sizeof queries);
        memcpy(b.side[1].used, keys, sizeof keys);
        run_batch(e, &memory, &b, 1, false);
    }
    check_device_release_all();
}

/* More sequences than a warp looks through at a time, for a step than it keeps in shared memory: most are short or
 * none, some are longer than a tile, and of a step blocks share the longest. Then a first row among them is none. */
static void many(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_of(subject, shape);
    const int32_t m = (int32_t)subject->info.tile_m, n = (int32_t)subject->info.tile_n;
    const bool divided = shape->way != 0; /* with that bound decode gives parts of the keys to blocks */
    const bool step = subject_is_step(subject), paged = page_rows_of(shape) > 0;
    const int32_t most = step ? 6 * n + 1 : n + 1;
    struct batch b = {.bound = {m + 3, divided          ? n + 303
                                       : step && !paged ? 20 * n
                                                        : most + 2},
                      .special = !narrow(e),
                      .page_rows = page_rows_of(shape)};
    b.count = divided ? 150 : !step ? MANY : paged ? 60 : THOUSANDS; /* the pool has room for the bound of each */
    const struct memory memory = prepare(e, &b);
    const int every = b.count == THOUSANDS ? 42 : 7, stride = b.count == THOUSANDS ? 43 : 22, longest = 2 * stride;
    int32_t q = 0, k = 0;
    for (int i = 0; i < b.count; i++) {
        const bool is_long = i == longest || i == 264 || i == THOUSANDS - 50;
        b.side[0].first[i] = q, b.side[1].first[i] = k;
        q += is_long ? (step ? m / 2 : m) + 2 : i % every == 1 ? 1 + i % 2 : 0;
        b.side[1].used[i] = i == longest ? most : is_long ? n + 1 : i % 5 == 2 || i % every > 2 ? 0 : 1;
        if (i == 4159) /* spans of two tiles, beyond the sequences that a plan keeps in shared memory */
            b.side[1].used[i] = 20 * n;
        k += b.side[1].used[i];
    }
    b.side[0].first[b.count] = q, b.side[1].first[b.count] = k;
    b.side[0].all = true;
    b.side[1].all = !paged;
    run_batch(e, &memory, &b, stride, false);
    b.side[0].first[b.count / 2] = -1; /* which is the end of the sequence before, too, where all of its rows count */
    if (!divided && !step)
        run_batch(e, &memory, &b, 4 * stride, false);
    for (int i = 0; i < b.count; i++)
        b.side[0].used[i] = (int32_t)within(i % 5, 0, b.side[0].first[i + 1] - b.side[0].first[i]);
    b.side[0].all = false;
    if (!divided)
        run_batch(e, &memory, &b, 4 * stride, false);
    check_device_release_all();
}

/* Many rows of few keys: the kernel that makes the gradient of sinks has a block for all rows of a head, and looks at
 * several turns of them at a time. */
static void many_rows(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_of(subject, shape);
    const int32_t rows = (int32_t)shape->seqlen_q / 2, keys = (int32_t)shape->seqlen_k / 2;
    struct batch b = {.count = 2, .bound = {rows, keys}, .padded = shape->detail == PADDED};
    const struct memory memory = prepare(e, &b);
    set_first(&b.side[0], (const int64_t[]){0, rows, 2 * rows}, 2);
    set_first(&b.side[1], (const int64_t[]){0, keys, 2 * keys}, 2);
    b.side[0].used[0] = rows, b.side[0].used[1] = rows / 3;
    b.side[1].used[0] = keys, b.side[1].used[1] = keys - 1;
    run_batch(e, &memory, &b, 1, false);
    check_device_release_all();
}

/* Is it a row of a GPU that takes these lengths, with linear K and V or in pages of so many rows? */
static bool takes(struct subject *subject, uint32_t lengths, int64_t page_rows)
{
    struct glint_problem problem;
    struct glint_plan plan = {.struct_size = sizeof plan};
    if (subject->info.sm == 0)
        return false;
    glint_problem_bshd(&problem, (enum glint_dtype)subject->info.dtype, 1, 1, 1, 1, 1, subject->info.head_dim);
    problem.lengths = lengths;
    problem.kv_dtype = subject->info.kv_dtype;
    problem.kv_scales = problem.kv_dtype != 0 ? GLINT_SCALES_ROW : GLINT_SCALES_NONE;
    problem.rows_q = lengths == GLINT_LENGTHS_RAGGED;
    problem.rows_k = lengths == GLINT_LENGTHS_RAGGED && page_rows == 0;
    problem.page_rows = page_rows;
    problem.pages = problem.pages_per_sequence = page_rows > 0;
    problem.softcap = subject_caps(subject) ? 1.0f : 0.0f;
    problem.alibi = subject_alibi(subject);
    problem.bias_dtype = subject_bias(subject) ? GLINT_F32 : 0;
    problem.intervals = subject->info.queries_up_to == 0 && subject_intervals(subject);
    problem.tree = subject->info.queries_up_to == 0 && subject_tree(subject);
    problem.mask = problem.tree != 0                                           ? GLINT_MASK_NONE
                   : (subject->info.features & GLINT_FEATURE_LEFT_BOUND) != 0  ? GLINT_MASK_BAND_BOTTOM_RIGHT
                   : (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0 ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT
                                                                               : GLINT_MASK_NONE;
    return subject->backend->plan(subject_context(subject, LANES_SERIAL), &problem, (enum glint_pass)subject->info.pass,
                                  subject->variant, &plan) == GLINT_OK;
}

/* The backward pass over a padded batch; that of the forward pass is in lengths.c. */
static void padded_checks(struct check_list *list, struct subject *subject, struct shape shape)
{
    const int64_t m = subject->info.tile_m, n = subject->info.tile_n;
    const bool band = (subject->info.features & GLINT_FEATURE_LEFT_BOUND) != 0;
    const bool masked = (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0;
    shape.seqlen_q = FEW * (m + 9);
    shape.seqlen_k = FEW * (n + 9);
    checks_add(list, padded, &shape, "lengths/%s", masked ? "bottom_right" : "full");
    if (masked)
        shape.mask = band ? GLINT_MASK_BAND_TOP_LEFT : GLINT_MASK_CAUSAL_TOP_LEFT;
    shape.layout = LAYOUT_BHSD;
    shape.sinks = subject_checks_sinks(subject);
    shape.dlse = true;
    shape.heads_kv = 1; /* a block of a persistent kernel may have a part of so many query heads */
    shape.detail = TOP_LEFT;
    checks_add(list, padded, &shape, "lengths/top_left");
    shape.seqlen_q = 0;
    checks_add(list, padded_of_none, &shape, "lengths/no_queries");
    shape.seqlen_q = 3 * FEW;
    shape.seqlen_k = 0;
    checks_add(list, padded_of_none, &shape, "lengths/no_keys");
}

/* What the row computes no problem without. A row of decode serves problems without intervals and trees, too, which these
 * are; intervals.c has those with them. Other rows have intervals and trees here that hide nothing. */
static void as_the_row(struct check_list *list, const struct subject *subject, size_t from)
{
    const bool decode = subject->info.queries_up_to > 0;
    for (size_t i = from; i < list->count; i++) {
        struct shape *const s = &list->at[i].shape;
        s->intervals = !decode && subject_intervals(subject) ? WIDE_INTERVALS : NO_INTERVALS;
        s->tree = NO_TREE;
        s->alibi = subject_alibi(subject) ? SLOPES : NO_ALIBI;
        if (decode || !subject_tree(subject))
            continue;
        s->mask = GLINT_MASK_NONE; /* all queries stand at a tree's end */
        s->window_left = s->window_right = s->diagonal = 0;
    }
}

void ragged_checks(struct check_list *list, struct subject *subject)
{
    const size_t from = list->count;
    const int64_t m = subject->info.tile_m, n = subject->info.tile_n;
    const bool band = (subject->info.features & GLINT_FEATURE_LEFT_BOUND) != 0;
    const bool masked = (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0;
    struct shape shape = {
        .batch = 1, .heads_q = 4, .heads_kv = 2, .seqlen_q = 2 * m + 36, .seqlen_k = 4 * n + 13, .seed = 0x726167};
    shape.softcap = subject_caps(subject) ? 2.0f : 0.0f;
    shape.window_left = band ? n / 2 : 0;
    shape.window_right = band ? 1 : 0;
    shape.mask = band ? GLINT_MASK_BAND_BOTTOM_RIGHT : masked ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
    if (subject->info.pass == GLINT_BACKWARD && takes(subject, GLINT_LENGTHS_DEVICE, 0))
        padded_checks(list, subject, shape);
    if (!takes(subject, GLINT_LENGTHS_RAGGED, 0))
        return;
    const bool paged = takes(subject, GLINT_LENGTHS_RAGGED, 16);
    checks_add(list, few, &shape, "ragged/%s", masked ? "bottom_right" : "full");
    shape.detail = PAGES;
    if (paged)
        checks_add(list, few, &shape, "ragged_pages/%s", masked ? "bottom_right" : "full");
    struct shape of_few = {.batch = 1, .heads_q = 2, .heads_kv = 1, .seqlen_q = 18, .seqlen_k = 12, .softcap = shape.softcap};
    for (int which = 0; subject_band(subject, which, &of_few); which += 3)
        for (of_few.detail = LINEAR; of_few.detail <= (paged ? PAGES : LINEAR); of_few.detail += PAGES)
            checks_add(list, few_keys, &of_few, "%s/few_keys_%d", of_few.detail == PAGES ? "ragged_pages" : "ragged", which);
    for (int i = 0; subject_diagonal(subject, i, &of_few); i++)
        for (of_few.detail = LINEAR; of_few.detail <= (paged ? PAGES : LINEAR); of_few.detail += PAGES)
            checks_add(list, few_keys, &of_few, "%s/diagonal_%d", of_few.detail == PAGES ? "ragged_pages" : "ragged", i);
    shape.detail = LINEAR;
    if (masked) {
        shape.mask = band ? GLINT_MASK_BAND_TOP_LEFT : GLINT_MASK_CAUSAL_TOP_LEFT;
        shape.layout = LAYOUT_BHSD;
        shape.sinks = subject_checks_sinks(subject);
        shape.dlse = subject->info.pass == GLINT_BACKWARD;
        shape.heads_kv = shape.dlse ? 1 : 2; /* as above */
        shape.detail = TOP_LEFT;
        checks_add(list, few, &shape, "ragged/top_left");
        shape.detail = TOP_LEFT | PAGES;
        if (paged)
            checks_add(list, few, &shape, "ragged_pages/top_left");
        shape.detail = TOP_LEFT;
    }
    if (subject->info.queries_up_to > 0) {
        struct shape shared = shape;
        shared.heads_kv = 1;
        shared.seqlen_q = 8;
        shared.seqlen_k = 10 * n + 20;
        checks_add(list, shared_keys, &shared, "ragged/shared_keys");
        shared.detail |= PAGES;
        if (paged)
            checks_add(list, shared_keys, &shared, "ragged_pages/shared_keys");
    }
    shape.heads_q = 2;
    shape.heads_kv = 1;
    if (subject_is_step(subject)) { /* a long sequence's few queries see its keys */
        shape.mask = band ? GLINT_MASK_BAND_BOTTOM_RIGHT : masked ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
        shape.window_left = band ? 6 * n : 0;
    }
    shape.seqlen_q = (subject_is_step(subject) ? 3 : 2) * m + 168;
    shape.seqlen_k = (subject_is_step(subject) ? 28 : 2) * n + 250;
    checks_add(list, many, &shape, "ragged/many");
    shape.seqlen_k -= subject_is_step(subject) ? 20 * n : 0;
    shape.detail |= PAGES;
    if (paged)
        checks_add(list, many, &shape, "ragged_pages/many");
    as_the_row(list, subject, from);
}

/* Few rows of many keys, on devices that share these out as steps, chunks and spans, and not at all. */
void divided_ragged_checks(struct check_list *list, struct subject *subject)
{
    const size_t from = list->count;
    const bool band = (subject->info.features & GLINT_FEATURE_LEFT_BOUND) != 0;
    const bool masked = (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0;
    struct shape s = {.batch = 1, .heads_q = 4, .heads_kv = 1, .seqlen_q = 8, .softcap = subject_caps(subject) ? 2.0f : 0.0f};
    if (subject->info.queries_up_to == 0 || !takes(subject, GLINT_LENGTHS_RAGGED, 0))
        return;
    const bool paged = takes(subject, GLINT_LENGTHS_RAGGED, 16);
    s.mask = band ? GLINT_MASK_BAND_BOTTOM_RIGHT : masked ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
    s.seqlen_k = 2 * experiment_divisible_keys(subject, 4) + 2;
    s.window_left = band ? s.seqlen_k / 3 : 0;
    for (s.way = 1; s.way <= 4; s.way++)
        for (s.detail = LINEAR; s.detail <= (paged ? PAGES : LINEAR); s.detail += PAGES)
            checks_add(list, shared_keys, &s, "divided/%s_%d", s.detail == PAGES ? "ragged_pages" : "ragged", s.way);
    s.heads_q = 1;
    s.seqlen_q = 2 * (int64_t)subject->info.tile_m + 168;
    s.seqlen_k = 2 * (int64_t)subject->info.tile_n + 250;
    s.way = 2; /* blocks begin with sequences of numbers up to 99, and go on to the others */
    for (s.detail = LINEAR; s.detail <= (paged ? PAGES : LINEAR); s.detail += PAGES)
        checks_add(list, many, &s, "divided/%s_many", s.detail == PAGES ? "ragged_pages" : "ragged");
    as_the_row(list, subject, from);
}

void many_rows_checks(struct check_list *list, struct subject *subject)
{
    struct shape s = {.batch = 1, .heads_q = 2, .heads_kv = 1, .seqlen_q = 2 * (7 * 256 + 40), .seqlen_k = 12, .sinks = true};
    const bool masked = (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0;
    const bool alone =
        subject_intervals(subject) || subject_bias(subject) || subject_alibi(subject); /* checks of their own have these */
    if (subject->info.pass != GLINT_BACKWARD || !subject_checks_sinks(subject) || alone)
        return;
    for (s.detail = PADDED; s.detail <= TOP_LEFT; s.detail++) {
        const char *const kind = s.detail == PADDED ? "lengths" : "ragged";
        if (!takes(subject, s.detail == PADDED ? GLINT_LENGTHS_DEVICE : GLINT_LENGTHS_RAGGED, 0))
            continue;
        s.dlse = false;
        s.mask = masked ? GLINT_MASK_CAUSAL_TOP_LEFT : GLINT_MASK_NONE;
        checks_add(list, many_rows, &s, "%s/many_rows", kind);
        s.mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT; /* of which the last alone see a key */
        s.dlse = true;
        if (masked)
            checks_add(list, many_rows, &s, "%s/many_blind_rows", kind);
    }
}

/* A step whose longest sequence has spans of all kinds, on a device that halves them and on one that shares them out as
 * many units: with a plan for all blocks, and a sequence alone with a plan of each block. What the last long one's
 * queries do not see all of is in two spans. */
static void long_keys(struct subject *subject, const struct shape *shape)
{
    enum { COUNT = 9, LONG = 8, LONGEST = 4 };
    const bool two_blocks = strcmp(subject->info.family, "sm80") == 0; /* of a multiprocessor, or three */
    const uint32_t devices[] = {two_blocks ? 1 : 2, two_blocks ? 12 : 30};
    const int32_t n = (int32_t)subject->info.tile_n, queries = (int32_t)shape->seqlen_q - 36, most = 42 * n + 5;
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        subject->multiprocessors = devices[i];
        struct experiment *e = experiment_of(subject, shape);
        struct batch b = {.count = COUNT, .bound = {queries + 20, most}, .special = !narrow(e), .page_rows = page_rows_of(shape)};
        const struct memory memory = prepare(e, &b);
        int32_t q = 0, k = 0;
        for (int s = 0; s < COUNT; s++) {
            b.side[0].first[s] = q, b.side[1].first[s] = k;
            q += s == LONGEST ? queries : s == LONG ? 20 : 1 + s % 2;
            b.side[1].used[s] = s == LONGEST ? most : s == LONG ? 20 * n + 9 : s;
            k += b.side[1].used[s];
        }
        b.side[0].first[COUNT] = q, b.side[1].first[COUNT] = k;
        b.side[0].all = true;
        b.side[1].all = b.page_rows == 0;
        run_batch(e, &memory, &b, LONGEST, false);
        check_device_release_all();
    }
}

void long_keys_checks(struct check_list *list, struct subject *subject)
{
    const int64_t m = subject->info.tile_m, n = subject->info.tile_n;
    const bool band = (subject->info.features & GLINT_FEATURE_LEFT_BOUND) != 0;
    const bool masked = (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0;
    const size_t from = list->count;
    struct shape s = {.batch = 1, .heads_q = 2, .heads_kv = 1, .seqlen_k = 64 * n + 50, .seed = 0x6c6f6e};
    if (!subject_is_step(subject) || !takes(subject, GLINT_LENGTHS_RAGGED, 0))
        return;
    s.softcap = subject_caps(subject) ? 2.0f : 0.0f;
    s.window_left = band ? 20 * n : 0;
    s.detail = TOP_LEFT | (takes(subject, GLINT_LENGTHS_RAGGED, 64) ? PAGES : LINEAR);
    s.seqlen_q = 36 + 3;
    s.mask = band ? GLINT_MASK_BAND_BOTTOM_RIGHT : masked ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
    checks_add(list, long_keys, &s, "law/long_keys");
    s.seqlen_q = 36 + m + 2; /* which see few of the keys */
    s.mask = band ? GLINT_MASK_BAND_TOP_LEFT : GLINT_MASK_CAUSAL_TOP_LEFT;
    if (masked)
        checks_add(list, long_keys, &s, "law/long_unseen_keys");
    as_the_row(list, subject, from);
}

enum { OF_BOUNDS = 4 };

/* The scores of `count` queries from `first` on are larger by so much in the second tile of keys than in all others, and those
 * of other queries are not. None is -inf: such a row has no maximum, and grows always. `of_keys`: the sequence's first key. */
static void grow(struct experiment *e, int64_t first, int64_t count, int64_t of_keys, float by)
{
    const int64_t dim = e->ref.head_dim, n = (int64_t)e->subject->info.tile_n, keys = rows_of(e, 1), queries = rows_of(e, 0);
    for (int64_t i = 0; i < tensor_count(e, Q); i++) {
        const int64_t row = i / dim % queries;
        if (i % dim == 0)
            e->in[Q][i] = row >= first && row < first + count ? 16 : 0;
        else if (!isfinite(e->in[Q][i]))
            e->in[Q][i] = 1;
    }
    for (int64_t row = 0; row < tensor_count(e, K) / dim; row++) {
        const int64_t key = row % keys - of_keys;
        e->in[K][row * dim] = dtype_round(e->dtype, key >= n && key < 2 * n ? by / (16 * e->ref.softmax_scale) : 0);
    }
    experiment_store(e);
}

/* The last of two sequences ends before each sixteenth row of a tile, where the tensors end: no row beyond it is looked
 * at. The first one ends behind such a row. Of each a special value stands alone. With OF_BOUNDS padded ones. */
static void each_end(struct subject *subject, const struct shape *shape)
{
    const int64_t m = (int64_t)subject->info.tile_m, n = (int64_t)subject->info.tile_n;
    const bool padded = (shape->detail & OF_BOUNDS) != 0, decode = subject->info.queries_up_to > 0;
    for (int64_t turn = 0; 16 * turn < n || turn < (decode ? 2 : 4); turn++) {
        const bool grows = turn < (decode ? 2 : 4) &&
                           subject->info.pass == GLINT_FORWARD; /* of eight rows, which all see some of the third tile */
        const int64_t queries = decode ? 8 - turn / 2 % 2 : 31 + 16 * turn % m, part = 16 * turn % n;
        const int64_t keys = 15 + part + (grows ? (3 + queries / n) * n : turn % 2 * n), others = part == 0 ? n : part;
        const int64_t eight = decode ? 8 * shape->heads_kv / shape->heads_q : 8;
        struct shape s = *shape;
        s.seqlen_q = padded ? 2 * queries : queries + 3;
        s.seqlen_k = padded ? 2 * keys : keys + others;
        s.softcap = subject_caps(subject) ? (grows ? 0x1p50f : 2.0f) : 0.0f;
        struct experiment *const e = experiment_of(subject, &s);
        if (grows)
            grow(e, eight * turn % queries + (padded ? queries : 3), eight, padded && page_rows_of(&s) == 0 ? keys : others,
                 turn < 2 || e->dtype == GLINT_F16 || narrow(e) ? 120 : 4e7f);
        struct batch b = {.count = 2, .bound = {queries, keys}, .page_rows = page_rows_of(&s), .padded = padded};
        const struct memory memory = prepare(e, &b);
        b.special = b.alone = !narrow(e);
        set_first(&b.side[0], (const int64_t[]){0, 3, queries + 3}, 2);
        set_first(&b.side[1], (const int64_t[]){0, others, keys + others}, 2);
        memcpy(b.side[0].used, (const int32_t[]){3, (int32_t)queries}, sizeof(int32_t[2]));
        memcpy(b.side[1].used, (const int32_t[]){(int32_t)others, (int32_t)keys}, sizeof(int32_t[2]));
        b.side[0].all = !padded && turn % 2 == 0;
        run_batch(e, &memory, &b, 1, false);
        check_device_release_all();
    }
}

/* So many tiles as the sequences can have at most: each has a row more than whole tiles, so that no block is left over. */
static void no_block_left(struct subject *subject, const struct shape *shape)
{
    enum { ONES = 75 };
    struct experiment *const e = experiment_of(subject, shape);
    const int32_t m = (int32_t)(shape->seqlen_q - ONES) / 3, keys = (int32_t)(shape->seqlen_k / ONES);
    struct batch b = {.count = ONES, .bound = {m + 1, keys}, .page_rows = page_rows_of(shape)};
    const struct memory memory = prepare(e, &b);
    int32_t row = 0;
    for (int i = 0; i < ONES; i++) {
        b.side[0].first[i] = row;
        b.side[1].first[i] = i * keys;
        b.side[1].used[i] = keys;
        row += i % 30 == 7 ? m + 1 : 1;
    }
    b.side[0].first[ONES] = row;
    b.side[1].first[ONES] = ONES * keys;
    b.side[0].all = true;
    run_batch(e, &memory, &b, 15, false);
    check_device_release_all();
}

void ragged_ends_checks(struct check_list *list, struct subject *subject)
{
    static const char *const names[] = {"ragged", "ragged_pages", "lengths", "pages"};
    const int64_t m = (int64_t)subject->info.tile_m;
    const bool right = (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0;
    const size_t from = list->count;
    struct shape s = {.batch = 1, .heads_q = 4, .heads_kv = 2, .seed = 0x656e64};
    s.softcap = subject_caps(subject) ? 2.0f : 0.0f;
    s.mask = right ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
    for (int kind = 0; kind < 4; kind++) {
        s.detail = (kind % 2 != 0 ? PAGES : LINEAR) | (kind >= 2 ? OF_BOUNDS : 0);
        if (!takes(subject, kind >= 2 ? GLINT_LENGTHS_DEVICE : GLINT_LENGTHS_RAGGED, kind % 2 != 0 ? 16 : 0))
            continue;
        checks_add(list, each_end, &s, "%s/each_end", names[kind]);
        struct shape ones = s;
        ones.heads_q = 2; /* the tiles of one are as many as those of another */
        ones.heads_kv = 1;
        ones.seqlen_q = 75 + 3 * m;
        ones.seqlen_k = (int64_t)75 * 5;
        if (kind < 2 && !subject_is_step(subject)) /* whose blocks are those of the device */
            checks_add(list, no_block_left, &ones, "%s/no_block_left", names[kind]);
    }
    as_the_row(list, subject, from);
}
