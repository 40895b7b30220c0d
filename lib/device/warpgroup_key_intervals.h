/* Intervals in the fused backward kernel of sm_90a. The first kernel leaves the range of each query and the bounds of
 * each TILE_M of them (intervals.h). A warp of a block finds in the bounds which steps a block of keys has. What it
 * finds waits in shared memory, where all others read it: no one else looks at more than the bounds of its own step.
 *
 * A step is of queries some of whose ranges, joined, reach the keys. Blocks of queries that do not are passed over, and
 * are not in the count of steps. So dQ of a block of queries has its turns from the first keys that it sees to the last
 * ones, without a gap, as under a band. */
#ifndef GLINT_DEVICE_WARPGROUP_KEY_INTERVALS_H
#define GLINT_DEVICE_WARPGROUP_KEY_INTERVALS_H

#include "lib/device/warpgroup_sequences.h"

/* ---- the mask ---------------------------------------------------------------------------------------------------- */

/* The ranges of a sequence's queries, in memory. */
struct range_mask {
    static constexpr bool LEFT = true, RIGHT = true, INTERVALS = true, TREE = false;
    const int32_t *rows; /* of query 0 */
    int32_t seqlen_q, seqlen_k;
};

/* What the kernel of keys knows of a mask that the first kernel has in full. */
template <class Band> struct mask_of_keys {
    typedef Band type;
};
template <> struct mask_of_keys<interval_mask> {
    typedef struct range_mask type;
};

GLINT_DEVICE bool sees(const struct range_mask &mask, int32_t query, int32_t key)
{
    return key >= int_at(mask.rows, 2 * query) && key < int_at(mask.rows, 2 * query + 1);
}

/* Whether the thread's keys are seen by a step's queries: a bit for each of its scores, in their order. */
template <int queries> struct sight<range_mask, queries> {
    uint32_t seen[(queries + 63) / 64];
};

template <int queries>
GLINT_DEVICE struct sight<range_mask, queries> sight_of_keys(const struct range_mask &mask, int32_t key, int32_t query0) {
    const int32_t *rows = mask.rows + 2 * (query0 + 2 * (int32_t)(thread_index_anew() & 3));
    struct sight<range_mask, queries> sight;

#pragma unroll
    for (int word = 0; word < (queries + 63) / 64; ++word) {
        uint32_t seen = 0;

#pragma unroll 2
        for (int j = 0; j < (queries < 64 ? queries : 64) / 8; ++j) {
            uint32_t keys[4]; /* of two queries */

            ld_global_u32x4(keys, rows + 16 * (8 * word + j));
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int32_t own = key + e / 2 * 8;

                seen |= (uint32_t)(own >= (int32_t)keys[e % 2 * 2] && own < (int32_t)keys[e % 2 * 2 + 1]) << (4 * j + e);
            }
        }
        sight.seen[word] = seen;
    }
    return sight;
}

template <int queries>
GLINT_DEVICE void hide_queries(float (&s)[queries / 2], const struct sight<range_mask, queries> &sight)
{
#pragma unroll
    for (int i = 0; i < queries / 2; ++i)
        s[i] = (sight.seen[i / 32] >> i % 32 & 1) != 0 ? s[i] : 0.0f;
}

/* ---- what a block works on --------------------------------------------------------------------------------------- */

struct interval_work : key_work {
    struct plain_steps plain;
    int32_t gaps; /* blocks of queries between the first and the last that are passed over */
};

/* What else a unit says, where lengths are read: warpgroup_units.h. */
struct unit_rest {
    int32_t seqlen_q, seqlen_k, parts, block;
};

/* What a unit in memory says of a block; its steps are not known. */
GLINT_DEVICE struct interval_work work_of_unit(const uint32_t *unit, struct unit_rest &rest)
{
    uint32_t mask[4], keys[4], queries[4], sums[4];
    struct interval_work work = {};

    ld_global_u32x4(mask, unit);
    ld_global_u32x4(keys, unit + 4);
    ld_global_u32x4(queries, unit + 8);
    ld_global_u32x4(sums, unit + 12);
    rest = {(int32_t)mask[2], (int32_t)mask[3], (int32_t)sums[1], (int32_t)sums[2]};
    static_cast<struct key_work &>(work) = work_of_words(keys, queries, sums[0]);
    return work;
}

/* The bounds of block m of the queries. */
template <int TILE_M>
GLINT_DEVICE struct key_bounds bounds_of(const struct glint_gpu_call &p, const struct key_work &work, int32_t m)
{
    return bounds_at<TILE_M>(p, (int64_t)work.batch * p.padded_q + work.padded + m * TILE_M);
}

template <int TILE_M, int TILE_N> GLINT_DEVICE bool is_step(const struct glint_gpu_call &p, const struct key_work &work, int32_t m)
{
    return reaches(bounds_of<TILE_M>(p, work, m).all, work.key0, TILE_N);
}

/* The first lane's value, in all lanes. With warp_first kernels of head_dim 128 spill. */
GLINT_DEVICE uint32_t of_first_lane(uint32_t value)
{
    uint32_t found = lane_index() == 0 ? value : 0;

#pragma unroll
    for (uint32_t lanes = 1; lanes < 32; lanes *= 2)
        found |= (uint32_t)of_lane((int32_t)found, lanes);
    return found;
}

/* Finds the steps of a block of TILE_N keys; by a warp. clear_from, clear_to: the first blocks in a row whose queries
 * see all of the keys. Plain steps are of the first in a row of which that is so, and which see keys after these. LATE:
 * others wait meanwhile, so no more bounds are read than the answer depends on. */
template <int TILE_M, int TILE_N, bool LATE>
GLINT_DEVICE void find_interval_steps(struct interval_work &work, const struct glint_gpu_call &p, int32_t seqlen_q)
{
    const int32_t count = (seqlen_q + TILE_M - 1) / TILE_M, lane = (int32_t)lane_index();
    struct key_range all = {count, 0}, clear = {count, count}, plain = {count, count};
    int32_t seen = 0, above = 0;
    auto is_clear = [&](const struct key_bounds &bounds) { return covers(bounds, work.key0, TILE_N); };
    auto is_plain = [&](const struct key_bounds &bounds) { return is_clear(bounds) && bounds.all.end > work.key0 + TILE_N; };

#pragma unroll 1
    for (int32_t m = lane; m < count; m += 32) {
        const struct key_bounds bounds = bounds_of<TILE_M>(p, work, m);

        if (reaches(bounds.all, work.key0, TILE_N)) {
            all = {min(all.first, m), m + 1};
            ++seen;
        }
        if (is_clear(bounds))
            clear.first = min(clear.first, m);
        if (is_plain(bounds))
            plain.first = min(plain.first, m);
    }
    join_lanes(all);
#pragma unroll
    for (uint32_t lanes = 1; lanes < 32; lanes *= 2) {
        seen += of_lane(seen, lanes);
        clear.first = min(clear.first, of_lane(clear.first, lanes));
        plain.first = min(plain.first, of_lane(plain.first, lanes));
    }
    if (LATE) { /* those that see all see some: none behind the last one that does */
        clear = {min(clear.first, all.end), all.end};
        plain = {min(plain.first, all.end), all.end};
    }
#pragma unroll 1
    for (int32_t m = LATE ? clear.first + lane : lane; m < (LATE ? max(clear.end, plain.end) : count); m += 32) {
        const struct key_bounds bounds = bounds_of<TILE_M>(p, work, m);

        if (m > clear.first && !is_clear(bounds))
            clear.end = min(clear.end, m);
        if (m > plain.first && !is_plain(bounds))
            plain.end = min(plain.end, m);
    }
#pragma unroll
    for (uint32_t lanes = 1; lanes < 32; lanes *= 2) {
        clear.end = min(clear.end, of_lane(clear.end, lanes));
        plain.end = min(plain.end, of_lane(plain.end, lanes));
    }
    if (LATE && seen == all.end - all.first) {
        above = all.end - plain.end;
    } else {
#pragma unroll 1
        for (int32_t m = plain.end + lane; m < all.end; m += 32)
            above += is_step<TILE_M, TILE_N>(p, work, m);
#pragma unroll
        for (uint32_t lanes = 1; lanes < 32; lanes *= 2)
            above += of_lane(above, lanes);
    }

    work.first = all.first;
    work.last = all.end - 1;
    work.clear_from = clear.first;
    work.clear_to = clear.end - 1;
    work.gaps = max(0, all.end - all.first) - seen;
    work.steps = seen * work.group;
    work.plain = {above * work.group + 1, (above + plain.end - plain.first) * work.group};
}

/* A waiting block of keys: the first key (NO_WORK: there is none), key head, batch, part; first and last block of
 * queries, and those that see all; plain steps, steps, gaps; the first query head and how many. Where lengths are read
 * also the sequence's parts, and which block of keys it is in key_sum and key_turn; the rows at which queries and keys
 * begin, the first also in arrays of the workspace; seqlen_q, seqlen_k. */
template <bool READS> struct interval_slot_of_keys {
    enum : uint32_t { BYTES = READS ? 96 : 64, BATCH_AT = 8, PARTS_AT = 56, BLOCK_AT = 60, PADDED_AT = 72, SEQUENCE_AT = 80 };

    GLINT_DEVICE void put(uint32_t slot, const struct interval_work &work, const struct unit_rest &rest)
    {
        const uint32_t v[24] = {(uint32_t)work.key0,
                                (uint32_t)work.head_kv,
                                (uint32_t)work.batch,
                                (uint32_t)work.part,
                                (uint32_t)work.first,
                                (uint32_t)work.last,
                                (uint32_t)work.clear_from,
                                (uint32_t)work.clear_to,
                                (uint32_t)work.plain.first,
                                (uint32_t)work.plain.end,
                                (uint32_t)work.steps,
                                (uint32_t)work.gaps,
                                (uint32_t)work.head0,
                                (uint32_t)work.group,
                                (uint32_t)rest.parts,
                                (uint32_t)rest.block,
                                (uint32_t)work.first_q,
                                (uint32_t)work.first_k,
                                (uint32_t)work.padded,
                                0,
                                (uint32_t)rest.seqlen_q,
                                (uint32_t)rest.seqlen_k,
                                0,
                                0};

#pragma unroll
        for (uint32_t i = 0; i < BYTES / 4; i += 4)
            st_shared_u32x4(slot + 4 * i, v + i);
    }

    GLINT_DEVICE struct interval_work get(uint32_t slot)
    {
        struct interval_work work = {};
        uint32_t v[20];

#pragma unroll
        for (uint32_t i = 0; i < (READS ? 20 : 16); i += 4)
            ld_shared_u32x4(v + i, slot + 4 * i);
        work.key0 = (int32_t)v[0];
        work.head_kv = (int32_t)v[1];
        work.batch = (int32_t)v[2];
        work.part = (int32_t)v[3];
        work.first = (int32_t)v[4];
        work.last = (int32_t)v[5];
        work.clear_from = (int32_t)v[6];
        work.clear_to = (int32_t)v[7];
        work.plain = {(int32_t)v[8], (int32_t)v[9]};
        work.steps = (int32_t)v[10];
        work.gaps = (int32_t)v[11];
        work.head0 = (int32_t)v[12];
        work.group = (int32_t)v[13];
        if (READS) {
            work.first_q = (int32_t)v[16];
            work.first_k = (int32_t)v[17];
            work.padded = (int32_t)v[18];
        }
        return work;
    }
};

/* Such blocks, two ahead, from at_ on. */
template <uint32_t at_, bool READS> struct interval_queue : unit_queue<at_, interval_slot_of_keys<READS>::BYTES> {
    typedef typename unit_queue<at_, interval_slot_of_keys<READS>::BYTES>::slots slots;

    /* By the one thread that announces. */
    GLINT_DEVICE void announce(uint32_t shared, const struct ring &ring, const struct interval_work &work,
                               const struct unit_rest &rest)
    {
        slots::wait_empty(shared, ring);
        interval_slot_of_keys<READS>::put(slots::tile(shared, ring), work, rest);
        mbarrier_arrive(slots::full(shared, ring));
    }
};

/* ---- steps, where some blocks of queries are passed over --------------------------------------------------------- */

template <int TILE_M, int TILE_N>
GLINT_DEVICE void walk_on(const struct glint_gpu_call &p, struct walk &walk, const struct interval_work &work)
{
    walk_on(walk, work);
    if (work.gaps > 0)
        while (walk.m >= work.first && !is_step<TILE_M, TILE_N>(p, work, walk.m))
            --walk.m;
}

template <int TILE_M, int TILE_N>
GLINT_DEVICE struct walk step_before(const struct glint_gpu_call &p, const struct walk &walk, const struct interval_work &work)
{
    struct walk before = step_before(walk, work);

    if (work.gaps > 0)
        while (!is_step<TILE_M, TILE_N>(p, work, before.m))
            ++before.m;
    return before;
}

template <int TILE_M, int TILE_N>
GLINT_DEVICE struct walk walk_at(const struct glint_gpu_call &p, const struct interval_work &work, int32_t step)
{
    if (work.gaps == 0)
        return walk_at(work, step);
    struct walk walk = walk_begin(work);

#pragma unroll 1
    for (int32_t blocks = step / work.group; blocks > 0; --blocks) {
        walk.head = work.head0 + work.group - 1;
        walk_on<TILE_M, TILE_N>(p, walk, work);
    }
    return walk;
}

#endif
