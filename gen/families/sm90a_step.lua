-- The part of the `sm90a` family that is a server's step: forward, any number of queries of each sequence in one
-- launch, of every kind of sequences, linear or in pages, in the canonical order of lib/device/step.h.
-- gen/families/sm90a.lua says what a spec may say.
local axes = require("gen.axes")
local shared = require("gen.gpu_step")

local step = { takes = shared.takes }

local KIB, ROWS, TILE_M = 1024, 64, 128
local KEYS = { [64] = 128, [80] = 128, [96] = 128, [128] = 128, [256] = 64 } -- of a tile: the order of a head dim's sums
local CACHE_FROM, CACHE_UP_TO = 9, 256 -- rows and queries against a cache that it is for; gen/tiles/sm90a.lua has what was measured
local REGISTERS = 224    -- of a thread that computes: 2 x 128 of them and 128 of 56 are a multiprocessor's 65536
local WITH_INTERVALS = 216 -- where the loader looks at intervals, which takes more than 56
local PIECE = 32 -- K and V of 8 bits: keys that come at a time, a piece
local PIECES = { [64] = 16, [80] = 16, [96] = 12, [128] = 8, [256] = 6 } -- how many are on their way
local SCALES_BYTES = 2 * 2 * 4       -- of a key of two tiles of K, and of V
local UNITS, UNIT_BYTES = 3, 96 + 16 -- units that are announced, with their mbarriers: lib/device/step_plan.h
local UNITS_WITH_RANGES, RANGE_BYTES = 2, 8 -- where each query has a range of keys: lib/device/warpgroup_step_load.h
local KEPT_BYTES = 2 * 16 * 256 -- of rows, where O of the spans before is in the workspace
-- Of a bias by a tensor: by how many elements rows in shared memory are longer than a tile has keys; of where a row's
-- elements begin; and up to which head dim a tile in float32 has room whole: lib/device/warpgroup_step_bias.h
local BIAS_PAD, ADDRESS_BYTES, WHOLE_BIAS = 8, 8, 64

--- Whether a head dim has kernels. With intervals they would spill registers beyond 128, and over 8 bits (`narrow`)
-- beyond 96.
function step.goes(head_dim, intervals, narrow)
  return KEYS[head_dim] ~= nil and (not intervals or head_dim <= (narrow and 96 or 128))
end

-- Whether a bias beside a softcap would spill registers. At head_dim 128 ALiBi without a mask spills 8 bytes, a tensor
-- with intervals 8, and a tensor with a tree 58.
local function spills(of)
  if of.head_dim < 128 or of.softcap ~= "softcap" then return false end
  if of.bias == "tensor" then return axes.field(of, "mask", "intervals") end
  return of.mask == "none"
end

--- Whether a step adds the bias of `key`, which has one, to its scores.
function step.adds(key)
  return key.head_dim <= 128 and key.kv_dtype == "same" and (key.bias == "tensor" or key.mask ~= "tree") and not spills(key)
end

function step.how(record) return shared.how("sm90a", record) end

local function parts_of(record)
  local row = record.slabs * record.width
  local units = { "units", UNITS * UNIT_BYTES }
  if record.intervals then units = { "units with ranges", UNITS_WITH_RANGES * (UNIT_BYTES + RANGE_BYTES * record.m) } end
  local q, folded = { ("Q %d x %d"):format(record.m, row), record.m * row }, { ("O of spans before %d x %d"):format(record.m, 4 * record.head_dim),
    record.m * 4 * record.head_dim }
  if record.folded then folded = { "rows", KEPT_BYTES } end
  if not record.narrow then
    local parts = { q, { ("K, V %d x %d x %d"):format(2 * record.stages, record.n, row), 2 * record.stages * record.n * row }, folded,
      { "barriers", 32 + 48 * record.stages }, units }
    if record.bias_tensor then
      local wide = record.head_dim <= WHOLE_BIAS and record.n or record.n // 2
      local bytes = math.max(2 * (record.n + BIAS_PAD), 4 * (wide + BIAS_PAD)) + ADDRESS_BYTES
      parts[#parts + 1] = { ("bias %d x %d"):format(record.m, bytes), record.m * bytes }
    end
    return parts
  end
  return { q, { ("K and V widened %d x %d x %d"):format(record.stages, record.n, row), record.stages * record.n * row },
    { ("K and V %d x %d x %d"):format(record.pieces, PIECE, record.head_dim), record.pieces * PIECE * record.head_dim }, folded,
    { "scales", SCALES_BYTES * record.n }, { "barriers", 64 + 32 * record.stages + 16 * record.pieces }, units }
end

local function smem_of(record)
  local bytes, shown = 0, {}
  for i, part in ipairs(parts_of(record)) do bytes, shown[i] = bytes + part[2], part[1] end
  return { { kernel = "fwd", bytes = bytes, text = ("%s = %d"):format(table.concat(shown, " + "), bytes) } }
end

--- Fills in everything that follows from the spec's fields. Makes no checks.
function step.complete(record)
  record.strategy_id, record.warpgroups = "GLINT_GPU_STEP", record.m // ROWS
  record.threads, record.width, record.padded_dim = 384, record.head_dim % 64 == 0 and 128 or 64, record.head_dim
  local wide = record.head_dim > 128 or record.bias_tensor
  record.registers, record.folded, record.folded_in_shared = record.intervals and WITH_INTERVALS or REGISTERS, wide and 1 or nil, wide and 0 or 1
  record.slabs = (2 * record.head_dim + record.width - 1) // record.width
  record.stages, record.span = record.stages or (record.narrow and 3 or 2), record.span or shared.SPAN
  record.pieces = record.narrow and PIECES[record.head_dim] or 0
  record.cache_from, record.cache_up_to = record.cache_from or CACHE_FROM, record.cache_up_to or CACHE_UP_TO
  record.smem = smem_of(record)
  record.smem_bytes, record.alignment_bytes, record.chunk_steps = record.smem[1].bytes, 16, record.span // record.n
  record.device_lengths, record.device_ragged = true, true -- one kernel for all
  local function map(tensor, rows, slabs)
    return { tensor = tensor, swizzle = ("TENSOR_MAP_SWIZZLE_%dB"):format(record.width), slabs = slabs, columns = record.width // 2, rows = rows }
  end
  local slabs = 2 * record.head_dim % record.width == 0 and record.slabs or 0 -- a slab a copy, the last one with zeros
  record.maps = { map("GLINT_GPU_Q", 16, 0), map("GLINT_GPU_K", record.n, slabs), map("GLINT_GPU_V", record.n, slabs) }
  record.maps[1].packed = 1
  if record.narrow then -- bytes in their order
    for i = 2, 3 do
      record.maps[i] = { tensor = record.maps[i].tensor, swizzle = "TENSOR_MAP_NO_SWIZZLE", columns = record.head_dim, rows = PIECE }
    end
  end
  record.launches = shared.launches(record, 1)
  record.call_type, record.call_of = "glint_gpu_step", "p"
  if record.bias_tensor then record.call_type, record.call_of = "glint_gpu_biased_step", "p.base" end
end

--- The limits; report(field, wrong, right) for each that is broken.
function step.check(record, report, block_kib)
  for _, field in ipairs({ "q_slots", "registers", "turns", "dynamic", "blocks_per_sm", "up_to", "both_up_to" }) do
    if record[field] ~= nil and not (field == "registers" and record.registers == (record.intervals and WITH_INTERVALS or REGISTERS)) then
      report(field, "a step has none of its own", "leave it out")
    end
  end
  if record.dtype == "f32" then report("m", "the family's products are of 16-bit numbers", 'dtypes = { "f16", "bf16" }') end
  if record.narrow and record.dtype == "f16" then
    report("m", "weights times scales of V may leave the range of f16", 'dtypes = { "bf16" }')
  end
  if record.narrow and record.stages < 3 then report("stages", "a tile of K, one of V and the next one are in shared memory", "3 or 4") end
  if record.biased and (record.narrow or record.head_dim > 128) then
    report("schedule", "a step adds a bias up to head_dim 128 and not over 8 bits", "leave it out")
  elseif record.biased and spills(record) then
    report("schedule", ("a step with %s would spill registers at head_dim 128"):format(
      record.bias_tensor and "a bias by a tensor, a softcap and intervals" or "ALiBi, a softcap and no mask"), "leave it out")
  end
  local keys = KEYS[record.head_dim]
  if not keys then
    report("m", ("a step has no kernel for head_dim %d"):format(record.head_dim), "64, 80, 96, 128 or 256")
  elseif record.m ~= TILE_M or record.n ~= keys then
    report("m", ("the order of a step's sums is that of tiles of %d keys, for two warpgroups"):format(keys),
      ("m = 128, n = %d"):format(keys))
  elseif record.intervals and not step.goes(record.head_dim, true, record.narrow) then
    report("m", ("a step with intervals%s has no kernel for head_dim %d"):format(record.narrow and " over 8 bits" or "", record.head_dim),
      record.narrow and "64, 80 or 96" or "64, 80, 96 or 128")
  end
  shared.check(record, report)
  if record.smem_bytes > block_kib * KIB then
    report("tile", ("at head_dim %d the kernel needs %s bytes of shared memory, and a block has %d"):format(record.head_dim,
      record.smem[1].text, block_kib * KIB), "fewer stages")
  end
end

--- A line for the header of an emitted kernel and for explain.
function step.describe(record)
  return ("a step of a server: units of work that a first kernel plans, K and V%s in %d stages, spans %s %d keys."):format(
    record.narrow and ", widened," or "", record.stages, record.bounds_first and "of" or "from", record.span)
end

return step
