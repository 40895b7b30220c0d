#include "tests/cuda/fake_table.h"

#include <stddef.h>

#include "lib/cpu/cpu.h"
#include "lib/cuda/kernel.h"
#include "lib/cuda/rows.h"
#include "lib/takes.h"
#include "tests/cuda/fake_driver.h"

#define IMAGE(ARCH, PARAMETER, LOCAL, ...)                                             \
    {                                                                                  \
        FAKE_MAGIC, #ARCH, (int)sizeof(struct glint_##PARAMETER), {__VA_ARGS__}, LOCAL \
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
/* Two rows have it. */
static const struct fake_image plain_80 = IMAGE(80, gpu_call, 1, "local", "plain");
static const struct fake_image plain_90 = IMAGE(90, gpu_call, 1, "local", "plain");
static const struct fake_image behind_100 = IMAGE(100, gpu_call, 0, "plain");
static const struct fake_image capped_80 = IMAGE(80, gpu_call, 0, "capped");
static const struct fake_image capped_90 = IMAGE(90, gpu_call, 0, "capped");

static const struct fake_image maps_forward_90a = IMAGE(90a, gpu_forward_maps, 0, "maps_forward");
static const struct fake_image maps_both_90a = IMAGE(90a, gpu_forward_maps, 0, "maps_forward", "maps_ragged");
static const struct fake_image maps_backward_90a =
    IMAGE(90a, gpu_backward_maps, 0, "maps_delta", "maps_dkdv", "maps_dq", "maps_ragged_delta", "maps_sequences");
static const struct fake_image both_90 = IMAGE(90, gpu_call, 0, "both");
static const struct fake_image both_90a = IMAGE(90a, gpu_call, 0, "both");

/* There are none for sm_120. */
#define ROWS_ENTRIES "glint_merge_rows", "glint_append_rows", "glint_append_narrow_rows"
static const struct fake_image rows_80 = IMAGE(80, merge_params, 0, ROWS_ENTRIES);
static const struct fake_image rows_87 = IMAGE(87, merge_params, 0, ROWS_ENTRIES);
static const struct fake_image rows_90 = IMAGE(90, merge_params, 0, ROWS_ENTRIES);

/* Places in the tables of images, launches and maps: an element a byte. */
struct image_places {
    char fused[2], split[2], decode[2], only[1], much[2], causal[4], plain[2], capped[2], behind[1], maps_forward[1], maps_both[1],
        maps_backward[1], both[2], rows[3];
};
struct launch_places {
    char fused[3], split[12], decode[4], only[1], much[1], causal[3], plain[1], capped[1], local[1], maps_forward[1], maps_both[2],
        maps_backward[5], both[1], clusters[1], keys[1], persistent[1], two_a_sm[2], step[2], step_without_maps[2];
};
struct map_places {
    char maps_forward[4], maps_backward[9];
};
#define FIRST(kind, name) offsetof(struct kind##_places, name)
#define COUNT(kind, name) sizeof((struct kind##_places *)0)->name

/* clang-format off */
#define IMAGES(I) \
    I(fused, 0, 80) I(fused, 1, 90) \
    I(split, 0, 80) I(split, 1, 90) \
    I(decode, 0, 80) I(decode, 1, 90) \
    I(only, 0, 120) \
    I(much, 0, 80) I(much, 1, 90) \
    I(causal, 0, 86) I(causal, 1, 80) I(causal, 2, 87) I(causal, 3, 90) \
    I(plain, 0, 80) I(plain, 1, 90) \
    I(capped, 0, 80) I(capped, 1, 90) \
    I(behind, 0, 100) \
    I(maps_forward, 0, 90a) \
    I(maps_both, 0, 90a) \
    I(maps_backward, 0, 90a) \
    I(both, 0, 90) I(both, 1, 90a) \
    I(rows, 0, 80) I(rows, 1, 87) I(rows, 2, 90)
/* clang-format on */
#define ARCH(name, at, arch) [FIRST(image, name) + (at)] = {#arch},
const struct glint_gpu_image glint_gpu_images[] = {IMAGES(ARCH)};
const uint32_t glint_gpu_rows_image = FIRST(image, rows), glint_gpu_rows_count = COUNT(image, rows);

const unsigned char *glint_gpu_image_bytes(uint32_t image)
{
#define BYTES(name, at, arch) [FIRST(image, name) + (at)] = (const unsigned char *)&name##_##arch,
    static const unsigned char *const bytes[] = {IMAGES(BYTES)};
    return bytes[image];
}

#define Q GLINT_GPU_QUERY_BLOCKS
#define K GLINT_GPU_KEY_BLOCKS
#define LAUNCH(SUFFIX, GRID, ROWS, THREADS, BYTES) \
    .suffix = SUFFIX, .grid = GRID, .rows = ROWS, .threads = THREADS, .smem_bytes = BYTES
/* Everything at once: persistent clusters, a counter, maps of whole heads and of slabs. */
#define CLUSTERED LAUNCH("_forward", Q, 128, 384, 200704), .blocks_per_sm = 1, .cluster = 2, .dependent = 1
const struct glint_gpu_launch glint_gpu_launches[] = {
    [FIRST(launch, fused)] = {LAUNCH("_delta", Q, 128, 128, 0)},
    {LAUNCH("_all", K, 128, 256, 98304)},
    {LAUNCH("_dq", Q, 128, 128, 512)},
    [FIRST(launch, split)] = {LAUNCH("_delta", Q, 128, 128, 0)},
    {LAUNCH("_sinks", GLINT_GPU_QUERY_HEADS, 0, 256, 32), .sinks = 1},
    {LAUNCH("_dkdv", K, 64, 128, 65536)},
    {LAUNCH("_dq", Q, 64, 128, 32768)},
    {LAUNCH("_lengths_delta", Q, 128, 128, 48), .lengths = 1},
    {LAUNCH("_lengths_sinks", GLINT_GPU_QUERY_HEADS, 0, 256, 32), .lengths = 1, .sinks = 1},
    {LAUNCH("_lengths_dkdv", K, 64, 128, 65584), .lengths = 1},
    {LAUNCH("_lengths_dq", Q, 64, 128, 32816), .lengths = 1},
    {LAUNCH("_ragged_delta", Q, 128, 128, 304), .lengths = 2},
    {LAUNCH("_ragged_sinks", GLINT_GPU_QUERY_HEADS, 0, 256, 32), .lengths = 2, .sinks = 1},
    {LAUNCH("_ragged_dkdv", K, 64, 128, 65584), .lengths = 2},
    {LAUNCH("_ragged_dq", Q, 64, 128, 32816), .lengths = 2},
    [FIRST(launch, decode)] = {LAUNCH("", GLINT_GPU_DECODE_ITEMS, 8, 128, 140000), .blocks_per_sm = 1, .dependent = 1},
    {LAUNCH("_ragged", GLINT_GPU_DECODE_ITEMS, 8, 128, 140000), .blocks_per_sm = 1, .dependent = 1, .lengths = 2},
    {LAUNCH("_merge", GLINT_GPU_DECODE_MERGE, 2, 256, 4096), .dependent = 1},
    {LAUNCH("_ragged_merge", GLINT_GPU_DECODE_MERGE, 2, 256, 4096), .dependent = 1, .lengths = 2},
    [FIRST(launch, only)] = {LAUNCH("", Q, 128, 128, 49152)},
    [FIRST(launch, much)] = {LAUNCH("", Q, 128, 256, 163840)},
    [FIRST(launch, causal)] = {LAUNCH("", Q, 128, 128, 49152)},
    {LAUNCH("_ragged", Q, 128, 128, 49184), .lengths = GLINT_LENGTHS_RAGGED},
    {LAUNCH("_ragged_pages", Q, 128, 128, 49232), .lengths = GLINT_LENGTHS_RAGGED, .pages = 1},
    [FIRST(launch, plain)] = {LAUNCH("", Q, 128, 128, 81920)},
    [FIRST(launch, capped)] = {LAUNCH("", Q, 128, 128, 81920)},
    [FIRST(launch, local)] = {LAUNCH("", Q, 64, 128, 1024)},
    [FIRST(launch, maps_forward)] = {CLUSTERED},
    [FIRST(launch, maps_both)] = {CLUSTERED}, /* and a kernel for ragged sequences */
    {LAUNCH("_ragged", Q, 128, 384, 204800), .blocks_per_sm = 1, .lengths = GLINT_LENGTHS_RAGGED},
    [FIRST(launch, maps_backward)] = {LAUNCH("_delta", Q, 128, 128, 0)},
    {LAUNCH("_dkdv", K, 64, 256, 200704), .blocks_per_sm = 2, .dependent = 1},
    {LAUNCH("_dq", Q, 128, 256, 131072), .dependent = 1},
    {LAUNCH("_ragged_delta", Q, 128, 128, 304), .lengths = GLINT_LENGTHS_RAGGED},
    {LAUNCH("_sequences", K, 64, 384, 204800), .blocks_per_sm = 1, .cluster = 1, .lengths = GLINT_LENGTHS_RAGGED},
    [FIRST(launch, both)] = {LAUNCH("", Q, 128, 128, 49152), .dependent = 1},
    [FIRST(launch, clusters)] = {LAUNCH("", Q, 64, 128, 0), .cluster = 4},
    [FIRST(launch, keys)] = {LAUNCH("", K, 64, 128, 0)},
    [FIRST(launch, persistent)] = {LAUNCH("", K, 128, 384, 0), .blocks_per_sm = 1},
    [FIRST(launch, two_a_sm)] = {.threads = 128, .blocks_per_sm = 2},
    [FIRST(launch, step) + 1] = {.blocks_per_sm = 1},
    [FIRST(launch, step_without_maps) + 1] = {.blocks_per_sm = 2},
};

const struct glint_gpu_map glint_gpu_maps[] = {
    [FIRST(map, maps_forward)] = {GLINT_GPU_Q, TENSOR_MAP_SWIZZLE_128B, 2, 0, 64, 64},
    {GLINT_GPU_K, TENSOR_MAP_SWIZZLE_128B, 2, 0, 64, 128},
    {GLINT_GPU_V, TENSOR_MAP_SWIZZLE_64B, 0, 0, 32, 128},
    {GLINT_GPU_O, TENSOR_MAP_NO_SWIZZLE, 0, 0, 128, 64},
    [FIRST(map, maps_backward)] = {GLINT_GPU_Q, TENSOR_MAP_SWIZZLE_128B, 2, 0, 64, 64},
    {GLINT_GPU_K, TENSOR_MAP_SWIZZLE_128B, 2, 0, 64, 64},
    {GLINT_GPU_V, TENSOR_MAP_SWIZZLE_128B, 2, 0, 64, 64},
    {GLINT_GPU_O, TENSOR_MAP_SWIZZLE_128B, 2, 0, 64, 64},
    {GLINT_GPU_DOUT, TENSOR_MAP_SWIZZLE_128B, 1, 0, 64, 64},
    {GLINT_GPU_DQ, TENSOR_MAP_SWIZZLE_128B, 2, 0, 64, 128},
    {GLINT_GPU_DK, TENSOR_MAP_SWIZZLE_128B, 2, 0, 64, 64},
    {GLINT_GPU_DV, TENSOR_MAP_SWIZZLE_128B, 2, 0, 64, 64},
    {GLINT_GPU_Q, TENSOR_MAP_SWIZZLE_32B, 0, 0, 16, 128},
};

#define KERNEL(NAME, STRATEGY, places) \
    .name = NAME, .strategy = GLINT_GPU_##STRATEGY, .first_launch = FIRST(launch, places), .launch_count = COUNT(launch, places)
#define IMAGES_OF(places) .first_image = FIRST(image, places), .image_count = COUNT(image, places)
#define STEP(places) .strategy = GLINT_GPU_STEP, .first_launch = FIRST(launch, places)
#define MAPS_OF(places) .first_map = FIRST(map, places), .map_count = COUNT(map, places)
const struct glint_gpu_kernel glint_gpu_kernels[] = {
    [FAKE_KERNEL_FUSED] = {KERNEL("fused", FUSED, fused), IMAGES_OF(fused), .part_heads = 2, .parts_from = FAKE_PARTS_FROM,
                           .row_dim = 64},
    [FAKE_KERNEL_SPLIT] = {KERNEL("split", SPLIT, split), IMAGES_OF(split), .row_dim = 64},
    [FAKE_KERNEL_DECODE] = {KERNEL("decode", DECODE, decode), IMAGES_OF(decode), .row_dim = 256, .chunk_steps = 8,
                            .span_chunks = 8},
    [FAKE_KERNEL_ONLY] = {KERNEL("only", FORWARD, only), IMAGES_OF(only)},
    [FAKE_KERNEL_MUCH] = {KERNEL("much", FORWARD, much), IMAGES_OF(much)},
    [FAKE_KERNEL_CAUSAL] = {KERNEL("causal", FORWARD, causal), IMAGES_OF(causal)},
    [FAKE_KERNEL_PLAIN] = {KERNEL("plain", FORWARD, plain), IMAGES_OF(plain)},
    [FAKE_KERNEL_CAPPED] = {KERNEL("capped", FORWARD, capped), IMAGES_OF(capped)},
    [FAKE_KERNEL_LOCAL] = {KERNEL("local", FORWARD, local), IMAGES_OF(plain)},
    [FAKE_KERNEL_MAPS_FORWARD] = {KERNEL("maps", FORWARD, maps_forward), IMAGES_OF(maps_forward), MAPS_OF(maps_forward),
                                  .row_dim = 128, .zero_words = 3},
    [FAKE_KERNEL_MAPS_BOTH] = {KERNEL("maps", FORWARD, maps_both), IMAGES_OF(maps_both), MAPS_OF(maps_forward), .row_dim = 128,
                               .zero_words = 3, .lengths_words = 1},
    [FAKE_KERNEL_MAPS_BACKWARD] = {KERNEL("maps", SPLIT, maps_backward), IMAGES_OF(maps_backward), MAPS_OF(maps_backward),
                                   .row_dim = 128, .zero_words = 65},
    [FAKE_KERNEL_BOTH] = {KERNEL("both", FORWARD, both), IMAGES_OF(both)},
    [FAKE_KERNEL_BEHIND] = {KERNEL("plain", FORWARD, plain), IMAGES_OF(behind)},
    [FAKE_KERNEL_CLUSTERS] = {KERNEL("clusters", FORWARD, clusters)},
    [FAKE_KERNEL_KEYS] = {KERNEL("keys", FUSED, keys), .row_dim = 64},
    [FAKE_KERNEL_PERSISTENT] = {KERNEL("persistent", FUSED, persistent), .row_dim = 128},
    [FAKE_KERNEL_TWO_A_SM] = {KERNEL("two_a_sm", DECODE, two_a_sm), .row_dim = 64, .chunk_steps = 4, .span_chunks = 8},
    [FAKE_KERNEL_SPANS] = {STEP(step), MAPS_OF(maps_forward), .chunk_steps = 1},
    {STEP(step_without_maps), .chunk_steps = 2, .folded = 1},
    {STEP(step), MAPS_OF(maps_forward), .chunk_steps = 3},
    {STEP(step_without_maps), .chunk_steps = 4, .folded = 1},
    {STEP(step), MAPS_OF(maps_forward), .chunk_steps = 5, .folded = 1},
};

#define ROW_OF(family, sm, name, pass, dtype, features, head_dim, m, n, queries_up_to, kernel, takes, could)                     \
    {                                                                                                                            \
        name, pass, dtype, 0, GLINT_MATH_NATIVE, features, head_dim, head_dim, m, n, 0, sm, 0, 0, 0, 0, queries_up_to, 0, 0, 16, \
            takes, could, 0, family, FAKE_KERNEL_##kernel                                                                        \
    }
#define ROW(name, pass, dtype, features, head_dim, m, n, kernel, takes, could) \
    ROW_OF(SM80, 80, name, pass, dtype, features, head_dim, m, n, 0, kernel, takes, could)
#define HOPPER(name, pass, dtype, features, head_dim, m, n, kernel, takes, could) \
    ROW_OF(SM90A, 90, name, pass, dtype, features, head_dim, m, n, 0, kernel, takes, could)
enum {
    LENGTHS = GLINT_TAKES_LENGTHS,
    RAGGED = GLINT_TAKES_RAGGED,
    PAGES = GLINT_TAKES_PAGES,
    RAGGED_PAGES = GLINT_TAKES_RAGGED_PAGES,
    SINKS = GLINT_TAKES_SINKS
};
extern const struct glint_family glint_family_sm80;
extern const struct glint_family glint_family_sm90a;
extern const struct glint_family glint_family_cpu;
enum { SM80, SM90A, CPU };
const struct glint_family *const glint_families[] = {&glint_family_sm80, &glint_family_sm90a, &glint_family_cpu};
/* One row more than are counted: nobody may look at it. sm_100 would run it. */
const struct glint_variant glint_variants[FAKE_ROWS + 1] = {
    [FAKE_ROWS] = ROW("fwd_f16_d64_behind_the_table", GLINT_FORWARD, GLINT_F16, 0, 64, 128, 64, BEHIND, SINKS, 0),
    [FAKE_MAPS_BACKWARD] =
        HOPPER("bwd_bf16_d128_none__sm90a_m64n128", GLINT_BACKWARD, GLINT_BF16, 0, 128, 64, 128, MAPS_BACKWARD, RAGGED, LENGTHS),
    [FAKE_FUSED] = ROW("bwd_f16_d64_causal__sm80_m64n128", GLINT_BACKWARD, GLINT_F16, 1, 64, 64, 128, FUSED, SINKS, 0),
    [FAKE_SPLIT] =
        ROW("bwd_f16_d64_none__sm80_m64n64", GLINT_BACKWARD, GLINT_F16, 0, 64, 64, 64, SPLIT, LENGTHS | RAGGED | SINKS, 0),
    [FAKE_DECODE] = ROW_OF(SM80, 80, "dec_bf16_d256_causal__sm80_s2_m8n64", GLINT_FORWARD, GLINT_BF16, 1, 256, 8, 64, 8, DECODE,
                           LENGTHS | RAGGED | SINKS, PAGES | RAGGED_PAGES),
    [FAKE_MAPS_WINDOW] = HOPPER("fwd_bf16_d128_band__sm90a_m128n128", GLINT_FORWARD, GLINT_BF16, 3, 128, 128, 128, MAPS_FORWARD,
                                SINKS, LENGTHS | RAGGED),
    [FAKE_MAPS_FORWARD] = HOPPER("fwd_bf16_d128_none__sm90a_m128n128", GLINT_FORWARD, GLINT_BF16, 0, 128, 128, 128, MAPS_BOTH,
                                 RAGGED, LENGTHS | SINKS),
    [FAKE_ONLY_120] = ROW("fwd_bf16_d64_none__sm80_m128n64", GLINT_FORWARD, GLINT_BF16, 0, 64, 128, 64, ONLY, SINKS, 0),
    [FAKE_BOTH] = HOPPER("fwd_f16_d128_none__sm90a_m128n64", GLINT_FORWARD, GLINT_F16, 0, 128, 128, 64, BOTH, 0, 0),
    [FAKE_MUCH_SHARED] = ROW("fwd_f16_d256_none__sm80_m128n64", GLINT_FORWARD, GLINT_F16, 0, 256, 128, 64, MUCH, SINKS, 0),
    [FAKE_CAUSAL] = ROW("fwd_f16_d64_causal__sm80_m128n64", GLINT_FORWARD, GLINT_F16, 1, 64, 128, 64, CAUSAL,
                        RAGGED | RAGGED_PAGES | SINKS, LENGTHS | PAGES),
    [FAKE_PLAIN] = ROW("fwd_f16_d64_none__sm80_m128n64", GLINT_FORWARD, GLINT_F16, 0, 64, 128, 64, PLAIN, SINKS,
                       LENGTHS | RAGGED | PAGES | RAGGED_PAGES),
    [FAKE_CAPPED] = ROW("fwd_f16_d64_none_softcap__sm80_m128n64", GLINT_FORWARD, GLINT_F16, GLINT_FEATURE_SOFTCAP, 64, 128, 64,
                        CAPPED, SINKS, LENGTHS | RAGGED | PAGES | RAGGED_PAGES),
    [FAKE_LOCAL] = ROW("fwd_f32_d64_none__sm80_m64n64", GLINT_FORWARD, GLINT_F32, 0, 64, 64, 64, LOCAL, SINKS, 0),
    [FAKE_OF_CPU] = {.name = "fwd_f32_d1016_none__cpu_x86_64_m64n96",
                     .pass = GLINT_FORWARD,
                     .dtype = GLINT_F32,
                     .head_dim = 1016,
                     .head_dim_v = 1016,
                     .tile_m = 64,
                     .tile_n = 96,
                     .isa = GLINT_ISA_X86_64,
                     .alignment_bytes = 4,
                     .family = CPU,
                     .kernel = FAKE_KERNEL_PLAIN},
};
const uint32_t glint_variants_count = FAKE_ROWS;

void glint_cpu_run_task(uint32_t kernel, uint32_t phase, const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    (void)kernel, (void)phase, (void)call, (void)scratch, (void)task; /* the CPU's row computes nothing */
}
