-- A spec file to plain data. Only text is read, of bounded size, and it is parsed as data (gen/parse.lua): it is never
-- compiled and never run, so a spec cannot loop, call, allocate without bound, or reach anything outside itself. Keep
-- it so.
local parse = require("gen.parse")

local LARGEST_FILE = 256 * 1024

local function read(path)
  local file, why = io.open(path, "rb")
  if not file then return nil, why end
  local content, failed = file:read(LARGEST_FILE + 1)
  file:close()
  if failed then return nil, failed end
  return content or ""
end

-- Why the bytes cannot be a spec, and what would be right; nil when they may be one.
local function refuse(content)
  if #content > LARGEST_FILE then
    return ("larger than %d KiB"):format(LARGEST_FILE // 1024), "a spec is a page of data"
  end
  if content:sub(1, 1) == "\27" then return "compiled Lua, not text", "give the source text" end
  if content:find("\0", 1, true) then return "holds NUL bytes", "a spec is plain text" end
end

--- The data of the spec at `path`, its places (see gen/parse.lua), or nil; mistakes go to `problems`.
return function(path, problems)
  local content, why = read(path)
  if not content then
    problems:add(1, "spec", "cannot be read: " .. why:gsub("^.*: ", ""), "give a readable file with --spec")
    return nil
  end
  local wrong, right = refuse(content)
  if wrong then
    problems:add(1, "spec", wrong, right)
    return nil
  end
  return parse.parse(content:gsub("^\239\187\191", ""), problems)
end
