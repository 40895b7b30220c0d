$ local first, lowest = bounds_first and "work.first" or "0", bounds_first and "lowest" or "0"
$ local work_of = bounds_first and "window_work" or "tile_work"
$ local find = bounds_first and "find_window<TILE_M, TILE_N>" or "find_tile<TILE_M, TILE_N, " .. tostring(causal) .. ">"
$ local find_keys = bounds_first and "find_window_keys<TILE_M, TILE_N>" or "find_keys<TILE_M, TILE_N, " .. tostring(causal) .. ">"
$ local sink = "%s.sinks ? ld_global_f32(%s.sinks + work.head_q) : -GLINT_INFINITY"
/* A persistent block of ${warpgroups} warpgroups that compute, 64 queries each, and one that loads. Tiles of
 * ${tile_m} queries of one head are worked on one after another, each over the keys in blocks of ${tile_n}, last
 * block first. While the products of a block are summed, the scores of the next are made into weights; at the end of
 * a tile that next one is the following tile's first.
$ if bounds_first then
 * The walk ends with the first block that some query of the tile sees. A warpgroup has its own part of it: other
 * blocks it passes on.
$ end
 *
 *     loaders   K, Q; V            two warps, a thread of each
$ if causal then
 *     scanners  V                  two warps: NaN and infinity leave a block of V that the mask cuts
$ if not bounds_first then
 *               O                  zeros, where no key is seen
$ end
$ end
 *     others    S = Q K^T, P = 2^(scale (S - max)), O += P V */
$ if device_lengths then
#include "lib/device/warpgroup_lengths.h"
$ end
$ if device_ragged then
#include "lib/device/warpgroup_ragged.h"
$ end
#include "lib/device/warpgroup_forward.h"

enum {
    HEAD_DIM = ${head_dim},
    TILE_N = ${tile_n}, /* keys of a block */
    WARPGROUPS = ${warpgroups}, /* that compute */
    TILE_M = 64 * WARPGROUPS,
    THREADS = 128 * (1 + WARPGROUPS),
    Q_SLOTS = ${q_slots},
    STAGES = ${stages}, /* of K, and of V */
$ if dtype == "f16" then
    BELOW = 0, /* see follow_maxima: float16 ends at 2^-24 below, and sums are far from float32's end above */
$ else
    BELOW = 8, /* see follow_maxima: weights of at most 2^4, so that sums of them times the largest V do not overflow */
$ end
};

typedef ${dtype} element;
typedef slab_tile<64, HEAD_DIM, ${width}> query_tile; /* a warpgroup's own */
typedef slab_tile<TILE_N, HEAD_DIM, ${width}> key_tile;

/* Shared memory: tiles, then mbarriers. */
enum {
    Q_BYTES = WARPGROUPS * query_tile::bytes,
    K_AT = Q_SLOTS * Q_BYTES,
    V_AT = K_AT + STAGES * key_tile::bytes,
    BARRIERS_AT = V_AT + STAGES * key_tile::bytes,
};
typedef stage_ring<Q_SLOTS, Q_BYTES, 0, BARRIERS_AT> query_ring;
typedef stage_ring<STAGES, key_tile::bytes, K_AT, query_ring::end> key_ring;
typedef stage_ring<STAGES, key_tile::bytes, V_AT, key_ring::end> value_ring;
typedef tile_queue<value_ring::end> queue; /* the block's next tiles */
$ if causal then
enum {
    V_CUT = queue::end, /* mbarriers: a block that the mask cuts has arrived, and waits for its scanners */
    SPECIAL = V_CUT + 8 * STAGES, /* what each of two scanners found in a stage: NaN or infinity */
    SHARED_BYTES = SPECIAL + 8 * STAGES,
};
$ else
enum { SHARED_BYTES = queue::end };
$ end
$ if device_lengths then
typedef sequence_queue<value_ring::end> sequences; /* in place of them where lengths are read */
enum { LENGTHS_V_CUT = sequences::end, LENGTHS_SPECIAL = LENGTHS_V_CUT + 8 * STAGES };
$ end
$ if device_ragged then
typedef ragged_queue<value_ring::end> ragged_sequences; /* where sequences are ragged; behind the rest the table of tiles, and a tile for each warp */
enum {
    RAGGED_V_CUT = ragged_sequences::end,
    RAGGED_SPECIAL = RAGGED_V_CUT + 8 * STAGES,
    RAGGED_TABLE = RAGGED_SPECIAL + 8 * STAGES,
    RAGGED_KEPT = RAGGED_TABLE + RAGGED_TABLE_BYTES,
};
$ end

/* Named barriers: 1 + w to warpgroup w's turn at the tensor cores, OWN + w within it. */
enum { TURN = 1, OWN = TURN + WARPGROUPS };

$ for launch, kind in ipairs(kinds) do
$ local ragged, lengths = kind == "ragged", kind ~= "given" -- ragged sequences have lengths, too
$ local work = ragged and "ragged_work<" .. work_of .. ">" or work_of
$ local scans = causal or lengths -- values that a mask hides or that lie beyond a length
$ local params, base = lengths and kind .. "_call" or "glint_gpu_forward_maps", "p.base"
$ local sequences, blocks = ragged and "ragged_sequences" or "sequences", ("p.base.blocks[%d]"):format(launch - 1)
$ local from_row = ragged and "work.first_k + " or ""
$ local thread = lengths and "(thread_index_anew() % 64)" or "thread" -- its registers are worth more in the loop over tiles
$ local own = lengths and kind:upper() .. "_" or ""
$ local v_cut, found = own .. "V_CUT", own .. "SPECIAL"
$ local sight, end_query = lengths and ("%s::lengths(shared, %s::at_hand(t))"):format(sequences, sequences) or "shape", lengths and ", seqlen_q, sees" or ""
$ local shape_anew = ragged and "kept_shape(kept)" or "find_shape(p.base, of.batch)" -- of a tile given back
$ local number = causal and not bounds_first and "number" or "tile"
$ local end_of_nothing = lengths and "min(work.query0 + TILE_M, " .. sight .. ".seqlen_q)" or "end_of_blind<TILE_M, HEAD_DIM>(work, p.base.shape)"
$ local log_of_nothing = (capped or lengths) and sink:format(base, base) or "-GLINT_INFINITY"
$ local with_sink = (bounds_first or capped or lengths) and "write_output_with_sink" or "write_output"
$ if ragged then
/* ==== The same over ragged sequences ================================================================================================
 * Tiles are found by a search, which all of the loader's warp does. Rows of the next sequence in a last block of keys are what those beyond a
 * length are. */

$ elseif lengths then
/* ==== The same over sequences whose lengths are read here; those of the shape are bounds =========================================
 * Other overloads of the same functions, and of one function for all masks the scanners: values beyond a length become zeros as those beyond the
 * bound are, so that a sequence has the bits of a call with its lengths. */

$ end
$ if lengths then
struct ${params} : glint_gpu_forward_maps {}; /* tells the overloads apart */

/* Where the block works next; false after its last tile. By a whole warp, or by one lane alone. keeps: it gives the tile's lengths back itself. */
template <bool warp, bool keeps> GLINT_DEVICE bool next_tile(struct ${work} &work, uint32_t shared, struct ring &t)
{
    if (!${sequences}::wait(shared, t, work))
        return false;
    ${find_keys}(work, ${sequences}::lengths(shared, t));
    ring_advance<${sequences}::stages>(t);
    if (!keeps)
        ${sequences}::give_back<warp>(shared, ${sequences}::at_hand(t));
    return true;
}
$ else
/* Where the block works next; false after its last tile. By a whole warp, or by one lane alone. */
template <bool warp>
GLINT_DEVICE bool next_tile(struct ${work} &work, const struct glint_gpu_shape &shape, uint32_t shared,
                            struct ring &t)
{
    const uint32_t tile = queue::wait(shared, t);

    if (warp)
        warp_sync();
    if (!warp || lane_index() == 0)
        queue::release(shared, t);
    ring_advance<2>(t);
    return ${find}(work, shape, tile);
}
$ end

/* ---- the warpgroup that loads ------------------------------------------------------------------------------------ */

$ if lengths or dynamic then
/* Announces this block's tiles, too: each is the first one that no block has taken. It is taken when the last keys of the
 * tile before are on their way, not sooner: a block that takes a tile long before it can begin leaves others idle at the end. */
$ else
/* Announces this block's tiles, too: every p.base.blocks[0]-th of them. */
$ end
GLINT_DEVICE void load_queries_and_keys(const struct ${params} &p, uint32_t shared)
{
    const int32_t group = ${base}.shape.group;
    struct ring q = {0, 0}, k = {0, 0}, t = {0, 0};
    uint32_t tile = block_index();
    struct ${work} work;

$ if ragged then
    put_no_group(p, shared + RAGGED_TABLE);
$ end
    for (;;) {
$ if ragged then
        const uint32_t found = shared + RAGGED_TABLE + RAGGED_FOUND;
        const bool any = find_number<TILE_M>(p, shared + RAGGED_TABLE, tile);

        if (lane_index() == 0) {
            if (any)
                ragged_sequences::announce(shared, t, found);
            else
                ragged_sequences::announce_end(shared, t);
        }
        if (!any)
            return;
        ring_advance<ragged_sequences::stages>(t);
        get_place(work, found);
        ${find_keys}(work, kept_shape(found));
$ elseif lengths then
        struct own_shape own;

        if (!take_tile<TILE_M, ${tostring(causal)}>(work, own, p, ${blocks}, tile)) {
            sequences::announce_end(shared, t);
            return;
        }
        sequences::announce(shared, t, work, own);
        ring_advance<sequences::stages>(t);
        ${find_keys}(work, own);
$ else
$ if causal and not bounds_first then
        const uint32_t number = blind_last<TILE_M, HEAD_DIM>(p.base.shape, tile);
$ end
        const bool any = ${find}(work, p.base.shape, ${number});

        queue::announce(shared, t, ${number});
        ring_advance<2>(t);
        if (!any)
            return;
$ end
$ if not lengths and not dynamic then
        tile = tile + ${blocks};
$ end
$ if ragged then
#pragma unroll 1 /* registers */
        for (int32_t block = lane_index() == 0 ? work.blocks - 1 : ${first} - 1; block >= ${first}; --block) { /* one lane loads */
$ else
        for (int32_t block = work.blocks - 1; block >= ${first}; --block) {
$ end
            key_ring::begin_fill(shared, k);
            load_tile<key_tile>(key_ring::tile(shared, k), &p.map[MAP_K], ${from_row}block * TILE_N,
                                work.head_q / group, work.batch, key_ring::full(shared, k),
                                GLINT_L2_EVICT_LAST);
            ring_advance<STAGES>(k);
            if (block < work.blocks - 1)
                continue;
            query_ring::begin_fill(shared, q);
            for (int32_t w = 0; w < WARPGROUPS; ++w)
                load_tile<query_tile>(query_ring::tile(shared, q) + w * query_tile::bytes, &p.map[MAP_Q],
                                      work.query0 + 64 * w, work.head_q, work.batch, query_ring::full(shared, q),
                                      GLINT_L2_EVICT_FIRST);
            ring_advance<Q_SLOTS>(q);
        }
$ if ragged then
        tile = next_number(p.base.words, ${blocks}, shared + RAGGED_TABLE);
$ elseif lengths then
        tile = ${blocks} - atom_global_add_u32(p.base.words, 0xffffffffu);
$ elseif dynamic then
        tile = ${blocks} + atom_global_add_u32(p.base.words, 1);
$ end
    }
}

GLINT_DEVICE void load_values(const struct ${params} &p, uint32_t shared)
{
    const int32_t group = ${base}.shape.group;
    struct ring v = {0, 0}, t = {0, 0}${scans and ", cut = {0, 0}" or ""};
    struct ${work} work;
$ if not scans then
    const int32_t beyond = ${base}.shape.seqlen_k == 0; /* the map of no keys has a row, of Q: what comes from behind it are zeros */
$ end

    while (${lengths and "next_tile<false, false>(work, shared, t)" or "next_tile<false>(work, p.base.shape, shared, t)"})
        for (int32_t block = work.blocks - 1; block >= ${first}; --block) {
            uint32_t full = value_ring::full(shared, v);

            value_ring::wait_empty(shared, v);
$ if scans then
            if (${bounds_first and "is_cut(work, block)" or "block >= work.first_masked"}) {
                full = shared + ${v_cut} + 8 * cut.stage;
                ring_advance<STAGES>(cut);
            } else
                mbarrier_arrive(full); /* for the second scanner, and below for the first */
$ end
            mbarrier_arrive_expect(full, key_tile::bytes);
            load_tile<key_tile>(value_ring::tile(shared, v), &p.map[MAP_V], ${from_row}${scans and "block" or "(block + beyond)"} * TILE_N,
                                work.head_q / group, work.batch, full, GLINT_L2_EVICT_LAST);
            ring_advance<STAGES>(v);
        }
}

$ if scans then
$ if not lengths then
/* A weight of zero times NaN is NaN, so NaN and infinity leave the blocks of V in which some query does not see every
 * key. Queries that do see them get them at the end: see add_special. This is scanner 0 or 1. */
$ elseif causal then
/* Values beyond the length first: they are nobody's. */
$ else
/* Without a mask the only values that some query does not see are those beyond the length. */
$ end
GLINT_DEVICE void scan_values(const struct ${params} &p, uint32_t shared, uint32_t scanner)
{
$ if not lengths then
    const uint32_t thread = 32 * scanner + lane_index();
$ end
    struct ring v = {0, 0}, cut = {0, 0}, t = {0, 0};
    struct ${work} work;
$ if ragged then

    if (p.base.sequences.fault && block_index() == 0 && scanner == 0)
        note_ragged_fault(p.base.sequences, shape_of_bounds(p));
$ elseif lengths then

    for (uint32_t batch = ${blocks} * ${thread} + block_index(); batch < (uint32_t)${base}.shape.batch; batch += 64 * ${blocks})
        note_fault(p.base, (int32_t)batch);
$ end

    while (${lengths and "next_tile<true, true>(work, shared, t)" or "next_tile<true>(work, p.base.shape, shared, t)"}) {
$ if causal and not bounds_first then
        if (work.blocks == 0)
            write_nothing<HEAD_DIM>(${base}, work, ${end_of_nothing}, ${log_of_nothing}, ${thread}, 64);
$ end
        for (int32_t block = work.blocks - 1; block >= ${first}; --block) {
            const uint32_t values = value_ring::tile(shared, v);

$ if bounds_first then
            if (!is_cut(work, block)) {
                ring_skip<STAGES>(v, (uint32_t)(block - work.whole_from) + 1);
                block = work.whole_from;
                continue;
            }
$ else
            if (block < work.first_masked) {
                ring_skip<STAGES>(v, (uint32_t)block + 1);
                break;
            }
$ end
            mbarrier_wait(shared + ${v_cut} + 8 * cut.stage, cut.phase);
            ring_advance<STAGES>(cut);
$ if lengths then
            if (clear_rows<key_tile>(values, ${sight}.seqlen_k - block * TILE_N, ${thread}, 64))
                fence_async_shared();
$ end
$ if causal then
            const bool special = sees_special${lengths and "<2>" or ""}(values, key_tile::bytes, ${thread}, 64, element::EXPONENT);
            if (special) {
                remove_special(values, key_tile::bytes, ${thread}, 64, element::EXPONENT);
                fence_async_shared();
            }
            const bool any = warp_any(special);
$ end
            warp_sync();
            if (lane_index() == 0) {
$ if causal then
                st_shared_u32(shared + ${found} + 8 * v.stage + 4 * scanner, any);
$ end
                mbarrier_arrive(value_ring::full(shared, v));
            }
            ring_advance<STAGES>(v);
        }
$ if lengths then
        ${sequences}::give_back<true>(shared, ${sequences}::at_hand(t));
$ end
    }
}

$ end
/* ---- the warpgroups that compute --------------------------------------------------------------------------------- */

GLINT_DEVICE void attend(const struct ${params} &p, uint32_t shared, uint32_t w)
{
    const struct glint_gpu_shape &shape = ${base}.shape;
    const float scale = fmaxf(fabsf(shape.scale_log2), 1e-37f); /* not 0, so that hidden scores stay -inf */
    const bool first_lane = lane_index() == 0;
    struct ring q = {0, 0}, k = {0, 0}, v = {0, 0}, t = {0, 0};
    struct ${work} work;
    struct softmax_rows rows;
    float s[TILE_N / 2], o[HEAD_DIM / 2], factor[2] = {1.0f, 1.0f};
    uint32_t weights[TILE_N / 4];
    int32_t block = 0; /* whose weights are made and not yet used */
$ if bounds_first then
    int32_t lowest = 0; /* the last block of this warpgroup's walk over the tile */
$ end
$ if lengths then
    auto go_on = [&]() {
        bool any = next_tile<true, true>(work, shared, t);
$ if causal and not bounds_first then

        while (any && work.blocks == 0) { /* tiles whose queries see no key are the scanners' */
            ${sequences}::give_back<true>(shared, ${sequences}::at_hand(t));
            any = next_tile<true, true>(work, shared, t);
        }
$ end
        return any;
    };
$ elseif causal and not bounds_first then
    auto go_on = [&]() { /* tiles whose queries see no key are the scanners' */
        bool any;

        do
            any = next_tile<true>(work, shape, shared, t);
        while (any && work.blocks == 0);
        return any;
    };
$ else
    auto go_on = [&]() { return next_tile<true>(work, shape, shared, t); };
$ end
    bool more = go_on();
    bool begun = false; /* the tile's first scores and weights are made */

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
    auto begin_scores = [&]() { /* S = Q K^T */
        begin_rows_by_rows<element, query_tile, key_tile>(s, query_ring::tile(shared, q) + w * query_tile::bytes,
                                                          key_ring::tile(shared, k));
    };
    auto begin_values = [&](int32_t add) { /* O += P V */
        begin_weights_by_rows<element, key_tile>(o, weights, value_ring::tile(shared, v), add);
    };
    auto hold_all = [&]() {
        wgmma_hold(s, TILE_N / 2);
        wgmma_hold(o, HEAD_DIM / 2);
        wgmma_hold(weights, TILE_N / 4);
    };
$ if turns then
    /* Warpgroups issue their products in turn, so that while one's exponentials are made the tensor cores have
     * another's work. */
    auto take_turn = [&]() { named_sync(TURN + w, 256); };
    auto pass_turn = [&]() { named_arrive(TURN + (w + 1) % WARPGROUPS, 256); };
    if (w == WARPGROUPS - 1)
        pass_turn();
$ end
    /* The scores of a block have been made: what they were made of may be loaded over, queries after block 0. */
    auto have_scores = [&](int32_t of_block) {
        wgmma_hold(s, TILE_N / 2);
        release_keys();
        if (of_block > ${lowest})
            return;
        if (first_lane)
            mbarrier_arrive(query_ring::empty(shared, q));
        ring_advance<Q_SLOTS>(q);
    };
    /* The weights of a block from its scores; true if what was summed before is to be rescaled. */
    auto soften = [&](int32_t of_block) {
        float shift[2];

$ if capped then
        change_scores(s, capped_score{${base}.score_ratio, ${base}.score_limit});
$ end
$ if bounds_first then
        if (cuts_own<TILE_N>(${sight}, work.query0 + 64 * (int32_t)w, of_block))
            hide_window<TILE_N>(s, ${sight}, work.query0 + 64 * (int32_t)w, of_block);
$ else
        if (of_block >= work.first_masked)
            hide_scores<TILE_N, ${tostring(causal)}>(s, ${sight}, work.query0 + 64 * (int32_t)w, of_block);
$ end
        const bool grown = follow_maxima<TILE_N, BELOW>(rows, s, shift, factor, scale);
        make_weights<TILE_N>(rows, s, shift, scale);
        return grown;
    };
$ if causal then
    uint32_t special = 0; /* the first lane knows of NaN and infinities of this tile */
$ end
    /* The values of a block have been added. */
    auto have_values = [&](const struct ${work} &of, int32_t of_block) {
        wgmma_hold(o, HEAD_DIM / 2);
        wgmma_hold(weights, TILE_N / 4);
$ if causal then
        if (${bounds_first and "is_cut(of, of_block)" or "of_block >= of.first_masked"} && first_lane)
            special |= ld_shared_u32(shared + ${found} + 8 * v.stage) |
                       ld_shared_u32(shared + ${found} + 8 * v.stage + 4);
$ end
        release_values();
    };
$ if lengths then
    auto finish = [&](const struct ${work} &of, const struct softmax_rows &of_rows, int32_t seqlen_q) {
$ if ragged then
        const uint32_t kept = shared + RAGGED_KEPT + 32 * warp_index();
$ end
        auto sees = [&](int32_t query) { return sees_any_key(${shape_anew}, query); };
$ else
    auto finish = [&](const struct ${work} &of, const struct softmax_rows &of_rows) {
$ end
$ if causal then
        if (warp_any(special != 0))
$ if ragged then
            add_kept_special<element, TILE_N>(o, p.base, of, of.query0 + 64 * (int32_t)w, kept);
$ else
            add_special<element, TILE_N>(o, ${base}, of, of.query0 + 64 * (int32_t)w${lengths and ", " .. shape_anew or ""});
$ end
        special = 0;
$ end
        ${with_sink}<element, BELOW>(o, of_rows, ${base}, of, of.query0 + 64 * (int32_t)w${end_query});
    };
$ if bounds_first then
    /* A block whose keys no query of this warpgroup sees is only passed on: no lane looks for a stage's phase when the
     * next one may have begun. */
    auto pass_keys = [&]() {
        wait_keys();
        warp_sync();
        release_keys();
$ if turns then
        take_turn();
        pass_turn();
$ end
    };
    auto pass_values = [&]() {
        wait_values();
        warp_sync();
        release_values();
    };
    auto find_blocks = [&]() {
        const struct own_window own = find_own<TILE_N>(work, ${sight}, work.query0 + 64 * (int32_t)w);

        block = own.last;
        lowest = own.first;
    };
    /* A tile's first scores, with nothing to overlap them. */
    auto begin_tile = [&]() {
        wait_queries();
        for (int32_t skipped = work.blocks - 1; skipped > block; --skipped) {
            pass_keys();
            pass_values();
        }
$ else
    /* A tile's first scores, with nothing to overlap them. Blocks whose keys no query of this warpgroup sees come
     * before, and are only passed on: no lane looks for a stage's phase when the next one may have begun. */
    auto begin_tile = [&]() {
        wait_queries();
        for (int32_t skipped = work.blocks - 1; skipped > block; --skipped) {
            wait_keys();
            warp_sync();
            release_keys();
$ if turns then
            take_turn();
            pass_turn();
$ end
            wait_values();
            warp_sync();
            release_values();
        }
$ end
        softmax_begin(rows);
        wait_keys();
        wgmma_hold(s, TILE_N / 2);
        begin_scores();
        wgmma_wait<0>();
        have_scores(block);
        soften(block);
        pack_weights<element>(weights, s);
    };

    while (more) {
        if (!begun) {
$ if bounds_first then
            find_blocks();
$ else
            block = own_blocks<TILE_N, ${tostring(causal)}>(work, ${sight}, work.query0 + 64 * (int32_t)w) - 1;
$ end
            begin_tile();
        }
        int32_t add = 0;

#pragma unroll 1
        for (; block > ${lowest}; --block, add = 1) {
            wait_keys();
$ if turns then
            take_turn();
$ end
            hold_all();
            begin_scores();
            wait_values();
            begin_values(add);
$ if turns then
            pass_turn();
$ end
            wgmma_wait<1>();
            have_scores(block - 1);
            const bool grown = soften(block - 1);
            wgmma_wait<0>();
            have_values(work, block);
            pack_weights<element>(weights, s); /* before the branch: made in the gaps between exponentials */
            if (grown)
                rescale<HEAD_DIM>(o, factor);
        }

        const struct ${work} done = work;
        const struct softmax_rows done_rows = rows;
$ if lengths then
        const int32_t done_seqlen_q = ${sight}.seqlen_q;
$ if ragged then
        ragged_sequences::keep(shared, ragged_sequences::at_hand(t), shared + RAGGED_KEPT + 32 * warp_index());
$ end
        ${sequences}::give_back<true>(shared, ${sequences}::at_hand(t));
$ end
$ if bounds_first then
        const int32_t done_block = block, left = block - work.first; /* blocks of this tile that others walk over still */
        int32_t passed = left;

        more = go_on();
        if (more) {
            find_blocks();
            passed += work.blocks - 1 - block;
        }
        /* Keys may be ahead of values by all stages but one: with more, warpgroups would wait for each other. */
        begun = more && passed < STAGES;
        if (begun) { /* the last values of this tile, and the first scores of the next */
            for (int32_t i = 0; i < passed; ++i)
                pass_keys();
$ else
        more = go_on();
        block = more ? own_blocks<TILE_N, ${tostring(causal)}>(work, ${sight}, work.query0 + 64 * (int32_t)w) - 1 : 0;
        begun = more && block == work.blocks - 1;
        if (begun) { /* the last values of this tile, and the first scores of the next */
$ end
            wait_queries();
            softmax_begin(rows);
            wait_keys();
$ if turns then
            take_turn();
$ end
            hold_all();
            begin_scores();
            wait_values();
            begin_values(add);
$ if turns then
            pass_turn();
$ end
            wgmma_wait<1>();
            have_scores(block);
            soften(block);
            wgmma_wait<0>();
            have_values(done, ${bounds_first and "done_block" or "0"});
            pack_weights<element>(weights, s);
$ if bounds_first then
            for (int32_t i = 0; i < passed; ++i)
                pass_values();
$ end
            finish(done, done_rows${lengths and ", done_seqlen_q" or ""});
        } else {
            wait_values();
$ if turns then
            if (more)
                take_turn();
$ end
            hold_all();
            begin_values(add);
$ if turns then
            if (more)
                pass_turn();
$ end
            wgmma_wait<0>();
            have_values(done, ${bounds_first and "done_block" or "0"});
$ if bounds_first then
            for (int32_t i = 0; i < left; ++i) {
                pass_keys();
                pass_values();
            }
$ end
            finish(done, done_rows${lengths and ", done_seqlen_q" or ""});
        }
    }
}

GLINT_KERNEL(THREADS, 1) ${symbol}${lengths and "_" .. kind or ""}(GLINT_PARAMS(struct ${params}) p)
{
    const uint32_t shared = shared_base(), warpgroup = warp_index() / 4;

    if (thread_index() == 0) {
        query_ring::init(shared, 1, 4 * WARPGROUPS);
        key_ring::init(shared, 1, 4 * WARPGROUPS);
        value_ring::init(shared, ${scans and 2 or 1}, 4 * WARPGROUPS);
        ${lengths and sequences or "queue"}::init(shared, 4 * WARPGROUPS + ${scans and 3 or 1});
$ if scans then
        for (uint32_t i = 0; i < STAGES; ++i)
            mbarrier_init(shared + ${v_cut} + 8 * i, 1);
$ end
        fence_mbarrier_init();
    }
    block_sync();
    if (warpgroup == WARPGROUPS) {
        registers_give<${producer_registers}>();
        const uint32_t warp = warp_index() % 4;
$ if ragged then
        if (warp == 0) { /* one role each, by else: what one of them keeps in registers must not live through another's search */
            load_queries_and_keys(p, shared);
        } else if (warp == 1) {
            if (lane_index() == 0)
                load_values(p, shared);
        } else {
            scan_values(p, shared, warp - 2);
        }
$ else
        if (warp == 0 && lane_index() == 0)
            load_queries_and_keys(p, shared);
        if (warp == 1 && lane_index() == 0)
            load_values(p, shared);
$ if scans then
        if (warp >= 2)
            scan_values(p, shared, warp - 2);
$ end
$ end
    } else {
        registers_take<${registers}>();
        attend(p, shared, warpgroup);
    }
}
$ end
