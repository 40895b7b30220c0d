-- Is every line that unreached.lua has a reason for in its source, once? And are chains of inlined calls read right?
package.path = "tests/hostsim/ptx/?.lua;" .. package.path
local unreached, parse = require("unreached"), require("parse")

for _, row in ipairs(unreached.rows) do
  local place = unreached.place(".", row)
  assert(place:find("^[%w_]+%.%a+:%d+$"), place)
end
local row = unreached.rows[#unreached.rows] -- a line by itself
local function fails(text)
  return not pcall(unreached.place, ".", { file = row.file, text = text })
end
assert(fails("a text that no source has"))
-- Lines beside the row's, and lines that are inlined in another one, which comes after them in a chain.
local beside = { file = row.file, text = row.text, first = 1, last = 2 }
local name, number = unreached.place(".", row):match("^(.*:)(%d+)$")
local function means(other, format, ...) return unreached.means(".", other)(format:format(...)) end
assert(means(row, "a.h:1 in %s%d in b.h:2", name, number) and not means(row, "a.h:1 in %s%d in b.h:2", name, number + 1))
assert(not means(row, "%s%d1 in b.h:2", name, number))
assert(means(beside, "%s%d", name, number + 2) and not means(beside, "%s%d", name, number) and not means(beside, "%s%d", name, number + 3))
beside.within = row.text
assert(means(beside, "%s%d in c.h:1 in %s%d", name, number + 1, name, number) and not means(beside, "%s%d in c.h:1", name, number + 1))
assert(fails("#")) -- several lines

local chains = parse.chains([[
	.loc	1 12 3
	add.s32 	%r1, %r2, %r3;
	.loc	2 7 5, function_name $L__info_string1, inlined_at 1 12 3
	sub.s32 	%r1, %r2, %r3;
	.loc	3 5 9, function_name $L__info_string2, inlined_at 2 7 5
	bra 	$L__BB0_1;
	.file	1 "/a/kernel.cu"
	.file	2 "/a/b/walk.h"
	.file	3 "device_impl.h"
]])
assert(chains[2] == "kernel.cu:12", chains[2])
assert(chains[4] == "walk.h:7 in kernel.cu:12", chains[4])
assert(chains[6] == "device_impl.h:5 in walk.h:7 in kernel.cu:12", chains[6])
print(("unreached_test: %d reasons"):format(#unreached.rows))
