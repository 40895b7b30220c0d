/* The sm80 family: kernels that find their tensors by address, for every GPU since Ampere. */
#include "lib/check.h"
#include "lib/cuda/cuda.h"
#include "lib/text.h"

static enum glint_status fits(const struct glint_variant *row, const struct glint_problem *problem,
                              const struct glint_context *context, struct glint_fault *fault)
{
    (void)context;
    const enum glint_status status = glint_cuda_softcap_fits(problem, fault);
    return status == GLINT_OK ? glint_strides_fit(row, problem, fault) : status;
}

/* log2 of a page's rows. */
static int32_t page_shift(const struct glint_problem *p)
{
    int32_t shift = 0;
    while (INT64_C(1) << shift < p->page_rows)
        shift++;
    return shift;
}

/* What kernels of any pass are given of pages, in structs of their own. */
static void fill_pages(const struct glint_problem *p, const struct glint_tensors *tensors, const int32_t **table, int32_t *pages,
                       int32_t *pages_per_sequence, int32_t *shift)
{
    *table = tensors->page_table;
    *pages = (int32_t)p->pages;
    *pages_per_sequence = (int32_t)p->pages_per_sequence;
    *shift = page_shift(p);
}
#define FILL_PAGES(p, tensors, params) \
    fill_pages(p, tensors, &(params)->page_table, &(params)->pages, &(params)->pages_per_sequence, &(params)->page_shift)

/* Scales of units of as many rows each: sequences, pages, or all ragged sequences. Steps are 0 where one scale serves all. */
static void fill_decode_scales(const struct glint_problem *p, const struct glint_tensors *tensors,
                               struct glint_decode_scales *scales)
{
    const bool by_row = p->kv_scales == GLINT_SCALES_ROW;
    const int64_t rows = p->page_rows > 0 ? p->page_rows : p->lengths == GLINT_LENGTHS_RAGGED ? p->rows_k : p->seqlen_k;
    scales->k = tensors->k_scale;
    scales->v = tensors->v_scale;
    scales->unit = by_row ? p->heads_kv * rows : 0;
    scales->head = by_row ? rows : p->kv_scales == GLINT_SCALES_HEAD;
    scales->row = by_row;
}

static void fill_decode(const struct glint_problem *p, const struct glint_tensors *tensors, struct glint_decode_params *params)
{
    if (p->page_rows > 0)
        FILL_PAGES(p, tensors, params);
    if (p->lengths == GLINT_LENGTHS_RAGGED) {
        params->first_q = tensors->first_q;
        params->first_k = tensors->first_k;
        params->rows_q = (int32_t)p->rows_q;
        params->rows_k = (int32_t)p->rows_k;
    }
    if (p->kv_dtype != 0)
        fill_decode_scales(p, tensors, &params->scales);
}

static void fill_params(const struct glint_variant *row, const struct glint_plan *plan, const struct glint_tensors *tensors,
                        void *workspace, void *params)
{
    const struct glint_problem *p = &plan->problem;
    struct glint_ragged_params *of_ragged = params;
    glint_cuda_fill_params(row, plan, tensors, workspace, params);
    if (row->pass == GLINT_BACKWARD && p->sinks != 0) {
        struct glint_sinks_params *of_sinks = params;
        of_sinks->sinks = tensors->sinks;
        of_sinks->dsinks = tensors->dsinks;
    }
    if (row->pass == GLINT_BACKWARD && (row->features & GLINT_FEATURE_SOFTCAP) != 0) {
        struct glint_capped_params *capped = params;
        capped->score_ratio = glint_cuda_score_ratio(p);
        capped->score_limit = 9.02f / capped->score_ratio;
    }
    if (row->queries_up_to > 0) {
        fill_decode(p, tensors, params);
        return;
    }
    if (p->lengths == GLINT_LENGTHS_HOST)
        return;
    if (p->lengths == GLINT_LENGTHS_RAGGED || row->pass == GLINT_BACKWARD) {
        struct glint_ragged_backward_params *of_backward = params;
        *(row->pass == GLINT_BACKWARD ? &of_backward->ragged : &of_ragged->ragged) = glint_cuda_ragged_of(p, tensors);
        if (p->page_rows > 0)
            FILL_PAGES(p, tensors, (struct glint_ragged_pages_params *)params);
        return;
    }
    glint_cuda_fill_lengths(plan, tensors, params);
    if (p->page_rows == 0)
        return;
    struct glint_pages_params *of_pages = params;
    FILL_PAGES(p, tensors, of_pages);
}

/* Into how many parts blocks share the keys, and what the workspace is for. */
static void explain_decode(const struct glint_decode_layout *layout, struct glint_text *text)
{
    if (layout->parts < 2)
        return;
    glint_text_str(text, "\nThe keys are shared by ");
    glint_text_int(text, layout->parts);
    glint_text_str(text, " blocks, whose results, float32 in the workspace, a second kernel folds.");
}

/* Of query heads that share a key head, when several blocks do: it is why the workspace is larger. */
static void explain(const struct glint_plan *plan, struct glint_text *text)
{
    const struct glint_cuda_plan own = glint_cuda_plan_of(plan);
    const struct glint_gpu_kernel *kernel = glint_variants[plan->variant].kernel;
    if (kernel->strategy == GLINT_GPU_DECODE) {
        explain_decode(&own.decode, text);
        return;
    }
    const int32_t parts = own.backward.parts;
    if (parts < 2)
        return;
    glint_text_str(text, "\nThe ");
    glint_text_int(text, plan->problem.heads_q / plan->problem.heads_kv);
    glint_text_str(text, " query heads of a key head are shared by ");
    glint_text_int(text, parts);
    glint_text_str(text, " blocks, which add to dK and dV in turn: float32 sums of both are in the workspace.");
}

const struct glint_family glint_family_sm80 = {
    .name = "sm80",
    .rank = 80,
    .backend = &glint_cuda_backend,
    .fits = fits,
    .fill_params = fill_params,
    .explain = explain,
};
