/* Where the keys of a sequence lie, as types: `linear`, one row after another in K and V, or `paged`, in pages behind a
 * table that the kernel reads. A kernel is written once over such a type. Its `source` copies blocks of K and V from
 * the last one of a block's keys to the first. A kernel that reads no keys may serve both, `linear_or_paged`. */
#ifndef GLINT_DEVICE_KEYS_H
#define GLINT_DEVICE_KEYS_H

#include "lib/device/intervals.h"
#include "lib/device/sequences.h"
#include "lib/device/tile.h"
#include "lib/device/tree.h"

struct linear {
    static constexpr bool PAGED = false;
    template <class Call> GLINT_DEVICE bool in_pages(const Call &)
    {
        return false;
    }
    template <class Tile> struct source {
        struct linear_rows<Tile> k, v;
    };

    /* K and V of a head, whose block from key `first` on is copied first. `kept`: 32 bytes of shared memory for what a
     * loop seldom wants. */
    template <class Rows, class Tile>
    GLINT_DEVICE struct source<Tile> open(const struct glint_gpu_call &p, const struct place &at, int32_t head, int32_t first,
                                          uint32_t) {
        const int64_t k_row_bytes = p.k.row * Tile::element::BYTES, v_row_bytes = p.v.row * Tile::element::BYTES;

        return {rows_of<Tile>(p.k, k_row_bytes, at.batch, head, at.first_k + first),
                rows_of<Tile>(p.v, v_row_bytes, at.batch, head, at.first_k + first)};
    }
    /* Begins the copies of the first block into tiles; keys from `end` on become zeros. */
    template <int THREADS, class Tile>
    GLINT_DEVICE void copy(const struct glint_gpu_call &, const struct source<Tile> &from, uint32_t k_tile, uint32_t v_tile,
                           int32_t first, int32_t end)
    {
        copy_tile<THREADS>(k_tile, from.k, end - first);
        copy_tile<THREADS>(v_tile, from.v, end - first);
    }
    /* And of the block before block `block`, to copy_offset's places of k_to and v_to; before block `first` there are
     * zeros. */
    template <int THREADS, class Tile>
    GLINT_DEVICE void copy_before(const struct glint_gpu_call &, struct source<Tile> &from, uint32_t k_to, uint32_t v_to,
                                  int32_t block, int32_t first)
    {
#pragma unroll
        for (int i = pieces<Tile, THREADS>::COUNT - 1; i >= 0; --i) {
            copy_piece_before<THREADS>(k_to, from.k, block > first, i);
            copy_piece_before<THREADS>(v_to, from.v, block > first, i);
        }
    }
    /* Lowers the call's word for a fault where the table of a block's sequence has one. */
    template <class Rows, int THREADS> GLINT_DEVICE void note_faults(const struct glint_gpu_call &, const struct place &) {}
    /* Does so where queries have intervals, for the blocks of keys of a tile of queries. */
    template <class Rows, int TILE_M, int TILE_N, int THREADS, class Mask>
    GLINT_DEVICE void note_faults(const struct glint_gpu_call &, const struct place &, const Mask &,
                                  const struct key_blocks<interval_mask> &)
    {
    }
};

/* ---- pages: an index outside of the pool counts as the nearest one ----------------------------------------------- */

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

/* They wait in 32 bytes of shared memory, as the mask does: a loop that keeps them has no registers left in some
 * tiles. */
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

/* The page of a key as it counts. */
GLINT_DEVICE int32_t page_of_key(const struct glint_gpu_pages &pages, const int32_t *table, int32_t key)
{
    return within(int_at(table, key >> pages.shift), pages.count - 1);
}

/* Begins the copies of the tiles of K and V whose first key is `first`, to copy_offset's places of k_to and v_to, in
 * the pieces of `pieces`. Keys from `end` on become zeros, and so do all unless `wanted`; the table is read at keys
 * from 0 to end - 1 alone, or at key 0. One page at a time: to look all of them up first took registers that some tiles
 * have not. */
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

/* Lowers the word for a fault to `batch` if a page with a key that some query of that sequence sees is outside of the
 * pool. The threads of one block of the grid call it for a sequence. */
template <int THREADS> GLINT_DEVICE void note_bad_page(const struct glint_gpu_call &p, const struct sequence &own, int32_t batch)
{
    const int32_t *table = p.pages.table + (int64_t)batch * p.pages.per_sequence;
    const int32_t last = min(own.seqlen_k, own.seqlen_q + own.right) - 1;

    if (!p.sequences.fault || own.seqlen_q == 0 || own.left > last)
        return;
#pragma unroll 1
    for (int32_t index = (max(0, own.left) >> p.pages.shift) + (int32_t)thread_index(); index <= last >> p.pages.shift;
         index += THREADS)
        if ((uint32_t)int_at(table, index) >= (uint32_t)p.pages.count)
            atomicMin(p.sequences.fault, (uint32_t)batch);
}

/* Lowers the word for a fault if a query of the tile from query0 on sees a key of a page outside of the pool, in the
 * blocks of keys from `first` to `last`. Queries have intervals. Blocks of head 0 call it. */
template <int TILE_M, int TILE_N, int THREADS, class Mask>
GLINT_DEVICE void note_bad_pages(const struct glint_gpu_call &p, int32_t query0, int32_t batch, const Mask &mask, int32_t first,
                                 int32_t last)
{
    const int32_t *table = p.pages.table + (int64_t)batch * p.pages.per_sequence;
    const int32_t end = min(mask.seqlen_k, (last + 1) * TILE_N);

    if (!p.sequences.fault)
        return;
#pragma unroll 1
    for (int32_t index = (first * TILE_N >> p.pages.shift) + (int32_t)thread_index(); index << p.pages.shift < end;
         index += THREADS) {
        if ((uint32_t)int_at(table, index) < (uint32_t)p.pages.count)
            continue;
#pragma unroll 1
        for (int32_t query = query0; query < query0 + TILE_M; ++query)
            if (reaches(mask, query, index << p.pages.shift, 1 << p.pages.shift))
                atomicMin(p.sequences.fault, (uint32_t)batch);
    }
}

struct paged {
    static constexpr bool PAGED = true;
    template <class Call> GLINT_DEVICE bool in_pages(const Call &)
    {
        return true;
    }
    template <class Tile> struct source {
        struct paged_keys keys;
        uint32_t kept;
    };

    template <class Rows, class Tile>
    GLINT_DEVICE struct source<Tile> open(const struct glint_gpu_call &p, const struct place &at, int32_t head, int32_t,
                                          uint32_t kept) {
        const struct paged_keys keys = keys_of<Tile>(p, Rows::number_of(at), head);

        if (thread_index() == 0)
            put_keys(kept, keys);
        return {keys, kept};
    } template <int THREADS, class Tile>
    GLINT_DEVICE void copy(const struct glint_gpu_call &p, const struct source<Tile> &from, uint32_t k_tile, uint32_t v_tile,
                           int32_t first, int32_t end)
    {
        const uint32_t to = copy_offset<Tile>();

        copy_paged_tiles<THREADS, Tile>(p, from.keys, k_tile + to, v_tile + to, first, end, true);
    }
    template <int THREADS, class Tile>
    GLINT_DEVICE void copy_before(const struct glint_gpu_call &p, const struct source<Tile> &from, uint32_t k_to, uint32_t v_to,
                                  int32_t block, int32_t first)
    {
        enum { TILE_N = Tile::ROWS };

        copy_paged_tiles<THREADS, Tile>(p, get_keys(from.kept), k_to, v_to, (block - 1) * TILE_N, block * TILE_N, block > first);
    }
    template <class Rows, int THREADS> GLINT_DEVICE void note_faults(const struct glint_gpu_call &p, const struct place &at)
    {
        if (at.head == 0 && at.row0 == 0)
            note_bad_page<THREADS>(p, at.own, Rows::number_of(at));
    }
    template <class Rows, int TILE_M, int TILE_N, int THREADS, class Mask>
    GLINT_DEVICE void note_faults(const struct glint_gpu_call &p, const struct place &at, const Mask &mask,
                                  const struct key_blocks<interval_mask> &blocks)
    {
        if (at.head == 0)
            note_bad_pages<TILE_M, TILE_N, THREADS>(p, at.row0, Rows::number_of(at), mask, blocks.first, blocks.last);
    }
};

/* A ragged call in pages has no first_k. */
struct linear_or_paged {
    template <class Call> GLINT_DEVICE bool in_pages(const Call &p)
    {
        return !p.sequences.first_k;
    }
};

#endif
