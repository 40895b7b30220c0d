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

    /* The place of the blocks of the warpgroup of a lane's number. */
    GLINT_DEVICE uint32_t of_warpgroup(uint32_t slot)
    {
        return slot + OWN_AT + 16 * lane_index();
    }

    /* Fills a slot that has the tile's band and place. A tile, and a warpgroup, that sees no key has one block, which
     * hides all. The sequence's bounds, as the call gives them, come to where the ranges are made, all at once. By a
     * warp, which reads its slot again and again, as it has few registers. */
    GLINT_DEVICE void put(uint32_t slot, const int32_t *begin, const int32_t *end)
    {
        const uint32_t ranges = slot + RANGES_AT;
        auto query_of = [&](uint32_t row) { return (int32_t)(ld_shared_u32(slot + 16) + row); };

        {
            const int32_t rows = get_sequence(slot).seqlen_q - query_of(0);

            begin += query_of(0);
            end += query_of(0);
#pragma unroll 1
            for (uint32_t row = lane_index(); row < 64 * WARPGROUPS; row += 32) {
                const bool inside = (int32_t)row < rows;

                cp_async_4(ranges + row * RANGE_BYTES, begin + (inside ? row : 0), inside);
                cp_async_4(ranges + row * RANGE_BYTES + 4, end + (inside ? row : 0), inside);
            }
        }
        cp_async_commit();
        cp_async_wait(0);
#pragma unroll 1 /* registers */
        for (uint32_t w = 0; w < WARPGROUPS; ++w) {
            struct key_bounds own = bounds_of_none(get_sequence(slot).seqlen_k);

#pragma unroll 1
            for (uint32_t row = 64 * w + lane_index(); row < 64 * (w + 1); row += 32) {
                const struct sequence sequence = get_sequence(slot);
                const int32_t query = query_of(row);
                const struct key_range keys =
                    cut_to_band(mask_of<window_mask>(sequence), query, range_at(ranges + row * RANGE_BYTES));

                put_range(ranges + row * RANGE_BYTES, keys);
                if (query < sequence.seqlen_q)
                    add_query(own, keys);
            }
            join_lanes(own);
            if (lane_index() == w) {
                put_range(of_warpgroup(slot), own.all);
                put_range(of_warpgroup(slot) + 8, {own.late, own.early});
            }
        }
        struct key_bounds own = bounds_of_none(get_sequence(slot).seqlen_k);
        if (lane_index() < WARPGROUPS) {
            const struct key_range whole = range_at(of_warpgroup(slot) + 8);

            own = {range_at(of_warpgroup(slot)), whole.first, whole.end};
        }
        blocks_t blocks = blocks_of<TILE_N>(own);
        join_lanes(own);
        blocks_t tile = blocks_of<TILE_N>(own);

        tile.last = max(0, tile.last);
        tile.first = min(tile.last, tile.first);
        if (blocks.last < 0)
            blocks.first = blocks.last = tile.first;
        if (lane_index() < WARPGROUPS)
            put_blocks(of_warpgroup(slot), blocks);
        if (lane_index() == 0)
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
