/* ---- dK and dV: a block owns TILE_N keys. One warpgroup makes P^T and keeps dV, the other one makes dP^T and dS^T and keeps dK ---- */

enum {
    STAGES = 2, /* of Q and dO, and of P */
    P_BYTES = TILE_M * TILE_N * 4,
    K_AT = 0, /* and then dV */
    V_AT = K_AT + own_tile::bytes, /* and then dK */
    Q_AT = V_AT + own_tile::bytes,
    DO_AT = Q_AT + STAGES * query_tile::bytes,
    P_AT = DO_AT + STAGES * query_tile::bytes,
    LSE_AT = P_AT + STAGES * P_BYTES,
    DELTA_AT = LSE_AT + STAGES * TILE_M * 4,
    BARRIERS_AT = DELTA_AT + STAGES * TILE_M * 4,
    K_FULL = 0, V_FULL, Q_FULL, Q_EMPTY = Q_FULL + STAGES, DO_FULL = Q_EMPTY + STAGES, DO_EMPTY = DO_FULL + STAGES, P_FULL = DO_EMPTY + STAGES,
    P_EMPTY = P_FULL + STAGES, BARRIERS = P_EMPTY + STAGES,
    SHARED_BYTES = BARRIERS_AT + 8 * BARRIERS,
    BOTH_BARRIER = 1, OWN_BARRIER = 2,
};

/* Keys [key0, key0 + TILE_N) of one head, against query blocks last_m ... first_m of each query head of its group. Those under first_clear do not
 * all see all of its keys. */
struct work {
    int32_t batch, head_kv, key0, first_m, last_m, first_clear, steps;
};

GLINT_DEVICE struct work find_work(const struct glint_gpu_shape *shape)
{
    const int32_t blocks = (shape->seqlen_k + TILE_N - 1) / TILE_N;
    const struct block_place place = find_place(block_index(), (uint32_t)blocks, (uint32_t)(shape->batch * shape->heads_kv), (uint32_t)shape->section);
    struct work work;

    work.batch = place.head / shape->heads_kv;
    work.head_kv = place.head - work.batch * shape->heads_kv;
    work.key0 = place.index * TILE_N;
    work.last_m = (shape->seqlen_q + TILE_M - 1) / TILE_M - 1;
$ if causal then
    const int32_t first = max(0, work.key0 - shape->mask_offset); /* query that sees a key */

    work.first_m = first < shape->seqlen_q ? first / TILE_M : work.last_m + 1;
    work.first_clear = work.key0 + TILE_N > shape->seqlen_k ? work.last_m + 1 : (max(0, work.key0 + TILE_N - 1 - shape->mask_offset) + TILE_M - 1) / TILE_M;
$ else
    work.first_m = 0;
    work.first_clear = work.key0 + TILE_N > shape->seqlen_k ? work.last_m + 1 : 0;
$ end
    work.steps = (work.last_m - work.first_m + 1) * shape->group;
    return work;
}

/* Where a step is: its query head and query block. */
struct walk {
    int32_t head, m;
};

GLINT_DEVICE void walk_on(struct walk &walk, const struct work &work)
{
    walk.head += walk.m == work.first_m;
    walk.m = walk.m == work.first_m ? work.last_m : walk.m - 1;
}

/* Q with LSE, dO with delta: a step's `rows` of 4 bytes each. */
GLINT_DEVICE void load_rows(const struct glint_backward_maps_params &p, uint32_t shared, uint32_t barriers)
{
    const struct glint_gpu_shape *shape = &p.base.shape;
    const struct work work = find_work(shape);
    struct walk walk = {work.head_kv * shape->group, work.last_m};
    struct ring queries = {0, 0};

    mbarrier_arrive_expect(barriers + 8 * K_FULL, own_tile::bytes);
    load_tile<own_tile>(shared + K_AT, &p.map[MAP_K], work.key0, work.head_kv, work.batch, barriers + 8 * K_FULL, GLINT_L2_EVICT_FIRST);
    for (int32_t step = 0; step < work.steps; ++step, walk_on(walk, work), ring_advance<STAGES>(queries)) {
        const int64_t row = (work.batch * shape->heads_q + walk.head) * p.base.padded_q + walk.m * TILE_M;
        const uint32_t q_full = barriers + 8 * (Q_FULL + queries.stage), do_full = barriers + 8 * (DO_FULL + queries.stage);

        mbarrier_wait(barriers + 8 * (Q_EMPTY + queries.stage), queries.phase ^ 1);
        mbarrier_arrive_expect(q_full, query_tile::bytes + TILE_M * 4);
        load_tile<query_tile>(shared + Q_AT + queries.stage * query_tile::bytes, &p.map[MAP_Q], walk.m * TILE_M, walk.head, work.batch, q_full, GLINT_L2_EVICT_LAST);
        bulk_load(shared + LSE_AT + queries.stage * (TILE_M * 4), p.base.lse_log2 + row, TILE_M * 4, q_full);
        if (step == 0) {
            mbarrier_arrive_expect(barriers + 8 * V_FULL, own_tile::bytes);
            load_tile<own_tile>(shared + V_AT, &p.map[MAP_V], work.key0, work.head_kv, work.batch, barriers + 8 * V_FULL, GLINT_L2_EVICT_FIRST);
        }
        mbarrier_wait(barriers + 8 * (DO_EMPTY + queries.stage), queries.phase ^ 1);
        mbarrier_arrive_expect(do_full, query_tile::bytes + TILE_M * 4);
        load_tile<query_tile>(shared + DO_AT + queries.stage * query_tile::bytes, &p.map[MAP_DOUT], walk.m * TILE_M, walk.head, work.batch, do_full, GLINT_L2_EVICT_LAST);
        bulk_load(shared + DELTA_AT + queries.stage * (TILE_M * 4), p.base.delta + row, TILE_M * 4, do_full);
    }
}

GLINT_KERNEL(THREADS, 1) ${symbol}(GLINT_PARAMS(struct glint_backward_maps_params) p)
{
    const uint32_t shared = shared_base(), barriers = shared + BARRIERS_AT, warp = warp_index(), lane = lane_index();

    if (thread_index() == 0) {
        mbarrier_init(barriers + 8 * K_FULL, 1);
        mbarrier_init(barriers + 8 * V_FULL, 1);
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(barriers + 8 * (Q_FULL + i), 1);
            mbarrier_init(barriers + 8 * (Q_EMPTY + i), WARPS);
            mbarrier_init(barriers + 8 * (DO_FULL + i), 1);
            mbarrier_init(barriers + 8 * (DO_EMPTY + i), WARPS);
            mbarrier_init(barriers + 8 * (P_FULL + i), WARPS / 2);
            mbarrier_init(barriers + 8 * (P_EMPTY + i), WARPS / 2);
        }
        fence_mbarrier_init();
    }
    block_sync();

    if (warp < 4) {
        registers_give<${producer_registers}>();
        if (warp == 0 && lane == 0)
            load_rows(p, shared, barriers);
        return;
    }
    registers_take<${registers}>();

    const bool keeps_dk = warp >= 8; /* else dV */
    const struct glint_gpu_shape *shape = &p.base.shape;
    const struct work work = find_work(shape);
    const uint32_t thread = thread_index() % 128, column = lane % 4 * 8;
    auto arrive = [&](int barrier) { /* this warp, all lanes of which are done */
        warp_sync();
        if (lane == 0)
            mbarrier_arrive(barriers + 8 * barrier);
    };
    float d[HEAD_DIM / 2], s[TILE_M / 2];
    uint32_t words[TILE_M / 4];
    struct ring queries = {0, 0}, next = {0, 0}; /* of this step, and of the scores that are made next */
    struct walk walk = {work.head_kv * shape->group, work.last_m};

    /* S^T = K Q^T and dV += P^T dO, or dP^T = V dO^T and dK += dS^T Q: the same products of other tiles. */
    const uint32_t x = shared + (keeps_dk ? V_AT : K_AT), y = shared + (keeps_dk ? DO_AT : Q_AT), z = shared + (keeps_dk ? Q_AT : DO_AT);
    const int y_full = keeps_dk ? DO_FULL : Q_FULL, y_empty = keeps_dk ? DO_EMPTY : Q_EMPTY, z_full = keeps_dk ? Q_FULL : DO_FULL, z_empty = keeps_dk ? Q_EMPTY : DO_EMPTY;
    auto begin_scores = [&]() {
        mbarrier_wait(barriers + 8 * (y_full + (int)next.stage), next.phase);
        multiply_rows(s, x, y + next.stage * query_tile::bytes);
        ring_advance<STAGES>(next);
    };
    /* Rows of Q and dO in which NaN or infinity could meet a P or dS of zero where the mask hides them: see settle below. */
    auto settle = [&](const struct sight &sight) {
        const int32_t first = 2 * (int32_t)(lane % 4);

        named_sync(BOTH_BARRIER, 32 * WARPS);
        if (!keeps_dk) {
#pragma unroll 1
            for (int32_t query = 0; query < TILE_M; ++query)
                add_special_row<query_tile, HEAD_DIM>(d, shared + DO_AT + queries.stage * query_tile::bytes, (uint32_t)query, 0, 1.0f, EXPONENT,
                                                      [&](int side) { return query - first >= sight.first[side] && query - first < sight.end; });
        }
        named_sync(BOTH_BARRIER, 32 * WARPS);
        remove_special(shared + Q_AT + queries.stage * query_tile::bytes, query_tile::bytes, thread_index_anew() - 128, 32 * WARPS, EXPONENT);
        remove_special(shared + DO_AT + queries.stage * query_tile::bytes, query_tile::bytes, thread_index_anew() - 128, 32 * WARPS, EXPONENT);
        fence_async_shared();
        named_sync(BOTH_BARRIER, 32 * WARPS);
    };
    /* P^T = 2^(scale S^T - LSE), passed on as it is in registers; or dS^T = P^T (dP^T - delta). */
    auto make_operand = [&]() {
        const uint32_t rows = shared + (keeps_dk ? DELTA_AT : LSE_AT) + queries.stage * (TILE_M * 4) + column;
        const uint32_t passed = shared + P_AT + queries.stage * P_BYTES + thread * 16;
        const bool masked = walk.m < work.first_clear;
        struct sight sight;

        mbarrier_wait(barriers + 8 * (z_full + (int)queries.stage), queries.phase);
        mbarrier_wait(barriers + 8 * ((keeps_dk ? P_FULL : P_EMPTY) + (int)queries.stage), keeps_dk ? queries.phase : queries.phase ^ 1);
        if (masked)
            sight = sight_of_keys(work.key0 + (int32_t)(warp % 4 * 16 + lane / 4), walk.m * TILE_M, ${causal and "shape->mask_offset" or "shape->seqlen_k"}, shape->seqlen_q, shape->seqlen_k);
        if (!keeps_dk) {
#pragma unroll
            for (int j = 0; j < TILE_M / 8; ++j) {
                float v[2];

                ld_shared_f32x2(v, rows + 32 * j);
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    s[4 * j + e] = ex2(fmaf(s[4 * j + e], shape->scale_log2, -v[e % 2]));
            }
            if (masked)
                hide_queries<TILE_M>(s, sight);
#pragma unroll
            for (int j = 0; j < TILE_M / 8; ++j)
                st_shared_floats(passed + j * (128 * 16), s + 4 * j);
            arrive(P_FULL + (int)queries.stage);
        } else {
#pragma unroll
            for (int j = 0; j < TILE_M / 8; ++j) {
                float v[2];
                uint32_t p_words[4];

                ld_shared_f32x2(v, rows + 32 * j);
                ld_shared_u32x4(p_words, passed + j * (128 * 16));
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    s[4 * j + e] = float_of(p_words[e]) * (s[4 * j + e] - v[e % 2]);
            }
            arrive(P_EMPTY + (int)queries.stage);
            if (masked)
                hide_queries<TILE_M>(s, sight);
        }
        to_operand(words, s);
        if (masked && queries_special<TILE_M>(shared + LSE_AT + queries.stage * (TILE_M * 4), shared + DELTA_AT + queries.stage * (TILE_M * 4)))
            settle(sight);
    };

#pragma unroll
    for (int i = 0; i < HEAD_DIM / 2; ++i)
        d[i] = 0.0f;
    mbarrier_wait(barriers + 8 * K_FULL, 0);
    if (work.steps > 0) {
        mbarrier_wait(barriers + 8 * V_FULL, 0);
        begin_scores();
        wgmma_wait<0>();
        wgmma_hold(s, TILE_M / 2);
    }
#pragma unroll 1
    for (int32_t step = 1; step < work.steps; ++step) {
        make_operand();
        multiply_scores(d, words, z + queries.stage * query_tile::bytes);
        begin_scores();
        wgmma_wait<1>();
        wgmma_hold(d, HEAD_DIM / 2);
        arrive(z_empty + (int)queries.stage);
        arrive(y_empty + (int)queries.stage);
        wgmma_wait<0>();
        wgmma_hold(s, TILE_M / 2);
        walk_on(walk, work);
        ring_advance<STAGES>(queries);
    }
    if (work.steps > 0) {
        make_operand();
        multiply_scores(d, words, z + queries.stage * query_tile::bytes);
        wgmma_wait<0>();
        wgmma_hold(d, HEAD_DIM / 2);
    }

    /* dV goes through K, dK through V: each warpgroup alone has read its own. */
    store_rounded<own_tile, HEAD_DIM>(x, 0, d, keeps_dk ? shape->softmax_scale : 1.0f);
    fence_async_shared();
    named_sync(OWN_BARRIER + keeps_dk, 128);
    if (warp % 4 == 0 && lane == 0) {
        store_tile<own_tile>(keeps_dk ? &p.map[MAP_DK] : &p.map[MAP_DV], work.key0, work.head_kv, work.batch, x);
        bulk_commit();
        bulk_wait_read<0>();
    }
}
