-- Tokens of a spec to plain data, with the line of every field. The grammar is the data part of Lua and nothing else:
--     spec := return table [;]      value := string | number | - number | true | false | table
-- so nothing in a spec is ever run: a loop, a call or an expression is a mistake with a line, not something to be
-- survived. Duplicate keys, which Lua merges silently, are mistakes too.
local lex = require("gen.lex")
local text = require("gen.text")

local DEEPEST = 16

local KEYWORDS = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat return then true until
  while]]):gmatch("%a+") do KEYWORDS[word] = true end

local parser = {}
parser.__index = parser

--- `families.cpu.tiles.fwd[2].m` from its parts.
local function path_of(parent, key)
  if math.type(key) == "integer" then return ("%s[%d]"):format(parent, key) end
  if not (type(key) == "string" and key:find("^[%a_][%w_]*$")) then return parent .. "[" .. text.show(key) .. "]" end
  return parent == "" and key or parent .. "." .. key
end

local function fail(found, wrong, right)
  error({ line = found.line, wrong = wrong, right = right }, 0)
end

function parser:peek(ahead)
  return self.tokens[math.min(self.at + (ahead or 0), #self.tokens)]
end

function parser:take()
  local found = self:peek()
  self.at = self.at + 1
  return found
end

local function written(found)
  if found.kind == "end" then return found.value end
  if found.kind == "string" then return "the string " .. text.show(found.value) end
  return "`" .. tostring(found.value):sub(1, 40) .. "`"
end

-- A word or symbol that starts no value.
local function not_data(found)
  if found.value == "nil" then fail(found, "nil is no value", "leave the field out") end
  if found.kind == "name" then
    fail(found, written(found) .. " is code, and a spec is never run", "write plain data: strings, numbers, true, false and tables")
  end
  fail(found, written(found) .. " is not a value", "write a string, a number, true, false or a table")
end

function parser:value()
  local found = self:peek()
  if found.kind == "{" then return self:table() end
  self:take()
  if found.kind == "string" or found.kind == "number" then return found.value end
  if found.value == "true" then return true end
  if found.value == "false" then return false end
  if found.kind == "-" and self:peek().kind == "number" then return -self:take().value end
  return not_data(found)
end

-- The key of the entry that starts here: name, string or integer; nil for a positional entry.
function parser:key()
  local found = self:peek()
  if found.kind == "name" and self:peek(1).kind == "=" then
    if KEYWORDS[found.value] then fail(found, written(found) .. " is a word of Lua", 'write ["' .. found.value .. '"]') end
    self.at = self.at + 2
    return found.value
  end
  if found.kind ~= "[" then return nil end
  self:take()
  local key = self:take()
  if key.kind ~= "string" and math.type(key.value) ~= "integer" then
    fail(key, written(key) .. " is not a key", "write [64] or a name")
  end
  local close, equals = self:take(), self:take()
  if close.kind ~= "]" or equals.kind ~= "=" then fail(close, "a key is not followed by `] =`", "write [64] = { ... }") end
  return key.value
end

-- What must follow an entry of the table that `open` opens.
function parser:separator(open)
  local found = self:peek()
  if found.kind == "," or found.kind == ";" then return self:take() end
  if found.kind == "end" then self:unclosed(open) end
  if found.kind ~= "}" then
    fail(found, written(found) .. " where `,` or `}` must stand", "a value is written out in full: no expressions, no calls")
  end
end

-- Puts an entry into `result`, unless its key is there already.
function parser:store(result, key, value, line, positional)
  local place = self.places[result]
  if place.lines[key] then
    self.problems:add(line, path_of(self.path, key), ("given twice, first on line %d"):format(place.lines[key]), "keep one of them")
    return
  end
  result[key], place.lines[key], place.positional[key] = value, line, positional
end

function parser:unclosed(open)
  self.path = ""
  fail(self:peek(), ("the `{` of line %d is never closed"):format(open.line), "close it with }")
end

function parser:table()
  local open, result, count = self:take(), {}, 0
  self.places[result] = { line = open.line, lines = {}, positional = {} }
  self.depth = self.depth + 1
  if self.depth > DEEPEST then fail(open, "tables nested too deep", ("a spec has at most %d levels"):format(DEEPEST)) end
  local outer = self.path
  while self:peek().kind ~= "}" do
    if self:peek().kind == "end" then self:unclosed(open) end
    local line, key = self:peek().line, self:key()
    local positional = key == nil
    if positional then
      count = count + 1
      key = count
    end
    self.path = path_of(outer, key)
    local value = self:value()
    local entry = self.path
    self.path = outer
    self:store(result, key, value, line, positional)
    self.path = entry
    self:separator(open)
    self.path = outer
  end
  self:take()
  self.depth = self.depth - 1
  return result
end

function parser:spec()
  local first = self:take()
  if first.value ~= "return" then
    if first.kind == "name" then not_data(first) end
    fail(first, written(first) .. " where the spec must start", "start it with return {")
  end
  if self:peek().kind ~= "{" then fail(self:peek(), "the spec returns no table", "write return { ... }") end
  local result = self:table()
  if self:peek().kind == ";" then self:take() end
  if self:peek().kind ~= "end" then
    fail(self:peek(), written(self:peek()) .. " after the end of the spec", "nothing follows the table that is returned")
  end
  return result
end

--- The data of `source` and where each field stands:
-- places[table] = { line = of its {, lines = { [key] = line }, positional = { [key] = true } }.
--- Mistakes go to `problems`; the result is nil when the text is not a spec at all.
local function parse(source, problems)
  local self = setmetatable({ at = 1, depth = 0, path = "", places = {}, problems = problems }, parser)
  local ok, result = pcall(function()
    self.tokens = lex(source)
    return self:spec()
  end)
  if ok then return result, self.places end
  if type(result) ~= "table" then error(result, 0) end
  problems:add(result.line, self.path == "" and "spec" or self.path, result.wrong, result.right)
  return nil
end

return { parse = parse, path_of = path_of }
