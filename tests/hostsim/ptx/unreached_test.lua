-- Is every line that unreached.lua has a reason for in its source, once? And are chains of inlined calls read right?
package.path = "tests/hostsim/ptx/?.lua;" .. package.path
local unreached, parse = require("unreached"), require("parse")

for _, row in ipairs(unreached.rows) do
  local place = unreached.place(".", row)
  assert(place:find("^[%w_]+%.h:%d+$"), place)
end
local row = unreached.rows[1]
local function fails(text)
  return not pcall(unreached.place, ".", { file = row.file, text = text })
end
assert(fails("a text that no source has"))
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
