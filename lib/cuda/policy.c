/* The rules of policy.h and what was measured for them. */
#include "lib/cuda/policy.h"

#include <stdbool.h>

/* How many bytes of K and V, or of Q and dO, a section should touch: about half of a data-centre L2, so that the blocks that run
 * together read them from there. */
static const int64_t SECTION_BYTES = INT64_C(28) << 20;

/* Without a mask every block costs the same, and the blocks of one head should be neighbours. With one, the longest blocks of many heads
 * come first. */
int32_t glint_gpu_section(int causal, int64_t seqlen, int64_t head_dim, int64_t element_bytes)
{
    int64_t bytes = 2 * seqlen * head_dim * element_bytes;

    if (!causal || bytes <= 0 || bytes >= SECTION_BYTES)
        return 1;
    return (int32_t)(SECTION_BYTES / bytes);
}

/* A power of two, so that sections end together with the heads: 28 of 128 heads leave a last section of 16, whose long tiles few blocks share.
 * On 132 multiprocessors 32 heads instead of 28 gain 2 % at 2048 keys and head_dim 64 and 128, and 32 instead of 37 gain 4 % at 1024 keys and
 * head_dim 192. Few and long heads leave long tiles for the end, too, and the K and V of as many as the blocks need are in L2 anyway: at
 * 16384 keys 2 to 8 heads are no better than 16. Heads of a group share K and V: a section of all 128 gains 4 % at 2048 keys. */
int32_t glint_gpu_tile_section(int64_t seqlen, int64_t head_dim, int64_t element_bytes, int32_t group)
{
    const int64_t bytes = 2 * seqlen * head_dim * element_bytes;
    int64_t heads = 16;

    while (heads < INT64_C(1) << 20 && 2 * heads * bytes / group <= INT64_C(32) << 20)
        heads *= 2;
    return (int32_t)heads;
}

/* With a mask: as many keys as have 32 MiB of K and V in the heads that are worked on together, but at least those of 16
 * pairs of sequence and head of the bound: the rule of glint_gpu_tile_section, for sequences in place of heads. Without a mask all tiles of a sequence are as long as each other. */
int32_t glint_gpu_section_keys(const struct glint_gpu_shape *shape, uint32_t head_dim, uint32_t element_bytes, int masked)
{
    const int64_t heads = shape->section < shape->heads_q ? shape->section : shape->heads_q;
    const int64_t heads_kv = (heads - 1) / shape->group + 1, key_bytes = 2 * (int64_t)head_dim * element_bytes * heads_kv;
    const int64_t fits = (INT64_C(32) << 20) / key_bytes, least = (15 / heads + 1) * shape->seqlen_k;
    const int64_t keys = fits > least ? fits : least;

    if (!masked || keys < 1)
        return 1;
    return keys < INT32_MAX ? (int32_t)keys : INT32_MAX;
}

/* Turns of the parts that add to dK and dV of a block of keys: one for each of its warps. A persistent block has one for each stage that both leave
 * by, of as many numbers as dQ of tile_m queries. */
static uint32_t key_turns(const struct glint_gpu_kernel *kernel, uint32_t tile_m, uint32_t tile_n)
{
    uint32_t turns = 0;

    for (uint32_t i = 0; i < kernel->launch_count; ++i)
        if (kernel->launch[i].grid == GLINT_GPU_KEY_BLOCKS)
            turns = kernel->launch[i].blocks_per_sm > 0 ? 2 * tile_n / tile_m : kernel->launch[i].threads / 32;
    return turns;
}

/* Pairs of query i and key j with j <= i + offset. */
static int64_t pairs_up_to(const struct glint_gpu_shape *shape, int64_t offset)
{
    const int64_t queries = shape->seqlen_q, keys = shape->seqlen_k, end = queries + offset; /* first key that none sees */
    const int64_t by_all = offset < 0 ? 0 : offset < keys ? offset : keys;
    const int64_t by_any = end < by_all ? by_all : end < keys ? end : keys;

    /* Of keys by_all ... by_any - 1 the first is seen by end - by_all queries, the last by end - by_any + 1. */
    return by_all * queries + (by_any - by_all) * (2 * end - by_all - by_any + 1) / 2;
}

/* Key j is seen by queries from j - mask_offset to j - mask_first. */
int64_t glint_gpu_visible_queries(const struct glint_gpu_shape *shape)
{
    const int64_t keys = shape->seqlen_k;

    return keys == 0 ? 0 : (pairs_up_to(shape, shape->mask_offset) - pairs_up_to(shape, (int64_t)shape->mask_first - 1)) / keys;
}

/* A block that walks over the whole group does the least work: dK and dV stay in registers. But such blocks are `group` times longer and
 * fewer, so they fill the multiprocessors worse. And key blocks take turns at dQ: all of a head's go at the pace of the one that has the
 * most to do, so with a mask nothing is gained from what is hidden. Blocks of part_heads heads are as good as those of ungrouped heads,
 * but each adds 2 * tile_n * head_dim floats in memory. That takes as long as some 100 queries: 10 * tile_m * tile_n * head_dim FLOPs a
 * step of tile_m queries, and 16 * tile_n * head_dim bytes once, at 2.5 TFLOP/s and 42 GB/s a multiprocessor.
 *
 *     visible queries                           heads of a block
 *     parts_from and more                       part_heads
 *     from parts_from / 8                       2 part_heads    measured beside 1: + 5 % at 1024, - 2 to 5 % from 4096 on
 *     more than parts_from / 32                 8 part_heads    measured beside 2: - 5 % at 512 with a mask, + 0 to 10 % at 256
 *     fewer, or no query, or part_heads = 0     all             measured: all of sixteen take up to 25 % longer
 *
 * If there is no query, no kernel clears the turns, so one block must take all heads. */
int32_t glint_gpu_part_heads(const struct glint_gpu_shape *shape, const struct glint_gpu_kernel *kernel)
{
    const int64_t visible = glint_gpu_visible_queries(shape), from = kernel->parts_from;
    const uint64_t times = visible >= from ? 1 : visible >= from / 8 ? 2 : visible > from / 32 ? 8 : 0;
    const uint64_t heads = kernel->part_heads * times;

    return heads == 0 || heads >= (uint32_t)shape->group || shape->seqlen_q == 0 ? shape->group : (int32_t)heads;
}

int32_t glint_gpu_parts(const struct glint_gpu_shape *shape, int32_t part_heads)
{
    return (shape->group - 1) / part_heads + 1;
}

/* A persistent block adds to dK and dV, too, but through a thread that does not compute, and its sums leave by bulk copies: a part more costs what two
 * of its steps move. Long blocks of all heads of a group lose more than that. Without a mask there are few of them, so multiprocessors stand idle at
 * the end. With a mask the blocks that run together are of many heads, whose rows do not stay in L2. Heads of a block, by the queries that see a key on
 * average:
 *
 *     visible queries    no mask, 64        no mask, more      causal, 64   causal, more   window, 64   window, more
 *     8192 and more      1                  1                  4            2              2            2
 *     from 4096 on       8192 / visible     8192 / visible     4            2              2            2
 *     from 2048 on       all                8192 / visible     4            2              2            2
 *     from 1024 on       all                8192 / visible     all          2              4            2
 *     from 512 on        all                8192 / visible     all          4              4            2
 *     from 256 on        all                8192 / visible     all          all            4            2
 *     fewer              all                8192 / visible     all          all            all          all
 *
 * Parts are as equal as they can be: five heads in two parts are three and two.
 *
 * Measured on an H100 and an H200, 132 multiprocessors with L2 of 50 and 60 MB, with 4, 5, 7, 8 and 16 heads a group: bench/results/sm90a_bwd_notes.md.
 *
 * A row's own number of heads, in tests and for tuning, is taken at every length. If there is no query, no kernel clears the turns. */
int32_t glint_gpu_persistent_part_heads(const struct glint_gpu_shape *shape, const struct glint_gpu_kernel *kernel,
                                        uint32_t head_dim)
{
    const int64_t visible = glint_gpu_visible_queries(shape), all = shape->group;
    const bool masked = shape->mask_offset < shape->seqlen_k, window = masked && shape->mask_first > -shape->seqlen_q;
    const bool narrow = head_dim <= 64;
    int64_t heads = kernel->part_heads;

    if (heads == 0 && !masked)
        heads = visible < (narrow ? 4096 : 1) ? all : (8192 - 1) / visible + 1;
    else if (heads == 0 && window)
        heads = visible < 256 ? all : visible < 2048 && narrow ? 4 : 2;
    else if (heads == 0 && narrow)
        heads = visible < 2048 ? all : 4;
    else if (heads == 0)
        heads = visible < 512 ? all : visible < 1024 ? 4 : 2;
    if (heads >= all || shape->seqlen_q == 0)
        return (int32_t)all;
    return kernel->part_heads > 0 ? (int32_t)heads : (int32_t)((all - 1) / ((all - 1) / heads + 1) + 1);
}

/* As many triples as have their Q and dO fit. With a mask only those of one query head are counted: blocks walk over heads one after
 * another, and a grouped head's blocks are few and long, so short ones must be left for the end of the whole grid, not of each section.
 *
 * Fused: key blocks of one triple take turns at dQ. So those that run together should be of many heads, but of few enough that several
 * share what they read of Q, dO and dq_sum while it is in L2. Measured on 132 multiprocessors: 4096 / head_dim heads, or more if all that
 * they read fits; without a mask a quarter of that, because blocks of equal length keep the distance that they once have.
 *
 * The divisions come one after another, for the product can exceed 2^64. The result is at most all, as the split strategy multiplies it by
 * group. */
int32_t glint_gpu_backward_section(const struct glint_gpu_shape *shape, int32_t part_heads, uint32_t strategy, uint32_t head_dim)
{
    const int masked = shape->mask_offset < shape->seqlen_k;
    int64_t longest = shape->seqlen_q > shape->seqlen_k ? shape->seqlen_q : shape->seqlen_k;
    int64_t fits = SECTION_BYTES / 4 / (longest > 0 ? longest : 1) / (masked ? 1 : part_heads) / (int64_t)head_dim;
    int64_t least = strategy == GLINT_GPU_SPLIT ? 1 : (masked ? 4096 : 1024) / (int64_t)head_dim + 1;
    int64_t wanted = fits > least ? fits : least;
    int64_t all = (int64_t)shape->batch * shape->heads_kv * glint_gpu_parts(shape, part_heads);

    return (int32_t)(wanted < all ? wanted : all);
}

/* Heads of which Q, dO and the sums of dQ, 8 bytes a number, take 32 MiB: then key blocks that run together read them from L2, and add to
 * them there. A power of two, so that sections and waves of blocks end together: measured on 132 multiprocessors, 16 and 32 heads are ahead
 * of 9 and 17 by 5 to 15 % up to 2048 keys. Fewer where the last section would be a small one, whose blocks wait for each other: five query heads a key head at
 * 16384 keys are 9 parts, and sections of 8 and 1 lost 7 %. Without a mask no more than 2^18 / head_dim^2: more lose 10 % at head_dim 128.
 *
 * With a mask blocks of unequal length wait for each other where there are few heads: some 2^16 / seqlen are the least that lose little, as
 * both a block's length and how many of a head run together go with seqlen. That many from 4096 on, and before it at least 4096 / head_dim.
 * From 16384 on twice as many gain up to 2 %, which at 4096 and 8192 lose 2 to 10 %. A key head counts once for each part of its query heads.
 *
 * With a window neighbouring blocks of a head add to the same few rows of dQ. The more of them run together, the more they wait for each other. So the
 * queries that see a block of keys, all of them at most, stand for seqlen: 2^16 / queries. Measured at 8192 keys, a window of 512, head_dim 64:
 *   heads      2    8   16   32   64
 *   TFLOP/s  238  259  269  279  291 */
int32_t glint_gpu_persistent_section(const struct glint_gpu_shape *shape, int32_t part_heads, uint32_t head_dim, uint32_t tile_n)
{
    const int masked = shape->mask_offset < shape->seqlen_k;
    const int window = shape->mask_first > -shape->seqlen_q;
    const int64_t longest = shape->seqlen_q > shape->seqlen_k ? shape->seqlen_q : shape->seqlen_k, some = longest > 0 ? longest : 1;
    const int64_t span = (int64_t)shape->mask_offset - shape->mask_first + tile_n; /* of queries that could see a block of keys */
    const int64_t given = shape->seqlen_q > 0 ? shape->seqlen_q : 1, queries = span < given ? span : given;
    const int64_t fits = (INT64_C(1) << 22) / some / (int64_t)head_dim;
    const int64_t bound = masked ? 4096 / (int64_t)head_dim : (1 << 18) / (int64_t)head_dim / (int64_t)head_dim;
    const int64_t more = fits > bound ? fits : bound, less = fits > bound ? bound : fits;
    const int64_t whole = !masked ? less : some < 4096 ? more : (some < 16384 ? 1 << 16 : 1 << 17) / some;
    const int64_t wanted = window && span < some ? (1 << 16) / queries : whole;
    const int64_t all = (int64_t)shape->batch * shape->heads_kv * glint_gpu_parts(shape, part_heads);
    int64_t heads = 1;

    while (2 * heads <= wanted)
        heads *= 2;
    if (heads >= all)
        return (int32_t)all;
    return (int32_t)((all - 1) / ((all - 1) / heads + 1) + 1);
}

/* Takes `bytes` from *end on, and rounds what is left of 256 away. */
static uint64_t take(uint64_t *end, uint64_t bytes)
{
    const uint64_t at = *end;
    *end += (bytes + 255) / 256 * 256;
    return at;
}

/* Every product is under 2^62 once the planner has checked what policy.h says. */
uint64_t glint_backward_lay_out(struct glint_backward_layout *layout, const struct glint_gpu_shape *shape,
                                const struct glint_gpu_kernel *kernel, uint32_t tile_m, uint32_t tile_n, uint64_t begin)
{
    const uint64_t pad = GLINT_GPU_ROW_PAD, dim = kernel->row_dim;
    const uint64_t heads = (uint64_t)shape->batch * (uint64_t)shape->heads_q,
                   key_heads = (uint64_t)shape->batch * (uint64_t)shape->heads_kv;
    const uint64_t rows = ((uint64_t)shape->seqlen_q + pad - 1) / pad * pad;
    const uint64_t key_blocks = key_heads * (((uint64_t)shape->seqlen_k + tile_n - 1) / tile_n);
    const bool fused = kernel->strategy == GLINT_GPU_FUSED, shared = layout->parts > 1;
    uint64_t end = begin;

    layout->padded_q = (int64_t)rows;
    layout->lse_log2 = take(&end, heads * rows * sizeof(float));
    layout->delta = take(&end, heads * rows * sizeof(float));
    layout->dq_sum = fused ? take(&end, heads * rows * dim * sizeof(float)) : GLINT_GPU_NOWHERE;
    layout->turn = fused ? take(&end, (1 + heads * (rows / tile_m)) * sizeof(uint32_t)) : GLINT_GPU_NOWHERE;
    layout->key_sum = shared ? take(&end, key_blocks * 2 * tile_n * dim * sizeof(float)) : GLINT_GPU_NOWHERE;
    layout->key_turn = shared ? take(&end, key_blocks * key_turns(kernel, tile_m, tile_n) * sizeof(uint32_t)) : GLINT_GPU_NOWHERE;
    return end;
}

/* ---- decode ---- */

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Bytes of K and V from which on an item is large. */
static const int64_t LARGE_ITEM = INT64_C(1) << 20;

/* Of how many steps an item is, and of how many a result in the workspace. */
struct share {
    int32_t level;
    int64_t range, entry;
};

/* Results of larger pieces are fewer, but there should be an item for each block. Up to four items a block are better than one: blocks then
 * walk side by side. Tiles that nearly fill the machine are not divided, nor are few keys: what the second kernel takes, 2 microseconds, is
 * more than is gained. Nor is a single chunk where nearly each multiprocessor has a tile, though it could hold two: 1.1 to 1.5 times as fast with
 * 8 bits. All of it was measured on 132 multiprocessors (bench/results/decode_notes.md). */
static struct share share_keys(int64_t tiles, int64_t keys, int64_t steps, int64_t chunk, int64_t span, int64_t slots,
                               int64_t multiprocessors)
{
    const int64_t nearly = slots * 7 / 8;
    struct share s = {GLINT_DECODE_ROW, steps, steps};

    if (tiles >= slots * 3 / 4 || keys <= 256 || (tiles >= multiprocessors * 3 / 4 && steps <= chunk))
        return s;
    if (tiles * divide_up(steps, span) >= nearly)
        s = (struct share){GLINT_DECODE_SPAN, span, span};
    else if (tiles * divide_up(steps, chunk) >= nearly)
        s = (struct share){GLINT_DECODE_CHUNK, chunk, chunk};
    else {
        s = (struct share){GLINT_DECODE_STEP, 1, 1};
        while (tiles * divide_up(steps, s.range) > slots && s.range < chunk / 2)
            s.range *= 2;
        return s;
    }
    s.range *= divide_up(tiles * divide_up(steps, s.entry), 4 * slots);
    return s;
}

/* A divided tile is one of fewer than slots * 3 / 4, and of fewer than 2^24 steps: products of those stay below 2^62. */
int glint_decode_lay_out(struct glint_decode_layout *layout, const struct glint_gpu_shape *shape,
                         const struct glint_gpu_kernel *kernel, uint32_t tile_m, uint32_t tile_n, uint32_t multiprocessors,
                         uint64_t begin, uint64_t *end)
{
    const int64_t slots = (int64_t)multiprocessors * kernel->launch[0].blocks_per_sm;
    const int64_t rows = (int64_t)shape->seqlen_q * shape->group, row_tiles = divide_up(rows, tile_m);
    const int64_t heads = (int64_t)shape->batch * shape->heads_kv, steps = divide_up(shape->seqlen_k, tile_n);
    const int64_t chunk = kernel->chunk_steps, dim = kernel->row_dim, warps = kernel->launch[0].threads / 32;
    struct share share;
    int64_t tiles, parts, entries;

    if (rows > 1 << 30 || (row_tiles > 0 && heads > INT32_MAX / row_tiles))
        return 0;
    tiles = heads * row_tiles;
    share = share_keys(tiles, shape->seqlen_k, steps, chunk, chunk * kernel->span_chunks, slots, multiprocessors);
    parts = share.range > 0 ? divide_up(steps, share.range) : 1;
    if (parts == 1)
        share.level = GLINT_DECODE_ROW;
    entries = share.level == GLINT_DECODE_ROW ? 0 : divide_up(steps, share.entry);
    if (tiles * parts > INT32_MAX)
        return 0;
    *layout = (struct glint_decode_layout){.rows = (int32_t)rows,
                                           .row_tiles = (int32_t)row_tiles,
                                           .range = (int32_t)share.range,
                                           .parts = (int32_t)parts,
                                           .level = share.level,
                                           .entries = (int32_t)entries,
                                           .items = (uint32_t)(tiles * parts),
                                           .blocks = (uint32_t)(tiles * parts),
                                           .partial_o = GLINT_GPU_NOWHERE,
                                           .partial_rows = GLINT_GPU_NOWHERE};
    /* Blocks that go on from one item to the next have no start to wait for; where there are many and large ones, blocks that come as others
     * end are spread better. */
    if (layout->items > slots && (layout->items <= 8 * slots || share.range * (int64_t)tile_n * dim * 4 < LARGE_ITEM))
        layout->blocks = (uint32_t)slots;
    *end = begin;
    if (entries > 0) {
        const uint64_t results = (uint64_t)tiles * (uint64_t)entries * tile_m; /* of a row */
        layout->merge_blocks = (uint32_t)(heads * divide_up(rows, 2) * (dim / 16));
        layout->partial_o = take(end, results * (uint64_t)dim * sizeof(float));
        layout->partial_rows = take(end, results * 2 * (uint64_t)warps * sizeof(float));
    }
    return 1;
}
