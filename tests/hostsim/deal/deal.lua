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
-- The values of a row are its strategy, dtype, mask and features, a padded head dim, heads of a group that blocks
-- share out. A check is a point of a product (deal.factors): of a law, the side of a window and a place in it. The
-- few rows that run checks of a product are a covering array of strength two: each factor of the checks meets each
-- value of the rows that could run it, `future_keys` with intervals, and a window's last place with float32. A check
-- that is no point of a product is a factor of its own. No check that a row has is left out. The library's own rows
-- cover what they can; rows of other rooms cover the rest.
local deal = {}

local OF_TILES = {
  "^accuracy/q%d", "^accuracy/one_key", "^accuracy/one_query", "partial_tiles", "at_edges", "_columns_", "accuracy/several_tiles", "/bhsd$", "^far/row",
}
local OF_PLACES = { "interval", "tree", "chain", "bits_say", "length", "ragged", "pages", "alibi", "bias", "special/several_tiles" }
local LEAST = "^accuracy/several_tiles" -- what a row runs that was dealt no check of a tile
local OF_ENDS = { "each_end", "no_block_left", "/many$" } -- of any tile and strategy
local LAWS_OF = { "window", "sinks", "softcap", "alibi", "decode" } -- laws that hold of attention hold of each of these, too
local LAWS_OF_DECODE = { "head_alone", "batch_alone", "workspace_contents", "future_keys", "fences" }
-- What decides where a check of places has rows and keys: not these.
local APART = { f32 = 1, f16 = 1, bf16 = 1, i8 = 1, e4m3 = 1, softcap = 1, alibi = 1, tensor = 1, padded = 1 }

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

-- `law/window_past_keys_top_left_last` is `past_keys`, of a window at the top left, at its last place.
local function of_law(law)
  local side = law:match("_top_left") or law:match("_bottom_right") or ""
  local place, of = "", ""
  for _, word in ipairs(LAWS_OF) do
    local rest = law:match("^" .. word .. "_(.*)$")
    if rest then of, law = word, rest end
  end
  law = law:gsub("_top_left", ""):gsub("_bottom_right", "")
  for _, word in ipairs({ "first", "middle", "last" }) do
    local rest = law:match("^(.*)_" .. word .. "$")
    if rest then law, place = rest, word end
  end
  for _, word in ipairs(of == "decode" and LAWS_OF_DECODE or {}) do
    local rest = law:match("^" .. word .. "_(.*)$")
    if rest then law, place = word, rest end
  end
  return { law, "of " .. of .. side, "at " .. place }
end

-- The product that a check is a point of, its factors there, and whether it is about places: then it meets each mask
-- by itself.
function deal.factors(check)
  local law = check:match("^law/(.*)$")
  if law then return "law", of_law(law) end
  for _, number in ipairs({ "minus_inf", "inf", "nan" }) do
    local where, at, side = check:match("^special/(.-)(" .. number .. "_in_[QKVd]%w*)(.*)$")
    if where and not where:find("several_tiles") then
      return where:find("partial_tiles") and "special/partial_tiles" or "special", { at, "where " .. where .. side }
    end
  end
  local q, k, side = check:match("^accuracy/(q%d+)_(k%d+)(.*)$")
  if q then return "accuracy/q_k", { q, k, "side" .. side } end
  local sequences = check:match("^[^/]*")
  if matches(check, OF_PLACES) and sequences ~= "accuracy" and sequences ~= "special" and sequences ~= "derivative" then
    return sequences, { sequences }, true
  end
  return check, { check }
end

-- Adds to `chosen`, of the pairs { row, check } of a group, those that run: the one that covers most of what is not
-- covered yet each time, until none adds anything. Equals are drawn, a row of half the head dim twice as often; a row
-- that is added or taken away changes no other draw, so that few rows have other checks then.
local function cover(group, covered, chosen)
  while true do
    local best, left = nil, {}
    for _, pair in ipairs(group) do
      pair.adds = 0
      for _, what in ipairs(pair.covers) do
        if not covered[what] then pair.adds = pair.adds + 1 end
      end
      if pair.adds > 0 then left[#left + 1] = pair end
      if pair.adds > 0 and (not best or pair.adds > best.adds or (pair.adds == best.adds and pair.drawn > best.drawn)) then best = pair end
    end
    if not best then return end
    for _, what in ipairs(best.covers) do covered[what] = true end
    chosen[#chosen + 1] = best
    group = left
  end
end

-- The pairs of a group that run.
local function choose(group, first)
  local own, covered, chosen = {}, {}, {}
  for _, pair in ipairs(group) do
    if pair.row.room == first then own[#own + 1] = pair end
  end
  cover(own, covered, chosen)
  cover(group, covered, chosen)
  return chosen
end

-- A row with a check that it has, and what their pair covers: the check, and each factor with each value.
local function pair_of(row, check, factors, of_places)
  local covers = { check }
  for _, value in ipairs(row.values) do
    for _, factor in ipairs(factors) do covers[#covers + 1] = factor .. " " .. value end
    if of_places and not APART[value] then covers[#covers + 1] = check .. " " .. value end
  end
  return { row = row, check = check, covers = covers, drawn = math.log(draw(row.name .. " " .. check)) * row.head_dim }
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
    local family, factors, of_places = deal.factors(check)
    local key = shared(row, check) .. " " .. family
    if not groups[key] then
      groups[key] = {}
      order[#order + 1] = groups[key]
    end
    table.insert(groups[key], pair_of(row, check, factors, of_places))
  end
  for _, group in ipairs(order) do
    for _, pair in ipairs(choose(group, list[1][1])) do
      table.insert(runs[pair.row.room][pair.row.name], pair.check)
      if matches(pair.check, OF_TILES) then pair.row.least = nil end
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
