/* fwd_bf16_d64_causal__sm90a_m192n128
 *
 * Attention, forward: O and LSE from Q, K, V; bf16, head_dim 64, causal, both alignments.
 * For sm_90a.
 * Tile: 192 queries x 128 keys; persistent, 3 warpgroups of 160 registers a thread that compute and one of 32 that loads; K and V in 2 stages.
 * Shared memory of a block: 90264 bytes.
 *
 * Made from gen/templates/sm90a_fwd.cu.lua by
 *   lua5.4 gen/glint.lua emit --spec generated/golden/golden.lua --variant fwd_bf16_d64_causal__sm90a_m192n128
 * and overwritten by it: change the template or the spec. */

#include "lib/device/warpgroup_persistent.h"

namespace
{
struct variant {
    typedef bf16 element;
    typedef causal_mask mask;
    typedef plain_score score;
    typedef no_bias bias;
    enum {
        HEAD_DIM = 64,
        TILE_N = 128, /* keys of a block */
        WIDTH = 128, /* bytes of a slab's rows: see slab_tile */
        WARPGROUPS = 3, /* that compute */
        Q_SLOTS = 1,
        STAGES = 2, /* of K, and of V */
        TURNS = 1, /* at the tensor cores */
        DYNAMIC = 1, /* a block takes the next tile that nobody has, and not every so many-th */
        REGISTERS = 160, /* of a thread that computes */
        PRODUCER_REGISTERS = 32, /* and of one that loads */
    };
};
} // namespace

GLINT_KERNEL(512, 1) glint_fwd_bf16_d64_causal__sm90a_m192n128(GLINT_PARAMS(struct glint_gpu_forward_maps) p)
{
    persistent_kernel<variant>::run<persistent_kernel<variant>::given>(p, p.base.blocks[0]);
}
