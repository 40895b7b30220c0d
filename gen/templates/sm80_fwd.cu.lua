$ local element = dtype == "f32" and math or dtype
$ local split = d_split > 1
$ local row_tiles = tile_m * d_split // (16 * warps)
$ local p_chunks = tile_n // d_split * dtype_bytes // 16
$ local p_page_chunks = p_chunks % 8 == 0 and 8 or p_chunks % 4 == 0 and 4 or 2
$ local padded = padded_dim == (head_dim + 15) // 16 * 16 and "" or ", " .. padded_dim -- more zeros, so that columns go over the warps
$ local v_part, o_part = split and "v_part_t" or "k_tile_t", split and "o_part_t" or "q_tile_t"
$ local ranges_bytes = intervals and " + TILE_M * RANGE_BYTES" or ""
$ local tile_mask = tree_bits and "struct tile_tree" or intervals and "struct tile_intervals" or "mask_t"
$ local blocks_mask = intervals and "interval_mask" or "mask_t"
$ local looks = intervals and "hides_some(mask, block, blocks.whole_from, blocks.hidden_from)" or "mask_t::RIGHT && !Rows::READS"
$ local part_keys = split and " + (int32_t)part * KEYS" or ""
$ local warp = split and "paired_warp{p_tile, group, part}" or "lone_warp{}"
$ if split then
/* One block of ${warps} warps owns ${tile_m} queries of one head, two warps ${16 * row_tiles} of them, and walks over
 * the keys in blocks of ${tile_n}, last block first. Of two warps with the same queries, each makes the scores of half
 * of the keys and sums half of the columns of O, and they pass each other their weights: per product, less of K and V
 * is read from shared memory than by one warp with half of the queries. */
$ else
/* One block of ${warps} warps owns ${tile_m} queries of one head, a warp ${16 * row_tiles} of them, and walks over the
 * keys in blocks of ${tile_n}, last block first. */
$ end
#include "lib/device/bias.h"
#include "lib/device/keys.h"
#include "lib/device/mask.h"
#include "lib/device/score.h"
#include "lib/device/sequences.h"
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
typedef ${band} mask_t;
typedef struct ${score} score_t;
typedef ${bias_type} bias_t;
typedef struct tile<element, TILE_M, ${head_dim}, ${page_chunks}${padded}> q_tile_t;
typedef struct tile<element, TILE_N, ${head_dim}, ${page_chunks}${padded}> k_tile_t; /* of V, too */
$ if split then
typedef struct tile<element, TILE_M, COLUMNS, ${page_chunks}> o_part_t; /* a warp's columns of a tile */
typedef struct tile<element, TILE_N, COLUMNS, ${page_chunks}> v_part_t;
typedef struct tile<element, WARP_ROWS, KEYS, ${p_page_chunks}> p_tile_t; /* the weights that a warp makes */
static_assert(q_tile_t::BYTES + 4 * k_tile_t::BYTES + THREADS / 32 * p_tile_t::BYTES${ranges_bytes} == ${smem_bytes}, "shared memory");
$ else
static_assert(q_tile_t::BYTES + 4 * k_tile_t::BYTES${ranges_bytes} == ${smem_bytes}, "shared memory");
$ end

/* Rows says where the queries lie, Keys where the keys do. What waits in shared memory, behind the rest, is what a type
 * of rows or keys keeps there. */
template <class Rows, class Keys> GLINT_DEVICE void attend(const struct glint_gpu_call &p)
{
$ if split then
    const uint32_t lane = lane_index(), group = warp_index() / 2, part = warp_index() % 2;
$ else
    const uint32_t lane = lane_index(), group = warp_index();
$ end
    const uint32_t kept = shared_base() + ${smem_bytes};
    const struct place work = Rows::template find_queries<TILE_M, ${warps - 1}, Keys>(p, shared_base(), kept);
$ if not intervals then
    Keys::template note_faults<Rows, THREADS>(p, work);
$ end
    if (Rows::is_empty(work))
        return;
    const int32_t seqlen_q = work.own.seqlen_q, seqlen_k = work.own.seqlen_k;
    const int32_t query0 = work.row0, warp_query0 = query0 + (int32_t)group * WARP_ROWS;
    const int32_t head_kv = work.head / p.shape.group;
$ if intervals then
    const uint32_t ranges = kept - TILE_M * RANGE_BYTES; /* of the queries */
    const ${tile_mask} mask = make_mask_of_tile<mask_t, TILE_M, THREADS>(p, work, ranges);
$ else
    const mask_t mask = mask_of<mask_t>(work.own);
$ end
    Rows::keep_mask(kept, mask);
    const score_t score = score_t::of(p);
    const bias_t bias = bias_t::template of<Rows>(p, work.head, work, kept);
    const struct key_blocks<${blocks_mask}> blocks = find_key_blocks<TILE_N>(mask, query0, min(query0 + TILE_M, seqlen_q) - 1);
    int32_t block = blocks.last;
$ if intervals then
    Keys::template note_faults<Rows, TILE_M, TILE_N, THREADS>(p, work, mask, blocks);
$ end

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
    const int32_t key_last = max(0, block) * TILE_N;
    auto keys = Keys::template open<Rows, k_tile_t>(p, work, head_kv, key_last, kept + Rows::KEPT_BYTES);

    copy_tile<q_tile_t, THREADS>(q_tile, p.q, work.batch, work.head, work.first_q + query0, work.first_q + seqlen_q);
    cp_async_commit();
    if (block >= blocks.first) {
        const uint32_t stage = (block & 1) * k_tile_t::BYTES;

        Keys::template copy<THREADS>(p, keys, k_tiles + stage, v_tiles + stage, key_last, seqlen_k);
    }
    cp_async_commit();
    cp_async_wait(1);

    /* Powers of two of positive multiples: a negative scale goes into Q. */
    const float scale = exponent_scale<bias_t>(p.shape);
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
$ if max_logit then
    float largest = -GLINT_INFINITY;
$ end
    set_zero(o);

    /* Begins the copies of the block before this one into the other stage; before the first block there are zeros. All
     * together, as ptxas puts three empty loads before each copy that follows an ldmatrix, and after the second step's
     * fragments of the scores: against straight after the barrier measured 5 % faster at head_dim 256, 1 % at 128. */
    auto begin_copies = [&]() {
        const uint32_t to = (block & 1 ^ 1) * k_tile_t::BYTES + copy_offset<k_tile_t>();

        Keys::template copy_before<THREADS>(p, keys, k_tiles + to, v_tiles + to, block, blocks.first);
        cp_async_commit();
    };

#pragma unroll 1
    for (; block >= blocks.first; --block) {
        /* K and V of this block have arrived, and no warp reads the other stage any more: the next block goes there. */
        cp_async_wait(0);
        if (mask_t::RIGHT && hides_some(mask, block, blocks.whole_from, blocks.hidden_from)) {
            const uint32_t v_tile = v_tiles + stage_of<k_tile_t>(block);

            /* NaN and infinities of V reach only the queries that see them: they leave the tile before it is multiplied
             * by weights of zero. */
            if (block_any(find_special<k_tile_t, THREADS>(v_tile))) {
                const ${tile_mask} &seen = Rows::sight(kept, mask);

                spread_special<${v_part}>(o, v_tile, ${split and "in_part{part}" or "in_tile{}"}, 1.0f,
                                         [&](int32_t row, int32_t key) { return sees(seen, warp_query0, row, block * TILE_N, key); });
                block_sync();
                clear_special<k_tile_t, THREADS>(v_tile);
                block_sync();
            }
        } else
            block_sync();

        /* A warp whose queries see nothing of this block has nothing else to do. Where lengths are read it looks at
         * every block: to leave one out took registers that some tiles have not. */
        if (${looks} && hides_all<TILE_N>(mask, warp_query0, WARP_ROWS, block)) {
            begin_copies();
            continue;
        }

        /* S = Q K^T, P = 2^(scale (S - max)), O += P V */
        float s[ROW_TILES][KEYS / 8][4], shift[ROW_TILES][2];

        const auto ahead = load_ahead<ROW_TILES, KEYS / 8>(bias, warp_query0, block * TILE_N${part_keys});
        multiply_rows<q_tile_t, k_tile_t>(s, q_kept, q_lane, k_lane + stage_of<k_tile_t>(block), begin_copies);
        change_scores(s, score);
        add_bias(s, bias, ahead, p.shape, warp_query0, block * TILE_N${part_keys});
        if (hides_some(mask, block, blocks.whole_from, blocks.hidden_from))
            hide_keys(s, Rows::sight(kept, mask), warp_query0, block * TILE_N${part_keys}, -GLINT_INFINITY);
$ if max_logit then
        follow_largest(largest, s, Rows::sight(kept, mask).seqlen_q - warp_query0);
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
    /* O / sum goes through rows of the Q tile which no other pair of warps reads, to 16-byte stores. Where they go is
     * found again: the registers were worth more in the loop. */
    cp_async_wait(0);
    named_sync(1 + group, 64);
$ else
    /* O / sum goes through rows of the Q tile which no other warp reads, to 16-byte stores. Where they go is found
     * again: the registers were worth more in the loop. */
    cp_async_wait(0);
    warp_sync();
$ end
    join_sums(rows.sum, ${warp});
    const struct place end = Rows::template queries_again<TILE_M>(p, kept);
    const ${intervals and "struct tile_intervals" or "mask_t"} end_mask = ${intervals and "mask_of_tile<mask_t>(end, ranges)" or "mask_of<mask_t>(end.own)"};
    const int32_t first_row = end.row0 + (int32_t)group * WARP_ROWS, end_query = end.own.seqlen_q;
$ if max_logit then
    if (p.max_logit)
        raise_largest(p.max_logit + end.head, largest, natural_scale<bias_t>(p.shape));
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

            float lse = log_sum(rows.max[rt][side], sum, natural_scale<bias_t>(p.shape));

            inverse[side] = inverse_of(sum, [&]() { return sees_some(end_mask, row); });
            if (p.sinks)
                add_sink(inverse[side], lse, rows.max[rt][side], sum, natural_scale<bias_t>(p.shape), ld_global_f32(p.sinks + end.head));
            if (${split and "part == 0 && " or ""}(lane & 3) == 0 && row < end_query)
                st_global_f32(p.lse + (int64_t)end.line * Rows::lse_rows(p) + end.first_q + row, lse);
        }
        stage_rows<${o_part}>(o_lane, o[rt], inverse, rt * 16);
        warp_sync();
        char *o_rows = query_row(p.o, end, first_row + rt * 16, element::BYTES);
$ if split then
        store_rows<o_part_t>(o_rows + part * (COLUMNS * element::BYTES), p.o.row * element::BYTES, end_query - first_row - rt * 16, o_tile,
                             rt * 16, q_tile_t::ROW_CHUNKS - part * o_part_t::CHUNKS);
$ else
        store_rows<q_tile_t>(o_rows, p.o.row * element::BYTES, end_query - first_row - rt * 16, o_tile, rt * 16, q_tile_t::ROW_CHUNKS);
$ end
    }
}

$ for _, kernel in ipairs(kernels) do
GLINT_KERNEL(THREADS, ${kernel.blocks_per_sm or blocks_per_sm}) ${symbol}${kernel.suffix}(GLINT_PARAMS(struct ${call_type}) p)
{
    attend<${kernel.rows}, ${kernel.keys}>(${call_of});
}
$ end
