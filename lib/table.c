/* The dispatch table as the public API shows it. */
#include "lib/backend.h"
#include "lib/context.h"

uint32_t glint_variant_count(void)
{
    return glint_variants_count;
}

enum glint_status glint_variant_at(uint32_t index, struct glint_variant_info *info)
{
    if (!info)
        return GLINT_NULL_ARGUMENT;
    if (info->struct_size != sizeof *info)
        return GLINT_STRUCT_SIZE;
    if (index >= glint_variants_count)
        return GLINT_BAD_INDEX;
    const struct glint_variant *v = &glint_variants[index];
    *info = (struct glint_variant_info){
        .struct_size = sizeof *info,
        .pass = v->pass,
        .dtype = v->dtype,
        .features = v->features,
        .head_dim = v->head_dim,
        .head_dim_v = v->head_dim_v,
        .isa = v->isa,
        .sm = v->sm,
        .tile_m = v->tile_m,
        .tile_n = v->tile_n,
        .alignment_bytes = v->alignment_bytes,
        .math = v->math,
        .queries_up_to = v->queries_up_to,
        .kv_dtype = v->kv_dtype,
        .name = v->name,
        .family = glint_family_of(v)->name,
    };
    return GLINT_OK;
}

enum glint_status glint_variant_available(const struct glint_context *context, uint32_t index)
{
    if (!context)
        return GLINT_NULL_ARGUMENT;
    if (context->magic != GLINT_CONTEXT_OPEN)
        return GLINT_CONTEXT_CLOSED;
    if (index >= glint_variants_count)
        return GLINT_BAD_INDEX;
    const struct glint_backend *backend = glint_family_of(&glint_variants[index])->backend;
    return backend == context->backend && backend->runs(context, index) ? GLINT_OK : GLINT_NOT_ON_DEVICE;
}
