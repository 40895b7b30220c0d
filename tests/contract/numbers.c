/* Workspaces in bytes, and what glint_explain says of rows of a CPU, as numbers.txt keeps them: over a table that is
 * written here, so that no spec changes them. Nothing is computed.
 *
 * numbers numbers.txt; without an argument it prints what that file is to be. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>

#include "lib/backend.h"
#include "lib/cpu/cpu.h"
#include "lib/takes.h"
#include "tests/support/golden.h"

extern const struct glint_family glint_family_cpu;

void glint_cpu_run_task(uint32_t kernel, uint32_t phase, const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    (void)kernel, (void)phase, (void)call, (void)scratch, (void)task; /* nothing is computed */
}

/* In place of lib/cpu/probe.c: a CPU with AVX-512 and AMX, whatever this one has. */
uint32_t glint_cpu_probe(void)
{
    return 1u << GLINT_ISA_X86_64 | 1u << GLINT_ISA_X86_64_V3 | 1u << GLINT_ISA_X86_64_V4 | 1u << GLINT_ISA_X86_64_BF16 |
           1u << GLINT_ISA_X86_64_AMX;
}

static uint32_t slow; /* what glint_cpu_slow answers */

uint32_t glint_cpu_slow(void)
{
    return slow;
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
#define ROW_OF(math, name, pass, dtype, kv_dtype, features, head_dim, m, n, isa, queries_up_to, takes)                      \
    {                                                                                                                       \
        name, pass, dtype, kv_dtype, features, head_dim, m, n, isa, 0, math, 0, 0, 0, queries_up_to, 0, 0, 4, takes, takes, \
            OF_CPU, 0                                                                                                       \
    }
#define GPU_ROW(name, features, head_dim)                                                                                 \
    {                                                                                                                     \
        name, GLINT_FORWARD, GLINT_F32, 0, features, head_dim, 64, 64, 0, 80, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, OF_NO_GPU, 0 \
    }
#define ROW(...) ROW_OF(GLINT_MATH_NATIVE, __VA_ARGS__)
const struct glint_variant glint_variants[] = {
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
/* The library sees this as the constant that lib/variant.h declares. */
uint32_t rows __asm__("glint_variants_count") = ROWS;

static void serial(void *user, uint32_t count, void (*body)(void *argument, uint32_t index), void *argument)
{
    (void)user;
    for (uint32_t i = 0; i < count; i++)
        body(argument, i);
}

static struct glint_context *opened(uint32_t concurrency, uint32_t max_isa, uint32_t amx)
{
    static _Alignas(64) unsigned char storage[1 << 14];
    struct glint_options options = GLINT_OPTIONS_INIT;
    struct glint_context *context = NULL;
    options.device = GLINT_DEVICE_CPU;
    options.max_isa = max_isa;
    options.amx = amx;
    options.executor = (struct glint_executor){sizeof options.executor, concurrency, serial, NULL};
    if (glint_context_size() > sizeof storage || glint_context_init(storage, sizeof storage, &options, &context) != GLINT_OK)
        exit(1);
    return context;
}

static const struct {
    int64_t batch, heads_q, heads_kv, seqlen_q, seqlen_k;
    uint32_t lengths, page_rows;
} shapes[] = {
    {1, 1, 1, 1, 1, 0, 0},       {1, 1, 1, 64, 96, 0, 0},    {1, 2, 1, 65, 97, 0, 0},     {2, 8, 2, 1, 1000, 0, 0},
    {1, 1, 1, 8, 100000, 0, 0},  {3, 6, 2, 5, 300, 0, 0},    {1, 32, 8, 1, 4096, 0, 0},   {1, 1, 1, 2000, 2000, 0, 0},
    {2, 16, 16, 512, 512, 0, 0}, {64, 1, 1, 70, 3, 0, 0},    {1, 7, 7, 0, 50, 0, 0},      {1, 7, 7, 50, 0, 0, 0},
    {4, 8, 2, 3, 700, 1, 0},     {4, 8, 2, 300, 700, 1, 0},  {5, 4, 4, 4, 500, 2, 0},     {5, 4, 4, 260, 500, 2, 0},
    {4, 8, 2, 3, 700, 1, 64},    {4, 8, 2, 300, 700, 2, 16}, {1, 1, 1, 131072, 64, 0, 0}, {1, 1, 1, 64, 131072, 0, 0},
    {1024, 4, 1, 1, 2048, 0, 0}, {1, 3, 1, 200, 8192, 0, 0},
};

static void put_explanation(FILE *out, const struct glint_context *context, const struct glint_problem *p, enum glint_pass pass)
{
    char text[2048];
    glint_explain(context, p, pass, text, sizeof text, NULL);
    for (const char *at = text; *at != '\0'; at++)
        fprintf(out, at == text || at[-1] == '\n' ? "        %c" : "%c", *at);
    fprintf(out, "\n");
}

/* What the row asks of a problem, the `number`-th of its kind, beside lengths. */
static void serve(struct glint_problem *p, const struct glint_variant *v, size_t number)
{
    p->mask = glint_mask_of(v);
    p->kv_dtype = v->kv_dtype, p->kv_scales = v->kv_dtype != 0 ? GLINT_SCALES_ROW : 0;
    if ((v->features & GLINT_FEATURE_LEFT_BOUND) != 0)
        p->window_left = 100, p->window_right = 3;
    p->softcap = (v->features & CAP) != 0 ? 20 : 0;
    p->sinks = number % 3 == 1;
    p->tree = (v->features & GLINT_FEATURE_TREE) != 0;
    p->intervals = (v->features & GLINT_FEATURE_INTERVALS) != 0 && (p->tree == 0 || number % 2 == 0);
    p->alibi = (v->features & ALIBI) != 0;
    p->max_logit = (v->takes & GLINT_TAKES_MAX_LOGIT) != 0 && number % 4 != 2;
    p->bias_dtype = (v->features & TENSOR) == 0 ? 0 : number % 2 == 0 ? GLINT_F32 : v->dtype;
    p->dbias = p->bias_dtype != 0 && v->pass == GLINT_BACKWARD && number % 5 != 4;
}

/* Workspaces and tasks that 64 bits cannot count, beside the next smaller ones: what split tasks of backward leave;
 * sums of dBias, which are of all keys though the bias may be one number a head; and tasks of ragged sequences, whose
 * bounds may be far beyond the rows that there are. */
static void put_large(FILE *out, uint32_t row)
{
    static const struct {
        int64_t batch, heads_q, heads_kv, seqlen_q, seqlen_k;
        uint32_t lengths;
    } large[] = {
        {1, 1 << 22, 1, GLINT_MAX_EXTENT, 4096, 0},
        {1, 1 << 23, 1, GLINT_MAX_EXTENT, 4096, 0},
        {1 << 4, 1 << 16, 1, 1, 1 << 20, 0},
        {1 << 10, 1 << 23, 1, 1, GLINT_MAX_EXTENT, 0},
        {1 << 10, GLINT_MAX_EXTENT, 1, 1, GLINT_MAX_EXTENT, 0},
        {1 << 10, 1 << 4, 1 << 4, 8, GLINT_MAX_EXTENT, 2},
        {1 << 20, 1 << 20, 1, 1 << 20, GLINT_MAX_EXTENT, 2},
        {GLINT_MAX_EXTENT, 1 << 20, 1 << 20, GLINT_MAX_EXTENT, GLINT_MAX_EXTENT, 2},
        {GLINT_MAX_EXTENT, GLINT_MAX_EXTENT, 1, GLINT_MAX_EXTENT, GLINT_MAX_EXTENT, 2},
        {GLINT_MAX_EXTENT, GLINT_MAX_EXTENT, GLINT_MAX_EXTENT, 4, 4, 2},
    };
    const struct glint_variant *const v = &glint_variants[row];
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        struct glint_problem p;
        struct glint_plan plan;
        const bool ragged = large[i].lengths == GLINT_LENGTHS_RAGGED;
        if (v->pass == GLINT_FORWARD && !ragged)
            continue;
        glint_problem_bshd(&p, (enum glint_dtype)v->dtype, large[i].batch, large[i].seqlen_q, large[i].seqlen_k, large[i].heads_q,
                           large[i].heads_kv, v->head_dim);
        serve(&p, v, 1);
        p.lengths = large[i].lengths, p.rows_q = p.rows_k = ragged;
        if (ragged)
            p.q = p.o = p.dout = p.dq = p.k = p.v = p.dk = p.dv = (struct glint_strides){0, v->head_dim, v->head_dim};
        p.bias = (struct glint_bias_strides){p.heads_q, 1, 0, 0};
        fprintf(out, "    batch %lld heads %lld:%lld queries %lld keys %lld lengths %u:", (long long)p.batch, (long long)p.heads_q,
                (long long)p.heads_kv, (long long)p.seqlen_q, (long long)p.seqlen_k, p.lengths);
        for (uint32_t concurrency = 1; concurrency <= GLINT_MAX_CONCURRENCY; concurrency *= 32) {
            const enum glint_status status =
                glint_plan_variant(opened(concurrency, GLINT_ISA_ANY, 1), &p, (enum glint_pass)v->pass, row, &plan);
            if (status == GLINT_OK)
                fprintf(out, " %zu", plan.workspace_bytes);
            else
                fprintf(out, " %s", glint_status_name(status));
        }
        fprintf(out, "\n");
    }
}

static void put_row(FILE *out, uint32_t row)
{
    static const uint32_t concurrency[] = {1, 2, 5, 64};
    const struct glint_variant *const v = &glint_variants[row];
    fprintf(out, "%s\n", v->name);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct glint_problem p;
        struct glint_plan plan;
        glint_problem_bshd(&p, (enum glint_dtype)v->dtype, shapes[i].batch, shapes[i].seqlen_q, shapes[i].seqlen_k,
                           shapes[i].heads_q, shapes[i].heads_kv, v->head_dim);
        serve(&p, v, i);
        const int64_t of_head = p.seqlen_q * p.seqlen_k; /* alike in all batches, all heads, or neither */
        p.bias = (struct glint_bias_strides){i % 3 == 0 ? 0 : p.heads_q * of_head, i % 3 == 1 ? 0 : of_head, p.seqlen_k, 1};
        p.lengths = shapes[i].lengths;
        p.page_rows = v->pass == GLINT_FORWARD ? shapes[i].page_rows : 0;
        if (p.page_rows != 0)
            p.pages = 4000, p.pages_per_sequence = (shapes[i].seqlen_k + p.page_rows - 1) / p.page_rows;
        if (p.lengths == GLINT_LENGTHS_RAGGED)
            p.rows_q = 2 * shapes[i].seqlen_q, p.rows_k = p.page_rows != 0 ? 0 : 3 * shapes[i].seqlen_k;
        fprintf(out, "    batch %d heads %d:%d queries %d keys %d lengths %u pages %d:", (int)p.batch, (int)p.heads_q,
                (int)p.heads_kv, (int)p.seqlen_q, (int)p.seqlen_k, p.lengths, (int)p.page_rows);
        for (size_t c = 0; c < sizeof concurrency / sizeof concurrency[0]; c++) {
            struct glint_context *const context = opened(concurrency[c], GLINT_ISA_ANY, 1);
            const enum glint_status status = glint_plan_variant(context, &p, (enum glint_pass)v->pass, row, &plan);
            fprintf(out, " %s%zu", status == GLINT_OK ? "" : glint_status_name(status),
                    status == GLINT_OK ? plan.workspace_bytes : 0);
        }
        fprintf(out, "\n");
        if (i % 4 != 3)
            continue;
        put_explanation(out, opened(2, GLINT_ISA_ANY, 1), &p, (enum glint_pass)v->pass);
        put_explanation(out, opened(2, GLINT_ISA_X86_64_V3, 1), &p, (enum glint_pass)v->pass);
        if (v->isa == GLINT_ISA_X86_64_AMX)
            put_explanation(out, opened(2, GLINT_ISA_ANY, 0), &p, (enum glint_pass)v->pass);
        slow = 1u << GLINT_ISA_X86_64_BF16;
        if (v->isa >= GLINT_ISA_X86_64_BF16)
            put_explanation(out, opened(2, GLINT_ISA_ANY, v->isa == GLINT_ISA_X86_64_AMX), &p, (enum glint_pass)v->pass);
        slow = 0;
    }
    put_large(out, row);
}

int main(int argc, char **argv)
{
    char *have = NULL;
    size_t bytes = 0;
    FILE *const out = open_memstream(&have, &bytes);
    for (uint32_t i = 0; i < ROWS; i++)
        put_row(out, i);
    struct glint_problem p;
    glint_problem_bshd(&p, GLINT_F32, 1, 10, 10, 2, 1, 64);
    struct glint_context *const context = opened(1, GLINT_ISA_ANY, 0);
    rows = 0;
    fprintf(out, "no row at all\n");
    put_explanation(out, context, &p, GLINT_FORWARD);
    fclose(out);
    if (argc < 2)
        fputs(have, stdout);
    const bool same = argc < 2 || golden_is(argv[1], have);
    free(have);
    return !same;
}
