/* ---- dQ: a block owns DQ_M queries, a warpgroup OWN_ROWS of them, and walks over the keys in blocks of DQ_N, last block first ---- */

typedef slab_tile<DQ_N, HEAD_DIM, WIDTH> key_tile; /* K, V of a step */

enum {
    DQ_THREADS = 384,
    K_STAGES = 2,
    V_STAGES = ${head_dim > 192 and 1 or 2},
    DQ_Q_AT = 0, /* of each warpgroup, and then its dQ */
    DQ_DO_AT = DQ_Q_AT + 2 * own_tile::bytes,
    DQ_K_AT = DQ_DO_AT + 2 * own_tile::bytes,
    DQ_V_AT = DQ_K_AT + K_STAGES * key_tile::bytes,
    DQ_BARRIERS_AT = DQ_V_AT + V_STAGES * key_tile::bytes,
    DQ_Q_FULL = 0, DQ_DO_FULL, DQ_K_FULL, DQ_K_EMPTY = DQ_K_FULL + K_STAGES, DQ_V_FULL = DQ_K_EMPTY + K_STAGES,
    DQ_V_EMPTY = DQ_V_FULL + V_STAGES, DQ_BARRIERS = DQ_V_EMPTY + V_STAGES,
    DQ_SHARED_BYTES = DQ_BARRIERS_AT + 8 * DQ_BARRIERS,
    DQ_TURN_BARRIER = 1, DQ_BOTH_BARRIER = 3, DQ_OWN_BARRIER = 4,
};

/* Where a block works${causal and ": the last queries see the most keys, so they come first" or ""}. Of `blocks` blocks of keys that some query sees, those from first_masked on
 * are not seen whole by all. */
struct query_span {
    int32_t query0, batch, head_q, head, blocks, first_masked;
};

GLINT_DEVICE struct query_span find_query_span(const struct glint_gpu_shape *shape)
{
    const int32_t blocks_m = (shape->seqlen_q + DQ_M - 1) / DQ_M;
    const struct block_place place =
        find_place(block_index(), (uint32_t)blocks_m, (uint32_t)(shape->batch * shape->heads_q), (uint32_t)(shape->section * shape->group));
    struct query_span work;

    work.query0 = (blocks_m - 1 - place.index) * DQ_M;
    work.head = place.head;
    work.batch = place.head / shape->heads_q;
    work.head_q = place.head - work.batch * shape->heads_q;
$ if causal then
    const int32_t keys = max(0, min(shape->seqlen_k, min(work.query0 + DQ_M, shape->seqlen_q) + shape->mask_offset));

    work.first_masked = max(0, min(shape->seqlen_k, work.query0 + shape->mask_offset + 1)) / DQ_N;
$ else
    const int32_t keys = shape->seqlen_k;

    work.first_masked = keys / DQ_N;
$ end
    work.blocks = (keys + DQ_N - 1) / DQ_N;
    return work;
}

GLINT_DEVICE void multiply_row_keys(float (&s)[DQ_N / 2], uint32_t own, uint32_t keys)
{
    const uint64_t a = along_columns<own_tile>(own), b = along_columns<key_tile>(keys);

    wgmma_hold(s, DQ_N / 2);
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < HEAD_DIM / 16; ++kk)
        wgmma_m64n${dq_n}k16_${dtype}<0, 0>(s, a + column_step<own_tile>(kk), b + column_step<key_tile>(kk), kk != 0);
    wgmma_commit();
}

GLINT_DEVICE void multiply_ds(float (&dq)[HEAD_DIM / 2], uint32_t (&ds)[DQ_N / 4], uint32_t keys)
{
    const uint64_t b = along_rows<key_tile>(keys);

    wgmma_hold(dq, HEAD_DIM / 2);
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < DQ_N / 16; ++kk)
        wgmma_m64n${head_dim}k16_${dtype}_ra<1>(dq, ds + 4 * kk, b + row_step<key_tile>(kk), 1);
    wgmma_commit();
}

/* Hides keys after last[half], counted from the thread's first one: queries lane / 4 + 8 half. */
GLINT_DEVICE void hide_keys(float (&s)[DQ_N / 2], const int32_t (&last)[2])
{
#pragma unroll
    for (int i = 0; i < DQ_N / 2; ++i)
        s[i] = i / 4 * 8 + i % 2 > last[i / 2 % 2] ? 0.0f : s[i];
}

GLINT_DEVICE void load_queries(const struct glint_backward_maps_params &p, uint32_t shared, uint32_t barriers)
{
    const struct query_span work = find_query_span(&p.base.shape);
    const int32_t head_kv = work.head_q / p.base.shape.group;
    struct ring keys = {0, 0}, values = {0, 0};

    for (int32_t block = work.blocks - 1; block >= 0; --block, ring_advance<K_STAGES>(keys), ring_advance<V_STAGES>(values)) {
        mbarrier_wait(barriers + 8 * (DQ_K_EMPTY + keys.stage), keys.phase ^ 1);
        mbarrier_arrive_expect(barriers + 8 * (DQ_K_FULL + keys.stage), key_tile::bytes);
        load_tile<key_tile>(shared + DQ_K_AT + keys.stage * key_tile::bytes, &p.map[MAP_K], block * DQ_N, head_kv, work.batch, barriers + 8 * (DQ_K_FULL + keys.stage),
                            GLINT_L2_EVICT_LAST);
        if (block == work.blocks - 1) {
            mbarrier_arrive_expect(barriers + 8 * DQ_Q_FULL, 2 * own_tile::bytes);
            for (uint32_t half = 0; half < 2; ++half)
                load_tile<own_tile>(shared + DQ_Q_AT + half * own_tile::bytes, &p.map[MAP_Q], work.query0 + half * OWN_ROWS, work.head_q, work.batch, barriers + 8 * DQ_Q_FULL,
                                    GLINT_L2_EVICT_FIRST);
            mbarrier_arrive_expect(barriers + 8 * DQ_DO_FULL, 2 * own_tile::bytes);
            for (uint32_t half = 0; half < 2; ++half)
                load_tile<own_tile>(shared + DQ_DO_AT + half * own_tile::bytes, &p.map[MAP_DOUT], work.query0 + half * OWN_ROWS, work.head_q, work.batch, barriers + 8 * DQ_DO_FULL,
                                    GLINT_L2_EVICT_FIRST);
        }
        mbarrier_wait(barriers + 8 * (DQ_V_EMPTY + values.stage), values.phase ^ 1);
        mbarrier_arrive_expect(barriers + 8 * (DQ_V_FULL + values.stage), key_tile::bytes);
        load_tile<key_tile>(shared + DQ_V_AT + values.stage * key_tile::bytes, &p.map[MAP_V], block * DQ_N, head_kv, work.batch, barriers + 8 * (DQ_V_FULL + values.stage),
                            GLINT_L2_EVICT_LAST);
    }
}

GLINT_KERNEL(DQ_THREADS, 1) ${symbol}_dq(GLINT_PARAMS(struct glint_backward_maps_params) p)
{
    const uint32_t shared = shared_base(), barriers = shared + DQ_BARRIERS_AT, warp = warp_index(), lane = lane_index();

    if (thread_index() == 0) {
        mbarrier_init(barriers + 8 * DQ_Q_FULL, 1);
        mbarrier_init(barriers + 8 * DQ_DO_FULL, 1);
        for (int i = 0; i < K_STAGES; ++i) {
            mbarrier_init(barriers + 8 * (DQ_K_FULL + i), 1);
            mbarrier_init(barriers + 8 * (DQ_K_EMPTY + i), 8);
        }
        for (int i = 0; i < V_STAGES; ++i) {
            mbarrier_init(barriers + 8 * (DQ_V_FULL + i), 1);
            mbarrier_init(barriers + 8 * (DQ_V_EMPTY + i), 8);
        }
        fence_mbarrier_init();
    }
    block_sync();

    if (warp < 4) {
        registers_give<24>();
        if (warp == 0 && lane == 0)
            load_queries(p, shared, barriers);
        return;
    }
    registers_take<240>();

    const uint32_t warpgroup = warp / 4 - 1, own = warpgroup * own_tile::bytes;
    const struct glint_gpu_shape *shape = &p.base.shape;
    const struct query_span work = find_query_span(shape);
    const int32_t query = work.query0 + (int32_t)(warpgroup * OWN_ROWS + warp % 4 * 16 + lane / 4);
    auto arrive = [&](int barrier) { /* this warp, all lanes of which are done */
        warp_sync();
        if (lane == 0)
            mbarrier_arrive(barriers + 8 * barrier);
    };
    float s[DQ_N / 2], dp[DQ_N / 2], dq[HEAD_DIM / 2], lse[2], delta[2];
    uint32_t ds[DQ_N / 4];
    struct ring keys = {0, 0}, values = {0, 0}; /* of the scores that are made next */

#pragma unroll
    for (int half = 0; half < 2; ++half) {
        lse[half] = ld_global_f32(p.base.lse_log2 + work.head * p.base.padded_q + query + 8 * half);
        delta[half] = ld_global_f32(p.base.delta + work.head * p.base.padded_q + query + 8 * half);
    }
#pragma unroll
    for (int i = 0; i < HEAD_DIM / 2; ++i)
        dq[i] = 0.0f;

    /* S = Q K^T and dP = dO V^T of the next block. */
    auto begin_scores = [&]() {
        mbarrier_wait(barriers + 8 * (DQ_K_FULL + keys.stage), keys.phase);
        multiply_row_keys(s, shared + DQ_Q_AT + own, shared + DQ_K_AT + keys.stage * key_tile::bytes);
        mbarrier_wait(barriers + 8 * (DQ_V_FULL + values.stage), values.phase);
        multiply_row_keys(dp, shared + DQ_DO_AT + own, shared + DQ_V_AT + values.stage * key_tile::bytes);
    };
    auto end_scores = [&]() {
        wgmma_wait<0>();
        wgmma_hold(s, DQ_N / 2);
        wgmma_hold(dp, DQ_N / 2);
        arrive(DQ_V_EMPTY + (int)values.stage);
        ring_advance<V_STAGES>(values);
    };
    /* dS = P (dP - delta), P = 2^(scale S - LSE). Returns where its K is; NaN and infinities of hidden keys, which must not meet a dS of zero,
     * are no more there. Queries that see such a key get NaN: S is infinite or NaN there, so P and dS are 0 or NaN. */
    auto make_ds = [&](int32_t block) {
        const uint32_t k = shared + DQ_K_AT + keys.stage * key_tile::bytes;

#pragma unroll
        for (int i = 0; i < DQ_N / 2; ++i)
            s[i] = ex2(fmaf(s[i], shape->scale_log2, -lse[i / 2 % 2])) * (dp[i] - delta[i / 2 % 2]);
        if (block >= work.first_masked) {
            const int32_t column = block * DQ_N + 2 * (int32_t)(lane % 4);
$ if causal then
            const uint32_t thread = thread_index_anew() - 128;
            const int32_t last[2] = {min(query + shape->mask_offset, shape->seqlen_k - 1) - column, min(query + 8 + shape->mask_offset, shape->seqlen_k - 1) - column};

            if (named_any(DQ_BOTH_BARRIER, 256, sees_special(k, key_tile::bytes, thread, 256, EXPONENT))) {
#pragma unroll 1
                for (uint32_t row = 0; row < DQ_N; ++row)
                    add_special_row<key_tile, HEAD_DIM>(dq, k, row, 0, 0.0f, EXPONENT, [&](int half) { return block * DQ_N + (int32_t)row <= query + 8 * half + shape->mask_offset; });
                named_sync(DQ_BOTH_BARRIER, 256);
                remove_special(k, key_tile::bytes, thread, 256, EXPONENT);
                fence_async_shared();
                named_sync(DQ_BOTH_BARRIER, 256);
            }
$ else
            const int32_t last[2] = {shape->seqlen_k - 1 - column, shape->seqlen_k - 1 - column};
$ end
            hide_keys(s, last);
        }
#pragma unroll
        for (int i = 0; i < DQ_N / 4; ++i)
            ds[i] = pack_${dtype}(s[2 * i], s[2 * i + 1]);
        wgmma_hold(ds, DQ_N / 4);
        return k;
    };

    if (warpgroup == 1)
        named_arrive(DQ_TURN_BARRIER, 256);
    if (work.blocks > 0) {
        mbarrier_wait(barriers + 8 * DQ_Q_FULL, 0);
        mbarrier_wait(barriers + 8 * DQ_DO_FULL, 0);
        begin_scores();
        end_scores();
    }
#pragma unroll 1
    for (int32_t block = work.blocks - 1; block > 0; --block) {
        const uint32_t k = make_ds(block), stage = keys.stage;

        /* dQ += dS K, and the next block's scores, one warpgroup at a time: the other one is at its exponentials. */
        ring_advance<K_STAGES>(keys);
        named_sync(DQ_TURN_BARRIER + warpgroup, 256);
        multiply_ds(dq, ds, k);
        begin_scores();
        named_arrive(DQ_TURN_BARRIER + (warpgroup ^ 1), 256);
        wgmma_wait<2>();
        wgmma_hold(dq, HEAD_DIM / 2);
        arrive(DQ_K_EMPTY + (int)stage);
        end_scores();
    }
    if (work.blocks > 0) {
        multiply_ds(dq, ds, make_ds(0));
        wgmma_wait<0>();
        wgmma_hold(dq, HEAD_DIM / 2);
    }

    /* dQ goes through the warpgroup's own Q. */
    store_rounded<own_tile, HEAD_DIM>(shared + DQ_Q_AT + own, 0, dq, shape->softmax_scale);
    fence_async_shared();
    named_sync(DQ_OWN_BARRIER + warpgroup, 128);
    if (warp % 4 == 0 && lane == 0) {
        store_tile<own_tile>(&p.map[MAP_DQ], work.query0 + (int32_t)(warpgroup * OWN_ROWS), work.head_q, work.batch, shared + DQ_Q_AT + own);
        bulk_commit();
        bulk_wait_read<0>();
    }
}
