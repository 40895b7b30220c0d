#include "tests/cuda/fake_table.h"

#include "lib/variant.h"
#include "tests/cuda/fake_driver.h"

#define IMAGE(SM, PASS, LOCAL, ...)                                                     \
    {                                                                                   \
        FAKE_MAGIC, SM, (int)sizeof(struct glint_##PASS##_params), {__VA_ARGS__}, LOCAL \
    }
#define ROW_IMAGE(image)                        \
    {                                           \
        image.sm, (const unsigned char *)&image \
    }

static const struct fake_image fused_80 = IMAGE(80, backward, 0, "fused_delta", "fused_all", "fused_dq");
static const struct fake_image fused_90 = IMAGE(90, backward, 0, "fused_delta", "fused_all", "fused_dq");
static const struct fake_image split_80 = IMAGE(80, backward, 0, "split_delta", "split_dkdv", "split_dq");
static const struct fake_image split_90 = IMAGE(90, backward, 0, "split_delta", "split_dkdv", "split_dq");
static const struct fake_image only_120 = IMAGE(120, forward, 0, "only");
static const struct fake_image much_80 = IMAGE(80, forward, 0, "much");
static const struct fake_image much_90 = IMAGE(90, forward, 0, "much");
static const struct fake_image causal_80 = IMAGE(80, forward, 0, "causal");
static const struct fake_image causal_86 = IMAGE(86, forward, 0, "causal");
static const struct fake_image causal_87 = IMAGE(87, forward, 0, "causal");
static const struct fake_image causal_90 = IMAGE(90, forward, 0, "causal");
static const struct fake_image plain_80 = IMAGE(80, forward, 0, "plain");
static const struct fake_image plain_90 = IMAGE(90, forward, 0, "plain");
static const struct fake_image local_80 = IMAGE(80, forward, 16, "local");
static const struct fake_image local_90 = IMAGE(90, forward, 16, "local");

static const struct glint_gpu_image fused_images[] = {ROW_IMAGE(fused_80), ROW_IMAGE(fused_90)};
static const struct glint_gpu_image split_images[] = {ROW_IMAGE(split_80), ROW_IMAGE(split_90)};
static const struct glint_gpu_image only_images[] = {ROW_IMAGE(only_120)};
static const struct glint_gpu_image much_images[] = {ROW_IMAGE(much_80), ROW_IMAGE(much_90)};
static const struct glint_gpu_image causal_images[] = {ROW_IMAGE(causal_80), ROW_IMAGE(causal_86), ROW_IMAGE(causal_87),
                                                       ROW_IMAGE(causal_90)};
static const struct glint_gpu_image plain_images[] = {ROW_IMAGE(plain_80), ROW_IMAGE(plain_90)};
static const struct glint_gpu_image local_images[] = {ROW_IMAGE(local_80), ROW_IMAGE(local_90)};

#define Q GLINT_GPU_QUERY_BLOCKS
#define K GLINT_GPU_KEY_BLOCKS
static const struct glint_gpu_kernel fused = {
    GLINT_GPU_FUSED, 3, {{"fused_delta", Q, 128, 128, 0}, {"fused_all", K, 128, 256, 98304}, {"fused_dq", Q, 128, 128, 512}},
    fused_images,    2, 2,
    FAKE_PARTS_FROM, 64};
static const struct glint_gpu_kernel split = {
    GLINT_GPU_SPLIT,
    3,
    {{"split_delta", Q, 128, 128, 0}, {"split_dkdv", K, 64, 128, 65536}, {"split_dq", Q, 64, 128, 32768}},
    split_images,
    2,
    0,
    0,
    64};
static const struct glint_gpu_kernel only = {GLINT_GPU_FORWARD, 1, {{"only", Q, 128, 128, 49152}}, only_images, 1, 0, 0, 64};
static const struct glint_gpu_kernel much = {GLINT_GPU_FORWARD, 1, {{"much", Q, 128, 256, 163840}}, much_images, 2, 0, 0, 64};
static const struct glint_gpu_kernel causal = {GLINT_GPU_FORWARD, 1, {{"causal", Q, 128, 128, 49152}}, causal_images, 4, 0, 0, 64};
static const struct glint_gpu_kernel plain = {GLINT_GPU_FORWARD, 1, {{"plain", Q, 128, 128, 81920}}, plain_images, 2, 0, 0, 64};
static const struct glint_gpu_kernel local = {GLINT_GPU_FORWARD, 1, {{"local", Q, 64, 128, 1024}}, local_images, 2, 0, 0, 64};

#define ROW(name, pass, dtype, causal, head_dim, m, n, kernel)                                                  \
    {                                                                                                           \
        name, pass, dtype, causal, head_dim, m, n, 0, 80, GLINT_MATH_NATIVE, 0, 16, &glint_family_sm80, &kernel \
    }
extern const struct glint_family glint_family_sm80;
const struct glint_variant glint_variants[] = {
    [FAKE_FUSED] = ROW("bwd_f16_d64_causal__sm80_m64n128", GLINT_BACKWARD, GLINT_F16, 1, 64, 64, 128, fused),
    [FAKE_SPLIT] = ROW("bwd_f16_d64_none__sm80_m64n64", GLINT_BACKWARD, GLINT_F16, 0, 64, 64, 64, split),
    [FAKE_ONLY_120] = ROW("fwd_bf16_d64_none__sm80_m128n64", GLINT_FORWARD, GLINT_BF16, 0, 64, 128, 64, only),
    [FAKE_MUCH_SHARED] = ROW("fwd_f16_d256_none__sm80_m128n64", GLINT_FORWARD, GLINT_F16, 0, 256, 128, 64, much),
    [FAKE_CAUSAL] = ROW("fwd_f16_d64_causal__sm80_m128n64", GLINT_FORWARD, GLINT_F16, 1, 64, 128, 64, causal),
    [FAKE_PLAIN] = ROW("fwd_f16_d64_none__sm80_m128n64", GLINT_FORWARD, GLINT_F16, 0, 64, 128, 64, plain),
    [FAKE_LOCAL] = ROW("fwd_f32_d64_none__sm80_m64n64", GLINT_FORWARD, GLINT_F32, 0, 64, 64, 64, local),
};
const uint32_t glint_variants_count = FAKE_ROWS;
