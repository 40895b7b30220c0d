-- What a change made of the machine code of GPU kernels. Run it from the root of the repository, before the change and
-- after it:
--
--   lua5.4 tools/sass.lua keep FOLDER SPEC [ARCH [PATTERN]]   compiles the GPU variants of a spec whose names match PATTERN, a Lua pattern, for
--                                                             ARCH ("80" unless said), and keeps their machine code in FOLDER
--   lua5.4 tools/sass.lua compare BEFORE AFTER                compares two such folders: exit status 1 when a kernel needs more registers or
--                                                             local memory, or is missing. Registers are counted as a GPU hands them out,
--                                                             8 a thread
--
-- Two kernels are the same when their instructions are, but for where the constant bank has a parameter. cuobjdump is
-- taken from CUOBJDUMP, or from PATH; it comes with the toolkit, or as a Python package (nvidia-cuda-cuobjdump, which
-- wants nvidia-cuda-nvdisasm beside it).
package.path = "./tools/?.lua;" .. package.path
local ptxas = require("ptxas")

-- As NVCC_FLAGS of tools/cuda.bzl.
local FLAGS = "-cubin -O3 -std=c++17 -I. -Ilib/device/ptx -Ilib/device/nvcc -Xptxas=-v,-fmad=false --Werror=all-warnings"

local function run(command)
  if not os.execute(command) then error("failed: " .. command, 0) end
end

local function lines_of(command)
  local pipe <close> = assert(io.popen(command))
  local lines = {}
  for line in pipe:lines() do lines[#lines + 1] = line end
  return lines
end

--- The instructions of a cubin by kernel, without their encodings and without offsets into the constant bank.
local function instructions_of(cubin)
  local kernels, current = {}, nil
  for _, line in ipairs(lines_of(("%s -sass '%s'"):format(os.getenv("CUOBJDUMP") or "cuobjdump", cubin))) do
    local name, text = line:match("Function : ([%w_]+)"), line:match("^%s*/%*%x+%*/%s+(.-;)")
    if name then
      current = {}
      kernels[name] = current
    elseif text and current then
      current[#current + 1] = (text:gsub("c%[0x%x+%]%[[^%]]*%]", "c[]"):gsub("%s+", " "))
    end
  end
  return kernels
end

local function keep(folder, spec, arch, pattern)
  run(("mkdir -p '%s'"):format(folder))
  for _, name in ipairs(lines_of(("lua5.4 gen/glint.lua list --spec '%s'"):format(spec))) do
    if name:match("__sm") and name:match(pattern or "") then
      local at = ("%s/%s.sm_%s"):format(folder, name, arch or "80")
      run(("lua5.4 gen/glint.lua emit --spec '%s' --variant '%s' > '%s.cu'"):format(spec, name, at))
      run(("nvcc -arch=sm_%s %s -o '%s.cubin' '%s.cu' 2> '%s.log' || { cat '%s.log'; false; }"):format(arch or "80", FLAGS, at, at, at, at))
      local file <close> = assert(io.open(at .. ".sass", "w"))
      local kernels = instructions_of(at .. ".cubin")
      for _, kernel in ipairs(ptxas.kernels(ptxas.read(at .. ".log"))) do
        file:write(("%s registers=%d local=%d\n"):format(kernel.name, kernel.registers, kernel.frame + kernel.spill_stores + kernel.spill_loads))
        for _, line in ipairs(kernels[kernel.name]) do file:write("  ", line, "\n") end
      end
      run(("rm '%s.cubin' '%s.log'"):format(at, at))
    end
  end
end

--- The kernels of a kept file by name: { registers, memory, lines, text }.
local function read(path)
  local kernels, current = {}, nil
  local file <close> = io.open(path)
  if not file then return kernels end
  for line in file:lines() do
    local name, registers, memory = line:match("^(%S+) registers=(%d+) local=(%d+)$")
    if name then
      current = { registers = tonumber(registers), memory = tonumber(memory), lines = {} }
      kernels[name] = current
    else
      current.lines[#current.lines + 1] = line
    end
  end
  for _, kernel in pairs(kernels) do kernel.text = table.concat(kernel.lines, "\n") end
  return kernels
end

local function compare(before, after)
  local same, different, worse = 0, 0, 0
  for _, file in ipairs(lines_of(("cd '%s' && ls *.sass"):format(before))) do
    local old, new, names = read(before .. "/" .. file), read(after .. "/" .. file), {}
    for name in pairs(old) do names[#names + 1] = name end
    table.sort(names)
    for _, name in ipairs(names) do
      local a, b = old[name], new[name]
      if b and a.text == b.text then
        same = same + 1
      else
        local bad = not b or (b.registers + 7) // 8 > (a.registers + 7) // 8 or b.memory > a.memory
        different, worse = different + 1, worse + (bad and 1 or 0)
        print(not b and ("%s: missing"):format(name) or ("%s: registers %d -> %d, local memory %d -> %d, instructions %d -> %d%s")
          :format(name, a.registers, b.registers, a.memory, b.memory, #a.lines, #b.lines, bad and "  WORSE" or ""))
      end
    end
  end
  print(("%d kernels have the same machine code, %d another one, %d of them a worse one"):format(same, different, worse))
  if same + different == 0 then error("nothing to compare", 0) end
  os.exit(worse == 0)
end

local command, from, to, arch, pattern = table.unpack(arg)
if command == "keep" and to then
  keep(from, to, arch, pattern)
elseif command == "compare" and to then
  compare(from, to)
else
  error("usage: lua5.4 tools/sass.lua keep FOLDER SPEC [ARCH [PATTERN]] | compare BEFORE AFTER", 0)
end
