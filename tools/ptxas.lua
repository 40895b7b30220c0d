-- What ptxas says of a compiled kernel (-Xptxas=-v), and the judge of it.
--
--   lua ptxas.lua NAME LOG [REASON]   fails when a kernel of variant NAME keeps registers or arrays in local memory
--                                     and the spec gives no REASON (a tile's `spills`). Local memory is slow, and
--                                     the library does not run such a kernel on a device, because a driver may
--                                     allocate for it at a launch. Fails too, for no reason allowed, when ptxas has
--                                     made wgmma's products wait for one another (C7505 to C7515): such a kernel is
--                                     right, and takes twice as long.
local ptxas = {}

local FIELDS = { "registers", "frame", "spill_stores", "spill_loads", "shared", "barriers" }

--- The kernels of a log, sorted by name: { name, arch, registers, frame, spill_stores, spill_loads, shared (static),
-- barriers }, bytes.
function ptxas.kernels(text)
  local kernels, current = {}, nil
  for line in text:gmatch("[^\n]+") do
    local name, arch = line:match("Compiling entry function '([%w_]+)' for 'sm_(%w+)'")
    if name then
      current = { name = name, arch = arch }
      kernels[#kernels + 1] = current
    elseif current then
      local frame, stores, loads = line:match("(%d+) bytes stack frame, (%d+) bytes spill stores, (%d+) bytes spill loads")
      if frame then
        current.frame = math.max(current.frame or 0, tonumber(frame))
        current.spill_stores = (current.spill_stores or 0) + tonumber(stores)
        current.spill_loads = (current.spill_loads or 0) + tonumber(loads)
      end
      if line:find("Used %d+ registers") then
        current.registers = tonumber(line:match("Used (%d+) registers"))
        current.barriers = tonumber(line:match("used (%d+) barriers") or 0)
        current.shared = tonumber(line:match("(%d+) bytes smem") or 0)
      end
    end
  end
  for _, kernel in ipairs(kernels) do
    for _, field in ipairs(FIELDS) do
      if not kernel[field] then error(("ptxas says nothing of the %s of %s"):format(field, kernel.name), 0) end
    end
  end
  table.sort(kernels, function(a, b) return a.name < b.name end)
  return kernels
end

--- A sentence for each kernel that uses local memory.
function ptxas.complaints(kernels)
  local found = {}
  for _, kernel in ipairs(kernels) do
    if kernel.frame + kernel.spill_stores + kernel.spill_loads > 0 then
      found[#found + 1] = ("%s on sm_%s uses local memory: a frame of %d bytes, spills of %d bytes stored and %d loaded, at %d registers")
        :format(kernel.name, kernel.arch, kernel.frame, kernel.spill_stores, kernel.spill_loads, kernel.registers)
    end
  end
  return found
end

--- A sentence for each kernel whose products run one after another.
function ptxas.serialised(text)
  local found = {}
  for line in text:gmatch("[^\n]+") do
    local code = tonumber(line:match("%(C(75%d%d)%)"))
    if code and code >= 7505 and code <= 7515 or line:find("wgmma.mma_async instructions are serialized", 1, true) then
      found[#found + 1] = line:gsub("^ptxas info%s*:%s*", "")
    end
  end
  return found
end

function ptxas.read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read("a")
end

local function main(name, log, reason)
  local text = ptxas.read(log)
  local kernels = ptxas.kernels(text)
  if #kernels == 0 then error(("%s: ptxas reported no kernel"):format(name), 0) end
  local serialised = ptxas.serialised(text)
  if #serialised > 0 then
    error(("%s\n%s: between a product and the wait for it nothing may touch its registers, no function may be called, and they must all fit: "
      .. "see lib/device/wgmma.h"):format(table.concat(serialised, "\n"), name), 0)
  end
  local complaints = ptxas.complaints(kernels)
  if #complaints > 0 and not reason then
    error(("%s\n%s: give the variant a smaller tile or more warps, leave the architecture out of the tile's archs, or allow it in the "
      .. "spec with spills = \"why\""):format(table.concat(complaints, "\n"), name), 0)
  end
end

if arg and arg[0]:match("ptxas%.lua$") then
  local done, why = pcall(main, table.unpack(arg))
  if not done then
    io.stderr:write(tostring(why), "\n")
    os.exit(1)
  end
end

return ptxas
