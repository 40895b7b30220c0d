/* glint_append reads the lengths of a call and writes its cache, and nothing else of it: with a plan of whatever is
 * added to scores, hides them or is told of them, it takes tensors that have none of that. No two bodies write one row.
 * The table is written here, and nothing is computed but what appends. */
#include <string.h>

#include "lib/backend.h"
#include "lib/cpu/cpu.h"
#include "lib/takes.h"
#include "tests/contract/suite.h"

extern const struct glint_family glint_family_cpu;
const struct glint_family *const glint_families[] = {&glint_family_cpu};

void glint_cpu_run_task(uint32_t kernel, uint32_t phase, const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    (void)kernel, (void)phase, (void)call, (void)scratch, (void)task; /* no attention is computed */
}

enum {
    BAND = GLINT_FEATURE_RIGHT_BOUND | GLINT_FEATURE_LEFT_BOUND,
    INTERVAL = BAND | GLINT_FEATURE_INTERVALS,
    TAKES = GLINT_TAKES_LENGTHS | GLINT_TAKES_RAGGED | GLINT_TAKES_PAGES | GLINT_TAKES_RAGGED_PAGES | GLINT_TAKES_SINKS |
            GLINT_TAKES_MAX_LOGIT,
    DIM = 16,
    HEADS_KV = 2,
    QUERIES = 3,
    KEYS = 20
};
#define ROW(name, features)                                                                                                       \
    {                                                                                                                             \
        name, GLINT_FORWARD, GLINT_F32, 0, GLINT_MATH_NATIVE, features, DIM, DIM, 64, 96, GLINT_ISA_ANY + 1, 0, 0, 0, 0, 0, 0, 0, \
            0, 4, TAKES, TAKES, 0, 0, 0                                                                                           \
    }
const struct glint_variant glint_variants[] = {
    ROW("alibi", GLINT_FEATURE_ALIBI), ROW("band_softcap", BAND | GLINT_FEATURE_SOFTCAP), ROW("interval", INTERVAL), ROW("none", 0),
    ROW("tensor", GLINT_FEATURE_BIAS), ROW("tree", INTERVAL | GLINT_FEATURE_TREE),
};
enum { ROWS = sizeof glint_variants / sizeof glint_variants[0] };
const uint32_t glint_variants_count = ROWS;

static void plans_of_all_kinds(void)
{
    static _Alignas(64) unsigned char storage[1 << 14];
    static float k[KEYS * HEADS_KV * DIM], v[KEYS * HEADS_KV * DIM], new_k[QUERIES * HEADS_KV * DIM],
        new_v[QUERIES * HEADS_KV * DIM];
    struct glint_options options = GLINT_OPTIONS_INIT;
    struct glint_context *context = NULL;
    options.device = GLINT_DEVICE_CPU;
    EXPECT(glint_context_size() <= sizeof storage && glint_context_init(storage, sizeof storage, &options, &context) == GLINT_OK,
           "no context");
    for (uint32_t row = 0; row < ROWS; row++)
        for (uint32_t more = 0; more < 4; more++) {
            const uint32_t features = glint_variants[row].features;
            const int32_t queries = QUERIES, keys = KEYS - 4;
            struct glint_problem p;
            struct glint_plan plan;
            struct glint_tensors t = GLINT_TENSORS_INIT;
            struct glint_append a = GLINT_APPEND_INIT;
            glint_problem_bshd(&p, GLINT_F32, 1, QUERIES, KEYS, 4, HEADS_KV, DIM);
            p.mask = glint_mask_of(&glint_variants[row]);
            p.lengths = GLINT_LENGTHS_DEVICE;
            p.softcap = (features & GLINT_FEATURE_SOFTCAP) != 0 ? 5.0f : 0.0f;
            p.intervals = (features & GLINT_FEATURE_INTERVALS) != 0;
            p.tree = (features & GLINT_FEATURE_TREE) != 0;
            p.alibi = (features & GLINT_FEATURE_ALIBI) != 0;
            p.bias_dtype = (features & GLINT_FEATURE_BIAS) != 0 ? GLINT_F32 : 0;
            p.sinks = more & 1, p.max_logit = more >> 1;
            EXPECT(glint_plan_variant(context, &p, GLINT_FORWARD, row, &plan) == GLINT_OK, "%s", glint_variants[row].name);
            memset(k, 0, sizeof k), memset(v, 0, sizeof v);
            for (int i = 0; i < QUERIES * HEADS_KV * DIM; i++)
                new_k[i] = 1.0f + (float)i, new_v[i] = -1.0f - (float)i;
            t.k = k, t.v = v, t.seqlens_q = &queries, t.seqlens_k = &keys;
            a.dtype = GLINT_F32, a.k = new_k, a.v = new_v;
            a.k_strides = a.v_strides = (struct glint_strides){QUERIES * HEADS_KV * DIM, DIM, HEADS_KV * DIM};
            const enum glint_status status = glint_append(&plan, &a, &t, NULL);
            EXPECT(status == GLINT_OK, "%s, sinks %u, max_logit %u: %s", glint_variants[row].name, p.sinks, p.max_logit,
                   glint_status_name(status));
            const int begin = (keys - queries) * HEADS_KV * DIM;
            EXPECT(memcmp(k + begin, new_k, sizeof new_k) == 0 && memcmp(v + begin, new_v, sizeof new_v) == 0 &&
                       k[begin - 1] == 0 && v[begin + QUERIES * HEADS_KV * DIM] == 0,
                   "%s: the rows are elsewhere", glint_variants[row].name);
        }
}

/* ---- the shares of bodies ---- */

enum { MANY_Q = 700, MANY_K = 720, BATCH = 3, ROWS_Q = BATCH * MANY_Q, OF_PAGE = 16, PAGES = BATCH * MANY_K / OF_PAGE };

static struct {
    float k[BATCH * MANY_K * HEADS_KV * DIM], v[BATCH * MANY_K * HEADS_KV * DIM];
    uint32_t written[BATCH * MANY_K]; /* by so many bodies */
    uint32_t bodies, calls, most;
} shares;

/* Each body alone, in a cache of zeros: what it has written is its own. */
static void one_at_a_time(void *user, uint32_t count, void (*body)(void *argument, uint32_t index), void *argument)
{
    (void)user;
    shares.bodies = count, shares.calls++;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t rows = 0;
        memset(shares.k, 0, sizeof shares.k), memset(shares.v, 0, sizeof shares.v);
        body(argument, i);
        for (int row = 0; row < BATCH * MANY_K; row++) {
            const float *const k = shares.k + row * HEADS_KV * DIM, *const v = shares.v + row * HEADS_KV * DIM;
            EXPECT((k[0] != 0) == (v[0] != 0) && (k[0] != 0) == (k[HEADS_KV * DIM - 1] != 0), "a part of row %d is written", row);
            EXPECT(k[0] == 0 || k[0] == -v[0], "row %d of K and V are of two tokens", row);
            shares.written[row] += k[0] != 0;
            rows += k[0] != 0;
        }
        shares.most = rows > shares.most ? rows : shares.most;
    }
}

static void shares_of_bodies(void)
{
    static _Alignas(64) unsigned char storage[1 << 14];
    static float new_k[ROWS_Q * HEADS_KV * DIM], new_v[ROWS_Q * HEADS_KV * DIM];
    static int32_t table[PAGES];
    const int32_t queries[BATCH] = {MANY_Q, 1, MANY_Q - 40}, keys[BATCH] = {MANY_K, 30, MANY_Q};
    const int32_t first[BATCH + 1] = {0, MANY_Q, MANY_Q + 1, 2 * MANY_Q - 39};
    for (int i = 0; i < ROWS_Q * HEADS_KV * DIM; i++)
        new_k[i] = 1.0f + (float)(i / (HEADS_KV * DIM)), new_v[i] = -new_k[i];
    for (int i = 0; i < PAGES; i++)
        table[i] = i;
    for (uint32_t concurrency = 1; concurrency <= 9; concurrency++)
        for (int ragged = 0; ragged < 2; ragged++) {
            struct glint_options options = GLINT_OPTIONS_INIT;
            struct glint_context *context = NULL;
            struct glint_problem p;
            struct glint_plan plan;
            struct glint_tensors t = GLINT_TENSORS_INIT;
            struct glint_append a = GLINT_APPEND_INIT;
            options.device = GLINT_DEVICE_CPU;
            options.executor = (struct glint_executor){sizeof options.executor, concurrency, one_at_a_time, NULL};
            EXPECT(glint_context_init(storage, sizeof storage, &options, &context) == GLINT_OK, "no context");
            glint_problem_bshd(&p, GLINT_F32, BATCH, MANY_Q, MANY_K, 4, HEADS_KV, DIM);
            p.lengths = ragged ? GLINT_LENGTHS_RAGGED : GLINT_LENGTHS_DEVICE;
            if (ragged) {
                p.rows_q = ROWS_Q;
                p.page_rows = OF_PAGE, p.pages = PAGES, p.pages_per_sequence = PAGES / BATCH;
                p.k = p.v = (struct glint_strides){OF_PAGE * HEADS_KV * DIM, DIM, HEADS_KV * DIM};
                t.first_q = first, t.page_table = table;
            }
            EXPECT(glint_plan_variant(context, &p, GLINT_FORWARD, 3, &plan) == GLINT_OK, "no plan");
            memset(&shares.written, 0, sizeof shares.written);
            shares.calls = shares.most = 0;
            t.k = shares.k, t.v = shares.v, t.seqlens_q = queries, t.seqlens_k = keys;
            a.dtype = GLINT_F32, a.k = new_k, a.v = new_v;
            a.k_strides = a.v_strides = (struct glint_strides){MANY_Q * HEADS_KV * DIM, DIM, HEADS_KV * DIM};
            const enum glint_status status = glint_append(&plan, &a, &t, NULL);
            EXPECT(status == GLINT_OK && shares.calls == 1, "%s", glint_status_name(status));
            for (int b = 0; b < BATCH; b++)
                for (int key = 0; key < MANY_K; key++) {
                    const unsigned want = key >= keys[b] - queries[b] && key < keys[b], wrote = shares.written[b * MANY_K + key];
                    EXPECT(wrote == want, "%u bodies, ragged %d: key %d of sequence %d is written by %u", shares.bodies, ragged,
                           key, b, wrote);
                }
            EXPECT(shares.bodies <= concurrency && (concurrency == 1 || shares.bodies > 1), "%u bodies of %u", shares.bodies,
                   concurrency);
            EXPECT(shares.most <= ROWS_Q / shares.bodies + 1, "a body of %u has %u rows", shares.bodies, shares.most);
        }
}

static const struct contract_case cases[] = {{"plans_of_all_kinds", plans_of_all_kinds, 0},
                                             {"shares_of_bodies", shares_of_bodies, 0}};
CONTRACT_MAIN("append_plans", cases)
