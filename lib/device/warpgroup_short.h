/* Forward on sm_90a: a block of one warpgroup owns 64 queries of one head, loads for itself, and walks over the keys in
 * blocks of TILE_N, last block first. While the products of a block are summed, the scores of the next are made into
 * weights. Several such blocks share a multiprocessor and fill each other's gaps, so short sequences and masks, where a
 * persistent block's beginnings and ends count, go here. */
#ifndef GLINT_DEVICE_WARPGROUP_SHORT_H
#define GLINT_DEVICE_WARPGROUP_SHORT_H

#include "lib/device/warpgroup_ragged.h"

/* Variant: the numbers of an emitted kernel. */
template <class Variant> struct short_kernel {
    typedef typename Variant::element element;
    typedef typename Variant::mask mask_t;
    typedef typename Variant::score score_t;
    typedef typename Variant::bias bias_t;
    typedef struct tile_work<mask_t> work_t;
    enum {
        HEAD_DIM = Variant::HEAD_DIM,
        TILE_N = Variant::TILE_N,
        TILE_M = 64,
        THREADS = 128,
        STAGES = 2, /* of K, and of V */
        BELOW = element::BELOW,
        OWN = 1, /* a named barrier */
    };
    typedef slab_tile<TILE_M, HEAD_DIM, Variant::WIDTH> query_tile;
    typedef slab_tile<TILE_N, HEAD_DIM, Variant::WIDTH> key_tile;

    /* Shared memory: tiles, then mbarriers, then 256 bytes of a search, and the tile that is found. */
    enum {
        K_AT = query_tile::bytes,
        V_AT = K_AT + STAGES * key_tile::bytes,
        RANGES_AT = V_AT + STAGES * key_tile::bytes, /* of the queries, where they have intervals */
        Q_FULL = RANGES_AT + (mask_t::INTERVALS ? TILE_M * RANGE_BYTES : 0),
        K_FULL = Q_FULL + 8,
        V_FULL = K_FULL + 8 * STAGES,
        SEARCH_AT = (V_FULL + 8 * STAGES + 15) / 16 * 16,
        TILE_AT = SEARCH_AT + 256,
    };

    /* Which tile a block has, as types: `find` is false where it has none. Where lengths are read, values beyond one
     * become zeros as those beyond the bound are, so that a sequence has the bits of a call with its lengths. */

    /* The row at which a tile's queries begin to be counted. */
    struct tiles {
        GLINT_DEVICE int32_t first_query(uint32_t)
        {
            return 0;
        }
    };

    struct given : tiles {
        static constexpr bool READS = false;

        GLINT_DEVICE bool find(work_t &work, mask_t &mask, const struct glint_gpu_call &p, uint32_t)
        {
            mask = mask_of<mask_t>(p, ::given::sequence_of(p.shape), 0);
            if (!place_tile<TILE_M>(work, p.shape, block_index()))
                return false;
            if constexpr (mask_t::INTERVALS) {
                mask.begin += (int64_t)work.batch * p.shape.seqlen_q;
                mask.end += (int64_t)work.batch * p.shape.seqlen_q;
            }
            return true;
        }
    };

    struct lengths : tiles {
        static constexpr bool READS = true;

        GLINT_DEVICE bool find(work_t &work, mask_t &mask, const struct glint_gpu_call &p, uint32_t)
        {
            if (thread_index() == 0 && block_index() < (uint32_t)p.shape.batch)
                note_fault(p, (int32_t)block_index());
            if (!place_tile<TILE_M>(work, p.shape, block_index()))
                return false;
            mask = mask_of<mask_t>(p, find_sequence(p, work.batch), (int64_t)work.batch * p.shape.seqlen_q);
            return work.query0 < mask.seqlen_q;
        }
    };

    /* Rows of the next sequence in the last block of keys are what those beyond a length are. */
    struct ragged : lengths {
        GLINT_DEVICE bool find(work_t &work, mask_t &mask, const struct glint_gpu_call &p, uint32_t shared)
        {
            const struct glint_gpu_shape bounds = shape_of_bounds(p);

            if (warp_index() == 0)
                find_ragged_tile<TILE_M, false, false>(p.sequences, bounds, block_index(), p.shape.heads_q, p.shape.section,
                                                       shared + SEARCH_AT, shared + TILE_AT);
            if (p.sequences.fault && block_index() == 0 && warp_index() == 3)
                note_ragged_fault(p.sequences, bounds);
            block_sync();
            const struct ragged_tile tile = get_ragged_tile(shared + TILE_AT);
            mask = mask_from<mask_t>(p, tile.own, tile.first_q);
            work.query0 = tile.first_q + tile.row0;
            work.head_q = tile.head;
            work.first_k = tile.first_k;
            work.batch = 0;
            return tile.row0 >= 0;
        }
        GLINT_DEVICE int32_t first_query(uint32_t shared)
        {
            return get_ragged_tile(shared + TILE_AT).first_q;
        }
    };

    /* blocks is not wanted here: a block has one tile. */
    template <class Tiles> GLINT_DEVICE void run(const struct glint_gpu_forward_maps &p, uint32_t)
    {
        const struct glint_gpu_shape &shape = p.base.shape;
        const float scale = exponent_scale<no_bias>(shape);
        const uint32_t shared = shared_base();
        const bool loads = thread_index() == 0;
        /* of the block whose values are added next; the following keys are a stage further */
        struct ring ring = {0, 0};
        work_t work;
        mask_t of_call;
        struct softmax_rows rows;
        float s[TILE_N / 2], o[HEAD_DIM / 2], factor[2] = {1.0f, 1.0f};
        uint32_t weights[TILE_N / 4];

        if (!Tiles::find(work, of_call, p.base, shared))
            return;
        const auto mask = make_mask_of_tile<TILE_M, THREADS>(of_call, work.query0, shared + RANGES_AT);
        find_keys<TILE_M, TILE_N>(work, mask);
        if (mask_t::RIGHT && !mask_t::LEFT && work.last < 0) { /* no key is seen */
            write_nothing<HEAD_DIM>(p.base, work, min(work.query0 + TILE_M, mask.seqlen_q), sink_of(p.base, work.head_q),
                                    thread_index(), THREADS);
            return;
        }
        const int32_t head_kv = work.head_q / shape.group;
        struct alibi_line line;
        if constexpr (bias_t::LINE) {
            const int32_t first_q = Tiles::first_query(shared);

            line = line_of(bias_t::at(p.base, work.head_q, {mask.seqlen_q - first_q, mask.seqlen_k, 0, 0}, first_q), mask,
                           work.query0, TILE_N);
        }
        /* The map of no keys has a row, of Q: what comes from behind it are zeros. */
        const int32_t beyond = !mask_t::RIGHT && !Tiles::READS && shape.seqlen_k == 0;
        int32_t block = work.last;

        /* Key block `of`, or its values, to a stage, if there is such a block; by one thread. */
        auto load = [&](const struct tensor_map *map, int32_t of, int32_t row, uint32_t at, uint32_t full, uint32_t stage) {
            if (loads && of >= work.first) {
                mbarrier_arrive_expect(shared + full + 8 * stage, key_tile::bytes);
                load_tile<key_tile>(shared + at + stage * key_tile::bytes, map, work.first_k + row, head_kv, work.batch,
                                    shared + full + 8 * stage, GLINT_L2_EVICT_LAST);
            }
        };
        auto load_keys = [&](int32_t of, uint32_t stage) { load(&p.map[MAP_K], of, of * TILE_N, K_AT, K_FULL, stage); };
        auto load_values = [&](int32_t of, uint32_t stage) {
            load(&p.map[MAP_V], of, (of + beyond) * TILE_N, V_AT, V_FULL, stage);
        };
        if (loads) {
            mbarrier_init(shared + Q_FULL, 1);
            for (uint32_t i = 0; i < STAGES; ++i) {
                mbarrier_init(shared + K_FULL + 8 * i, 1);
                mbarrier_init(shared + V_FULL + 8 * i, 1);
            }
            fence_mbarrier_init();
            mbarrier_arrive_expect(shared + Q_FULL, query_tile::bytes);
            load_tile<query_tile>(shared, &p.map[MAP_Q], work.query0, work.head_q, work.batch, shared + Q_FULL,
                                  GLINT_L2_EVICT_FIRST);
        }
        for (int32_t i = 0; i < STAGES; ++i) {
            load_keys(block - i, (uint32_t)i);
            load_values(block - i, (uint32_t)i);
        }
        block_sync();

        auto begin_scores = [&](const struct ring &of) { /* S = Q K^T */
                                                         begin_rows_by_rows<element, query_tile, key_tile>(
                                                             s, shared, shared + K_AT + of.stage * key_tile::bytes);
        };
        auto hold_all = [&]() {
            wgmma_hold(s, TILE_N / 2);
            wgmma_hold(o, HEAD_DIM / 2);
            wgmma_hold(weights, TILE_N / 4);
        };
        /* The weights of a block from its scores, unless they have faded: all are 0. True if what was summed before
         * is to be rescaled. */
        bool faded = false;
        auto soften = [&](int32_t of_block, auto which) {
            float shift[2];

            change_scores(s, score_t::of(p.base));
            hide_scores<TILE_N>(
                s, work, [&]() { return mask; }, work.query0, of_block);
            if constexpr (bias_t::LINE) {
                const enum softened how =
                    soften_block<TILE_N, BELOW, decltype(which)>(rows, s, line, of_block * TILE_N, factor, scale);

                faded = how == FADED;
                return how == GROWN;
            }
            const bool grown = follow_maxima<TILE_N, BELOW>(rows, s, shift, factor, scale);
            make_weights<TILE_N>(rows, s, shift, scale);
            return grown;
        };
        /* V of a block has arrived. A weight of zero times NaN is NaN: NaN and infinity leave the blocks in which some
         * query does not see every key, and queries that do see them get them at the end. */
        bool special = false;
        auto wait_values = [&](int32_t of_block) {
            const uint32_t values = shared + V_AT + ring.stage * key_tile::bytes;

            mbarrier_wait(shared + V_FULL + 8 * ring.stage, ring.phase);
            if (Tiles::READS && clear_rows<key_tile>(values, mask.seqlen_k - of_block * TILE_N, thread_index(), THREADS)) {
                fence_async_shared();
                block_sync();
            }
            if (mask_t::RIGHT && is_cut(work, of_block) &&
                block_any(sees_special(values, key_tile::bytes, thread_index(), THREADS, element::EXPONENT))) {
                remove_special(values, key_tile::bytes, thread_index(), THREADS, element::EXPONENT);
                fence_async_shared();
                block_sync();
                special = true;
            }
            return values;
        };

#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; ++i)
            o[i] = 0.0f;
        softmax_begin(rows);
        mbarrier_wait(shared + Q_FULL, 0);
        if (shape.scale_log2 < 0.0f) /* powers of two of positive multiples: a negative scale goes into Q */
            negate_slabs<query_tile>(shared, OWN);
        mbarrier_wait(shared + K_FULL, 0);
        wgmma_hold(s, TILE_N / 2);
        begin_scores(ring);
        wgmma_wait<0>();
        wgmma_hold(s, TILE_N / 2);
        soften(block, first_block());
        pack_weights<element>(weights, s);
        block_sync();
        load_keys(block - STAGES, 0);

        int32_t add = 0;
#pragma unroll 1
        for (; block > work.first; --block, add = 1) {
            struct ring next = ring;

            ring_advance<STAGES>(next);
            mbarrier_wait(shared + K_FULL + 8 * next.stage, next.phase);
            hold_all();
            begin_scores(next);
            begin_weights_by_rows<element, key_tile>(o, weights, wait_values(block), add);
            wgmma_wait<1>();
            wgmma_hold(s, TILE_N / 2);
            const bool grown = soften(block - 1, later_block());
            wgmma_wait<0>();
            wgmma_hold(o, HEAD_DIM / 2);
            wgmma_hold(weights, TILE_N / 4);
            if (faded)
                clear_weights(weights);
            else
                pack_weights<element>(weights, s); /* before any branch: made in the gaps between exponentials */
            block_sync();                          /* nobody reads these keys and values any more */
            load_keys(block - 1 - STAGES, next.stage);
            load_values(block - STAGES, ring.stage);
            ring = next;
            if (grown)
                rescale<HEAD_DIM>(o, factor);
        }
        hold_all();
        begin_weights_by_rows<element, key_tile>(o, weights, wait_values(work.first), add);
        wgmma_wait<0>();
        hold_all();
        if (mask_t::RIGHT && special)
            add_special<element, TILE_N>(o, p.base, work, work.query0, mask, work.first_k);
        write_output<element, BELOW, bias_t>(o, rows, p.base, work, work.query0, mask.seqlen_q,
                                             [&](int32_t query) { return sees_some(mask, query); });
    }
};

#endif
