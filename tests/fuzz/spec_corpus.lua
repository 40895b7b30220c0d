-- Specs that a generator could trip over, by name. Kept for good: tests/fuzz/spec.lua replays them before its
-- mutations, and a culprit of its search is added here.
local function around(body)
  return ('return { passes = { "fwd" }, dtypes = { "f32" }, head_dims = { 64 }, masks = { "none" }, families = { cpu = {\n'
    .. '  isas = { "x86_64" }, tiles = { fwd = { { m = 64, n = 96 } }, bwd = { { m = 64, n = 96 } } } } }, %s }\n'):format(body)
end

return {
  { "right", around("") },
  { "right with a byte order mark", "\239\187\191" .. around("") },
  { "right with carriage returns", (around(""):gsub("\n", "\r\n")) },
  { "right without a last line end", (around(""):gsub("\n$", "")) },
  { "right in one deep comment", "--[==[ ]] ]=] ]==]\n" .. around("") },
  { "nothing", "" },
  { "blanks", "\n\n  \t\n" },
  { "a comment alone", "-- return {}" },
  { "a comment without end", "return --[[ {" },
  { "a string without end", 'return { passes = { "fwd' },
  { "NUL bytes", "return {\0}" },
  { "compiled Lua", "\27LuaT\0\25\147\r\n\26\n" },
  { "not UTF-8", "return { passes = { \"\255\254\" } }" },
  { "code", "os.execute('touch culprit') return {}" },
  { "a loop", "while true do end" },
  { "a call", "return setmetatable({}, { __index = function() error('x') end })" },
  { "a function as value", around("exclude = { { family = (function() return 'cpu' end)(), reason = 'x' } }") },
  { "string work without end", "return { passes = { ('x'):rep(1e9) } }" },
  { "an exponent without end", "return { head_dims = { 1e999, 0x1p99999, 1e-999 } }" },
  { "a long number", "return { head_dims = { " .. ("9"):rep(5000) .. " } }" },
  { "a deep table", "return " .. ("{"):rep(50000) .. ("}"):rep(50000) },
  { "a deep key", "return { " .. ("[{"):rep(5000) },
  { "a wide table", "return { head_dims = { " .. ("8, "):rep(60000) .. " } }" },
  { "two returns", around("") .. around("") },
  { "no return", (around(""):gsub("return", "", 1)) },
  { "a value after it", around("") .. "{}" },
  { "a head dim that overflows", (around(""):gsub("head_dims = { 64 }", "head_dims = { 9223372036854775800 }")) },
  { "a negative head dim", (around(""):gsub("head_dims = { 64 }", "head_dims = { -8 }")) },
  { "a fraction", (around(""):gsub("head_dims = { 64 }", "head_dims = { 64.5 }")) },
  { "a whole fraction", (around(""):gsub("head_dims = { 64 }", "head_dims = { 64.0 }")) },
  { "a hexadecimal head dim", (around(""):gsub("head_dims = { 64 }", "head_dims = { 0x40 }")) },
  { "C in a reason", around('exclude = { { family = "cpu", pass = "fwd", head_dim = 128, reason = "*/\\n#error x\\n/*" } }') },
  { "a template in a reason", around('override = { { family = "cpu", pass = "fwd", set = { n = 48 }, reason = "${os.exit(3)} $$\\n$ os.exit(3)" } }') },
  { "a template as name", (around(""):gsub('"f32"', '"${x}"')) },
  { "everything excluded", around('exclude = { { family = "cpu", reason = "all" } }') },
  { "one tile twice", (around(""):gsub("fwd = { { m = 64, n = 96 } }", "fwd = { { m = 64, n = 96 }, { m = 64, n = 96 } }")) },
  { "two tiles made one", (around('override = { { family = "cpu", pass = "fwd", n = 48, set = { n = 96 }, reason = "x" } }')
    :gsub("fwd = { { m = 64, n = 96 } }", "fwd = { { m = 64, n = 96 }, { m = 64, n = 48 } }")) },
  { "a tile without keys", (around(""):gsub("fwd = { { m = 64, n = 96 } }", "fwd = { { m = 64, n = 0 } }")) },
  { "a tile beyond all memory", (around(""):gsub("fwd = { { m = 64, n = 96 } }", "fwd = { { m = 4611686018427387904, n = 6 } }")) },
  { "a key twice", around('exclude = {}, exclude = {}') },
  { "a key of Lua", around('["\\0"] = 1, _ENV = {}, __index = {}') },
  { "a family of nobody", around("families = {}") },
}
