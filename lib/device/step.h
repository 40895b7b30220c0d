/* A server's step: any number of queries of each sequence against its keys, in one launch, with the bits of any other
 * launch.
 *
 * Rows are (query, query head) pairs of a group of at most 16 heads that share a key head: 16 rows, a block, are as
 * many queries as have all their heads there, and 8 blocks, in sm80 4, are a tile of rows. A tile's keys are walked
 * over from left to right, TILE_N at a time.
 *
 * The canonical order is a matter of a row and of the positions of its keys alone:
 *     tiles    of TILE_N keys begin at multiples of TILE_N;
 *     spans    of tiles begin at fixed tiles (struct spans_of). Each has a softmax of its own, whose maximum follows as
 *              follow_maxima says;
 *     folds    of spans go from the left, by fold_span alone, wherever they are made.
 * A tile that a row does not see changes nothing of it, and a span that it does not see folds as the identity. So it
 * does not matter who shares the row's tile, where its keys lie, or which blocks work on which spans.
 * step_plan.h decides the latter. */
#ifndef GLINT_DEVICE_STEP_H
#define GLINT_DEVICE_STEP_H

#include "lib/device/bias.h"
#include "lib/device/decode/narrow.h"
#include "lib/device/keys.h"
#include "lib/device/ragged.h"
#include "lib/device/row_softmax.h"
#include "lib/device/step_call.h"
#include "lib/device/tree.h"

enum {
    STEP_ROWS = 128, /* of a tile of two warpgroups: 64 each */
    STEP_BLOCKS = 8, /* of 16 rows */
};

/* ---- spans of keys ------------------------------------------------------------------------------------------- */

/* 16 spans of `first` tiles, 8 of twice as many, and then of four times as many: from the 9th on no span is longer
 * than an eighth of what is before it, so that a few heads fill the machine, and long prompts fold seldom. Unless they
 * grow, all are of `first` tiles: a window shows as few keys at the end of a sequence as at its beginning. With
 * intervals it is the call that has a window or none: so intervals which hide nothing change no bit. */
template <int first, class Band> struct spans_of {
    GLINT_DEVICE bool grow(const struct glint_gpu_step &p)
    {
        return Band::INTERVALS ? p.base.sequences.left <= -(1 << 30) : !Band::LEFT;
    }
    /* The first tile of span i. */
    GLINT_DEVICE int32_t begin(const struct glint_gpu_step &p, int32_t i)
    {
        return (!grow(p) || i < 16 ? i : i < 24 ? 2 * i - 16 : 4 * i - 64) * first;
    }
    /* The span of a tile. */
    GLINT_DEVICE int32_t of(const struct glint_gpu_step &p, int32_t tile)
    {
        const int32_t at = tile / first;

        return !grow(p) || at < 16 ? at : at < 32 ? 8 + at / 2 : 16 + at / 4;
    }
    /* How many spans end before tile `end` or with it. */
    GLINT_DEVICE int32_t count(const struct glint_gpu_step &p, int32_t end)
    {
        return end > 0 ? of(p, end - 1) + 1 : 0;
    }
    /* How many spans have one of so many tiles that follow one another, at most; from tile 0 on, if spans grow. */
    GLINT_DEVICE int32_t most(const struct glint_gpu_step &p, int32_t tiles)
    {
        return grow(p) ? count(p, tiles) : (tiles + first - 2) / first + 1;
    }
    /* The first span of chunk c of n, of tiles `from` to `end` - 1: the one that begins nearest; the first chunk is
     * never empty. */
    GLINT_DEVICE int32_t of_chunk(const struct glint_gpu_step &p, int32_t c, int32_t n, int32_t from, int32_t end)
    {
        const int32_t own = of(p, from), all = max(own, count(p, end));
        if (c == 0 || c == n)
            return c == 0 ? own : all;
        const int32_t at = from + (int32_t)((uint32_t)(c * max(0, end - from)) / (uint32_t)n), span = of(p, at),
                      before = begin(p, span), after = begin(p, span + 1);

        return max(own + 1, min(all, at - before > (after - before) / 2 ? span + 1 : span));
    }
};

/* What the order of a kernel's sums depends on; and, which does not matter to it, how many blocks of 16 rows are a tile
 * of rows. */
template <int HEAD_DIM_, int TILE_N_, int FIRST_SPAN, class Band_, int BLOCKS_ = STEP_BLOCKS> struct step_order {
    enum { HEAD_DIM = HEAD_DIM_, TILE_N = TILE_N_, BLOCKS = BLOCKS_ };
    typedef Band_ Band;
    typedef struct spans_of<FIRST_SPAN, Band> spans;
};

/* What a score is multiplied by to be an exponent of 2; a negative scale goes into Q. */
template <class Bias> GLINT_DEVICE float scale_of(const struct glint_gpu_step &p)
{
    return exponent_scale<Bias>(p.base.shape);
}

/* ---- folding ------------------------------------------------------------------------------------------------- */

/* What has become of a row in some spans: its maximum, and its sum of weights relative to it. */
struct span_row {
    float max, sum;
};

struct fold_factors {
    float before, span;
};

/* `row`, of the spans before, becomes that of `span`, too. What O of either is multiplied by; see fold. A span
 * without weights is left out. */
GLINT_DEVICE struct fold_factors fold_span(struct span_row &row, const struct span_row &span, float scale)
{
    const float before = row.sum == 0.0f ? -GLINT_INFINITY : row.max, own = span.sum == 0.0f ? -GLINT_INFINITY : span.max;
    const float now = fmaxf(before, own);
    const struct fold_factors f = {row.sum == 0.0f ? 0.0f : ex2((before - now) * scale),
                                   span.sum == 0.0f ? 0.0f : ex2((own - now) * scale)};

    row.sum = fmaf(row.sum, f.before, span.sum * f.span);
    row.max = now;
    return f;
}

GLINT_DEVICE float fold(float before, float span, const struct fold_factors &f)
{
    return fmaf(before, f.before, span * f.span);
}

/* Hides the keys before first[half], counted from this thread's first key of the tile on: hide_after's other side. */
template <int keys> GLINT_DEVICE void hide_before(float (&s)[keys / 2], const int32_t (&first)[2])
{
#pragma unroll
    for (int i = 0; i < keys / 2; ++i)
        s[i] = i / 4 * 8 + i % 2 < first[i / 2 % 2] ? -GLINT_INFINITY : s[i];
}

/* ---- where rows and keys are --------------------------------------------------------------------------------- */

/* A sequence of the call: its band, and the first of its rows in tensors of which `batch` says which part is its own.
 */
struct step_sequence {
    struct sequence own;
    int32_t first_q, first_k;
};

/* The mask of a sequence. */
template <class Band>
GLINT_DEVICE Band mask_of(const struct glint_gpu_step &p, const struct sequence &own, int32_t batch, int32_t first_q)
{
    const struct glint_gpu_sequences &all = p.base.sequences;

    return mask_of<Band>(p.base, own, all.first_q ? first_q : (int64_t)batch * all.bound_q);
}

/* A band in which all that a mask shows lies: all that a plan knows of the mask. It is the mask itself, or the window
 * beside intervals. */
template <class Band> GLINT_DEVICE auto hull_of(const struct sequence &own)
{
    if constexpr (Band::INTERVALS)
        return mask_of<window_mask>(own);
    else
        return mask_of<Band>(own);
}

/* Of a tree a query may stand anywhere among the new keys, or before all of them: the sides that all queries have. */
template <class Band> GLINT_DEVICE void widen_hull(struct sequence &own, const struct glint_gpu_sequences &p)
{
    if constexpr (Band::TREE) {
        const int32_t before = own.seqlen_k - own.seqlen_q, offset = p.bottom_right ? before : 0;

        own.left = max(-own.seqlen_q, min(own.seqlen_k, offset + p.left - own.seqlen_q));
        own.right = own.seqlen_k;
    }
}

/* Row `row` of a tile, whose first query is query0: its query and query head of the group. */
struct step_row {
    int32_t query, head;
    bool exists;
};

GLINT_DEVICE struct step_row row_of_tile(const struct glint_gpu_step &p, int32_t row, int32_t query0, int32_t seqlen_q)
{
    const uint32_t group = (uint32_t)p.group, in_block = (uint32_t)row % 16;
    const uint32_t query = in_block * ((255 + group) / group) >> 8; /* in_block / group, below 16 */
    const struct step_row r = {query0 + row / 16 * p.block_queries + (int32_t)query, (int32_t)(in_block - query * group),
                               (int32_t)query < p.block_queries};

    return {r.query, r.head, r.exists && r.query < seqlen_q};
}

/* The row of K and V, and which of their batch or pages it is in, where key `key` of a sequence is. */
struct key_place {
    int32_t row, batch;
};

GLINT_DEVICE struct key_place place_of_key(const struct glint_gpu_step &p, int32_t batch, int32_t first_k, int32_t key)
{
    if (p.base.pages.table)
        return {key & ((1 << p.base.pages.shift) - 1),
                page_of_key(p.base.pages, p.base.pages.table + (int64_t)batch * p.base.pages.per_sequence, key)};
    return {first_k + key, p.base.sequences.first_q ? 0 : batch};
}

/* ---- special values ------------------------------------------------------------------------------------------ */

/* NaN and infinities of V to the rows that see them, from memory: those of keys `from` ... `end` - 1, where they were
 * removed. sees(half, key): whether that row of the thread's two sees a key. Of 8 bits (Stored) there is NaN alone, and
 * which columns of 128 have it is one number: a lane has two of every eight. */
template <class Element, class Stored, int n, class sees_t>
GLINT_DEVICE void add_special_of(float (&o)[n], const struct glint_gpu_step &p, int32_t batch, int32_t first_k, int32_t head,
                                 int32_t from, int32_t end, const sees_t &sees)
{
    const uint32_t lane = lane_index() % 4;

#pragma unroll 1
    for (int32_t key = from; key < end; ++key) {
        const struct key_place at = place_of_key(p, batch, first_k, key);
        if constexpr (Stored::WIDENED) {
            const char *row = view_row(&p.base.v, at.batch, head, at.row, 1) + lane / 2 * 4;

#pragma unroll
            for (int first = 0; first < n; first += 64) { /* of 128 columns a lane has 32 */
                uint32_t columns = 0;

#pragma unroll 1
                for (int i = first / 4; i < min(first + 64, n) / 4; ++i) {
                    const uint32_t nan = decode::nan_bits(bits_of(ld_global_f32((const float *)(row + 8 * i)))) >> lane % 2 * 16;

                    columns |= (nan >> 7 & 1 | nan >> 14 & 2) << (2 * i - first / 2);
                }
                if (columns != 0)
#pragma unroll
                    for (int i = 0; i < n; ++i)
                        if (i / 64 == first / 64 && (columns >> ((i - first) / 4 * 2 + i % 2) & 1) != 0 && sees(i / 2 % 2, key))
                            o[i] = float_of(0x7fffffffu);
            }
        } else {
            const char *row = view_row(&p.base.v, at.batch, head, at.row, 2) + 4 * lane;
            add_special_key<Element>(o, row, [&](const int half) { return sees(half, key); });
        }
    }
}

/* Lowers the word for a fault to the first sequence some of whose keys that a query sees are in a page outside of the
 * pool: `threads` threads of each block, of which this is number `thread`, look at every p.blocks-th sequence. */
GLINT_DEVICE void note_pages(const struct glint_gpu_step &p, const struct sequence &own, int32_t sequence, uint32_t thread,
                             const uint32_t threads)
{
    const int32_t *table = p.base.pages.table + (int64_t)sequence * p.base.pages.per_sequence;
    const int32_t last = min(own.seqlen_k, own.seqlen_q + own.right) - 1;

    if (own.seqlen_q == 0 || own.left > last)
        return;
#pragma unroll 1
    for (int32_t index = (max(0, own.left) >> p.base.pages.shift) + (int32_t)thread; index <= last >> p.base.pages.shift;
         index += (int32_t)threads)
        if ((uint32_t)int_at(table, index) >= (uint32_t)p.base.pages.count)
            atomicMin(p.base.sequences.fault, (uint32_t)sequence);
}

/* ---- partial results ----------------------------------------------------------------------------------------- */

/* A slot holds O, the maximum and the sum of `rows` rows of a tile, a multiple of 16, as the threads hold them. This
 * thread's part of it: columns 8 i + 2 (lane & 3) + {0, 1} of rows lane / 4 and lane / 4 + 8 of block `block`. */
template <int HEAD_DIM> GLINT_DEVICE float *slot_of_block(float *slot, int32_t block)
{
    return slot + (block * (HEAD_DIM / 8) * 32 + (int32_t)lane_index()) * 4;
}

template <int HEAD_DIM> GLINT_DEVICE float *rows_of_block(float *slot, int32_t rows, int32_t block)
{
    return slot + rows * HEAD_DIM + 2 * (16 * block + (int32_t)lane_index() / 4);
}

template <int HEAD_DIM>
GLINT_DEVICE void write_slot(float *slot, int32_t slot_rows, int32_t block, const float (&o)[HEAD_DIM / 2],
                             const struct span_row (&rows)[2])
{
    float *to = slot_of_block<HEAD_DIM>(slot, block), *row = rows_of_block<HEAD_DIM>(slot, slot_rows, block);

    if (16 * block >= slot_rows)
        return;
#pragma unroll
    for (int i = 0; i < HEAD_DIM / 8; ++i) {
        const uint32_t v[4] = {bits_of(o[4 * i]), bits_of(o[4 * i + 1]), bits_of(o[4 * i + 2]), bits_of(o[4 * i + 3])};

        st_global_u32x4(to + 128 * i, v);
    }
    if (lane_index() % 4 == 0) {
        st_global_f32x2(row, rows[0].max, rows[0].sum);
        st_global_f32x2(row + 16, rows[1].max, rows[1].sum);
    }
}

/* The same back: the maxima and sums alone, and with O. */
template <int HEAD_DIM> GLINT_DEVICE void read_rows(float *slot, int32_t slot_rows, int32_t block, struct span_row (&rows)[2])
{
    float *row = rows_of_block<HEAD_DIM>(slot, slot_rows, block);

    warp_sync(); /* the rows' words are other lanes' */
    rows[0] = {ld_global_cg_f32(row), ld_global_cg_f32(row + 1)};
    rows[1] = {ld_global_cg_f32(row + 16), ld_global_cg_f32(row + 17)};
    warp_sync(); /* and may be written again */
}

template <int HEAD_DIM>
GLINT_DEVICE void read_slot(float *slot, int32_t slot_rows, int32_t block, float (&o)[HEAD_DIM / 2], struct span_row (&rows)[2])
{
    float *from = slot_of_block<HEAD_DIM>(slot, block);

    if (16 * block >= slot_rows)
        return;
#pragma unroll
    for (int i = 0; i < HEAD_DIM / 8; ++i)
        ld_four(o + 4 * i, from + 128 * i, 1);
    read_rows<HEAD_DIM>(slot, slot_rows, block, rows);
}

/* ---- results ------------------------------------------------------------------------------------------------- */

/* What O of a row is multiplied by, and its LSE. `sees`: whether it sees a key. */
template <class Bias, int below>
GLINT_DEVICE void finish_row(float &inverse, float &lse, const struct span_row &row, const struct glint_gpu_call &t, int32_t head_q,
                             bool sees)
{
    inverse = inverse_of(row.sum, [&]() { return sees; });
    lse = log_sum<below>(row.max, row.sum, natural_scale<Bias>(t.shape));
    if (t.sinks)
        add_sink<below>(inverse, lse, row.max, row.sum, natural_scale<Bias>(t.shape), ld_global_f32(t.sinks + head_q));
}

/* Two numbers of O. A sum of -0 becomes 0, as a fold makes it: so it does not matter whether there was one. */
template <class Element> GLINT_DEVICE uint32_t finish_pair(float first, float second, float inverse)
{
    return Element::pack(fmaf(first, inverse, 0.0f), fmaf(second, inverse, 0.0f));
}

/* Rows of a head of LSE. */
GLINT_DEVICE int32_t lse_rows(const struct glint_gpu_step &p)
{
    return p.base.sequences.first_q ? p.base.sequences.rows_q : p.base.sequences.bound_q;
}

GLINT_DEVICE float *lse_of_row(const struct glint_gpu_step &p, int32_t batch, int32_t head_q, int32_t row)
{
    return p.base.lse + (int64_t)(batch * p.base.shape.heads_q + head_q) * lse_rows(p) + row;
}

#endif
