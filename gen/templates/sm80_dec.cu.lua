$ local mma = "mma_m16n8k16_" .. dtype
$ local row_tiles = tile_m // 8
$ local large = padded_dim > 256 -- the sums of O take so many registers that Q stays in shared memory, and no step's are apart
$ local q_kept = padded_dim // 8 * row_tiles <= 64 and not large
$ local dim_tiles = padded_dim // 16
$ local uneven = dim_tiles % warps ~= 0
$ local masked, band = mask ~= "none", mask == "band"
$ assert(warps == 4, "a merge's lanes have the sums of 4 warps")
$ local kv = narrow and "KV_BYTES" or "BYTES" -- bytes of an element of K and V
$ local of_q = narrow and "Q_" or ""         -- chunks of a row of Q, where they are not those of K
$ local with_scales = narrow and "const struct glint_decode_scales *scales, " or "" -- a parameter of functions that copy
$ local scales_at = narrow and "uint32_t scales_to, " or ""
$ local with_nan = kv_dtype == "e4m3"
$ local chains = narrow and tile_n // (16 * warps) * row_tiles >= 2 and 1 or 2 -- of products in a score: with as many accumulators as hide a product's time, one
/* Few queries against many keys. One block of ${warps} warps takes ${tile_m} rows, (query, query head) pairs of one key head, and walks over a
 * part of the keys in steps of ${tile_n}. K and V pass by once, so what counts is how many bytes are on their way: ${2 * stages - 1} tiles of ${tile_n * padded_dim * (narrow and 1 or 2)} bytes
 * a block.
 *
 * Products are the transposed ones, keys or columns of V by rows: S^T = K Q^T and O^T = V^T P^T. Rows are then the narrow side of mma, 8,
 * and no part of a product is idle when a group has 8 query heads. Of a step's scores each warp makes those of ${tile_n // warps} keys, of O^T
 * ${uneven and "up to " or ""}${(dim_tiles + warps - 1) // warps * 16} columns of V: warps exchange maxima and weights, never parts of O.
 *
 * Every result is folded in an order that depends on the row's keys alone (lib/device/decode.h). Shapes that were tried and lost, with
 * numbers: bench/results/decode_notes.md. */
#include "lib/device/decode.h"
$ if device_ragged then
#include "lib/device/ragged.h"
$ else
#include "lib/device/lengths.h"
$ end
#include "lib/device/score.h"
#include "lib/device/steps.h"

enum {
    HEAD_DIM = ${head_dim},
    DIM_PADDED = ${padded_dim}, /* up to a whole fragment, with zeros */
    TILE_M = ${tile_m},         /* rows of a block */
    TILE_N = ${tile_n},         /* keys of a step */
    CHUNK_STEPS = ${chunk_steps},
    SPAN_CHUNKS = ${span_chunks},
    WARPS = ${warps},
    THREADS = 32 * WARPS,
    ROW_TILES = TILE_M / 8,
    KEY_TILES = TILE_N / (16 * WARPS), /* fragments of 16 keys whose scores a warp makes */
    WARP_KEYS = 16 * KEY_TILES,
    DIM_TILES = DIM_PADDED / 16,
    DIM_MINE = (DIM_TILES + WARPS - 1) / WARPS, /* fragments of 16 columns that a warp sums: WARPS apart */
    EXPONENT = ${dtype == "f16" and "0x7c000000" or "0x7f800000"}, /* all ones in NaN and infinity: see finite_part */
    BYTES = 2, /* of an element */
$ if narrow then
    KV_BYTES = 1,
    Q_CHUNKS = DIM_PADDED * BYTES / 16,
    Q_ROW_CHUNKS = HEAD_DIM * BYTES / 16,
    Q_PAGE_CHUNKS = ${q_page_chunks},
    SCALE_BYTES = TILE_N * 4, /* of a step's keys, a float each */
$ end
    K_STEPS = DIM_PADDED / 16,
    CHUNKS = DIM_PADDED * ${kv} / 16,
    ROW_CHUNKS = HEAD_DIM * ${kv} / 16,
    PAGE_CHUNKS = ${page_chunks},
    PAGES = CHUNKS / PAGE_CHUNKS,
    STAGES = ${stages}, /* of K and of V */
    Q_BYTES = TILE_M * DIM_PADDED * BYTES,
    K_BYTES = TILE_N * DIM_PADDED * ${kv},
    P_BYTES = TILE_M * TILE_N * BYTES,
    ROWS_BYTES = WARPS * TILE_M * 4, /* a number of each row from each warp */
    Q_TILES = STAGES + 1,            /* K goes ahead by STAGES steps, and so by as many items */
    COPY_ROWS = THREADS / PAGE_CHUNKS, /* that all threads copy at once, and how often they do so for a step: */
    COPIES = TILE_N / COPY_ROWS,
    ROW_FLOATS = 2 * WARPS, /* of a row in the workspace: its maximum, from WARPS on the sums of the warps */
    SHARED_BYTES = 2 * STAGES * K_BYTES + Q_TILES * Q_BYTES + P_BYTES + 2 * ROWS_BYTES${narrow and " + 2 * STAGES * SCALE_BYTES" or ""},
    SPAN_KEYS = CHUNK_STEPS * SPAN_CHUNKS * TILE_N,
    MERGE_WARPS = SPAN_CHUNKS,
    MERGE_BYTES = MERGE_WARPS * 32 * 16,
};

$ if narrow then
/* Fragments of S^T: registers 0, 1 belong to key lane / 4 and registers 2, 3 to lane / 4 + 8 (`half`); of O^T to columns 2 (lane / 4) and
 * 2 (lane / 4) + 1, as V comes in pairs of columns; registers 0, 2 to row 2 (lane % 4) of the fragment's 8 and 1, 3 to the row after it (`odd`). */
$ else
/* Fragments of S^T and O^T: registers 0, 1 belong to key or column lane / 4 and registers 2, 3 to lane / 4 + 8 (`half`); registers 0, 2 to
 * row 2 (lane % 4) of the fragment's 8 and 1, 3 to the row after it (`odd`). */
$ end
typedef float scores_t[KEY_TILES][ROW_TILES][4];
typedef float rows_t[ROW_TILES][2];
typedef float output_t[DIM_MINE][ROW_TILES][4];

/* The keys that each row of this lane sees: from begin on, up to end. */
struct sight {
    int32_t end[ROW_TILES][2];
$ if band then
    int32_t begin[ROW_TILES][2];
$ end
};

/* Whether a row sees any of `keys` keys from first_key on. */
GLINT_DEVICE bool sees(const struct sight &sight, const int rt, const int odd, int32_t first_key, int32_t keys)
{
    return first_key < sight.end[rt][odd]${band and " && first_key + keys > sight.begin[rt][odd]" or ""};
}

/* Whether it sees any at all. */
GLINT_DEVICE bool sees_some(const struct sight &sight, const int rt, const int odd)
{
    return sight.end[rt][odd] > ${band and "sight.begin[rt][odd]" or "0"};
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
GLINT_DEVICE void fold(struct result &r, const struct result &more${masked and ", int32_t first_key, int32_t keys, const struct sight &sight" or ""})
{
#pragma unroll
    for (int rt = 0; rt < ROW_TILES; ++rt)
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
            float keep, add;

$ if masked then
            if (!sees(sight, rt, odd, first_key, keys))
                continue;
$ end
            fold_maximum(r.maximum[rt][odd], more.maximum[rt][odd], keep, add);
            r.sum[rt][odd] = fold_number(r.sum[rt][odd], more.sum[rt][odd], keep, add);
#pragma unroll
            for (int dt = 0; dt < DIM_MINE; ++dt)
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    r.o[dt][rt][2 * half + odd] = fold_number(r.o[dt][rt][2 * half + odd], more.o[dt][rt][2 * half + odd], keep, add);
        }
}

$ local sets = device_ragged and { "given", "ragged" } or { "" } -- of functions that know where sequences lie
$ for _, set in ipairs(sets) do
$ local ragged = set == "ragged"
$ if set == "given" then
/* Sequences that have a batch of the tensors each. */
namespace given {

$ elseif ragged then
/* The same of ragged sequences. What differs is where their rows begin, which is looked up with their lengths. */
namespace ragged {

$ end
/* ---- where a block works ------------------------------------------------------------------------------------------------ */

/* A tile of rows: (batch, key head, row tile). */
struct tile {
    int32_t index, batch, head_kv, row0; /* row0: its first row */
$ if ragged then
    int32_t first_q, first_k; /* where the sequence begins in the tensors; in pages first_k is 0 */
$ end
};

GLINT_DEVICE struct tile find_tile(const struct glint_decode_params *p, int32_t batch, int32_t head_kv, int32_t row_tile)
{
    struct tile t;

    t.index = (batch * p->shape.heads_kv + head_kv) * p->row_tiles + row_tile;
    t.batch = batch;
    t.head_kv = head_kv;
    t.row0 = row_tile * TILE_M;
$ if ragged then
    t.first_q = t.first_k = 0;
$ end
    return t;
}

/* A sequence, and how many rows a key head has of it. */
struct sequence_rows : sequence {
    int32_t rows;
$ if ragged then
    int32_t first_q, first_k;
$ end
};

$ if ragged then
/* All that the call gives, which begins with what all kernels are given. */
GLINT_DEVICE const struct glint_decode_ragged_params *call_of(const struct glint_decode_params *p)
{
    return (const struct glint_decode_ragged_params *)(const void *)p;
}

GLINT_DEVICE struct ragged_side queries_of(const struct glint_decode_params *p)
{
    return {call_of(p)->first_q, p->seqlens_q, call_of(p)->rows_q, p->shape.seqlen_q};
}

GLINT_DEVICE struct ragged_side keys_of(const struct glint_decode_params *p)
{
    return {call_of(p)->first_k, p->seqlens_k, call_of(p)->rows_k, p->shape.seqlen_k};
}

/* All lanes of a warp call it. */
GLINT_DEVICE struct sequence_rows find_sequence(const struct glint_decode_params *p, int32_t batch)
{
    const struct ragged_rows q = find_rows_of(queries_of(p), batch);
    struct ragged_rows k = {0, 0, 0};
    struct sequence_rows own;

    if (call_of(p)->first_k)
        k = find_rows_of(keys_of(p), batch);
    else
        k.length = max(0, min(int_at(p->seqlens_k, batch), p->shape.seqlen_k));
    own.seqlen_q = q.length;
    own.seqlen_k = k.length;
    own.rows = q.length * p->shape.group;
    find_sides(own, *p);
    own.first_q = q.at;
    own.first_k = k.at;
    return own;
}

/* Lowers the word for a fault to the first sequence with a first row or a length that is none. One block calls it. */
GLINT_DEVICE void note_faults(const struct glint_decode_params *p)
{
    const struct glint_decode_ragged_params *const call = call_of(p);
    const struct glint_ragged r = {call->first_q, call->first_k, p->seqlens_q, p->seqlens_k, p->fault, call->rows_q, call->rows_k, 0, 0, 0};

    if (warp_index() == 0 && call->first_k)
        note_ragged_fault<false>(r, p->shape);
    else if (warp_index() == 0)
        note_ragged_fault<true>(r, p->shape);
}
$ else
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
$ end

/* The end of the keys that a row of a sequence sees, ... */
GLINT_DEVICE int32_t end_of_row(const struct glint_decode_params *p, int32_t row, const struct sequence_rows &own)
{
$ if masked then
    return max(0, min(own.seqlen_k, row / p->shape.group + own.right + 1));
$ else
    return own.seqlen_k;
$ end
}

$ if band then
/* ... and their begin. */
GLINT_DEVICE int32_t begin_of_row(const struct glint_decode_params *p, int32_t row, const struct sequence_rows &own)
{
    return max(0, row / p->shape.group + own.left);
}

/* Steps that hold all keys that some row of the tile sees: from the first, ... */
GLINT_DEVICE int32_t begin_of_tile(const struct glint_decode_params *p, const struct tile *t, const struct sequence_rows &own)
{
    return begin_of_row(p, t->row0, own) / TILE_N;
}

$ end
/* ${band and "..." or "Steps that hold all keys that some row of the tile sees: from the first of all"} up to the last. */
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

$ if band then
/* The entry of the tile's first step: the workspace begins with it. */
GLINT_DEVICE int32_t first_entry(const struct glint_decode_params *p, const struct tile *t, const struct sequence_rows &own)
{
    return begin_of_tile(p, t, own) / steps_of_entry(p);
}

$ end
/* Row `row` of a tensor of queries. */
GLINT_DEVICE char *query_row(const struct glint_decode_params *p, const struct glint_gpu_view *view, const struct tile *t, int32_t row)
{
    const int32_t query = row / p->shape.group;

$ if ragged then
    return view_row(view, 0, t->head_kv * p->shape.group + row - query * p->shape.group, t->first_q + query, BYTES);
$ else
    return view_row(view, t->batch, t->head_kv * p->shape.group + row - query * p->shape.group, query, BYTES);
$ end
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

                if (${uneven and "dt * WARPS + (int)warp < DIM_TILES" or "true"})
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

$ if ragged then
    st_global_f32(p->lse + (int64_t)head * call_of(p)->rows_q + t->first_q + query, lse);
$ else
    st_global_f32(p->lse + ((int64_t)t->batch * p->shape.heads_q + head) * p->shape.seqlen_q + query, lse);
$ end
}

/* What a lane of a merge has: one number of row lane % 2 in column ${narrow and "2 (lane / 4) + lane / 2 % 2" or "lane / 4 + 8 (lane / 2 % 2)"} of 16, and warp lane / 2 % 4's sum of that row. */
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
$ if narrow then
    const float mine = m.o * end.factor, other = shfl_xor(mine, 2);
    const int32_t column = dt * 16 + (int32_t)(lane >> 2) * 2 + (int32_t)(lane >> 1 & 1);
$ else
    const float mine = m.o * end.factor, other = shfl_xor(mine, 4);
    const int32_t column = dt * 16 + (int32_t)(lane >> 1 & 1) * 8 + (int32_t)(lane >> 2);
$ end

    if (row < rows) {
        if ((lane >> ${narrow and 1 or 2} & 1) == 0 && column < HEAD_DIM)
            st_global_u32(query_row(p, &p->o, t, row) + column * BYTES, pack_${dtype}(mine, other));
        if (dt == 0 && lane < 2)
            store_lse(p, t, row, end.lse);
    }
}

GLINT_DEVICE void store_output(const struct glint_decode_params *p, const struct tile *t, int32_t rows, const struct result &r, const rows_t sinks,
                               const struct sight &sight, uint32_t warp)
{
    const uint32_t lane = lane_index();
$ if not narrow then
    const bool odd = (lane >> 2 & 1) != 0; /* column: of two lanes with neighbouring columns, each stores both of one row */
$ end

#pragma unroll
    for (int rt = 0; rt < ROW_TILES; ++rt) {
        const int32_t row = t->row0 + rt * 8 + 2 * (int32_t)(lane & 3);
        const struct ending end[2] = {end_row(r.maximum[rt][0], r.sum[rt][0], sinks[rt][0], sees_some(sight, rt, 0)),
                                      end_row(r.maximum[rt][1], r.sum[rt][1], sinks[rt][1], sees_some(sight, rt, 1))};
$ if narrow then

#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
            char *const to = query_row(p, &p->o, t, row + odd < rows ? row + odd : t->row0);

#pragma unroll
            for (int dt = 0; dt < DIM_MINE; ++dt) {
                const int32_t column = (dt * WARPS + (int32_t)warp) * 16 + (int32_t)(lane >> 2) * 2;

                if (row + odd < rows && column < HEAD_DIM)
                    st_global_u32(to + column * BYTES, pack_${dtype}(r.o[dt][rt][odd] * end[odd].factor, r.o[dt][rt][2 + odd] * end[odd].factor));
            }
        }
$ else
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
                    st_global_u32(to + column * BYTES, odd ? pack_${dtype}(other, odd_row) : pack_${dtype}(even_row, other));
            }
$ end
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
$ if ragged then
    c.tile.first_q = c.own.first_q;
    c.tile.first_k = c.own.first_k;
$ end
    c.end = end_of_tile(p, &c.tile, c.own);
    if (p->parts > 1) {
$ if band then
        c.step += first_entry(p, &c.tile, c.own) * steps_of_entry(p);
$ end
        c.end = min(c.end, c.step + p->range);
    }
$ if band then
    c.step = max(c.step, begin_of_tile(p, &c.tile, c.own));
$ end
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
    for (uint32_t i = thread_index(); i < TILE_M * ${of_q}CHUNKS; i += THREADS) {
        const uint32_t row = i / ${of_q}CHUNKS, chunk = i - row * ${of_q}CHUNKS;
        const bool inside = t->row0 + (int32_t)row < rows && (${of_q}ROW_CHUNKS == ${of_q}CHUNKS || chunk < ${of_q}ROW_CHUNKS);

        cp_async_16(q_tile + tile_offset(row, chunk, TILE_M, ${of_q}PAGE_CHUNKS),
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

$ local batch, from = ragged and "0" or "t.batch", ragged and "t.first_k + c.at.step * TILE_N" or "c.at.step * TILE_N"
    c.k_from = copy_from(view_row(&p->k, ${batch}, t.head_kv, ${from}, ${kv}), p->k.row * ${kv}, PAGE_CHUNKS);
    c.v_from = copy_from(view_row(&p->v, ${batch}, t.head_kv, ${from}, ${kv}), p->v.row * ${kv}, PAGE_CHUNKS);
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
        from += COPY_ROWS * view->row * ${kv};
    }
}

$ if narrow then
/* And of the scales of a step's keys; a key past the end has 0. */
GLINT_DEVICE void copy_scales(const struct glint_decode_scales *scales, const float *of_tensor, const struct copier &c, uint32_t to)
{
$ if ragged then
    const float *const from = of_tensor + c.at.tile.head_kv * scales->head + c.at.tile.first_k * (int64_t)scales->row;
$ else
    const float *const from = of_tensor + c.at.tile.batch * scales->unit + c.at.tile.head_kv * scales->head;
$ end

#pragma unroll
    for (int i = 0; i < (TILE_N + THREADS - 1) / THREADS; ++i) {
        const int32_t index = i * THREADS + (int32_t)thread_index(), key = c.at.step * TILE_N + index;

        if (TILE_N % THREADS == 0 || index < TILE_N)
            cp_async_4(to + index * 4, from + key * (int64_t)scales->row, key < c.at.own.seqlen_k);
    }
}

/* Where those of the K or V at `stage` are. */
GLINT_DEVICE uint32_t scales_of_stage(uint32_t scales, uint32_t stage)
{
    return scales + stage / (DIM_PADDED / 4);
}

$ end
/* Begins the copies of the walk's next K, a group of its own even when there is none. of_item() begins what else there is to copy with an item's
 * first step. */
template <class of_item_t>
GLINT_DEVICE void copy_keys(const struct glint_decode_params *p, ${with_scales}struct copier &c, uint32_t k_tiles, ${scales_at}of_item_t of_item)
{
    if (c.at.step >= c.at.end && find_step(p, c.at))
        begin_copies_of_item(p, c);
    c.valid = c.at.step < c.at.end ? c.at.own.seqlen_k - c.at.step * TILE_N - (int32_t)(thread_index() / PAGE_CHUNKS) : -TILE_N;
    if (c.at.step < c.at.end) {
        copy_part_of_tile(p, &p->k, c, c.k_from, k_tiles + c.stage);
$ if narrow then
        copy_scales(scales, scales->k, c, scales_of_stage(scales_to, c.stage));
$ end
        if (c.first)
            of_item();
        c.first = false;
    }
    cp_async_commit();
}

/* The same of the V of that step. */
GLINT_DEVICE void copy_values(const struct glint_decode_params *p, ${with_scales}struct copier &c, uint32_t v_tiles${narrow and ", uint32_t scales_to" or ""})
{
$ if narrow then
    if (c.at.step < c.at.end) {
        copy_part_of_tile(p, &p->v, c, c.v_from, v_tiles + c.stage);
        copy_scales(scales, scales->v, c, scales_of_stage(scales_to, c.stage));
    }
$ else
    if (c.at.step < c.at.end)
        copy_part_of_tile(p, &p->v, c, c.v_from, v_tiles + c.stage);
$ end
    cp_async_commit();
    c.stage = c.stage == (STAGES - 1) * K_BYTES ? 0 : c.stage + K_BYTES;
    ++c.at.step;
    c.k_from += TILE_N * p->k.row * ${kv};
    c.v_from += TILE_N * p->v.row * ${kv};
}

$ if device_pages then
/* ---- K and V in pages --------------------------------------------------------------------------------------------------- */

/* The same of pages. Of a step's keys a warp copies WARP_KEYS neighbouring ones. They lie in one page if WARP_KEYS divides its rows: every lane then looks
 * up this page, and the copies have the addresses of linear ones. All pages have whole runs of RUN_ROWS rows: else a lane looks up the page of a run,
 * and where the runs begin waits in shared memory for all lanes of the warp. An index that is used at once waits for memory behind the copies
 * under way, so a step's are read once for K and V, and a step and a half before its copies begin; those of an item's first step half a step before. */
enum {
    RUN_ROWS = 16,                  /* no page has fewer */
    RUNS = WARP_KEYS / RUN_ROWS,    /* of a warp */
    TURN_ROWS = COPY_ROWS / WARPS,  /* that a warp copies at once: 4, 8 or 16 */
$ if narrow then
    RUN_BYTES = 32, /* in shared memory: a struct run */
$ else
    RUN_BYTES = 16, /* in shared memory: a struct run */
$ end
    RUNS_BYTES = RUNS > 1 ? RUNS * RUN_BYTES : 0,
};

/* Where a run begins, from row 0 of page 0 of its head on: bytes of K and of V${narrow and ", and how many scales" or ""}. */
struct run {
    uint64_t k, v${narrow and ", scales" or ""};
};

struct paged_copier {
    struct cursor at;
    const int32_t *table;        /* the sequence's row of it */
    const char *k_head, *v_head; /* this thread's part of the first rows of a run at row 0 of page 0 of the item's head */
    struct run run;              /* this lane's, of the step that is copied */
    uint32_t runs, stage;        /* runs: of the warp, in shared memory */
    uint32_t to;                 /* where this thread's first part of a tile goes */
    int32_t left;                /* keys from the first one on that the warp copies */
    int32_t key;                 /* that one; where a page has not all rows that the warp copies, the first one of this lane's run */
    int32_t page, next_page;     /* of that key and of the one a step further, as the table has them */
    bool first;                  /* of an item's steps */
};

/* Has a page all rows of a step that a warp copies? A page's rows are a power of two: where WARP_KEYS is none, they lie across two pages. */
GLINT_DEVICE bool holds_warp(const struct glint_decode_pages_params *p)
{
    return RUNS == 1 || ((WARP_KEYS & (WARP_KEYS - 1)) == 0 && 1 << p->page_shift >= WARP_KEYS);
}

GLINT_DEVICE const char *part_of_head(const struct glint_gpu_view *view, int32_t head)
{
    return view_row(view, 0, head, (int32_t)(lane_index() / PAGE_CHUNKS), ${kv}) + lane_index() % PAGE_CHUNKS * 16;
}

/* Page of a key as the table has it; of one past the end that of the last key. */
GLINT_DEVICE int32_t table_entry(const struct glint_decode_pages_params *p, const struct paged_copier &c, int32_t key)
{
    return (int32_t)bits_of(ld_global_f32((const float *)(const void *)(c.table + (min(key, c.at.own.seqlen_k - 1) >> p->page_shift))));
}

/* What is the item's, and its first step's pages. Lanes that are too many have the last run. */
GLINT_DEVICE void begin_paged_item(const struct glint_decode_pages_params *p, struct paged_copier &c)
{
    const int32_t first = c.at.step * TILE_N + (int32_t)warp_index() * WARP_KEYS;

    c.table = p->page_table + (int64_t)c.at.tile.batch * p->pages_per_sequence;
    c.k_head = part_of_head(&p->base.k, c.at.tile.head_kv);
    c.v_head = part_of_head(&p->base.v, c.at.tile.head_kv);
    c.left = c.at.own.seqlen_k - first;
    c.key = first + (holds_warp(p) ? 0 : (int32_t)min(lane_index(), (uint32_t)RUNS - 1) * RUN_ROWS);
    c.page = table_entry(p, c, c.key);
}

/* Moves on to the walk's next step, if there is one, and begins to look up the pages of the one after it. */
GLINT_DEVICE void look_up_pages(const struct glint_decode_pages_params *p, struct paged_copier &c)
{
    c.key += TILE_N;
    c.left -= TILE_N;
    c.page = c.next_page;
    if (c.at.step >= c.at.end)
        c.first = find_step(&p->base, c.at);
    if (c.at.step < c.at.end) {
        if (c.first)
            begin_paged_item(p, c);
        c.next_page = table_entry(p, c, c.key + TILE_N);
    }
}

/* Lowers the word for a fault to the sequence if the page of this lane's run is outside of the pool, and a row of the tile sees a key of it. */
GLINT_DEVICE void note_bad_page(const struct glint_decode_pages_params *p, const struct paged_copier &c)
{
    const struct tile &t = c.at.tile;
    const int32_t end = min(c.at.own.seqlen_k, end_of_row(&p->base, min(c.at.own.rows, t.row0 + TILE_M) - 1, c.at.own));
    const int32_t index = min(c.key, c.at.own.seqlen_k - 1) >> p->page_shift, first = index << p->page_shift;

    if (first < end${band and " && first + (1 << p->page_shift) > begin_of_row(&p->base, t.row0, c.at.own)" or ""})
        atomicMin(p->base.fault, (uint32_t)t.batch);
}

GLINT_DEVICE uint64_t bytes_to(const struct glint_gpu_view *view, int32_t page, int32_t row)
{
    return ((uint32_t)page * (uint64_t)view->batch + (uint32_t)row * (uint64_t)view->row) * ${kv};
}

/* Finds this lane's run of the step whose pages were looked up. */
GLINT_DEVICE void find_run(const struct glint_decode_pages_params *p, ${with_scales}struct paged_copier &c)
{
    const int32_t row = c.key & ((1 << p->page_shift) - 1), page = max(0, min(c.page, p->pages - 1));

    if (page != c.page && p->base.fault)
        note_bad_page(p, c);
    c.run.k = bytes_to(&p->base.k, page, row);
    c.run.v = bytes_to(&p->base.v, page, row);
$ if narrow then
    c.run.scales = (uint32_t)page * (uint64_t)scales->unit + (uint32_t)c.at.tile.head_kv * (uint64_t)scales->head;
    c.run.scales += (uint32_t)(row * scales->row);
$ end
}

/* For the lanes of the warp. */
GLINT_DEVICE void share_runs(const struct paged_copier &c)
{
    const uint32_t words[4] = {(uint32_t)c.run.k, (uint32_t)(c.run.k >> 32), (uint32_t)c.run.v, (uint32_t)(c.run.v >> 32)};
$ if narrow then
    const uint32_t of_scales[4] = {(uint32_t)c.run.scales, (uint32_t)(c.run.scales >> 32), 0, 0};
$ end

    /* No lane reads those of the step before any more. */
    warp_sync();
$ if narrow then
    if (lane_index() < RUNS) {
        st_shared_u32x4(c.runs + lane_index() * RUN_BYTES, words);
        st_shared_u32x4(c.runs + lane_index() * RUN_BYTES + 16, of_scales);
    }
$ else
    if (lane_index() < RUNS)
        st_shared_u32x4(c.runs + lane_index() * RUN_BYTES, words);
$ end
    warp_sync();
}

/* Begins the copy of this thread's part of the rows that its warp copies in turn `turn` of one tile: the first turn's goes to `to`. */
GLINT_DEVICE void copy_turn(uint32_t to, const char *from, const int turn, int32_t valid)
{
    const uint32_t row = turn * TURN_ROWS;

    to = (to ^ tile_offset(row, 0, TILE_N, PAGE_CHUNKS) % (PAGE_CHUNKS * 16)) + row * PAGE_CHUNKS * 16; /* rows permute chunks: see tile_offset */
#pragma unroll
    for (int page = 0; page < PAGES; ++page)
        cp_async_16_once(to + page * (TILE_N * PAGE_CHUNKS * 16), from + page * (PAGE_CHUNKS * 16),
                         turn * TURN_ROWS < valid && (ROW_CHUNKS == CHUNKS || page * PAGE_CHUNKS + lane_index() % PAGE_CHUNKS < ROW_CHUNKS));
}

/* Begins the copy of this thread's part of one tile, of K or of V (`of_v`). */
GLINT_DEVICE void copy_rows_of_warp(const struct glint_decode_pages_params *p, const struct paged_copier &c, const bool of_v, uint32_t tile)
{
    const uint32_t to = tile + c.to;
    const int32_t valid = c.left - (int32_t)(lane_index() / PAGE_CHUNKS);
    const int64_t down = (of_v ? p->base.v.row : p->base.k.row) * (TURN_ROWS * ${kv});
    const char *from = of_v ? c.v_head : c.k_head;

    if (holds_warp(p)) {
        from += of_v ? c.run.v : c.run.k;
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            copy_turn(to, from, i, valid);
            from += down;
        }
        return;
    }
    uint32_t words[RUNS][4];

#pragma unroll
    for (int i = 0; i < RUNS; ++i) /* all of them first: a load between copies waits for those before it */
        ld_shared_u32x4(words[i], c.runs + i * RUN_BYTES);
#pragma unroll
    for (int i = 0; i < COPIES; ++i) {
        const uint32_t *const run = words[i * TURN_ROWS / RUN_ROWS] + 2 * of_v;

        copy_turn(to, from + ((uint64_t)run[1] << 32 | run[0]) + i % (RUN_ROWS / TURN_ROWS) * down, i, valid);
    }
}

$ if narrow then
/* And of the scales of the keys that this warp copies; a key past the end has 0. */
GLINT_DEVICE void copy_scales_of_warp(const struct glint_decode_pages_params *p, const struct glint_decode_scales *scales, const float *of_tensor,
                                      const struct paged_copier &c, uint32_t to)
{
    const int32_t lane = (int32_t)lane_index(), valid = min((int32_t)WARP_KEYS, c.left) - lane;

    to += (thread_index() / 32 * WARP_KEYS + lane_index()) * 4;
    if (holds_warp(p)) {
        const float *const from = of_tensor + c.run.scales + lane * scales->row;

#pragma unroll
        for (int i = 0; i < WARP_KEYS; i += 32)
            if (WARP_KEYS % 32 == 0 || i + lane < WARP_KEYS)
                cp_async_4(to + i * 4, from + i * scales->row, i < valid);
        return;
    }
#pragma unroll 1
    for (int i = 0; i < WARP_KEYS; i += 32) {
        const int32_t row = lane % RUN_ROWS, run = min((i + lane) / RUN_ROWS, RUNS - 1);
        const uint32_t at = c.runs + (uint32_t)run * RUN_BYTES + 16;
        const float *from = of_tensor + ((uint64_t)ld_shared_u32(at + 4) << 32 | ld_shared_u32(at));

        from += row * scales->row;
        if (WARP_KEYS % 32 == 0 || i + lane < WARP_KEYS)
            cp_async_4(to + i * 4, from, i < valid);
    }
}

$ end
/* As copy_keys, of the step that look_up_pages has found. */
template <class of_item_t>
GLINT_DEVICE void copy_paged_keys(const struct glint_decode_pages_params *p, ${with_scales}struct paged_copier &c, uint32_t k_tiles, ${scales_at}of_item_t of_item)
{
    if (c.at.step < c.at.end) {
        find_run(p, ${narrow and "scales, " or ""}c);
        if (!holds_warp(p))
            share_runs(c);
        copy_rows_of_warp(p, c, false, k_tiles + c.stage);
$ if narrow then
        copy_scales_of_warp(p, scales, scales->k, c, scales_of_stage(scales_to, c.stage));
$ end
        if (c.first)
            of_item();
        c.first = false;
    }
    cp_async_commit();
}

/* The same of the V of that step; then the next step's pages. */
GLINT_DEVICE void copy_paged_values(const struct glint_decode_pages_params *p, ${with_scales}struct paged_copier &c, uint32_t v_tiles${narrow and ", uint32_t scales_to" or ""})
{
$ if narrow then
    if (c.at.step < c.at.end) {
        copy_rows_of_warp(p, c, true, v_tiles + c.stage);
        copy_scales_of_warp(p, scales, scales->v, c, scales_of_stage(scales_to, c.stage));
    }
$ else
    if (c.at.step < c.at.end)
        copy_rows_of_warp(p, c, true, v_tiles + c.stage);
$ end
    cp_async_commit();
    c.stage = c.stage == (STAGES - 1) * K_BYTES ? 0 : c.stage + K_BYTES;
    ++c.at.step;
    look_up_pages(p, c);
}

$ end
$ if set ~= "" then
} // namespace ${set}

$ end
$ end
$ if device_pages then
/* ---- products ----------------------------------------------------------------------------------------------------------- */

$ end
$ local signs = kv_dtype == "i8" and ", signs" or ""
$ if narrow then
/* ---- 8 bits ------------------------------------------------------------------------------------------------------------- */

/* Of the four numbers of a word those of bytes 0 and 2, or 1 and 3 (ODD), as bf16, exactly. What is summed over may be in any order that both
 * operands have, so no byte changes its place. For four numbers that is ${kv_dtype == "i8" and "three integer instructions and two multiply-adds" or "seven integer instructions, two multiply-adds and two that look for NaN"}, of every
 * GPU since sm_80. */
$ if kv_dtype == "i8" then
enum { UNIT = 64 }; /* widen() gives a number over it */

/* The signs of bytes 0 and 2, and of 1 and 3, as numbers that the compiler does not know: one instruction does both and and xor, but has room for
 * one constant alone. */
struct signs {
    uint32_t even, odd;
};

GLINT_DEVICE struct signs unknown_signs(const struct glint_decode_params &p)
{
    const bool any = p.shape.batch > 0; /* it is */

    return {any ? 0x00800080u : 0, any ? 0x80008000u : 0};
}

template <int ODD> GLINT_DEVICE uint32_t widen(uint32_t word, const struct signs &signs)
{
    /* 128 more, without a sign: as bits of bf16 that many times 2^-133, denormal or not */
    const uint32_t raised = ODD ? ((word & 0xff00ff00u) ^ signs.odd) >> 8 : (word & 0x00ff00ffu) ^ signs.even;

    return fma_bf16x2(raised, 0x7f007f00u, 0xc000c000u); /* times 2^127, less 2 */
}
$ else
template <int ODD> GLINT_DEVICE uint32_t widen(uint32_t word)
{
    /* The sign, and exponent and mantissa where bf16 has them: the number over 2^120, also where it is denormal. NaN becomes 480. */
    const uint32_t small = ODD ? (word & 0x80008000u) | (word >> 4 & 0x07f007f0u) : (word << 8 & 0x80008000u) | (word << 4 & 0x07f007f0u);

    return fma_bf16x2(small, 0x7b807b80u, 0x80008000u);
}

/* Keeps in mind whether a byte of the word is NaN: adding 1 changes the highest bit of a byte where the others are ones, and of the bytes above
 * the first such one. */
GLINT_DEVICE void look_for_nan(uint32_t word, uint32_t &codes)
{
    codes |= word ^ (word + 0x01010101u);
}

/* Does a lane of the warp know of a NaN? */
GLINT_DEVICE bool any_nan(uint32_t codes)
{
    return warp_any((codes & 0x80808080u) != 0);
}

GLINT_DEVICE bool has_nan(uint32_t word)
{
    return (((word & 0x7f7f7f7fu) + 0x01010101u) & 0x80808080u) != 0;
}

/* Scores with keys that hold a NaN are NaN. Seldom: it reads K again. */
GLINT_DEVICE void add_nan_of_keys(scores_t s, uint32_t k_tile, uint32_t warp)
{
#pragma unroll
    for (int kt = 0; kt < KEY_TILES; ++kt)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            bool found = false;

#pragma unroll 1
            for (uint32_t chunk = 0; chunk < CHUNKS; ++chunk) {
                uint32_t v[4];

                ld_shared_u32x4(v, k_tile + tile_offset(warp * WARP_KEYS + kt * 16 + half * 8 + (lane_index() >> 2), chunk, TILE_N, PAGE_CHUNKS));
                found = found || has_nan(v[0]) || has_nan(v[1]) || has_nan(v[2]) || has_nan(v[3]);
            }
#pragma unroll
            for (int rt = 0; rt < ROW_TILES; ++rt)
#pragma unroll
                for (int odd = 0; odd < 2; ++odd)
                    s[kt][rt][2 * half + odd] = found ? float_of(0x7fffffffu) : s[kt][rt][2 * half + odd];
        }
}

/* Columns of O whose V has a NaN are NaN in the rows that see its key. */
GLINT_DEVICE void add_nan_of_values(output_t o, uint32_t v_tile, int32_t first_key, const struct sight &sight, uint32_t warp)
{
    const uint32_t pair = lane_index() >> 2;

#pragma unroll 1
    for (uint32_t key = 0; key < TILE_N; ++key)
#pragma unroll
        for (int dt = 0; dt < DIM_MINE; ++dt) {
$ if uneven then
            if (dt * WARPS + (int)warp >= DIM_TILES)
                continue;
$ end
            const uint32_t bytes =
                ld_shared_u32(v_tile + tile_offset(key, dt * WARPS + warp, TILE_N, PAGE_CHUNKS) + (pair >> 1) * 4) >> (pair & 1) * 16;

#pragma unroll
            for (int half = 0; half < 2; ++half)
#pragma unroll
                for (int rt = 0; rt < ROW_TILES; ++rt)
#pragma unroll
                    for (int odd = 0; odd < 2; ++odd)
                        if ((bytes >> 8 * half & 0x7f) == 0x7f && sees(sight, rt, odd, first_key + (int32_t)key, 1))
                            o[dt][rt][2 * half + odd] = float_of(0x7fffffffu);
        }
}
$ end

/* Operands B of Q^T at k step kk. Lanes have four neighbouring columns, as they have four bytes of K: the first and the third, the second and
 * the fourth. */
GLINT_DEVICE void load_queries(uint32_t q[ROW_TILES][2], uint32_t q_tile, const int kk)
{
    const uint32_t lane = lane_index();

#pragma unroll
    for (int rt = 0; rt < ROW_TILES; ++rt) {
        const uint32_t at = q_tile + tile_offset(rt * 8 + (lane >> 2), 2 * kk + (lane >> 1 & 1), TILE_M, Q_PAGE_CHUNKS) + (lane & 1) * 8;
        const uint32_t first = ld_shared_u32(at), second = ld_shared_u32(at + 4);

        q[rt][0] = (first & 0xffff) | second << 16;
        q[rt][1] = first >> 16 | (second & 0xffff0000u);
    }
}

$ else
/* Operands B of Q^T at k step kk. */
GLINT_DEVICE void load_queries(uint32_t q[ROW_TILES][2], uint32_t q_tile, const int kk)
{
    const uint32_t lane = lane_index();

$ if row_tiles == 1 then
    q[0][0] = ld_shared_u32(q_tile + tile_offset(lane >> 2, 2 * kk, TILE_M, PAGE_CHUNKS) + (lane & 3) * 4);
    q[0][1] = ld_shared_u32(q_tile + tile_offset(lane >> 2, 2 * kk + 1, TILE_M, PAGE_CHUNKS) + (lane & 3) * 4);
$ else
#pragma unroll
    for (int rt = 0; rt < ROW_TILES; rt += 2) {
        uint32_t r[4];

        ldmatrix_x4(r, tile_move(q_tile + lane_offset_b(lane, TILE_M, PAGE_CHUNKS), rt * 8, 2 * kk, TILE_M, PAGE_CHUNKS));
        q[rt][0] = r[0], q[rt][1] = r[1], q[rt + 1][0] = r[2], q[rt + 1][1] = r[3];
    }
$ end
}

$ end
/* S^T = scale K Q^T of this warp's keys. ${chains == 2 and "Even and odd k steps are summed apart: two chains of products are twice as fast." or "A key fragment's products are one chain, as there are several fragments."}
 * The scaled score is rounded once, to the number that maxima are made of too. begin_copies() comes when all of K is on its way into
 * registers: products do not wait behind copies. */
template <class begin_copies_t>
GLINT_DEVICE void make_scores(scores_t s, const uint32_t (&q_kept)[${q_kept and "K_STEPS" or "1"}][ROW_TILES][2], uint32_t q_tile, uint32_t k_lane, ${capped and "const struct capped_score &cap, " or ""}float scale,
                              ${narrow and "uint32_t k_tile, uint32_t scales, uint32_t warp, " or ""}${kv_dtype == "i8" and "const struct signs &signs, " or ""}begin_copies_t begin_copies)
{
    float sums[${chains}][KEY_TILES][ROW_TILES][4];

#pragma unroll
    for (int i = 0; i < ${chains} * KEY_TILES * ROW_TILES * 4; ++i)
        sums[i / (KEY_TILES * ROW_TILES * 4)][i / (ROW_TILES * 4) % KEY_TILES][i / 4 % ROW_TILES][i % 4] = 0.0f;
$ if with_nan then
    uint32_t codes = 0;

$ end
$ if narrow then
#pragma unroll
    for (int kk = 0; kk < K_STEPS; kk += 2) {
$ if not q_kept then
        uint32_t q[2][ROW_TILES][2];

        load_queries(q[0], q_tile, kk);
        load_queries(q[1], q_tile, kk + 1);
$ end
#pragma unroll
        for (int kt = 0; kt < KEY_TILES; ++kt) {
            uint32_t w[4];

            ldmatrix_x4(w, tile_move(k_lane, kt * 16, kk, TILE_N, PAGE_CHUNKS));
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const uint32_t k[4] = {widen<0>(w[2 * j]${signs}), widen<0>(w[2 * j + 1]${signs}), widen<1>(w[2 * j]${signs}),
                                       widen<1>(w[2 * j + 1]${signs})};

$ if with_nan then
                look_for_nan(w[2 * j], codes);
                look_for_nan(w[2 * j + 1], codes);
$ end
#pragma unroll
                for (int rt = 0; rt < ROW_TILES; ++rt)
                    ${mma}(sums[${chains == 2 and "j" or "0"}][kt][rt], k, ${q_kept and "q_kept[kk + j][rt][0], q_kept[kk + j][rt][1]" or "q[j][rt][0], q[j][rt][1]"});
            }
        }
    }
$ else
#pragma unroll
    for (int kk = 0; kk < K_STEPS; ++kk) {
$ if not q_kept then
        uint32_t q[ROW_TILES][2];

        load_queries(q, q_tile, kk);
$ end
#pragma unroll
        for (int kt = 0; kt < KEY_TILES; ++kt) {
            uint32_t k[4];

            ldmatrix_x4(k, tile_move(k_lane, kt * 16, kk * 2, TILE_N, PAGE_CHUNKS));
#pragma unroll
            for (int rt = 0; rt < ROW_TILES; ++rt)
                ${mma}(sums[kk & 1][kt][rt], k, ${q_kept and "q_kept[kk][rt][0], q_kept[kk][rt][1]" or "q[rt][0], q[rt][1]"});
        }
    }
$ end
    begin_copies();
$ if narrow then
#pragma unroll
    for (int kt = 0; kt < KEY_TILES; ++kt)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float of_key = ld_shared_f32(scales + (warp * WARP_KEYS + kt * 16 + half * 8 + (lane_index() >> 2)) * 4)${kv_dtype == "i8" and " * UNIT" or ""};

#pragma unroll
            for (int rt = 0; rt < ROW_TILES; ++rt)
#pragma unroll
                for (int i = 2 * half; i < 2 * half + 2; ++i)
                    sums[0][kt][rt][i] = ${chains == 2 and "(sums[0][kt][rt][i] + sums[1][kt][rt][i])" or "sums[0][kt][rt][i]"} * of_key;
        }
$ elseif capped then
#pragma unroll
    for (int kt = 0; kt < KEY_TILES; ++kt)
#pragma unroll
        for (int rt = 0; rt < ROW_TILES; ++rt)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                sums[0][kt][rt][i] += sums[1][kt][rt][i];
$ end
$ if capped then
    change_few_scores(sums[0], cap);
$ end
#pragma unroll
    for (int kt = 0; kt < KEY_TILES; ++kt)
#pragma unroll
        for (int rt = 0; rt < ROW_TILES; ++rt)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                s[kt][rt][i] = fmaf(sums[0][kt][rt][i]${(capped or narrow) and "" or " + sums[1][kt][rt][i]"}, scale, 0.0f);
$ if with_nan then
    if (any_nan(codes))
        add_nan_of_keys(s, k_tile, warp);
$ end
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

/* P^T = e^(S^T - maximum) to shared memory, [row tile][key][8 rows], and the sums of this lane's keys.${narrow and " Before it is rounded P is multiplied\n * by V's scales" or ""}${narrow and masked and ", which are not those of hidden keys: where CUT, some are. first_key is the step's." or narrow and "." or ""} */
$ if narrow and masked then
template <bool CUT>
$ end
GLINT_DEVICE void make_weights(rows_t sums, const scores_t s, const rows_t maximum, uint32_t p_tile, uint32_t warp${narrow and ", uint32_t scales" or ""}${narrow and masked and ",\n                               int32_t first_key, const struct sight &sight" or ""})
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
$ if narrow then
                const int32_t key = (int32_t)(warp * WARP_KEYS + kt * 16 + half * 8 + (lane_index() >> 2));
                const float of_key = ld_shared_f32(scales + key * 4);
$ if masked then
                const bool even_sees = !CUT || sees(sight, rt, 0, first_key + key, 1), odd_sees = !CUT || sees(sight, rt, 1, first_key + key, 1);

                st_shared_u32(at + (rt * TILE_N + kt * 16 + half * 8) * 16,
                              pack_${dtype}(even_sees ? even * of_key : 0.0f, odd_sees ? odd * of_key : 0.0f));
$ else

                st_shared_u32(at + (rt * TILE_N + kt * 16 + half * 8) * 16, pack_${dtype}(even * of_key, odd * of_key));
$ end
$ else
                st_shared_u32(at + (rt * TILE_N + kt * 16 + half * 8) * 16, pack_${dtype}(even, odd));
$ end
            }
    }
}

$ if large then
/* O^T += V^T P^T of this warp's columns, which are as many chains of products as hide a product's time. begin_copies() comes after V's last
 * fragments. */
$ else
/* O^T += V^T P^T of this warp's columns; even and odd k steps apart, as for the scores. begin_copies() comes after V's last fragments. */
$ end
template <class begin_copies_t>
GLINT_DEVICE void add_values(output_t o, uint32_t p_tile, uint32_t v_lane, uint32_t warp, ${with_nan and "uint32_t &codes, " or kv_dtype == "i8" and "const struct signs &signs, " or ""}begin_copies_t begin_copies)
{
$ local to = large and "o[dt][rt]" or "k == 0 ? o[dt][rt] : sums[dt][rt]"
$ if not large then
    output_t sums;

#pragma unroll
    for (int i = 0; i < DIM_MINE * ROW_TILES * 4; ++i)
        sums[i / (ROW_TILES * 4)][i / 4 % ROW_TILES][i % 4] = 0.0f;
$ end
#pragma unroll
    for (int kk = 0; kk < TILE_N / 16; kk += 2) {
        uint32_t p[ROW_TILES][4];

#pragma unroll
        for (int rt = 0; rt < ROW_TILES; ++rt)
            ldmatrix_x4_trans(p[rt], p_tile + (rt * TILE_N + kk * 16 + lane_index()) * 16);
$ if narrow then
#pragma unroll
        for (int dt = 0; dt < DIM_MINE; ++dt) {
            uint32_t w[4];

$ if uneven then
            if (dt * WARPS + (int)warp >= DIM_TILES)
                continue;
$ end
            ldmatrix_x4_trans(w, tile_move(v_lane, kk * 16, dt * WARPS + warp, TILE_N, PAGE_CHUNKS));
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                const uint32_t a[4] = {widen<0>(w[2 * k]${signs}), widen<1>(w[2 * k]${signs}), widen<0>(w[2 * k + 1]${signs}),
                                       widen<1>(w[2 * k + 1]${signs})};

$ if with_nan then
                look_for_nan(w[2 * k], codes);
                look_for_nan(w[2 * k + 1], codes);
$ end
#pragma unroll
                for (int rt = 0; rt < ROW_TILES; ++rt)
                    ${mma}(${to}, a, p[rt][2 * k], p[rt][2 * k + 1]);
            }
        }
$ else
#pragma unroll
        for (int k = 0; k < 2; ++k)
#pragma unroll
            for (int dt = 0; dt < DIM_MINE; ++dt) {
                uint32_t v[4];

$ if uneven then
                if (dt * WARPS + (int)warp >= DIM_TILES)
                    continue;
$ end
                ldmatrix_x4_trans(v, tile_move(v_lane, (kk + k) * 16, 2 * (dt * WARPS + warp), TILE_N, PAGE_CHUNKS));

                const uint32_t a[4] = {v[0], v[2], v[1], v[3]};
#pragma unroll
                for (int rt = 0; rt < ROW_TILES; ++rt)
                    ${mma}(${to}, a, p[rt][2 * k], p[rt][2 * k + 1]);
            }
$ end
    }
    begin_copies();
$ if kv_dtype == "i8" or not large then
#pragma unroll
    for (int i = 0; i < DIM_MINE * ROW_TILES * 4; ++i)
$ end
$ if kv_dtype == "i8" and large then
        o[i / (ROW_TILES * 4)][i / 4 % ROW_TILES][i % 4] *= UNIT;
$ elseif kv_dtype == "i8" then
        o[i / (ROW_TILES * 4)][i / 4 % ROW_TILES][i % 4] =
            (o[i / (ROW_TILES * 4)][i / 4 % ROW_TILES][i % 4] + sums[i / (ROW_TILES * 4)][i / 4 % ROW_TILES][i % 4]) * UNIT;
$ elseif not large then
        o[i / (ROW_TILES * 4)][i / 4 % ROW_TILES][i % 4] += sums[i / (ROW_TILES * 4)][i / 4 % ROW_TILES][i % 4];
$ end
}

$ if masked and not narrow then
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
$ if uneven then
                if (dt * WARPS + (int)warp >= DIM_TILES)
                    continue;
$ end
                const uint32_t pair = ld_shared_u32(v_tile + tile_offset(key, 2 * (dt * WARPS + warp) + half, TILE_N, PAGE_CHUNKS) + (lane >> 3) * 4);
                const uint32_t special = pair ^ finite_part(pair, EXPONENT, BYTES);
                const float v = (lane >> 2 & 1) != 0 ? high_${dtype}(special) : low_${dtype}(special);

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

$ end
$ local kinds = { "linear" }
$ if device_pages then kinds[2] = "pages" end
$ if device_ragged then kinds[#kinds + 1] = "ragged" end
$ if device_ragged and device_pages then kinds[#kinds + 1] = "ragged_pages" end
$ for _, kind in ipairs(kinds) do
$ local paged, ragged = kind:find("pages") ~= nil, kind:find("ragged") ~= nil
$ if ragged then
/* The same over ragged sequences${paged and ", and K and V in pages" or ""}. */
GLINT_KERNEL(THREADS, ${blocks_per_sm}) ${symbol}_${kind}(GLINT_PARAMS(struct glint_decode_${narrow and "scaled_" or ""}ragged_params) call)
{
    const struct glint_decode_pages_params &in_pages = call.${narrow and "ragged.base" or "base"};
    const struct glint_decode_params &p = in_pages.base;
$ elseif paged then
/* The same over K and V in pages. */
GLINT_KERNEL(THREADS, ${blocks_per_sm}) ${symbol}_pages(GLINT_PARAMS(struct glint_decode_${narrow and "scaled_" or ""}pages_params) call)
{
    const struct glint_decode_pages_params &in_pages = call${narrow and ".pages" or ""};
    const struct glint_decode_params &p = in_pages.base;
$ elseif narrow then
GLINT_KERNEL(THREADS, ${blocks_per_sm}) ${symbol}(GLINT_PARAMS(struct glint_decode_scales_params) call)
{
    const struct glint_decode_params &p = call.base;
$ else
GLINT_KERNEL(THREADS, ${blocks_per_sm}) ${symbol}(GLINT_PARAMS(struct glint_decode_params) p)
{
$ end
$ if device_ragged then
    using namespace ${ragged and "ragged" or "given"};
$ end
    const uint32_t lane = lane_index(), warp = warp_index();

    /* Shared memory: STAGES of K, then STAGES of V, Q_TILES of Q, P, maxima, sums${narrow and ", STAGES of K's scales and of V's" or ""}${paged and ", runs of each warp" or ""}. */
    const uint32_t k_tiles = shared_base(), v_tiles = k_tiles + STAGES * K_BYTES, q_tiles = v_tiles + STAGES * K_BYTES;
    const uint32_t p_tile = q_tiles + Q_TILES * Q_BYTES, maxima = p_tile + P_BYTES, sums = maxima + ROWS_BYTES;
$ if narrow then
    const uint32_t k_scales = sums + ROWS_BYTES, v_scales = k_scales + STAGES * SCALE_BYTES;
$ end
    const uint32_t k_lane = k_tiles + lane_offset_a(lane, TILE_N, PAGE_CHUNKS) + warp * (WARP_KEYS * PAGE_CHUNKS * 16);
    const uint32_t v_lane = v_tiles + tile_offset(${narrow and "lane, 0" or "lane & 15, lane >> 4"}, TILE_N, PAGE_CHUNKS);
$ if capped then
    const struct capped_score cap = {p.score_ratio, p.score_limit};
$ end
    const float scale = p.shape.softmax_scale;
$ if kv_dtype == "i8" then
    const struct signs signs = unknown_signs(p);
$ end
    struct cursor at;
    struct ${paged and "paged_" or ""}copier c;
    uint32_t stage = 0, q_to = q_tiles, q_tile = q_tiles;

    auto next_q = [&](uint32_t &tile) { tile = tile == q_tiles + (Q_TILES - 1) * Q_BYTES ? q_tiles : tile + Q_BYTES; };
    auto copy_q = [&]() {
        copy_queries(&p, &c.at.tile, c.at.own.rows, q_to);
        next_q(q_to);
    };
$ if paged and narrow then
    auto copy_k = [&]() { copy_paged_keys(&in_pages, &call.scales, c, k_tiles, k_scales, copy_q); };
    auto copy_v = [&]() { copy_paged_values(&in_pages, &call.scales, c, v_tiles, v_scales); };
$ elseif paged then
    auto copy_k = [&]() { copy_paged_keys(&in_pages, c, k_tiles, copy_q); };
    auto copy_v = [&]() { copy_paged_values(&in_pages, c, v_tiles); };
$ elseif narrow then
    auto copy_k = [&]() { copy_keys(&p, &call.scales, c, k_tiles, k_scales, copy_q); };
    auto copy_v = [&]() { copy_values(&p, &call.scales, c, v_tiles, v_scales); };
$ else
    auto copy_k = [&]() { copy_keys(&p, c, k_tiles, copy_q); };
    auto copy_v = [&]() { copy_values(&p, c, v_tiles); };
$ end

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
$ if paged then
    c.first = true;
    c.key = c.left = c.next_page = 0;
    c.runs = ${narrow and "v_scales + STAGES * SCALE_BYTES" or "sums + ROWS_BYTES"} + warp * RUNS_BYTES;
    c.to = tile_offset(warp * WARP_KEYS + lane / PAGE_CHUNKS, lane % PAGE_CHUNKS, TILE_N, PAGE_CHUNKS);
    look_up_pages(&in_pages, c);
$ else
    begin_copies_of_item(&p, c);
$ end
#pragma unroll 1
    for (int i = 1;; ++i) {
        copy_k();
        if (i == STAGES)
            break;
        copy_v();
    }

#pragma unroll 1
    for (;;) {
        /* What each row of this lane sees, and the steps with a key that some row does not see: from cut_from on${band and ",\n         * and before cut_to" or ""}. */
        struct sight sight;
#pragma unroll
        for (int rt = 0; rt < ROW_TILES; ++rt)
#pragma unroll
            for (int odd = 0; odd < 2; ++odd) {
                const int32_t row = at.tile.row0 + rt * 8 + 2 * (int32_t)(lane & 3) + odd;

                sight.end[rt][odd] = end_of_row(&p, row, at.own);
$ if band then
                sight.begin[rt][odd] = begin_of_row(&p, row, at.own);
$ end
            }
        const int32_t cut_from = end_of_row(&p, at.tile.row0, at.own) / TILE_N, first = at.step;
$ if band then
        const int32_t cut_to = (begin_of_row(&p, min(at.own.rows, at.tile.row0 + TILE_M) - 1, at.own) + TILE_N - 1) / TILE_N;
        const int32_t first_left = first_entry(&p, &at.tile, at.own);
$ end
        uint32_t q_kept[${q_kept and "K_STEPS" or "1"}][ROW_TILES][2];
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
$ if q_kept then
            if (step == first) {
#pragma unroll
                for (int kk = 0; kk < K_STEPS; ++kk)
                    load_queries(q_kept[kk], q_tile, kk);
            }
$ end
            make_scores(s, q_kept, q_tile, k_lane + stage, ${capped and "cap, " or ""}scale, ${narrow and "k_tiles + stage, scales_of_stage(k_scales, stage), warp, " or ""}${kv_dtype == "i8" and "signs, " or ""}copy_v);
            if (step >= cut_from${band and " || step < cut_to" or ""})
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
$ if masked and not narrow then
            if (step >= cut_from${band and " || step < cut_to" or ""}) {
$ if paged then
                /* What a thread looks through, others have copied. */
                block_sync();
$ end
                if (block_any(find_special(v_tiles + stage, TILE_N, PAGES, PAGE_CHUNKS, THREADS, EXPONENT, BYTES)))
                    settle_values(now.o, v_tiles + stage, step * TILE_N, sight, warp);
            } else
                block_sync();
$ else
            block_sync();
$ end
            take_rows(now.maximum, maxima, [](float x, float y) { return fmaxf(x, y); });
$ if narrow and masked then
            const uint32_t of_values = scales_of_stage(v_scales, stage);

            if (step >= cut_from${band and " || step < cut_to" or ""})
                make_weights<true>(now.sum, s, now.maximum, p_tile, warp, of_values, step * TILE_N, sight);
            else
                make_weights<false>(now.sum, s, now.maximum, p_tile, warp, of_values, step * TILE_N, sight);
$ elseif narrow then
            make_weights(now.sum, s, now.maximum, p_tile, warp, scales_of_stage(v_scales, stage));
$ else
            make_weights(now.sum, s, now.maximum, p_tile, warp);
$ end
            block_sync();
$ if with_nan then
            uint32_t v_codes = 0;

            add_values(now.o, p_tile, v_lane + stage, warp, v_codes, copy_k);
            if (any_nan(v_codes))
                add_nan_of_values(now.o, v_tiles + stage, step * TILE_N, sight, warp);
$ else
            add_values(now.o, p_tile, v_lane + stage, warp, ${kv_dtype == "i8" and "signs, " or ""}copy_k);
$ end
            join_lanes(now.sum, [](float x, float y) { return x + y; });
            stage = stage == (STAGES - 1) * K_BYTES ? 0 : stage + K_BYTES;

            if (p.level == GLINT_DECODE_STEP) {
                store_partial(&p, &at.tile, step${band and " - first_left" or ""}, now, warp);
                continue;
            }
            fold(chunk, now${masked and ", step * TILE_N, TILE_N, sight" or ""});
            if ((step + 1) % CHUNK_STEPS != 0 && step + 1 != at.end)
                continue;
            if (p.level == GLINT_DECODE_CHUNK)
                store_partial(&p, &at.tile, step / CHUNK_STEPS${band and " - first_left" or ""}, chunk, warp);
            else {
                fold(span, chunk${masked and ", step / CHUNK_STEPS * (CHUNK_STEPS * TILE_N), CHUNK_STEPS * TILE_N, sight" or ""});
                if ((step + 1) % (CHUNK_STEPS * SPAN_CHUNKS) == 0 || step + 1 == at.end) {
                    if (p.level == GLINT_DECODE_SPAN)
                        store_partial(&p, &at.tile, step / (CHUNK_STEPS * SPAN_CHUNKS)${band and " - first_left" or ""}, span, warp);
                    else
                        fold(row, span${masked and ", step / (CHUNK_STEPS * SPAN_CHUNKS) * SPAN_KEYS, SPAN_KEYS, sight" or ""});
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

$ end
$ for _, set in ipairs(sets) do
$ local ragged = set == "ragged"
$ if ragged then

/* The same of ragged sequences. */
GLINT_KERNEL(32 * MERGE_WARPS, 1) ${symbol}_ragged_merge(GLINT_PARAMS(struct glint_decode_ragged_params) call)
{
    const struct glint_decode_params &p = call.base.base;
$ else
/* Folds what the blocks of ${symbol} left in the workspace. A block takes 16 columns of two neighbouring rows, a lane one number; a warp folds
 * the steps of a chunk, the chunks of a span or takes a span, and the first warp folds the results of all. */
GLINT_KERNEL(32 * MERGE_WARPS, 1) ${symbol}_merge(GLINT_PARAMS(struct glint_decode_params) p)
{
$ end
$ if device_ragged then
    using namespace ${set};
$ end
    const uint32_t lane = lane_index(), warp = warp_index();
    const uint32_t pairs = (uint32_t)(p.rows + 1) / 2;
    const uint32_t by_pair = block_index() / DIM_TILES, by_head = by_pair / pairs, pair = by_pair - by_head * pairs;
    const int32_t dt = (int32_t)(block_index() - by_pair * DIM_TILES);
    const int32_t batch = (int32_t)(by_head / (uint32_t)p.shape.heads_kv);
    const int32_t first_row = (int32_t)(2 * pair) % TILE_M, rt = first_row / 8;
    ${ragged and "struct tile tile =" or "const struct tile tile ="}
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
    const ${device_ragged and "auto" or "struct sequence_rows"} own = find_sequence(&p, tile.batch);
    if (tile.row0 + first_row >= own.rows)
        return;
$ if ragged then
    tile.first_q = own.first_q;
$ end
    const int32_t mine_row = min(own.rows - 1, tile.row0 + first_row + (int32_t)(lane & 1)), next = min(own.rows - 1, tile.row0 + first_row + 1);
    const int32_t end = end_of_row(&p, mine_row, own), most = end_of_row(&p, next, own); /* most: of the two rows */
$ if band then
    const int32_t begin = begin_of_row(&p, mine_row, own), left = first_entry(&p, &tile, own), round = MERGE_WARPS * group;
$ end
    auto seen = [&](int32_t entry, int32_t entries) {
        return entry * entry_keys < end${band and " && (entry + entries) * entry_keys > begin" or ""};
    };

    begin_merged(row);
#pragma unroll 1
    for (int32_t first = ${band and "left / round * round" or "0"}; first * entry_keys < most; first += MERGE_WARPS * group) {
        const int32_t mine = first + (int32_t)warp * group;
        struct merged part, more[SPAN_CHUNKS];

#pragma unroll
        for (int i = 0; i < SPAN_CHUNKS; ++i) {
            begin_merged(more[i]);
            if (i < group && seen(mine + i, 1)) {
                more[i].maximum = ld_global_f32(row_at + (mine + i${band and " - left" or ""}) * row_step);
                more[i].sum = ld_global_f32(sum_at + (mine + i${band and " - left" or ""}) * row_step);
                more[i].o = ld_global_f32(o_at + (mine + i${band and " - left" or ""}) * o_step);
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
        store_merged(&p, &tile, own.rows, tile.row0 + first_row, dt, row, sink, end > ${band and "begin" or "0"});
}
$ end
