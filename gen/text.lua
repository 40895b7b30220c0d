-- Small functions on text that the whole generator shares: showing a value from a spec safely, the nearest of several
-- names, a list as words, a number as C writes it. Pure functions only: nothing here reads a file or knows what a spec
-- is.
local text = {}

--- A value from a spec, fit for one line of a message: quoted, control characters escaped, shortened.
function text.show(value)
  if type(value) == "table" then return "a table" end
  if type(value) ~= "string" then return tostring(value) end
  local short = #value > 60 and value:sub(1, 57) .. "..." or value
  return '"' .. short:gsub("[%c\"\\\127-\255]", function(c) return ("\\x%02X"):format(c:byte()) end) .. '"'
end

--- Keys in a fixed order: numbers by value, then strings bytewise.
function text.sorted_keys(map)
  local keys = {}
  for key in pairs(map) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    if type(a) ~= type(b) then return type(a) == "number" end
    return a < b
  end)
  return keys
end

--- A value of a record as Lua would write it.
function text.plain(value)
  if type(value) == "string" then return ("%q"):format(value) end
  if type(value) ~= "table" then return tostring(value) end
  if next(value) == nil then return "{}" end
  local parts = {}
  for i, entry in ipairs(value) do parts[i] = text.plain(entry) end
  if #parts > 0 then return "{ " .. table.concat(parts, ", ") .. " }" end
  for i, key in ipairs(text.sorted_keys(value)) do parts[i] = key .. " = " .. text.plain(value[key]) end
  return "{ " .. table.concat(parts, ", ") .. " }"
end

--- Values as `a, b or c`.
function text.words(values, last)
  local shown = {}
  for i, value in ipairs(values) do shown[i] = text.show(value) end
  if #shown < 2 then return shown[1] or "nothing" end
  return table.concat(shown, ", ", 1, #shown - 1) .. " " .. (last or "or") .. " " .. shown[#shown]
end

function text.contains(list, value)
  for _, entry in ipairs(list) do
    if entry == value then return true end
  end
  return false
end

-- Levenshtein distance, two rows of the table at a time.
local function distance(a, b)
  local row = {}
  for j = 0, #b do row[j] = j end
  for i = 1, #a do
    local diagonal = row[0]
    row[0] = i
    for j = 1, #b do
      local replace = diagonal + (a:byte(i) == b:byte(j) and 0 or 1)
      diagonal = row[j]
      row[j] = math.min(replace, row[j] + 1, row[j - 1] + 1)
    end
  end
  return row[#b]
end

--- Up to `count` of `names`, the nearest to `wanted` first; ties in the order of the names.
function text.nearest(wanted, names, count)
  local ranked = {}
  for i, name in ipairs(names) do ranked[i] = { name = name, far = distance(wanted:sub(1, 200), name), at = i } end
  table.sort(ranked, function(a, b)
    if a.far ~= b.far then return a.far < b.far end
    return a.at < b.at
  end)
  local found = {}
  for i = 1, math.min(count, #ranked) do found[i] = ranked[i].name end
  return found
end

--- The one name that a mistyped word most likely meant, or nil when none is near. Names that are numbers are near
-- nothing.
function text.meant(wanted, names)
  if type(names[1]) ~= "string" then return nil end
  local best = text.nearest(wanted, names, 1)[1]
  if best and distance(wanted:sub(1, 200), best) <= math.max(2, #best // 3) then return best end
end

--- A number for C: integers as they are, floats with the fewest digits that read back as the same value; nil for inf
-- and NaN.
function text.number(value)
  if math.type(value) == "integer" then return ("%d"):format(value) end
  if value ~= value or value == math.huge or value == -math.huge then return nil end
  for digits = 15, 17 do
    local written = ("%." .. digits .. "g"):format(value)
    if tonumber(written) == value then return written:find("[.e]") and written or written .. ".0" end
  end
end

--- Bytes as `12.5 KiB`, exact below 1 KiB.
function text.bytes(count)
  if count < 1024 then return ("%d bytes"):format(count) end
  return (("%.1f"):format(count / 1024):gsub("%.0$", "")) .. " KiB"
end

return text
