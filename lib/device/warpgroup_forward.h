/* Steps of the forward kernels whose products are a warpgroup's (sm_90a): which tile a block works on, softmax of
 * the 64 queries that a warpgroup owns, and how their results leave. */
#ifndef GLINT_DEVICE_WARPGROUP_FORWARD_H
#define GLINT_DEVICE_WARPGROUP_FORWARD_H

#include "lib/device/intervals.h"
#include "lib/device/score.h"
#include "lib/device/sequences.h"
#include "lib/device/softmax.h"
#include "lib/device/warpgroup.h"
#include "lib/device/warpgroup_bias.h"
#include "lib/device/warpgroup_bias_tile.h"

enum { MAP_Q, MAP_K, MAP_V }; /* in the order of the kernel's descriptor */

/* ---- where to work ----------------------------------------------------------------------------------------------- */

/* A tile of queries of one head, and the blocks of keys that some of them see: without a mask, or with a window, at
 * least one. It walks over them from `last` down to `first`. Keys are counted from the sequence's own first one on,
 * which is row first_k of the tensors. */
template <class Band> struct tile_work : key_blocks<Band> {
    int32_t query0, batch, head_q, first_k;
};

/* Tile number `tile`; false if there is no such tile. Without a mask, one head after another. With one, the last
 * queries see the most keys, so they come first: of a section of heads, whose keys and values should stay in L2 (a
 * section twice as large takes 5 to 15 % longer at 512 and 1024 keys). But few and long heads leave long tiles for
 * the end: at 16384 keys sections of 1 to 4 heads take 4 to 10 % longer than those of 16. */
template <int TILE_M, class Band>
GLINT_DEVICE bool place_tile(struct tile_work<Band> &work, const struct glint_gpu_shape &shape, uint32_t tile)
{
    const uint32_t tiles = (shape.seqlen_q + TILE_M - 1) / TILE_M, heads = shape.batch * shape.heads_q;

    if (tile >= tiles * heads)
        return false;
    const struct block_place place = find_place(tile, tiles, heads, Band::RIGHT ? max(16u, (uint32_t)shape.section) : 1);

    work.query0 = (Band::RIGHT ? (int32_t)tiles - 1 - place.index : place.index) * TILE_M;
    work.batch = place.head / shape.heads_q;
    work.head_q = place.head - work.batch * shape.heads_q;
    work.first_k = 0;
    return true;
}

/* Which keys a placed tile walks over. Here and below `mask` is the call's, or a sequence's own; where queries have
 * intervals it is the tile's. */
template <int TILE_M, int TILE_N, class Band, class mask_t>
GLINT_DEVICE void find_keys(struct tile_work<Band> &work, const mask_t &mask)
{
    static_cast<struct key_blocks<Band> &>(work) =
        find_key_blocks<TILE_N>(mask, work.query0, min(work.query0 + TILE_M, mask.seqlen_q) - 1);
    if (Band::LEFT || !Band::RIGHT)
        work.last = max(0, work.last);
    if constexpr (Band::LEFT)
        work.first = min(work.last, work.first);
}

template <int TILE_M, int TILE_N, class Band>
GLINT_DEVICE bool find_tile(struct tile_work<Band> &work, const struct glint_gpu_shape &shape, uint32_t tile)
{
    if (!place_tile<TILE_M>(work, shape, tile))
        return false;
    find_keys<TILE_M, TILE_N>(work, mask_of_call<Band>(shape));
    return true;
}

/* A head's first tiles, whose queries see no key: the mask's diagonal is bottom right, and queries are more than
 * keys. */
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

/* The number for place_tile of what is worked on in place `nth` under a mask: tiles that see a key, in the order of
 * their numbers, then parts of blind ones, by their first tile. Beyond the last one a number that is no tile's. */
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

template <int TILE_M, int HEAD_DIM, class Band>
GLINT_DEVICE int32_t end_of_blind(const struct tile_work<Band> &work, const struct glint_gpu_shape &shape)
{
    const int32_t end = min(shape.seqlen_q, (int32_t)count_blind_tiles<TILE_M>(shape) * TILE_M);

    return min(work.query0 + (int32_t)blind_part<TILE_M, HEAD_DIM>::ROWS, end);
}

/* Whether some query of the tile does not see some key of a block. */
template <class Band> GLINT_DEVICE bool is_cut(const struct tile_work<Band> &work, int32_t block)
{
    return block >= work.hidden_from || (Band::LEFT && block < work.whole_from);
}

/* Blocks that the warpgroup of queries query0 ... walks over: those that one of them sees, but at least one. */
struct own_blocks {
    int32_t first, last;
};

template <int TILE_N, class Band>
GLINT_DEVICE struct own_blocks find_own(const struct tile_work<Band> &work, const Band &mask, int32_t query0)
{
    struct own_blocks own = {work.first, work.first};

    if (query0 < mask.seqlen_q) {
        if constexpr (Band::LEFT)
            own.first = min(work.last, first_key(mask, query0) / TILE_N);
        own.last =
            Band::RIGHT ? max(own.first, (keys_seen(mask, min(query0 + 64, mask.seqlen_q)) + TILE_N - 1) / TILE_N - 1) : work.last;
    }
    return own;
}

/* Blocks of keys that the 64 queries of a warpgroup walk over, and those of which each of them sees every key, wait in
 * shared memory, 16 bytes a warpgroup. */
struct waiting_intervals : tile_intervals {
    uint32_t own; /* shared address of those from query 0 on, were they there: 16 bytes for 64 queries */
};

template <int TILE_N>
GLINT_DEVICE struct own_blocks find_own(const struct tile_work<interval_mask> &, const struct waiting_intervals &mask,
                                        int32_t query0)
{
    float own[2];

    ld_shared_f32x2(own, mask.own + (uint32_t)query0 / 4);
    return {(int32_t)bits_of(own[0]), (int32_t)bits_of(own[1])};
}

/* Whether one of them does not see some key of a block that the tile's mask cuts. */
GLINT_DEVICE bool cuts_own(const struct waiting_intervals &mask, int32_t query0, int32_t block)
{
    float whole[2];

    ld_shared_f32x2(whole, mask.own + (uint32_t)query0 / 4 + 8);
    return block < (int32_t)bits_of(whole[0]) || block >= (int32_t)bits_of(whole[1]);
}

/* A tile of one warpgroup. */
GLINT_DEVICE bool cuts_own(const struct tile_intervals &, int32_t, int32_t)
{
    return true;
}

/* Hides what the mask, mask(), and the end of the keys hide of a block's scores, where they hide any; query0: the
 * warpgroup's first. Of the blocks that a window cuts of a tile, a warpgroup has half as many. */
template <int TILE_N, class Band, class mask_t>
GLINT_DEVICE void hide_scores(float (&s)[TILE_N / 2], const struct tile_work<Band> &work, const mask_t &mask, int32_t query0,
                              int32_t block)
{
    if constexpr (Band::INTERVALS) {
        if (is_cut(work, block)) {
            const auto waiting = mask();
            const struct tile_intervals &queries = waiting;

            if (cuts_own(waiting, query0, block))
                hide_keys(fragments_of(s), queries, query0 + (int32_t)(thread_index() % 128 / 32 * 16), block * TILE_N,
                          -GLINT_INFINITY);
        }
    } else if (Band::LEFT ? block * TILE_N + TILE_N - 1 > last_key(mask(), query0) || block * TILE_N < query0 + 63 + mask().left
                          : block >= work.hidden_from)
        hide_keys(fragments_of(s), mask(), query0 + (int32_t)(thread_index() % 128 / 32 * 16), block * TILE_N, -GLINT_INFINITY);
}

/* The first of this thread's two queries among its warpgroup's 64; the other is 8 further. */
GLINT_DEVICE int32_t own_query(void)
{
    return (int32_t)(thread_index() % 128 / 32 * 16 + lane_index() / 4);
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

/* NaN and infinities of V to the queries that see them, from memory: those of the blocks that the mask cuts, where
 * they were removed. first_k: the row of V at which the keys begin. */
template <class Element, int TILE_N, int n, class Band, class mask_t>
GLINT_DEVICE void add_special(float (&o)[n], const struct glint_gpu_call &t, const struct tile_work<Band> &work, int32_t query0,
                              const mask_t &mask, int32_t first_k)
{
    const int32_t query = query0 + own_query();

#pragma unroll 1
    for (int32_t key = (Band::LEFT ? work.first : work.hidden_from) * TILE_N; key < min((work.last + 1) * TILE_N, mask.seqlen_k);
         ++key) {
        if (Band::LEFT && !is_cut(work, key / TILE_N))
            continue;
        const char *row = view_row(&t.v, work.batch, work.head_q / t.shape.group, first_k + key, 2) + 4 * (lane_index() % 4);
        add_special_key<Element>(o, row, [&](const int half) { return sees(mask, query + 8 * half, key); });
    }
}

/* O / sum and the logarithms of the sums go to memory, of rows before seqlen_q. The head's sink, if there are sinks, is
 * in the sum. sees(query): whether it sees a key. */
template <class Element, int below_, class Bias, int n, class Band, class sees_t>
GLINT_DEVICE void write_output(float (&o)[n], const struct softmax_rows &rows, const struct glint_gpu_call &t,
                               const struct tile_work<Band> &work, int32_t query0, int32_t seqlen_q, const sees_t &sees)
{
    constexpr int below = Bias::LINE ? 0 : below_; /* a reference has it */
    const int32_t row0 = query0 + own_query();

#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int32_t row = row0 + 8 * half;
        const float sum = quad_sum(rows.sum[half]);
        float inverse = inverse_of(sum, [&]() { return sees(row); }),
              lse = log_sum<below>(rows.max[half], sum, natural_scale<Bias>(t.shape));
        char *to = view_row(&t.o, work.batch, work.head_q, row, 2) + 16 * (lane_index() % 4);

        if (t.sinks)
            add_sink<below>(inverse, lse, rows.max[half], sum, natural_scale<Bias>(t.shape), ld_global_f32(t.sinks + work.head_q));
        if (lane_index() % 4 == 0 && row < seqlen_q)
            st_global_f32(t.lse + (int64_t)(work.batch * t.shape.heads_q + work.head_q) * t.shape.seqlen_q + row, lse);
#pragma unroll
        for (int i = 0; i < n; i += 16) { /* four fragments of eight columns: each lane gets a whole one */
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

/* A head's sink, or none. */
GLINT_DEVICE float sink_of(const struct glint_gpu_call &t, int32_t head_q)
{
    return t.sinks ? ld_global_f32(t.sinks + head_q) : -GLINT_INFINITY;
}

/* What a head's queries from work.query0 up to `end` get that see no key: zeros, and a sum's logarithm. By `threads`
 * threads, of which this is number `thread`. */
template <int columns, class Band>
GLINT_DEVICE void write_nothing(const struct glint_gpu_call &t, const struct tile_work<Band> &work, int32_t end, float log_of_sum,
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

#endif
