/* The library beside a driver that fails: each entry, at each of its calls, with each of several results, once or
 * from then on; each symbol missing; no library. In every case the status is the exact one, the driver's code is
 * kept, every handle has been given back, and the context is as good as new or cleanly dead. No GPU is used. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/context.h"
#include "lib/cuda/cuda.h"
#include "tests/cuda/fake_driver.h"
#include "tests/cuda/fake_table.h"

/* The statuses that results must become, stated once more: this list must not be made from the library's. */
static const struct {
    glint_cu_result result;
    enum glint_status status;
} results[] = {
    {1, GLINT_DRIVER_ERROR},                                       /* invalid value */
    {2, GLINT_DEVICE_OUT_OF_MEMORY}, {36, GLINT_DRIVER_TOO_OLD},   /* call requires newer driver */
    {100, GLINT_NO_DEVICE},          {209, GLINT_NO_KERNEL_IMAGE}, /* no binary for this GPU */
    {214, GLINT_DEVICE_LOST},                                      /* uncorrectable ECC error */
    {700, GLINT_DEVICE_LOST},                                      /* illegal address */
    {719, GLINT_DEVICE_LOST},                                      /* launch failed */
    {999, GLINT_DRIVER_ERROR},                                     /* unknown */
};
enum { RESULTS = sizeof results / sizeof results[0] };

static unsigned cases;
static _Alignas(64) unsigned char storage[16384];
static _Alignas(256) unsigned char memory[2 << 20]; /* the fake device's */

static bool is_absence(enum glint_status status)
{
    return status == GLINT_NO_DRIVER || status == GLINT_DRIVER_TOO_OLD || status == GLINT_NO_DEVICE ||
           status == GLINT_NO_KERNEL_IMAGE;
}

static enum glint_status open_on(uint32_t kind, struct glint_context **context)
{
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = kind;
    memset(storage, 0xaa, sizeof storage);
    return glint_context_init(storage, sizeof storage, &options, context);
}

static struct glint_context *must_open(uint32_t kind)
{
    struct glint_context *context = NULL;
    ck_assert_int_eq(open_on(kind, &context), GLINT_OK);
    ck_assert_ptr_nonnull(context);
    return context;
}

/* Nothing held, nothing misused, the application's context current again. */
static void check_clean(const char *where, int entry, unsigned at, int result)
{
    ck_assert_msg(fake.misuse == 0, "%s, %s call %u result %d: %s", where, fake_symbol(entry), at, result, fake.first_misuse);
    ck_assert_msg(fake_held() == 0, "%s, %s call %u result %d: %d handles held", where, fake_symbol(entry), at, result,
                  fake_held());
    ck_assert_msg(fake_context_restored(), "%s, %s call %u result %d: current context changed", where, fake_symbol(entry), at,
                  result);
}

static void set_fault(int entry, unsigned at, glint_cu_result result, bool forever)
{
    fake_recount();
    fake.fault_entry = entry;
    fake.fault_at = at;
    fake.fault_result = result;
    fake.fault_forever = forever;
}

static void clear_fault(void)
{
    fake.fault_entry = -1;
}

/* ---- a fault while opening --------------------------------------------------------------------------------------- */

static void open_once(uint32_t kind, bool beside_application)
{
    fake_reset();
    if (beside_application)
        fake_application_context(0);
    ck_assert_int_eq(glint_context_close(must_open(kind)), GLINT_OK);
    check_clean("no fault", 0, 0, 0);
}

static void open_with_fault(uint32_t kind, bool beside_application, int entry, unsigned at, int r, bool forever)
{
    const enum glint_status expected = results[r].status;
    struct glint_context *context = NULL;
    fake_reset();
    if (beside_application)
        fake_application_context(0);
    set_fault(entry, at, results[r].result, forever);
    const enum glint_status status = open_on(kind, &context);
    const bool hit = fake.calls[entry] >= at;
    const unsigned code = (unsigned)glint_context_driver_error(storage);
    clear_fault();
    ck_assert(hit);
    if (kind == GLINT_DEVICE_AUTO && is_absence(expected)) {
        ck_assert_msg(status == GLINT_OK, "auto, %s call %u result %u: status %d", fake_symbol(entry), at, results[r].result,
                      status);
        ck_assert_int_eq(glint_context_close(context), GLINT_OK);
    } else {
        ck_assert_msg(status == expected, "kind %u, %s call %u result %u: status %d, not %d", kind, fake_symbol(entry), at,
                      results[r].result, status, expected);
        ck_assert_ptr_null(context);
        ck_assert_uint_eq(code, results[r].result);
    }
    check_clean("open", entry, at, (int)results[r].result);
    ck_assert_int_eq(glint_context_close(must_open(kind)), GLINT_OK);
    check_clean("open again", entry, at, (int)results[r].result);
    cases++;
}

static void faults_while_opening(uint32_t kind, bool beside_application)
{
    for (int entry = 0; entry < FAKE_ENTRIES; entry++) {
        struct glint_context *context = NULL;
        fake_reset();
        if (beside_application)
            fake_application_context(0);
        fake_recount();
        ck_assert_int_eq(open_on(kind, &context), GLINT_OK);
        const unsigned calls = fake.calls[entry];
        ck_assert_int_eq(glint_context_close(context), GLINT_OK);
        for (unsigned at = 1; at <= calls; at++)
            for (int r = 0; r < RESULTS; r++)
                for (int forever = 0; forever < 2; forever++)
                    open_with_fault(kind, beside_application, entry, at, r, forever);
    }
}

START_TEST(open_by_ordinal)
{
    open_once(GLINT_DEVICE_CUDA, false);
    open_once(GLINT_DEVICE_CUDA, true);
    faults_while_opening(GLINT_DEVICE_CUDA, false);
}
END_TEST

START_TEST(open_current)
{
    open_once(GLINT_DEVICE_CUDA_CURRENT, true);
    faults_while_opening(GLINT_DEVICE_CUDA_CURRENT, true);
}
END_TEST

START_TEST(open_auto)
{
    open_once(GLINT_DEVICE_AUTO, false);
    open_once(GLINT_DEVICE_AUTO, true);
    faults_while_opening(GLINT_DEVICE_AUTO, false);
}
END_TEST

/* ---- a fault while a context is in use --------------------------------------------------------------------------- */

enum action { FORWARD, BACKWARD_SPLIT, BACKWARD_FUSED, FORWARD_MAPS, BACKWARD_MAPS, COPY_IN, COPY_OUT, MERGE, APPEND, ACTIONS };
enum { LAUNCHES = 1 + 3 + 3 + 1 + 3 + 1 + 1 }; /* of all of them */

static enum glint_status merge(const struct glint_context *context)
{
    const struct glint_strides o = {128, 64, 64}, lse = {2, 1, 1};
    const struct glint_part part = {memory, (const float *)(const void *)(memory + 4096), o, lse, GLINT_F16, 0};
    struct glint_merge m = GLINT_MERGE_INIT;
    m.dtype = GLINT_F16;
    m.parts = 1;
    m.batch = m.seqlen = 1;
    m.heads = 2;
    m.head_dim = 64;
    m.part = &part;
    m.o = memory + 8192;
    m.lse = (float *)(void *)(memory + 12288);
    m.o_strides = o;
    m.lse_strides = lse;
    return glint_merge(context, &m, NULL);
}

static enum glint_status act(const struct glint_context *context, enum action action)
{
    static const uint32_t rows[] = {FAKE_PLAIN, FAKE_SPLIT, FAKE_FUSED, FAKE_MAPS_FORWARD, FAKE_MAPS_BACKWARD};
    const bool forward = action == FORWARD || action == FORWARD_MAPS || action == APPEND,
               maps = action == FORWARD_MAPS || action == BACKWARD_MAPS;
    struct glint_problem problem;
    struct glint_plan plan;
    struct glint_tensors t = GLINT_TENSORS_INIT;
    const enum glint_pass pass = forward ? GLINT_FORWARD : GLINT_BACKWARD;
    static float host[16]; /* outlives the copy that a fault leaves under way */

    if (action == MERGE)
        return merge(context);
    if (action == COPY_IN)
        return glint_cuda_copy_in(context, memory, host, sizeof host, NULL);
    if (action == COPY_OUT)
        return glint_cuda_copy_out(context, host, memory, sizeof host, NULL);
    glint_problem_bhsd(&problem, maps ? GLINT_BF16 : GLINT_F16, 1, 130, 70, 2, 1, maps ? 128 : 64);
    if (action == BACKWARD_FUSED)
        problem.mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
    const enum glint_status planned = glint_plan_variant(context, &problem, pass, rows[action == APPEND ? FORWARD : action], &plan);
    if (planned == GLINT_NOT_ON_DEVICE)
        return planned;
    ck_assert_int_eq(planned, GLINT_OK);
    unsigned char *at = memory;
    void **const addresses[] = {(void **)&t.q,    (void **)&t.k, (void **)&t.v, &t.o, (void **)&t.lse,
                                (void **)&t.dout, &t.dq,         &t.dk,         &t.dv};
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++, at += 1 << 17)
        *addresses[i] = at;
    ck_assert_uint_le(plan.workspace_bytes, 1 << 18);
    if (action == APPEND) {
        const struct glint_append append = {
            .struct_size = sizeof append, .dtype = GLINT_F16, .k = t.dk, .v = t.dv, .k_strides = problem.k, .v_strides = problem.v};
        return glint_append(&plan, &append, &t, NULL);
    }
    return forward ? glint_forward(&plan, &t, at, plan.workspace_bytes, NULL)
                   : glint_backward(&plan, &t, at, plan.workspace_bytes, NULL);
}

static void act_with_fault(uint32_t kind, enum action action, int entry, unsigned at, int r, bool forever)
{
    const enum glint_status expected = results[r].status;
    fake_reset();
    fake_application_context(kind == GLINT_DEVICE_CUDA_CURRENT ? 0 : -1);
    struct glint_context *context = must_open(kind);
    const int held = fake_held();
    set_fault(entry, at, results[r].result, forever);
    enum glint_status status = act(context, action);
    clear_fault();
    ck_assert_msg(status == expected, "action %d, %s call %u result %u: status %d, not %d", (int)action, fake_symbol(entry), at,
                  results[r].result, status, expected);
    ck_assert_uint_eq((unsigned)glint_context_driver_error(storage), results[r].result);
    ck_assert_int_eq(fake_held(), held);
    ck_assert(fake_context_restored());

    fake_recount();
    if (expected == GLINT_DEVICE_LOST) { /* dead: refused without touching the driver */
        for (int next = 0; next < ACTIONS; next++)
            ck_assert_int_eq(act(context, (enum action)next), GLINT_DEVICE_LOST);
        ck_assert_uint_eq(fake.all_calls, 0);
    } else {
        for (int next = 0; next < ACTIONS; next++)
            ck_assert_int_eq(act(context, (enum action)next), GLINT_OK);
        ck_assert_uint_eq(fake.launches, LAUNCHES);
    }
    ck_assert_int_eq(glint_context_close(context), GLINT_OK);
    check_clean("act", entry, at, (int)results[r].result);
    cases++;
}

static void faults_while_acting(uint32_t kind, enum action action)
{
    for (int entry = 0; entry < FAKE_ENTRIES; entry++) {
        fake_reset();
        fake_application_context(kind == GLINT_DEVICE_CUDA_CURRENT ? 0 : -1);
        struct glint_context *context = must_open(kind);
        fake_recount();
        ck_assert_int_eq(act(context, action), GLINT_OK);
        const unsigned calls = fake.calls[entry];
        ck_assert_int_eq(glint_context_close(context), GLINT_OK);
        for (unsigned at = 1; at <= calls; at++)
            for (int r = 0; r < RESULTS; r++)
                for (int forever = 0; forever < 2; forever++)
                    act_with_fault(kind, action, entry, at, r, forever);
    }
}

START_TEST(use)
{
    faults_while_acting(GLINT_DEVICE_CUDA, (enum action)_i);
    faults_while_acting(GLINT_DEVICE_CUDA_CURRENT, (enum action)_i);
}
END_TEST

/* ---- a fault while closing --------------------------------------------------------------------------------------- */

START_TEST(closing)
{
    const uint32_t kinds[] = {GLINT_DEVICE_CUDA, GLINT_DEVICE_CUDA_CURRENT};
    for (int k = 0; k < 2; k++)
        for (int entry = 0; entry < FAKE_ENTRIES; entry++)
            for (int r = 0; r < RESULTS; r++)
                for (int forever = 0; forever < 2; forever++)
                    for (unsigned at = 1;; at++) {
                        fake_reset();
                        fake_application_context(k == 0 ? -1 : 0);
                        struct glint_context *context = must_open(kinds[k]);
                        set_fault(entry, at, results[r].result, forever);
                        const enum glint_status status = glint_context_close(context);
                        const bool hit = fake.calls[entry] >= at;
                        clear_fault();
                        ck_assert_int_eq(status, hit ? results[r].status : GLINT_OK);
                        ck_assert_int_eq(glint_context_close(context), GLINT_CONTEXT_CLOSED);
                        check_clean("close", entry, at, (int)results[r].result);
                        ck_assert_int_eq(glint_context_close(must_open(kinds[k])), GLINT_OK);
                        if (!hit)
                            break;
                        cases++;
                    }
}
END_TEST

/* A device that is lost while in use is also lost while it is closed: everything is still given back. */
START_TEST(closing_a_lost_device)
{
    for (int entry = 0; entry < FAKE_ENTRIES; entry++) {
        fake_reset();
        struct glint_context *context = must_open(GLINT_DEVICE_CUDA);
        set_fault(FAKE_launch, 1, 700, true);
        ck_assert_int_eq(act(context, FORWARD), GLINT_DEVICE_LOST);
        set_fault(entry, 1, 700, true);
        const enum glint_status status = glint_context_close(context);
        ck_assert(status == GLINT_OK || status == GLINT_DEVICE_LOST);
        clear_fault();
        check_clean("close lost", entry, 1, 700);
        cases++;
    }
}
END_TEST

/* What is kept is the code behind the status, not that of the giving back which followed. */
START_TEST(first_code_is_kept)
{
    for (int entry = 0; entry < FAKE_ENTRIES; entry++) {
        struct glint_context *context = NULL;
        fake_reset();
        set_fault(entry, 1, 719, false);
        fake.release_result = 1;
        const enum glint_status status = open_on(GLINT_DEVICE_CUDA, &context);
        const int code = glint_context_driver_error(storage);
        const bool hit = fake.calls[entry] > 0;
        clear_fault();
        if (hit && entry != FAKE_module_unload && entry != FAKE_context_pop && entry != FAKE_primary_release) {
            ck_assert_int_eq(status, GLINT_DEVICE_LOST);
            ck_assert_int_eq(code, 719);
            check_clean("first code", entry, 1, 719);
            cases++;
        }
    }
}
END_TEST

/* ---- the library itself ------------------------------------------------------------------------------------------ */

START_TEST(no_library)
{
    struct glint_context *context = NULL;
    fake_reset();
    fake.library_missing = true;
    ck_assert_int_eq(open_on(GLINT_DEVICE_CUDA, &context), GLINT_NO_DRIVER);
    ck_assert_ptr_null(context);
    ck_assert_int_eq(glint_context_driver_error(storage), 0);
    ck_assert_int_eq(open_on(GLINT_DEVICE_CUDA_CURRENT, &context), GLINT_NO_DRIVER);
    ck_assert_int_eq(open_on(GLINT_DEVICE_AUTO, &context), GLINT_OK);
    ck_assert_int_eq(glint_context_close(context), GLINT_OK);
    ck_assert_uint_eq(fake.all_calls, 0);
    check_clean("no library", 0, 0, 0);
    cases += 3;
}
END_TEST

START_TEST(missing_symbols)
{
    for (int entry = 0; entry < FAKE_ENTRIES; entry++) {
        const bool optional = fake_optional(entry);
        struct glint_context *context = NULL;
        fake_reset();
        fake.symbol_missing = fake_symbol(entry);
        const enum glint_status status = open_on(GLINT_DEVICE_CUDA, &context);
        ck_assert_msg(status == (optional ? GLINT_OK : GLINT_DRIVER_TOO_OLD), "%s: %d", fake_symbol(entry), status);
        if (optional) {
            const bool no_maps = entry == FAKE_tensor_map_encode, no_clusters = entry == FAKE_launch_ex;
            for (int next = 0; next < ACTIONS; next++) {
                const bool lacks = (no_maps || no_clusters) && (next == BACKWARD_MAPS || next == FORWARD_MAPS);
                ck_assert_int_eq(act(context, (enum action)next), lacks ? GLINT_NOT_ON_DEVICE : GLINT_OK);
            }
            ck_assert_int_eq(glint_context_close(context), GLINT_OK);
        } else {
            ck_assert_ptr_null(context);
            ck_assert_uint_eq(fake.all_calls, 0);
            ck_assert_int_eq(open_on(GLINT_DEVICE_AUTO, &context), GLINT_OK);
            ck_assert_int_eq(glint_context_close(context), GLINT_OK);
        }
        check_clean("missing symbol", entry, 0, 0);
        cases++;
    }
}
END_TEST

/* Every number that a driver could answer, against <cuda.h>'s description of it. */
START_TEST(every_result)
{
    static const glint_cu_result sticky[] = {4, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911};
    for (glint_cu_result result = 0; result < 1100; result++) {
        enum glint_status expected = result == 0 ? GLINT_OK : GLINT_DRIVER_ERROR;
        switch (result) {
        case 2: expected = GLINT_DEVICE_OUT_OF_MEMORY; break;
        case 34: expected = GLINT_NO_DRIVER; break;
        case 36: expected = GLINT_DRIVER_TOO_OLD; break;
        case 100:
        case 101: expected = GLINT_NO_DEVICE; break;
        case 209: expected = GLINT_NO_KERNEL_IMAGE; break;
        default: break;
        }
        for (size_t i = 0; i < sizeof sticky / sizeof sticky[0]; i++)
            if (result == sticky[i])
                expected = GLINT_DEVICE_LOST;
        ck_assert_msg(glint_cuda_status(result) == expected, "result %u", result);
    }
    cases++;
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cuda faults");
    TCase *tcase = tcase_create("faults");
    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, no_library);
    tcase_add_test(tcase, missing_symbols);
    tcase_add_test(tcase, every_result);
    tcase_add_test(tcase, open_by_ordinal);
    tcase_add_test(tcase, open_current);
    tcase_add_test(tcase, open_auto);
    tcase_add_loop_test(tcase, use, 0, ACTIONS);
    tcase_add_test(tcase, closing);
    tcase_add_test(tcase, closing_a_lost_device);
    tcase_add_test(tcase, first_code_is_kept);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner), run = srunner_ntests_run(runner);
    srunner_free(runner);
    printf("%u fault cases\n", cases);
    return failed == 0 && run > 0 && cases >= 1000 ? EXIT_SUCCESS : EXIT_FAILURE;
}
