/* Backward on sm_90a, dQ of a split variant: a block owns DQ_M queries, a warpgroup OWN_ROWS of them, and walks over
 * the keys in blocks of DQ_N, last block first. Rows is a type of sequences.h, as in warpgroup_roles.h. */
#ifndef GLINT_DEVICE_WARPGROUP_QUERIES_H
#define GLINT_DEVICE_WARPGROUP_QUERIES_H

#include "lib/device/warpgroup_sequences.h"

/* Variant: the numbers of an emitted kernel. */
template <class Variant> struct query_kernel {
    typedef typename Variant::element element;
    typedef typename Variant::mask mask_t;
    typedef typename Variant::bias bias;
    enum { HEAD_DIM = Variant::HEAD_DIM, DQ_M = 128, DQ_N = Variant::DQ_N };
    typedef slab_tile<OWN_ROWS, HEAD_DIM, Variant::WIDTH> own_tile; /* of Q, dO, dQ */
    typedef slab_tile<DQ_N, HEAD_DIM, Variant::WIDTH> key_tile;     /* K, V of a step */

    enum {
        K_STAGES = 2,
        V_STAGES = HEAD_DIM > 192 ? 1 : 2,
        DQ_OWN_BYTES = 2 * own_tile::bytes,
        DQ_Q_AT = 0, /* of each warpgroup, and then its dQ */
        DQ_DO_AT = DQ_Q_AT + DQ_OWN_BYTES,
        DQ_K_AT = DQ_DO_AT + DQ_OWN_BYTES,
        DQ_V_AT = DQ_K_AT + K_STAGES * key_tile::bytes,
        DQ_Q_FULL = DQ_V_AT + V_STAGES * key_tile::bytes, /* mbarriers */
        DQ_DO_FULL = DQ_Q_FULL + 8,
        DQ_TURN_BARRIER = 1, /* a warpgroup's turn to multiply, two of them */
        DQ_BOTH_BARRIER = 3,
        DQ_OWN_BARRIER = 4,
    };
    typedef stage_ring<K_STAGES, key_tile::bytes, DQ_K_AT, DQ_DO_FULL + 8> dq_k_ring;
    typedef stage_ring<V_STAGES, key_tile::bytes, DQ_V_AT, dq_k_ring::end> dq_v_ring;
    enum { DQ_KEPT_AT = (dq_v_ring::end + 15) / 16 * 16 }; /* where lengths are read: TILE_KEPT_BYTES */

    template <class Rows> GLINT_DEVICE mask_t find_mask(const struct glint_gpu_shape &shape, uint32_t shared)
    {
        if constexpr (Rows::READS)
            return get_mask<mask_t>(shared + DQ_KEPT_AT);
        else
            return mask_of_call<mask_t>(shape);
    }

    template <class Rows> GLINT_DEVICE struct query_work<mask_t> find_rows(const struct glint_gpu_shape &shape, uint32_t shared) {
        if constexpr (Rows::READS)
            return queries_of_tile<Rows, DQ_M, DQ_N>(shape, find_mask<Rows>(shape, shared), shared + DQ_KEPT_AT);
        else
            return find_queries<DQ_M, DQ_N>(shape, mask_of_call<mask_t>(shape));
    }
    /* Where the sequence's rows begin in the tensors. */
    template <class Rows>
    GLINT_DEVICE struct first_rows find_first(uint32_t shared)
    {
        if constexpr (Rows::READS)
            return first_rows_of_tile<Rows>(shared + DQ_KEPT_AT);
        else
            return {0, 0, 0};
    }

    /* Q or dO of both warpgroups. */
    GLINT_DEVICE void load_own_queries(uint32_t to, const struct tensor_map *map, const struct query_block &work, int32_t first_q,
                                       uint32_t full)
    {
        mbarrier_arrive_expect(full, DQ_OWN_BYTES);
        for (uint32_t half = 0; half < 2; ++half)
            load_tile<own_tile>(to + half * own_tile::bytes, map, work.query0 + half * OWN_ROWS + first_q, work.head_q, work.batch,
                                full, GLINT_L2_EVICT_FIRST);
    }

    template <class ring_of>
    GLINT_DEVICE void load_block(const struct tensor_map *map, int32_t row, int32_t head_kv, int32_t batch, uint32_t shared,
                                 const struct ring &ring)
    {
        ring_of::begin_fill(shared, ring);
        load_tile<key_tile>(ring_of::tile(shared, ring), map, row, head_kv, batch, ring_of::full(shared, ring),
                            GLINT_L2_EVICT_LAST);
    }

    template <class Rows> GLINT_DEVICE void load_queries(const struct glint_gpu_backward_maps &p, uint32_t shared)
    {
        const struct query_work<mask_t> work = find_rows<Rows>(p.base.shape, shared);
        const struct first_rows first = find_first<Rows>(shared);
        const int32_t head_kv = work.head_q / p.base.shape.group;
        struct ring keys = {0, 0}, values = {0, 0};

        for (int32_t block = work.last; block >= work.first; --block) {
            load_block<dq_k_ring>(&p.map[MAP_K], block * DQ_N + first.k, head_kv, work.batch, shared, keys);
            if (block == work.last) {
                load_own_queries(shared + DQ_Q_AT, &p.map[MAP_Q], work, first.q, shared + DQ_Q_FULL);
                load_own_queries(shared + DQ_DO_AT, &p.map[MAP_DOUT], work, first.q, shared + DQ_DO_FULL);
            }
            load_block<dq_v_ring>(&p.map[MAP_V], block * DQ_N + first.k, head_kv, work.batch, shared, values);
            ring_advance<K_STAGES>(keys);
            ring_advance<V_STAGES>(values);
        }
    }

    template <class Rows> GLINT_DEVICE void run(const struct glint_gpu_backward_maps &p)
    {
        const uint32_t shared = shared_base(), warp = warp_index(), lane = lane_index();

        /* a section counts key heads, each with its whole group */
        if constexpr (Rows::READS)
            if (!has_tile<Rows, DQ_M, false>(p.base, p.base.shape.section * p.base.shape.group, shared + DQ_KEPT_AT))
                return;
        if (thread_index() == 0) {
            mbarrier_init(shared + DQ_Q_FULL, 1);
            mbarrier_init(shared + DQ_DO_FULL, 1);
            dq_k_ring::init(shared, 1, 8);
            dq_v_ring::init(shared, 1, 8);
            fence_mbarrier_init();
        }
        block_sync();

        if (warp < 4) {
            registers_give<24>();
            if (warp == 0 && lane == 0)
                load_queries<Rows>(p, shared);
            return;
        }
        registers_take<240>();

        const uint32_t warpgroup = warp / 4 - 1, own = warpgroup * own_tile::bytes;
        const struct glint_gpu_shape &shape = p.base.shape;
        const struct query_work<mask_t> work = find_rows<Rows>(shape, shared);
        const int32_t query = work.query0 + (int32_t)(warpgroup * OWN_ROWS + warp % 4 * 16 + lane / 4);
        auto arrive = [&](uint32_t barrier) { /* this warp, all lanes of which are done */
                                              warp_sync();
                                              if (lane == 0)
                                                  mbarrier_arrive(barrier);
        };
        const mask_t given_mask = mask_of_call<mask_t>(shape);
        auto mask = [&]() -> decltype(auto) { return Rows::sight(shared + DQ_KEPT_AT, given_mask); };
        const struct first_rows first = find_first<Rows>(shared);
        const auto slope = step_lines<bias>::of_head(p.base, work.head_q, mask());
        float s[DQ_N / 2], dp[DQ_N / 2], dq[HEAD_DIM / 2], lse[2], delta[2];
        uint32_t ds[DQ_N / 4];
        struct ring keys = {0, 0}, values = {0, 0}; /* of the scores that are made next */

#pragma unroll
        for (int half = 0; half < 2; ++half) {
            lse[half] = ld_global_f32(p.base.lse_log2 + work.head * p.base.padded_q + first.padded + query + 8 * half);
            delta[half] = ld_global_f32(p.base.delta + work.head * p.base.padded_q + first.padded + query + 8 * half);
        }
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; ++i)
            dq[i] = 0.0f;

        /* S = Q K^T and dP = dO V^T of the next block. */
        auto begin_scores = [&]() {
            dq_k_ring::wait_full(shared, keys);
            wgmma_hold(s, DQ_N / 2);
            begin_rows_by_rows<element, own_tile, key_tile>(s, shared + DQ_Q_AT + own, dq_k_ring::tile(shared, keys));
            dq_v_ring::wait_full(shared, values);
            wgmma_hold(dp, DQ_N / 2);
            begin_rows_by_rows<element, own_tile, key_tile>(dp, shared + DQ_DO_AT + own, dq_v_ring::tile(shared, values));
        };
        auto begin_sum = [&](uint32_t k) { /* dQ += dS K */
                                           wgmma_hold(dq, HEAD_DIM / 2);
                                           begin_weights_by_rows<element, key_tile>(dq, ds, k, 1);
        };
        auto end_scores = [&]() {
            wgmma_wait<0>();
            wgmma_hold(s, DQ_N / 2);
            wgmma_hold(dp, DQ_N / 2);
            arrive(dq_v_ring::empty(shared, values));
            ring_advance<V_STAGES>(values);
        };
        /* dS = P (dP - delta), P = 2^(scale S - LSE). Returns where its K is; NaN and infinities of hidden keys,
         * which must not meet a dS of zero, are no more there. Queries that see such a key get NaN: S is infinite or
         * NaN there, so P and dS are 0 or NaN. */
        auto make_ds = [&](int32_t block) {
            const uint32_t k = dq_k_ring::tile(shared, keys);

            if constexpr (!bias::NONE)
                make_weights_of_queries<DQ_N>(s, line_over(slope, mask(), work.query0, DQ_M, block * DQ_N, DQ_N), lse,
                                              shape.scale_log2, query - work.query0);
#pragma unroll
            for (int i = 0; i < DQ_N / 2; ++i)
                s[i] = (bias::NONE ? ex2(fmaf(s[i], shape.scale_log2, -lse[i / 2 % 2])) : s[i]) * (dp[i] - delta[i / 2 % 2]);
            if (hides_some(mask(), block, work.whole_from, work.hidden_from)) {
                const uint32_t thread = thread_index_anew() - 128;

                if (mask_t::RIGHT &&
                    named_any(DQ_BOTH_BARRIER, 256, sees_special(k, key_tile::bytes, thread, 256, element::EXPONENT))) {
#pragma unroll 1
                    for (uint32_t row = 0; row < DQ_N; ++row)
                        add_special_row<element, key_tile>(dq, k, row, 0, 0.0f, [&](int half) {
                            return sees(mask(), query + 8 * half, block * DQ_N + (int32_t)row);
                        });
                    named_sync(DQ_BOTH_BARRIER, 256);
                    remove_special(k, key_tile::bytes, thread, 256, element::EXPONENT);
                    fence_async_shared();
                    named_sync(DQ_BOTH_BARRIER, 256);
                }
                hide_keys(fragments_of(s), mask(), query - (int32_t)(lane / 4), block * DQ_N, 0.0f);
            }
            to_operand<element>(ds, s);
            return k;
        };

        if (warpgroup == 1)
            named_arrive(DQ_TURN_BARRIER, 256);
        if (work.last >= work.first) {
            mbarrier_wait(shared + DQ_Q_FULL, 0);
            mbarrier_wait(shared + DQ_DO_FULL, 0);
            if (Rows::READS && (work.last + 1) * DQ_N > mask().seqlen_k) { /* they must not meet a dS of zero */
                dq_k_ring::wait_full(shared, keys);
                clear_own_rows<key_tile, 1>(dq_k_ring::tile(shared, keys), mask().seqlen_k - work.last * DQ_N, 256);
                fence_async_shared();
                named_sync(DQ_BOTH_BARRIER, 256);
            }
            begin_scores();
            end_scores();
        }
#pragma unroll 1
        for (int32_t block = work.last; block > work.first; --block) {
            const uint32_t k = make_ds(block), k_empty = dq_k_ring::empty(shared, keys);

            /* dQ += dS K, and the next block's scores, one warpgroup at a time: the other one is at its
             * exponentials. */
            ring_advance<K_STAGES>(keys);
            named_sync(DQ_TURN_BARRIER + warpgroup, 256);
            begin_sum(k);
            begin_scores();
            named_arrive(DQ_TURN_BARRIER + (warpgroup ^ 1), 256);
            wgmma_wait<2>();
            wgmma_hold(dq, HEAD_DIM / 2);
            arrive(k_empty);
            end_scores();
        }
        if (work.last >= work.first) {
            begin_sum(make_ds(work.first));
            wgmma_wait<0>();
            wgmma_hold(dq, HEAD_DIM / 2);
        }

        /* dQ goes through the warpgroup's own Q. */
        store_rounded<element, own_tile>(shared + DQ_Q_AT + own, 0, dq, shape.softmax_scale);
        fence_async_shared();
        named_sync(DQ_OWN_BARRIER + warpgroup, 128);
        bool whole = true;
        if constexpr (Rows::READS) {
            const struct first_rows its = find_first<Rows>(shared); /* once more: registers are few until here */
            const int32_t row0 = work.query0 + (int32_t)(warpgroup * OWN_ROWS), rows = mask().seqlen_q - row0;

            whole = rows >= OWN_ROWS;
            if (!whole && warp % 4 == 0)
                store_rows<own_tile>(p.base.dq, work.batch, work.head_q, its.q + row0, rows, shared + DQ_Q_AT + own);
        }
        if (whole && warp % 4 == 0 && lane == 0) {
            store_tile<own_tile>(&p.map[MAP_DQ], work.query0 + (int32_t)(warpgroup * OWN_ROWS) + find_first<Rows>(shared).q,
                                 work.head_q, work.batch, shared + DQ_Q_AT + own);
            bulk_commit();
            bulk_wait_read<0>();
        }
    }
};

#endif
