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

/* A persistent block of 3 warpgroups that compute, 64 queries each, and one that loads. Tiles of 192 queries
 * of one head are worked on one after another, each over the keys in blocks of 128, last block first. While the
 * products of a block are summed, the scores of the next are made into weights; at the end of a tile that next one is
 * the following tile's first.
 *
 *     loaders   K, Q; V            two warps, a thread of each
 *     scanners  V                  two warps: NaN and infinity leave a block of V that the mask cuts
 *     others    S = Q K^T, P = 2^(scale (S - max)), O += P V */
#include "lib/device/warpgroup.h"

enum {
    HEAD_DIM = 64,
    TILE_N = 128, /* keys of a block */
    WARPGROUPS = 3, /* that compute */
    TILE_M = 64 * WARPGROUPS,
    THREADS = 128 * (1 + WARPGROUPS),
    Q_SLOTS = 1,
    STAGES = 2, /* of K, and of V */
};

typedef slab_tile<64, HEAD_DIM, 128> query_tile; /* a warpgroup's own */
typedef slab_tile<TILE_N, HEAD_DIM, 128> key_tile;

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
    V_CUT = TILE + 4 * 2, /* a block that the mask cuts has arrived, and waits for its scanners */
    SPECIAL = V_CUT + 8 * STAGES, /* what each of two scanners found in a stage: NaN or infinity */
    SHARED_BYTES = SPECIAL + 8 * STAGES,
    EXPONENT = 0x7f800000, /* all ones in NaN and infinity: see finite_part */
};

/* Named barriers: 1 + w to warpgroup w's turn at the tensor cores, OWN + w within it. */
enum { TURN = 1, OWN = TURN + WARPGROUPS };

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
        wgmma_m64n128k16_bf16<0, 0>(s, q + column_step<query_tile>(kk), k + column_step<key_tile>(kk), kk > 0);
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
    const int32_t keys = min(shape.seqlen_k, min(query0 + 64, shape.seqlen_q) + shape.mask_offset);
    return max(1, (keys + TILE_N - 1) / TILE_N);
}

/* ---- the warpgroup that loads ------------------------------------------------------------------------------------ */

/* Announces this block's tiles, too: each is the first one that no block has taken. */
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
        tile = p.blocks[0] + atom_global_add_u32(p.words, 1);
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
    struct ring v = {0, 0}, t = {0, 0}, cut = {0, 0};
    struct work work;

    while (next_work<false>(work, p, shared, t))
        for (int32_t block = work.blocks - 1; block >= 0; --block) {
            const int32_t keys[5] = {0, block * TILE_N, 0, work.head_q / group, work.batch};
            uint32_t full = shared + V_FULL + 8 * v.stage;

            mbarrier_wait(shared + V_EMPTY + 8 * v.stage, v.phase ^ 1);
            if (block >= work.first_masked) {
                full = shared + V_CUT + 8 * cut.stage;
                ring_advance<STAGES>(cut);
            } else
                mbarrier_arrive(full); /* for the second scanner, and below for the first */
            mbarrier_arrive_expect(full, key_tile::bytes);
            tma_load(shared + V_AT + v.stage * key_tile::bytes, &p.map[V], 5, keys, full, GLINT_L2_EVICT_LAST);
            ring_advance<STAGES>(v);
        }
}

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
    /* Warpgroups issue their products in turn, so that while one's exponentials are made the tensor cores have another's
     * work. */
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
    uint32_t special = 0; /* the first lane knows of NaN and infinities of this tile */
    /* The values of a block have been added. */
    auto have_values = [&](const struct work &of, int32_t of_block) {
        wgmma_hold(o, HEAD_DIM / 2);
        wgmma_hold(weights, TILE_N / 4);
        if (of_block >= of.first_masked && first_lane)
            special |= ld_shared_u32(shared + SPECIAL + 8 * v.stage) |
                       ld_shared_u32(shared + SPECIAL + 8 * v.stage + 4);
        release_values();
    };
    auto finish = [&](const struct work &of, const struct softmax_rows &of_rows) {
        if (warp_any(special != 0))
            add_special(o, p.base, of, of.query0 + 64 * (int32_t)w);
        special = 0;
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
            take_turn();
            pass_turn();
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
            take_turn();
            hold_all();
            begin_next_scores();
            wait_values();
            begin_next_values(add);
            pass_turn();
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
            take_turn();
            hold_all();
            begin_next_scores();
            wait_values();
            begin_next_values(add);
            pass_turn();
            wgmma_wait<1>();
            have_scores(block);
            soften(block);
            wgmma_wait<0>();
            have_values(done, 0);
            pack_weights(weights, s);
            finish(done, done_rows);
        } else {
            wait_values();
            if (more)
                take_turn();
            hold_all();
            begin_next_values(add);
            if (more)
                pass_turn();
            wgmma_wait<0>();
            have_values(done, 0);
            finish(done, done_rows);
        }
    }
}

GLINT_KERNEL(THREADS, 1) glint_fwd_bf16_d64_causal__sm90a_m192n128(GLINT_PARAMS(struct glint_forward_maps_params) p)
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
            mbarrier_init(shared + V_FULL + 8 * i, 2);
            mbarrier_init(shared + V_EMPTY + 8 * i, 4 * WARPGROUPS);
            mbarrier_init(shared + V_CUT + 8 * i, 1);
        }
        for (uint32_t i = 0; i < 2; ++i) {
            mbarrier_init(shared + TILE_FULL + 8 * i, 1);
            mbarrier_init(shared + TILE_EMPTY + 8 * i, 4 * WARPGROUPS + 3);
        }
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
