/* bwd_bf16_d64_causal__sm80_split_m64n128
 *
 * Attention, backward: dQ, dK, dV from Q, K, V, O, LSE, dO; bf16, head_dim 64, causal, both alignments.
 * For sm_80.
 * Tile: 64 queries x 128 keys; split, 4 warps, 1 block a multiprocessor.
 * Shared memory of a block: 82976 bytes.
 * For dQ: 128 queries x 64 keys; 4 warps, 1 block a multiprocessor, 65536 bytes.
 *
 * Made from gen/templates/sm80_bwd.cu.lua by
 *   lua5.4 gen/glint.lua emit --spec generated/golden/golden.lua --variant bwd_bf16_d64_causal__sm80_split_m64n128
 * and overwritten by it: change the template or the spec. */

/* The first kernel makes delta. In the second a block of 4 warps owns 128 keys of one head,
 * and walks over the queries in blocks of 64, last block first.
 * Two warps share 64 keys: one makes P^T and keeps dV, the other makes dP^T and dS^T and keeps dK.
 * Products are transposed (keys by queries), so that accumulators are operands of the next product.
 * In the last kernel a block of 4 warps owns 128 queries and walks over the keys for dQ:
 * it makes P and dS once more, but no sum crosses blocks. */
#include "lib/device/bias.h"
#include "lib/device/delta.h"
#include "lib/device/gradients.h"
#include "lib/device/mask.h"
#include "lib/device/score.h"
#include "lib/device/sequences.h"

enum {
    WARPS = 4,
    THREADS = 32 * WARPS,
    TILE_M = 64, /* queries of a step */
    TILE_N = 128, /* keys of a block */
    STAGES = 2, /* of Q and of dO */
    GROUPS = 2, /* of warps that share keys */
    ROW_TILES = 4, /* fragments of 16 keys that a group owns */
    GROUP_ROWS = 16 * ROW_TILES,
    WARP_M = 64, /* queries for which a warp makes P or dS */
    PART_M = 32, /* and those of them that are in registers at a time */
    WARP_DIM = 64, /* columns of dV or dK that a warp keeps */
    ROW_BYTES = TILE_M * 4, /* of a step's LSE or delta */
    PHASES = 4, /* barriers through which P^T is passed on */
};
typedef struct bf16 element;
typedef causal_mask mask_t;
typedef struct plain_score score_t;
typedef no_bias bias_t;
typedef struct tile<element, TILE_M, 64, 8> q_tile_t; /* of dO, too */
typedef struct tile<element, TILE_N, 64, 8> k_tile_t; /* of V, too */
typedef struct tile<element, TILE_N, TILE_M, 8> ds_tile_t; /* one page */
static_assert(2 * k_tile_t::BYTES + 2 * STAGES * (q_tile_t::BYTES + ROW_BYTES) + 1 * ds_tile_t::BYTES + 32 ==
                  82976, "shared memory");

/* Delta and LSE. */
GLINT_KERNEL(256, 1) glint_bwd_bf16_d64_causal__sm80_split_m64n128_delta(GLINT_PARAMS(struct glint_gpu_call) p)
{
    run_delta<struct bf16, 8, causal_mask, false, 64, 128, 4, given>(p);
}

/* The gradient of the sinks. Rows that see no key are found by the mask. */
GLINT_KERNEL(256, 1) glint_bwd_bf16_d64_causal__sm80_split_m64n128_sinks(GLINT_PARAMS(struct glint_gpu_call) p)
{
    make_sink_gradient<struct bf16, 8, false, given, causal_mask>(p, shared_base());
}

/* ---- dK and dV: a block owns TILE_N keys ---- */
template <class Rows> GLINT_DEVICE void attend_keys(const struct glint_gpu_call &p)
{
    const uint32_t lane = lane_index(), warp = warp_index(), group = warp % GROUPS;
    const bool keeps_dk = warp >= WARPS / 2; /* else dV */
    /* Shared memory: K, V, stages of Q and of dO, dS^T and P^T, stages of LSE and of delta, barriers. */
    const uint32_t k_tile = shared_base(), v_tile = k_tile + k_tile_t::BYTES, q_tiles = v_tile + k_tile_t::BYTES;
    const uint32_t do_tiles = q_tiles + STAGES * q_tile_t::BYTES, ds_tiles = do_tiles + STAGES * q_tile_t::BYTES;
    const uint32_t rows_lse = ds_tiles + 1 * ds_tile_t::BYTES, rows_delta = rows_lse + STAGES * ROW_BYTES;
    const uint32_t phases = rows_delta + STAGES * ROW_BYTES;
    const uint32_t phase = phases + group * 8;

    init_phases<PHASES>(phases);
    block_sync();
    const uint32_t kept = shared_base() + 82976;
    const struct place work = Rows::template find_tile<TILE_N, true>(p, p.shape.section, shared_base(), kept);
    if (Rows::READS && work.row0 < 0)
        return;
    const int32_t seqlen_k = work.own.seqlen_k;
    const int32_t head_kv = work.head, key0 = work.row0;
    const mask_t mask = mask_of<mask_t>(work.own);
    const score_t score = score_t::of(p);
    const struct query_blocks blocks = find_query_blocks<TILE_M, TILE_N>(mask, key0);
    const int32_t first_m = blocks.first, last_m = blocks.last, first_clear = blocks.clear_from;
    const int32_t steps = max(0, last_m - first_m + 1) * p.shape.group;

    copy_tile<k_tile_t, THREADS>(k_tile, p.k, work.batch, head_kv, work.first_k + key0, work.first_k + seqlen_k);
    copy_tile<k_tile_t, THREADS>(v_tile, p.v, work.batch, head_kv, work.first_k + key0, work.first_k + seqlen_k);

    /* Begins the copies of a step's Q, dO, LSE and delta into a stage. */
    auto copy_step = [&](int32_t head_q, int32_t m, uint32_t stage) {
        copy_queries<Rows, q_tile_t, THREADS>(thread_index_anew(), p, work, kept, head_q, m, stage, q_tiles, do_tiles, rows_lse, rows_delta);
    };
    int32_t head_q = head_kv * p.shape.group, m = last_m; /* of the step that is copied next */
    if (steps > 0)
        copy_step(head_q, m, 0);
    cp_async_commit();

    /* S^T = K Q^T and dV += P^T dO, or dP^T = V dO^T and dK += dS^T Q: the same products of other tiles. */
    const uint32_t x_lane = (keeps_dk ? v_tile : k_tile) + lane_offset_a<k_tile_t>(lane) + group * (GROUP_ROWS * k_tile_t::PAGE_ROW);
    const uint32_t y_lane = (keeps_dk ? do_tiles : q_tiles) + lane_offset_b<q_tile_t>(lane);
    const uint32_t rows_lane = (keeps_dk ? rows_delta : rows_lse) + (lane & 3) * 8;
    const uint32_t z_lane = (keeps_dk ? q_tiles : do_tiles) + lane_offset_rows<q_tile_t>(lane, 0);
    const uint32_t ds_lane =
        ds_tiles + lane_offset_pairs<element>(lane, ds_tile_t::ROWS, ds_tile_t::PAGE_CHUNKS) + group * (GROUP_ROWS * ds_tile_t::PAGE_ROW);

    float g[ROW_TILES][WARP_DIM / 8][4]; /* dV, or dK without the scale */
    set_zero(g);

    struct kept_rows<ROW_TILES, 0> x_kept; /* steps along head_dim whose fragments of K or V stay in registers */
#pragma unroll 1
    for (int32_t step = 0; step < steps; ++step) {
        /* Stages: of the step whose Q and dO have arrived, of the one after, and of this warp's. */
        const uint32_t front = step & 1, next = front ^ 1, stage = front;

        /* This step's Q and dO have arrived, and no warp reads the next stage any more. */
        cp_async_wait(0);
        const int32_t head_now = head_q, m_now = m;
        /* NaN and infinities in rows that the mask hides must not meet a P or dS of zero: LSE and delta tell where Q
         * and dO have any. */
        if (m_now < first_clear) {
            const uint32_t row = front * ROW_BYTES + thread_index() * 16;

            if (block_any(thread_index() < ROW_BYTES / 16 && are_special(rows_lse + row, rows_delta + row)))
                settle_queries<q_tile_t, THREADS, false>(g, !keeps_dk, q_tiles + front * q_tile_t::BYTES, do_tiles + front * q_tile_t::BYTES,
                                                  in_tile{}, band_from(band_from(Rows::sight(kept, mask), m_now * TILE_M, key0), 0, (int32_t)group * GROUP_ROWS));
        } else
            block_sync();
        if (m == first_m) {
            m = last_m;
            ++head_q;
        } else
            --m;
        if (step + 1 < steps)
            copy_step(head_q, m, next);
        cp_async_commit();

#pragma unroll 1
        for (int part = 0; part < WARP_M / PART_M; ++part) {
            const uint32_t y_now = y_lane + stage * q_tile_t::BYTES + part * (PART_M * q_tile_t::PAGE_ROW);
            const uint32_t z_now = z_lane + stage * q_tile_t::BYTES + part * (PART_M * q_tile_t::PAGE_ROW);
            const uint32_t ds_now = ds_lane ^ (uint32_t)part * (PART_M * element::BYTES);
            const uint32_t p_now = ds_now; /* where dS^T will be */
            const int32_t query0 = m_now * TILE_M + part * PART_M;
            /* Queries beyond the last one, too: their Q and dO are zeros, and 0 times an infinity of a key is NaN. */
            const bool masked = m_now < first_clear || query0 + PART_M > Rows::sight(kept, mask).seqlen_q;

            /* S^T = K Q^T, or dP^T = V dO^T; each query, a column, has an LSE or a delta. */
            float rows[PART_M / 8][2], s[ROW_TILES][PART_M / 8][4];
            multiply_rows<k_tile_t, q_tile_t>(s, x_kept, x_lane, y_now);
            load_columns(rows, rows_lane + stage * ROW_BYTES + part * (PART_M * 4));

            if (!keeps_dk) {
                /* P^T = 2^(scale S^T - LSE) goes to the partner, and with dO into dV. */
                const bias_t bias = bias_t::template of<Rows>(p, head_now, Rows::place_again(work, kept), kept);
                const auto added = tile_of_keys<ROW_TILES, PART_M / 8>(bias, key0 + (int32_t)group * GROUP_ROWS, query0);

                change_scores(s, score);
                make_weights(s, rows, p.shape, added);
                if (masked)
                    hide_queries<TILE_M>(s, Rows::sight(kept, mask), key0 + (int32_t)group * GROUP_ROWS, query0);
                put_scores<ds_tile_t>(s, p_now);
                mbarrier_arrive(phase + part * (GROUPS * 8));
                add_products<q_tile_t>(g, s, z_now);
            } else {
                /* dS^T = P^T (dP^T - delta) with the partner's P^T goes to dQ, and with Q into dK. */
                subtract_delta(s, rows);
                if (masked)
                    hide_queries<TILE_M>(s, Rows::sight(kept, mask), key0 + (int32_t)group * GROUP_ROWS, query0);
                mbarrier_wait(phase + part * (GROUPS * 8), stage);
                times_scores<ds_tile_t>(s, p_now);
                add_products<q_tile_t>(g, s, z_now);
            }
        }
    }

    /* dK and dV go through this group's own rows of the K and V tiles to 16-byte stores. */
    cp_async_wait(0);
    block_sync();
    const struct place end = Rows::template tile_again<TILE_N, true>(p, p.shape.section, kept);
    const float factor = keeps_dk ? p.shape.softmax_scale : 1.0f;
    const struct glint_gpu_view *out = keeps_dk ? &p.dk : &p.dv;
    const uint32_t out_tile = (keeps_dk ? k_tile : v_tile) + group * (GROUP_ROWS * k_tile_t::PAGE_ROW);
    const uint32_t out_lane = out_tile + lane_offset_pairs<element>(lane, k_tile_t::ROWS, k_tile_t::PAGE_CHUNKS);
    write_rows<k_tile_t, k_tile_t>(*out, end.batch, end.head, end.first_k + end.row0 + (int32_t)group * GROUP_ROWS,
                                   end.first_k + end.own.seqlen_k, 0, g, factor, out_tile, out_lane);
}

GLINT_KERNEL(THREADS, 1) glint_bwd_bf16_d64_causal__sm80_split_m64n128(GLINT_PARAMS(struct glint_gpu_call) p)
{
    attend_keys<given>(p);
}

/* ---- dQ: a block owns DQ_M queries, a warp DQ_ROWS of them, and walks over blocks of DQ_N keys, last block first - */

enum {
    DQ_M = 128,
    DQ_N = 64,
    DQ_THREADS = 32 * 4,
    DQ_ROW_TILES = 2, /* fragments of 16 queries that a warp owns */
    DQ_ROWS = 16 * DQ_ROW_TILES,
};
typedef struct tile<element, DQ_M, 64, 8> dq_tile_t; /* of Q, dO and dQ */
typedef struct tile<element, DQ_N, 64, 8> dq_k_tile_t; /* of K and V */
static_assert(2 * dq_tile_t::BYTES + 4 * dq_k_tile_t::BYTES == 65536, "shared memory");

template <class Rows> GLINT_DEVICE void attend_queries(const struct glint_gpu_call &p)
{
    const uint32_t lane = lane_index(), warp = warp_index();
    const uint32_t kept = shared_base() + 65536;
    const int32_t section = p.shape.section * p.shape.group; /* a section counts key heads, each with its whole group */
    const struct place work = Rows::template find_tile<DQ_M, false>(p, section, shared_base(), kept);
    if (Rows::READS && work.row0 < 0)
        return;
    const int32_t seqlen_q = work.own.seqlen_q, seqlen_k = work.own.seqlen_k;
    const int32_t query0 = work.row0, warp_query0 = query0 + (int32_t)warp * DQ_ROWS;
    const int32_t head_kv = work.head / p.shape.group;
    const mask_t mask = mask_of<mask_t>(work.own);
    const score_t score = score_t::of(p);
    const struct key_blocks<mask_t> blocks = find_key_blocks<DQ_N>(mask, query0, min(query0 + DQ_M, seqlen_q) - 1);
    int32_t block = blocks.last;

    /* Shared memory: Q, dO, then two stages of K and V. */
    const uint32_t q_tile = shared_base(), do_tile = q_tile + dq_tile_t::BYTES, k_tiles = do_tile + dq_tile_t::BYTES;
    const uint32_t q_lane = q_tile + lane_offset_a<dq_tile_t>(lane) + warp * (DQ_ROWS * dq_tile_t::PAGE_ROW);
    uint32_t k_lane = k_tiles + lane_offset_b<dq_k_tile_t>(lane);
    uint32_t k_lane_trans = k_tiles + lane_offset_rows<dq_k_tile_t>(lane, 0);
    const int64_t k_row_bytes = p.k.row * element::BYTES, v_row_bytes = p.v.row * element::BYTES;
    const int32_t key_last = max(0, block) * DQ_N;
    const char *k_from = copy_from<dq_k_tile_t>(view_row(&p.k, work.batch, head_kv, work.first_k + key_last, element::BYTES), k_row_bytes);
    const char *v_from = copy_from<dq_k_tile_t>(view_row(&p.v, work.batch, head_kv, work.first_k + key_last, element::BYTES), v_row_bytes);

    copy_tile<dq_tile_t, DQ_THREADS>(q_tile, p.q, work.batch, work.head, work.first_q + query0, work.first_q + seqlen_q);
    copy_tile<dq_tile_t, DQ_THREADS>(do_tile, p.dout, work.batch, work.head, work.first_q + query0, work.first_q + seqlen_q);

    /* A stage is K and after it V. */
    auto copy_step = [&](uint32_t stage, int32_t valid_keys) {
        copy_tile<dq_k_tile_t, DQ_THREADS>(k_tiles + stage, k_from, k_row_bytes, valid_keys);
        copy_tile<dq_k_tile_t, DQ_THREADS>(k_tiles + stage + dq_k_tile_t::BYTES, v_from, v_row_bytes, valid_keys);
    };
    if (block >= blocks.first)
        copy_step(0, seqlen_k - key_last);
    cp_async_commit();

    float lse[DQ_ROW_TILES][2], delta[DQ_ROW_TILES][2]; /* of this lane's queries */
    load_rows_lse(lse, delta, p, work.line, Rows::padded_first_of(kept) + warp_query0, lane);
    float dq[DQ_ROW_TILES][dq_tile_t::DIM / 8][4]; /* without the scale */
    set_zero(dq);

    int32_t to_other = -2 * (int32_t)dq_k_tile_t::BYTES; /* from this block's stage to the other */
    k_lane += 2 * dq_k_tile_t::BYTES;
    k_lane_trans += 2 * dq_k_tile_t::BYTES;
#pragma unroll 1
    for (; block >= blocks.first; --block) {
        /* K and V of this block have arrived, and no warp reads the other stage any more: the next block goes there. */
        cp_async_wait(0);
        const uint32_t k_tile = k_tiles + max(to_other, 0);
        bool special = false;

        if (hides_some(mask, block, blocks.whole_from, blocks.hidden_from))
            special = block_any(find_special<dq_k_tile_t, DQ_THREADS>(k_tile));
        else
            block_sync();
        k_lane += to_other;
        k_lane_trans += to_other;
        to_other = -to_other;
        if (block > blocks.first) {
            k_from -= DQ_N * k_row_bytes;
            v_from -= DQ_N * v_row_bytes;
            copy_step((uint32_t)max(to_other, 0), DQ_N);
        }
        cp_async_commit();

        float s[DQ_ROW_TILES][DQ_N / 8][4], dp[DQ_ROW_TILES][DQ_N / 8][4]; /* S, P and then dS; dP */
        const struct kept_rows<DQ_ROW_TILES, 0> none_kept = {};
        /* A warp whose queries all end before this block has nothing to
         * do. */
        const bool hidden = hides_all<DQ_N>(mask, warp_query0, DQ_ROWS, block);

        if (!hidden)
            multiply_rows<dq_tile_t, dq_k_tile_t>(s, none_kept, q_lane, k_lane);
        /* NaN and infinities of K must not meet a dS of zero. Queries that see such a key get NaN: S is infinite or NaN
         * there, so P and dS are 0 or NaN. */
        if (special) {
            spread_special<dq_k_tile_t, true>(dq, k_tile, in_tile{}, 0.0f,
                                              [&](int32_t row, int32_t key) { return sees(mask, warp_query0, row, block * DQ_N, key); });
            block_sync();
            clear_special<dq_k_tile_t, DQ_THREADS>(k_tile);
            block_sync();
        }
        if (hidden)
            continue;
        multiply_rows<dq_tile_t, dq_k_tile_t>(dp, none_kept, q_lane + dq_tile_t::BYTES, k_lane + dq_k_tile_t::BYTES);
        change_scores(s, score);

        const struct place &again = Rows::place_again(work, kept);
        const bias_t bias = bias_t::template of<Rows>(p, again.head, again, kept);
        make_scores_gradient(s, dp, lse, delta, p.shape, score, tile_of_queries<DQ_ROW_TILES, DQ_N / 8>(bias, warp_query0, block * DQ_N));
        if (Rows::READS && !mask_t::RIGHT ? (block + 1) * DQ_N > Rows::sight(kept, mask).seqlen_k /* a register less */
                                          : hides_some(mask, block, blocks.whole_from, blocks.hidden_from))
            hide_keys(s, Rows::sight(kept, mask), warp_query0, block * DQ_N, 0.0f);

        /* dQ += dS K */
        uint32_t ds[DQ_N / element::K_STEP][DQ_ROW_TILES][4];
        to_operands<element>(ds, s);
#pragma unroll
        for (int kk = 0; kk < DQ_N / (int)element::K_STEP; ++kk)
            multiply_step<dq_k_tile_t>(dq, ds[kk], k_lane_trans, kk);
    }

    /* dQ goes through this warp's own rows of the Q tile, which it alone reads, to 16-byte stores. Where they go is
     * found again: the registers were worth more in the loop. */
    cp_async_wait(0);
    block_sync();
    const struct place end = Rows::template tile_again<DQ_M, false>(p, p.shape.section * p.shape.group, kept);
    const int32_t first_row = end.first_q + end.row0 + (int32_t)warp * DQ_ROWS;
    const uint32_t out_tile = q_tile + warp * (DQ_ROWS * dq_tile_t::PAGE_ROW), out_lane = out_tile + lane_offset_pairs<dq_tile_t>(lane);
    write_rows<dq_tile_t, dq_tile_t>(p.dq, end.batch, end.head, first_row, end.first_q + end.own.seqlen_q, 0, dq, p.shape.softmax_scale,
                                     out_tile, out_lane);
}

GLINT_KERNEL(DQ_THREADS, 1) glint_bwd_bf16_d64_causal__sm80_split_m64n128_dq(GLINT_PARAMS(struct glint_gpu_call) p)
{
    attend_queries<given>(p);
}
