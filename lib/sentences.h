/* Every reason for which a problem or a call is refused: R(reason, status, sentence). The status follows from the
 * reason, and glint_explain prints the sentence with what stands for its words. tests/cuda/sentences_test.c reaches
 * every one. Internal: not installed.
 *
 *   {field}     the field or argument at fault, as the caller wrote it
 *   {part}      a dimension of its strides, or the tensor that it meets
 *   {value}     what it is
 *   {want}      the number that would be right, or its bound
 *   {row}       the nearest row of the table
 *   {key}       what the problem asks of a row, axis by axis
 *   {needs}     what the problem needs of a row beside the axes: lib/takes.h
 *   {change}    what in the spec would make such a row
 *   {target}    what in the spec would make rows for the device
 *   {planned}   the plan's pass
 *   {pass}      the call's pass
 *   {status}    the sentence of the status */
#ifndef GLINT_SENTENCES_H
#define GLINT_SENTENCES_H

/* clang-format off */
#define GLINT_REASONS(R) \
    /* arguments and structs */ \
    R(NULL_ARGUMENT, GLINT_NULL_ARGUMENT, "{field} is NULL.") \
    R(CONTEXT_CLOSED, GLINT_CONTEXT_CLOSED, "{status}") \
    R(STRUCT_SIZE, GLINT_STRUCT_SIZE, "{field} is {value} bytes; it must be {want}.") \
    R(RESERVED, GLINT_BAD_RESERVED, "{field} is {value}; it must be 0.") \
    /* the problem */ \
    R(PASS, GLINT_BAD_PASS, "{field} is {value}; use GLINT_FORWARD (1) or GLINT_BACKWARD (2).") \
    R(DTYPE, GLINT_BAD_DTYPE, "{field} is {value}; use GLINT_F32 (1), GLINT_F16 (2) or GLINT_BF16 (3).") \
    R(MASK, GLINT_BAD_MASK, "{field} is {value}; use GLINT_MASK_NONE (1), GLINT_MASK_CAUSAL_TOP_LEFT (2), GLINT_MASK_CAUSAL_BOTTOM_RIGHT (3), " \
        "GLINT_MASK_BAND_TOP_LEFT (4) or GLINT_MASK_BAND_BOTTOM_RIGHT (5).") \
    R(WINDOW, GLINT_BAD_WINDOW, "{field} is {value}; it must be GLINT_UNBOUNDED (-1) or from 0 to {want}.") \
    R(WINDOW_WITHOUT_BAND, GLINT_BAD_WINDOW, "{field} is {value}, and the mask is no band; use GLINT_MASK_BAND_TOP_LEFT or " \
        "GLINT_MASK_BAND_BOTTOM_RIGHT, or set it to 0.") \
    R(DIAGONAL_OF_NONE, GLINT_BAD_DIAGONAL, "{field} is {value}, and the mask is GLINT_MASK_NONE (1), which has no diagonal; use another mask, or " \
        "set it to 0.") \
    R(KV_DTYPE, GLINT_BAD_KV_DTYPE, "{field} is {value}; use 0 (as dtype), GLINT_I8 (4) or GLINT_E4M3 (5).") \
    R(KV_DTYPE_BACKWARD, GLINT_BAD_KV_DTYPE, "{field} is {value}; the backward pass takes 0 only: K and V of the problem's dtype.") \
    R(SCALES, GLINT_BAD_SCALES, "{field} is {value}; with kv_dtype use GLINT_SCALES_TENSOR (1), GLINT_SCALES_HEAD (2) or GLINT_SCALES_ROW (3).") \
    R(SCALES_WITHOUT_KV_DTYPE, GLINT_BAD_SCALES, "{field} is {value}; without kv_dtype it must be GLINT_SCALES_NONE (0).") \
    R(LENGTHS, GLINT_BAD_LENGTHS, "{field} is {value}; use GLINT_LENGTHS_HOST (0), GLINT_LENGTHS_DEVICE (1) or GLINT_LENGTHS_RAGGED (2).") \
    R(SINKS, GLINT_BAD_SINKS, "{field} is {value}; use 1 when there are sinks and 0 when there are none.") \
    R(ORDER, GLINT_BAD_ORDER, "{field} is {value}; use GLINT_ORDER_ANY (0) or GLINT_ORDER_CANONICAL (1).") \
    R(ORDER_BACKWARD, GLINT_BAD_ORDER, "{field} is {value}; the backward pass takes GLINT_ORDER_ANY (0) only.") \
    R(INTERVALS, GLINT_BAD_INTERVALS, "{field} is {value}; use 1 when there are intervals and 0 when there are none.") \
    R(TREE, GLINT_BAD_TREE, "{field} is {value}; use 1 when there is a tree and 0 when there is none; the backward pass takes 0 only.") \
    R(TREE_AND_ALIBI, GLINT_BAD_TREE, "{field} is {value}, and alibi is 1, whose distances know no tree; use a bias instead of alibi, or set {field} " \
        "to 0.") \
    R(ALIBI, GLINT_BAD_ALIBI, "{field} is {value}; use 1 when there are slopes of ALiBi and 0 when there are none.") \
    R(LOGIT, GLINT_BAD_LOGIT, "{field} is {value}; use 1 when the largest logits are written and 0 when they are not; the backward pass takes 0 only.") \
    R(BIAS_DTYPE, GLINT_BAD_BIAS, "{field} is {value}; use GLINT_F32 (1) or the problem's dtype, {want}, when there is a bias and 0 when there is none.") \
    R(BIAS_AND_ALIBI, GLINT_BAD_BIAS, "{field} is {value}, and alibi is 1; use one of the two, and set the other to 0.") \
    R(DBIAS, GLINT_BAD_BIAS, "{field} is {value}; use 1 when the backward pass is to write dBias and 0 when it is not.") \
    R(DBIAS_OF_NONE, GLINT_BAD_BIAS, "{field} is {value}, and bias_dtype is 0: a gradient needs a bias; set bias_dtype, or set {field} to 0.") \
    R(BATCH, GLINT_BAD_BATCH, "{field} is {value}; it must be from 1 to {want}.") \
    R(HEADS, GLINT_BAD_HEADS, "{field} is {value}; it must be from 1 to {want}.") \
    R(HEAD_GROUP, GLINT_BAD_HEAD_GROUP, "{field} is {value}; it must be a multiple of heads_kv, {want}.") \
    R(HEAD_DIM, GLINT_BAD_HEAD_DIM, "{field} is {value}; it must be a multiple of 8, 8 or more.") \
    R(HEAD_DIM_V, GLINT_BAD_HEAD_DIM, "{field} is {value}; it must be head_dim, {want}, as yet.") \
    R(SEQLEN, GLINT_BAD_SEQLEN, "{field} is {value}; it must be from 0 to {want}.") \
    R(ROWS, GLINT_BAD_RAGGED, "{field} is {value}; it must be from 0 to {want}.") \
    R(ROWS_WITHOUT_RAGGED, GLINT_BAD_RAGGED, "{field} is {value}, and lengths is not GLINT_LENGTHS_RAGGED (2); use that, or set it to 0.") \
    R(ROWS_IN_PAGES, GLINT_BAD_RAGGED, "{field} is {value}, and K and V are in pages: their rows do not follow one another; set it to 0.") \
    R(SCALE, GLINT_BAD_SCALE, "{field} is inf or NaN; use a finite number, such as 1 / sqrt(head_dim).") \
    R(SOFTCAP, GLINT_BAD_SOFTCAP, "softcap is negative, NaN, too small or too large; use 0 for none, or 2^-126 to 2^124, such as 50.") \
    R(PAGE_ROWS, GLINT_BAD_PAGES, "{field} is {value}; it must be 16, 32, 64, 128 or 256, or 0 for linear K and V.") \
    R(PAGES, GLINT_BAD_PAGES, "{field} is {value}; it must be from 1 to {want}.") \
    R(PAGES_OF_LINEAR, GLINT_BAD_PAGES, "{field} is {value}, and page_rows is 0: linear K and V have no pages; set it to 0.") \
    R(PAGES_BACKWARD, GLINT_BAD_PAGES, "{field} is {value}, and the pass is backward, which takes linear K and V alone; set it to 0.") \
    R(PAGES_OF_HOST, GLINT_BAD_PAGES, "{field} is {value}, and lengths is GLINT_LENGTHS_HOST (0); pages go with GLINT_LENGTHS_DEVICE (1) or " \
        "GLINT_LENGTHS_RAGGED (2).") \
    R(PAGES_TOO_FEW, GLINT_BAD_PAGES, "{field} is {value}; seqlen_k and page_rows want {want} or more.") \
    R(STRIDE_NEGATIVE, GLINT_BAD_STRIDE, "{field}.{part} is {value}; strides must not be negative.") \
    R(STRIDE_OVERLAP, GLINT_BAD_STRIDE, "{field}.{part} is {value}; elements of this output overlap: each stride must step over all that is inside it.") \
    R(DBIAS_OVERLAP, GLINT_BAD_STRIDE, "{field}.{part} is {value}; elements of dbias, which has these strides, overlap: each must be 0 or step over all " \
        "that is inside it.") \
    R(SIZE, GLINT_SIZE_OVERFLOW, "The size in bytes of {field} does not fit in 63 bits; use shorter lengths or smaller strides.") \
    /* the table */ \
    R(STRIDE_OF_ROW, GLINT_STRIDE_MISALIGNED, "{field}.{part} is {value}; it must be a multiple of {want} elements for {row}.") \
    R(STRIDE_TOO_LARGE, GLINT_SIZE_OVERFLOW, "{field}.{part} is {value}; it must be at most {want} elements for {row}.") \
    R(LACKS_LENGTHS, GLINT_BAD_LENGTHS, "{field} is {value}, and no variant that runs here takes {needs}; nearest: {row}.{change}") \
    R(LACKS_SINKS, GLINT_BAD_SINKS, "{field} is {value}, and no variant that runs here takes {needs}; nearest: {row}.{change}") \
    R(LACKS_PAGES, GLINT_BAD_PAGES, "{field} is {value}, and no variant that runs here takes {needs}; nearest: {row}.{change}") \
    R(LACKS_ORDER, GLINT_BAD_ORDER, "{field} is {value}, and no variant that runs here takes {needs}; nearest: {row}.{change}") \
    R(LACKS_LOGIT, GLINT_BAD_LOGIT, "{field} is {value}, and no variant that runs here takes {needs}; nearest: {row}.{change}") \
    R(NOT_IN_SPEC, GLINT_NOT_IN_SPEC, "The library has no variant for {key}.{change}") \
    R(NOT_ON_DEVICE, GLINT_NOT_ON_DEVICE, "The library has variants for {key}, but none that this device runs. In the spec, add {target} and rebuild.") \
    /* the call */ \
    R(PLAN, GLINT_BAD_PLAN, "The plan was not made by glint_plan for this context, or was changed; plan again.") \
    R(WRONG_PASS, GLINT_WRONG_PASS, "The plan is for the {planned} pass; plan the {pass} pass for this call.") \
    R(STREAM, GLINT_BAD_STREAM, "stream is not NULL; a context on the CPU takes none.") \
    R(WORKSPACE, GLINT_WORKSPACE_TOO_SMALL, "{field} is {value} bytes; it must be {want}.") \
    R(WORKSPACE_ADDRESS, GLINT_WORKSPACE_MISALIGNED, "The address of {field} must be a multiple of {want} bytes; it is {value} past one.") \
    R(ADDRESS, GLINT_TENSOR_MISALIGNED, "The address of {field} must be a multiple of {want} bytes; it is {value} past one.") \
    R(NULL_TENSOR, GLINT_NULL_TENSOR, "{field} is NULL; this call needs it.") \
    R(STRIDE_ON_DEVICE, GLINT_STRIDE_MISALIGNED, "{field}.{part} is {value}; on this device it must be a multiple of {want} elements.") \
    R(OVERLAP, GLINT_TENSOR_OVERLAP, "{field} shares memory with {part}; outputs and the workspace need memory of their own (interleaved outputs " \
        "must have equal strides).") \
    R(LENGTHS_GIVEN, GLINT_BAD_LENGTHS, "tensors.{field} is given, and the plan's lengths are GLINT_LENGTHS_HOST; plan with GLINT_LENGTHS_DEVICE or " \
        "GLINT_LENGTHS_RAGGED, or set it to NULL.") \
    R(FIRST_GIVEN, GLINT_BAD_RAGGED, "tensors.{field} is given, and the plan's lengths are not GLINT_LENGTHS_RAGGED; plan with it, or set it to NULL.") \
    R(FIRST_GIVEN_IN_PAGES, GLINT_BAD_RAGGED, "tensors.{field} is given, and the plan's K and V are in pages: seqlens_k says how many keys there are; " \
        "set it to NULL.") \
    R(TABLE_GIVEN, GLINT_BAD_PAGES, "tensors.{field} is given, and the plan's K and V are linear; plan with page_rows, or set it to NULL.") \
    R(SINKS_GIVEN, GLINT_BAD_SINKS, "tensors.{field} is given, and the plan has no sinks; plan with sinks = 1, or set it to NULL.") \
    R(INTERVALS_GIVEN, GLINT_BAD_INTERVALS, "tensors.{field} is given, and the plan has no intervals; plan with intervals = 1, or set it to NULL.") \
    R(TREE_GIVEN, GLINT_BAD_TREE, "tensors.{field} is given, and the plan has no tree; plan with tree = 1, or set it to NULL.") \
    R(ALIBI_GIVEN, GLINT_BAD_ALIBI, "tensors.{field} is given, and the plan has no ALiBi; plan with alibi = 1, or set it to NULL.") \
    R(LOGIT_GIVEN, GLINT_BAD_LOGIT, "tensors.{field} is given, and the plan has no largest logit; plan with max_logit = 1, or set it to NULL.") \
    R(BIAS_GIVEN, GLINT_BAD_BIAS, "tensors.{field} is given, and the plan has none; plan with bias_dtype, and for dbias with dbias = 1, or set it to NULL.") \
    R(SCALES_GIVEN, GLINT_BAD_SCALES, "tensors.{field} is given, and the plan's kv_scales are GLINT_SCALES_NONE; plan with others, or set it to NULL.") \
    /* glint_append and glint_merge */ \
    R(APPEND_SCALES, GLINT_BAD_APPEND, "{field} is {value}; rows of int8 are made with a scale each: plan with GLINT_SCALES_ROW (3).") \
    R(APPEND_DTYPE, GLINT_BAD_APPEND, "{field} is {value}; it must be GLINT_F32 (1) or the plan's dtype, {want}.") \
    R(APPEND_RAGGED, GLINT_BAD_APPEND, "{field} is {value} (GLINT_LENGTHS_RAGGED), and keys that follow one another leave no room; rows are appended " \
        "to pages, or to a cache of GLINT_LENGTHS_HOST (0) or GLINT_LENGTHS_DEVICE (1).") \
    R(APPEND_HEADS, GLINT_BAD_APPEND, "{field} is {value}; on this device tokens of so many elements a head are appended with at most {want} key heads.") \
    R(PARTS, GLINT_BAD_MERGE, "{field} is {value}; it must be from 1 to {want}. More parts are merged in several calls, with O of float32 between them.") \
    R(RESULT_OVERLAP, GLINT_TENSOR_OVERLAP, "{field} shares memory with the result's {part}; they need ranges of their own, or O (or LSE) exactly " \
        "the place, the dtype and the strides of a part's.")
/* clang-format on */

enum glint_reason {
    GLINT_REASON_NONE,
#define GLINT_REASON(reason, status, sentence) GLINT_REASON_##reason,
    GLINT_REASONS(GLINT_REASON)
#undef GLINT_REASON
        GLINT_REASON_COUNT
};

#endif
