/* What ALiBi, a bias and its gradient cost: rates of //tests/bias/triangle's rows of head_dim 32 for AVX2, over
 * those of the same work without them. Calls take turns, on one thread, and the least of many counts.
 *
 *   bias [MILLISECONDS]    for each line; 2000 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "lib/glint.h"

enum kind { NONE, ALIBI, BIAS, DBIAS, KINDS };

struct work {
    const char *name;
    int64_t batch, heads, length;
    enum glint_dtype dtype;
    uint32_t bias_dtype;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Numbers between -1 and 1, of any dtype. */
static void *numbers(size_t count, uint32_t dtype)
{
    static uint32_t state = 1;
    const size_t bytes = (count + 1) * sizeof(float);
    void *const memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (memory == NULL)
        exit(1);
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        union {
            float number;
            uint32_t bits;
        } x = {(float)(int32_t)state * 0x1p-31f};
        if (dtype == GLINT_F32)
            ((float *)memory)[i] = x.number;
        else
            ((uint16_t *)memory)[i] = (uint16_t)(x.bits >> 16);
    }
    return memory;
}

struct call {
    struct glint_plan plan;
    struct glint_tensors tensors;
    void *workspace;
    bool planned;
    double least;
};

static void measure(const struct glint_context *context, const struct work *w, enum glint_pass pass, double seconds)
{
    const size_t rows = (size_t)(w->batch * w->heads * w->length), elements = rows * 32,
                 pairs = (size_t)(w->heads * w->length * w->length);
    void *tensor[8], *const slopes = numbers((size_t)w->heads, GLINT_F32), *const bias = numbers(pairs, w->bias_dtype);
    void *const lse = numbers(rows, GLINT_F32), *const dbias = numbers(pairs, GLINT_F32);
    for (int i = 0; i < 8; i++)
        tensor[i] = numbers(elements, w->dtype);
    for (size_t i = 0; i < rows; i++)
        ((float *)lse)[i] += 8; /* above all scores, as one is */
    struct call call[KINDS] = {{.planned = false}};
    for (enum kind kind = NONE; kind < (pass == GLINT_BACKWARD ? KINDS : DBIAS); kind++) {
        struct call *const c = &call[kind];
        struct glint_problem p;
        glint_problem_bshd(&p, w->dtype, w->batch, w->length, w->length, w->heads, w->heads, 32);
        p.alibi = kind == ALIBI;
        p.bias_dtype = kind >= BIAS ? w->bias_dtype : 0;
        p.bias = (struct glint_bias_strides){0, w->length * w->length, w->length, 1}; /* all of a batch share it */
        p.dbias = kind == DBIAS;
        c->plan.struct_size = sizeof c->plan;
        c->planned = glint_plan(context, &p, pass, &c->plan) == GLINT_OK;
        c->least = 1e30;
        if (!c->planned)
            continue;
        c->workspace = aligned_alloc(256, (c->plan.workspace_bytes + 255) / 256 * 256);
        c->tensors = (struct glint_tensors){.struct_size = sizeof c->tensors,
                                            .q = tensor[0],
                                            .k = tensor[1],
                                            .v = tensor[2],
                                            .o = tensor[3],
                                            .lse = lse,
                                            .dout = tensor[4],
                                            .dq = tensor[5],
                                            .dk = tensor[6],
                                            .dv = tensor[7]};
        c->tensors.alibi_slopes = kind == ALIBI ? slopes : NULL;
        c->tensors.bias = kind >= BIAS ? bias : NULL;
        c->tensors.dbias = kind == DBIAS ? dbias : NULL;
    }
    const double end = now() + seconds;
    for (int turn = 0; turn < 5 || now() < end; turn++)
        for (enum kind kind = NONE; kind < KINDS; kind++) {
            struct call *const c = &call[kind];
            if (!c->planned)
                continue;
            const double begin = now();
            if ((pass == GLINT_FORWARD ? glint_forward : glint_backward)(&c->plan, &c->tensors, c->workspace,
                                                                         c->plan.workspace_bytes, NULL) != GLINT_OK)
                exit(1);
            const double took = now() - begin;
            c->least = took < c->least ? took : c->least;
        }
    printf("%-24s %-8s %9.3f", w->name, pass == GLINT_FORWARD ? "forward" : "backward", 1e3 * call[NONE].least);
    for (enum kind kind = ALIBI; kind < KINDS; kind++)
        if (call[kind].planned)
            printf(" %7.3f", call[NONE].least / call[kind].least);
        else
            printf("       -");
    printf("\n");
    for (int i = 0; i < 8; i++)
        free(tensor[i]);
    for (enum kind kind = NONE; kind < KINDS; kind++)
        free(call[kind].workspace);
    free(slopes), free(bias), free(lse), free(dbias);
}

int main(int argc, char **argv)
{
    static const struct work works[] = {
        {"triangle 64", 64, 4, 64, GLINT_F32, GLINT_F32},
        {"triangle 256", 8, 4, 256, GLINT_F32, GLINT_F32},
        {"T5 512", 1, 8, 512, GLINT_F32, GLINT_F32},
        {"Swin 49", 64, 3, 49, GLINT_F32, GLINT_F32},
        {"triangle 256 bf16", 8, 4, 256, GLINT_BF16, GLINT_F32},
        {"T5 512 bf16, bias too", 1, 8, 512, GLINT_BF16, GLINT_BF16},
    };
    const double seconds = argc > 1 ? 1e-3 * atof(argv[1]) : 2;
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = GLINT_DEVICE_CPU;
    options.max_isa = GLINT_ISA_X86_64_V3; /* which has a row of each kind */
    struct glint_context *context;
    void *const storage = aligned_alloc(256, (glint_context_size() + 255) / 256 * 256);
    if (glint_context_init(storage, glint_context_size(), &options, &context) != GLINT_OK)
        return 1;
    printf("work, pass, milliseconds without; rate over that without: ALiBi, a bias, a bias with its gradient\n");
    for (size_t i = 0; i < sizeof works / sizeof works[0]; i++)
        for (int pass = GLINT_FORWARD; pass <= GLINT_BACKWARD; pass++)
            measure(context, &works[i], (enum glint_pass)pass, seconds);
    return 0;
}
