-- Searches for inputs that break glint.h's promises, with clang's libFuzzer, AddressSanitizer and UBSan: coverage of
-- the library leads it.
--
--   lua5.4 tests/fuzz/search.lua TARGET SECONDS [SPEC]     from the root; TARGET: problem or call
--   lua5.4 tests/fuzz/search.lua test                      each target for a short time, from a seed
--
-- Searching, the kept corpus grows by what covers more of the library. A culprit is printed as a line for the corpus,
-- whose replay then fails. Specs are Lua, of which libFuzzer sees no coverage: spec.lua mutates them from seeds.
-- As a test it is passed, with the word SKIPPED, where clang or its libFuzzer is missing.
local TARGETS = { "problem", "call" }
local TEST_RUNS, TEST_SEED, TEST_SECONDS = { problem = 20000, call = 120000 }, 29, 40 -- fewer on a slow machine
local CORE = { "lib/*.c", "lib/cpu/*.c" }
local TESTS = "tests/fuzz/bytes.c tests/contract/world.c tests/contract/refusal_oracle.c tests/support/guard_pages.c "
  .. "tests/support/tensor.c tests/oracle/half.c tests/oracle/ref.c"

local function read(command)
  local pipe <close> = assert(io.popen(command))
  return pipe:read("a")
end

local function must(command)
  if not os.execute(command) then error("failed: " .. command, 0) end
end

local work = read("mktemp -d -p \"${TEST_TMPDIR:-/tmp}\""):match("%S+")
local _ <close> = setmetatable({}, { __close = function() os.execute(("rm -rf '%s'"):format(work)) end })
local path = work .. "/probe.c"
local probe <close> = assert(io.open(path, "w"))
probe:write("int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return d == 0 && n; }\n")
probe:close()
if not os.execute(("clang -fsanitize=fuzzer,address,undefined %s -o %s/probe >/dev/null 2>&1"):format(path, work)) then
  print("SKIPPED: clang, or its libFuzzer (Debian: clang libclang-rt-14-dev), is not installed")
  return
end

local testing = arg[1] == "test"
local spec = arg[3] or "tests/fuzz/rows.lua"
local lua = read("readlink -f /proc/$PPID/exe"):match("%S+")
local arch = read("uname -m"):match("%S+")

-- The table and its kernels: those without UBSan, which takes most of the time and has tests of its own.
local function build_rows()
  local function glint(arguments) return ("%s gen/glint.lua %s --spec %s"):format(lua, arguments, spec) end
  must(glint(("emit --table --arch %s --out %s/table.c"):format(arch, work)))
  local march = { x86_64_v3 = "-march=x86-64-v3", x86_64_v4 = "-march=x86-64-v4" }
  for name in read(glint("list --arch " .. arch)):gmatch("(%S+__cpu_%S+)") do
    must(glint(("emit --variant %s --out %s/%s.c"):format(name, work, name)))
    must(("clang -std=c11 -O1 -I. -fsanitize=address %s -c %s/%s.c -o %s/%s.o"):format(march[name:match("x86_64_v%d")] or "",
      work, name, work, name))
  end
end

local flags = "-std=c11 -O1 -g -I. -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined"

-- A folder of objects for each folder of sources, as two have files of one name.
local function build_library()
  local root = read("pwd"):match("%S+")
  local sources = { table.unpack(CORE) }
  table.insert(sources, TESTS)
  table.insert(sources, work .. "/table.c")
  for i, files in ipairs(sources) do
    local absolute = files:gsub("%S+", function(file) return file:find("^/") and file or root .. "/" .. file end)
    must(("mkdir -p %s/core/%d && cd %s/core/%d && clang %s -I%s -c %s"):format(work, i, work, i, flags, root, absolute))
  end
  must(("rm %s/core/1/pool.o"):format(work)) -- an archive of its own
end

local function hex_of(file)
  local input <close> = assert(io.open(file, "rb"))
  return (input:read("a"):gsub(".", function(c) return ("%02x"):format(c:byte()) end))
end

local function search(target, seconds)
  local corpus, at = ("tests/fuzz/%s_corpus.txt"):format(target), ("%s/%s"):format(work, target)
  local objects = ("%s/core/*/*.o %s/*.o"):format(work, work)
  must(("clang %s -fsanitize=fuzzer %s tests/fuzz/%s.c -ldl -lm -o %s"):format(flags, objects, target, at))
  must(("mkdir %s.inputs %s.grown"):format(at, at))
  local count = 0
  for line in io.lines(corpus) do
    count = count + 1
    local input <close> = assert(io.open(("%s.inputs/%d"):format(at, count), "wb"))
    input:write((line:gsub("%x%x", function(digits) return string.char(tonumber(digits, 16)) end)))
  end
  local limits = testing and ("-runs=%d -seed=%d"):format(TEST_RUNS[target], TEST_SEED) or ""
  local ok = os.execute(("%s -max_total_time=%d %s -max_len=160 -timeout=20 -print_final_stats=1 -artifact_prefix=%s.crash- %s.grown %s.inputs >%s.log 2>&1")
    :format(at, seconds, limits, at, at, at, at))
  local log = read(("cat %s.log"):format(at))
  if not ok then
    io.write(log)
    for file in read(("ls %s.crash-* 2>/dev/null"):format(at)):gmatch("%S+") do
      print(("culprit, for %s:\n%s"):format(corpus, hex_of(file)))
    end
    error(target .. ": see above", 0)
  end
  local runs = tonumber(log:match("number_of_executed_units: (%d+)"))
  local began, reached = log:match("INITED cov: (%d+)"), nil
  for cov in log:gmatch("cov: (%d+)") do reached = cov end
  print(("%s: %d inputs kept, %d tried, %s points of the code covered at first, %s at the end"):format(target, count, runs, began, reached))
  if count == 0 or runs <= count or tonumber(reached) < 500 then error(target .. ": nothing was searched", 0) end
  return at
end

build_rows()
build_library()
if testing then
  for _, target in ipairs(TARGETS) do search(target, TEST_SECONDS) end
else
  local at, seen, lines = search(arg[1], tonumber(arg[2])), {}, {}
  local corpus = ("tests/fuzz/%s_corpus.txt"):format(arg[1])
  must(("mkdir %s.least && %s -merge=1 %s.least %s.inputs %s.grown >/dev/null 2>&1"):format(at, at, at, at, at))
  for line in io.lines(corpus) do lines[#lines + 1], seen[line] = line, true end
  for file in read(("ls %s.least/*"):format(at)):gmatch("%S+") do
    local line = hex_of(file)
    if not seen[line] and line ~= "" then lines[#lines + 1] = line end
  end
  table.sort(lines)
  local out <close> = assert(io.open(corpus, "w"))
  out:write(table.concat(lines, "\n"), "\n")
  print(("%d inputs in %s"):format(#lines, corpus))
end
