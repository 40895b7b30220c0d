/* The products of decode: S^T = K Q^T and O^T = V^T P^T, and what lies between them. Rows are the narrow side of mma,
 * 8.
 *
 * Of S^T registers 0, 1 belong to key lane / 4 and registers 2, 3 to lane / 4 + 8 (`half`). Of O^T they belong to
 * columns in the same way; where V is widened, which comes in pairs of columns, to columns 2 (lane / 4) and 2 (lane /
 * 4) + 1. Registers 0, 2 belong to row 2 (lane % 4) of the fragment's 8 and 1, 3 to the row after it (`odd`). */
#ifndef GLINT_DEVICE_DECODE_PRODUCTS_H
#define GLINT_DEVICE_DECODE_PRODUCTS_H

#include "lib/device/decode/narrow.h"
#include "lib/device/decode/results.h"
#include "lib/device/special.h"

namespace decode
{

GLINT_DEVICE float larger(float x, float y)
{
    return fmaxf(x, y);
}

GLINT_DEVICE float sum_of_two(float x, float y)
{
    return x + y;
}

/* What a variant makes of scores. */
template <class S> GLINT_DEVICE typename S::score score_of(const struct glint_decode_params &p)
{
    if constexpr (S::CAPPED)
        return {p.score_ratio, p.score_limit};
    else
        return {};
}

/* What widen() wants to know; nothing of K and V that are as wide as Q. */
struct no_signs {
};
template <class S> GLINT_DEVICE auto signs_of(const struct glint_decode_params &p)
{
    if constexpr (S::WIDENED)
        return S::stored::unknown_signs(p);
    else
        return no_signs{};
}

/* Where a lane begins to read operands of V^T in a tile of V. */
template <class S> GLINT_DEVICE uint32_t lane_offset_of_values(uint32_t lane)
{
    return S::WIDENED ? tile_offset<typename S::kv_tile>(lane, 0) : tile_offset<typename S::kv_tile>(lane & 15, lane >> 4);
}

/* Operands B of Q^T at k step kk. Beside widened K, lanes have four neighbouring columns, as they have four bytes of
 * K: the first and the third, the second and the fourth. */
template <class S> GLINT_DEVICE void load_queries(uint32_t (&q)[S::ROW_TILES][2], uint32_t q_tile, const int kk)
{
    typedef typename S::q_tile tile;
    const uint32_t lane = lane_index();

    if constexpr (S::WIDENED) {
#pragma unroll
        for (int rt = 0; rt < S::ROW_TILES; ++rt) {
            const uint32_t at = q_tile + tile_offset<tile>(rt * 8 + (lane >> 2), 2 * kk + (lane >> 1 & 1)) + (lane & 1) * 8;
            const uint32_t first = ld_shared_u32(at), second = ld_shared_u32(at + 4);

            q[rt][0] = (first & 0xffff) | second << 16;
            q[rt][1] = first >> 16 | (second & 0xffff0000u);
        }
    } else if constexpr (S::ROW_TILES == 1) {
        q[0][0] = ld_shared_u32(q_tile + tile_offset<tile>(lane >> 2, 2 * kk) + (lane & 3) * 4);
        q[0][1] = ld_shared_u32(q_tile + tile_offset<tile>(lane >> 2, 2 * kk + 1) + (lane & 3) * 4);
    } else {
#pragma unroll
        for (int rt = 0; rt < S::ROW_TILES; rt += 2) {
            uint32_t r[4];

            ldmatrix_x4(r, tile_move<tile>(q_tile + lane_offset_b<tile>(lane), rt * 8, 2 * kk));
            q[rt][0] = r[0], q[rt][1] = r[1], q[rt + 1][0] = r[2], q[rt + 1][1] = r[3];
        }
    }
}

/* Where a step's K and V of 8 bits have what belongs to them. */
template <class S> struct step_place {
    uint32_t k_tile, k_scales, v_tile, v_scales; /* bytes of shared memory */
    uint32_t warp;
};

/* Operand A of k step `j` of those that an ldmatrix of K has loaded; `codes`: see look_for_nan. */
template <class S, class Signs>
GLINT_DEVICE void take_keys(uint32_t (&k)[4], const uint32_t (&w)[4], const int j, const Signs &signs, uint32_t &codes)
{
    if constexpr (S::WIDENED) {
        typedef typename S::stored stored;

        k[0] = stored::template widen<0>(w[2 * j], signs), k[1] = stored::template widen<0>(w[2 * j + 1], signs);
        k[2] = stored::template widen<1>(w[2 * j], signs), k[3] = stored::template widen<1>(w[2 * j + 1], signs);
        if constexpr (stored::HAS_NAN) {
            look_for_nan(w[2 * j], codes);
            look_for_nan(w[2 * j + 1], codes);
        }
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            k[i] = w[i];
    }
}

/* sums = K Q^T of this warp's keys, in S::CHAINS chains of products, which are as many as hide a product's time: two
 * sum even and odd k steps apart. */
template <class S, class Signs>
GLINT_DEVICE void multiply_keys(float (&sums)[S::CHAINS][S::KEY_TILES][S::ROW_TILES][4], const typename S::queries_t &q_kept,
                                uint32_t q_tile, uint32_t k_lane, const Signs &signs, uint32_t &codes)
{
    enum { AT_ONCE = S::WIDENED ? 2 : 1 }; /* k steps of an ldmatrix */

#pragma unroll
    for (int kk = 0; kk < S::K_STEPS; kk += AT_ONCE) {
        uint32_t q[AT_ONCE][S::ROW_TILES][2];

        if constexpr (!S::Q_KEPT)
#pragma unroll
            for (int j = 0; j < AT_ONCE; ++j)
                load_queries<S>(q[j], q_tile, kk + j);
#pragma unroll
        for (int kt = 0; kt < S::KEY_TILES; ++kt) {
            uint32_t w[4];

            ldmatrix_x4(w, tile_move<typename S::kv_tile>(k_lane, kt * 16, kk * 2 / AT_ONCE));
#pragma unroll
            for (int j = 0; j < AT_ONCE; ++j) {
                uint32_t k[4];

                take_keys<S>(k, w, j, signs, codes);
#pragma unroll
                for (int rt = 0; rt < S::ROW_TILES; ++rt) {
                    const uint32_t *const b = S::Q_KEPT ? q_kept[S::Q_KEPT ? kk + j : 0][rt] : q[j][rt];

                    S::element::mma(sums[(kk + j) % S::CHAINS][kt][rt], k, b[0], b[1]);
                }
            }
        }
    }
}

/* S^T = scale K Q^T + bias of this warp's keys. The sum is rounded once, to the number that maxima are made of too.
 * begin_copies() comes when all of K is on its way into registers: products do not wait behind copies. */
template <class S, class Score, class Signs, class begin_copies_t>
GLINT_DEVICE void make_scores(typename S::scores_t &s, const typename S::queries_t &q_kept, uint32_t q_tile, uint32_t k_lane,
                              const struct step_place<S> &at, const Score &score, const struct row_biases<S> &biases, int32_t step,
                              const Signs &signs, float scale, begin_copies_t begin_copies)
{
    float sums[S::CHAINS][S::KEY_TILES][S::ROW_TILES][4];
    uint32_t codes = 0;

#pragma unroll
    for (int i = 0; i < S::CHAINS * S::KEY_TILES * S::ROW_TILES * 4; ++i)
        sums[i / (S::KEY_TILES * S::ROW_TILES * 4)][i / (S::ROW_TILES * 4) % S::KEY_TILES][i / 4 % S::ROW_TILES][i % 4] = 0.0f;
    multiply_keys<S>(sums, q_kept, q_tile, k_lane, signs, codes);
    begin_copies();
    unrolled<S::KEY_TILES, 2>([&](int kt, int half) {
        float of_key = 1.0f;

        if constexpr (S::WIDENED)
            of_key = ld_shared_f32(at.k_scales + (at.warp * S::WARP_KEYS + kt * 16 + half * 8 + (lane_index() >> 2)) * 4) *
                     S::stored::UNIT;
#pragma unroll
        for (int rt = 0; rt < S::ROW_TILES; ++rt)
#pragma unroll
            for (int i = 2 * half; i < 2 * half + 2; ++i) {
                if constexpr (S::CHAINS == 2)
                    sums[0][kt][rt][i] += sums[1][kt][rt][i];
                if constexpr (S::WIDENED)
                    sums[0][kt][rt][i] *= of_key;
            }
    });
    change_few_scores(sums[0], score);
    unrolled<S::KEY_TILES, S::ROW_TILES, 4>([&](int kt, int rt, int i) {
        const auto added = tile_of_row(biases, rt, i & 1, step, at.warp);

        s[kt][rt][i] = fmaf(sums[0][kt][rt][i], scale, bias_of(added, 0, kt * 16 + (i >> 1) * 8));
    });
    if constexpr (S::WIDENED)
        if (S::stored::HAS_NAN && any_nan(codes))
            add_nan_of_keys<S>(s, at.k_tile, at.warp);
}

/* Hides what a tree does, of 32 keys by two words. */
template <class S> GLINT_DEVICE void hide_new_keys(typename S::scores_t &s, int32_t first_key, const struct sight<S> &sight)
{
    if (first_key + S::WARP_KEYS <= sight.first_slot) /* of none of the warp's keys */
        return;
    unrolled<S::ROW_TILES, 2>([&](int rt, int odd) {
#pragma unroll
        for (int group = 0; group < S::KEY_TILES; group += 2) {
            const uint32_t bits = bits_from(sight.tree, sight.query[rt][odd], first_key + group * 16 - sight.first_slot);
#pragma unroll
            for (int kt = group; kt < S::KEY_TILES && kt < group + 2; ++kt)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    float &score = s[kt][rt][2 * half + odd];

                    score = (bits >> ((kt - group) * 16 + half * 8) & 1) != 0 ? score : -GLINT_INFINITY;
                }
        }
    });
}

/* Hides the keys that rows do not see; first_key is the first of this lane. */
template <class S> GLINT_DEVICE void hide_scores(typename S::scores_t &s, int32_t first_key, const struct sight<S> &sight)
{
    unrolled<S::KEY_TILES, S::ROW_TILES, 4>([&](int kt, int rt, int i) {
        s[kt][rt][i] = reaches(sight, rt, i & 1, first_key + kt * 16 + (i >> 1) * 8, 1) ? s[kt][rt][i] : -GLINT_INFINITY;
    });
    if constexpr (S::mask::TREE)
        hide_new_keys<S>(s, first_key, sight);
}

/* The greatest score of each row, of this lane's keys. */
template <class S> GLINT_DEVICE void find_maxima(typename S::rows_t &maximum, const typename S::scores_t &s)
{
    unrolled<S::ROW_TILES, 2>([&](int rt, int odd) {
        maximum[rt][odd] = fmaxf(s[0][rt][odd], s[0][rt][2 + odd]);
#pragma unroll
        for (int kt = 1; kt < S::KEY_TILES; ++kt)
            maximum[rt][odd] = fmaxf(maximum[rt][odd], fmaxf(s[kt][rt][odd], s[kt][rt][2 + odd]));
    });
}

/* ---- numbers of rows that the lanes of a warp, and the warps of a block, have parts of -------------------------- */

/* A number of each row from this warp, for all warps: `numbers` is [warp][row]. All lanes with a row have the same. */
template <class S> GLINT_DEVICE void give_rows(uint32_t numbers, const typename S::rows_t &mine, uint32_t warp)
{
    if (lane_index() < 4)
#pragma unroll
        for (int rt = 0; rt < S::ROW_TILES; ++rt)
            st_shared_f32x2(numbers + (warp * S::TILE_M + rt * 8 + lane_index() * 2) * 4, mine[rt][0], mine[rt][1]);
}

/* From the lanes of a warp that have parts of a row. */
template <class S, class of_two_t> GLINT_DEVICE void join_lanes(typename S::rows_t &rows, of_two_t of_two)
{
    unrolled<S::ROW_TILES, 2>([&](int rt, int odd) {
        rows[rt][odd] = of_two(rows[rt][odd], shfl_xor(rows[rt][odd], 4));
        rows[rt][odd] = of_two(rows[rt][odd], shfl_xor(rows[rt][odd], 8));
        rows[rt][odd] = of_two(rows[rt][odd], shfl_xor(rows[rt][odd], 16));
    });
}

template <class S, class of_two_t> GLINT_DEVICE void take_rows(typename S::rows_t &joint, uint32_t numbers, of_two_t of_two)
{
#pragma unroll
    for (int rt = 0; rt < S::ROW_TILES; ++rt) {
        ld_shared_f32x2(joint[rt], numbers + (rt * 8 + (lane_index() & 3) * 2) * 4);
#pragma unroll
        for (int warp = 1; warp < S::WARPS; ++warp) {
            float v[2];

            ld_shared_f32x2(v, numbers + (warp * S::TILE_M + rt * 8 + (lane_index() & 3) * 2) * 4);
            joint[rt][0] = of_two(joint[rt][0], v[0]);
            joint[rt][1] = of_two(joint[rt][1], v[1]);
        }
    }
}

/* ---- weights and values ----------------------------------------------------------------------------------------- */

/* P^T = e^(S^T - maximum) to shared memory, [row tile][key][8 rows], and the sums of this lane's keys. Before it is
 * rounded P is multiplied by the scales of widened V, but for those of hidden keys: where CUT, some are. first_key is
 * the step's. */
template <class S, bool CUT>
GLINT_DEVICE void make_weights(typename S::rows_t &sums, const typename S::scores_t &s, const typename S::rows_t &maximum,
                               uint32_t p_tile, const struct step_place<S> &place, int32_t first_key, const struct sight<S> &sight)
{
    const uint32_t at = p_tile + (place.warp * S::WARP_KEYS + (lane_index() >> 2)) * 16 + (lane_index() & 3) * 4;

#pragma unroll
    for (int rt = 0; rt < S::ROW_TILES; ++rt) {
        const float shift[2] = {maximum[rt][0] == -GLINT_INFINITY ? 0.0f : maximum[rt][0],
                                maximum[rt][1] == -GLINT_INFINITY ? 0.0f : maximum[rt][1]};

        sums[rt][0] = sums[rt][1] = 0.0f;
        unrolled<S::KEY_TILES, 2>([&](int kt, int half) {
            const uint32_t to = at + (rt * S::TILE_N + kt * 16 + half * 8) * 16;
            float even = exponential(s[kt][rt][2 * half] - shift[0]), odd = exponential(s[kt][rt][2 * half + 1] - shift[1]);

            sums[rt][0] += even;
            sums[rt][1] += odd;
            if constexpr (S::WIDENED) {
                const int32_t key = (int32_t)(place.warp * S::WARP_KEYS + kt * 16 + half * 8 + (lane_index() >> 2));
                const float of_key = ld_shared_f32(place.v_scales + key * 4);

                even = !CUT || sees(sight, rt, 0, first_key + key) ? even * of_key : 0.0f;
                odd = !CUT || sees(sight, rt, 1, first_key + key) ? odd * of_key : 0.0f;
            }
            st_shared_u32(to, S::element::pack(even, odd));
        });
    }
}

/* Has this warp a column fragment dt? */
template <class S> GLINT_DEVICE bool has_columns(const int dt, uint32_t warp)
{
    return !S::UNEVEN || dt * S::WARPS + (int)warp < S::DIM_TILES;
}

/* O^T += V^T P^T of this warp's columns. Even and odd k steps are summed apart, as for the scores; LARGE ones are as
 * many chains of products as hide a product's time. begin_copies() comes after V's last fragments. `codes`: see
 * look_for_nan. */
template <class S, class Signs, class begin_copies_t>
GLINT_DEVICE void add_values(typename S::output_t &o, uint32_t p_tile, uint32_t v_lane, uint32_t warp, const Signs &signs,
                             uint32_t &codes, begin_copies_t begin_copies)
{
    typedef typename S::stored stored;
    typedef typename S::kv_tile tile;
    typename S::output_t sums;

#pragma unroll
    for (int i = 0; i < S::DIM_MINE * S::ROW_TILES * 4; ++i)
        sums[i / (S::ROW_TILES * 4)][i / 4 % S::ROW_TILES][i % 4] = 0.0f;
#pragma unroll
    for (int kk = 0; kk < S::TILE_N / 16; kk += 2) {
        uint32_t p[S::ROW_TILES][4];

#pragma unroll
        for (int rt = 0; rt < S::ROW_TILES; ++rt)
            ldmatrix_x4_trans(p[rt], p_tile + (rt * S::TILE_N + kk * 16 + lane_index()) * 16);
        if constexpr (S::WIDENED) {
#pragma unroll
            for (int dt = 0; dt < S::DIM_MINE; ++dt) {
                uint32_t w[4];

                if (!has_columns<S>(dt, warp))
                    continue;
                ldmatrix_x4_trans(w, tile_move<tile>(v_lane, kk * 16, dt * S::WARPS + warp));
#pragma unroll
                for (int k = 0; k < 2; ++k) {
                    const uint32_t a[4] = {stored::template widen<0>(w[2 * k], signs), stored::template widen<1>(w[2 * k], signs),
                                           stored::template widen<0>(w[2 * k + 1], signs),
                                           stored::template widen<1>(w[2 * k + 1], signs)};

                    if constexpr (stored::HAS_NAN) {
                        look_for_nan(w[2 * k], codes);
                        look_for_nan(w[2 * k + 1], codes);
                    }
#pragma unroll
                    for (int rt = 0; rt < S::ROW_TILES; ++rt)
                        S::element::mma(S::LARGE || k == 0 ? o[dt][rt] : sums[dt][rt], a, p[rt][2 * k], p[rt][2 * k + 1]);
                }
            }
        } else {
#pragma unroll
            for (int k = 0; k < 2; ++k)
#pragma unroll
                for (int dt = 0; dt < S::DIM_MINE; ++dt) {
                    uint32_t v[4];

                    if (!has_columns<S>(dt, warp))
                        continue;
                    ldmatrix_x4_trans(v, tile_move<tile>(v_lane, (kk + k) * 16, 2 * (dt * S::WARPS + warp)));

                    const uint32_t a[4] = {v[0], v[2], v[1], v[3]};
#pragma unroll
                    for (int rt = 0; rt < S::ROW_TILES; ++rt)
                        S::element::mma(S::LARGE || k == 0 ? o[dt][rt] : sums[dt][rt], a, p[rt][2 * k], p[rt][2 * k + 1]);
                }
        }
    }
    begin_copies();
#pragma unroll
    for (int i = 0; i < S::DIM_MINE * S::ROW_TILES * 4; ++i) {
        float &x = o[i / (S::ROW_TILES * 4)][i / 4 % S::ROW_TILES][i % 4];

        if constexpr (!S::LARGE)
            x += sums[i / (S::ROW_TILES * 4)][i / 4 % S::ROW_TILES][i % 4];
        if constexpr (S::WIDENED)
            x *= stored::UNIT;
    }
}

/* Whether there are NaN and infinities in what this thread copied of a tile of V. */
template <class S> GLINT_DEVICE bool finds_special(uint32_t v_tile)
{
    return find_special(v_tile, S::TILE_N, S::PAGES, S::PAGE_CHUNKS, S::THREADS, S::EXPONENT, S::BYTES);
}

/* V of a step of which some rows do not see all keys: NaN and infinities reach only the rows that see them, and then
 * leave the tile, before it is multiplied by weights of zero. All threads of the block call it. */
template <class S>
GLINT_DEVICE void settle_values(typename S::output_t &o, uint32_t v_tile, int32_t first_key, const struct sight<S> &sight,
                                uint32_t warp)
{
    typedef typename S::kv_tile tile;
    const uint32_t lane = lane_index();

#pragma unroll 1
    for (uint32_t key = 0; key < S::TILE_N; ++key)
#pragma unroll
        for (int dt = 0; dt < S::DIM_MINE; ++dt)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                if (!has_columns<S>(dt, warp))
                    continue;
                const uint32_t pair =
                    ld_shared_u32(v_tile + tile_offset<tile>(key, 2 * (dt * S::WARPS + warp) + half) + (lane >> 3) * 4);
                const uint32_t special = pair ^ finite_part(pair, S::EXPONENT, S::BYTES);
                const float v = (lane >> 2 & 1) != 0 ? S::element::high(special) : S::element::low(special);

                unrolled<S::ROW_TILES, 2>([&](int rt, int odd) {
                    if (sees(sight, rt, odd, first_key + (int32_t)key))
                        o[dt][rt][2 * half + odd] += v;
                });
            }
    block_sync();
    clear_special(v_tile, thread_index() / S::CHUNKS, S::THREADS / S::CHUNKS > 0 ? (int)S::THREADS / (int)S::CHUNKS : 1,
                  thread_index() % S::CHUNKS, S::CHUNKS, thread_index() < S::THREADS / S::CHUNKS * S::CHUNKS ? S::TILE_N : 0,
                  S::CHUNKS, S::PAGE_CHUNKS, S::EXPONENT, S::BYTES);
    block_sync();
}

} // namespace decode

#endif
