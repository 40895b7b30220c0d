/* Steps of the backward pass: transposed scores (keys by queries) between the warps of a block, products with them, and
 * sums of several blocks in memory. */
#ifndef GLINT_DEVICE_GRADIENTS_H
#define GLINT_DEVICE_GRADIENTS_H

#include "lib/device/bias.h"
#include "lib/device/fragment.h"
#include "lib/device/intervals.h"
#include "lib/device/mask.h"
#include "lib/device/score.h"
#include "lib/device/sequences.h"

/* ---- steps over the queries -------------------------------------------------------------------------------------- */

/* Begins the part of `thread` of THREADS in the copy of block m of the queries of a head, their Q, dO, LSE and delta,
 * into a stage. `kept` is the place's, or shared memory in which it waits. */
template <class Rows, class Q, int THREADS>
GLINT_DEVICE void copy_queries(uint32_t thread, const struct glint_gpu_call &p, const struct place &work, uint32_t kept,
                               int32_t head_q, int32_t m, uint32_t stage, uint32_t q_tiles, uint32_t do_tiles, uint32_t rows_lse,
                               uint32_t rows_delta)
{
    enum { TILE_M = Q::ROWS, ROW_BYTES = TILE_M * 4 };
    const struct place &at = Rows::place_again(work, kept);
    const int32_t first = at.first_q + m * TILE_M, end = at.first_q + at.own.seqlen_q;
    const int64_t row = (int64_t)(at.batch * p.shape.heads_q + head_q) * p.padded_q + Rows::padded_first_of(kept) + m * TILE_M;

    copy_tile_by<Q, THREADS>(thread, q_tiles + stage * Q::BYTES, p.q, at.batch, head_q, first, end);
    copy_tile_by<Q, THREADS>(thread, do_tiles + stage * Q::BYTES, p.dout, at.batch, head_q, first, end);
    if (thread < ROW_BYTES / 16) {
        cp_async_16(rows_lse + stage * ROW_BYTES + thread * 16, p.lse_log2 + row + thread * 4, true);
        cp_async_16(rows_delta + stage * ROW_BYTES + thread * 16, p.delta + row + thread * 4, true);
    }
}

/* COUNT barriers through which warps pass P^T on, each for one warp's lanes. */
template <int COUNT> GLINT_DEVICE void init_phases(uint32_t phases)
{
    if (thread_index() == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            mbarrier_init(phases + i * 8, 32);
    }
}

/* ---- scores in shared memory: P^T and dS^T, keys by the queries of a step, in a tile of one page ----------------- */

/* Numbers of 32 bits have their chunks permuted in another way: by twos, so that neither fragments, which are stored 8
 * bytes a lane by four neighbouring rows at a time, nor load_scores, by four even or four odd rows, have two lanes at
 * one bank. */
GLINT_DEVICE uint32_t scores_offset(uint32_t row, uint32_t chunk, const uint32_t page_chunks)
{
    return page_chunks == 8 ? row * 128 + ((chunk ^ (row & 6) ^ (row & 1) << 2) << 4) : tile_offset(row, chunk, 0, page_chunks);
}

/* Where a lane's first accumulators lie. */
GLINT_DEVICE uint32_t lane_offset_put(uint32_t lane, const uint32_t page_chunks)
{
    return scores_offset(lane >> 2, lane >> 1 & 1, page_chunks) + (lane & 1) * 8;
}

template <class S, int ROWS, int COLUMNS> GLINT_DEVICE void put_scores(const float (&s)[ROWS][COLUMNS][4], uint32_t lane_address)
{
    unrolled<COLUMNS, ROWS, 2>([&](int mt, int kt, int side) {
        st_shared_pair<typename S::element>(tile_move<S>(lane_address, kt * 16 + 8 * side, mt * S::element::FRAGMENT_CHUNKS),
                                            s[kt][mt][2 * side], s[kt][mt][2 * side + 1]);
    });
}

/* s times what put_scores left there. Of 16 bits all are loaded first: they wait for nothing. */
template <class S, int ROWS, int COLUMNS> GLINT_DEVICE void times_scores(float (&s)[ROWS][COLUMNS][4], uint32_t lane_address)
{
    typedef typename S::element element;

    if constexpr (element::BYTES == 4) {
        unrolled<COLUMNS, ROWS, 2>([&](int mt, int kt, int side) {
            float p[2];

            ld_shared_f32x2(p, tile_move<S>(lane_address, kt * 16 + 8 * side, mt * element::FRAGMENT_CHUNKS));
            s[kt][mt][2 * side] *= p[0];
            s[kt][mt][2 * side + 1] *= p[1];
        });
    } else {
        uint32_t p[COLUMNS][ROWS][2];

        unrolled<COLUMNS, ROWS, 2>(
            [&](int mt, int kt, int side) { p[mt][kt][side] = ld_shared_u32(tile_move<S>(lane_address, kt * 16 + 8 * side, mt)); });
        unrolled<COLUMNS, ROWS, 2>([&](int mt, int kt, int side) {
            s[kt][mt][2 * side] *= element::low(p[mt][kt][side]);
            s[kt][mt][2 * side + 1] *= element::high(p[mt][kt][side]);
        });
    }
}

/* Scores as operand A of dQ = dS K: the keys are the contraction. For 32 bits, 8 rows of the tile are the 8 k, as in
 * load_rows, and row g + 8 side of the operand is query 2g + side, so that numbers of two rows are neighbours; for 16
 * bits it is query g + 8 side. Where a lane begins, for 32 bits: */
GLINT_DEVICE uint32_t lane_offset_scores(uint32_t lane, uint32_t chunk, const uint32_t page_chunks)
{
    return scores_offset(2 * (lane & 3), chunk + (lane >> 3), page_chunks) + (lane >> 2 & 1) * 8;
}

template <class S> GLINT_DEVICE void load_queries(uint32_t a[4], uint32_t lane_address, const int kk, const int rt)
{
    if constexpr (S::element::BYTES == 4) {
        float even[2], odd[2];

        ld_shared_f32x2(even, tile_move(lane_address, kk * 8, rt * 4, 0, S::PAGE_CHUNKS));
        ld_shared_f32x2(odd, tile_move(lane_address ^ (S::PAGE_CHUNKS == 8 ? 64 : 0), kk * 8 + 1, rt * 4, 0, S::PAGE_CHUNKS));
        a[0] = bits_of(even[0]), a[1] = bits_of(even[1]), a[2] = bits_of(odd[0]), a[3] = bits_of(odd[1]);
    } else
        ldmatrix_x4_trans(a, tile_move<S>(lane_address, kk * 16, rt * 2));
}

/* The query of such an operand's row, counted from its first one. */
template <class Element> GLINT_DEVICE int32_t query_of_row(int32_t row)
{
    return Element::BYTES == 4 ? row / 16 * 16 + row % 8 * 2 + row / 8 % 2 : row;
}

/* ---- P and dS, of keys by queries: each query, a column, has an LSE or a delta ----------------------------------- */

/* LSE or delta of a lane's columns, from its address on. */
template <int COLUMNS> GLINT_DEVICE void load_columns(float (&rows)[COLUMNS][2], uint32_t lane_address)
{
#pragma unroll
    for (int mt = 0; mt < COLUMNS; ++mt)
        ld_shared_f32x2(rows[mt], lane_address + mt * 32);
}

/* P^T = 2^(scale S^T + bias - LSE), in place. Bias: a tile of bias.h. */
template <int ROWS, int COLUMNS, class Bias>
GLINT_DEVICE void make_weights(float (&s)[ROWS][COLUMNS][4], const float (&lse)[COLUMNS][2], const struct glint_gpu_shape &shape,
                               const Bias &bias)
{
    unrolled<COLUMNS, ROWS, 4>([&](int mt, int kt, int e) {
        s[kt][mt][e] = ex2(exponent_of(s[kt][mt][e], shape, lse[mt][e & 1], bias, mt * 8 + (e & 1), kt * 16 + (e >> 1) * 8));
    });
}

/* P^T of capped scores, in place. P^T times their slope goes to shared memory, from a lane's address on, and dS^T =
 * (dP^T - delta) times that. What the mask hides is in it, too: whoever takes it hides the product. One number is made
 * at a time, as P and P times the slope together took 32 registers. */
template <class S, int ROWS, int COLUMNS, class Bias>
GLINT_DEVICE void make_capped_weights(float (&s)[ROWS][COLUMNS][4], const float (&lse)[COLUMNS][2],
                                      const struct glint_gpu_shape &shape, const struct capped_score &cap, const Bias &bias,
                                      uint32_t lane_address)
{
    unrolled<COLUMNS, ROWS, 2>([&](int mt, int kt, int side) {
        float sloped[2];

#pragma unroll
        for (int e = 0; e < 2; ++e) {
            float &x = s[kt][mt][2 * side + e];
            const float slope = cap_slope(x, cap);

            x = ex2(capped_exponent_of(x, shape, lse[mt][e], bias, mt * 8 + e, kt * 16 + side * 8));
            sloped[e] = x * slope;
        }
        st_shared_pair<typename S::element>(tile_move<S>(lane_address, kt * 16 + 8 * side, mt * S::element::FRAGMENT_CHUNKS),
                                            sloped[0], sloped[1]);
    });
}

/* dP^T - delta, in place. */
template <int ROWS, int COLUMNS> GLINT_DEVICE void subtract_delta(float (&dp)[ROWS][COLUMNS][4], const float (&delta)[COLUMNS][2])
{
    unrolled<COLUMNS, ROWS, 4>([&](int mt, int kt, int e) { dp[kt][mt][e] -= delta[mt][e & 1]; });
}

/* ---- P and dS, of queries by keys -------------------------------------------------------------------------------- */

/* LSE and delta of a lane's queries, from query `first` of a head on. */
template <int ROWS>
GLINT_DEVICE void load_rows_lse(float (&lse)[ROWS][2], float (&delta)[ROWS][2], const struct glint_gpu_call &p, int32_t head,
                                int32_t first, uint32_t lane)
{
#pragma unroll
    for (int rt = 0; rt < ROWS; ++rt)
#pragma unroll
        for (int side = 0; side < 2; ++side) {
            const int64_t row = head * p.padded_q + first + rt * 16 + side * 8 + (int32_t)(lane >> 2);

            lse[rt][side] = ld_global_f32(p.lse_log2 + row);
            delta[rt][side] = ld_global_f32(p.delta + row);
        }
}

/* P = 2^(scale S + bias - LSE) and dS = P (dP - delta), in the place of S. Bias: a tile of bias.h. */
template <int ROWS, int COLUMNS, class Bias>
GLINT_DEVICE void make_scores_gradient(float (&s)[ROWS][COLUMNS][4], const float (&dp)[ROWS][COLUMNS][4],
                                       const float (&lse)[ROWS][2], const float (&delta)[ROWS][2],
                                       const struct glint_gpu_shape &shape, const struct plain_score &, const Bias &bias)
{
    unrolled<ROWS, COLUMNS, 4>([&](int rt, int nt, int e) {
        s[rt][nt][e] = ex2(exponent_of(s[rt][nt][e], shape, lse[rt][e >> 1], bias, rt * 16 + (e >> 1) * 8, nt * 8 + (e & 1))) *
                       (dp[rt][nt][e] - delta[rt][e >> 1]);
    });
}

/* P = 2^(scale S + bias - LSE) and dS = P (dP - delta) dS' / dS, in the place of capped scores. */
template <int ROWS, int COLUMNS, class Bias>
GLINT_DEVICE void make_scores_gradient(float (&s)[ROWS][COLUMNS][4], const float (&dp)[ROWS][COLUMNS][4],
                                       const float (&lse)[ROWS][2], const float (&delta)[ROWS][2],
                                       const struct glint_gpu_shape &shape, const struct capped_score &cap, const Bias &bias)
{
    unrolled<ROWS, COLUMNS, 4>([&](int rt, int nt, int e) {
        const float slope = cap_slope(s[rt][nt][e], cap);

        s[rt][nt][e] =
            ex2(capped_exponent_of(s[rt][nt][e], shape, lse[rt][e >> 1], bias, rt * 16 + (e >> 1) * 8, nt * 8 + (e & 1))) * slope *
            (dp[rt][nt][e] - delta[rt][e >> 1]);
    });
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* d += s z over all columns of s, which are rounded. */
template <class Z, int ROWS, int COLUMNS, int SUMMED>
GLINT_DEVICE void add_products(float (&d)[ROWS][COLUMNS][4], const float (&s)[ROWS][SUMMED][4], uint32_t z_lane)
{
    typedef typename Z::element element;
    const int STEPS = SUMMED * 8 / (int)element::K_STEP;
    uint32_t a[STEPS][ROWS][4];

    to_operands<element>(a, s);
#pragma unroll
    for (int kk = 0; kk < STEPS; ++kk)
        multiply_step<Z>(d, a[kk], z_lane, kk);
}

/* d += s z, s from a tile where two warps have put it. */
template <class S, class Z, int ROWS, int COLUMNS>
GLINT_DEVICE void add_products_of(float (&d)[ROWS][COLUMNS][4], uint32_t s_lane, uint32_t z_lane)
{
#pragma unroll
    for (int kk = 0; kk < (int)S::DIM / (int)S::element::K_STEP; ++kk) {
        uint32_t a[ROWS][4];

#pragma unroll
        for (int kt = 0; kt < ROWS; ++kt)
            ldmatrix_x4(a[kt], tile_move<S>(s_lane, kt * 16, kk * 2));
        multiply_step<Z>(d, a, z_lane, kk);
    }
}

/* ---- NaN and infinity -------------------------------------------------------------------------------------------- */

/* Whether LSE or delta of four queries say that their Q or dO holds any. LSE = +inf is a query that sees nothing, or
 * none of whose keys has a weight. */
GLINT_DEVICE bool are_special(uint32_t lse, uint32_t delta)
{
    uint32_t l[4], d[4];
    bool found = false;

    ld_shared_u32x4(l, lse);
    ld_shared_u32x4(d, delta);
#pragma unroll
    for (int i = 0; i < 4; ++i)
        found |= (l[i] & 0x7fffffffu) > 0x7f800000u || (d[i] & 0x7f800000u) == 0x7f800000u || d[i] == GLINT_DELTA_OF_SPECIAL;
    return found;
}

/* NaN and infinities of dO go to the dV of keys that their query sees, and those of Q to the dK of these keys, 0 times
 * them, which is NaN: such a query's dS is 0, or not finite either. Then they leave the tiles. Where scores are capped,
 * infinities of Q leave LSE, P and delta finite: that the tile has any, the caller has found by itself; and as scores
 * are yet to be made of them, they become large numbers, whose scores are the cap, too. `here`: the band, counted from
 * the tile's first query and from the first key of g, dV or dK, whose columns are `columns`. All threads of the block
 * call it. */
template <class Q, int THREADS, bool CAPPED, int ROWS, int COLUMNS, class columns_t, class Band>
GLINT_DEVICE void settle_queries(float (&g)[ROWS][COLUMNS][4], bool keeps_dv, uint32_t q_tile, uint32_t do_tile, columns_t columns,
                                 const Band &here)
{
    spread_special<Q, true>(g, keeps_dv ? do_tile : q_tile, columns, keeps_dv ? 1.0f : 0.0f,
                            [&](int32_t key, int32_t query) { return sees(here, query, key); });
    block_sync();
    if constexpr (CAPPED)
        lower_special<Q, THREADS>(q_tile);
    else
        clear_special<Q, THREADS>(q_tile);
    clear_special<Q, THREADS>(do_tile);
    block_sync();
}

/* ---- sums of several blocks, in turn: each thread's accumulators in the order of slot_of_four -------------------- */

/* The first block stores, others add. */
template <int THREADS, int ROWS, int COLUMNS>
GLINT_DEVICE void add_to_memory(float *sum, const float (&d)[ROWS][COLUMNS][4], bool first)
{
    if (first) {
#pragma unroll
        for (int i = 0; i < ROWS * COLUMNS; ++i)
            st_four(sum + i * (4 * THREADS), d[i / COLUMNS][i % COLUMNS], THREADS);
    } else {
#pragma unroll
        for (int i = 0; i < ROWS * COLUMNS; ++i)
            red_four(sum + i * (4 * THREADS), d[i / COLUMNS][i % COLUMNS], THREADS);
    }
}

/* What the others left of AT_ONCE fragments from `start` on, for the last one. Their loads are under way together: one
 * after another, they were the longest part of a step. */
template <int THREADS, int AT_ONCE, int ROWS, int COLUMNS>
GLINT_DEVICE void add_from_memory(float (&d)[ROWS][COLUMNS][4], const float *sum, const int start)
{
    float before[AT_ONCE][4];

#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i)
        if (start + i < ROWS * COLUMNS)
            ld_four(before[i], sum + (start + i) * (4 * THREADS), THREADS);
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i)
        if (start + i < ROWS * COLUMNS)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                d[(start + i) / COLUMNS][(start + i) % COLUMNS][e] += before[i][e];
}

/* Adds dK or dV of this block, one of those that share the query heads of a key head, to what the ones before it left,
 * each warp to its own rows and columns; false for the last one, which then has the sum. `size`: numbers of a key
 * block's dK and dV. A warp waits for blocks of lower numbers only. */
template <int THREADS, int AT_ONCE, int ROWS, int COLUMNS>
GLINT_DEVICE bool add_part(const struct glint_gpu_call &p, float (&g)[ROWS][COLUMNS][4], const struct key_part &block,
                           const int size)
{
    const uint32_t thread = thread_index_anew();
    uint32_t *turn = p.key_turn + (int64_t)block.tile * (THREADS / 32) + thread / 32;
    float *sum = slot_of_four(p.key_sum + (int64_t)block.tile * size, thread);

    if (block.part > 0) {
        if (thread % 32 == 0)
            while (ld_acquire_u32(turn) < (uint32_t)block.part)
                continue;
        warp_sync();
    }
    if (block.part < p.parts - 1) {
        add_to_memory<THREADS>(sum, g, block.part == 0);
        warp_sync();
        if (thread % 32 == 0)
            st_release_u32(turn, (uint32_t)block.part + 1);
        return true;
    }
#pragma unroll
    for (int start = 0; start < ROWS * COLUMNS; start += AT_ONCE)
        add_from_memory<THREADS, AT_ONCE>(g, sum, start);
    return false;
}

/* ---- dQ, of a key block and a query block ------------------------------------------------------------------------ */

/* The keys that TILE_M queries of a block see, from the first to the end. */
template <int TILE_M, class Band>
GLINT_DEVICE struct key_range keys_of_block(const struct glint_gpu_call &p, const Band &mask, int32_t batch, int32_t m)
{
    if constexpr (Band::INTERVALS)
        return bounds_at<TILE_M>(p, batch * p.padded_q + m * TILE_M).all;
    else {
        const int32_t end = keys_seen(mask, min(mask.seqlen_q, (m + 1) * TILE_M));

        return {first_key(mask, m * TILE_M), end};
    }
}

/* dS K, from a tile dS^T and the tile K, added to dQ of query block m in key blocks' order: the first one that it sees
 * a key of stores, the last one adds what the others left, rounds and writes. A warp makes ROW_TILES x 16 queries.
 * `poisoned`: where a word says whether K has NaN or infinities, which is looked at if `hides`: the mask may hide keys
 * of the block. Queries that see such keys get NaN: S is infinite or NaN there, so P and dS are 0 or NaN. */
template <class Q, class K, class S, int THREADS, int ROW_TILES, int AT_ONCE, class Band>
GLINT_DEVICE void add_dq(const struct glint_gpu_call &p, const Band &mask, int32_t batch, int32_t head_q, int32_t m, int32_t key0,
                         uint32_t k_tile, uint32_t ds_tiles, uint32_t buffer, bool hides, uint32_t poisoned)
{
    typedef typename Q::element element;
    enum {
        TILE_M = Q::ROWS,
        TILE_N = K::ROWS,
        BYTES = element::BYTES,
        GROUPS = TILE_M / (16 * ROW_TILES),         /* of warps that make other queries */
        COLUMNS = Q::DIM * GROUPS / (THREADS / 32), /* that a warp makes */
        STEPS = TILE_N / element::K_STEP,
        FRAGMENTS = ROW_TILES * (COLUMNS / 8),
        SIDE = BYTES == 4 ? 1 : 8, /* rows from one side of a fragment to the other */
    };
    const uint32_t thread = thread_index_anew(), lane = thread % 32;
    const uint32_t group = thread / 32 % GROUPS, column = thread / 32 / GROUPS * COLUMNS;
    uint32_t ds_lane, k_lane;

    if constexpr (BYTES == 4) {
        ds_lane = ds_tiles + lane_offset_scores(lane, group * (4 * ROW_TILES), S::PAGE_CHUNKS);
        k_lane = k_tile + lane_offset_rows(lane, column / 4, K::ROWS, K::PAGE_CHUNKS);
    } else {
        ds_lane = ds_tiles +
                  tile_offset((lane & 7) + (lane >> 4 << 3), group * (2 * ROW_TILES) + (lane >> 3 & 1), S::ROWS, S::PAGE_CHUNKS);
        k_lane = k_tile + tile_offset(lane & 15, column / 8 + (lane >> 4), K::ROWS, K::PAGE_CHUNKS);
    }
    float dq[ROW_TILES][COLUMNS / 8][4];
    auto multiply = [&](const int kk, const enum numbers numbers) {
        uint32_t a[ROW_TILES][4];
#pragma unroll
        for (int rt = 0; rt < ROW_TILES; ++rt)
            load_queries<S>(a[rt], ds_lane + buffer, kk, rt);
        multiply_step<K>(dq, a, k_lane, kk, ROUNDED, numbers);
    };
    set_zero(dq);
    if ((Band::LEFT || Band::RIGHT) && hides && ld_shared_u32(poisoned) != 0) {
        const int32_t query0 = m * TILE_M + (int32_t)(group * (ROW_TILES * 16));

#pragma unroll 1
        for (int kk = 0; kk < STEPS; ++kk)
            multiply(kk, FINITE_NUMBERS);
        spread_special<K, true>(dq, k_tile, from_chunk{column * BYTES / 16}, 0.0f, [&](int32_t row, int32_t key) {
            return sees(mask, query0, query_of_row<element>(row), key0, key);
        });
    } else
#pragma unroll
        for (int kk = 0; kk < STEPS; ++kk)
            multiply(kk, ALL_NUMBERS);

    const int32_t head = batch * p.shape.heads_q + head_q;
    float *sum = slot_of_four(p.dq_sum + (head * p.padded_q + m * TILE_M) * (int)Q::DIM, thread);
    const struct key_range keys = keys_of_block<TILE_M>(p, mask, batch, m);
    if (((Band::LEFT || Band::RIGHT) && key0 >= keys.end) || (Band::INTERVALS && key0 + TILE_N <= keys.first))
        return;
    if (key0 + TILE_N >= keys.end) {
        const int32_t row0 = m * TILE_M + (int32_t)(group * (ROW_TILES * 16) + (lane >> 2) * (BYTES == 4 ? 2 : 1));
        char *rows = view_row(&p.dq, batch, head_q, row0, BYTES);

#pragma unroll
        for (int start = 0; start < FRAGMENTS; start += AT_ONCE) {
            if (key0 > keys.first)
                add_from_memory<THREADS, AT_ONCE>(dq, sum, start);
#pragma unroll
            for (int i = start; i < start + AT_ONCE && i < FRAGMENTS; ++i) {
                const int rt = i / (COLUMNS / 8), dt = i % (COLUMNS / 8);
#pragma unroll
                for (int side = 0; side < 2; ++side)
                    if (row0 + rt * 16 + side * SIDE < mask.seqlen_q && (Q::DIM == Q::COLUMNS || column + dt * 8 < Q::COLUMNS)) {
                        if constexpr (BYTES == 4)
                            st_global_f32x2(
                                rows + (rt * 16 + side * SIDE) * p.dq.row * BYTES + (column + dt * 8 + (lane & 3) * 2) * BYTES,
                                dq[rt][dt][2 * side] * p.shape.softmax_scale, dq[rt][dt][2 * side + 1] * p.shape.softmax_scale);
                        else
                            st_global_u32(rows + (rt * 16 + side * SIDE) * p.dq.row * BYTES +
                                              (column + dt * 8 + (lane & 3) * 2) * BYTES,
                                          element::pack(dq[rt][dt][2 * side] * p.shape.softmax_scale,
                                                        dq[rt][dt][2 * side + 1] * p.shape.softmax_scale));
                    }
            }
        }
    } else {
        add_to_memory<THREADS>(sum, dq, Band::LEFT ? key0 <= keys.first : key0 == 0);
    }
}

#endif
