/* Lengths of sequences that the forward kernels of sm_90a read: which tiles there are, and how a block's loader
 * tells the others of a tile's own lengths. Tensor maps know the bounds alone. So keys beyond a length arrive, and
 * are hidden as scores; values beyond one are made zeros. */
#ifndef GLINT_DEVICE_WARPGROUP_LENGTHS_H
#define GLINT_DEVICE_WARPGROUP_LENGTHS_H

#include "lib/device/lengths.h"
#include "lib/device/warpgroup_forward.h"

/* The first tile after those at hand that may have queries, where `work` has none: of a row of tiles, one of each
 * head of a section, whose heads are one sequence's, all are empty, and so are those of its other rows beyond the
 * sequence's end. */
template <int TILE_M, class Band>
GLINT_DEVICE uint32_t tile_after_empty(const struct glint_gpu_shape &shape, const struct tile_work<Band> &work, int32_t seqlen_q,
                                       uint32_t tile)
{
    const uint32_t tiles = (shape.seqlen_q + TILE_M - 1) / TILE_M, own = (seqlen_q + TILE_M - 1) / TILE_M;
    const uint32_t heads = shape.batch * shape.heads_q, section = min(Band::RIGHT ? max(16u, (uint32_t)shape.section) : 1, heads);
    const uint32_t first = tile / (tiles * section) * section, size = min(section, heads - first);
    const uint32_t first_of_sequence = work.batch * shape.heads_q;

    if (first < first_of_sequence || first + size > first_of_sequence + shape.heads_q)
        return tile + 1;
    return first * tiles +
           (Band::RIGHT && own > 0 ? tiles - own : tiles) * size; /* without a mask the empty ones are a head's last */
}

/* The block's next tile from number `tile` on; false after the last one. Numbers beyond a sequence's end are passed
 * over. p.base.words counts down from 0 the tiles that blocks have taken beside the first one of each: so it can be
 * moved on over empty tiles for all blocks at once, and a block that comes to know of them too late moves nothing
 * back. */
template <int TILE_M, class Band>
GLINT_DEVICE bool take_tile(struct tile_work<Band> &work, struct sequence &own, const struct glint_gpu_forward_maps &p,
                            uint32_t blocks, uint32_t tile)
{
    const struct glint_gpu_shape &shape = p.base.shape;

    while (place_tile<TILE_M>(work, shape, tile)) {
        own = find_sequence(p.base, work.batch);
        if (work.query0 < own.seqlen_q)
            return true;
        const uint32_t after = tile_after_empty<TILE_M>(shape, work, own.seqlen_q, tile);
        if (after > blocks)
            atomicMin(p.base.words, blocks - after);
        tile = blocks - atom_global_add_u32(p.base.words, 0xffffffffu);
    }
    return false;
}

/* What is known of a tile that waits in 32 bytes of shared memory, behind its mask: query, the first key of ragged
 * sequences or the number of one of a batch, head. False: there is none. */
template <bool RAGGED, class Band> GLINT_DEVICE bool get_place(struct tile_work<Band> &work, uint32_t slot)
{
    uint32_t v[4];

    ld_shared_u32x4(v, slot + 16);
    work.query0 = (int32_t)v[0];
    work.batch = RAGGED ? 0 : (int32_t)v[1];
    work.first_k = RAGGED ? (int32_t)v[1] : 0;
    work.head_q = (int32_t)v[2];
    return v[3] != 0;
}

/* Tiles with their lengths, in 144 bytes from at_ on, a multiple of 16. Those that compute read a tile's lengths
 * where the mask cuts, so that registers need not keep them, and give them back at its end. So there are three,
 * where two numbers of tiles are enough. No one holds a tile while it waits for another: of tiles whose queries see
 * no key any number may follow. Where a tile has more than 32 bytes, SLOT of them, the rest is the caller's, who calls
 * tell() when it is there. */
template <uint32_t at_, bool RAGGED = false, uint32_t SLOT = 32> struct sequence_queue {
    typedef stage_ring<3, SLOT, at_, at_ + 3 * SLOT> slots;
    enum : uint32_t { stages = 3, end = slots::end };
    static_assert(at_ % 16 == 0, "words of 16 bytes");

    GLINT_DEVICE void init(uint32_t shared, uint32_t readers)
    {
        slots::init(shared, 1, readers);
    }
    /* By the one thread that announces. */
    template <class Band, class mask_t>
    GLINT_DEVICE void announce(uint32_t shared, const struct ring &ring, const struct tile_work<Band> &work, const mask_t &mask)
    {
        slots::wait_empty(shared, ring);
        put_mask(slots::tile(shared, ring), mask);
        put_place(shared, ring, work.query0, work.batch, work.head_q, true);
    }
    GLINT_DEVICE void announce_end(uint32_t shared, const struct ring &ring)
    {
        slots::wait_empty(shared, ring);
        put_place(shared, ring, 0, 0, 0, false);
    }
    GLINT_DEVICE void tell(uint32_t shared, const struct ring &ring)
    {
        mbarrier_arrive(slots::full(shared, ring));
    }
    GLINT_DEVICE void put_place(uint32_t shared, const struct ring &ring, int32_t query0, int32_t batch, int32_t head_q, bool any)
    {
        const uint32_t place[4] = {(uint32_t)query0, (uint32_t)batch, (uint32_t)head_q, any};

        st_shared_u32x4(slots::tile(shared, ring) + 16, place);
        if (SLOT == 32)
            tell(shared, ring);
    }
    /* The tile at the reader's place; false after the last one. */
    template <class Band> GLINT_DEVICE bool wait(uint32_t shared, const struct ring &ring, struct tile_work<Band> &work)
    {
        slots::wait_full(shared, ring);
        return get(shared, ring, work);
    }
    template <class Band> GLINT_DEVICE bool get(uint32_t shared, const struct ring &ring, struct tile_work<Band> &work)
    {
        return get_place<RAGGED>(work, slots::tile(shared, ring));
    }
    /* Its mask, until the reader gives the tile back. */
    template <class Band> GLINT_DEVICE Band mask(uint32_t shared, const struct ring &ring)
    {
        return get_mask<Band>(slots::tile(shared, ring));
    }
    /* The place before the next one; its phase is not said. */
    GLINT_DEVICE struct ring at_hand(const struct ring &next)
    {
        return {next.stage == 0 ? stages - 1 : next.stage - 1, 0};
    }
    /* One arrival for each reader: a warp, or a thread. */
    template <bool warp> GLINT_DEVICE void give_back(uint32_t shared, const struct ring &ring)
    {
        if (warp)
            warp_sync();
        if (!warp || lane_index() == 0)
            mbarrier_arrive(slots::empty(shared, ring));
    }
};

#endif
