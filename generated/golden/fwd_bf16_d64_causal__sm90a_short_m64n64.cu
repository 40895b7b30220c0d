/* fwd_bf16_d64_causal__sm90a_short_m64n64
 *
 * Attention, forward: O and LSE from Q, K, V; bf16, head_dim 64, causal, both alignments.
 * For sm_90a.
 * Tile: 64 queries x 64 keys; one warpgroup that loads for itself, 4 blocks a multiprocessor.
 * Shared memory of a block: 41000 bytes.
 *
 * Made from gen/templates/sm90a_fwd.cu.lua by
 *   lua5.4 gen/glint.lua emit --spec generated/golden/golden.lua --variant fwd_bf16_d64_causal__sm90a_short_m64n64
 * and overwritten by it: change the template or the spec. */

/* A block of one warpgroup owns 64 queries of one head, loads for itself, and walks over the keys in blocks of
 * 64, last block first. While the products of a block are summed, the scores of the next are made into weights.
 * 4 such blocks share a multiprocessor and fill each other's gaps, so short sequences and masks, where a
 * persistent block's beginnings and ends count, go here. */
#include "lib/device/warpgroup_forward.h"

enum {
    HEAD_DIM = 64,
    TILE_N = 64, /* keys of a block */
    TILE_M = 64,
    THREADS = 128,
    STAGES = 2, /* of K, and of V */
    BELOW = 8, /* see follow_maxima: weights of at most 2^4, so that sums of them times the largest V do not overflow */
    OWN = 1, /* a named barrier */
};

typedef bf16 element;
typedef slab_tile<TILE_M, HEAD_DIM, 128> query_tile;
typedef slab_tile<TILE_N, HEAD_DIM, 128> key_tile;

/* Shared memory: tiles, then mbarriers. */
enum {
    K_AT = query_tile::bytes,
    V_AT = K_AT + STAGES * key_tile::bytes,
    Q_FULL = V_AT + STAGES * key_tile::bytes,
    K_FULL = Q_FULL + 8,
    V_FULL = K_FULL + 8 * STAGES,
    SHARED_BYTES = V_FULL + 8 * STAGES,
};

/* A block of keys, or values, to a stage; by one thread. */
GLINT_DEVICE void load_block(uint32_t to, const struct tensor_map *map, int32_t block, int32_t head,
                             const struct tile_work &work, uint32_t full)
{
    mbarrier_arrive_expect(full, key_tile::bytes);
    load_tile<key_tile>(to, map, block * TILE_N, head, work.batch, full, GLINT_L2_EVICT_LAST);
}

GLINT_KERNEL(THREADS, 4) glint_fwd_bf16_d64_causal__sm90a_short_m64n64(GLINT_PARAMS(struct glint_gpu_forward_maps) p)
{
    const struct glint_gpu_shape &shape = p.base.shape;
    const float scale = fmaxf(fabsf(shape.scale_log2), 1e-37f); /* not 0, so that hidden scores stay -inf */
    const uint32_t shared = shared_base();
    const bool loads = thread_index() == 0;
    struct ring ring = {0, 0}; /* of the block whose values are added next; the following keys are a stage further */
    struct tile_work work;
    struct softmax_rows rows;
    float s[TILE_N / 2], o[HEAD_DIM / 2], factor[2] = {1.0f, 1.0f};
    uint32_t weights[TILE_N / 4];

    find_tile<TILE_M, TILE_N, true>(work, shape, block_index());
    if (work.blocks == 0) { /* no key is seen */
        write_nothing<HEAD_DIM>(p.base, work, min(work.query0 + TILE_M, shape.seqlen_q), -GLINT_INFINITY, thread_index(), THREADS);
        return;
    }
    const int32_t head_kv = work.head_q / shape.group;
    int32_t block = work.blocks - 1;

    /* Key block `of` to the stage at hand, if there is such a block; by one thread. */
    auto load_keys = [&](int32_t of, uint32_t stage) {
        if (loads && of >= 0)
            load_block(shared + K_AT + stage * key_tile::bytes, &p.map[MAP_K], of, head_kv, work,
                       shared + K_FULL + 8 * stage);
    };
    auto load_values = [&](int32_t of, uint32_t stage) {
        if (loads && of >= 0)
            load_block(shared + V_AT + stage * key_tile::bytes, &p.map[MAP_V], of, head_kv, work,
                       shared + V_FULL + 8 * stage);
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
        begin_rows_by_rows<element, query_tile, key_tile>(s, shared, shared + K_AT + of.stage * key_tile::bytes);
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
            hide_scores<TILE_N, true>(s, shape, work.query0, of_block);
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
        if (of_block >= work.first_masked &&
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
    soften(block);
    pack_weights<element>(weights, s);
    block_sync();
    load_keys(block - STAGES, 0);

    int32_t add = 0;
#pragma unroll 1
    for (; block > 0; --block, add = 1) {
        struct ring next = ring;

        ring_advance<STAGES>(next);
        mbarrier_wait(shared + K_FULL + 8 * next.stage, next.phase);
        hold_all();
        begin_scores(next);
        begin_weights_by_rows<element, key_tile>(o, weights, wait_values(block), add);
        wgmma_wait<1>();
        wgmma_hold(s, TILE_N / 2);
        const bool grown = soften(block - 1);
        wgmma_wait<0>();
        wgmma_hold(o, HEAD_DIM / 2);
        wgmma_hold(weights, TILE_N / 4);
        pack_weights<element>(weights, s); /* before any branch: made in the gaps between exponentials */
        block_sync(); /* nobody reads these keys and values any more */
        load_keys(block - 1 - STAGES, next.stage);
        load_values(block - STAGES, ring.stage);
        ring = next;
        if (grown)
            rescale<HEAD_DIM>(o, factor);
    }
    hold_all();
    begin_weights_by_rows<element, key_tile>(o, weights, wait_values(0), add);
    wgmma_wait<0>();
    hold_all();
    if (special)
        add_special<element, TILE_N>(o, p.base, work, work.query0);
    write_output<element, BELOW>(o, rows, p.base, work, work.query0);
}
