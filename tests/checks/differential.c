/* Random shapes over all variants that this machine runs, against the fp64 reference by the yardstick of plain
 * attention: lengths, heads, masks, layouts, data, executors and workspace contents drawn by seed. Shape number n
 * always is the same shape; the variant it runs on is number n modulo the variants at hand. A variant has so many
 * shapes at most, as a library of few variants is built where everything is slow. Bazel splits the numbers over shards.
 *
 * differential [--case=differential/NUMBER] [--list] [--margins] */
#include <stdio.h>
#include <stdlib.h>

#include "tests/checks/accuracy.h"
#include "tests/checks/runner.h"
#include "tests/support/rand.h"

enum { SHAPES = 2400, SHAPES_OF_A_VARIANT = 32, MAX_PRODUCTS = 1500000 };

/* Makes of a row the row with these features, with the same tile on the same instruction set. False: there is none. */
static bool row_with(struct subject *row, uint32_t features)
{
    const struct glint_variant_info own = row->info;
    for (row->variant = 0; row->variant < row->backend->variant_count(); row->variant++) {
        const struct glint_variant_info *i = &row->info;
        row->info = (struct glint_variant_info)GLINT_VARIANT_INFO_INIT;
        if (row->backend->variant_at(row->variant, &row->info) == GLINT_OK && i->pass == own.pass && i->dtype == own.dtype &&
            i->kv_dtype == own.kv_dtype && i->head_dim == own.head_dim && i->isa == own.isa && i->sm == own.sm &&
            i->tile_m == own.tile_m && i->tile_n == own.tile_n && i->queries_up_to == own.queries_up_to && i->features == features)
            return true;
    }
    return false;
}

/* The row that computes the mask of an experiment without intervals, beside one that reads them. A causal mask is a
 * band to the checks of the latter. */
static bool row_of_mask(struct experiment *e, struct subject *row)
{
    struct glint_problem *p = &e->problem;
    const struct shape *s = &e->shape;
    const bool band = s->mask == GLINT_MASK_BAND_TOP_LEFT || s->mask == GLINT_MASK_BAND_BOTTOM_RIGHT;
    p->intervals = p->tree = 0;
    p->mask = s->mask;
    p->window_left = s->window_left;
    p->window_right = s->window_right;
    p->diagonal = s->diagonal;
    if (band && s->window_left == GLINT_MAX_EXTENT)
        p->window_left = GLINT_UNBOUNDED;
    const bool left = band && p->window_left != GLINT_UNBOUNDED;
    const bool right = s->mask != GLINT_MASK_NONE && (!band || s->window_right != GLINT_UNBOUNDED);
    const uint32_t sides = left ? GLINT_FEATURE_LEFT_BOUND | GLINT_FEATURE_RIGHT_BOUND : right ? GLINT_FEATURE_RIGHT_BOUND : 0;
    return row_with(row, sides | (row->info.features & (GLINT_FEATURE_SOFTCAP | GLINT_FEATURE_ALIBI | GLINT_FEATURE_BIAS)));
}

/* The row that reads the intervals of an experiment without its tree, which hides nothing. */
static bool row_of_intervals(struct experiment *e, struct subject *row)
{
    e->problem.tree = 0;
    return row_with(row, row->info.features & ~(uint32_t)GLINT_FEATURE_TREE);
}

/* The row without ALiBi or a bias. */
static bool row_of_none(struct experiment *e, struct subject *row)
{
    e->problem.alibi = e->problem.bias_dtype = e->problem.dbias = 0;
    e->slopes = e->bias = NULL;
    return row_with(row, row->info.features & ~(uint32_t)(GLINT_FEATURE_ALIBI | GLINT_FEATURE_BIAS));
}

/* Intervals that say what a mask says have its bits, slopes of 0 those of no ALiBi, and zeros those of no bias:
 * `other` is what has them. */
static void expect_bits_of(bool (*other)(struct experiment *, struct subject *), const struct experiment *e, enum glint_pass pass,
                           struct how how, const struct results *got)
{
    struct subject row = *e->subject;
    struct experiment *plain = experiment_copy(e);
    if (!other(plain, &row))
        return;
    plain->subject = &row;
    const struct results of_mask = experiment_run(plain, pass, how);
    for (const enum tensor *t = pass_outputs(pass); *t != TENSORS; t++)
        expect_same(e, *t, got->at[*t], of_mask.at[*t], false, row.info.name);
    for (int64_t h = 0; h < e->shape.heads_q && got->dsinks != NULL; h++)
        if (!check_within("bitwise", got->dsinks[h] == of_mask.dsinks[h] ? 0 : 1, 0))
            check_fail("the gradient of the sink of head %lld is %.9g, and of %s %.9g", (long long)h, (double)got->dsinks[h],
                       row.info.name, (double)of_mask.dsinks[h]);
}

static void differential(struct subject *subject, const struct shape *shape)
{
    const enum glint_pass pass = (enum glint_pass)subject->info.pass;
    struct rand r = rand_stream(shape->seed, 300);
    const struct how how = {.lanes = (enum lanes)rand_below(&r, LANES_KINDS),
                            .poison = rand_below(&r, 2) == 0 ? POISON_AA : POISON_SIGNALLING_NAN};
    struct experiment *e = experiment_new(subject, shape);
    experiment_reference(e, pass == GLINT_BACKWARD);
    struct results got = experiment_run(e, pass, how);
    expect_accurate(e, pass, &got);
    if (shape->intervals == MASK_AS_INTERVALS && shape->alibi != SLOPES) /* whose distances are the mask's */
        expect_bits_of(row_of_mask, e, pass, how, &got);
    if (shape->tree == WIDE_TREE)
        expect_bits_of(row_of_intervals, e, pass, how, &got);
    if ((shape->alibi == ZERO_SLOPES || shape->bias == ZERO_BIAS) && shape->softcap == 0)
        expect_bits_of(row_of_none, e, pass, how, &got);
}

/* Few, middling, around a tile's edge, or long. */
static int64_t draw_length(struct rand *r, int64_t tile)
{
    switch (rand_below(r, 4)) {
    case 0: return rand_below(r, 6);
    case 1: return 1 + rand_below(r, 48);
    case 2: return (1 + rand_below(r, 3)) * tile - 1 + rand_below(r, 3);
    default: return 1 + rand_below(r, 300);
    }
}

static struct shape draw_shape(const struct subject *subject, uint64_t number)
{
    struct rand r = rand_stream(number, 400), later = rand_stream(number, 401); /* of what was added later */
    static const enum data data[] = {DATA_NORMAL,  DATA_NORMAL, DATA_NORMAL,  DATA_LOW,           DATA_HIGH,
                                     DATA_ONE_HOT, DATA_RISING, DATA_FALLING, DATA_BELOW_SENTINEL};
    const int64_t heads_kv = 1 + rand_below(&r, 3);
    struct shape s = {
        .batch = 1 + rand_below(&r, 3),
        .heads_kv = heads_kv,
        .heads_q = heads_kv * (1 + rand_below(&r, 4)),
        .seqlen_q = draw_length(&r, (int64_t)subject->info.tile_m),
        .seqlen_k = draw_length(&r, (int64_t)subject->info.tile_n),
        .layout = (enum layout)rand_below(&r, LAYOUTS),
        .data = data[rand_below(&r, (int64_t)(sizeof data / sizeof data[0]))],
        .seed = 1000000 + number,
    };
    const bool top_left = rand_below(&r, 2) == 0;
    const bool serves_all = (subject->info.queries_up_to > 0 || subject_intervals(subject)) && rand_below(&r, 3) == 0;
    s.mask = serves_all || (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) == 0 ? GLINT_MASK_NONE
             : top_left                                                              ? GLINT_MASK_CAUSAL_TOP_LEFT
                                                                                     : GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
    if ((subject->info.features & GLINT_FEATURE_LEFT_BOUND) != 0 && rand_below(&r, 4) > 0) {
        s.mask = top_left ? GLINT_MASK_BAND_TOP_LEFT : GLINT_MASK_BAND_BOTTOM_RIGHT;
        s.window_left = draw_length(&r, (int64_t)subject->info.tile_n);
        s.window_right = rand_below(&r, 4) == 0   ? GLINT_UNBOUNDED
                         : rand_below(&r, 3) == 0 ? 0
                                                  : draw_length(&r, (int64_t)subject->info.tile_n);
    }
    if (s.data == DATA_NORMAL && rand_below(&r, 3) == 0)
        s.softmax_scale = (float)(0.3 * (rand_uniform(&r) - 0.25));
    if (subject_checks_sinks(subject))
        s.sinks = rand_below(&r, 3) == 0;
    if (subject_caps(subject) && s.data == DATA_NORMAL && rand_below(&r, 2) == 0)
        s.softcap = (float)(1 + 20 * rand_uniform(&r));
    if (s.mask != GLINT_MASK_NONE && rand_below(&later, 3) == 0)
        s.diagonal = (rand_below(&later, 2) == 0 ? -1 : 1) * draw_length(&later, (int64_t)subject->info.tile_n);
    if (subject_intervals(subject) && rand_below(&later, 2) == 0) {
        s.intervals = OWN_INTERVALS;
        s.pattern = rand_below(&later, PATTERNS);
    }
    if (subject_tree(subject) && rand_below(&later, 2) == 0)
        s.tree = rand_below(&later, 2) == 0 ? OWN_TREE : ANY_TREE;
    s.dlse = subject->info.pass == GLINT_BACKWARD && rand_below(&later, 3) == 0;
    if (subject_alibi(subject) && s.data != DATA_BELOW_SENTINEL && rand_below(&later, 3) > 0)
        s.alibi = SLOPES;
    if (subject_bias(subject) && s.data != DATA_BELOW_SENTINEL) {
        s.bias = rand_below(&later, 3) > 0 ? BIAS : ZERO_BIAS;
        s.bias_shared = (unsigned)rand_below(&later, 16);
        s.bias_narrow = rand_below(&later, 2) != 0;
        s.bias_turned = rand_below(&later, 2) != 0;
        s.dbias = subject->info.pass == GLINT_BACKWARD && rand_below(&later, 4) > 0;
    }
    if (s.layout == LAYOUT_FUSED)
        s.seqlen_k = s.seqlen_q;
    if (s.layout == LAYOUT_ONE_ROW && s.data == DATA_BELOW_SENTINEL)
        s.data = DATA_NORMAL; /* many queries that agree: their dK overflows float16 */
    while (s.batch * s.heads_q * s.seqlen_q * s.seqlen_k * (int64_t)subject->info.head_dim > MAX_PRODUCTS) {
        if (s.heads_q > s.heads_kv)
            s.heads_q -= s.heads_kv;
        else if (s.batch > 1)
            s.batch--;
        else if (s.heads_kv > 1)
            s.heads_q = --s.heads_kv;
        else if (s.seqlen_q > 1 && s.layout != LAYOUT_FUSED)
            s.seqlen_q = s.seqlen_q * 3 / 4;
        else
            s.seqlen_q = s.seqlen_k = s.seqlen_k * 3 / 4;
    }
    return s;
}

/* Subjects of the variants that this machine runs. */
static struct subject *open_all(const struct backend *backend, uint32_t *count)
{
    struct glint_context *context;
    if (backend->open(NULL, &context) != GLINT_OK)
        abort();
    struct subject *subjects = calloc(backend->variant_count() + 1u, sizeof *subjects);
    *count = 0;
    for (uint32_t i = 0; i < backend->variant_count() && subjects != NULL; i++)
        if (backend->variant_available(context, i) == GLINT_OK)
            subject_open_index(&subjects[(*count)++], backend, i);
    backend->close(context);
    return subjects;
}

int main(int argc, char **argv)
{
    struct runner_options options;
    uint32_t count;
    if (!runner_arguments(argc, argv, &options, NULL, NULL))
        return 2;
    struct subject *subjects = open_all(test_backend(), &count);
    if (count == 0) {
        fprintf(stderr, "this machine runs no variant of the library\n");
        return 1;
    }
    struct check_list list = {.target = "//tests/checks:differential"};
    for (uint64_t n = 0; n < SHAPES && n < SHAPES_OF_A_VARIANT * (uint64_t)count; n++) {
        list.subject = &subjects[n % count];
        const struct shape shape = draw_shape(list.subject, n);
        checks_add(&list, differential, &shape, "differential/%llu", (unsigned long long)n);
    }
    printf("%zu shapes on %u variants\n", list.count, count);
    const int status = runner_run("differential", &list, &options);
    for (uint32_t i = 0; i < count; i++)
        subject_close(&subjects[i]);
    free(subjects);
    checks_free(&list);
    return status;
}
