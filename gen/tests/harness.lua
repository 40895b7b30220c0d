-- What the tests of the generator share: cases by name, a count, temporary files and folders, which are removed. A run
-- without a single case fails, and so does a case that checks nothing.
local harness = { ran = 0, failed = 0, checks = 0, root = "." }

local temporary, folders = {}, {}

-- Every message that the cases look into, by suite. finish() compares them with gen/tests/texts: a word that changes is
-- seen in review. Messages about the library's own spec, which changes more often, are left out, and so are kernels.
local texts, suite = {}, nil
local LONGEST_TEXT, MOST_TEXTS = 3000, 200

local function keep(text)
  text = tostring(text):gsub("/tmp/lua_%w+", "FILE"):gsub("lua_%w%w%w%w%w%w%.lua", "FILE.lua")
  local list = texts[suite]
  if list and #list < MOST_TEXTS and #text < LONGEST_TEXT and not list[text] and not text:find("attention.lua:", 1, true) then
    list[#list + 1], list[text] = text, true
  end
end

--- The cases from here on are of this suite. What `drawn` asks is drawn anew in each run.
function harness.suite(name)
  suite = name
  if name ~= "drawn" then texts[name] = {} end
end

--- Runs one case; prints its result.
function harness.case(name, body)
  harness.ran = harness.ran + 1
  local before = harness.checks
  local ok, why = xpcall(body, debug.traceback)
  if ok and harness.checks == before then ok, why = false, "the case checked nothing" end
  if not ok then harness.failed = harness.failed + 1 end
  print((ok and "ok      " or "FAILED  ") .. name)
  if not ok then print((tostring(why):gsub("[^\n]+", "        %0"))) end
end

--- The same when `condition` holds; otherwise says that it was left out.
function harness.case_if(condition, needs, name, body)
  if condition then return harness.case(name, body) end
  print(("skipped %s: %s"):format(name, needs))
end

function harness.is(have, want, what)
  harness.checks = harness.checks + 1
  if have ~= want then
    error(("%s\n  have: %s\n  want: %s"):format(what or "differs", tostring(have), tostring(want)), 2)
  end
end

function harness.yes(condition, what)
  harness.checks = harness.checks + 1
  if not condition then error(what or "not so", 2) end
end

--- `words` are plain strings that must all be in `have`.
function harness.has(have, ...)
  keep(have)
  for _, word in ipairs({ ... }) do
    harness.checks = harness.checks + 1
    if not tostring(have):find(word, 1, true) then
      error(("does not say %q\n  have: %s"):format(word, tostring(have)), 2)
    end
  end
end

--- A sum of a long text, as sixteen digits.
function harness.sum_of(string)
  local sum = 0xcbf29ce484222325 -- as FNV-1a, eight bytes at a time
  string = string .. ("\0"):rep(-#string % 8)
  for at = 1, #string, 8 do
    sum = (sum ~ string.unpack("<i8", string, at)) * 1099511628211
    sum = sum ~ sum >> 29
  end
  return ("%016x"):format(sum)
end

--- The path of a new temporary file, removed at the end; with `content`, written.
function harness.file(content, suffix)
  local base = os.tmpname()
  temporary[#temporary + 1] = base
  local path = base .. (suffix or ".lua")
  temporary[#temporary + 1] = path
  if content then harness.write(path, content) end
  return path
end

function harness.write(path, content)
  local file = assert(io.open(path, "wb"))
  assert(file:write(content))
  assert(file:close())
end

function harness.read(path)
  local file = io.open(path, "rb")
  if not file then return nil end
  local content = file:read("a")
  file:close()
  return content
end

local function quote(word)
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

-- The interpreter that runs the tests, so that it is found from any folder.
local function interpreter()
  local name = arg[-1] or "lua5.4"
  if name:find("/", 1, true) and name:sub(1, 1) ~= "/" then
    local pipe = assert(io.popen("pwd"))
    name = pipe:read("l") .. "/" .. name
    pipe:close()
  end
  return name
end
harness.lua = interpreter()

local function shell(command)
  local ok, _, status = os.execute(command)
  harness.yes(ok, ("%s: exit status %s"):format(command, tostring(status)))
end

--- A new folder with the generator in it and templates of its own: file name -> text. Returns its path.
function harness.tree(templates)
  local base = os.tmpname()
  os.remove(base)
  folders[#folders + 1] = base
  shell(("mkdir -p %s/gen/families %s/gen/tiles %s/gen/templates %s/spec"):format(base, base, base, base))
  shell(("cp -L %s/gen/*.lua %s/gen/"):format(quote(harness.root), base))
  shell(("cp -L %s/gen/tiles/*.lua %s/gen/tiles/"):format(quote(harness.root), base))
  shell(("cp -L %s/gen/families/*.lua %s/gen/families/"):format(quote(harness.root), base))
  for name, content in pairs(templates) do harness.write(base .. "/gen/templates/" .. name, content) end
  return base
end

--- Runs the generator as a user would: exit status, standard output, standard error.
function harness.glint(...) return harness.glint_at(harness.root, ...) end

--- The same for the generator of another folder.
function harness.glint_at(root, ...)
  local words = { quote(harness.lua), quote(root .. "/gen/glint.lua") }
  for _, word in ipairs({ ... }) do words[#words + 1] = quote(word) end
  local out, err = harness.file(nil, ".out"), harness.file(nil, ".err")
  local _, _, status = os.execute(table.concat(words, " ") .. " >" .. quote(out) .. " 2>" .. quote(err))
  return status, harness.read(out), harness.read(err)
end

-- Compares a suite's messages with what is kept, or keeps them.
local function compare(name, update)
  local path = ("%s/gen/tests/texts/%s.txt"):format(harness.root, name)
  local have = table.concat(texts[name], "\n----\n") .. "\n"
  if #texts[name] == 0 then return end
  if update then return harness.write(path, have) end
  harness.case(name .. ": messages are those of gen/tests/texts (`lua5.4 gen/tests/run.lua --update` renews them)", function()
    local line, kept = 1, (harness.read(path) or ""):gmatch("([^\n]*)\n")
    for made in have:gmatch("([^\n]*)\n") do
      harness.is(made, kept(), ("%s:%d"):format(path, line))
      line = line + 1
    end
    harness.is(kept(), nil, path .. ": one line more")
  end)
end

--- Prints the count and ends the process: 0 only when cases ran and none failed. `update` renews gen/tests/texts.
function harness.finish(update)
  local names = {}
  for name in pairs(texts) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do compare(name, update) end
  for _, path in ipairs(temporary) do os.remove(path) end
  for _, path in ipairs(folders) do os.execute("rm -rf " .. quote(path)) end
  print(("%d cases, %d checks, %d failed"):format(harness.ran, harness.checks, harness.failed))
  os.exit(harness.ran > 0 and harness.failed == 0, true)
end

return harness
