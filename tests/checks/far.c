/* Strides so great that offsets fit in 32 bits neither as bytes nor as elements. For backends whose memory costs
 * nothing until it is used:
 * every tensor is spread over 10 or 20 GiB. */
#include <string.h>

#include "tests/checks/accuracy.h"
#include "tests/oracle/half.h"

enum extent { BATCH, HEAD, ROW };

static const int64_t SPAN = INT64_C(5) << 30; /* elements, from a tensor's first to its last row: more than 2^32 */

static int64_t extent_of(const struct experiment *e, enum tensor t, enum extent extent)
{
    return extent == BATCH ? e->shape.batch : extent == HEAD ? tensor_heads(e, t) : tensor_rows(e, t);
}

/* Dense, but for one extent. LSE, whose strides nobody chooses, is dense. Strides are multiples of 16 bytes. */
static struct glint_strides spread(const struct experiment *e, enum tensor t, enum extent extent)
{
    const int64_t dim = tensor_dim(e, t), rows = tensor_rows(e, t), heads = tensor_heads(e, t);
    struct glint_strides strides = {heads * rows * dim, rows * dim, dim};

    if (t == LSE)
        return strides;
    *(extent == BATCH  ? &strides.batch
      : extent == HEAD ? &strides.head
                       : &strides.row) = SPAN / (extent_of(e, t, extent) - 1) / dim * dim;
    if (extent == ROW) /* heads and batches between the rows */
        strides.head = dim, strides.batch = heads * dim;
    if (extent == HEAD)
        strides.batch = rows * dim;
    return strides;
}

struct far {
    const struct experiment *e;
    struct glint_strides strides[TENSORS];
    void *device[TENSORS]; /* NULL: not of this pass */
};

static size_t offset(const struct far *f, enum tensor t, int64_t b, int64_t h, int64_t row)
{
    const struct glint_strides *s = &f->strides[t];
    return (size_t)(b * s->batch + h * s->head + row * s->row) * dtype_bytes(tensor_dtype(f->e, t));
}

enum { ROW_BYTES = 4 * 1024 }; /* of the longest head_dim */

static void put_row(const struct far *f, enum tensor t, int64_t b, int64_t h, int64_t row)
{
    unsigned char bytes[ROW_BYTES];
    const enum glint_dtype dtype = tensor_dtype(f->e, t);
    const int64_t dim = tensor_dim(f->e, t);
    dtype_store_row(dtype, bytes, tensor_row(f->e, f->e->in[t], t, b, h, row), dim);
    f->e->subject->backend->copy_in((unsigned char *)f->device[t] + offset(f, t, b, h, row), bytes,
                                    (size_t)dim * dtype_bytes(dtype));
}

static void expect_row(const struct far *f, enum tensor t, int64_t b, int64_t h, int64_t row, float *dense)
{
    unsigned char bytes[ROW_BYTES];
    float got[ROW_BYTES / 4], *expected = tensor_row(f->e, dense, t, b, h, row);
    const enum glint_dtype dtype = tensor_dtype(f->e, t);
    const size_t dim = (size_t)tensor_dim(f->e, t);
    f->e->subject->backend->copy_out(bytes, (unsigned char *)f->device[t] + offset(f, t, b, h, row), dim * dtype_bytes(dtype));
    dtype_load_row(dtype, got, bytes, (int64_t)dim);
    if (!check_within("far strides", memcmp(got, expected, dim * sizeof got[0]) == 0 ? 0 : 1, 0))
        check_fail("%s[batch %lld, head %lld, row %lld] is not what it is in a dense layout", tensor_name[t], (long long)b,
                   (long long)h, (long long)row);
}

static void allocate(struct far *f, enum tensor t, enum extent extent)
{
    const struct experiment *e = f->e;
    f->strides[t] = spread(e, t, extent);
    const size_t bytes = offset(f, t, e->shape.batch - 1, tensor_heads(e, t) - 1, tensor_rows(e, t) - 1) +
                         (size_t)tensor_dim(e, t) * dtype_bytes(tensor_dtype(e, t));
    f->device[t] = check_device_memory(e->subject->backend, bytes, 256, FENCE_NONE);
}

/* One pass in memory that is spread wide gives the bits that it gives in dense memory. */
static void far(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_new(subject, shape);
    const struct backend *backend = subject->backend;
    const enum glint_pass pass = (enum glint_pass)subject->info.pass;
    experiment_reference(e, false); /* O and LSE, which the backward reads */
    struct results dense = experiment_run_plainly(e);
    struct far f = {.e = e};

    for (enum tensor t = Q; t < TENSORS; t++) {
        if (pass_uses(pass, t))
            allocate(&f, t, (enum extent)shape->detail);
        for (int64_t b = 0; pass_reads(pass, t) && b < shape->batch; b++)
            for (int64_t h = 0; h < tensor_heads(e, t); h++)
                for (int64_t row = 0; row < tensor_rows(e, t); row++)
                    put_row(&f, t, b, h, row);
    }
    struct glint_problem problem = e->problem;
    problem.q = f.strides[Q], problem.k = f.strides[K], problem.v = f.strides[V], problem.o = f.strides[O];
    problem.dout = f.strides[DOUT], problem.dq = f.strides[DQ], problem.dk = f.strides[DK], problem.dv = f.strides[DV];

    const struct glint_plan plan = experiment_plan(subject, &problem, pass, subject->variant, LANES_SERIAL);
    void *workspace =
        plan.workspace_bytes > 0 ? check_device_memory(backend, plan.workspace_bytes, GLINT_WORKSPACE_ALIGNMENT, FENCE_NONE) : NULL;
    struct glint_tensors others = GLINT_TENSORS_INIT;
    for (int side = 0; side < 2 && e->problem.intervals != 0; side++) {
        const size_t bytes = (size_t)(shape->batch * shape->seqlen_q) * sizeof(int32_t);
        int32_t *const interval = check_device_memory(backend, bytes, 256, FENCE_NONE);
        backend->copy_in(interval, e->interval[side], bytes);
        *(side == 0 ? &others.key_begin : &others.key_end) = interval;
    }
    if (e->problem.tree != 0) {
        const size_t bytes = (size_t)(shape->batch * shape->seqlen_q * ((shape->seqlen_q + 31) / 32)) * sizeof(uint32_t);
        uint32_t *const tree = check_device_memory(backend, bytes, 256, FENCE_NONE);
        backend->copy_in(tree, e->tree, bytes);
        others.tree_bits = tree;
    }
    if (e->slopes != NULL) {
        float *const slopes = check_device_memory(backend, (size_t)shape->heads_q * sizeof *slopes, 256, FENCE_NONE);
        backend->copy_in(slopes, e->slopes, (size_t)shape->heads_q * sizeof *slopes);
        others.alibi_slopes = slopes;
    }
    float zero = 0;
    if (e->bias != NULL) { /* of zeros, and in one place */
        float *const bias = check_device_memory(backend, sizeof *bias, 256, FENCE_NONE);
        backend->copy_in(bias, &zero, sizeof zero);
        others.bias = bias;
    }
    experiment_call(subject, pass, &plan, f.device, &others, workspace);
    for (const enum tensor *t = pass_outputs(pass); *t != TENSORS; t++)
        for (int64_t b = 0; b < shape->batch; b++)
            for (int64_t h = 0; h < tensor_heads(e, *t); h++)
                for (int64_t row = 0; row < tensor_rows(e, *t); row++)
                    expect_row(&f, *t, b, h, row, dense.at[*t]);
    check_device_release_all();
}

void far_checks(struct check_list *list, const struct subject *subject)
{
    static const char *const names[] = {"batch", "head", "row"};
    const int64_t m = subject->info.tile_m, n = subject->info.tile_n;

    if (!subject->backend->sparse || subject->info.kv_dtype != 0 || subject->info.head_dim > ROW_BYTES / sizeof(float))
        return;
    for (enum extent extent = BATCH; extent <= ROW; extent++) {
        struct shape s = {.batch = 2, .heads_q = 2, .heads_kv = 2, .seqlen_q = 19, .seqlen_k = 23, .layout = LAYOUT_BHSD};
        if (extent == ROW) /* a tile and a bit: offsets within tiles, and those of tiles */
            s.batch = s.heads_q = s.heads_kv = 1, s.seqlen_q = m + 3, s.seqlen_k = n + 5;
        s.mask = (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0 ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
        s.detail = extent;
        checks_add(list, far, &s, "far/%s", names[extent]);
    }
}
