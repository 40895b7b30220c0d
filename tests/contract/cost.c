/* glint_plan_cost against counts of every pair, one by one: all rows of the table, masks, windows and lengths;
 * lengths that no loop could count. */
#include <stdlib.h>
#include <string.h>

#include "tests/contract/suite.h"
#include "tests/contract/world.h"

/* glint.h: enum glint_mask. */
static bool sees(const struct glint_problem *p, int64_t i, int64_t j)
{
    const bool bottom_right = p->mask == GLINT_MASK_CAUSAL_BOTTOM_RIGHT || p->mask == GLINT_MASK_BAND_BOTTOM_RIGHT;
    const bool band = p->mask == GLINT_MASK_BAND_TOP_LEFT || p->mask == GLINT_MASK_BAND_BOTTOM_RIGHT;
    const int64_t far = INT64_C(1) << 40, moved = p->diagonal < -far ? -far : p->diagonal > far ? far : p->diagonal;
    const int64_t at = i + (bottom_right ? p->seqlen_k - p->seqlen_q : 0) + moved;
    if (p->mask == GLINT_MASK_NONE)
        return true;
    if (!band)
        return j <= at;
    return (p->window_left == GLINT_UNBOUNDED || j >= at - p->window_left) &&
           (p->window_right == GLINT_UNBOUNDED || j <= at + p->window_right);
}

static struct glint_cost cost_of(const struct glint_plan *plan)
{
    struct glint_cost cost = GLINT_COST_INIT;
    const enum glint_status status = glint_plan_cost(plan, &cost);
    EXPECT(status == GLINT_OK, "%s", glint_status_name(status));
    return cost;
}

static void compare(const struct glint_plan *plan)
{
    const struct glint_problem *const p = &plan->problem;
    const struct glint_variant_info info = row_at(plan->variant);
    const int64_t m = info.tile_m, n = info.tile_n, blocks = p->seqlen_q / m + 1, across = p->seqlen_k / n + 1;
    unsigned char *const tiles = calloc((size_t)(blocks * across), 1);
    int64_t pairs = 0, first = p->seqlen_k, last = -1, computed = 0;
    for (int64_t i = 0; i < p->seqlen_q; i++)
        for (int64_t j = 0; j < p->seqlen_k; j++) {
            if (!sees(p, i, j))
                continue;
            pairs++;
            tiles[i / m * across + j / n] = 1;
            first = j < first ? j : first;
            last = j > last ? j : last;
        }
    for (int64_t i = 0; i < blocks * across; i++)
        computed += tiles[i] * m * n;
    free(tiles);
    const int64_t keys = last < first ? 0 : last - first + 1;
    if (info.queries_up_to > 0)
        computed = keys > 0 ? p->seqlen_q * (last + 1 - first / 32 * 32) : 0;
    const bool backward = plan->pass == GLINT_BACKWARD;
    const int64_t row = p->head_dim * element_bytes(p->dtype), q = p->batch * p->heads_q * p->seqlen_q, kv = p->batch * p->heads_kv;
    const int64_t key = p->kv_dtype == 0 ? row : p->head_dim * element_bytes(p->kv_dtype) + 4; /* with the scale of the row */
    const int64_t flop = p->batch * p->heads_q * p->head_dim * (backward ? 10 : 4);
    const int64_t read = backward ? 3 * q * row + 4 * q + 2 * kv * keys * row : q * row + 2 * kv * keys * key;
    const int64_t written = backward ? q * row + 2 * kv * p->seqlen_k * row : q * row + 4 * q;
    const struct glint_cost cost = cost_of(plan);
    EXPECT(cost.flops == (uint64_t)(flop * pairs) && cost.tile_flops == (uint64_t)(flop * computed) &&
               cost.bytes_read == (uint64_t)read && cost.bytes_written == (uint64_t)written,
           "%s, %lld x %lld, mask %u, window %lld, %lld, diagonal %lld: %llu, %llu, %llu, %llu, not %lld, %lld, %lld, %lld",
           info.name, (long long)p->seqlen_q, (long long)p->seqlen_k, p->mask, (long long)p->window_left,
           (long long)p->window_right, (long long)p->diagonal, (unsigned long long)cost.flops, (unsigned long long)cost.tile_flops,
           (unsigned long long)cost.bytes_read, (unsigned long long)cost.bytes_written, (long long)(flop * pairs),
           (long long)(flop * computed), (long long)read, (long long)written);
    EXPECT(cost.tile_flops >= cost.flops && cost.struct_size == sizeof cost && cost.reserved == 0, "the cost of %s", info.name);
}

static void every_pair(void)
{
    void *storage;
    struct rand r = {3};
    struct glint_context *const context = open_serial(&storage);
    const int64_t windows[] = {GLINT_UNBOUNDED, 0, 1, 30, 97, 400}, diagonals[] = {0, 0, 25, -40, 500, -700, INT64_MIN, INT64_MAX};
    uint32_t compared = 0;
    for (uint32_t row = 0; row < glint_variant_count(); row++) {
        const struct glint_variant_info info = row_at(row);
        if (glint_variant_available(context, row) != GLINT_OK)
            continue;
        for (uint32_t mask = GLINT_MASK_NONE; mask <= GLINT_MASK_BAND_BOTTOM_RIGHT; mask++)
            for (int draw = 0; draw < 48; draw++) {
                struct glint_problem p;
                struct glint_plan plan;
                const bool few = draw % 4 == 2; /* keys, and a window of few */
                const int64_t queries = draw < 4 ? 5 : few ? 70 : 300, keys = few ? 3 : draw < 6 ? 300 : 700;
                int64_t m = draw == 0 ? 0 : rand_below(&r, queries), n = draw % 12 == 1 ? 0 : rand_below(&r, keys);
                if (draw % 12 == 7) /* whole tiles */
                    n = (1 + rand_below(&r, 3)) * info.tile_n, m = (1 + rand_below(&r, 3)) * info.tile_m + rand_below(&r, 2);
                glint_problem_bshd(&p, (enum glint_dtype)info.dtype, 1 + draw % 3, m, n, 6, 2, info.head_dim);
                serve_cache(&p, &info);
                p.mask = mask;
                const int64_t corners[] = {-m, n, 0};
                if (mask != GLINT_MASK_NONE) /* anywhere, or beside a corner, where few queries see few keys */
                    p.diagonal = few         ? rand_below(&r, 4) - 1
                                 : draw < 12 ? diagonals[rand_below(&r, 8)]
                                             : corners[draw % 3] + rand_below(&r, 9) - 4;
                if (mask >= GLINT_MASK_BAND_TOP_LEFT) {
                    p.window_left = windows[few ? 1 + rand_below(&r, 2) : rand_below(&r, 6)];
                    p.window_right = windows[rand_below(&r, few ? 3 : 6)];
                }
                if (glint_plan_variant(context, &p, (enum glint_pass)info.pass, row, &plan) != GLINT_OK)
                    continue; /* of another mask */
                compare(&plan);
                compared++;
            }
    }
    EXPECT(compared > 0, "no variant runs here");
    contract_note("%u plans cost what counting says", compared);
    free(storage);
}

static double as_double(uint64_t x)
{
    return (double)x;
}

/* Lengths up to the largest: the numbers of a formula in double, or all ones; and no more time than planning. */
static void long_ones(void)
{
    void *storage;
    struct glint_context *const context = open_serial(&storage);
    uint64_t full = 0;
    for (int64_t seqlen = 1000; seqlen <= GLINT_MAX_EXTENT; seqlen = seqlen * 3 + 7)
        for (uint32_t row = 0; row < glint_variant_count(); row += 3) {
            const struct glint_variant_info info = row_at(row);
            struct glint_problem p;
            struct glint_plan plan;
            if (glint_variant_available(context, row) != GLINT_OK)
                continue;
            glint_problem_bshd(&p, (enum glint_dtype)info.dtype, 1, seqlen, seqlen, 1, 1, info.head_dim);
            serve_cache(&p, &info);
            p.mask = row_mask(&info, true);
            if (glint_plan_variant(context, &p, (enum glint_pass)info.pass, row, &plan) != GLINT_OK)
                continue; /* such as a workspace that does not fit */
            const double s = (double)seqlen, pairs = p.mask == GLINT_MASK_NONE                  ? s * s
                                                     : p.mask == GLINT_MASK_CAUSAL_BOTTOM_RIGHT ? s * (s + 1) / 2
                                                                                                : s;
            const double flops = pairs * (double)info.head_dim * (info.pass == GLINT_BACKWARD ? 10 : 4);
            const struct glint_cost cost = cost_of(&plan);
            full += cost.flops == UINT64_MAX;
            if (flops < 0x1p63)
                EXPECT(as_double(cost.flops) > 0.999999 * flops && as_double(cost.flops) < 1.000001 * flops &&
                           cost.tile_flops >= cost.flops,
                       "%s at %lld: %llu, not %g", info.name, (long long)seqlen, (unsigned long long)cost.flops, flops);
            else if (flops > 0x1p65)
                EXPECT(cost.flops == UINT64_MAX && cost.tile_flops == UINT64_MAX, "%s: %llu", info.name,
                       (unsigned long long)cost.flops);
        }
    EXPECT(full > 0, "no number was too large");

    const struct glint_variant_info info = first_row(context, GLINT_FORWARD);
    struct glint_problem p;
    struct glint_plan plan;
    glint_problem_bshd(&p, (enum glint_dtype)info.dtype, 1, GLINT_MAX_EXTENT / 8, GLINT_MAX_EXTENT / 4, 1, 1, info.head_dim);
    serve_cache(&p, &info);
    p.mask = row_mask(&info, true);
    if (p.mask == GLINT_MASK_BAND_BOTTOM_RIGHT)
        p.window_left = 4095;
    EXPECT(glint_plan(context, &p, GLINT_FORWARD, &plan) == GLINT_OK, "plan");
    double times[101];
    for (int i = 0; i < 101; i++) {
        const double start = seconds_now();
        for (int k = 0; k < 100; k++)
            (void)cost_of(&plan);
        times[i] = (seconds_now() - start) / 100;
    }
    const double seconds = median(times, 101);
    contract_note("%.0f ns", 1e9 * seconds);
    EXPECT(CONTRACT_SANITIZED || CONTRACT_EMULATED || seconds < 2e-6, "%g s", seconds);
    free(storage);
}

static void refusals(void)
{
    void *storage;
    struct glint_context *const context = open_serial(&storage);
    const struct glint_variant_info info = first_row(context, GLINT_FORWARD);
    struct glint_problem p;
    struct glint_plan plan, changed;
    struct glint_cost cost = GLINT_COST_INIT, before;
    glint_problem_bshd(&p, (enum glint_dtype)info.dtype, 1, 5, 9, 1, 1, info.head_dim);
    serve_cache(&p, &info);
    p.mask = row_mask(&info, true);
    EXPECT(glint_plan(context, &p, GLINT_FORWARD, &plan) == GLINT_OK, "plan");
    changed = plan;
    changed.problem.seqlen_k = 8;
    EXPECT(glint_plan_cost(NULL, &cost) == GLINT_NULL_ARGUMENT && glint_plan_cost(&plan, NULL) == GLINT_NULL_ARGUMENT, "NULL");
    before = cost;
    EXPECT(glint_plan_cost(&changed, &cost) == GLINT_BAD_PLAN, "a plan that was changed");
    cost.struct_size--;
    EXPECT(glint_plan_cost(&plan, &cost) == GLINT_STRUCT_SIZE, "another size");
    cost.struct_size++;
    EXPECT(memcmp(&cost, &before, sizeof cost) == 0, "refused, and written");
    EXPECT(glint_plan_cost(&plan, &cost) == GLINT_OK && cost.flops > 0, "cost");
    EXPECT(glint_context_close(context) == GLINT_OK, "close");
    EXPECT(glint_plan_cost(&plan, &cost) == GLINT_CONTEXT_CLOSED, "a closed context");
    free(storage);
}

static const struct contract_case cases[] = {
    {"every_pair", every_pair, 120}, {"long_ones", long_ones, 0}, {"refusals", refusals, 0}};
CONTRACT_MAIN("cost", cases)
