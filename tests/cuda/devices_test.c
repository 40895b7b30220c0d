/* Which device the library takes, which kernels it loads for it, and what several contexts share. No GPU is used. */
#include "lib/backend.h"
#include "lib/context.h"
#include "tests/cuda/launch_world.h"

struct device_case {
    int sm, shared_bytes;
    unsigned rows; /* bit mask of enum fake_row that can run; 0: none */
};
#define R(row) (1u << FAKE_##row)
#define HOPPER (R(MAPS_WINDOW) | R(MAPS_FORWARD) | R(MAPS_BACKWARD))

static const struct device_case device_cases[] = {
    {90, 232448, R(FUSED) | R(SPLIT) | R(MUCH_SHARED) | R(CAUSAL) | R(PLAIN) | R(CAPPED) | R(BOTH) | R(DECODE) | HOPPER}, /* H200 */
    {91, 232448,
     R(FUSED) | R(SPLIT) | R(MUCH_SHARED) | R(CAUSAL) | R(PLAIN) | R(CAPPED) | R(BOTH) | R(DECODE)}, /* not what is for 9.0 alone */
    {80, 166912, R(FUSED) | R(SPLIT) | R(MUCH_SHARED) | R(CAUSAL) | R(PLAIN) | R(CAPPED) | R(DECODE)}, /* A100 */
    {86, 101376, R(FUSED) | R(SPLIT) | R(CAUSAL) | R(PLAIN) | R(CAPPED)},                              /* RTX 30: not 160 KiB */
    {89, 101376, R(FUSED) | R(SPLIT) | R(CAUSAL) | R(PLAIN) | R(CAPPED)},                              /* RTX 40 */
    {87, 166912, R(CAUSAL)},                                                                           /* Orin: only its own SASS */
    {120, 101376, R(ONLY_120)},
    {121, 101376, R(ONLY_120)},
    {100, 232448, 0},
    {75, 65536, 0},
    {90, 65535, R(CAUSAL) | R(BOTH)}, /* as if it had too little shared memory */
    {80, 163840, R(FUSED) | R(SPLIT) | R(MUCH_SHARED) | R(CAUSAL) | R(PLAIN) | R(CAPPED) | R(DECODE)}, /* as much as a row needs */
    {80, 163839, R(FUSED) | R(SPLIT) | R(CAUSAL) | R(PLAIN) | R(CAPPED) | R(DECODE)},                  /* a byte less */
};

START_TEST(rows_of_a_device)
{
    const struct device_case *c = &device_cases[_i];
    struct glint_context *context = NULL;
    struct glint_device_info info = GLINT_DEVICE_INFO_INIT;
    fake_reset();
    fake.device[0] = (struct fake_device){c->sm, 7, c->shared_bytes};
    const enum glint_status status = open_at(0, GLINT_DEVICE_CUDA, 0, &context);
    if (c->rows == 0) {
        ck_assert_int_eq(status, GLINT_NO_KERNEL_IMAGE);
        ck_assert_uint_eq(fake.calls[FAKE_primary_retain], 0); /* found out before a context is made */
        context = must_open(0, GLINT_DEVICE_AUTO, 0);
        ck_assert_int_eq(glint_context_device(context, &info), GLINT_OK);
        ck_assert_uint_eq(info.device, GLINT_DEVICE_CPU);
        close_clean(context);
        ck_assert_int_eq(fake_held(), 0);
        return;
    }
    ck_assert_int_eq(status, GLINT_OK);
    unsigned rows = 0, loaded = 0;
    for (uint32_t i = 0; i < glint_variants_count; i++)
        if (glint_variant_available(context, i) == GLINT_OK) {
            rows |= 1u << i;
            loaded++;
        }
    ck_assert_msg(rows == c->rows, "sm %d: rows %#x, not %#x", c->sm, rows, c->rows);
    ck_assert_int_eq(glint_context_device(context, &info), GLINT_OK);
    ck_assert_uint_eq(info.device, GLINT_DEVICE_CUDA);
    ck_assert_uint_eq(info.sm, (unsigned)c->sm);
    ck_assert_uint_eq(info.concurrency, 7);
    ck_assert_uint_eq(info.variants_loaded, loaded);
    ck_assert_int_eq(info.cuda_device, 0);
    ck_assert_int_eq(info.driver_error, 0);
    /* and that of glint_merge and glint_append, but on sm_120; FAKE_LOCAL has that of FAKE_PLAIN, which it holds alone
     * where that is not run */
    const int alone = (rows & R(PLAIN)) == 0 && (rows & R(BOTH)) != 0;
    ck_assert_int_eq(fake.modules, (int)loaded + (c->sm < 120) + alone);
    close_clean(context);
    ck_assert_int_eq(fake_held(), 0);
}
END_TEST

static const struct {
    int device;
    const char *causal, *both;
} image_cases[] = {{80, "80", NULL}, {86, "86", NULL}, {87, "87", NULL}, {89, "86", NULL}, {90, "90", "90a"}, {91, "90", "90"}};

/* Whichever rows a device runs, the table's first one or later ones alone: where opening fails, at any call, all that is
 * held is given back, in the context that it is of. */
START_TEST(opening_fails_on_each_device)
{
    const struct device_case *c = &device_cases[_i];
    bool hit = c->rows != 0;
    for (int entry = 0; entry < FAKE_ENTRIES && c->rows != 0; entry++, hit = true)
        for (unsigned at = 1; hit; at++) {
            struct glint_context *context = NULL;
            fake_reset();
            fake.device[0] = (struct fake_device){c->sm, 7, c->shared_bytes};
            fake.fault_entry = entry, fake.fault_at = at, fake.fault_result = 999;
            const enum glint_status status = open_at(0, GLINT_DEVICE_CUDA, 0, &context);
            hit = fake.calls[entry] >= at;
            ck_assert_int_eq(status, hit ? GLINT_DRIVER_ERROR : GLINT_OK);
            fake.fault_entry = hit ? entry : -1; /* where a context cannot be made current, modules go all the same */
            if (!hit)
                close_clean(context);
            ck_assert_msg(fake.misuse == 0, "sm %d, %s call %u: %s", c->sm, fake_symbol(entry), at, fake.first_misuse);
            ck_assert_int_eq(fake_held(), 0);
            ck_assert(fake_context_restored());
        }
}
END_TEST

/* Of rows with one key, those of the newer family are taken first. */
START_TEST(ranks)
{
    extern const struct glint_family glint_family_sm80, glint_family_sm90a;
    ck_assert_uint_eq(glint_family_sm80.rank, 80);
    ck_assert_uint_eq(glint_family_sm90a.rank, 90);
}
END_TEST

/* A device with rows, for which the table has no images of glint_merge and glint_append: either says so, and what has
 * nothing to do is done. */
START_TEST(without_rows_of_calls)
{
    struct call c;
    struct glint_merge merge = GLINT_MERGE_INIT;
    fake_reset();
    fake.device[0] = (struct fake_device){120, 7, 101376};
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    prepare_as(&c, context, GLINT_FORWARD, GLINT_BF16, 64, 1, 3, 70, 2, 1, GLINT_MASK_NONE);
    const struct glint_tensors *const t = &c.tensors;
    const struct glint_part part = {t->q, t->lse, c.problem.q, {6, 3, 1}, GLINT_BF16, 0};
    merge.dtype = GLINT_BF16;
    merge.parts = 1, merge.part = &part;
    merge.batch = 1, merge.heads = 2, merge.seqlen = 3, merge.head_dim = 64;
    merge.o = t->o, merge.lse = (float *)(void *)t->dq;
    merge.o_strides = c.problem.o, merge.lse_strides = part.lse_strides;
    const struct glint_append append = {.struct_size = sizeof append,
                                        .dtype = GLINT_BF16,
                                        .k = t->dk,
                                        .v = t->dv,
                                        .k_strides = c.problem.dk,
                                        .v_strides = c.problem.dv};
    const struct glint_tensors cache = {.struct_size = sizeof cache, .k = t->k, .v = t->v};
    ck_assert_int_eq(glint_merge(context, &merge, NULL), GLINT_NOT_ON_DEVICE);
    ck_assert_int_eq(glint_append(&c.plan, &append, &cache, NULL), GLINT_NOT_ON_DEVICE);
    merge.seqlen = 0;
    ck_assert_int_eq(glint_merge(context, &merge, NULL), GLINT_OK);
    ck_assert_uint_eq(fake.launches, 0);
    ck_assert_int_eq(glint_forward(&c.plan, t, NULL, 0, NULL), GLINT_OK);
    close_clean(context);
    ck_assert_int_eq(fake_held(), 0);
}
END_TEST

/* Of several images that run, the one made for the nearest architecture. */
START_TEST(which_image)
{
    struct glint_context *context;
    struct call c;
    fake_reset();
    fake.device[0].sm = image_cases[_i].device;
    context = must_open(0, GLINT_DEVICE_CUDA, 0);
    prepare(&c, context, GLINT_FORWARD, 1, 128, 64, 1, 1, GLINT_MASK_CAUSAL_TOP_LEFT);
    ck_assert_int_eq(glint_forward(&c.plan, &c.tensors, NULL, 0, NULL), GLINT_OK);
    ck_assert_str_eq(fake.launch[0].image_arch, image_cases[_i].causal);
    if (image_cases[_i].both) {
        prepare_as(&c, context, GLINT_FORWARD, GLINT_F16, 128, 1, 128, 64, 1, 1, GLINT_MASK_NONE);
        ck_assert_int_eq(glint_forward(&c.plan, &c.tensors, NULL, 0, NULL), GLINT_OK);
        ck_assert_str_eq(fake.launch[1].image_arch, image_cases[_i].both);
    }
    close_clean(context);
}
END_TEST

START_TEST(which_device)
{
    struct glint_context *context = NULL;
    struct glint_device_info info = GLINT_DEVICE_INFO_INIT;

    fake_reset(); /* none at all: cuInit says so on real machines, an empty list must do as well */
    fake.devices = 0;
    ck_assert_int_eq(open_at(0, GLINT_DEVICE_CUDA, 0, &context), GLINT_NO_DEVICE);
    ck_assert_int_eq(open_at(0, GLINT_DEVICE_CUDA_CURRENT, 0, &context), GLINT_NO_DEVICE);
    close_clean(must_open(0, GLINT_DEVICE_AUTO, 0));

    fake_reset(); /* ordinals */
    fake.devices = 2;
    ck_assert_int_eq(open_at(0, GLINT_DEVICE_CUDA, 2, &context), GLINT_NO_DEVICE);
    ck_assert_int_eq(glint_context_driver_error(storage[0]), 101);
    context = must_open(0, GLINT_DEVICE_CUDA, 1);
    ck_assert_int_eq(fake.retained[1], 1);
    close_clean(context);

    for (int first = 0; first < 3; first++) { /* automatic: the first that has a kernel, also where others have one */
        fake_reset();
        fake.devices = 3;
        fake.device[0].sm = first > 0 ? 75 : 90;
        fake.device[1].sm = first > 1 ? 100 : 90;
        context = must_open(0, GLINT_DEVICE_AUTO, 0);
        ck_assert_int_eq(glint_context_device(context, &info), GLINT_OK);
        ck_assert_int_eq(info.cuda_device, first);
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(fake.retained[i], i == first);
        close_clean(context);
    }

    fake.device[0].sm = 90; /* automatic: a device that fails is not passed over */
    fake.fault_entry = FAKE_device_attribute;
    fake.fault_at = fake.calls[FAKE_device_attribute] + 1;
    fake.fault_result = 999;
    ck_assert_int_eq(open_at(0, GLINT_DEVICE_AUTO, 0, &context), GLINT_DRIVER_ERROR);
    ck_assert_int_eq(fake_held(), 0);
    fake.fault_entry = -1;
    fake.device[0].sm = 75;

    fake_application_context(2); /* automatic: the current one, in its own context */
    context = must_open(0, GLINT_DEVICE_AUTO, 0);
    ck_assert_int_eq(glint_context_device(context, &info), GLINT_OK);
    ck_assert_int_eq(info.cuda_device, 2);
    ck_assert_int_eq(fake.retained[2], 0);
    close_clean(context);

    fake_application_context(0); /* automatic: the current one has no kernel */
    context = must_open(0, GLINT_DEVICE_AUTO, 0);
    ck_assert_int_eq(fake.retained[2], 1);
    close_clean(context);
    ck_assert_int_eq(open_at(0, GLINT_DEVICE_CUDA_CURRENT, 0, &context), GLINT_NO_KERNEL_IMAGE);
    ck_assert_int_eq(fake_held(), 0);

    fake_reset(); /* automatic: no device has a kernel, and no other is asked for */
    fake.devices = 3;
    for (int i = 0; i < 3; i++)
        fake.device[i].sm = 75;
    close_clean(must_open(0, GLINT_DEVICE_AUTO, 0));
    ck_assert_uint_eq(fake.calls[FAKE_device_get], 3);
}
END_TEST

/* Each kernel is looked up, loaded and given its shared memory when the context is opened, and none of that happens
 * later. */
START_TEST(everything_is_loaded_at_init)
{
    const unsigned kernels =
        5 + 12 + 3 + 4 + 1 + 2 + 1 + 1 + 1 + 3 + 1 + 1 + 3; /* the last row's is found to use local memory; then three of no row */
    fake_reset();
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    ck_assert_uint_eq(fake.calls[FAKE_module_function], kernels);
    ck_assert_uint_eq(fake.calls[FAKE_function_load], kernels);
    ck_assert_uint_eq(fake.calls[FAKE_function_attribute], kernels);
    ck_assert_uint_eq(fake.calls[FAKE_function_set_attribute], 17); /* the others need 48 KiB or less */
    ck_assert_uint_eq(fake.calls[FAKE_module_load], 12);            /* the last row shares one with a row before others */
    ck_assert_int_eq(fake.out_of_turn, 0);                          /* it is loaded with that one all the same */
    ck_assert_uint_eq(fake.calls[FAKE_module_unload], 0);
    ck_assert_int_eq(glint_variant_available(context, FAKE_LOCAL), GLINT_NOT_ON_DEVICE);
    close_clean(context);

    fake_reset(); /* local memory in every kernel leaves none */
    fake.local_bytes = 8;
    ck_assert_int_eq(open_at(0, GLINT_DEVICE_CUDA, 0, &context), GLINT_NO_KERNEL_IMAGE);
    ck_assert_int_eq(fake_held(), 0);

    fake_reset(); /* the same by a table that is handed in: no library is opened */
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = GLINT_DEVICE_CUDA;
    fake.library_missing = true;
    ck_assert_int_eq(glint_context_init_with_driver(storage[0], STORAGE, &options, &fake_table, &context), GLINT_OK);
    ck_assert_int_eq(fake.libraries, 0);
    ck_assert_int_eq(fake.modules, 12);
    close_clean(context);
    ck_assert_int_eq(fake_held(), 0);
}
END_TEST

START_TEST(no_push_when_current)
{
    struct call c;
    fake_reset();
    fake_application_context(0);
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA_CURRENT, 0);
    prepare(&c, context, GLINT_FORWARD, 1, 129, 70, 4, 2, GLINT_MASK_NONE);
    fake_recount();
    ck_assert_int_eq(glint_forward(&c.plan, &c.tensors, NULL, 0, NULL), GLINT_OK);
    ck_assert_uint_eq(fake.all_calls, 2); /* current, launch */
    fake_application_context(-1);         /* the application leaves its context: still ours to use */
    ck_assert_int_eq(glint_forward(&c.plan, &c.tensors, NULL, 0, NULL), GLINT_OK);
    ck_assert_uint_eq(fake.all_calls, 2 + 4);
    close_clean(context);
}
END_TEST

static const struct {
    const char *symbol;
    unsigned lacks;
} driver_cases[] = {{"cuLaunchKernelEx", HOPPER}, {"cuTensorMapEncodeTiled", HOPPER}, {"cuFuncLoad", 0}};

/* A driver that lacks an entry does not run the rows that need it in any of their kernels, and runs the others. */
START_TEST(older_drivers)
{
    struct call c;
    fake_reset();
    fake.symbol_missing = driver_cases[_i].symbol;
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    const unsigned lacks = driver_cases[_i].lacks | R(ONLY_120) | R(LOCAL) | R(OF_CPU);
    for (uint32_t i = 0; i < glint_variants_count; i++)
        ck_assert_int_eq(glint_variant_available(context, i), lacks >> i & 1 ? GLINT_NOT_ON_DEVICE : GLINT_OK);
    prepare_as(&c, context, GLINT_FORWARD, GLINT_F16, 128, 1, 128, 64, 1, 1, GLINT_MASK_NONE);
    ck_assert_int_eq(glint_forward(&c.plan, &c.tensors, NULL, 0, NULL), GLINT_OK);
    check_launch(0, "both", 1, 128, 49152, NULL);
    ck_assert_uint_eq(fake.launch[0].dependent, _i != 0); /* it waits for what is ahead to end */
    close_clean(context);
}
END_TEST

START_TEST(several_devices)
{
    struct call c[CONTEXTS];
    struct glint_context *contexts[CONTEXTS];
    fake_reset();
    fake.devices = CONTEXTS;
    fake.device[1] = (struct fake_device){80, 108, 166912};
    for (int i = 0; i < CONTEXTS; i++) {
        contexts[i] = must_open(i, GLINT_DEVICE_CUDA, i);
        prepare(&c[i], contexts[i], GLINT_FORWARD, 1, 128, 64, 1, 1, GLINT_MASK_NONE);
    }
    for (unsigned n = 0; n < 9; n++) {
        const int i = (int)(n * 2 % CONTEXTS);
        ck_assert_int_eq(glint_forward(&c[i].plan, &c[i].tensors, NULL, 0, NULL), GLINT_OK);
        ck_assert_int_eq(fake.launch[n % FAKE_LAUNCHES].device, i);
    }
    fake_recount();
    fake.fault_entry = FAKE_launch; /* losing one device leaves the others */
    fake.fault_at = 1;
    fake.fault_result = 700;
    ck_assert_int_eq(glint_forward(&c[1].plan, &c[1].tensors, NULL, 0, NULL), GLINT_DEVICE_LOST);
    fake.fault_entry = -1;
    ck_assert_int_eq(glint_forward(&c[0].plan, &c[0].tensors, NULL, 0, NULL), GLINT_OK);
    ck_assert_int_eq(glint_forward(&c[1].plan, &c[1].tensors, NULL, 0, NULL), GLINT_DEVICE_LOST);
    close_clean(contexts[0]);
    ck_assert_int_eq(glint_forward(&c[0].plan, &c[0].tensors, NULL, 0, NULL), GLINT_CONTEXT_CLOSED);
    ck_assert_int_eq(glint_forward(&c[2].plan, &c[2].tensors, NULL, 0, NULL), GLINT_OK);
    close_clean(contexts[1]);
    close_clean(contexts[2]);
    ck_assert_int_eq(fake_held(), 0);
}
END_TEST

/* Two contexts on one device share its primary context and nothing else. */
START_TEST(two_on_one_device)
{
    fake_reset();
    struct glint_context *first = must_open(0, GLINT_DEVICE_CUDA, 0), *second = must_open(1, GLINT_DEVICE_CUDA, 0);
    struct call c;
    ck_assert_int_eq(fake.retained[0], 2);
    ck_assert_int_eq(fake.modules, 24);
    prepare(&c, second, GLINT_FORWARD, 1, 128, 64, 1, 1, GLINT_MASK_NONE);
    close_clean(first);
    ck_assert_int_eq(glint_forward(&c.plan, &c.tensors, NULL, 0, NULL), GLINT_OK);
    close_clean(second);
    ck_assert_int_eq(fake_held(), 0);
}
END_TEST

/* The self test drives copies and every row; on a driver that computes nothing each must be found wrong, and nothing
 * else go wrong. */
START_TEST(selftest_finds_a_device_that_does_nothing)
{
    struct glint_selftest_result result = GLINT_SELFTEST_RESULT_INIT;
    size_t bytes = 0;
    fake_reset();
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    ck_assert_int_eq(glint_selftest_size(context, &bytes), GLINT_OK);
    ck_assert_uint_le(bytes, sizeof memory);
    ck_assert_int_eq(glint_selftest(context, memory, bytes, NULL, &result), GLINT_SELFTEST_FAILED);
    ck_assert_uint_eq(result.variants_run, 11);
    ck_assert_uint_eq(result.variants_failed, 11);
    ck_assert_uint_eq(result.first_failed, FAKE_MAPS_BACKWARD);
    close_clean(context);
    ck_assert_int_eq(fake_held(), 0);
}
END_TEST

/* A copy has ended when its call comes back: what it was made of may change, and what it made may be read. */
START_TEST(copies_have_ended)
{
    unsigned char device[64] = {0}, host[64], back[64] = {0};
    fake_reset();
    struct glint_context *context = must_open(0, GLINT_DEVICE_CUDA, 0);
    memset(host, 7, sizeof host);
    ck_assert_int_eq(context->backend->copy_in(context, device, host, sizeof host - 1, NULL), GLINT_OK);
    memset(host, 9, sizeof host);
    ck_assert_int_eq(context->backend->copy_out(context, back, device, sizeof back, NULL), GLINT_OK);
    for (size_t i = 0; i < sizeof back; i++)
        ck_assert_uint_eq(back[i], i < sizeof host - 1 ? 7 : 0);
    ck_assert_uint_eq(fake.calls[FAKE_stream_synchronize], 2);
    close_clean(context);
    ck_assert_int_eq(fake_held(), 0);
}
END_TEST

static void add(TCase *tcase)
{
    ADD_TABLE(tcase, rows_of_a_device, device_cases);
    ADD_TABLE(tcase, opening_fails_on_each_device, device_cases);
    tcase_add_test(tcase, ranks);
    tcase_add_test(tcase, without_rows_of_calls);
    ADD_TABLE(tcase, which_image, image_cases);
    tcase_add_test(tcase, which_device);
    tcase_add_test(tcase, everything_is_loaded_at_init);
    tcase_add_test(tcase, no_push_when_current);
    ADD_TABLE(tcase, older_drivers, driver_cases);
    tcase_add_test(tcase, several_devices);
    tcase_add_test(tcase, two_on_one_device);
    tcase_add_test(tcase, selftest_finds_a_device_that_does_nothing);
    tcase_add_test(tcase, copies_have_ended);
}

int main(void)
{
    return run_suite("cuda devices", add);
}
