$ local short = schedule == "short"
#include "lib/device/warpgroup_${schedule}.h"

namespace
{
struct variant {
    typedef ${dtype} element;
    typedef ${band} mask;
    typedef ${score} score;
    typedef ${bias_type} bias;
    enum {
        HEAD_DIM = ${head_dim},
        TILE_N = ${tile_n}, /* keys of a block */
        WIDTH = ${width}, /* bytes of a slab's rows: see slab_tile */
$ if not short then
        WARPGROUPS = ${warpgroups}, /* that compute */
        Q_SLOTS = ${q_slots},
        STAGES = ${stages}, /* of K, and of V */
        TURNS = ${turns and 1 or 0}, /* at the tensor cores */
        DYNAMIC = ${dynamic and 1 or 0}, /* a block takes the next tile that nobody has, and not every so many-th */
        REGISTERS = ${registers}, /* of a thread that computes */
        PRODUCER_REGISTERS = ${producer_registers}, /* and of one that loads */
$ end
    };
};
} // namespace

$ for launch, kernel in ipairs(kernels) do
$ local rows = kernel.rows == "numbered" and "ragged" or (kernel.rows == "padded" or (intervals and not short and kernel.rows == "given")) and "lengths" or kernel.rows
GLINT_KERNEL(${threads}, ${blocks_per_sm}) ${symbol}${kernel.suffix}(GLINT_PARAMS(struct glint_gpu_forward_maps) p)
{
    ${schedule}_kernel<variant>::run<${schedule}_kernel<variant>::${rows}>(p, p.base.blocks[${launch - 1}]);
}
$ end
