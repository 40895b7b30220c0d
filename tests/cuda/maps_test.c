/* What Hopper's kernels are launched with: tensor maps, persistent grids, clusters, and words that begin as 0. */
#include "tests/cuda/launch_world.h"

/* A copy of what makes the maps, in a file in which an overflow of signed numbers is an illegal instruction (BUILD). */
#define glint_cuda_maps_fit trapping_maps_fit
#define glint_cuda_encode_maps trapping_encode_maps
#define add add_dimension
#include "lib/cuda/tensor_map.c"
#undef add

struct expected_map {
    const void *address;
    unsigned rank, swizzle;
    uint32_t extents[5];
    int64_t strides[4]; /* elements */
    uint16_t box[5];
};

static void check_map(const struct tensor_map *words, const struct expected_map *e)
{
    struct fake_map map;
    memcpy(&map, words, sizeof map);
    ck_assert_uint_eq(map.magic, FAKE_MAP_MAGIC);
    ck_assert_ptr_eq(map.address, e->address);
    ck_assert_uint_eq(map.type, 9); /* bf16 */
    ck_assert_uint_eq(map.rank, e->rank);
    ck_assert_uint_eq(map.swizzle, e->swizzle);
    for (unsigned i = 0; i < e->rank; i++) {
        ck_assert_uint_eq(map.extents[i], e->extents[i]);
        ck_assert_uint_eq(map.box[i], e->box[i]);
        if (i + 1 < e->rank)
            ck_assert_int_eq((int64_t)map.strides[i], 2 * e->strides[i]);
    }
}

START_TEST(forward_with_maps)
{
    struct call c;
    int mark;
    fake_reset();
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    prepare_as(&c, context, GLINT_FORWARD, GLINT_BF16, 128, 3, 129, 70, 4, 2, GLINT_MASK_NONE);
    const struct glint_problem *p = &c.problem;
    ck_assert_uint_eq(c.plan.workspace_bytes, 256); /* three words */
    fake_recount();
    memset(c.workspace, 0x5a, 512);
    ck_assert_int_eq(glint_forward(&c.plan, &c.tensors, c.workspace, 255, &mark), GLINT_WORKSPACE_TOO_SMALL);
    ck_assert_uint_eq(fake.all_calls, 0);
    ck_assert_int_eq(glint_forward(&c.plan, &c.tensors, c.workspace, 256, &mark), GLINT_OK);
    ck_assert_uint_eq(fake.all_calls, 3 + 1 + 4 + 1); /* current, push, pop; the words; the maps; the launch */
    ck_assert_uint_eq(fake.calls[FAKE_launch], 0);
    check_launch(0, "maps_forward", 2 * 4 * 3, 384, 200704, &mark); /* 24 tiles */
    ck_assert_uint_eq(fake.launch[0].cluster, 2);
    ck_assert_uint_eq(fake.launch[0].dependent, 1);
    ck_assert_uint_eq(fake.sets, 1);
    ck_assert_ptr_eq(fake.set.to, c.workspace);
    ck_assert_uint_eq(fake.set.value, 0);
    ck_assert_uint_eq(fake.set.words, 3);
    ck_assert_ptr_eq(fake.set.stream, &mark);
    ck_assert_uint_eq(fake.set.launches, 0); /* ahead of the kernel */
    ck_assert_uint_eq(c.workspace[11], 0);
    ck_assert_uint_eq(c.workspace[12], 0x5a);

    const struct glint_gpu_forward_maps *params = &fake.launch[0].params.forward_maps;
    check_view(&params->base.q, c.tensors.q, &p->q);
    check_view(&params->base.o, c.tensors.o, &p->o);
    ck_assert_ptr_eq(params->base.lse, c.tensors.lse);
    check_shape(&params->base.shape, p, 70);
    ck_assert_ptr_eq(params->base.words, c.workspace);
    ck_assert_uint_eq(params->base.blocks[0], 24);
    check_map(
        &params->map[0],
        &(struct expected_map){c.tensors.q, 5, 3, {64, 129, 2, 4, 3}, {p->q.row, 64, p->q.head, p->q.batch}, {64, 64, 2, 1, 1}});
    check_map(
        &params->map[1],
        &(struct expected_map){c.tensors.k, 5, 3, {64, 70, 2, 2, 3}, {p->k.row, 64, p->k.head, p->k.batch}, {64, 128, 2, 1, 1}});
    check_map(&params->map[2],
              &(struct expected_map){c.tensors.v, 4, 2, {128, 70, 2, 3}, {p->v.row, p->v.head, p->v.batch}, {32, 128, 1, 1}});
    check_map(&params->map[3],
              &(struct expected_map){c.tensors.o, 4, 0, {128, 129, 4, 3}, {p->o.row, p->o.head, p->o.batch}, {128, 64, 1, 1}});
    close_clean(context);
}
END_TEST

/* Ragged sequences: the maps are of all rows, as one batch; the shape too, and the bounds of a sequence are beside
 * it. */
START_TEST(ragged_with_maps)
{
    struct call c;
    int mark;
    fake_reset();
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    prepare_as(&c, context, GLINT_FORWARD, GLINT_BF16, 128, 1, 700, 600, 4, 2, GLINT_MASK_NONE);
    struct glint_problem *p = &c.problem;
    p->lengths = GLINT_LENGTHS_RAGGED;
    p->batch = 3;
    p->seqlen_q = 300;
    p->seqlen_k = 200;
    p->rows_q = 700;
    p->rows_k = 600;
    ck_assert_int_eq(glint_plan(context, p, GLINT_FORWARD, &c.plan), GLINT_OK);
    ck_assert_uint_eq(c.plan.variant, FAKE_MAPS_FORWARD);
    ck_assert_uint_eq(c.plan.workspace_bytes, 256); /* a word */
    c.tensors.first_q = (const int32_t *)(const void *)(UINTPTR_MAX / 2 & ~(uintptr_t)15);
    c.tensors.first_k = c.tensors.first_q - (1 << 20);
    c.tensors.seqlens_k = c.tensors.first_k - (1 << 20);
    fake_recount();
    ck_assert_int_eq(glint_forward(&c.plan, &c.tensors, c.workspace, 256, &mark), GLINT_OK);
    ck_assert_uint_eq(fake.launches, 1);
    ck_assert_uint_eq(fake.all_calls, 3 + 1 + 4 + 1);
    check_launch(0, "maps_ragged", (700 / 128 + 3) * 4, 384, 204800, &mark); /* one tile of each sequence is not full */
    ck_assert_uint_eq(fake.set.words, 1);
    ck_assert_ptr_eq(fake.set.to, c.workspace);
    const struct glint_gpu_forward_maps *params = &fake.launch[0].params.forward_maps;
    check_view(&params->base.q, c.tensors.q, &p->q);
    ck_assert_ptr_eq(params->base.lse, c.tensors.lse);
    ck_assert_int_eq(params->base.shape.batch, 3);
    ck_assert_int_eq(params->base.shape.seqlen_q, 700);
    ck_assert_int_eq(params->base.shape.seqlen_k, 600);
    ck_assert_int_eq(params->base.sequences.bound_q, 300);
    ck_assert_int_eq(params->base.sequences.bound_k, 200);
    ck_assert_int_eq(params->base.sequences.section_keys, 1); /* without a mask one sequence after another */
    ck_assert_ptr_eq(params->base.sequences.first_q, c.tensors.first_q);
    ck_assert_ptr_eq(params->base.sequences.first_k, c.tensors.first_k);
    ck_assert_ptr_eq(params->base.sequences.seqlens_q, NULL);
    ck_assert_ptr_eq(params->base.sequences.seqlens_k, c.tensors.seqlens_k);
    ck_assert_int_eq(params->base.sequences.rows_q, 700);
    ck_assert_int_eq(params->base.sequences.rows_k, 600);
    ck_assert_int_eq(params->base.sequences.right, 1 << 30);
    ck_assert_ptr_eq(params->base.words, c.workspace);
    ck_assert_uint_eq(params->base.blocks[0], 0);
    ck_assert_uint_eq(params->base.blocks[1], 32);
    check_map(&params->map[0],
              &(struct expected_map){c.tensors.q, 5, 3, {64, 700, 2, 4, 1}, {p->q.row, 64, p->q.head, 8}, {64, 64, 2, 1, 1}});
    check_map(&params->map[1],
              &(struct expected_map){c.tensors.k, 5, 3, {64, 600, 2, 2, 1}, {p->k.row, 64, p->k.head, 8}, {64, 128, 2, 1, 1}});
    p->rows_k = 0; /* there are no keys: a map of queries in their place, which nobody looks through */
    ck_assert_int_eq(glint_plan(context, p, GLINT_FORWARD, &c.plan), GLINT_OK);
    c.tensors.k = c.tensors.v = NULL;
    ck_assert_int_eq(glint_forward(&c.plan, &c.tensors, c.workspace, 256, &mark), GLINT_OK);
    check_map(&fake.launch[1].params.forward_maps.map[1],
              &(struct expected_map){c.tensors.q, 5, 3, {64, 1, 2, 1, 1}, {8, 64, 8, 8}, {64, 128, 2, 1, 1}});
    p->rows_q = 0; /* nor queries: tensors have no address, and a block still looks at the first rows */
    ck_assert_int_eq(glint_plan(context, p, GLINT_FORWARD, &c.plan), GLINT_OK);
    c.tensors.q = c.tensors.o = NULL;
    c.tensors.lse = NULL;
    ck_assert_int_eq(glint_forward(&c.plan, &c.tensors, c.workspace, 256, &mark), GLINT_OK);
    ck_assert_uint_eq(fake.launches, 3);
    close_clean(context);
}
END_TEST

/* Where an extent is 1 the stride is nobody's, and where it is 0 the tensor has no address: the maps are valid all
 * the same. */
START_TEST(maps_of_little)
{
    struct call c;
    fake_reset();
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    prepare_as(&c, context, GLINT_FORWARD, GLINT_BF16, 128, 1, 1, 1, 1, 1, GLINT_MASK_NONE);
    struct glint_strides *const strides[] = {&c.problem.q, &c.problem.k, &c.problem.v, &c.problem.o};
    for (int i = 0; i < 4; i++)
        *strides[i] = (struct glint_strides){(INT64_C(1) << 50) + 1, 3, 1};
    ck_assert_int_eq(glint_plan(context, &c.problem, GLINT_FORWARD, &c.plan), GLINT_OK);
    ck_assert_int_eq(glint_forward(&c.plan, &c.tensors, c.workspace, c.plan.workspace_bytes, NULL), GLINT_OK);
    const struct glint_gpu_forward_maps *params = &fake.launch[0].params.forward_maps;
    check_map(&params->map[0], &(struct expected_map){c.tensors.q, 5, 3, {64, 1, 2, 1, 1}, {8, 64, 8, 8}, {64, 64, 2, 1, 1}});
    check_map(&params->map[2], &(struct expected_map){c.tensors.v, 4, 2, {128, 1, 1, 1}, {8, 8, 8}, {32, 128, 1, 1}});

    prepare_as(&c, context, GLINT_FORWARD, GLINT_BF16, 128, 3, 129, 0, 4, 2, GLINT_MASK_NONE);
    c.tensors.k = c.tensors.v = NULL;
    ck_assert_int_eq(glint_forward(&c.plan, &c.tensors, c.workspace, c.plan.workspace_bytes, NULL), GLINT_OK);
    params = &fake.launch[1].params.forward_maps;
    check_map(&params->map[1], &(struct expected_map){c.tensors.q, 5, 3, {64, 1, 2, 1, 1}, {8, 64, 8, 8}, {64, 128, 2, 1, 1}});
    prepare_as(&c, context, GLINT_BACKWARD, GLINT_BF16, 128, 3, 0, 70, 4, 2, GLINT_MASK_NONE);
    c.tensors.q = c.tensors.dout = NULL;
    c.tensors.o = c.tensors.dq = NULL;
    ck_assert_int_eq(glint_backward(&c.plan, &c.tensors, c.workspace, c.plan.workspace_bytes, NULL), GLINT_OK);
    ck_assert_uint_eq(fake.launches, 3);
    check_launch(2, "maps_dkdv", 2 * 2 * 3, 256, 200704, NULL);
    check_map(&fake.launch[2].params.backward_maps.map[0],
              &(struct expected_map){c.tensors.k, 5, 3, {64, 1, 2, 1, 1}, {8, 64, 8, 8}, {64, 64, 2, 1, 1}});

    prepare_as(&c, context, GLINT_FORWARD, GLINT_BF16, 128, 3, 0, 70, 4, 2, GLINT_MASK_NONE); /* nothing at all to do */
    fake_recount();
    ck_assert_int_eq(glint_forward(&c.plan, &c.tensors, c.workspace, c.plan.workspace_bytes, NULL), GLINT_OK);
    ck_assert_uint_eq(fake.launches + fake.sets + fake.calls[FAKE_tensor_map_encode], 0);
    close_clean(context);
}
END_TEST

static const struct {
    int multiprocessors;
    int64_t heads, seqlen;
    unsigned forward, keys; /* blocks: clusters of two, one a multiprocessor; alone, two a multiprocessor and 64 keys */
} grid_cases[] = {
    {132, 1, 128, 2, 2},       {132, 1, 384, 4, 6}, {132, 8, 2048, 128, 256}, {132, 8, 4096, 132, 264},
    {132, 11, 1536, 132, 264}, {3, 8, 1024, 2, 6},  {1, 8, 1024, 2, 2},       {131, 8, 4096, 130, 262},
};

/* Persistent: whole clusters, no more than the multiprocessors hold, and one at least. Tiles: 128 queries of a head. */
START_TEST(persistent_grids)
{
    struct call c;
    fake_reset();
    fake.device[0].multiprocessors = grid_cases[_i].multiprocessors;
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    glint_problem_bhsd(&c.problem, GLINT_BF16, 1, grid_cases[_i].seqlen, grid_cases[_i].seqlen, grid_cases[_i].heads,
                       grid_cases[_i].heads, 128);
    ck_assert_int_eq(glint_plan(context, &c.problem, GLINT_FORWARD, &c.plan), GLINT_OK);
    ck_assert_uint_eq(glint_cuda_plan_of(&c.plan).blocks[0], grid_cases[_i].forward);
    ck_assert_int_eq(glint_plan(context, &c.problem, GLINT_BACKWARD, &c.plan), GLINT_OK);
    ck_assert_uint_eq(glint_cuda_plan_of(&c.plan).blocks[1], grid_cases[_i].keys);
    close_clean(context);
}
END_TEST

START_TEST(backward_with_maps)
{
    struct call c;
    fake_reset();
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    prepare_as(&c, context, GLINT_BACKWARD, GLINT_BF16, 128, 2, 129, 70, 4, 2, GLINT_MASK_NONE);
    ck_assert_int_eq(glint_backward(&c.plan, &c.tensors, c.workspace, c.plan.workspace_bytes, NULL), GLINT_OK);
    ck_assert_uint_eq(fake.launches, 3);
    ck_assert_uint_eq(fake.calls[FAKE_launch], 1); /* the first kernel wants nothing of the kind */
    ck_assert_uint_eq(fake.set.words, 65);
    for (int i = 0; i < 3; i++) {
        const struct glint_gpu_backward_maps *params = &fake.launch[i].params.backward_maps;
        const struct glint_problem *p = &c.problem;
        const size_t rows = 2 * 4 * (size_t)params->base.padded_q;
        size_t end = 65 * sizeof(uint32_t);
        ck_assert_uint_eq(fake.launch[i].cluster, 0);
        ck_assert_uint_eq(fake.launch[i].dependent, i > 0);
        ck_assert_ptr_eq(params->base.words, c.workspace);
        for (int launch = 0; launch < 3; launch++)
            ck_assert_uint_eq(params->base.blocks[launch], fake.launch[launch].blocks);
        check_view(&params->base.dv, c.tensors.dv, &p->dv);
        check_region(params->base.lse_log2, rows * sizeof(float), &c, &end);
        check_region(params->base.delta, rows * sizeof(float), &c, &end);
        ck_assert_uint_le(c.plan.workspace_bytes - end, 255);
        const struct expected_map maps[9] = {
            {c.tensors.q, 5, 3, {64, 129, 2, 4, 2}, {p->q.row, 64, p->q.head, p->q.batch}, {64, 64, 2, 1, 1}},
            {c.tensors.k, 5, 3, {64, 70, 2, 2, 2}, {p->k.row, 64, p->k.head, p->k.batch}, {64, 64, 2, 1, 1}},
            {c.tensors.v, 5, 3, {64, 70, 2, 2, 2}, {p->v.row, 64, p->v.head, p->v.batch}, {64, 64, 2, 1, 1}},
            {c.tensors.o, 5, 3, {64, 129, 2, 4, 2}, {p->o.row, 64, p->o.head, p->o.batch}, {64, 64, 2, 1, 1}},
            {c.tensors.dout, 5, 3, {64, 129, 2, 4, 2}, {p->dout.row, 64, p->dout.head, p->dout.batch}, {64, 64, 1, 1, 1}},
            {c.tensors.dq, 5, 3, {64, 129, 2, 4, 2}, {p->dq.row, 64, p->dq.head, p->dq.batch}, {64, 128, 2, 1, 1}},
            {c.tensors.dk, 5, 3, {64, 70, 2, 2, 2}, {p->dk.row, 64, p->dk.head, p->dk.batch}, {64, 64, 2, 1, 1}},
            {c.tensors.dv, 5, 3, {64, 70, 2, 2, 2}, {p->dv.row, 64, p->dv.head, p->dv.batch}, {64, 64, 2, 1, 1}},
            {c.tensors.q, 4, 1, {128, 129, 4, 2}, {p->q.row, p->q.head, p->q.batch}, {16, 128, 1, 1}},
        };
        for (int m = 0; m < 9; m++)
            check_map(&params->map[m], &maps[m]);
    }
    close_clean(context);
}
END_TEST

/* Ragged sequences, backward: the maps are of all rows, as one batch; the shape has the bounds, and the workspace is
 * that of all rows. */
START_TEST(ragged_backward_with_maps)
{
    struct call c;
    fake_reset();
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    prepare_as(&c, context, GLINT_BACKWARD, GLINT_BF16, 128, 1, 700, 600, 4, 2, GLINT_MASK_NONE);
    struct glint_problem *p = &c.problem;
    p->lengths = GLINT_LENGTHS_RAGGED;
    p->batch = 3;
    p->seqlen_q = 300;
    p->seqlen_k = 200;
    p->rows_q = 700;
    p->rows_k = 600;
    ck_assert_int_eq(glint_plan(context, p, GLINT_BACKWARD, &c.plan), GLINT_OK);
    ck_assert_uint_eq(c.plan.variant, FAKE_MAPS_BACKWARD);
    /* 700 rows and 128 of each sequence, in whole 128 */
    ck_assert_uint_eq(c.plan.workspace_bytes, 2 * 4 * 1024 * sizeof(float));
    c.tensors.first_q = (const int32_t *)(UINT64_C(22) << 40);
    c.tensors.first_k = (const int32_t *)(UINT64_C(23) << 40);
    c.tensors.seqlens_k = (const int32_t *)(UINT64_C(24) << 40);
    fake_recount();
    ck_assert_int_eq(glint_backward(&c.plan, &c.tensors, c.workspace, c.plan.workspace_bytes, NULL), GLINT_OK);
    ck_assert_uint_eq(fake.launches, 2);
    ck_assert_uint_eq(fake.set.words, 0);
    check_launch(0, "maps_ragged_delta", (700 / 128 + 3) * 4, 128, 304, NULL);
    check_launch(1, "maps_sequences", (600 / 64 + 3) * 2, 384, 204800, NULL);
    for (int i = 0; i < 2; i++) {
        const struct glint_gpu_backward_maps *params = &fake.launch[i].params.backward_maps;
        const struct glint_gpu_call *base = &params->base;
        check_view(&base->dq, c.tensors.dq, &p->dq);
        ck_assert_int_eq(base->shape.batch, 3);
        ck_assert_int_eq(base->shape.seqlen_q, 300);
        ck_assert_int_eq(base->shape.seqlen_k, 200);
        ck_assert_int_eq(base->padded_q, 1024);
        ck_assert_ptr_eq(base->lse_log2, c.workspace);
        ck_assert_ptr_eq(params->base.sequences.first_q, c.tensors.first_q);
        ck_assert_ptr_eq(params->base.sequences.first_k, c.tensors.first_k);
        ck_assert_ptr_eq(params->base.sequences.seqlens_q, NULL);
        ck_assert_ptr_eq(params->base.sequences.seqlens_k, c.tensors.seqlens_k);
        ck_assert_int_eq(params->base.sequences.rows_q, 700);
        ck_assert_int_eq(params->base.sequences.rows_k, 600);
        check_map(&params->map[1],
                  &(struct expected_map){c.tensors.k, 5, 3, {64, 600, 2, 2, 1}, {p->k.row, 64, p->k.head, 8}, {64, 64, 2, 1, 1}});
        check_map(&params->map[5], &(struct expected_map){
                                       c.tensors.dq, 5, 3, {64, 700, 2, 4, 1}, {p->dq.row, 64, p->dq.head, 8}, {64, 128, 2, 1, 1}});
    }
    close_clean(context);
}
END_TEST

/* A stride that no tensor map holds is refused, in words that name it. */
START_TEST(strides_beyond_maps)
{
    const int64_t most = (INT64_C(1) << 39) - 8; /* bf16: 2^40 bytes is too much */
    struct glint_problem p;
    struct glint_plan plan;
    char text[512];
    fake_reset();
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    glint_problem_bhsd(&p, GLINT_BF16, 2, 128, 64, 1, 1, 128);
    p.v.batch = most;
    ck_assert_int_eq(glint_plan(context, &p, GLINT_FORWARD, &plan), GLINT_OK);
    ck_assert_int_eq(glint_plan(context, &p, GLINT_BACKWARD, &plan), GLINT_OK);
    p.v.batch = most + 8;
    ck_assert_int_eq(glint_plan(context, &p, GLINT_FORWARD, &plan), GLINT_SIZE_OVERFLOW);
    ck_assert_int_eq(glint_plan(context, &p, GLINT_BACKWARD, &plan), GLINT_SIZE_OVERFLOW);
    ck_assert_int_eq(glint_explain(context, &p, GLINT_FORWARD, text, sizeof text, NULL), GLINT_SIZE_OVERFLOW);
    ck_assert_msg(strstr(text, "v.batch is 549755813888; it must be at most 549755813887 elements for fwd_bf16_d128"), "%s", text);
    p.v.batch = 128 * 64;
    p.dq.batch = most + 8; /* which the forward does not have */
    ck_assert_int_eq(glint_plan(context, &p, GLINT_FORWARD, &plan), GLINT_OK);
    ck_assert_int_eq(glint_plan(context, &p, GLINT_BACKWARD, &plan), GLINT_SIZE_OVERFLOW);
    close_clean(context);
}
END_TEST

/* Along an extent of 1 a stride is of no account, and in bytes it need not fit in 63 bits. */
START_TEST(strides_along_nothing)
{
    struct call c;
    struct tensor_map maps[GLINT_GPU_MAX_MAPS];
    fake_reset();
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    prepare_as(&c, context, GLINT_FORWARD, GLINT_BF16, 128, 1, 129, 70, 1, 1, GLINT_MASK_NONE);
    struct glint_problem *p = &c.problem;
    p->q.batch = p->q.head = p->k.batch = p->k.head = p->v.batch = p->v.head = INT64_MAX / 8 * 8;
    ck_assert_int_eq(glint_plan(context, p, GLINT_FORWARD, &c.plan), GLINT_OK);
    ck_assert_int_eq(trapping_encode_maps(context->state, &glint_variants[c.plan.variant], p, &c.tensors, maps), GLINT_OK);
    struct fake_map map;
    memcpy(&map, &maps[0], sizeof map);
    ck_assert_uint_eq(map.magic, FAKE_MAP_MAGIC);
    ck_assert_uint_eq(map.strides[map.rank - 2], 16);
    close_clean(context);
}
END_TEST

static void add(TCase *tcase)
{
    tcase_add_test(tcase, strides_along_nothing);
    tcase_add_test(tcase, forward_with_maps);
    tcase_add_test(tcase, ragged_with_maps);
    tcase_add_test(tcase, maps_of_little);
    ADD_TABLE(tcase, persistent_grids, grid_cases);
    tcase_add_test(tcase, backward_with_maps);
    tcase_add_test(tcase, ragged_backward_with_maps);
    tcase_add_test(tcase, strides_beyond_maps);
}

int main(void)
{
    return run_suite("cuda maps", add);
}
