/* glint_selftest, on the genuine table and on sabotaged ones. This program is linked with the genuine table under
 * another name (genuine_variants) and supplies the library's `glint_variants` itself, so that a case may break a
 * row: a kernel of the other 16-bit dtype in its place reads the same bytes as other numbers, which nothing but the
 * answer can show. The same handle reaches what no shipped table has: alignments wider than an element. */
#include <stdlib.h>
#include <string.h>

#include "lib/variant.h"
#include "tests/contract/suite.h"
#include "tests/contract/world.h"

enum { MAX_ROWS = 4096 };
extern const struct glint_variant genuine_variants[];
extern const uint32_t genuine_variants_count;

/* The library sees these as the constant table that lib/variant.h declares. */
struct glint_variant table[MAX_ROWS] __asm__("glint_variants");
uint32_t table_count __asm__("glint_variants_count");

static void genuine_table(void)
{
    if (genuine_variants_count > MAX_ROWS)
        abort();
    memcpy(table, genuine_variants, genuine_variants_count * sizeof table[0]);
    table_count = genuine_variants_count;
}

struct bench {
    struct glint_context *context;
    struct counting counting;
    void *storage;
    struct guarded memory;
    struct glint_selftest_result result;
};

static void bench_open(struct bench *b, uint32_t concurrency)
{
    size_t bytes = 0;
    b->context = open_context(&b->counting, concurrency, &b->storage);
    EXPECT(glint_selftest_size(b->context, &bytes) == GLINT_OK && bytes > 0, "size");
    b->memory = guarded_make(bytes, GLINT_WORKSPACE_ALIGNMENT, false);
    memset(&b->result, 0xEE, sizeof b->result);
    b->result.struct_size = sizeof b->result;
}

static void bench_close(struct bench *b)
{
    EXPECT(guarded_canaries_hold(&b->memory), "the self test wrote outside its memory");
    guarded_free(&b->memory);
    EXPECT(glint_context_close(b->context) == GLINT_OK, "close");
    free(b->storage);
}

static enum glint_status run(struct bench *b)
{
    return glint_selftest(b->context, b->memory.at, b->memory.bytes, NULL, &b->result);
}

static void passes(void)
{
    genuine_table();
    for (uint32_t concurrency = 1; concurrency <= 5; concurrency += 2) {
        struct bench b;
        bench_open(&b, concurrency);
        struct glint_device_info device = {.struct_size = sizeof device};
        EXPECT(glint_context_device(b.context, &device) == GLINT_OK, "device");
        for (int fill = 0; fill < 2; fill++) {
            memset(b.memory.at, fill ? 0xFF : 0x00, b.memory.bytes); /* NaN, or zeros */
            const double start = seconds_now();
            const enum glint_status status = run(&b);
            EXPECT(status == GLINT_OK, "%s: row %u, error %g of the tolerance", glint_status_name(status), b.result.first_failed,
                   (double)b.result.worst_error);
            EXPECT(b.result.variants_run == device.variants_loaded && b.result.variants_failed == 0 &&
                       b.result.first_failed == UINT32_MAX && b.result.worst_error > 0 && b.result.worst_error <= 1,
                   "run %u of %u, failed %u, first %u, worst %g", b.result.variants_run, device.variants_loaded,
                   b.result.variants_failed, b.result.first_failed, (double)b.result.worst_error);
            if (fill == 0)
                contract_note("concurrency %u: %u variants in %.3f s and %zu bytes, worst error %.3f of the tolerance", concurrency,
                              b.result.variants_run, seconds_now() - start, b.memory.bytes, (double)b.result.worst_error);
        }
        bench_close(&b);
    }
}

/* The row that now holds another dtype's kernel, or UINT32_MAX: `skip` rows are passed over. */
static uint32_t sabotage(const struct glint_context *context, uint32_t pass, uint32_t skip)
{
    for (uint32_t i = 0; i < table_count; i++) {
        if (table[i].pass != pass || table[i].dtype != GLINT_F16 || glint_variant_available(context, i) != GLINT_OK)
            continue;
        for (uint32_t j = 0; j < table_count; j++) {
            const struct glint_variant *const a = &table[i], *const b = &genuine_variants[j];
            if (b->pass != a->pass || b->dtype != GLINT_BF16 || b->head_dim != a->head_dim || b->kv_dtype != a->kv_dtype ||
                b->features != a->features || b->isa != a->isa || b->tile_m != a->tile_m || b->tile_n != a->tile_n ||
                b->family != a->family || a->kernel == b->kernel)
                continue;
            if (skip-- > 0)
                break;
            table[i].kernel = b->kernel;
            return i;
        }
    }
    return UINT32_MAX;
}

static void names_the_broken_row(void)
{
    uint32_t tried = 0;
    for (uint32_t pass = GLINT_FORWARD; pass <= GLINT_BACKWARD; pass++) {
        for (uint32_t skip = 0; skip < 3; skip++) {
            struct bench b;
            genuine_table();
            bench_open(&b, 1);
            const uint32_t row = sabotage(b.context, pass, skip);
            if (row == UINT32_MAX) {
                bench_close(&b);
                continue;
            }
            const enum glint_status status = run(&b);
            EXPECT(status == GLINT_SELFTEST_FAILED && b.result.variants_failed == 1 && b.result.first_failed == row &&
                       !(b.result.worst_error <= 1),
                   "%s has another kernel: %s, %u failed, first %u, worst error %g", table[row].name, glint_status_name(status),
                   b.result.variants_failed, b.result.first_failed, (double)b.result.worst_error);
            struct glint_device_info device = {.struct_size = sizeof device};
            EXPECT(glint_context_device(b.context, &device) == GLINT_OK && b.result.variants_run == device.variants_loaded,
                   "%u of %u were run", b.result.variants_run, device.variants_loaded);
            genuine_table(); /* mended: the same context passes */
            EXPECT(run(&b) == GLINT_OK && b.result.variants_failed == 0 && b.result.first_failed == UINT32_MAX, "after mending");
            bench_close(&b);
            tried++;
        }
    }
    contract_note(tried > 0 ? "%u sabotaged tables" : "skipped: %u f16 and bf16 kernels in the spec to exchange", tried);
}

static void counts_every_broken_row(void)
{
    struct bench b;
    genuine_table();
    bench_open(&b, 2);
    const uint32_t first = sabotage(b.context, GLINT_BACKWARD, 0), second = sabotage(b.context, GLINT_FORWARD, 1);
    if (first == UINT32_MAX || second == UINT32_MAX) {
        contract_note("skipped: no f16 and bf16 kernels in the spec to exchange");
        bench_close(&b);
        return;
    }
    EXPECT(run(&b) == GLINT_SELFTEST_FAILED && b.result.variants_failed == 2, "%u failed", b.result.variants_failed);
    EXPECT(b.result.first_failed == (first < second ? first : second), "first is %u, not %u or %u", b.result.first_failed, first,
           second);
    genuine_table();
    bench_close(&b);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void refusals(void)
{
    struct bench b;
    genuine_table();
    bench_open(&b, 2);
    unsigned char *const memory = b.memory.at;
    const size_t bytes = b.memory.bytes;
    memset(memory, 0x31, bytes);
    struct glint_selftest_result r, before;
    memset(&r, 0x12, sizeof r);
    r.struct_size = sizeof r;
    before = r;
    const size_t shorts[] = {bytes - 1, bytes / 2, 1, 0};
    for (size_t i = 0; i < 4; i++) {
        const enum glint_status status = glint_selftest(b.context, memory, shorts[i], NULL, &r);
        EXPECT(status == GLINT_WORKSPACE_TOO_SMALL, "%zu of %zu bytes give %s", shorts[i], bytes, glint_status_name(status));
    }
    for (size_t shift = 1; shift < GLINT_WORKSPACE_ALIGNMENT; shift = shift * 2 + 1) {
        const enum glint_status status = glint_selftest(b.context, memory + shift, bytes, NULL, &r);
        EXPECT(status == GLINT_WORKSPACE_MISALIGNED, "memory at + %zu gives %s", shift, glint_status_name(status));
    }
    const enum glint_status null_memory = glint_selftest(b.context, NULL, bytes, NULL, &r);
    EXPECT(null_memory == GLINT_NULL_ARGUMENT || null_memory == GLINT_WORKSPACE_TOO_SMALL, "%s", glint_status_name(null_memory));
    EXPECT(glint_selftest(NULL, memory, bytes, NULL, &r) == GLINT_NULL_ARGUMENT, "NULL context");
    EXPECT(glint_selftest(b.context, memory, bytes, NULL, NULL) == GLINT_NULL_ARGUMENT, "NULL result");
    EXPECT(glint_selftest(b.context, memory, bytes, &r, &r) == GLINT_BAD_STREAM, "a stream on the CPU");
    EXPECT(glint_selftest_size(NULL, &(size_t){0}) == GLINT_NULL_ARGUMENT, "NULL context");
    EXPECT(glint_selftest_size(b.context, NULL) == GLINT_NULL_ARGUMENT, "NULL bytes");
    EXPECT(memcmp(&r, &before, sizeof r) == 0, "a refused self test wrote its result");
    const uint32_t sizes[] = {0, 4, sizeof r - 1, sizeof r + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        r.struct_size = before.struct_size = sizes[i];
        EXPECT(glint_selftest(b.context, memory, bytes, NULL, &r) == GLINT_STRUCT_SIZE, "struct_size %u", sizes[i]);
        EXPECT(memcmp(&r, &before, sizeof r) == 0, "a refused self test wrote its result");
    }
    for (size_t i = 0; i < bytes; i++)
        EXPECT(memory[i] == 0x31, "a refused self test wrote byte %zu", i);
    EXPECT(b.counting.calls == 0, "a refused self test ran");
    EXPECT(run(&b) == GLINT_OK, "afterwards");
    bench_close(&b);
}

/* ---- alignments that no shipped CPU row has ---------------------------------------------------------------------- */

static void wider_alignment(void)
{
    for (uint32_t pass = GLINT_FORWARD; pass <= GLINT_BACKWARD; pass++) {
        struct counting counting;
        void *storage;
        genuine_table();
        for (uint32_t i = 0; i < table_count; i++)
            table[i].alignment_bytes = 16;
        struct glint_context *const context = open_context(&counting, 1, &storage);
        if (!runs_pass(context, (enum glint_pass)pass)) {
            free(storage);
            continue;
        }
        const struct glint_variant_info info = first_row(context, (enum glint_pass)pass);
        struct glint_problem good, p;
        glint_problem_bshd(&good, (enum glint_dtype)info.dtype, 2, 3, 3, 2, 2, info.head_dim);
        serve_cache(&good, &info);
        good.mask = row_mask(&info, false);
        const int64_t unit = 16 / element_bytes(info.dtype);
        int64_t *strides[24];
        struct glint_strides *const all[] = {&p.q, &p.k, &p.v, &p.o, &p.dout, &p.dq, &p.dk, &p.dv};
        for (int t = 0; t < 8; t++) {
            strides[3 * t] = &all[t]->batch;
            strides[3 * t + 1] = &all[t]->head;
            strides[3 * t + 2] = &all[t]->row;
        }
        struct call c;
        call_make(&c, context, &good, (enum glint_pass)pass, 1);
        for (int s = 0; s < 24; s++) {
            const bool used = s < 12 || pass == GLINT_BACKWARD;
            for (int64_t by = 1; by <= 2 * unit; by++) {
                struct glint_plan plan, before;
                memset(&plan, 0x10, sizeof plan);
                before = plan;
                p = good;
                *strides[s] += by + 1000 * unit; /* far enough to overlap nothing */
                const enum glint_status status = glint_plan(context, &p, (enum glint_pass)pass, &plan);
                /* a dimension larger than all others may move the others' rows over each other: only input strides
                 * are free */
                const bool fits = !used || by % unit == 0;
                EXPECT(fits ? status == GLINT_OK || status == GLINT_BAD_STRIDE
                            : status == GLINT_STRIDE_MISALIGNED || status == GLINT_BAD_STRIDE,
                       "stride %d + %lld gives %s", s, (long long)by, glint_status_name(status));
                const bool input = s / 3 < 3 || (pass == GLINT_BACKWARD && s / 3 < 5);
                EXPECT(!input || status == (fits ? GLINT_OK : GLINT_STRIDE_MISALIGNED), "input stride %d + %lld gives %s", s,
                       (long long)by, glint_status_name(status));
                EXPECT(status == GLINT_OK || memcmp(&plan, &before, sizeof plan) == 0, "a refused plan was written");
            }
        }
        for (enum tensor t = Q; t < TENSORS; t++) {
            for (int by = 1; by <= 32; by++) {
                struct call moved = c;
                unsigned char *const copy = aligned_memory(64, c.bytes[t] + 64);
                memcpy(copy + by, c.block + c.offset[t], c.bytes[t]);
                tensor_set(&moved.tensors, t, copy + by);
                const enum glint_status status = call_run(&moved);
                const bool fits = by % 16 == 0 || !pass_uses((enum glint_pass)pass, t);
                /* LSE is a float array whatever the variant's tensors are: 4 is enough where the library asks no
                 * more */
                const bool lse = t == LSE && by % 4 == 0;
                EXPECT(status == (fits ? GLINT_OK : GLINT_TENSOR_MISALIGNED) || (lse && status == GLINT_OK), "%s at + %d gives %s",
                       tensor_field[t], by, glint_status_name(status));
                free(copy);
            }
        }
        call_free(&c);
        free(storage);
    }
    genuine_table();
}

static const struct contract_case cases[] = {
    {"passes", passes, 120},
    {"names_the_broken_row", names_the_broken_row, 120},
    {"counts_every_broken_row", counts_every_broken_row, 0},
    {"refusals", refusals, 0},
    {"wider_alignment", wider_alignment, 0},
};
CONTRACT_MAIN("selftest", cases)
