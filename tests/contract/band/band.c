/* Kernels of the CPU family under a mask that bounds both sides of the band: query i sees keys i + first ... i + last.
 * A problem can ask only for bands about its diagonal. Here the kernels are run as lib/cpu/launch.c runs them, with
 * sides that lie anywhere, against attention in double. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/backend.h"
#include "lib/cpu/cpu.h"
#include "tests/support/rand.h"

enum { ROWS = 12, DIM = 40, BATCH = 2, HEADS_Q = 4, HEADS_KV = 2, TENSORS = 9 };
enum { Q, K, V, O, DO, DQ, DK, DV, LSE };

/* A case, and its tensors as doubles, [batch][heads][rows][DIM]: inputs as stored, answers of the reference, answers of
 * the kernel. */
struct problem {
    const struct glint_variant *row;
    int64_t seqlen_q, seqlen_k;
    struct glint_band band;
    double *right[TENSORS], *got[TENSORS];
};

static int64_t rows_of(const struct problem *p, int tensor)
{
    const bool keys = tensor == K || tensor == V || tensor == DK || tensor == DV;
    return BATCH * (keys ? HEADS_KV * p->seqlen_k : HEADS_Q * p->seqlen_q);
}

static int64_t count_of(const struct problem *p, int tensor)
{
    return rows_of(p, tensor) * (tensor == LSE ? 1 : DIM);
}

static float bf16_of(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &wide, sizeof x);
    return x;
}

static uint16_t bf16_from(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return isnan(x) ? 0x7fc0 : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* ---- attention in double ---- */

static double dot(const double *a, const double *b)
{
    double sum = 0;
    for (int d = 0; d < DIM; d++)
        sum += a[d] * b[d];
    return sum;
}

static bool sees(const struct problem *p, int64_t i, int64_t j)
{
    return j >= i + p->band.first && j <= i + p->band.last;
}

static void reference(struct problem *p, double scale)
{
    double **t = p->right;
    for (int tensor = DQ; tensor <= DV; tensor++)
        memset(t[tensor], 0, (size_t)count_of(p, tensor) * sizeof(double));
    for (int64_t h = 0; h < BATCH * HEADS_Q; h++)
        for (int64_t i = 0; i < p->seqlen_q; i++) {
            const int64_t kv = h / HEADS_Q * HEADS_KV + h % HEADS_Q / (HEADS_Q / HEADS_KV), at = (h * p->seqlen_q + i) * DIM;
            const double *k = t[K] + kv * p->seqlen_k * DIM, *v = t[V] + kv * p->seqlen_k * DIM;
            double *dk = t[DK] + kv * p->seqlen_k * DIM, *dv = t[DV] + kv * p->seqlen_k * DIM;
            double max = -INFINITY, sum = 0;
            for (int64_t j = 0; j < p->seqlen_k; j++)
                if (sees(p, i, j))
                    max = fmax(max, scale * dot(t[Q] + at, k + j * DIM));
            for (int d = 0; d < DIM; d++)
                t[O][at + d] = 0;
            for (int64_t j = 0; j < p->seqlen_k; j++)
                if (sees(p, i, j)) {
                    const double e = exp(scale * dot(t[Q] + at, k + j * DIM) - max);
                    sum += e;
                    for (int d = 0; d < DIM; d++)
                        t[O][at + d] += e * v[j * DIM + d];
                }
            for (int d = 0; d < DIM && sum > 0; d++)
                t[O][at + d] /= sum;
            t[LSE][h * p->seqlen_q + i] = max + log(sum);
            if (p->row->pass == GLINT_FORWARD)
                continue;
            const double delta = dot(t[DO] + at, t[O] + at);
            for (int64_t j = 0; j < p->seqlen_k; j++)
                if (sees(p, i, j)) {
                    const double prob = exp(scale * dot(t[Q] + at, k + j * DIM) - t[LSE][h * p->seqlen_q + i]);
                    const double ds = prob * (dot(t[DO] + at, v + j * DIM) - delta);
                    for (int d = 0; d < DIM; d++) {
                        t[DQ][at + d] += scale * ds * k[j * DIM + d];
                        dk[j * DIM + d] += scale * ds * t[Q][at + d];
                        dv[j * DIM + d] += prob * t[DO][at + d];
                    }
                }
        }
}

/* ---- the kernel ---- */

static void *stored(const struct problem *p, int tensor, const double *from)
{
    const int64_t count = count_of(p, tensor);
    const bool wide = tensor == LSE || p->row->dtype == GLINT_F32;
    unsigned char *memory = malloc((size_t)(count + 1) * (wide ? 4 : 2));
    ck_assert_ptr_nonnull(memory);
    for (int64_t i = 0; i < count; i++) {
        const float x = from ? (float)from[i] : NAN; /* what the kernel does not write fails */
        const uint16_t half = bf16_from(x);
        memcpy(memory + i * (wide ? 4 : 2), wide ? (const void *)&x : (const void *)&half, wide ? 4 : 2);
    }
    return memory;
}

static void load(const struct problem *p, int tensor, const void *memory, double *to)
{
    for (int64_t i = 0; i < count_of(p, tensor); i++)
        to[i] = tensor == LSE || p->row->dtype == GLINT_F32 ? (double)((const float *)memory)[i]
                                                            : (double)bf16_of(((const uint16_t *)memory)[i]);
}

/* As lib/cpu/launch.c does, one task after another. `lanes`: for how many bodies the problem is cut. */
static void launch(const struct glint_variant *row, const struct glint_problem *problem, const struct glint_tensors *tensors,
                   struct glint_band band, uint32_t lanes)
{
    struct glint_cpu_call call = {.problem = problem, .tensors = tensors, .queries = problem->seqlen_q, .band = band};
    struct glint_family_plan plan;
    ck_assert(glint_cpu_plan(row, problem, lanes, &plan));
    memcpy(&call.geometry, plan.word, sizeof call.geometry);
    static _Alignas(
        GLINT_WORKSPACE_ALIGNMENT) unsigned char workspace[8 << 20]; /* not from malloc: fresh pages take longer than the kernel */
    ck_assert_uint_le(plan.workspace_bytes, sizeof workspace);
    memset(workspace, 0xff, plan.workspace_bytes);
    call.partials = (float *)(void *)(workspace + call.geometry.partials_offset);
    for (uint32_t phase = 0; phase < GLINT_CPU_PHASES; phase++)
        for (int64_t task = 0; task < call.geometry.tasks[phase]; task++)
            glint_cpu_run_task(row->kernel, phase, &call, (float *)(void *)(workspace + call.geometry.scratch_offset), task);
}

static void run(struct problem *p, uint32_t lanes)
{
    const bool backward = p->row->pass == GLINT_BACKWARD;
    struct glint_problem problem;
    glint_problem_bhsd(&problem, (enum glint_dtype)p->row->dtype, BATCH, p->seqlen_q, p->seqlen_k, HEADS_Q, HEADS_KV, DIM);
    void *memory[TENSORS];
    for (int tensor = 0; tensor < TENSORS; tensor++) {
        const bool written = backward ? tensor >= DQ && tensor <= DV : tensor == O || tensor == LSE;
        memory[tensor] = stored(p, tensor, written ? NULL : p->right[tensor]);
    }
    const struct glint_tensors tensors = {.struct_size = sizeof tensors,
                                          .q = memory[Q],
                                          .k = memory[K],
                                          .v = memory[V],
                                          .o = memory[O],
                                          .lse = memory[LSE],
                                          .dout = memory[DO],
                                          .dq = memory[DQ],
                                          .dk = memory[DK],
                                          .dv = memory[DV]};
    launch(p->row, &problem, &tensors, p->band, lanes);
    for (int tensor = 0; tensor < TENSORS; tensor++) {
        load(p, tensor, memory[tensor], p->got[tensor]);
        free(memory[tensor]);
    }
}

/* ---- cases ---- */

static struct problem make(const struct glint_variant *row, int64_t seqlen_q, int64_t seqlen_k, int64_t first, int64_t last)
{
    struct problem p = {row, seqlen_q, seqlen_k, {first, last}, {NULL}, {NULL}};
    struct rand random = rand_stream((uint64_t)seqlen_q, (uint64_t)seqlen_k);
    for (int tensor = 0; tensor < TENSORS; tensor++) {
        const int64_t count = count_of(&p, tensor);
        p.right[tensor] = calloc((size_t)count + 1, sizeof(double));
        p.got[tensor] = calloc((size_t)count + 1, sizeof(double));
        ck_assert(p.right[tensor] && p.got[tensor]);
        for (int64_t i = 0; i < count && (tensor <= V || tensor == DO); i++) /* multiples of 1/64 below 2 are exact in bf16 */
            p.right[tensor][i] = (double)(rand_below(&random, 255) - 127) / 64;
    }
    return p;
}

static void drop(struct problem *p)
{
    for (int tensor = 0; tensor < TENSORS; tensor++) {
        free(p->right[tensor]);
        free(p->got[tensor]);
    }
}

static double scale_of(void)
{
    struct glint_problem p;
    glint_problem_bhsd(&p, GLINT_F32, 1, 1, 1, 1, 1, DIM);
    return (double)p.softmax_scale;
}

static void compare(const struct problem *p, int tensor, double tolerance)
{
    double largest = 1;
    for (int64_t i = 0; i < count_of(p, tensor); i++)
        if (isfinite(p->right[tensor][i]))
            largest = fmax(largest, fabs(p->right[tensor][i]));
    for (int64_t i = 0; i < count_of(p, tensor); i++) {
        const double got = p->got[tensor][i], right = p->right[tensor][i];
        if (got != right && !(fabs(got - right) <= tolerance * largest)) /* no assertion that holds: Check writes each to a file */
            ck_abort_msg("%s: %lld x %lld, keys i%+lld ... i%+lld: element %lld of tensor %d is %g, not %g", p->row->name,
                         (long long)p->seqlen_q, (long long)p->seqlen_k, (long long)p->band.first, (long long)p->band.last,
                         (long long)i, tensor, got, right);
    }
}

static void check_case(const struct glint_variant *row, int64_t seqlen_q, int64_t seqlen_k, int64_t first, int64_t last)
{
    struct problem p = make(row, seqlen_q, seqlen_k, first, last);
    const bool backward = row->pass == GLINT_BACKWARD;
    const double ulp = row->dtype == GLINT_F32 ? 2e-6 : 1.0 / 128;
    reference(&p, scale_of());
    for (uint32_t lanes = 1; lanes <= 4; lanes += 3) {
        run(&p, lanes);
        if (backward) {
            compare(&p, DQ, 8 * ulp);
            compare(&p, DK, 8 * ulp);
            compare(&p, DV, 8 * ulp);
        } else {
            compare(&p, O, ulp);
            compare(&p, LSE, 2e-6);
        }
    }
    drop(&p);
}

/* Sides of the band on, beside and far from the edges of tiles; narrower than a tile and wider than the keys; nothing
 * at all; queries before the first key's and after the last one's. */
START_TEST(bands)
{
    static const int64_t lengths[][2] = {{1, 1}, {16, 6}, {17, 37}, {70, 71}, {30, 110}, {110, 30}, {0, 5}, {5, 0}};
    static const int64_t sides[] = {-300, -37, -16, -6, -1, 0, 7, 35, 300};
#ifdef __SANITIZE_ADDRESS__
    enum { SIDES = sizeof sides / sizeof sides[0], EVERY = 4 };
#else
    enum { SIDES = sizeof sides / sizeof sides[0], EVERY = 1 };
#endif
    int cases = _i; /* rows have other cases where not every one is looked at */
    ck_assert_uint_eq(glint_variants_count, ROWS);
    for (size_t n = 0; n < sizeof lengths / sizeof lengths[0]; n++)
        for (int a = 0; a < SIDES; a++)
            for (int b = 0; b < SIDES; b++)
                if (((a + b) % 2 == 0 || sides[b] - sides[a] < 10) && cases++ % EVERY == 0) /* half of the wide ones are enough */
                    check_case(&glint_variants[_i], lengths[n][0], lengths[n][1], sides[a], sides[b]);
}
END_TEST

/* NaN and inf in a row reach who sees it and nobody else, whose results have the same bits as without it. */
static void check_special(const struct glint_variant *row, struct glint_band band, int input, int64_t at, double value)
{
    struct problem p = make(row, 70, 71, band.first, band.last), clean = make(row, 70, 71, band.first, band.last);
    const bool backward = row->pass == GLINT_BACKWARD;
    const bool by_key = input == K || input == V;
    reference(&p, scale_of());
    reference(&clean, scale_of());
    p.right[input][at * DIM + 3] = value; /* batch 0, head 0 */
    run(&p, 1);
    run(&clean, 1);
    for (int tensor = backward ? DQ : O; tensor <= (backward ? DV : O); tensor++) {
        if (!backward && tensor != O)
            continue;
        const bool keys = tensor == DK || tensor == DV;
        bool reached = false;
        for (int64_t r = 0; r < rows_of(&p, tensor); r++) {
            const int64_t rows = keys ? p.seqlen_k : p.seqlen_q, head = r / rows, i = r % rows;
            /* Of key head 0 are query heads 0 and 1. */
            const bool same = keys ? head == 0 : by_key ? head < HEADS_Q / HEADS_KV : head == 0;
            bool near = false;
            for (int64_t mid = 0; mid < (keys ? p.seqlen_q : p.seqlen_k) && !near; mid++) {
                const int64_t query = keys ? mid : i, key = keys ? i : mid;
                near = sees(&p, query, key) && (by_key ? sees(&p, query, at) : query == at);
            }
            for (int d = 0; d < DIM; d++) {
                const double got = p.got[tensor][r * DIM + d], was = clean.got[tensor][r * DIM + d];
                reached = reached || !isfinite(got);
                if (!(same && near) && got != was)
                    ck_abort_msg("%s: %g in tensor %d, row %lld, reaches tensor %d, row %lld: %g, not %g", row->name, value, input,
                                 (long long)at, tensor, (long long)r, got, was);
            }
        }
        ck_assert_msg(reached || input == K || (tensor == DV && input == V), "%s: %g in tensor %d reaches nobody", row->name, value,
                      input);
    }
    drop(&p);
    drop(&clean);
}

START_TEST(special_values)
{
    static const int64_t places[] = {0, 5, 6, 31, 36, 69};
    static const struct glint_band sides[] = {{-9, 4}, {-9, 300}, {-300, 4}}; /* hidden on both, on one, on the other */
    for (size_t b = 0; b < sizeof sides / sizeof sides[0]; b++)
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
            for (int value = 0; value < 2; value++) {
                const double x = value ? (double)NAN : (double)INFINITY;
                check_special(&glint_variants[_i], sides[b], V, places[i], x);
                check_special(&glint_variants[_i], sides[b], K, places[i], (double)NAN);
                if (glint_variants[_i].pass == GLINT_BACKWARD)
                    check_special(&glint_variants[_i], sides[b], DO, places[i], x);
            }
}
END_TEST

/* Keys that no query sees are not read, but for those of the first and last tile: their pages may be touched by
 * nobody. */
START_TEST(unread)
{
    enum { KEYS = 12000, QUERIES = 5, WIDTH = 100, LONGEST = 64 };
    const struct glint_variant *row = &glint_variants[_i];
    const int64_t element = row->dtype == GLINT_F32 ? 4 : 2, page = 4096, bytes = KEYS * DIM * element;
    const size_t mapped = (size_t)((bytes + page - 1) / page * page);
    struct glint_problem problem;
    glint_problem_bhsd(&problem, (enum glint_dtype)row->dtype, 1, QUERIES, KEYS, 2, 1, DIM);
    static _Alignas(64) unsigned char q[2 * QUERIES * DIM * 4], o[sizeof q], dq[sizeof q], lse[2 * QUERIES * 4];
    unsigned char *dk = malloc(mapped), *dv = malloc(mapped), *kv[2];
    ck_assert(dk && dv);
    for (int i = 0; i < 2; i++) { /* zeros */
        kv[i] = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ck_assert(kv[i] != MAP_FAILED);
    }
    const struct glint_tensors tensors = {.struct_size = sizeof tensors,
                                          .q = q,
                                          .k = kv[0],
                                          .v = kv[1],
                                          .o = o,
                                          .lse = (float *)(void *)lse,
                                          .dout = q,
                                          .dq = dq,
                                          .dk = dk,
                                          .dv = dv};
    for (int64_t at = 0; at <= KEYS - WIDTH - QUERIES; at += (KEYS - WIDTH - QUERIES) / 2) {
        const int64_t from = (at > LONGEST ? at - LONGEST : 0) * DIM * element / page * page;
        const int64_t to = ((at + WIDTH + QUERIES + LONGEST) * DIM * element / page + 1) * page;
        for (int i = 0; i < 2; i++) {
            ck_assert(mprotect(kv[i], mapped, PROT_NONE) == 0);
            ck_assert(mprotect(kv[i] + from, (size_t)((to < (int64_t)mapped ? to : (int64_t)mapped) - from), PROT_READ) == 0);
        }
        for (uint32_t lanes = 1; lanes <= 4; lanes += 3)
            launch(row, &problem, &tensors, (struct glint_band){at, at + WIDTH}, lanes);
        if (row->pass == GLINT_FORWARD) /* all scores are 0 */
            for (int i = 0; i < 2 * QUERIES; i++)
                ck_assert_double_eq_tol((double)tensors.lse[i], log(WIDTH + 1), 1e-5);
    }
    for (int i = 0; i < 2; i++)
        munmap(kv[i], mapped);
    free(dk);
    free(dv);
}
END_TEST

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    Suite *suite = suite_create("band");
    TCase *tcase = tcase_create("kernels");
    tcase_add_loop_test(tcase, bands, 0, ROWS);
    tcase_add_loop_test(tcase, special_values, 0, ROWS);
    tcase_add_loop_test(tcase, unread, 0, ROWS);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    const int ran = srunner_ntests_run(runner), failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return ran > 0 && failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
