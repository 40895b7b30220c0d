-- Proofs of the host's C for all inputs, by Frama-C's WP with Why3, Z3 and CVC4:
-- lua prove.lua EXPECTED CONTRACTS... [--same FILE CONTRACTS...] [--proved FILE CONTRACTS...]
--
-- A file of contracts begins with `# SOURCE: FUNCTION...`. What follows is ACSL to be put ahead of lines of the
-- source: each is named, without its indentation, behind an @, and is looked for behind the one before. One that is
-- not there is an error, so a proof cannot be of code that has changed. Two more lines may follow the first one:
-- `# cpp: OPTIONS` is for the preprocessor; `# rte: no` leaves undefined behaviour out, where a contract says what is
-- written and no more, and `# rte: unsigned` asks of unsigned numbers, too, that none wraps around; `# smt: FILE` is
-- for Z3 alone, which has to find each question of FILE unsatisfiable. Goals that no prover closes are those of
-- EXPECTED, a line `NAME GOAL` each. Passed, with the word SKIPPED, where the tools are not installed. A shard of
-- Bazel's takes its part of the contracts.
--
-- FILE of --proved has a line `NAME SUM` for each contract behind it: the sum of the contract and of the functions'
-- own text, as both were when it was proved. Such a contract is passed by while its sum is that, and is proved where
-- it is another. The sum of --same is of all that the provers are asked: the whole source with its contract and all
-- headers, as the preprocessor leaves them, macros, options, and the tools' versions. Whoever has another of these
-- proves; who has the same would prove the same.
local DIRECTORY = "tests/proofs"

-- CVC4 is asked first, and both provers for what it leaves: most of the time of an easy goal goes into writing it down
-- for a prover. Steps bound the first question, and not the clock of a busy machine.
local PROVERS = { "-wp-prover cvc4 -wp-steps 32000", "-wp-prover z3,cvc4 -wp-steps 0" }

local shards, shard = tonumber(os.getenv("TEST_TOTAL_SHARDS") or 1), tonumber(os.getenv("TEST_SHARD_INDEX") or 0)
if os.getenv("TEST_SHARD_STATUS_FILE") then assert(io.open(os.getenv("TEST_SHARD_STATUS_FILE"), "w")):close() end

local function read(command)
  local pipe <close> = assert(io.popen(command))
  return pipe:read("a")
end

if not os.execute("command -v frama-c >/dev/null && command -v why3 >/dev/null && command -v z3 >/dev/null && command -v cvc4 >/dev/null") then
  print("SKIPPED: frama-c, why3, z3 or cvc4 is not installed")
  return
end

local tools = read("frama-c -version; why3 --version; z3 --version; cvc4 --version | head -n 1")

local function lines_of(path)
  local lines = {}
  for line in io.lines(path) do lines[#lines + 1] = line end
  return lines
end

-- Structs and functions of a C++ header as C. A template is the function without its first words, and a reference a
-- pointer, whose members are found by an arrow. All other lines are empty.
local function in_c(lines, names, source)
  local out = {}
  for i = 1, #lines do out[i] = "" end
  for name in names:gmatch("%S+") do
    local first, last
    for i, line in ipairs(lines) do
      local begins = line:find("^struct " .. name .. " {") or (line:find("GLINT_DEVICE ", 1, true) and line:find("[ *]" .. name .. "%("))
      first = first or (begins and i)
      last = last or (first and line:find("^}") and i)
    end
    if not last then error(("%s has no `%s`"):format(source, name), 0) end
    local references = {}
    for i = first, last do
      out[i] = lines[i]:gsub("^template <.->%s+", ""):gsub("([%w_]+) &([%w_]+)([,)])", function(type, reference, ends)
        references[reference] = true
        return ("%s *%s%s"):format(type, reference, ends)
      end)
      for reference in pairs(references) do out[i] = out[i]:gsub("%f[%w_]" .. reference .. "%.", reference .. "->") end
    end
  end
  return out
end

-- A copy of the source with the contracts in it, which says of each line where it is from.
local function annotated(source, notes, name, names)
  local lines, ahead, at = lines_of(source), {}, 0
  for _, note in ipairs(notes) do
    local wanted = note:match("^@ (.*)$")
    if wanted then
      repeat at = at + 1 until not lines[at] or lines[at]:match("^%s*(.-)%s*$") == wanted
      if not lines[at] then error(("%s: %s has no line `%s`: look at the change, then at the contract"):format(name, source, wanted), 0) end
      ahead[at] = {}
    elseif note ~= "" and not note:find("^#") then
      table.insert(ahead[at], note)
    end
  end
  local out = { ('#line 1 "%s"'):format(source) }
  for i, line in ipairs(names and in_c(lines, names, source) or lines) do
    for _, note in ipairs(ahead[i] or {}) do out[#out + 1] = note end
    if ahead[i] then out[#out + 1] = ("#line %d"):format(i) end
    out[#out + 1] = line
  end
  return table.concat(out, "\n") .. "\n"
end

-- FNV-1a of a text, without how lines are broken.
local function fnv1a(text)
  local sum = 0xcbf29ce484222325
  for byte in text:gsub("%s+", ""):gmatch(".") do sum = (sum ~ byte:byte()) * 0x100000001b3 end
  return ("%016x"):format(sum)
end

-- The sum of a contract and of the text of its functions, without comments.
local function sum_of(notes, source, functions)
  local lines, text = lines_of(source), { table.concat(notes, "\n") }
  for name in functions:gmatch("%S+") do
    local inside, found = false, false
    for _, line in ipairs(lines) do
      inside = inside or (line:find("^%a.*[ *]" .. name .. "%(") and not line:find(";$"))
      found = found or inside
      if inside then text[#text + 1] = line end
      if line:find("^}") then inside = false end
    end
    if not found then error(("%s has no function `%s`"):format(source, name), 0) end
  end
  return fnv1a(table.concat(text, "\n"):gsub("/%*.-%*/", ""))
end

-- The sum of all that the provers are asked of a copy with contracts. Annotations are not expanded yet: the text has
-- the macros, too.
local function sum_of_all(copy, options, asked)
  local text = read(("gcc -E -P -C -dD -I. -include %s/fc.h %s %s && echo ' all of it'"):format(DIRECTORY, options, copy))
  local whole = text:match("^(.*) all of it\n$") or error(copy .. ": the preprocessor fails", 0)
  return fnv1a(asked .. options .. tools .. whole:gsub("/%*[^@].-%*/", ""))
end

-- Those that are passed by while their sum is the one of a FILE.
local contracts, file_of_sums, sums, by = {}, nil, {}, nil
for i = 2, #arg do
  local option = arg[i - 1]
  if option == "--proved" or option == "--same" then
    file_of_sums, by = arg[i], option
    for _, line in ipairs(lines_of(file_of_sums)) do
      local name, sum = line:match("^([%w_]+) (%x+)$")
      if name then sums[name] = sum end
    end
  elseif arg[i] ~= "--proved" and arg[i] ~= "--same" then
    table.insert(contracts, { path = arg[i], by = by, file_of_sums = file_of_sums })
  end
end

local work = read("mktemp -d -p \"${TEST_TMPDIR:-/tmp}\""):match("%S+")
os.execute(("HOME=%s why3 config detect >/dev/null 2>&1"):format(work))

local expected, bad, closed, passed = {}, false, 0, 0
for _, line in ipairs(lines_of(arg[1])) do
  if line ~= "" and not line:find("^#") then expected[line] = true end
end

local function prove(contract)
  local path = contract.path
  local name, notes = path:match("([%w_]+)%.acsl$"), lines_of(path)
  local source, functions = notes[1]:match("^# (%S+): (.+)$")
  local header = table.concat(notes, "\n", 1, 3)
  local options, rte = header:match("\n# cpp: ([^\n]+)") or "", header:find("\n# rte: no", 1, true) and "" or "-wp-rte"
  if header:find("\n# rte: unsigned", 1, true) then rte = rte .. " -warn-unsigned-overflow" end
  local copy, log = ("%s/%s.c"):format(work, name), ("%s/%s.log"):format(work, name)
  local file = assert(io.open(copy, "w"))
  file:write(annotated(source, notes, path, header:match("\n# c%+%+: ([^\n]+)")))
  file:close()
  local asks = header:match("\n# smt: (%S+)")
  if asks then
    local script = DIRECTORY .. "/" .. asks
    local answers = read("z3 -T:60 " .. script)
    local questions = select(2, table.concat(lines_of(script)):gsub("%(check%-sat%)", ""))
    if answers ~= ("unsat\n"):rep(questions) then error(("%s: Z3 says\n%s"):format(asks, answers), 0) end
  end
  local asked = {}
  for k, provers in ipairs(PROVERS) do
    asked[k] = ("-wp %s -wp-fct %s %s -wp-timeout 60 -wp-par 2"):format(rte, functions:gsub(" ", ","), provers)
  end
  local sum = contract.by == "--same" and sum_of_all(copy, options, table.concat(asked)) or sum_of(notes, source, functions)
  if contract.by and sums[name] == sum then
    passed = passed + 1
    return
  end
  local began = os.time()
  os.execute(("HOME=%s frama-c -machdep gcc_x86_64 -c11 -cpp-extra-args='-I. -include %s/fc.h %s' %s -warn-special-float none -rte-no-pointer-call %s "
    .. ">%s 2>&1"):format(work, DIRECTORY, options, copy, table.concat(asked, " -then "), log))
  local text = read("cat " .. log)
  local goals, named, proved, all = tonumber(text:match("Proved goals: +%d+ / (%d+)")), 0, 0, {}
  for goal, said in text:gmatch("%[wp%] %[[^%]\n]*%] Goal typed_(%S+)([^\n]*)") do
    all[goal] = all[goal] or said:find("^ : Valid") ~= nil
  end
  for goal, closes in pairs(all) do
    local line = name .. " " .. goal
    named, proved = named + 1, proved + (closes and 1 or 0)
    if not closes and not expected[line] then
      bad = true
      print("open, and not in " .. arg[1] .. ": " .. line)
    end
    if not closes then expected[line] = nil end
  end
  if not goals or goals < 5 or named ~= goals then
    io.write(text)
    error(("%s: Frama-C has %s goals, and the log names %d"):format(name, goals or "no", named), 0)
  end
  closed = closed + proved
  print(("%s: %d of %d goals of %s, %d s"):format(name, proved, goals, functions, os.time() - began))
  for line in pairs(expected) do
    if line:find("^" .. name .. " ") then
      bad = true
      print("closed, though it is in " .. arg[1] .. ": " .. line)
    end
  end
  if contract.by then print(("%s is proved of another text: write `%s %s` into %s"):format(name, name, sum, contract.file_of_sums)) end
end
for i = 1 + shard, #contracts, shards do prove(contracts[i]) end
os.execute(("rm -rf '%s'"):format(work))
print(("%d goals are proved, and %d contracts are those that were proved"):format(closed, passed))
if bad then error("the open goals are not the expected ones", 0) end
