-- A resource model of the sm80 family: which tiles fit, should not spill, and should be fast. For head dims and architectures whose tiles nobody
-- measured, and for the order in which bench:tune tries candidates. It knows the tile's fields and nothing of specs.
--
-- Registers. A thread holds its warp's accumulators, scores and the fragments that stay. What ptxas needs beside them was seen in the tiles that
-- are measured (gen/tiles/sm80.lua): ALLOWED is the largest sum that did not spill with 255 registers a thread. With fewer, because several
-- blocks share a multiprocessor, OTHERS are needed beside the sum.
--
-- Time, in clocks of a multiprocessor for a step of a block (bench/results/sm80_notes.md): the tensor pipe, 6.9 clocks an mma and scheduler;
-- shared memory, 128 bytes a clock, of which 0.39 shows beside the pipe in 16 bit and all of it in float32, where instructions are issued beside
-- it; the exponentials. One block a multiprocessor hides its beginning and end behind nothing, and fewer than 8 warps hide less of each other.
local axes = require("gen.axes")
local architectures = require("gen.archs")
local text = require("gen.text")

local KIB, REGISTERS, MOST_REGISTERS = 1024, 65536, 255
local PIPE, SHOWS, EXPONENTIALS = 6.9, 0.39, 24 -- clocks: an mma; part of shared memory's; 128 exponentials
local ISSUE = 4.3                               -- float32: instructions an mma, beside its loads

-- before, from: architectures before 100 and from it on, whose SASS needs a few registers more.
local ALLOWED = {
  fwd = { half = { before = 200, from = 176 }, f32 = { before = 176, from = 160 }, tf32x3 = { before = 96, from = 96 } },
  bwd = { half = { before = 176, from = 160 }, f32 = { before = 160, from = 160 }, tf32x3 = { before = 112, from = 112 } },
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
    return { { sum = sum, threads = r.threads, blocks = r.blocks_per_sm } }
  end
  local keys = r.n // (r.warps // (2 * r.d_split)) -- of a warp of each role
  local found = { { sum = keys * r.padded_dim // r.d_split // 32 + r.part_m * keys // 32 + r.kv_kept * keys // 16 * 4, threads = r.threads,
    blocks = r.blocks_per_sm } }
  if r.strategy == "split" then
    local rows = r.dq_m // r.dq_warps
    found[2] = { sum = rows * r.padded_dim // 32 + 2 * rows * r.dq_n // 32, threads = 32 * r.dq_warps, blocks = r.dq_blocks_per_sm }
  end
  return found
end

-- Registers that a thread may have where `blocks` of `threads` share a multiprocessor; ptxas gives them out by eights.
local function limit_of(kernel)
  return math.min(MOST_REGISTERS, REGISTERS // (kernel.threads * kernel.blocks) // 8 * 8)
end

local function fits_registers(record, arch)
  local when = generation(arch)
  local allowed = ALLOWED[record.pass][kind_of(record)][when]
  for _, kernel in ipairs(kernels_of(record)) do
    local limit = limit_of(kernel)
    if limit < MOST_REGISTERS then allowed = math.min(allowed, limit - OTHERS[when]) end
    if kernel.sum > allowed then return false end
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

--- The tile `line` of a larger head dim, with as little changed as lets it go with the head dim of `key`: fewer fragments that stay, how dQ
-- goes over the warps, and zeros beside a row of head_dim. A smaller head dim needs less of everything, so it fits and does not spill. nil
-- when nothing goes.
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
    return record_of(family, key, tile, archs) and tile
  end
  for padded = least, least + 48, 16 do
    local padded_dim = padded > least and padded or nil
    if key.pass == "fwd" or line.strategy == "split" then
      local tile = try({ padded_dim = padded_dim })
      if tile then return tile end
    else
      for _, tiles in ipairs({ line.dq_row_tiles or 1, 2, 1, 4 }) do
        local tile = try({ padded_dim = padded_dim, dq_row_tiles = tiles })
        if tile then return tile end
      end
    end
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
  return record and fits_registers(record, arch) and fits_blocks(record, arch) or false
end

--- Tiles for `key` on one architecture that fit and should not spill, those with the least predicted time first; of the same name only the
-- best: { tile =, how =, cost = } each.
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

return model
