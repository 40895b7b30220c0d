-- Measures tiles for a head dim and prints the lines for gen/tiles/, the best first, with what was measured, when and
-- on what as their comment.
--
--   ./bazelw run //bench:tune -- --head-dim 80                     every family that this machine runs, both passes
--   ./bazelw run //bench:tune -- --head-dim 80 --pass fwd --dtype bf16 --family sm80
--
--   ./bazelw run //bench:tune -- --policies --head-dim 128         the rules of lib/cuda/policy.c in place of tiles
--
-- Candidates are the tiles that are in use and the best ones of the family's model. They become the rows of a library
-- of their own (glint_bench), which times them in turn: at each length, with and without a mask. For a GPU in a machine
-- without Bazel, --pack DIR leaves the program and the spec there and says how to run it; --results FILE ranks what it
-- wrote. Nothing is tuned in a user's process, and no file of the repository is changed: the lines are for a person to
-- judge.
local here = arg[0]:match("^(.*)/bench/[^/]*$") or "."
package.path = here .. "/?.lua"
local archs = require("gen.archs")
local axes = require("gen.axes")
local options = require("gen.options")
local registry = require("gen.registry")
local text = require("gen.text")
local tiles = require("gen.tiles")

local HELP = [[
tune --head-dim N [--pass fwd|bwd] [--dtype f32|f16|bf16] [--family cpu|sm80] [--target ISA|ARCH] [--most N] [--seqlen N,N]
     [--pack DIR | --results FILE --device TEXT]
tune --policies --head-dim N [--pass fwd|bwd] [--dtype f16|bf16] [--heads Q:K,Q:K] [--seqlen N,N] [--pack DIR]
  --head-dim  a multiple of 8
  --pass      the pass to tune; both without
  --dtype     f32 on the CPU and bf16 on a GPU without
  --family    without it the CPU's, and the GPU's where nvidia-smi shows a GPU
  --target    the instruction set or architecture; this machine's without
  --most      candidates a pass (8)
  --seqlen    lengths to time at (512,2048; on a GPU 1024,4096)
  --pack      for another machine: leaves glint_bench and the spec in DIR and says how to run it
  --policies  measures the rules of lib/cuda/policy.c on the first GPU in place of tiles: parts, sections, and in decode splits of the keys,
              each beside other numbers; prints what would change. The library is that of $GLINT_SPEC, or of the default spec
  --heads     for --policies: query and key heads (2048 / N, alone and eight to a key head)
  --results   ranks the CSV file that glint_bench wrote there; --device says on what]]

local KNOWN = { help = { flag = true }, policies = { flag = true } }
for _, name in ipairs({ "heads", "head-dim", "pass", "dtype", "family", "target", "most", "seqlen", "pack", "results", "device" }) do
  KNOWN[name] = { help = "see --help" }
end

local function fail(why)
  io.stderr:write("tune: ", why, "\n")
  os.exit(1)
end

local function read(path)
  local file = io.open(path, "rb")
  if not file then return nil end
  local content = file:read("a")
  file:close()
  return content
end

local function output_of(command)
  local pipe = assert(io.popen(command .. " 2>/dev/null"))
  local content = pipe:read("a")
  pipe:close()
  return content
end

local function quoted(word) return "'" .. tostring(word):gsub("'", "'\\''") .. "'" end

local function must_run(command)
  io.stderr:write(command, "\n")
  if not os.execute(command) then fail("this failed: " .. command) end
end

-- ---- this machine ---------------------------------------------------------------------------------------------------

local function own_isa()
  if output_of("uname -m"):find("aarch64") then return "aarch64" end
  local flags = (read("/proc/cpuinfo") or ""):match("flags%s*:([^\n]*)") or ""
  local function has(flag) return (flags .. " "):find(" " .. flag .. " ", 1, true) ~= nil end
  return has("avx512f") and has("avx512vl") and "x86_64_v4" or has("avx2") and has("fma") and "x86_64_v3" or "x86_64"
end

local function own_gpu()
  local capability, name = output_of("nvidia-smi --query-gpu=compute_cap,name --format=csv,noheader"):match("^([%d.]+), ([^\n]+)")
  return capability and capability:gsub("%.", ""), name
end

local function own_cpu()
  return (read("/proc/cpuinfo") or ""):match("model name%s*:%s*([^\n]*)") or output_of("uname -m"):gsub("\n", "")
end

-- ---- candidates -----------------------------------------------------------------------------------------------------

local function literal(value)
  if type(value) == "table" then
    local parts = {}
    for i, entry in ipairs(value) do parts[i] = literal(entry) end
    return "{ " .. table.concat(parts, ", ") .. " }"
  end
  return type(value) == "string" and '"' .. value .. '"' or tostring(value)
end

local DEFAULTS = { d_split = 1, blocks_per_sm = 1, q_kept = 0, strategy = "fused" } -- need not be said

-- A tile as a line of a spec or of gen/tiles: m and n first, then the rest by name.
local function line_of(tile, first)
  local parts = {}
  for _, entry in ipairs(first) do parts[#parts + 1] = entry[1] .. " = " .. literal(entry[2]) end
  local names = { "m", "n" }
  for _, name in ipairs(text.sorted_keys(tile)) do
    if name ~= "m" and name ~= "n" and tile[name] ~= DEFAULTS[name] then names[#names + 1] = name end
  end
  for _, name in ipairs(names) do parts[#parts + 1] = name .. " = " .. literal(tile[name]) end
  return "{ " .. table.concat(parts, ", ") .. " }"
end

-- Up to `most` tiles for a pass, of different names: those in use, whatever mask they are for, and the model's best.
local function candidates(family, key, target, most)
  local found, seen = {}, {}
  local function add(tile)
    local bare = tiles.bare(tile)
    bare[family.target_field], bare.up_to = nil, nil
    local how = family.how_of(key, bare)
    if type(how) == "table" then how = bare.m .. "x" .. bare.n end
    if not seen[how] and #found < most then
      seen[how], found[#found + 1] = true, bare
    end
  end
  for _, mask in ipairs(axes.get("mask").of.values) do
    local masked = {}
    for axis, value in pairs(key) do masked[axis] = value end
    masked.mask = mask
    for _, own in ipairs(tiles.of(family, masked, { target })) do
      if own.tile.math == nil or own.tile.math == "tf32" then add(own.tile) end
    end
  end
  for _, candidate in ipairs(family.candidates(key, target)) do add(candidate.tile) end
  return found
end

-- The spec of a library of candidates. Backward needs a forward too: that is the generator's own.
local function spec_of(job)
  local sets = {}
  for _, pass in ipairs(job.passes) do
    local lines = {}
    for i, tile in ipairs(job.tiles[pass]) do lines[i] = "      " .. line_of(tile, {}) .. ",\n" end
    sets[#sets + 1] = ("      %s = {\n%s      },\n"):format(pass, table.concat(lines))
  end
  return ([[
-- Candidates for head_dim %d: bench/tune.lua.
return {
  passes = { "fwd", "bwd" },
  dtypes = { "%s" },
  head_dims = { %d },
  masks = { "none", "causal" },
  families = { %s = { %s = { "%s" }, tiles = {
%s  } } },
}
]]):format(job.head_dim, job.dtype, job.head_dim, job.family.name, job.family.target_field, job.target, table.concat(sets))
end

-- ---- measuring and ranking ------------------------------------------------------------------------------------------

local function bench_options(job)
  local gpu = job.family.name ~= "cpu"
  return ("--all %s--dtype %s --head-dim %d --pass %s --seqlen %s --heads %d --batch %d --reps 5 --least-ms %d --csv %s"):format(gpu and "--gpu "
    or "--isa " .. job.target .. " ", job.dtype, job.head_dim, table.concat(job.passes, ","), job.seqlen, gpu and 16 or 4, gpu and 4 or 1,
    gpu and 20 or 30, quoted(job.csv))
end

-- The rows of glint_bench's CSV file, by what a variant is beside its mask: { tile's how, times by "mask seqlen" }.
local function measured(path, job, pass)
  local content = read(path) or fail(path .. ": cannot be read")
  local columns, by_how = nil, {}
  for line in content:gmatch("[^\n]+") do
    local cells = {}
    for cell in (line .. ","):gmatch("(.-),") do cells[#cells + 1] = cell end
    if not columns then
      columns = {}
      for i, name in ipairs(cells) do columns[name] = i end
    elseif cells[columns.pass] == pass and tonumber(cells[columns.head_dim]) == job.head_dim and cells[columns.dtype] == job.dtype then
      local how = cells[columns.variant]:match("__(.*)$")
      by_how[how] = by_how[how] or {}
      by_how[how][cells[columns.mask] .. " " .. cells[columns.seqlen_q]] = tonumber(cells[columns.tflops])
    end
  end
  return by_how
end

local function print_ranking(job, pass)
  local by_how, ranked = measured(job.csv, job, pass), {}
  for _, tile in ipairs(job.tiles[pass]) do
    local key = { pass = pass, dtype = job.dtype, head_dim = job.head_dim, mask = "none" }
    local how = job.family.name == "cpu" and ("cpu_%s_m%dn%d"):format(job.target, tile.m, tile.n) or job.family.how_of(key, tile)
    local rates, sum, count = by_how[how], 0, 0
    for _, rate in pairs(rates or {}) do sum, count = sum + math.log(rate), count + 1 end
    if count > 0 then ranked[#ranked + 1] = { tile = tile, how = how, rates = rates, mean = math.exp(sum / count) } end
  end
  if #ranked == 0 then fail(job.csv .. " has nothing of " .. pass) end
  table.sort(ranked, function(a, b) return a.mean > b.mean end)
  local unit, scale = "TFLOP/s", 1
  if ranked[1].mean < 1 then unit, scale = "GFLOP/s", 1000 end
  local when = ("%s on %s"):format(os.date("!%Y-%m-%d"), job.device)
  print(("-- gen/tiles/%s.lua, %s[%d]: %s, %s; %s, geometric mean, then each"):format(job.family.name, pass, job.head_dim, job.dtype, when, unit))
  for _, one in ipairs(ranked) do
    local shown = {}
    for _, cell in ipairs(text.sorted_keys(one.rates)) do shown[#shown + 1] = ("%s %.0f"):format(cell, scale * one.rates[cell]) end
    print(("      %s, -- %.0f: %s"):format(line_of(one.tile, { { "dtypes", { job.dtype } }, { job.family.target_field, { job.target } },
      { "measured", when } }), scale * one.mean, table.concat(shown, ", ")))
  end
end

local function whole(given, name, default)
  local value = math.tointeger(tonumber(given[name] or default))
  return value and value > 0 and value or fail(("--%s %s: a whole number is wanted"):format(name, tostring(given[name])))
end

local function job_of(given, name)
  local family = registry.get(name)
  local gpu = name ~= "cpu"
  local job = { family = family, head_dim = whole(given, "head-dim"), dtype = given.dtype or gpu and "bf16" or "f32",
    seqlen = given.seqlen or gpu and "1024,4096" or "512,2048", passes = given.pass and { given.pass } or { "fwd", "bwd" }, tiles = {} }
  for axis, value in pairs({ head_dim = job.head_dim, dtype = job.dtype, pass = job.passes[1] }) do
    if not axes.allows(axes.get(axis), value) then fail(("%s %s is not known"):format(axis, tostring(value))) end
  end
  if not text.contains({ "fwd", "bwd" }, job.passes[1]) then fail("--pass: fwd or bwd") end
  local own, device
  if gpu then own, device = own_gpu() else own, device = own_isa(), own_cpu() end
  job.target, job.device = given.target or own, given.device or not given.results and device or "another machine"
  if not job.target then fail("no GPU here: give --target, such as 90, and --pack or --results") end
  if gpu and not archs.get(job.target) or not text.contains(family.all_targets, job.target) then
    fail(("--target %s: one of %s"):format(job.target, text.words(family.all_targets)))
  end
  for _, pass in ipairs(job.passes) do
    job.tiles[pass] = candidates(family, { pass = pass, dtype = job.dtype, head_dim = job.head_dim, mask = "none" }, job.target,
      whole(given, "most", 8))
    if #job.tiles[pass] == 0 then fail(("nothing of head_dim %d fits %s"):format(job.head_dim, job.target)) end
  end
  return job
end

-- The rules of lib/cuda/policy.c: as much work at each length, every pass, and then a query against a cache of keys.
local function measure_policies(given)
  local dim = whole(given, "head-dim")
  local width = math.max(8, 2048 // dim // 8 * 8)
  local common = ("--gpu --policies --dtype %s --head-dim %d --least-ms 10 --reps 5"):format(given.dtype or "bf16", dim)
  local calls = { ("%s --pass %s --tokens 16384 --seqlen %s --heads %s"):format(common, given.pass or "fwd,bwd", given.seqlen
    or "512,1024,2048,4096,8192,16384", given.heads or ("%d,%d:%d"):format(width, width, width // 8)) }
  if given.pass ~= "bwd" then
    calls[2] = ("--decode %s --batch 1,16 --seqlen 1024,8192,65536 --heads %s"):format(common, given.heads or "32:8,32:32")
  end
  must_run("./bazelw build //bench:glint_bench")
  if given.pack then
    must_run(("mkdir -p %s && cp -fL bazel-bin/bench/glint_bench %s"):format(quoted(given.pack), quoted(given.pack)))
    print(("in %s, on a machine with the GPU:"):format(given.pack))
  end
  for _, call in ipairs(calls) do
    if given.pack then print("./glint_bench " .. call) else must_run("bazel-bin/bench/glint_bench " .. call) end
  end
end

local function tune(given, name)
  local job = job_of(given, name)
  if given.results then
    job.csv = given.results
  else
    local folder = given.pack or output_of("mktemp -d"):gsub("\n", "")
    must_run("mkdir -p " .. quoted(folder))
    local spec = folder .. "/tune.lua"
    job.csv = folder .. "/tune.csv"
    local file = assert(io.open(spec, "wb"))
    file:write(spec_of(job))
    file:close()
    local count = 0
    for _, pass in ipairs(job.passes) do count = count + #job.tiles[pass] end
    io.stderr:write(("%s, head_dim %d, %s, %s: %d candidates\n"):format(name, job.head_dim, job.dtype, job.target, count))
    must_run("./bazelw build --repo_env=GLINT_SPEC=" .. quoted(spec) .. " //bench:glint_bench")
    if given.pack then
      must_run("cp -fL bazel-bin/bench/glint_bench " .. quoted(folder))
      job.csv = "tune.csv"
      print(("in %s, on a machine with the GPU:  ./glint_bench %s\nand here:  tune ... --results %s/tune.csv"):format(folder, bench_options(job), folder))
      return
    end
    must_run("bazel-bin/bench/glint_bench " .. bench_options(job))
  end
  for _, pass in ipairs(job.passes) do print_ranking(job, pass) end
  if not given.results then
    for _, name_of in ipairs({ "tune.lua", "tune.csv" }) do os.remove(job.csv:gsub("[^/]*$", name_of) .. "") end
    os.remove((job.csv:gsub("/[^/]*$", "")))
  end
end

local given, why = options.parse(arg, 1, KNOWN)
if not given then fail(why .. "; see --help") end
if given.help then
  print(HELP)
  os.exit(0)
end
if not given["head-dim"] then fail("--head-dim is wanted; see --help") end
if given.policies then
  measure_policies(given)
  os.exit(0)
end
if given.family and not registry.get(given.family) then fail(("--family %s: one of %s"):format(given.family, text.words(registry.names))) end
if given.pack or given.results then given.family = given.family or "sm80" end
for _, name in ipairs(given.family and { given.family } or own_gpu() and { "cpu", "sm80" } or { "cpu" }) do tune(given, name) end
