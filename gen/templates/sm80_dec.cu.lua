$ local kv_bytes = narrow and 1 or dtype_bytes
/* Few queries against many keys. One block of ${warps} warps takes ${tile_m} rows, (query, query head) pairs of one key
 * head, and walks over a part of the keys in steps of ${tile_n}. K and V pass by once, so what counts is how many bytes
 * are on their way: ${2 * stages - 1} tiles of ${tile_n * padded_dim * kv_bytes} bytes a block.
 *
 * Products are the transposed ones, keys or columns of V by rows: S^T = K Q^T and O^T = V^T P^T. Rows are then the
 * narrow side of mma, 8, and no part of a product is idle when a group has 8 query heads. Each warp makes a step's
 * scores of ${tile_n // warps} keys and up to ${(padded_dim // 16 + warps - 1) // warps * 16} columns of O.
 * Warps exchange maxima and weights, never parts of O.
 *
 * Every result is folded in an order that depends on the row's keys alone (lib/device/decode.h). Shapes that were tried
 * and lost, with numbers: bench/results/decode_notes.md. */
#include "lib/device/decode/copy.h"
#include "lib/device/decode/merge.h"
#include "lib/device/decode/products.h"

namespace decode {

namespace
{
struct variant {
    typedef struct ${dtype} element;
    typedef struct ${kv_dtype} stored; /* elements of K and V */
    typedef ${band} mask;
    typedef struct ${capped and "capped_score" or "plain_score"} score;
    typedef struct ${bias_type} bias;
    static constexpr bool LOGIT = ${tostring(max_logit)}; /* writes the largest logits, if asked */
    enum {
        HEAD_DIM = ${head_dim},
        DIM_PADDED = ${padded_dim}, /* up to a whole fragment, with zeros */
        TILE_M = ${tile_m}, /* rows of a block */
        TILE_N = ${tile_n}, /* keys of a step */
        CHUNK_STEPS = ${chunk_steps},
        SPAN_CHUNKS = ${span_chunks},
        WARPS = ${warps},
        STAGES = ${stages}, /* of K and of V */
        Q_TILES = STAGES + 1, /* of Q: K goes ahead by STAGES steps, and so by as many items */
        PAGE_CHUNKS = ${page_chunks}, /* of tiles of K and V */
        Q_PAGE_CHUNKS = ${q_page_chunks},
    };
};
} // namespace

/* Rows: where sequences lie, `padded` or `ragged`; Keys: where their keys do, `linear` or `paged`. */
template <class S, class Rows, class Keys> GLINT_DEVICE void attend(const struct glint_decode_params &p)
{
    const uint32_t lane = lane_index(), warp = warp_index();

    /* Shared memory: STAGES of K, then STAGES of V, Q_TILES of Q, P, maxima, sums, of widened K and V STAGES of their
     * scales, and of pages the runs of each warp. */
    const uint32_t k_tiles = shared_base(), v_tiles = k_tiles + S::STAGES * S::K_BYTES, q_tiles = v_tiles + S::STAGES * S::K_BYTES;
    const uint32_t p_tile = q_tiles + S::Q_TILES * S::Q_BYTES, maxima = p_tile + S::P_BYTES, sums = maxima + S::ROWS_BYTES;
    const uint32_t k_scales = sums + S::ROWS_BYTES, v_scales = k_scales + S::STAGES * S::SCALE_BYTES;
    const uint32_t runs = v_scales + S::STAGES * S::SCALE_BYTES;
    const uint32_t k_lane = k_tiles + lane_offset_a<typename S::kv_tile>(lane) + warp * (S::WARP_KEYS * S::PAGE_CHUNKS * 16);
    const uint32_t v_lane = v_tiles + lane_offset_of_values<S>(lane);
    const auto score = score_of<S>(p);
    const auto signs = signs_of<S>(p);
    const float scale = p.shape.softmax_scale;
    struct cursor at;
    copier<S, Rows, Keys> c;
    uint32_t stage = 0, q_to = q_tiles, q_tile = q_tiles;

    auto next_q = [&](uint32_t &tile) { tile = tile == q_tiles + (S::Q_TILES - 1) * S::Q_BYTES ? q_tiles : tile + S::Q_BYTES; };
    auto copy_q = [&]() {
        copy_queries<S, Rows>(p, c.at.tile, c.at.own.rows, q_to);
        next_q(q_to);
    };
    auto copy_k = [&]() { copy_keys(p, c, k_tiles, k_scales, copy_q); };
    auto copy_v = [&]() { copy_values(p, c, v_tiles, v_scales); };

    at.item = block_index();
    at.own_of = -1;
    if (p.items > 0)
        locate_item<S>(p, at);
    admit_successors();
    await_predecessors();
    if (p.sequences.fault && block_index() == 0)
        Rows::template note_faults<Keys, S::THREADS>(p);
    if (block_index() >= p.items) /* without a row one block looks at the lengths, and does nothing else */
        return;
    measure_item<S, Rows, Keys>(p, at);
    begin_copies(p, c, at, runs);
#pragma unroll 1
    for (int i = 1;; ++i) {
        copy_k();
        if (i == S::STAGES)
            break;
        copy_v();
    }

#pragma unroll 1
    for (;;) {
        struct sight<S> sight;
        look<S, Rows>(sight, p, at.tile, at.own);
        struct row_biases<S> biases;
        look(biases, p, at.tile, at.own);
        const struct cut_steps cut = find_cut<S>(p, at.tile, at.own, sight);
        const int32_t first = at.step;
        const int32_t first_left = first_entry<S>(p, at.tile, at.own);
        auto is_cut = [&](int32_t step) { return step >= cut.from || (S::mask::LEFT && step < cut.to); };
        typename S::queries_t q_kept;
        struct result<S> chunk, span, row;

        typename S::rows_t sinks; /* long before they are used */
#pragma unroll
        for (int rt = 0; rt < S::ROW_TILES; ++rt)
#pragma unroll
            for (int odd = 0; odd < 2; ++odd)
                sinks[rt][odd] = p.level == GLINT_DECODE_ROW ? find_sink(p, at.tile, at.tile.row0 + row_of_lane(rt, odd)) : -GLINT_INFINITY;

        begin_result(chunk);
        begin_result(span);
        begin_result(row);

#pragma unroll 1
        for (int32_t step = first; step < at.end; ++step) {
            typename S::scores_t s;
            typename S::rows_t maximum;
            struct result<S> now;
            const struct step_place<S> place = {k_tiles + stage, scales_of_stage<S>(k_scales, stage), v_tiles + stage,
                                                scales_of_stage<S>(v_scales, stage), warp};

            /* K of this step has arrived, and no warp reads V of the last one any more. */
            cp_async_wait(2 * S::STAGES - 2);
            block_sync();
            if (S::Q_KEPT && step == first) {
#pragma unroll
                for (int kk = 0; kk < S::K_STEPS; ++kk)
                    load_queries<S>(q_kept[S::Q_KEPT ? kk : 0], q_tile, kk);
            }
            make_scores<S>(s, q_kept, q_tile, k_lane + stage, place, score, biases, step, signs, scale, copy_v);
            if (is_cut(step))
                hide_scores<S>(s, step * S::TILE_N + (int32_t)(warp * S::WARP_KEYS + (lane >> 2)), sight);
            find_maxima<S>(maximum, s);
            join_lanes<S>(maximum, larger);
            give_rows<S>(maxima, maximum, warp);

            /* V of this step has arrived, and no warp reads K of it any more. */
            begin_result(now);
            cp_async_wait(2 * S::STAGES - 2);
            if (S::mask::RIGHT && !S::WIDENED && is_cut(step)) {
                if (Keys::PAGED) /* what a thread looks through, others have copied */
                    block_sync();
                if (block_any(finds_special<S>(v_tiles + stage)))
                    settle_values<S>(now.o, v_tiles + stage, step * S::TILE_N, sight, warp);
            } else
                block_sync();
            take_rows<S>(now.maximum, maxima, larger);
            if (S::mask::RIGHT && S::WIDENED && is_cut(step))
                make_weights<S, true>(now.sum, s, now.maximum, p_tile, place, step * S::TILE_N, sight);
            else
                make_weights<S, false>(now.sum, s, now.maximum, p_tile, place, step * S::TILE_N, sight);
            block_sync();

            uint32_t v_codes = 0;

            add_values<S>(now.o, p_tile, v_lane + stage, warp, signs, v_codes, copy_k);
            if (S::stored::HAS_NAN && any_nan(v_codes))
                add_nan_of_values<S>(now.o, v_tiles + stage, step * S::TILE_N, sight, warp);
            join_lanes<S>(now.sum, sum_of_two);
            stage = next_stage<S>(stage);

            if (p.level == GLINT_DECODE_STEP) {
                store_partial(p, at.tile, step - first_left, now, warp);
                continue;
            }
            fold(chunk, now, step * S::TILE_N, S::TILE_N, sight);
            if ((step + 1) % S::CHUNK_STEPS != 0 && step + 1 != at.end)
                continue;
            if (p.level == GLINT_DECODE_CHUNK)
                store_partial(p, at.tile, step / S::CHUNK_STEPS - first_left, chunk, warp);
            else {
                const int32_t of_span = S::CHUNK_STEPS * S::SPAN_CHUNKS;

                fold(span, chunk, step / S::CHUNK_STEPS * (S::CHUNK_STEPS * S::TILE_N), S::CHUNK_STEPS * S::TILE_N, sight);
                if ((step + 1) % of_span == 0 || step + 1 == at.end) {
                    if (p.level == GLINT_DECODE_SPAN)
                        store_partial(p, at.tile, step / of_span - first_left, span, warp);
                    else
                        fold(row, span, step / of_span * S::SPAN_KEYS, S::SPAN_KEYS, sight);
                    begin_result(span);
                }
            }
            begin_result(chunk);
        }
        if (first < at.end)
            next_q(q_tile);
        if (p.level == GLINT_DECODE_ROW) {
            if (first < at.end) {
                give_rows<S>(sums, row.sum, warp);
                block_sync();
                take_rows<S>(row.sum, sums, sum_of_two);
            }
            store_output<S, Rows>(p, at.tile, at.own.rows, row, sinks, sight, warp);
        }
        at.item += p.blocks;
        if (at.item >= p.items)
            break;
        locate_item<S>(p, at);
        measure_item<S, Rows, Keys>(p, at);
    }
    cp_async_wait(0);
}

} // namespace decode

typedef struct decode::shape<decode::variant> decode_shape;
$ for _, kernel in ipairs(kernels) do

GLINT_KERNEL(decode_shape::THREADS, ${blocks_per_sm}) ${symbol}${kernel.suffix}(GLINT_PARAMS(struct glint_decode_params) p)
{
    decode::attend<decode_shape, ${kernel.rows}, ${kernel.keys}>(p);
}
$ if kernel.keys == "linear" then

GLINT_KERNEL(32 * decode_shape::MERGE_WARPS, 1) ${symbol}${kernel.suffix}_merge(GLINT_PARAMS(struct glint_decode_params) p)
{
    decode::merge<decode_shape, ${kernel.rows}>(p);
}
$ end
$ end
