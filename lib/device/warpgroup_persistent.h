/* Forward on sm_90a: a persistent block of warpgroups that compute, 64 queries each, and one that loads. Tiles of
 * TILE_M queries of one head are worked on one after another, each over the keys in blocks of TILE_N, last block first.
 * While the products of a block are summed, the scores of the next are made into weights; at the end of a tile that
 * next one is the following tile's first. With a window the walk ends with the first block that some query of the tile
 * sees. A warpgroup has its own part of it: other blocks it passes on.
 *
 *     loaders   K, Q; V            two warps, a thread of each; with intervals one loads, and the other makes ranges
 *     scanners  V                  two warps: zeros beyond a length; NaN and infinity leave a block that the mask cuts
 *               O                  zeros, where no key is seen
 *     others    S = Q K^T, P = 2^(scale (S - max)), O += P V */
#ifndef GLINT_DEVICE_WARPGROUP_PERSISTENT_H
#define GLINT_DEVICE_WARPGROUP_PERSISTENT_H

#include "lib/device/warpgroup_intervals.h"
#include "lib/device/warpgroup_ragged.h"

/* Variant: the numbers of an emitted kernel. */
template <class Variant> struct persistent_kernel {
    typedef typename Variant::element element;
    typedef typename Variant::mask mask_t;
    typedef typename Variant::score score_t;
    typedef typename Variant::bias bias_t;
    typedef struct tile_work<mask_t> work_t;
    enum {
        HEAD_DIM = Variant::HEAD_DIM,
        TILE_N = Variant::TILE_N,
        WARPGROUPS = Variant::WARPGROUPS, /* that compute */
        TILE_M = 64 * WARPGROUPS,
        Q_SLOTS = Variant::Q_SLOTS,
        STAGES = Variant::STAGES, /* of K, and of V */
        TURNS = Variant::TURNS,
        BELOW = element::BELOW,                 /* see follow_maxima */
        BLIND = mask_t::RIGHT && !mask_t::LEFT, /* queries of a tile may all see no key */
        /* the first blocks of two warpgroups may be further apart than the ring has stages */
        MAY_BE_FAR = mask_t::LEFT && (mask_t::INTERVALS || (64 * (WARPGROUPS - 1) + TILE_N - 1) / TILE_N > STAGES),
    };
    typedef slab_tile<64, HEAD_DIM, Variant::WIDTH> query_tile; /* a warpgroup's own */
    typedef slab_tile<TILE_N, HEAD_DIM, Variant::WIDTH> key_tile;
    typedef staged_bias<bias_t, TILE_N> staged;

    /* Shared memory: tiles, then mbarriers, then the queue of the block's next tiles and what its kind wants. */
    enum : uint32_t {
        Q_BYTES = WARPGROUPS * query_tile::bytes,
        K_AT = Q_SLOTS * Q_BYTES,
        V_AT = K_AT + STAGES * key_tile::bytes,
        BIAS_AT = V_AT + STAGES * key_tile::bytes, /* of a bias by a tensor */
        BARRIERS_AT = BIAS_AT + 4 * WARPGROUPS * staged::BYTES,
    };
    typedef stage_ring<Q_SLOTS, Q_BYTES, 0, BARRIERS_AT> query_ring;
    typedef stage_ring<STAGES, key_tile::bytes, K_AT, query_ring::end> key_ring;
    typedef stage_ring<STAGES, key_tile::bytes, V_AT, key_ring::end> value_ring;

    /* Named barriers: 1 + w to warpgroup w's turn at the tensor cores, OWN + w within it. */
    enum { TURN = 1, OWN = TURN + WARPGROUPS };

    /* ---- which tiles there are, as types: how the loader finds the next one, and what others know of it ---------- */

    /* What there is of a tile that is given back: its mask, and the row at which its keys begin. A type that keeps
     * neither finds them again. */
    struct tiles {
        GLINT_DEVICE void begin(const struct glint_gpu_forward_maps &, uint32_t) {}
        GLINT_DEVICE uint32_t kept(uint32_t)
        {
            return 0;
        }
        GLINT_DEVICE void keep(uint32_t, const struct ring &) {}
        GLINT_DEVICE int32_t first_key_anew(uint32_t)
        {
            return 0;
        }
        /* The row from which on a tile's queries are counted, less that of the sequence's first. */
        GLINT_DEVICE int32_t first_query(uint32_t, const struct ring &)
        {
            return 0;
        }
        /* Which sequence of the batch it is of. */
        GLINT_DEVICE int32_t number(const struct glint_gpu_call &, const work_t &work, int32_t)
        {
            return work.batch;
        }
    };

    /* All sequences have the lengths of the call. */
    struct given : tiles {
        static constexpr bool READS = false, SEARCHES = false;
        static constexpr bool SCANS = mask_t::RIGHT; /* values that a mask hides */
        typedef tile_queue<value_ring::end> queue;

        /* Announces the tile of a number, or the one after it that there is; false after the last. */
        GLINT_DEVICE bool next(work_t &work, const struct glint_gpu_forward_maps &p, uint32_t shared, struct ring &t, uint32_t,
                               uint32_t tile)
        {
            const uint32_t number = BLIND ? blind_last<TILE_M, HEAD_DIM>(p.base.shape, tile) : tile;
            const bool any = find_tile<TILE_M, TILE_N>(work, p.base.shape, number);

            queue::announce(shared, t, number);
            ring_advance<2>(t);
            return any;
        }
        /* The number after it for this block. */
        GLINT_DEVICE uint32_t take(const struct glint_gpu_forward_maps &p, uint32_t, uint32_t blocks, uint32_t tile)
        {
            return Variant::DYNAMIC ? blocks + atom_global_add_u32(p.base.words, 1) : tile + blocks;
        }
        /* Where the block works next; false after its last tile. By a whole warp, or by one lane alone. keeps: it
         * gives the tile back itself, whose mask it reads until then. */
        template <bool warp, bool keeps>
        GLINT_DEVICE bool wait(work_t &work, const struct glint_gpu_forward_maps &p, uint32_t shared, struct ring &t)
        {
            const uint32_t tile = queue::wait(shared, t);

            if (warp)
                warp_sync();
            if (!warp || lane_index() == 0)
                queue::release(shared, t);
            ring_advance<2>(t);
            return find_tile<TILE_M, TILE_N>(work, p.base.shape, tile);
        }
        GLINT_DEVICE void give_back(uint32_t, const struct ring &) {}
        GLINT_DEVICE mask_t mask(const struct glint_gpu_call &p, uint32_t, const struct ring &)
        {
            return mask_of_call<mask_t>(p.shape);
        }
        GLINT_DEVICE mask_t mask_anew(const struct glint_gpu_call &p, const work_t &, uint32_t)
        {
            return mask_of_call<mask_t>(p.shape);
        }
        GLINT_DEVICE void note_faults(const struct glint_gpu_forward_maps &, uint32_t, uint32_t) {}
        GLINT_DEVICE int32_t end_of_nothing(const work_t &work, const struct glint_gpu_call &p, uint32_t, const struct ring &)
        {
            return end_of_blind<TILE_M, HEAD_DIM>(work, p.shape);
        }
    };

    /* What is known of a tile whose queries have intervals; of others 32 bytes are enough. */
    typedef interval_slot<TILE_N, WARPGROUPS> slot_t;
    enum : uint32_t { SLOT_BYTES = mask_t::INTERVALS ? (uint32_t)slot_t::BYTES : 32 };

    /* Tiles whose lengths are read wait in a queue with their masks. Intervals are made into ranges by all of the
     * loader's warp. */
    template <class queue_t> struct read_tiles : tiles {
        static constexpr bool READS = true, SCANS = true;
        typedef queue_t queue;

        /* Adds the ranges to the tile that lane 0 announces, by all lanes; false: the end. */
        GLINT_DEVICE bool add_ranges(work_t &work, const struct glint_gpu_call &p, uint32_t shared, struct ring &t)
        {
            const uint32_t slot = queue::slots::tile(shared, t);

            warp_sync();
            if (queue::get(shared, t, work)) {
                const mask_t mask = mask_of_slot(p, work, slot);

                slot_t::put(slot, mask.begin, mask.end);
            }
            warp_sync();
            const bool any = queue::get(shared, t, work);
            if (any)
                slot_t::get_blocks(slot, work);
            if (lane_index() == 0)
                queue::tell(shared, t);
            ring_advance<queue::stages>(t);
            return any;
        }
        /* A tile's mask as the call gives it; `slot`: the first 32 bytes of its slot, or a copy. */
        GLINT_DEVICE mask_t mask_of_slot(const struct glint_gpu_call &p, const work_t &work, uint32_t slot)
        {
            return mask_of<mask_t>(p, get_sequence(slot), (int64_t)work.batch * p.shape.seqlen_q);
        }

        template <bool warp, bool keeps>
        GLINT_DEVICE bool wait(work_t &work, const struct glint_gpu_forward_maps &, uint32_t shared, struct ring &t)
        {
            if (!queue::wait(shared, t, work))
                return false;
            if constexpr (mask_t::INTERVALS)
                slot_t::get_blocks(queue::slots::tile(shared, t), work);
            else
                find_keys<TILE_M, TILE_N>(work, queue::template mask<mask_t>(shared, t));
            ring_advance<queue::stages>(t);
            if (!keeps)
                queue::template give_back<warp>(shared, queue::at_hand(t));
            return true;
        }
        GLINT_DEVICE void give_back(uint32_t shared, const struct ring &t)
        {
            queue::template give_back<true>(shared, queue::at_hand(t));
        }
        GLINT_DEVICE auto mask(const struct glint_gpu_call &, uint32_t shared, const struct ring &t)
        {
            if constexpr (mask_t::INTERVALS)
                return slot_t::mask(queue::slots::tile(shared, queue::at_hand(t)));
            else
                return queue::template mask<mask_t>(shared, queue::at_hand(t));
        }
        GLINT_DEVICE int32_t end_of_nothing(const work_t &work, const struct glint_gpu_call &p, uint32_t shared,
                                            const struct ring &t)
        {
            return min(work.query0 + TILE_M, mask(p, shared, t).seqlen_q);
        }
    };

    /* Sequences of a batch, whose lengths are read; those of the shape are bounds. Values beyond a length become
     * zeros as those beyond the bound are, so that a sequence has the bits of a call with its lengths. */
    struct lengths : read_tiles<sequence_queue<value_ring::end, false, SLOT_BYTES>> {
        static constexpr bool SEARCHES = mask_t::INTERVALS;
        typedef sequence_queue<value_ring::end, false, SLOT_BYTES> queue;

        GLINT_DEVICE bool next(work_t &work, const struct glint_gpu_forward_maps &p, uint32_t shared, struct ring &t,
                               uint32_t blocks, uint32_t tile)
        {
            struct sequence own;

            if constexpr (mask_t::INTERVALS) {
                if (lane_index() == 0) {
                    if (take_tile<TILE_M>(work, own, p, blocks, tile))
                        queue::announce(shared, t, work, mask_of<window_mask>(own));
                    else
                        queue::announce_end(shared, t);
                }
                return lengths::add_ranges(work, p.base, shared, t);
            } else {
                if (!take_tile<TILE_M>(work, own, p, blocks, tile)) {
                    queue::announce_end(shared, t);
                    return false;
                }
                const mask_t mask = mask_of<mask_t>(own);
                queue::announce(shared, t, work, mask);
                ring_advance<queue::stages>(t);
                find_keys<TILE_M, TILE_N>(work, mask);
                return true;
            }
        }
        GLINT_DEVICE uint32_t take(const struct glint_gpu_forward_maps &p, uint32_t, uint32_t blocks, uint32_t)
        {
            if (mask_t::INTERVALS && lane_index() > 0)
                return 0;
            return blocks - atom_global_add_u32(p.base.words, 0xffffffffu);
        }
        GLINT_DEVICE mask_t mask_anew(const struct glint_gpu_call &p, const work_t &of, uint32_t)
        {
            return mask_of<mask_t>(p, find_sequence(p, of.batch), (int64_t)of.batch * p.shape.seqlen_q);
        }
        GLINT_DEVICE void note_faults(const struct glint_gpu_forward_maps &p, uint32_t blocks, uint32_t)
        {
            for (uint32_t batch = blocks * (thread_index_anew() % 64) + block_index(); batch < (uint32_t)p.base.shape.batch;
                 batch += 64 * blocks)
                note_fault(p.base, (int32_t)batch);
        }
    };

    /* Ragged sequences. Tiles are found by a search, which all of the loader's warp does. Rows of the next sequence
     * in a last block of keys are what those beyond a length are. Behind the rest of shared memory is the table of
     * tiles, and a tile for each warp. */
    struct ragged : read_tiles<ragged_queue<value_ring::end, SLOT_BYTES>> {
        static constexpr bool SEARCHES = true;
        typedef ragged_queue<value_ring::end, SLOT_BYTES> queue;
        enum : uint32_t { TABLE = queue::end + 16 * STAGES + (mask_t::INTERVALS ? 16 : 0), KEPT = TABLE + RAGGED_TABLE_BYTES };

        GLINT_DEVICE void begin(const struct glint_gpu_forward_maps &p, uint32_t shared)
        {
            put_no_group(p, shared + TABLE);
        }
        GLINT_DEVICE bool next(work_t &work, const struct glint_gpu_forward_maps &p, uint32_t shared, struct ring &t, uint32_t,
                               uint32_t tile)
        {
            const uint32_t found = shared + TABLE + RAGGED_FOUND;
            const bool any = find_number<TILE_M, !bias_t::NONE>(p, shared + TABLE, tile);

            if (lane_index() == 0) {
                if (any)
                    queue::announce(shared, t, found);
                else
                    queue::announce_end(shared, t);
            }
            if constexpr (mask_t::INTERVALS)
                return ragged::add_ranges(work, p.base, shared, t);
            else {
                if (!any)
                    return false;
                ring_advance<queue::stages>(t);
                get_place<true>(work, found);
                find_keys<TILE_M, TILE_N>(work, get_mask<mask_t>(found));
                return true;
            }
        }
        GLINT_DEVICE uint32_t take(const struct glint_gpu_forward_maps &p, uint32_t shared, uint32_t blocks, uint32_t)
        {
            return next_number(p.base.words, blocks, shared + TABLE);
        }
        GLINT_DEVICE uint32_t kept(uint32_t shared)
        {
            return shared + KEPT + 32 * warp_index();
        }
        GLINT_DEVICE void keep(uint32_t shared, const struct ring &t)
        {
            queue::keep(shared, queue::at_hand(t), kept(shared));
        }
        GLINT_DEVICE mask_t mask_anew(const struct glint_gpu_call &p, const work_t &of, uint32_t kept)
        {
            return ragged::mask_of_slot(p, of, kept);
        }
        GLINT_DEVICE int32_t first_key_anew(uint32_t kept)
        {
            return (int32_t)ld_shared_u32(kept + 20);
        }
        GLINT_DEVICE int32_t first_query(uint32_t shared, const struct ring &t)
        {
            return (int32_t)ld_shared_u32(queue::slots::tile(shared, queue::at_hand(t)) + 28) - 1;
        }
        GLINT_DEVICE int32_t number(const struct glint_gpu_call &p, const work_t &, int32_t query0)
        {
            return number_of_row(p.sequences, p.shape.batch, query0);
        }
        GLINT_DEVICE void note_faults(const struct glint_gpu_forward_maps &p, uint32_t, uint32_t scanner)
        {
            if (p.base.sequences.fault && block_index() == 0 && scanner == 0)
                note_ragged_fault(p.base.sequences, shape_of_bounds(p.base));
        }
    };

    /* Mbarriers of stages of V: a block that the mask cuts has arrived, and waits for its scanners. And what each of
     * the two found in a stage: NaN or infinity. */
    template <class Tiles> GLINT_DEVICE uint32_t v_cut(uint32_t shared, uint32_t stage)
    {
        return shared + Tiles::queue::end + 8 * stage;
    }
    template <class Tiles> GLINT_DEVICE uint32_t found(uint32_t shared, uint32_t stage)
    {
        return v_cut<Tiles>(shared, STAGES + stage);
    }

    /* ---- the warpgroup that loads -------------------------------------------------------------------------------- */

    /* Begins the copy of a block's keys, and with the tile's first one that of its queries. By one thread. */
    GLINT_DEVICE void load_keys(const struct glint_gpu_forward_maps &p, uint32_t shared, const work_t &work, int32_t block,
                                struct ring &q, struct ring &k)
    {
        key_ring::begin_fill(shared, k);
        load_tile<key_tile>(key_ring::tile(shared, k), &p.map[MAP_K], work.first_k + block * TILE_N,
                            work.head_q / p.base.shape.group, work.batch, key_ring::full(shared, k), GLINT_L2_EVICT_LAST);
        ring_advance<STAGES>(k);
        if (block < work.last)
            return;
        query_ring::begin_fill(shared, q);
        for (int32_t w = 0; w < WARPGROUPS; ++w)
            load_tile<query_tile>(query_ring::tile(shared, q) + w * query_tile::bytes, &p.map[MAP_Q], work.query0 + 64 * w,
                                  work.head_q, work.batch, query_ring::full(shared, q), GLINT_L2_EVICT_FIRST);
        ring_advance<Q_SLOTS>(q);
    }

    /* Begins the copy of a block's values. By one thread. */
    template <class Tiles>
    GLINT_DEVICE void load_values(const struct glint_gpu_forward_maps &p, uint32_t shared, const work_t &work, int32_t block,
                                  struct ring &v, struct ring &cut)
    {
        /* The map of no keys has a row, of Q: what comes from behind it are zeros. */
        const int32_t beyond = !Tiles::SCANS && p.base.shape.seqlen_k == 0;
        uint32_t full = value_ring::full(shared, v);

        value_ring::wait_empty(shared, v);
        if (Tiles::SCANS) {
            if (is_cut(work, block)) {
                full = v_cut<Tiles>(shared, cut.stage);
                ring_advance<STAGES>(cut);
            } else
                mbarrier_arrive(full); /* for the second scanner, and below for the first */
        }
        mbarrier_arrive_expect(full, key_tile::bytes);
        load_tile<key_tile>(value_ring::tile(shared, v), &p.map[MAP_V], work.first_k + (block + beyond) * TILE_N,
                            work.head_q / p.base.shape.group, work.batch, full, GLINT_L2_EVICT_LAST);
        ring_advance<STAGES>(v);
    }

    /* Announces this block's tiles, too: of a dynamic variant, and where lengths are read, each is the first one
     * that no block has taken. It is taken when the last keys of the tile before are on their way, not sooner: a
     * block that takes a tile long before it can begin leaves others idle at the end. */
    template <class Tiles>
    GLINT_DEVICE void load_queries_and_keys(const struct glint_gpu_forward_maps &p, uint32_t shared, uint32_t blocks)
    {
        const bool loads = !Tiles::SEARCHES || lane_index() == 0;
        struct ring q = {0, 0}, k = {0, 0}, t = {0, 0};
        uint32_t tile = block_index();
        work_t work;

        Tiles::begin(p, shared);
        while (Tiles::next(work, p, shared, t, blocks, tile)) {
#pragma unroll 1 /* registers */
            for (int32_t block = loads ? work.last : work.first - 1; block >= work.first; --block)
                load_keys(p, shared, work, block, q, k);
            tile = Tiles::take(p, shared, blocks, tile);
        }
    }

    template <class Tiles> GLINT_DEVICE void load_all_values(const struct glint_gpu_forward_maps &p, uint32_t shared)
    {
        struct ring v = {0, 0}, t = {0, 0}, cut = {0, 0};
        work_t work;

        while (Tiles::template wait<false, false>(work, p, shared, t))
            for (int32_t block = work.last; block >= work.first; --block)
                load_values<Tiles>(p, shared, work, block, v, cut);
    }

    /* Where queries have intervals, a tile's ranges take as long as the products of several blocks of keys. So one
     * warp makes them while a thread of another one loads K, Q and V of the tile before, and wants the next tile
     * AHEAD blocks before the last one. */
    enum { AHEAD = 6 };
    template <class Tiles> GLINT_DEVICE uint32_t wanted(uint32_t shared)
    {
        return v_cut<Tiles>(shared, 2 * STAGES);
    }
    template <class Tiles> GLINT_DEVICE void find_tiles(const struct glint_gpu_forward_maps &p, uint32_t shared, uint32_t blocks)
    {
        struct ring t = {0, 0};
        uint32_t tile = block_index(), phase = 0;
        work_t work;

        Tiles::begin(p, shared);
        while (Tiles::next(work, p, shared, t, blocks, tile)) {
            wgmma_hold(&shared, 1); /* addresses that are made of it once for all tiles take registers of the search */
            mbarrier_wait(wanted<Tiles>(shared), phase);
            phase ^= 1;
            tile = Tiles::take(p, shared, blocks, tile);
        }
    }

    /* In the order in which they are used: values come one block after the keys of the scores before. */
    template <class Tiles> GLINT_DEVICE void load_all(const struct glint_gpu_forward_maps &p, uint32_t shared)
    {
        struct ring q = {0, 0}, k = {0, 0}, v = {0, 0}, t = {0, 0}, cut = {0, 0};
        work_t work;

        while (Tiles::template wait<false, false>(work, p, shared, t)) {
#pragma unroll 1
            for (int32_t block = work.last; block >= work.first; --block) {
                if (block == min(work.last, work.first + AHEAD))
                    mbarrier_arrive(wanted<Tiles>(shared));
                load_keys(p, shared, work, block, q, k);
                if (block < work.last)
                    load_values<Tiles>(p, shared, work, block + 1, v, cut);
            }
            load_values<Tiles>(p, shared, work, work.first, v, cut);
        }
    }

    /* A weight of zero times NaN is NaN, so NaN and infinity leave the blocks of V in which some query does not see
     * every key. Queries that do see them get them at the end: see add_special. Values beyond a length are nobody's.
     * This is scanner 0 or 1. */
    template <class Tiles>
    GLINT_DEVICE void scan_values(const struct glint_gpu_forward_maps &p, uint32_t shared, uint32_t scanner, uint32_t blocks)
    {
        const uint32_t own_thread = 32 * scanner + lane_index();
        auto thread = [&]() {
            return Tiles::READS ? thread_index_anew() % 64 : own_thread;
        }; /* its registers are worth more in the loop */
        struct ring v = {0, 0}, cut = {0, 0}, t = {0, 0};
        work_t work;

        Tiles::note_faults(p, blocks, scanner);
        while (Tiles::template wait<true, true>(work, p, shared, t)) {
            if (BLIND && work.last < 0)
                write_nothing<HEAD_DIM>(p.base, work, Tiles::end_of_nothing(work, p.base, shared, t), sink_of(p.base, work.head_q),
                                        thread(), 64);
            for (int32_t block = work.last; block >= work.first; --block) {
                const uint32_t values = value_ring::tile(shared, v);

                if (!is_cut(work, block)) {
                    ring_skip<STAGES>(v, (uint32_t)(block - work.whole_from) + 1);
                    block = work.whole_from;
                    continue;
                }
                mbarrier_wait(v_cut<Tiles>(shared, cut.stage), cut.phase);
                ring_advance<STAGES>(cut);
                if (Tiles::READS &&
                    clear_rows<key_tile>(values, Tiles::mask(p.base, shared, t).seqlen_k - block * TILE_N, thread(), 64))
                    fence_async_shared();
                bool any = false;
                if (mask_t::RIGHT) {
                    const bool special =
                        sees_special < Tiles::READS ? 2 : 4 > (values, key_tile::bytes, thread(), 64, element::EXPONENT);

                    if (special) {
                        remove_special(values, key_tile::bytes, thread(), 64, element::EXPONENT);
                        fence_async_shared();
                    }
                    any = warp_any(special);
                }
                warp_sync();
                if (lane_index() == 0) {
                    if (mask_t::RIGHT)
                        st_shared_u32(found<Tiles>(shared, v.stage) + 4 * scanner, any);
                    mbarrier_arrive(value_ring::full(shared, v));
                }
                ring_advance<STAGES>(v);
            }
            Tiles::give_back(shared, t);
        }
    }

    /* ---- the warpgroups that compute ----------------------------------------------------------------------------- */

    template <class Tiles> GLINT_DEVICE void attend(const struct glint_gpu_forward_maps &p, uint32_t shared, uint32_t w)
    {
        const struct glint_gpu_shape &shape = p.base.shape;
        const float scale = staged::exponent_scale(shape);
        const bool first_lane = lane_index() == 0;
        struct ring q = {0, 0}, k = {0, 0}, v = {0, 0}, t = {0, 0};
        work_t work;
        struct softmax_rows rows;
        struct alibi_line line; /* of the tile's head, with ALiBi */
        const char *bias_rows;  /* of the warp's queries, with a bias by a tensor */
        float s[TILE_N / 2], o[HEAD_DIM / 2], factor[2] = {1.0f, 1.0f};
        uint32_t weights[TILE_N / 4];
        struct own_blocks own = {0, 0}; /* .last: whose weights are made and not yet used */
        uint32_t special = 0;           /* the first lane knows of NaN and infinities of this tile */

        /* Tiles whose queries see no key are the scanners'. */
        auto go_on = [&]() {
            bool any = Tiles::template wait<true, true>(work, p, shared, t);

            while (BLIND && any && work.last < 0) {
                Tiles::give_back(shared, t);
                any = Tiles::template wait<true, true>(work, p, shared, t);
            }
            return any;
        };
        auto query_of = [&](const work_t &of) { return of.query0 + 64 * (int32_t)w; };
        auto mask = [&]() { return Tiles::mask(p.base, shared, t); };
        bool more = go_on();
        bool begun = false; /* the tile's first scores and weights are made */
        bool faded = false; /* a block's weights are all 0 */

#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; ++i)
            o[i] = 0.0f;

        /* Powers of two of positive multiples: a negative scale goes into Q. */
        auto wait_queries = [&]() {
            query_ring::wait_full(shared, q);
            if (shape.scale_log2 < 0.0f)
                negate_slabs<query_tile>(query_ring::tile(shared, q) + w * query_tile::bytes, OWN + w);
        };
        auto wait_keys = [&]() { key_ring::wait_full(shared, k); };
        auto wait_values = [&]() { value_ring::wait_full(shared, v); };
        auto release_keys = [&]() {
            if (first_lane)
                mbarrier_arrive(key_ring::empty(shared, k));
            ring_advance<STAGES>(k);
        };
        auto release_values = [&]() {
            if (first_lane)
                mbarrier_arrive(value_ring::empty(shared, v));
            ring_advance<STAGES>(v);
        };
        /* S = Q K^T */
        auto begin_scores = [&]() {
            begin_rows_by_rows<element, query_tile, key_tile>(s, query_ring::tile(shared, q) + w * query_tile::bytes,
                                                              key_ring::tile(shared, k));
        };
        /* O += P V */
        auto begin_values = [&](int32_t add) {
            begin_weights_by_rows<element, key_tile>(o, weights, value_ring::tile(shared, v), add);
        };
        auto hold_all = [&]() {
            wgmma_hold(s, TILE_N / 2);
            wgmma_hold(o, HEAD_DIM / 2);
            wgmma_hold(weights, TILE_N / 4);
        };
        /* Warpgroups issue their products in turn, so that while one's exponentials are made the tensor cores have
         * another's work. */
        auto take_turn = [&]() {
            if (TURNS)
                named_sync(TURN + w, 256);
        };
        auto pass_turn = [&]() {
            if (TURNS)
                named_arrive(TURN + (w + 1) % WARPGROUPS, 256);
        };
        if (w == WARPGROUPS - 1)
            pass_turn();
        /* The scores of a block have been made: what they were made of may be loaded over, queries after block 0. */
        auto have_scores = [&](int32_t of_block) {
            wgmma_hold(s, TILE_N / 2);
            release_keys();
            if (of_block > own.first)
                return;
            if (first_lane)
                mbarrier_arrive(query_ring::empty(shared, q));
            ring_advance<Q_SLOTS>(q);
        };
        auto request_bias = [&](int32_t of_block) {
            if constexpr (staged::BYTES > 0)
                staged::request(p, shared + BIAS_AT, bias_rows, mask().seqlen_q - query_of(work), of_block * TILE_N,
                                mask().seqlen_k);
        };
        /* The weights of a block from its scores, unless they have faded; true if what was summed before is to be
         * rescaled. */
        auto soften = [&](int32_t of_block, auto which) {
            float shift[2];

            change_scores(s, score_t::of(p.base));
            if constexpr (staged::BYTES > 0) {
                staged::add(s, p, shared + BIAS_AT);
                if (of_block > own.first)
                    request_bias(of_block - 1);
            }
            hide_scores<TILE_N>(s, work, mask, query_of(work), of_block);
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
        /* The values of a block have been added. */
        auto have_values = [&](const work_t &of, int32_t of_block) {
            wgmma_hold(o, HEAD_DIM / 2);
            wgmma_hold(weights, TILE_N / 4);
            if (mask_t::RIGHT && is_cut(of, of_block) && first_lane)
                special |= ld_shared_u32(found<Tiles>(shared, v.stage)) | ld_shared_u32(found<Tiles>(shared, v.stage) + 4);
            release_values();
        };
        auto finish = [&](const work_t &of, const struct softmax_rows &of_rows, int32_t seqlen_q) {
            const uint32_t kept = Tiles::kept(shared);

            if (mask_t::RIGHT && warp_any(special != 0))
                add_special<element, TILE_N>(o, p.base, of, query_of(of), Tiles::mask_anew(p.base, of, kept),
                                             Tiles::first_key_anew(kept));
            special = 0;
            write_output<element, BELOW, bias_t>(o, of_rows, p.base, of, query_of(of), seqlen_q, [&](int32_t query) {
                return sees_some(Tiles::mask_anew(p.base, of, kept), query);
            });
        };
        /* A block whose keys no query of this warpgroup sees is only passed on: no lane looks for a stage's phase
         * when the next one may have begun. */
        auto pass_keys = [&]() {
            wait_keys();
            warp_sync();
            release_keys();
            take_turn();
            pass_turn();
        };
        auto pass_values = [&]() {
            wait_values();
            warp_sync();
            release_values();
        };
        auto find_blocks = [&]() {
            own = find_own<TILE_N>(work, mask(), query_of(work));
            if constexpr (bias_t::LINE) {
                const int32_t first_q = Tiles::first_query(shared, t);

                line = line_of(bias_t::at(p.base, work.head_q, {mask().seqlen_q - first_q, mask().seqlen_k, 0, 0}, first_q), mask(),
                               query_of(work), TILE_N);
            }
        };
        /* Once a tile. */
        auto begin_bias = [&]() {
            if constexpr (staged::BYTES > 0) {
                bias_rows = staged::rows_from(p, Tiles::number(p.base, work, work.query0), work.head_q,
                                              query_of(work) - Tiles::first_query(shared, t));
                request_bias(own.last);
            }
        };
        /* A tile's first scores, with nothing to overlap them. */
        auto begin_tile = [&]() {
            wait_queries();
            for (int32_t skipped = work.last; skipped > own.last; --skipped) {
                pass_keys();
                pass_values();
            }
            softmax_begin(rows);
            wait_keys();
            wgmma_hold(s, TILE_N / 2);
            begin_scores();
            wgmma_wait<0>();
            have_scores(own.last);
            soften(own.last, first_block());
            pack_weights<element>(weights, s);
        };
        if constexpr (staged::BYTES > 0) {
            if (more) {
                find_blocks();
                begin_bias();
            }
        }
        while (more) {
            if (!begun) {
                find_blocks();
                begin_tile();
            }
            int32_t add = 0;

#pragma unroll 1
            for (; own.last > own.first; --own.last, add = 1) {
                wait_keys();
                take_turn();
                hold_all();
                begin_scores();
                wait_values();
                begin_values(add);
                pass_turn();
                wgmma_wait<1>();
                have_scores(own.last - 1);
                const bool grown = soften(own.last - 1, later_block());
                if (bias_t::LINE && faded) {
                    wgmma_wait<0>();
                    have_values(work, own.last);
                    clear_weights(weights);
                    continue;
                }
                wgmma_wait<0>();
                have_values(work, own.last);
                pack_weights<element>(weights, s); /* before the branch: made in the gaps between exponentials */
                if (grown)
                    rescale<HEAD_DIM>(o, factor);
            }

            const work_t done = work;
            const struct softmax_rows done_rows = rows;
            const int32_t done_seqlen_q = mask().seqlen_q, done_block = mask_t::LEFT ? own.last : 0;
            /* blocks of this tile that others walk over still */
            const int32_t left = mask_t::LEFT ? own.last - work.first : 0;
            int32_t passed = left;
            /* The last values of this tile, with nothing to overlap them. */
            auto end_tile = [&](bool in_turn) {
                wait_values();
                if (in_turn)
                    take_turn();
                hold_all();
                begin_values(add);
                if (in_turn)
                    pass_turn();
                wgmma_wait<0>();
                have_values(done, done_block);
                for (int32_t i = 0; mask_t::LEFT && i < left; ++i) {
                    pass_keys();
                    pass_values();
                }
            };
            Tiles::keep(shared, t);
            Tiles::give_back(shared, t);

            /* The next tile is announced when the last keys of this one are on their way. For that this warpgroup is to
             * pass on blocks, if they are more than the ring has stages. The turn that it leaves out comes after. */
            const bool alone = MAY_BE_FAR && left > (int32_t)STAGES;
            if (alone)
                end_tile(false);
            more = go_on();
            if (more) {
                find_blocks();
                begin_bias();
                passed += work.last - own.last;
            }
            /* Keys may be ahead of values by all stages but one: with more, warpgroups would wait for each other.
             * Without a window all warpgroups of most tiles begin with the last block. */
            begun = more && !alone && passed < (mask_t::LEFT ? (int32_t)STAGES : 1);
            if (begun) { /* the last values of this tile, and the first scores of the next */
                for (int32_t i = 0; mask_t::LEFT && i < passed; ++i)
                    pass_keys();
                wait_queries();
                softmax_begin(rows);
                wait_keys();
                take_turn();
                hold_all();
                begin_scores();
                wait_values();
                begin_values(add);
                pass_turn();
                wgmma_wait<1>();
                have_scores(own.last);
                soften(own.last, first_block());
                wgmma_wait<0>();
                have_values(done, done_block);
                pack_weights<element>(weights, s);
                for (int32_t i = 0; mask_t::LEFT && i < passed; ++i)
                    pass_values();
            } else if (!alone) {
                end_tile(more);
            } else if (more) {
                take_turn();
                pass_turn();
            }
            finish(done, done_rows, done_seqlen_q);
        }
    }

    /* blocks: of the grid. */
    template <class Tiles> GLINT_DEVICE void run(const struct glint_gpu_forward_maps &p, const uint32_t blocks)
    {
        const uint32_t shared = shared_base(), warpgroup = warp_index() / 4;

        if (thread_index() == 0) {
            query_ring::init(shared, 1, 4 * WARPGROUPS);
            key_ring::init(shared, 1, 4 * WARPGROUPS);
            value_ring::init(shared, Tiles::SCANS ? 2 : 1, 4 * WARPGROUPS);
            Tiles::queue::init(shared, 4 * WARPGROUPS + (Tiles::SCANS ? 3 : 1));
            for (uint32_t i = 0; Tiles::SCANS && i < STAGES; ++i)
                mbarrier_init(v_cut<Tiles>(shared, i), 1);
            if (mask_t::INTERVALS)
                mbarrier_init(wanted<Tiles>(shared), 1);
            fence_mbarrier_init();
        }
        block_sync();
        if (warpgroup == WARPGROUPS) {
            registers_give<Variant::PRODUCER_REGISTERS>();
            const uint32_t warp = warp_index() % 4;

            if constexpr (
                /* one role each, by else: what one keeps in registers must not live through another's search */
                Tiles::SEARCHES) {
                if (warp == 0) {
                    if constexpr (mask_t::INTERVALS)
                        find_tiles<Tiles>(p, shared, blocks);
                    else
                        load_queries_and_keys<Tiles>(p, shared, blocks);
                } else if (warp == 1) {
                    if (lane_index() == 0) {
                        if constexpr (mask_t::INTERVALS)
                            load_all<Tiles>(p, shared);
                        else
                            load_all_values<Tiles>(p, shared);
                    }
                } else {
                    scan_values<Tiles>(p, shared, warp - 2, blocks);
                }
            } else {
                if (warp == 0 && lane_index() == 0)
                    load_queries_and_keys<Tiles>(p, shared, blocks);
                if (warp == 1 && lane_index() == 0)
                    load_all_values<Tiles>(p, shared);
                if (Tiles::SCANS && warp >= 2)
                    scan_values<Tiles>(p, shared, warp - 2, blocks);
            }
        } else {
            registers_take<Variant::REGISTERS>();
            attend<Tiles>(p, shared, warpgroup);
        }
    }
};

#endif
