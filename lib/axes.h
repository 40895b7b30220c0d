/* What a variant computes: the axes of a spec, in the order of a name. The only list of them in C; gen/axes.lua has the
 * generator's, and gen/tests/lists.lua compares the two. A row computes a problem of its pass when they have the same
 * value on every axis. A row of decode (queries_up_to) reads at run time what a query sees, and serves masks with fewer
 * bounds than its own too. A row of the CPU reads at run time whether scores are capped, and one that can serves
 * problems without a softcap too.
 *   X(axis, plural in a spec, value of `row`, value of `problem` in `pass`)
 *   W(axis, word in a spec, value)        an axis without words has numbers */
#ifndef GLINT_AXES_H
#define GLINT_AXES_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/variant.h"

/* clang-format off */
#define GLINT_AXES(X)                                                                                        \
    X(pass, "passes", row->pass, pass)                                                                       \
    X(dtype, "dtypes", row->dtype, problem->dtype)                                                           \
    X(kv_dtype, "kv_dtypes", row->kv_dtype, problem->kv_dtype)                                               \
    X(head_dim, "head_dims", row->head_dim, problem->head_dim)                                               \
    X(head_dim_v, "head_dim_vs", row->head_dim_v, problem->head_dim_v)                                       \
    X(mask, "masks", row->features & GLINT_FEATURES_OF_MASKS, glint_features_of(problem) & GLINT_FEATURES_OF_MASKS) \
    X(softcap, "softcaps", row->features & GLINT_FEATURE_SOFTCAP, glint_features_of(problem) & GLINT_FEATURE_SOFTCAP) \
    X(bias, "biases", row->features & GLINT_FEATURES_OF_BIASES, glint_features_of(problem) & GLINT_FEATURES_OF_BIASES)

#define GLINT_AXIS_WORDS(W)                                                                                  \
    W(pass, "fwd", GLINT_FORWARD)                                                                            \
    W(pass, "bwd", GLINT_BACKWARD)                                                                           \
    W(pass, "dec", GLINT_FORWARD)                                                                            \
    W(dtype, "f32", GLINT_F32)                                                                               \
    W(dtype, "f16", GLINT_F16)                                                                               \
    W(dtype, "bf16", GLINT_BF16)                                                                             \
    W(kv_dtype, "same", 0)                                                                                   \
    W(kv_dtype, "i8", GLINT_I8)                                                                              \
    W(kv_dtype, "e4m3", GLINT_E4M3)                                                                          \
    W(mask, "none", 0)                                                                                       \
    W(mask, "causal", GLINT_FEATURE_RIGHT_BOUND)                                                             \
    W(mask, "band", GLINT_FEATURE_LEFT_BOUND | GLINT_FEATURE_RIGHT_BOUND)                                    \
    W(mask, "interval", GLINT_FEATURE_LEFT_BOUND | GLINT_FEATURE_RIGHT_BOUND | GLINT_FEATURE_INTERVALS)      \
    W(mask, "tree", GLINT_FEATURES_OF_MASKS)                                                                 \
    W(softcap, "none", 0)                                                                                    \
    W(softcap, "softcap", GLINT_FEATURE_SOFTCAP)                                                             \
    W(bias, "none", 0)                                                                                       \
    W(bias, "alibi", GLINT_FEATURE_ALIBI)                                                                    \
    W(bias, "tensor", GLINT_FEATURE_BIAS)
/* clang-format on */

enum glint_axis {
#define GLINT_AXIS(axis, plural, of_row, of_problem) GLINT_AXIS_##axis,
    GLINT_AXES(GLINT_AXIS)
#undef GLINT_AXIS
        GLINT_AXIS_COUNT
};

struct glint_key {
    int64_t value[GLINT_AXIS_COUNT];
};

static inline struct glint_key glint_key_of_row(const struct glint_variant *row)
{
#define GLINT_AXIS(axis, plural, of_row, of_problem) [GLINT_AXIS_##axis] = (int64_t)(of_row),
    return (struct glint_key){{GLINT_AXES(GLINT_AXIS)}};
#undef GLINT_AXIS
}

static inline struct glint_key glint_key_of_problem(const struct glint_problem *problem, enum glint_pass pass)
{
#define GLINT_AXIS(axis, plural, of_row, of_problem) [GLINT_AXIS_##axis] = (int64_t)(of_problem),
    return (struct glint_key){{GLINT_AXES(GLINT_AXIS)}};
#undef GLINT_AXIS
}

/* Planning asks this of rows by the hundred, so it is inlined where a file is compiled for size, too. */
__attribute__((always_inline)) static inline bool glint_axis_serves(enum glint_axis axis, const struct glint_variant *row,
                                                                    int64_t has, int64_t wanted)
{
    const bool at_run_time =
        (axis == GLINT_AXIS_mask && row->queries_up_to > 0) || (axis == GLINT_AXIS_softcap && row->isa != GLINT_ISA_ANY);
    return has == wanted || (at_run_time && (wanted & ~has) == 0);
}

/* head_dim is asked for twice, as it tells most rows apart: the first time decides for most of a table. */
static inline bool glint_has_key(const struct glint_variant *row, const struct glint_key *key)
{
#define GLINT_AXIS(axis, plural, of_row, of_problem) \
    &&glint_axis_serves(GLINT_AXIS_##axis, row, (int64_t)(of_row), key->value[GLINT_AXIS_##axis])
    return row->head_dim == key->value[GLINT_AXIS_head_dim] GLINT_AXES(GLINT_AXIS);
#undef GLINT_AXIS
}

/* Whether a key's value stands in a name, and so in a spec: V and O that are as wide as Q and K are not said. */
static inline bool glint_axis_is_said(enum glint_axis axis, const struct glint_key *key)
{
    return axis != GLINT_AXIS_head_dim_v || key->value[GLINT_AXIS_head_dim_v] != key->value[GLINT_AXIS_head_dim];
}

/* "head_dim"; "head_dims"; the word for a value, NULL where the number itself stands in a spec. */
const char *glint_axis_name(enum glint_axis axis);
const char *glint_axis_plural(enum glint_axis axis);
const char *glint_axis_word(enum glint_axis axis, int64_t value);

#endif
