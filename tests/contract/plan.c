/* The table, planning and the helpers that fill in problems. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/contract/suite.h"
#include "tests/contract/world.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const char *const dtype_names[] = {"", "f32", "f16", "bf16"};

/* What follows `text` at the beginning of `name`; NULL when it begins with something else. */
static const char *after(const char *name, const char *text)
{
    return name != NULL && strncmp(name, text, strlen(text)) == 0 ? name + strlen(text) : NULL;
}

/* A name is its fields:
 * <fwd|bwd|dec>_<dtype>[_<kv_dtype>]_d<head_dim>_<none|causal|band|interval|tree>[_softcap]__<family>_<how>m<m>n<n>,
 * where m and n are the tile and `how` is the CPU's ISA; on a GPU the backward's strategy, decode's stages, and tf32x3
 * for three products in place of one. */
static bool name_is_right(const struct glint_variant_info *info)
{
    enum {
        BOTH = GLINT_FEATURE_LEFT_BOUND | GLINT_FEATURE_RIGHT_BOUND,
        INTERVAL = BOTH | GLINT_FEATURE_INTERVALS,
        TREE = INTERVAL | GLINT_FEATURE_TREE
    };
    const uint32_t sides = info->features & ~(uint32_t)GLINT_FEATURE_SOFTCAP;
    char front[128], tile[32];
    snprintf(front, sizeof front, "%s_%s_%sd%u_%s%s__%s_",
             info->pass == GLINT_BACKWARD ? "bwd"
             : info->queries_up_to > 0    ? "dec"
                                          : "fwd",
             dtype_names[info->dtype],
             info->kv_dtype == GLINT_I8     ? "i8_"
             : info->kv_dtype == GLINT_E4M3 ? "e4m3_"
             : info->kv_dtype == 0          ? ""
                                            : "?",
             info->head_dim,
             sides == 0                           ? "none"
             : sides == GLINT_FEATURE_RIGHT_BOUND ? "causal"
             : sides == BOTH                      ? "band"
             : sides == INTERVAL                  ? "interval"
             : sides == TREE                      ? "tree"
                                                  : "?",
             sides != info->features ? "_softcap" : "", info->family);
    snprintf(tile, sizeof tile, "m%un%u", info->tile_m, info->tile_n);
    const char *rest = after(info->name, front);
    if (strcmp(info->family, "cpu") == 0) {
        rest = after(after(rest, glint_isa_name(info->isa)), "_");
    } else {
        if (info->pass == GLINT_BACKWARD)
            rest = after(rest, "fused_") != NULL ? after(rest, "fused_") : after(rest, "split_");
        if (info->pass == GLINT_FORWARD && after(rest, "short_") != NULL)
            rest = after(rest, "short_");
        if (info->pass == GLINT_FORWARD && after(rest, "step_") != NULL)
            rest = after(rest, "step_");
        if (info->queries_up_to > 0)
            rest = rest != NULL && rest[0] == 's' && rest[1] >= '1' && rest[1] <= '6' ? after(rest + 2, "_") : NULL;
        if (info->math == GLINT_MATH_TF32X3)
            rest = after(rest, "tf32x3_");
    }
    return rest != NULL && strcmp(rest, tile) == 0;
}

static void names_are_their_fields(void)
{
    const uint32_t count = glint_variant_count();
    EXPECT(count > 0 && count == glint_variant_count(), "the table has %u rows", count);
    char last[256] = "";
    for (uint32_t i = 0; i < count; i++) {
        const struct glint_variant_info info = row_at(i);
        EXPECT(info.pass == GLINT_FORWARD || info.pass == GLINT_BACKWARD, "row %u has pass %u", i, info.pass);
        const uint32_t sides = info.features & ~(uint32_t)(GLINT_FEATURE_SOFTCAP | GLINT_FEATURE_INTERVALS | GLINT_FEATURE_TREE);
        EXPECT(info.dtype >= GLINT_F32 && info.dtype <= GLINT_BF16 &&
                   (sides == 0 || sides == GLINT_FEATURE_RIGHT_BOUND ||
                    sides == (GLINT_FEATURE_LEFT_BOUND | GLINT_FEATURE_RIGHT_BOUND)),
               "row %u", i);
        EXPECT(info.head_dim > 0 && info.head_dim % 8 == 0 && info.tile_m > 0 && info.tile_n > 0, "row %u", i);
        const uint32_t a = info.alignment_bytes;
        EXPECT(a >= (uint32_t)element_bytes(info.dtype) && a <= 256 && (a & (a - 1)) == 0, "row %u is aligned to %u", i, a);
        const bool cpu = strcmp(info.family, "cpu") == 0;
        EXPECT(cpu ? info.isa != 0 && info.sm == 0 : info.isa == 0 && info.sm >= 50, "row %u: isa %u sm %u", i, info.isa, info.sm);
        const bool bf16 = info.isa == GLINT_ISA_X86_64_AMX || info.isa == GLINT_ISA_X86_64_BF16;
        EXPECT((info.math == GLINT_MATH_BF16) == bf16 && (!bf16 || info.dtype == GLINT_BF16), "row %u: arithmetic %u", i,
               info.math);
        EXPECT((info.math != GLINT_MATH_NATIVE) == (bf16 || (!cpu && info.dtype == GLINT_F32)), "row %u: arithmetic %u", i,
               info.math);
        EXPECT(name_is_right(&info), "%s: pass %u, dtype %u, isa %u, arithmetic %u, tile %u x %u", info.name, info.pass, info.dtype,
               info.isa, info.math, info.tile_m, info.tile_n);
        EXPECT(strcmp(last, info.name) < 0, "%s comes before %s", last, info.name);
        snprintf(last, sizeof last, "%s", info.name);
    }
    contract_note("%u rows", count);
}

static void table_arguments(void)
{
    struct glint_variant_info info, before;
    memset(&info, 0x77, sizeof info);
    info.struct_size = sizeof info;
    before = info;
    EXPECT(glint_variant_at(glint_variant_count(), &info) == GLINT_BAD_INDEX, "one past the end");
    EXPECT(glint_variant_at(UINT32_MAX, &info) == GLINT_BAD_INDEX, "the last index");
    EXPECT(glint_variant_at(0, NULL) == GLINT_NULL_ARGUMENT, "NULL");
    const uint32_t sizes[] = {0, 4, sizeof info - 1, sizeof info + 1, sizeof info - 8, sizeof info + 8, UINT32_MAX};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        info.struct_size = before.struct_size = sizes[i];
        EXPECT(glint_variant_at(0, &info) == GLINT_STRUCT_SIZE, "struct_size %u", sizes[i]);
        EXPECT(memcmp(&info, &before, sizeof info) == 0, "a refused call wrote");
    }
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static void problem_of(const struct glint_variant_info *info, bool bottom_right, struct glint_problem *p)
{
    glint_problem_bshd(p, (enum glint_dtype)info->dtype, 2, 17, 33, 4, 2, info->head_dim);
    serve_cache(p, info);
    p->mask = row_mask(info, bottom_right);
    p->softcap = info->isa == 0 && (info->features & GLINT_FEATURE_SOFTCAP) != 0 ? 30.0f : 0.0f; /* a GPU's caps, a CPU's can */
}

static void planning_is_pure(void)
{
    void *storage, *other_storage;
    struct counting counting, other_counting;
    struct glint_context *const context = open_context(&counting, 3, &storage);
    struct glint_context *const other = open_context(&other_counting, 3, &other_storage);
    for (uint32_t i = 0; i < glint_variant_count(); i++) {
        if (!row_serves(context, i))
            continue;
        const struct glint_variant_info info = row_at(i);
        struct glint_problem p, copy;
        struct glint_plan first, second, third;
        problem_of(&info, i % 2 == 0, &p);
        copy = p;
        memset(&first, 0x00, sizeof first);
        memset(&second, 0xff, sizeof second); /* what the caller's memory held shows nowhere */
        EXPECT(glint_plan(context, &p, (enum glint_pass)info.pass, &first) == GLINT_OK, "%s", info.name);
        EXPECT(memcmp(&p, &copy, sizeof p) == 0, "%s: the problem was changed", info.name);
        EXPECT(glint_plan(other, &p, (enum glint_pass)info.pass, &third) == GLINT_OK, "%s", info.name);
        EXPECT(glint_plan(context, &copy, (enum glint_pass)info.pass, &second) == GLINT_OK, "%s", info.name);
        EXPECT(memcmp(&first, &second, sizeof first) == 0, "%s: two plans of one problem differ", info.name);
        EXPECT(first.workspace_bytes == third.workspace_bytes && first.variant == third.variant && third.context == other,
               "%s: two equal contexts plan differently", info.name);
        EXPECT(first.struct_size == sizeof first && first.pass == info.pass && first.reserved == 0 && first.context == context &&
                   memcmp(&first.problem, &p, sizeof p) == 0,
               "%s: the plan's fields", info.name);
    }
    EXPECT(counting.calls == 0, "planning ran the executor");
    free(storage);
    free(other_storage);
}

static void each_row_by_name(void)
{
    void *storage;
    struct counting counting;
    struct glint_context *const context = open_context(&counting, 1, &storage);
    uint32_t planned = 0, elsewhere = 0;
    for (uint32_t i = 0; i < glint_variant_count(); i++) {
        const struct glint_variant_info info = row_at(i);
        const enum glint_status available = glint_variant_available(context, i);
        struct glint_problem p;
        struct glint_plan plan, before;
        memset(&plan, 0x5f, sizeof plan);
        before = plan;
        problem_of(&info, i % 2 == 0, &p);
        p.intervals = (info.features & GLINT_FEATURE_INTERVALS) != 0;
        p.tree = (info.features & GLINT_FEATURE_TREE) != 0;
        const enum glint_status status = glint_plan_variant(context, &p, (enum glint_pass)info.pass, i, &plan);
        EXPECT(status == available, "%s: available gives %s, plan_variant %s", info.name, glint_status_name(available),
               glint_status_name(status));
        if (available == GLINT_OK) {
            planned++;
            EXPECT(plan.variant == i, "%s: the plan is for row %u", info.name, plan.variant);
        } else {
            elsewhere++;
            EXPECT(available == GLINT_NOT_ON_DEVICE && memcmp(&plan, &before, sizeof plan) == 0, "%s", info.name);
            continue;
        }
        /* A row that does not fit the problem: another head dim, dtype, mask, pass. */
        plan = before;
        struct glint_problem q = p;
        q.head_dim += 8;
        glint_problem_bshd(&q, (enum glint_dtype)info.dtype, 2, 17, 33, 4, 2, info.head_dim + 8);
        serve_cache(&q, &info);
        q.mask = p.mask;
        EXPECT(glint_plan_variant(context, &q, (enum glint_pass)info.pass, i, &plan) == GLINT_NOT_IN_SPEC, "%s for d + 8",
               info.name);
        q = p;
        q.dtype = p.dtype == GLINT_F32 ? GLINT_F16 : GLINT_F32;
        EXPECT(glint_plan_variant(context, &q, (enum glint_pass)info.pass, i, &plan) == GLINT_NOT_IN_SPEC, "%s for a dtype",
               info.name);
        q = p;
        q.mask = p.mask == GLINT_MASK_NONE ? GLINT_MASK_CAUSAL_TOP_LEFT : GLINT_MASK_NONE;
        const enum glint_status masked = glint_plan_variant(context, &q, (enum glint_pass)info.pass, i, &plan);
        const bool takes_any = q.intervals != 0 || (info.queries_up_to > 0 && (info.features & GLINT_FEATURE_RIGHT_BOUND) != 0);
        EXPECT(masked == (takes_any ? GLINT_OK : GLINT_NOT_IN_SPEC), "%s for a mask gives %s", info.name,
               glint_status_name(masked));
        plan = before;
        q = p;
        q.softcap = 30;
        const enum glint_status capped = glint_plan_variant(context, &q, (enum glint_pass)info.pass, i, &plan);
        EXPECT(capped == ((info.features & GLINT_FEATURE_SOFTCAP) != 0 ? GLINT_OK : GLINT_NOT_IN_SPEC), "%s for a softcap gives %s",
               info.name, glint_status_name(capped));
        plan = before;
        const enum glint_pass opposite = info.pass == GLINT_FORWARD ? GLINT_BACKWARD : GLINT_FORWARD;
        const enum glint_status wrong = glint_plan_variant(context, &p, opposite, i, &plan);
        EXPECT(wrong == GLINT_NOT_IN_SPEC || wrong == GLINT_WRONG_PASS || (p.tree != 0 && wrong == GLINT_BAD_TREE) ||
                   (info.kv_dtype != 0 && wrong == GLINT_BAD_KV_DTYPE),
               "%s for the other pass gives %s", info.name, glint_status_name(wrong));
        EXPECT(glint_plan_variant(context, &p, (enum glint_pass)info.pass, glint_variant_count(), &plan) == GLINT_BAD_INDEX,
               "index");
        EXPECT(memcmp(&plan, &before, sizeof plan) == 0, "%s: a refused plan was written", info.name);
    }
    EXPECT(planned > 0, "no row was planned");
    contract_note("%u rows planned, %u not on this device", planned, elsewhere);
    free(storage);
}

/* The workspace grows with the rows, never with seqlen_q x seqlen_k, for any concurrency. */
static void workspace_is_linear(void)
{
    double most = 0;
    char most_name[160] = "";
    for (uint32_t concurrency = 1; concurrency <= GLINT_MAX_CONCURRENCY; concurrency *= 32) {
        void *storage;
        struct counting counting;
        struct glint_context *const context = open_context(&counting, concurrency, &storage);
        for (uint32_t i = 0; i < glint_variant_count(); i++) {
            if (!row_serves(context, i))
                continue;
            const struct glint_variant_info info = row_at(i);
            struct glint_plan plan;
            struct glint_problem p;
            size_t bytes[2];
            for (int k = 0; k < 2; k++) {
                const int64_t length = k == 0 ? 32768 : 65536;
                glint_problem_bshd(&p, (enum glint_dtype)info.dtype, 1, length, length, 8, 8, info.head_dim);
                serve_cache(&p, &info);
                p.mask = row_mask(&info, false);
                EXPECT(glint_plan_variant(context, &p, (enum glint_pass)info.pass, i, &plan) == GLINT_OK, "%s", info.name);
                bytes[k] = plan.workspace_bytes;
            }
            EXPECT(bytes[1] <= 2 * bytes[0], "%s: %zu bytes, then %zu for twice the length", info.name, bytes[0], bytes[1]);
            const double tensors = (double)bytes[1] / (double)tensor_bytes(&p, Q);
            if (tensors > most) {
                most = tensors;
                snprintf(most_name, sizeof most_name, "%s, concurrency %u", info.name, concurrency);
            }
        }
        free(storage);
    }
    contract_note("the largest workspace for 65536 rows of 8 heads is %.1f times Q: %s", most, most_name);
}

/* The largest batch of long sequences that is planned: workspace_bytes is the answer to a question about memory, and
 * so within 63 bits. */
static void workspace_fits(void)
{
    for (uint32_t concurrency = 1; concurrency <= 8; concurrency *= 8) {
        void *storage;
        struct counting counting;
        struct glint_context *const context = open_context(&counting, concurrency, &storage);
        for (uint32_t i = 0; i < glint_variant_count(); i++) {
            if (!row_serves(context, i))
                continue;
            const struct glint_variant_info info = row_at(i);
            for (uint32_t lengths = GLINT_LENGTHS_HOST; lengths <= GLINT_LENGTHS_DEVICE; lengths++) {
                int64_t least = 0, most = GLINT_MAX_EXTENT; /* batches: planned, or none; the largest there is */
                while (least < most) {
                    const int64_t batch = least + (most - least + 1) / 2;
                    struct glint_plan plan;
                    struct glint_problem p;
                    glint_problem_bshd(&p, (enum glint_dtype)info.dtype, batch, INT64_C(64) * 110000, 2048, 1, 1, info.head_dim);
                    serve_cache(&p, &info);
                    p.mask = row_mask(&info, false);
                    p.lengths = lengths;
                    if (glint_plan_variant(context, &p, (enum glint_pass)info.pass, i, &plan) == GLINT_OK) {
                        EXPECT(plan.workspace_bytes <= (size_t)INT64_MAX, "%s: batch %lld: %zu bytes", info.name, (long long)batch,
                               plan.workspace_bytes);
                        least = batch;
                    } else
                        most = batch - 1;
                }
            }
        }
        free(storage);
    }
}

static void planning_is_fast(void)
{
    enum { BATCHES = 201, CALLS = 100 };
    void *storage;
    struct counting counting;
    struct glint_context *const context = open_context(&counting, 16, &storage);
    double worst = 0;
    const char *worst_name = "";
    for (uint32_t i = 0; i < glint_variant_count(); i++) {
        if (!row_serves(context, i))
            continue;
        const struct glint_variant_info info = row_at(i);
        if (i % 7 != 0 && info.pass == GLINT_FORWARD)
            continue;
        struct glint_problem p;
        struct glint_plan plan;
        double seconds[BATCHES];
        problem_of(&info, false, &p);
        for (int b = 0; b < BATCHES; b++) {
            const double start = seconds_now();
            for (int c = 0; c < CALLS; c++) {
                p.seqlen_k = 33 + c; /* a decode loop: one key more at every step */
                if (glint_plan(context, &p, (enum glint_pass)info.pass, &plan) != GLINT_OK && info.pass == GLINT_FORWARD)
                    contract_failed(__FILE__, __LINE__, "plan", "%s", info.name);
            }
            seconds[b] = (seconds_now() - start) / CALLS;
        }
        const double typical = median(seconds, BATCHES);
        if (typical > worst) {
            worst = typical;
            worst_name = info.name;
        }
    }
    contract_note("glint_plan: %.3f us median at worst (%s); the promise is 2 us", 1e6 * worst, worst_name);
    EXPECT(worst < (CONTRACT_SANITIZED || CONTRACT_EMULATED ? 500e-6 : 20e-6), "%.1f us for %s", 1e6 * worst, worst_name);
    free(storage);
}

/* ---- helpers ----------------------------------------------------------------------------------------------------- */

static void same_strides(struct glint_strides s, int64_t batch, int64_t head, int64_t row, const char *what)
{
    EXPECT(s.batch == batch && s.head == head && s.row == row, "%s: %lld, %lld, %lld, not %lld, %lld, %lld", what,
           (long long)s.batch, (long long)s.head, (long long)s.row, (long long)batch, (long long)head, (long long)row);
}

static void problem_helpers(void)
{
    const int64_t b = 3, sq = 5, sk = 7, hq = 8, hk = 2, d = 40;
    for (int bhsd = 0; bhsd < 2; bhsd++) {
        struct glint_problem p;
        memset(&p, 0xee, sizeof p);
        (bhsd ? glint_problem_bhsd : glint_problem_bshd)(&p, GLINT_BF16, b, sq, sk, hq, hk, d);
        EXPECT(p.struct_size == sizeof p && p.dtype == GLINT_BF16 && p.mask == GLINT_MASK_NONE && p.batch == b && p.heads_q == hq &&
                   p.heads_kv == hk && p.head_dim == d && p.seqlen_q == sq && p.seqlen_k == sk,
               "the scalar fields");
        EXPECT(fabs((double)p.softmax_scale - 1.0 / sqrt(40.0)) < 1e-8, "softmax_scale is %.9g", (double)p.softmax_scale);
        EXPECT(p.diagonal == 0, "diagonal");
        EXPECT(p.tree == 0 && p.reserved[0] == 0, "reserved");
        const struct glint_strides *const of_q[] = {&p.q, &p.o, &p.dout, &p.dq}, *const of_k[] = {&p.k, &p.v, &p.dk, &p.dv};
        for (int i = 0; i < 4; i++) {
            if (bhsd) {
                same_strides(*of_q[i], hq * sq * d, sq * d, d, "bhsd, of queries");
                same_strides(*of_k[i], hk * sk * d, sk * d, d, "bhsd, of keys");
            } else {
                same_strides(*of_q[i], sq * hq * d, d, hq * d, "bshd, of queries");
                same_strides(*of_k[i], sk * hk * d, d, hk * d, "bshd, of keys");
            }
        }
    }
    /* No checks: glint_plan makes them all. Nonsense must not trap, NULL is not promised. */
    void *storage;
    struct glint_context *const context = open_serial(&storage);
    const int64_t nonsense[] = {0, -1, INT64_MAX, INT64_MIN, GLINT_MAX_EXTENT + 1};
    for (size_t i = 0; i < COUNT(nonsense); i++) {
        struct glint_problem p;
        struct glint_plan plan;
        const int64_t n = nonsense[i];
        glint_problem_bshd(&p, GLINT_F32, n, n, n, n, n, n);
        EXPECT(glint_plan(context, &p, GLINT_FORWARD, &plan) != GLINT_OK, "all %lld", (long long)n);
        glint_problem_bhsd(&p, (enum glint_dtype)77, n, n, n, n, n, n);
        EXPECT(glint_plan(context, &p, GLINT_FORWARD, &plan) != GLINT_OK, "all %lld", (long long)n);
    }
    free(storage);
}

/* The last number of queries that a plan splits over `keys` keys, linear or in pages; all smaller ones are split too.
 * 0:
 * none is. keys 0: as many as queries. */
static int64_t most_split(const struct glint_context *context, const struct glint_variant_info *row, int64_t keys,
                          enum glint_lengths lengths, int64_t page_rows)
{
    int64_t most = 0;
    for (int64_t queries = 1; queries <= 64; queries++) {
        struct glint_problem p;
        struct glint_plan plan;
        glint_problem_bhsd(&p, (enum glint_dtype)row->dtype, 1, queries, keys > 0 ? keys : queries, 8, 2, row->head_dim);
        p.mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
        serve_cache(&p, row);
        p.lengths = lengths;
        p.rows_q = lengths == GLINT_LENGTHS_RAGGED ? queries : 0;
        p.rows_k = lengths == GLINT_LENGTHS_RAGGED && page_rows == 0 ? keys : 0;
        p.page_rows = page_rows;
        p.pages = p.pages_per_sequence = page_rows > 0 ? (keys + page_rows - 1) / page_rows : 0;
        EXPECT(glint_plan(context, &p, GLINT_FORWARD, &plan) == GLINT_OK, "%s: no plan", row->name);
        EXPECT(row_at(plan.variant).isa >= row->isa, "%s: %lld queries are computed by %s", row->name, (long long)queries,
               row_at(plan.variant).name);
        if (row_at(plan.variant).queries_up_to == 0)
            continue;
        EXPECT(most == queries - 1, "%s: %lld queries are split, and %lld are not", row_at(plan.variant).name, (long long)queries,
               (long long)most + 1);
        most = queries;
    }
    return most;
}

/* No cliff between few queries and many. A tile's work is that of whole vectors of queries, so where the plan goes over
 * to it these are not many more than the queries that there are: 9 queries that are worked on as 16 took twice the time
 * of 8. A product of AMX has 32 queries, and takes the time in which decode has about 10, with a head_dim below 64
 * 8. */
static void a_query_more_is_no_cliff(void)
{
    static const int64_t lanes[] = {[GLINT_ISA_X86_64] = 4,       [GLINT_ISA_X86_64_V3] = 8,   [GLINT_ISA_X86_64_V4] = 16,
                                    [GLINT_ISA_X86_64_BF16] = 16, [GLINT_ISA_X86_64_AMX] = 16, [GLINT_ISA_AARCH64] = 4};
    int64_t rows = 0;
    for (uint32_t isa = GLINT_ISA_X86_64; isa <= GLINT_ISA_AARCH64; isa++) {
        struct glint_options options = GLINT_OPTIONS_INIT;
        struct glint_context *context;
        options.device = GLINT_DEVICE_CPU;
        options.max_isa = isa;
        if (glint_isa_name(isa) == NULL || (isa == GLINT_ISA_X86_64_AMX && glint_permit_amx(&options) != GLINT_OK))
            continue;
        void *storage = aligned_memory(GLINT_CONTEXT_ALIGNMENT, glint_context_size());
        if (glint_context_init(storage, glint_context_size(), &options, &context) != GLINT_OK) {
            free(storage);
            continue;
        }
        for (uint32_t i = 0; i < glint_variant_count(); i++) {
            const struct glint_variant_info row = row_at(i);
            if (row.queries_up_to == 0 || row.isa != isa || !row_serves(context, i))
                continue;
            const int64_t most = most_split(context, &row, 1024, GLINT_LENGTHS_HOST, 0);
            const int64_t worked_on = (most + lanes[isa]) / lanes[isa] * lanes[isa];
            const bool follows = isa == GLINT_ISA_X86_64_AMX ? most > 8 || row.head_dim < 64 : 10 * worked_on <= 16 * most;
            EXPECT(most >= 64 || follows, "%s: %lld queries, and %lld in a tile", row.name, (long long)most, (long long)worked_on);
            /* Prompts stay as they are; pages hold caches. */
            const int64_t prompt[] = {most_split(context, &row, 0, GLINT_LENGTHS_HOST, 0),
                                      most_split(context, &row, 1024, GLINT_LENGTHS_RAGGED, 0)};
            for (int k = 0; k < 2; k++)
                EXPECT(prompt[k] <= 8 || prompt[k] >= 64, "%s: %lld queries of a prompt", row.name, (long long)prompt[k]);
            /* Of fewer keys than a chunk fewer are split, in proportion. */
            const int64_t chunk = row.tile_n, more = (int64_t)row.queries_up_to - 8;
            for (int64_t keys = chunk / 3; keys < 2 * chunk;
                 keys += keys < chunk - 1 ? (chunk - 1 - chunk / 3) / 2 : 1 + chunk / 2) {
                const int64_t right = more <= 0 || keys >= chunk ? row.queries_up_to : 8 + more * keys / chunk;
                const int64_t split = most_split(context, &row, keys, GLINT_LENGTHS_HOST, 0);
                EXPECT(split == (right < 64 ? right : 64), "%s: %lld queries are split over %lld keys, not %lld", row.name,
                       (long long)split, (long long)keys, (long long)right);
            }
            EXPECT(most_split(context, &row, 32, GLINT_LENGTHS_RAGGED, 16) == most, "%s: another number in pages", row.name);
            EXPECT(most_split(context, &row, 32, GLINT_LENGTHS_DEVICE, 0) == most, "%s: another number with lengths of the call",
                   row.name);
            rows++;
        }
        free(storage);
    }
    contract_note("%lld rows", (long long)rows);
}

static const struct contract_case cases[] = {
    {"a_query_more_is_no_cliff", a_query_more_is_no_cliff, 0},
    {"names_are_their_fields", names_are_their_fields, 0},
    {"table_arguments", table_arguments, 0},
    {"planning_is_pure", planning_is_pure, 0},
    {"each_row_by_name", each_row_by_name, 0},
    {"workspace_is_linear", workspace_is_linear, 0},
    {"workspace_fits", workspace_fits, 0},
    {"planning_is_fast", planning_is_fast, 120},
    {"problem_helpers", problem_helpers, 0},
};
CONTRACT_MAIN("contract_plan", cases)
