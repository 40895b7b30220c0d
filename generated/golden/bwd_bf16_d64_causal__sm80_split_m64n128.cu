/* bwd_bf16_d64_causal__sm80_split_m64n128
 *
 * Attention, backward: dQ, dK, dV from Q, K, V, O, LSE, dO; bf16, head_dim 64, causal, both alignments.
 * For sm_80.
 * Tile: 64 queries x 128 keys; split, 4 warps, 1 block a multiprocessor.
 * Shared memory of a block: 82976 bytes.
 * For dQ: 128 queries x 64 keys; 4 warps, 1 block a multiprocessor, 65536 bytes.
 *
 * Made from gen/templates/sm80_bwd.cu.lua by
 *   lua5.4 gen/glint.lua emit --spec generated/golden/golden.lua --variant bwd_bf16_d64_causal__sm80_split_m64n128
 * and overwritten by it: change the template or the spec. */

/* First delta. Then one block of 4 warps owns 128 keys of one head and walks over the queries in blocks of 64, last block first.
 * Two warps share 64 keys: one makes P^T and keeps dV, the other makes dP^T and dS^T and keeps dK.
 * Products are transposed (keys by queries), so that accumulators are operands of the next product.
 * Last, one block of 4 warps owns 128 queries and walks over the keys for dQ: it makes P and dS once more, but no sum crosses blocks. */
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
    DS_STAGES = 1, /* of dS^T */
    P_PLACE = 0, /* of P^T, and no dS^T is there */
    PHASES = 4, /* barriers through which P^T is passed on */
    ROW_BYTES = TILE_M * 4, /* of a step's LSE or delta */
    /* K, V, stages of Q and of dO, P^T and dS^T, stages of LSE and of delta, barriers */
    SHARED_BYTES = 2 * K_BYTES + 2 * STAGES * Q_BYTES + (DS_STAGES + D_SPLIT - 1) * DS_BYTES + 2 * STAGES * ROW_BYTES + 8 * PHASES,
};

/* delta = rowsum(dO o O) and LSE in powers of two, for GLINT_GPU_ROW_PAD queries of one head; a row that sees no key, or lies past the
 * end, gets LSE = +inf, which makes its P exactly 0.
 * A row whose dO holds NaN or infinity has a delta that is neither finite; of a row that sees no key, neither is it when its Q does. */
GLINT_KERNEL(256, 1) glint_bwd_bf16_d64_causal__sm80_split_m64n128_delta(GLINT_PARAMS(struct glint_backward_params) p)
{
    enum { LANES = ROW_CHUNKS <= 8 ? 8 : ROW_CHUNKS <= 16 ? 16 : 32, ROWS = 32 / LANES }; /* lanes a row, rows a warp at a time */
    const uint32_t lane = lane_index() % LANES;
    const int32_t blocks = (p.shape.seqlen_q + GLINT_GPU_ROW_PAD - 1) / GLINT_GPU_ROW_PAD;
    const int32_t head = (int32_t)block_index() / blocks, row0 = ((int32_t)block_index() - head * blocks) * GLINT_GPU_ROW_PAD;
    const int32_t batch = head / p.shape.heads_q, head_q = head - batch * p.shape.heads_q;


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

                for (uint32_t chunk = lane; chunk < ROW_CHUNKS; chunk += LANES) {
                    uint32_t q[4];

                    ld_global_u32x4(q, q_row + chunk * 16);
                    for (int i = 0; i < 4; ++i)
                        if (finite_part(q[i], EXPONENT, BYTES) != q[i])
                            sum = GLINT_INFINITY;
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

/* ---- dK and dV: a block owns TILE_N keys ---- */

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

/* Where this block works, from its number. */
struct work {
    int32_t index, batch, head_kv; /* index of the key block in its head */
};

GLINT_DEVICE struct work find_work(const struct glint_gpu_shape *shape, uint32_t number)
{
    const uint32_t blocks_n = (uint32_t)(shape->seqlen_k + TILE_N - 1) / TILE_N;
    const struct block_place place =
        find_place(number, blocks_n, (uint32_t)(shape->batch * shape->heads_kv), (uint32_t)shape->section);
    struct work work;

    work.index = place.index;
    work.batch = place.head / shape->heads_kv;
    work.head_kv = place.head - work.batch * shape->heads_kv;
    return work;
}

GLINT_KERNEL(THREADS, 1) glint_bwd_bf16_d64_causal__sm80_split_m64n128(GLINT_PARAMS(struct glint_backward_params) p)
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
    block_sync();

    const struct work work = find_work(&p.shape, block_index());
    const int32_t batch = work.batch, head_kv = work.head_kv, key0 = work.index * TILE_N;

    /* Query blocks that see some key of this block, those under first_clear do not see all of them. */
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
    int32_t head_q = head_kv * p.shape.group, m = last_m; /* of the step that is copied next */
    if (steps > 0)
        copy_step(head_q, m, 0);
    cp_async_commit();

    /* S^T = K Q^T and dV += P^T dO, or dP^T = V dO^T and dK += dS^T Q: the same products of other tiles. */
    const uint32_t x_lane = (keeps_dk ? v_tile : k_tile) + lane_offset_a(lane, TILE_N, PAGE_CHUNKS) + group * (GROUP_ROWS * PAGE_CHUNKS * 16);
    const uint32_t y_lane = (keeps_dk ? do_tiles : q_tiles) + lane_offset_b(lane, TILE_M, PAGE_CHUNKS);
    const uint32_t rows_lane = (keeps_dk ? rows_delta : rows_lse) + (lane & 3) * 8;
    const uint32_t z_lane = (keeps_dk ? q_tiles : do_tiles) + lane_offset_trans(lane, TILE_M, PAGE_CHUNKS);
    const uint32_t ds_lane = (ds_tiles + lane_offset_pairs(lane, TILE_N, DS_CHUNKS) + group * (GROUP_ROWS * DS_CHUNKS * 16));

    gradients_t g; /* dV, or dK without the scale */
    set_zero(g);

#pragma unroll 1
    for (int32_t step = 0; step < steps; ++step) {
        /* Stages: of the step whose Q and dO have arrived, of the one after, and of this warp's. */
        const uint32_t front = step & 1, next = front ^ 1, stage = front;

        /* This step's Q and dO have arrived, and no warp reads the next stage any more. */
        cp_async_wait(0);
        const int32_t m_front = m;
        const int32_t m_now = m;
        /* NaN and infinities in rows that the mask hides must not meet a P or dS of zero: LSE and delta tell where Q and dO have any. */
        if (m_front < first_clear) {
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

#pragma unroll 1
        for (int part = 0; part < WARP_M / PART_M; ++part) {
            const uint32_t y_now = y_lane + stage * Q_BYTES + part * (PART_M * PAGE_CHUNKS * 16);
            const uint32_t z_now = z_lane + stage * Q_BYTES + part * (PART_M * PAGE_CHUNKS * 16);
            const uint32_t ds_now = (ds_lane) ^ (uint32_t)part * (PART_M * BYTES);
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
                mbarrier_wait(phase + part * (GROUPS * 8), stage);
                times_weights(s, p_now);
                add_products(g, s, z_now);
            }
        }
    }

    /* dK and dV go through this group's own rows of the K and V tiles to 16-byte stores. */
    cp_async_wait(0);
    block_sync();
    const struct work end = find_work(&p.shape, block_index());
    const float factor = keeps_dk ? p.shape.softmax_scale : 1.0f;
    const struct glint_gpu_view *out = keeps_dk ? &p.dk : &p.dv;
    const uint32_t out_tile =
        (keeps_dk ? k_tile : v_tile) + group * (GROUP_ROWS * PAGE_CHUNKS * 16);
    const uint32_t out_lane = out_tile + lane_offset_pairs(lane, TILE_N, PAGE_CHUNKS);
    const int32_t group_key0 = end.index * TILE_N + (int32_t)group * GROUP_ROWS;
#pragma unroll
    for (int kt = 0; kt < ROW_TILES; ++kt) {
        stage_rows(out_lane, g[kt], factor, kt * 16, TILE_N);
        warp_sync();
        store_rows(view_row(out, end.batch, end.head_kv, group_key0 + kt * 16, BYTES), out->row * BYTES, seqlen_k - group_key0 - kt * 16, out_tile,
                   kt * 16, TILE_N, ROW_CHUNKS, PAGES / D_SPLIT, PAGE_CHUNKS);
    }
}

/* ---- dQ: a block owns DQ_M queries, a warp DQ_ROWS of them, and walks over the keys in blocks of DQ_N, last block first ---- */

enum {
    DQ_M = 128,
    DQ_N = 64,
    DQ_WARPS = 4,
    DQ_THREADS = 32 * DQ_WARPS,
    DQ_ROW_TILES = 2, /* fragments of 16 queries that a warp owns */
    DQ_ROWS = 16 * DQ_ROW_TILES,
    DQ_Q_BYTES = DQ_M * DIM_PADDED * BYTES,
    DQ_K_BYTES = DQ_N * DIM_PADDED * BYTES,
    DQ_SHARED_BYTES = 2 * DQ_Q_BYTES + 4 * DQ_K_BYTES, /* Q, dO, two stages of K and of V */
};

typedef float query_scores_t[DQ_ROW_TILES][DQ_N / 8][4]; /* of queries by keys */

/* Zero where the mask hides the key, and where the key lies past the end. */
GLINT_DEVICE void hide_keys(query_scores_t &s, int32_t first_query, int32_t first_key, int32_t offset, int32_t seqlen_k)
{
#pragma unroll
    for (int rt = 0; rt < DQ_ROW_TILES; ++rt)
#pragma unroll
        for (int side = 0; side < 2; ++side) {
            const int32_t query = first_query + rt * 16 + side * 8 + (int32_t)(lane_index() >> 2);
            const int32_t last = min(query + offset, seqlen_k - 1) - first_key - 2 * (int32_t)(lane_index() & 3);
#pragma unroll
            for (int nt = 0; nt < DQ_N / 8; ++nt) {
                s[rt][nt][2 * side] = nt * 8 > last ? 0.0f : s[rt][nt][2 * side];
                s[rt][nt][2 * side + 1] = nt * 8 + 1 > last ? 0.0f : s[rt][nt][2 * side + 1];
            }
        }
}

/* Where this block works: the last queries see the most keys, so they come first. */
struct query_work {
    int32_t query0, batch, head_q, head; /* first query; head is batch * heads_q + head_q */
};

GLINT_DEVICE struct query_work find_query_work(const struct glint_gpu_shape *shape)
{
    const int32_t blocks_m = (shape->seqlen_q + DQ_M - 1) / DQ_M;
    const struct block_place place =
        find_place(block_index(), (uint32_t)blocks_m, (uint32_t)(shape->batch * shape->heads_q), (uint32_t)(shape->section * shape->group));
    struct query_work work;

    work.query0 = (blocks_m - 1 - place.index) * DQ_M;
    work.head = place.head;
    work.batch = place.head / shape->heads_q;
    work.head_q = place.head - work.batch * shape->heads_q;
    return work;
}

GLINT_KERNEL(DQ_THREADS, 1) glint_bwd_bf16_d64_causal__sm80_split_m64n128_dq(GLINT_PARAMS(struct glint_backward_params) p)
{
    const uint32_t lane = lane_index(), warp = warp_index();
    const int32_t seqlen_q = p.shape.seqlen_q, seqlen_k = p.shape.seqlen_k;
    const struct query_work work = find_query_work(&p.shape);
    const int32_t query0 = work.query0, warp_query0 = query0 + (int32_t)warp * DQ_ROWS;
    const int32_t head_kv = work.head_q / p.shape.group;

    /* Keys that some query of the block sees, and the first key block that holds one which some query does not see. */
    const int32_t offset = p.shape.mask_offset;
    const int32_t keys = max(0, min(seqlen_k, min(query0 + DQ_M, seqlen_q) + offset));
    const int32_t first_masked = max(0, min(seqlen_k, query0 + offset + 1)) / DQ_N;
    int32_t block = (keys + DQ_N - 1) / DQ_N - 1;

    const uint32_t q_tile = shared_base(), do_tile = q_tile + DQ_Q_BYTES, k_tiles = do_tile + DQ_Q_BYTES;
    const uint32_t q_lane = q_tile + lane_offset_a(lane, DQ_M, PAGE_CHUNKS) + warp * (DQ_ROWS * PAGE_CHUNKS * 16);
    uint32_t k_lane = k_tiles + lane_offset_b(lane, DQ_N, PAGE_CHUNKS);
    uint32_t k_lane_trans = k_tiles + lane_offset_trans(lane, DQ_N, PAGE_CHUNKS);
    const int64_t k_row_bytes = p.k.row * BYTES, v_row_bytes = p.v.row * BYTES;
    const int32_t key_last = max(0, block) * DQ_N;
    const char *k_from = copy_from(view_row(&p.k, work.batch, head_kv, key_last, BYTES), k_row_bytes, PAGE_CHUNKS);
    const char *v_from = copy_from(view_row(&p.v, work.batch, head_kv, key_last, BYTES), v_row_bytes, PAGE_CHUNKS);

    copy_tile(q_tile, copy_from(view_row(&p.q, work.batch, work.head_q, query0, BYTES), p.q.row * BYTES, PAGE_CHUNKS), p.q.row * BYTES,
              seqlen_q - query0, DQ_M, ROW_CHUNKS, PAGES, PAGE_CHUNKS, DQ_THREADS);
    copy_tile(do_tile, copy_from(view_row(&p.dout, work.batch, work.head_q, query0, BYTES), p.dout.row * BYTES, PAGE_CHUNKS), p.dout.row * BYTES,
              seqlen_q - query0, DQ_M, ROW_CHUNKS, PAGES, PAGE_CHUNKS, DQ_THREADS);

    /* A stage is K and after it V. */
    auto copy_step = [&](uint32_t stage, int32_t valid_keys) {
        copy_tile(k_tiles + stage, k_from, k_row_bytes, valid_keys, DQ_N, ROW_CHUNKS, PAGES, PAGE_CHUNKS, DQ_THREADS);
        copy_tile(k_tiles + stage + DQ_K_BYTES, v_from, v_row_bytes, valid_keys, DQ_N, ROW_CHUNKS, PAGES, PAGE_CHUNKS, DQ_THREADS);
    };
    if (block >= 0)
        copy_step(0, seqlen_k - key_last);
    cp_async_commit();

    float lse[DQ_ROW_TILES][2], delta[DQ_ROW_TILES][2]; /* of this lane's queries */
#pragma unroll
    for (int rt = 0; rt < DQ_ROW_TILES; ++rt)
#pragma unroll
        for (int side = 0; side < 2; ++side) {
            const int64_t row = work.head * p.padded_q + warp_query0 + rt * 16 + side * 8 + (int32_t)(lane >> 2);

            lse[rt][side] = ld_global_f32(p.lse_log2 + row);
            delta[rt][side] = ld_global_f32(p.delta + row);
        }

    float dq[DQ_ROW_TILES][DIM_PADDED / 8][4]; /* without the scale */
    set_zero(dq);

    int32_t to_other = -2 * DQ_K_BYTES; /* from this block's stage to the other */
    k_lane += 2 * DQ_K_BYTES;
    k_lane_trans += 2 * DQ_K_BYTES;
#pragma unroll 1
    for (; block >= 0; --block) {
        /* K and V of this block have arrived, and no warp reads the other stage any more: the next block goes there. */
        cp_async_wait(0);
        const uint32_t k_tile = k_tiles + max(to_other, 0);
        bool special = false;

        if (block >= first_masked)
            special = block_any(find_special(k_tile, DQ_N, PAGES, PAGE_CHUNKS, DQ_THREADS, EXPONENT, BYTES));
        else
            block_sync();
        k_lane += to_other;
        k_lane_trans += to_other;
        to_other = -to_other;
        if (block > 0) {
            k_from -= DQ_N * k_row_bytes;
            v_from -= DQ_N * v_row_bytes;
            copy_step((uint32_t)max(to_other, 0), DQ_N);
        }
        cp_async_commit();

        query_scores_t p_s, dp; /* S, P and then dS; dP */
        /* A warp whose queries all end before this block has nothing to do. */
        const bool hidden = block * DQ_N > warp_query0 + (DQ_ROWS - 1) + offset;

        if (!hidden)
            multiply_rows(p_s, q_lane, DQ_M, k_lane, DQ_N);
        /* NaN and infinities of K must not meet a dS of zero. Queries that see such a key get NaN: S is infinite or NaN there, so P and dS
         * are 0 or NaN. */
        if (special) {
#pragma unroll 1
            for (int32_t key = 0; key < DQ_N; ++key)
                add_special(dq, k_tile, (uint32_t)key, 0, DQ_N, 0.0f,
                            [&](int32_t query) { return block * DQ_N + key <= warp_query0 + query + offset; });
            block_sync();
            clear_special(k_tile, thread_index() < DQ_THREADS / CHUNKS * CHUNKS ? thread_index() / CHUNKS : (uint32_t)DQ_N, DQ_THREADS / CHUNKS,
                          thread_index() % CHUNKS, CHUNKS, DQ_N, CHUNKS, PAGE_CHUNKS, EXPONENT, BYTES);
            block_sync();
        }
        if (hidden)
            continue;
        multiply_rows(dp, q_lane + DQ_Q_BYTES, DQ_M, k_lane + DQ_K_BYTES, DQ_N);

        /* P = 2^(scale S - LSE), dS = P (dP - delta). */
#pragma unroll
        for (int rt = 0; rt < DQ_ROW_TILES; ++rt)
#pragma unroll
            for (int nt = 0; nt < DQ_N / 8; ++nt)
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    p_s[rt][nt][e] = ex2(fmaf(p_s[rt][nt][e], p.shape.scale_log2, -lse[rt][e >> 1])) * (dp[rt][nt][e] - delta[rt][e >> 1]);
        if (block >= first_masked)
            hide_keys(p_s, warp_query0, block * DQ_N, offset, seqlen_k);

        /* dQ += dS K */
        uint32_t ds[DQ_N / K_STEP][DQ_ROW_TILES][4];
        to_operand(ds, p_s);
#pragma unroll
        for (int kk = 0; kk < DQ_N / K_STEP; ++kk)
            multiply_step(dq, ds[kk], k_lane_trans, kk, DQ_N, false);
    }

    /* dQ goes through this warp's own rows of the Q tile, which it alone reads, to 16-byte stores. Where they go is found again: the
     * registers were worth more in the loop. */
    cp_async_wait(0);
    block_sync();
    const struct query_work end = find_query_work(&p.shape);
    const int32_t first_row = end.query0 + (int32_t)warp * DQ_ROWS;
    const uint32_t out_tile = q_tile + warp * (DQ_ROWS * PAGE_CHUNKS * 16);
    const uint32_t out_lane = out_tile + lane_offset_pairs(lane, DQ_M, PAGE_CHUNKS);
#pragma unroll
    for (int rt = 0; rt < DQ_ROW_TILES; ++rt) {
        stage_rows(out_lane, dq[rt], p.shape.softmax_scale, rt * 16, DQ_M);
        warp_sync();
        store_rows(view_row(&p.dq, end.batch, end.head_q, first_row + rt * 16, BYTES), p.dq.row * BYTES, seqlen_q - first_row - rt * 16, out_tile,
                   rt * 16, DQ_M, ROW_CHUNKS, PAGES, PAGE_CHUNKS);
    }
}
