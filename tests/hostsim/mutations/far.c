#include "tests/hostsim/mutations/far.h"

#include <string.h>

#include "tests/experiment.h"
#include "tests/half.h"

enum extent { BATCH, HEAD, ROW };

static const int64_t SPAN = INT64_C(3) << 30; /* bytes, from a tensor's first element to its last */

static int64_t extent_of(const struct experiment *e, enum tensor t, enum extent extent)
{
    return extent == BATCH ? e->shape.batch : extent == HEAD ? tensor_heads(e, t) : tensor_rows(e, t);
}

/* Dense, but for one extent. Strides are multiples of 16 bytes. */
static struct glint_strides spread(const struct experiment *e, enum tensor t, enum extent extent)
{
    const int64_t dim = tensor_dim(e, t), rows = tensor_rows(e, t), heads = tensor_heads(e, t);
    const int64_t far = SPAN / (int64_t)dtype_bytes(e->dtype) / (extent_of(e, t, extent) - 1) / dim * dim;
    struct glint_strides strides = {heads * rows * dim, rows * dim, dim};

    *(extent == BATCH ? &strides.batch : extent == HEAD ? &strides.head : &strides.row) = far;
    if (extent == ROW) /* heads and batches between the rows */
        strides.head = dim, strides.batch = heads * dim;
    if (extent == HEAD)
        strides.batch = rows * dim;
    return strides;
}

static int64_t place(const struct experiment *e, const struct glint_strides *strides, enum tensor t, int64_t b, int64_t h,
                     int64_t row)
{
    return (b * strides->batch + h * strides->head + row * strides->row) * (int64_t)dtype_bytes(tensor_dtype(e, t));
}

/* Calls move(device, dense row of the host) for every row of a tensor. */
static void each_row(const struct experiment *e, const struct glint_strides *strides, enum tensor t, char *device, float *dense,
                     void (*move)(const struct experiment *e, enum tensor t, char *device, float *row))
{
    for (int64_t b = 0; b < e->shape.batch; b++)
        for (int64_t h = 0; h < tensor_heads(e, t); h++)
            for (int64_t row = 0; row < tensor_rows(e, t); row++)
                move(e, t, device + place(e, strides, t, b, h, row), tensor_row(e, dense, t, b, h, row));
}

static void put_row(const struct experiment *e, enum tensor t, char *device, float *row)
{
    unsigned char bytes[2048];
    dtype_store_row(tensor_dtype(e, t), bytes, row, tensor_dim(e, t));
    e->subject->backend->copy_in(device, bytes, (size_t)tensor_dim(e, t) * dtype_bytes(tensor_dtype(e, t)));
}

static void expect_row(const struct experiment *e, enum tensor t, char *device, float *row)
{
    unsigned char bytes[2048], wanted[2048];
    const size_t size = (size_t)tensor_dim(e, t) * dtype_bytes(tensor_dtype(e, t));
    dtype_store_row(tensor_dtype(e, t), wanted, row, tensor_dim(e, t));
    e->subject->backend->copy_out(bytes, device, size);
    if (!check_within("far strides", memcmp(bytes, wanted, size) == 0 ? 0 : 1, 0))
        check_fail("a row of %s is not what it is in a dense layout", tensor_name[t]);
}

/* The forward pass in memory spread over more than 2 GiB gives the bits that it gives in dense memory. */
static void far(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_new(subject, shape);
    const struct backend *backend = subject->backend;
    const enum extent extent = (enum extent)shape->detail;
    const enum tensor tensors[] = {Q, K, V, O, LSE};
    struct results dense = experiment_run_plainly(e);
    struct glint_strides strides[TENSORS];
    char *device[TENSORS];

    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        const enum tensor t = tensors[i];
        const int64_t rows = tensor_rows(e, t), heads = tensor_heads(e, t);
        strides[t] = t == LSE ? (struct glint_strides){heads * rows, rows, 1} : spread(e, t, extent);
        const int64_t bytes = place(e, &strides[t], t, shape->batch - 1, heads - 1, rows - 1) +
                              tensor_dim(e, t) * (int64_t)dtype_bytes(tensor_dtype(e, t));
        device[t] = check_device_memory(backend, (size_t)bytes, 256, FENCE_NONE);
        if (t == Q || t == K || t == V)
            each_row(e, &strides[t], t, device[t], e->in[t], put_row);
    }
    struct glint_problem problem = e->problem;
    problem.q = strides[Q], problem.k = strides[K], problem.v = strides[V], problem.o = strides[O];

    struct glint_plan plan = {.struct_size = sizeof plan};
    enum glint_status status =
        backend->plan(subject_context(subject, LANES_SERIAL), &problem, GLINT_FORWARD, subject->variant, &plan);
    if (status != GLINT_OK)
        check_fail("the plan was refused: %s", backend->status_name(status));
    const struct glint_tensors call = {.struct_size = sizeof call,
                                       .q = device[Q],
                                       .k = device[K],
                                       .v = device[V],
                                       .o = device[O],
                                       .lse = (float *)(void *)device[LSE]};
    void *workspace =
        plan.workspace_bytes > 0 ? check_device_memory(backend, plan.workspace_bytes, GLINT_WORKSPACE_ALIGNMENT, FENCE_NONE) : NULL;
    status = backend->forward(&plan, &call, workspace, plan.workspace_bytes, backend->stream);
    if (status != GLINT_OK)
        check_fail("the call was refused: %s", backend->status_name(status));
    const char *trouble = backend->finish();
    if (trouble != NULL)
        check_fail("the device failed: %s", trouble);
    each_row(e, &strides[O], O, device[O], dense.at[O], expect_row);
    each_row(e, &strides[LSE], LSE, device[LSE], dense.at[LSE], expect_row);
    check_device_release_all();
}

void far_checks(struct check_list *list, const struct subject *subject)
{
    static const char *const names[] = {"batch", "head", "row"};
    struct shape s = {.batch = 2, .heads_q = 2, .heads_kv = 2, .seqlen_q = 19, .seqlen_k = 23, .layout = LAYOUT_BHSD};

    if (subject->info.pass != GLINT_FORWARD)
        return;
    s.mask = subject->info.causal != 0 ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
    for (s.detail = BATCH; s.detail <= ROW; s.detail++)
        checks_add(list, far, &s, "far/%s", names[s.detail]);
}
