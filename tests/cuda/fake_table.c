#include "tests/cuda/fake_table.h"

#include "lib/cuda/rows.h"
#include "lib/takes.h"
#include "tests/cuda/fake_driver.h"

#define IMAGE(ARCH, PARAMETER, LOCAL, ...)                                             \
    {                                                                                  \
        FAKE_MAGIC, #ARCH, (int)sizeof(struct glint_##PARAMETER), {__VA_ARGS__}, LOCAL \
    }
#define ROW_IMAGE(name, ARCH)                        \
    {                                                \
#ARCH, (const unsigned char *)&name##_##ARCH \
    }

static const struct fake_image fused_80 = IMAGE(80, gpu_call, 0, "fused_delta", "fused_all", "fused_dq");
static const struct fake_image fused_90 = IMAGE(90, gpu_call, 0, "fused_delta", "fused_all", "fused_dq");
#define SPLIT_ENTRIES                                                                                                           \
    "split_delta", "split_sinks", "split_dkdv", "split_dq", "split_lengths_delta", "split_lengths_sinks", "split_lengths_dkdv", \
        "split_lengths_dq", "split_ragged_delta", "split_ragged_sinks", "split_ragged_dkdv", "split_ragged_dq"
static const struct fake_image split_80 = IMAGE(80, gpu_call, 0, SPLIT_ENTRIES);
static const struct fake_image split_90 = IMAGE(90, gpu_call, 0, SPLIT_ENTRIES);
static const struct fake_image decode_80 =
    IMAGE(80, decode_params, 0, "decode", "decode_ragged", "decode_merge", "decode_ragged_merge");
static const struct fake_image decode_90 =
    IMAGE(90, decode_params, 0, "decode", "decode_ragged", "decode_merge", "decode_ragged_merge");
static const struct fake_image only_120 = IMAGE(120, gpu_call, 0, "only");
static const struct fake_image much_80 = IMAGE(80, gpu_call, 0, "much");
static const struct fake_image much_90 = IMAGE(90, gpu_call, 0, "much");
static const struct fake_image causal_80 = IMAGE(80, gpu_call, 0, "causal", "causal_ragged", "causal_ragged_pages");
static const struct fake_image causal_86 = IMAGE(86, gpu_call, 0, "causal", "causal_ragged", "causal_ragged_pages");
static const struct fake_image causal_87 = IMAGE(87, gpu_call, 0, "causal", "causal_ragged", "causal_ragged_pages");
static const struct fake_image causal_90 = IMAGE(90, gpu_call, 0, "causal", "causal_ragged", "causal_ragged_pages");
static const struct fake_image plain_80 = IMAGE(80, gpu_call, 0, "plain");
static const struct fake_image plain_90 = IMAGE(90, gpu_call, 0, "plain");
static const struct fake_image local_80 = IMAGE(80, gpu_call, 16, "local");
static const struct fake_image local_90 = IMAGE(90, gpu_call, 16, "local");

static const struct fake_image maps_forward_90a = IMAGE(90a, gpu_forward_maps, 0, "maps_forward");
static const struct fake_image maps_both_90a = IMAGE(90a, gpu_forward_maps, 0, "maps_forward", "maps_ragged");
static const struct fake_image maps_backward_90a =
    IMAGE(90a, gpu_backward_maps, 0, "maps_delta", "maps_dkdv", "maps_dq", "maps_ragged_delta", "maps_sequences");
static const struct fake_image both_90 = IMAGE(90, gpu_call, 0, "both");
static const struct fake_image both_90a = IMAGE(90a, gpu_call, 0, "both");

#define ROWS_ENTRIES "glint_merge_rows", "glint_append_rows", "glint_append_narrow_rows"
static const struct fake_image rows_80 = IMAGE(80, merge_params, 0, ROWS_ENTRIES);
static const struct fake_image rows_87 = IMAGE(87, merge_params, 0, ROWS_ENTRIES);
static const struct fake_image rows_90 = IMAGE(90, merge_params, 0, ROWS_ENTRIES);
static const struct fake_image rows_120 = IMAGE(120, merge_params, 0, ROWS_ENTRIES);
const struct glint_gpu_image glint_gpu_rows[] = {ROW_IMAGE(rows, 80), ROW_IMAGE(rows, 87), ROW_IMAGE(rows, 90),
                                                 ROW_IMAGE(rows, 120)};
const uint32_t glint_gpu_rows_count = 4;

static const struct glint_gpu_image fused_images[] = {ROW_IMAGE(fused, 80), ROW_IMAGE(fused, 90)};
static const struct glint_gpu_image split_images[] = {ROW_IMAGE(split, 80), ROW_IMAGE(split, 90)};
static const struct glint_gpu_image decode_images[] = {ROW_IMAGE(decode, 80), ROW_IMAGE(decode, 90)};
static const struct glint_gpu_image only_images[] = {ROW_IMAGE(only, 120)};
static const struct glint_gpu_image much_images[] = {ROW_IMAGE(much, 80), ROW_IMAGE(much, 90)};
static const struct glint_gpu_image causal_images[] = {ROW_IMAGE(causal, 80), ROW_IMAGE(causal, 86), ROW_IMAGE(causal, 87),
                                                       ROW_IMAGE(causal, 90)};
static const struct glint_gpu_image plain_images[] = {ROW_IMAGE(plain, 80), ROW_IMAGE(plain, 90)};
static const struct glint_gpu_image local_images[] = {ROW_IMAGE(local, 80), ROW_IMAGE(local, 90)};
static const struct glint_gpu_image maps_forward_images[] = {ROW_IMAGE(maps_forward, 90a)};
static const struct glint_gpu_image maps_both_images[] = {ROW_IMAGE(maps_both, 90a)};
static const struct glint_gpu_image maps_backward_images[] = {ROW_IMAGE(maps_backward, 90a)};
static const struct glint_gpu_image both_images[] = {ROW_IMAGE(both, 90), ROW_IMAGE(both, 90a)};

#define Q GLINT_GPU_QUERY_BLOCKS
#define K GLINT_GPU_KEY_BLOCKS
#define LAUNCH(ENTRY, GRID, ROWS, THREADS, BYTES) \
    .entry = ENTRY, .grid = GRID, .rows = ROWS, .threads = THREADS, .smem_bytes = BYTES
#define KERNEL(STRATEGY, IMAGES) .strategy = GLINT_GPU_##STRATEGY, .images = IMAGES, .image_count = sizeof IMAGES / sizeof IMAGES[0]
#define FORWARD(IMAGES, ...)                                                            \
    {                                                                                   \
        KERNEL(FORWARD, IMAGES), .launch_count = 1, .launch = { {LAUNCH(__VA_ARGS__)} } \
    }
static const struct glint_gpu_kernel fused = {KERNEL(FUSED, fused_images),
                                              .launch_count = 3,
                                              .launch = {{LAUNCH("fused_delta", Q, 128, 128, 0)},
                                                         {LAUNCH("fused_all", K, 128, 256, 98304)},
                                                         {LAUNCH("fused_dq", Q, 128, 128, 512)}},
                                              .part_heads = 2,
                                              .parts_from = FAKE_PARTS_FROM,
                                              .row_dim = 64};
static const struct glint_gpu_kernel split = {
    KERNEL(SPLIT, split_images), .launch_count = 12,
    .launch = {{LAUNCH("split_delta", Q, 128, 128, 0)},
               {LAUNCH("split_sinks", GLINT_GPU_QUERY_HEADS, 0, 256, 32), .sinks = 1},
               {LAUNCH("split_dkdv", K, 64, 128, 65536)},
               {LAUNCH("split_dq", Q, 64, 128, 32768)},
               {LAUNCH("split_lengths_delta", Q, 128, 128, 48), .lengths = 1},
               {LAUNCH("split_lengths_sinks", GLINT_GPU_QUERY_HEADS, 0, 256, 32), .lengths = 1, .sinks = 1},
               {LAUNCH("split_lengths_dkdv", K, 64, 128, 65584), .lengths = 1},
               {LAUNCH("split_lengths_dq", Q, 64, 128, 32816), .lengths = 1},
               {LAUNCH("split_ragged_delta", Q, 128, 128, 304), .lengths = 2},
               {LAUNCH("split_ragged_sinks", GLINT_GPU_QUERY_HEADS, 0, 256, 32), .lengths = 2, .sinks = 1},
               {LAUNCH("split_ragged_dkdv", K, 64, 128, 65584), .lengths = 2},
               {LAUNCH("split_ragged_dq", Q, 64, 128, 32816), .lengths = 2}},
    .row_dim = 64};
static const struct glint_gpu_kernel decode = {
    KERNEL(DECODE, decode_images),
    .launch_count = 4,
    .launch = {{LAUNCH("decode", GLINT_GPU_DECODE_ITEMS, 8, 128, 140000), .blocks_per_sm = 1, .dependent = 1},
               {LAUNCH("decode_ragged", GLINT_GPU_DECODE_ITEMS, 8, 128, 140000), .blocks_per_sm = 1, .dependent = 1, .lengths = 2},
               {LAUNCH("decode_merge", GLINT_GPU_DECODE_MERGE, 2, 256, 4096), .dependent = 1},
               {LAUNCH("decode_ragged_merge", GLINT_GPU_DECODE_MERGE, 2, 256, 4096), .dependent = 1, .lengths = 2}},
    .row_dim = 256,
    .chunk_steps = 8,
    .span_chunks = 8};
static const struct glint_gpu_kernel only = FORWARD(only_images, "only", Q, 128, 128, 49152);
static const struct glint_gpu_kernel much = FORWARD(much_images, "much", Q, 128, 256, 163840);
static const struct glint_gpu_kernel causal = {
    KERNEL(FORWARD, causal_images), .launch_count = 3,
    .launch = {{LAUNCH("causal", Q, 128, 128, 49152)},
               {LAUNCH("causal_ragged", Q, 128, 128, 49184), .lengths = GLINT_LENGTHS_RAGGED},
               {LAUNCH("causal_ragged_pages", Q, 128, 128, 49232), .lengths = GLINT_LENGTHS_RAGGED, .pages = 1}}};
static const struct glint_gpu_kernel plain = FORWARD(plain_images, "plain", Q, 128, 128, 81920);
static const struct glint_gpu_kernel local = FORWARD(local_images, "local", Q, 64, 128, 1024);

/* Everything at once: persistent clusters, a counter, maps of whole heads and of slabs. */
#define MAPS_FORWARD LAUNCH("maps_forward", Q, 128, 384, 200704), .blocks_per_sm = 1, .cluster = 2, .dependent = 1
#define FORWARD_MAPS                                               \
    .row_dim = 128, .zero_words = 3, .map_count = 4,               \
    .map = {{GLINT_GPU_Q, TENSOR_MAP_SWIZZLE_128B, 2, 0, 64, 64},  \
            {GLINT_GPU_K, TENSOR_MAP_SWIZZLE_128B, 2, 0, 64, 128}, \
            {GLINT_GPU_V, TENSOR_MAP_SWIZZLE_64B, 0, 0, 32, 128},  \
            {GLINT_GPU_O, TENSOR_MAP_NO_SWIZZLE, 0, 0, 128, 64}}
static const struct glint_gpu_kernel maps_forward = {KERNEL(FORWARD, maps_forward_images), .launch_count = 1,
                                                     .launch = {{MAPS_FORWARD}}, FORWARD_MAPS};
static const struct glint_gpu_kernel maps_both = {/* and a kernel for ragged sequences */
                                                  KERNEL(FORWARD, maps_both_images), .launch_count = 2,
                                                  .launch = {{MAPS_FORWARD},
                                                             {LAUNCH("maps_ragged", Q, 128, 384, 204800), .blocks_per_sm = 1,
                                                              .lengths = GLINT_LENGTHS_RAGGED}},
                                                  .lengths_words = 1, FORWARD_MAPS};
static const struct glint_gpu_kernel maps_backward = {
    KERNEL(SPLIT, maps_backward_images),
    .launch_count = 5,
    .launch = {{LAUNCH("maps_delta", Q, 128, 128, 0)},
               {LAUNCH("maps_dkdv", K, 64, 256, 200704), .blocks_per_sm = 2, .dependent = 1},
               {LAUNCH("maps_dq", Q, 128, 256, 131072), .dependent = 1},
               {LAUNCH("maps_ragged_delta", Q, 128, 128, 304), .lengths = GLINT_LENGTHS_RAGGED},
               {LAUNCH("maps_sequences", K, 64, 384, 204800), .blocks_per_sm = 1, .lengths = GLINT_LENGTHS_RAGGED}},
    .row_dim = 128,
    .zero_words = 65,
    .map_count = 9,
    .map = {{GLINT_GPU_Q, TENSOR_MAP_SWIZZLE_128B, 2, 0, 64, 64},
            {GLINT_GPU_K, TENSOR_MAP_SWIZZLE_128B, 2, 0, 64, 64},
            {GLINT_GPU_V, TENSOR_MAP_SWIZZLE_128B, 2, 0, 64, 64},
            {GLINT_GPU_O, TENSOR_MAP_SWIZZLE_128B, 2, 0, 64, 64},
            {GLINT_GPU_DOUT, TENSOR_MAP_SWIZZLE_128B, 1, 0, 64, 64},
            {GLINT_GPU_DQ, TENSOR_MAP_SWIZZLE_128B, 2, 0, 64, 128},
            {GLINT_GPU_DK, TENSOR_MAP_SWIZZLE_128B, 2, 0, 64, 64},
            {GLINT_GPU_DV, TENSOR_MAP_SWIZZLE_128B, 2, 0, 64, 64},
            {GLINT_GPU_Q, TENSOR_MAP_SWIZZLE_32B, 0, 0, 16, 128}}};
static const struct glint_gpu_kernel both = {KERNEL(FORWARD, both_images), .launch_count = 1,
                                             .launch = {{LAUNCH("both", Q, 128, 128, 49152), .dependent = 1}}};

#define ROW_OF(family, sm, name, pass, dtype, features, head_dim, m, n, queries_up_to, kernel, takes, could)                \
    {                                                                                                                       \
        name, pass, dtype, 0, features, head_dim, m, n, 0, sm, GLINT_MATH_NATIVE, 0, 0, 0, queries_up_to, 16, takes, could, \
            &family, &kernel                                                                                                \
    }
#define ROW(name, pass, dtype, features, head_dim, m, n, kernel, takes, could) \
    ROW_OF(glint_family_sm80, 80, name, pass, dtype, features, head_dim, m, n, 0, kernel, takes, could)
#define HOPPER(name, pass, dtype, features, head_dim, m, n, kernel, takes, could) \
    ROW_OF(glint_family_sm90a, 90, name, pass, dtype, features, head_dim, m, n, 0, kernel, takes, could)
enum {
    LENGTHS = GLINT_TAKES_LENGTHS,
    RAGGED = GLINT_TAKES_RAGGED,
    PAGES = GLINT_TAKES_PAGES,
    RAGGED_PAGES = GLINT_TAKES_RAGGED_PAGES,
    SINKS = GLINT_TAKES_SINKS
};
extern const struct glint_family glint_family_sm80;
extern const struct glint_family glint_family_sm90a;
const struct glint_variant glint_variants[] = {
    [FAKE_MAPS_BACKWARD] =
        HOPPER("bwd_bf16_d128_none__sm90a_m64n128", GLINT_BACKWARD, GLINT_BF16, 0, 128, 64, 128, maps_backward, RAGGED, LENGTHS),
    [FAKE_FUSED] = ROW("bwd_f16_d64_causal__sm80_m64n128", GLINT_BACKWARD, GLINT_F16, 1, 64, 64, 128, fused, SINKS, 0),
    [FAKE_SPLIT] =
        ROW("bwd_f16_d64_none__sm80_m64n64", GLINT_BACKWARD, GLINT_F16, 0, 64, 64, 64, split, LENGTHS | RAGGED | SINKS, 0),
    [FAKE_DECODE] = ROW_OF(glint_family_sm80, 80, "dec_bf16_d256_causal__sm80_s2_m8n64", GLINT_FORWARD, GLINT_BF16, 1, 256, 8, 64,
                           8, decode, LENGTHS | RAGGED | SINKS, PAGES | RAGGED_PAGES),
    [FAKE_MAPS_WINDOW] = HOPPER("fwd_bf16_d128_band__sm90a_m128n128", GLINT_FORWARD, GLINT_BF16, 3, 128, 128, 128, maps_forward,
                                SINKS, LENGTHS | RAGGED),
    [FAKE_MAPS_FORWARD] = HOPPER("fwd_bf16_d128_none__sm90a_m128n128", GLINT_FORWARD, GLINT_BF16, 0, 128, 128, 128, maps_both,
                                 RAGGED, LENGTHS | SINKS),
    [FAKE_ONLY_120] = ROW("fwd_bf16_d64_none__sm80_m128n64", GLINT_FORWARD, GLINT_BF16, 0, 64, 128, 64, only, SINKS, 0),
    [FAKE_BOTH] = HOPPER("fwd_f16_d128_none__sm90a_m128n64", GLINT_FORWARD, GLINT_F16, 0, 128, 128, 64, both, 0, 0),
    [FAKE_MUCH_SHARED] = ROW("fwd_f16_d256_none__sm80_m128n64", GLINT_FORWARD, GLINT_F16, 0, 256, 128, 64, much, SINKS, 0),
    [FAKE_CAUSAL] = ROW("fwd_f16_d64_causal__sm80_m128n64", GLINT_FORWARD, GLINT_F16, 1, 64, 128, 64, causal,
                        RAGGED | RAGGED_PAGES | SINKS, LENGTHS | PAGES),
    [FAKE_PLAIN] = ROW("fwd_f16_d64_none__sm80_m128n64", GLINT_FORWARD, GLINT_F16, 0, 64, 128, 64, plain, SINKS,
                       LENGTHS | RAGGED | PAGES | RAGGED_PAGES),
    [FAKE_LOCAL] = ROW("fwd_f32_d64_none__sm80_m64n64", GLINT_FORWARD, GLINT_F32, 0, 64, 64, 64, local, SINKS, 0),
};
const uint32_t glint_variants_count = FAKE_ROWS;
