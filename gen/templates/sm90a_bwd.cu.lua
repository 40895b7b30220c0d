$ local blocks = intervals and { "with_intervals<false>", "with_intervals<true>" } or { "given", "sequences" }
$ local fused = strategy == "fused"
#include "lib/device/delta.h"
#include "lib/device/warpgroup_${by_role and "roles" or "keys"}.h"
$ if not fused then
#include "lib/device/warpgroup_queries.h"
$ end

namespace
{
struct variant {
    typedef ${dtype} element;
    typedef ${band} mask;
    typedef ${bias_type} bias;
    enum {
        HEAD_DIM = ${head_dim},
        TILE_M = ${tile_m}, /* queries of a step */
        TILE_N = ${tile_n}, /* keys of a block */
        DQ_N = ${dq_n}, /* of a split variant: keys of a step of the kernel for dQ */
        FUSED = ${fused and 1 or 0},
        WIDTH = ${width}, /* bytes of a slab's rows: see slab_tile */
        REGISTERS = ${registers}, /* of a thread that computes */
        PRODUCER_REGISTERS = ${producer_registers}, /* and of one that loads or stores */
    };
};
} // namespace

$ include("gpu_delta.cu.lua")

$ if by_role then
$ for i, kernel in ipairs(kernels) do
${i > 1 and "\n" or ""}GLINT_KERNEL(384, 1) ${symbol}${kernel.suffix}(GLINT_PARAMS(struct glint_gpu_backward_maps) p)
{
    role_kernel<variant>::run<${kernel.rows}>(p);
}
$ end
$ else
GLINT_KERNEL(384, 1) ${symbol}(GLINT_PARAMS(struct glint_gpu_backward_maps) p)
{
    key_kernel<variant>::run<key_kernel<variant>::${blocks[1]}>(p);
}
$ end
$ if fused and #kernels > 1 then

GLINT_KERNEL(384, 1) ${symbol}_sequences(GLINT_PARAMS(struct glint_gpu_backward_maps) p)
{
    key_kernel<variant>::run<key_kernel<variant>::${blocks[2]}>(p);
}
$ end
$ for _, kernel in ipairs(fused and {} or kernels) do

GLINT_KERNEL(384, 1) ${symbol}${kernel.suffix}_dq(GLINT_PARAMS(struct glint_gpu_backward_maps) p)
{
    query_kernel<variant>::run<${kernel.rows}>(p);
}
$ end
