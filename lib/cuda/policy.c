/* The rules of policy.h and what was measured for them. */
#include "lib/cuda/policy.h"

#include "lib/cuda/table.h"
#include "lib/device/parts.h"
#include "lib/layout.h"

/* How many bytes of K and V, or of Q and dO, a section should touch: about half of a data-centre L2, so that the blocks
 * that run together read them from there. */
static const int64_t SECTION_BYTES = INT64_C(28) << 20;

/* Without a mask every block costs the same, and the blocks of one head should be neighbours. With one, the longest
 * blocks of many heads come first. */
int32_t glint_gpu_section(int causal, int64_t seqlen, int64_t head_dim, int64_t element_bytes)
{
    int64_t bytes = 2 * seqlen * head_dim * element_bytes;

    if (!causal || bytes <= 0 || bytes >= SECTION_BYTES)
        return 1;
    return (int32_t)(SECTION_BYTES / bytes);
}

/* A power of two, so that sections end together with the heads: 28 of 128 heads leave a last section of 16, whose long
 * tiles few blocks share. On 132 multiprocessors 32 heads instead of 28 gain 2 % at 2048 keys and head_dim 64 and 128,
 * and 32 instead of 37 gain 4 % at 1024 keys and head_dim 192. Few and long heads leave long tiles for the end, too,
 * and the K and V of as many as the blocks need are in L2 anyway: at 16384 keys 2 to 8 heads are no better than 16.
 * Heads of a group share K and V: a section of all 128 gains 4 % at 2048 keys.
 *
 * The longest tiles of a section bring its K and V from memory, and the others find them in L2. So with a section of
 * many more tiles than run together memory is busy at first, and idle afterwards. The K and V of a section take 16 MiB
 * at most where blocks are persistent, one a multiprocessor, and 32 MiB where four short ones share it. Speed with
 * 16 MiB over that with 32 MiB (bench/results/{h100,h200}_policies_2026-11-24.csv):
 *
 *     persistent, head_dim   128, 512   128, 1024   256, 512   256, 1024   64, 2048   128, 2048
 *     H100                   1.17       1.05        1.04       1.01        1.03       1.00
 *     H200                   1.02       1.00        1.01       1.00        0.98       1.00 */
int32_t glint_gpu_tile_section(int64_t seqlen, int64_t head_dim, int64_t element_bytes, int32_t group, int persistent)
{
    const int64_t bytes = 2 * seqlen * head_dim * element_bytes, most = INT64_C(1) << (persistent ? 24 : 25);
    int64_t heads = 16;

    while (heads < INT64_C(1) << 20 && 2 * heads * bytes / group <= most)
        heads *= 2;
    return (int32_t)heads;
}

/* With a mask: as many keys as have 32 MiB of K and V in the heads that are worked on together, but at least those of
 * 16 pairs of sequence and head of the bound: the rule of glint_gpu_tile_section, for sequences in place of heads.
 * Without a mask all tiles of a sequence are as long as each other. */
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

/* Turns of the parts that add to dK and dV of a block of keys: one for each of its warps. A persistent block has one
 * for each stage that both leave by, of as many numbers as dQ of tile_m queries. */
static uint32_t key_turns(const struct glint_gpu_kernel *kernel, uint32_t tile_m, uint32_t tile_n)
{
    uint32_t turns = 0;

    for (uint32_t i = 0; i < kernel->launch_count; ++i) {
        const struct glint_gpu_launch *launch = glint_gpu_launch_at(kernel, i);
        if (launch->grid == GLINT_GPU_KEY_BLOCKS)
            turns = launch->blocks_per_sm > 0 ? 2 * tile_n / tile_m : launch->threads / 32u;
    }
    return turns;
}

static struct glint_part_problem part_problem(const struct glint_gpu_shape *shape)
{
    return (struct glint_part_problem){shape->seqlen_q, shape->seqlen_k, shape->mask_first, shape->mask_offset};
}

int64_t glint_gpu_visible_queries(const struct glint_gpu_shape *shape)
{
    const struct glint_part_problem problem = part_problem(shape);

    return glint_seen_by(&problem);
}

/* A block that walks over the whole group does the least work: dK and dV stay in registers. But such blocks are `group`
 * times longer and fewer, so they fill the multiprocessors worse. And key blocks take turns at dQ: all of a head's go
 * at the pace of the one that has the most to do, so with a mask nothing is gained from what is hidden. Blocks of
 * part_heads heads are as good as those of ungrouped heads, but each adds 2 * tile_n * head_dim floats in memory. That
 * takes as long as some 100 queries: 10 * tile_m * tile_n * head_dim FLOPs a step of tile_m queries, and 16 * tile_n *
 * head_dim bytes once, at 2.5 TFLOP/s and 42 GB/s a multiprocessor.
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

/* A persistent block adds to dK and dV, too, but through a thread that does not compute, and its sums leave by bulk
 * copies: a part more costs what two of its steps move. Long blocks of all heads of a group lose more than that.
 * Without a mask there are few of them, so multiprocessors stand idle at the end. With a mask the blocks that run
 * together are of many heads, whose rows do not stay in L2. Heads of a block, by the queries that see a key on average:
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
 * Measured on an H100 and an H200, 132 multiprocessors with L2 of 50 and 60 MB, with 4, 5, 7, 8 and 16 heads a group:
 * bench/results/sm90a_bwd_notes.md.
 *
 * A row's own number of heads, in tests and for tuning, is taken at every length. If there is no query, no kernel
 * clears the turns. */
int32_t glint_gpu_persistent_part_heads(const struct glint_gpu_shape *shape, const struct glint_gpu_kernel *kernel,
                                        uint32_t head_dim)
{
    const struct glint_part_problem problem = part_problem(shape);

    return glint_part_heads_of((int32_t)kernel->part_heads, &problem, head_dim <= 64, shape->group);
}

int32_t glint_gpu_most_parts(const struct glint_gpu_shape *shape, int32_t own_heads, uint32_t head_dim)
{
    int32_t most = 1;

    for (int masked = 0; masked < 2 && shape->seqlen_q > 0; masked++)
        for (int window = 0; window < 2; window++) {
            const int32_t heads = glint_part_heads_by(own_heads, shape->seqlen_q, masked, window, head_dim <= 64, shape->group);
            const int32_t parts = glint_gpu_parts(shape, heads);
            most = parts > most ? parts : most;
        }
    return most;
}

/* As many triples as have their Q and dO fit. With a mask only those of one query head are counted: blocks walk over
 * heads one after another, and a grouped head's blocks are few and long, so short ones must be left for the end of the
 * whole grid, not of each section.
 *
 * Fused: key blocks of one triple take turns at dQ. So those that run together should be of many heads, but of few
 * enough that several share what they read of Q, dO and dq_sum while it is in L2. Measured on 132 multiprocessors: 4096
 * / head_dim heads, or more if all that they read fits; without a mask a quarter of that, because blocks of equal
 * length keep the distance that they once have.
 *
 * Split rows of sm90a: a quarter of that without a mask, and with one up to 1024 keys, where each query head has a key
 * head of its own. Blocks that run together are then of one head or two, and read the same Q and dO from memory once.
 * Speed with a quarter on an H100 (bench/results/h100_policies_2026-11-27.csv; an H200 was not asked):
 *
 *     queries and keys      512    1024   2048   4096   8192
 *     192, no mask          1.11   1.09   1.06   1.03   0.99
 *     192, a mask           1.12   1.05   1.04   0.98   0.94
 *     256, no mask          1.11   1.05   1.02   1.01   1.00
 *     256, a mask           1.07   1.02   0.97   1.01   1.03
 *     256, no mask, 8:1     1.00   0.99
 *     256, a mask, 8:1      0.92   0.90   0.77
 *
 * The divisions come one after another, for the product can exceed 2^64. The result is at most all, as the split
 * strategy multiplies it by group. */
int32_t glint_gpu_backward_section(const struct glint_gpu_shape *shape, const struct glint_gpu_kernel *kernel, int32_t part_heads,
                                   uint32_t head_dim)
{
    const int masked = shape->mask_offset < shape->seqlen_k, split = kernel->strategy == GLINT_GPU_SPLIT;
    const int64_t longest = shape->seqlen_q > shape->seqlen_k ? shape->seqlen_q : shape->seqlen_k, some = longest > 0 ? longest : 1;
    const int64_t quarters = split && kernel->map_count > 0 && (!masked || (shape->group == 1 && some <= 1024)) ? 1 : 4;
    const int64_t fits = SECTION_BYTES / 16 * quarters / some / (masked ? 1 : part_heads) / (int64_t)head_dim;
    const int64_t least = split ? 1 : (masked ? 4096 : 1024) / (int64_t)head_dim + 1;
    const int64_t wanted = fits > least ? fits : least;
    const int64_t all = (int64_t)shape->batch * shape->heads_kv * glint_gpu_parts(shape, part_heads);

    return (int32_t)(wanted < all ? wanted : all);
}

/* `heads` or a little fewer, in sections that are as equal as they can be. */
static int32_t even_section(int64_t all, int64_t heads)
{
    return (int32_t)((all - 1) / ((all - 1) / heads + 1) + 1);
}

/* About so many that no section has heads of two parts, if there is such a number that is more than half as large and
 * at most twice as large. */
static int32_t section_of_parts(int64_t part, int64_t parts, int64_t heads)
{
    if (heads >= part)
        return (int32_t)(heads - heads % part);
    for (int64_t fewer = heads; 2 * fewer > heads; fewer--)
        if (part % fewer == 0)
            return (int32_t)fewer;
    for (int64_t more = heads + 1; more <= 2 * heads; more++)
        if (part % more == 0)
            return (int32_t)more;
    return even_section(part * parts, heads);
}

/* Heads of which Q, dO and the sums of dQ, 8 bytes a number, take 32 MiB: then key blocks that run together read them
 * from L2, and add to them there. A power of two, so that sections and waves of blocks end together: measured on 132
 * multiprocessors, 16 and 32 heads are ahead of 9 and 17 by 5 to 15 % up to 2048 keys. Without a mask no more than 2^18
 * / head_dim^2: more lose 10 % at head_dim 128. A key head counts once for each part of its query heads.
 *
 * With a mask blocks of unequal length wait for each other where there are few heads: some 2^16 / seqlen are the least
 * that lose little, as both a block's length and how many of a head run together go with seqlen. That many from 4096
 * on, and before it at least 4096 / head_dim. From 16384 on twice as many gain up to 2 %, which at 4096 lose 2 to 10 %.
 * Fewer where the last section would be a small one, whose blocks wait for each other: five query heads a key head at
 * 16384 keys are 9 parts, and sections of 8 and 1 lost 7 %.
 *
 * Exceptions, and the speed with each over that without it, on an H100 and an H200 (bench/results/
 * {h100,h200}_policies_2026-11-24.csv; the last line by peers_gpu.py, over FlashAttention-3, before and after):
 *
 *     twice as many heads, where each has a key head of its own: no mask, 4096, 128   0.99 to 1.04, mean 1.013
 *                                                                no mask, 4096, 64    0.78, 1.02; not taken
 *                                                                a mask, 8192, 128    1.03, 1.02
 *                                                                a mask, 8192, 64     1.05, 1.03
 *     at most 32 heads, of blocks that take several query heads of 64: no mask, 1024  1.35, 0.95
 *                                                                      a mask, 1024   1.18, 1.06
 *     no mask, parts: no section has heads of two parts: 5 to a key head, 2048        0.83 to 1.11, 0.95 to 1.09
 *
 * Blocks that take several query heads read other rows with each. Where few blocks of a key head run together, each
 * round of blocks reads all rows from memory again.
 *
 * With a window neighbouring blocks of a head add to the same few rows of dQ. The more of them run together, the more
 * they wait for each other. So the queries that see a block of keys, all of them at most, stand for seqlen: 2^16 /
 * queries. Measured at 8192 keys, a window of 512, head_dim 64:
 *   heads      2    8   16   32   64
 *   TFLOP/s  238  259  269  279  291 */
int32_t glint_gpu_persistent_section(const struct glint_gpu_shape *shape, int32_t part_heads, uint32_t head_dim, uint32_t tile_n)
{
    const int32_t parts = glint_gpu_parts(shape, part_heads);
    const int masked = shape->mask_offset < shape->seqlen_k;
    const int window = shape->mask_first > -shape->seqlen_q;
    const int64_t longest = shape->seqlen_q > shape->seqlen_k ? shape->seqlen_q : shape->seqlen_k, some = longest > 0 ? longest : 1;
    const int64_t span = (int64_t)shape->mask_offset - shape->mask_first + tile_n; /* of queries that could see a block of keys */
    const int64_t given = shape->seqlen_q > 0 ? shape->seqlen_q : 1, queries = span < given ? span : given;
    const int64_t fits = (INT64_C(1) << 22) / some / (int64_t)head_dim;
    const int64_t bound = masked ? 4096 / (int64_t)head_dim : (1 << 18) / (int64_t)head_dim / (int64_t)head_dim;
    const int64_t more = fits > bound ? fits : bound, less = fits > bound ? bound : fits;
    const int64_t twice = shape->group == 1 && (masked ? 8192 <= some && some < 16384 : some >= 4096 && head_dim > 64) ? 2 : 1;
    const int64_t whole = twice * (!masked ? less : some < 4096 ? more : (some < 16384 ? 1 << 16 : 1 << 17) / some);
    const int64_t several = part_heads > 1 && head_dim <= 64 && whole > 32 ? 32 : whole;
    const int64_t wanted = window && span < some ? (1 << 16) / queries : several;
    const int64_t part = (int64_t)shape->batch * shape->heads_kv, all = part * parts;
    int64_t heads = 1;

    while (heads <= wanted / 2)
        heads *= 2;
    if (heads >= all)
        return (int32_t)all;
    return !masked && parts > 1 ? section_of_parts(part, parts, heads) : even_section(all, heads);
}

/* Some 512 blocks fill a GPU that runs three of them on each multiprocessor. No more than there are sequences. */
int32_t glint_gpu_bias_parts(int64_t tiles, int64_t batch)
{
    const int64_t wanted = tiles > 0 ? (512 + tiles - 1) / tiles : 1, most = batch < 16 ? batch : 16;

    return (int32_t)(most < 2 || wanted < 2 ? 1 : wanted < most ? wanted : most);
}

/* Words of a tile of dBias. */
static uint32_t bias_tile(const struct glint_gpu_kernel *kernel)
{
    for (uint32_t i = 0; i < kernel->launch_count; ++i) {
        const struct glint_gpu_launch *launch = glint_gpu_launch_at(kernel, i);
        if (launch->grid == GLINT_GPU_BIAS_TILES)
            return (uint32_t)launch->rows * launch->rows;
    }
    return 0;
}

static uint32_t padded_queries(const struct glint_gpu_shape *shape)
{
    return ((uint32_t)shape->seqlen_q + GLINT_GPU_ROW_PAD - 1) / GLINT_GPU_ROW_PAD * GLINT_GPU_ROW_PAD;
}

/* It fits. */
static uint64_t times(uint32_t a, uint32_t b)
{
    return (uint64_t)a * b;
}

/* Turns of so many blocks of each head, and the count of those that have begun. The product wraps around only where
 * that of the rows does not fit, which are more. */
static uint64_t count_turns(uint64_t heads, uint64_t blocks)
{
    return 1 + heads * blocks;
}

bool glint_backward_lay_out(struct glint_backward_layout *layout, const struct glint_gpu_shape *shape,
                            const struct glint_gpu_kernel *kernel, uint32_t tile_m, uint32_t tile_n, uint64_t begin)
{
    const uint32_t batch = (uint32_t)shape->batch, rows = padded_queries(shape);
    const uint32_t key_blocks = ((uint32_t)shape->seqlen_k + tile_n - 1) / tile_n;
    const uint64_t heads = times(batch, (uint32_t)shape->heads_q), fused = kernel->strategy == GLINT_GPU_FUSED ? heads : 0;
    const uint64_t shared = layout->parts > 1 ? times(batch, (uint32_t)shape->heads_kv) : 0;
    const uint64_t bounded = kernel->block_keys != 0 ? batch : 0;
    const uint64_t biased = layout->bias_parts > 1 ? times((uint32_t)layout->bias_parts, (uint32_t)layout->bias_tiles) : 0;
    const struct glint_array array[GLINT_GPU_BACKWARD_ARRAYS] = {
        [GLINT_GPU_BIAS_SUM] = {biased, bias_tile(kernel)},
        [GLINT_GPU_LSE] = {heads, rows},
        [GLINT_GPU_DELTA] = {heads, rows},
        [GLINT_GPU_DQ_SUM] = {fused, times(rows, kernel->row_dim)},
        [GLINT_GPU_TURN] = {fused > 0, count_turns(fused, rows / tile_m)},
        [GLINT_GPU_KEY_SUM] = {shared, times(key_blocks, 2 * tile_n * kernel->row_dim)},
        [GLINT_GPU_KEY_TURN] = {shared, times(key_blocks, key_turns(kernel, tile_m, tile_n))},
        [GLINT_GPU_ROW_KEYS] = {bounded, times(rows, 2)},
        [GLINT_GPU_BLOCK_KEYS] = {bounded, times(rows / tile_m, 4)},
        [GLINT_GPU_UNITS] = {layout->unit_blocks, GLINT_GPU_UNITS_OF_BLOCK * GLINT_GPU_UNIT_WORDS},
    };

    layout->padded_q = rows;
    layout->at[0] = begin;
    return glint_place_arrays(array, GLINT_GPU_BACKWARD_ARRAYS, GLINT_GPU_LINE, layout->at);
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

/* Results of larger pieces are fewer, but there should be an item for each block. Up to four items a block are better
 * than one: blocks then walk side by side. Tiles that nearly fill the machine are not divided, nor are few keys: what
 * the second kernel takes, 2 microseconds, is more than is gained. Nor is a single chunk where nearly each
 * multiprocessor has a tile, though it could hold two: 1.1 to 1.5 times as fast with 8 bits. All of it was measured on
 * 132 multiprocessors (bench/results/decode_notes.md). */
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

/* Items of about so many steps. */
static struct share share_by(int64_t range, int64_t steps, int64_t chunk, int64_t span)
{
    struct share s = {GLINT_DECODE_STEP, 1, 1};

    if (range >= steps)
        return (struct share){GLINT_DECODE_ROW, steps, steps};
    if (range >= span)
        return (struct share){GLINT_DECODE_SPAN, range / span * span, span};
    if (range >= chunk)
        return (struct share){GLINT_DECODE_CHUNK, range / chunk * chunk, chunk};
    while (2 * s.range <= range)
        s.range *= 2;
    return s;
}

/* Places the results that tiles of rows leave, so many words of O and of maxima and sums each. */
static bool place_results(struct glint_decode_layout *layout, uint32_t tiles, uint32_t of_o, uint32_t of_rows)
{
    const struct glint_array array[GLINT_GPU_DECODE_ARRAYS] = {
        [GLINT_GPU_PARTIAL_O] = {tiles, times((uint32_t)layout->entries, of_o)},
        [GLINT_GPU_PARTIAL_ROWS] = {tiles, times((uint32_t)layout->entries, of_rows)},
    };
    return glint_place_arrays(array, GLINT_GPU_DECODE_ARRAYS, GLINT_GPU_LINE, layout->at);
}

/* How tiles of so many rows of `heads` key heads and their steps become items: all members but at and `blocks`. False
 * where a grid has not as many. */
static bool count_items(struct glint_decode_layout *layout, struct share share, int64_t heads, int64_t rows, int64_t row_tiles,
                        int64_t steps, int64_t dim)
{
    const int64_t parts = share.range > 0 ? divide_up(steps, share.range) : 1;
    const int32_t level = parts == 1 ? GLINT_DECODE_ROW : share.level;
    const int64_t entries = level == GLINT_DECODE_ROW ? 0 : divide_up(steps, share.entry);
    const int64_t items = heads * row_tiles * parts, merged = entries > 0 ? heads * divide_up(rows, 2) : 0; /* pairs of rows */

    if (items > INT32_MAX || merged > INT32_MAX / (dim / 16))
        return false;
    layout->rows = (int32_t)rows;
    layout->row_tiles = (int32_t)row_tiles;
    layout->range = (int32_t)share.range;
    layout->parts = (int32_t)parts;
    layout->level = level;
    layout->entries = (int32_t)entries;
    layout->items = (uint32_t)items;
    layout->merge_blocks = (uint32_t)(merged * (dim / 16));
    return true;
}

bool glint_decode_lay_out(struct glint_decode_layout *layout, const struct glint_gpu_shape *shape,
                          const struct glint_gpu_kernel *kernel, uint32_t tile_m, uint32_t tile_n, uint32_t multiprocessors,
                          int32_t range, uint64_t begin)
{
    const struct glint_gpu_launch *launch = glint_gpu_launch_at(kernel, 0);
    const int64_t slots = (int64_t)multiprocessors * launch->blocks_per_sm;
    const int64_t rows = (int64_t)shape->seqlen_q * shape->group, row_tiles = divide_up(rows, tile_m);
    const int64_t heads = (int64_t)shape->batch * shape->heads_kv, steps = divide_up(shape->seqlen_k, tile_n);
    const int64_t chunk = kernel->chunk_steps, span = chunk * kernel->span_chunks, dim = kernel->row_dim;

    if (rows > 1 << 30 || (row_tiles > 0 && heads > INT32_MAX / row_tiles))
        return false;
    const int64_t tiles = heads * row_tiles;
    const struct share share = range > 0 ? share_by(range, steps, chunk, span)
                                         : share_keys(tiles, shape->seqlen_k, steps, chunk, span, slots, multiprocessors);
    if (!count_items(layout, share, heads, rows, row_tiles, steps, dim))
        return false;
    /* Blocks that go on from one item to the next have no start to wait for; where there are many and large ones,
     * blocks that come as others end are spread better. */
    const bool persist = layout->items > slots && (layout->items <= 8 * slots || share.range * tile_n * dim * 4 < LARGE_ITEM);
    layout->blocks = persist ? (uint32_t)slots : layout->items;
    layout->at[0] = begin;
    return place_results(layout, (uint32_t)tiles, tile_m * kernel->row_dim, tile_m * 2 * (launch->threads / 32u));
}
