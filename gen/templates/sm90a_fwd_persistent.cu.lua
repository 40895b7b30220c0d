/* A persistent block of ${warpgroups} warpgroups that compute, 64 queries each, and one that loads. Tiles of ${tile_m} queries
 * of one head are worked on one after another, each over the keys in blocks of ${tile_n}, last block first. While the
 * products of a block are summed, the scores of the next are made into weights; at the end of a tile that next one is
 * the following tile's first.
 *
 *     loaders   K, Q; V            two warps, a thread of each
$ if causal then
 *     scanners  V                  two warps: NaN and infinity leave a block of V that the mask cuts
$ end
 *     others    S = Q K^T, P = 2^(scale (S - max)), O += P V */
#include "lib/device/warpgroup.h"

enum {
    HEAD_DIM = ${head_dim},
    TILE_N = ${tile_n}, /* keys of a block */
    WARPGROUPS = ${warpgroups}, /* that compute */
    TILE_M = 64 * WARPGROUPS,
    THREADS = 128 * (1 + WARPGROUPS),
    Q_SLOTS = ${q_slots},
    STAGES = ${stages}, /* of K, and of V */
};

typedef slab_tile<64, HEAD_DIM, ${width}> query_tile; /* a warpgroup's own */
typedef slab_tile<TILE_N, HEAD_DIM, ${width}> key_tile;

/* Shared memory. */
enum {
    Q_BYTES = WARPGROUPS * query_tile::bytes,
    Q_AT = 0,
    K_AT = Q_AT + Q_SLOTS * Q_BYTES,
    V_AT = K_AT + STAGES * key_tile::bytes,
    Q_FULL = V_AT + STAGES * key_tile::bytes, /* mbarriers */
    Q_EMPTY = Q_FULL + 8 * Q_SLOTS,
    K_FULL = Q_EMPTY + 8 * Q_SLOTS,
    K_EMPTY = K_FULL + 8 * STAGES,
    V_FULL = K_EMPTY + 8 * STAGES,
    V_EMPTY = V_FULL + 8 * STAGES,
    TILE_FULL = V_EMPTY + 8 * STAGES, /* the block's next tiles, by number */
    TILE_EMPTY = TILE_FULL + 8 * 2,
    TILE = TILE_EMPTY + 8 * 2,
$ if causal then
    V_CUT = TILE + 4 * 2, /* a block that the mask cuts has arrived, and waits for its scanners */
    SPECIAL = V_CUT + 8 * STAGES, /* what each of two scanners found in a stage: NaN or infinity */
    SHARED_BYTES = SPECIAL + 8 * STAGES,
    EXPONENT = ${dtype == "f16" and "0x7c000000" or "0x7f800000"}, /* all ones in NaN and infinity: see finite_part */
$ else
    SHARED_BYTES = TILE + 4 * 2,
$ end
};

/* Named barriers: 1 + w to warpgroup w's turn at the tensor cores, OWN + w within it. */
enum { TURN = 1, OWN = TURN + WARPGROUPS };

$ include("sm90a_attention.cu.lua")
/* The next tile of this block, as the loader of keys announces it; false after the last one. By a whole warp, or by one
 * lane alone. */
template <bool warp>
GLINT_DEVICE bool next_work(struct work &work, const struct glint_forward_maps_params &p, uint32_t shared,
                            struct ring &t)
{
    mbarrier_wait(shared + TILE_FULL + 8 * t.stage, t.phase);
    const uint32_t tile = ld_shared_u32(shared + TILE + 4 * t.stage);
    if (warp)
        warp_sync();
    if (!warp || lane_index() == 0)
        mbarrier_arrive(shared + TILE_EMPTY + 8 * t.stage);
    ring_advance<2>(t);
    return place_work(work, p.base.shape, tile);
}

/* Blocks of the tile, the first ones, that a warpgroup walks over: those that a query of its own sees, but at least
 * one. */
GLINT_DEVICE int32_t own_blocks(const struct work &work, const struct glint_gpu_shape &shape, int32_t query0)
{
    if (query0 >= shape.seqlen_q)
        return 1;
$ if causal then
    const int32_t keys = min(shape.seqlen_k, min(query0 + 64, shape.seqlen_q) + shape.mask_offset);
    return max(1, (keys + TILE_N - 1) / TILE_N);
$ else
    return work.blocks;
$ end
}

/* ---- the warpgroup that loads ------------------------------------------------------------------------------------ */

$ if dynamic then
/* Announces this block's tiles, too: each is the first one that no block has taken. */
$ else
/* Announces this block's tiles, too: every p.blocks[0]-th of them. */
$ end
GLINT_DEVICE void load_queries_and_keys(const struct glint_forward_maps_params &p, uint32_t shared)
{
    const int32_t group = p.base.shape.group;
    struct ring q = {0, 0}, k = {0, 0}, t = {0, 0};
    uint32_t tile = block_index();
    struct work work;

    for (;;) {
        const bool any = place_work(work, p.base.shape, tile);

        mbarrier_wait(shared + TILE_EMPTY + 8 * t.stage, t.phase ^ 1);
        st_shared_u32(shared + TILE + 4 * t.stage, tile);
        mbarrier_arrive(shared + TILE_FULL + 8 * t.stage);
        ring_advance<2>(t);
        if (!any)
            return;
        tile = ${dynamic and "p.blocks[0] + atom_global_add_u32(p.words, 1)" or "tile + p.blocks[0]"};
        for (int32_t block = work.blocks - 1; block >= 0; --block) {
            const int32_t keys[5] = {0, block * TILE_N, 0, work.head_q / group, work.batch};

            mbarrier_wait(shared + K_EMPTY + 8 * k.stage, k.phase ^ 1);
            mbarrier_arrive_expect(shared + K_FULL + 8 * k.stage, key_tile::bytes);
            tma_load(shared + K_AT + k.stage * key_tile::bytes, &p.map[K], 5, keys, shared + K_FULL + 8 * k.stage,
                     GLINT_L2_EVICT_LAST);
            ring_advance<STAGES>(k);
            if (block < work.blocks - 1)
                continue;
            mbarrier_wait(shared + Q_EMPTY + 8 * q.stage, q.phase ^ 1);
            mbarrier_arrive_expect(shared + Q_FULL + 8 * q.stage, Q_BYTES);
            for (int32_t w = 0; w < WARPGROUPS; ++w) {
                const int32_t queries[5] = {0, work.query0 + 64 * w, 0, work.head_q, work.batch};
                tma_load(shared + Q_AT + q.stage * Q_BYTES + w * query_tile::bytes, &p.map[Q], 5, queries,
                         shared + Q_FULL + 8 * q.stage, GLINT_L2_EVICT_FIRST);
            }
            ring_advance<Q_SLOTS>(q);
        }
    }
}

GLINT_DEVICE void load_values(const struct glint_forward_maps_params &p, uint32_t shared)
{
    const int32_t group = p.base.shape.group;
    struct ring v = {0, 0}, t = {0, 0}${causal and ", cut = {0, 0}" or ""};
    struct work work;

    while (next_work<false>(work, p, shared, t))
        for (int32_t block = work.blocks - 1; block >= 0; --block) {
            const int32_t keys[5] = {0, block * TILE_N, 0, work.head_q / group, work.batch};
            uint32_t full = shared + V_FULL + 8 * v.stage;

            mbarrier_wait(shared + V_EMPTY + 8 * v.stage, v.phase ^ 1);
$ if causal then
            if (block >= work.first_masked) {
                full = shared + V_CUT + 8 * cut.stage;
                ring_advance<STAGES>(cut);
            } else
                mbarrier_arrive(full); /* for the second scanner, and below for the first */
$ end
            mbarrier_arrive_expect(full, key_tile::bytes);
            tma_load(shared + V_AT + v.stage * key_tile::bytes, &p.map[V], 5, keys, full, GLINT_L2_EVICT_LAST);
            ring_advance<STAGES>(v);
        }
}

$ if causal then
/* A weight of zero times NaN is NaN, so NaN and infinity leave the blocks of V in which some query does not see every
 * key. Queries that do see them get them at the end: see add_special. This is scanner 0 or 1. */
GLINT_DEVICE void scan_values(const struct glint_forward_maps_params &p, uint32_t shared, uint32_t scanner)
{
    const uint32_t thread = 32 * scanner + lane_index();
    struct ring v = {0, 0}, cut = {0, 0}, t = {0, 0};
    struct work work;

    while (next_work<true>(work, p, shared, t)) {
        for (int32_t block = work.blocks - 1; block >= 0; --block) {
            const uint32_t values = shared + V_AT + v.stage * key_tile::bytes;

            if (block < work.first_masked) {
                ring_skip<STAGES>(v, (uint32_t)block + 1);
                break;
            }
            mbarrier_wait(shared + V_CUT + 8 * cut.stage, cut.phase);
            ring_advance<STAGES>(cut);
            const bool special = sees_special(values, key_tile::bytes, thread, 64, EXPONENT);
            if (special) {
                remove_special(values, key_tile::bytes, thread, 64, EXPONENT);
                fence_async_shared();
            }
            const bool any = warp_any(special);
            warp_sync();
            if (lane_index() == 0) {
                st_shared_u32(shared + SPECIAL + 8 * v.stage + 4 * scanner, any);
                mbarrier_arrive(shared + V_FULL + 8 * v.stage);
            }
            ring_advance<STAGES>(v);
        }
    }
}

$ end
/* ---- the warpgroups that compute --------------------------------------------------------------------------------- */

GLINT_DEVICE void attend(const struct glint_forward_maps_params &p, uint32_t shared, uint32_t w)
{
    const struct glint_gpu_shape &shape = p.base.shape;
    const float scale = fmaxf(fabsf(shape.scale_log2), 1e-37f); /* not 0, so that hidden scores stay -inf */
    const bool first_lane = lane_index() == 0;
    struct ring q = {0, 0}, k = {0, 0}, v = {0, 0}, t = {0, 0};
    struct work work;
    struct softmax_rows rows;
    float s[TILE_N / 2], o[HEAD_DIM / 2], factor[2] = {1.0f, 1.0f};
    uint32_t weights[TILE_N / 4];
    int32_t block = 0; /* whose weights are made and not yet used */
    bool more = next_work<true>(work, p, shared, t);
    bool begun = false; /* the tile's first scores and weights are made */

#pragma unroll
    for (int i = 0; i < HEAD_DIM / 2; ++i)
        o[i] = 0.0f;

    /* Powers of two of positive multiples: a negative scale goes into Q. */
    auto wait_queries = [&]() {
        mbarrier_wait(shared + Q_FULL + 8 * q.stage, q.phase);
        if (shape.scale_log2 < 0.0f)
            negate_slabs<query_tile>(shared + Q_AT + q.stage * Q_BYTES + w * query_tile::bytes, OWN + w);
    };
    auto wait_keys = [&]() { mbarrier_wait(shared + K_FULL + 8 * k.stage, k.phase); };
    auto wait_values = [&]() { mbarrier_wait(shared + V_FULL + 8 * v.stage, v.phase); };
    auto release_keys = [&]() {
        if (first_lane)
            mbarrier_arrive(shared + K_EMPTY + 8 * k.stage);
        ring_advance<STAGES>(k);
    };
    auto release_values = [&]() {
        if (first_lane)
            mbarrier_arrive(shared + V_EMPTY + 8 * v.stage);
        ring_advance<STAGES>(v);
    };
    auto begin_next_scores = [&]() {
        begin_scores(s, shared + Q_AT + q.stage * Q_BYTES + w * query_tile::bytes,
                     shared + K_AT + k.stage * key_tile::bytes);
    };
    auto begin_next_values = [&](int32_t add) {
        begin_values(o, weights, shared + V_AT + v.stage * key_tile::bytes, add);
    };
    auto hold_all = [&]() {
        wgmma_hold(s, TILE_N / 2);
        wgmma_hold(o, HEAD_DIM / 2);
        wgmma_hold(weights, TILE_N / 4);
    };
$ if turns then
    /* Warpgroups issue their products in turn, so that while one's exponentials are made the tensor cores have another's
     * work. */
    auto take_turn = [&]() { named_sync(TURN + w, 256); };
    auto pass_turn = [&]() { named_arrive(TURN + (w + 1) % WARPGROUPS, 256); };
    if (w == WARPGROUPS - 1)
        pass_turn();
$ end
    /* The scores of a block have been made: what they were made of may be loaded over, queries after block 0. */
    auto have_scores = [&](int32_t of_block) {
        wgmma_hold(s, TILE_N / 2);
        release_keys();
        if (of_block > 0)
            return;
        if (first_lane)
            mbarrier_arrive(shared + Q_EMPTY + 8 * q.stage);
        ring_advance<Q_SLOTS>(q);
    };
    /* The weights of a block from its scores; true if what was summed before is to be rescaled. */
    auto soften = [&](int32_t of_block) {
        float shift[2];

        if (of_block >= work.first_masked)
            hide_scores(s, shape, work.query0 + 64 * (int32_t)w, of_block);
        const bool grown = follow_maxima<TILE_N, BELOW>(rows, s, shift, factor, scale);
        make_weights<TILE_N>(rows, s, shift, scale);
        return grown;
    };
$ if causal then
    uint32_t special = 0; /* the first lane knows of NaN and infinities of this tile */
$ end
    /* The values of a block have been added. */
    auto have_values = [&](const struct work &of, int32_t of_block) {
        wgmma_hold(o, HEAD_DIM / 2);
        wgmma_hold(weights, TILE_N / 4);
$ if causal then
        if (of_block >= of.first_masked && first_lane)
            special |= ld_shared_u32(shared + SPECIAL + 8 * v.stage) |
                       ld_shared_u32(shared + SPECIAL + 8 * v.stage + 4);
$ end
        release_values();
    };
    auto finish = [&](const struct work &of, const struct softmax_rows &of_rows) {
$ if causal then
        if (warp_any(special != 0))
            add_special(o, p.base, of, of.query0 + 64 * (int32_t)w);
        special = 0;
$ end
        write_output(o, of_rows, p.base, of, of.query0 + 64 * (int32_t)w);
    };
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
        softmax_begin(rows);
        wait_keys();
        wgmma_hold(s, TILE_N / 2);
        begin_next_scores();
        wgmma_wait<0>();
        have_scores(block);
        soften(block);
        pack_weights(weights, s);
    };

    while (more) {
        if (!begun) {
            block = own_blocks(work, shape, work.query0 + 64 * (int32_t)w) - 1;
            begin_tile();
        }
        int32_t add = 0;

#pragma unroll 1
        for (; block > 0; --block, add = 1) {
            wait_keys();
$ if turns then
            take_turn();
$ end
            hold_all();
            begin_next_scores();
            wait_values();
            begin_next_values(add);
$ if turns then
            pass_turn();
$ end
            wgmma_wait<1>();
            have_scores(block - 1);
            const bool grown = soften(block - 1);
            wgmma_wait<0>();
            have_values(work, block);
            pack_weights(weights, s); /* before the branch: made in the gaps between exponentials */
            if (grown)
                rescale<HEAD_DIM>(o, factor);
        }

        const struct work done = work;
        const struct softmax_rows done_rows = rows;
        more = next_work<true>(work, p, shared, t);
        block = more ? own_blocks(work, shape, work.query0 + 64 * (int32_t)w) - 1 : 0;
        begun = more && block == work.blocks - 1;
        if (begun) { /* the last values of this tile, and the first scores of the next */
            wait_queries();
            softmax_begin(rows);
            wait_keys();
$ if turns then
            take_turn();
$ end
            hold_all();
            begin_next_scores();
            wait_values();
            begin_next_values(add);
$ if turns then
            pass_turn();
$ end
            wgmma_wait<1>();
            have_scores(block);
            soften(block);
            wgmma_wait<0>();
            have_values(done, 0);
            pack_weights(weights, s);
            finish(done, done_rows);
        } else {
            wait_values();
$ if turns then
            if (more)
                take_turn();
$ end
            hold_all();
            begin_next_values(add);
$ if turns then
            if (more)
                pass_turn();
$ end
            wgmma_wait<0>();
            have_values(done, 0);
            finish(done, done_rows);
        }
    }
}

GLINT_KERNEL(THREADS, 1) ${symbol}(GLINT_PARAMS(struct glint_forward_maps_params) p)
{
    const uint32_t shared = shared_base(), warpgroup = warp_index() / 4;

    if (thread_index() == 0) {
        for (uint32_t i = 0; i < Q_SLOTS; ++i) {
            mbarrier_init(shared + Q_FULL + 8 * i, 1);
            mbarrier_init(shared + Q_EMPTY + 8 * i, 4 * WARPGROUPS);
        }
        for (uint32_t i = 0; i < STAGES; ++i) {
            mbarrier_init(shared + K_FULL + 8 * i, 1);
            mbarrier_init(shared + K_EMPTY + 8 * i, 4 * WARPGROUPS);
            mbarrier_init(shared + V_FULL + 8 * i, ${causal and 2 or 1});
            mbarrier_init(shared + V_EMPTY + 8 * i, 4 * WARPGROUPS);
$ if causal then
            mbarrier_init(shared + V_CUT + 8 * i, 1);
$ end
        }
        for (uint32_t i = 0; i < 2; ++i) {
            mbarrier_init(shared + TILE_FULL + 8 * i, 1);
            mbarrier_init(shared + TILE_EMPTY + 8 * i, 4 * WARPGROUPS + ${causal and 3 or 1});
        }
        fence_mbarrier_init();
    }
    block_sync();
    if (warpgroup == WARPGROUPS) {
        registers_give<${producer_registers}>();
        const uint32_t warp = warp_index() % 4;
        if (warp == 0 && lane_index() == 0)
            load_queries_and_keys(p, shared);
        if (warp == 1 && lane_index() == 0)
            load_values(p, shared);
$ if causal then
        if (warp >= 2)
            scan_values(p, shared, warp - 2);
$ end
    } else {
        registers_take<${registers}>();
        attend(p, shared, warpgroup);
    }
}
