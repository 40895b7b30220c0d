-- Has every primitive of lib/device/ a micro-kernel, and is its text the one that a GPU ran when the micro-kernels were recorded?
--     lua5.4 tests/hostsim/micro/primitives_test.lua        from the root
-- Prints which groups use each. The GPU's side of the headers counts: what the simulator has beside it must be shown to be the same.
package.path = "./?.lua;" .. package.path
local texts = require("tests.hostsim.micro.texts")

local found = texts.primitives(".")
local names, wrong = texts.sorted(found), 0
for _, name in ipairs(names) do
  local primitive = found[name]
  print(("%-32s %s"):format(name, table.concat(primitive.users, " ")))
  if primitive.unused then
    wrong = wrong + 1
    io.stderr:write(("%s: %s has no micro-kernel that is recorded for sm_%d.\n"):format(primitive.file, name, primitive.unused // 10))
  elseif primitive.unrecorded then
    wrong = wrong + 1
    io.stderr:write(("%s: the text of %s, or of what it calls, has changed since a GPU ran it for sm_%d.\n"):format(primitive.file, name,
      primitive.unrecorded // 10))
  end
end
print(("%d primitives, %d without a recording of their text"):format(#names, wrong))
if wrong > 0 then
  io.stderr:write("Write the missing micro-kernels, then record again where there is an H100 or H200:\n",
    "    tests/hostsim/micro/record.sh all tests/hostsim/micro/golden\n",
    "and commit the golden files only if the numbers in them are those that you expect.\n")
end

-- Are the lists what they are thought to be?
for _, name in ipairs({ "mbarrier_wait", "tma_load", "wgmma_wait", "wgmma_m64n8k16_bf16", "wgmma_m64n256k8_tf32_ra" }) do
  assert(found[name], name .. " is not found in the headers")
end
local files = {}
for _, primitive in pairs(found) do files[primitive.file] = true end
local headers <close> = assert(io.popen("ls lib/device/ptx/*.h"))
for header in headers:lines() do assert(files[header], header .. " has no function that a micro-kernel's file includes") end
os.exit(wrong == 0)
