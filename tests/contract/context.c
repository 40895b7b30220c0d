/* The context: its storage, its options, its life; and the status sentences. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tests/contract/suite.h"
#include "tests/contract/world.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Runs a small call of each pass on the CPU. Default options take a GPU where there is one, and its kernels cannot
 * read the host's memory. */
static void works(const struct glint_context *context)
{
    struct glint_device_info device = {.struct_size = sizeof device};
    EXPECT(glint_context_device(context, &device) == GLINT_OK, "device");
    if (device.device != GLINT_DEVICE_CPU)
        return;
    for (enum glint_pass pass = GLINT_FORWARD; pass <= GLINT_BACKWARD; pass++) {
        if (!runs_pass(context, pass))
            continue;
        const struct glint_variant_info info = first_row(context, pass);
        struct glint_problem p = {0};
        struct call c;
        glint_problem_bshd(&p, (enum glint_dtype)info.dtype, 1, 2, 3, 2, 1, info.head_dim);
        serve_cache(&p, &info);
        p.mask = row_mask(&info, false);
        call_make(&c, context, &p, pass, 1);
        const enum glint_status status = call_run(&c);
        EXPECT(status == GLINT_OK && call_canaries_hold(&c), "%s gives %s", pass_name(pass), glint_status_name(status));
        call_free(&c);
    }
}

/* ---- storage ----------------------------------------------------------------------------------------------------- */

static void exact_storage(void)
{
    const size_t bytes = glint_context_size();
    EXPECT(bytes > 0 && bytes <= 65536 && bytes == glint_context_size(), "glint_context_size() is %zu", bytes);
    for (int at_end = 0; at_end < 2; at_end++) { /* inaccessible pages on either side */
        struct guarded g = guarded_make(bytes, GLINT_CONTEXT_ALIGNMENT, at_end);
        struct glint_context *context = NULL;
        const enum glint_status status = glint_context_init(g.at, bytes, NULL, &context);
        EXPECT(status == GLINT_OK && (void *)context == (void *)g.at, "init gives %s", glint_status_name(status));
        works(context);
        EXPECT(guarded_canaries_hold(&g), "the context wrote outside its storage");
        EXPECT(glint_context_close(context) == GLINT_OK, "close");
        guarded_free(&g);
    }
    contract_note("glint_context_size() = %zu", bytes);
}

static void refused_storage(void)
{
    const size_t bytes = glint_context_size();
    unsigned char *const storage = aligned_memory(4096, bytes + 4096), *const before = malloc(bytes + 4096);
    memset(storage, CANARY, bytes + 4096);
    memcpy(before, storage, bytes + 4096);
    size_t cases = 0;
    for (size_t given = 0; given < bytes; given = given < 64 || given + 64 >= bytes ? given + 1 : given + 61, cases++) {
        struct glint_context *context = (struct glint_context *)(void *)storage;
        const enum glint_status status = glint_context_init(storage, given, NULL, &context);
        EXPECT(status == GLINT_STORAGE_TOO_SMALL && context == NULL, "%zu of %zu bytes give %s", given, bytes,
               glint_status_name(status));
    }
    for (size_t shift = 1; shift < GLINT_CONTEXT_ALIGNMENT; shift++, cases++) {
        struct glint_context *context = (struct glint_context *)(void *)storage;
        const enum glint_status status = glint_context_init(storage + shift, bytes, NULL, &context);
        EXPECT(status == GLINT_STORAGE_MISALIGNED && context == NULL, "storage at + %zu gives %s", shift,
               glint_status_name(status));
    }
    struct glint_context *context = (struct glint_context *)(void *)storage;
    EXPECT(glint_context_init(NULL, bytes, NULL, &context) == GLINT_NULL_ARGUMENT && context == NULL, "NULL storage");
    EXPECT(glint_context_init(storage, bytes, NULL, NULL) == GLINT_NULL_ARGUMENT, "NULL context");
    EXPECT(glint_context_init(NULL, 0, NULL, NULL) == GLINT_NULL_ARGUMENT, "all NULL");
    EXPECT(memcmp(storage, before, bytes + 4096) == 0, "a refused init wrote the storage");
    EXPECT(glint_context_init(storage, bytes, NULL, &context) == GLINT_OK, "after %zu refusals", cases);
    works(context);
    EXPECT(memcmp(storage + bytes, before + bytes, 4096) == 0, "the context wrote outside its storage");
    EXPECT(glint_context_close(context) == GLINT_OK, "close");
    free(storage);
    free(before);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void open_and_close(void)
{
    const size_t bytes = glint_context_size();
    unsigned char *const storage = aligned_memory(GLINT_CONTEXT_ALIGNMENT, bytes);
    for (int i = 0; i < 1000; i++) {
        struct glint_context *context = NULL;
        if (i % 3 == 0)
            memset(storage, i & 0xff, bytes); /* storage that was never a context, or was one */
        EXPECT(glint_context_init(storage, bytes, NULL, &context) == GLINT_OK, "cycle %d", i);
        if (i % 100 == 0)
            works(context);
        EXPECT(glint_context_close(context) == GLINT_OK, "cycle %d", i);
        EXPECT(glint_context_close(context) == GLINT_CONTEXT_CLOSED, "twice, cycle %d", i);
    }
    EXPECT(glint_context_close(NULL) == GLINT_CONTEXT_CLOSED, "NULL");
    memset(storage, 0, bytes);
    EXPECT(glint_context_close((struct glint_context *)(void *)storage) == GLINT_CONTEXT_CLOSED, "never opened");
    free(storage);
}

/* Nothing is shared: each answers with its own executor, and closing one leaves the other. Plans say whose they are. */
static void two_contexts(void)
{
    void *storage[2];
    struct counting counting[2];
    struct glint_context *context[2];
    for (uint32_t i = 0; i < 2; i++)
        context[i] = open_context(&counting[i], i + 1, &storage[i]);
    works(context[0]);
    const uint64_t calls = counting[0].calls;
    EXPECT(counting[1].calls == 0, "the other context's executor was called");
    works(context[1]);
    EXPECT(counting[0].calls == calls, "the other context's executor was called");
    EXPECT(glint_context_close(context[0]) == GLINT_OK, "close");
    works(context[1]);
    struct glint_device_info info = {.struct_size = sizeof info};
    EXPECT(glint_context_device(context[1], &info) == GLINT_OK && info.concurrency == 2, "concurrency is %u", info.concurrency);
    EXPECT(glint_context_close(context[1]) == GLINT_OK, "close");
    free(storage[0]);
    free(storage[1]);
}

static void options_are_copied(void)
{
    void *storage = aligned_memory(GLINT_CONTEXT_ALIGNMENT, glint_context_size());
    struct counting counting;
    struct glint_options *const options = malloc(sizeof *options);
    *options = (struct glint_options)GLINT_OPTIONS_INIT;
    options->device = GLINT_DEVICE_CPU;
    options->executor = counting_executor(&counting, 3);
    struct glint_context *context = NULL;
    EXPECT(glint_context_init(storage, glint_context_size(), options, &context) == GLINT_OK, "init");
    memset(options, 0xff, sizeof *options);
    free(options);
    works(context);
    EXPECT(counting.calls > 0, "the executor was never called");
    EXPECT(glint_context_close(context) == GLINT_OK, "close");
    free(storage);
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static void no_parallel(void *user, uint32_t count, void (*body)(void *argument, uint32_t index), void *argument)
{
    (void)user, (void)count, (void)body, (void)argument;
}

static void init_gives(const struct glint_options *options, enum glint_status first, enum glint_status last, const char *what,
                       long long value)
{
    const size_t bytes = glint_context_size();
    void *const storage = aligned_memory(GLINT_CONTEXT_ALIGNMENT, bytes);
    memset(storage, 0x55, bytes);
    struct glint_context *context = (struct glint_context *)storage;
    const enum glint_status status = glint_context_init(storage, bytes, options, &context);
    EXPECT(status >= first && status <= last, "%s = %lld gives %s, not %s", what, value, glint_status_name(status),
           glint_status_name(first));
    if (status == GLINT_OK)
        EXPECT(glint_context_close(context) == GLINT_OK, "close");
    else
        EXPECT(context == NULL && glint_context_close(storage) == GLINT_CONTEXT_CLOSED, "a refused context is open: %s", what);
    EXPECT(glint_context_driver_error(storage) == 0, "an error of a context that is not open: %s", what);
    free(storage);
}

static void refused_options(void)
{
    const struct glint_options good = {sizeof good, GLINT_DEVICE_CPU, 0, GLINT_ISA_ANY, {0, 0, NULL, NULL}, 0, 0};
    struct glint_options o;
    init_gives(&good, GLINT_OK, GLINT_OK, "options", 0);

    const uint32_t sizes[] = {0, 1, sizeof good - 1, sizeof good + 1, sizeof good - 8, sizeof good + 8, UINT32_MAX};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        o = good;
        o.struct_size = sizes[i];
        init_gives(&o, GLINT_STRUCT_SIZE, GLINT_STRUCT_SIZE, "struct_size", sizes[i]);
    }
    const uint32_t kinds[] = {4, 5, 255, 256, 0x80000000u, UINT32_MAX};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        o = good;
        o.device = kinds[i];
        init_gives(&o, GLINT_BAD_OPTION, GLINT_BAD_OPTION, "device", kinds[i]);
    }
    const int32_t ordinals[] = {1, -1, INT_MAX, INT_MIN};
    for (size_t i = 0; i < COUNT(ordinals); i++) { /* an ordinal is for GLINT_DEVICE_CUDA */
        o = good;
        o.cuda_device = ordinals[i];
        init_gives(&o, GLINT_BAD_OPTION, GLINT_BAD_OPTION, "cuda_device", ordinals[i]);
    }
    const uint32_t isas[] = {6, 7, 15, 17, 255, 65536, UINT32_MAX};
    for (size_t i = 0; i < COUNT(isas); i++) {
        o = good;
        o.max_isa = isas[i];
        init_gives(&o, GLINT_BAD_OPTION, GLINT_BAD_OPTION, "max_isa", isas[i]);
    }
    const uint32_t words[] = {2, 3, 255, 256, 0x80000000u, UINT32_MAX};
    for (size_t i = 0; i < COUNT(words); i++) {
        o = good;
        o.amx = words[i];
        init_gives(&o, GLINT_BAD_OPTION, GLINT_BAD_OPTION, "amx", words[i]);
        o = good;
        o.reserved = words[i] - 1;
        init_gives(&o, GLINT_BAD_OPTION, GLINT_BAD_OPTION, "reserved", words[i] - 1);
    }

    const struct glint_executor fine = {sizeof fine, 1, no_parallel, NULL};
    o = good;
    o.executor = fine;
    init_gives(&o, GLINT_OK, GLINT_OK, "executor", 0);
    const uint32_t concurrencies[] = {0, GLINT_MAX_CONCURRENCY + 1, 65536, UINT32_MAX};
    for (size_t i = 0; i < COUNT(concurrencies); i++) {
        o.executor = fine;
        o.executor.concurrency = concurrencies[i];
        init_gives(&o, GLINT_BAD_EXECUTOR, GLINT_BAD_EXECUTOR, "concurrency", concurrencies[i]);
    }
    o.executor = fine;
    o.executor.concurrency = GLINT_MAX_CONCURRENCY;
    init_gives(&o, GLINT_OK, GLINT_OK, "concurrency", GLINT_MAX_CONCURRENCY);
    o.executor = fine;
    o.executor.parallel_for = NULL;
    init_gives(&o, GLINT_BAD_EXECUTOR, GLINT_BAD_EXECUTOR, "parallel_for", 0);
    const uint32_t executor_sizes[] = {1, sizeof fine - 1, sizeof fine + 1, UINT32_MAX};
    for (size_t i = 0; i < COUNT(executor_sizes); i++) {
        o.executor = fine;
        o.executor.struct_size = executor_sizes[i];
        init_gives(&o, GLINT_STRUCT_SIZE, GLINT_STRUCT_SIZE, "executor.struct_size", executor_sizes[i]);
    }
    o.executor = fine;
    o.executor.struct_size = 0; /* neither all zero nor of a known size */
    init_gives(&o, GLINT_STRUCT_SIZE, GLINT_BAD_EXECUTOR, "executor.struct_size", 0);
    o.executor = (struct glint_executor){0, 0, NULL, &o};
    init_gives(&o, GLINT_STRUCT_SIZE, GLINT_BAD_EXECUTOR, "executor of a user alone", 0);
}

/* A GPU that is not there is a status, never a crash; where there is one, either answer is right. */
static void absent_devices(void)
{
    struct glint_options o = GLINT_OPTIONS_INIT;
    init_gives(&o, GLINT_OK, GLINT_OK, "device auto", 0);
    o.device = GLINT_DEVICE_CUDA_CURRENT;
    init_gives(&o, GLINT_NO_DRIVER, GLINT_DEVICE_LOST, "current CUDA device", 0);
    o.device = GLINT_DEVICE_CUDA;
    const int32_t ordinals[] = {1000, INT_MAX, -1, INT_MIN};
    for (size_t i = 0; i < COUNT(ordinals); i++) {
        o.cuda_device = ordinals[i];
        init_gives(&o, ordinals[i] < 0 ? GLINT_BAD_OPTION : GLINT_NO_DRIVER, GLINT_NO_KERNEL_IMAGE, "cuda_device", ordinals[i]);
    }
}

static void isa_cap(void)
{
    struct glint_device_info best = {.struct_size = sizeof best}, info = best;
    void *storage;
    struct glint_context *context = open_serial(&storage);
    EXPECT(glint_context_device(context, &best) == GLINT_OK, "device");
    EXPECT(best.device == GLINT_DEVICE_CPU && best.isa != GLINT_ISA_ANY && best.cuda_device == -1 && best.sm == 0 &&
               best.driver_error == 0 && best.concurrency == 1,
           "device %u isa %u cuda_device %d sm %u driver_error %d concurrency %u", best.device, best.isa, best.cuda_device, best.sm,
           best.driver_error, best.concurrency);
    uint32_t available = 0;
    for (uint32_t i = 0; i < glint_variant_count(); i++)
        available += glint_variant_available(context, i) == GLINT_OK;
    EXPECT(available == best.variants_loaded && available > 0, "%u rows are available, %u loaded", available, best.variants_loaded);
    EXPECT(glint_context_close(context) == GLINT_OK, "close");

    const uint32_t lowest = best.isa >= GLINT_ISA_AARCH64 ? GLINT_ISA_AARCH64 : GLINT_ISA_X86_64;
    for (uint32_t cap = lowest; cap <= best.isa; cap++) {
        struct glint_options o = GLINT_OPTIONS_INIT;
        o.device = GLINT_DEVICE_CPU;
        o.max_isa = cap;
        const enum glint_status status = glint_context_init(storage, glint_context_size(), &o, &context);
        bool listed = false; /* a spec need not list the lowest */
        for (uint32_t i = 0; i < glint_variant_count(); i++)
            listed = listed || (row_at(i).isa >= lowest && row_at(i).isa <= cap);
        if (!listed)
            continue;
        EXPECT(status == GLINT_OK, "max_isa %u gives %s", cap, glint_status_name(status));
        EXPECT(glint_context_device(context, &info) == GLINT_OK && info.isa >= lowest && info.isa <= cap, "isa %u with cap %u",
               info.isa, cap);
        for (uint32_t i = 0; i < glint_variant_count(); i++) {
            const struct glint_variant_info row = row_at(i);
            const enum glint_status can = glint_variant_available(context, i);
            const bool should = row.isa >= lowest && row.isa <= cap;
            EXPECT(can == (should ? GLINT_OK : GLINT_NOT_ON_DEVICE), "%s with cap %u gives %s", row.name, cap,
                   glint_status_name(can));
        }
        if (info.variants_loaded > 0)
            works(context);
        EXPECT(glint_context_close(context) == GLINT_OK, "close");
    }
    free(storage);
}

static void device_arguments(void)
{
    void *storage;
    struct glint_context *const context = open_serial(&storage);
    struct glint_device_info info = {.struct_size = sizeof info};
    EXPECT(glint_context_device(NULL, &info) == GLINT_NULL_ARGUMENT, "NULL context");
    EXPECT(glint_context_driver_error(NULL) == 0, "an error of no context");
    EXPECT(glint_context_device(context, NULL) == GLINT_NULL_ARGUMENT, "NULL info");
    EXPECT(glint_variant_available(NULL, 0) == GLINT_NULL_ARGUMENT, "NULL context");
    EXPECT(glint_variant_available(context, glint_variant_count()) == GLINT_BAD_INDEX, "index past the end");
    EXPECT(glint_variant_available(context, UINT32_MAX) == GLINT_BAD_INDEX, "index past the end");
    EXPECT(glint_context_close(context) == GLINT_OK, "close");
    free(storage);
}

/* ---- status ------------------------------------------------------------------------------------------------------ */

/* The numbers are stable: this list only grows. */
static const struct {
    int number;
    enum glint_status status;
    const char *name;
} statuses[] = {
#define STATUS(number, name) \
    {                        \
        number, name, #name  \
    }
    STATUS(0, GLINT_OK),
    STATUS(1, GLINT_NULL_ARGUMENT),
    STATUS(2, GLINT_STRUCT_SIZE),
    STATUS(3, GLINT_CONTEXT_CLOSED),
    STATUS(4, GLINT_STORAGE_TOO_SMALL),
    STATUS(5, GLINT_STORAGE_MISALIGNED),
    STATUS(6, GLINT_BAD_OPTION),
    STATUS(7, GLINT_BAD_EXECUTOR),
    STATUS(8, GLINT_BAD_INDEX),
    STATUS(16, GLINT_BAD_PASS),
    STATUS(17, GLINT_BAD_DTYPE),
    STATUS(18, GLINT_BAD_MASK),
    STATUS(19, GLINT_BAD_HEAD_DIM),
    STATUS(20, GLINT_BAD_BATCH),
    STATUS(21, GLINT_BAD_HEADS),
    STATUS(22, GLINT_BAD_HEAD_GROUP),
    STATUS(23, GLINT_BAD_SEQLEN),
    STATUS(24, GLINT_BAD_SCALE),
    STATUS(25, GLINT_BAD_STRIDE),
    STATUS(26, GLINT_STRIDE_MISALIGNED),
    STATUS(27, GLINT_SIZE_OVERFLOW),
    STATUS(28, GLINT_BAD_RESERVED),
    STATUS(29, GLINT_BAD_WINDOW),
    STATUS(30, GLINT_BAD_LENGTHS),
    STATUS(31, GLINT_BAD_SOFTCAP),
    STATUS(32, GLINT_NOT_IN_SPEC),
    STATUS(33, GLINT_NOT_ON_DEVICE),
    STATUS(40, GLINT_BAD_PLAN),
    STATUS(41, GLINT_WRONG_PASS),
    STATUS(42, GLINT_NULL_TENSOR),
    STATUS(43, GLINT_TENSOR_MISALIGNED),
    STATUS(44, GLINT_TENSOR_OVERLAP),
    STATUS(45, GLINT_WORKSPACE_TOO_SMALL),
    STATUS(46, GLINT_WORKSPACE_MISALIGNED),
    STATUS(47, GLINT_BAD_STREAM),
    STATUS(48, GLINT_BAD_SINKS),
    STATUS(49, GLINT_BAD_KV_DTYPE),
    STATUS(50, GLINT_BAD_SCALES),
    STATUS(51, GLINT_BAD_PAGES),
    STATUS(52, GLINT_BAD_RAGGED),
    STATUS(53, GLINT_BAD_APPEND),
    STATUS(54, GLINT_BAD_MERGE),
    STATUS(55, GLINT_BAD_DIAGONAL),
    STATUS(56, GLINT_BAD_ORDER),
    STATUS(57, GLINT_BAD_INTERVALS),
    STATUS(58, GLINT_BAD_ALIBI),
    STATUS(59, GLINT_BAD_BIAS),
    STATUS(60, GLINT_BAD_LOGIT),
    STATUS(61, GLINT_BAD_TREE),
    STATUS(64, GLINT_NO_DRIVER),
    STATUS(65, GLINT_DRIVER_TOO_OLD),
    STATUS(66, GLINT_NO_DEVICE),
    STATUS(67, GLINT_NO_KERNEL_IMAGE),
    STATUS(68, GLINT_DRIVER_ERROR),
    STATUS(69, GLINT_DEVICE_OUT_OF_MEMORY),
    STATUS(70, GLINT_DEVICE_LOST),
    STATUS(71, GLINT_NO_AMX),
    STATUS(80, GLINT_SELFTEST_FAILED),
#undef STATUS
};

static bool is_status(int number)
{
    for (size_t i = 0; i < COUNT(statuses); i++) {
        if (statuses[i].number == number)
            return true;
    }
    return false;
}

static void status_sentences(void)
{
    for (size_t i = 0; i < COUNT(statuses); i++) {
        const enum glint_status s = statuses[i].status;
        EXPECT((int)s == statuses[i].number, "%s is %d", statuses[i].name, (int)s);
        EXPECT(strcmp(glint_status_name(s), statuses[i].name) == 0, "%s is named %s", statuses[i].name, glint_status_name(s));
        const char *const sentence = glint_status_sentence(s);
        EXPECT(sentence != NULL && strlen(sentence) >= 8 && sentence == glint_status_sentence(s), "%s: %s", statuses[i].name,
               sentence);
        EXPECT(strchr(sentence, '\n') == NULL, "%s has a line break", statuses[i].name);
        for (size_t j = 0; j < i; j++) {
            EXPECT(strcmp(sentence, glint_status_sentence(statuses[j].status)) != 0, "%s and %s share a sentence", statuses[i].name,
                   statuses[j].name);
        }
    }
    const char *const unknown = glint_status_sentence((enum glint_status)9999);
    for (int number = -300; number < 300; number++) {
        const enum glint_status s = (enum glint_status)number;
        EXPECT(glint_status_sentence(s) != NULL && glint_status_name(s) != NULL, "%d gives NULL", number);
        if (is_status(number))
            continue;
        EXPECT(strcmp(glint_status_sentence(s), unknown) == 0, "%d is no status and has the sentence \"%s\"", number,
               glint_status_sentence(s));
        for (size_t i = 0; i < COUNT(statuses); i++)
            EXPECT(strcmp(glint_status_name(s), statuses[i].name) != 0, "%d is called %s", number, statuses[i].name);
    }
    EXPECT(glint_status_sentence((enum glint_status)INT_MAX) != NULL && glint_status_sentence((enum glint_status)INT_MIN) != NULL,
           "NULL");
}

static const struct contract_case cases[] = {
    {"exact_storage", exact_storage, 0},           {"refused_storage", refused_storage, 0},
    {"open_and_close", open_and_close, 0},         {"two_contexts", two_contexts, 0},
    {"options_are_copied", options_are_copied, 0}, {"refused_options", refused_options, 0},
    {"absent_devices", absent_devices, 0},         {"isa_cap", isa_cap, 0},
    {"device_arguments", device_arguments, 0},     {"status_sentences", status_sentences, 0},
};
CONTRACT_MAIN("contract_context", cases)
