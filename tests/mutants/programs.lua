-- What the test programs that judge mutants are made of, after tests/*/BUILD, with plain gcc: a program is a name,
-- its objects, arguments and what else it is linked with. Objects are named by their source; one source may be
-- compiled with several flags.
local PLAIN = "-std=c11 -w"
local LIBRARY = PLAIN .. " -fPIC -fvisibility=hidden -fno-stack-protector -U_FORTIFY_SOURCE -fno-common -fno-ident -O2"
local KERNEL = LIBRARY .. " -ffp-contract=off -fno-math-errno -fno-trapping-math -fomit-frame-pointer"
local UNDEFINED = " -O1 -fsanitize=undefined -fsanitize-undefined-trap-on-error"
local TEST = PLAIN .. " -O2"
local FAST = PLAIN .. " -O3 -ffp-contract=off"
local GENUINE = "-Dglint_variants=genuine_variants -Dglint_variants_count=genuine_variants_count"
local MARCH = { x86_64 = "-march=x86-64", x86_64_v3 = "-march=x86-64-v3", x86_64_v4 = "-march=x86-64-v4",
  x86_64_bf16 = "-march=x86-64-v4 -mavx512bf16" }

--- `run` answers the output of a command in the tree; `work` is the folder of what is generated. Answers a list of
-- programs, and the objects
--- of the library by their source.
return function(run, work)
  local objects, order, library, programs = {}, {}, {}, {}

  -- An object of `source` with `flags`; its name is the answer.
  local function object(source, flags, name)
    name = (name or source:gsub("%.[ch]+$", "")):gsub("/", ".") .. ".o"
    if not objects[name] then
      objects[name] = { name = name, source = source, flags = flags }
      order[#order + 1] = objects[name]
    end
    return name
  end
  local function list(...)
    local all = {}
    for _, part in ipairs({ ... }) do
      for _, item in ipairs(type(part) == "table" and part or { part }) do all[#all + 1] = item end
    end
    return all
  end
  local function tests(flags, folder, names)
    local all = {}
    for name in names:gmatch("%S+") do all[#all + 1] = object(("tests/%s/%s.c"):format(folder, name), flags) end
    return all
  end
  local function lines(command)
    local all = {}
    for line in run(command):gmatch("[^\n]+") do all[#all + 1] = line end
    return all
  end
  local function of_library(pattern, but)
    local all = {}
    for _, source in ipairs(lines("ls " .. pattern)) do
      if not (but and source:find(but)) then
        library[source] = object(source, LIBRARY)
        all[#all + 1] = library[source]
      end
    end
    return all
  end
  local function program(name, parts, more)
    more = more or {}
    local seen, unique = {}, {}
    for _, item in ipairs(parts) do
      if not seen[item] then unique[#unique + 1], seen[item] = item, true end
    end
    programs[#programs + 1] = { name = name, objects = unique, arguments = more.arguments or "", link = more.link or "", script = more.script }
  end
  -- The same library, which stops where its behaviour is undefined: as the sanitizers of .ci/run do.
  local function stopping(parts)
    local all = {}
    for i, item in ipairs(parts) do
      local o = objects[item]
      all[i] = library[o.source] == item and object(o.source, o.flags .. UNDEFINED, "ub." .. item:gsub("%.o$", "")) or item
    end
    return all
  end
  local function exists(path) return run("test -e " .. path .. " && echo yes || true"):find("yes") ~= nil end

  local CORE = list(of_library("lib/*.c", "p[eo][ro][ml][i.]"), of_library("lib/cpu/*.c"))
  local CUDA, POOL = of_library("lib/cuda/*.c"), of_library("lib/permit.c lib/pool.c")

  -- A table and the CPU's kernels of a spec. `keep` is a pattern of names, `flags` are in the place of the
  -- instruction set's.
  local function kernels(spec, folder, keep, flags, table_flags)
    local all, names = {}, {}
    for _, name in ipairs(lines("lua5.4 gen/glint.lua list --format names --arch x86_64 --spec " .. spec)) do
      local isa = name:match("__cpu_(x86_64.*)_m%d+n%d+$")
      if isa and name:find(keep or "") then
        local source = ("%s/%s/%s.c"):format(work, folder, name)
        if not exists(source) then
          run(("mkdir -p %s/%s && lua5.4 gen/glint.lua emit --spec %s --variant %s --out %s"):format(work, folder, spec, name, source))
        end
        all[#all + 1] = object(source, KERNEL .. " " .. (flags or MARCH[isa] or MARCH.x86_64_bf16), folder .. "." .. name)
        names[#names + 1] = name
      end
    end
    local source = ("%s/%s/table.c"):format(work, folder)
    if not exists(source) then
      run(("lua5.4 gen/glint.lua emit --spec %s --table --out %s --variant %s"):format(spec, source, table.concat(names, " --variant ")))
    end
    return all, object(source, LIBRARY .. " " .. (table_flags or ""), folder .. ".table" .. (table_flags and "_renamed" or "")), names
  end

  local SUPPORT = tests(TEST, "support", "guard_pages tensor golden")
  local CASES = tests(TEST, "support", "cases_check cases_plain")
  local SUITE = list(tests(TEST, "contract", "suite"), CASES)
  local WORLD = list(tests(TEST, "contract", "world"), SUPPORT)
  local REFUSAL = list(tests(TEST, "contract", "refusal_oracle"), WORLD)
  local ORACLE = tests(FAST, "oracle", "half plain ref")
  local of_checks = {} -- all but what //tests/checks has targets of their own for
  for _, source in ipairs(lines("ls tests/checks/*.c")) do
    local name = source:match("([^/]*)%.c$")
    if not (" backend_host differential harness_selftest host_memory stand_in variant_test "):find(" " .. name .. " ", 1, true) then
      of_checks[#of_checks + 1] = name
    end
  end
  local CHECKS = list(tests(FAST, "checks", table.concat(of_checks, " ")), ORACLE, SUPPORT, CASES)
  local CHECKABLE = list(tests(TEST, "checks", "variant_test host_memory backend_host"), CHECKS, POOL)

  local function but_probe(parts)
    local all = {}
    for _, item in ipairs(parts) do
      if item ~= "lib.cpu.probe.o" then all[#all + 1] = item end
    end
    return all
  end

  -- The promises, of a small spec.
  local small, table_of_small, names = kernels(".ci/small.lua", "small")
  local SMALL = list(CORE, table_of_small, small)
  for name in ("refusal_plan refusal_call explain context merge lengths cost pages append plan stack guard alloc threads pool "):gmatch("%S+") do
    local source = ("tests/contract/%s.c"):format(name)
    if exists(source) then program(name, list(object(source, TEST), REFUSAL, ORACLE, POOL, SUITE, SMALL)) end
  end
  local _, renamed = kernels(".ci/small.lua", "small", nil, nil, GENUINE)
  program("selftest", list(object("tests/contract/selftest.c", TEST), WORLD, SUITE, CORE, small, renamed))
  local WRAPPED = "-Wl,--wrap=glint_forward,--wrap=glint_backward"
  if exists("tests/contract/selftest_wrong.c") then
    local wrong = object("tests/contract/selftest_wrong.c", TEST)
    program("selftest_wrong", list(wrong, WORLD, SUITE, CORE, small, renamed), { link = WRAPPED })
    local eight, table_of_eight = kernels("tests/specs/cache.lua", "cache", nil, nil, GENUINE)
    program("selftest_wrong_cache", list(wrong, WORLD, SUITE, CORE, eight, table_of_eight), { link = WRAPPED })
  end
  local asked = list(object("tests/contract/selftest_inputs.c", TEST), SUPPORT, ORACLE, CORE)
  program("selftest_inputs", asked, { arguments = "tests/contract/selftest_inputs.txt", link = WRAPPED })
  program("ub.selftest_inputs", stopping(asked), { arguments = "tests/contract/selftest_inputs.txt", link = WRAPPED })
  for name in ("numbers edges tasks"):gmatch("%a+") do
    local parts = list(tests(TEST, "contract", name .. " made_up serve"), SUPPORT, but_probe(CORE))
    program(name, parts, { arguments = ("tests/contract/%s.txt"):format(name) })
    if name ~= "numbers" then program("ub." .. name, stopping(parts), { arguments = ("tests/contract/%s.txt"):format(name) }) end
  end
  for name in ("noted overlaps"):gmatch("%a+") do
    program(name, list(tests(TEST, "contract", name .. " made_up"), SUITE, but_probe(CORE)))
  end
  for name in ("pool_steps pool_locks"):gmatch("%S+") do program(name, list(tests(TEST, "contract", name), SUITE)) end
  program("append_plans", list(object("tests/contract/append_plans.c", TEST), SUITE, CORE))
  program("plan_rule", list(object("tests/contract/plan_rule.c", TEST), CORE))
  for target in ("problem call"):gmatch("%a+") do
    program(target .. "_replay", list(tests(TEST, "fuzz", "bytes replay " .. target), ORACLE, REFUSAL, SMALL),
      { arguments = ("tests/fuzz/%s_corpus.txt"):format(target) })
  end
  for _, name in ipairs(names) do
    if name:find("f32_d40.*_v3_") or name:find("bwd_bf16_d64_causal") or name:find("dec_bf16_d40") or name:find("fwd_f32_d64_causal.*64_m") then
      program("variant." .. name, list(CHECKABLE, SMALL), { arguments = "--variant=" .. name })
    end
  end

  -- Biases, intervals and trees, in the rows of one instruction set.
  for spec in ("bias intervals trees"):gmatch("%a+") do
    local rows, table_of_rows, its_names = kernels(("tests/specs/%s.lua"):format(spec), spec, "__cpu_x86_64_v3_")
    if exists("tests/contract/selftest_passes.c") then
      program("selftest_" .. spec, list(object("tests/contract/selftest_passes.c", TEST), WORLD, SUITE, CORE, table_of_rows, rows))
    end
    for _, name in ipairs(its_names) do
      if name:find("_f32_d") and (name:find("alibi") or name:find("tensor") or spec ~= "bias" and (name:find("interval") or name:find("tree"))) then
        program(("%s.%s"):format(spec, name), list(CHECKABLE, CORE, table_of_rows, rows), { arguments = "--variant=" .. name })
      end
    end
  end

  -- Caches of 8 bits.
  local cache, table_of_cache = kernels("tests/specs/cache.lua", "cache")
  local CACHE = list(CORE, table_of_cache, cache)
  for name, source in pairs({ cache = "cache/cache", overlap = "cache/overlap", lengths_cache = "contract/lengths", cost_cache = "contract/cost" }) do
    if exists("tests/" .. source .. ".c") then
      program(name, list(object(("tests/%s.c"):format(source), TEST), WORLD, ORACLE, SUITE, CACHE))
    end
  end

  -- Which row is taken, among instruction sets that the test names; nothing is computed.
  local dot, table_of_dot = kernels("tests/specs/dot.lua", "dot")
  program("dot_chosen", list(tests(TEST, "dot", "chosen probe"), but_probe(CORE), table_of_dot, dot))

  -- The CUDA backend on a driver without a GPU.
  local WRAP = "-Wl,--wrap=dlopen,--wrap=dlsym,--wrap=dlclose"
  local FAKE = list(tests(TEST, "cuda", "fake_driver fake_library fake_table"), CORE, CUDA)
  for name in ("devices_test fault_test launch_test maps_test policy_test sentences_test refusals_test selftest_test"):gmatch("%S+") do
    if exists(("tests/cuda/%s.c"):format(name)) then
      local flags = name == "maps_test" and TEST .. " -O0 -fsanitize=signed-integer-overflow -fsanitize-undefined-trap-on-error" or TEST
      program("cuda." .. name, list(tests(flags, "cuda", name), tests(TEST, "cuda", "launch_world"), SUPPORT, FAKE), { link = WRAP,
        arguments = name == "sentences_test" and "tests/cuda/sentences.txt" or "" })
    end
  end
  local cuda_edges = list(tests(TEST, "cuda", "edges"), tests(TEST, "contract", "edges serve"), SUPPORT, FAKE)
  program("cuda.edges", cuda_edges, { link = WRAP, arguments = "tests/cuda/edges.txt" })
  program("ub.cuda.edges", stopping(cuda_edges), { link = WRAP, arguments = "tests/cuda/edges.txt" })
  local launches = list(object("tests/cuda/launches.c", TEST), SUPPORT, CORE, CUDA)
  program("cuda.launches", launches, { arguments = "tests/cuda/launches.txt" })
  program("ub.cuda.launches", stopping(launches), { arguments = "tests/cuda/launches.txt" })
  program("cuda.on_device", list(tests(TEST, "cuda", "fake_gpu on_device device job"), SUPPORT, FAKE), {
    link = WRAP, script = "tests/cuda/on_device_test.sh" })

  -- Simulated GPUs, which launch what the library plans: kernels in C++, of rows that have what the fake table has not.
  local INSIDE = "-w -fPIC -fvisibility=hidden -fno-stack-protector -fomit-frame-pointer -std=c++17 -I tests/hostsim/primitives "
  local ENGINE = {}
  for _, source in ipairs(lines("ls tests/hostsim/*.cc")) do ENGINE[#ENGINE + 1] = object(source, INSIDE .. "-O3") end
  -- A kernel's file with a symbol for each architecture where a cubin would stand: tests/hostsim/hostsim.bzl.
  local function image(kernel, name, symbols, flags)
    local source = ("%s/simulated/%s.cc"):format(work, name)
    if not exists(source) then
      run(([[mkdir -p %s/simulated && { echo '#include "%s"'; echo '#include "tests/hostsim/image.h"'
        entries=$(sed -n 's/.*[ )]\(glint_[a-z0-9_]*\)(GLINT_PARAMS.*/SIM_ENTRY(\1)/p' %s | paste -s -d ,)
        for symbol in %s; do echo "SIM_IMAGE($symbol, $entries);"; done; } >%s]]):format(work, kernel, kernel, symbols, source))
    end
    return object(source, INSIDE .. "-O2 " .. flags, "simulated." .. name)
  end
  local SYMBOLS = "glint_gpu_rows__sm80_cubin glint_gpu_rows__sm86_cubin glint_gpu_rows__sm87_cubin glint_gpu_rows__sm89_cubin " ..
    "glint_gpu_rows__sm90_cubin glint_gpu_rows__sm90a_cubin glint_gpu_rows__sm100_cubin glint_gpu_rows__sm110_cubin glint_gpu_rows__sm120_cubin"
  local ROWS = image("lib/cuda/rows.cu", "gpu_rows", SYMBOLS, "-ffp-contract=off -D__CUDA_ARCH__=1200")
  local SIMULATOR = list(tests(TEST, "checks", "variant_test"), tests(TEST, "hostsim", "backend_hostsim"), CHECKS, ENGINE, CORE, CUDA, ROWS)
  for _, s in ipairs({
    { "step", "step", "fwd_bf16_d64_band__sm90a_step_s128_m128n128", { "90a" },
      { "lengths/", "ragged_pages/", "accuracy/bottom_right_long_keys" } },
    { "decode", "odd", "dec_bf16_d72_band__sm80_s6_m8n64", { "90" }, { "lengths/", "ragged_pages/", "accuracy/many_keys_in_spans" } },
    { "bias", "bias", "bwd_f32_d40_interval_tensor__sm80_fused_m32n32", { "80", "90" },
      { "accuracy/bias_t5", "accuracy/bias_split", "accuracy/bias_intervals_keys_of_all" } },
    { "alibi", "bias", "bwd_bf16_d32_causal_softcap_alibi__sm80_split_m32n32", { "80", "90" }, { "alibi/" } },
    { "interval", "intervals", "bwd_bf16_d32_interval_softcap__sm80_split_m32n32", { "80", "90" }, { "intervals/" } },
    { "interval_maps", "intervals", "fwd_bf16_d32_interval__sm90a_short_m64n32", { "90a" }, { "intervals/" } },
    { "tree", "trees", "dec_bf16_d40_tree_tensor__sm80_s2_m8n64", { "80", "90" }, { "tree/", "accuracy/bias_decode" } },
  }) do
    local name, variant, archs = s[1], s[3], s[4]
    local spec, of_spec = ("tests/specs/%s.lua"):format(s[2]), ("%s/simulated/"):format(work)
    local kernel, table_source = of_spec .. variant .. ".cu", of_spec .. name .. "_table.c"
    if not exists(table_source) then
      run(("mkdir -p %s && lua5.4 gen/glint.lua emit --spec %s --variant %s --out %s"):format(of_spec, spec, variant, kernel))
      run(("lua5.4 gen/glint.lua emit --spec %s --table --out %s --variant %s"):format(spec, table_source, variant))
    end
    local symbols = {}
    for i, arch in ipairs(archs) do symbols[i] = ("glint_%s__sm%s_cubin"):format(variant, arch) end
    local parts = list(SIMULATOR, object(table_source, LIBRARY, "simulated.table_" .. name),
      image(kernel, variant, table.concat(symbols, " "), ("-D__CUDA_ARCH__=%d0"):format(archs[#archs]:match("%d+"))))
    for _, check in ipairs(s[5]) do
      program(("simulated.%s.%s"):format(name, (check:gsub("/$", ""):gsub("/", "."))), parts,
        { arguments = ("--variant=%s --case=%s"):format(variant, check), link = "-lstdc++" })
    end
  end

  -- The probe and the permission, whose texts the test includes.
  program("probe", list(object("tests/contract/probe.c", TEST), SUITE, but_probe(CORE), table_of_dot, dot))
  return programs, library, order
end
