-- Puts many deliberate faults into one emitted kernel, of which each run of it has one:
--
--   lua choose.lua SOURCE OUT TABLE [HEADER]...
--
-- TABLE is a Lua file that returns { { number =, was =, now =, count = }, ... }; what has number i happens where
-- sim_fault_number is i. A kernel is then compiled once for all of its faults. The HEADERs, in the order in which one
-- includes the other, stand before the source, so that a fault can be in what kernels share. Text that is not there
-- `count` times, in all of them together, is an error.
--
-- What `was` and `now` begin and end with in common only says where the fault is. What differs is widened to whole
-- statements, or else to a whole expression: between these the run chooses. So a fault cannot be in a declaration, nor
-- declare what is used after it; its initialiser can be another expression. Faults whose text overlaps are widened to
-- the same text.
local choose = {}

local PROLOGUE = 'extern "C" int sim_fault_number; static inline bool sim_fault(int number) { return sim_fault_number == number; }\n'
local NEAR = 200 -- characters in front that are looked at

-- On one line, so that line numbers stay.
local function flat(text)
  assert(not text:find("//", 1, true) and not text:find("#", 1, true), "a fault's text cannot hold // or a directive: " .. text)
  return (text:gsub("%s*\n%s*", " "))
end

local function any(text, patterns)
  for _, pattern in ipairs(patterns) do
    if text:find(pattern) then return true end
  end
  return false
end

local CLOSES = { ["("] = ")", ["["] = "]", ["{"] = "}" }

local function balanced(text)
  local open = {}
  for bracket in text:gmatch("[%(%)%[%]{}]") do
    if CLOSES[bracket] then
      open[#open + 1] = CLOSES[bracket]
    elseif table.remove(open) ~= bracket then
      return false
    end
  end
  return #open == 0
end

local DECLARATION = { "^%s*const%s", "^%s*struct%s", "^%s*typedef%s", "^%s*[%a_][%w_:]*[%s*&]+[%a_][%w_]*%s*[=;,{%[]" }

local function is_declaration(text) return any(text, DECLARATION) and not text:find("^%s*return%s") end

local function is_statements(text) return text:find("^%s*$") or text:find("[;}]%s*$") and balanced(text) and not is_declaration(text) end

-- One value: without a comma or an assignment of its own, and with both branches of a choice.
local function is_expression(text)
  local outside = text:gsub("%b()", ""):gsub("%b{}", ""):gsub("%b[]", ""):gsub("::", ""):gsub("<[%w_, ]+>", "")
  local asks, answers = select(2, outside:gsub("%?", "")), select(2, outside:gsub(":", ""))
  return text:find("%S") and balanced(text) and not outside:find("[,;]") and not outside:find("[^=<>!]=[^=]") and not text:find("^%s*[=:]")
    and asks == answers
end

-- Not within the parentheses of a `for`.
local function is_outside(before)
  local line = before:match("[^\n]*$")
  return select(2, line:gsub("%(", "")) == select(2, line:gsub("%)", ""))
end

-- Two kinds of text that can be chosen: where it may begin and end, and what it may be.
local STATEMENTS = {
  after = { "^%s*$", "[;{})]%s*$", "%*/%s*$", "%f[%w]else%s+$", "#pragma[^\n]*\n%s*$" },
  before = { "" },
  may_follow = is_outside,
  is = function(was, now)
    return is_statements(was) and is_statements(now) and not was:find("^%s*[^%w%s*{(]") and not was:find("^%s*else%f[%W]")
  end,
  switch = function(number, now, text)
    if not text:find("%S") then return ("if (sim_fault(%d)) { %s }%s"):format(number, now, text) end
    return ("if (sim_fault(%d)) { %s } else { %s }"):format(number, now, text)
  end,
}
local EXPRESSION = {
  after = { "[(,;{]%s*$", "[^=<>!]=%s*$", "[^:]:%s*$", "%f[%w]return%s+$" },
  before = { "^%s*[),;}?]", "^%s*:[^:]" },
  may_follow = function() return true end,
  is = function(was, now) return is_expression(was) and is_expression(now) end,
  switch = function(number, now, text) return ("(sim_fault(%d) ? (%s) : (%s))"):format(number, now, text) end,
}

local function common(a, b, from, step)
  local most, length = math.min(#a, #b), 0
  while length < most do
    local at_a, at_b = from(a, length), from(b, length)
    if a:byte(at_a) ~= b:byte(at_b) then break end
    length = length + step
  end
  return length
end

local function from_begin(_, length) return length + 1 end
local function from_end(text, length) return #text - length end

-- How many of the first and last characters of both are left out, for `kind`; nil if it is not of that kind. first:
-- where `was` is.
local function trim(kind, text, first, was, now)
  local most, least = common(was, now, from_begin, 1), math.min(#was, #now)
  for front = most, 0, -1 do
    local at = first + front
    local front_text = text:sub(math.max(1, at - NEAR), at - 1)
    if any(front_text, kind.after) and kind.may_follow(front_text) then
      local back = common(was:sub(front + 1), now:sub(front + 1), from_end, 1)
      for behind = math.min(back, least - front), 0, -1 do
        local follows = was:sub(#was - behind + 1) .. text:sub(first + #was, first + #was + NEAR)
        if any(follows, kind.before) and kind.is(was:sub(front + 1, #was - behind), now:sub(front + 1, #now - behind)) then
          return front, behind
        end
      end
    end
  end
end

-- What is chosen where `was` begins at `first`: { first, last, kind, changes = { { number, first, last, now } } }.
local function region(text, first, number, was, now)
  for _, kind in ipairs({ STATEMENTS, EXPRESSION }) do
    local front, behind = trim(kind, text, first, was, now)
    if front then
      local from, to = first + front, first + #was - 1 - behind
      local shown = text:sub(from, to)
      if shown:find("%S") then from, to = from + #shown:match("^%s*"), to - #shown:match("%s*$") end
      return { from, to, kind, changes = { { number, from, to, now:sub(front + 1, #now - behind):match("^%s*(.-)%s*$") } } }
    end
  end
  local kind = is_expression(was) and is_expression(now) and EXPRESSION
  return kind and { first, first + #was - 1, kind, changes = { { number, first, first + #was - 1, now } } }
end

local function places(text, part)
  local found, at = {}, 1
  while true do
    local first, last = text:find(part, at, true)
    if not first then return found end
    found[#found + 1] = first
    at = last + 1
  end
end

-- Regions that overlap become one, of the kind of the one that holds the other; nil and a message if none does.
local function merge(text, regions)
  table.sort(regions, function(a, b) return a[1] < b[1] or a[1] == b[1] and a[2] > b[2] end)
  local merged = {}
  for _, next in ipairs(regions) do
    local last = merged[#merged]
    if not last or next[1] > last[2] then
      merged[#merged + 1] = next
    elseif next[2] > last[2] and (next[3] ~= STATEMENTS or last[3] ~= STATEMENTS) then
      return nil, "two faults change the same text: " .. text:sub(last[1], next[2])
    else
      last[2] = math.max(last[2], next[2])
      table.move(next.changes, 1, #next.changes, #last.changes + 1, last.changes)
    end
  end
  return merged
end

-- The text of a region, and what stands for it in each of its faults.
local function switch(text, of)
  local first, last, kind = of[1], of[2], of[3]
  local out = text:sub(first, last)
  for _, change in ipairs(of.changes) do
    out = kind.switch(change[1], flat(text:sub(first, change[2] - 1) .. change[4] .. text:sub(change[3] + 1, last)), out)
  end
  return out
end

--- `text` with all faults, or nil and a message.
function choose.apply(text, faults)
  local regions = {}
  for _, fault in ipairs(faults) do
    if fault.was == fault.now then return nil, ("fault %d changes nothing"):format(fault.number) end
    local found = places(text, fault.was)
    if #found ~= fault.count then
      return nil, ("the text to change is there %d times, not %d: the kernel was rewritten and the fault was not\n%s"):format(#found, fault.count,
        fault.was)
    end
    for _, first in ipairs(found) do
      local one = region(text, first, fault.number, fault.was, fault.now)
      if not one then return nil, "neither statements nor an expression: build it apart\n" .. fault.was end
      regions[#regions + 1] = one
    end
  end
  local merged, problem = merge(text, regions)
  if not merged then return nil, problem end
  local out, at = {}, 1
  for _, one in ipairs(merged) do
    out[#out + 1] = text:sub(at, one[1] - 1)
    out[#out + 1] = switch(text, one)
    at = one[2] + 1
  end
  out[#out + 1] = text:sub(at)
  return table.concat(out)
end

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read("a")
end

function choose.main(source, out, faults, ...)
  local parts = { PROLOGUE }
  for _, header in ipairs({ ... }) do
    local text = read(header)
    local guard = assert(text:match("\n#ifndef ([%w_]+)\n#define %1\n"), header .. " has no guard, so it would be included twice")
    parts[#parts + 1] = ('#ifdef %s\n#error "%s has been included without its faults: it comes too late"\n#endif\n#line 1 "%s"\n%s'):format(guard,
      header, header, text)
  end
  parts[#parts + 1] = ('#line 1 "%s"\n%s'):format(source, read(source))
  local text, problem = choose.apply(table.concat(parts), dofile(faults))
  if not text then error(source .. ": " .. problem, 0) end
  local file <close> = assert(io.open(out, "wb"))
  assert(file:write(text))
end

if arg and arg[0] and arg[0]:match("choose%.lua$") then
  local done, problem = pcall(choose.main, table.unpack(arg))
  if not done then
    io.stderr:write(tostring(problem), "\n")
    os.exit(1)
  end
end

return choose
