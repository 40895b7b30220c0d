/* dec_bf16_d64_causal__sm80_s2_m8n256
 *
 * Attention, decode: O and LSE of few queries, split over the keys; bf16, head_dim 64, causal, both alignments.
 * For sm_80.
 * Tile: 8 rows x 256 keys, 2 stages; 4 warps, 1 block a multiprocessor.
 * Keys are summed up by steps of 256, chunks of 1024 and spans of 8192. For up to 8 queries.
 * Shared memory of a block: 138496 bytes.
 *
 * Made from gen/templates/sm80_dec.cu.lua by
 *   lua5.4 gen/glint.lua emit --spec generated/golden/golden.lua --variant dec_bf16_d64_causal__sm80_s2_m8n256
 * and overwritten by it: change the template or the spec. */

/* Few queries against many keys. One block of 4 warps takes 8 rows, (query, query head) pairs of one key head, and walks over a
 * part of the keys in steps of 256. K and V pass by once, so what counts is how many bytes are on their way: 3 tiles of 32768 bytes
 * a block.
 *
 * Products are the transposed ones, keys or columns of V by rows: S^T = K Q^T and O^T = V^T P^T. Rows are then the narrow side of mma, 8,
 * and no part of a product is idle when a group has 8 query heads. Of a step's scores each warp makes those of 64 keys, of O^T
 * 16 columns of V: warps exchange maxima and weights, never parts of O.
 *
 * Every result is folded in an order that depends on the row's keys alone (lib/device/decode.h). Shapes that were tried and lost, with
 * numbers: bench/results/decode_notes.md. */
#include "lib/device/decode.h"
#include "lib/device/lengths.h"
#include "lib/device/score.h"
#include "lib/device/steps.h"

enum {
    HEAD_DIM = 64,
    DIM_PADDED = 64, /* up to a whole fragment, with zeros */
    TILE_M = 8,         /* rows of a block */
    TILE_N = 256,         /* keys of a step */
    CHUNK_STEPS = 4,
    SPAN_CHUNKS = 8,
    WARPS = 4,
    THREADS = 32 * WARPS,
    ROW_TILES = TILE_M / 8,
    KEY_TILES = TILE_N / (16 * WARPS), /* fragments of 16 keys whose scores a warp makes */
    WARP_KEYS = 16 * KEY_TILES,
    DIM_TILES = DIM_PADDED / 16,
    DIM_MINE = (DIM_TILES + WARPS - 1) / WARPS, /* fragments of 16 columns that a warp sums: WARPS apart */
    EXPONENT = 0x7f800000, /* all ones in NaN and infinity: see finite_part */
    BYTES = 2, /* of an element */
    K_STEPS = DIM_PADDED / 16,
    CHUNKS = DIM_PADDED * BYTES / 16,
    ROW_CHUNKS = HEAD_DIM * BYTES / 16,
    PAGE_CHUNKS = 8,
    PAGES = CHUNKS / PAGE_CHUNKS,
    STAGES = 2, /* of K and of V */
    Q_BYTES = TILE_M * DIM_PADDED * BYTES,
    K_BYTES = TILE_N * DIM_PADDED * BYTES,
    P_BYTES = TILE_M * TILE_N * BYTES,
    ROWS_BYTES = WARPS * TILE_M * 4, /* a number of each row from each warp */
    Q_TILES = STAGES + 1,            /* K goes ahead by STAGES steps, and so by as many items */
    COPY_ROWS = THREADS / PAGE_CHUNKS, /* that all threads copy at once, and how often they do so for a step: */
    COPIES = TILE_N / COPY_ROWS,
    ROW_FLOATS = 2 * WARPS, /* of a row in the workspace: its maximum, from WARPS on the sums of the warps */
    SHARED_BYTES = 2 * STAGES * K_BYTES + Q_TILES * Q_BYTES + P_BYTES + 2 * ROWS_BYTES,
    SPAN_KEYS = CHUNK_STEPS * SPAN_CHUNKS * TILE_N,
    MERGE_WARPS = SPAN_CHUNKS,
    MERGE_BYTES = MERGE_WARPS * 32 * 16,
};

/* Fragments of S^T and O^T: registers 0, 1 belong to key or column lane / 4 and registers 2, 3 to lane / 4 + 8 (`half`); registers 0, 2 to
 * row 2 (lane % 4) of the fragment's 8 and 1, 3 to the row after it (`odd`). */
typedef float scores_t[KEY_TILES][ROW_TILES][4];
typedef float rows_t[ROW_TILES][2];
typedef float output_t[DIM_MINE][ROW_TILES][4];

/* The keys that each row of this lane sees: from begin on, up to end. */
struct sight {
    int32_t end[ROW_TILES][2];
};

/* Whether a row sees any of `keys` keys from first_key on. */
GLINT_DEVICE bool sees(const struct sight &sight, const int rt, const int odd, int32_t first_key, int32_t keys)
{
    return first_key < sight.end[rt][odd];
}

/* Whether it sees any at all. */
GLINT_DEVICE bool sees_some(const struct sight &sight, const int rt, const int odd)
{
    return sight.end[rt][odd] > 0;
}

/* 2^(x log2(e)). Scores are in natural units as long as they may be large: times log2(e) a logit of 3e38 would be infinite. */
GLINT_DEVICE float exponential(float x)
{
    return ex2(x * 1.44269504088896341f);
}

/* What is known of rows from some keys: the greatest score, and relative to it the sum of weights times V and that of the
 * weights, of which each warp has its own keys' part. */
struct result {
    rows_t maximum, sum;
    output_t o;
};

GLINT_DEVICE void begin_result(struct result &r)
{
#pragma unroll
    for (int rt = 0; rt < ROW_TILES; ++rt) {
        r.maximum[rt][0] = r.maximum[rt][1] = -GLINT_INFINITY;
        r.sum[rt][0] = r.sum[rt][1] = 0.0f;
#pragma unroll
        for (int dt = 0; dt < DIM_MINE; ++dt)
            r.o[dt][rt][0] = r.o[dt][rt][1] = r.o[dt][rt][2] = r.o[dt][rt][3] = 0.0f;
    }
}

/* The maximum of a row over more keys goes into that so far; by what sums and O so far and theirs are multiplied. */
GLINT_DEVICE void fold_maximum(float &maximum, float more, float &keep, float &add)
{
    const float now = fmaxf(maximum, more), finite = now == -GLINT_INFINITY ? 0.0f : now;

    keep = exponential(maximum - finite);
    add = exponential(more - finite);
    maximum = now;
}

GLINT_DEVICE float fold_number(float x, float more, float keep, float add)
{
    return fmaf(keep, x, add * more);
}

/* Folds what is known of keys from first_key on into what is known of those before. Rows that see none of them stay as they are, to the bit. */
GLINT_DEVICE void fold(struct result &r, const struct result &more, int32_t first_key, int32_t keys, const struct sight &sight)
{
#pragma unroll
    for (int rt = 0; rt < ROW_TILES; ++rt)
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
            float keep, add;

            if (!sees(sight, rt, odd, first_key, keys))
                continue;
            fold_maximum(r.maximum[rt][odd], more.maximum[rt][odd], keep, add);
            r.sum[rt][odd] = fold_number(r.sum[rt][odd], more.sum[rt][odd], keep, add);
#pragma unroll
            for (int dt = 0; dt < DIM_MINE; ++dt)
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    r.o[dt][rt][2 * half + odd] = fold_number(r.o[dt][rt][2 * half + odd], more.o[dt][rt][2 * half + odd], keep, add);
        }
}

/* ---- where a block works ------------------------------------------------------------------------------------------------ */

/* A tile of rows: (batch, key head, row tile). */
struct tile {
    int32_t index, batch, head_kv, row0; /* row0: its first row */
};

GLINT_DEVICE struct tile find_tile(const struct glint_decode_params *p, int32_t batch, int32_t head_kv, int32_t row_tile)
{
    struct tile t;

    t.index = (batch * p->shape.heads_kv + head_kv) * p->row_tiles + row_tile;
    t.batch = batch;
    t.head_kv = head_kv;
    t.row0 = row_tile * TILE_M;
    return t;
}

/* A sequence, and how many rows a key head has of it. */
struct sequence_rows : sequence {
    int32_t rows;
};

GLINT_DEVICE struct sequence_rows find_sequence(const struct glint_decode_params *p, int32_t batch)
{
    struct sequence_rows own;

    own.seqlen_q = max(0, min(given_length(p->seqlens_q, batch, p->shape.seqlen_q), p->shape.seqlen_q));
    own.seqlen_k = max(0, min(given_length(p->seqlens_k, batch, p->shape.seqlen_k), p->shape.seqlen_k));
    own.rows = own.seqlen_q * p->shape.group;
    find_sides(own, *p);
    return own;
}

/* Lowers the word for a fault to the first sequence with a length out of bounds. One block calls it. */
GLINT_DEVICE void note_faults(const struct glint_decode_params *p)
{
    const uint32_t bound_q = (uint32_t)p->shape.seqlen_q, bound_k = (uint32_t)p->shape.seqlen_k;

    for (int32_t batch = (int32_t)thread_index(); batch < p->shape.batch; batch += THREADS)
        if ((uint32_t)given_length(p->seqlens_q, batch, (int32_t)bound_q) > bound_q ||
            (uint32_t)given_length(p->seqlens_k, batch, (int32_t)bound_k) > bound_k)
            atomicMin(p->fault, (uint32_t)batch);
}

/* The end of the keys that a row of a sequence sees, ... */
GLINT_DEVICE int32_t end_of_row(const struct glint_decode_params *p, int32_t row, const struct sequence_rows &own)
{
    return max(0, min(own.seqlen_k, row / p->shape.group + own.right + 1));
}

/* Steps that hold all keys that some row of the tile sees: from the first of all up to the last. */
GLINT_DEVICE int32_t end_of_tile(const struct glint_decode_params *p, const struct tile *t, const struct sequence_rows &own)
{
    return t->row0 < own.rows ? (end_of_row(p, min(own.rows, t->row0 + TILE_M) - 1, own) + TILE_N - 1) / TILE_N : 0;
}

/* Steps of an entry of the workspace, and how many entries are folded before the next level. */
GLINT_DEVICE int32_t steps_of_entry(const struct glint_decode_params *p)
{
    return p->level == GLINT_DECODE_STEP ? 1 : p->level == GLINT_DECODE_CHUNK ? CHUNK_STEPS : CHUNK_STEPS * SPAN_CHUNKS;
}

GLINT_DEVICE int32_t entries_of_group(const struct glint_decode_params *p)
{
    return p->level == GLINT_DECODE_STEP ? CHUNK_STEPS : p->level == GLINT_DECODE_CHUNK ? SPAN_CHUNKS : 1;
}

/* Row `row` of a tensor of queries. */
GLINT_DEVICE char *query_row(const struct glint_decode_params *p, const struct glint_gpu_view *view, const struct tile *t, int32_t row)
{
    const int32_t query = row / p->shape.group;

    return view_row(view, t->batch, t->head_kv * p->shape.group + row - query * p->shape.group, query, BYTES);
}

/* ---- results in the workspace ------------------------------------------------------------------------------------------- */

/* A result's O lies as fragments, [row tile][column tile][lane % 4][lane / 4][register], so that a warp's stores are whole lines of those
 * rows that exist. */
GLINT_DEVICE float *partial_o_at(const struct glint_decode_params *p, int32_t tile, int32_t entry, int32_t rt, int32_t dt)
{
    return p->partial_o + ((((int64_t)tile * p->entries + entry) * ROW_TILES + rt) * DIM_TILES + dt) * 128;
}

GLINT_DEVICE float *partial_row_at(const struct glint_decode_params *p, int32_t tile, int32_t entry, int32_t row)
{
    return p->partial_rows + (((int64_t)tile * p->entries + entry) * TILE_M + row) * ROW_FLOATS;
}

GLINT_DEVICE void store_partial(const struct glint_decode_params *p, const struct tile *t, int32_t entry, const struct result &r,
                                uint32_t warp)
{
    const uint32_t lane = lane_index();

#pragma unroll
    for (int rt = 0; rt < ROW_TILES; ++rt) {
        const int32_t row = rt * 8 + 2 * (int32_t)(lane & 3);

        if (t->row0 + row < p->rows) {
#pragma unroll
            for (int dt = 0; dt < DIM_MINE; ++dt) {
                const uint32_t v[4] = {bits_of(r.o[dt][rt][0]), bits_of(r.o[dt][rt][1]), bits_of(r.o[dt][rt][2]), bits_of(r.o[dt][rt][3])};

                if (true)
                    st_global_u32x4(partial_o_at(p, t->index, entry, rt, dt * WARPS + (int32_t)warp) + ((lane & 3) * 8 + (lane >> 2)) * 4, v);
            }
            if (lane < 4) {
                float *const at = partial_row_at(p, t->index, entry, row);

                st_global_f32(at + WARPS + warp, r.sum[rt][0]);
                st_global_f32(at + ROW_FLOATS + WARPS + warp, r.sum[rt][1]);
                if (warp == 0) {
                    st_global_f32(at, r.maximum[rt][0]);
                    st_global_f32(at + ROW_FLOATS, r.maximum[rt][1]);
                }
            }
        }
    }
}

/* ---- O and LSE ---------------------------------------------------------------------------------------------------------- */

/* What a row ends with: the factor of its O, and its LSE. */
struct ending {
    float factor, lse;
};

/* The logit of a row's sink; -inf where there is none. */
GLINT_DEVICE float find_sink(const struct glint_decode_params *p, const struct tile *t, int32_t row)
{
    return p->sinks ? ld_global_f32(p->sinks + t->head_kv * p->shape.group + row % p->shape.group)
                    : -GLINT_INFINITY;
}

/* A sink is one more score, of a key whose V is zero. A sum of zero is that of a row that sees no key, whose O is 0, or whose scores are all -inf:
 * its O, 0 / 0, is NaN. */
GLINT_DEVICE struct ending end_row(float maximum, float sum, float sink, bool sees)
{
    struct ending e;
    float keep = 1.0f;

    if (sink != -GLINT_INFINITY) {
        const float now = fmaxf(maximum, sink);

        keep = exponential(maximum - now);
        sum = fmaf(keep, sum, exponential(sink - now));
        maximum = now;
    }
    e.factor = sum == 0.0f && !sees ? 0.0f : keep / sum;
    e.lse = sum == 0.0f ? -GLINT_INFINITY : fmaf(lg2(sum), 0.693147180559945309f, maximum);
    return e;
}

GLINT_DEVICE void store_lse(const struct glint_decode_params *p, const struct tile *t, int32_t row, float lse)
{
    const int32_t query = row / p->shape.group, head = t->head_kv * p->shape.group + row - query * p->shape.group;

    st_global_f32(p->lse + ((int64_t)t->batch * p->shape.heads_q + head) * p->shape.seqlen_q + query, lse);
}

/* What a lane of a merge has: one number of row lane % 2 in column lane / 4 + 8 (lane / 2 % 2) of 16, and warp lane / 2 % 4's sum of that row. */
struct merged {
    float maximum, sum, o;
};

GLINT_DEVICE void begin_merged(struct merged &m)
{
    m.maximum = -GLINT_INFINITY;
    m.sum = m.o = 0.0f;
}

/* Without branches: of eight folds after one another only the maxima are a chain. */
GLINT_DEVICE void fold_merged(struct merged &m, const struct merged &more, bool seen)
{
    float maximum = m.maximum, keep, add;

    fold_maximum(maximum, more.maximum, keep, add);
    m.maximum = seen ? maximum : m.maximum;
    m.sum = seen ? fold_number(m.sum, more.sum, keep, add) : m.sum;
    m.o = seen ? fold_number(m.o, more.o, keep, add) : m.o;
}

GLINT_DEVICE void store_merged(const struct glint_decode_params *p, const struct tile *t, int32_t rows, int32_t row0, int32_t dt,
                               const struct merged &m, float sink, bool sees)
{
    const uint32_t lane = lane_index();
    const bool upper = (lane >> 1 & 2) != 0, odd = (lane >> 1 & 1) != 0;
    const float next = shfl_xor(m.sum, 2), far = shfl_xor(m.sum, 4), last = shfl_xor(m.sum, 6);
    const float low[2] = {odd ? next : m.sum, odd ? m.sum : next}, high[2] = {odd ? last : far, odd ? far : last};
    const float sum = upper ? high[0] + high[1] + low[0] + low[1] : low[0] + low[1] + high[0] + high[1]; /* warps 0, 1, 2, 3 */
    const int32_t row = row0 + (int32_t)(lane & 1);
    const struct ending end = end_row(m.maximum, sum, sink, sees);
    const float mine = m.o * end.factor, other = shfl_xor(mine, 4);
    const int32_t column = dt * 16 + (int32_t)(lane >> 1 & 1) * 8 + (int32_t)(lane >> 2);

    if (row < rows) {
        if ((lane >> 2 & 1) == 0 && column < HEAD_DIM)
            st_global_u32(query_row(p, &p->o, t, row) + column * BYTES, pack_bf16(mine, other));
        if (dt == 0 && lane < 2)
            store_lse(p, t, row, end.lse);
    }
}

GLINT_DEVICE void store_output(const struct glint_decode_params *p, const struct tile *t, int32_t rows, const struct result &r, const rows_t sinks,
                               const struct sight &sight, uint32_t warp)
{
    const uint32_t lane = lane_index();
    const bool odd = (lane >> 2 & 1) != 0; /* column: of two lanes with neighbouring columns, each stores both of one row */

#pragma unroll
    for (int rt = 0; rt < ROW_TILES; ++rt) {
        const int32_t row = t->row0 + rt * 8 + 2 * (int32_t)(lane & 3);
        const struct ending end[2] = {end_row(r.maximum[rt][0], r.sum[rt][0], sinks[rt][0], sees_some(sight, rt, 0)),
                                      end_row(r.maximum[rt][1], r.sum[rt][1], sinks[rt][1], sees_some(sight, rt, 1))};
        const bool mine = row + (int32_t)odd < rows;
        char *const to = query_row(p, &p->o, t, mine ? row + (int32_t)odd : t->row0);

#pragma unroll
        for (int dt = 0; dt < DIM_MINE; ++dt)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float even_row = r.o[dt][rt][2 * half] * end[0].factor, odd_row = r.o[dt][rt][2 * half + 1] * end[1].factor;
                const float other = shfl_xor(odd ? even_row : odd_row, 4);
                const int32_t column = (dt * WARPS + (int32_t)warp) * 16 + half * 8 + (int32_t)(lane >> 2 & 6);

                if (mine && column < HEAD_DIM)
                    st_global_u32(to + column * BYTES, odd ? pack_bf16(other, odd_row) : pack_bf16(even_row, other));
            }
        if (warp == 0 && lane < 4) {
            if (row < rows)
                store_lse(p, t, row, end[0].lse);
            if (row + 1 < rows)
                store_lse(p, t, row + 1, end[1].lse);
        }
    }
}

/* ---- a step ------------------------------------------------------------------------------------------------------------- */

/* A place in the walk of a block: it takes every grid-th item from its own index on, an item being a part of the keys of a tile of rows, and
 * passes over its steps. Neighbouring items are tiles of rows of one key head, then key heads: what they read lies side by side. */
struct cursor {
    struct tile tile;
    struct sequence_rows own;
    int32_t own_of; /* which sequence that is: it is read once as long as tiles are of one sequence */
    int32_t step, end;
    uint32_t item;
};

/* Where the item is, ... */
GLINT_DEVICE void locate_item(const struct glint_decode_params *p, struct cursor &c)
{
    const uint32_t by_head = c.item / (uint32_t)p->row_tiles, by_part = by_head / (uint32_t)p->shape.heads_kv;
    const uint32_t batch = by_part / (uint32_t)p->parts, part = by_part - batch * (uint32_t)p->parts;

    c.step = (int32_t)part * p->range;
    c.tile = find_tile(p, (int32_t)batch, (int32_t)(by_head - by_part * (uint32_t)p->shape.heads_kv),
                       (int32_t)(c.item - by_head * (uint32_t)p->row_tiles));
}

/* ... and how long, which may take a look into memory. */
GLINT_DEVICE void measure_item(const struct glint_decode_params *p, struct cursor &c)
{
    if (c.own_of != c.tile.batch) {
        c.own = find_sequence(p, c.tile.batch);
        c.own_of = c.tile.batch;
    }
    c.end = end_of_tile(p, &c.tile, c.own);
    if (p->parts > 1) {
        c.end = min(c.end, c.step + p->range);
    }
}

/* To the first step of the walk at or after the cursor, if there is one. */
GLINT_DEVICE bool find_step(const struct glint_decode_params *p, struct cursor &c)
{
    while (c.step >= c.end && c.item < p->items) {
        c.item += p->blocks;
        if (c.item < p->items) {
            locate_item(p, c);
            measure_item(p, c);
        }
    }
    return c.item < p->items;
}

/* Rows of Q, in the tile's order; zeros where there are none. */
GLINT_DEVICE void copy_queries(const struct glint_decode_params *p, const struct tile *t, int32_t rows, uint32_t q_tile)
{
#pragma unroll 1
    for (uint32_t i = thread_index(); i < TILE_M * CHUNKS; i += THREADS) {
        const uint32_t row = i / CHUNKS, chunk = i - row * CHUNKS;
        const bool inside = t->row0 + (int32_t)row < rows && (ROW_CHUNKS == CHUNKS || chunk < ROW_CHUNKS);

        cp_async_16(q_tile + tile_offset(row, chunk, TILE_M, PAGE_CHUNKS),
                    inside ? query_row(p, &p->q, t, t->row0 + (int32_t)row) + chunk * 16 : (const char *)p->q.address, inside);
    }
}

/* Where this thread's part of the next step's K and V comes from, and where it goes to. */
struct copier {
    struct cursor at;
    const char *k_from, *v_from;
    uint32_t stage;
    int32_t valid; /* rows of the tile from this thread's first on: others become zeros; 0 or less when there is no more step */
    bool first;    /* of an item's steps */
};

GLINT_DEVICE void begin_copies_of_item(const struct glint_decode_params *p, struct copier &c)
{
    const struct tile &t = c.at.tile;

    c.k_from = copy_from(view_row(&p->k, t.batch, t.head_kv, c.at.step * TILE_N, BYTES), p->k.row * BYTES, PAGE_CHUNKS);
    c.v_from = copy_from(view_row(&p->v, t.batch, t.head_kv, c.at.step * TILE_N, BYTES), p->v.row * BYTES, PAGE_CHUNKS);
    c.first = true;
}

/* Begins the copy of this thread's part of one tile. */
GLINT_DEVICE void copy_part_of_tile(const struct glint_decode_params *p, const struct glint_gpu_view *view, const struct copier &c,
                                    const char *from, uint32_t tile)
{
    const uint32_t to = tile + tile_offset(thread_index() / PAGE_CHUNKS, thread_index() % PAGE_CHUNKS, TILE_N, PAGE_CHUNKS);

#pragma unroll
    for (int i = 0; i < COPIES; ++i) {
#pragma unroll
        for (int page = 0; page < PAGES; ++page)
            cp_async_16_once(to + (page * TILE_N + i * COPY_ROWS) * (PAGE_CHUNKS * 16), from + page * (PAGE_CHUNKS * 16),
                             i * COPY_ROWS < c.valid && (ROW_CHUNKS == CHUNKS || page * PAGE_CHUNKS + thread_index() % PAGE_CHUNKS < ROW_CHUNKS));
        from += COPY_ROWS * view->row * BYTES;
    }
}

/* Begins the copies of the walk's next K, a group of its own even when there is none. of_item() begins what else there is to copy with an item's
 * first step. */
template <class of_item_t>
GLINT_DEVICE void copy_keys(const struct glint_decode_params *p, struct copier &c, uint32_t k_tiles, of_item_t of_item)
{
    if (c.at.step >= c.at.end && find_step(p, c.at))
        begin_copies_of_item(p, c);
    c.valid = c.at.step < c.at.end ? c.at.own.seqlen_k - c.at.step * TILE_N - (int32_t)(thread_index() / PAGE_CHUNKS) : -TILE_N;
    if (c.at.step < c.at.end) {
        copy_part_of_tile(p, &p->k, c, c.k_from, k_tiles + c.stage);
        if (c.first)
            of_item();
        c.first = false;
    }
    cp_async_commit();
}

/* The same of the V of that step. */
GLINT_DEVICE void copy_values(const struct glint_decode_params *p, struct copier &c, uint32_t v_tiles)
{
    if (c.at.step < c.at.end)
        copy_part_of_tile(p, &p->v, c, c.v_from, v_tiles + c.stage);
    cp_async_commit();
    c.stage = c.stage == (STAGES - 1) * K_BYTES ? 0 : c.stage + K_BYTES;
    ++c.at.step;
    c.k_from += TILE_N * p->k.row * BYTES;
    c.v_from += TILE_N * p->v.row * BYTES;
}

/* Operands B of Q^T at k step kk. */
GLINT_DEVICE void load_queries(uint32_t q[ROW_TILES][2], uint32_t q_tile, const int kk)
{
    const uint32_t lane = lane_index();

    q[0][0] = ld_shared_u32(q_tile + tile_offset(lane >> 2, 2 * kk, TILE_M, PAGE_CHUNKS) + (lane & 3) * 4);
    q[0][1] = ld_shared_u32(q_tile + tile_offset(lane >> 2, 2 * kk + 1, TILE_M, PAGE_CHUNKS) + (lane & 3) * 4);
}

/* S^T = scale K Q^T of this warp's keys. Even and odd k steps are summed apart: two chains of products are twice as fast.
 * The scaled score is rounded once, to the number that maxima are made of too. begin_copies() comes when all of K is on its way into
 * registers: products do not wait behind copies. */
template <class begin_copies_t>
GLINT_DEVICE void make_scores(scores_t s, const uint32_t (&q_kept)[K_STEPS][ROW_TILES][2], uint32_t q_tile, uint32_t k_lane, float scale,
                              begin_copies_t begin_copies)
{
    float sums[2][KEY_TILES][ROW_TILES][4];

#pragma unroll
    for (int i = 0; i < 2 * KEY_TILES * ROW_TILES * 4; ++i)
        sums[i / (KEY_TILES * ROW_TILES * 4)][i / (ROW_TILES * 4) % KEY_TILES][i / 4 % ROW_TILES][i % 4] = 0.0f;
#pragma unroll
    for (int kk = 0; kk < K_STEPS; ++kk) {
#pragma unroll
        for (int kt = 0; kt < KEY_TILES; ++kt) {
            uint32_t k[4];

            ldmatrix_x4(k, tile_move(k_lane, kt * 16, kk * 2, TILE_N, PAGE_CHUNKS));
#pragma unroll
            for (int rt = 0; rt < ROW_TILES; ++rt)
                mma_m16n8k16_bf16(sums[kk & 1][kt][rt], k, q_kept[kk][rt][0], q_kept[kk][rt][1]);
        }
    }
    begin_copies();
#pragma unroll
    for (int kt = 0; kt < KEY_TILES; ++kt)
#pragma unroll
        for (int rt = 0; rt < ROW_TILES; ++rt)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                s[kt][rt][i] = fmaf(sums[0][kt][rt][i] + sums[1][kt][rt][i], scale, 0.0f);
}

/* Hides the keys that rows do not see; first_key is the first of this lane. */
GLINT_DEVICE void hide_scores(scores_t s, int32_t first_key, const struct sight &sight)
{
#pragma unroll
    for (int kt = 0; kt < KEY_TILES; ++kt)
#pragma unroll
        for (int rt = 0; rt < ROW_TILES; ++rt)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                s[kt][rt][i] = sees(sight, rt, i & 1, first_key + kt * 16 + (i >> 1) * 8, 1) ? s[kt][rt][i] : -GLINT_INFINITY;
}

/* A number of each row from this warp, for all warps: `numbers` is [warp][row]. All lanes with a row have the same. */
GLINT_DEVICE void give_rows(uint32_t numbers, const rows_t mine, uint32_t warp)
{
    if (lane_index() < 4)
#pragma unroll
        for (int rt = 0; rt < ROW_TILES; ++rt)
            st_shared_f32x2(numbers + (warp * TILE_M + rt * 8 + lane_index() * 2) * 4, mine[rt][0], mine[rt][1]);
}

/* From the lanes of a warp that have parts of a row. */
template <class of_two_t> GLINT_DEVICE void join_lanes(rows_t rows, of_two_t of_two)
{
#pragma unroll
    for (int rt = 0; rt < ROW_TILES; ++rt)
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
            rows[rt][odd] = of_two(rows[rt][odd], shfl_xor(rows[rt][odd], 4));
            rows[rt][odd] = of_two(rows[rt][odd], shfl_xor(rows[rt][odd], 8));
            rows[rt][odd] = of_two(rows[rt][odd], shfl_xor(rows[rt][odd], 16));
        }
}

template <class of_two_t>
GLINT_DEVICE void take_rows(rows_t joint, uint32_t numbers, of_two_t of_two)
{
#pragma unroll
    for (int rt = 0; rt < ROW_TILES; ++rt) {
        ld_shared_f32x2(joint[rt], numbers + (rt * 8 + (lane_index() & 3) * 2) * 4);
#pragma unroll
        for (int warp = 1; warp < WARPS; ++warp) {
            float v[2];

            ld_shared_f32x2(v, numbers + (warp * TILE_M + rt * 8 + (lane_index() & 3) * 2) * 4);
            joint[rt][0] = of_two(joint[rt][0], v[0]);
            joint[rt][1] = of_two(joint[rt][1], v[1]);
        }
    }
}

/* P^T = e^(S^T - maximum) to shared memory, [row tile][key][8 rows], and the sums of this lane's keys. */
GLINT_DEVICE void make_weights(rows_t sums, const scores_t s, const rows_t maximum, uint32_t p_tile, uint32_t warp)
{
    const uint32_t at = p_tile + (warp * WARP_KEYS + (lane_index() >> 2)) * 16 + (lane_index() & 3) * 4;

#pragma unroll
    for (int rt = 0; rt < ROW_TILES; ++rt) {
        const float shift[2] = {maximum[rt][0] == -GLINT_INFINITY ? 0.0f : maximum[rt][0],
                                maximum[rt][1] == -GLINT_INFINITY ? 0.0f : maximum[rt][1]};

        sums[rt][0] = sums[rt][1] = 0.0f;
#pragma unroll
        for (int kt = 0; kt < KEY_TILES; ++kt)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float even = exponential(s[kt][rt][2 * half] - shift[0]), odd = exponential(s[kt][rt][2 * half + 1] - shift[1]);

                sums[rt][0] += even;
                sums[rt][1] += odd;
                st_shared_u32(at + (rt * TILE_N + kt * 16 + half * 8) * 16, pack_bf16(even, odd));
            }
    }
}

/* O^T += V^T P^T of this warp's columns; even and odd k steps apart, as for the scores. begin_copies() comes after V's last fragments. */
template <class begin_copies_t>
GLINT_DEVICE void add_values(output_t o, uint32_t p_tile, uint32_t v_lane, uint32_t warp, begin_copies_t begin_copies)
{
    output_t sums;

#pragma unroll
    for (int i = 0; i < DIM_MINE * ROW_TILES * 4; ++i)
        sums[i / (ROW_TILES * 4)][i / 4 % ROW_TILES][i % 4] = 0.0f;
#pragma unroll
    for (int kk = 0; kk < TILE_N / 16; kk += 2) {
        uint32_t p[ROW_TILES][4];

#pragma unroll
        for (int rt = 0; rt < ROW_TILES; ++rt)
            ldmatrix_x4_trans(p[rt], p_tile + (rt * TILE_N + kk * 16 + lane_index()) * 16);
#pragma unroll
        for (int k = 0; k < 2; ++k)
#pragma unroll
            for (int dt = 0; dt < DIM_MINE; ++dt) {
                uint32_t v[4];

                ldmatrix_x4_trans(v, tile_move(v_lane, (kk + k) * 16, 2 * (dt * WARPS + warp), TILE_N, PAGE_CHUNKS));

                const uint32_t a[4] = {v[0], v[2], v[1], v[3]};
#pragma unroll
                for (int rt = 0; rt < ROW_TILES; ++rt)
                    mma_m16n8k16_bf16(k == 0 ? o[dt][rt] : sums[dt][rt], a, p[rt][2 * k], p[rt][2 * k + 1]);
            }
    }
    begin_copies();
#pragma unroll
    for (int i = 0; i < DIM_MINE * ROW_TILES * 4; ++i)
        o[i / (ROW_TILES * 4)][i / 4 % ROW_TILES][i % 4] += sums[i / (ROW_TILES * 4)][i / 4 % ROW_TILES][i % 4];
}

/* V of a step of which some rows do not see all keys: NaN and infinities reach only the rows that see them, and then leave the tile, before it
 * is multiplied by weights of zero. All threads of the block call it. */
GLINT_DEVICE void settle_values(output_t o, uint32_t v_tile, int32_t first_key, const struct sight &sight, uint32_t warp)
{
    const uint32_t lane = lane_index();

#pragma unroll 1
    for (uint32_t key = 0; key < TILE_N; ++key)
#pragma unroll
        for (int dt = 0; dt < DIM_MINE; ++dt)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const uint32_t pair = ld_shared_u32(v_tile + tile_offset(key, 2 * (dt * WARPS + warp) + half, TILE_N, PAGE_CHUNKS) + (lane >> 3) * 4);
                const uint32_t special = pair ^ finite_part(pair, EXPONENT, BYTES);
                const float v = (lane >> 2 & 1) != 0 ? high_bf16(special) : low_bf16(special);

#pragma unroll
                for (int rt = 0; rt < ROW_TILES; ++rt)
#pragma unroll
                    for (int odd = 0; odd < 2; ++odd)
                        if (sees(sight, rt, odd, first_key + (int32_t)key, 1))
                            o[dt][rt][2 * half + odd] += v;
            }
    block_sync();
    clear_special(v_tile, thread_index() / CHUNKS, THREADS / CHUNKS > 0 ? THREADS / CHUNKS : 1, thread_index() % CHUNKS, CHUNKS,
                  thread_index() < THREADS / CHUNKS * CHUNKS ? TILE_N : 0, CHUNKS, PAGE_CHUNKS, EXPONENT, BYTES);
    block_sync();
}

GLINT_KERNEL(THREADS, 1) glint_dec_bf16_d64_causal__sm80_s2_m8n256(GLINT_PARAMS(struct glint_decode_params) p)
{
    const uint32_t lane = lane_index(), warp = warp_index();

    /* Shared memory: STAGES of K, then STAGES of V, Q_TILES of Q, P, maxima, sums. */
    const uint32_t k_tiles = shared_base(), v_tiles = k_tiles + STAGES * K_BYTES, q_tiles = v_tiles + STAGES * K_BYTES;
    const uint32_t p_tile = q_tiles + Q_TILES * Q_BYTES, maxima = p_tile + P_BYTES, sums = maxima + ROWS_BYTES;
    const uint32_t k_lane = k_tiles + lane_offset_a(lane, TILE_N, PAGE_CHUNKS) + warp * (WARP_KEYS * PAGE_CHUNKS * 16);
    const uint32_t v_lane = v_tiles + tile_offset(lane & 15, lane >> 4, TILE_N, PAGE_CHUNKS);
    const float scale = p.shape.softmax_scale;
    struct cursor at;
    struct copier c;
    uint32_t stage = 0, q_to = q_tiles, q_tile = q_tiles;

    auto next_q = [&](uint32_t &tile) { tile = tile == q_tiles + (Q_TILES - 1) * Q_BYTES ? q_tiles : tile + Q_BYTES; };
    auto copy_q = [&]() {
        copy_queries(&p, &c.at.tile, c.at.own.rows, q_to);
        next_q(q_to);
    };
    auto copy_k = [&]() { copy_keys(&p, c, k_tiles, copy_q); };
    auto copy_v = [&]() { copy_values(&p, c, v_tiles); };

    at.item = block_index();
    at.own_of = -1;
    if (p.items > 0)
        locate_item(&p, at);
    admit_successors();
    await_predecessors();
    if (p.fault && block_index() == 0)
        note_faults(&p);
    if (block_index() >= p.items) /* without a row one block looks at the lengths, and does nothing else */
        return;
    measure_item(&p, at);
    c.at = at;
    c.stage = 0;
    begin_copies_of_item(&p, c);
#pragma unroll 1
    for (int i = 1;; ++i) {
        copy_k();
        if (i == STAGES)
            break;
        copy_v();
    }

#pragma unroll 1
    for (;;) {
        /* What each row of this lane sees, and the steps with a key that some row does not see: from cut_from on. */
        struct sight sight;
#pragma unroll
        for (int rt = 0; rt < ROW_TILES; ++rt)
#pragma unroll
            for (int odd = 0; odd < 2; ++odd) {
                const int32_t row = at.tile.row0 + rt * 8 + 2 * (int32_t)(lane & 3) + odd;

                sight.end[rt][odd] = end_of_row(&p, row, at.own);
            }
        const int32_t cut_from = end_of_row(&p, at.tile.row0, at.own) / TILE_N, first = at.step;
        uint32_t q_kept[K_STEPS][ROW_TILES][2];
        struct result chunk, span, row;

        rows_t sinks; /* long before they are used */
#pragma unroll
        for (int rt = 0; rt < ROW_TILES; ++rt)
#pragma unroll
            for (int odd = 0; odd < 2; ++odd)
                sinks[rt][odd] = p.level == GLINT_DECODE_ROW ? find_sink(&p, &at.tile, at.tile.row0 + rt * 8 + 2 * (int32_t)(lane & 3) + odd)
                                                             : -GLINT_INFINITY;

        begin_result(chunk);
        begin_result(span);
        begin_result(row);

#pragma unroll 1
        for (int32_t step = first; step < at.end; ++step) {
            scores_t s;
            rows_t maximum;
            struct result now;

            /* K of this step has arrived, and no warp reads V of the last one any more. */
            cp_async_wait(2 * STAGES - 2);
            block_sync();
            if (step == first) {
#pragma unroll
                for (int kk = 0; kk < K_STEPS; ++kk)
                    load_queries(q_kept[kk], q_tile, kk);
            }
            make_scores(s, q_kept, q_tile, k_lane + stage, scale, copy_v);
            if (step >= cut_from)
                hide_scores(s, step * TILE_N + (int32_t)(warp * WARP_KEYS + (lane >> 2)), sight);
#pragma unroll
            for (int rt = 0; rt < ROW_TILES; ++rt)
#pragma unroll
                for (int odd = 0; odd < 2; ++odd) {
                    maximum[rt][odd] = fmaxf(s[0][rt][odd], s[0][rt][2 + odd]);
#pragma unroll
                    for (int kt = 1; kt < KEY_TILES; ++kt)
                        maximum[rt][odd] = fmaxf(maximum[rt][odd], fmaxf(s[kt][rt][odd], s[kt][rt][2 + odd]));
                }
            join_lanes(maximum, [](float x, float y) { return fmaxf(x, y); });
            give_rows(maxima, maximum, warp);

            /* V of this step has arrived, and no warp reads K of it any more. */
            begin_result(now);
            cp_async_wait(2 * STAGES - 2);
            if (step >= cut_from) {
                if (block_any(find_special(v_tiles + stage, TILE_N, PAGES, PAGE_CHUNKS, THREADS, EXPONENT, BYTES)))
                    settle_values(now.o, v_tiles + stage, step * TILE_N, sight, warp);
            } else
                block_sync();
            take_rows(now.maximum, maxima, [](float x, float y) { return fmaxf(x, y); });
            make_weights(now.sum, s, now.maximum, p_tile, warp);
            block_sync();
            add_values(now.o, p_tile, v_lane + stage, warp, copy_k);
            join_lanes(now.sum, [](float x, float y) { return x + y; });
            stage = stage == (STAGES - 1) * K_BYTES ? 0 : stage + K_BYTES;

            if (p.level == GLINT_DECODE_STEP) {
                store_partial(&p, &at.tile, step, now, warp);
                continue;
            }
            fold(chunk, now, step * TILE_N, TILE_N, sight);
            if ((step + 1) % CHUNK_STEPS != 0 && step + 1 != at.end)
                continue;
            if (p.level == GLINT_DECODE_CHUNK)
                store_partial(&p, &at.tile, step / CHUNK_STEPS, chunk, warp);
            else {
                fold(span, chunk, step / CHUNK_STEPS * (CHUNK_STEPS * TILE_N), CHUNK_STEPS * TILE_N, sight);
                if ((step + 1) % (CHUNK_STEPS * SPAN_CHUNKS) == 0 || step + 1 == at.end) {
                    if (p.level == GLINT_DECODE_SPAN)
                        store_partial(&p, &at.tile, step / (CHUNK_STEPS * SPAN_CHUNKS), span, warp);
                    else
                        fold(row, span, step / (CHUNK_STEPS * SPAN_CHUNKS) * SPAN_KEYS, SPAN_KEYS, sight);
                    begin_result(span);
                }
            }
            begin_result(chunk);
        }
        if (first < at.end)
            next_q(q_tile);
        if (p.level == GLINT_DECODE_ROW) {
            if (first < at.end) {
                give_rows(sums, row.sum, warp);
                block_sync();
                take_rows(row.sum, sums, [](float x, float y) { return x + y; });
            }
            store_output(&p, &at.tile, at.own.rows, row, sinks, sight, warp);
        }
        at.item += p.blocks;
        if (at.item >= p.items)
            break;
        locate_item(&p, at);
        measure_item(&p, at);
    }
    cp_async_wait(0);
}

/* Folds what the blocks of glint_dec_bf16_d64_causal__sm80_s2_m8n256 left in the workspace. A block takes 16 columns of two neighbouring rows, a lane one number; a warp folds
 * the steps of a chunk, the chunks of a span or takes a span, and the first warp folds the results of all. */
GLINT_KERNEL(32 * MERGE_WARPS, 1) glint_dec_bf16_d64_causal__sm80_s2_m8n256_merge(GLINT_PARAMS(struct glint_decode_params) p)
{
    const uint32_t lane = lane_index(), warp = warp_index();
    const uint32_t pairs = (uint32_t)(p.rows + 1) / 2;
    const uint32_t by_pair = block_index() / DIM_TILES, by_head = by_pair / pairs, pair = by_pair - by_head * pairs;
    const int32_t dt = (int32_t)(block_index() - by_pair * DIM_TILES);
    const int32_t batch = (int32_t)(by_head / (uint32_t)p.shape.heads_kv);
    const int32_t first_row = (int32_t)(2 * pair) % TILE_M, rt = first_row / 8;
    const struct tile tile =
        find_tile(&p, batch, (int32_t)(by_head - (uint32_t)batch * (uint32_t)p.shape.heads_kv), (int32_t)(2 * pair) / TILE_M);
    const uint32_t numbers = shared_base() + lane * 16; /* [warp][lane]: struct merged */
    const int64_t o_step = TILE_M * DIM_PADDED, row_step = TILE_M * ROW_FLOATS;
    const float *const o_at = partial_o_at(&p, tile.index, 0, rt, dt) + (first_row % 8 / 2) * 32 + lane;
    const float *const row_at = partial_row_at(&p, tile.index, 0, first_row + (int32_t)(lane & 1));
    const float *const sum_at = row_at + WARPS + (lane >> 1 & 3);
    const bool by_step = p.level == GLINT_DECODE_STEP;
    const int32_t entry_keys = steps_of_entry(&p) * TILE_N, group = entries_of_group(&p);
    struct merged row; /* so far: the first warp */

    admit_successors();
    await_predecessors();

    const float sink = find_sink(&p, &tile, tile.row0 + first_row + (int32_t)(lane & 1));
    const struct sequence_rows own = find_sequence(&p, tile.batch);
    if (tile.row0 + first_row >= own.rows)
        return;
    const int32_t mine_row = min(own.rows - 1, tile.row0 + first_row + (int32_t)(lane & 1)), next = min(own.rows - 1, tile.row0 + first_row + 1);
    const int32_t end = end_of_row(&p, mine_row, own), most = end_of_row(&p, next, own); /* most: of the two rows */
    auto seen = [&](int32_t entry, int32_t entries) {
        return entry * entry_keys < end;
    };

    begin_merged(row);
#pragma unroll 1
    for (int32_t first = 0; first * entry_keys < most; first += MERGE_WARPS * group) {
        const int32_t mine = first + (int32_t)warp * group;
        struct merged part, more[SPAN_CHUNKS];

#pragma unroll
        for (int i = 0; i < SPAN_CHUNKS; ++i) {
            begin_merged(more[i]);
            if (i < group && seen(mine + i, 1)) {
                more[i].maximum = ld_global_f32(row_at + (mine + i) * row_step);
                more[i].sum = ld_global_f32(sum_at + (mine + i) * row_step);
                more[i].o = ld_global_f32(o_at + (mine + i) * o_step);
            }
        }
        begin_merged(part);
#pragma unroll
        for (int i = 0; i < SPAN_CHUNKS; ++i)
            fold_merged(part, more[i], i < group && seen(mine + i, 1));

        const uint32_t v[4] = {bits_of(part.maximum), bits_of(part.sum), bits_of(part.o), 0};

        st_shared_u32x4(numbers + warp * (32 * 16), v);
        block_sync();
        if (warp == 0) {
            struct merged sum = row;

            if (by_step)
                begin_merged(sum);
#pragma unroll
            for (int i = 0; i < MERGE_WARPS; ++i) {
                uint32_t w[4];

                ld_shared_u32x4(w, numbers + i * (32 * 16));

                const struct merged one = {float_of(w[0]), float_of(w[1]), float_of(w[2])};

                fold_merged(sum, one, seen(first + i * group, group));
            }
            if (by_step)
                fold_merged(row, sum, seen(first, MERGE_WARPS * group));
            else
                row = sum;
        }
        block_sync();
    }
    if (warp == 0)
        store_merged(&p, &tile, own.rows, tile.row0 + first_row, dt, row, sink, end > 0);
}
