-- Where the mutant of an entry of known.lua lies: a line is told by its text, and by its function, or the line before
-- it, where a file has the text more than once; what is changed in it by its number where the line has it more than
-- once.
local place = {}

--- The offsets in `text`, the entry's file, that the entry may mean. An entry that is exact has one.
function place.find(text, entry)
  local offsets, at, head, before = {}, 1, "", ""
  for line in (text .. "\n"):gmatch("([^\n]*)\n") do
    if line:find("^[%a_].*%(") then head = line end -- of a function
    local words = line:match("^%s*(.-)%s*$")
    if words == entry.line and (not entry.within or head:find("%f[%w_]" .. entry.within .. "%(")) and
      (not entry.after or before == entry.after) then
      local number, from = 0, 1
      while true do
        local first, last = line:find(entry.old, from, true)
        if not first then break end
        number, from = number + 1, last + 1
        if not entry.number or number == entry.number then offsets[#offsets + 1] = at + first - 1 end
      end
    end
    at, before = at + #line + 1, words
  end
  return offsets
end

--- The entry of `known` that is the mutant `m` of `text`, or nil.
function place.entry_of(known, m, text)
  for _, entry in ipairs(known) do
    if entry.file == m.file and entry.old == m.old and entry.new == m.new then
      local offsets = place.find(text, entry)
      if #offsets == 1 and offsets[1] == m.first then return entry end
    end
  end
end

return place
