/* One row of the dispatch table, and what a family of kernels offers to the planner. Internal: not installed.
 *
 * The generator emits one row a variant (generated/table.c) and never anything else that the planner reads; the planner reads
 * nothing else about a kernel. No family's header may be included here. */
#ifndef GLINT_VARIANT_H
#define GLINT_VARIANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/glint.h"

enum glint_family { GLINT_FAMILY_CPU, GLINT_FAMILY_SM80, GLINT_FAMILY_SM90A, GLINT_FAMILY_COUNT };

struct glint_variant {
    const char *name; /* left of "__" what it computes, right of it how */
    uint8_t pass;     /* enum glint_pass */
    uint8_t dtype;    /* enum glint_dtype */
    uint8_t causal;   /* 0 none, 1 both causal masks */
    uint8_t family;   /* enum glint_family */
    uint16_t head_dim;
    uint16_t tile_m, tile_n;  /* queries, keys */
    uint16_t isa;             /* CPU: enum glint_isa, else 0 */
    uint16_t sm;              /* GPU: lowest compute capability, else 0 */
    uint16_t math;            /* enum glint_math */
    uint32_t up_to;           /* meant for lengths up to this, the shorter of the two; 0 any */
    uint32_t alignment_bytes; /* addresses and strides are multiples of this */
    const void *kernel;       /* the family's own descriptor: const struct glint_cpu_kernel * for the CPU */
};

/* Sorted by name; the rows of one (pass, dtype, head_dim, causal) key are contiguous, because the key is the name's prefix. */
extern const struct glint_variant glint_variants[];
extern const uint32_t glint_variants_count;

/* What a family makes of a checked problem; stored in glint_plan.internal. Byte counts are exact. */
struct glint_family_plan {
    size_t workspace_bytes;
    uint64_t word[8]; /* the family's own launch geometry; the last, for glint_explain: by how many blocks the query heads of a key
                         head are walked over in the backward pass, 0 or 1 where one does all */
};
#define GLINT_FAMILY_PARTS_WORD 7

/* false: a byte count does not fit in 63 bits. Pure. */
typedef bool glint_family_plan_fn(const struct glint_variant *variant, const struct glint_problem *problem, uint32_t concurrency,
                                  struct glint_family_plan *plan);

/* Everything is checked already: pointers, alignment, overlap, workspace. */
typedef enum glint_status glint_family_run_fn(const struct glint_context *context, const struct glint_variant *variant,
                                              const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace,
                                              void *stream);

/* Causal masks: query i sees key j iff j <= i + offset. For GLINT_MASK_NONE the offset is seqlen_k: every key is seen. */
static inline int64_t glint_mask_offset(const struct glint_problem *p)
{
    switch (p->mask) {
    case GLINT_MASK_CAUSAL_TOP_LEFT: return 0;
    case GLINT_MASK_CAUSAL_BOTTOM_RIGHT: return p->seqlen_k - p->seqlen_q;
    default: return p->seqlen_k;
    }
}

#endif
