-- The `sm90a` family: CUDA C with wgmma, the tensor copy engine and mbarriers, for Hopper alone (H100, H200), in 16
-- bit. This file holds what a spec may say about it, its limits with their arithmetic, and what a variant of it is. It
-- must not mention another family. gen/README.md says what each part is for.
local architectures = require("gen.archs")
local axes = require("gen.axes")
local backward = require("gen.families.sm90a_backward")
local gpu = require("gen.gpu")
local schema = require("gen.schema")
local step = require("gen.families.sm90a_step")
local text = require("gen.text")
local tiles = require("gen.tiles")

local KIB = 1024
local ARCHS = { "90a" }
local ROWS = 64          -- queries of a warpgroup: rows of one wgmma
local REGISTERS = 65536  -- of a multiprocessor
local STEP = 8           -- setmaxnreg counts registers by eights
local SHORT_STAGES = 2   -- of a block that loads for itself
local TILES_AHEAD = 2    -- numbers of tiles that a persistent block's loader announces
local SEQUENCES_BYTES = 144 -- the same where lengths are read, with each tile's own: sequence_queue of lib/device/warpgroup_lengths.h
local TABLE_BYTES = 1600 -- where a persistent block's loader keeps ragged sequences: RAGGED_TABLE_BYTES of lib/device/warpgroup_ragged.h
local RANGE_BYTES = 8    -- of a query that has an interval: lib/device/intervals.h
local BIAS_PAD = 8       -- elements that a row of a bias is longer than a block of keys: lib/device/warpgroup_bias_tile.h
local KEPT_BYTES = 32    -- and a warp that computes the tile it has given back
local SEARCH_BYTES = 288 -- where a short block looks for its ragged tile, and keeps it: find_ragged_tile of lib/device/ragged.h

local arch_list = schema.list(schema.name(ARCHS))

local sm90a = {
  name = "sm90a",
  what = "wgmma, tensor maps and mbarriers: Hopper",
  backend = gpu,
  extension = "cu",
  templates = { fwd = "sm90a_fwd.cu.lua", bwd = "sm90a_bwd.cu.lua" },
  template = function(record) return record.schedule == "step" and "sm90a_step.cu.lua" or nil end,
  fields = { archs = arch_list, device_lengths = schema.flag(), device_ragged = schema.flag(),
    step = schema.flag() }, -- adds the row of a server's step to each forward key that has one
  passed = { "device_lengths", "device_ragged" },
  required = { "archs" },
  target_field = "archs",
  all_targets = ARCHS,
  tile_fields = {
    m = schema.integer(64, 192, 64),                       -- queries a tile: 64 a warpgroup that computes
    n = schema.integer(16, 256, 16),                       -- keys a step
    up_to = schema.integer(1, 1 << 30),                    -- lengths for which the plan takes it before tiles without: the shorter of the two
    both_up_to = schema.integer(1, 1 << 30),               -- the same of the longer of the two, in place of up_to
    least = schema.integer(1, 1 << 30),                    -- where both lengths are below it, the plan takes an older family's row before it
    -- persistent: a warpgroup loads for the others, which overlap the end of a tile with the next one's beginning;
    -- short: a block of one warpgroup owns a tile and loads for itself, and several share a multiprocessor; step: any
    -- rows of queries in one canonical order, of every kind of sequences and in pages (gen/families/sm90a_step.lua)
    schedule = schema.choice({ "persistent", "short", "step" }),
    span = schema.integer(16, 1 << 20, 16),                -- step: keys of the first spans
    -- step: against a cache the plan takes it before other rows, from so many rows of a key head to so many queries
    cache_from = schema.integer(1, 1 << 30),
    cache_up_to = schema.integer(1, 1 << 30),
    q_slots = schema.integer(1, 2),                        -- persistent: tiles of Q in shared memory
    stages = schema.integer(2, 4),                         -- persistent, step: of K, and of V
    registers = schema.integer(128, 240, 8),               -- persistent: of a thread that computes
    turns = schema.flag(),                              -- persistent: warpgroups issue their products in turn
    dynamic = schema.flag(),                            -- persistent: a block takes the next tile that nobody has, and not every so many-th
    blocks_per_sm = schema.integer(1, 8),                  -- short: that the registers must leave room for
    device_lengths = schema.flag(),                         -- forward, and backward but for split tiles up to 128: a second kernel,
                                                            -- for GLINT_LENGTHS_DEVICE; unsaid, the family's
    device_ragged = schema.flag(),                          -- likewise for GLINT_LENGTHS_RAGGED; a fused kernel of keys takes both
    part_heads = schema.integer(1, 1 << 30),               -- backward, fused: query heads of a block at every length, where a key head has more; else
                                                            -- the rule of lib/cuda/policy.c
    strategy = schema.choice(backward.strategies),          -- backward: dQ summed by key blocks in turn, or in a kernel of its own
    archs = arch_list,
    spills = schema.sentence(),                            -- allows register spills, and says why
  },
  match_fields = {},
  listed = { "archs", "up_to", "both_up_to", "least", "schedule", "smem_bytes", "spills", "compress" },
}

function sm90a.targets(config) return config.archs end

function sm90a.target_name(arch) return "sm_" .. arch end

--- One variant a tile.
function sm90a.variants(targets, tile)
  local archs = {}
  for _, arch in ipairs(targets) do
    if not tile.archs or text.contains(tile.archs, arch) then archs[#archs + 1] = arch end
  end
  return #archs > 0 and { { archs = archs } } or {}
end

function sm90a.covers(target) return target.archs end

--- The tiles of `key` beside those that it has in any case: where the spec says `step`, a step's.
function sm90a.more(config, key)
  local data = require("gen.tiles.sm90a")
  local measured = key.kv_dtype == "same" and data.step or data.narrow_step
  local tile = config.step and key.pass == "fwd" and not sm90a.lacks(key) and
    step.goes(key.head_dim, axes.field(key, "mask", "intervals")) and
    (not axes.field(key, "bias", "biased") or step.adds(key)) and measured[key.head_dim]
  if not tile then return {} end
  local timed = type(tile.measured) == "string" and { ["90a"] = tile.measured } or {}
  return { { tile = tiles.bare(tile), origin = { kind = "measured", head_dim = key.head_dim, timed = timed, why = tile.why } } }
end

function sm90a.how(record)
  if record.pass == "bwd" then return backward.how(record) end
  if record.schedule == "step" then return step.how(record) end
  return ("sm90a_%sm%dn%d"):format(record.schedule == "short" and "short_" or "", record.m, record.n)
end

--- The fields that the right half of a name says, or nil when it is none of this family's.
function sm90a.parse(how)
  local m, n = how:match("^sm90a_[%w_]-m(%d+)n(%d+)$")
  return m and { m = tonumber(m), n = tonumber(n) }
end

-- Tiles ahead whose queries have intervals: interval_slot of lib/device/warpgroup_intervals.h.
local function intervals_bytes(record) return SEQUENCES_BYTES + 3 * (16 + 16 * record.warpgroups + RANGE_BYTES * record.m) end

-- Shared memory of a block: tiles and 8-byte mbarriers, { what, bytes } each, as the templates lay them out.
-- kind: nil, or "lengths" or "ragged" of a kernel that reads them.
local function parts_of(record, kind)
  local lengths = kind ~= nil
  local row = record.head_dim * record.dtype_bytes
  local q, kv = ("Q %d x %d x %d"):format(record.q_slots, record.m, row), ("K, V %d x %d x %d"):format(2 * record.stages, record.n, row)
  local parts = { { q, record.q_slots * record.m * row }, { kv, 2 * record.stages * record.n * row } }
  if record.schedule == "short" then
    parts[3] = { "barriers", 8 + 16 * record.stages }
    if kind == "ragged" then -- read 16 bytes at a time
      parts[4] = { "search", 8 + SEARCH_BYTES }
    end
    if record.intervals then parts[#parts + 1] = { "ranges", RANGE_BYTES * record.m } end
    return parts
  end
  parts[3] = { "barriers", 16 * record.q_slots + 32 * record.stages }
  parts[4] = { "tiles ahead", record.intervals and intervals_bytes(record) or lengths and SEQUENCES_BYTES or 20 * TILES_AHEAD }
  if record.intervals then
    parts[5] = { "scanners, next tile", 16 * record.stages + 16 }
  elseif record.causal or lengths then
    parts[5] = { "scanners", 16 * record.stages }
  end
  if kind == "ragged" then
    parts[6] = { "sequences", TABLE_BYTES }
    parts[7] = { "tiles given back", KEPT_BYTES * 4 * record.warpgroups }
  end
  if record.bias_tensor then
    local elements = record.n + BIAS_PAD
    parts[#parts + 1] = { ("bias 4 x %d x %d"):format(record.m, elements), 4 * record.m * elements }
  end
  return parts
end

local function smem_of(record, kind)
  local bytes, shown = 0, {}
  for i, part in ipairs(parts_of(record, kind)) do bytes, shown[i] = bytes + part[2], part[1] end
  return { { kernel = "fwd", bytes = bytes, text = ("%s = %d"):format(table.concat(shown, " + "), bytes) } }
end

-- Registers of a thread when a persistent block begins: an even share. Its loaders keep what those that compute leave
-- of it.
local function share(record) return REGISTERS // record.threads // STEP * STEP end

-- struct glint_gpu_map: boxes of all of head_dim, slab by slab.
local function map(record, tensor, rows)
  local columns = record.width // record.dtype_bytes
  return { tensor = tensor, swizzle = ("TENSOR_MAP_SWIZZLE_%dB"):format(record.width), slabs = record.head_dim // columns, columns = columns,
    rows = rows }
end

--- Fills in everything that follows from the spec's fields. Makes no checks.
function sm90a.complete(record)
  local takes_lengths = record.pass == "fwd" or backward.takes_lengths(record)
  record.device_lengths = takes_lengths and record.device_lengths or false
  record.device_ragged = takes_lengths and record.device_ragged or false
  if record.pass == "bwd" then return backward.complete(record) end
  if record.schedule == "step" then return step.complete(record) end
  record.schedule, record.strategy_id = record.schedule or "persistent", "GLINT_GPU_FORWARD"
  record.warpgroups = record.m // ROWS
  local short = record.schedule == "short"
  record.threads = 128 * (short and 1 or 1 + record.warpgroups)
  record.q_slots, record.stages = record.q_slots or 1, record.stages or SHORT_STAGES
  record.width = record.head_dim % 64 == 0 and 128 or 64
  record.blocks_per_sm = record.blocks_per_sm or 1
  if not short then
    record.registers = record.registers or (record.warpgroups == 3 and 160 or 232)
    record.producer_registers = share(record) * (1 + record.warpgroups) - record.registers * record.warpgroups
    if record.turns == nil then record.turns = false end
    if record.dynamic == nil then record.dynamic = record.causal end
    record.zero_words = (record.dynamic or record.intervals) and 1 or nil
  end
  record.smem = smem_of(record)
  record.smem_bytes, record.alignment_bytes, record.padded_dim = record.smem[1].bytes, 16, record.head_dim
  record.maps = { map(record, "GLINT_GPU_Q", ROWS), map(record, "GLINT_GPU_K", record.n), map(record, "GLINT_GPU_V", record.n) }
  record.launches = { { suffix = "", grid = "GLINT_GPU_QUERY_BLOCKS", rows = record.m, threads = record.threads, smem_bytes = record.smem_bytes,
    blocks_per_sm = not short and 1 or nil } }
  record.kernels = gpu.kernels(record)
  for i = 2, #record.kernels do
    local kernel = record.kernels[i]
    record.lengths_words = not short and 1 or nil
    record.launches[i] = setmetatable({ suffix = kernel.suffix, smem_bytes = smem_of(record, kernel.suffix:sub(2))[1].bytes,
      lengths = kernel.lengths }, { __index = record.launches[1] })
  end
end

--- What a record's kernels take.
function sm90a.takes(record) return (record.schedule == "step" and step or gpu).takes(record) end

--- A tile of another head dim's: none is known to go without a measurement.
function sm90a.adapt() return nil end

local function record_of(key, tile)
  local record = { family = sm90a.name, archs = ARCHS }
  for axis, value in pairs(key) do record[axis] = value end
  for field, value in pairs(tile) do record[field] = value end
  axes.fill(record)
  sm90a.complete(record)
  return record
end

--- The right half of the name that a tile gives `key`.
function sm90a.how_of(key, tile) return sm90a.how(record_of(key, tile)) end

--- Whether a tile goes with `key`.
function sm90a.fits(key, tile)
  local right = true
  sm90a.check(record_of(key, tile), function() right = false end)
  return right
end

-- Numbers of 32 bits that a thread which computes holds: scores, weights in 16 bits, and O.
local function payload(record) return record.n // 2 + record.n // 4 + record.head_dim // 2 end

--- Tiles that the model proposes, forward, the best first: three warpgroups, which read K and V least often, with at
-- least 80 keys, or two; in turn, and as many keys, up to 128, as registers and shared memory hold. A tile of fewer
-- keys follows, for tuning.
function sm90a.candidates(key)
  local found = {}
  if key.pass ~= "fwd" then return found end
  for _, m in ipairs({ 192, 128 }) do
    local proposed = 0
    for n = 128, m == 192 and 80 or 16, -16 do
      local tile = { m = m, n = n, turns = true }
      if proposed < 2 and sm90a.fits(key, tile) then
        found[#found + 1], proposed = { how = sm90a.how_of(key, tile), tile = tile }, proposed + 1
      end
    end
  end
  return found
end

--- What the arithmetic says of a record, for explain.
function sm90a.estimate(record)
  if record.pass == "bwd" then return backward.describe(record) end
  if record.schedule == "step" then return step.describe(record) end
  return ("registers of a thread that computes hold %d numbers: scores, weights and O"):format(payload(record))
end

--- No backward kernel of the family caps scores, and only fused ones read intervals. A step of bf16 alone reads K and V
-- of 8 bits, and a step alone a tree. At head_dim 256 registers are too few for a softcap and a tensor.
function sm90a.lacks(key)
  local intervals, narrow = axes.field(key, "mask", "intervals"), key.narrow or axes.field(key, "kv_dtype", "narrow")
  if narrow then return key.pass ~= "fwd" or key.dtype ~= "bf16" or not step.goes(key.head_dim, intervals, true) end
  if key.mask == "tree" then return key.pass ~= "fwd" or not step.goes(key.head_dim, true) end
  if axes.field(key, "bias", "bias_tensor") and axes.field(key, "softcap", "capped") and key.head_dim > 192 then return true end
  return key.pass == "bwd" and (axes.field(key, "softcap", "capped") or (intervals and key.head_dim > 128))
end

--- What a step alone reads has no tiles that no spec asks for.
function sm90a.proposes(key) return key.kv_dtype == "same" and key.mask ~= "tree" end

--- The limits; report(field, wrong, right) for each that is broken.
function sm90a.check(record, report)
  if record.up_to and record.both_up_to then report("both_up_to", "the tile has a bound of the shorter length, too", "one of the two") end
  if record.pass == "bwd" then
    for _, field in ipairs({ "schedule", "q_slots", "stages", "turns", "dynamic", "blocks_per_sm", "span", "cache_from", "cache_up_to" }) do
      if record[field] ~= nil then report(field, "is the forward's", "leave it out") end
    end
    return backward.check(record, report, architectures.get(record.archs[1]).block_kib)
  end
  for _, field in ipairs({ "strategy", "part_heads" }) do
    if record[field] ~= nil then report(field, "is the backward's", "leave it out") end
  end
  if record.schedule == "step" then return step.check(record, report, architectures.get(record.archs[1]).block_kib) end
  if record.narrow then report("schedule", "only a step reads K and V of 8 bits", 'schedule = "step"') end
  if record.tree_bits then report("schedule", "only a step reads a tree", 'schedule = "step"') end
  if record.schedule == "short" and record.bias_tensor then
    report("schedule", "a short tile has no shared memory for a bias by a tensor", "leave it out")
  end
  for _, field in ipairs({ "span", "cache_from", "cache_up_to" }) do
    if record[field] ~= nil then report(field, "is a step's", "leave it out, or schedule = \"step\"") end
  end
  local short = record.schedule == "short"
  if record.dtype == "f32" then report("m", "the family's products are of 16-bit numbers", 'dtypes = { "f16", "bf16" }') end
  if record.head_dim % 32 ~= 0 or record.head_dim > 256 then
    report("m", ("head_dim %d is not made of slabs of 32 or 64 columns"):format(record.head_dim), "multiples of 32 up to 256")
  end
  if short and record.m ~= ROWS then
    report("m", ("a short tile is one warpgroup's: %d queries"):format(ROWS), tostring(ROWS))
  elseif not short and record.m < 2 * ROWS then
    report("m", "a persistent tile has two or three warpgroups", "128 or 192")
  end
  if record.intervals and record.dynamic == false then
    report("dynamic", "tiles with intervals are taken one after another", "leave it out")
  end
  if record.schedule == "persistent" and record.blocks_per_sm ~= 1 then
    report("blocks_per_sm", "a persistent block has a multiprocessor to itself", "leave it out, or schedule = \"short\"")
  end
  for _, field in ipairs(short and { "registers", "turns", "dynamic" } or {}) do
    if record[field] ~= nil then report(field, "a short tile has none", "leave it out, or schedule = \"persistent\"") end
  end
  if short and (record.q_slots ~= 1 or record.stages ~= SHORT_STAGES) then
    report(record.q_slots ~= 1 and "q_slots" or "stages", "a short tile has one Q and two stages", "leave it out")
  end
  local apart = (record.m - ROWS + record.n - 1) // record.n -- blocks between the first keys of the first and of the last warpgroup
  if not short and record.bounds_first and apart > record.stages then
    report("n", ("the windows of %d warpgroups begin up to %d blocks of keys apart, and there are %d stages: they would wait for each other"):format(
      record.warpgroups, apart, record.stages), "more keys, more stages, or fewer queries")
  end
  local registers = short and REGISTERS // (128 * record.blocks_per_sm) // STEP * STEP or record.registers
  -- With lengths a row's end looks again for whether it sees a key: with 24 head_dim 96 spills 8 bytes at 112 keys, and
  -- 4 without a mask. 96 keys are as fast there (bench/results/sm90a_notes.md). With intervals and a softcap 40 were
  -- too few: head_dim 32 spilled 12 bytes at 128 keys, and 128 spilled 24 at 64.
  -- With a bias by a tensor and intervals head_dim 64 spilled 4 bytes at 128 keys, and with a softcap 12 at 64.
  local others = record.capped and (record.bias_tensor and 84 or record.intervals and not short and 52 or 40) or short and 24 or
    record.bias_tensor and record.intervals and 34 or 32
  if payload(record) > math.min(registers, 255) - others then
    report("n", ("scores, weights and O are %d numbers a thread, which has %d registers"):format(payload(record), registers), "fewer keys")
  end
  if record.capped and record.biased and record.head_dim > 128 and record.n > 80 then
    report("n", "beyond head_dim 128 more keys spill up to 44 bytes beside a softcap and ALiBi", "80")
  end
  -- A loader that reads intervals fits 32.
  if not short and record.producer_registers < (record.intervals and 32 or 24) then
    report("registers", ("leaves %d a thread that loads, of %d at the start"):format(record.producer_registers, share(record)), "fewer")
  end
  local limit = architectures.get(record.archs[1])
  local smem = smem_of(record, record.device_ragged and "ragged" or record.device_lengths and "lengths" or nil)[1]
  if smem.bytes > limit.block_kib * KIB then
    report("tile", ("at head_dim %d the kernel needs %s bytes of shared memory, and a block has %d"):format(record.head_dim,
      smem.text, limit.block_kib * KIB), "a smaller m or n, fewer stages or q_slots")
  elseif short and record.blocks_per_sm * (smem.bytes + KIB) > limit.sm_kib * KIB then
    report("blocks_per_sm", ("%d blocks need %d bytes of shared memory, and a multiprocessor has %d"):format(record.blocks_per_sm,
      record.blocks_per_sm * (smem.bytes + KIB), limit.sm_kib * KIB), "fewer blocks or keys")
  end
end

--- Lines for the header of an emitted kernel and for explain.
function sm90a.describe(record)
  local how
  if record.pass == "bwd" then
    how = backward.describe(record)
  elseif record.schedule == "step" then
    how = step.describe(record)
  elseif record.schedule == "short" then
    how = ("one warpgroup that loads for itself, %d blocks a multiprocessor."):format(record.blocks_per_sm)
  else
    how = ("persistent, %d warpgroups of %d registers a thread that compute and one of %d that loads; K and V in %d stages."):format(
      record.warpgroups, record.registers, record.producer_registers, record.stages)
  end
  local lines = {
    ("For %s."):format(sm90a.target_name(record.archs[1])),
    ("Tile: %d queries x %d keys; %s"):format(record.tile_m, record.tile_n, how),
    ("Shared memory of a block: %d bytes."):format(record.smem_bytes),
  }
  local back = record.pass == "bwd"
  if record.device_lengths then
    lines[#lines + 1] = back and "Others read the lengths of the sequences." or "A second kernel reads the lengths of the sequences."
  end
  if record.device_ragged then lines[#lines + 1] = back and "Others take ragged sequences." or "Another one takes ragged sequences." end
  return lines
end

--- The arithmetic of the budget, for explain.
function sm90a.budget(record)
  local limit = architectures.get(record.archs[1]).block_kib * KIB
  return {
    ("shared memory, bytes: %s"):format(record.smem[1].text),
    ("%d of %d bytes, %.0f %%"):format(record.smem_bytes, limit, 100 * record.smem_bytes / limit),
  }
end

--- The budget in a few words, for lists.
function sm90a.size(record) return text.bytes(record.smem_bytes) .. " shared" end

--- The table row's columns that depend on the family.
function sm90a.row(record)
  return { isa = 0, sm = architectures.get(record.archs[1]).number, math = "GLINT_MATH_NATIVE", up_to = record.up_to,
    untimed = record.pass == "bwd" and backward.untimed(record) or nil,
    both_up_to = record.both_up_to, least = record.least, cache_from = record.cache_from, cache_up_to = record.cache_up_to,
    alignment_bytes = record.alignment_bytes }
end

return sm90a
