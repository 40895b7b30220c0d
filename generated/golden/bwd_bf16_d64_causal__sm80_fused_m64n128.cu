/* bwd_bf16_d64_causal__sm80_fused_m64n128
 *
 * Attention, backward: dQ, dK, dV from Q, K, V, O, LSE, dO; bf16, head_dim 64, causal, both alignments.
 * For sm_80.
 * Tile: 64 queries x 128 keys; fused, 4 warps, 1 block a multiprocessor.
 * Shared memory of a block: 99856 bytes.
 *
 * Made from gen/templates/sm80_bwd.cu.lua by
 *   lua5.4 gen/glint.lua emit --spec generated/golden/golden.lua --variant bwd_bf16_d64_causal__sm80_fused_m64n128
 * and overwritten by it: change the template or the spec. */

/* First delta. Then one block of 4 warps owns 128 keys of one head and walks over the queries in blocks of 64, last block first.
 * Two warps share 64 keys: one makes P^T and keeps dV, the other makes dP^T and dS^T and keeps dK.
 * Products are transposed (keys by queries), so that accumulators are operands of the next product. Key blocks add their part of dQ
 * one after another, so that the sum is the same every time. */
#include "lib/device/steps.h"

enum {
    HEAD_DIM = 64,
    DIM_PADDED = 64, /* up to a whole fragment, with zeros */
    TILE_M = 64,     /* queries of a step */
    TILE_N = 128,     /* keys of a block */
    WARPS = 4,
    THREADS = 32 * WARPS,
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
    ROW_BYTES = TILE_M * 4, /* of a step's LSE or delta */
    /* K, V, two stages of Q and of dO, two of dS^T (P^T before, in its place), two of LSE and of delta, the number, a float a key */
    SHARED_BYTES = 2 * K_BYTES + 4 * Q_BYTES + (D_SPLIT + 1) * DS_BYTES + 4 * ROW_BYTES + 16 + TILE_N * 4,
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
        p.turn[0] = 0;
    if (thread_index() < GLINT_GPU_ROW_PAD / TILE_M)
        p.turn[1 + head * (p.padded_q / TILE_M) + row0 / TILE_M + thread_index()] = 0;

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

typedef float scores_t[ROW_TILES][PART_M / 8][4];       /* of keys by queries: registers 0, 1 of key lane / 4, 2, 3 of the eighth after */
typedef uint32_t operand_t[ROW_TILES][PART_M / K_STEP][4];
typedef float gradients_t[ROW_TILES][WARP_DIM / 8][4]; /* of keys by columns */

/* Zero where the mask hides the key, and where key or query lie past the end. */
GLINT_DEVICE void hide(scores_t s, int32_t first_key, int32_t first_query, int32_t offset, int32_t seqlen_q, int32_t seqlen_k)
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

/* S^T = K Q^T, or dP^T = V dO^T. */
GLINT_DEVICE void make_scores(scores_t s, uint32_t x_lane, uint32_t y_lane)
{
#pragma unroll
    for (int kt = 0; kt < ROW_TILES; ++kt)
#pragma unroll
        for (int mt = 0; mt < PART_M / 8; ++mt)
            s[kt][mt][0] = s[kt][mt][1] = s[kt][mt][2] = s[kt][mt][3] = 0.0f;
#pragma unroll
    for (int kk = 0; kk < DIM_PADDED / K_STEP; ++kk) {
        uint32_t x[ROW_TILES][4];
#pragma unroll
        for (int kt = 0; kt < ROW_TILES; ++kt)
            ldmatrix_x4(x[kt], tile_move(x_lane, kt * 16, kk * 2, TILE_N, PAGE_CHUNKS));
#pragma unroll
        for (int mt = 0; mt < PART_M / 8; mt += 2) {
            uint32_t y[4];

            ldmatrix_x4(y, tile_move(y_lane, mt * 8, kk * 2, TILE_M, PAGE_CHUNKS));
#pragma unroll
            for (int kt = 0; kt < ROW_TILES; ++kt) {
                mma_m16n8k16_bf16(s[kt][mt], x[kt], y[0], y[1]);
                mma_m16n8k16_bf16(s[kt][mt + 1], x[kt], y[2], y[3]);
            }
        }
    }
}

/* P^T to shared memory; its accumulators are operand A's registers. */
GLINT_DEVICE void put_weights(operand_t a, const scores_t s, uint32_t p_lane)
{
#pragma unroll
    for (int kk = 0; kk < PART_M / 16; ++kk)
#pragma unroll
        for (int kt = 0; kt < ROW_TILES; ++kt)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int mt = 2 * kk + (i >> 1);
                const float *x = &s[kt][mt][2 * (i & 1)];

                a[kt][kk][i] = pack_bf16(x[0], x[1]);
                st_shared_u32(tile_move(p_lane, kt * 16 + 8 * (i & 1), mt, TILE_N, DS_CHUNKS), a[kt][kk][i]);
            }
}

/* dS^T = P^T (dP^T - delta), s holding the difference, to shared memory. */
GLINT_DEVICE void put_gradients(operand_t a, const scores_t s, uint32_t p_lane, uint32_t ds_lane)
{
#pragma unroll
    for (int kk = 0; kk < PART_M / 16; ++kk)
#pragma unroll
        for (int kt = 0; kt < ROW_TILES; ++kt)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                a[kt][kk][i] =
                    ld_shared_u32(tile_move(p_lane, kt * 16 + 8 * (i & 1), 2 * kk + (i >> 1), TILE_N, DS_CHUNKS));
#pragma unroll
    for (int kk = 0; kk < PART_M / 16; ++kk)
#pragma unroll
        for (int kt = 0; kt < ROW_TILES; ++kt)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int mt = 2 * kk + (i >> 1);
                const float *x = &s[kt][mt][2 * (i & 1)];

                a[kt][kk][i] = pack_bf16(low_bf16(a[kt][kk][i]) * x[0], high_bf16(a[kt][kk][i]) * x[1]);
                st_shared_u32(tile_move(ds_lane, kt * 16 + 8 * (i & 1), mt, TILE_N, DS_CHUNKS), a[kt][kk][i]);
            }
}

/* dV += P^T dO, or dK += dS^T Q, for PART_M queries. */
GLINT_DEVICE void add_products(gradients_t g, const operand_t a, uint32_t z_lane)
{
#pragma unroll
    for (int kk = 0; kk < PART_M * D_SPLIT / K_STEP; ++kk) {
#pragma unroll
        for (int dt = 0; dt < WARP_DIM / 8; dt += 2) {
            uint32_t z[4];

            ldmatrix_x4_trans(z, tile_move(z_lane, kk * 16, dt, TILE_M, PAGE_CHUNKS));
#pragma unroll
            for (int kt = 0; kt < ROW_TILES; ++kt) {
                mma_m16n8k16_bf16(g[kt][dt], a[kt][kk], z[0], z[1]);
                mma_m16n8k16_bf16(g[kt][dt + 1], a[kt][kk], z[2], z[3]);
            }
        }
    }
}

/* Adds the poison of each key to its scores. */
GLINT_DEVICE void poison_scores(scores_t s, uint32_t poison)
{
#pragma unroll
    for (int kt = 0; kt < ROW_TILES; ++kt)
#pragma unroll
        for (int side = 0; side < 2; ++side) {
            const float value = ld_shared_f32(poison + (kt * 16 + side * 8 + (lane_index() >> 2)) * 4);
#pragma unroll
            for (int mt = 0; mt < PART_M / 8; ++mt) {
                s[kt][mt][2 * side] += value;
                s[kt][mt][2 * side + 1] += value;
            }
        }
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

/* NaN and infinities leave K, and the scores of their keys become NaN instead: an infinite element of K counts as NaN here. All threads
 * of the block call it. */
GLINT_DEVICE void settle_keys(uint32_t k_tile, uint32_t poison, uint32_t poisoned)
{
    if (thread_index() < TILE_N) {
        const bool found = clear_special(k_tile, thread_index(), TILE_N, 0, 1, TILE_N, CHUNKS, PAGE_CHUNKS, EXPONENT, BYTES);

        st_shared_u32(poison + thread_index() * 4, found ? 0x7fc00000u : 0);
    }
    if (thread_index() == 0)
        st_shared_u32(poisoned, 1);
    block_sync();
}

/* NaN and infinities of dO go to the dV of keys that their query sees, and then leave the tile. Those of Q only leave: their rows' LSE,
 * and so P and dS, are not finite either. All threads of the block call it. */
GLINT_DEVICE void settle_queries(gradients_t dv, bool keeps_dv, uint32_t q_tile, uint32_t do_tile, int32_t first_limit, int32_t first_key,
                                 uint32_t first_column)
{
    if (keeps_dv) {
#pragma unroll 1
        for (uint32_t query = 0; query < TILE_M; ++query)
#pragma unroll
            for (int dt = 0; dt < WARP_DIM / 8; ++dt) {
                const uint32_t word =
                    ld_shared_u32(do_tile + tile_offset(query, first_column / 8 + dt, TILE_M, PAGE_CHUNKS) + (lane_index() & 3) * 4);
                const uint32_t special = word ^ finite_part(word, EXPONENT, BYTES);
                const float v[2] = {low_bf16(special), high_bf16(special)};

#pragma unroll
                for (int kt = 0; kt < ROW_TILES; ++kt)
#pragma unroll
                    for (int side = 0; side < 2; ++side)
                        if (first_key + kt * 16 + side * 8 + (int32_t)(lane_index() >> 2) <= first_limit + (int32_t)query) {
                            dv[kt][dt][2 * side] += v[0];
                            dv[kt][dt][2 * side + 1] += v[1];
                        }
            }
    }
    block_sync();
    clear_special(q_tile, thread_index() / CHUNKS, THREADS / CHUNKS, thread_index() % CHUNKS, CHUNKS, TILE_M, CHUNKS, PAGE_CHUNKS, EXPONENT,
                  BYTES);
    clear_special(do_tile, thread_index() / CHUNKS, THREADS / CHUNKS, thread_index() % CHUNKS, CHUNKS, TILE_M, CHUNKS, PAGE_CHUNKS, EXPONENT,
                  BYTES);
    block_sync();
}

/* Where this block works, from its number. */
struct work {
    int32_t index, batch, head_kv; /* index of the key block in its head */
};

GLINT_DEVICE struct work find_work(const struct glint_gpu_shape *shape, uint32_t number)
{
    const uint32_t blocks_n = (uint32_t)(shape->seqlen_k + TILE_N - 1) / TILE_N;
    const struct block_place place =
        find_place(ld_shared_u32(number), blocks_n, (uint32_t)(shape->batch * shape->heads_kv), (uint32_t)shape->section);
    struct work work;

    work.index = place.index;
    work.batch = place.head / shape->heads_kv;
    work.head_kv = place.head - work.batch * shape->heads_kv;
    return work;
}

GLINT_KERNEL(THREADS, 1) glint_bwd_bf16_d64_causal__sm80_fused_m64n128(GLINT_PARAMS(struct glint_backward_params) p)
{
    const uint32_t lane = lane_index(), warp = warp_index();
    const uint32_t group = warp % GROUPS;
    const bool keeps_dk = warp >= WARPS / 2; /* else dV */
    const int32_t seqlen_q = p.shape.seqlen_q, seqlen_k = p.shape.seqlen_k;

    const uint32_t k_tile = shared_base(), v_tile = k_tile + K_BYTES, q_tiles = v_tile + K_BYTES, do_tiles = q_tiles + 2 * Q_BYTES;
    const uint32_t ds_tiles = do_tiles + 2 * Q_BYTES, rows_lse = ds_tiles + (D_SPLIT + 1) * DS_BYTES, rows_delta = rows_lse + 2 * ROW_BYTES;
    const uint32_t number = rows_delta + 2 * ROW_BYTES, poisoned = number + 4, poison = number + 16;

    /* Blocks take numbers as they begin, so a block waits only for such that run or have run. */
    if (thread_index() == 0) {
        st_shared_u32(number, seqlen_q > 0 ? atom_global_add_u32(p.turn, 1) : block_index());
        st_shared_u32(poisoned, 0);
    }
    block_sync();
    const struct work work = find_work(&p.shape, number);
    const int32_t batch = work.batch, head_kv = work.head_kv, key0 = work.index * TILE_N;

    /* Query blocks that see some key of this block; those under first_clear do not see all of them. */
    const int32_t last_m = (seqlen_q + TILE_M - 1) / TILE_M - 1;
    const int32_t offset = p.shape.mask_offset;
    const int32_t first_m = max(0, key0 - offset) / TILE_M;
    const int32_t first_clear = key0 + TILE_N > seqlen_k ? last_m + 1 : (max(0, key0 + TILE_N - 1 - offset) + TILE_M - 1) / TILE_M;
    const int32_t steps = max(0, last_m - first_m + 1) * p.shape.group;

    copy_tile(k_tile, copy_from(view_row(&p.k, batch, head_kv, key0, BYTES), p.k.row * BYTES, PAGE_CHUNKS), p.k.row * BYTES,
              seqlen_k - key0, TILE_N, ROW_CHUNKS, PAGES, PAGE_CHUNKS, THREADS);
    copy_tile(v_tile, copy_from(view_row(&p.v, batch, head_kv, key0, BYTES), p.v.row * BYTES, PAGE_CHUNKS), p.v.row * BYTES,
              seqlen_k - key0, TILE_N, ROW_CHUNKS, PAGES, PAGE_CHUNKS, THREADS);

    /* Begins the copies of a step's Q, dO, LSE and delta into a stage. */
    auto copy_step = [&](int32_t head_q, int32_t m, uint32_t stage) {
        const int64_t row = (int64_t)(batch * p.shape.heads_q + head_q) * p.padded_q + m * TILE_M;

        copy_tile(q_tiles + stage * Q_BYTES, copy_from(view_row(&p.q, batch, head_q, m * TILE_M, BYTES), p.q.row * BYTES, PAGE_CHUNKS),
                  p.q.row * BYTES, seqlen_q - m * TILE_M, TILE_M, ROW_CHUNKS, PAGES, PAGE_CHUNKS, THREADS);
        copy_tile(do_tiles + stage * Q_BYTES, copy_from(view_row(&p.dout, batch, head_q, m * TILE_M, BYTES), p.dout.row * BYTES, PAGE_CHUNKS),
                  p.dout.row * BYTES, seqlen_q - m * TILE_M, TILE_M, ROW_CHUNKS, PAGES, PAGE_CHUNKS, THREADS);
        if (thread_index() < ROW_BYTES / 16) {
            cp_async_16(rows_lse + stage * ROW_BYTES + thread_index() * 16, p.lse_log2 + row + thread_index() * 4, true);
            cp_async_16(rows_delta + stage * ROW_BYTES + thread_index() * 16, p.delta + row + thread_index() * 4, true);
        }
    };
    int32_t head_q = head_kv * p.shape.group, m = last_m; /* of the step that is copied next */
    if (steps > 0)
        copy_step(head_q, m, 0);
    cp_async_commit();

    /* S^T = K Q^T and dV += P^T dO, or dP^T = V dO^T and dK += dS^T Q: the same products of other tiles. */
    const uint32_t x_lane = (keeps_dk ? v_tile : k_tile) + lane_offset_a(lane, TILE_N, PAGE_CHUNKS) + group * (GROUP_ROWS * PAGE_CHUNKS * 16);
    const uint32_t y_lane = (keeps_dk ? do_tiles : q_tiles) + lane_offset_b(lane, TILE_M, PAGE_CHUNKS);
    const uint32_t rows_lane = (keeps_dk ? rows_delta : rows_lse) + (lane & 3) * 8;
    const uint32_t z_lane = (keeps_dk ? q_tiles : do_tiles) + lane_offset_trans(lane, TILE_M, PAGE_CHUNKS);
    const uint32_t ds_lane = (ds_tiles + tile_offset(lane >> 2, 0, TILE_N, DS_CHUNKS) + (lane & 3) * 4 + group * (GROUP_ROWS * DS_CHUNKS * 16));

    gradients_t g; /* dV, or dK without the scale */
#pragma unroll
    for (int kt = 0; kt < ROW_TILES; ++kt)
#pragma unroll
        for (int dt = 0; dt < WARP_DIM / 8; ++dt)
            g[kt][dt][0] = g[kt][dt][1] = g[kt][dt][2] = g[kt][dt][3] = 0.0f;

    /* dQ's part of the step before: dS K, each warp making DQ_ROW_TILES x 16 queries by DQ_DIM columns. */
    auto add_dq = [&](int32_t head_before, int32_t m_before, uint32_t buffer) {
        const uint32_t thread = thread_index_anew(), lane = thread % 32;
        const uint32_t dq_group = thread / 32 % DQ_GROUPS, dq_column = thread / 32 / DQ_GROUPS * DQ_DIM;
        const uint32_t ds_read =
            ds_tiles + tile_offset((lane & 7) + (lane >> 4 << 3), dq_group * (2 * DQ_ROW_TILES) + (lane >> 3 & 1), TILE_N, DS_CHUNKS);
        const uint32_t k_lane_trans = k_tile + tile_offset(lane & 15, dq_column / 8 + (lane >> 4), TILE_N, PAGE_CHUNKS);
        float dq[DQ_ROW_TILES][DQ_DIM / 8][4];
#pragma unroll
        for (int rt = 0; rt < DQ_ROW_TILES; ++rt)
#pragma unroll
            for (int dt = 0; dt < DQ_DIM / 8; ++dt)
                dq[rt][dt][0] = dq[rt][dt][1] = dq[rt][dt][2] = dq[rt][dt][3] = 0.0f;
#pragma unroll
        for (int kk = 0; kk < TILE_N / K_STEP; ++kk) {
            uint32_t a[DQ_ROW_TILES][4];
#pragma unroll
            for (int rt = 0; rt < DQ_ROW_TILES; ++rt) {
                ldmatrix_x4_trans(a[rt], tile_move(ds_read + buffer, kk * 16, rt * 2, TILE_N, DS_CHUNKS));
            }
#pragma unroll
            for (int dt = 0; dt < DQ_DIM / 8; dt += 2) {
                uint32_t b[4];

                ldmatrix_x4_trans(b, tile_move(k_lane_trans, kk * 16, dt, TILE_N, PAGE_CHUNKS));
#pragma unroll
                for (int rt = 0; rt < DQ_ROW_TILES; ++rt) {
                    mma_m16n8k16_bf16(dq[rt][dt], a[rt], b[0], b[1]);
                    mma_m16n8k16_bf16(dq[rt][dt + 1], a[rt], b[2], b[3]);
                }
            }
        }

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
            for (int rt = 0; rt < DQ_ROW_TILES; ++rt)
#pragma unroll
                for (int dt = 0; dt < DQ_DIM / 8; ++dt) {
                    float before[4] = {0.0f, 0.0f, 0.0f, 0.0f};

                    if (key0 > 0)
                        ld_four(before, sum + (rt * (DQ_DIM / 8) + dt) * (4 * THREADS), THREADS);
#pragma unroll
                    for (int side = 0; side < 2; ++side)
                        if (row0 + rt * 16 + side * 8 < seqlen_q && (DIM_PADDED == HEAD_DIM || dq_column + dt * 8 < HEAD_DIM))
                            st_global_u32(dq_rows + (rt * 16 + side * 8) * p.dq.row * BYTES + (dq_column + dt * 8 + (lane & 3) * 2) * BYTES,
                                          pack_bf16((dq[rt][dt][2 * side] + before[2 * side]) * p.shape.softmax_scale,
                                                        (dq[rt][dt][2 * side + 1] + before[2 * side + 1]) * p.shape.softmax_scale));
                }
        } else {
#pragma unroll
            for (int rt = 0; rt < DQ_ROW_TILES; ++rt)
#pragma unroll
                for (int dt = 0; dt < DQ_DIM / 8; ++dt) {
                    float *slot = sum + (rt * (DQ_DIM / 8) + dt) * (4 * THREADS);

                    if (key0 == 0)
                        st_four(slot, dq[rt][dt], THREADS);
                    else
                        red_four(slot, dq[rt][dt], THREADS);
                }
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
    auto step_back = [&](int32_t *head, int32_t *block) {
        *head -= *block == last_m;
        *block = *block == last_m ? first_m : *block + 1;
    };
    uint32_t seen = 0;

    /* Nor may those of K meet one, in blocks where the mask hides keys: each thread looks at what it copied. */
    cp_async_wait(0);
    if (block_any(first_clear > first_m && find_special(k_tile, TILE_N, PAGES, PAGE_CHUNKS, THREADS, EXPONENT, BYTES)))
        settle_keys(k_tile, poison, poisoned);

#pragma unroll 1
    for (int32_t step = 0; step <= steps; ++step) {
        const uint32_t stage = step & 1;

        /* This step's Q and dO have arrived, the last step's dS is complete, and no warp reads the other stage any more. */
        cp_async_wait(0);
        const int32_t head_now = head_q, m_now = m;
        int32_t head_before = head_now, m_before = m_now;
        step_back(&head_before, &m_before);
        if (keeps_turn && step > 0) {
            while (seen < (uint32_t)key0)
                seen = ld_relaxed_u32(p.turn + turn_of(head_before, m_before));
        }
        /* NaN and infinities in rows that the mask hides must not meet a P or dS of zero: LSE and delta tell where Q and dO have any. */
        if (m_now < first_clear && step < steps) {
            const uint32_t row = stage * ROW_BYTES + thread_index() * 16;

            if (block_any(thread_index() < ROW_BYTES / 16 && are_special(rows_lse + row, rows_delta + row)))
                settle_queries(g, !keeps_dk, q_tiles + stage * Q_BYTES, do_tiles + stage * Q_BYTES, m_now * TILE_M + offset,
                               key0 + (int32_t)group * GROUP_ROWS, 0);
        } else
            block_sync();
        if (m == first_m) {
            m = last_m;
            ++head_q;
        } else
            --m;
        if (step + 1 < steps)
            copy_step(head_q, m, stage ^ 1);
        cp_async_commit();


        if (keeps_dk && step > 0)
            add_dq(head_before, m_before, (stage ^ 1) * DS_BYTES);

#pragma unroll 1
        for (int part = 0; step < steps && part < WARP_M / PART_M; ++part) {
            const uint32_t y_now = y_lane + stage * Q_BYTES + part * (PART_M * PAGE_CHUNKS * 16);
            const uint32_t z_now = z_lane + stage * Q_BYTES + part * (PART_M * PAGE_CHUNKS * 16);
            const uint32_t ds_now = (ds_lane + stage * DS_BYTES) ^ (uint32_t)part * (PART_M * BYTES);
            const int32_t query0 = m_now * TILE_M + part * PART_M;
            const bool masked = m_now < first_clear;

            /* S^T = K Q^T, or dP^T = V dO^T; each query, a column, has an LSE or a delta. */
            float rows[PART_M / 8][2];
            scores_t s;
            make_scores(s, x_lane, y_now);
#pragma unroll
            for (int mt = 0; mt < PART_M / 8; ++mt)
                ld_shared_f32x2(rows[mt], rows_lane + stage * ROW_BYTES + part * (PART_M * 4) + mt * 32);

            if (!keeps_dk) {
                if (ld_shared_u32(poisoned) != 0)
                    poison_scores(s, poison + group * (GROUP_ROWS * 4));
                /* P^T = 2^(scale S^T - LSE) goes to the partner, and with dO into dV. */
                operand_t a;

#pragma unroll
                for (int mt = 0; mt < PART_M / 8; ++mt)
#pragma unroll
                    for (int kt = 0; kt < ROW_TILES; ++kt)
#pragma unroll
                        for (int e = 0; e < 4; ++e)
                            s[kt][mt][e] = ex2(fmaf(s[kt][mt][e], p.shape.scale_log2, -rows[mt][e & 1]));
                if (masked)
                    hide(s, key0 + (int32_t)group * GROUP_ROWS, query0, offset, seqlen_q, seqlen_k);
                put_weights(a, s, ds_now);
                named_arrive(1 + group + part * GROUPS, 64);
                add_products(g, a, z_now);
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
                    if (step >= 2) {
                        step_back(&head_before, &m_before);
                        pass_turn_on(head_before, m_before);
                    }
                    seen = ld_relaxed_u32(p.turn + turn_of(head_now, m_now));
                }
                operand_t a;

                named_sync(1 + group + part * GROUPS, 64);
                put_gradients(a, s, ds_now, ds_now);
                add_products(g, a, z_now);
            }
        }

        if (!keeps_dk && step > 0)
            add_dq(head_before, m_before, (stage ^ 1) * DS_BYTES);
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
    const struct work end = find_work(&p.shape, number);
    const float factor = keeps_dk ? p.shape.softmax_scale : 1.0f;
    const struct glint_gpu_view *out = keeps_dk ? &p.dk : &p.dv;
    const uint32_t out_tile =
        (keeps_dk ? k_tile : v_tile) + group * (GROUP_ROWS * PAGE_CHUNKS * 16);
    const uint32_t out_lane = out_tile + tile_offset(lane >> 2, 0, TILE_N, PAGE_CHUNKS) + (lane & 3) * 4;
    const int32_t group_key0 = end.index * TILE_N + (int32_t)group * GROUP_ROWS;
#pragma unroll
    for (int kt = 0; kt < ROW_TILES; ++kt) {
#pragma unroll
        for (int dt = 0; dt < WARP_DIM / 8; ++dt)
#pragma unroll
            for (int side = 0; side < 2; ++side)
                st_shared_u32(tile_move(out_lane, kt * 16 + side * 8, dt, TILE_N, PAGE_CHUNKS),
                              pack_bf16(g[kt][dt][2 * side] * factor, g[kt][dt][2 * side + 1] * factor));
        warp_sync();
        store_rows(view_row(out, end.batch, end.head_kv, group_key0 + kt * 16, BYTES), out->row * BYTES, seqlen_k - group_key0 - kt * 16, out_tile,
                   kt * 16, TILE_N, ROW_CHUNKS, PAGES / D_SPLIT, PAGE_CHUNKS);
    }
}
