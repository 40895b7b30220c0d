-- The sm80 family: its fields, its limits with their arithmetic, its records in lists and explanations.
local emit = require("gen.emit")
local explain = require("gen.explain")
local harness = require("gen.tests.harness")
local list = require("gen.list")
local specs = require("gen.tests.specs")

local refuses = specs.refuses

-- The lines in which a small spec of this family differs from the one of gen/tests/specs.lua.
local GPU = {
  [3] = '  dtypes = { "bf16" },',
  [7] = "    sm80 = {",
  [8] = "      archs = { 80, 90 },",
  [9] = "      tiles = {",
  [10] = "        fwd = { { m = 128, n = 64, warps = 4 } },",
  [11] = "        bwd = { { m = 64, n = 64, warps = 4 } },",
}

local function gpu(changes) return specs.with(changes, GPU) end

harness.case("a second forward kernel reads lengths where the family or a tile says so", function()
  local function launches(changes)
    local counts = {}
    for _, record in ipairs(specs.open(gpu(changes)).records) do counts[#counts + 1] = ("%s %d"):format(record.pass, #record.launches) end
    return table.concat(counts, ", ")
  end
  harness.is(launches({}), "bwd 3, bwd 3, fwd 1, fwd 1")
  harness.is(launches({ [8] = "      archs = { 80, 90 }, device_lengths = true," }), "bwd 3, bwd 3, fwd 2, fwd 2")
  harness.is(launches({ [10] = "        fwd = { { m = 128, n = 64, warps = 4, device_lengths = true } }," }), "bwd 3, bwd 3, fwd 2, fwd 2")
  harness.is(launches({ [8] = "      archs = { 80, 90 }, device_lengths = true,",
    [10] = "        fwd = { { m = 128, n = 64, warps = 4, device_lengths = false } }," }), "bwd 3, bwd 3, fwd 1, fwd 1")
  harness.is(launches({ [8] = "      archs = { 80, 90 }, device_lengths = true, device_pages = true," }), "bwd 3, bwd 3, fwd 3, fwd 3")
  harness.is(launches({ [8] = "      archs = { 80, 90 }, device_pages = true," }), "bwd 3, bwd 3, fwd 1, fwd 1")
  harness.is(launches({ [8] = "      archs = { 80, 90 }, device_ragged = true," }), "bwd 3, bwd 3, fwd 2, fwd 2")
  harness.is(launches({ [8] = "      archs = { 80, 90 }, device_pages = true, device_ragged = true," }), "bwd 3, bwd 3, fwd 2, fwd 2")
  harness.is(launches({ [8] = "      archs = { 80, 90 }, device_lengths = true, device_pages = true, device_ragged = true," }), "bwd 3, bwd 3, fwd 5, fwd 5")
end)

harness.case("decode has the widest mask of those that it is for", function()
  local made = assert(specs.open('return { passes = { "fwd", "dec" }, dtypes = { "bf16" }, head_dims = { 64 }, '
    .. 'masks = { "none", "band", "interval" }, families = { sm80 = { archs = { 90 } } } }'))
  local masks = {}
  for _, record in ipairs(made.records) do masks[#masks + 1] = record.pass .. " " .. record.mask end
  table.sort(masks)
  harness.is(table.concat(masks, ", "), "dec interval, fwd band, fwd interval, fwd none")
end)

-- tests/defs.bzl relies on it: in the simulator a kernel of float16 has the checks of formats, and the one of bfloat16
-- all.
harness.case("a kernel of float16 is the text of bfloat16's but for its name and one type", function()
  local loaded, texts = specs.open(gpu({ [3] = '  dtypes = { "f16", "bf16" },' })), {}
  for _, record in ipairs(loaded.records) do texts[record.name] = emit.kernel(record, "s", ".") end
  local pairs_seen = 0
  for name, text in pairs(texts) do
    local other = texts[(name:gsub("_f16_", "_bf16_"))]
    if other ~= text then
      harness.is(text, (other:gsub("bf16", "f16"):gsub("bfloat16", "float16")))
      pairs_seen = pairs_seen + 1
    end
  end
  harness.is(pairs_seen, #loaded.records / 2)
end)
refuses("a family's flag that is none", gpu({ [8] = "      archs = { 80, 90 }, device_lengths = 1," }),
  { "8: families.sm80.device_lengths", "true or false" })
refuses("an unknown architecture", gpu({ [8] = "      archs = { 80, 75 }," }), { "8: families.sm80.archs[2]", "75 is not known" })
refuses("an architecture as a name", gpu({ [8] = '      archs = { "sm_80" },' }),
  { "8: families.sm80.archs[1]", '"sm_80" is not known' })
refuses("an architecture that a tile does not fit", gpu({ [8] = "      archs = { 80, 86 },",
  [10] = "        fwd = { { m = 128, n = 128, "
  .. "warps = 4 } }," }), { "10: families.sm80.tiles.fwd[1]", "at head_dim 128",
  "Q 128 x 128 x 2 + K 2 x 128 x 128 x 2 + V 2 x 128 x 128 x 2 = 163840 bytes", "sm_86 has 101376" },
  { "11: families.sm80.tiles.bwd[1]", "LSE, delta", "= 115744 bytes", "sm_86 has 101376" })
refuses("an odd number of warps backward", gpu({ [11] = "        bwd = { { m = 64, n = 64, warps = 3 } }," }),
  { "11: families.sm80.tiles.bwd[1].warps", "whole groups of 2", "a multiple of 2" })
refuses("keys that groups of warps do not share evenly", gpu({ [11] = "        bwd = { { m = 64, n = 48, warps = 4 } }," }),
  { "11: families.sm80.tiles.bwd[1].n", "2 groups of warps", "a multiple of 32" })
refuses("a piece of dQ that is no whole fragment", gpu({ [11] = "        bwd = { { m = 16, n = 64, warps = 8 } }," }),
  { "11: families.sm80.tiles.bwd[1]", "dQ" })
refuses("more fragments of Q than there are", gpu({ [10] = "        fwd = { { m = 128, n = 64, q_kept = 9 } }," }),
  { "10: families.sm80.tiles.fwd[1].q_kept", "head_dim 64 has 4 mma steps" })
refuses("more fragments of K and V than there are", gpu({ [11] = "        bwd = { { m = 64, n = 64, warps = 4, kv_kept = 5 } }," }),
  { "11: families.sm80.tiles.bwd[1].kv_kept", "head_dim 64 has 4 mma steps" })
refuses("a field of the other pass", gpu({ [10] = "        fwd = { { m = 128, n = 64, part_m = 64 } }," }),
  { "10: families.sm80.tiles.fwd[1].part_m", "forward" })
refuses("warps that share queries and are no pairs", gpu({ [10] = "        fwd = { { m = 128, n = 64, warps = 3, d_split = 2 } }," }),
  { "10: families.sm80.tiles.fwd[1].warps", "whole groups of 2" })
refuses("keys that a pair of warps does not share evenly", gpu({ [10] = "        fwd = { { m = 128, n = 48, warps = 8, d_split = 2 } }," }),
  { "10: families.sm80.tiles.fwd[1].n", "a multiple of 32" })
refuses("a pair of warps for float32", gpu({ [3] = '  dtypes = { "f32" },', [10] = "        fwd = { { m = 64, n = 32, d_split = 2 } },",
  [11] = "        bwd = { { m = 32, n = 64, warps = 4 } }," }),
  { "10: families.sm80.tiles.fwd[1].d_split", "16-bit" })
refuses("too few threads to copy rows of a page", gpu({ [10] = "        fwd = { { m = 16, n = 64, warps = 1 } }," }),
  { "10: families.sm80.tiles.fwd[1].warps", "32 threads do not copy whole groups of 8 rows of 128 bytes" })
refuses("m that is no whole number of warps", gpu({ [10] = "        fwd = { { m = 96, n = 32, warps = 4 } }," }),
  { "10: families.sm80.tiles.fwd[1].m", "4 warps x 16 rows" })
refuses("m not a multiple of 8", gpu({ [10] = "        fwd = { { m = 100, n = 64 } }," }),
  { "10: families.sm80.tiles.fwd[1].m", "100 is not a multiple of 8", "96 or 104" })
refuses("m not a multiple of 16, forward", gpu({ [10] = "        fwd = { { m = 104, n = 64 } }," }),
  { "10: families.sm80.tiles.fwd[1].m", "104 queries are not whole fragments of 16", "96 or 112" })
refuses("m not a multiple of 16, backward", gpu({ [11] = "        bwd = { { m = 8, n = 64, warps = 4 } }," }),
  { "11: families.sm80.tiles.bwd[1].m", "8 queries are not whole fragments of 16", "; 16" })
refuses("stages that no backward tile has", gpu({ [11] = "        bwd = { { m = 32, n = 32, warps = 4, stages = 4 } }," }),
  { "11: families.sm80.tiles.bwd[1].stages", "4 stages of Q and dO", "2 or 3" })
refuses("a strategy for the forward pass", gpu({ [10] = '        fwd = { { m = 64, n = 64, strategy = "fused" } },' }),
  { "10: families.sm80.tiles.fwd[1].strategy", "forward" })
refuses("an unknown strategy", gpu({ [11] = '        bwd = { { m = 64, n = 64, strategy = "fusd" } },' }),
  { "11: families.sm80.tiles.bwd[1].strategy", 'did you mean "fused"?' })
refuses("spills without words", gpu({ [11] = "        bwd = { { m = 64, n = 64, warps = 4, spills = true } }," }),
  { "11: families.sm80.tiles.bwd[1].spills", "not a sentence" })

harness.case("the GPU family makes what its tiles say", function()
  local loaded, why = specs.open(gpu({}))
  harness.yes(loaded, why)
  harness.is(table.concat(specs.names(loaded), " "),
    "bwd_bf16_d128_causal__sm80_fused_m64n64 bwd_bf16_d64_causal__sm80_fused_m64n64 "
    .. "fwd_bf16_d128_causal__sm80_m128n64 fwd_bf16_d64_causal__sm80_m128n64")
  harness.is(table.concat(loaded.records[1].archs, " "), "80 90")
  harness.is(loaded.records[3].smem_bytes, 2 * 128 * (128 + 4 * 64))
end)

refuses("a kernel for dQ in a fused tile", gpu({ [11] = "        bwd = { { m = 64, n = 64, dq_m = 64 } }," }),
  { "11: families.sm80.tiles.bwd[1].dq_m", "a fused tile" })
refuses("dQ by key blocks in a split tile", gpu({ [11] = '        bwd = { { m = 64, n = 64, strategy = "split", dq_row_tiles = 2 } },' }),
  { "11: families.sm80.tiles.bwd[1].dq_row_tiles", "split" })
refuses("queries of dQ that are no whole number of warps",
  gpu({ [11] = '        bwd = { { m = 64, n = 64, strategy = "split", dq_m = 32, dq_warps = 4 } },' }),
  { "11: families.sm80.tiles.bwd[1].dq_m", "4 warps x 16 rows" })
refuses("queries of dQ beyond the padded rows",
  gpu({ [11] = '        bwd = { { m = 64, n = 64, strategy = "split", dq_m = 96, dq_warps = 2 } },' }),
  { "11: families.sm80.tiles.bwd[1].dq_m", "128" })
refuses("a kernel for dQ that does not fit", gpu({ [8] = "      archs = { 86 },",
  [11] = '        bwd = { { m = 32, n = 32, strategy = "split", dq_m = 128, dq_n = 64 } },' }),
  { "11: families.sm80.tiles.bwd[1]", "dQ kernel", "Q 128 x 128 x 2", "sm_86 has 101376" })

refuses("query heads shared out in a split tile", gpu({ [11] = '        bwd = { { m = 64, n = 64, strategy = "split", parts_from = 512 } },' }),
  { "11: families.sm80.tiles.bwd[1].parts_from", "all query heads of a key head" })
refuses("query heads shared out in a forward tile", gpu({ [10] = "        fwd = { { m = 64, n = 64, part_heads = 2 } }," }),
  { "10: families.sm80.tiles.fwd[1].part_heads", "forward" })
refuses("a part of less than no head", gpu({ [11] = "        bwd = { { m = 64, n = 64, part_heads = -1 } }," }),
  { "11: families.sm80.tiles.bwd[1].part_heads" })

harness.case("the default spec takes every architecture as one more word", function()
  local text = harness.read(harness.root .. "/spec/attention.lua")
  for _, arch in ipairs({ 86, 89, 100, 110, 120 }) do
    local more, count = text:gsub("archs = { 80, 87, 90 }", ("archs = { 80, 87, 90, %d }"):format(arch))
    harness.is(count, 1)
    local loaded, why = specs.open(more)
    harness.yes(loaded, ("with %d: %s"):format(arch, why or ""))
  end
end)

harness.case("a fused tile says how query heads are shared out, and its name too when it is not as usual", function()
  local usual = assert(specs.open(gpu({})))
  harness.is(usual.records[1].name, "bwd_bf16_d128_causal__sm80_fused_m64n64")
  harness.has(emit.table({ usual.records[1] }, "s"), ".image_count = 2, .part_heads = 1, .parts_from = 4096, .row_dim = 128},\n")
  harness.has(emit.table({ usual.records[3] }, "s"), ".image_count = 2, .row_dim = 128},\n")
  local other = assert(specs.open(gpu({ [11] = "        bwd = { { m = 64, n = 64, part_heads = 4, parts_from = 1 }, { m = 64, n = 64, part_heads = 0 } }," })))
  harness.is(other.records[1].name, "bwd_bf16_d128_causal__sm80_fused_h0_m64n64")
  harness.is(other.records[2].name, "bwd_bf16_d128_causal__sm80_fused_h4_m64n64")
  harness.has(emit.table({ other.records[2] }, "s"), ".part_heads = 4, .parts_from = 1, .row_dim = 128},\n")
  harness.has(explain.variant(other, other.records[2].name), "4 query heads")
end)

harness.case("a split tile has four kernels, one of them for sinks, and no sum of dQ", function()
  local loaded = assert(specs.open(gpu({ [11] = '        bwd = { { m = 64, n = 64, strategy = "split", dq_m = 64, dq_n = 32, up_to = 512 } },' })))
  local record = loaded.records[1]
  harness.is(record.name, "bwd_bf16_d128_causal__sm80_split_m64n64")
  local suffixes = {}
  for i, launch in ipairs(record.launches) do suffixes[i] = launch.suffix .. ":" .. launch.grid .. ":" .. tostring(launch.rows) end
  harness.is(table.concat(suffixes, " "),
    "_delta:GLINT_GPU_QUERY_BLOCKS:128 _sinks:GLINT_GPU_QUERY_HEADS:nil :GLINT_GPU_KEY_BLOCKS:64 _dq:GLINT_GPU_QUERY_BLOCKS:64")
  harness.is(record.smem_bytes, 2 * 64 * 256 + 4 * 64 * 256 + 64 * 64 * 2 + 4 * 64 * 4 + 2 * 8)
  harness.is(record.dq_smem_bytes, 2 * 64 * 256 + 4 * 32 * 256)
  local text = emit.kernel(record, "s", harness.root)
  harness.has(text, record.symbol .. "_delta(", record.symbol .. "(", record.symbol .. "_dq(")
  for _, word in ipairs({ "p.turn", "dq_sum", "red_four", "atom_" }) do
    harness.yes(not text:find(word, 1, true), word)
  end
  harness.has(emit.table(loaded.records, "s"), ".strategy = GLINT_GPU_SPLIT,\n     .first_launch = 0, .launch_count = 4,",
    ".sm = 80, .math = GLINT_MATH_NATIVE, .up_to = 512, .alignment_bytes = 16,")
end)

harness.case("a split tile has one more of each kernel for lengths of the device, and for ragged sequences", function()
  local function of(flags)
    local loaded = assert(specs.open(gpu({ [8] = "      archs = { 80, 90 }," .. flags,
      [11] = '        bwd = { { m = 64, n = 64, strategy = "split", dq_m = 64, dq_n = 32 } },' })))
    local shown = {}
    for i, launch in ipairs(loaded.records[1].launches) do shown[i] = launch.suffix .. ":" .. (launch.lengths or 0) .. (launch.sinks and "s" or "") end
    return table.concat(shown, " "), loaded.records[1]
  end
  local given = "_delta:0 _sinks:0s :0 _dq:0"
  local lengths, ragged = " _lengths_delta:1 _lengths_sinks:1s _lengths:1 _lengths_dq:1", " _ragged_delta:2 _ragged_sinks:2s _ragged:2 _ragged_dq:2"
  harness.is(of(" device_lengths = true, device_pages = true,"), given .. lengths)
  harness.is(of(" device_ragged = true,"), given .. ragged)
  local both, record = of(" device_lengths = true, device_ragged = true,")
  harness.is(both, given .. lengths .. ragged)
  harness.is(record.launches[5].smem_bytes, 48)
  harness.is(record.launches[8].smem_bytes - record.dq_smem_bytes, 48)
end)

-- What follows from a field that an override sets follows from the new value.
local function overridden(what, tile, set, name, fields)
  harness.case(what, function()
    local loaded, why = specs.open(gpu({ [11] = "        bwd = { " .. tile .. " },",
      [16] = '  override = { { family = "sm80", pass = "bwd", strategy = "fused", set = ' .. set .. ', reason = "x" } },' }))
    harness.yes(loaded, why)
    harness.is(loaded.records[1].name, "bwd_bf16_d128_causal__sm80_" .. name)
    for field, want in pairs(fields) do harness.is(loaded.records[1][field], want, field) end
  end)
end

overridden("an override makes a fused tile a split one", "{ m = 32, n = 64, warps = 4 }", '{ strategy = "split" }', "split_m32n64",
  { strategy_id = "GLINT_GPU_SPLIT", dq_m = 64, dq_n = 32, dq_warps = 4 })
overridden("an override halves the queries of a warp", "{ m = 64, n = 64, warps = 8 }", "{ d_split = 2 }", "fused_m64n64", { part_m = 32, phases = 4 })
overridden("an override of m is one of the queries of a warp", "{ m = 64, n = 64, warps = 4 }", "{ m = 32 }", "fused_m32n64", { part_m = 32 })
overridden("an override of a third stage takes the barriers away", "{ m = 32, n = 64, warps = 4 }", "{ stages = 3 }", "fused_m32n64",
  { phases = 0 })
refuses("an override of a field that the strategy lacks", gpu({
  [11] = '        bwd = { { m = 32, n = 64, strategy = "split" } },',
  [16] = '  override = { { family = "sm80", pass = "bwd", set = { dq_row_tiles = 1 }, reason = "x" } },' }),
  { "16: override[1].set.dq_row_tiles", "dQ is not made by key blocks" })

harness.case("GPU rows carry the names of their architectures", function()
  local loaded = assert(specs.open(gpu({})))
  harness.has(list.bzl(loaded.records, "s"), '"family": "sm80"', '"archs": ["80", "90"]', '"smem_bytes": 98304', '.cu"')
end)

harness.case("quotes and backslashes in a sentence stay inside their string", function()
  local loaded = assert(specs.open(gpu({ [10] = [[ fwd = { { m = 64, n = 64, spills = 'a "b" \\ c' } },]] })))
  harness.has(list.json(loaded.records), [["spills": "a \"b\" \\ c"]])
end)

harness.case("the budget of a GPU variant shows its arithmetic", function()
  local loaded = assert(specs.open(gpu({})))
  local text = explain.variant(loaded, "bwd_bf16_d64_causal__sm80_fused_m64n64")
  harness.has(text, "K 64 x 64 x 2", "sm_80", "sm_90", " of 166912 bytes", "bwd", "P" and "dS")
end)

harness.case("two warps that share queries have room for their weights", function()
  local loaded = assert(specs.open(gpu({ [10] = "        fwd = { { m = 128, n = 64, warps = 8, d_split = 2 } }," })))
  harness.is(loaded.records[3].smem_bytes, 2 * (128 * (128 + 4 * 64) + 128 * 64))
  harness.has(explain.variant(loaded, loaded.records[3].name), "P 128 x 64 x 2")
end)

-- ---- decode ----

local function decode(tile, changes)
  local all = { [2] = '  passes = { "dec" },', [10] = "        dec = { " .. tile .. " },", [11] = "" }
  for line, value in pairs(changes or {}) do all[line] = value end
  return gpu(all)
end

local DEC = "10: families.sm80.tiles.dec[1]"

harness.case("a decode tile is two kernels, which may begin before what is ahead has ended, and one row for all masks", function()
  local loaded, why = specs.open(decode("{ m = 8, n = 64, stages = 3, chunk_steps = 4 }"))
  harness.yes(loaded, why)
  local record = loaded.records[1]
  harness.is(table.concat(specs.names(loaded), " "), "dec_bf16_d128_causal__sm80_s3_m8n64 dec_bf16_d64_causal__sm80_s3_m8n64")
  harness.is(record.smem_bytes, 2 * 3 * 64 * 256 + 4 * 8 * 256 + 8 * 64 * 2 + 2 * 4 * 8 * 4)
  harness.has(emit.table(loaded.records, "s"), ".strategy = GLINT_GPU_DECODE,\n     .first_launch = 0, .launch_count = 2,",
    '{.name = "glint_dec_bf16_d128_causal__sm80_s3_m8n64", ', '.suffix = "", .grid = GLINT_GPU_DECODE_ITEMS, .rows = 8, .threads = 128, .smem_bytes = 107776, '
    .. ".blocks_per_sm = 1, .dependent = 1}",
    '_merge", .grid = GLINT_GPU_DECODE_MERGE, .rows = 2, .threads = 256, .smem_bytes = 4096, .dependent = 1}',
    ".row_dim = 128, .chunk_steps = 4, .span_chunks = 8},", ".pass = GLINT_FORWARD", ".queries_up_to = 8")
  local text = emit.kernel(record, "s", harness.root)
  harness.has(text, record.symbol .. "(", record.symbol .. "_merge(", "up to 8 queries", "spans of 2048")
  harness.has(explain.variant(loaded, record.name), "K 3 x 64 x 128 x 2 + V 3 x 64 x 128 x 2 + Q 4 x 8 x 128 x 2 + P 8 x 64 x 2", "= 107776")
end)

harness.case("a decode kernel for pages comes between the two, where the family says so", function()
  local loaded = assert(specs.open(decode("{ m = 8, n = 64 }", { [8] = "      archs = { 80, 90 }, device_pages = true," })))
  local suffixes = {}
  for i, launch in ipairs(loaded.records[1].launches) do suffixes[i] = launch.suffix .. (launch.pages or "") end
  harness.is(table.concat(suffixes, " "), " _pages1 _merge")
  harness.is(loaded.records[1].launches[2].smem_bytes, loaded.records[1].launches[1].smem_bytes) -- a warp's 16 rows lie in one page
  -- 128 rows: each of 4 warps has two runs of 16
  loaded = assert(specs.open(decode("{ m = 8, n = 128 }", { [8] = "      archs = { 80, 90 }, device_pages = true," })))
  harness.is(loaded.records[1].launches[2].smem_bytes - loaded.records[1].launches[1].smem_bytes, 4 * 2 * 16)
end)

harness.case("decode's blocks of a multiprocessor fit into its shared memory", function()
  local fits = specs.open(decode("{ m = 8, n = 64, stages = 3, blocks_per_sm = 2, archs = { 90 } }"))
  harness.yes(fits)
  harness.has(select(2, specs.open(decode("{ m = 8, n = 64, stages = 3, blocks_per_sm = 3, archs = { 90 } }"))),
    "blocks_per_sm: 3 blocks need 326400 bytes of shared memory, and a multiprocessor of sm_90 has 233472; fewer blocks, keys or stages")
end)

harness.case("with what the kernel for pages has besides", function()
  local function opens(flags)
    return specs.open(decode("{ m = 16, n = 256, stages = 4, blocks_per_sm = 3, archs = { 90 } }",
      { [4] = "  head_dims = { 16 },", [8] = "      archs = { 90 }," .. flags }))
  end
  harness.yes(opens(""))
  harness.has(select(2, opens(" device_pages = true,")), -- 4 runs of 16 bytes for each of 4 warps
    ("blocks_per_sm: 3 blocks need %d bytes of shared memory"):format(3 * (76800 + 4 * 4 * 16 + 1024)))
end)

harness.case("decode has more kernels for ragged sequences, and both of them in pages, where the family says so", function()
  local function suffixes(flags)
    local shown = {}
    for i, launch in ipairs(assert(specs.open(decode("{ m = 8, n = 64 }", { [8] = "      archs = { 80, 90 }," .. flags }))).records[1].launches) do
      shown[i] = launch.suffix .. (launch.lengths or 0) .. (launch.pages or 0)
    end
    return table.concat(shown, " ")
  end
  harness.is(suffixes(" device_ragged = true,"), "00 _ragged20 _merge00 _ragged_merge20")
  harness.is(suffixes(" device_pages = true, device_ragged = true,"), "00 _pages01 _ragged20 _ragged_pages21 _merge00 _ragged_merge20")
end)

harness.case("of 8 bits too, with room for where the scales of a run are", function()
  local loaded = assert(specs.open(decode("{ m = 8, n = 128 }", { [3] = '  dtypes = { "bf16" }, kv_dtypes = { "i8" },',
    [8] = "      archs = { 80, 90 }, device_pages = true," })))
  local main, pages = loaded.records[1].launches[1], loaded.records[1].launches[2]
  harness.is(pages.suffix, "_pages")
  harness.is(pages.smem_bytes - main.smem_bytes, 4 * 2 * 32)
end)

harness.case("how many queries a decode row is taken for, a tile may say", function()
  local loaded = assert(specs.open(decode("{ m = 8, n = 64, queries_up_to = 3 }")))
  harness.is(loaded.records[1].queries_up_to, 3)
  harness.is(loaded.records[1].stages, 2)
  harness.has(emit.table(loaded.records, "s"), ".queries_up_to = 3")
end)

refuses("8-bit K and V whose rows are not whole pieces of 16 bytes", decode("{ m = 8, n = 64 }",
  { [3] = '  dtypes = { "bf16" }, kv_dtypes = { "i8" },', [4] = "  head_dims = { 72 }," }), { DEC, "head_dim 72 is not whole pieces", "a multiple of 16" })
refuses("8-bit K and V of float16", decode("{ m = 8, n = 64 }", { [3] = '  dtypes = { "f16" }, kv_dtypes = { "i8" },' }),
  { "7: families.sm80", "has no kernel for anything", "such as dec_f16_i8_d64_causal", "leave the family out" })
refuses("a decode tile for float32", decode("{ m = 8, n = 64 }", { [3] = '  dtypes = { "f32" },' }), { DEC, "16-bit dtypes" })
refuses("other warps than a merge has lanes for", decode("{ m = 8, n = 128, warps = 8 }"), { DEC .. ".warps", "sums of 4" })
refuses("rows that are no pairs of fragments", decode("{ m = 24, n = 64 }"), { DEC .. ".m", "24 rows", "8, or a multiple of 16" })
refuses("keys that 4 warps do not share", decode("{ m = 8, n = 96 }"), { DEC .. ".n", "96 keys", "a multiple of 64" })
refuses("stages beyond what a wait leaves", decode("{ m = 8, n = 64, stages = 7 }"), { DEC .. ".stages", "7 is out of range", "from 1 to 6" })
refuses("steps of a chunk that a warp does not fold", decode("{ m = 8, n = 64, chunk_steps = 6 }"), { DEC .. ".chunk_steps", "not 6" })
refuses("a field of the forward pass in a decode tile", decode("{ m = 8, n = 64, q_kept = 1 }"), { DEC .. ".q_kept", "a decode tile has none" })
refuses("columns shared by warps in a decode tile", decode("{ m = 8, n = 64, d_split = 2 }"), { DEC .. ".d_split", "a decode tile has none" })
refuses("a field of decode in a forward tile", gpu({ [10] = "        fwd = { { m = 128, n = 64, chunk_steps = 8 } }," }),
  { "10: families.sm80.tiles.fwd[1].chunk_steps", "a forward tile has none", "tiles.dec" })
refuses("a decode tile beyond an architecture's shared memory", decode("{ m = 8, n = 64, stages = 3 }", { [8] = "      archs = { 86 }," }),
  { DEC, "at head_dim 128 the dec kernel needs", "= 107776 bytes", "sm_86 has 101376" })

-- ---- a server's step ------------------------------------------------------------------------------------------------

local FWD = "10: families.sm80.tiles.fwd[1]"

local function stepped(tile, changes)
  local all = { [10] = ("        fwd = { %s },"):format(tile) }
  for line, text in pairs(changes or {}) do all[line] = text end
  return gpu(all)
end

harness.case("sm80: where a spec says step, each forward key that has one has a row of it besides", function()
  local made = assert(specs.open('return { passes = { "fwd" }, dtypes = { "f32", "bf16" }, head_dims = { 72, 256 }, '
    .. 'masks = { "none", "band", "interval" }, families = { sm80 = { archs = { 86, 120 }, step = true } } }'))
  local names = {}
  for _, record in ipairs(made.records) do
    if record.step then
      names[#names + 1] = record.name
      harness.is(table.concat(record.archs, " "), record.head_dim == 256 and "86" or "86 120") -- it would spill registers on sm_120
    end
  end
  harness.is(table.concat(names, " "), "fwd_bf16_d256_band__sm80_step_m64n32 fwd_bf16_d256_interval__sm80_step_m64n32 "
    .. "fwd_bf16_d256_none__sm80_step_m64n32 fwd_bf16_d72_band__sm80_step_m64n128 fwd_bf16_d72_interval__sm80_step_m64n128 "
    .. "fwd_bf16_d72_none__sm80_step_m64n128")
  local wrong = 'return { passes = { "fwd" }, dtypes = { "bf16" }, head_dims = { %d }, masks = { "none" }, '
    .. 'families = { sm80 = { archs = { %s }, tiles = { fwd = { { step = true, m = 64, n = %d } } } } } }'
  local _, why = specs.open(wrong:format(256, "80, 100", 32))
  harness.has(why, "a step of head_dim 256 would spill registers on sm_100")
  _, why = specs.open(wrong:format(192, "80", 128))
  harness.has(why, "tiles of 64 keys at head_dim 192")
  _, why = specs.open(wrong:format(264, "80", 32))
  harness.has(why, "O of head_dim 264 takes more registers than there are")
end)

harness.case("sm80: a step has one kernel for all kinds of sequences, which takes everything", function()
  local record
  for _, one in ipairs(assert(specs.open(stepped('{ step = true, m = 64, n = 128 }'))).records) do
    if one.pass == "fwd" and one.head_dim == 128 then record = one end
  end
  harness.is(record.name, "fwd_bf16_d128_causal__sm80_step_m64n128")
  harness.is(record.smem_bytes, 64 * 256 + 2 * 128 * 256 + 96 + 64)
  harness.is(table.concat(record.takes, " "), "lengths ragged pages ragged_pages sinks canonical")
  harness.is(record.chunk_steps, 8)
  harness.is(#record.launches, 3)
  harness.has(explain.variant(assert(specs.open(stepped('{ step = true, m = 64, n = 128 }'))), record.name), "spans from 1024 keys")
end)

refuses("a step's tile of other rows", stepped('{ step = true, m = 128, n = 128 }'), { FWD .. ".m", "four warps have 16 rows each" })
refuses("a step's tile of other keys", stepped('{ step = true, m = 64, n = 64 }'), { FWD .. ".n", "tiles of 128 keys at head_dim", "; 128" })
refuses("spans of half tiles", stepped('{ step = true, m = 64, n = 128, span = 192 }'), { FWD .. ".span", "whole tiles of 128 keys" })
refuses("bounds of a cache the wrong way round", stepped('{ step = true, m = 64, n = 128, cache_from = 300 }'),
  { FWD, "below cache_from", "300" })
refuses("a step's field in another tile", stepped("{ m = 128, n = 64, span = 1024 }"), { FWD .. ".span", "is a step's", "step = true" })
refuses("a bound of lengths in a step's tile", stepped('{ step = true, m = 64, n = 128, up_to = 512 }'), { FWD .. ".up_to", "a step has none of its own" })
refuses("a step backward", gpu({ [11] = '        bwd = { { m = 64, n = 64, step = true } },' }),
  { "11: families.sm80.tiles.bwd[1].step", "a backward tile has none" })
