/* Where lengths are read: what the blocks of the backward pass of sm_90a work on, found ahead of them.
 *
 * A unit is a block of keys of a key head of a sequence, against a part of its query heads. The first kernel has
 * blocks more than it has rows for, which make a table of all units in the order in which they have numbers. A block of
 * the kernel of keys reads the unit of its number, 64 bytes, and needs no search.
 *
 * Sequences come in groups of 32. Of a group those with the most queries come first. Their heads come once for each
 * part, part 0 of all of them, then part 1 of all. They are worked on in sections of about shape.section heads, whose
 * blocks go side by side, the first one of each head first. Where all sequences of a group have as many blocks and
 * parts, numbers are those of a call with such lengths. A block waits for the sums of lower numbers alone. */
#ifndef GLINT_DEVICE_WARPGROUP_UNITS_H
#define GLINT_DEVICE_WARPGROUP_UNITS_H

#include "lib/device/delta.h"
#include "lib/device/parts.h"
#include "lib/device/warpgroup_backward.h"

/* Queries or keys of a call. first = NULL: those of a padded batch, each from its tensor's first row on. */
struct batch_side : ragged_side {
};

GLINT_DEVICE int32_t row_at(const struct batch_side &side, int32_t index)
{
    return side.first ? row_at(static_cast<const struct ragged_side &>(side), index) : 0;
}

GLINT_DEVICE int32_t rows_of(const struct batch_side &side, int32_t sequence, int32_t at, int32_t end)
{
    return rows_of(static_cast<const struct ragged_side &>(side), sequence, at, side.first ? end : at + side.bound);
}

/* A unit in memory, in words of 16 bytes: left, right, seqlen_q, seqlen_k of its sequence, as put_mask leaves them; the
 * first key (NO_WORK: there is no such unit), key head, the rows of the tensors at which queries and keys begin; where
 * the queries begin in arrays of the workspace, batch, the first query head and how many; the part, the sequence's
 * parts, and which block of keys it is in key_sum and key_turn. Ragged sequences are all of batch 0, those of a padded
 * batch begin at row 0.
 *
 * A group in shared memory, 48 bytes a sequence by rank: blocks of keys, parts, query heads of a part, batch; the mask;
 * the rows at which queries and keys begin, the first also in arrays of the workspace, and its first block of keys. */
enum { UNIT_BYTES = 4 * GLINT_GPU_UNIT_WORDS, GROUP_ENTRY_BYTES = 48 };

GLINT_DEVICE uint32_t tiles_of_rank(uint32_t table, uint32_t rank)
{
    return ld_shared_u32(table + rank * GROUP_ENTRY_BYTES);
}

GLINT_DEVICE uint32_t parts_of_rank(uint32_t table, uint32_t rank)
{
    return ld_shared_u32(table + rank * GROUP_ENTRY_BYTES + 4);
}

/* ---- the order of a group ---------------------------------------------------------------------------------------- */

/* A sequence, by rank, in one of its parts. */
struct unit_row {
    uint32_t rank, part;
};

struct unit_place {
    struct unit_row row;
    struct block_place at; /* of the row's key heads */
};

/* Sequences that have keys, and the most parts of one. */
struct unit_group {
    uint32_t table, sequences, parts;
};

/* The row after it that there is, or one of part `parts`, after the last. */
GLINT_DEVICE void next_row(const struct unit_group &group, struct unit_row &row)
{
    do {
        if (++row.rank == group.sequences)
            row = {0, row.part + 1};
    } while (row.part < group.parts && parts_of_rank(group.table, row.rank) <= row.part);
}

/* Calls f(blocks, row) for `rows` rows from `row` on, and leaves the one after them. */
template <class F> GLINT_DEVICE void for_rows(const struct unit_group &group, struct unit_row &row, uint32_t rows, F f)
{
#pragma unroll 1
    for (uint32_t i = 0; i < rows && row.part < group.parts; ++i) {
        f(tiles_of_rank(group.table, row.rank), row);
        next_row(group, row);
    }
}

/* The unit of number n of a group. A section is a row's heads, or some of them, or the heads of several rows. */
GLINT_DEVICE struct unit_place place_in_group(const struct unit_group &group, uint32_t n, uint32_t heads, uint32_t section)
{
    const uint32_t rows = max(1u, section / heads);
    struct unit_row first = {0, 0}, row = first;

#pragma unroll 1
    for (;;) {
        uint32_t tiles = 0, most = 0;

        for_rows(group, row, rows, [&](uint32_t own, const struct unit_row &) {
            tiles += own;
            most = max(most, own);
        });
        if (n < tiles * heads) {
            auto before = [&](uint32_t index) { /* units of blocks before it */
                                                uint32_t sum = 0;

                                                row = first;
                                                for_rows(group, row, rows,
                                                         [&](uint32_t own, const struct unit_row &) { sum += min(own, index); });
                                                return sum * heads;
            };
            struct unit_place place = {first, {0, 0}};
            uint32_t low = 0, high = most; /* the block is from low to below high */

            if (rows == 1) {
                const uint32_t most_heads = min(section, heads), sections = (heads - 1) / most_heads + 1;

                place.at = find_place(n, tiles, heads, (heads - 1) / sections + 1); /* as equal as they can be */
                return place;
            }
            while (high - low > 1) {
                const uint32_t middle = (low + high) / 2;

                if (before(middle) <= n)
                    low = middle;
                else
                    high = middle;
            }
            n -= before(low);
            place.at = {(int32_t)low, (int32_t)(n % heads)};
            n /= heads;
            row = first;
            for_rows(group, row, rows, [&](uint32_t own, const struct unit_row &here) {
                if (own > low && n-- == 0)
                    place.row = here;
            });
            return place;
        }
        n -= tiles * heads;
        first = row;
    }
}

/* The nth block of an order that has numbers without one. */
GLINT_DEVICE struct block_place nth_in_order(const struct key_order &order, uint32_t n)
{
    const uint32_t lagging = order.lagging > 0 ? order.heads - order.rest : 0; /* heads */

    if (n >= lagging * order.blocks)
        return place_in_order(order, order.lagging + n - lagging * order.blocks);

    auto blocks_of = [&](uint32_t column) { return (lagging + order.columns - 1 - column) / order.columns * order.blocks; };
    auto before = [&](uint32_t round) {
        uint32_t sum = 0;

#pragma unroll 1
        for (uint32_t column = 0; column < order.columns && column * order.lag < round; ++column)
            sum += min(round - column * order.lag, blocks_of(column));
        return sum;
    };
    uint32_t low = 0, high = order.lagging / order.columns;

#pragma unroll 1
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;

        if (before(middle) <= n)
            low = middle;
        else
            high = middle;
    }
    n -= before(low);
    uint32_t column = 0;
#pragma unroll 1
    for (;; ++column)
        if (low - column * order.lag < blocks_of(column) && n-- == 0)
            break;
    return place_in_order(order, low * order.columns + column);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* The unit at a place, and the turns of its block of keys, which begin at 0. blocks: of keys of a head in key_sum. */
template <int TILE_N, int KEY_TURNS>
GLINT_DEVICE void put_unit(const struct glint_gpu_call &p, uint32_t *unit, uint32_t table, const struct unit_place &place,
                           uint32_t blocks)
{
    uint32_t own[4], mask[4], rows[4];

    ld_shared_u32x4(own, table + place.row.rank * GROUP_ENTRY_BYTES);
    ld_shared_u32x4(mask, table + place.row.rank * GROUP_ENTRY_BYTES + 16);
    ld_shared_u32x4(rows, table + place.row.rank * GROUP_ENTRY_BYTES + 32);
    const int32_t group = p.shape.group, part = (int32_t)place.row.part, parts = (int32_t)own[1], heads = (int32_t)own[2];
    /* counted from the last head: a part waits for those before it at its end, so a short one comes first */
    const int32_t end = group - (parts - 1 - part) * heads, first = max(0, end - heads);
    const uint32_t block = rows[3] + (uint32_t)place.at.head * blocks + (uint32_t)place.at.index;
    const uint32_t keys[4] = {(uint32_t)place.at.index * TILE_N, (uint32_t)place.at.head, rows[0], rows[1]};
    const uint32_t queries[4] = {rows[2], own[3], (uint32_t)(place.at.head * group + first), (uint32_t)(end - first)};
    const uint32_t sums[4] = {(uint32_t)part, (uint32_t)parts, block, 0};

    st_global_u32x4(unit, mask);
    st_global_u32x4(unit + 4, keys);
    st_global_u32x4(unit + 8, queries);
    st_global_u32x4(unit + 12, sums);
    if (part == 0 && parts > 1)
        for (int i = 0; i < KEY_TURNS; ++i)
            st_global_u32(p.key_turn + (int64_t)block * KEY_TURNS + i, 0);
}

/* Whether some lane's value is not that of all others which have one, above 0. */
GLINT_DEVICE bool are_unequal(int32_t value)
{
    int32_t most = 0;

    most_before(value, most);
    return warp_any(value > 0 && value != most);
}

/* Where a lane comes among all: those of a larger value first, then those of lower lanes. */
GLINT_DEVICE uint32_t rank_of(int32_t value)
{
    uint32_t rank = 0;

#pragma unroll 1
    for (uint32_t mask = 1; mask < 32; ++mask) {
        const int32_t other = of_lane(value, mask);

        rank += other > value || (other == value && (lane_index() ^ mask) < lane_index());
    }
    return rank;
}

/* Makes the units of a block of the first kernel that has no rows: one a lane of its first warp. `table`: 32 entries of
 * shared memory. */
template <class Band, int HEAD_DIM, int TILE_M, int TILE_N, int KEY_TURNS>
GLINT_DEVICE void make_units(const struct glint_gpu_call &p, uint32_t table)
{
    const struct glint_gpu_sequences &r = p.sequences;
    const struct batch_side queries = {queries_of(r, p.shape)}, keys = {keys_of(r, p.shape)};
    const uint32_t from = (block_index() - p.units.first) * GLINT_GPU_UNITS_OF_BLOCK, n = from + lane_index();
    const uint32_t heads = (uint32_t)p.shape.heads_kv, section = (uint32_t)p.shape.section;
    const uint32_t blocks = (uint32_t)(r.first_k ? padded_first(r.rows_k, p.shape.batch) : p.shape.seqlen_k + TILE_N - 1) / TILE_N;
    uint32_t *const unit = p.units.unit + (int64_t)n * GLINT_GPU_UNIT_WORDS;
    int32_t most_q = row_at(queries, 0), most_k = row_at(keys, 0);
    uint32_t before = 0;

    static_assert(TILE_N == GLINT_GPU_ROW_PAD, "sequences begin at blocks of keys where they begin in padded_first");
#pragma unroll 1
    for (int32_t begin = 0; begin < p.shape.batch && before < from + GLINT_GPU_UNITS_OF_BLOCK; begin += 32) {
        const int32_t sequence = begin + (int32_t)lane_index();
        const struct ragged_rows q = find_rows(queries, p.shape.batch, begin, most_q);
        const struct ragged_rows k = find_rows(keys, p.shape.batch, begin, most_k);
        struct sequence own = {q.length, k.length, 0, 0};

        find_sides(own, r);
        const struct glint_part_problem problem = {q.length, k.length, Band::LEFT ? own.left : -q.length,
                                                   Band::RIGHT ? own.right : k.length};
        const int32_t tiles = (k.length + TILE_N - 1) / TILE_N;
        const int32_t part_heads = glint_part_heads_of(p.part_heads, &problem, HEAD_DIM <= 64, p.shape.group);
        const int32_t parts = tiles > 0 ? (p.shape.group - 1) / part_heads + 1 : 0;
        uint32_t all;

        count_before((uint32_t)(tiles * parts) * heads, all);
        if (before + all > from) {
            const uint32_t to = table + rank_of(tiles > 0 ? q.length + 1 : 0) * GROUP_ENTRY_BYTES;
            const uint32_t words[3][4] = {
                {(uint32_t)tiles, (uint32_t)parts, (uint32_t)part_heads, r.first_q ? 0 : (uint32_t)sequence},
                {(uint32_t)own.left, (uint32_t)own.right, (uint32_t)q.length, (uint32_t)k.length},
                {(uint32_t)q.at, (uint32_t)k.at, r.first_q ? (uint32_t)padded_first(q.at, sequence) : 0,
                 r.first_k ? (uint32_t)padded_first(k.at, sequence) / TILE_N : (uint32_t)sequence * heads * blocks}};
            const bool unequal = are_unequal(tiles) || are_unequal(parts);
            struct unit_group group = {table, 0, 0};
            int32_t most = 0;

            count_before(tiles > 0, group.sequences);
            most_before(parts, most);
            group.parts = (uint32_t)most;
            /* the group before has been read */
            warp_sync();
            for (int i = 0; i < 3; ++i)
                st_shared_u32x4(to + 16 * i, words[i]);
            warp_sync();
            if (n >= before && n < before + all) {
                struct unit_place place;

                if (unequal)
                    place = place_in_group(group, n - before, heads, section);
                else {
                    const uint32_t of_part = group.sequences * heads;
                    struct key_order order = order_of(of_part * group.parts, tiles_of_rank(table, 0), section);

                    if constexpr (staggering<Band, TILE_M, TILE_N>::wanted)
                        order = stagger(order);
                    place.at = nth_in_order(order, n - before);
                    const uint32_t head = (uint32_t)place.at.head, of_row = head % of_part;
                    place.row = {of_row / heads, head / of_part};
                    place.at.head = (int32_t)(of_row % heads);
                }
                put_unit<TILE_N, KEY_TURNS>(p, unit, table, place, blocks);
            }
        }
        before += all;
    }
    if (n >= before) {
        const uint32_t none[4] = {(uint32_t)NO_WORK, 0, 0, 0};

        for (int i = 0; i < GLINT_GPU_UNIT_WORDS; i += 4)
            st_global_u32x4(unit + i, none);
    }
}

#endif
