$ local element = dtype == "f32" and math or dtype
$ local fused = strategy == "fused"
$ local lead = stages == 3
$ local halves = d_split == 2 -- two warps have the same queries' and columns' halves
$ local shared_ds = fused or halves -- other warps read dS^T
$ local q_part, k_part = halves and "q_part_t" or "q_tile_t", halves and "k_part_t" or "k_tile_t"
$ local ds_copies = (fused or lead) and stages or 1
$ local put_lane, pairs_lane = "lane_offset_put(lane, ds_tile_t::PAGE_CHUNKS)", "lane_offset_pairs<element>(lane, ds_tile_t::ROWS, ds_tile_t::PAGE_CHUNKS)"
$ local scores_lane = dtype == "f32" and put_lane or pairs_lane
$ local columns = halves and "from_chunk{half * (WARP_DIM * element::BYTES / 16)}" or "in_tile{}"
$ local thread = causal and d_split == 1 and "thread_index_anew()" or "thread_index()" -- whichever leaves ptxas enough registers
$ local hides_first = not capped and (causal or fused) -- dP^T - delta, not dS^T: whichever leaves ptxas enough registers
$ local first = lead and 1 or 0 -- the first step whose dS is complete
$ local m_front = (fused or lead) and "m_front" or "m_now"
$ local staged_ds = (fused or lead) and " + stage * ds_tile_t::BYTES" or ""
$ local function hides(m) -- whether the mask hides any of the keys of the block from a query block, or there is an end in it
$   return m .. " < first_clear" .. (bounds_first and " || " .. m .. " > last_clear" or "")
$ end
$ -- the mask of a stage's queries, m: their block
$ local function sight(stage, m)
$   return intervals and ("tile_intervals{ranges + %s * RANGES - %s * RANGES, 0, 0}"):format(stage, m) or "Rows::sight(kept, mask)"
$ end
$ local here = intervals and "step_intervals{ranges + front * RANGES, key0 + (int32_t)group * GROUP_ROWS}"
$   or ("band_from(band_from(Rows::sight(kept, mask), %s * TILE_M, key0), 0, (int32_t)group * GROUP_ROWS)"):format(m_front)
$ local has_turn = fused and intervals and " && has_turn(m_before)" or ""
$ local p_phase = halves and "phase" or "phase + part * (GROUPS * 8)"
$ if fused then
/* ---- dK and dV, and parts of dQ: a block owns TILE_N keys ---- */
$ else
/* ---- dK and dV: a block owns TILE_N keys ---- */
$ end
template <class Rows> GLINT_DEVICE void attend_keys(const struct glint_gpu_call &p)
{
$ if halves then
    const uint32_t lane = lane_index(), warp = warp_index(), group = warp % GROUPS, half = warp / GROUPS % 2;
$ else
    const uint32_t lane = lane_index(), warp = warp_index(), group = warp % GROUPS;
$ end
    const bool keeps_dk = warp >= WARPS / 2; /* else dV */
    /* Shared memory: K, V, stages of Q and of dO, dS^T and P^T, stages of LSE and of delta, barriers. */
    const uint32_t k_tile = shared_base(), v_tile = k_tile + k_tile_t::BYTES, q_tiles = v_tile + k_tile_t::BYTES;
    const uint32_t do_tiles = q_tiles + STAGES * q_tile_t::BYTES, ds_tiles = do_tiles + STAGES * q_tile_t::BYTES;
    const uint32_t rows_lse = ds_tiles + ${ds_copies + d_split - 1} * ds_tile_t::BYTES, rows_delta = rows_lse + STAGES * ROW_BYTES;
$ if intervals then
    enum { RANGES = TILE_M * RANGE_BYTES }; /* of a step's queries */
    const uint32_t ranges = rows_delta + STAGES * ROW_BYTES;
$ end
$ if fused or not lead then
    const uint32_t phases = ${intervals and "ranges + STAGES * RANGES" or "rows_delta + STAGES * ROW_BYTES"};
$ end
$ if not lead then
$ if halves then
    const uint32_t phase = phases + (group * 2 + half) * 8;
$ else
    const uint32_t phase = phases + group * 8;
$ end

    init_phases<PHASES>(phases);
$ if not fused then
    block_sync();
$ end
$ end
$ if fused then
    const uint32_t number = phases + ${8 * phases}, poisoned = number + 4;

    /* Blocks take numbers as they begin, so a block waits only for such that run or have run. */
    if (thread_index() == 0)
        st_shared_u32(number, p.shape.seqlen_q > 0 ? atom_global_add_u32(p.turn, 1) : block_index());
    block_sync();
    const struct key_part share = find_key_part<TILE_N>(p, ld_shared_u32(number));
    const struct place work = Rows::template keys_at<TILE_N>(p, share);
    const uint32_t kept = 0;
$ else
    const uint32_t kept = shared_base() + ${kept_at};
    const struct place work = Rows::template find_tile<TILE_N, true>(p, p.shape.section, shared_base(), kept);
    if (Rows::READS && work.row0 < 0)
        return;
$ end
    const int32_t seqlen_k = work.own.seqlen_k;
    const int32_t head_kv = work.head, key0 = work.row0;
    const mask_t mask = mask_of<mask_t>(${intervals and "p, work" or "work.own"});
    const score_t score = score_t::of(p);
$ if intervals then
    const struct seen_blocks blocks = find_seen_blocks<Rows, TILE_M, TILE_N>(p, work, kept);
$ else
    const struct query_blocks blocks = find_query_blocks<TILE_M, TILE_N>(mask, key0);
$ end
    const int32_t first_m = blocks.first, last_m = blocks.last, first_clear = blocks.clear_from${bounds_first and ", last_clear = blocks.clear_to" or ""};
$ if fused then
    const int32_t first_head = share.part * p.part_heads; /* of the group */
    const int32_t steps = max(0, last_m - first_m + 1) * min(p.part_heads, p.shape.group - first_head);
$ else
    const int32_t steps = max(0, last_m - first_m + 1) * p.shape.group;
$ end

    copy_tile<k_tile_t, THREADS>(k_tile, p.k, work.batch, head_kv, work.first_k + key0, work.first_k + seqlen_k);
    copy_tile<k_tile_t, THREADS>(v_tile, p.v, work.batch, head_kv, work.first_k + key0, work.first_k + seqlen_k);

    /* Begins the copies of a step's Q, dO, LSE and delta into a stage. */
    auto copy_step = [&](int32_t head_q, int32_t m, uint32_t stage) {
        copy_queries<Rows, q_tile_t, THREADS>(${thread}, p, work, kept, head_q, m, stage, q_tiles, do_tiles, rows_lse, rows_delta);
$ if intervals then
        copy_ranges<Rows, TILE_M>(${thread}, p, work, kept, m, ranges + stage * RANGES);
$ end
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
    const uint32_t x_lane = (keeps_dk ? v_tile : k_tile) + lane_offset_a<k_tile_t>(lane) + group * (GROUP_ROWS * k_tile_t::PAGE_ROW);
$ if halves then
    const uint32_t y_lane = (keeps_dk ? do_tiles : q_tiles) + lane_offset_b<q_tile_t>(lane) + half * (WARP_M * q_tile_t::PAGE_ROW);
    const uint32_t rows_lane = (keeps_dk ? rows_delta : rows_lse) + (lane & 3) * 8 + half * (WARP_M * 4);
    const uint32_t z_lane = (keeps_dk ? q_tiles : do_tiles) + lane_offset_rows<q_tile_t>(lane, 0) + half * q_part_t::BYTES;
    const uint32_t ds_lane =
        (ds_tiles + ${scores_lane} + group * (GROUP_ROWS * ds_tile_t::PAGE_ROW)) ^ half * (WARP_M * element::BYTES);
    const uint32_t a_lane = ds_tiles + lane_offset_a(lane, ds_tile_t::ROWS, ds_tile_t::PAGE_CHUNKS) + group * (GROUP_ROWS * ds_tile_t::PAGE_ROW);
$ else
    const uint32_t y_lane = (keeps_dk ? do_tiles : q_tiles) + lane_offset_b<q_tile_t>(lane);
    const uint32_t rows_lane = (keeps_dk ? rows_delta : rows_lse) + (lane & 3) * 8;
    const uint32_t z_lane = (keeps_dk ? q_tiles : do_tiles) + lane_offset_rows<q_tile_t>(lane, 0);
    const uint32_t ds_lane =
        ds_tiles + ${scores_lane} + group * (GROUP_ROWS * ds_tile_t::PAGE_ROW);
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
    /* dQ's part of a step before. */
    auto add_queries = [&](int32_t head, int32_t m, uint32_t buffer) {
        add_dq<q_tile_t, k_tile_t, ds_tile_t, THREADS, DQ_ROW_TILES, AT_ONCE>(p, mask, work.batch, head, m, key0, k_tile, ds_tiles, buffer,
                                                                              ${hides("m")}, poisoned);
    };

    /* The turn of (query head, query block) counts the keys whose blocks have added to dQ there. One thread looks at it
     * a step ahead, waits if need be before the barrier that lets this block add, and passes it on after the next
     * barrier, when all threads have added and their sums have had the time to arrive. */
    const bool keeps_turn = thread_index() == THREADS / 2;
    auto turn_of = [&](int32_t head, int32_t block) {
        return 1 + (uint32_t)(work.batch * p.shape.heads_q + head) * (uint32_t)(p.padded_q / TILE_M) + (uint32_t)block;
    };
    auto pass_turn_on = [&](int32_t head, int32_t block) { st_release_u32(p.turn + turn_of(head, block), (uint32_t)(key0 + TILE_N)); };
    uint32_t seen = 0;
$ if intervals then
    /* Whether block m of the queries sees some of the keys: where it does not, the turn is never this block's. */
    auto has_turn = [&](int32_t m) { return !blocks.gaps || reaches(keys_of_block<TILE_M>(p, mask, work.batch, m), key0, TILE_N); };
$ end

$ if causal then
    /* NaN and infinities of K must not meet a dS of zero in blocks where the mask hides keys: each thread looks at what
     * it copied. */
    cp_async_wait(0);
    const bool found = block_any(${bounds_first and "(first_clear > first_m || last_clear < last_m)" or "first_clear > first_m"} && find_special<k_tile_t, THREADS>(k_tile));
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
    struct kept_rows<ROW_TILES, ${kv_kept}> x_kept; /* steps along head_dim whose fragments of K or V stay in registers */
$ if kv_kept > 0 then
    block_sync(); /* K and V are complete */
    keep_rows<k_tile_t>(x_kept, x_lane);

$ end
#pragma unroll 1
    for (int32_t step = 0; step ${fused and "<=" or "<"} steps${lead and " + LEAD" or ""}; ++step) {
        /* Stages: of the step whose Q and dO have arrived, of the one after, and of this warp's. */
$ if lead then
        const uint32_t front = (uint32_t)step % 3, next = front == 2 ? 0 : front + 1, stage = keeps_dk ? 3 - front - next : front;
        const bool works = keeps_dk ? step >= LEAD && step < steps + LEAD : step < steps;
$ else
        const uint32_t front = step & 1, next = front ^ 1, stage = front;
$ end

$ if fused and lead then
        /* This step's Q and dO have arrived, dS of two steps ago is complete, and no warp reads the next stage any
         * more. */
$ elseif fused then
        /* This step's Q and dO have arrived, the last step's dS is complete, and no warp reads the next stage any
         * more. */
$ else
        /* This step's Q and dO have arrived, and no warp reads the next stage any more. */
$ end
        cp_async_wait(0);
$ if fused or lead then
$ if causal then
        const int32_t m_front = m;
$ end
        int32_t head_now = head_q, m_now = m;
$ else
        const int32_t head_now = head_q, m_now = m;
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
        if (keeps_turn && step > ${first}${has_turn}) {
            while (seen < (uint32_t)key0)
                seen = ld_acquire_u32(p.turn + turn_of(head_before, m_before));
        }
$ end
$ if causal then
$ if capped then
        /* NaN and infinities in rows that the mask hides must not meet a P or dS of zero. Delta tells where dO has any;
         * in Q each thread looks at what it copied, as the cap leaves LSE finite. */
$ else
        /* NaN and infinities in rows that the mask hides must not meet a P or dS of zero: LSE and delta tell where Q
         * and dO have any. */
$ end
$ if fused or lead then
        if (${bounds_first and "(" .. hides("m_front") .. ")" or hides("m_front")} && step < steps) {
$ else
        if (${hides("m_now")}) {
$ end
            const uint32_t row = front * ROW_BYTES + thread_index() * 16;

$ if capped then
            const bool found = find_special<q_tile_t, THREADS>(q_tiles + front * q_tile_t::BYTES) ||
                               (thread_index() < ROW_BYTES / 16 && are_special(rows_lse + row, rows_delta + row));

            if (block_any(found))
$ else
            if (block_any(thread_index() < ROW_BYTES / 16 && are_special(rows_lse + row, rows_delta + row)))
$ end
                settle_queries<q_tile_t, THREADS, ${capped and "true" or "false"}>(g, !keeps_dk, q_tiles + front * q_tile_t::BYTES, do_tiles + front * q_tile_t::BYTES,
                                                  ${columns}, ${here});
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
        if (keeps_dk && step > ${first})
            add_queries(head_before, m_before, next * ds_tile_t::BYTES);

$ end
$ local part_rows = halves and "WARP_M" or "PART_M"
$ local part_loop = lead and "works && part < WARP_M / PART_M" or fused and "step < steps && part < WARP_M / PART_M" or "part < WARP_M / PART_M"
$ if part_m * d_split == tile_m then
#pragma unroll
$ else
#pragma unroll 1
$ end
        for (int part = 0; ${part_loop}; ++part) {
            const uint32_t y_now = y_lane + stage * q_tile_t::BYTES + part * (PART_M * q_tile_t::PAGE_ROW);
            const uint32_t z_now = z_lane + stage * q_tile_t::BYTES + part * (PART_M * q_tile_t::PAGE_ROW);
            const uint32_t ds_now = ${staged_ds == "" and "ds_lane" or "(ds_lane" .. staged_ds .. ")"} ^ (uint32_t)part * (PART_M * element::BYTES);
$ if halves then
            const uint32_t p_now = ds_lane + ${ds_copies} * ds_tile_t::BYTES;
            const int32_t query0 = m_now * TILE_M + (int32_t)half * WARP_M;
$ else
$ if not capped then
            const uint32_t p_now = ds_now; /* where dS^T will be */
$ end
            const int32_t query0 = m_now * TILE_M + part * PART_M;
$ end
            /* Queries beyond the last one, too: their Q and dO are zeros, and 0 times an infinity of a key is NaN. */
            const bool masked = ${hides("m_now")} || query0 + ${part_rows} > Rows::sight(kept, mask).seqlen_q;

            /* S^T = K Q^T, or dP^T = V dO^T; each query, a column, has an LSE or a delta. */
            float rows[PART_M / 8][2], s[ROW_TILES][PART_M / 8][4];
            multiply_rows<k_tile_t, q_tile_t>(s, x_kept, x_lane, y_now);
            load_columns(rows, rows_lane + stage * ROW_BYTES + part * (PART_M * 4));

            if (!keeps_dk) {
$ if capped then
                /* P^T = 2^(scale S^T - LSE) goes with dO into dV, and times the slope of the cap to the partner. */
$ else
                /* P^T = 2^(scale S^T - LSE) goes to the partner, and with dO into dV. */
$ end
                const bias_t bias = bias_t::template of<Rows>(p, head_now, Rows::place_again(work, kept), kept);
                const auto added = tile_of_keys<ROW_TILES, PART_M / 8>(bias, key0 + (int32_t)group * GROUP_ROWS, query0);

                change_scores(s, score);
$ if capped then
                make_capped_weights<ds_tile_t>(s, rows, p.shape, score, added, ds_now);
$ else
                make_weights(s, rows, p.shape, added);
$ end
                if (masked)
                    hide_queries<TILE_M>(s, ${sight("stage", "m_now")}, key0 + (int32_t)group * GROUP_ROWS, query0);
$ if halves or not capped then
                put_scores<ds_tile_t>(s, p_now);
$ end
$ if not lead then
                mbarrier_arrive(${p_phase});
$ end
$ if element == "tf32" then
                round_scores<element>(s);
$ end
$ if halves then
                named_sync(1 + group * 2, 64);
                add_products_of<ds_tile_t, q_tile_t>(g, a_lane + ${ds_copies} * ds_tile_t::BYTES, z_now);
$ else
                add_products<q_tile_t>(g, s, z_now);
$ end
            } else {
                /* dS^T = P^T (dP^T - delta) with the partner's P^T goes to dQ, and with Q into dK. */
                subtract_delta(s, rows);
$ if hides_first then
                if (masked)
                    hide_queries<TILE_M>(s, ${sight("stage", "m_now")}, key0 + (int32_t)group * GROUP_ROWS, query0);
$ end
$ if fused then
                if (keeps_turn && part == 0) {
                    if (step >= ${2 + first}) {
                        step_back(&head_before, &m_before);
$ if intervals then
                        if (has_turn(m_before))
                            pass_turn_on(head_before, m_before);
$ else
                        pass_turn_on(head_before, m_before);
$ end
                    }
                    seen = ld_acquire_u32(p.turn + turn_of(head_now, m_now));
                }
$ end
$ if not lead then
                mbarrier_wait(${p_phase}, stage);
$ end
$ if capped then
                times_scores<ds_tile_t>(s, ds_now);
$ else
                times_scores<ds_tile_t>(s, p_now);
$ end
$ if not hides_first then
                if (masked) /* the partner's P^T is not, and where it is 0, dP^T may be no number */
                    hide_queries<TILE_M>(s, ${sight("stage", "m_now")}, key0 + (int32_t)group * GROUP_ROWS, query0);
$ end
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

        if (!keeps_dk && step > ${first})
            add_queries(head_before, m_before, next * ds_tile_t::BYTES);
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
$ if intervals then
            if (has_turn(m))
                pass_turn_on(head_q, m);
$ else
            pass_turn_on(head_q, m);
$ end
        }
    }
$ end
$ if fused then
    const struct key_part end_share = find_key_part<TILE_N>(p, ld_shared_u32(number));
    const struct place end = Rows::template keys_at<TILE_N>(p, end_share);

    if (p.parts > 1 && add_part<THREADS, AT_ONCE>(p, g, end_share, 2 * TILE_N * (int)k_tile_t::DIM))
        return;
$ else
    const struct place end = Rows::template tile_again<TILE_N, true>(p, p.shape.section, kept);
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
    const uint32_t out_lane = out_tile + lane_offset_pairs<element>(thread_index_anew() % 32, k_tile_t::ROWS, k_tile_t::PAGE_CHUNKS);
$ else
    const uint32_t out_lane = out_tile + lane_offset_pairs<element>(lane, k_tile_t::ROWS, k_tile_t::PAGE_CHUNKS);
$ end
    write_rows<k_tile_t, ${k_part}>(*out, end.batch, end.head, end.first_k + end.row0 + (int32_t)group * GROUP_ROWS,
                                   end.first_k + end.own.seqlen_k, ${halves and "half" or "0"}, g, factor, out_tile, out_lane);
}

$ for _, kernel in ipairs(kernels) do
GLINT_KERNEL(THREADS, ${blocks_per_sm}) ${symbol}${kernel.suffix}(GLINT_PARAMS(struct ${call_type}) p)
{
    attend_keys<${kernel.rows}>(${call_of});
}
$ end
