$ local element = dtype == "f32" and math or dtype
$ local padded = padded_dim == (head_dim + 15) // 16 * 16 and "" or ", " .. padded_dim
/* ---- dBias: a block owns a tile of it, and walks over all that share it ---- */

enum {
    BIAS_TILE = ${bias_tile}, /* queries, and keys */
    BIAS_WARPS = BIAS_TILE / 16, /* a warp has 16 queries */
    BIAS_THREADS = 32 * BIAS_WARPS,
    BIAS_STAGES = ${bias_stages},
};
typedef struct tile<element, BIAS_TILE, ${head_dim}, ${page_chunks}${padded}> bias_rows_t; /* of Q, dO, K and V */
static_assert(BIAS_STAGES * 4 * bias_rows_t::BYTES${intervals and " + BIAS_TILE * RANGE_BYTES" or ""} == ${bias_smem_bytes}, "shared memory");

template <class Rows> GLINT_DEVICE void attend_bias(const struct glint_gpu_call &p)
{
    const uint32_t lane = lane_index(), warp = warp_index();
    const struct bias_tile own = find_bias_tile<BIAS_TILE>(p);
    const score_t score = score_t::of(p);
    const struct kept_rows<1, 0> none_kept = {};
    struct bias_walk<Rows> walk = begin_walk<Rows>(p, own);
    float sum[1][BIAS_TILE / 8][4];
    set_zero(sum);

    /* Shared memory: stages of Q, dO, K and V. */
    const uint32_t tiles = shared_base();
    const uint32_t q_lane = tiles + lane_offset_a<bias_rows_t>(lane) + warp * (16 * bias_rows_t::PAGE_ROW);
    const uint32_t k_lane = tiles + 2 * bias_rows_t::BYTES + lane_offset_b<bias_rows_t>(lane);
    auto copy_step = [&](uint32_t stage) {
        const int32_t head_kv = walk.head / p.shape.group, batch = walk.at.batch;
        const int32_t row_q = walk.at.first_q + walk.query0, end_q = walk.at.first_q + walk.at.own.seqlen_q;
        const int32_t row_k = walk.at.first_k + walk.key0, end_k = walk.at.first_k + walk.at.own.seqlen_k;

        copy_tile<bias_rows_t, BIAS_THREADS>(tiles + stage, p.q, batch, walk.head, row_q, end_q);
        copy_tile<bias_rows_t, BIAS_THREADS>(tiles + stage + bias_rows_t::BYTES, p.dout, batch, walk.head, row_q, end_q);
        copy_tile<bias_rows_t, BIAS_THREADS>(tiles + stage + 2 * bias_rows_t::BYTES, p.k, batch, head_kv, row_k, end_k);
        copy_tile<bias_rows_t, BIAS_THREADS>(tiles + stage + 3 * bias_rows_t::BYTES, p.v, batch, head_kv, row_k, end_k);
    };

    /* Elements that are read once: those of sequences of equal lengths, which do not end within the bounds. */
    const bias_t whole = bias_t::at(p, max(own.batch, 0), max(own.head, 0), given::sequence_of(p.shape));
    auto added = tile_of_queries<1, BIAS_TILE / 8>(whole, Rows::READS ? p.shape.seqlen_q : max(own.query0, 0) + (int32_t)warp * 16,
                                                   max(own.key0, 0));

    bool any = next_tile<BIAS_TILE, mask_t>(walk, p, own);
    uint32_t stage = 0; /* bytes */
    if (any)
        copy_step(stage);
    cp_async_commit();
#pragma unroll 1
    while (any) {
        const struct bias_walk<Rows> now = walk;
        const struct sequence &seq = now.at.own;
        const int32_t warp_query0 = now.query0 + (int32_t)(thread_index_anew() / 32) * 16;

        any = next_tile<BIAS_TILE, mask_t>(walk, p, own);
        if (BIAS_STAGES == 2) {
            if (any)
                copy_step(stage ^ 4 * bias_rows_t::BYTES);
            cp_async_commit();
        }
        float lse[1][2], delta[1][2];
        load_rows_lse(lse, delta, p, now.at.line + now.head, now.padded + warp_query0, thread_index_anew() % 32);
        if (Rows::READS)
            added = tile_of_queries<1, BIAS_TILE / 8>(bias_t::at(p, now.number, now.head, seq), warp_query0, now.key0);
        cp_async_wait(BIAS_STAGES - 1);
$ if element == "tf32" then
        round_tile<bias_rows_t, BIAS_THREADS>(tiles + stage);
        round_tile<bias_rows_t, BIAS_THREADS>(tiles + stage + bias_rows_t::BYTES);
$ end
        block_sync();

        float s[1][BIAS_TILE / 8][4], dp[1][BIAS_TILE / 8][4]; /* S and then dS; dP */
        multiply_rows<bias_rows_t, bias_rows_t>(s, none_kept, q_lane + stage, k_lane + stage);
        multiply_rows<bias_rows_t, bias_rows_t>(dp, none_kept, q_lane + stage + bias_rows_t::BYTES, k_lane + stage + bias_rows_t::BYTES);
        change_scores(s, score);
        make_bias_gradient(s, dp, lse, delta, p.shape, score, added);
$ if intervals then
        const struct tile_intervals mask = make_mask_of_tile<BIAS_TILE, BIAS_THREADS>(mask_of<mask_t>(p, now.at), now.query0,
                                                                                      tiles + BIAS_STAGES * 4 * bias_rows_t::BYTES);
$ else
        const mask_t mask = mask_of<mask_t>(seq);
$ end
        const struct key_blocks<mask_t> blocks =
            find_key_blocks<BIAS_TILE>(mask, now.query0, min(now.query0 + BIAS_TILE, seq.seqlen_q) - 1);
        if (hides_some(mask, now.key0 / BIAS_TILE, blocks.whole_from, blocks.hidden_from))
            hide_keys(s, mask, warp_query0, now.key0, 0.0f);
        if (now.query0 + BIAS_TILE > seq.seqlen_q)
            clear_rows(s, warp_query0, seq.seqlen_q);
        add_scores(sum, s);

        /* Then no warp reads this stage any more. */
        block_sync();
        if (BIAS_STAGES == 1) {
            if (any)
                copy_step(stage);
            cp_async_commit();
        } else
            stage ^= 4 * bias_rows_t::BYTES;
    }
    if (tensor_of(p).parts > 1)
        add_to_memory<BIAS_THREADS>(bias_sums<BIAS_TILE>(p, 0), sum, true);
    else
        write_bias_gradient<element, BIAS_TILE, BIAS_WARPS>(p, own, sum, tiles);
}

/* Where several blocks have a tile: what they left, one part after another. */
GLINT_DEVICE void add_bias_parts(const struct glint_gpu_call &p)
{
    const struct bias_tile own = find_bias_tile<BIAS_TILE>(p);
    float sum[1][BIAS_TILE / 8][4];
    set_zero(sum);

#pragma unroll 1
    for (int32_t part = 0; part < tensor_of(p).parts; ++part)
        add_from_memory<BIAS_THREADS, BIAS_TILE / 8>(sum, bias_sums<BIAS_TILE>(p, part), 0);
    write_bias_gradient<element, BIAS_TILE, BIAS_WARPS>(p, own, sum, shared_base());
}

$ for _, kernel in ipairs(kernels) do
GLINT_KERNEL(BIAS_THREADS, ${bias_blocks}) ${symbol}${kernel.suffix}_dbias(GLINT_PARAMS(struct ${call_type}) p)
{
    attend_bias<${kernel.rows}>(${call_of});
}

GLINT_KERNEL(BIAS_THREADS, 1) ${symbol}${kernel.suffix}_bias_sum(GLINT_PARAMS(struct ${call_type}) p)
{
    add_bias_parts(${call_of});
}
$ end
