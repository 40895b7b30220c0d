-- Text of a spec to tokens { kind, value, line }. Kinds: "name", "string", "number", "end", or the symbol itself.
-- Lua's own lexical rules, less the string escapes that a spec has no use for. It never runs anything. Mistakes are
-- thrown as { line, wrong, right }: after one the rest of the text has no meaning.
local LONGEST_STRING = 1000

local function fail(line, wrong, right)
  error({ line = line, wrong = wrong, right = right }, 0)
end

-- Newlines in a piece of text; \r\n and \n\r count as one, like Lua counts.
local function newlines(piece)
  local _, count = piece:gsub("\r\n", "\n"):gsub("\n\r", "\n"):gsub("[\r\n]", "")
  return count
end

-- A long bracket at `at`: its content and the position after it; nil when there is none.
local function long_bracket(source, at, line)
  local level = source:match("^%[(=*)%[", at)
  if not level then return nil end
  local first = at + #level + 2
  local close, after = source:find("]" .. level .. "]", first, true)
  if not close then fail(line, "a long bracket is never closed", "close it with ]" .. level .. "]") end
  return source:sub(first, close - 1), after + 1
end

local function check_length(value, line)
  if #value > LONGEST_STRING then
    fail(line, ("a string of %d characters"):format(#value), ("a string has at most %d"):format(LONGEST_STRING))
  end
  return value
end

local function quoted(source, at, line)
  local quote, parts, i = source:sub(at, at), {}, at + 1
  while true do
    local plain = source:match("^[^\\\r\n\"']+", i)
    if plain then parts[#parts + 1], i = plain, i + #plain end
    local c = source:sub(i, i)
    if c == quote then return check_length(table.concat(parts), line), i + 1 end
    if c == "" or c == "\n" or c == "\r" then fail(line, "a string is not closed on its line", "close it with " .. quote) end
    if c == "\\" then
      c, i = source:sub(i + 1, i + 1), i + 1
      if not c:find("^[\\\"']") then
        fail(line, "the escape \\" .. (c:find("%g") and c or "?") .. " is not read in a spec", "write the character itself")
      end
    end
    parts[#parts + 1], i = c, i + 1
  end
end

local function number(source, at, line)
  local hex = source:find("^0[xX]", at)
  local exponent, after = hex and "^[pP][+-]" or "^[eE][+-]", at + (hex and 2 or 0)
  while true do
    if source:find(exponent, after) then
      after = after + 2
    elseif source:find("^[%w_.]", after) then
      after = after + 1
    else
      break
    end
  end
  local lexeme = source:sub(at, after - 1)
  local value = tonumber(lexeme)
  if not value then fail(line, "`" .. lexeme:sub(1, 40) .. "` is not a number", "write it like 64") end
  return value, after
end

-- Position and line after white space and comments.
local function skip(source, at, line)
  while true do
    local blank = source:match("^[ \t\r\n\f\v]+", at)
    if blank then
      line, at = line + newlines(blank), at + #blank
    elseif source:find("^%-%-", at) then
      local content, after = long_bracket(source, at + 2, line)
      if content then
        line, at = line + newlines(content), after
      else
        at = source:find("[\r\n]", at) or #source + 1
      end
    else
      return at, line
    end
  end
end

-- One token at `at` and the position after it.
local function token(source, at, line)
  local name = source:match("^[%a_][%w_]*", at)
  if name then return { kind = "name", value = name, line = line }, at + #name end
  local c = source:sub(at, at)
  if c:find("%d") or source:find("^%.%d", at) then
    local value, after = number(source, at, line)
    return { kind = "number", value = value, line = line }, after
  end
  if c == '"' or c == "'" then
    local value, after = quoted(source, at, line)
    return { kind = "string", value = value, line = line }, after
  end
  local long, after = long_bracket(source, at, line)
  if long then
    local value = check_length(long:gsub("^\r?\n", ""), line)
    return { kind = "string", value = value, line = line }, after
  end
  if not c:find("%g") then
    fail(line, ("a byte 0x%02X outside a string"):format(c:byte()), "a spec is plain text")
  end
  return { kind = c, value = c, line = line }, at + 1
end

return function(source)
  local tokens, at, line = {}, 1, 1
  while true do
    at, line = skip(source, at, line)
    if at > #source then break end
    local found, after = token(source, at, line)
    tokens[#tokens + 1] = found
    line, at = line + newlines(source:sub(at, after - 1)), after
  end
  tokens[#tokens + 1] = { kind = "end", value = "the end of the file", line = line }
  return tokens
end
