/* bwd_bf16_d64_causal__sm90a_fused_m128n128
 *
 * Attention, backward: dQ, dK, dV from Q, K, V, O, LSE, dO; bf16, head_dim 64, causal, both alignments.
 * For sm_90a.
 * Tile: 128 queries x 128 keys; persistent, two warpgroups of 64 keys, and a warpgroup that loads and stores; dQ summed by one block after another.
 * Shared memory of a block: 231656 bytes.
 *
 * Made from gen/templates/sm90a_bwd.cu.lua by
 *   lua5.4 gen/glint.lua emit --spec generated/golden/golden.lua --variant bwd_bf16_d64_causal__sm90a_fused_m128n128
 * and overwritten by it: change the template or the spec. */

#include "lib/device/warpgroup_backward.h"

enum {
    HEAD_DIM = 64,
    TILE_M = 128,   /* queries of a step */
    TILE_N = 128,   /* keys of a block */
    WIDTH = 128,     /* bytes of a slab's rows: see slab_tile */
    OWN_ROWS = 64,        /* keys, or queries, of a warpgroup */
    EXPONENT = 0x7f800000, /* all ones in NaN and infinity: see finite_part */
    BYTES = 2,
    ROW_CHUNKS = HEAD_DIM * BYTES / 16,
    WARPS = 8,            /* that compute */
    THREADS = 128 + 32 * WARPS,
};

typedef slab_tile<OWN_ROWS, HEAD_DIM, WIDTH> own_tile; /* of K, V, dK, dV */
typedef slab_tile<TILE_M, HEAD_DIM, WIDTH> query_tile; /* of Q, dO */

/* 64 rows of a warpgroup by 128 of others, each as long as head_dim: S^T = K Q^T, dP^T = V dO^T. Begun as a group of its own. */
GLINT_DEVICE void multiply_rows(float (&s)[TILE_M / 2], uint32_t own, uint32_t others)
{
    const uint64_t a = along_columns<own_tile>(own), b = along_columns<query_tile>(others);

    wgmma_hold(s, TILE_M / 2);
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < HEAD_DIM / 16; ++kk)
        wgmma_m64n128k16_bf16<0, 0>(s, a + column_step<own_tile>(kk), b + column_step<query_tile>(kk), kk != 0);
    wgmma_commit();
}

/* d += scores of a warpgroup's rows by 128 others, times those: dV += P^T dO, dK += dS^T Q. A group of its own. */
GLINT_DEVICE void multiply_scores(float (&d)[HEAD_DIM / 2], uint32_t (&scores)[TILE_M / 4], uint32_t others)
{
    const uint64_t b = along_rows<query_tile>(others);

    wgmma_hold(d, HEAD_DIM / 2);
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < TILE_M / 16; ++kk)
        wgmma_m64n64k16_bf16_ra<1>(d, scores + 4 * kk, b + row_step<query_tile>(kk), 1);
    wgmma_commit();
}

/* Accumulators as operand A of the next product: no moves between threads. */
GLINT_DEVICE void to_operand(uint32_t (&a)[TILE_M / 4], const float (&s)[TILE_M / 2])
{
#pragma unroll
    for (int i = 0; i < TILE_M / 4; ++i)
        a[i] = pack_bf16(s[2 * i], s[2 * i + 1]);
    wgmma_hold(a, TILE_M / 4); /* left to itself the compiler packs late, and keeps twice the registers */
}

/* The thread's accumulators, rounded, to its warp's 16 rows of a tile: rows first_row + 16 warp ..., all columns from slab 0 of `at` on. */
template <class tile, int columns> GLINT_DEVICE void store_rounded(uint32_t at, uint32_t first_row, const float (&d)[columns / 2], float factor)
{
    const uint32_t thread = thread_index_anew();
    const uint32_t lane_at = at + tile_offset(first_row + thread / 32 % 4 * 16 + thread % 16, thread % 32 / 16, tile::rows, tile::chunks);

#pragma unroll
    for (int kk = 0; kk < columns / 16; ++kk) {
        uint32_t w[4];

#pragma unroll
        for (int i = 0; i < 4; ++i)
            w[i] = pack_bf16(d[8 * kk + 2 * i] * factor, d[8 * kk + 2 * i + 1] * factor);
        store_fragment<tile>(lane_at, kk, w);
    }
}

/* delta = rowsum(dO o O) and LSE in powers of two, for GLINT_GPU_ROW_PAD queries of one head; a row that sees no key, or lies past the
 * end, gets LSE = +inf, which makes its P exactly 0. Rows that see no key also get dQ = 0 here, as no key block visits them.
 * A row whose dO holds NaN or infinity has a delta that is neither finite; of a row that sees no key, neither is it when its Q does. */
GLINT_KERNEL(256, 1) glint_bwd_bf16_d64_causal__sm90a_fused_m128n128_delta(GLINT_PARAMS(struct glint_backward_params) p)
{
    enum { LANES = ROW_CHUNKS <= 8 ? 8 : ROW_CHUNKS <= 16 ? 16 : 32, ROWS = 32 / LANES }; /* lanes a row, rows a warp at a time */
    const uint32_t lane = lane_index() % LANES;
    const int32_t blocks = (p.shape.seqlen_q + GLINT_GPU_ROW_PAD - 1) / GLINT_GPU_ROW_PAD;
    const int32_t head = (int32_t)block_index() / blocks, row0 = ((int32_t)block_index() - head * blocks) * GLINT_GPU_ROW_PAD;
    const int32_t batch = head / p.shape.heads_q, head_q = head - batch * p.shape.heads_q;

    if (block_index() == 0 && thread_index() == 0)
        st_global_u32(p.turn, 0);
    if (thread_index() < GLINT_GPU_ROW_PAD / TILE_M)
        st_global_u32(p.turn + 1 + head * (p.padded_q / TILE_M) + row0 / TILE_M + thread_index(), 0);
    if (p.parts > 1) {
        const int64_t turns = (int64_t)(p.shape.batch * p.shape.heads_kv) * ((p.shape.seqlen_k + TILE_N - 1) / TILE_N) * WARPS;
        const int64_t threads = (int64_t)256 * p.shape.batch * p.shape.heads_q * blocks;

        for (int64_t i = (int64_t)block_index() * 256 + thread_index(); i < turns; i += threads)
            st_global_u32(p.key_turn + i, 0);
    }

    for (int32_t row = row0 + (int32_t)(thread_index() / LANES); row < row0 + GLINT_GPU_ROW_PAD; row += 8 * ROWS) {
        const char *o_row = view_row(&p.o, batch, head_q, row, BYTES), *dout_row = view_row(&p.dout, batch, head_q, row, BYTES);
        const int64_t place = head * p.padded_q + row;
        float sum = 0.0f, lse = GLINT_INFINITY;

        if (row < p.shape.seqlen_q) {
            lse = ld_global_f32(p.lse + (int64_t)head * p.shape.seqlen_q + row);
            lse = lse == -GLINT_INFINITY ? GLINT_INFINITY : lse * 1.44269504088896340736f;
            for (uint32_t chunk = lane; chunk < ROW_CHUNKS; chunk += LANES) {
                uint32_t o[4], dout[4];

                ld_global_u32x4(o, o_row + chunk * 16);
                ld_global_u32x4(dout, dout_row + chunk * 16);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    sum = fmaf(low_bf16(o[i]), low_bf16(dout[i]), sum);
                    sum = fmaf(high_bf16(o[i]), high_bf16(dout[i]), sum);
                }
            }
            if (lse == GLINT_INFINITY) {
                const char *q_row = view_row(&p.q, batch, head_q, row, BYTES);
                const uint32_t zero[4] = {0, 0, 0, 0};

                for (uint32_t chunk = lane; chunk < ROW_CHUNKS; chunk += LANES) {
                    uint32_t q[4];

                    ld_global_u32x4(q, q_row + chunk * 16);
                    for (int i = 0; i < 4; ++i)
                        if (finite_part(q[i], EXPONENT, BYTES) != q[i])
                            sum = GLINT_INFINITY;
                    st_global_u32x4(view_row(&p.dq, batch, head_q, row, BYTES) + chunk * 16, zero);
                }
            }
        }
#pragma unroll
        for (uint32_t mask = 1; mask < LANES; mask *= 2)
            sum += shfl_xor(sum, mask);
        if (lane == 0) {
            st_global_f32(p.lse_log2 + place, lse);
            st_global_f32(p.delta + place, lse == GLINT_INFINITY && fabsf(sum) < GLINT_INFINITY ? 0.0f : sum);
        }
    }
}

/* ---- dK and dV, and parts of dQ: a block owns TILE_N keys, a warpgroup OWN_ROWS of them ---- */

typedef slab_tile<TILE_M, TILE_N, 128> ds_tile; /* dS: queries by keys */

enum {
    STAGES = 2,                                   /* of Q and dO, dS and what leaves */
    OUT_BYTES = TILE_M * HEAD_DIM * 4, /* a step's dQ in float32; dK or dV of a block */
    K_AT = 0,
    V_AT = K_AT + TILE_N * HEAD_DIM * BYTES,
    Q_AT = V_AT + TILE_N * HEAD_DIM * BYTES,
    DO_AT = Q_AT + STAGES * query_tile::bytes,
    OUT_AT = DO_AT + STAGES * query_tile::bytes,
    DS_AT = OUT_AT + STAGES * OUT_BYTES,
    LSE_AT = DS_AT + STAGES * ds_tile::bytes,
    DELTA_AT = LSE_AT + STAGES * TILE_M * 4,
    BARRIERS_AT = DELTA_AT + STAGES * TILE_M * 4,
    /* mbarriers, by their place */
    K_FULL = 0, K_EMPTY, V_FULL, V_EMPTY, CHECKED,
    Q_FULL, Q_EMPTY = Q_FULL + STAGES, DO_FULL = Q_EMPTY + STAGES, DO_EMPTY = DO_FULL + STAGES,
    OUT_FULL = DO_EMPTY + STAGES, OUT_EMPTY = OUT_FULL + STAGES,
    DS_FULL = OUT_EMPTY + STAGES, DS_EMPTY = DS_FULL + STAGES, TURN_SEEN = DS_EMPTY + STAGES,
    NUMBER_FULL = TURN_SEEN + STAGES, NUMBER_EMPTY = NUMBER_FULL + STAGES,
    BARRIERS = NUMBER_EMPTY + STAGES,
    NUMBER_AT = BARRIERS_AT + 8 * BARRIERS, /* the block's present number and the next; whether its keys hold NaN or infinity */
    SPECIAL_AT = NUMBER_AT + 4 * STAGES,
    SHARED_BYTES = NUMBER_AT + 16,
    /* named barriers: a warpgroup's turn to multiply, two of them; both warpgroups */
    TURN_BARRIER = 1, BOTH_BARRIER = 3,
};

/* What a block does for one number: keys [key0, key0 + TILE_N) of one head, against query blocks last_m ... first_m of each query head of its
 * group. Those under first_clear do not all see all of its keys. */
struct work {
    int32_t batch, head_kv, key0, first_m, last_m, first_clear, steps;
};

GLINT_DEVICE struct work find_work(const struct glint_gpu_shape *shape, uint32_t number)
{
    const int32_t blocks = (shape->seqlen_k + TILE_N - 1) / TILE_N;
    const struct block_place place = find_place(number, (uint32_t)blocks, (uint32_t)(shape->batch * shape->heads_kv), (uint32_t)shape->section);
    struct work work;

    work.batch = place.head / shape->heads_kv;
    work.head_kv = place.head - work.batch * shape->heads_kv;
    work.key0 = place.index * TILE_N;
    work.last_m = (shape->seqlen_q + TILE_M - 1) / TILE_M - 1;
    const int32_t first = max(0, work.key0 - shape->mask_offset); /* query that sees a key */

    work.first_m = first < shape->seqlen_q ? first / TILE_M : work.last_m + 1;
    work.first_clear = work.key0 + TILE_N > shape->seqlen_k ? work.last_m + 1 : (max(0, work.key0 + TILE_N - 1 - shape->mask_offset) + TILE_M - 1) / TILE_M;
    work.steps = (work.last_m - work.first_m + 1) * shape->group;
    return work;
}

/* Where a step is: its query head and query block. Every role walks the same way. */
struct walk {
    int32_t head, m;
};

GLINT_DEVICE struct walk walk_begin(const struct work &work, int32_t group)
{
    return {work.head_kv * group, work.last_m};
}

GLINT_DEVICE void walk_on(struct walk &walk, const struct work &work)
{
    walk.head += walk.m == work.first_m;
    walk.m = walk.m == work.first_m ? work.last_m : walk.m - 1;
}

GLINT_DEVICE struct walk step_before(const struct walk &walk, const struct work &work)
{
    const bool first = walk.m == work.last_m;

    return {walk.head - first, first ? work.first_m : walk.m + 1};
}

/* The place before, in a ring of two. */
GLINT_DEVICE struct ring ring_before(const struct ring &ring)
{
    return {ring.stage ^ 1, ring.phase ^ (ring.stage == 0)};
}

/* dQ of a step from its dS and the block's K: half of the queries by all columns for each warpgroup. A group of its own. */
GLINT_DEVICE void multiply_keys(float (&dq)[32], uint32_t warpgroup, uint32_t ds, uint32_t k)
{
    const uint64_t a = along_columns<ds_tile>(ds + warpgroup * (OWN_ROWS * 128));
    const uint64_t b = along_rows<own_tile>(k);

    wgmma_hold(dq, 32);
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < TILE_N / 16; ++kk)
        wgmma_m64n64k16_bf16<0, 1>(dq, a + column_step<ds_tile>(kk), b + (uint64_t)(kk / 4 * own_tile::bytes >> 4) + row_step<own_tile>(kk % 4), kk != 0);
}

/* dS^T of this warpgroup's keys, from registers. */
GLINT_DEVICE void store_ds(uint32_t at, uint32_t warpgroup, const uint32_t (&words)[TILE_M / 4])
{
    const uint32_t lane = thread_index_anew() % 32, chunk = warpgroup * 8 + thread_index_anew() / 32 % 4 * 2 + lane / 8 % 2;
    const uint32_t lane_at = at + tile_offset(lane / 16 * 8 + lane % 8, chunk, ds_tile::rows, ds_tile::chunks);

#pragma unroll
    for (int j = 0; j < TILE_M / 16; ++j)
        stmatrix_x4_trans(tile_move(lane_at, 16 * j, 0, ds_tile::rows, ds_tile::chunks), words + 4 * j);
}

/* The last key that a step's queries see, and one. */
GLINT_DEVICE int32_t keys_seen(const struct glint_gpu_shape *shape, int32_t m)
{
    return min(shape->seqlen_k, min(shape->seqlen_q, (m + 1) * TILE_M) + shape->mask_offset);
}

GLINT_DEVICE int64_t query_blocks(const struct glint_backward_params *p, int32_t batch, int32_t head, int32_t m)
{
    return (int64_t)(batch * p->shape.heads_q + head) * (p->padded_q / TILE_M) + m;
}

/* NaN and infinities of dO go to the dV of keys that their query sees, and then leave the tile. Those of Q only leave: their rows' LSE,
 * and so P and dS, are not finite either. Both warpgroups come here, or none. */
GLINT_DEVICE void settle_queries(float (&dv)[HEAD_DIM / 2], uint32_t q, uint32_t dout, const struct sight &sight)
{
    const uint32_t thread = thread_index_anew() - 128;
    const int32_t column = 2 * (int32_t)(thread % 4);

    named_sync(BOTH_BARRIER, 32 * WARPS);
#pragma unroll 1
    for (int32_t query = 0; query < TILE_M; ++query)
        add_special_row<query_tile, HEAD_DIM>(dv, dout, (uint32_t)query, 0, 1.0f, EXPONENT,
                                              [&](int side) { return query - column >= sight.first[side] && query - column < sight.end; });
    named_sync(BOTH_BARRIER, 32 * WARPS);
    remove_special(q, query_tile::bytes, thread, 32 * WARPS, EXPONENT);
    remove_special(dout, query_tile::bytes, thread, 32 * WARPS, EXPONENT);
    fence_async_shared();
    named_sync(BOTH_BARRIER, 32 * WARPS);
}

/* The block's K or V. */
GLINT_DEVICE void load_own(uint32_t to, const struct tensor_map *map, const struct work &work, uint32_t full, uint32_t empty, uint32_t phase)
{
    mbarrier_wait(empty, phase ^ 1);
    mbarrier_arrive_expect(full, 2 * own_tile::bytes);
    for (uint32_t half = 0; half < 2; ++half)
        load_tile<own_tile>(to + half * own_tile::bytes, map, work.key0 + half * OWN_ROWS, work.head_kv, work.batch, full, GLINT_L2_EVICT_FIRST);
}

/* Two warps load for the block, a thread each: K and Q with LSE, V and dO with delta. The first one takes numbers as the block gets to them, so a
 * block waits only for such as are worked on or done, and passes them on to all other roles. */
GLINT_DEVICE void load_keys(const struct glint_backward_maps_params &p, uint32_t shared, uint32_t barriers)
{
    const struct glint_gpu_shape *shape = &p.base.shape;
    const uint32_t total = (uint32_t)(shape->batch * shape->heads_kv) * (uint32_t)((shape->seqlen_k + TILE_N - 1) / TILE_N);
    struct ring queries = {0, 0};

    for (uint32_t turn = 0;; ++turn) {
        /* Without queries no kernel has cleared the counter; nor does any block wait for another. */
        const uint32_t number = shape->seqlen_q > 0 ? atom_global_add_u32(p.base.turn, 1) : block_index() + turn * p.blocks[1];

        mbarrier_wait(barriers + 8 * (NUMBER_EMPTY + turn % 2), turn / 2 % 2 ^ 1);
        st_shared_u32(shared + NUMBER_AT + 4 * (turn % 2), number < total ? number : (uint32_t)NO_WORK);
        mbarrier_arrive(barriers + 8 * (NUMBER_FULL + turn % 2));
        if (number >= total)
            return;
        const struct work work = find_work(shape, number);
        struct walk walk = walk_begin(work, shape->group);
        const float *rows = p.base.lse_log2 + (work.batch * shape->heads_q + walk.head) * p.base.padded_q; /* of the head */

        bool first = true;

        for (int32_t left = work.steps; left > 0; --left, rows += walk.m == work.first_m ? p.base.padded_q : 0, walk_on(walk, work), ring_advance<STAGES>(queries)) {
            const uint32_t full = barriers + 8 * (Q_FULL + queries.stage);

            mbarrier_wait(barriers + 8 * (Q_EMPTY + queries.stage), queries.phase ^ 1);
            mbarrier_arrive_expect(full, query_tile::bytes + TILE_M * 4);
            load_tile<query_tile>(shared + Q_AT + queries.stage * query_tile::bytes, &p.map[MAP_Q], walk.m * TILE_M, walk.head, work.batch, full, GLINT_L2_EVICT_LAST);
            bulk_load(shared + LSE_AT + queries.stage * (TILE_M * 4),
                      rows + walk.m * TILE_M, TILE_M * 4, full);
            if (first)
                load_own(shared + K_AT, &p.map[MAP_K], work, barriers + 8 * K_FULL, barriers + 8 * K_EMPTY, turn % 2);
            first = false;
        }
        if (first) {
            mbarrier_wait(barriers + 8 * K_EMPTY, turn % 2 ^ 1);
            mbarrier_arrive(barriers + 8 * K_FULL);
        }
    }
}

/* All lanes come here. They also look for NaN and infinity in K, which must not meet a dS of zero where the mask hides them. */
GLINT_DEVICE void load_values(const struct glint_backward_maps_params &p, uint32_t shared, uint32_t barriers)
{
    const struct glint_gpu_shape *shape = &p.base.shape;
    struct ring queries = {0, 0};

    for (uint32_t turn = 0;; ++turn) {
        mbarrier_wait(barriers + 8 * (NUMBER_FULL + turn % 2), turn / 2 % 2);
        const uint32_t number = ld_shared_u32(shared + NUMBER_AT + 4 * (turn % 2));

        if (number == (uint32_t)NO_WORK)
            return;
        const struct work work = find_work(shape, number);
        struct walk walk = walk_begin(work, shape->group);
        const float *rows = p.base.delta + (work.batch * shape->heads_q + walk.head) * p.base.padded_q; /* of the head */

        warp_sync();
        if (lane_index() == 0)
            mbarrier_arrive(barriers + 8 * (NUMBER_EMPTY + turn % 2));
        for (int32_t step = 0; step < work.steps; ++step, rows += walk.m == work.first_m ? p.base.padded_q : 0, walk_on(walk, work), ring_advance<STAGES>(queries)) {
            const uint32_t full = barriers + 8 * (DO_FULL + queries.stage);

            if (lane_index() == 0) {
                mbarrier_wait(barriers + 8 * (DO_EMPTY + queries.stage), queries.phase ^ 1);
                mbarrier_arrive_expect(full, query_tile::bytes + TILE_M * 4);
                load_tile<query_tile>(shared + DO_AT + queries.stage * query_tile::bytes, &p.map[MAP_DOUT], walk.m * TILE_M, walk.head, work.batch, full, GLINT_L2_EVICT_LAST);
                bulk_load(shared + DELTA_AT + queries.stage * (TILE_M * 4),
                          rows + walk.m * TILE_M, TILE_M * 4, full);
                if (step == 0)
                    load_own(shared + V_AT, &p.map[MAP_V], work, barriers + 8 * V_FULL, barriers + 8 * V_EMPTY, turn % 2);
            }
            if (step == (work.steps > 1)) {
                bool special = false;

                mbarrier_wait(barriers + 8 * K_FULL, turn % 2);
                if (work.first_m < work.first_clear)
                    special = warp_any(sees_special(shared + K_AT, 2 * own_tile::bytes, lane_index(), 32, EXPONENT));
                warp_sync();
                if (lane_index() == 0) {
                    st_shared_u32(shared + SPECIAL_AT, special);
                    mbarrier_arrive(barriers + 8 * CHECKED);
                    mbarrier_arrive(barriers + 8 * K_EMPTY);
                }
            }
        }
        if (work.steps == 0 && lane_index() == 0) {
            mbarrier_wait(barriers + 8 * V_EMPTY, turn % 2 ^ 1);
            mbarrier_arrive(barriers + 8 * V_FULL);
            mbarrier_wait(barriers + 8 * K_FULL, turn % 2); /* not before the turn has come */
            mbarrier_arrive(barriers + 8 * CHECKED);
            mbarrier_arrive(barriers + 8 * K_EMPTY);
        }
    }
}

/* Takes to memory what the warpgroups leave in the stages of OUT: each step's dQ, then dV and dK. One thread for each stage, so that the next
 * dQ is on its way while this one waits for its turn. */
GLINT_DEVICE void store(const struct glint_backward_maps_params &p, uint32_t shared, uint32_t barriers, const uint32_t stage)
{
    const uint32_t out = shared + OUT_AT + stage * OUT_BYTES, full = barriers + 8 * (OUT_FULL + stage), empty = barriers + 8 * (OUT_EMPTY + stage);
    uint32_t next = 0, phase = 0; /* stage of what leaves next; of this one */

    for (uint32_t turn = 0;; ++turn) {
        mbarrier_wait(barriers + 8 * (NUMBER_FULL + turn % 2), turn / 2 % 2);
        const uint32_t number = ld_shared_u32(shared + NUMBER_AT + 4 * (turn % 2));

        if (number == (uint32_t)NO_WORK)
            break;
        mbarrier_arrive(barriers + 8 * (NUMBER_EMPTY + turn % 2));
        const struct work work = find_work(&p.base.shape, number);
        struct walk walk = walk_begin(work, p.base.shape.group);

        for (int32_t step = 0; step < work.steps; ++step, walk_on(walk, work), next ^= 1) {
            if (next != stage)
                continue;
            const int64_t block = query_blocks(&p.base, work.batch, walk.head, walk.m);
            uint32_t *const keys_added = p.base.turn + 1 + block;
            float *const sum = p.base.dq_sum + block * (TILE_M * HEAD_DIM);
            const bool last = work.key0 + TILE_N >= keys_seen(&p.base.shape, walk.m);

            /* The first block stores its part, others add to it, and the last one adds the sum to its own, in registers, and rounds. */
            if (last && work.key0 > 0) {
                turn_wait(keys_added, (uint32_t)work.key0);
                mbarrier_arrive(barriers + 8 * (TURN_SEEN + stage));
            }
            mbarrier_wait(full, phase);
            phase ^= 1;
            if (last)
                store_tile<query_tile>(&p.map[MAP_DQ], walk.m * TILE_M, walk.head, work.batch, out);
            else if (work.key0 == 0)
                bulk_store(sum, out, OUT_BYTES);
            else {
                turn_wait(keys_added, (uint32_t)work.key0);
                bulk_reduce_add_f32(sum, out, OUT_BYTES);
            }
            bulk_commit();
            bulk_wait_read<0>();
            mbarrier_arrive(empty);
            if (!last)
                turn_pass(keys_added, (uint32_t)(work.key0 + TILE_N));
        }
        for (int which = 0; which < 2; ++which, next ^= 1) {
            if (next != stage)
                continue;
            mbarrier_wait(full, phase);
            phase ^= 1;
            for (uint32_t half = 0; half < 2; ++half)
                store_tile<own_tile>(which == 0 ? &p.map[MAP_DV] : &p.map[MAP_DK], work.key0 + half * OWN_ROWS, work.head_kv, work.batch, out + half * own_tile::bytes);
            bulk_commit();
            bulk_wait_read<0>();
            mbarrier_arrive(empty);
        }
    }
    bulk_wait<0>();
}

/* LSE or delta of the thread's queries: columns 8 j and 8 j + 1 from its own on. */
GLINT_DEVICE void load_pairs(float (&rows)[TILE_M / 8][2], uint32_t at)
{
#pragma unroll
    for (int j = 0; j < TILE_M / 8; ++j)
        ld_shared_f32x2(rows[j], at + 32 * j);
}

/* The first of this thread's two rows among the warpgroups' 128. */
GLINT_DEVICE uint32_t own_row(void)
{
    const uint32_t thread = thread_index_anew() - 128;

    return thread / 32 * 16 + thread % 32 / 4;
}

GLINT_KERNEL(THREADS, 1) glint_bwd_bf16_d64_causal__sm90a_fused_m128n128(GLINT_PARAMS(struct glint_backward_maps_params) p)
{
    const uint32_t shared = shared_base(), barriers = shared + BARRIERS_AT, warp = warp_index(), lane = lane_index();

    if (thread_index() == 0) {
        mbarrier_init(barriers + 8 * K_FULL, 1);
        mbarrier_init(barriers + 8 * K_EMPTY, WARPS + 1);
        mbarrier_init(barriers + 8 * V_FULL, 1);
        mbarrier_init(barriers + 8 * V_EMPTY, WARPS);
        mbarrier_init(barriers + 8 * CHECKED, 1);
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(barriers + 8 * (NUMBER_FULL + i), 1);
            mbarrier_init(barriers + 8 * (NUMBER_EMPTY + i), WARPS + 3);
            mbarrier_init(barriers + 8 * (Q_FULL + i), 1);
            mbarrier_init(barriers + 8 * (Q_EMPTY + i), WARPS);
            mbarrier_init(barriers + 8 * (DO_FULL + i), 1);
            mbarrier_init(barriers + 8 * (DO_EMPTY + i), WARPS);
            mbarrier_init(barriers + 8 * (OUT_FULL + i), WARPS);
            mbarrier_init(barriers + 8 * (OUT_EMPTY + i), 1);
            mbarrier_init(barriers + 8 * (DS_FULL + i), WARPS);
            mbarrier_init(barriers + 8 * (DS_EMPTY + i), WARPS);
            mbarrier_init(barriers + 8 * (TURN_SEEN + i), 1);
        }
        fence_mbarrier_init();
    }
    block_sync();

    if (warp < 4) {
        registers_give<40>();
        if (warp == 0 && lane == 0)
            load_keys(p, shared, barriers);
        if (warp == 1)
            load_values(p, shared, barriers);
        if (warp >= 2 && lane == 0)
            store(p, shared, barriers, warp - 2);
        return;
    }
    registers_take<232>();

    const uint32_t warpgroup = warp / 4 - 1, own = warpgroup * own_tile::bytes;
    const struct glint_gpu_shape *shape = &p.base.shape;
    const int32_t offset = shape->mask_offset;
    auto arrive = [&](int barrier) { /* this warp, all lanes of which are done */
        warp_sync();
        if (lane == 0)
            mbarrier_arrive(barriers + 8 * barrier);
    };
    float dk[HEAD_DIM / 2], dv[HEAD_DIM / 2];
    struct ring queries = {0, 0}, out = {0, 0};
    uint32_t seen = 0; /* a bit a stage: the phase of its TURN_SEEN */

    if (warpgroup == 1)
        named_arrive(TURN_BARRIER, 32 * WARPS);
    for (uint32_t turn = 0;; ++turn) {
        mbarrier_wait(barriers + 8 * (NUMBER_FULL + turn % 2), turn / 2 % 2);
        const uint32_t number = ld_shared_u32(shared + NUMBER_AT + 4 * (turn % 2));

        if (number == (uint32_t)NO_WORK)
            return;
        arrive(NUMBER_EMPTY + (int)(turn % 2));
        const struct work work = find_work(shape, number);
        struct walk walk = walk_begin(work, shape->group);

#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; ++i)
            dk[i] = dv[i] = 0.0f;
        float dq[32];

        /* dQ of the step before: from registers to a stage of OUT. */
        auto leave_dq = [&]() {
            const struct walk before = step_before(walk, work);
            const bool last = work.key0 + TILE_N >= keys_seen(shape, before.m);
            const uint32_t at = shared + OUT_AT + out.stage * OUT_BYTES;

            mbarrier_wait(barriers + 8 * (OUT_EMPTY + out.stage), out.phase ^ 1);
            if (!last) {
#pragma unroll
                for (int i = 0; i < 8; ++i)
                    st_shared_floats(at + warpgroup * (OUT_BYTES / 2) + (i * 128 + thread_index_anew() % 128) * 16, dq + 4 * i);
            } else {
                if (work.key0 > 0) {
                    const float *sum = p.base.dq_sum + query_blocks(&p.base, work.batch, before.head, before.m) * (TILE_M * HEAD_DIM) +
                                       warpgroup * (OUT_BYTES / 8) + thread_index_anew() % 128 * 4;
                    float others[8][4];

                    mbarrier_wait(barriers + 8 * (TURN_SEEN + out.stage), seen >> out.stage & 1);
                    seen ^= 1u << out.stage;
#pragma unroll
                    for (int i = 0; i < 8; ++i)
                        ld_four(others[i], sum + i * 512, 128);
#pragma unroll
                    for (int i = 0; i < 32; ++i)
                        dq[i] += others[i / 4][i % 4];
                }
                store_rounded<query_tile, 64>(at, warpgroup * OWN_ROWS, dq, shape->softmax_scale);
            }
            fence_async_shared();
            arrive(OUT_FULL + (int)out.stage);
            ring_advance<STAGES>(out);
        };
        /* Where the mask hides keys of the step before that hold NaN or infinity, these leave K for the while of its dQ. Queries that see such a key
         * get NaN: S is infinite or NaN there, so P and dS are 0 or NaN. */
        auto careful_before = [&]() {
            if (step_before(walk, work).m >= work.first_clear)
                return false;
            mbarrier_wait(barriers + 8 * CHECKED, turn % 2);
            return ld_shared_u32(shared + SPECIAL_AT) != 0;
        };
        auto take_special = [&]() {
            named_sync(BOTH_BARRIER, 32 * WARPS);
            remove_special(shared + K_AT, 2 * own_tile::bytes, thread_index_anew() - 128, 32 * WARPS, EXPONENT);
            fence_async_shared();
            named_sync(BOTH_BARRIER, 32 * WARPS);
        };
        auto bring_special = [&]() {
            const uint32_t thread = thread_index_anew() - 128, row = thread % 128 / 32 * 16 + thread % 32 / 4;
            const int32_t query = step_before(walk, work).m * TILE_M + (int32_t)(warpgroup * OWN_ROWS + row);

            named_sync(BOTH_BARRIER, 32 * WARPS);
            reload_tile<own_tile>(shared + K_AT, &p.base.k, work.batch, work.head_kv, work.key0, shape->seqlen_k, 2, thread, 32 * WARPS);
            fence_async_shared();
            named_sync(BOTH_BARRIER, 32 * WARPS);
#pragma unroll 1
            for (uint32_t i = 0; i < TILE_N; ++i)
                add_special_row<own_tile, 64>(dq, shared + K_AT + i / OWN_ROWS * own_tile::bytes, i % OWN_ROWS, 0, 0.0f, EXPONENT,
                                              [&](int side) { return work.key0 + (int32_t)i <= query + 8 * side + offset; });
        };
        mbarrier_wait(barriers + 8 * K_FULL, turn % 2);
        mbarrier_wait(barriers + 8 * V_FULL, turn % 2);
#pragma unroll 1
        for (int32_t step = 0; step < work.steps; ++step) {
            const bool masked = walk.m < work.first_clear;
            const uint32_t q = shared + Q_AT + queries.stage * query_tile::bytes, dout = shared + DO_AT + queries.stage * query_tile::bytes;
            const uint32_t lse = shared + LSE_AT + queries.stage * (TILE_M * 4), delta = shared + DELTA_AT + queries.stage * (TILE_M * 4);
            const uint32_t column = lane % 4 * 8;
            float s[TILE_M / 2], dp[TILE_M / 2], rows[TILE_M / 8][2];
            uint32_t p_words[TILE_M / 4], ds_words[TILE_M / 4];

            /* S^T = K Q^T, dP^T = V dO^T */
            mbarrier_wait(barriers + 8 * (Q_FULL + queries.stage), queries.phase);
            multiply_rows(s, shared + K_AT + own, q);
            mbarrier_wait(barriers + 8 * (DO_FULL + queries.stage), queries.phase);
            multiply_rows(dp, shared + V_AT + own, dout);

            /* P^T = 2^(scale S^T - LSE); each query, a column, has an LSE and a delta. */
            wgmma_wait<1>();
            wgmma_hold(s, TILE_M / 2);
            load_pairs(rows, lse + column);
#pragma unroll
            for (int i = 0; i < TILE_M / 2; ++i)
                s[i] = ex2(fmaf(s[i], shape->scale_log2, -rows[i / 4][i % 2]));
            struct sight sight;
            if (masked) {
                sight = sight_of_keys(work.key0 + (int32_t)own_row(), walk.m * TILE_M, offset, shape->seqlen_q, shape->seqlen_k);
                hide_queries<TILE_M>(s, sight);
            }
            to_operand(p_words, s);

            /* dS^T = P^T (dP^T - delta): zero where P is, even if dP is no number */
            wgmma_wait<0>();
            wgmma_hold(dp, TILE_M / 2);
            load_pairs(rows, delta + column);
#pragma unroll
            for (int i = 0; i < TILE_M / 2; ++i)
                dp[i] = s[i] * (dp[i] - rows[i / 4][i % 2]);
            if (masked)
                hide_queries<TILE_M>(dp, sight);
            to_operand(ds_words, dp);
            if (masked && queries_special<TILE_M>(lse, delta))
                settle_queries(dv, q, dout, sight);
            mbarrier_wait(barriers + 8 * (DS_EMPTY + queries.stage), queries.phase ^ 1);
            store_ds(shared + DS_AT + queries.stage * ds_tile::bytes, warpgroup, ds_words);
            fence_async_shared();
            arrive(DS_FULL + (int)queries.stage);

            /* In the first step, where there is none before, this one's dS stands for it and the product is thrown away: a product that is not
             * always made is one that ptxas does not overlap with others. */
            const struct ring stage_before = step == 0 ? queries : ring_before(queries);
            const uint32_t ds_before = shared + DS_AT + stage_before.stage * ds_tile::bytes;
            mbarrier_wait(barriers + 8 * (DS_FULL + stage_before.stage), stage_before.phase);
            const bool careful = step > 0 && careful_before();

            if (careful)
                take_special();

            /* dV += P^T dO, dQ of the step before, dK += dS^T Q: one warpgroup at a time, so that the other one is at its exponentials. */
            named_sync(TURN_BARRIER + warpgroup, 32 * WARPS);
            multiply_scores(dv, p_words, dout);
            multiply_keys(dq, warpgroup, ds_before, shared + K_AT);
            wgmma_commit();
            wgmma_wait<1>();
            wgmma_hold(dv, HEAD_DIM / 2);
            arrive(DO_EMPTY + (int)queries.stage);
            multiply_scores(dk, ds_words, q);
            named_arrive(TURN_BARRIER + (warpgroup ^ 1), 32 * WARPS);
            wgmma_wait<1>();
            if (step > 0) {
                arrive(DS_EMPTY + (int)stage_before.stage);
                wgmma_hold(dq, 32);
                if (careful)
                    bring_special();
                leave_dq();
            }
            wgmma_wait<0>();
            wgmma_hold(dk, HEAD_DIM / 2);
            arrive(Q_EMPTY + (int)queries.stage);
            walk_on(walk, work);
            ring_advance<STAGES>(queries);
        }
        arrive(V_EMPTY);
        if (work.steps > 0) {
            const struct ring stage_before = ring_before(queries);
            const uint32_t ds_before = shared + DS_AT + stage_before.stage * ds_tile::bytes;

            mbarrier_wait(barriers + 8 * (DS_FULL + stage_before.stage), stage_before.phase);
            const bool careful = careful_before();

            if (careful)
                take_special();
            multiply_keys(dq, warpgroup, ds_before, shared + K_AT);
            wgmma_commit();
            wgmma_wait<0>();
            wgmma_hold(dq, 32);
            arrive(DS_EMPTY + (int)stage_before.stage);
            if (careful)
                bring_special();
        }
        arrive(K_EMPTY);
        if (work.steps > 0)
            leave_dq();

        /* dV and dK leave as dQ did. */
        auto leave = [&](const float (&d)[HEAD_DIM / 2], float factor) {
            mbarrier_wait(barriers + 8 * (OUT_EMPTY + out.stage), out.phase ^ 1);
            store_rounded<own_tile, HEAD_DIM>(shared + OUT_AT + out.stage * OUT_BYTES + own, 0, d, factor);
            fence_async_shared();
            arrive(OUT_FULL + (int)out.stage);
            ring_advance<STAGES>(out);
        };
        leave(dv, 1.0f);
        leave(dk, shape->softmax_scale);
    }
}
