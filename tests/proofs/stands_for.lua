-- Each line of a model that has /* @ FILE: LINE */ stands for that line of the tree: lua stands_for.lua MODEL... With
-- LINE | LINE it stands for lines that follow one another, as their order matters; a `|` of a line itself is written
-- `\|`. Lines that are no longer there, as they are written, have changed, and the model must be looked at again. A
-- comment's own end is left out.
local trees, count = {}, 0

local function trimmed(text) return (text:match("^%s*(.-)%s*$"):gsub("%s*%*/$", "")) end

local function lines_of(path)
  if not trees[path] then
    trees[path] = {}
    for line in io.lines(path) do table.insert(trees[path], trimmed(line)) end
  end
  return trees[path]
end

local function has(tree, wanted)
  for at = 1, #tree - #wanted + 1 do
    local same = 0
    while same < #wanted and tree[at + same] == wanted[same + 1] do same = same + 1 end
    if same == #wanted then return true end
  end
  return false
end

for _, path in ipairs(arg) do
  local number, own = 0, 0
  for line in io.lines(path) do
    number = number + 1
    local file, text = line:match("/%* @ ([%w_/%.]+): (.-)%s*%*/%s*$")
    if file then
      local wanted = {}
      for part in (text .. " | "):gmatch("(.-) | ") do table.insert(wanted, trimmed((part:gsub("\\|", "|")))) end
      if not has(lines_of(file), wanted) then
        io.stderr:write(("%s:%d: %s has no lines `%s`: look at the change, then at the model\n"):format(path, number, file, text))
        os.exit(1)
      end
      own = own + #wanted
    elseif line:find("/* @", 1, true) then
      io.stderr:write(("%s:%d: a line behind an @ is not read\n"):format(path, number))
      os.exit(1)
    end
  end
  if own < 3 then error(path .. " stands for nothing", 0) end
  count = count + own
end
print(("%d lines of %d models stand as they did"):format(count, #arg))
