/* How decode copies Q, K, V and their scales to shared memory, ahead of the products. For each of the types of keys.h
 * there is a copier, which walks over the same steps as the products do and is ahead of them. */
#ifndef GLINT_DEVICE_DECODE_COPY_H
#define GLINT_DEVICE_DECODE_COPY_H

#include "lib/device/decode/walk.h"
#include "lib/device/keys.h"

namespace decode
{

/* Rows of Q, in the tile's order; zeros where there are none. */
template <class S, class Rows>
GLINT_DEVICE void copy_queries(const struct glint_decode_params &p, const struct row_tile &t, int32_t rows, uint32_t q_tile)
{
    typedef typename S::q_tile tile;

#pragma unroll 1
    for (uint32_t i = thread_index(); i < S::TILE_M * tile::CHUNKS; i += S::THREADS) {
        const uint32_t row = i / tile::CHUNKS, chunk = i - row * tile::CHUNKS;
        const bool inside = t.row0 + (int32_t)row < rows && (tile::ROW_CHUNKS == tile::CHUNKS || chunk < tile::ROW_CHUNKS);

        cp_async_16(q_tile + tile_offset<tile>(row, chunk),
                    inside ? query_row<S, Rows>(p, p.q, t, t.row0 + (int32_t)row) + chunk * 16 : (const char *)p.q.address, inside);
    }
}

/* Where the scales of the K or V at `stage` are. */
template <class S> GLINT_DEVICE uint32_t scales_of_stage(uint32_t scales, uint32_t stage)
{
    return scales + stage / (S::DIM_PADDED / 4);
}

template <class S> GLINT_DEVICE uint32_t next_stage(uint32_t stage)
{
    return stage == (S::STAGES - 1) * S::K_BYTES ? 0 : stage + S::K_BYTES;
}

template <class S, class Rows, class Keys> struct copier;

/* ---- linear K and V --------------------------------------------------------------------------------------------- */

/* Where this thread's part of the next step's K and V comes from, and where it goes to. */
template <class S, class Rows> struct copier<S, Rows, linear> {
    struct cursor at;
    const char *k_from, *v_from;
    uint32_t stage;
    /* Rows of the tile from this thread's first one on: others become zeros. 0 or less when there is no more step. */
    int32_t valid;
    bool first; /* of an item's steps */
};

template <class S, class Rows>
GLINT_DEVICE void begin_copies_of_item(const struct glint_decode_params &p, copier<S, Rows, linear> &c)
{
    const struct row_tile &t = c.at.tile;
    const int32_t batch = Rows::batch_of(t.batch), first = t.first_k + c.at.step * S::TILE_N;

    c.k_from = copy_from(view_row(&p.k, batch, t.head_kv, first, S::KV_BYTES), p.k.row * S::KV_BYTES, S::PAGE_CHUNKS);
    c.v_from = copy_from(view_row(&p.v, batch, t.head_kv, first, S::KV_BYTES), p.v.row * S::KV_BYTES, S::PAGE_CHUNKS);
    c.first = true;
}

/* Begins the walk at `at`. */
template <class S, class Rows>
GLINT_DEVICE void begin_copies(const struct glint_decode_params &p, copier<S, Rows, linear> &c, const struct cursor &at, uint32_t)
{
    c.at = at;
    c.stage = 0;
    begin_copies_of_item(p, c);
}

/* Begins the copy of this thread's part of one tile, of K or of V (`of_v`). */
template <class S, class Rows>
GLINT_DEVICE void copy_tile(const struct glint_decode_params &p, const copier<S, Rows, linear> &c, const bool of_v, uint32_t tile)
{
    const char *from = of_v ? c.v_from : c.k_from;
    const uint32_t to = tile + tile_offset<typename S::kv_tile>(thread_index() / S::PAGE_CHUNKS, thread_index() % S::PAGE_CHUNKS);

#pragma unroll
    for (int i = 0; i < S::COPIES; ++i) {
#pragma unroll
        for (int page = 0; page < S::PAGES; ++page)
            cp_async_16_once(
                to + (page * S::TILE_N + i * S::COPY_ROWS) * (S::PAGE_CHUNKS * 16), from + page * (S::PAGE_CHUNKS * 16),
                i * S::COPY_ROWS < c.valid && ((int)S::ROW_CHUNKS == (int)S::CHUNKS ||
                                               page * S::PAGE_CHUNKS + thread_index() % S::PAGE_CHUNKS < S::ROW_CHUNKS));
        from += S::COPY_ROWS * (of_v ? p.v.row : p.k.row) * S::KV_BYTES;
    }
}

/* Begins the copy of the scales of a step's keys; a key past the end has 0. */
template <class S, class Rows>
GLINT_DEVICE void copy_scales(const struct glint_decode_params &p, const float *of_tensor, const copier<S, Rows, linear> &c,
                              uint32_t to)
{
    const struct row_tile &t = c.at.tile;
    const float *const from =
        of_tensor + Rows::batch_of(t.batch) * p.scales.unit + t.head_kv * p.scales.head + t.first_k * (int64_t)p.scales.row;

#pragma unroll
    for (int i = 0; i < (S::TILE_N + S::THREADS - 1) / S::THREADS; ++i) {
        const int32_t index = i * S::THREADS + (int32_t)thread_index(), key = c.at.step * S::TILE_N + index;

        if (S::TILE_N % S::THREADS == 0 || index < S::TILE_N)
            cp_async_4(to + index * 4, from + key * (int64_t)p.scales.row, key < c.at.own.seqlen_k);
    }
}

/* Finds the walk's next step, if there is one. */
template <class S, class Rows> GLINT_DEVICE void find_next(const struct glint_decode_params &p, copier<S, Rows, linear> &c)
{
    if (c.at.step >= c.at.end && find_step<S, Rows, linear>(p, c.at))
        begin_copies_of_item(p, c);
    c.valid = c.at.step < c.at.end ? c.at.own.seqlen_k - c.at.step * S::TILE_N - (int32_t)(thread_index() / S::PAGE_CHUNKS)
                                   : -(int)S::TILE_N;
}

template <class S, class Rows> GLINT_DEVICE void begin_step(const struct glint_decode_params &, const copier<S, Rows, linear> &) {}

/* The step is copied. */
template <class S, class Rows> GLINT_DEVICE void pass_step(const struct glint_decode_params &p, copier<S, Rows, linear> &c)
{
    c.k_from += S::TILE_N * p.k.row * S::KV_BYTES;
    c.v_from += S::TILE_N * p.v.row * S::KV_BYTES;
}

/* ---- K and V in pages ------------------------------------------------------------------------------------------- */

/* Of a step's keys a warp copies WARP_KEYS neighbouring ones. They lie in one page if WARP_KEYS divides its rows:
 * every lane then looks up this page, and the copies have the addresses of linear ones. All pages have whole runs of
 * RUN_ROWS rows: else a lane looks up the page of a run, and where the runs begin waits in shared memory for all lanes
 * of the warp. An index that is used at once waits for memory behind the copies under way, so a step's are read once
 * for K and V, and a step and a half before its copies begin; those of an item's first step half a step before. */
template <class S> struct runs {
    enum {
        RUN_ROWS = 16,                               /* no page has fewer */
        RUNS = S::WARP_KEYS / RUN_ROWS,              /* of a warp */
        TURN_ROWS = S::COPY_ROWS / S::WARPS,         /* that a warp copies at once: 4, 8 or 16 */
        RUN_BYTES = S::WIDENED ? 32 : 16,            /* in shared memory: a struct run */
        RUNS_BYTES = RUNS > 1 ? RUNS *RUN_BYTES : 0, /* of a warp */
    };
};

/* Where a run begins, from row 0 of page 0 of its head on: bytes of K and of V, and, of 8 bits, how many scales. */
struct run {
    uint64_t k, v, scales;
};

template <class S, class Rows> struct copier<S, Rows, paged> {
    struct cursor at;
    const int32_t *table; /* the sequence's row of it */
    /* This thread's part of the first rows of a run at row 0 of page 0 of the item's head. */
    const char *k_head, *v_head;
    struct run run;       /* this lane's, of the step that is copied */
    uint32_t runs, stage; /* runs: of the warp, in shared memory */
    uint32_t to;          /* where this thread's first part of a tile goes */
    int32_t left;         /* keys from the first one on that the warp copies */
    /* The first one of these keys, or, where a page has not all rows that the warp copies, of this lane's run. */
    int32_t key;
    int32_t page, next_page; /* of that key and of the one a step further, as the table has them */
    bool first;              /* of an item's steps */
};

/* Has a page all rows of a step that a warp copies? A page's rows are a power of two: where WARP_KEYS is none, they
 * lie across two pages. */
template <class S> GLINT_DEVICE bool holds_warp(const struct glint_decode_params &p)
{
    return runs<S>::RUNS == 1 || ((S::WARP_KEYS & (S::WARP_KEYS - 1)) == 0 && 1 << p.pages.shift >= S::WARP_KEYS);
}

template <class S> GLINT_DEVICE const char *part_of_head(const struct glint_gpu_view &view, int32_t head)
{
    return view_row(&view, 0, head, (int32_t)(lane_index() / S::PAGE_CHUNKS), S::KV_BYTES) + lane_index() % S::PAGE_CHUNKS * 16;
}

/* Page of a key as the table has it; of one past the end that of the last key. */
template <class S, class Rows>
GLINT_DEVICE int32_t page_of_key(const struct glint_decode_params &p, const copier<S, Rows, paged> &c, int32_t key)
{
    return int_at(c.table, min(key, c.at.own.seqlen_k - 1) >> p.pages.shift);
}

/* What is the item's, and its first step's pages. Lanes that are too many have the last run. */
template <class S, class Rows> GLINT_DEVICE void begin_paged_item(const struct glint_decode_params &p, copier<S, Rows, paged> &c)
{
    typedef struct runs<S> cut;
    const int32_t first = c.at.step * S::TILE_N + (int32_t)warp_index() * S::WARP_KEYS;

    c.table = p.pages.table + (int64_t)c.at.tile.batch * p.pages.per_sequence;
    c.k_head = part_of_head<S>(p.k, c.at.tile.head_kv);
    c.v_head = part_of_head<S>(p.v, c.at.tile.head_kv);
    c.left = c.at.own.seqlen_k - first;
    c.key = first + (holds_warp<S>(p) ? 0 : (int32_t)min(lane_index(), (uint32_t)cut::RUNS - 1) * cut::RUN_ROWS);
    c.page = page_of_key(p, c, c.key);
}

/* Moves on to the walk's next step, if there is one, and begins to look up the pages of the one after it. */
template <class S, class Rows> GLINT_DEVICE void look_up_pages(const struct glint_decode_params &p, copier<S, Rows, paged> &c)
{
    c.key += S::TILE_N;
    c.left -= S::TILE_N;
    c.page = c.next_page;
    if (c.at.step >= c.at.end)
        c.first = find_step<S, Rows, paged>(p, c.at);
    if (c.at.step < c.at.end) {
        if (c.first)
            begin_paged_item(p, c);
        c.next_page = page_of_key(p, c, c.key + S::TILE_N);
    }
}

/* Begins the walk at `at`. `runs`: room for those of all warps. */
template <class S, class Rows>
GLINT_DEVICE void begin_copies(const struct glint_decode_params &p, copier<S, Rows, paged> &c, const struct cursor &at,
                               uint32_t runs_of_warps)
{
    const uint32_t lane = lane_index(), warp = warp_index();

    c.at = at;
    c.stage = 0;
    c.first = true;
    c.key = c.left = c.next_page = 0;
    c.runs = runs_of_warps + warp * runs<S>::RUNS_BYTES;
    c.to = tile_offset<typename S::kv_tile>(warp * S::WARP_KEYS + lane / S::PAGE_CHUNKS, lane % S::PAGE_CHUNKS);
    look_up_pages(p, c);
}

/* Whether some row of a tile sees one of the keys from `first` to past - 1, under a mask with intervals. */
template <class S, class Rows>
GLINT_DEVICE bool some_row_sees(const struct glint_decode_params &p, const struct row_tile &t, const struct sequence_rows &own,
                                int32_t first, int32_t past)
{
    bool some = false;

#pragma unroll 1
    for (int32_t row = t.row0; row < t.row0 + S::TILE_M && !some; ++row) {
        const struct key_range keys = keys_of_row<S, Rows, false>(p, t, row, own);

        some = reaches(keys, first, past - first);
        if constexpr (S::mask::TREE)
            if (some && p.tree_bits) {
                const int32_t slots = own.seqlen_k - own.seqlen_q;
                const struct tree_mask mask =
                    mask_of<tree_mask>(p, own, (int64_t)Rows::batch_of(t.batch) * p.shape.seqlen_q + own.first_q);

                some = false;
#pragma unroll 1
                for (int32_t key = max(first, keys.first); key < min(past, keys.end) && !some; ++key)
                    some = key < slots || has_slot(mask.tree, row / p.shape.group, key - slots);
            }
    }
    return some;
}

/* Lowers the word for a fault to the sequence if the page of this lane's run is outside of the pool, and a row of the
 * tile sees a key of it. */
template <class S, class Rows> GLINT_DEVICE void note_bad_page(const struct glint_decode_params &p, const copier<S, Rows, paged> &c)
{
    const struct row_tile &t = c.at.tile;
    const int32_t end = min(c.at.own.seqlen_k, end_of_row<S>(p, min(c.at.own.rows, t.row0 + S::TILE_M) - 1, c.at.own));
    const int32_t index = min(c.key, c.at.own.seqlen_k - 1) >> p.pages.shift, first = index << p.pages.shift;

    const int32_t past = min(first + (1 << p.pages.shift), c.at.own.seqlen_k);

    if constexpr (S::mask::INTERVALS) {
        if (some_row_sees<S, Rows>(p, t, c.at.own, first, past))
            atomicMin(p.sequences.fault, (uint32_t)t.batch);
        return;
    }
    if (first < end && (!S::mask::LEFT || past > begin_of_row<S>(p, t.row0, c.at.own)))
        atomicMin(p.sequences.fault, (uint32_t)t.batch);
}

template <class S> GLINT_DEVICE uint64_t bytes_to(const struct glint_gpu_view &view, int32_t page, int32_t row)
{
    return ((uint32_t)page * (uint64_t)view.batch + (uint32_t)row * (uint64_t)view.row) * S::KV_BYTES;
}

/* Finds this lane's run of the step whose pages were looked up. */
template <class S, class Rows> GLINT_DEVICE void find_run(const struct glint_decode_params &p, copier<S, Rows, paged> &c)
{
    const int32_t row = c.key & ((1 << p.pages.shift) - 1), page = within(c.page, p.pages.count - 1);

    if (page != c.page && p.sequences.fault)
        note_bad_page(p, c);
    c.run.k = bytes_to<S>(p.k, page, row);
    c.run.v = bytes_to<S>(p.v, page, row);
    if constexpr (S::WIDENED) {
        c.run.scales = (uint32_t)page * (uint64_t)p.scales.unit + (uint32_t)c.at.tile.head_kv * (uint64_t)p.scales.head;
        c.run.scales += (uint32_t)(row * p.scales.row);
    }
}

/* Leaves this lane's run to the lanes of the warp. */
template <class S, class Rows> GLINT_DEVICE void share_runs(const copier<S, Rows, paged> &c)
{
    typedef struct runs<S> cut;
    const uint32_t words[4] = {(uint32_t)c.run.k, (uint32_t)(c.run.k >> 32), (uint32_t)c.run.v, (uint32_t)(c.run.v >> 32)};

    /* No lane reads the runs of the step before any more. */
    warp_sync();
    if (lane_index() < cut::RUNS) {
        st_shared_u32x4(c.runs + lane_index() * cut::RUN_BYTES, words);
        if constexpr (S::WIDENED) {
            const uint32_t of_scales[4] = {(uint32_t)c.run.scales, (uint32_t)(c.run.scales >> 32), 0, 0};

            st_shared_u32x4(c.runs + lane_index() * cut::RUN_BYTES + 16, of_scales);
        }
    }
    warp_sync();
}

/* Begins the copy of this thread's part of the rows that its warp copies in turn `turn` of one tile: the first turn's
 * goes to `to`. */
template <class S> GLINT_DEVICE void copy_turn(uint32_t to, const char *from, const int turn, int32_t valid)
{
    const uint32_t row = turn * runs<S>::TURN_ROWS;

    /* rows permute chunks: see tile_offset */
    to = (to ^ tile_offset<typename S::kv_tile>(row, 0) % (S::PAGE_CHUNKS * 16)) + row * S::PAGE_CHUNKS * 16;
#pragma unroll
    for (int page = 0; page < S::PAGES; ++page)
        cp_async_16_once(
            to + page * (S::TILE_N * S::PAGE_CHUNKS * 16), from + page * (S::PAGE_CHUNKS * 16),
            turn * runs<S>::TURN_ROWS < valid &&
                ((int)S::ROW_CHUNKS == (int)S::CHUNKS || page * S::PAGE_CHUNKS + lane_index() % S::PAGE_CHUNKS < S::ROW_CHUNKS));
}

/* Begins the copy of this thread's part of one tile, of K or of V (`of_v`). */
template <class S, class Rows>
GLINT_DEVICE void copy_tile(const struct glint_decode_params &p, const copier<S, Rows, paged> &c, const bool of_v, uint32_t tile)
{
    typedef struct runs<S> cut;
    const uint32_t to = tile + c.to;
    const int32_t valid = c.left - (int32_t)(lane_index() / S::PAGE_CHUNKS);
    const int64_t down = (of_v ? p.v.row : p.k.row) * (cut::TURN_ROWS * S::KV_BYTES);
    const char *from = of_v ? c.v_head : c.k_head;

    if (holds_warp<S>(p)) {
        from += of_v ? c.run.v : c.run.k;
#pragma unroll
        for (int i = 0; i < S::COPIES; ++i) {
            copy_turn<S>(to, from, i, valid);
            from += down;
        }
        return;
    }
    uint32_t words[cut::RUNS][4];

#pragma unroll
    for (int i = 0; i < cut::RUNS; ++i) /* all of them first: a load between copies waits for those before it */
        ld_shared_u32x4(words[i], c.runs + i * cut::RUN_BYTES);
#pragma unroll
    for (int i = 0; i < S::COPIES; ++i) {
        const uint32_t *const run = words[i * cut::TURN_ROWS / cut::RUN_ROWS] + 2 * of_v;

        copy_turn<S>(to, from + ((uint64_t)run[1] << 32 | run[0]) + i % (cut::RUN_ROWS / cut::TURN_ROWS) * down, i, valid);
    }
}

/* Begins the copy of the scales of the keys that this warp copies; a key past the end has 0. */
template <class S, class Rows>
GLINT_DEVICE void copy_scales(const struct glint_decode_params &p, const float *of_tensor, const copier<S, Rows, paged> &c,
                              uint32_t to)
{
    typedef struct runs<S> cut;
    const int32_t lane = (int32_t)lane_index(), valid = min((int32_t)S::WARP_KEYS, c.left) - lane;

    to += (thread_index() / 32 * S::WARP_KEYS + lane_index()) * 4;
    if (holds_warp<S>(p)) {
        const float *const from = of_tensor + c.run.scales + lane * p.scales.row;

#pragma unroll
        for (int i = 0; i < S::WARP_KEYS; i += 32)
            if (S::WARP_KEYS % 32 == 0 || i + lane < S::WARP_KEYS)
                cp_async_4(to + i * 4, from + i * p.scales.row, i < valid);
        return;
    }
#pragma unroll 1
    for (int i = 0; i < S::WARP_KEYS; i += 32) {
        const int32_t row = lane % cut::RUN_ROWS, run = min((i + lane) / cut::RUN_ROWS, cut::RUNS - 1);
        const uint32_t at = c.runs + (uint32_t)run * cut::RUN_BYTES + 16;
        const float *from = of_tensor + ((uint64_t)ld_shared_u32(at + 4) << 32 | ld_shared_u32(at));

        from += row * p.scales.row;
        if (S::WARP_KEYS % 32 == 0 || i + lane < S::WARP_KEYS)
            cp_async_4(to + i * 4, from, i < valid);
    }
}

/* look_up_pages has found it. */
template <class S, class Rows> GLINT_DEVICE void find_next(const struct glint_decode_params &, const copier<S, Rows, paged> &) {}

/* Its runs. */
template <class S, class Rows> GLINT_DEVICE void begin_step(const struct glint_decode_params &p, copier<S, Rows, paged> &c)
{
    find_run(p, c);
    if (!holds_warp<S>(p))
        share_runs(c);
}

template <class S, class Rows> GLINT_DEVICE void pass_step(const struct glint_decode_params &p, copier<S, Rows, paged> &c)
{
    look_up_pages(p, c);
}

/* ---- both ------------------------------------------------------------------------------------------------------- */

/* Begins the copies of the walk's next K, a group of its own even when there is none. of_item() begins what else there
 * is to copy with an item's first step. `scales_to`: where stages of scales are. */
template <class S, class Rows, class Keys, class of_item_t>
GLINT_DEVICE void copy_keys(const struct glint_decode_params &p, copier<S, Rows, Keys> &c, uint32_t k_tiles, uint32_t scales_to,
                            of_item_t of_item)
{
    find_next(p, c);
    if (c.at.step < c.at.end) {
        begin_step(p, c);
        copy_tile(p, c, false, k_tiles + c.stage);
        if constexpr (S::WIDENED)
            copy_scales(p, p.scales.k, c, scales_of_stage<S>(scales_to, c.stage));
        if (c.first)
            of_item();
        c.first = false;
    }
    cp_async_commit();
}

/* Begins the copies of the V of that step, and moves on to the next one. */
template <class S, class Rows, class Keys>
GLINT_DEVICE void copy_values(const struct glint_decode_params &p, copier<S, Rows, Keys> &c, uint32_t v_tiles, uint32_t scales_to)
{
    if (c.at.step < c.at.end) {
        copy_tile(p, c, true, v_tiles + c.stage);
        if constexpr (S::WIDENED)
            copy_scales(p, p.scales.v, c, scales_of_stage<S>(scales_to, c.stage));
    }
    cp_async_commit();
    c.stage = next_stage<S>(c.stage);
    ++c.at.step;
    pass_step(p, c);
}

} // namespace decode

#endif
