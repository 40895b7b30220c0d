/* Contexts and calls on the driver that owns no GPU. */
#include "tests/cuda/launch_world.h"

_Alignas(64) unsigned char storage[CONTEXTS][STORAGE];
_Alignas(256) unsigned char memory[MEMORY];

enum glint_status open_at(int place, uint32_t kind, int32_t ordinal, struct glint_context **context)
{
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = kind;
    options.cuda_device = ordinal;
    ck_assert_uint_le(glint_context_size(), STORAGE);
    memset(storage[place], 0x55, STORAGE);
    return glint_context_init(storage[place], glint_context_size(), &options, context);
}

struct glint_context *must_open(int place, uint32_t kind, int32_t ordinal)
{
    struct glint_context *context = NULL;
    ck_assert_int_eq(open_at(place, kind, ordinal, &context), GLINT_OK);
    return context;
}

void close_clean(struct glint_context *context)
{
    ck_assert_int_eq(glint_context_close(context), GLINT_OK);
    ck_assert_msg(fake.misuse == 0, "%s", fake.first_misuse);
    ck_assert(fake_context_restored());
}

/* Distinct addresses; extents are small enough that nothing overlaps. */
void prepare_as(struct call *c, const struct glint_context *context, enum glint_pass pass, enum glint_dtype dtype, int64_t head_dim,
                int64_t batch, int64_t seqlen_q, int64_t seqlen_k, int64_t heads_q, int64_t heads_kv, enum glint_mask mask)
{
    glint_problem_bshd(&c->problem, dtype, batch, seqlen_q, seqlen_k, heads_q, heads_kv, head_dim);
    c->problem.mask = mask;
    c->problem.softmax_scale = 0.25f;
    struct glint_problem *p = &c->problem;
    struct glint_strides *const strides[] = {&p->q, &p->k, &p->v, &p->o, &p->dout, &p->dq, &p->dk, &p->dv};
    for (int i = 0; i < 8; i++) { /* no two alike */
        strides[i]->row += 8 * (i + 1);
        strides[i]->batch += 8 * (i + 1) * (seqlen_q + seqlen_k);
    }
    ck_assert_int_eq(glint_plan(context, &c->problem, pass, &c->plan), GLINT_OK);
    struct glint_tensors *t = &c->tensors;
    *t = (struct glint_tensors)GLINT_TENSORS_INIT;
    void **const addresses[] = {(void **)&t->q,    (void **)&t->k, (void **)&t->v, &t->o, (void **)&t->lse,
                                (void **)&t->dout, &t->dq,         &t->dk,         &t->dv};
    unsigned char *at = memory;
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++, at += 1 << 20)
        *addresses[i] = at;
    c->workspace = at;
    ck_assert_uint_le((size_t)(at - memory) + c->plan.workspace_bytes, sizeof memory);
}

void prepare(struct call *c, const struct glint_context *context, enum glint_pass pass, int64_t batch, int64_t seqlen_q,
             int64_t seqlen_k, int64_t heads_q, int64_t heads_kv, enum glint_mask mask)
{
    prepare_as(c, context, pass, GLINT_F16, 64, batch, seqlen_q, seqlen_k, heads_q, heads_kv, mask);
}

void check_launch(unsigned number, const char *entry, unsigned blocks, unsigned threads, unsigned shared_bytes, void *stream)
{
    const struct fake_launch *l = &fake.launch[number % FAKE_LAUNCHES];
    ck_assert_str_eq(l->entry, entry);
    ck_assert_uint_eq(l->blocks, blocks);
    ck_assert_uint_eq(l->threads, threads);
    ck_assert_uint_eq(l->shared_bytes, shared_bytes);
    ck_assert_ptr_eq(l->stream, stream);
}

void check_view(const struct glint_gpu_view *view, const void *address, const struct glint_strides *strides)
{
    ck_assert_ptr_eq(view->address, address);
    ck_assert_int_eq(view->batch, strides->batch);
    ck_assert_int_eq(view->head, strides->head);
    ck_assert_int_eq(view->row, strides->row);
}

void check_shape(const struct glint_gpu_shape *s, const struct glint_problem *p, int64_t offset)
{
    ck_assert_int_eq(s->batch, p->batch);
    ck_assert_int_eq(s->heads_q, p->heads_q);
    ck_assert_int_eq(s->heads_kv, p->heads_kv);
    ck_assert_int_eq(s->group, p->heads_q / p->heads_kv);
    ck_assert_int_eq(s->seqlen_q, p->seqlen_q);
    ck_assert_int_eq(s->seqlen_k, p->seqlen_k);
    ck_assert_int_eq(s->mask_offset, offset);
    ck_assert_int_eq(s->mask_first, -p->seqlen_q);
    ck_assert_int_ge(s->section, 1);
    ck_assert(s->softmax_scale == p->softmax_scale);
    ck_assert_float_eq_tol(s->scale_log2, p->softmax_scale * 1.442695041f, 1e-7f);
}

void check_region(const void *at, size_t bytes, const struct call *c, size_t *end)
{
    if (bytes == 0) {
        ck_assert_ptr_null(at);
        return;
    }
    const size_t begin = (size_t)((const unsigned char *)at - c->workspace);
    ck_assert_uint_eq(begin % 256, 0);
    ck_assert_uint_ge(begin, *end);
    *end = begin + bytes;
    ck_assert_uint_le(*end, c->plan.workspace_bytes);
}

int run_suite(const char *name, void (*add)(TCase *tcase))
{
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);
    add(tcase);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner), run = srunner_ntests_run(runner);
    srunner_free(runner);
    return failed == 0 && run > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
