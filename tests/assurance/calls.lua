-- The call graph of the library's C, as gcc -fcallgraph-info=su writes it: lua calls.lua BYTES FILE.ci...
--
-- No function reaches itself, and no public function but glint_selftest, which has a limit of its own, has call paths
-- that take more than BYTES of stack. Calls through pointers are followed by name: a call of x reaches every function
-- that is assigned to a member x, every function called x, and, where there is neither, every function of the same file
-- that is named without being called. What is left are kernels, whose frames the report has, the host's functions and
-- the driver's.
local SELFTEST_BYTES = 8192 -- a problem, a plan and parameters of each pass

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read("a")
end

local bytes, edges, pointers, sources, names = {}, {}, {}, {}, {}

-- gcc's name of a function: file:name of a static one, with what it made of it behind a dot.
local function plain(title) return (title:gsub("%.[%a]+%.%d+", ""):match("[%w_]+$")) end

for i = 2, #arg do
  for line in read(arg[i]):gmatch("[^\n]+") do
    local title, label = line:match('^node: { title: "([^"]*)" label: "([^"]*)"')
    local size = label and label:match("(%d+) bytes %(")
    if size then
      assert(label:find("(static)", 1, true) or label:find("bounded)", 1, true), title .. " has a frame of a size that is known at run time only")
      bytes[title], edges[title] = tonumber(size), edges[title] or {}
      names[plain(title)] = names[plain(title)] or {}
      table.insert(names[plain(title)], title)
    end
    local from, to, file, at = line:match('^edge: { sourcename: "([^"]*)" targetname: "([^"]*)" label: "([^:"]*):(%d+)')
    if from then
      edges[from] = edges[from] or {}
      if to == "__indirect_call" then
        pointers[#pointers + 1] = { from = from, file = file, line = tonumber(at) }
      else
        edges[from][to] = true
      end
    end
  end
end

local function lines_of(file)
  if not sources[file] then
    sources[file] = {}
    for line in (read(file) .. "\n"):gmatch("(.-)\n") do table.insert(sources[file], line) end -- comments stay: lines are counted
  end
  return sources[file]
end

-- Functions that a struct's initialiser or an assignment puts into a member, by the member's name; and those of a file
-- that are named uncalled.
local members, named = {}, {}
local function note(set, key, file, name)
  for _, title in ipairs(names[name] or {}) do
    if title == name or title:match("^(.*):") == file then
      set[key] = set[key] or {}
      set[key][title] = true
    end
  end
end
local seen = {}
for title in pairs(bytes) do
  local file = title:match("^(lib/[%w_/]+%.c):")
  if file then seen[file] = true end
end
for _, pointer in ipairs(pointers) do seen[pointer.file] = true end
for file in pairs(seen) do
  local code = read(file):gsub("/%*.-%*/", ""):gsub('"[^"\n]*"', '""'):gsub("%f[%w_]struct [%w_]+", "")
  for line in code:gmatch("[^\n]+") do
    for member, name in line:gmatch("[%.>]([%w_]+) = ([%w_]+)[,;} ]") do note(members, member, file, name) end
    for name, after in line:gmatch("%f[%w_]([%a_][%w_]*)%f[^%w_](%s*.?)") do
      if not after:find("(", 1, true) then note(named, file, file, name) end
    end
  end
end

local followed, foreign = 0, {}
for _, pointer in ipairs(pointers) do
  local line, targets = lines_of(pointer.file)[pointer.line], {}
  if not line:find("driver[%.-]") then
    for called in line:gmatch("([%w_]+)%)?%(") do
      for title in pairs(members[called] or {}) do targets[title] = true end
    end
    for called in line:gmatch(next(targets) == nil and "([%w_]+)%)?%(" or "^$") do
      for _, title in ipairs(not edges[pointer.from][called] and names[called] or {}) do targets[title] = true end
    end
    for title in pairs(next(targets) == nil and named[pointer.file] or {}) do targets[title] = title ~= pointer.from or nil end
  end
  for title in pairs(targets) do edges[pointer.from][title] = true end
  if next(targets) then followed = followed + 1 else foreign[pointer.file] = true end
end

local deepest, path = {}, {}
local function depth(title)
  if path[title] then error("recursion: " .. table.concat(path, " -> ") .. " -> " .. title, 0) end
  if deepest[title] then return deepest[title] end
  path[title], path[#path + 1] = true, title
  local most, through = 0, nil
  for called in pairs(edges[title] or {}) do
    local below = depth(called)
    if below.bytes > most then most, through = below.bytes, called end
  end
  path[title], path[#path] = nil, nil
  deepest[title] = { bytes = most + (bytes[title] or 0), through = through }
  return deepest[title]
end

local public, functions = {}, 0
for title in pairs(bytes) do
  depth(title)
  functions = functions + 1
end
local header = read("lib/glint.h")
for title in pairs(bytes) do
  if header:find("%f[%w_]" .. title .. "%(") then public[#public + 1] = title end
end
table.sort(public, function(a, b) return deepest[a].bytes > deepest[b].bytes or deepest[a].bytes == deepest[b].bytes and a < b end)
assert(#public > 20 and functions > 150 and followed > 20, "the call graph is not that of the library")
local wrong = false
for i, title in ipairs(public) do
  local chain, at = {}, title
  while at do
    chain[#chain + 1] = ("%s %d"):format(plain(at), bytes[at] or 0)
    at = deepest[at].through
  end
  local limit = title == "glint_selftest" and SELFTEST_BYTES or tonumber(arg[1])
  local high = deepest[title].bytes > limit
  wrong = wrong or high
  if i <= 8 or high then print(("%5d bytes%s  %s"):format(deepest[title].bytes, high and " TOO MANY" or "", table.concat(chain, " > "))) end
end
local outside = {}
for file in pairs(foreign) do outside[#outside + 1] = file end
table.sort(outside)
print(("%d functions, no recursion; %d of %d calls through pointers followed, others leave the library from %s"):format(functions, followed, #pointers,
  table.concat(outside, ", ")))
if wrong then os.exit(1) end
