$ local element = dtype == "f32" and math or dtype
$ local padded = padded_dim == (head_dim + 15) // 16 * 16 and "" or ", " .. padded_dim
/* ---- dQ: a block owns DQ_M queries, a warp DQ_ROWS of them, and walks over blocks of DQ_N keys, last block first - */

enum {
    DQ_M = ${dq_m},
    DQ_N = ${dq_n},
    DQ_THREADS = 32 * ${dq_warps},
    DQ_ROW_TILES = ${dq_m // (16 * dq_warps)}, /* fragments of 16 queries that a warp owns */
    DQ_ROWS = 16 * DQ_ROW_TILES,
};
typedef struct tile<element, DQ_M, ${head_dim}, ${page_chunks}${padded}> dq_tile_t; /* of Q, dO and dQ */
typedef struct tile<element, DQ_N, ${head_dim}, ${page_chunks}${padded}> dq_k_tile_t; /* of K and V */
static_assert(2 * dq_tile_t::BYTES + 4 * dq_k_tile_t::BYTES${intervals and " + DQ_M * RANGE_BYTES" or ""} == ${dq_smem_bytes}, "shared memory");

template <class Rows> GLINT_DEVICE void attend_queries(const struct glint_gpu_call &p)
{
    const uint32_t lane = lane_index(), warp = warp_index();
    const uint32_t kept = shared_base() + ${dq_smem_bytes};
    const int32_t section = p.shape.section * p.shape.group; /* a section counts key heads, each with its whole group */
    const struct place work = Rows::template find_tile<DQ_M, false>(p, section, shared_base(), kept);
    if (Rows::READS && work.row0 < 0)
        return;
    const int32_t seqlen_q = work.own.seqlen_q, seqlen_k = work.own.seqlen_k;
    const int32_t query0 = work.row0, warp_query0 = query0 + (int32_t)warp * DQ_ROWS;
    const int32_t head_kv = work.head / p.shape.group;
$ if intervals then
    const struct tile_intervals mask = make_mask_of_tile<mask_t, DQ_M, DQ_THREADS>(p, work, kept - DQ_M * RANGE_BYTES);
$ else
    const mask_t mask = mask_of<mask_t>(work.own);
$ end
    const score_t score = score_t::of(p);
    const struct key_blocks<mask_t> blocks = find_key_blocks<DQ_N>(mask, query0, min(query0 + DQ_M, seqlen_q) - 1);
    int32_t block = blocks.last;

    /* Shared memory: Q, dO, then two stages of K and V. */
    const uint32_t q_tile = shared_base(), do_tile = q_tile + dq_tile_t::BYTES, k_tiles = do_tile + dq_tile_t::BYTES;
    const uint32_t q_lane = q_tile + lane_offset_a<dq_tile_t>(lane) + warp * (DQ_ROWS * dq_tile_t::PAGE_ROW);
    uint32_t k_lane = k_tiles + lane_offset_b<dq_k_tile_t>(lane);
    uint32_t k_lane_trans = k_tiles + lane_offset_rows<dq_k_tile_t>(lane, 0);
    const int64_t k_row_bytes = p.k.row * element::BYTES, v_row_bytes = p.v.row * element::BYTES;
    const int32_t key_last = max(0, block) * DQ_N;
    const char *k_from = copy_from<dq_k_tile_t>(view_row(&p.k, work.batch, head_kv, work.first_k + key_last, element::BYTES), k_row_bytes);
    const char *v_from = copy_from<dq_k_tile_t>(view_row(&p.v, work.batch, head_kv, work.first_k + key_last, element::BYTES), v_row_bytes);

    copy_tile<dq_tile_t, DQ_THREADS>(q_tile, p.q, work.batch, work.head, work.first_q + query0, work.first_q + seqlen_q);
    copy_tile<dq_tile_t, DQ_THREADS>(do_tile, p.dout, work.batch, work.head, work.first_q + query0, work.first_q + seqlen_q);

    /* A stage is K and after it V. */
    auto copy_step = [&](uint32_t stage, int32_t valid_keys) {
        copy_tile<dq_k_tile_t, DQ_THREADS>(k_tiles + stage, k_from, k_row_bytes, valid_keys);
        copy_tile<dq_k_tile_t, DQ_THREADS>(k_tiles + stage + dq_k_tile_t::BYTES, v_from, v_row_bytes, valid_keys);
    };
    if (block >= blocks.first)
        copy_step(0, seqlen_k - key_last);
    cp_async_commit();

    float lse[DQ_ROW_TILES][2], delta[DQ_ROW_TILES][2]; /* of this lane's queries */
    load_rows_lse(lse, delta, p, work.line, Rows::padded_first_of(kept) + warp_query0, lane);
    float dq[DQ_ROW_TILES][dq_tile_t::DIM / 8][4]; /* without the scale */
    set_zero(dq);

$ if element == "tf32" then
    cp_async_wait(0);
    round_tile<dq_tile_t, DQ_THREADS>(q_tile);
    round_tile<dq_tile_t, DQ_THREADS>(do_tile);

$ end
    int32_t to_other = -2 * (int32_t)dq_k_tile_t::BYTES; /* from this block's stage to the other */
    k_lane += 2 * dq_k_tile_t::BYTES;
    k_lane_trans += 2 * dq_k_tile_t::BYTES;
#pragma unroll 1
    for (; block >= blocks.first; --block) {
        /* K and V of this block have arrived, and no warp reads the other stage any more: the next block goes there. */
        cp_async_wait(0);
$ if causal then
        const uint32_t k_tile = k_tiles + max(to_other, 0);
        bool special = false;

        if (hides_some(mask, block, blocks.whole_from, blocks.hidden_from))
            special = block_any(find_special<dq_k_tile_t, DQ_THREADS>(k_tile));
        else
            block_sync();
$ else
        block_sync();
$ end
        k_lane += to_other;
        k_lane_trans += to_other;
        to_other = -to_other;
        if (block > blocks.first) {
            k_from -= DQ_N * k_row_bytes;
            v_from -= DQ_N * v_row_bytes;
            copy_step((uint32_t)max(to_other, 0), DQ_N);
        }
        cp_async_commit();

        float s[DQ_ROW_TILES][DQ_N / 8][4], dp[DQ_ROW_TILES][DQ_N / 8][4]; /* S, P and then dS; dP */
        const struct kept_rows<DQ_ROW_TILES, 0> none_kept = {};
$ if causal then
        /* A warp whose queries all ${bounds_first and "see nothing of" or "end before"} this block has nothing to
         * do. */
        const bool hidden = hides_all<DQ_N>(mask, warp_query0, DQ_ROWS, block);

        if (!hidden)
            multiply_rows<dq_tile_t, dq_k_tile_t>(s, none_kept, q_lane, k_lane);
        /* NaN and infinities of K must not meet a dS of zero. Queries that see such a key get NaN: S is infinite or NaN
         * there, so P and dS are 0 or NaN. */
        if (special) {
            spread_special<dq_k_tile_t, true>(dq, k_tile, in_tile{}, 0.0f,
                                              [&](int32_t row, int32_t key) { return sees(mask, warp_query0, row, block * DQ_N, key); });
            block_sync();
            clear_special<dq_k_tile_t, DQ_THREADS>(k_tile);
            block_sync();
        }
        if (hidden)
            continue;
$ else
        multiply_rows<dq_tile_t, dq_k_tile_t>(s, none_kept, q_lane, k_lane);
$ end
        multiply_rows<dq_tile_t, dq_k_tile_t>(dp, none_kept, q_lane + dq_tile_t::BYTES, k_lane + dq_k_tile_t::BYTES);
        change_scores(s, score);

        const struct place &again = Rows::place_again(work, kept);
        const bias_t bias = bias_t::template of<Rows>(p, again.head, again, kept);
        make_scores_gradient(s, dp, lse, delta, p.shape, score, tile_of_queries<DQ_ROW_TILES, DQ_N / 8>(bias, warp_query0, block * DQ_N));
        if (Rows::READS && !mask_t::RIGHT ? (block + 1) * DQ_N > Rows::sight(kept, mask).seqlen_k /* a register less */
                                          : hides_some(mask, block, blocks.whole_from, blocks.hidden_from))
            hide_keys(s, Rows::sight(kept, mask), warp_query0, block * DQ_N, 0.0f);

        /* dQ += dS K */
$ if element == "tf32" then
        round_scores<element>(s);
$ end
        uint32_t ds[DQ_N / element::K_STEP][DQ_ROW_TILES][4];
        to_operands<element>(ds, s);
#pragma unroll
        for (int kk = 0; kk < DQ_N / (int)element::K_STEP; ++kk)
            multiply_step<dq_k_tile_t>(dq, ds[kk], k_lane_trans, kk);
    }

    /* dQ goes through this warp's own rows of the Q tile, which it alone reads, to 16-byte stores. Where they go is
     * found again: the registers were worth more in the loop. */
    cp_async_wait(0);
    block_sync();
    const struct place end = Rows::template tile_again<DQ_M, false>(p, p.shape.section * p.shape.group, kept);
    const int32_t first_row = end.first_q + end.row0 + (int32_t)warp * DQ_ROWS;
    const uint32_t out_tile = q_tile + warp * (DQ_ROWS * dq_tile_t::PAGE_ROW), out_lane = out_tile + lane_offset_pairs<dq_tile_t>(lane);
    write_rows<dq_tile_t, dq_tile_t>(p.dq, end.batch, end.head, first_row, end.first_q + end.own.seqlen_q, 0, dq, p.shape.softmax_scale,
                                     out_tile, out_lane);
}

$ for _, kernel in ipairs(kernels) do
GLINT_KERNEL(DQ_THREADS, ${dq_blocks_per_sm}) ${symbol}${kernel.suffix}_dq(GLINT_PARAMS(struct ${call_type}) p)
{
    attend_queries<${kernel.rows}>(${call_of});
}
$ end
