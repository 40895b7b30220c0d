-- tools/ptxas.lua, the judge of what ptxas reports: which kernels it lets pass, and what it says of the others.
-- refusal_*.txt are what it said of kernels that were compiled for this test (tests/cuda/local_memory.cu); they are
-- absent without nvcc.
local ptxas = dofile("tools/ptxas.lua")
local checks = 0

local function expect(right, what)
  checks = checks + 1
  if not right then error(what, 2) end
end

local function log(frame, stores, loads, arch)
  return ([[
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'glint_bwd_delta' for 'sm_%s'
ptxas info    : Function properties for glint_bwd_delta
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 48 registers, used 0 barriers, 696 bytes cmem[0]
ptxas info    : Compiling entry function 'glint_bwd' for 'sm_%s'
ptxas info    : Function properties for glint_bwd
    %d bytes stack frame, %d bytes spill stores, %d bytes spill loads
ptxas info    : Used 255 registers, used 16 barriers, 64 bytes smem, 696 bytes cmem[0]
]]):format(arch, arch, frame, stores, loads)
end

local kernels = ptxas.kernels(log(0, 0, 0, "90"))
expect(#kernels == 2 and kernels[1].name == "glint_bwd" and kernels[2].name == "glint_bwd_delta", "the kernels by name")
expect(kernels[1].registers == 255 and kernels[1].barriers == 16 and kernels[1].shared == 64 and kernels[1].arch == "90", "numbers")
expect(kernels[2].registers == 48 and kernels[2].shared == 0, "numbers of the other kernel")
expect(#ptxas.complaints(kernels) == 0, "nothing to complain of")
for _, case in ipairs({ { 8, 0, 0 }, { 0, 4, 0 }, { 0, 0, 4 }, { 16, 12, 20 } }) do
  local complaints = ptxas.complaints(ptxas.kernels(log(case[1], case[2], case[3], "87")))
  expect(#complaints == 1 and complaints[1]:find("glint_bwd on sm_87", 1, true), "one kernel is at fault")
  expect(complaints[1]:find(("a frame of %d bytes, spills of %d bytes stored and %d loaded"):format(table.unpack(case)), 1, true), complaints[1])
end
expect(not pcall(ptxas.kernels, "ptxas info    : Compiling entry function 'x' for 'sm_80'\n"), "a kernel without numbers was taken")

-- The program: by its exit status, as the build runs it.
local function judge(text, reason)
  local path = os.tmpname()
  local file <close> = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
  local done = os.execute(("'%s' tools/ptxas.lua NAME %s %s 2>/dev/null"):format(arg[-1], path, reason or ""))
  os.remove(path)
  return done == true
end
expect(judge(log(0, 0, 0, "80")), "a kernel without local memory was refused")
expect(not judge(log(8, 0, 0, "80")), "a frame was let pass")
expect(not judge(log(0, 4, 8, "80")), "spills were let pass")
expect(judge(log(8, 4, 8, "80"), "'measured: no slower'"), "a reason did not count")
expect(not judge("nothing compiled\n"), "a log without kernels was let pass")

local function loss(code, why)
  return ("ptxas info    : (C%d) Potential Performance Loss: wgmma.mma_async instructions are serialized due to %s in the function 'glint_fwd'\n")
    :format(code, why)
end
local INJECTED = "ptxas info    : (C%d) warpgroup.%s is injected in around line 73 by compiler to allow use of registers in function 'x'\n"
for code = 7505, 7515 do
  local text = loss(code, "insufficient register resources for the wgmma pipeline") .. log(0, 0, 0, "90a")
  local found = ptxas.serialised(text)
  expect(#found == 1 and found[1]:find(("^%%(C%d%%) .* in the function 'glint_fwd'$"):format(code)), "C" .. code .. " is not told")
  expect(not judge(text), "C" .. code .. " was let pass")
  expect(not judge(text, "'a reason'"), "a reason for spills lets C" .. code .. " pass")
end
expect(not judge(loss(7999, "another number of another release") .. log(0, 0, 0, "90a")), "serialized products under another number were let pass")
for _, code in ipairs({ 7504, 7516, 7517, 7519 }) do
  expect(judge(INJECTED:format(code, "wait") .. log(0, 0, 0, "90a")), ("C%d says nothing of serialized products"):format(code))
end

for i = 1, #arg do
  local message = ptxas.read(arg[i])
  if arg[i]:find("serialised", 1, true) then
    expect(message:find("(C7511)", 1, true) and message:find("the function 'serialised'", 1, true), arg[i] .. ": " .. message)
    expect(message:find("lib/device/wgmma.h", 1, true), message)
  elseif arg[i]:find("%.ptxas$") then
    -- A log that names nvcc's temporary files. Two compilations at once may give theirs the same name, so their folder
    -- must be their own.
    local files = 0
    for file in message:gmatch("[^%s\"=]*tmpxft[^%s\"]*") do
      files = files + 1
      expect(file:find(arg[i]:match("[^/]+$") .. ".tmp/tmpxft", 1, true) or not file:find("/", 1, true), file .. " is in a folder that others share")
    end
    expect(files > 3, "the log names " .. files .. " temporary files")
  else
    expect(message:find("local_memory on sm_80 uses local memory", 1, true), arg[i] .. ": " .. message)
    expect(message:find('spills = "why"', 1, true), message)
    local stored = tonumber(message:match("spills of (%d+) bytes stored"))
    expect((stored > 0) == (arg[i]:find("spilling", 1, true) ~= nil), message)
  end
end
print(("ptxas_test: %d checks, %d files of compilations"):format(checks, #arg))
