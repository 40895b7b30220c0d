/* Every region of a CPU kernel's scratch (lib/cpu/scratch.h) is as long as the kernel takes it to be: with gaps
 * between them, whose numbers are NaN, each variant that this machine runs leaves the gaps as they were, and gives the
 * bits that the library gives. Guard pages (guard.c) stand around the whole workspace alone. */
#include <stdlib.h>
#include <string.h>

#include "lib/cpu/cpu.h"
#include "tests/contract/suite.h"
#include "tests/contract/world.h"

enum { GAP = 1024, NAN_BITS = 0x7fc0dead };

static const char *name_of(const struct glint_variant *row, int region)
{
#define NAME(name, ...) #name,
    static const char *const names[2][3][GLINT_CPU_REGIONS] = {
        {{GLINT_CPU_FORWARD_SCRATCH(NAME)}, {GLINT_CPU_BACKWARD_SCRATCH(NAME)}, {GLINT_CPU_DECODE_SCRATCH(NAME)}},
        {{GLINT_CPU_AMX_FORWARD_SCRATCH(NAME)}, {GLINT_CPU_AMX_BACKWARD_SCRATCH(NAME)}, {GLINT_CPU_AMX_DECODE_SCRATCH(NAME)}},
    };
#undef NAME
    const bool tiles = row->isa == GLINT_ISA_X86_64_AMX || row->isa == GLINT_ISA_X86_64_BF16;
    const char *const name = names[tiles][row->queries_up_to > 0 ? 2 : row->pass == GLINT_BACKWARD][region];
    return name ? name : "no region";
}

/* All tasks of the call, one after another, as lib/cpu/launch.c runs them, with gaps in the scratch. */
static void run_with_gaps(const struct call *c, const struct glint_tensors *tensors, const struct glint_variant *row)
{
    struct glint_cpu_call call = {.problem = &c->problem, .tensors = tensors, .band = glint_band_of(&c->problem)};
    call.queries = c->problem.seqlen_q;
    call.keys = c->problem.seqlen_k;
    memcpy(&call.geometry, c->plan.internal, sizeof call.geometry);
    uint64_t *const region = call.geometry.region, size = region[GLINT_CPU_REGIONS], gap_at[GLINT_CPU_REGIONS];
    for (int i = 0; i < GLINT_CPU_REGIONS; i++)
        gap_at[i] = region[i + 1] + (uint64_t)i * GAP;
    for (int i = 0; i <= GLINT_CPU_REGIONS; i++)
        region[i] += (uint64_t)i * GAP;
    uint32_t *const scratch = aligned_memory(GLINT_WORKSPACE_ALIGNMENT, region[GLINT_CPU_REGIONS] * 4);
    for (uint64_t i = 0; i < region[GLINT_CPU_REGIONS]; i++)
        scratch[i] = NAN_BITS;
    call.partials = (float *)(void *)((unsigned char *)c->workspace + call.geometry.partials_offset);
    for (uint32_t phase = 0; phase < GLINT_CPU_PHASES; phase++) {
        for (int64_t task = 0; task < call.geometry.tasks[phase]; task++)
            glint_cpu_run_task(row->kernel, phase, &call, (float *)(void *)scratch, task);
    }
    EXPECT(size > 0, "%s: no scratch", row->name);
    for (int i = 0; i < GLINT_CPU_REGIONS; i++) {
        for (int k = 0; k < GAP; k++)
            EXPECT(scratch[gap_at[i] + (uint64_t)k] == NAN_BITS, "%s: wrote float %d behind the end of %s", row->name, k,
                   name_of(row, i));
    }
    free(scratch);
}

static void try_row(const struct glint_context *context, uint32_t index, int64_t seqlen_q, int64_t seqlen_k)
{
    const struct glint_variant_info info = row_at(index);
    struct glint_problem p;
    glint_problem_bhsd(&p, (enum glint_dtype)info.dtype, 1, seqlen_q, seqlen_k, 2, 1, info.head_dim);
    serve_cache(&p, &info);
    p.mask = row_mask(&info, true);
    struct call c;
    call_make(&c, context, &p, (enum glint_pass)info.pass, 77);
    if (info.pass == GLINT_BACKWARD)
        call_fill_forward(&c, context);
    EXPECT(glint_plan_variant(context, &p, (enum glint_pass)info.pass, index, &c.plan) == GLINT_OK, "%s: no plan", info.name);
    c.workspace_bytes = c.plan.workspace_bytes;
    c.workspace = aligned_memory(GLINT_WORKSPACE_ALIGNMENT, c.workspace_bytes);
    EXPECT(call_run(&c) == GLINT_OK, "%s: no result", info.name);
    struct glint_tensors other = c.tensors;
    void *memory[TENSORS] = {NULL};
    for (enum tensor t = Q; t < TENSORS; t++) {
        if (!pass_writes(c.pass, t))
            continue;
        memory[t] = aligned_memory(64, c.bytes[t]);
        memset(memory[t], 0xff, c.bytes[t]);
        tensor_set(&other, t, memory[t]);
    }
    run_with_gaps(&c, &other, &glint_variants[index]);
    for (enum tensor t = Q; t < TENSORS; t++) {
        EXPECT(!memory[t] || memcmp(memory[t], c.block + c.offset[t], c.bytes[t]) == 0, "%s: other bits in %s with gaps", info.name,
               tensor_field[t]);
        free(memory[t]);
    }
    free(c.workspace);
    call_free(&c);
}

static void variants(uint32_t concurrency)
{
    void *storage;
    struct counting counting;
    struct glint_context *const context = open_context(&counting, concurrency, &storage);
    uint32_t tried = 0;
    for (uint32_t i = 0; i < glint_variant_count(); i++) {
        const struct glint_variant_info info = row_at(i);
        if (!row_serves(context, i))
            continue;
        const int64_t m = info.tile_m, n = info.tile_n;
        try_row(context, i, 2 * m + 1, 2 * n + 1); /* tiles that are full, and one that is not */
        try_row(context, i, 3, n);
        tried++;
    }
    EXPECT(tried > 0, "no variant runs here");
    contract_note("%u variants", tried);
    free(storage);
}

static void one_body(void)
{
    variants(1);
}
static void three_bodies(void)
{
    variants(3);
}

static const struct contract_case cases[] = {
    {"one_body", one_body, 300},
    {"three_bodies", three_bodies, 300},
};
CONTRACT_MAIN("regions", cases)
