-- Each line of a model that ends in /* @ FILE: LINE */ stands for that line of the tree: lua stands_for.lua MODEL... A line that is no longer there, as it
-- is written, has changed, and the model must be looked at again.
local count = 0
for _, path in ipairs(arg) do
  local number, own = 0, 0
  for line in io.lines(path) do
    number = number + 1
    local file, text = line:match("/%* @ ([%w_/%.]+): (.-) %*/$")
    if file then
      local found = false
      for source in io.lines(file) do found = found or source:match("^%s*(.-)%s*$") == text end
      if not found then
        io.stderr:write(("%s:%d: %s has no line `%s`: look at the change, then at the model\n"):format(path, number, file, text))
        os.exit(1)
      end
      own = own + 1
    end
  end
  if own < 3 then error(path .. " stands for nothing", 0) end
  count = count + own
end
print(("%d lines of %d models stand as they did"):format(count, #arg))
