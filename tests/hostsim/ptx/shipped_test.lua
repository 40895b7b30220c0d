-- Is the PTX that the tests run what ptxas gets when a cubin is made? Both are compared but for what -lineinfo adds:
-- places in the source.
--     shipped_test.lua KEPT.ptx TESTED.ptx
local function lines_of(name)
  local list = {}
  for line in io.lines(name) do
    if line:find("^%s*%.section") then break end
    if not line:find("^%s*%.loc%s") and not line:find("^%s*%.file%s") and not line:find("^%s*//") and line:find("%S") then list[#list + 1] = line end
  end
  return list
end

local kept, tested = lines_of(arg[1]), lines_of(arg[2])
for n = 1, math.max(#kept, #tested) do
  if kept[n] ~= tested[n] then
    io.stderr:write(("line %d, without places, is\n%s\nwhere ptxas gets\n%s\n"):format(n, tested[n] or "not there", kept[n] or "nothing"))
    os.exit(1, true)
  end
end
print(("%d lines of PTX are those that ptxas gets"):format(#kept))
os.exit(#kept > 100, true)
