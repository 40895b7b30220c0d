$ local f32 = dtype == "f32"
$ local tf32 = math == "tf32"
/* ---- dQ: a block owns DQ_M queries, a warp DQ_ROWS of them, and walks over the keys in blocks of DQ_N, last block first ---- */

enum {
    DQ_M = ${dq_m},
    DQ_N = ${dq_n},
    DQ_WARPS = ${dq_warps},
    DQ_THREADS = 32 * DQ_WARPS,
    DQ_ROW_TILES = ${dq_m // (16 * dq_warps)}, /* fragments of 16 queries that a warp owns */
    DQ_ROWS = 16 * DQ_ROW_TILES,
    DQ_Q_BYTES = DQ_M * DIM_PADDED * BYTES,
    DQ_K_BYTES = DQ_N * DIM_PADDED * BYTES,
    DQ_SHARED_BYTES = 2 * DQ_Q_BYTES + 4 * DQ_K_BYTES, /* Q, dO, two stages of K and of V */
};

typedef float query_scores_t[DQ_ROW_TILES][DQ_N / 8][4]; /* of queries by keys */

/* Zero where ${causal and "the mask hides the key, and where " or ""}the key lies past the end. */
GLINT_DEVICE void hide_keys(query_scores_t &s, ${causal and "int32_t first_query, " or ""}int32_t first_key, ${causal and "int32_t offset, " or ""}int32_t seqlen_k)
{
#pragma unroll
    for (int rt = 0; rt < DQ_ROW_TILES; ++rt)
#pragma unroll
        for (int side = 0; side < 2; ++side) {
$ if causal then
            const int32_t query = first_query + rt * 16 + side * 8 + (int32_t)(lane_index() >> 2);
            const int32_t last = min(query + offset, seqlen_k - 1) - first_key - 2 * (int32_t)(lane_index() & 3);
$ else
            const int32_t last = seqlen_k - 1 - first_key - 2 * (int32_t)(lane_index() & 3);
$ end
#pragma unroll
            for (int nt = 0; nt < DQ_N / 8; ++nt) {
                s[rt][nt][2 * side] = nt * 8 > last ? 0.0f : s[rt][nt][2 * side];
                s[rt][nt][2 * side + 1] = nt * 8 + 1 > last ? 0.0f : s[rt][nt][2 * side + 1];
            }
        }
}

/* Where this block works${causal and ": the last queries see the most keys, so they come first" or ""}. */
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

GLINT_KERNEL(DQ_THREADS, ${dq_blocks_per_sm}) ${symbol}_dq(GLINT_PARAMS(struct glint_backward_params) p)
{
    const uint32_t lane = lane_index(), warp = warp_index();
    const int32_t seqlen_q = p.shape.seqlen_q, seqlen_k = p.shape.seqlen_k;
    const struct query_work work = find_query_work(&p.shape);
    const int32_t query0 = work.query0, warp_query0 = query0 + (int32_t)warp * DQ_ROWS;
    const int32_t head_kv = work.head_q / p.shape.group;

    /* Keys that some query of the block sees, and the first key block that holds one which some query does not see. */
$ if causal then
    const int32_t offset = p.shape.mask_offset;
    const int32_t keys = max(0, min(seqlen_k, min(query0 + DQ_M, seqlen_q) + offset));
    const int32_t first_masked = max(0, min(seqlen_k, query0 + offset + 1)) / DQ_N;
$ else
    const int32_t keys = seqlen_k;
    const int32_t first_masked = seqlen_k / DQ_N;
$ end
    int32_t block = (keys + DQ_N - 1) / DQ_N - 1;

    const uint32_t q_tile = shared_base(), do_tile = q_tile + DQ_Q_BYTES, k_tiles = do_tile + DQ_Q_BYTES;
    const uint32_t q_lane = q_tile + lane_offset_a(lane, DQ_M, PAGE_CHUNKS) + warp * (DQ_ROWS * PAGE_CHUNKS * 16);
    uint32_t k_lane = k_tiles + lane_offset_b(lane, DQ_N, PAGE_CHUNKS);
    uint32_t k_lane_trans = k_tiles + ${f32 and "lane_offset_rows(lane, 0," or "lane_offset_trans(lane,"} DQ_N, PAGE_CHUNKS);
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

$ if tf32 then
    cp_async_wait(0);
    round_tile(q_tile, DQ_M, PAGES, PAGE_CHUNKS, DQ_THREADS);
    round_tile(do_tile, DQ_M, PAGES, PAGE_CHUNKS, DQ_THREADS);

$ end
$ if kv_kept > 0 then
    const uint32_t(*none_kept)[DQ_ROW_TILES][4] = nullptr;
$ end
    int32_t to_other = -2 * DQ_K_BYTES; /* from this block's stage to the other */
    k_lane += 2 * DQ_K_BYTES;
    k_lane_trans += 2 * DQ_K_BYTES;
#pragma unroll 1
    for (; block >= 0; --block) {
        /* K and V of this block have arrived, and no warp reads the other stage any more: the next block goes there. */
        cp_async_wait(0);
$ if causal then
        const uint32_t k_tile = k_tiles + max(to_other, 0);
        bool special = false;

        if (block >= first_masked)
            special = block_any(find_special(k_tile, DQ_N, PAGES, PAGE_CHUNKS, DQ_THREADS, EXPONENT, BYTES));
        else
            block_sync();
$ else
        block_sync();
$ end
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
$ if causal then
        /* A warp whose queries all end before this block has nothing to do. */
        const bool hidden = block * DQ_N > warp_query0 + (DQ_ROWS - 1) + offset;

        if (!hidden)
            multiply_rows(p_s, ${kv_kept > 0 and "none_kept, 0, " or ""}q_lane, DQ_M, k_lane, DQ_N);
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
$ else
        multiply_rows(p_s, ${kv_kept > 0 and "none_kept, 0, " or ""}q_lane, DQ_M, k_lane, DQ_N);
$ end
        multiply_rows(dp, ${kv_kept > 0 and "none_kept, 0, " or ""}q_lane + DQ_Q_BYTES, DQ_M, k_lane + DQ_K_BYTES, DQ_N);

        /* P = 2^(scale S - LSE), dS = P (dP - delta). */
#pragma unroll
        for (int rt = 0; rt < DQ_ROW_TILES; ++rt)
#pragma unroll
            for (int nt = 0; nt < DQ_N / 8; ++nt)
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    p_s[rt][nt][e] = ex2(fmaf(p_s[rt][nt][e], p.shape.scale_log2, -lse[rt][e >> 1])) * (dp[rt][nt][e] - delta[rt][e >> 1]);
        if (block >= first_masked)
            hide_keys(p_s, ${causal and "warp_query0, " or ""}block * DQ_N, ${causal and "offset, " or ""}seqlen_k);

        /* dQ += dS K */
        uint32_t ds[DQ_N / K_STEP][DQ_ROW_TILES][4];
$ if tf32 then
        round_scores(p_s);
$ end
        to_operand(ds, p_s);
#pragma unroll
        for (int kk = 0; kk < DQ_N / K_STEP; ++kk)
            multiply_step(dq, ds[kk], k_lane_trans, kk, DQ_N, false${tf32 and ", false" or ""});
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
