-- Makes one deliberate fault in an emitted kernel:
--
--   lua apply.lua SOURCE OUT COUNT WAS NOW [HEADER]
--
-- writes SOURCE to OUT with the text WAS, which must be there exactly COUNT times, replaced by NOW. With HEADER, the path of an included
-- file, that file's text stands before SOURCE's, so that a fault can be in what the kernels share: its guard keeps out the file itself,
-- however it is included. #line keeps the line numbers of both. Text that does not fit is an error: a fault that is no longer made would
-- otherwise count as one that is caught.
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

--- The text of `header`, the file `path`, and then `source`, or nil and a message.
function apply.inline(source, path, header, source_name)
  local guard = header:match("\n#ifndef ([%w_]+)\n#define %1\n")
  if not guard then return nil, path .. " has no guard, so it would be included twice" end
  return ('#line 1 "%s"\n%s#line 1 "%s"\n%s'):format(path, header, source_name, source)
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
  local source_path, out, count, was, now, header_path = table.unpack(arguments)
  if #arguments < 5 or #arguments > 6 or not math.tointeger(count) then
    return nil, "usage: apply.lua SOURCE OUT COUNT WAS NOW [HEADER]"
  end
  local source, problem = read(source_path)
  if source and header_path then
    local header
    header, problem = read(header_path)
    source = header and source
    if source then source, problem = apply.inline(source, header_path, header, source_path) end
  end
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
