/* Workspaces in bytes, and what glint_explain says of rows of a CPU, as numbers.txt keeps them: over the table of
 * made_up.c.
 *
 * numbers numbers.txt; without an argument it prints what that file is to be. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/contract/made_up.h"
#include "tests/contract/serve.h"
#include "tests/support/golden.h"

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
        {1 << 29, 1 << 20, 1 << 20, GLINT_MAX_EXTENT, GLINT_MAX_EXTENT, 2}, /* a product that is 0 in 64 bits */
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
                glint_plan_variant(made_up_context(concurrency, GLINT_ISA_ANY, 1), &p, (enum glint_pass)v->pass, row, &plan);
            if (status == GLINT_OK)
                fprintf(out, " %zu", plan.workspace_bytes);
            else
                fprintf(out, " %s", glint_status_name(status));
        }
        fprintf(out, "\n");
    }
}

/* The most sequences, heads, keys, ragged rows and pages of which scales of rows fit, in each place that K and V have;
 * K and V repeat one row. */
static void put_scales(FILE *out, uint32_t row)
{
    const struct glint_variant *const v = &glint_variants[row];
    for (uint32_t lengths = 0; lengths <= GLINT_LENGTHS_RAGGED; lengths++)
        for (int paged = 0; paged <= (lengths != 0); paged++) {
            fprintf(out, "    scales fit, lengths %u, %s:", lengths, paged ? "pages" : "linear");
            for (int field = 0; field < 5; field++) {
                int64_t low = 0, high = GLINT_MAX_EXTENT + INT64_C(1);
                while (high - low > 1) {
                    const int64_t middle = low + (high - low) / 2;
                    struct glint_problem p;
                    struct glint_plan plan;
                    int64_t of[5] = {paged ? 8 : 1 << 20,
                                     paged                             ? 1 << 29
                                     : lengths == GLINT_LENGTHS_RAGGED ? 1 << 29
                                                                       : 1 << 20,
                                     paged ? 1000 : 1 << 20, 1 << 29, 1 << 23};
                    of[field] = middle;
                    glint_problem_bshd(&p, (enum glint_dtype)v->dtype, of[0], 1, of[2], of[1], of[1], v->head_dim);
                    serve(&p, v, 0);
                    p.q = p.o = p.k = p.v = (struct glint_strides){0, v->head_dim, 0};
                    p.q.batch = p.o.batch = p.q.row = p.o.row = of[1] * v->head_dim;
                    p.lengths = lengths;
                    p.page_rows = paged ? 256 : 0, p.pages = paged ? of[4] : 0, p.pages_per_sequence = paged ? 1 << 23 : 0;
                    p.rows_q = lengths == GLINT_LENGTHS_RAGGED, p.rows_k = p.rows_q != 0 && !paged ? of[3] : 0;
                    if (glint_plan_variant(made_up_context(1, GLINT_ISA_ANY, 1), &p, GLINT_FORWARD, row, &plan) == GLINT_OK)
                        low = middle;
                    else
                        high = middle;
                }
                fprintf(out, " %lld", (long long)low);
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
            struct glint_context *const context = made_up_context(concurrency[c], GLINT_ISA_ANY, 1);
            const enum glint_status status = glint_plan_variant(context, &p, (enum glint_pass)v->pass, row, &plan);
            fprintf(out, " %s%zu", status == GLINT_OK ? "" : glint_status_name(status),
                    status == GLINT_OK ? plan.workspace_bytes : 0);
        }
        fprintf(out, "\n");
        if (i % 4 != 3)
            continue;
        put_explanation(out, made_up_context(2, GLINT_ISA_ANY, 1), &p, (enum glint_pass)v->pass);
        put_explanation(out, made_up_context(2, GLINT_ISA_X86_64_V3, 1), &p, (enum glint_pass)v->pass);
        if (v->isa == GLINT_ISA_X86_64_AMX)
            put_explanation(out, made_up_context(2, GLINT_ISA_ANY, 0), &p, (enum glint_pass)v->pass);
        made_up_slow = 1u << GLINT_ISA_X86_64_BF16;
        if (v->isa >= GLINT_ISA_X86_64_BF16)
            put_explanation(out, made_up_context(2, GLINT_ISA_ANY, v->isa == GLINT_ISA_X86_64_AMX), &p, (enum glint_pass)v->pass);
        made_up_slow = 0;
    }
    put_large(out, row);
    if (v->kv_dtype != 0)
        put_scales(out, row);
}

/* What the two layouts make of each extent: the scale of a head_dim, and a sum of all members. */
static void put_layouts(FILE *out)
{
    static const int64_t values[] = {
        INT64_MIN,        -1,       0, 1, 2, 3, 5, 7, 8, 9, 64, 100, 256, 257, 1024, 1 << 20, 1 << 30, INT64_C(1) << 40,
        INT64_C(1) << 62, INT64_MAX};
    for (int layout = 0; layout < 2; layout++)
        for (int at = 0; at < 6; at++) {
            uint32_t sum = 2166136261u; /* FNV-1a */
            fprintf(out, "%s extent %d:", layout == 0 ? "bshd" : "bhsd", at);
            for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
                int64_t e[6] = {2, 70, 90, 6, 3, 64};
                struct glint_problem p;
                e[at] = values[i];
                memset(&p, 0xa5, sizeof p);
                (layout == 0 ? glint_problem_bshd : glint_problem_bhsd)(&p, GLINT_F16, e[0], e[1], e[2], e[3], e[4], e[5]);
                for (size_t byte = 0; byte < sizeof p; byte++)
                    sum = (sum ^ ((const unsigned char *)&p)[byte]) * 16777619u;
                if (at == 5)
                    fprintf(out, " %a", (double)p.softmax_scale);
            }
            fprintf(out, " sum %08x\n", sum);
        }
    glint_problem_bshd(NULL, GLINT_F16, 1, 1, 1, 1, 1, 8);
    glint_problem_bhsd(NULL, GLINT_F16, 1, 1, 1, 1, 1, 8);
}

/* A plan is of the context that it was made for: with other threads or rows it is refused where that one was. */
static void put_reopened(FILE *out)
{
    static const struct {
        uint32_t concurrency, max_isa, amx;
    } opened[] = {{1, GLINT_ISA_ANY, 1}, {2, GLINT_ISA_ANY, 1}, {1, GLINT_ISA_X86_64_V3, 1}, {1, GLINT_ISA_ANY, 0}};
    enum { OPENED = sizeof opened / sizeof opened[0] };
    const struct glint_tensors none = GLINT_TENSORS_INIT;
    struct glint_problem p;
    glint_problem_bshd(&p, GLINT_F32, 1, 10, 10, 2, 1, 64);
    p.mask = GLINT_MASK_CAUSAL_TOP_LEFT;
    for (int i = 0; i < OPENED; i++) {
        fprintf(out, "a plan in contexts that are opened in place of its own:");
        for (int j = 0; j < OPENED; j++) {
            struct glint_plan plan;
            char text[1024];
            const struct glint_context *const own = made_up_context(opened[i].concurrency, opened[i].max_isa, opened[i].amx);
            if (glint_plan(own, &p, GLINT_FORWARD, &plan) != GLINT_OK)
                exit(1);
            made_up_context(opened[j].concurrency, opened[j].max_isa, opened[j].amx);
            fprintf(out, " %s",
                    glint_status_name(glint_explain_call(&plan, GLINT_FORWARD, &none, NULL, 0, NULL, text, sizeof text, NULL)));
        }
        fprintf(out, "\n");
    }
}

int main(int argc, char **argv)
{
    char *have = NULL;
    size_t bytes = 0;
    FILE *const out = open_memstream(&have, &bytes);
    for (uint32_t i = 0; i < made_up_rows; i++)
        put_row(out, i);
    struct glint_problem p;
    glint_problem_bshd(&p, GLINT_F32, 1, 10, 10, 2, 1, 64);
    struct glint_context *const context = made_up_context(1, GLINT_ISA_ANY, 0);
    fprintf(out, "no instruction set that is fast\n");
    made_up_slow = UINT32_MAX;
    struct glint_problem q;
    glint_problem_bshd(&q, GLINT_BF16, 1, 10, 10, 2, 1, 72);
    q.mask = GLINT_MASK_CAUSAL_TOP_LEFT;
    put_explanation(out, made_up_context(1, GLINT_ISA_X86_64, 0), &q, GLINT_BACKWARD);
    made_up_slow = 0;
    put_layouts(out);
    put_reopened(out);
    made_up_context(1, GLINT_ISA_ANY, 0);
    made_up_rows = 0;
    fprintf(out, "no row at all\n");
    put_explanation(out, context, &p, GLINT_FORWARD);
    return golden_finish(out, &have, argc < 2 ? NULL : argv[1]);
}
