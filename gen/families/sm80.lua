-- The `sm80` family: CUDA C with mma.sync, ldmatrix and cp.async, for every NVIDIA GPU since Ampere. This file holds what a spec
-- may say about it, its limits with their arithmetic, and what a variant of it is. It must not mention another family.
-- gen/README.md says what each part is for.
local gpu = require("gen.gpu")
local schema = require("gen.schema")
local text = require("gen.text")

local KIB = 1024

-- Shared memory that one block may have, by architecture: three classes (CUDA C++ Programming Guide, compute capabilities).
local SMEM_LIMIT = {
  [80] = 163 * KIB, [87] = 163 * KIB,
  [86] = 99 * KIB, [89] = 99 * KIB, [120] = 99 * KIB,
  [90] = 227 * KIB, [100] = 227 * KIB, [110] = 227 * KIB,
}
local ARCHS = text.sorted_keys(SMEM_LIMIT)

local ELEMENT_BYTES = { f32 = 4, f16 = 2, bf16 = 2 }
local WARP_ROWS = 16 -- rows of one mma.m16n8k16: what a warp owns at least
local PAGE = 16      -- head_dim is padded in shared memory to whole mma steps

local arch_list = schema.list(schema.choice(ARCHS))

local sm80 = {
  name = "sm80",
  what = "mma.sync, ldmatrix and cp.async: NVIDIA GPUs since Ampere",
  id = "GLINT_FAMILY_SM80",
  descriptor = "struct glint_gpu_kernel",
  prologue = '#include "lib/params.h"',
  extension = "cu",
  templates = { fwd = "sm80_fwd.cu.lua", bwd = "sm80_bwd.cu.lua" },
  fields = { archs = arch_list },
  required = { "archs" },
  target_field = "archs",
  tile_fields = {
    m = schema.integer(16, 256, 16),                    -- queries a tile
    n = schema.integer(16, 256, 16),                    -- keys a tile
    warps = schema.integer(1, 16),                      -- of a block; each owns whole groups of 16 rows
    stages = schema.integer(1, 4),                      -- tiles of the streamed operands that are in flight
    strategy = schema.choice({ "split", "fused" }),     -- backward only
    math = schema.choice({ "tf32", "tf32x3" }),         -- f32 only: one tf32 product, or three for fp32-grade accuracy
    archs = arch_list,                                  -- only for these architectures
    spills = schema.sentence(),                         -- allows register spills, and says why
  },
  match_fields = {},
  listed = { "archs", "warps", "stages", "strategy", "math", "smem_bytes", "spills" },
}

function sm80.targets(config) return config.archs end

function sm80.target_name(arch) return "sm_" .. arch end

--- One variant a tile, compiled for each of the family's architectures that the tile does not leave out.
function sm80.variants(config, tile)
  local archs = {}
  for _, arch in ipairs(tile.archs or config.archs) do
    if text.contains(config.archs, arch) then archs[#archs + 1] = arch end
  end
  table.sort(archs)
  return #archs > 0 and { { archs = archs } } or {}
end

function sm80.covers(target) return target.archs end

function sm80.how(record)
  local strategy = record.pass == "bwd" and record.strategy .. "_" or ""
  local math = record.math == "tf32x3" and "tf32x3_" or ""
  return ("sm80_%s%sm%dn%d"):format(strategy, math, record.m, record.n)
end

--- The fields that the right half of a name says, or nil when it is none of this family's.
function sm80.parse(how)
  local m, n = how:match("^sm80_[%w_]-m(%d+)n(%d+)$")
  return m and { m = tonumber(m), n = tonumber(n) }
end

-- Parts of a block's shared memory: { what, bytes }.
local function resident(what, rows, record)
  local d, bytes = record.padded_dim, record.dtype_bytes
  return { ("%s %d x %d x %d"):format(what, rows, d, bytes), rows * d * bytes }
end

local function streamed(what, rows, record)
  local d, bytes, stages = record.padded_dim, record.dtype_bytes, record.stages
  return { ("%s %d stages x %d x %d x %d"):format(what, stages, rows, d, bytes), stages * rows * d * bytes }
end

-- LSE and delta, float32, for the queries of a tile.
local function row_numbers(copies, record)
  return { ("LSE, delta %d x 2 x %d x 4"):format(copies, record.m), copies * 2 * record.m * 4 }
end

local function sum(parts)
  local total, shown = 0, {}
  for i, part in ipairs(parts) do
    total, shown[i] = total + part[2], part[1]
  end
  return total, table.concat(shown, " + ")
end

--- Shared memory of each kernel of a variant: a list of { kernel =, bytes =, text = the arithmetic }.
function sm80.smem(record)
  local m, n = record.m, record.n
  local function kernel(name, parts)
    local bytes, shown = sum(parts)
    return { kernel = name, bytes = bytes, text = ("%s = %d"):format(shown, bytes) }
  end
  if record.pass == "fwd" then -- O leaves through Q's room
    return { kernel("fwd", { resident("Q", m, record), streamed("K", n, record), streamed("V", n, record) }) }
  end
  local keys = { resident("K", n, record), resident("V", n, record), streamed("Q", m, record), streamed("dO", m, record),
    row_numbers(record.stages, record) }
  if record.strategy == "fused" then
    keys[#keys + 1] = { ("dS %d x %d x %d"):format(m, n, record.dtype_bytes), m * n * record.dtype_bytes }
    return { kernel("dkdvdq", keys) }
  end
  return { kernel("dkdv", keys), kernel("dq", { resident("Q", m, record), resident("dO", m, record), streamed("K", n, record),
    streamed("V", n, record), row_numbers(1, record) }) }
end

--- Fills in everything that follows from the spec's fields. Makes no checks.
function sm80.complete(record)
  record.warps, record.stages = record.warps or 4, record.stages or 2
  record.strategy = record.strategy or (record.pass == "bwd" and "split" or nil)
  record.math = record.math or (record.dtype == "f32" and "tf32" or nil)
  record.dtype_bytes = ELEMENT_BYTES[record.dtype]
  record.padded_dim = (record.head_dim + PAGE - 1) // PAGE * PAGE
  record.threads = 32 * record.warps
  record.smem, record.smem_bytes = sm80.smem(record), 0
  for _, kernel in ipairs(record.smem) do record.smem_bytes = math.max(record.smem_bytes, kernel.bytes) end
  record.alignment_bytes = 16
end

local function check_fields(record, report)
  if record.strategy and record.pass ~= "bwd" then
    report("strategy", "a forward tile has no strategy", "leave it out, or move the tile to tiles.bwd")
  end
  if record.math and record.dtype ~= "f32" then
    report("math", record.dtype .. " has one kind of product", 'leave it out, or give the tile dtypes = { "f32" }')
  end
end

--- The limits; report(field, wrong, right) for each that is broken.
function sm80.check(record, report)
  check_fields(record, report)
  local rows = WARP_ROWS * record.warps
  if record.m % rows ~= 0 then
    report("m", ("%d queries are not whole groups of %d = %d warps x %d rows"):format(record.m, rows, record.warps, WARP_ROWS),
      ("a multiple of %d, or other warps"):format(rows))
  end
  for _, kernel in ipairs(record.smem) do
    for _, arch in ipairs(record.archs) do
      if kernel.bytes > SMEM_LIMIT[arch] then
        report("tile", ("at head_dim %d the %s kernel needs %s bytes of shared memory, and a block on sm_%d has %d"):format(
          record.head_dim, kernel.kernel, kernel.text, arch, SMEM_LIMIT[arch]),
          "a smaller m or n, fewer stages, or archs = { ... } without it")
      end
    end
  end
end

--- Lines for the header of an emitted kernel and for explain.
function sm80.describe(record)
  local archs = {}
  for i, arch in ipairs(record.archs) do archs[i] = sm80.target_name(arch) end
  local how = record.strategy and record.strategy .. ", " or ""
  if record.math then how = how .. record.math .. " products, " end
  return {
    ("For %s."):format(table.concat(archs, ", ")),
    ("Tile: %d queries x %d keys; %s%d warps, %d stages."):format(record.tile_m, record.tile_n, how, record.warps, record.stages),
    ("Shared memory of a block: %d bytes."):format(record.smem_bytes),
  }
end

--- The arithmetic of the budget, for explain.
function sm80.budget(record)
  local lines = {}
  for i, kernel in ipairs(record.smem) do lines[i] = ("shared memory of %s, bytes: %s"):format(kernel.kernel, kernel.text) end
  for _, arch in ipairs(record.archs) do
    local limit = SMEM_LIMIT[arch]
    lines[#lines + 1] = ("sm_%d: %d of %d bytes, %.0f %%"):format(arch, record.smem_bytes, limit, 100 * record.smem_bytes / limit)
  end
  return lines
end

--- The budget in a few words, for lists.
function sm80.size(record)
  return text.bytes(record.smem_bytes) .. " shared"
end

--- The table row's columns that depend on the family.
function sm80.row(record)
  return { isa = 0, sm = record.archs[1], alignment_bytes = record.alignment_bytes }
end

sm80.define = gpu.define

return sm80
