-- The texts of primitives: what nvcc compiles under each name, so that a recording can say which text it is of.
--
--   lua5.4 texts.lua ROOT GROUP     prints "# text NAME DIGEST" for each function of lib/device/ that GROUP.cu uses: record.sh
--
-- gcc's preprocessor expands includes, macros and #if as nvcc does for the architecture of the group. The digest of a function is of its tokens.
-- In them its own name is left out, its parameters are numbered, and the name of a function of lib/device/ that it calls stands for that
-- function's digest. So it changes with every word of the function and of what it calls. Comments, white space, the split of a string into
-- pieces, the file that a function lies in, its name and those of its parameters change nothing.
local texts = {}

-- The architecture that a group is recorded for, as record.sh compiles it.
function texts.arch(group)
  return group == "before90" and 800 or 900
end

-- f, which remembers what it gave: most of what is read is the same in every group, and in every copy that texts_test makes.
local function once(f)
  local known = {}
  return function(text)
    local value = known[text]
    if value == nil then
      value = f(text)
      known[text] = value
    end
    return value
  end
end

-- The words of a line. White space in a string counts as one blank, as it does in PTX.
local words_of = once(function(line)
  local words, at = {}, 1
  while at <= #line do
    local _, last, word = line:find("^%s*([%a_][%w_]*)", at)
    if not word then _, last, word = line:find("^%s*([%d.][%w_.]*)", at) end
    if not word and line:find('^%s*"', at) then
      local from = line:find('"', at, true)
      last = from + 1
      while line:sub(last, last) ~= '"' do last = last + (line:sub(last, last) == "\\" and 2 or 1) end
      word = line:sub(from, last):gsub("\\[nt]", " "):gsub("%s+", " ")
    elseif not word then
      _, last, word = line:find("^%s*(%S)", at)
    end
    if not last then break end
    words[#words + 1] = word
    at = last + 1
  end
  return words
end)

-- Tokens of preprocessed text, each with the file that it comes from: { text, file }. Strings side by side are one.
local function tokens_of(text)
  local tokens, file = {}, ""
  for line in text:gmatch("[^\n]+") do
    local marker = line:match('^# %d+ "([^"]*)"')
    file = marker or file
    for _, word in ipairs(marker and {} or words_of(line)) do
      local before = tokens[#tokens]
      if before and before.text:sub(1, 1) == '"' and word:sub(1, 1) == '"' then
        before.text = (before.text:sub(1, -2) .. word:sub(2)):gsub("%s+", " ")
      else
        tokens[#tokens + 1] = { text = word, file = file }
      end
    end
  end
  return tokens
end

-- The name that a function's head declares, which is the identifier before the first parenthesis that is not an attribute's; and the place of
-- each of its parameters, by name: the last identifier before a comma, a bracket or the end.
local function declaration(head)
  local name, place, count, depth = nil, {}, 0, 0
  for i = 2, #head do
    local before, token = head[i - 1].text, head[i].text
    if not name then
      if token == "(" and before:find("^[%a_]") and not before:find("^__") then name, depth = before, 1 end
    else
      if depth == 1 and token:find("^[,%[)]$") and before:find("^[%a_]") and not place[before] then
        count = count + 1
        place[before] = "$" .. count
      end
      depth = depth + (token == "(" and 1 or token == ")" and -1 or 0)
    end
  end
  return name, place
end

-- Functions for the device that the tokens define, in order: { name, place (of parameters), file, tokens }.
local function functions_of(tokens)
  local functions, head, depth, body = {}, {}, 0, nil
  for _, token in ipairs(tokens) do
    if body then body[#body + 1] = token end
    if token.text == "{" then
      if depth == 0 then
        local device = false
        for _, word in ipairs(head) do device = device or word.text == "__device__" end
        local name, place = declaration(head)
        if device and name then
          body = table.move(head, 1, #head, 1, {})
          body[#body + 1] = token
          functions[#functions + 1] = { name = name, place = place, file = head[1].file, tokens = body }
        end
      end
      depth = depth + 1
    elseif token.text == "}" then
      depth = depth - 1
      if depth == 0 then head, body = {}, nil end
    elseif token.text == ";" and depth == 0 then
      head = {}
    elseif depth == 0 then
      head[#head + 1] = token
    end
  end
  assert(depth == 0, "braces do not match")
  return functions
end

-- FNV-1a, 64 bits.
local hash = once(function(text)
  local value = 0xcbf29ce484222325
  for i = 1, #text do value = (value ~ text:byte(i)) * 0x100000001b3 end
  return ("%016x"):format(value)
end)

--- What a file shows of lib/device: `file` where each function lies, by name; `used` by the file's own text; `digest(name)`.
--    root    the repository's, or a copy's: a folder with lib/device/
--    source  path of the file, from the root
--    arch    the value of __CUDA_ARCH__
function texts.read(root, source, arch)
  local command = ("cd '%s' && gcc -E -x c++ -std=c++17 -D__CUDACC__ -D__CUDA_ARCH__=%d -I. -Ilib/device/ptx '%s'"):format(root, arch, source)
  local pipe <close> = assert(io.popen(command))
  local tokens = tokens_of(pipe:read("a"))
  assert(pipe:close(), source .. " cannot be preprocessed")

  local of, known, seen = {}, {}, { file = {}, used = {} }
  for _, f in ipairs(functions_of(tokens)) do
    local file = f.file:match("lib/device/.*")
    if file then
      of[f.name] = of[f.name] or {}
      table.insert(of[f.name], f)
      seen.file[f.name] = file
    end
  end
  for _, token in ipairs(tokens) do
    if of[token.text] and not token.file:find("lib/device/", 1, true) then seen.used[token.text] = true end
  end
  function seen.digest(name)
    if known[name] then return known[name] end
    local words = {}
    for _, f in ipairs(of[name]) do -- overloads
      for _, token in ipairs(f.tokens) do
        local word = token.text
        words[#words + 1] = word == name and "@" or f.place[word] or of[word] and "@" .. seen.digest(word) or word
      end
    end
    known[name] = hash(table.concat(words, "\n"))
    return known[name]
  end
  return seen
end

--- Names of a table, sorted.
function texts.sorted(map)
  local names = {}
  for name in pairs(map) do names[#names + 1] = name end
  table.sort(names)
  return names
end

--- The texts that a golden file is of: digests by name.
function texts.recorded(path)
  local recorded = {}
  for line in io.lines(path) do
    local name, digest = line:match("^# text ([%w_]+) (%x+)$")
    if name then recorded[name] = digest end
  end
  return recorded
end

local GROUPS = { "before90", "hopper", "sm80", "tensor", "wgmma" }
local MICRO = "tests/hostsim/micro/"

--- Every primitive that a micro-kernel can reach, by name: { file, users (names of groups), unused, unrecorded }. The texts of a name differ by
--- architecture: each has to be used by a group that is recorded for it, and to be the text of a recording for it. Otherwise `unused` or
--- `unrecorded` is that architecture.
--    root    a folder with lib/device/ and tests/hostsim/micro/
function texts.primitives(root)
  local found, by_arch = {}, {}
  for _, group in ipairs(GROUPS) do
    local arch = texts.arch(group)
    by_arch[arch] = by_arch[arch] or { where = {}, used = {}, recorded = {} }
    local seen, of = texts.read(root, MICRO .. group .. ".cu", arch), by_arch[arch]
    for name, file in pairs(seen.file) do
      of.where[name] = seen
      found[name] = found[name] or { file = file, users = {} }
    end
    for name in pairs(seen.used) do
      of.used[name] = true
      table.insert(found[name].users, group)
    end
    for name, digest in pairs(texts.recorded(root .. "/" .. MICRO .. "golden/" .. group .. ".txt")) do of.recorded[name .. digest] = true end
  end
  for arch, of in pairs(by_arch) do
    for name, seen in pairs(of.where) do
      if not of.used[name] then
        found[name].unused = arch
      elseif not of.recorded[name .. seen.digest(name)] then
        found[name].unrecorded = arch
      end
    end
  end
  return found
end

if arg and arg[0] and arg[0]:find("texts%.lua$") then
  local root, group = arg[1], arg[2]
  local seen = texts.read(root, MICRO .. group .. ".cu", texts.arch(group))
  for _, name in ipairs(texts.sorted(seen.used)) do print("# text " .. name .. " " .. seen.digest(name)) end
end
return texts
