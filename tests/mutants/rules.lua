-- Survivors that need no entry in known.lua, as a rule tells that no caller can see them. They are judged first, and
-- the rule counts only where all programs pass.
local rules = {}

-- An array on the stack or in a table with more elements, of a file that never asks for its size.
local function room(m, text)
  if m.operator ~= "constant" or text:sub(m.first - 1, m.first - 1) ~= "[" or text:sub(m.last + 1, m.last + 1) ~= "]" then return nil end
  if not (tonumber(m.old) and tonumber(m.new) and tonumber(m.new) > tonumber(m.old)) then return nil end
  local head = text:sub(1, m.first - 2):match("[;{}]%s*([^;{}]*)$")
  local name = head and head:match("([%a_][%w_]*)[%[%]]*$")
  if not name or head:find("[=(]") or not head:find("^[%a_][%w_ ]*[ *][%a_]") or text:find("sizeof " .. name, 1, true) then return nil end
  return { class = "speed", why = "room" }
end

-- Arguments of the call that begins at `at`, the offset of its bracket, with the offsets where each begins and ends.
local function arguments_of(text, at)
  local inside = text:match("^%b()", at)
  if not inside then return {} end
  local list, depth, from, quoted = {}, 0, at + 1, false
  for i = at + 1, at + #inside - 1 do
    local c = text:sub(i, i)
    if c == '"' then quoted = not quoted end
    if not quoted then
      if c == "(" then depth = depth + 1 end
      if depth == 0 and (c == "," or c == ")") then
        list[#list + 1] = { first = from, last = i - 1, text = text:sub(from, i - 1):match("^%s*(.-)%s*$") }
        from = i + 1
      end
      if c == ")" then depth = depth - 1 end
    end
  end
  return list
end

local SAYS = { [5] = "{value}", [6] = "{want}" }

-- A number that a refusal is given, and that the sentence of its reason does not say.
local function unsaid(m, text, sentences)
  if m.operator ~= "constant" then return nil end
  local at
  for from in text:sub(1, m.first):gmatch("glint_refuse()%(") do at = from end
  for i, argument in ipairs(at and arguments_of(text, at) or {}) do
    if SAYS[i] and argument.first <= m.first and m.last <= argument.last and argument.text == m.old then
      local reason = arguments_of(text, at)[2].text:match("^GLINT_REASON_([%u%d_]+)$")
      local words = reason and sentences:match("R%(" .. reason .. ", [%u_]+, (.-)%) \\\n")
      if words and not words:find(SAYS[i], 1, true) then return { class = "equivalent", why = "the sentence says no number" } end
    end
  end
end

-- The larger or the smaller of two numbers, whichever is taken where they are equal.
local BESIDE = { ["<"] = "<=", ["<="] = "<", [">"] = ">=", [">="] = ">" }
local function bare(words) return (words:gsub("%(u?int%d+_t%)", ""):gsub("%s", "")) end
local function either(m, text)
  if m.operator ~= "relation" or BESIDE[m.old] ~= m.new then return nil end
  local head = text:sub(1, m.first - 1)
  local left = head:match("[=(,?:&|]%s+([%w_.>%[%]-]+) $") or head:match("%(([%w_.>%[%]-]+) $") or head:match("return%s+([%w_.>%[%]-]+) $")
  local right, one, other = text:sub(m.last + 1):match("^ ([%w_.>%[%]-]+)%s+%? ([%w_.>%[%]()-]+)%s+: ([%w_.>%[%]()-]+)[;,]")
  if not (left and right) then return nil end
  one, other = bare(one):gsub("%)+$", ""), bare(other):gsub("%)+$", "")
  if not ((one == left and other == right) or (one == right and other == left)) then return nil end
  return { class = "equivalent", why = "of two equal numbers either is taken" }
end

--- The class of a survivor of `text`, and why; nil where no rule tells. `sentences`: lib/sentences.h.
function rules.of(m, text, sentences)
  if not m.file:find("%.[ch]$") then return nil end
  return room(m, text) or unsaid(m, text, sentences) or either(m, text)
end

return rules
