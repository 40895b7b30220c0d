-- From a spec file to its records: load, validate, expand. Stops after the first stage that finds mistakes, for what a
-- later one would say of a broken spec misleads. Everything that reads a spec comes through here.
local expand = require("gen.expand")
local load_spec = require("gen.load")
local problems = require("gen.problems")
local validate = require("gen.validate")

-- How a spec is called in what is emitted: a path inside the repository as it is, any other from its last `spec/` on,
-- or its file name. Never an absolute path, never one inside Bazel's folders, and nothing that could end a comment or
-- a string.
local function spec_name(path)
  local inside = path:gsub("^%./", "")
  local outside = inside:find("^[/.]") or inside:find("^external/") or inside:find("^bazel%-")
  local name = outside and (path:match("^.*/(spec/[^/]+)$") or path:match("[^/]+$")) or inside
  return (name:gsub("[^%w_./@+-]", "_"))
end

--- { spec, places, records, excluded, unused, holes, path, name } of the spec at `path` (gen/expand.lua says what each
-- is), or nil and its mistakes as text.
return function(path)
  local found = problems.new(path)
  local spec, places = load_spec(path, found)
  if spec then validate.check(spec, places, found) end
  if found:any() then return nil, found:text() end
  local records, excluded, unused, holes = expand.expand(spec, places, found)
  if found:any() then return nil, found:text() end
  return { spec = spec, places = places, records = records, excluded = excluded, unused = unused, holes = holes, path = path,
    name = spec_name(path) }
end
