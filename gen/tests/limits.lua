-- What is wrong only for a whole variant: the cpu family's limits with their arithmetic, names that clash,
-- combinations without a tile. Another family has a file of its own.
local harness = require("gen.tests.harness")
local specs = require("gen.tests.specs")

local refuses, with = specs.refuses, specs.with

refuses("m not divisible by the micro-kernel", with({ [10] = "        fwd = { { m = 40, n = 96 } }," }),
  { "10: families.cpu.tiles.fwd[1].m", "40 is not a multiple of 16", "x86_64_v3", "2 vectors x 8 lanes", "32 or 48" })
refuses("m not divisible on one ISA of two", with({ [8] = 'isas = { "x86_64_v4", "x86_64_v3" },',
  [10] = "fwd = { { m = 48, n = 96 } }," }),
  { "10: families.cpu.tiles.fwd[1].m", "48 is not a multiple of 64", "4 vectors x 16 lanes", "; 64" })
refuses("n not divisible by the micro-kernel", with({ [11] = "        bwd = { { m = 64,\nn = 64 } }," }),
  { "12: families.cpu.tiles.bwd[1].n", "64 is not a multiple of 6", "60 or 66" })
refuses("m and n both", with({ [10] = "        fwd = { { m = 40, n = 64 } }," }), { "10: families.cpu.tiles.fwd[1].m" },
  { "10: families.cpu.tiles.fwd[1].n" })
refuses("a tile too large for head dim 512", with({ [4] = "  head_dims = { 64, 512 }," }), { "11: families.cpu.tiles.bwd[1]",
  "m = 64, n = 96 at head_dim 512", "Q tile 131072 + dO tile 131072 + dQ tile 131072 + P tile 24576", "= 1228800 bytes",
  "the limit is 1048576", "[512]" })
refuses("a micro-kernel beyond the registers", with({ [10] = "        fwd = { { m = 64, n = 96, rows = 8 } }," }),
  { "10: families.cpu.tiles.fwd[1].rows",
    "8 x 2 accumulators + 2 loads + 1 broadcast = 19 vector registers, and x86_64_v3 has 16" })
refuses("an override that breaks a limit",
  with({ [16] = '  override = { { family = "cpu", pass = "fwd", set = { m = 24 }, reason = "x" } },' }),
  { "16: override[1].set.m", "24 is not a multiple of 16" })
refuses("an override out of range", with({ [16] = '  override = { { family = "cpu", set = { m = 4096 }, reason = "x" } },' }),
  { "16: override[1].set.m", "4096 is out of range" })
refuses("the same tile twice", with({ [10] = "        fwd = { { m = 64, n = 96 },\n{ n = 96, m = 64 } }," }),
  { "11: families.cpu.tiles.fwd[2]", "makes fwd_f32_d64_causal__cpu_x86_64_v3_m64n96 again, after line 10" })
refuses("two tiles that an override makes the same", with({ [10] = "        fwd = { { m = 64, n = 96 }, { m = 32, n = 96 } },",
  [16] = '  override = { { family = "cpu", pass = "fwd", m = 32, set = { m = 64 }, reason = "x" } },' }),
  { "10: families.cpu.tiles.fwd[2]", "makes fwd_f32_d64_causal__cpu_x86_64_v3_m64n96 again" })
refuses("two tiles that differ in what the name does not say",
  with({ [10] = "fwd = { { m = 64, n = 96 }, { m = 64, n = 96, rows = 4 } }," }),
  { "10: families.cpu.tiles.fwd[2]", "again" })
local function amx(tiles)
  return with({ [3] = '  dtypes = { "bf16" },', [8] = 'isas = { "x86_64_amx" },', [10] = "fwd = { " .. tiles .. " }," })
end
refuses("AMX: m not whole panels", amx("{ m = 48, n = 64 }"),
  { "10: families.cpu.tiles.fwd[1].m", "48 is not a multiple of 32", "tiles of x86_64_amx", "32 or 64" })
refuses("AMX: n not whole steps", amx("{ m = 64, n = 48 }"),
  { "10: families.cpu.tiles.fwd[1].n", "48 is not a multiple of 32", "32 or 64" })
refuses("AMX: a micro-kernel", amx("{ m = 64, n = 64, rows = 4 }"), { "10: families.cpu.tiles.fwd[1].rows", "no micro-kernel" })

harness.case("AMX: bf16 only; a tile for all ISAs makes it where it goes", function()
  local loaded = specs.open(with({ [2] = '  passes = { "fwd", "bwd", "dec" },', [3] = '  dtypes = { "f32", "bf16" },',
    [8] = 'isas = { "x86_64_v4", "x86_64_amx" },', [10] = "", [11] = "" }))
  local names = table.concat(specs.names(loaded), " ")
  harness.has(names, "fwd_bf16_d64_causal__cpu_x86_64_amx_m64n256", "bwd_bf16_d64_causal__cpu_x86_64_amx_m256n128",
    "dec_bf16_d64_causal__cpu_x86_64_v4_m32n256", "dec_bf16_d64_causal__cpu_x86_64_amx_m32n512", "fwd_f32_d64_causal__cpu_x86_64_v4_m64n96")
  harness.yes(not names:find("f32_d64_causal__cpu_x86_64_amx"))
end)

-- More than anybody wants.
local dims = {}
for head_dim = 8, 1024, 8 do dims[#dims + 1] = head_dim end
local some_tiles = {}
for n = 6, 96, 6 do some_tiles[#some_tiles + 1] = ("{ m = 64, n = %d }"):format(n) end
refuses("more variants than a library can have", with({ [4] = "  head_dims = { " .. table.concat(dims, ", ") .. " },",
  [3] = '  dtypes = { "f32", "f16", "bf16" },', [8] = 'isas = { "x86_64_v3", "x86_64" },',
  [10] = "fwd = { " .. table.concat(some_tiles, ", ") .. " }," }), { "7: families.cpu", "makes 13056 variants", "at most 10000" })
refuses("more tiles than a plan should choose among", with({ [10] = "fwd = {" .. ("{ m = 64, n = 96 },"):rep(17) .. "}," }),
  { "10: families.cpu.tiles.fwd", "17 tiles", "at most 16" })
refuses("more tiles for a head dim", with({ [10] = "fwd = { [64] = {" .. ("{ m = 64, n = 96 },"):rep(17) .. "} }," }),
  { "10: families.cpu.tiles.fwd[64]", "a list of 17", "at most 16" })
refuses("more exclusions than one can read", with({ [15] = "exclude = {" .. ("{},"):rep(501) .. "}," }),
  { "15: exclude", "a list of 501", "at most 500" })
refuses("an override of which ISAs a tile is for", with({ [16] = '  override = { { family = "cpu", set = { isas = { "x86_64" } }, '
  .. 'reason = "x" } },' }), { "16: override[1].set.isas", "no such field" })

harness.case("a hole that is excluded with a reason is no mistake", function()
  local loaded = specs.open(with({ [10] = "        fwd = { [64] = { { m = 64, n = 96 } }, [128] = { { m = 512, n = 96 } } },",
    [15] = '  exclude = { { family = "cpu", pass = "fwd", head_dim = 128, m = 512, reason = "too large" } },' }))
  harness.is(#loaded.records, 3)
  harness.is(#loaded.excluded, 1)
end)

harness.case("an excluded variant may break a limit", function()
  local loaded = specs.open(with({ [4] = "  head_dims = { 64, 1024 },",
    [15] = '  exclude = { { head_dim = 1024, reason = "does not fit" } },' }))
  harness.is(#loaded.records, 2)
end)

harness.case("every head dim of a kind is accepted by the default tiles", function()
  for head_dim = 8, 256, 8 do
    local loaded, why = specs.open(with({ [4] = "  head_dims = { " .. head_dim .. " }," }))
    harness.yes(loaded, why)
    harness.is(loaded.records[1].head_dim, head_dim)
  end
end)
