-- The sm80 family's decode: few queries against many keys (gen/templates/sm80_dec.cu.lua). Its tiles, their limits and
-- what follows from them. A tile is `m` rows, (query, query head) pairs of one key head, and `n` keys a step; K and V
-- pass by once, so what counts is how many bytes of them are on their way: 2 * stages - 1 tiles of n rows a block.
local architectures = require("gen.archs")
local model = require("gen.families.sm80_model")
local text = require("gen.text")

local WARPS = 4       -- of a block: a lane of the second kernel has the sum of one
local SPAN_CHUNKS = 8 -- chunks in a span, and warps of the second kernel: its warps fold as many numbers at most
local MOST_STAGES = 6 -- cp_async_wait leaves up to 11 groups, two of a stage
local KIB = 1024

local decode = {}

local function kv_bytes(record) return record.narrow and 1 or record.dtype_bytes end

local function page_chunks(record, bytes)
  local chunks = record.padded_dim * bytes // 16
  return chunks % 8 == 0 and 8 or chunks % 4 == 0 and 4 or 2
end

--- Fills in what follows from the tile's fields. Makes no checks.
function decode.complete(record)
  record.stages, record.chunk_steps = record.stages or 2, record.chunk_steps or 8
  record.span_chunks = SPAN_CHUNKS
  -- A tile of rows holds so many queries at least, so K and V are read as often as by the forward pass, once a query
  -- head, or less.
  record.queries_up_to = record.queries_up_to or record.m
  record.page_chunks = page_chunks(record, kv_bytes(record))
  record.q_page_chunks = page_chunks(record, record.dtype_bytes)
  record.strategy_id = "GLINT_GPU_DECODE"
end

--- Parts of the shared memory of a block: { what, bytes } by `tile(what, copies, rows, columns, bytes)`.
function decode.parts(record, tile)
  local m, n, d, bytes = record.m, record.n, record.padded_dim, record.dtype_bytes
  local of_kv = kv_bytes(record)
  return { tile("K", record.stages, n, d, of_kv), tile("V", record.stages, n, d, of_kv), tile("Q", record.stages + 1, m, d, bytes),
    tile("P", 1, m, n, bytes), tile("maxima, sums", 2, record.warps, m, 4), record.narrow and tile("scales", 2 * record.stages, n, 1, 4) or nil }
end

--- What the kernel that finds K and V in pages has besides: 16 bytes for each run of 16 rows that a warp copies, and of
-- 8 bits as many for its scales. A warp with one run knows where it is.
function decode.runs_bytes(record)
  local runs = record.n // (WARPS * 16)
  return runs > 1 and WARPS * runs * (record.narrow and 32 or 16) or 0
end

--- struct glint_gpu_launch, in launch order.
function decode.launches(record)
  local all, merges = {}, {}
  for _, kernel in ipairs(record.kernels) do
    local paged = kernel.keys == "paged"
    all[#all + 1] = { suffix = kernel.suffix, grid = "GLINT_GPU_DECODE_ITEMS", rows = record.m, threads = record.threads,
      smem_bytes = record.smem_bytes + (paged and decode.runs_bytes(record) or 0), blocks_per_sm = record.blocks_per_sm, dependent = 1,
      lengths = kernel.lengths, pages = kernel.pages }
    if not paged then -- a merge reads no keys
      merges[#merges + 1] = { suffix = kernel.suffix .. "_merge", grid = "GLINT_GPU_DECODE_MERGE", rows = 2, threads = 32 * SPAN_CHUNKS,
        smem_bytes = SPAN_CHUNKS * 32 * 16, dependent = 1, lengths = kernel.lengths }
    end
  end
  return table.move(merges, 1, #merges, #all + 1, all)
end

--- The limits; report(field, wrong, right) for each that is broken.
function decode.check(record, report)
  if record.dtype == "f32" then
    report("tile", "decode on GPUs is for 16-bit dtypes", 'dtypes = { "f16", "bf16" }, and exclude dec for f32 with a reason')
  end
  if record.narrow and record.head_dim % 16 ~= 0 then
    report("head_dim", ("a row of 8-bit K with head_dim %d is not whole pieces of 16 bytes, which are copied"):format(record.head_dim),
      "a multiple of 16, or exclude kv_dtype for it with a reason")
  end
  if record.warps ~= WARPS then
    report("warps", ("%d warps: the second kernel has lanes for the sums of %d"):format(record.warps, WARPS), tostring(WARPS))
    return
  end
  if record.m ~= 8 and record.m % 16 ~= 0 then
    report("m", ("%d rows are neither one fragment of 8 nor whole pairs of them"):format(record.m), "8, or a multiple of 16")
  end
  if record.n % (16 * WARPS) ~= 0 then
    report("n", ("%d keys do not go evenly over %d warps, 16 at a time"):format(record.n, WARPS), ("a multiple of %d"):format(16 * WARPS))
  end
  local most = record.smem_bytes + (record.device_pages and decode.runs_bytes(record) or 0) -- of its kernels
  for _, name in ipairs(record.archs) do
    local bytes, held = record.blocks_per_sm * (most + KIB), architectures.get(name).sm_kib * KIB
    if record.blocks_per_sm > 1 and bytes > held then
      report("blocks_per_sm", ("%d blocks need %d bytes of shared memory, and a multiprocessor of sm_%s has %d"):format(record.blocks_per_sm,
        bytes, name, held), "fewer blocks, keys or stages")
    end
  end
  if record.chunk_steps > SPAN_CHUNKS or record.chunk_steps & record.chunk_steps - 1 ~= 0 then
    report("chunk_steps", ("a warp of the second kernel folds 1, 2, 4 or 8 steps, not %d"):format(record.chunk_steps), "1, 2, 4 or 8")
  end
end

--- Lines for the header of an emitted kernel and for explain.
function decode.describe(record)
  local lines = {
    ("Tile: %d rows x %d keys, %d stages; %d warps, %d block%s a multiprocessor."):format(record.tile_m, record.tile_n, record.stages,
      record.warps, record.blocks_per_sm, record.blocks_per_sm > 1 and "s" or ""),
    ("Keys are summed up by steps of %d, chunks of %d and spans of %d. For up to %d queries."):format(record.tile_n,
      record.tile_n * record.chunk_steps, record.tile_n * record.chunk_steps * SPAN_CHUNKS, record.queries_up_to),
    ("Shared memory of a block: %d bytes."):format(record.smem_bytes),
  }
  if record.device_pages then lines[#lines + 1] = "A further kernel finds K and V in pages." end
  if record.device_ragged then lines[#lines + 1] = "Others take ragged sequences." end
  return lines
end

--- The model's numbers for a record, as a sentence.
function decode.estimate(record)
  return ("bytes of K and V on their way to a multiprocessor: %s; shared memory: %s"):format(
    text.bytes((2 * record.stages - 1) * record.n * record.padded_dim * kv_bytes(record) * record.blocks_per_sm), text.bytes(record.smem_bytes))
end

--- The tile `line` of a larger head dim for `key`, with as many more stages as now fit.
function decode.adapt(family, line, key)
  local tile = {}
  for field, value in pairs(line) do tile[field] = value end
  for stages = MOST_STAGES, line.stages, -1 do
    tile.stages = stages
    if model.record_of(family, key, tile, line.archs or family.all_targets) then return tile end
  end
end

--- Whether a tile goes with `key` on one architecture.
function decode.fits(family, key, tile, arch)
  return model.record_of(family, key, tile, { arch }) ~= nil
end

-- The largest head dim of which no kernel spills registers: with what nvcc 13.0 makes of it.
local MOST_DIM, MOST_DIM_OF = 512, { ["100"] = 320, ["110"] = 320, ["120"] = 320 }

--- Tiles for `key` on one architecture that fit, those with the most bytes on their way first: { tile =, how =, cost =
-- } each. Steps are as large as leaves three tiles at least; what is done once a step then shows least. Beyond
-- head_dim 256 more keys a step would spill registers.
function decode.candidates(family, key, arch)
  local found = {}
  local goes = key.head_dim <= (MOST_DIM_OF[arch] or MOST_DIM) and key.dtype ~= "f32"
  for _, n in ipairs(not goes and {} or key.head_dim > 256 and { 64 } or { 64, 128, 256 }) do
    for stages = 1, MOST_STAGES do
      local tile = { m = 8, n = n, warps = WARPS, stages = stages, chunk_steps = n == 64 and 8 or 4, blocks_per_sm = 1 }
      local record = model.record_of(family, key, tile, { arch })
      local paged = { m = 8, n = n, warps = WARPS, stages = stages, device_pages = true } -- beyond 256 there is room for that kernel, too
      if record and (key.head_dim <= 256 or decode.fits(family, key, paged, arch)) then
        local bytes = (2 * stages - 1) * n * record.padded_dim * kv_bytes(record)
        found[#found + 1] = { tile = tile, how = family.how(record), cost = 1 / math.min(bytes, 160 * KIB) + stages / 1e9 }
      end
    end
  end
  table.sort(found, function(a, b)
    if a.cost ~= b.cost then return a.cost < b.cost end
    return a.tile.n < b.tile.n
  end)
  return found
end

return decode
