-- What GPU families have in common: the C of a variant's descriptor, struct glint_gpu_kernel of lib/cuda/kernel.h. A family makes it its own
-- by `define = require("gen.gpu").define`; its records need
--   launches     { { entry =, grid =, rows =, threads =, smem_bytes = }, ... } in launch order, fields as in struct glint_gpu_launch
--   strategy_id  enum glint_gpu_strategy
--   archs        names of gen/archs.lua, in its order
--   part_heads, parts_from   backward, or nil: how the rule of lib/cuda/policy.c, glint_gpu_part_heads, shares out a group's heads
--   padded_dim   numbers of a row of a tile in shared memory, and of sums in the workspace
local architectures = require("gen.archs")

local gpu = {}

--- The name under which the build puts a variant's cubin for an architecture into read-only data.
function gpu.cubin_symbol(record, arch)
  return ("%s__sm%s_cubin"):format(record.symbol, arch)
end

--- C that defines record.symbol.
function gpu.define(record)
  local externs, images, launches = {}, {}, {}
  for i, arch in ipairs(record.archs) do
    local symbol = gpu.cubin_symbol(record, arch)
    externs[i] = ("extern const unsigned char %s[];\n"):format(symbol)
    images[i] = ("    {%d, %s},\n"):format(architectures.get(arch).number, symbol)
  end
  for i, launch in ipairs(record.launches) do
    launches[i] = ('     {"%s", %s, %d, %d, %d},\n'):format(launch.entry, launch.grid, launch.rows, launch.threads, launch.smem_bytes)
  end
  return ([[
%sstatic const struct glint_gpu_image images_of_%s[] = {
%s};
static const struct glint_gpu_kernel %s = {
    %s, %d,
    {
%s    },
    images_of_%s, %d,
    %d, %d, %d,
};
]]):format(table.concat(externs), record.name, table.concat(images), record.symbol, record.strategy_id, #record.launches,
    table.concat(launches), record.name, #record.archs,
    record.part_heads or 0, record.parts_from or 0, record.padded_dim)
end

return gpu
