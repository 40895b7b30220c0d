-- All that the generator says of every drawn spec, and of the specs of tests/specs: what templates see, rows of tables,
-- lists, explanations. A line for each target and pass, and for each file, has a sum of these texts, so that a number,
-- a word or a rule that moves is seen in review. `GLINT_VALUES=FILE lua5.4 gen/tests/run.lua values` writes the texts
-- themselves, to be compared with another checkout's.
local axes = require("gen.axes")
local draw = require("gen.tests.draw")
local emit = require("gen.emit")
local explain = require("gen.explain")
local harness = require("gen.tests.harness")
local list = require("gen.list")
local records_of = require("gen.records")
local registry = require("gen.registry")
local specs = require("gen.tests.specs")
local takes = require("gen.takes")

local SPECS = { "amx", "bias", "cache", "dot", "intervals", "odd", "onnx", "parts", "sm90a", "step", "trees", "triangle" }

-- A value, with all that is in it.
local function plain(value)
  if type(value) ~= "table" then return tostring(value) end
  local parts, keys = {}, {}
  for key in pairs(value) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for i, key in ipairs(keys) do parts[i] = tostring(key) .. " = " .. plain(value[key]) end
  return "{ " .. table.concat(parts, ", ") .. " }"
end

-- What is said of a spec that was read, but for where the file is.
local function said(loaded)
  local parts = { emit.table(loaded.records, "spec"), list.names(loaded.records), list.bzl(loaded.records, "spec"),
    list.json(loaded.records), list.table(loaded.records), takes.matrix(loaded.records), explain.summary(loaded) }
  for i, record in ipairs(loaded.records) do
    local family = registry.get(record.family)
    parts[#parts + 1] = plain(emit.values(record, "spec"))
    parts[#parts + 1] = axes.sentence(record)
    parts[#parts + 1] = plain(family.describe(record))
    parts[#parts + 1] = explain.variant(loaded, record.name)
    if i == 1 then parts[#parts + 1] = select(2, explain.variant(loaded, record.name .. "0")) end
  end
  local path = loaded.path:gsub("%p", "%%%0")
  return (table.concat(parts, "\n"):gsub(path, "spec"):gsub("lua_%w+%.lua", "spec"))
end

local texts, order = {}, {}
local function add(title, of)
  if not texts[title] then
    order[#order + 1] = title
    texts[title] = {}
  end
  table.insert(texts[title], of)
end

harness.case("what is said of specs is as it was", function()
  for seed = 1, 2 do
    for number, row in ipairs((draw.rows(seed))) do
      row.max_logit = not row.target:find("^sm90a") and number % 2 == 0
      local loaded, why = specs.open(draw.spec(row))
      add(("%s %s"):format(row.target, row.pass), loaded and said(loaded) or why)
    end
  end
  for _, name in ipairs(SPECS) do
    local loaded, why = records_of(("%s/tests/specs/%s.lua"):format(harness.root, name))
    add(name .. ".lua", loaded and said(loaded) or why)
  end
  table.sort(order)
  local whole = os.getenv("GLINT_VALUES") and assert(io.open(os.getenv("GLINT_VALUES"), "w"))
  for _, title in ipairs(order) do
    local all = table.concat(texts[title], "\n")
    if whole then whole:write("==== ", title, "\n", all, "\n") end
    harness.has(("%s: %d specs, %d bytes, sum %s"):format(title, #texts[title], #all, harness.sum_of(all)), title)
  end
  if whole then whole:close() end
end)
