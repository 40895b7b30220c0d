-- NVIDIA architectures, in one table. A name is text, as nvcc has it behind "sm_": "80", and "90a" for Hopper with the
-- instructions that only it has. A spec may write a name that is a number without quotes.
--
--   block_kib, sm_kib   shared memory that a block may have, and that a multiprocessor has (each block takes a KiB
--                       more than it asks for)
--   threads             that a multiprocessor holds; all of these have 65536 registers for them, and 255 a thread
-- CUDA C++ Programming Guide, compute capabilities.
local LIST = {
  { name = "80", block_kib = 163, sm_kib = 164, threads = 2048 }, -- A100
  { name = "86", block_kib = 99, sm_kib = 100, threads = 1536 }, -- RTX 30, A40
  { name = "87", block_kib = 163, sm_kib = 164, threads = 1536 }, -- Jetson Orin
  { name = "89", block_kib = 99, sm_kib = 100, threads = 1536 }, -- RTX 40, L40
  { name = "90", block_kib = 227, sm_kib = 228, threads = 2048 }, -- H100, H200
  { name = "90a", block_kib = 227, sm_kib = 228, threads = 2048 }, -- H100, H200, with wgmma and setmaxnreg
  { name = "100", block_kib = 227, sm_kib = 228, threads = 2048 }, -- B200
  { name = "110", block_kib = 227, sm_kib = 228, threads = 1536 }, -- Jetson Thor
  { name = "120", block_kib = 99, sm_kib = 100, threads = 1536 }, -- RTX 50
}

local archs = { names = {}, COMPRESS = { "size", "none" } } -- COMPRESS: what a spec may say of cubins, `fatbinary --compress-mode`
local by_name, place = {}, {}
for i, arch in ipairs(LIST) do
  arch.number = tonumber(arch.name:match("^%d+"))
  archs.names[i], by_name[arch.name], place[arch.name] = arch.name, arch, i
end

--- The row of an architecture by its name, or nil.
function archs.get(name) return by_name[name] end

--- Whether one name stands before another: the order of every list of architectures.
function archs.before(a, b) return place[a] < place[b] end

return archs
