$ local element = dtype == "f32" and math or dtype
$ local groups = warps // (2 * d_split)
$ local row_tiles = tile_n // (16 * groups)
$ local fused = strategy == "fused"
$ local lead = stages == 3
$ local ranges_bytes = intervals and " + STAGES * TILE_M * RANGE_BYTES" or ""
$ local padded = padded_dim == (head_dim + 15) // 16 * 16 and "" or ", " .. padded_dim -- more zeros, so that columns go over the warps
$ local ds_tiles = ((fused or lead) and stages or 1) + d_split - 1 -- dS^T in stages, and P^T where it has a place of its own
/* The first kernel makes delta. In the second a block of ${warps} warps owns ${tile_n} keys of one head,
 * and walks over the queries in blocks of ${tile_m}, last block first.
$ if d_split == 1 then
 * Two warps share ${16 * row_tiles} keys: one makes P^T and keeps dV, the other makes dP^T and dS^T and keeps dK.
$ else
 * Four warps share ${16 * row_tiles} keys: two make P^T and keep dV, two make dP^T and dS^T and keep dK,
 * each for half of the queries and then for half of the columns.
$ end
$ if lead then
 * The products for dV are a step ahead of the products for dK, so that no warp waits for another between the barriers
 * of all.
$ end
 * Products are transposed (keys by queries), so that accumulators are operands of the next product.
$ if fused then
 * Key blocks add their part of dQ one after another, so that the sum is the same every time. Blocks that share the
 * query heads of a key head add their parts of dK and dV in the same way. */
$ else
 * In the last kernel a block of ${dq_warps} warps owns ${dq_m} queries and walks over the keys for dQ:
 * it makes P and dS once more, but no sum crosses blocks. */
$ end
#include "lib/device/bias.h"
$ if bias_tensor then
#include "lib/device/bias_gradient.h"
$ end
#include "lib/device/delta.h"
#include "lib/device/gradients.h"
#include "lib/device/mask.h"
#include "lib/device/score.h"
#include "lib/device/sequences.h"

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
typedef ${band} mask_t;
typedef struct ${score} score_t;
typedef ${bias_type} bias_t;
typedef struct tile<element, TILE_M, ${head_dim}, ${page_chunks}${padded}> q_tile_t; /* of dO, too */
typedef struct tile<element, TILE_N, ${head_dim}, ${page_chunks}${padded}> k_tile_t; /* of V, too */
$ if d_split == 2 then
typedef struct tile<element, TILE_M, WARP_DIM, ${page_chunks}> q_part_t; /* half of the columns */
typedef struct tile<element, TILE_N, WARP_DIM, ${page_chunks}> k_part_t;
$ end
typedef struct tile<element, TILE_N, TILE_M, ${tile_m * dtype_bytes // 16}> ds_tile_t; /* one page */
static_assert(2 * k_tile_t::BYTES + 2 * STAGES * (q_tile_t::BYTES + ROW_BYTES)${ranges_bytes} + ${ds_tiles} * ds_tile_t::BYTES + ${8 * phases + (fused and 16 or 0)} ==
                  ${smem_bytes}, "shared memory");

$ include("gpu_delta.cu.lua")

$ include("sm80_bwd_keys.cu.lua")
$ if not fused then

$ include("sm80_bwd_split.cu.lua")
$ end
$ if bias_tensor then

$ include("sm80_bwd_dbias.cu.lua")
$ end
