/* A table of a CPU's rows, and a CPU that runs all of them, whatever this one has: no spec changes what a test says of
 * them. Nothing is computed. */
#include "tests/contract/made_up.h"

#include <stdlib.h>

#include "lib/backend.h"
#include "lib/cpu/cpu.h"
#include "lib/takes.h"
#include "tests/contract/edges.h"

extern const struct glint_family glint_family_cpu;

void (*made_up_task)(uint32_t phase, const struct glint_cpu_call *call, float *scratch, int64_t task);

void glint_cpu_run_task(uint32_t kernel, uint32_t phase, const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    (void)kernel; /* nothing is computed */
    if (made_up_task)
        made_up_task(phase, call, scratch, task);
}

/* In place of lib/cpu/probe.c: a CPU with AVX-512 and AMX. */
uint32_t glint_cpu_probe(void)
{
    return 1u << GLINT_ISA_X86_64 | 1u << GLINT_ISA_X86_64_V3 | 1u << GLINT_ISA_X86_64_V4 | 1u << GLINT_ISA_X86_64_BF16 |
           1u << GLINT_ISA_X86_64_AMX;
}

uint32_t made_up_slow;

uint32_t glint_cpu_slow(void)
{
    return made_up_slow;
}

/* A row of another backend, which a context on the CPU says nothing of. */
static size_t no_bytes(void)
{
    return 0;
}

static const struct glint_backend no_gpu = {.device = GLINT_DEVICE_CUDA, .size = no_bytes};
static const struct glint_family of_no_gpu = {.name = "sm80", .backend = &no_gpu};
enum { OF_CPU, OF_NO_GPU };
const struct glint_family *const glint_families[] = {&glint_family_cpu, &of_no_gpu};

enum {
    FORWARD_TAKES = GLINT_TAKES_LENGTHS | GLINT_TAKES_RAGGED | GLINT_TAKES_PAGES | GLINT_TAKES_RAGGED_PAGES | GLINT_TAKES_SINKS |
                    GLINT_TAKES_CANONICAL,
    LOGIT_TAKES = FORWARD_TAKES | GLINT_TAKES_MAX_LOGIT,
    DECODE_TAKES = FORWARD_TAKES - GLINT_TAKES_CANONICAL,
    BACKWARD_TAKES = GLINT_TAKES_LENGTHS | GLINT_TAKES_RAGGED | GLINT_TAKES_SINKS,
    CAUSAL = GLINT_FEATURE_RIGHT_BOUND,
    BAND = GLINT_FEATURE_RIGHT_BOUND | GLINT_FEATURE_LEFT_BOUND,
    CAP = GLINT_FEATURE_SOFTCAP,
    INTERVAL = BAND | GLINT_FEATURE_INTERVALS,
    TREE = INTERVAL | GLINT_FEATURE_TREE,
    ALIBI = GLINT_FEATURE_ALIBI,
    TENSOR = GLINT_FEATURE_BIAS
};
#define ROW_OF(math, name, pass, dtype, kv_dtype, features, head_dim, m, n, isa, queries_up_to, takes)                            \
    {                                                                                                                             \
        name, pass, dtype, kv_dtype, math, features, head_dim, head_dim, m, n, isa, 0, 0, 0, 0, 0, queries_up_to, 0, 0, 4, takes, \
            takes, 0, OF_CPU, 0                                                                                                   \
    }
#define GPU_ROW(name, features, head_dim)                                                                                    \
    {                                                                                                                        \
        name, GLINT_FORWARD, GLINT_F32, 0, 0, features, head_dim, head_dim, 64, 64, 0, 80, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, \
            OF_NO_GPU, 0                                                                                                     \
    }
#define ROW(...) ROW_OF(GLINT_MATH_NATIVE, __VA_ARGS__)
const struct glint_variant glint_variants[] = {
    ROW("bwd_bf16_d40_band_softcap__cpu_x86_64_bf16_m64n96", GLINT_BACKWARD, GLINT_BF16, 0, BAND | CAP, 40, 64, 96,
        GLINT_ISA_X86_64_BF16, 0, BACKWARD_TAKES), /* the first row is one that may not be taken */
    ROW("bwd_bf16_d40_band_softcap__cpu_x86_64_m64n96", GLINT_BACKWARD, GLINT_BF16, 0, BAND | CAP, 40, 64, 96, GLINT_ISA_X86_64, 0,
        BACKWARD_TAKES),
    ROW("bwd_bf16_d72_causal__cpu_x86_64_amx_m32n64", GLINT_BACKWARD, GLINT_BF16, 0, CAUSAL, 72, 32, 64, GLINT_ISA_X86_64_AMX, 0,
        BACKWARD_TAKES),
    ROW("bwd_bf16_d72_interval_tensor__cpu_x86_64_m64n96", GLINT_BACKWARD, GLINT_BF16, 0, INTERVAL | TENSOR, 72, 64, 96,
        GLINT_ISA_X86_64, 0, BACKWARD_TAKES),
    ROW("bwd_f32_d64_causal__cpu_x86_64_m64n96", GLINT_BACKWARD, GLINT_F32, 0, CAUSAL, 64, 64, 96, GLINT_ISA_X86_64, 0,
        BACKWARD_TAKES),
    ROW("bwd_f32_d64_causal_alibi__cpu_x86_64_m64n96", GLINT_BACKWARD, GLINT_F32, 0, CAUSAL | ALIBI, 64, 64, 96, GLINT_ISA_X86_64,
        0, BACKWARD_TAKES),
    ROW("bwd_f32_d64_none_tensor__cpu_x86_64_m64n32", GLINT_BACKWARD, GLINT_F32, 0, TENSOR, 64, 64, 32, GLINT_ISA_X86_64, 0,
        BACKWARD_TAKES),
    ROW("bwd_f32_d96_none__cpu_x86_64_m64n1024", GLINT_BACKWARD, GLINT_F32, 0, 0, 96, 64, 1024, GLINT_ISA_X86_64, 0,
        BACKWARD_TAKES),
    ROW("dec_bf16_d40_band_softcap__cpu_x86_64_m32n256", GLINT_FORWARD, GLINT_BF16, 0, BAND | CAP, 40, 32, 256, GLINT_ISA_X86_64, 8,
        DECODE_TAKES),
    ROW("dec_bf16_d72_causal__cpu_x86_64_amx_m32n512", GLINT_FORWARD, GLINT_BF16, 0, CAUSAL, 72, 32, 512, GLINT_ISA_X86_64_AMX, 8,
        DECODE_TAKES),
    ROW("dec_f32_d64_causal__cpu_x86_64_m32n256", GLINT_FORWARD, GLINT_F32, 0, CAUSAL, 64, 32, 256, GLINT_ISA_X86_64, 8,
        DECODE_TAKES),
    ROW("dec_f32_d64_tree_tensor__cpu_x86_64_m32n256", GLINT_FORWARD, GLINT_F32, 0, TREE | TENSOR, 64, 32, 256, GLINT_ISA_X86_64, 8,
        LOGIT_TAKES - GLINT_TAKES_CANONICAL),
    ROW("dec_f32_i8_d64_causal__cpu_x86_64_m32n256", GLINT_FORWARD, GLINT_F32, GLINT_I8, CAUSAL, 64, 32, 256, GLINT_ISA_X86_64, 1,
        DECODE_TAKES),
    ROW("fwd_bf16_d40_band_softcap__cpu_x86_64_m64n96", GLINT_FORWARD, GLINT_BF16, 0, BAND | CAP, 40, 64, 96, GLINT_ISA_X86_64, 0,
        FORWARD_TAKES),
    ROW("fwd_bf16_d72_causal__cpu_x86_64_amx_m64n128", GLINT_FORWARD, GLINT_BF16, 0, CAUSAL, 72, 64, 128, GLINT_ISA_X86_64_AMX, 0,
        FORWARD_TAKES),
    ROW("fwd_bf16_d72_causal__cpu_x86_64_bf16_m64n96", GLINT_FORWARD, GLINT_BF16, 0, CAUSAL, 72, 64, 96, GLINT_ISA_X86_64_BF16, 0,
        FORWARD_TAKES),
    ROW("fwd_bf16_d72_causal__cpu_x86_64_m64n96", GLINT_FORWARD, GLINT_BF16, 0, CAUSAL, 72, 64, 96, GLINT_ISA_X86_64, 0,
        FORWARD_TAKES),
    ROW("fwd_f32_d256_none__cpu_x86_64_m32n64", GLINT_FORWARD, GLINT_F32, 0, 0, 256, 32, 64, GLINT_ISA_X86_64, 0, FORWARD_TAKES),
    ROW("fwd_f32_d64_causal__cpu_x86_64_m64n96", GLINT_FORWARD, GLINT_F32, 0, CAUSAL, 64, 64, 96, GLINT_ISA_X86_64, 0,
        FORWARD_TAKES),
    ROW("fwd_f32_d64_causal__cpu_x86_64_v3_m64n96", GLINT_FORWARD, GLINT_F32, 0, CAUSAL, 64, 64, 96, GLINT_ISA_X86_64_V3, 0,
        FORWARD_TAKES),
    ROW("fwd_f32_d64_causal__cpu_x86_64_v4_m64n192", GLINT_FORWARD, GLINT_F32, 0, CAUSAL, 64, 64, 192, GLINT_ISA_X86_64_V4, 0,
        FORWARD_TAKES),
    GPU_ROW("fwd_f32_d64_causal__sm80_m64n64", CAUSAL, 64),
    ROW("fwd_f32_d64_causal_alibi__cpu_x86_64_m64n96", GLINT_FORWARD, GLINT_F32, 0, CAUSAL | ALIBI, 64, 64, 96, GLINT_ISA_X86_64, 0,
        LOGIT_TAKES),
    ROW("fwd_f32_d64_interval_tensor__cpu_x86_64_m64n96", GLINT_FORWARD, GLINT_F32, 0, INTERVAL | TENSOR, 64, 64, 96,
        GLINT_ISA_X86_64, 0, LOGIT_TAKES),
    ROW("fwd_f32_d64_tree__cpu_x86_64_m64n96", GLINT_FORWARD, GLINT_F32, 0, TREE, 64, 64, 96, GLINT_ISA_X86_64, 0, LOGIT_TAKES),
    ROW_OF(GLINT_MATH_TF32, "fwd_f32_d96_none__cpu_x86_64_m64n96", GLINT_FORWARD, GLINT_F32, 0, 0, 96, 64, 96, GLINT_ISA_X86_64, 0,
           FORWARD_TAKES),
    ROW_OF(GLINT_MATH_TF32X3, "fwd_f32_d96_none__cpu_x86_64_tf32x3_m32n64", GLINT_FORWARD, GLINT_F32, 0, 0, 96, 32, 64,
           GLINT_ISA_X86_64, 0, FORWARD_TAKES),
    ROW_OF(GLINT_MATH_TF32X3, "fwd_f32_d96_none__cpu_x86_64_tf32x3_m64n96", GLINT_FORWARD, GLINT_F32, 0, 0, 96, 64, 96,
           GLINT_ISA_X86_64, 0, FORWARD_TAKES),
    ROW("fwd_f32_i8_d64_causal__cpu_x86_64_m64n96", GLINT_FORWARD, GLINT_F32, GLINT_I8, CAUSAL, 64, 64, 96, GLINT_ISA_X86_64, 0,
        FORWARD_TAKES),
};
enum { ROWS = sizeof glint_variants / sizeof glint_variants[0] };
uint32_t made_up_rows = ROWS;

static void serial(void *user, uint32_t count, void (*body)(void *argument, uint32_t index), void *argument)
{
    (void)user;
    for (uint32_t i = 0; i < count; i++)
        body(argument, i);
}

void (*made_up_executor)(void *user, uint32_t count, void (*body)(void *argument, uint32_t index), void *argument) = serial;

struct glint_context *made_up_context(uint32_t concurrency, uint32_t max_isa, uint32_t amx)
{
    static _Alignas(64) unsigned char storage[1 << 14];
    struct glint_options options = GLINT_OPTIONS_INIT;
    struct glint_context *context = NULL;
    options.device = GLINT_DEVICE_CPU;
    options.max_isa = max_isa;
    options.amx = amx;
    options.executor = (struct glint_executor){sizeof options.executor, concurrency, made_up_executor, NULL};
    if (glint_context_size() > sizeof storage || glint_context_init(storage, sizeof storage, &options, &context) != GLINT_OK)
        exit(1);
    return context;
}

struct glint_context *edges_context(void)
{
    return made_up_context(3, GLINT_ISA_ANY, 1);
}
