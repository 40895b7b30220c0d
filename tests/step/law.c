/* The promise of a server's step: a token's O and LSE have the same bits in a whole prompt, in a chunk of it,
 * speculated with others, and alone; over a linear cache and over pages; whatever else is in the call. In the
 * simulator, with spans of 128 keys, so that a few hundred keys have many of them. What lies beyond a length, in
 * pages that are nobody's and in the rest of a row of the table is NaN, or a page that there is not. The same over
 * caches of 8 bits, where what lies there has scales of NaN. LAW_SM is the device: 90, or 80, whose step has no tensor
 * maps and no head dim of 256. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/context.h"
#include "tests/contract/suite.h"
#include "tests/hostsim/driver.h"
#include "tests/oracle/half.h"
#include "tests/support/rand.h"

enum { HEADS = 6, HEADS_KV = 2, MOST_DIM = 256, MOST = 2400, SPANS = 8 };

static int64_t dim = 64; /* head_dim */

static int64_t row_q(void)
{
    return HEADS * dim;
}

static int64_t row_kv(void)
{
    return HEADS_KV * dim;
}

static struct glint_context *gpu;

static void open_gpu(void)
{
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = GLINT_DEVICE_CUDA_CURRENT;
    void *const storage = aligned_alloc(GLINT_CONTEXT_ALIGNMENT, (glint_context_size() + 63) / 64 * 64);
    const enum glint_status status =
        glint_context_init_with_driver(storage, glint_context_size(), &options, sim_driver(LAW_SM), &gpu);
    EXPECT(status == GLINT_OK, "a context gives %s", glint_status_name(status));
}

static uint16_t q[MOST * HEADS * MOST_DIM];
static uint8_t keys[2][MOST * HEADS_KV * MOST_DIM * 2]; /* K and V, in elements of kv_dtype */
static float scales[2][MOST * HEADS_KV];                /* of 8 bits, those of a token's heads one after another */
static uint32_t kv_dtype;                               /* 0: bf16 */

static size_t kv_bytes(void)
{
    return kv_dtype == 0 ? 2 : 1;
}

static void make_tokens(uint64_t seed)
{
    struct rand r = rand_stream(seed, 1);
    for (int64_t i = 0; i < MOST * row_q(); i++)
        dtype_store(GLINT_BF16, &q[i], 3 * rand_normal(&r));
    for (int64_t i = 0; i < MOST * row_kv(); i++)
        for (int of_v = 0; of_v < 2; of_v++) {
            const float number = rand_normal(&r);
            if (kv_dtype == 0)
                dtype_store(GLINT_BF16, &keys[of_v][2 * i], number);
            else /* any byte but NaN of e4m3, beside scales that make numbers of about 1 */
                keys[of_v][i] = (uint8_t)(rand_below(&r, 127) | rand_below(&r, 2) << 7);
        }
    for (size_t i = 0; i < (size_t)MOST * HEADS_KV; i++)
        for (int of_v = 0; of_v < 2; of_v++)
            scales[of_v][i] = (1 + 0.01f * rand_normal(&r)) / (kv_dtype == GLINT_E4M3 ? 100 : 64);
}

static int64_t slack = 40; /* rows of a linear cache behind the last key */
static bool of_host;       /* a linear cache's length is the host's: blocks plan while the call before runs */
static int64_t window = 0; /* keys that a token sees, its own included; 0: all before it */
/* What a call says beside the mask. Intervals that hide nothing and a tree that is a chain change no bit. Of intervals
 * of a token's own some show no key, and some a few keys far from the end. */
static enum { PLAIN, ALL_SEEN, OWN, CHAIN } extra;
static int32_t own_keys[2][MOST];
static uint32_t units[2]; /* of many and of few rows, of the last call: words of the plan, PLAN_MANY and PLAN_FEW */

/* What is added to scores: slopes, or a number of each head, token and key. */
static enum { NOTHING, SLOPES, NUMBERS } bias;

/* Queries [from, to) of the sequence, against the keys before `to`. */
struct span {
    int64_t from, to;
};

static void *device_copy(const void *host, size_t bytes)
{
    void *const device = sim_allocate(bytes);
    sim_put(device, host, bytes);
    return device;
}

/* Rows of K or V in pages in an order of their own, NaN elsewhere; with page_rows = 0 one page of `capacity` rows. */
static void *cache_of(int of_v, int64_t tokens, int64_t page_rows, const int32_t *page_of, int64_t pages, int64_t capacity)
{
    const int64_t all = page_rows > 0 ? pages * page_rows : capacity;
    const size_t row = (size_t)row_kv() * kv_bytes();
    unsigned char *const host = malloc((size_t)all * row);
    memset(host, 0xff, (size_t)all * row);
    for (int64_t i = 0; i < tokens; i++)
        memcpy(host + (size_t)(page_rows > 0 ? page_of[i / page_rows] * page_rows + i % page_rows : i) * row,
               keys[of_v] + (size_t)i * row, row);
    void *const device = device_copy(host, (size_t)all * row);
    free(host);
    return device;
}

/* Its scales, a row each, NaN where no token is. */
static float *scales_of(int of_v, int64_t tokens, int64_t page_rows, const int32_t *page_of, int64_t pages, int64_t capacity)
{
    const int64_t rows = page_rows > 0 ? page_rows : capacity, all = page_rows > 0 ? pages * page_rows : capacity;
    const size_t bytes = (size_t)(all * HEADS_KV) * sizeof(float);
    float *const host = malloc(bytes);
    memset(host, 0xff, bytes);
    for (int64_t i = 0; i < tokens; i++)
        for (int64_t h = 0; h < HEADS_KV; h++)
            host[((page_rows > 0 ? page_of[i / rows] : 0) * HEADS_KV + h) * rows + i % rows] = scales[of_v][i * HEADS_KV + h];
    float *const device = device_copy(host, bytes);
    free(host);
    return device;
}

/* The key bounds of a token: behind the last key, too. */
static int32_t bound_of(int of_end, int64_t token)
{
    return extra == OWN ? own_keys[of_end][token] : of_end ? INT32_MAX : -1;
}

static const float slopes[HEADS] = {0.5f, 0.01f, 0.0f, -0.003f, 0.125f, 1.3e-4f};

/* Of a head, a token and a key, whatever call they are in; NaN behind a sequence's queries and keys. */
static float *numbers_of(const struct span *spans, int count, const struct glint_problem *p)
{
    const size_t bytes = (size_t)(count * p->bias.batch) * 4;
    float *const host = malloc(bytes);
    memset(host, 0xff, bytes);
    for (int i = 0; i < count; i++)
        for (int64_t h = 0; h < HEADS; h++)
            for (int64_t at = spans[i].from; at < spans[i].to; at++)
                for (int64_t j = 0; j < spans[i].to; j++)
                    host[i * p->bias.batch + h * p->bias.head + (at - spans[i].from) * p->bias.query + j] =
                        (float)((h * 31 + at * 7919 + j * 104729) % 1009) / 300;
    float *const device = device_copy(host, bytes);
    free(host);
    return device;
}

struct answer {
    uint16_t o[MOST * HEADS * MOST_DIM];
    float lse[HEADS][MOST];
};

/* One call for all spans, ragged queries over pages, or for one over a linear cache with its length on the device.
 * `answer` gets row 0 for the first query of the first span. Returns how many rows it has. */
static int64_t run(const struct span *spans, int count, int64_t page_rows, uint64_t seed, struct answer *answer)
{
    int64_t rows = 0, bound_q = 0, tokens = 0;
    int32_t first_q[SPANS + 1] = {0}, seqlens_k[SPANS], order[MOST / 16 + 8];
    struct rand r = rand_stream(seed, 2);
    for (int i = 0; i < count; i++) {
        const int64_t queries = spans[i].to - spans[i].from;
        rows += queries;
        first_q[i + 1] = (int32_t)rows;
        seqlens_k[i] = (int32_t)spans[i].to;
        bound_q = queries > bound_q ? queries : bound_q;
        tokens = spans[i].to > tokens ? spans[i].to : tokens;
    }
    const bool paged = page_rows > 0;
    const int64_t used = paged ? (tokens + page_rows - 1) / page_rows : 0, pages = used + 3, width = used + 2,
                  capacity = of_host ? tokens : tokens + slack;
    for (int64_t i = 0; i < pages; i++)
        order[i] = (int32_t)i;
    for (int64_t i = pages - 1; i > 0; i--) {
        const int64_t j = (int64_t)rand_below(&r, (uint32_t)i + 1);
        const int32_t other = order[i];
        order[i] = order[j];
        order[j] = other;
    }
    int32_t *const table = malloc((size_t)(count * width) * 4 + 4);
    for (int i = 0; i < count; i++)
        for (int64_t j = 0; j < width; j++)
            table[i * width + j] = j < (spans[i].to + page_rows - 1) / (paged ? page_rows : 1) && paged ? order[j] : 1 << 28;
    uint16_t *const queries = malloc((size_t)(rows * row_q()) * 2);
    for (int i = 0; i < count; i++)
        memcpy(queries + first_q[i] * row_q(), q + spans[i].from * row_q(),
               (size_t)(spans[i].to - spans[i].from) * (size_t)row_q() * 2);

    struct glint_problem problem;
    glint_problem_bshd(&problem, GLINT_BF16, paged ? count : 1, paged ? bound_q : rows, paged ? width * page_rows : capacity, HEADS,
                       HEADS_KV, dim);
    problem.mask = window > 0 ? GLINT_MASK_BAND_BOTTOM_RIGHT : GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
    problem.window_left = window > 0 ? window - 1 : 0;
    problem.intervals = extra == ALL_SEEN || extra == OWN;
    problem.tree = extra == CHAIN;
    problem.alibi = bias == SLOPES;
    problem.kv_dtype = kv_dtype;
    problem.kv_scales = kv_dtype != 0 ? GLINT_SCALES_ROW : GLINT_SCALES_NONE;
    problem.lengths = paged ? GLINT_LENGTHS_RAGGED : of_host ? GLINT_LENGTHS_HOST : GLINT_LENGTHS_DEVICE;
    if (paged) {
        problem.rows_q = rows;
        problem.page_rows = page_rows;
        problem.pages = pages;
        problem.pages_per_sequence = width;
        problem.q.batch = problem.o.batch = 0;
        problem.k.batch = problem.v.batch = page_rows * row_kv();
    }
    const int64_t heads_of_bias = problem.seqlen_q * problem.seqlen_k;
    if (bias == NUMBERS) {
        problem.bias_dtype = GLINT_F32;
        problem.bias = (struct glint_bias_strides){HEADS * heads_of_bias, heads_of_bias, problem.seqlen_k, 1};
    }
    struct glint_plan plan;
    const enum glint_status planned = glint_plan(gpu, &problem, GLINT_FORWARD, &plan);
    char why[400] = "";
    if (planned != GLINT_OK)
        glint_explain(gpu, &problem, GLINT_FORWARD, why, sizeof why, NULL);
    EXPECT(planned == GLINT_OK, "the plan gives %s: %s", glint_status_name(planned), why);
    struct glint_tensors t = {.struct_size = sizeof t};
    t.q = device_copy(queries, (size_t)(rows * row_q()) * 2);
    t.k = cache_of(0, tokens, page_rows, order, pages, capacity);
    t.v = cache_of(1, tokens, page_rows, order, pages, capacity);
    if (kv_dtype != 0) {
        t.k_scale = scales_of(0, tokens, page_rows, order, pages, capacity);
        t.v_scale = scales_of(1, tokens, page_rows, order, pages, capacity);
    }
    t.o = sim_allocate((size_t)(rows * row_q()) * 2);
    t.lse = sim_allocate((size_t)(rows * HEADS) * 4);
    t.seqlens_k = paged || !of_host ? device_copy(seqlens_k, (size_t)count * 4) : NULL;
    t.first_q = paged ? device_copy(first_q, (size_t)(count + 1) * 4) : NULL;
    t.page_table = paged ? device_copy(table, (size_t)(count * width) * 4) : NULL;
    const int64_t words = (problem.seqlen_q + 31) / 32;
    int32_t *const bounds = malloc((size_t)(2 * rows) * 4);
    uint32_t *const bits = malloc((size_t)(rows * words) * 4);
    memset(bits, 0xff, (size_t)(rows * words) * 4);
    for (int i = 0; i < count; i++)
        for (int64_t j = 0; j < spans[i].to - spans[i].from; j++) {
            for (int of_end = 0; of_end < 2; of_end++)
                bounds[of_end * rows + first_q[i] + j] = bound_of(of_end, spans[i].from + j);
            for (int64_t slot = j + 1; slot < spans[i].to - spans[i].from; slot++)
                bits[(first_q[i] + j) * words + slot / 32] &= ~(1u << slot % 32);
        }
    int32_t *const on_device = device_copy(bounds, (size_t)(2 * rows) * 4);
    t.key_begin = problem.intervals ? on_device : NULL;
    t.key_end = problem.intervals ? on_device + rows : NULL;
    t.tree_bits = problem.tree ? device_copy(bits, (size_t)(rows * words) * 4) : NULL;
    t.alibi_slopes = bias == SLOPES ? device_copy(slopes, sizeof slopes) : NULL;
    t.bias = bias == NUMBERS ? numbers_of(spans, count, &problem) : NULL;
    free(bounds);
    free(bits);
    void *const workspace = sim_allocate(plan.workspace_bytes);
    sim_seed(seed + 1);
    const enum glint_status status = glint_forward(&plan, &t, workspace, plan.workspace_bytes, (void *)(uintptr_t)4096);
    EXPECT(status == GLINT_OK && sim_findings() == 0, "%s, and %s", glint_status_name(status),
           sim_findings() > 0 ? sim_finding_text(0) : "no finding");
    float *const lse = malloc((size_t)(rows * HEADS) * 4);
    sim_get(units, (char *)workspace + 4, sizeof units);
    sim_get(answer->o, t.o, (size_t)(rows * row_q()) * 2);
    sim_get(lse, t.lse, (size_t)(rows * HEADS) * 4);
    for (int64_t h = 0; h < HEADS; h++)
        memcpy(answer->lse[h], lse + h * rows, (size_t)rows * 4);
    void *const all[] = {(void *)(uintptr_t)t.q,
                         (void *)(uintptr_t)t.k,
                         (void *)(uintptr_t)t.v,
                         t.o,
                         t.lse,
                         (void *)(uintptr_t)t.seqlens_k,
                         (void *)(uintptr_t)t.first_q,
                         (void *)(uintptr_t)t.page_table,
                         on_device,
                         (void *)(uintptr_t)t.tree_bits,
                         (void *)(uintptr_t)t.alibi_slopes,
                         (void *)(uintptr_t)t.bias,
                         workspace,
                         (void *)(uintptr_t)t.k_scale,
                         (void *)(uintptr_t)t.v_scale};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i])
            sim_release(all[i]);
    free(lse);
    free(table);
    free(queries);
    return rows;
}

/* Are the rows of a span, from row `at` of `got` on, those of the tokens in `want`, whose row 0 is token `first`? */
static void expect_same(const struct answer *got, int64_t at, struct span span, const struct answer *want, int64_t first,
                        const char *how)
{
    for (int64_t i = span.from; i < span.to; i++) {
        EXPECT(memcmp(got->o + (at + i - span.from) * row_q(), want->o + (i - first) * row_q(), (size_t)row_q() * 2) == 0,
               "O of token %lld differs %s", (long long)i, how);
        for (int64_t h = 0; h < HEADS; h++)
            EXPECT(memcmp(&got->lse[h][at + i - span.from], &want->lse[h][i - first], 4) == 0,
                   "LSE of token %lld, head %lld, differs %s", (long long)i, (long long)h, how);
    }
}

static struct answer whole, part;

/* A prompt of 700 tokens, six spans of keys, beside chunks of it, tokens, and batches of them, linear and in pages of
 * every size. */
static void prompt(void)
{
    static const int64_t page_rows[] = {0, 16, 64, 256};
    const struct span all = {0, 700};
    open_gpu();
    make_tokens(1);
    run(&all, 1, 0, 1, &whole);
    for (uint64_t seed = 0; seed < 16; seed++) {
        struct rand r = rand_stream(seed, 3);
        const int64_t pages = page_rows[seed % 4];
        const int count = pages > 0 ? 1 + (int)rand_below(&r, 4) : 1;
        struct span spans[SPANS];
        int64_t at = 0;
        of_host = seed / 4 % 2 == 1;
        for (int i = 0; i < count; i++) {
            static const int64_t lengths[] = {1, 1, 5, 22, 90};
            spans[i].from = (int64_t)rand_below(&r, 600);
            spans[i].to = spans[i].from + lengths[rand_below(&r, 5)];
        }
        run(spans, count, pages, seed, &part);
        for (int i = 0; i < count; i++) {
            expect_same(&part, at, spans[i], &whole, 0, pages > 0 ? "in a step over pages" : "in a chunk");
            at += spans[i].to - spans[i].from;
        }
    }
    of_host = false;
}

/* A prompt of 300 tokens with something added to its scores. */
static void biases(void)
{
    const struct span all = {0, 300};
    open_gpu();
    make_tokens(8);
    for (bias = SLOPES; bias <= NUMBERS; bias++) {
        run(&all, 1, 0, 1, &whole);
        for (uint64_t seed = 0; seed < 4; seed++) {
            const int64_t first = 61 * (int64_t)seed;
            const struct span spans[] = {{first, first + 1}, {first + 3, first + 90}, {299, 300}};
            const int count = seed % 2 == 0 ? 3 : 1;
            int64_t at = 0;
            run(spans, count, seed % 2 == 0 ? 16 << seed : 0, seed, &part);
            for (int i = 0; i < count; i++) {
                expect_same(&part, at, spans[i], &whole, 0, "with a bias");
                at += spans[i].to - spans[i].from;
            }
        }
    }
    bias = NOTHING;
}

/* Where spans are longer: 2,048 keys and more. The end of a prompt, beside tokens alone. */
static void far(void)
{
    const struct span end = {2270, 2330};
    const struct span alone[] = {{2290, 2291}, {2270, 2330}, {2303, 2305}};
    open_gpu();
    make_tokens(2);
    run(&end, 1, 0, 1, &whole);
    run(alone, 3, 64, 2, &part);
    expect_same(&part, 0, alone[0], &whole, 2270, "beside others");
    expect_same(&part, 1, alone[1], &whole, 2270, "beside others");
    expect_same(&part, 61, alone[2], &whole, 2270, "beside others");
    run(alone, 1, 0, 3, &part);
    expect_same(&part, 0, alone[0], &whole, 2270, "alone");
}

/* Two key heads and two spans of keys, for four multiprocessors: each has a unit, though the slots of both spans, of
 * 32 rows of each head, take all the room that the workspace has for them. */
static void shared_out(void)
{
    const struct span last = {248, 256};
    open_gpu();
    make_tokens(3);
    slack = 0;
    run(&last, 1, 0, 1, &whole);
    EXPECT(units[0] == 0 && units[1] == 4, "%u units of many rows and %u of few", (unsigned)units[0], (unsigned)units[1]);
}

/* The same with windows: of less than a tile of keys, of some spans, and of more than the prompt has. Far from the
 * first key there is more than one chunk of what a window shows. */
static void windows(void)
{
    static const int64_t widths[] = {50, 300, 2000};
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        window = widths[i];
        prompt();
    }
    window = 900;
    far();
}

/* Over int8, and with a window over e4m3. */
static void narrow(void)
{
    slack = 40;
    window = 0;
    kv_dtype = GLINT_I8;
    prompt();
    far();
    kv_dtype = GLINT_E4M3;
    prompt();
    window = 300;
    prompt();
}

/* Intervals that hide nothing and a chain have the bits of the mask: far from the first key, where spans are longer,
 * and under a window, where they are not. */
static void beside_masks(void)
{
    static const struct span spans[] = {{2230, 2330}, {700, 760}, {2329, 2330}, {2, 40}};
    static const int64_t widths[] = {0, 300};
    kv_dtype = 0;
    open_gpu();
    make_tokens(4);
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        window = widths[i];
        for (uint64_t pages = 0; pages <= 64; pages += 64) {
            const int count = pages > 0 ? 4 : 1;
            extra = PLAIN;
            run(spans, count, (int64_t)pages, pages + 1, &whole);
            extra = ALL_SEEN;
            int64_t rows = run(spans, count, (int64_t)pages, pages + 2, &part);
            expect_same(&part, 0, (struct span){0, rows}, &whole, 0, "with intervals that hide nothing");
            extra = CHAIN;
            rows = run(spans, count, (int64_t)pages, pages + 3, &part);
            expect_same(&part, 0, (struct span){0, rows}, &whole, 0, "in a tree that is a chain");
        }
    }
    extra = PLAIN;
    window = 0;
}

#if LAW_SM == 80
/* The slots of all spans have no room in the workspace, and those of chunks of several spans have: intervals that hide
 * nothing and a tree that is a chain leave as many units as the mask. */
static void room(void)
{
    const struct span end = {1960, 2000};
    uint32_t wanted[2];
    open_gpu();
    make_tokens(3);
    run(&end, 1, 64, 2, &part);
    memcpy(wanted, units, sizeof wanted);
    for (int tree = 0; tree < 2; tree++) {
        extra = tree ? CHAIN : ALL_SEEN;
        run(&end, 1, 64, 2, &part);
        EXPECT(wanted[0] > 4 && memcmp(wanted, units, sizeof wanted) == 0, "%u and %u units, the mask has %u and %u",
               (unsigned)units[0], (unsigned)units[1], (unsigned)wanted[0], (unsigned)wanted[1]);
    }
    extra = PLAIN;
}
#endif

static void make_intervals(uint64_t seed)
{
    struct rand r = rand_stream(seed, 4);
    for (int64_t i = 0; i < MOST; i++) {
        own_keys[0][i] = (int32_t)rand_below(&r, (uint32_t)i + 2) - (i % 5 == 0 ? 300 : 0);
        own_keys[1][i] = own_keys[0][i] + (int32_t)rand_below(&r, i % 3 == 0 ? 20 : 600);
    }
}

/* Tokens with intervals of their own, of which many hide whole spans. */
static void intervals(void)
{
    static const uint32_t dtypes[] = {0, GLINT_E4M3};
    extra = OWN;
    make_intervals(5);
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        kv_dtype = dtypes[i];
        prompt();
    }
    far();
    window = 300;
    prompt();
    window = 0;
    kv_dtype = 0;
    extra = PLAIN;
}

#if LAW_SM == 90
/* At head dims whose tiles differ: 80, of slabs that are not whole, and 256, whose O of the spans before is in the
 * workspace. */
static void dims(void)
{
    static const int64_t given[] = {80, 256};
    static const uint32_t narrow_of[] = {GLINT_I8, GLINT_E4M3};
    slack = 40;
    kv_dtype = 0;
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        dim = given[i];
        window = 0;
        prompt();
        far();
        window = 300;
        prompt();
        window = 0;
        kv_dtype = narrow_of[i];
        prompt();
        kv_dtype = 0;
    }
    dim = 64;
}

/* A tensor map holds steps of less than 2^40 bytes. The map of Q steps from group to group of heads: where there are
 * several groups, a step is as many of a head's strides as a group has heads. The map of K steps from head to head. */
static void strides(void)
{
    const int64_t most = (INT64_C(1) << 39) / 8 * 8 - 8; /* elements of bf16, in steps of 16 bytes */
    static const struct {
        int64_t heads, heads_kv, part; /* of `most` that Q's head stride may be */
    } given[] = {{6, 2, 3}, {3, 1, 1}, {8, 8, 1}, {8, 1, 1}, {16, 2, 8}, {16, 1, 1}, {32, 1, 16}};
    open_gpu();
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        struct glint_problem p;
        struct glint_plan plan;
        glint_problem_bshd(&p, GLINT_BF16, 2, 1, 8192, given[i].heads, given[i].heads_kv, dim);
        p.mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
        p.lengths = GLINT_LENGTHS_DEVICE;
        const int64_t right = most / given[i].part / 8 * 8;
        int64_t *const stride[] = {&p.q.head, &p.k.head, &p.v.head, &p.q.batch, &p.k.batch, &p.k.row};
        const int64_t limit[] = {right, most, most, most, most, most};
        for (size_t s = 0; s < sizeof stride / sizeof stride[0]; s++) {
            const int64_t before = *stride[s];
            const bool steps = given[i].heads_kv > 1 || (s != 1 && s != 2);
            *stride[s] = limit[s];
            enum glint_status status = glint_plan(gpu, &p, GLINT_FORWARD, &plan);
            EXPECT(status == GLINT_OK, "%zu: stride %zu of %lld: %s", i, s, (long long)limit[s], glint_status_name(status));
            *stride[s] = limit[s] + 8;
            status = glint_plan(gpu, &p, GLINT_FORWARD, &plan);
            EXPECT(status == (steps ? GLINT_SIZE_OVERFLOW : GLINT_OK), "%zu: stride %zu of %lld: %s", i, s, (long long)limit[s] + 8,
                   glint_status_name(status));
            *stride[s] = before;
        }
    }
}

#endif

static const struct contract_case cases[] = {
#if LAW_SM == 90
    {"strides", strides, 0},
    {"dims", dims, 600},
#else
    {"room", room, 60},
#endif
    {"beside_masks", beside_masks, 300},
    {"intervals", intervals, 400},
    {"biases", biases, 100},
    {"prompt", prompt, 200},
    {"far", far, 200},
    {"shared_out", shared_out, 60},
    {"windows", windows, 400},
    {"narrow", narrow, 600},
};
CONTRACT_MAIN("step law", cases)
