-- Every mistake that one field, one list or the text of a spec can hold, with the exact place it is reported at.
local harness = require("gen.tests.harness")
local specs = require("gen.tests.specs")

local refuses, with = specs.refuses, specs.with

-- Fields that are missing, unknown, given twice.
refuses("unknown top-level field", with({ [15] = "  exclud = {}," }), { "15: exclud", "no such field", "did you mean exclude?" })
refuses("unknown field, far from all", with({ [15] = "  zzzzzzzz = {}," }), { "15: zzzzzzzz", "no such field", '"head_dims"' })
refuses("unnamed value at the top", with({ [15] = '  "fwd",' }), { "15: [1]", "without a name" })
refuses("unknown compression", with({ [15] = '  compress = "zip",' }), { "15: compress", '"size"', '"none"' })
refuses("number as a top-level key", with({ [15] = "  [7] = 1," }), { "15: [7]", "without a name" })
refuses("string key that is no name", with({ [15] = '  ["head dims"] = { 64 },' }), { '15: ["head dims"]', "no such field" })
refuses("missing passes", with({ [2] = "" }), { "1: passes", "is missing", "add passes" })
refuses("missing dtypes", with({ [3] = "" }), { "1: dtypes", "is missing" })
refuses("missing head_dims", with({ [4] = "" }), { "1: head_dims", "is missing" })
refuses("missing masks", with({ [5] = "" }), { "1: masks", "is missing" })
refuses("missing families", "return { passes = { 'fwd' }, dtypes = { 'f32' }, head_dims = { 64 }, masks = { 'none' } }",
  { "1: families", "is missing" })
refuses("all fields missing", "\nreturn {}", { "2: passes" }, { "2: dtypes" }, { "2: head_dims" }, { "2: masks" },
  { "2: families" })
refuses("missing isas", with({ [8] = "" }), { "7: families.cpu.isas", "is missing" })
refuses("missing m", with({ [10] = "        fwd = { { n = 96 } }," }), { "10: families.cpu.tiles.fwd[1].m", "is missing" })
refuses("duplicate top-level key", with({ [15] = "  head_dims = { 32 }," }), { "15: head_dims", "given twice, first on line 4" })
refuses("duplicate nested key", with({ [10] = "        fwd = { { m = 64, n = 96, m = 32 } }," }),
  { "10: families.cpu.tiles.fwd[1].m", "given twice", "keep one" })
refuses("duplicate through another spelling", with({ [15] = '  ["masks"] = { "none" },' }), { "15: masks", "first on line 5" })
refuses("duplicate [head_dim]",
  with({ [10] = "fwd = { { m = 64, n = 96 }, [64] = { { m = 16, n = 6 } },\n[64] = { { m = 32, n = 6 } } }," }),
  { "11: families.cpu.tiles.fwd[64]", "given twice, first on line 10" })
refuses("positional entry and the same number", with({ [4] = "  head_dims = { 64, [1] = 32 }," }),
  { "4: head_dims[1]", "given twice" })

-- Types.
refuses("passes is a string", with({ [2] = '  passes = "fwd",' }), { "2: passes", '"fwd" is not a list', 'write { "fwd" }' })
refuses("head_dims is a number", with({ [4] = "  head_dims = 64," }), { "4: head_dims", "64 is not a list", "write { 64 }" })
refuses("head dim is a string", with({ [4] = '  head_dims = { "64" },' }), { "4: head_dims[1]", '"64" is not an integer' })
refuses("head dim is a table", with({ [4] = "  head_dims = { 64, { 128 } }," }), { "4: head_dims[2]", "a table is not an integer" })
refuses("head dim is true", with({ [4] = "  head_dims = { true }," }), { "4: head_dims[1]", "true is not an integer" })
refuses("head dim is 64.0", with({ [4] = "  head_dims = { 64.0 }," }), { "4: head_dims[1]", "64.0 is not an integer", "write 64" })
refuses("head dim is 64.5", with({ [4] = "  head_dims = { 64.5 }," }), { "4: head_dims[1]", "64.5 is not an integer" })
refuses("head dim is named", with({ [4] = "  head_dims = { 64, big = 128 }," }), { "4: head_dims.big", "a named entry in a list" })
refuses("families is a list of names", with({ [6] = '  families = { "cpu" },', [7] = "", [8] = "", [9] = "", [10] = "", [11] = "",
  [12] = "", [13] = "", [14] = "" }), { "6: families[1]", "no such family" })
refuses("families is false", "return { passes = {'fwd'}, dtypes = {'f32'}, head_dims = {64}, masks = {'none'}, families = false }",
  { "1: families", "false is not a table" })
refuses("a family is a string", "return { passes = {'fwd'}, dtypes = {'f32'}, head_dims = {64}, masks = {'none'},\n"
  .. "families = { cpu = 'yes' } }", { "2: families.cpu", '"yes" is not a table' })
refuses("tiles is a list", with({ [9] = "      tiles = { { m = 64, n = 96 },", [10] = "", [11] = "" }),
  { "9: families.cpu.tiles[1]", "no such field", '"fwd"' })
refuses("tiles is a number", with({ [9] = "tiles = 3,", [10] = "", [11] = "", [12] = "" }),
  { "9: families.cpu.tiles", "3 is not a table" })
refuses("a pass's tiles are a number", with({ [10] = "        fwd = 64," }), { "10: families.cpu.tiles.fwd", "64 is not a list" })
refuses("a tile is a number", with({ [10] = "        fwd = { 64, 96 }," }),
  { "10: families.cpu.tiles.fwd[1]", "64 is not a table" },
  { "10: families.cpu.tiles.fwd[2]", "96 is not a table" })
refuses("one tile without its list", with({ [10] = "        fwd = { m = 64, n = 96 }," }),
  { "10: families.cpu.tiles.fwd.m", "[head_dim]" }, { "10: families.cpu.tiles.fwd.n" })
refuses("m is a string", with({ [10] = '        fwd = { { m = "64", n = 96 } },' }),
  { "10: families.cpu.tiles.fwd[1].m", '"64" is not an integer' })
refuses("exclude is a string", with({ [15] = '  exclude = "none",' }), { "15: exclude", '"none" is not a list' })
refuses("exclude without its list", with({ [15] = '  exclude = { dtype = "f32", reason = "x" },' }), { "15: exclude.dtype", "{ {" },
  { "15: exclude.reason" })
refuses("exclude of a number", with({ [15] = "  exclude = { 7 }," }), { "15: exclude[1]", "7 is not a table" })

-- Values.
refuses("unknown pass", with({ [2] = '  passes = { "fwd", "backward" },' }), { "2: passes[2]", '"backward" is not known', '"bwd"' })
refuses("unknown dtype", with({ [3] = '  dtypes = { "f33" },' }), { "3: dtypes[1]", '"f33" is not known', 'did you mean "f32"?' })
refuses("unknown mask", with({ [5] = '  masks = { "causl" },' }), { "5: masks[1]", 'did you mean "causal"?' })
refuses("unknown isa", with({ [8] = '      isas = { "x86_64_v33" },' }), { "8: families.cpu.isas[1]", 'did you mean "x86_64_v3"?' })
refuses("unknown family", with({ [7] = "    cpux = {" }), { "7: families.cpux", "no such family", "did you mean cpu?" })
refuses("family name that is a path", with({ [7] = '    ["../../tests/run"] = {' }), { '7: families["../../tests/run"]',
  "no such family" })
refuses("family with a number for a name", with({ [7] = "    [1] = {" }), { "7: families[1]", "no such family" })
refuses("unknown family field", with({ [8] = '      isas = { "x86_64_v3" }, isa = 1,' }),
  { "8: families.cpu.isa", "did you mean isas?" })
refuses("unknown tile field", with({ [10] = "        fwd = { { m = 64, n = 96, k = 1 } }," }),
  { "10: families.cpu.tiles.fwd[1].k" })
refuses("a GPU's field in a CPU tile", with({ [10] = "        fwd = { { m = 64, n = 96, stages = 2 } }," }),
  { "10: families.cpu.tiles.fwd[1].stages", "no such field" })
refuses("tiles of an unknown pass", with({ [11] = "bwd = { { m = 64, n = 96 } }, both = {}," }), { "11: families.cpu.tiles.both" })
refuses("head dim not a multiple of 8", with({ [4] = "  head_dims = { 64, 65 }," }),
  { "4: head_dims[2]", "65 is not a multiple of 8 (8 x 8 + 1)", "64 or 72" })
refuses("head dim 0", with({ [4] = "  head_dims = { 0 }," }), { "4: head_dims[1]", "0 is out of range", "from 8 to" })
refuses("head dim negative", with({ [4] = "  head_dims = { -64 }," }), { "4: head_dims[1]", "-64 is out of range" })
refuses("head dim huge", with({ [4] = "  head_dims = { 9223372036854775800 }," }), { "4: head_dims[1]", "out of range" })
refuses("head dim beyond integers", with({ [4] = "  head_dims = { 9223372036854775808 }," }),
  { "4: head_dims[1]", "not an integer" })
refuses("head dim infinite", with({ [4] = "  head_dims = { 1e999 }," }), { "4: head_dims[1]", "not an integer" })
refuses("head dim wraps round in hex", with({ [4] = "  head_dims = { 0xffffffffffffff80 }," }),
  { "4: head_dims[1]", "-128 is out of range" })
refuses("head dim NaN", with({ [4] = "  head_dims = { 0/0 }," }), { "4: head_dims[1]", "`/`", "no expressions" })
refuses("override's [head_dim] not a multiple", with({ [10] = "fwd = { { m = 64, n = 96 }, [66] = { { m = 64, n = 96 } } }," }),
  { "10: families.cpu.tiles.fwd[66]", "not a multiple of 8" })
refuses("m is zero", with({ [10] = "        fwd = { { m = 0, n = 96 } }," }),
  { "10: families.cpu.tiles.fwd[1].m", "0 is out of range" })
refuses("m is negative", with({ [10] = "        fwd = { { m = -8, n = 96 } }," }),
  { "10: families.cpu.tiles.fwd[1].m", "out of range" })
refuses("n is huge", with({ [10] = "        fwd = { { m = 64, n = 99999999 } }," }),
  { "10: families.cpu.tiles.fwd[1].n", "out of range" })

-- Lists.
refuses("a dtype twice", with({ [3] = '  dtypes = { "f32", "f16", "f32" },' }),
  { "3: dtypes[3]", "listed twice, first as dtypes[1]" })
refuses("a head dim twice", with({ [4] = "  head_dims = { 64,\n64 }," }), { "5: head_dims[2]", "64 is listed twice" })
refuses("an isa twice", with({ [8] = '      isas = { "x86_64_v3", "x86_64_v3" },' }), { "8: families.cpu.isas[2]", "listed twice" })
refuses("empty passes", with({ [2] = "  passes = {}," }), { "2: passes", "an empty list" })
refuses("empty head_dims", with({ [4] = "  head_dims = {}," }), { "4: head_dims", "an empty list" })
refuses("empty isas", with({ [8] = "      isas = {}," }), { "8: families.cpu.isas", "an empty list" })
refuses("empty families", "return { passes = {'fwd'}, dtypes = {'f32'}, head_dims = {64}, masks = {'none'}, families = {} }",
  { "1: families", "no family" })
refuses("empty tiles of a pass", with({ [10] = "        fwd = {}," }), { "10: families.cpu.tiles.fwd", "an empty list" })
refuses("empty tiles of a head dim", with({ [10] = "        fwd = { { m = 64, n = 96 }, [128] = {} }," }),
  { "10: families.cpu.tiles.fwd[128]", "an empty list" })
refuses("a family widens the spec", with({ [8] = '      isas = { "x86_64_v3" }, head_dims = { 64, 256 },' }),
  { "8: families.cpu.head_dims[2]", "256 is not in the spec's own head_dims" })

-- Exclusions and overrides.
refuses("exclude without a reason", with({ [15] = "  exclude = { { head_dim = 64 } }," }),
  { "15: exclude[1].reason", "is missing" })
refuses("exclude with an empty reason", with({ [15] = '  exclude = { { head_dim = 64, reason = " " } },' }),
  { "15: exclude[1].reason", "says nothing" })
refuses("a reason of several lines", with({ [15] = "  exclude = { { head_dim = 64, reason = [[a\nb]] } }," }),
  { "15: exclude[1].reason", "no text" })
refuses("a reason that ends a C comment", with({ [15] = '  exclude = { { head_dim = 64, reason = "x */ int y;" } },' }),
  { "15: exclude[1].reason", "*/" })
refuses("a reason with an escape sequence", with({ [15] = '  exclude = { { head_dim = 64, reason = "\27[2Jgone" } },' }),
  { "15: exclude[1].reason", "no text" })
refuses("a reason that is not UTF-8", with({ [15] = '  exclude = { { head_dim = 64, reason = "\255\254" } },' }),
  { "15: exclude[1].reason", "no text" })
refuses("a reason of 301 characters", with({ [15] = '  exclude = { { head_dim = 64, reason = "' .. ("x"):rep(301) .. '" } },' }),
  { "15: exclude[1].reason", "301 characters" })
refuses("a reason that is a table", with({ [15] = "  exclude = { { head_dim = 64, reason = {} } }," }),
  { "15: exclude[1].reason", "a table is not a sentence" })
refuses("exclude matches nothing", with({ [15] = '  exclude = { { head_dim = 256, reason = "x" } },' }),
  { "15: exclude[1]", "excludes nothing" })
refuses("exclude of an unknown field", with({ [15] = '  exclude = { { headdim = 64, reason = "x" } },' }),
  { "15: exclude[1].headdim", "did you mean head_dim?" })
refuses("exclude of an isa without its family", with({ [15] = '  exclude = { { isa = "x86_64_v3", reason = "x" } },' }),
  { "15: exclude[1].isa", "no such field" })
refuses("exclude of an unknown value", with({ [15] = '  exclude = { { dtype = "f64", reason = "x" } },' }),
  { "15: exclude[1].dtype" })
refuses("exclude with set", with({ [15] = '  exclude = { { dtype = "f32", set = { m = 1 }, reason = "x" } },' }),
  { "15: exclude[1].set", "no such field" })
refuses("everything is excluded", with({ [15] = '  exclude = { { dtype = "f32", reason = "x" } },' }),
  { "15: exclude", "every variant is excluded" })
refuses("override matches nothing",
  with({ [16] = '  override = { { family = "cpu", head_dim = 32, set = { m = 16 }, reason = "x" } },' }),
  { "16: override[1]", "matches nothing" })
refuses("override without set", with({ [16] = '  override = { { family = "cpu", reason = "x" } },' }),
  { "16: override[1].set", "missing" })
refuses("override that sets nothing", with({ [16] = '  override = { { family = "cpu", set = {}, reason = "x" } },' }),
  { "16: override[1].set", "sets nothing" })
refuses("override without a family", with({ [16] = '  override = { { set = { m = 32 }, reason = "x" } },' }),
  { "16: override[1].set.m", "no such field" }, { "16: override[1].family", "is missing" })
refuses("override of a name", with({ [16] = '  override = { { family = "cpu", set = { name = "system" }, reason = "x" } },' }),
  { "16: override[1].set.name", "no such field" })
refuses("two overrides disagree", with({ [16] = '  override = { { family = "cpu", set = { m = 32 }, reason = "x" },\n'
  .. '{ family = "cpu", pass = "fwd", set = { m = 16 }, reason = "y" } },' }), { "17: override[2].set.m", "override[1]" })

-- Several at once, in the order of the lines.
refuses("five mistakes at once", with({ [2] = '  passes = { "fw" },', [4] = "  head_dims = { 64, 65 },", [8] = "isas = {},",
  [11] = "bwd = { { m = 64 } },", [15] = "exclude = { { } }," }), { "2: passes[1]" }, { "4: head_dims[2]" },
    { "8: families.cpu.isas" },
  { "11: families.cpu.tiles.bwd[1].n" }, { "15: exclude[1].reason" })

-- Code where data must be.
local CODE = "is code, and a spec is never run"
refuses("os.execute", with({ [2] = '  passes = { os.execute("true") },' }), { "2: passes[1]", "`os`", CODE })
refuses("load", with({ [2] = '  passes = load("return {}")(),' }), { "2: passes", "`load`", CODE })
refuses("require", with({ [15] = '  exclude = require("gen.load"),' }), { "15: exclude", "`require`", CODE })
refuses("io.open", with({ [15] = '  exclude = io.open("/etc/passwd"):read("a"),' }), { "15: exclude", "`io`", CODE })
refuses("_G", with({ [15] = "  exclude = _G," }), { "15: exclude", "`_G`", CODE })
refuses("_ENV as a key", with({ [15] = "  _ENV = {}," }), { "15: _ENV", "no such field" })
refuses("a function", with({ [15] = "  exclude = function() end," }), { "15: exclude", "`function`", CODE })
refuses("a local before the spec", "local x = 1\nreturn { x }", { "1: spec", "`local`", CODE })
refuses("a call before the spec", 'os.exit(0)\nreturn {}', { "1: spec", "`os`", CODE })
refuses("a call that is the spec", "return require('x')", { "1: spec", "returns no table" })
refuses("an infinite loop", "while true do end", { "1: spec", "`while`", CODE })
refuses("an infinite loop inside", with({ [2] = "  passes = (function() while true do end end)()," }), { "2: passes", "`(`" })
refuses("infinite recursion", "local function f() return f() end return f()", { "1: spec", "`local`", CODE })
refuses("goto", "::again:: goto again", { "1: spec", "`:`" })
refuses("a string method that eats memory", with({ [2] = '  passes = { ("x"):rep(1e9) },' }), { "2: passes[1]", "`(`" })
refuses("a method on a plain string", with({ [2] = '  passes = { "x":rep(1e9) },' }), { "2: passes[1]", "`:`", "no calls" })
refuses("a string call", with({ [2] = '  passes = { "fwd" "bwd" },' }), { "2: passes[1]", 'the string "bwd"' })
refuses("string.dump", with({ [2] = "  passes = { string.dump(print) }," }), { "2: passes[1]", "`string`", CODE })
refuses("concatenation", with({ [2] = '  passes = { "f" .. "wd" },' }), { "2: passes[1]", "`.`", "no expressions" })
refuses("arithmetic", with({ [4] = "  head_dims = { 8 * 8 }," }), { "4: head_dims[1]", "`*`", "no expressions" })
refuses("a power that is huge", with({ [4] = "  head_dims = { 2^2^2^2^2 }," }), { "4: head_dims[1]", "`^`" })
refuses("a minus on a string", with({ [4] = '  head_dims = { -"64" },' }), { "4: head_dims[1]", "`-` is not a value" })
refuses("nil", with({ [15] = "  exclude = nil," }), { "15: exclude", "nil is no value", "leave the field out" })
refuses("a vararg", with({ [4] = "  head_dims = { ... }," }), { "4: head_dims[1]", "`.`" })
refuses("setmetatable", with({ [15] = "  exclude = setmetatable({}, {})," }), { "15: exclude", "`setmetatable`", CODE })
refuses("a key that is computed", with({ [15] = "  [1 + 1] = 2," }), { "15: spec", "`] =`" })
refuses("a key that is a table", with({ [15] = "  [{}] = 2," }), { "15: spec", "not a key" })
refuses("a key that is a float", with({ [15] = "  [1.5] = 2," }), { "15: spec", "not a key" })
refuses("a reserved word as a key", with({ [15] = "  end = 2," }), { "15: spec", "`end`" })
refuses("names that would end a C string", with({ [3] = "  dtypes = { 'f32\", 0}; system(\"true' }," }),
  { "3: dtypes[1]", "not known" })
refuses("names that would be a path", with({ [8] = '      isas = { "../../x" },' }), { "8: families.cpu.isas[1]", "not known" })
refuses("names that would end a comment", with({ [8] = '      isas = { "x*/" },' }), { "8: families.cpu.isas[1]", "not known" })

-- Text that is no spec.
refuses("an empty file", "", { "1: spec", "the end of the file", "return {" })
refuses("comments only", "-- nothing\n-- here\n", { "3: spec", "the end of the file" })
refuses("a table without return", "{ 1 }", { "1: spec", "start it with return {" })
refuses("return of a number", "return 7", { "1: spec", "returns no table" })
refuses("return of nothing", "return", { "1: spec", "returns no table" })
refuses("a second table", with({ [17] = "}, {}" }), { "17: spec", "after the end of the spec" })
refuses("code after the spec", with({ [17] = "}\nos.exit(0)" }), { "18: spec", "`os` after the end" })
refuses("garbage after the spec", with({ [17] = "} }" }), { "17: spec", "after the end" })
refuses("a brace too few", with({ [17] = "" }), { "18: spec", "the `{` of line 1 is never closed" })
refuses("a brace too few inside", with({ [12] = "" }), { "18: spec", "line 1 is never closed" })
refuses("a comma too few after a field", with({ [4] = "  head_dims = { 64 }" }), { "5: head_dims", "`masks`" })
refuses("an open string", with({ [2] = '  passes = { "fwd },' }), { "2: spec", "not closed on its line" })
refuses("an open comment", with({ [2] = "  --[[ passes" }), { "2: spec", "never closed" })
refuses("an escape", with({ [2] = '  passes = { "\\102wd" },' }), { "2: spec", "escape" })
refuses("a number that is none", with({ [4] = "  head_dims = { 64k }," }), { "4: spec", "`64k` is not a number" })
refuses("a control character", with({ [4] = "  head_dims = { \1 }," }), { "4: spec", "0x01" })
refuses("a no-break space", with({ [4] = "  head_dims = { \194\160 64 }," }), { "4: spec", "0xC2" })
refuses("a NUL byte", with({ [4] = "  head_dims = { 64 }, --\0" }), { "1: spec", "NUL" })
refuses("bytecode", string.dump(function() return {} end), { "1: spec", "compiled Lua, not text" })
refuses("a Lua file of another kind", "#!/usr/bin/lua\nreturn {}", { "1: spec", "`#`" })
refuses("JSON", '{ "passes": ["fwd"] }', { "1: spec", "start it with return {" })
refuses("tables nested without end", "return " .. ("{"):rep(100000),
  { "1: [1]" .. ("[1]"):rep(15), "nested too deep", "16 levels" })
refuses("tables nested and closed", "return " .. ("{"):rep(17) .. ("}"):rep(17), { "1: [1]" .. ("[1]"):rep(15), "nested too deep" })
refuses("a string of 2000 characters", with({ [2] = '  passes = { "' .. ("x"):rep(2000) .. '" },' }),
  { "2: spec", "2000 characters" })
refuses("a long bracket of 2000 characters", with({ [2] = "passes = { [[" .. ("x"):rep(2000) .. "]] }," }),
  { "2: spec", "2000 characters" })
refuses("a file of 300 KiB", "return {" .. (" "):rep(300 * 1024) .. "}", { "1: spec", "larger than 256 KiB" })
-- Mistakes without number are counted, not listed.
harness.case("30000 mistakes", function()
  local _, mistakes = specs.open(with({ [4] = "  head_dims = { " .. ("64, "):rep(30000) .. "}," }))
  local _, lines = mistakes:gsub("\n", "\n")
  harness.is(lines, 20, "lines")
  harness.has(mistakes, "spec:4: head_dims[2]: 64 is listed twice", "and 29979 more")
end)
