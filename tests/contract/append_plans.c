/* glint_append reads the lengths of a call and writes its cache, and nothing else of it: with a plan of whatever is
 * added to scores, hides them or is told of them, it takes tensors that have none of that. The table is written here,
 * and nothing is computed but what appends. */
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
    TAKES = GLINT_TAKES_LENGTHS | GLINT_TAKES_SINKS | GLINT_TAKES_MAX_LOGIT,
    DIM = 16,
    HEADS_KV = 2,
    QUERIES = 3,
    KEYS = 20
};
#define ROW(name, features)                                                                                                        \
    {                                                                                                                              \
        name, GLINT_FORWARD, GLINT_F32, 0, features, DIM, 64, 96, GLINT_ISA_ANY + 1, 0, GLINT_MATH_NATIVE, 0, 0, 0, 0, 0, 0, 0, 4, \
            TAKES, TAKES, 0, 0                                                                                                     \
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

static const struct contract_case cases[] = {{"plans_of_all_kinds", plans_of_all_kinds, 0}};
CONTRACT_MAIN("append_plans", cases)
