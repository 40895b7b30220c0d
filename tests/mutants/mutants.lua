-- Do the tests fail when the library is wrong? Each mutant is one small mechanical change of the host's C or of the
-- generator, drawn by a seed.
--
--   ./bazelw run //tests:mutants -- --seed 1           300 mutants: prints each as it is judged, then the survivors
--   ./bazelw run //tests:mutants -- --seed 1 --count 50 --only 'lib/cuda'
--   ./bazelw run //tests:mutants -- --seed 1 --jobs 16 --seconds 100    as many of them as fit
--   ./bazelw run //tests:mutants -- --show 17 --seed 1         one mutant as a patch
--   ./bazelw run //tests:mutants -- --hand 'lib/plan.c:30:<:<='  one that is given
--   ./bazelw run //tests:mutants -- --prepare                  compiles and times everything, and no more
--
-- Without Bazel, from the root of a checkout: lua5.4 tests/mutants/mutants.lua. Bazel is not asked for each mutant:
-- gcc compiles one file, links the programs that execute its line, first those that find much in little time, and stops
-- at the first that fails. An object that is the same byte by byte is no mutant. The generator's mutants are judged by
-- its own tests and by the golden kernels. known.lua has survivors that are equivalent or that change only speed, with
-- the reason, and rules.lua knows some by a rule; they are counted apart. Linux on x86-64 with gcc, make, gcov, Check
-- and lua5.4.
local here = arg[0]:match("^(.*)/tests/mutants/[^/]*$") or "."
package.path = here .. "/?.lua"
local operators = require("tests.mutants.operators")
local make_programs = require("tests.mutants.programs")
local place = require("tests.mutants.place")
local by_rule = require("tests.mutants.rules")

local STRATA = { -- share of the sample, files
  { 120, "lib/*.c lib/sentences.h" }, { 55, "lib/cpu/*.c" }, { 55, "lib/cuda/*.c" }, { 70, "gen/*.lua" } }
-- What tests and the generator read; its suites, the quick ones first.
local TREE = "lib gen spec generated/golden tests docs examples bench/tune.lua .ci tools README.md MODULE.bazel"
local GENERATOR = { "parse", "spec_errors", "limits", "lists", "axes", "takes", "list", "explain", "template", "walks", "values", "expand", "holes", "gpu",
  "tiles", "sm80", "sm90a", "emit", "command_line" }

-- ---- the arguments and the shell ---------------------------------------------------------------------------------

local settings = { seed = "1", count = "300", jobs = "2", work = os.getenv("MUTANTS_WORK") or "/tmp/glint-mutants" }
do
  local i = 1
  while arg[i] do
    local name = arg[i]:match("^%-%-([%w_-]+)$")
    if not name then io.stderr:write("mutants: unknown argument '", arg[i], "'\n"); os.exit(2) end
    if name == "prepare" or name == "prepared" or name == "verify" then
      settings[name] = true
    else
      settings[name] = arg[i + 1]
      i = i + 1
    end
    i = i + 1
  end
end
local work = settings.work
local tree = work .. "/tree"

local function sh(command)
  local pipe = assert(io.popen("{ " .. command .. "\n} 2>&1"))
  local out = pipe:read("a")
  local ok = pipe:close()
  return ok, out
end
local function must(command)
  local ok, out = sh(command)
  if not ok then io.stderr:write("mutants: ", command, "\n", out, "\n"); os.exit(1) end
  return out
end
local function read(path)
  local file = io.open(path, "rb")
  if not file then return nil end
  local text = file:read("a")
  file:close()
  return text
end
local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end
local function seconds()
  local up = read("/proc/uptime")
  return tonumber(up:match("^[%d.]+"))
end
local function lines(text)
  local all = {}
  for line in text:gmatch("[^\n]+") do all[#all + 1] = line end
  return all
end

-- A table of plain values as text that load() reads.
local function dump(value)
  if type(value) ~= "table" then return type(value) == "string" and ("%q"):format(value) or tostring(value) end
  local parts, keys = {}, {}
  for key in pairs(value) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for _, key in ipairs(keys) do parts[#parts + 1] = ("[%s]=%s"):format(dump(key), dump(value[key])) end
  return "{" .. table.concat(parts, ",\n") .. "}"
end
local function restore(path)
  local text = read(path)
  return text and assert(load("return " .. text))()
end

-- ---- what is judged with -----------------------------------------------------------------------------------------

local LIBS = "-pthread %s -lrt -lm -ldl"

local function link_command(program, out, replaced, more)
  local parts = {}
  for i, object in ipairs(program.objects) do parts[i] = replaced[object] or ("%s/obj/%s"):format(work, object) end
  return ("gcc -o %s %s %s %s %s"):format(out, more or "", table.concat(parts, " "), program.link,
    LIBS:format(("%s/sys/libcheck_pic.a %s/sys/libsubunit.a"):format(work, work)))
end
local function link(...) return sh(link_command(...)) end

local function run_command(program, binary)
  return program.script and ("sh %s %s"):format(program.script, binary) or ("%s %s"):format(binary, program.arguments)
end

-- Runs a program in the tree. What it forks cannot outlive its time: limits of the processor's and of the clock's.
local function execute(program, binary, limit)
  local from = seconds()
  local ok, out = sh(("cd %s && ulimit -c 0 && ulimit -t %d && exec timeout -k 1 %d %s </dev/null"):format(tree, limit, limit,
    run_command(program, binary)))
  return ok, seconds() - from, out
end

-- Programs, the library's objects by their source, and every object in order. What prepare() has found is kept.
local function describe(again)
  local kept = not again and restore(work .. "/plan.lua")
  if kept then return kept.programs, kept.library, kept.objects end
  local programs, library, objects = make_programs(function(command) return must(("cd %s && %s"):format(tree, command)) end, work .. "/made")
  write(work .. "/plan.lua", dump({ programs = programs, library = library, objects = objects }))
  return programs, library, objects
end

-- Copies what has changed of the checkout, so that nobody's edits are seen while mutants are judged.
local function snapshot()
  must(([[mkdir -p %s && cd %s && git ls-files --cached --others --exclude-standard %s | while IFS= read -r file; do
    [ ! -f "$file" ] || cmp -s "$file" "%s/$file" || { mkdir -p "%s/$(dirname "$file")" && cp "$file" "%s/$file"; }
  done]]):format(tree, here, TREE, tree, tree, tree))
end

-- Which lines of the library a program executes: { file = { [line] = true } }, by gcov.
local function coverage(program, library)
  local replaced = {}
  for _, object in pairs(library) do
    replaced[object] = ("%s/cov/%s"):format(work, object)
    replaced["ub." .. object] = replaced[object] -- of programs that stop where behaviour is undefined
  end
  must(("rm -f %s/cov/*.gcda"):format(work))
  local ok, out = link(program, work .. "/cov/program", replaced, "--coverage")
  if not ok then error(out) end
  execute(program, work .. "/cov/program", 900)
  local executed, known = {}, {}
  for source, object in pairs(library) do
    local data = ("%s/cov/%s"):format(work, object:gsub("%.o$", ".gcda"))
    if read(data) then
      executed[source] = {}
      known[source] = {}
      local own = false -- not of a header, whose lines come behind the source's
      for _, line in ipairs(lines(must(("cd %s && gcov --stdout %s"):format(tree, data)))) do
        local count, number = line:match("^%s*([%d#=*-]+):%s*(%d+):")
        number = math.tointeger(tonumber(number))
        local name = line:match("^%s*%-:%s*0:Source:(.*)$")
        if name then own = name == source end
        if own and count and number and number > 0 and count ~= "-" then
          known[source][number] = true
          if count:find("^%d") then executed[source][number] = true end
        end
      end
    end
  end
  return executed, known
end

local function prepare()
  must(("mkdir -p %s/obj %s/bin %s/cov %s/sys %s/made"):format(work, work, work, work, work))
  snapshot()
  for _, name in ipairs({ "libcheck_pic.a", "libsubunit.a" }) do
    must(("cp $(gcc -print-file-name=%s) %s/sys/"):format(name, work))
  end
  local generator = must(("cd %s && cat $(find gen spec tests/specs .ci -name '*.lua' | sort) | cksum"):format(tree))
  if read(work .. "/made/version") ~= generator then
    must(("rm -rf %s/made && mkdir -p %s/made"):format(work, work))
    write(work .. "/made/version", generator)
  end
  local programs, library, objects = describe(true)
  local rules, all = {}, {}
  local function rule(folder, name, source, flags)
    local out = ("%s/%s/%s"):format(work, folder, name)
    rules[#rules + 1] = ("%s: %s\n\tgcc %s -iquote . -iquote lib -MMD -MT $@ -MF $@.d -c %s -o $@\n-include %s.d\n"):format(out, source,
      flags, source, out)
    all[#all + 1] = out
  end
  for _, o in ipairs(objects) do rule("obj", o.name, o.source, o.flags) end
  for source, object in pairs(library) do rule("cov", object, source, "-std=c11 -w -fPIC -O0 --coverage") end
  write(work .. "/Makefile", "all: " .. table.concat(all, " ") .. "\n" .. table.concat(rules))
  must(("make -s -j%s -C %s -f %s/Makefile all"):format(settings.jobs, tree, work))
  local version = must(("cd %s && cat lib/*.[ch] lib/cpu/*.[ch] lib/cuda/*.[ch] | cksum"):format(tree))
  local facts = restore(work .. "/facts.lua")
  if not facts or facts.version ~= version then
    facts = { version = version, time = {}, executed = {}, known = {} }
    must(("rm -rf %s/base"):format(work))
  end
  facts.sum = facts.sum or {}
  for _, program in ipairs(programs) do
    local ok, out = link(program, work .. "/bin/" .. program.name, {})
    if not ok then print("does not link: " .. program.name .. "\n" .. out:sub(1, 400)); os.exit(1) end
    local sum = must(("cksum <%s/bin/%s"):format(work, program.name)) .. program.arguments
    if not facts.time[program.name] or facts.sum[program.name] ~= sum then
      local passed, time, said = execute(program, work .. "/bin/" .. program.name, 900)
      if passed then
        local same = program.name:match("^ub%.(.*)$") -- of the same objects, when they count
        local executed, known = same and facts.executed[same], {}
        if not executed then executed, known = coverage(program, library) end
        facts.time[program.name], facts.executed[program.name], facts.sum[program.name] = time, executed, sum
        for source, numbers in pairs(known) do facts.known[source] = numbers end
        print(("%6.1f s  %s"):format(time, program.name))
        write(work .. "/facts.lua", dump(facts))
      else
        print("fails without a mutant, and judges none: " .. program.name .. "\n" .. said:sub(-600))
        facts.time[program.name] = nil
      end
    end
  end
  return programs, library, facts
end

-- ---- the sample --------------------------------------------------------------------------------------------------

local function statuses()
  local names = {}
  local enum = read(tree .. "/lib/glint.h"):match("enum glint_status {(.-)\n};")
  for name in enum:gmatch("(GLINT_[%u%d_]+) =") do names[name] = true end
  return names
end

-- Mutants in the order in which they are drawn: operators of a file with the weight of the root of their number, so
-- that constants do not crowd out the rest.
local function draw(seed, count)
  math.randomseed(seed)
  local names, all = statuses(), {}
  local total = 0
  for _, stratum in ipairs(STRATA) do total = total + stratum[1] end
  for _, stratum in ipairs(STRATA) do
    local drawn = {}
    for _, file in ipairs(lines(must(("cd %s && ls %s"):format(tree, stratum[2])))) do
      local text = read(tree .. "/" .. file)
      local found = operators.candidates(text, file:find("%.lua$") and "lua" or "c", names)
      local counts = {}
      for _, m in ipairs(found) do counts[m.operator] = (counts[m.operator] or 0) + 1 end
      for number, m in ipairs(found) do
        m.file, m.number, m.old = file, number, text:sub(m.first, m.last)
        m.key = math.random() ^ math.sqrt(counts[m.operator]) -- u^(1/w), w = 1 / sqrt(n)
        drawn[#drawn + 1] = m
      end
    end
    table.sort(drawn, function(a, b) return a.key > b.key end)
    local kept = 0
    for _, m in ipairs(drawn) do
      if kept >= math.ceil(stratum[1] * count / total) then break end
      if not settings.only or m.file:find(settings.only) then
        kept = kept + 1
        all[#all + 1] = m
      end
    end
  end
  for i, m in ipairs(all) do m.id = i end
  return all
end

local function line_of(text, number)
  local n = 0
  for line in (text .. "\n"):gmatch("([^\n]*)\n") do
    n = n + 1
    if n == number then return (line:gsub("^%s+", ""):gsub("%s+$", "")) end
  end
end

local function one_line(text) return (text:gsub("%s+", " ")) end

-- ---- judging -----------------------------------------------------------------------------------------------------

-- Whether a mutant lies in a table and not in a function: the nearest line before it that is not indented begins one.
local function in_data(m)
  local head
  local n = 0
  for line in read(tree .. "/" .. m.file):gmatch("([^\n]*)\n") do
    n = n + 1
    if line:find("^[%w_{]") then head = line end
    if n == m.line then break end
  end
  return head and head:find(" = ", 1, true) ~= nil
end

local function names_executing(facts, m)
  local known = facts.known[m.file]
  if not known or in_data(m) then return nil end
  local at = m.line
  while at > 0 and at > m.line - 12 and not known[at] do at = at - 1 end
  if not known[at] then return nil end
  local names = {}
  for name, files in pairs(facts.executed) do
    local here_lines = files[m.file]
    if here_lines and (here_lines[at] or here_lines[m.line] or not known[m.line] and here_lines[m.line + 1]) then names[name] = true end
  end
  return names
end

-- The text of a program's own source, kept.
local texts = {}
local function text_of(source)
  texts[source] = texts[source] or read(source:sub(1, 1) == "/" and source or tree .. "/" .. source) or ""
  return texts[source]
end

-- How many of a file's mutants each program has killed, of those that it was asked: the next is asked of those first
-- that are quick for what they find.
local LINKING = 0.1 -- seconds
local asked, killed = {}, {}
local function learn(file, name, was_killed)
  local key = file .. " " .. name
  asked[key] = (asked[key] or 0) + 1
  killed[key] = (killed[key] or 0) + (was_killed and 1 or 0)
end
local function share(file, name)
  local key = file .. " " .. name
  return ((killed[key] or 0) + 1) / ((asked[key] or 0) + 2)
end

-- Judges a mutant of C. Every object whose source is the file, or that includes it in quotes, is compiled with it.
local function judge_c(m, programs, library, objects, facts, folder)
  must(("mkdir -p %s/%s %s/base"):format(folder, m.file:match("^(.*)/"), work))
  write(folder .. "/" .. m.file, operators.apply(read(tree .. "/" .. m.file), m))
  local replaced, changed = {}, false
  local name = m.file:match("[^/]*$")
  for _, o in ipairs(objects) do
    local header = m.file:find("%.h$") and o.source:find("^lib/[^/]*$") and text_of(o.source):find(name, 1, true)
    local included = o.source:find("^tests/") and text_of(o.source):find('#include "' .. m.file .. '"', 1, true)
    if o.source == m.file or header or included then
      local from, new = o.source == m.file and folder .. "/" .. m.file or o.source, ("%s/%s"):format(folder, o.name)
      if header then -- what is quoted is looked for beside the source first
        from = folder .. "/" .. o.source
        write(from, text_of(o.source))
      end
      if not sh(("cd %s && gcc %s -iquote %s -iquote %s/lib -iquote . -iquote lib -iquote %s -c %s -o %s"):format(tree, o.flags, folder, folder,
        o.source:match("^(.*)/"), from, new)) then return "not compiled" end
      if library[o.source] == o.name then
        local base = ("%s/base/%s"):format(work, o.name)
        if not read(base) then
          must(("cd %s && gcc %s -iquote . -iquote lib -c %s -o %s.%s && mv %s.%s %s"):format(tree, o.flags, o.source, base, m.id, base, m.id, base))
        end
        changed = changed or read(base) ~= read(new)
      end
      replaced[o.name] = new
    end
  end
  if not changed then return "same object" end
  local executing = names_executing(facts, m)
  local chosen = {}
  for _, program in ipairs(programs) do
    local holds, included = false, false
    for _, object in ipairs(program.objects) do
      holds = holds or replaced[object] ~= nil
      included = included or replaced[object] and object:find("^tests")
    end
    local time = facts.time[program.name]
    local fits = time and time <= tonumber(settings.most or 1000) and time > tonumber(settings.least or -1)
    if holds and fits and (not executing or executing[program.name] or included) then chosen[#chosen + 1] = program end
  end
  local function worth(program) return share(m.file, program.name) / (facts.time[program.name] + LINKING) end
  table.sort(chosen, function(a, b)
    local x, y = worth(a), worth(b)
    if x ~= y then return x > y end
    return a.name < b.name
  end)
  for _, program in ipairs(chosen) do
    local ok = link(program, folder .. "/program", replaced)
    if not ok then return "not compiled" end
    local passed, _, said = execute(program, folder .. "/program", math.ceil(10 + 8 * facts.time[program.name]))
    learn(m.file, program.name, not passed)
    if not passed then return "killed", program.name, said end
  end
  return "survived", ("%d programs"):format(#chosen)
end

-- A tree of the generator's own for each process, with links to what does not change.
local function generator_tree(folder)
  must(("mkdir -p %s && cd %s && rm -rf gen && cp -rs %s/. . && rm -rf gen && cp -r %s/gen gen"):format(folder, folder, tree, tree))
end

local function judge_lua(m, folder)
  local original = read(tree .. "/" .. m.file)
  local text = operators.apply(original, m)
  local chunk = load(text, m.file)
  if not chunk then return "not compiled" end
  if string.dump(chunk, true) == string.dump(load(original, m.file), true) then return "same object" end
  write(folder .. "/" .. m.file, text)
  local outcome, by, said = "survived", "all"
  for _, suite in ipairs(GENERATOR) do
    local ok, out = sh(("cd %s && ulimit -t 60 && exec timeout -k 1 120 lua5.4 gen/tests/run.lua %s </dev/null"):format(folder, suite))
    if not ok then
      outcome, by, said = "killed", "gen/tests/" .. suite, out
      break
    end
  end
  if outcome == "survived" then
    local ok, out = sh(("cd %s && ulimit -t 60 && exec timeout -k 1 120 sh tests/mutants/golden.sh </dev/null"):format(folder))
    if not ok then outcome, by, said = "killed", "golden", out end
  end
  write(folder .. "/" .. m.file, original)
  return outcome, by, said
end

local function known_of(m, known) return place.entry_of(known, m, read(tree .. "/" .. m.file)) end

local function described(m)
  return ("%s:%d %s: `%s` to `%s`"):format(m.file, m.line, m.operator, one_line(m.old):sub(1, 60), one_line(m.new):sub(1, 60))
end

local function worker(name, ids)
  local programs, library, objects = describe()
  local facts = restore(work .. "/facts.lua")
  local folder, known = ("%s/run/%s"):format(work, name), require("tests.mutants.known")
  local generator = folder .. "/generator"
  local mutants = restore(work .. "/run/mutants.lua")
  local out = assert(io.open(("%s/run/%s.results"):format(work, name), "w"))
  local made = false
  for _, id in ipairs(ids) do
    local m = mutants[id]
    if settings.until_ and seconds() > tonumber(settings.until_) then break end
    if os.rename(("%s/run/todo.%d"):format(work, id), ("%s/run/taken.%d"):format(work, id)) then
      local from = seconds()
      local outcome, by, said
      m.source = line_of(read(tree .. "/" .. m.file), m.line)
      if known_of(m, known) then
        outcome, by = "survived", "known.lua"
      elseif m.file:find("%.lua$") then
        if not made then generator_tree(generator) end
        made = true
        outcome, by, said = judge_lua(m, generator)
      else
        must(("rm -rf %s/c && mkdir -p %s/c"):format(folder, folder))
        outcome, by, said = judge_c(m, programs, library, objects, facts, folder .. "/c")
      end
      out:write(dump({ id = id, outcome = outcome, by = by or "", said = (said or ""):sub(-300), seconds = seconds() - from }), "\n\0\n")
      out:flush()
      io.write(("%4d %-13s %-28s %s (%.1f s)\n"):format(id, outcome, by or "", described(m), seconds() - from))
      io.flush()
    end
  end
  out:close()
end

-- ---- the whole run -----------------------------------------------------------------------------------------------

local function report(mutants, results, known)
  local counts, survivors = {}, {}
  for _, m in ipairs(mutants) do
    local r = results[m.id]
    if r then
      local stratum = m.file:match("^gen/") or m.file:match("^lib/%l+/") or "lib/"
      local c = counts[stratum] or { killed = 0, survived = 0, equivalent = 0, speed = 0, none = 0 }
      counts[stratum] = c
      m.source = line_of(read(tree .. "/" .. m.file), m.line)
      local entry = r.outcome == "survived" and (known_of(m, known) or
        by_rule.of(m, read(tree .. "/" .. m.file), read(tree .. "/lib/sentences.h")))
      if r.outcome == "killed" then
        c.killed = c.killed + 1
      elseif r.outcome == "survived" and not entry then
        c.survived = c.survived + 1
        survivors[#survivors + 1] = m
      elseif r.outcome == "survived" then
        c[entry.class] = c[entry.class] + 1
      else
        c.none = c.none + 1
      end
    end
  end
  print("\nwhere       killed  survived  equivalent  speed alone  no mutant   score")
  for _, stratum in ipairs({ "lib/", "lib/cpu/", "lib/cuda/", "gen/" }) do
    local c = counts[stratum]
    if c then
      print(("%-10s %7d %9d %11d %12d %10d %6.1f %%"):format(stratum, c.killed, c.survived, c.equivalent, c.speed, c.none,
        100 * c.killed / math.max(1, c.killed + c.survived)))
    end
  end
  print(#survivors > 0 and "\nSurvivors:" or "\nNo survivor.")
  for _, m in ipairs(survivors) do
    print(("%4d %s\n     %s"):format(m.id, described(m), m.source))
  end
  return #survivors
end

-- One mutant by hand, `FILE:LINE:OLD:NEW`.
local function by_hand(text)
  local file, number, old, new = text:match("^([^:]+):(%d+):(.-):(.*)$")
  local m = { file = file, line = tonumber(number), old = old, new = new, operator = "by hand", id = "hand" }
  local source, at = read(tree .. "/" .. file), 1
  for _ = 2, m.line do at = source:find("\n", at, true) + 1 end
  m.first, m.last = source:find(old, at, true)
  if not m.first or m.first > source:find("\n", at, true) then return print(text .. ": the line has no such text") end
  local programs, library, objects = describe()
  local folder = ("%s/hand"):format(work)
  must(("rm -rf %s && mkdir -p %s"):format(folder, folder))
  local outcome, by, said
  if file:find("%.lua$") then
    generator_tree(folder)
    outcome, by, said = judge_lua(m, folder)
  else
    outcome, by, said = judge_c(m, programs, library, objects, restore(work .. "/facts.lua"), folder)
  end
  print(outcome, by, described(m), (said or ""):sub(-200))
end

-- Runs everything without a mutant, as many at a time as mutants are judged: what fails here judges nothing.
local function verify()
  local programs = describe()
  local facts = restore(work .. "/facts.lua")
  local commands = {}
  must(("mkdir -p %s/bin && rm -f %s/bad"):format(work, work))
  for _, program in ipairs(programs) do
    local binary = ("%s/bin/%s"):format(work, program.name)
    commands[#commands + 1] = ("%s && cd %s && timeout 300 %s || echo %s >> %s/bad"):format(link_command(program, binary, {}), tree,
      run_command(program, binary), program.name, work)
  end
  for _, suite in ipairs(GENERATOR) do
    commands[#commands + 1] = ("cd %s && lua5.4 gen/tests/run.lua %s || echo gen/tests/%s >> %s/bad"):format(tree, suite, suite, work)
  end
  for i, command in ipairs(commands) do commands[i] = "{ " .. command .. "; } </dev/null >/dev/null 2>&1" end
  write(work .. "/commands", table.concat(commands, "\n") .. "\n")
  os.execute(("tr '\\n' '\\0' <%s/commands | xargs -0 -P %s -I'{}' sh -c '{}'"):format(work, settings.jobs))
  for _, name in ipairs(lines(read(work .. "/bad") or "")) do
    print("fails without a mutant, and judges none: " .. name)
    facts.time[name] = nil
    if name:find("^gen/") then facts.bad = (facts.bad or "") .. name .. " " end
  end
  write(work .. "/facts.lua", dump(facts))
end

local function main()
  if settings.worker then
    local ids = {}
    for id in read(work .. "/run/order"):gmatch("%d+") do ids[#ids + 1] = tonumber(id) end
    return worker(settings.worker, ids)
  end
  if not settings.prepared then prepare() end
  if settings.verify then verify() end
  if settings.prepare then return end
  if settings.hand then return by_hand(settings.hand) end
  local mutants = draw(tonumber(settings.seed), tonumber(settings.count))
  if settings.show then
    local m = mutants[tonumber(settings.show)]
    print(described(m))
    local text = read(tree .. "/" .. m.file)
    write(work .. "/shown", operators.apply(text, m))
    print(select(2, sh(("diff -u %s/%s %s/shown"):format(tree, m.file, work))))
    return
  end
  must(("rm -rf %s/run && mkdir -p %s/run"):format(work, work))
  local chosen = {}
  for id in (settings.ids or ""):gmatch("%d+") do chosen[#chosen + 1] = tonumber(id) end
  if not settings.ids then
    for id in ipairs(mutants) do chosen[#chosen + 1] = id end
  end
  -- In an order that a run cut short says something by.
  math.randomseed(tonumber(settings.seed))
  for i = #chosen, 2, -1 do
    local j = math.random(i)
    chosen[i], chosen[j] = chosen[j], chosen[i]
  end
  write(work .. "/run/mutants.lua", dump(mutants))
  write(work .. "/run/order", table.concat(chosen, "\n"))
  local more = settings.only and "--only '" .. settings.only .. "'" or ""
  if settings.seconds then more = more .. (" --until_ %f"):format(seconds() + tonumber(settings.seconds)) end
  if settings.most then more = more .. " --most " .. settings.most end
  if settings.least then more = more .. " --least " .. settings.least end
  for _, id in ipairs(chosen) do write(("%s/run/todo.%d"):format(work, id), "") end
  local commands = {}
  for job = 1, tonumber(settings.jobs) do
    commands[job] = ("lua5.4 %s/tests/mutants/mutants.lua --work %s --seed %s %s --worker w%d &"):format(here, work, settings.seed, more, job)
  end
  os.execute(table.concat(commands, "\n") .. "\nwait")
  local results = {}
  for job = 1, tonumber(settings.jobs) do
    for part in ((read(("%s/run/w%d.results"):format(work, job)) or "")):gmatch("(.-)\n%z\n") do
      local r = load("return " .. part)()
      results[r.id] = r
    end
  end
  write(("%s/results.%s.lua"):format(work, settings.seed), dump(results))
  report(mutants, results, require("tests.mutants.known"))
end

main()
