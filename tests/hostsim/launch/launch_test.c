/* The library's launch code on the simulator's driver: a made-up row of everything that Hopper's kernels are launched with (tiles.cu), over
 * shapes that fill no tile, one multiprocessor's worth and more than the device holds; strides of every kind; and a workspace that
 * held something else before. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/context.h"
#include "lib/cuda/cuda.h"
#include "tests/hostsim/driver.h"

extern const struct glint_family glint_family_sm90a;
extern const unsigned char glint_tiles__sm90a_cubin[];

static const struct glint_gpu_image images[] = {{"90a", glint_tiles__sm90a_cubin}};
static const struct glint_gpu_kernel kernel = {
    .strategy = GLINT_GPU_FORWARD,
    .launch_count = 1,
    .launch = {{.entry = "glint_tiles",
                .grid = GLINT_GPU_QUERY_BLOCKS,
                .rows = 64,
                .threads = 128,
                .smem_bytes = 64 * 128 * 2 + 64 * 64 + 16,
                .blocks_per_sm = 1,
                .cluster = 2,
                .dependent = 1}},
    .images = images,
    .image_count = 1,
    .row_dim = 128,
    .zero_words = 1,
    .map_count = 3,
    .map = {{GLINT_GPU_Q, TENSOR_MAP_SWIZZLE_128B, 2, 0, 64, 64},
            {GLINT_GPU_V, TENSOR_MAP_NO_SWIZZLE, 0, 0, 32, 64},
            {GLINT_GPU_O, TENSOR_MAP_SWIZZLE_128B, 2, 0, 64, 64}},
};
const struct glint_variant glint_variants[] = {
    {"fwd_bf16_d128_none__sm90a_m64n64", GLINT_FORWARD, GLINT_BF16, 0, 128, 64, 64, 0, 90, GLINT_MATH_NATIVE, 0, 16,
     &glint_family_sm90a, &kernel},
};
const uint32_t glint_variants_count = 1;

static _Alignas(64) unsigned char storage[8192];

static struct glint_context *open_context(void)
{
    struct glint_options options = GLINT_OPTIONS_INIT;
    struct glint_context *context = NULL;
    options.device = GLINT_DEVICE_CUDA_CURRENT;
    ck_assert_uint_le(glint_context_size(), sizeof storage);
    ck_assert_int_eq(glint_context_init_with_driver(storage, sizeof storage, &options, sim_driver(90), &context), GLINT_OK);
    return context;
}

enum { HEAD_DIM = 128 };

struct tensor {
    uint16_t *host, *device;
    size_t count;
};

/* Room for a tensor, and a number for each place in it that is its own, so far as 16 bits go. */
static struct tensor make(const struct glint_strides *s, int64_t batch, int64_t heads, int64_t rows, unsigned first)
{
    struct tensor t;
    t.count = rows == 0 ? 0 : (size_t)((batch - 1) * s->batch + (heads - 1) * s->head + (rows - 1) * s->row + HEAD_DIM);
    t.host = malloc((t.count + 1) * sizeof *t.host);
    t.device = sim_allocate((t.count + 1) * sizeof *t.device);
    ck_assert(t.host && t.device);
    for (size_t i = 0; i < t.count; i++)
        t.host[i] = (uint16_t)((i * 7 + first) % 0x7f00);
    sim_put(t.device, t.host, t.count * sizeof *t.host);
    return t;
}

static void release(struct tensor *t)
{
    sim_release(t->device);
    free(t->host);
}

static const struct {
    int64_t batch, heads_q, heads_kv, seqlen_q, seqlen_k;
    bool interleaved; /* [batch, seqlen, heads, head_dim], with gaps */
} cases[] = {
    {1, 1, 1, 1, 1, false},    {1, 1, 1, 64, 64, false}, {1, 1, 1, 65, 40, false}, {2, 4, 2, 130, 100, false},
    {2, 4, 2, 130, 200, true}, {3, 2, 1, 200, 3, true},  {1, 2, 2, 70, 0, false},  {2, 2, 2, 0, 70, false},
};

static void check_rows(const struct tensor *from, const struct glint_strides *s, const uint16_t *o, const struct glint_strides *os,
                       int i)
{
    for (int64_t b = 0; b < cases[i].batch; b++)
        for (int64_t h = 0; h < cases[i].heads_q; h++)
            for (int64_t r = 0; r < cases[i].seqlen_q; r++)
                ck_assert_msg(memcmp(from->host + b * s->batch + h * s->head + r * s->row,
                                     o + b * os->batch + h * os->head + r * os->row, HEAD_DIM * sizeof *o) == 0,
                              "batch %d head %d row %d", (int)b, (int)h, (int)r);
}

START_TEST(tiles)
{
    const int64_t batch = cases[_i].batch, heads_q = cases[_i].heads_q, heads_kv = cases[_i].heads_kv;
    const int64_t queries = cases[_i].seqlen_q, keys = cases[_i].seqlen_k;
    struct glint_context *context = open_context();
    struct glint_problem p;
    struct glint_plan plan;
    struct glint_tensors t = GLINT_TENSORS_INIT;
    if (cases[_i].interleaved)
        glint_problem_bshd(&p, GLINT_BF16, batch, queries, keys, heads_q, heads_kv, HEAD_DIM);
    else
        glint_problem_bhsd(&p, GLINT_BF16, batch, queries, keys, heads_q, heads_kv, HEAD_DIM);
    if (cases[_i].interleaved) { /* rows apart, batches apart */
        p.q.row += 24, p.q.batch = queries * p.q.row + 8;
        p.v.row += 8, p.v.batch = keys * p.v.row + 40;
        p.o.row += 16, p.o.batch = queries * p.o.row + 64;
    }
    if (batch == 1) /* nobody steps along it */
        p.q.batch = p.v.batch = p.o.batch = (INT64_C(1) << 45) + 1;
    ck_assert_int_eq(glint_plan(context, &p, GLINT_FORWARD, &plan), GLINT_OK);
    struct tensor q = make(&p.q, batch, heads_q, queries, 1), k = make(&p.k, batch, heads_kv, keys, 2),
                  v = make(&p.v, batch, heads_kv, keys, 3), o = make(&p.o, batch, heads_q, queries, 4);
    const size_t rows = (size_t)(batch * heads_q * queries);
    float *lse = sim_allocate((rows + 1) * sizeof *lse), *lse_host = malloc((rows + 1) * sizeof *lse);
    uint16_t *o_host = malloc((o.count + 1) * sizeof *o_host);
    void *workspace = sim_allocate(plan.workspace_bytes);
    ck_assert(lse && lse_host && o_host && workspace);
    t.q = queries > 0 ? q.device : NULL;
    t.k = keys > 0 ? k.device : NULL;
    t.v = keys > 0 ? v.device : NULL;
    t.o = queries > 0 ? o.device : NULL;
    t.lse = queries > 0 ? lse : NULL;
    for (int again = 0; again < 3; again++) { /* what the last call counted is still there */
        sim_seed((uint64_t)again + 1);
        sim_put(o.device, o.host, o.count * sizeof *o.host);
        ck_assert_int_eq(glint_forward(&plan, &t, workspace, plan.workspace_bytes, NULL), GLINT_OK);
        ck_assert_msg(sim_findings() == 0, "%s", sim_findings() > 0 ? sim_finding_text(0) : "");
        sim_get(o_host, o.device, o.count * sizeof *o_host);
        check_rows(&q, &p.q, o_host, &p.o, _i);
        sim_get(lse_host, lse, rows * sizeof *lse);
        for (size_t i = 0; i < rows; i++) {
            const int64_t r = (int64_t)i % queries, h = (int64_t)i / queries % heads_q, b = (int64_t)i / queries / heads_q;
            const uint32_t bits =
                r < keys ? (uint32_t)v.host[b * p.v.batch * (batch > 1) + h / (heads_q / heads_kv) * p.v.head + r * p.v.row] << 16
                         : 0;
            float value;
            memcpy(&value, &bits, sizeof value);
            ck_assert_msg(lse_host[i] == value, "row %d of %d: %g, not %g", (int)i, (int)rows, (double)lse_host[i], (double)value);
        }
    }
    if (queries > 0 && keys > 0) { /* a workspace that is not cleared would have shown: the counter is past the last tile */
        uint32_t counted = 0;
        sim_get(&counted, workspace, sizeof counted);
        const uint32_t tiles = (uint32_t)(batch * heads_q * ((queries + 63) / 64));
        const uint32_t blocks = glint_cuda_plan_of(&plan).blocks[0];
        ck_assert_uint_eq(blocks, tiles > 2 ? 4 : 2);             /* 4 multiprocessors */
        ck_assert_uint_eq(counted, (tiles + 1) / 2 + blocks / 2); /* each pair is told once that there is no more */
    }
    ck_assert_int_eq(glint_context_close(context), GLINT_OK);
    struct tensor *const all[] = {&q, &k, &v, &o};
    for (int i = 0; i < 4; i++)
        release(all[i]);
    sim_release(lse);
    sim_release(workspace);
    free(lse_host);
    free(o_host);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("simulated launches");
    TCase *tcase = tcase_create("tiles");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, tiles, 0, sizeof cases / sizeof cases[0]);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner), run = srunner_ntests_run(runner);
    srunner_free(runner);
    return failed == 0 && run > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
