/* bwd_bf16_d64_causal__sm90a_fused_m128n128
 *
 * Attention, backward: dQ, dK, dV from Q, K, V, O, LSE, dO; bf16, head_dim 64, causal, both alignments.
 * For sm_90a.
 * Tile: 128 queries x 128 keys; persistent, two warpgroups of 64 keys, and a warpgroup that loads and stores; dQ summed by one block after another.
 * Shared memory of a block: 231656 bytes.
 *
 * Made from gen/templates/sm90a_bwd.cu.lua by
 *   lua5.4 gen/glint.lua emit --spec generated/golden/golden.lua --variant bwd_bf16_d64_causal__sm90a_fused_m128n128
 * and overwritten by it: change the template or the spec. */

#include "lib/device/delta.h"
#include "lib/device/warpgroup_backward.h"

typedef bf16 element;

enum {
    HEAD_DIM = 64,
    TILE_M = 128,   /* queries of a step */
    TILE_N = 128,   /* keys of a block */
    WIDTH = 128,     /* bytes of a slab's rows: see slab_tile */
    OWN_ROWS = 64,        /* keys, or queries, of a warpgroup */
    EXPONENT = element::EXPONENT,
    BYTES = 2,
    ROW_CHUNKS = HEAD_DIM * BYTES / 16,
    WARPS = 8,            /* that compute */
    THREADS = 128 + 32 * WARPS,
};

typedef slab_tile<OWN_ROWS, HEAD_DIM, WIDTH> own_tile; /* of K, V, dK, dV */
typedef slab_tile<TILE_M, HEAD_DIM, WIDTH> query_tile; /* of Q, dO */

/* Delta and LSE. No key block visits rows that see no key, so they get their dQ here. */
template <class Rows> GLINT_DEVICE void make_delta_of(const struct glint_gpu_call &p)
{
    const uint32_t kept = shared_base();
    const struct place at = Rows::find_rows_of_block(p, kept);
    if (Rows::READS && at.row0 < 0)
        return;
    const struct row_block<Rows> block = row_block_of<8, Rows>(p, at, kept);
    const causal_mask mask = mask_of<causal_mask>(at.own);

    begin_turns<TILE_M, TILE_N, 2 * TILE_N / TILE_M>(p, block);
    make_delta<struct bf16, 8, true>(p, block, mask);
}

GLINT_KERNEL(256, 1) glint_bwd_bf16_d64_causal__sm90a_fused_m128n128_delta(GLINT_PARAMS(struct glint_gpu_call) p)
{
    make_delta_of<given>(p);
}

/* ---- dK and dV, and parts of dQ: a block owns TILE_N keys, a warpgroup OWN_ROWS of them ---- */

typedef slab_tile<TILE_M, TILE_N, 128> ds_tile; /* dS: queries by keys */

enum {
    STAGES = 2,     /* of Q and dO, dS and what leaves */
    OUT_BYTES = TILE_M * HEAD_DIM * 4, /* a step's dQ in float32; dK or dV of a block */
    ROW_BYTES = TILE_M * 4, /* LSE, or delta, of a step */
    DQ_APART = HEAD_DIM * OWN_ROWS * 4, /* bytes from the first warpgroup's queries of dQ to the other one's */
    SHARES = 2 * TILE_N * HEAD_DIM * 4 / OUT_BYTES, /* stages of OUT that dV and dK of a part take in float32 */
    OWN_BYTES = 2 * own_tile::bytes,
    V_AT = OWN_BYTES,
    Q_AT = V_AT + OWN_BYTES,
    DO_AT = Q_AT + STAGES * query_tile::bytes,
    OUT_AT = DO_AT + STAGES * query_tile::bytes,
    DS_AT = OUT_AT + STAGES * OUT_BYTES,
    LSE_AT = DS_AT + STAGES * ds_tile::bytes,
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

/* Named barriers: a warpgroup's turn to multiply, two of them; both warpgroups. */
enum { TURN_BARRIER = 1, BOTH_BARRIER = 3 };

/* `which`: of the key blocks of all key heads, head by head, once for each part. */
GLINT_DEVICE struct key_work find_block(const struct glint_gpu_call &p, uint32_t which)
{
    const uint32_t blocks = ((uint32_t)p.shape.seqlen_k + TILE_N - 1) / TILE_N, nth = which / blocks;
    const uint32_t heads = (uint32_t)(p.shape.batch * p.shape.heads_kv), part = nth / heads;
    struct key_work work =
        find_keys<TILE_M, TILE_N, true>(&p.shape, {(int32_t)(which - nth * blocks), (int32_t)(nth - part * heads)});

    take_part(work, p, (int32_t)part);
    return work;
}

/* The block's K or V. */
template <class ring_of>
GLINT_DEVICE void load_own(const struct tensor_map *map, const struct key_work &work, uint32_t shared, uint32_t turn)
{
    const struct ring own = {0, turn % 2};

    ring_of::begin_fill(shared, own);
    for (uint32_t half = 0; half < 2; ++half)
        load_tile<own_tile>(ring_of::tile(shared, own) + half * own_tile::bytes, map, work.key0 + half * OWN_ROWS,
                            work.head_kv, work.batch, ring_of::full(shared, own), GLINT_L2_EVICT_FIRST);
}

/* LSE or delta of a step. */
GLINT_DEVICE const float *rows_of(const struct glint_gpu_backward_maps &p, const float *rows,
                                  const struct key_work &work, const struct walk &walk)
{
    return rows + (work.batch * p.base.shape.heads_q + walk.head) * p.base.padded_q + walk.m * TILE_M;
}

/* A step's Q or dO, and its LSE or delta, from `rows` on, to rows_at. */
template <class ring_of>
GLINT_DEVICE void load_step(const struct tensor_map *map, const float *rows, uint32_t rows_at, const struct walk &walk,
                            int32_t batch, uint32_t shared, const struct ring &queries)
{
    const uint32_t full = ring_of::full(shared, queries);

    ring_of::begin_fill(shared, queries, query_tile::bytes + ROW_BYTES);
    load_tile<query_tile, BOX_ROWS>(ring_of::tile(shared, queries), map, walk.m * TILE_M, walk.head, batch, full,
                                    GLINT_L2_EVICT_LAST);
    bulk_load(shared + rows_at + queries.stage * ROW_BYTES, rows, ROW_BYTES, full);
}

/* Two warps load for the block, a thread each: K and Q with LSE, V and dO with delta. The first one takes numbers as
 * the block gets to them, so a block waits only for such as are worked on or done, and passes them on to all other
 * roles. */
GLINT_DEVICE void load_keys(const struct glint_gpu_backward_maps &p, uint32_t shared)
{
    const struct glint_gpu_shape *shape = &p.base.shape;
    const struct key_order order = staggered_order(shape, TILE_N, p.base.parts);
    struct ring queries = {0, 0};
    /* Without queries no kernel has cleared the counter; nor does any block wait for another. */
    uint32_t own = block_index();
    auto take_number = [&]() {
        const uint32_t number = shape->seqlen_q > 0 ? atom_global_add_u32(p.base.turn, 1) : own;

        own += p.base.blocks[1];
        return number;
    };

    for (uint32_t turn = 0;; ++turn) {
        struct block_place place = {0, 0};
        uint32_t number = take_number();

        while (number < order.numbers && (place = place_in_order(order, number)).index < 0)
            number = take_number();
        const uint32_t which = (uint32_t)place.head * order.blocks + (uint32_t)place.index;

        queue::announce(shared, ring_at(turn), number < order.numbers ? which : (uint32_t)NO_WORK);
        if (number >= order.numbers)
            return;
        const struct key_work work = find_block(p.base, which);
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

/* All lanes come here. They also look for NaN and infinity in K, which must not meet a dS of zero where the mask hides
 * them. */
GLINT_DEVICE void load_values(const struct glint_gpu_backward_maps &p, uint32_t shared)
{
    const bool first_lane = lane_index() == 0;
    struct ring queries = {0, 0};

    for (uint32_t turn = 0;; ++turn) {
        const uint32_t which = queue::wait(shared, ring_at(turn));

        if (which == (uint32_t)NO_WORK)
            return;
        const struct key_work work = find_block(p.base, which);
        struct walk walk = walk_begin(work);

        warp_sync();
        if (first_lane)
            queue::release(shared, ring_at(turn));
        for (int32_t step = 0; step < work.steps; ++step) {
            if (first_lane) {
                load_step<do_ring>(&p.map[MAP_DOUT], rows_of(p, p.base.delta, work, walk), DELTA_AT, walk, work.batch,
                                   shared, queries);
                if (step == 0)
                    load_own<v_ring>(&p.map[MAP_V], work, shared, turn);
            }
            if (step == (work.steps > 1)) {
                bool special = false;

                k_ring::wait_full(shared, {0, turn % 2});
                if (work.first_m < work.first_clear)
                    special = warp_any(sees_special(shared, OWN_BYTES, lane_index(), 32, element::EXPONENT));
                warp_sync();
                if (first_lane) {
                    st_shared_u32(shared + SPECIAL_AT, special);
                    mbarrier_arrive(shared + CHECKED);
                    mbarrier_wait(shared + CHECKED, turn % 2); /* others may have no use for it, and no phase goes without a wait */
                    mbarrier_arrive(shared + k_ring::empty_at);
                }
            }
            walk_on(walk, work);
            ring_advance<STAGES>(queries);
        }
        if (work.steps == 0 && first_lane) {
            v_ring::wait_empty(shared, {0, turn % 2});
            mbarrier_arrive(shared + v_ring::full_at);
            k_ring::wait_full(shared, {0, turn % 2}); /* not before the turn has come */
            mbarrier_arrive(shared + CHECKED);
            mbarrier_wait(shared + CHECKED, turn % 2);
            mbarrier_arrive(shared + k_ring::empty_at);
        }
    }
}

/* Takes to memory what the warpgroups leave in the stages of OUT: each step's dQ, then dV and dK. One thread for each
 * stage, so that the next dQ is on its way while this one waits for its turn. */
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
        const struct key_work work = find_block(p.base, which);
        struct walk walk = walk_begin(work);

        for (int32_t step = 0; step < work.steps; ++step, walk_on(walk, work), next ^= 1) {
            if (next != stage)
                continue;
            const struct dq_place dq = find_dq<TILE_M, TILE_N, HEAD_DIM, true>(p.base, work, walk);

            if (dq.last && !dq.first) {
                turn_wait(dq.turn, (uint32_t)work.key0);
                mbarrier_arrive(shared + TURN_SEEN + 8 * stage);
            }
            out_ring::wait_full(shared, own);
            own.phase ^= 1;
            if (dq.last)
                store_tile<query_tile>(&p.map[MAP_DQ], walk.m * TILE_M, walk.head, work.batch, out);
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
        for (int which = 0; which < 2 && part == last_part; ++which, next ^= 1) {
            if (next != stage)
                continue;
            if (part > 0) {
                for (int share = 0; share < SHARES / 2; ++share)
                    turn_wait(find_key_sum<TILE_N, SHARES, OUT_BYTES / 4>(p.base, work, which * (SHARES / 2) + share).turn, part);
                mbarrier_arrive(shared + TURN_SEEN + 8 * stage);
            }
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

GLINT_KERNEL(THREADS, 1) glint_bwd_bf16_d64_causal__sm90a_fused_m128n128(GLINT_PARAMS(struct glint_gpu_backward_maps) p)
{
    const uint32_t shared = shared_base(), warp = warp_index(), lane = lane_index();

    if (thread_index() == 0) {
        k_ring::init(shared, 1, WARPS + 1);
        v_ring::init(shared, 1, WARPS);
        mbarrier_init(shared + CHECKED, 1);
        queue::init(shared, WARPS + 3);
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
        registers_give<40>();
        if (warp == 0 && lane == 0)
            load_keys(p, shared);
        if (warp == 1)
            load_values(p, shared);
        if (warp >= 2 && lane == 0)
            store(p, shared, warp - 2);
        return;
    }
    registers_take<232>();

    const uint32_t warpgroup = warp / 4 - 1, own = warpgroup * own_tile::bytes;
    const struct glint_gpu_shape *shape = &p.base.shape;
    const int32_t offset = shape->mask_offset;
    auto arrive = [&](uint32_t barrier) { /* this warp, all lanes of which are done */
        warp_sync();
        if (lane == 0)
            mbarrier_arrive(barrier);
    };
    float dk[HEAD_DIM / 2], dv[HEAD_DIM / 2];
    struct ring queries = {0, 0}, out = {0, 0};
    uint32_t seen = 0; /* a bit a stage: the phase of its TURN_SEEN */

    if (warpgroup == 1)
        named_arrive(TURN_BARRIER, 32 * WARPS);
    for (uint32_t turn = 0;; ++turn) {
        uint32_t which = queue::wait(shared, ring_at(turn));

        if (which == (uint32_t)NO_WORK)
            return;
        arrive(queue::numbers::empty(shared, ring_at(turn)));
        struct key_work work = find_block(p.base, which);
        struct plain_steps plain = find_plain_steps<TILE_N>(shape, work);
        struct walk walk = walk_begin(work);

#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; ++i)
            dk[i] = dv[i] = 0.0f;
        float dq[32];

        /* dQ of the step before: from registers to a stage of OUT. */
        auto leave_dq = [&](auto kind) {
            struct dq_place place = {};
            const uint32_t at = out_ring::tile(shared, out), thread = thread_index_anew() % 128;

            if (!kind.plain)
                place = find_dq<TILE_M, TILE_N, HEAD_DIM, true>(p.base, work, step_before(walk, work));
            out_ring::wait_empty(shared, out);
            if (!place.last) {
#pragma unroll
                for (int i = 0; i < 8; ++i)
                    st_shared_floats(at + warpgroup * DQ_APART + (i * 128 + thread) * 16, dq + 4 * i);
            } else {
                if (!place.first) {
                    mbarrier_wait(shared + TURN_SEEN + 8 * out.stage, seen >> out.stage & 1);
                    seen ^= 1u << out.stage;
                    add_summed(dq, place.sum + warpgroup * (DQ_APART / 4) + thread * 4);
                }
                store_rounded<element, query_tile>(at, warpgroup * OWN_ROWS, dq, shape->softmax_scale);
            }
            fence_async_shared();
            arrive(out_ring::full(shared, out));
            ring_advance<STAGES>(out);
        };
        /* Where the mask hides keys of the step before that hold NaN or infinity, these leave K for the while of its
         * dQ. Queries that see such a key get NaN: S is infinite or NaN there, so P and dS are 0 or NaN. */
        auto careful_before = [&]() {
            if (step_before(walk, work).m >= work.first_clear)
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
                step_before(walk, work).m * TILE_M + (int32_t)(warpgroup * OWN_ROWS + row);

            named_sync(BOTH_BARRIER, 32 * WARPS);
            reload_tile<own_tile>(shared, &p.base.k, work.batch, work.head_kv, work.key0, shape->seqlen_k, 2, thread,
                                  32 * WARPS);
            fence_async_shared();
            named_sync(BOTH_BARRIER, 32 * WARPS);
#pragma unroll 1
            for (uint32_t i = 0; i < TILE_N; ++i)
                add_special_row<element, own_tile>(
                    dq, shared + i / OWN_ROWS * own_tile::bytes, i % OWN_ROWS,
                    0, 0.0f,
                    [&](int side) { return work.key0 + (int32_t)i <= query + 8 * side + offset; });
        };
        /* dQ of the step before: half of the queries for each warpgroup. */
        auto begin_dq = [&](const struct ring &before) {
            const uint32_t ds = ds_ring::tile(shared, before) + warpgroup * (OWN_ROWS * 128), k = shared;

            wgmma_hold(dq, 32);
            begin_tile_by_rows<element, ds_tile, own_tile, 64>(dq, ds, k);
        };
        k_ring::wait_full(shared, {0, turn % 2});
        v_ring::wait_full(shared, {0, turn % 2});
        /* Compiled twice. Plain steps, which nearly all are, have no code for masks, NaN and the rounding of dQ. */
        auto make_step = [&](auto kind, int32_t step) {
            const bool masked =
                !kind.plain && walk.m < work.first_clear;
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
            wgmma_wait<1>();
            wgmma_hold(s, TILE_M / 2);
            load_pairs(rows, lse + column);
#pragma unroll
            for (int i = 0; i < TILE_M / 2; ++i)
                s[i] = ex2(fmaf(s[i], shape->scale_log2, -rows[i / 4][i % 2]));
            struct sight sight;
            if (masked) {
                sight = sight_of_keys(work.key0 + (int32_t)own_row(), walk.m * TILE_M, offset, shape->seqlen_q,
                                      shape->seqlen_k);
                hide_queries<TILE_M>(s, sight);
            }
            to_operand<element>(p_words, s);
            /* Here and not before dS is stored: ptxas packs P before what follows a wait, and has registers for dS then. */
            ds_ring::wait_empty(shared, queries);

            /* dS^T = P^T (dP^T - delta): zero where P is, even if dP is no number */
            wgmma_wait<0>();
            wgmma_hold(dp, TILE_M / 2);
            load_pairs(rows, delta + column);
#pragma unroll
            for (int i = 0; i < TILE_M / 2; ++i)
                dp[i] = s[i] * (dp[i] - rows[i / 4][i % 2]);
            if (masked)
                hide_queries<TILE_M>(dp, sight);
            to_operand<element>(ds_words, dp);
            if (masked && queries_special<TILE_M>(lse, delta))
                settle_queries<element, query_tile>(dv, true, q, dout, sight, BOTH_BARRIER, 32 * WARPS);
            store_transposed<ds_tile>(ds_ring::tile(shared, queries), warpgroup, ds_words);
            fence_async_shared();
            arrive(ds_ring::full(shared, queries));

            /* In the first step, where there is none before, this one's dS stands for it and the product is thrown
             * away: a product that is not always made is one that ptxas does not overlap with others. */
            const struct ring before = !kind.plain && step == 0 ? queries : ring_before(queries);
            ds_ring::wait_full(shared, before);
            const bool careful = !kind.plain && step > 0 && careful_before();

            if (careful)
                take_special();

            /* dV += P^T dO, dQ of the step before, dK += dS^T Q: one warpgroup at a time, so that
             * the other one is at its exponentials. */
            named_sync(TURN_BARRIER + warpgroup, 32 * WARPS);
            wgmma_hold(dv, HEAD_DIM / 2);
            begin_weights_by_rows<element, query_tile>(dv, p_words, dout, 1);
            begin_dq(before);
            wgmma_wait<1>();
            wgmma_hold(dv, HEAD_DIM / 2);
            arrive(do_ring::empty(shared, queries));
            wgmma_hold(dk, HEAD_DIM / 2);
            begin_weights_by_rows<element, query_tile>(dk, ds_words, q, 1);
            named_arrive(TURN_BARRIER + (warpgroup ^ 1), 32 * WARPS);
            wgmma_wait<1>();
            if (kind.plain || step > 0) {
                arrive(ds_ring::empty(shared, before));
                wgmma_hold(dq, 32);
                if (careful)
                    bring_special();
                leave_dq(kind);
            }
            wgmma_wait<0>();
            wgmma_hold(dk, HEAD_DIM / 2);
            arrive(q_ring::empty(shared, queries));
            ring_advance<STAGES>(queries);
        };
#pragma unroll 1
        for (int32_t step = 0; step < work.steps;) {
            make_step(any_step{}, step++);
            walk_on(walk, work);
            if (step < plain.first || step >= plain.end)
                continue;
#pragma unroll 1
            for (int32_t left = plain.end - step; left > 0; --left)
                make_step(plain_step{}, 0);
            /* What is known of the block is made once more: the steps have its registers. */
            wgmma_hold(&which, 1);
            work = find_block(p.base, which);
            plain = find_plain_steps<TILE_N>(shape, work);
            step = plain.end;
            walk = walk_at(work, step);
        }
        arrive(shared + v_ring::empty_at);
        if (work.steps > 0) {
            const struct ring before = ring_before(queries);

            ds_ring::wait_full(shared, before);
            const bool careful = careful_before();

            if (careful)
                take_special();
            begin_dq(before);
            wgmma_wait<0>();
            wgmma_hold(dq, 32);
            arrive(ds_ring::empty(shared, before));
            if (careful)
                bring_special();
        }
        arrive(shared + k_ring::empty_at);
        if (work.steps > 0)
            leave_dq(any_step{});

        /* dV and dK leave as dQ did. */
        auto leave = [&](const float (&d)[HEAD_DIM / 2], float factor) {
            out_ring::wait_empty(shared, out);
            store_rounded<element, own_tile>(out_ring::tile(shared, out) + own, 0, d, factor);
            fence_async_shared();
            arrive(out_ring::full(shared, out));
            ring_advance<STAGES>(out);
        };
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
    }
}
