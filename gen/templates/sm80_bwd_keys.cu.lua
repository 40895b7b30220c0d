$ local element = dtype == "f32" and math or dtype
$ local fused = strategy == "fused"
$ local lead = stages == 3
$ local halves = d_split == 2 -- two warps have the same queries' and columns' halves
$ local shared_ds = fused or halves -- other warps read dS^T
$ local q_part, k_part = halves and "q_part_t" or "q_tile_t", halves and "k_part_t" or "k_tile_t"
$ local ds_copies = (fused or lead) and stages or 1
$ local staged_ds = (fused or lead) and " + stage * ds_tile_t::BYTES" or ""
$ local p_phase = halves and "phase" or "phase + part * (GROUPS * 8)"
$ if fused then
/* ---- dK and dV, and parts of dQ: a block owns TILE_N keys ---- */
$ else
/* ---- dK and dV: a block owns TILE_N keys ---- */
$ end

GLINT_KERNEL(THREADS, ${blocks_per_sm}) ${symbol}(GLINT_PARAMS(struct glint_backward_params) p)
{
    const uint32_t lane = lane_index(), warp = warp_index();
$ if halves then
    const uint32_t group = warp % GROUPS, half = warp / GROUPS % 2;
$ else
    const uint32_t group = warp % GROUPS;
$ end
    const bool keeps_dk = warp >= WARPS / 2; /* else dV */
    const int32_t seqlen_q = p.shape.seqlen_q, seqlen_k = p.shape.seqlen_k;

    /* Shared memory: K, V, stages of Q and of dO, dS^T and P^T, stages of LSE and of delta, barriers. */
    const uint32_t k_tile = shared_base(), v_tile = k_tile + k_tile_t::BYTES, q_tiles = v_tile + k_tile_t::BYTES;
    const uint32_t do_tiles = q_tiles + STAGES * q_tile_t::BYTES, ds_tiles = do_tiles + STAGES * q_tile_t::BYTES;
    const uint32_t rows_lse = ds_tiles + ${ds_copies + d_split - 1} * ds_tile_t::BYTES, rows_delta = rows_lse + STAGES * ROW_BYTES;
$ if fused or not lead then
    const uint32_t phases = rows_delta + STAGES * ROW_BYTES;
$ end
$ if not lead then
$ if halves then
    const uint32_t phase = phases + (group * 2 + half) * 8;
$ else
    const uint32_t phase = phases + group * 8;
$ end

    if (thread_index() == 0) {
#pragma unroll
        for (int i = 0; i < PHASES; ++i)
            mbarrier_init(phases + i * 8, 32);
    }
$ if not fused then
    block_sync();
$ end
$ end
$ if fused then
$ if causal then
    const uint32_t number = phases + ${8 * phases}, poisoned = number + 4;
$ else
    const uint32_t number = phases + ${8 * phases};
$ end

    /* Blocks take numbers as they begin, so a block waits only for such that run or have run. */
    if (thread_index() == 0)
        st_shared_u32(number, seqlen_q > 0 ? atom_global_add_u32(p.turn, 1) : block_index());
    block_sync();
    const struct key_part work = find_key_part<TILE_N>(p, ld_shared_u32(number));
$ else

    const struct key_block work = find_key_block<TILE_N>(p.shape, block_index());
$ end
    const int32_t batch = work.batch, head_kv = work.head_kv, key0 = work.index * TILE_N;

$ if causal then
    const causal_mask mask = {0, p.shape.mask_offset, seqlen_q, seqlen_k};
$ else
    const no_mask mask = {0, 0, seqlen_q, seqlen_k};
$ end
    const struct plain_score score = {};
    const struct query_blocks blocks = find_query_blocks<TILE_M, TILE_N>(mask, key0);
    const int32_t first_m = blocks.first, last_m = blocks.last, first_clear = blocks.clear_from;
$ if fused then
    const int32_t first_head = work.part * p.part_heads; /* of the group */
    const int32_t steps = max(0, last_m - first_m + 1) * min(p.part_heads, p.shape.group - first_head);
$ else
    const int32_t steps = max(0, last_m - first_m + 1) * p.shape.group;
$ end

    copy_tile<k_tile_t, THREADS>(k_tile, p.k, batch, head_kv, key0, seqlen_k);
    copy_tile<k_tile_t, THREADS>(v_tile, p.v, batch, head_kv, key0, seqlen_k);

    /* Begins the copies of a step's Q, dO, LSE and delta into a stage. */
    auto copy_step = [&](int32_t head_q, int32_t m, uint32_t stage) {
$ if causal and d_split == 1 then
        const uint32_t thread = thread_index_anew(); /* leaves ptxas enough registers */
$ else
        const uint32_t thread = thread_index();
$ end
        const int64_t row = (int64_t)(batch * p.shape.heads_q + head_q) * p.padded_q + m * TILE_M;

        copy_tile_by<q_tile_t, THREADS>(thread, q_tiles + stage * q_tile_t::BYTES, p.q, batch, head_q, m * TILE_M, seqlen_q);
        copy_tile_by<q_tile_t, THREADS>(thread, do_tiles + stage * q_tile_t::BYTES, p.dout, batch, head_q, m * TILE_M, seqlen_q);
        if (thread < ROW_BYTES / 16) {
            cp_async_16(rows_lse + stage * ROW_BYTES + thread * 16, p.lse_log2 + row + thread * 4, true);
            cp_async_16(rows_delta + stage * ROW_BYTES + thread * 16, p.delta + row + thread * 4, true);
        }
    };
$ if fused then
    int32_t head_q = head_kv * p.shape.group + first_head, m = last_m; /* of the step that is copied next */
$ else
    int32_t head_q = head_kv * p.shape.group, m = last_m; /* of the step that is copied next */
$ end
    if (steps > 0)
        copy_step(head_q, m, 0);
    cp_async_commit();

    /* S^T = K Q^T and dV += P^T dO, or dP^T = V dO^T and dK += dS^T Q: the same products of other tiles. */
    const uint32_t x_lane =
        (keeps_dk ? v_tile : k_tile) + lane_offset_a<k_tile_t>(lane) + group * (GROUP_ROWS * k_tile_t::PAGE_ROW);
$ if halves then
    const uint32_t y_lane = (keeps_dk ? do_tiles : q_tiles) + lane_offset_b<q_tile_t>(lane) + half * (WARP_M * q_tile_t::PAGE_ROW);
    const uint32_t rows_lane = (keeps_dk ? rows_delta : rows_lse) + (lane & 3) * 8 + half * (WARP_M * 4);
    const uint32_t z_lane = (keeps_dk ? q_tiles : do_tiles) + lane_offset_rows<q_tile_t>(lane) + half * q_part_t::BYTES;
    const uint32_t ds_lane =
        (ds_tiles + lane_offset_put<ds_tile_t>(lane) + group * (GROUP_ROWS * ds_tile_t::PAGE_ROW)) ^ half * (WARP_M * element::BYTES);
    const uint32_t a_lane = ds_tiles + lane_offset_a<ds_tile_t>(lane) + group * (GROUP_ROWS * ds_tile_t::PAGE_ROW);
$ else
    const uint32_t y_lane = (keeps_dk ? do_tiles : q_tiles) + lane_offset_b<q_tile_t>(lane);
    const uint32_t rows_lane = (keeps_dk ? rows_delta : rows_lse) + (lane & 3) * 8;
    const uint32_t z_lane = (keeps_dk ? q_tiles : do_tiles) + lane_offset_rows<q_tile_t>(lane);
    const uint32_t ds_lane = ds_tiles + lane_offset_put<ds_tile_t>(lane) + group * (GROUP_ROWS * ds_tile_t::PAGE_ROW);
$ end

$ if fused or lead then
    /* From a step's query head and query block to those of the step before. */
    auto step_back = [&](int32_t *head, int32_t *block) {
        *head -= *block == last_m;
        *block = *block == last_m ? first_m : *block + 1;
    };

$ end
    float g[ROW_TILES][WARP_DIM / 8][4]; /* dV, or dK without the scale */
    set_zero(g);

$ if fused then
    /* dQ's part of the step before: dS K, each warp making DQ_ROW_TILES x 16 queries by DQ_DIM columns. */
    auto add_dq = [&](int32_t head_before, int32_t m_before, uint32_t buffer) {
        const uint32_t thread = thread_index_anew(), lane = thread % 32;
        const uint32_t dq_group = thread / 32 % DQ_GROUPS, dq_column = thread / 32 / DQ_GROUPS * DQ_DIM;
        const uint32_t ds_read = ds_tiles + lane_offset_queries<ds_tile_t>(lane, dq_group * (16 * DQ_ROW_TILES));
        const uint32_t k_lane_trans = k_tile + lane_offset_rows<k_tile_t>(lane, dq_column * element::BYTES / 16);
        float dq[DQ_ROW_TILES][DQ_DIM / 8][4];
        auto multiply = [&](const int kk, const enum numbers numbers) {
            uint32_t a[DQ_ROW_TILES][4];
#pragma unroll
            for (int rt = 0; rt < DQ_ROW_TILES; ++rt)
                load_queries<ds_tile_t>(a[rt], ds_read + buffer, kk, rt);
            multiply_step<k_tile_t>(dq, a, k_lane_trans, kk, ROUNDED, numbers);
        };
        set_zero(dq);
$ if causal then
        /* Of keys that hold NaN or infinities, queries that see them get NaN: S is infinite or NaN there, so P and dS are 0 or NaN. */
        if (m_before < first_clear && ld_shared_u32(poisoned) != 0) {
            const int32_t query0 = m_before * TILE_M + (int32_t)(dq_group * (DQ_ROW_TILES * 16));

#pragma unroll 1
            for (int kk = 0; kk < TILE_N / (int)element::K_STEP; ++kk)
                multiply(kk, FINITE_NUMBERS);
            spread_special<k_tile_t, true>(dq, k_tile, from_chunk{dq_column * element::BYTES / 16}, 0.0f, [&](int32_t row, int32_t key) {
                return sees(mask, query0, query_of_row<element>(row), key0, key);
            });
        } else
$ end
#pragma unroll
            for (int kk = 0; kk < TILE_N / (int)element::K_STEP; ++kk)
                multiply(kk, ALL_NUMBERS);

        /* Key blocks add to dQ in their order: the first one stores, the last one adds what the others left and rounds. */
        const int32_t head = batch * p.shape.heads_q + head_before;
        float *sum = slot_of_four(p.dq_sum + (head * p.padded_q + m_before * TILE_M) * (int)k_tile_t::DIM, thread);
        const int32_t keys = keys_seen(mask, min(seqlen_q, (m_before + 1) * TILE_M));
$ if causal then
        if (key0 >= keys)
            return;
$ end
        if (key0 + TILE_N >= keys) {
            const int32_t row0 = m_before * TILE_M + (int32_t)(dq_group * (DQ_ROW_TILES * 16) + query_of_lane<element>(lane));

            finish_queries<k_tile_t, THREADS, AT_ONCE>(dq, sum, key0 > 0, p.dq, batch, head_before, row0, seqlen_q, dq_column, lane,
                                                       p.shape.softmax_scale);
        } else {
            add_to_memory<THREADS>(sum, dq, key0 == 0);
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
    uint32_t seen = 0;

$ if causal then
    /* NaN and infinities of K must not meet a dS of zero in blocks where the mask hides keys: each thread looks at what it copied. */
    cp_async_wait(0);
    const bool found = block_any(first_clear > first_m && find_special<k_tile_t, THREADS>(k_tile));
    if (thread_index() == 0)
        st_shared_u32(poisoned, found ? 1 : 0);

$ end
$ end
$ if element == "tf32" then
    cp_async_wait(0);
    round_tile<k_tile_t, THREADS>(k_tile);
    round_tile<k_tile_t, THREADS>(v_tile);

$ elseif kv_kept > 0 then
    cp_async_wait(0);
$ end
$ if causal then
    /* NaN and infinities of dO go to the dV of keys that their query sees, and then leave the tile. Those of Q only leave: their rows'
     * LSE, and so P and dS, are not finite either. All threads of the block call it. */
    auto settle_queries = [&](int32_t m_front, uint32_t q_tile, uint32_t do_tile) {
        const int32_t group_key0 = key0 + (int32_t)group * GROUP_ROWS, query0 = m_front * TILE_M;

        if (!keeps_dk)
$ if halves then
            spread_special<q_tile_t, true>(g, do_tile, from_chunk{half * (WARP_DIM * element::BYTES / 16)}, 1.0f,
$ else
            spread_special<q_tile_t, true>(g, do_tile, in_tile{}, 1.0f,
$ end
                                           [&](int32_t key, int32_t query) { return sees(mask, query0, query, group_key0, key); });
        block_sync();
        clear_special<q_tile_t, THREADS>(q_tile);
        clear_special<q_tile_t, THREADS>(do_tile);
        block_sync();
    };

$ end
    struct kept_rows<ROW_TILES, ${kv_kept}> x_kept; /* steps along head_dim whose fragments of K or V stay in registers */
$ if kv_kept > 0 then
    block_sync(); /* K and V are complete */
    keep_rows<k_tile_t>(x_kept, x_lane);

$ end
#pragma unroll 1
$ if fused then
    for (int32_t step = 0; step <= steps${lead and " + LEAD" or ""}; ++step) {
$ else
    for (int32_t step = 0; step < steps${lead and " + LEAD" or ""}; ++step) {
$ end
        /* Stages: of the step whose Q and dO have arrived, of the one after, and of this warp's. */
$ if lead then
        const uint32_t front = (uint32_t)step % 3, next = front == 2 ? 0 : front + 1, stage = keeps_dk ? 3 - front - next : front;
        const bool works = keeps_dk ? step >= LEAD && step < steps + LEAD : step < steps;
$ else
        const uint32_t front = step & 1, next = front ^ 1, stage = front;
$ end

$ if fused and lead then
        /* This step's Q and dO have arrived, dS of two steps ago is complete, and no warp reads the next stage any more. */
$ elseif fused then
        /* This step's Q and dO have arrived, the last step's dS is complete, and no warp reads the next stage any more. */
$ else
        /* This step's Q and dO have arrived, and no warp reads the next stage any more. */
$ end
        cp_async_wait(0);
$ if causal then
        const int32_t m_front = m;
$ end
$ if fused or lead then
        int32_t head_now = head_q, m_now = m;
$ else
        const int32_t m_now = m;
$ end
$ if lead then
        if (keeps_dk)
            step_back(&head_now, &m_now);
$ end
$ if fused then
$ if lead then
        int32_t head_before = head_q, m_before = m;
$ else
        int32_t head_before = head_now, m_before = m_now;
$ end
        step_back(&head_before, &m_before);
$ if lead then
        step_back(&head_before, &m_before);
$ end
        if (keeps_turn && step > LEAD) {
            while (seen < (uint32_t)key0)
                seen = ld_acquire_u32(p.turn + turn_of(head_before, m_before));
        }
$ end
$ if causal then
        /* NaN and infinities in rows that the mask hides must not meet a P or dS of zero: LSE and delta tell where Q and dO have any. */
$ if fused or lead then
        if (m_front < first_clear && step < steps) {
$ else
        if (m_front < first_clear) {
$ end
            const uint32_t row = front * ROW_BYTES + thread_index() * 16;

            if (block_any(thread_index() < ROW_BYTES / 16 && are_special(rows_lse + row, rows_delta + row)))
                settle_queries(m_front, q_tiles + front * q_tile_t::BYTES, do_tiles + front * q_tile_t::BYTES);
        } else
            block_sync();
$ else
        block_sync();
$ end
        if (m == first_m) {
            m = last_m;
            ++head_q;
        } else
            --m;
        if (step + 1 < steps)
            copy_step(head_q, m, next);
        cp_async_commit();

$ if fused then
        if (keeps_dk && step > LEAD)
            add_dq(head_before, m_before, next * ds_tile_t::BYTES);

$ end
$ local part_loop = lead and "works && part < WARP_M / PART_M" or fused and "step < steps && part < WARP_M / PART_M" or "part < WARP_M / PART_M"
$ if part_m * d_split == tile_m then
#pragma unroll
$ else
#pragma unroll 1
$ end
        for (int part = 0; ${part_loop}; ++part) {
            const uint32_t y_now = y_lane + stage * q_tile_t::BYTES + part * (PART_M * q_tile_t::PAGE_ROW);
            const uint32_t z_now = z_lane + stage * q_tile_t::BYTES + part * (PART_M * q_tile_t::PAGE_ROW);
            const uint32_t ds_now = (ds_lane${staged_ds}) ^ (uint32_t)part * (PART_M * element::BYTES);
$ if halves then
            const uint32_t p_now = ds_lane + DS_STAGES * ds_tile_t::BYTES;
            const int32_t query0 = m_now * TILE_M + (int32_t)half * WARP_M;
$ else
            const uint32_t p_now = ds_now; /* where dS^T will be */
            const int32_t query0 = m_now * TILE_M + part * PART_M;
$ end
            const bool masked = m_now < first_clear;

            /* S^T = K Q^T, or dP^T = V dO^T; each query, a column, has an LSE or a delta. */
            float rows[PART_M / 8][2];
            float s[ROW_TILES][PART_M / 8][4];
            multiply_rows<k_tile_t, q_tile_t>(s, x_kept, x_lane, y_now);
#pragma unroll
            for (int mt = 0; mt < PART_M / 8; ++mt)
                ld_shared_f32x2(rows[mt], rows_lane + stage * ROW_BYTES + part * (PART_M * 4) + mt * 32);

            if (!keeps_dk) {
                /* P^T = 2^(scale S^T - LSE) goes to the partner, and with dO into dV. */
                change_scores(s, score);
#pragma unroll
                for (int mt = 0; mt < PART_M / 8; ++mt)
#pragma unroll
                    for (int kt = 0; kt < ROW_TILES; ++kt)
#pragma unroll
                        for (int e = 0; e < 4; ++e)
                            s[kt][mt][e] = ex2(fmaf(s[kt][mt][e], p.shape.scale_log2, -rows[mt][e & 1]));
                if (masked)
                    hide_queries<TILE_M>(s, mask, key0 + (int32_t)group * GROUP_ROWS, query0);
                put_scores<ds_tile_t>(s, p_now);
$ if not lead then
                mbarrier_arrive(${p_phase});
$ end
$ if element == "tf32" then
                round_scores<element>(s);
$ end
$ if halves then
                named_sync(1 + group * 2, 64);
                add_products_of<ds_tile_t, q_tile_t>(g, a_lane + DS_STAGES * ds_tile_t::BYTES, z_now);
$ else
                add_products<q_tile_t>(g, s, z_now);
$ end
            } else {
                /* dS^T = P^T (dP^T - delta) with the partner's P^T goes to dQ, and with Q into dK. */
#pragma unroll
                for (int mt = 0; mt < PART_M / 8; ++mt)
#pragma unroll
                    for (int kt = 0; kt < ROW_TILES; ++kt)
#pragma unroll
                        for (int e = 0; e < 4; ++e)
                            s[kt][mt][e] -= rows[mt][e & 1];
$ if causal then
                if (masked)
                    hide_queries<TILE_M>(s, mask, key0 + (int32_t)group * GROUP_ROWS, query0);
$ end
$ if fused then
                if (keeps_turn && part == 0) {
                    if (step >= 2 + LEAD) {
                        step_back(&head_before, &m_before);
                        pass_turn_on(head_before, m_before);
                    }
                    seen = ld_acquire_u32(p.turn + turn_of(head_now, m_now));
                }
$ end
$ if not lead then
                mbarrier_wait(${p_phase}, stage);
$ end
                times_scores<ds_tile_t>(s, p_now);
$ if element == "tf32" then
                round_scores<element>(s);
$ end
$ if shared_ds then
                put_scores<ds_tile_t>(s, ds_now);
$ end
$ if halves then
                named_sync(2 + group * 2, 64);
                add_products_of<ds_tile_t, q_tile_t>(g, a_lane${staged_ds}, z_now);
$ else
                add_products<q_tile_t>(g, s, z_now);
$ end
            }
        }
$ if fused then

        if (!keeps_dk && step > LEAD)
            add_dq(head_before, m_before, next * ds_tile_t::BYTES);
$ end
    }

$ if fused then
    /* The last turn; then dK and dV go through this group's own rows of the K and V tiles to 16-byte stores. */
$ else
    /* dK and dV go through this group's own rows of the K and V tiles to 16-byte stores. */
    cp_async_wait(0);
$ end
    block_sync();
$ if fused then
    if (keeps_turn) {
        step_back(&head_q, &m);
$ if lead then
        step_back(&head_q, &m);
$ end
        for (int32_t step = steps; step > 0 && step > steps - 2; --step) {
            step_back(&head_q, &m);
            pass_turn_on(head_q, m);
        }
    }
$ end
$ if fused then
    const struct key_part end = find_key_part<TILE_N>(p, ld_shared_u32(number));

    /* Parts of a group add to dK and dV in their order, each warp to its own rows and columns: the first one stores, the last one adds what the
     * others left. A warp waits for blocks of lower numbers only. */
    if (p.parts > 1) {
        const uint32_t thread = thread_index_anew();
        uint32_t *turn = p.key_turn + (int64_t)end.tile * WARPS + thread / 32;
        float *sum = slot_of_four(p.key_sum + (int64_t)end.tile * (2 * TILE_N * (int)k_tile_t::DIM), thread);

        if (end.part > 0) {
            if (thread % 32 == 0)
                while (ld_acquire_u32(turn) < (uint32_t)end.part)
                    continue;
            warp_sync();
        }
        if (end.part < p.parts - 1) {
            add_to_memory<THREADS>(sum, g, end.part == 0);
            warp_sync();
            if (thread % 32 == 0)
                st_release_u32(turn, (uint32_t)end.part + 1);
            return;
        }
#pragma unroll
        for (int start = 0; start < ROW_TILES * (WARP_DIM / 8); start += AT_ONCE)
            add_from_memory<THREADS, AT_ONCE>(g, sum, start);
    }
$ else
    const struct key_block end = find_key_block<TILE_N>(p.shape, block_index());
$ end
    const float factor = keeps_dk ? p.shape.softmax_scale : 1.0f;
    const struct glint_gpu_view *out = keeps_dk ? &p.dk : &p.dv;
$ if halves then
    const uint32_t out_tile =
        (keeps_dk ? k_tile : v_tile) + group * (GROUP_ROWS * k_tile_t::PAGE_ROW) + half * (WARP_DIM * element::BYTES * TILE_N);
$ else
    const uint32_t out_tile = (keeps_dk ? k_tile : v_tile) + group * (GROUP_ROWS * k_tile_t::PAGE_ROW);
$ end
$ if fused then
    const uint32_t out_lane = out_tile + lane_offset_pairs<k_tile_t>(thread_index_anew() % 32);
$ else
    const uint32_t out_lane = out_tile + lane_offset_pairs<k_tile_t>(lane);
$ end
    const int32_t group_key0 = end.index * TILE_N + (int32_t)group * GROUP_ROWS;
#pragma unroll
    for (int kt = 0; kt < ROW_TILES; ++kt) {
        stage_rows<k_tile_t>(out_lane, g[kt], factor, kt * 16);
        warp_sync();
$ if halves then
        store_rows<k_part_t>(view_row(out, end.batch, end.head_kv, group_key0 + kt * 16, element::BYTES) + half * (WARP_DIM * element::BYTES),
                             out->row * element::BYTES, seqlen_k - group_key0 - kt * 16, out_tile, kt * 16,
                             k_tile_t::ROW_CHUNKS - half * k_part_t::CHUNKS);
$ else
        store_rows<k_tile_t>(view_row(out, end.batch, end.head_kv, group_key0 + kt * 16, element::BYTES), out->row * element::BYTES,
                             seqlen_k - group_key0 - kt * 16, out_tile, kt * 16, k_tile_t::ROW_CHUNKS);
$ end
    }
}
