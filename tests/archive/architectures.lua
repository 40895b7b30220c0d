-- What an archive of the library is for: lua architectures.lua ARCHIVE CPU VARIANTS SM...
--
-- Every object in it is ELF for CPU (x86_64 or aarch64). Its GPU variants, VARIANTS in all, are in cubins for one or
-- more SM each, in read-only data, one symbol glint_<variant>__sm<SM>_cubin each, whose own headers say that they are
-- SASS for this SM; several variants may be in one. There is no other device code but that of glint_merge and
-- glint_append, glint_gpu_rows__sm<SM>_cubin, for each SM. `0` and no SM: no GPU kernels at all. readelf and ar read
-- objects of every architecture. Where an image is a fatbin, its header says what is in it; where zstd is installed it
-- is unpacked.
local ROWS = "gpu_rows" -- in the place of a variant
local MACHINE = { x86_64 = "Advanced Micro Devices X86-64", aarch64 = "AArch64" }

local function output_of(command, ...)
  local pipe <close> = assert(io.popen(command:format(...)))
  local text = pipe:read("a")
  assert(pipe:close(), command:format(...) .. " failed")
  return text
end

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read("a")
end

-- The members of an archive, in order: { name, machine, sections (by number: offset, flags), cubins: { variant, sm,
-- section, value, size } }.
local function members(archive)
  local found, member = {}, nil
  for line in output_of("LC_ALL=C readelf -W -h -S -s '%s'", archive):gmatch("[^\n]+") do
    local name = line:match("^File: .*%((.*)%)$")
    if name then
      member = { name = name, sections = {}, cubins = {} }
      found[#found + 1] = member
    end
    if not name and member then
      local machine = line:match("^  Machine: +(.*)$")
      if machine then member.machine = machine end
      local number, offset, flags = line:match("^  %[ *(%d+)%] .* %x+ (%x+) %x+ %x%x +([%a ]-) +%d+ +%d+ +%d+$")
      if number then member.sections[number] = { offset = tonumber(offset, 16), flags = flags } end
      -- readelf writes a size of six digits or more as 0x...
      local value, size, index, variant, sm = line:match("^ *%d+: (%x+) +([%dxa-f]+) .* (%d+) glint_(.+)__sm(%d+a?)_cubin$")
      if value then
        member.cubins[#member.cubins + 1] = { variant = variant, sm = sm, section = index, value = tonumber(value, 16), size = tonumber(size) }
      end
    end
  end
  return found
end

local function expect(right, ...)
  if not right then error(string.format(...), 0) end
end

-- What an image holds: itself when it is a cubin; of a fatbin with one cubin { sm, bytes, packed }, `packed` a frame of
-- zstd.
local function fatbin_of(image)
  if image:sub(1, 4) ~= "\x50\xed\x55\xba" then return nil end
  local header, size = ("<I2I8"):unpack(image, 7)
  local kind, own, payload, packed = ("<I2xxI4I8I4"):unpack(image, header + 1)
  local sm, flags, bytes = ("<I4xxxxxxxxI8xxxxxxxxI8"):unpack(image, header + 29)
  expect(kind == 2 and header + size == #image and own + payload == size, "a fatbin with something else than one cubin")
  expect(flags & 0x8000 ~= 0 and packed <= payload and packed < bytes, "a fatbin that is not compressed")
  return { sm = sm, bytes = bytes, packed = image:sub(header + own + 1, header + own + packed) }
end

local path, cpu, variants = arg[1], arg[2], tonumber(arg[3])
local wanted = {}
for i = 4, #arg do wanted[arg[i]] = true end

local scratch = output_of("mktemp -d -p \"${TEST_TMPDIR:-/tmp}\""):match("%S+")
local absolute = output_of("readlink -f '%s'", path):match("[^\n]+")
output_of("cd '%s' && ar x '%s'", scratch, absolute)

local unpacks = os.execute("command -v zstd >/dev/null")
local list, bytes, packed, count, by_sm, all = members(path), 0, 0, 0, {}, {} -- all: the images, each with the variants in it
expect(#list > 10, "%s has %d members", path, #list)
for _, member in ipairs(list) do
  local object = read(scratch .. "/" .. member.name)
  expect(member.machine == MACHINE[cpu], "%s is for %s, not for %s", member.name, member.machine, cpu)
  local _, device_code = object:gsub("\127ELF\2\1\1", "")
  local _, fatbins = object:gsub("\x50\xed\x55\xba", "")
  local images = {}
  for _, cubin in ipairs(member.cubins) do
    local home = member.sections[cubin.section]
    expect(home.flags:find("A") and not home.flags:find("W"), "%s is not in read-only data", cubin.variant)
    local at = home.offset + cubin.value + 1
    if not images[at] then
      local data = object:sub(at, home.offset + cubin.value + cubin.size)
      local fatbin, unpacked = fatbin_of(data), ("%s/%d.cubin"):format(scratch, #all + 1)
      local image = { sm = cubin.sm, variants = {}, bytes = fatbin and fatbin.bytes or cubin.size, size = cubin.size }
      packed, bytes = packed + cubin.size, bytes + image.bytes
      if not fatbin or unpacks then
        local file <close> = assert(io.open(unpacked .. (fatbin and ".zst" or ""), "wb"))
        file:write(fatbin and fatbin.packed or data)
        all[#all + 1] = image
      end
      if fatbin then
        expect(tostring(fatbin.sm) == cubin.sm:match("%d+"), "%s is a fatbin for sm_%d under the name of sm_%s", cubin.variant, fatbin.sm, cubin.sm)
      end
      images[at] = image
      images[#images + 1] = image
    end
    table.insert(images[at].variants, cubin.variant)
    expect(images[at].sm == cubin.sm and images[at].size == cubin.size, "%s for sm_%s is in an image of another kind", cubin.variant, cubin.sm)
    expect(wanted[cubin.sm], "%s is for sm_%s, which is not wanted", cubin.variant, cubin.sm)
    by_sm[cubin.sm] = by_sm[cubin.sm] or {}
    expect(not by_sm[cubin.sm][cubin.variant], "%s is there twice for sm_%s", cubin.variant, cubin.sm)
    by_sm[cubin.sm][cubin.variant] = true
    count = count + 1
  end
  expect(device_code + fatbins == 1 + #images, "%s has %d images in it, of which %d have a name", member.name, device_code + fatbins - 1, #images)
end

-- The SM that a cubin is for: since CUDA 13 (ABI version 8) the second byte of the flags, before that the first.
-- (readelf heads what it says of a file with its name when there are several, of which the last is none.)
if unpacks and packed < bytes then output_of("cd '%s' && for f in *.zst; do zstd -dq \"$f\" -o \"${f%%.zst}\"; done", scratch) end
local headers = #all > 0 and output_of("cd '%s' && LC_ALL=C readelf -W -h $(seq -f %%g.cubin %d) no_more 2>/dev/null || true", scratch, #all) or ""
local at = 0
for text in headers:gmatch("File: [^\n]*\n(.-Flags:[^\n]*)") do
  at = at + 1
  local image, flags = all[at], tonumber(text:match("Flags: +(0x%x+)"))
  local sm = tonumber(text:match("ABI Version: +(%d+)")) >= 8 and flags >> 8 & 0xff or flags & 0xff
  local name, data = image.variants[1], read(("%s/%d.cubin"):format(scratch, at))
  expect(text:find("Machine: +NVIDIA CUDA"), "%s is not for an NVIDIA GPU", name)
  expect(tostring(sm) == image.sm:match("%d+"), "%s holds SASS for sm_%d under the name of sm_%s", name, sm, image.sm)
  expect(packed == bytes or #data == image.bytes, "%s is not as long as its fatbin says", name)
  for _, variant in ipairs(image.variants) do
    local kernel = variant == ROWS and "merge_rows" or variant
    expect(data:find("\0.text.glint_" .. kernel .. "\0", 1, true), "%s has no kernel in its image for sm_%s", variant, image.sm)
  end
end
expect(at == #all, "readelf knows %d of %d cubins", at, #all)
os.execute(("rm -rf '%s'"):format(scratch))
local seen = {}
for sm, names in pairs(by_sm) do
  for variant in pairs(names) do seen[variant] = sm end
end
local distinct = 0
for variant in pairs(seen) do distinct = distinct + (variant ~= ROWS and 1 or 0) end
expect(distinct == variants, "%d GPU variants, and %d are wanted", distinct, variants)
for sm in pairs(wanted) do expect(by_sm[sm] and by_sm[sm][ROWS], "no variant, or no rows of calls, for sm_%s", sm) end
print(("%s: %d objects for %s, %d variants for some SM, %d in all, %d bytes of device code in %d; %d cubins looked into"):format(path, #list, cpu,
  count, distinct, bytes, packed, #all))
