/* Where the rows of sequences lie, as types: a kernel is written once over such a type, and makes a member of each that it is wanted for.
 *
 *     given     every sequence has the lengths of the shape
 *     padded    each has lengths of its own, which the kernel reads; tensors are laid out for the bounds
 *     ragged    they follow one another in the rows of the tensors; the kernel reads where each begins
 *
 * What is the same for all of them is what a block works on, a struct place. It has zeros where a type has nothing to say, so that addresses are
 * one formula, which costs nothing for them. */
#ifndef GLINT_DEVICE_SEQUENCES_H
#define GLINT_DEVICE_SEQUENCES_H

#include "lib/device/ragged.h"

/* Rows of a tile from row0 of a sequence on, of one head. */
struct place {
    int32_t row0, head;
    int32_t batch;            /* of the tensors: 0 of ragged sequences */
    int32_t line;             /* of the arrays that have a line of rows for each head: batch * heads + head */
    int32_t first_q, first_k; /* rows of the tensors at which the sequence begins */
    struct sequence own;
};

/* Row `row` of the queries of a block's sequence in a tensor; of its keys. */
GLINT_DEVICE char *query_row(const struct glint_gpu_view &view, const struct place &at, int32_t row, const int element_bytes)
{
    return view_row(&view, at.batch, at.head, at.first_q + row, element_bytes);
}

struct given {
    static constexpr bool READS = false; /* lengths: then a block may have nothing to do */
    enum { KEPT_BYTES = 0 }; /* of shared memory, in which a place waits: a loop that seldom wants it keeps no registers for it */

    GLINT_DEVICE struct sequence sequence_of(const struct glint_gpu_shape &shape)
    {
        return {shape.seqlen_q, shape.seqlen_k, shape.mask_first, shape.mask_offset};
    }

    /* ---- the forward pass: the tile of TILE queries that this block has. `search`: 256 bytes of shared memory; `kept`: KEPT_BYTES. Warp
     * NOTING_WARP, or a thread, lowers the call's word for a fault. KEYS: whose keys they are. ---- */
    template <int TILE, int NOTING_WARP, class Keys>
    GLINT_DEVICE struct place find_queries(const struct glint_gpu_call &p, uint32_t, uint32_t)
    {
        return queries_again<TILE>(p, 0);
    }
    /* The same when it is wanted again. */
    template <int TILE> GLINT_DEVICE struct place queries_again(const struct glint_gpu_call &p, uint32_t)
    {
        const struct query_block block = find_query_block<TILE>(p.shape, 1);

        return {block.query0, block.head_q, block.batch, block.head, 0, 0, sequence_of(p.shape)};
    }
    GLINT_DEVICE bool is_empty(const struct place &)
    {
        return false;
    }
    /* Keeps the mask where `sight` finds it. */
    template <class Band> GLINT_DEVICE void keep_mask(uint32_t, const Band &) {}
    template <class Band> GLINT_DEVICE const Band &sight(uint32_t, const Band &mask)
    {
        return mask;
    }

    /* ---- both ---- */

    /* Which sequence of the batch it is. */
    GLINT_DEVICE int32_t number_of(const struct place &at)
    {
        return at.batch;
    }
    /* Rows of a line of LSE. */
    GLINT_DEVICE int32_t lse_rows(const struct glint_gpu_call &p)
    {
        return p.shape.seqlen_q;
    }
};

struct padded : given {
    static constexpr bool READS = true;
    enum { KEPT_BYTES = 16 };

    template <int TILE, int NOTING_WARP, class Keys>
    GLINT_DEVICE struct place find_queries(const struct glint_gpu_call &p, uint32_t, uint32_t)
    {
        const struct query_block block = find_query_block<TILE>(p.shape, 1, max(1, p.shape.seqlen_q));
        const struct place at = {block.query0, block.head_q, block.batch, block.head, 0, 0, find_sequence(p, block.batch)};

        if (at.head == 0 && at.row0 == 0 && thread_index() == 0)
            note_fault(p, at.batch);
        return at;
    }
    template <int TILE> GLINT_DEVICE struct place queries_again(const struct glint_gpu_call &p, uint32_t kept)
    {
        const struct query_block block = find_query_block<TILE>(p.shape, 1);

        return {block.query0, block.head_q, block.batch, block.head, 0, 0, get_sequence(kept)};
    }
    GLINT_DEVICE bool is_empty(const struct place &at)
    {
        return at.row0 >= at.own.seqlen_q;
    }
    template <class Band> GLINT_DEVICE void keep_mask(uint32_t kept, const Band &mask)
    {
        if (thread_index() == 0)
            put_mask(kept, mask);
    }
    template <class Band> GLINT_DEVICE Band sight(uint32_t kept, const Band &)
    {
        return get_mask<Band>(kept);
    }
};

struct ragged : padded {
    enum { KEPT_BYTES = 32 };

    GLINT_DEVICE struct place place_of(const struct ragged_tile &tile)
    {
        return {tile.row0, tile.head, 0, tile.head, tile.first_q, tile.first_k, tile.own};
    }
    template <int TILE, int NOTING_WARP, class Keys>
    GLINT_DEVICE struct place find_queries(const struct glint_gpu_call &p, uint32_t search, uint32_t kept)
    {
        if (warp_index() == 0)
            find_ragged_tile<TILE, false, false, Keys::PAGED>(p.sequences, p.shape, block_index(), p.shape.heads_q, p.shape.section,
                                                              search, kept);
        if (p.sequences.fault && block_index() == 0 && warp_index() == NOTING_WARP)
            note_ragged_fault<Keys::PAGED>(p.sequences, p.shape);
        block_sync();
        return place_of(get_ragged_tile(kept));
    }
    template <int TILE> GLINT_DEVICE struct place queries_again(const struct glint_gpu_call &, uint32_t kept)
    {
        return place_of(get_ragged_tile(kept));
    }
    GLINT_DEVICE bool is_empty(const struct place &at)
    {
        return at.row0 < 0;
    }
    template <class Band> GLINT_DEVICE void keep_mask(uint32_t, const Band &) {}
    GLINT_DEVICE int32_t number_of(const struct place &at)
    {
        return at.first_k; /* in pages: see find_rows of a paged_side */
    }
    GLINT_DEVICE int32_t lse_rows(const struct glint_gpu_call &p)
    {
        return p.sequences.rows_q;
    }
};

#endif
