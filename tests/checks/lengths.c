/* Lengths that a kernel reads on its device (GLINT_LENGTHS_DEVICE), for the forward rows that do: every sequence has
 * the bits of a problem of its lengths, from one plan for all lengths; what lies beyond a length is NaN and reaches
 * nothing, and rows of O and LSE beyond one are not written; lengths out of bounds are clamped, and the first
 * sequence that has one is noted. K and V in pages have the same checks, for the rows that take them. The CPU's
 * rows: tests/contract/lengths.c, tests/contract/pages.c. */
#include <math.h>
#include <string.h>

#include "tests/checks/experiment.h"
#include "tests/oracle/half.h"

enum { BATCH = 5, UNTOUCHED = 0x5a };

/* Lengths of a call. first_fault: the first sequence that has one out of bounds. */
struct lengths {
    int64_t q[BATCH], k[BATCH];
    bool every_query; /* no seqlens_q: every sequence has the bound */
    uint32_t first_fault;
};

static int64_t clamped(int64_t length, int64_t bound)
{
    return length < 0 ? 0 : length > bound ? bound : length;
}

static int64_t queries_of(const struct experiment *e, const struct lengths *l, int64_t b)
{
    return l->every_query ? e->shape.seqlen_q : clamped(l->q[b], e->shape.seqlen_q);
}

static int64_t keys_of(const struct experiment *e, const struct lengths *l, int64_t b)
{
    return clamped(l->k[b], e->shape.seqlen_k);
}

/* Where a row lies in its tensor's bytes. */
static size_t place(const struct experiment *e, enum tensor t, int64_t b, int64_t h, int64_t row)
{
    const struct glint_strides *s = &e->view[t].strides;
    const int64_t at = t == LSE ? (b * e->shape.heads_q + h) * e->shape.seqlen_q + row : b * s->batch + h * s->head + row * s->row;
    return (size_t)at * dtype_bytes(tensor_dtype(e, t));
}

static size_t row_bytes(const struct experiment *e, enum tensor t)
{
    return (size_t)tensor_dim(e, t) * dtype_bytes(tensor_dtype(e, t));
}

static size_t all_bytes(const struct experiment *e, enum tensor t)
{
    return (size_t)e->shape.batch * (size_t)tensor_heads(e, t) * (size_t)tensor_rows(e, t) * row_bytes(e, t);
}

/* A row of an input as it is stored. */
static void store_row(const struct experiment *e, unsigned char *to, enum tensor t, int64_t b, int64_t h, int64_t row)
{
    const float *from = tensor_row(e, e->in[t], t, b, h, row);
    if (t != Q && e->problem.kv_dtype != 0)
        memcpy(to, e->cache[t - K].bits + (from - e->in[t]), row_bytes(e, t));
    else
        dtype_store_row(e->dtype, to, from, tensor_dim(e, t));
}

/* The scales of 8-bit K and V of the sequences [first, end), with room for `pitch` keys each; NaN beyond a length. */
static void put_scales(const struct experiment *e, float *const device[2], const struct lengths *l, int64_t first, int64_t end,
                       int64_t pitch)
{
    const int64_t heads = e->shape.heads_kv;
    const bool of_rows = e->problem.kv_scales == GLINT_SCALES_ROW;
    const size_t count = of_rows ? (size_t)((end - first) * heads * pitch) : (size_t)heads;
    for (int i = 0; i < 2 && e->problem.kv_dtype != 0; i++) {
        float *const scales = check_memory((count + 1) * sizeof *scales);
        for (size_t at = 0; at < count; at++)
            scales[at] = of_rows ? NAN : e->cache[i].scale[(int64_t)at * e->shape.seqlen_k];
        for (int64_t b = first; b < end && of_rows; b++)
            for (int64_t h = 0; h < heads; h++)
                for (int64_t key = 0; key < keys_of(e, l, b); key++)
                    scales[((b - first) * heads + h) * pitch + key] = e->cache[i].scale[(b * heads + h) * e->shape.seqlen_k + key];
        e->subject->backend->copy_in(device[i], scales, count * sizeof *scales);
    }
}

static void make_scales(const struct experiment *e, float *device[2])
{
    const size_t count = (size_t)(BATCH * e->shape.heads_kv * e->shape.seqlen_k + e->shape.heads_kv);
    for (int i = 0; i < 2 && e->problem.kv_dtype != 0; i++)
        device[i] = check_device_memory(e->subject->backend, count * sizeof(float), 256, FENCE_NONE);
}

static void put_inputs(const struct experiment *e, void *const device[TENSORS], const struct lengths *l)
{
    for (enum tensor t = Q; t <= V; t++) {
        unsigned char *bytes = check_memory(all_bytes(e, t) + 1);
        memset(bytes, 0xff, all_bytes(e, t)); /* NaN, beyond a length, and in queries of no keys */
        for (int64_t b = 0; b < e->shape.batch; b++)
            for (int64_t h = 0; h < tensor_heads(e, t); h++)
                for (int64_t row = 0; row < (t == Q && keys_of(e, l, b) > 0 ? queries_of(e, l, b) : keys_of(e, l, b)); row++)
                    store_row(e, bytes + place(e, t, b, h, row), t, b, h, row);
        e->subject->backend->copy_in(device[t], bytes, all_bytes(e, t));
    }
}

static void fill_outputs(const struct experiment *e, void *const device[TENSORS])
{
    for (enum tensor t = O; t <= LSE; t++) {
        unsigned char *bytes = check_memory(all_bytes(e, t) + 1);
        memset(bytes, UNTOUCHED, all_bytes(e, t));
        e->subject->backend->copy_in(device[t], bytes, all_bytes(e, t));
    }
}

static void call(const struct subject *subject, const struct glint_plan *plan, const struct glint_tensors *tensors)
{
    const struct backend *backend = subject->backend;
    void *workspace = plan->workspace_bytes > 0
                          ? check_device_memory(backend, plan->workspace_bytes, GLINT_WORKSPACE_ALIGNMENT, FENCE_NONE)
                          : NULL;
    const enum glint_status status = backend->forward(plan, tensors, workspace, plan->workspace_bytes, backend->stream);
    const char *finding = backend->finish();
    if (status != GLINT_OK)
        check_fail("the call was refused: %s", backend->status_name(status));
    if (finding != NULL)
        check_fail("the device failed: %s", finding);
}

static struct glint_tensors tensors_at(void *const device[TENSORS])
{
    struct glint_tensors tensors = GLINT_TENSORS_INIT;
    for (enum tensor t = Q; t <= LSE; t++)
        tensor_set(&tensors, t, device[t]);
    return tensors;
}

/* The device's memory as a call of this set wants it: its lengths, inputs that are NaN beyond them, outputs
 * untouched. */
static struct glint_tensors tensors_of_set(const struct experiment *e, void *const device[TENSORS], const struct lengths *l,
                                           int32_t *seqlens_q, int32_t *seqlens_k)
{
    const struct backend *backend = e->subject->backend;
    struct glint_tensors tensors = tensors_at(device);
    int32_t q[BATCH], k[BATCH];
    for (int b = 0; b < BATCH; b++)
        q[b] = (int32_t)l->q[b], k[b] = (int32_t)l->k[b];
    backend->copy_in(seqlens_q, q, sizeof q);
    backend->copy_in(seqlens_k, k, sizeof k);
    put_inputs(e, device, l);
    fill_outputs(e, device);
    tensors.seqlens_q = l->every_query ? NULL : seqlens_q;
    tensors.seqlens_k = seqlens_k;
    return tensors;
}

/* Sequence b by itself, whose O and LSE, `elsewhere`, are compared with the batch's, byte by byte. */
static void compare(struct experiment *e, void *const device[TENSORS], void *const elsewhere[TENSORS], float *const scales[2],
                    const struct lengths *l, int64_t b)
{
    const struct backend *backend = e->subject->backend;
    struct glint_problem alone = e->problem;
    void *at[TENSORS] = {NULL};
    alone.lengths = GLINT_LENGTHS_HOST;
    alone.batch = 1;
    alone.seqlen_q = queries_of(e, l, b);
    alone.seqlen_k = keys_of(e, l, b);
    for (enum tensor t = Q; t <= V; t++)
        at[t] = (unsigned char *)device[t] + place(e, t, b, 0, 0);
    for (enum tensor t = O; t <= LSE; t++)
        at[t] = elsewhere[t];
    fill_outputs(e, at);
    const struct glint_plan plan = experiment_plan(e->subject, &alone, GLINT_FORWARD, e->subject->variant, LANES_SERIAL);
    struct glint_tensors tensors = tensors_at(at);
    put_scales(e, scales, l, b, b + 1, alone.seqlen_k);
    tensors.k_scale = scales[0];
    tensors.v_scale = scales[1];
    call(e->subject, &plan, &tensors);
    for (enum tensor t = O; t <= LSE; t++) {
        unsigned char *got = check_memory(all_bytes(e, t) + 1), *expected = check_memory(all_bytes(e, t) + 1);
        backend->copy_out(got, device[t], all_bytes(e, t));
        backend->copy_out(expected, at[t], all_bytes(e, t));
        for (int64_t h = 0; h < tensor_heads(e, t); h++)
            for (int64_t row = 0; row < e->shape.seqlen_q; row++) {
                const unsigned char *mine = got + place(e, t, b, h, row);
                const size_t own = t == LSE ? (size_t)(h * alone.seqlen_q + row) * sizeof(float) : place(e, t, 0, h, row);
                bool same = row >= alone.seqlen_q || memcmp(mine, expected + own, row_bytes(e, t)) == 0;
                for (size_t i = 0; row >= alone.seqlen_q && i < row_bytes(e, t); i++)
                    same = same && mine[i] == UNTOUCHED;
                if (!check_within("lengths", same ? 0 : 1, 0))
                    check_fail("%s[batch %lld, head %lld, row %lld] of a sequence of %lld queries and %lld keys %s", tensor_name[t],
                               (long long)b, (long long)h, (long long)row, (long long)alone.seqlen_q, (long long)alone.seqlen_k,
                               row < alone.seqlen_q ? "is not what it is alone" : "is written");
            }
    }
}

static void expect_fault(const struct experiment *e, const uint32_t *word, uint32_t expected, const char *when)
{
    uint32_t got;
    e->subject->backend->copy_out(&got, word, sizeof got);
    if (!check_within("lengths: fault", got == expected ? 0 : 1, 0))
        check_fail("the word for a fault is %u, not %u, %s", got, expected, when);
}

/* Of BATCH sequences, also where checks have fewer. */
static struct experiment *experiment_of_all(struct subject *subject, const struct shape *shape)
{
    struct shape all = *shape;
    all.batch = BATCH;
    struct experiment *const e = experiment_new(subject, &all);
    experiment_put_minus_infinity(e, 6);
    experiment_store(e);
    return e;
}

static struct glint_problem problem_of(const struct experiment *e)
{
    struct glint_problem problem = e->problem;
    problem.lengths = GLINT_LENGTHS_DEVICE;
    return problem;
}

static void check_sets(struct subject *subject, const struct shape *shape, const struct lengths *sets, int count)
{
    struct experiment *e = experiment_of_all(subject, shape);
    const struct backend *backend = subject->backend;
    const struct glint_problem problem = problem_of(e);
    experiment_share_out(subject, &problem, shape->way);
    const struct glint_plan plan = experiment_plan(subject, &problem, GLINT_FORWARD, subject->variant, LANES_SERIAL);
    void *device[TENSORS] = {NULL}, *elsewhere[TENSORS] = {NULL};
    float *scales[2] = {NULL, NULL};
    uint32_t *fault = check_device_memory(backend, sizeof *fault, 256, FENCE_NONE), word = GLINT_NO_FAULT;
    int32_t *seqlens_q = check_device_memory(backend, sizeof(int32_t[BATCH]), 256, FENCE_NONE);
    int32_t *seqlens_k = check_device_memory(backend, sizeof(int32_t[BATCH]), 256, FENCE_NONE);
    for (enum tensor t = Q; t <= LSE; t++)
        device[t] = check_device_memory(backend, all_bytes(e, t) + 1, 256, FENCE_NONE);
    for (enum tensor t = O; t <= LSE; t++)
        elsewhere[t] = check_device_memory(backend, all_bytes(e, t) + 1, 256, FENCE_NONE);
    backend->copy_in(fault, &word, sizeof word);
    make_scales(e, scales);
    for (int set = 0; set < count; set++) { /* of one plan */
        const struct lengths *l = &sets[set];
        struct glint_tensors tensors = tensors_of_set(e, device, l, seqlens_q, seqlens_k);
        put_scales(e, scales, l, 0, BATCH, e->shape.seqlen_k);
        tensors.k_scale = scales[0];
        tensors.v_scale = scales[1];
        tensors.fault = set == 0 && shape->detail != 0 ? NULL : fault;
        call(subject, &plan, &tensors);
        expect_fault(e, fault, l->first_fault, "after lengths of which that sequence has the first one out of bounds");
        for (int64_t b = 0; b < BATCH; b++)
            compare(e, device, elsewhere, scales, l, b);
    }
    check_device_release_all();
}

static void lengths(struct subject *subject, const struct shape *shape)
{
    const int64_t m = shape->seqlen_q, n = shape->seqlen_k, tile = subject->info.tile_n;
    const struct lengths sets[] = {
        {{m, 1, m - 9, 0, 3}, {n, n - 3, tile, 5, 0}, false, GLINT_NO_FAULT},
        {{0}, {tile + 1, n, INT32_MAX, INT32_MIN, 1}, true, 2},
        {{2, INT32_MAX, -1, m, m - 1}, {tile - 1, n - 1, n, 2 * tile, n}, false, 1},
    };
    check_sets(subject, shape, sets, 3);
}

/* More queries than keys, by two and more; one key. */
static const struct lengths of_few_keys = {{3, 4, 8, 1, 2}, {1, 2, 3, 1, 5}, false, GLINT_NO_FAULT};

static void few_keys(struct subject *subject, const struct shape *shape)
{
    check_sets(subject, shape, &of_few_keys, 1);
}

/* As many heads as a section of Hopper's tiles has at least: the tiles of a sequence without so many queries are
 * passed over at once. */
static void many_heads(struct subject *subject, const struct shape *shape)
{
    const int64_t m = shape->seqlen_q, n = shape->seqlen_k;
    const struct lengths set = {{0, m, -3, 3, m - 9}, {n, 1, n, 0, n}, false, 2};
    check_sets(subject, shape, &set, 1);
}

/* ---- K and V in pages -------------------------------------------------------------------------------------------- */

/* Row `row` of a page in its pool, of pages of [head][row] or of [row][head]. */
static size_t place_in_pool(const struct experiment *e, const struct glint_strides *s, enum tensor t, int64_t page, int64_t h,
                            int64_t row)
{
    return (size_t)(page * s->batch + h * s->head + row * s->row) * dtype_bytes(tensor_dtype(e, t));
}

/* A table for the keys of a call: pages in an order of their own. A page of which no query sees a key has an index
 * outside of the pool, and so have (`wild`) the first one and the last one of the pool, which count as themselves.
 * Entries without a key hold what no one may take for an index. */
struct paging {
    int64_t batch, page_rows, per_sequence, pages;
    int32_t *entries; /* [batch][per_sequence] */
    int32_t *place;   /* the same: the page that is meant, or -1 */
    uint32_t first_bad;
};

static bool seen(const struct experiment *e, const struct lengths *l, int64_t b, int64_t key)
{
    const struct glint_problem *p = &e->problem;
    struct ref_shape own = {.seqlen_q = queries_of(e, l, b), .seqlen_k = keys_of(e, l, b)};
    ref_mask(&own, (enum glint_mask)p->mask, p->window_left, p->window_right, p->diagonal);
    for (int64_t i = 0; i < own.seqlen_q; i++)
        if (ref_first(&own, i) <= key && key < ref_end(&own, i))
            return true;
    return false;
}

static void make_table(const struct experiment *e, struct paging *p, const struct lengths *l, bool wild)
{
    p->first_bad = (int64_t)l->first_fault < p->batch ? l->first_fault : GLINT_NO_FAULT;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t i = 0; i < p->per_sequence; i++) {
            const int64_t at = b * p->per_sequence + i, page = wild ? (7 * at + 5) % p->pages : p->pages - 1 - 7 * at % p->pages;
            const int64_t end = (i + 1) * p->page_rows < keys_of(e, l, b) ? (i + 1) * p->page_rows : keys_of(e, l, b);
            bool used = false;
            for (int64_t key = i * p->page_rows; key < end; key++)
                used = used || seen(e, l, b, key);
            p->place[at] = used ? (int32_t)page : -1;
            p->entries[at] = i * p->page_rows >= end        ? INT32_MIN
                             : !used                        ? (i % 2 ? -1 : (int32_t)p->pages)
                             : wild && page == 0            ? -3
                             : wild && page == p->pages - 1 ? INT32_MAX
                                                            : (int32_t)page;
            if (used && p->entries[at] != page && (uint32_t)b < p->first_bad)
                p->first_bad = (uint32_t)b;
        }
}

/* K or V of the call in a pool that is NaN elsewhere. */
static void put_pool(const struct experiment *e, const struct paging *p, const struct glint_strides *s, enum tensor t, void *device,
                     size_t bytes, const struct lengths *l)
{
    unsigned char *const pool = check_memory(bytes);
    memset(pool, 0xff, bytes);
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t key = 0; key < keys_of(e, l, b); key++) {
            const int64_t page = p->place[b * p->per_sequence + key / p->page_rows];
            for (int64_t h = 0; page >= 0 && h < tensor_heads(e, t); h++)
                store_row(e, pool + place_in_pool(e, s, t, page, h, key % p->page_rows), t, b, h, key);
        }
    e->subject->backend->copy_in(device, pool, bytes);
}

/* Scales of 8-bit K (i = 0) and V of another number for each key, or head; p: where they lie in pages, NULL for
 * linear ones. NaN is what no key has. */
static void put_other_scales(const struct experiment *e, uint32_t kind, const struct paging *p, int64_t batch,
                             const struct lengths *l, float *const device[2])
{
    const int64_t heads = e->shape.heads_kv, rows = p ? p->page_rows : e->shape.seqlen_k;
    const int64_t count = kind == GLINT_SCALES_ROW ? (p ? p->pages : batch) * heads * rows : kind == GLINT_SCALES_HEAD ? heads : 1;
    for (int i = 0; i < 2; i++) {
        float *const scales = check_memory((size_t)(count + 1) * sizeof *scales);
        for (int64_t at = 0; at < count; at++)
            scales[at] = kind == GLINT_SCALES_ROW ? NAN : 0.5f + (float)(3 * at + i);
        for (int64_t b = 0; b < batch && kind == GLINT_SCALES_ROW; b++)
            for (int64_t key = 0; key < keys_of(e, l, b); key++) {
                const int64_t unit = p ? p->place[b * p->per_sequence + key / rows] : b;
                for (int64_t h = 0; unit >= 0 && h < heads; h++)
                    scales[(unit * heads + h) * rows + key % rows] =
                        0.25f + (float)(((b * heads + h) * 1009 + key * 7 + i) % 61) / 16;
            }
        e->subject->backend->copy_in(device[i], scales, (size_t)count * sizeof *scales);
    }
}

static void same_outputs(const struct experiment *e, unsigned char *const linear[TENSORS], void *const device[TENSORS],
                         int64_t page_rows)
{
    for (enum tensor t = O; t <= LSE; t++) {
        unsigned char *const got = check_memory(all_bytes(e, t) + 1);
        e->subject->backend->copy_out(got, device[t], all_bytes(e, t));
        if (!check_within("pages", memcmp(got, linear[t], all_bytes(e, t)) == 0 ? 0 : 1, 0))
            check_fail("%s of pages of %lld rows has other bits than of linear K and V", tensor_name[t], (long long)page_rows);
    }
}

/* Pages of each size have the bits of linear K and V, with NaN in whatever is not a key; a page outside of the pool
 * is clamped and noted. Of 8 bits with scales a row in most sets, which lie in pages too. With detail ALONE of the
 * first sequence by itself. */
enum { ALONE = 2 };

static void check_pages(struct subject *subject, const struct shape *shape, const struct lengths *sets, int count)
{
    const int64_t n = shape->seqlen_k;
    static const int64_t page_rows[] = {16, 256, 32, 64};
    static const uint32_t kinds[2][4] = {{GLINT_SCALES_ROW, GLINT_SCALES_ROW, GLINT_SCALES_HEAD, GLINT_SCALES_ROW},
                                         {GLINT_SCALES_ROW, GLINT_SCALES_TENSOR, GLINT_SCALES_ROW, GLINT_SCALES_HEAD}};
    struct experiment *e = experiment_of_all(subject, shape);
    const bool narrow = e->problem.kv_dtype != 0;
    const struct backend *backend = subject->backend;
    struct glint_problem problem = problem_of(e);
    problem.batch = shape->detail == ALONE ? 1 : BATCH;
    const struct glint_problem linear_problem = problem;
    experiment_share_out(subject, &problem, shape->way);
    void *device[TENSORS] = {NULL};
    float *scales[2] = {NULL, NULL};
    uint32_t *fault = check_device_memory(backend, sizeof *fault, 256, FENCE_NONE);
    int32_t *seqlens_q = check_device_memory(backend, sizeof(int32_t[BATCH]), 256, FENCE_NONE);
    int32_t *seqlens_k = check_device_memory(backend, sizeof(int32_t[BATCH]), 256, FENCE_NONE);
    for (enum tensor t = Q; t <= LSE; t++)
        device[t] = check_device_memory(backend, all_bytes(e, t) + 1, 256, FENCE_NONE);
    float *const sinks = check_device_memory(backend, (size_t)e->shape.heads_q * sizeof(float), 256, FENCE_NONE);
    if (e->sinks != NULL)
        backend->copy_in(sinks, e->sinks, (size_t)e->shape.heads_q * sizeof(float));
    make_scales(e, scales);
    for (int set = 0; set < count; set++) {
        const struct lengths *l = &sets[set];
        struct glint_tensors tensors = tensors_of_set(e, device, l, seqlens_q, seqlens_k);
        tensors.sinks = e->sinks != NULL ? sinks : NULL;
        struct glint_problem of_set = linear_problem;
        unsigned char *linear[TENSORS] = {NULL};
        if (narrow) {
            problem.kv_scales = of_set.kv_scales = kinds[e->problem.kv_dtype == GLINT_E4M3][set];
            put_other_scales(e, of_set.kv_scales, NULL, problem.batch, l, scales);
            tensors.k_scale = scales[0];
            tensors.v_scale = scales[1];
        }
        const struct glint_plan linear_plan = experiment_plan(subject, &of_set, GLINT_FORWARD, subject->variant, LANES_SERIAL);
        call(subject, &linear_plan, &tensors);
        for (enum tensor t = O; t <= LSE; t++) {
            linear[t] = check_memory(all_bytes(e, t) + 1);
            backend->copy_out(linear[t], device[t], all_bytes(e, t));
        }

        struct paging p = {.batch = problem.batch, .page_rows = page_rows[set]};
        p.per_sequence = (n + p.page_rows - 1) / p.page_rows + 1;
        p.pages = p.batch * p.per_sequence + 1 + (p.batch * p.per_sequence % 7 == 6); /* 7 does not divide it */
        p.entries = check_memory(sizeof(int32_t) * (size_t)(p.batch * p.per_sequence));
        p.place = check_memory(sizeof(int32_t) * (size_t)(p.batch * p.per_sequence));
        make_table(e, &p, l, set > 0);
        const int64_t heads = e->shape.heads_kv, dim = tensor_dim(e, K);
        const struct glint_strides by_head = {heads * p.page_rows * dim, p.page_rows * dim, dim},
                                   by_row = {heads * p.page_rows * dim, dim, heads * dim};
        problem.page_rows = p.page_rows;
        problem.pages = p.pages;
        problem.pages_per_sequence = p.per_sequence;
        problem.k = set == 1 ? by_row : by_head;
        problem.v = set == 0 ? by_row : by_head;
        const struct glint_plan plan = experiment_plan(subject, &problem, GLINT_FORWARD, subject->variant, LANES_SERIAL);
        const size_t bytes = (size_t)(p.pages * by_row.batch) * dtype_bytes(tensor_dtype(e, K));
        const size_t table_bytes = sizeof(int32_t) * (size_t)(p.batch * p.per_sequence);
        void *const pool_k = check_device_memory(backend, bytes, 256, FENCE_NONE);
        void *const pool_v = check_device_memory(backend, bytes, 256, FENCE_NONE);
        int32_t *const table = check_device_memory(backend, table_bytes, 256, FENCE_NONE);
        const uint32_t word = GLINT_NO_FAULT;
        put_pool(e, &p, &problem.k, K, pool_k, bytes, l);
        put_pool(e, &p, &problem.v, V, pool_v, bytes, l);
        if (narrow) {
            float *pool[2];
            for (int i = 0; i < 2; i++)
                pool[i] = check_device_memory(backend, (size_t)(p.pages * heads * p.page_rows) * sizeof(float), 256, FENCE_NONE);
            put_other_scales(e, problem.kv_scales, &p, problem.batch, l, pool);
            tensors.k_scale = pool[0];
            tensors.v_scale = pool[1];
        }
        backend->copy_in(table, p.entries, table_bytes);
        for (int64_t i = 0; backend->forget != NULL && i < p.batch * p.per_sequence; i++)
            if (p.entries[i] == INT32_MIN) /* no one may look at it */
                backend->forget(table + i, sizeof *table);
        backend->copy_in(fault, &word, sizeof word);
        fill_outputs(e, device);
        tensors.k = pool_k;
        tensors.v = pool_v;
        tensors.page_table = table;
        tensors.fault = fault;
        call(subject, &plan, &tensors);
        same_outputs(e, linear, device, p.page_rows);
        expect_fault(e, fault, p.first_bad, "after a page of which that sequence has the first one outside of the pool");
    }
    check_device_release_all();
}

static void pages(struct subject *subject, const struct shape *shape)
{
    const int64_t m = shape->seqlen_q, n = shape->seqlen_k, tile = subject->info.tile_n;
    const struct lengths sets[] = {
        {{m, 1, m - 9, 0, 3}, {n, n - 3, tile, 5, 0}, false, GLINT_NO_FAULT},
        {{0}, {tile + 1, n, 1, 2 * tile, n}, true, GLINT_NO_FAULT},
        {{2, m, 0, m, m - 1}, {tile - 1, n - 1, n, 2 * tile, INT32_MAX}, false, 4},
        {{0}, {n - 5, tile + 17, n, 2 * tile, 3}, true, GLINT_NO_FAULT},
    };
    check_pages(subject, shape, sets, 4);
}

static void few_keys_in_pages(struct subject *subject, const struct shape *shape)
{
    check_pages(subject, shape, &of_few_keys, 1);
}

/* More sequences than the threads of a block look at together, nearly all of them without keys: the word for a fault is
 * lowered to the first whose length is none, of either side, wherever it lies. */
static void faults_of_many(struct subject *subject, const struct shape *shape)
{
    enum { MANY = 2200 };
    static const int first_bad[] = {2150, 130, 1300, 430, MANY};
    struct shape of_all = *shape;
    of_all.batch = MANY;
    struct experiment *const e = experiment_new(subject, &of_all);
    const struct backend *backend = subject->backend;
    const int64_t dim = tensor_dim(e, K), page_rows = shape->detail;
    struct glint_problem problem = problem_of(e);
    if (page_rows > 0) { /* all keys are those of one page, as many as of five sequences */
        problem.page_rows = page_rows;
        problem.pages = problem.pages_per_sequence = 1;
        problem.k = problem.v = (struct glint_strides){page_rows * dim, page_rows * dim, dim};
    }
    experiment_share_out(subject, &problem, shape->way);
    const struct glint_plan plan = experiment_plan(subject, &problem, GLINT_FORWARD, subject->variant, LANES_SERIAL);
    void *device[TENSORS] = {NULL};
    float *scales[2] = {NULL, NULL};
    int32_t *const table = check_device_memory(backend, sizeof(int32_t[MANY]), 256, FENCE_NONE);
    backend->copy_in(table, check_memory(sizeof(int32_t[MANY])), sizeof(int32_t[MANY]));
    int32_t *const lengths[2] = {check_device_memory(backend, sizeof(int32_t[MANY]), 256, FENCE_NONE),
                                 check_device_memory(backend, sizeof(int32_t[MANY]), 256, FENCE_NONE)};
    uint32_t *const fault = check_device_memory(backend, sizeof *fault, 256, FENCE_NONE);
    for (enum tensor t = Q; t <= LSE; t++) {
        unsigned char *const zeros = check_memory(all_bytes(e, t) + 1);
        device[t] = check_device_memory(backend, all_bytes(e, t) + 1, 256, FENCE_NONE);
        backend->copy_in(device[t], zeros, all_bytes(e, t));
    }
    for (int i = 0; i < 2 && problem.kv_dtype != 0; i++) {
        const size_t bytes = sizeof(float) * (size_t)(MANY * e->shape.seqlen_k);
        scales[i] = check_device_memory(backend, bytes, 256, FENCE_NONE);
        backend->copy_in(scales[i], check_memory(bytes), bytes);
    }
    for (size_t i = 0; i < sizeof first_bad / sizeof first_bad[0]; i++) {
        int32_t side[2][MANY];
        const uint32_t word = GLINT_NO_FAULT;
        const bool of_keys = i % 2 == 0;
        for (int b = 0; b < MANY; b++)
            side[0][b] = b % 3, side[1][b] = b % 150 == 7 ? 2 : 0;
        for (int b = first_bad[i]; b < MANY; b += 57)
            side[of_keys][b] = b % 2 != 0 ? -1 : (int32_t)(of_keys ? shape->seqlen_k : shape->seqlen_q) + 1;
        for (int keys = 0; keys < 2; keys++)
            backend->copy_in(lengths[keys], side[keys], sizeof side[keys]);
        backend->copy_in(fault, &word, sizeof word);
        struct glint_tensors tensors = tensors_at(device);
        tensors.seqlens_q = i % 4 == 0 ? NULL : lengths[0];
        tensors.seqlens_k = lengths[1];
        tensors.page_table = page_rows > 0 ? table : NULL;
        tensors.k_scale = scales[0];
        tensors.v_scale = scales[1];
        tensors.fault = fault;
        call(subject, &plan, &tensors);
        expect_fault(e, fault, first_bad[i] < MANY ? (uint32_t)first_bad[i] : GLINT_NO_FAULT, "after lengths of many sequences");
    }
    check_device_release_all();
}

/* Of a bound that decode shares out to blocks. Sequences are shorter, and some end in a part that has few keys. */
static struct lengths shared_out(const struct subject *subject, const struct shape *shape)
{
    const int64_t n = shape->seqlen_k, tile = subject->info.tile_n;
    return (struct lengths){{3, 1, 2, 0, 3}, {n - 3, 9 * tile + 1, 8 * tile, 5, 0}, false, GLINT_NO_FAULT};
}

static void divided(struct subject *subject, const struct shape *shape)
{
    const struct lengths l = shared_out(subject, shape);
    check_sets(subject, shape, &l, 1);
}

static void divided_in_pages(struct subject *subject, const struct shape *shape)
{
    const struct lengths l = shared_out(subject, shape);
    check_pages(subject, shape, &l, 1);
}

/* O = 0 and LSE = -inf in all rows. */
static void expect_no_keys(const struct experiment *e, void *const device[TENSORS])
{
    for (enum tensor t = O; t <= LSE; t++) {
        unsigned char *const got = check_memory(all_bytes(e, t) + 1);
        float *const row = check_memory((size_t)tensor_dim(e, t) * sizeof *row);
        e->subject->backend->copy_out(got, device[t], all_bytes(e, t));
        for (size_t at = 0; at < all_bytes(e, t); at += row_bytes(e, t)) {
            dtype_load_row(tensor_dtype(e, t), row, got + at, tensor_dim(e, t));
            for (int64_t d = 0; d < tensor_dim(e, t); d++)
                if (!check_within("lengths", row[d] == (t == O ? 0 : -INFINITY) ? 0 : 1, 0))
                    check_fail("%s of no keys is %g", tensor_name[t], (double)row[d]);
        }
    }
}

/* A bound of no queries, or of no keys: lengths are looked at all the same. */
static void no_bound(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_of_all(subject, shape);
    const struct backend *backend = subject->backend;
    const struct glint_problem problem = problem_of(e);
    const struct glint_plan plan = experiment_plan(subject, &problem, GLINT_FORWARD, subject->variant, LANES_SERIAL);
    void *device[TENSORS] = {NULL};
    const int32_t none[BATCH] = {0}, keys[BATCH] = {0, 0, 0, 7, 0};
    const uint32_t word = GLINT_NO_FAULT;
    struct lengths l = {.first_fault = 3};
    uint32_t *fault = check_device_memory(backend, sizeof *fault, 256, FENCE_NONE);
    int32_t *seqlens = check_device_memory(backend, sizeof none, 256, FENCE_NONE);
    for (enum tensor t = Q; t <= LSE; t++)
        device[t] = check_device_memory(backend, all_bytes(e, t) + 1, 256, FENCE_NONE);
    float *scales[2] = {NULL, NULL};
    put_inputs(e, device, &l);
    fill_outputs(e, device);
    make_scales(e, scales);
    put_scales(e, scales, &l, 0, BATCH, e->shape.seqlen_k);
    backend->copy_in(fault, &word, sizeof word);
    struct glint_tensors tensors = tensors_at(device);
    tensors.k_scale = scales[0];
    tensors.v_scale = scales[1];
    tensors.fault = fault;
    tensors.seqlens_k = seqlens;
    backend->copy_in(seqlens, none, sizeof none);
    call(subject, &plan, &tensors);
    expect_fault(e, fault, GLINT_NO_FAULT, "after lengths of 0");
    if (shape->seqlen_k == 0)
        expect_no_keys(e, device);
    backend->copy_in(seqlens, keys, sizeof keys);
    call(subject, &plan, &tensors);
    expect_fault(e, fault, shape->seqlen_k < 7 ? 3 : GLINT_NO_FAULT, "after a length of 7");
    check_device_release_all();
}

bool subject_reads_lengths(struct subject *subject, int64_t page_rows)
{
    struct glint_problem problem = subject_problem(subject);
    if (subject->info.pass != GLINT_FORWARD || subject->info.sm == 0)
        return false;
    problem.lengths = GLINT_LENGTHS_DEVICE;
    problem.page_rows = page_rows;
    problem.pages = problem.pages_per_sequence = page_rows > 0;
    return subject_plans(subject, &problem);
}

void lengths_checks(struct check_list *list, struct subject *subject)
{
    const int64_t m = subject->info.tile_m, n = subject->info.tile_n;
    const bool band = (subject->info.features & GLINT_FEATURE_LEFT_BOUND) != 0;
    const bool masked = (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0;
    struct shape shape = {.batch = BATCH, .heads_q = 4, .heads_kv = 2, .seqlen_q = m + 9, .seqlen_k = 2 * n + 9, .seed = 0x6c656e};
    if (!subject_reads_lengths(subject, 0) || subject_intervals(subject) || subject_alibi(subject) || subject_bias(subject))
        return; /* these rows have checks of their own */
    shape.softcap = subject_caps(subject) ? 1.0f : 0.0f;
    shape.window_left = band ? n / 2 : 0;
    shape.window_right = band ? 1 : 0;
    shape.mask = band ? GLINT_MASK_BAND_BOTTOM_RIGHT : masked ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
    checks_add(list, lengths, &shape, "lengths/%s", masked ? "bottom_right" : "full");
    if (subject_reads_lengths(subject, 16))
        checks_add(list, pages, &shape, "pages/%s", masked ? "bottom_right" : "full");
    shape.heads_q = 2; /* other masks of fewer heads */
    shape.heads_kv = 1;
    if (band) {
        shape.window_right = GLINT_UNBOUNDED;
        checks_add(list, lengths, &shape, "lengths/bottom_right_to_the_end");
        shape.window_right = n + 3;
    }
    if (masked) {
        shape.mask = band ? GLINT_MASK_BAND_TOP_LEFT : GLINT_MASK_CAUSAL_TOP_LEFT;
        shape.layout = LAYOUT_BHSD;
        shape.detail = 1;
        checks_add(list, lengths, &shape, "lengths/top_left");
        if (subject_reads_lengths(subject, 16))
            checks_add(list, pages, &shape, "pages/top_left");
    }
    if (subject->info.queries_up_to > 0 && subject_reads_lengths(subject, 16)) { /* so few rows that blocks share the keys */
        struct shape few = shape;
        few.heads_kv = 1;
        few.seqlen_q = 2;
        few.seqlen_k = 5 * n + 9;
        few.detail = ALONE;
        checks_add(list, pages, &few, "pages/shared_keys");
    }
    struct shape of_few = {.batch = BATCH, .heads_q = 2, .heads_kv = 1, .seqlen_q = 8, .seqlen_k = 16, .softcap = shape.softcap};
    for (int which = 0; subject_band(subject, which, &of_few); which += 3) {
        checks_add(list, few_keys, &of_few, "lengths/few_keys_%d", which);
        if (subject_reads_lengths(subject, 16))
            checks_add(list, few_keys_in_pages, &of_few, "pages/few_keys_%d", which);
    }
    for (int i = 0; subject_diagonal(subject, i, &of_few); i++) {
        checks_add(list, few_keys, &of_few, "lengths/diagonal_%d", i);
        if (subject_reads_lengths(subject, 16))
            checks_add(list, few_keys_in_pages, &of_few, "pages/diagonal_%d", i);
    }
    if (strcmp(subject->info.family, "sm90a") == 0 && masked) {
        shape.heads_q = 16;
        shape.heads_kv = 1;
        shape.seqlen_k = 9;
        shape.detail = 0;
        checks_add(list, many_heads, &shape, "lengths/many_heads");
    }
    shape.seqlen_q = 0;
    checks_add(list, no_bound, &shape, "lengths/no_queries");
    shape.seqlen_q = 3;
    shape.seqlen_k = 0;
    checks_add(list, no_bound, &shape, "lengths/no_keys");
}

/* Few rows of many keys, on devices that share these out as steps, chunks and spans. */
void divided_lengths_checks(struct check_list *list, struct subject *subject)
{
    const bool band = (subject->info.features & GLINT_FEATURE_LEFT_BOUND) != 0;
    const bool masked = (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0;
    struct shape s = {.batch = BATCH, .heads_q = 2, .heads_kv = 1, .seqlen_q = 3};
    if (subject->info.queries_up_to == 0 || !subject_reads_lengths(subject, 0) || subject_intervals(subject) ||
        subject_alibi(subject) || subject_bias(subject))
        return;
    const bool paged = subject_reads_lengths(subject, 16);
    s.softcap = subject_caps(subject) ? 1.0f : 0.0f;
    s.mask = band ? GLINT_MASK_BAND_BOTTOM_RIGHT : masked ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
    s.seqlen_k = experiment_divisible_keys(subject, 3);
    s.window_left = band ? s.seqlen_k / 2 : 0;
    for (s.way = 2; s.way <= 3; s.way++) {
        checks_add(list, divided, &s, "divided/lengths_%d", s.way);
        if (paged)
            checks_add(list, divided_in_pages, &s, "divided/pages_%d", s.way);
    }
    s.detail = ALONE;
    s.seqlen_k = experiment_divisible_keys(subject, 4);
    s.window_left = band ? s.seqlen_k - 9 : 0;
    s.sinks = subject_checks_sinks(subject);
    for (s.way = 1; s.way <= 4 && paged; s.way++)
        checks_add(list, divided_in_pages, &s, "divided/pages_of_spans_%d", s.way);
    struct shape many = {.batch = BATCH, .heads_q = 1, .heads_kv = 1, .seqlen_q = 2, .seqlen_k = 3, .softcap = s.softcap};
    many.mask = s.mask;
    many.way = -1;
    checks_add(list, faults_of_many, &many, "lengths/faults_of_many");
    many.detail = 16;
    if (paged)
        checks_add(list, faults_of_many, &many, "pages/faults_of_many");
}
