-- The tables that GPU families share: one image an architecture, one line a launch, and no pointers.
local gpu = require("gen.gpu")
local harness = require("gen.tests.harness")

local RECORD = {
  name = "bwd_f16_d64_none__sm80_split_m64n128",
  symbol = "glint_bwd_f16_d64_none__sm80_split_m64n128",
  archs = { "80", "90" },
  padded_dim = 64,
  strategy_id = "GLINT_GPU_SPLIT",
  launches = {
    { suffix = "_delta", grid = "GLINT_GPU_QUERY_BLOCKS", rows = 128, threads = 256, smem_bytes = 0 },
    { suffix = "", grid = "GLINT_GPU_KEY_BLOCKS", rows = 64, threads = 128, smem_bytes = 65536 },
  },
}

harness.case("a GPU kernel has the indexes of its launches and images; those of glint_merge and glint_append come last", function()
  harness.is(gpu.tables({ RECORD }), [[

const struct glint_gpu_kernel glint_gpu_kernels[] = {
    {.name = "glint_bwd_f16_d64_none__sm80_split_m64n128", .strategy = GLINT_GPU_SPLIT,
     .first_launch = 0, .launch_count = 2, .first_image = 0, .image_count = 2, .row_dim = 64},
};

const struct glint_gpu_launch glint_gpu_launches[] = {
    {.suffix = "_delta", .grid = GLINT_GPU_QUERY_BLOCKS, .rows = 128, .threads = 256, .smem_bytes = 0},
    {.suffix = "", .grid = GLINT_GPU_KEY_BLOCKS, .rows = 64, .threads = 128, .smem_bytes = 65536},
};

const struct glint_gpu_map glint_gpu_maps[] = {
    {0},
};

const struct glint_gpu_image glint_gpu_images[] = {
    {"80"},
    {"90"},
    {"80"},
    {"90"},
};

const uint32_t glint_gpu_rows_image = 2u, glint_gpu_rows_count = 2u;

extern const unsigned char glint_bwd_f16_d64_none__sm80_split_m64n128__sm80_cubin[];
extern const unsigned char glint_bwd_f16_d64_none__sm80_split_m64n128__sm90_cubin[];
extern const unsigned char glint_gpu_rows__sm80_cubin[];
extern const unsigned char glint_gpu_rows__sm90_cubin[];

const unsigned char *glint_gpu_image_bytes(uint32_t image)
{
    switch (image) {
    case 0: return glint_bwd_f16_d64_none__sm80_split_m64n128__sm80_cubin;
    case 1: return glint_bwd_f16_d64_none__sm80_split_m64n128__sm90_cubin;
    case 2: return glint_gpu_rows__sm80_cubin;
    case 3: return glint_gpu_rows__sm90_cubin;
    default: return 0;
    }
}
]])
  harness.has(gpu.tables({ setmetatable({ part_heads = 3, parts_from = 70 }, { __index = RECORD }) }),
    ".image_count = 2, .part_heads = 3, .parts_from = 70, .row_dim = 64},\n")
  harness.is(gpu.tables({}), "")
end)

harness.case("kernels that are launched alike share their launches", function()
  local other = setmetatable({ symbol = "glint_bwd_bf16_d64_none__sm80_split_m64n128" }, { __index = RECORD })
  local third = setmetatable({ symbol = "glint_third", launches = { RECORD.launches[2] } }, { __index = RECORD })
  local text = gpu.tables({ RECORD, other, third })
  harness.has(text, ".first_launch = 0, .launch_count = 2, .first_image = 2, .image_count = 2",
    ".first_launch = 2, .launch_count = 1, .first_image = 4, .image_count = 2", "glint_gpu_rows_image = 6u")
  local _, launches = text:gsub("{%.suffix", "")
  harness.is(launches, 3)
end)

harness.case("the kernels that no variant has: an image for each architecture of the table, once, in their order", function()
  local records = {}
  for i, archs in ipairs({ { "90a" }, { "80", "90" }, { "80" } }) do
    records[i] = setmetatable({ archs = archs, symbol = "glint_" .. i }, { __index = RECORD })
  end
  harness.has(gpu.tables(records), "glint_gpu_rows_image = 4u, glint_gpu_rows_count = 3u;",
    "    case 4: return glint_gpu_rows__sm80_cubin;\n    case 5: return glint_gpu_rows__sm90_cubin;\n    case 6: return glint_gpu_rows__sm90a_cubin;\n")
end)

harness.case("a kernel of more launches or maps than there is room for is not emitted", function()
  for field, of in pairs({ launches = RECORD.launches[1], maps = { tensor = "GLINT_GPU_Q" } }) do
    local record = setmetatable({ [field] = {} }, { __index = RECORD })
    for i = 1, 12 do record[field][i] = of end
    harness.yes(pcall(gpu.tables, { record }), field .. ": 12")
    record[field][13] = of
    harness.yes(not pcall(gpu.tables, { record }), field .. ": 13")
  end
end)

harness.case("names that have no room in the tables are not emitted", function()
  local record = setmetatable({ launches = { setmetatable({ suffix = ("x"):rep(20) }, { __index = RECORD.launches[1] }) } }, { __index = RECORD })
  harness.yes(not pcall(gpu.tables, { record }), "a suffix of 20")
  record.launches[1].suffix = ("x"):rep(19)
  harness.yes(pcall(gpu.tables, { record }), "a suffix of 19")
end)

harness.case("a GPU kernel says what Hopper's kernels are launched with", function()
  local record = {
    name = "fwd_bf16_d128_none__sm90a_m128n128", symbol = "glint_fwd_bf16_d128_none__sm90a_m128n128",
    archs = { "90a" },
    strategy_id = "GLINT_GPU_FORWARD",
    launches = { { suffix = "", grid = "GLINT_GPU_QUERY_BLOCKS", rows = 128, threads = 384, smem_bytes = 8, blocks_per_sm = 1, cluster = 2,
      dependent = 1 } },
    padded_dim = 128,
    zero_words = 1,
    maps = {
      { tensor = "GLINT_GPU_Q", swizzle = "TENSOR_MAP_SWIZZLE_128B", slabs = 2, columns = 64, rows = 128 },
      { tensor = "GLINT_GPU_O", swizzle = "TENSOR_MAP_NO_SWIZZLE", columns = 128, rows = 64 },
    },
  }
  local text = gpu.tables({ record })
  harness.has(text, '{"90a"}', "case 0: return glint_fwd_bf16_d128_none__sm90a_m128n128__sm90a_cubin;")
  harness.has(text, ".smem_bytes = 8, .blocks_per_sm = 1, .cluster = 2, .dependent = 1},")
  harness.has(text, ".first_image = 0, .image_count = 1, .first_map = 0, .map_count = 2, .row_dim = 128, .zero_words = 1},\n", [[
const struct glint_gpu_map glint_gpu_maps[] = {
    {.tensor = GLINT_GPU_Q, .swizzle = TENSOR_MAP_SWIZZLE_128B, .slabs = 2, .columns = 64, .rows = 128},
    {.tensor = GLINT_GPU_O, .swizzle = TENSOR_MAP_NO_SWIZZLE, .columns = 128, .rows = 64},
};
]])
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write('#include "lib/cuda/kernel.h"\n', text)
  file:close()
  local command = "gcc -std=c11 -Wall -Wextra -Wpedantic -Wconversion -Werror -x c -fsyntax-only -I '%s' '%s'"
  local compiles = not os.execute("command -v gcc >/dev/null 2>&1") or os.execute(command:format(harness.root, path))
  os.remove(path)
  harness.yes(compiles, "gcc refuses it")
end)
