-- Makes one deliberate fault in an emitted kernel:
--
--   lua apply.lua SOURCE OUT COUNT WAS NOW
--
-- writes SOURCE to OUT with the text WAS, which must be there exactly COUNT times, replaced by NOW. For faults in
-- constants: choose.lua puts all others of a kernel into one file. Text that does not fit is an error: a fault that is
-- no longer made would otherwise count as one that is caught.
local apply = {}

local function plain(text) return (text:gsub("%%", "%%%%")) end

--- How often `part` is in `text`, without overlaps.
function apply.occurrences(text, part)
  local count, at = 0, 1
  while true do
    local first, last = text:find(part, at, true)
    if not first then return count end
    count, at = count + 1, last + 1
  end
end

--- `source` with `was` replaced by `now`, or nil and a message.
function apply.mutate(source, was, now, count)
  if was == "" then return nil, "there is no text to look for" end
  if was == now then return nil, "the change changes nothing" end
  local found = apply.occurrences(source, was)
  if found ~= count then
    return nil, ("the text to change is there %d times, not %d: the kernel was rewritten and the fault was not\n%s"):format(found, count, was)
  end
  return (source:gsub(was:gsub("%p", "%%%0"), plain(now)))
end

local function read(path)
  local file, problem = io.open(path, "rb")
  if not file then return nil, problem end
  local text = file:read("a")
  file:close()
  return text
end

function apply.main(arguments)
  local source_path, out, count, was, now = table.unpack(arguments)
  if #arguments ~= 5 or not math.tointeger(count) then return nil, "usage: apply.lua SOURCE OUT COUNT WAS NOW" end
  local source, problem = read(source_path)
  if source then source, problem = apply.mutate(source, was, now, math.tointeger(count)) end
  if not source then return nil, source_path .. ": " .. problem end
  local file
  file, problem = io.open(out, "wb")
  if not file then return nil, problem end
  local written = file:write(source)
  return (file:close() and written) and true or nil, "cannot write " .. out
end

if arg and arg[0] and arg[0]:match("apply%.lua$") then
  local done, problem = apply.main(arg)
  if not done then
    io.stderr:write(problem, "\n")
    os.exit(1)
  end
end

return apply
