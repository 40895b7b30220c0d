/* bwd_bf16_d128_none__sm90a_fused_m64n128
 *
 * Attention, backward: dQ, dK, dV from Q, K, V, O, LSE, dO; bf16, head_dim 128, no mask.
 * For sm_90a.
 * Tile: 64 queries x 128 keys; persistent, two warpgroups of 64 keys, and a warpgroup that loads and stores; dQ summed by one block after another.
 * Shared memory of a block: 230632 bytes.
 * Others read the lengths of the sequences.
 * Others take ragged sequences.
 *
 * Made from gen/templates/sm90a_bwd.cu.lua by
 *   lua5.4 gen/glint.lua emit --spec generated/golden/golden.lua --variant bwd_bf16_d128_none__sm90a_fused_m64n128
 * and overwritten by it: change the template or the spec. */

#include "lib/device/delta.h"
#include "lib/device/warpgroup_keys.h"

namespace
{
struct variant {
    typedef bf16 element;
    typedef no_mask mask;
    typedef no_bias bias;
    enum {
        HEAD_DIM = 128,
        TILE_M = 64, /* queries of a step */
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
GLINT_KERNEL(256, 1) glint_bwd_bf16_d128_none__sm90a_fused_m64n128_delta(GLINT_PARAMS(struct glint_gpu_call) p)
{
    run_delta<struct bf16, 16, no_mask, true, 64, 128, 4, given>(p);
}
GLINT_KERNEL(256, 1) glint_bwd_bf16_d128_none__sm90a_fused_m64n128_lengths_delta(GLINT_PARAMS(struct glint_gpu_call) p)
{
    if (block_index() >= p.units.first) {
        if (warp_index() == 0)
            make_units<no_mask, 128, 64, 128, 4>(p, shared_base());
        return;
    }
    run_delta<struct bf16, 16, no_mask, true, 64, 128, 4, padded>(p);
}
GLINT_KERNEL(256, 1) glint_bwd_bf16_d128_none__sm90a_fused_m64n128_ragged_delta(GLINT_PARAMS(struct glint_gpu_call) p)
{
    if (block_index() >= p.units.first) {
        if (warp_index() == 0)
            make_units<no_mask, 128, 64, 128, 4>(p, shared_base());
        return;
    }
    run_delta<struct bf16, 16, no_mask, true, 64, 128, 4, ragged>(p);
}

/* The gradient of the sinks. Rows that see no key are found by the mask. */
GLINT_KERNEL(256, 1) glint_bwd_bf16_d128_none__sm90a_fused_m64n128_sinks(GLINT_PARAMS(struct glint_gpu_call) p)
{
    make_sink_gradient<struct bf16, 16, true, given, no_mask>(p, shared_base());
}
GLINT_KERNEL(256, 1) glint_bwd_bf16_d128_none__sm90a_fused_m64n128_lengths_sinks(GLINT_PARAMS(struct glint_gpu_call) p)
{
    make_sink_gradient<struct bf16, 16, true, padded, no_mask>(p, shared_base());
}
GLINT_KERNEL(256, 1) glint_bwd_bf16_d128_none__sm90a_fused_m64n128_ragged_sinks(GLINT_PARAMS(struct glint_gpu_call) p)
{
    make_sink_gradient<struct bf16, 16, true, ragged, no_mask>(p, shared_base());
}

GLINT_KERNEL(384, 1) glint_bwd_bf16_d128_none__sm90a_fused_m64n128(GLINT_PARAMS(struct glint_gpu_backward_maps) p)
{
    key_kernel<variant>::run<key_kernel<variant>::given>(p);
}

GLINT_KERNEL(384, 1) glint_bwd_bf16_d128_none__sm90a_fused_m64n128_sequences(GLINT_PARAMS(struct glint_gpu_backward_maps) p)
{
    key_kernel<variant>::run<key_kernel<variant>::sequences>(p);
}
