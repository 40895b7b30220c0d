-- The `cpu` family: C with vector extensions, one object a variant and ISA. This file holds what a spec may say about
-- it, its limits with their arithmetic, and what a variant of it is. It must not mention another family. gen/README.md
-- says what each part is for.
local axes = require("gen.axes")
local schema = require("gen.schema")
local text = require("gen.text")

local KIB = 1024
local TILE_LIMIT = 1024 * KIB -- a tile's working set stays inside a second-level cache of today's cores
local DEC_BLOCK, DEC_ROWS = 32, 4 -- of lib/cpu/decode.h: keys that all rows walk over together, rows that are worked on together
local L1, L2 = 32 * KIB, 512 * KIB -- for explain: the smallest caches that an x86-64-v3 core has

-- lanes: 32-bit floats in a vector; registers: vector registers; rows x vecs: the register tile of the micro-kernel,
-- vectors of queries by rows of keys (or head_dim). 6 rows keep the FMA pipes full with latency 4 on two ports; vecs
-- fills the register file. dtypes, kv_dtypes, passes: those that it has kernels for, when not all. products: the
-- header of lib/cpu whose products of bf16 kernels take, with matrices in tiles of lib/cpu/tiles.h; without it they
-- are float32's. few: queries up to which a row split over the keys is taken, by dtype: the last number at which it is
-- not slower than a tile (few_queries in lib/choose.c). narrow: at most so many where head_dim is below 64.
local ISAS = {
  x86_64 = { lanes = 4, registers = 16, rows = 6, vecs = 2, arch = "x86_64", copts = { "-march=x86-64" },
    few = { f32 = 32, bf16 = 32, f16 = 8 },
    what = "baseline x86-64 (SSE2)" },
  x86_64_v3 = { lanes = 8, registers = 16, rows = 6, vecs = 2, arch = "x86_64", copts = { "-march=x86-64-v3" },
    few = { f32 = 10, bf16 = 12, f16 = 12 },
    what = "x86-64-v3 (AVX2, FMA, F16C)" },
  x86_64_v4 = { lanes = 16, registers = 32, rows = 6, vecs = 4, arch = "x86_64",
    few = { f32 = 12, bf16 = 20, f16 = 20 }, narrow = 10, copts = { "-march=x86-64-v4" }, what = "x86-64-v4 (AVX-512)" },
  x86_64_bf16 = { lanes = 16, registers = 32, rows = 6, vecs = 4, arch = "x86_64", dtypes = { "bf16" }, kv_dtypes = { "same" },
    passes = { "fwd", "bwd" }, products = "dot",
    copts = { "-march=x86-64-v4", "-mavx512bf16" }, what = "AVX-512 BF16 (vdpbf16ps)" },
  x86_64_amx = { lanes = 16, registers = 32, rows = 6, vecs = 4, arch = "x86_64", dtypes = { "bf16" }, kv_dtypes = { "same" },
    products = "amx", few = { bf16 = 9 }, narrow = 8,
    copts = { "-march=x86-64-v4", "-mavx512bf16" }, what = "AMX-BF16 tiles, softmax in AVX-512" },
  aarch64 = { lanes = 4, registers = 32, rows = 6, vecs = 4, arch = "aarch64",
    few = { f32 = 8, bf16 = 8, f16 = 8 }, copts = { "-march=armv8-a", "-mno-outline-atomics" }, what = "AArch64 (Advanced SIMD)" },
}
local ISA_NAMES = text.sorted_keys(ISAS)

local isa_list = schema.list(schema.choice(ISA_NAMES))

local PANEL, STEP = 32, 32 -- of lib/cpu/tiles.h: queries that are worked on together, terms of a tile product
local BLOCK = 64 -- of lib/cpu/cpu.h: keys whose scores are made together, forward
local AMX_DEC_PANEL = 8 -- of lib/cpu/amx_decode.h: rows that are worked on together

-- The same in tiles, where what is packed is bf16, in whole steps of head_dim.
local function tiles_working_set(record)
  local m, n, d = record.m, record.n, (record.head_dim + STEP - 1) // STEP * STEP
  local parts = { { "Q", 2 * m * d }, { "O", 4 * m * d }, { "S of a block", 4 * PANEL * BLOCK },
    { "P of a panel", 2 * PANEL * n }, { "K", 2 * n * d }, { "V", 2 * n * d } }
  if record.pass == "bwd" then
    parts = { { "Q and dO", 8 * m * d }, { "dQ", 4 * m * d }, { "S and dP of a panel", 8 * PANEL * n }, { "P and dS", 4 * m * n },
      { "K and V", 6 * n * d }, { "dK and dV", 8 * n * d } }
  end
  if record.pass == "dec" then
    -- Of K and V, as they are stored, a tile's rows.
    local rows = AMX_DEC_PANEL
    parts = { { "Q", 4 * m * d }, { "O of a chunk", 4 * m * d }, { "O", 4 * m * d }, { "S of a panel", 4 * rows * n }, { "P of a panel", 8 * rows * n },
      { "rows of K", 2 * DEC_BLOCK * d }, { "rows of V", 2 * DEC_BLOCK * d } }
  end
  local total, shown = 0, {}
  for i, part in ipairs(parts) do
    total = total + part[2]
    shown[i] = ("%s %d"):format(part[1], part[2])
  end
  return total, table.concat(shown, " + ")
end

local function listed(list, value) return list == nil or text.contains(list, value) end

local cpu = {
  name = "cpu",
  what = "C with vector extensions, chosen at run time by what the CPU has",
  backend = { header = "lib/cpu/cpu.h" },
  extension = "c",
  templates = { fwd = "cpu_fwd.c.lua", bwd = "cpu_bwd.c.lua", dec = "cpu_dec.c.lua" },
  fields = { isas = isa_list, max_logit = schema.flag() },
  passed = { "max_logit" },
  required = { "isas" },
  target_field = "isas",
  all_targets = ISA_NAMES,
  tile_fields = {
    m = schema.integer(8, 512, 8),    -- queries a tile; dec: of all heads that share a key head
    n = schema.integer(6, 1024),      -- keys a tile; dec: a chunk
    queries_up_to = schema.integer(1, 1 << 30), -- dec: how many queries it is taken for
    rows = schema.integer(1, 16),     -- rows of the micro-kernel, when not the ISA's own
    vecs = schema.integer(1, 8),      -- vectors of the micro-kernel, when not the ISA's own
    isas = isa_list,                  -- only for these ISAs
    max_logit = schema.flag(),        -- fwd and dec: writes the largest logit of a head, where a problem asks for it
  },
  match_fields = { isa = schema.choice(ISA_NAMES) },
  -- Fields of a record beside those that every family has, in the order of `list`.
  listed = { "isa", "arch", "lanes", "micro_rows", "micro_vecs", "copts" },
}

--- C of what runs the kernels of `records`, whose indexes are glint_variant.kernel. The core links it without any, too.
function cpu.backend.tables(records)
  local declarations, cases = {}, {}
  for i, record in ipairs(records) do
    for phase, suffix in ipairs(record.pass == "fwd" and { "" } or { "", "_then" }) do
      declarations[#declarations + 1] = ("glint_cpu_phase_fn %s%s;\n"):format(record.symbol, suffix)
      cases[#cases + 1] = ("    case %d: %s%s(call, scratch, task); return;\n"):format(2 * (i - 1) + phase - 1, record.symbol, suffix)
    end
  end
  return ([[

%s
void glint_cpu_run_task(uint32_t kernel, uint32_t phase, const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    (void)call, (void)scratch, (void)task;
    switch (GLINT_CPU_PHASES * kernel + phase) {
%s    default: return;
    }
}
]]):format(table.concat(declarations), table.concat(cases))
end

--- The ISAs of a spec; with `key` those that have kernels for it. Kernels whose products are made by tiles read no
-- intervals and add nothing to scores. ALiBi knows no tree.
function cpu.targets(config, key)
  local targets = {}
  if key and key.mask and axes.field(key, "mask", "tree_bits") and axes.field(key, "bias", "biased") ~= axes.field(key, "bias", "bias_tensor") then
    return targets
  end
  for _, isa in ipairs(config.isas) do
    local of = ISAS[isa]
    if not key or listed(of.dtypes, key.dtype) and listed(of.kv_dtypes, key.kv_dtype) and listed(of.passes, key.pass) and
      not (of.products and (axes.field(key, "mask", "intervals") or axes.field(key, "bias", "biased"))) then
      targets[#targets + 1] = isa
    end
  end
  return targets
end

function cpu.target_name(isa) return isa end

--- One variant for each ISA of `targets` that the tile does not leave out.
function cpu.variants(targets, tile)
  local made = {}
  for _, isa in ipairs(targets) do
    if not tile.isas or text.contains(tile.isas, isa) then made[#made + 1] = { isa = isa } end
  end
  return made
end

--- Where products are made by tiles the kernels are others.
function cpu.template(record)
  return record.products and ("cpu_%s_%s.c.lua"):format(record.pass == "dec" and "amx" or "tiles", record.pass) or nil
end

function cpu.covers(target) return { target.isa } end

function cpu.how(record)
  return ("cpu_%s_m%dn%d"):format(record.isa, record.m, record.n)
end

-- Parts of a tile's working set in bytes, all in f32: what a kernel touches between two tiles.
local function working_set(record)
  local m, n, d = record.m, record.n, record.head_dim
  local parts = {
    { "Q tile", m * d }, { "O tile", m * d }, { "S tile", m * n }, { "K tile", n * d }, { "V tile", n * d },
  }
  if record.pass == "bwd" then
    parts = {
      { "Q tile", m * d }, { "dO tile", m * d }, { "dQ tile", m * d }, { "P tile", m * n }, { "dS tile", m * n },
      { "K tile", n * d }, { "V tile", n * d }, { "dK tile", n * d }, { "dV tile", n * d },
    }
  end
  if record.pass == "dec" then
    -- Of K and V, as they are stored, the rows that are used and those that are read ahead.
    local rows = 2 * DEC_BLOCK * d * record.kv_bytes // 4
    parts = { { "Q", m * d }, { "O of a chunk", m * d }, { "O", m * d }, { "S", m * n }, { "rows of K", rows }, { "rows of V", rows } }
  end
  local total, shown = 0, {}
  for i, part in ipairs(parts) do
    total = total + 4 * part[2]
    shown[i] = ("%s %d"):format(part[1], 4 * part[2])
  end
  return total, table.concat(shown, " + ")
end

local function few_of(record)
  local isa = ISAS[record.isa]
  local few = isa.few[record.dtype]
  return record.head_dim < 64 and isa.narrow and math.min(few, isa.narrow) or few
end

--- Fills in everything that follows from the spec's fields. Makes no checks.
function cpu.complete(record)
  local isa = ISAS[record.isa]
  record.lanes, record.arch, record.copts, record.isa_id = isa.lanes, isa.arch, isa.copts, "GLINT_ISA_" .. record.isa:upper()
  record.micro_rows, record.micro_vecs = record.rows or isa.rows, record.vecs or isa.vecs
  record.products = isa.products or false
  record.max_logit = record.pass ~= "bwd" and record.max_logit or false
  record.kv_bytes = record.narrow and 1 or record.dtype_bytes
  record.tile_bytes, record.budget_text = (record.products and tiles_working_set or working_set)(record)
  record.alignment_bytes = record.dtype_bytes
  if record.pass == "dec" then record.queries_up_to = record.queries_up_to or few_of(record) end
end

--- The tile of another head dim's, `line`, made to go with the head dim of `key`: any does, as it is.
function cpu.adapt(line)
  return line
end

--- A tile's name depends on its ISA, which `key` and the tile do not say: no two are the same.
function cpu.how_of(_, tile) return tile end

local function record_of(key, tile, isa)
  local record = { isa = isa, m = tile.m, n = tile.n, rows = tile.rows, vecs = tile.vecs }
  for axis, value in pairs(key) do record[axis] = value end
  axes.fill(record)
  cpu.complete(record)
  local right = true
  cpu.check(record, function() right = false end)
  return right and record or nil
end

--- Whether a tile goes with `key` on the ISA `target`.
function cpu.fits(key, tile, target) return record_of(key, tile, target) ~= nil end

--- Tiles for `key` on the ISA `target` that fit, the one that should be fastest first: { tile =, how =, cost = } each.
-- For each product 1 / m + 1 / n numbers are read anew, from the second-level cache as long as the tile stays in it,
-- and several times as slowly beyond it.
function cpu.candidates(key, target)
  local isa, found = ISAS[target], {}
  if key.pass == "dec" then
    local tile = { m = 32, n = isa.products and 512 or 256 }
    local record = record_of(key, tile, target)
    return { record and { tile = tile, how = cpu.how(record), cost = 1 } }
  end
  if isa.products then
    local first = key.pass == "bwd" and { m = 128, n = 128 } or { m = 64, n = 256 }
    for _, tile in ipairs({ first, { m = 64, n = 256 }, { m = 128, n = 128 }, { m = 256, n = 128 }, { m = 256, n = 64 }, { m = 64, n = 128 },
      { m = 64, n = 512 }, { m = 32, n = 256 }, { m = 32, n = 128 }, { m = 32, n = 64 }, { m = 32, n = 32 } }) do
      local record = record_of(key, tile, target)
      if record and (tile == first or tile.m ~= first.m or tile.n ~= first.n) then found[#found + 1] = { tile = tile, how = cpu.how(record), cost = #found } end
    end
    return found
  end
  local width = isa.lanes * isa.vecs
  for m = width, 192, math.max(width, 32) do
    for _, rows in ipairs({ 1, 2, 4, 8, 16, 24, 32 }) do
      local n = rows * isa.rows
      local record = record_of(key, { m = m, n = n }, target)
      if record then
        local cost = (1 / m + 1 / n) * (record.tile_bytes > L2 and 2 or 1)
        found[#found + 1] = { tile = { m = m, n = n }, how = cpu.how(record), cost = cost }
      end
    end
  end
  table.sort(found, function(a, b)
    if a.cost ~= b.cost then return a.cost < b.cost end
    return a.tile.m * 1000 + a.tile.n < b.tile.m * 1000 + b.tile.n
  end)
  return found
end

--- What the model says of a record, for explain.
function cpu.estimate(record)
  local what = record.pass == "dec" and "chunk" or "tile"
  return ("a %s's working set is %s of a second-level cache of %s"):format(what, text.bytes(record.tile_bytes), text.bytes(L2))
end

-- The multiples of `step` next to `value`.
local function around(value, step)
  local below = value - value % step
  return below == 0 and tostring(step) or ("%d or %d"):format(below, below + step)
end

local function check_decode(record, report)
  local rows = record.products and AMX_DEC_PANEL or DEC_ROWS
  if record.m % rows ~= 0 then report("m", ("%d rows are not whole groups of %d"):format(record.m, rows), around(record.m, rows)) end
  if record.n % DEC_BLOCK ~= 0 then
    report("n", ("%d keys are not whole blocks of %d"):format(record.n, DEC_BLOCK), around(record.n, DEC_BLOCK))
  end
  for _, field in ipairs({ "rows", "vecs" }) do
    if record[field] then report(field, "a tile of dec has no micro-kernel to choose", "leave it out") end
  end
end

local function check_size(record, report)
  if record.tile_bytes > TILE_LIMIT then
    report("tile", ("m = %d, n = %d at head_dim %d needs %s = %d bytes, and the limit is %d"):format(record.m, record.n,
      record.head_dim, record.budget_text, record.tile_bytes, TILE_LIMIT),
      ("a smaller tile, under [%d] if only for this head dim"):format(record.head_dim))
  end
end

local function check_tiles(record, report)
  if record.m % PANEL ~= 0 then
    report("m", ("%d is not a multiple of %d, the queries of two tiles of %s"):format(record.m, PANEL, record.isa), around(record.m, PANEL))
  end
  if record.n % STEP ~= 0 then
    report("n", ("%d is not a multiple of %d, the keys of a tile product of %s"):format(record.n, STEP, record.isa), around(record.n, STEP))
  end
  for _, field in ipairs({ "rows", "vecs" }) do
    if record[field] then report(field, record.isa .. " has no micro-kernel to choose", "leave it out, or move it to a tile with isas of its own") end
  end
  check_size(record, report)
end

--- The limits; report(field, wrong, right) for each that is broken.
function cpu.check(record, report)
  if record.pass == "dec" then return check_decode(record, report) end
  if record.queries_up_to then report("queries_up_to", "only a tile of dec has it", "leave it out, or move the tile to tiles.dec") end
  if record.products then return check_tiles(record, report) end
  local isa = ISAS[record.isa]
  local vecs, rows, width = record.micro_vecs, record.micro_rows, record.micro_vecs * record.lanes
  local used = rows * vecs + vecs + 1
  if used > isa.registers then
    local sum = ("%d x %d accumulators + %d loads + 1 broadcast = %d vector registers"):format(rows, vecs, vecs, used)
    report(record.rows and "rows" or "vecs", ("%s, and %s has %d"):format(sum, record.isa, isa.registers), "fewer rows or vecs")
  end
  if record.m % width ~= 0 then
    report("m", ("%d is not a multiple of %d, the queries of %s's micro-kernel (%d vectors x %d lanes)"):format(record.m, width,
      record.isa, vecs, record.lanes), around(record.m, width))
  end
  if record.n % rows ~= 0 then
    report("n", ("%d is not a multiple of %d, the rows of %s's micro-kernel"):format(record.n, rows, record.isa),
      around(record.n, rows))
  end
  check_size(record, report)
end

--- The fields that the right half of a name says, or nil when it is none of this family's.
function cpu.parse(how)
  local isa, m, n = how:match("^cpu_([%w_]-)_m(%d+)n(%d+)$")
  return isa and { target = isa, m = tonumber(m), n = tonumber(n) }
end

--- Lines for the header of an emitted kernel and for explain.
function cpu.describe(record)
  if record.pass == "dec" then
    return {
      ("ISA: %s."):format(ISAS[record.isa].what),
      ("Split over the keys in chunks of %d, read in %s; taken for up to %d queries%s."):format(record.tile_n,
        record.products and "tiles of 16" or ("blocks of %d"):format(DEC_BLOCK),
        record.queries_up_to, record.causal and ", whatever the mask" or ""),
      ("Rows: %d queries of all heads that share a key head, worked on %d at a time%s."):format(record.tile_m,
        record.products and AMX_DEC_PANEL or DEC_ROWS, record.products and ". Products: bf16, P rounded to it; sums: float32" or ""),
      ("Working set of a chunk: %s."):format(text.bytes(record.tile_bytes)),
    }
  end
  if record.products then
    return {
      ("ISA: %s."):format(ISAS[record.isa].what),
      ("Tile: %d queries x %d keys, in panels of %d queries. Products: bf16, P%s rounded to it; sums: float32."):format(record.tile_m,
        record.tile_n, PANEL, record.pass == "bwd" and " and dS" or ""),
      ("Working set of a tile: %s."):format(text.bytes(record.tile_bytes)),
    }
  end
  return {
    ("ISA: %s."):format(ISAS[record.isa].what),
    ("Tile: %d queries x %d keys. Micro-kernel: %d rows x %d vectors of %d floats."):format(record.tile_m, record.tile_n,
      record.micro_rows, record.micro_vecs, record.lanes),
    ("Working set of a tile: %s in f32."):format(text.bytes(record.tile_bytes)),
  }
end

--- The arithmetic of the budget, for explain.
function cpu.budget(record)
  local function share(cache) return ("%.0f %%"):format(100 * record.tile_bytes / cache) end
  local dec, isa = record.pass == "dec", ISAS[record.isa]
  local caches = ("of a first-level cache of %s: %s; of a second-level cache of %s: %s"):format(text.bytes(L1), share(L1), text.bytes(L2),
    share(L2))
  local bytes = ("working set of a %s, bytes: %s = %d"):format(dec and "chunk" or "tile", record.budget_text, record.tile_bytes)
  if dec and record.products then return { bytes, caches, "tiles: 2 of scores, 2 of K and 4 of Q; then 5 of O, 1 of P and 2 of V, of 8" } end
  if dec then
    local sums = math.max(isa.lanes, 8)
    return { bytes, caches, ("vector registers: %d sums, of scores or of O, of %d"):format(sums, isa.registers) }
  end
  if record.products then return { bytes, ("%s; the limit: %s"):format(caches, text.bytes(TILE_LIMIT)) } end
  return {
    bytes,
    ("%s; the limit: %s"):format(caches, text.bytes(TILE_LIMIT)),
    ("vector registers: %d x %d accumulators + %d loads + 1 broadcast = %d of %d"):format(record.micro_rows, record.micro_vecs,
      record.micro_vecs, record.micro_rows * record.micro_vecs + record.micro_vecs + 1, ISAS[record.isa].registers),
  }
end

--- The budget in a few words, for lists.
function cpu.size(record)
  return text.bytes(record.tile_bytes) .. (record.pass == "dec" and " a chunk" or " a tile")
end

--- A CPU makes a problem of its own of each sequence, so every row takes all; the backward pass has no pages. A query's
-- bits are the same in every problem of a forward row; decode has them for few queries alone.
function cpu.takes(record)
  local forward = record.pass ~= "bwd" or nil
  return { lengths = true, ragged = true, pages = forward, ragged_pages = forward, sinks = true, canonical = record.pass == "fwd" or nil,
    max_logit = record.max_logit or nil }
end

--- The table row's columns that depend on the family.
function cpu.row(record)
  local math = record.products and "GLINT_MATH_BF16" or "GLINT_MATH_NATIVE"
  return { isa = record.isa_id, sm = 0, math = math, queries_up_to = record.queries_up_to, alignment_bytes = record.alignment_bytes }
end

return cpu
