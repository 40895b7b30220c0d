-- The formats of `list`: each is checked as its reader would read it.
local harness = require("gen.tests.harness")
local list = require("gen.list")
local records_of = require("gen.records")
local specs = require("gen.tests.specs")

local function records() return assert(specs.open(specs.with({}))).records end

harness.case("names: one a line", function()
  harness.is(list.names(records()), "bwd_f32_d128_causal__cpu_x86_64_v3_m64n96\nbwd_f32_d64_causal__cpu_x86_64_v3_m64n96\n"
    .. "fwd_f32_d128_causal__cpu_x86_64_v3_m64n96\nfwd_f32_d64_causal__cpu_x86_64_v3_m64n96\n")
end)

harness.case("bzl: SPEC, VARIANTS, every field that Bazel reads", function()
  local text = list.bzl(records(), "spec/x.lua")
  harness.has(text, 'SPEC = "spec/x.lua"\n', "VARIANTS = [\n",
    '{"name": "fwd_f32_d64_causal__cpu_x86_64_v3_m64n96", "pass": "fwd", '
    .. '"dtype": "f32", "head_dim": 64, "mask": "causal", "family": "cpu", "tile_m": 64, "tile_n": 96, "tile_from": "spec", '
    .. '"file": "fwd_f32_d64_causal__cpu_x86_64_v3_m64n96.c", "isa": "x86_64_v3", "arch": "x86_64", ')
  local _, rows = text:gsub('\n    {"name": ', "")
  harness.is(rows, 4)
  harness.is(text:sub(-3), "\n]\n")
end)

-- JSON's values are Lua's once the brackets and colons are: enough to read back what list.json writes.
harness.case("json: reads back as the records", function()
  local text = list.json(records())
  local read = assert(load("return " .. text:gsub("%[", "{"):gsub("%]", "}"):gsub('("[%w_]+"): ', "[%1] = ")))()
  harness.is(#read, 4)
  for i, record in ipairs(records()) do
    harness.is(read[i].name, record.name)
    harness.is(read[i].head_dim, record.head_dim)
    harness.is(read[i].copts[1], record.copts[1])
  end
end)

harness.case("table: aligned columns, no trailing blanks", function()
  local text = list.table(records())
  local column
  for line in text:gmatch("[^\n]+") do
    column = column or line:find("family", 1, true)
    harness.is(line:sub(column, column), line:match("^%S+%s+(%S)"))
    harness.yes(not line:find(" $"))
  end
  harness.has(text, "64 x 96", "a tile", "10")
end)

harness.case("the name of a spec cannot end a string or a comment", function()
  local path = harness.file(specs.with({}), [[ "]* $x.lua]])
  local loaded = assert(records_of(path))
  harness.yes(not loaded.name:find('["*$ %]]'), loaded.name)
end)
