#include "lib/device/warpgroup_backward.h"

enum {
    HEAD_DIM = ${head_dim},
    TILE_M = ${tile_m},   /* queries of a step */
    TILE_N = ${tile_n},   /* keys of a block */
$ if strategy == "split" then
    DQ_M = 128,           /* queries of a block of the kernel for dQ */
    DQ_N = ${dq_n},            /* keys of a step of it */
$ end
    WIDTH = ${width},     /* bytes of a slab's rows: see slab_tile */
    OWN_ROWS = 64,        /* keys, or queries, of a warpgroup */
    EXPONENT = ${dtype == "f16" and "0x7c000000" or "0x7f800000"}, /* all ones in NaN and infinity: see finite_part */
    BYTES = 2,
    ROW_CHUNKS = HEAD_DIM * BYTES / 16,
    WARPS = 8,            /* that compute */
    THREADS = 128 + 32 * WARPS,
};

typedef slab_tile<OWN_ROWS, HEAD_DIM, WIDTH> own_tile; /* of K, V, dK, dV */
typedef slab_tile<TILE_M, HEAD_DIM, WIDTH> query_tile; /* of Q, dO */

/* 64 rows of a warpgroup by ${tile_m} of others, each as long as head_dim: S^T = K Q^T, dP^T = V dO^T. Begun as a group of its own. */
GLINT_DEVICE void multiply_rows(float (&s)[TILE_M / 2], uint32_t own, uint32_t others)
{
    const uint64_t a = along_columns<own_tile>(own), b = along_columns<query_tile>(others);

    wgmma_hold(s, TILE_M / 2);
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < HEAD_DIM / 16; ++kk)
        wgmma_m64n${tile_m}k16_${dtype}<0, 0>(s, a + column_step<own_tile>(kk), b + column_step<query_tile>(kk), kk != 0);
    wgmma_commit();
}

/* d += scores of a warpgroup's rows by ${tile_m} others, times those: dV += P^T dO, dK += dS^T Q${strategy == "split" and ", dQ += dS K" or ""}. A group of its own. */
GLINT_DEVICE void multiply_scores(float (&d)[HEAD_DIM / 2], uint32_t (&scores)[TILE_M / 4], uint32_t others)
{
    const uint64_t b = along_rows<query_tile>(others);

    wgmma_hold(d, HEAD_DIM / 2);
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < TILE_M / 16; ++kk)
        wgmma_m64n${head_dim}k16_${dtype}_ra<1>(d, scores + 4 * kk, b + row_step<query_tile>(kk), 1);
    wgmma_commit();
}

/* Accumulators as operand A of the next product: no moves between threads. */
GLINT_DEVICE void to_operand(uint32_t (&a)[TILE_M / 4], const float (&s)[TILE_M / 2])
{
#pragma unroll
    for (int i = 0; i < TILE_M / 4; ++i)
        a[i] = pack_${dtype}(s[2 * i], s[2 * i + 1]);
    wgmma_hold(a, TILE_M / 4); /* left to itself the compiler packs late, and keeps twice the registers */
}

/* The thread's accumulators, rounded, to its warp's 16 rows of a tile: rows first_row + 16 warp ..., all columns from slab 0 of `at` on. */
template <class tile, int columns> GLINT_DEVICE void store_rounded(uint32_t at, uint32_t first_row, const float (&d)[columns / 2], float factor)
{
    const uint32_t thread = thread_index_anew();
    const uint32_t lane_at = at + tile_offset(first_row + thread / 32 % 4 * 16 + thread % 16, thread % 32 / 16, tile::rows, tile::chunks);

#pragma unroll
    for (int kk = 0; kk < columns / 16; ++kk) {
        uint32_t w[4];

#pragma unroll
        for (int i = 0; i < 4; ++i)
            w[i] = pack_${dtype}(d[8 * kk + 2 * i] * factor, d[8 * kk + 2 * i + 1] * factor);
        store_fragment<tile>(lane_at, kk, w);
    }
}
