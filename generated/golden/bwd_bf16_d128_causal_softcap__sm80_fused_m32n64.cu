/* bwd_bf16_d128_causal_softcap__sm80_fused_m32n64
 *
 * Attention, backward: dQ, dK, dV from Q, K, V, O, LSE, dO; bf16, head_dim 128, causal, both alignments, softcap.
 * For sm_80.
 * Tile: 32 queries x 64 keys; fused, 8 warps, 1 block a multiprocessor.
 * Shared memory of a block: 78384 bytes.
 * A block takes 1 query head of a key head's where 4096 or more queries see a key, 2 from 512 on and 8 above 128.
 *
 * Made from gen/templates/sm80_bwd.cu.lua by
 *   lua5.4 gen/glint.lua emit --spec generated/golden/golden.lua --variant bwd_bf16_d128_causal_softcap__sm80_fused_m32n64
 * and overwritten by it: change the template or the spec. */

/* The first kernel makes delta. In the second a block of 8 warps owns 64 keys of one head,
 * and walks over the queries in blocks of 32, last block first.
 * Four warps share 32 keys: two make P^T and keep dV, two make dP^T and dS^T and keep dK,
 * each for half of the queries and then for half of the columns.
 * Products are transposed (keys by queries), so that accumulators are operands of the next product.
 * Key blocks add their part of dQ one after another, so that the sum is the same every time. Blocks that share the
 * query heads of a key head add their parts of dK and dV in the same way. */
#include "lib/device/bias.h"
#include "lib/device/delta.h"
#include "lib/device/gradients.h"
#include "lib/device/mask.h"
#include "lib/device/score.h"
#include "lib/device/sequences.h"

enum {
    WARPS = 8,
    THREADS = 32 * WARPS,
    TILE_M = 32, /* queries of a step */
    TILE_N = 64, /* keys of a block */
    STAGES = 2, /* of Q and of dO */
    GROUPS = 2, /* of warps that share keys */
    ROW_TILES = 2, /* fragments of 16 keys that a group owns */
    GROUP_ROWS = 16 * ROW_TILES,
    WARP_M = 16, /* queries for which a warp makes P or dS */
    PART_M = 16, /* and those of them that are in registers at a time */
    WARP_DIM = 64, /* columns of dV or dK that a warp keeps */
    DQ_ROW_TILES = 1, /* fragments of 16 queries of dQ that a warp makes */
    AT_ONCE = 8, /* loads of sums in memory: as many as registers allow */
    ROW_BYTES = TILE_M * 4, /* of a step's LSE or delta */
    PHASES = 4, /* barriers through which P^T is passed on */
};
typedef struct bf16 element;
typedef causal_mask mask_t;
typedef struct capped_score score_t;
typedef no_bias bias_t;
typedef struct tile<element, TILE_M, 128, 8> q_tile_t; /* of dO, too */
typedef struct tile<element, TILE_N, 128, 8> k_tile_t; /* of V, too */
typedef struct tile<element, TILE_M, WARP_DIM, 8> q_part_t; /* half of the columns */
typedef struct tile<element, TILE_N, WARP_DIM, 8> k_part_t;
typedef struct tile<element, TILE_N, TILE_M, 4> ds_tile_t; /* one page */
static_assert(2 * k_tile_t::BYTES + 2 * STAGES * (q_tile_t::BYTES + ROW_BYTES) + 3 * ds_tile_t::BYTES + 48 ==
                  78384, "shared memory");

/* Delta and LSE. */
GLINT_KERNEL(256, 1) glint_bwd_bf16_d128_causal_softcap__sm80_fused_m32n64_delta(GLINT_PARAMS(struct glint_gpu_call) p)
{
    run_delta<struct bf16, 16, causal_mask, true, 32, 64, 8, given>(p);
}

/* The gradient of the sinks. Rows that see no key are found by the mask. */
GLINT_KERNEL(256, 1) glint_bwd_bf16_d128_causal_softcap__sm80_fused_m32n64_sinks(GLINT_PARAMS(struct glint_gpu_call) p)
{
    make_sink_gradient<struct bf16, 16, true, given, causal_mask>(p, shared_base());
}

/* ---- dK and dV, and parts of dQ: a block owns TILE_N keys ---- */
template <class Rows> GLINT_DEVICE void attend_keys(const struct glint_gpu_call &p)
{
    const uint32_t lane = lane_index(), warp = warp_index(), group = warp % GROUPS, half = warp / GROUPS % 2;
    const bool keeps_dk = warp >= WARPS / 2; /* else dV */
    /* Shared memory: K, V, stages of Q and of dO, dS^T and P^T, stages of LSE and of delta, barriers. */
    const uint32_t k_tile = shared_base(), v_tile = k_tile + k_tile_t::BYTES, q_tiles = v_tile + k_tile_t::BYTES;
    const uint32_t do_tiles = q_tiles + STAGES * q_tile_t::BYTES, ds_tiles = do_tiles + STAGES * q_tile_t::BYTES;
    const uint32_t rows_lse = ds_tiles + 3 * ds_tile_t::BYTES, rows_delta = rows_lse + STAGES * ROW_BYTES;
    const uint32_t phases = rows_delta + STAGES * ROW_BYTES;
    const uint32_t phase = phases + (group * 2 + half) * 8;

    init_phases<PHASES>(phases);
    const uint32_t number = phases + 32, poisoned = number + 4;

    /* Blocks take numbers as they begin, so a block waits only for such that run or have run. */
    if (thread_index() == 0)
        st_shared_u32(number, p.shape.seqlen_q > 0 ? atom_global_add_u32(p.turn, 1) : block_index());
    block_sync();
    const struct key_part share = find_key_part<TILE_N>(p, ld_shared_u32(number));
    const struct place work = Rows::template keys_at<TILE_N>(p, share);
    const uint32_t kept = 0;
    const int32_t seqlen_k = work.own.seqlen_k;
    const int32_t head_kv = work.head, key0 = work.row0;
    const mask_t mask = mask_of<mask_t>(work.own);
    const score_t score = score_t::of(p);
    const struct query_blocks blocks = find_query_blocks<TILE_M, TILE_N>(mask, key0);
    const int32_t first_m = blocks.first, last_m = blocks.last, first_clear = blocks.clear_from;
    const int32_t first_head = share.part * p.part_heads; /* of the group */
    const int32_t steps = max(0, last_m - first_m + 1) * min(p.part_heads, p.shape.group - first_head);

    copy_tile<k_tile_t, THREADS>(k_tile, p.k, work.batch, head_kv, work.first_k + key0, work.first_k + seqlen_k);
    copy_tile<k_tile_t, THREADS>(v_tile, p.v, work.batch, head_kv, work.first_k + key0, work.first_k + seqlen_k);

    /* Begins the copies of a step's Q, dO, LSE and delta into a stage. */
    auto copy_step = [&](int32_t head_q, int32_t m, uint32_t stage) {
        copy_queries<Rows, q_tile_t, THREADS>(thread_index(), p, work, kept, head_q, m, stage, q_tiles, do_tiles, rows_lse, rows_delta);
    };
    int32_t head_q = head_kv * p.shape.group + first_head, m = last_m; /* of the step that is copied next */
    if (steps > 0)
        copy_step(head_q, m, 0);
    cp_async_commit();

    /* S^T = K Q^T and dV += P^T dO, or dP^T = V dO^T and dK += dS^T Q: the same products of other tiles. */
    const uint32_t x_lane = (keeps_dk ? v_tile : k_tile) + lane_offset_a<k_tile_t>(lane) + group * (GROUP_ROWS * k_tile_t::PAGE_ROW);
    const uint32_t y_lane = (keeps_dk ? do_tiles : q_tiles) + lane_offset_b<q_tile_t>(lane) + half * (WARP_M * q_tile_t::PAGE_ROW);
    const uint32_t rows_lane = (keeps_dk ? rows_delta : rows_lse) + (lane & 3) * 8 + half * (WARP_M * 4);
    const uint32_t z_lane = (keeps_dk ? q_tiles : do_tiles) + lane_offset_rows<q_tile_t>(lane, 0) + half * q_part_t::BYTES;
    const uint32_t ds_lane =
        (ds_tiles + lane_offset_pairs<element>(lane, ds_tile_t::ROWS, ds_tile_t::PAGE_CHUNKS) + group * (GROUP_ROWS * ds_tile_t::PAGE_ROW)) ^ half * (WARP_M * element::BYTES);
    const uint32_t a_lane = ds_tiles + lane_offset_a(lane, ds_tile_t::ROWS, ds_tile_t::PAGE_CHUNKS) + group * (GROUP_ROWS * ds_tile_t::PAGE_ROW);

    /* From a step's query head and query block to those of the step before. */
    auto step_back = [&](int32_t *head, int32_t *block) {
        *head -= *block == last_m;
        *block = *block == last_m ? first_m : *block + 1;
    };

    float g[ROW_TILES][WARP_DIM / 8][4]; /* dV, or dK without the scale */
    set_zero(g);

    /* dQ's part of a step before. */
    auto add_queries = [&](int32_t head, int32_t m, uint32_t buffer) {
        add_dq<q_tile_t, k_tile_t, ds_tile_t, THREADS, DQ_ROW_TILES, AT_ONCE>(p, mask, work.batch, head, m, key0, k_tile, ds_tiles, buffer,
                                                                              m < first_clear, poisoned);
    };

    /* The turn of (query head, query block) counts the keys whose blocks have added to dQ there. One thread looks at it
     * a step ahead, waits if need be before the barrier that lets this block add, and passes it on after the next
     * barrier, when all threads have added and their sums have had the time to arrive. */
    const bool keeps_turn = thread_index() == THREADS / 2;
    auto turn_of = [&](int32_t head, int32_t block) {
        return 1 + (uint32_t)(work.batch * p.shape.heads_q + head) * (uint32_t)(p.padded_q / TILE_M) + (uint32_t)block;
    };
    auto pass_turn_on = [&](int32_t head, int32_t block) { st_release_u32(p.turn + turn_of(head, block), (uint32_t)(key0 + TILE_N)); };
    uint32_t seen = 0;

    /* NaN and infinities of K must not meet a dS of zero in blocks where the mask hides keys: each thread looks at what
     * it copied. */
    cp_async_wait(0);
    const bool found = block_any(first_clear > first_m && find_special<k_tile_t, THREADS>(k_tile));
    if (thread_index() == 0)
        st_shared_u32(poisoned, found ? 1 : 0);

    struct kept_rows<ROW_TILES, 0> x_kept; /* steps along head_dim whose fragments of K or V stay in registers */
#pragma unroll 1
    for (int32_t step = 0; step <= steps; ++step) {
        /* Stages: of the step whose Q and dO have arrived, of the one after, and of this warp's. */
        const uint32_t front = step & 1, next = front ^ 1, stage = front;

        /* This step's Q and dO have arrived, the last step's dS is complete, and no warp reads the next stage any
         * more. */
        cp_async_wait(0);
        const int32_t m_front = m;
        int32_t head_now = head_q, m_now = m;
        int32_t head_before = head_now, m_before = m_now;
        step_back(&head_before, &m_before);
        if (keeps_turn && step > 0) {
            while (seen < (uint32_t)key0)
                seen = ld_acquire_u32(p.turn + turn_of(head_before, m_before));
        }
        /* NaN and infinities in rows that the mask hides must not meet a P or dS of zero. Delta tells where dO has any;
         * in Q each thread looks at what it copied, as the cap leaves LSE finite. */
        if (m_front < first_clear && step < steps) {
            const uint32_t row = front * ROW_BYTES + thread_index() * 16;

            const bool found = find_special<q_tile_t, THREADS>(q_tiles + front * q_tile_t::BYTES) ||
                               (thread_index() < ROW_BYTES / 16 && are_special(rows_lse + row, rows_delta + row));

            if (block_any(found))
                settle_queries<q_tile_t, THREADS, true>(g, !keeps_dk, q_tiles + front * q_tile_t::BYTES, do_tiles + front * q_tile_t::BYTES,
                                                  from_chunk{half * (WARP_DIM * element::BYTES / 16)}, band_from(band_from(Rows::sight(kept, mask), m_front * TILE_M, key0), 0, (int32_t)group * GROUP_ROWS));
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

        if (keeps_dk && step > 0)
            add_queries(head_before, m_before, next * ds_tile_t::BYTES);

#pragma unroll
        for (int part = 0; step < steps && part < WARP_M / PART_M; ++part) {
            const uint32_t y_now = y_lane + stage * q_tile_t::BYTES + part * (PART_M * q_tile_t::PAGE_ROW);
            const uint32_t z_now = z_lane + stage * q_tile_t::BYTES + part * (PART_M * q_tile_t::PAGE_ROW);
            const uint32_t ds_now = (ds_lane + stage * ds_tile_t::BYTES) ^ (uint32_t)part * (PART_M * element::BYTES);
            const uint32_t p_now = ds_lane + 2 * ds_tile_t::BYTES;
            const int32_t query0 = m_now * TILE_M + (int32_t)half * WARP_M;
            /* Queries beyond the last one, too: their Q and dO are zeros, and 0 times an infinity of a key is NaN. */
            const bool masked = m_now < first_clear || query0 + WARP_M > Rows::sight(kept, mask).seqlen_q;

            /* S^T = K Q^T, or dP^T = V dO^T; each query, a column, has an LSE or a delta. */
            float rows[PART_M / 8][2], s[ROW_TILES][PART_M / 8][4];
            multiply_rows<k_tile_t, q_tile_t>(s, x_kept, x_lane, y_now);
            load_columns(rows, rows_lane + stage * ROW_BYTES + part * (PART_M * 4));

            if (!keeps_dk) {
                /* P^T = 2^(scale S^T - LSE) goes with dO into dV, and times the slope of the cap to the partner. */
                const bias_t bias = bias_t::template of<Rows>(p, head_now, Rows::place_again(work, kept), kept);
                const auto added = tile_of_keys<ROW_TILES, PART_M / 8>(bias, key0 + (int32_t)group * GROUP_ROWS, query0);

                change_scores(s, score);
                make_capped_weights<ds_tile_t>(s, rows, p.shape, score, added, ds_now);
                if (masked)
                    hide_queries<TILE_M>(s, Rows::sight(kept, mask), key0 + (int32_t)group * GROUP_ROWS, query0);
                put_scores<ds_tile_t>(s, p_now);
                mbarrier_arrive(phase);
                named_sync(1 + group * 2, 64);
                add_products_of<ds_tile_t, q_tile_t>(g, a_lane + 2 * ds_tile_t::BYTES, z_now);
            } else {
                /* dS^T = P^T (dP^T - delta) with the partner's P^T goes to dQ, and with Q into dK. */
                subtract_delta(s, rows);
                if (keeps_turn && part == 0) {
                    if (step >= 2) {
                        step_back(&head_before, &m_before);
                        pass_turn_on(head_before, m_before);
                    }
                    seen = ld_acquire_u32(p.turn + turn_of(head_now, m_now));
                }
                mbarrier_wait(phase, stage);
                times_scores<ds_tile_t>(s, ds_now);
                if (masked) /* the partner's P^T is not, and where it is 0, dP^T may be no number */
                    hide_queries<TILE_M>(s, Rows::sight(kept, mask), key0 + (int32_t)group * GROUP_ROWS, query0);
                put_scores<ds_tile_t>(s, ds_now);
                named_sync(2 + group * 2, 64);
                add_products_of<ds_tile_t, q_tile_t>(g, a_lane + stage * ds_tile_t::BYTES, z_now);
            }
        }

        if (!keeps_dk && step > 0)
            add_queries(head_before, m_before, next * ds_tile_t::BYTES);
    }

    /* The last turn; then dK and dV go through this group's own rows of the K and V tiles to 16-byte stores. */
    block_sync();
    if (keeps_turn) {
        step_back(&head_q, &m);
        for (int32_t step = steps; step > 0 && step > steps - 2; --step) {
            step_back(&head_q, &m);
            pass_turn_on(head_q, m);
        }
    }
    const struct key_part end_share = find_key_part<TILE_N>(p, ld_shared_u32(number));
    const struct place end = Rows::template keys_at<TILE_N>(p, end_share);

    if (p.parts > 1 && add_part<THREADS, AT_ONCE>(p, g, end_share, 2 * TILE_N * (int)k_tile_t::DIM))
        return;
    const float factor = keeps_dk ? p.shape.softmax_scale : 1.0f;
    const struct glint_gpu_view *out = keeps_dk ? &p.dk : &p.dv;
    const uint32_t out_tile =
        (keeps_dk ? k_tile : v_tile) + group * (GROUP_ROWS * k_tile_t::PAGE_ROW) + half * (WARP_DIM * element::BYTES * TILE_N);
    const uint32_t out_lane = out_tile + lane_offset_pairs<element>(thread_index_anew() % 32, k_tile_t::ROWS, k_tile_t::PAGE_CHUNKS);
    write_rows<k_tile_t, k_part_t>(*out, end.batch, end.head, end.first_k + end.row0 + (int32_t)group * GROUP_ROWS,
                                   end.first_k + end.own.seqlen_k, half, g, factor, out_tile, out_lane);
}

GLINT_KERNEL(THREADS, 1) glint_bwd_bf16_d128_causal_softcap__sm80_fused_m32n64(GLINT_PARAMS(struct glint_gpu_call) p)
{
    attend_keys<given>(p);
}
