/* How deep the call path goes, measured: each call runs on a stack that was painted before, and the lowest byte that
 * lost its paint tells. The promise is 4 KiB from the public function to the last kernel. */
#define _GNU_SOURCE /* pthread_attr_setstack */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/contract/suite.h"
#include "tests/contract/world.h"

#define PAINT 0xB7
enum { STACK_BYTES = 256 * 1024, PROMISE = 4096 };

struct dive {
    unsigned char *stack;
    const struct call *call;
    struct glint_context *context;
    int kind;
    enum glint_status status;
    size_t depth;
};

enum { KINDS = 8 };
static const char *const kinds[KINDS] = {"run",   "plan",          "explain", "explain_call",
                                         "merge", "explain_merge", "append",  "explain_append"};

/* As many parts as there may be, of bfloat16. */
static const struct glint_merge *merge_of_all(void)
{
    static uint16_t o[264];
    static float lse[1];
    static struct glint_part part[GLINT_MAX_PARTS];
    static struct glint_merge m = GLINT_MERGE_INIT;
    for (uint32_t i = 0; i < GLINT_MAX_PARTS; i++)
        part[i] = (struct glint_part){o, lse, {0, 0, 0}, {0, 0, 0}, GLINT_BF16, 0};
    m.dtype = GLINT_BF16;
    m.parts = GLINT_MAX_PARTS;
    m.batch = m.heads = m.seqlen = 1;
    m.head_dim = 264;
    m.part = part;
    m.o = o;
    m.lse = lse;
    return &m;
}

/* Rows of zeros, float32. */
static enum glint_status append_zeros(const struct call *c, char *text, size_t bytes)
{
    static const float zeros[4096];
    struct glint_append a = GLINT_APPEND_INIT;
    a.dtype = GLINT_F32;
    a.k = a.v = zeros;
    return text ? glint_explain_append(&c->plan, &a, &c->tensors, NULL, text, bytes, NULL)
                : glint_append(&c->plan, &a, &c->tensors, NULL);
}

__attribute__((noinline)) static enum glint_status invoke(const struct dive *d)
{
    static char text[4096];
    const struct call *const c = d->call;
    static struct glint_plan plan;
    switch (d->kind) {
    case 0:
        return c->pass == GLINT_FORWARD ? glint_forward(&c->plan, &c->tensors, c->workspace, c->workspace_bytes, NULL)
                                        : glint_backward(&c->plan, &c->tensors, c->workspace, c->workspace_bytes, NULL);
    case 1: return glint_plan(d->context, &c->problem, c->pass, &plan);
    case 4: return glint_merge(d->context, merge_of_all(), NULL);
    case 5: return glint_explain_merge(d->context, merge_of_all(), NULL, text, sizeof text, NULL);
    case 6: return append_zeros(c, NULL, 0);
    case 7: return append_zeros(c, text, sizeof text);
    case 2: return glint_explain(d->context, &c->problem, c->pass, text, sizeof text, NULL);
    default:
        return glint_explain_call(&c->plan, c->pass, &c->tensors, c->workspace, c->workspace_bytes, NULL, text, sizeof text, NULL);
    }
}

__attribute__((noinline)) static void paint(unsigned char *from, const unsigned char *to)
{
    volatile unsigned char *at = from; /* byte by byte, with nothing of its own below */
    while ((const unsigned char *)at < to)
        *at++ = PAINT;
}

static void *dive(void *argument)
{
    struct dive *const d = argument;
    unsigned char *const here = __builtin_frame_address(0);
    const unsigned char *const top = here - 512; /* this function's own frame and the painter's */
    d->status = invoke(d);                       /* once before: lazy binding has a stack of its own */
    paint(d->stack, top);
    d->status = invoke(d);
    const unsigned char *lowest = d->stack;
    while (lowest < top && *lowest == PAINT)
        lowest++;
    d->depth = lowest < top ? (size_t)(here - lowest) : 0;
    return NULL;
}

static void measure(struct dive *d)
{
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstack(&attributes, d->stack, STACK_BYTES) != 0 || pthread_create(&thread, &attributes, dive, d) != 0 ||
        pthread_join(thread, NULL) != 0)
        abort();
    pthread_attr_destroy(&attributes);
}

/* The deepest call of each kind, and its row. */
struct deepest {
    size_t bytes[KINDS];
    char names[KINDS][128];
};

/* A problem of the row, with lengths on the device or without. */
static void depth_of(struct dive *d, const struct glint_variant_info *info, uint32_t row, uint32_t lengths, struct deepest *deepest)
{
    struct glint_problem p;
    struct call c;
    glint_problem_bshd(&p, (enum glint_dtype)info->dtype, 1, info->tile_m + 3, info->tile_n + 5, 2, 1, info->head_dim);
    serve_cache(&p, info);
    p.mask = row_mask(info, true);
    if ((info->features & GLINT_FEATURE_LEFT_BOUND) != 0)
        p.window_left = 2 * (int64_t)info->tile_n;
    p.lengths = lengths;
    call_make(&c, d->context, &p, (enum glint_pass)info->pass, 1);
    const size_t planned = c.workspace_bytes;
    EXPECT(glint_plan_variant(d->context, &p, (enum glint_pass)info->pass, row, &c.plan) == GLINT_OK, "%s", info->name);
    void *const workspace = aligned_memory(GLINT_WORKSPACE_ALIGNMENT, c.plan.workspace_bytes + planned);
    const int32_t queries = (int32_t)p.seqlen_q, keys = (int32_t)p.seqlen_k;
    c.workspace = workspace;
    c.workspace_bytes = c.plan.workspace_bytes;
    if (lengths != GLINT_LENGTHS_HOST) {
        c.tensors.seqlens_q = &queries;
        c.tensors.seqlens_k = &keys;
    }
    d->call = &c;
    /* nothing is appended for a backward call, or to 8 bits */
    for (d->kind = 0; d->kind < (c.pass == GLINT_FORWARD && p.kv_dtype == 0 ? KINDS : KINDS - 2); d->kind++) {
        measure(d);
        EXPECT(d->status == GLINT_OK, "%s: %s gives %s", info->name, kinds[d->kind], glint_status_name(d->status));
        EXPECT(d->depth > 0 && d->depth < STACK_BYTES / 2, "%s: %s: the paint tells nothing", info->name, kinds[d->kind]);
        if (d->depth > deepest->bytes[d->kind]) {
            deepest->bytes[d->kind] = d->depth;
            strncpy(deepest->names[d->kind], info->name, sizeof deepest->names[0] - 1);
        }
    }
    free(workspace);
    call_free(&c);
}

static void depth_of_every_variant(uint32_t lengths)
{
    void *storage;
    struct counting counting;
    struct dive d = {.stack = aligned_memory(4096, STACK_BYTES), .context = open_context(&counting, 2, &storage)};
    struct deepest deepest = {0};
    size_t measured = 0;
    for (uint32_t i = 0; i < glint_variant_count(); i++) {
        if (!row_serves(d.context, i))
            continue;
        const struct glint_variant_info info = row_at(i);
        depth_of(&d, &info, i, lengths, &deepest);
        measured++;
    }
    EXPECT(measured > 0, "no variant runs here");
    for (int k = 0; k < KINDS; k++)
        contract_note("%s: %zu bytes deep at most, %s", kinds[k], deepest.bytes[k], deepest.names[k]);
    if (CONTRACT_SANITIZED)
        contract_note("not judged: a sanitizer widens every frame");
    for (int k = 0; k < KINDS && !CONTRACT_SANITIZED; k++)
        EXPECT(deepest.bytes[k] <= PROMISE, "%s of %s is %zu bytes deep, %d promised", kinds[k], deepest.names[k], deepest.bytes[k],
               PROMISE);
    free(d.stack);
    free(storage);
}

static void depth_of_every_variant_given_lengths(void)
{
    depth_of_every_variant(GLINT_LENGTHS_HOST);
}

static void depth_of_every_variant_that_reads_lengths(void)
{
    depth_of_every_variant(GLINT_LENGTHS_DEVICE);
}

static const struct contract_case cases[] = {
    {"depth_of_every_variant_given_lengths", depth_of_every_variant_given_lengths, 120},
    {"depth_of_every_variant_that_reads_lengths", depth_of_every_variant_that_reads_lengths, 120},
};
CONTRACT_MAIN("contract_stack", cases)
