/* Where every member of the kernels' parameters lies, for a compiler to compare: layout.c asks the C compiler, layout.cu asks
 * nvcc, for the host and for the device. A struct of lib/device/params.h, decode.h or
 * hopper_params.h that they would lay out differently does not compile. */
#ifndef GLINT_TESTS_CUDA_LAYOUT_H
#define GLINT_TESTS_CUDA_LAYOUT_H

#include <stddef.h>

#include "lib/device/decode.h"
#include "lib/device/hopper_params.h"

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
    S(glint_forward_params, 200)                                                                                        \
    M(glint_forward_params, q, 0) M(glint_forward_params, k, 32) M(glint_forward_params, v, 64)                         \
    M(glint_forward_params, o, 96) M(glint_forward_params, lse, 128) M(glint_forward_params, shape, 136)                \
    M(glint_forward_params, sinks, 184) M(glint_forward_params, score_ratio, 192)                                       \
    M(glint_forward_params, score_limit, 196)                                                                           \
    S(glint_lengths_params, 240)                                                                                        \
    M(glint_lengths_params, base, 0) M(glint_lengths_params, seqlens_q, 200) M(glint_lengths_params, seqlens_k, 208)    \
    M(glint_lengths_params, fault, 216) M(glint_lengths_params, bottom_right, 224)                                      \
    M(glint_lengths_params, window_left, 228) M(glint_lengths_params, window_right, 232)                                \
    S(glint_pages_params, 264)                                                                                          \
    M(glint_pages_params, base, 0) M(glint_pages_params, page_table, 240) M(glint_pages_params, pages, 248)             \
    M(glint_pages_params, pages_per_sequence, 252) M(glint_pages_params, page_shift, 256)                               \
    S(glint_ragged, 64)                                                                                                 \
    M(glint_ragged, first_q, 0) M(glint_ragged, first_k, 8) M(glint_ragged, seqlens_q, 16)                              \
    M(glint_ragged, seqlens_k, 24) M(glint_ragged, fault, 32) M(glint_ragged, rows_q, 40) M(glint_ragged, rows_k, 44)   \
    M(glint_ragged, bottom_right, 48) M(glint_ragged, window_left, 52) M(glint_ragged, window_right, 56)                \
    S(glint_ragged_params, 264)                                                                                         \
    M(glint_ragged_params, base, 0) M(glint_ragged_params, ragged, 200)                                                 \
    S(glint_ragged_pages_params, 288)                                                                                   \
    M(glint_ragged_pages_params, base, 0) M(glint_ragged_pages_params, page_table, 264)                                 \
    M(glint_ragged_pages_params, pages, 272) M(glint_ragged_pages_params, pages_per_sequence, 276)                      \
    M(glint_ragged_pages_params, page_shift, 280)                                                                       \
    M(glint_ragged_backward_params, base, 0) M(glint_ragged_backward_params, ragged, 400)                               \
    S(glint_backward_params, 376)                                                                                       \
    M(glint_backward_params, q, 0) M(glint_backward_params, k, 32) M(glint_backward_params, v, 64)                      \
    M(glint_backward_params, o, 96) M(glint_backward_params, dout, 128) M(glint_backward_params, dq, 160)               \
    M(glint_backward_params, dk, 192) M(glint_backward_params, dv, 224) M(glint_backward_params, lse, 256)              \
    M(glint_backward_params, shape, 264) M(glint_backward_params, padded_q, 312)                                        \
    M(glint_backward_params, lse_log2, 320) M(glint_backward_params, delta, 328) M(glint_backward_params, dq_sum, 336)  \
    M(glint_backward_params, turn, 344) M(glint_backward_params, parts, 352) M(glint_backward_params, part_heads, 356)  \
    M(glint_backward_params, key_sum, 360) M(glint_backward_params, key_turn, 368)                                      \
    S(glint_sinks_params, 392)                                                                                          \
    M(glint_sinks_params, base, 0) M(glint_sinks_params, sinks, 376) M(glint_sinks_params, dsinks, 384)                 \
    S(glint_capped_params, 400)                                                                                         \
    M(glint_capped_params, base, 0) M(glint_capped_params, score_ratio, 392) M(glint_capped_params, score_limit, 396)   \
    S(glint_decode_params, 368)                                                                                         \
    M(glint_decode_params, q, 0) M(glint_decode_params, k, 32) M(glint_decode_params, v, 64)                            \
    M(glint_decode_params, o, 96) M(glint_decode_params, lse, 128) M(glint_decode_params, seqlens_q, 136)               \
    M(glint_decode_params, seqlens_k, 144) M(glint_decode_params, fault, 152) M(glint_decode_params, sinks, 160)        \
    M(glint_decode_params, shape, 168) M(glint_decode_params, bottom_right, 212)                                        \
    M(glint_decode_params, window_left, 216) M(glint_decode_params, window_right, 220)                                  \
    M(glint_decode_params, score_ratio, 224) M(glint_decode_params, score_limit, 228)                                   \
    M(glint_decode_params, rows, 232) M(glint_decode_params, row_tiles, 236) M(glint_decode_params, range, 240)         \
    M(glint_decode_params, parts, 244) M(glint_decode_params, level, 248) M(glint_decode_params, entries, 252)          \
    M(glint_decode_params, items, 256) M(glint_decode_params, blocks, 260) M(glint_decode_params, partial_o, 264)       \
    M(glint_decode_params, partial_rows, 272)                                                                           \
    M(glint_decode_params, page_table, 280) M(glint_decode_params, pages, 288)                                          \
    M(glint_decode_params, pages_per_sequence, 292) M(glint_decode_params, page_shift, 296)                             \
    M(glint_decode_params, rows_q, 300) M(glint_decode_params, rows_k, 304) M(glint_decode_params, first_q, 312)        \
    M(glint_decode_params, first_k, 320) M(glint_decode_params, scales, 328)                                            \
    S(glint_decode_scales, 40)                                                                                          \
    S(tensor_map, 128)                                                                                                  \
    S(glint_forward_maps_params, 768)                                                                                   \
    M(glint_forward_maps_params, base, 0) M(glint_forward_maps_params, words, 200) \
    M(glint_forward_maps_params, blocks, 208) M(glint_forward_maps_params, map, 256) \
    S(glint_lengths_maps_params, 832)                                                                                   \
    M(glint_lengths_maps_params, base, 0) M(glint_lengths_maps_params, words, 240)                                      \
    M(glint_lengths_maps_params, blocks, 248) M(glint_lengths_maps_params, map, 320)                                    \
    S(glint_ragged_maps_params, 832)                                                                                    \
    M(glint_ragged_maps_params, base, 0) M(glint_ragged_maps_params, bound_q, 264)                                      \
    M(glint_ragged_maps_params, bound_k, 268) M(glint_ragged_maps_params, section_keys, 272)                            \
    M(glint_ragged_maps_params, words, 280) M(glint_ragged_maps_params, blocks, 288)                                    \
    M(glint_ragged_maps_params, map, 320)                                                                               \
    S(glint_backward_maps_params, 1984)                                                                                 \
    M(glint_backward_maps_params, base, 0) M(glint_backward_maps_params, words, 376) \
    M(glint_backward_maps_params, blocks, 384) M(glint_backward_maps_params, map, 448)
/* clang-format on */

#endif
