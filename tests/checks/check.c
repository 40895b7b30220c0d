#include "tests/checks/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/checks/executors.h"
#include "tests/oracle/half.h"

/* ---- the check that is running ---- */

enum { MEMORY_BLOCKS = 4096, DEVICE_BLOCKS = 200, CATEGORIES = 64 };

static struct {
    jmp_buf failed;
    char reason[1024];
    void *block[MEMORY_BLOCKS];
    size_t blocks;
    const struct backend *backend;
    void *device_block[DEVICE_BLOCKS];
    size_t device_blocks;
    uint64_t comparisons;
} running;

static struct margin {
    const char *category;
    double worst;
    char where[64];
} margins[CATEGORIES];

static const char *running_name = "";

void check_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(running.reason, sizeof running.reason, format, arguments);
    va_end(arguments);
    longjmp(running.failed, 1);
}

void *check_memory(size_t bytes)
{
    if (running.blocks == MEMORY_BLOCKS)
        check_fail("the check asks for more than %d blocks of memory", MEMORY_BLOCKS);
    void *memory = calloc(bytes > 0 ? bytes : 1, 1);
    if (memory == NULL)
        check_fail("out of memory: %zu bytes", bytes);
    running.block[running.blocks++] = memory;
    return memory;
}

void *check_device_memory(const struct backend *backend, size_t bytes, size_t alignment, enum fence fence)
{
    if (running.device_blocks == DEVICE_BLOCKS)
        check_fail("the check asks for more than %d blocks of device memory", DEVICE_BLOCKS);
    void *memory = backend->alloc(bytes, alignment, fence);
    if (memory == NULL)
        check_fail("out of device memory: %zu bytes", bytes);
    running.backend = backend;
    running.device_block[running.device_blocks++] = memory;
    return memory;
}

void check_device_release_all(void)
{
    for (size_t i = 0; i < running.device_blocks; i++)
        running.backend->release(running.device_block[i]);
    running.device_blocks = 0;
}

bool check_within(const char *category, double error, double bound)
{
    running.comparisons++;
    const double ratio = error == 0 ? 0 : error / bound;
    for (size_t i = 0; i < CATEGORIES; i++) {
        if (margins[i].category == NULL)
            margins[i].category = category;
        if (strcmp(margins[i].category, category) != 0)
            continue;
        if (!(ratio <= margins[i].worst)) {
            margins[i].worst = ratio;
            snprintf(margins[i].where, sizeof margins[i].where, "%s", running_name);
        }
        break;
    }
    return error <= bound;
}

const char *check_running(void)
{
    return running_name;
}

void check_print_margins(void)
{
    for (size_t i = 0; i < CATEGORIES && margins[i].category != NULL; i++)
        printf("margin %-24s %8.4f  %s\n", margins[i].category, margins[i].worst, margins[i].where);
}

static const char *mask_name(enum glint_mask mask)
{
    static const char *const names[] = {
        "?", "none", "causal_top_left", "causal_bottom_right", "band_top_left", "band_bottom_right"};
    return (size_t)mask < sizeof names / sizeof names[0] ? names[mask] : names[0];
}

static void describe(const struct check_list *list, const struct check *check, char *message, size_t bytes)
{
    static const char *const layouts[LAYOUTS] = {"bshd", "bhsd", "sbhd", "padded", "mixed", "fused", "broadcast", "one_row"};
    static const char *const data[DATA_KINDS] = {"normal", "grid", "low", "high", "below_sentinel", "rising", "falling", "one_hot"};
    const struct shape *s = &check->shape;
    const char *bazel = getenv("TEST_TARGET"), *variant = check->subject != NULL ? check->subject->info.name : list->target;
    char target[128];
    snprintf(target, sizeof target, "%s%s", list->target != NULL ? "" : "//tests:", list->target != NULL ? list->target : variant);
    if (bazel == NULL)
        bazel = target;
    int length = snprintf(message, bytes, "%s: %s: %s\n", variant, check->name, running.reason);
    if (check->subject != NULL)
        length += snprintf(
            message + length, bytes - (size_t)length,
            "  batch %lld heads %lld:%lld seqlen_q %lld seqlen_k %lld %s %lld:%lld diagonal %lld, layout %s, data %s, scale %g, softcap %g%s%s%s%s, seed %#llx\n",
            (long long)s->batch, (long long)s->heads_q, (long long)s->heads_kv, (long long)s->seqlen_q, (long long)s->seqlen_k,
            mask_name(s->mask), (long long)s->window_left, (long long)s->window_right, (long long)s->diagonal, layouts[s->layout],
            data[s->data], (double)s->softmax_scale, (double)s->softcap, s->sinks ? ", sinks" : "", s->dlse ? ", dLSE" : "",
            s->alibi == SLOPES ? ", ALiBi" : "", s->bias == BIAS ? ", bias" : "", (unsigned long long)s->seed);
    snprintf(message + length, bytes - (size_t)length, "  again: ./bazelw test %s --test_output=all --test_arg=--case=%s", bazel,
             check->name);
}

bool check_run(const struct check_list *list, const struct check *check, char *message, size_t message_bytes)
{
    running.comparisons = 0;
    running.blocks = 0;
    running_name = check->name;
    volatile bool passed = false;
    if (check->subject != NULL)
        check->subject->multiprocessors = 0;
    if (setjmp(running.failed) == 0) {
        check->run(check->subject, &check->shape);
        if (running.comparisons == 0)
            check_fail("the check compared nothing");
        passed = true;
    } else {
        describe(list, check, message, message_bytes);
    }
    for (size_t i = 0; i < running.blocks; i++)
        free(running.block[i]);
    running.blocks = 0;
    check_device_release_all();
    running_name = "";
    return passed;
}

/* ---- lists ---- */

/* Where every byte is watched, two sequences tell as much as more of them, and of long ones one does. */
static void keep_small(struct shape *shape)
{
    const int64_t most = shape->seqlen_q * shape->seqlen_k > 64 * 64 ? 1 : 2;
    if (shape->batch > most)
        shape->batch = most;
}

/* A row of bands computes no causal mask: what a check says of one it shows by the same mask, written as a band whose
 * left side hides nothing. */
static void as_band(const struct subject *subject, struct shape *shape)
{
    if (subject == NULL || (subject->info.features & GLINT_FEATURE_LEFT_BOUND) == 0 || subject->info.queries_up_to > 0 ||
        (shape->mask != GLINT_MASK_CAUSAL_TOP_LEFT && shape->mask != GLINT_MASK_CAUSAL_BOTTOM_RIGHT))
        return;
    shape->mask = shape->mask == GLINT_MASK_CAUSAL_TOP_LEFT ? GLINT_MASK_BAND_TOP_LEFT : GLINT_MASK_BAND_BOTTOM_RIGHT;
    shape->window_left = GLINT_MAX_EXTENT;
    shape->window_right = 0;
}

/* A row that reads intervals computes no problem without them: what a check says of a mask it shows by intervals that
 * say the same, or by the mask beside intervals that hide nothing. A row of decode computes problems of any mask as
 * well. Beside a tree there need be no intervals. */
static void as_intervals(const struct subject *subject, struct shape *shape, size_t number)
{
    if (subject == NULL || !subject_intervals(subject) || shape->intervals != NO_INTERVALS || shape->tree != NO_TREE)
        return;
    const bool decode = subject->info.queries_up_to > 0;
    shape->intervals = number % 2 != 0 ? MASK_AS_INTERVALS : decode && number % 4 == 0 ? NO_INTERVALS : WIDE_INTERVALS;
}

/* Nor does one that reads a tree: it shows a mask by intervals beside bits that are all set, or by the bits. */
static void as_tree(const struct subject *subject, struct shape *shape, size_t number)
{
    if (subject == NULL || !subject_tree(subject) || shape->tree != NO_TREE)
        return;
    const bool decode = subject->info.queries_up_to > 0;
    shape->tree = decode && number % 4 == 0 ? NO_TREE : number % 3 == 0 ? WIDE_TREE : MASK_AS_TREE;
}

/* A row of a GPU that caps scores computes no problem without a softcap: what a check says of one it shows with a cap
 * that is far above. */
static void as_capped(const struct subject *subject, struct shape *shape)
{
    if (subject != NULL && subject_caps(subject) && subject->info.isa == GLINT_ISA_ANY && shape->softcap == 0)
        shape->softcap = 0x1p50f;
}

/* A row with ALiBi computes no problem without it: what a check says of one it shows with slopes of 0. */
static void as_alibi(const struct subject *subject, struct shape *shape)
{
    if (subject != NULL && subject_alibi(subject) && shape->alibi == NO_ALIBI)
        shape->alibi = ZERO_SLOPES;
}

/* Nor does one with a bias: it shows that with zeros, which all dimensions share. */
static void as_biased(const struct subject *subject, struct shape *shape)
{
    if (subject != NULL && subject_bias(subject) && shape->bias == NO_BIAS) {
        shape->bias = ZERO_BIAS;
        shape->bias_shared = SHARED_BATCH | SHARED_HEAD | SHARED_QUERY | SHARED_KEY;
    }
}

void checks_add(struct check_list *list, void (*run)(struct subject *, const struct shape *), const struct shape *shape,
                const char *name, ...)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity * 2 + 64;
        list->at = realloc(list->at, list->capacity * sizeof *list->at);
        if (list->at == NULL)
            abort();
    }
    struct check *check = &list->at[list->count++];
    va_list arguments;
    va_start(arguments, name);
    vsnprintf(check->name, sizeof check->name, name, arguments);
    va_end(arguments);
    check->run = run;
    check->subject = list->subject;
    check->shape = *shape;
    check->threads = false;
    as_band(check->subject, &check->shape);
    as_capped(check->subject, &check->shape);
    as_alibi(check->subject, &check->shape);
    as_biased(check->subject, &check->shape);
    as_intervals(check->subject, &check->shape, list->count);
    as_tree(check->subject, &check->shape, list->count);
    if (check->shape.seed == 0)
        check->shape.seed = 0x61740000u + list->count;
    if (check->subject != NULL && check->subject->backend != NULL && check->subject->backend->exact)
        keep_small(&check->shape);
}

void checks_free(struct check_list *list)
{
    free(list->at);
    *list = (struct check_list){0};
}

/* ---- subjects ---- */

static bool same_key(const struct glint_variant_info *a, const struct glint_variant_info *b)
{
    return a->dtype == b->dtype && a->kv_dtype == b->kv_dtype && a->head_dim == b->head_dim && a->features == b->features &&
           a->isa == b->isa && a->math == b->math && strcmp(a->family, b->family) == 0;
}

void subject_open_index(struct subject *subject, const struct backend *backend, uint32_t index)
{
    *subject = (struct subject){.backend = backend, .variant = index};
    subject->info.struct_size = sizeof subject->info;
    if (backend->variant_at(index, &subject->info) != GLINT_OK)
        abort();
}

bool subject_open(struct subject *subject, const struct backend *backend, const char *variant_name)
{
    for (uint32_t i = 0; i < backend->variant_count(); i++) {
        struct glint_variant_info info = {.struct_size = sizeof info};
        if (backend->variant_at(i, &info) == GLINT_OK && strcmp(info.name, variant_name) == 0) {
            subject_open_index(subject, backend, i);
            return true;
        }
    }
    return false;
}

void subject_close(struct subject *subject)
{
    for (int i = 0; i < LANES_KINDS; i++)
        if (subject->context[i] != NULL)
            subject->backend->close(subject->context[i]);
    memset(subject->context, 0, sizeof subject->context);
}

struct glint_context *subject_context(struct subject *subject, enum lanes lanes)
{
    if (!subject->backend->executors)
        lanes = LANES_SERIAL;
    if (subject->context[lanes] == NULL) {
        enum glint_status status = subject->backend->open(test_executor(lanes), &subject->context[lanes]);
        if (status != GLINT_OK)
            check_fail("the context did not open: %s", subject->backend->status_name(status));
    }
    if (subject->backend->plan_for != NULL)
        subject->backend->plan_for(subject->context[lanes], subject->multiprocessors);
    return subject->context[lanes];
}

bool subject_forward(struct subject *subject, uint32_t *variant)
{
    const struct backend *backend = subject->backend;
    *variant = subject->variant;
    if (subject->info.pass == GLINT_FORWARD)
        return true;
    for (uint32_t i = 0; i < backend->variant_count(); i++) {
        struct glint_variant_info other = {.struct_size = sizeof other};
        *variant = i;
        if (backend->variant_at(i, &other) == GLINT_OK && other.pass == GLINT_FORWARD && same_key(&other, &subject->info) &&
            backend->variant_available(subject_context(subject, LANES_SERIAL), i) == GLINT_OK)
            return true;
    }
    return false;
}

bool subject_checks_sinks(const struct subject *subject)
{
    const struct glint_variant_info *info = &subject->info;
    if (info->isa != GLINT_ISA_ANY)
        return true;
    if (info->sm == 0) /* the stand-in of tests/checks/stand_in.c, which has none */
        return false;
    /* The kernel that makes the gradient of sinks knows neither tile nor head dim: rows of one head dim, odd ones and
     * Hopper's of 256, whose warpgroups have roles, show it. */
    return info->pass == GLINT_FORWARD || info->head_dim == 64 || info->head_dim % 32 != 0 ||
           (info->head_dim == 256 && strcmp(info->family, "sm80") != 0);
}

/* Rows take problems of the bounds that they have; decode's serve problems of fewer bounds, too. */
static bool serves(const struct subject *subject, bool left, bool right)
{
    const uint32_t all = GLINT_FEATURE_LEFT_BOUND | GLINT_FEATURE_RIGHT_BOUND, has = subject->info.features & all;
    const uint32_t wanted = left ? all : right ? GLINT_FEATURE_RIGHT_BOUND : 0;
    return has == wanted || (subject->info.queries_up_to > 0 && (has & wanted) == wanted);
}

bool subject_band(const struct subject *subject, int which, struct shape *shape)
{
    static const struct {
        enum glint_mask mask;
        int64_t left, right;
    } bands[] = {
        {GLINT_MASK_BAND_BOTTOM_RIGHT, GLINT_UNBOUNDED, GLINT_UNBOUNDED},
        {GLINT_MASK_BAND_TOP_LEFT, GLINT_UNBOUNDED, GLINT_UNBOUNDED},
        {GLINT_MASK_BAND_BOTTOM_RIGHT, GLINT_UNBOUNDED, 1},
        {GLINT_MASK_BAND_TOP_LEFT, GLINT_UNBOUNDED, 0},
        {GLINT_MASK_BAND_BOTTOM_RIGHT, 1, GLINT_UNBOUNDED},
        {GLINT_MASK_BAND_TOP_LEFT, 0, GLINT_UNBOUNDED},
        {GLINT_MASK_BAND_BOTTOM_RIGHT, 2, 0},
        {GLINT_MASK_BAND_TOP_LEFT, 0, 1},
    };
    for (size_t i = 0; i < sizeof bands / sizeof bands[0]; i++) {
        if (!serves(subject, bands[i].left != GLINT_UNBOUNDED, bands[i].right != GLINT_UNBOUNDED) || which-- > 0)
            continue;
        shape->mask = bands[i].mask;
        shape->window_left = bands[i].left;
        shape->window_right = bands[i].right;
        return true;
    }
    return false;
}

bool subject_caps(const struct subject *subject)
{
    return (subject->info.features & GLINT_FEATURE_SOFTCAP) != 0;
}

bool subject_is_step(const struct subject *subject)
{
    return strstr(subject->info.name, "_step_") != NULL;
}

struct glint_problem subject_problem(const struct subject *subject)
{
    struct glint_problem p;
    glint_problem_bshd(&p, (enum glint_dtype)subject->info.dtype, 1, 1, 1, 1, 1, subject->info.head_dim);
    p.kv_dtype = subject->info.kv_dtype;
    p.kv_scales = p.kv_dtype == GLINT_I8 ? GLINT_SCALES_ROW : p.kv_dtype != 0 ? GLINT_SCALES_HEAD : GLINT_SCALES_NONE;
    p.intervals = subject_intervals(subject);
    p.tree = subject_tree(subject);
    p.alibi = subject_alibi(subject);
    p.bias_dtype = subject_bias(subject) ? GLINT_F32 : 0;
    p.softcap = subject_caps(subject) ? 1.0f : 0.0f;
    p.mask = (subject->info.features & GLINT_FEATURE_LEFT_BOUND) != 0    ? GLINT_MASK_BAND_BOTTOM_RIGHT
             : (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0 ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT
                                                                         : GLINT_MASK_NONE;
    return p;
}

bool subject_plans(struct subject *subject, const struct glint_problem *problem)
{
    struct glint_plan plan = {.struct_size = sizeof plan};
    return subject->backend->plan(subject_context(subject, LANES_SERIAL), problem, (enum glint_pass)subject->info.pass,
                                  subject->variant, &plan) == GLINT_OK;
}

bool subject_takes_logit(struct subject *subject)
{
    struct glint_problem p = subject_problem(subject);
    p.max_logit = 1;
    return subject_plans(subject, &p);
}

bool subject_intervals(const struct subject *subject)
{
    return (subject->info.features & GLINT_FEATURE_INTERVALS) != 0;
}

bool subject_tree(const struct subject *subject)
{
    return (subject->info.features & GLINT_FEATURE_TREE) != 0;
}

bool subject_bias(const struct subject *subject)
{
    return (subject->info.features & GLINT_FEATURE_BIAS) != 0;
}

bool subject_alibi(const struct subject *subject)
{
    return (subject->info.features & GLINT_FEATURE_ALIBI) != 0;
}

bool subject_diagonal(const struct subject *subject, int which, struct shape *shape)
{
    static const int64_t diagonals[] = {-2, 3, INT64_MIN, INT64_MAX};
    int bands = 0;
    if (which >= (int)(sizeof diagonals / sizeof diagonals[0]) || (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) == 0)
        return false;
    while (subject_band(subject, bands, shape))
        bands++;
    shape->diagonal = diagonals[which];
    return subject_band(subject, bands - 1 - which % 2, shape);
}
