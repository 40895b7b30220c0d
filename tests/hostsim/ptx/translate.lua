-- nvcc's PTX of a kernel as C++ for the simulator, in place of the kernel's source.
--
--   lua5.4 tests/hostsim/ptx/translate.lua FILE.ptx OUT.cc SYMBOL...       an image of all kernels for each symbol, as a table row names them
--   lua5.4 tests/hostsim/ptx/translate.lua FILE.ptx OUT.cc                 the kernels by their own names, for micro-tests
--   lua5.4 tests/hostsim/ptx/translate.lua --faults=SEED:COUNT FILE.ptx OUT.cc ...      with faults, of which a run has the one that HOSTSIM_FAULT names
--   lua5.4 tests/hostsim/ptx/translate.lua --count FILE.ptx...             how often each instruction occurs
--
-- Run from the root. One CUDA thread's program: registers are variables, branches are gotos, an instruction is an
-- expression or a call of ptx.h or of the engine. What is not known, an instruction, a modifier of one, a type, ends
-- the translation with the PTX's line: nothing is guessed.
package.path = "./?.lua"

local parse = require("tests.hostsim.ptx.parse").parse
local Kernel = require("tests.hostsim.ptx.kernel")
local arithmetic = require("tests.hostsim.ptx.arithmetic")
local draw_faults = require("tests.hostsim.ptx.faults").draw

-- The classes of instructions, each a table by full names.
local emitters = {}
for name in pairs(arithmetic.rows) do emitters[name] = arithmetic.emit end
emitters.nothing = function() end -- in the place of an instruction that a fault takes away
for _, class in ipairs { "memory", "threads", "asynchronous" } do
  for name, emit in pairs(require("tests.hostsim.ptx." .. class).emitters) do emitters[name] = emit end
end

---- registers of products ---------------------------------------------------------------------------------------------------------

--- Products of warpgroups write and read their registers later, so those lie in memory: each list of a product is an
--- array, whose elements are the registers. Answers the registers' elements by name, and the arrays' declarations.
local function arrays_of(items)
  local members, arrays, known = {}, {}, {}
  for _, item in ipairs(items) do
    if item.kind == "instruction" and item.op:find("^wgmma%.mma_async") then
      for n = 1, 2 do
        local list = item.operands[n]
        local names = {}
        for _, each in ipairs(list.kind == "list" and list or {}) do names[#names + 1] = each.name end
        local key = table.concat(names, " ")
        if #names > 0 and not known[key] then
          known[key] = true
          arrays[#arrays + 1] = ("%s wg%d[%d];"):format(n == 1 and "float" or "uint32_t", #arrays + 1, #names)
          for j, name in ipairs(names) do
            if members[name] then error(("line %d: %s is in two lists of registers of products"):format(item.line, name), 0) end
            members[name] = { c = ("wg%d[%d]"):format(#arrays, j - 1), array = #arrays }
          end
        end
      end
    end
  end
  return members, arrays
end

--- Calls f with the name of each operand within an operand.
local function each_name(operand, f)
  if operand.kind == "name" or operand.kind == "not" then return f(operand.name) end
  if operand.base then each_name(operand.base, f) end
  if operand.coordinates then each_name(operand.coordinates, f) end
  for _, inner in ipairs(operand) do each_name(inner, f) end
end

--- Before an instruction that uses registers of a product: is the product done? Once in a block of instructions is
--- enough, as only products and waits change the answer.
local function hold(kernel, item, held)
  if item.op:find("^wgmma%.") then
    for array in pairs(held) do held[array] = nil end
    return
  end
  for _, operand in ipairs(item.operands) do
    each_name(operand, function(name)
      local register = kernel:register(name)
      if register and register.array and not held[register.array] then
        held[register.array] = true
        kernel:out("sim::wgmma_hold(wg%d, sizeof wg%d / 4, %s);", register.array, register.array, kernel:site())
      end
    end)
  end
end

---- a kernel ----------------------------------------------------------------------------------------------------------------------

--- The labels of the scope that begins at an index.
local function labels_of(items, index)
  local labels, depth = {}, 0
  for n = index, #items do
    local kind = items[n].kind
    if kind == "open" then depth = depth + 1 end
    if kind == "close" then depth = depth - 1 end
    if depth < 0 then break end
    if kind == "label" and depth == 0 then labels[items[n].name] = true end
  end
  return labels
end

--- Is the instruction a loop about itself, left when `condition` is true? It is when its label is ahead of it and the
-- branch to that behind it.
function Kernel:loops_until(condition)
  local before, branch = self.parsed.items[self.index - 1], self.parsed.items[self.index + 1]
  return before and before.kind == "label" and branch and branch.op == "bra" and branch.predicate and branch.negated and
    branch.predicate.name == condition.name and branch.operands[1].name == before.name
end

--- A block of instructions begins: whether it is reached can be told (ptx.h).
local function begin_block(kernel, item, blocks)
  blocks[#blocks + 1] = { kernel = kernel.parsed.name, place = kernel.places(item.place), first = item.line, last = item.line, instructions = 0 }
  kernel:out("reached[%d] = 1;", #blocks - 1)
end

--- One instruction, under its predicate.
local function emit(kernel, item)
  local emitter = emitters[item.op] or kernel:fail("this instruction is not known; a row for it in tests/hostsim/ptx, and a test, would be right")
  if item.predicate then kernel:out("if (%s%s) {", item.negated and "!" or "", kernel:value(item.predicate, "pred")) end
  emitter(kernel, item)
  if item.predicate then kernel:out("}") end
end

--- An instruction in whose place a run may have another.
local function emit_faulty(kernel, item, faults)
  for _, fault in ipairs(faults) do
    kernel:out("if (ptx::has_fault(%d)) {", fault.number)
    kernel.item = fault.item
    emit(kernel, fault.item)
    kernel.item = item
    kernel:out("} else")
  end
  kernel:out("{")
  emit(kernel, item)
  kernel:out("}")
end

local function write(kernel, blocks, faults)
  local items = kernel.parsed.items
  local arrays
  kernel.members, arrays = arrays_of(items)
  kernel:scope().labels = labels_of(items, 1)
  local begins, held = true, {}
  for index, item in ipairs(items) do
    kernel.index = index
    if item.kind == "open" then
      kernel:open(labels_of(items, index + 1))
    elseif item.kind == "close" then
      kernel:close()
    elseif item.kind == "registers" then
      kernel:declare(item)
    elseif item.kind == "label" then
      kernel.item = nil
      kernel:out("%s:;", kernel:label(item.name))
      begins = true
    else
      kernel.item = item
      if begins then
        begin_block(kernel, item, blocks)
        begins, held = false, {}
      end
      local block = blocks[#blocks]
      block.last, block.instructions = item.line, block.instructions + 1
      if arrays[1] then hold(kernel, item, held) end
      if faults[item] then
        emit_faulty(kernel, item, faults[item])
      else
        emit(kernel, item)
      end
      if item.words[1] == "bra" or item.words[1] == "ret" or item.words[1] == "exit" then begins = true end
    end
  end
  return arrays
end

---- a file ------------------------------------------------------------------------------------------------------------------------

--- Numbers for texts, from 0, in the order of their first use.
local function numbered()
  local list, numbers = {}, {}
  return list, function(text)
    if not numbers[text] then
      list[#list + 1] = text
      numbers[text] = #list - 1
    end
    return numbers[text]
  end
end

local CLASSES = { "pred", "b16", "b32", "b64", "f32" }

local function translate(text, name, symbols, seed, count)
  local file = parse(text)
  local faults, faults_of = draw_faults(file.kernels, seed, count)
  local places, place = numbered()
  local lines, entries, blocks = {}, {}, {}
  for n, parsed in ipairs(file.kernels) do
    local kernel = Kernel.new(parsed, file.shared, place)
    local arrays = write(kernel, blocks, faults_of)
    lines[#lines + 1] = ("static void kernel_%d(const void *parameters)\n{"):format(n)
    lines[#lines + 1] = "const unsigned char *const P = (const unsigned char *)parameters; (void)P;"
    table.move(arrays, 1, #arrays, #lines + 1, lines)
    for _, class in ipairs(CLASSES) do
      if kernel.variables[class] then lines[#lines + 1] = ("%s %s;"):format(Kernel.C[class], table.concat(kernel.variables[class], ", ")) end
    end
    table.move(kernel.lines, 1, #kernel.lines, #lines + 1, lines)
    lines[#lines + 1] = "}\n"
    entries[n] = ('{"%s", kernel_%d, %d}'):format(parsed.name, n, parsed.bytes)
  end
  local out = { '#include "tests/hostsim/ptx/ptx.h"\n', "static const char *const places[] = {" }
  for _, each in ipairs(places) do out[#out + 1] = ('"%s, %s",'):format(each, name) end
  out[#out + 1] = ("};\nstatic unsigned char reached[%d];\nstatic const ptx::Stretch stretches[] = {"):format(math.max(#blocks, 1))
  for _, block in ipairs(blocks) do
    out[#out + 1] = ('{"%s", places[%d], %d, %d, %d},'):format(block.kernel, block.place, block.first, block.last, block.instructions)
  end
  out[#out + 1] = "};\nstatic const ptx::Reach reach(stretches, reached, sizeof stretches / sizeof stretches[0]);"
  if #faults > 0 then
    out[#out + 1] = "static const ptx::Fault faults[] = {"
    for _, fault in ipairs(faults) do out[#out + 1] = ('{"%s", "%s, %s", %d},'):format(fault.text, fault.place, name, fault.line) end
    out[#out + 1] = "};\nstatic const ptx::Faults all_faults(faults, sizeof faults / sizeof faults[0]);"
  end
  out[#out + 1] = "#define AT(place, line) (::sim::Site{places[place], line})\n"
  table.move(lines, 1, #lines, #out + 1, out)
  for _, symbol in ipairs(symbols) do
    out[#out + 1] = ("extern \"C\" {\nextern const ::sim::Image %s;\nalignas(64) const ::sim::Image %s = {::sim::IMAGE_MAGIC, {%s}};\n}"):format(symbol, symbol,
      table.concat(entries, ", "))
  end
  if #symbols == 0 then
    for n, parsed in ipairs(file.kernels) do
      out[#out + 1] = ("PTX_EXPORT(%s, kernel_%d, %d, %d)"):format(parsed.name, n, parsed.bytes, parsed.alignment or 1)
    end
  end
  return table.concat(out, "\n") .. "\n"
end

---- the program -------------------------------------------------------------------------------------------------------------------

local function read(name)
  local file <close> = assert(io.open(name))
  return file:read("a")
end

local function base(name) return name:match("[^/]*$") end

local function count(names)
  local counts, all = {}, 0
  for _, name in ipairs(names) do
    for _, kernel in ipairs(parse(read(name)).kernels) do
      for _, item in ipairs(kernel.items) do
        if item.kind == "instruction" then counts[item.op], all = (counts[item.op] or 0) + 1, all + 1 end
      end
    end
  end
  local sorted, unknown = {}, 0
  for op in pairs(counts) do sorted[#sorted + 1] = op end
  table.sort(sorted, function(a, b) return counts[a] > counts[b] or (counts[a] == counts[b] and a < b) end)
  for _, op in ipairs(sorted) do
    if not emitters[op] then unknown = unknown + 1 end
    print(("%9d  %s%s"):format(counts[op], op, emitters[op] and "" or "   not known"))
  end
  print(("%9d  instructions of %d kinds in %d files, %d kinds not known"):format(all, #sorted, #names, unknown))
  return unknown == 0
end

if arg[1] == "--count" then os.exit(count(table.pack(table.unpack(arg, 2))), true) end
local seed, number_of_faults = (arg[1] or ""):match("^%-%-faults=(%d+):(%d+)$")
if seed then table.remove(arg, 1) end
if #arg < 2 or arg[1]:find("^%-") then
  io.stderr:write("usage: translate.lua [--faults=SEED:COUNT] FILE.ptx OUT.cc [SYMBOL...] | --count FILE.ptx...\n")
  os.exit(2, true)
end
local right, text = pcall(translate, read(arg[1]), base(arg[1]), table.pack(table.unpack(arg, 3)), tonumber(seed or 0), tonumber(number_of_faults or 0))
if not right then
  io.stderr:write(("%s: %s\n"):format(base(arg[1]), text))
  os.exit(1, true)
end
local out <close> = assert(io.open(arg[2], "w"))
assert(out:write(text))
