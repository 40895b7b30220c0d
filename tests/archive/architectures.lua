-- What an archive of the library is for: lua architectures.lua ARCHIVE CPU VARIANTS SM...
--
-- Every object in it is ELF for CPU (x86_64 or aarch64). Its GPU variants, VARIANTS in all, are cubins for one or more SM each, in
-- read-only data, one symbol glint_<variant>__sm<SM>_cubin each, whose own headers say that they are SASS for this SM; there is no other
-- device code. `0` and no SM: no GPU kernels at all. Reads the bytes itself, so that the machine needs no tools of the architecture.
local EM = { x86_64 = 62, aarch64 = 183 }
local EM_CUDA = 190
local SHT_SYMTAB, SHF_WRITE, SHF_ALLOC = 2, 1, 2

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read("a")
end

-- Members of an ar archive in GNU's format: { name, bytes }.
local function members(archive)
  assert(archive:sub(1, 8) == "!<arch>\n", "not an archive")
  local found, names, at = {}, "", 9
  while at + 59 <= #archive do
    local name, size = archive:sub(at, at + 15), tonumber(archive:sub(at + 48, at + 57))
    assert(size and archive:sub(at + 58, at + 59) == "`\n", "a damaged member header")
    local bytes = archive:sub(at + 60, at + 59 + size)
    if name:find("^// ") then
      names = bytes
    elseif not name:find("^/ ") and not name:find("^/SYM64/") then
      local long = name:match("^/(%d+)")
      found[#found + 1] = { name = long and names:match("^[^/\n]+", tonumber(long) + 1) or name:match("^[^/]+"), bytes = bytes }
    end
    at = at + 60 + size + size % 2
  end
  return found
end

local function header(elf, what)
  assert(elf:sub(1, 6) == "\127ELF\2\1", what .. " is not a 64-bit little-endian ELF file")
  return {
    abi_version = elf:byte(9), machine = string.unpack("<I2", elf, 0x12 + 1), flags = string.unpack("<I4", elf, 0x30 + 1),
    sections = string.unpack("<I8", elf, 0x28 + 1), count = string.unpack("<I2", elf, 0x3c + 1),
  }
end

local function section(elf, h, i)
  local name, kind, flags, _, offset, size, link = string.unpack("<I4I4I8I8I8I8I4", elf, h.sections + i * 64 + 1)
  return { name = name, kind = kind, flags = flags, offset = offset, size = size, link = link }
end

-- The SM that a cubin is for. Since CUDA 13 (ABI version 8) it is the second byte of the flags, before that the first.
local function sm_of(cubin, what)
  local h = header(cubin, what)
  assert(h.machine == EM_CUDA, what .. " is not for an NVIDIA GPU")
  return h.abi_version >= 8 and h.flags >> 8 & 0xff or h.flags & 0xff
end

-- Symbols of an object that name a cubin: { variant, sm (of the name), bytes, flags (of the section) }.
local function cubins(elf, what)
  local h, found = header(elf, what), {}
  for i = 0, h.count - 1 do
    local symbols = section(elf, h, i)
    if symbols.kind == SHT_SYMTAB then
      local strings = section(elf, h, symbols.link)
      for at = symbols.offset, symbols.offset + symbols.size - 1, 24 do
        local name, _, _, index, value, size = string.unpack("<I4BBI2I8I8", elf, at + 1)
        local text = string.unpack("z", elf, strings.offset + name + 1)
        local variant, sm = text:match("^glint_(.+)__sm(%d+)_cubin$")
        if variant and index ~= 0 then
          local home = section(elf, h, index)
          found[#found + 1] = { variant = variant, sm = tonumber(sm), flags = home.flags,
            bytes = elf:sub(home.offset + value + 1, home.offset + value + size) }
        end
      end
    end
  end
  return found
end

local function expect(right, ...)
  if not right then error(string.format(...), 0) end
end

local path, cpu, variants = arg[1], arg[2], tonumber(arg[3])
local wanted = {}
for i = 4, #arg do wanted[tonumber(arg[i])] = true end

local list, bytes, count, by_sm = members(read(path)), 0, 0, {}
expect(#list > 10, "%s has %d members", path, #list)
for _, member in ipairs(list) do
  local machine = header(member.bytes, member.name).machine
  expect(machine == EM[cpu], "%s is for machine %d, not for %s", member.name, machine, cpu)
  local _, device_code = member.bytes:gsub("\127ELF\2\1\1", "")
  local own = cubins(member.bytes, member.name)
  expect(device_code == 1 + #own, "%s has %d ELF files in it, of which %d have a name", member.name, device_code - 1, #own)
  for _, cubin in ipairs(own) do
    local sm = sm_of(cubin.bytes, cubin.variant)
    expect(sm == cubin.sm, "%s holds SASS for sm_%d under the name of sm_%d", cubin.variant, sm, cubin.sm)
    expect(wanted[sm], "%s is for sm_%d, which is not wanted", cubin.variant, sm)
    expect(cubin.flags & (SHF_ALLOC | SHF_WRITE) == SHF_ALLOC, "%s is not in read-only data", cubin.variant)
    by_sm[sm] = by_sm[sm] or {}
    expect(not by_sm[sm][cubin.variant], "%s is there twice for sm_%d", cubin.variant, sm)
    by_sm[sm][cubin.variant] = true
    count, bytes = count + 1, bytes + #cubin.bytes
  end
end
local seen = {}
for sm, names in pairs(by_sm) do
  for variant in pairs(names) do seen[variant] = sm end
end
local distinct = 0
for _ in pairs(seen) do distinct = distinct + 1 end
expect(distinct == variants, "%d GPU variants, and %d are wanted", distinct, variants)
for sm in pairs(wanted) do expect(by_sm[sm], "nothing for sm_%d", sm) end
print(("%s: %d objects for %s, %d cubins of %d variants, %d bytes of device code"):format(path, #list, cpu, count, distinct, bytes))
