-- What C and the generator both list is the same list: each stands once on either side, and here they are compared.
local harness = require("gen.tests.harness")
local registry = require("gen.registry")
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
