-- Mutants of a text of C or of Lua: each is one small mechanical change. candidates(text, language) answers a list of
-- { operator, first, last, new, line }: bytes first to last of the text become `new`.
local operators = {}

-- ---- tokens -------------------------------------------------------------------------------------------------------

local C_SYMBOLS = { "<<=", ">>=", "...", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=" }
local LUA_SYMBOLS = { "...", "<<", ">>", "//", "==", "~=", "<=", ">=", "::", ".." }

-- The end of what is no token at `at`: a comment, blanks, a line of the preprocessor; nil when a token begins there.
local function skipped(text, at, language)
  local blank = text:match("^%s+()", at)
  if blank then return blank end
  if language == "lua" then
    if text:sub(at, at + 1) ~= "--" then return nil end
    local level = text:match("^%-%-%[(=*)%[", at)
    if level then return select(2, text:find("]" .. level .. "]", at, true)) + 1 end
    return (text:find("\n", at, true) or #text) + 1
  end
  if text:sub(at, at + 1) == "/*" then return select(2, text:find("*/", at + 2, true)) + 1 end
  if text:sub(at, at) == "#" and (at == 1 or text:sub(at - 1, at - 1) == "\n") then
    local last = at
    repeat
      last = text:find("\n", last, true) or #text
      local continued = text:sub(last - 1, last - 1) == "\\"
      last = last + 1
    until not continued
    return last
  end
end

local function quoted_end(text, at)
  local quote = text:sub(at, at)
  local i = at + 1
  while text:sub(i, i) ~= quote do
    i = i + (text:sub(i, i) == "\\" and 2 or 1)
    if i > #text then error("a string that does not end") end
  end
  return i
end

local function token_end(text, at, language)
  local c = text:sub(at, at)
  if c:find("[%a_]") then return "name", text:match("^[%w_]+()", at) - 1 end
  if c:find("%d") then return "number", text:match("^[%w.]+()", at) - 1 end
  if c == '"' or c == "'" then return "string", quoted_end(text, at) end
  local level = language == "lua" and text:match("^%[(=*)%[", at)
  if level then return "long", select(2, text:find("]" .. level .. "]", at, true)) end
  for _, symbol in ipairs(language == "lua" and LUA_SYMBOLS or C_SYMBOLS) do
    if text:sub(at, at + #symbol - 1) == symbol then return "symbol", at + #symbol - 1 end
  end
  return "symbol", at
end

local function tokens_of(text, language)
  local tokens, at, line, counted = {}, 1, 1, 1
  while at <= #text do
    local after = skipped(text, at, language)
    if after then
      at = after
    else
      local kind, last = token_end(text, at, language)
      line = line + select(2, text:sub(counted, at - 1):gsub("\n", ""))
      counted = at
      tokens[#tokens + 1] = { kind = kind, text = text:sub(at, last), first = at, last = last, line = line }
      at = last + 1
    end
  end
  return tokens
end

-- ---- what both languages have -------------------------------------------------------------------------------------

local SWAPS = {
  relation = { ["<"] = { "<=", ">=" }, ["<="] = { "<", ">" }, [">"] = { ">=", "<=" }, [">="] = { ">", "<" },
    ["=="] = { "!=" }, ["!="] = { "==" } },
  logic = { ["&&"] = { "||" }, ["||"] = { "&&" } },
  arithmetic = { ["+"] = { "-" }, ["-"] = { "+" }, ["*"] = { "/" }, ["/"] = { "*" }, ["%"] = { "*" },
    ["+="] = { "-=" }, ["-="] = { "+=" }, ["++"] = { "--" }, ["--"] = { "++" } },
  bits = { ["&"] = { "|" }, ["|"] = { "&" }, ["<<"] = { ">>" }, [">>"] = { "<<" }, ["|="] = { "&=" }, ["&="] = { "|=" } },
}
local LUA_SWAPS = {
  relation = { ["<"] = { "<=", ">=" }, ["<="] = { "<", ">" }, [">"] = { ">=", "<=" }, [">="] = { ">", "<" },
    ["=="] = { "~=" }, ["~="] = { "==" } },
  logic = { ["and"] = { "or" }, ["or"] = { "and" } },
  arithmetic = { ["+"] = { "-" }, ["-"] = { "+" }, ["*"] = { "//" }, ["//"] = { "*" }, ["/"] = { "*" }, ["%"] = { "*" } },
}

local ORDER = { "relation", "logic", "arithmetic", "bits" } -- the same mutants have the same numbers in every run

local function is_binary(before)
  return before and (before.kind == "number" or before.text == ")" or before.text == "]" or before.kind == "string" or
    before.kind == "name" and before.text ~= "return" and before.text ~= "case" and before.text ~= "and" and before.text ~= "or")
end

-- Pairs of brackets: index of the opening token -> of the closing one.
local function pairs_of(tokens)
  local closing, open = {}, {}
  for i, t in ipairs(tokens) do
    if t.kind == "symbol" then
      if t.text == "(" or t.text == "{" or t.text == "[" then
        open[#open + 1] = i
      elseif t.text == ")" or t.text == "}" or t.text == "]" then
        closing[table.remove(open) or 0] = i
      end
    end
  end
  return closing
end

local function numbers(add, t)
  local value = math.tointeger(tonumber((t.text:gsub("[uUlL]+$", ""))))
  if not value then return end
  local ending = t.text:match("[uUlL]+$") or ""
  if t.text:find("^0[xX]") then ending = t.text:match("[uUlL]*$") end
  add("constant", t, t, ("%d%s"):format(value + 1, ending))
  if value > 0 then add("constant", t, t, ("%d%s"):format(value - 1, ending)) end
  if value > 1 then add("constant", t, t, ("%d%s"):format(2 * value, ending)) end
end

-- A string with its first letter changed.
local function words(add, t)
  local at = t.text:find("%a", 2)
  while at and at > 2 and t.text:sub(at - 1, at - 1):find("[\\%%]") do at = t.text:find("%a", at + 1) end
  if not at then return end
  local letter = t.text:sub(at, at)
  add("word", t, t, t.text:sub(1, at - 1) .. (letter == "x" and "y" or letter == "X" and "Y" or letter:find("%l") and "x" or "X") .. t.text:sub(at + 1))
end

-- ---- C ------------------------------------------------------------------------------------------------------------

local TYPES = {}
for word in ("const struct enum union static unsigned signed int char float double void bool long short size_t typedef extern _Static_assert inline " ..
  "return break continue if else for while do switch case default goto"):gmatch("%S+") do TYPES[word] = true end

local function statement_end(tokens, closing, i)
  while tokens[i] and tokens[i].text ~= ";" do
    if tokens[i].text == "{" or tokens[i].text == "}" then return nil end
    i = (closing[i] or i) + 1
  end
  return tokens[i] and i
end

local ASSIGNS = { ["="] = true, ["+="] = true, ["-="] = true, ["*="] = true, ["/="] = true, ["|="] = true, ["&="] = true, [">>="] = true,
  ["<<="] = true, ["^="] = true, ["%="] = true, ["++"] = true, ["--"] = true }

-- A call or an assignment that begins at token i: the index of its semicolon.
local function removable(tokens, closing, i)
  local t, following = tokens[i], tokens[i + 1]
  if t.kind ~= "name" and t.text ~= "*" or TYPES[t.text] or not following then return nil end
  if t.kind == "name" and following.kind == "name" then return nil end
  if t.text:find("_t$") or following.text == ":" then return nil end
  local last = statement_end(tokens, closing, i)
  if not last then return nil end
  for at = i, last do
    if ASSIGNS[tokens[at].text] then return last end
  end
  return tokens[last - 1].text == ")" and last or nil
end

local function c_candidates(text, statuses)
  local tokens, found = tokens_of(text, "c"), {}
  local closing, heads = pairs_of(tokens), {}
  local function add(operator, from, to, new)
    found[#found + 1] = { operator = operator, first = from.first, last = to.last, new = new, line = from.line }
  end
  for from, to in pairs(closing) do -- the ends of what stands behind if, for and while
    local word = tokens[from - 1] and tokens[from - 1].text
    heads[to] = word == "if" or word == "for" or word == "while"
  end
  local depth, skip_to = 0, 0
  for i, t in ipairs(tokens) do
    local before, after = tokens[i - 1], tokens[i + 1]
    if t.text == "{" then depth = depth + 1 elseif t.text == "}" then depth = depth - 1 end
    if t.text == "_Static_assert" and after and closing[i + 1] then skip_to = closing[i + 1] end
    if i > skip_to then
      local begins = before and (before.text == ";" or before.text == "{" or before.text == "}" or before.text == ")" or before.text == "else" or
        before.text == ":") and depth > 0
      if begins and before.text == ")" then begins = heads[i - 1] end
      if begins then
        local last = removable(tokens, closing, i)
        if last then add("statement removed", t, tokens[last], ";") end
        if t.text == "break" or t.text == "continue" then add("jump removed", t, tokens[i + 1], ";") end
        if t.text == "return" and not (depth == 1 and (before.text == ";" or before.text == "}" or before.text == "{")) then
          local stop = statement_end(tokens, closing, i)
          if stop then add("jump removed", t, tokens[stop], ";") end
        end
      end
      if t.text == "if" and after and after.text == "(" then
        local from, to = tokens[i + 2], tokens[closing[i + 1] - 1]
        local condition = text:sub(from.first, to.last)
        add("condition constant", from, to, "0")
        add("condition constant", from, to, "1")
        add("condition negated", from, to, "!(" .. condition .. ")")
      end
      for _, operator in ipairs(ORDER) do
        for _, new in ipairs(t.kind == "symbol" and SWAPS[operator][t.text] or {}) do
          local binary = is_binary(before) or t.text == "++" or t.text == "--"
          local pointer = t.text == "*" and before and (before.kind == "name" and (TYPES[before.text] or before.text:find("_t$") or
            tokens[i - 2] and (tokens[i - 2].text == "struct" or tokens[i - 2].text == "enum")) or after.text == ")" or after.text == "*")
          local address = t.text == "&" and before and before.text == ")" and after and after.kind == "name" and tokens[i - 2].text == "*"
          if binary and not pointer and not address then add(operator, t, t, new) end
        end
      end
      if t.text == "!" then add("condition negated", t, t, "") end
      if t.text == "~" then add("bits", t, t, "") end
      if t.text == "-" and not is_binary(before) and after.kind ~= "number" then add("sign", t, t, "") end
      if t.text == "true" or t.text == "false" then add("boolean", t, t, t.text == "true" and "false" or "true") end
      if statuses[t.text] then
        add("status", t, t, t.text == "GLINT_OK" and "GLINT_BAD_STRIDE" or "GLINT_OK")
        if t.text ~= "GLINT_OK" then add("status", t, t, t.text == "GLINT_BAD_STRIDE" and "GLINT_BAD_ARGUMENT" or "GLINT_BAD_STRIDE") end
      end
      if t.kind == "number" then numbers(add, t) end
      local register = after and after.text == "(" -- an operand of assembly
      if t.kind == "string" and t.text:sub(1, 1) == '"' and not register then words(add, t) end
    end
  end
  return found
end

-- ---- Lua ----------------------------------------------------------------------------------------------------------

local function lua_candidates(text)
  local tokens, found = tokens_of(text, "lua"), {}
  local closing = pairs_of(tokens)
  local function add(operator, from, to, new)
    found[#found + 1] = { operator = operator, first = from.first, last = to.last, new = new, line = from.line }
  end
  for i, t in ipairs(tokens) do
    local before = tokens[i - 1]
    for _, operator in ipairs(ORDER) do
      for _, new in ipairs(t.kind ~= "string" and (LUA_SWAPS[operator] or {})[t.text] or {}) do
        if is_binary(before) or before and before.text == "}" or operator == "logic" then add(operator, t, t, new) end
      end
    end
    if t.kind == "name" then
      if t.text == "not" then add("condition negated", t, t, "") end
      if t.text == "true" or t.text == "false" then add("boolean", t, t, t.text == "true" and "false" or "true") end
      if t.text == "if" or t.text == "elseif" then
        local stop = i + 1
        while tokens[stop].text ~= "then" do stop = (closing[stop] or stop) + 1 end
        local from, to = tokens[i + 1], tokens[stop - 1]
        add("condition constant", from, to, "false")
        add("condition constant", from, to, "true")
        add("condition negated", from, to, "not (" .. text:sub(from.first, to.last) .. ")")
      end
    end
    if t.kind == "number" then numbers(add, t) end
    if t.kind == "string" then words(add, t) end
  end
  -- A line that is a whole call, assignment or jump.
  local at, line = 1, 1
  for whole in (text .. "\n"):gmatch("([^\n]*)\n") do
    local indent, statement = whole:match("^(%s+)(.-)%s*$")
    if statement and (statement:find("^[%a_][%w_.]*%b()$") or statement:find("^[%a_][%w_.:]*%b()$") or statement:find("^[%a_][%w_.%[%]#+ ]* = .*[^,{(]$")) and
      not statement:find("^local ") and not statement:find("^return ") then
      local first = at + #indent
      found[#found + 1] = { operator = "statement removed", first = first, last = first + #statement - 1, new = "", line = line }
    elseif statement and (statement:find("^return ") or statement == "return" or statement == "break") then
      found[#found + 1] = { operator = "jump removed", first = at + #indent, last = at + #indent + #statement - 1, new = "", line = line }
    end
    at, line = at + #whole + 1, line + 1
  end
  return found
end

--- All mutants of a text. `statuses` are the names of statuses that C has.
function operators.candidates(text, language, statuses)
  return language == "lua" and lua_candidates(text) or c_candidates(text, statuses or {})
end

--- The text with a mutant in it.
function operators.apply(text, mutant)
  return text:sub(1, mutant.first - 1) .. mutant.new .. text:sub(mutant.last + 1)
end

return operators
