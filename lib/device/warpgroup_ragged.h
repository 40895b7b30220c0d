/* Ragged sequences in the forward kernels of sm_90a: how a persistent block's loader finds the tile of a number, and
 * how the others know of it. Tensor maps have the rows of all sequences. Queries are counted in them, from the
 * tensor's first row on, keys from the sequence's first: then blocks of keys begin where they do in a call of the
 * sequence alone, rows of O and LSE are those of one sequence, and only the sides of the band are moved. Rows of the
 * next sequence that come with a last block of keys are what rows beyond a length are: hidden as scores, zeros as
 * values. */
#ifndef GLINT_DEVICE_WARPGROUP_RAGGED_H
#define GLINT_DEVICE_WARPGROUP_RAGGED_H

#include "lib/device/ragged.h"
#include "lib/device/warpgroup_lengths.h"

/* The call's shape with the bounds of a sequence: seqlen_q of the shape itself is the rows of all, which is what LSE
 * steps by from head to head. */
GLINT_DEVICE struct glint_gpu_shape shape_of_bounds(const struct glint_gpu_call &p)
{
    struct glint_gpu_shape shape = p.shape;

    shape.seqlen_q = p.sequences.bound_q;
    shape.seqlen_k = p.sequences.bound_k;
    return shape;
}

/* The band of a sequence whose queries are counted from the tensor's first row on. */
template <class Band> GLINT_DEVICE Band mask_from(const struct sequence &own, int32_t first_q)
{
    return band_from(mask_of<Band>(own), -first_q, 0);
}

/* Its mask. */
template <class Band> GLINT_DEVICE Band mask_from(const struct glint_gpu_call &p, const struct sequence &own, int32_t first_q)
{
    if constexpr (Band::INTERVALS) {
        const window_mask band = mask_from<window_mask>(own, first_q);

        return {band, p.key_begin, p.key_end, band.seqlen_q, band.seqlen_k};
    } else
        return mask_from<Band>(own, first_q);
}

/* ---- the order of tiles ------------------------------------------------------------------------------------------ */

/* Sequences come in groups of 32, one a lane. Of a group those with the most keys come first, in sections: as many as
 * have section_keys keys together, so that their K and V stay in L2 and yet there are enough of them for all blocks.
 * The heads of a section come in parts of shape.section. Of a part the tiles that end at the latest keys come first,
 * as under a causal mask they see the most: a tile's level is where it begins, counted along the keys in tiles, and a
 * sequence has those from `low` to below `high`.
 *
 * The table has 48 bytes for each lane, in words of 16:
 *     low, high, and how many tiles of the section, a head, are of level `low` and above, and of `high` and above
 *     the first query, queries, first key, keys
 *     tiles of the sections before, a head; tiles of the section; the section
 * then the tile that was found, 32 bytes, and the group: where it begins, the rows before
 * which no sequence of the next one begins, tiles before it; its tiles. */
enum { RAGGED_FOUND = 32 * 48, RAGGED_GROUP = RAGGED_FOUND + 32, RAGGED_TABLE_BYTES = RAGGED_GROUP + 32 };

/* The level of a tile that begins at query 0. */
template <int TILE_M> GLINT_DEVICE int32_t first_level(int32_t right)
{
    return right >= 0 ? right / TILE_M : -((TILE_M - 1 - right) / TILE_M);
}

/* How many tiles of a sequence are of `level` and above. */
GLINT_DEVICE uint32_t tiles_from(int32_t level, int32_t low, int32_t high)
{
    return (uint32_t)max(0, high - max(level, low));
}

/* Fills the table with the sequences from `begin` on, before which there are `before` tiles. By a warp, as all of
 * this. What waits in shared memory waits there because a loader has few registers. */
template <int TILE_M>
GLINT_DEVICE void put_group(const struct glint_gpu_forward_maps &p, uint32_t table, int32_t begin, int32_t most_q, int32_t most_k,
                            uint32_t before)
{
    const struct glint_gpu_shape shape = shape_of_bounds(p.base);
    const uint32_t own_words = table + 48 * lane_index();
    const struct ragged_rows q = find_rows(queries_of(p.base.sequences, shape), shape.batch, begin, most_q);
    const struct ragged_rows k = find_rows(keys_of(p.base.sequences, shape), shape.batch, begin, most_k);
    const uint32_t rows[4] = {(uint32_t)q.at, (uint32_t)q.length, (uint32_t)k.at, (uint32_t)k.length};
    const uint32_t group[4] = {(uint32_t)begin, (uint32_t)most_q, (uint32_t)most_k, before};

    warp_sync(); /* the table before has been read */
    st_shared_u32x4(own_words + 16, rows);
    if (lane_index() == 0)
        st_shared_u32x4(table + RAGGED_GROUP, group);
    warp_sync();

    uint32_t keys_before = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < 32; ++i) {
        const int32_t keys = (int32_t)ld_shared_u32(table + 48 * i + 28);

        keys_before += keys > k.length || (keys == k.length && i < lane_index()) ? (uint32_t)keys : 0;
    }
    struct sequence own = {q.length, k.length, 0, 0};
    find_sides(own, p.base.sequences);
    const int32_t low = first_level<TILE_M>(own.right), high = low + (q.length + TILE_M - 1) / TILE_M;
    const uint32_t section = keys_before / (uint32_t)p.base.sequences.section_keys, of_sections[4] = {0, 0, section, 0};
    st_shared_u32(own_words, (uint32_t)low);
    st_shared_u32(own_words + 4, (uint32_t)high);
    st_shared_u32x4(own_words + 32, of_sections);
    warp_sync();

    uint32_t tiles = 0, of_sections_before = 0, of_section = 0, from_low = 0, from_high = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < 32; ++i) {
        const int32_t other_low = (int32_t)ld_shared_u32(table + 48 * i), other_high = (int32_t)ld_shared_u32(table + 48 * i + 4);
        const uint32_t other_section = ld_shared_u32(table + 48 * i + 40), all = (uint32_t)(other_high - other_low);

        tiles += all;
        of_sections_before += other_section < section ? all : 0;
        of_section += other_section == section ? all : 0;
        from_low += other_section == section ? tiles_from(low, other_low, other_high) : 0;
        from_high += other_section == section ? tiles_from(high, other_low, other_high) : 0;
    }
    st_shared_u32(own_words + 8, from_low);
    st_shared_u32(own_words + 12, from_high);
    st_shared_u32(own_words + 32, of_sections_before);
    st_shared_u32(own_words + 36, of_section);
    if (lane_index() == 0)
        st_shared_u32(table + RAGGED_GROUP + 16, tiles);
    warp_sync();
}

/* A group of no tiles, ahead of the first one. */
GLINT_DEVICE void put_no_group(const struct glint_gpu_forward_maps &p, uint32_t table)
{
    const struct glint_gpu_shape shape = shape_of_bounds(p.base);
    const uint32_t group[4] = {(uint32_t)-32, (uint32_t)row_at(queries_of(p.base.sequences, shape), 0),
                               (uint32_t)row_at(keys_of(p.base.sequences, shape), 0), 0};

    if (lane_index() == 0) {
        st_shared_u32x4(table + RAGGED_GROUP, group);
        st_shared_u32(table + RAGGED_GROUP + 16, 0);
    }
    warp_sync();
}

/* The lane whose sequence has tile `rest` of the group leaves it in the table: its mask, and query, first key, head.
 *
 * Between two levels at which some sequence begins or ends as many tiles are of each level. The lowest such level
 * with no more than `t` tiles from it on is just above the tile's, and the tile is of the sequences there by turns.
 * FIRST_Q: the word that says that there is a tile has the sequence's first query, too. */
template <int TILE_M, bool FIRST_Q>
GLINT_DEVICE void pick_tile(const struct glint_gpu_forward_maps &p, uint32_t table, uint32_t rest)
{
    const struct glint_gpu_shape &shape = p.base.shape;
    const uint32_t own_words = table + 48 * lane_index(), heads = (uint32_t)shape.heads_q;
    uint32_t levels[4], section[4];

    ld_shared_u32x4(levels, own_words);
    ld_shared_u32x4(section, own_words + 32);
    const int32_t low = (int32_t)levels[0], high = (int32_t)levels[1];
    const bool active = rest >= section[0] * heads && rest < (section[0] + section[1]) * heads;
    const uint32_t of_section = active ? rest - section[0] * heads : 0, tiles = max(1u, section[1]);
    const uint32_t each = min((uint32_t)shape.section, heads), part = of_section / (tiles * each);
    const uint32_t size = min(each, heads - part * each), of_part = of_section - part * (tiles * each), t = of_part / size;
    int32_t level = 0x7fffffff;
    uint32_t above = 0;

    if (active && levels[3] <= t)
        level = high, above = levels[3];
    if (active && levels[2] <= t)
        level = low, above = levels[2];
#pragma unroll
    for (uint32_t mask = 1; mask < 32; mask *= 2) {
        level = min(level, of_lane(level, mask));
        above = (uint32_t)max((int32_t)above, of_lane((int32_t)above, mask));
    }
    uint32_t all;
    const bool among = active && low < level && level <= high;
    const uint32_t before = count_before(among, all), turn = t - above, by = max(1u, all);

    if (among && turn % by == before) {
        uint32_t rows[4];

        ld_shared_u32x4(rows, own_words + 16);
        struct sequence own = {(int32_t)rows[1], (int32_t)rows[3], 0, 0};
        find_sides(own, p.base.sequences);
        const int32_t query0 = (int32_t)rows[0] + (level - 1 - (int32_t)(turn / by) - low) * TILE_M;
        const uint32_t place[4] = {(uint32_t)query0, rows[2], part * each + of_part % size, FIRST_Q ? 1 + rows[0] : 1};

        put_mask(table + RAGGED_FOUND, mask_from<window_mask>(own, (int32_t)rows[0]));
        st_shared_u32x4(table + RAGGED_FOUND + 16, place);
    }
}

/* Finds the tile of a number, which is none below one that was asked for before; false after the last one.
 * put_no_group comes first. */
template <int TILE_M, bool FIRST_Q>
GLINT_DEVICE bool find_number(const struct glint_gpu_forward_maps &p, uint32_t table, uint32_t number)
{
    const uint32_t heads = (uint32_t)p.base.shape.heads_q;
    uint32_t group[4], tiles;

    for (;;) {
        ld_shared_u32x4(group, table + RAGGED_GROUP);
        tiles = ld_shared_u32(table + RAGGED_GROUP + 16);
        if (number < (group[3] + tiles) * heads)
            break;
        if ((int32_t)group[0] + 32 >= p.base.shape.batch)
            return false;
        put_group<TILE_M>(p, table, (int32_t)group[0] + 32, (int32_t)group[1], (int32_t)group[2], group[3] + tiles);
    }
    warp_sync(); /* the tile before has been read */
    pick_tile<TILE_M, FIRST_Q>(p, table, number - group[3] * heads);
    warp_sync();
    return true;
}

/* The next number that no block has taken, for all lanes. */
GLINT_DEVICE uint32_t next_number(uint32_t *counter, uint32_t blocks, uint32_t table)
{
    if (lane_index() == 0)
        st_shared_u32(table + RAGGED_GROUP + 20, blocks + atom_global_add_u32(counter, 1));
    warp_sync();
    return ld_shared_u32(table + RAGGED_GROUP + 20);
}

/* ---- what the others know of a tile ------------------------------------------------------------------------------ */

/* sequence_queue with a first key in place of the number of a sequence: all are rows of one. */
template <uint32_t at_, uint32_t SLOT = 32> struct ragged_queue : sequence_queue<at_, true, SLOT> {
    typedef typename sequence_queue<at_, true, SLOT>::slots slots;

    /* The tile that was found. By one thread. */
    GLINT_DEVICE void announce(uint32_t shared, const struct ring &ring, uint32_t found)
    {
        slots::wait_empty(shared, ring);
        copy_words<32>(slots::tile(shared, ring), found);
        if (SLOT == 32)
            ragged_queue::tell(shared, ring);
    }
    /* Copies the tile to 32 bytes of a warp's own, for what it does when it has given the tile back. */
    GLINT_DEVICE void keep(uint32_t shared, const struct ring &ring, uint32_t kept)
    {
        warp_sync(); /* the one before has been read */
        if (lane_index() == 0)
            copy_words<32>(kept, slots::tile(shared, ring));
        warp_sync();
    }
};

#endif
