$ local element = dtype == "f32" and math or dtype
$ local groups = warps // (2 * d_split)
$ local row_tiles = tile_n // (16 * groups)
$ local fused = strategy == "fused"
$ local lead = stages == 3
$ local padded = padded_dim == (head_dim + 15) // 16 * 16 and "" or ", " .. padded_dim -- more zeros, so that columns go over the warps
$ local ds_tiles = ((fused or lead) and stages or 1) + d_split - 1 -- dS^T in stages, and P^T where it has a place of its own
/* First delta. Then one block of ${warps} warps owns ${tile_n} keys of one head and walks over the queries in blocks of ${tile_m}, last block
$ if d_split == 1 then
 * first. Two warps share ${16 * row_tiles} keys: one makes P^T and keeps dV, the other makes dP^T and dS^T and keeps dK.
$ else
 * first. Four warps share ${16 * row_tiles} keys: two make P^T and keep dV, two make dP^T and dS^T and keep dK, each for half of the
 * queries and then for half of the columns.
$ end
$ if lead then
 * Those for dV are a step ahead of those for dK, so that no warp waits for another between the barriers of all.
$ end
 * Products are transposed (keys by queries), so that accumulators are operands of the next product.
$ if fused then
 * Key blocks add their part of dQ one after another, so that the sum is the same every time. So do blocks that share the query heads of
 * a key head, when there are several, their parts of dK and dV. */
$ else
 * Last, one block of ${dq_warps} warps owns ${dq_m} queries and walks over the keys for dQ: it makes P and dS once more, but no sum crosses
 * blocks. */
$ end
#include "lib/device/delta.h"
#include "lib/device/gradients.h"
#include "lib/device/mask.h"
$ if device_lengths or device_ragged then
#include "lib/device/ragged_backward.h"
$ end
#include "lib/device/score.h"

enum {
    WARPS = ${warps},
    THREADS = 32 * WARPS,
    TILE_M = ${tile_m}, /* queries of a step */
    TILE_N = ${tile_n}, /* keys of a block */
    STAGES = ${stages}, /* of Q and of dO */
$ if lead then
    LEAD = 1, /* steps that the warps which make P^T are ahead */
$ end
    GROUPS = ${groups}, /* of warps that share keys */
    ROW_TILES = ${row_tiles}, /* fragments of 16 keys that a group owns */
    GROUP_ROWS = 16 * ROW_TILES,
    WARP_M = ${tile_m // d_split}, /* queries for which a warp makes P or dS */
    PART_M = ${part_m}, /* and those of them that are in registers at a time */
    WARP_DIM = ${padded_dim // d_split}, /* columns of dV or dK that a warp keeps */
$ if fused then
    DQ_ROW_TILES = ${dq_row_tiles}, /* fragments of 16 queries of dQ that a warp makes */
    AT_ONCE = ${padded_dim > 128 and 4 or 8}, /* loads of sums in memory: as many as registers allow */
$ end
    ROW_BYTES = TILE_M * 4, /* of a step's LSE or delta */
$ if not lead then
    PHASES = ${phases}, /* barriers through which P^T is passed on */
$ end
};
typedef struct ${element} element;
typedef struct tile<element, TILE_M, ${head_dim}, ${page_chunks}${padded}> q_tile_t; /* of dO, too */
typedef struct tile<element, TILE_N, ${head_dim}, ${page_chunks}${padded}> k_tile_t; /* of V, too */
$ if d_split == 2 then
typedef struct tile<element, TILE_M, WARP_DIM, ${page_chunks}> q_part_t; /* half of the columns */
typedef struct tile<element, TILE_N, WARP_DIM, ${page_chunks}> k_part_t;
$ end
typedef struct tile<element, TILE_N, TILE_M, ${tile_m * dtype_bytes // 16}> ds_tile_t; /* one page */
static_assert(2 * k_tile_t::BYTES + 2 * STAGES * (q_tile_t::BYTES + ROW_BYTES) + ${ds_tiles} * ds_tile_t::BYTES + ${8 * phases + (fused and 16 or 0)} ==
                  ${smem_bytes}, "shared memory");

$ include("sm80_delta.cu.lua")

/* The gradient of the sinks. Rows that see no key are found by the mask. */
GLINT_KERNEL(256, 1) ${symbol}_sinks(GLINT_PARAMS(struct glint_gpu_call) p)
{
    const struct glint_gpu_shape &shape = p.shape;
    const ${bounds_first and "window_mask" or causal and "causal_mask" or "no_mask"} mask = {shape.mask_first, shape.mask_offset, shape.seqlen_q, shape.seqlen_k};

    make_sink_gradient<element, ${head_dim * dtype_bytes // 16}, ${fused and "true" or "false"}>(p, mask, shared_base());
}

$ include("sm80_bwd_keys.cu.lua")
$ if not fused then

$ include("sm80_bwd_split.cu.lua")
$ end
$ if device_lengths then

/* ---- the same over sequences of a padded batch, whose lengths are read here ---- */

GLINT_KERNEL(256, 1) ${symbol}_lengths_delta(GLINT_PARAMS(struct glint_gpu_call) p)
{
    const uint32_t kept = shared_base();

    if (thread_index() == 0)
        find_padded_tile<GLINT_GPU_ROW_PAD, false>(p.sequences, p.shape, p.shape.heads_q, 1, kept);
    block_sync();
    const struct padded_tile work = get_padded_tile(kept);
    if (work.head == 0 && work.index == 0 && thread_index() == 0)
        note_padded_fault(p.sequences, p.shape, work.batch);
    if (work.row0 < 0)
        return;
    make_delta<element, ${head_dim * dtype_bytes // 16}, false>(
        p, padded_row_block_of<${head_dim * dtype_bytes // 16}>(p.shape, work.batch, work.head, work.row0, work.own.seqlen_q),
        mask_of<${bounds_first and "window_mask" or causal and "causal_mask" or "no_mask"}>(work.own));
}

GLINT_KERNEL(256, 1) ${symbol}_lengths_sinks(GLINT_PARAMS(struct glint_gpu_call) p)
{
    make_padded_sink_gradient<element, ${head_dim * dtype_bytes // 16}, false, ${bounds_first and "window_mask" or causal and "causal_mask" or "no_mask"}>(p, shared_base());
}
$ end
$ if device_ragged then

/* ---- the same over ragged sequences ---- */

GLINT_KERNEL(256, 1) ${symbol}_ragged_delta(GLINT_PARAMS(struct glint_gpu_call) p)
{
    const uint32_t kept = shared_base();

    if (warp_index() == 0)
        find_ragged_tile<GLINT_GPU_ROW_PAD, false, true>(p.sequences, p.shape, block_index(), p.shape.heads_q, 1, kept + 48, kept);
    if (p.sequences.fault && block_index() == 0 && warp_index() == 7)
        note_ragged_fault(p.sequences, p.shape);
    block_sync();
    const struct ragged_row_block block = row_block_of<${head_dim * dtype_bytes // 16}>(p.sequences, kept);
    if (block.row0 < 0)
        return;
    make_delta<element, ${head_dim * dtype_bytes // 16}, false>(p, block, mask_of<${bounds_first and "window_mask" or causal and "causal_mask" or "no_mask"}>(get_ragged_tile(kept).own));
}

GLINT_KERNEL(256, 1) ${symbol}_ragged_sinks(GLINT_PARAMS(struct glint_gpu_call) p)
{
    make_ragged_sink_gradient<element, ${head_dim * dtype_bytes // 16}, false, ${bounds_first and "window_mask" or causal and "causal_mask" or "no_mask"}>(p, shared_base());
}
$ end
