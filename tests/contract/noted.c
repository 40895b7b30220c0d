/* What a call notes: the word for a fault becomes the first sequence with a length that is none, or with a page
 * outside of the pool that holds a key which some query sees. A count over all queries and keys says what that is, of
 * problems drawn at random with pages, windows, intervals and trees, over the table of made_up.c, whose kernels compute
 * nothing. Trees are asked without a window: what a window of a tree counts, tests/trees has. */
#include <stdlib.h>
#include <string.h>

#include "lib/check.h"
#include "lib/takes.h"
#include "tests/contract/made_up.h"
#include "tests/contract/suite.h"
#include "tests/support/rand.h"

enum { BATCH = 3, QUERIES = 70, KEYS = 200, TABLE = 14, WORDS = (QUERIES + 31) / 32, DRAWN = CONTRACT_SANITIZED ? 400 : 3000 };

struct world {
    struct glint_problem problem;
    int32_t first_q[BATCH + 1], seqlens_q[BATCH], seqlens_k[BATCH], table[BATCH * TABLE];
    int32_t key_begin[BATCH * QUERIES], key_end[BATCH * QUERIES];
    uint32_t tree[BATCH * QUERIES * WORDS];
};

/* Mostly a number in the range; else one beside it or far away. */
static int32_t drawn(struct rand *r, int64_t most)
{
    switch (rand_below(r, 40)) {
    case 0: return -1;
    case 1: return (int32_t)most + 1;
    case 2: return INT32_MAX;
    case 3: return INT32_MIN;
    case 4: return (int32_t)most;
    case 5: return 0;
    default: return (int32_t)rand_below(r, most + 1);
    }
}

static void draw(struct rand *r, const struct glint_variant *v, struct world *w)
{
    struct glint_problem *const p = &w->problem;
    const int64_t queries = v->queries_up_to > 0 ? 1 + rand_below(r, (int64_t)v->queries_up_to) : 1 + rand_below(r, QUERIES);
    glint_problem_bshd(p, (enum glint_dtype)v->dtype, BATCH, queries, 1 + rand_below(r, KEYS), 2, 1, v->head_dim);
    p->lengths = rand_below(r, 2) == 0 ? GLINT_LENGTHS_DEVICE : GLINT_LENGTHS_RAGGED;
    if (p->lengths == GLINT_LENGTHS_RAGGED)
        p->rows_q = 2 * queries;
    p->page_rows = 16 << rand_below(r, 3), p->pages = 5, p->pages_per_sequence = TABLE;
    p->k = p->v = (struct glint_strides){p->page_rows * p->head_dim, p->page_rows * p->head_dim, p->head_dim};
    p->kv_dtype = v->kv_dtype, p->kv_scales = v->kv_dtype != 0 ? GLINT_SCALES_TENSOR : 0;
    p->tree = (v->features & GLINT_FEATURE_TREE) != 0 && rand_below(r, 2) == 0;
    p->intervals = (v->features & GLINT_FEATURE_INTERVALS) != 0 && rand_below(r, 3) != 0;
    p->bias_dtype = (v->features & GLINT_FEATURE_BIAS) != 0 ? GLINT_F32 : 0;
    p->mask = p->tree != 0 ? (uint32_t)GLINT_MASK_NONE : 1 + (uint32_t)rand_below(r, 5);
    if ((v->features & GLINT_FEATURE_LEFT_BOUND) == 0 && p->mask > GLINT_MASK_CAUSAL_BOTTOM_RIGHT)
        p->mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
    if ((v->features & GLINT_FEATURE_RIGHT_BOUND) == 0)
        p->mask = GLINT_MASK_NONE;
    if (p->mask >= GLINT_MASK_BAND_TOP_LEFT)
        p->window_left = rand_below(r, 60), p->window_right = rand_below(r, 30);
    if (p->mask != GLINT_MASK_NONE && rand_below(r, 2) == 0)
        p->diagonal = rand_below(r, 60) - 30;
    p->softcap = (v->features & GLINT_FEATURE_SOFTCAP) != 0 ? 1 : 0;
    for (int b = 0; b < BATCH; b++)
        w->seqlens_q[b] = drawn(r, queries), w->seqlens_k[b] = drawn(r, p->seqlen_k);
    w->first_q[0] = 0;
    for (int b = 0; b < BATCH; b++)
        w->first_q[b + 1] = rand_below(r, 30) == 0
                                ? drawn(r, p->rows_q)
                                : (int32_t)((uint32_t)w->first_q[b] + (uint32_t)rand_below(r, p->rows_q / 2 + 1));
    const bool bad = rand_below(r, 3) != 0; /* a table of good pages alone, or one with some that are none */
    for (int i = 0; i < BATCH * TABLE; i++)
        w->table[i] = bad && rand_below(r, 6) == 0 ? (rand_below(r, 2) == 0 ? -1 : 5) : (int32_t)rand_below(r, 5);
    for (int i = 0; i < BATCH * QUERIES; i++) { /* most queries see few keys */
        w->key_begin[i] = (int32_t)rand_below(r, KEYS + 20) - 10;
        w->key_end[i] = rand_below(r, 9) == 0 ? INT32_MAX : w->key_begin[i] + (int32_t)rand_below(r, 12) - 1;
    }
    const int64_t dense = rand_below(r, 4);
    for (int i = 0; i < BATCH * QUERIES * WORDS; i++) {
        w->tree[i] = 0;
        for (int bit = 0; bit < 32; bit++)
            w->tree[i] |= (uint32_t)(rand_below(r, dense == 0 ? 40 : 4) == 0) << bit;
    }
}

/* `row`: of the query among all rows of the arrays. */
static bool sees(const struct world *w, int64_t row, int64_t query, int64_t key, int64_t queries, int64_t keys)
{
    const struct glint_problem *const p = &w->problem;
    if (p->intervals != 0 && (key < w->key_begin[row] || key >= w->key_end[row]))
        return false;
    if (p->tree != 0) {
        const int64_t slot = key - (keys - queries), words = (p->seqlen_q + 31) / 32;
        return slot < 0 || (w->tree[row * words + slot / 32] >> slot % 32 & 1) != 0;
    }
    const bool bottom = p->mask == GLINT_MASK_CAUSAL_BOTTOM_RIGHT || p->mask == GLINT_MASK_BAND_BOTTOM_RIGHT;
    const int64_t past = key - query - p->diagonal - (bottom ? keys - queries : 0);
    if (p->mask == GLINT_MASK_NONE)
        return true;
    return past <= p->window_right && (p->mask < GLINT_MASK_BAND_TOP_LEFT || past >= -p->window_left);
}

static bool length_is_none(int64_t length, int64_t most)
{
    return length < 0 || length > most;
}

/* Has the sequence something to note? A length that is none counts as the nearest that is one. */
static bool wrong(const struct world *w, int b, int64_t row, int64_t given)
{
    const struct glint_problem *const p = &w->problem;
    const int64_t bound = given < p->seqlen_q ? given : p->seqlen_q;
    if (length_is_none(w->seqlens_q[b], bound) || length_is_none(w->seqlens_k[b], p->seqlen_k))
        return true;
    const int64_t queries = w->seqlens_q[b], keys = w->seqlens_k[b];
    for (int64_t query = 0; query < queries; query++)
        for (int64_t key = 0; key < keys; key++) {
            const int32_t page = w->table[b * TABLE + key / p->page_rows];
            if ((page < 0 || page >= p->pages) && sees(w, row + query, query, key, queries, keys))
                return true;
        }
    return false;
}

static uint32_t expected(const struct world *w)
{
    const struct glint_problem *const p = &w->problem;
    for (int b = 0; b < BATCH; b++) {
        if (p->lengths == GLINT_LENGTHS_DEVICE) {
            if (wrong(w, b, b * p->seqlen_q, p->seqlen_q))
                return (uint32_t)b;
            continue;
        }
        const int64_t first = w->first_q[b], end = w->first_q[b + 1];
        if (first < 0 || end < first || end > p->rows_q || wrong(w, b, first, end - first))
            return (uint32_t)b;
    }
    return GLINT_NO_FAULT;
}

static void of_row(uint32_t index)
{
    const struct glint_variant *const v = &glint_variants[index];
    static struct world w;
    static float logits[2];
    struct rand r = rand_stream(11, index);
    uint32_t noted[BATCH + 1] = {0}, asked = 0;
    void *workspace = NULL;
    size_t room = 0;
    for (int i = 0; i < DRAWN; i++) {
        struct glint_plan plan;
        uint32_t word = GLINT_NO_FAULT;
        draw(&r, v, &w);
        struct glint_context *const context = made_up_context(1 + (uint32_t)rand_below(&r, 3), GLINT_ISA_ANY, 1);
        const enum glint_status planned = glint_plan_variant(context, &w.problem, GLINT_FORWARD, index, &plan);
        EXPECT(planned == GLINT_OK || planned == GLINT_NOT_IN_SPEC, "%s: %s", v->name, glint_status_name(planned));
        if (planned != GLINT_OK) /* another row serves it */
            continue;
        if (plan.workspace_bytes > room) {
            free(workspace);
            room = (plan.workspace_bytes + 4095) / 4096 * 4096;
            workspace = aligned_alloc(4096, room);
        }
        struct glint_tensors t = GLINT_TENSORS_INIT;
        t.q = (void *)(UINT64_C(1) << 40), t.k = (void *)(UINT64_C(2) << 40), t.v = (void *)(UINT64_C(3) << 40);
        t.o = (void *)(UINT64_C(4) << 40), t.lse = (void *)(UINT64_C(5) << 40);
        t.first_q = w.problem.lengths == GLINT_LENGTHS_RAGGED ? w.first_q : NULL;
        t.seqlens_q = w.seqlens_q, t.seqlens_k = w.seqlens_k, t.fault = &word, t.page_table = w.table;
        t.key_begin = w.problem.intervals != 0 ? w.key_begin : NULL;
        t.key_end = w.problem.intervals != 0 ? w.key_end : NULL;
        t.tree_bits = w.problem.tree != 0 ? w.tree : NULL;
        t.bias = w.problem.bias_dtype != 0 ? (void *)(UINT64_C(6) << 40) : NULL;
        t.k_scale = t.v_scale = w.problem.kv_dtype != 0 ? logits : NULL;
        const uint32_t want = expected(&w);
        const enum glint_status ran = glint_forward(&plan, &t, workspace, room, NULL);
        EXPECT(ran == GLINT_OK, "%s: %s", v->name, glint_status_name(ran));
        EXPECT(word == want, "%s, problem %d: %d is noted, not %d; mask %u, tree %u, intervals %u, lengths %u", v->name, i,
               (int)word, (int)want, w.problem.mask, w.problem.tree, w.problem.intervals, w.problem.lengths);
        noted[want == GLINT_NO_FAULT ? BATCH : want]++;
        asked++;
    }
    free(workspace);
    contract_note("%s: %u asked, of %u nothing is noted", v->name, asked, noted[BATCH]);
    EXPECT(asked > DRAWN / 4, "%s: %u problems asked", v->name, asked);
    for (int b = 0; b <= BATCH; b++)
        EXPECT(noted[b] > asked / 60, "%s: %u of %u problems note %d", v->name, noted[b], asked, b);
}

static void every_row(void)
{
    for (uint32_t i = 0; i < glint_variants_count; i++)
        if (glint_variants[i].family == 0 && (glint_variants[i].takes & GLINT_TAKES_PAGES) != 0 &&
            (i % 2 == 1 || (glint_variants[i].features & (GLINT_FEATURE_TREE | GLINT_FEATURE_INTERVALS)) != 0))
            of_row(i);
}

static const struct contract_case cases[] = {{"every_row", every_row, 0}};
CONTRACT_MAIN("noted", cases)
