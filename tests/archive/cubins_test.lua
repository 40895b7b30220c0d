-- What tools/cubins.lua makes of two cubins is what ptxas makes of the same kernels in one file:
-- lua cubins_test.lua ONE TWO BOTH, for each architecture. The bytes of every section are equal, but for tables of
-- names, whose order is free, and so is the place of a section without bytes.
local cubins = require("tools.cubins")
local FIELDS = { "type", "flags", "address", "size", "link", "info", "align", "entry", "data" }
local FREE = { [".shstrtab"] = true, [".strtab"] = true, [".symtab"] = true, [".note.nv.tkinfo"] = true }

local function expect(right, ...)
  if not right then error(string.format(...), 0) end
end

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return { name = path, bytes = file:read("a") }
end

local function name_of(cubin, number) return number < 0xff00 and cubin.sections[number].name or number end

-- Sections and symbols by their names; numbers of sections are compared by what they name.
local function compare(made, wanted)
  expect(#made.sections == #wanted.sections, "%d sections, and ptxas has %d", #made.sections, #wanted.sections)
  for _, s in pairs(wanted.sections) do
    local ours = made.sections[made[s.name]]
    expect(ours, "no section %s", s.name)
    for _, field in ipairs(FIELDS) do
      local of_section = field == "link" or (field == "info" and s.flags & 0x40 ~= 0)
      local a, b = ours[field], s[field]
      if of_section then a, b = name_of(made, a), name_of(wanted, b) end
      local free = FREE[s.name] and (field == "data" or field == "size")
      expect(free or a == b, "%s of %s is %s, and ptxas has %s", field, s.name, field == "data" and "other" or a, field == "data" and "this" or b)
    end
  end
  expect(#made.symbols == #wanted.symbols, "%d symbols, and ptxas has %d", #made.symbols, #wanted.symbols)
  for i, y in pairs(wanted.symbols) do
    local ours = made.symbols[i]
    for _, field in ipairs({ "name", "info", "other", "value", "size" }) do
      expect(ours[field] == y[field], "%s of symbol %d is %s, and ptxas has %s", field, i, ours[field], y[field])
    end
    expect(name_of(made, ours.section) == name_of(wanted, y.section), "symbol %s is of another section", y.name)
  end
  expect(#made.programs == #wanted.programs, "%d program headers", #made.programs)
  for i, p in ipairs(wanted.programs) do
    for _, field in ipairs({ "type", "flags", "align" }) do
      expect(made.programs[i][field] == p[field], "%s of program header %d", field, i)
    end
    -- where the first section of a segment lies in the file decides what fills it up to the second one
    expect(math.abs(made.programs[i].memory - p.memory) < (p.file > 0 and 128 or 1), "bytes of program header %d", i)
  end
end

local count = 0
for i = 1, #arg, 3 do
  local one, two, both = read(arg[i]), read(arg[i + 1]), read(arg[i + 2])
  local merged = cubins.merge({ one, two })
  compare(cubins.read(merged, "both"), cubins.read(both.bytes, both.name))
  expect(merged == cubins.merge({ one, two }), "other bytes the second time")
  expect(not pcall(compare, cubins.read(cubins.merge({ two, one }), "both"), cubins.read(both.bytes, both.name)), "any order is right")
  count = count + 1
end
expect(count > 0, "no cubin")
-- Cubins of two architectures do not go together.
local ok, why = pcall(cubins.merge, { read(arg[1]), read(arg[#arg]) })
expect(not ok and why:find("not of the architecture"), "two architectures in one cubin")
print(("%d architectures"):format(count))
