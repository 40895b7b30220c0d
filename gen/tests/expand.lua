-- Expansion: sorted, unique, the same for the same meaning, one record owning all names; narrowing, exclusion and
-- override.
local harness = require("gen.tests.harness")
local list = require("gen.list")
local records_of = require("gen.records")
local specs = require("gen.tests.specs")

local with = specs.with

local function open(changes)
  local loaded, why = specs.open(with(changes))
  harness.yes(loaded, why)
  return loaded
end

local function default()
  local loaded, why = records_of(harness.root .. "/spec/attention.lua")
  harness.yes(loaded, why)
  return loaded
end

harness.case("the small spec makes four variants, sorted", function()
  harness.is(table.concat(specs.names(open({})), "\n"), [[
bwd_f32_d128_causal__cpu_x86_64_v3_m64n96
bwd_f32_d64_causal__cpu_x86_64_v3_m64n96
fwd_f32_d128_causal__cpu_x86_64_v3_m64n96
fwd_f32_d64_causal__cpu_x86_64_v3_m64n96]])
end)

harness.case("a record owns all its names", function()
  local record = open({}).records[4]
  local name = "fwd_f32_d64_causal__cpu_x86_64_v3_m64n96"
  harness.is(record.name, name)
  harness.is(record.symbol, "glint_" .. name)
  harness.is(record.file, name .. ".c")
  harness.is(record.test, "//tests:" .. name)
  harness.is(record.pass .. record.dtype .. record.mask .. record.family, "fwdf32causalcpu")
  harness.is(record.head_dim, 64)
  harness.is(record.causal, true)
  harness.is(record.tile_m .. "x" .. record.tile_n, "64x96")
  harness.is(record.lanes .. " " .. record.micro_rows .. " " .. record.micro_vecs, "8 6 2")
  harness.is(record.line, 10)
end)

harness.case("names of the default spec are unique, sorted bytewise, and parts of them say what they are", function()
  local last = ""
  for _, record in ipairs(default().records) do
    harness.yes(last < record.name, last .. " is not before " .. record.name)
    harness.yes(record.name:find("^%a%a[dc]_[%w]+_d%d+_%a+__[%w_]+$"), record.name)
    harness.yes(#record.symbol < 120)
    last = record.name
  end
end)

harness.case("rows of one key are contiguous", function()
  local seen, current = {}, nil
  for _, record in ipairs(default().records) do
    local key = record.name:match("^(.-)__")
    if key ~= current then
      harness.yes(not seen[key], key .. " is in two places")
      seen[key], current = true, key
    end
  end
end)

harness.case("comments and order of the spec change nothing", function()
  local one = with({ [2] = '  passes = { "bwd", "fwd" },', [3] = '  dtypes = { "f32", "f16" },',
    [8] = 'isas = { "x86_64", "x86_64_v3" },',
    [10] = "        fwd = { { m = 64, n = 96 }, { m = 32, n = 48 } },", [15] = "", [16] = "" })
  local other = [[
-- another order
return { families = { cpu = { tiles = { bwd = { { n = 96; m = 64 } };
  fwd = { { m = 32, n = 48 }, { m = 0x40, n = 96 } } }, isas = { "x86_64_v3", "x86_64" } } },
  masks = { "causal" }, head_dims = { 128, 64 }, dtypes = { "f16", "f32" }, passes = { "fwd", "bwd" } }]]
  local a, b = assert(specs.open(one)), assert(specs.open(other))
  for _, format in ipairs({ "names", "bzl", "json" }) do
    harness.is(list[format](a.records, "spec"), list[format](b.records, "spec"), format)
  end
end)

harness.case("the same spec, opened ten times, is the same bytes", function()
  local first = list.bzl(default().records, "spec")
  for _ = 1, 10 do harness.is(list.bzl(default().records, "spec"), first) end
end)

harness.case("a head dim's own tiles replace the list", function()
  local tiles = "fwd = { { m = 64, n = 96 }, [128] = { { m = 32, n = 48 }, { m = 16, n = 6 } } },"
  local names = table.concat(specs.names(open({ [10] = tiles })), " ")
  harness.has(names, "fwd_f32_d128_causal__cpu_x86_64_v3_m32n48", "fwd_f32_d128_causal__cpu_x86_64_v3_m16n6",
    "fwd_f32_d64_causal__cpu_x86_64_v3_m64n96")
  harness.yes(not names:find("fwd_f32_d128_causal__cpu_x86_64_v3_m64n96", 1, true))
end)

harness.case("a family may do less than the spec", function()
  local loaded = open({ [8] = '      isas = { "x86_64_v3" }, head_dims = { 128 }, passes = { "fwd" },' })
  harness.is(table.concat(specs.names(loaded), " "), "fwd_f32_d128_causal__cpu_x86_64_v3_m64n96")
end)

harness.case("tiles for some ISAs only", function()
  local loaded = open({ [8] = '      isas = { "x86_64_v3", "x86_64_v4" },',
    [10] = 'fwd = { { m = 64, n = 96, isas = { "x86_64_v4" } }, { m = 32, n = 96, isas = { "x86_64_v3", "aarch64" } } },' })
  harness.is(#loaded.records, 8)
  harness.has(table.concat(specs.names(loaded), " "), "fwd_f32_d64_causal__cpu_x86_64_v4_m64n96",
    "fwd_f32_d64_causal__cpu_x86_64_v3_m32n96")
end)

harness.case("exclude takes away what it matches, with a list of values", function()
  local loaded = open({ [15] = '  exclude = { { pass = "bwd", head_dim = { 128, 64 }, reason = "x" } },' })
  harness.is(#loaded.records, 2)
  harness.is(#loaded.excluded, 2)
end)

harness.case("exclude of one ISA", function()
  local loaded = open({ [8] = '      isas = { "x86_64_v3", "aarch64" },',
    [15] = '  exclude = { { family = "cpu", isa = "aarch64", pass = "bwd", reason = "x" } },' })
  harness.is(#loaded.records, 6)
end)

-- No tile of head dim 1024 fits into the shared memory of sm_86.
local TOO_LARGE = { [4] = "  head_dims = { 64, 1024 },", [7] = "    sm80 = {", [8] = "      archs = { 86 },", [9] = "", [10] = "", [11] = "",
  [12] = "" }

harness.case("exclude says a hole where there is no tile to exclude", function()
  local rule = { [15] = '  exclude = { { family = "sm80", head_dim = 1024, reason = "x" } },' }
  local loaded, why = specs.open(with(rule, TOO_LARGE))
  harness.yes(loaded, why)
  harness.is(#loaded.holes, 2)
  harness.is(#loaded.excluded, 0)
  for _, record in ipairs(loaded.records) do harness.is(record.head_dim, 64) end
end)

specs.refuses("an exclusion of a certain tile is no word about a hole",
  with({ [2] = '  passes = { "fwd" },', [15] = '  exclude = { { family = "sm80", head_dim = 1024, m = 64, reason = "x" } },' }, TOO_LARGE),
  { "7: families.sm80", "such as fwd_f32_d1024_causal", '{ family = "sm80", head_dim = 1024, reason = "sm80 has no kernel for it" },' },
  { "15: exclude[1]", "excludes nothing" })

harness.case("override sets tile fields, and the name follows", function()
  local rule = '{ family = "cpu", head_dim = 128, pass = "fwd", set = { n = 48 }, reason = "x" }'
  local loaded = open({ [16] = "  override = { " .. rule .. " }," })
  harness.has(table.concat(specs.names(loaded), " "), "fwd_f32_d128_causal__cpu_x86_64_v3_m64n48",
    "bwd_f32_d128_causal__cpu_x86_64_v3_m64n96")
  harness.is(#loaded.records, 4)
end)

harness.case("overrides of different fields add up; of the same value agree", function()
  local loaded = open({ [16] = '  override = { { family = "cpu", pass = "fwd", set = { n = 48 }, reason = "x" },'
    .. '{ family = "cpu", pass = "fwd", head_dim = 64, set = { m = 32, n = 48 }, reason = "y" } },' })
  harness.has(table.concat(specs.names(loaded), " "), "fwd_f32_d64_causal__cpu_x86_64_v3_m32n48",
    "fwd_f32_d128_causal__cpu_x86_64_v3_m64n48")
end)

harness.case("adding head dim 80 adds it everywhere, and changes no other record", function()
  local before, after = open({}), open({ [4] = "  head_dims = { 64, 80, 128 }," })
  local kept = {}
  for _, record in ipairs(after.records) do
    if record.head_dim ~= 80 then kept[#kept + 1] = record end
  end
  harness.is(#after.records, #before.records + 2)
  harness.is(list.bzl(kept, "spec"), list.bzl(before.records, "spec"))
end)

harness.case("tiles that nothing uses are told, not refused", function()
  local loaded = open({ [2] = '  passes = { "fwd" },', [10] = "fwd = { { m = 64, n = 96 }, [256] = { { m = 32, n = 48 } } }," })
  harness.is(#loaded.unused, 2)
  harness.is(loaded.unused[1].path, "families.cpu.tiles.bwd[1]")
  harness.is(loaded.unused[2].path, "families.cpu.tiles.fwd[256][1]")
  harness.is(loaded.unused[2].line, 10)
end)

harness.case("exclude's and override's order does not matter", function()
  local rules = { '{ family = "cpu", pass = "fwd", set = { n = 48 }, reason = "x" }',
    '{ family = "cpu", head_dim = 64, set = { m = 32 }, reason = "y" }' }
  local a = open({ [16] = "  override = { " .. rules[1] .. ", " .. rules[2] .. " }," })
  local b = open({ [16] = "  override = { " .. rules[2] .. ", " .. rules[1] .. " }," })
  harness.is(list.json(a.records), list.json(b.records))
end)

harness.case("the specs of this repository are right", function()
  for _, name in ipairs({ "spec/attention", "spec/full", "spec/minimal", "spec/orin", "examples/transformers/spec" }) do
    local loaded, why = records_of(harness.root .. "/" .. name .. ".lua")
    harness.yes(loaded, why)
    harness.is(loaded.name:sub(-#name - 4), name .. ".lua")
  end
end)
