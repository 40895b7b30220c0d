-- drawn_test.lua SEED COUNT NVCC FLAG...: of the specs that the seed draws, compiles COUNT kernels for GPUs, of each
-- class as many as of any other while there are some. None may use local memory, and no products may wait for one
-- another.
package.path = "./?.lua"
local architectures = require("gen.archs")
local draw = require("gen.tests.draw")
local harness = require("gen.tests.harness")
local ptxas = dofile("tools/ptxas.lua")
local records_of = require("gen.records")
local text = require("gen.text")

local seed, count, nvcc = tonumber(arg[1]), tonumber(arg[2]), table.concat(arg, " ", 3)
-- The three classes of shared memory and three passes of sm80, two passes of sm90a, and some of two warps that share
-- columns and of more zeros than whole fragments need.
local LEAST_CLASSES = 16

local function class_of(record)
  local halves = record.d_split == 2 and ", halves" or ""
  local zeros = record.pass ~= "dec" and record.padded_dim > (record.head_dim + 15) // 16 * 16 and ", zeros" or ""
  return ("%s %s, %d KiB%s%s"):format(record.family, record.pass, architectures.get(record.archs[1]).block_kib, halves, zeros)
end

-- The records of the seed's specs for GPUs, by class: what is likely to go wrong together. And each one's spec.
local function classes()
  local names, records, spec_of = {}, {}, {}
  for _, row in ipairs(draw.rows(seed)) do
    local spec = not row.target:find("^cpu") and harness.file(draw.spec(row))
    for _, record in ipairs(spec and assert(records_of(spec)).records or {}) do
      local class = class_of(record)
      if not records[class] then names[#names + 1], records[class] = class, {} end
      table.insert(records[class], record)
      spec_of[record] = spec
    end
  end
  table.sort(names)
  return names, records, spec_of
end

-- Compiles a record; says what is wrong.
local function compile(spec, record)
  local source, log = harness.file(nil, ".cu"), harness.file(nil, ".log")
  local status, _, why = harness.glint("emit", "--spec", spec, "--variant", record.name, "--out", source)
  harness.is(status, 0, why)
  local done = os.execute(("%s -arch=sm_%s -o /dev/null %s >%s 2>&1"):format(nvcc, record.archs[1], source, log))
  local said = harness.read(log)
  harness.yes(done, said)
  local kernels, suffixes, wanted = ptxas.kernels(said), {}, 0
  for _, launch in ipairs(record.launches) do -- one kernel may be launched for several kinds of rows
    wanted = wanted + (suffixes[launch.suffix] and 0 or 1)
    suffixes[launch.suffix] = true
  end
  harness.yes(#kernels >= wanted, said)
  harness.is(#ptxas.serialised(said), 0, said)
  harness.is(table.concat(ptxas.complaints(kernels), "\n"), "", record.name)
end

local names, records, spec_of = classes()
harness.case("every class is drawn", function() harness.yes(#names >= LEAST_CLASSES, table.concat(names, "; ")) end)

local left = count
for i = 1, math.huge do
  local before = left
  for _, class in ipairs(names) do
    local record = records[class][i]
    if record and left > 0 then
      left = left - 1
      local took = #record.takes > 0 and " that take " .. text.words(record.takes, "and") or ""
      harness.case(("%s: kernels of %s for sm_%s%s, without spills"):format(class, record.name, record.archs[1], took),
        function() compile(spec_of[record], record) end)
    end
  end
  if left == before then break end
end

-- Kernels that spilled a few bytes once, of each spec those whose names have the text, whatever the seed.
local SPILLED = {
  { "bwd", [[return { passes = { "fwd", "bwd" }, dtypes = { "bf16" }, head_dims = { 128 }, masks = { "band" },
    families = { sm90a = { archs = { "90a" }, device_lengths = true, device_ragged = true } } }]] },
  { "interval_softcap", [[return { passes = { "fwd" }, dtypes = { "bf16" }, head_dims = { 32 }, masks = { "interval" }, softcaps = { "softcap" },
    families = { sm90a = { archs = { "90a" } } } }]] },
  { "_step_", [[return { passes = { "fwd" }, dtypes = { "bf16" }, head_dims = { 128 }, masks = { "causal" },
    families = { sm80 = { archs = { 120 }, step = true } } }]] },
  { "_step_", [[return { passes = { "fwd" }, dtypes = { "bf16" }, head_dims = { 128 }, masks = { "tree" }, softcaps = { "softcap" },
    families = { sm80 = { archs = { 120 }, step = true } } }]] },
  { "band_softcap", [[return { passes = { "fwd" }, dtypes = { "bf16" }, head_dims = { 64 }, masks = { "band" }, softcaps = { "softcap" },
    families = { sm80 = { archs = { 90 }, device_lengths = true, device_ragged = true, max_logit = true } } }]] },
  { "_step_", [[return { passes = { "fwd" }, dtypes = { "bf16" }, head_dims = { 128 }, masks = { "interval", "tree" },
    families = { sm80 = { archs = { 100 }, step = true } } }]] },
  { "_step_", [[return { passes = { "fwd" }, dtypes = { "bf16" }, head_dims = { 256 }, masks = { "tree" },
    families = { sm80 = { archs = { 90 }, step = true } } }]] },
  { "_step_", [[return { passes = { "fwd" }, dtypes = { "bf16" }, kv_dtypes = { "e4m3" }, head_dims = { 128 }, masks = { "causal" },
    families = { sm90a = { archs = { "90a" }, step = true } } }]] },
}
for _, spilled in ipairs(SPILLED) do
  local name, spec = spilled[1], harness.file(spilled[2])
  local found = 0
  for _, record in ipairs(assert(records_of(spec)).records) do
    if record.name:find(name, 1, true) then
      found = found + 1
      harness.case(("kernels of %s, which spilled once, without spills"):format(record.name), function() compile(spec, record) end)
    end
  end
  harness.case(("there are kernels named %s"):format(name), function() harness.yes(found > 0, "none") end)
end
harness.case("as many as were asked for", function() harness.yes(left <= 0, ("%d too few"):format(left)) end)
harness.finish()
