/* fwd_bf16_d64_causal__sm90a_short_m64n64
 *
 * Attention, forward: O and LSE from Q, K, V; bf16, head_dim 64, causal, both alignments.
 * For sm_90a.
 * Tile: 64 queries x 64 keys; one warpgroup that loads for itself, 4 blocks a multiprocessor.
 * Shared memory of a block: 41000 bytes.
 *
 * Made from gen/templates/sm90a_fwd.cu.lua by
 *   lua5.4 gen/glint.lua emit --spec generated/golden/golden.lua --variant fwd_bf16_d64_causal__sm90a_short_m64n64
 * and overwritten by it: change the template or the spec. */

#include "lib/device/warpgroup_short.h"

namespace
{
struct variant {
    typedef bf16 element;
    typedef causal_mask mask;
    typedef plain_score score;
    typedef no_bias bias;
    enum {
        HEAD_DIM = 64,
        TILE_N = 64, /* keys of a block */
        WIDTH = 128, /* bytes of a slab's rows: see slab_tile */
    };
};
} // namespace

GLINT_KERNEL(128, 4) glint_fwd_bf16_d64_causal__sm90a_short_m64n64(GLINT_PARAMS(struct glint_gpu_forward_maps) p)
{
    short_kernel<variant>::run<short_kernel<variant>::given>(p, p.base.blocks[0]);
}
