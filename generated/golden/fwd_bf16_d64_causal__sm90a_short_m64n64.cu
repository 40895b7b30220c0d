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

/* A block of one warpgroup owns 64 queries of one head, loads for itself, and walks over the keys in blocks of 64,
 * last block first. While the products of a block are summed, the scores of the next are made into weights.
 * 4 such blocks share a multiprocessor and fill each other's gaps, so short sequences and masks, where a persistent
 * block's beginnings and ends count, go here. */
#include "lib/device/warpgroup.h"

enum {
    HEAD_DIM = 64,
    TILE_N = 64, /* keys of a block */
    TILE_M = 64,
    THREADS = 128,
    STAGES = 2, /* of K, and of V */
};

typedef slab_tile<TILE_M, HEAD_DIM, 128> query_tile;
typedef slab_tile<TILE_N, HEAD_DIM, 128> key_tile;

/* Shared memory. */
enum {
    Q_AT = 0,
    K_AT = Q_AT + query_tile::bytes,
    V_AT = K_AT + STAGES * key_tile::bytes,
    Q_FULL = V_AT + STAGES * key_tile::bytes, /* mbarriers */
    K_FULL = Q_FULL + 8,
    V_FULL = K_FULL + 8 * STAGES,
    SHARED_BYTES = V_FULL + 8 * STAGES,
    EXPONENT = 0x7f800000, /* all ones in NaN and infinity: see finite_part */
    OWN = 1 /* a named barrier */
};

enum { Q, K, V }; /* of the maps */

/* See follow_maxima: weights of at most 2^4, so that sums of them times the largest V do not overflow. */
enum { BELOW = 8 };

/* ---- where to work ----------------------------------------------------------------------------------------------- */

struct work {
    int32_t query0, batch, head_q;
    int32_t blocks;       /* of keys that some query of the tile sees, but at least one */
    int32_t first_masked; /* the first block with a key that some query does not see */
};

/* Tile number `tile`; false if there is no such tile. The last queries see the most keys, so they come first: of a
 * section of heads, whose keys and values should stay in L2 (a section twice as large takes 5 to 15 % longer at 512 and
 * 1024 keys). But few and long heads leave long tiles for the end: at 16384 keys sections of 1 to 4 heads take 4 to 10 %
 * longer than those of 16. */
GLINT_DEVICE bool place_work(struct work &work, const struct glint_gpu_shape &shape, uint32_t tile)
{
    const uint32_t tiles = (shape.seqlen_q + TILE_M - 1) / TILE_M, heads = shape.batch * shape.heads_q;

    if (tile >= tiles * heads)
        return false;
    const struct block_place place = find_place(tile, tiles, heads, max(16u, (uint32_t)shape.section));
    work.query0 = ((int32_t)tiles - 1 - place.index) * TILE_M;
    work.batch = place.head / shape.heads_q;
    work.head_q = place.head - work.batch * shape.heads_q;
    const int32_t after = min(work.query0 + TILE_M, shape.seqlen_q) + shape.mask_offset; /* first key that none sees */
    const int32_t keys = min(shape.seqlen_k, after);
    work.first_masked = max(0, min(shape.seqlen_k, work.query0 + shape.mask_offset + 1)) / TILE_N;
    work.blocks = max(1, (keys + TILE_N - 1) / TILE_N);
    return true;
}

/* ---- products and their results ---------------------------------------------------------------------------------- */

/* S = Q K^T, begun. */
GLINT_DEVICE void begin_scores(float (&s)[TILE_N / 2], uint32_t queries, uint32_t keys)
{
    const uint64_t q = along_columns<query_tile>(queries), k = along_columns<key_tile>(keys);

    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < HEAD_DIM / 16; ++kk)
        wgmma_m64n64k16_bf16<0, 0>(s, q + column_step<query_tile>(kk), k + column_step<key_tile>(kk), kk > 0);
    wgmma_commit();
}

/* O = P V (add 0) or O += P V, begun. */
GLINT_DEVICE void begin_values(float (&o)[HEAD_DIM / 2], const uint32_t (&weights)[TILE_N / 4], uint32_t values,
                               int32_t add)
{
    const uint64_t v = along_rows<key_tile>(values);

    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < TILE_N / 16; ++kk)
        wgmma_m64n64k16_bf16_ra<1>(o, weights + 4 * kk, v + row_step<key_tile>(kk), kk > 0 ? 1 : add);
    wgmma_commit();
}

/* Accumulators of 16 keys are operand A's registers. */
GLINT_DEVICE void pack_weights(uint32_t (&weights)[TILE_N / 4], const float (&s)[TILE_N / 2])
{
#pragma unroll
    for (int i = 0; i < TILE_N / 4; ++i)
        weights[i] = pack_bf16(s[2 * i], s[2 * i + 1]);
}

/* Hides what the mask and the end of the keys hide of a block's scores. */
GLINT_DEVICE void hide_scores(float (&s)[TILE_N / 2], const struct glint_gpu_shape &shape, int32_t query0,
                              int32_t block)
{
    const int32_t first_key = block * TILE_N + 2 * (int32_t)(lane_index() % 4);
    const int32_t query = query0 + (int32_t)(thread_index() % 128 / 32 * 16 + lane_index() / 4);
    const int32_t last[2] = {min(query + shape.mask_offset, shape.seqlen_k - 1) - first_key,
                             min(query + 8 + shape.mask_offset, shape.seqlen_k - 1) - first_key};

    hide_after<TILE_N>(s, last);
}

/* NaN and infinities of V to the queries that see them: the cut blocks' again, from where they came. */
GLINT_DEVICE void add_special(float (&o)[HEAD_DIM / 2], const struct glint_forward_params &t, const struct work &work,
                              int32_t query0)
{
    const int32_t query = query0 + (int32_t)(thread_index() % 128 / 32 * 16 + lane_index() / 4) + t.shape.mask_offset;

#pragma unroll 1
    for (int32_t key = work.first_masked * TILE_N; key < min(work.blocks * TILE_N, t.shape.seqlen_k); ++key) {
        const char *row = view_row(&t.v, work.batch, work.head_q / t.shape.group, key, 2) + 4 * (lane_index() % 4);
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; i += 4) {
            const uint32_t pair = bits_of(ld_global_f32((const float *)(row + 4 * i)));
            const uint32_t special = pair ^ finite_part(pair, EXPONENT, 2);
#pragma unroll
            for (int half = 0; half < 2; ++half)
                if (special != 0 && key <= query + 8 * half) {
                    o[i + 2 * half] += low_bf16(special);
                    o[i + 2 * half + 1] += high_bf16(special);
                }
        }
    }
}

/* O / sum and the logarithms of the sums go to memory. */
GLINT_DEVICE void write_output(float (&o)[HEAD_DIM / 2], const struct softmax_rows &rows,
                               const struct glint_forward_params &t, const struct work &work, int32_t query0)
{
    const int32_t row0 = query0 + (int32_t)(thread_index() % 128 / 32 * 16 + lane_index() / 4);

#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int32_t row = row0 + 8 * half;
        const float sum = quad_sum(rows.sum[half]), inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
        char *to = view_row(&t.o, work.batch, work.head_q, row, 2) + 16 * (lane_index() % 4);

        if (lane_index() % 4 == 0 && row < t.shape.seqlen_q)
            st_global_f32(t.lse + (int64_t)(work.batch * t.shape.heads_q + work.head_q) * t.shape.seqlen_q + row,
                          log_sum<BELOW>(rows.max[half], sum, t.shape.softmax_scale));
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; i += 16) { /* four fragments of eight columns: each lane gets a whole one */
            const float *c = o + i + 2 * half;
            uint32_t words[4];

#pragma unroll
            for (int j = 0; j < 4; ++j)
                words[j] = pack_bf16(c[4 * j] * inverse, c[4 * j + 1] * inverse);
            quad_transpose(words);
            if (row < t.shape.seqlen_q)
                st_global_u32x4(to + 4 * i, words);
        }
    }
}

GLINT_KERNEL(THREADS, 4) glint_fwd_bf16_d64_causal__sm90a_short_m64n64(GLINT_PARAMS(struct glint_forward_maps_params) p)
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
    /* V of a block has arrived. A weight of zero times NaN is NaN: NaN and infinity leave the blocks in which some query
     * does not see every key, and queries that do see them get them at the end. */
    bool special = false;
    auto wait_values = [&](int32_t of_block) {
        const uint32_t values = shared + V_AT + ring.stage * key_tile::bytes;

        mbarrier_wait(shared + V_FULL + 8 * ring.stage, ring.phase);
        if (of_block >= work.first_masked &&
            block_any(sees_special(values, key_tile::bytes, thread_index(), THREADS, EXPONENT))) {
            remove_special(values, key_tile::bytes, thread_index(), THREADS, EXPONENT);
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
    if (special)
        add_special(o, p.base, work, work.query0);
    write_output(o, rows, p.base, work, work.query0);
}
