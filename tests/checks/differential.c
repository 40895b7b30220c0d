/* Random shapes over all variants that this machine runs, against the fp64 reference by the yardstick of plain attention: lengths,
 * heads, masks, layouts, data, executors and workspace contents drawn by seed. Shape number n always is the same shape; the variant
 * it runs on is number n modulo the variants at hand. A variant has so many shapes at most, as a library of few variants is built where
 * everything is slow. Bazel splits the numbers over shards.
 *
 * differential [--case=differential/NUMBER] [--list] [--margins] */
#include <stdio.h>
#include <stdlib.h>

#include "tests/checks/accuracy.h"
#include "tests/checks/runner.h"
#include "tests/support/rand.h"

enum { SHAPES = 2400, SHAPES_OF_A_VARIANT = 32, MAX_PRODUCTS = 1500000 };

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
    struct rand r = rand_stream(number, 400);
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
    const bool serves_all = subject->info.queries_up_to > 0 && rand_below(&r, 3) == 0;
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
