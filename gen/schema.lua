-- What a field of a spec may be, said as data: schema.choice, integer, flag, sentence, list, one_or_list, record, any.
-- schema.check walks a value beside its schema and reports each mistake with its line. It knows no field by name:
-- those are in gen/validate.lua and in each family's file.
local parse = require("gen.parse")
local text = require("gen.text")

local schema = {}

function schema.choice(values) return { kind = "choice", values = values } end

--- Bounds are inclusive; `multiple` may be nil.
function schema.integer(min, max, multiple) return { kind = "integer", min = min, max = max, multiple = multiple } end

--- One of several names. One that is a number may be written without quotes.
function schema.name(values) return { kind = "name", values = values } end

function schema.flag() return { kind = "flag" } end

--- One line of text for people.
function schema.sentence() return { kind = "sentence" } end

--- `most`: how many entries at most; nil for any number.
function schema.list(of, most) return { kind = "list", of = of, most = most } end

--- A value, or a list of several: how matches are written.
function schema.one_or_list(of) return { kind = "one_or_list", of = of } end

--- Anything: checked elsewhere.
function schema.any() return { kind = "any" } end

--- fields: name -> schema; required: names that must be there.
function schema.record(fields, required) return { kind = "record", fields = fields, required = required or {} } end

--- `fields` with those of `more` added: a new table.
function schema.merge(fields, more)
  local merged = {}
  for name, field in pairs(fields) do merged[name] = field end
  for name, field in pairs(more) do merged[name] = field end
  return merged
end

-- A site is where a value stands: site.path for the message, site.line. A cursor makes the sites of a table's entries.
function schema.site(places, owner, key, path)
  local place = places[owner]
  return { path = parse.path_of(path, key), line = place.lines[key] or place.line }
end

local check = {}

function check.any() end

local function wrong_type(want)
  return function(value) return text.show(value) .. " is not " .. want end
end

function check.choice(self, value, site, report)
  for _, allowed in ipairs(self.values) do
    if value == allowed then return end
  end
  local near = type(value) == "string" and text.meant(value, self.values)
  local hint = near and "did you mean " .. text.show(near) .. "? " or ""
  report(site, text.show(value) .. " is not known", hint .. "one of " .. text.words(self.values))
end

function check.name(self, value, site, report)
  for _, allowed in ipairs(self.values) do
    if value == allowed or math.type(value) == "integer" and tostring(value) == allowed then return end
  end
  report(site, text.show(value) .. " is not known", "one of " .. text.words(self.values))
end

function check.integer(self, value, site, report)
  if math.type(value) ~= "integer" then
    local whole = math.type(value) == "float" and math.tointeger(value)
    return report(site, wrong_type("an integer")(value), whole and "write " .. whole
      or ("an integer from %d to %d"):format(self.min, self.max))
  end
  if value < self.min or value > self.max then
    return report(site, ("%d is out of range"):format(value), ("from %d to %d"):format(self.min, self.max))
  end
  local step = self.multiple
  if step and value % step ~= 0 then
    local below, above = value - value % step, value - value % step + step
    local near = below < self.min and tostring(above) or above > self.max and tostring(below) or below .. " or " .. above
    report(site, ("%d is not a multiple of %d (%d x %d + %d)"):format(value, step, step, value // step, value % step), near)
  end
end

function check.flag(_, value, site, report)
  if type(value) ~= "boolean" then report(site, wrong_type("true or false")(value), "write true or false") end
end

function check.sentence(_, value, site, report)
  if type(value) ~= "string" then return report(site, wrong_type("a sentence")(value), "say why, in quotes") end
  if #value > 300 then return report(site, ("%d characters long"):format(#value), "at most 300") end
  if value:find("[%c\127]") or not utf8.len(value) then return report(site, "holds bytes that are no text", "one line of UTF-8") end
  if value:find("*/", 1, true) then return report(site, "holds */, which ends a comment in C", "leave that out") end
  if not value:find("[%w\128-\255]") then return report(site, "says nothing", "say why, in a few words") end
end

-- A table whose entries are all positional; true when it is one.
local function is_list(value, site, report, places, of, most)
  if type(value) ~= "table" then
    report(site, wrong_type("a list")(value), of.kind == "record" and "write { { ... } }" or "write { " .. text.show(value) .. " }")
    return false
  end
  for _, key in ipairs(text.sorted_keys(value)) do
    if not places[value].positional[key] then
      report(schema.site(places, value, key, site.path), "a named entry in a list", "write the value alone")
      return false
    end
  end
  if #value == 0 then report(site, "an empty list", "list at least one") end
  if most and #value > most then report(site, ("a list of %d"):format(#value), ("at most %d"):format(most)) end
  return #value > 0
end

function check.list(self, value, site, report, places)
  if not is_list(value, site, report, places, self.of, self.most) then return end
  local first = {}
  for i, entry in ipairs(value) do
    local at = schema.site(places, value, i, site.path)
    local same = self.of.kind == "name" and tostring(entry) or entry
    if type(entry) ~= "table" and first[same] then
      report(at, ("%s is listed twice, first as %s[%d]"):format(text.show(entry), site.path, first[same]), "list it once")
    else
      schema.check(self.of, entry, at, report, places)
      if type(entry) ~= "table" then first[same] = i end
    end
  end
end

function check.one_or_list(self, value, site, report, places)
  if type(value) == "table" then return check.list(self, value, site, report, places) end
  schema.check(self.of, value, site, report, places)
end

local function unknown_key(key, names, site, report)
  if type(key) == "number" then
    return report(site, "a value without a name", "write it as `name = value`; the fields are " .. text.words(names, "and"))
  end
  local near = text.meant(key, names)
  local hint = near and "did you mean " .. near .. "? " or ""
  report(site, "no such field", hint .. "the fields are " .. text.words(names, "and"))
end

function check.record(self, value, site, report, places)
  if type(value) ~= "table" then return report(site, wrong_type("a table")(value), "write { name = value, ... }") end
  local names = text.sorted_keys(self.fields)
  for _, key in ipairs(text.sorted_keys(value)) do
    local at = schema.site(places, value, key, site.path)
    if self.fields[key] then
      schema.check(self.fields[key], value[key], at, report, places)
    else
      unknown_key(key, names, at, report)
    end
  end
  for _, name in ipairs(self.required) do
    if value[name] == nil then
      local at = { path = parse.path_of(site.path, name), line = places[value].line }
      report(at, "is missing", "add " .. name .. " = ...")
    end
  end
end

--- Checks `value` against `self`; report(site, wrong, right) is called for every mistake.
function schema.check(self, value, site, report, places)
  check[self.kind](self, value, site, report, places)
end

return schema
