/* K and V in pages, behind a table that the kernel reads: an index outside of the pool counts as the nearest one. */
#ifndef GLINT_DEVICE_PAGES_H
#define GLINT_DEVICE_PAGES_H

#include "lib/device/lengths.h"
#include "lib/device/tile.h"

/* A head of K and V, in page 0, and the sequence's row of the table. */
struct paged_keys {
    const char *k, *v;
    const int32_t *table;
};

/* `Call` is struct glint_pages_params, or that of ragged sequences. */
template <class Tile, class Call> GLINT_DEVICE struct paged_keys keys_of(const Call &p, int32_t batch, int32_t head)
{
    return {view_row(&p.base.base.k, 0, head, 0, Tile::element::BYTES), view_row(&p.base.base.v, 0, head, 0, Tile::element::BYTES),
            p.page_table + (int64_t)batch * p.pages_per_sequence};
}

GLINT_DEVICE uint32_t low_word(const void *address)
{
    return (uint32_t)(uint64_t)address;
}

GLINT_DEVICE uint32_t high_word(const void *address)
{
    return (uint32_t)((uint64_t)address >> 32);
}

GLINT_DEVICE const void *address_of(uint32_t low, uint32_t high)
{
    return (const void *)((uint64_t)high << 32 | low);
}

/* They wait in 32 bytes of shared memory, as the mask does: a loop that keeps them has no registers left in some tiles. */
GLINT_DEVICE void put_keys(uint32_t address, const struct paged_keys &keys)
{
    const uint32_t of_both[4] = {low_word(keys.k), high_word(keys.k), low_word(keys.v), high_word(keys.v)};
    const uint32_t of_table[4] = {low_word(keys.table), high_word(keys.table), 0, 0};

    st_shared_u32x4(address, of_both);
    st_shared_u32x4(address + 16, of_table);
}

GLINT_DEVICE struct paged_keys get_keys(uint32_t address)
{
    uint32_t of_both[4], of_table[4];

    ld_shared_u32x4(of_both, address);
    ld_shared_u32x4(of_table, address + 16);
    return {(const char *)address_of(of_both[0], of_both[1]), (const char *)address_of(of_both[2], of_both[3]),
            (const int32_t *)address_of(of_table[0], of_table[1])};
}

/* Entry `index` of a table as it stands there; as it counts. */
GLINT_DEVICE int32_t table_entry(const int32_t *table, int32_t index)
{
    return (int32_t)bits_of(ld_global_f32((const float *)(const void *)(table + index)));
}

template <class Call> GLINT_DEVICE int32_t page_of_key(const Call &p, const int32_t *table, int32_t key)
{
    return max(0, min(table_entry(table, key >> p.page_shift), p.pages - 1));
}

/* Begins the copies of the tiles of K and V whose first key is `first`, to copy_offset's places of k_to and v_to, in the pieces of `pieces`. Keys
 * from `end` on become zeros, and so do all unless `wanted`; the table is read at keys from 0 to end - 1 alone, or at key 0. One page at a time:
 * to look all of them up first took registers that some tiles have not. */
template <int THREADS, class Tile, class Call>
GLINT_DEVICE void copy_paged_tiles(const Call &p, const struct paged_keys &keys, uint32_t k_to, uint32_t v_to, int32_t first,
                                   int32_t end, bool wanted)
{
    typedef struct pieces<Tile, THREADS> cut;
    const uint32_t thread = thread_index_anew(), column = thread % Tile::PAGE_CHUNKS * 16;
    const int32_t own = first + (int32_t)(thread / Tile::PAGE_CHUNKS);

#pragma unroll
    for (int i = 0; i < cut::COUNT; ++i) {
        const int32_t key = own + i * cut::ROWS, row = key & ((1 << p.page_shift) - 1);
        const int32_t page = page_of_key(p, keys.table, max(0, min(key, end - 1)));
        const bool has_key = wanted && key < end;

        copy_rows(k_to, keys.k + column + (page * p.base.base.k.batch + row * p.base.base.k.row) * (int64_t)Tile::element::BYTES,
                  has_key, i * cut::ROWS, Tile::ROWS, Tile::ROW_CHUNKS, Tile::PAGES, Tile::PAGE_CHUNKS, THREADS);
        copy_rows(v_to, keys.v + column + (page * p.base.base.v.batch + row * p.base.base.v.row) * (int64_t)Tile::element::BYTES,
                  has_key, i * cut::ROWS, Tile::ROWS, Tile::ROW_CHUNKS, Tile::PAGES, Tile::PAGE_CHUNKS, THREADS);
    }
}

/* The word for a fault of a call, or NULL. */
GLINT_DEVICE uint32_t *fault_of(const struct glint_lengths_params &p)
{
    return p.fault;
}

GLINT_DEVICE uint32_t *fault_of(const struct glint_ragged_params &p)
{
    return p.ragged.fault;
}

/* Lowers the word for a fault to `batch` if a page with a key that some query of that sequence sees is outside of the pool. The threads of one
 * block of the grid call it for a sequence. */
template <int THREADS, class Call> GLINT_DEVICE void note_bad_page(const Call &p, const struct sequence &own, int32_t batch)
{
    const int32_t *table = p.page_table + (int64_t)batch * p.pages_per_sequence;
    const int32_t last = min(own.seqlen_k, own.seqlen_q + own.right) - 1;

    if (!fault_of(p.base) || own.seqlen_q == 0)
        return;
#pragma unroll 1
    for (int32_t index = (max(0, own.left) >> p.page_shift) + (int32_t)thread_index(); index <= last >> p.page_shift;
         index += THREADS)
        if ((uint32_t)table_entry(table, index) >= (uint32_t)p.pages)
            atomicMin(fault_of(p.base), (uint32_t)batch);
}

#endif
