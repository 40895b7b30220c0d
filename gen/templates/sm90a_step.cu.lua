#include "lib/device/warpgroup_step_kernel.h"

namespace
{
struct variant {
    typedef ${dtype} element;
    typedef ${band} mask;
    typedef ${score} score;
    typedef ${bias_type} bias;
    typedef decode::${kv_dtype} stored; /* elements of K and V */
    enum {
        HEAD_DIM = ${head_dim},
        TILE_N = ${tile_n}, /* keys of a tile */
        FIRST_SPAN = ${span // tile_n}, /* tiles of the first spans */
$ if narrow then
        STAGES = ${stages}, /* of K and V, widened */
        PIECES = ${pieces}, /* of 32 keys of K or V */
$ else
        STAGES = ${stages}, /* of K, and of V */
$ end
        WIDTH = ${width}, /* bytes of a slab's rows: see slab_tile */
$ if not narrow then
        REGISTERS = ${registers}, /* of a thread that computes */
$ end
        FOLDED_IN_SHARED = ${folded_in_shared}, /* O of the spans before */
    };
};
} // namespace

$ if bias_tensor then
static_assert(step_kernel<variant>::END == ${smem_bytes}, "shared memory");

$ end
GLINT_KERNEL(PLAN_THREADS, 1) ${symbol}_plan(GLINT_PARAMS(struct glint_gpu_step) p)
{
    step_kernel<variant>::plan(p);
}

GLINT_KERNEL(${threads}, 1) ${symbol}(GLINT_PARAMS(struct ${call_type}) p)
{
    step_kernel<variant>::run(${call_of});
}

GLINT_KERNEL(128, 4) ${symbol}_merge(GLINT_PARAMS(struct glint_gpu_step) p)
{
    step_kernel<variant>::merge(p);
}
