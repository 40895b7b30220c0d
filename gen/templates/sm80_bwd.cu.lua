$ local f32 = dtype == "f32"
$ local bytes = f32 and 4 or 2
$ local k_step = f32 and 8 or 16
$ local padded = (head_dim + 15) // 16 * 16
$ local chunks = padded * bytes // 16
$ local page_chunks = chunks % 8 == 0 and 8 or chunks % 4 == 0 and 4 or 2
$ local row_tiles = tile_n // (16 * warps)
$ local a_of = function(regs, what) return regs and what .. "_regs[kk][kt]" or what .. "[kt]" end
/* ${name}
 *
 * Attention backward, ${dtype}, head_dim ${head_dim}, ${causal and "causal" or "no mask"}: first delta, then one block of ${warps} warps owns ${tile_n} keys of one head, a warp
 * ${16 * row_tiles} of them, keeps their dK and dV in registers and walks over the queries in blocks of ${tile_m}, last block first.
 * Products are made transposed (keys by queries), so that P and dS are operands straight from registers; only dS also goes through
 * shared memory, for dQ. Key blocks add their part of dQ one after another, so the sum is the same every time.
 * Shared memory ${smem_bytes} bytes; ${blocks_per_sm} block${blocks_per_sm > 1 and "s" or ""} a multiprocessor.
 * Made by: ${command} */
#include "lib/device/steps.h"

enum {
    HEAD_DIM = ${head_dim},
    DIM_PADDED = ${padded}, /* up to a whole fragment, with zeros */
    TILE_M = ${tile_m},     /* queries of a step */
    TILE_N = ${tile_n},     /* keys of a block */
    PART_M = ${part_m},     /* queries whose S and dP are in registers at a time */
    WARPS = ${warps},
    THREADS = 32 * WARPS,
    ROW_TILES = ${row_tiles},     /* fragments of 16 keys that a warp owns */
    DQ_ROW_TILES = ${dq_row_tiles}, /* fragments of 16 queries of dQ that a warp makes */
    DQ_GROUPS = TILE_M / (16 * DQ_ROW_TILES),
    DQ_DIM = DIM_PADDED * DQ_GROUPS / WARPS, /* and their columns */
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
    ROW_BYTES = TILE_M * 4, /* of a step's LSE or delta */
    STAGES = ${stages},     /* of Q, dO, LSE and delta */
    SHARED_BYTES = 2 * K_BYTES + STAGES * 2 * Q_BYTES + DS_BYTES + STAGES * 2 * ROW_BYTES, /* ${smem_bytes} */
};

$ include("sm80_delta.cu.lua")

GLINT_KERNEL(THREADS, ${blocks_per_sm}) ${symbol}(GLINT_PARAMS(struct glint_backward_params) p)
{
    const uint32_t lane = lane_index(), warp = warp_index();
    const int32_t seqlen_q = p.shape.seqlen_q, seqlen_k = p.shape.seqlen_k;

    /* Where this block works. Blocks take numbers as they begin, so a block waits only for such that run or have run. */
    const uint32_t k_tile = shared_base(), v_tile = k_tile + K_BYTES, q_tiles = v_tile + K_BYTES, do_tiles = q_tiles + STAGES * Q_BYTES;
    const uint32_t ds_tile = do_tiles + STAGES * Q_BYTES, rows_lse = ds_tile + DS_BYTES, rows_delta = rows_lse + STAGES * ROW_BYTES;
    uint32_t number = block_index();
    if (seqlen_q > 0) {
        if (thread_index() == 0)
            st_shared_u32(ds_tile, atom_global_add_u32(p.turn, 1));
        block_sync();
        number = ld_shared_u32(ds_tile);
    }
    const int32_t blocks_n = (seqlen_k + TILE_N - 1) / TILE_N;
    const struct block_place place =
        find_place(number, (uint32_t)blocks_n, (uint32_t)(p.shape.batch * p.shape.heads_kv), (uint32_t)p.shape.section);
    const int32_t key0 = place.index * TILE_N;
    const int32_t batch = place.head / p.shape.heads_kv, head_kv = place.head - batch * p.shape.heads_kv;
    const int32_t head_q0 = head_kv * p.shape.group;

    /* Query blocks that see some key of this block; those under first_clear do not see all of them. */
    const int32_t last_m = (seqlen_q + TILE_M - 1) / TILE_M - 1;
$ if causal then
    const int32_t offset = p.shape.mask_offset;
    const int32_t first_m = max(0, key0 - offset) / TILE_M;
    const int32_t first_clear = key0 + TILE_N > seqlen_k ? last_m + 1 : (max(0, key0 + TILE_N - 1 - offset) + TILE_M - 1) / TILE_M;
$ else
    const int32_t first_m = 0;
    const int32_t first_clear = key0 + TILE_N > seqlen_k ? last_m + 1 : 0;
$ end
    const int32_t per_head = max(0, last_m - first_m + 1);
    const int32_t steps = per_head * p.shape.group;

    copy_tile(k_tile, copy_from(view_row(&p.k, batch, head_kv, key0, BYTES), p.k.row * BYTES, PAGE_CHUNKS), p.k.row * BYTES,
              seqlen_k - key0, TILE_N, ROW_CHUNKS, PAGES, PAGE_CHUNKS, THREADS);
    copy_tile(v_tile, copy_from(view_row(&p.v, batch, head_kv, key0, BYTES), p.v.row * BYTES, PAGE_CHUNKS), p.v.row * BYTES,
              seqlen_k - key0, TILE_N, ROW_CHUNKS, PAGES, PAGE_CHUNKS, THREADS);

    /* Begins the copies of a step's Q, dO, LSE and delta into a stage. */
    auto copy_step = [&](int32_t head_q, int32_t m, uint32_t stage) {
        const char *q_rows = view_row(&p.q, batch, head_q, m * TILE_M, BYTES), *do_rows = view_row(&p.dout, batch, head_q, m * TILE_M, BYTES);
        const int64_t row = (int64_t)(batch * p.shape.heads_q + head_q) * p.padded_q + m * TILE_M;

        copy_tile(q_tiles + stage * Q_BYTES, copy_from(q_rows, p.q.row * BYTES, PAGE_CHUNKS), p.q.row * BYTES, seqlen_q - m * TILE_M,
                  TILE_M, ROW_CHUNKS, PAGES, PAGE_CHUNKS, THREADS);
        copy_tile(do_tiles + stage * Q_BYTES, copy_from(do_rows, p.dout.row * BYTES, PAGE_CHUNKS), p.dout.row * BYTES,
                  seqlen_q - m * TILE_M, TILE_M, ROW_CHUNKS, PAGES, PAGE_CHUNKS, THREADS);
        if (thread_index() < ROW_BYTES / 16) {
            cp_async_16(rows_lse + stage * ROW_BYTES + thread_index() * 16, p.lse_log2 + row + thread_index() * 4, true);
            cp_async_16(rows_delta + stage * ROW_BYTES + thread_index() * 16, p.delta + row + thread_index() * 4, true);
        }
    };
    int32_t head_q = head_q0, m = last_m;
    if (steps > 0)
        copy_step(head_q, m, 0);
    cp_async_commit();

    const uint32_t k_lane = k_tile + lane_offset_a(lane, TILE_N, PAGE_CHUNKS) + warp * (ROW_TILES * 16 * PAGE_CHUNKS * 16);
    const uint32_t q_lane_b = lane_offset_b(lane, TILE_M, PAGE_CHUNKS), q_lane_trans = lane_offset_trans(lane, TILE_M, PAGE_CHUNKS);
    const uint32_t ds_write = ds_tile + tile_offset(lane >> 2, 0, TILE_N, DS_CHUNKS) + (lane & 3) * 4 + warp * (ROW_TILES * 16 * DS_CHUNKS * 16);
    const uint32_t dq_group = warp % DQ_GROUPS, dq_column = warp / DQ_GROUPS * DQ_DIM;
    const uint32_t ds_read = ds_tile + tile_offset((lane & 7) + (lane >> 4 << 3), dq_group * (2 * DQ_ROW_TILES) + (lane >> 3 & 1), TILE_N, DS_CHUNKS);
    const uint32_t k_lane_trans = k_tile + tile_offset(lane & 15, dq_column / 8 + (lane >> 4), TILE_N, PAGE_CHUNKS);

    float dk[ROW_TILES][DIM_PADDED / 8][4], dv[ROW_TILES][DIM_PADDED / 8][4];
#pragma unroll
    for (int kt = 0; kt < ROW_TILES; ++kt)
#pragma unroll
        for (int dt = 0; dt < DIM_PADDED / 8; ++dt)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                dk[kt][dt][e] = dv[kt][dt][e] = 0.0f;
$ if k_in_registers or v_in_registers then

    cp_async_wait(0);
    block_sync();
$ for _, what in ipairs({ "k", "v" }) do
$ if what == "k" and k_in_registers or what == "v" and v_in_registers then
    uint32_t ${what}_regs[DIM_PADDED / K_STEP][ROW_TILES][4];
#pragma unroll
    for (int kk = 0; kk < DIM_PADDED / K_STEP; ++kk)
#pragma unroll
        for (int kt = 0; kt < ROW_TILES; ++kt)
            ldmatrix_x4(${what}_regs[kk][kt], tile_move(k_lane${what == "v" and " + K_BYTES" or ""}, kt * 16, kk * 2, TILE_N, PAGE_CHUNKS));
$ end
$ end
$ end

    uint32_t *signal = 0; /* the turn that is due once this block's part of dQ is seen by others */
#pragma unroll 1
    for (int32_t step = 0; step < steps; ++step) {
        const uint32_t stage = step & 1;

        /* This step's Q and dO have arrived, and no warp reads the other stage or dS any more. */
        cp_async_wait(0);
        block_sync();
        const int32_t head_now = head_q, m_now = m;
        if (m == first_m) {
            m = last_m;
            ++head_q;
        } else
            --m;
        if (step + 1 < steps)
            copy_step(head_q, m, stage ^ 1);
        cp_async_commit();
$ if ordered then
        if (signal != 0 && thread_index() == 0)
            st_release_u32(signal, (uint32_t)place.index + 1);
$ end

#pragma unroll${part_m == tile_m and "" or " 1"}
        for (int part = 0; part < TILE_M / PART_M; ++part) {
            const uint32_t q_now = q_tiles + stage * Q_BYTES + q_lane_b + part * (PART_M * PAGE_CHUNKS * 16);
            const uint32_t q_trans = q_tiles + stage * Q_BYTES + q_lane_trans + part * (PART_M * PAGE_CHUNKS * 16);
            const uint32_t do_now = q_now + STAGES * Q_BYTES, do_trans = q_trans + STAGES * Q_BYTES;
            const uint32_t row_now = stage * ROW_BYTES + part * (PART_M * 4) + (lane & 3) * 8;

            /* S^T = K Q^T */
            float s[ROW_TILES][PART_M / 8][4];
#pragma unroll
            for (int kt = 0; kt < ROW_TILES; ++kt)
#pragma unroll
                for (int mt = 0; mt < PART_M / 8; ++mt)
                    s[kt][mt][0] = s[kt][mt][1] = s[kt][mt][2] = s[kt][mt][3] = 0.0f;
#pragma unroll
            for (int kk = 0; kk < DIM_PADDED / K_STEP; ++kk) {
$ if not k_in_registers then
                uint32_t k[ROW_TILES][4];
#pragma unroll
                for (int kt = 0; kt < ROW_TILES; ++kt)
                    ldmatrix_x4(k[kt], tile_move(k_lane, kt * 16, kk * 2, TILE_N, PAGE_CHUNKS));
$ end
#pragma unroll
                for (int mt = 0; mt < PART_M / 8; mt += 2) {
                    uint32_t b[4];

                    ldmatrix_x4(b, tile_move(q_now, mt * 8, kk * 2, TILE_M, PAGE_CHUNKS));
#pragma unroll
                    for (int kt = 0; kt < ROW_TILES; ++kt) {
                        mma_m16n8k16_${dtype}(s[kt][mt], ${a_of(k_in_registers, "k")}, b[0], b[1]);
                        mma_m16n8k16_${dtype}(s[kt][mt + 1], ${a_of(k_in_registers, "k")}, b[2], b[3]);
                    }
                }
            }

            /* P^T = 2^(scale S^T - LSE), a query being a column. */
#pragma unroll
            for (int mt = 0; mt < PART_M / 8; ++mt) {
                float lse[2];

                ld_shared_f32x2(lse, rows_lse + row_now + mt * 32);
#pragma unroll
                for (int kt = 0; kt < ROW_TILES; ++kt)
#pragma unroll
                    for (int e = 0; e < 4; ++e)
                        s[kt][mt][e] = ex2(fmaf(s[kt][mt][e], p.shape.scale_log2, -lse[e & 1]));
            }

            /* dP^T - delta = V dO^T - delta */
            float dp[ROW_TILES][PART_M / 8][4];
#pragma unroll
            for (int mt = 0; mt < PART_M / 8; ++mt) {
                float delta[2];

                ld_shared_f32x2(delta, rows_delta + row_now + mt * 32);
#pragma unroll
                for (int kt = 0; kt < ROW_TILES; ++kt)
#pragma unroll
                    for (int e = 0; e < 4; ++e)
                        dp[kt][mt][e] = -delta[e & 1];
            }
#pragma unroll
            for (int kk = 0; kk < DIM_PADDED / K_STEP; ++kk) {
$ if not v_in_registers then
                uint32_t v[ROW_TILES][4];
#pragma unroll
                for (int kt = 0; kt < ROW_TILES; ++kt)
                    ldmatrix_x4(v[kt], tile_move(k_lane + K_BYTES, kt * 16, kk * 2, TILE_N, PAGE_CHUNKS));
$ end
#pragma unroll
                for (int mt = 0; mt < PART_M / 8; mt += 2) {
                    uint32_t b[4];

                    ldmatrix_x4(b, tile_move(do_now, mt * 8, kk * 2, TILE_M, PAGE_CHUNKS));
#pragma unroll
                    for (int kt = 0; kt < ROW_TILES; ++kt) {
                        mma_m16n8k16_${dtype}(dp[kt][mt], ${a_of(v_in_registers, "v")}, b[0], b[1]);
                        mma_m16n8k16_${dtype}(dp[kt][mt + 1], ${a_of(v_in_registers, "v")}, b[2], b[3]);
                    }
                }
            }

            /* Hide what the mask hides, and what lies past the end. */
            if (m_now < first_clear) {
#pragma unroll
                for (int kt = 0; kt < ROW_TILES; ++kt)
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        const int32_t key = key0 + (int32_t)warp * (ROW_TILES * 16) + kt * 16 + half * 8 + (int32_t)(lane >> 2);
$ if causal then
                        const int32_t first = key >= seqlen_k ? TILE_M : key - offset - m_now * TILE_M - part * PART_M - 2 * (int32_t)(lane & 3);
$ else
                        const int32_t first = key >= seqlen_k ? TILE_M : -TILE_M;
$ end
#pragma unroll
                        for (int mt = 0; mt < PART_M / 8; ++mt) {
                            s[kt][mt][2 * half] = mt * 8 < first ? 0.0f : s[kt][mt][2 * half];
                            s[kt][mt][2 * half + 1] = mt * 8 + 1 < first ? 0.0f : s[kt][mt][2 * half + 1];
                        }
                    }
            }

            /* dV += P^T dO: P^T's accumulators are operand A's registers. dS^T = P^T (dP^T - delta) takes their place. */
            uint32_t ds[ROW_TILES][PART_M / 16][4];
#pragma unroll
            for (int kk = 0; kk < PART_M / 16; ++kk) {
                uint32_t a[ROW_TILES][4];
#pragma unroll
                for (int kt = 0; kt < ROW_TILES; ++kt) {
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        const float *x = &s[kt][2 * kk + (e >> 1)][2 * (e & 1)], *y = &dp[kt][2 * kk + (e >> 1)][2 * (e & 1)];

                        a[kt][e] = pack_${dtype}(x[0], x[1]);
                        ds[kt][kk][e] = pack_${dtype}(x[0] * y[0], x[1] * y[1]);
                        st_shared_u32(tile_move(ds_write, kt * 16 + 8 * (e & 1), part * (PART_M / 8) + 2 * kk + (e >> 1), TILE_N, DS_CHUNKS),
                                      ds[kt][kk][e]);
                    }
                }
#pragma unroll
                for (int dt = 0; dt < DIM_PADDED / 8; dt += 2) {
                    uint32_t b[4];

                    ldmatrix_x4_trans(b, tile_move(do_trans, kk * 16, dt, TILE_M, PAGE_CHUNKS));
#pragma unroll
                    for (int kt = 0; kt < ROW_TILES; ++kt) {
                        mma_m16n8k16_${dtype}(dv[kt][dt], a[kt], b[0], b[1]);
                        mma_m16n8k16_${dtype}(dv[kt][dt + 1], a[kt], b[2], b[3]);
                    }
                }
            }

            /* dK += dS^T Q */
#pragma unroll
            for (int kk = 0; kk < PART_M / 16; ++kk)
#pragma unroll
                for (int dt = 0; dt < DIM_PADDED / 8; dt += 2) {
                    uint32_t b[4];

                    ldmatrix_x4_trans(b, tile_move(q_trans, kk * 16, dt, TILE_M, PAGE_CHUNKS));
#pragma unroll
                    for (int kt = 0; kt < ROW_TILES; ++kt) {
                        mma_m16n8k16_${dtype}(dk[kt][dt], ds[kt][kk], b[0], b[1]);
                        mma_m16n8k16_${dtype}(dk[kt][dt + 1], ds[kt][kk], b[2], b[3]);
                    }
                }
        }

        /* dQ's part = dS K, once every warp's dS is there: each warp makes DQ_ROW_TILES x 16 queries by DQ_DIM columns. */
        block_sync();
        float dq[DQ_ROW_TILES][DQ_DIM / 8][4];
#pragma unroll
        for (int rt = 0; rt < DQ_ROW_TILES; ++rt)
#pragma unroll
            for (int dt = 0; dt < DQ_DIM / 8; ++dt)
                dq[rt][dt][0] = dq[rt][dt][1] = dq[rt][dt][2] = dq[rt][dt][3] = 0.0f;
#pragma unroll
        for (int kk = 0; kk < TILE_N / 16; ++kk) {
            uint32_t a[DQ_ROW_TILES][4];
#pragma unroll
            for (int rt = 0; rt < DQ_ROW_TILES; ++rt)
                ldmatrix_x4_trans(a[rt], tile_move(ds_read, kk * 16, rt * 2, TILE_N, DS_CHUNKS));
#pragma unroll
            for (int dt = 0; dt < DQ_DIM / 8; dt += 2) {
                uint32_t b[4];

                ldmatrix_x4_trans(b, tile_move(k_lane_trans, kk * 16, dt, TILE_N, PAGE_CHUNKS));
#pragma unroll
                for (int rt = 0; rt < DQ_ROW_TILES; ++rt) {
                    mma_m16n8k16_${dtype}(dq[rt][dt], a[rt], b[0], b[1]);
                    mma_m16n8k16_${dtype}(dq[rt][dt + 1], a[rt], b[2], b[3]);
                }
            }
        }

        /* Key blocks add to dQ in their order: the first one stores, the last one adds what the others left and rounds. */
        const int32_t head = batch * p.shape.heads_q + head_now;
        uint32_t *turn = p.turn + 1 + head * (p.padded_q / TILE_M) + m_now;
        float *sum = p.dq_sum + (head * p.padded_q + m_now * TILE_M) * DIM_PADDED + thread_index();
$ if causal then
        const int32_t last_n = (min(seqlen_k, min(seqlen_q, (m_now + 1) * TILE_M) + offset) + TILE_N - 1) / TILE_N - 1;
$ else
        const int32_t last_n = blocks_n - 1;
$ end
        signal = turn;
$ if ordered then
        if (place.index > 0) {
            while (lane == 0 && ld_acquire_u32(turn) < (uint32_t)place.index)
                ;
            warp_sync();
        }
$ end
        if (place.index == last_n) {
            char *dq_rows = view_row(&p.dq, batch, head_now, m_now * TILE_M + (int32_t)(dq_group * (DQ_ROW_TILES * 16) + (lane >> 2)), BYTES);
            const int32_t rows_left = seqlen_q - m_now * TILE_M - (int32_t)(dq_group * (DQ_ROW_TILES * 16) + (lane >> 2));

            signal = 0;
#pragma unroll
            for (int rt = 0; rt < DQ_ROW_TILES; ++rt)
#pragma unroll
                for (int dt = 0; dt < DQ_DIM / 8; ++dt) {
                    float before[4] = {0.0f, 0.0f, 0.0f, 0.0f};

                    if (place.index > 0) {
#pragma unroll
                        for (int e = 0; e < 4; ++e)
                            before[e] = ld_global_cg_f32(sum + ((rt * (DQ_DIM / 8) + dt) * 4 + e) * THREADS);
                    }
#pragma unroll
                    for (int half = 0; half < 2; ++half)
                        if (rt * 16 + half * 8 < rows_left && (DIM_PADDED == HEAD_DIM || dq_column + dt * 8 < HEAD_DIM))
                            st_global_u32(dq_rows + (rt * 16 + half * 8) * p.dq.row * BYTES + (dq_column + dt * 8 + (lane & 3) * 2) * BYTES,
                                          pack_${dtype}((dq[rt][dt][2 * half] + before[2 * half]) * p.shape.softmax_scale,
                                                        (dq[rt][dt][2 * half + 1] + before[2 * half + 1]) * p.shape.softmax_scale));
                }
        } else {
#pragma unroll
            for (int rt = 0; rt < DQ_ROW_TILES; ++rt)
#pragma unroll
                for (int dt = 0; dt < DQ_DIM / 8; ++dt)
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        float *at = sum + ((rt * (DQ_DIM / 8) + dt) * 4 + e) * THREADS;

                        if (place.index == 0)
                            st_global_f32(at, dq[rt][dt][e]);
                        else
                            red_global_add_f32(at, dq[rt][dt][e]);
                    }
        }
    }

    /* The last turn, and dK and dV through this warp's own rows of the K and V tiles to 16-byte stores. */
    cp_async_wait(0);
    block_sync();
$ if ordered then
    if (signal != 0 && thread_index() == 0)
        st_release_u32(signal, (uint32_t)place.index + 1);
$ end
    const uint32_t out_lane = tile_offset(lane >> 2, 0, TILE_N, PAGE_CHUNKS) + (lane & 3) * 4 + warp * (ROW_TILES * 16 * PAGE_CHUNKS * 16);
    const int32_t warp_key0 = key0 + (int32_t)warp * (ROW_TILES * 16);
#pragma unroll
    for (int kt = 0; kt < ROW_TILES; ++kt) {
#pragma unroll
        for (int dt = 0; dt < DIM_PADDED / 8; ++dt)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const uint32_t at = tile_move(k_tile + out_lane, 0, dt, TILE_N, PAGE_CHUNKS) + (kt * 16 + half * 8) * PAGE_CHUNKS * 16;

                st_shared_u32(at, pack_${dtype}(dk[kt][dt][2 * half] * p.shape.softmax_scale, dk[kt][dt][2 * half + 1] * p.shape.softmax_scale));
                st_shared_u32(at + K_BYTES, pack_${dtype}(dv[kt][dt][2 * half], dv[kt][dt][2 * half + 1]));
            }
        warp_sync();
        store_rows(view_row(&p.dk, batch, head_kv, warp_key0 + kt * 16, BYTES), p.dk.row * BYTES, seqlen_k - warp_key0 - kt * 16,
                   k_tile + warp * (ROW_TILES * 16 * PAGE_CHUNKS * 16), kt * 16, TILE_N, ROW_CHUNKS, PAGES, PAGE_CHUNKS);
        store_rows(view_row(&p.dv, batch, head_kv, warp_key0 + kt * 16, BYTES), p.dv.row * BYTES, seqlen_k - warp_key0 - kt * 16,
                   v_tile + warp * (ROW_TILES * 16 * PAGE_CHUNKS * 16), kt * 16, TILE_N, ROW_CHUNKS, PAGES, PAGE_CHUNKS);
    }
}
