/* Backward on sm_90a: dK and dV, and of a fused variant parts of dQ. A block owns TILE_N keys, a warpgroup OWN_ROWS of
 * them, and a third warpgroup loads and stores.
 *
 * Where lengths are read, key blocks are found by a search, tensor maps have the rows of all sequences, and so rows
 * beyond a sequence's end come with its last tiles: lib/device/warpgroup_sequences.h. With intervals a warp of a
 * block finds its steps for all: lib/device/warpgroup_key_intervals.h. */
#ifndef GLINT_DEVICE_WARPGROUP_KEYS_H
#define GLINT_DEVICE_WARPGROUP_KEYS_H

#include "lib/device/warpgroup_key_intervals.h"

/* Variant: the numbers of an emitted kernel. */
template <class Variant> struct key_kernel {
    typedef typename Variant::element element;
    typedef typename mask_of_keys<typename Variant::mask>::type mask_t;
    typedef step_lines<typename Variant::bias> lines;
    typedef typename lines::line line_t;
    enum {
        HEAD_DIM = Variant::HEAD_DIM,
        TILE_M = Variant::TILE_M,
        TILE_N = Variant::TILE_N,
        FUSED = Variant::FUSED,
        LINES = line_t::BYTES > 0,
        CAREFUL = FUSED && mask_t::RIGHT, /* keys that hold NaN or infinity may be hidden from a step's queries */
        /* a warpgroup makes dQ of all queries and half of the columns, or of half the queries */
        BY_COLUMNS = HEAD_DIM > 64,
        SHARED_COLUMNS = FUSED && BY_COLUMNS ? 128 - HEAD_DIM : 0, /* of dQ, that both warpgroups make */
        /* LSE and delta are read before the wait for what they go with: 1 % at 64 queries, a loss at 128 */
        EARLY = TILE_M == 64,
        /* words of a thread that hold columns of its own V, as many as spill nothing; lengths and lines take them */
        KEPT = !FUSED || mask_t::LEFT || (LINES && HEAD_DIM == 64) ? 0
               : HEAD_DIM == 96                                    ? 20
               : CAREFUL                                           ? 0
                                                                   : 8,
        STAGGERED = FUSED && staggering<mask_t, TILE_M, TILE_N>::wanted,
        WARPS = 8,  /* that compute */
        STAGES = 2, /* of Q and dO, of a fused variant's dS, and what leaves */
    };
    typedef slab_tile<OWN_ROWS, HEAD_DIM, Variant::WIDTH> own_tile; /* of K, V, dK, dV */
    typedef slab_tile<TILE_M, HEAD_DIM, Variant::WIDTH> query_tile; /* of Q, dO */
    typedef slab_tile<TILE_M, TILE_N, 128> ds_tile;                 /* dS: queries by keys */
    enum : uint32_t {
        /* a step's dQ in float32; dK or dV of a block */
        OUT_BYTES = FUSED ? TILE_M * HEAD_DIM * 4 : TILE_N * HEAD_DIM * 2,
        ROW_BYTES = TILE_M * 4, /* LSE, or delta, of a step */
        /* Bytes from the first warpgroup's columns, or queries, of dQ to the other one's. */
        DQ_APART = (BY_COLUMNS ? HEAD_DIM - 64 : HEAD_DIM) * OWN_ROWS * 4,
        /* dQ in a stage that its sums came to: a warpgroup's half lies where the sums were that it has read */
        ROUNDED_AT = 8192,
        SHARES = 2 * TILE_N * HEAD_DIM * 4 / OUT_BYTES, /* stages of OUT that dV and dK of a part take in float32 */
        OWN_BYTES = 2 * own_tile::bytes,
        V_AT = OWN_BYTES,
        Q_AT = V_AT + OWN_BYTES,
        DO_AT = Q_AT + STAGES * query_tile::bytes,
        OUT_AT = DO_AT + STAGES * query_tile::bytes,
        DS_AT = OUT_AT + STAGES * OUT_BYTES,
        LSE_AT = DS_AT + (FUSED ? STAGES * ds_tile::bytes : 0),
        DELTA_AT = LSE_AT + STAGES * ROW_BYTES,
        LINE_AT = DELTA_AT + STAGES * ROW_BYTES,
        BARRIERS_AT = LINE_AT + STAGES * line_t::BYTES,
    };

    /* Shared memory: tiles, then mbarriers. */
    typedef stage_ring<1, OWN_BYTES, 0, BARRIERS_AT> k_ring; /* of the block, the next one's behind it */
    typedef stage_ring<1, OWN_BYTES, V_AT, k_ring::end> v_ring;
    enum : uint32_t { CHECKED = v_ring::end }; /* K has been looked at */
    typedef stage_ring<STAGES, query_tile::bytes, Q_AT, CHECKED + 8> q_ring;
    typedef stage_ring<STAGES, query_tile::bytes, DO_AT, q_ring::end> do_ring;
    typedef stage_ring<STAGES, OUT_BYTES, OUT_AT, do_ring::end> out_ring;
    typedef stage_ring<STAGES, ds_tile::bytes, DS_AT, out_ring::end> ds_ring;
    enum : uint32_t {
        TURN_SEEN = ds_ring::end, /* what a stage's dQ is added to is complete */
        QUEUE_AT = TURN_SEEN + 8 * STAGES,
        SPECIAL_AT = tile_queue<QUEUE_AT>::end,    /* whether the block's keys hold NaN or infinity */
        UNITS_AT = (SPECIAL_AT + 8 + 15) / 16 * 16 /* where lengths are read, or intervals, in place of the queue */
    };
    /* Named barriers: a warpgroup's turn to multiply, two of them; both warpgroups; a warpgroup alone, two of them. */
    enum { TURN_BARRIER = 1, BOTH_BARRIER = 3, OWN_BARRIER = 4 };

    /* ---- which key block, as types: how the loader takes the next one, and what others know of it by a word, `at`.
     * READS: lengths. KEPT: `at` is where the queue has the block, until the reader gives it back. ANEW: a step reads
     * there what it needs, and keeps nothing. BY_WARP: all lanes of a warp look for the next block,
     * and another warp loads. */

    /* Blocks whose steps are of one block of queries after another. */
    struct in_a_row {
        typedef struct key_work work_t;

        GLINT_DEVICE struct plain_steps plain_steps_of(const mask_t &mask, const struct key_work &work)
        {
            return find_plain_steps<TILE_M, TILE_N>(mask, work);
        }
        GLINT_DEVICE void walk_on(const struct glint_gpu_call &, struct walk &walk, const struct key_work &work)
        {
            ::walk_on(walk, work);
        }
        GLINT_DEVICE struct walk step_before(const struct glint_gpu_call &, const struct walk &walk, const struct key_work &work)
        {
            return ::step_before(walk, work);
        }
        GLINT_DEVICE struct walk walk_at(const struct glint_gpu_call &, const struct key_work &work, int32_t step)
        {
            return ::walk_at(work, step);
        }
    };

    /* All sequences have the lengths of the call. `at` is a number of the key blocks of all key heads, head by head,
     * once for each part; of a split variant a block has one. */
    struct given : in_a_row {
        static constexpr bool READS = false, KEPT = false, ANEW = false, BY_WARP = false;
        /* Without a mask one block of keys rounds dQ of all queries: its steps have code of their own, and its sums
         * come by a copy to where its dQ leaves, up to two steps ahead. */
        static constexpr bool ROUNDS = FUSED && !CAREFUL;
        typedef tile_queue<QUEUE_AT> queue;

        struct numbers {
            struct key_order order;
            uint32_t own;
        };

        GLINT_DEVICE struct numbers begin(const struct glint_gpu_call &p)
        {
            if constexpr (STAGGERED)
                return {staggered_order(&p.shape, TILE_N, p.parts), block_index()};
            else
                return {plain_order(&p.shape, TILE_N, FUSED ? p.parts : 1), block_index()};
        }
        /* The next number that is a block's. Without queries no kernel has cleared the counter; nor does any block
         * wait for another. */
        GLINT_DEVICE uint32_t take(const struct glint_gpu_call &p, struct numbers &numbers)
        {
            const uint32_t number = !FUSED || p.shape.seqlen_q <= 0 ? numbers.own : atom_global_add_u32(p.turn, 1);

            numbers.own += FUSED ? p.blocks[2] : numbers.order.numbers;
            return number;
        }
        /* Announces what the block works on next; false after the last. By the one thread that loads. The block
         * takes a number when it gets there, so it waits only for such as are worked on or done. */
        GLINT_DEVICE bool next(const struct glint_gpu_backward_maps &p, uint32_t shared, uint32_t turn, struct numbers &numbers,
                               uint32_t &at)
        {
            struct block_place place = {0, 0};
            uint32_t number = take(p.base, numbers);

            while (number < numbers.order.numbers && (place = place_in_order(numbers.order, number)).index < 0)
                number = take(p.base, numbers);
            at = number < numbers.order.numbers ? (uint32_t)place.head * numbers.order.blocks + (uint32_t)place.index
                                                : (uint32_t)NO_WORK;
            queue::announce(shared, ring_at(turn), at);
            return number < numbers.order.numbers;
        }
        GLINT_DEVICE bool is_end(uint32_t at)
        {
            return at == (uint32_t)NO_WORK;
        }
        GLINT_DEVICE mask_t mask(const struct glint_gpu_call &p, uint32_t)
        {
            return mask_of_call<mask_t>(p.shape);
        }
        GLINT_DEVICE struct key_work find(const struct glint_gpu_call &p, uint32_t at)
        {
            const uint32_t blocks = ((uint32_t)p.shape.seqlen_k + TILE_N - 1) / TILE_N, nth = at / blocks;
            const uint32_t heads = (uint32_t)(p.shape.batch * p.shape.heads_kv), part = FUSED ? nth / heads : 0;
            struct key_work work =
                find_keys<TILE_M, TILE_N>(p.shape, mask(p, at), {(int32_t)(at - nth * blocks), (int32_t)(nth - part * heads)});

            if (FUSED)
                take_part(work, p, (int32_t)part);
            return work;
        }
        GLINT_DEVICE int32_t parts(const struct glint_gpu_call &p, uint32_t)
        {
            return p.parts;
        }
        GLINT_DEVICE struct key_place key_sum(const struct glint_gpu_call &p, const struct key_work &work, uint32_t, int32_t share)
        {
            return find_key_sum<SHARES, OUT_BYTES / 4>(p, block_in_sums<TILE_N>(p, work), share);
        }
    };

    /* Ragged sequences, or those of a padded batch. `at` is where the queue has the block's unit, until the reader
     * gives it back. */
    struct sequences : in_a_row {
        static constexpr bool READS = true, KEPT = true, BY_WARP = false, ROUNDS = FUSED && !CAREFUL;
        static constexpr bool ANEW = mask_t::LEFT && HEAD_DIM > 96; /* windows there lack a register */
        typedef unit_queue<UNITS_AT> queue;
        struct numbers {
        };

        GLINT_DEVICE struct numbers begin(const struct glint_gpu_call &)
        {
            return {};
        }
        GLINT_DEVICE bool next(const struct glint_gpu_backward_maps &p, uint32_t shared, uint32_t turn, struct numbers &,
                               uint32_t &at)
        {
            const uint32_t number = atom_global_add_u32(p.base.turn, 1);

            queue::announce(shared, ring_at(turn), p.base.units.unit + (int64_t)number * GLINT_GPU_UNIT_WORDS);
            at = queue::wait(shared, ring_at(turn));
            return !is_end(at);
        }
        GLINT_DEVICE bool is_end(uint32_t at)
        {
            return is_end_of_keys(at);
        }
        GLINT_DEVICE mask_t mask(const struct glint_gpu_call &, uint32_t at)
        {
            return get_mask<mask_t>(at);
        }
        GLINT_DEVICE struct key_work find(const struct glint_gpu_call &, uint32_t at)
        {
            return work_of_slot<TILE_M, TILE_N, mask_t>(at);
        }
        GLINT_DEVICE int32_t parts(const struct glint_gpu_call &, uint32_t at)
        {
            return parts_of_slot(at);
        }
        GLINT_DEVICE struct key_place key_sum(const struct glint_gpu_call &p, const struct key_work &, uint32_t at, int32_t share)
        {
            return find_key_sum<SHARES, OUT_BYTES / 4>(p, block_of_slot(at), share);
        }
    };

    /* Each query has an interval. READS: of sequences as above, else of the call's lengths. */
    template <bool READS_> struct with_intervals {
        static constexpr bool READS = READS_, KEPT = true, ANEW = true, BY_WARP = true, ROUNDS = false;
        typedef struct interval_work work_t;
        typedef struct interval_slot_of_keys<READS> slot_t;
        typedef interval_queue<UNITS_AT, READS> queue;
        typedef typename given::numbers numbers;

        GLINT_DEVICE numbers begin(const struct glint_gpu_call &p)
        {
            if constexpr (READS)
                return {};
            else
                return given::begin(p);
        }
        /* The block of a number, without its steps; NO_WORK beyond the last one. */
        GLINT_DEVICE struct interval_work work_of(const struct glint_gpu_call &p, const numbers &numbers, uint32_t number,
                                                  struct unit_rest &rest)
        {
            const struct glint_gpu_shape &shape = p.shape;
            struct interval_work work = {};

            if constexpr (READS)
                return work_of_unit(p.units.unit + (int64_t)number * GLINT_GPU_UNIT_WORDS, rest);
            work.key0 = NO_WORK;
            if (number >= numbers.order.numbers)
                return work;
            const struct block_place place = find_place(number, numbers.order.blocks, numbers.order.heads, numbers.order.columns);
            const int32_t heads = shape.batch * shape.heads_kv, part = place.head / heads, head = place.head - part * heads;

            rest.seqlen_q = shape.seqlen_q;
            work.batch = head / shape.heads_kv;
            work.head_kv = head - work.batch * shape.heads_kv;
            work.key0 = place.index * TILE_N;
            work.head0 = work.head_kv * shape.group;
            work.group = shape.group;
            take_part(work, p, part);
            return work;
        }
        GLINT_DEVICE bool next(const struct glint_gpu_backward_maps &p, uint32_t shared, uint32_t turn, numbers &numbers,
                               uint32_t &at)
        {
            const bool tells = lane_index() == 0;
            struct unit_rest rest = {};
            uint32_t number = 0;

            if (tells)
                number = READS ? atom_global_add_u32(p.base.turn, 1) : given::take(p.base, numbers);
            struct interval_work work = work_of(p.base, numbers, of_first_lane(number), rest);

            if (work.key0 != NO_WORK)
                find_interval_steps<TILE_M, TILE_N, LATE>(work, p.base, rest.seqlen_q);
            if (tells)
                queue::announce(shared, ring_at(turn), work, rest);
            warp_sync();
            at = queue::wait(shared, ring_at(turn));
            return work.key0 != NO_WORK;
        }
        GLINT_DEVICE bool is_end(uint32_t at)
        {
            return ld_shared_u32(at) == (uint32_t)NO_WORK;
        }
        GLINT_DEVICE mask_t mask(const struct glint_gpu_call &p, uint32_t at)
        {
            int64_t row = (int64_t)ld_shared_u32(at + slot_t::BATCH_AT) * p.padded_q;

            if constexpr (!READS)
                return {p.row_keys + row * 2, p.shape.seqlen_q, p.shape.seqlen_k};
            row += (int32_t)ld_shared_u32(at + slot_t::PADDED_AT);
            return {p.row_keys + row * 2, (int32_t)ld_shared_u32(at + slot_t::SEQUENCE_AT),
                    (int32_t)ld_shared_u32(at + slot_t::SEQUENCE_AT + 4)};
        }
        GLINT_DEVICE struct interval_work find(const struct glint_gpu_call &, uint32_t at)
        {
            return slot_t::get(at);
        }
        GLINT_DEVICE struct plain_steps plain_steps_of(const mask_t &mask, const struct interval_work &work)
        {
            struct plain_steps plain = work.plain;

            if (is_partial<TILE_M>(mask, work.last))
                plain.first = max(plain.first, work.group);
            return plain;
        }
        GLINT_DEVICE void walk_on(const struct glint_gpu_call &p, struct walk &walk, const struct interval_work &work)
        {
            ::walk_on<TILE_M, TILE_N>(p, walk, work);
        }
        GLINT_DEVICE struct walk step_before(const struct glint_gpu_call &p, const struct walk &walk,
                                             const struct interval_work &work)
        {
            return ::step_before<TILE_M, TILE_N>(p, walk, work);
        }
        GLINT_DEVICE struct walk walk_at(const struct glint_gpu_call &p, const struct interval_work &work, int32_t step)
        {
            return ::walk_at<TILE_M, TILE_N>(p, work, step);
        }
        GLINT_DEVICE int32_t parts(const struct glint_gpu_call &p, uint32_t at)
        {
            return READS ? (int32_t)ld_shared_u32(at + slot_t::PARTS_AT) : p.parts;
        }
        GLINT_DEVICE struct key_place key_sum(const struct glint_gpu_call &p, const struct key_work &work, uint32_t at,
                                              int32_t share)
        {
            const int64_t block = READS ? (int32_t)ld_shared_u32(at + slot_t::BLOCK_AT) : block_in_sums<TILE_N>(p, work);

            return find_key_sum<SHARES, OUT_BYTES / 4>(p, block, share);
        }
    };

    /* ---- the warpgroup that loads and stores --------------------------------------------------------------------- */

    /* The block's K or V. */
    template <class ring_of>
    GLINT_DEVICE void load_own(const struct tensor_map *map, const struct key_work &work, uint32_t shared, uint32_t turn)
    {
        const struct ring own = {0, turn % 2};

        ring_of::begin_fill(shared, own);
        for (uint32_t half = 0; half < 2; ++half)
            load_tile<own_tile>(ring_of::tile(shared, own) + half * own_tile::bytes, map,
                                work.first_k + work.key0 + half * OWN_ROWS, work.head_kv, work.batch, ring_of::full(shared, own),
                                GLINT_L2_EVICT_FIRST);
    }

    /* A step's Q, with LSE and its line. */
    template <class Blocks>
    GLINT_DEVICE void load_queries(const struct glint_gpu_backward_maps &p, uint32_t shared, uint32_t at,
                                   const typename Blocks::work_t &work, const struct walk &walk, const struct ring &queries)
    {
        const float *lse = p.base.lse_log2 + row_of_step<TILE_M>(p.base, work, walk);

        load_step<q_ring, query_tile>(
            &p.map[MAP_Q], lse, LSE_AT, walk, work, shared, queries,
            lines::of(p.base, walk.head, Blocks::mask(p.base, at), walk.m * TILE_M, TILE_M, work.key0, TILE_N), LINE_AT);
    }

    /* Two warps load for the block, a thread each: K and Q with LSE, V and dO with delta. The first one finds what
     * the block works on. */
    template <class Blocks> GLINT_DEVICE void load_keys(const struct glint_gpu_backward_maps &p, uint32_t shared)
    {
        typename Blocks::numbers numbers = Blocks::begin(p.base);
        struct ring queries = {0, 0};
        uint32_t at;

        for (uint32_t turn = 0; Blocks::next(p, shared, turn, numbers, at); ++turn) {
            typename Blocks::work_t work = Blocks::find(p.base, at);
            struct walk walk = walk_begin(work);

#pragma unroll 1
            for (int32_t left = work.steps; left > 0; --left) {
                load_queries<Blocks>(p, shared, at, work, walk, queries);
                if (left == work.steps)
                    load_own<k_ring>(&p.map[MAP_K], work, shared, turn);
                Blocks::walk_on(p.base, walk, work);
                ring_advance<STAGES>(queries);
                if (Blocks::KEPT)
                    work = Blocks::find(p.base, at); /* made anew: a loader has few registers */
            }
            if (work.steps == 0) {
                k_ring::wait_empty(shared, {0, turn % 2});
                mbarrier_arrive(shared + k_ring::full_at);
            }
        }
    }

    /* Whether a block's K holds NaN or infinity in its first `keys` rows; by a warp. */
    template <class Blocks> GLINT_DEVICE bool holds_special_keys(uint32_t shared, int32_t keys)
    {
        return warp_any(Blocks::READS ? own_rows_special<element, own_tile>(shared, keys)
                                      : sees_special(shared, OWN_BYTES, lane_index(), 32, element::EXPONENT));
    }

    /* Says that K has been looked at; by one thread. Others may have no use for the answer, and no phase goes without
     * a wait. */
    GLINT_DEVICE void tell_checked(uint32_t shared, uint32_t turn)
    {
        mbarrier_arrive(shared + CHECKED);
        mbarrier_wait(shared + CHECKED, turn % 2);
        mbarrier_arrive(shared + k_ring::empty_at);
    }

    /* All lanes come here. Of a careful variant they also look for NaN and infinity in K, which must not meet a dS
     * of zero where the mask hides them. */
    template <class Blocks> GLINT_DEVICE void load_values(const struct glint_gpu_backward_maps &p, uint32_t shared)
    {
        const bool first_lane = lane_index() == 0;
        struct ring queries = {0, 0};

        for (uint32_t turn = 0;; ++turn) {
            const uint32_t at = Blocks::queue::wait(shared, ring_at(turn));

            if (Blocks::is_end(at))
                return;
            const typename Blocks::work_t work = Blocks::find(p.base, at);
            const int32_t keys =
                /* beyond them are another sequence's, or nobody's */
                Blocks::mask(p.base, at).seqlen_k - work.key0;
            struct walk walk = walk_begin(work);

            warp_sync();
            if (first_lane)
                Blocks::queue::release(shared, ring_at(turn));
            for (int32_t step = 0; step < work.steps; ++step) {
                if (first_lane) {
                    load_step<do_ring, query_tile>(&p.map[MAP_DOUT], p.base.delta + row_of_step<TILE_M>(p.base, work, walk),
                                                   DELTA_AT, walk, work, shared, queries);
                    if (step == 0)
                        load_own<v_ring>(&p.map[MAP_V], work, shared, turn);
                }
                if (CAREFUL && step == (work.steps > 1)) {
                    bool special = false;

                    k_ring::wait_full(shared, {0, turn % 2});
                    if (work.first < work.clear_from || (mask_t::LEFT && is_cut<mask_t>(work, work.last)))
                        special = holds_special_keys<Blocks>(shared, keys);
                    warp_sync();
                    if (first_lane) {
                        st_shared_u32(shared + SPECIAL_AT, special);
                        tell_checked(shared, turn);
                    }
                }
                Blocks::walk_on(p.base, walk, work);
                ring_advance<STAGES>(queries);
            }
            if (work.steps == 0 && first_lane) {
                v_ring::wait_empty(shared, {0, turn % 2});
                mbarrier_arrive(shared + v_ring::full_at);
                if (CAREFUL) {
                    k_ring::wait_full(shared, {0, turn % 2}); /* not before the turn has come */
                    tell_checked(shared, turn);
                }
            }
        }
    }

    /* Looks for NaN and infinity in a block's K, which must not meet a dS of zero where they are hidden. By a warp. */
    template <class Blocks>
    GLINT_DEVICE void look_at_keys(const struct glint_gpu_backward_maps &p, uint32_t shared, uint32_t at, uint32_t turn)
    {
        const typename Blocks::work_t work = Blocks::find(p.base, at);
        const int32_t keys = Blocks::mask(p.base, at).seqlen_k - work.key0; /* others are nobody's */
        bool special = false;

        k_ring::wait_full(shared, {0, turn % 2});
        if (work.steps > 0 && (work.first < work.clear_from || is_cut<mask_t>(work, work.last)))
            special = holds_special_keys<Blocks>(shared, keys);
        warp_sync();
        if (lane_index() == 0) {
            st_shared_u32(shared + SPECIAL_AT, special);
            tell_checked(shared, turn);
        }
    }

    /* Where queries have intervals, the steps of a block of keys take as long to find as several steps do. So one
     * warp finds them, and looks at K, while a thread of another one loads, which wants the next block AHEAD steps
     * before the last one. Of few steps it wants it with the last one, and if LATE when the last Q has been used up: a
     * block that waits for its turn at work keeps others waiting for their turn at dQ. At head_dim 64 that is 8 % for
     * chunks of 1,024 keys, and at 128 a loss of 10 %. The count for that stands where other kernels' queue is. */
    enum { AHEAD = 4, WANTED = QUEUE_AT };
    static constexpr bool LATE = HEAD_DIM == 64;
    template <class Blocks> GLINT_DEVICE void find_blocks(const struct glint_gpu_backward_maps &p, uint32_t shared)
    {
        typename Blocks::numbers numbers = Blocks::begin(p.base);
        uint32_t at;

        for (uint32_t turn = 0; Blocks::next(p, shared, turn, numbers, at); ++turn) {
            look_at_keys<Blocks>(p, shared, at, turn);
            mbarrier_wait(shared + WANTED, turn % 2);
        }
    }

    /* In the order in which stages are given back: dO of a step before Q. */
    template <class Blocks> GLINT_DEVICE void load_all(const struct glint_gpu_backward_maps &p, uint32_t shared)
    {
        struct ring queries = {0, 0};

        for (uint32_t turn = 0;; ++turn) {
            const uint32_t at = Blocks::queue::wait(shared, ring_at(turn));

            if (Blocks::is_end(at))
                return;
            typename Blocks::work_t work = Blocks::find(p.base, at);
            struct walk walk = walk_begin(work);

#pragma unroll 1
            for (int32_t left = work.steps; left > 0; --left) {
                const bool few = work.steps < 4 * AHEAD;

                if (LATE ? left == AHEAD + 1 && !few : left == (few ? 1 : AHEAD + 1))
                    mbarrier_arrive(shared + WANTED);
                load_step<do_ring, query_tile>(&p.map[MAP_DOUT], p.base.delta + row_of_step<TILE_M>(p.base, work, walk), DELTA_AT,
                                               walk, work, shared, queries);
                load_queries<Blocks>(p, shared, at, work, walk, queries);
                if (left == work.steps) {
                    load_own<v_ring>(&p.map[MAP_V], work, shared, turn);
                    load_own<k_ring>(&p.map[MAP_K], work, shared, turn);
                }
                Blocks::walk_on(p.base, walk, work);
                ring_advance<STAGES>(queries);
                work = Blocks::find(p.base, at); /* made anew: a loader has few registers */
            }
            if (LATE && work.steps > 0 && work.steps < 4 * AHEAD) {
                struct ring last = queries;

                ring_advance<STAGES>(last); /* of two stages: the one that the last step has */
                q_ring::wait_empty(shared, last);
                mbarrier_arrive(shared + WANTED);
            }
            if (work.steps == 0) {
                mbarrier_arrive(shared + WANTED);
                v_ring::wait_empty(shared, {0, turn % 2});
                mbarrier_arrive(shared + v_ring::full_at);
                k_ring::wait_empty(shared, {0, turn % 2});
                mbarrier_arrive(shared + k_ring::full_at);
            }
            Blocks::queue::release(shared, ring_at(turn));
        }
    }

    /* Takes to memory what the warpgroups leave in the stages of OUT: of a fused variant each step's dQ, then dV and
     * dK. One thread for each stage, so that the next dQ is on its way while this one waits for its turn; where
     * lengths are read, a warp. */
    template <class Blocks> GLINT_DEVICE void store(const struct glint_gpu_backward_maps &p, uint32_t shared, const uint32_t stage)
    {
        const bool first_lane = !Blocks::READS || lane_index() == 0;
        struct ring own = {stage, 0};
        const uint32_t out = out_ring::tile(shared, own);
        bool mine = stage == 0; /* what leaves next */

        auto wait = [&]() {
            if (first_lane)
                out_ring::wait_full(shared, own);
            own.phase ^= 1;
        };
        auto give_back = [&]() {
            bulk_commit();
            bulk_wait_read<0>();
            mbarrier_arrive(out_ring::empty(shared, own));
        };
        /* A tile that a sequence fills leaves by one copy, the rows of another one by ordinary stores of all lanes,
         * one of which has waited for the stage. */
        auto leave = [&](auto tile, const struct tensor_map *map, const struct glint_gpu_view &view, int32_t row, int32_t head,
                         int32_t batch, int32_t rows, const int32_t tile_rows, uint32_t from) {
            if (Blocks::READS && rows < tile_rows) {
                warp_sync();
                store_rows<decltype(tile)>(view, batch, head, row, rows, from);
                warp_sync();
            } else if (first_lane)
                for (int32_t at = 0; at < tile_rows; at += decltype(tile)::rows)
                    store_tile<decltype(tile)>(map, row + at, head, batch,
                                               from + at / decltype(tile)::rows * decltype(tile)::bytes);
        };
        /* To a sum in float32, after those whose turn comes before. */
        auto add = [&](float *sum, uint32_t *turn, bool is_first, uint32_t before) {
            if (is_first)
                bulk_store(sum, out, OUT_BYTES);
            else {
                turn_wait(turn, before);
                bulk_reduce_add_f32(sum, out, OUT_BYTES);
            }
        };

        for (uint32_t turn = 0;; ++turn) {
            const uint32_t at = Blocks::queue::wait(shared, ring_at(turn));

            if (Blocks::is_end(at))
                break;
            if (!Blocks::KEPT)
                Blocks::queue::release(shared, ring_at(turn));
            const typename Blocks::work_t first = Blocks::find(p.base, at);
            const uint32_t part = (uint32_t)first.part, last_part = FUSED ? (uint32_t)Blocks::parts(p.base, at) - 1 : 0;
            struct walk walk = walk_begin(first);
            /* A warp has few registers where lengths are read. A thread has them, and a step's turn waits for it. */
            auto anew = [&]() { return Blocks::KEPT ? Blocks::find(p.base, at) : first; };

#pragma unroll 1
            for (int32_t left = FUSED ? first.steps : 0; left > 0; --left, mine = !mine) {
                const typename Blocks::work_t work = anew();
                const mask_t mask = Blocks::mask(p.base, at);
                const struct walk here = walk;

                Blocks::walk_on(p.base, walk, work);
                if (!mine)
                    continue;
                const struct dq_place dq = find_dq<TILE_M, TILE_N, HEAD_DIM>(p.base, mask, work, here);

                if (first_lane && dq.last && !dq.first) {
                    turn_wait(dq.turn, (uint32_t)work.key0);
                    if (Blocks::ROUNDS)
                        bring_sum(out, dq.sum, OUT_BYTES, shared + TURN_SEEN + 8 * stage);
                    else
                        mbarrier_arrive(shared + TURN_SEEN + 8 * stage);
                }
                wait();
                if (dq.last)
                    leave(query_tile{}, &p.map[MAP_DQ], p.base.dq, work.first_q + here.m * TILE_M, here.head, work.batch,
                          mask.seqlen_q - here.m * TILE_M, TILE_M, out + (Blocks::ROUNDS ? ROUNDED_AT : 0));
                else if (first_lane)
                    add(dq.sum, dq.turn, dq.first, (uint32_t)work.key0);
                if (first_lane) {
                    give_back();
                    if (!dq.last)
                        turn_pass(dq.turn, (uint32_t)(work.key0 + TILE_N));
                }
            }
            const struct key_work work = anew();
            auto sum_of = [&](int32_t share) { return Blocks::key_sum(p.base, work, at, share); };

            if constexpr (FUSED) { /* of a part that is not the last: float32, to the sums */
                for (int share = 0; share < (int)SHARES && part < last_part; ++share, mine = !mine) {
                    if (!mine)
                        continue;
                    const struct key_place place = sum_of(share);

                    wait();
                    if (!first_lane)
                        continue;
                    add(place.sum, place.turn, part == 0, part);
                    give_back();
                    turn_pass(place.turn, part + 1);
                }
            }
#pragma unroll 1
            for (int which = 0; which < 2 && part == last_part; ++which, mine = !mine) {
                if (!mine)
                    continue;
                if (FUSED && first_lane && part > 0) {
                    for (int share = 0; share < (int)SHARES / 2; ++share)
                        turn_wait(sum_of(which * ((int)SHARES / 2) + share).turn, part);
                    mbarrier_arrive(shared + TURN_SEEN + 8 * stage);
                }
                wait();
                leave(own_tile{}, which == 0 ? &p.map[MAP_DV] : &p.map[MAP_DK], which == 0 ? p.base.dv : p.base.dk,
                      work.first_k + work.key0, work.head_kv, work.batch, Blocks::mask(p.base, at).seqlen_k - work.key0, TILE_N,
                      out);
                if (first_lane)
                    give_back();
            }
            if (Blocks::READS)
                warp_sync();
            if (Blocks::KEPT && first_lane)
                Blocks::queue::release(shared, ring_at(turn));
        }
        bulk_wait<0>();
    }

    /* ---- the warpgroups that compute ----------------------------------------------------------------------------- */

    template <class Blocks> GLINT_DEVICE void attend(const struct glint_gpu_backward_maps &p, uint32_t shared)
    {
        const uint32_t warpgroup = warp_index() / 4 - 1, own = warpgroup * own_tile::bytes, lane = lane_index();
        const struct glint_gpu_shape &shape = p.base.shape;
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
            uint32_t at =
                /* where it is kept, given back when the block is done */
                Blocks::queue::wait(shared, ring_at(turn));

            if (Blocks::is_end(at))
                return;
            if (!Blocks::KEPT)
                arrive(Blocks::queue::slots::empty(shared, ring_at(turn)));
            auto mask = [&]() { return Blocks::mask(p.base, at); };
            typename Blocks::work_t work = Blocks::find(p.base, at);
            struct plain_steps plain = Blocks::plain_steps_of(mask(), work);
            struct walk walk = walk_begin(work);
            float dq[32];

            /* What is known of the block, or, where a step has no registers for that, what waits of it. */
            auto known = [&]() {
                if constexpr (Blocks::ANEW)
                    return Blocks::find(p.base, at);
                else
                    return work;
            };

#pragma unroll
            for (int i = 0; i < HEAD_DIM / 2; ++i)
                dk[i] = dv[i] = 0.0f;
            auto send_out = [&]() { /* a stage of OUT that all have written */
                                    fence_async_shared();
                                    arrive(out_ring::full(shared, out));
                                    ring_advance<STAGES>(out);
            };
            /* Where the block is kept, or steps have lines, in the highest bits of the turn: a register less. */
            constexpr uint32_t SEEN_AT = Blocks::KEPT || LINES ? 30 : 0;
            uint32_t &seen_in = Blocks::KEPT || LINES ? turn : seen;
            auto wait_turn_seen = [&]() {
                mbarrier_wait(shared + TURN_SEEN + 8 * out.stage, seen_in >> (SEEN_AT + out.stage) & 1);
                seen_in ^= 1u << (SEEN_AT + out.stage);
            };
            /* dQ of the step before: from registers to a stage of OUT. */
            auto leave_dq = [&](auto kind) {
                struct dq_place place = {};
                const uint32_t to = out_ring::tile(shared, out), thread = thread_index_anew() % 128;
                const uint32_t rounded = to + (Blocks::ROUNDS ? ROUNDED_AT : 0), sums = to + warpgroup * DQ_APART + thread * 16;

                if (!kind.plain)
                    place = find_dq<TILE_M, TILE_N, HEAD_DIM>(p.base, mask(), known(), Blocks::step_before(p.base, walk, known()));
                if (kind.rounds)
                    place.first = work.key0 == 0, place.last = true;
                out_ring::wait_empty(shared, out);
                if (!place.last) {
#pragma unroll
                    for (int i = 0; i < 8; ++i)
                        if (8 * i >= SHARED_COLUMNS || warpgroup == 0)
                            st_shared_floats(sums + i * 2048, dq + 4 * i);
                } else {
                    if (!place.first) {
                        wait_turn_seen();
                        if constexpr (Blocks::ROUNDS) {
#pragma unroll
                            for (int i = 0; i < 8; ++i)
                                /* What the second warpgroup does not store it adds some sum to: without a branch,
                                 * which at head_dim 96 made ptxas serialize all products. */
                                add_shared_floats(
                                    dq + 4 * i, sums + (8 * i >= SHARED_COLUMNS || warpgroup == 0 ? i : SHARED_COLUMNS / 8) * 2048);
                            named_sync(OWN_BARRIER + warpgroup, 128); /* all have read what is stored over */
                        } else {
                            add_summed(dq, place.sum + warpgroup * (DQ_APART / 4) + thread * 4);
                        }
                    }
                    store_rounded<element, query_tile>(rounded + (BY_COLUMNS ? warpgroup * query_tile::slab_bytes : 0),
                                                       BY_COLUMNS ? 0 : warpgroup * OWN_ROWS, dq, shape.softmax_scale,
                                                       warpgroup * SHARED_COLUMNS);
                }
                send_out();
            };
            /* Where the mask hides keys of the step before that hold NaN or infinity, these leave K for the while of
             * its dQ. Queries that see such a key get NaN: S is infinite or NaN there, so P and dS are 0 or NaN. */
            auto careful_before = [&]() {
                if (!CAREFUL || !is_cut<mask_t>(known(), Blocks::step_before(p.base, walk, known()).m))
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
                const int32_t query = Blocks::step_before(p.base, walk, known()).m * TILE_M +
                                      (int32_t)((BY_COLUMNS ? 0 : warpgroup * OWN_ROWS) + row);
                const mask_t own_mask = mask();
                const struct glint_gpu_view keys = view_from(p.base.k, work.first_k);

                named_sync(BOTH_BARRIER, 32 * WARPS);
                reload_tile<own_tile>(shared, &keys, work.batch, work.head_kv, work.key0, own_mask.seqlen_k, 2, thread, 32 * WARPS);
                fence_async_shared();
                named_sync(BOTH_BARRIER, 32 * WARPS);
#pragma unroll 1
                for (uint32_t i = 0; i < TILE_N; ++i)
                    add_special_row<element, own_tile>(dq, shared + i / OWN_ROWS * own_tile::bytes, i % OWN_ROWS,
                                                       BY_COLUMNS ? warpgroup * ((HEAD_DIM - 64) / 8) : 0, 0.0f, [&](int side) {
                                                           return sees(own_mask, query + 8 * side, work.key0 + (int32_t)i);
                                                       });
            };
            /* dQ of the step before: half of the columns, or queries, for each warpgroup. Of fewer columns than 128,
             * 64 for each: both make the SHARED_COLUMNS in the middle, which the first one keeps: an operand begins
             * at a slab, and wgmma is one instruction for both. */
            auto begin_dq = [&](const struct ring &before) {
                const uint32_t ds = ds_ring::tile(shared, before) + (BY_COLUMNS ? 0 : warpgroup * (OWN_ROWS * 128));

                wgmma_hold(dq, 32);
                begin_tile_by_rows<element, ds_tile, own_tile, 64>(dq, ds,
                                                                   shared + (BY_COLUMNS ? warpgroup * own_tile::slab_bytes : 0));
            };
            k_ring::wait_full(shared, {0, turn % 2});
            v_ring::wait_full(shared, {0, turn % 2});
            /* Keys beyond the end are nobody's, or another sequence's. Their dS is zero, which must not meet a NaN. */
            if (Blocks::READS && work.steps > 0 && clear_own_rows<own_tile, 2>(shared, mask().seqlen_k - work.key0, 32 * WARPS)) {
                fence_async_shared();
                named_sync(BOTH_BARRIER, 32 * WARPS);
            }
            uint32_t kept_v[KEPT > 0 ? KEPT : 1];
            auto keep = [&]() {
                if constexpr (KEPT > 0 && !Blocks::READS)
                    keep_rows<own_tile>(kept_v, shared + V_AT + own, lane, warp_index() % 4);
            };
            /* Of a fused variant compiled twice, or three times where some steps round: plain ones, which nearly all
             * are, have no code for masks, NaN and the rounding of dQ. */
            auto make_step = [&](auto kind, int32_t step) {
                const bool ends = !kind.plain && is_partial<TILE_M>(mask(), walk.m); /* within the step's queries */
                const bool cut = !kind.plain && is_cut<mask_t>(known(), walk.m), masked = ends || cut;
                const uint32_t q = q_ring::tile(shared, queries), dout = do_ring::tile(shared, queries);
                const uint32_t lse = shared + LSE_AT + queries.stage * ROW_BYTES,
                               delta = shared + DELTA_AT + queries.stage * ROW_BYTES;
                /* the column made anew is a register less */
                constexpr bool made_anew = Blocks::READS ? Blocks::ROUNDS : LINES && !mask_t::INTERVALS;
                const uint32_t column = (made_anew ? thread_index_anew() : lane) % 4 * 8;
                float s[TILE_M / 2], dp[TILE_M / 2], rows[TILE_M / 8][2];
                uint32_t p_words[TILE_M / 4], ds_words[TILE_M / 4];
                struct sight<mask_t, TILE_M> sight;

                /* S^T = K Q^T, dP^T = V dO^T */
                if (Blocks::ANEW)
                    wgmma_hold(&shared, 1); /* addresses that are made of it once for all steps take registers */
                q_ring::wait_full(shared, queries);
                if (Blocks::READS && ends) { /* what is in rows beyond the last query must not meet a P or dS of zero */
                    const int32_t left = mask().seqlen_q - walk.m * TILE_M;

                    do_ring::wait_full(shared, queries);
                    clear_own_rows<query_tile, 1>(q, left, 32 * WARPS);
                    clear_own_rows<query_tile, 1>(dout, left, 32 * WARPS);
                    fence_async_shared();
                    named_sync(BOTH_BARRIER, 32 * WARPS);
                }
                wgmma_hold(s, TILE_M / 2);
                begin_rows_by_rows<element, own_tile, query_tile>(s, shared + own, q);
                do_ring::wait_full(shared, queries);
                wgmma_hold(dp, TILE_M / 2);
                if constexpr (KEPT > 0 && !Blocks::READS && (kind.plain || !Blocks::ROUNDS))
                    begin_kept_by_rows<element, own_tile, query_tile>(dp, kept_v, shared + V_AT + own, dout);
                else
                    begin_rows_by_rows<element, own_tile, query_tile>(dp, shared + V_AT + own, dout);

                /* P^T = 2^(scale S^T - LSE); each query, a column, has an LSE and a delta. */
                if (EARLY)
                    load_pairs(rows, lse + column);
                wgmma_wait<1>();
                wgmma_hold(s, TILE_M / 2);
                if (!EARLY)
                    load_pairs(rows, lse + column);
                make_weights_of_keys<line_t, TILE_M>(s, rows, shape.scale_log2, shared + LINE_AT + queries.stage * line_t::BYTES,
                                                     [&]() { return own_row(); });
                auto hide = [&](float(&of)[TILE_M / 2]) {
                    if (masked)
                        hide_queries<TILE_M>(of, sight);
                    if (kind.rounds)
                        hide_keys_beyond<TILE_M>(of, work.key0 + (int32_t)own_row(), mask().seqlen_k);
                };
                if (masked)
                    sight = sight_of_keys<TILE_M>(mask(), known().key0 + (int32_t)own_row(), walk.m * TILE_M);
                hide(s);
                to_operand<element>(p_words, s);
                /* not before dS is stored: ptxas packs P before what follows a wait, and has registers for dS then */
                if (FUSED)
                    ds_ring::wait_empty(shared, queries);

                /* dS^T = P^T (dP^T - delta): zero where P is, even if dP is no number */
                if (EARLY)
                    load_pairs(rows, delta + column);
                wgmma_wait<0>();
                wgmma_hold(dp, TILE_M / 2);
                if (!EARLY)
                    load_pairs(rows, delta + column);
#pragma unroll
                for (int i = 0; i < TILE_M / 2; ++i)
                    dp[i] = s[i] * (dp[i] - rows[i / 4][i % 2]);
                hide(dp);
                to_operand<element>(ds_words, dp);
                if (cut && queries_special<TILE_M>(lse, delta))
                    settle_queries<element, query_tile, mask_t>(q, dout, BOTH_BARRIER, 32 * WARPS, [&]() {
                        for_queries<query_tile>(mask(), known().key0 + (int32_t)own_row(), walk.m * TILE_M,
                                                [&](uint32_t row, auto sees) {
                                                    add_special_row<element, query_tile>(dv, dout, row, 0, 1.0f, sees);
                                                    if (mask_t::LEFT || mask_t::RIGHT)
                                                        add_special_row<element, query_tile>(dk, q, row, 0, 0.0f, sees);
                                                });
                    });

                /* In the first step, where there is none before, this one's dS stands for it and the product is thrown
                 * away: a product that is not always made is one that ptxas does not overlap with others. */
                const struct ring before = !kind.plain && step == 0 ? queries : ring_before(queries);
                bool careful = false;
                if (FUSED) {
                    store_transposed<ds_tile>(ds_ring::tile(shared, queries), warpgroup, ds_words);
                    fence_async_shared();
                    arrive(ds_ring::full(shared, queries));
                    ds_ring::wait_full(shared, before);
                    careful = !kind.plain && step > 0 && careful_before();
                    if (careful)
                        take_special();
                }

                /* dV += P^T dO, dQ of the step before, dK += dS^T Q: one warpgroup at a time, so that the other one
                 * is at its exponentials. */
                named_sync(TURN_BARRIER + warpgroup, 32 * WARPS);
                wgmma_hold(dv, HEAD_DIM / 2);
                begin_weights_by_rows<element, query_tile>(dv, p_words, dout, 1);
                if constexpr (FUSED) {
                    begin_dq(before);
                    wgmma_wait<1>();
                    wgmma_hold(dv, HEAD_DIM / 2);
                    arrive(do_ring::empty(shared, queries));
                }
                wgmma_hold(dk, HEAD_DIM / 2);
                begin_weights_by_rows<element, query_tile>(dk, ds_words, q, 1);
                named_arrive(TURN_BARRIER + (warpgroup ^ 1), 32 * WARPS);
                wgmma_wait<1>();
                if constexpr (!FUSED) {
                    wgmma_hold(dv, HEAD_DIM / 2);
                    arrive(do_ring::empty(shared, queries));
                } else if (kind.plain || step > 0) {
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
            /* What is known of the block is made once more: the steps have its registers. */
            auto make_anew = [&](int32_t step) {
                wgmma_hold(&at, 1);
                work = Blocks::find(p.base, at);
                walk = Blocks::walk_at(p.base, work, step);
            };
            if constexpr (Blocks::ROUNDS) {
                if (work.steps > 0) {
                    const int32_t more = work.steps - plain.first;

                    int32_t step = 0;
#pragma unroll 1
                    do { /* of the last queries, which may not fill their tile */
                        walk.head = work.head0 + step;
                        make_step(any_step{}, step);
                    } while (++step < plain.first);
                    if (Blocks::READS || BY_COLUMNS || LINES) /* as above; else they have registers at head_dim 64 */
                        wgmma_hold(&shared, 1);
                    keep();
                    if (work.key0 + TILE_N >= mask().seqlen_k) {
#pragma unroll 1
                        for (int32_t left = more; left > 0; --left)
                            make_step(rounding_step{}, 0);
                    } else {
#pragma unroll 1
                        for (int32_t left = more; left > 0; --left)
                            make_step(plain_step{}, 0);
                    }
                    make_anew(work.steps);
                }
            } else {
                if (work.steps > 0)
                    keep();
#pragma unroll 1
                for (int32_t step = 0; step < known().steps;) {
                    make_step(any_step{}, step++);
                    Blocks::walk_on(p.base, walk, known());
                    if constexpr (Blocks::ANEW)
                        plain = Blocks::plain_steps_of(mask(), known());
                    if constexpr (FUSED)
                        if (step >= plain.first && step < plain.end) {
#pragma unroll 1
                            for (int32_t left = plain.end - step; left > 0; --left)
                                make_step(plain_step{}, 0);
                            step = plain.end;
                            make_anew(step);
                            plain = Blocks::plain_steps_of(mask(), work);
                        }
                }
            }
            arrive(shared + v_ring::empty_at);
            if constexpr (FUSED) {
                bool careful = false;

                if (known().steps > 0) {
                    const struct ring before = ring_before(queries);

                    ds_ring::wait_full(shared, before);
                    careful = careful_before();
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
                if (known().steps > 0)
                    leave_dq(any_step{});
            } else {
                arrive(shared + k_ring::empty_at);
            }
            /* dV and dK leave as dQ did. */
            auto leave = [&](const float(&d)[HEAD_DIM / 2], float factor) {
                out_ring::wait_empty(shared, out);
                store_rounded<element, own_tile>(out_ring::tile(shared, out) + own, 0, d, factor);
                send_out();
            };
            /* Of a part that is not the last in float32, as many numbers of each thread as a stage holds of a share. */
            auto leave_part = [&](const float(&d)[HEAD_DIM / 2]) {
#pragma unroll
                for (int share = 0; share < (int)SHARES / 2; ++share) {
                    out_ring::wait_empty(shared, out);
                    const uint32_t to = out_ring::tile(shared, out) + warpgroup * (OUT_BYTES / 2) + thread_index_anew() % 128 * 16;
#pragma unroll
                    for (int i = 0; i < HEAD_DIM / (int)SHARES; i += 2)
                        st_shared_f32x2(to + i / 4 * 2048 + i % 4 * 4, d[share * (HEAD_DIM / (int)SHARES) + i],
                                        d[share * (HEAD_DIM / (int)SHARES) + i + 1]);
                    send_out();
                }
            };
            /* To the last part's dV or dK the sum of those before it. */
            auto gather = [&](float(&d)[HEAD_DIM / 2], int which) {
                wait_turn_seen();
                const float *sum = Blocks::key_sum(p.base, work, at, which * ((int)SHARES / 2)).sum + warpgroup * (OUT_BYTES / 8) +
                                   thread_index_anew() % 128 * 4;
#pragma unroll
                for (int i = 0; i < HEAD_DIM / 2; i += 8) {
                    add_summed(*(float(*)[8])(d + i),
                               sum + i / (HEAD_DIM / (int)SHARES) * (OUT_BYTES / 4) + i % (HEAD_DIM / (int)SHARES) * 128);
                    wgmma_hold(d + i, 8);
                }
            };
            auto give_back = [&]() {
                if (Blocks::KEPT)
                    arrive(Blocks::queue::slots::empty(shared, ring_at(turn)));
            };
            if constexpr (FUSED) {
                wgmma_hold(&at, 1);
                work = Blocks::find(p.base, at);
                if (work.part < Blocks::parts(p.base, at) - 1) {
                    give_back();
                    leave_part(dv);
                    leave_part(dk);
                    continue;
                }
            }
            if (FUSED && work.part > 0)
                gather(dv, 0);
            leave(dv, 1.0f);
            if (FUSED && work.part > 0)
                gather(dk, 1);
            give_back();
            leave(dk, shape.softmax_scale);
        }
    }

    template <class Blocks> GLINT_DEVICE void run(const struct glint_gpu_backward_maps &p)
    {
        const uint32_t shared = shared_base(), warp = warp_index();

        if (thread_index() == 0) {
            k_ring::init(shared, 1, WARPS + CAREFUL);
            v_ring::init(shared, 1, WARPS);
            mbarrier_init(shared + CHECKED, 1);
            Blocks::queue::init(shared, WARPS + 3);
            q_ring::init(shared, 1, WARPS);
            do_ring::init(shared, 1, WARPS);
            out_ring::init(shared, WARPS, 1);
            ds_ring::init(shared, WARPS, WARPS);
            for (int i = 0; i < STAGES; ++i)
                mbarrier_init(shared + TURN_SEEN + 8 * i, 1);
            if (Blocks::BY_WARP)
                mbarrier_init(shared + WANTED, 1);
            fence_mbarrier_init();
        }
        block_sync();

        if (warp < 4) {
            registers_give<Variant::PRODUCER_REGISTERS>();
            if constexpr (Blocks::BY_WARP) {
                if (warp == 0)
                    find_blocks<Blocks>(p, shared);
                else if (warp == 1) {
                    if (lane_index() == 0)
                        load_all<Blocks>(p, shared);
                } else if (Blocks::READS || lane_index() == 0)
                    store<Blocks>(p, shared, warp - 2);
            } else {
                if (warp == 0 && lane_index() == 0)
                    load_keys<Blocks>(p, shared);
                if (warp == 1)
                    load_values<Blocks>(p, shared);
                if (warp >= 2 && (Blocks::READS || lane_index() == 0))
                    store<Blocks>(p, shared, warp - 2);
            }
            return;
        }
        registers_take<Variant::REGISTERS>();
        attend<Blocks>(p, shared);
    }
};

#endif
