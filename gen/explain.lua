-- Texts for people about a spec: what it makes as a whole (check), and why one variant exists or does not (explain).
-- Decides nothing: records and their limits come from gen/expand.lua and the families.
local axes = require("gen.axes")
local emit = require("gen.emit")
local registry = require("gen.registry")
local schema = require("gen.schema")
local text = require("gen.text")

local explain = {}

local function line_of(loaded, owner, key)
  return ("%s:%d"):format(loaded.path, schema.site(loaded.places, owner, key, "").line)
end

-- Where `value` stands in `list`, as `file:line`, or nil.
local function entry_line(loaded, list, value)
  for i, entry in ipairs(list) do
    if entry == value then return line_of(loaded, list, i) end
  end
end

-- The list that decides an axis for a family: its own when it narrows, or the spec's; and its path.
local function deciding_list(loaded, family, axis)
  local config = loaded.spec.families[family]
  if config and config[axis.plural] then
    return config[axis.plural], ("families.%s.%s"):format(family, axis.plural), config
  end
  return axes.values(loaded.spec, axis), axis.plural, loaded.spec
end

local function fields_text(record, spec_name)
  local values, lines = emit.values(record, spec_name), {}
  for _, field in ipairs(text.sorted_keys(values)) do lines[#lines + 1] = ("%s = %s"):format(field, text.plain(values[field])) end
  return table.concat(lines, "\n") .. "\n"
end

-- Title and lines, aligned.
local function section(lines, title, entries)
  for i, entry in ipairs(entries) do lines[#lines + 1] = ("  %-10s %s"):format(i == 1 and title or "", entry) end
end

local function reasons(record, loaded)
  local because = {}
  for _, axis in ipairs(axes.list) do
    local list, path, owner = deciding_list(loaded, record.family, axis)
    if owner[axis.plural] then
      because[#because + 1] = ("%s: %s lists %s"):format(entry_line(loaded, list, record[axis.name]), path, text.show(record[axis.name]))
    end
  end
  if record.origin.kind == "spec" then
    local tile = record.sites.tile
    because[#because + 1] = ("%s:%d: %s"):format(loaded.path, tile.line, tile.path)
  end
  for _, override in ipairs(record.overrides) do
    because[#because + 1] = ("%s:%d: %s: %s"):format(loaded.path, override.site.line, override.site.path, override.reason)
  end
  return because
end

-- Targets of a record with when and on what its tile was timed there: those that were, and those that were not.
local function timed_on(record, family)
  local was, was_not = {}, {}
  for _, target in ipairs(family.covers(record)) do
    local when, name = record.origin.timed[target], family.target_name(target)
    if when then was[#was + 1] = ("%s for %s"):format(when, name) else was_not[#was_not + 1] = name end
  end
  return table.concat(was, ", "), table.concat(was_not, ", ")
end

-- Where a tile comes from: the spec, measurement, or the model.
local function origin_lines(record, family)
  local origin, lines = record.origin, {}
  local home = ("gen/tiles/%s.lua"):format(family.name)
  if origin.kind == "spec" then return { "the spec's own" } end
  if origin.instead_of then
    return { ("proposed: %s, head_dim %d, has %s, which would spill registers with %s; this is a smaller one, not timed"):format(home,
      origin.head_dim, origin.instead_of, text.words(origin.spills_with, "and")), family.estimate(record) }
  end
  local was, was_not = timed_on(record, family)
  if origin.kind == "measured" then
    lines[1] = ("%s, head_dim %d: %s"):format(home, origin.head_dim, was ~= "" and "measured " .. was or "chosen by arithmetic, not timed")
    if was ~= "" and was_not ~= "" then lines[2] = ("not timed for %s: there it fits and does not spill"):format(was_not) end
  elseif origin.head_dim then
    lines[1] = ("proposed: nothing was measured for head_dim %d, and this is the tile of head_dim %d, which needs more of everything"):format(
      record.head_dim, origin.head_dim)
    if was ~= "" then lines[2] = ("that one was measured %s"):format(was) end
  else
    lines[1] = ("proposed: nothing was measured for head_dim %d or a larger one; of what fits, the model's fastest"):format(record.head_dim)
  end
  if origin.why then lines[#lines + 1] = origin.why end
  if origin.kind == "proposed" then lines[#lines + 1] = family.estimate(record) end
  return lines
end

local function found(record, loaded)
  local family, lines = registry.get(record.family), { record.name }
  section(lines, "because", reasons(record, loaded))
  section(lines, "tile", origin_lines(record, family))
  section(lines, "what", family.describe(record))
  section(lines, "budget", family.budget(record))
  section(lines, "made", { "generated/" .. record.file .. " from gen/templates/" .. record.template, "symbol " .. record.symbol,
    "test " .. record.test })
  return table.concat(lines, "\n") .. "\n"
end

-- What to do so that a list of the spec has `wanted`, or why it cannot have it.
local function remedy(of, wanted)
  local impossible
  schema.check(of, wanted, { path = "", line = 0 }, function(_, wrong, right) impossible = wrong .. "; " .. right end, {})
  return impossible or ("has no %s; add it"):format(text.show(wanted))
end

-- What the name asks for that the spec does not list, each with what to change. `asked` has the axes.
local function missing_axes(loaded, asked, family)
  local lacks, unbuilt, why = {}, axes.unbuilt(asked)
  for _, axis in ipairs(axes.list) do
    local wanted = asked[axis.name]
    local list, path, owner = deciding_list(loaded, family, axis)
    if not axes.has(axis, wanted, asked.pass) then
      lacks[#lacks + 1] = ("no variant of %s has the %s %s"):format(asked.pass, axis.name, text.show(wanted))
    elseif axis == unbuilt then
      lacks[#lacks + 1] = why
    elseif not (#list == 0 and wanted == axes.default(axis, asked)) and not text.contains(list, wanted) then
      lacks[#lacks + 1] = ("%s: %s: %s"):format(line_of(loaded, owner, axis.plural), path, remedy(axis.of, wanted))
    elseif not text.contains(axes.made(axis, list, asked, family), wanted) then
      local made = axes.made(axis, list, asked, family)[1]
      lacks[#lacks + 1] = ("%s: %s lists %s, and variants of %s for it serve %s too; ask for one of them"):format(
        entry_line(loaded, list, made), path, text.show(made), asked.pass, text.show(wanted))
    end
  end
  return lacks
end

local function missing_tile(loaded, asked, family_name, lacks)
  local family, config = registry.get(family_name), loaded.spec.families[family_name]
  local path = "families." .. family_name
  if not config then
    lacks[#lacks + 1] = ("%s: families: has no %s; add %s = { ... }"):format(line_of(loaded, loaded.spec, "families"), family_name,
      family_name)
    return
  end
  local how = family.parse(asked.how)
  if not how then return end
  if how.target and not text.contains(family.targets(config), how.target) then
    lacks[#lacks + 1] = ("%s: %s.%s: %s"):format(line_of(loaded, config, family.target_field), path, family.target_field,
      remedy(family.fields[family.target_field].of, how.target))
  end
  if #lacks == 0 then
    local tiles = config.tiles or {}
    local site = tiles[asked.pass] and line_of(loaded, tiles, asked.pass) or line_of(loaded, loaded.spec.families, family_name)
    lacks[#lacks + 1] = ("%s: %s.tiles.%s: no tile makes it; add { m = %d, n = %d }"):format(site, path, asked.pass, how.m, how.n)
  end
end

-- A whole name, or the left half of one, which has no `how`.
local function parse_name(name)
  local key, how = name:match("^(.-)__([%w_]+)$")
  local asked = axes.parse(key or name)
  if not asked then return nil end
  asked.how, asked.key = how, key or name
  return asked
end

local function rule_text(loaded, rule, what)
  return ("%s:%d: %s: excludes %s: %s"):format(loaded.path, rule.site.line, rule.site.path, what, rule.reason)
end

-- The rule that leaves a family without what the name asks for, whatever the tile.
local function hole(loaded, asked, family)
  for _, missing in ipairs(loaded.holes) do
    if missing.family == family and missing.key == asked.key then
      return rule_text(loaded, missing.excluded, ("%s of %s"):format(missing.key, family))
    end
  end
end

-- The same for one that has tiles for it.
local function excluded_key(loaded, asked, family)
  for _, record in ipairs(loaded.excluded) do
    if record.family == family and record.name:sub(1, #asked.key + 2) == asked.key .. "__" then
      return rule_text(loaded, record.excluded, record.name)
    end
  end
end

local function nearest(loaded, name)
  local names = {}
  for i, record in ipairs(loaded.records) do names[i] = record.name end
  return "nearest: " .. table.concat(text.nearest(name, names, 3), ", ")
end

-- All variants of one key, when that is what was asked for.
local function of_key(loaded, name)
  local names = {}
  for _, record in ipairs(loaded.records) do
    if record.name:sub(1, #name + 2) == name .. "__" then names[#names + 1] = record.name end
  end
  return #names > 0 and table.concat(names, "\n") .. "\n" or nil
end

local function append(lines, more)
  for _, line in ipairs(more) do
    if not text.contains(lines, line) then lines[#lines + 1] = line end
  end
end

-- Why no family of the spec makes what the left half of a name says.
local function no_key(loaded, asked, lines)
  for _, family in ipairs(text.sorted_keys(loaded.spec.families)) do
    local lacks = missing_axes(loaded, asked, family)
    if #lacks == 0 then lacks = { hole(loaded, asked, family) or excluded_key(loaded, asked, family) } end
    append(lines, lacks)
  end
end

local function no_variant(loaded, asked, family, lines)
  local excluded = hole(loaded, asked, family)
  if excluded then
    lines[#lines + 1] = excluded
    return
  end
  local lacks = missing_axes(loaded, asked, family)
  missing_tile(loaded, asked, family, lacks)
  append(lines, lacks)
end

local function not_found(loaded, name)
  local lines = { ("%s: no variant %s"):format(loaded.path, text.show(name)) }
  local asked = parse_name(name)
  local family = asked and asked.how and asked.how:match("^%w*")
  if not asked then
    lines[#lines + 1] = "a name is <pass>_<dtype>_d<head_dim>_<mask>__<how>, such as " .. loaded.records[1].name
  elseif not family then
    no_key(loaded, asked, lines)
  elseif not text.contains(registry.names, family) then
    lines[#lines + 1] = ("no family is called %s; the families are %s"):format(text.show(family), text.words(registry.names, "and"))
  else
    no_variant(loaded, asked, family, lines)
  end
  lines[#lines + 1] = nearest(loaded, name)
  return table.concat(lines, "\n")
end

local function by_name(records, name)
  for _, record in ipairs(records) do
    if record.name == name then return record end
  end
end

--- Why variant `name` exists, or nil and why it does not. `fields`: what its template sees instead.
function explain.variant(loaded, name, fields)
  local record = by_name(loaded.records, name)
  if record then return fields and fields_text(record, loaded.name) or found(record, loaded) end
  local excluded = by_name(loaded.excluded, name)
  if excluded then return nil, rule_text(loaded, excluded.excluded, name) end
  local key = of_key(loaded, name)
  if key then return key end
  return nil, not_found(loaded, name)
end

--- What the whole spec makes.
function explain.summary(loaded)
  local counts = {}
  for _, record in ipairs(loaded.records) do counts[record.family] = (counts[record.family] or 0) + 1 end
  local function variants(count) return count == 1 and "1 variant" or count .. " variants" end
  local lines = { ("%s: %s, %d excluded"):format(loaded.path, variants(#loaded.records), #loaded.excluded) }
  for _, name in ipairs(text.sorted_keys(counts)) do
    local family = registry.get(name)
    local targets = {}
    for i, target in ipairs(family.targets(loaded.spec.families[name])) do targets[i] = family.target_name(target) end
    lines[#lines + 1] = ("  %s: %s for %s"):format(name, variants(counts[name]), table.concat(targets, ", "))
  end
  for _, missing in ipairs(loaded.holes) do
    lines[#lines + 1] = rule_text(loaded, missing.excluded, ("%s of %s"):format(missing.key, missing.family))
  end
  for _, site in ipairs(loaded.unused) do
    lines[#lines + 1] = ("%s:%d: %s: not used by any variant"):format(loaded.path, site.line, site.path)
  end
  return table.concat(lines, "\n") .. "\n"
end

return explain
