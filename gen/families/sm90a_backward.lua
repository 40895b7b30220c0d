-- The backward kernels of the family sm90a: gen/families/sm90a.lua hands its records of that pass here. What a variant
-- is, and its limits with their arithmetic.
local gpu = require("gen.gpu")

local KIB = 1024
local BOX_ROWS = 64     -- of every map: rows of one wgmma, which a warpgroup owns
local PAD_ROWS = 128    -- GLINT_GPU_ROW_PAD of lib/device/call.h: queries that the first kernel takes at a time
local STAGES = 2        -- of Q and dO, of dS, of what leaves
local WARPS = 8         -- that compute, in two warpgroups; four more load and store
local REGISTERS, PRODUCER_REGISTERS = 232, 40 -- of their threads: 168 each at the start
local DQ_M, DQ_N = 128, 64 -- split: queries of a block of the kernel for dQ, keys of its step
-- Where lengths are read, or intervals: behind the rest the queue of what blocks work on, unit_queue of
-- lib/device/warpgroup_sequences.h, with more bytes where both are (lib/device/warpgroup_key_intervals.h); and of the
-- first kernel's blocks what those have who make the units, a group of sequences of lib/device/warpgroup_units.h. The
-- others have less: their tile, and what they look for it in.
local UNITS_BYTES, INTERVAL_UNITS_BYTES, GROUP_BYTES = 32 + 2 * 64, 32 + 2 * 96, 32 * 48
-- Where a split kernel reads lengths: behind the rest, which it reads 16 bytes at a time, a block's tile, and where it
-- is looked for, TILE_KEPT_BYTES of lib/device/warpgroup_sequences.h.
local TILE_BYTES = 48 + 256
local LINE_BYTES = 16 -- of a step with ALiBi: slope_line of lib/device/warpgroup_backward_bias.h
local SINKS_BYTES = 32 -- of the kernel for the gradient of the sinks: a sum of each warp

local backward = {}

backward.strategies = { "fused", "split" }

local function strategy_of(record) return record.strategy or (record.head_dim <= 128 and "fused" or "split") end

--- The right half of a name.
function backward.how(record)
  local heads = record.part_heads and ("h%d_"):format(record.part_heads) or ""
  return ("sm90a_%s_%sm%dn%d"):format(strategy_of(record), heads, record.m, record.n)
end

local function sum(kernel, parts)
  local bytes, shown = 0, {}
  for i, part in ipairs(parts) do bytes, shown[i] = bytes + part[2], part[1] end
  return { kernel = kernel, bytes = bytes, text = ("%s = %d"):format(table.concat(shown, " + "), bytes) }
end

local function tile(what, copies, rows, row_bytes)
  return { ("%s %d x %d x %d"):format(what, copies, rows, row_bytes), copies * rows * row_bytes }
end

-- Shared memory of each kernel, as the templates lay it out.
local function smem_of(record)
  local m, n, row = record.m, record.n, record.head_dim * record.dtype_bytes
  local parts = { tile("K, V", 2, n, row), tile("Q, dO", 2 * STAGES, m, row), tile("LSE, delta", 2 * STAGES, m, 4) }
  if record.biased then parts[#parts + 1] = { "lines", LINE_BYTES * STAGES } end
  if record.by_role then
    parts[#parts + 1] = tile("P", STAGES, m, n * 4)
    parts[#parts + 1] = { "barriers", 8 * (2 + 6 * STAGES) }
  else
    local fused = record.strategy == "fused"

    parts[#parts + 1] = fused and tile("dQ", STAGES, m, record.head_dim * 4) or tile("dK, dV", STAGES, n, row)
    if fused then parts[#parts + 1] = tile("dS", STAGES, m, n * record.dtype_bytes) end
    parts[#parts + 1] = { "barriers", 8 * (5 + 11 * STAGES) }
    parts[#parts + 1] = { "numbers", 16 }
    if record.intervals then parts[#parts], parts[#parts + 1] = { "numbers", 16 + 8 }, { "steps", UNITS_BYTES } end
  end
  local all = { sum("dK and dV", parts) }
  local reads = (record.device_lengths or record.device_ragged) and record.strategy
  if reads == "fused" then
    if record.intervals then parts[#parts] = nil end
    parts[#parts], parts[#parts + 1] = { "numbers", 16 + 8 }, { "units", record.intervals and INTERVAL_UNITS_BYTES or UNITS_BYTES }
    all[2] = sum("dK and dV of sequences", parts)
  end
  if record.strategy == "split" then
    local stages = record.head_dim > 192 and 3 or 4 -- K in two, V in one or two

    local dq = { tile("Q, dO", 2, DQ_M, row), tile("K, V", stages, DQ_N, row), { "barriers", 8 * (2 + 2 * stages) } }
    all[2] = sum("dQ", dq)
    if reads then
      for i, own in ipairs({ parts, dq }) do
        own[#own + 1] = { "tile", -all[i].bytes % 16 + TILE_BYTES }
        all[2 + i] = sum(all[i].kernel .. " of sequences", own)
      end
    end
  end
  return all
end

--- Whether a row has kernels that read lengths where its spec asks for them.
function backward.takes_lengths(record) return strategy_of(record) == "fused" or record.head_dim > 128 end

--- What a row takes and no GPU has timed yet, words of gen/takes.lua: the plan prefers an older family's row for it.
function backward.untimed(record)
  return record.strategy == "split" and (record.device_lengths or record.device_ragged) and { "lengths", "ragged" } or nil
end

--- Fills in everything that follows from the spec's fields. Makes no checks.
function backward.complete(record)
  record.strategy = strategy_of(record)
  record.strategy_id = record.strategy == "fused" and "GLINT_GPU_FUSED" or "GLINT_GPU_SPLIT"
  record.threads, record.registers, record.producer_registers = 128 + 32 * WARPS, REGISTERS, PRODUCER_REGISTERS
  record.key_turns = 2 * record.n // record.m -- of the parts that add to dK and dV of a block of keys: one a stage that they leave by
  record.by_role = record.strategy == "split" and record.head_dim > 128
  record.width, record.dq_n = record.head_dim % 64 == 0 and 128 or 64, DQ_N
  record.smem = smem_of(record)
  record.smem_bytes, record.dq_smem_bytes = record.smem[1].bytes, record.strategy == "split" and record.smem[2].bytes or nil
  record.alignment_bytes, record.padded_dim = 16, record.head_dim
  record.block_keys = record.intervals and 1 or nil
  record.launches = {
    { suffix = "_delta", grid = "GLINT_GPU_QUERY_BLOCKS", rows = PAD_ROWS, threads = 256, smem_bytes = 0 },
    { suffix = "_sinks", grid = "GLINT_GPU_QUERY_HEADS", threads = 256, smem_bytes = SINKS_BYTES, sinks = 1 },
    { suffix = "", grid = "GLINT_GPU_KEY_BLOCKS", rows = record.n, threads = record.threads, smem_bytes = record.smem_bytes,
      blocks_per_sm = record.strategy == "fused" and 1 or nil },
  }
  if record.strategy == "split" then
    record.launches[4] = { suffix = "_dq", grid = "GLINT_GPU_QUERY_BLOCKS", rows = DQ_M, threads = record.threads,
      smem_bytes = record.dq_smem_bytes }
  end
  record.kernels = gpu.kernels(record) -- the first ones; that of keys takes both sequences of a batch and ragged ones
  for i = 2, #record.kernels do
    local suffix = record.kernels[i].suffix
    local launches
    if record.strategy == "split" then
      launches = {
        { suffix = suffix .. "_delta", smem_bytes = TILE_BYTES },
        { suffix = suffix .. "_sinks", smem_bytes = SINKS_BYTES },
        { suffix = suffix, smem_bytes = record.smem[3].bytes },
        { suffix = suffix .. "_dq", smem_bytes = record.smem[4].bytes },
      }
    else
      launches = {
        { suffix = suffix .. "_delta", smem_bytes = GROUP_BYTES },
        { suffix = suffix .. "_sinks" },
        { suffix = "_sequences", smem_bytes = record.smem[#record.smem].bytes },
      }
    end
    for j, launch in ipairs(launches) do
      launch.lengths = record.kernels[i].lengths
      record.launches[#record.launches + 1] = setmetatable(launch, { __index = record.launches[j] })
    end
  end
  local columns = record.width // record.dtype_bytes
  record.maps = {}
  for i, tensor in ipairs({ "Q", "K", "V", "DOUT", "DQ", "DK", "DV" }) do
    record.maps[i] = { tensor = "GLINT_GPU_" .. tensor, swizzle = ("TENSOR_MAP_SWIZZLE_%dB"):format(record.width),
      slabs = record.head_dim // columns, columns = columns, rows = BOX_ROWS }
  end
end

-- The tiles that the kernels are made for, by strategy.
local function goes(record)
  local m, n, d = record.m, record.n, record.head_dim
  if record.strategy == "fused" then return n == 128 and (d == 64 and m == 128 or d > 64 and m == 64) end
  return d ~= 96 and m == 64 and n == (d <= 128 and 128 or 64)
end

--- The limits; report(field, wrong, right) for each that is broken. block_kib: shared memory of a block.
function backward.check(record, report, block_kib)
  if record.dtype == "f32" then report("m", "the family's products are of 16-bit numbers", 'dtypes = { "f16", "bf16" }') end
  if record.head_dim ~= 96 and (record.head_dim % 64 ~= 0 or record.head_dim > 256) then
    report("m", ("there are no kernels of head_dim %d"):format(record.head_dim), "64, 96, 128, 192 or 256")
  elseif record.strategy == "split" and record.head_dim == 96 then
    report("strategy", "head_dim 96 has fused kernels only", 'strategy = "fused"')
  elseif record.strategy == "fused" and record.head_dim > 128 then
    report("strategy", ("fused keeps dK, dV and parts of dQ in registers, which are too few at head_dim %d"):format(record.head_dim),
      'strategy = "split"')
  elseif not goes(record) then
    report("m", ("%d queries x %d keys are not what the %s kernels are made for at head_dim %d"):format(record.m, record.n, record.strategy,
      record.head_dim),
      record.strategy == "fused" and (record.head_dim == 64 and "m = 128, n = 128" or "m = 64, n = 128")
      or (record.head_dim <= 128 and "m = 64, n = 128" or "m = 64, n = 64"))
  end
  if record.strategy == "split" and record.intervals then
    report("strategy", "only fused kernels read intervals", 'strategy = "fused"')
  end
  if record.strategy == "split" and record.part_heads ~= nil then
    report("part_heads", "a block of the split kernels takes all query heads of a key head", "leave it out")
  end
  for _, smem in ipairs(record.smem) do
    if smem.bytes > block_kib * KIB then
      report("tile", ("the kernel for %s needs %s bytes of shared memory, and a block has %d"):format(smem.kernel, smem.text, block_kib * KIB),
        "a smaller m or n")
    end
  end
end

--- How a variant does it, for the header and explain.
function backward.describe(record)
  if record.strategy == "fused" then
    return "persistent, two warpgroups of 64 keys, and a warpgroup that loads and stores; dQ summed by one block after another."
  end
  return (record.by_role and "a warpgroup keeps dV, another one dK" or "two warpgroups of 64 keys") .. "; dQ in a kernel of its own."
end

return backward
