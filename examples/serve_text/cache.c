#include "examples/serve_text/cache.h"

#include <stdio.h>
#include <string.h>

#include "examples/train_text/attention.h"

static const char NEEDS[] =
    "serve_text --device cuda needs GPU kernels that read lengths and pages on the device: examples/serve_text/spec.lua has them, for f32, "
    "bf16 and i8 (./bazelw run --repo_env=GLINT_SPEC=examples/serve_text/spec.lua //examples:serve_text -- ...)";

static size_t width(const struct cache *c)
{
    return c->shape.heads * HEAD_DIM;
}

/* The most rows of a step. */
static size_t most_rows(const struct cache *c)
{
    return PREFILLS * CHUNK + c->shape.slots * (1 + c->shape.proposed);
}

/* Q and O are bf16: for a cache of bf16, and on a GPU, whose decode has no float32, for one of int8. */
static int is_16(const struct cache *c)
{
    return c->shape.kept == GLINT_BF16 || (c->shape.kept == GLINT_I8 && c->gpu != NULL);
}

/* ---- the plan ---- */

/* The strides of Q, K and V in fused rows of float32. */
static struct glint_strides fused(const struct cache *c)
{
    return (struct glint_strides){0, HEAD_DIM, 3 * (int64_t)width(c)};
}

static void problem_of(const struct cache *c, struct glint_problem *p)
{
    const int64_t heads = (int64_t)c->shape.heads, row = (int64_t)width(c);
    const int narrow = c->shape.kept == GLINT_I8;
    glint_problem_bshd(p, is_16(c) ? GLINT_BF16 : GLINT_F32, (int64_t)c->shape.slots, CHUNK, (int64_t)c->shape.longest, heads,
                       heads, HEAD_DIM);
    p->mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
    p->lengths = GLINT_LENGTHS_RAGGED;
    p->rows_q = (int64_t)most_rows(c);
    if (!is_16(c))
        p->q = fused(c);
    p->k = p->v = (struct glint_strides){PAGE_ROWS * row, HEAD_DIM, row};
    p->page_rows = PAGE_ROWS;
    p->pages = (int64_t)c->shape.pages;
    p->pages_per_sequence = (int64_t)c->pages_per_sequence;
    p->kv_dtype = narrow ? (uint32_t)GLINT_I8 : 0;
    p->kv_scales = narrow ? GLINT_SCALES_ROW : GLINT_SCALES_NONE;
}

/* In the canonical order, where it is taken. Elsewhere the bound of queries is the same at every step, and so is the
 * row of the table. */
static int plan(struct cache *c)
{
    struct glint_problem problem;
    problem_of(c, &problem);
    problem.order = GLINT_ORDER_CANONICAL;
    enum glint_status status = glint_plan(c->context, &problem, GLINT_FORWARD, &c->plan);
    if (status != GLINT_OK) {
        problem.order = GLINT_ORDER_ANY;
        status = glint_plan(c->context, &problem, GLINT_FORWARD, &c->plan);
    }
    if (status == GLINT_OK)
        return 0;
    char why[sizeof c->reason - sizeof NEEDS - 8];
    glint_explain(c->context, &problem, GLINT_FORWARD, why, sizeof why, NULL);
    snprintf(c->reason, sizeof c->reason, "%s%s%s", why, c->gpu ? "\n" : "", c->gpu ? NEEDS : "");
    return -1;
}

int cache_open(struct cache *c, const struct cache_shape *shape, const struct glint_context *context, struct gpu *gpu)
{
    memset(c, 0, sizeof *c);
    c->shape = *shape;
    c->context = context;
    c->gpu = gpu;
    c->pages_per_sequence = (shape->longest + PAGE_ROWS - 1) / PAGE_ROWS;
    if (!context) { /* it did not open: there is no kernel for this GPU */
        snprintf(c->reason, sizeof c->reason, "%s", NEEDS);
        return -1;
    }
    return plan(c);
}

/* ---- memory ---- */

/* Of K, or of V, of a layer. */
static size_t layer_bytes(const struct cache *c)
{
    const size_t bytes = c->shape.kept == GLINT_I8 ? 1 : is_16(c) ? sizeof(uint16_t) : sizeof(float);
    return c->shape.pages * PAGE_ROWS * width(c) * bytes;
}

static size_t layer_scales(const struct cache *c)
{
    return c->shape.kept == GLINT_I8 ? c->shape.pages * PAGE_ROWS * c->shape.heads : 0;
}

size_t cache_bytes(const struct cache *c)
{
    return 2 * c->shape.layers * (layer_bytes(c) + layer_scales(c) * sizeof(float));
}

static void numbers_layout(const struct cache *c, struct cache_numbers *n, struct arena *arena)
{
    const size_t slots = c->shape.slots;
    n->words = 1 + (slots + 1) + slots + slots * c->pages_per_sequence;
    int32_t *at = arena_take(arena, n->words * sizeof *at);
    n->fault = at;
    if (!at)
        return;
    n->first = at + 1;
    n->keys = n->first + slots + 1;
    n->table = n->keys + slots;
}

void cache_layout(struct cache *c, struct arena *host, struct arena *device)
{
    const size_t numbers = most_rows(c) * width(c), each = is_16(c) ? sizeof(uint16_t) : sizeof(float);
    c->keys = arena_take(device, c->shape.layers * layer_bytes(c));
    c->values = arena_take(device, c->shape.layers * layer_bytes(c));
    c->key_scales = arena_floats(device, c->shape.layers * layer_scales(c));
    c->value_scales = arena_floats(device, c->shape.layers * layer_scales(c));
    c->lse = arena_floats(device, most_rows(c) * c->shape.heads);
    c->workspace = arena_take(device, c->plan.workspace_bytes);
    numbers_layout(c, &c->step, host);
    c->there = c->step;
    if (c->gpu) {
        numbers_layout(c, &c->there, device);
        c->rows = arena_floats(device, 3 * numbers);
    }
    if (is_16(c)) {
        c->q16 = arena_take(host, numbers * sizeof *c->q16);
        c->o16 = arena_take(host, numbers * sizeof *c->o16);
    }
    c->q = c->gpu && is_16(c) ? arena_take(device, numbers * each) : c->q16;
    c->o = c->gpu ? arena_take(device, numbers * each) : c->o16;
}

/* ---- numbers ---- */

static int fail(struct cache *c, const char *what, const char *why)
{
    snprintf(c->reason, sizeof c->reason, "%s: %s", what, why);
    return -1;
}

static int put(struct cache *c, void *to, const void *from, size_t bytes)
{
    return gpu_put(c->gpu, to, from, bytes) == 0 ? 0 : fail(c, "the GPU", c->gpu->reason);
}

static int get(struct cache *c, void *to, const void *from, size_t bytes)
{
    return gpu_get(c->gpu, to, from, bytes) == 0 ? 0 : fail(c, "the GPU", c->gpu->reason);
}

int cache_begin(struct cache *c)
{
    const uint32_t none = GLINT_NO_FAULT;
    struct cache_numbers *n = &c->step;
    memcpy(n->fault, &none, sizeof none);
    for (size_t b = n->sequences; b < c->shape.slots; b++) {
        n->first[b + 1] = n->first[b];
        n->keys[b] = 0;
    }
    return c->gpu ? put(c, c->there.fault, c->step.fault, c->step.words * sizeof *c->step.fault) : 0;
}

int cache_end(struct cache *c)
{
    uint32_t fault;
    if (c->gpu && get(c, c->step.fault, c->there.fault, sizeof fault) != 0)
        return -1;
    memcpy(&fault, c->step.fault, sizeof fault);
    return fault == GLINT_NO_FAULT ? 0 : fail(c, "attention", "a length or a page is out of its bounds");
}

/* ---- attention ---- */

/* To nearest, ties to even; a NaN keeps its upper bits and one more. */
static uint16_t to_bf16(float x)
{
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    const uint32_t rounded = word + 0x7fff + (word >> 16 & 1);
    return (uint16_t)((word & 0x7fffffff) > 0x7f800000 ? word >> 16 | 0x40 : rounded >> 16);
}

static float from_bf16(uint16_t x)
{
    const uint32_t word = (uint32_t)x << 16;
    float y;
    memcpy(&y, &word, sizeof y);
    return y;
}

/* The step's Q, K and V to where Glint reads them: *qkv. */
static int bring(struct cache *c, size_t rows, const float **qkv)
{
    const size_t w = width(c);
    for (size_t i = 0; is_16(c) && i < rows; i++)
        for (size_t j = 0; j < w; j++)
            c->q16[i * w + j] = to_bf16((*qkv)[3 * i * w + j]);
    if (!c->gpu)
        return 0;
    if (put(c, c->rows, *qkv, 3 * rows * w * sizeof **qkv) != 0 ||
        (is_16(c) && put(c, c->q, c->q16, rows * w * sizeof *c->q16) != 0))
        return -1;
    *qkv = c->rows;
    return 0;
}

/* O from where Glint wrote it. */
static int fetch(struct cache *c, size_t numbers, float *o)
{
    if (c->gpu && get(c, is_16(c) ? (void *)c->o16 : (void *)o, c->o, numbers * (is_16(c) ? sizeof *c->o16 : sizeof *o)) != 0)
        return -1;
    for (size_t i = 0; is_16(c) && i < numbers; i++)
        o[i] = from_bf16(c->o16[i]);
    return 0;
}

int cache_attend(struct cache *c, size_t layer, const float *qkv, float *o)
{
    const size_t rows = (size_t)c->step.first[c->step.sequences], w = width(c);
    struct glint_append append = GLINT_APPEND_INIT;
    struct glint_tensors tensors = GLINT_TENSORS_INIT;
    if (bring(c, rows, &qkv) != 0)
        return -1;
    append.dtype = GLINT_F32;
    append.k = qkv + w;
    append.v = qkv + 2 * w;
    append.k_strides = append.v_strides = fused(c);
    tensors.q = is_16(c) ? c->q : (const void *)qkv;
    tensors.k = c->keys + layer * layer_bytes(c);
    tensors.v = c->values + layer * layer_bytes(c);
    if (c->shape.kept == GLINT_I8) {
        tensors.k_scale = c->key_scales + layer * layer_scales(c);
        tensors.v_scale = c->value_scales + layer * layer_scales(c);
    }
    tensors.o = c->o ? c->o : o;
    tensors.lse = c->lse;
    tensors.first_q = c->there.first;
    tensors.seqlens_k = c->there.keys;
    tensors.page_table = c->there.table;
    tensors.fault = (uint32_t *)(void *)c->there.fault;
    enum glint_status status = glint_append(&c->plan, &append, &tensors, NULL);
    if (status == GLINT_OK)
        status = glint_forward(&c->plan, &tensors, c->workspace, c->plan.workspace_bytes, NULL);
    if (status != GLINT_OK)
        return fail(c, "attention", glint_status_sentence(status));
    return fetch(c, rows * w, o);
}
