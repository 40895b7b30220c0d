-- Which instructions of a kernel's PTX no check entered: sums up what programs of translated PTX wrote to the files
-- that HOSTSIM_REACH named.
--
--   HOSTSIM_REACH=/tmp/reach bazel-bin/tests/NAME__ptx --variant=NAME && lua5.4 tests/hostsim/ptx/reach.lua /tmp/reach
--   lua5.4 tests/hostsim/ptx/reach.lua FILE MOST           the MOST largest stretches of each kernel that were not entered; 10 are told without it
local path, most = arg[1], tonumber(arg[2] or 10)
if not path then
  io.stderr:write("usage: reach.lua FILE [MOST]\n")
  os.exit(2, true)
end

local kernels, names = {}, {}
for line in io.lines(path) do
  local kernel, first, last, count, reached, place = line:match("^(%S+) (%d+) (%d+) (%d+) (%d) (.*)$")
  if not kernels[kernel] then
    kernels[kernel] = {}
    names[#names + 1] = kernel
  end
  local stretch = kernels[kernel][first] or { first = tonumber(first), last = tonumber(last), count = tonumber(count), place = place:match("^[^,]*") }
  stretch.reached = stretch.reached or reached == "1"
  kernels[kernel][first] = stretch
end

table.sort(names)
for _, name in ipairs(names) do
  local missed, all, entered, instructions = {}, 0, 0, 0
  for _, stretch in pairs(kernels[name]) do
    all, instructions = all + 1, instructions + stretch.count
    if stretch.reached then entered = entered + stretch.count else missed[#missed + 1] = stretch end
  end
  print(("%s: %d of %d instructions not reached (%.1f %%), %d of %d stretches"):format(name, instructions - entered, instructions,
    100 * (instructions - entered) / instructions, #missed, all))
  table.sort(missed, function(a, b) return a.count > b.count or (a.count == b.count and a.first < b.first) end)
  for n = 1, math.min(most, #missed) do
    print(("%6d  lines %d-%d: %s"):format(missed[n].count, missed[n].first, missed[n].last, missed[n].place))
  end
end
