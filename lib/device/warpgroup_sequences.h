/* Sequences whose lengths the backward kernels of sm_90a read, ragged ones or those of a padded batch: how a block
 * knows what it works on, and what its sequence's end changes.
 *
 * Key blocks begin at the first key of a sequence, and those that there are have numbers, whatever the bounds. What
 * each works on is in a table: lib/device/warpgroup_units.h. Blocks of the split kernels find their tile by their
 * number instead, as sequences.h has it. Tensor maps have the rows of all sequences, or of the bounds. So rows beyond
 * a sequence's end arrive with its last tiles: those of K, Q and dO become zeros before they meet a dS or P of zero.
 * And a tile that its sequence does not fill leaves by ordinary stores of its own rows. */
#ifndef GLINT_DEVICE_WARPGROUP_SEQUENCES_H
#define GLINT_DEVICE_WARPGROUP_SEQUENCES_H

#include "lib/device/warpgroup_units.h"

/* ---- which block ------------------------------------------------------------------------------------------------- */

GLINT_DEVICE bool is_end_of_keys(uint32_t slot)
{
    return ld_shared_u32(slot + 16) == (uint32_t)NO_WORK;
}

/* What words 4 to 12 of a unit say of a block: see warpgroup_units.h. Its steps are not known. */
GLINT_DEVICE struct key_work work_of_words(const uint32_t (&keys)[4], const uint32_t (&queries)[4], uint32_t part)
{
    struct key_work work = {};

    work.key0 = (int32_t)keys[0];
    work.head_kv = (int32_t)keys[1];
    work.first_q = (int32_t)keys[2];
    work.first_k = (int32_t)keys[3];
    work.padded = (int32_t)queries[0];
    work.batch = (int32_t)queries[1];
    work.head0 = (int32_t)queries[2];
    work.group = (int32_t)queries[3];
    work.part = (int32_t)part;
    return work;
}

/* What the block works on whose unit is in shared memory. */
template <int TILE_M, int TILE_N, class Band> GLINT_DEVICE struct key_work work_of_slot(uint32_t slot)
{
    const Band mask = get_mask<Band>(slot);
    uint32_t keys[4], queries[4];

    ld_shared_u32x4(keys, slot + 16);
    ld_shared_u32x4(queries, slot + 32);
    struct key_work work = work_of_words(keys, queries, ld_shared_u32(slot + 48));
    find_steps<TILE_M, TILE_N>(work, mask);
    return work;
}

GLINT_DEVICE int32_t parts_of_slot(uint32_t slot)
{
    return (int32_t)ld_shared_u32(slot + 52);
}

/* The block's place in key_sum and key_turn. */
GLINT_DEVICE int64_t block_of_slot(uint32_t slot)
{
    return (int32_t)ld_shared_u32(slot + 56);
}

/* The view with a row of all of its heads in place of the first one. */
GLINT_DEVICE struct glint_gpu_view view_from(const struct glint_gpu_view &view, int32_t row)
{
    return {view_row(&view, 0, 0, row, 2), view.batch, view.head, view.row};
}

/* Units of what a block works on, two ahead, in 160 bytes from at_ on. */
template <uint32_t at_, uint32_t BYTES = UNIT_BYTES> struct unit_queue {
    typedef stage_ring<2, BYTES, at_ + 32, at_> slots;
    enum : uint32_t { end = slots::at + 2 * BYTES };
    static_assert(at_ % 16 == 0, "units come by bulk copies");

    GLINT_DEVICE void init(uint32_t shared, uint32_t readers)
    {
        slots::init(shared, 1, readers);
    }
    /* By the one thread that announces, which is no reader. */
    GLINT_DEVICE void announce(uint32_t shared, const struct ring &ring, const uint32_t *unit)
    {
        slots::begin_fill(shared, ring);
        bulk_load(slots::tile(shared, ring), unit, UNIT_BYTES, slots::full(shared, ring));
    }
    /* The slot at the reader's place, which the reader must release. */
    GLINT_DEVICE uint32_t wait(uint32_t shared, const struct ring &ring)
    {
        slots::wait_full(shared, ring);
        return slots::tile(shared, ring);
    }
    GLINT_DEVICE void release(uint32_t shared, const struct ring &ring)
    {
        mbarrier_arrive(slots::empty(shared, ring));
    }
};

/* ---- which tile, where a block has one --------------------------------------------------------------------------- */

/* Of shared memory: 48 bytes in which a block's tile waits, and those in which it is looked for. */
enum { TILE_KEPT_BYTES = 48 + 256 };

/* Finds the block's tile of TILE queries, or with KEYS of keys; false if it has none. By all threads. */
template <class Rows, int TILE, bool KEYS>
GLINT_DEVICE bool has_tile(const struct glint_gpu_call &p, int32_t section, uint32_t kept)
{
    return Rows::template find_tile<TILE, KEYS>(p, section, kept + 48, kept).row0 >= 0;
}

/* Where a tile's sequence begins in tensors, and in arrays of the workspace. */
struct first_rows {
    int32_t q, k, padded;
};

template <class Rows> GLINT_DEVICE struct first_rows first_rows_of_tile(uint32_t kept)
{
    const struct place at = Rows::place_again({}, kept);

    return {at.first_q, at.first_k, Rows::padded_first_of(kept)};
}

template <class Rows, int TILE_M, int TILE_N, class Band>
GLINT_DEVICE struct key_work keys_of_tile(const struct glint_gpu_shape &shape, const Band &mask, uint32_t kept)
{
    const struct place at = Rows::place_again({}, kept);
    struct key_work work = {};

    work.batch = at.batch;
    work.head_kv = at.head;
    work.key0 = at.row0;
    work.head0 = at.head * shape.group;
    work.group = shape.group;
    work.first_q = at.first_q;
    work.first_k = at.first_k;
    work.padded = Rows::padded_first_of(kept);
    find_steps<TILE_M, TILE_N>(work, mask);
    return work;
}

template <class Rows, int rows, int keys, class Band>
GLINT_DEVICE struct query_work<Band> queries_of_tile(const struct glint_gpu_shape &shape, const Band &mask, uint32_t kept) {
    const struct place at = Rows::place_again({}, kept);
    struct query_work<Band> work;

    work.query0 = at.row0;
    work.head_q = at.head;
    work.batch = at.batch;
    work.head = at.batch * shape.heads_q + at.head;
    static_cast<struct key_blocks<Band> &>(work) = find_key_blocks<keys>(mask, at.row0, min(at.row0 + rows, mask.seqlen_q) - 1);
    return work;
}

/* ---- ends of sequences ------------------------------------------------------------------------------------------- */

/* Zeros in rows from `rows` on of `tiles` tiles that have arrived, by all `threads` threads that compute. Whether
 * there are such rows. */
template <class tile, int tiles>
GLINT_DEVICE bool clear_own_rows(uint32_t at, int32_t rows, const uint32_t threads)
{
#pragma unroll
    for (int i = 0; i < tiles; ++i)
        clear_rows<tile>(at + i * tile::bytes, rows - i * tile::rows, thread_index_anew() - 128, threads);
    return rows < tiles * tile::rows;
}

/* Whether a warp sees NaN or infinity in the first `rows` rows of two tiles: true in the lanes that do. */
template <class Element, class tile> GLINT_DEVICE bool own_rows_special(uint32_t at, int32_t rows)
{
    uint32_t sum = 0;

#pragma unroll 2
    for (uint32_t i = lane_index() * 16; i < 2 * tile::bytes; i += 32 * 16)
        if ((int32_t)(i / tile::bytes * tile::rows + i / tile::width % tile::rows) < rows) {
            uint32_t v[4];

            ld_shared_u32x4(v, at + i);
#pragma unroll
            for (int j = 0; j < 4; ++j)
                sum = gather_special(sum, v[j], Element::EXPONENT, 2);
        }
    return (sum & 0x7fff7fffu) != 0;
}

/* The first `rows` rows of tiles that lie one after another, to memory, by a warp. */
template <class tile>
GLINT_DEVICE void store_rows(const struct glint_gpu_view &view, int32_t batch, int32_t head, int32_t row, int32_t rows,
                             uint32_t from)
{
    const int32_t row_chunks = tile::columns / 8;

#pragma unroll 1
    for (int32_t i = (int32_t)lane_index(); i < rows * row_chunks; i += 32) {
        const int32_t own = i / row_chunks;
        const uint32_t chunk = (uint32_t)(i - own * row_chunks);
        uint32_t v[4];

        ld_shared_u32x4(v, from + own / tile::rows * tile::bytes + tile_offset(own % tile::rows, chunk, tile::rows, tile::chunks));
        st_global_u32x4(view_row(&view, batch, head, row + own, 2) + chunk * 16, v);
    }
}

#endif
