-- What GPU families have in common: the C of the tables of lib/cuda/kernel.h, which say how kernels are launched. A
-- family makes it its own by `backend = require("gen.gpu")`; its records need
--   launches     { { suffix =, grid =, rows =, threads =, smem_bytes = }, ... } in launch order, fields as in struct
--                glint_gpu_launch; with blocks_per_sm, cluster = or dependent = 1 where it is launched otherwise
--                than a block a tile, and lengths = 1 where it reads them, 2 where it reads those of ragged
--                sequences, pages = 1 where K and V are in pages; sinks = 1 where it is for problems with sinks
--                alone, dbias = 1 for those with a gradient of their bias
--   strategy_id  enum glint_gpu_strategy
--   archs        names of gen/archs.lua, in its order
--   maps         { { tensor = "GLINT_GPU_Q", swizzle = "TENSOR_MAP_SWIZZLE_128B", slabs =, columns =, rows = }, ...
--                } or nil: the tensor maps of the kernels' parameter, in its order, fields as in struct
--                glint_gpu_map
--   zero_words   or nil: words of the workspace that are 0 when the first kernel begins; lengths_words: when the one
--                that reads lengths does
--   part_heads, parts_from   backward, or nil: how the rule of lib/cuda/policy.c, glint_gpu_part_heads, shares out a
--                            group's heads
--   chunk_steps, span_chunks  decode, or nil: steps of a chunk and chunks of a span; a step: tiles of its first
--                             spans
--   block_keys   backward, or nil: 1 where the mask has intervals, whose bounds the first kernel leaves in the
--                workspace
--   padded_dim   numbers of a row of a tile in shared memory, and of sums in the workspace
local architectures = require("gen.archs")
local gpu = {}

--- The kernels of a variant that takes more than lengths of the host: the type of its rows (lib/device/sequences.h) and
-- of its keys (lib/device/keys.h), what its name ends in, the launch that it is for, and how many blocks share a
-- multiprocessor, if not as many as of the first. Templates emit one of each, and launches follow from the list. Where
-- record.reads_lengths, the first kernel reads lengths of the device, if a call has any: then there is no other for
-- them, and its launches are for lengths of the host and of the device.
function gpu.kernels(record)
  local reads = record.reads_lengths
  local all = { { suffix = "", rows = reads and "padded" or "given", keys = "linear" } }
  local function add(wanted, kernel)
    if wanted then
      kernel.blocks_per_sm = record.sequences_blocks_per_sm
      all[#all + 1] = kernel
    end
  end
  local pages = record.pass ~= "bwd" and record.device_pages
  add(record.device_lengths, { suffix = "_lengths", rows = "padded", keys = "linear", lengths = 1 })
  add(pages, { suffix = "_pages", rows = "padded", keys = "paged", lengths = not reads and 1 or nil, pages = 1 })
  local ragged = record.bias_tensor and record.pass == "fwd" and "numbered" or "ragged"
  add(record.device_ragged, { suffix = "_ragged", rows = ragged, keys = "linear", lengths = 2 })
  add(record.device_ragged and pages, { suffix = "_ragged_pages", rows = ragged, keys = "paged", lengths = 2, pages = 1 })
  return all
end

--- The name under which the build puts a variant's cubin for an architecture into read-only data.
function gpu.cubin_symbol(record, arch)
  return ("%s__sm%s_cubin"):format(record.symbol, arch)
end

-- Members in the order of their structs; one that a record does not have is 0 in C.
local LAUNCH = { "grid", "rows", "threads", "smem_bytes", "blocks_per_sm", "cluster", "dependent", "lengths", "pages", "sinks", "dbias" }
local MAP = { "tensor", "swizzle", "slabs", "packed", "columns", "rows" }
local MORE = { "part_heads", "parts_from", "row_dim", "block_keys", "zero_words", "lengths_words", "chunk_steps", "span_chunks", "folded" }

local function members(values, names)
  local shown = {}
  for _, name in ipairs(names) do
    if values[name] then shown[#shown + 1] = (".%s = %s"):format(name, values[name]) end
  end
  return table.concat(shown, ", ")
end

--- What a record's kernels take (gen/takes.lua), by the launches that there are. `reads_lengths`: the kernels for
-- lengths of the host read lengths of the device, too. All of them read sinks.
function gpu.takes(record)
  local set = { sinks = true }
  for _, launch in ipairs(record.launches) do
    local ragged, pages = launch.lengths == 2, launch.pages == 1
    if launch.grid ~= "GLINT_GPU_DECODE_MERGE" then -- that one is for whatever came before it
      if ragged then set[pages and "ragged_pages" or "ragged"] = true end
      if launch.lengths == 1 or (record.reads_lengths and not ragged) then set[pages and "pages" or "lengths"] = true end
    end
  end
  return set
end

-- One table of the elements of several lists, in which a list that is there already is found again.
local function pool()
  local elements, at = {}, {}
  return elements, function(list)
    local key = table.concat(list)
    if not at[key] then
      at[key] = #elements
      for _, element in ipairs(list) do elements[#elements + 1] = element end
    end
    return at[key]
  end
end

-- The architectures of all records, in their order.
local function archs_of(records)
  local archs, seen = {}, {}
  for _, record in ipairs(records) do
    for _, arch in ipairs(record.archs) do
      if not seen[arch] then archs[#archs + 1] = arch end
      seen[arch] = true
    end
  end
  table.sort(archs, architectures.before)
  return archs
end

local function define(type, name, elements)
  return ("const struct %s %s[] = {\n%s};\n"):format(type, name, #elements > 0 and table.concat(elements) or "    {0},\n")
end

gpu.header = "lib/cuda/kernel.h"
gpu.suffix_bytes, gpu.most_launches, gpu.most_maps = 20, 12, 12 -- GLINT_GPU_SUFFIX_BYTES, _MAX_LAUNCHES, _MAX_MAPS

--- C of the tables of lib/cuda/kernel.h for `records`, whose indexes are glint_variant.kernel, and of the images of the
-- kernels that no variant has (lib/cuda/rows.cu), one an architecture; "" without records.
function gpu.tables(records)
  if #records == 0 then return "" end
  local kernels, externs, images, cases = {}, {}, {}, {}
  local launches, first_launch = pool()
  local maps, first_map = pool()
  local function add_images(record)
    for _, arch in ipairs(record.archs) do
      local symbol = gpu.cubin_symbol(record, arch)
      externs[#externs + 1] = ("extern const unsigned char %s[];\n"):format(symbol)
      cases[#cases + 1] = ("    case %d: return %s;\n"):format(#images, symbol)
      images[#images + 1] = ('    {"%s"},\n'):format(arch)
    end
  end
  for i, record in ipairs(records) do
    local own_launches, own_maps = {}, {}
    for j, launch in ipairs(record.launches) do
      assert(#launch.suffix < gpu.suffix_bytes, launch.suffix)
      own_launches[j] = ('    {.suffix = "%s", %s},\n'):format(launch.suffix, members(launch, LAUNCH))
    end
    assert(#record.launches <= gpu.most_launches and #(record.maps or {}) <= gpu.most_maps, record.symbol)
    for j, map in ipairs(record.maps or {}) do own_maps[j] = ("    {%s},\n"):format(members(map, MAP)) end
    local more = members(setmetatable({ row_dim = record.padded_dim }, { __index = record }), MORE)
    local its_maps = #own_maps > 0 and (", .first_map = %d, .map_count = %d"):format(first_map(own_maps), #own_maps) or ""
    kernels[i] = ([[
    {.name = "%s", .strategy = %s,
     .first_launch = %d, .launch_count = %d, .first_image = %d, .image_count = %d%s%s},
]]):format(record.symbol, record.strategy_id, first_launch(own_launches), #own_launches, #images, #record.archs,
      its_maps, more ~= "" and ", " .. more or "")
    add_images(record)
  end
  local rows = { symbol = "glint_gpu_rows", archs = archs_of(records) }
  local first_of_rows = #images
  add_images(rows)
  return table.concat({
    "\n", define("glint_gpu_kernel", "glint_gpu_kernels", kernels), "\n", define("glint_gpu_launch", "glint_gpu_launches", launches), "\n",
    define("glint_gpu_map", "glint_gpu_maps", maps), "\n", define("glint_gpu_image", "glint_gpu_images", images),
    ("\nconst uint32_t glint_gpu_rows_image = %du, glint_gpu_rows_count = %du;\n\n"):format(first_of_rows, #rows.archs),
    table.concat(externs), "\nconst unsigned char *glint_gpu_image_bytes(uint32_t image)\n{\n    switch (image) {\n", table.concat(cases),
    "    default: return 0;\n    }\n}\n",
  })
end

return gpu
