-- The size of the library: lua archive_size.lua ARCHIVE BYTES [LOADED] passes when the archive is smaller than BYTES,
-- and what of it is loaded, code and constants, has at most LOADED bytes. readelf reads every architecture.
local path, limit, most = arg[1], tonumber(arg[2]), tonumber(arg[3])
local file <close> = assert(io.open(path, "rb"))
local bytes = file:seek("end")
print(("%s: %d bytes of %d"):format(path, bytes, limit))
if bytes < 1000 or bytes >= limit then error(("%s has %d bytes; less than %d are promised"):format(path, bytes, limit), 0) end
if not most then return end

local loaded = 0
local pipe <close> = assert(io.popen(("LC_ALL=C readelf --wide --section-headers '%s'"):format(path)))
for line in pipe:lines() do
  local size, flags = line:match("^  %[ *%d+%] .* %x+ %x+ (%x+) %x%x +([%a ]-) +%d+ +%d+ +%d+$")
  if flags and flags:find("A", 1, true) then loaded = loaded + tonumber(size, 16) end
end
print(("%s: %d bytes of code and constants of %d"):format(path, loaded, most))
if loaded < 1000 or loaded > most then error(("%s has %d bytes of code and constants; at most %d are promised"):format(path, loaded, most), 0) end
