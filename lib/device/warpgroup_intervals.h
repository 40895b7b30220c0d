/* Intervals in the persistent forward kernel of sm_90a. A warp of the block makes the ranges of a tile's queries, and
 * from them the blocks of keys that the tile and each of its warpgroups walk over. They wait in the tile's slot of the
 * queue, where all others read them: nobody else reads the call's bounds, but for a tile that was given back. */
#ifndef GLINT_DEVICE_WARPGROUP_INTERVALS_H
#define GLINT_DEVICE_WARPGROUP_INTERVALS_H

#include "lib/device/warpgroup_lengths.h"

/* A slot: the tile's band and place, as in other queues; the tile's blocks of keys; those of each warpgroup's 64
 * queries; the ranges of all queries. Blocks are first, last, whole_from, hidden_from of key_blocks. */
template <int TILE_N, int WARPGROUPS> struct interval_slot {
    typedef struct key_blocks<interval_mask> blocks_t;
    enum : uint32_t {
        BLOCKS_AT = 32,
        OWN_AT = BLOCKS_AT + 16,
        RANGES_AT = OWN_AT + 16 * WARPGROUPS,
        BYTES = RANGES_AT + WARPGROUPS * 64 * RANGE_BYTES,
    };

    GLINT_DEVICE void put_blocks(uint32_t address, const blocks_t &blocks)
    {
        const uint32_t v[4] = {(uint32_t)blocks.first, (uint32_t)blocks.last, (uint32_t)blocks.whole_from,
                               (uint32_t)blocks.hidden_from};

        st_shared_u32x4(address, v);
    }

    GLINT_DEVICE void get_blocks(uint32_t slot, blocks_t &blocks)
    {
        uint32_t v[4];

        ld_shared_u32x4(v, slot + BLOCKS_AT);
        blocks.first = (int32_t)v[0];
        blocks.last = (int32_t)v[1];
        blocks.whole_from = (int32_t)v[2];
        blocks.hidden_from = (int32_t)v[3];
    }

    /* Fills a slot that has the tile's band and place. A tile, and a warpgroup, that sees no key has one block, which
     * hides all. By a warp, some lanes of which have the queries of a warpgroup, so that all joins are one. The
     * sequence's bounds, as the call gives them, come to where the ranges are made, all at once. */
    GLINT_DEVICE void put(uint32_t slot, const int32_t *begin, const int32_t *end)
    {
        enum : uint32_t { LANES = WARPGROUPS > 2 ? 8 : WARPGROUPS > 1 ? 16 : 32 };
        const uint32_t ranges = slot + RANGES_AT;
        auto lane = [&]() { return thread_index_anew() % 32; };
        auto first_row = [&]() { return lane() / LANES * 64 + lane() % LANES; };
        auto is_own = [&](uint32_t row) { return row < 64 * WARPGROUPS; };
        auto next_row = [&](uint32_t row) { return row % 64 + LANES < 64 ? row + LANES : 64 * WARPGROUPS; };
        auto query_of = [&](uint32_t row) { return (int32_t)(ld_shared_u32(slot + 16) + row); };

        {
            const int32_t rows = get_sequence(slot).seqlen_q - query_of(0);

            begin += query_of(0);
            end += query_of(0);
#pragma unroll 1
            for (uint32_t row = first_row(); is_own(row); row = next_row(row)) {
                const bool inside = (int32_t)row < rows;

                cp_async_4(ranges + row * RANGE_BYTES, begin + (inside ? row : 0), inside);
                cp_async_4(ranges + row * RANGE_BYTES + 4, end + (inside ? row : 0), inside);
            }
        }
        cp_async_commit();
        cp_async_wait(0);
        struct key_bounds own = bounds_of_none(get_sequence(slot).seqlen_k);
#pragma unroll 1 /* registers, for which the slot is read again and again, too */
        for (uint32_t row = first_row(); is_own(row); row = next_row(row)) {
            const struct sequence sequence = get_sequence(slot);
            const int32_t query = query_of(row);
            const struct key_range keys = cut_to_band(mask_of<window_mask>(sequence), query, range_at(ranges + row * RANGE_BYTES));

            put_range(ranges + row * RANGE_BYTES, keys);
            if (query < sequence.seqlen_q)
                add_query(own, keys);
        }
        join_lanes<1, LANES>(own);
        blocks_t blocks = blocks_of<TILE_N>(own);
        join_lanes<LANES, 32>(own);
        blocks_t tile = blocks_of<TILE_N>(own);

        tile.last = max(0, tile.last);
        tile.first = min(tile.last, tile.first);
        if (blocks.last < 0)
            blocks.first = blocks.last = tile.first;
        if (lane() % LANES == 0 && is_own(first_row()))
            put_blocks(slot + OWN_AT + lane() / LANES * 16, blocks);
        if (lane() == 0)
            put_blocks(slot + BLOCKS_AT, tile);
    }

    /* The mask of a tile whose slot it is, until that is given back. */
    GLINT_DEVICE struct waiting_intervals mask(uint32_t slot)
    {
        const struct sequence own = get_sequence(slot);
        const uint32_t query0 = ld_shared_u32(slot + 16);

        return {{slot + RANGES_AT - query0 * RANGE_BYTES, own.seqlen_q, own.seqlen_k}, slot + OWN_AT - query0 / 4};
    }
};

#endif
