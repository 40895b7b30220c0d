-- Broken specs by the thousand. For each the generator either says what is wrong, as `file:line: field: what; what
-- would be right` and nothing else, or makes variants whose table and kernels can be emitted and compiled. It never
-- fails in itself and never hangs.
--
--   lua5.4 tests/fuzz/spec.lua                       the kept corpus, then a fixed number of mutations; exit 1 when any misbehaves
--   lua5.4 tests/fuzz/spec.lua search SECONDS SEED   other mutations for that long; a culprit is written to culprit.lua;
--                                                    add it to tests/fuzz/spec_corpus.lua
-- From the root of the repository.
package.path = "./?.lua"
local axes = require("gen.axes")
local emit = require("gen.emit")
local records_of = require("gen.records")

local MUTATIONS, COMPILED_AT_MOST = 4000, 16
local INSTRUCTIONS = 200 * 1000 * 1000 -- of the Lua machine, for one spec: far above any honest need

-- ---- what is mutated ------------------------------------------------------------------------------------------------

local function read(path)
  local file = assert(io.open(path, "rb"))
  local content = file:read("a")
  file:close()
  return content
end

local function write(path, content)
  local file = assert(io.open(path, "wb"))
  assert(file:write(content))
  assert(file:close())
end

local SEEDS = { read("spec/attention.lua"), read("spec/minimal.lua"), [[
return {
  passes = { "fwd" }, dtypes = { "f32", "bf16" }, head_dims = { 8, 40, 64 }, masks = { "none", "causal" },
  families = { cpu = { isas = { "x86_64", "x86_64_v3" }, tiles = {
    fwd = { { m = 64, n = 96 }, [40] = { { m = 16, n = 6, isas = { "x86_64_v3" } }, { m = 64, n = 12, isas = { "x86_64" } } } },
    bwd = { { m = 64, n = 48 } } } } },
  exclude = { { family = "cpu", dtype = { "bf16" }, head_dim = 8, reason = "none" } },
  override = { { family = "cpu", pass = "fwd", head_dim = 64, set = { n = 192 }, reason = "measured" } },
}
]] }

local WORDS = { "nil", "true", "false", "0", "-1", "1", "7", "8", "12", "40", "64", "96", "1e300", "0x40", "64.0", "0/0", "math.huge", "2^63",
  "9223372036854775807", "9223372036854775808", "\"\"", "\"f32\"", "\"cpu\"", "\"sm80\"", "\"x86_64_v4\"", "\"\\0\"", "\"*/ #error\"", "[[x]]",
  "{}", "{ }", "{ 1 }", "{ {} }", "\"a\" .. \"b\"", "os.exit(1)", "(function() while true do end end)()", "require", "#\"x\"", "=", ",", ";",
  "{", "}", "[", "]", "return", "--", "--[[", "]]", "[=[", "\\", "$", "${x}", "$$", "head_dims", "passes", "tiles", "isas", "m", "n", "set",
  "reason", "exclude", "override", "families", "fwd", "bwd", "reason = \"x\"", "rows = 6", "vecs = 2", "m = 64", "n = 96", "dtypes = { \"f16\" }",
  "[128] = { { m = 64, n = 96 } }", "\239\187\191", "\r\n", "\t", "\27Lua", ("{"):rep(300), ("9"):rep(400) }

-- A stream of numbers that is the same everywhere.
local function stream(seed)
  local state = seed
  return function(bound)
    state = state + 0x9e3779b97f4a7c15
    local z = state
    z = (z ~ (z >> 30)) * 0xbf58476d1ce4e5b9
    z = (z ~ (z >> 27)) * 0x94d049bb133111eb
    return math.ult(z, 0) and 1 or ((z ~ (z >> 31)) >> 1) % bound + 1
  end
end

-- The text as tokens, near enough: words, numbers, strings, comments, single marks, blanks.
local function tokens_of(source)
  local tokens, at = {}, 1
  while at <= #source do
    local token = source:match("^%s+", at) or source:match("^%-%-[^\n]*", at) or source:match("^[%w_.]+", at)
      or source:match('^"[^"\n]*"', at) or source:sub(at, at)
    tokens[#tokens + 1] = token
    at = at + #token
  end
  return tokens
end

local function mutated(random)
  local tokens = tokens_of(SEEDS[random(#SEEDS)])
  for _ = 1, random(4) do
    local at, how = random(#tokens), random(7)
    while how ~= 5 and tokens[at]:find("^%s") do at = at % #tokens + 1 end
    if how == 1 then
      table.remove(tokens, at)
    elseif how == 2 then
      table.insert(tokens, at, tokens[random(#tokens)])
    elseif how == 3 then
      tokens[at] = WORDS[random(#WORDS)]
    elseif how == 4 then
      local other = random(#tokens)
      tokens[at], tokens[other] = tokens[other], tokens[at]
    elseif how == 5 then
      table.insert(tokens, at, WORDS[random(#WORDS)])
    elseif how == 6 then -- a piece a second time
      for i = at, math.min(at + random(20), #tokens) do table.insert(tokens, i, tokens[i]) end
    else -- one byte of it
      local token, byte = tokens[at], string.char(random(255))
      local place = random(#token)
      tokens[at] = token:sub(1, place - 1) .. byte .. token:sub(place + 1)
    end
    if #tokens == 0 then tokens[1] = "return" end
  end
  return table.concat(tokens)
end

-- ---- what must hold -------------------------------------------------------------------------------------------------

local count = { accepted = 0, refused = 0, mistakes = 0, compiled = 0 }
local spec_path = os.tmpname()
local seen = {}

local function limited(body, ...)
  debug.sethook(function() error("no end in sight") end, "", INSTRUCTIONS)
  local results = table.pack(xpcall(body, debug.traceback, ...))
  debug.sethook()
  return table.unpack(results, 1, results.n)
end

-- Every line of a refusal has its place, its field, what is wrong and what would be right.
local function refusal_is_told(message, source)
  local _, lines = source:gsub("\n", "")
  local told = 0
  for line in message:gmatch("[^\n]+") do
    if told > 0 and line:match(": and %d+ more$") then return nil end -- the rest of very many
    if told > 0 and line:match("^    { .+, reason = .+ },$") then return nil end
    local prefix = line:sub(1, #spec_path + 1)
    local number, field, what, right = line:sub(#spec_path + 2):match("^(%d+): ([^:]+): (.-); (.+)$")
    if prefix ~= spec_path .. ":" or not number then return "a mistake is told as: " .. line end
    if tonumber(number) < 1 or tonumber(number) > lines + 1 then return "no such line: " .. line end
    if field == "" or what == "" or right == "" then return "something is missing: " .. line end
    told = told + 1
  end
  count.mistakes = count.mistakes + told
  if told == 0 then return "refused without a word" end
end

local function compiles(source, record)
  if count.compiled >= COMPILED_AT_MOST then return nil end
  if record.family ~= "cpu" or record.arch ~= "x86_64" then return nil end
  local key = table.concat({ record.pass, record.dtype, record.head_dim, record.isa, record.tile_m, record.tile_n }, " ")
  if seen[key] then return nil end
  seen[key] = true
  count.compiled = count.compiled + 1
  local path = spec_path .. ".c"
  write(path, source)
  local flags = { "gcc -std=c11 -Wall -Wextra -Wpedantic -Wconversion -Werror -I. -O0 -fsyntax-only", table.concat(record.copts, " "), path }
  local ok = os.execute(table.concat(flags, " "))
  os.remove(path)
  if not ok then return "does not compile: " .. record.name end
end

-- nil, or what is wrong with what the generator did.
local function judge(source, random)
  write(spec_path, source)
  local ok, loaded, message = limited(records_of, spec_path)
  if not ok then return "the generator failed: " .. tostring(loaded) end
  if not loaded then
    count.refused = count.refused + 1
    return refusal_is_told(message or "", source)
  end
  count.accepted = count.accepted + 1
  if #loaded.records == 0 then return "accepted, and makes nothing" end
  local last = ""
  for _, record in ipairs(loaded.records) do
    if record.name <= last then return "names are not sorted and distinct: " .. record.name end
    last = record.name
    local said = axes.parse(record.name:match("^(.-)__[%w_]+$") or "")
    for _, axis in ipairs(axes.list) do
      if not said or said[axis.name] ~= record[axis.name] then return "a name is not its fields: " .. record.name end
    end
    if record.head_dim % 8 ~= 0 or record.head_dim < 8 then return "a head dim of " .. record.head_dim end
  end
  local table_ok, text = limited(emit.table, loaded.records, loaded.name)
  if not table_ok then return "the table cannot be emitted: " .. tostring(text) end
  local record = loaded.records[random(#loaded.records)]
  local kernel_ok, kernel = limited(emit.kernel, record, loaded.name, ".")
  if not kernel_ok then return ("%s cannot be emitted: %s"):format(record.name, tostring(kernel)) end
  return compiles(kernel, record)
end

-- ---- runs -----------------------------------------------------------------------------------------------------------

local failed = 0

local function try(source, what, random)
  local wrong = judge(source, random)
  if not wrong then return true end
  failed = failed + 1
  print(("FAILED  %s: %s"):format(what, wrong))
  return false
end

if arg[1] == "search" then
  local deadline, seed, tried = os.time() + tonumber(arg[2]), tonumber(arg[3]), 0
  while os.time() < deadline and failed == 0 do
    local random = stream(seed + tried)
    local source = mutated(random)
    tried = tried + 1
    if not try(source, "seed " .. seed + tried - 1, random) then write("culprit.lua", source) end
  end
else
  local kept = 0
  for _, entry in ipairs(require("tests.fuzz.spec_corpus")) do
    try(entry[2], entry[1], stream(kept))
    kept = kept + 1
  end
  for seed = 1, MUTATIONS do
    local random = stream(seed * 7919)
    try(mutated(random), "mutation " .. seed, random)
  end
  if kept == 0 then failed = failed + 1 end
  print(("%d kept"):format(kept))
end
os.remove(spec_path)
print(("%d accepted, %d refused with %d mistakes, %d kernels compiled"):format(count.accepted, count.refused, count.mistakes, count.compiled))
if count.accepted == 0 or count.refused == 0 then failed = failed + 1 end
print(("%d passed, %d failed"):format(count.accepted + count.refused - failed, failed))
os.exit(failed == 0, true)
