-- What a row takes beside the plainest problem: lengths given by the host, K and V linear, no sinks. A row has a set
-- of these words as a column of the table (lib/takes.h has the same list in C, and gen/tests/lists.lua compares the
-- two), and a second set: what fields of its family in the spec would add. The library's choice, its sentences and
-- docs/limits.md are made from the two columns.
local registry = require("gen.registry")
local text = require("gen.text")

local takes = {}

-- `says`: the words of a title; `fields`: those of the family's fields that a row needs, where its family has kernels
-- for it at all.
takes.list = {
  { name = "lengths", says = "lengths on the device", fields = { "device_lengths" } },
  { name = "ragged", says = "ragged sequences", fields = { "device_ragged" } },
  { name = "pages", says = "K and V in pages", fields = { "device_lengths", "device_pages" } },
  { name = "ragged_pages", says = "ragged queries, K and V in pages", fields = { "device_lengths", "device_ragged", "device_pages" } },
  { name = "sinks", says = "sinks", fields = { "device_lengths" } },
  { name = "canonical", says = "the canonical order", fields = {} },
  { name = "max_logit", says = "the largest logit", fields = { "max_logit" } },
}

local function ordered(set)
  local words = {}
  for _, one in ipairs(takes.list) do
    if set[one.name] then words[#words + 1] = one.name end
  end
  return words
end

--- Fills in record.takes, and record.could: what a row of `bare` (the record before it was completed) would take more
-- if the spec set every field.
function takes.fill(record, bare)
  local family = registry.get(record.family)
  local has, more, right = family.takes(record), {}, true
  for _, field in ipairs(family.passed or {}) do
    if bare[field] == nil then bare[field] = true end -- what the spec or the measured tile says is left
  end
  family.complete(bare)
  family.check(bare, function() right = false end)
  for word in pairs(right and family.takes(bare) or {}) do more[word] = not has[word] or nil end
  record.takes, record.could = ordered(has), ordered(more)
end

--- A column's value in C.
function takes.constant(words)
  local constants = {}
  for i, word in ipairs(words) do constants[i] = "GLINT_TAKES_" .. word:upper() end
  return table.concat(constants, " | ")
end

-- What tells that a row was made with a field.
local MADE_WITH = { device_lengths = "lengths", device_ragged = "ragged", device_pages = "pages", max_logit = "max_logit" }

-- What a row says of one word: "yes", the fields of the spec that would make it so, or "no".
local function cell(record, one)
  if text.contains(record.takes, one.name) then return "yes" end
  if not text.contains(record.could, one.name) then return "no" end
  local fields = {}
  for _, field in ipairs(one.fields) do
    if not text.contains(record.takes, MADE_WITH[field]) then fields[#fields + 1] = "`" .. field .. "`" end
  end
  return table.concat(fields, ", ")
end

local PASSES = { fwd = "forward", bwd = "backward", dec = "decode" }

-- Rows of one group are told apart by these, where they do not take the same.
local APART = { "head_dim", "mask", "softcap", "dtype", "kv_dtype" }

local function values_of(records, field)
  local seen, values = {}, {}
  for _, record in ipairs(records) do
    if not seen[record[field]] then values[#values + 1] = record[field] end
    seen[record[field]] = true
  end
  table.sort(values)
  for i, value in ipairs(values) do values[i] = tostring(value) end
  return table.concat(values, ", ")
end

-- The records as lists of those with the same cells, in the order of their first.
local function alike(records)
  local lists, by_cells = {}, {}
  for _, record in ipairs(records) do
    local cells = {}
    for i, one in ipairs(takes.list) do cells[i] = cell(record, one) end
    local key = table.concat(cells, " | ")
    if not by_cells[key] then
      by_cells[key] = { cells = key }
      lists[#lists + 1] = by_cells[key]
    end
    table.insert(by_cells[key], record)
  end
  return lists
end

local function lines_of(what, records, lines)
  local lists = alike(records)
  for _, list in ipairs(lists) do
    local apart = {}
    for _, field in ipairs(APART) do
      local values = values_of(list, field)
      if #lists > 1 and values ~= values_of(records, field) then apart[#apart + 1] = ("%s %s"):format(field, values) end
    end
    lines[#lines + 1] = ("| %s | %s |\n"):format(#apart > 0 and what .. ": " .. table.concat(apart, "; ") or what, list.cells)
  end
end

--- The matrix of `records` as a table in Markdown: a line for all rows of a family, a pass and a strategy that take the
-- same.
function takes.matrix(records)
  local titles, groups, by_name = {}, {}, {}
  for i, one in ipairs(takes.list) do titles[i] = one.says end
  for _, record in ipairs(records) do
    local strategy = record.pass == "bwd" and record.strategy
    local what = ("%s, %s"):format(record.family, PASSES[record.pass]) .. (strategy and ", strategy " .. strategy or "")
    if not by_name[what] then
      by_name[what] = {}
      groups[#groups + 1] = what
    end
    table.insert(by_name[what], record)
  end
  table.sort(groups)
  local lines = { ("| rows | %s |\n"):format(table.concat(titles, " | ")), "|---" .. ("|---"):rep(#takes.list) .. "|\n" }
  for _, what in ipairs(groups) do lines_of(what, by_name[what], lines) end
  return table.concat(lines)
end

return takes
