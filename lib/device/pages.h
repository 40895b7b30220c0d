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

template <class Tile> GLINT_DEVICE struct paged_keys keys_of(const struct glint_gpu_call &p, int32_t batch, int32_t head)
{
    return {view_row(&p.k, 0, head, 0, Tile::element::BYTES), view_row(&p.v, 0, head, 0, Tile::element::BYTES),
            p.pages.table + (int64_t)batch * p.pages.per_sequence};
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

GLINT_DEVICE int32_t page_of_key(const struct glint_gpu_pages &pages, const int32_t *table, int32_t key)
{
    return max(0, min(table_entry(table, key >> pages.shift), pages.count - 1));
}

/* Begins the copies of the tiles of K and V whose first key is `first`, to copy_offset's places of k_to and v_to, in the pieces of `pieces`. Keys
 * from `end` on become zeros, and so do all unless `wanted`; the table is read at keys from 0 to end - 1 alone, or at key 0. One page at a time:
 * to look all of them up first took registers that some tiles have not. */
template <int THREADS, class Tile>
GLINT_DEVICE void copy_paged_tiles(const struct glint_gpu_call &p, const struct paged_keys &keys, uint32_t k_to, uint32_t v_to,
                                   int32_t first, int32_t end, bool wanted)
{
    typedef struct pieces<Tile, THREADS> cut;
    const uint32_t thread = thread_index_anew(), column = thread % Tile::PAGE_CHUNKS * 16;
    const int32_t own = first + (int32_t)(thread / Tile::PAGE_CHUNKS);

#pragma unroll
    for (int i = 0; i < cut::COUNT; ++i) {
        const int32_t key = own + i * cut::ROWS, row = key & ((1 << p.pages.shift) - 1);
        const int32_t page = page_of_key(p.pages, keys.table, max(0, min(key, end - 1)));
        const bool has_key = wanted && key < end;

        copy_rows(k_to, keys.k + column + (page * p.k.batch + row * p.k.row) * (int64_t)Tile::element::BYTES, has_key,
                  i * cut::ROWS, Tile::ROWS, Tile::ROW_CHUNKS, Tile::PAGES, Tile::PAGE_CHUNKS, THREADS);
        copy_rows(v_to, keys.v + column + (page * p.v.batch + row * p.v.row) * (int64_t)Tile::element::BYTES, has_key,
                  i * cut::ROWS, Tile::ROWS, Tile::ROW_CHUNKS, Tile::PAGES, Tile::PAGE_CHUNKS, THREADS);
    }
}

/* Lowers the word for a fault to `batch` if a page with a key that some query of that sequence sees is outside of the pool. The threads of one
 * block of the grid call it for a sequence. */
template <int THREADS> GLINT_DEVICE void note_bad_page(const struct glint_gpu_call &p, const struct sequence &own, int32_t batch)
{
    const int32_t *table = p.pages.table + (int64_t)batch * p.pages.per_sequence;
    const int32_t last = min(own.seqlen_k, own.seqlen_q + own.right) - 1;

    if (!p.sequences.fault || own.seqlen_q == 0)
        return;
#pragma unroll 1
    for (int32_t index = (max(0, own.left) >> p.pages.shift) + (int32_t)thread_index(); index <= last >> p.pages.shift;
         index += THREADS)
        if ((uint32_t)table_entry(table, index) >= (uint32_t)p.pages.count)
            atomicMin(p.sequences.fault, (uint32_t)batch);
}

#endif
