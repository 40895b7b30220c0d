/* Steps of the forward kernels whose products are a warpgroup's (sm_90a): which tile a block works on, softmax of the 64 queries that a
 * warpgroup owns, and how their results leave. */
#ifndef GLINT_DEVICE_WARPGROUP_FORWARD_H
#define GLINT_DEVICE_WARPGROUP_FORWARD_H

#include "lib/device/score.h"
#include "lib/device/warpgroup.h"

enum { MAP_Q, MAP_K, MAP_V }; /* in the order of the kernel's descriptor */

/* ---- where to work -------------------------------------------------------------------------------------------------------- */

/* A tile of queries of one head. */
struct tile_work {
    int32_t query0, batch, head_q;
    int32_t blocks;       /* of keys that some query of the tile sees; without a mask, or with a window, at least one */
    int32_t first_masked; /* the first block with a key that some query does not see */
};

/* Tile number `tile`; false if there is no such tile. Without a mask, one head after another. With one, the last queries see the most keys,
 * so they come first: of a section of heads, whose keys and values should stay in L2 (a section twice as large takes 5 to 15 % longer at 512
 * and 1024 keys). But few and long heads leave long tiles for the end: at 16384 keys sections of 1 to 4 heads take 4 to 10 % longer than
 * those of 16. */
template <int TILE_M, bool causal>
GLINT_DEVICE bool place_tile(struct tile_work &work, const struct glint_gpu_shape &shape, uint32_t tile)
{
    const uint32_t tiles = (shape.seqlen_q + TILE_M - 1) / TILE_M, heads = shape.batch * shape.heads_q;

    if (tile >= tiles * heads)
        return false;
    const struct block_place place = find_place(tile, tiles, heads, causal ? max(16u, (uint32_t)shape.section) : 1);

    work.query0 = (causal ? (int32_t)tiles - 1 - place.index : place.index) * TILE_M;
    work.batch = place.head / shape.heads_q;
    work.head_q = place.head - work.batch * shape.heads_q;
    return true;
}

/* Which keys a placed tile walks over. Here and below `shape` has the lengths and the sides of the band: the call's, or a sequence's own. */
template <int TILE_M, int TILE_N, bool causal, class Shape> GLINT_DEVICE void find_keys(struct tile_work &work, const Shape &shape)
{
    const int32_t after = min(work.query0 + TILE_M, shape.seqlen_q) + shape.mask_offset; /* first key that none sees */
    const int32_t keys = causal ? min(shape.seqlen_k, after) : shape.seqlen_k;

    work.first_masked = (causal ? max(0, min(shape.seqlen_k, work.query0 + shape.mask_offset + 1)) : keys) / TILE_N;
    work.blocks = max(causal ? 0 : 1, (keys + TILE_N - 1) / TILE_N);
}

template <int TILE_M, int TILE_N, bool causal>
GLINT_DEVICE bool find_tile(struct tile_work &work, const struct glint_gpu_shape &shape, uint32_t tile)
{
    if (!place_tile<TILE_M, causal>(work, shape, tile))
        return false;
    find_keys<TILE_M, TILE_N, causal>(work, shape);
    return true;
}

/* A head's first tiles, whose queries see no key: the mask's diagonal is bottom right, and queries are more than keys. */
template <int TILE_M> GLINT_DEVICE uint32_t count_blind_tiles(const struct glint_gpu_shape &shape)
{
    if (shape.seqlen_k == 0 || -shape.mask_offset >= shape.seqlen_q)
        return (shape.seqlen_q + TILE_M - 1) / TILE_M;
    return max(0, -shape.mask_offset) / TILE_M;
}

/* They are written in larger parts, 128 KB: to hand one out takes as long as to write 32 KB. */
template <int TILE_M, int HEAD_DIM> struct blind_part {
    enum { ROWS = (65536 / HEAD_DIM > TILE_M ? 65536 / HEAD_DIM / TILE_M : 1) * TILE_M };
};

/* The number for place_tile of what is worked on in place `nth` under a mask: tiles that see a key, in the order of their numbers, then parts
 * of blind ones, by their first tile. Beyond the last one a number that is no tile's. */
template <int TILE_M, int HEAD_DIM> GLINT_DEVICE uint32_t blind_last(const struct glint_gpu_shape &shape, uint32_t nth)
{
    enum { TILES = blind_part<TILE_M, HEAD_DIM>::ROWS / TILE_M };
    const uint32_t blind = count_blind_tiles<TILE_M>(shape), tiles = (shape.seqlen_q + TILE_M - 1) / TILE_M;
    const uint32_t heads = shape.batch * shape.heads_q, section = min(max(16u, (uint32_t)shape.section), heads);
    const uint32_t seeing = (tiles - blind) * heads, parts = (blind + TILES - 1) / TILES;

    if (blind == 0)
        return nth;
    if (nth < seeing)
        return nth + nth / (section * (tiles - blind)) * section * blind;
    const uint32_t head = (nth - seeing) / parts, tile = (nth - seeing - head * parts) * TILES;
    const uint32_t first = head / section * section, size = min(section, heads - min(heads, first));

    return head < heads ? first * tiles + (tiles - 1 - tile) * size + head - first : tiles * heads;
}

template <int TILE_M, int HEAD_DIM>
GLINT_DEVICE int32_t end_of_blind(const struct tile_work &work, const struct glint_gpu_shape &shape)
{
    const int32_t end = min(shape.seqlen_q, (int32_t)count_blind_tiles<TILE_M>(shape) * TILE_M);

    return min(work.query0 + (int32_t)blind_part<TILE_M, HEAD_DIM>::ROWS, end);
}

/* Blocks of the tile, the first ones, that the warpgroup of queries query0 ... walks over: those that one of them sees, but at least one. */
template <int TILE_N, bool causal, class Shape>
GLINT_DEVICE int32_t own_blocks(const struct tile_work &work, const Shape &shape, int32_t query0)
{
    if (query0 >= shape.seqlen_q)
        return 1;
    if (!causal)
        return work.blocks;
    const int32_t keys = min(shape.seqlen_k, min(query0 + 64, shape.seqlen_q) + shape.mask_offset);

    return max(1, (keys + TILE_N - 1) / TILE_N);
}

/* ---- windows: where to work, and what a warpgroup sees -------------------------------------------------------------------------- */

/* A tile whose queries do not see the first keys, either. It walks over blocks from blocks - 1 down to first. */
struct window_work : tile_work {
    int32_t first;      /* the first block with a key that some query sees, below `blocks` */
    int32_t whole_from; /* the first block with no key that is before some query's first one */
};

/* The part of the keys that a tile walks over without windows. */
template <int TILE_M, int TILE_N, class Shape> GLINT_DEVICE void narrow_keys(struct window_work &work, const Shape &shape)
{
    const int32_t last_query = min(work.query0 + TILE_M, shape.seqlen_q) - 1;

    work.blocks = max(1, work.blocks);
    work.first = min(work.blocks - 1, max(0, work.query0 + shape.mask_first) / TILE_N);
    work.whole_from = (max(0, last_query + shape.mask_first) + TILE_N - 1) / TILE_N;
}

template <int TILE_M, int TILE_N>
GLINT_DEVICE bool find_window(struct window_work &work, const struct glint_gpu_shape &shape, uint32_t tile)
{
    if (!find_tile<TILE_M, TILE_N, true>(work, shape, tile))
        return false;
    narrow_keys<TILE_M, TILE_N>(work, shape);
    return true;
}

template <int TILE_M, int TILE_N, class Shape> GLINT_DEVICE void find_window_keys(struct window_work &work, const Shape &shape)
{
    find_keys<TILE_M, TILE_N, true>(work, shape);
    narrow_keys<TILE_M, TILE_N>(work, shape);
}

/* Whether some query of the tile does not see some key of a block. */
GLINT_DEVICE bool is_cut(const struct tile_work &work, int32_t block)
{
    return block >= work.first_masked;
}

GLINT_DEVICE bool is_cut(const struct window_work &work, int32_t block)
{
    return block >= work.first_masked || block < work.whole_from;
}

/* Blocks that the warpgroup of queries query0 ... walks over: those that one of them sees, but at least one. */
struct own_window {
    int32_t first, last;
};

template <int TILE_N, class Shape>
GLINT_DEVICE struct own_window find_own(const struct window_work &work, const Shape &shape, int32_t query0)
{
    struct own_window own = {work.first, work.first};

    if (query0 < shape.seqlen_q) {
        own.first = min(work.blocks - 1, max(0, query0 + shape.mask_first) / TILE_N);
        own.last = max(own.first, own_blocks<TILE_N, true>(work, shape, query0) - 1);
    }
    return own;
}

/* Whether one of these queries does not see some key of a block. Of a tile's cut blocks a warpgroup has half as many. */
template <int TILE_N, class Shape> GLINT_DEVICE bool cuts_own(const Shape &shape, int32_t query0, int32_t block)
{
    return block * TILE_N + TILE_N - 1 > min(query0 + shape.mask_offset, shape.seqlen_k - 1) ||
           block * TILE_N < query0 + 63 + shape.mask_first;
}

/* The first of this thread's two queries among its warpgroup's 64; the other is 8 further. */
GLINT_DEVICE int32_t own_query(void)
{
    return (int32_t)(thread_index() % 128 / 32 * 16 + lane_index() / 4);
}

/* ---- softmax ------------------------------------------------------------------------------------------------------------ */

/* A thread has keys 8 j + 2 (lane & 3) + {0, 1} of queries lane / 4 (half 0) and lane / 4 + 8 (half 1) of its warp's sixteen:
 * s[4 j + 2 half + {0, 1}]. Maxima are a query's, so the same in the four lanes of a quad; sums are the thread's own part. */
struct softmax_rows {
    float max[2], sum[2];
};

GLINT_DEVICE void softmax_begin(struct softmax_rows &rows)
{
    rows.max[0] = rows.max[1] = -GLINT_INFINITY;
    rows.sum[0] = rows.sum[1] = 0.0f;
}

/* Hides the keys after last[half], counted from this thread's first key of the block on. */
template <int keys> GLINT_DEVICE void hide_after(float (&s)[keys / 2], const int32_t (&last)[2])
{
#pragma unroll
    for (int i = 0; i < keys / 2; ++i)
        s[i] = i / 4 * 8 + i % 2 > last[i / 2 % 2] ? -GLINT_INFINITY : s[i];
}

/* Hides what the mask and the end of the keys hide of a block's scores. query0: the warpgroup's first. */
template <int keys, bool causal, class Shape>
GLINT_DEVICE void hide_scores(float (&s)[keys / 2], const Shape &shape, int32_t query0, int32_t block)
{
    const int32_t first_key = block * keys + 2 * (int32_t)(lane_index() % 4);
    const int32_t query = query0 + own_query();
    const int32_t last[2] = {
        causal ? min(query + shape.mask_offset, shape.seqlen_k - 1) - first_key : shape.seqlen_k - 1 - first_key,
        causal ? min(query + 8 + shape.mask_offset, shape.seqlen_k - 1) - first_key : shape.seqlen_k - 1 - first_key};

    hide_after<keys>(s, last);
}

/* Hides the keys before each query's first one, too. */
template <int keys, class Shape>
GLINT_DEVICE void hide_window(float (&s)[keys / 2], const Shape &shape, int32_t query0, int32_t block)
{
    const int32_t first_key = block * keys + 2 * (int32_t)(lane_index() % 4);
    const int32_t first = query0 + own_query() + shape.mask_first - first_key;

    hide_scores<keys, true>(s, shape, query0, block);
#pragma unroll
    for (int i = 0; i < keys / 2; ++i)
        s[i] = i / 4 * 8 + i % 2 < first + i / 2 % 2 * 8 ? -GLINT_INFINITY : s[i];
}

/* Exponents are relative to a maximum that follows the true one only when that has grown by more than 2^12. A query's greatest weight is
 * then 2^-BELOW again, and is never beyond 2^(12 - BELOW). O and the sums carry the same factor, so the result is the same, and most
 * blocks need no rescaling; a quad's lanes need not even know each other's maxima. What is done to a row depends on that row alone. With
 * a mask, whose first block may show a single key, a growth of 2^4 takes 8 % longer than one of 2^8.
 *
 * shift is what scaled scores are shifted by: the maximum times the scale, rounded, and what the rounding leaves over is an exponent that
 * all weights of the row have in common. So that it stays below 1, scores beyond 10^7 are made relative to the maximum here, before they
 * are scaled; so are those of a row that has seen nothing yet (-inf). Returns whether what was summed before is to be multiplied by
 * factor[half], the same in all lanes. */
template <int keys, int below>
GLINT_DEVICE bool follow_maxima(struct softmax_rows &rows, float (&s)[keys / 2], float (&shift)[2], float (&factor)[2], float scale)
{
    float maxima[2] = {s[0], s[2]};
    bool wanted = false;

#pragma unroll
    for (int i = 0; i < keys / 2; ++i)
        maxima[i / 2 % 2] = fmaxf(maxima[i / 2 % 2], s[i]);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        shift[half] = fmaf(-rows.max[half], scale, (float)-below);
        wanted |= !(fmaf(maxima[half], scale, shift[half]) <= (float)(12 - below)) || !(fabsf(shift[half]) < 1e7f);
    }
    wanted = warp_any(wanted);
    if (!wanted)
        return false;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const float before = rows.max[half], maximum = quad_max(maxima[half]);
        const bool grown = !(fmaf(maximum, scale, shift[half]) <= (float)(12 - below));
        const float now = grown ? fmaxf(before, maximum) : before;
        const bool moderate = fabsf(now) * scale < 1e7f;

        factor[half] = before != -GLINT_INFINITY && grown ? ex2((before - now) * scale) : 1.0f;
        rows.max[half] = now;
        rows.sum[half] *= factor[half];
        shift[half] = moderate ? fmaf(-now, scale, (float)-below) : (float)-below;
        if (!moderate && now != -GLINT_INFINITY) {
#pragma unroll
            for (int i = 0; i < keys / 2; ++i)
                if (i / 2 % 2 == half)
                    s[i] -= now;
        }
    }
    return true;
}

/* P = 2^(scale (S - max) - BELOW), in place of S; a query that has seen nothing yet keeps zeros. */
template <int keys>
GLINT_DEVICE void make_weights(struct softmax_rows &rows, float (&s)[keys / 2], const float (&shift)[2], float scale)
{
    float odd[2] = {0.0f, 0.0f}; /* a second chain of additions */

#pragma unroll
    for (int i = 0; i < keys / 2; ++i) {
        s[i] = ex2(fmaf(s[i], scale, shift[i / 2 % 2]));
        if (i % 2)
            odd[i / 2 % 2] += s[i];
        else
            rows.sum[i / 2 % 2] += s[i];
    }
    rows.sum[0] += odd[0];
    rows.sum[1] += odd[1];
}

template <int columns> GLINT_DEVICE void rescale(float (&o)[columns / 2], const float (&factor)[2])
{
#pragma unroll
    for (int i = 0; i < columns / 2; ++i)
        o[i] *= factor[i / 2 % 2];
}

/* Whether a query sees a key. Where a mask has no side the shape has one that hides nothing. */
template <class Shape> GLINT_DEVICE bool sees_any_key(const Shape &shape, int32_t query)
{
    return shape.seqlen_k > 0 && query >= -shape.mask_offset && query + shape.mask_first < shape.seqlen_k;
}

/* What O of a row is multiplied by. A sum of zero is that of a query that sees no key, whose O is 0; or its scores are all -inf, and O, 0 / 0, is
 * NaN, which 0 times infinity is. sees(query): whether it sees a key. */
template <class sees_t> GLINT_DEVICE float inverse_of(float sum, int32_t query, const sees_t &sees)
{
    return sum == 0.0f ? (sees(query) ? GLINT_INFINITY : 0.0f) : 1.0f / sum;
}

/* Natural logarithm of a row's sum of exponentials, of which the sum of weights and their maximum are known. */
template <int below> GLINT_DEVICE float log_sum(float max, float sum, float softmax_scale)
{
    return sum == 0.0f ? -GLINT_INFINITY : fmaf(lg2(sum) + (float)below, 0.693147180559945309f, max * fabsf(softmax_scale));
}

/* words[j] of lane q of a quad becomes words[q] of its lane j. */
GLINT_DEVICE void quad_transpose(uint32_t (&words)[4])
{
    const bool odd = lane_index() & 1, upper = lane_index() & 2;

#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const uint32_t other = bits_of(shfl_xor(float_of(odd ? words[i] : words[i + 1]), 1));

        words[i] = odd ? other : words[i];
        words[i + 1] = odd ? words[i + 1] : other;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const uint32_t other = bits_of(shfl_xor(float_of(upper ? words[i] : words[i + 2]), 2));

        words[i] = upper ? other : words[i];
        words[i + 2] = upper ? words[i + 2] : other;
    }
}

/* ---- results -------------------------------------------------------------------------------------------------------------- */

/* NaN and infinities of V to the queries that see them, from memory: those of the blocks that the mask cuts, where they were removed. */
template <class Element, int TILE_N, int n, class Shape>
GLINT_DEVICE void add_special(float (&o)[n], const struct glint_gpu_call &t, const struct tile_work &work, int32_t query0,
                              const Shape &shape)
{
    const int32_t query = query0 + own_query() + shape.mask_offset;

#pragma unroll 1
    for (int32_t key = work.first_masked * TILE_N; key < min(work.blocks * TILE_N, shape.seqlen_k); ++key) {
        const char *row = view_row(&t.v, work.batch, work.head_q / t.shape.group, key, 2) + 4 * (lane_index() % 4);
#pragma unroll
        for (int i = 0; i < n; i += 4) {
            const uint32_t pair = bits_of(ld_global_f32((const float *)(row + 4 * i)));
            const uint32_t special = pair ^ finite_part(pair, Element::EXPONENT, 2);
#pragma unroll
            for (int half = 0; half < 2; ++half)
                if (special != 0 && key <= query + 8 * half) {
                    o[i + 2 * half] += Element::low(special);
                    o[i + 2 * half + 1] += Element::high(special);
                }
        }
    }
}

/* The same of a window: the blocks that either side of it cuts. */
template <class Element, int TILE_N, int n, class Shape>
GLINT_DEVICE void add_special(float (&o)[n], const struct glint_gpu_call &t, const struct window_work &work, int32_t query0,
                              const Shape &shape)
{
    const int32_t query = query0 + own_query();

#pragma unroll 1
    for (int32_t key = work.first * TILE_N; key < min(work.blocks * TILE_N, shape.seqlen_k); ++key) {
        if (!is_cut(work, key / TILE_N))
            continue;
        const char *row = view_row(&t.v, work.batch, work.head_q / t.shape.group, key, 2) + 4 * (lane_index() % 4);
#pragma unroll
        for (int i = 0; i < n; i += 4) {
            const uint32_t pair = bits_of(ld_global_f32((const float *)(row + 4 * i)));
            const uint32_t special = pair ^ finite_part(pair, Element::EXPONENT, 2);
#pragma unroll
            for (int half = 0; half < 2; ++half)
                if (special != 0 && key <= query + 8 * half + shape.mask_offset && key >= query + 8 * half + shape.mask_first) {
                    o[i + 2 * half] += Element::low(special);
                    o[i + 2 * half + 1] += Element::high(special);
                }
        }
    }
}

/* Of a call whose sequences all have its lengths. */
template <class Element, int TILE_N, int n, class Work>
GLINT_DEVICE void add_special(float (&o)[n], const struct glint_gpu_call &t, const Work &work, int32_t query0)
{
    add_special<Element, TILE_N>(o, t, work, query0, t.shape);
}

/* O / sum and the logarithms of the sums go to memory. */
template <class Element, int below, int n>
GLINT_DEVICE void write_output(float (&o)[n], const struct softmax_rows &rows, const struct glint_gpu_call &t,
                               const struct tile_work &work, int32_t query0)
{
    const int32_t row0 = query0 + own_query();

#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int32_t row = row0 + 8 * half;
        const float sum = quad_sum(rows.sum[half]);
        const float inverse = inverse_of(sum, row, [&](int32_t query) { return sees_any_key(t.shape, query); });
        char *to = view_row(&t.o, work.batch, work.head_q, row, 2) + 16 * (lane_index() % 4);

        if (lane_index() % 4 == 0 && row < t.shape.seqlen_q)
            st_global_f32(t.lse + (int64_t)(work.batch * t.shape.heads_q + work.head_q) * t.shape.seqlen_q + row,
                          log_sum<below>(rows.max[half], sum, t.shape.softmax_scale));
#pragma unroll
        for (int i = 0; i < n; i += 16) { /* four fragments of eight columns: each lane gets a whole one */
            const float *c = o + i + 2 * half;
            uint32_t words[4];

#pragma unroll
            for (int j = 0; j < 4; ++j)
                words[j] = Element::pack(c[4 * j] * inverse, c[4 * j + 1] * inverse);
            quad_transpose(words);
            if (row < t.shape.seqlen_q)
                st_global_u32x4(to + 4 * i, words);
        }
    }
}

/* What a head's queries from work.query0 up to `end` get that see no key: zeros, and a sum's logarithm. By `threads` threads, of which this is number
 * `thread`. */
template <int columns>
GLINT_DEVICE void write_nothing(const struct glint_gpu_call &t, const struct tile_work &work, int32_t end, float log_of_sum,
                                uint32_t thread, const uint32_t threads)
{
    const uint32_t zeros[4] = {0, 0, 0, 0}, chunks = columns / 8, at_once = threads / chunks;
    float *lse = t.lse + (int64_t)(work.batch * t.shape.heads_q + work.head_q) * t.shape.seqlen_q;
    int32_t row = work.query0 + (int32_t)(thread / chunks);
    char *to = view_row(&t.o, work.batch, work.head_q, row, 2) + thread % chunks * 16;

    if (thread < at_once * chunks)
#pragma unroll 1
        for (; row < end; row += (int32_t)at_once) {
            st_global_u32x4(to, zeros);
            to += t.o.row * (int64_t)(2 * at_once);
        }
#pragma unroll 1
    for (int32_t i = work.query0 + (int32_t)thread; i < end; i += (int32_t)threads)
        st_global_f32(lse + i, log_of_sum);
}

/* ---- results with sinks ---------------------------------------------------------------------------------------------------- */

/* A sink is one more term of the sum, in natural units: inverse, what O is multiplied by, and lse are those without it. -inf changes no bit:
 * so products and sums that a compiler could join in one place and not in the other are written as fma, and own is rounded by one too. */
template <int below> GLINT_DEVICE void add_sink(float &inverse, float &lse, float max, float sum, float softmax_scale, float sink)
{
    const float log2_e = 1.44269504088896340736f, own = fmaf(max, fabsf(softmax_scale), 0.0f), top = fmaxf(own, sink);
    const float kept = ex2((own - top) * log2_e), total = fmaf(sum, kept, ex2(fmaf(sink - top, log2_e, (float)-below)));

    if (sum == 0.0f &&
        (inverse == 0.0f || sink == -GLINT_INFINITY)) { /* a query that sees no key; or no score above -inf, and no sink */
        lse = sink;
        return;
    }
    inverse = 1.0f / total * kept;
    lse = own >= sink ? log_sum<below>(max, total, softmax_scale) : fmaf(lg2(total) + (float)below, 0.693147180559945309f, top);
}

/* write_output, and the head's sink in the sum, if there are sinks. sees(query): whether it sees a key. Where no kernel was timed: of one function
 * for both, ptxas makes the others' code anew. */
template <class Element, int below, int n, class sees_t>
GLINT_DEVICE void write_output_with_sink(float (&o)[n], const struct softmax_rows &rows, const struct glint_gpu_call &t,
                                         const struct tile_work &work, int32_t query0, int32_t seqlen_q, const sees_t &sees)
{
    const int32_t row0 = query0 + own_query();

#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int32_t row = row0 + 8 * half;
        const float sum = quad_sum(rows.sum[half]);
        float inverse = inverse_of(sum, row, sees), lse = log_sum<below>(rows.max[half], sum, t.shape.softmax_scale);
        char *to = view_row(&t.o, work.batch, work.head_q, row, 2) + 16 * (lane_index() % 4);

        if (t.sinks)
            add_sink<below>(inverse, lse, rows.max[half], sum, t.shape.softmax_scale, ld_global_f32(t.sinks + work.head_q));
        if (lane_index() % 4 == 0 && row < seqlen_q)
            st_global_f32(t.lse + (int64_t)(work.batch * t.shape.heads_q + work.head_q) * t.shape.seqlen_q + row, lse);
#pragma unroll
        for (int i = 0; i < n; i += 16) {
            const float *c = o + i + 2 * half;
            uint32_t words[4];

#pragma unroll
            for (int j = 0; j < 4; ++j)
                words[j] = Element::pack(c[4 * j] * inverse, c[4 * j + 1] * inverse);
            quad_transpose(words);
            if (row < seqlen_q)
                st_global_u32x4(to + 4 * i, words);
        }
    }
}

template <class Element, int below, int n>
GLINT_DEVICE void write_output_with_sink(float (&o)[n], const struct softmax_rows &rows, const struct glint_gpu_call &t,
                                         const struct tile_work &work, int32_t query0)
{
    write_output_with_sink<Element, below>(o, rows, t, work, query0, t.shape.seqlen_q,
                                           [&](int32_t query) { return sees_any_key(t.shape, query); });
}

#endif
