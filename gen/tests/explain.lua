-- `explain` and `check`: why a variant exists, why another does not and what would make it.
local explain = require("gen.explain")
local harness = require("gen.tests.harness")
local specs = require("gen.tests.specs")

local NAME = "fwd_f32_d64_causal__cpu_x86_64_v3_m64n96"

local function open(changes)
  local loaded, why = specs.open(specs.with(changes or {}))
  harness.yes(loaded, why)
  loaded.path = "spec"
  return loaded
end

harness.case("a variant: its lines, tile, budget, names", function()
  local rule = '{ family = "cpu", pass = "bwd", set = { n = 48 }, reason = "fits" }'
  local text = explain.variant(open({ [16] = "  override = { " .. rule .. " }," }), NAME)
  harness.has(text, NAME .. "\n", 'spec:2: passes lists "fwd"', 'spec:3: dtypes lists "f32"', "spec:4: head_dims lists 64",
    'spec:5: masks lists "causal"', "spec:10: families.cpu.tiles.fwd[1]", "Tile: 64 queries x 96 keys", "= 106496", "325 %",
    "6 x 2 accumulators + 2 loads + 1 broadcast = 15 of 16", "symbol glint_" .. NAME, "//tests:" .. NAME)
  harness.yes(not text:find("override", 1, true))
end)

harness.case("decode: rows of several heads, chunks of keys, no micro-kernel", function()
  local name = "dec_f32_d64_causal__cpu_x86_64_v3_m32n256"
  local text = explain.variant(open({ [2] = '  passes = { "fwd", "bwd", "dec" },' }), name)
  harness.has(text, 'spec:2: passes lists "dec"', "in chunks of 256", "up to 10 queries, whatever the mask", "32 queries of all heads",
    "O 8192 + S 32768 + rows of K 16384 + rows of V 16384 = 90112", "8 sums, of scores or of O, of 16", "test //tests:" .. name)
  harness.yes(not text:find("Micro", 1, true))
end)

harness.case("an override is named with its reason", function()
  local loaded = open({ [16] = '  override = { { family = "cpu", set = { n = 48 }, reason = "fits better" } },' })
  harness.has(explain.variant(loaded, "fwd_f32_d64_causal__cpu_x86_64_v3_m64n48"), "spec:16: override[1]: fits better")
end)

harness.case("a family's own list is named when it narrows", function()
  local loaded = open({ [8] = 'isas = { "x86_64_v3" },\nhead_dims = { 64 },' })
  harness.has(explain.variant(loaded, NAME), "spec:9: families.cpu.head_dims lists 64")
end)

harness.case("the fields that a template sees", function()
  local text = explain.variant(open(), NAME, true)
  harness.has(text, "head_dim = 64\n", 'isa = "x86_64_v3"\n', "causal = true\n", 'copts = { "-march=x86-64-v3" }\n',
    "tile_m = 64\n")
  harness.yes(not text:find("sites", 1, true))
end)

-- No tile of head dim 1024 fits, and that is said.
local HOLE = { [3] = '  dtypes = { "f16" },', [4] = "  head_dims = { 64, 1024 },", [7] = "    sm80 = {", [8] = "      archs = { 86 },", [9] = "",
  [10] = "", [11] = "", [12] = "", [15] = '  exclude = { { family = "sm80", head_dim = 1024, reason = "no tile yet" } },' }

local function lacks(what, changes, name, ...)
  local words = { ... }
  harness.case(what, function()
    local text, why = explain.variant(open(changes), name)
    harness.is(text, nil)
    harness.has(why, table.unpack(words))
  end)
end

lacks("a head dim that the spec lacks", {}, "fwd_f32_d80_causal__cpu_x86_64_v3_m64n96", "spec:4: head_dims: has no 80; add it",
  "nearest: fwd_f32_d")
lacks("a head dim that no spec can have", {}, "fwd_f32_d81_causal__cpu_x86_64_v3_m64n96",
  "spec:4: head_dims: 81 is not a multiple of 8")
lacks("a dtype and a mask that the spec lacks", {}, "fwd_f16_d64_none__cpu_x86_64_v3_m64n96", 'spec:3: dtypes: has no "f16"',
  'spec:5: masks: has no "none"')
lacks("a mask that decode's widest variant serves", { [2] = '  passes = { "fwd", "bwd", "dec" },', [5] = '  masks = { "none", "causal" },' },
  "dec_f32_d64_none__cpu_x86_64_v3_m32n256", 'spec:5: masks lists "causal", and variants of dec for it serve "none" too',
  "nearest: dec_f32_d64_causal")
lacks("a dtype that is none", {}, "fwd_f64_d64_causal__cpu_x86_64_v3_m64n96", 'spec:3: dtypes: "f64" is not known')
lacks("an ISA that the spec lacks", {}, "fwd_f32_d64_causal__cpu_aarch64_m64n96",
  'spec:8: families.cpu.isas: has no "aarch64"; add it')
lacks("an ISA that is none", {}, "fwd_f32_d64_causal__cpu_z80_m64n96", 'families.cpu.isas: "z80" is not known')
lacks("a tile that the spec lacks", {}, "bwd_f32_d64_causal__cpu_x86_64_v3_m32n48", "spec:11: families.cpu.tiles.bwd",
  "add { m = 32, n = 48 }")
lacks("a family that the spec lacks", {}, "fwd_f32_d64_causal__sm80_m64n64", "spec:6: families: has no sm80")
lacks("a family that is none", {}, "fwd_f32_d64_causal__tpu_m64n64", "no family is called", '"cpu", "sm80" and "sm90a"')
lacks("a family that a family narrows away", { [8] = 'isas = { "x86_64_v3" }, passes = { "fwd" },' },
  "bwd_f32_d64_causal__cpu_x86_64_v3_m64n96", 'spec:8: families.cpu.passes: has no "bwd"; add it')
lacks("a pass without tiles, narrowed away", { [8] = 'isas = { "x86_64_v3" }, passes = { "fwd" },', [11] = "" },
  "bwd_f32_d64_causal__cpu_x86_64_v3_m64n96", 'families.cpu.passes: has no "bwd"')
lacks("an excluded variant", { [15] = 'exclude = { { pass = "fwd", head_dim = 64, reason = "nobody wants it" } },' }, NAME,
  "spec:15: exclude[1]: excludes " .. NAME .. ": nobody wants it")
lacks("what is excluded and has no tile", HOLE, "fwd_f16_d1024_causal__sm80_m64n16",
  "spec:15: exclude[1]: excludes fwd_f16_d1024_causal of sm80: no tile yet")
lacks("the left half of a name, of a head dim that the spec lacks", {}, "fwd_f32_d80_causal", "spec:4: head_dims: has no 80; add it")
lacks("the left half of a name, excluded", { [15] = 'exclude = { { pass = "fwd", reason = "nobody wants it" } },' },
  "fwd_f32_d64_causal", "spec:15: exclude[1]: excludes " .. NAME .. ": nobody wants it")
lacks("the left half of a name, excluded and without a tile", HOLE, "fwd_f16_d1024_causal",
  "spec:15: exclude[1]: excludes fwd_f16_d1024_causal of sm80: no tile yet")
lacks("the left half of a name, of which the first excluded variant by name is told",
  { [10] = "        fwd = { { m = 64, n = 96 }, { m = 32, n = 96 } },",
    [15] = 'exclude = { { pass = "fwd", reason = "nobody wants it" } },' },
  "fwd_f32_d64_causal", "excludes fwd_f32_d64_causal__cpu_x86_64_v3_m32n96: nobody")
lacks("a mistyped name", {}, "fwd_f32_d64_casual__cpu_x86_64_v3_m64n96", 'masks: "casual" is not known; did you mean "causal"?',
  "nearest: " .. NAME)
lacks("a name that is none", {}, "nonsense", "a name is <pass>_<dtype>", "nearest: ")
lacks("an empty how", {}, "fwd_f32_d64_causal__", "a name is")
lacks("a head dim beyond numbers", {}, "fwd_f32_d" .. ("9"):rep(400) .. "_causal__cpu_x86_64_v3_m64n96", "head_dims: ")
lacks("a name with control characters", {}, "fwd\27[2J\n", "\\x1B[2J\\x0A")
lacks("a very long name", {}, ("x"):rep(100000), "nearest: ")

harness.case("a key shows all its variants", function()
  local loaded = open({ [8] = '      isas = { "x86_64_v3", "aarch64" },' })
  harness.is(explain.variant(loaded, "fwd_f32_d64_causal"), "fwd_f32_d64_causal__cpu_aarch64_m64n96\n" .. NAME .. "\n")
end)

harness.case("check says what the spec makes and what it does not use", function()
  local text = explain.summary(open({ [2] = '  passes = { "fwd" },', [15] = 'exclude = { { head_dim = 64, reason = "x" } },' }))
  harness.is(text, "spec: 1 variant, 1 excluded\n  cpu: 1 variant for x86_64_v3\n"
    .. "spec:11: families.cpu.tiles.bwd[1]: not used by any variant\n")
end)

harness.case("check says what is excluded and has no tile", function()
  harness.has(explain.summary(open(HOLE)), "spec:15: exclude[1]: excludes fwd_f16_d1024_causal of sm80: no tile yet\n")
end)
