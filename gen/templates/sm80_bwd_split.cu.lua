$ local element = dtype == "f32" and math or dtype
$ local first_block = bounds_first and "blocks.first" or "0"
$ local padded = padded_dim == (head_dim + 15) // 16 * 16 and "" or ", " .. padded_dim
/* ---- dQ: a block owns DQ_M queries, a warp DQ_ROWS of them, and walks over the keys in blocks of DQ_N, last block first ---- */

enum {
    DQ_M = ${dq_m},
    DQ_N = ${dq_n},
    DQ_THREADS = 32 * ${dq_warps},
    DQ_ROW_TILES = ${dq_m // (16 * dq_warps)}, /* fragments of 16 queries that a warp owns */
    DQ_ROWS = 16 * DQ_ROW_TILES,
};
typedef struct tile<element, DQ_M, ${head_dim}, ${page_chunks}${padded}> dq_tile_t; /* of Q, dO and dQ */
typedef struct tile<element, DQ_N, ${head_dim}, ${page_chunks}${padded}> dq_k_tile_t; /* of K and V */
static_assert(2 * dq_tile_t::BYTES + 4 * dq_k_tile_t::BYTES == ${dq_smem_bytes}, "shared memory");

$ local band = bounds_first and "window_mask" or causal and "causal_mask" or "no_mask"
$ local kinds = { "given" }
$ if device_lengths then kinds[2] = "lengths" end
$ if device_ragged then kinds[#kinds + 1] = "ragged" end
$ for _, kind in ipairs(kinds) do
$ local ragged, padded_batch, lengths = kind == "ragged", kind == "lengths", kind ~= "given"
$ local sight = lengths and "get_mask<" .. band .. ">(kept)" or "mask"
$ local hides = lengths and not causal and "(block + 1) * DQ_N > get_mask<no_mask>(kept).seqlen_k" -- a register less
$   or "hides_some(mask, block, blocks.whole_from, blocks.hidden_from)"
$ if lengths then

GLINT_KERNEL(DQ_THREADS, ${dq_blocks_per_sm}) ${symbol}_${kind}_dq(GLINT_PARAMS(struct glint_gpu_call) p)
{
$ else
GLINT_KERNEL(DQ_THREADS, ${dq_blocks_per_sm}) ${symbol}_dq(GLINT_PARAMS(struct glint_gpu_call) p)
{
$ end
    const uint32_t lane = lane_index(), warp = warp_index();
$ if ragged or padded_batch then
    const uint32_t kept = shared_base() + ${dq_smem_bytes};
$ if ragged then
    if (warp == 0)
        find_ragged_tile<DQ_M, false, true>(p.sequences, p.shape, block_index(), p.shape.heads_q, p.shape.section * p.shape.group,
                                            shared_base(), kept);
$ else
    if (thread_index() == 0)
        find_padded_tile<DQ_M, false>(p.sequences, p.shape, p.shape.heads_q, p.shape.section * p.shape.group, kept);
$ end
    block_sync();
    const struct ${ragged and "ragged" or "padded"}_tile work = get_${ragged and "ragged" or "padded"}_tile(kept);
    if (work.row0 < 0)
        return;
    const int32_t seqlen_q = work.own.seqlen_q, seqlen_k = work.own.seqlen_k;
    const int32_t query0 = work.row0, warp_query0 = query0 + (int32_t)warp * DQ_ROWS;
    const int32_t head_kv = work.head / p.shape.group;
$ else
    const int32_t seqlen_q = p.shape.seqlen_q, seqlen_k = p.shape.seqlen_k;
    const struct query_block work = find_group_query_block<DQ_M>(p.shape);
    const int32_t query0 = work.query0, warp_query0 = query0 + (int32_t)warp * DQ_ROWS;
    const int32_t head_kv = work.head_q / p.shape.group;
$ end
$ if lengths then
    const ${band} mask = mask_of<${band}>(work.own);
$ elseif bounds_first then
    const window_mask mask = {p.shape.mask_first, p.shape.mask_offset, seqlen_q, seqlen_k};
$ elseif causal then
    const causal_mask mask = {0, p.shape.mask_offset, seqlen_q, seqlen_k};
$ else
    const no_mask mask = {0, 0, seqlen_q, seqlen_k};
$ end
$ if capped then
    const struct capped_score score = {p.score_ratio, p.score_limit};
$ else
    const struct plain_score score = {};
$ end
    const struct key_blocks<${band}> blocks = find_key_blocks<DQ_N>(mask, query0, min(query0 + DQ_M, seqlen_q) - 1);
    int32_t block = blocks.last;

    /* Shared memory: Q, dO, then two stages of K and V. */
    const uint32_t q_tile = shared_base(), do_tile = q_tile + dq_tile_t::BYTES, k_tiles = do_tile + dq_tile_t::BYTES;
    const uint32_t q_lane = q_tile + lane_offset_a<dq_tile_t>(lane) + warp * (DQ_ROWS * dq_tile_t::PAGE_ROW);
    uint32_t k_lane = k_tiles + lane_offset_b<dq_k_tile_t>(lane);
    uint32_t k_lane_trans = k_tiles + lane_offset_rows<dq_k_tile_t>(lane, 0);
    const int64_t k_row_bytes = p.k.row * element::BYTES, v_row_bytes = p.v.row * element::BYTES;
    const int32_t key_last = max(0, block) * DQ_N;
$ local batch, from_key = ragged and "0" or "work.batch", ragged and "work.first_k + key_last" or "key_last"
    const char *k_from = copy_from<dq_k_tile_t>(view_row(&p.k, ${batch}, head_kv, ${from_key}, element::BYTES), k_row_bytes);
    const char *v_from = copy_from<dq_k_tile_t>(view_row(&p.v, ${batch}, head_kv, ${from_key}, element::BYTES), v_row_bytes);

$ if ragged then
    copy_tile<dq_tile_t, DQ_THREADS>(q_tile, p.q, 0, work.head, work.first_q + query0, work.first_q + seqlen_q);
    copy_tile<dq_tile_t, DQ_THREADS>(do_tile, p.dout, 0, work.head, work.first_q + query0, work.first_q + seqlen_q);
$ else
$ local head = padded_batch and "head" or "head_q"
    copy_tile<dq_tile_t, DQ_THREADS>(q_tile, p.q, work.batch, work.${head}, query0, seqlen_q);
    copy_tile<dq_tile_t, DQ_THREADS>(do_tile, p.dout, work.batch, work.${head}, query0, seqlen_q);
$ end

    /* A stage is K and after it V. */
    auto copy_step = [&](uint32_t stage, int32_t valid_keys) {
        copy_tile<dq_k_tile_t, DQ_THREADS>(k_tiles + stage, k_from, k_row_bytes, valid_keys);
        copy_tile<dq_k_tile_t, DQ_THREADS>(k_tiles + stage + dq_k_tile_t::BYTES, v_from, v_row_bytes, valid_keys);
    };
    if (block >= ${first_block})
        copy_step(0, seqlen_k - key_last);
    cp_async_commit();

    float lse[DQ_ROW_TILES][2], delta[DQ_ROW_TILES][2]; /* of this lane's queries */
$ if ragged then
    load_rows_lse(lse, delta, p, work.head, (int32_t)ld_shared_u32(kept + 32) + warp_query0, lane);
$ elseif padded_batch then
    load_rows_lse(lse, delta, p, work.batch * p.shape.heads_q + work.head, warp_query0, lane);
$ else
    load_rows_lse(lse, delta, p, work.head, warp_query0, lane);
$ end
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
    for (; block >= ${first_block}; --block) {
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
        if (block > ${first_block}) {
            k_from -= DQ_N * k_row_bytes;
            v_from -= DQ_N * v_row_bytes;
            copy_step((uint32_t)max(to_other, 0), DQ_N);
        }
        cp_async_commit();

        float s[DQ_ROW_TILES][DQ_N / 8][4], dp[DQ_ROW_TILES][DQ_N / 8][4]; /* S, P and then dS; dP */
        const struct kept_rows<DQ_ROW_TILES, 0> none_kept = {};
$ if causal then
        /* A warp whose queries all ${bounds_first and "see nothing of" or "end before"} this block has nothing to do. */
        const bool hidden = hides_all<DQ_N>(mask, warp_query0, DQ_ROWS, block);

        if (!hidden)
            multiply_rows<dq_tile_t, dq_k_tile_t>(s, none_kept, q_lane, k_lane);
        /* NaN and infinities of K must not meet a dS of zero. Queries that see such a key get NaN: S is infinite or NaN there, so P and
         * dS are 0 or NaN. */
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

        make_scores_gradient(s, dp, lse, delta, p.shape.scale_log2${capped and ", score" or ""});
        if (${hides})
            hide_keys(s, ${sight}, warp_query0, block * DQ_N, 0.0f);

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

    /* dQ goes through this warp's own rows of the Q tile, which it alone reads, to 16-byte stores. Where they go is found again: the
     * registers were worth more in the loop. */
    cp_async_wait(0);
    block_sync();
$ if ragged then
    const struct ragged_tile end = get_ragged_tile(kept);
    const int32_t first_row = end.first_q + end.row0 + (int32_t)warp * DQ_ROWS;
$ elseif padded_batch then
    const struct padded_tile end = get_padded_tile(kept);
    const int32_t first_row = end.row0 + (int32_t)warp * DQ_ROWS;
$ else
    const struct query_block end = find_group_query_block<DQ_M>(p.shape);
    const int32_t first_row = end.query0 + (int32_t)warp * DQ_ROWS;
$ end
    const uint32_t out_tile = q_tile + warp * (DQ_ROWS * dq_tile_t::PAGE_ROW), out_lane = out_tile + lane_offset_pairs<dq_tile_t>(lane);
$ if ragged then
    write_rows<dq_tile_t, dq_tile_t>(p.dq, 0, end.head, first_row, end.first_q + end.own.seqlen_q, 0, dq, p.shape.softmax_scale, out_tile,
                                     out_lane);
$ elseif padded_batch then
    write_rows<dq_tile_t, dq_tile_t>(p.dq, end.batch, end.head, first_row, end.own.seqlen_q, 0, dq, p.shape.softmax_scale, out_tile, out_lane);
$ else
    write_rows<dq_tile_t, dq_tile_t>(p.dq, end.batch, end.head_q, first_row, seqlen_q, 0, dq, p.shape.softmax_scale, out_tile, out_lane);
$ end
}
$ end
