#include "lib/device/step_rows.h"

namespace
{
struct variant {
    typedef struct ${dtype} element;
    typedef decode::${kv_dtype} stored; /* elements of K and V */
    typedef ${band} mask;
    typedef struct ${score} score;
    typedef ${bias_type} bias;
    static constexpr bool LOGIT = ${tostring(max_logit)}; /* writes the largest logits, if asked */
    enum {
        HEAD_DIM = ${head_dim},
        TILE_N = ${tile_n}, /* keys of a tile */
        WARPS = ${warps}, /* of 16 rows each */
        FIRST_SPAN = ${span // tile_n}, /* tiles of the first spans */
        PAGE_CHUNKS = ${page_chunks}, /* of tiles in shared memory */
        Q_KEPT = ${q_kept}, /* steps along head_dim whose fragments of Q stay in registers */
    };
};
} // namespace

typedef struct step_rows<variant> step;
static_assert(step::END == ${smem_bytes}, "shared memory");

GLINT_KERNEL(PLAN_THREADS, 1) ${symbol}_plan(GLINT_PARAMS(struct glint_gpu_step) p)
{
    step::plan(p);
}

GLINT_KERNEL(step::THREADS, ${blocks_per_sm}) ${symbol}(GLINT_PARAMS(struct ${call_type}) p)
{
    step::run(${call_of});
}

GLINT_KERNEL(128, 4) ${symbol}_merge(GLINT_PARAMS(struct glint_gpu_step) p)
{
    step::merge(p);
}
