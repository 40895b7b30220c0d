-- A checked spec to its records, sorted by name: one record a variant, which owns its name, file, symbol, table row,
-- test, budget. Only here are variants named. The order of a spec's lists and its comments never show in a record,
-- apart from `line` and `sites`, which are for messages and are never emitted.
local axes = require("gen.axes")
local holes = require("gen.holes")
local registry = require("gen.registry")
local schema = require("gen.schema")
local takes = require("gen.takes")
local text = require("gen.text")
local own_tiles = require("gen.tiles")

local MOST_VARIANTS = 10000 -- a spec of more is a mistake, not a wish

local expand = {}

-- What a family computes: every combination of the spec's values that the family does not narrow away, a key each.
local function keys_of(spec, config, family)
  local keys = { {} }
  for _, axis in ipairs(axes.list) do
    local values, longer = {}, {}
    for i, value in ipairs(config[axis.plural] or axes.values(spec, axis)) do values[i] = value end
    table.sort(values)
    for _, key in ipairs(keys) do
      for _, value in ipairs(axes.made(axis, values, key, family)) do
        local more = { [axis.name] = value }
        for name, other in pairs(key) do more[name] = other end
        longer[#longer + 1] = more
      end
    end
    keys = longer
  end
  return keys
end

local run = {} -- one expansion: spec, places, problems, and what has been found so far
run.__index = run

function run:report(site, wrong, right)
  self.problems:add(site.line, site.path, wrong, right)
end

-- The spec's own tiles for a key: the head dim's list, or the positional entries. Each with its site.
function run:tiles_of(name, key)
  local tiles, path = self.spec.families[name].tiles, "families." .. name .. ".tiles"
  local set, found = tiles and tiles[key.pass], {}
  if set == nil then return found end
  local home = schema.site(self.places, tiles, key.pass, path)
  local list, list_path = set, home.path
  local place = self.places[set]
  if set[key.head_dim] and not place.positional[key.head_dim] then
    list, list_path = set[key.head_dim], ("%s[%d]"):format(home.path, key.head_dim)
  end
  local positional = self.places[list].positional
  for i, tile in ipairs(list) do
    if positional[i] and axes.serves(tile, key) then
      self.used[tile] = true
      found[#found + 1] = { tile = tile, site = schema.site(self.places, list, i, list_path), origin = { kind = "spec" } }
    end
  end
  return found
end

-- Where the spec asks for what a key has on an axis that it lists.
function run:site_of(name, axis, key)
  local config, owner, path = self.spec.families[name], self.spec, axis.plural
  if config[path] then owner, path = config, ("families.%s.%s"):format(name, path) end
  for i, value in ipairs(owner[axis.plural]) do
    if value == key[axis.name] then return schema.site(self.places, owner[axis.plural], i, path) end
  end
end

-- Where the spec asks for the head dim: the place of what the generator's own tiles make.
function run:head_dim_site(name, key) return self:site_of(name, axes.get("head_dim"), key) end

-- What a key is made with: { tile, site, origin, target = fields to add } for each variant; and the targets without a
-- tile. The spec's tiles come first, and what they leave is made with the generator's own (gen/tiles.lua).
function run:plan_of(name, key)
  local family, made, covered, left = registry.get(name), {}, {}, {}
  local targets = family.targets(self.spec.families[name], key)
  local function take(found, among)
    for _, target in ipairs(family.variants(among, found.tile)) do
      for _, value in ipairs(family.covers(target)) do covered[value] = true end
      made[#made + 1] = { tile = found.tile, site = found.site, origin = found.origin, target = target }
    end
  end
  for _, found in ipairs(self:tiles_of(name, key)) do take(found, targets) end
  for _, target in ipairs(targets) do
    if not covered[target] then left[#left + 1] = target end
  end
  local site = self:head_dim_site(name, key)
  local set = {}
  for _, field in ipairs(family.passed or {}) do set[field] = self.spec.families[name][field] or nil end
  for _, found in ipairs(#left > 0 and own_tiles.of(family, key, left, set) or {}) do
    take({ tile = found.tile, site = site, origin = found.origin }, left)
  end
  for _, found in ipairs(family.more and family.more(self.spec.families[name], key) or {}) do
    take({ tile = found.tile, site = site, origin = found.origin }, targets)
  end
  return made, covered
end

-- A variant to be: the key, the tile's fields, and for each field the site to blame.
function run:candidate(name, key, found)
  local made = { family = name, line = found.site.line, sites = { tile = found.site }, origin = found.origin, tile_from = found.origin.kind,
    overrides = {}, compress = self.spec.compress }
  for axis, value in pairs(key) do made[axis] = value end
  axes.fill(made)
  for field in pairs(registry.get(name).tile_fields) do
    made[field] = found.tile[field]
    local written = made[field] ~= nil and self.places[found.tile]
    made.sites[field] = written and schema.site(self.places, found.tile, field, found.site.path) or found.site
  end
  for field, value in pairs(found.target) do made[field] = value end
  for _, field in ipairs(registry.get(name).passed or {}) do
    if made[field] == nil then made[field] = self.spec.families[name][field] end
  end
  return made
end

local function rule_matches(rule, candidate)
  for field, want in pairs(rule) do
    if field ~= "reason" and field ~= "set" then
      local have = candidate[field]
      if type(want) == "table" and not text.contains(want, have) or type(want) ~= "table" and want ~= have then return false end
    end
  end
  return true
end

local function copy(candidate)
  local same = {}
  for field, value in pairs(candidate) do same[field] = value end
  return same
end

-- Overrides match the variant as its tile and the family's defaults make it, `whole`, so their order does not matter.
-- They set fields of the candidate before it has defaults: what followed from a field that is set follows anew, and no
-- default counts as a word of the spec's.
function run:apply_overrides(candidate, whole)
  local matching = {}
  for i, rule in ipairs(self.spec.override or {}) do
    if rule_matches(rule, whole) then matching[#matching + 1] = i end
  end
  local set_by = {}
  for _, i in ipairs(matching) do
    local rule = self.spec.override[i]
    self.used[rule] = true
    candidate.overrides[#candidate.overrides + 1] = { reason = rule.reason, site = self:rule_site("override", i) }
    for field, value in pairs(rule.set) do
      local site = schema.site(self.places, rule.set, field, ("override[%d].set"):format(i))
      if set_by[field] and candidate[field] ~= value then
        self:report(site, ("sets what override[%d] sets to %s, for the same variant"):format(set_by[field],
          text.show(candidate[field])), "let one of them match less")
      end
      candidate[field], candidate.sites[field], set_by[field] = value, site, i
    end
  end
end

function run:rule_site(name, i)
  return schema.site(self.places, self.spec[name], i, name)
end

-- The exclusion that a candidate falls under, if any. All matching ones count as used.
function run:exclusion(candidate)
  local found
  for i, rule in ipairs(self.spec.exclude or {}) do
    if rule_matches(rule, candidate) then
      self.used[rule] = true
      found = found or { reason = rule.reason, site = self:rule_site("exclude", i) }
    end
  end
  return found
end

-- The exclusion of all that a family would make of a key: a rule that says no more than the family and what it
-- computes.
function run:exclusion_of_key(name, key)
  return self:exclusion(setmetatable({ family = name }, { __index = key }))
end

-- Names, files and what else follows from the name.
local function name_it(candidate, family)
  candidate.name = axes.key_name(candidate) .. "__" .. family.how(candidate)
  candidate.symbol = "glint_" .. candidate.name
  candidate.file = candidate.name .. "." .. family.extension
  candidate.test = "//tests:" .. candidate.name
  candidate.template = family.template and family.template(candidate) or family.templates[candidate.pass]
  candidate.tile_m, candidate.tile_n = candidate.m, candidate.n
end

function run:add(candidate)
  local family = registry.get(candidate.family)
  local whole = copy(candidate)
  family.complete(whole)
  self:apply_overrides(candidate, whole)
  local bare = copy(candidate)
  family.complete(candidate)
  takes.fill(candidate, bare)
  local excluded = self:exclusion(candidate)
  name_it(candidate, family)
  if excluded then
    candidate.excluded = excluded
    self.excluded[#self.excluded + 1] = candidate
    return
  end
  family.check(candidate, function(field, wrong, right)
    self:report(candidate.sites[field] or candidate.sites.tile, wrong, right)
  end)
  local other = self.by_name[candidate.name]
  if other then
    if candidate.origin.kind ~= "spec" and other.origin.kind == "spec" then -- the spec's is for some targets, and the generator's for others
      return self:report(other.sites.tile, ("makes %s, as does the generator's own tile for %s"):format(candidate.name,
        table.concat(family.covers(candidate), ", ")), "another m or n, or serve them too")
    end
    return self:report(candidate.sites.tile, ("makes %s again, after line %d"):format(candidate.name, other.line),
      "keep one of them, or let them differ in m or n")
  end
  self.by_name[candidate.name] = candidate
  self.records[#self.records + 1] = candidate
end

-- A key that has a tile for some target (ISA, architecture) of its family has one for all of them, or is excluded.
function run:check_cover(name, key, family, covered)
  for _, target in ipairs(family.targets(self.spec.families[name], key)) do
    if not covered[target] then
      if self:exclusion_of_key(name, key) then return end
      return self:report(self:head_dim_site(name, key), ("no tile for %s fits %s"):format(axes.key_name(key), family.target_name(target)),
        ("leave it out of families.%s.head_dims, or exclude it with a reason"):format(name))
    end
  end
end

-- Whether the family has kernels that compute `key`, whatever its tile.
local function computes(family, key)
  if axes.unbuilt(key) or not family.templates[key.pass] then return false end
  local record = copy(key)
  axes.fill(record)
  return not (family.lacks and family.lacks(record))
end

-- Sorts the keys that have no kernel. Those that the spec excludes are kept as holes. All others are one mistake, and
-- its message has the lines of `exclude` that mend it.
function run:check_missing(name, missing, made)
  local unknown = {}
  for _, key in ipairs(missing) do
    local excluded = self:exclusion_of_key(name, key)
    if excluded then
      self.holes[#self.holes + 1] = { family = name, key = axes.key_name(key), excluded = excluded }
    else
      unknown[#unknown + 1] = key
    end
  end
  if #unknown == 0 then return end
  for _, key in ipairs(unknown) do
    local axis, wrong = axes.unbuilt(key)
    if axis then
      return self:report(self:site_of(name, axis, key), wrong, ("leave %s out, or exclude it with a reason"):format(axis.plural))
    end
  end
  local site, lines = schema.site(self.places, self.spec.families, name, "families"), {}
  if #made == 0 then
    return self:report(site, ("has no kernel for anything that the spec's lists ask for, such as %s"):format(axes.key_name(unknown[1])),
      "leave the family out, or list what it has")
  end
  for i, rule in ipairs(holes.rules(unknown, made)) do lines[i] = "\n    " .. holes.line(name, rule) end
  local wrong = "has no kernel for %d of %d combinations of the spec's lists, such as %s"
  self:report(site, wrong:format(#unknown, #missing + #made, axes.key_name(unknown[1])),
    "exclude them, or give the family shorter lists of its own:" .. table.concat(lines))
end

function run:family(name)
  local family, config = registry.get(name), self.spec.families[name]
  local plans, made_keys, missing, count = {}, {}, {}, 0
  for _, key in ipairs(keys_of(self.spec, config, name)) do
    local made, covered = {}, {}
    if computes(family, key) then made, covered = self:plan_of(name, key) end
    if next(covered) then
      plans[#plans + 1], count = { key = key, made = made, covered = covered }, count + #made
      made_keys[#made_keys + 1] = key
    else
      missing[#missing + 1] = key
    end
  end
  if count > MOST_VARIANTS then
    return self:report(schema.site(self.places, self.spec.families, name, "families"), ("makes %d variants"):format(count),
      ("at most %d: fewer head dims, tiles or ISAs"):format(MOST_VARIANTS))
  end
  for _, plan in ipairs(plans) do
    for _, found in ipairs(plan.made) do self:add(self:candidate(name, plan.key, found)) end
    self:check_cover(name, plan.key, family, plan.covered)
  end
  self:check_missing(name, missing, made_keys)
end

function run:check_used(name, what)
  for i, rule in ipairs(self.spec[name] or {}) do
    if not self.used[rule] then
      self:report(self:rule_site(name, i), what, "remove it, or correct what it matches")
    end
  end
end

-- Sites of tiles that no variant uses: no mistake, for a head dim or pass taken away may come back.
function run:unused_tiles()
  local unused = {}
  local function look(list, path)
    for _, key in ipairs(text.sorted_keys(list)) do
      local site = schema.site(self.places, list, key, path)
      if not self.places[list].positional[key] then
        look(list[key], site.path)
      elseif not self.used[list[key]] then
        unused[#unused + 1] = site
      end
    end
  end
  for _, name in ipairs(text.sorted_keys(self.spec.families)) do
    local tiles = self.spec.families[name].tiles
    for _, pass in ipairs(text.sorted_keys(tiles or {})) do look(tiles[pass], ("families.%s.tiles.%s"):format(name, pass)) end
  end
  return unused
end

--- The records of a valid `spec`, sorted bytewise by name, those that it excludes, the sites of tiles that it does not
-- use, and what it excludes that has no tile: { family, key, excluded }. Mistakes go to `problems`.
function expand.expand(spec, places, problems)
  local self = setmetatable({ spec = spec, places = places, problems = problems, used = {}, by_name = {}, records = {},
    excluded = {}, holes = {} }, run)
  for _, name in ipairs(text.sorted_keys(spec.families)) do self:family(name) end
  self:check_used("exclude", "excludes nothing")
  self:check_used("override", "matches nothing")
  if #self.records == 0 and not problems:any() then
    self:report(schema.site(places, spec, "exclude", ""), "every variant is excluded", "leave at least one")
  end
  local function by_name(a, b) return a.name < b.name end
  table.sort(self.records, by_name)
  table.sort(self.excluded, by_name)
  return self.records, self.excluded, self:unused_tiles(), self.holes
end

return expand
