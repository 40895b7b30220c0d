/* Steps of the backward kernels whose products are a warpgroup's (sm_90a): what they are given, where a block works,
 * masks, NaN and infinity, and sums of blocks in a fixed order. */
#ifndef GLINT_DEVICE_WARPGROUP_BACKWARD_H
#define GLINT_DEVICE_WARPGROUP_BACKWARD_H

#include "lib/device/intervals.h"
#include "lib/device/warpgroup_backward_bias.h"

/* The maps of a backward kernel, in the order of its descriptor: boxes of all of head_dim by BOX_ROWS rows, swizzled
 * as a slab tile. */
enum { MAP_Q, MAP_K, MAP_V, MAP_DOUT, MAP_DQ, MAP_DK, MAP_DV };

enum {
    BOX_ROWS = 64,
    OWN_ROWS = 64, /* keys, or queries, of a warpgroup */
    NO_WORK = -1
};

/* ---- where to work ----------------------------------------------------------------------------------------------- */

/* What a block does for one number: keys [key0, key0 + TILE_N) of one head, against query blocks last ... first of each
 * of the `group` query heads from head0 on. `part`: which of the key head's parts these query heads are. Rows are
 * counted from the sequence's own first ones on, which are rows first_q and first_k of the tensors, and row `padded` of
 * the arrays of the workspace: 0 where all sequences have the lengths of the call. */
struct key_work : query_blocks {
    int32_t batch, head_kv, key0, steps, head0, group, part;
    int32_t first_q, first_k, padded;
};

/* How key blocks are numbered: of `heads` key heads, `blocks` each. `numbers` in all. Where several blocks share the
 * query heads of a key head, the key heads come once for each part: part 0 of all of them, then part 1 of all. So
 * blocks that add to the same dK and dV run at different times. */
struct key_order {
    uint32_t heads, blocks, numbers;
    uint32_t columns, lag, lagging, rest; /* see staggered_order */
};

/* By sections. */
GLINT_DEVICE struct key_order order_of(uint32_t heads, uint32_t blocks, uint32_t section)
{
    struct key_order order = {};

    order.blocks = blocks;
    order.heads = heads;
    order.numbers = order.heads * order.blocks;
    order.rest = order.heads;
    order.columns = min(section, order.heads);
    return order;
}

GLINT_DEVICE struct key_order plain_order(const struct glint_gpu_shape *shape, const uint32_t tile_n, int32_t parts = 1)
{
    return order_of((uint32_t)(shape->batch * shape->heads_kv * parts), ((uint32_t)shape->seqlen_k + tile_n - 1) / tile_n,
                    (uint32_t)shape->section);
}

/* The order for a mask: a key block, which visits fewer query blocks than the one before it, must start a turn
 * later, so blocks of one head that start together wait for each other. And blocks that run together should be of
 * few heads, whose sums of dQ stay in L2. So numbers go round `columns` of heads, head by head in each, and each
 * column is `lag` key blocks behind the one before: blocks of one head start one after another, and long blocks run
 * beside short ones. The last `rest` heads, two a column, have their longest blocks first, that the grid may end
 * with short ones. Numbers of the first rounds, where a column has not begun, and of the last ones, where one has
 * ended, have no block. */
/* Where a block visits one query block less than the one before. With two less it ends so much earlier that the order
 * by sections has no more waiting: measured 1 to 2 % better. With a window all visit as many, and neither was
 * measured. */
template <class Band, int TILE_M, int TILE_N> struct staggering {
    static constexpr bool wanted = Band::RIGHT && !Band::LEFT && TILE_M == TILE_N;
};

GLINT_DEVICE struct key_order stagger(struct key_order order)
{
    order.lag = order.blocks / order.columns;
    if (order.lag == 0 || order.heads <= 2 * order.columns)
        return order;
    order.rest = 2 * order.columns;
    order.lagging = ((order.heads - order.rest - 1) / order.columns + 1) * order.blocks + (order.columns - 1) * order.lag;
    order.lagging *= order.columns;
    order.numbers = order.lagging + order.rest * order.blocks;
    return order;
}

GLINT_DEVICE struct key_order staggered_order(const struct glint_gpu_shape *shape, const uint32_t tile_n, int32_t parts)
{
    return stagger(plain_order(shape, tile_n, parts));
}

/* An index below 0: there is no such block. */
GLINT_DEVICE struct block_place place_in_order(const struct key_order &order, uint32_t number)
{
    if (number >= order.lagging) {
        const uint32_t first = order.heads - order.rest;
        struct block_place place =
            find_place(number - order.lagging, order.blocks, order.rest, first > 0 ? order.rest : order.columns);

        place.head += (int32_t)first;
        return place;
    }
    const uint32_t round = number / order.columns, column = number - round * order.columns, late = column * order.lag;
    const uint32_t done = round >= late ? round - late : 0; /* of the column's blocks */
    const uint32_t nth = done / order.blocks, head = nth * order.columns + column;
    struct block_place place;

    place.head = (int32_t)head;
    place.index = round >= late && head < order.heads - order.rest ? (int32_t)(done - nth * order.blocks) : -1;
    return place;
}

/* The query blocks of `group` query heads that see some of the keys. */
template <int TILE_M, int TILE_N, class Band> GLINT_DEVICE void find_steps(struct key_work &work, const Band &mask)
{
    static_cast<struct query_blocks &>(work) = find_query_blocks<TILE_M, TILE_N>(mask, work.key0);
    /* no query sees any: other blocks wait for none of its steps */
    if (Band::RIGHT && work.key0 >= keys_seen(mask, mask.seqlen_q))
        work.first = work.last + 1;
    work.steps = max(0, work.last - work.first + 1) * work.group;
}

template <int TILE_M, int TILE_N, class Band>
GLINT_DEVICE struct key_work find_keys(const struct glint_gpu_shape &shape, const Band &mask, const struct block_place &place)
{
    struct key_work work = {};

    work.batch = place.head / shape.heads_kv;
    work.head_kv = place.head - work.batch * shape.heads_kv;
    work.key0 = place.index * TILE_N;
    work.head0 = work.head_kv * shape.group;
    work.group = shape.group;
    find_steps<TILE_M, TILE_N>(work, mask);
    return work;
}

/* Whether some query of block m does not see some key. */
template <class Band> GLINT_DEVICE bool is_cut(const struct key_work &work, int32_t m)
{
    return m < work.clear_from || (Band::LEFT && m > work.clear_to);
}

/* Leaves of the query heads of a key head those of a part: part_heads of them, counted from the last head, and what
 * there is for part 0. A part waits for those before it at its end, so a short one comes first. */
GLINT_DEVICE void take_part(struct key_work &work, const struct glint_gpu_call &p, int32_t part)
{
    const int32_t rows = max(0, work.last - work.first + 1), end = work.group - (p.parts - 1 - part) * p.part_heads;
    const int32_t first = max(0, end - p.part_heads);

    work.part = part;
    work.head0 += first;
    work.group = end - first;
    work.steps = rows * work.group;
}

/* Where a step is: its query head and query block. Every role walks the same way: all heads of the group, then the
 * query block before. Blocks of one key head take turns at dQ. Whichever starts behind another one stays so, though
 * with a mask it visits fewer query blocks: walking head by head it would catch up in the second head, and all would
 * wait for the block that has the most to do. */
struct walk {
    int32_t head, m;
};

GLINT_DEVICE struct walk walk_begin(const struct key_work &work)
{
    return {work.head0, work.last};
}

GLINT_DEVICE void walk_on(struct walk &walk, const struct key_work &work)
{
    const bool last = walk.head == work.head0 + work.group - 1;

    walk.head = last ? work.head0 : walk.head + 1;
    walk.m -= last;
}

GLINT_DEVICE struct walk step_before(const struct walk &walk, const struct key_work &work)
{
    const bool first = walk.head == work.head0;

    return {first ? work.head0 + work.group - 1 : walk.head - 1, walk.m + first};
}

/* Where step `step` is. */
GLINT_DEVICE struct walk walk_at(const struct key_work &work, int32_t step)
{
    const int32_t blocks = step / work.group;

    return {work.head0 + step - blocks * work.group, work.last - blocks};
}

/* Which steps a piece of code is for: any, plain ones, or those of the block that rounds, which are as plain but for
 * that. */
struct any_step {
    enum { plain = 0, rounds = 0 };
};
struct plain_step {
    enum { plain = 1, rounds = 0 };
};
struct rounding_step {
    enum { plain = 1, rounds = 1 };
};

/* Steps [first, end) are plain: their queries, and those of the step before, see all keys of the block, and this is
 * not the last block that adds to their dQ. Step 0, which has none before it, is not plain. */
struct plain_steps {
    int32_t first, end;
};

/* Whether block m has rows beyond the last query: their Q and dO are zeros, and 0 times an infinity of a key is NaN, so
 * that they are hidden. */
template <int TILE_M, class Band> GLINT_DEVICE bool is_partial(const Band &mask, int32_t m)
{
    return m == mask.seqlen_q / TILE_M;
}

/* Queries that all see all keys of a block see one after them, too, unless no query of the head does. The first
 * steps, of the last queries, may be cut, or these may not fill their tile. */
template <int TILE_M, int TILE_N, class Band>
GLINT_DEVICE struct plain_steps find_plain_steps(const Band &mask, const struct key_work &work)
{
    const bool last = work.key0 + TILE_N >= keys_seen(mask, mask.seqlen_q);
    const int32_t first = last ? work.last + 1 : max(work.first, work.clear_from);
    const int32_t cut = Band::LEFT ? (work.last - min(work.last, work.clear_to)) * work.group : 0;

    return {max(cut + 1, is_partial<TILE_M>(mask, work.last) ? work.group : 0), (work.last - first + 1) * work.group};
}

/* Queries [query0, query0 + rows) of one head, and the blocks of keys that some of them see. */
template <class Band> struct query_work : query_block, key_blocks<Band> {
};

template <int rows, int keys, class Band>
GLINT_DEVICE struct query_work<Band> find_queries(const struct glint_gpu_shape &shape, const Band &mask) {
    struct query_work<Band> work;

    static_cast<struct query_block &>(work) = find_query_block<rows>(shape, shape.group);
    static_cast<struct key_blocks<Band> &>(work) = find_key_blocks<keys>(mask, work.query0,
                                                                         min(work.query0 + rows, shape.seqlen_q) - 1);
    return work;
}

/* ---- tiles to and from memory: one thread for all ---------------------------------------------------------------- */

/* Rows [row, row + rows) of a head. A tile of more than one slab has BOX_ROWS rows. */
template <class tile>
GLINT_DEVICE void store_tile(const struct tensor_map *map, int32_t row, int32_t head, int32_t batch, uint32_t from)
{
#pragma unroll
    for (int part = 0; part < tile::rows / BOX_ROWS; ++part) {
        const int32_t at[5] = {0, row + part * BOX_ROWS, 0, head, batch};

        tma_store(map, 5, at, from + part * (BOX_ROWS * tile::width));
    }
}

/* Where LSE and delta of a step begin in the arrays of the workspace. */
template <int TILE_M>
GLINT_DEVICE int64_t row_of_step(const struct glint_gpu_call &p, const struct key_work &work, const struct walk &walk)
{
    return (work.batch * p.shape.heads_q + walk.head) * p.padded_q + work.padded + walk.m * TILE_M;
}

/* A step's Q or dO to a stage of a ring, its LSE or delta, from `rows` on, to rows_at, and its line to line_at. */
template <class ring_of, class tile, class Line = struct no_line>
GLINT_DEVICE void load_step(const struct tensor_map *map, const float *rows, uint32_t rows_at, const struct walk &walk,
                            const struct key_work &work, uint32_t shared, const struct ring &queries, const Line &line = {},
                            uint32_t line_at = 0)
{
    const uint32_t full = ring_of::full(shared, queries), row_bytes = tile::rows * 4;

    ring_of::wait_empty(shared, queries);
    leave_line(line, shared + line_at + queries.stage * Line::BYTES);
    mbarrier_arrive_expect(full, tile::bytes + row_bytes);
    load_tile<tile, BOX_ROWS>(ring_of::tile(shared, queries), map, work.first_q + walk.m * tile::rows, walk.head, work.batch, full,
                              GLINT_L2_EVICT_LAST);
    bulk_load(shared + rows_at + queries.stage * row_bytes, rows, row_bytes, full);
}

/* Stores 16 columns of a warp's 16 rows, two fragments of 8 columns packed to words of 16 bits, to a slab tile:
 * w[0], w[1] are rows lane / 4 and lane / 4 + 8 of columns 16 kk ..., w[2], w[3] of the next eight. `lane_at` is
 * tile_offset of the lane's row (16 warp + lane % 16) and chunk lane / 16 in the first slab, from the tile's
 * address. */
template <class tile> GLINT_DEVICE void store_fragment(uint32_t lane_at, const int kk, const uint32_t (&w)[4])
{
    stmatrix_x4(tile_move(lane_at, 0, 2 * kk, tile::rows, tile::chunks), w);
}

/* The thread's accumulators, rounded, to its warp's 16 rows of a tile: rows first_row + 16 warp ..., all columns
 * from slab 0 of `at` on but the first `left_out`, a multiple of 16. */
template <class Element, class tile, int n>
GLINT_DEVICE void store_rounded(uint32_t at, uint32_t first_row, const float (&d)[n], float factor, uint32_t left_out = 0)
{
    const uint32_t thread = thread_index_anew();
    const uint32_t lane_at =
        at + tile_offset(first_row + thread / 32 % 4 * 16 + thread % 16, thread % 32 / 16, tile::rows, tile::chunks);

#pragma unroll
    for (int kk = 0; kk < n / 8; ++kk) {
        uint32_t w[4];

#pragma unroll
        for (int i = 0; i < 4; ++i)
            w[i] = Element::pack(d[8 * kk + 2 * i] * factor, d[8 * kk + 2 * i + 1] * factor);
        if (16 * (uint32_t)kk >= left_out)
            store_fragment<tile>(lane_at, kk, w);
    }
}

/* dS^T of a warpgroup's 64 keys, as operand A, to their columns of a tile dS of queries by keys. */
template <class tile> GLINT_DEVICE void store_transposed(uint32_t at, uint32_t warpgroup, const uint32_t (&words)[tile::rows / 4])
{
    const uint32_t lane = thread_index_anew() % 32, chunk = warpgroup * 8 + thread_index_anew() / 32 % 4 * 2 + lane / 8 % 2;
    const uint32_t lane_at = at + tile_offset(lane / 16 * 8 + lane % 8, chunk, tile::rows, tile::chunks);

#pragma unroll
    for (int j = 0; j < tile::rows / 16; ++j)
        stmatrix_x4_trans(tile_move(lane_at, 16 * j, 0, tile::rows, tile::chunks), words + 4 * j);
}

/* LSE or delta of the thread's queries: columns 8 j and 8 j + 1 from its own on. */
template <int n> GLINT_DEVICE void load_pairs(float (&rows)[n][2], uint32_t at)
{
#pragma unroll
    for (int j = 0; j < n; ++j)
        ld_shared_f32x2(rows[j], at + 32 * j);
}

/* Accumulators as operand A of the next product. */
template <class Element, int n> GLINT_DEVICE void to_operand(uint32_t (&a)[n / 2], const float (&s)[n])
{
    pack_weights<Element>(a, s);
    wgmma_hold(a, n / 2); /* left to itself the compiler packs late, and keeps twice the registers */
}

GLINT_DEVICE void st_shared_floats(uint32_t address, const float *v)
{
    const uint32_t words[4] = {bits_of(v[0]), bits_of(v[1]), bits_of(v[2]), bits_of(v[3])};

    st_shared_u32x4(address, words);
}

GLINT_DEVICE void add_shared_floats(float *d, uint32_t address)
{
    uint32_t words[4];

    ld_shared_u32x4(words, address);
#pragma unroll
    for (int e = 0; e < 4; ++e)
        d[e] += float_of(words[e]);
}

/* `tiles` tiles, one after another, copied once more by ordinary loads and stores; zeros after the last row. For
 * what seldom happens. */
template <class tile>
GLINT_DEVICE void reload_tile(uint32_t to, const struct glint_gpu_view *view, int32_t batch, int32_t head, int32_t first_row,
                              int32_t seqlen, uint32_t tiles, uint32_t thread, const uint32_t threads)
{
    const uint32_t row_chunks = tile::columns / 8;

#pragma unroll 1
    for (uint32_t i = thread; i < tiles * tile::rows * row_chunks; i += threads) {
        const uint32_t row = i / row_chunks, chunk = i % row_chunks;
        uint32_t v[4] = {0, 0, 0, 0};

        if (first_row + (int32_t)row < seqlen)
            ld_global_u32x4(v, view_row(view, batch, head, first_row + (int32_t)row, 2) + chunk * 16);
        st_shared_u32x4(to + row / tile::rows * tile::bytes + tile_offset(row % tile::rows, chunk, tile::rows, tile::chunks), v);
    }
}

/* ---- scores of keys by queries (S^T, P^T, dS^T) ------------------------------------------------------------------ */

/* The first of this thread's two rows among the warpgroups' 128. */
GLINT_DEVICE uint32_t own_row(void)
{
    const uint32_t thread = thread_index_anew() - 128;

    return thread / 32 * 16 + thread % 32 / 4;
}

/* Which queries of a step see this thread's keys, counted from the thread's first query: of key lane / 4 + 8 side those
 * from first[side] to last[side], and before end. */
template <class Band, int queries> struct sight {
    int32_t first[2], last[2], end;
};

/* key: the thread's first one. */
template <int queries, class Band>
GLINT_DEVICE struct sight<Band, queries> sight_of_keys(const Band &mask, int32_t key, int32_t query0) {
    const int32_t query = query0 + 2 * (int32_t)(thread_index_anew() & 3);
    struct sight<Band, queries> sight;

#pragma unroll
    for (int side = 0; side < 2; ++side) {
        sight.first[side] = key + 8 * side >= mask.seqlen_k ? 1 << 30 : Band::RIGHT ? key + 8 * side - mask.right - query : -1;
        sight.last[side] = Band::LEFT ? key + 8 * side - mask.left - query : 0;
    }
    sight.end = mask.seqlen_q - query;
    return sight;
}

template <int queries, class Band>
GLINT_DEVICE void hide_queries(float (&s)[queries / 2], const struct sight<Band, queries> &sight)
{
#pragma unroll
    for (int i = 0; i < queries / 2; ++i) {
        const int column = i / 4 * 8 + i % 2, side = i / 2 % 2;

        s[i] = column < sight.first[side] || (Band::LEFT && column > sight.last[side]) || column >= sight.end ? 0.0f : s[i];
    }
}

/* Hides the thread's keys from seqlen_k on from all queries. key: its first one. */
template <int queries> GLINT_DEVICE void hide_keys_beyond(float (&s)[queries / 2], int32_t key, int32_t seqlen_k)
{
#pragma unroll
    for (int i = 0; i < queries / 2; ++i)
        s[i] = key + i / 2 % 2 * 8 >= seqlen_k ? 0.0f : s[i];
}

/* ---- NaN and infinity -------------------------------------------------------------------------------------------- */

/* Whether LSE or delta of a step's queries say that a Q or dO holds any: the same in all lanes. LSE = +inf is a
 * query that sees nothing, or none of whose keys has a weight. */
template <int queries> GLINT_DEVICE bool queries_special(uint32_t lse, uint32_t delta)
{
    bool found = false;

#pragma unroll
    for (int i = 0; i < queries / 32; ++i) {
        const uint32_t l = ld_shared_u32(lse + (thread_index_anew() % 32 + 32 * i) * 4);
        const uint32_t d = ld_shared_u32(delta + (thread_index_anew() % 32 + 32 * i) * 4);

        found |= (l & 0x7fffffffu) > 0x7f800000u || (d & 0x7f800000u) == 0x7f800000u || d == GLINT_DELTA_OF_SPECIAL;
    }
    return warp_any(found);
}

/* Adds what is special in row z_row of a tile, times `factor`, to the rows of the accumulator that see it:
 * sees(side) for this thread's two, lane / 4 + 8 side. Columns first_chunk * 8 ... of the tile. */
template <class Element, class tile, int n, class Sees>
GLINT_DEVICE void add_special_row(float (&d)[n], uint32_t at, uint32_t z_row, uint32_t first_chunk, float factor, Sees sees)
{
    const bool seen[2] = {sees(0), sees(1)};

#pragma unroll
    for (int ct = 0; ct < n / 4; ++ct) {
        const uint32_t word =
            ld_shared_u32(at + tile_offset(z_row, first_chunk + ct, tile::rows, tile::chunks) + (thread_index_anew() & 3) * 4);
        const uint32_t special = word ^ finite_part(word, Element::EXPONENT, 2);
        const float v[2] = {Element::low(special), Element::high(special)};
#pragma unroll
        for (int e = 0; e < 4; ++e)
            if (seen[e / 2])
                d[4 * ct + e] += v[e % 2] * factor;
    }
}

/* Each query of a tile, from query0 on, with whether this thread's two keys, key and key + 8, are seen by it: add(row
 * of the tile, sees). */
template <class tile, class Band, class add_t>
GLINT_DEVICE void for_queries(const Band &mask, int32_t key, int32_t query0, const add_t &add)
{
#pragma unroll 1
    for (int32_t query = query0; query < query0 + tile::rows; ++query)
        add((uint32_t)(query - query0),
            [&](int side) { return query < mask.seqlen_q && key + 8 * side < mask.seqlen_k && sees(mask, query, key + 8 * side); });
}

/* NaN and infinities of a step's dO go to the dV of keys that their query sees, and those of Q to the dK of these keys,
 * 0 times them, which is NaN: such a query's dS is 0, or not finite either. Then they leave the tiles. Without a mask a
 * query does not see keys beyond the end alone, and nobody reads their dK, so Q stays as it is. All `threads` threads
 * that compute come here, or none. add(): what this one does for what it keeps. */
template <class Element, class tile, class Band, class add_t>
GLINT_DEVICE void settle_queries(uint32_t q, uint32_t dout, uint32_t barrier, const uint32_t threads, const add_t &add)
{
    const uint32_t thread = thread_index_anew() - 128;

    named_sync(barrier, threads);
    add();
    named_sync(barrier, threads);
    if (Band::LEFT || Band::RIGHT)
        remove_special(q, tile::bytes, thread, threads, Element::EXPONENT);
    remove_special(dout, tile::bytes, thread, threads, Element::EXPONENT);
    fence_async_shared();
    named_sync(barrier, threads);
}

/* ---- sums of blocks, in order ------------------------------------------------------------------------------------ */

/* Blocks add to a tile one after another. Its turn counts the keys whose blocks have; one thread of a block does all
 * of this, and what it did to the tile, by bulk copies that it has waited for, is seen by the one whose turn comes
 * next. */
GLINT_DEVICE void turn_wait(const uint32_t *turn, uint32_t keys)
{
    while (ld_acquire_u32(turn) < keys)
        continue;
}

GLINT_DEVICE void turn_pass(uint32_t *turn, uint32_t keys)
{
    bulk_wait<0>();
    st_release_u32(turn, keys);
}

/* Where dQ of a step's queries is summed over the blocks of keys that see them, in the order of the keys: the first
 * block stores its part, others add to it, and the last one adds the sum to its own, in registers, and rounds. */
struct dq_place {
    uint32_t *turn; /* counts the keys whose blocks are done */
    float *sum;     /* of the query block */
    bool first, last;
};

template <int TILE_M, int TILE_N, int HEAD_DIM, class Band>
GLINT_DEVICE struct dq_place find_dq(const struct glint_gpu_call &p, const Band &mask, const struct key_work &work,
                                     const struct walk &walk)
{
    struct key_range keys = {0, 0}; /* that these queries see */

    if constexpr (Band::INTERVALS)
        keys = bounds_at<TILE_M>(p, (int64_t)work.batch * p.padded_q + work.padded + walk.m * TILE_M).all;
    else
        keys.end = keys_seen(mask, min(mask.seqlen_q, (walk.m + 1) * TILE_M));
    const int64_t block =
        (int64_t)(work.batch * p.shape.heads_q + walk.head) * (p.padded_q / TILE_M) + work.padded / TILE_M + walk.m;

    if constexpr (Band::LEFT && !Band::INTERVALS)
        keys.first = first_key(mask, walk.m * TILE_M);
    return {p.turn + 1 + block, p.dq_sum + block * (TILE_M * HEAD_DIM), work.key0 <= keys.first, work.key0 + TILE_N >= keys.end};
}

/* Brings a sum that is complete to a stage of shared memory, ahead of those that wait for the mbarrier. */
GLINT_DEVICE void bring_sum(uint32_t to, const float *sum, uint32_t bytes, uint32_t barrier)
{
    fence_async_global(); /* other blocks' copies wrote it, and this thread has seen their turn by an ordinary load */
    mbarrier_arrive_expect(barrier, bytes);
    bulk_load(to, sum, bytes, barrier);
}

/* Where dV and dK of a block of keys are summed over the parts of its query heads, in the order of the parts: part 0
 * stores, others add, and the last one adds the sum to its own, in registers. Both leave by stages, SHARES of them
 * in all, of FLOATS numbers. */
struct key_place {
    uint32_t *turn; /* counts the parts that are done */
    float *sum;
};

template <int TILE_N> GLINT_DEVICE int64_t block_in_sums(const struct glint_gpu_call &p, const struct key_work &work)
{
    const int64_t blocks = (p.shape.seqlen_k + TILE_N - 1) / TILE_N;

    return (work.batch * p.shape.heads_kv + work.head_kv) * blocks + work.key0 / TILE_N;
}

template <int SHARES, int FLOATS>
GLINT_DEVICE struct key_place find_key_sum(const struct glint_gpu_call &p, int64_t block, int32_t share)
{
    const int64_t at = block * SHARES + share;

    return {p.key_turn + at, p.key_sum + at * FLOATS};
}

/* What the blocks before have summed, to this thread's part of it: fours of numbers, neighbouring threads' next to
 * each other. */
template <int n> GLINT_DEVICE void add_summed(float (&d)[n], const float *sum)
{
    float others[n / 4][4];

#pragma unroll
    for (int i = 0; i < n / 4; ++i)
        ld_four(others[i], sum + i * 512, 128);
#pragma unroll
    for (int i = 0; i < n; ++i)
        d[i] += others[i / 4][i % 4];
}

#endif
