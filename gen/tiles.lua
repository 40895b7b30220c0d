-- Which tiles a family's kernels are made with where the spec has none of its own. The tiles of
-- gen/tiles/<family>.lua were measured. Another head dim has the tiles of the next larger one that is there, which need
-- no more of anything. Where there is none the family's model proposes a tile. Nothing here knows a family's fields.
local axes = require("gen.axes")
local text = require("gen.text")

local tiles = {}

local function listed(list, value) return list == nil or text.contains(list, value) end

local function lines_for(family, by_head_dim, key, target)
  for _, head_dim in ipairs(text.sorted_keys(by_head_dim)) do
    local lines = {}
    for _, line in ipairs(head_dim >= key.head_dim and by_head_dim[head_dim] or {}) do
      if axes.serves(line, key) and listed(line[family.target_field], target) then
        lines[#lines + 1] = line
      end
    end
    if #lines > 0 then return lines, head_dim end
  end
  return {}
end

--- The fields that make the tile: without its reason and the lists that say for what it is.
function tiles.bare(line)
  local tile = {}
  for field, value in pairs(line) do tile[field] = value end
  for _, axis in ipairs(axes.list) do tile[axis.plural] = nil end
  tile.why, tile.measured, tile.spills_with = nil, nil, nil
  return tile
end

-- Where and when a line was timed, by target: as the file says, or the line for all that it is for.
local function timed(family, data, line)
  if type(line.measured) ~= "string" then return line.measured or data.measured end
  local by_target = {}
  for _, target in ipairs(line[family.target_field] or family.all_targets) do by_target[target] = line.measured end
  return by_target
end

-- The fields, of those that a spec has set, with which a line's kernels would spill registers: a list, or nil.
local function spilling(line, set)
  local with
  for _, field in ipairs(line.spills_with or {}) do
    if set and set[field] then
      with = with or {}
      with[#with + 1] = field
    end
  end
  return with
end

-- The tile of a line for `key`, and where it comes from; nil when the line has none for it.
local function tile_of(family, data, line, head_dim, key, set)
  local own, with = head_dim == key.head_dim, spilling(line, set)
  local tile = tiles.bare(line)
  if not own then tile = family.adapt(tile, key) end
  local origin = { kind = own and "measured" or "proposed", head_dim = head_dim, timed = timed(family, data, line), why = line.why }
  if tile and with then
    origin = { kind = "proposed", head_dim = head_dim, timed = {}, why = line.why, instead_of = family.how_of(key, tile), spills_with = with }
    tile = family.smaller(tile, key)
  end
  return tile, origin
end

--- The tiles of `family` for `key` on `targets`, in a fixed order: { tile =, origin = }. The tile's list of targets has
-- those of `targets` that it is for. `set`: the fields of the family that the spec has set, { field = true }, or nil.
-- origin: { kind = "measured" or "proposed", head_dim =, timed = { target = when and on what }, why = }, where head_dim
-- is the one that the tile was chosen for, or nil when the model made it; and where the measured tile would spill with
-- what is set, `instead_of`, that tile's part of a name, and `spills_with`, the fields.
function tiles.of(family, key, targets, set)
  if family.proposes and not family.proposes(key) then return {} end
  local data = require("gen.tiles." .. family.name)
  local by_head_dim, found, place, self_made = data[family.list and family.list(key) or key.pass], {}, {}, {}
  local function add(id, target, make)
    if not place[id] then
      found[#found + 1] = make()
      place[id] = found[#found]
      place[family.how_of(key, place[id].tile)] = place[id]
      place[id].tile[family.target_field] = {}
    end
    table.insert(place[id].tile[family.target_field], target)
  end
  for _, target in ipairs(targets) do
    local lines, head_dim = lines_for(family, by_head_dim, key, target)
    local any = false
    for _, line in ipairs(lines) do
      local tile, origin = tile_of(family, data, line, head_dim, key, set)
      local same = tile and origin.kind == "proposed" and not place[line] and place[family.how_of(key, tile)]
      if same then -- another line has come to the same name: one tile for both, where it fits
        if family.fits(key, same.tile, target) then
          any = true
          table.insert(same.tile[family.target_field], target)
        end
      elseif tile then
        any = true
        add(line, target, function() return { tile = tile, origin = origin } end)
      end
    end
    if not any then self_made[#self_made + 1] = target end
  end
  -- A name says no more than a part of a tile, so the tiles of one name are one: the first that any target takes,
  -- where it fits.
  for _, target in ipairs(self_made) do
    for _, candidate in ipairs(family.candidates(key, target)) do
      if not place[candidate.how] or family.fits(key, place[candidate.how].tile, target) then
        add(candidate.how, target, function() return { tile = tiles.bare(candidate.tile), origin = { kind = "proposed", timed = {} } } end)
        break
      end
    end
  end
  return found
end

return tiles
