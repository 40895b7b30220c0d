-- The records as text for people and for other programs: names, bzl, json, table. One function a format; each is a
-- pure function of the records, which come sorted by name.
local axes = require("gen.axes")
local registry = require("gen.registry")

local list = {}

-- The columns of every record after its name and its axes; a family's own follow (family.listed).
local COLUMNS = { "family", "tile_m", "tile_n", "tile_from", "file" }

local function columns(record)
  local names = { "name" }
  for _, axis in ipairs(axes.list) do
    if record[axis.name] ~= axes.default(axis, record) then names[#names + 1] = axis.name end
  end
  for _, name in ipairs(COLUMNS) do names[#names + 1] = name end
  for _, name in ipairs(registry.get(record.family).listed) do names[#names + 1] = name end
  return names
end

-- Starlark and JSON write these values alike, but for true and false.
local function literal(value, words)
  if type(value) == "table" then
    local parts = {}
    for i, entry in ipairs(value) do parts[i] = literal(entry, words) end
    return "[" .. table.concat(parts, ", ") .. "]"
  end
  if type(value) == "boolean" then return words[value] end
  if type(value) == "number" then return ("%d"):format(value) end
  return '"' .. value:gsub('[\\"]', "\\%0") .. '"'
end

local function dictionary(record, words)
  local parts = {}
  for _, name in ipairs(columns(record)) do
    if record[name] ~= nil then parts[#parts + 1] = ('"%s": %s'):format(name, literal(record[name], words)) end
  end
  return "{" .. table.concat(parts, ", ") .. "}"
end

function list.names(records)
  local lines = {}
  for i, record in ipairs(records) do lines[i] = record.name .. "\n" end
  return table.concat(lines)
end

function list.bzl(records, spec_name)
  local lines = {
    '"""The variants of the spec. Made by gen/glint.lua list --format bzl, and overwritten by it: change the spec."""\n\n',
    ('SPEC = "%s"\n\n'):format(spec_name), "VARIANTS = [\n",
  }
  for _, record in ipairs(records) do
    lines[#lines + 1] = "    " .. dictionary(record, { [true] = "True", [false] = "False" }) .. ",\n"
  end
  lines[#lines + 1] = "]\n"
  return table.concat(lines)
end

function list.json(records)
  local lines = {}
  for i, record in ipairs(records) do
    lines[i] = "  " .. dictionary(record, { [true] = "true", [false] = "false" })
  end
  return "[\n" .. table.concat(lines, ",\n") .. "\n]\n"
end

function list.table(records)
  local titles = { "variant", "family", "tile", "from", "budget", "line" }
  local rows, widths = { titles }, {}
  for _, record in ipairs(records) do
    local tile = ("%d x %d"):format(record.tile_m, record.tile_n)
    rows[#rows + 1] = { record.name, record.family, tile, record.tile_from, registry.get(record.family).size(record), tostring(record.line) }
  end
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do widths[i] = math.max(widths[i] or 0, #cell) end
  end
  local lines = {}
  for r, row in ipairs(rows) do
    local cells = {}
    for i, cell in ipairs(row) do cells[i] = cell .. (" "):rep(widths[i] - #cell) end
    lines[r] = table.concat(cells, "  "):gsub(" +$", "") .. "\n"
  end
  return table.concat(lines)
end

return list
