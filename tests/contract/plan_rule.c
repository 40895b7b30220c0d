/* Which row glint_plan takes, over a table made up for the question: lib/choose.c with families that compute
 * nothing. Every subset of the rows is tried as the set that a device can run, with lengths on both sides of the
 * tiles, and strides that some rows do not take. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/backend.h"
#include "lib/cpu/cpu.h"
#include "lib/takes.h"

/* libcheck writes each assertion that holds to a file, to say after a crash which was the last one. Here they are
 * millions, and that took half of the time. */
#undef _mark_point
#define _mark_point(file, line) ((void)0)

enum {
    GPU_EXACT, /* no loop over the table begins behind it */
    CPU_BASE,
    CPU_AMX,
    GPU_WIDE,
    GPU_NARROW,
    GPU_SHORT,
    GPU_BOTH_SHORT,
    GPU_SHORTEST,
    GPU_EXACT_NEW,
    FEW,
    NEWEST,
    STEP,
    CPU_FEW,
    CPU_PRODUCTS,
    NEW_SHORT,
    NEW_PAGED,
    OLD_PAGED,
    OLD_ALIKE,  /* but for its name */
    UNTIMED,    /* for pages */
    EXACT_LAST, /* every loop over the table ends behind it */
    ROWS
};
/* From a subset of rows to the next one that is tried: a sanitizer makes trying all of them ten times as long. */
#ifdef __SANITIZE_ADDRESS__
enum { NEXT = 5 };
#else
enum { NEXT = 1 };
#endif
enum { SUBSETS = 1 << (STEP + 1), MANY = 1 << NEW_SHORT }; /* the rest have cases of their own */

static const struct glint_family lowest, middle, highest;
enum { LOWEST, MIDDLE, HIGHEST };
const struct glint_family *const glint_families[] = {[LOWEST] = &lowest, [MIDDLE] = &middle, [HIGHEST] = &highest};

void glint_cpu_run_task(uint32_t kernel, uint32_t phase, const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    (void)kernel, (void)phase, (void)call, (void)scratch, (void)task; /* nothing is computed */
}

/* What the rows of a family take, and could. */
enum { LOWEST_takes = 0, LOWEST_could = 0 };
enum {
    MIDDLE_takes = GLINT_TAKES_LENGTHS | GLINT_TAKES_RAGGED | GLINT_TAKES_SINKS | GLINT_TAKES_CANONICAL,
    MIDDLE_could = GLINT_TAKES_PAGES
};
enum { HIGHEST_takes = 0, HIGHEST_could = GLINT_TAKES_LENGTHS | GLINT_TAKES_SINKS };
enum { PAGED_takes = GLINT_TAKES_LENGTHS | GLINT_TAKES_PAGES };
enum { PAGED_MIDDLE = MIDDLE, PAGED_MIDDLE_takes = PAGED_takes, PAGED_MIDDLE_could = PAGED_takes };
enum { PAGED_HIGHEST = HIGHEST, PAGED_HIGHEST_takes = PAGED_takes, PAGED_HIGHEST_could = PAGED_takes };

#define ROW(how, family, m, n, isa, sm, math, up_to, both_up_to, least, queries, alignment)                                 \
    {                                                                                                                       \
        "fwd_f32_d64_none__" how, GLINT_FORWARD, GLINT_F32, 0, math, 0, 64, 64, m, n, isa, sm, 0, up_to, both_up_to, least, \
            queries, 0, 0, alignment, family##_takes, family##_could, 0, family, 0 /* any kernel */                         \
    }
const struct glint_variant glint_variants[] = {
    [CPU_BASE] = ROW("cpu_x86_64_m64n96", LOWEST, 64, 96, GLINT_ISA_X86_64, 0, GLINT_MATH_NATIVE, 0, 0, 0, 0, 4),
    [CPU_AMX] = ROW("cpu_x86_64_amx_m64n256", LOWEST, 64, 256, GLINT_ISA_X86_64_AMX, 0, GLINT_MATH_BF16, 0, 0, 0, 0, 4),
    [GPU_WIDE] = ROW("sm80_m128n32", MIDDLE, 128, 32, 0, 80, GLINT_MATH_TF32, 0, 0, 0, 0, 16),
    [GPU_NARROW] = ROW("sm80_m64n32", MIDDLE, 64, 32, 0, 80, GLINT_MATH_TF32, 0, 0, 0, 0, 16),
    [GPU_SHORT] = ROW("sm80_m16n128", MIDDLE, 16, 128, 0, 80, GLINT_MATH_TF32, 128, 0, 0, 0, 16),
    [GPU_BOTH_SHORT] = ROW("sm80_m16n256", MIDDLE, 16, 256, 0, 80, GLINT_MATH_TF32, 0, 96, 0, 0, 16),
    [GPU_SHORTEST] = ROW("sm80_m16n64", MIDDLE, 16, 64, 0, 80, GLINT_MATH_TF32, 64, 0, 0, 0, 8),
    [GPU_EXACT_NEW] = ROW("sm80_tf32x3_m32n16", MIDDLE, 32, 16, 0, 90, GLINT_MATH_TF32X3, 0, 0, 0, 0, 16),
    [GPU_EXACT] = ROW("sm80_tf32x3_m64n32", MIDDLE, 64, 32, 0, 80, GLINT_MATH_TF32X3, 0, 0, 0, 0, 4),
    [FEW] = ROW("sm80_m32n256", MIDDLE, 32, 256, 0, 80, GLINT_MATH_TF32, 0, 0, 0, 16, 16),
    [NEWEST] = ROW("sm90a_m128n64", HIGHEST, 128, 64, 0, 90, GLINT_MATH_TF32, 0, 0, 64, 0, 32),
    [STEP] = {.name = "fwd_f32_d64_none__sm90a_step_m128n128",
              .pass = GLINT_FORWARD,
              .dtype = GLINT_F32,
              .head_dim = 64,
              .head_dim_v = 64,
              .tile_m = 128,
              .tile_n = 128,
              .sm = 90,
              .math = GLINT_MATH_TF32,
              .cache_from = 12,
              .cache_up_to = 200,
              .least = 64,
              .alignment_bytes = 16,
              .takes = MIDDLE_takes,
              .family = HIGHEST},
    [CPU_FEW] = ROW("cpu_x86_64_v4_m32n256", LOWEST, 32, 256, GLINT_ISA_X86_64_V4, 0, GLINT_MATH_NATIVE, 0, 0, 0, 20, 4),
    [CPU_PRODUCTS] = ROW("cpu_x86_64_bf16_m64n256", LOWEST, 64, 256, GLINT_ISA_X86_64_BF16, 0, GLINT_MATH_BF16, 0, 0, 0, 0, 4),
    [NEW_SHORT] = ROW("sm90a_m64n64", HIGHEST, 64, 64, 0, 90, GLINT_MATH_TF32, 128, 0, 0, 0, 16),
    [NEW_PAGED] = ROW("sm90a_m192n64", PAGED_HIGHEST, 192, 64, 0, 90, GLINT_MATH_TF32, 0, 0, 0, 0, 32),
    [OLD_PAGED] = ROW("sm80_m192n64", PAGED_MIDDLE, 192, 64, 0, 80, GLINT_MATH_TF32, 0, 0, 0, 0, 4),
    [OLD_ALIKE] = ROW("sm80_split_m192n64", PAGED_MIDDLE, 192, 64, 0, 80, GLINT_MATH_TF32, 0, 0, 0, 0, 4),
    [UNTIMED] = {.name = "fwd_f32_d64_none__sm90a_m128n96",
                 .pass = GLINT_FORWARD,
                 .dtype = GLINT_F32,
                 .head_dim = 64,
                 .head_dim_v = 64,
                 .tile_m = 128,
                 .tile_n = 96,
                 .sm = 90,
                 .math = GLINT_MATH_TF32,
                 .alignment_bytes = 4,
                 .takes = PAGED_takes | GLINT_TAKES_SINKS,
                 .untimed = GLINT_TAKES_SINKS,
                 .family = HIGHEST},
    [EXACT_LAST] = ROW("sm90a_tf32x3_m64n128", HIGHEST, 64, 128, 0, 90, GLINT_MATH_TF32X3, 0, 0, 0, 0, 4),
    [ROWS] = ROW("sm90a_tf32x3_m128n128", HIGHEST, 128, 128, 0, 90, GLINT_MATH_TF32X3, 0, 0, 0, 0, 4), /* behind the table */
};
const uint32_t glint_variants_count = ROWS;

static unsigned runnable;  /* bit mask of rows */
static unsigned slow_rows; /* those that the device runs no faster than lower instruction sets */

static size_t no_state(void)
{
    return 0;
}

static enum glint_status open_nothing(struct glint_context *opened, const struct glint_options *options, const void *driver)
{
    (void)opened, (void)options, (void)driver;
    return GLINT_OK;
}

static enum glint_status close_nothing(struct glint_context *opened)
{
    (void)opened;
    return GLINT_OK;
}

static bool runs(const struct glint_context *opened, uint32_t index)
{
    (void)opened;
    return index >= ROWS || (runnable >> index & 1u) != 0;
}

static bool slow(const struct glint_context *opened, uint32_t index)
{
    (void)opened;
    return (slow_rows >> index & 1u) != 0;
}

static bool plan_nothing(const struct glint_variant *row, const struct glint_problem *problem, uint32_t concurrency,
                         struct glint_family_plan *plan)
{
    (void)row, (void)problem, (void)concurrency;
    plan->workspace_bytes = 0;
    return true;
}

static enum glint_status fits(const struct glint_variant *row, const struct glint_problem *problem,
                              const struct glint_context *opened, struct glint_fault *fault)
{
    (void)opened;
    return glint_strides_fit(row, problem, fault);
}

static const struct glint_backend backend = {.device = GLINT_DEVICE_CUDA,
                                             .size = no_state,
                                             .open = open_nothing,
                                             .close = close_nothing,
                                             .runs = runs,
                                             .slow = slow,
                                             .plan = plan_nothing};
static const struct glint_family lowest = {.name = "cpu", .backend = &backend, .fits = fits},
                                 middle = {.name = "sm80", .rank = 80, .backend = &backend, .fits = fits},
                                 highest = {.name = "sm90a", .rank = 90, .backend = &backend, .fits = fits};

enum {
    OF_MIDDLE = (1u << (FEW + 1)) - (1u << GPU_WIDE),
    READ_LENGTHS = OF_MIDDLE | 1u << GPU_EXACT | 1u << STEP
}; /* the rows that do */

static struct glint_context *context;

static void open_context(void)
{
    static _Alignas(GLINT_CONTEXT_ALIGNMENT) unsigned char storage[16384];
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = GLINT_DEVICE_CUDA;
    runnable = (1u << ROWS) - 1;
    ck_assert_uint_le(glint_context_size(), sizeof storage);
    ck_assert_int_eq(glint_context_init(storage, sizeof storage, &options, &context), GLINT_OK);
}

static void close_context(void)
{
    ck_assert_int_eq(glint_context_close(context), GLINT_OK);
}

static struct glint_problem problem_of(int64_t batch, int64_t heads, int64_t seqlen_q, int64_t seqlen_k)
{
    struct glint_problem p;
    glint_problem_bshd(&p, GLINT_F32, batch, seqlen_q, seqlen_k, heads, heads, 64);
    return p;
}

static uint32_t taken(const struct glint_problem *p)
{
    struct glint_plan plan;
    ck_assert_int_eq(glint_plan(context, p, GLINT_FORWARD, &plan), GLINT_OK);
    return plan.variant;
}

static int64_t padded(int64_t length, int64_t tile)
{
    return (length + tile - 1) / tile * tile;
}

/* Rows for lengths up to a bound: those that hold the problem, the narrowest first; those without one; the others,
 * the widest first. */
static int64_t reach(const struct glint_variant *v, int64_t shorter, int64_t longer)
{
    if (v->cache_from > 0)
        return 1 << 21;
    if (v->up_to == 0 && v->both_up_to == 0)
        return 1 << 20;
    if (v->both_up_to > 0)
        return v->both_up_to >= longer ? v->both_up_to : (1 << 21) - (int64_t)v->both_up_to;
    return v->up_to >= shorter ? v->up_to : (1 << 21) - (int64_t)v->up_to;
}

/* Gaps after a head, a row and a batch, in elements. */
struct gaps {
    int64_t head, row, batch;
};

static struct glint_problem with_gaps(struct glint_problem p, struct gaps gap)
{
    const int64_t head = 64 + gap.head, row = p.heads_q * head + gap.row;
    p.q = p.o = (struct glint_strides){p.seqlen_q * row + gap.batch, head, row};
    p.k = p.v = (struct glint_strides){p.seqlen_k * row + gap.batch, head, row};
    return p;
}

/* Does the row take the tensor's strides, where `batch` and `heads` say how many there are? */
static bool takes_strides(const struct glint_variant *v, struct glint_strides s, int64_t batch, int64_t heads, int64_t rows)
{
    const int64_t unit = v->alignment_bytes / 4;
    return (batch == 1 || s.batch % unit == 0) && (heads == 1 || s.head % unit == 0) && (rows <= 1 || s.row % unit == 0);
}

static bool takes(const struct glint_variant *v, const struct glint_problem *p, int64_t batch, int64_t heads)
{
    return takes_strides(v, p->q, batch, heads, p->seqlen_q) && takes_strides(v, p->k, batch, heads, p->seqlen_k);
}

/* Is it what a step's row is meant for: so many rows of a key head, or more queries than decode's, against a cache of
 * 2,048 keys, and sixteen keys a query? */
static bool against_cache(const struct glint_variant *v, const struct glint_problem *p)
{
    const int64_t rows = p->seqlen_q * (p->heads_q / p->heads_kv);
    return (rows >= (int64_t)v->cache_from || p->seqlen_q > 8) && p->seqlen_q <= (int64_t)v->cache_up_to &&
           (p->lengths != GLINT_LENGTHS_HOST || (p->seqlen_k >= 2048 && p->seqlen_k >= 16 * p->seqlen_q));
}

/* The rule as lib/choose.c tells it: among the rows that a step leaves, the next step chooses. UINT32_MAX: none
 * takes the problem. */
static uint32_t by_the_rule(const struct glint_problem *p)
{
    uint32_t best = UINT32_MAX;
    int64_t best_key[10];
    for (uint32_t i = 0; i < ROWS; i++) {
        const struct glint_variant *v = &glint_variants[i];
        const int64_t shorter = p->seqlen_q < p->seqlen_k ? p->seqlen_q : p->seqlen_k;
        const int64_t key[10] = {takes(v, p, 2, 2) ? 0 : (int64_t)v->alignment_bytes,
                                 v->math == GLINT_MATH_BF16 ? 0 : (int64_t)v->math,
                                 v->cache_from > 0                 ? !against_cache(v, p)
                                 : v->queries_up_to == 0           ? 1
                                 : v->queries_up_to >= p->seqlen_q ? 0
                                                                   : 2,
                                 p->seqlen_q < (int64_t)v->least && p->seqlen_k < (int64_t)v->least,
                                 -(int64_t)glint_family_of(v)->rank,
                                 reach(v, shorter, p->seqlen_q + p->seqlen_k - shorter),
                                 -(int64_t)v->isa,
                                 -(int64_t)v->sm,
                                 padded(p->seqlen_q, v->tile_m) * padded(p->seqlen_k, v->tile_n),
                                 -(int64_t)v->tile_m * v->tile_n};
        if ((runnable >> i & 1u) == 0 || !takes(v, p, p->batch, p->heads_q))
            continue;
        int order = 0;
        for (int k = 0; k < 10 && order == 0 && best != UINT32_MAX; k++)
            order = key[k] < best_key[k] ? -1 : key[k] > best_key[k] ? 1 : 0;
        if (best == UINT32_MAX || order < 0) {
            best = i;
            memcpy(best_key, key, sizeof key);
        }
    }
    return best;
}

static void expect_the_rule(void)
{
    static const int64_t lengths[] = {1, 16, 17, 31, 32, 33, 64, 65, 97, 128, 129, 1000, 4096};
    const size_t count = sizeof lengths / sizeof lengths[0];
    for (size_t q = 0; q < count; q++)
        for (size_t k = 0; k < count; k++) {
            const struct glint_problem p = problem_of(2, 3, lengths[q], lengths[k]);
            const uint32_t got = taken(&p), right = by_the_rule(&p);
            ck_assert_msg(got == right, "rows %#x, %lld x %lld: %s instead of %s", runnable, (long long)lengths[q],
                          (long long)lengths[k], glint_variants[got].name, glint_variants[right].name);
        }
}

START_TEST(every_subset_of_rows)
{
    for (runnable = 1; runnable < SUBSETS; runnable += NEXT)
        expect_the_rule();
}
END_TEST

/* The newest family has rows of each kind of bound, too. A row whose bound a length exceeds comes behind rows without
 * one, and a step that is not meant for the lengths comes behind both. */
START_TEST(bounds_beside_a_step)
{
    for (unsigned of_newest = 1; of_newest < 8; of_newest++)
        for (unsigned others = 0; others < 2; others++) {
            runnable = (of_newest & 1u) << NEWEST | (of_newest >> 1 & 1u) << STEP | (of_newest >> 2) << NEW_SHORT |
                       others * (1u << GPU_WIDE | 1u << GPU_SHORT);
            expect_the_rule();
        }
}
END_TEST

/* Lengths on the device are for rows of families that read them; where none of those runs the plan is refused, and
 * says so. */
START_TEST(lengths_on_the_device)
{
    for (runnable = 1; runnable < MANY; runnable += NEXT)
        for (int64_t length = 1; length < 300; length += 80) {
            struct glint_problem p = problem_of(2, 3, length, 2 * length);
            struct glint_plan plan;
            char text[1024];
            p.lengths = length % 3 == 0 ? GLINT_LENGTHS_DEVICE : GLINT_LENGTHS_RAGGED;
            if (p.lengths == GLINT_LENGTHS_RAGGED)
                p.rows_q = p.rows_k = 1000;
            const unsigned right = runnable & READ_LENGTHS;
            const enum glint_status status = glint_plan(context, &p, GLINT_FORWARD, &plan);
            ck_assert_int_eq(status, right != 0 ? GLINT_OK : GLINT_BAD_LENGTHS);
            if (right != 0)
                ck_assert(right >> plan.variant & 1u);
            else if (glint_explain(context, &p, GLINT_FORWARD, text, sizeof text, NULL) != status ||
                     !strstr(text, p.lengths == GLINT_LENGTHS_DEVICE
                                       ? ", and no variant that runs here takes lengths on the device; nearest: "
                                       : ", and no variant that runs here takes ragged sequences; nearest: "))
                ck_abort_msg("%s", text);
        }
}
END_TEST

static const struct gaps gaps[] = {{0, 0, 0}, {0, 4, 0}, {0, 2, 0}, {2, 0, 0}, {1, 0, 0},
                                   {0, 0, 2}, {0, 0, 1}, {2, 1, 0}, {2, 0, 1}};
enum { GAPS = sizeof gaps / sizeof gaps[0] };

/* A row that does not take the strides is passed over for one that does, whatever speaks for it otherwise. The plan
 * is refused when none is left, with the stride and the row that would have been taken. */
START_TEST(strides_that_some_rows_do_not_take)
{
    for (runnable = 1; runnable < MANY; runnable += NEXT)
        for (int g = 0; g < GAPS; g++)
            for (int64_t many = 1; many <= 2; many++)
                for (int64_t length = 1; length < 300; length += 80) {
                    const struct glint_problem p = with_gaps(problem_of(many, 3 - many, length, 2 * length), gaps[g]);
                    const uint32_t right = by_the_rule(&p);
                    struct glint_plan plan, before;
                    char text[1024];
                    memset(&plan, 0x5a, sizeof plan);
                    before = plan;
                    const enum glint_status status = glint_plan(context, &p, GLINT_FORWARD, &plan);
                    ck_assert_int_eq(status, right == UINT32_MAX ? GLINT_STRIDE_MISALIGNED : GLINT_OK);
                    if (status == GLINT_OK) {
                        ck_assert_uint_eq(plan.variant, right);
                        continue;
                    }
                    ck_assert_mem_eq(&plan, &before, sizeof plan);
                    ck_assert_int_eq(glint_explain(context, &p, GLINT_FORWARD, text, sizeof text, NULL), GLINT_STRIDE_MISALIGNED);
                    const struct glint_problem aligned = problem_of(many, 3 - many, length, 2 * length);
                    ck_assert_msg(strstr(text, glint_variants[by_the_rule(&aligned)].name) != NULL, "%s", text);
                    ck_assert_msg(strstr(text, "must be a multiple of") != NULL, "%s", text);
                }
}
END_TEST

/* What a product is worth does not depend on the lengths: one tf32 product where there is such a row, although
 * narrower rows of three would pad less, and three where there is nothing else. */
START_TEST(precision_is_no_matter_of_shape)
{
    for (int64_t q = 1; q < 300; q += 7)
        for (int64_t k = 1; k < 300; k += 11) {
            const struct glint_problem p = problem_of(1, 1, q, k);
            runnable = 1u << GPU_WIDE | 1u << GPU_NARROW | 1u << GPU_SHORT | 1u << GPU_EXACT_NEW | 1u << GPU_EXACT;
            ck_assert_uint_eq(glint_variants[taken(&p)].math, GLINT_MATH_TF32);
            runnable = 1u << NEWEST | 1u << GPU_EXACT_NEW | 1u << GPU_EXACT;
            ck_assert_uint_eq(taken(&p), NEWEST);
            runnable = 1u << GPU_EXACT;
            ck_assert_uint_eq(taken(&p), GPU_EXACT);
        }
}
END_TEST

/* A row for short sequences is taken where queries or keys are few, although others pad less, and elsewhere only
 * when there is no other. */
START_TEST(rows_for_short_sequences)
{
    const struct glint_problem within = problem_of(1, 1, 4096, 64), just = problem_of(1, 1, 65, 4096),
                               most = problem_of(1, 1, 128, 128), over = problem_of(1, 1, 129, 192);
    runnable = 1u << GPU_WIDE | 1u << GPU_NARROW | 1u << GPU_SHORT | 1u << GPU_SHORTEST;
    ck_assert_uint_eq(taken(&within), GPU_SHORTEST);
    ck_assert_uint_eq(taken(&just), GPU_SHORT);
    ck_assert_uint_eq(taken(&most), GPU_SHORT);
    ck_assert_uint_eq(taken(&over), GPU_NARROW);
    runnable = 1u << GPU_SHORT | 1u << GPU_SHORTEST;
    ck_assert_uint_eq(taken(&over), GPU_SHORT);
    runnable = 1u << GPU_SHORT | 1u << GPU_SHORTEST | 1u << NEWEST; /* a bound is measured within its family */
    ck_assert_uint_eq(taken(&within), NEWEST);
    ck_assert_uint_eq(taken(&over), NEWEST);
}
END_TEST

/* A row that is split over the keys is taken up to the number of queries that it is meant for, however many the keys
 * are, and for more of them only when there is no other. It serves every mask. */
START_TEST(rows_for_few_queries)
{
    for (int64_t keys = 1; keys < 100000; keys *= 10)
        for (int64_t queries = 1; queries < 40; queries++) {
            struct glint_problem p = problem_of(1, 1, queries, keys);
            runnable = 1u << GPU_WIDE | 1u << GPU_SHORTEST | 1u << FEW | 1u << NEWEST;
            ck_assert_int_eq(taken(&p) == FEW, queries <= 16);
            runnable = 1u << FEW;
            ck_assert_uint_eq(taken(&p), FEW);
            /* On a CPU more than 8 only beside a cache, as far as lengths are known, and where no row is of a higher
             * instruction set that is fast. */
            const bool many = queries <= 8 + (20 - 8) * (keys < 256 ? keys : 256) / 256;
            runnable = 1u << CPU_BASE | 1u << CPU_FEW;
            ck_assert_int_eq(taken(&p) == CPU_FEW, queries <= 8 || many);
            runnable |= 1u << CPU_PRODUCTS;
            ck_assert_int_eq(taken(&p) == CPU_FEW, queries <= 8);
            slow_rows = 1u << CPU_PRODUCTS;
            ck_assert_int_eq(taken(&p) == CPU_FEW, queries <= 8 || many);
            slow_rows = 0;
            runnable = 1u << CPU_BASE | 1u << CPU_FEW | 1u << CPU_AMX;
            ck_assert_uint_eq(taken(&p), queries <= 8 ? CPU_FEW : CPU_AMX);
        }
}
END_TEST

/* A step's row is taken for so many rows and queries as it is meant for, against at least sixteen times as many keys as
 * queries and 2,048, before decode and before its family's rows; elsewhere after these. */
START_TEST(rows_for_a_step)
{
    static const int64_t keys[] = {64, 200, 2047, 2048, 2049, 3000, 100000};
    for (int64_t queries = 1; queries < 300; queries++)
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
            const struct glint_problem p = problem_of(1, 1, queries, keys[k]);
            const bool meant = queries > 8 && queries <= 200 && keys[k] >= 16 * queries && keys[k] >= 2048;
            runnable = 1u << NEWEST | 1u << STEP | 1u << GPU_WIDE;
            ck_assert_uint_eq(taken(&p), meant ? STEP : NEWEST);
            runnable |= 1u << FEW;
            ck_assert_int_eq(taken(&p) == STEP, meant);
            ck_assert_int_eq(taken(&p) == FEW, queries <= 16 && !meant);
        }
}
END_TEST

/* What bounds a step from below is (query, query head) pairs of a key head, whatever the group, and not the heads. With
 * more than 8 queries it is taken, few rows or not. */
START_TEST(rows_of_groups_for_a_step)
{
    runnable = 1u << STEP | 1u << FEW;
    for (int64_t group = 1; group <= 16; group++)
        for (int64_t queries = 1; queries <= 12; queries++)
            for (int64_t heads = 1; heads <= 4; heads += 3) {
                struct glint_problem p;
                glint_problem_bshd(&p, GLINT_F32, 1, queries, 4096, group * heads, heads, 64);
                ck_assert_msg((taken(&p) == STEP) == (queries * group >= 12 || queries > 8), "%lld queries, a group of %lld",
                              (long long)queries, (long long)group);
            }
}
END_TEST

/* Where the call has the lengths the bound of keys plays no part: a sequence gets the same row whatever it is. The
 * bound of queries chooses. */
START_TEST(bounds_of_keys_play_no_part)
{
    static const int64_t keys[] = {0, 1, 8, 63, 64, 65, 129, 4096, 1 << 20};
    for (unsigned rows = 1u << GPU_WIDE; rows <= (2u * OF_MIDDLE | OF_MIDDLE); rows += 1u << GPU_WIDE)
        for (int64_t queries = 1; queries < 300; queries += queries < 20 ? 3 : 60) {
            struct glint_problem p = problem_of(2, 3, queries, 0);
            runnable = (rows & OF_MIDDLE) | ((rows & ~(unsigned)OF_MIDDLE) != 0 ? 1u << STEP : 0);
            p.lengths = GLINT_LENGTHS_DEVICE;
            p.k = p.v = (struct glint_strides){1 << 24, 64, 3 * 64}; /* of a cache of fixed capacity */
            const uint32_t first = taken(&p);
            for (size_t k = 1; k < sizeof keys / sizeof keys[0]; k++) {
                p.seqlen_k = keys[k];
                ck_assert_uint_eq(taken(&p), first);
            }
        }
    struct glint_problem p = problem_of(1, 1, 16, 64); /* and what is meant for few queries is taken for them */
    p.lengths = GLINT_LENGTHS_DEVICE;
    runnable = OF_MIDDLE;
    ck_assert_uint_eq(taken(&p), FEW);
    runnable = READ_LENGTHS; /* and a step for some more, and where decode has too few */
    ck_assert_uint_eq(taken(&p), STEP);
    p.seqlen_q = 7;
    ck_assert_uint_eq(taken(&p), FEW);
    p.seqlen_q = 201;
    ck_assert_uint_eq(taken(&p), STEP); /* the newer family's only one */
    p.seqlen_q = 16;
    runnable = OF_MIDDLE & ~(1u << FEW);
    ck_assert_uint_eq(taken(&p), GPU_SHORTEST);
}
END_TEST

/* The explanation says what a tf32 product is, and which row is more exact, if there is one. */
START_TEST(explained)
{
    const struct glint_problem p = problem_of(1, 1, 100, 100);
    char text[1024];
    for (int i = 0; i < 2; i++) {
        const int exact = i == 0 ? GPU_EXACT : EXACT_LAST;
        const char *const name = glint_variants[exact].name;
        runnable = 1u << GPU_WIDE | 1u << exact;
        ck_assert_int_eq(glint_explain(context, &p, GLINT_FORWARD, text, sizeof text, NULL), GLINT_OK);
        const char *const as_good = strstr(text, "As good as float32 is ");
        ck_assert_msg(as_good != NULL && strncmp(as_good + strlen("As good as float32 is "), name, strlen(name)) == 0, "%s", text);
        ck_assert_msg(strstr(text, "products are tf32") != NULL, "%s", text);
    }
    runnable = 1u << GPU_WIDE;
    ck_assert_int_eq(glint_explain(context, &p, GLINT_FORWARD, text, sizeof text, NULL), GLINT_OK);
    ck_assert_msg(strstr(text, "products are tf32") != NULL && strstr(text, "As good as") == NULL, "%s", text);
    runnable = 1u << GPU_EXACT | 1u << GPU_EXACT_NEW;
    ck_assert_int_eq(glint_explain(context, &p, GLINT_FORWARD, text, sizeof text, NULL), GLINT_OK);
    ck_assert_msg(strstr(text, "products are tf32") == NULL, "%s", text);
}
END_TEST

/* The explanation names the row that would be next, and what told it from the one taken. */
START_TEST(what_decided)
{
    static const struct {
        int taken, second;
        int64_t seqlen_q, gap;
        const char *because;
    } pairs[] = {
        {GPU_EXACT, GPU_WIDE, 100, 2, "does not take these strides"},
        {NEWEST, GPU_EXACT, 100, 0, "tf32 products"},
        {FEW, NEWEST, 16, 0, "split over the keys"},
        {NEWEST, FEW, 17, 0, "split over the keys"},
        {STEP, NEWEST, 200, 0, "other numbers of queries"},
        {NEWEST, STEP, 201, 0, "as the spec means rows"},
        {GPU_SHORT, GPU_WIDE, 100, 0, "up_to"},
        {NEWEST, GPU_SHORT, 100, 0, "older family"},
        {CPU_AMX, CPU_BASE, 100, 0, "lower instruction set"},
        {GPU_EXACT_NEW, GPU_EXACT, 100, 0, "older architectures"},
        {GPU_NARROW, GPU_WIDE, 64, 0, "beyond the lengths"},
        {GPU_WIDE, GPU_NARROW, 128, 0, "smaller"},
        {OLD_PAGED, OLD_ALIKE, 128, 0, "comes later by name"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const struct glint_problem p = with_gaps(problem_of(2, 2, pairs[i].seqlen_q, 4096), (struct gaps){0, pairs[i].gap, 0});
        char text[1024];
        runnable = 1u << pairs[i].taken | 1u << pairs[i].second;
        ck_assert_int_eq(glint_explain(context, &p, GLINT_FORWARD, text, sizeof text, NULL), GLINT_OK);
        ck_assert_uint_eq(taken(&p), (unsigned)pairs[i].taken);
        ck_assert_msg(strstr(text, glint_variants[pairs[i].second].name) != NULL && strstr(text, pairs[i].because) != NULL, "%s",
                      text);
    }
}
END_TEST

/* A row of an instruction set that the device runs no faster comes after those of a lower one, whatever the lengths,
 * and is taken where it is alone. */
START_TEST(slow_instruction_sets)
{
    for (int64_t queries = 1; queries < 300; queries += 23) {
        const struct glint_problem p = problem_of(2, 2, queries, 300);
        runnable = 1u << CPU_BASE | 1u << CPU_AMX;
        slow_rows = 1u << CPU_AMX;
        ck_assert_uint_eq(taken(&p), CPU_BASE);
        char text[1024];
        ck_assert_int_eq(glint_explain(context, &p, GLINT_FORWARD, text, sizeof text, NULL), GLINT_OK);
        ck_assert_msg(strstr(text, "not known to run faster") != NULL, "%s", text);
        runnable = 1u << CPU_AMX;
        ck_assert_uint_eq(taken(&p), CPU_AMX);
        runnable = 1u << CPU_BASE | 1u << CPU_AMX;
        slow_rows = runnable;
        ck_assert_uint_eq(taken(&p), CPU_AMX);
        slow_rows = 0;
        ck_assert_uint_eq(taken(&p), CPU_AMX);
    }
}
END_TEST

/* A row that is slower than an older family's below a length says so. */
START_TEST(too_short_for_a_row)
{
    const struct glint_problem few = problem_of(2, 2, 63, 63), queries = problem_of(2, 2, 64, 1), keys = problem_of(2, 2, 1, 64);
    char text[1024];
    runnable = 1u << GPU_WIDE | 1u << NEWEST;
    ck_assert_uint_eq(taken(&few), GPU_WIDE);
    ck_assert_uint_eq(taken(&queries), NEWEST);
    ck_assert_uint_eq(taken(&keys), NEWEST);
    ck_assert_int_eq(glint_explain(context, &few, GLINT_FORWARD, text, sizeof text, NULL), GLINT_OK);
    ck_assert_msg(strstr(text, glint_variants[NEWEST].name) != NULL && strstr(text, "slower with so few") != NULL, "%s", text);
    runnable = 1u << NEWEST;
    ck_assert_uint_eq(taken(&few), NEWEST);
}
END_TEST

/* A newer family's row waits for its timing where it says so, and an older one's goes before it; it is taken where no
 * other row does the work, and for all else. */
START_TEST(not_timed_yet)
{
    struct glint_problem p = problem_of(2, 2, 100, 100);
    char text[1024];
    runnable = 1u << GPU_WIDE | 1u << UNTIMED;
    ck_assert_uint_eq(taken(&p), UNTIMED);
    p.lengths = GLINT_LENGTHS_DEVICE;
    ck_assert_uint_eq(taken(&p), UNTIMED);
    p.sinks = 1;
    ck_assert_uint_eq(taken(&p), GPU_WIDE);
    ck_assert_int_eq(glint_explain(context, &p, GLINT_FORWARD, text, sizeof text, NULL), GLINT_OK);
    ck_assert_msg(strstr(text, "sm90a_m128n96, which was not timed yet for such a problem") != NULL, "%s", text);
    runnable = 1u << UNTIMED;
    ck_assert_uint_eq(taken(&p), UNTIMED);
}
END_TEST

/* Of sinks and lengths: who takes them, and what is said of a row that would come first and does not. */
START_TEST(what_a_row_does_not_take)
{
    struct glint_problem p = problem_of(2, 2, 100, 100);
    char text[1024];
    runnable = 1u << GPU_WIDE | 1u << NEWEST;
    ck_assert_uint_eq(taken(&p), NEWEST);
    p.lengths = GLINT_LENGTHS_DEVICE;
    ck_assert_uint_eq(taken(&p), GPU_WIDE);
    ck_assert_int_eq(glint_explain(context, &p, GLINT_FORWARD, text, sizeof text, NULL), GLINT_OK);
    ck_assert_msg(strstr(text, "sm90a_m128n64, which does not take lengths on the device") != NULL, "%s", text);
    p.lengths = GLINT_LENGTHS_HOST;
    p.sinks = 1;
    ck_assert_uint_eq(taken(&p), GPU_WIDE);
    ck_assert_int_eq(glint_explain(context, &p, GLINT_FORWARD, text, sizeof text, NULL), GLINT_OK);
    ck_assert_msg(strstr(text, "take this problem here: 1;") != NULL &&
                      strstr(text, "sm90a_m128n64, which does not take sinks") != NULL,
                  "%s", text);
    runnable = 1u << NEWEST;
    ck_assert_int_eq(glint_explain(context, &p, GLINT_FORWARD, text, sizeof text, NULL), GLINT_BAD_SINKS);
    ck_assert_msg(strstr(text, "sinks is 1, and no variant that runs here takes sinks; nearest: fwd_f32_d64_none__sm90a_m128n64. "
                               "In the spec, set device_lengths = true in families.sm90a and rebuild.") != NULL,
                  "%s", text);
}
END_TEST

/* In the canonical order no length chooses: whichever rows there are, all problems have one row, and it has the order. A set of
 * rows is asked a fifth of the pairs of lengths, and the next set another fifth. */
START_TEST(canonical_order)
{
    static const int64_t lengths[] = {0, 1, 2, 16, 17, 64, 65, 96, 97, 128, 129, 5000};
    enum { LENGTHS = sizeof lengths / sizeof lengths[0] };
    for (unsigned subset = 1; subset < SUBSETS; subset++) {
        runnable = subset;
        uint32_t row = UINT32_MAX;
        for (int i = 0; i < LENGTHS * LENGTHS; i += i == 0 ? 1 + (int)(subset % 5) : 5) {
            struct glint_problem p = problem_of(1 + i % 3, 2, lengths[i / LENGTHS], lengths[i % LENGTHS]);
            struct glint_plan plan;
            p.order = GLINT_ORDER_CANONICAL;
            p.lengths = i % 2 ? GLINT_LENGTHS_DEVICE : GLINT_LENGTHS_HOST;
            if ((subset & READ_LENGTHS) == 0) {
                ck_assert_int_eq(glint_plan(context, &p, GLINT_FORWARD, &plan), i % 2 ? GLINT_BAD_LENGTHS : GLINT_BAD_ORDER);
                continue;
            }
            row = i == 0 ? taken(&p) : row;
            ck_assert_uint_eq(taken(&p), row);
            ck_assert_uint_ne(1u << row & READ_LENGTHS & subset, 0);
        }
    }
    char text[1024];
    struct glint_problem p = problem_of(2, 2, 100, 100);
    p.order = GLINT_ORDER_CANONICAL;
    runnable = 1u << NEWEST;
    ck_assert_int_eq(glint_explain(context, &p, GLINT_FORWARD, text, sizeof text, NULL), GLINT_BAD_ORDER);
    ck_assert_msg(strstr(text, "order is 1, and no variant that runs here takes the canonical order; nearest: "
                               "fwd_f32_d64_none__sm90a_m128n64. No field of its family in the spec makes one that does.") != NULL,
                  "%s", text);
}
END_TEST

/* What a refusal says of the spec is what the table says: the fields of the family of the nearest row, else of
 * another one's that runs here, else that there are none. A row that takes it and refuses the strides is what is
 * told of, before one that does not take it. */
START_TEST(what_a_row_could_take)
{
    static const struct {
        unsigned runnable;
        const char *says;
    } cases[] = {
        {1u << GPU_WIDE,
         "no variant that runs here takes K and V in pages; nearest: fwd_f32_d64_none__sm80_m128n32. In the spec, set "
         "device_pages = true in families.sm80 and rebuild."},
        {1u << GPU_WIDE | 1u << NEWEST,
         "nearest: fwd_f32_d64_none__sm90a_m128n64. In the spec, set device_pages = true in families.sm80"},
        {1u << NEWEST, "nearest: fwd_f32_d64_none__sm90a_m128n64. No field of its family in the spec makes one that does."},
    };
    struct glint_problem p = problem_of(2, 2, 100, 100);
    char text[1024];
    p.lengths = GLINT_LENGTHS_DEVICE;
    p.page_rows = 16;
    p.pages = p.pages_per_sequence = 20;
    p.k = p.v = (struct glint_strides){2 * 64 * 16, 64 * 16, 64};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        runnable = cases[i].runnable;
        const enum glint_status status = glint_explain(context, &p, GLINT_FORWARD, text, sizeof text, NULL);
        ck_assert_msg((status == GLINT_BAD_PAGES || status == GLINT_BAD_LENGTHS) && strstr(text, cases[i].says) != NULL, "%s",
                      text);
    }
    struct glint_problem odd = with_gaps(problem_of(2, 2, 100, 100), (struct gaps){1, 0, 0});
    odd.sinks = 1;
    runnable = 1u << NEWEST | 1u << GPU_WIDE;
    ck_assert_int_eq(glint_explain(context, &odd, GLINT_FORWARD, text, sizeof text, NULL), GLINT_STRIDE_MISALIGNED);
    ck_assert_msg(strstr(text, "elements for fwd_f32_d64_none__sm80_m128n32") != NULL, "%s", text);
}
END_TEST

/* Who wants the other arithmetic looks for it in the table and takes the row itself. */
START_TEST(the_caller_takes_another_row)
{
    const struct glint_problem p = problem_of(1, 1, 100, 100);
    struct glint_plan plan;
    for (uint32_t i = 0; i < ROWS; i++) {
        struct glint_variant_info info = GLINT_VARIANT_INFO_INIT;
        ck_assert_int_eq(glint_variant_at(i, &info), GLINT_OK);
        ck_assert_uint_eq(info.math, glint_variants[i].math);
        runnable = (1u << ROWS) - 1;
        ck_assert_int_eq(glint_plan_variant(context, &p, GLINT_FORWARD, i, &plan), GLINT_OK);
        ck_assert_uint_eq(plan.variant, i);
        runnable &= ~(1u << i);
        ck_assert_int_eq(glint_plan_variant(context, &p, GLINT_FORWARD, i, &plan), GLINT_NOT_ON_DEVICE);
    }
}
END_TEST

/* A sequence's result does not depend on what it is batched with: with the same strides, batches and heads that are
 * planned get one row. */
START_TEST(batch_and_heads_play_no_part)
{
    static const int64_t counts[][2] = {{1, 1}, {1, 2}, {2, 1}, {2, 2}, {77, 40}};
    for (int64_t length = 1; length < 400; length += 57)
        for (int g = 0; g < GAPS; g++)
            for (runnable = 1; runnable < MANY; runnable += NEXT) {
                uint32_t first = UINT32_MAX;
                for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
                    struct glint_problem p = with_gaps(problem_of(77, 40, length, 2 * length), gaps[g]);
                    struct glint_plan plan;
                    p.batch = counts[i][0];
                    p.heads_q = p.heads_kv = counts[i][1];
                    if (glint_plan(context, &p, GLINT_FORWARD, &plan) != GLINT_OK)
                        continue;
                    ck_assert(first == UINT32_MAX || plan.variant == first);
                    first = plan.variant;
                }
            }
}
END_TEST

/* Nor do the pages of a pool, of which there may be one alone. */
START_TEST(the_size_of_a_pool_plays_no_part)
{
    static const int64_t pages[] = {1, 2, 3, 100};
    for (unsigned rows = 1; rows < 4; rows++)
        for (int64_t gap = 0; gap <= 8; gap++)
            for (int64_t head_gap = 0; head_gap <= 8; head_gap += 4) {
                uint32_t first = UINT32_MAX;
                for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
                    struct glint_problem p = problem_of(1, 1, 50, 100);
                    struct glint_plan plan;
                    p.lengths = GLINT_LENGTHS_DEVICE;
                    p.page_rows = 16, p.pages = pages[i], p.pages_per_sequence = 7;
                    p.k = p.v = (struct glint_strides){16 * 64 + gap, 16 * 64 + head_gap, 64};
                    runnable = (rows & 1u) << NEW_PAGED | (rows >> 1) << OLD_PAGED;
                    if (glint_plan(context, &p, GLINT_FORWARD, &plan) != GLINT_OK) {
                        ck_assert_uint_eq(rows, 1); /* the other row takes any strides */
                        continue;
                    }
                    ck_assert_msg(first == UINT32_MAX || plan.variant == first, "%d pages, a gap of %d: %s", (int)pages[i],
                                  (int)gap, glint_variants[plan.variant].name);
                    first = plan.variant;
                }
            }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plan_rule");
    TCase *tcase = tcase_create("rule");
    tcase_add_checked_fixture(tcase, open_context, close_context);
    tcase_add_test(tcase, every_subset_of_rows);
    tcase_add_test(tcase, bounds_beside_a_step);
    tcase_add_test(tcase, precision_is_no_matter_of_shape);
    tcase_add_test(tcase, rows_for_short_sequences);
    tcase_add_test(tcase, rows_for_few_queries);
    tcase_add_test(tcase, rows_for_a_step);
    tcase_add_test(tcase, rows_of_groups_for_a_step);
    tcase_add_test(tcase, bounds_of_keys_play_no_part);
    tcase_add_test(tcase, strides_that_some_rows_do_not_take);
    tcase_add_test(tcase, lengths_on_the_device);
    tcase_add_test(tcase, explained);
    tcase_add_test(tcase, what_decided);
    tcase_add_test(tcase, slow_instruction_sets);
    tcase_add_test(tcase, too_short_for_a_row);
    tcase_add_test(tcase, not_timed_yet);
    tcase_add_test(tcase, what_a_row_does_not_take);
    tcase_add_test(tcase, canonical_order);
    tcase_add_test(tcase, what_a_row_could_take);
    tcase_add_test(tcase, the_caller_takes_another_row);
    tcase_add_test(tcase, batch_and_heads_play_no_part);
    tcase_add_test(tcase, the_size_of_a_pool_plays_no_part);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    const int run = srunner_ntests_run(runner), failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return run > 0 && failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
