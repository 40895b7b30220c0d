-- Deals the checks of variants out to them: deal.lua FOLDER ROOM... reads FOLDER/ROOM.names for each room, lines
-- `row check` (names.c), and writes FOLDER/ROOM/ROW.checks for each row, the names of the checks that it runs: in
-- the simulator, or on its CPU. A room is a folder of tests with a spec of its own; the first is that of the
-- library's spec. What is said of a family of GPUs holds of an instruction set of CPUs, which a machine may lack.
--
-- | a check that asks about              | is run by                                                         |
-- |--------------------------------------|-------------------------------------------------------------------|
-- | a tile, its edges, a head dim        | of the rows of a tile, head dim and strategy that have it, a few  |
-- | where rows, keys or visible keys are | of the rows of a pass, family and strategy that have it, a few    |
-- | anything else                        | of the rows of a pass and family that have it, a few              |
--
-- A row that is dealt no check of a tile runs one nonetheless, so that no kernel is compiled and never run.
--
-- The few rows that run a check have each value of the rows that could run it: each strategy, dtype, mask and
-- feature, a padded head dim, heads of a group that blocks share out. This is a covering array of strength one for
-- each check, in place of the full product. No check that a row has is left out. The library's own rows cover
-- what they can; rows of other rooms cover the rest.
local deal = {}

local OF_TILES = { "^accuracy/q%d", "^accuracy/one_", "partial_tiles", "at_edges", "_columns_", "accuracy/several_tiles", "/bhsd$", "^far/row" }
local OF_PLACES = { "interval", "tree", "chain", "bits_say", "length", "ragged", "pages", "alibi", "bias", "special/several_tiles" }
local LEAST = "^accuracy/several_tiles" -- what a row runs that was dealt no check of a tile
local OF_ENDS = { "each_end", "no_block_left" } -- of any tile and strategy

local function matches(check, patterns)
  for _, pattern in ipairs(patterns) do
    if check:find(pattern) then return true end
  end
  return false
end

-- Takes the name of a room's row apart: its pass and family, its strategy, its head dim and tile, and the values of its
-- axes.
function deal.parse(room, row)
  local computes, how = row:match("^(.-)__(.*)$")
  local pass, family, words, values, head_dim, tile = nil, nil, {}, {}, nil, {}
  for part in computes:gmatch("[^_]+") do
    if not pass then
      pass = part
    elseif part:find("^d%d+$") then
      head_dim = tonumber(part:sub(2))
    else
      values[#values + 1] = part
    end
  end
  for part in how:gmatch("[^_]+") do
    if not family then
      family = part
    elseif part:find("^h%d+$") then
      values[#values + 1] = "parts" -- blocks share out the heads of a group
    elseif part:find("^m%d+n%d+$") or part:find("^s%d+$") then -- a tile; stages, or keys of a copy
      tile[#tile + 1] = part
    else
      words[#words + 1] = part
    end
  end
  if head_dim % 16 ~= 0 then values[#values + 1] = "padded" end -- products take 16 at a time
  local strategy = table.concat(words, "_")
  if family == "cpu" then
    family, strategy = strategy, "cpu" -- x86_64_v3
  end
  values[#values + 1] = strategy
  return {
    room = room, name = row, kind = pass .. "_" .. family, strategy = strategy, head_dim = head_dim, tile = table.concat(tile, "_"), values = values,
  }
end

-- A number in (0, 1) that a text decides: FNV-1a.
local function draw(text)
  local sum = 2166136261
  for i = 1, #text do
    sum = ((sum ~ text:byte(i)) * 16777619) & 0xffffffff
  end
  return ((sum ~ (sum >> 15)) * 0x2c1b3c6d & 0xffffffff | 1) / 4294967296
end

-- Adds to `chosen`, of the rows of a group, all of which have a check, those that run it: the one that covers
-- most values that are not covered yet each time, until no row adds a value. Equals are drawn, a row of half the
-- head dim twice as often; a row that is added or taken away changes no other draw, so that few rows have other
-- checks then.
local function cover(rows, check, covered, chosen)
  while true do
    local best, most, score = nil, 0, nil
    for _, row in ipairs(rows) do
      local adds, drawn = 0, math.log(draw(row.name .. " " .. check)) * row.head_dim
      for _, value in ipairs(row.values) do
        if not covered[value] then adds = adds + 1 end
      end
      if adds > most or (best and adds == most and drawn > score) then
        best, most, score = row, adds, drawn
      end
    end
    if not best then return end
    for _, value in ipairs(best.values) do covered[value] = true end
    chosen[#chosen + 1] = best
  end
end

-- The rows of a group that run its check.
local function choose(group, check, first)
  local own, covered, chosen = {}, {}, {}
  for _, row in ipairs(group) do
    if row.room == first then own[#own + 1] = row end
  end
  cover(own, check, covered, chosen)
  cover(group, check, covered, chosen)
  return chosen
end

-- What rows have in common that share a check out.
local function shared(row, check)
  if matches(check, OF_TILES) then return ("%s %s d%d %s"):format(row.kind, row.strategy, row.head_dim, row.tile) end
  return row.kind .. " " .. (matches(check, OF_PLACES) and not matches(check, OF_ENDS) and row.strategy or "")
end

-- Which checks each row runs, { [room] = { [row] = { check, ... } } }, from a list of { room, row, check }, in
-- its order. The room of the first element is the library's.
function deal.out(list)
  local rows, groups, order, runs = {}, {}, {}, {}
  for _, entry in ipairs(list) do
    local room, name, check = table.unpack(entry)
    runs[room] = runs[room] or {}
    runs[room][name] = runs[room][name] or {}
    local id = room .. "/" .. name
    rows[id] = rows[id] or deal.parse(room, name)
    local row = rows[id]
    if not row.least and check:find(LEAST) then row.least = check end
    local key = shared(row, check) .. " " .. check
    if not groups[key] then
      groups[key] = { check = check }
      order[#order + 1] = groups[key]
    end
    table.insert(groups[key], row)
  end
  for _, group in ipairs(order) do
    for _, row in ipairs(choose(group, group.check, list[1][1])) do
      table.insert(runs[row.room][row.name], group.check)
      if matches(group.check, OF_TILES) then row.least = nil end
    end
  end
  for _, row in pairs(rows) do
    table.insert(runs[row.room][row.name], row.least)
  end
  return runs
end

local function main(folder, ...)
  local list = {}
  for _, room in ipairs({ ... }) do
    for line in io.lines(("%s/%s.names"):format(folder, room)) do
      local row, check = line:match("^(%S+) (%S+)$")
      list[#list + 1] = { room, assert(row, "not a line `row check`: " .. line), check }
    end
  end
  for room, rows in pairs(deal.out(list)) do
    for row, checks in pairs(rows) do
      local file = assert(io.open(("%s/%s/%s.checks"):format(folder, room, row), "w"))
      file:write(table.concat(checks, "\n"), "\n")
      assert(file:close())
    end
  end
end

if arg and arg[0]:find("deal%.lua$") then main(table.unpack(arg)) end
return deal
