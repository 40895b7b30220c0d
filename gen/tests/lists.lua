-- What C and the generator both list is the same list: each stands once on either side, and here they are compared.
local axes = require("gen.axes")
local harness = require("gen.tests.harness")
local registry = require("gen.registry")
local takes = require("gen.takes")
local text = require("gen.text")

local function read(path)
  local file = assert(io.open(harness.root .. "/" .. path, "rb"))
  local content = file:read("a")
  file:close()
  return content
end

harness.case("instruction sets: lib/cpu/isa.h, enum glint_isa and the cpu family", function()
  local in_family = registry.get("cpu").fields.isas.of.values
  local header, public, count = read("lib/cpu/isa.h"), read("lib/glint.h"), 0
  for name, id in header:gmatch("X%(([%w_]+), (GLINT_ISA_[%w_]+)%)") do
    count = count + 1
    harness.yes(text.contains(in_family, name), name .. " is in lib/cpu/isa.h and not in gen/families/cpu.lua")
    harness.is(id, "GLINT_ISA_" .. name:upper())
    harness.yes(public:find(id .. " = %d"), id .. " is not in glint.h")
  end
  harness.is(count, #in_family)
  local _, enumerators = public:match("enum glint_isa {(.-)};"):gsub("GLINT_ISA_[%w_]+ = ", "")
  harness.is(enumerators, count + 1) -- and GLINT_ISA_ANY
end)

harness.case("axes: lib/axes.h and the spec's, in the order of a name", function()
  local header, found, values = read("lib/axes.h"), {}, {}
  for name, plural in header:gmatch('X%(([%l_]+), "([%l_]+)",') do found[#found + 1] = { name = name, plural = plural, words = {} } end
  for name, word, value in header:gmatch('W%(([%l_]+), "(%w+)", ([%w_| ]+)%)') do
    values[name .. " " .. word] = value
    for _, axis in ipairs(found) do
      if axis.name == name then axis.words[#axis.words + 1] = word end
    end
  end
  harness.is(#found, #axes.list)
  for i, axis in ipairs(axes.list) do
    harness.is(found[i].name, axis.name)
    harness.is(found[i].plural, axis.plural)
    harness.is(table.concat(found[i].words, " "), table.concat(axis.of.values or {}, " "), axis.name)
    for word, constant in pairs(axis.c or {}) do harness.is(values[axis.name .. " " .. word], tostring(constant), axis.name) end
  end
end)

harness.case("what rows take: lib/takes.h and gen/takes.lua, the bits and the fields of a spec", function()
  local header, words, fields = read("lib/takes.h"), {}, {}
  for word in header:gmatch("X%((%u[%u_]+), %d+, LACKS_%u+, ") do words[word:lower()] = true end
  for field, bits in header:gmatch("F%(([%l_]+), GLINT_TAKES_[%u_]+,([^)]+)%)") do
    for word in bits:gmatch("GLINT_TAKES_([%u_]+)") do fields[word:lower() .. " " .. field] = true end
  end
  for _, one in ipairs(takes.list) do
    harness.yes(words[one.name], one.name .. " is not in lib/takes.h")
    for _, field in ipairs(one.fields) do
      harness.yes(fields[one.name .. " " .. field], ("lib/takes.h does not say %s for %s"):format(field, one.name))
      fields[one.name .. " " .. field] = nil
    end
    words[one.name] = nil
  end
  harness.is(next(words), nil)
  harness.is(next(fields), nil)
end)

-- The files of lib/ that hold a word, as paths.
local function files_with(word)
  local found = {}
  local listing = assert(io.popen(("cd '%s' && grep -RlE '%s' lib --include=*.c --include=*.h | sort"):format(harness.root, word)))
  for path in listing:lines() do found[#found + 1] = path end
  listing:close()
  return table.concat(found, " ")
end

harness.case("the lists in C are the only ones", function()
  harness.is(files_with("glint_choose_row"), "lib/check.h lib/choose.c lib/plan.c", "this test does not see the files of lib/")
  local plurals = {}
  for i, axis in ipairs(axes.list) do plurals[i] = axis.plural end
  harness.is(files_with('"(' .. table.concat(plurals, "|") .. ')"'), "lib/axes.h")
  harness.is(files_with("x86_64_v4"), "lib/cpu/isa.h lib/cpu/probe.c")
end)

harness.case("room for names, launches and maps: lib/variant.h and lib/cuda/kernel.h, and the generator's", function()
  local function number(file, name)
    return tonumber(read(file):match("\n#define " .. name .. " (%d+)"))
  end
  harness.is(number("lib/variant.h", "GLINT_NAME_BYTES"), require("gen.emit").name_bytes)
  harness.is(number("lib/cuda/kernel.h", "GLINT_GPU_SUFFIX_BYTES"), require("gen.gpu").suffix_bytes)
  harness.is(number("lib/cuda/kernel.h", "GLINT_GPU_MAX_LAUNCHES"), require("gen.gpu").most_launches)
  harness.is(number("lib/cuda/kernel.h", "GLINT_GPU_MAX_MAPS"), require("gen.gpu").most_maps)
end)

harness.case("a value is shown as Lua has it: a list, a table of names, both, and one that is empty", function()
  harness.is(text.plain("a\"b"), '"a\\"b"')
  harness.is(text.plain(64), "64")
  harness.is(text.plain(false), "false")
  harness.is(text.plain({}), "{}")
  harness.is(text.plain({ 80 }), "{ 80 }")
  harness.is(text.plain({ 80, "90a" }), '{ 80, "90a" }')
  harness.is(text.plain({ m = 64, archs = { 80 }, none = {} }), "{ archs = { 80 }, m = 64, none = {} }")
end)
