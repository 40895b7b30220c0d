/* The rules of lib/cuda/policy.c, and the bounds of a plan: sections of heads, parts of a group, the layouts of
 * decode and of a step. */
#include "lib/cuda/policy.h"
#include "lib/layout.h"
#include "tests/cuda/launch_world.h"

/* The mean over all keys of the number of queries that see one, counted, without a first key and with one. */
START_TEST(visible_queries)
{
    for (int queries = 0; queries <= 20; queries++)
        for (int keys = 0; keys <= 20; keys++)
            for (int last = -21; last <= 21; last++)
                for (int window = 0; window <= 22; window++) {
                    const int first = window == 22 || last - window < -queries ? -queries : last - window;
                    const struct glint_gpu_shape shape = {
                        .seqlen_q = queries, .seqlen_k = keys, .mask_offset = last, .mask_first = first};
                    int64_t seen = 0;
                    for (int i = 0; i < queries; i++)
                        for (int j = 0; j < keys; j++)
                            seen += j <= i + last && j >= i + first;
                    if (first <= last)
                        ck_assert_int_eq(glint_gpu_visible_queries(&shape), keys == 0 ? 0 : seen / keys);
                }
    const struct glint_gpu_shape longest = {.seqlen_q = GLINT_MAX_EXTENT,
                                            .seqlen_k = GLINT_MAX_EXTENT,
                                            .mask_offset = GLINT_MAX_EXTENT,
                                            .mask_first = -GLINT_MAX_EXTENT};
    ck_assert_int_eq(glint_gpu_visible_queries(&longest), GLINT_MAX_EXTENT);
}
END_TEST

/* The rule as lib/cuda/policy.c tells it, whatever the batch and the number of key heads. */
START_TEST(heads_of_a_part)
{
    for (uint32_t part_heads = 0; part_heads <= 4; part_heads++)
        for (int group = 1; group <= 9; group++)
            for (int queries = 0; queries <= 12; queries++) {
                const struct glint_gpu_kernel kernel = {.strategy = GLINT_GPU_FUSED, .part_heads = part_heads, .parts_from = 8};
                struct glint_gpu_shape shape = {.batch = 1, .heads_q = group, .heads_kv = 1, .group = group, .seqlen_q = queries};
                shape.seqlen_k = shape.mask_offset = 3, shape.mask_first = -queries;
                const int heads = (int)part_heads * (queries < 8 ? 2 : 1); /* an eighth is one */
                const int expected = heads == 0 || heads > group || queries == 0 ? group : heads;
                ck_assert_int_eq(glint_gpu_part_heads(&shape, &kernel), expected);
                shape.batch = 77, shape.heads_kv = 5, shape.heads_q = 5 * group;
                ck_assert_int_eq(glint_gpu_part_heads(&shape, &kernel), expected);
            }
    const struct glint_gpu_kernel later = {.strategy = GLINT_GPU_FUSED, .part_heads = 1, .parts_from = 800};
    struct glint_gpu_shape few = {.batch = 1, .heads_q = 9, .heads_kv = 1, .group = 9, .seqlen_k = 7, .mask_offset = 7};
    for (int queries = 0; queries <= 802; queries++) {
        few.seqlen_q = queries, few.mask_first = -queries;
        ck_assert_int_eq(glint_gpu_part_heads(&few, &later), queries <= 25 ? 9 : queries < 100 ? 8 : queries < 800 ? 2 : 1);
    }
    const struct glint_gpu_kernel always = {.strategy = GLINT_GPU_FUSED, .part_heads = 1, .parts_from = 0};
    struct glint_gpu_shape shape = {.batch = 1, .heads_q = 8, .heads_kv = 1, .group = 8, .seqlen_q = 1, .seqlen_k = 1000};
    ck_assert_int_eq(glint_gpu_part_heads(&shape, &always), 1); /* key blocks that nobody sees, too */
    shape.seqlen_q = 0;                                         /* no kernel would clear the turns */
    ck_assert_int_eq(glint_gpu_part_heads(&shape, &always), 8);
}
END_TEST

/* The rule of persistent blocks as lib/cuda/policy.c tells it, whatever the batch and the number of key heads. */
START_TEST(heads_of_a_persistent_part)
{
    static const struct {
        int queries, mask, heads64, heads128; /* mask: 0 none, 1 causal, 2 a window of 512 keys, 3 of 64, 4 of 4096; heads: of 16 */
    } cases[] = {
        {16384, 0, 1, 1},  {8192, 0, 1, 1},  {8191, 0, 2, 2},  {4096, 0, 2, 2},   {4095, 0, 16, 3}, {2048, 0, 16, 4},
        {1024, 0, 16, 8},  {512, 0, 16, 16}, {1, 0, 16, 16},   {16384, 1, 4, 2},  {4096, 1, 4, 2},  {4094, 1, 16, 2},
        {2048, 1, 16, 2},  {2046, 1, 16, 4}, {1024, 1, 16, 4}, {1022, 1, 16, 16}, {8192, 2, 4, 2},  {600, 2, 4, 2},
        {8192, 3, 16, 16}, {8192, 4, 2, 2},  {0, 0, 16, 16},   {0, 1, 16, 16},
    };
    const struct glint_gpu_kernel rule = {.strategy = GLINT_GPU_FUSED}, three = {.strategy = GLINT_GPU_FUSED, .part_heads = 3};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int n = cases[i].queries;
        struct glint_gpu_shape shape = {
            .batch = 1, .heads_q = 16, .heads_kv = 1, .group = 16, .seqlen_q = n, .seqlen_k = n > 0 ? n : 900};
        shape.mask_offset = cases[i].mask > 0 ? 0 : shape.seqlen_k;
        shape.mask_first = cases[i].mask == 2 ? -511 : cases[i].mask == 3 ? -63 : cases[i].mask == 4 ? -4095 : -n;
        for (int times = 1; times < 9; times += 7) {
            shape.batch = times, shape.heads_kv = times, shape.heads_q = 16 * times;
            ck_assert_int_eq(glint_gpu_persistent_part_heads(&shape, &rule, 64), cases[i].heads64);
            ck_assert_int_eq(glint_gpu_persistent_part_heads(&shape, &rule, 128), cases[i].heads128);
            ck_assert_int_eq(glint_gpu_persistent_part_heads(&shape, &three, 64), n > 0 ? 3 : 16);
        }
        shape.group = 1;
        ck_assert_int_eq(glint_gpu_persistent_part_heads(&shape, &three, 64), 1);
    }
    /* Parts are as equal as they can be, but where a row has its own number. */
    const struct glint_gpu_shape five = {.batch = 1,
                                         .heads_q = 5,
                                         .heads_kv = 1,
                                         .group = 5,
                                         .seqlen_q = 2048,
                                         .seqlen_k = 2048,
                                         .mask_offset = 2048,
                                         .mask_first = -2048};
    const struct glint_gpu_kernel four = {.strategy = GLINT_GPU_FUSED, .part_heads = 4};
    ck_assert_int_eq(glint_gpu_persistent_part_heads(&five, &rule, 128), 3);
    ck_assert_int_eq(glint_gpu_persistent_part_heads(&five, &four, 128), 4);
}
END_TEST

/* Arrays follow one another in whole lines up to the last line of 2^63 - 1 bytes, and not beyond. */
START_TEST(arrays_fill_63_bits)
{
    const uint64_t most = INT64_MAX / 4 / 64 * 64;
    uint64_t at[4] = {128};
    ck_assert(glint_place_arrays((const struct glint_array[]){{3, 21}, {0, UINT64_MAX}, {1, 65}}, 3, 64, at));
    ck_assert_uint_eq(at[1], 192);
    ck_assert_uint_eq(at[2], 192);
    ck_assert_uint_eq(at[3], 320);
    const struct {
        struct glint_array array[2];
        bool fits;
    } cases[] = {
        {{{1, most - 128}, {0, 1}}, true},      {{{1, most - 128}, {1, 1}}, false},
        {{{1, most - 192}, {1, 64}}, true},     {{{1, most - 191}, {1, 64}}, false},
        {{{1, most - 127}, {0, 1}}, false},     {{{UINT64_C(1) << 32, UINT64_C(1) << 32}, {0, 1}}, false},
        {{{3, UINT64_MAX / 3}, {0, 1}}, false}, {{{UINT64_MAX, 2}, {0, 1}}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_int_eq(glint_place_arrays(cases[i].array, 2, 64, at), cases[i].fits);
        if (cases[i].fits)
            ck_assert_uint_eq(at[2], most);
    }
}
END_TEST

/* What a persistent row with parts asks for: sums of the key blocks of each key head, and a turn a stage that they
 * leave by. */
START_TEST(workspace_of_persistent_parts)
{
    const struct glint_gpu_kernel *const kernel = &glint_gpu_kernels[FAKE_KERNEL_PERSISTENT];
    const struct glint_gpu_shape shape = {.batch = 2, .heads_q = 24, .heads_kv = 3, .group = 8, .seqlen_q = 300, .seqlen_k = 4100};
    const uint64_t blocks = 2 * 3 * 33, rows = 384, heads = 48;
    struct glint_backward_layout layout = {.part_heads = 8, .parts = 1, .bias_parts = 1};
    const uint64_t *at = layout.at;
    ck_assert(glint_backward_lay_out(&layout, &shape, kernel, 64, 128, 64));
    ck_assert_uint_eq(at[GLINT_GPU_KEY_SUM], at[GLINT_GPU_ROW_KEYS]); /* neither sums nor turns */
    ck_assert_uint_eq(at[GLINT_GPU_TURN], 64 + heads * rows * (1 + 1 + 128));
    const uint64_t alone = at[GLINT_GPU_BACKWARD_ARRAYS];
    layout.part_heads = 2, layout.parts = 4;
    ck_assert(glint_backward_lay_out(&layout, &shape, kernel, 64, 128, 64));
    ck_assert_uint_eq(at[GLINT_GPU_KEY_SUM], alone);
    ck_assert_uint_eq(at[GLINT_GPU_KEY_TURN], alone + blocks * 2 * 128 * 128);
    ck_assert_uint_eq(at[GLINT_GPU_BACKWARD_ARRAYS],
                      at[GLINT_GPU_KEY_TURN] +
                          (blocks * 4 + 63) / 64 * 64); /* 128 keys of both leave by four stages of 64 queries */
}
END_TEST

/* Blocks of different length are in one order over as many heads as ungrouped ones would be; a section is never more
 * than there is. */
START_TEST(sections_of_grouped_heads)
{
    struct glint_gpu_shape grouped = {.batch = 16, .heads_q = 32, .heads_kv = 4, .group = 8, .seqlen_q = 1024, .seqlen_k = 1024};
    struct glint_gpu_shape single = {.batch = 16, .heads_q = 32, .heads_kv = 32, .group = 1, .seqlen_q = 1024, .seqlen_k = 1024};
    const struct glint_gpu_kernel split = {.strategy = GLINT_GPU_SPLIT}, fused = {.strategy = GLINT_GPU_FUSED};
    const struct glint_gpu_kernel by_maps = {.strategy = GLINT_GPU_SPLIT, .map_count = 7};
    const int32_t heads = glint_gpu_backward_section(&single, &split, 1, 64);
    ck_assert_int_eq(heads, (28 << 20) / (4 * 1024 * 64)); /* whose Q and dO, 4 bytes an element of both, fill a section */
    ck_assert_int_eq(glint_gpu_backward_section(&grouped, &split, 8, 64), 16 * 4); /* all */
    ck_assert_int_eq(glint_gpu_backward_section(&grouped, &fused, 1, 64), heads);  /* of 16 * 4 * 8 parts */
    /* sm90a's split rows: a quarter of them, but under a mask only up to 1024 keys of ungrouped heads */
    ck_assert_int_eq(glint_gpu_backward_section(&single, &by_maps, 1, 64), heads / 4);
    ck_assert_int_eq(glint_gpu_backward_section(&grouped, &by_maps, 8, 64), 16 * 4);
    single.seqlen_q = single.seqlen_k = 1025;
    ck_assert_int_eq(glint_gpu_backward_section(&single, &by_maps, 1, 64), glint_gpu_backward_section(&single, &split, 1, 64));
    single.mask_offset = 1025;
    ck_assert_int_eq(glint_gpu_backward_section(&single, &by_maps, 1, 64), (7 << 20) / (4 * 1025 * 64));
    grouped.mask_offset = 1024; /* no mask: blocks of equal length */
    ck_assert_int_eq(glint_gpu_backward_section(&grouped, &split, 8, 64), heads / 8);
    ck_assert_int_eq(glint_gpu_backward_section(&grouped, &by_maps, 8, 64), heads / 4 / 8);
    grouped = (struct glint_gpu_shape){.batch = 1, .heads_q = GLINT_MAX_EXTENT, .heads_kv = 1, .group = GLINT_MAX_EXTENT};
    ck_assert_int_eq(glint_gpu_backward_section(&grouped, &split, GLINT_MAX_EXTENT, 8), 1);
}
END_TEST

/* What is measured to be best, or near it, on 132 multiprocessors: 16384 tokens of 2048 / head_dim heads. */
START_TEST(sections_of_persistent_blocks)
{
    static const int32_t wanted[2][2][6] = {{{64, 64, 32, 16, 8, 4}, {16, 16, 16, 16, 8, 4}},
                                            {{128, 64, 64, 16, 16, 8}, {64, 32, 32, 16, 16, 8}}};
    for (int masked = 0; masked < 2; masked++)
        for (int wide = 0; wide < 2; wide++)
            for (int i = 0; i < 6; i++) {
                const int32_t keys = 512 << i, heads = wide ? 16 : 32;
                const struct glint_gpu_shape shape = {.batch = 16384 / keys,
                                                      .heads_q = heads,
                                                      .heads_kv = heads,
                                                      .group = 1,
                                                      .seqlen_q = keys,
                                                      .seqlen_k = keys,
                                                      .mask_offset = masked ? 0 : keys,
                                                      .mask_first = -keys};
                ck_assert_int_eq(glint_gpu_persistent_section(&shape, shape.group, wide ? 128 : 64, 128), wanted[masked][wide][i]);
            }
    const struct glint_gpu_shape one = {.batch = 1, .heads_q = 8, .heads_kv = 1, .group = 8};
    ck_assert_int_eq(glint_gpu_persistent_section(&one, one.group, 64, 128), 1);
    /* Nine parts of three key heads, in sections that are as equal as they can be: 5 and 4, not 8 and 1. */
    const struct glint_gpu_shape nine = {
        .batch = 1, .heads_q = 15, .heads_kv = 3, .group = 5, .seqlen_q = 16384, .seqlen_k = 16384, .mask_first = -16384};
    ck_assert_int_eq(glint_gpu_persistent_section(&nine, 2, 128, 128), 5);
    /* Five query heads a key head without a mask: sections of half a part, of a whole one, of two; and where no such
     * number is near, as equal as they can be. */
    static const struct {
        int32_t keys, batch, heads_kv, part_heads, section;
    } whole[] = {{2048, 8, 3, 3, 12}, {4096, 4, 3, 2, 6},   {16384, 1, 3, 1, 3},
                 {2048, 2, 3, 3, 12}, {2048, 1, 23, 3, 23}, {2048, 1, 37, 3, 15}};
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        const struct glint_gpu_shape five = {.batch = whole[i].batch,
                                             .heads_q = 5 * whole[i].heads_kv,
                                             .heads_kv = whole[i].heads_kv,
                                             .group = 5,
                                             .seqlen_q = whole[i].keys,
                                             .seqlen_k = whole[i].keys,
                                             .mask_offset = whole[i].keys,
                                             .mask_first = -whole[i].keys};
        ck_assert_int_eq(glint_gpu_persistent_section(&five, whole[i].part_heads, 128, 128), whole[i].section);
    }
    /* Blocks that take several query heads of 64: few key heads, so that many blocks of each read their rows
     * together. */
    for (int masked = 0; masked < 2; masked++) {
        const struct glint_gpu_shape eight = {.batch = 16,
                                              .heads_q = 32,
                                              .heads_kv = 4,
                                              .group = 8,
                                              .seqlen_q = 1024,
                                              .seqlen_k = 1024,
                                              .mask_offset = masked ? 0 : 1024,
                                              .mask_first = -1024};
        ck_assert_int_eq(glint_gpu_persistent_section(&eight, 8, 64, 128), 32);
        ck_assert_int_eq(glint_gpu_persistent_section(&eight, 1, 64, 128), 64);
    }
    /* A window of 512 keys: 2^16 / 639 heads, down to a power of two; one as wide as the sequence is none. */
    struct glint_gpu_shape window = {
        .batch = 8, .heads_q = 32, .heads_kv = 32, .group = 1, .seqlen_q = 8192, .seqlen_k = 8192, .mask_first = -511};
    ck_assert_int_eq(glint_gpu_persistent_section(&window, window.group, 64, 128), 64);
    ck_assert_int_eq(glint_gpu_persistent_section(&window, window.group, 128, 128), 64);
    window.batch = 1;
    ck_assert_int_eq(glint_gpu_persistent_section(&window, window.group, 64, 128), 32); /* all */
    window.mask_first = -8191;
    ck_assert_int_eq(glint_gpu_persistent_section(&window, window.group, 64, 128), 16);
    /* Fewer queries than a window of 4096 keys has: 2^16 / 256 heads, and all where there are none. */
    window = (struct glint_gpu_shape){.batch = 16,
                                      .heads_q = 32,
                                      .heads_kv = 32,
                                      .group = 1,
                                      .seqlen_q = 256,
                                      .seqlen_k = 8192,
                                      .mask_first = 7936 - 4095,
                                      .mask_offset = 7936};
    ck_assert_int_eq(glint_gpu_persistent_section(&window, window.group, 64, 128), 256);
    window.seqlen_q = 0;
    ck_assert_int_eq(glint_gpu_persistent_section(&window, window.group, 64, 128), 16 * 32);
    /* The widest band that there is: no overflow. */
    window.batch = 1;
    window.seqlen_q = window.seqlen_k = GLINT_MAX_EXTENT;
    window.mask_first = 1 - GLINT_MAX_EXTENT;
    window.mask_offset = GLINT_MAX_EXTENT - 1;
    ck_assert_int_eq(glint_gpu_persistent_section(&window, window.group, 64, 128), 1);
}
END_TEST

/* Sections of tiles under a causal mask: powers of two of at least 16 heads, whose K and V are at most 16 MiB if there
 * are more, and 32 MiB of short blocks. */
START_TEST(sections_of_tiles)
{
    static const int32_t wanted[8] = {256, 128, 64, 32, 16, 16, 16, 16};
    for (int i = 0; i < 6; i++) {
        ck_assert_int_eq(glint_gpu_tile_section(512 << i, 128, 2, 1, 1), wanted[i + 2]);
        ck_assert_int_eq(glint_gpu_tile_section(512 << i, 64, 2, 1, 1), wanted[i + 1]);
        ck_assert_int_eq(glint_gpu_tile_section(512 << i, 64, 2, 1, 0), wanted[i]);
    }
    ck_assert_int_eq(glint_gpu_tile_section(1024, 192, 2, 1, 1), 16);
    ck_assert_int_eq(glint_gpu_tile_section(2048, 128, 2, 8, 1), 128); /* heads of a group share K and V */
    ck_assert_int_ge(glint_gpu_tile_section(0, 64, 2, 1, 0), 16);
    ck_assert_int_eq(glint_gpu_tile_section(GLINT_MAX_EXTENT, 256, 2, 1, 0), 16);
}
END_TEST

/* Sections of ragged sequences: 32 MiB of K and V of the heads that go together, or 16 (sequence, head) pairs of the
 * bound. */
START_TEST(sections_of_ragged)
{
    struct glint_gpu_shape shape = {
        .batch = 8, .heads_q = 16, .heads_kv = 16, .group = 1, .seqlen_q = 2048, .seqlen_k = 2048, .section = 16};
    ck_assert_int_eq(glint_gpu_section_keys(&shape, 128, 2, 1), 4096);
    ck_assert_int_eq(glint_gpu_section_keys(&shape, 128, 2, 0), 1);
    shape.heads_q = shape.heads_kv = 4; /* of a section larger than the heads */
    ck_assert_int_eq(glint_gpu_section_keys(&shape, 256, 2, 1), 8192);
    shape.seqlen_k = 5000; /* four sequences of four heads */
    ck_assert_int_eq(glint_gpu_section_keys(&shape, 256, 2, 1), 20000);
    shape.group = 4;
    shape.heads_kv = 1; /* which share K and V */
    ck_assert_int_eq(glint_gpu_section_keys(&shape, 256, 2, 1), 32768);
    shape.seqlen_k = GLINT_MAX_EXTENT;
    shape.section = 1;
    ck_assert_int_eq(glint_gpu_section_keys(&shape, 256, 2, 1), INT32_MAX);
}
END_TEST

/* Whatever the shape and the steps of a chunk: every step is in one item, every result has its place, and an item is
 * what the kernel can fold. */
START_TEST(decode_layouts)
{
    struct glint_gpu_kernel of_chunks = glint_gpu_kernels[FAKE_KERNEL_TWO_A_SM];
    const struct glint_gpu_kernel *const kernel = &of_chunks;
    const int64_t chunk = of_chunks.chunk_steps = 1u << _i, span = 8 * chunk, blocks_per_sm = _i < 3 ? 2 : 1;
    if (blocks_per_sm == 1)
        of_chunks.first_launch = glint_gpu_kernels[FAKE_KERNEL_DECODE].first_launch;
    uint64_t state = 1, levels = 0, whole_by_steps = 0;
    for (int i = 0; i < 20000; i++) {
        int64_t draw[5];
        for (int j = 0; j < 5; j++) {
            state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
            draw[j] = (int64_t)(state >> 40);
        }
        struct glint_gpu_shape shape = {.batch = 1 + (int32_t)(draw[0] % (i % 3 == 0 ? 300 : 4)),
                                        .heads_kv = 1 + (int32_t)(draw[1] % 8),
                                        .group = 1 + (int32_t)(draw[2] % 20),
                                        .seqlen_q = 1 + (int32_t)(draw[3] % 8)};
        const uint32_t multiprocessors = 1 + (uint32_t)(draw[3] / 8 % 148);
        shape.heads_q = shape.heads_kv * shape.group;
        shape.seqlen_k = (int32_t)(draw[4] % (INT64_C(1) << (i % 25)));
        struct glint_decode_layout l;
        const int32_t range =
            i % 2 ? (int32_t)(draw[0] % (INT64_C(1) << (i % 21))) : 0; /* items of so many steps, or by the rule */
        ck_assert(glint_decode_lay_out(&l, &shape, kernel, 8, 128, multiprocessors, range, 128));
        if (range > 0 && l.parts > 1)
            ck_assert(l.range <= range && range < 2 * l.range);
        else if (range > 0)
            ck_assert(range >= (shape.seqlen_k + 127) / 128);
        const int64_t steps = (shape.seqlen_k + 127) / 128, slots = blocks_per_sm * multiprocessors;
        const int64_t tiles = (int64_t)shape.batch * shape.heads_kv * l.row_tiles;
        const int64_t entry = l.level == GLINT_DECODE_STEP ? 1 : l.level == GLINT_DECODE_CHUNK ? chunk : span;
        if (range == 0) { /* the rule as lib/cuda/policy.c tells it: fractions of the blocks are rounded down */
            const bool whole = 4 * (tiles + 1) > 3 * slots || shape.seqlen_k <= 256 ||
                               (4 * (tiles + 1) > 3 * (int64_t)multiprocessors && steps <= chunk);
            const int64_t chunks = tiles * ((steps + chunk - 1) / chunk), spans = tiles * ((steps + span - 1) / span);
            int64_t steps_each = steps, level = GLINT_DECODE_ROW;
            if (!whole && 8 * (spans + 1) > 7 * slots)
                level = GLINT_DECODE_SPAN, steps_each = span * ((spans + 4 * slots - 1) / (4 * slots));
            else if (!whole && 8 * (chunks + 1) > 7 * slots)
                level = GLINT_DECODE_CHUNK, steps_each = chunk * ((chunks + 4 * slots - 1) / (4 * slots));
            else if (!whole)
                for (level = GLINT_DECODE_STEP, steps_each = 1;
                     2 * steps_each <= chunk / 2 && tiles * ((steps + steps_each - 1) / steps_each) > slots;)
                    steps_each *= 2;
            ck_assert_int_eq(l.range, steps_each);
            ck_assert_int_eq(l.parts, steps > 0 ? (steps + steps_each - 1) / steps_each : 1);
            ck_assert_int_eq(l.level, l.parts == 1 ? GLINT_DECODE_ROW : level);
            whole_by_steps += l.parts == 1 && level == GLINT_DECODE_STEP;
        }
        const bool walk = l.items > slots && (l.items <= 8 * slots || (int64_t)l.range * 128 * 64 * 4 < 1 << 20);
        ck_assert_int_eq(l.blocks, walk ? slots : (int64_t)l.items);
        levels |= UINT64_C(1) << l.level;
        ck_assert_int_eq(l.rows, shape.seqlen_q * shape.group);
        ck_assert_int_eq(l.row_tiles, (l.rows + 7) / 8);
        ck_assert_uint_eq(l.items, (uint32_t)(tiles * l.parts));
        ck_assert_int_ge((int64_t)l.parts * l.range, steps);
        ck_assert(steps == 0 || (int64_t)(l.parts - 1) * l.range < steps);
        ck_assert_int_eq(l.level == GLINT_DECODE_ROW, l.parts == 1);
        if (l.level == GLINT_DECODE_ROW) {
            ck_assert_int_eq(l.entries, 0);
            ck_assert_uint_eq(l.merge_blocks, 0);
            ck_assert_uint_eq(l.at[GLINT_GPU_DECODE_ARRAYS], 128);
            continue;
        }
        ck_assert(l.level == GLINT_DECODE_STEP ? chunk % l.range == 0 : l.range % entry == 0);
        ck_assert_int_eq(l.entries, (steps + entry - 1) / entry);
        ck_assert_uint_eq(l.merge_blocks, (uint32_t)(shape.batch * shape.heads_kv * ((l.rows + 1) / 2) * 4));
        const uint64_t results = (uint64_t)(tiles * l.entries) * 8, last = l.at[GLINT_GPU_DECODE_ARRAYS];
        ck_assert_uint_eq(l.at[GLINT_GPU_PARTIAL_O], 128);
        ck_assert_uint_ge(l.at[GLINT_GPU_PARTIAL_ROWS], 128 + results * 64);
        ck_assert_uint_ge(last, l.at[GLINT_GPU_PARTIAL_ROWS] + results * 8);
        ck_assert_uint_le(last, 128 + results * (64 + 8) + 127);
    }
    ck_assert_uint_eq(levels, 0xf);             /* all of them have been seen */
    ck_assert(chunk < 8 || whole_by_steps > 0); /* steps that are so few that one item has all of them */
}
END_TEST

/* A grid has all items, and not all blocks of the merge. */
START_TEST(decode_merges_beyond_a_grid)
{
    const struct glint_gpu_kernel *const kernel = &glint_gpu_kernels[FAKE_KERNEL_TWO_A_SM];
    struct glint_gpu_shape shape = {.batch = 134217727, .heads_q = 8, .heads_kv = 1, .group = 8, .seqlen_q = 1, .seqlen_k = 256};
    struct glint_decode_layout l;
    ck_assert(glint_decode_lay_out(&l, &shape, kernel, 8, 128, 100, 1, 0));
    ck_assert_uint_eq(l.merge_blocks, 134217727u * 4 * 4); /* 4 pairs of rows, 4 times 16 columns */
    shape.batch++;
    ck_assert(!glint_decode_lay_out(&l, &shape, kernel, 8, 128, 100, 1, 0));
    shape.seqlen_k = 128; /* nothing is merged */
    ck_assert(glint_decode_lay_out(&l, &shape, kernel, 8, 128, 100, 1, 0));
    ck_assert_uint_eq(l.merge_blocks, 0);
}
END_TEST

/* Spans of keys, counted one by one, that have one of the tiles from `from` to `end` - 1: lib/device/step.h
 * has where they begin. */
static int64_t spans_among(int64_t first, bool grow, int64_t from, int64_t end)
{
    int64_t count = 0, at = 0;
    for (int64_t i = 0; at < end; i++) {
        at += first * (!grow || i < 16 ? 1 : i < 24 ? 2 : 4);
        count += at > from;
    }
    return count;
}

/* The most spans that some tile of so many queries sees, wherever in its sequence it is. */
static int64_t spans_seen(const struct glint_variant *row, const struct glint_gpu_kernel *kernel, const struct glint_problem *p,
                          int64_t queries)
{
    const int64_t all = (p->seqlen_k + row->tile_n - 1) / row->tile_n, period = (int64_t)kernel->chunk_steps * row->tile_n;
    const bool window = (row->features & GLINT_FEATURE_LEFT_BOUND) != 0;
    if (!window || p->window_left == GLINT_UNBOUNDED || p->window_right == GLINT_UNBOUNDED)
        return spans_among(kernel->chunk_steps, !window, 0, all);
    int64_t most = 0;
    for (int64_t key = 0; key < period && key < p->seqlen_k; key++) {
        const int64_t last = key + queries - 1 + p->window_left + p->window_right;
        const int64_t end = last < p->seqlen_k ? last / row->tile_n + 1 : all;
        const int64_t count = spans_among(kernel->chunk_steps, false, key / row->tile_n, end);
        most = count > most ? count : most;
    }
    return most;
}

/* The first span of chunk 1 of n, of tiles `from` to `end` - 1, where spans have `first` tiles each: of_chunk of
 * lib/device/step.h. */
static int64_t second_chunk(int64_t first, int64_t n, int64_t from, int64_t end)
{
    const int64_t own = from / first, all = (end - 1) / first + 1, at = from + (end - from) / n,
                  nearest = at / first + (at % first > first / 2), most = nearest < all ? nearest : all;
    return most > own + 1 ? most : own + 1;
}

/* With a window a tile of rows whose keys are among `seen` tiles that follow one another, wherever it is and however
 * many of them it sees, has a place for the slot of chunk 0 and of each of its spans from its own chunk 1 on: the
 * device's plan gives all tiles of a sequence as many as one at its beginning that sees all `seen` needs. */
START_TEST(window_slots)
{
    static const int64_t firsts[] = {1, 2, 3, 5, 8};
    int64_t exact = 0;
    for (size_t f = 0; f < sizeof firsts / sizeof firsts[0]; f++)
        for (int64_t first = firsts[f], seen = 1; seen <= 12 * first; seen++) {
            const int64_t spans = (seen + first - 2) / first + 1;
            for (int64_t n = 2; n <= spans; n++) {
                const int64_t slots = spans - second_chunk(first, n, 0, seen) + 1;
                for (int64_t tiles = 1; tiles <= seen; tiles++)
                    for (int64_t from = 0; from < 2 * first; from++) {
                        const int64_t all = (from + tiles - 1) / first + 1, second = second_chunk(first, n, from, from + tiles),
                                      used = all > second ? all - second + 1 : 1;
                        ck_assert_int_le(used, slots);
                        exact += used == slots;
                    }
            }
        }
    ck_assert_int_gt(exact, 1000);
}
END_TEST

/* Whatever the shape: a unit fits in 32 bits, partial results of all tiles have their place unless there are more
 * than the rule allows, and the plan has room for every sequence. */
START_TEST(step_layouts)
{
    uint64_t state = 1, refused = 0, full = 0, whole = 0, none = 0, own_plans = 0;
    for (int i = 0; i < 20000; i++) {
        int64_t draw[10];
        for (int j = 0; j < 10; j++) {
            state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
            draw[j] = (int64_t)(state >> 40);
        }
        const struct glint_gpu_kernel *const kernel = &glint_gpu_kernels[FAKE_KERNEL_SPANS + draw[0] % 5];
        const int64_t tile_rows = kernel->map_count > 0 ? 128 : 64;
        const int features = i % 3 == 0 ? GLINT_FEATURE_LEFT_BOUND | GLINT_FEATURE_RIGHT_BOUND : i % 3 - 1;
        const struct glint_variant row = {.features = (uint16_t)features,
                                          .tile_m = (uint16_t)tile_rows,
                                          .tile_n = (uint16_t)(64 << draw[1] % 2),
                                          .kernel = (uint32_t)(kernel - glint_gpu_kernels)};
        struct glint_problem p = {.batch = 1 + draw[2] % (i % 7 == 0 ? 1 << 24 : 40),
                                  .heads_kv = 1 + draw[3] % 4,
                                  .head_dim = 64 << draw[3] / 4 % 2,
                                  .head_dim_v = 64 << draw[3] / 4 % 2,
                                  .seqlen_q = draw[4] % (1 << i % 11),
                                  .seqlen_k = draw[5] % (1 << i % 16),
                                  .lengths = (uint32_t)(draw[6] % 3),
                                  .window_left = draw[6] % 5 == 0 ? GLINT_UNBOUNDED : draw[7] % 300,
                                  .window_right = draw[6] % 7 == 0 ? GLINT_UNBOUNDED : draw[7] / 300 % 4};
        p.heads_q = p.heads_kv * (1 + draw[8] % 40);
        p.rows_q = p.lengths == GLINT_LENGTHS_RAGGED ? draw[9] % (p.batch * p.seqlen_q + 1) : 0;
        const uint32_t multiprocessors = 1 + (uint32_t)(draw[8] / 40 % 148);
        int64_t group = 16;
        while (p.heads_q / p.heads_kv % group != 0)
            group--;
        ck_assert_int_eq(glint_step_group(&p), group);

        const int64_t blocks = (int64_t)multiprocessors * (kernel->map_count > 0 ? 1 : 2);
        const int64_t queries = 16 / group, tile = tile_rows / 16 * queries, heads = p.heads_q / group,
                      of_each = (p.seqlen_q + tile - 1) / tile;
        int64_t tiles = p.batch * of_each;
        if (p.lengths == GLINT_LENGTHS_RAGGED && p.rows_q / tile + p.batch < tiles)
            tiles = p.rows_q / tile + p.batch;
        /* every place that a tile can have in the spans is one that a sequence has; else a span more may be counted */
        const bool bounded =
            i % 3 != 0 || (p.window_left != GLINT_UNBOUNDED && p.window_right != GLINT_UNBOUNDED &&
                           p.seqlen_k > tile + p.window_left + p.window_right + 2 * kernel->chunk_steps * row.tile_n);
        const int64_t spans = spans_seen(&row, kernel, &p, tile), chunks = spans < 1 ? 1 : spans < 80 ? spans : 80;
        struct glint_step_layout l;
        const bool fits = glint_step_lay_out(&l, &row, &p, multiprocessors);
        struct glint_family_plan plan_of_row = {0};
        ck_assert_int_eq(glint_cuda_plan(&row, &p, multiprocessors, &plan_of_row), fits);
        if (tiles * heads * chunks > INT32_MAX) {
            ck_assert(!fits);
            refused++;
            continue;
        }
        if (!fits) {
            ck_assert(!bounded);
            ck_assert_int_gt(tiles * heads * (chunks + 1), INT32_MAX);
            continue;
        }
        ck_assert_int_eq(l.block_queries, queries);
        /* rows of a tile: of a sequence that one tile holds, whole blocks of 16 */
        const int64_t rows = of_each > 1 ? tile_rows : 16 * ((p.seqlen_q + queries - 1) / queries),
                      slots = l.partial_rows / tile_rows;
        const int64_t cap = 5 * blocks, one = (tiles * heads * rows + tile_rows - 1) / tile_rows;
        const int64_t exact = (tiles * heads * rows * spans + tile_rows - 1) / tile_rows;
        ck_assert_int_eq(l.partial_rows % tile_rows, 0);
        ck_assert_int_le(slots, cap);
        if (slots == cap) {
            ck_assert_int_gt((one + 1) * (spans + 1), cap);
            full++;
        } else if (spans > 1) {
            ck_assert_int_ge(slots, exact);
            ck_assert_int_le(slots, exact + (bounded ? 0 : one + 1));
            whole += slots > 0;
        }
        none += slots == 0;
        if (tiles == 0 && p.lengths == GLINT_LENGTHS_HOST) {
            ck_assert_uint_eq(l.at[GLINT_GPU_STEP_ARRAYS] + l.blocks + l.merge_blocks, 0);
            continue;
        }
        ck_assert_uint_eq(l.blocks, (uint64_t)blocks);
        ck_assert_uint_eq(l.merge_blocks, slots > 0 ? 4 * (uint64_t)blocks : 0);
        const uint64_t plan = 4 * (16 + 15 * (uint64_t)p.batch + 3), row_bytes = 4 * (uint64_t)(p.head_dim + 2);
        /* O of the spans before may be there, too, of each block; a span more may be counted. */
        const uint64_t folded = kernel->folded != 0 ? (uint64_t)(blocks * tile_rows) * row_bytes : 0;
        const uint64_t partial = (uint64_t)l.partial_rows * row_bytes + (spans > 1 ? folded : 0);
        const uint64_t most = partial + (!bounded && spans <= 1 ? folded : 0);
        /* Up to 8 sequences and tiles of rows each block has a plan of its own, in lines of its own. */
        const int64_t few = p.batch < 8 ? p.batch : 8;
        const uint64_t copy = (4 * (16 + 15 * (uint64_t)few + 3) + 255) / 256 * 256, copies = copy * (uint64_t)blocks;
        ck_assert_uint_eq((uint64_t)l.own_plan * 4, p.batch <= 8 && tiles <= 8 ? copy : 0);
        own_plans += l.own_plan > 0;
        const uint64_t begin = 4 * l.at[GLINT_GPU_PARTIAL], end = 4 * l.at[GLINT_GPU_STEP_ARRAYS];
        ck_assert_uint_eq(l.at[GLINT_GPU_PLANS], 0);
        ck_assert_uint_ge(begin, plan > copies ? plan : copies);
        ck_assert_uint_lt(begin, (plan > copies ? plan : copies) + 256);
        ck_assert_uint_ge(end, begin + partial);
        ck_assert_uint_lt(end, begin + most + 256);

        static struct glint_gpu_step step; /* 64-byte aligned, as a stack under AddressSanitizer is not */
        char workspace[1];
        glint_step_fill(&p, &l, workspace, &step);
        ck_assert_int_eq(step.group, group);
        ck_assert_int_eq(step.heads, heads);
        ck_assert_int_eq(step.parts, heads / p.heads_kv);
        ck_assert_int_eq(step.block_queries, queries);
        ck_assert_int_eq(step.blocks, (int)l.blocks);
        ck_assert_int_eq(step.own_plan, l.own_plan);
        ck_assert_int_eq(step.partial_rows, l.partial_rows);
        ck_assert_ptr_eq(step.plan, workspace);
        if (begin < end)
            ck_assert_uint_eq((uintptr_t)step.partial, (uintptr_t)workspace + begin);
        else
            ck_assert_ptr_null(step.partial);
    }
    ck_assert_msg(refused > 100 && full > 100 && whole > 100 && none > 100 && own_plans > 100,
                  "%d refused, %d full, %d whole, %d without, %d with own plans", (int)refused, (int)full, (int)whole, (int)none,
                  (int)own_plans);
}
END_TEST

/* Numbers of the caller's in place of the rules': what the row takes of them, and a workspace for them. */
START_TEST(tuned)
{
    const struct glint_variant *fused = &glint_variants[FAKE_FUSED];
    struct glint_family_plan ruled = {0}, plan = {0};
    struct glint_cuda_plan by_rule, own;
    struct glint_problem p;
    glint_problem_bhsd(&p, GLINT_F16, 3, 640, 640, 16, 2, 64);
    ck_assert(glint_cuda_plan(fused, &p, 7, &ruled));
    memcpy(&by_rule, ruled.word, sizeof by_rule);
    const struct glint_gpu_tuning none = {0};
    ck_assert(glint_cuda_plan_tuned(fused, &p, 7, &none, &plan));
    ck_assert_mem_eq(&plan, &ruled, sizeof plan);
    for (int32_t heads = 1; heads <= 9; heads++)
        for (int32_t section = 1; section <= 60; section++) {
            const struct glint_gpu_tuning tuning = {.part_heads = heads, .section = section};
            const int32_t wanted = heads <= 8 ? heads : by_rule.backward.part_heads, parts = (8 + wanted - 1) / wanted;
            ck_assert(glint_cuda_plan_tuned(fused, &p, 7, &tuning, &plan));
            memcpy(&own, plan.word, sizeof own);
            ck_assert_int_eq(own.backward.part_heads, wanted);
            ck_assert_int_eq(own.backward.parts, parts);
            ck_assert_int_eq(own.shape.section, section < 3 * 2 * parts ? section : 3 * 2 * parts);
            ck_assert_int_eq(own.backward.at[GLINT_GPU_KEY_SUM]<own.backward.at[GLINT_GPU_KEY_TURN], parts> 1);
            if (parts == by_rule.backward.parts)
                ck_assert_uint_eq(plan.workspace_bytes, ruled.workspace_bytes);
        }
    p.seqlen_q = 0; /* no kernel would clear the turns */
    const struct glint_gpu_tuning one = {.part_heads = 1};
    ck_assert(glint_cuda_plan_tuned(fused, &p, 7, &one, &plan));
    memcpy(&own, plan.word, sizeof own);
    ck_assert_int_eq(own.backward.parts, 1);
}
END_TEST

/* Whole clusters can be more blocks than a grid has. */
START_TEST(huge_grids_of_clusters)
{
    struct glint_variant variant = glint_variants[FAKE_PLAIN];
    struct glint_family_plan plan = {0};
    struct glint_cuda_plan own;
    struct glint_problem p;
    variant.kernel = FAKE_KERNEL_CLUSTERS;
    glint_problem_bhsd(&p, GLINT_F16, 0x7fff, 1, 1, 0x10000, 1, 64);
    ck_assert(glint_cuda_plan(&variant, &p, 1, &plan));
    memcpy(&own, plan.word, sizeof own);
    ck_assert_uint_eq(own.blocks[0], 0x7fff0000);
    p.heads_q = 0x10002; /* 2^31 - 2 tiles: 2^31 blocks */
    ck_assert(!glint_cuda_plan(&variant, &p, 1, &plan));
}
END_TEST

/* The workspace's own bound, with a kernel whose grid does not grow with the queries. */
START_TEST(huge_workspace)
{
    struct glint_variant variant = glint_variants[FAKE_FUSED];
    struct glint_family_plan plan = {0};
    struct glint_problem p;
    variant.kernel = FAKE_KERNEL_KEYS;
    glint_problem_bhsd(&p, GLINT_F16, 1 << 15, GLINT_MAX_EXTENT, 1, 128, 1, 64);
    ck_assert(glint_cuda_plan(&variant, &p, 1, &plan)); /* 2^52 rows: 2^60 bytes of dq_sum */
    ck_assert_uint_ge(plan.workspace_bytes, (size_t)GLINT_MAX_EXTENT << (15 + 7 + 6 + 2));
    ck_assert_uint_le(plan.workspace_bytes, INT64_MAX);
    p.batch <<= 4;
    ck_assert(!glint_cuda_plan(&variant, &p, 1, &plan));
    p.batch = GLINT_MAX_EXTENT;
    p.heads_q = GLINT_MAX_EXTENT;
    ck_assert(!glint_cuda_plan(&variant, &p, 1, &plan));
}
END_TEST

static void add(TCase *tcase)
{
    tcase_add_test(tcase, visible_queries);
    tcase_add_test(tcase, heads_of_a_part);
    tcase_add_test(tcase, heads_of_a_persistent_part);
    tcase_add_test(tcase, workspace_of_persistent_parts);
    tcase_add_test(tcase, arrays_fill_63_bits);
    tcase_add_test(tcase, sections_of_grouped_heads);
    tcase_add_test(tcase, sections_of_persistent_blocks);
    tcase_add_test(tcase, sections_of_tiles);
    tcase_add_test(tcase, sections_of_ragged);
    tcase_add_loop_test(tcase, decode_layouts, 0, 4);
    tcase_add_test(tcase, decode_merges_beyond_a_grid);
    tcase_add_test(tcase, window_slots);
    tcase_add_test(tcase, step_layouts);
    tcase_add_test(tcase, tuned);
    tcase_add_test(tcase, huge_grids_of_clusters);
    tcase_add_test(tcase, huge_workspace);
}

int main(void)
{
    return run_suite("cuda policy", add);
}
