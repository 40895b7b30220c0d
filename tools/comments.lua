-- comments.lua [--exempt] FILE...: comment lines have at most 120 columns, and no enumerator is broken behind its `=`,
-- which clang-format does to one whose comment is too long: the comment stands above it then. clang-format moves no
-- words of a comment. Files of tools/comments_exempt.txt are older than the rule; the list may only shrink. --exempt
-- prints what it would be.
local WIDTH = 120
local LIST = "tools/comments_exempt.txt"

local function is_comment(line)
  return line:find("^%s*%-%-") or line:find("^%s*//") or line:find("^%s*%*") or line:find("/%*") or line:find("%*/%s*$")
end

-- What is wrong with the lines of a file, one sentence each.
local function faults(path)
  local found, number = {}, 0
  for line in io.lines(path) do
    number = number + 1
    local width = utf8.len(line) or #line
    if width > WIDTH and is_comment(line) then
      found[#found + 1] = ("%s:%d: a comment line of %d columns; at most %d"):format(path, number, width, WIDTH)
    elseif line:find("^%s*%u[%u%d_]+ =$") then
      found[#found + 1] = ("%s:%d: an enumerator broken behind `=`; put its comment above it"):format(path, number)
    end
  end
  return found
end

local exempt, listing, failed = {}, arg[1] == "--exempt", false
for path in io.lines(LIST) do exempt[path] = true end
for i = listing and 2 or 1, #arg do
  local path = arg[i]
  local found = faults(path)
  if listing then
    if #found > 0 then print(path) end
    goto continue
  end
  if exempt[path] and #found == 0 then print(("%s: has no long comment line any more; take it off %s"):format(path, LIST)) end
  if not exempt[path] and #found > 0 then
    failed = true
    print(table.concat(found, "\n"))
  end
  ::continue::
end
os.exit(not failed)
