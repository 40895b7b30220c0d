#include "bench/drawn_problems.h"

#include "tests/support/rand.h"

enum { TRIES = 1000 };

/* About evenly in its logarithm. */
static int64_t length(struct rand *r)
{
    const int64_t below = INT64_C(1) << rand_below(r, 16);
    return below + rand_below(r, below);
}

static uint32_t draw_mask(struct rand *r, uint32_t features)
{
    const uint32_t bottom_right = (uint32_t)rand_below(r, 2);
    if (features & GLINT_FEATURE_LEFT_BOUND)
        return GLINT_MASK_BAND_TOP_LEFT + bottom_right;
    return features & GLINT_FEATURE_RIGHT_BOUND ? GLINT_MASK_CAUSAL_TOP_LEFT + bottom_right : GLINT_MASK_NONE;
}

/* K and V in a pool of pages, whose batch strides are those of a page. */
static void put_in_pages(struct rand *r, struct glint_problem *p)
{
    const int64_t rows = INT64_C(16) << rand_below(r, 5), pages = (p->seqlen_k + rows - 1) / rows;
    struct glint_problem pool;
    glint_problem_bshd(&pool, (enum glint_dtype)p->dtype, 1, 1, rows, p->heads_q, p->heads_kv, p->head_dim);
    p->page_rows = rows;
    p->pages_per_sequence = pages;
    p->pages = pages * p->batch;
    p->k = pool.k;
    p->v = pool.v;
}

static void make_ragged(struct glint_problem *p)
{
    p->lengths = GLINT_LENGTHS_RAGGED;
    p->rows_q = p->batch * p->seqlen_q;
    p->rows_k = p->page_rows > 0 ? 0 : p->batch * p->seqlen_k;
}

static void draw(struct rand *r, const struct glint_variant_info *row, struct drawn_problem *drawn)
{
    struct glint_problem *p = &drawn->problem;
    const int64_t groups = INT64_C(1) << rand_below(r, 4), heads_kv = INT64_C(1) << rand_below(r, 4), batch = 1 + rand_below(r, 64);
    const int64_t queries = row->queries_up_to > 0 ? 1 + rand_below(r, row->queries_up_to) : length(r), keys = length(r);
    (rand_below(r, 2) ? glint_problem_bshd : glint_problem_bhsd)(p, (enum glint_dtype)row->dtype, batch, queries, keys,
                                                                 groups * heads_kv, heads_kv, row->head_dim);
    drawn->pass = (enum glint_pass)row->pass;
    p->mask = draw_mask(r, row->features);
    if (row->features & GLINT_FEATURE_LEFT_BOUND)
        p->window_left = length(r), p->window_right = rand_below(r, 64);
    if (p->mask != GLINT_MASK_NONE && rand_below(r, 4) == 0)
        p->diagonal = rand_below(r, 2001) - 1000;
    p->kv_dtype = row->kv_dtype;
    p->kv_scales = row->kv_dtype > 0 ? GLINT_SCALES_ROW : GLINT_SCALES_NONE;
    p->sinks = rand_below(r, 4) == 0;
    if (drawn->pass == GLINT_FORWARD && rand_below(r, 4) == 0)
        p->order = GLINT_ORDER_CANONICAL;
    if (drawn->pass == GLINT_FORWARD && rand_below(r, 4) == 0)
        put_in_pages(r, p);
    switch (rand_below(r, 4)) {
    case 0: p->lengths = GLINT_LENGTHS_DEVICE; break;
    case 1: make_ragged(p); break;
    default: break;
    }
}

int draw_problem(const struct glint_context *context, uint64_t seed, uint64_t index, struct drawn_problem *drawn)
{
    struct rand r = rand_stream(seed, index);
    struct glint_plan plan;
    const uint32_t rows = glint_variant_count();
    for (int i = 0; i < TRIES && rows > 0; i++) {
        struct glint_variant_info row = GLINT_VARIANT_INFO_INIT;
        const uint32_t at = (uint32_t)rand_below(&r, rows);
        if (glint_variant_available(context, at) != GLINT_OK || glint_variant_at(at, &row) != GLINT_OK)
            continue;
        draw(&r, &row, drawn);
        if (glint_plan(context, &drawn->problem, drawn->pass, &plan) == GLINT_OK)
            return 1;
    }
    return 0;
}
