-- Which instructions of a kernel's PTX no check entered: sums up what programs of translated PTX wrote to the files
-- that HOSTSIM_REACH named. What unreached.lua has a reason for is counted apart.
--
--   HOSTSIM_REACH=/tmp/reach bazel-bin/tests/NAME__ptx --variant=NAME
--   lua5.4 tests/hostsim/ptx/reach.lua /tmp/reach bazel-bin/tests/NAME__ptx.ptx
--   lua5.4 tests/hostsim/ptx/reach.lua FILE PTX MOST      the MOST largest stretches of each kernel that were not entered; 10 are told without it
--   lua5.4 tests/hostsim/ptx/reach.lua FILE PTX table     a row of a table for each kernel
local path, ptx, as_table, most = arg[1], arg[2], arg[3] == "table", tonumber(arg[3]) or 10
if not ptx then
  io.stderr:write("usage: reach.lua FILE PTX [MOST]\n")
  os.exit(2, true)
end
local here = arg[0]:match("^(.*)/") or "."
package.path = here .. "/?.lua;" .. package.path

local reasons = require("unreached")
for _, row in ipairs(reasons.rows) do row.means = reasons.means(here .. "/../../..", row) end
local file = assert(io.open(ptx))
local chains = require("parse").chains(file:read("a"))
file:close()

--- The reason why nothing enters a stretch of a kernel, if there is one.
local function reason_of(kernel, stretch)
  for _, row in ipairs(reasons.rows) do
    for line = kernel:find(row.kernel) and stretch.first or 1, kernel:find(row.kernel) and stretch.last or 0 do
      if chains[line] and row.means(chains[line]) then return row end
    end
  end
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
  local missed, all, missing, explained, instructions = {}, 0, 0, 0, 0
  local by_row, by_reason = {}, {}
  for _, stretch in pairs(kernels[name]) do
    all, instructions = all + 1, instructions + stretch.count
    local row = not stretch.reached and reason_of(name, stretch)
    if row then
      explained = explained + stretch.count
      by_row[row] = (by_row[row] or 0) + stretch.count
    elseif not stretch.reached then
      missing = missing + stretch.count
      missed[#missed + 1] = stretch
    end
  end
  for row, count in pairs(by_row) do
    local meant = math.min(count, row.most or count)
    by_reason[row.reason] = (by_reason[row.reason] or 0) + meant
    explained, missing = explained - (count - meant), missing + (count - meant)
    if count > meant then missed[#missed + 1] = { first = 0, last = 0, count = count - meant, place = "more than the reason is for: " .. row.reason } end
  end
  local share = 100 * missing / instructions
  if as_table then
    print(("| `%s` | %d | %d (%.1f %%) | %d |"):format(name, instructions, missing, share, explained))
    goto next
  end
  print(("%s: %d of %d instructions not reached (%.1f %%), %d of %d stretches; and %d (%.1f %%) that have a reason"):format(name, missing,
    instructions, share, #missed, all, explained, 100 * explained / instructions))
  for _, row in ipairs(reasons.rows) do
    if by_reason[row.reason] then print(("%6d  %s"):format(by_reason[row.reason], row.reason)) end
    by_reason[row.reason] = nil
  end
  table.sort(missed, function(a, b) return a.count > b.count or (a.count == b.count and a.first < b.first) end)
  for n = 1, math.min(most, #missed) do
    print(("%6d  lines %d-%d: %s"):format(missed[n].count, missed[n].first, missed[n].last, missed[n].place))
  end
  ::next::
end
