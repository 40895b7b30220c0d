/* Backward on sm_90a where dK and dV are too many registers for a warpgroup: a block owns TILE_N keys, one warpgroup
 * makes P^T and keeps dV, the other one makes dP^T and dS^T and keeps dK.
 *
 * Rows is a type of sequences.h. Where lengths are read, rows beyond a sequence's end come with its last tiles: see
 * warpgroup_sequences.h. Of keys they change nothing but their own rows of dK and dV, which stay where they are. */
#ifndef GLINT_DEVICE_WARPGROUP_ROLES_H
#define GLINT_DEVICE_WARPGROUP_ROLES_H

#include "lib/device/warpgroup_sequences.h"

/* Variant: the numbers of an emitted kernel. */
template <class Variant> struct role_kernel {
    typedef typename Variant::element element;
    typedef typename Variant::mask mask_t;
    typedef step_lines<typename Variant::bias> lines;
    typedef typename lines::line line_t;
    enum { HEAD_DIM = Variant::HEAD_DIM, TILE_M = Variant::TILE_M, TILE_N = Variant::TILE_N };
    enum { WARPS = 8 };                                             /* that compute */
    typedef slab_tile<OWN_ROWS, HEAD_DIM, Variant::WIDTH> own_tile; /* of K, V, dK, dV */
    typedef slab_tile<TILE_M, HEAD_DIM, Variant::WIDTH> query_tile; /* of Q, dO */
    enum {
        STAGES = 2, /* of Q and dO, and of P */
        P_BYTES = TILE_M * TILE_N * 4,
        ROW_BYTES = TILE_M * 4,        /* LSE, or delta, of a step */
        K_AT = 0,                      /* and then dV */
        V_AT = K_AT + own_tile::bytes, /* and then dK */
        Q_AT = V_AT + own_tile::bytes,
        DO_AT = Q_AT + STAGES * query_tile::bytes,
        P_AT = DO_AT + STAGES * query_tile::bytes,
        LSE_AT = P_AT + STAGES * P_BYTES,
        DELTA_AT = LSE_AT + STAGES * ROW_BYTES,
        LINE_AT = DELTA_AT + STAGES * ROW_BYTES,
        K_FULL = LINE_AT + STAGES * line_t::BYTES, /* mbarriers */
        V_FULL = K_FULL + 8,
        BOTH_BARRIER = 1,
        OWN_BARRIER = 2,
    };
    typedef stage_ring<STAGES, query_tile::bytes, Q_AT, V_FULL + 8> q_ring;
    typedef stage_ring<STAGES, query_tile::bytes, DO_AT, q_ring::end> do_ring;
    typedef stage_ring<STAGES, P_BYTES, P_AT, do_ring::end> p_ring;
    enum { KEPT_AT = (p_ring::end + 15) / 16 * 16 }; /* where lengths are read: TILE_KEPT_BYTES */

    template <class Rows> GLINT_DEVICE mask_t find_mask(const struct glint_gpu_shape &shape, uint32_t shared)
    {
        if constexpr (Rows::READS)
            return get_mask<mask_t>(shared + KEPT_AT);
        else
            return mask_of_call<mask_t>(shape);
    }

    template <class Rows> GLINT_DEVICE struct key_work find_block(const struct glint_gpu_shape &shape, uint32_t shared)
    {
        if constexpr (Rows::READS)
            return keys_of_tile<Rows, TILE_M, TILE_N>(shape, find_mask<Rows>(shape, shared), shared + KEPT_AT);
        else
            return find_keys<TILE_M, TILE_N>(shape, mask_of_call<mask_t>(shape),
                                             place_in_order(plain_order(&shape, TILE_N), block_index()));
    }

    /* Q with LSE, dO with delta. */
    template <class Rows> GLINT_DEVICE void load_rows(const struct glint_gpu_backward_maps &p, uint32_t shared)
    {
        const struct glint_gpu_shape &shape = p.base.shape;
        const struct key_work work = find_block<Rows>(shape, shared);
        struct walk walk = walk_begin(work);
        struct ring queries = {0, 0};

        mbarrier_arrive_expect(shared + K_FULL, own_tile::bytes);
        load_tile<own_tile>(shared + K_AT, &p.map[MAP_K], work.key0 + work.first_k, work.head_kv, work.batch, shared + K_FULL,
                            GLINT_L2_EVICT_FIRST);
        for (int32_t step = 0; step < work.steps; ++step, walk_on(walk, work), ring_advance<STAGES>(queries)) {
            const int64_t row = row_of_step<TILE_M>(p.base, work, walk);

            load_step<q_ring, query_tile>(
                &p.map[MAP_Q], p.base.lse_log2 + row, LSE_AT, walk, work, shared, queries,
                lines::of(p.base, walk.head, find_mask<Rows>(shape, shared), walk.m * TILE_M, TILE_M, work.key0, TILE_N), LINE_AT);
            if (step == 0) {
                mbarrier_arrive_expect(shared + V_FULL, own_tile::bytes);
                load_tile<own_tile>(shared + V_AT, &p.map[MAP_V], work.key0 + work.first_k, work.head_kv, work.batch,
                                    shared + V_FULL, GLINT_L2_EVICT_FIRST);
            }
            load_step<do_ring, query_tile>(&p.map[MAP_DOUT], p.base.delta + row, DELTA_AT, walk, work, shared, queries);
        }
    }

    template <class Rows> GLINT_DEVICE void run(const struct glint_gpu_backward_maps &p)
    {
        const uint32_t shared = shared_base(), warp = warp_index(), lane = lane_index();

        if constexpr (Rows::READS)
            if (!has_tile<Rows, TILE_N, true>(p.base, p.base.shape.section, shared + KEPT_AT))
                return;
        if (thread_index() == 0) {
            mbarrier_init(shared + K_FULL, 1);
            mbarrier_init(shared + V_FULL, 1);
            q_ring::init(shared, 1, WARPS);
            do_ring::init(shared, 1, WARPS);
            p_ring::init(shared, WARPS / 2, WARPS / 2);
            fence_mbarrier_init();
        }
        block_sync();

        if (warp < 4) {
            registers_give<Variant::PRODUCER_REGISTERS>();
            if (warp == 0 && lane == 0)
                load_rows<Rows>(p, shared);
            return;
        }
        registers_take<Variant::REGISTERS>();

        const bool keeps_dk = warp >= 8; /* else dV */
        const struct glint_gpu_shape &shape = p.base.shape;
        const mask_t given_mask = mask_of_call<mask_t>(shape);
        auto mask = [&]() -> decltype(auto) { return Rows::sight(shared + KEPT_AT, given_mask); };
        const struct key_work work = find_block<Rows>(shape, shared);
        const uint32_t thread = thread_index() % 128, column = lane % 4 * 8;
        auto arrive = [&](uint32_t barrier) { /* this warp, all lanes of which are done */
                                              warp_sync();
                                              if (lane == 0)
                                                  mbarrier_arrive(barrier);
        };
        float d[HEAD_DIM / 2], s[TILE_M / 2];
        uint32_t words[TILE_M / 4];
        struct ring queries = {0, 0}, next = {0, 0}; /* of this step, and of the scores that are made next */
        struct walk walk = walk_begin(work);

        /* S^T = K Q^T and dV += P^T dO, or dP^T = V dO^T and dK += dS^T Q: the same products of other tiles. */
        const uint32_t x = shared + (keeps_dk ? V_AT : K_AT);
        const uint32_t y = shared + (keeps_dk ? DO_AT : Q_AT), z = shared + (keeps_dk ? Q_AT : DO_AT);
        const uint32_t y_full = shared + (keeps_dk ? do_ring::full_at : q_ring::full_at);
        const uint32_t y_empty = shared + (keeps_dk ? do_ring::empty_at : q_ring::empty_at);
        const uint32_t z_full = shared + (keeps_dk ? q_ring::full_at : do_ring::full_at);
        const uint32_t z_empty = shared + (keeps_dk ? q_ring::empty_at : do_ring::empty_at);
        auto begin_scores = [&]() {
            mbarrier_wait(y_full + 8 * next.stage, next.phase);
            wgmma_hold(s, TILE_M / 2);
            begin_rows_by_rows<element, own_tile, query_tile>(s, x, y + next.stage * query_tile::bytes);
            ring_advance<STAGES>(next);
        };
        auto begin_sum = [&]() {
            wgmma_hold(d, HEAD_DIM / 2);
            begin_weights_by_rows<element, query_tile>(d, words, z + queries.stage * query_tile::bytes, 1);
        };
        /* Rows beyond the last query, which the next step has, must not meet a P or dS of zero. */
        auto clear_next = [&](int32_t step) {
            if constexpr (Rows::READS)
                if (step < work.group && is_partial<TILE_M>(mask(), work.last)) {
                    const int32_t left = mask().seqlen_q - work.last * TILE_M;

                    q_ring::wait_full(shared, next);
                    do_ring::wait_full(shared, next);
                    clear_own_rows<query_tile, 1>(q_ring::tile(shared, next), left, 32 * WARPS);
                    clear_own_rows<query_tile, 1>(do_ring::tile(shared, next), left, 32 * WARPS);
                    fence_async_shared();
                    named_sync(BOTH_BARRIER, 32 * WARPS);
                }
        };
        /* P^T = 2^(scale S^T - LSE), passed on as it is in registers; or dS^T = P^T (dP^T - delta). */
        auto make_operand = [&]() {
            const uint32_t rows = shared + (keeps_dk ? DELTA_AT : LSE_AT) + queries.stage * ROW_BYTES + column;
            const uint32_t passed = p_ring::tile(shared, queries) + thread * 16;
            const bool cut = is_cut<mask_t>(work, walk.m), masked = cut || is_partial<TILE_M>(mask(), walk.m);
            struct sight<mask_t, TILE_M> sight;

            mbarrier_wait(z_full + 8 * queries.stage, queries.phase);
            mbarrier_wait(keeps_dk ? p_ring::full(shared, queries) : p_ring::empty(shared, queries),
                          keeps_dk ? queries.phase : queries.phase ^ 1);
            if (masked)
                sight = sight_of_keys<TILE_M>(mask(), work.key0 + (int32_t)(warp % 4 * 16 + lane / 4), walk.m * TILE_M);
            if (!keeps_dk) {
                if constexpr (line_t::BYTES > 0) {
                    float lse[TILE_M / 8][2];

                    load_pairs(lse, rows);
                    make_weights_of_keys<line_t, TILE_M>(s, lse, shape.scale_log2, shared + LINE_AT + queries.stage * line_t::BYTES,
                                                         [&]() { return warp % 4 * 16 + lane / 4; });
                } else {
#pragma unroll
                    for (int j = 0; j < TILE_M / 8; ++j) {
                        float v[2];

                        ld_shared_f32x2(v, rows + 32 * j);
#pragma unroll
                        for (int e = 0; e < 4; ++e)
                            s[4 * j + e] = ex2(fmaf(s[4 * j + e], shape.scale_log2, -v[e % 2]));
                    }
                }
                if (masked)
                    hide_queries<TILE_M>(s, sight);
#pragma unroll
                for (int j = 0; j < TILE_M / 8; ++j)
                    st_shared_floats(passed + j * (128 * 16), s + 4 * j);
                arrive(p_ring::full(shared, queries));
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
                arrive(p_ring::empty(shared, queries));
                if (masked)
                    hide_queries<TILE_M>(s, sight);
            }
            to_operand<element>(words, s);
            if (cut && queries_special<TILE_M>(shared + LSE_AT + queries.stage * ROW_BYTES,
                                               shared + DELTA_AT + queries.stage * ROW_BYTES)) {
                const uint32_t q = q_ring::tile(shared, queries), dout = do_ring::tile(shared, queries);

                settle_queries<element, query_tile, mask_t>(q, dout, BOTH_BARRIER, 32 * WARPS, [&]() {
                    for_queries<query_tile>(
                        mask(), work.key0 + (int32_t)(warp % 4 * 16 + lane / 4), walk.m * TILE_M, [&](uint32_t row, auto sees) {
                            add_special_row<element, query_tile>(d, keeps_dk ? q : dout, row, 0, keeps_dk ? 0.0f : 1.0f, sees);
                        });
                });
            }
        };

#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; ++i)
            d[i] = 0.0f;
        mbarrier_wait(shared + K_FULL, 0);
        if (work.steps > 0) {
            mbarrier_wait(shared + V_FULL, 0);
            clear_next(0);
            begin_scores();
            wgmma_wait<0>();
            wgmma_hold(s, TILE_M / 2);
        }
#pragma unroll 1
        for (int32_t step = 1; step < work.steps; ++step) {
            make_operand();
            clear_next(step);
            begin_sum();
            begin_scores();
            wgmma_wait<1>();
            wgmma_hold(d, HEAD_DIM / 2);
            arrive(z_empty + 8 * queries.stage);
            arrive(y_empty + 8 * queries.stage);
            wgmma_wait<0>();
            wgmma_hold(s, TILE_M / 2);
            walk_on(walk, work);
            ring_advance<STAGES>(queries);
        }
        if (work.steps > 0) {
            make_operand();
            begin_sum();
            wgmma_wait<0>();
            wgmma_hold(d, HEAD_DIM / 2);
        }

        /* dV goes through K, dK through V: each warpgroup alone has read its own. */
        store_rounded<element, own_tile>(x, 0, d, keeps_dk ? shape.softmax_scale : 1.0f);
        fence_async_shared();
        named_sync(OWN_BARRIER + keeps_dk, 128);
        bool whole = true;
        if constexpr (Rows::READS) {
            const int32_t rows = mask().seqlen_k - work.key0;

            whole = rows >= TILE_N;
            if (!whole && warp % 4 == 0)
                store_rows<own_tile>(keeps_dk ? p.base.dk : p.base.dv, work.batch, work.head_kv, work.key0 + work.first_k, rows, x);
        }
        if (whole && warp % 4 == 0 && lane == 0) {
            store_tile<own_tile>(keeps_dk ? &p.map[MAP_DK] : &p.map[MAP_DV], work.key0 + work.first_k, work.head_kv, work.batch, x);
            bulk_commit();
            bulk_wait_read<0>();
        }
    }
};

#endif
