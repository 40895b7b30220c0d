-- The shape of a spec: which fields there are, what each may be. Reports every mistake that can be seen in one field or
-- one list; what depends on a whole variant (limits, names, matches) is checked where variants are made, in
-- gen/expand.lua.
local archs = require("gen.archs")
local axes = require("gen.axes")
local registry = require("gen.registry")
local schema = require("gen.schema")
local text = require("gen.text")

local MOST_TILES = 16  -- for one head dim and pass: each is a kernel that the plan must choose among
local MOST_RULES = 500 -- exclusions, and overrides

-- Lists of values, one an axis: of the spec, of a family that does less, or of a tile, which is for some axes only.
local function narrowing_fields(of_tile)
  local fields = {}
  for _, axis in ipairs(axes.list) do
    if not of_tile or axis.in_tiles then fields[axis.plural] = schema.list(axis.of) end
  end
  return fields
end

local function match_fields(family)
  local fields = { family = schema.choice(registry.names), reason = schema.sentence() }
  for _, axis in ipairs(axes.list) do fields[axis.name] = schema.one_or_list(axis.of) end
  if not family then return fields end
  for name, of in pairs(family.match_fields) do fields[name] = schema.one_or_list(of) end
  for name, of in pairs(family.tile_fields) do
    if of.kind ~= "list" and of.kind ~= "sentence" then fields[name] = schema.one_or_list(of) end
  end
  return fields
end

local function tile_schema(family)
  return schema.record(schema.merge(family.tile_fields, narrowing_fields(true)), { "m", "n" })
end

-- One pass's tiles: a list for every head dim, and lists of their own for some, under [head_dim].
local function check_tile_set(set, site, family, report, places)
  if type(set) ~= "table" then
    return report(site, text.show(set) .. " is not a list", "write { { m = 64, n = 96 } }")
  end
  if next(set) == nil then return report(site, "an empty list", "list at least one tile") end
  local tile, head_dim = tile_schema(family), axes.get("head_dim").of
  for _, key in ipairs(text.sorted_keys(set)) do
    local at = schema.site(places, set, key, site.path)
    if places[set].positional[key] then
      schema.check(tile, set[key], at, report, places)
    elseif type(key) == "string" then
      report(at, "no such field", "a tile { m = ..., n = ... }, or [head_dim] = { tiles of that head dim }")
    else
      schema.check(head_dim, key, at, report, places)
      schema.check(schema.list(tile, MOST_TILES), set[key], at, report, places)
    end
  end
  if #set > MOST_TILES then report(site, ("a list of %d tiles"):format(#set), ("at most %d"):format(MOST_TILES)) end
end

local function check_tiles(tiles, site, family, report, places)
  if type(tiles) ~= "table" then
    return report(site, text.show(tiles) .. " is not a table", "write { fwd = { ... }, bwd = { ... } }")
  end
  for _, key in ipairs(text.sorted_keys(tiles)) do
    local at = schema.site(places, tiles, key, site.path)
    if text.contains(axes.get("pass").of.values, key) then
      check_tile_set(tiles[key], at, family, report, places)
    else
      report(at, "no such field", "tiles have the fields " .. text.words(axes.get("pass").of.values, "and"))
    end
  end
end

-- A family may do less than the spec lists, never more.
local function check_narrowing(spec, config, site, report, places)
  for _, axis in ipairs(axes.list) do
    local wide, narrow = axes.values(spec, axis), config[axis.plural]
    if type(wide) == "table" and type(narrow) == "table" then
      local listed = {}
      for _, value in ipairs(wide) do listed[value] = true end
      for i, value in ipairs(narrow) do
        if not listed[value] then
          local at = schema.site(places, narrow, i, site.path .. "." .. axis.plural)
          report(at, text.show(value) .. " is not in the spec's own " .. axis.plural, "add it there, or leave it out here")
        end
      end
    end
  end
end

local function check_family(spec, name, config, site, report, places)
  local family = registry.get(name)
  if not family then
    local near = type(name) == "string" and text.meant(name, registry.names)
    return report(site, "no such family", (near and "did you mean " .. near .. "? " or "") .. "the families are "
      .. text.words(registry.names, "and"))
  end
  if type(config) ~= "table" then
    return report(site, text.show(config) .. " is not a table", "write " .. name .. " = { ... }")
  end
  local fields = schema.merge(family.fields, narrowing_fields())
  fields.tiles = schema.any()
  schema.check(schema.record(fields, family.required), config, site, report, places)
  if config.tiles ~= nil then
    check_tiles(config.tiles, schema.site(places, config, "tiles", site.path), family, report, places)
  end
  check_narrowing(spec, config, site, report, places)
end

local function check_families(spec, report, places)
  local families = spec.families
  if families == nil then return end
  local site = schema.site(places, spec, "families", "")
  if type(families) ~= "table" then
    return report(site, text.show(families) .. " is not a table", "write { cpu = { ... } }")
  end
  if next(families) == nil then return report(site, "no family", "add one of " .. text.words(registry.names)) end
  for _, name in ipairs(text.sorted_keys(families)) do
    check_family(spec, name, families[name], schema.site(places, families, name, site.path), report, places)
  end
end

-- What an override may set: the tile's fields, less the lists that decide which variants a tile makes.
local function settable_fields(family)
  local fields = {}
  for name, of in pairs(family and family.tile_fields or {}) do
    if of.kind ~= "list" then fields[name] = of end
  end
  return fields
end

-- exclude and override: lists of matches, each with a reason; `set` only in override.
local function check_rule(rule, site, sets, report, places)
  if type(rule) ~= "table" then
    return report(site, text.show(rule) .. " is not a table", "write { family = ..., reason = ... }")
  end
  local family = type(rule.family) == "string" and registry.get(rule.family) or nil
  local fields, required = match_fields(family), { "reason" }
  if sets then
    fields.set = schema.record(settable_fields(family))
    required = { "family", "set", "reason" }
  end
  schema.check(schema.record(fields, required), rule, site, report, places)
  if type(rule.set) == "table" and next(rule.set) == nil then
    report(schema.site(places, rule, "set", site.path), "sets nothing", "name a field of a tile")
  end
end

local function check_rules(spec, name, report, places)
  local rules = spec[name]
  if rules == nil then return end
  local site = schema.site(places, spec, name, "")
  if type(rules) ~= "table" then
    return report(site, text.show(rules) .. " is not a list", "write { { ..., reason = ... } }")
  end
  if #rules > MOST_RULES then
    return report(site, ("a list of %d"):format(#rules), ("at most %d; match more with each"):format(MOST_RULES))
  end
  for _, key in ipairs(text.sorted_keys(rules)) do
    local at = schema.site(places, rules, key, site.path)
    if not places[rules].positional[key] then
      report(at, "a named entry in a list", "write { { ..., reason = ... } }")
    else
      check_rule(rules[key], at, name == "override", report, places)
    end
  end
end

local function check_top(spec, report, places)
  local fields = narrowing_fields()
  local required = { "families" }
  for _, axis in ipairs(axes.list) do
    if not axes.optional(axis) then table.insert(required, #required, axis.plural) end
  end
  for _, name in ipairs({ "families", "exclude", "override" }) do fields[name] = schema.any() end
  fields.compress = schema.choice(archs.COMPRESS)
  schema.check(schema.record(fields, required), spec, { path = "", line = places[spec].line }, report, places)
end

local validate = {}

--- Reports the mistakes of `spec` to `problems`.
function validate.check(spec, places, problems)
  local function report(site, wrong, right) problems:add(site.line, site.path, wrong, right) end
  check_top(spec, report, places)
  check_families(spec, report, places)
  check_rules(spec, "exclude", report, places)
  check_rules(spec, "override", report, places)
end

return validate
