/* What a decode kernel is made for, and which of its rows and keys a block works on. lib/device/decode.h says what
 * items, steps, chunks and spans are. */
#ifndef GLINT_DEVICE_DECODE_WALK_H
#define GLINT_DEVICE_DECODE_WALK_H

#include "lib/device/bias.h"
#include "lib/device/decode.h"
#include "lib/device/score.h"
#include "lib/device/sequences.h"
#include "lib/device/softmax.h"
#include "lib/device/tile.h"
#include "lib/device/tree.h"

namespace decode
{

/* Elements of K and V as they are stored. WIDENED ones are of 8 bits, become bf16 for the products, and have scales. */
struct same {
    static constexpr bool WIDENED = false, HAS_NAN = false;
};

/* The numbers of an emitted kernel (`Variant`), and what follows from them. */
template <class Variant> struct shape : Variant {
    typedef typename Variant::element element; /* of Q, P and O */
    typedef typename Variant::stored stored;   /* same, or a type of narrow.h */
    typedef typename Variant::mask mask;
    typedef typename Variant::score score;
    typedef typename Variant::bias bias;
    struct stored_element {
        static constexpr uint32_t BYTES = stored::WIDENED ? 1 : 2;
    };
    enum {
        WIDENED = stored::WIDENED,
        CAPPED = !score::IDENTITY,
        BYTES = 2, /* of an element */
        KV_BYTES = stored::WIDENED ? 1 : 2,
        EXPONENT = (int)element::EXPONENT, /* all ones in NaN and infinity: see finite_part */
        THREADS = 32 * Variant::WARPS,
        ROW_TILES = Variant::TILE_M / 8,
        KEY_TILES = Variant::TILE_N / (16 * Variant::WARPS), /* fragments of 16 keys whose scores a warp makes */
        WARP_KEYS = 16 * KEY_TILES,
        K_STEPS = Variant::DIM_PADDED / 16,
        DIM_TILES = Variant::DIM_PADDED / 16,
        DIM_MINE = (DIM_TILES + Variant::WARPS - 1) / Variant::WARPS, /* fragments of 16 columns that a warp sums */
        UNEVEN = DIM_TILES % Variant::WARPS != 0,
        LARGE = Variant::DIM_PADDED > 256,                      /* sums of O leave Q no registers */
        Q_KEPT = K_STEPS * 2 * ROW_TILES <= 64 && !LARGE,       /* operands of Q stay in registers */
        CHAINS = WIDENED && KEY_TILES * ROW_TILES >= 2 ? 1 : 2, /* of products in a score */
        CHUNKS = Variant::DIM_PADDED * KV_BYTES / 16,
        ROW_CHUNKS = Variant::HEAD_DIM * KV_BYTES / 16,
        PAGES = CHUNKS / Variant::PAGE_CHUNKS,
        COPY_ROWS = THREADS / Variant::PAGE_CHUNKS, /* that all threads copy at once */
        COPIES = Variant::TILE_N / COPY_ROWS,       /* of a step */
        Q_BYTES = Variant::TILE_M * Variant::DIM_PADDED * BYTES,
        K_BYTES = Variant::TILE_N * Variant::DIM_PADDED * KV_BYTES,
        P_BYTES = Variant::TILE_M * Variant::TILE_N * BYTES,
        ROWS_BYTES = Variant::WARPS * Variant::TILE_M * 4, /* a number of each row from each warp */
        SCALE_BYTES = WIDENED ? Variant::TILE_N * 4 : 0,   /* of a step's keys, a float each */
        ROW_FLOATS = 2 * Variant::WARPS,                   /* of a row in the workspace: see partial_rows */
        SPAN_KEYS = Variant::CHUNK_STEPS * Variant::SPAN_CHUNKS * Variant::TILE_N,
        MERGE_WARPS = Variant::SPAN_CHUNKS,
    };
    typedef struct tile<element, Variant::TILE_M, Variant::HEAD_DIM, Variant::Q_PAGE_CHUNKS, Variant::DIM_PADDED> q_tile;
    typedef struct tile<stored_element, Variant::TILE_N, Variant::HEAD_DIM, Variant::PAGE_CHUNKS, Variant::DIM_PADDED> kv_tile;
    typedef float scores_t[KEY_TILES][ROW_TILES][4];
    typedef float rows_t[ROW_TILES][2];
    typedef float output_t[DIM_MINE][ROW_TILES][4];
    typedef uint32_t queries_t[Q_KEPT ? (int)K_STEPS : 1][ROW_TILES][2];

    static_assert(Variant::WARPS == 4, "a merge's lanes have the sums of 4 warps");
};

/* ---- where a block works ---------------------------------------------------------------------------------------- */

/* A tile of rows of (batch, key head, row tile): row0 is its first row, and its sequence begins at first_q and first_k
 * of the tensors. Under a mask with intervals its rows see keys of `keys` alone. */
struct row_tile {
    int32_t index, batch, head_kv, row0, first_q, first_k;
    struct key_range keys;
};

template <class S>
GLINT_DEVICE struct row_tile find_tile(const struct glint_decode_params &p, int32_t batch, int32_t head_kv, int32_t row_tile)
{
    return {(batch * p.shape.heads_kv + head_kv) * p.row_tiles + row_tile, batch, head_kv, row_tile * S::TILE_M, 0, 0, {0, 0}};
}

/* Row `row` of a tensor of queries. */
template <class S, class Rows>
GLINT_DEVICE char *query_row(const struct glint_decode_params &p, const struct glint_gpu_view &view, const struct row_tile &t,
                             int32_t row)
{
    const int32_t query = row / p.shape.group;

    return view_row(&view, Rows::batch_of(t.batch), t.head_kv * p.shape.group + row - query * p.shape.group, t.first_q + query,
                    S::BYTES);
}

template <class Rows>
GLINT_DEVICE void store_lse(const struct glint_decode_params &p, const struct row_tile &t, int32_t row, float lse)
{
    const int32_t query = row / p.shape.group, head = t.head_kv * p.shape.group + row - query * p.shape.group;

    st_global_f32(p.lse + ((int64_t)Rows::batch_of(t.batch) * p.shape.heads_q + head) * Rows::lse_rows(p) + (t.first_q + query),
                  lse);
}

/* Raises the largest logit of a row's head to `maximum`, that of the row. */
template <class S>
GLINT_DEVICE void note_logit(const struct glint_decode_params &p, const struct row_tile &t, int32_t row, float maximum)
{
    if constexpr (S::LOGIT)
        if (p.max_logit)
            raise_logit(p.max_logit + t.head_kv * p.shape.group + row % p.shape.group, maximum);
}

/* The end of the keys that a row of a sequence sees, and their begin. */
template <class S>
GLINT_DEVICE int32_t end_of_row(const struct glint_decode_params &p, int32_t row, const struct sequence_rows &own)
{
    return S::mask::RIGHT ? max(0, min(own.seqlen_k, row / p.shape.group + own.right + 1)) : own.seqlen_k;
}

template <class S>
GLINT_DEVICE int32_t begin_of_row(const struct glint_decode_params &p, int32_t row, const struct sequence_rows &own)
{
    return S::mask::LEFT ? max(0, row / p.shape.group + own.left) : 0;
}

/* The keys that a query of a tree may see, whatever its bits. */
GLINT_DEVICE struct key_range reach_of_tree(const struct glint_decode_params &p, const struct sequence_rows &own)
{
    const int32_t before = own.seqlen_k - own.seqlen_q, left = mask_of<tree_mask>(p, own, 0).left;

    return {max(0, before + max(-own.seqlen_k, min(0, left - 1))), own.seqlen_k};
}

/* The keys that a row sees, under a mask with intervals; none begin at seqlen_k and end at 0. A problem may have fewer
 * bounds than the mask. To walk over (WALK) there may be more of a tree's: what a query's bits leave is not asked, so
 * that copies need not wait for them. */
template <class S, class Rows, bool WALK>
GLINT_DEVICE struct key_range keys_of_row(const struct glint_decode_params &p, const struct row_tile &t, int32_t row,
                                          const struct sequence_rows &own)
{
    const int32_t query = row / p.shape.group;
    const int64_t first = (int64_t)Rows::batch_of(t.batch) * p.shape.seqlen_q + own.first_q; /* one of the two is 0 */
    const struct key_range none = {own.seqlen_k, 0};
    struct key_range keys = {query + own.left, query + own.right + 1};

    if (row >= own.rows)
        return none;
    if constexpr (S::mask::TREE)
        if (p.tree_bits) {
            if constexpr (!WALK)
                return keys_of_query(mask_of<tree_mask>(p, own, first), query);
            keys = reach_of_tree(p, own);
        }
    if (p.key_begin)
        keys = {max(keys.first, int_at(p.key_begin + first, query)), min(keys.end, int_at(p.key_end + first, query))};
    keys = {max(keys.first, 0), min(keys.end, own.seqlen_k)};
    return keys.first < keys.end ? keys : none;
}

/* Finds what the rows of a tile see. All lanes of a warp call it. */
template <class S, class Rows>
GLINT_DEVICE void find_keys(const struct glint_decode_params &p, struct row_tile &t, const struct sequence_rows &own)
{
    if constexpr (S::mask::INTERVALS) {
        if (!p.key_begin) { /* the first row reaches back furthest, and the last one forward */
            t.keys = {begin_of_row<S>(p, t.row0, own), end_of_row<S>(p, min(own.rows, t.row0 + S::TILE_M) - 1, own)};
            if constexpr (S::mask::TREE)
                if (p.tree_bits)
                    t.keys = reach_of_tree(p, own);
            if (t.row0 >= own.rows)
                t.keys.end = 0;
            return;
        }
        t.keys = {own.seqlen_k, 0};
        for (int32_t row = (int32_t)lane_index(); row < S::TILE_M; row += 32) {
            const struct key_range keys = keys_of_row<S, Rows, true>(p, t, t.row0 + row, own);

            t.keys = {min(t.keys.first, keys.first), max(t.keys.end, keys.end)};
        }
        join_lanes(t.keys);
    }
}

/* The steps that hold all keys that some row of the tile sees: from the first one up to the end. */
template <class S>
GLINT_DEVICE int32_t begin_of_tile(const struct glint_decode_params &p, const struct row_tile &t, const struct sequence_rows &own)
{
    return (S::mask::INTERVALS ? t.keys.first : begin_of_row<S>(p, t.row0, own)) / S::TILE_N;
}

template <class S>
GLINT_DEVICE int32_t end_of_tile(const struct glint_decode_params &p, const struct row_tile &t, const struct sequence_rows &own)
{
    if constexpr (S::mask::INTERVALS)
        return (t.keys.end + S::TILE_N - 1) / S::TILE_N;
    return t.row0 < own.rows ? (end_of_row<S>(p, min(own.rows, t.row0 + S::TILE_M) - 1, own) + S::TILE_N - 1) / S::TILE_N : 0;
}

/* Steps of an entry of the workspace, and how many entries are folded before the next level. */
template <class S> GLINT_DEVICE int32_t steps_of_entry(const struct glint_decode_params &p)
{
    return p.level == GLINT_DECODE_STEP    ? 1
           : p.level == GLINT_DECODE_CHUNK ? (int)S::CHUNK_STEPS
                                           : (int)S::CHUNK_STEPS * (int)S::SPAN_CHUNKS;
}

template <class S> GLINT_DEVICE int32_t entries_of_group(const struct glint_decode_params &p)
{
    return p.level == GLINT_DECODE_STEP ? (int)S::CHUNK_STEPS : p.level == GLINT_DECODE_CHUNK ? (int)S::SPAN_CHUNKS : 1;
}

/* The entry of the tile's first step: the workspace begins with it. */
template <class S>
GLINT_DEVICE int32_t first_entry(const struct glint_decode_params &p, const struct row_tile &t, const struct sequence_rows &own)
{
    return S::mask::LEFT ? begin_of_tile<S>(p, t, own) / steps_of_entry<S>(p) : 0;
}

/* ---- what rows see ---------------------------------------------------------------------------------------------- */

/* Of a tree: which of the new keys, from first_slot on, a row of this lane sees. Without one first_slot is no key. */
template <class S, bool TREE> struct new_keys {
};

template <class S> struct new_keys<S, true> {
    struct tree_rows tree;
    int32_t first_slot, query[S::ROW_TILES][2];
};

/* The keys that each row of this lane sees: from begin on, up to end, less what a tree hides between them. Without a
 * left side `begin` is not read. */
template <class S> struct sight : new_keys<S, S::mask::TREE> {
    int32_t end[S::ROW_TILES][2], begin[S::ROW_TILES][2];
};

/* The row of the tile that register `odd` of row fragment rt belongs to. */
GLINT_DEVICE int32_t row_of_lane(const int rt, const int odd)
{
    return rt * 8 + 2 * (int32_t)(lane_index() & 3) + odd;
}

template <class S, class Rows>
GLINT_DEVICE void look(struct sight<S> &sight, const struct glint_decode_params &p, const struct row_tile &t,
                       const struct sequence_rows &own)
{
#pragma unroll
    for (int rt = 0; rt < S::ROW_TILES; ++rt)
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
            const int32_t row = t.row0 + row_of_lane(rt, odd);

            if constexpr (S::mask::INTERVALS) {
                const struct key_range keys = keys_of_row<S, Rows, false>(p, t, row, own);

                sight.begin[rt][odd] = keys.first;
                sight.end[rt][odd] = keys.end;
            } else {
                sight.end[rt][odd] = end_of_row<S>(p, row, own);
                if (S::mask::LEFT)
                    sight.begin[rt][odd] = begin_of_row<S>(p, row, own);
            }
            if constexpr (S::mask::TREE) /* a row past the end has the last one's bits */
                sight.query[rt][odd] = min(row / p.shape.group, max(own.seqlen_q, 1) - 1);
        }
    if constexpr (S::mask::TREE) {
        sight.tree = {p.tree_bits, 0};
        sight.first_slot = 0x7fffffff;
        if (p.tree_bits) {
            sight.tree = mask_of<tree_mask>(p, own, (int64_t)Rows::batch_of(t.batch) * p.shape.seqlen_q + own.first_q).tree;
            sight.first_slot = own.seqlen_k - own.seqlen_q;
        }
    }
}

/* Whether a row sees any of `keys` keys from first_key on, were there no tree. */
template <class S>
GLINT_DEVICE bool reaches(const struct sight<S> &sight, const int rt, const int odd, int32_t first_key, int32_t keys)
{
    return first_key < sight.end[rt][odd] && (!S::mask::LEFT || first_key + keys > sight.begin[rt][odd]);
}

/* Whether a row sees a key. */
template <class S> GLINT_DEVICE bool sees(const struct sight<S> &sight, const int rt, const int odd, int32_t key)
{
    if constexpr (S::mask::TREE)
        return reaches(sight, rt, odd, key, 1) &&
               (key < sight.first_slot || has_slot(sight.tree, sight.query[rt][odd], key - sight.first_slot));
    return reaches(sight, rt, odd, key, 1);
}

/* Steps with a key that some row of the tile does not see: from `from` on, and before `to`. */
struct cut_steps {
    int32_t from, to;
};

template <class S>
GLINT_DEVICE struct cut_steps find_cut(const struct glint_decode_params &p, const struct row_tile &t,
                                       const struct sequence_rows &own, const struct sight<S> &sight)
{
    if constexpr (S::mask::INTERVALS) {
        int32_t late = 0, early = own.seqlen_k;

#pragma unroll
        for (int i = 0; i < 2 * S::ROW_TILES; ++i)
            if (t.row0 + row_of_lane(i / 2, i % 2) < own.rows) {
                late = max(late, sight.begin[i / 2][i % 2]);
                early = min(early, sight.end[i / 2][i % 2]);
            }
#pragma unroll
        for (uint32_t lanes = 1; lanes < 4; lanes *= 2) { /* others have the same rows */
            late = max(late, of_lane(late, lanes));
            early = min(early, of_lane(early, lanes));
        }
        if constexpr (S::mask::TREE)
            early = min(early, max(0, sight.first_slot));
        return {early / S::TILE_N, (late + S::TILE_N - 1) / S::TILE_N};
    }
    const int32_t last_row = min(own.rows, t.row0 + S::TILE_M) - 1;

    return {end_of_row<S>(p, t.row0, own) / S::TILE_N, (begin_of_row<S>(p, last_row, own) + S::TILE_N - 1) / S::TILE_N};
}

/* Whether it sees any at all. */
template <class S> GLINT_DEVICE bool sees_some(const struct sight<S> &sight, const int rt, const int odd)
{
    return sight.end[rt][odd] > (S::mask::LEFT ? sight.begin[rt][odd] : 0);
}

/* What is added to the scores of each row of this lane. */
template <class S> struct row_biases {
    typename S::bias of[S::ROW_TILES][2];
    int32_t query[S::ROW_TILES][2];
};

template <class S>
GLINT_DEVICE void look(struct row_biases<S> &biases, const struct glint_decode_params &p, const struct row_tile &t,
                       const struct sequence_rows &own)
{
    const struct place at = {0, 0, t.batch, 0, 0, 0, own};

    if constexpr (!S::bias::NONE)
#pragma unroll
        for (int rt = 0; rt < S::ROW_TILES; ++rt)
#pragma unroll
            for (int odd = 0; odd < 2; ++odd) {
                const int32_t row = t.row0 + row_of_lane(rt, odd), query = row / p.shape.group;

                biases.query[rt][odd] = query;
                biases.of[rt][odd] = S::bias::template of<given>(p, t.head_kv * p.shape.group + row - query * p.shape.group, at, 0);
            }
}

/* Of a row and this lane's keys of a step. */
template <class S>
GLINT_DEVICE auto tile_of_row(const struct row_biases<S> &biases, const int rt, const int odd, int32_t step, uint32_t warp)
{
    if constexpr (S::bias::NONE)
        return no_bias{};
    else
        return tile_of(biases.of[rt][odd], biases.query[rt][odd],
                       step * S::TILE_N + (int32_t)(warp * S::WARP_KEYS + (lane_index() >> 2)));
}

/* ---- the walk --------------------------------------------------------------------------------------------------- */

/* A place in the walk of a block: it takes every grid-th item from its own index on, an item being a part of the keys
 * of a tile of rows, and passes over its steps. Neighbouring items are tiles of rows of one key head, then key heads:
 * what they read lies side by side. */
struct cursor {
    struct row_tile tile;
    struct sequence_rows own;
    int32_t own_of; /* which sequence that is: it is read once as long as tiles are of one sequence */
    int32_t step, end;
    uint32_t item;
};

/* Where the item is, ... */
template <class S> GLINT_DEVICE void locate_item(const struct glint_decode_params &p, struct cursor &c)
{
    const uint32_t by_head = c.item / (uint32_t)p.row_tiles, by_part = by_head / (uint32_t)p.shape.heads_kv;
    const uint32_t batch = by_part / (uint32_t)p.parts, part = by_part - batch * (uint32_t)p.parts;

    c.step = (int32_t)part * p.range;
    c.tile = find_tile<S>(p, (int32_t)batch, (int32_t)(by_head - by_part * (uint32_t)p.shape.heads_kv),
                          (int32_t)(c.item - by_head * (uint32_t)p.row_tiles));
}

/* ... and how long, which may take a look into memory. */
template <class S, class Rows, class Keys> GLINT_DEVICE void measure_item(const struct glint_decode_params &p, struct cursor &c)
{
    if (c.own_of != c.tile.batch) {
        c.own = Rows::template sequence_at<Keys>(p, c.tile.batch);
        c.own_of = c.tile.batch;
    }
    c.tile.first_q = c.own.first_q;
    c.tile.first_k = c.own.first_k;
    find_keys<S, Rows>(p, c.tile, c.own);
    c.end = end_of_tile<S>(p, c.tile, c.own);
    if (p.parts > 1) {
        if (S::mask::LEFT)
            c.step += first_entry<S>(p, c.tile, c.own) * steps_of_entry<S>(p);
        c.end = min(c.end, c.step + p.range);
    }
    if (S::mask::LEFT)
        c.step = max(c.step, begin_of_tile<S>(p, c.tile, c.own));
}

/* To the first step of the walk at or after the cursor, if there is one. */
template <class S, class Rows, class Keys> GLINT_DEVICE bool find_step(const struct glint_decode_params &p, struct cursor &c)
{
    while (c.step >= c.end && c.item < p.items) {
        c.item += p.blocks;
        if (c.item < p.items) {
            locate_item<S>(p, c);
            measure_item<S, Rows, Keys>(p, c);
        }
    }
    return c.item < p.items;
}

} // namespace decode

#endif
