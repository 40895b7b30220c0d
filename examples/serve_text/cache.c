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
    return PREFILLS * CHUNK + c->shape.slots;
}

/* Q and O are bf16: for a cache of bf16, and on a GPU, whose decode has no float32, for one of int8. */
static int is_16(const struct cache *c)
{
    return c->shape.kept == GLINT_BF16 || (c->shape.kept == GLINT_I8 && c->gpu != NULL);
}

/* ---- plans ---- */

/* The strides of Q, K and V in fused rows of float32. */
static struct glint_strides fused(const struct cache *c, size_t queries)
{
    const int64_t row = 3 * (int64_t)width(c);
    return (struct glint_strides){row * (int64_t)queries, HEAD_DIM, row};
}

static void problem_of(const struct cache *c, struct glint_problem *p, size_t batch, size_t queries)
{
    const int64_t heads = (int64_t)c->shape.heads, row = (int64_t)width(c);
    const int narrow = c->shape.kept == GLINT_I8;
    glint_problem_bshd(p, is_16(c) ? GLINT_BF16 : GLINT_F32, (int64_t)batch, (int64_t)queries, (int64_t)c->shape.longest, heads,
                       heads, HEAD_DIM);
    p->mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
    p->lengths = GLINT_LENGTHS_DEVICE;
    if (!is_16(c))
        p->q = fused(c, queries);
    p->k = p->v = (struct glint_strides){PAGE_ROWS * row, HEAD_DIM, row};
    p->page_rows = PAGE_ROWS;
    p->pages = (int64_t)c->shape.pages;
    p->pages_per_sequence = (int64_t)c->pages_per_sequence;
    p->kv_dtype = narrow ? (uint32_t)GLINT_I8 : 0;
    p->kv_scales = narrow ? GLINT_SCALES_ROW : GLINT_SCALES_NONE;
}

static int plan(struct cache *c, size_t batch, size_t queries, struct glint_plan *to)
{
    struct glint_problem problem;
    problem_of(c, &problem, batch, queries);
    if (glint_plan(c->context, &problem, GLINT_FORWARD, to) == GLINT_OK) {
        if (to->workspace_bytes > c->workspace_bytes)
            c->workspace_bytes = to->workspace_bytes;
        return 0;
    }
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
    if (plan(c, 1, CHUNK, &c->prompt_plan) != 0)
        return -1;
    for (size_t batch = 1; batch <= shape->slots; batch++) /* a workspace for every step to come */
        if (plan(c, batch, 1, &c->decode_plan) != 0)
            return -1;
    return 0;
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
    const size_t slots = c->shape.slots, table = c->pages_per_sequence;
    n->words = 1 + PREFILLS * (2 + table) + slots * (2 + table);
    int32_t *at = arena_take(arena, n->words * sizeof *at);
    n->fault = at;
    if (!at)
        return;
    n->prompt_rows = at + 1;
    n->prompt_keys = n->prompt_rows + PREFILLS;
    n->prompt_table = n->prompt_keys + PREFILLS;
    n->decode_rows = n->prompt_table + PREFILLS * table;
    n->decode_keys = n->decode_rows + slots;
    n->decode_table = n->decode_keys + slots;
}

void cache_layout(struct cache *c, struct arena *host, struct arena *device)
{
    const size_t numbers = most_rows(c) * width(c), each = is_16(c) ? sizeof(uint16_t) : sizeof(float);
    c->keys = arena_take(device, c->shape.layers * layer_bytes(c));
    c->values = arena_take(device, c->shape.layers * layer_bytes(c));
    c->key_scales = arena_floats(device, c->shape.layers * layer_scales(c));
    c->value_scales = arena_floats(device, c->shape.layers * layer_scales(c));
    c->lse = arena_floats(device, most_rows(c) * c->shape.heads);
    c->workspace = arena_take(device, c->workspace_bytes);
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
    memcpy(c->step.fault, &none, sizeof none);
    if (c->step.decodes > 0 && plan(c, c->step.decodes, 1, &c->decode_plan) != 0)
        return -1;
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

/* Sequences that one plan takes: where their rows begin, and their numbers. */
struct part {
    const struct glint_plan *plan;
    size_t first, queries; /* the first row in the step; the plan's bound of queries */
    const int32_t *rows, *keys, *table;
};

static int attend_part(struct cache *c, size_t layer, const struct part *part, const float *qkv, float *o)
{
    const size_t w = width(c), at = part->first * w, each = is_16(c) ? sizeof(uint16_t) : sizeof(float);
    struct glint_append append = GLINT_APPEND_INIT;
    struct glint_tensors tensors = GLINT_TENSORS_INIT;
    append.dtype = GLINT_F32;
    append.k = qkv + 3 * at + w;
    append.v = qkv + 3 * at + 2 * w;
    append.k_strides = append.v_strides = fused(c, part->queries);
    tensors.q = is_16(c) ? (const void *)((const unsigned char *)c->q + at * each) : (const void *)(qkv + 3 * at);
    tensors.k = c->keys + layer * layer_bytes(c);
    tensors.v = c->values + layer * layer_bytes(c);
    if (c->shape.kept == GLINT_I8) {
        tensors.k_scale = c->key_scales + layer * layer_scales(c);
        tensors.v_scale = c->value_scales + layer * layer_scales(c);
    }
    tensors.o = c->o ? (void *)((unsigned char *)c->o + at * each) : (void *)(o + at);
    tensors.lse = c->lse;
    tensors.seqlens_q = part->rows;
    tensors.seqlens_k = part->keys;
    tensors.page_table = part->table;
    tensors.fault = (uint32_t *)(void *)c->there.fault;
    enum glint_status status = glint_append(part->plan, &append, &tensors, NULL);
    if (status == GLINT_OK)
        status = glint_forward(part->plan, &tensors, c->workspace, c->workspace_bytes, NULL);
    return status == GLINT_OK ? 0 : fail(c, "attention", glint_status_sentence(status));
}

static size_t step_rows(const struct cache *c)
{
    size_t rows = c->step.decodes;
    for (size_t i = 0; i < c->step.prompts; i++)
        rows += (size_t)c->step.prompt_rows[i];
    return rows;
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
    const size_t rows = step_rows(c);
    const struct cache_numbers *n = &c->there;
    struct part part = {&c->prompt_plan, 0, CHUNK, n->prompt_rows, n->prompt_keys, n->prompt_table};
    if (bring(c, rows, &qkv) != 0)
        return -1;
    for (size_t i = 0; i < c->step.prompts; i++) {
        if (attend_part(c, layer, &part, qkv, o) != 0)
            return -1;
        part.first += (size_t)c->step.prompt_rows[i];
        part.rows++;
        part.keys++;
        part.table += c->pages_per_sequence;
    }
    part = (struct part){&c->decode_plan, part.first, 1, n->decode_rows, n->decode_keys, n->decode_table};
    if (c->step.decodes > 0 && attend_part(c, layer, &part, qkv, o) != 0)
        return -1;
    return fetch(c, rows * width(c), o);
}
