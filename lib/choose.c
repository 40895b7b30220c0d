/* Which row of the table computes a problem: the one rule of choice. glint_plan applies it, glint_explain says what it
 * decided by.
 *
 * Candidates are the rows with the problem's pass, dtype, head_dim and mask that the context's device runs. A row is
 * taken before another by the first line of RULE that tells them apart, and by name if none does. So a row must take
 * the problem before anything else counts, what a product is worth is the table's doing and not that of lengths, and
 * what was measured goes before what is newer.
 *
 * Batch and heads play no part, so a sequence's result does not depend on what it is batched with:
 *
 *   the strides           are asked about as if there were several batches and heads. Where no row takes them so, they
 *                         are asked about as they are, and of the rows that take them the one with the smallest
 *                         alignment goes first: if any row takes the same strides of several batches, that one does
 *   the bound of keys     counts where the host gives the lengths. Where the call has them, only the bound of queries
 *                         tells rows apart
 *   lengths               play no part in the canonical order: a query has the same row in every call */
#include "lib/axes.h"
#include "lib/backend.h"
#include "lib/check.h"
#include "lib/takes.h"

/* What is asked, and of which row. */
struct question {
    const struct glint_context *context;
    const struct glint_problem *problem;
    const struct glint_problem *several; /* the same with several batches and heads */
    uint16_t isa;                        /* of a CPU: the highest fast one with a row; for more than FEW queries */
};

static bool canonical(const struct question *q)
{
    return q->problem->order == GLINT_ORDER_CANONICAL;
}

/* A row that lacks what the problem needs comes behind one that takes all of it and refuses something else: what is
 * told is the latter then. */
enum { REFUSES = INT32_MAX - 1, LACKS = INT32_MAX };

static uint32_t lacks(const struct glint_variant *row, const struct glint_problem *problem)
{
    return glint_needs_of(problem) & ~(uint32_t)row->takes;
}

/* Whether a row with the problem's key takes it on this device; the refusal if not. */
static enum glint_status takes(const struct glint_variant *row, const struct glint_problem *problem,
                               const struct glint_context *context, struct glint_fault *fault)
{
    const uint32_t lacked = lacks(row, problem);
#define REFUSE(word, bit, reason, member, what) \
    if ((lacked & (bit)) != 0)                  \
        return glint_refuse(fault, GLINT_REASON_##reason, #member, NULL, problem->member, 0);
    GLINT_TAKES(REFUSE)
#undef REFUSE
    return glint_family_of(row)->fits(row, problem, context, fault);
}

static int64_t eligibility(const struct glint_variant *row, const struct question *q)
{
    struct glint_fault fault;
    if (takes(row, q->several, q->context, &fault) == GLINT_OK)
        return 0;
    if (takes(row, q->problem, q->context, &fault) == GLINT_OK)
        return (int64_t)row->alignment_bytes;
    return lacks(row, q->problem) == 0 ? REFUSES : LACKS;
}

static int64_t math(const struct glint_variant *row, const struct question *q)
{
    (void)q;
    return row->math == GLINT_MATH_BF16 ? GLINT_MATH_NATIVE
                                        : row->math; /* what else a CPU has for bf16 is an instruction set's matter */
}

static int64_t shorter_of(const struct glint_problem *p)
{
    return p->seqlen_q < p->seqlen_k ? p->seqlen_q : p->seqlen_k;
}

static int64_t longer_of(const struct glint_problem *p)
{
    return p->seqlen_q > p->seqlen_k ? p->seqlen_q : p->seqlen_k;
}

/* Of a family's rows that are meant for lengths up to a bound, the narrowest that holds the problem comes first, and
 * those that it exceeds last. The shorter length counts, as few queries or few keys are what such rows are for; or
 * the longer one, where the row says so. A bound is measured beside the family's other rows: it says nothing of a
 * newer family's, which on an NVIDIA H200 are 1.4 to 2.0 times as fast from 512 on where the older one has such a
 * row. */
static int64_t reach(const struct glint_variant *row, const struct question *q)
{
    const struct glint_problem *p = q->problem;
    const bool both = row->both_up_to > 0;
    const int64_t of_host = both ? longer_of(p) : shorter_of(p), length = p->lengths == GLINT_LENGTHS_HOST ? of_host : p->seqlen_q;
    const int64_t bound = both ? row->both_up_to : row->up_to;
    if (row->cache_from > 0) /* few_queries has put it first where it is meant to be */
        return INT64_C(1) << 33;
    if (bound == 0 || canonical(q))
        return INT64_C(1) << 32;
    return length <= bound ? bound : (INT64_C(1) << 33) - bound;
}

/* A row that the device runs no faster than what a lower instruction set has for it: last of its family. */
static int64_t slow(const struct glint_variant *row, const struct question *q)
{
    const struct glint_backend *backend = glint_family_of(row)->backend;
    return backend->slow && backend->slow(q->context, (uint32_t)(row - glint_variants)) ? 1 : 0;
}

/* Up to FEW queries keys play no part in what follows: a sequence has the same row while its cache grows, and whatever
 * bound its problem has. */
enum { FEW = 8 };

/* The most queries for which a row of decode is taken. On a CPU more than FEW are for caches. The bound was measured
 * with 1,024 keys, beside tiles of the row's own instruction set. Where the host says that keys are fewer than a chunk,
 * it is less in proportion: so no whole prompt is split. Ragged keys are those of prompts. */
static int64_t most_queries(const struct glint_variant *row, const struct question *q)
{
    const struct glint_problem *p = q->problem;
    const int64_t most = (int64_t)row->queries_up_to, chunk = row->tile_n;
    if (row->isa == GLINT_ISA_ANY || most <= FEW || p->seqlen_q <= FEW)
        return most;
    if (row->isa < q->isa || (p->lengths == GLINT_LENGTHS_RAGGED && p->page_rows == 0))
        return FEW;
    return p->lengths == GLINT_LENGTHS_HOST && p->seqlen_k < chunk ? FEW + (most - FEW) * p->seqlen_k / chunk : most;
}

/* A server's step is meant for queries against a cache, from so many rows on and up to so many queries. Where the host
 * gives the lengths, that is at least STEP_KEYS keys and STEP_KEYS_A_QUERY keys for each query, and a sequence changes
 * its row there. Where the call has the lengths, the bound of keys plays no part. A step loses where keys are few, and
 * wins the more the more there are. Its time over the time of the best other row (NVIDIA H200, bf16, 32:8 heads of 128
 * and 64:8 of 64; bench/results/h200_rows_2026-11-24.csv):
 *
 *                  1 x 1,024 keys   1 x 8,192     8 x 8,192     1 x 65,536    64 x 2,048
 *    1 query       2.75, 2.52       2.16, 2.50    1.14, 1.13    1.30, 1.40    1.12, 1.24
 *    3 queries     2.57, 2.15       1.23, 1.07    0.90, 0.52    0.91, 0.53    0.76, 0.49
 *    8 queries     1.51, 1.32       0.64, 0.55    0.57, 0.30    0.46, 0.27    0.48, < 0.33
 *   64 queries     1.54, 1.59       0.45, 0.66    0.85, 1.17    < 0.33, 0.49  0.80, 1.17
 *  256 queries     1.32, 1.32       0.86, 1.09    1.14, 1.16    0.64, 1.04
 * 1024 queries     1.16, 1.35       1.11, 1.39    1.20, 1.30    1.11, 1.48
 *
 * The kernel of 64 has become faster since: 256 queries take 0.92, 0.99 and 0.81
 * (bench/results/sm90a_step_notes.md). */
enum { STEP_KEYS = 2048, STEP_KEYS_A_QUERY = 16 };

/* Rows are (query, query head) pairs of a key head. Decode's time grows with every 8 of them, a step's with every 64.
 * So rows bound from below: a query count would be right for one group alone. More than FEW queries are not decode's.
 * A step's time over decode's with up to 8, 16, 24 and 32 rows, in groups of 1 to 16 (NVIDIA H200, bf16 in pages of 64
 * and int8, head_dim 128; bench/results/h200_steps_rows_2026-11-28.csv):
 *
 *                1 x 8,192 keys          1 x 65,536              8 x 8,192               64 x 2,048
 *    bf16        1.63 1.07 0.77 0.59     1.23 0.82 0.56 0.42     1.06 0.82 0.43 0.43     1.10 0.69 0.46 0.35
 *    int8        3.57 2.48 1.46 1.52     3.00 1.69 1.22 0.97     2.43 1.31 0.92 1.01     3.20 1.78 1.19 0.90 */
static bool is_for_step(const struct glint_variant *row, const struct glint_problem *p)
{
    return (p->seqlen_q > FEW || p->seqlen_q * (p->heads_q / p->heads_kv) >= (int64_t)row->cache_from) &&
           p->seqlen_q <= (int64_t)row->cache_up_to &&
           (p->lengths != GLINT_LENGTHS_HOST || (p->seqlen_k >= STEP_KEYS && p->seqlen_k / STEP_KEYS_A_QUERY >= p->seqlen_q));
}

/* A row split over the keys is taken before one that is not, if queries are as few as it is meant for: up to the last
 * number at which it was not slower on a CPU with 1,024 keys, by instruction set and dtype (`few` in
 * gen/families/cpu.lua), so that time follows the number of queries. Few keys make it slower.
 *
 * Its time over the other row's (Zen 5, one thread, AVX-512, the range over f32 and bf16, head_dim 64 and 128, 8:8 and
 * 8:2 heads; glint_bench --decode --all --mask causal):
 *
 *                  8 keys       16 keys      32 keys      64 keys
 *    2 queries   0.3 to 0.6   0.2 to 0.4   0.2 to 0.3   0.2 to 0.3
 *    4 queries   0.5 to 0.9   0.5 to 0.7   0.4 to 0.5   0.3 to 0.5
 *    6 queries   0.8 to 1.4   0.7 to 1.0   0.6 to 0.8   0.4 to 0.6
 *    8 queries   1.3 to 1.8   0.8 to 1.4   0.8 to 1.1   0.6 to 0.8
 *   12 queries   1.9 to 2.7   1.6 to 2.0   1.2 to 1.4   0.9 to 1.1 */
static int64_t few_queries(const struct glint_variant *row, const struct question *q)
{
    if (row->cache_from > 0 && !canonical(q))
        return is_for_step(row, q->problem) ? 0 : 1;
    if (row->queries_up_to == 0 || canonical(q))
        return 1;
    return q->problem->seqlen_q <= most_queries(row, q) ? 0 : 2;
}

/* On an NVIDIA H200 a newer family's tile, most of whose queries are not there, loses to an older one's:
 * bench/results/sm90a_notes.md. Lengths on the device play no part, as a sequence's row does not depend on the bound
 * of its keys. */
static int64_t too_short(const struct glint_variant *row, const struct question *q)
{
    return q->problem->lengths == GLINT_LENGTHS_HOST && !canonical(q) && longer_of(q->problem) < (int64_t)row->least;
}

/* A row that no machine has timed yet for what the problem needs is taken where no other row does the work. A family
 * says so of its rows (gen/families), until they have been timed. */
static int64_t untimed(const struct glint_variant *row, const struct question *q)
{
    return ((glint_needs_of(q->problem) | GLINT_TAKES_ANYTHING) & row->untimed) != 0;
}

static int64_t family(const struct glint_variant *row, const struct question *q)
{
    (void)q;
    return -(int64_t)glint_family_of(row)->rank;
}

static int64_t isa(const struct glint_variant *row, const struct question *q)
{
    (void)q;
    return -(int64_t)row->isa;
}

static int64_t architecture(const struct glint_variant *row, const struct question *q)
{
    (void)q;
    return -(int64_t)row->sm;
}

static int64_t round_up(int64_t length, int64_t tile)
{
    return (length + tile - 1) / tile * tile;
}

static int64_t padded_work(const struct glint_variant *row, const struct question *q)
{
    const struct glint_problem *p = q->problem;
    if (canonical(q))
        return 0;
    return round_up(p->seqlen_q, row->tile_m) * (p->lengths == GLINT_LENGTHS_HOST ? round_up(p->seqlen_k, row->tile_n) : 1);
}

static int64_t small_tile(const struct glint_variant *row, const struct question *q)
{
    (void)q;
    return -(int64_t)row->tile_m * row->tile_n;
}

/* The lower cost first. `because` completes "taken before ..., ". */
/* clang-format off */
#define RULE(R) \
    R(eligibility, "which does not take these strides") \
    R(math, "for fewer tf32 products") \
    R(few_queries, "which is not split over the keys, or is for other numbers of queries") \
    R(too_short, "which is slower with so few queries and keys (least)") \
    R(untimed, "which was not timed yet for such a problem") \
    R(family, "of an older family") \
    R(reach, "as the spec means rows for lengths (up_to, both_up_to)") \
    R(slow, "of an instruction set that this CPU is not known to run faster") \
    R(isa, "of a lower instruction set") \
    R(architecture, "made for older architectures") \
    R(padded_work, "whose tile computes more beyond the lengths") \
    R(small_tile, "whose tile is smaller and so reads keys and values more often")
/* clang-format on */

enum line {
#define LINE(cost, because) LINE_##cost,
    RULE(LINE)
#undef LINE
        LINES
};

static const char *because_of(int line)
{
    switch (line) {
#define BECAUSE(cost, because) \
    case LINE_##cost: return because;
        RULE(BECAUSE)
#undef BECAUSE
    default: return "which comes later by name";
    }
}

/* The line by which row a is to be taken before row b, which comes earlier by name; LINES if it is not. */
static int before(const struct glint_variant *a, const struct glint_variant *b, const struct question *q)
{
#define COMPARE(cost, because)                                  \
    {                                                           \
        const int64_t cost_a = cost(a, q), cost_b = cost(b, q); \
        if (cost_a != cost_b)                                   \
            return cost_a < cost_b ? LINE_##cost : LINES;       \
    }
    RULE(COMPARE)
#undef COMPARE
    return LINES;
}

/* Why eligibility tells a row from the one taken before it: what the row refuses of several batches and heads. */
static const char *refusal_of(const struct glint_variant *row, const struct question *q)
{
    const uint32_t lacked = lacks(row, q->several);
#define SAY(word, bit, reason, member, what) \
    if ((lacked & (bit)) != 0)               \
        return "which does not take " what;
    GLINT_TAKES(SAY)
#undef SAY
    return because_of(LINE_eligibility);
}

/* For the explanation of a refusal: the row that serves all but the fewest axes, then the one of the nearest
 * head_dim. */
static uint32_t nearest(const struct glint_problem *p, enum glint_pass pass)
{
    const struct glint_key wanted = glint_key_of_problem(p, pass);
    uint32_t found = UINT32_MAX;
    int64_t least = INT64_MAX;
    for (uint32_t i = 0; i < glint_variants_count; i++) {
        const struct glint_variant *v = &glint_variants[i];
        const struct glint_key key = glint_key_of_row(v);
        int64_t distance = v->head_dim > p->head_dim ? v->head_dim - p->head_dim : p->head_dim - v->head_dim;
        for (int i = 0; i < GLINT_AXIS_COUNT; i++) {
            const enum glint_axis axis = (enum glint_axis)i;
            const bool serves = !glint_axis_is_said(axis, &wanted) || glint_axis_serves(axis, v, key.value[i], wanted.value[i]);
            distance += serves ? 0 : INT64_C(1) << 32;
        }
        if (distance < least) {
            least = distance;
            found = i;
        }
    }
    return found;
}

static struct glint_problem of_several(const struct glint_problem *p)
{
    struct glint_problem several = *p;
    several.batch = several.heads_q = several.heads_kv = 2;
    several.pages = p->pages > 0 ? 2 : 0;
    return several;
}

/* The first row from `row` on that has the key; `end` or beyond if there is none before it. Rows with another pass,
 * dtype or head_dim are passed by as many as there are. It has one place, so that the test is inlined though the file
 * is compiled for size. */
static uint32_t next_with_key(const struct glint_key *key, uint32_t row, uint32_t end)
{
    while (row < end) {
        const struct glint_variant *v = &glint_variants[row];
        const bool other = v->head_dim != key->value[GLINT_AXIS_head_dim] || v->dtype != key->value[GLINT_AXIS_dtype] ||
                           v->pass != key->value[GLINT_AXIS_pass];
        if (!other && glint_has_key(v, key))
            break;
        row += other ? v->alike + 1u : 1u;
    }
    return row;
}

/* The candidate that the rule puts first, `except` left out; UINT32_MAX if there is none. *count, if given: how many
 * take the problem. */
static uint32_t first_of(const struct question *q, enum glint_pass pass, uint32_t only, uint32_t except, bool *exists,
                         uint32_t *count)
{
    const struct glint_key key = glint_key_of_problem(q->problem, pass);
    uint32_t first = UINT32_MAX;
    for (uint32_t i = 0; (i = next_with_key(&key, i, glint_variants_count)) < glint_variants_count; i++) {
        const struct glint_variant *v = &glint_variants[i];
        if (only != UINT32_MAX && i != only)
            continue;
        *exists = true;
        if (i == except || glint_variant_available(q->context, i) != GLINT_OK)
            continue;
        *count += eligibility(v, q) < REFUSES;
        if (first == UINT32_MAX || before(v, &glint_variants[first], q) < LINES)
            first = i;
    }
    return first;
}

/* Finds the highest instruction set. Only problems of more than FEW queries ask for it, and take a second pass over the
 * table. */
static void find_isa(struct question *q, enum glint_pass pass)
{
    const struct glint_key key = glint_key_of_problem(q->problem, pass);
    if (q->problem->seqlen_q <= FEW)
        return;
    for (uint32_t i = 0; (i = next_with_key(&key, i, glint_variants_count)) < glint_variants_count; i++) {
        const struct glint_variant *v = &glint_variants[i];
        if (v->isa > q->isa && glint_variant_available(q->context, i) == GLINT_OK && slow(v, q) == 0)
            q->isa = v->isa;
    }
}

enum glint_status glint_choose_row(const struct glint_context *context, const struct glint_problem *problem, enum glint_pass pass,
                                   uint32_t only, uint32_t *row, struct glint_fault *fault)
{
    const struct glint_problem several = of_several(problem);
    struct question q = {context, problem, &several, GLINT_ISA_ANY};
    bool exists = false;
    uint32_t fitting = 0;
    find_isa(&q, pass);
    *row = first_of(&q, pass, only, UINT32_MAX, &exists, &fitting);
    if (*row == UINT32_MAX) {
        const enum glint_reason reason = exists ? GLINT_REASON_NOT_ON_DEVICE : GLINT_REASON_NOT_IN_SPEC;
        const enum glint_status refusal = glint_refuse(fault, reason, "head_dim", NULL, problem->head_dim, 0);
        fault->variant = nearest(problem, pass);
        return refusal;
    }
    const struct glint_variant *v = &glint_variants[*row];
    const enum glint_status status = takes(v, problem, context, fault);
    fault->variant = *row;
    return status;
}

bool glint_is_candidate(const struct glint_context *context, const struct glint_key *key, uint32_t row)
{
    return next_with_key(key, row, row + 1) == row && glint_variant_available(context, row) == GLINT_OK;
}

struct glint_choice glint_choice_of(const struct glint_plan *plan)
{
    const struct glint_problem several = of_several(&plan->problem);
    struct question q = {plan->context, &plan->problem, &several, GLINT_ISA_ANY};
    const enum glint_pass pass = (enum glint_pass)plan->pass;
    find_isa(&q, pass);
    struct glint_choice choice = {.candidates = 1};
    bool exists = false;
    choice.second = first_of(&q, pass, UINT32_MAX, plan->variant, &exists, &choice.candidates);
    if (choice.second != UINT32_MAX) {
        const int line = before(&glint_variants[plan->variant], &glint_variants[choice.second], &q);
        choice.because = line == LINE_eligibility ? refusal_of(&glint_variants[choice.second], &q) : because_of(line);
    }
    return choice;
}
