/* Masks of which each query has bounds of its own: an interval of keys, which the call gives, beside the band. What a
 * query sees is a range of keys all the same, so nothing else in a kernel knows of it:
 *
 *     interval_mask     as the call gives it, in global memory: for kernels that look at each row once
 *     tile_intervals    of the queries of a tile, in shared memory: for kernels that hide scores
 *
 * Ranges are exact: cut to the band and to the keys that there are. One that is empty begins at seqlen_k and ends at 0,
 * so that the least and the largest bound of several are those of the others. Forward and dQ make the ranges of their
 * own queries. The kernel for dK and dV walks over all queries, in each of many blocks; so the first kernel of the
 * backward pass leaves the ranges in the workspace, and of each block of queries the least and the largest bounds. */
#ifndef GLINT_DEVICE_INTERVALS_H
#define GLINT_DEVICE_INTERVALS_H

#include "lib/device/sequences.h"
#include "lib/device/steps.h"

struct key_range {
    int32_t first, end;
};

/* ---- as the call gives them -------------------------------------------------------------------------------------- */

struct interval_mask {
    static constexpr bool LEFT = true, RIGHT = true, INTERVALS = true, TREE = false;
    window_mask beside;
    const int32_t *begin, *end; /* of the sequence's queries */
    int32_t seqlen_q, seqlen_k;
};

/* The mask of a sequence whose query 0 has row `row` in the arrays of the call. */
template <class Band, class Call> GLINT_DEVICE Band mask_of(const Call &p, const struct sequence &own, int64_t row)
{
    if constexpr (Band::TREE)
        return Band::of(p, own, row);
    else if constexpr (Band::INTERVALS)
        return {mask_of<window_mask>(own), p.key_begin + row, p.key_end + row, own.seqlen_q, own.seqlen_k};
    else
        return mask_of<Band>(own);
}

/* The mask of a block's sequence. */
template <class Band> GLINT_DEVICE Band mask_of(const struct glint_gpu_call &p, const struct place &at)
{
    return mask_of<Band>(p, at.own, (int64_t)at.batch * p.shape.seqlen_q + at.first_q); /* one of the two is 0 */
}

/* What a query sees of the interval that the call gives it. */
GLINT_DEVICE struct key_range cut_to_band(const window_mask &band, int32_t query, const struct key_range &interval)
{
    struct key_range keys = {band.seqlen_k, 0};
    const int32_t first = max(first_key(band, query), interval.first), end = min(last_key(band, query) + 1, interval.end);

    if (first < end)
        keys = {first, end};
    return keys;
}

/* What a query sees; a row past the end sees nothing. */
GLINT_DEVICE struct key_range keys_of_query(const struct interval_mask &mask, int32_t query)
{
    struct key_range keys = {mask.beside.seqlen_k, 0};

    if (query < mask.seqlen_q)
        keys = cut_to_band(mask.beside, query, {int_at(mask.begin, query), int_at(mask.end, query)});
    return keys;
}

GLINT_DEVICE bool sees(const struct interval_mask &mask, int32_t query0, int32_t i, int32_t key0, int32_t j)
{
    const struct key_range keys = keys_of_query(mask, query0 + i);

    return key0 + j >= keys.first && key0 + j < keys.end;
}

GLINT_DEVICE bool sees(const struct interval_mask &mask, int32_t query, int32_t key)
{
    return sees(mask, query, 0, key, 0);
}

/* ---- several queries --------------------------------------------------------------------------------------------- */

/* Some query sees the first key of `all`, some query the last one; each query sees those from `late` to early - 1. */
struct key_bounds {
    struct key_range all;
    int32_t late, early;
};

GLINT_DEVICE struct key_bounds bounds_of_none(int32_t seqlen_k)
{
    return {{seqlen_k, 0}, 0, seqlen_k};
}

GLINT_DEVICE void join(struct key_bounds &bounds, const struct key_bounds &others)
{
    bounds.all = {min(bounds.all.first, others.all.first), max(bounds.all.end, others.all.end)};
    bounds.late = max(bounds.late, others.late);
    bounds.early = min(bounds.early, others.early);
}

GLINT_DEVICE void add_query(struct key_bounds &bounds, const struct key_range &keys)
{
    join(bounds, {keys, keys.first, keys.end});
}

/* From the first key that some lane's range has to the last one, in each lane. */
GLINT_DEVICE void join_lanes(struct key_range &keys)
{
#pragma unroll
    for (uint32_t lanes = 1; lanes < 32; lanes *= 2)
        keys = {min(keys.first, of_lane(keys.first, lanes)), max(keys.end, of_lane(keys.end, lanes))};
}

/* Joins the bounds of lanes of a warp, whose numbers differ by `from` and its doubles below `to` alone, and leaves the
 * result in each of them. */
template <uint32_t from, uint32_t to> GLINT_DEVICE void join_lanes(struct key_bounds &bounds)
{
#pragma unroll
    for (uint32_t lanes = from; lanes < to; lanes *= 2) {
        bounds.all.first = min(bounds.all.first, of_lane(bounds.all.first, lanes));
        bounds.all.end = max(bounds.all.end, of_lane(bounds.all.end, lanes));
        bounds.late = max(bounds.late, of_lane(bounds.late, lanes));
        bounds.early = min(bounds.early, of_lane(bounds.early, lanes));
    }
}

GLINT_DEVICE void join_lanes(struct key_bounds &bounds)
{
    join_lanes<1, 32>(bounds);
}

/* Whether some query may see one of the keys from key0 to key0 + keys - 1; whether each sees all of them. */
GLINT_DEVICE bool reaches(const struct key_range &all, int32_t key0, int32_t keys)
{
    return all.first < key0 + keys && all.end > key0;
}

GLINT_DEVICE bool covers(const struct key_bounds &bounds, int32_t key0, int32_t keys)
{
    return bounds.late <= key0 && bounds.early >= key0 + keys;
}

/* ---- of a tile of queries ---------------------------------------------------------------------------------------- */

struct tile_intervals {
    static constexpr bool LEFT = true, RIGHT = true, INTERVALS = true, TREE = false;
    uint32_t rows; /* shared address of the range of query 0, were it there */
    int32_t seqlen_q, seqlen_k;
};

enum { RANGE_BYTES = 8 }; /* of a query */

GLINT_DEVICE void put_range(uint32_t address, const struct key_range &keys)
{
    st_shared_f32x2(address, float_of((uint32_t)keys.first), float_of((uint32_t)keys.end));
}

GLINT_DEVICE struct key_range range_at(uint32_t address)
{
    float keys[2];

    ld_shared_f32x2(keys, address);
    return {(int32_t)bits_of(keys[0]), (int32_t)bits_of(keys[1])};
}

GLINT_DEVICE struct key_range keys_of_query(const struct tile_intervals &mask, int32_t query)
{
    return range_at(mask.rows + (uint32_t)query * RANGE_BYTES);
}

/* The mask of the queries from at.row0 on, whose ranges lie at `ranges`. */
template <class Band> GLINT_DEVICE auto mask_of_tile(const struct place &at, uint32_t ranges)
{
    if constexpr (Band::INTERVALS)
        return tile_intervals{ranges - (uint32_t)at.row0 * RANGE_BYTES, at.own.seqlen_q, at.own.seqlen_k};
    else
        return mask_of<Band>(at.own);
}

/* The mask of queries from query0 on, of a sequence's mask, whose ranges lie at `ranges`. */
template <class Band> GLINT_DEVICE auto mask_of_tile(const Band &mask, int32_t query0, uint32_t ranges)
{
    if constexpr (Band::INTERVALS) {
        const tile_intervals tile = {ranges - (uint32_t)query0 * RANGE_BYTES, mask.seqlen_q, mask.seqlen_k};

        if constexpr (Band::TREE)
            return Band::tile_of(mask, tile);
        else
            return tile;
    } else
        return mask;
}

/* The same of TILE queries, whose ranges go to `ranges`, by all threads of the block. */
template <int TILE, int THREADS, class Band> GLINT_DEVICE auto make_mask_of_tile(const Band &mask, int32_t query0, uint32_t ranges)
{
    if constexpr (Band::INTERVALS) {
        for (int32_t row = (int32_t)thread_index(); row < TILE; row += THREADS)
            put_range(ranges + (uint32_t)row * RANGE_BYTES, keys_of_query(mask, query0 + row));
        block_sync();
    }
    return mask_of_tile(mask, query0, ranges);
}

template <class Band, int TILE, int THREADS>
GLINT_DEVICE auto make_mask_of_tile(const struct glint_gpu_call &p, const struct place &at, uint32_t ranges)
{
    return make_mask_of_tile<TILE, THREADS>(mask_of<Band>(p, at), at.row0, ranges);
}

/* Whether a query sees one of the keys from key0 to key0 + keys - 1. */
GLINT_DEVICE bool reaches(const struct tile_intervals &mask, int32_t query, int32_t key0, int32_t keys)
{
    return reaches(keys_of_query(mask, query), key0, keys);
}

GLINT_DEVICE bool sees(const struct tile_intervals &mask, int32_t query0, int32_t i, int32_t key0, int32_t j)
{
    const struct key_range keys = keys_of_query(mask, query0 + i);

    return key0 + j >= keys.first && key0 + j < keys.end;
}

GLINT_DEVICE bool sees(const struct tile_intervals &mask, int32_t query, int32_t key)
{
    return sees(mask, query, 0, key, 0);
}

/* Blocks of TILE_N keys of queries with these bounds. */
template <int TILE_N> GLINT_DEVICE struct key_blocks<interval_mask> blocks_of(const struct key_bounds &bounds) {
    struct key_blocks<interval_mask> blocks;

    blocks.first = bounds.all.first / TILE_N;
    blocks.last = (bounds.all.end + TILE_N - 1) / TILE_N - 1;
    blocks.whole_from = (bounds.late + TILE_N - 1) / TILE_N;
    blocks.hidden_from = bounds.early / TILE_N;
    return blocks;
}

/* A warp finds them together. */
template <int TILE_N>
GLINT_DEVICE struct key_blocks<interval_mask> find_key_blocks(const struct tile_intervals &mask, int32_t first_query,
                                                              int32_t last_query) {
    struct key_bounds bounds = bounds_of_none(mask.seqlen_k);

    for (int32_t query = first_query + (int32_t)lane_index(); query <= last_query; query += 32)
        add_query(bounds, keys_of_query(mask, query));
    join_lanes(bounds);
    return blocks_of<TILE_N>(bounds);
}

/* A warp looks at each of its queries, so that no register waits for it. */
template <int TILE_N>
GLINT_DEVICE bool hides_all(const struct tile_intervals &mask, int32_t query0, const int32_t queries, int32_t block)
{
    bool some = false;

    for (int32_t row = (int32_t)lane_index(); row < queries; row += 32)
        some |= reaches(keys_of_query(mask, query0 + row), block * TILE_N, TILE_N);
    return !warp_any(some);
}

template <int ROWS, int COLUMNS>
GLINT_DEVICE void hide_keys(float (&s)[ROWS][COLUMNS][4], const struct tile_intervals &mask, int32_t first_query, int32_t first,
                            const float hidden)
{
#pragma unroll
    for (int rt = 0; rt < ROWS; ++rt)
#pragma unroll
        for (int side = 0; side < 2; ++side) {
            const struct key_range keys = keys_of_query(mask, first_query + rt * 16 + side * 8 + (int32_t)(lane_index() >> 2));
            const int32_t own = first + 2 * (int32_t)(lane_index() & 3), begin = keys.first - own, end = keys.end - own;
#pragma unroll
            for (int nt = 0; nt < COLUMNS; ++nt) {
                s[rt][nt][2 * side] = nt * 8 >= end || nt * 8 < begin ? hidden : s[rt][nt][2 * side];
                s[rt][nt][2 * side + 1] = nt * 8 + 1 >= end || nt * 8 + 1 < begin ? hidden : s[rt][nt][2 * side + 1];
            }
        }
}

/* ---- the other way round: which queries see a key ---------------------------------------------------------------- */

/* Ranges of a step's queries, from the first one on, as seen from key `key0`. */
struct step_intervals {
    uint32_t rows;
    int32_t key0;
};

GLINT_DEVICE bool sees(const struct step_intervals &here, int32_t query, int32_t key)
{
    return sees(tile_intervals{here.rows, 0, 0}, 0, query, here.key0, key);
}

template <int TILE_M, int ROWS, int COLUMNS>
GLINT_DEVICE void hide_queries(float (&s)[ROWS][COLUMNS][4], const struct tile_intervals &mask, int32_t first_key,
                               int32_t first_query)
{
    const uint32_t lane = thread_index_anew() % 32;
    const int32_t key = first_key + (int32_t)(lane >> 2);

#pragma unroll
    for (int mt = 0; mt < COLUMNS; ++mt) {
        uint32_t keys[4]; /* of two queries */

        ld_shared_u32x4(keys, mask.rows + (uint32_t)(first_query + mt * 8 + 2 * (int32_t)(lane & 3)) * RANGE_BYTES);
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            const int32_t begin = (int32_t)keys[2 * e] - key, end = (int32_t)keys[2 * e + 1] - key;
#pragma unroll
            for (int kt = 0; kt < ROWS; ++kt)
#pragma unroll
                for (int side = 0; side < 2; ++side) {
                    const int row = kt * 16 + side * 8;

                    s[kt][mt][2 * side + e] = row >= end || row < begin ? 0.0f : s[kt][mt][2 * side + e];
                }
        }
    }
}

/* ---- in the workspace -------------------------------------------------------------------------------------------- */

/* Where the rows of a block's sequence begin in the arrays that all heads share. */
template <class Rows> GLINT_DEVICE int64_t first_range(const struct glint_gpu_call &p, const struct place &at, uint32_t kept)
{
    return (int64_t)at.batch * p.padded_q + Rows::padded_first_of(kept);
}

/* The bounds of TILE_M queries, from such a row on. */
template <int TILE_M> GLINT_DEVICE struct key_bounds bounds_at(const struct glint_gpu_call &p, int64_t row)
{
    uint32_t bounds[4];

    ld_global_u32x4(bounds, p.block_keys + row / TILE_M * 4);
    return {{(int32_t)bounds[0], (int32_t)bounds[1]}, (int32_t)bounds[2], (int32_t)bounds[3]};
}

/* The first kernel leaves the ranges of the GLINT_GPU_ROW_PAD queries of a block, whose mask this is, and the bounds of
 * each TILE_M of them. Of a fused variant the turn of each of these begins at the first block of TILE_N keys that one
 * of them sees. `row`: of the arrays that heads share; `turn`: of the block's first TILE_M queries. */
template <int TILE_M, int TILE_N, bool FUSED>
GLINT_DEVICE void leave_intervals(const struct glint_gpu_call &p, const struct place &at, const struct interval_mask &mask,
                                  int64_t row, int64_t turn)
{
    const int32_t group = (int32_t)warp_index(), lane = (int32_t)lane_index();
    struct key_bounds bounds = bounds_of_none(mask.beside.seqlen_k);

    if (group >= GLINT_GPU_ROW_PAD / TILE_M)
        return;
    for (int32_t i = lane; i < TILE_M; i += 32) {
        const int32_t own = group * TILE_M + i;
        const struct key_range keys = keys_of_query(mask, at.row0 + own);

        if (at.head == 0)
            st_global_f32x2(p.row_keys + (row + own) * 2, float_of((uint32_t)keys.first), float_of((uint32_t)keys.end));
        if (at.row0 + own < mask.seqlen_q)
            add_query(bounds, keys);
    }
    join_lanes(bounds);
    if (lane == 0 && at.head == 0) {
        const uint32_t all[4] = {(uint32_t)bounds.all.first, (uint32_t)bounds.all.end, (uint32_t)bounds.late,
                                 (uint32_t)bounds.early};

        st_global_u32x4(p.block_keys + (row / TILE_M + group) * 4, all);
    }
    if (FUSED && lane == 0)
        st_global_u32(p.turn + turn + group, (uint32_t)(bounds.all.first / TILE_N * TILE_N));
}

/* Blocks of queries that see some of TILE_N keys, as in query_blocks; those from clear_from to clear_to are the first
 * ones in a row that see all of them. gaps: some block between the first and the last sees none. */
struct seen_blocks : query_blocks {
    bool gaps;
};

/* A warp finds them together. */
template <class Rows, int TILE_M, int TILE_N>
GLINT_DEVICE struct seen_blocks find_seen_blocks(const struct glint_gpu_call &p, const struct place &at, uint32_t kept)
{
    const int64_t first = first_range<Rows>(p, at, kept);
    const int32_t count = (at.own.seqlen_q + TILE_M - 1) / TILE_M;
    struct key_bounds found = {{count, 0}, 0, count}; /* all: blocks that see some; early: the first that sees all */
    int32_t seen = 0, hides = count;

    for (int32_t m = (int32_t)lane_index(); m < count; m += 32) {
        const struct key_bounds bounds = bounds_at<TILE_M>(p, first + m * TILE_M);

        if (reaches(bounds.all, at.row0, TILE_N)) {
            found.all = {min(found.all.first, m), m + 1};
            ++seen;
        }
        if (covers(bounds, at.row0, TILE_N))
            found.early = min(found.early, m);
    }
    join_lanes(found);
    for (int32_t m = (int32_t)lane_index(); m < count; m += 32)
        if (m > found.early && !covers(bounds_at<TILE_M>(p, first + m * TILE_M), at.row0, TILE_N))
            hides = min(hides, m);
#pragma unroll
    for (uint32_t lanes = 1; lanes < 32; lanes *= 2) {
        seen += of_lane(seen, lanes);
        hides = min(hides, of_lane(hides, lanes));
    }
    return {{found.all.first, found.all.end - 1, found.early, hides - 1}, seen < found.all.end - found.all.first};
}

/* Begins the part of `thread` in the copy of the ranges of block m of the queries. */
template <class Rows, int TILE_M>
GLINT_DEVICE void copy_ranges(uint32_t thread, const struct glint_gpu_call &p, const struct place &work, uint32_t kept, int32_t m,
                              uint32_t to)
{
    const int64_t row = first_range<Rows>(p, Rows::place_again(work, kept), kept) + m * TILE_M;

    if (thread < TILE_M * RANGE_BYTES / 16)
        cp_async_16(to + thread * 16, p.row_keys + row * 2 + thread * 4, true);
}

#endif
