/* bwd_bf16_d64_causal__sm90a_fused_m128n128
 *
 * Attention, backward: dQ, dK, dV from Q, K, V, O, LSE, dO; bf16, head_dim 64, causal, both alignments.
 * For sm_90a.
 * Tile: 128 queries x 128 keys; persistent, two warpgroups of 64 keys, and a warpgroup that loads and stores; dQ summed by one block after another.
 * Shared memory of a block: 231656 bytes.
 *
 * Made from gen/templates/sm90a_bwd.cu.lua by
 *   lua5.4 gen/glint.lua emit --spec generated/golden/golden.lua --variant bwd_bf16_d64_causal__sm90a_fused_m128n128
 * and overwritten by it: change the template or the spec. */

#include "lib/device/delta.h"
#include "lib/device/warpgroup_keys.h"

namespace
{
struct variant {
    typedef bf16 element;
    typedef causal_mask mask;
    typedef no_bias bias;
    enum {
        HEAD_DIM = 64,
        TILE_M = 128, /* queries of a step */
        TILE_N = 128, /* keys of a block */
        DQ_N = 64, /* of a split variant: keys of a step of the kernel for dQ */
        FUSED = 1,
        WIDTH = 128, /* bytes of a slab's rows: see slab_tile */
        REGISTERS = 232, /* of a thread that computes */
        PRODUCER_REGISTERS = 40, /* and of one that loads or stores */
    };
};
} // namespace

/* Delta and LSE. */
GLINT_KERNEL(256, 1) glint_bwd_bf16_d64_causal__sm90a_fused_m128n128_delta(GLINT_PARAMS(struct glint_gpu_call) p)
{
    run_delta<struct bf16, 8, causal_mask, true, 128, 128, 2, given>(p);
}

/* The gradient of the sinks. Rows that see no key are found by the mask. */
GLINT_KERNEL(256, 1) glint_bwd_bf16_d64_causal__sm90a_fused_m128n128_sinks(GLINT_PARAMS(struct glint_gpu_call) p)
{
    make_sink_gradient<struct bf16, 8, true, given, causal_mask>(p, shared_base());
}

GLINT_KERNEL(384, 1) glint_bwd_bf16_d64_causal__sm90a_fused_m128n128(GLINT_PARAMS(struct glint_gpu_backward_maps) p)
{
    key_kernel<variant>::run<key_kernel<variant>::given>(p);
}
