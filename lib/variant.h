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

#define GLINT_NAME_BYTES 72 /* the NUL included */

/* No pointers: a table of rows is read-only data as it is linked, and may lie in ROM. */
struct glint_variant {
    char name[GLINT_NAME_BYTES]; /* left of "__" what it computes, right of it how */
    uint8_t pass;                /* enum glint_pass */
    uint8_t dtype;               /* enum glint_dtype */
    uint8_t kv_dtype;            /* of K and V: 0 as dtype, else GLINT_I8 or GLINT_E4M3 */
    uint8_t math;                /* enum glint_math */
    uint16_t features;           /* set of enum glint_feature */
    uint16_t head_dim;
    uint16_t head_dim_v;
    uint16_t tile_m, tile_n;  /* queries, keys */
    uint16_t isa;             /* CPU: enum glint_isa, else 0 */
    uint16_t sm;              /* GPU: lowest compute capability, else 0 */
    uint16_t alike;           /* how many rows behind it have its pass, dtype and head_dim: a search passes them by */
    uint32_t up_to;           /* meant for lengths up to this, the shorter of the two; 0 any */
    uint32_t both_up_to;      /* as up_to, but of the longer of the two; one of them is 0 */
    uint32_t least;           /* where both lengths are below it, a row of an older family is faster; 0 nowhere */
    uint32_t queries_up_to;   /* above 0: decode, taken for so many queries at most; serves fewer bounds too */
    uint32_t cache_from;      /* above 0: a step, taken for so many (query, query head) pairs of a key head at least, */
    uint32_t cache_up_to;     /* and so many queries at most, against a cache */
    uint32_t alignment_bytes; /* addresses and strides are multiples of this */
    uint8_t takes;            /* set of lib/takes.h: lengths on the device, ragged sequences, pages, sinks */
    uint8_t could;            /* what the row would take besides, if the spec set its family's fields */
    uint8_t untimed;          /* set of lib/takes.h for which no machine has timed the row yet */
    uint16_t family;          /* index of glint_families */
    uint32_t kernel;          /* index of what the row's backend has for each: glint_cpu_run_task, glint_gpu_kernels */
};

/* Sorted by name; the rows of one key (lib/axes.h) are contiguous, because the key is the name's prefix. */
extern const struct glint_variant glint_variants[];
extern const uint32_t glint_variants_count;

/* The families of the rows: a family without a row is not in the program. */
extern const struct glint_family *const glint_families[];

static inline const struct glint_family *glint_family_of(const struct glint_variant *row)
{
    return glint_families[row->family];
}

/* Every mask is a band: query i sees key j iff i + first <= j <= i + last. A side without a bound has one that no
 * key reaches. */
struct glint_band {
    int64_t first, last;
};

static inline int64_t glint_between(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

static inline bool glint_is_window(const struct glint_problem *p)
{
    return p->mask == GLINT_MASK_BAND_TOP_LEFT || p->mask == GLINT_MASK_BAND_BOTTOM_RIGHT;
}

static inline bool glint_bottom_right(const struct glint_problem *p)
{
    return p->mask == GLINT_MASK_CAUSAL_BOTTOM_RIGHT || p->mask == GLINT_MASK_BAND_BOTTOM_RIGHT;
}

/* The sides of a mask less what follows from the alignment and the lengths: no further than GLINT_NO_SIDE, which hides
 * nothing on its own side of the diagonal and all on the other, whatever the lengths. */
#define GLINT_NO_SIDE (GLINT_MAX_EXTENT + 1)

static inline struct glint_band glint_sides_of(const struct glint_problem *p)
{
    const bool window = glint_is_window(p);
    const int64_t right = window ? p->window_right : 0,
                  diagonal = glint_between(p->diagonal, -4 * GLINT_NO_SIDE, 4 * GLINT_NO_SIDE);
    struct glint_band sides = {-GLINT_NO_SIDE, GLINT_NO_SIDE};
    if (window && p->window_left != GLINT_UNBOUNDED)
        sides.first = glint_between(diagonal - p->window_left, -GLINT_NO_SIDE, GLINT_NO_SIDE);
    if (p->mask != GLINT_MASK_NONE && right != GLINT_UNBOUNDED)
        sides.last = glint_between(diagonal + right, -GLINT_NO_SIDE, GLINT_NO_SIDE);
    return sides;
}

/* A bound on the right that hides nothing is no more than what a causal mask has. */
static inline struct glint_band glint_band_of(const struct glint_problem *p)
{
    const int64_t offset = glint_bottom_right(p) ? p->seqlen_k - p->seqlen_q : 0;
    const bool bounded = p->mask != GLINT_MASK_NONE && (!glint_is_window(p) || p->window_right != GLINT_UNBOUNDED);
    const struct glint_band sides = glint_sides_of(p);
    const struct glint_band band = {
        glint_between(offset + sides.first, -p->seqlen_q, p->seqlen_k),
        glint_between(offset + sides.last, -p->seqlen_q, bounded && p->seqlen_k > 0 ? p->seqlen_k - 1 : p->seqlen_k)};
    return band;
}

static inline bool glint_top_left(const struct glint_problem *p)
{
    return p->mask == GLINT_MASK_CAUSAL_TOP_LEFT || p->mask == GLINT_MASK_BAND_TOP_LEFT;
}

/* Where query i stands among the keys, for ALiBi, is i + this: on its mask's diagonal, and without a mask as at the
 * bottom right. No further than GLINT_NO_SIDE, so that distances fit in 32 bits. */
static inline int64_t glint_offset_of(const struct glint_problem *p)
{
    const int64_t diagonal = glint_between(p->diagonal, -4 * GLINT_NO_SIDE, 4 * GLINT_NO_SIDE);
    return glint_between((glint_top_left(p) ? 0 : p->seqlen_k - p->seqlen_q) + diagonal, -GLINT_NO_SIDE, GLINT_NO_SIDE);
}

/* Words of a query's bits in a tree. */
static inline int64_t glint_tree_words(const struct glint_problem *p)
{
    return (p->seqlen_q + 31) / 32;
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

/* The features that are a mask's: which sides of its band have a bound, and whether queries have bounds of their own,
 * and bits beside them. */
#define GLINT_FEATURES_OF_INTERVALS (GLINT_FEATURE_LEFT_BOUND | GLINT_FEATURE_RIGHT_BOUND | GLINT_FEATURE_INTERVALS)
#define GLINT_FEATURES_OF_MASKS (GLINT_FEATURES_OF_INTERVALS | GLINT_FEATURE_TREE)

/* What may be added to scores: one of these at most. */
#define GLINT_FEATURES_OF_BIASES (GLINT_FEATURE_ALIBI | GLINT_FEATURE_BIAS)

/* What a problem asks of a variant. A band with no left side is of the class of the causal masks, and a band with no
 * side of the class of no mask. A left side alone asks for both: what it would save is the last comparison. */
static inline uint32_t glint_features_of(const struct glint_problem *p)
{
    const bool window = glint_is_window(p);
    const uint32_t scores = (p->softcap != 0.0f ? GLINT_FEATURE_SOFTCAP : 0) | (p->alibi != 0 ? GLINT_FEATURE_ALIBI : 0) |
                            (p->bias_dtype != 0 ? GLINT_FEATURE_BIAS : 0);
    if (p->tree != 0)
        return scores | GLINT_FEATURES_OF_MASKS;
    if (p->intervals != 0)
        return scores | GLINT_FEATURES_OF_INTERVALS;
    if (window && p->window_left != GLINT_UNBOUNDED)
        return scores | GLINT_FEATURE_LEFT_BOUND | GLINT_FEATURE_RIGHT_BOUND;
    return scores | (p->mask == GLINT_MASK_NONE || (window && p->window_right == GLINT_UNBOUNDED) ? 0 : GLINT_FEATURE_RIGHT_BOUND);
}

/* A mask that a row serves; with windows of 0 to GLINT_MAX_EXTENT where it is a band. */
static inline enum glint_mask glint_mask_of(const struct glint_variant *row)
{
    if ((row->features & GLINT_FEATURE_LEFT_BOUND) != 0)
        return GLINT_MASK_BAND_BOTTOM_RIGHT;
    return (row->features & GLINT_FEATURE_RIGHT_BOUND) != 0 ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
}

#endif
