-- Reads a PTX text, as nvcc writes it, into kernels that are lists of items. What is not understood raises an error
-- with its line.
--
--   parse(text) -> { target = "sm_90a", shared = { NAME = true }, kernels = { KERNEL... } }
--   KERNEL: { name, parameter, bytes, alignment, items = { ITEM... }, line }
--   ITEM:   { kind = "instruction", op, words, operands, predicate, negated, line, place } { kind = "label", name },
--           { kind = "open" }, { kind = "close" }, { kind = "registers", type, name, count }
--   OPERAND: { kind = "name", name }, { kind = "not", name }, { kind = "number", value }, { kind = "float", bits },
--   { kind = "list", OPERAND... },
--            { kind = "address", base = OPERAND, offset, coordinates = OPERAND or nil }, { kind = "pair", OPERAND,
--            OPERAND }
--
-- `place` says where in the kernel's source an instruction comes from.
local M = {}

local function fail(line, format, ...)
  error(("line %d: %s"):format(line, format:format(...)), 0)
end

---- places ------------------------------------------------------------------------------------------------------------------------

-- The lines before a kernel's first .loc that has a line number come from nowhere in particular.
local NOWHERE = "?"

-- The places that one PTX file names. nvcc writes a link of a chain of inlined calls once, so links are kept by place.
local Places = {}
Places.__index = Places

function Places.new() return setmetatable({ files = {}, parents = {}, current = NOWHERE }, Places) end

-- A chain is told by its innermost place that is neither a primitive's text nor CUDA's own header, and by its outermost
-- place.
function Places:tell(place)
  local inner, outer
  local seen = {}
  while place and not seen[place] do
    seen[place] = true
    local file, line = place:match("^(%d+) (%d+)")
    outer = ("%s:%s"):format(self.files[file] or "?", line)
    if not inner and line ~= "0" and not outer:find("_impl%.h:") and not outer:find("%.hpp:") then inner = outer end
    place = self.parents[place]
  end
  if not inner or inner == outer then return outer end
  return inner .. " in " .. outer
end

--- Takes a line that only says where the next instructions come from, and answers whether it was one.
function Places:take(line)
  local number, name = line:match('^%s*%.file%s+(%d+)%s+"([^"]*)"')
  if number then
    self.files[number] = name:match("[^/]*$") -- the folder must not reach the output
    return true
  end
  local file, row, column, rest = line:match("^%s*%.loc%s+(%d+)%s+(%d+)%s+(%d+)(.*)")
  if not file then return false end
  local place = ("%s %s %s"):format(file, row, column)
  local inlined = rest:match("inlined_at%s+(%d+%s+%d+%s+%d+)")
  self.parents[place] = inlined and inlined:gsub("%s+", " ")
  if row ~= "0" then self.pending = place end
  return true
end

function Places:now()
  if self.pending then
    self.current, self.pending = self:tell(self.pending), nil
  end
  return self.current
end

-- Pragmas that change no result: loops that ptxas need not unroll, and which bytes of a load somebody uses.
local HINTS = { nounroll = true, used_bytes_mask = true }

---- tokens ------------------------------------------------------------------------------------------------------------------------

--- The tokens of a text: { text, line, place }. Debugging sections, which come last, are no part of it.
local function tokens(text)
  local places, list, number = Places.new(), {}, 0
  for name_number, name in text:gmatch('\n%s*%.file%s+(%d+)%s+"([^"]*)"') do places.files[name_number] = name:match("[^/]*$") end
  for line in (text:sub(-1) == "\n" and text or text .. "\n"):gmatch("(.-)\n") do
    number = number + 1
    if line:find("^%s*%.section") then break end
    local pragma = line:match('^%s*%.pragma%s+"([%w_]+)')
    if pragma and not HINTS[pragma] then fail(number, "the pragma %s", pragma) end
    if not pragma and not places:take(line) then
      local at = line:find("%S")
      while at do
        if line:sub(at, at + 1) == "//" then break end
        local from, to = line:find("^[%w_$%%.]+", at)
        if from then
          while line:find("^::[%w_]", to + 1) do to = select(2, line:find("^::[%w_.]+", to + 1)) end
        else
          from, to = line:find("^[{}%[%]%(%),;:+|!@<>-]", at)
        end
        if not from then fail(number, "the character %q", line:sub(at, at)) end
        list[#list + 1] = { text = line:sub(from, to), line = number, place = places:now() }
        at = line:find("%S", to + 1)
      end
    end
  end
  return list, number
end

---- statements --------------------------------------------------------------------------------------------------------------------

local Reader = {}
Reader.__index = Reader

function Reader:peek(ahead)
  local token = self.tokens[self.at + (ahead or 0)]
  return token and token.text
end

function Reader:line()
  local token = self.tokens[self.at]
  return token and token.line or self.lines
end

function Reader:next()
  local text = self:peek()
  if not text then fail(self.lines, "the text ends too early") end
  self.at = self.at + 1
  return text
end

function Reader:accept(text)
  if self:peek() ~= text then return false end
  self.at = self.at + 1
  return true
end

function Reader:expect(text)
  if not self:accept(text) then fail(self:line(), "%q where %q should be", self:peek() or "the end", text) end
end

function Reader:integer()
  local negative = self:accept("-")
  local line, word = self:line(), self:next()
  local value = math.tointeger(tonumber((word:gsub("U$", ""))))
  if not value then fail(line, "%q where a number should be", word) end
  return negative and -value or value
end

local operand

local function list_of(reader, stop)
  local list = { kind = "list" }
  while not reader:accept(stop) do
    if #list > 0 then reader:expect(",") end
    list[#list + 1] = operand(reader)
  end
  return list
end

local function atom(reader)
  local word = reader:peek()
  if word == "-" or word:find("^%d") then
    local bits = word:match("^0[fF](%x%x%x%x%x%x%x%x)$")
    if bits then
      reader:next()
      return { kind = "float", bits = tonumber(bits, 16) }
    end
    if word:find("^0[dD]%x") then fail(reader:line(), "%s: a number of 64 bits", word) end
    return { kind = "number", value = reader:integer() }
  end
  if not word:find("^[%a_$%%]") then fail(reader:line(), "%q where an operand should be", word) end
  return { kind = "name", name = reader:next() }
end

function operand(reader)
  if reader:accept("{") then return list_of(reader, "}") end
  if reader:accept("!") then return { kind = "not", name = reader:next() } end
  if reader:accept("[") then
    local address = { kind = "address", base = atom(reader), offset = 0 }
    if reader:accept("+") then address.offset = reader:integer() end
    if reader:accept(",") then address.coordinates = operand(reader) end
    reader:expect("]")
    return address
  end
  local first = atom(reader)
  if reader:accept("|") then return { kind = "pair", first, atom(reader) } end
  return first
end

local function instruction(reader)
  local token = reader.tokens[reader.at]
  local item = { kind = "instruction", operands = {}, line = token.line, place = token.place }
  if reader:accept("@") then
    item.negated = reader:accept("!")
    item.predicate = { kind = "name", name = reader:next() }
  end
  item.op = reader:next()
  item.words = {}
  for word in item.op:gmatch("[^.]+") do item.words[#item.words + 1] = word end
  while not reader:accept(";") do
    if #item.operands > 0 then reader:expect(",") end
    item.operands[#item.operands + 1] = operand(reader)
  end
  return item
end

local function registers(reader, items)
  reader:expect(".reg")
  local type = reader:next():match("^%.(%w+)$")
  repeat
    local line, name = reader:line(), reader:next()
    local count
    if reader:accept("<") then
      count = reader:integer()
      reader:expect(">")
    end
    items[#items + 1] = { kind = "registers", type = type, name = name, count = count, line = line }
  until not reader:accept(",")
  reader:expect(";")
end

local function body(reader)
  local items, depth = {}, 1
  reader:expect("{")
  while depth > 0 do
    local word, line = reader:peek(), reader:line()
    if word == "{" then
      reader:next()
      depth = depth + 1
      items[#items + 1] = { kind = "open", line = line }
    elseif word == "}" then
      reader:next()
      depth = depth - 1
      if depth > 0 then items[#items + 1] = { kind = "close", line = line } end
    elseif word == ";" then
      reader:next()
    elseif word == ".reg" then
      registers(reader, items)
    elseif word and reader:peek(1) == ":" then
      items[#items + 1] = { kind = "label", name = reader:next(), line = line }
      reader:expect(":")
    elseif word and (word == "@" or word:find("^%a")) then
      items[#items + 1] = instruction(reader)
    else
      fail(line, "%s: not known within a kernel", word or "the end")
    end
  end
  return items
end

local function kernel(reader)
  local made = { line = reader:line() }
  reader:expect(".entry")
  made.name = reader:next()
  reader:expect("(")
  reader:expect(".param")
  if reader:accept(".align") then made.alignment = reader:integer() end
  reader:expect(".b8")
  made.parameter = reader:next()
  reader:expect("[")
  made.bytes = reader:integer()
  reader:expect("]")
  reader:expect(")")
  while reader:peek() ~= "{" do -- .maxntid 128, 1, 1
    local line, word = reader:line(), reader:next()
    if word ~= ".maxntid" and word ~= ".minnctapersm" and word ~= ".reqntid" and word ~= ".explicitcluster" and word ~= ".reqnctapercluster" and
      word ~= ".maxclusterrank" and word ~= "," and not word:find("^%d+$") then
      fail(line, "%s: not known before a kernel's body", word)
    end
  end
  made.items = body(reader)
  return made
end

local function shared(reader, names)
  reader:expect(".extern")
  reader:expect(".shared")
  if reader:accept(".align") then reader:integer() end
  reader:expect(".b8")
  names[reader:next()] = true
  reader:expect("[")
  reader:expect("]")
  reader:expect(";")
end

function M.parse(text)
  local list, lines = tokens(text)
  local reader = setmetatable({ tokens = list, at = 1, lines = lines }, Reader)
  local file = { shared = {}, kernels = {} }
  while reader:peek() do
    local word, line = reader:next(), reader:line()
    if word == ".version" or word == ".address_size" then
      reader:next()
    elseif word == ".target" then
      file.target = reader:next()
    elseif word == ".visible" or word == ".weak" then
      file.kernels[#file.kernels + 1] = kernel(reader)
    elseif word == ".extern" then
      reader.at = reader.at - 1
      shared(reader, file.shared)
    else
      fail(line, "%s: not known outside of a kernel", word)
    end
  end
  return file
end

--- Where each line of a PTX text comes from: [line] = "FILE:LINE in FILE:LINE in ...", all inlined calls of its source
-- from the innermost to the kernel.
function M.chains(text)
  local places, chains, number, current = Places.new(), {}, 0, nil
  for name_number, name in text:gmatch('\n%s*%.file%s+(%d+)%s+"([^"]*)"') do places.files[name_number] = name:match("[^/]*$") end
  for line in text:gmatch("(.-)\n") do
    number = number + 1
    places.pending = nil
    places:take(line)
    local place, seen, told = places.pending, {}, {}
    while place and not seen[place] do
      seen[place] = true
      local file, row = place:match("^(%d+) (%d+)")
      told[#told + 1] = ("%s:%s"):format(places.files[file] or "?", row)
      place = places.parents[place]
    end
    if #told > 0 then current = table.concat(told, " in ") end
    chains[number] = current
  end
  return chains
end

return M
