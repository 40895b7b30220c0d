-- What is wrong only for a whole variant: a family's limits with their arithmetic, names that clash, combinations without a tile.
local harness = require("gen.tests.harness")
local specs = require("gen.tests.specs")

local refuses, with = specs.refuses, specs.with

local function gpu(changes) return with(changes, specs.GPU) end

-- The cpu family.
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
refuses("a pass without tiles", with({ [11] = "" }),
  { "9: families.cpu.tiles", "no tile for bwd_f32_d64_causal on x86_64_v3", "exclude" })
refuses("a head dim without tiles", with({ [10] = "        fwd = { [64] = { { m = 64, n = 96 } } }," }),
  { "10: families.cpu.tiles.fwd", "no tile for fwd_f32_d128_causal on x86_64_v3" })
refuses("an ISA without tiles", with({ [8] = '      isas = { "x86_64_v3", "aarch64" },',
  [10] = '        fwd = { { m = 64, n = 96, isas = { "aarch64" } } },' }), { "10: families.cpu.tiles.fwd", "on x86_64_v3" })
refuses("a dtype without tiles", with({ [3] = '  dtypes = { "f32", "f16" },',
  [10] = '        fwd = { { m = 64, n = 96, dtypes = { "f32" } } },' }),
    { "10: families.cpu.tiles.fwd", "no tile for fwd_f16_d64_causal" })
refuses("a mask without tiles", with({ [5] = '  masks = { "none", "causal" },',
  [10] = '        fwd = { { m = 64, n = 96, masks = { "none" } } },' }),
    { "10: families.cpu.tiles.fwd", "no tile for fwd_f32_d64_causal" })

-- The sm80 family.
refuses("an unknown architecture", gpu({ [8] = "      archs = { 80, 75 }," }), { "8: families.sm80.archs[2]", "75 is not known" })
refuses("an architecture as a name", gpu({ [8] = '      archs = { "sm_80" },' }),
  { "8: families.sm80.archs[1]", '"sm_80" is not known' })
refuses("an architecture that a tile does not fit", gpu({ [8] = "      archs = { 80, 86 },",
  [10] = "        fwd = { { m = 128, n = 128, "
  .. "warps = 4, stages = 2 } },", [3] = '  dtypes = { "bf16" },' }), { "10: families.sm80.tiles.fwd[1]", "at head_dim 128",
  "Q 128 x 128 x 2 + K 2 stages x 128 x 128 x 2 + V 2 stages x 128 x 128 x 2 = 163840 bytes", "sm_86 has 101376" })
refuses("m that is no whole number of warps", gpu({ [10] = "        fwd = { { m = 96, n = 32, warps = 4 } }," }),
  { "10: families.sm80.tiles.fwd[1].m", "4 warps x 16 rows" })
refuses("m not a multiple of 16", gpu({ [10] = "        fwd = { { m = 100, n = 64 } }," }),
  { "10: families.sm80.tiles.fwd[1].m", "100 is not a multiple of 16", "96 or 112" })
refuses("a strategy for the forward pass", gpu({ [10] = '        fwd = { { m = 64, n = 64, strategy = "split" } },' }),
  { "10: families.sm80.tiles.fwd[1].strategy", "forward" })
refuses("an unknown strategy", gpu({ [11] = '        bwd = { { m = 64, n = 64, strategy = "fuse" } },' }),
  { "11: families.sm80.tiles.bwd[1].strategy", 'did you mean "fused"?' })
refuses("spills without words", gpu({ [11] = "        bwd = { { m = 64, n = 64, spills = true } }," }),
  { "11: families.sm80.tiles.bwd[1].spills", "not a sentence" })

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

harness.case("the GPU family makes what its tiles say", function()
  local loaded, why = specs.open(gpu({ [3] = '  dtypes = { "bf16" },' }))
  harness.yes(loaded, why)
  harness.is(table.concat(specs.names(loaded), " "),
    "bwd_bf16_d128_causal__sm80_split_m64n64 bwd_bf16_d64_causal__sm80_split_m64n64 "
    .. "fwd_bf16_d128_causal__sm80_m128n64 fwd_bf16_d64_causal__sm80_m128n64")
  harness.is(table.concat(loaded.records[1].archs, " "), "80 90")
  harness.is(loaded.records[3].smem_bytes, 2 * 128 * (128 + 4 * 64))
end)
