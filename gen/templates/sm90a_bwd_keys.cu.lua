$ local fused = strategy == "fused"
$ local by_columns = head_dim > 64 -- a warpgroup makes dQ of all queries and half of the columns, or of half the queries
$ local early = tile_m == 64 -- LSE and delta are read before the wait for what they go with: 1 % at 64 queries, a loss at 128
/* ---- dK and dV${fused and ", and parts of dQ" or ""}: a block owns TILE_N keys, a warpgroup OWN_ROWS of them ---- */

typedef slab_tile<TILE_M, TILE_N, 128> ds_tile; /* dS: queries by keys */

enum {
    STAGES = 2,                                   /* of Q and dO${fused and ", dS" or ""} and what leaves */
    OUT_BYTES = ${fused and "TILE_M * HEAD_DIM * 4" or "TILE_N * HEAD_DIM * BYTES"}, /* ${fused and "a step's dQ in float32; dK or dV" or "dK or dV"} of a block */
    K_AT = 0,
    V_AT = K_AT + TILE_N * HEAD_DIM * BYTES,
    Q_AT = V_AT + TILE_N * HEAD_DIM * BYTES,
    DO_AT = Q_AT + STAGES * query_tile::bytes,
    OUT_AT = DO_AT + STAGES * query_tile::bytes,
$ if fused then
    DS_AT = OUT_AT + STAGES * OUT_BYTES,
    LSE_AT = DS_AT + STAGES * ds_tile::bytes,
$ else
    LSE_AT = OUT_AT + STAGES * OUT_BYTES,
$ end
    DELTA_AT = LSE_AT + STAGES * TILE_M * 4,
    BARRIERS_AT = DELTA_AT + STAGES * TILE_M * 4,
    /* mbarriers, by their place */
    K_FULL = 0, K_EMPTY, V_FULL, V_EMPTY, CHECKED,
    Q_FULL, Q_EMPTY = Q_FULL + STAGES, DO_FULL = Q_EMPTY + STAGES, DO_EMPTY = DO_FULL + STAGES,
    OUT_FULL = DO_EMPTY + STAGES, OUT_EMPTY = OUT_FULL + STAGES,
    DS_FULL = OUT_EMPTY + STAGES, DS_EMPTY = DS_FULL + STAGES, TURN_SEEN = DS_EMPTY + STAGES,
    NUMBER_FULL = TURN_SEEN + STAGES, NUMBER_EMPTY = NUMBER_FULL + STAGES,
    BARRIERS = NUMBER_EMPTY + STAGES,
    NUMBER_AT = BARRIERS_AT + 8 * BARRIERS, /* the block's present number and the next; whether its keys hold NaN or infinity */
    SPECIAL_AT = NUMBER_AT + 4 * STAGES,
    SHARED_BYTES = NUMBER_AT + 16,
    /* named barriers: a warpgroup's turn to multiply, two of them; both warpgroups */
    TURN_BARRIER = 1, BOTH_BARRIER = 3,
};

/* What a block does for one number: keys [key0, key0 + TILE_N) of one head, against query blocks last_m ... first_m of each query head of its
 * group. Those under first_clear do not all see all of its keys. */
struct work {
    int32_t batch, head_kv, key0, first_m, last_m, first_clear, steps;
};

GLINT_DEVICE struct work find_work(const struct glint_gpu_shape *shape, uint32_t number)
{
    const int32_t blocks = (shape->seqlen_k + TILE_N - 1) / TILE_N;
    const struct block_place place = find_place(number, (uint32_t)blocks, (uint32_t)(shape->batch * shape->heads_kv), (uint32_t)shape->section);
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

/* Where a step is: its query head and query block. Every role walks the same way. */
struct walk {
    int32_t head, m;
};

GLINT_DEVICE struct walk walk_begin(const struct work &work, int32_t group)
{
    return {work.head_kv * group, work.last_m};
}

GLINT_DEVICE void walk_on(struct walk &walk, const struct work &work)
{
    walk.head += walk.m == work.first_m;
    walk.m = walk.m == work.first_m ? work.last_m : walk.m - 1;
}

$ if fused then
GLINT_DEVICE struct walk step_before(const struct walk &walk, const struct work &work)
{
    const bool first = walk.m == work.last_m;

    return {walk.head - first, first ? work.first_m : walk.m + 1};
}

/* The place before, in a ring of two. */
GLINT_DEVICE struct ring ring_before(const struct ring &ring)
{
    return {ring.stage ^ 1, ring.phase ^ (ring.stage == 0)};
}

/* dQ of a step from its dS and the block's K: ${by_columns and "all queries by half of the columns" or "half of the queries by all columns"} for each warpgroup. A group of its own. */
GLINT_DEVICE void multiply_keys(float (&dq)[32], uint32_t warpgroup, uint32_t ds, uint32_t k)
{
    const uint64_t a = along_columns<ds_tile>(ds${by_columns and "" or " + warpgroup * (OWN_ROWS * 128)"});
    const uint64_t b = along_rows<own_tile>(k${by_columns and " + warpgroup * own_tile::slab_bytes" or ""});

    wgmma_hold(dq, 32);
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < TILE_N / 16; ++kk)
        wgmma_m64n64k16_${dtype}<0, 1>(dq, a + column_step<ds_tile>(kk), b + (uint64_t)(kk / 4 * own_tile::bytes >> 4) + row_step<own_tile>(kk % 4), kk != 0);
}

/* dS^T of this warpgroup's keys, from registers. */
GLINT_DEVICE void store_ds(uint32_t at, uint32_t warpgroup, const uint32_t (&words)[TILE_M / 4])
{
    const uint32_t lane = thread_index_anew() % 32, chunk = warpgroup * 8 + thread_index_anew() / 32 % 4 * 2 + lane / 8 % 2;
    const uint32_t lane_at = at + tile_offset(lane / 16 * 8 + lane % 8, chunk, ds_tile::rows, ds_tile::chunks);

#pragma unroll
    for (int j = 0; j < TILE_M / 16; ++j)
        stmatrix_x4_trans(tile_move(lane_at, 16 * j, 0, ds_tile::rows, ds_tile::chunks), words + 4 * j);
}

/* The last key that a step's queries see, and one. */
GLINT_DEVICE int32_t keys_seen(const struct glint_gpu_shape *shape, int32_t m)
{
    return ${causal and "min(shape->seqlen_k, min(shape->seqlen_q, (m + 1) * TILE_M) + shape->mask_offset)" or "shape->seqlen_k"};
}

GLINT_DEVICE int64_t query_blocks(const struct glint_backward_params *p, int32_t batch, int32_t head, int32_t m)
{
    return (int64_t)(batch * p->shape.heads_q + head) * (p->padded_q / TILE_M) + m;
}

$ end
/* NaN and infinities of dO go to the dV of keys that their query sees, and then leave the tile. Those of Q only leave: their rows' LSE,
 * and so P and dS, are not finite either. Both warpgroups come here, or none. */
GLINT_DEVICE void settle_queries(float (&dv)[HEAD_DIM / 2], uint32_t q, uint32_t dout, const struct sight &sight)
{
    const uint32_t thread = thread_index_anew() - 128;
    const int32_t column = 2 * (int32_t)(thread % 4);

    named_sync(BOTH_BARRIER, 32 * WARPS);
#pragma unroll 1
    for (int32_t query = 0; query < TILE_M; ++query)
        add_special_row<query_tile, HEAD_DIM>(dv, dout, (uint32_t)query, 0, 1.0f, EXPONENT,
                                              [&](int side) { return query - column >= sight.first[side] && query - column < sight.end; });
    named_sync(BOTH_BARRIER, 32 * WARPS);
    remove_special(q, query_tile::bytes, thread, 32 * WARPS, EXPONENT);
    remove_special(dout, query_tile::bytes, thread, 32 * WARPS, EXPONENT);
    fence_async_shared();
    named_sync(BOTH_BARRIER, 32 * WARPS);
}

/* The block's K or V. */
GLINT_DEVICE void load_own(uint32_t to, const struct tensor_map *map, const struct work &work, uint32_t full, uint32_t empty, uint32_t phase)
{
    mbarrier_wait(empty, phase ^ 1);
    mbarrier_arrive_expect(full, 2 * own_tile::bytes);
    for (uint32_t half = 0; half < 2; ++half)
        load_tile<own_tile>(to + half * own_tile::bytes, map, work.key0 + half * OWN_ROWS, work.head_kv, work.batch, full, GLINT_L2_EVICT_FIRST);
}

/* Two warps load for the block, a thread each: K and Q with LSE, V and dO with delta. The first one takes numbers as the block gets to them, so a
 * block waits only for such as are worked on or done, and passes them on to all other roles. */
GLINT_DEVICE void load_keys(const struct glint_backward_maps_params &p, uint32_t shared, uint32_t barriers)
{
    const struct glint_gpu_shape *shape = &p.base.shape;
    const uint32_t total = (uint32_t)(shape->batch * shape->heads_kv) * (uint32_t)((shape->seqlen_k + TILE_N - 1) / TILE_N);
    struct ring queries = {0, 0};

    for (uint32_t turn = 0;; ++turn) {
$ if fused then
        /* Without queries no kernel has cleared the counter; nor does any block wait for another. */
        const uint32_t number = shape->seqlen_q > 0 ? atom_global_add_u32(p.base.turn, 1) : block_index() + turn * p.blocks[1];
$ else
        const uint32_t number = turn == 0 ? block_index() : total; /* one */
$ end

        mbarrier_wait(barriers + 8 * (NUMBER_EMPTY + turn % 2), turn / 2 % 2 ^ 1);
        st_shared_u32(shared + NUMBER_AT + 4 * (turn % 2), number < total ? number : (uint32_t)NO_WORK);
        mbarrier_arrive(barriers + 8 * (NUMBER_FULL + turn % 2));
        if (number >= total)
            return;
        const struct work work = find_work(shape, number);
        struct walk walk = walk_begin(work, shape->group);
        const float *rows = p.base.lse_log2 + (work.batch * shape->heads_q + walk.head) * p.base.padded_q; /* of the head */

        bool first = true;

        for (int32_t left = work.steps; left > 0; --left, rows += walk.m == work.first_m ? p.base.padded_q : 0, walk_on(walk, work), ring_advance<STAGES>(queries)) {
            const uint32_t full = barriers + 8 * (Q_FULL + queries.stage);

            mbarrier_wait(barriers + 8 * (Q_EMPTY + queries.stage), queries.phase ^ 1);
            mbarrier_arrive_expect(full, query_tile::bytes + TILE_M * 4);
            load_tile<query_tile>(shared + Q_AT + queries.stage * query_tile::bytes, &p.map[MAP_Q], walk.m * TILE_M, walk.head, work.batch, full, GLINT_L2_EVICT_LAST);
            bulk_load(shared + LSE_AT + queries.stage * (TILE_M * 4),
                      rows + walk.m * TILE_M, TILE_M * 4, full);
            if (first)
                load_own(shared + K_AT, &p.map[MAP_K], work, barriers + 8 * K_FULL, barriers + 8 * K_EMPTY, turn % 2);
            first = false;
        }
        if (first) {
            mbarrier_wait(barriers + 8 * K_EMPTY, turn % 2 ^ 1);
            mbarrier_arrive(barriers + 8 * K_FULL);
        }
    }
}

/* All lanes come here. ${fused and causal and "They also look for NaN and infinity in K, which must not meet a dS of zero where the mask hides them." or ""} */
GLINT_DEVICE void load_values(const struct glint_backward_maps_params &p, uint32_t shared, uint32_t barriers)
{
    const struct glint_gpu_shape *shape = &p.base.shape;
    struct ring queries = {0, 0};

    for (uint32_t turn = 0;; ++turn) {
        mbarrier_wait(barriers + 8 * (NUMBER_FULL + turn % 2), turn / 2 % 2);
        const uint32_t number = ld_shared_u32(shared + NUMBER_AT + 4 * (turn % 2));

        if (number == (uint32_t)NO_WORK)
            return;
        const struct work work = find_work(shape, number);
        struct walk walk = walk_begin(work, shape->group);
        const float *rows = p.base.delta + (work.batch * shape->heads_q + walk.head) * p.base.padded_q; /* of the head */

        warp_sync();
        if (lane_index() == 0)
            mbarrier_arrive(barriers + 8 * (NUMBER_EMPTY + turn % 2));
        for (int32_t step = 0; step < work.steps; ++step, rows += walk.m == work.first_m ? p.base.padded_q : 0, walk_on(walk, work), ring_advance<STAGES>(queries)) {
            const uint32_t full = barriers + 8 * (DO_FULL + queries.stage);

            if (lane_index() == 0) {
                mbarrier_wait(barriers + 8 * (DO_EMPTY + queries.stage), queries.phase ^ 1);
                mbarrier_arrive_expect(full, query_tile::bytes + TILE_M * 4);
                load_tile<query_tile>(shared + DO_AT + queries.stage * query_tile::bytes, &p.map[MAP_DOUT], walk.m * TILE_M, walk.head, work.batch, full, GLINT_L2_EVICT_LAST);
                bulk_load(shared + DELTA_AT + queries.stage * (TILE_M * 4),
                          rows + walk.m * TILE_M, TILE_M * 4, full);
                if (step == 0)
                    load_own(shared + V_AT, &p.map[MAP_V], work, barriers + 8 * V_FULL, barriers + 8 * V_EMPTY, turn % 2);
            }
$ if fused and causal then
            if (step == (work.steps > 1)) {
                bool special = false;

                mbarrier_wait(barriers + 8 * K_FULL, turn % 2);
                if (work.first_m < work.first_clear)
                    special = warp_any(sees_special(shared + K_AT, 2 * own_tile::bytes, lane_index(), 32, EXPONENT));
                warp_sync();
                if (lane_index() == 0) {
                    st_shared_u32(shared + SPECIAL_AT, special);
                    mbarrier_arrive(barriers + 8 * CHECKED);
                    mbarrier_arrive(barriers + 8 * K_EMPTY);
                }
            }
$ end
        }
        if (work.steps == 0 && lane_index() == 0) {
            mbarrier_wait(barriers + 8 * V_EMPTY, turn % 2 ^ 1);
            mbarrier_arrive(barriers + 8 * V_FULL);
$ if fused and causal then
            mbarrier_wait(barriers + 8 * K_FULL, turn % 2); /* not before the turn has come */
            mbarrier_arrive(barriers + 8 * CHECKED);
            mbarrier_arrive(barriers + 8 * K_EMPTY);
$ end
        }
    }
}

/* Takes to memory what the warpgroups leave in the stages of OUT: ${fused and "each step's dQ, then " or ""}dV and dK. One thread for each stage${fused and ", so that the next\n * dQ is on its way while this one waits for its turn" or ""}. */
GLINT_DEVICE void store(const struct glint_backward_maps_params &p, uint32_t shared, uint32_t barriers, const uint32_t stage)
{
    const uint32_t out = shared + OUT_AT + stage * OUT_BYTES, full = barriers + 8 * (OUT_FULL + stage), empty = barriers + 8 * (OUT_EMPTY + stage);
    uint32_t next = 0, phase = 0; /* stage of what leaves next; of this one */

    for (uint32_t turn = 0;; ++turn) {
        mbarrier_wait(barriers + 8 * (NUMBER_FULL + turn % 2), turn / 2 % 2);
        const uint32_t number = ld_shared_u32(shared + NUMBER_AT + 4 * (turn % 2));

        if (number == (uint32_t)NO_WORK)
            break;
        mbarrier_arrive(barriers + 8 * (NUMBER_EMPTY + turn % 2));
        const struct work work = find_work(&p.base.shape, number);
$ if fused then
        struct walk walk = walk_begin(work, p.base.shape.group);

        for (int32_t step = 0; step < work.steps; ++step, walk_on(walk, work), next ^= 1) {
            if (next != stage)
                continue;
            const int64_t block = query_blocks(&p.base, work.batch, walk.head, walk.m);
            uint32_t *const keys_added = p.base.turn + 1 + block;
            float *const sum = p.base.dq_sum + block * (TILE_M * HEAD_DIM);
            const bool last = work.key0 + TILE_N >= keys_seen(&p.base.shape, walk.m);

            /* The first block stores its part, others add to it, and the last one adds the sum to its own, in registers, and rounds. */
            if (last && work.key0 > 0) {
                turn_wait(keys_added, (uint32_t)work.key0);
                mbarrier_arrive(barriers + 8 * (TURN_SEEN + stage));
            }
            mbarrier_wait(full, phase);
            phase ^= 1;
            if (last)
                store_tile<query_tile>(&p.map[MAP_DQ], walk.m * TILE_M, walk.head, work.batch, out);
            else if (work.key0 == 0)
                bulk_store(sum, out, OUT_BYTES);
            else {
                turn_wait(keys_added, (uint32_t)work.key0);
                bulk_reduce_add_f32(sum, out, OUT_BYTES);
            }
            bulk_commit();
            bulk_wait_read<0>();
            mbarrier_arrive(empty);
            if (!last)
                turn_pass(keys_added, (uint32_t)(work.key0 + TILE_N));
        }
$ end
        for (int which = 0; which < 2; ++which, next ^= 1) {
            if (next != stage)
                continue;
            mbarrier_wait(full, phase);
            phase ^= 1;
            for (uint32_t half = 0; half < 2; ++half)
                store_tile<own_tile>(which == 0 ? &p.map[MAP_DV] : &p.map[MAP_DK], work.key0 + half * OWN_ROWS, work.head_kv, work.batch, out + half * own_tile::bytes);
            bulk_commit();
            bulk_wait_read<0>();
            mbarrier_arrive(empty);
        }
    }
    bulk_wait<0>();
}

/* LSE or delta of the thread's queries: columns 8 j and 8 j + 1 from its own on. */
GLINT_DEVICE void load_pairs(float (&rows)[TILE_M / 8][2], uint32_t at)
{
#pragma unroll
    for (int j = 0; j < TILE_M / 8; ++j)
        ld_shared_f32x2(rows[j], at + 32 * j);
}

/* The first of this thread's two rows among the warpgroups' 128. */
GLINT_DEVICE uint32_t own_row(void)
{
    const uint32_t thread = thread_index_anew() - 128;

    return thread / 32 * 16 + thread % 32 / 4;
}

GLINT_KERNEL(THREADS, 1) ${symbol}(GLINT_PARAMS(struct glint_backward_maps_params) p)
{
    const uint32_t shared = shared_base(), barriers = shared + BARRIERS_AT, warp = warp_index(), lane = lane_index();

    if (thread_index() == 0) {
        mbarrier_init(barriers + 8 * K_FULL, 1);
        mbarrier_init(barriers + 8 * K_EMPTY, WARPS${fused and causal and " + 1" or ""});
        mbarrier_init(barriers + 8 * V_FULL, 1);
        mbarrier_init(barriers + 8 * V_EMPTY, WARPS);
        mbarrier_init(barriers + 8 * CHECKED, 1);
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(barriers + 8 * (NUMBER_FULL + i), 1);
            mbarrier_init(barriers + 8 * (NUMBER_EMPTY + i), WARPS + 3);
            mbarrier_init(barriers + 8 * (Q_FULL + i), 1);
            mbarrier_init(barriers + 8 * (Q_EMPTY + i), WARPS);
            mbarrier_init(barriers + 8 * (DO_FULL + i), 1);
            mbarrier_init(barriers + 8 * (DO_EMPTY + i), WARPS);
            mbarrier_init(barriers + 8 * (OUT_FULL + i), WARPS);
            mbarrier_init(barriers + 8 * (OUT_EMPTY + i), 1);
            mbarrier_init(barriers + 8 * (DS_FULL + i), WARPS);
            mbarrier_init(barriers + 8 * (DS_EMPTY + i), WARPS);
            mbarrier_init(barriers + 8 * (TURN_SEEN + i), 1);
        }
        fence_mbarrier_init();
    }
    block_sync();

    if (warp < 4) {
        registers_give<${producer_registers}>();
        if (warp == 0 && lane == 0)
            load_keys(p, shared, barriers);
        if (warp == 1)
            load_values(p, shared, barriers);
        if (warp >= 2 && lane == 0)
            store(p, shared, barriers, warp - 2);
        return;
    }
    registers_take<${registers}>();

    const uint32_t warpgroup = warp / 4 - 1, own = warpgroup * own_tile::bytes;
    const struct glint_gpu_shape *shape = &p.base.shape;
    const int32_t offset = ${causal and "shape->mask_offset" or "shape->seqlen_k"};
    auto arrive = [&](int barrier) { /* this warp, all lanes of which are done */
        warp_sync();
        if (lane == 0)
            mbarrier_arrive(barriers + 8 * barrier);
    };
    float dk[HEAD_DIM / 2], dv[HEAD_DIM / 2];
    struct ring queries = {0, 0}, out = {0, 0};
$ if fused then
    uint32_t seen = 0; /* a bit a stage: the phase of its TURN_SEEN */
$ end

    if (warpgroup == 1)
        named_arrive(TURN_BARRIER, 32 * WARPS);
    for (uint32_t turn = 0;; ++turn) {
        mbarrier_wait(barriers + 8 * (NUMBER_FULL + turn % 2), turn / 2 % 2);
        const uint32_t number = ld_shared_u32(shared + NUMBER_AT + 4 * (turn % 2));

        if (number == (uint32_t)NO_WORK)
            return;
        arrive(NUMBER_EMPTY + (int)(turn % 2));
        const struct work work = find_work(shape, number);
        struct walk walk = walk_begin(work, shape->group);

#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; ++i)
            dk[i] = dv[i] = 0.0f;
$ if fused then
        float dq[32];

        /* dQ of the step before: from registers to a stage of OUT. */
        auto leave_dq = [&]() {
            const struct walk before = step_before(walk, work);
            const bool last = work.key0 + TILE_N >= keys_seen(shape, before.m);
            const uint32_t at = shared + OUT_AT + out.stage * OUT_BYTES;

            mbarrier_wait(barriers + 8 * (OUT_EMPTY + out.stage), out.phase ^ 1);
            if (!last) {
#pragma unroll
                for (int i = 0; i < 8; ++i)
                    st_shared_floats(at + warpgroup * (OUT_BYTES / 2) + (i * 128 + thread_index_anew() % 128) * 16, dq + 4 * i);
            } else {
                if (work.key0 > 0) {
                    const float *sum = p.base.dq_sum + query_blocks(&p.base, work.batch, before.head, before.m) * (TILE_M * HEAD_DIM) +
                                       warpgroup * (OUT_BYTES / 8) + thread_index_anew() % 128 * 4;
                    float others[8][4];

                    mbarrier_wait(barriers + 8 * (TURN_SEEN + out.stage), seen >> out.stage & 1);
                    seen ^= 1u << out.stage;
#pragma unroll
                    for (int i = 0; i < 8; ++i)
                        ld_four(others[i], sum + i * 512, 128);
#pragma unroll
                    for (int i = 0; i < 32; ++i)
                        dq[i] += others[i / 4][i % 4];
                }
                store_rounded<query_tile, 64>(at${by_columns and " + warpgroup * query_tile::slab_bytes" or ""}, ${by_columns and "0" or "warpgroup * OWN_ROWS"}, dq, shape->softmax_scale);
            }
            fence_async_shared();
            arrive(OUT_FULL + (int)out.stage);
            ring_advance<STAGES>(out);
        };
$ if causal then
        /* Where the mask hides keys of the step before that hold NaN or infinity, these leave K for the while of its dQ. Queries that see such a key
         * get NaN: S is infinite or NaN there, so P and dS are 0 or NaN. */
        auto careful_before = [&]() {
            if (step_before(walk, work).m >= work.first_clear)
                return false;
            mbarrier_wait(barriers + 8 * CHECKED, turn % 2);
            return ld_shared_u32(shared + SPECIAL_AT) != 0;
        };
        auto take_special = [&]() {
            named_sync(BOTH_BARRIER, 32 * WARPS);
            remove_special(shared + K_AT, 2 * own_tile::bytes, thread_index_anew() - 128, 32 * WARPS, EXPONENT);
            fence_async_shared();
            named_sync(BOTH_BARRIER, 32 * WARPS);
        };
        auto bring_special = [&]() {
            const uint32_t thread = thread_index_anew() - 128, row = thread % 128 / 32 * 16 + thread % 32 / 4;
            const int32_t query = step_before(walk, work).m * TILE_M + (int32_t)(${by_columns and "" or "warpgroup * OWN_ROWS + "}row);

            named_sync(BOTH_BARRIER, 32 * WARPS);
            reload_tile<own_tile>(shared + K_AT, &p.base.k, work.batch, work.head_kv, work.key0, shape->seqlen_k, 2, thread, 32 * WARPS);
            fence_async_shared();
            named_sync(BOTH_BARRIER, 32 * WARPS);
#pragma unroll 1
            for (uint32_t i = 0; i < TILE_N; ++i)
                add_special_row<own_tile, 64>(dq, shared + K_AT + i / OWN_ROWS * own_tile::bytes, i % OWN_ROWS, ${by_columns and "warpgroup * 8" or "0"}, 0.0f, EXPONENT,
                                              [&](int side) { return work.key0 + (int32_t)i <= query + 8 * side + offset; });
        };
$ end
$ end
        mbarrier_wait(barriers + 8 * K_FULL, turn % 2);
        mbarrier_wait(barriers + 8 * V_FULL, turn % 2);
#pragma unroll 1
        for (int32_t step = 0; step < work.steps; ++step) {
            const bool masked = walk.m < work.first_clear;
            const uint32_t q = shared + Q_AT + queries.stage * query_tile::bytes, dout = shared + DO_AT + queries.stage * query_tile::bytes;
            const uint32_t lse = shared + LSE_AT + queries.stage * (TILE_M * 4), delta = shared + DELTA_AT + queries.stage * (TILE_M * 4);
            const uint32_t column = lane % 4 * 8;
            float s[TILE_M / 2], dp[TILE_M / 2], rows[TILE_M / 8][2];
            uint32_t p_words[TILE_M / 4], ds_words[TILE_M / 4];

            /* S^T = K Q^T, dP^T = V dO^T */
            mbarrier_wait(barriers + 8 * (Q_FULL + queries.stage), queries.phase);
            multiply_rows(s, shared + K_AT + own, q);
            mbarrier_wait(barriers + 8 * (DO_FULL + queries.stage), queries.phase);
            multiply_rows(dp, shared + V_AT + own, dout);

            /* P^T = 2^(scale S^T - LSE); each query, a column, has an LSE and a delta. */
$ if early then
            load_pairs(rows, lse + column);
$ end
            wgmma_wait<1>();
            wgmma_hold(s, TILE_M / 2);
$ if not early then
            load_pairs(rows, lse + column);
$ end
#pragma unroll
            for (int i = 0; i < TILE_M / 2; ++i)
                s[i] = ex2(fmaf(s[i], shape->scale_log2, -rows[i / 4][i % 2]));
            struct sight sight;
            if (masked) {
                sight = sight_of_keys(work.key0 + (int32_t)own_row(), walk.m * TILE_M, offset, shape->seqlen_q, shape->seqlen_k);
                hide_queries<TILE_M>(s, sight);
            }
            to_operand(p_words, s);

            /* dS^T = P^T (dP^T - delta): zero where P is, even if dP is no number */
$ if early then
            load_pairs(rows, delta + column);
$ end
            wgmma_wait<0>();
            wgmma_hold(dp, TILE_M / 2);
$ if not early then
            load_pairs(rows, delta + column);
$ end
#pragma unroll
            for (int i = 0; i < TILE_M / 2; ++i)
                dp[i] = s[i] * (dp[i] - rows[i / 4][i % 2]);
            if (masked)
                hide_queries<TILE_M>(dp, sight);
            to_operand(ds_words, dp);
            if (masked && queries_special<TILE_M>(lse, delta))
                settle_queries(dv, q, dout, sight);
$ if fused then
            mbarrier_wait(barriers + 8 * (DS_EMPTY + queries.stage), queries.phase ^ 1);
            store_ds(shared + DS_AT + queries.stage * ds_tile::bytes, warpgroup, ds_words);
            fence_async_shared();
            arrive(DS_FULL + (int)queries.stage);
$ end

$ if fused then
            /* In the first step, where there is none before, this one's dS stands for it and the product is thrown away: a product that is not
             * always made is one that ptxas does not overlap with others. */
            const struct ring stage_before = step == 0 ? queries : ring_before(queries);
            const uint32_t ds_before = shared + DS_AT + stage_before.stage * ds_tile::bytes;
            mbarrier_wait(barriers + 8 * (DS_FULL + stage_before.stage), stage_before.phase);
$ if causal then
            const bool careful = step > 0 && careful_before();

            if (careful)
                take_special();
$ end
$ end

            /* dV += P^T dO${fused and ", dQ of the step before" or ""}, dK += dS^T Q: one warpgroup at a time, so that the other one is at its exponentials. */
            named_sync(TURN_BARRIER + warpgroup, 32 * WARPS);
            multiply_scores(dv, p_words, dout);
$ if fused then
            multiply_keys(dq, warpgroup, ds_before, shared + K_AT);
            wgmma_commit();
            wgmma_wait<1>();
$ end
$ if not fused then
            multiply_scores(dk, ds_words, q);
            named_arrive(TURN_BARRIER + (warpgroup ^ 1), 32 * WARPS);
            wgmma_wait<1>();
            wgmma_hold(dv, HEAD_DIM / 2);
            arrive(DO_EMPTY + (int)queries.stage);
$ else
            wgmma_hold(dv, HEAD_DIM / 2);
            arrive(DO_EMPTY + (int)queries.stage);
            multiply_scores(dk, ds_words, q);
            named_arrive(TURN_BARRIER + (warpgroup ^ 1), 32 * WARPS);
            wgmma_wait<1>();
            if (step > 0) {
                arrive(DS_EMPTY + (int)stage_before.stage);
                wgmma_hold(dq, 32);
$ if causal then
                if (careful)
                    bring_special();
$ end
                leave_dq();
            }
$ end
            wgmma_wait<0>();
            wgmma_hold(dk, HEAD_DIM / 2);
            arrive(Q_EMPTY + (int)queries.stage);
            walk_on(walk, work);
            ring_advance<STAGES>(queries);
        }
        arrive(V_EMPTY);
$ if fused then
        if (work.steps > 0) {
            const struct ring stage_before = ring_before(queries);
            const uint32_t ds_before = shared + DS_AT + stage_before.stage * ds_tile::bytes;

            mbarrier_wait(barriers + 8 * (DS_FULL + stage_before.stage), stage_before.phase);
$ if causal then
            const bool careful = careful_before();

            if (careful)
                take_special();
$ end
            multiply_keys(dq, warpgroup, ds_before, shared + K_AT);
            wgmma_commit();
            wgmma_wait<0>();
            wgmma_hold(dq, 32);
            arrive(DS_EMPTY + (int)stage_before.stage);
$ if causal then
            if (careful)
                bring_special();
$ end
        }
        arrive(K_EMPTY);
        if (work.steps > 0)
            leave_dq();
$ else
        arrive(K_EMPTY);
$ end

        /* dV and dK leave as dQ did. */
        auto leave = [&](const float (&d)[HEAD_DIM / 2], float factor) {
            mbarrier_wait(barriers + 8 * (OUT_EMPTY + out.stage), out.phase ^ 1);
            store_rounded<own_tile, HEAD_DIM>(shared + OUT_AT + out.stage * OUT_BYTES + own, 0, d, factor);
            fence_async_shared();
            arrive(OUT_FULL + (int)out.stage);
            ring_advance<STAGES>(out);
        };
        leave(dv, 1.0f);
        leave(dk, shape->softmax_scale);
    }
}
