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
    {"80", glint_bwd_f16_d64_none__sm80_split_m64n128__sm80_cubin},
    {"90", glint_bwd_f16_d64_none__sm80_split_m64n128__sm90_cubin},
};
static const struct glint_gpu_kernel glint_bwd_f16_d64_none__sm80_split_m64n128 = {
    .strategy = GLINT_GPU_SPLIT,
    .launch_count = 2,
    .launch = {
        {.entry = "first", .grid = GLINT_GPU_QUERY_BLOCKS, .rows = 128, .threads = 256, .smem_bytes = 0},
        {.entry = "second", .grid = GLINT_GPU_KEY_BLOCKS, .rows = 64, .threads = 128, .smem_bytes = 65536},
    },
    .images = images_of_bwd_f16_d64_none__sm80_split_m64n128,
    .image_count = 2,
    .row_dim = 64,
};
]], "the descriptor")
  harness.has(gpu.define(setmetatable({ part_heads = 3, parts_from = 70 }, { __index = RECORD })),
    ".image_count = 2,\n    .part_heads = 3, .parts_from = 70, .row_dim = 64,\n};\n")
end)

harness.case("the kernels that no variant has: an image for each architecture of the table, once, in their order", function()
  harness.is(gpu.rows({ { archs = { "90a" } }, { isa = "x86_64" }, { archs = { "80", "90" } }, { archs = { "80" } } }), [[

extern const unsigned char glint_gpu_rows__sm80_cubin[];
extern const unsigned char glint_gpu_rows__sm90_cubin[];
extern const unsigned char glint_gpu_rows__sm90a_cubin[];
const struct glint_gpu_image glint_gpu_rows[] = {
    {"80", glint_gpu_rows__sm80_cubin},
    {"90", glint_gpu_rows__sm90_cubin},
    {"90a", glint_gpu_rows__sm90a_cubin},
};
const uint32_t glint_gpu_rows_count = 3u;
]])
  harness.is(gpu.rows({ { isa = "x86_64" } }), "")
end)

harness.case("a GPU descriptor says what Hopper's kernels are launched with", function()
  local record = {
    name = "fwd_bf16_d128_none__sm90a_m128n128", symbol = "glint_fwd_bf16_d128_none__sm90a_m128n128",
    archs = { "90a" },
    strategy_id = "GLINT_GPU_FORWARD",
    launches = { { entry = "it", grid = "GLINT_GPU_QUERY_BLOCKS", rows = 128, threads = 384, smem_bytes = 8, blocks_per_sm = 1, cluster = 2,
      dependent = 1 } },
    padded_dim = 128,
    zero_words = 1,
    maps = {
      { tensor = "GLINT_GPU_Q", swizzle = "TENSOR_MAP_SWIZZLE_128B", slabs = 2, columns = 64, rows = 128 },
      { tensor = "GLINT_GPU_O", swizzle = "TENSOR_MAP_NO_SWIZZLE", columns = 128, rows = 64 },
    },
  }
  local text = gpu.define(record)
  harness.has(text, '{"90a", glint_fwd_bf16_d128_none__sm90a_m128n128__sm90a_cubin}')
  harness.has(text, ".smem_bytes = 8, .blocks_per_sm = 1, .cluster = 2, .dependent = 1},")
  harness.has(text, [[
    .image_count = 1,
    .row_dim = 128, .zero_words = 1,
    .map_count = 2,
    .map = {
        {.tensor = GLINT_GPU_Q, .swizzle = TENSOR_MAP_SWIZZLE_128B, .slabs = 2, .columns = 64, .rows = 128},
        {.tensor = GLINT_GPU_O, .swizzle = TENSOR_MAP_NO_SWIZZLE, .columns = 128, .rows = 64},
    },
};
]])
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write('#include "lib/cuda/kernel.h"\n', text, "const void *used = &glint_fwd_bf16_d128_none__sm90a_m128n128;\n")
  file:close()
  local command = "gcc -std=c11 -Wall -Wextra -Wpedantic -Wconversion -Werror -x c -fsyntax-only -I '%s' '%s'"
  local compiles = not os.execute("command -v gcc >/dev/null 2>&1") or os.execute(command:format(harness.root, path))
  os.remove(path)
  harness.yes(compiles, "gcc refuses it")
end)
