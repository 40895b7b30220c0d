/* glint_merge and glint_append on a GPU: one launch each of a kernel that no variant has (rows.cu). Nothing is
 * planned, allocated or read back. */
#include "lib/cuda/rows.h"

#include "lib/check.h"
#include "lib/cuda/cuda.h"

enum {
    CHUNK = 8,
    BLOCKS_PER_SM = 16
}; /* elements; blocks that a multiprocessor holds at a time, as either kernel has few registers */

const struct glint_gpu_launch glint_cuda_rows_launch[GLINT_CUDA_ROWS_LAUNCHES] = {
    [GLINT_CUDA_MERGE] = {.suffix = "_merge_rows", .threads = GLINT_GPU_ROW_THREADS},
    [GLINT_CUDA_APPEND] = {.suffix = "_append_rows", .threads = GLINT_GPU_ROW_THREADS},
    [GLINT_CUDA_APPEND_NARROW] = {.suffix = "_append_narrow_rows", .threads = GLINT_GPU_ROW_THREADS},
};

static struct glint_gpu_view view(const void *address, const struct glint_strides *strides)
{
    return (struct glint_gpu_view){(void *)(uintptr_t)address, strides->batch, strides->head, strides->row};
}

/* Blocks for so much work of `each` a block: no more than the device holds, which then take several turns. */
static int32_t blocks_for(const struct glint_cuda *cuda, int64_t work, int64_t each)
{
    const int64_t most = (int64_t)cuda->multiprocessors * BLOCKS_PER_SM, wanted = work / each + (work % each != 0);
    return (int32_t)(wanted < most ? wanted : most);
}

static enum glint_status launch(struct glint_cuda *cuda, int which, int32_t blocks, void *params, void *stream)
{
    const struct glint_gpu_launch *const kernel = &glint_cuda_rows_launch[which];
    void *arguments[] = {params};
    bool pushed;
    enum glint_status status = glint_cuda_begin(cuda, &pushed);
    if (status != GLINT_OK)
        return status;
    if (blocks > 0)
        status = cuda->rows_of_calls.module
                     ? glint_cuda_note(cuda, cuda->driver.launch(cuda->rows_of_calls.functions[which], (unsigned int)blocks, 1, 1,
                                                                 kernel->threads, 1, 1, 0, stream, arguments, NULL))
                     : GLINT_NOT_ON_DEVICE;
    return glint_cuda_leave(cuda, pushed, status);
}

enum glint_status glint_cuda_merge(const struct glint_context *context, const struct glint_merge *merge, void *stream)
{
    struct glint_cuda *cuda = context->state;
    struct glint_merge_params params = {
        .result = {view(merge->o, &merge->o_strides), view(merge->lse, &merge->lse_strides), merge->dtype},
        .sinks = merge->sinks,
        .rows = merge->seqlen == 0 ? 0 : merge->batch * merge->heads * merge->seqlen,
        .heads = (int32_t)merge->heads,
        .seqlen = (int32_t)merge->seqlen,
        .parts = (int32_t)merge->parts,
        .chunks = (int32_t)(merge->head_dim / CHUNK),
    };
    for (uint32_t i = 0; i < merge->parts; i++) {
        const struct glint_part *part = &merge->part[i];
        params.part[i] = (struct glint_gpu_part){view(part->o, &part->o_strides), view(part->lse, &part->lse_strides), part->dtype};
    }
    params.row_threads = params.chunks < GLINT_GPU_ROW_THREADS ? params.chunks : GLINT_GPU_ROW_THREADS;
    params.block_rows = GLINT_GPU_ROW_THREADS / params.row_threads;
    params.blocks = blocks_for(cuda, params.rows, params.block_rows);
    return launch(cuda, GLINT_CUDA_MERGE, params.blocks, &params, stream);
}

/* Has a token rows of all heads? Else it only has the lengths of a sequence looked at. */
static bool token_of_heads(const struct glint_problem *p)
{
    return p->seqlen_q > 0 || p->lengths == GLINT_LENGTHS_RAGGED;
}

/* Of ragged queries a block looks at the lengths also where there is no row. */
static int32_t append_blocks(const struct glint_cuda *cuda, const struct glint_problem *p, int64_t work, int64_t each)
{
    const int32_t blocks = blocks_for(cuda, work, each);
    return blocks == 0 && p->lengths == GLINT_LENGTHS_RAGGED ? 1 : blocks;
}

/* `base`: what rows of the problem's dtype are given. */
static enum glint_status append_narrow(struct glint_cuda *cuda, const struct glint_problem *p, const struct glint_tensors *tensors,
                                       const struct glint_append_params *base, void *stream)
{
    struct glint_append_narrow_params params = {
        .base = *base,
        .k_scale = (float *)(uintptr_t)tensors->k_scale,
        .v_scale = (float *)(uintptr_t)tensors->v_scale,
        .token_rows = token_of_heads(p) ? (int32_t)p->heads_kv : 1,
        .unit_scales = (int32_t)(p->page_rows > 0 ? p->page_rows : p->seqlen_k),
        .head_scales = p->kv_scales == GLINT_SCALES_HEAD,
        .own = p->kv_scales == GLINT_SCALES_ROW,
    };
    params.base.blocks = append_blocks(cuda, p, 2 * base->tokens * params.token_rows, GLINT_GPU_ROW_THREADS / GLINT_GPU_ROW_TEAM);
    return launch(cuda, GLINT_CUDA_APPEND_NARROW, params.base.blocks, &params, stream);
}

enum glint_status glint_cuda_append(const struct glint_context *context, const struct glint_plan *plan,
                                    const struct glint_append *append, const struct glint_tensors *tensors, void *stream)
{
    struct glint_cuda *cuda = context->state;
    const struct glint_problem *p = &plan->problem;
    const bool ragged = p->lengths == GLINT_LENGTHS_RAGGED;
    struct glint_append_params params = {
        .k = view(tensors->k, &p->k),
        .v = view(tensors->v, &p->v),
        .new_k = view(append->k, &append->k_strides),
        .new_v = view(append->v, &append->v_strides),
        .first_q = ragged ? tensors->first_q : NULL,
        .seqlens_q = tensors->seqlens_q,
        .seqlens_k = tensors->seqlens_k,
        .page_table = tensors->page_table,
        .fault = tensors->fault,
        .tokens = ragged ? p->rows_q : p->batch * (p->seqlen_q > 0 ? p->seqlen_q : 1),
        .batch = (int32_t)p->batch,
        .rows_q = (int32_t)p->rows_q,
        .seqlen_q = (int32_t)p->seqlen_q,
        .seqlen_k = (int32_t)p->seqlen_k,
        .chunks = (int32_t)(p->head_dim / CHUNK),
        .token_chunks = token_of_heads(p) ? (int32_t)(p->heads_kv * (p->head_dim / CHUNK)) : 1,
        .page_rows = (int32_t)p->page_rows,
        .pages = (int32_t)p->pages,
        .pages_per_sequence = (int32_t)p->pages_per_sequence,
        .dtype = p->kv_dtype != 0 ? p->kv_dtype : p->dtype,
        .new_dtype = append->dtype,
    };
    if (p->kv_dtype != 0)
        return append_narrow(cuda, p, tensors, &params, stream);
    params.blocks = append_blocks(cuda, p, params.tokens * params.token_chunks, GLINT_GPU_ROW_THREADS);
    return launch(cuda, GLINT_CUDA_APPEND, params.blocks, &params, stream);
}
