/* fwd_bf16_d64_band__sm80_m128n32
 *
 * Attention, forward: O and LSE from Q, K, V; bf16, head_dim 64, a window with two sides, both alignments.
 * For sm_80.
 * Tile: 128 queries x 32 keys; 4 warps, 1 block a multiprocessor.
 * Shared memory of a block: 32768 bytes.
 * A second kernel reads the lengths of the sequences.
 * A third one finds K and V in pages.
 * Another one takes ragged sequences.
 * And one more of these finds K and V in pages.
 *
 * Made from gen/templates/sm80_fwd.cu.lua by
 *   lua5.4 gen/glint.lua emit --spec generated/golden/golden.lua --variant fwd_bf16_d64_band__sm80_m128n32
 * and overwritten by it: change the template or the spec. */

/* One block of 4 warps owns 128 queries of one head, a warp 32 of them, and walks over the keys in blocks of 32, last block
 * first. */
#include "lib/device/lengths.h"
#include "lib/device/pages.h"
#include "lib/device/ragged.h"
#include "lib/device/mask.h"
#include "lib/device/score.h"
#include "lib/device/values.h"

enum {
    THREADS = 32 * 4,
    TILE_M = 128, /* queries of a block */
    TILE_N = 32, /* keys of a step */
    ROW_TILES = 2, /* fragments of 16 queries that a warp owns */
    WARP_ROWS = 16 * ROW_TILES,
    KEYS = 32, /* of a step, whose scores a warp makes */
    COLUMNS = 64, /* of O, that a warp sums */
};
typedef struct bf16 element;
typedef struct tile<element, TILE_M, 64, 8> q_tile_t;
typedef struct tile<element, TILE_N, 64, 8> k_tile_t; /* of V, too */
static_assert(q_tile_t::BYTES + 4 * k_tile_t::BYTES == 32768, "shared memory");

GLINT_KERNEL(THREADS, 1) glint_fwd_bf16_d64_band__sm80_m128n32(GLINT_PARAMS(struct glint_gpu_call) p)
{
    const uint32_t lane = lane_index(), group = warp_index();
    const int32_t seqlen_q = p.shape.seqlen_q, seqlen_k = p.shape.seqlen_k;
    const struct query_block work = find_query_block<TILE_M>(p.shape, 1);
    const int32_t query0 = work.query0, warp_query0 = query0 + (int32_t)group * WARP_ROWS;
    const int32_t head_kv = work.head_q / p.shape.group;
    const window_mask mask = {p.shape.mask_first, p.shape.mask_offset, seqlen_q, seqlen_k};
    const struct plain_score score = {};
    const struct key_blocks blocks = find_key_blocks<TILE_N>(mask, query0, min(query0 + TILE_M, seqlen_q) - 1);
    int32_t block = blocks.last;

    /* Shared memory: Q, two stages of K, then two of V; a block lies in stage block & 1. */
    const uint32_t q_tile = shared_base(), k_tiles = q_tile + q_tile_t::BYTES, v_tiles = k_tiles + 2 * k_tile_t::BYTES;
    const uint32_t q_lane = q_tile + lane_offset_a<q_tile_t>(lane) + group * (WARP_ROWS * q_tile_t::PAGE_ROW);
    const uint32_t k_lane = k_tiles + lane_offset_b<k_tile_t>(lane);
    const uint32_t v_lane = v_tiles + lane_offset_rows<k_tile_t>(lane, 0);
    const int64_t k_row_bytes = p.k.row * element::BYTES, v_row_bytes = p.v.row * element::BYTES;
    const int32_t key_last = max(0, block) * TILE_N;
    struct linear_rows<k_tile_t> k_rows = rows_of<k_tile_t>(p.k, k_row_bytes, work.batch, head_kv, key_last);
    struct linear_rows<k_tile_t> v_rows = rows_of<k_tile_t>(p.v, v_row_bytes, work.batch, head_kv, key_last);

    copy_tile<q_tile_t, THREADS>(q_tile, p.q, work.batch, work.head_q, query0, seqlen_q);
    cp_async_commit();
    if (block >= blocks.first) {
        const uint32_t stage = (block & 1) * k_tile_t::BYTES;

        copy_tile<THREADS>(k_tiles + stage, k_rows, seqlen_k - key_last);
        copy_tile<THREADS>(v_tiles + stage, v_rows, seqlen_k - key_last);
    }
    cp_async_commit();
    cp_async_wait(1);

    /* Powers of two of positive multiples: a negative scale goes into Q. */
    const float scale = fmaxf(fabsf(p.shape.scale_log2), 1e-37f); /* not 0, so that hidden scores stay -inf */
    if (p.shape.scale_log2 < 0.0f)
        negate_tile<q_tile_t, THREADS>(q_tile);
    block_sync();
    struct kept_rows<ROW_TILES, 0> q_kept; /* steps along head_dim whose fragments of Q stay in registers */

    float o[ROW_TILES][COLUMNS / 8][4]; /* unnormalised, relative to rows.max */
    struct softmax_state<ROW_TILES> rows;
    begin_softmax(rows);
    set_zero(o);

    /* Begins the copies of the block before this one into the other stage; before the first block there are zeros. All together, as ptxas
     * puts three empty loads before each copy that follows an ldmatrix, and after the second step's fragments of the scores: against
     * straight after the barrier measured 5 % faster at head_dim 256, 1 % at 128. */
    auto begin_copies = [&]() {
        const uint32_t to = (block & 1 ^ 1) * k_tile_t::BYTES + copy_offset<k_tile_t>();

#pragma unroll
        for (int i = pieces<k_tile_t, THREADS>::COUNT - 1; i >= 0; --i) {
            copy_piece_before<THREADS>(k_tiles + to, k_rows, block > blocks.first, i);
            copy_piece_before<THREADS>(v_tiles + to, v_rows, block > blocks.first, i);
        }
        cp_async_commit();
    };

#pragma unroll 1
    for (; block >= blocks.first; --block) {
        /* K and V of this block have arrived, and no warp reads the other stage any more: the next block goes there. */
        cp_async_wait(0);
        if (hides_some(mask, block, blocks.whole_from, blocks.hidden_from)) {
            const uint32_t v_tile = v_tiles + stage_of<k_tile_t>(block);

            /* NaN and infinities of V reach only the queries that see them: they leave the tile before it is multiplied by weights of zero. */
            if (block_any(find_special<k_tile_t, THREADS>(v_tile))) {
                spread_special<k_tile_t>(o, v_tile, in_tile{}, 1.0f,
                                         [&](int32_t row, int32_t key) { return sees(mask, warp_query0, row, block * TILE_N, key); });
                block_sync();
                clear_special<k_tile_t, THREADS>(v_tile);
                block_sync();
            }
        } else
            block_sync();

        /* A warp whose queries all see nothing of this block has nothing else to do. */
        if (hides_all<TILE_N>(mask, warp_query0, WARP_ROWS, block)) {
            begin_copies();
            continue;
        }

        /* S = Q K^T, P = 2^(scale (S - max)), O += P V */
        float s[ROW_TILES][KEYS / 8][4], shift[ROW_TILES][2];

        multiply_rows<q_tile_t, k_tile_t>(s, q_kept, q_lane, k_lane + stage_of<k_tile_t>(block), begin_copies);
        change_scores(s, score);
        if (hides_some(mask, block, blocks.whole_from, blocks.hidden_from))
            hide_keys(s, mask, warp_query0, block * TILE_N, -GLINT_INFINITY);
        follow_maxima(s, o, rows, shift, scale, lone_warp{});
        make_weights(s, rows, shift, scale);
        add_values<k_tile_t>(o, s, v_lane + stage_of<k_tile_t>(block));
    }

    /* O / sum goes through rows of the Q tile which no other warp reads, to 16-byte stores. Where they go is found again: the registers were
     * worth more in the loop. */
    cp_async_wait(0);
    warp_sync();
    join_sums(rows.sum, lone_warp{});
    const struct query_block end = find_query_block<TILE_M>(p.shape, 1);
    const window_mask &end_mask = mask;
    const int32_t first_row = end.query0 + (int32_t)group * WARP_ROWS;
    const uint32_t o_tile = q_tile + group * (WARP_ROWS * q_tile_t::PAGE_ROW);
    const uint32_t o_lane = o_tile + lane_offset_pairs<q_tile_t>(lane);
#pragma unroll
    for (int rt = 0; rt < ROW_TILES; ++rt) {
        float inverse[2];
#pragma unroll
        for (int side = 0; side < 2; ++side) {
            const float sum = joint_sum(rows.sum[rt][side], lone_warp{});
            const int32_t row = first_row + rt * 16 + side * 8 + (int32_t)(lane >> 2);

            float lse = log_sum(rows.max[rt][side], sum, p.shape.softmax_scale);

            inverse[side] = inverse_of(sum, sees_some(end_mask, row));
            if (p.sinks)
                add_sink(inverse[side], lse, rows.max[rt][side], sum, p.shape.softmax_scale, ld_global_f32(p.sinks + end.head_q));
            if ((lane & 3) == 0 && row < seqlen_q)
                st_global_f32(p.lse + (int64_t)end.head * p.shape.seqlen_q + row, lse);
        }
        stage_rows<q_tile_t>(o_lane, o[rt], inverse, rt * 16);
        warp_sync();
        char *o_rows = view_row(&p.o, end.batch, end.head_q, first_row + rt * 16, element::BYTES);
        store_rows<q_tile_t>(o_rows, p.o.row * element::BYTES, seqlen_q - first_row - rt * 16, o_tile, rt * 16, q_tile_t::ROW_CHUNKS);
    }
}

/* The same over sequences whose lengths are read here; those of the shape are bounds. What differs are the lengths, the mask's sides and the blocks
 * beyond a sequence's end, which have nothing to do. A warp looks at every block of its keys: to leave one out took registers that some tiles have not. */
GLINT_KERNEL(THREADS, 1) glint_fwd_bf16_d64_band__sm80_m128n32_lengths(GLINT_PARAMS(struct glint_gpu_call) p)
{
    const uint32_t lane = lane_index(), group = warp_index();
    const struct query_block work = find_query_block<TILE_M>(p.shape, 1, max(1, p.shape.seqlen_q));
    const struct sequence own = find_sequence(p, work.batch);
    const int32_t seqlen_q = own.seqlen_q, seqlen_k = own.seqlen_k;
    if (work.head_q == 0 && work.query0 == 0 && thread_index() == 0)
        note_fault(p, work.batch);
    if (work.query0 >= seqlen_q)
        return;
    const int32_t query0 = work.query0, warp_query0 = query0 + (int32_t)group * WARP_ROWS;
    const int32_t head_kv = work.head_q / p.shape.group;
    const window_mask mask = mask_of<window_mask>(own);
    const uint32_t kept_mask = shared_base() + 32768;
    if (thread_index() == 0)
        put_mask(kept_mask, mask);
    const struct plain_score score = {};
    const struct key_blocks blocks = find_key_blocks<TILE_N>(mask, query0, min(query0 + TILE_M, seqlen_q) - 1);
    int32_t block = blocks.last;

    /* Shared memory: Q, two stages of K, then two of V; a block lies in stage block & 1. */
    const uint32_t q_tile = shared_base(), k_tiles = q_tile + q_tile_t::BYTES, v_tiles = k_tiles + 2 * k_tile_t::BYTES;
    const uint32_t q_lane = q_tile + lane_offset_a<q_tile_t>(lane) + group * (WARP_ROWS * q_tile_t::PAGE_ROW);
    const uint32_t k_lane = k_tiles + lane_offset_b<k_tile_t>(lane);
    const uint32_t v_lane = v_tiles + lane_offset_rows<k_tile_t>(lane, 0);
    const int64_t k_row_bytes = p.k.row * element::BYTES, v_row_bytes = p.v.row * element::BYTES;
    const int32_t key_last = max(0, block) * TILE_N;
    struct linear_rows<k_tile_t> k_rows = rows_of<k_tile_t>(p.k, k_row_bytes, work.batch, head_kv, key_last);
    struct linear_rows<k_tile_t> v_rows = rows_of<k_tile_t>(p.v, v_row_bytes, work.batch, head_kv, key_last);

    copy_tile<q_tile_t, THREADS>(q_tile, p.q, work.batch, work.head_q, query0, seqlen_q);
    cp_async_commit();
    if (block >= blocks.first) {
        const uint32_t stage = (block & 1) * k_tile_t::BYTES;

        copy_tile<THREADS>(k_tiles + stage, k_rows, seqlen_k - key_last);
        copy_tile<THREADS>(v_tiles + stage, v_rows, seqlen_k - key_last);
    }
    cp_async_commit();
    cp_async_wait(1);

    /* Powers of two of positive multiples: a negative scale goes into Q. */
    const float scale = fmaxf(fabsf(p.shape.scale_log2), 1e-37f); /* not 0, so that hidden scores stay -inf */
    if (p.shape.scale_log2 < 0.0f)
        negate_tile<q_tile_t, THREADS>(q_tile);
    block_sync();
    struct kept_rows<ROW_TILES, 0> q_kept; /* steps along head_dim whose fragments of Q stay in registers */

    float o[ROW_TILES][COLUMNS / 8][4]; /* unnormalised, relative to rows.max */
    struct softmax_state<ROW_TILES> rows;
    begin_softmax(rows);
    set_zero(o);

    /* Begins the copies of the block before this one into the other stage; before the first block there are zeros. All together, as ptxas
     * puts three empty loads before each copy that follows an ldmatrix, and after the second step's fragments of the scores: against
     * straight after the barrier measured 5 % faster at head_dim 256, 1 % at 128. */
    auto begin_copies = [&]() {
        const uint32_t to = (block & 1 ^ 1) * k_tile_t::BYTES + copy_offset<k_tile_t>();

#pragma unroll
        for (int i = pieces<k_tile_t, THREADS>::COUNT - 1; i >= 0; --i) {
            copy_piece_before<THREADS>(k_tiles + to, k_rows, block > blocks.first, i);
            copy_piece_before<THREADS>(v_tiles + to, v_rows, block > blocks.first, i);
        }
        cp_async_commit();
    };

#pragma unroll 1
    for (; block >= blocks.first; --block) {
        /* K and V of this block have arrived, and no warp reads the other stage any more: the next block goes there. */
        cp_async_wait(0);
        if (hides_some(mask, block, blocks.whole_from, blocks.hidden_from)) {
            const uint32_t v_tile = v_tiles + stage_of<k_tile_t>(block);

            /* NaN and infinities of V reach only the queries that see them: they leave the tile before it is multiplied by weights of zero. */
            if (block_any(find_special<k_tile_t, THREADS>(v_tile))) {
                const window_mask kept = get_mask<window_mask>(kept_mask);
                spread_special<k_tile_t>(o, v_tile, in_tile{}, 1.0f,
                                         [&](int32_t row, int32_t key) { return sees(kept, warp_query0, row, block * TILE_N, key); });
                block_sync();
                clear_special<k_tile_t, THREADS>(v_tile);
                block_sync();
            }
        } else
            block_sync();


        /* S = Q K^T, P = 2^(scale (S - max)), O += P V */
        float s[ROW_TILES][KEYS / 8][4], shift[ROW_TILES][2];

        multiply_rows<q_tile_t, k_tile_t>(s, q_kept, q_lane, k_lane + stage_of<k_tile_t>(block), begin_copies);
        change_scores(s, score);
        if (hides_some(mask, block, blocks.whole_from, blocks.hidden_from))
            hide_keys(s, get_mask<window_mask>(kept_mask), warp_query0, block * TILE_N, -GLINT_INFINITY);
        follow_maxima(s, o, rows, shift, scale, lone_warp{});
        make_weights(s, rows, shift, scale);
        add_values<k_tile_t>(o, s, v_lane + stage_of<k_tile_t>(block));
    }

    /* O / sum goes through rows of the Q tile which no other warp reads, to 16-byte stores. Where they go is found again: the registers were
     * worth more in the loop. */
    cp_async_wait(0);
    warp_sync();
    join_sums(rows.sum, lone_warp{});
    const struct query_block end = find_query_block<TILE_M>(p.shape, 1);
    const window_mask end_mask = get_mask<window_mask>(kept_mask);
    const int32_t end_query = end_mask.seqlen_q;
    const int32_t first_row = end.query0 + (int32_t)group * WARP_ROWS;
    const uint32_t o_tile = q_tile + group * (WARP_ROWS * q_tile_t::PAGE_ROW);
    const uint32_t o_lane = o_tile + lane_offset_pairs<q_tile_t>(lane);
#pragma unroll
    for (int rt = 0; rt < ROW_TILES; ++rt) {
        float inverse[2];
#pragma unroll
        for (int side = 0; side < 2; ++side) {
            const float sum = joint_sum(rows.sum[rt][side], lone_warp{});
            const int32_t row = first_row + rt * 16 + side * 8 + (int32_t)(lane >> 2);

            float lse = log_sum(rows.max[rt][side], sum, p.shape.softmax_scale);

            inverse[side] = inverse_of(sum, sees_some(end_mask, row));
            if (p.sinks)
                add_sink(inverse[side], lse, rows.max[rt][side], sum, p.shape.softmax_scale, ld_global_f32(p.sinks + end.head_q));
            if ((lane & 3) == 0 && row < end_query)
                st_global_f32(p.lse + (int64_t)end.head * p.shape.seqlen_q + row, lse);
        }
        stage_rows<q_tile_t>(o_lane, o[rt], inverse, rt * 16);
        warp_sync();
        char *o_rows = view_row(&p.o, end.batch, end.head_q, first_row + rt * 16, element::BYTES);
        store_rows<q_tile_t>(o_rows, p.o.row * element::BYTES, end_query - first_row - rt * 16, o_tile, rt * 16, q_tile_t::ROW_CHUNKS);
    }
}

/* The same over K and V in pages. Where a thread's rows of a block lie is looked up in the table anew for each block. */
GLINT_KERNEL(THREADS, 1) glint_fwd_bf16_d64_band__sm80_m128n32_pages(GLINT_PARAMS(struct glint_gpu_call) p)
{
    const uint32_t lane = lane_index(), group = warp_index();
    const struct query_block work = find_query_block<TILE_M>(p.shape, 1, max(1, p.shape.seqlen_q));
    const struct sequence own = find_sequence(p, work.batch);
    const int32_t seqlen_q = own.seqlen_q, seqlen_k = own.seqlen_k;
    if (work.head_q == 0 && work.query0 == 0 && thread_index() == 0)
        note_fault(p, work.batch);
    if (work.head_q == 0 && work.query0 == 0)
        note_bad_page<THREADS>(p, own, work.batch);
    if (work.query0 >= seqlen_q)
        return;
    const int32_t query0 = work.query0, warp_query0 = query0 + (int32_t)group * WARP_ROWS;
    const int32_t head_kv = work.head_q / p.shape.group;
    const window_mask mask = mask_of<window_mask>(own);
    const uint32_t kept_mask = shared_base() + 32768;
    if (thread_index() == 0)
        put_mask(kept_mask, mask);
    const struct plain_score score = {};
    const struct key_blocks blocks = find_key_blocks<TILE_N>(mask, query0, min(query0 + TILE_M, seqlen_q) - 1);
    int32_t block = blocks.last;

    /* Shared memory: Q, two stages of K, then two of V; a block lies in stage block & 1. */
    const uint32_t q_tile = shared_base(), k_tiles = q_tile + q_tile_t::BYTES, v_tiles = k_tiles + 2 * k_tile_t::BYTES;
    const uint32_t q_lane = q_tile + lane_offset_a<q_tile_t>(lane) + group * (WARP_ROWS * q_tile_t::PAGE_ROW);
    const uint32_t k_lane = k_tiles + lane_offset_b<k_tile_t>(lane);
    const uint32_t v_lane = v_tiles + lane_offset_rows<k_tile_t>(lane, 0);
    const struct paged_keys keys = keys_of<k_tile_t>(p, work.batch, head_kv);
    const uint32_t kept_keys = kept_mask + 16;
    if (thread_index() == 0)
        put_keys(kept_keys, keys);

    copy_tile<q_tile_t, THREADS>(q_tile, p.q, work.batch, work.head_q, query0, seqlen_q);
    cp_async_commit();
    if (block >= blocks.first) {
        const uint32_t to = (block & 1) * k_tile_t::BYTES + copy_offset<k_tile_t>();

        copy_paged_tiles<THREADS, k_tile_t>(p, keys, k_tiles + to, v_tiles + to, block * TILE_N, seqlen_k, true);
    }
    cp_async_commit();
    cp_async_wait(1);

    /* Powers of two of positive multiples: a negative scale goes into Q. */
    const float scale = fmaxf(fabsf(p.shape.scale_log2), 1e-37f); /* not 0, so that hidden scores stay -inf */
    if (p.shape.scale_log2 < 0.0f)
        negate_tile<q_tile_t, THREADS>(q_tile);
    block_sync();
    struct kept_rows<ROW_TILES, 0> q_kept; /* steps along head_dim whose fragments of Q stay in registers */

    float o[ROW_TILES][COLUMNS / 8][4]; /* unnormalised, relative to rows.max */
    struct softmax_state<ROW_TILES> rows;
    begin_softmax(rows);
    set_zero(o);

    /* Begins the copies of the block before this one into the other stage; before the first block there are zeros. All together, as ptxas
     * puts three empty loads before each copy that follows an ldmatrix, and after the second step's fragments of the scores: against
     * straight after the barrier measured 5 % faster at head_dim 256, 1 % at 128. */
    auto begin_copies = [&]() {
        const uint32_t to = (block & 1 ^ 1) * k_tile_t::BYTES + copy_offset<k_tile_t>();

        copy_paged_tiles<THREADS, k_tile_t>(p, get_keys(kept_keys), k_tiles + to, v_tiles + to, (block - 1) * TILE_N, block * TILE_N,
                                            block > blocks.first);
        cp_async_commit();
    };

#pragma unroll 1
    for (; block >= blocks.first; --block) {
        /* K and V of this block have arrived, and no warp reads the other stage any more: the next block goes there. */
        cp_async_wait(0);
        if (hides_some(mask, block, blocks.whole_from, blocks.hidden_from)) {
            const uint32_t v_tile = v_tiles + stage_of<k_tile_t>(block);

            /* NaN and infinities of V reach only the queries that see them: they leave the tile before it is multiplied by weights of zero. */
            if (block_any(find_special<k_tile_t, THREADS>(v_tile))) {
                const window_mask kept = get_mask<window_mask>(kept_mask);
                spread_special<k_tile_t>(o, v_tile, in_tile{}, 1.0f,
                                         [&](int32_t row, int32_t key) { return sees(kept, warp_query0, row, block * TILE_N, key); });
                block_sync();
                clear_special<k_tile_t, THREADS>(v_tile);
                block_sync();
            }
        } else
            block_sync();


        /* S = Q K^T, P = 2^(scale (S - max)), O += P V */
        float s[ROW_TILES][KEYS / 8][4], shift[ROW_TILES][2];

        multiply_rows<q_tile_t, k_tile_t>(s, q_kept, q_lane, k_lane + stage_of<k_tile_t>(block), begin_copies);
        change_scores(s, score);
        if (hides_some(mask, block, blocks.whole_from, blocks.hidden_from))
            hide_keys(s, get_mask<window_mask>(kept_mask), warp_query0, block * TILE_N, -GLINT_INFINITY);
        follow_maxima(s, o, rows, shift, scale, lone_warp{});
        make_weights(s, rows, shift, scale);
        add_values<k_tile_t>(o, s, v_lane + stage_of<k_tile_t>(block));
    }

    /* O / sum goes through rows of the Q tile which no other warp reads, to 16-byte stores. Where they go is found again: the registers were
     * worth more in the loop. */
    cp_async_wait(0);
    warp_sync();
    join_sums(rows.sum, lone_warp{});
    const struct query_block end = find_query_block<TILE_M>(p.shape, 1);
    const window_mask end_mask = get_mask<window_mask>(kept_mask);
    const int32_t end_query = end_mask.seqlen_q;
    const int32_t first_row = end.query0 + (int32_t)group * WARP_ROWS;
    const uint32_t o_tile = q_tile + group * (WARP_ROWS * q_tile_t::PAGE_ROW);
    const uint32_t o_lane = o_tile + lane_offset_pairs<q_tile_t>(lane);
#pragma unroll
    for (int rt = 0; rt < ROW_TILES; ++rt) {
        float inverse[2];
#pragma unroll
        for (int side = 0; side < 2; ++side) {
            const float sum = joint_sum(rows.sum[rt][side], lone_warp{});
            const int32_t row = first_row + rt * 16 + side * 8 + (int32_t)(lane >> 2);

            float lse = log_sum(rows.max[rt][side], sum, p.shape.softmax_scale);

            inverse[side] = inverse_of(sum, sees_some(end_mask, row));
            if (p.sinks)
                add_sink(inverse[side], lse, rows.max[rt][side], sum, p.shape.softmax_scale, ld_global_f32(p.sinks + end.head_q));
            if ((lane & 3) == 0 && row < end_query)
                st_global_f32(p.lse + (int64_t)end.head * p.shape.seqlen_q + row, lse);
        }
        stage_rows<q_tile_t>(o_lane, o[rt], inverse, rt * 16);
        warp_sync();
        char *o_rows = view_row(&p.o, end.batch, end.head_q, first_row + rt * 16, element::BYTES);
        store_rows<q_tile_t>(o_rows, p.o.row * element::BYTES, end_query - first_row - rt * 16, o_tile, rt * 16, q_tile_t::ROW_CHUNKS);
    }
}

/* The same over ragged sequences, whose rows begin anywhere: each block looks for its tile, and where that lies waits in shared memory. */
GLINT_KERNEL(THREADS, 1) glint_fwd_bf16_d64_band__sm80_m128n32_ragged(GLINT_PARAMS(struct glint_gpu_call) p)
{
    const uint32_t lane = lane_index(), group = warp_index();
    const uint32_t kept_mask = shared_base() + 32768;
    if (warp_index() == 0)
        find_ragged_tile<TILE_M, false, false>(p.sequences, p.shape, block_index(), p.shape.heads_q, p.shape.section, shared_base(), kept_mask);
    if (p.sequences.fault && block_index() == 0 && warp_index() == 3)
        note_ragged_fault(p.sequences, p.shape);
    block_sync();
    const struct ragged_tile work = get_ragged_tile(kept_mask);
    const struct sequence &own = work.own;
    const int32_t seqlen_q = own.seqlen_q, seqlen_k = own.seqlen_k;
    if (work.row0 < 0)
        return;
    const int32_t query0 = work.row0, warp_query0 = query0 + (int32_t)group * WARP_ROWS;
    const int32_t head_kv = work.head / p.shape.group;
    const window_mask mask = mask_of<window_mask>(own);
    const struct plain_score score = {};
    const struct key_blocks blocks = find_key_blocks<TILE_N>(mask, query0, min(query0 + TILE_M, seqlen_q) - 1);
    int32_t block = blocks.last;

    /* Shared memory: Q, two stages of K, then two of V; a block lies in stage block & 1. */
    const uint32_t q_tile = shared_base(), k_tiles = q_tile + q_tile_t::BYTES, v_tiles = k_tiles + 2 * k_tile_t::BYTES;
    const uint32_t q_lane = q_tile + lane_offset_a<q_tile_t>(lane) + group * (WARP_ROWS * q_tile_t::PAGE_ROW);
    const uint32_t k_lane = k_tiles + lane_offset_b<k_tile_t>(lane);
    const uint32_t v_lane = v_tiles + lane_offset_rows<k_tile_t>(lane, 0);
    const int64_t k_row_bytes = p.k.row * element::BYTES, v_row_bytes = p.v.row * element::BYTES;
    const int32_t key_last = max(0, block) * TILE_N;
    struct linear_rows<k_tile_t> k_rows = rows_of<k_tile_t>(p.k, k_row_bytes, 0, head_kv, work.first_k + key_last);
    struct linear_rows<k_tile_t> v_rows = rows_of<k_tile_t>(p.v, v_row_bytes, 0, head_kv, work.first_k + key_last);

    copy_tile<q_tile_t, THREADS>(q_tile, p.q, 0, work.head, work.first_q + query0, work.first_q + seqlen_q);
    cp_async_commit();
    if (block >= blocks.first) {
        const uint32_t stage = (block & 1) * k_tile_t::BYTES;

        copy_tile<THREADS>(k_tiles + stage, k_rows, seqlen_k - key_last);
        copy_tile<THREADS>(v_tiles + stage, v_rows, seqlen_k - key_last);
    }
    cp_async_commit();
    cp_async_wait(1);

    /* Powers of two of positive multiples: a negative scale goes into Q. */
    const float scale = fmaxf(fabsf(p.shape.scale_log2), 1e-37f); /* not 0, so that hidden scores stay -inf */
    if (p.shape.scale_log2 < 0.0f)
        negate_tile<q_tile_t, THREADS>(q_tile);
    block_sync();
    struct kept_rows<ROW_TILES, 0> q_kept; /* steps along head_dim whose fragments of Q stay in registers */

    float o[ROW_TILES][COLUMNS / 8][4]; /* unnormalised, relative to rows.max */
    struct softmax_state<ROW_TILES> rows;
    begin_softmax(rows);
    set_zero(o);

    /* Begins the copies of the block before this one into the other stage; before the first block there are zeros. All together, as ptxas
     * puts three empty loads before each copy that follows an ldmatrix, and after the second step's fragments of the scores: against
     * straight after the barrier measured 5 % faster at head_dim 256, 1 % at 128. */
    auto begin_copies = [&]() {
        const uint32_t to = (block & 1 ^ 1) * k_tile_t::BYTES + copy_offset<k_tile_t>();

#pragma unroll
        for (int i = pieces<k_tile_t, THREADS>::COUNT - 1; i >= 0; --i) {
            copy_piece_before<THREADS>(k_tiles + to, k_rows, block > blocks.first, i);
            copy_piece_before<THREADS>(v_tiles + to, v_rows, block > blocks.first, i);
        }
        cp_async_commit();
    };

#pragma unroll 1
    for (; block >= blocks.first; --block) {
        /* K and V of this block have arrived, and no warp reads the other stage any more: the next block goes there. */
        cp_async_wait(0);
        if (hides_some(mask, block, blocks.whole_from, blocks.hidden_from)) {
            const uint32_t v_tile = v_tiles + stage_of<k_tile_t>(block);

            /* NaN and infinities of V reach only the queries that see them: they leave the tile before it is multiplied by weights of zero. */
            if (block_any(find_special<k_tile_t, THREADS>(v_tile))) {
                const window_mask kept = get_mask<window_mask>(kept_mask);
                spread_special<k_tile_t>(o, v_tile, in_tile{}, 1.0f,
                                         [&](int32_t row, int32_t key) { return sees(kept, warp_query0, row, block * TILE_N, key); });
                block_sync();
                clear_special<k_tile_t, THREADS>(v_tile);
                block_sync();
            }
        } else
            block_sync();


        /* S = Q K^T, P = 2^(scale (S - max)), O += P V */
        float s[ROW_TILES][KEYS / 8][4], shift[ROW_TILES][2];

        multiply_rows<q_tile_t, k_tile_t>(s, q_kept, q_lane, k_lane + stage_of<k_tile_t>(block), begin_copies);
        change_scores(s, score);
        if (hides_some(mask, block, blocks.whole_from, blocks.hidden_from))
            hide_keys(s, get_mask<window_mask>(kept_mask), warp_query0, block * TILE_N, -GLINT_INFINITY);
        follow_maxima(s, o, rows, shift, scale, lone_warp{});
        make_weights(s, rows, shift, scale);
        add_values<k_tile_t>(o, s, v_lane + stage_of<k_tile_t>(block));
    }

    /* O / sum goes through rows of the Q tile which no other warp reads, to 16-byte stores. Where they go is found again: the registers were
     * worth more in the loop. */
    cp_async_wait(0);
    warp_sync();
    join_sums(rows.sum, lone_warp{});
    const struct ragged_tile end = get_ragged_tile(kept_mask);
    const window_mask end_mask = mask_of<window_mask>(end.own);
    const int32_t end_query = end_mask.seqlen_q, first_row = end.row0 + (int32_t)group * WARP_ROWS;
    const uint32_t o_tile = q_tile + group * (WARP_ROWS * q_tile_t::PAGE_ROW);
    const uint32_t o_lane = o_tile + lane_offset_pairs<q_tile_t>(lane);
#pragma unroll
    for (int rt = 0; rt < ROW_TILES; ++rt) {
        float inverse[2];
#pragma unroll
        for (int side = 0; side < 2; ++side) {
            const float sum = joint_sum(rows.sum[rt][side], lone_warp{});
            const int32_t row = first_row + rt * 16 + side * 8 + (int32_t)(lane >> 2);

            float lse = log_sum(rows.max[rt][side], sum, p.shape.softmax_scale);

            inverse[side] = inverse_of(sum, sees_some(end_mask, row));
            if (p.sinks)
                add_sink(inverse[side], lse, rows.max[rt][side], sum, p.shape.softmax_scale, ld_global_f32(p.sinks + end.head));
            if ((lane & 3) == 0 && row < end_query)
                st_global_f32(p.lse + (int64_t)end.head * p.sequences.rows_q + end.first_q + row, lse);
        }
        stage_rows<q_tile_t>(o_lane, o[rt], inverse, rt * 16);
        warp_sync();
        char *o_rows = view_row(&p.o, 0, end.head, end.first_q + first_row + rt * 16, element::BYTES);
        store_rows<q_tile_t>(o_rows, p.o.row * element::BYTES, end_query - first_row - rt * 16, o_tile, rt * 16, q_tile_t::ROW_CHUNKS);
    }
}

/* Ragged sequences whose K and V are in pages. */
GLINT_KERNEL(THREADS, 1) glint_fwd_bf16_d64_band__sm80_m128n32_ragged_pages(GLINT_PARAMS(struct glint_gpu_call) p)
{
    const uint32_t lane = lane_index(), group = warp_index();
    const uint32_t kept_mask = shared_base() + 32768;
    if (warp_index() == 0)
        find_ragged_tile<TILE_M, false, false, true>(p.sequences, p.shape, block_index(), p.shape.heads_q, p.shape.section, shared_base(), kept_mask);
    if (p.sequences.fault && block_index() == 0 && warp_index() == 3)
        note_ragged_fault<true>(p.sequences, p.shape);
    block_sync();
    const struct ragged_tile work = get_ragged_tile(kept_mask);
    const struct sequence &own = work.own;
    const int32_t seqlen_q = own.seqlen_q, seqlen_k = own.seqlen_k;
    if (work.row0 < 0)
        return;
    if (work.head == 0 && work.row0 == 0)
        note_bad_page<THREADS>(p, own, work.first_k);
    const int32_t query0 = work.row0, warp_query0 = query0 + (int32_t)group * WARP_ROWS;
    const int32_t head_kv = work.head / p.shape.group;
    const window_mask mask = mask_of<window_mask>(own);
    const struct plain_score score = {};
    const struct key_blocks blocks = find_key_blocks<TILE_N>(mask, query0, min(query0 + TILE_M, seqlen_q) - 1);
    int32_t block = blocks.last;

    /* Shared memory: Q, two stages of K, then two of V; a block lies in stage block & 1. */
    const uint32_t q_tile = shared_base(), k_tiles = q_tile + q_tile_t::BYTES, v_tiles = k_tiles + 2 * k_tile_t::BYTES;
    const uint32_t q_lane = q_tile + lane_offset_a<q_tile_t>(lane) + group * (WARP_ROWS * q_tile_t::PAGE_ROW);
    const uint32_t k_lane = k_tiles + lane_offset_b<k_tile_t>(lane);
    const uint32_t v_lane = v_tiles + lane_offset_rows<k_tile_t>(lane, 0);
    const struct paged_keys keys = keys_of<k_tile_t>(p, work.first_k, head_kv);
    const uint32_t kept_keys = kept_mask + 32;
    if (thread_index() == 0)
        put_keys(kept_keys, keys);

    copy_tile<q_tile_t, THREADS>(q_tile, p.q, 0, work.head, work.first_q + query0, work.first_q + seqlen_q);
    cp_async_commit();
    if (block >= blocks.first) {
        const uint32_t to = (block & 1) * k_tile_t::BYTES + copy_offset<k_tile_t>();

        copy_paged_tiles<THREADS, k_tile_t>(p, keys, k_tiles + to, v_tiles + to, block * TILE_N, seqlen_k, true);
    }
    cp_async_commit();
    cp_async_wait(1);

    /* Powers of two of positive multiples: a negative scale goes into Q. */
    const float scale = fmaxf(fabsf(p.shape.scale_log2), 1e-37f); /* not 0, so that hidden scores stay -inf */
    if (p.shape.scale_log2 < 0.0f)
        negate_tile<q_tile_t, THREADS>(q_tile);
    block_sync();
    struct kept_rows<ROW_TILES, 0> q_kept; /* steps along head_dim whose fragments of Q stay in registers */

    float o[ROW_TILES][COLUMNS / 8][4]; /* unnormalised, relative to rows.max */
    struct softmax_state<ROW_TILES> rows;
    begin_softmax(rows);
    set_zero(o);

    /* Begins the copies of the block before this one into the other stage; before the first block there are zeros. All together, as ptxas
     * puts three empty loads before each copy that follows an ldmatrix, and after the second step's fragments of the scores: against
     * straight after the barrier measured 5 % faster at head_dim 256, 1 % at 128. */
    auto begin_copies = [&]() {
        const uint32_t to = (block & 1 ^ 1) * k_tile_t::BYTES + copy_offset<k_tile_t>();

        copy_paged_tiles<THREADS, k_tile_t>(p, get_keys(kept_keys), k_tiles + to, v_tiles + to, (block - 1) * TILE_N, block * TILE_N,
                                            block > blocks.first);
        cp_async_commit();
    };

#pragma unroll 1
    for (; block >= blocks.first; --block) {
        /* K and V of this block have arrived, and no warp reads the other stage any more: the next block goes there. */
        cp_async_wait(0);
        if (hides_some(mask, block, blocks.whole_from, blocks.hidden_from)) {
            const uint32_t v_tile = v_tiles + stage_of<k_tile_t>(block);

            /* NaN and infinities of V reach only the queries that see them: they leave the tile before it is multiplied by weights of zero. */
            if (block_any(find_special<k_tile_t, THREADS>(v_tile))) {
                const window_mask kept = get_mask<window_mask>(kept_mask);
                spread_special<k_tile_t>(o, v_tile, in_tile{}, 1.0f,
                                         [&](int32_t row, int32_t key) { return sees(kept, warp_query0, row, block * TILE_N, key); });
                block_sync();
                clear_special<k_tile_t, THREADS>(v_tile);
                block_sync();
            }
        } else
            block_sync();


        /* S = Q K^T, P = 2^(scale (S - max)), O += P V */
        float s[ROW_TILES][KEYS / 8][4], shift[ROW_TILES][2];

        multiply_rows<q_tile_t, k_tile_t>(s, q_kept, q_lane, k_lane + stage_of<k_tile_t>(block), begin_copies);
        change_scores(s, score);
        if (hides_some(mask, block, blocks.whole_from, blocks.hidden_from))
            hide_keys(s, get_mask<window_mask>(kept_mask), warp_query0, block * TILE_N, -GLINT_INFINITY);
        follow_maxima(s, o, rows, shift, scale, lone_warp{});
        make_weights(s, rows, shift, scale);
        add_values<k_tile_t>(o, s, v_lane + stage_of<k_tile_t>(block));
    }

    /* O / sum goes through rows of the Q tile which no other warp reads, to 16-byte stores. Where they go is found again: the registers were
     * worth more in the loop. */
    cp_async_wait(0);
    warp_sync();
    join_sums(rows.sum, lone_warp{});
    const struct ragged_tile end = get_ragged_tile(kept_mask);
    const window_mask end_mask = mask_of<window_mask>(end.own);
    const int32_t end_query = end_mask.seqlen_q, first_row = end.row0 + (int32_t)group * WARP_ROWS;
    const uint32_t o_tile = q_tile + group * (WARP_ROWS * q_tile_t::PAGE_ROW);
    const uint32_t o_lane = o_tile + lane_offset_pairs<q_tile_t>(lane);
#pragma unroll
    for (int rt = 0; rt < ROW_TILES; ++rt) {
        float inverse[2];
#pragma unroll
        for (int side = 0; side < 2; ++side) {
            const float sum = joint_sum(rows.sum[rt][side], lone_warp{});
            const int32_t row = first_row + rt * 16 + side * 8 + (int32_t)(lane >> 2);

            float lse = log_sum(rows.max[rt][side], sum, p.shape.softmax_scale);

            inverse[side] = inverse_of(sum, sees_some(end_mask, row));
            if (p.sinks)
                add_sink(inverse[side], lse, rows.max[rt][side], sum, p.shape.softmax_scale, ld_global_f32(p.sinks + end.head));
            if ((lane & 3) == 0 && row < end_query)
                st_global_f32(p.lse + (int64_t)end.head * p.sequences.rows_q + end.first_q + row, lse);
        }
        stage_rows<q_tile_t>(o_lane, o[rt], inverse, rt * 16);
        warp_sync();
        char *o_rows = view_row(&p.o, 0, end.head, end.first_q + first_row + rt * 16, element::BYTES);
        store_rows<q_tile_t>(o_rows, p.o.row * element::BYTES, end_query - first_row - rt * 16, o_tile, rt * 16, q_tile_t::ROW_CHUNKS);
    }
}
