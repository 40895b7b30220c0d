/* One row of the dispatch table. Internal: not installed.
 *
 * The generator emits one row a variant (generated/table.c) and never anything else that the planner reads; the planner reads
 * nothing else about a kernel. No family's header may be included here. */
#ifndef GLINT_VARIANT_H
#define GLINT_VARIANT_H

#include <stdint.h>

#include "lib/glint.h"

struct glint_family;

struct glint_variant {
    const char *name; /* left of "__" what it computes, right of it how */
    uint8_t pass;     /* enum glint_pass */
    uint8_t dtype;    /* enum glint_dtype */
    uint8_t causal;   /* 0 none, 1 both causal masks */
    uint16_t head_dim;
    uint16_t tile_m, tile_n;  /* queries, keys */
    uint16_t isa;             /* CPU: enum glint_isa, else 0 */
    uint16_t sm;              /* GPU: lowest compute capability, else 0 */
    uint16_t math;            /* enum glint_math */
    uint32_t up_to;           /* meant for lengths up to this, the shorter of the two; 0 any */
    uint32_t alignment_bytes; /* addresses and strides are multiples of this */
    const struct glint_family *family;
    const void *kernel; /* the backend's own descriptor: const struct glint_cpu_kernel * for the CPU */
};

/* Sorted by name; the rows of one (pass, dtype, head_dim, causal) key are contiguous, because the key is the name's prefix. */
extern const struct glint_variant glint_variants[];
extern const uint32_t glint_variants_count;

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
