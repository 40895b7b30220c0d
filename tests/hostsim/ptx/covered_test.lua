-- Has every instruction that the translator knows a test? It is a row of kinds.lua, or the PTX of a micro-test that a
-- GPU recorded has it. Names of one row that stands for several, such as a load of each type, are one thing here: they
-- share their code.
--     covered_test.lua FILE.ptx...        the PTX of tests/hostsim/micro and of kinds.lua
package.path = "./?.lua;" .. package.path
local parse = require("tests.hostsim.ptx.parse").parse

-- Instructions that no recording has, each with what tests it instead. Lua patterns.
local OTHERWISE = {
  { "^wgmma%.", "//tests/hostsim/micro:wgmma__ptx, which is manual: its PTX has ten megabytes" },
  { "^atom%.global%.min%.u32", "the variants' checks of lengths that a call may not have, whose fault is the least sequence (tests/checks/lengths.c)" },
  { "^atom%.global%.max%.s32", "the variants' checks of the largest logit (tests/checks/logit.c)" },
}

local tested = {}
for _, name in ipairs(arg) do
  local file <close> = assert(io.open(name))
  for _, kernel in ipairs(parse(file:read("a")).kernels) do
    for _, item in ipairs(kernel.items) do
      if item.kind == "instruction" then tested[item.op] = true end
    end
  end
end

local rows, names_of = {}, {} -- a row is the function that writes it
local function add(name, row)
  if not names_of[row] then
    names_of[row] = {}
    rows[#rows + 1] = row
  end
  table.insert(names_of[row], name)
end
for name, row in pairs(require("tests.hostsim.ptx.arithmetic").rows) do add(name, row) end
for _, class in ipairs { "memory", "threads", "asynchronous" } do
  for name, emit in pairs(require("tests.hostsim.ptx." .. class).emitters) do add(name, emit) end
end

local without = {}
for _, row in ipairs(rows) do
  local known
  table.sort(names_of[row])
  for _, name in ipairs(names_of[row]) do
    known = known or tested[name]
    for _, other in ipairs(OTHERWISE) do known = known or name:find(other[1]) end
  end
  if not known then without[#without + 1] = names_of[row][1] end
end
table.sort(without)
for _, name in ipairs(without) do
  io.stderr:write(("%s has no test; a micro-test that uses it, recorded on a GPU, would be right, or no row for it\n"):format(name))
end
print(("%d rows, %d without a test"):format(#rows, #without))
os.exit(#without == 0, true)
