-- A resource model of the sm80 family: which tiles fit, should not spill, and should be fast. For head dims and
-- architectures whose tiles nobody measured, and for the order in which bench:tune tries candidates. It knows the
-- tile's fields and nothing of specs.
--
-- Registers. A thread holds its warp's accumulators, scores and the fragments that stay; `allowed` is how many of
-- these did not spill, with 255 registers a thread, in what ptxas of CUDA 13.0 made of the measured tiles
-- (gen/tiles/sm80.lua) and of 530 proposals for 19 head dims and 7 architectures. `extra` is what rows of an awkward
-- length need beside them. With fewer registers a thread, because several blocks share a multiprocessor, OTHERS are
-- needed beside the sum.
--
-- Time, in clocks of a multiprocessor for a step of a block (bench/results/sm80_notes.md): the tensor pipe, 6.9 clocks
-- an mma and scheduler; shared memory, 128 bytes a clock, of which 0.39 shows beside the pipe in 16 bit and all of it
-- in float32, where instructions are issued beside it; the exponentials. One block a multiprocessor hides its
-- beginning and end behind nothing, and fewer than 8 warps hide less of each other.
local axes = require("gen.axes")
local architectures = require("gen.archs")
local text = require("gen.text")

local KIB, REGISTERS, MOST_REGISTERS, SCHEDULERS = 1024, 65536, 255, 4
local FURTHER = 16 -- numbers of a thread that a row's further kernels need beside those of the first: ptxas was a few short
local PIPE, SHOWS, EXPONENTIALS = 6.9, 0.39, 24 -- clocks: an mma; part of shared memory's; 128 exponentials
local ISSUE = 4.3                               -- float32: instructions an mma, beside its loads

-- before, from: architectures before 100 and from it on, whose SASS needs a few registers more. short, long: rows up
-- to `row` numbers, and longer.
local ALLOWED = {
  fwd = {
    half = { row = 64, short = { before = 200, from = 184 }, long = { before = 200, from = 184 } },
    f32 = { row = 64, short = { before = 176, from = 160 }, long = { before = 176, from = 160 } },
    tf32x3 = { row = 64, short = { before = 96, from = 96 }, long = { before = 96, from = 96 } },
  },
  bwd = {
    half = { row = 64, short = { before = 200, from = 200 }, long = { before = 192, from = 191 } },
    f32 = { row = 128, short = { before = 168, from = 168 }, long = { before = 152, from = 152 } },
    tf32x3 = { row = 64, short = { before = 112, from = 112 }, long = { before = 112, from = 112 } },
  },
}
local OTHERS = { before = 40, from = 64 }

local model = {}

local function kind_of(record)
  return record.math == "tf32x3" and "tf32x3" or record.dtype == "f32" and "f32" or "half"
end

local function generation(arch) return architectures.get(arch).number < 100 and "before" or "from" end

local function steps_of(record) return record.padded_dim * record.dtype_bytes // 32 end

-- For each kernel of a variant what a thread's registers hold, in numbers of 32 bits: { sum, threads, blocks }.
local function kernels_of(r)
  if r.pass == "fwd" then
    local rows = r.m * r.d_split // r.warps
    local sum = rows * r.padded_dim // r.d_split // 32 + rows * r.n // r.d_split // 32 + r.q_kept * rows // 16 * 4
    if r.d_split == 2 then sum = sum + rows * r.n // 64 end -- P of both warps, in 16 bits
    if r.bias_tensor then sum = sum + rows * r.n // r.d_split // 32 end
    return { { sum = sum, threads = r.threads, blocks = r.blocks_per_sm } }
  end
  local keys = r.n // (r.warps // (2 * r.d_split)) -- of a warp of each role
  local found = { { sum = keys * r.padded_dim // r.d_split // 32 + r.part_m * keys // 32 + r.kv_kept * keys // 16 * 4, threads = r.threads,
    blocks = r.blocks_per_sm } }
  if r.bias_tensor and r.part_m * keys > 256 then found[1].sum = found[1].sum + r.part_m * keys // 32 + 8 end -- of one fragment they are few
  if r.strategy == "split" then
    local rows = r.dq_m // r.dq_warps
    found[2] = { sum = rows * r.padded_dim // 32 + (r.bias_tensor and 3 or 2) * rows * r.dq_n // 32, threads = 32 * r.dq_warps, blocks = r.dq_blocks_per_sm }
  end
  return found
end

-- Registers that a thread may have where `blocks` of `threads` share a multiprocessor. Each of its four schedulers has
-- a quarter of them for its warps, and ptxas gives them out by eights.
local function limit_of(kernel)
  local warps = (kernel.threads // 32 * kernel.blocks + SCHEDULERS - 1) // SCHEDULERS
  return math.min(MOST_REGISTERS, REGISTERS // SCHEDULERS // (32 * warps) // 8 * 8)
end

-- Pages of 32 bytes have more addresses than longer ones; chunks of a row that are padding, and two warps that copy
-- all of a block, have a few more. Forward at head_dim 104 to 120 with 64 keys spilled with either, one register or
-- twenty, on sm_80 and 90.
local function extra_of(r, when)
  local half, long, extra = kind_of(r) == "half", r.padded_dim > 64, 0
  if r.d_split == 1 and half and r.page_chunks == 2 then extra = not long and 16 or r.pass == "fwd" and when == "before" and 40 or 24 end
  if r.d_split == 1 and r.padded_dim > r.head_dim then
    if r.pass == "bwd" then extra = extra + r.padded_dim // 16 elseif half and long and r.page_chunks > 2 then extra = extra + 24 end
  end
  if r.pass == "bwd" and not half and r.warps == 2 then extra = math.max(extra, 8) end
  return extra
end

local function fits_registers(record, arch)
  local when, table_of = generation(arch), ALLOWED[record.pass][kind_of(record)]
  local most, extra = table_of[record.padded_dim <= table_of.row and "short" or "long"][when], extra_of(record, when)
  for _, kernel in ipairs(kernels_of(record)) do
    local limit = limit_of(kernel)
    if kernel.sum + extra > (limit < MOST_REGISTERS and math.min(most, limit - OTHERS[when]) or most) then return false end
  end
  return true
end

local function fits_blocks(record, arch)
  local row = architectures.get(arch)
  for i, kernel in ipairs(kernels_of(record)) do
    if kernel.blocks * (record.smem[i].bytes + KIB) > row.sm_kib * KIB or kernel.blocks * kernel.threads > row.threads then return false end
  end
  return true
end

-- Clocks for a query and a key.
local function cost_forward(r)
  local half, d, step = r.dtype_bytes == 2, r.padded_dim, r.dtype_bytes == 2 and 16 or 8
  local rows, steps = r.m * r.d_split // r.warps, steps_of(r)
  local mma = (rows // 16) * (r.n // r.d_split // 8) * (d // step) + (rows // 16) * (d // r.d_split // 8) * (r.n // step)
  local loads = (r.n // r.d_split // 16) * steps + (half and 1 or 2) * (d // r.d_split // 16) * (r.n // step)
    + (steps - r.q_kept) * (rows // 16) * (half and 1 or 2)
  if r.d_split == 2 then loads = loads + (rows // 16) * (r.n // 16) end
  local shared = 4 * loads * r.warps + 4 * r.n * d * r.dtype_bytes / 128
  local pipe = mma * r.warps * (half and PIPE or ISSUE) / 4
  return (pipe + (half and SHOWS or 1) * shared + EXPONENTIALS / 4 * r.m * r.n / 128) / (r.m * r.n)
end

local function cost_backward(r)
  local half, d, step = r.dtype_bytes == 2, r.padded_dim, r.dtype_bytes == 2 and 16 or 8
  local keys, steps = r.n // (r.warps // (2 * r.d_split)), steps_of(r)
  local parts = r.m // r.d_split // r.part_m
  local mma = 2 * (keys // 16) * (r.m // r.d_split // 8) * (d // step) -- a role's scores, and its product with Q or dO
  local loads = (steps - r.kv_kept) * (keys // 16) * parts + (r.m // r.d_split // 16) * steps
    + (half and 1 or 2) * (d // r.d_split // 16) * (r.m // step) + (keys // 16) * (r.m // 16)
  local dq = (r.m // 16) * (d // 8) * (r.n // step) -- of the whole block, or of the split strategy's own kernel
  local dq_rows = r.strategy == "fused" and 16 * r.dq_row_tiles or r.dq_m // r.dq_warps
  local dq_loads = dq / (2 * (dq_rows // 16)) + dq / (d // 8)
  if r.strategy == "split" then dq, dq_loads = 3 * dq, 3 * dq_loads end
  local shared = 4 * (loads * r.warps + dq_loads) + 2 * r.m * d * r.dtype_bytes / 128 + 2 * r.m * r.n * r.dtype_bytes / 128
  local sums = r.strategy == "fused" and r.m * d * 8 / 64 or 0 -- bytes of dQ from and to the second-level cache, 64 a clock
  local pipe = (mma * r.warps + dq) * (half and PIPE or ISSUE) / 4
  return (pipe + (half and SHOWS or 1) * shared + sums + EXPONENTIALS / 4 * r.m * r.n / 128) / (r.m * r.n)
end

local function cost(record)
  local clocks = record.pass == "fwd" and cost_forward(record) or cost_backward(record)
  local warps = record.warps * record.blocks_per_sm
  return clocks * (record.blocks_per_sm == 1 and 1.1 or 1) * (warps < 8 and 1 + (8 - warps) / 16 or 1)
end

-- Whether the tiles of head_dim alone leave room: a bound that spares the search most of its records.
local function may_fit(key, tile, arch)
  local rows = key.pass == "fwd" and tile.m + 4 * tile.n or 4 * tile.m + 2 * tile.n
  return tile.blocks_per_sm * rows * key.head_dim * (key.dtype == "f32" and 4 or 2) <= architectures.get(arch).sm_kib * KIB
end

-- A record of `tile` for `key`, complete, or nil when it breaks a limit of the family's.
local function record_of(family, key, tile, archs)
  local record = { family = family.name, archs = archs }
  for axis, value in pairs(key) do record[axis] = value end
  for field, value in pairs(tile) do record[field] = value end
  record.archs = archs
  axes.fill(record)
  family.complete(record)
  local right = true
  family.check(record, function() right = false end)
  return right and record or nil
end

-- What may be given up so that a tile does not spill, in this order: each is tried before the next.
local function given_up(line, pass)
  local split = line.d_split or 1
  if pass == "fwd" then
    local changes = { {} }
    for n = line.n, 16, -16 * split do
      changes[#changes + 1] = { n = n }
      if line.q_kept then changes[#changes + 1] = { n = n, q_kept = 0 } end
    end
    return changes
  end
  local changes = { {}, { part_m = line.m // split > 32 and 32 or nil } }
  if line.strategy == "split" then changes[3] = { part_m = changes[2].part_m, dq_m = (line.dq_m or 64) // 2 } end
  changes[#changes + 1] = { m = line.m // 2, part_m = math.max(16, line.m // 2 // split) }
  return changes
end

--- The tile `line` of a larger head dim, with as little changed as lets it go with the head dim of `key`: fewer
-- fragments that stay, how dQ goes over the warps, zeros beside a row of head_dim, and if it would spill for its
-- awkward rows, fewer keys or queries. nil when nothing goes.
function model.adapt(family, line, key)
  local least = (key.head_dim + 15) // 16 * 16
  local archs = line.archs or family.all_targets
  local function try(changes)
    local tile = {}
    for field, value in pairs(line) do tile[field] = value end
    for field, value in pairs(changes) do tile[field] = value end
    local steps = (tile.padded_dim or least) * (key.dtype == "f32" and 4 or 2) // 32
    if tile.q_kept then tile.q_kept = math.min(tile.q_kept, steps) end
    if tile.kv_kept then tile.kv_kept = math.min(tile.kv_kept, steps) end
    local record = record_of(family, key, tile, archs)
    for _, arch in ipairs(archs) do
      if record and not fits_registers(record, arch) then return nil end
    end
    return record and tile
  end
  for _, changes in ipairs(given_up(line, key.pass)) do
    for padded = least, least + 48, 16 do
      changes.padded_dim = padded > least and padded or nil
      for _, tiles in ipairs((key.pass == "fwd" or line.strategy == "split") and { false } or { line.dq_row_tiles or 1, 2, 1, 4 }) do
        changes.dq_row_tiles = tiles or nil
        local tile = try(changes)
        if tile then return tile end
      end
    end
  end
end

-- Whether each kernel of a record holds at least FURTHER numbers less than that of another.
local function is_smaller(record, than)
  local whole = kernels_of(than)
  for i, kernel in ipairs(kernels_of(record)) do
    if kernel.sum > whole[i].sum - FURTHER then return false end
  end
  return true
end

--- The next smaller tile than `tile`, which needs fewer registers in each kernel, or nil.
function model.smaller(family, tile, key)
  local archs = tile.archs or family.all_targets
  local whole = record_of(family, key, tile, archs)
  for _, changes in ipairs(whole and given_up(tile, key.pass) or {}) do
    local fields = {}
    for field, value in pairs(tile) do fields[field] = value end
    for field, value in pairs(changes) do fields[field] = value end
    local record = record_of(family, key, fields, archs)
    if record and is_smaller(record, whole) then return fields end
  end
end

local function forward_tiles(key)
  local tiles, half = {}, key.dtype ~= "f32"
  for _, warps in ipairs({ 2, 4, 8 }) do
    for _, split in ipairs(half and { 1, 2 } or { 1 }) do
      for row_tiles = 1, 2 do
        for _, n in ipairs({ 16, 32, 48, 64, 80, 96, 128 }) do
          for _, blocks in ipairs({ 1, 2, 3, 4, 6 }) do
            for _, kept in ipairs({ 0, 1, 2, 4, 8, 16 }) do
              tiles[#tiles + 1] = { m = 16 * row_tiles * warps // split, n = n, warps = warps, d_split = split, blocks_per_sm = blocks,
                q_kept = kept, padded_dim = split == 2 and (key.head_dim + 31) // 32 * 32 or nil }
            end
          end
        end
      end
    end
  end
  return tiles
end

local function backward_tiles(key)
  local tiles, half = {}, key.dtype ~= "f32"
  for _, warps in ipairs({ 2, 4, 6, 8 }) do
    for _, split in ipairs(half and warps % 4 == 0 and { 1, 2 } or { 1 }) do
      for _, keys in ipairs({ 16, 32, 48, 64 }) do
        for _, m in ipairs(half and { 16, 32, 64 } or { 16, 32 }) do
          for _, blocks in ipairs({ 1, 2 }) do
            for _, row_tiles in ipairs({ 1, 2, 4 }) do
              for _, part in ipairs(m // split > 32 and { m // split, 32 } or { m // split }) do
                for _, whole in ipairs({ 16, 32, 64 }) do
                  local padded = (key.head_dim + whole - 1) // whole * whole
                  if whole == 16 or padded > (key.head_dim + whole // 2 - 1) // (whole // 2) * (whole // 2) then
                    tiles[#tiles + 1] = { m = m, n = keys * warps // (2 * split), warps = warps, d_split = split, blocks_per_sm = blocks,
                      part_m = part, dq_row_tiles = row_tiles, strategy = "fused", padded_dim = padded }
                  end
                end
              end
            end
          end
        end
      end
    end
  end
  return tiles
end

local ORDER = { "m", "n", "warps", "d_split", "blocks_per_sm", "q_kept", "part_m", "dq_row_tiles" }

--- The right half of the name that a tile gives `key`.
function model.how_of(family, key, tile)
  return family.how(record_of(family, key, tile, { "90" }))
end

--- Whether a tile goes with `key` on one architecture, and should not spill.
function model.fits(family, key, tile, arch)
  local record = record_of(family, key, tile, { arch })
  return record and fits_registers(record, arch) or false
end

--- Tiles for `key` on one architecture that fit and should not spill, those with the least predicted time first; of the
-- same name only the best: { tile =, how =, cost = } each.
function model.candidates(family, key, arch)
  local found, best = {}, {}
  for _, tile in ipairs(key.pass == "fwd" and forward_tiles(key) or backward_tiles(key)) do
    local record = may_fit(key, tile, arch) and record_of(family, key, tile, { arch })
    if record and fits_registers(record, arch) and fits_blocks(record, arch) then
      found[#found + 1] = { tile = tile, cost = cost(record), how = family.how(record) }
    end
  end
  table.sort(found, function(a, b)
    if a.cost ~= b.cost then return a.cost < b.cost end
    for _, field in ipairs(ORDER) do
      local x, y = a.tile[field] or 0, b.tile[field] or 0
      if x ~= y then return x < y end
    end
    return false
  end)
  local tiles = {}
  for _, candidate in ipairs(found) do
    if not best[candidate.how] then
      best[candidate.how] = true
      tiles[#tiles + 1] = candidate
    end
  end
  return tiles
end

--- The model's numbers for a record, as a sentence.
function model.describe(record)
  local shown = {}
  for i, kernel in ipairs(kernels_of(record)) do
    shown[i] = ("%d of %d"):format(kernel.sum, limit_of(kernel))
  end
  return ("registers of a thread that hold accumulators, scores and kept fragments: %s; shared memory: %s"):format(table.concat(shown, ", "),
    text.bytes(record.smem_bytes))
end

model.record_of = record_of

return model
