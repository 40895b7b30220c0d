$ local fused = strategy == "fused"
$ -- A warpgroup makes dQ of all queries and half of the columns, or of half the queries.
$ local by_columns = head_dim > 64
$ local shared_columns = fused and by_columns and 128 - head_dim or 0
$ -- LSE and delta are read before the wait for what they go with: 1 % at 64 queries, a loss at 128.
$ local early = tile_m == 64
$ local key_work = bounds_first and "window_keys" or "key_work"
$ local find_keys = bounds_first and "find_window_keys<TILE_M, TILE_N>" or ("find_keys<TILE_M, TILE_N, %s>"):format(causal)
$ local find_dq = bounds_first and "find_window_dq<TILE_M, TILE_N, HEAD_DIM>" or ("find_dq<TILE_M, TILE_N, HEAD_DIM, %s>"):format(causal)
$ local find_own_dq = bounds_first and "find_own_window_dq<TILE_M, TILE_N, HEAD_DIM>" or ("find_own_dq<TILE_M, TILE_N, HEAD_DIM, %s>"):format(causal)
$ -- Where a block visits one query block less than the one before. With two less it ends so much earlier that the order by sections has no
$ -- more waiting: measured 1 to 2 % better. With a window all visit as many, and neither was measured.
$ local order = fused and causal and not bounds_first and tile_m == tile_n and "staggered_order" or "plain_order"
/* ---- dK and dV${fused and ", and parts of dQ" or ""}: a block owns TILE_N keys, a warpgroup OWN_ROWS of them ---- */

typedef slab_tile<TILE_M, TILE_N, 128> ds_tile; /* dS: queries by keys */

enum {
$ if shared_columns > 0 then
    SHARED_COLUMNS = ${shared_columns}, /* of dQ, that both warpgroups make */
$ end
    STAGES = 2,     /* of Q and dO${fused and ", dS" or ""} and what leaves */
$ if fused then
    OUT_BYTES = TILE_M * HEAD_DIM * 4, /* a step's dQ in float32; dK or dV of a block */
$ else
    OUT_BYTES = TILE_N * HEAD_DIM * BYTES, /* dK or dV of a block */
$ end
    ROW_BYTES = TILE_M * 4, /* LSE, or delta, of a step */
$ if fused and by_columns then
    DQ_APART = (HEAD_DIM - 64) * OWN_ROWS * 4, /* bytes from the first warpgroup's columns of dQ to the other one's */
$ elseif fused then
    DQ_APART = HEAD_DIM * OWN_ROWS * 4, /* bytes from the first warpgroup's queries of dQ to the other one's */
$ end
$ if fused and not causal then
    ROUNDED_AT = 8192, /* dQ in a stage that its sums came to: a warpgroup's half lies where the sums were that it has read */
$ end
$ if fused then
    SHARES = 2 * TILE_N * HEAD_DIM * 4 / OUT_BYTES, /* stages of OUT that dV and dK of a part take in float32 */
$ end
    OWN_BYTES = 2 * own_tile::bytes,
    V_AT = OWN_BYTES,
    Q_AT = V_AT + OWN_BYTES,
    DO_AT = Q_AT + STAGES * query_tile::bytes,
    OUT_AT = DO_AT + STAGES * query_tile::bytes,
    DS_AT = OUT_AT + STAGES * OUT_BYTES,
    LSE_AT = ${fused and "DS_AT + STAGES * ds_tile::bytes" or "DS_AT"},
    DELTA_AT = LSE_AT + STAGES * ROW_BYTES,
    BARRIERS_AT = DELTA_AT + STAGES * ROW_BYTES,
};

/* Shared memory: tiles, then mbarriers. */
typedef stage_ring<1, OWN_BYTES, 0, BARRIERS_AT> k_ring; /* of the block, the next one's behind it */
typedef stage_ring<1, OWN_BYTES, V_AT, k_ring::end> v_ring;
enum { CHECKED = v_ring::end }; /* K has been looked at */
typedef stage_ring<STAGES, query_tile::bytes, Q_AT, CHECKED + 8> q_ring;
typedef stage_ring<STAGES, query_tile::bytes, DO_AT, q_ring::end> do_ring;
typedef stage_ring<STAGES, OUT_BYTES, OUT_AT, do_ring::end> out_ring;
typedef stage_ring<STAGES, ds_tile::bytes, DS_AT, out_ring::end> ds_ring;
enum { TURN_SEEN = ds_ring::end }; /* what a stage's dQ is added to is complete */
typedef tile_queue<TURN_SEEN + 8 * STAGES> queue; /* which key block the block is at, and the next */
enum { SPECIAL_AT = queue::end, SHARED_BYTES = SPECIAL_AT + 8 }; /* whether the block's keys hold NaN or infinity */
$ if #kinds > 1 then
enum { SEARCH_AT = (SHARED_BYTES + 15) / 16 * 16 }; /* where lengths are read: the search for a key block, and what it found */
typedef key_queue<SEARCH_AT + KEY_SEARCH_BYTES> found_keys;
$ end

/* Named barriers: a warpgroup's turn to multiply, two of them; both warpgroups${fused and not causal and "; a warpgroup alone, two of them" or ""}. */
enum { TURN_BARRIER = 1, BOTH_BARRIER = 3${fused and not causal and ", OWN_BARRIER = 4" or ""} };

$ for _, kind in ipairs(kinds) do
$ local sequences = kind ~= "given"
$ -- Without a mask one block of keys rounds dQ of all queries: its steps have code of their own, and its sums come by a copy to where its dQ leaves,
$ -- up to two steps ahead. Where lengths are read there are no registers for that: head_dim 128 spills 16 bytes.
$ local rounds = fused and not causal and not sequences
$ local work_of = sequences and "sequence_keys<" .. key_work .. ">" or "key_work"
$ local params, base = sequences and "sequences_call" or "glint_gpu_backward_maps", "p.base"
$ local from_q, from_k = sequences and "work.first_q + " or "", sequences and "work.first_k + " or ""
$ if sequences then

/* ==== The same over sequences whose lengths are read here ===========================================================================
 * Ragged ones, or those of a padded batch: lib/device/warpgroup_sequences.h. Other overloads of the same functions. */

struct ${params} : glint_gpu_backward_maps {}; /* tells the overloads apart */

/* The block that a slot of the queue says. */
GLINT_DEVICE struct ${work_of} find_found_block(const struct glint_gpu_shape *call, uint32_t slot)
{
    const struct glint_gpu_shape shape = shape_of_slot(call, slot);
    struct ${work_of} work;

    static_cast<struct ${key_work} &>(work) = ${find_keys}(&shape, place_of_slot<TILE_N>(slot));
    get_place(work, slot);
    return work;
}
$ else
$ if fused then
/* `which`: of the key blocks of all key heads, head by head, once for each part. */
GLINT_DEVICE struct ${key_work} find_block(const struct glint_gpu_call &p, uint32_t which)
{
    const uint32_t blocks = ((uint32_t)p.shape.seqlen_k + TILE_N - 1) / TILE_N, nth = which / blocks;
    const uint32_t heads = (uint32_t)(p.shape.batch * p.shape.heads_kv), part = nth / heads;
    struct ${key_work} work =
        ${find_keys}(&p.shape, {(int32_t)(which - nth * blocks), (int32_t)(nth - part * heads)});

    take_part(work, p, (int32_t)part);
    return work;
}
$ else
/* `which`: of the key blocks of all heads, head by head. */
GLINT_DEVICE struct ${key_work} find_block(const struct glint_gpu_call &p, uint32_t which)
{
    const uint32_t blocks = ((uint32_t)p.shape.seqlen_k + TILE_N - 1) / TILE_N, head = which / blocks;

    return ${find_keys}(&p.shape, {(int32_t)(which - head * blocks), (int32_t)head});
}
$ end
$ end

/* The block's K or V. */
template <class ring_of>
GLINT_DEVICE void load_own(const struct tensor_map *map, const struct ${work_of} &work, uint32_t shared, uint32_t turn)
{
    const struct ring own = {0, turn % 2};

    ring_of::begin_fill(shared, own);
    for (uint32_t half = 0; half < 2; ++half)
        load_tile<own_tile>(ring_of::tile(shared, own) + half * own_tile::bytes, map, ${from_k}work.key0 + half * OWN_ROWS,
                            work.head_kv, work.batch, ring_of::full(shared, own), GLINT_L2_EVICT_FIRST);
}

/* LSE or delta of a step. */
GLINT_DEVICE const float *rows_of(const struct ${params} &p, const float *rows,
                                  const struct ${work_of} &work, const struct walk &walk)
{
    return rows + (work.batch * ${base}.shape.heads_q + walk.head) * ${base}.padded_q + ${sequences and "work.padded + " or ""}walk.m * TILE_M;
}

/* A step's Q or dO, and its LSE or delta, from `rows` on, to rows_at. */
template <class ring_of>
GLINT_DEVICE void load_step(const struct tensor_map *map, const float *rows, uint32_t rows_at, const struct walk &walk,
                            ${sequences and "const struct " .. work_of .. " &work" or "int32_t batch"}, uint32_t shared, const struct ring &queries)
{
    const uint32_t full = ring_of::full(shared, queries);

    ring_of::begin_fill(shared, queries, query_tile::bytes + ROW_BYTES);
    load_tile<query_tile, BOX_ROWS>(ring_of::tile(shared, queries), map, ${from_q}walk.m * TILE_M, walk.head, ${sequences and "work." or ""}batch, full,
                                    GLINT_L2_EVICT_LAST);
    bulk_load(shared + rows_at + queries.stage * ROW_BYTES, rows, ROW_BYTES, full);
}

$ if sequences then
/* Here all lanes of the first warp look for the block of a number, and then one of them loads. */
GLINT_DEVICE void load_keys(const struct ${params} &p, uint32_t shared)
{
    const bool first_lane = lane_index() == 0;
    struct ring queries = {0, 0};

    for (uint32_t turn = 0;; ++turn) {
        const bool any = find_next_keys<TILE_N>(p, shared + SEARCH_AT);

        if (first_lane)
            found_keys::announce(shared, ring_at(turn), shared + SEARCH_AT);
        if (!any)
            return;
        struct ${work_of} work = find_found_block(&${base}.shape, shared + SEARCH_AT);
        struct walk walk = walk_begin(work);

#pragma unroll 1
        for (int32_t left = first_lane ? work.steps : 0; left > 0; --left) {
            load_step<q_ring>(&p.map[MAP_Q], rows_of(p, ${base}.lse_log2, work, walk), LSE_AT, walk, work, shared,
                              queries);
            if (left == work.steps)
                load_own<k_ring>(&p.map[MAP_K], work, shared, turn);
            walk_on(walk, work);
            ring_advance<STAGES>(queries);
            work = find_found_block(&${base}.shape, shared + SEARCH_AT); /* made anew: a loader has few registers */
        }
        if (first_lane && work.steps == 0) {
            k_ring::wait_empty(shared, {0, turn % 2});
            mbarrier_arrive(shared + k_ring::full_at);
        }
        warp_sync(); /* what was found has been read */
    }
}
$ else
/* Two warps load for the block, a thread each: K and Q with LSE, V and dO with delta. The first one takes numbers as
 * the block gets to them, so a block waits only for such as are worked on or done, and passes them on to all other
 * roles. */
GLINT_DEVICE void load_keys(const struct glint_gpu_backward_maps &p, uint32_t shared)
{
    const struct glint_gpu_shape *shape = &p.base.shape;
    const struct key_order order = ${order}(shape, TILE_N${fused and ", p.base.parts" or ""});
    struct ring queries = {0, 0};
$ if fused then
    /* Without queries no kernel has cleared the counter; nor does any block wait for another. */
    uint32_t own = block_index();
    auto take_number = [&]() {
        const uint32_t number = shape->seqlen_q > 0 ? atom_global_add_u32(p.base.turn, 1) : own;

        own += p.base.blocks[1];
        return number;
    };
$ end

    for (uint32_t turn = 0;; ++turn) {
        struct block_place place = {0, 0};
$ if fused then
        uint32_t number = take_number();

        while (number < order.numbers && (place = place_in_order(order, number)).index < 0)
            number = take_number();
$ else
        const uint32_t number = turn == 0 ? block_index() : order.numbers; /* one */

        if (number < order.numbers)
            place = place_in_order(order, number);
$ end
        const uint32_t which = (uint32_t)place.head * order.blocks + (uint32_t)place.index;

        queue::announce(shared, ring_at(turn), number < order.numbers ? which : (uint32_t)NO_WORK);
        if (number >= order.numbers)
            return;
        const struct ${key_work} work = find_block(p.base, which);
        struct walk walk = walk_begin(work);
        bool first = true;

        for (int32_t left = work.steps; left > 0; --left) {
            load_step<q_ring>(&p.map[MAP_Q], rows_of(p, p.base.lse_log2, work, walk), LSE_AT, walk, work.batch, shared,
                              queries);
            if (first)
                load_own<k_ring>(&p.map[MAP_K], work, shared, turn);
            first = false;
            walk_on(walk, work);
            ring_advance<STAGES>(queries);
        }
        if (first) {
            k_ring::wait_empty(shared, {0, turn % 2});
            mbarrier_arrive(shared + k_ring::full_at);
        }
    }
}
$ end

$ if fused and causal then
/* All lanes come here. They also look for NaN and infinity in K, which must not meet a dS of zero where the mask hides
 * them. */
$ else
/* All lanes come here. */
$ end
GLINT_DEVICE void load_values(const struct ${params} &p, uint32_t shared)
{
$ if sequences then
    const struct glint_gpu_shape *shape = &${base}.shape;
$ end
    const bool first_lane = lane_index() == 0;
    struct ring queries = {0, 0};

    for (uint32_t turn = 0;; ++turn) {
$ if sequences then
        const uint32_t slot = found_keys::wait(shared, ring_at(turn));

        if (is_end(slot))
            return;
        const struct ${work_of} work = find_found_block(shape, slot);
$ if fused and causal then
        const int32_t keys = shape_of_slot(shape, slot).seqlen_k - work.key0; /* beyond them are another sequence's, or nobody's */
$ end
        struct walk walk = walk_begin(work);

        warp_sync();
        if (first_lane)
            found_keys::release(shared, ring_at(turn));
$ else
        const uint32_t which = queue::wait(shared, ring_at(turn));

        if (which == (uint32_t)NO_WORK)
            return;
        const struct ${key_work} work = find_block(p.base, which);
        struct walk walk = walk_begin(work);

        warp_sync();
        if (first_lane)
            queue::release(shared, ring_at(turn));
$ end
        for (int32_t step = 0; step < work.steps; ++step) {
            if (first_lane) {
                load_step<do_ring>(&p.map[MAP_DOUT], rows_of(p, ${base}.delta, work, walk), DELTA_AT, walk, ${sequences and "work" or "work.batch"},
                                   shared, queries);
                if (step == 0)
                    load_own<v_ring>(&p.map[MAP_V], work, shared, turn);
            }
$ if fused and causal then
            if (step == (work.steps > 1)) {
                bool special = false;

                k_ring::wait_full(shared, {0, turn % 2});
                if (${bounds_first and "is_cut(work, work.first_m) || is_cut(work, work.last_m)" or "work.first_m < work.first_clear"})
$ if sequences then
                    special = warp_any(own_rows_special<element, own_tile>(shared, keys));
$ else
                    special = warp_any(sees_special(shared, OWN_BYTES, lane_index(), 32, element::EXPONENT));
$ end
                warp_sync();
                if (first_lane) {
                    st_shared_u32(shared + SPECIAL_AT, special);
                    mbarrier_arrive(shared + CHECKED);
                    mbarrier_wait(shared + CHECKED, turn % 2); /* others may have no use for it, and no phase goes without a wait */
                    mbarrier_arrive(shared + k_ring::empty_at);
                }
            }
$ end
            walk_on(walk, work);
            ring_advance<STAGES>(queries);
        }
        if (work.steps == 0 && first_lane) {
            v_ring::wait_empty(shared, {0, turn % 2});
            mbarrier_arrive(shared + v_ring::full_at);
$ if fused and causal then
            k_ring::wait_full(shared, {0, turn % 2}); /* not before the turn has come */
            mbarrier_arrive(shared + CHECKED);
            mbarrier_wait(shared + CHECKED, turn % 2);
            mbarrier_arrive(shared + k_ring::empty_at);
$ end
        }
    }
}

$ if fused then
/* Takes to memory what the warpgroups leave in the stages of OUT: each step's dQ, then dV and dK. One thread for each
 * stage, so that the next dQ is on its way while this one waits for its turn. */
$ else
/* Takes to memory what the warpgroups leave in the stages of OUT: dV and dK. One thread for each stage. */
$ end
$ if sequences then
GLINT_DEVICE void store(const struct ${params} &p, uint32_t shared, const uint32_t stage)
{
    const bool first_lane = lane_index() == 0;
    struct ring own = {stage, 0};
    const uint32_t out = out_ring::tile(shared, own);
    bool mine = stage == 0; /* what leaves next */

    /* A tile that a sequence fills leaves by one copy, the rows of another one by ordinary stores of all lanes, one of
     * which has waited for the stage. */
    auto leave = [&](auto tile, const struct tensor_map *map, const struct glint_gpu_view &view, int32_t row, int32_t head,
                     int32_t batch, int32_t rows, const int32_t tile_rows) {
        if (rows < tile_rows) {
            warp_sync();
            store_rows<decltype(tile)>(view, batch, head, row, rows, out);
            warp_sync();
        } else if (first_lane)
            for (int32_t at = 0; at < tile_rows; at += decltype(tile)::rows)
                store_tile<decltype(tile)>(map, row + at, head, batch, out + at / decltype(tile)::rows * decltype(tile)::bytes);
    };
    auto give_back = [&]() {
        bulk_commit();
        bulk_wait_read<0>();
        mbarrier_arrive(out_ring::empty(shared, own));
    };
    for (uint32_t turn = 0;; ++turn) {
        const uint32_t slot = found_keys::wait(shared, ring_at(turn));

        if (is_end(slot))
            break;
        struct walk walk = walk_begin(find_found_block(&${base}.shape, slot));

#pragma unroll 1
        for (int32_t left = find_found_block(&${base}.shape, slot).steps; left > 0; --left, mine = !mine) {
            const struct glint_gpu_shape shape = shape_of_slot(&${base}.shape, slot);
            const struct ${work_of} work = find_found_block(&${base}.shape, slot); /* made anew: there are few registers */
            const struct walk here = walk;

            walk_on(walk, work);
            if (!mine)
                continue;
            const struct dq_place dq = ${find_own_dq}(${base}, shape, work, here);

            if (first_lane) {
                if (dq.last && !dq.first) {
                    turn_wait(dq.turn, (uint32_t)work.key0);
                    mbarrier_arrive(shared + TURN_SEEN + 8 * stage);
                }
                out_ring::wait_full(shared, own);
            }
            own.phase ^= 1;
            if (dq.last) {
                leave(query_tile{}, &p.map[MAP_DQ], ${base}.dq, work.first_q + here.m * TILE_M, here.head, work.batch,
                      shape.seqlen_q - here.m * TILE_M, TILE_M);
                if (first_lane)
                    give_back();
            } else if (first_lane) {
                if (dq.first)
                    bulk_store(dq.sum, out, OUT_BYTES);
                else {
                    turn_wait(dq.turn, (uint32_t)work.key0);
                    bulk_reduce_add_f32(dq.sum, out, OUT_BYTES);
                }
                give_back();
                turn_pass(dq.turn, (uint32_t)(work.key0 + TILE_N));
            }
        }
#pragma unroll 1
        for (int which = 0; which < 2; ++which, mine = !mine) {
            if (!mine)
                continue;
            if (first_lane)
                out_ring::wait_full(shared, own);
            own.phase ^= 1;
            const struct ${work_of} work = find_found_block(&${base}.shape, slot);
            leave(own_tile{}, which == 0 ? &p.map[MAP_DV] : &p.map[MAP_DK], which == 0 ? ${base}.dv : ${base}.dk,
                  work.first_k + work.key0, work.head_kv, work.batch,
                  shape_of_slot(&${base}.shape, slot).seqlen_k - work.key0, TILE_N);
            if (first_lane)
                give_back();
        }
        warp_sync();
        if (first_lane)
            found_keys::release(shared, ring_at(turn));
    }
    bulk_wait<0>();
}
$ else
GLINT_DEVICE void store(const struct glint_gpu_backward_maps &p, uint32_t shared, const uint32_t stage)
{
    struct ring own = {stage, 0};
    const uint32_t out = out_ring::tile(shared, own);
    uint32_t next = 0; /* stage of what leaves next */

    for (uint32_t turn = 0;; ++turn) {
        const uint32_t which = queue::wait(shared, ring_at(turn));

        if (which == (uint32_t)NO_WORK)
            break;
        queue::release(shared, ring_at(turn));
        const struct ${key_work} work = find_block(p.base, which);
$ if fused then
        struct walk walk = walk_begin(work);

        for (int32_t step = 0; step < work.steps; ++step, walk_on(walk, work), next ^= 1) {
            if (next != stage)
                continue;
            const struct dq_place dq = ${find_dq}(p.base, work, walk);

            if (dq.last && !dq.first) {
                turn_wait(dq.turn, (uint32_t)work.key0);
$ if rounds then
                bring_sum(out, dq.sum, OUT_BYTES, shared + TURN_SEEN + 8 * stage);
$ else
                mbarrier_arrive(shared + TURN_SEEN + 8 * stage);
$ end
            }
            out_ring::wait_full(shared, own);
            own.phase ^= 1;
            if (dq.last)
                store_tile<query_tile>(&p.map[MAP_DQ], walk.m * TILE_M, walk.head, work.batch, out${rounds and " + ROUNDED_AT" or ""});
            else if (dq.first)
                bulk_store(dq.sum, out, OUT_BYTES);
            else {
                turn_wait(dq.turn, (uint32_t)work.key0);
                bulk_reduce_add_f32(dq.sum, out, OUT_BYTES);
            }
            bulk_commit();
            bulk_wait_read<0>();
            mbarrier_arrive(out_ring::empty(shared, own));
            if (!dq.last)
                turn_pass(dq.turn, (uint32_t)(work.key0 + TILE_N));
        }
        const uint32_t part = (uint32_t)work.part, last_part = (uint32_t)p.base.parts - 1;

        /* Of a part that is not the last: float32, to the sums. */
        for (int share = 0; share < SHARES && part < last_part; ++share, next ^= 1) {
            if (next != stage)
                continue;
            const struct key_place place = find_key_sum<TILE_N, SHARES, OUT_BYTES / 4>(p.base, work, share);

            out_ring::wait_full(shared, own);
            own.phase ^= 1;
            if (part == 0)
                bulk_store(place.sum, out, OUT_BYTES);
            else {
                turn_wait(place.turn, part);
                bulk_reduce_add_f32(place.sum, out, OUT_BYTES);
            }
            bulk_commit();
            bulk_wait_read<0>();
            mbarrier_arrive(out_ring::empty(shared, own));
            turn_pass(place.turn, part + 1);
        }
$ end
        for (int which = 0; which < 2${fused and " && part == last_part" or ""}; ++which, next ^= 1) {
            if (next != stage)
                continue;
$ if fused then
            if (part > 0) {
                for (int share = 0; share < SHARES / 2; ++share)
                    turn_wait(find_key_sum<TILE_N, SHARES, OUT_BYTES / 4>(p.base, work, which * (SHARES / 2) + share).turn, part);
                mbarrier_arrive(shared + TURN_SEEN + 8 * stage);
            }
$ end
            out_ring::wait_full(shared, own);
            own.phase ^= 1;
            for (uint32_t half = 0; half < 2; ++half)
                store_tile<own_tile>(which == 0 ? &p.map[MAP_DV] : &p.map[MAP_DK], work.key0 + half * OWN_ROWS,
                                     work.head_kv, work.batch, out + half * own_tile::bytes);
            bulk_commit();
            bulk_wait_read<0>();
            mbarrier_arrive(out_ring::empty(shared, own));
        }
    }
    bulk_wait<0>();
}
$ end

GLINT_KERNEL(THREADS, 1) ${symbol}${sequences and "_sequences" or ""}(GLINT_PARAMS(struct ${params}) p)
{
    const uint32_t shared = shared_base(), warp = warp_index(), lane = lane_index();

    if (thread_index() == 0) {
        k_ring::init(shared, 1, WARPS${fused and causal and " + 1" or ""});
        v_ring::init(shared, 1, WARPS);
        mbarrier_init(shared + CHECKED, 1);
        ${sequences and "found_keys" or "queue"}::init(shared, WARPS + 3);
        q_ring::init(shared, 1, WARPS);
        do_ring::init(shared, 1, WARPS);
        out_ring::init(shared, WARPS, 1);
        ds_ring::init(shared, WARPS, WARPS);
        for (int i = 0; i < STAGES; ++i)
            mbarrier_init(shared + TURN_SEEN + 8 * i, 1);
        fence_mbarrier_init();
    }
    block_sync();

    if (warp < 4) {
        registers_give<${producer_registers}>();
        if (warp == 0${sequences and "" or " && lane == 0"})
            load_keys(p, shared);
        if (warp == 1)
            load_values(p, shared);
        if (warp >= 2${sequences and "" or " && lane == 0"})
            store(p, shared, warp - 2);
        return;
    }
    registers_take<${registers}>();

    const uint32_t warpgroup = warp / 4 - 1, own = warpgroup * own_tile::bytes;
    const struct glint_gpu_shape *shape = &${base}.shape;
$ if (fused or not bounds_first) and not sequences then
    const int32_t offset = ${causal and "shape->mask_offset" or "shape->seqlen_k"};
$ end
    auto arrive = [&](uint32_t barrier) { /* this warp, all lanes of which are done */
        warp_sync();
        if (lane == 0)
            mbarrier_arrive(barrier);
    };
    float dk[HEAD_DIM / 2], dv[HEAD_DIM / 2];
    struct ring queries = {0, 0}, out = {0, 0};
$ if fused then
    uint32_t seen = 0; /* a bit a stage: the phase of its TURN_SEEN */
$ end

    if (warpgroup == 1)
        named_arrive(TURN_BARRIER, 32 * WARPS);
    for (uint32_t turn = 0;; ++turn) {
$ if sequences then
        uint32_t slot = found_keys::wait(shared, ring_at(turn)); /* of the queue; given back when the block is done */

        if (is_end(slot))
            return;
        struct ${work_of} work = find_found_block(shape, slot);
        struct plain_steps plain = find_own_plain_steps<TILE_M, TILE_N>(shape_of_slot(shape, slot), work);
$ else
        uint32_t which = queue::wait(shared, ring_at(turn));

        if (which == (uint32_t)NO_WORK)
            return;
        arrive(queue::numbers::empty(shared, ring_at(turn)));
        struct ${key_work} work = find_block(p.base, which);
$ if fused and not rounds then
        struct plain_steps plain = find_plain_steps<TILE_N>(shape, work);
$ end
$ end
        struct walk walk = walk_begin(work);

#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; ++i)
            dk[i] = dv[i] = 0.0f;
$ if fused then
        float dq[32];

        /* dQ of the step before: from registers to a stage of OUT. */
        auto leave_dq = [&](auto kind) {
            struct dq_place place = {};
            const uint32_t at = out_ring::tile(shared, out), thread = thread_index_anew() % 128;

            if (!kind.plain)
                place = ${sequences and find_own_dq .. "(" .. base .. ", shape_of_slot(shape, slot)" or find_dq .. "(p.base"}, work, step_before(walk, work));
$ if rounds then
            if (kind.rounds)
                place.first = work.key0 == 0, place.last = true;
$ end
            out_ring::wait_empty(shared, out);
            if (!place.last) {
#pragma unroll
                for (int i = 0; i < 8; ++i)
$ if shared_columns > 0 then
                    if (8 * i >= SHARED_COLUMNS || warpgroup == 0)
                        st_shared_floats(at + warpgroup * DQ_APART + (i * 128 + thread) * 16, dq + 4 * i);
$ else
                    st_shared_floats(at + warpgroup * DQ_APART + (i * 128 + thread) * 16, dq + 4 * i);
$ end
            } else {
                if (!place.first) {
                    mbarrier_wait(shared + TURN_SEEN + 8 * out.stage, seen >> out.stage & 1);
                    seen ^= 1u << out.stage;
$ if rounds then
#pragma unroll
                    for (int i = 0; i < 8; ++i)
$ if shared_columns > 0 then
                        if (8 * i >= SHARED_COLUMNS || warpgroup == 0)
                            add_shared_floats(dq + 4 * i, at + warpgroup * DQ_APART + (i * 128 + thread) * 16);
$ else
                        add_shared_floats(dq + 4 * i, at + warpgroup * DQ_APART + (i * 128 + thread) * 16);
$ end
                    named_sync(OWN_BARRIER + warpgroup, 128); /* all have read what is stored over */
$ else
                    add_summed(dq, place.sum + warpgroup * (DQ_APART / 4) + thread * 4);
$ end
                }
$ if by_columns then
                store_rounded<element, query_tile>(at${rounds and " + ROUNDED_AT" or ""} + warpgroup * query_tile::slab_bytes, 0, dq,
                                                   shape->softmax_scale${shared_columns > 0 and ", warpgroup * SHARED_COLUMNS" or ""});
$ else
                store_rounded<element, query_tile>(at${rounds and " + ROUNDED_AT" or ""}, warpgroup * OWN_ROWS, dq, shape->softmax_scale);
$ end
            }
            fence_async_shared();
            arrive(out_ring::full(shared, out));
            ring_advance<STAGES>(out);
        };
$ if causal then
        /* Where the mask hides keys of the step before that hold NaN or infinity, these leave K for the while of its
         * dQ. Queries that see such a key get NaN: S is infinite or NaN there, so P and dS are 0 or NaN. */
        auto careful_before = [&]() {
            if (${bounds_first and "!is_cut(work, step_before(walk, work).m)" or "step_before(walk, work).m >= work.first_clear"})
                return false;
            mbarrier_wait(shared + CHECKED, turn % 2);
            return ld_shared_u32(shared + SPECIAL_AT) != 0;
        };
        auto take_special = [&]() {
            named_sync(BOTH_BARRIER, 32 * WARPS);
            remove_special(shared, OWN_BYTES, thread_index_anew() - 128, 32 * WARPS, element::EXPONENT);
            fence_async_shared();
            named_sync(BOTH_BARRIER, 32 * WARPS);
        };
        auto bring_special = [&]() {
            const uint32_t thread = thread_index_anew() - 128, row = thread % 128 / 32 * 16 + thread % 32 / 4;
            const int32_t query =
                step_before(walk, work).m * TILE_M + (int32_t)(${by_columns and "" or "warpgroup * OWN_ROWS + "}row);

$ if sequences then
            const struct glint_gpu_shape own_shape = shape_of_slot(shape, slot);
            const struct glint_gpu_view keys = view_from(${base}.k, work.first_k);
            const int32_t offset = own_shape.mask_offset;

            named_sync(BOTH_BARRIER, 32 * WARPS);
            reload_tile<own_tile>(shared, &keys, work.batch, work.head_kv, work.key0, own_shape.seqlen_k, 2, thread,
                                  32 * WARPS);
$ else
            named_sync(BOTH_BARRIER, 32 * WARPS);
            reload_tile<own_tile>(shared, &p.base.k, work.batch, work.head_kv, work.key0, shape->seqlen_k, 2, thread,
                                  32 * WARPS);
$ end
            fence_async_shared();
            named_sync(BOTH_BARRIER, 32 * WARPS);
#pragma unroll 1
            for (uint32_t i = 0; i < TILE_N; ++i)
                add_special_row<element, own_tile>(
                    dq, shared + i / OWN_ROWS * own_tile::bytes, i % OWN_ROWS,
                    ${by_columns and ("warpgroup * %d"):format((head_dim - 64) // 8) or "0"}, 0.0f,
$ if bounds_first then
                    [&](int side) {
                        return work.key0 + (int32_t)i <= query + 8 * side + offset &&
                               work.key0 + (int32_t)i >= query + 8 * side + ${sequences and "own_shape." or "shape->"}mask_first;
                    });
$ else
                    [&](int side) { return work.key0 + (int32_t)i <= query + 8 * side + offset; });
$ end
        };
$ end
$ end
$ if fused then
$ if shared_columns > 0 then
        /* dQ of the step before: 64 columns for each warpgroup. Both make the SHARED_COLUMNS in the middle, which the
         * first one keeps: an operand begins at a slab, and wgmma is one instruction for both. */
$ else
        /* dQ of the step before: half of the ${by_columns and "columns" or "queries"} for each warpgroup. */
$ end
        auto begin_dq = [&](const struct ring &before) {
$ if by_columns then
            const uint32_t ds = ds_ring::tile(shared, before), k = shared + warpgroup * own_tile::slab_bytes;
$ else
            const uint32_t ds = ds_ring::tile(shared, before) + warpgroup * (OWN_ROWS * 128), k = shared;
$ end

            wgmma_hold(dq, 32);
            begin_tile_by_rows<element, ds_tile, own_tile, 64>(dq, ds, k);
        };
$ end
        k_ring::wait_full(shared, {0, turn % 2});
        v_ring::wait_full(shared, {0, turn % 2});
$ if sequences then
        /* Keys beyond the end are nobody's, or another sequence's. Their dS is zero, which must not meet a NaN. */
        if (work.steps > 0 && clear_own_rows<own_tile, 2>(shared, shape_of_slot(shape, slot).seqlen_k - work.key0, 32 * WARPS)) {
            fence_async_shared();
            named_sync(BOTH_BARRIER, 32 * WARPS);
        }
$ end
$ if fused then
        /* Compiled ${rounds and "three times" or "twice"}. Plain steps, which nearly all are, have no code for masks, NaN and the rounding of dQ. */
$ end
        auto make_step = [&](auto kind, int32_t step) {
$ if sequences then
            const bool ends = !kind.plain && walk.m == shape_of_slot(shape, slot).seqlen_q / TILE_M; /* within the step's queries */
            const bool masked =
                ends || (!kind.plain && ${bounds_first and "is_cut(work, walk.m)" or "walk.m < work.first_clear"});
$ else
            const bool masked =
                !kind.plain && ${bounds_first and "is_cut(work, walk.m)" or "walk.m < work.first_clear"};
$ end
            const uint32_t q = q_ring::tile(shared, queries), dout = do_ring::tile(shared, queries);
            const uint32_t lse = shared + LSE_AT + queries.stage * ROW_BYTES;
            const uint32_t delta = shared + DELTA_AT + queries.stage * ROW_BYTES;
            const uint32_t column = lane % 4 * 8;
            float s[TILE_M / 2], dp[TILE_M / 2], rows[TILE_M / 8][2];
            uint32_t p_words[TILE_M / 4], ds_words[TILE_M / 4];

            /* S^T = K Q^T, dP^T = V dO^T */
            q_ring::wait_full(shared, queries);
            wgmma_hold(s, TILE_M / 2);
            begin_rows_by_rows<element, own_tile, query_tile>(s, shared + own, q);
            do_ring::wait_full(shared, queries);
            wgmma_hold(dp, TILE_M / 2);
            begin_rows_by_rows<element, own_tile, query_tile>(dp, shared + V_AT + own, dout);

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
            struct ${bounds_first and "window_sight" or "sight"} sight;
            if (masked) {
$ if sequences then
                const struct glint_gpu_shape own_shape = shape_of_slot(shape, slot);
$ end
$ if bounds_first then
                sight = sight_of_window(work.key0 + (int32_t)own_row(), walk.m * TILE_M, ${sequences and "&own_shape" or "shape"});
$ elseif sequences then
                sight = sight_of_keys(work.key0 + (int32_t)own_row(), walk.m * TILE_M,
                                      own_shape.${causal and "mask_offset" or "seqlen_k"}, own_shape.seqlen_q, own_shape.seqlen_k);
$ else
                sight = sight_of_keys(work.key0 + (int32_t)own_row(), walk.m * TILE_M, offset, shape->seqlen_q,
                                      shape->seqlen_k);
$ end
                hide_queries<TILE_M>(s, sight);
            }
$ if rounds then
            if (kind.rounds)
                hide_keys_beyond<TILE_M>(s, work.key0 + (int32_t)own_row(), offset);
$ end
            to_operand<element>(p_words, s);
$ if fused then
            /* Here and not before dS is stored: ptxas packs P before what follows a wait, and has registers for dS then. */
            ds_ring::wait_empty(shared, queries);
$ end

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
$ if rounds then
            if (kind.rounds)
                hide_keys_beyond<TILE_M>(dp, work.key0 + (int32_t)own_row(), offset);
$ end
            to_operand<element>(ds_words, dp);
$ if sequences then
            /* Nor must its zeros meet what is in rows beyond the last query. */
            if (ends) {
                const int32_t rows = shape_of_slot(shape, slot).seqlen_q - walk.m * TILE_M;

                named_sync(BOTH_BARRIER, 32 * WARPS);
                clear_own_rows<query_tile, 1>(q, rows, 32 * WARPS);
                clear_own_rows<query_tile, 1>(dout, rows, 32 * WARPS);
                fence_async_shared();
                named_sync(BOTH_BARRIER, 32 * WARPS);
            }
$ end
            if (masked && queries_special<TILE_M>(lse, delta))
                settle_queries<element, query_tile>(dv, true, q, dout, sight, BOTH_BARRIER, 32 * WARPS);
$ if fused then
            store_transposed<ds_tile>(ds_ring::tile(shared, queries), warpgroup, ds_words);
            fence_async_shared();
            arrive(ds_ring::full(shared, queries));
$ end

$ if fused then
            /* In the first step, where there is none before, this one's dS stands for it and the product is thrown
             * away: a product that is not always made is one that ptxas does not overlap with others. */
            const struct ring before = !kind.plain && step == 0 ? queries : ring_before(queries);
            ds_ring::wait_full(shared, before);
$ if causal then
            const bool careful = !kind.plain && step > 0 && careful_before();

            if (careful)
                take_special();
$ end
$ end

            /* dV += P^T dO${fused and ", dQ of the step before" or ""}, dK += dS^T Q: one warpgroup at a time, so that
             * the other one is at its exponentials. */
            named_sync(TURN_BARRIER + warpgroup, 32 * WARPS);
            wgmma_hold(dv, HEAD_DIM / 2);
            begin_weights_by_rows<element, query_tile>(dv, p_words, dout, 1);
$ if fused then
            begin_dq(before);
            wgmma_wait<1>();
$ end
$ if not fused then
            wgmma_hold(dk, HEAD_DIM / 2);
            begin_weights_by_rows<element, query_tile>(dk, ds_words, q, 1);
            named_arrive(TURN_BARRIER + (warpgroup ^ 1), 32 * WARPS);
            wgmma_wait<1>();
            wgmma_hold(dv, HEAD_DIM / 2);
            arrive(do_ring::empty(shared, queries));
$ else
            wgmma_hold(dv, HEAD_DIM / 2);
            arrive(do_ring::empty(shared, queries));
            wgmma_hold(dk, HEAD_DIM / 2);
            begin_weights_by_rows<element, query_tile>(dk, ds_words, q, 1);
            named_arrive(TURN_BARRIER + (warpgroup ^ 1), 32 * WARPS);
            wgmma_wait<1>();
            if (kind.plain || step > 0) {
                arrive(ds_ring::empty(shared, before));
                wgmma_hold(dq, 32);
$ if causal then
                if (careful)
                    bring_special();
$ end
                leave_dq(kind);
            }
$ end
            wgmma_wait<0>();
            wgmma_hold(dk, HEAD_DIM / 2);
            arrive(q_ring::empty(shared, queries));
            ring_advance<STAGES>(queries);
        };
$ if rounds then
        if (work.steps > 0) {
            const int32_t more = work.steps - 1;

            make_step(any_step{}, 0);
            if (work.key0 + TILE_N >= shape->seqlen_k) {
#pragma unroll 1
                for (int32_t left = more; left > 0; --left)
                    make_step(rounding_step{}, 0);
            } else {
#pragma unroll 1
                for (int32_t left = more; left > 0; --left)
                    make_step(plain_step{}, 0);
            }
            /* What is known of the block is made once more: the steps have its registers. */
            wgmma_hold(&which, 1);
            work = find_block(p.base, which);
            walk = walk_at(work, work.steps);
        }
$ else
#pragma unroll 1
        for (int32_t step = 0; step < work.steps;) {
            make_step(any_step{}, step++);
            walk_on(walk, work);
$ if fused then
            if (step < plain.first || step >= plain.end)
                continue;
#pragma unroll 1
            for (int32_t left = plain.end - step; left > 0; --left)
                make_step(plain_step{}, 0);
            /* What is known of the block is made once more: the steps have its registers. */
$ if sequences then
            wgmma_hold(&slot, 1);
            work = find_found_block(shape, slot);
            plain = find_own_plain_steps<TILE_M, TILE_N>(shape_of_slot(shape, slot), work);
$ else
            wgmma_hold(&which, 1);
            work = find_block(p.base, which);
            plain = find_plain_steps<TILE_N>(shape, work);
$ end
            step = plain.end;
            walk = walk_at(work, step);
$ end
        }
$ end
        arrive(shared + v_ring::empty_at);
$ if fused then
        if (work.steps > 0) {
            const struct ring before = ring_before(queries);

            ds_ring::wait_full(shared, before);
$ if causal then
            const bool careful = careful_before();

            if (careful)
                take_special();
$ end
            begin_dq(before);
            wgmma_wait<0>();
            wgmma_hold(dq, 32);
            arrive(ds_ring::empty(shared, before));
$ if causal then
            if (careful)
                bring_special();
$ end
        }
        arrive(shared + k_ring::empty_at);
        if (work.steps > 0)
            leave_dq(any_step{});
$ if sequences then
        arrive(found_keys::slots::empty(shared, ring_at(turn)));
$ end
$ else
        arrive(shared + k_ring::empty_at);
$ end

        /* dV and dK leave as dQ did. */
        auto leave = [&](const float (&d)[HEAD_DIM / 2], float factor) {
            out_ring::wait_empty(shared, out);
            store_rounded<element, own_tile>(out_ring::tile(shared, out) + own, 0, d, factor);
            fence_async_shared();
            arrive(out_ring::full(shared, out));
            ring_advance<STAGES>(out);
        };
$ if fused and not sequences then
        /* Of a part that is not the last in float32, as many numbers of each thread as a stage holds of a share. */
        auto leave_part = [&](const float (&d)[HEAD_DIM / 2]) {
#pragma unroll
            for (int share = 0; share < SHARES / 2; ++share) {
                out_ring::wait_empty(shared, out);
                const uint32_t at =
                    out_ring::tile(shared, out) + warpgroup * (OUT_BYTES / 2) + thread_index_anew() % 128 * 16;
#pragma unroll
                for (int i = 0; i < HEAD_DIM / SHARES; i += 2)
                    st_shared_f32x2(at + i / 4 * 2048 + i % 4 * 4, d[share * (HEAD_DIM / SHARES) + i],
                                    d[share * (HEAD_DIM / SHARES) + i + 1]);
                fence_async_shared();
                arrive(out_ring::full(shared, out));
                ring_advance<STAGES>(out);
            }
        };
        /* To the last part's dV or dK the sum of those before it. */
        auto gather = [&](float (&d)[HEAD_DIM / 2], int which) {
            mbarrier_wait(shared + TURN_SEEN + 8 * out.stage, seen >> out.stage & 1);
            seen ^= 1u << out.stage;
            const float *sum = find_key_sum<TILE_N, SHARES, OUT_BYTES / 4>(p.base, work, which * (SHARES / 2)).sum +
                               warpgroup * (OUT_BYTES / 8) + thread_index_anew() % 128 * 4;
#pragma unroll
            for (int i = 0; i < HEAD_DIM / 2; i += 8) {
                add_summed(*(float(*)[8])(d + i), sum + i / (HEAD_DIM / SHARES) * (OUT_BYTES / 4) + i % (HEAD_DIM / SHARES) * 128);
                wgmma_hold(d + i, 8);
            }
        };
        wgmma_hold(&which, 1);
        work = find_block(p.base, which);
        if (work.part < p.base.parts - 1) {
            leave_part(dv);
            leave_part(dk);
            continue;
        }
        if (work.part > 0)
            gather(dv, 0);
        leave(dv, 1.0f);
        if (work.part > 0)
            gather(dk, 1);
        leave(dk, shape->softmax_scale);
$ else
        leave(dv, 1.0f);
        leave(dk, shape->softmax_scale);
$ end
    }
}
$ end
