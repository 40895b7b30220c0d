-- The data parser against Lua itself: what the parser reads, Lua reads to the same value; and the parser never fails
-- in another way than by reporting a mistake, whatever bytes it is given.
local harness = require("gen.tests.harness")
local parse = require("gen.parse")
local problems = require("gen.problems")

local function read(source)
  local found = problems.new("spec")
  local value, places = parse.parse(source, found)
  if found:any() then return nil, found:text() end
  return value, places
end

local function same(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b and math.type(a) == math.type(b) end
  for key, value in pairs(a) do
    if not same(value, b[key]) then return false end
  end
  for key in pairs(b) do
    if a[key] == nil then return false end
  end
  return true
end

local function agrees(source)
  local value, why = read(source)
  harness.yes(value, why)
  harness.yes(same(value, assert(load(source, "=", "t", {}))()), "not what Lua reads:\n" .. source)
end

harness.case("literals of every kind", function()
  agrees([[return { 1, -2, 0x8, 0x10, 1e3, .5, 5., 0x.8p1, 3e-2, "a", 'b', "it's", "\"", '\\', true, false, {}, { { 1 } } }]])
end)

harness.case("separators, keys, comments", function()
  agrees("return{a=1;b=2,['c d']=3;[7]=4,-- x\n--[[ y\n]]5--[==[ ]] ]==];}")
  agrees("--[==[\n]]\n]==] return { [ [=[k]=] ] = [[v]] } ;")
  agrees("return {}\n-- the end")
  agrees("return { --[[]] }")
end)

harness.case("long strings drop their first newline", function()
  agrees("return { [[\nx]], [==[\ny]==], [[]] }")
end)

harness.case("line endings of every kind count once", function()
  for _, ending in ipairs({ "\n", "\r\n", "\r" }) do
    local value, places = read("return {" .. ending .. "a = 1," .. ending .. "--[[" .. ending .. "]] b = {" .. ending .. "2 } }")
    harness.is(places[value].lines.a, 2)
    harness.is(places[value].lines.b, 4)
    harness.is(places[value.b].lines[1], 5)
  end
end)

harness.case("a byte order mark is skipped", function()
  local path = harness.file("\239\187\191return { 1 }")
  local found = problems.new(path)
  harness.is(require("gen.load")(path, found)[1], 1)
end)

harness.case("the shipped specs are what Lua reads", function()
  for _, name in ipairs({ "spec/attention.lua", "spec/minimal.lua" }) do
    agrees(assert(harness.read(harness.root .. "/" .. name)))
  end
end)

-- A reproducible generator of numbers, the same on every machine (Park and Miller).
local state = 20240229
local function random(limit)
  state = state * 48271 % 2147483647
  return state % limit + 1
end

local function pick(list) return list[random(#list)] end

local function random_value(depth)
  if depth < 4 and random(3) == 1 then
    local parts = {}
    for i = 1, random(5) - 1 do
      parts[i] = pick({ "", "", ("k%d%d = "):format(depth, i), ("[%d] = "):format(100 * depth + i), ('["s%d"] = '):format(i) })
        .. random_value(depth + 1)
    end
    return "{" .. pick({ "", " ", "\n", "--c\n" }) .. table.concat(parts, pick({ ",", ";", " ,\n" })) .. pick({ "", " " }) .. "}"
  end
  return pick({ "1", "-7", "0x1F", "2.5", "1e2", "true", "false", '"text"', "'it'", '"\\\\"', "[[long]]", "[=[ ]] ]=]", "64" })
end

harness.case("2000 random specs are what Lua reads", function()
  for _ = 1, 2000 do agrees("return {" .. random_value(1) .. "," .. random_value(1) .. "}") end
end)

-- Every token of a right spec, replaced by others: shapes that are right but for one place.
local OTHERS = { "{}", "{ 64 }", "{ { } }", "true", "false", "0", "-1", "64", "1e999", "2.5", '"f32"', '"x86_64"', '""', "[1] =",
  "m", "sm80", "cpu", "isas", "tiles", "archs", "[64] =", "reason", '{ { m = 64, n = 96 } }', ",", "", "=" }

harness.case("the default spec with a token replaced is read or refused", function()
  local lex, records_of = require("gen.lex"), require("gen.records")
  local tokens, path = lex(harness.read(harness.root .. "/spec/minimal.lua")), harness.file(nil)
  for at = 1, #tokens - 1 do
    for _, other in ipairs(OTHERS) do
      local words = {}
      for i = 1, #tokens - 1 do
        local found = tokens[i]
        words[i] = i == at and other or found.kind == "string" and ("%q"):format(found.value) or tostring(found.value)
      end
      harness.write(path, table.concat(words, " "))
      local ok, loaded, why = pcall(records_of, path)
      harness.yes(ok, ("a runtime error: %s\n%s"):format(tostring(loaded), table.concat(words, " ")))
      if not loaded then harness.has(why, path .. ":1: ") end
    end
  end
end)

local PIECES = { "return", "{", "}", "[", "]", "=", ",", ";", "-", "--", "[[", "]]", "[=[", '"', "'", "\\", "\n", " ", "a",
  "passes", "1",
  "0x", "1e", "..", "nil", "true", "function", "\0", "\27", "\255", "::", "(", ")", "os.exit(1)", "9e999", "~", "#" }

harness.case("20000 random texts are read or refused, and only what Lua reads is read", function()
  local read_some = 0
  for _ = 1, 20000 do
    local parts = { pick({ "return {", "return", "return { a = {", "" }) }
    for i = 2, 1 + random(5) do parts[i] = pick(PIECES) end
    local source = table.concat(parts, pick({ " ", "" })) .. pick({ "}", "}", "" })
    local ok, value, why = pcall(read, source)
    harness.yes(ok, ("a runtime error: %s\n%q"):format(tostring(value), source))
    if value then
      read_some = read_some + 1
      harness.yes(same(value, assert(load(source, "=", "t", {}), source)()), ("not what Lua reads: %q"):format(source))
    else
      harness.yes(why:find("^spec:%d+: [^:]+: [^;]+; ") or why:find("spec:%d+: "), "no place: " .. why)
    end
  end
  harness.yes(read_some > 100, "the texts are too random: only " .. read_some .. " were specs")
end)

harness.case("the default spec with a byte changed anywhere is read or refused", function()
  local records_of = require("gen.records")
  local source, path = harness.read(harness.root .. "/spec/minimal.lua"), harness.file(nil)
  for at = 1, #source do
    local changed = source:sub(1, at - 1) .. pick({ "", "{", "}", '"', "9", "\n", "x", "=", "\0", "-" }) .. source:sub(at + 1)
    harness.write(path, changed)
    local ok, loaded, why = pcall(records_of, path)
    harness.yes(ok, ("a runtime error at byte %d: %s"):format(at, tostring(loaded)))
    if not loaded then harness.has(why, path .. ":") end
  end
end)
