-- The descriptor that GPU families share: one image an architecture, one line a launch.
local gpu = require("gen.gpu")
local harness = require("gen.tests.harness")

local RECORD = {
  name = "bwd_f16_d64_none__sm80_split_m64n128",
  symbol = "glint_bwd_f16_d64_none__sm80_split_m64n128",
  archs = { "80", "90" },
  padded_dim = 64,
  strategy_id = "GLINT_GPU_SPLIT",
  launches = {
    { entry = "first", grid = "GLINT_GPU_QUERY_BLOCKS", rows = 128, threads = 256, smem_bytes = 0 },
    { entry = "second", grid = "GLINT_GPU_KEY_BLOCKS", rows = 64, threads = 128, smem_bytes = 65536 },
  },
}

harness.case("a GPU descriptor names its images and launches", function()
  harness.is(gpu.define(RECORD), [[
extern const unsigned char glint_bwd_f16_d64_none__sm80_split_m64n128__sm80_cubin[];
extern const unsigned char glint_bwd_f16_d64_none__sm80_split_m64n128__sm90_cubin[];
static const struct glint_gpu_image images_of_bwd_f16_d64_none__sm80_split_m64n128[] = {
    {80, glint_bwd_f16_d64_none__sm80_split_m64n128__sm80_cubin},
    {90, glint_bwd_f16_d64_none__sm80_split_m64n128__sm90_cubin},
};
static const struct glint_gpu_kernel glint_bwd_f16_d64_none__sm80_split_m64n128 = {
    GLINT_GPU_SPLIT, 2,
    {
     {"first", GLINT_GPU_QUERY_BLOCKS, 128, 256, 0},
     {"second", GLINT_GPU_KEY_BLOCKS, 64, 128, 65536},
    },
    images_of_bwd_f16_d64_none__sm80_split_m64n128, 2,
    0, 0, 64,
};
]], "the descriptor")
  harness.has(gpu.define(setmetatable({ part_heads = 3, parts_from = 70 }, { __index = RECORD })), "m64n128, 2,\n    3, 70, 64,\n};\n")
end)
