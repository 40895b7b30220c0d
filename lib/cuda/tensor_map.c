/* Tensor maps of a call: the tensors of a problem as cuTensorMapEncodeTiled wants them. */
#include <string.h>

#include "lib/check.h"
#include "lib/cuda/cuda.h"

enum { NO_TENSOR = 256 }; /* an address that is aligned */

_Static_assert(GLINT_BACKWARD_MAPS == GLINT_GPU_MAX_MAPS, "a descriptor and a parameter have as many maps");

static unsigned int type_of(const struct glint_tensor_role *role, const struct glint_problem *p)
{
    if (glint_role_element_bytes(role, p) == 1)
        return TENSOR_MAP_U8;
    return p->dtype == GLINT_F32 ? TENSOR_MAP_F32 : p->dtype == GLINT_F16 ? TENSOR_MAP_F16 : TENSOR_MAP_BF16;
}

/* Extents, byte strides and box of a map, innermost first; the innermost dimension has no stride. */
struct geometry {
    uint32_t rank;
    uint64_t extents[TENSOR_MAP_RANK], strides[TENSOR_MAP_RANK];
    uint32_t box[TENSOR_MAP_RANK];
};

/* `stride`: in elements of `bytes` bytes. */
static void add(struct geometry *g, int64_t extent, int64_t stride, int64_t bytes, uint32_t box)
{
    const int64_t any = 16; /* an extent of 1 has no step: the caller's stride does not count there, and need not fit */
    g->extents[g->rank] = (uint64_t)extent;
    g->box[g->rank] = box;
    if (g->rank > 0)
        g->strides[g->rank - 1] = (uint64_t)(extent > 1 ? stride * bytes : any);
    g->rank++;
}

static bool is_empty(const struct glint_tensor_role *role, const struct glint_problem *p)
{
    int64_t extent[3];
    glint_role_extents(role, p, extent);
    return extent[2] == 0;
}

/* A tensor without elements becomes one of a single row, so that the map is valid. */
static struct geometry geometry_of(const struct glint_gpu_map *map, const struct glint_problem *p)
{
    const struct glint_tensor_role *role = &glint_roles[map->tensor];
    const struct glint_strides *s = glint_role_strides(role, p);
    const int64_t bytes = glint_role_element_bytes(role, p), width = glint_role_width(role, p);
    int64_t extent[3] = {1, 1, 1}; /* batch, heads, rows */
    struct geometry g = {.rank = 0};
    if (!is_empty(role, p))
        glint_role_extents(role, p, extent);
    if (map->packed) {
        const int32_t group = glint_step_group(p);
        const int64_t groups = extent[1] > group ? extent[1] / group : 1;
        add(&g, width, 0, bytes, map->columns);
        add(&g, extent[1] > 1 ? group : 1, s->head, bytes, (uint32_t)group);
        add(&g, extent[2], s->row, bytes, map->rows / (uint32_t)group);
        add(&g, groups, s->head, group * bytes, 1);
        add(&g, extent[0], s->batch, bytes, 1);
        return g;
    }
    const bool part = map->tensor != GLINT_GPU_Q && p->page_rows > 0 && p->page_rows < map->rows; /* of a tile: a page */
    add(&g, map->slabs ? map->columns : width, 0, bytes, map->columns);
    add(&g, extent[2], s->row, bytes, part ? (uint32_t)p->page_rows : map->rows);
    if (map->slabs)
        add(&g, width / map->columns, map->columns, bytes, part ? 1 : map->slabs);
    add(&g, extent[1], s->head, bytes, 1);
    add(&g, extent[0], s->batch, bytes, 1);
    return g;
}

enum glint_status glint_cuda_maps_fit(const struct glint_variant *row, const struct glint_problem *problem,
                                      struct glint_fault *fault)
{
    const struct glint_gpu_kernel *kernel = glint_gpu_kernel_of(row);
    for (uint32_t m = 0; m < kernel->map_count; m++) {
        const struct glint_tensor_role *role = &glint_roles[glint_gpu_map_at(kernel, m)->tensor];
        const struct glint_strides *s = glint_role_strides(role, problem);
        const int64_t limit =
            ((INT64_C(1) << 40) - 1) / glint_role_element_bytes(role, problem); /* that a map can hold, in elements */
        const int64_t stride[3] = {s->batch, s->head, s->row};
        int64_t extent[3];
        glint_role_extents(role, problem, extent);
        const int64_t group =
            glint_gpu_map_at(kernel, m)->packed ? glint_step_group(problem) : 1; /* a step along the groups of heads */
        for (int d = 0; d < 3; d++)
            if (extent[d] > 1 && stride[d] > limit / (d == 1 && extent[1] > group ? group : 1))
                return glint_refuse(fault, GLINT_REASON_STRIDE_TOO_LARGE, role->name, glint_dimension[d], stride[d], limit);
    }
    return GLINT_OK;
}

enum glint_status glint_cuda_encode_maps(struct glint_cuda *cuda, const struct glint_variant *row,
                                         const struct glint_problem *problem, const struct glint_tensors *tensors,
                                         struct tensor_map *maps)
{
    static const uint32_t steps[TENSOR_MAP_RANK] = {1, 1, 1, 1, 1};
    const struct glint_gpu_kernel *kernel = glint_gpu_kernel_of(row);
    const struct glint_tensor_role *const queries = &glint_roles[GLINT_GPU_Q];
    /* For tensors without elements, which nobody looks at: any address that is aligned, where no tensor has
     * elements. */
    const void *some = !is_empty(queries, problem)                     ? tensors->q
                       : !is_empty(&glint_roles[GLINT_GPU_K], problem) ? tensors->k
                                                                       : (const void *)(uintptr_t)NO_TENSOR;
    enum glint_status status = GLINT_OK;
    for (uint32_t m = 0; m < kernel->map_count && status == GLINT_OK; m++) {
        const struct glint_gpu_map *map = glint_gpu_map_at(kernel, m);
        const struct glint_tensor_role *role = &glint_roles[map->tensor];
        const struct geometry g = geometry_of(map, problem);
        const void *address = some;
        if (!is_empty(role, problem))
            memcpy(&address, (const char *)tensors + role->address, sizeof address);
        status = glint_cuda_note(cuda, cuda->driver.tensor_map_encode((struct CUtensorMap_st *)(void *)&maps[m],
                                                                      type_of(role, problem), g.rank, (void *)(uintptr_t)address,
                                                                      g.extents, g.strides, g.box, steps, TENSOR_MAP_NO_INTERLEAVE,
                                                                      map->swizzle, TENSOR_MAP_L2_256B, TENSOR_MAP_FILL_ZERO));
    }
    return status;
}
