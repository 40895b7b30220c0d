/* The first kernel of every backward pass: 256 threads a block, which has GLINT_GPU_ROW_PAD queries of one head. And
 * the one after it, where there are sinks. */
#ifndef GLINT_DEVICE_DELTA_H
#define GLINT_DEVICE_DELTA_H

#include "lib/device/element.h"
#include "lib/device/intervals.h"
#include "lib/device/mask.h"
#include "lib/device/sequences.h"
#include "lib/device/steps.h"

/* Lanes of a warp that share a row of ROW_CHUNKS chunks of 16 bytes. */
template <int ROW_CHUNKS> struct row_lanes {
    enum { LANES = ROW_CHUNKS <= 8 ? 8 : ROW_CHUNKS <= 16 ? 16 : 32 };
};

/* Where a block works, and which of a row's lanes this is. */
template <class Rows> struct row_block {
    struct place at;
    int32_t padded; /* where the rows of its sequence begin in a line of the padded arrays */
    uint32_t lane;
};

template <int ROW_CHUNKS, class Rows>
GLINT_DEVICE struct row_block<Rows> row_block_of(const struct glint_gpu_call &p, const struct place &at, uint32_t kept) {
    return {at, Rows::padded_first_of(kept), lane_index() % row_lanes<ROW_CHUNKS>::LANES};
}

/* Where row `row` of a block's sequence lies, in a tensor, in LSE and in the arrays of the workspace. */
template <class Rows>
GLINT_DEVICE char *row_of(const struct glint_gpu_view &view, const struct row_block<Rows> &block, int32_t row,
                          const int element_bytes)
{
    return query_row(view, block.at, row, element_bytes);
}

template <class Rows>
GLINT_DEVICE int64_t lse_place(const struct glint_gpu_call &p, const struct row_block<Rows> &block, int32_t row)
{
    return (int64_t)block.at.line * Rows::lse_rows(p) + block.at.first_q + row;
}

template <class Rows>
GLINT_DEVICE const float *lse_of(const struct glint_gpu_call &p, const struct row_block<Rows> &block, int32_t row)
{
    return p.lse + lse_place(p, block, row);
}

template <class Rows> GLINT_DEVICE float dlse_of(const struct glint_gpu_call &p, const struct row_block<Rows> &block, int32_t row)
{
    return p.dlse ? ld_global_f32(p.dlse + lse_place(p, block, row)) : 0.0f;
}

template <class Rows>
GLINT_DEVICE int64_t place_of(const struct glint_gpu_call &p, const struct row_block<Rows> &block, int32_t row)
{
    return block.at.line * p.padded_q + block.padded + row;
}

/* Turns begin: of the blocks of TILE_N keys that add to dQ of TILE_M queries, at the first block of which they see a
 * key, and of those that share the query heads of a key head, at 0. With intervals leave_intervals begins the
 * former. */
template <int TILE_M, int TILE_N, int KEY_TURNS, class Rows, class Band>
GLINT_DEVICE void begin_turns(const struct glint_gpu_call &p, const struct row_block<Rows> &block, const Band &mask)
{
    if (block_index() == 0 && thread_index() == 0)
        st_global_u32(p.turn, 0);
    if (!Band::INTERVALS && (!Rows::READS || block.at.row0 >= 0) && thread_index() < GLINT_GPU_ROW_PAD / TILE_M)
        st_global_u32(p.turn + 1 + place_of(p, block, block.at.row0) / TILE_M + thread_index(),
                      Band::LEFT ? first_key(mask, block.at.row0 + (int32_t)thread_index() * TILE_M) / TILE_N * TILE_N : 0);
    if (!Rows::READS && p.parts > 1) {
        const int64_t turns = (int64_t)(p.shape.batch * p.shape.heads_kv) * ((p.shape.seqlen_k + TILE_N - 1) / TILE_N) * KEY_TURNS;
        const int64_t threads =
            (int64_t)256 * p.shape.batch * p.shape.heads_q * ((p.shape.seqlen_q + GLINT_GPU_ROW_PAD - 1) / GLINT_GPU_ROW_PAD);

        for (int64_t i = (int64_t)block_index() * 256 + thread_index(); i < turns; i += threads)
            st_global_u32(p.key_turn + i, 0);
    }
}

/* delta = rowsum(dO o O) - dLSE and LSE in powers of two; a row that sees no key, or lies past the end, gets LSE =
 * +inf, which makes its P exactly 0. Where the row sees keys and its scores are all -inf, P = exp(-inf + inf) is NaN,
 * and LSE becomes that. A row whose dO holds NaN or infinity has a delta that is neither finite; of a row that sees no
 * key, neither is it when its Q does, and dLSE of such a row is not read. With CLEARS, rows that see no key get dQ =
 * 0. */
template <class Element, int ROW_CHUNKS, bool CLEARS, class Rows, class Band>
GLINT_DEVICE void make_delta(const struct glint_gpu_call &p, const struct row_block<Rows> &block, const Band &mask)
{
    enum { LANES = row_lanes<ROW_CHUNKS>::LANES, ROWS = 32 / LANES }; /* rows that a warp takes at a time */

    for (int32_t row = block.at.row0 + (int32_t)(thread_index() / LANES); row < block.at.row0 + GLINT_GPU_ROW_PAD;
         row += 8 * ROWS) {
        const char *o_row = row_of(p.o, block, row, Element::BYTES);
        const char *dout_row = row_of(p.dout, block, row, Element::BYTES);
        const int64_t place = place_of(p, block, row);
        float sum = 0.0f, lse = GLINT_INFINITY;

        if (row < block.at.own.seqlen_q) {
            lse = ld_global_f32(lse_of(p, block, row));
            const float of_nothing = sees_some(mask, row) ? float_of(0x7fc00000u) : GLINT_INFINITY;
            lse = lse == -GLINT_INFINITY ? of_nothing : lse * 1.44269504088896340736f;
            for (uint32_t chunk = block.lane; chunk < ROW_CHUNKS; chunk += LANES) {
                uint32_t o[4], dout[4];

                ld_global_u32x4(o, o_row + chunk * 16);
                ld_global_u32x4(dout, dout_row + chunk * 16);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    if constexpr (Element::BYTES == 4)
                        sum = fmaf(float_of(o[i]), float_of(dout[i]), sum);
                    else {
                        sum = fmaf(Element::low(o[i]), Element::low(dout[i]), sum);
                        sum = fmaf(Element::high(o[i]), Element::high(dout[i]), sum);
                    }
                }
            }
            if (lse == GLINT_INFINITY) {
                const char *q_row = row_of(p.q, block, row, Element::BYTES);
                const uint32_t zero[4] = {0, 0, 0, 0};

                for (uint32_t chunk = block.lane; chunk < ROW_CHUNKS; chunk += LANES) {
                    uint32_t q[4];

                    ld_global_u32x4(q, q_row + chunk * 16);
                    for (int i = 0; i < 4; ++i)
                        if (finite_part(q[i], Element::EXPONENT, Element::BYTES) != q[i])
                            sum = GLINT_INFINITY;
                    if (CLEARS)
                        st_global_u32x4(row_of(p.dq, block, row, Element::BYTES) + chunk * 16, zero);
                }
            }
        }
#pragma unroll
        for (uint32_t lanes = 1; lanes < LANES; lanes *= 2)
            sum += shfl_xor(sum, lanes);
        if (row < block.at.own.seqlen_q && sees_some(mask, row))
            sum -= dlse_of(p, block, row);
        if (block.lane == 0) {
            st_global_f32(p.lse_log2 + place, lse);
            st_global_f32(p.delta + place, lse == GLINT_INFINITY && fabsf(sum) < GLINT_INFINITY ? 0.0f : sum);
        }
    }
}

/* The kernel itself. Of a FUSED variant no key block visits rows that see no key, so they get their dQ here. */
template <class Element, int ROW_CHUNKS, class Band, bool FUSED, int TILE_M, int TILE_N, int KEY_TURNS, class Rows>
GLINT_DEVICE void run_delta(const struct glint_gpu_call &p)
{
    const uint32_t kept = shared_base();
    const struct place at = Rows::find_rows_of_block(p, kept);
    const struct row_block<Rows> block = row_block_of<ROW_CHUNKS, Rows>(p, at, kept);
    const Band mask = mask_of<Band>(p, at);

    if (FUSED)
        begin_turns<TILE_M, TILE_N, KEY_TURNS>(p, block, mask);
    if constexpr (Band::INTERVALS)
        if (!Rows::READS || at.row0 >= 0)
            leave_intervals<TILE_M, TILE_N, FUSED>(p, at, mask, first_range<Rows>(p, at, kept) + at.row0,
                                                   1 + place_of(p, block, at.row0) / TILE_M);
    if (!Rows::READS || at.row0 >= 0)
        make_delta<Element, ROW_CHUNKS, FUSED>(p, block, mask);
}

/* Whether a row of Q holds NaN or infinity. */
template <class Element, int ROW_CHUNKS> GLINT_DEVICE bool is_special_row(const char *q_row)
{
    bool special = false;

#pragma unroll 1
    for (uint32_t chunk = 0; chunk < ROW_CHUNKS; ++chunk) {
        uint32_t q[4];

        ld_global_u32x4(q, q_row + chunk * 16);
        for (int i = 0; i < 4; ++i)
            special |= finite_part(q[i], Element::EXPONENT, Element::BYTES) != q[i];
    }
    return special;
}

/* What make_delta does for a row that sees no key where LSE does not tell, because it is the sink. Its delta is finite
 * unless dO is not. */
template <class Element, int ROW_CHUNKS, bool CLEARS, class Rows>
GLINT_DEVICE void make_blind_row(const struct glint_gpu_call &p, const struct row_block<Rows> &block, int32_t row)
{
    const int64_t place = place_of(p, block, row);
    const uint32_t zero[4] = {0, 0, 0, 0};

    st_global_f32(p.lse_log2 + place, GLINT_INFINITY);
    if (is_special_row<Element, ROW_CHUNKS>(row_of(p.q, block, row, Element::BYTES)))
        st_global_f32(p.delta + place, GLINT_INFINITY);
    if (CLEARS) {
#pragma unroll 1
        for (uint32_t chunk = 0; chunk < ROW_CHUNKS; ++chunk)
            st_global_u32x4(row_of(p.dq, block, row, Element::BYTES) + chunk * 16, zero);
    }
}

/* A row that sees keys, whose LSE is the sink and whose O is 0. If its Q holds infinities, then its scores are all
 * -inf, and nothing tells. LSE becomes +inf, so that P stays 0 when the infinities have left the tile of Q. Delta tells
 * of them: it is NaN where dO is special, too, and else - dLSE, which becomes -0. With that dS = P (dP - delta) is 0
 * still; with the infinite delta of a row that sees no key it would be NaN. */
template <class Element, int ROW_CHUNKS, class Rows>
GLINT_DEVICE void settle_row_beside_sink(const struct glint_gpu_call &p, const struct row_block<Rows> &block, int32_t row)
{
    const int64_t place = place_of(p, block, row);

    if (!is_special_row<Element, ROW_CHUNKS>(row_of(p.q, block, row, Element::BYTES)))
        return;
    st_global_f32(p.lse_log2 + place, GLINT_INFINITY);
    if (fabsf(ld_global_f32(p.delta + place)) < GLINT_INFINITY)
        st_global_f32(p.delta + place, float_of(GLINT_DELTA_OF_SPECIAL));
}

/* Whether delta may be of a row without weights: its O is 0. */
GLINT_DEVICE bool may_lack_weights(const struct glint_gpu_call &p, float delta)
{
    return p.dlse || !(fabsf(delta) > 0.0f);
}

/* What the rows of a head of a sequence add to `total` of thread 0: exp(sink - LSE) delta. Of a row that sees no key
 * LSE is the sink, and - dLSE counts. Then LSE and delta of those rows whose LSE is the sink, where they should tell
 * more. `sums`: 32 bytes of shared memory. */
template <class Element, int ROW_CHUNKS, bool CLEARS, class Rows, class Band>
GLINT_DEVICE void add_sink_gradient(const struct glint_gpu_call &p, const struct row_block<Rows> &block, const Band &mask,
                                    float sink, uint32_t sums, float &total)
{
    const uint32_t own = sums + warp_index() * 4;
    const float only_sink =
        fabsf(sink) < GLINT_INFINITY ? sink : float_of(0x7fc00000u); /* LSE of a row without weights, if it is one */
    bool some_without = false;
    float sum = 0.0f;

#pragma unroll 4
    for (int32_t row = (int32_t)thread_index(); row < block.at.own.seqlen_q; row += 256) {
        const float lse = ld_global_f32(lse_of(p, block, row));
        const float delta = ld_global_f32(p.delta + place_of(p, block, row));
        const float above = sink - lse; /* 0 at most, but for rounding */

        if (first_key(mask, row) > last_key(mask, row))
            sum -= lse != -GLINT_INFINITY ? dlse_of(p, block, row) : 0.0f;
        else if (lse != -GLINT_INFINITY)
            sum = fmaf(ex2((above > 0.0f ? 0.0f : above) * 1.44269504088896340736f), delta, sum);
        some_without |= lse == only_sink && may_lack_weights(p, delta);
    }
#pragma unroll 1
    for (int32_t row = (int32_t)thread_index(); row < block.at.own.seqlen_q; row += 256)
        if (first_key(mask, row) > last_key(mask, row))
            make_blind_row<Element, ROW_CHUNKS, CLEARS>(p, block, row);
        else if (some_without && ld_global_f32(lse_of(p, block, row)) == only_sink &&
                 may_lack_weights(p, ld_global_f32(p.delta + place_of(p, block, row))))
            settle_row_beside_sink<Element, ROW_CHUNKS>(p, block, row);
#pragma unroll
    for (uint32_t lanes = 1; lanes < 32; lanes *= 2)
        sum += shfl_xor(sum, lanes);
    if (lane_index() == 0)
        st_shared_f32(own, sum);
    block_sync();
    if (thread_index() == 0) {
        float of_batch = 0.0f;

        for (uint32_t warp = 0; warp < 8; ++warp)
            of_batch += ld_shared_f32(sums + warp * 4);
        total += of_batch;
    }
    block_sync();
}

/* The gradient of a head's sink: - sum of exp(sink - LSE) delta over the rows. A block has a head, and
 * sums a sequence after another, each by itself, so that one alone has the same bits. `sums`: 32 bytes of shared
 * memory. */
template <class Element, int ROW_CHUNKS, bool CLEARS, class Rows, class Band>
GLINT_DEVICE void make_sink_gradient(const struct glint_gpu_call &p, uint32_t sums)
{
    const int32_t head_q = (int32_t)block_index();
    const float sink = ld_global_f32(p.sinks + head_q);
    typename Rows::walk walk = Rows::first_of(p);
    float total = 0.0f;

#pragma unroll 1
    for (int32_t number = 0; number < p.shape.batch; ++number) {
        int32_t padded;
        const struct place at = Rows::next(p, walk, number, head_q, padded);

        add_sink_gradient<Element, ROW_CHUNKS, CLEARS>(p, row_block<Rows>{at, padded, 0}, mask_of<Band>(p, at), sink, sums, total);
    }
    if (thread_index() == 0)
        st_global_f32(p.dsinks + head_q, 0.0f - total);
}

#endif
