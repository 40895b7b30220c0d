/* A small attention of the tests' own behind the backend's table, right by default and wrong on demand: it shows that
 * the checks pass what is right and catch what is wrong, without the library. */
#ifndef GLINT_TESTS_STAND_IN_H
#define GLINT_TESTS_STAND_IN_H

#include "tests/checks/backend.h"

/* One fault each, of the kinds that kernels really have. */
#define FORWARD_FAULTS(FAULT)                                                                         \
    FAULT(SCALE_IGNORED)         /* always 1 / sqrt(head_dim) */                                      \
    FAULT(SCALE_OFF_BY_1E4)      /* softmax_scale * (1 + 1e-4) */                                     \
    FAULT(MASK_ONE_SHORT)        /* j < i + offset */                                                 \
    FAULT(MASK_ONE_LONG)         /* j <= i + offset + 1 */                                            \
    FAULT(ALIGNMENT_IGNORED)     /* bottom right treated as top left */                               \
    FAULT(DIAGONAL_IGNORED)      /* always 0 */                                                       \
    FAULT(NO_RESCALE)            /* a new maximum, and the old sums not rescaled */                   \
    FAULT(NO_RESCALE_OF_SUM)     /* only the output rescaled */                                       \
    FAULT(NO_MAX)                /* exp without subtracting the maximum */                            \
    FAULT(EXP_CONSTANT_1E5)      /* exp off by a factor of 1 + 1e-5: normalisation hides it from O */ \
    FAULT(EXP_WAVE_1E5)          /* exp off by 1e-5 sin(x) */                                         \
    FAULT(TAIL_TILE_DROPPED)     /* keys after the last whole tile are skipped */                     \
    FAULT(LAST_TILE_NOT_MASKED)  /* the last tile takes one hidden key with weight 0 */               \
    FAULT(SENTINEL)              /* maximum starts at -5e4 instead of -infinity */                    \
    FAULT(EMPTY_ROW_IS_NAN)      /* 0 / 0 in a row that sees nothing */                               \
    FAULT(EMPTY_ROW_LSE_ZERO)    /* LSE = 0 there */                                                  \
    FAULT(LSE_BASE_2)            /* log2 instead of log */                                            \
    FAULT(LSE_WITHOUT_MAX)       /* the maximum forgotten */                                          \
    FAULT(GROUP_BY_REMAINDER)    /* key head h % heads_kv */                                          \
    FAULT(ROW_STRIDE_OF_K_FOR_V) /* one stride for both */                                            \
    FAULT(BATCH_STRIDE_IGNORED)  /* batch 0 is read for all */                                        \
    FAULT(LAST_ROW_NOT_WRITTEN)                                                                       \
    FAULT(WRITES_PAST_ROW)   /* one element beyond each row of O */                                   \
    FAULT(READS_PAST_K)      /* one element beyond the last key */                                    \
    FAULT(WORKSPACE_OVERRUN) /* one byte */                                                           \
    FAULT(WORKSPACE_TRUSTED) /* accumulators not cleared */                                           \
    FAULT(LANES_DIFFER)      /* odd lanes sum keys in another order */                                \
    FAULT(ROUNDED_SCORES)    /* scores kept in the dtype (f16, bf16) or in 16 bits (f32) */           \
    FAULT(NAN_BECOMES_ZERO)  /* a NaN sum treated as an empty row */                                  \
    FAULT(FLUSH_TO_ZERO)     /* denormal V read as 0 */                                               \
    FAULT(INPUT_WRITTEN)     /* Q scaled in place */                                                  \
    FAULT(COARSE_TF32)       /* tf32 factors with 8 bits instead of 11 */                             \
    FAULT(ONE_TF32_OF_THREE) /* one tf32 product where three are promised */
#define BACKWARD_FAULTS(FAULT)                                                        \
    FAULT(NO_DELTA) /* dS = P dP */                                                   \
    FAULT(DELTA_OFF_BY_1E3)                                                           \
    FAULT(DLSE_IGNORED)                                                               \
    FAULT(DQ_NOT_SCALED)                                                              \
    FAULT(DK_NOT_SCALED)                                                              \
    FAULT(DK_ONLY_LAST_OF_GROUP) /* heads of a group overwrite each other */          \
    FAULT(DV_OFF_BY_A_TENTH)                                                          \
    FAULT(DV_FROM_DS)             /* dV = dS^T dO */                                  \
    FAULT(BACKWARD_MASK_LONG)     /* one hidden key in */                             \
    FAULT(BACKWARD_TAIL_DROPPED)  /* queries after the last whole tile are skipped */ \
    FAULT(EXP_OF_LSE)             /* exp(S) * exp(-LSE): overflows below -88.7 */     \
    FAULT(BLIND_ROWS_NOT_SKIPPED) /* exp(S - -inf) in rows that see nothing */        \
    FAULT(GRADIENTS_ADDED)        /* dK, dV added to what was there */                \
    FAULT(DQ_OF_BLIND_ROWS_UNSET)                                                     \
    FAULT(BACKWARD_WORKSPACE) /* dK accumulators not cleared */                       \
    FAULT(BACKWARD_LANES)     /* order of the group's heads depends on the lane */    \
    FAULT(BACKWARD_EXP_1E5)   /* exp off by 1e-5 sin(x) */                            \
    FAULT(ONE_TF32_OF_THREE_BACKWARD)                                                 \
    FAULT(HIDDEN_KEY_TIMES_ZERO) /* dS = 0 times a hidden K row */

enum fault {
    FAULT_NONE,
#define FAULT(name) FAULT_##name,
    FORWARD_FAULTS(FAULT) FIRST_BACKWARD_FAULT,
    FAULT_IGNORED = FIRST_BACKWARD_FAULT,
    BACKWARD_FAULTS(FAULT) FAULTS
#undef FAULT
};

/* The stand-in computes with this fault from now on. */
void stand_in_set_fault(enum fault fault);
const char *fault_name(enum fault fault);
const struct backend *stand_in_backend(void);

#endif
