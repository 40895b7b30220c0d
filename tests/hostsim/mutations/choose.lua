-- Puts many deliberate faults into one emitted kernel, of which each run of it has one:
--
--   lua choose.lua SOURCE OUT TABLE [HEADER]...
--
-- TABLE is a Lua file that returns { { was =, now =, count = }, ... }; fault number i of it happens where sim_fault_number is i. A kernel is then
-- compiled once for all of its faults. The HEADERs, in the order in which one includes the other, stand before the source, so that a fault can be in
-- what kernels share. Text that is not there `count` times, in all of them together, is an error, and so is text of two faults that overlaps.
--
-- Text that ends in ; or } is taken for statements, so a fault cannot declare what is used after it; other text for an expression.
local choose = {}

local PROLOGUE = 'extern "C" int sim_fault_number; static inline bool sim_fault(int number) { return sim_fault_number == number; }\n'

local function is_statement(text) return text:match("[;}]%s*$") ~= nil end

-- On one line, so that line numbers stay.
local function flat(text)
  assert(not text:find("//", 1, true) and not text:find("#", 1, true), "a fault's text cannot hold // or a directive: " .. text)
  return (text:gsub("%s*\n%s*", " "))
end

--- The text `was`, and what stands for it in the faults of `list`: { { number, now }, ... }.
function choose.switch(was, list)
  local statement, text = is_statement(was), was
  for _, fault in ipairs(list) do
    local number, now = fault[1], flat(fault[2])
    if statement then
      text = ("if (sim_fault(%d)) { %s } else { %s }"):format(number, now, text)
    else
      text = ("(sim_fault(%d) ? (%s) : (%s))"):format(number, now, text)
    end
  end
  return text
end

local function places(text, part)
  local found, at = {}, 1
  while true do
    local first, last = text:find(part, at, true)
    if not first then return found end
    found[#found + 1] = { first, last }
    at = last + 1
  end
end

--- `text` with all faults, or nil and a message.
function choose.apply(text, faults)
  local by_text, order = {}, {}
  for number, fault in ipairs(faults) do
    if fault.was == fault.now then return nil, ("fault %d changes nothing"):format(number) end
    if not by_text[fault.was] then
      by_text[fault.was] = { count = fault.count }
      order[#order + 1] = fault.was
    end
    table.insert(by_text[fault.was], { number, fault.now })
  end
  local changes = {}
  for _, was in ipairs(order) do
    local found = places(text, was)
    if #found ~= by_text[was].count then
      return nil, ("the text to change is there %d times, not %d: the kernel was rewritten and the fault was not\n%s"):format(#found,
        by_text[was].count, was)
    end
    for _, place in ipairs(found) do changes[#changes + 1] = { place[1], place[2], choose.switch(was, by_text[was]) } end
  end
  table.sort(changes, function(a, b) return a[1] < b[1] end)
  local out, at = {}, 1
  for _, change in ipairs(changes) do
    if change[1] < at then return nil, "two faults change the same text: " .. text:sub(change[1], change[2]) end
    out[#out + 1] = text:sub(at, change[1] - 1)
    out[#out + 1] = change[3]
    at = change[2] + 1
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
    assert(text:match("\n#ifndef ([%w_]+)\n#define %1\n"), header .. " has no guard, so it would be included twice")
    parts[#parts + 1] = ('#line 1 "%s"\n%s'):format(header, text)
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
