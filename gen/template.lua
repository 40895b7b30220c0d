-- The template engine. A template is text in which
--   a line `$ lua` (indented or not) is Lua,      ${expr} becomes the value of a Lua expression,      $$ is a dollar.
-- Each template line becomes one line of Lua, so an error of any kind carries the template's own file and line. A
-- template sees the values it is given and a few pure functions, nothing else: an undefined name is an error, and so
-- is setting a global.
local text = require("gen.text")

local template = {}

local MOST_STEPS = 20000000 -- Lua instructions of one template: a second or so

-- What every template may call. No pairs: its order is not fixed, and the same spec must give the same bytes.
local FUNCTIONS = {
  assert = assert, error = error, ipairs = ipairs, select = select, tonumber = tonumber, tostring = tostring, type = type,
  math = { abs = math.abs, ceil = math.ceil, floor = math.floor, max = math.max, min = math.min, tointeger = math.tointeger },
  string = { format = string.format, rep = string.rep, sub = string.sub, upper = string.upper, lower = string.lower },
  table = { concat = table.concat, insert = table.insert, unpack = table.unpack, sort = table.sort },
}

local function fail(name, line, what)
  error(("%s:%d: %s"):format(name, line, what), 0)
end

-- The Lua expression of a `${` whose text starts at `at`: the shortest that ends in } and compiles; and the position
-- after it.
local function expression(line, at, name, number)
  local close, first_error = at - 1, nil
  while true do
    close = line:find("}", close + 1, true)
    if not close then break end
    local source = line:sub(at, close - 1)
    local ok, why = load("return (" .. source .. "\n)", "=", "t")
    if ok then return source, close + 1 end
    first_error = first_error or why:gsub("^.-:%d+: ", "")
  end
  fail(name, number, first_error and "in ${...}: " .. first_error or "a ${ is never closed on its line; close it with }")
end

-- A line of text as the arguments of one call: quoted pieces and expressions.
local function text_line(line, name, number)
  local parts, at = {}, 1
  while true do
    local dollar = line:find("$", at, true)
    local plain = line:sub(at, (dollar or #line + 1) - 1)
    if plain ~= "" then parts[#parts + 1] = ("%q"):format(plain) end
    if not dollar then break end
    local mark = line:sub(dollar + 1, dollar + 1)
    if mark == "$" then
      parts[#parts + 1], at = '"$"', dollar + 2
    elseif mark == "{" then
      local source
      source, at = expression(line, dollar + 2, name, number)
      parts[#parts + 1] = "(" .. source .. ")"
    else
      fail(name, number, "a $ alone; write $$ for a dollar, ${expr} for a value, or `$ lua` for a line of Lua")
    end
  end
  parts[#parts + 1] = '"\\n"'
  return "_put(" .. table.concat(parts, ",") .. ")"
end

-- The whole template as Lua, line for line.
local function translate(source, name)
  local lines = {}
  for line in source:gsub("\r\n", "\n"):gsub("\n?$", "\n", 1):gmatch("(.-)\n") do
    local number = #lines + 1
    lines[number] = line:match("^%s*%$ (.*)$") or line:match("^%s*%$()$") and "" or text_line(line, name, number)
  end
  return table.concat(lines, "\n")
end

-- Values go into text only when there is one way to write them.
local function written(value)
  if type(value) == "string" then return value end
  if type(value) == "number" then return text.number(value) end
end

local function collector(out)
  return function(...)
    for i = 1, select("#", ...) do
      local value = select(i, ...)
      local piece = written(value)
      if not piece then error(("a %s (%s) in ${...}; a template writes strings and finite numbers"):format(type(value),
        tostring(value):gsub("0x%x+", "...")), 2) end
      out[#out + 1] = piece
    end
  end
end

-- FUNCTIONS, copied so that no template can change them for the next.
local function functions()
  local copy = {}
  for name, value in pairs(FUNCTIONS) do
    copy[name] = value
    if type(value) == "table" then
      copy[name] = {}
      for inner, call in pairs(value) do copy[name][inner] = call end
    end
  end
  return copy
end

-- The names that a template sees; unknown ones and assignments are errors at the template's line.
local function environment(values, out, include)
  local own, pure = { _put = collector(out), include = include }, functions()
  return setmetatable({}, {
    __index = function(_, key)
      local value = own[key]
      if value == nil then value = values[key] end
      if value == nil then value = pure[key] end
      if value == nil then error(("undefined name `%s`"):format(tostring(key)), 2) end
      return value
    end,
    __newindex = function(_, key) error(("`%s` is set as a global; write `local %s`"):format(tostring(key), tostring(key)), 2) end,
    __metatable = false,
  })
end

-- Lua shortens chunk names of more than 59 characters, so a marker stands for the name while the template runs.
local MARK = "@TEMPLATE"

local function named(why, name)
  return (tostring(why):gsub("TEMPLATE:(%d+):", function(line) return name .. ":" .. line .. ":" end))
end

--- The text that `source` makes of `values`. `name` is for messages. options.read(file) -> source, name serves `$
-- include("file")`. Throws a string `name:line: what is wrong`.
function template.render(source, name, values, options)
  local depth = options and options.depth or 0
  local out = {}
  local function include(file)
    if not (options and options.read) then error("include is not available here", 2) end
    if depth >= 8 then error("includes nested too deep", 2) end
    local included, included_name = options.read(file)
    if not included then error(("cannot include %s: %s"):format(text.show(file), included_name), 2) end
    out[#out + 1] = template.render(included, included_name, values, { read = options.read, depth = depth + 1 })
  end
  local chunk, why = load(translate(source, name), MARK, "t", environment(values, out, include))
  if not chunk then error(named(why, name), 0) end
  if depth == 0 then debug.sethook(function() error("runs too long: a loop without end?", 2) end, "", MOST_STEPS) end
  local ok, failed = pcall(chunk)
  if depth == 0 then debug.sethook() end
  if not ok then error(named(failed, name), 0) end
  return table.concat(out)
end

return template
