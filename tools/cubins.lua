-- One cubin of several: what ptxas makes of the same kernels when they are one file. So a driver loads a module an
-- architecture, and what kernels have in common is packed once.
--
--   lua cubins.lua OUT CUBIN...
--
-- A cubin that is not relocatable has sections of a kernel (.text.NAME, .nv.info.NAME and so on), whose bytes stay as
-- they are, and sections of all its kernels: tables of symbols and names, .debug_frame with its relocations, .nv.info
-- with facts about symbols, and a few that say how it was made. What refers to a symbol or a section by number is
-- renumbered. //tests/archive:cubins_test compares what comes out with what ptxas writes.
local cubins = {}

local HEADER, SECTION, SYMBOL = "<c16I2I2I4I8I8I8I4I2I2I2I2I2I2", "<I4I4I8I8I8I8I4I4I8I8", "<I4BBI2I8I8"
local NOBITS, INFO_LINK = 8, 0x40
local GLOBAL, SECTION_SYMBOL = 1, 3

local function name_at(names, offset) return ("z"):unpack(names, offset + 1) end

--- A cubin as tables: sections[0 ...] with name, kernel (of which kernel, or nil), data and the fields of the header;
-- symbols[0 ...] with their names; programs, its program headers; and the number of each section by its name.
function cubins.read(bytes, what)
  local ident, kind, machine, _, _, _, at, flags, _, program_size, programs, size, count, names = HEADER:unpack(bytes)
  if ident:sub(1, 4) ~= "\x7fELF" or kind ~= 2 or machine ~= 190 then error(what .. ": no cubin that is ready to run", 0) end
  local cubin = { head = bytes:sub(1, 64), flags = flags, programs = {}, sections = {}, symbols = {}, what = what }
  for i = 0, count - 1 do
    local s = {}
    s.name, s.type, s.flags, s.address, s.offset, s.size, s.link, s.info, s.align, s.entry = SECTION:unpack(bytes, at + i * size + 1)
    s.data = s.type == NOBITS and "" or bytes:sub(s.offset + 1, s.offset + s.size)
    cubin.sections[i] = s
  end
  local strings = cubin.sections[names].data
  for i = 0, count - 1 do
    local s = cubin.sections[i]
    s.name = name_at(strings, s.name)
    s.kind, s.kernel = s.name:match("^(%.[%w.]-%.)(glint_[%w_]+)$")
    s.kind = s.kind or s.name
    cubin[s.name] = i
  end
  local symbols = cubin.sections[cubin[".symtab"]]
  for i = 0, symbols.size // 24 - 1 do
    local y = {}
    y.name, y.info, y.other, y.section, y.value, y.size = SYMBOL:unpack(symbols.data, 24 * i + 1)
    y.name = name_at(cubin.sections[symbols.link].data, y.name)
    cubin.symbols[i] = y
  end
  local _, _, _, _, _, programs_at = HEADER:unpack(bytes)
  for i = 0, programs - 1 do
    local p = {}
    p.type, p.flags, p.offset, p.address, p.physical, p.file, p.memory, p.align =
      ("<I4I4I8I8I8I8I8I8"):unpack(bytes, programs_at + i * program_size + 1)
    cubin.programs[i + 1] = p
  end
  return cubin
end

--- Facts of .nv.info and .nv.info.NAME: { format, what, payload }, where the payload of format 4 has a length.
local function facts(data)
  local all, at = {}, 1
  while at <= #data do
    local format, what, value = ("<BBI2"):unpack(data, at)
    local length = format == 4 and value or 0
    all[#all + 1] = { format = format, what = what, head = data:sub(at, at + 3), payload = data:sub(at + 4, at + 3 + length) }
    at = at + 4 + length
  end
  return all
end

-- Facts that begin with the number of a symbol: registers, frame, least stack, parameters.
local OF_SYMBOL = { [0x2f] = true, [0x11] = true, [0x12] = true, [0x23] = true, [0x0a] = true }
local LEAST_STACK = 0x12

local function renumbered(fact, symbols)
  if not (fact.format == 4 and OF_SYMBOL[fact.what]) then return fact.head .. fact.payload end
  return fact.head .. ("<I4"):pack(symbols[("<I4"):unpack(fact.payload)]) .. fact.payload:sub(5)
end

-- What is in each cubin and stands once. Options of the compiler may differ, and then are those of the first.
local ONCE = { [".note.nv.tkinfo"] = true, [".note.nv.cuinfo"] = true, [".nv.compat"] = true, [".nv.callgraph"] = true, [".nv.rel.action"] = true,
  [".nv.shared.reserved.0"] = true }
local MADE = { [""] = true, [".shstrtab"] = true, [".strtab"] = true, [".symtab"] = true, [".debug_frame"] = true, [".rel.debug_frame"] = true,
  [".rela.debug_frame"] = true, [".nv.info"] = true }

-- What kernels ask of a device, as facts: all of them ask for the most that one does.
local function greatest(a, b, what)
  local ours, theirs = facts(a), facts(b)
  local function same(i) return ours[i].format == theirs[i].format and ours[i].what == theirs[i].what and ours[i].payload == theirs[i].payload end
  for i = 1, math.max(#ours, #theirs) do
    if not (ours[i] and theirs[i] and same(i)) then error(what .. ": .nv.compat has other facts", 0) end
    if theirs[i].head > ours[i].head then ours[i].head = theirs[i].head end
  end
  local out = {}
  for i, fact in ipairs(ours) do out[i] = fact.head .. fact.payload end
  return table.concat(out)
end

-- The new sections, in the order of their kinds, and where those of each cubin went: all[i].number[old] = new.
local function place_sections(all)
  local kinds, rank = {}, {}
  for _, cubin in ipairs(all) do
    cubin.number = {}
    local last = 0
    for i = 0, #cubin.sections do
      local s = cubin.sections[i]
      if not (s.kernel or ONCE[s.name] or MADE[s.name]) then error(("%s: unknown section %s"):format(cubin.what, s.name), 0) end
      if not rank[s.kind] then
        last = last + 1
        table.insert(kinds, last, s.kind)
        rank[s.kind] = true
      else
        for k, kind in ipairs(kinds) do
          if kind == s.kind then last = math.max(last, k) end
        end
      end
    end
  end
  local sections, count, shared = {}, 0, {}
  for _, kind in ipairs(kinds) do
    for _, cubin in ipairs(all) do
      for i = 0, #cubin.sections do
        local s = cubin.sections[i]
        if s.kind == kind then
          if s.kernel or not shared[kind] then
            sections[count] = setmetatable({ cubin = cubin, old = i }, { __index = s })
            shared[kind] = count
            count = count + 1
          elseif kind == ".nv.compat" then
            sections[shared[kind]].data = greatest(sections[shared[kind]].data, s.data, cubin.what)
          elseif ONCE[kind] and kind ~= ".note.nv.tkinfo" and s.data ~= sections[shared[kind]].data then
            error(("%s: %s is not as in %s"):format(cubin.what, kind, all[1].what), 0)
          end
          cubin.number[i] = shared[kind]
        end
      end
    end
  end
  return sections
end

-- The new symbols and all[i].symbol[old] = new. A cubin lists locals of kernels, then .debug_frame and the call graph,
-- then the kernels themselves, and locals again. What is of no kernel is listed once.
local function place_symbols(all)
  local symbols, once, internal = {}, {}, 0
  local function phase_of(cubin)
    local phase = 1
    return function(y)
      local s = y.section < 0xff00 and cubin.sections[y.section] or nil
      if s and y.info & 15 == SECTION_SYMBOL and s.name == ".debug_frame" then phase = 2 end
      if y.info >> 4 == GLOBAL then phase = 3 elseif phase == 3 then phase = 4 end
      return phase, s and s.kernel
    end
  end
  for phase = 1, 4 do
    for _, cubin in ipairs(all) do
      cubin.symbol = cubin.symbol or {}
      local phase_at = phase_of(cubin)
      for i = 0, #cubin.symbols do
        local y = cubin.symbols[i]
        local at, kernel = phase_at(y)
        if at == phase then
          local key = not kernel and ("%s %d %d %s"):format(y.name, y.info, y.other, cubin.number[y.section])
          local new = key and once[key]
          if not new then
            new = symbols[0] and #symbols + 1 or 0
            local name = y.name:gsub("^%$__internal_%d+_%$", function()
              internal = internal + 1
              return ("$__internal_%d_$"):format(internal - 1)
            end)
            symbols[new] = setmetatable({ name = name, section = cubin.number[y.section] }, { __index = y })
            if key then once[key] = new end
          end
          cubin.symbol[i] = new
        end
      end
    end
  end
  return symbols
end

local function strings()
  local all, at, offset = { "\0" }, { [""] = 0 }, 1
  return function(name)
    if not at[name] then
      at[name] = offset
      all[#all + 1] = name .. "\0"
      offset = offset + #name + 1
    end
    return at[name]
  end, function() return table.concat(all) end
end

-- Relocations of .debug_frame, those of the last cubin first; `begins`: where in the new one that of each cubin begins.
local function relocations(all, name, begins)
  local out = {}
  for c = #all, 1, -1 do
    local s = all[c].sections[all[c][name] or -1]
    for at = 1, s and #s.data or 0, s and s.entry or 1 do
      local offset, kind, symbol = ("<I8I4I4"):unpack(s.data, at)
      out[#out + 1] = ("<I8I4I4"):pack(offset + begins[c], kind, all[c].symbol[symbol]) .. s.data:sub(at + 16, at + s.entry - 1)
    end
  end
  return table.concat(out)
end

-- .debug_frame of a cubin that begins at `begin` of the new one: an entry says where the one is that it goes on from.
local function moved_frames(data, begin)
  local out, at = {}, 1
  while at <= #data do
    local escape, length, common = ("<I4I8i8"):unpack(data, at)
    if escape ~= 0xffffffff then error("a .debug_frame that is not of 64 bits", 0) end
    out[#out + 1] = data:sub(at, at + 11) .. ("<i8"):pack(common < 0 and common or common + begin) .. data:sub(at + 20, at + 11 + length)
    at = at + 12 + length
  end
  return table.concat(out)
end

local function contents(all, sections, symbols)
  local frames, begins, at = {}, {}, 0
  for c, cubin in ipairs(all) do
    frames[c], begins[c] = moved_frames(cubin.sections[cubin[".debug_frame"]].data, at), at
    at = at + #frames[c]
  end
  local first, least = {}, {}
  for c = #all, 1, -1 do
    for _, fact in ipairs(facts(all[c].sections[all[c][".nv.info"]].data)) do
      if fact.what ~= LEAST_STACK then first[#first + 1] = renumbered(fact, all[c].symbol) end
    end
  end
  for _, cubin in ipairs(all) do
    for _, fact in ipairs(facts(cubin.sections[cubin[".nv.info"]].data)) do
      if fact.what == LEAST_STACK then least[#least + 1] = renumbered(fact, cubin.symbol) end
    end
  end
  local section_name, section_names = strings()
  local symbol_name, symbol_names = strings()
  for i = 0, #sections do sections[i].new_name = section_name(sections[i].name) end
  local listed = {}
  for i = 0, #symbols do
    local y = symbols[i]
    listed[#listed + 1] = SYMBOL:pack(symbol_name(y.name), y.info, y.other, y.section, y.value, y.size)
  end
  local made = { [".debug_frame"] = table.concat(frames), [".nv.info"] = table.concat(first) .. table.concat(least),
    [".rel.debug_frame"] = relocations(all, ".rel.debug_frame", begins), [".rela.debug_frame"] = relocations(all, ".rela.debug_frame", begins),
    [".symtab"] = table.concat(listed), [".strtab"] = symbol_names(), [".shstrtab"] = section_names() }
  for i = 0, #sections do
    local s = sections[i]
    s.data = made[s.name] or s.data
    if s.kind == ".nv.info." then
      local own = {}
      for _, fact in ipairs(facts(s.data)) do own[#own + 1] = renumbered(fact, s.cubin.symbol) end
      s.data = table.concat(own)
    end
    if s.kind:find("^%.rela?%.text%.") and #s.data > 0 then error(("%s: %s is not empty"):format(s.cubin.what, s.name), 0) end
    if s.type ~= NOBITS then s.size = #s.data end
  end
end

local function header(s)
  local link, info = s.link > 0 and s.cubin.number[s.link] or s.link, s.info
  if s.name == ".symtab" then
    info = s.locals_end
  elseif s.flags & INFO_LINK ~= 0 then
    info = s.cubin.number[info]
  elseif s.kind == ".text." then
    info = info & 0xff000000 | s.cubin.symbol[info & 0xffffff] -- beside the number of registers
  end
  return SECTION:pack(s.new_name, s.type, s.flags, s.address, s.offset, s.size, link, info, s.align, s.entry)
end

-- Program headers: each covers what it covered in the first cubin, by kinds of sections, or the headers themselves.
local function segment(p, all, sections, programs_at)
  local PHDR, first = 6, all[1]
  local offset, file, memory = nil, 0, 0
  if p.type == PHDR or p.offset == first.programs_at then
    offset, file, memory = programs_at, 56 * #first.programs, 56 * #first.programs
  else
    local covered = {}
    for i = 1, #first.sections do
      local s = first.sections[i]
      local within = s.flags & 2 ~= 0 and (s.type == NOBITS) == (p.file == 0) and s.offset >= p.offset and s.offset <= p.offset + p.file
      if within and (s.type == NOBITS or s.offset + s.size <= p.offset + p.file) then covered[s.kind] = true end
    end
    local last
    for i = 1, #sections do
      local s = sections[i]
      if covered[s.kind] then
        offset = offset or s.offset
        last = s.offset + s.size
        memory = memory + s.size
      end
    end
    if p.file > 0 then file, memory = last - offset, last - offset end
  end
  return ("<I4I4I8I8I8I8I8I8"):pack(p.type, p.flags, offset, p.address, p.physical, file, memory, p.align)
end

--- The bytes of one cubin with all kernels of `list`, of { name, bytes }.
function cubins.merge(list)
  local all = {}
  for i, file in ipairs(list) do
    all[i] = cubins.read(file.bytes, file.name)
    if all[i].flags ~= all[1].flags then error(("%s is not of the architecture of %s"):format(file.name, list[1].name), 0) end
  end
  all[1].programs_at = select(6, HEADER:unpack(list[1].bytes))
  local sections = place_sections(all)
  local symbols = place_symbols(all)
  contents(all, sections, symbols)
  for i = 0, #symbols do
    if symbols[i].info >> 4 == 0 then sections[all[1].number[all[1][".symtab"]]].locals_end = i + 1 end
  end
  local out, at = {}, 64
  for i = 0, #sections do
    local s = sections[i]
    if s.type == 0 then goto continue end
    local pad = s.align > 1 and -at % s.align or 0
    out[#out + 1] = ("\0"):rep(pad) .. s.data
    s.offset = at + pad
    at = s.offset + #s.data
    ::continue::
  end
  local pad = -at % 8
  local sections_at = at + pad
  local programs_at = sections_at + 64 * (#sections + 1)
  out[#out + 1] = ("\0"):rep(pad)
  for i = 0, #sections do out[#out + 1] = header(sections[i]) end
  for _, p in ipairs(all[1].programs) do out[#out + 1] = segment(p, all, sections, programs_at) end
  local f = { HEADER:unpack(all[1].head) }
  f[6], f[7], f[13] = programs_at, sections_at, #sections + 1
  return HEADER:pack(table.unpack(f, 1, 14)) .. table.concat(out)
end

if arg and arg[0] and arg[0]:find("cubins%.lua$") then
  local list = {}
  for i = 2, #arg do
    local file <close> = assert(io.open(arg[i], "rb"))
    list[i - 1] = { name = arg[i], bytes = file:read("a") }
  end
  local out <close> = assert(io.open(arg[1], "wb"))
  assert(out:write(cubins.merge(list)))
end

return cubins
