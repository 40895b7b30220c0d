/* Where the rows of sequences lie, as types: a kernel is written once over such a type, and makes a member of each that
 * it is wanted for.
 *
 *     given     every sequence has the lengths of the shape
 *     padded    each has lengths of its own, which the kernel reads; tensors are laid out for the bounds
 *     ragged    they follow one another in the rows of the tensors; the kernel reads where each begins
 *
 * What is the same for all of them is what a block works on, a struct place. It has zeros where a type has nothing to
 * say, so that addresses are one formula, which costs nothing for them. */
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

/* A sequence, how many rows, (query, query head) pairs, a key head has of it, and where it begins in the tensors. */
struct sequence_rows : sequence {
    int32_t rows, first_q, first_k;
};

/* Row `row` of the queries of a block's sequence in a tensor; of its keys. */
GLINT_DEVICE char *query_row(const struct glint_gpu_view &view, const struct place &at, int32_t row, const int element_bytes)
{
    return view_row(&view, at.batch, at.head, at.first_q + row, element_bytes);
}

/* ---- the tile of a padded batch that a block has in the backward pass, found by one thread ----------------------- */

/* Rows of a tile from row0 of a head of a sequence on. row0 below 0: nothing, as the sequence ends before. */
struct padded_tile {
    int32_t row0, head, batch, index; /* index: of the tile in its head */
    struct sequence own;
};

/* Finds the tile of this block among those of TILE queries, or keys, at the bound, and leaves it at `kept` as
 * put_ragged_tile does. */
template <int TILE, bool KEYS> GLINT_DEVICE void find_padded_tile(const struct glint_gpu_call &p, int32_t section, uint32_t kept)
{
    const struct glint_gpu_shape &shape = p.shape;
    const int32_t heads = KEYS ? shape.heads_kv : shape.heads_q;
    const int32_t bound = max(1, KEYS ? shape.seqlen_k : shape.seqlen_q), tiles = (bound + TILE - 1) / TILE;
    const struct block_place place = find_place(block_index(), (uint32_t)tiles, (uint32_t)(shape.batch * heads), (uint32_t)section);
    const int32_t batch = place.head / heads, index = KEYS ? place.index : tiles - 1 - place.index;
    const struct sequence own = find_sequence(p, batch);
    const bool any = index * TILE < (KEYS ? own.seqlen_k : own.seqlen_q);

    put_ragged_tile(kept, {any ? index * TILE : -1, place.head - batch * heads, batch, index, own});
}

GLINT_DEVICE struct padded_tile get_padded_tile(uint32_t kept)
{
    const struct ragged_tile tile = get_ragged_tile(kept);

    return {tile.row0, tile.head, tile.first_q, tile.first_k, tile.own};
}

/* ---- the types --------------------------------------------------------------------------------------------------- */

struct given {
    static constexpr bool READS = false; /* lengths: then a block may have nothing to do */
    /* Of shared memory, in which a place waits: a loop that seldom wants it keeps no registers for it. */
    enum { KEPT_BYTES = 0 };

    GLINT_DEVICE struct sequence sequence_of(const struct glint_gpu_shape &shape)
    {
        return {shape.seqlen_q, shape.seqlen_k, shape.mask_first, shape.mask_offset};
    }

    /* The forward pass: the tile of TILE queries that this block has. `search` is 256 bytes of shared memory, `kept`
     * KEPT_BYTES. Warp NOTING_WARP, or a thread, lowers the call's word for a fault. Keys is a type of keys.h. */
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

    /* The backward pass: the tile of TILE queries, or with KEYS of keys, that this block has. Where lengths are read,
     * row0 below 0 says that it has none. `kept` is 36 bytes of shared memory; section: see find_place. */
    template <int TILE, bool KEYS>
    GLINT_DEVICE struct place find_tile(const struct glint_gpu_call &p, int32_t section, uint32_t, uint32_t)
    {
        return tile_again<TILE, KEYS>(p, section, 0);
    }
    template <int TILE, bool KEYS> GLINT_DEVICE struct place tile_again(const struct glint_gpu_call &p, int32_t section, uint32_t)
    {
        if constexpr (KEYS) {
            return keys_at<TILE>(p, find_key_block<TILE>(p.shape, block_index()));
        } else {
            const struct query_block block = find_query_block_of<TILE>(p.shape, section);

            return {block.query0, block.head_q, block.batch, block.head, 0, 0, sequence_of(p.shape)};
        }
    }
    /* The place of a block of keys, or of a part of its query heads. */
    template <int TILE, class Block> GLINT_DEVICE struct place keys_at(const struct glint_gpu_call &p, const Block &block)
    {
        return {block.index * TILE, block.head_kv, block.batch, 0, 0, 0, sequence_of(p.shape)};
    }
    /* The place again where it is seldom wanted. */
    GLINT_DEVICE const struct place &place_again(const struct place &at, uint32_t)
    {
        return at;
    }
    /* Where the rows of a block's sequence begin in a line of the padded arrays of the workspace. */
    GLINT_DEVICE int32_t padded_first_of(uint32_t)
    {
        return 0;
    }
    /* The GLINT_GPU_ROW_PAD queries that this block of 256 threads has, for the first kernel, which lowers the call's
     * word for a fault. `kept`: 304 bytes of shared memory. */
    GLINT_DEVICE struct place find_rows_of_block(const struct glint_gpu_call &p, uint32_t)
    {
        const int32_t blocks = (p.shape.seqlen_q + GLINT_GPU_ROW_PAD - 1) / GLINT_GPU_ROW_PAD;
        const int32_t line = (int32_t)block_index() / blocks, row0 = ((int32_t)block_index() - line * blocks) * GLINT_GPU_ROW_PAD;
        const int32_t batch = line / p.shape.heads_q;

        return {row0, line - batch * p.shape.heads_q, batch, line, 0, 0, sequence_of(p.shape)};
    }
    /* Sequences one after another, as the gradient of the sinks wants them: `next` gives the place of a head in
     * sequence `number`, and where its rows begin in a line of the padded arrays. */
    static constexpr bool IN_TURN = false; /* `next` is asked for all of them, from 0 on */
    struct walk {
    };
    GLINT_DEVICE struct walk first_of(const struct glint_gpu_call &)
    {
        return {};
    }
    GLINT_DEVICE struct place next(const struct glint_gpu_call &p, struct walk &, int32_t number, int32_t head, int32_t &padded)
    {
        padded = 0;
        return {0, head, number, number * p.shape.heads_q + head, 0, 0, sequence_of(p.shape)};
    }

    /* ---- both ---- */

    /* Which sequence of the batch it is. */
    GLINT_DEVICE int32_t number_of(const struct place &at)
    {
        return at.batch;
    }
    /* Which sequence a block has: any block of the backward pass, and in the forward pass any but one of `ragged`. The
     * block's tile waits at `kept`. */
    GLINT_DEVICE int32_t sequence_of_block(const struct place &at, uint32_t)
    {
        return at.batch;
    }
    /* Rows of a line of LSE. */
    template <class Call> GLINT_DEVICE int32_t lse_rows(const Call &p)
    {
        return p.shape.seqlen_q;
    }
};

/* The mask of a call whose sequences all have its lengths. */
template <class Band> GLINT_DEVICE Band mask_of_call(const struct glint_gpu_shape &shape)
{
    return mask_of<Band>(given::sequence_of(shape));
}

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
        if (thread_index() != 0)
            return;
        if constexpr (Band::INTERVALS)
            put_mask(kept, window_mask{0, 0, mask.seqlen_q, mask.seqlen_k});
        else
            put_mask(kept, mask);
    }
    template <class Band> GLINT_DEVICE Band sight(uint32_t kept, const Band &mask)
    {
        if constexpr (Band::INTERVALS)
            return mask; /* it is in shared memory as it is */
        else
            return get_mask<Band>(kept);
    }

    template <int TILE, bool KEYS>
    GLINT_DEVICE struct place find_tile(const struct glint_gpu_call &p, int32_t section, uint32_t, uint32_t kept)
    {
        if (thread_index() == 0)
            find_padded_tile<TILE, KEYS>(p, section, kept);
        block_sync();
        return tile_again<TILE, KEYS>(p, section, kept);
    }
    template <int TILE, bool KEYS> GLINT_DEVICE struct place tile_again(const struct glint_gpu_call &p, int32_t, uint32_t kept)
    {
        struct place at = place_again({}, kept);

        at.line = KEYS ? 0 : at.batch * p.shape.heads_q + at.head;
        return at;
    }
    GLINT_DEVICE struct place place_again(const struct place &, uint32_t kept)
    {
        const struct padded_tile tile = get_padded_tile(kept);

        return {tile.row0, tile.head, tile.batch, 0, 0, 0, tile.own};
    }
    GLINT_DEVICE struct place find_rows_of_block(const struct glint_gpu_call &p, uint32_t kept)
    {
        if (thread_index() == 0)
            find_padded_tile<GLINT_GPU_ROW_PAD, false>(p, 1, kept);
        block_sync();
        const struct padded_tile tile = get_padded_tile(kept);
        if (tile.head == 0 && tile.index == 0 && thread_index() == 0)
            note_fault(p, tile.batch);
        return {tile.row0, tile.head, tile.batch, tile.batch * p.shape.heads_q + tile.head, 0, 0, tile.own};
    }
    GLINT_DEVICE struct place next(const struct glint_gpu_call &p, struct walk &, int32_t number, int32_t head, int32_t &padded)
    {
        padded = 0;
        return {0, head, number, number * p.shape.heads_q + head, 0, 0, find_sequence(p, number)};
    }

    /* Decode: a sequence, which all lanes of a warp look up together, and the batch of the tensors that it has. The
     * threads of one block lower the call's word for a fault to the first sequence with one. Call: what the kernel is
     * given; Keys: a type of keys.h. */
    template <class Keys, class Call> GLINT_DEVICE struct sequence_rows sequence_at(const Call &p, int32_t sequence)
    {
        const struct sequence own = find_sequence(p, sequence);

        return {own, own.seqlen_q * p.shape.group, 0, 0};
    }
    GLINT_DEVICE int32_t batch_of(int32_t sequence)
    {
        return sequence;
    }
    template <class Keys, int THREADS, class Call> GLINT_DEVICE void note_faults(const Call &p)
    {
        for (int32_t sequence = (int32_t)thread_index(); sequence < p.shape.batch; sequence += THREADS)
            note_fault(p, sequence);
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
    template <int TILE, bool KEYS>
    GLINT_DEVICE struct place find_tile(const struct glint_gpu_call &p, int32_t section, uint32_t search, uint32_t kept)
    {
        if (warp_index() == 0)
            find_ragged_tile<TILE, KEYS, true>(p.sequences, p.shape, block_index(), KEYS ? p.shape.heads_kv : p.shape.heads_q,
                                               section, search, kept);
        block_sync();
        return place_of(get_ragged_tile(kept));
    }
    template <int TILE, bool KEYS> GLINT_DEVICE struct place tile_again(const struct glint_gpu_call &, int32_t, uint32_t kept)
    {
        return place_of(get_ragged_tile(kept));
    }
    GLINT_DEVICE struct place place_again(const struct place &, uint32_t kept)
    {
        return place_of(get_ragged_tile(kept));
    }
    GLINT_DEVICE int32_t padded_first_of(uint32_t kept)
    {
        return (int32_t)ld_shared_u32(kept + 32);
    }
    GLINT_DEVICE struct place find_rows_of_block(const struct glint_gpu_call &p, uint32_t kept)
    {
        if (warp_index() == 0)
            find_ragged_tile<GLINT_GPU_ROW_PAD, false, true>(p.sequences, p.shape, block_index(), p.shape.heads_q, 1, kept + 48,
                                                             kept);
        if (p.sequences.fault && block_index() == 0 && warp_index() == 7)
            note_ragged_fault(p.sequences, p.shape);
        block_sync();
        return place_of(get_ragged_tile(kept));
    }
    /* 56 registers for the 48 of a loop that did all of this in place. The grid has a block a query head, so nobody
     * waits for them. */
    static constexpr bool IN_TURN = true;
    struct walk {
        int32_t at_q, at_k;
    };
    GLINT_DEVICE struct walk first_of(const struct glint_gpu_call &p)
    {
        return {row_at(queries_of(p.sequences, p.shape), 0), row_at(keys_of(p.sequences, p.shape), 0)};
    }
    GLINT_DEVICE struct place next(const struct glint_gpu_call &p, struct walk &walk, int32_t number, int32_t head, int32_t &padded)
    {
        const struct ragged_side queries = queries_of(p.sequences, p.shape), keys = keys_of(p.sequences, p.shape);
        const int32_t first_q = walk.at_q, end_q = max(first_q, row_at(queries, number + 1));
        const int32_t first_k = walk.at_k, end_k = max(first_k, row_at(keys, number + 1));
        struct sequence own = {rows_of(queries, number, first_q, end_q), rows_of(keys, number, first_k, end_k), 0, 0};

        find_sides(own, p.sequences);
        walk.at_q = end_q;
        walk.at_k = end_k;
        padded = padded_first(first_q, number);
        return {0, head, 0, head, first_q, first_k, own};
    }
    template <class Keys, class Call> GLINT_DEVICE struct sequence_rows sequence_at(const Call &p, int32_t sequence)
    {
        const struct ragged_rows q = find_rows_of(queries_of(p.sequences, p.shape), sequence);
        struct ragged_rows k = {0, 0, 0};
        struct sequence_rows own;

        if (!Keys::in_pages(p))
            k = find_rows_of(keys_of<false>(p.sequences, p.shape), sequence);
        else
            k.length = within(int_at(p.sequences.seqlens_k, sequence), p.shape.seqlen_k);
        own.seqlen_q = q.length;
        own.seqlen_k = k.length;
        own.rows = q.length * p.shape.group;
        own.first_q = q.at;
        own.first_k = k.at;
        find_sides(own, p.sequences);
        return own;
    }
    GLINT_DEVICE int32_t batch_of(int32_t)
    {
        return 0;
    }
    template <class Keys, int THREADS, class Call> GLINT_DEVICE void note_faults(const Call &p)
    {
        if (warp_index() == 0)
            note_ragged_fault<Keys::PAGED>(p.sequences, p.shape);
    }
    GLINT_DEVICE int32_t number_of(const struct place &at)
    {
        return at.first_k; /* in pages: see find_rows of a paged_side */
    }
    GLINT_DEVICE int32_t sequence_of_block(const struct place &at, uint32_t kept)
    {
        return (int32_t)((uint32_t)padded_first_of(kept) / GLINT_GPU_ROW_PAD) - at.first_q / GLINT_GPU_ROW_PAD;
    }
    template <class Call> GLINT_DEVICE int32_t lse_rows(const Call &p)
    {
        return p.sequences.rows_q;
    }
};

/* ragged, for the forward pass of kernels that ask which sequence a block has. */
struct numbered : ragged {
    enum { KEPT_BYTES = 48 };

    template <int TILE, int NOTING_WARP, class Keys>
    GLINT_DEVICE struct place find_queries(const struct glint_gpu_call &p, uint32_t search, uint32_t kept)
    {
        const struct glint_gpu_sequences &all = p.sequences;

        if (warp_index() == 0)
            find_tile_of<TILE, Keys>(p, search, kept);
        if (all.fault && block_index() == 0 && warp_index() == NOTING_WARP)
            note_ragged_fault<Keys::PAGED>(all, p.shape);
        block_sync();
        return place_of(get_ragged_tile(kept));
    }
    template <int TILE, class Keys> GLINT_DEVICE void find_tile_of(const struct glint_gpu_call &p, uint32_t search, uint32_t kept)
    {
        ::find_tile<TILE, false, 8>(queries_of(p.sequences, p.shape), keys_of<Keys::PAGED>(p.sequences, p.shape), p.shape,
                                    block_index(), p.shape.heads_q, p.shape.section, search,
                                    [&](struct ragged_tile &tile, int32_t sequence) {
                                        find_sides(tile.own, p.sequences);
                                        put_ragged_tile(kept, tile);
                                        st_shared_u32(kept + 32, (uint32_t)sequence);
                                    });
    }
    GLINT_DEVICE int32_t sequence_of_block(const struct place &, uint32_t kept)
    {
        return (int32_t)ld_shared_u32(kept + 32);
    }
};

#endif
