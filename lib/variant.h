/* One row of the dispatch table. Internal: not installed.
 *
 * The generator emits one row a variant (generated/table.c) and never anything else that the planner reads; the
 * planner reads nothing else about a kernel. No family's header may be included here. */
#ifndef GLINT_VARIANT_H
#define GLINT_VARIANT_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/glint.h"

struct glint_family;

struct glint_variant {
    const char *name;  /* left of "__" what it computes, right of it how */
    uint8_t pass;      /* enum glint_pass */
    uint8_t dtype;     /* enum glint_dtype */
    uint8_t kv_dtype;  /* of K and V: 0 as dtype, else GLINT_I8 or GLINT_E4M3 */
    uint16_t features; /* set of enum glint_feature */
    uint16_t head_dim;
    uint16_t tile_m, tile_n;  /* queries, keys */
    uint16_t isa;             /* CPU: enum glint_isa, else 0 */
    uint16_t sm;              /* GPU: lowest compute capability, else 0 */
    uint16_t math;            /* enum glint_math */
    uint32_t up_to;           /* meant for lengths up to this, the shorter of the two; 0 any */
    uint32_t both_up_to;      /* as up_to, but of the longer of the two; one of them is 0 */
    uint32_t least;           /* where both lengths are below it, a row of an older family is faster; 0 nowhere */
    uint32_t queries_up_to;   /* above 0: decode, taken for so many queries at most; serves fewer bounds too */
    uint32_t alignment_bytes; /* addresses and strides are multiples of this */
    uint8_t takes;            /* set of lib/takes.h: lengths on the device, ragged sequences, pages, sinks */
    uint8_t could;            /* what the row would take besides, if the spec set its family's fields */
    const struct glint_family *family;
    const void *kernel; /* the backend's own descriptor: const struct glint_cpu_kernel * for the CPU */
};

/* Sorted by name; the rows of one key (lib/axes.h) are contiguous, because the key is the name's prefix. */
extern const struct glint_variant glint_variants[];
extern const uint32_t glint_variants_count;

/* Every mask is a band: query i sees key j iff i + first <= j <= i + last. A side without a bound has one that no
 * key reaches. */
struct glint_band {
    int64_t first, last;
};

static inline struct glint_band glint_band_of(const struct glint_problem *p)
{
    const bool bottom_right = p->mask == GLINT_MASK_CAUSAL_BOTTOM_RIGHT || p->mask == GLINT_MASK_BAND_BOTTOM_RIGHT;
    const bool window = p->mask == GLINT_MASK_BAND_TOP_LEFT || p->mask == GLINT_MASK_BAND_BOTTOM_RIGHT;
    const int64_t offset = bottom_right ? p->seqlen_k - p->seqlen_q : 0, right = window ? p->window_right : 0;
    struct glint_band band = {-p->seqlen_q, p->seqlen_k};
    if (p->mask != GLINT_MASK_NONE && right != GLINT_UNBOUNDED)
        band.last = offset + right;
    if (window && right != GLINT_UNBOUNDED &&
        band.last >= p->seqlen_k) /* a bound that hides nothing: no more than a causal mask has */
        band.last = p->seqlen_k > 0 ? p->seqlen_k - 1 : 0;
    if (window && p->window_left != GLINT_UNBOUNDED && offset - p->window_left > band.first)
        band.first = offset - p->window_left;
    return band;
}

/* The keys that query i sees; none when the last comes before the first. */
static inline int64_t glint_first_key(const struct glint_problem *p, int64_t i)
{
    const int64_t first = i + glint_band_of(p).first;
    return first > 0 ? first : 0;
}

static inline int64_t glint_last_key(const struct glint_problem *p, int64_t i)
{
    const int64_t last = i + glint_band_of(p).last;
    return last < p->seqlen_k ? last : p->seqlen_k - 1;
}

/* What a problem asks of a variant. A band with no left side is of the class of the causal masks, and a band with no
 * side of the class of no mask. A left side alone asks for both: what it would save is the last comparison. */
static inline uint32_t glint_features_of(const struct glint_problem *p)
{
    const bool window = p->mask == GLINT_MASK_BAND_TOP_LEFT || p->mask == GLINT_MASK_BAND_BOTTOM_RIGHT;
    const uint32_t cap = p->softcap != 0.0f ? GLINT_FEATURE_SOFTCAP : 0;
    if (window && p->window_left != GLINT_UNBOUNDED)
        return cap | GLINT_FEATURE_LEFT_BOUND | GLINT_FEATURE_RIGHT_BOUND;
    return cap | (p->mask == GLINT_MASK_NONE || (window && p->window_right == GLINT_UNBOUNDED) ? 0 : GLINT_FEATURE_RIGHT_BOUND);
}

/* The features that are a mask's: which sides of its band have a bound. */
#define GLINT_FEATURES_OF_MASKS (GLINT_FEATURE_LEFT_BOUND | GLINT_FEATURE_RIGHT_BOUND)

/* A mask that a row serves; with windows of 0 to GLINT_MAX_EXTENT where it is a band. */
static inline enum glint_mask glint_mask_of(const struct glint_variant *row)
{
    if ((row->features & GLINT_FEATURE_LEFT_BOUND) != 0)
        return GLINT_MASK_BAND_BOTTOM_RIGHT;
    return (row->features & GLINT_FEATURE_RIGHT_BOUND) != 0 ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
}

#endif
