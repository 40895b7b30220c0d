-- The CPU kernels of a band, in tiles of few queries and keys.   lua5.4 emit.lua ROOT ISA OUT: writes OUT/table.c and OUT/<pass>_<dtype>_<n>.c
local root, isa, out = arg[1], arg[2], arg[3]
package.path = root .. "/?.lua"
local emit = require("gen.emit")
local records = require("gen.records")

local spec = out .. "/spec.lua"
local file = assert(io.open(spec, "w"))
file:write(([[
return { passes = { "fwd", "bwd", "dec" }, dtypes = { "f32", "bf16" }, head_dims = { 40 }, masks = { "band" }, families = { cpu = {
  isas = { "%s" },
  tiles = { fwd = { { m = 16, n = 6 }, { m = 64, n = 36 } }, bwd = { { m = 16, n = 6 }, { m = 64, n = 36 } },
    dec = { { m = 8, n = 32 }, { m = 32, n = 64 } } } } } }
]]):format(isa))
file:close()
local loaded, why = records(spec)
if not loaded then error(why, 0) end
os.remove(spec)

local function write(name, content)
  local made = assert(io.open(out .. "/" .. name, "w"))
  made:write(content)
  made:close()
end
write("table.c", emit.table(loaded.records, "tests/contract/band/emit.lua"))
for _, record in ipairs(loaded.records) do
  write(("%s_%s_%d.c"):format(record.pass, record.dtype, record.n), emit.kernel(record, "tests/contract/band/emit.lua", root))
end
