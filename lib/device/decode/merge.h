/* The second kernel of decode: it folds what the blocks of the first one left in the workspace. */
#ifndef GLINT_DEVICE_DECODE_MERGE_H
#define GLINT_DEVICE_DECODE_MERGE_H

#include "lib/device/decode/results.h"
#include "lib/device/keys.h"

namespace decode
{

/* What a lane of a merge has: one number of row lane % 2 in a column of 16, and warp lane / 2 % 4's sum of that row.
 * The column is lane / 4 + 8 (lane / 2 % 2), and of widened V 2 (lane / 4) + lane / 2 % 2. */
struct merged {
    float maximum, sum, o;
};

GLINT_DEVICE void begin_merged(struct merged &m)
{
    m.maximum = -GLINT_INFINITY;
    m.sum = m.o = 0.0f;
}

/* Without branches: of eight folds after one another only the maxima are a chain. */
GLINT_DEVICE void fold_merged(struct merged &m, const struct merged &more, bool seen)
{
    float maximum = m.maximum, keep, add;

    fold_maximum(maximum, more.maximum, keep, add);
    m.maximum = seen ? maximum : m.maximum;
    m.sum = seen ? fold_number(m.sum, more.sum, keep, add) : m.sum;
    m.o = seen ? fold_number(m.o, more.o, keep, add) : m.o;
}

template <class S, class Rows>
GLINT_DEVICE void store_merged(const struct glint_decode_params &p, const struct row_tile &t, int32_t rows, int32_t row0,
                               int32_t dt, const struct merged &m, float sink, bool sees)
{
    const uint32_t lane = lane_index();
    const bool upper = (lane >> 1 & 2) != 0, odd = (lane >> 1 & 1) != 0;
    const float next = shfl_xor(m.sum, 2), far = shfl_xor(m.sum, 4), last = shfl_xor(m.sum, 6);
    const float low[2] = {odd ? next : m.sum, odd ? m.sum : next}, high[2] = {odd ? last : far, odd ? far : last};
    /* the sums of warps 0, 1, 2 and 3 in this order */
    const float sum = upper ? high[0] + high[1] + low[0] + low[1] : low[0] + low[1] + high[0] + high[1];
    const int32_t row = row0 + (int32_t)(lane & 1);
    const struct ending end = end_row(m.maximum, sum, sink, sees);
    const float mine = m.o * end.factor, other = shfl_xor(mine, S::WIDENED ? 2 : 4);
    const int32_t column = dt * 16 + (S::WIDENED ? (int32_t)(lane >> 2) * 2 + (int32_t)(lane >> 1 & 1)
                                                 : (int32_t)(lane >> 1 & 1) * 8 + (int32_t)(lane >> 2));

    if (row < rows) {
        if ((lane >> (S::WIDENED ? 1 : 2) & 1) == 0 && column < S::HEAD_DIM)
            st_global_u32(query_row<S, Rows>(p, p.o, t, row) + column * S::BYTES, S::element::pack(mine, other));
        if (dt == 0 && lane < 2) {
            store_lse<Rows>(p, t, row, end.lse);
            note_logit<S>(p, t, row, m.maximum);
        }
    }
}

/* A block takes 16 columns of two neighbouring rows, a lane one number; a warp folds the steps of a chunk, the chunks
 * of a span or takes a span, and the first warp folds the results of all. */
template <class S, class Rows> GLINT_DEVICE void merge(const struct glint_decode_params &p)
{
    const uint32_t lane = lane_index(), warp = warp_index();
    const uint32_t pairs = (uint32_t)(p.rows + 1) / 2;
    const uint32_t by_pair = block_index() / S::DIM_TILES, by_head = by_pair / pairs, pair = by_pair - by_head * pairs;
    const int32_t dt = (int32_t)(block_index() - by_pair * S::DIM_TILES);
    const int32_t batch = (int32_t)(by_head / (uint32_t)p.shape.heads_kv);
    const int32_t first_row = (int32_t)(2 * pair) % S::TILE_M, rt = first_row / 8;
    struct row_tile tile =
        find_tile<S>(p, batch, (int32_t)(by_head - (uint32_t)batch * (uint32_t)p.shape.heads_kv), (int32_t)(2 * pair) / S::TILE_M);
    const uint32_t numbers = shared_base() + lane * 16; /* [warp][lane]: struct merged */
    const int64_t o_step = S::TILE_M * S::DIM_PADDED, row_step = S::TILE_M * S::ROW_FLOATS;
    const float *const o_at = partial_o_at<S>(p, tile.index, 0, rt, dt) + (first_row % 8 / 2) * 32 + lane;
    const float *const row_at = partial_row_at<S>(p, tile.index, 0, first_row + (int32_t)(lane & 1));
    const float *const sum_at = row_at + S::WARPS + (lane >> 1 & 3);
    const bool by_step = p.level == GLINT_DECODE_STEP;
    const int32_t entry_keys = steps_of_entry<S>(p) * S::TILE_N, group = entries_of_group<S>(p);
    struct merged row; /* so far: the first warp */

    admit_successors();
    await_predecessors();

    const float sink = find_sink(p, tile, tile.row0 + first_row + (int32_t)(lane & 1));
    const struct sequence_rows own = Rows::template sequence_at<linear_or_paged>(p, tile.batch);
    if (tile.row0 + first_row >= own.rows)
        return;
    tile.first_q = own.first_q;
    find_keys<S, Rows>(p, tile, own);
    const int32_t mine_row = min(own.rows - 1, tile.row0 + first_row + (int32_t)(lane & 1));
    const int32_t next = min(own.rows - 1, tile.row0 + first_row + 1);
    int32_t begin = begin_of_row<S>(p, mine_row, own), end = end_of_row<S>(p, mine_row, own);
    int32_t most = end_of_row<S>(p, next, own); /* of the two rows */

    if constexpr (S::mask::INTERVALS) {
        const struct key_range keys = keys_of_row<S, Rows, false>(p, tile, mine_row, own);

        begin = keys.first;
        end = keys.end;
        most = max(end, of_lane(end, 1));
    }
    const int32_t left = first_entry<S>(p, tile, own), round = S::MERGE_WARPS * group;
    auto seen = [&](int32_t entry, int32_t entries) {
        return entry * entry_keys < end && (!S::mask::LEFT || (entry + entries) * entry_keys > begin);
    };

    begin_merged(row);
#pragma unroll 1
    for (int32_t first = left / round * round; first * entry_keys < most; first += round) {
        const int32_t mine = first + (int32_t)warp * group;
        struct merged part, more[S::SPAN_CHUNKS];

#pragma unroll
        for (int i = 0; i < S::SPAN_CHUNKS; ++i) {
            begin_merged(more[i]);
            if (i < group && seen(mine + i, 1)) {
                more[i].maximum = ld_global_f32(row_at + (mine + i - left) * row_step);
                more[i].sum = ld_global_f32(sum_at + (mine + i - left) * row_step);
                more[i].o = ld_global_f32(o_at + (mine + i - left) * o_step);
            }
        }
        begin_merged(part);
#pragma unroll
        for (int i = 0; i < S::SPAN_CHUNKS; ++i)
            fold_merged(part, more[i], i < group && seen(mine + i, 1));

        const uint32_t v[4] = {bits_of(part.maximum), bits_of(part.sum), bits_of(part.o), 0};

        st_shared_u32x4(numbers + warp * (32 * 16), v);
        block_sync();
        if (warp == 0) {
            struct merged sum = row;

            if (by_step)
                begin_merged(sum);
#pragma unroll
            for (int i = 0; i < S::MERGE_WARPS; ++i) {
                uint32_t w[4];

                ld_shared_u32x4(w, numbers + i * (32 * 16));

                const struct merged one = {float_of(w[0]), float_of(w[1]), float_of(w[2])};

                fold_merged(sum, one, seen(first + i * group, group));
            }
            if (by_step)
                fold_merged(row, sum, seen(first, round));
            else
                row = sum;
        }
        block_sync();
    }
    if (warp == 0)
        store_merged<S, Rows>(p, tile, own.rows, tile.row0 + first_row, dt, row, sink, end > begin);
}

} // namespace decode

#endif
