/* What matters in one place alone: a special value in one part of a tile and nowhere else, everything but what one
 * query or key looks at, and rows whose scores grow while those of all others stay. Elsewhere each of these has
 * neighbours, which hide it where a kernel leaves a part of a tile out. Of sequences whose lengths a kernel reads:
 * each_end of ragged.c and intervals.c. */
#include <math.h>
#include <string.h>

#include "tests/checks/accuracy.h"
#include "tests/checks/contained.h"
#include "tests/oracle/half.h"

static enum glint_pass pass_of(const struct subject *subject)
{
    return (enum glint_pass)subject->info.pass;
}

/* Puts a special value into the last row of the first head, at the end of one half of it, and into one of the last rows
 * of each other head: of causal masks all queries but the last, or all keys but the first, are hidden from the last
 * row. */
static void put_one(struct experiment *e, enum tensor t, int64_t turn)
{
    static const float special[] = {NAN, INFINITY, -INFINITY};
    const int64_t rows = tensor_rows(e, t), dim = tensor_dim(e, t);
    const bool forward = pass_of(e->subject) == GLINT_FORWARD;
    for (int64_t h = 0; h < tensor_heads(e, t); h++) {
        const int64_t row = h == 0 ? rows - 1 : rows - 1 - (turn + 3 * h) % 7;
        const int64_t at = h == 0 ? (turn % 2 != 0 ? dim : dim / 2) - 1 : (5 * turn + h * (dim / 2 + 3)) % dim;
        tensor_row(e, e->in[t], t, 0, h, row)[at] = forward ? special[turn % 3] : NAN;
    }
}

/* shape->detail is the tensor, of which there are more and more rows. Tensors of the same side have a head each in the
 * backward pass. */
static void in_each_part(struct subject *subject, const struct shape *shape)
{
    const enum tensor t = (enum tensor)shape->detail;
    const bool of_keys = t == K || t == V, backward = pass_of(subject) == GLINT_BACKWARD;
    const int64_t tile = (int64_t)(of_keys ? subject->info.tile_n : subject->info.tile_m);
    for (int64_t turn = 0; 16 * turn < tile; turn++) {
        struct shape s = *shape;
        *(of_keys ? &s.seqlen_k : &s.seqlen_q) = 16 * turn + 16;
        struct experiment *const clean = experiment_new(subject, &s), *poisoned;
        experiment_reference(clean, backward);
        const struct results before = experiment_run_plainly(clean);
        poisoned = experiment_copy(clean);
        put_one(poisoned, t, turn);
        expect_contained(clean, &before, poisoned, false);
    }
}

/* Are all the keys that a query sees among those of another one? With `turned` the queries that see a key. */
static bool looks_at_no_more(const struct experiment *e, int64_t one, int64_t other, bool turned)
{
    for (int64_t i = 0; i < (turned ? e->shape.seqlen_q : e->shape.seqlen_k); i++)
        if (turned ? ref_sees(&e->ref, i, one) && !ref_sees(&e->ref, i, other)
                   : ref_sees(&e->ref, one, i) && !ref_sees(&e->ref, other, i))
            return false;
    return true;
}

/* Of each head all keys are special that one of its queries does not see, or all queries that do not see one of its
 * keys: another one in each head, from the first to the last. Rows that look at none of them have the bits that they
 * have without. */
static void all_but_what_one_sees(struct subject *subject, const struct shape *shape)
{
    static const float special[] = {NAN, INFINITY, -INFINITY};
    static const enum tensor sides[2][4] = {{K, V, O, LSE}, {Q, DOUT, DK, DV}};
    struct experiment *const clean = experiment_new(subject, shape);
    const bool backward = pass_of(subject) == GLINT_BACKWARD;
    experiment_reference(clean, false);
    const struct results before = experiment_run_plainly(clean);
    for (int turned = 0; turned < (backward ? 2 : 1); turned++) {
        struct experiment *const poisoned = experiment_copy(clean);
        const int64_t heads = shape->heads_kv, group = shape->heads_q / heads;
        const int64_t own = turned ? shape->seqlen_k : shape->seqlen_q, others = turned ? shape->seqlen_q : shape->seqlen_k;
        for (int i = 0; i < 2; i++)
            for (int64_t h = 0; h < (turned ? shape->heads_q : heads); h++)
                for (int64_t other = 0; other < others; other++) {
                    const int64_t one = (turned ? h / group : h) * (own - 1) / (heads - 1);
                    float *const row = tensor_row(poisoned, poisoned->in[sides[turned][i]], sides[turned][i], 0, h, other);
                    for (int64_t d = 0; d < tensor_dim(clean, sides[turned][i]); d++)
                        if (turned ? !ref_sees(&clean->ref, other, one) : !ref_sees(&clean->ref, one, other))
                            row[d] = special[(h + i + d) % 3];
                }
        const struct results after = experiment_run_plainly(poisoned);
        for (int i = 2; i < (backward && !turned ? 3 : 4); i++) {
            const enum tensor t = backward && !turned ? DQ : sides[turned][i];
            for (int64_t h = 0; h < tensor_heads(clean, t); h++)
                for (int64_t row = 0; row < own; row++) {
                    const int64_t dim = tensor_dim(clean, t), at = (h * own + row) * dim;
                    const int64_t one = (turned ? h : h / group) * (own - 1) / (heads - 1);
                    if (!looks_at_no_more(clean, row, one, turned))
                        continue;
                    for (int64_t d = 0; d < dim; d++)
                        if (!check_within("contained",
                                          memcmp(&after.at[t][at + d], &before.at[t][at + d], sizeof(float)) == 0 ? 0 : 1, 0))
                            check_fail(
                                "where all is special that row %lld does not look at, %s[head %lld, row %lld, %lld] is %.9g, "
                                "without %.9g",
                                (long long)one, tensor_name[t], (long long)h, (long long)row, (long long)d,
                                (double)after.at[t][at + d], (double)before.at[t][at + d]);
                }
        }
    }
}

/* Of each head the scores of each fourth group of eight rows, or of one row of these, are 120 larger in the second tile
 * of keys than in all others, and those of other rows are not: what is not made relative to the new maximum is no
 * number. The tile has others on both sides, as some kernels begin with the last one; with detail 2 it is the last one,
 * which causal masks cut. */
static void rows_grow_alone(struct subject *subject, const struct shape *shape)
{
    struct experiment *const e = experiment_new(subject, shape);
    const int64_t dim = e->ref.head_dim, n = (int64_t)subject->info.tile_n, keys = shape->seqlen_k, queries = shape->seqlen_q;
    const int64_t tile = shape->detail == 2 ? (keys - 1) / n : 1;
    for (int64_t row = 0; row < tensor_count(e, Q) / dim; row++) {
        const int64_t h = row / queries % shape->heads_q, i = row % queries;
        e->in[Q][row * dim] = i / 8 % 4 == h && (shape->detail != 1 || i % 8 == 3 * h % 8) ? 16 : 0;
    }
    for (int64_t row = 0; row < tensor_count(e, K) / dim; row++)
        e->in[K][row * dim] = dtype_round(e->dtype, row % keys / n == tile ? 120 / (16 * e->ref.softmax_scale) : 0);
    experiment_reference(e, false);
    const struct results got = experiment_run_plainly(e);
    expect_accurate(e, GLINT_FORWARD, &got);
}

void alone_checks(struct check_list *list, const struct subject *subject)
{
    const int64_t m = (int64_t)subject->info.tile_m, n = (int64_t)subject->info.tile_n;
    const bool forward = pass_of(subject) == GLINT_FORWARD, right = (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0;
    const bool left = (subject->info.features & GLINT_FEATURE_LEFT_BOUND) != 0;
    struct shape s = {.batch = 1, .heads_q = forward ? 4 : 2, .heads_kv = 2, .seqlen_q = 8, .seqlen_k = 8};
    if (subject->info.sm == 0) /* a CPU's rows have no tiles that threads share out */
        return;
    s.mask = right ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
    for (enum tensor t = forward ? V : Q; t <= (forward ? V : DOUT); t++) {
        s.detail = t;
        if (t != O && t != LSE)
            checks_add(list, in_each_part, &s, "special/in_each_part_of_%s", tensor_name[t]);
    }
    struct shape group = s; /* of so many heads that a step's rows cannot share them out evenly */
    group.heads_kv = 1;
    group.detail = V;
    for (group.heads_q = 5; group.heads_q <= 14 && subject_is_step(subject); group.heads_q += 9)
        checks_add(list, in_each_part, &group, "special/in_each_part_of_V_of_%d_heads", (int)group.heads_q);
    struct shape one = s;
    one.heads_q = one.heads_kv = 6;
    one.seqlen_q = m < 64 ? m + 5 : 64 + 5;
    one.seqlen_k = n + 20;
    for (int band = 0; band < (left ? 2 : 1) && right; band++) {
        one.mask = band ? GLINT_MASK_BAND_BOTTOM_RIGHT : s.mask;
        one.window_left = band ? n / 2 : 0;
        one.window_right = band ? 2 : 0;
        checks_add(list, all_but_what_one_sees, &one, "special/all_but_what_one_sees%s", band ? "_of_a_window" : "");
    }
    one.mask = GLINT_MASK_NONE;
    one.window_left = one.window_right = 0;
    one.intervals = subject_intervals(subject) ? OWN_INTERVALS : NO_INTERVALS;
    one.tree = subject_tree(subject) ? ANY_TREE : NO_TREE;
    if (one.intervals != NO_INTERVALS || one.tree != NO_TREE)
        checks_add(list, all_but_what_one_sees, &one, "special/all_but_what_one_sees_of_its_own");
    struct shape grow = s;
    grow.data = DATA_RISING;
    grow.heads_q = grow.heads_kv = m < 32 ? (m + 7) / 8 : 4;
    grow.seqlen_q = m;
    grow.seqlen_k = 3 * n + m;
    static const char *const grown[] = {"eight_rows_grow_alone", "rows_grow_alone", "eight_rows_grow_alone_last"};
    for (grow.detail = 0; grow.detail < 3 && forward; grow.detail++)
        checks_add(list, rows_grow_alone, &grow, "accuracy/%s", grown[grow.detail]);
}
