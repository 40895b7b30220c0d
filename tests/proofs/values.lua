-- Undefined behaviour in what the host does with any values, by Frama-C's Eva: lua values.lua ALARMS.TXT HARNESS...
--
-- A harness in values/ begins with any values of a problem, a plan or a refusal, and calls the library's own code with
-- a table that has a row of each kind (values/table.lua). Eva reckons with sets of values, and raises an alarm where
-- one of them would be undefined behaviour. An alarm is named by its harness, its file and the source line. ALARMS.TXT
-- has the expected alarms, each with its reason. Another alarm fails, and so does an expected one that is not raised.
-- The test passes, with the word SKIPPED, where Frama-C is not installed. Of two shards the second one has `calls`,
-- which takes as long as all others.
local DIRECTORY = "tests/proofs/values"
local CORE = "lib/sentences.c lib/axes.c lib/status.c lib/choose.c lib/check_problem.c lib/table.c lib/cpu/backend.c lib/cpu/isa.c "
  .. "lib/cuda/backend.c lib/cuda/launch.c lib/cuda/policy.c lib/cuda/sm80.c lib/cuda/sm90a.c lib/cuda/step.c lib/cuda/decode.c lib/cuda/tensor_map.c"
local TASKS = "-eva-precision 0 -eva-slevel 20 -eva-auto-loop-unroll 3 -eva-use-spec glint_cpu_place_of "
  .. "-eva-split-return-function glint_cpu_geometry:0,glint_cpu_plan:0,lay_out_workspace:0,lay_out_scratch:0,count_tasks:0,share_out:0 "
  .. "-eva-slevel-function has_bad_page:1,read_lengths:400,run_phase:60"
-- Name, options of the preprocessor, files besides, options of Eva, the fewest functions that it looks at.
local HARNESSES = {
  { "refusals", "", "lib/explain.c", "-eva-precision 3 -eva-slevel 200 -eva-slevel-function glint_put_refusal:3000,main:400,begins:30", 45 },
  { "choices", "", "", "-eva-precision 0 -eva-slevel 8", 80 },
  { "choices", "-DCUDA", "", "-eva-precision 0 -eva-slevel 8", 80 },
  { "calls", "", "lib/check_call.c lib/plan.c", "-eva-precision 1 -eva-slevel 60 -eva-split-return auto "
    .. "-eva-slevel-function elements_meet:100,check_words:20,check_overlap:20", 40 },
}

local function read(command)
  local pipe <close> = assert(io.popen(command))
  return pipe:read("a")
end

local shards, shard = tonumber(os.getenv("TEST_TOTAL_SHARDS") or 1), tonumber(os.getenv("TEST_SHARD_INDEX") or 0)
if os.getenv("TEST_SHARD_STATUS_FILE") then assert(io.open(os.getenv("TEST_SHARD_STATUS_FILE"), "w")):close() end
assert(shards <= 2, "there are two shards at most")
local wanted = {}
for i = 2, #arg do wanted[arg[i]] = true end
local function is_here(name)
  return wanted[name] and (shards == 1 or (name == "calls") == (shard == 1))
end

if not os.execute("command -v frama-c >/dev/null") then
  print("SKIPPED: frama-c is not installed")
  return
end

local work = read("mktemp -d -p \"${TEST_TMPDIR:-/tmp}\""):match("%S+")
local lua = arg[-1]
local made = os.execute(("%s gen/glint.lua emit --table --spec %s/table.lua --out %s/table.c"):format(lua, DIRECTORY, work))
assert(made, "the generator made no table")
local row = -1
for line in io.lines(work .. "/table.c") do
  if line:find("glint_variants_count", 1, true) then break end -- kernels have names, too
  if line:find('{.name = "', 1, true) then
    row = row + 1
    if line:find("__sm", 1, true) then
      HARNESSES[#HARNESSES + 1] = { "launches", ("-DCUDA -DROW=%d"):format(row), "", "-eva-precision 1 -eva-slevel 20", 50 }
    elseif line:find("_bf16_d64", 1, true) then -- with each enum glint_lengths by itself, and backward with dBias and without
      for lengths = 0, 2 do
        for dbias = 0, line:find('"bwd', 1, true) and 1 or 0 do
          HARNESSES[#HARNESSES + 1] = { "tasks", ("-DROW=%d -DOF_LENGTHS=%d -DOF_DBIAS=%d"):format(row, lengths, dbias),
            "lib/cpu/backend.c lib/cpu/isa.c lib/axes.c", TASKS, lengths == 0 and 38 or 45 }
        end
      end
    end
  end
end
assert(#HARNESSES == 4 + 9 + 12, "the table has other rows")

local lines_of = {}
local function line(path, number)
  if not lines_of[path] then
    lines_of[path] = {}
    for text in io.lines(path) do table.insert(lines_of[path], text) end
  end
  return lines_of[path][number]:match("^%s*(.-)%s*$")
end

local expected, raised, bad = {}, {}, false
for text in io.lines(arg[1]) do
  if text ~= "" and not text:find("^#") and is_here(text:match("%S+")) then expected[text] = true end
end

local function run(harness)
  local name, define, files, options, least = table.unpack(harness)
  local log, core, began = ("%s/%s.log"):format(work, name), name == "tasks" and "" or CORE, os.time()
  os.execute(("HOME=%s frama-c -machdep gcc_x86_64 -c11 -cpp-extra-args=\"-I. -I%s -I$(frama-c -print-share-path)/libc -include tests/proofs/fc.h "
    .. "-include %s/text.h %s\" %s/%s.c %s %s %s/table.c -eva -warn-special-float none -eva-domains equality,symbolic-locations "
    .. "-eva-msg-key=-initial-state,-final-states %s >%s 2>&1"):format(work, DIRECTORY, DIRECTORY, define, DIRECTORY, name, files, core, work, options, log))
  local text = read("cat " .. log)
  local functions = tonumber(text:match("(%d+) functions analyzed"))
  if not text:find("[eva] done for function main", 1, true) or not functions or functions < least or text:find("Neither code nor", 1, true) then
    io.write(text)
    error(name .. ": Eva did not look at all of it", 0)
  end
  local count = 0
  for path, number in text:gmatch("%[eva:alarm%] ([^:\n]+):(%d+): Warning:") do
    local alarm = ("%s %s: %s"):format(name, path, line(path, tonumber(number)))
    if not expected[alarm] then
      bad = true
      print("not in " .. arg[1] .. ": " .. alarm)
    end
    count, raised[alarm] = count + 1, true
  end
  print(("%s %s: %d functions, %d alarms, %d s"):format(name, define, functions, count, os.time() - began))
end
for _, harness in ipairs(HARNESSES) do
  if is_here(harness[1]) then run(harness) end
end
for alarm in pairs(expected) do
  if not raised[alarm] then
    bad = true
    print("not raised, though it is in " .. arg[1] .. ": " .. alarm)
  end
end
os.execute(("rm -rf '%s'"):format(work))
if bad then error("the alarms are not the expected ones", 0) end
