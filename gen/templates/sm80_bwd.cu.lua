$ local f32 = dtype == "f32"
$ local bytes = f32 and 4 or 2
$ local k_step = f32 and 8 or 16
$ local rows_of = f32 and "lane_offset_rows(lane, 0," or "lane_offset_trans(lane,"
$ local padded = padded_dim
$ local groups = warps // (2 * d_split)
$ local row_tiles = tile_n // (16 * groups)
$ local fused = strategy == "fused"
$ local lead = stages == 3
/* First delta. Then one block of ${warps} warps owns ${tile_n} keys of one head and walks over the queries in blocks of ${tile_m}, last block first.
 * ${d_split == 1 and "Two" or "Four"} warps share ${16 * row_tiles} keys: ${d_split == 1 and "one makes P^T and keeps dV, the other makes dP^T and dS^T and keeps dK." or "two make P^T and keep dV, two make dP^T and dS^T and keep dK,"}
$ if d_split == 2 then
 * each for half of the queries and then for half of the columns.
$ end
$ if lead then
 * Those for dV are a step ahead of those for dK, so that no warp waits for another between the barriers of all.
$ end
 * Products are transposed (keys by queries), so that accumulators are operands of the next product.
$ if fused then
 * Key blocks add their part of dQ one after another, so that the sum is the same every time. So do blocks that share the query heads of a key head,
 * when there are several, their parts of dK and dV. */
$ else
 * Last, one block of ${dq_warps} warps owns ${dq_m} queries and walks over the keys for dQ: it makes P and dS once more, but no sum crosses blocks. */
$ end
#include "lib/device/steps.h"

enum {
    HEAD_DIM = ${head_dim},
    DIM_PADDED = ${padded}, /* up to a whole fragment, with zeros */
    TILE_M = ${tile_m},     /* queries of a step */
    TILE_N = ${tile_n},     /* keys of a block */
    WARPS = ${warps},
    THREADS = 32 * WARPS,
    STAGES = ${stages},             /* of Q and of dO */
    LEAD = ${lead and 1 or 0},      /* steps that the warps which make P^T are ahead */
    D_SPLIT = ${d_split},           /* warps that share the columns of a group's dV, and as many of its dK */
    GROUPS = WARPS / (2 * D_SPLIT), /* of warps that share keys */
    ROW_TILES = ${row_tiles},       /* fragments of 16 keys that a group owns */
    GROUP_ROWS = 16 * ROW_TILES,
    WARP_M = TILE_M / D_SPLIT, /* queries for which a warp makes P or dS */
    PART_M = ${part_m},            /* and those of them that are in registers at a time */
$ if kv_kept > 0 then
    KV_KEPT = ${kv_kept}, /* mma steps along head_dim for which a warp's fragments of K or V stay in registers */
$ end
    WARP_DIM = DIM_PADDED / D_SPLIT, /* columns of dV or dK that a warp keeps */
$ if fused then
    DQ_ROW_TILES = ${dq_row_tiles},  /* fragments of 16 queries of dQ that a warp makes */
    DQ_GROUPS = TILE_M / (16 * DQ_ROW_TILES),
    DQ_DIM = DIM_PADDED * DQ_GROUPS / WARPS, /* and their columns */
    DQ_FRAGMENTS = DQ_ROW_TILES * (DQ_DIM / 8),
    AT_ONCE = ${padded > 128 and 4 or 8}, /* loads of sums in memory: as many as registers allow */
$ end
    EXPONENT = ${dtype == "f16" and "0x7c000000" or "0x7f800000"}, /* all ones in NaN and infinity: see finite_part */
    BYTES = ${bytes},                        /* of an element */
    K_STEP = ${k_step},                      /* of one mma along the contraction */
    CHUNKS = DIM_PADDED * BYTES / 16,
    ROW_CHUNKS = HEAD_DIM * BYTES / 16,
    PAGE_CHUNKS = ${page_chunks},
    PAGES = CHUNKS / PAGE_CHUNKS,
    DS_CHUNKS = TILE_M * BYTES / 16, /* of a row of dS^T: one page */
    K_BYTES = TILE_N * DIM_PADDED * BYTES,
    Q_BYTES = TILE_M * DIM_PADDED * BYTES,
    DS_BYTES = TILE_N * TILE_M * BYTES,
    DS_STAGES = ${(fused or lead) and stages or 1}, /* of dS^T */
    P_PLACE = ${d_split == 1 and "0" or "DS_STAGES * DS_BYTES"}, /* of P^T${d_split == 1 and (fused and ": where dS^T will be" or ", and no dS^T is there") or ""} */
    PHASES = ${phases}, /* barriers through which P^T is passed on */
    ROW_BYTES = TILE_M * 4, /* of a step's LSE or delta */
    /* K, V, stages of Q and of dO, P^T and dS^T, stages of LSE and of delta, barriers${fused and ", the number" or ""} */
    SHARED_BYTES = 2 * K_BYTES + 2 * STAGES * Q_BYTES + (DS_STAGES + D_SPLIT - 1) * DS_BYTES + 2 * STAGES * ROW_BYTES + 8 * PHASES${fused and " + 16" or ""},
};

$ include("sm80_delta.cu.lua")

$ include("sm80_products.cu.lua")

$ include("sm80_bwd_keys.cu.lua")
$ if not fused then

$ include("sm80_bwd_split.cu.lua")
$ end
