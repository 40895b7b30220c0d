/* What the decode kernels are given: lib/device/decode.h. */
#include "lib/cuda/cuda.h"

struct glint_decode_scales glint_cuda_scales_of(const struct glint_problem *p, const struct glint_tensors *t)
{
    const bool by_row = p->kv_scales == GLINT_SCALES_ROW;
    const int64_t rows = p->page_rows > 0 ? p->page_rows : p->lengths == GLINT_LENGTHS_RAGGED ? p->rows_k : p->seqlen_k;
    return (struct glint_decode_scales){
        .k = t->k_scale,
        .v = t->v_scale,
        .unit = by_row ? p->heads_kv * rows : 0,
        .head = by_row ? rows : p->kv_scales == GLINT_SCALES_HEAD,
        .row = by_row,
    };
}

void glint_cuda_fill_decode(const struct glint_problem *p, const struct glint_cuda_plan *own, const struct glint_tensors *t,
                            void *workspace, struct glint_decode_params *params)
{
    const struct glint_decode_layout *layout = &own->decode;
    const float ratio = glint_cuda_score_ratio(p);
    *params = (struct glint_decode_params){
        .q = glint_cuda_view(t->q, &p->q),
        .k = glint_cuda_view(t->k, &p->k),
        .v = glint_cuda_view(t->v, &p->v),
        .o = glint_cuda_view(t->o, &p->o),
        .lse = t->lse,
        .sinks = t->sinks,
        .shape = own->shape,
        .score_ratio = ratio,
        .score_limit = 9.02f / ratio,
        .sequences = glint_cuda_sequences_of(p, own, t),
        .pages = glint_cuda_pages_of(p, own, t),
        .rows = layout->rows,
        .row_tiles = layout->row_tiles,
        .range = layout->range,
        .parts = layout->parts,
        .level = layout->level,
        .entries = layout->entries,
        .items = layout->items,
        .blocks = layout->blocks,
        .partial_o = glint_cuda_array(workspace, layout->at, GLINT_GPU_PARTIAL_O),
        .partial_rows = glint_cuda_array(workspace, layout->at, GLINT_GPU_PARTIAL_ROWS),
        .scales = glint_cuda_scales_of(p, t),
        .bias = glint_cuda_bias_of(p, t),
        .tensor = glint_cuda_tensor_of(p, t),
        .key_begin = t->key_begin,
        .key_end = t->key_end,
        .tree_bits = t->tree_bits,
        .max_logit = t->max_logit,
    };
}
