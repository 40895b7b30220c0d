/* The gradient of a bias by a tensor: an element's is the sum of dS over all pairs that share it. A block has a tile of
 * dBias, and walks over the sequences, heads and tiles of pairs that share it, one after another. Where there are few
 * tiles several blocks have one, each some of the sequences, and a second kernel adds their sums up. So the order of a
 * sum depends on the problem alone. */
#ifndef GLINT_DEVICE_BIAS_GRADIENT_H
#define GLINT_DEVICE_BIAS_GRADIENT_H

#include "lib/device/bias.h"
#include "lib/device/gradients.h"

/* The tile of dBias that a block has. -1: the bias is shared there, and the block walks over all of them; of the
 * sequences over those from `first` to end - 1. */
struct bias_tile {
    int32_t batch, head, query0, key0;
    int32_t first, end;
};

/* The blocks of a part follow one another, and those of the next part them. */
template <int TILE> GLINT_DEVICE struct bias_tile find_bias_tile(const struct glint_gpu_call &p)
{
    const struct glint_gpu_bias_tensor &all = tensor_of(p);
    const int32_t keys = all.key == 0 ? 1 : (p.shape.seqlen_k + TILE - 1) / TILE;
    const int32_t queries = all.query == 0 ? 1 : (p.shape.seqlen_q + TILE - 1) / TILE;
    const int32_t heads = all.head == 0 ? 1 : p.shape.heads_q;
    const int32_t part = (int32_t)block_index() / all.tiles, number = (int32_t)block_index() - part * all.tiles;
    const int32_t by_key = number / keys, by_query = by_key / queries, batch = by_query / heads;
    const int32_t each = (p.shape.batch + all.parts - 1) / all.parts;

    return {all.batch == 0 ? -1 : batch,
            all.head == 0 ? -1 : by_query % heads,
            all.query == 0 ? -1 : by_key % queries * TILE,
            all.key == 0 ? -1 : number % keys * TILE,
            all.batch == 0 ? part * each : batch,
            all.batch == 0 ? min((part + 1) * each, p.shape.batch) : batch + 1};
}

/* Of several parts: where a thread's sums of a tile begin, `part` parts further. */
template <int TILE> GLINT_DEVICE float *bias_sums(const struct glint_gpu_call &p, int32_t part)
{
    const struct glint_gpu_bias_tensor &all = tensor_of(p);

    return slot_of_four(all.sums + (int64_t)((int32_t)block_index() + part * all.tiles) * (TILE * TILE), thread_index());
}

/* Where a block is: a tile of queries and keys of a head of a sequence. `at` is the place of the sequence's head 0, and
 * its rows begin at `padded` in a line of the padded arrays. */
template <class Rows> struct bias_walk {
    typename Rows::walk rows;
    struct place at;
    int32_t padded, number, head, query0, key0;
};

template <class Rows> GLINT_DEVICE struct bias_walk<Rows> begin_walk(const struct glint_gpu_call &p, const struct bias_tile &own) {
    struct bias_walk<Rows> walk = {
        Rows::first_of(p), {0, 0, 0, 0, 0, 0, {0, 0, 0, 0}}, 0, 0, 0, 0, 0
    };

    walk.number = Rows::IN_TURN ? -1 : own.first - 1;
    walk.head = p.shape.heads_q - 1;
    walk.query0 = max(own.query0, 0);
    walk.key0 = max(own.key0, 0);
    return walk;
}

/* To the next tile, keys first, then queries, heads and sequences; false where there is none. */
template <int TILE, class Rows>
GLINT_DEVICE bool step_on(struct bias_walk<Rows> &walk, const struct glint_gpu_call &p, const struct bias_tile &own)
{
    if (own.key0 < 0 && walk.key0 + TILE < walk.at.own.seqlen_k) {
        walk.key0 += TILE;
        return true;
    }
    walk.key0 = max(own.key0, 0);
    if (own.query0 < 0 && walk.query0 + TILE < walk.at.own.seqlen_q) {
        walk.query0 += TILE;
        return true;
    }
    walk.query0 = max(own.query0, 0);
    if (own.head < 0 && walk.head + 1 < p.shape.heads_q) {
        ++walk.head;
        return true;
    }
    walk.head = max(own.head, 0);
#pragma unroll 1
    while (walk.number + 1 < own.end) {
        ++walk.number;
        walk.at = Rows::next(p, walk.rows, walk.number, 0, walk.padded);
        if ((!Rows::IN_TURN || walk.number >= own.first) && walk.query0 < walk.at.own.seqlen_q && walk.key0 < walk.at.own.seqlen_k)
            return true;
    }
    return false;
}

/* Whether some of TILE queries may see some of TILE keys, as far as the band says. */
template <int TILE, class Band> GLINT_DEVICE bool may_see(const Band &band, int32_t query0, int32_t key0)
{
    return key0 < end_key(band, min(query0 + TILE, band.seqlen_q) - 1) && key0 + TILE > first_key(band, query0);
}

template <int TILE> GLINT_DEVICE bool may_see(const struct interval_mask &mask, int32_t query0, int32_t key0)
{
    return may_see<TILE>(mask.beside, query0, key0);
}

/* To the next tile that has anything to add. */
template <int TILE, class Band, class Rows>
GLINT_DEVICE bool next_tile(struct bias_walk<Rows> &walk, const struct glint_gpu_call &p, const struct bias_tile &own)
{
    bool any = step_on<TILE>(walk, p, own);

#pragma unroll 1
    while (any && !may_see<TILE>(mask_of<Band>(p, walk.at), walk.query0, walk.key0))
        any = step_on<TILE>(walk, p, own);
    return any;
}

/* P (dP - delta) in the place of scores, P = 2^(scale S + bias - LSE): without the slope of a cap, which lies between
 * the bias and Q K^T. Bias: a tile of bias.h. */
GLINT_DEVICE float bias_exponent_of(float s, const struct glint_gpu_shape &shape, float lse, float bias, const struct plain_score &)
{
    return fmaf(fmaf(s, shape.softmax_scale, bias), GLINT_LOG2_E, -lse);
}

GLINT_DEVICE float bias_exponent_of(float s, const struct glint_gpu_shape &shape, float lse, float bias,
                                    const struct capped_score &)
{
    const float x = fmaf(fmaf(s, shape.softmax_scale, bias), GLINT_LOG2_E, -lse);

    return x > 0.0f ? 0.0f : x; /* as capped_exponent_of */
}

template <int ROWS, int COLUMNS, class Score, class Bias>
GLINT_DEVICE void make_bias_gradient(float (&s)[ROWS][COLUMNS][4], const float (&dp)[ROWS][COLUMNS][4], const float (&lse)[ROWS][2],
                                     const float (&delta)[ROWS][2], const struct glint_gpu_shape &shape, const Score &score,
                                     const Bias &bias)
{
#pragma unroll
    for (int rt = 0; rt < ROWS; ++rt)
#pragma unroll
        for (int nt = 0; nt < COLUMNS; ++nt)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                s[rt][nt][e] = ex2(bias_exponent_of(s[rt][nt][e], shape, lse[rt][e >> 1],
                                                    bias_of(bias, rt * 16 + (e >> 1) * 8, nt * 8 + (e & 1)), score)) *
                               (dp[rt][nt][e] - delta[rt][e >> 1]);
}

/* Zeros in rows from query `end` on, of rows from query `first` on. */
template <int ROWS, int COLUMNS> GLINT_DEVICE void clear_rows(float (&s)[ROWS][COLUMNS][4], int32_t first, int32_t end)
{
#pragma unroll
    for (int rt = 0; rt < ROWS; ++rt)
#pragma unroll
        for (int nt = 0; nt < COLUMNS; ++nt)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                if (first + rt * 16 + (e >> 1) * 8 + (int32_t)(lane_index() >> 2) >= end)
                    s[rt][nt][e] = 0.0f;
}

template <int ROWS, int COLUMNS> GLINT_DEVICE void add_scores(float (&sum)[ROWS][COLUMNS][4], const float (&s)[ROWS][COLUMNS][4])
{
#pragma unroll
    for (int rt = 0; rt < ROWS; ++rt)
#pragma unroll
        for (int nt = 0; nt < COLUMNS; ++nt)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                sum[rt][nt][e] += s[rt][nt][e];
}

/* ---- to memory --------------------------------------------------------------------------------------------------- */

/* An element of dBias, rounded once. */
template <class Element> GLINT_DEVICE void put_element(const struct glint_gpu_bias_tensor &all, int64_t at, float x)
{
    if constexpr (Element::BYTES == 2)
        if (all.narrow) {
            st_global_u16((uint16_t *)all.gradient + at, Element::pack(x, 0.0f));
            return;
        }
    st_global_f32((float *)all.gradient + at, x);
}

/* The sums of a warp of WARPS, which has the 16 queries from `query` on, and of TILE keys: to the elements that the
 * block has, of queries before end_q and keys before end_k. Where queries share them their sums are added up in the
 * order of the warps, through `room`, WARPS * TILE floats of shared memory that no thread uses any more. */
template <class Element, int TILE, int WARPS>
GLINT_DEVICE void write_bias_gradient(const struct glint_gpu_call &p, const struct bias_tile &own,
                                      const float (&sum)[1][TILE / 8][4], uint32_t room)
{
    const struct glint_gpu_bias_tensor &all = tensor_of(p);
    const int32_t lane = (int32_t)lane_index(), warp = (int32_t)warp_index(), thread = (int32_t)thread_index();
    const int64_t first =
        max(own.batch, 0) * all.batch + max(own.head, 0) * all.head + max(own.query0, 0) * all.query + max(own.key0, 0) * all.key;
    const int32_t queries = p.shape.seqlen_q - max(own.query0, 0), keys = p.shape.seqlen_k - max(own.key0, 0);

    if (own.query0 < 0) {
#pragma unroll
        for (int nt = 0; nt < TILE / 8; ++nt)
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                float x = sum[0][nt][e] + sum[0][nt][2 + e];

#pragma unroll
                for (uint32_t lanes = 4; lanes < 32; lanes *= 2)
                    x += shfl_xor(x, lanes);
                if (lane < 4)
                    st_shared_f32(room + (uint32_t)(warp * TILE + nt * 8 + 2 * lane + e) * 4, x);
            }
        block_sync();
        float total = 0.0f;

        for (int32_t column = own.key0 < 0 ? 0 : thread; column < TILE; column += own.key0 < 0 ? 1 : 32 * WARPS) {
            float x = 0.0f;

            for (int32_t w = 0; w < WARPS; ++w)
                x += ld_shared_f32(room + (uint32_t)(w * TILE + column) * 4);
            total += x;
            if (own.key0 >= 0 && column < keys)
                put_element<Element>(all, first + column * all.key, x);
        }
        if (own.key0 < 0 && thread == 0)
            put_element<Element>(all, first, total);
        return;
    }
#pragma unroll
    for (int side = 0; side < 2; ++side) {
        const int32_t row = warp * 16 + side * 8 + (lane >> 2);
        const int64_t at = first + row * all.query;

        if (own.key0 < 0) {
            float x = 0.0f;

#pragma unroll
            for (int nt = 0; nt < TILE / 8; ++nt)
                x += sum[0][nt][2 * side] + sum[0][nt][2 * side + 1];
            x = quad_sum(x);
            if ((lane & 3) == 0 && row < queries)
                put_element<Element>(all, at, x);
        } else
#pragma unroll
            for (int nt = 0; nt < TILE / 8; ++nt)
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    const int32_t column = nt * 8 + 2 * (lane & 3) + e;

                    if (row < queries && column < keys)
                        put_element<Element>(all, at + column * all.key, sum[0][nt][2 * side + e]);
                }
    }
}

#endif
