/* The largest logit of each head: that of attention in double, the same bits on any lanes, and beside O and LSE that
 * have the bits which they have without it. tests/checks/intervals.c has it where sequences differ. */
#include <math.h>
#include <string.h>

#include "tests/checks/accuracy.h"

static void expect_bits(const float *got, const float *want, int64_t count, const char *what)
{
    for (int64_t i = 0; i < count; i++)
        if (!check_within("bitwise", memcmp(&got[i], &want[i], sizeof *got) == 0 ? 0 : 1, 0))
            check_fail("%s[%lld] is %.9g, and was %.9g", what, (long long)i, (double)got[i], (double)want[i]);
}

static void logit(struct subject *subject, const struct shape *shape)
{
    struct experiment *const e = experiment_new(subject, shape), *const plain = experiment_copy(e);
    experiment_reference(e, false);
    const struct results got = experiment_run_plainly(e);
    expect_accurate(e, GLINT_FORWARD, &got);
    for (enum lanes lanes = LANES_REVERSED_2; lanes < LANES_KINDS; lanes++) {
        const struct results other = experiment_run(e, GLINT_FORWARD, (struct how){lanes, POISON_SIGNALLING_NAN, FENCE_NONE});
        expect_bits(other.max_logit, got.max_logit, shape->heads_q, "the largest logit");
    }
    plain->problem.max_logit = 0;
    const struct results without = experiment_run_plainly(plain);
    expect_bits(got.at[O], without.at[O], tensor_count(e, O), "O");
    expect_bits(got.at[LSE], without.at[LSE], tensor_count(e, LSE), "LSE");
}

/* Scores of NaN do not count. */
static void special(struct subject *subject, const struct shape *shape)
{
    struct experiment *const e = experiment_new(subject, shape);
    experiment_reference(e, false);
    const struct results plain = experiment_run_plainly(e);
    const int64_t dim = e->ref.head_dim;
    for (int64_t d = 0; d < dim; d++) /* of head 0, query 1 */
        e->in[Q][dim + d] = NAN;
    const struct results got = experiment_run_plainly(e);
    for (int64_t h = 0; h < shape->heads_q; h++)
        if (!check_within("largest logit",
                          h == 0 ? got.max_logit[h] <= plain.max_logit[h] && got.max_logit[h] > -INFINITY ? 0 : 1
                          : got.max_logit[h] == plain.max_logit[h] ? 0
                                                                   : 1,
                          0))
            check_fail("beside a query of NaN the largest logit of head %lld is %.9g, and was %.9g", (long long)h,
                       (double)got.max_logit[h], (double)plain.max_logit[h]);
}

void logit_checks(struct check_list *list, struct subject *subject)
{
    const int64_t m = (int64_t)subject->info.tile_m, n = (int64_t)subject->info.tile_n;
    const bool decode = subject->info.queries_up_to > 0, capped = subject_caps(subject);
    const bool left = (subject->info.features & GLINT_FEATURE_LEFT_BOUND) != 0;
    const bool right = (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0;
    if (!subject_takes_logit(subject))
        return;
    const struct {
        const char *name;
        int64_t batch, heads_q, heads_kv, seqlen_q, seqlen_k;
        bool sinks, window, top_left, zero_scale;
        float softcap, softmax_scale;
        enum data data;
        enum layout layout;
    } shapes[] = {
        {"normal", 2, 4, 2, decode ? 5 : m + 5, n + 9, false, false, false, false, 0, 0, DATA_NORMAL, LAYOUT_MIXED},
        {"low", 1, 6, 2, decode ? 7 : 2 * m + 3, 2 * n + 4, false, true, true, false, 0, 0, DATA_LOW, LAYOUT_BSHD},
        {"rising", 2, 3, 3, 9, 3 * n + 1, true, true, false, false, 0, 0, DATA_RISING, LAYOUT_BHSD},
        {"falling", 1, 4, 1, 1, 2 * n + 7, false, false, false, false, 0, 0, DATA_FALLING, LAYOUT_BSHD},
        {"capped", 2, 4, 2, decode ? 11 : m + 3, n + 30, true, false, false, false, 2, -0.3f, DATA_NORMAL, LAYOUT_PADDED},
        {"zero", 1, 2, 1, 3, n + 1, false, false, false, true, 0, 0, DATA_NORMAL, LAYOUT_BSHD},
        {"blind", 1, 2, 2, decode ? 40 : m + 40, 23, true, false, false, false, 3, 0, DATA_NORMAL, LAYOUT_BHSD},
        /* the numbers of a lane's heads end where its scratch does */
        {"heads", 1, 16, 4, 3, n + 2, false, false, false, false, 0, 0, DATA_NORMAL, LAYOUT_BSHD},
        {"none", 2, 2, 2, 5, 0, true, false, false, false, 3, 0, DATA_NORMAL, LAYOUT_BHSD},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct shape s = {.batch = shapes[i].batch,
                          .heads_q = shapes[i].heads_q,
                          .heads_kv = shapes[i].heads_kv,
                          .seqlen_q = shapes[i].seqlen_q,
                          .seqlen_k = shapes[i].seqlen_k,
                          .sinks = shapes[i].sinks,
                          .zero_scale = shapes[i].zero_scale,
                          .softcap = capped ? shapes[i].softcap : 0,
                          .softmax_scale = shapes[i].softmax_scale,
                          .data = shapes[i].data,
                          .layout = shapes[i].layout,
                          .alibi = subject_alibi(subject) && i % 2 == 0 ? SLOPES : NO_ALIBI,
                          .max_logit = true};
        s.mask = !right ? GLINT_MASK_NONE : shapes[i].top_left ? GLINT_MASK_CAUSAL_TOP_LEFT : GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
        if (left && shapes[i].window) {
            s.mask = shapes[i].top_left ? GLINT_MASK_BAND_TOP_LEFT : GLINT_MASK_BAND_BOTTOM_RIGHT;
            s.window_left = n / 2 + 3;
            s.window_right = 4;
        }
        checks_add(list, logit, &s, "logit/%s", shapes[i].name);
    }
    struct shape s = {.batch = 1, .heads_q = 4, .heads_kv = 2, .seqlen_q = 6, .seqlen_k = n + 5, .max_logit = true};
    s.mask = right ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
    checks_add(list, special, &s, "logit/special");
}
