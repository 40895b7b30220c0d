-- proposals_test.lua LOG...: what ptxas said of the proposed tiles. None uses local memory, and the sample has every architecture that it should
-- have, in all passes.
local ptxas = dofile("tools/ptxas.lua")

local WANTED, LEAST = { "86", "87", "100" }, 16
local count = {}
for _, path in ipairs(arg) do
  local kernels = ptxas.kernels(ptxas.read(path))
  assert(#kernels > 0, path .. " is of no kernel")
  for _, complaint in ipairs(ptxas.complaints(kernels)) do error(complaint) end
  local key = path:match("([^/_]+)_[^/]*$") .. " " .. kernels[1].arch
  count[key] = (count[key] or 0) + 1
end
assert(#arg >= LEAST, ("a sample of %d, and %d are wanted"):format(#arg, LEAST))
for _, arch in ipairs(WANTED) do
  for _, pass in ipairs({ "fwd", "bwd", "dec" }) do
    local key = pass .. " " .. arch
    assert(count[key], "nothing for " .. key)
    print(("%d kernels of %s for sm_%s, without spills"):format(count[key], pass, arch))
  end
end
