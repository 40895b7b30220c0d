-- Is anything added to a bound that may stand for "none", or subtracted from it? lua5.4 tools/sentinels.lua FILE...
--
-- A compiler may make the sum whatever a test before it says, and the sum overflows then: nvcc 13.0 made max(query -
-- left, 0) of `query > left ? query - left : 0`. So a bound of a call is made one of the sequence first, in the line
-- that asks whether there is one, or "none" is a number that sums bear, as the sides of struct glint_gpu_sequences are
-- (lib/device/call.h).

-- Names of what may be no number: sides of a window, -1; rows of a page, INT64_MAX where K and V are linear
-- (lib/cpu/cpu.h).
local NAMES = { "window_left", "window_right", "at%.rows", "next%.rows" }

--- What is wrong with a line of code, or nil.
local function wrong_with(line)
  local code = line:gsub("/%*.-%*/", ""):gsub("^%s*/?%*.*$", ""):gsub("/%*.*$", "")
  for _, name in ipairs(NAMES) do
    local sum = code:find("[-+]%s*[%w_.]*" .. name .. "%f[^%w_]") or code:find("[-+]%s*[%w_.]*%->" .. name .. "%f[^%w_]")
      or code:find("%f[%w_]" .. name .. "%s*[-+][^>]")
    if sum and not code:sub(1, sum):find(name .. " < 0 %?") then return ("arithmetic on %s, which may stand for no bound"):format(name:gsub("%%", "")) end
    if name:find("^window") and code:find(name, 1, true) and code:find("INT%d+_MAX") then
      return ("%s has one word for no bound, -1"):format(name)
    end
  end
  return nil
end

-- The rule itself: lines that were in the repository, and were wrong; lines that are right.
for _, line in ipairs {
  "    return query > p->window_left ? query - p->window_left : 0;",
  "    return p->window_right >= own.keys - query ? own.keys : max(0, query + p->window_right + 1);",
  "        .window_left = window && p->window_left != GLINT_UNBOUNDED ? (int32_t)p->window_left : INT32_MAX,",
  "        last = at.rows < end - key ? key + at.rows : end;",
} do
  if not wrong_with(line) then error("sentinels.lua does not find what is wrong with: " .. line, 0) end
end
for _, line in ipairs {
  "    own.left = p.window_left < 0 ? -own.seqlen_q : max(offset - p.window_left, -own.seqlen_q);",
  "    own.right = p.window_right < 0 ? own.seqlen_k : min(offset + p.window_right, own.seqlen_k);",
  "        .window_left = window ? (int32_t)p->window_left : -1,",
  "    int32_t window_left; /* query i sees key j iff i + offset - window_left <= j; -1: unbounded */",
} do
  local wrong = wrong_with(line)
  if wrong then error(("sentinels.lua says of a line that is right: %s: %s"):format(wrong, line), 0) end
end

local found = 0
for _, path in ipairs(arg) do
  local number, file <close> = 0, assert(io.open(path))
  for line in file:lines() do
    number = number + 1
    local wrong = wrong_with(line)
    if wrong then
      print(("%s:%d: %s: see tools/sentinels.lua"):format(path, number, wrong))
      found = found + 1
    end
  end
end
if #arg == 0 then error("no file to look at", 0) end
os.exit(found == 0)
