#include "lib/device/warpgroup_backward.h"

typedef ${dtype} element;

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
    EXPONENT = element::EXPONENT,
    BYTES = 2,
    ROW_CHUNKS = HEAD_DIM * BYTES / 16,
    WARPS = 8,            /* that compute */
    THREADS = 128 + 32 * WARPS,
};

typedef slab_tile<OWN_ROWS, HEAD_DIM, WIDTH> own_tile; /* of K, V, dK, dV */
typedef slab_tile<TILE_M, HEAD_DIM, WIDTH> query_tile; /* of Q, dO */
