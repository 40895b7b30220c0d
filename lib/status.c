/* Status codes as names and sentences. One list: a code that is missing here does not exist. */
#include <stddef.h>
#include <stdint.h>

#include "lib/glint.h"

/* clang-format off */
#define STATUSES(S) \
    S(GLINT_OK, "Success.") \
    S(GLINT_NULL_ARGUMENT, "A required pointer is NULL.") \
    S(GLINT_STRUCT_SIZE, "struct_size is not the size of this struct in this version of glint.h; set it with sizeof.") \
    S(GLINT_CONTEXT_CLOSED, "The context is closed or was never opened; open it with glint_context_init.") \
    S(GLINT_STORAGE_TOO_SMALL, "The storage is smaller than its size query says; give exactly that many bytes or more.") \
    S(GLINT_STORAGE_MISALIGNED, "The storage is not aligned to GLINT_CONTEXT_ALIGNMENT bytes.") \
    S(GLINT_BAD_OPTION, "An option is out of its documented range.") \
    S(GLINT_BAD_EXECUTOR, "The executor needs a parallel_for and a concurrency from 1 to GLINT_MAX_CONCURRENCY.") \
    S(GLINT_BAD_INDEX, "The variant index is not below glint_variant_count().") \
    S(GLINT_BAD_PASS, "The pass is neither GLINT_FORWARD nor GLINT_BACKWARD.") \
    S(GLINT_BAD_DTYPE, "The dtype is none of GLINT_F32, GLINT_F16 and GLINT_BF16.") \
    S(GLINT_BAD_MASK, "The mask is not a value of enum glint_mask; there is no default alignment.") \
    S(GLINT_BAD_HEAD_DIM, "head_dim is not a positive multiple of 8.") \
    S(GLINT_BAD_BATCH, "batch is below 1 or above GLINT_MAX_EXTENT.") \
    S(GLINT_BAD_HEADS, "A head count is below 1 or above GLINT_MAX_EXTENT.") \
    S(GLINT_BAD_HEAD_GROUP, "heads_q is not a multiple of heads_kv.") \
    S(GLINT_BAD_SEQLEN, "A sequence length is negative or above GLINT_MAX_EXTENT.") \
    S(GLINT_BAD_SCALE, "softmax_scale is not a finite number.") \
    S(GLINT_BAD_STRIDE, "A stride is negative, or the rows, heads or batches of an output overlap each other.") \
    S(GLINT_STRIDE_MISALIGNED, "A stride in bytes is not a multiple of the variant's alignment.") \
    S(GLINT_SIZE_OVERFLOW, "An offset or a byte count of this problem does not fit in 63 bits.") \
    S(GLINT_BAD_RESERVED, "A reserved field is not zero.") \
    S(GLINT_BAD_WINDOW, "A window is neither GLINT_UNBOUNDED nor from 0 to GLINT_MAX_EXTENT, or is set beside a mask that is no band.") \
    S(GLINT_BAD_DIAGONAL, "A diagonal is set beside GLINT_MASK_NONE, which has none.") \
    S(GLINT_BAD_INTERVALS, "intervals is neither 0 nor 1, or intervals were given to a call whose plan has none.") \
    S(GLINT_BAD_TREE, "tree is neither 0 nor 1, or is set beside alibi or for the backward pass, or bits were given to a call whose plan has none.") \
    S(GLINT_BAD_LENGTHS, "lengths is not a value of enum glint_lengths, or lengths on the device are not taken by this pass or device.") \
    S(GLINT_BAD_SOFTCAP, "softcap is neither 0 nor from 2^-126 to 2^124.") \
    S(GLINT_BAD_ALIBI, "alibi is neither 0 nor 1, or slopes were given to a call whose plan has no ALiBi.") \
    S(GLINT_BAD_LOGIT, "max_logit is neither 0 nor 1, or not taken here or by the pass, or given to a call whose plan has none.") \
    S(GLINT_BAD_BIAS, "bias_dtype is neither 0 nor GLINT_F32 nor dtype, or is set beside alibi, or dbias is not 0 or 1 or has no bias, or a call has a " \
        "bias or dbias and its plan has none.") \
    S(GLINT_BAD_SINKS, "sinks is neither 0 nor 1, or is not taken here, or sinks were given to a call whose plan has none.") \
    S(GLINT_BAD_KV_DTYPE, "kv_dtype is neither 0 nor GLINT_I8 nor GLINT_E4M3, or is set for the backward pass.") \
    S(GLINT_BAD_SCALES, "kv_scales does not go with kv_dtype, or a call has scales and its plan has none.") \
    S(GLINT_NOT_IN_SPEC, "The library was built without a variant that computes this; glint_explain says what to add to the spec.") \
    S(GLINT_NOT_ON_DEVICE, "The library has such variants, but none for this context's device.") \
    S(GLINT_BAD_PLAN, "This is not a plan made by glint_plan for this context, or it was changed since.") \
    S(GLINT_WRONG_PASS, "The plan was made for the other pass.") \
    S(GLINT_NULL_TENSOR, "A tensor that this pass reads or writes is NULL.") \
    S(GLINT_TENSOR_MISALIGNED, "A tensor's address is not a multiple of the variant's alignment.") \
    S(GLINT_TENSOR_OVERLAP, "An output shares memory with another tensor or with the workspace.") \
    S(GLINT_WORKSPACE_TOO_SMALL, "The workspace is smaller than plan.workspace_bytes.") \
    S(GLINT_WORKSPACE_MISALIGNED, "The workspace is not aligned to GLINT_WORKSPACE_ALIGNMENT bytes.") \
    S(GLINT_BAD_STREAM, "A context on the CPU takes no stream; pass NULL.") \
    S(GLINT_BAD_PAGES, "page_rows, pages or pages_per_sequence is out of range, pages are not taken by this pass or device or without lengths " \
        "on the device, or a page table is given and K and V are linear.") \
    S(GLINT_BAD_RAGGED, "rows_q or rows_k is negative or above GLINT_MAX_EXTENT, or ragged rows are given and lengths is not GLINT_LENGTHS_RAGGED, or " \
        "ragged keys are given and K and V are in pages.") \
    S(GLINT_BAD_APPEND, "The new rows of K and V are neither GLINT_F32 nor of the plan's dtype, or the plan's keys are ragged, or its queries are and the " \
        "context is a GPU's, or its int8 has not a scale a row.") \
    S(GLINT_BAD_MERGE, "The number of parts to be merged is not from 1 to GLINT_MAX_PARTS.") \
    S(GLINT_BAD_ORDER, "order is not a value of enum glint_order, or is not taken here, or is set for the backward pass.") \
    S(GLINT_NO_DRIVER, "A GPU was asked for, but the system has no CUDA driver library.") \
    S(GLINT_DRIVER_TOO_OLD, "The CUDA driver lacks a function that Glint needs; update the driver.") \
    S(GLINT_NO_DEVICE, "There is no CUDA device of this ordinal, or no current CUDA context.") \
    S(GLINT_NO_KERNEL_IMAGE, "The library has no kernels for this device's architecture; add it to the spec.") \
    S(GLINT_DRIVER_ERROR, "A CUDA driver call failed; glint_context_device gives the driver's code.") \
    S(GLINT_DEVICE_OUT_OF_MEMORY, "The driver had no memory left to load the kernels.") \
    S(GLINT_DEVICE_LOST, "The device reported an error that does not go away; close the context.") \
    S(GLINT_NO_AMX, "The CPU or its system has no AMX, or the system does not permit it; other instruction sets are used.") \
    S(GLINT_SELFTEST_FAILED, "A variant gave a wrong answer; glint_selftest_result names it.")
/* clang-format on */

/* One string after another. An entry has the offsets of its two, as a pointer would have to be relocated. */
static const struct strings {
#define MEMBER(status, sentence) char name_##status[sizeof #status], sentence_##status[sizeof sentence];
    STATUSES(MEMBER)
#undef MEMBER
} strings = {
#define VALUE(status, sentence) #status, sentence,
    STATUSES(VALUE)
#undef VALUE
};

static const struct entry {
    uint16_t status, name, sentence;
} entries[] = {
#define ENTRY(status, sentence) {status, offsetof(struct strings, name_##status), offsetof(struct strings, sentence_##status)},
    STATUSES(ENTRY)
#undef ENTRY
};

static const struct entry *find(enum glint_status status)
{
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++)
        if (entries[i].status == status)
            return &entries[i];
    return NULL;
}

const char *glint_status_sentence(enum glint_status status)
{
    const struct entry *entry = find(status);
    return entry ? (const char *)&strings + entry->sentence : "This number is no Glint status.";
}

const char *glint_status_name(enum glint_status status)
{
    const struct entry *entry = find(status);
    return entry ? (const char *)&strings + entry->name : "(no Glint status)";
}
