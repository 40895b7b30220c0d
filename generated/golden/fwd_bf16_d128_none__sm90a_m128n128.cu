/* fwd_bf16_d128_none__sm90a_m128n128
 *
 * Attention, forward: O and LSE from Q, K, V; bf16, head_dim 128, no mask.
 * For sm_90a.
 * Tile: 128 queries x 128 keys; persistent, 2 warpgroups of 232 registers a thread that compute and one of 40 that loads; K and V in 2 stages.
 * Shared memory of a block: 196744 bytes.
 * A second kernel reads the lengths of the sequences.
 * Another one takes ragged sequences.
 *
 * Made from gen/templates/sm90a_fwd.cu.lua by
 *   lua5.4 gen/glint.lua emit --spec generated/golden/golden.lua --variant fwd_bf16_d128_none__sm90a_m128n128
 * and overwritten by it: change the template or the spec. */

#include "lib/device/warpgroup_persistent.h"

namespace
{
struct variant {
    typedef bf16 element;
    typedef no_mask mask;
    typedef plain_score score;
    typedef no_bias bias;
    enum {
        HEAD_DIM = 128,
        TILE_N = 128, /* keys of a block */
        WIDTH = 128, /* bytes of a slab's rows: see slab_tile */
        WARPGROUPS = 2, /* that compute */
        Q_SLOTS = 2,
        STAGES = 2, /* of K, and of V */
        TURNS = 0, /* at the tensor cores */
        DYNAMIC = 0, /* a block takes the next tile that nobody has, and not every so many-th */
        REGISTERS = 232, /* of a thread that computes */
        PRODUCER_REGISTERS = 40, /* and of one that loads */
    };
};
} // namespace

GLINT_KERNEL(384, 1) glint_fwd_bf16_d128_none__sm90a_m128n128(GLINT_PARAMS(struct glint_gpu_forward_maps) p)
{
    persistent_kernel<variant>::run<persistent_kernel<variant>::given>(p, p.base.blocks[0]);
}
GLINT_KERNEL(384, 1) glint_fwd_bf16_d128_none__sm90a_m128n128_lengths(GLINT_PARAMS(struct glint_gpu_forward_maps) p)
{
    persistent_kernel<variant>::run<persistent_kernel<variant>::lengths>(p, p.base.blocks[1]);
}
GLINT_KERNEL(384, 1) glint_fwd_bf16_d128_none__sm90a_m128n128_ragged(GLINT_PARAMS(struct glint_gpu_forward_maps) p)
{
    persistent_kernel<variant>::run<persistent_kernel<variant>::ragged>(p, p.base.blocks[2]);
}
