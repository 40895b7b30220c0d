$ local element = dtype == "f32" and math or dtype
$ local split = d_split > 1
$ local row_tiles = tile_m * d_split // (16 * warps)
$ local p_chunks = tile_n // d_split * dtype_bytes // 16
$ local p_page_chunks = p_chunks % 8 == 0 and 8 or p_chunks % 4 == 0 and 4 or 2
$ local v_part, o_part = split and "v_part_t" or "k_tile_t", split and "o_part_t" or "q_tile_t"
$ local band = bounds_first and "window_mask" or causal and "causal_mask" or "no_mask"
$ local first_block = bounds_first and "blocks.first" or "0"
$ local warp = split and "paired_warp{p_tile, group, part}" or "lone_warp{}"
$ if split then
/* One block of ${warps} warps owns ${tile_m} queries of one head, two warps ${16 * row_tiles} of them, and walks over the keys in blocks of ${tile_n}, last
 * block first. Of two warps with the same queries, each makes the scores of half of the keys and sums half of the columns of O, and they
 * pass each other their weights: per product, less of K and V is read from shared memory than by one warp with half of the queries. */
$ else
/* One block of ${warps} warps owns ${tile_m} queries of one head, a warp ${16 * row_tiles} of them, and walks over the keys in blocks of ${tile_n}, last block
 * first. */
$ end
$ if device_lengths then
#include "lib/device/lengths.h"
$ end
$ if device_pages then
#include "lib/device/pages.h"
$ end
$ if device_ragged then
#include "lib/device/ragged.h"
$ end
#include "lib/device/mask.h"
#include "lib/device/score.h"
#include "lib/device/values.h"

enum {
    THREADS = 32 * ${warps},
    TILE_M = ${tile_m}, /* queries of a block */
    TILE_N = ${tile_n}, /* keys of a step */
    ROW_TILES = ${row_tiles}, /* fragments of 16 queries that a warp owns */
    WARP_ROWS = 16 * ROW_TILES,
    KEYS = ${tile_n // d_split}, /* of a step, whose scores a warp makes */
    COLUMNS = ${padded_dim // d_split}, /* of O, that a warp sums */
};
typedef struct ${element} element;
typedef struct tile<element, TILE_M, ${head_dim}, ${page_chunks}> q_tile_t;
typedef struct tile<element, TILE_N, ${head_dim}, ${page_chunks}> k_tile_t; /* of V, too */
$ if split then
typedef struct tile<element, TILE_M, COLUMNS, ${page_chunks}> o_part_t; /* a warp's columns of a tile */
typedef struct tile<element, TILE_N, COLUMNS, ${page_chunks}> v_part_t;
typedef struct tile<element, WARP_ROWS, KEYS, ${p_page_chunks}> p_tile_t; /* the weights that a warp makes */
static_assert(q_tile_t::BYTES + 4 * k_tile_t::BYTES + THREADS / 32 * p_tile_t::BYTES == ${smem_bytes}, "shared memory");
$ else
static_assert(q_tile_t::BYTES + 4 * k_tile_t::BYTES == ${smem_bytes}, "shared memory");
$ end

$ local kinds = { "given" }
$ if device_lengths then kinds[2] = "lengths" end
$ if device_pages then kinds[#kinds + 1] = "pages" end
$ if device_ragged then kinds[#kinds + 1] = "ragged" end
$ if device_ragged and device_pages then kinds[#kinds + 1] = "ragged_pages" end
$ for _, kind in ipairs(kinds) do
$ local lengths, paged, ragged = kind ~= "given", kind:find("pages") ~= nil, kind:find("ragged") ~= nil
$ local batch = ragged and "0" or "work.batch" -- of the tensors
$ local sight = lengths and "kept" or "mask"
$ local end_query = lengths and "end_query" or "seqlen_q"
$ if kind == "ragged_pages" then

/* Ragged sequences whose K and V are in pages. */
GLINT_KERNEL(THREADS, ${blocks_per_sm}) ${symbol}_ragged_pages(GLINT_PARAMS(struct glint_gpu_call) p)
{
$ elseif paged then

/* The same over K and V in pages. Where a thread's rows of a block lie is looked up in the table anew for each block. */
GLINT_KERNEL(THREADS, ${blocks_per_sm}) ${symbol}_pages(GLINT_PARAMS(struct glint_gpu_call) p)
{
$ elseif ragged then

/* The same over ragged sequences, whose rows begin anywhere: each block looks for its tile, and where that lies waits in shared memory. */
GLINT_KERNEL(THREADS, ${blocks_per_sm}) ${symbol}_ragged(GLINT_PARAMS(struct glint_gpu_call) p)
{
$ elseif lengths then

/* The same over sequences whose lengths are read here; those of the shape are bounds. What differs are the lengths, the mask's sides and the blocks
 * beyond a sequence's end, which have nothing to do. A warp looks at every block of its keys: to leave one out took registers that some tiles have not. */
GLINT_KERNEL(THREADS, ${blocks_per_sm}) ${symbol}_lengths(GLINT_PARAMS(struct glint_gpu_call) p)
{
$ else
GLINT_KERNEL(THREADS, ${blocks_per_sm}) ${symbol}(GLINT_PARAMS(struct glint_gpu_call) p)
{
$ end
$ if split then
    const uint32_t lane = lane_index(), group = warp_index() / 2, part = warp_index() % 2;
$ else
    const uint32_t lane = lane_index(), group = warp_index();
$ end
$ if ragged then
    const uint32_t kept_mask = shared_base() + ${smem_bytes};
    if (warp_index() == 0)
        find_ragged_tile<TILE_M, false, false${paged and ", true" or ""}>(p.sequences, p.shape, block_index(), p.shape.heads_q, p.shape.section, shared_base(), kept_mask);
    if (p.sequences.fault && block_index() == 0 && warp_index() == ${warps - 1})
        note_ragged_fault${paged and "<true>" or ""}(p.sequences, p.shape);
    block_sync();
    const struct ragged_tile work = get_ragged_tile(kept_mask);
    const struct sequence &own = work.own;
    const int32_t seqlen_q = own.seqlen_q, seqlen_k = own.seqlen_k;
    if (work.row0 < 0)
        return;
$ if paged then
    if (work.head == 0 && work.row0 == 0)
        note_bad_page<THREADS>(p, own, work.first_k);
$ end
$ elseif lengths then
    const struct query_block work = find_query_block<TILE_M>(p.shape, 1, max(1, p.shape.seqlen_q));
    const struct sequence own = find_sequence(p, work.batch);
    const int32_t seqlen_q = own.seqlen_q, seqlen_k = own.seqlen_k;
    if (work.head_q == 0 && work.query0 == 0 && thread_index() == 0)
        note_fault(p, work.batch);
$ if paged then
    if (work.head_q == 0 && work.query0 == 0)
        note_bad_page<THREADS>(p, own, work.batch);
$ end
    if (work.query0 >= seqlen_q)
        return;
$ else
    const int32_t seqlen_q = p.shape.seqlen_q, seqlen_k = p.shape.seqlen_k;
    const struct query_block work = find_query_block<TILE_M>(p.shape, 1);
$ end
$ if ragged then
    const int32_t query0 = work.row0, warp_query0 = query0 + (int32_t)group * WARP_ROWS;
    const int32_t head_kv = work.head / p.shape.group;
$ else
    const int32_t query0 = work.query0, warp_query0 = query0 + (int32_t)group * WARP_ROWS;
    const int32_t head_kv = work.head_q / p.shape.group;
$ end
$ if lengths then
    const ${band} mask = mask_of<${band}>(own);
$ elseif bounds_first then
    const ${band} mask = {p.shape.mask_first, p.shape.mask_offset, seqlen_q, seqlen_k};
$ elseif causal then
    const ${band} mask = {0, p.shape.mask_offset, seqlen_q, seqlen_k};
$ else
    const ${band} mask = {0, 0, seqlen_q, seqlen_k};
$ end
$ if lengths and not ragged then
    const uint32_t kept_mask = shared_base() + ${smem_bytes};
    if (thread_index() == 0)
        put_mask(kept_mask, mask);
$ end
$ if capped then
    const struct capped_score score = {p.score_ratio, p.score_limit};
$ else
    const struct plain_score score = {};
$ end
    const struct key_blocks blocks = find_key_blocks<TILE_N>(mask, query0, min(query0 + TILE_M, seqlen_q) - 1);
    int32_t block = blocks.last;

$ if split then
    /* Shared memory: Q, two stages of K, two of V, then P; a block lies in stage block & 1. */
$ else
    /* Shared memory: Q, two stages of K, then two of V; a block lies in stage block & 1. */
$ end
    const uint32_t q_tile = shared_base(), k_tiles = q_tile + q_tile_t::BYTES, v_tiles = k_tiles + 2 * k_tile_t::BYTES;
    const uint32_t q_lane = q_tile + lane_offset_a<q_tile_t>(lane) + group * (WARP_ROWS * q_tile_t::PAGE_ROW);
$ if split then
    const uint32_t k_lane = k_tiles + lane_offset_b<k_tile_t>(lane) + part * (KEYS * k_tile_t::PAGE_ROW);
    const uint32_t v_lane = v_tiles + lane_offset_rows<k_tile_t>(lane, 0) + part * v_part_t::BYTES;
    const uint32_t p_tile = v_tiles + 2 * k_tile_t::BYTES + group * (2 * p_tile_t::BYTES);
$ else
    const uint32_t k_lane = k_tiles + lane_offset_b<k_tile_t>(lane);
    const uint32_t v_lane = v_tiles + lane_offset_rows<k_tile_t>(lane, 0);
$ end
$ if paged then
    const struct paged_keys keys = keys_of<k_tile_t>(p, ${ragged and "work.first_k" or "work.batch"}, head_kv);
    const uint32_t kept_keys = kept_mask + ${ragged and 32 or 16};
    if (thread_index() == 0)
        put_keys(kept_keys, keys);
$ else
    const int64_t k_row_bytes = p.k.row * element::BYTES, v_row_bytes = p.v.row * element::BYTES;
    const int32_t key_last = max(0, block) * TILE_N;
$ local from_key = ragged and "work.first_k + key_last" or "key_last"
    struct linear_rows<k_tile_t> k_rows = rows_of<k_tile_t>(p.k, k_row_bytes, ${batch}, head_kv, ${from_key});
    struct linear_rows<k_tile_t> v_rows = rows_of<k_tile_t>(p.v, v_row_bytes, ${batch}, head_kv, ${from_key});
$ end

$ if ragged then
    copy_tile<q_tile_t, THREADS>(q_tile, p.q, 0, work.head, work.first_q + query0, work.first_q + seqlen_q);
$ else
    copy_tile<q_tile_t, THREADS>(q_tile, p.q, work.batch, work.head_q, query0, seqlen_q);
$ end
    cp_async_commit();
    if (block >= ${first_block}) {
$ if paged then
        const uint32_t to = (block & 1) * k_tile_t::BYTES + copy_offset<k_tile_t>();

        copy_paged_tiles<THREADS, k_tile_t>(p, keys, k_tiles + to, v_tiles + to, block * TILE_N, seqlen_k, true);
$ else
        const uint32_t stage = (block & 1) * k_tile_t::BYTES;

        copy_tile<THREADS>(k_tiles + stage, k_rows, seqlen_k - key_last);
        copy_tile<THREADS>(v_tiles + stage, v_rows, seqlen_k - key_last);
$ end
    }
    cp_async_commit();
    cp_async_wait(1);

    /* Powers of two of positive multiples: a negative scale goes into Q. */
    const float scale = fmaxf(fabsf(p.shape.scale_log2), 1e-37f); /* not 0, so that hidden scores stay -inf */
    if (p.shape.scale_log2 < 0.0f)
        negate_tile<q_tile_t, THREADS>(q_tile);
$ if element == "tf32" then
    round_tile<q_tile_t, THREADS>(q_tile);
$ end
    block_sync();
    struct kept_rows<ROW_TILES, ${q_kept}> q_kept; /* steps along head_dim whose fragments of Q stay in registers */
$ if q_kept > 0 then
    keep_rows<q_tile_t>(q_kept, q_lane);
$ end

    float o[ROW_TILES][COLUMNS / 8][4]; /* unnormalised, relative to rows.max */
    struct softmax_state<ROW_TILES> rows;
    begin_softmax(rows);
    set_zero(o);

    /* Begins the copies of the block before this one into the other stage; before the first block there are zeros. All together, as ptxas
     * puts three empty loads before each copy that follows an ldmatrix, and after the second step's fragments of the scores: against
     * straight after the barrier measured 5 % faster at head_dim 256, 1 % at 128. */
    auto begin_copies = [&]() {
        const uint32_t to = (block & 1 ^ 1) * k_tile_t::BYTES + copy_offset<k_tile_t>();

$ if paged then
        copy_paged_tiles<THREADS, k_tile_t>(p, get_keys(kept_keys), k_tiles + to, v_tiles + to, (block - 1) * TILE_N, block * TILE_N,
                                            block > ${first_block});
$ else
#pragma unroll
        for (int i = pieces<k_tile_t, THREADS>::COUNT - 1; i >= 0; --i) {
            copy_piece_before<THREADS>(k_tiles + to, k_rows, block > ${first_block}, i);
            copy_piece_before<THREADS>(v_tiles + to, v_rows, block > ${first_block}, i);
        }
$ end
        cp_async_commit();
    };

#pragma unroll 1
    for (; block >= ${first_block}; --block) {
        /* K and V of this block have arrived, and no warp reads the other stage any more: the next block goes there. */
        cp_async_wait(0);
$ if causal then
        if (hides_some(mask, block, blocks.whole_from, blocks.hidden_from)) {
            const uint32_t v_tile = v_tiles + stage_of<k_tile_t>(block);

            /* NaN and infinities of V reach only the queries that see them: they leave the tile before it is multiplied by weights of zero. */
            if (block_any(find_special<k_tile_t, THREADS>(v_tile))) {
$ if lengths then
                const ${band} kept = get_mask<${band}>(kept_mask);
$ end
$ if split then
                spread_special<v_part_t>(o, v_tile, in_part{part}, 1.0f,
$ else
                spread_special<k_tile_t>(o, v_tile, in_tile{}, 1.0f,
$ end
                                         [&](int32_t row, int32_t key) { return sees(${sight}, warp_query0, row, block * TILE_N, key); });
                block_sync();
                clear_special<k_tile_t, THREADS>(v_tile);
                block_sync();
            }
        } else
            block_sync();

$ if not lengths then
        /* A warp whose queries all ${bounds_first and "see nothing of" or "end before"} this block has nothing else to do. */
        if (hides_all<TILE_N>(mask, warp_query0, WARP_ROWS, block)) {
            begin_copies();
            continue;
        }
$ end
$ else
        block_sync();
$ end

        /* S = Q K^T, P = 2^(scale (S - max)), O += P V */
        float s[ROW_TILES][KEYS / 8][4], shift[ROW_TILES][2];

        multiply_rows<q_tile_t, k_tile_t>(s, q_kept, q_lane, k_lane + stage_of<k_tile_t>(block), begin_copies);
        change_scores(s, score);
        if (hides_some(mask, block, blocks.whole_from, blocks.hidden_from))
$ if split then
            hide_keys(s, ${lengths and "get_mask<" .. band .. ">(kept_mask)" or "mask"}, warp_query0, block * TILE_N + (int32_t)part * KEYS, -GLINT_INFINITY);
$ else
            hide_keys(s, ${lengths and "get_mask<" .. band .. ">(kept_mask)" or "mask"}, warp_query0, block * TILE_N, -GLINT_INFINITY);
$ end
        follow_maxima(s, o, rows, shift, scale, ${warp});
        make_weights(s, rows, shift, scale);
$ if split then
        add_values<v_part_t, p_tile_t>(o, s, v_lane + stage_of<k_tile_t>(block), p_tile, group, part);
$ else
        add_values<k_tile_t>(o, s, v_lane + stage_of<k_tile_t>(block));
$ end
    }

$ if split then
    /* O / sum goes through rows of the Q tile which no other pair of warps reads, to 16-byte stores. Where they go is found again: the
     * registers were worth more in the loop. */
    cp_async_wait(0);
    named_sync(1 + group, 64);
$ else
    /* O / sum goes through rows of the Q tile which no other warp reads, to 16-byte stores. Where they go is found again: the registers were
     * worth more in the loop. */
    cp_async_wait(0);
    warp_sync();
$ end
    join_sums(rows.sum, ${warp});
$ if ragged then
    const struct ragged_tile end = get_ragged_tile(kept_mask);
    const ${band} end_mask = mask_of<${band}>(end.own);
    const int32_t end_query = end_mask.seqlen_q, first_row = end.row0 + (int32_t)group * WARP_ROWS;
$ else
    const struct query_block end = find_query_block<TILE_M>(p.shape, 1);
$ if lengths then
    const ${band} end_mask = get_mask<${band}>(kept_mask);
    const int32_t end_query = end_mask.seqlen_q;
$ else
    const ${band} &end_mask = mask;
$ end
    const int32_t first_row = end.query0 + (int32_t)group * WARP_ROWS;
$ end
$ if split then
    const uint32_t o_tile = q_tile + group * (WARP_ROWS * q_tile_t::PAGE_ROW) + part * o_part_t::BYTES;
    const uint32_t o_lane = o_tile + tile_offset(lane >> 2, 0, q_tile_t::ROWS, q_tile_t::PAGE_CHUNKS) + (lane & 3) * 4;
$ else
    const uint32_t o_tile = q_tile + group * (WARP_ROWS * q_tile_t::PAGE_ROW);
    const uint32_t o_lane = o_tile + lane_offset_pairs<q_tile_t>(lane);
$ end
#pragma unroll
    for (int rt = 0; rt < ROW_TILES; ++rt) {
        float inverse[2];
#pragma unroll
        for (int side = 0; side < 2; ++side) {
            const float sum = joint_sum(rows.sum[rt][side], ${warp});
            const int32_t row = first_row + rt * 16 + side * 8 + (int32_t)(lane >> 2);

            float lse = log_sum(rows.max[rt][side], sum, p.shape.softmax_scale);

            inverse[side] = inverse_of(sum, sees_some(end_mask, row));
            if (p.sinks)
                add_sink(inverse[side], lse, rows.max[rt][side], sum, p.shape.softmax_scale, ld_global_f32(p.sinks + end.${ragged and "head" or "head_q"}));
$ if split then
            if (part == 0 && (lane & 3) == 0 && row < ${end_query})
$ else
            if ((lane & 3) == 0 && row < ${end_query})
$ end
$ if ragged then
                st_global_f32(p.lse + (int64_t)end.head * p.sequences.rows_q + end.first_q + row, lse);
$ else
                st_global_f32(p.lse + (int64_t)end.head * p.shape.seqlen_q + row, lse);
$ end
        }
        stage_rows<${o_part}>(o_lane, o[rt], inverse, rt * 16);
        warp_sync();
$ if ragged then
        char *o_rows = view_row(&p.o, 0, end.head, end.first_q + first_row + rt * 16, element::BYTES);
$ else
        char *o_rows = view_row(&p.o, end.batch, end.head_q, first_row + rt * 16, element::BYTES);
$ end
$ if split then
        store_rows<o_part_t>(o_rows + part * (COLUMNS * element::BYTES), p.o.row * element::BYTES, ${end_query} - first_row - rt * 16, o_tile,
                             rt * 16, q_tile_t::ROW_CHUNKS - part * o_part_t::CHUNKS);
$ else
        store_rows<q_tile_t>(o_rows, p.o.row * element::BYTES, ${end_query} - first_row - rt * 16, o_tile, rt * 16, q_tile_t::ROW_CHUNKS);
$ end
    }
}
$ end
