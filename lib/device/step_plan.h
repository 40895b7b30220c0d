/* Which blocks work on what in a step: a first kernel of one block makes a plan from the lengths, in the workspace,
 * and all others read it. Where sequences are few there is no such kernel: a warp of each block makes the plan for
 * itself, in a copy of the block's own. No bit of a result depends on a plan.
 *
 * A unit is a chunk of whole spans of the keys of a tile of rows. Units have numbers, and persistent blocks take them
 * from a counter, or in turn where each has its own plan: heads run fastest, then tiles of rows, the last one first,
 * then chunks, so that blocks which share keys read them together. Units of many rows, which multiply, and of few rows,
 * which read, are dealt in proportion, so that both overlap.
 *
 * What a unit leaves:
 *     its sequence has one chunk      O and LSE
 *     chunk 0 of several              one slot, 0, with the fold of its spans
 *     another chunk                   a slot for each of its spans, as a fold from the left cannot take spans that
 *                                     others have folded
 * and a last kernel folds the slots of a row in their order. */
#ifndef GLINT_DEVICE_STEP_PLAN_H
#define GLINT_DEVICE_STEP_PLAN_H

#include "lib/device/step.h"

/* ---- the plan in the workspace ------------------------------------------------------------------------------- */

/* Words: these, then for each sequence where its units of many and of few rows and its merges end, then its record. */
enum {
    PLAN_COUNTER, /* units that blocks have taken beside the first one of each */
    PLAN_MANY,    /* units of many rows, ends */
    PLAN_FEW,     /* of few */
    PLAN_MERGES,  /* what the last kernel does: 32 columns of 16 rows each */
    PLAN_HEAD = 16,
    PLAN_RECORD = 12,
    PLAN_SEQUENCES = 4096, /* whose lengths are kept in shared memory */
    PLAN_THREADS = 1024,
};

/* A sequence of the plan. */
struct planned {
    struct step_sequence at;
    int32_t chunks;
    int32_t second;        /* the first span of chunk 1; with a window each tile of rows has its own */
    int32_t units, merges; /* of its class, and of all, before this sequence */
    int32_t base;          /* the first of its rows in the slots */
};

/* The plan that this block of the second kernel reads: its own copy, or the only one. */
GLINT_DEVICE uint32_t *plan_of_block(const struct glint_gpu_step &p)
{
    const uint32_t own = block_index() * (uint32_t)p.own_plan;

    return p.plan + own;
}

GLINT_DEVICE uint32_t *ends_of_plan(const struct glint_gpu_step &p, uint32_t *plan, uint32_t which)
{
    return plan + PLAN_HEAD + (which - PLAN_MANY) * (uint32_t)p.base.shape.batch;
}

GLINT_DEVICE uint32_t *record_of_plan(const struct glint_gpu_step &p, uint32_t *plan, int32_t sequence)
{
    return plan + PLAN_HEAD + (3 * p.base.shape.batch + 3) / 4 * 4 + (int64_t)sequence * PLAN_RECORD;
}

GLINT_DEVICE struct planned get_planned(const struct glint_gpu_step &p, uint32_t *plan, int32_t sequence)
{
    const uint32_t *record = record_of_plan(p, plan, sequence);
    uint32_t own[4], at[4], more[4];

    ld_global_u32x4(own, record);
    ld_global_u32x4(at, record + 4);
    ld_global_u32x4(more, record + 8);
    return {{{(int32_t)own[0], (int32_t)own[1], (int32_t)own[2], (int32_t)own[3]}, (int32_t)at[0], (int32_t)at[1]},
            (int32_t)at[2],
            (int32_t)at[3],
            (int32_t)more[0],
            (int32_t)more[1],
            (int32_t)more[2]};
}

GLINT_DEVICE void put_planned(const struct glint_gpu_step &p, uint32_t *plan, int32_t sequence, const struct planned &s)
{
    uint32_t *record = record_of_plan(p, plan, sequence);
    const uint32_t own[4] = {(uint32_t)s.at.own.seqlen_q, (uint32_t)s.at.own.seqlen_k, (uint32_t)s.at.own.left,
                             (uint32_t)s.at.own.right};
    const uint32_t at[4] = {(uint32_t)s.at.first_q, (uint32_t)s.at.first_k, (uint32_t)s.chunks, (uint32_t)s.second};
    const uint32_t more[4] = {(uint32_t)s.units, (uint32_t)s.merges, (uint32_t)s.base, 0};

    st_global_u32x4(record, own);
    st_global_u32x4(record + 4, at);
    st_global_u32x4(record + 8, more);
}

/* ---- what a sequence takes ----------------------------------------------------------------------------------- */

struct step_size {
    int32_t blocks, tiles; /* of 16 rows, and of Order::BLOCKS such */
    int32_t key_tiles;     /* of the tile of rows that sees most; at least one, as rows without keys are written */
    int32_t spans;         /* of those at most */
    int32_t weight;        /* of a tile of keys: of few rows it takes 3 / 2 of the time of half of one of many rows */
    bool few;              /* half of a tile has all rows */
};

template <class Order> GLINT_DEVICE struct step_size size_of(const struct glint_gpu_step &p, int32_t seqlen_q, int32_t key_tiles)
{
    struct step_size s;

    s.blocks = (int32_t)((uint32_t)(seqlen_q + p.block_queries - 1) / (uint32_t)p.block_queries);
    s.tiles = (s.blocks + Order::BLOCKS - 1) / Order::BLOCKS;
    s.key_tiles = key_tiles;
    s.spans = Order::spans::most(p, key_tiles);
    s.few = s.blocks <= Order::BLOCKS / 2;
    s.weight = s.few ? 3 : 2;
    return s;
}

/* Tiles of keys that the queries from `query` to `end` - 1 see, as far as a plan knows: of a tile of rows, or of a
 * sequence. */
template <class Order> GLINT_DEVICE auto key_blocks_of(const struct sequence &own, int32_t query, int32_t end)
{
    return find_key_blocks<Order::TILE_N>(hull_of<typename Order::Band>(own), query, min(end, own.seqlen_q) - 1);
}

/* struct step_size has it. With a window a tile of rows sees no more than its queries and the window span. */
template <class Order> GLINT_DEVICE int32_t key_tiles_of(const struct glint_gpu_step &p, const struct sequence &own)
{
    const auto blocks = key_blocks_of<Order>(own, 0, own.seqlen_q);
    int32_t tiles = blocks.last + 1 - blocks.first;

    if (Order::Band::LEFT && own.seqlen_q > Order::BLOCKS * p.block_queries)
        tiles = min(tiles,
                    (Order::BLOCKS * p.block_queries + min(own.right - own.left, 1 << 30) + Order::TILE_N - 2) / Order::TILE_N + 1);
    return max(1, tiles);
}

template <class Order> GLINT_DEVICE struct step_size size_of(const struct glint_gpu_step &p, const struct sequence &own)
{
    return size_of<Order>(p, own.seqlen_q, key_tiles_of<Order>(p, own));
}

/* The first span of chunk `chunk` of a tile of rows. Chunks of all tiles of a sequence begin at the same spans, so that
 * they read the same keys together; with a window, where spans do not grow, each tile's own keys are shared out. */
template <class Order, class Blocks>
GLINT_DEVICE int32_t span_of_chunk(const struct glint_gpu_step &p, const struct planned &s, const struct step_size &size,
                                   const Blocks &blocks, int32_t chunk)
{
    if (Order::spans::grow(p))
        return Order::spans::of_chunk(p, chunk, s.chunks, 0, size.key_tiles);
    return Order::spans::of_chunk(p, chunk, s.chunks, blocks.first, blocks.last + 1);
}

GLINT_DEVICE int32_t chunks_of(const struct step_size &s, float inverse_share)
{
    return min(s.spans, max(1, (int32_t)((float)(s.key_tiles * s.weight) * inverse_share + 0.5f)));
}

template <class Order> GLINT_DEVICE int32_t slot_rows_of(const struct step_size &s)
{
    return s.tiles > 1 ? 16 * Order::BLOCKS : 16 * s.blocks;
}

/* Slots of a tile of rows: of chunk 0, and of all spans from `second` on, where chunk 1 of the sequence's keys begins.
 * With a window chunk 1 of a tile begins elsewhere; where that is nearer to the first of the tile's own spans, the tile
 * has so many spans fewer (window_slots of tests/cuda/policy_test.c). */
GLINT_DEVICE int32_t slots_of(const struct step_size &s, int32_t second)
{
    return s.spans - second + 1;
}

/* ---- a unit --------------------------------------------------------------------------------------------------- */

/* What a unit leaves. */
enum { UNIT_WHOLE, UNIT_FIRST, UNIT_SPANS };

/* What the warps of a block are told of a unit: words in shared memory. */
enum {
    UNIT_ANY,   /* 0: there are no more */
    UNIT_BEGIN, /* tiles of keys, to UNIT_END */
    UNIT_END,
    UNIT_CUT,   /* the first tile of which some row does not see a key, after UNIT_WHOLE_FROM */
    UNIT_HEAD,  /* a group of query heads */
    UNIT_BATCH, /* the sequence */
    UNIT_FIRST_Q,
    UNIT_FIRST_K,
    UNIT_QUERY,   /* the first of the tile of rows */
    UNIT_QUERIES, /* of the sequence */
    UNIT_KEYS,
    UNIT_LEFT, /* of its band */
    UNIT_RIGHT,
    UNIT_BLOCKS, /* of 16 rows, of this tile */
    UNIT_ONE,    /* the sequence has one tile of rows: its keys are read by nobody else */
    UNIT_WHO,    /* the warpgroup that works on it; 2: both */
    UNIT_KIND,
    UNIT_SPAN,   /* its first span */
    UNIT_SECOND, /* the first span of chunk 1 */
    UNIT_SLOT,   /* the first row of the tile's slots */
    UNIT_SLOT_ROWS,
    UNIT_WHOLE_FROM, /* with a window: the first tile that is after all rows' first keys */
    UNIT_SPANS_END,  /* with intervals: behind the unit's last span */
    UNIT_SEEN_SPAN,  /* and the span of UNIT_BEGIN, or its first one where no row sees a key */
    UNIT_WORDS = 24,
};

/* Leaves unit `index` of its class, which is of sequence `b`, in shared memory. All lanes of a warp make it, as one
 * alone takes more registers, and the lane that `writes` stores it. */
template <class Order>
GLINT_DEVICE void write_unit(const struct glint_gpu_step &p, uint32_t unit, int32_t index, int32_t b, const struct planned &s,
                             bool writes)
{
    const struct step_size size = size_of<Order>(p, s.at.own);
    const uint32_t heads = (uint32_t)p.heads, own = (uint32_t)(index - s.units), rest = own / heads;
    const int32_t head = (int32_t)(own - rest * heads), chunk = (int32_t)(rest / (uint32_t)size.tiles);
    const int32_t tile = size.tiles - 1 - ((int32_t)rest - chunk * size.tiles);
    const int32_t query = tile * Order::BLOCKS * p.block_queries;
    const auto blocks = key_blocks_of<Order>(s.at.own, query, query + Order::BLOCKS * p.block_queries);
    const int32_t first = span_of_chunk<Order>(p, s, size, blocks, chunk),
                  end = span_of_chunk<Order>(p, s, size, blocks, chunk + 1);
    const int32_t second = s.chunks > 1 ? span_of_chunk<Order>(p, s, size, blocks, 1) : s.second;
    const int32_t slot_rows = slot_rows_of<Order>(size), slots = slots_of(size, s.second);

    const uint32_t words[UNIT_WORDS] = {
        1,
        (uint32_t)max(blocks.first, Order::spans::begin(p, first)),
        (uint32_t)min(blocks.last + 1, Order::spans::begin(p, end)),
        (uint32_t)blocks.hidden_from,
        (uint32_t)head,
        (uint32_t)b,
        (uint32_t)s.at.first_q,
        (uint32_t)s.at.first_k,
        (uint32_t)query,
        (uint32_t)s.at.own.seqlen_q,
        (uint32_t)s.at.own.seqlen_k,
        (uint32_t)s.at.own.left,
        (uint32_t)s.at.own.right,
        (uint32_t)min((int32_t)Order::BLOCKS, size.blocks - Order::BLOCKS * tile),
        size.tiles == 1,
        2,
        (uint32_t)(chunk > 0                                        ? UNIT_SPANS
                   : end >= Order::spans::count(p, blocks.last + 1) ? UNIT_WHOLE
                                                                    : UNIT_FIRST),
        (uint32_t)first,
        (uint32_t)second,
        (uint32_t)(s.base + (head * size.tiles + tile) * slots * slot_rows),
        (uint32_t)slot_rows,
        (uint32_t)blocks.whole_from,
    };
    if (writes) {
#pragma unroll
        for (int i = 0; i < UNIT_WORDS; i += 4)
            st_shared_u32x4(unit + 4 * i, words + i);
    }
}

/* ---- making the plan ----------------------------------------------------------------------------------------- */

GLINT_DEVICE int32_t warp_sum(int32_t value)
{
#pragma unroll
    for (uint32_t mask = 1; mask < 32; mask *= 2)
        value += of_lane(value, mask);
    return value;
}

GLINT_DEVICE float warp_sum(float value)
{
#pragma unroll
    for (uint32_t mask = 1; mask < 32; mask *= 2)
        value += shfl_xor(value, mask);
    return value;
}

GLINT_DEVICE int32_t warp_max(int32_t value)
{
#pragma unroll
    for (uint32_t mask = 1; mask < 32; mask *= 2)
        value = max(value, of_lane(value, mask));
    return value;
}

/* Shared memory of the plan: lengths, then a word a warp of several sums. */
enum { PLAN_SUMS_AT = 8 * PLAN_SEQUENCES, PLAN_SHARED_BYTES = PLAN_SUMS_AT + 5 * 128 };

/* The threads that make a plan wait for one another: a warp, or a block. */
template <uint32_t threads> GLINT_DEVICE void plan_sync()
{
    if constexpr (threads == 32)
        warp_sync();
    else
        block_sync();
}

template <uint32_t threads> GLINT_DEVICE constexpr uint32_t sums_at()
{
    return threads == 32 ? 8 * threads : (uint32_t)PLAN_SUMS_AT;
}

/* Where the rows of this thread's sequence lie among ragged ones: at the first row that none before it has passed.
 * most: of those before `begin`. */
template <uint32_t threads>
GLINT_DEVICE struct ragged_rows place_rows(const struct ragged_side &side, int32_t batch, int32_t sequence, uint32_t sums,
                                           int32_t &most)
{
    const int32_t first = row_at(side, min(sequence, batch));
    struct ragged_rows own;
    int32_t in_warp = 0;
    const int32_t before = most_before(first, in_warp);

    if (lane_index() == 0)
        st_shared_u32(sums + 4 * (thread_index() / 32), (uint32_t)in_warp);
    plan_sync<threads>();
    const int32_t of_warp = threads == 32 ? in_warp : (int32_t)ld_shared_u32(sums + 4 * lane_index());
    own.at = max(max(most, max(before, first)), warp_max(lane_index() < thread_index() / 32 ? of_warp : 0));
    most = max(most, warp_max(of_warp));
    own.end = max(own.at, row_at(side, min(sequence + 1, batch)));
    own.length = sequence < batch ? rows_of(side, sequence, own.at, own.end) : 0;
    plan_sync<threads>();
    return own;
}

/* The sequences' own part of the plan: lengths, sides of the band and first rows. Lowers the word for a fault, too.
 * Returns this thread's last one. */
template <class Order, uint32_t threads>
GLINT_DEVICE struct step_sequence plan_sequences(const struct glint_gpu_step &p, uint32_t *plan, uint32_t shared)
{
    struct step_sequence mine = {{0, 0, 0, 0}, 0, 0};
    const struct glint_gpu_shape &shape = p.base.shape;
    const struct glint_gpu_sequences &all = p.base.sequences;
    int32_t most_q = 0, most_k = 0;

#pragma unroll 1
    for (int32_t begin = 0; begin < shape.batch; begin += (int32_t)threads) {
        const int32_t sequence = begin + (int32_t)thread_index();
        struct step_sequence s = {{0, 0, 0, 0}, 0, 0};
        bool wrong = false;

        if (p.base.sequences.first_q) {
            const struct ragged_side queries = {all.first_q, all.seqlens_q, all.rows_q, all.bound_q};
            const struct ragged_rows q = place_rows<threads>(queries, shape.batch, sequence, shared + sums_at<threads>(), most_q);

            s.first_q = q.at;
            s.own.seqlen_q = q.length;
            if (p.base.pages.table) {
                const struct paged_side keys = {all.seqlens_k, all.bound_k};
                if (sequence < shape.batch) {
                    s.own.seqlen_k = within(int_at(keys.lengths, sequence), keys.bound);
                    wrong = are_wrong(queries, sequence, q) || s.own.seqlen_k != int_at(keys.lengths, sequence);
                }
            } else {
                const struct ragged_side keys = {all.first_k, all.seqlens_k, all.rows_k, all.bound_k};
                const struct ragged_rows k = place_rows<threads>(keys, shape.batch, sequence, shared + sums_at<threads>(), most_k);

                s.first_k = k.at;
                s.own.seqlen_k = k.length;
                wrong = sequence < shape.batch && (are_wrong(queries, sequence, q) || are_wrong(keys, sequence, k));
            }
        } else if (sequence < shape.batch) {
            const int32_t q = given_length(p.base.sequences.seqlens_q, sequence, all.bound_q);
            const int32_t k = given_length(p.base.sequences.seqlens_k, sequence, all.bound_k);

            s.own.seqlen_q = within(q, all.bound_q);
            s.own.seqlen_k = within(k, all.bound_k);
            wrong = q != s.own.seqlen_q || k != s.own.seqlen_k;
        }
        if (sequence >= shape.batch)
            continue;
        if (wrong && p.base.sequences.fault && (threads > 32 || block_index() == 0))
            atomicMin(p.base.sequences.fault, (uint32_t)sequence);
        find_sides(s.own, p.base.sequences);
        widen_hull<typename Order::Band>(s.own, p.base.sequences);
        if (sequence < PLAN_SEQUENCES) {
            st_shared_u32(shared + 8 * sequence, (uint32_t)s.own.seqlen_q);
            st_shared_u32(shared + 8 * sequence + 4, (uint32_t)key_tiles_of<Order>(p, s.own));
        }
        mine = s;
        if (shape.batch > (int32_t)threads)
            put_planned(p, plan, sequence, {s, 0, 0, 0, 0, 0});
    }
    plan_sync<threads>();
    return mine;
}

template <class Order>
GLINT_DEVICE struct step_size size_at(const struct glint_gpu_step &p, uint32_t *plan, uint32_t shared, int32_t sequence)
{
    if (sequence >= PLAN_SEQUENCES)
        return size_of<Order>(p, get_planned(p, plan, sequence).at.own);
    return size_of<Order>(p, (int32_t)ld_shared_u32(shared + 8 * sequence), (int32_t)ld_shared_u32(shared + 8 * sequence + 4));
}

/* Into how many chunks the longest sequence is cut: candidate `i` of 32. */
GLINT_DEVICE int32_t candidate_chunks(int32_t i)
{
    return i < 16 ? i + 1 : 16 + (i - 15) * 4;
}

/* Which number of chunks of the longest sequence, 1 over the share of the others' weight, is best: each warp looks at
 * one, or each lane where there is one warp. The time is that of the units one after another, or of the longest one,
 * with 3 tiles for each beginning, and 5 for each 128 rows of a slot. One chunk each needs no slots; a number whose
 * slots do not fit is not taken; below 2^24 such a sum is exact, and there is never more room. Every warp learns it. */
template <class Order, uint32_t threads>
GLINT_DEVICE float best_share(const struct glint_gpu_step &p, uint32_t *plan, uint32_t shared)
{
    typedef typename Order::Band band;
    const struct glint_gpu_shape &shape = p.base.shape;
    const int32_t heads = p.heads, lane = (int32_t)lane_index();
    constexpr bool alone = threads == 32;
    int32_t longest = 1;
    float work = 0.0f, extra = 0.0f, slots = 0.0f;
    int32_t units = 0;

#pragma unroll 1
    for (int32_t i = lane; i < shape.batch; i += 32) {
        const struct step_size s = size_at<Order>(p, plan, shared, i);
        const int32_t of_queries = s.tiles * Order::BLOCKS * p.block_queries / Order::TILE_N;
        const float half = band::RIGHT && !band::LEFT ? 0.5f * (float)min(s.key_tiles, of_queries) : 0.0f;

        if (s.tiles == 0)
            continue;
        longest = max(longest, s.key_tiles * s.weight);
        work += (float)(s.tiles * s.weight) * ((float)s.key_tiles - half);
    }
    longest = warp_max(longest);
    work = warp_sum(work) * (float)heads;

    const int32_t n = candidate_chunks(alone ? lane : (int32_t)thread_index() / 32);
    const float inverse = (float)n / (float)longest;
#pragma unroll 1
    for (int32_t i = alone ? 0 : lane; i < shape.batch; i += alone ? 1 : 32) {
        const struct step_size s = size_at<Order>(p, plan, shared, i);
        const int32_t chunks = chunks_of(s, inverse);

        if (s.tiles == 0)
            continue;
        units += heads * s.tiles * chunks;
        if (chunks > 1) {
            const int32_t second = Order::spans::of_chunk(p, 1, chunks, 0, s.key_tiles);

            extra += (float)(s.spans - s.spans / chunks) * (float)(heads * s.blocks) * (5.0f / STEP_BLOCKS);
            slots += (float)slots_of(s, second) * (float)heads * (float)s.tiles * (float)slot_rows_of<Order>(s);
        }
    }
    if (!alone) {
        units = warp_sum(units);
        extra = warp_sum(extra);
        slots = warp_sum(slots);
    }
    const float blocks = (float)p.blocks, waves = (float)((units + p.blocks - 1) / p.blocks);
    const float time = fmaxf(waves * work / (float)max(1, units), (float)longest / (float)n) + 3.0f * waves + extra / blocks;
    float least = n > 1 && !(slots <= (float)p.partial_rows) ? GLINT_INFINITY : time;
    if (!alone) {
        if (lane == 0)
            st_shared_f32(shared + sums_at<threads>() + 4 * (thread_index() / 32), least);
        block_sync();
        least = ld_shared_f32(shared + sums_at<threads>() + 4 * lane_index());
    }
    int32_t best = lane;
#pragma unroll
    for (uint32_t mask = 1; mask < 32; mask *= 2) {
        const float other = shfl_xor(least, mask);
        const int32_t index = of_lane(best, mask);

        if (other < least || (other == least && index < best)) {
            least = other;
            best = index;
        }
    }
    plan_sync<threads>();
    return (float)candidate_chunks(best) / (float)longest;
}

/* Sums of this thread's numbers over the sequences before its own, in their place; `total` is of those before these,
 * and becomes that of all. */
template <uint32_t threads> GLINT_DEVICE void sums_before(int32_t (&value)[4], int32_t (&total)[4], uint32_t sums, bool one_warp)
{
    uint32_t all[4];

#pragma unroll
    for (int k = 0; k < 4; ++k) {
        value[k] = (int32_t)count_before((uint32_t)value[k], all[k]);
        if (lane_index() == 0)
            st_shared_u32(sums + 128 * k + 4 * (thread_index() / 32), all[k]);
    }
    plan_sync<threads>();
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        value[k] += total[k];
        if (one_warp) { /* its own are all */
            total[k] += (int32_t)ld_shared_u32(sums + 128 * k);
            continue;
        }
        const int32_t of_warp = (int32_t)ld_shared_u32(sums + 128 * k + 4 * lane_index());

        value[k] += warp_sum(lane_index() < thread_index() / 32 ? of_warp : 0);
        total[k] += warp_sum(of_warp);
    }
    plan_sync<threads>();
}

/* Whether the host has said all lengths: then the plan and the block's first unit are made of nothing else, so they
 * may be made while the call before still runs. The plan is written behind that. */
GLINT_DEVICE bool plan_is_early(const struct glint_gpu_step &p)
{
    const struct glint_gpu_sequences &all = p.base.sequences;

    return !all.first_q && !all.first_k && !all.seqlens_q && !all.seqlens_k;
}

/* By the first kernel, of one block, or by a warp of each block of the second. `unit`, if given: where the block's
 * first unit is left in shared memory, if the plan is early. */
template <class Order, uint32_t threads>
GLINT_DEVICE void make_plan(const struct glint_gpu_step &p, uint32_t *plan, uint32_t shared, uint32_t unit = 0)
{
    const bool early = threads == 32 && plan_is_early(p);
    const struct glint_gpu_shape &shape = p.base.shape;
    int32_t total[4] = {0, 0, 0, 0};

    if (!early)
        await_predecessors();
    const struct step_sequence mine = plan_sequences<Order, threads>(p, plan, shared);
    const float inverse = best_share<Order, threads>(p, plan, shared);
#pragma unroll 1
    for (int32_t begin = 0; begin < shape.batch; begin += (int32_t)threads) {
        const int32_t sequence = begin + (int32_t)thread_index();
        struct step_size s = {0, 0, 0, 0, 0, false};
        int32_t chunks = 0, second = 0, rows = 0, merges = 0;

        if (sequence < shape.batch)
            s = size_at<Order>(p, plan, shared, sequence);
        if (s.tiles > 0) {
            chunks = chunks_of(s, inverse);
            second = Order::spans::of_chunk(p, 1, chunks, 0, s.key_tiles);
        }
        if (chunks > 1) {
            rows = slots_of(s, second) * p.heads * s.tiles * slot_rows_of<Order>(s);
            merges = p.heads * s.blocks * ((Order::HEAD_DIM + 31) / 32);
        }
        const int32_t units = p.heads * s.tiles * chunks, own[4] = {s.few ? 0 : units, s.few ? units : 0, rows, merges};
        int32_t before[4] = {own[0], own[1], own[2], own[3]};

        sums_before<threads>(before, total, shared + sums_at<threads>(), begin + 32 >= shape.batch);
        const int32_t units_before = s.few ? before[1] : before[0];
        if (early) { /* its sequences are of one class */
            const int32_t number = (int32_t)block_index() - units_before;

            if (unit && lane_index() == 0 && (int32_t)block_index() >= total[0] + total[1])
                st_shared_u32(unit + 4 * UNIT_ANY, 0);
            if (unit && number >= 0 && number < units)
                write_unit<Order>(p, unit, (int32_t)block_index(), sequence,
                                  {mine, chunks, second, units_before, before[3], before[2]}, true);
        }
        if (early) /* once, as there are at most so many sequences */
            await_predecessors();
        if (sequence < shape.batch) {
            const struct step_sequence at = shape.batch > (int32_t)threads ? get_planned(p, plan, sequence).at : mine;

            put_planned(p, plan, sequence, {at, chunks, second, units_before, before[3], before[2]});
            st_global_u32(ends_of_plan(p, plan, PLAN_MANY) + sequence, (uint32_t)(before[0] + own[0]));
            st_global_u32(ends_of_plan(p, plan, PLAN_FEW) + sequence, (uint32_t)(before[1] + own[1]));
            st_global_u32(ends_of_plan(p, plan, PLAN_MERGES) + sequence, (uint32_t)(before[3] + own[3]));
        }
    }
    if (thread_index() == 0) {
        const uint32_t head[4] = {0, (uint32_t)total[0], (uint32_t)total[1], (uint32_t)total[3]};

        st_global_u32x4(plan, head);
    }
}

/* ---- reading it ---------------------------------------------------------------------------------------------- */

/* The first sequence whose end is beyond `number`; by a whole warp, which looks at 32 at a time. */
GLINT_DEVICE int32_t find_sequence_of(const struct glint_gpu_step &p, const uint32_t *ends, int32_t number)
{
    int32_t first = 0, left = p.base.shape.batch;

    while (left > 1) {
        const int32_t stride = (left + 31) / 32, at = ((int32_t)lane_index() + 1) * stride;
        const int32_t end = int_at((const int32_t *)ends, first + min(at, left) - 1);
        const int32_t passed = warp_sum(at < left && end <= number ? 1 : 0) * stride;

        first += passed;
        left = min(stride, left - passed);
    }
    return first;
}

/* Unit number `number` among those of its class. */
struct unit_number {
    int32_t index;
    bool of_many;
};

GLINT_DEVICE struct unit_number class_of_unit(int32_t number, int32_t many, int32_t few)
{
    if (few == 0 || many == 0)
        return {number, few == 0};
    /* of each so many units, in proportion, one of many rows */
    const int32_t before = (int32_t)((int64_t)number * many / (many + few));
    const bool of_many = (int32_t)((int64_t)(number + 1) * many / (many + few)) > before;

    return {of_many ? before : number - before, of_many};
}

/* Leaves unit number `number` of the plan in shared memory; by a whole warp. false if there is none. */
template <class Order>
GLINT_DEVICE bool put_unit(const struct glint_gpu_step &p, uint32_t *plan, uint32_t unit, int32_t number, int32_t many, int32_t few)
{
    if (number >= many + few) {
        if (lane_index() == 0)
            st_shared_u32(unit + 4 * UNIT_ANY, 0);
        return false;
    }
    const struct unit_number own = class_of_unit(number, many, few);
    const int32_t b = find_sequence_of(p, ends_of_plan(p, plan, own.of_many ? PLAN_MANY : PLAN_FEW), own.index);
    const struct planned s = get_planned(p, plan, b);

    write_unit<Order>(p, unit, own.index, b, s, lane_index() == 0);
    warp_sync();
    return true;
}

GLINT_DEVICE int32_t unit_word(uint32_t unit, const int word)
{
    return (int32_t)ld_shared_u32(unit + 4 * word);
}

/* The mask of a unit's sequence. */
template <class Band> GLINT_DEVICE Band mask_of_unit(const struct glint_gpu_step &p, uint32_t unit)
{
    const struct sequence own = {unit_word(unit, UNIT_QUERIES), unit_word(unit, UNIT_KEYS), unit_word(unit, UNIT_LEFT),
                                 unit_word(unit, UNIT_RIGHT)};

    return mask_of<Band>(p, own, unit_word(unit, UNIT_BATCH), unit_word(unit, UNIT_FIRST_Q));
}

/* A plan knows nothing of intervals. This leaves in the unit the tiles of keys that some row sees, and which of them
 * are cut; by a whole warp. Its spans stay those of the plan. `mask`: of the tile's queries. */
template <class Order, class Mask> GLINT_DEVICE void narrow_unit(const struct glint_gpu_step &p, uint32_t unit, const Mask &mask)
{
    const int32_t query0 = unit_word(unit, UNIT_QUERY);
    const struct key_blocks<interval_mask> seen =
        find_key_blocks<Order::TILE_N>(mask, query0, min(query0 + Order::BLOCKS * p.block_queries, mask.seqlen_q) - 1);

    if (lane_index() == 0) {
        const int32_t all = unit_word(unit, UNIT_END), end = min(all, seen.last + 1);
        const int32_t begin = max(unit_word(unit, UNIT_BEGIN), seen.first);

        st_shared_u32(unit + 4 * UNIT_SPANS_END, (uint32_t)Order::spans::count(p, all));
        st_shared_u32(unit + 4 * UNIT_SEEN_SPAN, (uint32_t)(begin < end ? Order::spans::of(p, begin) : unit_word(unit, UNIT_SPAN)));
        st_shared_u32(unit + 4 * UNIT_BEGIN, (uint32_t)begin);
        st_shared_u32(unit + 4 * UNIT_END, (uint32_t)end);
        st_shared_u32(unit + 4 * UNIT_CUT, (uint32_t)seen.hidden_from);
        st_shared_u32(unit + 4 * UNIT_WHOLE_FROM, (uint32_t)seen.whole_from);
    }
}

/* Where a copy of a unit's keys begins, from `key` on; keys beyond the last one are on its page. */
GLINT_DEVICE struct key_place place_of_copy(const struct glint_gpu_step &p, uint32_t unit, int32_t key)
{
    const struct key_place at = place_of_key(p, unit_word(unit, UNIT_BATCH), unit_word(unit, UNIT_FIRST_K),
                                             p.base.pages.table ? min(key, unit_word(unit, UNIT_KEYS) - 1) : key);

    return {p.base.pages.table ? key & ((1 << p.base.pages.shift) - 1) : at.row, at.batch};
}

/* ---- folding the slots --------------------------------------------------------------------------------------- */

/* The last kernel: a block of four warps folds 32 columns of 16 rows at a time, a warp 8 of them. */
template <class Element, class Bias, class Order, int below> GLINT_DEVICE void merge_slots(const struct glint_gpu_step &p)
{
    enum {
        HEAD_DIM = Order::HEAD_DIM,
        COLUMNS = (HEAD_DIM + 31) / 32,
        DEEP = 8, /* slots whose loads are on their way together */
    };
    const float scale = scale_of<Bias>(p);
    const int32_t merges = int_at((const int32_t *)p.plan, PLAN_MERGES);

#pragma unroll 1
    for (int32_t number = (int32_t)block_index(); number < merges; number += 4 * p.blocks) {
        const int32_t b = find_sequence_of(p, ends_of_plan(p, p.plan, PLAN_MERGES), number);
        const struct planned s = get_planned(p, p.plan, b);
        const struct step_size size = size_of<Order>(p, s.at.own);
        const uint32_t own = (uint32_t)(number - s.merges), rest = own / COLUMNS;
        const int32_t column = (int32_t)(own % COLUMNS * 4 + thread_index() / 32);
        const int32_t head = (int32_t)(rest / (uint32_t)size.blocks), block = (int32_t)rest - head * size.blocks;
        const int32_t tile = block / Order::BLOCKS, query = tile * Order::BLOCKS * p.block_queries;
        const auto blocks = key_blocks_of<Order>(s.at.own, query, query + Order::BLOCKS * p.block_queries);
        const int32_t second = span_of_chunk<Order>(p, s, size, blocks, 1);
        const int32_t all = Order::spans::count(p, blocks.last + 1), count = all - second + 1;
        const int32_t slot_rows = slot_rows_of<Order>(size), in_tile = block - Order::BLOCKS * tile;
        const int64_t first = s.base + (int64_t)(head * size.tiles + tile) * slots_of(size, s.second) * slot_rows;
        const int64_t step = (int64_t)slot_rows * (HEAD_DIM + 2);
        float *const slot = p.partial + first * (HEAD_DIM + 2);
        const float *from = slot_of_block<HEAD_DIM>(slot, in_tile) + 128 * column;
        const float *rows = rows_of_block<HEAD_DIM>(slot, slot_rows, in_tile);
        struct span_row total[2] = {{-GLINT_INFINITY, 0.0f}, {-GLINT_INFINITY, 0.0f}};
        float o[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        auto row_of = [&](const int half) {
            return row_of_tile(p, 16 * in_tile + (int32_t)lane_index() / 4 + 8 * half, query, s.at.own.seqlen_q);
        };
        /* Whether a row sees a key: known before the loop, so that the mask takes no registers over it. */
        const auto mask = mask_of<typename Order::Band>(p, s.at.own, b, s.at.first_q);
        const bool some[2] = {sees_some(mask, row_of(0).query), sees_some(mask, row_of(1).query)};

        /* A block has folded all of its spans, or there are no such columns. */
        if (all <= second || (HEAD_DIM % 32 != 0 && column >= HEAD_DIM / 8))
            continue;
#pragma unroll 1
        for (int32_t begin = 0; begin < count; begin += DEEP) {
            float part[DEEP][4];
            struct span_row row[DEEP][2];

#pragma unroll
            for (int i = 0; i < DEEP; ++i)
                if (begin + i < count) {
                    const float *const at = rows + (begin + i) * step;

                    ld_four(part[i], from + (begin + i) * step, 1);
                    row[i][0] = {ld_global_cg_f32(at), ld_global_cg_f32(at + 1)};
                    row[i][1] = {ld_global_cg_f32(at + 16), ld_global_cg_f32(at + 17)};
                } else { /* so that no register holds them over the loop */
                    part[i][0] = part[i][1] = part[i][2] = part[i][3] = 0.0f;
                    row[i][0] = row[i][1] = {0.0f, 0.0f};
                }
#pragma unroll
            for (int i = 0; i < DEEP; ++i)
                if (begin + i < count && begin + i == 0) {
                    total[0] = row[i][0];
                    total[1] = row[i][1];
#pragma unroll
                    for (int j = 0; j < 4; ++j)
                        o[j] = part[i][j];
                } else if (begin + i < count) {
                    const struct fold_factors upper = fold_span(total[0], row[i][0], scale),
                                              lower = fold_span(total[1], row[i][1], scale);

                    o[0] = fold(o[0], part[i][0], upper);
                    o[1] = fold(o[1], part[i][1], upper);
                    o[2] = fold(o[2], part[i][2], lower);
                    o[3] = fold(o[3], part[i][3], lower);
                }
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const struct step_row row = row_of(half);
            const int32_t head_q = head * p.group + row.head, batch = p.base.sequences.first_q ? 0 : b;
            float inverse, lse;

            if (!row.exists)
                continue;
            finish_row<Bias, below>(inverse, lse, total[half], p.base, head_q, some[half]);
            char *to = view_row(&p.base.o, batch, head_q, s.at.first_q + row.query, 2) + 16 * column + 4 * (lane_index() % 4);
            st_global_u32(to, finish_pair<Element>(o[2 * half], o[2 * half + 1], inverse));
            if (column == 0 && lane_index() % 4 == 0)
                st_global_f32(lse_of_row(p, batch, head_q, s.at.first_q + row.query), lse);
        }
    }
}

#endif
