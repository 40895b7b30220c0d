-- What a family has no kernel for, as the shortest `exclude` lines that say it: a spec's author pastes them. Pure: it
-- knows axes and keys, and no family.
local axes = require("gen.axes")
local text = require("gen.text")

local holes = {}

local function matches(rule, key)
  for name, values in pairs(rule) do
    if not text.contains(values, key[name]) then return false end
  end
  return true
end

local function none_of(rule, keys)
  for _, key in ipairs(keys) do
    if matches(rule, key) then return false end
  end
  return true
end

-- Every choice of `count` of the axes from the `from`-th on, in the order of the list: visit(names) until it answers
-- something.
local function choose(count, from, names, visit)
  if count == 0 then return visit(names) end
  for i = from, #axes.list - count + 1 do
    names[#names + 1] = axes.list[i].name
    local found = choose(count - 1, i + 1, names, visit)
    if found then return found end
    names[#names] = nil
  end
end

-- A rule of `count` axes that matches `key` and nothing of `made`, or nil.
local function rule_of(count, key, made)
  return choose(count, 1, {}, function(names)
    local rule = {}
    for _, name in ipairs(names) do rule[name] = { key[name] } end
    return none_of(rule, made) and rule
  end)
end

-- Adds to each axis of a rule the values of other keys that are missing, as long as the rule matches nothing of `made`.
local function widen(rule, missing, made)
  for _, axis in ipairs(axes.list) do
    local values = rule[axis.name]
    for _, key in ipairs(values and missing or {}) do
      if not text.contains(values, key[axis.name]) then
        values[#values + 1] = key[axis.name]
        if not none_of(rule, made) then values[#values] = nil end
      end
    end
    if values then table.sort(values) end
  end
end

-- A key without a value on some axis is one that no rule of this axis matches: it would be looked for without end.
local function expect_whole(keys)
  for _, key in ipairs(keys) do
    for _, axis in ipairs(axes.list) do
      if key[axis.name] == nil then error(("a key has no %s: %s"):format(axis.name, axes.key_name(key))) end
    end
  end
end

--- Rules that match every key of `missing` and none of `made`, those of the fewest axes first: a list of values by the
-- name of an axis, each. A key has a value on every axis.
function holes.rules(missing, made)
  expect_whole(missing)
  expect_whole(made)
  local rules, left = {}, missing
  for count = 0, #axes.list do
    local at = 1
    while left[at] do
      local rule = rule_of(count, left[at], made)
      if rule then
        local rest = {}
        widen(rule, left, made)
        for _, key in ipairs(left) do
          if not matches(rule, key) then rest[#rest + 1] = key end
        end
        rules[#rules + 1], left = rule, rest
      else
        at = at + 1
      end
    end
  end
  if #left > 0 then error("a key is both made and missing: " .. axes.key_name(left[1])) end
  return rules
end

--- A rule of a family as a line of the spec's `exclude`.
function holes.line(family, rule)
  local fields = { ("family = %q"):format(family) }
  for _, axis in ipairs(axes.list) do
    local values = rule[axis.name]
    if values then fields[#fields + 1] = ("%s = %s"):format(axis.name, text.plain(#values == 1 and values[1] or values)) end
  end
  return ("{ %s, reason = %q },"):format(table.concat(fields, ", "), family .. " has no kernel for it")
end

return holes
