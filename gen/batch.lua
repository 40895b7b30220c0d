-- What `emit --outputs FILE` is to emit: a line of FILE is `PATH NAME` for a kernel, or `PATH --table NAME...` for a
-- dispatch table. A path has no spaces.
local batch = {}

local function parsed(line)
  local words = {}
  for word in line:gmatch("%S+") do words[#words + 1] = word end
  local path, is_table = table.remove(words, 1), words[1] == "--table"
  if is_table then table.remove(words, 1) end
  if #words == 0 or not is_table and #words > 1 then return nil end
  return { path = path, table = is_table, variant = words }
end

--- The lines of the file at `path` as a list of { path, table, variant, line }, or nil and why.
function batch.read(path)
  local file, why = io.open(path, "rb")
  local content
  if file then
    content, why = file:read("a")
    file:close()
  end
  if not content then
    return nil, ("%s: cannot be read: %s; give a file with a line for each output"):format(path, (why:gsub("^.*: ", "")))
  end
  local wanted, number = {}, 0
  for line in content:gmatch("([^\n]*)\n?") do
    number = number + 1
    if line ~= "" then
      local want = parsed(line)
      if not want then return nil, ("%s:%d: not an output; `PATH NAME`, or `PATH --table NAME...`"):format(path, number) end
      want.line = number
      wanted[#wanted + 1] = want
    end
  end
  if #wanted == 0 then return nil, path .. ":1: no output; a line for each, `PATH NAME`" end
  return wanted
end

return batch
