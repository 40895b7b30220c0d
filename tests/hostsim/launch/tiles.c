/* The library's launch code with everything that Hopper's kernels are launched with: a made-up row (tiles.cu) over
 * shapes that fill no tile, one multiprocessor's worth and more than the device holds; strides of every kind; and a
 * workspace that held something else before. In the simulator (//tests/hostsim/launch:launch_test), and on a GPU
 * (tiles_on_device of the GPU bundle). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/context.h"
#include "lib/cpu/cpu.h"
#include "lib/cuda/cuda.h"
#include "tests/hostsim/launch/machine.h"

extern const struct glint_family glint_family_sm90a;
extern const unsigned char glint_tiles__sm90a_cubin[];

const struct glint_gpu_image glint_gpu_images[] = {{"90a"}};
const uint32_t glint_gpu_rows_image = 0, glint_gpu_rows_count = 0; /* glint_merge and glint_append are not called */

const unsigned char *glint_gpu_image_bytes(uint32_t image)
{
    (void)image;
    return glint_tiles__sm90a_cubin;
}

const struct glint_gpu_launch glint_gpu_launches[] = {{.suffix = "",
                                                       .grid = GLINT_GPU_QUERY_BLOCKS,
                                                       .rows = 64,
                                                       .threads = 128,
                                                       .smem_bytes = 64 * 128 * 2 + 64 * 64 + 16,
                                                       .blocks_per_sm = 1,
                                                       .cluster = 2,
                                                       .dependent = 1}};
const struct glint_gpu_map glint_gpu_maps[] = {{GLINT_GPU_Q, TENSOR_MAP_SWIZZLE_128B, 2, 0, 64, 64},
                                               {GLINT_GPU_V, TENSOR_MAP_NO_SWIZZLE, 0, 0, 32, 64},
                                               {GLINT_GPU_O, TENSOR_MAP_SWIZZLE_128B, 2, 0, 64, 64}};
const struct glint_gpu_kernel glint_gpu_kernels[] = {{.name = "glint_tiles",
                                                      .strategy = GLINT_GPU_FORWARD,
                                                      .launch_count = 1,
                                                      .image_count = 1,
                                                      .map_count = 3,
                                                      .row_dim = 128,
                                                      .zero_words = 1}};
const struct glint_family *const glint_families[] = {&glint_family_sm90a};
const struct glint_variant glint_variants[] = {
    {"fwd_bf16_d128_none__sm90a_m64n64",
     GLINT_FORWARD,
     GLINT_BF16,
     0,
     GLINT_MATH_NATIVE,
     0,
     128,
     128,
     64,
     64,
     0,
     90,
     0,
     0,
     0,
     0,
     0,
     0,
     0,
     16,
     0,
     0,
     0,
     0,
     0},
};
const uint32_t glint_variants_count = 1;

void glint_cpu_run_task(uint32_t kernel, uint32_t phase, const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    (void)kernel, (void)phase, (void)call, (void)scratch, (void)task; /* the table has no row of the CPU */
}

static _Alignas(64) unsigned char storage[8192];

static int checks, failed;

#define EXPECT(right, ...)           \
    do {                             \
        checks++;                    \
        if (!(right)) {              \
            if (failed++ < 10) {     \
                printf(__VA_ARGS__); \
                printf("\n");        \
            }                        \
        }                            \
    } while (0)

static void *must(void *memory)
{
    if (!memory) {
        printf("no memory\n");
        exit(EXIT_FAILURE);
    }
    return memory;
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
    t.host = must(malloc((t.count + 1) * sizeof *t.host));
    t.device = must(machine_alloc((t.count + 1) * sizeof *t.device));
    for (size_t i = 0; i < t.count; i++)
        t.host[i] = (uint16_t)((i * 7 + first) % 0x7f00);
    machine_put(t.device, t.host, t.count * sizeof *t.host);
    return t;
}

static void release(struct tensor *t)
{
    machine_free(t->device);
    free(t->host);
}

static const struct {
    int64_t batch, heads_q, heads_kv, seqlen_q, seqlen_k;
    bool interleaved; /* [batch, seqlen, heads, head_dim], with gaps */
} cases[] = {
    {1, 1, 1, 1, 1, false},    {1, 1, 1, 64, 64, false}, {1, 1, 1, 65, 40, false}, {2, 4, 2, 130, 100, false},
    {2, 4, 2, 130, 200, true}, {3, 2, 1, 200, 3, true},  {1, 2, 2, 70, 0, false},  {2, 2, 2, 0, 70, false},
};

/* Row by row, O is Q. */
static void check_o(int i, const struct tensor *q, const struct glint_strides *s, const uint16_t *o, const struct glint_strides *os)
{
    for (int64_t b = 0; b < cases[i].batch; b++)
        for (int64_t h = 0; h < cases[i].heads_q; h++)
            for (int64_t r = 0; r < cases[i].seqlen_q; r++)
                EXPECT(memcmp(q->host + b * s->batch + h * s->head + r * s->row, o + b * os->batch + h * os->head + r * os->row,
                              HEAD_DIM * sizeof *o) == 0,
                       "case %d: O of batch %d head %d row %d", i, (int)b, (int)h, (int)r);
}

/* LSE is the first number of V's row of the same index, 0 where V has none. */
static void check_lse(int i, const struct tensor *v, const struct glint_strides *s, const float *lse)
{
    const int64_t queries = cases[i].seqlen_q, heads = cases[i].heads_q, group = heads / cases[i].heads_kv;
    for (int64_t n = 0; n < cases[i].batch * heads * queries; n++) {
        const int64_t r = n % queries, h = n / queries % heads, b = n / queries / heads;
        const int64_t at = (b > 0 ? b * s->batch : 0) + h / group * s->head + r * s->row;
        const uint32_t bits = r < cases[i].seqlen_k ? (uint32_t)v->host[at] << 16 : 0;
        float value;
        memcpy(&value, &bits, sizeof value);
        EXPECT(lse[n] == value, "case %d: LSE %d is %g, not %g", i, (int)n, (double)lse[n], (double)value);
    }
}

static void make_problem(int i, struct glint_problem *p)
{
    const int64_t batch = cases[i].batch, queries = cases[i].seqlen_q, keys = cases[i].seqlen_k;
    if (cases[i].interleaved) { /* rows apart, batches apart */
        glint_problem_bshd(p, GLINT_BF16, batch, queries, keys, cases[i].heads_q, cases[i].heads_kv, HEAD_DIM);
        p->q.row += 24, p->q.batch = queries * p->q.row + 8;
        p->v.row += 8, p->v.batch = keys * p->v.row + 40;
        p->o.row += 16, p->o.batch = queries * p->o.row + 64;
    } else
        glint_problem_bhsd(p, GLINT_BF16, batch, queries, keys, cases[i].heads_q, cases[i].heads_kv, HEAD_DIM);
    if (batch == 1) /* nobody steps along it */
        p->q.batch = p->v.batch = p->o.batch = (INT64_C(1) << 45) + 1;
}

static void run_case(const struct glint_context *context, int i)
{
    const int64_t batch = cases[i].batch, queries = cases[i].seqlen_q, keys = cases[i].seqlen_k;
    const uint32_t tiles = (uint32_t)(batch * cases[i].heads_q * ((queries + 63) / 64));
    const uint32_t multiprocessors = glint_context_concurrency(context);
    const size_t rows = (size_t)(batch * cases[i].heads_q * queries);
    struct glint_problem p;
    struct glint_plan plan;
    struct glint_tensors t = GLINT_TENSORS_INIT;
    make_problem(i, &p);
    EXPECT(glint_plan(context, &p, GLINT_FORWARD, &plan) == GLINT_OK, "case %d is not planned", i);
    struct tensor q = make(&p.q, batch, cases[i].heads_q, queries, 1), k = make(&p.k, batch, cases[i].heads_kv, keys, 2),
                  v = make(&p.v, batch, cases[i].heads_kv, keys, 3), o = make(&p.o, batch, cases[i].heads_q, queries, 4);
    float *lse = must(machine_alloc((rows + 1) * sizeof *lse)), *lse_host = must(malloc((rows + 1) * sizeof *lse));
    uint16_t *o_host = must(malloc((o.count + 1) * sizeof *o_host));
    void *workspace = must(machine_alloc(plan.workspace_bytes));
    t.q = queries > 0 ? q.device : NULL;
    t.k = keys > 0 ? k.device : NULL;
    t.v = keys > 0 ? v.device : NULL;
    t.o = queries > 0 ? o.device : NULL;
    t.lse = queries > 0 ? lse : NULL;
    for (int way = 0; way < MACHINE_WAYS; way++) { /* what the last call counted is still there */
        machine_put(o.device, o.host, o.count * sizeof *o.host);
        const enum glint_status status = machine_forward(way, &plan, &t, workspace, plan.workspace_bytes);
        const char *fault = machine_fault();
        EXPECT(status == GLINT_OK && !fault, "case %d way %d: %s, %s", i, way, glint_status_name(status), fault ? fault : "");
        machine_get(o_host, o.device, o.count * sizeof *o_host);
        machine_get(lse_host, lse, rows * sizeof *lse);
        check_o(i, &q, &p.q, o_host, &p.o);
        check_lse(i, &v, &p.v, lse_host);
    }
    if (queries > 0) {
        const uint32_t blocks = glint_cuda_plan_of(&plan).blocks[0], pairs = (tiles + 1) / 2;
        const uint32_t held = multiprocessors / 2 > 0 ? multiprocessors / 2 : 1;
        uint32_t counted = 0;
        machine_get(&counted, workspace, sizeof counted);
        EXPECT(blocks == 2 * (pairs < held ? pairs : held), "case %d: %u blocks", i, blocks);
        EXPECT(counted == pairs + blocks / 2, "case %d: %u pairs counted", i,
               counted); /* each is told once that there is no more */
    }
    struct tensor *const all[] = {&q, &k, &v, &o};
    for (int n = 0; n < 4; n++)
        release(all[n]);
    machine_free(lse);
    machine_free(workspace);
    free(lse_host);
    free(o_host);
}

int main(void)
{
    struct glint_context *context = machine_open(storage, sizeof storage);
    EXPECT(context && glint_context_size() <= sizeof storage, "no context");
    for (int i = 0; context && i < (int)(sizeof cases / sizeof cases[0]); i++)
        run_case(context, i);
    EXPECT(context && glint_context_close(context) == GLINT_OK, "not closed");
    printf("%d checks, %d failed\n", checks, failed);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
