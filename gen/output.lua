-- Files written whole or not at all: the text goes to PATH.partial, which is renamed over PATH when all of it is on
-- the disk. Nothing else in the generator opens a file for writing.
local output = {}

local function is_directory(path)
  local file = io.open(path, "rb")
  if not file then return false end
  local _, _, code = file:read(0)
  file:close()
  return code == 21 -- EISDIR
end

local function put(path, content)
  local file, why = io.open(path, "wb")
  if not file then return nil, why end
  local ok, failed = file:write(content)
  local closed, close_failed = file:close()
  if not ok then return nil, failed end
  if not closed then return nil, close_failed end
  return true
end

--- Writes `content` to `path`, or to standard output when it is nil. Returns true, or nil and why; then an older file
-- is untouched.
function output.write(path, content)
  if path == nil then
    local ok, why = io.stdout:write(content)
    if ok then ok, why = io.stdout:flush() end
    return ok and true, why
  end
  if path:find("^/dev/") then return put(path, content) end
  if is_directory(path) then return nil, path .. ": is a directory; give a file" end
  local partial = path .. ".partial"
  local ok, why = put(partial, content)
  if ok then ok, why = os.rename(partial, path) end
  if not ok then
    os.remove(partial)
    return nil, why
  end
  return true
end

return output
