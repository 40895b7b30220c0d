$ local lowest = bounds_first and "work.first" or "0"
$ local work_of = bounds_first and "window_work" or "tile_work"
$ local find = bounds_first and "find_window<TILE_M, TILE_N>" or "find_tile<TILE_M, TILE_N, " .. tostring(causal) .. ">"
$ local find_keys = bounds_first and "find_window_keys<TILE_M, TILE_N>" or "find_keys<TILE_M, TILE_N, " .. tostring(causal) .. ">"
$ local sink = "%s.sinks ? ld_global_f32(%s.sinks + work.head_q) : -GLINT_INFINITY"
/* A block of one warpgroup owns 64 queries of one head, loads for itself, and walks over the keys in blocks of
 * ${tile_n}, last block first. While the products of a block are summed, the scores of the next are made into weights.
 * ${blocks_per_sm} such blocks share a multiprocessor and fill each other's gaps, so short sequences and masks, where a
 * persistent block's beginnings and ends count, go here. */
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
    TILE_M = 64,
    THREADS = 128,
    STAGES = 2, /* of K, and of V */
$ if dtype == "f16" then
    BELOW = 0, /* see follow_maxima: float16 ends at 2^-24 below, and sums are far from float32's end above */
$ else
    BELOW = 8, /* see follow_maxima: weights of at most 2^4, so that sums of them times the largest V do not overflow */
$ end
    OWN = 1, /* a named barrier */
};

typedef ${dtype} element;
typedef slab_tile<TILE_M, HEAD_DIM, ${width}> query_tile;
typedef slab_tile<TILE_N, HEAD_DIM, ${width}> key_tile;

/* Shared memory: tiles, then mbarriers. */
enum {
    K_AT = query_tile::bytes,
    V_AT = K_AT + STAGES * key_tile::bytes,
    Q_FULL = V_AT + STAGES * key_tile::bytes,
    K_FULL = Q_FULL + 8,
    V_FULL = K_FULL + 8 * STAGES,
    SHARED_BYTES = V_FULL + 8 * STAGES,
$ if device_ragged then
    SEARCH_AT = (SHARED_BYTES + 15) / 16 * 16, /* 256 bytes, and the tile that is found */
    TILE_AT = SEARCH_AT + 256,
$ end
};

/* A block of keys, or values, to a stage; by one thread. */
GLINT_DEVICE void load_block(uint32_t to, const struct tensor_map *map, int32_t block, int32_t head,
                             const struct ${work_of} &work, uint32_t full)
{
    mbarrier_arrive_expect(full, key_tile::bytes);
    load_tile<key_tile>(to, map, block * TILE_N, head, work.batch, full, GLINT_L2_EVICT_LAST);
}
$ if device_ragged then

/* The same of a ragged sequence. */
GLINT_DEVICE void load_block(uint32_t to, const struct tensor_map *map, int32_t block, int32_t head,
                             const struct ragged_work<${work_of}> &work, uint32_t full)
{
    mbarrier_arrive_expect(full, key_tile::bytes);
    load_tile<key_tile>(to, map, work.first_k + block * TILE_N, head, work.batch, full, GLINT_L2_EVICT_LAST);
}
$ end

$ for _, kind in ipairs(kinds) do
$ local ragged, lengths = kind == "ragged", kind ~= "given" -- ragged sequences have lengths, too
$ local work = ragged and "ragged_work<" .. work_of .. ">" or work_of
$ local base = "p.base"
$ local values = ragged and "values_from(p.base, work.first_k)" or base
$ local log_of_nothing = (capped or lengths) and sink:format(base, base) or "-GLINT_INFINITY"
$ local with_sink = (bounds_first or capped or lengths) and "write_output_with_sink" or "write_output"
$ local sight, end_query = lengths and "own" or "shape", lengths and ", own.seqlen_q, [&](int32_t query) { return sees_any_key(own, query); }" or ""
$ if ragged then
/* The same over ragged sequences: each block looks for its tile. Rows of the next sequence in the last block of keys are what those beyond a length
 * are. */
$ elseif lengths then
/* The same over sequences whose lengths are read here; those of the shape are bounds. Values beyond a length become zeros as those beyond the
 * bound are, so that a sequence has the bits of a call with its lengths. */
$ end
GLINT_KERNEL(THREADS, ${blocks_per_sm}) ${symbol}${lengths and "_" .. kind or ""}(GLINT_PARAMS(struct glint_gpu_forward_maps) p)
{
    const struct glint_gpu_shape &shape = ${base}.shape;
    const float scale = fmaxf(fabsf(shape.scale_log2), 1e-37f); /* not 0, so that hidden scores stay -inf */
    const uint32_t shared = shared_base();
    const bool loads = thread_index() == 0;
    struct ring ring = {0, 0}; /* of the block whose values are added next; the following keys are a stage further */
    struct ${work} work;
    struct softmax_rows rows;
    float s[TILE_N / 2], o[HEAD_DIM / 2], factor[2] = {1.0f, 1.0f};
    uint32_t weights[TILE_N / 4];

$ if ragged then
    const struct glint_gpu_shape bounds = shape_of_bounds(p);
    if (warp_index() == 0)
        find_ragged_tile<TILE_M, false, false>(p.base.sequences, bounds, block_index(), shape.heads_q, shape.section, shared + SEARCH_AT,
                                               shared + TILE_AT);
    if (p.base.sequences.fault && block_index() == 0 && warp_index() == 3)
        note_ragged_fault(p.base.sequences, bounds);
    block_sync();
    const struct ragged_tile tile = get_ragged_tile(shared + TILE_AT);
    if (tile.row0 < 0)
        return;
    const struct own_shape own = shape_from(tile.own, tile.first_q);
    work.query0 = tile.first_q + tile.row0;
    work.head_q = tile.head;
    work.first_k = tile.first_k;
    work.batch = 0;
    ${find_keys}(work, own);
$ elseif lengths then
    if (loads && block_index() < (uint32_t)shape.batch)
        note_fault(p.base, (int32_t)block_index());
    if (!place_tile<TILE_M, ${tostring(causal)}>(work, shape, block_index()))
        return;
    const struct own_shape own = find_shape(p.base, work.batch);
    if (work.query0 >= own.seqlen_q)
        return;
    ${find_keys}(work, own);
$ else
    ${find}(work, shape, block_index());
$ end
$ if causal and not bounds_first then
    if (work.blocks == 0) { /* no key is seen */
        write_nothing<HEAD_DIM>(${base}, work, min(work.query0 + TILE_M, ${sight}.seqlen_q), ${log_of_nothing}, thread_index(), THREADS);
        return;
    }
$ end
    const int32_t head_kv = work.head_q / shape.group;
    int32_t block = work.blocks - 1;

    /* Key block `of` to the stage at hand, if there is such a block; by one thread. */
    auto load_keys = [&](int32_t of, uint32_t stage) {
        if (loads && of >= ${lowest})
            load_block(shared + K_AT + stage * key_tile::bytes, &p.map[MAP_K], of, head_kv, work,
                       shared + K_FULL + 8 * stage);
    };
$ if not causal and not lengths then
    const int32_t beyond = shape.seqlen_k == 0; /* the map of no keys has a row, of Q: what comes from behind it are zeros */
$ end
    auto load_values = [&](int32_t of, uint32_t stage) {
        if (loads && of >= ${lowest})
            load_block(shared + V_AT + stage * key_tile::bytes, &p.map[MAP_V], ${(causal or lengths) and "of" or "of + beyond"}, head_kv, work,
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

$ if capped then
        change_scores(s, capped_score{${base}.score_ratio, ${base}.score_limit});
$ end
$ if bounds_first then
        if (cuts_own<TILE_N>(${sight}, work.query0, of_block))
            hide_window<TILE_N>(s, ${sight}, work.query0, of_block);
$ else
        if (of_block >= work.first_masked)
            hide_scores<TILE_N, ${tostring(causal)}>(s, ${sight}, work.query0, of_block);
$ end
        const bool grown = follow_maxima<TILE_N, BELOW>(rows, s, shift, factor, scale);
        make_weights<TILE_N>(rows, s, shift, scale);
        return grown;
    };
$ if causal then
    /* V of a block has arrived. A weight of zero times NaN is NaN: NaN and infinity leave the blocks in which some
     * query does not see every key, and queries that do see them get them at the end. */
    bool special = false;
$ else
    /* V of a block has arrived. */
$ end
    auto wait_values = [&](int32_t of_block) {
        const uint32_t values = shared + V_AT + ring.stage * key_tile::bytes;

        mbarrier_wait(shared + V_FULL + 8 * ring.stage, ring.phase);
$ if lengths then
        if (clear_rows<key_tile>(values, own.seqlen_k - of_block * TILE_N, thread_index(), THREADS)) {
            fence_async_shared();
            block_sync();
        }
$ end
$ if causal then
        if (${bounds_first and "is_cut(work, of_block)" or "of_block >= work.first_masked"} &&
            block_any(sees_special(values, key_tile::bytes, thread_index(), THREADS, element::EXPONENT))) {
            remove_special(values, key_tile::bytes, thread_index(), THREADS, element::EXPONENT);
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
    for (; block > ${lowest}; --block, add = 1) {
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
    begin_weights_by_rows<element, key_tile>(o, weights, wait_values(${lowest}), add);
    wgmma_wait<0>();
    hold_all();
$ if causal then
    if (special)
        add_special<element, TILE_N>(o, ${values}, work, work.query0${lengths and ", own" or ""});
$ end
    ${with_sink}<element, BELOW>(o, rows, ${base}, work, work.query0${end_query});
}
$ end
