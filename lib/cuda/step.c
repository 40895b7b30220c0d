/* A server's step on a GPU: what the host decides about it, from the bounds of the lengths. The plan of the units is
 * made on the device, from the lengths themselves (lib/device/step_plan.h). */
#include "lib/cuda/cuda.h"
#include "lib/layout.h"
#include "lib/text.h"

enum {
    ROWS = 16,      /* of a block */
    PLAN_HEAD = 16, /* words of the plan, and so many more for each sequence */
    PLAN_WORDS = 15,
    OWN_PLAN_SEQUENCES = 8, /* up to so many, of so few tiles of rows in all, each block plans for itself */
    OWN_PLAN_TILES = 8,
    MOST_CHUNKS = 80,  /* that a sequence's keys are shared out as */
    SLOTS_A_BLOCK = 5, /* of a tile's partial results: more than the best plans measured had, 38 MB in all */
};

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

int32_t glint_step_group(const struct glint_problem *p)
{
    const int64_t group = p->heads_q / p->heads_kv;
    int32_t most = group < ROWS ? (int32_t)group : ROWS;
    while (group % most != 0)
        most--;
    return most;
}

/* Spans of the keys that a tile of so many queries sees, at most: struct spans_of of lib/device/step.h. A query of a
 * tree stands anywhere among the new keys. */
static int64_t most_spans(const struct glint_variant *row, const struct glint_problem *p, int64_t queries)
{
    const struct glint_gpu_kernel *kernel = glint_gpu_kernel_of(row);
    const int64_t tile = row->tile_n, first = kernel->chunk_steps, all = p->seqlen_k > 0 ? divide_up(p->seqlen_k, tile) : 1;
    const int64_t at = (all - 1) / first, left = p->window_left, right = p->window_right;
    const bool windowed = (row->features & GLINT_FEATURE_INTERVALS) == 0 || glint_sides_of(p).first > -GLINT_NO_SIDE;
    if ((row->features & GLINT_FEATURE_LEFT_BOUND) == 0 || !windowed)
        return 1 + (at < 16 ? at : at < 32 ? 8 + at / 2 : 16 + at / 4);
    const bool open = left == GLINT_UNBOUNDED || right == GLINT_UNBOUNDED || (row->features & GLINT_FEATURE_TREE) != 0;
    const int64_t seen = open ? all : (queries + left + right + tile - 2) / tile + 1;
    return ((seen > all ? all : seen) + first - 2) / first + 1;
}

static int64_t plan_words(int64_t batch)
{
    return PLAN_HEAD + PLAN_WORDS * batch + 3;
}

/* Plans of so many words, and rows of `row` words. */
static bool place_step(uint64_t at[GLINT_GPU_STEP_ARRAYS + 1], uint64_t plans, uint64_t rows, uint64_t row)
{
    const struct glint_array array[GLINT_GPU_STEP_ARRAYS] = {[GLINT_GPU_PLANS] = {1, plans}, [GLINT_GPU_PARTIAL] = {rows, row}};
    at[0] = 0;
    return glint_place_arrays(array, GLINT_GPU_STEP_ARRAYS, GLINT_GPU_LINE, at);
}

/* Tiles of `tile` queries in all sequences of the bounds, of which one has `alone`. */
static int64_t most_tiles(const struct glint_problem *p, int64_t tile, int64_t alone)
{
    const int64_t full = p->batch * alone, some = p->rows_q / tile + p->batch;
    return p->lengths == GLINT_LENGTHS_RAGGED && some < full ? some : full;
}

/* Slots, each of a tile's rows, for partial results of so many tiles of a head, of which each has `rows` rows and so
 * many spans: no more than `cap`. */
static int64_t most_slots(int64_t tiles, int64_t spans, int64_t rows, int64_t tile_rows, int64_t cap)
{
    if (spans <= 1 || tiles == 0)
        return 0;
    const int64_t whole = divide_up(tiles * rows, tile_rows), share = cap / spans;
    const int64_t slots = whole < share ? divide_up(tiles * rows * spans, tile_rows) : cap;
    return slots < cap ? slots : cap;
}

bool glint_step_lay_out(struct glint_step_layout *layout, const struct glint_variant *row, const struct glint_problem *p,
                        uint32_t multiprocessors)
{
    const int32_t group = glint_step_group(p);
    const struct glint_gpu_kernel *kernel = glint_gpu_kernel_of(row);
    const int64_t held = glint_gpu_launch_at(kernel, 1)->blocks_per_sm, tile_rows = row->tile_m;
    const int64_t blocks = multiprocessors * held, queries = ROWS / group, row_blocks = tile_rows / ROWS;
    const int64_t tile = queries * row_blocks, heads = p->heads_q / group;
    const int64_t spans = most_spans(row, p, tile), chunks = spans < MOST_CHUNKS ? spans : MOST_CHUNKS;
    const int64_t alone = divide_up(p->seqlen_q, tile), tiles = most_tiles(p, tile, alone), most = INT32_MAX / chunks / heads;
    const int64_t of_queries = divide_up(p->seqlen_q, queries), rows = alone > 1 ? tile_rows : ROWS * of_queries;
    /* O of the spans before, of each block. */
    const int64_t folded = kernel->folded != 0 && spans > 1 ? blocks * tile_rows : 0;

    *layout = (struct glint_step_layout){.block_queries = (int32_t)queries};
    if (tiles > most)
        return false;
    const int64_t slots = most_slots(tiles * heads, spans, rows, tile_rows, blocks * SLOTS_A_BLOCK);
    layout->partial_rows = (int32_t)(slots * tile_rows);
    if (tiles == 0 && p->lengths == GLINT_LENGTHS_HOST)
        return true;
    const int64_t few = p->batch < OWN_PLAN_SEQUENCES ? p->batch : OWN_PLAN_SEQUENCES;
    const int64_t own = divide_up(plan_words(few), GLINT_GPU_LINE) * GLINT_GPU_LINE;
    const int64_t words = plan_words(p->batch), copies = blocks * own;
    layout->own_plan = p->batch <= OWN_PLAN_SEQUENCES && tiles <= OWN_PLAN_TILES ? (int32_t)own : 0;
    layout->blocks = (uint32_t)blocks;
    layout->merge_blocks = slots > 0 ? (uint32_t)(4 * blocks) : 0;
    /* a batch wants no less than one of its sequences */
    return place_step(layout->at, (uint64_t)(words > copies ? words : copies), (uint64_t)(layout->partial_rows + folded),
                      (uint64_t)p->head_dim + 2);
}

void glint_step_fill(const struct glint_problem *p, const struct glint_step_layout *layout, void *workspace,
                     struct glint_gpu_step *step)
{
    step->group = glint_step_group(p);
    step->heads = (int32_t)(p->heads_q / step->group);
    step->parts = (int32_t)(step->heads / p->heads_kv);
    step->block_queries = layout->block_queries;
    step->blocks = (int32_t)layout->blocks;
    step->partial_rows = layout->partial_rows;
    step->own_plan = layout->own_plan;
    step->plan = workspace;
    step->partial = glint_cuda_array(workspace, layout->at, GLINT_GPU_PARTIAL);
}

void glint_step_explain(const struct glint_plan *plan, struct glint_text *text)
{
    const struct glint_variant *row = &glint_variants[plan->variant];
    const struct glint_gpu_kernel *kernel = glint_gpu_kernel_of(row);
    if (row->cache_from > 0) {
        glint_text_str(text, "\nA step is meant for a cache and ");
        glint_text_int(text, row->cache_from);
        glint_text_str(text, " rows or more, (query, query head) pairs of a key head, or for more than 8 queries; here are ");
        glint_text_int(text, plan->problem.seqlen_q * (plan->problem.heads_q / plan->problem.heads_kv));
        glint_text_str(text, " rows.");
    }
    glint_text_str(text, "\nKeys are summed up in spans that begin at fixed positions, of ");
    glint_text_int(text, (int64_t)kernel->chunk_steps * row->tile_n);
    glint_text_str(
        text, " keys first, and are folded from the first one on: a token has the same bits in a prompt, a chunk of it and alone. "
              "Which blocks work on what is planned on the device.");
}
