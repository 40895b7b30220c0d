/* Planning and launching on a GPU. A launch fills one parameter struct on the stack, makes the context current if it is
 * not, and enqueues the variant's kernels on the caller's stream: no allocation, no synchronisation, nothing is read
 * back. */
#include "lib/check.h"
#include "lib/cuda/cuda.h"
#include "lib/cuda/policy.h"
#include "lib/text.h"

static int64_t element_bytes(uint32_t dtype)
{
    return dtype == GLINT_F32 ? 4 : 2;
}

/* ---- planning ---- */

/* The most tiles of a head that all ragged sequences together can have: one of each is not full. `alone`: those of a
 * sequence of the bound. */
static uint64_t ragged_tiles(const struct glint_problem *p, int64_t rows, uint64_t alone, uint32_t tile)
{
    const uint64_t bounded = (uint64_t)p->batch * alone, full = (uint64_t)rows / tile + (uint64_t)p->batch;
    return full < bounded ? full : bounded;
}

/* Tiles of dBias; false when there are more than a grid's. */
static bool count_bias_tiles(const struct glint_gpu_launch *launch, const struct glint_problem *p, uint64_t *tiles)
{
    const int64_t queries = (p->seqlen_q + launch->rows - 1) / launch->rows, keys = (p->seqlen_k + launch->rows - 1) / launch->rows;
    const int64_t of[4] = {p->bias.batch == 0 ? 1 : p->batch, p->bias.head == 0 ? 1 : p->heads_q,
                           p->bias.query == 0 && queries > 0 ? 1 : queries, p->bias.key == 0 && keys > 0 ? 1 : keys};
    *tiles = queries > 0 && keys > 0;
    for (int i = 0; i < 4 && *tiles > 0; i++) {
        *tiles *= (uint64_t)of[i];
        if (*tiles > INT32_MAX)
            return false;
    }
    return true;
}

/* How dBias is shared out. False where there are more tiles than a grid's. */
static bool share_bias(const struct glint_gpu_kernel *kernel, const struct glint_problem *p, struct glint_backward_layout *layout)
{
    for (uint32_t i = 0; i < kernel->launch_count; i++) {
        const struct glint_gpu_launch *launch = glint_gpu_launch_at(kernel, i);
        uint64_t tiles;
        if (launch->grid != GLINT_GPU_BIAS_TILES || p->dbias == 0)
            continue;
        if (!count_bias_tiles(launch, p, &tiles))
            return false;
        layout->bias_tiles = (int32_t)tiles;
        layout->bias_parts = p->bias.batch == 0 ? glint_gpu_bias_parts((int64_t)tiles, p->batch) : 1;
    }
    return true;
}

/* Tiles of one launch; false when there are more than a grid's 2^31 - 1. Extents are at most GLINT_MAX_EXTENT, so a
 * product of two fits; and heads_kv * parts is at most heads_q. */
static bool count_tiles(const struct glint_gpu_launch *launch, const struct glint_problem *p,
                        const struct glint_backward_layout *layout, uint64_t *tiles)
{
    const int64_t parts = layout->parts;
    if (launch->grid == GLINT_GPU_QUERY_HEADS) {
        *tiles = (uint64_t)p->heads_q;
        return true;
    }
    if (launch->grid == GLINT_GPU_BIAS_TILES || launch->grid == GLINT_GPU_BIAS_SUMS) {
        const int32_t each = launch->grid == GLINT_GPU_BIAS_TILES ? layout->bias_parts : layout->bias_parts > 1;
        *tiles = (uint64_t)layout->bias_tiles * (uint64_t)each;
        return true;
    }
    const bool by_query = launch->grid == GLINT_GPU_QUERY_BLOCKS, ragged = launch->lengths == GLINT_LENGTHS_RAGGED;
    const uint64_t given = (uint64_t)(by_query ? p->seqlen_q : p->seqlen_k);
    const uint64_t rows = given == 0 && launch->lengths ? 1 : given; /* lengths are looked at where the bound is 0, too */
    const uint64_t heads = (uint64_t)(by_query ? p->heads_q : p->heads_kv * parts) * (ragged ? 1 : (uint64_t)p->batch);
    const uint64_t alone = (rows + launch->rows - 1) / launch->rows;
    const uint64_t per_head = ragged ? ragged_tiles(p, by_query ? p->rows_q : p->rows_k, alone, launch->rows) : alone;
    const bool fits = per_head == 0 || heads <= INT32_MAX / per_head;
    *tiles = fits ? heads * per_head : 0;
    return fits;
}

/* Blocks for so many tiles: whole clusters, and where they are persistent no more than the device holds at a time, but
 * one cluster. */
static uint64_t count_blocks(const struct glint_gpu_launch *launch, uint64_t tiles, uint32_t multiprocessors)
{
    const uint64_t cluster = launch->cluster > 0 ? launch->cluster : 1;
    const uint64_t clusters = (tiles + cluster - 1) / cluster;
    const uint64_t held = (uint64_t)multiprocessors * launch->blocks_per_sm / cluster;
    const uint64_t most = held > 0 ? held : 1;
    return cluster * (launch->blocks_per_sm > 0 && clusters > most ? most : clusters);
}

static int64_t longest_of(const struct glint_problem *p)
{
    return p->seqlen_q > p->seqlen_k ? p->seqlen_q : p->seqlen_k;
}

/* With the forward's section. */
static struct glint_gpu_shape shape_of(const struct glint_problem *p)
{
    const float log2_e = 1.44269504088896340736f;
    const struct glint_band band = glint_band_of(p);
    const bool causal =
        glint_features_of(p) == GLINT_FEATURE_RIGHT_BOUND; /* the blocks of a window are almost all as long as each other */
    return (struct glint_gpu_shape){
        .batch = (int32_t)p->batch,
        .heads_q = (int32_t)p->heads_q,
        .heads_kv = (int32_t)p->heads_kv,
        .group = (int32_t)(p->heads_q / p->heads_kv),
        .seqlen_q = (int32_t)p->seqlen_q,
        .seqlen_k = (int32_t)p->seqlen_k,
        .mask_offset = (int32_t)band.last,
        .section = glint_gpu_section(causal, longest_of(p), p->head_dim, element_bytes(p->dtype)),
        .softmax_scale = p->softmax_scale,
        .scale_log2 = p->softmax_scale * log2_e,
        .mask_first = (int32_t)band.first,
    };
}

/* Ragged sequences are worked on one after another: then the last section of a sequence should not be a small one. */
static int32_t even_section(int32_t section, int32_t heads)
{
    const int32_t most = section < heads ? section : heads, sections = (heads - 1) / most + 1;
    return (heads - 1) / sections + 1;
}

/* Of ragged sequences, in which order the forward kernels that use tensor maps take their tiles. Their shape is that of
 * the maps, which have the rows of all sequences. */
static void order_ragged_tiles(const struct glint_variant *variant, const struct glint_problem *p, struct glint_cuda_plan *own)
{
    own->section_keys =
        glint_gpu_section_keys(&own->shape, variant->head_dim, (uint32_t)glint_dtype_bytes(p->dtype), p->mask != GLINT_MASK_NONE);
    own->shape.seqlen_q = (int32_t)p->rows_q;
    own->shape.seqlen_k = (int32_t)p->rows_k;
}

/* log2 of the rows of a page; 0 without pages. */
static int32_t page_shift(const struct glint_problem *p)
{
    int32_t shift = 0;
    while (INT64_C(1) << shift < p->page_rows)
        shift++;
    return shift;
}

bool glint_cuda_persists(const struct glint_gpu_kernel *kernel)
{
    return kernel->strategy == GLINT_GPU_FUSED && glint_gpu_launch_at(kernel, kernel->launch_count - 1)->blocks_per_sm > 0;
}

/* How the query heads of a group are shared out, and in which order blocks go. Where persistent blocks read lengths,
 * the rule is followed on the device, for each sequence by itself: its bits must not follow from the bound. Then
 * there are `parts` at most, and part_heads is what is taken in place of the rule's, or 0. */
static void share_out(const struct glint_variant *variant, uint32_t lengths, const struct glint_gpu_tuning *tuning,
                      struct glint_cuda_plan *own)
{
    const struct glint_gpu_kernel *kernel = glint_gpu_kernel_of(variant);
    const bool persists = glint_cuda_persists(kernel);
    const int32_t ruled = persists ? glint_gpu_persistent_part_heads(&own->shape, kernel, variant->head_dim)
                                   : glint_gpu_part_heads(&own->shape, kernel);
    const bool shares = kernel->strategy == GLINT_GPU_FUSED && own->shape.seqlen_q > 0;
    const bool tuned = shares && tuning->part_heads > 0 && tuning->part_heads <= own->shape.group;
    const int32_t heads = tuned ? tuning->part_heads : ruled;
    own->backward.part_heads = heads;
    own->backward.parts = glint_gpu_parts(&own->shape, heads);
    if (persists && lengths != GLINT_LENGTHS_HOST) {
        own->backward.part_heads = tuned ? heads : (int32_t)kernel->part_heads;
        own->backward.parts = glint_gpu_most_parts(&own->shape, own->backward.part_heads, variant->head_dim);
    }
    own->shape.section = persists ? glint_gpu_persistent_section(&own->shape, heads, variant->head_dim, variant->tile_n)
                                  : glint_gpu_backward_section(&own->shape, kernel, heads, variant->head_dim);
    const int64_t all = (int64_t)own->shape.batch * own->shape.heads_kv * glint_gpu_parts(&own->shape, heads);
    if (tuning->section > 0)
        own->shape.section = tuning->section < all ? tuning->section : (int32_t)all;
}

/* Of a forward pass under a mask: without one, blocks go head by head. */
static void explain_tiles(const struct glint_plan *plan, const struct glint_gpu_shape *shape, struct glint_text *text)
{
    const int64_t heads = (int64_t)shape->batch * shape->heads_q;
    if (glint_gpu_kernel_of(&glint_variants[plan->variant])->strategy != GLINT_GPU_FORWARD || shape->section < 2 ||
        plan->problem.lengths != GLINT_LENGTHS_HOST)
        return;
    glint_text_str(text, "\nTiles of ");
    glint_text_int(text, shape->section < heads ? shape->section : heads);
    glint_text_str(text, " query heads run side by side.");
}

/* Parts are why the workspace is larger. */
void glint_cuda_explain_order(const struct glint_plan *plan, struct glint_text *text)
{
    const struct glint_cuda_plan own = glint_cuda_plan_of(plan);
    const int64_t group = plan->problem.heads_q / plan->problem.heads_kv;
    if (plan->pass != GLINT_BACKWARD) {
        explain_tiles(plan, &own.shape, text);
        return;
    }
    if (own.backward.parts > 1) {
        glint_text_str(text, "\nThe ");
        glint_text_int(text, group);
        glint_text_str(text, " query heads of a key head are shared by ");
        if (plan->problem.lengths != GLINT_LENGTHS_HOST)
            glint_text_str(text, "up to ");
        glint_text_int(text, own.backward.parts);
        glint_text_str(text, " blocks, which add to dK and dV in turn: float32 sums of both are in the workspace.");
    } else if (group > 1) {
        glint_text_str(text, "\nA block takes all ");
        glint_text_int(text, group);
        glint_text_str(text, " query heads of a key head.");
    }
    glint_text_str(text, "\nBlocks of ");
    glint_text_int(text, own.shape.section);
    glint_text_str(text, " key heads, each counted once for each block that shares its query heads, run side by side.");
}

/* Blocks of a decode row: as its layout says. Lengths of the device are looked at where the bound is 0, too. */
static void count_decode_grids(const struct glint_gpu_kernel *kernel, const struct glint_problem *problem,
                               struct glint_cuda_plan *own)
{
    const bool lengths = problem->lengths != GLINT_LENGTHS_HOST, ragged = problem->lengths == GLINT_LENGTHS_RAGGED;
    const uint32_t blocks = lengths && own->decode.blocks == 0 ? 1 : own->decode.blocks;
    for (uint32_t i = 0; i < kernel->launch_count; i++) {
        const struct glint_gpu_launch *launch = glint_gpu_launch_at(kernel, i);
        if ((launch->lengths == GLINT_LENGTHS_RAGGED) != ragged)
            continue;
        if (launch->grid == GLINT_GPU_DECODE_MERGE)
            own->blocks[i] = own->decode.merge_blocks;
        else if ((launch->pages != 0) == (problem->page_rows > 0))
            own->blocks[i] = blocks;
    }
}

/* Where persistent blocks read lengths there is a unit for each tile of theirs, and one that is none for each block,
 * which takes a number more than it works on. */
static bool count_grids(const struct glint_gpu_kernel *kernel, const struct glint_problem *problem, uint32_t multiprocessors,
                        struct glint_cuda_plan *own)
{
    const bool units = glint_cuda_persists(kernel) && problem->lengths != GLINT_LENGTHS_HOST;
    for (uint32_t i = 0; i < kernel->launch_count; i++) {
        const struct glint_gpu_launch *launch = glint_gpu_launch_at(kernel, i);
        uint64_t tiles;
        if (launch->lengths != problem->lengths || (launch->pages != 0) != (problem->page_rows > 0) ||
            (launch->sinks != 0 && problem->sinks == 0) || (launch->dbias != 0 && problem->dbias == 0))
            continue;
        if (!count_tiles(launch, problem, &own->backward, &tiles))
            return false;
        const uint64_t blocks = count_blocks(launch, tiles, multiprocessors);
        if (blocks > INT32_MAX)
            return false;
        own->blocks[i] = (uint32_t)blocks;
        if (units && launch->grid == GLINT_GPU_KEY_BLOCKS) {
            if (tiles > INT32_MAX - blocks)
                return false;
            own->backward.unit_blocks = (uint32_t)((tiles + blocks + GLINT_GPU_UNITS_OF_BLOCK - 1) / GLINT_GPU_UNITS_OF_BLOCK);
        }
    }
    for (uint32_t i = 0; i < kernel->launch_count && own->backward.unit_blocks > 0; i++)
        if (glint_gpu_launch_at(kernel, i)->grid == GLINT_GPU_QUERY_BLOCKS && own->blocks[i] > 0) {
            own->backward.first_unit_block = own->blocks[i];
            own->blocks[i] += own->backward.unit_blocks;
        }
    return own->backward.unit_blocks <= INT32_MAX - own->backward.first_unit_block;
}

/* Of `rows` rows of a head of ragged sequences, how many there are in the workspace, where each sequence begins at a
 * multiple of GLINT_GPU_ROW_PAD: padded_first of lib/device/ragged.h. */
static int64_t padded_rows(const struct glint_problem *p, int64_t rows)
{
    return (rows + p->batch * GLINT_GPU_ROW_PAD) / GLINT_GPU_ROW_PAD * GLINT_GPU_ROW_PAD;
}

bool glint_cuda_plan_tuned(const struct glint_variant *variant, const struct glint_problem *problem, uint32_t concurrency,
                           const struct glint_gpu_tuning *tuning, struct glint_family_plan *plan)
{
    const struct glint_gpu_kernel *kernel = glint_gpu_kernel_of(variant);
    const bool backward = variant->pass == GLINT_BACKWARD, ragged = problem->lengths == GLINT_LENGTHS_RAGGED;
    struct glint_cuda_plan own = {
        .shape = shape_of(problem), .page_shift = page_shift(problem), .backward = {.parts = 1, .bias_parts = 1}};
    own.words = problem->lengths != GLINT_LENGTHS_HOST ? kernel->lengths_words : kernel->zero_words;
    uint64_t end = ((uint64_t)own.words + GLINT_GPU_LINE - 1) / GLINT_GPU_LINE * GLINT_GPU_LINE; /* words of the workspace */
    if (kernel->strategy == GLINT_GPU_DECODE) {
        if (!glint_decode_lay_out(&own.decode, &own.shape, kernel, variant->tile_m, variant->tile_n, concurrency, tuning->range,
                                  end))
            return false;
        end = own.decode.at[GLINT_GPU_DECODE_ARRAYS];
        count_decode_grids(kernel, problem, &own);
    } else if (kernel->strategy == GLINT_GPU_STEP) {
        if (!glint_step_lay_out(&own.step, variant, problem, concurrency))
            return false;
        end = own.step.at[GLINT_GPU_STEP_ARRAYS];
        own.blocks[0] = own.step.blocks > 0 && own.step.own_plan == 0;
        own.blocks[1] = own.step.blocks;
        own.blocks[2] = own.step.merge_blocks;
    } else {
        if (backward)
            share_out(variant, problem->lengths, tuning, &own);
        else if (kernel->map_count > 0 && glint_features_of(problem) == GLINT_FEATURE_RIGHT_BOUND)
            own.shape.section = glint_gpu_tile_section(longest_of(problem), problem->head_dim, element_bytes(problem->dtype),
                                                       own.shape.group, glint_gpu_launch_at(kernel, 0)->blocks_per_sm > 0);
        if (!backward && tuning->section > 0)
            own.shape.section = tuning->section;
        if (ragged && !(backward && glint_cuda_persists(kernel)))
            own.shape.section = even_section(own.shape.section, backward ? own.shape.heads_kv : own.shape.heads_q);
        if (backward && !share_bias(kernel, problem, &own.backward))
            return false;
        if (!count_grids(kernel, problem, concurrency, &own))
            return false;
        struct glint_gpu_shape shape = own.shape;
        if (ragged && backward) { /* the sequences are one to the arrays */
            const int64_t rows_q = padded_rows(problem, problem->rows_q), rows_k = padded_rows(problem, problem->rows_k);
            if (rows_q > INT32_MAX || rows_k > INT32_MAX)
                return false;
            shape.batch = 1;
            shape.seqlen_q = (int32_t)rows_q;
            shape.seqlen_k = (int32_t)rows_k;
        }
        if (backward && !glint_backward_lay_out(&own.backward, &shape, kernel, variant->tile_m, variant->tile_n, end))
            return false;
        if (backward)
            end = own.backward.at[GLINT_GPU_BACKWARD_ARRAYS];
        if (ragged && !backward && kernel->map_count > 0)
            order_ragged_tiles(variant, problem, &own);
    }
    plan->workspace_bytes = (size_t)(4 * end);
    memcpy(plan->word, &own, sizeof own);
    return true;
}

bool glint_cuda_plan(const struct glint_variant *variant, const struct glint_problem *problem, uint32_t concurrency,
                     struct glint_family_plan *plan)
{
    const struct glint_gpu_tuning by_rule = {0};
    return glint_cuda_plan_tuned(variant, problem, concurrency, &by_rule, plan);
}

/* ---- launching ---- */

struct glint_gpu_view glint_cuda_view(const void *address, const struct glint_strides *strides)
{
    return (struct glint_gpu_view){(void *)(uintptr_t)address, strides->batch, strides->head, strides->row};
}

void *glint_cuda_array(void *workspace, const uint64_t *at, int array)
{
    return workspace && at[array] < at[array + 1] ? (char *)workspace + 4 * at[array] : NULL;
}

float glint_cuda_score_ratio(const struct glint_problem *p)
{
    return p->softcap != 0.0f ? (p->softmax_scale < 0.0f ? -p->softmax_scale : p->softmax_scale) / p->softcap : 0.0f;
}

/* score_ratio of the parameters, and nine times its inverse, are finite; with a scale of 0 there is nothing to cap. */
enum glint_status glint_cuda_softcap_fits(const struct glint_problem *problem, struct glint_fault *fault)
{
    const float scale = problem->softmax_scale < 0.0f ? -problem->softmax_scale : problem->softmax_scale;
    if (problem->softcap != 0.0f && scale != 0.0f &&
        !(scale / problem->softcap <= 0x1p126f && problem->softcap / scale <= 0x1p124f))
        return glint_refuse(fault, GLINT_REASON_SOFTCAP, "softcap", NULL, 0, 0);
    return GLINT_OK;
}

struct glint_gpu_sequences glint_cuda_sequences_of(const struct glint_problem *p, const struct glint_cuda_plan *own,
                                                   const struct glint_tensors *t)
{
    const struct glint_band sides = glint_sides_of(p);
    return (struct glint_gpu_sequences){
        .first_q = t->first_q,
        .first_k = t->first_k,
        .seqlens_q = t->seqlens_q,
        .seqlens_k = t->seqlens_k,
        .fault = t->fault,
        .rows_q = (int32_t)p->rows_q,
        .rows_k = (int32_t)p->rows_k,
        .bottom_right = glint_bottom_right(p),
        .left = (int32_t)sides.first,
        .right = (int32_t)sides.last,
        .bound_q = (int32_t)p->seqlen_q,
        .bound_k = (int32_t)p->seqlen_k,
        .section_keys = own->section_keys,
    };
}

struct glint_gpu_pages glint_cuda_pages_of(const struct glint_problem *p, const struct glint_cuda_plan *own,
                                           const struct glint_tensors *t)
{
    return (struct glint_gpu_pages){t->page_table, (int32_t)p->pages, (int32_t)p->pages_per_sequence, own->page_shift};
}

/* A diagonal of 2^31 is beyond every offset, with lengths added to it, too. */
struct glint_gpu_bias glint_cuda_bias_of(const struct glint_problem *p, const struct glint_tensors *t)
{
    return (struct glint_gpu_bias){t->alibi_slopes, !glint_top_left(p), (int32_t)glint_between(p->diagonal, -INT32_MAX, INT32_MAX)};
}

struct glint_gpu_bias_tensor glint_cuda_tensor_of(const struct glint_problem *p, const struct glint_tensors *t)
{
    return (struct glint_gpu_bias_tensor){
        .address = t->bias,
        .gradient = t->dbias,
        .batch = p->bias.batch,
        .head = p->bias.head,
        .query = p->bias.query,
        .key = p->bias.key,
        .narrow = p->bias_dtype != GLINT_F32,
    };
}

/* In place: a call is large, and two of them would be on the caller's stack. */
static void fill_forward(struct glint_gpu_call *call, const struct glint_problem *p, const struct glint_cuda_plan *own,
                         const struct glint_tensors *t, void *workspace)
{
    const float ratio = glint_cuda_score_ratio(p);
    memset(call, 0, sizeof *call);
    call->q = glint_cuda_view(t->q, &p->q);
    call->k = glint_cuda_view(t->k, &p->k);
    call->v = glint_cuda_view(t->v, &p->v);
    call->o = glint_cuda_view(t->o, &p->o);
    call->lse = t->lse;
    call->shape = own->shape;
    call->sinks = t->sinks;
    call->score_ratio = ratio;
    call->score_limit = 9.02f / ratio; /* inf where the scale is 0 or the problem has no softcap */
    call->sequences = glint_cuda_sequences_of(p, own, t);
    call->pages = glint_cuda_pages_of(p, own, t);
    call->key_begin = t->key_begin;
    call->key_end = t->key_end;
    call->tree_bits = t->tree_bits;
    call->max_logit = t->max_logit;
    call->bias = glint_cuda_bias_of(p, t);
    call->words = own->words > 0 ? workspace : NULL;
    memcpy(call->blocks, own->blocks, sizeof call->blocks);
}

/* Adds what the backward pass has beside it. */
static void add_backward(struct glint_gpu_call *call, const struct glint_problem *p, const struct glint_cuda_plan *own,
                         const struct glint_tensors *t, void *workspace)
{
    const struct glint_backward_layout *layout = &own->backward;
    call->dout = glint_cuda_view(t->dout, &p->dout);
    call->dq = glint_cuda_view(t->dq, &p->dq);
    call->dk = glint_cuda_view(t->dk, &p->dk);
    call->dv = glint_cuda_view(t->dv, &p->dv);
    if (layout->unit_blocks > 0)
        call->units = (struct glint_gpu_units){glint_cuda_array(workspace, layout->at, GLINT_GPU_UNITS), layout->first_unit_block};
    call->padded_q = layout->padded_q;
    call->lse_log2 = glint_cuda_array(workspace, layout->at, GLINT_GPU_LSE);
    call->delta = glint_cuda_array(workspace, layout->at, GLINT_GPU_DELTA);
    call->dq_sum = glint_cuda_array(workspace, layout->at, GLINT_GPU_DQ_SUM);
    call->turn = glint_cuda_array(workspace, layout->at, GLINT_GPU_TURN);
    call->parts = layout->parts;
    call->part_heads = layout->part_heads;
    call->key_sum = glint_cuda_array(workspace, layout->at, GLINT_GPU_KEY_SUM);
    call->key_turn = glint_cuda_array(workspace, layout->at, GLINT_GPU_KEY_TURN);
    call->dsinks = t->dsinks;
    call->dlse = t->dlse;
    call->row_keys = glint_cuda_array(workspace, layout->at, GLINT_GPU_ROW_KEYS);
    call->block_keys = glint_cuda_array(workspace, layout->at, GLINT_GPU_BLOCK_KEYS);
}

/* What the kernels of a row are given: a call, with maps or a bias behind it or without, or what decode's are given. */
union parameters {
    struct glint_gpu_backward_maps call;
    struct glint_gpu_biased_call biased;
    struct glint_gpu_biased_maps biased_maps;
    struct glint_gpu_biased_step step;
    struct glint_decode_params decode;
};

/* All but the maps. */
static void fill(const struct glint_variant *variant, const struct glint_plan *plan, const struct glint_cuda_plan *own,
                 const struct glint_tensors *tensors, void *workspace, union parameters *parameters)
{
    const struct glint_gpu_kernel *kernel = glint_gpu_kernel_of(variant);
    if (kernel->strategy == GLINT_GPU_DECODE) {
        glint_cuda_fill_decode(&plan->problem, own, tensors, workspace, &parameters->decode);
        return;
    }
    fill_forward(&parameters->call.base, &plan->problem, own, tensors, workspace);
    if (variant->pass == GLINT_BACKWARD)
        add_backward(&parameters->call.base, &plan->problem, own, tensors, workspace);
    if (kernel->strategy == GLINT_GPU_STEP) {
        glint_step_fill(&plan->problem, &own->step, workspace, &parameters->step.base);
        parameters->step.base.scales = glint_cuda_scales_of(&plan->problem, tensors);
        parameters->step.tensor = glint_cuda_tensor_of(&plan->problem, tensors);
        return;
    }
    if (plan->problem.bias_dtype != 0) {
        const struct glint_gpu_bias_tensor tensor = glint_cuda_tensor_of(&plan->problem, tensors);
        if (kernel->map_count > 0)
            parameters->biased_maps.tensor = tensor;
        else
            parameters->biased.tensor = tensor;
    }
    if (variant->pass == GLINT_BACKWARD && plan->problem.dbias != 0) {
        struct glint_gpu_bias_tensor *tensor = &parameters->biased.tensor;
        tensor->tiles = own->backward.bias_tiles;
        tensor->parts = own->backward.bias_parts;
        tensor->sums = glint_cuda_array(workspace, own->backward.at, GLINT_GPU_BIAS_SUM);
    }
}

_Static_assert(GLINT_CALL_GRIDS <= GLINT_GPU_MAX_LAUNCHES, "rows with persistent kernels have no more launches");
_Static_assert(offsetof(struct glint_gpu_step, map) == offsetof(struct glint_gpu_backward_maps, map), "one function fills either");
_Static_assert(offsetof(struct glint_gpu_forward_maps, map) == offsetof(struct glint_gpu_backward_maps, map),
               "one place for the maps");
_Static_assert(offsetof(struct glint_gpu_biased_maps, map) == offsetof(struct glint_gpu_forward_maps, map) &&
                   sizeof(struct glint_gpu_biased_maps) <= sizeof(struct glint_gpu_forward_maps),
               "kernels with a bias take forward_maps");

static bool has_blocks(const struct glint_gpu_kernel *kernel, const uint32_t blocks[])
{
    for (uint32_t i = 0; i < kernel->launch_count; i++)
        if (blocks[i] > 0)
            return true;
    return false;
}

/* The largest logits are those of no pair before the kernels raise them. */
static enum glint_status clear_logits(struct glint_cuda *cuda, const struct glint_problem *p, float *max_logit, void *stream)
{
    static const uint32_t MINUS_INFINITY = 0xff800000u; /* of float32 */
    return glint_cuda_note(
        cuda, cuda->driver.memory_set_words((glint_cu_address)(uintptr_t)max_logit, MINUS_INFINITY, (size_t)p->heads_q, stream));
}

/* Clears the words that the kernels count in, and makes the maps. */
static enum glint_status prepare(struct glint_cuda *cuda, const struct glint_variant *variant, const struct glint_plan *plan,
                                 uint32_t words, const struct glint_tensors *tensors, void *workspace, struct tensor_map *maps,
                                 void *stream)
{
    enum glint_status status = GLINT_OK;
    if (words > 0)
        status = glint_cuda_note(cuda, cuda->driver.memory_set_words((glint_cu_address)(uintptr_t)workspace, 0, words, stream));
    return status == GLINT_OK ? glint_cuda_encode_maps(cuda, variant, &plan->problem, tensors, maps) : status;
}

/* A driver that knows no attributes starts a dependent launch when what is ahead has ended; so does every device before
 * 9.0. */
static glint_cu_result launch_one(const struct glint_cuda *cuda, const struct glint_gpu_launch *launch, glint_cu_function function,
                                  unsigned int blocks, void **arguments, void *stream)
{
    const struct glint_cuda_driver *driver = &cuda->driver;
    const bool dependent = launch->dependent && cuda->sm >= 90;
    if ((launch->cluster == 0 && !dependent) || !driver->launch_ex)
        return driver->launch(function, blocks, 1, 1, launch->threads, 1, 1, launch->smem_bytes, stream, arguments, NULL);
    struct glint_cu_launch_attribute attributes[2];
    struct glint_cu_launch_config config = {{blocks, 1, 1}, {launch->threads, 1, 1}, launch->smem_bytes, stream, attributes, 0};
    if (launch->cluster > 0)
        attributes[config.attribute_count++] =
            (struct glint_cu_launch_attribute){.id = GLINT_CU_LAUNCH_CLUSTER, .value = {launch->cluster, 1, 1}};
    if (dependent)
        attributes[config.attribute_count++] = (struct glint_cu_launch_attribute){.id = GLINT_CU_LAUNCH_DEPENDENT, .value = {1}};
    return driver->launch_ex((const struct CUlaunchConfig_st *)(const void *)&config, function, arguments, NULL);
}

/* Enqueues the kernels of a row, all with the same parameters. */
static enum glint_status launch_all(struct glint_cuda *cuda, const struct glint_variant *variant, const struct glint_cuda_row *row,
                                    const uint32_t blocks[], void *params, void *stream)
{
    const struct glint_gpu_kernel *kernel = glint_gpu_kernel_of(variant);
    void *arguments[] = {params};
    enum glint_status status = GLINT_OK;
    for (uint32_t i = 0; i < kernel->launch_count && status == GLINT_OK; i++)
        if (blocks[i] > 0)
            status = glint_cuda_note(
                cuda, launch_one(cuda, glint_gpu_launch_at(kernel, i), row->functions[i], blocks[i], arguments, stream));
    return status;
}

enum glint_status glint_cuda_run(const struct glint_context *context, const struct glint_variant *variant,
                                 const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace, void *stream)
{
    struct glint_cuda *cuda = context->state;
    const struct glint_cuda_plan own = glint_cuda_plan_of(plan);
    union parameters parameters;
    bool pushed;
    enum glint_status status = glint_cuda_begin(cuda, &pushed);
    if (status != GLINT_OK)
        return status;
    if (plan->problem.max_logit != 0)
        status = clear_logits(cuda, &plan->problem, tensors->max_logit, stream);
    if (status == GLINT_OK && has_blocks(glint_gpu_kernel_of(variant), own.blocks)) {
        fill(variant, plan, &own, tensors, workspace, &parameters);
        status = prepare(cuda, variant, plan, own.words, tensors, workspace, parameters.call.map, stream);
        if (status == GLINT_OK)
            status = launch_all(cuda, variant, &cuda->rows[plan->variant], own.blocks, &parameters, stream);
    }
    return glint_cuda_leave(cuda, pushed, status);
}

/* ---- copies, for the self test ---- */

enum glint_status glint_cuda_copy_in(const struct glint_context *context, void *device, const void *host, size_t bytes,
                                     void *stream)
{
    struct glint_cuda *cuda = context->state;
    bool pushed;
    enum glint_status status = glint_cuda_begin(cuda, &pushed);
    if (status != GLINT_OK)
        return status;
    status = glint_cuda_note(cuda, cuda->driver.copy_to_device((glint_cu_address)(uintptr_t)device, host, bytes, stream));
    if (status == GLINT_OK)
        status = glint_cuda_note(cuda, cuda->driver.stream_synchronize(stream));
    return glint_cuda_leave(cuda, pushed, status);
}

enum glint_status glint_cuda_copy_out(const struct glint_context *context, void *host, const void *device, size_t bytes,
                                      void *stream)
{
    struct glint_cuda *cuda = context->state;
    bool pushed;
    enum glint_status status = glint_cuda_begin(cuda, &pushed);
    if (status != GLINT_OK)
        return status;
    status = glint_cuda_note(cuda, cuda->driver.copy_to_host(host, (glint_cu_address)(uintptr_t)device, bytes, stream));
    if (status == GLINT_OK)
        status = glint_cuda_note(cuda, cuda->driver.stream_synchronize(stream));
    return glint_cuda_leave(cuda, pushed, status);
}
