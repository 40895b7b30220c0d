/* fwd_bf16_d64_causal__sm90a_m192n128
 *
 * Attention, forward: O and LSE from Q, K, V; bf16, head_dim 64, causal, both alignments.
 * For sm_90a.
 * Tile: 192 queries x 128 keys; persistent, 3 warpgroups of 160 registers a thread that compute and one of 32 that loads; K and V in 2 stages.
 * Shared memory of a block: 90264 bytes.
 *
 * Made from gen/templates/sm90a_fwd.cu.lua by
 *   lua5.4 gen/glint.lua emit --spec generated/golden/golden.lua --variant fwd_bf16_d64_causal__sm90a_m192n128
 * and overwritten by it: change the template or the spec. */

/* A persistent block of 3 warpgroups that compute, 64 queries each, and one that loads. Tiles of
 * 192 queries of one head are worked on one after another, each over the keys in blocks of 128, last
 * block first. While the products of a block are summed, the scores of the next are made into weights; at the end of
 * a tile that next one is the following tile's first.
 *
 *     loaders   K, Q; V            two warps, a thread of each
 *     scanners  V                  two warps: NaN and infinity leave a block of V that the mask cuts
 *               O                  zeros, where no key is seen
 *     others    S = Q K^T, P = 2^(scale (S - max)), O += P V */
#include "lib/device/warpgroup_forward.h"

enum {
    HEAD_DIM = 64,
    TILE_N = 128, /* keys of a block */
    WARPGROUPS = 3, /* that compute */
    TILE_M = 64 * WARPGROUPS,
    THREADS = 128 * (1 + WARPGROUPS),
    Q_SLOTS = 1,
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
enum {
    V_CUT = queue::end, /* mbarriers: a block that the mask cuts has arrived, and waits for its scanners */
    SPECIAL = V_CUT + 8 * STAGES, /* what each of two scanners found in a stage: NaN or infinity */
    SHARED_BYTES = SPECIAL + 8 * STAGES,
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
    return find_tile<TILE_M, TILE_N, true>(work, shape, tile);
}

/* ---- the warpgroup that loads ------------------------------------------------------------------------------------ */

/* Announces this block's tiles, too: each is the first one that no block has taken. It is taken when the last keys of the
 * tile before are on their way, not sooner: a block that takes a tile long before it can begin leaves others idle at the end. */
GLINT_DEVICE void load_queries_and_keys(const struct glint_gpu_forward_maps &p, uint32_t shared)
{
    const int32_t group = p.base.shape.group;
    struct ring q = {0, 0}, k = {0, 0}, t = {0, 0};
    uint32_t tile = block_index();
    struct tile_work work;

    for (;;) {
        const uint32_t number = blind_last<TILE_M, HEAD_DIM>(p.base.shape, tile);
        const bool any = find_tile<TILE_M, TILE_N, true>(work, p.base.shape, number);

        queue::announce(shared, t, number);
        ring_advance<2>(t);
        if (!any)
            return;
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
        tile = p.base.blocks[0] + atom_global_add_u32(p.base.words, 1);
    }
}

GLINT_DEVICE void load_values(const struct glint_gpu_forward_maps &p, uint32_t shared)
{
    const int32_t group = p.base.shape.group;
    struct ring v = {0, 0}, t = {0, 0}, cut = {0, 0};
    struct tile_work work;

    while (next_tile<false>(work, p.base.shape, shared, t))
        for (int32_t block = work.blocks - 1; block >= 0; --block) {
            uint32_t full = value_ring::full(shared, v);

            value_ring::wait_empty(shared, v);
            if (block >= work.first_masked) {
                full = shared + V_CUT + 8 * cut.stage;
                ring_advance<STAGES>(cut);
            } else
                mbarrier_arrive(full); /* for the second scanner, and below for the first */
            mbarrier_arrive_expect(full, key_tile::bytes);
            load_tile<key_tile>(value_ring::tile(shared, v), &p.map[MAP_V], block * TILE_N,
                                work.head_q / group, work.batch, full, GLINT_L2_EVICT_LAST);
            ring_advance<STAGES>(v);
        }
}

/* A weight of zero times NaN is NaN, so NaN and infinity leave the blocks of V in which some query does not see every
 * key. Queries that do see them get them at the end: see add_special. This is scanner 0 or 1. */
GLINT_DEVICE void scan_values(const struct glint_gpu_forward_maps &p, uint32_t shared, uint32_t scanner)
{
    const uint32_t thread = 32 * scanner + lane_index();
    struct ring v = {0, 0}, cut = {0, 0}, t = {0, 0};
    struct tile_work work;

    while (next_tile<true>(work, p.base.shape, shared, t)) {
        if (work.blocks == 0)
            write_nothing<HEAD_DIM>(p.base, work, end_of_blind<TILE_M, HEAD_DIM>(work, p.base.shape), -GLINT_INFINITY, thread, 64);
        for (int32_t block = work.blocks - 1; block >= 0; --block) {
            const uint32_t values = value_ring::tile(shared, v);

            if (block < work.first_masked) {
                ring_skip<STAGES>(v, (uint32_t)block + 1);
                break;
            }
            mbarrier_wait(shared + V_CUT + 8 * cut.stage, cut.phase);
            ring_advance<STAGES>(cut);
            const bool special = sees_special(values, key_tile::bytes, thread, 64, element::EXPONENT);
            if (special) {
                remove_special(values, key_tile::bytes, thread, 64, element::EXPONENT);
                fence_async_shared();
            }
            const bool any = warp_any(special);
            warp_sync();
            if (lane_index() == 0) {
                st_shared_u32(shared + SPECIAL + 8 * v.stage + 4 * scanner, any);
                mbarrier_arrive(value_ring::full(shared, v));
            }
            ring_advance<STAGES>(v);
        }
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
    auto go_on = [&]() { /* tiles whose queries see no key are the scanners' */
        bool any;

        do
            any = next_tile<true>(work, shape, shared, t);
        while (any && work.blocks == 0);
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
    /* Warpgroups issue their products in turn, so that while one's exponentials are made the tensor cores have
     * another's work. */
    auto take_turn = [&]() { named_sync(TURN + w, 256); };
    auto pass_turn = [&]() { named_arrive(TURN + (w + 1) % WARPGROUPS, 256); };
    if (w == WARPGROUPS - 1)
        pass_turn();
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
            hide_scores<TILE_N, true>(s, shape, work.query0 + 64 * (int32_t)w, of_block);
        const bool grown = follow_maxima<TILE_N, BELOW>(rows, s, shift, factor, scale);
        make_weights<TILE_N>(rows, s, shift, scale);
        return grown;
    };
    uint32_t special = 0; /* the first lane knows of NaN and infinities of this tile */
    /* The values of a block have been added. */
    auto have_values = [&](const struct tile_work &of, int32_t of_block) {
        wgmma_hold(o, HEAD_DIM / 2);
        wgmma_hold(weights, TILE_N / 4);
        if (of_block >= of.first_masked && first_lane)
            special |= ld_shared_u32(shared + SPECIAL + 8 * v.stage) |
                       ld_shared_u32(shared + SPECIAL + 8 * v.stage + 4);
        release_values();
    };
    auto finish = [&](const struct tile_work &of, const struct softmax_rows &of_rows) {
        if (warp_any(special != 0))
            add_special<element, TILE_N>(o, p.base, of, of.query0 + 64 * (int32_t)w);
        special = 0;
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
            take_turn();
            pass_turn();
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
            block = own_blocks<TILE_N, true>(work, shape, work.query0 + 64 * (int32_t)w) - 1;
            begin_tile();
        }
        int32_t add = 0;

#pragma unroll 1
        for (; block > 0; --block, add = 1) {
            wait_keys();
            take_turn();
            hold_all();
            begin_scores();
            wait_values();
            begin_values(add);
            pass_turn();
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
        block = more ? own_blocks<TILE_N, true>(work, shape, work.query0 + 64 * (int32_t)w) - 1 : 0;
        begun = more && block == work.blocks - 1;
        if (begun) { /* the last values of this tile, and the first scores of the next */
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
            have_scores(block);
            soften(block);
            wgmma_wait<0>();
            have_values(done, 0);
            pack_weights<element>(weights, s);
            finish(done, done_rows);
        } else {
            wait_values();
            if (more)
                take_turn();
            hold_all();
            begin_values(add);
            if (more)
                pass_turn();
            wgmma_wait<0>();
            have_values(done, 0);
            finish(done, done_rows);
        }
    }
}

GLINT_KERNEL(THREADS, 1) glint_fwd_bf16_d64_causal__sm90a_m192n128(GLINT_PARAMS(struct glint_gpu_forward_maps) p)
{
    const uint32_t shared = shared_base(), warpgroup = warp_index() / 4;

    if (thread_index() == 0) {
        query_ring::init(shared, 1, 4 * WARPGROUPS);
        key_ring::init(shared, 1, 4 * WARPGROUPS);
        value_ring::init(shared, 2, 4 * WARPGROUPS);
        queue::init(shared, 4 * WARPGROUPS + 3);
        for (uint32_t i = 0; i < STAGES; ++i)
            mbarrier_init(shared + V_CUT + 8 * i, 1);
        fence_mbarrier_init();
    }
    block_sync();
    if (warpgroup == WARPGROUPS) {
        registers_give<32>();
        const uint32_t warp = warp_index() % 4;
        if (warp == 0 && lane_index() == 0)
            load_queries_and_keys(p, shared);
        if (warp == 1 && lane_index() == 0)
            load_values(p, shared);
        if (warp >= 2)
            scan_values(p, shared, warp - 2);
    } else {
        registers_take<160>();
        attend(p, shared, warpgroup);
    }
}
