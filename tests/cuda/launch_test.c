/* What the library launches: which kernels, with how many blocks, and with which parameters. No GPU is used. */
#include "lib/check.h"
#include "lib/cuda/policy.h"
#include "tests/cuda/launch_world.h"

/* ---- launches ---------------------------------------------------------------------------------------------------- */

START_TEST(forward_launch)
{
    struct call c;
    int mark;
    fake_reset();
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    prepare(&c, context, GLINT_FORWARD, 3, 129, 70, 4, 2, GLINT_MASK_CAUSAL_BOTTOM_RIGHT);
    fake_recount();
    ck_assert_uint_eq(c.plan.workspace_bytes, 0);
    ck_assert_int_eq(glint_forward(&c.plan, &c.tensors, NULL, 0, &mark), GLINT_OK);
    ck_assert_uint_eq(fake.launches, 1);
    ck_assert_uint_eq(fake.all_calls, 4); /* current, push, launch, pop */
    check_launch(0, "causal", 2 * 4 * 3, 128, 49152, &mark);
    const struct glint_gpu_call *params = &fake.launch[0].params.call;
    check_view(&params->q, c.tensors.q, &c.problem.q);
    check_view(&params->k, c.tensors.k, &c.problem.k);
    check_view(&params->v, c.tensors.v, &c.problem.v);
    check_view(&params->o, c.tensors.o, &c.problem.o);
    ck_assert_ptr_eq(params->lse, c.tensors.lse);
    check_shape(&params->shape, &c.problem, 70 - 129);
    ck_assert_int_eq(params->shape.section,
                     (28 << 20) / (2 * 129 * 64 * 2)); /* heads whose K and V, were they as long as Q, fill a section */

    prepare(&c, context, GLINT_FORWARD, 1, 128, 70, 4, 2, GLINT_MASK_CAUSAL_TOP_LEFT);
    ck_assert_int_eq(glint_forward(&c.plan, &c.tensors, NULL, 0, NULL), GLINT_OK);
    check_launch(1, "causal", 4, 128, 49152, NULL);
    check_shape(&fake.launch[1].params.call.shape, &c.problem, 0);
    prepare(&c, context, GLINT_FORWARD, 1, 1, 70, 4, 2, GLINT_MASK_NONE);
    ck_assert_int_eq(glint_forward(&c.plan, &c.tensors, NULL, 0, NULL), GLINT_OK);
    check_launch(2, "plain", 4, 128, 81920, NULL);
    check_shape(&fake.launch[2].params.call.shape, &c.problem, 70);
    ck_assert_int_eq(fake.launch[2].params.call.shape.section, 1);
    close_clean(context);
}
END_TEST

/* glint_merge: one launch in the caller's stream, a block for as many rows as it has threads for, and no more blocks
 * than the device holds. */
START_TEST(merge_launch)
{
    static const struct {
        int64_t seqlen, head_dim;
        int row_threads, block_rows;
        unsigned blocks; /* 0: no launch */
    } cases[] = {{1, 64, 8, 16, 1},     {5, 64, 8, 16, 2},     {5, 96, 12, 10, 3},
                 {7, 1024, 128, 1, 42}, {7, 1032, 128, 1, 42}, {100000, 8, 1, 128, 16 * 132},
                 {0, 64, 8, 16, 0}};
    int mark;
    fake_reset();
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const int64_t s = cases[c].seqlen, d = cases[c].head_dim;
        struct glint_part part[2];
        struct glint_merge m = GLINT_MERGE_INIT;
        m.dtype = GLINT_BF16;
        m.parts = 2;
        m.batch = 2;
        m.heads = 3;
        m.seqlen = s;
        m.head_dim = d;
        m.part = part;
        m.sinks = (float *)(void *)memory;
        m.o = (void *)(UINT64_C(5) << 40);
        m.lse = (float *)(UINT64_C(6) << 40);
        m.o_strides = (struct glint_strides){3 * s * d, s * d, d};
        m.lse_strides = (struct glint_strides){3 * s, s, 1};
        for (int i = 0; i < 2; i++)
            part[i] = (struct glint_part){(void *)(uintptr_t)((uintptr_t)(i + 1) << 40),
                                          (float *)(uintptr_t)((uintptr_t)(i + 3) << 40),
                                          {(i + 8) * s * d, s * d, d},
                                          {4 * s + i, s, 1},
                                          GLINT_F32 + (uint32_t)i,
                                          0};
        fake_recount();
        ck_assert_int_eq(glint_merge(context, &m, &mark), GLINT_OK);
        ck_assert_uint_eq(fake.launches, cases[c].blocks > 0);
        if (cases[c].blocks == 0)
            continue;
        ck_assert_uint_eq(fake.all_calls, 4); /* current, push, launch, pop */
        check_launch(0, "glint_merge_rows", cases[c].blocks, 128, 0, &mark);
        const struct glint_merge_params *p = &fake.launch[0].params.merge;
        ck_assert_int_eq(p->rows, 6 * s);
        ck_assert_int_eq(p->heads, 3);
        ck_assert_int_eq(p->seqlen, s);
        ck_assert_int_eq(p->parts, 2);
        ck_assert_int_eq(p->chunks, d / 8);
        ck_assert_int_eq(p->row_threads, cases[c].row_threads);
        ck_assert_int_eq(p->block_rows, cases[c].block_rows);
        ck_assert_int_eq(p->blocks, (int)cases[c].blocks);
        ck_assert_ptr_eq(p->sinks, m.sinks);
        check_view(&p->result.o, m.o, &m.o_strides);
        check_view(&p->result.lse, m.lse, &m.lse_strides);
        ck_assert_int_eq(p->result.dtype, GLINT_BF16);
        for (int i = 0; i < 2; i++) {
            check_view(&p->part[i].o, part[i].o, &part[i].o_strides);
            check_view(&p->part[i].lse, part[i].lse, &part[i].lse_strides);
            ck_assert_int_eq(p->part[i].dtype, part[i].dtype);
        }
    }
    close_clean(context);
}
END_TEST

/* glint_append: a thread for each chunk of 8 elements of the new rows, and for each sequence where there can be
 * none. */
START_TEST(append_launch)
{
    struct call c;
    int mark;
    fake_reset();
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    for (int64_t seqlen_q = 0; seqlen_q < 3; seqlen_q++) {
        prepare(&c, context, GLINT_FORWARD, 3, seqlen_q, 70, 4, 2, GLINT_MASK_NONE);
        struct glint_append a = GLINT_APPEND_INIT;
        a.dtype = GLINT_F32;
        a.k = c.tensors.dk;
        a.v = c.tensors.dv;
        a.k_strides = c.problem.dk;
        a.v_strides = c.problem.dv;
        fake_recount();
        ck_assert_int_eq(glint_append(&c.plan, &a, &c.tensors, &mark), GLINT_OK);
        ck_assert_uint_eq(fake.all_calls, 4);
        check_launch(0, "glint_append_rows", 1, 128, 0, &mark); /* of at most 96 chunks */
        const struct glint_append_params *p = &fake.launch[0].params.append;
        check_view(&p->k, c.tensors.k, &c.problem.k);
        check_view(&p->v, c.tensors.v, &c.problem.v);
        check_view(&p->new_k, a.k, &a.k_strides);
        check_view(&p->new_v, a.v, &a.v_strides);
        ck_assert_int_eq(p->tokens, seqlen_q == 0 ? 3 : 3 * seqlen_q);
        ck_assert_int_eq(p->token_chunks, seqlen_q == 0 ? 1 : 2 * 8);
        ck_assert_int_eq(p->chunks, 8);
        ck_assert_int_eq(p->seqlen_q, seqlen_q);
        ck_assert_int_eq(p->seqlen_k, 70);
        ck_assert_int_eq(p->page_rows + p->pages + p->pages_per_sequence, 0);
        ck_assert_uint_eq(p->dtype, GLINT_F16);
        ck_assert_uint_eq(p->new_dtype, GLINT_F32);
        ck_assert_ptr_null(p->page_table);
        ck_assert_ptr_null(p->fault);
        ck_assert_int_eq(p->blocks, 1);
    }
    /* The chunks of a token are counted in 32 bits. */
    char text[1024];
    struct glint_append a = GLINT_APPEND_INIT;
    a.dtype = GLINT_F16;
    prepare(&c, context, GLINT_FORWARD, 1, 1, 70, 2, 2, GLINT_MASK_NONE);
    c.plan.problem.heads_kv = c.plan.problem.heads_q = INT32_MAX / 64 + 1;
    c.plan.internal[GLINT_PLAN_SUM_WORD] = glint_plan_sum(&c.plan);
    fake_recount();
    ck_assert_int_eq(glint_append(&c.plan, &a, &c.tensors, NULL), GLINT_BAD_APPEND);
    ck_assert_uint_eq(fake.all_calls, 0);
    ck_assert_int_eq(glint_explain_append(&c.plan, &a, &c.tensors, NULL, text, sizeof text, NULL), GLINT_BAD_APPEND);
    ck_assert_msg(strstr(text, "heads_kv is 33554432; on this device") != NULL &&
                      strstr(text, "at most 33554431 key heads") != NULL,
                  "%s", text);
    close_clean(context);
}
END_TEST

/* Rows of 8 bits are made by a kernel of their own, 16 of them by a block at a time. Scales a row begin at multiples
 * of their lengths' bound, linear K and V's or a page's; others are read at 0, or at the head. A plan of any row
 * says whether K and V are so. */
START_TEST(append_of_8_bits)
{
    static const uint32_t scales[][2] = {{GLINT_I8, GLINT_SCALES_ROW},
                                         {GLINT_E4M3, GLINT_SCALES_ROW},
                                         {GLINT_E4M3, GLINT_SCALES_HEAD},
                                         {GLINT_E4M3, GLINT_SCALES_TENSOR}};
    char mark, text[1024];
    struct call c;
    fake_reset();
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    for (int i = 0; i < 12; i++) {
        const int64_t seqlen_q = i / 4 * 7; /* 0 tokens: one block looks at the lengths */
        prepare(&c, context, GLINT_FORWARD, 3, seqlen_q, 70, 4, 2, GLINT_MASK_NONE);
        struct glint_append a = GLINT_APPEND_INIT;
        a.dtype = GLINT_F32;
        a.k = c.tensors.dk;
        a.v = c.tensors.dv;
        a.k_strides = c.problem.dk;
        a.v_strides = c.problem.dv;
        c.tensors.k_scale = (float *)(UINT64_C(20) << 40);
        c.tensors.v_scale = (float *)(UINT64_C(21) << 40);
        c.plan.problem.kv_dtype = scales[i % 4][0];
        c.plan.problem.kv_scales = scales[i % 4][1];
        c.plan.internal[GLINT_PLAN_SUM_WORD] = glint_plan_sum(&c.plan);
        fake_recount();
        ck_assert_int_eq(glint_append(&c.plan, &a, &c.tensors, &mark), GLINT_OK);
        ck_assert_uint_eq(fake.all_calls, 4);
        const int64_t rows = 2 * 3 * (seqlen_q == 0 ? 1 : 2 * seqlen_q);
        check_launch(0, "glint_append_narrow_rows", (uint32_t)((rows + 15) / 16), 128, 0, &mark);
        const struct glint_append_narrow_params *p = &fake.launch[0].params.append_narrow;
        check_view(&p->base.k, c.tensors.k, &c.problem.k);
        check_view(&p->base.new_v, a.v, &a.v_strides);
        ck_assert_ptr_eq(p->k_scale, c.tensors.k_scale);
        ck_assert_ptr_eq(p->v_scale, c.tensors.v_scale);
        ck_assert_int_eq(p->base.tokens, seqlen_q == 0 ? 3 : 3 * seqlen_q);
        ck_assert_int_eq(p->token_rows, seqlen_q == 0 ? 1 : 2);
        ck_assert_uint_eq(p->base.dtype, scales[i % 4][0]);
        ck_assert_uint_eq(p->base.new_dtype, GLINT_F32);
        ck_assert_uint_eq(p->own, i % 4 < 2);
        ck_assert_int_eq(p->unit_scales, 70);
        ck_assert_int_eq(p->head_scales, i % 4 == 2);
        ck_assert_int_eq(p->base.blocks, (rows + 15) / 16);
    }
    c.plan.problem.kv_dtype = GLINT_I8; /* of a tensor's scale int8 has no NaN */
    c.plan.internal[GLINT_PLAN_SUM_WORD] = glint_plan_sum(&c.plan);
    struct glint_append a = GLINT_APPEND_INIT;
    a.dtype = GLINT_F32;
    fake_recount();
    ck_assert_int_eq(glint_append(&c.plan, &a, &c.tensors, NULL), GLINT_BAD_APPEND);
    ck_assert_uint_eq(fake.all_calls, 0);
    ck_assert_int_eq(glint_explain_append(&c.plan, &a, &c.tensors, NULL, text, sizeof text, NULL), GLINT_BAD_APPEND);
    ck_assert_msg(strstr(text, "kv_scales is 1; rows of int8 are made with a scale each") != NULL, "%s", text);
    close_clean(context);
}
END_TEST

/* Q, K, V, O and LSE of a call, 2^40 bytes from each other: other arrays go further on. */
static unsigned char *place_far(struct glint_tensors *t)
{
    unsigned char *const far = (unsigned char *)(UINT64_C(20) << 40);
    void **const addresses[] = {(void **)&t->q, (void **)&t->k, (void **)&t->v, &t->o, (void **)&t->lse};
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++)
        *addresses[i] = far + (i << 40);
    return far;
}

/* Ragged sequences: one launch, of as many blocks as the rows and the bounds allow tiles, and one tile a sequence at
 * least, for what it says to be looked at. No length is known here. */
START_TEST(launch_of_ragged)
{
    static const struct {
        int64_t batch, bound, rows, heads;
        unsigned tiles;
        int32_t section;
    } cases[] = {
        {3, 300, 700, 4, 8, 4},  /* 5 full ones and one more of each; 3 of each would be 9 */
        {3, 300, 2000, 4, 9, 4}, /* the bounds have no more */
        {1000, 10, 700, 4, 1000, 4},   {1000, 129, 0, 4, 1000, 4},
        {3, 0, 700, 4, 3, 1},          {2, 16384, 20000, 12, 158, 6}, /* 7 heads fill a section, and 12 are two equal ones */
        {2, 40000, 20000, 12, 158, 2},
    };
    fake_reset();
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct call c;
        int mark;
        prepare(&c, context, GLINT_FORWARD, 1, 128, 70, cases[i].heads, 2, GLINT_MASK_CAUSAL_BOTTOM_RIGHT);
        struct glint_problem *p = &c.problem;
        p->lengths = GLINT_LENGTHS_RAGGED;
        p->batch = cases[i].batch;
        p->seqlen_q = p->seqlen_k = cases[i].bound;
        p->rows_q = cases[i].rows;
        p->rows_k = cases[i].rows + 1;
        ck_assert_int_eq(glint_plan(context, p, GLINT_FORWARD, &c.plan), GLINT_OK);
        ck_assert_uint_eq(c.plan.workspace_bytes, 0);
        struct glint_tensors *t = &c.tensors;
        unsigned char *const far = place_far(t);
        t->first_q = (const int32_t *)(const void *)(far + (UINT64_C(6) << 40));
        t->first_k = t->first_q + (1 << 20);
        t->seqlens_k = t->first_k + (1 << 20);
        t->fault = (uint32_t *)(void *)(far + (UINT64_C(7) << 40));
        fake_recount();
        ck_assert_int_eq(glint_forward(&c.plan, t, NULL, 0, &mark), GLINT_OK);
        ck_assert_uint_eq(fake.launches, 1);
        ck_assert_uint_eq(fake.all_calls, 4); /* current, push, launch, pop */
        check_launch(0, "causal_ragged", cases[i].tiles * (unsigned)cases[i].heads, 128, 49184, &mark);
        const struct glint_gpu_sequences *r = &fake.launch[0].params.call.sequences;
        ck_assert_ptr_eq(r->first_q, t->first_q);
        ck_assert_ptr_eq(r->first_k, t->first_k);
        ck_assert_ptr_eq(r->seqlens_q, NULL);
        ck_assert_ptr_eq(r->seqlens_k, t->seqlens_k);
        ck_assert_ptr_eq(r->fault, t->fault);
        ck_assert_int_eq(r->rows_q, cases[i].rows);
        ck_assert_int_eq(r->rows_k, cases[i].rows + 1);
        ck_assert_int_eq(r->bottom_right, 1);
        ck_assert_int_eq(r->left, -(1 << 30)); /* no first key */
        ck_assert_int_eq(r->right, 0);
        ck_assert_int_eq(fake.launch[0].params.call.shape.section, cases[i].section);
    }
    struct glint_problem none; /* a row without such a kernel */
    struct glint_plan plan;
    glint_problem_bshd(&none, GLINT_F16, 1, 10, 10, 4, 2, 64);
    none.lengths = GLINT_LENGTHS_RAGGED;
    none.rows_q = none.rows_k = 10;
    ck_assert_int_eq(glint_plan(context, &none, GLINT_FORWARD, &plan), GLINT_BAD_LENGTHS);
    none.rows_k = 0; /* nor in pages */
    none.page_rows = 16;
    none.pages = none.pages_per_sequence = 1;
    ck_assert_int_eq(glint_plan(context, &none, GLINT_FORWARD, &plan), GLINT_BAD_LENGTHS);
    close_clean(context);
}
END_TEST

/* The same with K and V in pages: one launch, of as many blocks, of the kernel that finds them there. */
START_TEST(launch_of_ragged_pages)
{
    fake_reset();
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    struct call c;
    int mark;
    prepare(&c, context, GLINT_FORWARD, 1, 128, 70, 4, 2, GLINT_MASK_CAUSAL_BOTTOM_RIGHT);
    struct glint_problem *p = &c.problem;
    p->lengths = GLINT_LENGTHS_RAGGED;
    p->batch = 3;
    p->seqlen_q = p->seqlen_k = 300;
    p->rows_q = 700;
    p->page_rows = 64;
    p->pages = 40;
    p->pages_per_sequence = 5;
    ck_assert_int_eq(glint_plan(context, p, GLINT_FORWARD, &c.plan), GLINT_OK);
    ck_assert_uint_eq(c.plan.workspace_bytes, 0);
    struct glint_tensors *t = &c.tensors;
    unsigned char *const far = place_far(t);
    t->first_q = (const int32_t *)(const void *)(far + (UINT64_C(6) << 40));
    t->seqlens_k = t->first_q + (1 << 20);
    t->page_table = t->seqlens_k + (1 << 20);
    fake_recount();
    ck_assert_int_eq(glint_forward(&c.plan, t, NULL, 0, &mark), GLINT_OK);
    ck_assert_uint_eq(fake.launches, 1);
    check_launch(0, "causal_ragged_pages", (700 / 128 + 3) * 4, 128, 49232, &mark);
    const struct glint_gpu_call *params = &fake.launch[0].params.call;
    ck_assert_ptr_eq(params->sequences.first_q, t->first_q);
    ck_assert_ptr_eq(params->sequences.first_k, NULL);
    ck_assert_ptr_eq(params->sequences.seqlens_q, NULL);
    ck_assert_ptr_eq(params->sequences.seqlens_k, t->seqlens_k);
    ck_assert_int_eq(params->sequences.rows_q, 700);
    ck_assert_ptr_eq(params->pages.table, t->page_table);
    ck_assert_int_eq(params->pages.count, 40);
    ck_assert_int_eq(params->pages.per_sequence, 5);
    ck_assert_int_eq(params->pages.shift, 6);

    /* New rows are found in all 700, and one block at least looks at the lengths. */
    struct glint_append a = GLINT_APPEND_INIT;
    a.dtype = GLINT_F32;
    a.k = far + (UINT64_C(7) << 40);
    a.v = far + (UINT64_C(8) << 40);
    a.k_strides = a.v_strides = p->k;
    for (int i = 0; i < 2; i++) {
        c.plan.problem.rows_q = i == 0 ? 700 : 0;
        c.plan.internal[GLINT_PLAN_SUM_WORD] = glint_plan_sum(&c.plan);
        fake_recount();
        ck_assert_int_eq(glint_append(&c.plan, &a, t, &mark), GLINT_OK);
        check_launch(0, "glint_append_rows", i == 0 ? 700 * 16 / 128 + 1 : 1, 128, 0, &mark);
        const struct glint_append_params *append = &fake.launch[0].params.append;
        ck_assert_ptr_eq(append->first_q, t->first_q);
        ck_assert_ptr_eq(append->seqlens_k, t->seqlens_k);
        ck_assert_int_eq(append->tokens, c.plan.problem.rows_q);
        ck_assert_int_eq(append->rows_q, c.plan.problem.rows_q);
        ck_assert_int_eq(append->batch, 3);
        ck_assert_int_eq(append->token_chunks, 2 * 8);
        ck_assert_int_eq(append->page_rows, 64);
    }
    close_clean(context);
}
END_TEST

/* The same backward: four launches with sinks, and arrays in which each sequence begins at a multiple of 128 rows. */
START_TEST(backward_of_ragged)
{
    struct call c;
    int mark;
    fake_reset();
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    prepare(&c, context, GLINT_BACKWARD, 1, 128, 70, 4, 2, GLINT_MASK_NONE);
    struct glint_problem *p = &c.problem;
    p->lengths = GLINT_LENGTHS_RAGGED;
    p->batch = 3;
    p->seqlen_q = 300;
    p->seqlen_k = 200;
    p->rows_q = 300;
    p->rows_k = 400;
    p->sinks = 1;
    ck_assert_int_eq(glint_plan(context, p, GLINT_BACKWARD, &c.plan), GLINT_OK);
    const int64_t padded = (300 + 3 * 128) / 128 * 128;
    ck_assert_uint_eq(c.plan.workspace_bytes, 2 * (size_t)(4 * padded) * sizeof(float));
    c.tensors.sinks = (float *)(UINT64_C(20) << 40);
    c.tensors.dsinks = (float *)(UINT64_C(21) << 40);
    c.tensors.first_q = (const int32_t *)(UINT64_C(22) << 40);
    c.tensors.first_k = (const int32_t *)(UINT64_C(23) << 40);
    fake_recount();
    ck_assert_int_eq(glint_backward(&c.plan, &c.tensors, c.workspace, c.plan.workspace_bytes, &mark), GLINT_OK);
    ck_assert_uint_eq(fake.launches, 4);
    ck_assert_uint_eq(fake.all_calls, 7);
    check_launch(0, "split_ragged_delta", (300 / 128 + 3) * 4, 128, 304, &mark);
    check_launch(1, "split_ragged_sinks", 4, 256, 32, &mark);
    check_launch(2, "split_ragged_dkdv", (400 / 64 + 3) * 2, 128, 65584, &mark);
    check_launch(3, "split_ragged_dq", (300 / 64 + 3) * 4, 128, 32816, &mark);
    for (unsigned i = 0; i < 4; i++) {
        const struct glint_gpu_call *params = &fake.launch[i].params.call;
        ck_assert_ptr_eq(params->sinks, c.tensors.sinks);
        ck_assert_ptr_eq(params->dsinks, c.tensors.dsinks);
        ck_assert_int_eq(params->padded_q, padded);
        ck_assert_ptr_eq(params->sequences.first_q, c.tensors.first_q);
        ck_assert_ptr_eq(params->sequences.first_k, c.tensors.first_k);
        ck_assert_int_eq(params->sequences.rows_q, 300);
        ck_assert_int_eq(params->sequences.rows_k, 400);
        ck_assert_int_eq(params->sequences.right, 1 << 30);
    }
    p->rows_q = GLINT_MAX_EXTENT; /* rows of the workspace are counted in 31 bits */
    p->batch = 1 << 24;
    p->heads_q = p->heads_kv = 1;
    struct glint_plan plan;
    ck_assert_int_eq(glint_plan(context, p, GLINT_BACKWARD, &plan), GLINT_SIZE_OVERFLOW);
    p->sinks = 0;
    p->mask = GLINT_MASK_CAUSAL_TOP_LEFT; /* the fused row has no such kernels */
    ck_assert_int_eq(glint_plan(context, p, GLINT_BACKWARD, &plan), GLINT_BAD_LENGTHS);
    close_clean(context);
}
END_TEST

/* Of a problem with sinks a backward pass has one launch more, a block a query head, also where there is no query. */
START_TEST(launch_of_sinks)
{
    for (int64_t seqlen_q = 0; seqlen_q <= 129; seqlen_q += 129) {
        struct call c;
        int mark;
        fake_reset();
        struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
        prepare(&c, context, GLINT_BACKWARD, 2, seqlen_q, 70, 4, 2, GLINT_MASK_NONE);
        c.problem.sinks = 1;
        ck_assert_int_eq(glint_plan(context, &c.problem, GLINT_BACKWARD, &c.plan), GLINT_OK);
        c.tensors.sinks = (float *)(UINT64_C(20) << 40);
        c.tensors.dsinks = (float *)(UINT64_C(21) << 40);
        ck_assert_int_eq(glint_backward(&c.plan, &c.tensors, c.workspace, c.plan.workspace_bytes, &mark), GLINT_OK);
        const unsigned at = seqlen_q > 0 ? 1 : 0; /* after delta, which has a block for queries alone */
        ck_assert_uint_eq(fake.launches, seqlen_q > 0 ? 4 : 2);
        check_launch(at, "split_sinks", 4, 256, 32, &mark);
        ck_assert_ptr_eq(fake.launch[at].params.call.sinks, c.tensors.sinks);
        ck_assert_ptr_eq(fake.launch[at].params.call.dsinks, c.tensors.dsinks);
        check_shape(&fake.launch[at].params.call.shape, &c.problem, 70);
        close_clean(context);
    }
}
END_TEST

/* Lengths on the device, backward: the grids and the workspace are those of the bounds, and a bound of 0 has a tile
 * a head all the same. */
START_TEST(backward_of_lengths)
{
    static const struct {
        int64_t seqlen_q, seqlen_k;
        unsigned deltas, keys, queries;
    } cases[] = {{300, 200, 3, 4, 5}, {0, 200, 1, 4, 1}, {300, 0, 3, 1, 5}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct call c, host;
        int mark;
        fake_reset();
        struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
        prepare(&host, context, GLINT_BACKWARD, 3, cases[i].seqlen_q, cases[i].seqlen_k, 4, 2, GLINT_MASK_NONE);
        prepare(&c, context, GLINT_BACKWARD, 3, cases[i].seqlen_q, cases[i].seqlen_k, 4, 2, GLINT_MASK_NONE);
        c.problem.lengths = GLINT_LENGTHS_DEVICE;
        c.problem.sinks = 1;
        ck_assert_int_eq(glint_plan(context, &c.problem, GLINT_BACKWARD, &c.plan), GLINT_OK);
        ck_assert_uint_eq(c.plan.workspace_bytes, host.plan.workspace_bytes);
        c.tensors.sinks = (float *)(UINT64_C(20) << 40);
        c.tensors.dsinks = (float *)(UINT64_C(21) << 40);
        c.tensors.seqlens_q = (const int32_t *)(UINT64_C(22) << 40);
        c.tensors.seqlens_k = (const int32_t *)(UINT64_C(23) << 40);
        c.tensors.fault = (uint32_t *)(UINT64_C(24) << 40);
        fake_recount();
        ck_assert_int_eq(glint_backward(&c.plan, &c.tensors, c.workspace, c.plan.workspace_bytes, &mark), GLINT_OK);
        ck_assert_uint_eq(fake.launches, 4);
        ck_assert_uint_eq(fake.all_calls, 7);
        check_launch(0, "split_lengths_delta", cases[i].deltas * 4 * 3, 128, 48, &mark);
        check_launch(1, "split_lengths_sinks", 4, 256, 32, &mark);
        check_launch(2, "split_lengths_dkdv", cases[i].keys * 2 * 3, 128, 65584, &mark);
        check_launch(3, "split_lengths_dq", cases[i].queries * 4 * 3, 128, 32816, &mark);
        const struct glint_gpu_call *params = &fake.launch[0].params.call;
        ck_assert_int_eq(params->padded_q, (cases[i].seqlen_q + 127) / 128 * 128);
        ck_assert_ptr_eq(params->dsinks, c.tensors.dsinks);
        ck_assert_ptr_eq(params->sequences.seqlens_q, c.tensors.seqlens_q);
        ck_assert_ptr_eq(params->sequences.seqlens_k, c.tensors.seqlens_k);
        ck_assert_ptr_eq(params->sequences.fault, c.tensors.fault);
        ck_assert_ptr_eq(params->sequences.first_q, NULL);
        ck_assert_ptr_eq(params->sequences.first_k, NULL);
        ck_assert_int_eq(params->sequences.left, -(1 << 30));
        ck_assert_int_eq(params->sequences.right, 1 << 30);
        ck_assert_int_eq(params->sequences.bottom_right, 0);
        struct glint_plan plan;
        c.problem.sinks = 0;
        c.problem.mask = GLINT_MASK_CAUSAL_TOP_LEFT; /* the fused row has no such kernels */
        ck_assert_int_eq(glint_plan(context, &c.problem, GLINT_BACKWARD, &plan), GLINT_BAD_LENGTHS);
        close_clean(context);
    }
}
END_TEST

/* What a kernel caps with is the ratio of both numbers, whatever the sign of the scale. */
START_TEST(ratios_of_softcap)
{
    struct call c;
    fake_reset();
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    prepare(&c, context, GLINT_FORWARD, 1, 128, 64, 1, 1, GLINT_MASK_NONE);
    for (int i = 0; i < 3; i++) {
        c.problem.softcap = i == 0 ? 0.0f : 8.0f;
        c.problem.softmax_scale = i == 2 ? -0.25f : 0.25f;
        ck_assert_int_eq(glint_plan(context, &c.problem, GLINT_FORWARD, &c.plan), GLINT_OK);
        ck_assert_uint_eq(c.plan.variant, i == 0 ? FAKE_PLAIN : FAKE_CAPPED);
        ck_assert_int_eq(glint_forward(&c.plan, &c.tensors, NULL, 0, NULL), GLINT_OK);
        const struct glint_gpu_call *call = &fake.launch[i].params.call;
        ck_assert_float_eq(call->score_ratio, i == 0 ? 0.0f : 0.03125f);
        ck_assert_float_eq(call->score_limit, 9.02f / call->score_ratio);
    }
    close_clean(context);
}
END_TEST

/* In sm90a the rows with a window take sinks, and those without one or a softcap say that they do not. */
START_TEST(sinks_on_hopper)
{
    struct call c;
    char text[1024];
    fake_reset();
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    prepare_as(&c, context, GLINT_FORWARD, GLINT_BF16, 128, 3, 129, 70, 4, 2, GLINT_MASK_BAND_TOP_LEFT);
    ck_assert_uint_eq(c.plan.variant, FAKE_MAPS_WINDOW);
    ck_assert_int_eq(glint_forward(&c.plan, &c.tensors, c.workspace, c.plan.workspace_bytes, NULL), GLINT_OK);
    ck_assert_ptr_null(fake.launch[0].params.forward_maps.base.sinks);
    c.problem.sinks = 1;
    ck_assert_int_eq(glint_plan(context, &c.problem, GLINT_FORWARD, &c.plan), GLINT_OK);
    ck_assert_uint_eq(c.plan.variant, FAKE_MAPS_WINDOW);
    c.tensors.sinks = (float *)(UINT64_C(20) << 40);
    ck_assert_int_eq(glint_forward(&c.plan, &c.tensors, c.workspace, c.plan.workspace_bytes, NULL), GLINT_OK);
    ck_assert_ptr_eq(fake.launch[1].params.forward_maps.base.sinks, c.tensors.sinks);

    c.problem.mask = GLINT_MASK_NONE;
    ck_assert_int_eq(glint_plan(context, &c.problem, GLINT_FORWARD, &c.plan), GLINT_BAD_SINKS);
    ck_assert_int_eq(glint_explain(context, &c.problem, GLINT_FORWARD, text, sizeof text, NULL), GLINT_BAD_SINKS);
    ck_assert_msg(strstr(text, glint_variants[FAKE_MAPS_FORWARD].name) != NULL &&
                      strstr(text, "set device_lengths = true in families.sm90a") != NULL,
                  "%s", text);
    ck_assert_int_eq(glint_plan(context, &c.problem, GLINT_BACKWARD, &c.plan), GLINT_BAD_SINKS);
    close_clean(context);
}
END_TEST

/* A row of Hopper's without a kernel that reads lengths takes those of the host alone, and the refusal of ragged
 * ones says so, too. */
START_TEST(lengths_on_hopper)
{
    struct call c;
    char text[1024];
    fake_reset();
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    prepare_as(&c, context, GLINT_FORWARD, GLINT_BF16, 128, 3, 129, 70, 4, 2, GLINT_MASK_BAND_TOP_LEFT);
    ck_assert_uint_eq(c.plan.variant, FAKE_MAPS_WINDOW);
    for (uint32_t lengths = GLINT_LENGTHS_DEVICE; lengths <= GLINT_LENGTHS_RAGGED; lengths++) {
        c.problem.lengths = lengths;
        ck_assert_int_eq(glint_explain(context, &c.problem, GLINT_FORWARD, text, sizeof text, NULL), GLINT_BAD_LENGTHS);
        ck_assert_msg(strstr(text, "__sm90a_m128n128. In the spec, set device_") != NULL, "%s", text);
    }
    prepare_as(&c, context, GLINT_BACKWARD, GLINT_BF16, 128, 3, 129, 70, 4, 2, GLINT_MASK_NONE); /* takes ragged sequences alone */
    ck_assert_uint_eq(c.plan.variant, FAKE_MAPS_BACKWARD);
    c.problem.lengths = GLINT_LENGTHS_DEVICE;
    ck_assert_int_eq(glint_explain(context, &c.problem, GLINT_BACKWARD, text, sizeof text, NULL), GLINT_BAD_LENGTHS);
    ck_assert_msg(strstr(text, "set device_lengths = true in families.sm90a") != NULL, "%s", text);
    close_clean(context);
}
END_TEST

static const bool strategies[] = {false, true}; /* whether it is the fused one */

/* The arrays of a backward pass lie in the workspace one after another, and the last ends where it ends. */
START_TEST(backward_launch)
{
    const bool fused = strategies[_i];
    struct call c;
    int mark;
    fake_reset();
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    prepare(&c, context, GLINT_BACKWARD, 2, 129, 70, 4, 2, fused ? GLINT_MASK_CAUSAL_TOP_LEFT : GLINT_MASK_NONE);
    ck_assert_int_eq(glint_backward(&c.plan, &c.tensors, c.workspace, c.plan.workspace_bytes - 1, &mark),
                     GLINT_WORKSPACE_TOO_SMALL);
    ck_assert_uint_eq(fake.launches, 0);
    ck_assert_int_eq(glint_backward(&c.plan, &c.tensors, c.workspace, c.plan.workspace_bytes, &mark), GLINT_OK);
    ck_assert_uint_eq(fake.launches, 3);
    check_launch(0, fused ? "fused_delta" : "split_delta", 2 * 4 * 2, 128, 0, &mark);
    check_launch(1, fused ? "fused_all" : "split_dkdv", (fused ? 1 : 2) * 2 * 2, fused ? 256 : 128, fused ? 98304 : 65536, &mark);
    check_launch(2, fused ? "fused_dq" : "split_dq", (fused ? 2 : 3) * 4 * 2, 128, fused ? 512 : 32768, &mark);
    for (int i = 0; i < 3; i++) {
        const struct glint_gpu_call *params = &fake.launch[i].params.call;
        check_view(&params->q, c.tensors.q, &c.problem.q);
        check_view(&params->k, c.tensors.k, &c.problem.k);
        check_view(&params->v, c.tensors.v, &c.problem.v);
        check_view(&params->o, c.tensors.o, &c.problem.o);
        check_view(&params->dout, c.tensors.dout, &c.problem.dout);
        check_view(&params->dq, c.tensors.dq, &c.problem.dq);
        check_view(&params->dk, c.tensors.dk, &c.problem.dk);
        check_view(&params->dv, c.tensors.dv, &c.problem.dv);
        ck_assert_ptr_eq(params->lse, c.tensors.lse);
        check_shape(&params->shape, &c.problem, fused ? 0 : 70);
        ck_assert_int_eq(params->shape.section, 2 * 2); /* all key heads */
        const size_t rows = 2 * 4 * (size_t)params->padded_q;
        size_t end = 0;
        ck_assert_int_ge(params->padded_q, 129);
        check_region(params->lse_log2, rows * sizeof(float), &c, &end);
        check_region(params->delta, rows * sizeof(float), &c, &end);
        ck_assert_int_eq(params->parts, 1); /* a group of two, and two heads a part */
        ck_assert_int_eq(params->part_heads, 2);
        ck_assert_ptr_null(params->key_sum);
        ck_assert_ptr_null(params->key_turn);
        if (fused) {
            check_region(params->dq_sum, rows * 64 * sizeof(float), &c, &end);
            check_region(params->turn, (1 + rows / 64) * sizeof(uint32_t), &c, &end);
        } else {
            ck_assert_ptr_null(params->dq_sum);
            ck_assert_ptr_null(params->turn);
        }
        ck_assert_uint_le(c.plan.workspace_bytes - end, 255);
    }
    close_clean(context);
}
END_TEST

/* 64 counters fill 256 bytes, and one more is the counter of blocks. */
START_TEST(turns_of_full_lines)
{
    struct call c;
    fake_reset();
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    prepare(&c, context, GLINT_BACKWARD, 2, 512, 70, 4, 2, GLINT_MASK_CAUSAL_TOP_LEFT);
    ck_assert_int_eq(glint_backward(&c.plan, &c.tensors, c.workspace, c.plan.workspace_bytes, NULL), GLINT_OK);
    const struct glint_gpu_call *params = &fake.launch[0].params.call;
    size_t end = 0;
    ck_assert_int_eq(params->padded_q, 512);
    check_region(params->turn, (1 + 2 * 4 * 512 / 64) * sizeof(uint32_t), &c, &end);
    close_clean(context);
}
END_TEST

static const struct {
    int64_t group, seqlen_q, seqlen_k;
    int parts, part_heads;
} part_cases[] = {
    {5, 110, 140, 3, 2},  {6, 110, 140, 3, 2}, {3, 110, 99, 2, 2}, {4, 110, 257, 2, 2}, /* 50 queries or more see a key */
    {5, 110, 98, 2, 4},   {4, 110, 98, 1, 4},  {9, 11, 11, 3, 4},  {9, 10, 10, 1, 9},   /* 49; 6; 5 */
    {2, 110, 140, 1, 2},  {1, 110, 140, 1, 1}, {5, 0, 140, 1, 5},  {5, 110, 0, 1, 5},   /* one part holds all; nothing */
    {4, 110, 1200, 2, 2},                                                               /* turns of more than 256 bytes */
};

/* From FAKE_PARTS_FROM visible queries on, a part of the group has two heads, from an eighth of them on four, the
 * last one what is left. The workspace has their sums, and the explanation says so. Below it, and without a query,
 * everything is as if nothing were shared. */
START_TEST(parts_of_a_group)
{
    const int64_t heads_kv = 2, group = part_cases[_i].group, keys = part_cases[_i].seqlen_k;
    const unsigned parts = (unsigned)part_cases[_i].parts, blocks = (unsigned)(2 * ((keys + 127) / 128));
    struct call c;
    char text[1024];
    fake_reset();
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    prepare(&c, context, GLINT_BACKWARD, 1, part_cases[_i].seqlen_q, keys, group * heads_kv, heads_kv,
            GLINT_MASK_CAUSAL_BOTTOM_RIGHT);
    ck_assert_int_eq(glint_backward(&c.plan, &c.tensors, c.workspace, c.plan.workspace_bytes, NULL), GLINT_OK);
    for (unsigned i = 0; i < fake.launches; i++) {
        const struct glint_gpu_call *params = &fake.launch[i].params.call;
        if (strcmp(fake.launch[i].entry, "fused_all") == 0)
            ck_assert_uint_eq(fake.launch[i].blocks, blocks * parts);
        const size_t rows = (size_t)(group * heads_kv * params->padded_q);
        size_t end = 0;
        ck_assert_int_eq(params->parts, (int)parts);
        ck_assert_int_eq(params->part_heads, part_cases[_i].part_heads);
        check_region(params->lse_log2, rows * sizeof(float), &c, &end);
        check_region(params->delta, rows * sizeof(float), &c, &end);
        check_region(params->dq_sum, rows * 64 * sizeof(float), &c, &end);
        check_region(params->turn, (1 + rows / 64) * sizeof(uint32_t), &c, &end);
        if (parts > 1) {
            check_region(params->key_sum, blocks * 2 * 128 * 64 * sizeof(float), &c, &end);
            check_region(params->key_turn, blocks * 8 * sizeof(uint32_t), &c, &end);
        } else {
            ck_assert_ptr_null(params->key_sum);
            ck_assert_ptr_null(params->key_turn);
        }
        ck_assert_uint_le(c.plan.workspace_bytes - end, 255);
    }
    ck_assert_uint_ge(fake.launches, 1);
    ck_assert_int_eq(glint_explain(context, &c.problem, GLINT_BACKWARD, text, sizeof text, NULL), GLINT_OK);
    char sentence[128];
    snprintf(sentence, sizeof sentence, "The %d query heads of a key head are shared by %u blocks", (int)group, parts);
    ck_assert_msg((strstr(text, sentence) != NULL) == (parts > 1) && (strstr(text, "are shared by") != NULL) == (parts > 1), "%s",
                  text);
    snprintf(sentence, sizeof sentence, "A block takes all %d query heads of a key head.", (int)group);
    ck_assert_msg((strstr(text, sentence) != NULL) == (parts == 1 && group > 1), "%s", text);
    snprintf(sentence, sizeof sentence, "\nBlocks of %d key heads, ", (int)glint_cuda_plan_of(&c.plan).shape.section);
    ck_assert_msg(strstr(text, sentence) != NULL, "%s", text);
    close_clean(context);
}
END_TEST

/* ---- decode ------------------------------------------------------------------------------------------------------ */

struct decode_case {
    int64_t batch, seqlen_q, seqlen_k, heads_q;
    int range, parts, level, entries; /* as struct glint_decode_params has them */
    unsigned blocks, merge_blocks;
};

/* 2 key heads, 7 multiprocessors; tiles of 8 rows, steps of 64 keys, chunks of 512, spans of 4096. */
static const struct decode_case decode_cases[] = {
    {1, 1, 256, 8, 4, 1, GLINT_DECODE_ROW, 0, 2, 0},     /* as many keys as are never shared */
    {1, 1, 0, 8, 0, 1, GLINT_DECODE_ROW, 0, 2, 0},       /* O is 0 and LSE -inf all the same */
    {1, 1, 257, 8, 2, 3, GLINT_DECODE_STEP, 5, 6, 64},   /* 2 * 3 blocks of 7; 2 pairs of rows x 16 fragments of columns a head */
    {1, 1, 700, 8, 4, 3, GLINT_DECODE_STEP, 11, 6, 64},  /* never more than half a chunk */
    {1, 1, 700, 2, 4, 3, GLINT_DECODE_STEP, 11, 6, 32},  /* one row is a pair, too */
    {1, 1, 1000, 8, 4, 4, GLINT_DECODE_STEP, 16, 7, 64}, /* 8 items for 7 blocks */
    {1, 1, 2048, 8, 8, 4, GLINT_DECODE_CHUNK, 4, 7, 64},
    {1, 1, 20000, 8, 64, 5, GLINT_DECODE_SPAN, 5, 7, 64},
    {1, 1, 81920, 8, 128, 10, GLINT_DECODE_SPAN, 20, 7, 64}, /* two spans an item: four items a block, not six */
    {1, 3, 2048, 8, 8, 4, GLINT_DECODE_CHUNK, 4, 7, 192},    /* 12 rows: two tiles of a head, 4 in all */
    {3, 1, 20000, 8, 313, 1, GLINT_DECODE_ROW, 0, 6, 0},     /* 6 tiles nearly fill the machine */
    {50, 1, 960, 8, 15, 1, GLINT_DECODE_ROW, 0, 7, 0},       /* many small items */
    {50, 1, 961, 8, 16, 1, GLINT_DECODE_ROW, 0, 100, 0},     /* many of 1 MB */
    {28, 1, 961, 8, 16, 1, GLINT_DECODE_ROW, 0, 7, 0},       /* 8 a block are not many */
    {1, 0, 700, 8, 0, 0, 0, 0, 0, 0},                        /* no query */
};

static void check_decode_launch(const struct call *c, unsigned number, const struct decode_case *e)
{
    const struct glint_decode_params *params = &fake.launch[number].params.decode;
    const int rows = (int)(e->seqlen_q * e->heads_q / 2), row_tiles = (rows + 7) / 8;
    const size_t results = (size_t)(2 * e->batch * row_tiles * e->entries * 8);
    size_t end = 0;
    check_view(&params->q, c->tensors.q, &c->problem.q);
    check_view(&params->k, c->tensors.k, &c->problem.k);
    check_view(&params->v, c->tensors.v, &c->problem.v);
    check_view(&params->o, c->tensors.o, &c->problem.o);
    ck_assert_ptr_eq(params->lse, c->tensors.lse);
    ck_assert_ptr_null(params->sequences.seqlens_k);
    ck_assert_ptr_null(params->sinks);
    check_shape(&params->shape, &c->problem, e->seqlen_k - e->seqlen_q);
    ck_assert_int_eq(params->rows, rows);
    ck_assert_int_eq(params->row_tiles, row_tiles);
    ck_assert_int_eq(params->range, e->range);
    ck_assert_int_eq(params->parts, e->parts);
    ck_assert_int_eq(params->level, e->level);
    ck_assert_int_eq(params->entries, e->entries);
    ck_assert_uint_eq(params->items, (unsigned)(2 * e->batch * row_tiles * e->parts));
    ck_assert_uint_eq(params->blocks, e->blocks);
    if (e->entries > 0) {
        check_region(params->partial_o, results * 256 * sizeof(float), c, &end);
        check_region(params->partial_rows, results * 2 * 4 * sizeof(float), c, &end);
    } else {
        ck_assert_ptr_null(params->partial_o);
        ck_assert_ptr_null(params->partial_rows);
    }
    ck_assert_uint_le(c->plan.workspace_bytes - end, end > 0 ? 255 : 0);
}

START_TEST(decode_launch)
{
    const struct decode_case *e = &decode_cases[_i];
    const unsigned launches = (e->blocks > 0 ? 1u : 0u) + (e->merge_blocks > 0 ? 1u : 0u);
    struct call c;
    void **const tensors[] = {(void **)&c.tensors.q, (void **)&c.tensors.k, (void **)&c.tensors.v, &c.tensors.o};
    char text[1024], sentence[64];
    int mark;
    for (int sm = 80; sm <= 90; sm += 10) {
        fake_reset();
        fake.device[0].sm = sm;
        fake.device[0].multiprocessors = 7;
        struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
        prepare_as(&c, context, GLINT_FORWARD, GLINT_BF16, 256, e->batch, e->seqlen_q, e->seqlen_k, e->heads_q, 2,
                   GLINT_MASK_CAUSAL_BOTTOM_RIGHT);
        for (uintptr_t i = 0; i < 4; i++) /* longer than the others, and nobody reads them */
            *tensors[i] = (void *)((i + 1) << 40);
        if (c.plan.workspace_bytes > 0)
            ck_assert_int_eq(glint_forward(&c.plan, &c.tensors, c.workspace, c.plan.workspace_bytes - 1, &mark),
                             GLINT_WORKSPACE_TOO_SMALL);
        ck_assert_uint_eq(fake.launches, 0);
        ck_assert_int_eq(glint_forward(&c.plan, &c.tensors, c.workspace, c.plan.workspace_bytes, &mark), GLINT_OK);
        ck_assert_uint_eq(fake.launches, launches);
        if (e->blocks > 0)
            check_launch(0, "decode", e->blocks, 128, 140000, &mark);
        if (e->merge_blocks > 0)
            check_launch(1, "decode_merge", e->merge_blocks, 256, 4096, &mark);
        for (unsigned i = 0; i < launches; i++) {
            ck_assert_uint_eq(fake.launch[i].dependent, sm >= 90); /* no device before knows how */
            check_decode_launch(&c, i, e);
        }
        ck_assert_int_eq(glint_explain(context, &c.problem, GLINT_FORWARD, text, sizeof text, NULL), GLINT_OK);
        snprintf(sentence, sizeof sentence, "The keys are shared by %d blocks", e->parts);
        ck_assert_msg((strstr(text, sentence) != NULL) == (e->parts > 1), "%s", text);
        close_clean(context);
    }
}
END_TEST

/* Ragged, a few queries of each sequence: the layout is that of the bounds, the kernels are those that look for
 * first rows. Without a bound one block looks at what the call says, and in pages there is no such kernel. */
START_TEST(decode_of_ragged)
{
    struct call c, padded;
    int mark;
    fake_reset();
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    prepare_as(&padded, context, GLINT_FORWARD, GLINT_BF16, 256, 2, 3, 700, 8, 2, GLINT_MASK_CAUSAL_BOTTOM_RIGHT);
    prepare_as(&c, context, GLINT_FORWARD, GLINT_BF16, 256, 2, 3, 700, 8, 2, GLINT_MASK_CAUSAL_BOTTOM_RIGHT);
    c.problem.lengths = GLINT_LENGTHS_RAGGED;
    c.problem.rows_q = 5;
    c.problem.rows_k = 900;
    ck_assert_int_eq(glint_plan(context, &c.problem, GLINT_FORWARD, &c.plan), GLINT_OK);
    ck_assert_uint_eq(c.plan.variant, padded.plan.variant);
    ck_assert_uint_eq(c.plan.workspace_bytes, padded.plan.workspace_bytes);
    unsigned char *const far = (unsigned char *)(UINT64_C(20) << 40);
    for (int i = 0; i < 2; i++) {
        struct glint_tensors *const of = i == 0 ? &padded.tensors : &c.tensors;
        void **const addresses[] = {(void **)&of->q, (void **)&of->k, (void **)&of->v, &of->o, (void **)&of->lse};
        for (size_t j = 0; j < 5; j++)
            *addresses[j] = far + (j << 40);
    }
    ck_assert_int_eq(glint_forward(&padded.plan, &padded.tensors, padded.workspace, padded.plan.workspace_bytes, &mark), GLINT_OK);
    ck_assert_uint_eq(fake.launches, 2);
    c.tensors.first_q = (const int32_t *)(const void *)(far + (UINT64_C(6) << 40));
    c.tensors.first_k = c.tensors.first_q + (1 << 20);
    ck_assert_int_eq(glint_forward(&c.plan, &c.tensors, c.workspace, c.plan.workspace_bytes, &mark), GLINT_OK);
    ck_assert_uint_eq(fake.launches, 4);
    check_launch(2, "decode_ragged", fake.launch[0].blocks, 128, 140000, &mark);
    check_launch(3, "decode_ragged_merge", fake.launch[1].blocks, 256, 4096, &mark);
    for (unsigned i = 2; i < 4; i++) {
        const struct glint_decode_params *params = &fake.launch[i].params.decode;
        ck_assert_ptr_eq(params->sequences.first_q, c.tensors.first_q);
        ck_assert_ptr_eq(params->sequences.first_k, c.tensors.first_k);
        ck_assert_int_eq(params->sequences.rows_q, 5);
        ck_assert_int_eq(params->sequences.rows_k, 900);
        ck_assert_ptr_eq(params->sequences.seqlens_k, NULL);
        ck_assert_int_eq(params->shape.seqlen_k, 700);
    }
    c.problem.seqlen_q = 0;
    ck_assert_int_eq(glint_plan(context, &c.problem, GLINT_FORWARD, &c.plan), GLINT_OK);
    ck_assert_int_eq(glint_forward(&c.plan, &c.tensors, c.workspace, c.plan.workspace_bytes, &mark), GLINT_OK);
    ck_assert_uint_eq(fake.launches, 5);
    check_launch(4, "decode_ragged", 1, 128, 140000, &mark);
    c.problem.page_rows = 16;
    c.problem.rows_k = 0;
    c.problem.pages = c.problem.pages_per_sequence = 500;
    struct glint_plan plan;
    char text[1024];
    ck_assert_int_eq(glint_plan(context, &c.problem, GLINT_FORWARD, &plan), GLINT_BAD_PAGES);
    ck_assert_int_eq(glint_explain(context, &c.problem, GLINT_FORWARD, text, sizeof text, NULL), GLINT_BAD_PAGES);
    ck_assert_msg(
        strstr(text, "takes ragged queries with K and V in pages; nearest: dec_bf16_d256_causal__sm80_s2_m8n64. In the spec, set "
                     "device_pages = true in families.sm80") != NULL,
        "%s", text);
    close_clean(context);
}
END_TEST

/* The kernel reads what a query sees at run time: one row for every mask, by its offset. */
START_TEST(decode_of_every_mask)
{
    static const enum glint_mask masks[] = {GLINT_MASK_NONE, GLINT_MASK_CAUSAL_TOP_LEFT, GLINT_MASK_CAUSAL_BOTTOM_RIGHT};
    static const int offsets[] = {700, 0, 697};
    struct call c;
    fake_reset();
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    for (unsigned i = 0; i < 3; i++) {
        prepare_as(&c, context, GLINT_FORWARD, GLINT_BF16, 256, 1, 3, 700, 8, 2, masks[i]);
        fake_recount();
        ck_assert_int_eq(glint_forward(&c.plan, &c.tensors, c.workspace, c.plan.workspace_bytes, NULL), GLINT_OK);
        check_shape(&fake.launch[0].params.decode.shape, &c.problem, offsets[i]);
    }
    close_clean(context);
}
END_TEST

/* What is launched where there are no queries or no keys: O and LSE, or the gradients of what there is, are written. */
static const struct {
    enum glint_pass pass;
    int64_t seqlen_q, seqlen_k;
    struct {
        const char *entry;
        unsigned blocks, threads, shared_bytes;
    } launches[2];
} empty_cases[] = {
    {GLINT_FORWARD, 0, 70, {{0}}},
    {GLINT_FORWARD, 70, 0, {{"plain", 4, 128, 81920}}},
    {GLINT_BACKWARD, 0, 70, {{"split_dkdv", 2 * 2, 128, 65536}}},
    {GLINT_BACKWARD, 70, 0, {{"split_delta", 4, 128, 0}, {"split_dq", 2 * 4, 128, 32768}}},
};

START_TEST(empty_grids)
{
    struct call c;
    fake_reset();
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    prepare(&c, context, empty_cases[_i].pass, 1, empty_cases[_i].seqlen_q, empty_cases[_i].seqlen_k, 4, 2, GLINT_MASK_NONE);
    ck_assert_int_eq((empty_cases[_i].pass == GLINT_FORWARD ? glint_forward : glint_backward)(&c.plan, &c.tensors, c.workspace,
                                                                                              c.plan.workspace_bytes, NULL),
                     GLINT_OK);
    unsigned launches = 0;
    for (; launches < 2 && empty_cases[_i].launches[launches].entry; launches++)
        check_launch(launches, empty_cases[_i].launches[launches].entry, empty_cases[_i].launches[launches].blocks,
                     empty_cases[_i].launches[launches].threads, empty_cases[_i].launches[launches].shared_bytes, NULL);
    ck_assert_uint_eq(fake.launches, launches);
    close_clean(context);
}
END_TEST

/* A grid has at most 2^31 - 1 blocks, and decode as many rows and tiles: the plan refuses one more. Inputs may be
 * broadcast, so such problems can be written down. Decode is in bf16 with head_dim 256, the others are in f16 with
 * 64. */
#define MOST GLINT_MAX_EXTENT
#define ANY SIZE_MAX
static const struct {
    uint32_t dtype;
    enum glint_pass pass;
    enum glint_mask mask;
    int64_t batch, seqlen_q, seqlen_k, heads_q, heads_kv;
    enum glint_status status;
    size_t least, most; /* of the workspace */
    int launch;         /* whose blocks are counted */
    unsigned blocks;    /* 0: they are not */
} huge_cases[] = {
    /* decode: 2^27 tiles; a result a span; 2^31 - 2 rows; 2^31 - 2 tiles and 2^31; nothing to do, however often */
    {GLINT_BF16, GLINT_FORWARD, GLINT_MASK_NONE, 1, 1, MOST, MOST, 1, GLINT_OK, 0, 0, 0, 0},
    {GLINT_BF16, GLINT_FORWARD, GLINT_MASK_NONE, 1, 1, MOST, 1, 1, GLINT_OK, (size_t)264 << 23, (size_t)264 << 23, 0, 0},
    {GLINT_BF16, GLINT_FORWARD, GLINT_MASK_NONE, 1, 2, 1, MOST, 1, GLINT_SIZE_OVERFLOW, 0, 0, 0, 0},
    {GLINT_BF16, GLINT_FORWARD, GLINT_MASK_NONE, 0x7fff, 1, 1, 0x10002, 0x10002, GLINT_OK, 0, ANY, 0, 0},
    {GLINT_BF16, GLINT_FORWARD, GLINT_MASK_NONE, 0x8000, 1, 1, 0x10000, 0x10000, GLINT_SIZE_OVERFLOW, 0, 0, 0, 0},
    {GLINT_BF16, GLINT_FORWARD, GLINT_MASK_NONE, MOST, 0, 4096, MOST, 1, GLINT_OK, 0, 0, 0, 0},
    /* 2^31 - 2 blocks, and 2^31; nothing to do; an array as long as can be */
    {GLINT_F16, GLINT_FORWARD, GLINT_MASK_NONE, 0x7fff, 1, 1, 0x10002, 1, GLINT_OK, 0, 0, 0, 0x7ffffffe},
    {GLINT_F16, GLINT_FORWARD, GLINT_MASK_NONE, 0x8000, 1, 1, 0x10000, 1, GLINT_SIZE_OVERFLOW, 0, 0, 0, 0},
    {GLINT_F16, GLINT_BACKWARD, GLINT_MASK_NONE, 0x8000, 1, 1, 0x10000, 1, GLINT_SIZE_OVERFLOW, 0, 0, 0, 0},
    {GLINT_F16, GLINT_FORWARD, GLINT_MASK_NONE, MOST, 0, 0, MOST, 1, GLINT_OK, 0, 0, 0, 0},
    {GLINT_F16, GLINT_BACKWARD, GLINT_MASK_NONE, MOST, 0, 0, MOST, 1, GLINT_OK, 0, 0, 0, 0},
    {GLINT_F16, GLINT_BACKWARD, GLINT_MASK_NONE, 1, MOST, MOST, 64, 1, GLINT_OK, (size_t)MOST << 9, ANY, 0, 0},
    /* one query of as many heads as there can be, one key head as long as can be: 2^68 bytes of dO for a section to
     * think of */
    {GLINT_F16, GLINT_BACKWARD, GLINT_MASK_NONE, 1, 1, MOST, MOST, 1, GLINT_OK, (size_t)MOST << 10, ANY, 0, 0},
    {GLINT_F16, GLINT_BACKWARD, GLINT_MASK_CAUSAL_TOP_LEFT, 1, 1, MOST, MOST, 1, GLINT_OK, (size_t)MOST << 10, ANY, 0, 0},
    {GLINT_F16, GLINT_BACKWARD, GLINT_MASK_CAUSAL_BOTTOM_RIGHT, 1, 1, MOST, MOST, 1, GLINT_OK, (size_t)MOST << 10, ANY, 0, 0},
    /* 2^13 key blocks of 2^18 - 1 parts, and of 2^18 */
    {GLINT_F16, GLINT_BACKWARD, GLINT_MASK_CAUSAL_BOTTOM_RIGHT, 1, 64, 1 << 20, (1 << 19) - 2, 1, GLINT_OK, 0, ANY, 1, 0x7fffe000},
    {GLINT_F16, GLINT_BACKWARD, GLINT_MASK_CAUSAL_BOTTOM_RIGHT, 1, 64, 1 << 20, 1 << 19, 1, GLINT_SIZE_OVERFLOW, 0, 0, 0, 0},
};
_Static_assert(GLINT_GPU_ROW_PAD == 128, "1024 bytes of a query: two arrays of float32");

START_TEST(huge_grids)
{
    struct glint_problem p;
    struct glint_plan plan;
    fake_reset();
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    glint_problem_bhsd(&p, (enum glint_dtype)huge_cases[_i].dtype, huge_cases[_i].batch, huge_cases[_i].seqlen_q,
                       huge_cases[_i].seqlen_k, huge_cases[_i].heads_q, huge_cases[_i].heads_kv,
                       huge_cases[_i].dtype == GLINT_BF16 ? 256 : 64);
    p.mask = huge_cases[_i].mask;
    ck_assert_int_eq(glint_plan(context, &p, huge_cases[_i].pass, &plan), huge_cases[_i].status);
    if (huge_cases[_i].status == GLINT_OK) {
        ck_assert_uint_ge(plan.workspace_bytes, huge_cases[_i].least);
        ck_assert_uint_le(plan.workspace_bytes, huge_cases[_i].most);
        if (huge_cases[_i].blocks > 0)
            ck_assert_uint_eq(glint_cuda_plan_of(&plan).blocks[huge_cases[_i].launch], huge_cases[_i].blocks);
    }
    close_clean(context);
}
END_TEST

static void add(TCase *tcase)
{
    tcase_add_test(tcase, forward_launch);
    tcase_add_test(tcase, merge_launch);
    tcase_add_test(tcase, append_launch);
    tcase_add_test(tcase, append_of_8_bits);
    tcase_add_test(tcase, launch_of_ragged);
    tcase_add_test(tcase, launch_of_ragged_pages);
    tcase_add_test(tcase, backward_of_ragged);
    tcase_add_test(tcase, launch_of_sinks);
    tcase_add_test(tcase, backward_of_lengths);
    tcase_add_test(tcase, ratios_of_softcap);
    tcase_add_test(tcase, sinks_on_hopper);
    tcase_add_test(tcase, lengths_on_hopper);
    ADD_TABLE(tcase, backward_launch, strategies);
    tcase_add_test(tcase, turns_of_full_lines);
    ADD_TABLE(tcase, parts_of_a_group, part_cases);
    ADD_TABLE(tcase, decode_launch, decode_cases);
    tcase_add_test(tcase, decode_of_ragged);
    tcase_add_test(tcase, decode_of_every_mask);
    ADD_TABLE(tcase, empty_grids, empty_cases);
    ADD_TABLE(tcase, huge_grids, huge_cases);
}

int main(void)
{
    return run_suite("cuda launches", add);
}
