$ local f32 = dtype == "f32"
$ local rows_of = f32 and "lane_offset_rows(lane, 0," or "lane_offset_trans(lane,"
$ local tf32 = math == "tf32"
$ local fused = strategy == "fused"
$ local lead = stages == 3
$ local shared_ds = fused or d_split == 2 -- other warps read dS^T
/* ---- dK and dV${fused and ", and parts of dQ" or ""}: a block owns TILE_N keys ---- */

typedef float scores_t[ROW_TILES][PART_M / 8][4]; /* of keys by queries */
typedef uint32_t operand_t[PART_M / K_STEP][ROW_TILES][4];
typedef float gradients_t[ROW_TILES][WARP_DIM / 8][4]; /* of keys by columns */

$ if causal then
/* Zero where the mask hides the key, and where key or query lie past the end. */
GLINT_DEVICE void hide(scores_t &s, int32_t first_key, int32_t first_query, int32_t offset, int32_t seqlen_q, int32_t seqlen_k)
$ else
/* Zero where the key lies past the end. */
GLINT_DEVICE void hide(scores_t &s, int32_t first_key, int32_t seqlen_k)
$ end
{
    const uint32_t lane = thread_index_anew() % 32;

#pragma unroll
    for (int kt = 0; kt < ROW_TILES; ++kt)
#pragma unroll
        for (int side = 0; side < 2; ++side) {
            const int32_t key = first_key + kt * 16 + side * 8 + (int32_t)(lane >> 2);
$ if causal then
            const int32_t column = 2 * (int32_t)(lane & 3), end = seqlen_q - first_query - column;
            const int32_t first = key >= seqlen_k ? TILE_M : key - offset - first_query - column;
$ else
            const int32_t first = key >= seqlen_k ? TILE_M : -TILE_M;
$ end
#pragma unroll
            for (int mt = 0; mt < PART_M / 8; ++mt) {
                s[kt][mt][2 * side] = mt * 8 < first${causal and " || mt * 8 >= end" or ""} ? 0.0f : s[kt][mt][2 * side];
                s[kt][mt][2 * side + 1] = mt * 8 + 1 < first${causal and " || mt * 8 + 1 >= end" or ""} ? 0.0f : s[kt][mt][2 * side + 1];
            }
        }
}

/* P^T or dS^T to shared memory. */
GLINT_DEVICE void put_scores(const scores_t &s, uint32_t lane_address)
{
#pragma unroll
    for (int mt = 0; mt < PART_M / 8; ++mt)
#pragma unroll
        for (int kt = 0; kt < ROW_TILES; ++kt)
#pragma unroll
            for (int side = 0; side < 2; ++side)
                st_shared_pair(tile_move(lane_address, kt * 16 + 8 * side, mt * FRAGMENT_CHUNKS, TILE_N, DS_CHUNKS), s[kt][mt][2 * side],
                               s[kt][mt][2 * side + 1]);
}

/* s times the P^T that put_scores left there. */
GLINT_DEVICE void times_weights(scores_t &s, uint32_t p_lane)
{
$ if f32 then
#pragma unroll
    for (int mt = 0; mt < PART_M / 8; ++mt)
#pragma unroll
        for (int kt = 0; kt < ROW_TILES; ++kt)
#pragma unroll
            for (int side = 0; side < 2; ++side) {
                float p[2];

                ld_shared_f32x2(p, tile_move(p_lane, kt * 16 + 8 * side, mt * FRAGMENT_CHUNKS, TILE_N, DS_CHUNKS));
                s[kt][mt][2 * side] *= p[0];
                s[kt][mt][2 * side + 1] *= p[1];
            }
$ else
    uint32_t p[PART_M / 8][ROW_TILES][2]; /* all loads first: they wait for nothing */

#pragma unroll
    for (int mt = 0; mt < PART_M / 8; ++mt)
#pragma unroll
        for (int kt = 0; kt < ROW_TILES; ++kt)
#pragma unroll
            for (int side = 0; side < 2; ++side)
                p[mt][kt][side] = ld_shared_u32(tile_move(p_lane, kt * 16 + 8 * side, mt, TILE_N, DS_CHUNKS));
#pragma unroll
    for (int mt = 0; mt < PART_M / 8; ++mt)
#pragma unroll
        for (int kt = 0; kt < ROW_TILES; ++kt)
#pragma unroll
            for (int side = 0; side < 2; ++side) {
                s[kt][mt][2 * side] *= low_${dtype}(p[mt][kt][side]);
                s[kt][mt][2 * side + 1] *= high_${dtype}(p[mt][kt][side]);
            }
$ end
}

$ if d_split == 1 then
/* dV += P^T dO, or dK += dS^T Q, for PART_M queries. */
GLINT_DEVICE void add_products(gradients_t &g, const scores_t &s, uint32_t z_lane)
{
    operand_t a;

    to_operand(a, s);
#pragma unroll
    for (int kk = 0; kk < PART_M / K_STEP; ++kk)
        multiply_step(g, a[kk], z_lane, kk, TILE_M, false${tf32 and ", false" or ""});
}
$ else
/* dV += P^T dO, or dK += dS^T Q, for all queries of the step: operand A from shared memory, where two warps have put it. */
GLINT_DEVICE void add_products(gradients_t &g, uint32_t a_lane, uint32_t z_lane)
{
#pragma unroll
    for (int kk = 0; kk < TILE_M / K_STEP; ++kk) {
        uint32_t a[ROW_TILES][4];

#pragma unroll
        for (int kt = 0; kt < ROW_TILES; ++kt)
            ldmatrix_x4(a[kt], tile_move(a_lane, kt * 16, kk * 2, TILE_N, DS_CHUNKS));
        multiply_step(g, a, z_lane, kk, TILE_M, false);
    }
}
$ end

$ if causal then
/* Whether LSE or delta of four queries say that their Q or dO holds NaN or infinity. LSE = +inf is a query that sees nothing. */
GLINT_DEVICE bool are_special(uint32_t lse, uint32_t delta)
{
    uint32_t l[4], d[4];
    bool found = false;

    ld_shared_u32x4(l, lse);
    ld_shared_u32x4(d, delta);
#pragma unroll
    for (int i = 0; i < 4; ++i)
        found |= (l[i] & 0x7fffffffu) > 0x7f800000u || (d[i] & 0x7f800000u) == 0x7f800000u;
    return found;
}

/* NaN and infinities of dO go to the dV of keys that their query sees, and then leave the tile. Those of Q only leave: their rows' LSE,
 * and so P and dS, are not finite either. first_limit: the last key that the first query sees, counted from this group's first. All
 * threads of the block call it. */
GLINT_DEVICE void settle_queries(gradients_t &dv, bool keeps_dv, uint32_t q_tile, uint32_t do_tile, int32_t first_limit, uint32_t first_chunk)
{
    if (keeps_dv) {
#pragma unroll 1
        for (int32_t query = 0; query < TILE_M; ++query)
            add_special(dv, do_tile, (uint32_t)query, first_chunk, TILE_M, 1.0f, [&](int32_t key) { return key <= first_limit + query; });
    }
    block_sync();
    const uint32_t row = thread_index() < THREADS / CHUNKS * CHUNKS ? thread_index() / CHUNKS : (uint32_t)TILE_M;

    clear_special(q_tile, row, THREADS / CHUNKS, thread_index() % CHUNKS, CHUNKS, TILE_M, CHUNKS, PAGE_CHUNKS, EXPONENT, BYTES);
    clear_special(do_tile, row, THREADS / CHUNKS, thread_index() % CHUNKS, CHUNKS, TILE_M, CHUNKS, PAGE_CHUNKS, EXPONENT, BYTES);
    block_sync();
}

$ end
$ if fused then
/* Sums of several blocks, in turn: each thread's accumulators in the order of slot_of_four. The first one stores, others add. */
template <int ROWS, int COLUMNS>
GLINT_DEVICE void add_to_memory(float *sum, const float (&d)[ROWS][COLUMNS][4], bool first)
{
    if (first) {
#pragma unroll
        for (int i = 0; i < ROWS * COLUMNS; ++i)
            st_four(sum + i * (4 * THREADS), d[i / COLUMNS][i % COLUMNS], THREADS);
    } else {
#pragma unroll
        for (int i = 0; i < ROWS * COLUMNS; ++i)
            red_four(sum + i * (4 * THREADS), d[i / COLUMNS][i % COLUMNS], THREADS);
    }
}

/* What the others left of AT_ONCE fragments from `start` on, for the last one. Their loads are under way together: one after another, they were
 * the longest part of a step. */
template <int ROWS, int COLUMNS>
GLINT_DEVICE void add_from_memory(float (&d)[ROWS][COLUMNS][4], const float *sum, const int start)
{
    float before[AT_ONCE][4];

#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i)
        if (start + i < ROWS * COLUMNS)
            ld_four(before[i], sum + (start + i) * (4 * THREADS), THREADS);
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i)
        if (start + i < ROWS * COLUMNS)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                d[(start + i) / COLUMNS][(start + i) % COLUMNS][e] += before[i][e];
}

$ end
/* Where this block works, from its number. */
struct work {
    int32_t index, batch, head_kv; /* index of the key block in its head */
$ if fused then
    int32_t part, tile; /* of the head's group; of this key block among those of all heads */
$ end
};

$ if fused then
/* Part 0 of all heads comes before part 1, so that a block seldom waits for the one that adds to its dK and dV before it. */
GLINT_DEVICE struct work find_work(const struct glint_backward_params *p, uint32_t number)
{
    const struct glint_gpu_shape *shape = &p->shape;
    const int32_t blocks_n = (shape->seqlen_k + TILE_N - 1) / TILE_N, heads = shape->batch * shape->heads_kv;
    const struct block_place place = find_place(number, (uint32_t)blocks_n, (uint32_t)(heads * p->parts), (uint32_t)shape->section);
    struct work work;

    work.index = place.index;
    work.part = place.head / heads;
    const int32_t head = place.head - work.part * heads;
    work.tile = head * blocks_n + place.index;
    work.batch = head / shape->heads_kv;
    work.head_kv = head - work.batch * shape->heads_kv;
    return work;
}
$ else
GLINT_DEVICE struct work find_work(const struct glint_gpu_shape *shape, uint32_t number)
{
    const uint32_t blocks_n = (uint32_t)(shape->seqlen_k + TILE_N - 1) / TILE_N;
    const struct block_place place =
        find_place(number, blocks_n, (uint32_t)(shape->batch * shape->heads_kv), (uint32_t)shape->section);
    struct work work;

    work.index = place.index;
    work.batch = place.head / shape->heads_kv;
    work.head_kv = place.head - work.batch * shape->heads_kv;
    return work;
}
$ end

GLINT_KERNEL(THREADS, ${blocks_per_sm}) ${symbol}(GLINT_PARAMS(struct glint_backward_params) p)
{
    const uint32_t lane = lane_index(), warp = warp_index();
    const uint32_t group = warp % GROUPS${d_split == 2 and ", half = warp / GROUPS % 2" or ""};
    const bool keeps_dk = warp >= WARPS / 2; /* else dV */
    const int32_t seqlen_q = p.shape.seqlen_q, seqlen_k = p.shape.seqlen_k;

    const uint32_t k_tile = shared_base(), v_tile = k_tile + K_BYTES, q_tiles = v_tile + K_BYTES, do_tiles = q_tiles + STAGES * Q_BYTES;
    const uint32_t ds_tiles = do_tiles + STAGES * Q_BYTES, rows_lse = ds_tiles + (DS_STAGES + D_SPLIT - 1) * DS_BYTES, rows_delta = rows_lse + STAGES * ROW_BYTES;
$ if fused or not lead then
    const uint32_t phases = rows_delta + STAGES * ROW_BYTES;
$ end
$ if not lead then
    const uint32_t phase = phases + (group${d_split == 2 and " * 2 + half" or ""}) * 8;

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
    const uint32_t number = phases + 8 * PHASES${causal and ", poisoned = number + 4" or ""};

    /* Blocks take numbers as they begin, so a block waits only for such that run or have run. */
    if (thread_index() == 0)
        st_shared_u32(number, seqlen_q > 0 ? atom_global_add_u32(p.turn, 1) : block_index());
    block_sync();
    const struct work work = find_work(&p, ld_shared_u32(number));
$ else

    const struct work work = find_work(&p.shape, block_index());
$ end
    const int32_t batch = work.batch, head_kv = work.head_kv, key0 = work.index * TILE_N;

    /* Query blocks that see some key of this block, those under first_clear do not see all of them. */
    const int32_t last_m = (seqlen_q + TILE_M - 1) / TILE_M - 1;
$ if causal then
    const int32_t offset = p.shape.mask_offset;
    const int32_t first_m = max(0, key0 - offset) / TILE_M;
    const int32_t first_clear = key0 + TILE_N > seqlen_k ? last_m + 1 : (max(0, key0 + TILE_N - 1 - offset) + TILE_M - 1) / TILE_M;
$ else
    const int32_t first_m = 0;
    const int32_t first_clear = key0 + TILE_N > seqlen_k ? last_m + 1 : 0;
$ end
$ if fused then
    const int32_t first_head = work.part * p.part_heads; /* of the group */
    const int32_t steps = max(0, last_m - first_m + 1) * min(p.part_heads, p.shape.group - first_head);
$ else
    const int32_t steps = max(0, last_m - first_m + 1) * p.shape.group;
$ end

    copy_tile(k_tile, copy_from(view_row(&p.k, batch, head_kv, key0, BYTES), p.k.row * BYTES, PAGE_CHUNKS), p.k.row * BYTES,
              seqlen_k - key0, TILE_N, ROW_CHUNKS, PAGES, PAGE_CHUNKS, THREADS);
    copy_tile(v_tile, copy_from(view_row(&p.v, batch, head_kv, key0, BYTES), p.v.row * BYTES, PAGE_CHUNKS), p.v.row * BYTES,
              seqlen_k - key0, TILE_N, ROW_CHUNKS, PAGES, PAGE_CHUNKS, THREADS);

    /* Begins the copies of a step's Q, dO, LSE and delta into a stage. */
    auto copy_step = [&](int32_t head_q, int32_t m, uint32_t stage) {
        const uint32_t thread = ${causal and d_split == 1 and "thread_index_anew()" or "thread_index()"}; /* whichever leaves ptxas enough registers */
        const int64_t row = (int64_t)(batch * p.shape.heads_q + head_q) * p.padded_q + m * TILE_M;

        copy_part(thread, q_tiles + stage * Q_BYTES, copy_from(view_row(&p.q, batch, head_q, m * TILE_M, BYTES), p.q.row * BYTES, PAGE_CHUNKS),
                  p.q.row * BYTES, seqlen_q - m * TILE_M, TILE_M, ROW_CHUNKS, PAGES, PAGE_CHUNKS, THREADS);
        copy_part(thread, do_tiles + stage * Q_BYTES, copy_from(view_row(&p.dout, batch, head_q, m * TILE_M, BYTES), p.dout.row * BYTES, PAGE_CHUNKS),
                  p.dout.row * BYTES, seqlen_q - m * TILE_M, TILE_M, ROW_CHUNKS, PAGES, PAGE_CHUNKS, THREADS);
        if (thread < ROW_BYTES / 16) {
            cp_async_16(rows_lse + stage * ROW_BYTES + thread * 16, p.lse_log2 + row + thread * 4, true);
            cp_async_16(rows_delta + stage * ROW_BYTES + thread * 16, p.delta + row + thread * 4, true);
        }
    };
    int32_t head_q = head_kv * p.shape.group${fused and " + first_head" or ""}, m = last_m; /* of the step that is copied next */
    if (steps > 0)
        copy_step(head_q, m, 0);
    cp_async_commit();

    /* S^T = K Q^T and dV += P^T dO, or dP^T = V dO^T and dK += dS^T Q: the same products of other tiles. */
    const uint32_t x_lane = (keeps_dk ? v_tile : k_tile) + lane_offset_a(lane, TILE_N, PAGE_CHUNKS) + group * (GROUP_ROWS * PAGE_CHUNKS * 16);
    const uint32_t y_lane = (keeps_dk ? do_tiles : q_tiles) + lane_offset_b(lane, TILE_M, PAGE_CHUNKS)${d_split == 2 and " + half * (WARP_M * PAGE_CHUNKS * 16)" or ""};
    const uint32_t rows_lane = (keeps_dk ? rows_delta : rows_lse) + (lane & 3) * 8${d_split == 2 and " + half * (WARP_M * 4)" or ""};
    const uint32_t z_lane = (keeps_dk ? q_tiles : do_tiles) + ${rows_of} TILE_M, PAGE_CHUNKS)${d_split == 2 and " + half * (WARP_DIM * BYTES * TILE_M)" or ""};
    const uint32_t ds_lane = (ds_tiles + ${f32 and "scores_offset(lane >> 2, lane >> 1 & 1, DS_CHUNKS) + (lane & 1) * 8" or "lane_offset_pairs(lane, TILE_N, DS_CHUNKS)"} + group * (GROUP_ROWS * DS_CHUNKS * 16))${d_split == 2 and " ^ half * (WARP_M * BYTES)" or ""};
$ if d_split == 2 then
    const uint32_t a_lane = ds_tiles + lane_offset_a(lane, TILE_N, DS_CHUNKS) + group * (GROUP_ROWS * DS_CHUNKS * 16);
$ end

$ if fused or lead then
    /* From a step's query head and query block to those of the step before. */
    auto step_back = [&](int32_t *head, int32_t *block) {
        *head -= *block == last_m;
        *block = *block == last_m ? first_m : *block + 1;
    };

$ end
    gradients_t g; /* dV, or dK without the scale */
    set_zero(g);

$ if fused then
    /* dQ's part of the step before: dS K, each warp making DQ_ROW_TILES x 16 queries by DQ_DIM columns. */
    auto add_dq = [&](int32_t head_before, int32_t m_before, uint32_t buffer) {
        const uint32_t thread = thread_index_anew(), lane = thread % 32;
        const uint32_t dq_group = thread / 32 % DQ_GROUPS, dq_column = thread / 32 / DQ_GROUPS * DQ_DIM;
$ if f32 then
        const uint32_t ds_read = ds_tiles + lane_offset_scores(lane, dq_group * (4 * DQ_ROW_TILES), DS_CHUNKS);
        const uint32_t k_lane_trans = k_tile + lane_offset_rows(lane, dq_column / 4, TILE_N, PAGE_CHUNKS);
$ else
        const uint32_t ds_read =
            ds_tiles + tile_offset((lane & 7) + (lane >> 4 << 3), dq_group * (2 * DQ_ROW_TILES) + (lane >> 3 & 1), TILE_N, DS_CHUNKS);
        const uint32_t k_lane_trans = k_tile + tile_offset(lane & 15, dq_column / 8 + (lane >> 4), TILE_N, PAGE_CHUNKS);
$ end
        float dq[DQ_ROW_TILES][DQ_DIM / 8][4];
        auto multiply = [&](const int kk, const bool finite) {
            uint32_t a[DQ_ROW_TILES][4];
#pragma unroll
            for (int rt = 0; rt < DQ_ROW_TILES; ++rt) {
$ if f32 then
                load_scores(a[rt], ds_read + buffer, kk * 8, rt * 4, DS_CHUNKS);
$ else
                ldmatrix_x4_trans(a[rt], tile_move(ds_read + buffer, kk * 16, rt * 2, TILE_N, DS_CHUNKS));
$ end
            }
            multiply_step(dq, a, k_lane_trans, kk, TILE_N, finite${tf32 and ", true" or ""});
        };
        set_zero(dq);
$ if causal then
        /* Of keys that hold NaN or infinities, queries that see them get NaN: S is infinite or NaN there, so P and dS are 0 or NaN. */
        if (m_before < first_clear && ld_shared_u32(poisoned) != 0) {
            const int32_t query0 = m_before * TILE_M + (int32_t)(dq_group * (DQ_ROW_TILES * 16));

#pragma unroll 1
            for (int kk = 0; kk < TILE_N / K_STEP; ++kk)
                multiply(kk, true);
#pragma unroll 1
            for (int32_t key = 0; key < TILE_N; ++key)
                add_special(dq, k_tile, (uint32_t)key, dq_column * BYTES / 16, TILE_N, 0.0f,
$ if f32 then
                            [&](int32_t row) { return key0 + key <= query0 + row / 16 * 16 + row % 8 * 2 + row / 8 % 2 + offset; });
$ else
                            [&](int32_t query) { return key0 + key <= query0 + query + offset; });
$ end
        } else
$ end
#pragma unroll
            for (int kk = 0; kk < TILE_N / K_STEP; ++kk)
                multiply(kk, false);

        /* Key blocks add to dQ in their order: the first one stores, the last one adds what the others left and rounds. */
        const int32_t head = batch * p.shape.heads_q + head_before;
        float *sum = slot_of_four(p.dq_sum + (head * p.padded_q + m_before * TILE_M) * DIM_PADDED, thread);
$ if causal then
        const int32_t keys = min(seqlen_k, min(seqlen_q, (m_before + 1) * TILE_M) + offset); /* that some query of the block sees */
        if (key0 >= keys)
            return;
$ else
        const int32_t keys = seqlen_k;
$ end
        if (key0 + TILE_N >= keys) {
            const int32_t row0 = m_before * TILE_M + (int32_t)(dq_group * (DQ_ROW_TILES * 16) + (lane >> 2)${f32 and " * 2" or ""});
            char *dq_rows = view_row(&p.dq, batch, head_before, row0, BYTES);

#pragma unroll
            for (int start = 0; start < DQ_FRAGMENTS; start += AT_ONCE) {
                if (key0 > 0)
                    add_from_memory(dq, sum, start);
#pragma unroll
                for (int i = start; i < start + AT_ONCE && i < DQ_FRAGMENTS; ++i) {
                    const int rt = i / (DQ_DIM / 8), dt = i % (DQ_DIM / 8);
#pragma unroll
                    for (int side = 0; side < 2; ++side)
                        if (row0 + rt * 16 + side * ${f32 and "1" or "8"} < seqlen_q && (DIM_PADDED == HEAD_DIM || dq_column + dt * 8 < HEAD_DIM))
$ if f32 then
                            st_global_f32x2(dq_rows + (rt * 16 + side) * p.dq.row * BYTES + (dq_column + dt * 8 + (lane & 3) * 2) * BYTES,
                                            dq[rt][dt][2 * side] * p.shape.softmax_scale, dq[rt][dt][2 * side + 1] * p.shape.softmax_scale);
$ else
                            st_global_u32(dq_rows + (rt * 16 + side * 8) * p.dq.row * BYTES + (dq_column + dt * 8 + (lane & 3) * 2) * BYTES,
                                          pack_${dtype}(dq[rt][dt][2 * side] * p.shape.softmax_scale, dq[rt][dt][2 * side + 1] * p.shape.softmax_scale));
$ end
                }
            }
        } else {
            add_to_memory(sum, dq, key0 == 0);
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
    const bool found = block_any(first_clear > first_m && find_special(k_tile, TILE_N, PAGES, PAGE_CHUNKS, THREADS, EXPONENT, BYTES));
    if (thread_index() == 0)
        st_shared_u32(poisoned, found ? 1 : 0);

$ end
$ end
$ if tf32 then
    cp_async_wait(0);
    round_tile(k_tile, TILE_N, PAGES, PAGE_CHUNKS, THREADS);
    round_tile(v_tile, TILE_N, PAGES, PAGE_CHUNKS, THREADS);

$ elseif kv_kept > 0 then
    cp_async_wait(0);
$ end
$ if kv_kept > 0 then
    block_sync(); /* K and V are complete */
    uint32_t x_kept[KV_KEPT][ROW_TILES][4];
#pragma unroll
    for (int kk = 0; kk < KV_KEPT; ++kk)
#pragma unroll
        for (int kt = 0; kt < ROW_TILES; ++kt)
            ldmatrix_x4(x_kept[kk][kt], tile_move(x_lane, kt * 16, kk * 2, TILE_N, PAGE_CHUNKS));

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

        /* This step's Q and dO have arrived,${fused and (lead and " dS of two steps ago is complete," or " the last step's dS is complete,") or ""} and no warp reads the next stage any more. */
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
        int32_t head_before = ${lead and "head_q" or "head_now"}, m_before = ${lead and "m" or "m_now"};
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
        if (m_front < first_clear${(fused or lead) and " && step < steps" or ""}) {
            const uint32_t row = front * ROW_BYTES + thread_index() * 16;

            if (block_any(thread_index() < ROW_BYTES / 16 && are_special(rows_lse + row, rows_delta + row)))
                settle_queries(g, !keeps_dk, q_tiles + front * Q_BYTES, do_tiles + front * Q_BYTES,
                               m_front * TILE_M + offset - key0 - (int32_t)group * GROUP_ROWS, ${d_split == 2 and "half * (WARP_DIM * BYTES / 16)" or "0"});
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
            add_dq(head_before, m_before, next * DS_BYTES);

$ end
#pragma unroll${part_m * d_split == tile_m and "" or " 1"}
        for (int part = 0; ${lead and "works && " or fused and "step < steps && " or ""}part < WARP_M / PART_M; ++part) {
            const uint32_t y_now = y_lane + stage * Q_BYTES + part * (PART_M * PAGE_CHUNKS * 16);
            const uint32_t z_now = z_lane + stage * Q_BYTES + part * (PART_M * PAGE_CHUNKS * 16);
            const uint32_t ds_now = (ds_lane${(fused or lead) and " + stage * DS_BYTES" or ""}) ^ (uint32_t)part * (PART_M * BYTES);
            const uint32_t p_now = ${d_split == 1 and "ds_now" or "ds_lane + P_PLACE"};
$ if causal then
            const int32_t query0 = m_now * TILE_M + ${d_split == 2 and "(int32_t)half * WARP_M" or "part * PART_M"};
$ end
            const bool masked = m_now < first_clear;

            /* S^T = K Q^T, or dP^T = V dO^T; each query, a column, has an LSE or a delta. */
            float rows[PART_M / 8][2];
            scores_t s;
            multiply_rows(s, ${kv_kept > 0 and "x_kept, KV_KEPT, " or ""}x_lane, TILE_N, y_now, TILE_M);
#pragma unroll
            for (int mt = 0; mt < PART_M / 8; ++mt)
                ld_shared_f32x2(rows[mt], rows_lane + stage * ROW_BYTES + part * (PART_M * 4) + mt * 32);

            if (!keeps_dk) {
                /* P^T = 2^(scale S^T - LSE) goes to the partner, and with dO into dV. */
#pragma unroll
                for (int mt = 0; mt < PART_M / 8; ++mt)
#pragma unroll
                    for (int kt = 0; kt < ROW_TILES; ++kt)
#pragma unroll
                        for (int e = 0; e < 4; ++e)
                            s[kt][mt][e] = ex2(fmaf(s[kt][mt][e], p.shape.scale_log2, -rows[mt][e & 1]));
                if (masked)
                    hide(s, key0 + (int32_t)group * GROUP_ROWS, ${causal and "query0, offset, seqlen_q, " or ""}seqlen_k);
                put_scores(s, p_now);
$ if not lead then
                mbarrier_arrive(phase${d_split == 1 and " + part * (GROUPS * 8)" or ""});
$ end
$ if d_split == 2 then
                named_sync(1 + group * 2, 64);
$ end
$ if tf32 then
                round_scores(s);
$ end
                add_products(g, ${d_split == 2 and "a_lane + P_PLACE" or "s"}, z_now);
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
                    hide(s, key0 + (int32_t)group * GROUP_ROWS, query0, offset, seqlen_q, seqlen_k);
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
                mbarrier_wait(phase${d_split == 1 and " + part * (GROUPS * 8)" or ""}, stage);
$ end
                times_weights(s, p_now);
$ if tf32 then
                round_scores(s);
$ end
$ if shared_ds then
                put_scores(s, ds_now);
$ end
$ if d_split == 2 then
                named_sync(2 + group * 2, 64);
$ end
                add_products(g, ${d_split == 2 and (fused and "a_lane + stage * DS_BYTES" or "a_lane") or "s"}, z_now);
            }
        }
$ if fused then

        if (!keeps_dk && step > LEAD)
            add_dq(head_before, m_before, next * DS_BYTES);
$ end
    }

    /* ${fused and "The last turn; then " or ""}dK and dV go through this group's own rows of the K and V tiles to 16-byte stores. */
$ if not fused then
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
    const struct work end = find_work(&p, ld_shared_u32(number));

    /* Parts of a group add to dK and dV in their order, each warp to its own rows and columns: the first one stores, the last one adds what the
     * others left. A warp waits for blocks of lower numbers only. */
    if (p.parts > 1) {
        const uint32_t thread = thread_index_anew();
        uint32_t *turn = p.key_turn + (int64_t)end.tile * WARPS + thread / 32;
        float *sum = slot_of_four(p.key_sum + (int64_t)end.tile * (2 * TILE_N * DIM_PADDED), thread);

        if (end.part > 0) {
            if (thread % 32 == 0)
                while (ld_acquire_u32(turn) < (uint32_t)end.part)
                    continue;
            warp_sync();
        }
        if (end.part < p.parts - 1) {
            add_to_memory(sum, g, end.part == 0);
            warp_sync();
            if (thread % 32 == 0)
                st_release_u32(turn, (uint32_t)end.part + 1);
            return;
        }
#pragma unroll
        for (int start = 0; start < ROW_TILES * (WARP_DIM / 8); start += AT_ONCE)
            add_from_memory(g, sum, start);
    }
$ else
    const struct work end = find_work(&p.shape, block_index());
$ end
    const float factor = keeps_dk ? p.shape.softmax_scale : 1.0f;
    const struct glint_gpu_view *out = keeps_dk ? &p.dk : &p.dv;
    const uint32_t out_tile =
        (keeps_dk ? k_tile : v_tile) + group * (GROUP_ROWS * PAGE_CHUNKS * 16)${d_split == 2 and " + half * (WARP_DIM * BYTES * TILE_N)" or ""};
    const uint32_t out_lane = out_tile + lane_offset_pairs(${fused and "thread_index_anew() % 32" or "lane"}, TILE_N, PAGE_CHUNKS);
    const int32_t group_key0 = end.index * TILE_N + (int32_t)group * GROUP_ROWS;
#pragma unroll
    for (int kt = 0; kt < ROW_TILES; ++kt) {
        stage_rows(out_lane, g[kt], factor, kt * 16, TILE_N);
        warp_sync();
        store_rows(view_row(out, end.batch, end.head_kv, group_key0 + kt * 16, BYTES)${d_split == 2 and " + half * (WARP_DIM * BYTES)" or ""}, out->row * BYTES, seqlen_k - group_key0 - kt * 16, out_tile,
                   kt * 16, TILE_N, ROW_CHUNKS${d_split == 2 and " - half * (WARP_DIM * BYTES / 16)" or ""}, PAGES / D_SPLIT, PAGE_CHUNKS);
    }
}
