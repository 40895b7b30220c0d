/* A block of one warpgroup owns 64 queries of one head, loads for itself, and walks over the keys in blocks of ${tile_n},
 * last block first. While the products of a block are summed, the scores of the next are made into weights.
 * ${blocks_per_sm} such blocks share a multiprocessor and fill each other's gaps, so short sequences and masks, where a persistent
 * block's beginnings and ends count, go here. */
#include "lib/device/warpgroup.h"

enum {
    HEAD_DIM = ${head_dim},
    TILE_N = ${tile_n}, /* keys of a block */
    TILE_M = 64,
    THREADS = 128,
    STAGES = 2, /* of K, and of V */
};

typedef slab_tile<TILE_M, HEAD_DIM, ${width}> query_tile;
typedef slab_tile<TILE_N, HEAD_DIM, ${width}> key_tile;

/* Shared memory. */
enum {
    Q_AT = 0,
    K_AT = Q_AT + query_tile::bytes,
    V_AT = K_AT + STAGES * key_tile::bytes,
    Q_FULL = V_AT + STAGES * key_tile::bytes, /* mbarriers */
    K_FULL = Q_FULL + 8,
    V_FULL = K_FULL + 8 * STAGES,
    SHARED_BYTES = V_FULL + 8 * STAGES,
    EXPONENT = ${dtype == "f16" and "0x7c000000" or "0x7f800000"}, /* all ones in NaN and infinity: see finite_part */
    OWN = 1 /* a named barrier */
};

$ include("sm90a_attention.cu.lua")
GLINT_KERNEL(THREADS, ${blocks_per_sm}) ${symbol}(GLINT_PARAMS(struct glint_forward_maps_params) p)
{
    const struct glint_gpu_shape &shape = p.base.shape;
    const float scale = fmaxf(fabsf(shape.scale_log2), 1e-37f); /* not 0, so that hidden scores stay -inf */
    const uint32_t shared = shared_base();
    const bool loads = thread_index() == 0;
    struct ring ring = {0, 0}; /* of the block whose values are added next; the following keys are a stage further */
    struct work work;
    struct softmax_rows rows;
    float s[TILE_N / 2], o[HEAD_DIM / 2], factor[2] = {1.0f, 1.0f};
    uint32_t weights[TILE_N / 4];

    place_work(work, shape, block_index());
    const int32_t head_kv = work.head_q / shape.group;
    int32_t block = work.blocks - 1;

    /* Key block `of` to the stage at hand, if there is such a block; by one thread. */
    auto load_keys = [&](int32_t of, uint32_t stage) {
        if (loads && of >= 0) {
            const int32_t at[5] = {0, of * TILE_N, 0, head_kv, work.batch};

            mbarrier_arrive_expect(shared + K_FULL + 8 * stage, key_tile::bytes);
            tma_load(shared + K_AT + stage * key_tile::bytes, &p.map[K], 5, at, shared + K_FULL + 8 * stage,
                     GLINT_L2_EVICT_LAST);
        }
    };
    auto load_values = [&](int32_t of, uint32_t stage) {
        if (loads && of >= 0) {
            const int32_t at[5] = {0, of * TILE_N, 0, head_kv, work.batch};

            mbarrier_arrive_expect(shared + V_FULL + 8 * stage, key_tile::bytes);
            tma_load(shared + V_AT + stage * key_tile::bytes, &p.map[V], 5, at, shared + V_FULL + 8 * stage,
                     GLINT_L2_EVICT_LAST);
        }
    };
    if (loads) {
        const int32_t at[5] = {0, work.query0, 0, work.head_q, work.batch};

        mbarrier_init(shared + Q_FULL, 1);
        for (uint32_t i = 0; i < STAGES; ++i) {
            mbarrier_init(shared + K_FULL + 8 * i, 1);
            mbarrier_init(shared + V_FULL + 8 * i, 1);
        }
        fence_mbarrier_init();
        mbarrier_arrive_expect(shared + Q_FULL, query_tile::bytes);
        tma_load(shared + Q_AT, &p.map[Q], 5, at, shared + Q_FULL, GLINT_L2_EVICT_FIRST);
    }
    for (int32_t i = 0; i < STAGES; ++i) {
        load_keys(block - i, (uint32_t)i);
        load_values(block - i, (uint32_t)i);
    }
    block_sync();

    auto begin_next_scores = [&](const struct ring &of) {
        begin_scores(s, shared + Q_AT, shared + K_AT + of.stage * key_tile::bytes);
    };
    auto hold_all = [&]() {
        wgmma_hold(s, TILE_N / 2);
        wgmma_hold(o, HEAD_DIM / 2);
        wgmma_hold(weights, TILE_N / 4);
    };
    /* The weights of a block from its scores; true if what was summed before is to be rescaled. */
    auto soften = [&](int32_t of_block) {
        float shift[2];

        if (of_block >= work.first_masked)
            hide_scores(s, shape, work.query0, of_block);
        const bool grown = follow_maxima<TILE_N, BELOW>(rows, s, shift, factor, scale);
        make_weights<TILE_N>(rows, s, shift, scale);
        return grown;
    };
$ if causal then
    /* V of a block has arrived. A weight of zero times NaN is NaN: NaN and infinity leave the blocks in which some query
     * does not see every key, and queries that do see them get them at the end. */
    bool special = false;
$ else
    /* V of a block has arrived. */
$ end
    auto wait_values = [&](int32_t of_block) {
        const uint32_t values = shared + V_AT + ring.stage * key_tile::bytes;

        mbarrier_wait(shared + V_FULL + 8 * ring.stage, ring.phase);
$ if causal then
        if (of_block >= work.first_masked &&
            block_any(sees_special(values, key_tile::bytes, thread_index(), THREADS, EXPONENT))) {
            remove_special(values, key_tile::bytes, thread_index(), THREADS, EXPONENT);
            fence_async_shared();
            block_sync();
            special = true;
        }
$ end
        return values;
    };

#pragma unroll
    for (int i = 0; i < HEAD_DIM / 2; ++i)
        o[i] = 0.0f;
    softmax_begin(rows);
    mbarrier_wait(shared + Q_FULL, 0);
    if (shape.scale_log2 < 0.0f) /* powers of two of positive multiples: a negative scale goes into Q */
        negate_slabs<query_tile>(shared + Q_AT, OWN);
    mbarrier_wait(shared + K_FULL, 0);
    wgmma_hold(s, TILE_N / 2);
    begin_next_scores(ring);
    wgmma_wait<0>();
    wgmma_hold(s, TILE_N / 2);
    soften(block);
    pack_weights(weights, s);
    block_sync();
    load_keys(block - STAGES, 0);

    int32_t add = 0;
#pragma unroll 1
    for (; block > 0; --block, add = 1) {
        struct ring next = ring;

        ring_advance<STAGES>(next);
        mbarrier_wait(shared + K_FULL + 8 * next.stage, next.phase);
        hold_all();
        begin_next_scores(next);
        begin_values(o, weights, wait_values(block), add);
        wgmma_wait<1>();
        wgmma_hold(s, TILE_N / 2);
        const bool grown = soften(block - 1);
        wgmma_wait<0>();
        wgmma_hold(o, HEAD_DIM / 2);
        wgmma_hold(weights, TILE_N / 4);
        pack_weights(weights, s); /* before any branch: made in the gaps between exponentials */
        block_sync(); /* nobody reads these keys and values any more */
        load_keys(block - 1 - STAGES, next.stage);
        load_values(block - STAGES, ring.stage);
        ring = next;
        if (grown)
            rescale<HEAD_DIM>(o, factor);
    }
    hold_all();
    begin_values(o, weights, wait_values(0), add);
    wgmma_wait<0>();
    hold_all();
$ if causal then
    if (special)
        add_special(o, p.base, work, work.query0);
$ end
    write_output(o, rows, p.base, work, work.query0);
}
