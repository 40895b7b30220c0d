/* Where every member of the kernels' parameters lies, for a compiler to compare: layout.c asks the C compiler,
 * layout.cu asks nvcc, for the host and for the device. A struct of lib/device/call.h, decode.h or hopper_call.h that
 * they would lay out differently does not compile. */
#ifndef GLINT_TESTS_CUDA_LAYOUT_H
#define GLINT_TESTS_CUDA_LAYOUT_H

#include <stddef.h>

#include "lib/device/decode.h"
#include "lib/device/hopper_call.h"

/* S(struct, bytes) and M(struct, member, offset) */
/* clang-format off */
#define PARAMETER_LAYOUT(S, M)                                                                                          \
    S(glint_gpu_view, 32)                                                                                               \
    M(glint_gpu_view, address, 0) M(glint_gpu_view, batch, 8) M(glint_gpu_view, head, 16) M(glint_gpu_view, row, 24)    \
    S(glint_gpu_shape, 44)                                                                                              \
    M(glint_gpu_shape, batch, 0) M(glint_gpu_shape, heads_q, 4) M(glint_gpu_shape, heads_kv, 8)                         \
    M(glint_gpu_shape, group, 12) M(glint_gpu_shape, seqlen_q, 16) M(glint_gpu_shape, seqlen_k, 20)                     \
    M(glint_gpu_shape, mask_offset, 24) M(glint_gpu_shape, section, 28) M(glint_gpu_shape, softmax_scale, 32)           \
    M(glint_gpu_shape, scale_log2, 36) M(glint_gpu_shape, mask_first, 40)                                               \
    S(glint_gpu_sequences, 72)                                                                                          \
    M(glint_gpu_sequences, first_q, 0) M(glint_gpu_sequences, first_k, 8) M(glint_gpu_sequences, seqlens_q, 16)         \
    M(glint_gpu_sequences, seqlens_k, 24) M(glint_gpu_sequences, fault, 32) M(glint_gpu_sequences, rows_q, 40)          \
    M(glint_gpu_sequences, rows_k, 44) M(glint_gpu_sequences, bottom_right, 48)                                         \
    M(glint_gpu_sequences, left, 52) M(glint_gpu_sequences, right, 56)                                                  \
    M(glint_gpu_sequences, bound_q, 60) M(glint_gpu_sequences, bound_k, 64) M(glint_gpu_sequences, section_keys, 68)    \
    S(glint_gpu_pages, 24)                                                                                              \
    M(glint_gpu_pages, table, 0) M(glint_gpu_pages, count, 8) M(glint_gpu_pages, per_sequence, 12)                      \
    M(glint_gpu_pages, shift, 16)                                                                                       \
    S(glint_gpu_bias, 16)                                                                                               \
    M(glint_gpu_bias, slopes, 0) M(glint_gpu_bias, from_end, 8) M(glint_gpu_bias, diagonal, 12)                         \
    S(glint_gpu_call, 576)                                                                                              \
    M(glint_gpu_call, q, 0) M(glint_gpu_call, k, 32) M(glint_gpu_call, v, 64) M(glint_gpu_call, o, 96)                  \
    M(glint_gpu_call, lse, 128) M(glint_gpu_call, shape, 136) M(glint_gpu_call, sinks, 184)                             \
    M(glint_gpu_call, score_ratio, 192) M(glint_gpu_call, score_limit, 196) M(glint_gpu_call, sequences, 200)           \
    M(glint_gpu_call, pages, 272) M(glint_gpu_call, words, 296) M(glint_gpu_call, blocks, 304)                          \
    M(glint_gpu_call, dout, 320) M(glint_gpu_call, dq, 352) M(glint_gpu_call, dk, 384) M(glint_gpu_call, dv, 416)       \
    M(glint_gpu_call, padded_q, 448) M(glint_gpu_call, lse_log2, 456) M(glint_gpu_call, delta, 464)                     \
    M(glint_gpu_call, dq_sum, 472) M(glint_gpu_call, turn, 480) M(glint_gpu_call, parts, 488)                           \
    M(glint_gpu_call, part_heads, 492) M(glint_gpu_call, key_sum, 496) M(glint_gpu_call, key_turn, 504)                 \
    M(glint_gpu_call, dsinks, 512) M(glint_gpu_call, dlse, 520) M(glint_gpu_call, key_begin, 528)                       \
    M(glint_gpu_call, key_end, 536) M(glint_gpu_call, row_keys, 544) M(glint_gpu_call, block_keys, 552)                 \
    M(glint_gpu_call, bias, 560)                                                                                        \
    S(glint_gpu_bias_tensor, 72)                                                                                        \
    M(glint_gpu_bias_tensor, address, 0) M(glint_gpu_bias_tensor, gradient, 8) M(glint_gpu_bias_tensor, batch, 16)      \
    M(glint_gpu_bias_tensor, head, 24) M(glint_gpu_bias_tensor, query, 32) M(glint_gpu_bias_tensor, key, 40)            \
    M(glint_gpu_bias_tensor, narrow, 48) M(glint_gpu_bias_tensor, tiles, 52) M(glint_gpu_bias_tensor, parts, 56)        \
    M(glint_gpu_bias_tensor, sums, 64)                                                                                  \
    S(glint_gpu_biased_call, 648)                                                                                       \
    M(glint_gpu_biased_call, tensor, 576)                                                                               \
    S(glint_decode_params, 504)                                                                                         \
    M(glint_decode_params, q, 0) M(glint_decode_params, k, 32) M(glint_decode_params, v, 64)                            \
    M(glint_decode_params, o, 96) M(glint_decode_params, lse, 128) M(glint_decode_params, sinks, 136)                   \
    M(glint_decode_params, shape, 144) M(glint_decode_params, score_ratio, 188)                                         \
    M(glint_decode_params, score_limit, 192) M(glint_decode_params, sequences, 200)                                     \
    M(glint_decode_params, pages, 272) M(glint_decode_params, rows, 296) M(glint_decode_params, row_tiles, 300)         \
    M(glint_decode_params, range, 304) M(glint_decode_params, parts, 308) M(glint_decode_params, level, 312)            \
    M(glint_decode_params, entries, 316) M(glint_decode_params, items, 320) M(glint_decode_params, blocks, 324)         \
    M(glint_decode_params, partial_o, 328) M(glint_decode_params, partial_rows, 336)                                    \
    M(glint_decode_params, scales, 344) M(glint_decode_params, bias, 384) M(glint_decode_params, tensor, 400)           \
    M(glint_decode_params, key_begin, 472) M(glint_decode_params, key_end, 480) M(glint_decode_params, tree_bits, 488)  \
    M(glint_decode_params, max_logit, 496)                                                                              \
    S(glint_decode_scales, 40)                                                                                          \
    S(tensor_map, 128)                                                                                                  \
    S(glint_gpu_forward_maps, 1088)                                                                                     \
    M(glint_gpu_forward_maps, base, 0) M(glint_gpu_forward_maps, map, 576)                                              \
    S(glint_gpu_biased_maps, 1088)                                                                                      \
    M(glint_gpu_biased_maps, base, 0) M(glint_gpu_biased_maps, map, 576) M(glint_gpu_biased_maps, tensor, 960)          \
    S(glint_gpu_backward_maps, 2112)                                                                                    \
    M(glint_gpu_backward_maps, base, 0) M(glint_gpu_backward_maps, map, 576)
/* clang-format on */

#endif
