/* bwd_bf16_d64_causal__sm80_fused_m64n128
 *
 * Attention, backward: dQ, dK, dV from Q, K, V, O, LSE, dO; bf16, head_dim 64, causal, both alignments.
 * For sm_80.
 * Tile: 64 queries x 128 keys; fused, 4 warps, 1 block a multiprocessor.
 * Shared memory of a block: 99376 bytes.
 * A block takes 1 query head of a key head's where 4096 or more queries see a key, 2 from 512 on and 8 above 128.
 *
 * Made from gen/templates/sm80_bwd.cu.lua by
 *   lua5.4 gen/glint.lua emit --spec generated/golden/golden.lua --variant bwd_bf16_d64_causal__sm80_fused_m64n128
 * and overwritten by it: change the template or the spec. */

/* First delta. Then one block of 4 warps owns 128 keys of one head and walks over the queries in blocks of 64, last block first.
 * Two warps share 64 keys: one makes P^T and keeps dV, the other makes dP^T and dS^T and keeps dK.
 * Products are transposed (keys by queries), so that accumulators are operands of the next product.
 * Key blocks add their part of dQ one after another, so that the sum is the same every time. So do blocks that share the query heads of a key head,
 * when there are several, their parts of dK and dV. */
#include "lib/device/steps.h"

enum {
    HEAD_DIM = 64,
    DIM_PADDED = 64, /* up to a whole fragment, with zeros */
    TILE_M = 64,     /* queries of a step */
    TILE_N = 128,     /* keys of a block */
    WARPS = 4,
    THREADS = 32 * WARPS,
    STAGES = 2,             /* of Q and of dO */
    LEAD = 0,      /* steps that the warps which make P^T are ahead */
    D_SPLIT = 1,           /* warps that share the columns of a group's dV, and as many of its dK */
    GROUPS = WARPS / (2 * D_SPLIT), /* of warps that share keys */
    ROW_TILES = 4,       /* fragments of 16 keys that a group owns */
    GROUP_ROWS = 16 * ROW_TILES,
    WARP_M = TILE_M / D_SPLIT, /* queries for which a warp makes P or dS */
    PART_M = 32,            /* and those of them that are in registers at a time */
    WARP_DIM = DIM_PADDED / D_SPLIT, /* columns of dV or dK that a warp keeps */
    DQ_ROW_TILES = 1,  /* fragments of 16 queries of dQ that a warp makes */
    DQ_GROUPS = TILE_M / (16 * DQ_ROW_TILES),
    DQ_DIM = DIM_PADDED * DQ_GROUPS / WARPS, /* and their columns */
    DQ_FRAGMENTS = DQ_ROW_TILES * (DQ_DIM / 8),
    AT_ONCE = 8, /* loads of sums in memory: as many as registers allow */
    EXPONENT = 0x7f800000, /* all ones in NaN and infinity: see finite_part */
    BYTES = 2,                        /* of an element */
    K_STEP = 16,                      /* of one mma along the contraction */
    CHUNKS = DIM_PADDED * BYTES / 16,
    ROW_CHUNKS = HEAD_DIM * BYTES / 16,
    PAGE_CHUNKS = 8,
    PAGES = CHUNKS / PAGE_CHUNKS,
    DS_CHUNKS = TILE_M * BYTES / 16, /* of a row of dS^T: one page */
    K_BYTES = TILE_N * DIM_PADDED * BYTES,
    Q_BYTES = TILE_M * DIM_PADDED * BYTES,
    DS_BYTES = TILE_N * TILE_M * BYTES,
    DS_STAGES = 2, /* of dS^T */
    P_PLACE = 0, /* of P^T: where dS^T will be */
    PHASES = 4, /* barriers through which P^T is passed on */
    ROW_BYTES = TILE_M * 4, /* of a step's LSE or delta */
    /* K, V, stages of Q and of dO, P^T and dS^T, stages of LSE and of delta, barriers, the number */
    SHARED_BYTES = 2 * K_BYTES + 2 * STAGES * Q_BYTES + (DS_STAGES + D_SPLIT - 1) * DS_BYTES + 2 * STAGES * ROW_BYTES + 8 * PHASES + 16,
};

/* delta = rowsum(dO o O) and LSE in powers of two, for GLINT_GPU_ROW_PAD queries of one head; a row that sees no key, or lies past the
 * end, gets LSE = +inf, which makes its P exactly 0. Rows that see no key also get dQ = 0 here, as no key block visits them.
 * A row whose dO holds NaN or infinity has a delta that is neither finite; of a row that sees no key, neither is it when its Q does. */
GLINT_KERNEL(256, 1) glint_bwd_bf16_d64_causal__sm80_fused_m64n128_delta(GLINT_PARAMS(struct glint_backward_params) p)
{
    enum { LANES = ROW_CHUNKS <= 8 ? 8 : ROW_CHUNKS <= 16 ? 16 : 32, ROWS = 32 / LANES }; /* lanes a row, rows a warp at a time */
    const uint32_t lane = lane_index() % LANES;
    const int32_t blocks = (p.shape.seqlen_q + GLINT_GPU_ROW_PAD - 1) / GLINT_GPU_ROW_PAD;
    const int32_t head = (int32_t)block_index() / blocks, row0 = ((int32_t)block_index() - head * blocks) * GLINT_GPU_ROW_PAD;
    const int32_t batch = head / p.shape.heads_q, head_q = head - batch * p.shape.heads_q;

    if (block_index() == 0 && thread_index() == 0)
        st_global_u32(p.turn, 0);
    if (thread_index() < GLINT_GPU_ROW_PAD / TILE_M)
        st_global_u32(p.turn + 1 + head * (p.padded_q / TILE_M) + row0 / TILE_M + thread_index(), 0);
    if (p.parts > 1) {
        const int64_t turns = (int64_t)(p.shape.batch * p.shape.heads_kv) * ((p.shape.seqlen_k + TILE_N - 1) / TILE_N) * WARPS;
        const int64_t threads = (int64_t)256 * p.shape.batch * p.shape.heads_q * blocks;

        for (int64_t i = (int64_t)block_index() * 256 + thread_index(); i < turns; i += threads)
            st_global_u32(p.key_turn + i, 0);
    }

    for (int32_t row = row0 + (int32_t)(thread_index() / LANES); row < row0 + GLINT_GPU_ROW_PAD; row += 8 * ROWS) {
        const char *o_row = view_row(&p.o, batch, head_q, row, BYTES), *dout_row = view_row(&p.dout, batch, head_q, row, BYTES);
        const int64_t place = head * p.padded_q + row;
        float sum = 0.0f, lse = GLINT_INFINITY;

        if (row < p.shape.seqlen_q) {
            lse = ld_global_f32(p.lse + (int64_t)head * p.shape.seqlen_q + row);
            lse = lse == -GLINT_INFINITY ? GLINT_INFINITY : lse * 1.44269504088896340736f;
            for (uint32_t chunk = lane; chunk < ROW_CHUNKS; chunk += LANES) {
                uint32_t o[4], dout[4];

                ld_global_u32x4(o, o_row + chunk * 16);
                ld_global_u32x4(dout, dout_row + chunk * 16);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    sum = fmaf(low_bf16(o[i]), low_bf16(dout[i]), sum);
                    sum = fmaf(high_bf16(o[i]), high_bf16(dout[i]), sum);
                }
            }
            if (lse == GLINT_INFINITY) {
                const char *q_row = view_row(&p.q, batch, head_q, row, BYTES);
                const uint32_t zero[4] = {0, 0, 0, 0};

                for (uint32_t chunk = lane; chunk < ROW_CHUNKS; chunk += LANES) {
                    uint32_t q[4];

                    ld_global_u32x4(q, q_row + chunk * 16);
                    for (int i = 0; i < 4; ++i)
                        if (finite_part(q[i], EXPONENT, BYTES) != q[i])
                            sum = GLINT_INFINITY;
                    st_global_u32x4(view_row(&p.dq, batch, head_q, row, BYTES) + chunk * 16, zero);
                }
            }
        }
#pragma unroll
        for (uint32_t mask = 1; mask < LANES; mask *= 2)
            sum += shfl_xor(sum, mask);
        if (lane == 0) {
            st_global_f32(p.lse_log2 + place, lse);
            st_global_f32(p.delta + place, lse == GLINT_INFINITY && fabsf(sum) < GLINT_INFINITY ? 0.0f : sum);
        }
    }
}

/* ---- products of fragments, for kernels of every shape ---- */

/* Accumulators of a warp: [fragment of 16 rows][fragment of 8 columns][register of mma's d]. Registers 0, 1 belong to row lane / 4 of the
 * fragment, registers 2, 3 to row lane / 4 + 8: `side` tells them apart. */
template <int ROWS, int COLUMNS>
GLINT_DEVICE void set_zero(float (&d)[ROWS][COLUMNS][4])
{
#pragma unroll
    for (int rt = 0; rt < ROWS; ++rt)
#pragma unroll
        for (int ct = 0; ct < COLUMNS; ++ct)
            d[rt][ct][0] = d[rt][ct][1] = d[rt][ct][2] = d[rt][ct][3] = 0.0f;
}

/* d = x y^T over all columns of two tiles of x_rows and y_rows rows, from x_lane (operand A) and y_lane (operand B) on. */
template <int ROWS, int COLUMNS>
GLINT_DEVICE void multiply_rows(float (&d)[ROWS][COLUMNS][4], uint32_t x_lane, const uint32_t x_rows, uint32_t y_lane, const uint32_t y_rows)
{
    set_zero(d);
#pragma unroll
    for (int kk = 0; kk < DIM_PADDED / K_STEP; ++kk) {
        uint32_t x[ROWS][4];
#pragma unroll
        for (int rt = 0; rt < ROWS; ++rt)
            ldmatrix_x4(x[rt], tile_move(x_lane, rt * 16, kk * 2, x_rows, PAGE_CHUNKS));
#pragma unroll
        for (int ct = 0; ct < COLUMNS; ct += 2) {
            uint32_t y[4];

            ldmatrix_x4(y, tile_move(y_lane, ct * 8, kk * 2, y_rows, PAGE_CHUNKS));
#pragma unroll
            for (int rt = 0; rt < ROWS; ++rt) {
                mma_m16n8k16_bf16(d[rt][ct], x[rt], y[0], y[1]);
                mma_m16n8k16_bf16(d[rt][ct + 1], x[rt], y[2], y[3]);
            }
        }
    }
}

/* d += a z for K_STEP rows of tile z, from row kk * K_STEP on; with `finite`, of z's finite part. */
template <int ROWS, int COLUMNS>
GLINT_DEVICE void multiply_step(float (&d)[ROWS][COLUMNS][4], const uint32_t (&a)[ROWS][4], uint32_t z_lane, const int kk,
                                const uint32_t z_rows, const bool finite)
{
#pragma unroll
    for (int ct = 0; ct < COLUMNS; ct += 2) {
        uint32_t z[4];

        ldmatrix_x4_trans(z, tile_move(z_lane, kk * 16, ct, z_rows, PAGE_CHUNKS));
#pragma unroll
        for (int i = 0; i < 4; ++i)
            z[i] = finite ? finite_part(z[i], EXPONENT, BYTES) : z[i];
#pragma unroll
        for (int rt = 0; rt < ROWS; ++rt) {
            mma_m16n8k16_bf16(d[rt][ct], a[rt], z[0], z[1]);
            mma_m16n8k16_bf16(d[rt][ct + 1], a[rt], z[2], z[3]);
        }
    }
}

/* Accumulators as operand A of the next product, which sums over their columns. */
template <int STEPS, int ROWS, int COLUMNS>
GLINT_DEVICE void to_operand(uint32_t (&a)[STEPS][ROWS][4], const float (&s)[ROWS][COLUMNS][4])
{
#pragma unroll
    for (int kk = 0; kk < STEPS; ++kk)
#pragma unroll
        for (int rt = 0; rt < ROWS; ++rt)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                a[kk][rt][i] = pack_bf16(s[rt][2 * kk + (i >> 1)][2 * (i & 1)], s[rt][2 * kk + (i >> 1)][2 * (i & 1) + 1]);
}

/* Where a lane's first accumulators of a fragment lie in a tile: two columns of row lane / 4. The ones of eight columns further are
 * FRAGMENT_CHUNKS chunks away. */
enum { FRAGMENT_CHUNKS = 1 };

GLINT_DEVICE uint32_t lane_offset_pairs(uint32_t lane, const uint32_t rows, const uint32_t page_chunks)
{
    return tile_offset(lane >> 2, 0, rows, page_chunks) + (lane & 3) * 4;
}

GLINT_DEVICE void st_shared_pair(uint32_t address, float x, float y)
{
    st_shared_u32(address, pack_bf16(x, y));
}

/* 16 rows of accumulators, times a factor, from row first_row of a tile on: what store_rows takes from there. */
template <int COLUMNS>
GLINT_DEVICE void stage_rows(uint32_t tile_lane, const float (&d)[COLUMNS][4], float factor, const uint32_t first_row, const uint32_t rows)
{
#pragma unroll
    for (int ct = 0; ct < COLUMNS; ++ct)
#pragma unroll
        for (int side = 0; side < 2; ++side)
            st_shared_pair(tile_move(tile_lane, first_row + side * 8, ct * FRAGMENT_CHUNKS, rows, PAGE_CHUNKS), d[ct][2 * side] * factor,
                           d[ct][2 * side + 1] * factor);
}

/* NaN and infinities of row `z_row` of a tile, times `factor`, to the rows of d that see it, which `sees(row)` says: a column of d is
 * the tile's, from chunk first_chunk on. */
template <int ROWS, int COLUMNS, class Sees>
GLINT_DEVICE void add_special(float (&d)[ROWS][COLUMNS][4], uint32_t tile, uint32_t z_row, uint32_t first_chunk, const uint32_t rows, float factor,
                              Sees sees)
{
    const uint32_t lane = thread_index_anew() % 32;

#pragma unroll
    for (int ct = 0; ct < COLUMNS; ++ct) {
        const uint32_t word = ld_shared_u32(tile + tile_offset(z_row, first_chunk + ct, rows, PAGE_CHUNKS) + (lane & 3) * 4);
        const uint32_t special = word ^ finite_part(word, EXPONENT, BYTES);
        const float v[2] = {low_bf16(special), high_bf16(special)};

#pragma unroll
        for (int rt = 0; rt < ROWS; ++rt)
#pragma unroll
            for (int side = 0; side < 2; ++side)
                if (sees(rt * 16 + side * 8 + (int32_t)(lane >> 2))) {
                    d[rt][ct][2 * side] += v[0] * factor;
                    d[rt][ct][2 * side + 1] += v[1] * factor;
                }
    }
}

/* ---- dK and dV, and parts of dQ: a block owns TILE_N keys ---- */

typedef float scores_t[ROW_TILES][PART_M / 8][4]; /* of keys by queries */
typedef uint32_t operand_t[PART_M / K_STEP][ROW_TILES][4];
typedef float gradients_t[ROW_TILES][WARP_DIM / 8][4]; /* of keys by columns */

/* Zero where the mask hides the key, and where key or query lie past the end. */
GLINT_DEVICE void hide(scores_t &s, int32_t first_key, int32_t first_query, int32_t offset, int32_t seqlen_q, int32_t seqlen_k)
{
    const uint32_t lane = thread_index_anew() % 32;

#pragma unroll
    for (int kt = 0; kt < ROW_TILES; ++kt)
#pragma unroll
        for (int side = 0; side < 2; ++side) {
            const int32_t key = first_key + kt * 16 + side * 8 + (int32_t)(lane >> 2);
            const int32_t column = 2 * (int32_t)(lane & 3), end = seqlen_q - first_query - column;
            const int32_t first = key >= seqlen_k ? TILE_M : key - offset - first_query - column;
#pragma unroll
            for (int mt = 0; mt < PART_M / 8; ++mt) {
                s[kt][mt][2 * side] = mt * 8 < first || mt * 8 >= end ? 0.0f : s[kt][mt][2 * side];
                s[kt][mt][2 * side + 1] = mt * 8 + 1 < first || mt * 8 + 1 >= end ? 0.0f : s[kt][mt][2 * side + 1];
            }
        }
}

/* P^T or dS^T to shared memory. */
GLINT_DEVICE void put_scores(const scores_t &s, uint32_t lane_address)
{
#pragma unroll
    for (int mt = 0; mt < PART_M / 8; ++mt)
#pragma unroll
        for (int kt = 0; kt < ROW_TILES; ++kt)
#pragma unroll
            for (int side = 0; side < 2; ++side)
                st_shared_pair(tile_move(lane_address, kt * 16 + 8 * side, mt * FRAGMENT_CHUNKS, TILE_N, DS_CHUNKS), s[kt][mt][2 * side],
                               s[kt][mt][2 * side + 1]);
}

/* s times the P^T that put_scores left there. */
GLINT_DEVICE void times_weights(scores_t &s, uint32_t p_lane)
{
    uint32_t p[PART_M / 8][ROW_TILES][2]; /* all loads first: they wait for nothing */

#pragma unroll
    for (int mt = 0; mt < PART_M / 8; ++mt)
#pragma unroll
        for (int kt = 0; kt < ROW_TILES; ++kt)
#pragma unroll
            for (int side = 0; side < 2; ++side)
                p[mt][kt][side] = ld_shared_u32(tile_move(p_lane, kt * 16 + 8 * side, mt, TILE_N, DS_CHUNKS));
#pragma unroll
    for (int mt = 0; mt < PART_M / 8; ++mt)
#pragma unroll
        for (int kt = 0; kt < ROW_TILES; ++kt)
#pragma unroll
            for (int side = 0; side < 2; ++side) {
                s[kt][mt][2 * side] *= low_bf16(p[mt][kt][side]);
                s[kt][mt][2 * side + 1] *= high_bf16(p[mt][kt][side]);
            }
}

/* dV += P^T dO, or dK += dS^T Q, for PART_M queries. */
GLINT_DEVICE void add_products(gradients_t &g, const scores_t &s, uint32_t z_lane)
{
    operand_t a;

    to_operand(a, s);
#pragma unroll
    for (int kk = 0; kk < PART_M / K_STEP; ++kk)
        multiply_step(g, a[kk], z_lane, kk, TILE_M, false);
}

/* Whether LSE or delta of four queries say that their Q or dO holds NaN or infinity. LSE = +inf is a query that sees nothing. */
GLINT_DEVICE bool are_special(uint32_t lse, uint32_t delta)
{
    uint32_t l[4], d[4];
    bool found = false;

    ld_shared_u32x4(l, lse);
    ld_shared_u32x4(d, delta);
#pragma unroll
    for (int i = 0; i < 4; ++i)
        found |= (l[i] & 0x7fffffffu) > 0x7f800000u || (d[i] & 0x7f800000u) == 0x7f800000u;
    return found;
}

/* NaN and infinities of dO go to the dV of keys that their query sees, and then leave the tile. Those of Q only leave: their rows' LSE,
 * and so P and dS, are not finite either. first_limit: the last key that the first query sees, counted from this group's first. All
 * threads of the block call it. */
GLINT_DEVICE void settle_queries(gradients_t &dv, bool keeps_dv, uint32_t q_tile, uint32_t do_tile, int32_t first_limit, uint32_t first_chunk)
{
    if (keeps_dv) {
#pragma unroll 1
        for (int32_t query = 0; query < TILE_M; ++query)
            add_special(dv, do_tile, (uint32_t)query, first_chunk, TILE_M, 1.0f, [&](int32_t key) { return key <= first_limit + query; });
    }
    block_sync();
    const uint32_t row = thread_index() < THREADS / CHUNKS * CHUNKS ? thread_index() / CHUNKS : (uint32_t)TILE_M;

    clear_special(q_tile, row, THREADS / CHUNKS, thread_index() % CHUNKS, CHUNKS, TILE_M, CHUNKS, PAGE_CHUNKS, EXPONENT, BYTES);
    clear_special(do_tile, row, THREADS / CHUNKS, thread_index() % CHUNKS, CHUNKS, TILE_M, CHUNKS, PAGE_CHUNKS, EXPONENT, BYTES);
    block_sync();
}

/* Sums of several blocks, in turn: each thread's accumulators in the order of slot_of_four. The first one stores, others add. */
template <int ROWS, int COLUMNS>
GLINT_DEVICE void add_to_memory(float *sum, const float (&d)[ROWS][COLUMNS][4], bool first)
{
    if (first) {
#pragma unroll
        for (int i = 0; i < ROWS * COLUMNS; ++i)
            st_four(sum + i * (4 * THREADS), d[i / COLUMNS][i % COLUMNS], THREADS);
    } else {
#pragma unroll
        for (int i = 0; i < ROWS * COLUMNS; ++i)
            red_four(sum + i * (4 * THREADS), d[i / COLUMNS][i % COLUMNS], THREADS);
    }
}

/* What the others left of AT_ONCE fragments from `start` on, for the last one. Their loads are under way together: one after another, they were
 * the longest part of a step. */
template <int ROWS, int COLUMNS>
GLINT_DEVICE void add_from_memory(float (&d)[ROWS][COLUMNS][4], const float *sum, const int start)
{
    float before[AT_ONCE][4];

#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i)
        if (start + i < ROWS * COLUMNS)
            ld_four(before[i], sum + (start + i) * (4 * THREADS), THREADS);
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i)
        if (start + i < ROWS * COLUMNS)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                d[(start + i) / COLUMNS][(start + i) % COLUMNS][e] += before[i][e];
}

/* Where this block works, from its number. */
struct work {
    int32_t index, batch, head_kv; /* index of the key block in its head */
    int32_t part, tile; /* of the head's group; of this key block among those of all heads */
};

/* Part 0 of all heads comes before part 1, so that a block seldom waits for the one that adds to its dK and dV before it. */
GLINT_DEVICE struct work find_work(const struct glint_backward_params *p, uint32_t number)
{
    const struct glint_gpu_shape *shape = &p->shape;
    const int32_t blocks_n = (shape->seqlen_k + TILE_N - 1) / TILE_N, heads = shape->batch * shape->heads_kv;
    const struct block_place place = find_place(number, (uint32_t)blocks_n, (uint32_t)(heads * p->parts), (uint32_t)shape->section);
    struct work work;

    work.index = place.index;
    work.part = place.head / heads;
    const int32_t head = place.head - work.part * heads;
    work.tile = head * blocks_n + place.index;
    work.batch = head / shape->heads_kv;
    work.head_kv = head - work.batch * shape->heads_kv;
    return work;
}

GLINT_KERNEL(THREADS, 1) glint_bwd_bf16_d64_causal__sm80_fused_m64n128(GLINT_PARAMS(struct glint_backward_params) p)
{
    const uint32_t lane = lane_index(), warp = warp_index();
    const uint32_t group = warp % GROUPS;
    const bool keeps_dk = warp >= WARPS / 2; /* else dV */
    const int32_t seqlen_q = p.shape.seqlen_q, seqlen_k = p.shape.seqlen_k;

    const uint32_t k_tile = shared_base(), v_tile = k_tile + K_BYTES, q_tiles = v_tile + K_BYTES, do_tiles = q_tiles + STAGES * Q_BYTES;
    const uint32_t ds_tiles = do_tiles + STAGES * Q_BYTES, rows_lse = ds_tiles + (DS_STAGES + D_SPLIT - 1) * DS_BYTES, rows_delta = rows_lse + STAGES * ROW_BYTES;
    const uint32_t phases = rows_delta + STAGES * ROW_BYTES;
    const uint32_t phase = phases + (group) * 8;

    if (thread_index() == 0) {
#pragma unroll
        for (int i = 0; i < PHASES; ++i)
            mbarrier_init(phases + i * 8, 32);
    }
    const uint32_t number = phases + 8 * PHASES, poisoned = number + 4;

    /* Blocks take numbers as they begin, so a block waits only for such that run or have run. */
    if (thread_index() == 0)
        st_shared_u32(number, seqlen_q > 0 ? atom_global_add_u32(p.turn, 1) : block_index());
    block_sync();
    const struct work work = find_work(&p, ld_shared_u32(number));
    const int32_t batch = work.batch, head_kv = work.head_kv, key0 = work.index * TILE_N;

    /* Query blocks that see some key of this block, those under first_clear do not see all of them. */
    const int32_t last_m = (seqlen_q + TILE_M - 1) / TILE_M - 1;
    const int32_t offset = p.shape.mask_offset;
    const int32_t first_m = max(0, key0 - offset) / TILE_M;
    const int32_t first_clear = key0 + TILE_N > seqlen_k ? last_m + 1 : (max(0, key0 + TILE_N - 1 - offset) + TILE_M - 1) / TILE_M;
    const int32_t first_head = work.part * p.part_heads; /* of the group */
    const int32_t steps = max(0, last_m - first_m + 1) * min(p.part_heads, p.shape.group - first_head);

    copy_tile(k_tile, copy_from(view_row(&p.k, batch, head_kv, key0, BYTES), p.k.row * BYTES, PAGE_CHUNKS), p.k.row * BYTES,
              seqlen_k - key0, TILE_N, ROW_CHUNKS, PAGES, PAGE_CHUNKS, THREADS);
    copy_tile(v_tile, copy_from(view_row(&p.v, batch, head_kv, key0, BYTES), p.v.row * BYTES, PAGE_CHUNKS), p.v.row * BYTES,
              seqlen_k - key0, TILE_N, ROW_CHUNKS, PAGES, PAGE_CHUNKS, THREADS);

    /* Begins the copies of a step's Q, dO, LSE and delta into a stage. */
    auto copy_step = [&](int32_t head_q, int32_t m, uint32_t stage) {
        const uint32_t thread = thread_index_anew(); /* whichever leaves ptxas enough registers */
        const int64_t row = (int64_t)(batch * p.shape.heads_q + head_q) * p.padded_q + m * TILE_M;

        copy_part(thread, q_tiles + stage * Q_BYTES, copy_from(view_row(&p.q, batch, head_q, m * TILE_M, BYTES), p.q.row * BYTES, PAGE_CHUNKS),
                  p.q.row * BYTES, seqlen_q - m * TILE_M, TILE_M, ROW_CHUNKS, PAGES, PAGE_CHUNKS, THREADS);
        copy_part(thread, do_tiles + stage * Q_BYTES, copy_from(view_row(&p.dout, batch, head_q, m * TILE_M, BYTES), p.dout.row * BYTES, PAGE_CHUNKS),
                  p.dout.row * BYTES, seqlen_q - m * TILE_M, TILE_M, ROW_CHUNKS, PAGES, PAGE_CHUNKS, THREADS);
        if (thread < ROW_BYTES / 16) {
            cp_async_16(rows_lse + stage * ROW_BYTES + thread * 16, p.lse_log2 + row + thread * 4, true);
            cp_async_16(rows_delta + stage * ROW_BYTES + thread * 16, p.delta + row + thread * 4, true);
        }
    };
    int32_t head_q = head_kv * p.shape.group + first_head, m = last_m; /* of the step that is copied next */
    if (steps > 0)
        copy_step(head_q, m, 0);
    cp_async_commit();

    /* S^T = K Q^T and dV += P^T dO, or dP^T = V dO^T and dK += dS^T Q: the same products of other tiles. */
    const uint32_t x_lane = (keeps_dk ? v_tile : k_tile) + lane_offset_a(lane, TILE_N, PAGE_CHUNKS) + group * (GROUP_ROWS * PAGE_CHUNKS * 16);
    const uint32_t y_lane = (keeps_dk ? do_tiles : q_tiles) + lane_offset_b(lane, TILE_M, PAGE_CHUNKS);
    const uint32_t rows_lane = (keeps_dk ? rows_delta : rows_lse) + (lane & 3) * 8;
    const uint32_t z_lane = (keeps_dk ? q_tiles : do_tiles) + lane_offset_trans(lane, TILE_M, PAGE_CHUNKS);
    const uint32_t ds_lane = (ds_tiles + lane_offset_pairs(lane, TILE_N, DS_CHUNKS) + group * (GROUP_ROWS * DS_CHUNKS * 16));

    /* From a step's query head and query block to those of the step before. */
    auto step_back = [&](int32_t *head, int32_t *block) {
        *head -= *block == last_m;
        *block = *block == last_m ? first_m : *block + 1;
    };

    gradients_t g; /* dV, or dK without the scale */
    set_zero(g);

    /* dQ's part of the step before: dS K, each warp making DQ_ROW_TILES x 16 queries by DQ_DIM columns. */
    auto add_dq = [&](int32_t head_before, int32_t m_before, uint32_t buffer) {
        const uint32_t thread = thread_index_anew(), lane = thread % 32;
        const uint32_t dq_group = thread / 32 % DQ_GROUPS, dq_column = thread / 32 / DQ_GROUPS * DQ_DIM;
        const uint32_t ds_read =
            ds_tiles + tile_offset((lane & 7) + (lane >> 4 << 3), dq_group * (2 * DQ_ROW_TILES) + (lane >> 3 & 1), TILE_N, DS_CHUNKS);
        const uint32_t k_lane_trans = k_tile + tile_offset(lane & 15, dq_column / 8 + (lane >> 4), TILE_N, PAGE_CHUNKS);
        float dq[DQ_ROW_TILES][DQ_DIM / 8][4];
        auto multiply = [&](const int kk, const bool finite) {
            uint32_t a[DQ_ROW_TILES][4];
#pragma unroll
            for (int rt = 0; rt < DQ_ROW_TILES; ++rt) {
                ldmatrix_x4_trans(a[rt], tile_move(ds_read + buffer, kk * 16, rt * 2, TILE_N, DS_CHUNKS));
            }
            multiply_step(dq, a, k_lane_trans, kk, TILE_N, finite);
        };
        set_zero(dq);
        /* Of keys that hold NaN or infinities, queries that see them get NaN: S is infinite or NaN there, so P and dS are 0 or NaN. */
        if (m_before < first_clear && ld_shared_u32(poisoned) != 0) {
            const int32_t query0 = m_before * TILE_M + (int32_t)(dq_group * (DQ_ROW_TILES * 16));

#pragma unroll 1
            for (int kk = 0; kk < TILE_N / K_STEP; ++kk)
                multiply(kk, true);
#pragma unroll 1
            for (int32_t key = 0; key < TILE_N; ++key)
                add_special(dq, k_tile, (uint32_t)key, dq_column * BYTES / 16, TILE_N, 0.0f,
                            [&](int32_t query) { return key0 + key <= query0 + query + offset; });
        } else
#pragma unroll
            for (int kk = 0; kk < TILE_N / K_STEP; ++kk)
                multiply(kk, false);

        /* Key blocks add to dQ in their order: the first one stores, the last one adds what the others left and rounds. */
        const int32_t head = batch * p.shape.heads_q + head_before;
        float *sum = slot_of_four(p.dq_sum + (head * p.padded_q + m_before * TILE_M) * DIM_PADDED, thread);
        const int32_t keys = min(seqlen_k, min(seqlen_q, (m_before + 1) * TILE_M) + offset); /* that some query of the block sees */
        if (key0 >= keys)
            return;
        if (key0 + TILE_N >= keys) {
            const int32_t row0 = m_before * TILE_M + (int32_t)(dq_group * (DQ_ROW_TILES * 16) + (lane >> 2));
            char *dq_rows = view_row(&p.dq, batch, head_before, row0, BYTES);

#pragma unroll
            for (int start = 0; start < DQ_FRAGMENTS; start += AT_ONCE) {
                if (key0 > 0)
                    add_from_memory(dq, sum, start);
#pragma unroll
                for (int i = start; i < start + AT_ONCE && i < DQ_FRAGMENTS; ++i) {
                    const int rt = i / (DQ_DIM / 8), dt = i % (DQ_DIM / 8);
#pragma unroll
                    for (int side = 0; side < 2; ++side)
                        if (row0 + rt * 16 + side * 8 < seqlen_q && (DIM_PADDED == HEAD_DIM || dq_column + dt * 8 < HEAD_DIM))
                            st_global_u32(dq_rows + (rt * 16 + side * 8) * p.dq.row * BYTES + (dq_column + dt * 8 + (lane & 3) * 2) * BYTES,
                                          pack_bf16(dq[rt][dt][2 * side] * p.shape.softmax_scale, dq[rt][dt][2 * side + 1] * p.shape.softmax_scale));
                }
            }
        } else {
            add_to_memory(sum, dq, key0 == 0);
        }
    };

    /* The turn of (query head, query block) counts the keys whose blocks have added to dQ there. One thread looks at it a step ahead,
     * waits if need be before the barrier that lets this block add, and passes it on after the next barrier, when all threads have
     * added and their sums have had the time to arrive. */
    const bool keeps_turn = thread_index() == THREADS / 2;
    auto turn_of = [&](int32_t head, int32_t block) {
        return 1 + (uint32_t)(batch * p.shape.heads_q + head) * (uint32_t)(p.padded_q / TILE_M) + (uint32_t)block;
    };
    auto pass_turn_on = [&](int32_t head, int32_t block) { st_release_u32(p.turn + turn_of(head, block), (uint32_t)(key0 + TILE_N)); };
    uint32_t seen = 0;

    /* NaN and infinities of K must not meet a dS of zero in blocks where the mask hides keys: each thread looks at what it copied. */
    cp_async_wait(0);
    const bool found = block_any(first_clear > first_m && find_special(k_tile, TILE_N, PAGES, PAGE_CHUNKS, THREADS, EXPONENT, BYTES));
    if (thread_index() == 0)
        st_shared_u32(poisoned, found ? 1 : 0);

#pragma unroll 1
    for (int32_t step = 0; step <= steps; ++step) {
        /* Stages: of the step whose Q and dO have arrived, of the one after, and of this warp's. */
        const uint32_t front = step & 1, next = front ^ 1, stage = front;

        /* This step's Q and dO have arrived, the last step's dS is complete, and no warp reads the next stage any more. */
        cp_async_wait(0);
        const int32_t m_front = m;
        int32_t head_now = head_q, m_now = m;
        int32_t head_before = head_now, m_before = m_now;
        step_back(&head_before, &m_before);
        if (keeps_turn && step > LEAD) {
            while (seen < (uint32_t)key0)
                seen = ld_acquire_u32(p.turn + turn_of(head_before, m_before));
        }
        /* NaN and infinities in rows that the mask hides must not meet a P or dS of zero: LSE and delta tell where Q and dO have any. */
        if (m_front < first_clear && step < steps) {
            const uint32_t row = front * ROW_BYTES + thread_index() * 16;

            if (block_any(thread_index() < ROW_BYTES / 16 && are_special(rows_lse + row, rows_delta + row)))
                settle_queries(g, !keeps_dk, q_tiles + front * Q_BYTES, do_tiles + front * Q_BYTES,
                               m_front * TILE_M + offset - key0 - (int32_t)group * GROUP_ROWS, 0);
        } else
            block_sync();
        if (m == first_m) {
            m = last_m;
            ++head_q;
        } else
            --m;
        if (step + 1 < steps)
            copy_step(head_q, m, next);
        cp_async_commit();

        if (keeps_dk && step > LEAD)
            add_dq(head_before, m_before, next * DS_BYTES);

#pragma unroll 1
        for (int part = 0; step < steps && part < WARP_M / PART_M; ++part) {
            const uint32_t y_now = y_lane + stage * Q_BYTES + part * (PART_M * PAGE_CHUNKS * 16);
            const uint32_t z_now = z_lane + stage * Q_BYTES + part * (PART_M * PAGE_CHUNKS * 16);
            const uint32_t ds_now = (ds_lane + stage * DS_BYTES) ^ (uint32_t)part * (PART_M * BYTES);
            const uint32_t p_now = ds_now;
            const int32_t query0 = m_now * TILE_M + part * PART_M;
            const bool masked = m_now < first_clear;

            /* S^T = K Q^T, or dP^T = V dO^T; each query, a column, has an LSE or a delta. */
            float rows[PART_M / 8][2];
            scores_t s;
            multiply_rows(s, x_lane, TILE_N, y_now, TILE_M);
#pragma unroll
            for (int mt = 0; mt < PART_M / 8; ++mt)
                ld_shared_f32x2(rows[mt], rows_lane + stage * ROW_BYTES + part * (PART_M * 4) + mt * 32);

            if (!keeps_dk) {
                /* P^T = 2^(scale S^T - LSE) goes to the partner, and with dO into dV. */
#pragma unroll
                for (int mt = 0; mt < PART_M / 8; ++mt)
#pragma unroll
                    for (int kt = 0; kt < ROW_TILES; ++kt)
#pragma unroll
                        for (int e = 0; e < 4; ++e)
                            s[kt][mt][e] = ex2(fmaf(s[kt][mt][e], p.shape.scale_log2, -rows[mt][e & 1]));
                if (masked)
                    hide(s, key0 + (int32_t)group * GROUP_ROWS, query0, offset, seqlen_q, seqlen_k);
                put_scores(s, p_now);
                mbarrier_arrive(phase + part * (GROUPS * 8));
                add_products(g, s, z_now);
            } else {
                /* dS^T = P^T (dP^T - delta) with the partner's P^T goes to dQ, and with Q into dK. */
#pragma unroll
                for (int mt = 0; mt < PART_M / 8; ++mt)
#pragma unroll
                    for (int kt = 0; kt < ROW_TILES; ++kt)
#pragma unroll
                        for (int e = 0; e < 4; ++e)
                            s[kt][mt][e] -= rows[mt][e & 1];
                if (masked)
                    hide(s, key0 + (int32_t)group * GROUP_ROWS, query0, offset, seqlen_q, seqlen_k);
                if (keeps_turn && part == 0) {
                    if (step >= 2 + LEAD) {
                        step_back(&head_before, &m_before);
                        pass_turn_on(head_before, m_before);
                    }
                    seen = ld_acquire_u32(p.turn + turn_of(head_now, m_now));
                }
                mbarrier_wait(phase + part * (GROUPS * 8), stage);
                times_weights(s, p_now);
                put_scores(s, ds_now);
                add_products(g, s, z_now);
            }
        }

        if (!keeps_dk && step > LEAD)
            add_dq(head_before, m_before, next * DS_BYTES);
    }

    /* The last turn; then dK and dV go through this group's own rows of the K and V tiles to 16-byte stores. */
    block_sync();
    if (keeps_turn) {
        step_back(&head_q, &m);
        for (int32_t step = steps; step > 0 && step > steps - 2; --step) {
            step_back(&head_q, &m);
            pass_turn_on(head_q, m);
        }
    }
    const struct work end = find_work(&p, ld_shared_u32(number));

    /* Parts of a group add to dK and dV in their order, each warp to its own rows and columns: the first one stores, the last one adds what the
     * others left. A warp waits for blocks of lower numbers only. */
    if (p.parts > 1) {
        const uint32_t thread = thread_index_anew();
        uint32_t *turn = p.key_turn + (int64_t)end.tile * WARPS + thread / 32;
        float *sum = slot_of_four(p.key_sum + (int64_t)end.tile * (2 * TILE_N * DIM_PADDED), thread);

        if (end.part > 0) {
            if (thread % 32 == 0)
                while (ld_acquire_u32(turn) < (uint32_t)end.part)
                    continue;
            warp_sync();
        }
        if (end.part < p.parts - 1) {
            add_to_memory(sum, g, end.part == 0);
            warp_sync();
            if (thread % 32 == 0)
                st_release_u32(turn, (uint32_t)end.part + 1);
            return;
        }
#pragma unroll
        for (int start = 0; start < ROW_TILES * (WARP_DIM / 8); start += AT_ONCE)
            add_from_memory(g, sum, start);
    }
    const float factor = keeps_dk ? p.shape.softmax_scale : 1.0f;
    const struct glint_gpu_view *out = keeps_dk ? &p.dk : &p.dv;
    const uint32_t out_tile =
        (keeps_dk ? k_tile : v_tile) + group * (GROUP_ROWS * PAGE_CHUNKS * 16);
    const uint32_t out_lane = out_tile + lane_offset_pairs(thread_index_anew() % 32, TILE_N, PAGE_CHUNKS);
    const int32_t group_key0 = end.index * TILE_N + (int32_t)group * GROUP_ROWS;
#pragma unroll
    for (int kt = 0; kt < ROW_TILES; ++kt) {
        stage_rows(out_lane, g[kt], factor, kt * 16, TILE_N);
        warp_sync();
        store_rows(view_row(out, end.batch, end.head_kv, group_key0 + kt * 16, BYTES), out->row * BYTES, seqlen_k - group_key0 - kt * 16, out_tile,
                   kt * 16, TILE_N, ROW_CHUNKS, PAGES / D_SPLIT, PAGE_CHUNKS);
    }
}
