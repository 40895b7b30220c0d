/* Control of the tools that watch kernels: two right programs and one with a race (control.cu). The simulator must
 * find the race, and nothing in the right ones. On a GPU, `control_on_device right`, `lanes` and `early` are run under
 * compute-sanitizer, which tells what its findings on Hopper's bulk copies are worth, and on what a step's warps hand
 * on (tests/gpu/run_backend.sh, part sanitize). Outputs are not initialised, so that initcheck looks at who writes
 * them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/context.h"
#include "lib/cpu/cpu.h"
#include "lib/cuda/cuda.h"
#include "tests/hostsim/launch/machine.h"

extern const struct glint_family glint_family_sm90a;
extern const unsigned char glint_control__sm90a_cubin[];

enum { HEADS = 3, QUERIES = 192, HEAD_DIM = 128, ELEMENTS = HEADS * QUERIES * HEAD_DIM, ROWS = HEADS * QUERIES };

const struct glint_gpu_image glint_gpu_images[] = {{"90a"}};
const uint32_t glint_gpu_rows_image = 0, glint_gpu_rows_count = 0; /* glint_merge and glint_append are not called */

const unsigned char *glint_gpu_image_bytes(uint32_t image)
{
    (void)image;
    return glint_control__sm90a_cubin;
}

const struct glint_gpu_launch glint_gpu_launches[] = {
    {.suffix = "", .grid = GLINT_GPU_QUERY_BLOCKS, .rows = 64, .threads = 64, .smem_bytes = 20 * 1024 + 512}};
const struct glint_gpu_map glint_gpu_maps[] = {{GLINT_GPU_O, TENSOR_MAP_NO_SWIZZLE, 0, 0, HEAD_DIM, 64}};

enum { EARLY = 0, LANES = 1, RIGHT = 2 }; /* kernels and rows */

#define KERNEL(entry)                                                                                                          \
    {                                                                                                                          \
        .name = entry, .strategy = GLINT_GPU_FORWARD, .launch_count = 1, .image_count = 1, .map_count = 1, .row_dim = HEAD_DIM \
    }
const struct glint_gpu_kernel glint_gpu_kernels[] = {
    [EARLY] = KERNEL("glint_control_early"), [LANES] = KERNEL("glint_control_lanes"), [RIGHT] = KERNEL("glint_control")};

#define ROW(name, tile_n, kernel)                                                                                                 \
    {                                                                                                                             \
        name, GLINT_FORWARD, GLINT_BF16, 0, GLINT_MATH_NATIVE, 0, HEAD_DIM, HEAD_DIM, 64, tile_n, 0, 90, 0, 0, 0, 0, 0, 0, 0, 16, \
            0, 0, 0, 0, kernel                                                                                                    \
    }
const struct glint_variant glint_variants[] = {
    [EARLY] = ROW("fwd_bf16_d128_none__sm90a_m64n128", 128, EARLY),
    [LANES] = ROW("fwd_bf16_d128_none__sm90a_m64n32", 32, LANES),
    [RIGHT] = ROW("fwd_bf16_d128_none__sm90a_m64n64", 64, RIGHT),
};
const uint32_t glint_variants_count = 3;
const struct glint_family *const glint_families[] = {&glint_family_sm90a};

void glint_cpu_run_task(uint32_t kernel, uint32_t phase, const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    (void)kernel, (void)phase, (void)call, (void)scratch, (void)task; /* the table has no row of the CPU */
}

static _Alignas(64) unsigned char storage[8192];

static void must(int right_so_far, const char *what)
{
    if (right_so_far)
        return;
    printf("FAIL: %s\n", what);
    exit(EXIT_FAILURE);
}

/* Runs row `which`; how many numbers of its answer are wrong. *fault: what the machine says. */
static int run(const struct glint_context *context, uint32_t which, const char **fault)
{
    static uint16_t q_host[ELEMENTS], o_host[ELEMENTS];
    static float lse_host[ROWS];
    struct glint_problem p;
    struct glint_plan plan;
    struct glint_tensors t = GLINT_TENSORS_INIT;
    int wrong = 0;
    void *q = machine_alloc(sizeof q_host), *o = machine_alloc(sizeof o_host), *lse = machine_alloc(sizeof lse_host);
    must(q && o && lse, "memory");
    for (int i = 0; i < ELEMENTS; i++)
        q_host[i] = (uint16_t)(i * 7 % 0x7f00 + 1);
    machine_put(q, q_host, sizeof q_host);
    glint_problem_bhsd(&p, GLINT_BF16, 1, QUERIES, QUERIES, HEADS, HEADS, HEAD_DIM);
    must(glint_plan_variant(context, &p, GLINT_FORWARD, which, &plan) == GLINT_OK && plan.workspace_bytes == 0, "the plan");
    t.q = t.k = t.v = q;
    t.o = o;
    t.lse = lse;
    must(machine_forward(0, &plan, &t, NULL, 0) == GLINT_OK, "the launch");
    *fault = machine_fault();
    machine_get(o_host, o, sizeof o_host);
    machine_get(lse_host, lse, sizeof lse_host);
    for (int i = 0; i < ELEMENTS; i++)
        wrong += o_host[i] != q_host[i];
    for (int i = 0; i < ROWS; i++)
        wrong += lse_host[i] != 2 * (float)(i % QUERIES);
    machine_free(q);
    machine_free(o);
    machine_free(lse);
    return wrong;
}

int main(int argc, char **argv)
{
    struct glint_context *context = machine_open(storage, sizeof storage);
    const char *fault = NULL;
    const int all = argc < 2, only_early = !all && strcmp(argv[1], "early") == 0;
    must(context != NULL, "a context");
    const uint32_t first = !all && strcmp(argv[1], "right") == 0 ? RIGHT : LANES, last = !all && first == LANES ? LANES : RIGHT;
    for (uint32_t which = first; which <= last && !only_early; which++) {
        const int wrong = run(context, which, &fault);
        if (fault)
            printf("%s\n", fault);
        must(wrong == 0 && !fault, which == RIGHT ? "the right program" : "the right program of all lanes");
    }
    if (only_early)
        printf("%d numbers came too late\n", run(context, EARLY, &fault));
    if (all) {
        run(context, EARLY, &fault);
        must(fault != NULL, "the race was not found");
        printf("found: %s\n", fault);
    }
    must(glint_context_close(context) == GLINT_OK, "close");
    printf("done\n");
    return EXIT_SUCCESS;
}
