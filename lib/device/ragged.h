/* Ragged sequences, one after another in the rows of a tensor: the kernel reads where each begins, and finds by a
 * block's number what it works on. Blocks take the tiles of a sequence, all heads of it together; sequences go in
 * groups of 32, and of a group those with the most to walk over come first. Blocks beyond the last tile have nothing to
 * do: how many tiles there are is known on the device alone. */
#ifndef GLINT_DEVICE_RAGGED_H
#define GLINT_DEVICE_RAGGED_H

#include "lib/device/lengths.h"

/* Queries or keys of a call. */
struct ragged_side {
    const int32_t *first, *lengths; /* [batch + 1]; [batch], or NULL: all rows of a sequence */
    int32_t rows, bound;            /* of all sequences; of one */
};

GLINT_DEVICE struct ragged_side queries_of(const struct glint_gpu_sequences &r, const struct glint_gpu_shape &shape)
{
    return {r.first_q, r.seqlens_q, r.rows_q, shape.seqlen_q};
}

/* Keys of a call in pages: those of a sequence begin nowhere in a tensor, its row of the table says where they are. */
struct paged_side {
    const int32_t *lengths; /* [batch] */
    int32_t bound;
};

template <bool PAGED = false> GLINT_DEVICE auto keys_of(const struct glint_gpu_sequences &r, const struct glint_gpu_shape &shape)
{
    if constexpr (PAGED)
        return paged_side{r.seqlens_k, shape.seqlen_k};
    else
        return ragged_side{r.first_k, r.seqlens_k, r.rows_k, shape.seqlen_k};
}

GLINT_DEVICE int32_t int_at(const int32_t *array, int32_t index)
{
    return (int32_t)bits_of(ld_global_f32((const float *)(const void *)(array + index)));
}

/* First row `index`, as far as it lies in the tensor. */
GLINT_DEVICE int32_t row_at(const struct ragged_side &side, int32_t index)
{
    return within(int_at(side.first, index), side.rows);
}

GLINT_DEVICE int32_t row_at(const struct paged_side &, int32_t)
{
    return 0;
}

/* How many of the rows from `at` to `end` a sequence has. */
GLINT_DEVICE int32_t rows_of(const struct ragged_side &side, int32_t sequence, int32_t at, int32_t end)
{
    const int32_t room = min(end - at, side.bound);

    return side.lengths ? within(int_at(side.lengths, sequence), room) : room;
}

GLINT_DEVICE int32_t of_lane(int32_t value, uint32_t lane_mask)
{
    return (int32_t)bits_of(shfl_xor(float_of((uint32_t)value), lane_mask));
}

/* The largest `value` of the lanes before this one, at least `most`, which becomes the largest of all. */
GLINT_DEVICE int32_t most_before(int32_t value, int32_t &most)
{
    int32_t before = most;

#pragma unroll
    for (uint32_t mask = 1; mask < 32; mask *= 2) {
        const int32_t other = of_lane(value, mask);

        before = (lane_index() & mask) != 0 ? max(before, other) : before;
        value = max(value, other);
    }
    most = max(most, value);
    return before;
}

/* The sum of `value` over the lanes before this one; `all`: over all lanes; of_group: over the GROUP lanes of which
 * this is one. */
template <int GROUP> GLINT_DEVICE uint32_t count_before(uint32_t value, uint32_t &all, uint32_t &of_group)
{
    uint32_t before = 0;

    all = value;
#pragma unroll
    for (uint32_t mask = 1; mask < 32; mask *= 2) {
        const uint32_t others = (uint32_t)of_lane((int32_t)all, mask);

        before += (lane_index() & mask) != 0 ? others : 0;
        all += others;
        of_group = mask == GROUP / 2 ? all : of_group;
    }
    return before;
}

GLINT_DEVICE uint32_t count_before(uint32_t value, uint32_t &all)
{
    uint32_t of_group;

    return count_before<32>(value, all, of_group);
}

/* Where the rows of a lane's sequence lie: of sequence begin + lane, or of none beyond the batch. No sequence begins
 * before those ahead of it have ended: `most` is where the one before `begin` ends, and becomes where the last of these
 * does. */
struct ragged_rows {
    int32_t at, end, length;
};

template <class Side> GLINT_DEVICE struct ragged_rows find_rows(const Side &side, int32_t batch, int32_t begin, int32_t &most)
{
    const int32_t sequence = begin + (int32_t)lane_index();
    struct ragged_rows own;

    own.end = row_at(side, min(sequence + 1, batch));
    own.at = most_before(own.end, most);
    own.end = max(own.at, own.end);
    own.length = sequence < batch ? rows_of(side, sequence, own.at, own.end) : 0;
    return own;
}

/* In pages `at` is the sequence. */
GLINT_DEVICE struct ragged_rows find_rows(const struct paged_side &side, int32_t batch, int32_t begin, int32_t &)
{
    const int32_t sequence = begin + (int32_t)lane_index();

    return {sequence, sequence, sequence < batch ? within(int_at(side.lengths, sequence), side.bound) : 0};
}

/* The rows of one sequence. For its first row the lanes of a warp look through all sequences before it together. */
GLINT_DEVICE struct ragged_rows find_rows_of(const struct ragged_side &side, int32_t sequence)
{
    struct ragged_rows own = {0, 0, 0};

#pragma unroll 4
    for (int32_t i = (int32_t)lane_index(); i <= sequence; i += 32)
        own.at = max(own.at, row_at(side, i));
#pragma unroll
    for (uint32_t mask = 1; mask < 32; mask *= 2)
        own.at = max(own.at, of_lane(own.at, mask));
    own.end = max(own.at, row_at(side, sequence + 1));
    own.length = rows_of(side, sequence, own.at, own.end);
    return own;
}

/* Is something wrong with what the call says of it? */
GLINT_DEVICE bool are_wrong(const struct ragged_side &side, int32_t sequence, const struct ragged_rows &own)
{
    return own.at != int_at(side.first, sequence) || own.end != int_at(side.first, sequence + 1) ||
           own.length != (side.lengths ? int_at(side.lengths, sequence) : own.end - own.at);
}

GLINT_DEVICE bool are_wrong(const struct paged_side &side, int32_t sequence, const struct ragged_rows &own)
{
    return own.length != int_at(side.lengths, sequence);
}

/* Lowers the word for a fault to the first sequence with a first row or a length that is none. One warp of the grid
 * calls it. */
template <bool PAGED = false>
GLINT_DEVICE void note_ragged_fault(const struct glint_gpu_sequences &r, const struct glint_gpu_shape &shape)
{
    const struct ragged_side queries = queries_of(r, shape);
    const auto keys = keys_of<PAGED>(r, shape);
    int32_t most_q = 0, most_k = 0;
    bool wrong = false;

    most_q = row_at(queries, 0);
    most_k = row_at(keys, 0);
#pragma unroll 1
    for (int32_t begin = 0; begin < shape.batch && !warp_any(wrong); begin += 32) {
        const int32_t sequence = begin + (int32_t)lane_index();
        const struct ragged_rows q = find_rows(queries, shape.batch, begin, most_q),
                                 k = find_rows(keys, shape.batch, begin, most_k);

        wrong = sequence < shape.batch && (are_wrong(queries, sequence, q) || are_wrong(keys, sequence, k));
        if (wrong)
            atomicMin(r.fault, (uint32_t)sequence);
    }
}

/* 32 sequences from `begin` on, and what is before them: where they may begin, and blocks. */
struct ragged_group {
    int32_t begin, most_q, most_k;
    uint32_t blocks;
};

/* The group that block `number` is of, whose tiles are of `side`: the keys with KEYS, else the queries. Groups are
 * passed over EACH at a time: a lane has EACH sequences of them, which take registers. `scratch`: 16 bytes of shared
 * memory, which the warp alone uses. */
template <int TILE, bool KEYS, int EACH, class Side, class Other>
GLINT_DEVICE struct ragged_group find_group(const Side &side, const Other &other_side, const struct glint_gpu_shape &shape,
                                            uint32_t number, uint32_t heads, uint32_t scratch)
{
    int32_t most = row_at(side, 0), other_most = row_at(other_side, 0), begin = 0;
    uint32_t blocks = 0;

#pragma unroll 1
    while (begin + 32 < shape.batch) {
        const int32_t first = begin + (int32_t)lane_index() * EACH;
        int32_t ends[EACH], last = 0, other_last = 0, tiles = 0;

#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            ends[i] = row_at(side, min(first + i + 1, shape.batch));
            last = max(last, ends[i]);
            other_last = max(other_last, row_at(other_side, min(first + i + 1, shape.batch)));
        }
        const int32_t from = most_before(last, most), other_from = most_before(other_last, other_most);
        int32_t at = from;

#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            const int32_t end = max(at, ends[i]);

            if (first + i < shape.batch)
                tiles += (rows_of(side, first + i, at, end) + TILE - 1) / TILE;
            at = end;
        }

        uint32_t all, of_group;
        const uint32_t before = count_before<32 / EACH>((uint32_t)tiles, all, of_group);
        const uint32_t rest = number - blocks;
        const bool here = lane_index() % (32 / EACH) == 0 && rest >= before * heads && rest < (before + of_group) * heads;

        if (here) {
            const uint32_t found[4] = {(uint32_t)first, (uint32_t)(KEYS ? other_from : from), (uint32_t)(KEYS ? from : other_from),
                                       blocks + before * heads};

            st_shared_u32x4(scratch, found);
        }
        if (warp_any(here)) {
            uint32_t found[4];

            warp_sync();
            ld_shared_u32x4(found, scratch);
            warp_sync();
            return {(int32_t)found[0], (int32_t)found[1], (int32_t)found[2], found[3]};
        }
        blocks += all * heads;
        begin += 32 * EACH;
    }
    return {begin, KEYS ? other_most : most, KEYS ? most : other_most, blocks};
}

/* What a block works on: rows of a tile from row0 of the sequence on, and the sequence as a problem by itself, which
 * begins at rows first_q and first_k of the tensors; with keys in pages first_k is which sequence it is. row0 below 0:
 * nothing. */
struct ragged_tile {
    int32_t row0, head, first_q, first_k;
    struct sequence own;
};

/* Where the rows of a sequence begin in arrays that hold whole GLINT_GPU_ROW_PAD of each. */
GLINT_DEVICE int32_t padded_first(int32_t first_q, int32_t sequence)
{
    return (int32_t)(((uint32_t)first_q + (uint32_t)sequence * GLINT_GPU_ROW_PAD) / GLINT_GPU_ROW_PAD * GLINT_GPU_ROW_PAD);
}

/* It waits in 32 bytes of shared memory, the first 16 of them as put_mask leaves them. */
GLINT_DEVICE void put_ragged_tile(uint32_t address, const struct ragged_tile &tile)
{
    const uint32_t mask[4] = {(uint32_t)tile.own.left, (uint32_t)tile.own.right, (uint32_t)tile.own.seqlen_q,
                              (uint32_t)tile.own.seqlen_k};
    const uint32_t place[4] = {(uint32_t)tile.row0, (uint32_t)tile.head, (uint32_t)tile.first_q, (uint32_t)tile.first_k};

    st_shared_u32x4(address, mask);
    st_shared_u32x4(address + 16, place);
}

GLINT_DEVICE struct ragged_tile get_ragged_tile(uint32_t address)
{
    uint32_t mask[4], place[4];

    ld_shared_u32x4(mask, address);
    ld_shared_u32x4(place, address + 16);
    return {(int32_t)place[0],
            (int32_t)place[1],
            (int32_t)place[2],
            (int32_t)place[3],
            {(int32_t)mask[2], (int32_t)mask[3], (int32_t)mask[0], (int32_t)mask[1]}};
}

/* Finds the tile of block `number` of those of TILE queries, or keys, of `heads` heads: one lane calls put(tile,
 * sequence), where the sides of its band are not known yet. One warp calls it. `scratch`: 256 bytes of shared memory.
 * Of a head the last queries come first, as under a causal mask they see the most keys; keys come in their order.
 * `section`: see find_place; EACH: find_group. */
template <int TILE, bool KEYS, int EACH, class Queries, class Keys, class Put>
GLINT_DEVICE void find_tile(const Queries &queries, const Keys &keys, const struct glint_gpu_shape &shape, uint32_t number,
                            int32_t heads, int32_t section, uint32_t scratch, Put put)
{
    const int32_t lane = (int32_t)lane_index();
    struct ragged_group group;

    if constexpr (KEYS)
        group = find_group<TILE, true, EACH>(keys, queries, shape, number, (uint32_t)heads, scratch);
    else
        group = find_group<TILE, false, EACH>(queries, keys, shape, number, (uint32_t)heads, scratch);

    const struct ragged_rows q = find_rows(queries, shape.batch, group.begin, group.most_q);
    const struct ragged_rows k = find_rows(keys, shape.batch, group.begin, group.most_k);
    const int32_t tiles = ((KEYS ? k.length : q.length) + TILE - 1) / TILE, work = KEYS ? q.length : k.length;
    const uint32_t rest = number - group.blocks;
    uint32_t before = 0;

    st_shared_u32(scratch + (uint32_t)lane * 8, (uint32_t)work);
    st_shared_u32(scratch + (uint32_t)lane * 8 + 4, (uint32_t)tiles);
    warp_sync();
#pragma unroll 4
    for (int32_t i = 0; i < 32; i += 2) {
        uint32_t two[4]; /* work and tiles */

        ld_shared_u32x4(two, scratch + (uint32_t)i * 8);
        before += (int32_t)two[0] > work || ((int32_t)two[0] == work && i < lane) ? two[1] : 0;
        before += (int32_t)two[2] > work || ((int32_t)two[2] == work && i + 1 < lane) ? two[3] : 0;
    }
    const bool here = rest >= before * (uint32_t)heads && rest < (before + (uint32_t)tiles) * (uint32_t)heads;
    const bool any = warp_any(here);

    if (here || (!any && lane == 0)) {
        const struct block_place place =
            find_place(here ? rest - before * (uint32_t)heads : 0, (uint32_t)max(1, tiles), (uint32_t)heads, (uint32_t)section);
        struct ragged_tile tile = {-1, place.head, q.at, k.at, {q.length, k.length, 0, 0}};

        if (here)
            tile.row0 = (KEYS ? place.index : tiles - 1 - place.index) * TILE;
        put(tile, group.begin + lane);
    }
}

/* Leaves it at `kept`. With PADDED padded_first of the sequence comes after the tile. PAGED: K and V are in pages, and
 * tiles of queries. */
template <int TILE, bool KEYS, bool PADDED, bool PAGED = false>
GLINT_DEVICE void find_ragged_tile(const struct glint_gpu_sequences &r, const struct glint_gpu_shape &shape, uint32_t number,
                                   int32_t heads, int32_t section, uint32_t scratch, uint32_t kept)
{
    find_tile<TILE, KEYS, 8>(queries_of(r, shape), keys_of<PAGED>(r, shape), shape, number, heads, section, scratch,
                             [&](struct ragged_tile &tile, int32_t sequence) {
                                 find_sides(tile.own, r);
                                 put_ragged_tile(kept, tile);
                                 if (PADDED)
                                     st_shared_u32(kept + 32, (uint32_t)padded_first(tile.first_q, sequence));
                             });
}

#endif
