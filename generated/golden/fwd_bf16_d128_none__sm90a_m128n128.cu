/* fwd_bf16_d128_none__sm90a_m128n128
 *
 * Attention, forward: O and LSE from Q, K, V; bf16, head_dim 128, no mask.
 * For sm_90a.
 * Tile: 128 queries x 128 keys; persistent, 2 warpgroups of 232 registers a thread that compute and one of 40 that loads; K and V in 2 stages.
 * Shared memory of a block: 196744 bytes.
 * A second kernel reads the lengths of the sequences.
 * Another one takes ragged sequences.
 *
 * Made from gen/templates/sm90a_fwd.cu.lua by
 *   lua5.4 gen/glint.lua emit --spec generated/golden/golden.lua --variant fwd_bf16_d128_none__sm90a_m128n128
 * and overwritten by it: change the template or the spec. */

/* A persistent block of 2 warpgroups that compute, 64 queries each, and one that loads. Tiles of
 * 128 queries of one head are worked on one after another, each over the keys in blocks of 128, last
 * block first. While the products of a block are summed, the scores of the next are made into weights; at the end of
 * a tile that next one is the following tile's first.
 *
 *     loaders   K, Q; V            two warps, a thread of each
 *     others    S = Q K^T, P = 2^(scale (S - max)), O += P V */
#include "lib/device/warpgroup_lengths.h"
#include "lib/device/warpgroup_ragged.h"
#include "lib/device/warpgroup_forward.h"

enum {
    HEAD_DIM = 128,
    TILE_N = 128, /* keys of a block */
    WARPGROUPS = 2, /* that compute */
    TILE_M = 64 * WARPGROUPS,
    THREADS = 128 * (1 + WARPGROUPS),
    Q_SLOTS = 2,
    STAGES = 2, /* of K, and of V */
    BELOW = 8, /* see follow_maxima: weights of at most 2^4, so that sums of them times the largest V do not overflow */
};

typedef bf16 element;
typedef slab_tile<64, HEAD_DIM, 128> query_tile; /* a warpgroup's own */
typedef slab_tile<TILE_N, HEAD_DIM, 128> key_tile;

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
enum { SHARED_BYTES = queue::end };
typedef sequence_queue<value_ring::end> sequences; /* in place of them where lengths are read */
enum { LENGTHS_V_CUT = sequences::end, LENGTHS_SPECIAL = LENGTHS_V_CUT + 8 * STAGES };
typedef ragged_queue<value_ring::end> ragged_sequences; /* where sequences are ragged; behind the rest the table of tiles, and a tile for each warp */
enum {
    RAGGED_V_CUT = ragged_sequences::end,
    RAGGED_SPECIAL = RAGGED_V_CUT + 8 * STAGES,
    RAGGED_TABLE = RAGGED_SPECIAL + 8 * STAGES,
    RAGGED_KEPT = RAGGED_TABLE + RAGGED_TABLE_BYTES,
};

/* Named barriers: 1 + w to warpgroup w's turn at the tensor cores, OWN + w within it. */
enum { TURN = 1, OWN = TURN + WARPGROUPS };

/* Where the block works next; false after its last tile. By a whole warp, or by one lane alone. */
template <bool warp>
GLINT_DEVICE bool next_tile(struct tile_work &work, const struct glint_gpu_shape &shape, uint32_t shared,
                            struct ring &t)
{
    const uint32_t tile = queue::wait(shared, t);

    if (warp)
        warp_sync();
    if (!warp || lane_index() == 0)
        queue::release(shared, t);
    ring_advance<2>(t);
    return find_tile<TILE_M, TILE_N, false>(work, shape, tile);
}

/* ---- the warpgroup that loads ------------------------------------------------------------------------------------ */

/* Announces this block's tiles, too: every p.base.blocks[0]-th of them. */
GLINT_DEVICE void load_queries_and_keys(const struct glint_gpu_forward_maps &p, uint32_t shared)
{
    const int32_t group = p.base.shape.group;
    struct ring q = {0, 0}, k = {0, 0}, t = {0, 0};
    uint32_t tile = block_index();
    struct tile_work work;

    for (;;) {
        const bool any = find_tile<TILE_M, TILE_N, false>(work, p.base.shape, tile);

        queue::announce(shared, t, tile);
        ring_advance<2>(t);
        if (!any)
            return;
        tile = tile + p.base.blocks[0];
        for (int32_t block = work.blocks - 1; block >= 0; --block) {
            key_ring::begin_fill(shared, k);
            load_tile<key_tile>(key_ring::tile(shared, k), &p.map[MAP_K], block * TILE_N,
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
    }
}

GLINT_DEVICE void load_values(const struct glint_gpu_forward_maps &p, uint32_t shared)
{
    const int32_t group = p.base.shape.group;
    struct ring v = {0, 0}, t = {0, 0};
    struct tile_work work;
    const int32_t beyond = p.base.shape.seqlen_k == 0; /* the map of no keys has a row, of Q: what comes from behind it are zeros */

    while (next_tile<false>(work, p.base.shape, shared, t))
        for (int32_t block = work.blocks - 1; block >= 0; --block) {
            uint32_t full = value_ring::full(shared, v);

            value_ring::wait_empty(shared, v);
            mbarrier_arrive_expect(full, key_tile::bytes);
            load_tile<key_tile>(value_ring::tile(shared, v), &p.map[MAP_V], (block + beyond) * TILE_N,
                                work.head_q / group, work.batch, full, GLINT_L2_EVICT_LAST);
            ring_advance<STAGES>(v);
        }
}

/* ---- the warpgroups that compute --------------------------------------------------------------------------------- */

GLINT_DEVICE void attend(const struct glint_gpu_forward_maps &p, uint32_t shared, uint32_t w)
{
    const struct glint_gpu_shape &shape = p.base.shape;
    const float scale = fmaxf(fabsf(shape.scale_log2), 1e-37f); /* not 0, so that hidden scores stay -inf */
    const bool first_lane = lane_index() == 0;
    struct ring q = {0, 0}, k = {0, 0}, v = {0, 0}, t = {0, 0};
    struct tile_work work;
    struct softmax_rows rows;
    float s[TILE_N / 2], o[HEAD_DIM / 2], factor[2] = {1.0f, 1.0f};
    uint32_t weights[TILE_N / 4];
    int32_t block = 0; /* whose weights are made and not yet used */
    auto go_on = [&]() { return next_tile<true>(work, shape, shared, t); };
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
    /* The scores of a block have been made: what they were made of may be loaded over, queries after block 0. */
    auto have_scores = [&](int32_t of_block) {
        wgmma_hold(s, TILE_N / 2);
        release_keys();
        if (of_block > 0)
            return;
        if (first_lane)
            mbarrier_arrive(query_ring::empty(shared, q));
        ring_advance<Q_SLOTS>(q);
    };
    /* The weights of a block from its scores; true if what was summed before is to be rescaled. */
    auto soften = [&](int32_t of_block) {
        float shift[2];

        if (of_block >= work.first_masked)
            hide_scores<TILE_N, false>(s, shape, work.query0 + 64 * (int32_t)w, of_block);
        const bool grown = follow_maxima<TILE_N, BELOW>(rows, s, shift, factor, scale);
        make_weights<TILE_N>(rows, s, shift, scale);
        return grown;
    };
    /* The values of a block have been added. */
    auto have_values = [&](const struct tile_work &of, int32_t of_block) {
        wgmma_hold(o, HEAD_DIM / 2);
        wgmma_hold(weights, TILE_N / 4);
        release_values();
    };
    auto finish = [&](const struct tile_work &of, const struct softmax_rows &of_rows) {
        write_output<element, BELOW>(o, of_rows, p.base, of, of.query0 + 64 * (int32_t)w);
    };
    /* A tile's first scores, with nothing to overlap them. Blocks whose keys no query of this warpgroup sees come
     * before, and are only passed on: no lane looks for a stage's phase when the next one may have begun. */
    auto begin_tile = [&]() {
        wait_queries();
        for (int32_t skipped = work.blocks - 1; skipped > block; --skipped) {
            wait_keys();
            warp_sync();
            release_keys();
            wait_values();
            warp_sync();
            release_values();
        }
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
            block = own_blocks<TILE_N, false>(work, shape, work.query0 + 64 * (int32_t)w) - 1;
            begin_tile();
        }
        int32_t add = 0;

#pragma unroll 1
        for (; block > 0; --block, add = 1) {
            wait_keys();
            hold_all();
            begin_scores();
            wait_values();
            begin_values(add);
            wgmma_wait<1>();
            have_scores(block - 1);
            const bool grown = soften(block - 1);
            wgmma_wait<0>();
            have_values(work, block);
            pack_weights<element>(weights, s); /* before the branch: made in the gaps between exponentials */
            if (grown)
                rescale<HEAD_DIM>(o, factor);
        }

        const struct tile_work done = work;
        const struct softmax_rows done_rows = rows;
        more = go_on();
        block = more ? own_blocks<TILE_N, false>(work, shape, work.query0 + 64 * (int32_t)w) - 1 : 0;
        begun = more && block == work.blocks - 1;
        if (begun) { /* the last values of this tile, and the first scores of the next */
            wait_queries();
            softmax_begin(rows);
            wait_keys();
            hold_all();
            begin_scores();
            wait_values();
            begin_values(add);
            wgmma_wait<1>();
            have_scores(block);
            soften(block);
            wgmma_wait<0>();
            have_values(done, 0);
            pack_weights<element>(weights, s);
            finish(done, done_rows);
        } else {
            wait_values();
            hold_all();
            begin_values(add);
            wgmma_wait<0>();
            have_values(done, 0);
            finish(done, done_rows);
        }
    }
}

GLINT_KERNEL(THREADS, 1) glint_fwd_bf16_d128_none__sm90a_m128n128(GLINT_PARAMS(struct glint_gpu_forward_maps) p)
{
    const uint32_t shared = shared_base(), warpgroup = warp_index() / 4;

    if (thread_index() == 0) {
        query_ring::init(shared, 1, 4 * WARPGROUPS);
        key_ring::init(shared, 1, 4 * WARPGROUPS);
        value_ring::init(shared, 1, 4 * WARPGROUPS);
        queue::init(shared, 4 * WARPGROUPS + 1);
        fence_mbarrier_init();
    }
    block_sync();
    if (warpgroup == WARPGROUPS) {
        registers_give<40>();
        const uint32_t warp = warp_index() % 4;
        if (warp == 0 && lane_index() == 0)
            load_queries_and_keys(p, shared);
        if (warp == 1 && lane_index() == 0)
            load_values(p, shared);
    } else {
        registers_take<232>();
        attend(p, shared, warpgroup);
    }
}
/* ==== The same over sequences whose lengths are read here; those of the shape are bounds =========================================
 * Other overloads of the same functions, and of one function for all masks the scanners: values beyond a length become zeros as those beyond the
 * bound are, so that a sequence has the bits of a call with its lengths. */

struct lengths_call : glint_gpu_forward_maps {}; /* tells the overloads apart */

/* Where the block works next; false after its last tile. By a whole warp, or by one lane alone. keeps: it gives the tile's lengths back itself. */
template <bool warp, bool keeps> GLINT_DEVICE bool next_tile(struct tile_work &work, uint32_t shared, struct ring &t)
{
    if (!sequences::wait(shared, t, work))
        return false;
    find_keys<TILE_M, TILE_N, false>(work, sequences::lengths(shared, t));
    ring_advance<sequences::stages>(t);
    if (!keeps)
        sequences::give_back<warp>(shared, sequences::at_hand(t));
    return true;
}

/* ---- the warpgroup that loads ------------------------------------------------------------------------------------ */

/* Announces this block's tiles, too: each is the first one that no block has taken. It is taken when the last keys of the
 * tile before are on their way, not sooner: a block that takes a tile long before it can begin leaves others idle at the end. */
GLINT_DEVICE void load_queries_and_keys(const struct lengths_call &p, uint32_t shared)
{
    const int32_t group = p.base.shape.group;
    struct ring q = {0, 0}, k = {0, 0}, t = {0, 0};
    uint32_t tile = block_index();
    struct tile_work work;

    for (;;) {
        struct own_shape own;

        if (!take_tile<TILE_M, false>(work, own, p, p.base.blocks[1], tile)) {
            sequences::announce_end(shared, t);
            return;
        }
        sequences::announce(shared, t, work, own);
        ring_advance<sequences::stages>(t);
        find_keys<TILE_M, TILE_N, false>(work, own);
        for (int32_t block = work.blocks - 1; block >= 0; --block) {
            key_ring::begin_fill(shared, k);
            load_tile<key_tile>(key_ring::tile(shared, k), &p.map[MAP_K], block * TILE_N,
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
        tile = p.base.blocks[1] - atom_global_add_u32(p.base.words, 0xffffffffu);
    }
}

GLINT_DEVICE void load_values(const struct lengths_call &p, uint32_t shared)
{
    const int32_t group = p.base.shape.group;
    struct ring v = {0, 0}, t = {0, 0}, cut = {0, 0};
    struct tile_work work;

    while (next_tile<false, false>(work, shared, t))
        for (int32_t block = work.blocks - 1; block >= 0; --block) {
            uint32_t full = value_ring::full(shared, v);

            value_ring::wait_empty(shared, v);
            if (block >= work.first_masked) {
                full = shared + LENGTHS_V_CUT + 8 * cut.stage;
                ring_advance<STAGES>(cut);
            } else
                mbarrier_arrive(full); /* for the second scanner, and below for the first */
            mbarrier_arrive_expect(full, key_tile::bytes);
            load_tile<key_tile>(value_ring::tile(shared, v), &p.map[MAP_V], block * TILE_N,
                                work.head_q / group, work.batch, full, GLINT_L2_EVICT_LAST);
            ring_advance<STAGES>(v);
        }
}

/* Without a mask the only values that some query does not see are those beyond the length. */
GLINT_DEVICE void scan_values(const struct lengths_call &p, uint32_t shared, uint32_t scanner)
{
    struct ring v = {0, 0}, cut = {0, 0}, t = {0, 0};
    struct tile_work work;

    for (uint32_t batch = p.base.blocks[1] * (thread_index_anew() % 64) + block_index(); batch < (uint32_t)p.base.shape.batch; batch += 64 * p.base.blocks[1])
        note_fault(p.base, (int32_t)batch);

    while (next_tile<true, true>(work, shared, t)) {
        for (int32_t block = work.blocks - 1; block >= 0; --block) {
            const uint32_t values = value_ring::tile(shared, v);

            if (block < work.first_masked) {
                ring_skip<STAGES>(v, (uint32_t)block + 1);
                break;
            }
            mbarrier_wait(shared + LENGTHS_V_CUT + 8 * cut.stage, cut.phase);
            ring_advance<STAGES>(cut);
            if (clear_rows<key_tile>(values, sequences::lengths(shared, sequences::at_hand(t)).seqlen_k - block * TILE_N, (thread_index_anew() % 64), 64))
                fence_async_shared();
            warp_sync();
            if (lane_index() == 0) {
                mbarrier_arrive(value_ring::full(shared, v));
            }
            ring_advance<STAGES>(v);
        }
        sequences::give_back<true>(shared, sequences::at_hand(t));
    }
}

/* ---- the warpgroups that compute --------------------------------------------------------------------------------- */

GLINT_DEVICE void attend(const struct lengths_call &p, uint32_t shared, uint32_t w)
{
    const struct glint_gpu_shape &shape = p.base.shape;
    const float scale = fmaxf(fabsf(shape.scale_log2), 1e-37f); /* not 0, so that hidden scores stay -inf */
    const bool first_lane = lane_index() == 0;
    struct ring q = {0, 0}, k = {0, 0}, v = {0, 0}, t = {0, 0};
    struct tile_work work;
    struct softmax_rows rows;
    float s[TILE_N / 2], o[HEAD_DIM / 2], factor[2] = {1.0f, 1.0f};
    uint32_t weights[TILE_N / 4];
    int32_t block = 0; /* whose weights are made and not yet used */
    auto go_on = [&]() {
        bool any = next_tile<true, true>(work, shared, t);
        return any;
    };
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
    /* The scores of a block have been made: what they were made of may be loaded over, queries after block 0. */
    auto have_scores = [&](int32_t of_block) {
        wgmma_hold(s, TILE_N / 2);
        release_keys();
        if (of_block > 0)
            return;
        if (first_lane)
            mbarrier_arrive(query_ring::empty(shared, q));
        ring_advance<Q_SLOTS>(q);
    };
    /* The weights of a block from its scores; true if what was summed before is to be rescaled. */
    auto soften = [&](int32_t of_block) {
        float shift[2];

        if (of_block >= work.first_masked)
            hide_scores<TILE_N, false>(s, sequences::lengths(shared, sequences::at_hand(t)), work.query0 + 64 * (int32_t)w, of_block);
        const bool grown = follow_maxima<TILE_N, BELOW>(rows, s, shift, factor, scale);
        make_weights<TILE_N>(rows, s, shift, scale);
        return grown;
    };
    /* The values of a block have been added. */
    auto have_values = [&](const struct tile_work &of, int32_t of_block) {
        wgmma_hold(o, HEAD_DIM / 2);
        wgmma_hold(weights, TILE_N / 4);
        release_values();
    };
    auto finish = [&](const struct tile_work &of, const struct softmax_rows &of_rows, int32_t seqlen_q) {
        auto sees = [&](int32_t query) { return sees_any_key(find_shape(p.base, of.batch), query); };
        write_output_with_sink<element, BELOW>(o, of_rows, p.base, of, of.query0 + 64 * (int32_t)w, seqlen_q, sees);
    };
    /* A tile's first scores, with nothing to overlap them. Blocks whose keys no query of this warpgroup sees come
     * before, and are only passed on: no lane looks for a stage's phase when the next one may have begun. */
    auto begin_tile = [&]() {
        wait_queries();
        for (int32_t skipped = work.blocks - 1; skipped > block; --skipped) {
            wait_keys();
            warp_sync();
            release_keys();
            wait_values();
            warp_sync();
            release_values();
        }
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
            block = own_blocks<TILE_N, false>(work, sequences::lengths(shared, sequences::at_hand(t)), work.query0 + 64 * (int32_t)w) - 1;
            begin_tile();
        }
        int32_t add = 0;

#pragma unroll 1
        for (; block > 0; --block, add = 1) {
            wait_keys();
            hold_all();
            begin_scores();
            wait_values();
            begin_values(add);
            wgmma_wait<1>();
            have_scores(block - 1);
            const bool grown = soften(block - 1);
            wgmma_wait<0>();
            have_values(work, block);
            pack_weights<element>(weights, s); /* before the branch: made in the gaps between exponentials */
            if (grown)
                rescale<HEAD_DIM>(o, factor);
        }

        const struct tile_work done = work;
        const struct softmax_rows done_rows = rows;
        const int32_t done_seqlen_q = sequences::lengths(shared, sequences::at_hand(t)).seqlen_q;
        sequences::give_back<true>(shared, sequences::at_hand(t));
        more = go_on();
        block = more ? own_blocks<TILE_N, false>(work, sequences::lengths(shared, sequences::at_hand(t)), work.query0 + 64 * (int32_t)w) - 1 : 0;
        begun = more && block == work.blocks - 1;
        if (begun) { /* the last values of this tile, and the first scores of the next */
            wait_queries();
            softmax_begin(rows);
            wait_keys();
            hold_all();
            begin_scores();
            wait_values();
            begin_values(add);
            wgmma_wait<1>();
            have_scores(block);
            soften(block);
            wgmma_wait<0>();
            have_values(done, 0);
            pack_weights<element>(weights, s);
            finish(done, done_rows, done_seqlen_q);
        } else {
            wait_values();
            hold_all();
            begin_values(add);
            wgmma_wait<0>();
            have_values(done, 0);
            finish(done, done_rows, done_seqlen_q);
        }
    }
}

GLINT_KERNEL(THREADS, 1) glint_fwd_bf16_d128_none__sm90a_m128n128_lengths(GLINT_PARAMS(struct lengths_call) p)
{
    const uint32_t shared = shared_base(), warpgroup = warp_index() / 4;

    if (thread_index() == 0) {
        query_ring::init(shared, 1, 4 * WARPGROUPS);
        key_ring::init(shared, 1, 4 * WARPGROUPS);
        value_ring::init(shared, 2, 4 * WARPGROUPS);
        sequences::init(shared, 4 * WARPGROUPS + 3);
        for (uint32_t i = 0; i < STAGES; ++i)
            mbarrier_init(shared + LENGTHS_V_CUT + 8 * i, 1);
        fence_mbarrier_init();
    }
    block_sync();
    if (warpgroup == WARPGROUPS) {
        registers_give<40>();
        const uint32_t warp = warp_index() % 4;
        if (warp == 0 && lane_index() == 0)
            load_queries_and_keys(p, shared);
        if (warp == 1 && lane_index() == 0)
            load_values(p, shared);
        if (warp >= 2)
            scan_values(p, shared, warp - 2);
    } else {
        registers_take<232>();
        attend(p, shared, warpgroup);
    }
}
/* ==== The same over ragged sequences ================================================================================================
 * Tiles are found by a search, which all of the loader's warp does. Rows of the next sequence in a last block of keys are what those beyond a
 * length are. */

struct ragged_call : glint_gpu_forward_maps {}; /* tells the overloads apart */

/* Where the block works next; false after its last tile. By a whole warp, or by one lane alone. keeps: it gives the tile's lengths back itself. */
template <bool warp, bool keeps> GLINT_DEVICE bool next_tile(struct ragged_work<tile_work> &work, uint32_t shared, struct ring &t)
{
    if (!ragged_sequences::wait(shared, t, work))
        return false;
    find_keys<TILE_M, TILE_N, false>(work, ragged_sequences::lengths(shared, t));
    ring_advance<ragged_sequences::stages>(t);
    if (!keeps)
        ragged_sequences::give_back<warp>(shared, ragged_sequences::at_hand(t));
    return true;
}

/* ---- the warpgroup that loads ------------------------------------------------------------------------------------ */

/* Announces this block's tiles, too: each is the first one that no block has taken. It is taken when the last keys of the
 * tile before are on their way, not sooner: a block that takes a tile long before it can begin leaves others idle at the end. */
GLINT_DEVICE void load_queries_and_keys(const struct ragged_call &p, uint32_t shared)
{
    const int32_t group = p.base.shape.group;
    struct ring q = {0, 0}, k = {0, 0}, t = {0, 0};
    uint32_t tile = block_index();
    struct ragged_work<tile_work> work;

    put_no_group(p, shared + RAGGED_TABLE);
    for (;;) {
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
        find_keys<TILE_M, TILE_N, false>(work, kept_shape(found));
#pragma unroll 1 /* registers */
        for (int32_t block = lane_index() == 0 ? work.blocks - 1 : 0 - 1; block >= 0; --block) { /* one lane loads */
            key_ring::begin_fill(shared, k);
            load_tile<key_tile>(key_ring::tile(shared, k), &p.map[MAP_K], work.first_k + block * TILE_N,
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
        tile = next_number(p.base.words, p.base.blocks[2], shared + RAGGED_TABLE);
    }
}

GLINT_DEVICE void load_values(const struct ragged_call &p, uint32_t shared)
{
    const int32_t group = p.base.shape.group;
    struct ring v = {0, 0}, t = {0, 0}, cut = {0, 0};
    struct ragged_work<tile_work> work;

    while (next_tile<false, false>(work, shared, t))
        for (int32_t block = work.blocks - 1; block >= 0; --block) {
            uint32_t full = value_ring::full(shared, v);

            value_ring::wait_empty(shared, v);
            if (block >= work.first_masked) {
                full = shared + RAGGED_V_CUT + 8 * cut.stage;
                ring_advance<STAGES>(cut);
            } else
                mbarrier_arrive(full); /* for the second scanner, and below for the first */
            mbarrier_arrive_expect(full, key_tile::bytes);
            load_tile<key_tile>(value_ring::tile(shared, v), &p.map[MAP_V], work.first_k + block * TILE_N,
                                work.head_q / group, work.batch, full, GLINT_L2_EVICT_LAST);
            ring_advance<STAGES>(v);
        }
}

/* Without a mask the only values that some query does not see are those beyond the length. */
GLINT_DEVICE void scan_values(const struct ragged_call &p, uint32_t shared, uint32_t scanner)
{
    struct ring v = {0, 0}, cut = {0, 0}, t = {0, 0};
    struct ragged_work<tile_work> work;

    if (p.base.sequences.fault && block_index() == 0 && scanner == 0)
        note_ragged_fault(p.base.sequences, shape_of_bounds(p));

    while (next_tile<true, true>(work, shared, t)) {
        for (int32_t block = work.blocks - 1; block >= 0; --block) {
            const uint32_t values = value_ring::tile(shared, v);

            if (block < work.first_masked) {
                ring_skip<STAGES>(v, (uint32_t)block + 1);
                break;
            }
            mbarrier_wait(shared + RAGGED_V_CUT + 8 * cut.stage, cut.phase);
            ring_advance<STAGES>(cut);
            if (clear_rows<key_tile>(values, ragged_sequences::lengths(shared, ragged_sequences::at_hand(t)).seqlen_k - block * TILE_N, (thread_index_anew() % 64), 64))
                fence_async_shared();
            warp_sync();
            if (lane_index() == 0) {
                mbarrier_arrive(value_ring::full(shared, v));
            }
            ring_advance<STAGES>(v);
        }
        ragged_sequences::give_back<true>(shared, ragged_sequences::at_hand(t));
    }
}

/* ---- the warpgroups that compute --------------------------------------------------------------------------------- */

GLINT_DEVICE void attend(const struct ragged_call &p, uint32_t shared, uint32_t w)
{
    const struct glint_gpu_shape &shape = p.base.shape;
    const float scale = fmaxf(fabsf(shape.scale_log2), 1e-37f); /* not 0, so that hidden scores stay -inf */
    const bool first_lane = lane_index() == 0;
    struct ring q = {0, 0}, k = {0, 0}, v = {0, 0}, t = {0, 0};
    struct ragged_work<tile_work> work;
    struct softmax_rows rows;
    float s[TILE_N / 2], o[HEAD_DIM / 2], factor[2] = {1.0f, 1.0f};
    uint32_t weights[TILE_N / 4];
    int32_t block = 0; /* whose weights are made and not yet used */
    auto go_on = [&]() {
        bool any = next_tile<true, true>(work, shared, t);
        return any;
    };
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
    /* The scores of a block have been made: what they were made of may be loaded over, queries after block 0. */
    auto have_scores = [&](int32_t of_block) {
        wgmma_hold(s, TILE_N / 2);
        release_keys();
        if (of_block > 0)
            return;
        if (first_lane)
            mbarrier_arrive(query_ring::empty(shared, q));
        ring_advance<Q_SLOTS>(q);
    };
    /* The weights of a block from its scores; true if what was summed before is to be rescaled. */
    auto soften = [&](int32_t of_block) {
        float shift[2];

        if (of_block >= work.first_masked)
            hide_scores<TILE_N, false>(s, ragged_sequences::lengths(shared, ragged_sequences::at_hand(t)), work.query0 + 64 * (int32_t)w, of_block);
        const bool grown = follow_maxima<TILE_N, BELOW>(rows, s, shift, factor, scale);
        make_weights<TILE_N>(rows, s, shift, scale);
        return grown;
    };
    /* The values of a block have been added. */
    auto have_values = [&](const struct ragged_work<tile_work> &of, int32_t of_block) {
        wgmma_hold(o, HEAD_DIM / 2);
        wgmma_hold(weights, TILE_N / 4);
        release_values();
    };
    auto finish = [&](const struct ragged_work<tile_work> &of, const struct softmax_rows &of_rows, int32_t seqlen_q) {
        const uint32_t kept = shared + RAGGED_KEPT + 32 * warp_index();
        auto sees = [&](int32_t query) { return sees_any_key(kept_shape(kept), query); };
        write_output_with_sink<element, BELOW>(o, of_rows, p.base, of, of.query0 + 64 * (int32_t)w, seqlen_q, sees);
    };
    /* A tile's first scores, with nothing to overlap them. Blocks whose keys no query of this warpgroup sees come
     * before, and are only passed on: no lane looks for a stage's phase when the next one may have begun. */
    auto begin_tile = [&]() {
        wait_queries();
        for (int32_t skipped = work.blocks - 1; skipped > block; --skipped) {
            wait_keys();
            warp_sync();
            release_keys();
            wait_values();
            warp_sync();
            release_values();
        }
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
            block = own_blocks<TILE_N, false>(work, ragged_sequences::lengths(shared, ragged_sequences::at_hand(t)), work.query0 + 64 * (int32_t)w) - 1;
            begin_tile();
        }
        int32_t add = 0;

#pragma unroll 1
        for (; block > 0; --block, add = 1) {
            wait_keys();
            hold_all();
            begin_scores();
            wait_values();
            begin_values(add);
            wgmma_wait<1>();
            have_scores(block - 1);
            const bool grown = soften(block - 1);
            wgmma_wait<0>();
            have_values(work, block);
            pack_weights<element>(weights, s); /* before the branch: made in the gaps between exponentials */
            if (grown)
                rescale<HEAD_DIM>(o, factor);
        }

        const struct ragged_work<tile_work> done = work;
        const struct softmax_rows done_rows = rows;
        const int32_t done_seqlen_q = ragged_sequences::lengths(shared, ragged_sequences::at_hand(t)).seqlen_q;
        ragged_sequences::keep(shared, ragged_sequences::at_hand(t), shared + RAGGED_KEPT + 32 * warp_index());
        ragged_sequences::give_back<true>(shared, ragged_sequences::at_hand(t));
        more = go_on();
        block = more ? own_blocks<TILE_N, false>(work, ragged_sequences::lengths(shared, ragged_sequences::at_hand(t)), work.query0 + 64 * (int32_t)w) - 1 : 0;
        begun = more && block == work.blocks - 1;
        if (begun) { /* the last values of this tile, and the first scores of the next */
            wait_queries();
            softmax_begin(rows);
            wait_keys();
            hold_all();
            begin_scores();
            wait_values();
            begin_values(add);
            wgmma_wait<1>();
            have_scores(block);
            soften(block);
            wgmma_wait<0>();
            have_values(done, 0);
            pack_weights<element>(weights, s);
            finish(done, done_rows, done_seqlen_q);
        } else {
            wait_values();
            hold_all();
            begin_values(add);
            wgmma_wait<0>();
            have_values(done, 0);
            finish(done, done_rows, done_seqlen_q);
        }
    }
}

GLINT_KERNEL(THREADS, 1) glint_fwd_bf16_d128_none__sm90a_m128n128_ragged(GLINT_PARAMS(struct ragged_call) p)
{
    const uint32_t shared = shared_base(), warpgroup = warp_index() / 4;

    if (thread_index() == 0) {
        query_ring::init(shared, 1, 4 * WARPGROUPS);
        key_ring::init(shared, 1, 4 * WARPGROUPS);
        value_ring::init(shared, 2, 4 * WARPGROUPS);
        ragged_sequences::init(shared, 4 * WARPGROUPS + 3);
        for (uint32_t i = 0; i < STAGES; ++i)
            mbarrier_init(shared + RAGGED_V_CUT + 8 * i, 1);
        fence_mbarrier_init();
    }
    block_sync();
    if (warpgroup == WARPGROUPS) {
        registers_give<40>();
        const uint32_t warp = warp_index() % 4;
        if (warp == 0) { /* one role each, by else: what one of them keeps in registers must not live through another's search */
            load_queries_and_keys(p, shared);
        } else if (warp == 1) {
            if (lane_index() == 0)
                load_values(p, shared);
        } else {
            scan_values(p, shared, warp - 2);
        }
    } else {
        registers_take<232>();
        attend(p, shared, warpgroup);
    }
}
