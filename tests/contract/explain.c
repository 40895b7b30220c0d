/* glint_explain and glint_explain_call as text: buffers of every length, what a refusal's text says, what an
 * acceptance's says. That the status is the refused call's own, and that the field is named, the refusal suites
 * check for each of their cases. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/contract/refusal_oracle.h"
#include "tests/contract/suite.h"
#include "tests/contract/world.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct glint_problem some_problem(const struct glint_variant_info *info)
{
    struct glint_problem p;
    glint_problem_bshd(&p, (enum glint_dtype)info->dtype, 2, 5, 6, 4, 2, info->head_dim);
    serve_cache(&p, info);
    p.mask = row_mask(info, true);
    return p;
}

/* Every buffer length from none to more than enough: a prefix of the text, terminated, and not a byte beyond. */
static void every_length(void)
{
    enum { MOST = 4096 };
    void *storage;
    struct glint_context *const context = open_serial(&storage);
    const struct glint_variant_info info = first_row(context, GLINT_FORWARD);
    struct glint_problem p = some_problem(&info);
    struct call c;
    call_make(&c, context, &p, GLINT_FORWARD, 1);
    for (int kind = 0; kind < 4; kind++) { /* a plan, a refusal; a call, a refused call */
        static char whole[MOST], part[MOST + 64];
        size_t needed = 0, again;
        p.seqlen_k = kind % 2 ? -5 : c.problem.seqlen_k;
        const void *const stream = kind == 3 ? &p : NULL;
        for (size_t bytes = MOST;; bytes = bytes == MOST ? needed + 3 : bytes - 1) {
            memset(part, '#', sizeof part);
            again = 0;
            const enum glint_status status = kind < 2 ? glint_explain(context, &p, GLINT_FORWARD, part, bytes, &again)
                                                      : glint_explain_call(&c.plan, GLINT_FORWARD, &c.tensors, c.workspace,
                                                                           c.workspace_bytes, stream, part, bytes, &again);
            const enum glint_status expected = kind == 1 ? GLINT_BAD_SEQLEN : kind == 3 ? GLINT_BAD_STREAM : GLINT_OK;
            EXPECT(status == expected, "kind %d, %zu bytes: %s", kind, bytes, glint_status_name(status));
            if (bytes == MOST) {
                needed = again;
                memcpy(whole, part, MOST);
                EXPECT(needed > 20 && needed < MOST && memchr(whole, 0, MOST) == whole + needed - 1, "kind %d needs %zu bytes",
                       kind, needed);
            }
            EXPECT(again == needed, "kind %d, %zu bytes: needs %zu, then %zu", kind, bytes, needed, again);
            const size_t kept = bytes < needed ? bytes : needed;
            if (kept > 0) {
                EXPECT(part[kept - 1] == '\0' && memcmp(part, whole, kept - 1) == 0, "kind %d, %zu bytes: \"%.*s\"", kind, bytes,
                       (int)bytes, part);
            }
            for (size_t i = kept > bytes ? kept : bytes; i < sizeof part; i++)
                EXPECT(part[i] == '#', "kind %d, %zu bytes: byte %zu written", kind, bytes, i);
            if (bytes == 0)
                break;
        }
        EXPECT(whole[0] != '\0' && strstr(whole, "%") == NULL && strstr(whole, "(null)") == NULL, "%s", whole);
        /* no buffer, no size wanted */
        again = 0;
        if (kind < 2) {
            EXPECT(glint_explain(context, &p, GLINT_FORWARD, NULL, 0, &again) == (kind ? GLINT_BAD_SEQLEN : GLINT_OK) &&
                       again == needed,
                   "a NULL buffer of none");
            EXPECT(glint_explain(context, &p, GLINT_FORWARD, part, sizeof part, NULL) == (kind ? GLINT_BAD_SEQLEN : GLINT_OK),
                   "no size");
        }
    }
    call_free(&c);
    free(storage);
}

/* In a guarded buffer: not one byte beyond, for the longest text and the shortest buffers. */
static void guarded_buffers(void)
{
    void *storage;
    struct glint_context *const context = open_serial(&storage);
    const struct glint_variant_info info = first_row(context, GLINT_FORWARD);
    struct glint_problem p = some_problem(&info);
    for (size_t bytes = 1; bytes < 600; bytes++) {
        struct guarded g = guarded_make(bytes, 1, true);
        p.head_dim = p.head_dim_v = bytes % 2 ? 8 * 12345 : info.head_dim;
        glint_explain(context, &p, GLINT_FORWARD, (char *)g.at, bytes, NULL);
        EXPECT(memchr(g.at, '\0', bytes) != NULL, "%zu bytes: not terminated", bytes);
        EXPECT(guarded_canaries_hold(&g), "%zu bytes: wrote before the buffer", bytes);
        guarded_free(&g);
    }
    free(storage);
}

/* The value at fault and what would be right are in the text; for what is not in the spec, the nearest variant or
 * the spec's line. */
static void says_what_to_change(void)
{
    void *storage;
    char text[4096];
    struct glint_context *const context = open_serial(&storage);
    const struct glint_variant_info info = first_row(context, GLINT_FORWARD);
    const struct glint_problem good = some_problem(&info);
    struct glint_problem p;
#define REFUSED(expected, ...)                                                                               \
    do {                                                                                                     \
        const char *const words[] = {__VA_ARGS__};                                                           \
        const enum glint_status status = glint_explain(context, &p, GLINT_FORWARD, text, sizeof text, NULL); \
        EXPECT(status == (expected), "%s", glint_status_name(status));                                       \
        for (size_t i = 0; i < COUNT(words); i++)                                                            \
            EXPECT(strstr(text, words[i]) != NULL, "no \"%s\" in:\n%s", words[i], text);                     \
        p = good;                                                                                            \
    } while (0)
    p = good;
    p.batch = -77;
    REFUSED(GLINT_BAD_BATCH, "batch", "-77");
    p.heads_q = 5;
    REFUSED(GLINT_BAD_HEAD_GROUP, "heads_q", "5", "heads_kv", "2");
    p.seqlen_q = GLINT_MAX_EXTENT + 4;
    REFUSED(GLINT_BAD_SEQLEN, "seqlen_q", "1073741827");
    p.head_dim = 65;
    REFUSED(GLINT_BAD_HEAD_DIM, "head_dim", "65", "8");
    p.head_dim_v = info.head_dim - 8;
    REFUSED(GLINT_BAD_HEAD_DIM, "head_dim_v is", "it must be head_dim");
    p.dtype = 9;
    REFUSED(GLINT_BAD_DTYPE, "dtype", "9");
    p.mask = 0;
    REFUSED(GLINT_BAD_MASK, "mask", "0");
    p.lengths = 7;
    REFUSED(GLINT_BAD_LENGTHS, "lengths", "7", "GLINT_LENGTHS_DEVICE");
    p.sinks = 2;
    REFUSED(GLINT_BAD_SINKS, "sinks", "2", "use 1");
    p.kv_dtype = 2;
    REFUSED(GLINT_BAD_KV_DTYPE, "kv_dtype", "2", "GLINT_I8", "GLINT_E4M3");
    p.kv_scales = GLINT_SCALES_ROW;
    REFUSED(GLINT_BAD_SCALES, "kv_scales", "3", "GLINT_SCALES_NONE");
    p.kv_dtype = GLINT_I8;
    REFUSED(GLINT_BAD_SCALES, "kv_scales", "0", "GLINT_SCALES_ROW");
    p.softcap = -50;
    REFUSED(GLINT_BAD_SOFTCAP, "softcap", "0 for none", "50");
    p.mask = GLINT_MASK_CAUSAL_TOP_LEFT;
    p.window_left = 512; /* a window that no band asks for */
    REFUSED(GLINT_BAD_WINDOW, "window_left", "512", "GLINT_MASK_BAND_BOTTOM_RIGHT");
    p.mask = GLINT_MASK_NONE;
    p.window_right = -1;
    REFUSED(GLINT_BAD_WINDOW, "window_right", "-1", "set it to 0");
    p.mask = GLINT_MASK_BAND_TOP_LEFT;
    p.window_right = -2;
    REFUSED(GLINT_BAD_WINDOW, "window_right", "-2", "GLINT_UNBOUNDED");
    p.mask = GLINT_MASK_BAND_BOTTOM_RIGHT;
    p.window_left = GLINT_MAX_EXTENT + 1;
    REFUSED(GLINT_BAD_WINDOW, "window_left", "1073741824", "1073741823");
    p.mask = GLINT_MASK_NONE;
    p.diagonal = -17;
    REFUSED(GLINT_BAD_DIAGONAL, "diagonal", "-17", "GLINT_MASK_NONE", "set it to 0");
    p.k.row = -123456;
    REFUSED(GLINT_BAD_STRIDE, "k.row", "-123456");
    p.o.row = 1;
    REFUSED(GLINT_BAD_STRIDE, "o.");
    p.reserved[0] = 4711;
    REFUSED(GLINT_BAD_RESERVED, "reserved");
    p.struct_size = 4242;
    REFUSED(GLINT_STRUCT_SIZE, "struct_size", "4242");
    p.q.batch = INT64_MAX / 2;
    REFUSED(GLINT_SIZE_OVERFLOW, "q");

    /* Not in the spec: the head dim asked for, and a way out that exists: a variant of the table, or the field of
     * the spec. */
    glint_problem_bshd(&p, (enum glint_dtype)info.dtype, 2, 5, 6, 4, 2, 8 * 9999);
    serve_cache(&p, &info);
    p.mask = good.mask;
    REFUSED(GLINT_NOT_IN_SPEC, "79992", "head_dim");
    glint_problem_bshd(&p, (enum glint_dtype)info.dtype, 2, 5, 6, 4, 2, 8 * 9999);
    serve_cache(&p, &info);
    p.mask = good.mask;
    glint_explain(context, &p, GLINT_FORWARD, text, sizeof text, NULL);
    bool way_out = strstr(text, "spec") != NULL;
    for (uint32_t i = 0; i < glint_variant_count() && !way_out; i++)
        way_out = strstr(text, row_at(i).name) != NULL;
    EXPECT(way_out, "neither a variant nor the spec is named:\n%s", text);
    /* Nothing that a row serves already: one with the feature softcap serves problems without one. */
    EXPECT(strstr(text, "In the spec, add 79992 to head_dims, and rebuild.") != NULL, "more than the head dim in:\n%s", text);
#undef REFUSED

    /* Accepted: the variant, its tile and its workspace. */
    struct glint_plan plan;
    char workspace[32];
    EXPECT(glint_plan(context, &good, GLINT_FORWARD, &plan) == GLINT_OK, "plan");
    EXPECT(glint_explain(context, &good, GLINT_FORWARD, text, sizeof text, NULL) == GLINT_OK, "explain");
    snprintf(workspace, sizeof workspace, "%zu", plan.workspace_bytes);
    EXPECT(strstr(text, row_at(plan.variant).name) != NULL && strstr(text, workspace) != NULL, "%s", text);
    contract_note("an acceptance reads: %.200s", text);
    p = good;
    p.sinks = 1;
    EXPECT(glint_explain(context, &p, GLINT_FORWARD, text, sizeof text, NULL) == GLINT_OK && strstr(text, "sink") != NULL, "%s",
           text);
    p.softcap = 50;
    const enum glint_status capped = glint_explain(context, &p, GLINT_FORWARD, text, sizeof text, NULL);
    EXPECT(capped == ((info.features & GLINT_FEATURE_SOFTCAP) != 0 ? GLINT_OK : GLINT_NOT_IN_SPEC), "%s", text);
    EXPECT(strstr(text, capped == GLINT_OK ? "Scores are capped" : "\"softcap\" to softcaps") != NULL, "%s", text);
    p.softcap = 0;
    p.alibi = 1;
    EXPECT(glint_explain(context, &p, GLINT_FORWARD, text, sizeof text, NULL) == GLINT_NOT_IN_SPEC, "%s", text);
    EXPECT(strstr(text, "\"alibi\" to biases") != NULL, "%s", text);
    p.alibi = 0;
    p.max_logit = 1;
    const enum glint_status logit = glint_explain(context, &p, GLINT_FORWARD, text, sizeof text, NULL);
    EXPECT(logit == GLINT_OK || (logit == GLINT_BAD_LOGIT && strstr(text, "the largest logit") != NULL), "%s", text);
    EXPECT(strstr(text, logit == GLINT_OK ? "largest logit" : "max_logit = true in families.cpu") != NULL, "%s", text);
    free(storage);
}

/* A variant of a better device than this one: NOT_ON_DEVICE, with the reason. A spec whose rows all run here has
 * none to show. */
static void rows_of_other_devices(void)
{
    void *storage;
    struct glint_context *const best = open_serial(&storage);
    struct glint_device_info device = {.struct_size = sizeof device};
    EXPECT(glint_context_device(best, &device) == GLINT_OK && glint_context_close(best) == GLINT_OK, "device");
    uint32_t shown = 0;
    if (device.isa < GLINT_ISA_AARCH64) { /* cap below every listed ISA, for the keys that have none so low */
        struct glint_options o = GLINT_OPTIONS_INIT;
        struct glint_context *context = NULL;
        o.device = GLINT_DEVICE_CPU;
        o.max_isa = GLINT_ISA_X86_64;
        if (glint_context_init(storage, glint_context_size(), &o, &context) == GLINT_OK) {
            for (uint32_t i = 0; i < glint_variant_count(); i++) {
                const struct glint_variant_info info = row_at(i);
                const struct glint_problem p = some_problem(&info);
                struct glint_plan plan;
                char text[4096];
                bool low = false;
                for (uint32_t j = 0; j < glint_variant_count(); j++) {
                    const struct glint_variant_info other = row_at(j);
                    /* A row that can cap scores serves those that are not, and one of decode every mask. */
                    const bool decode = other.queries_up_to > 0 && p.seqlen_q <= other.queries_up_to;
                    const uint32_t more = other.features & ~info.features,
                                   spare =
                                       GLINT_FEATURE_SOFTCAP | (decode ? GLINT_FEATURE_LEFT_BOUND | GLINT_FEATURE_RIGHT_BOUND : 0);
                    low = low || (other.isa == GLINT_ISA_X86_64 && other.pass == info.pass && other.dtype == info.dtype &&
                                  other.kv_dtype == info.kv_dtype && other.head_dim == info.head_dim &&
                                  (info.features & ~other.features) == 0 && (more & ~spare) == 0);
                }
                if (low)
                    continue;
                EXPECT(glint_plan(context, &p, (enum glint_pass)info.pass, &plan) == GLINT_NOT_ON_DEVICE, "%s", info.name);
                EXPECT(glint_explain(context, &p, (enum glint_pass)info.pass, text, sizeof text, NULL) == GLINT_NOT_ON_DEVICE, "%s",
                       info.name);
                EXPECT(strstr(text, "spec") != NULL && strstr(text, "\"x86_64\" to isas") != NULL, "no way out is named: %s", text);
                shown++;
            }
            EXPECT(glint_context_close(context) == GLINT_OK, "close");
        }
    }
    contract_note("%u keys have no variant for this device's lowest instruction set", shown);
    free(storage);
}

/* Where the plan takes a row of a lower instruction set than the table has for the problem, the text names the
 * better one and says why: the cap, the option that AMX needs, or the CPU, which has it not or is not faster with
 * it. */
static void better_rows_that_are_not_taken(void)
{
    void *storage;
    struct glint_context *context = open_serial(&storage);
    EXPECT(glint_context_close(context) == GLINT_OK, "close");
    uint32_t shown = 0;
    for (int which = 0; which < 3; which++) {
        struct glint_options o = GLINT_OPTIONS_INIT;
        struct glint_device_info device = {.struct_size = sizeof device};
        o.device = GLINT_DEVICE_CPU;
        o.amx = which == 1;
        o.max_isa = which == 2 ? GLINT_ISA_X86_64_V3 : GLINT_ISA_ANY;
        EXPECT(glint_context_init(storage, glint_context_size(), &o, &context) == GLINT_OK, "open");
        EXPECT(glint_context_device(context, &device) == GLINT_OK, "device");
        for (uint32_t i = 0; i < glint_variant_count(); i++) {
            const struct glint_variant_info info = row_at(i);
            struct glint_problem p;
            glint_problem_bshd(&p, (enum glint_dtype)info.dtype, 2, 40, 40, 4, 2, info.head_dim); /* not for decode */
            p.mask = row_mask(&info, true);
            struct glint_plan plan;
            char text[8192];
            if (strcmp(info.family, "cpu") != 0 || info.isa <= device.isa || info.isa >= GLINT_ISA_AARCH64 ||
                info.queries_up_to > 0 || glint_plan(context, &p, (enum glint_pass)info.pass, &plan) != GLINT_OK ||
                row_at(plan.variant).isa >= info.isa)
                continue;
            EXPECT(glint_explain(context, &p, (enum glint_pass)info.pass, text, sizeof text, NULL) == GLINT_OK, "%s", info.name);
            const char *const said = strstr(text, info.name);
            EXPECT(said != NULL && strstr(text, "Not taken: ") != NULL, "%s", text);
            const bool option = strncmp(said + strlen(info.name), ", as glint_options.amx is 0", 27) == 0;
            const bool cap = strncmp(said + strlen(info.name), ", as it is above glint_options.max_isa", 38) == 0;
            EXPECT(!option || (o.amx == 0 && info.isa == GLINT_ISA_X86_64_AMX), "%s", text);
            EXPECT(!cap || o.max_isa != GLINT_ISA_ANY, "%s", text);
            const bool slow = strncmp(said + strlen(info.name), ", as this CPU is not known to run it faster", 43) == 0;
            EXPECT(!slow || (glint_variant_available(context, i) == GLINT_OK && info.isa == GLINT_ISA_X86_64_BF16), "%s", text);
            EXPECT(option || cap || slow || strncmp(said + strlen(info.name), ", as this CPU or its system", 27) == 0, "%s", text);
            shown++;
        }
        EXPECT(glint_context_close(context) == GLINT_OK, "close");
    }
    contract_note("%u rows are better than what runs here", shown);
    free(storage);
}

static const struct contract_case cases[] = {
    {"every_length", every_length, 0},
    {"guarded_buffers", guarded_buffers, 0},
    {"says_what_to_change", says_what_to_change, 0},
    {"rows_of_other_devices", rows_of_other_devices, 0},
    {"better_rows_that_are_not_taken", better_rows_that_are_not_taken, 0},
};
CONTRACT_MAIN("explain", cases)
