/* Sequences whose lengths the backward kernels of sm_90a read, ragged ones or those of a padded batch: how a block's
 * loader finds the key block of a number, how the others know of it, and what its sequence's end changes.
 *
 * Key blocks begin at the first key of a sequence, and those that there are have numbers, whatever the bounds:
 * sequence after sequence, and of a sequence as find_ragged_tile has it. A block waits for the sums of lower numbers
 * alone. Tensor maps have the rows of all sequences, or of the bounds. So rows beyond a sequence's end arrive with
 * its last tiles: those of K, Q and dO become zeros before they meet a dS or P of zero. And a tile that its sequence
 * does not fill leaves by ordinary stores of its own rows. */
#ifndef GLINT_DEVICE_WARPGROUP_SEQUENCES_H
#define GLINT_DEVICE_WARPGROUP_SEQUENCES_H

#include "lib/device/delta.h"
#include "lib/device/warpgroup_backward.h"

/* ---- a sequence's part of a shape -------------------------------------------------------------------------------- */

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

/* What a block works on in 48 bytes of shared memory, in words of 16: left, right, seqlen_q, seqlen_k of the
 * sequence, as put_mask leaves them; the block's first key (NO_WORK: there is none), key head, the rows of the
 * tensors at which queries and keys begin; and where the queries begin in arrays of the workspace, batch. Ragged
 * sequences are all of batch 0, those of a padded batch begin at row 0. */
enum { KEY_SLOT_BYTES = 48, KEY_SEARCH_AT = KEY_SLOT_BYTES, KEY_SEARCH_BYTES = KEY_SLOT_BYTES + 256 };

GLINT_DEVICE bool is_end_of_keys(uint32_t slot)
{
    return ld_shared_u32(slot + 16) == (uint32_t)NO_WORK;
}

template <int TILE_N> GLINT_DEVICE struct block_place place_of_slot(uint32_t slot)
{
    return {(int32_t)ld_shared_u32(slot + 16) / TILE_N, (int32_t)ld_shared_u32(slot + 20)};
}

GLINT_DEVICE void get_place(struct key_work &work, uint32_t slot)
{
    work.first_q = (int32_t)ld_shared_u32(slot + 24);
    work.first_k = (int32_t)ld_shared_u32(slot + 28);
    work.padded = (int32_t)ld_shared_u32(slot + 32);
    work.batch = (int32_t)ld_shared_u32(slot + 36);
}

/* The view with a row of all of its heads in place of the first one. */
GLINT_DEVICE struct glint_gpu_view view_from(const struct glint_gpu_view &view, int32_t row)
{
    return {view_row(&view, 0, 0, row, 2), view.batch, view.head, view.row};
}

/* ---- which block, and who knows ---------------------------------------------------------------------------------- */

/* Takes the next number, whose key block it leaves at `slot`, and whether there is one. By a warp; behind the slot
 * it looks for it. */
template <int TILE_N> GLINT_DEVICE bool find_next_keys(const struct glint_gpu_backward_maps &call, uint32_t slot)
{
    const struct glint_gpu_call &p = call.base;
    const struct glint_gpu_sequences &r = call.base.sequences;
    const struct batch_side queries = {queries_of(r, p.shape)}, keys = {keys_of(r, p.shape)};

    if (lane_index() == 0)
        st_shared_u32(slot, atom_global_add_u32(p.turn, 1));
    warp_sync();
    const uint32_t number = ld_shared_u32(slot);
    warp_sync();
    find_tile<TILE_N, true, 2>(queries, keys, p.shape, number, p.shape.heads_kv, p.shape.section, slot + KEY_SEARCH_AT,
                               [&](struct ragged_tile &tile, int32_t sequence) {
                                   const uint32_t padded = r.first_q ? (uint32_t)padded_first(tile.first_q, sequence) : 0;
                                   const uint32_t place[4] = {padded, r.first_q ? 0 : (uint32_t)sequence, 0, 0};

                                   find_sides(tile.own, r);
                                   put_ragged_tile(slot, tile);
                                   st_shared_u32x4(slot + 32, place);
                               });
    warp_sync();
    return !is_end_of_keys(slot);
}

/* Slots of what a block works on, two ahead, in 128 bytes from at_ on. */
template <uint32_t at_> struct key_queue {
    typedef stage_ring<2, KEY_SLOT_BYTES, at_ + 32, at_> slots;
    enum : uint32_t { end = slots::at + 2 * KEY_SLOT_BYTES };

    GLINT_DEVICE void init(uint32_t shared, uint32_t readers)
    {
        slots::init(shared, 1, readers);
    }
    /* What was found. By the one thread that announces. */
    GLINT_DEVICE void announce(uint32_t shared, const struct ring &ring, uint32_t from)
    {
        slots::wait_empty(shared, ring);
        copy_words<KEY_SLOT_BYTES>(slots::tile(shared, ring), from);
        mbarrier_arrive(slots::full(shared, ring));
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

/* ---- ends of sequences ------------------------------------------------------------------------------------------- */

/* Zeros in rows from `rows` on of `tiles` tiles that have arrived, by all `threads` threads that compute. Whether
 * there are such rows. */
template <class tile, int tiles> GLINT_DEVICE bool clear_own_rows(uint32_t at, int32_t rows, const uint32_t threads)
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
