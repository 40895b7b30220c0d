-- What the sentence of a refusal asks of its fault is there: lua says.lua SENTENCES.H FILE.c...
--
-- values/refusals.c proves that no sentence reads what it must not, of a fault whose words and row are there. Here each
-- call of glint_refuse is looked at:
--
--     a sentence of its reason        the call
--     any                             has a field
--     says {part}                     has a part
--     asks the problem or the context is in lib/choose.c, which has both
--     asks a row                      is there, too, or in what a family's `fits` calls: lib/choose.c adds the row
local OF_CHOICE = { row = true, key = true, change = true, needs = true, target = true }
local ASKS = { ["lib/choose.c"] = true, ["lib/sentences.c"] = true } -- the latter prints them
local FITS = { ["lib/check_problem.c"] = true, ["lib/cuda/tensor_map.c"] = true }

local function read(path)
  local file <close> = assert(io.open(path))
  return file:read("a")
end

-- The arguments of a call, from behind its parenthesis on.
local function arguments(text, at)
  local depth, out, from = 0, {}, at
  for i = at, #text do
    local c = text:sub(i, i)
    if c == "(" or c == "[" or c == "{" then depth = depth + 1 end
    if c == "," and depth == 0 or c == ")" and depth == 0 then
      out[#out + 1] = text:sub(from, i - 1):match("^%s*(.-)%s*$")
      from = i + 1
      if c == ")" then return out end
    elseif c == ")" or c == "]" or c == "}" then
      depth = depth - 1
    end
  end
  error("a call without an end", 0)
end

local words, count = {}, 0
local sentences = read(arg[1])
for at, reason in sentences:gmatch("%f[%w_]R%(()([%u_%d]+),") do
  local args, of = arguments(sentences, at), {}
  for word in table.concat(args, ",", 3):gmatch("{(%w+)}") do of[word] = true end
  words[reason], count = of, count + 1
end
assert(count > 80, "few sentences")

local calls, bad = 0, 0
local function wrong(path, why)
  bad = bad + 1
  print(path .. ": " .. why)
end

for i = 2, #arg do
  local path, text = arg[i], read(arg[i])
  local inside, all = {}, {} -- of calls, and of the file: reasons, each as often as it is named
  local open = {}
  for at in text:gmatch("glint_refuse%(()") do
    local args = arguments(text, at)
    if not args[1]:find("^struct") then
      calls = calls + 1
      local named = 0
      for reason in args[2]:gmatch("GLINT_REASON_([%u_%d]+)") do
        named = named + 1
        inside[reason] = (inside[reason] or 0) + 1
        if not words[reason] then wrong(path, "no sentence of " .. reason) end
        if words[reason] and words[reason].part and args[4] == "NULL" then wrong(path, reason .. " without a part") end
      end
      if args[3] == "NULL" then wrong(path, "no field: " .. table.concat(args, ", ")) end
      if named == 0 and args[4] == "NULL" then open[#open + 1] = args[2] end
    end
  end
  for reason in text:gmatch("GLINT_REASON_([%u_%d]+)") do all[reason] = (all[reason] or 0) + 1 end
  for reason, times in pairs(all) do
    -- a reason that a variable holds, where such a call has no part
    if #open > 0 and times > (inside[reason] or 0) and words[reason] and words[reason].part then
      wrong(path, reason .. " may be that of " .. open[1] .. ", without a part")
    end
    for word in pairs(words[reason] or {}) do
      if OF_CHOICE[word] and not (ASKS[path] or word == "row" and FITS[path]) then wrong(path, reason .. " is for lib/choose.c alone") end
    end
  end
end
print(("%d sentences, %d calls of glint_refuse"):format(count, calls))
if calls < 80 or bad > 0 then error(bad .. " are wrong, or there are too few to have looked", 0) end
