/* A lane's scratch, as data: the regions of each kind of kernel, in their order. A line is a region's name, what it
 * has, how many of it and the extents that are multiplied with that; the planner multiplies and adds (geometry.c), and
 * a kernel finds its regions by their names in glint_cpu_geometry.region. Internal: not installed.
 *
 *   R(name, F32 or BF16, a number, extents: at most three)     GLINT_<name> is the region's index */
#ifndef GLINT_CPU_SCRATCH_H
#define GLINT_CPU_SCRATCH_H

/* Every matrix in scratch has rows of a multiple of 16 floats (64 bytes, a cache line), and one line more than it
 * needs: rows that are a power of two apart would all fall into a few sets of the first-level cache. */
#define GLINT_CPU_LINE(floats) (((floats) + 15) / 16 * 16)
#define GLINT_CPU_PITCH(floats) (((floats) + 15) / 16 * 16 + 16)

/* AMX and AVX-512 BF16: head_dim in whole steps of 32. */
#define GLINT_AMX_DIM(head_dim) (((head_dim) + 31) / 32 * 32)
#define GLINT_AMX_BLOCK 64 /* forward: keys whose scores are made together */

/* Decode: floats from row to row, head_dim in whole vectors, 16 floats at most each. */
#define GLINT_DEC_PITCH(head_dim) GLINT_CPU_PITCH(head_dim)

/* What the extents are, for lay_out_scratch of geometry.c: numbers of a `row`, of a `problem`, and of the `cut` of it
 * that a lane works on. E(name, value) */
/* clang-format off */
#define GLINT_CPU_EXTENTS(E) \
    E(ONE, 1) /* and so is an extent that is not given */ \
    E(TILE_M, row->tile_m) \
    E(TILE_N, row->tile_n) \
    E(HEAD_DIM, row->head_dim) \
    E(DIM, GLINT_AMX_DIM((uint64_t)row->head_dim)) \
    E(PITCH_M, GLINT_CPU_PITCH((uint64_t)row->tile_m)) \
    E(PITCH_D, GLINT_CPU_PITCH((uint64_t)row->head_dim)) \
    E(EDGE, (uint64_t)row->tile_n + 16) /* a vector reads beyond the last key */ \
    E(PANEL, row->tile_n + bias_rows(row) + tree_rows(row)) /* scores, then bias and tree, if there are any */ \
    E(SCALES, row->kv_dtype != 0 ? (uint64_t)row->tile_n + 16 : 0) /* of K and V of 8 bits */ \
    E(PAGED, problem->page_rows > 0 ? row->tile_n : 0) /* keys that are brought together from pages */ \
    E(BLOCKS, cut->query_blocks) /* of a task */ \
    E(DQ_BLOCKS, cut->dq_copies * cut->query_blocks) /* 1 or 2 of each: the second one sums key groups */ \
    E(KEYS, cut->key_blocks * row->tile_n) /* of a task's blocks */ \
    E(LOGITS, problem->max_logit != 0 ? (uint64_t)problem->heads_q : 0)

/* Vectors of float32. Lanes are queries: matrices are transposed, but for K, V and what has PITCH_D. */
#define GLINT_CPU_FORWARD_SCRATCH(R) \
    R(FWD_Q_T, F32, 1, BLOCKS, HEAD_DIM, PITCH_M)   /* softmax_scale * Q, transposed */ \
    R(FWD_O_T, F32, 1, BLOCKS, HEAD_DIM, PITCH_M)   /* unnormalised output, transposed */ \
    R(FWD_STATS, F32, 2, BLOCKS, PITCH_M)           /* [BLOCKS][2][PITCH_M] largest score, sum of exp(score - it) */ \
    R(FWD_S_T, F32, 1, PANEL, PITCH_M)              /* scores, then probabilities; then bias and tree */ \
    R(FWD_K, F32, 1, TILE_N, PITCH_D)               /* keys in f32 */ \
    R(FWD_V, F32, 1, TILE_N, PITCH_D)               /* values in f32 */ \
    R(FWD_ROW, F32, 8, PITCH_D)                     /* rows on their way between dtype and f32 */ \
    R(FWD_SCALE, F32, 1, PITCH_M)                   /* exp(old max - new max) */ \
    R(FWD_KEYS, F32, 2, SCALES)                     /* scales of the tile's keys, K's and V's */

#define GLINT_CPU_BACKWARD_SCRATCH(R) \
    R(BWD_Q_T, F32, 1, BLOCKS, HEAD_DIM, PITCH_M)   /* softmax_scale * Q, transposed */ \
    R(BWD_DO_T, F32, 1, BLOCKS, HEAD_DIM, PITCH_M)  /* dO, transposed */ \
    R(BWD_DQ_T, F32, 1, DQ_BLOCKS, HEAD_DIM, PITCH_M) /* dQ / softmax_scale, transposed */ \
    R(BWD_Q, F32, 1, BLOCKS, TILE_M, PITCH_D) \
    R(BWD_DO, F32, 1, BLOCKS, TILE_M, PITCH_D) \
    R(BWD_STATS, F32, 2, BLOCKS, PITCH_M)           /* [BLOCKS][2][PITCH_M] LSE, delta */ \
    R(BWD_DK, F32, 1, KEYS, PITCH_D)                /* dK / softmax_scale */ \
    R(BWD_DV, F32, 1, KEYS, PITCH_D) \
    R(BWD_K, F32, 1, TILE_N, PITCH_D) \
    R(BWD_V, F32, 1, TILE_N, PITCH_D) \
    R(BWD_P_T, F32, 1, TILE_N, PITCH_M)             /* scores, then probabilities */ \
    R(BWD_DS_T, F32, 1, PANEL, PITCH_M)             /* dP, then dS; then the bias */ \
    R(BWD_ROW, F32, 8, PITCH_D)                     /* rows on their way between dtype and f32 */ \
    R(BWD_O_T, F32, 16, HEAD_DIM)                   /* [HEAD_DIM][16] O of a vector of queries, transposed */

/* Rows are queries of the heads that share a key head. */
#define GLINT_CPU_DECODE_SCRATCH(R) \
    R(DEC_Q, F32, 1, TILE_M, PITCH_D)               /* softmax_scale * Q */ \
    R(DEC_O, F32, 1, TILE_M, PITCH_D)               /* unnormalised output */ \
    R(DEC_S, F32, 1, TILE_M, EDGE)                  /* [TILE_M / 4][EDGE][4] scores, then probabilities */ \
    R(DEC_STATS, F32, 4, TILE_M)                    /* as of FWD_STATS, of a chunk, then of all chunks so far */ \
    R(DEC_ALL_O, F32, 1, TILE_M, PITCH_D)           /* unnormalised output of all chunks so far */ \
    R(DEC_ROW, F32, 1, PITCH_D)                     /* a row on its way between dtype and f32 */ \
    R(DEC_SCALE, F32, 1, SCALES)                    /* scales of the chunk's keys, K's, then V's */

/* AMX and AVX-512 BF16. Matrices of bf16 are packed into tiles of 1 KiB, each in the way that lib/cpu/tiles.h names.
 * Matrices of float32 are, too: [16][16]. A panel is 32 queries. */
#define GLINT_CPU_AMX_FORWARD_SCRATCH(R) \
    R(AMX_FWD_Q, BF16, 1, BLOCKS, TILE_M, DIM)      /* [panels][32][DIM], across */ \
    R(AMX_FWD_O, F32, 1, BLOCKS, TILE_M, DIM)       /* [panels][2][DIM][16] unnormalised output, transposed */ \
    R(AMX_FWD_STATS, F32, 2, BLOCKS, TILE_M)        /* [panels][2][32] the score that P is relative to, sum of P */ \
    R(AMX_FWD_S, F32, GLINT_AMX_BLOCK * 32, ONE)    /* [4][2][16][16] scores of a block of 64 keys, transposed */ \
    R(AMX_FWD_P, BF16, 32, TILE_N)                  /* [TILE_N / 32][2][16][32] P of a panel, in pairs */ \
    R(AMX_FWD_K, BF16, 1, TILE_N, DIM)              /* as it is */ \
    R(AMX_FWD_V, BF16, 1, TILE_N, DIM)              /* transposed */ \
    R(AMX_FWD_PAGED, BF16, 2, PAGED, HEAD_DIM)      /* K and V in pages, brought together */

#define GLINT_CPU_AMX_BACKWARD_SCRATCH(R) \
    R(AMX_BWD_Q, BF16, 1, BLOCKS, TILE_M, DIM)      /* [panels][32][DIM], across, and dO likewise */ \
    R(AMX_BWD_DOUT, BF16, 1, BLOCKS, TILE_M, DIM) \
    R(AMX_BWD_Q_PAIRS, BF16, 1, BLOCKS, TILE_M, DIM) /* [panels][32][DIM], in pairs, and dO likewise */ \
    R(AMX_BWD_DOUT_PAIRS, BF16, 1, BLOCKS, TILE_M, DIM) \
    R(AMX_BWD_STATS, F32, 3, BLOCKS, TILE_M)        /* [panels][3][32] LSE; delta; 1 where Q or dO is not finite */ \
    R(AMX_BWD_DQ, F32, 1, DQ_BLOCKS, TILE_M, DIM)   /* [panels][2][DIM][16] dQ / softmax_scale, transposed */ \
    R(AMX_BWD_DK, F32, 1, KEYS, DIM)                /* [KEYS / 16][DIM / 16][16][16] dK / softmax_scale */ \
    R(AMX_BWD_DV, F32, 1, KEYS, DIM)                /* the same of dV */ \
    R(AMX_BWD_K, BF16, 1, TILE_N, DIM)              /* as it is */ \
    R(AMX_BWD_V, BF16, 1, TILE_N, DIM)              /* as it is */ \
    R(AMX_BWD_K_T, BF16, 1, TILE_N, DIM)            /* transposed */ \
    R(AMX_BWD_S, F32, 64, TILE_N)              /* [2][TILE_N / 16][2][16][16] S, dP, transposed; then dS in pairs */ \
    R(AMX_BWD_P, BF16, 2, TILE_N, TILE_M)           /* [2][TILE_N / 16][TILE_M / 32][16][32] P and dS, a row a key */

/* Panels are 8 rows; few, the power of two that holds the rows of one. */
#define GLINT_CPU_AMX_DECODE_SCRATCH(R) \
    R(AMX_DEC_Q, BF16, 2, TILE_M, DIM)              /* [panels][16][DIM], across, half of it zeros */ \
    R(AMX_DEC_O, F32, 1, TILE_M, PITCH_D)           /* as DEC_O, and so is what is named alike below */ \
    R(AMX_DEC_S, F32, 8, TILE_N)                    /* [TILE_N][few] scores */ \
    R(AMX_DEC_P, F32, 16, TILE_N)                   /* [TILE_N / 16][few][2][16] words of (p, 0) and of (0, p) */ \
    R(AMX_DEC_SUMS, F32, 8, DIM)                    /* [DIM / 32][8][2][16] output of a panel, even and odd */ \
    R(AMX_DEC_STATS, F32, 4, TILE_M) \
    R(AMX_DEC_ALL_O, F32, 1, TILE_M, PITCH_D) \
    R(AMX_DEC_ROW, F32, 1, PITCH_D) \
    R(AMX_DEC_EDGE, BF16, 16, HEAD_DIM)             /* rows of Q, K or V that are brought together */
/* clang-format on */

#define GLINT_CPU_REGION(name, ...) GLINT_##name,
enum glint_cpu_forward_region { GLINT_CPU_FORWARD_SCRATCH(GLINT_CPU_REGION) };
enum glint_cpu_backward_region { GLINT_CPU_BACKWARD_SCRATCH(GLINT_CPU_REGION) };
enum glint_cpu_decode_region { GLINT_CPU_DECODE_SCRATCH(GLINT_CPU_REGION) };
enum glint_cpu_amx_forward_region { GLINT_CPU_AMX_FORWARD_SCRATCH(GLINT_CPU_REGION) };
enum glint_cpu_amx_backward_region { GLINT_CPU_AMX_BACKWARD_SCRATCH(GLINT_CPU_REGION) };
enum glint_cpu_amx_decode_region { GLINT_CPU_AMX_DECODE_SCRATCH(GLINT_CPU_REGION) };
#undef GLINT_CPU_REGION

/* Behind the regions of any kernel: the largest logits that a lane's tasks met, of a problem that asks for them. */
enum { GLINT_CPU_LOGITS = 14, GLINT_CPU_REGIONS };

#endif
