/* Do K and V of a cache share an element? Of strides as far apart as 63 bits allow, glint_append's answer is held
 * against every pair of rows, counted in 128 bits. lib/check_call.c is compiled for this test so that an overflow of
 * signed numbers ends it. */
#include <stdlib.h>
#include <string.h>

#include "tests/contract/suite.h"
#include "tests/contract/world.h"

__extension__ typedef __int128 wide;

enum { ROUNDS = 4000 };

/* A forward row of one kind of K and V; false when the context runs none. */
static bool row_of_keys(const struct glint_context *context, uint32_t kv_dtype, struct glint_variant_info *info)
{
    for (uint32_t i = 0; i < glint_variant_count(); i++) {
        *info = row_at(i);
        if (info->pass == GLINT_FORWARD && info->kv_dtype == kv_dtype && glint_variant_available(context, i) == GLINT_OK)
            return true;
    }
    return false;
}

/* Element x of K is element y of V at distance `offset`: x = offset + y. */
static bool elements_meet(wide offset, const struct glint_problem *p)
{
    for (int64_t b = 1 - p->batch; b < p->batch; b++)
        for (int64_t h = 1 - p->heads_kv; h < p->heads_kv; h++)
            for (int64_t r = 1 - p->seqlen_k; r < p->seqlen_k; r++) {
                const wide rest = offset - (wide)b * p->k.batch - (wide)h * p->k.head - (wide)r * p->k.row;
                if (rest > -p->head_dim && rest < p->head_dim)
                    return true;
            }
    return false;
}

static wide span_of(const struct glint_problem *p)
{
    return (wide)(p->batch - 1) * p->k.batch + (wide)(p->heads_kv - 1) * p->k.head + (wide)(p->seqlen_k - 1) * p->k.row +
           p->head_dim;
}

/* A number below 2^63, of any size and often of the largest, in whole units of 16. */
static int64_t far(struct rand *r)
{
    return (int64_t)(rand_bits(r) >> 1 >> rand_below(r, rand_below(r, 2) ? 3 : 56)) / 16 * 16;
}

/* Strides that step over what is inside them, rows innermost, with gaps of any size where V may lie. */
static void lay_out(struct rand *r, struct glint_problem *p)
{
    int64_t *const stride[3] = {&p->k.row, &p->k.head, &p->k.batch}, extent[3] = {p->seqlen_k, p->heads_kv, p->batch};
    wide inner = p->head_dim;
    for (int i = 0; i < 3; i++) {
        const wide wanted = inner * (1 + rand_below(r, 2)) + far(r) * rand_below(r, 2);
        *stride[i] = (int64_t)(wanted < INT64_MAX ? wanted : INT64_MAX / 16 * 16);
        inner = *stride[i] * (wide)extent[i];
    }
    p->v = p->k;
}

static void keys_and_values(void)
{
    static const uint32_t kinds[] = {0, GLINT_I8, GLINT_E4M3};
    void *storage;
    struct counting counting;
    struct glint_context *const context = open_context(&counting, 1, &storage);
    struct rand r = {29};
    int met = 0, apart = 0, distant = 0;
    for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
        struct glint_variant_info info;
        if (!row_of_keys(context, kinds[kind], &info))
            continue;
        for (int i = 0; i < ROUNDS; i++) {
            struct glint_problem p;
            struct glint_plan plan;
            glint_problem_bshd(&p, (enum glint_dtype)info.dtype, 1 + rand_below(&r, 3), 1, 1 + rand_below(&r, 3), 2,
                               1 + rand_below(&r, 2), info.head_dim);
            serve_cache(&p, &info);
            p.mask = row_mask(&info, true);
            lay_out(&r, &p);
            const wide element = info.kv_dtype != 0 ? 1 : element_bytes(info.dtype), span = span_of(&p);
            if (span * element > INT64_MAX || glint_plan(context, &p, GLINT_FORWARD, &plan) != GLINT_OK)
                continue;
            /* V somewhere in K's range: beside a row of it, or anywhere. */
            wide offset = rand_below(&r, p.batch) * (wide)p.k.batch + rand_below(&r, p.heads_kv) * (wide)p.k.head +
                          (rand_below(&r, 5) - 2) * (wide)p.head_dim / 2;
            if (offset < 0 || rand_below(&r, 4) == 0)
                offset = far(&r);
            offset = offset % span / 16 * 16;
            const uintptr_t begin = 1 << 20;
            struct glint_append append = GLINT_APPEND_INIT;
            struct glint_tensors t = GLINT_TENSORS_INIT;
            append.dtype = info.dtype;
            append.k = append.v = (const void *)(uintptr_t)4096; /* nothing is read: the call is only explained */
            append.k_strides = append.v_strides = (struct glint_strides){p.head_dim, p.head_dim, p.head_dim};
            t.k = (const void *)begin;
            t.v = (const void *)(begin + (uintptr_t)(offset * element));
            t.k_scale = (const float *)(uintptr_t)(p.kv_scales != 0 ? 1 << 16 : 0);
            t.v_scale = (const float *)(uintptr_t)(p.kv_scales != 0 ? 1 << 17 : 0);
            char text[512];
            const enum glint_status status = glint_explain_append(&plan, &append, &t, NULL, text, sizeof text, NULL);
            const bool meet = elements_meet(offset, &p);
            EXPECT(status == (meet ? GLINT_TENSOR_OVERLAP : GLINT_OK),
                   "%s: strides %lld %lld %lld, extents %lld %lld %lld, V %lld elements after K: %s", info.name,
                   (long long)p.k.batch, (long long)p.k.head, (long long)p.k.row, (long long)p.batch, (long long)p.heads_kv,
                   (long long)p.seqlen_k, (long long)offset, text);
            met += meet, apart += !meet, distant += span * element > INT64_MAX / 2;
        }
    }
    EXPECT(met > ROUNDS / 10 && apart > ROUNDS / 10 && distant > ROUNDS / 100, "%d met, %d apart, %d of 62 bits", met, apart,
           distant);
    contract_note("%d met, %d apart; %d of them cover more than 2^62 bytes", met, apart, distant);
    EXPECT(glint_context_close(context) == GLINT_OK, "close");
    free(storage);
}

static const struct contract_case cases[] = {{"keys_and_values", keys_and_values, 0}};
CONTRACT_MAIN("cache_overlap", cases)
