-- What GPU families have in common: the C of a variant's descriptor, struct glint_gpu_kernel of lib/cuda/kernel.h. A family makes it its own
-- by `define = require("gen.gpu").define`; its records need
--   launches     { { entry =, grid =, rows =, threads =, smem_bytes = }, ... } in launch order, fields as in struct glint_gpu_launch; with
--                blocks_per_sm, cluster = or dependent = 1 where it is launched otherwise than a block a tile, and lengths = 1 where it reads them,
--                2 where it reads those of ragged sequences,
--                pages = 1 where K and V are in pages; sinks = 1 where it is for problems with sinks alone, 2 where it is for them, too
--   strategy_id  enum glint_gpu_strategy
--   archs        names of gen/archs.lua, in its order
--   maps         { { tensor = "GLINT_GPU_Q", swizzle = "TENSOR_MAP_SWIZZLE_128B", slabs =, columns =, rows = }, ... } or nil: the tensor
--                maps of the kernels' parameter, in its order, fields as in struct glint_gpu_map
--   zero_words   or nil: words of the workspace that are 0 when the first kernel begins; lengths_words: when the one that reads lengths does
--   part_heads, parts_from   backward, or nil: how the rule of lib/cuda/policy.c, glint_gpu_part_heads, shares out a group's heads
--   chunk_steps, span_chunks  decode, or nil: steps of a chunk and chunks of a span; a step: tiles of its first spans
--   padded_dim   numbers of a row of a tile in shared memory, and of sums in the workspace
local architectures = require("gen.archs")
local gpu = {}

--- The kernels of a variant that takes more than lengths of the host: the type of its rows (lib/device/sequences.h) and of its keys
-- (lib/device/keys.h), what its name ends in, and the launch that it is for. Templates emit one of each, and launches follow from the list.
function gpu.kernels(record)
  local all = { { suffix = "", rows = "given", keys = "linear" } }
  local function add(wanted, kernel)
    if wanted then all[#all + 1] = kernel end
  end
  local pages = record.pass == "fwd" and record.device_pages
  add(record.device_lengths, { suffix = "_lengths", rows = "padded", keys = "linear", lengths = 1 })
  add(pages, { suffix = "_pages", rows = "padded", keys = "paged", lengths = 1, pages = 1 })
  add(record.device_ragged, { suffix = "_ragged", rows = "ragged", keys = "linear", lengths = 2 })
  add(record.device_ragged and pages, { suffix = "_ragged_pages", rows = "ragged", keys = "paged", lengths = 2, pages = 1 })
  return all
end

--- The name under which the build puts a variant's cubin for an architecture into read-only data.
function gpu.cubin_symbol(record, arch)
  return ("%s__sm%s_cubin"):format(record.symbol, arch)
end

-- Members in the order of their structs; one that a record does not have is 0 in C.
local LAUNCH = { "grid", "rows", "threads", "smem_bytes", "blocks_per_sm", "cluster", "dependent", "lengths", "pages", "sinks" }
local MAP = { "tensor", "swizzle", "slabs", "packed", "columns", "rows" }
local MORE = { "part_heads", "parts_from", "row_dim", "zero_words", "lengths_words", "chunk_steps", "span_chunks" }

local function members(values, names)
  local shown = {}
  for _, name in ipairs(names) do
    if values[name] then shown[#shown + 1] = (".%s = %s"):format(name, values[name]) end
  end
  return table.concat(shown, ", ")
end

--- What a record's kernels take (gen/takes.lua), by the launches that there are. `reads_lengths`: the kernels for
-- lengths of the host read lengths of the device, too; `reads_sinks`: they read sinks.
function gpu.takes(record)
  local set = { sinks = record.reads_sinks or nil }
  for _, launch in ipairs(record.launches) do
    local ragged, pages = launch.lengths == 2, launch.pages == 1
    if launch.grid ~= "GLINT_GPU_DECODE_MERGE" then -- that one is for whatever came before it
      if ragged then set[pages and "ragged_pages" or "ragged"] = true end
      if launch.lengths == 1 or (record.reads_lengths and not ragged) then set[pages and "pages" or "lengths"] = true end
    end
    if launch.sinks == 2 then set.sinks = true end
  end
  return set
end

--- C that defines record.symbol.
function gpu.define(record)
  local externs, images, launches, maps = {}, {}, {}, {}
  for i, arch in ipairs(record.archs) do
    local symbol = gpu.cubin_symbol(record, arch)
    externs[i] = ("extern const unsigned char %s[];\n"):format(symbol)
    images[i] = ("    {\"%s\", %s},\n"):format(arch, symbol)
  end
  for i, launch in ipairs(record.launches) do
    launches[i] = ('        {.entry = "%s", %s},\n'):format(launch.entry, members(launch, LAUNCH))
  end
  for i, map in ipairs(record.maps or {}) do maps[i] = ("        {%s},\n"):format(members(map, MAP)) end
  local more = members(setmetatable({ row_dim = record.padded_dim }, { __index = record }), MORE)
  return ([[
%sstatic const struct glint_gpu_image images_of_%s[] = {
%s};
static const struct glint_gpu_kernel %s = {
    .strategy = %s,
    .launch_count = %d,
    .launch = {
%s    },
    .images = images_of_%s,
    .image_count = %d,
%s%s};
]]):format(table.concat(externs), record.name, table.concat(images), record.symbol, record.strategy_id, #record.launches,
    table.concat(launches), record.name, #record.archs, more ~= "" and "    " .. more .. ",\n" or "",
    #maps > 0 and ("    .map_count = %d,\n    .map = {\n%s    },\n"):format(#maps, table.concat(maps)) or "")
end

--- C of the images of the kernels that no variant has (lib/cuda/rows.cu), one an architecture that some record is for; "" without any.
function gpu.rows(records)
  local archs, seen = {}, {}
  for _, record in ipairs(records) do
    for _, arch in ipairs(record.archs or {}) do
      if not seen[arch] then archs[#archs + 1] = arch end
      seen[arch] = true
    end
  end
  if #archs == 0 then return "" end
  table.sort(archs, architectures.before)
  local externs, images = {}, {}
  for i, arch in ipairs(archs) do
    local symbol = gpu.cubin_symbol({ symbol = "glint_gpu_rows" }, arch)
    externs[i] = ("extern const unsigned char %s[];\n"):format(symbol)
    images[i] = ('    {"%s", %s},\n'):format(arch, symbol)
  end
  return ("\n%sconst struct glint_gpu_image glint_gpu_rows[] = {\n%s};\nconst uint32_t glint_gpu_rows_count = %du;\n"):format(
    table.concat(externs), table.concat(images), #archs)
end

return gpu
