-- The library's size: lua archive_size.lua ARCHIVE BYTES passes when the archive is smaller than that.
local path, limit = arg[1], tonumber(arg[2])
local file <close> = assert(io.open(path, "rb"))
local bytes = file:seek("end")
print(("%s: %d bytes of %d"):format(path, bytes, limit))
if bytes < 1000 or bytes >= limit then error(("%s has %d bytes; less than %d are promised"):format(path, bytes, limit), 0) end
