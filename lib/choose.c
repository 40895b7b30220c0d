/* Which row of the table computes a problem: the one rule of choice. glint_plan applies it, glint_explain says what it
 * decided by.
 *
 * Candidates are the rows with the problem's pass, dtype, head_dim and mask that the context's device runs. A row is
 * taken before another by the first line of `rule` that tells them apart, and by name if none does. So a row must take
 * the problem before anything else counts, what a product is worth is the table's doing and not that of lengths, and
 * what was measured goes before what is newer.
 *
 * Batch and heads play no part, so a sequence's result does not depend on what it is batched with:
 *
 *   the strides           are asked about as if there were several batches and heads. Where no row takes them so, they
 *                         are asked about as they are, and of the rows that take them the one with the smallest
 *                         alignment goes first: if any row takes the same strides of several batches, that one does
 *   the bound of keys     counts where the host gives the lengths. Where the call has them, only the bound of queries
 *                         tells rows apart */
#include "lib/axes.h"
#include "lib/backend.h"
#include "lib/check.h"
#include "lib/takes.h"

/* What is asked, and of which row. */
struct question {
    const struct glint_context *context;
    const struct glint_problem *problem;
    const struct glint_problem *several; /* the same with several batches and heads */
};

typedef int64_t cost_fn(const struct glint_variant *row, const struct question *q);

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
    return row->family->fits(row, problem, context, fault);
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
    if (bound == 0)
        return INT64_C(1) << 32;
    return length <= bound ? bound : (INT64_C(1) << 33) - bound;
}

/* A row split over the keys is taken before one that is not, if queries are as few as it is meant for. Keys play no
 * part: a sequence has the same row while its cache grows, and whatever bound its problem has. Few keys make it slower.
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
    if (row->queries_up_to == 0)
        return 1;
    return q->problem->seqlen_q <= (int64_t)row->queries_up_to ? 0 : 2;
}

/* On an NVIDIA H200 a newer family's tile, most of whose queries are not there, loses to an older one's:
 * bench/results/sm90a_notes.md. Lengths on the device play no part, as a sequence's row does not depend on the bound
 * of its keys. */
static int64_t too_short(const struct glint_variant *row, const struct question *q)
{
    return q->problem->lengths == GLINT_LENGTHS_HOST && longer_of(q->problem) < (int64_t)row->least;
}

static int64_t family(const struct glint_variant *row, const struct question *q)
{
    (void)q;
    return -(int64_t)row->family->rank;
}

/* A row that the device runs no faster than what a lower instruction set has for it: last of its family. */
static int64_t slow(const struct glint_variant *row, const struct question *q)
{
    const struct glint_backend *backend = row->family->backend;
    return backend->slow && backend->slow(q->context, (uint32_t)(row - glint_variants)) ? 1 : 0;
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
    return round_up(p->seqlen_q, row->tile_m) * (p->lengths == GLINT_LENGTHS_HOST ? round_up(p->seqlen_k, row->tile_n) : 1);
}

static int64_t small_tile(const struct glint_variant *row, const struct question *q)
{
    (void)q;
    return -(int64_t)row->tile_m * row->tile_n;
}

/* The lower cost first. `because` completes "taken before ..., ". */
static const struct {
    cost_fn *cost;
    const char *because;
} rule[] = {
    {eligibility, "which does not take these strides"},
    {math, "for fewer tf32 products"},
    {few_queries, "which is not split over the keys, or is and wants fewer queries"},
    {too_short, "which is slower with so few queries and keys (least)"},
    {family, "of an older family"},
    {reach, "as the spec means rows for lengths (up_to, both_up_to)"},
    {slow, "of an instruction set that this CPU is not known to run faster"},
    {isa, "of a lower instruction set"},
    {architecture, "made for older architectures"},
    {padded_work, "whose tile computes more beyond the lengths"},
    {small_tile, "whose tile is smaller and so reads keys and values more often"},
};
enum { LINES = sizeof rule / sizeof rule[0] };

/* The line by which row a is to be taken before row b, which comes earlier by name; LINES if it is not. */
static int before(const struct glint_variant *a, const struct glint_variant *b, const struct question *q)
{
    for (int i = 0; i < LINES; i++) {
        const int64_t cost_a = rule[i].cost(a, q), cost_b = rule[i].cost(b, q);
        if (cost_a != cost_b)
            return cost_a < cost_b ? i : LINES;
    }
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
    return rule[0].because;
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
        for (int axis = 0; axis < GLINT_AXIS_COUNT; axis++)
            distance += glint_axis_serves((enum glint_axis)axis, v, key.value[axis], wanted.value[axis]) ? 0 : INT64_C(1) << 32;
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

/* The candidate that the rule puts first, `except` left out; UINT32_MAX if there is none. *count, if given: how many
 * take the problem. */
static uint32_t first_of(const struct question *q, enum glint_pass pass, uint32_t only, uint32_t except, bool *exists,
                         uint32_t *count)
{
    const struct glint_key key = glint_key_of_problem(q->problem, pass);
    uint32_t first = UINT32_MAX;
    for (uint32_t i = 0; i < glint_variants_count; i++) {
        const struct glint_variant *v = &glint_variants[i];
        if (!glint_has_key(v, &key) || (only != UINT32_MAX && i != only))
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

enum glint_status glint_choose_row(const struct glint_context *context, const struct glint_problem *problem, enum glint_pass pass,
                                   uint32_t only, uint32_t *row, struct glint_fault *fault)
{
    const struct glint_problem several = of_several(problem);
    const struct question q = {context, problem, &several};
    bool exists = false;
    uint32_t fitting = 0;
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
    return glint_has_key(&glint_variants[row], key) && glint_variant_available(context, row) == GLINT_OK;
}

struct glint_choice glint_choice_of(const struct glint_plan *plan)
{
    const struct glint_problem several = of_several(&plan->problem);
    const struct question q = {plan->context, &plan->problem, &several};
    const enum glint_pass pass = (enum glint_pass)plan->pass;
    struct glint_choice choice = {.candidates = 1};
    bool exists = false;
    choice.second = first_of(&q, pass, UINT32_MAX, plan->variant, &exists, &choice.candidates);
    if (choice.second != UINT32_MAX) {
        const int line = before(&glint_variants[plan->variant], &glint_variants[choice.second], &q);
        choice.because = line == LINES ? "which comes later by name"
                         : line == 0   ? refusal_of(&glint_variants[choice.second], &q)
                                       : rule[line].because;
    }
    return choice;
}
