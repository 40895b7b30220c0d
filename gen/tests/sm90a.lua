-- The sm90a family: what its tiles say, what follows from them, and its limits.
local emit = require("gen.emit")
local harness = require("gen.tests.harness")
local records_of = require("gen.records")
local sm90a = require("gen.families.sm90a")

local function record(fields)
  local made = { family = "sm90a", pass = "fwd", dtype = "bf16", dtype_bytes = 2, head_dim = 128, mask = "none", causal = false, m = 192, n = 80,
    archs = { "90a" }, symbol = "glint_x", name = "x" }
  for name, value in pairs(fields or {}) do made[name] = value end
  sm90a.complete(made)
  return made
end

local function mistakes(fields)
  local found = {}
  sm90a.check(record(fields), function(field, wrong) found[#found + 1] = field .. ": " .. wrong end)
  return table.concat(found, "\n")
end

harness.case("sm90a: registers go to those that compute, and the loaders keep the rest", function()
  harness.is(record().registers, 160)
  harness.is(record().producer_registers, 32) -- 4 x 128 - 3 x 160
  harness.is(record({ m = 128, n = 128 }).registers, 232)
  harness.is(record({ m = 128, n = 128 }).producer_registers, 40) -- 3 x 168 - 2 x 232
end)

harness.case("sm90a: shared memory, maps and the counter follow from the tile", function()
  local none, causal = record(), record({ causal = true, mask = "causal" })
  harness.is(none.smem_bytes, 192 * 256 + 4 * 80 * 256 + 16 + 64 + 40)
  harness.is(causal.smem_bytes, none.smem_bytes + 32)
  harness.is(none.zero_words, nil)
  harness.is(causal.zero_words, 1)
  harness.is(#none.maps, 3)
  harness.is(none.maps[2].rows, 80)
  harness.is(none.maps[2].slabs, 2)
  harness.is(none.launches[1].blocks_per_sm, 1)
  harness.is(record({ m = 64, n = 64, schedule = "short", blocks_per_sm = 2 }).launches[1].blocks_per_sm, nil)
end)

harness.case("sm90a: where lengths are read there is a second kernel, with a counter and scanners", function()
  local none = record({ device_lengths = true })
  local short = record({ device_lengths = true, m = 64, n = 64, schedule = "short", blocks_per_sm = 2 })
  harness.is(#none.launches, 2)
  harness.is(none.launches[2].suffix, "_lengths")
  harness.is(none.launches[2].smem_bytes, none.smem_bytes - 40 + 144 + 32)
  harness.is(none.launches[2].threads, 512)
  harness.is(none.launches[2].lengths, 1)
  harness.is(none.zero_words, nil)
  harness.is(none.lengths_words, 1)
  harness.is(short.lengths_words, nil)
  harness.is(short.launches[2].smem_bytes, short.smem_bytes)
end)

harness.case("sm90a: one more kernel takes ragged sequences, with lengths or without", function()
  local none, causal = record({ device_ragged = true }), record({ device_ragged = true, device_lengths = true, mask = "causal", causal = true })
  local short = record({ device_ragged = true, m = 64, n = 64, schedule = "short", blocks_per_sm = 2 })
  harness.is(#none.launches, 2)
  harness.is(none.launches[2].suffix, "_ragged")
  harness.is(none.launches[2].lengths, 2)
  harness.is(none.launches[2].smem_bytes, none.smem_bytes - 40 + 144 + 32 + 1600 + 12 * 32)
  harness.is(none.lengths_words, 1)
  harness.is(#causal.launches, 3)
  harness.is(causal.launches[3].suffix, "_ragged")
  harness.is(causal.launches[3].smem_bytes, causal.launches[2].smem_bytes + 1600 + 12 * 32)
  harness.is(short.lengths_words, nil)
  harness.is(short.launches[2].smem_bytes, short.smem_bytes + 8 + 288)
end)

harness.case("sm90a: intervals wait in the queue of tiles, in every kernel, whose loader fits 32 registers", function()
  local function interval(fields)
    fields.mask, fields.causal, fields.bounds_first, fields.intervals = "interval", true, true, true
    return fields
  end
  local made = record(interval({ n = 64, device_lengths = true, device_ragged = true }))
  local short = record(interval({ device_ragged = true, m = 64, n = 64, head_dim = 64, schedule = "short" }))
  harness.is(made.smem_bytes, 192 * 256 + 4 * 64 * 256 + 16 + 64 + 3 * (32 + 16 + 3 * 16 + 192 * 8 + 16) + 32 + 16)
  harness.is(made.launches[2].smem_bytes, made.smem_bytes)
  harness.is(made.launches[3].smem_bytes, made.smem_bytes + 1600 + 12 * 32)
  harness.is(made.registers, 160)
  harness.is(made.producer_registers, 32)
  harness.is(made.zero_words, 1)
  harness.is(short.smem_bytes, 64 * 128 + 4 * 64 * 128 + 8 + 32 + 64 * 8)
  harness.is(short.launches[2].smem_bytes, short.smem_bytes + 8 + 288)
  harness.is(mistakes(interval({ n = 64 })), "")
  harness.is(mistakes(interval({ n = 64, registers = 152 })), "")
  harness.has(mistakes(interval({ n = 64, registers = 168 })), "registers: leaves 8 a thread that loads")
  harness.has(mistakes(interval({ n = 64, dynamic = false })), "dynamic: tiles with intervals are taken one after another")
  harness.is(mistakes(interval({ m = 128, n = 128, schedule = "step" })), "")
  harness.has(mistakes(interval({ m = 128, n = 64, head_dim = 256, schedule = "step" })), "m: a step with intervals has no kernel for head_dim 256")
  harness.is(sm90a.lacks({ pass = "fwd", mask = "tree", head_dim = 128 }), false)
  harness.is(sm90a.lacks({ pass = "fwd", mask = "tree", head_dim = 192 }), true)
  -- with a softcap, 112 numbers beside 160 registers spilled
  harness.has(mistakes(interval({ n = 128, head_dim = 32, capped = true })), "112 numbers a thread, which has 160 registers")
  harness.is(mistakes(interval({ n = 112, head_dim = 32, capped = true })), "")
  harness.is(mistakes(interval({ n = 128, head_dim = 32 })), "")
  local key = { pass = "fwd", dtype = "bf16", kv_dtype = "same", head_dim = 32, mask = "interval", softcap = "softcap" }
  harness.has(sm90a.candidates(key)[1].how, "m192n112")
end)

harness.case("sm90a: the fused backward has one kernel of keys for lengths and ragged sequences, the split one two of each beyond 128", function()
  local function suffixes(fields)
    fields.pass, fields.m, fields.n = "bwd", 64, 128
    local made, shown = record(fields), {}
    for i, launch in ipairs(made.launches) do shown[i] = launch.suffix .. (launch.lengths or 0) end
    return table.concat(shown, " "), made
  end
  local plain, none = suffixes({})
  local both, all = suffixes({ device_lengths = true, device_ragged = true })
  harness.is(plain, "_delta0 _sinks0 0")
  harness.is((suffixes({ device_lengths = true })), plain .. " _lengths_delta1 _lengths_sinks1 _sequences1")
  harness.is((suffixes({ device_ragged = true })), plain .. " _ragged_delta2 _ragged_sinks2 _sequences2")
  harness.is(both, plain .. " _lengths_delta1 _lengths_sinks1 _sequences1 _ragged_delta2 _ragged_sinks2 _sequences2")
  harness.is(all.smem_bytes, none.smem_bytes)
  harness.is(all.launches[4].smem_bytes, 32 * 48)
  harness.is(all.launches[5].smem_bytes, 32)
  harness.is(all.launches[5].sinks, 1)
  harness.is(all.launches[6].smem_bytes, none.smem_bytes + 8 + 32 + 2 * 64)
  harness.is(all.launches[6].blocks_per_sm, 1)
  harness.is(all.launches[7].smem_bytes, 32 * 48)
  harness.is((suffixes({ device_lengths = true, device_ragged = true, strategy = "split" })), "_delta0 _sinks0 0 _dq0")
  local split = "_delta0 _sinks0 0 _dq0 _lengths_delta1 _lengths_sinks1 _lengths1 _lengths_dq1"
  local shown, wide = suffixes({ device_lengths = true, device_ragged = true, head_dim = 192, strategy = "split" })
  harness.is(shown, split .. " _ragged_delta2 _ragged_sinks2 _ragged2 _ragged_dq2")
  harness.is((suffixes({ device_lengths = true, head_dim = 192, strategy = "split" })), split)
  for i, bytes in ipairs({ 304, 32, (wide.smem_bytes + 15) // 16 * 16 + 304, (wide.dq_smem_bytes + 15) // 16 * 16 + 304 }) do
    harness.is(wide.launches[4 + i].smem_bytes, bytes)
  end
  harness.is(table.concat(sm90a.row(wide).untimed, " "), "lengths ragged")
  harness.is(sm90a.row(select(2, suffixes({ head_dim = 192, strategy = "split" }))).untimed, nil)
  harness.is(sm90a.row(all).untimed, nil)
end)

harness.case("sm90a: backward with intervals blocks' steps wait in a queue of their own, and only fused kernels have one", function()
  local function interval(fields)
    fields.pass, fields.mask, fields.causal, fields.bounds_first, fields.intervals = "bwd", "interval", true, true, true
    return fields
  end
  local band = record({ pass = "bwd", mask = "band", causal = true, bounds_first = true, head_dim = 64, m = 128, n = 128 })
  local made = record(interval({ head_dim = 64, m = 128, n = 128 }))
  local lengths = record(interval({ head_dim = 64, m = 128, n = 128, device_lengths = true, device_ragged = true }))
  harness.is(made.smem_bytes, band.smem_bytes + 8 + 32 + 2 * 64)
  harness.is(made.block_keys, 1)
  harness.is(band.block_keys, nil)
  harness.is(lengths.smem_bytes, made.smem_bytes)
  harness.is(lengths.launches[#lengths.launches].smem_bytes, made.smem_bytes + 64)
  harness.has(lengths.smem[2].text, "units = ")
  harness.is(mistakes(interval({ head_dim = 64, m = 128, n = 128, device_lengths = true })), "")
  harness.has(mistakes(interval({ head_dim = 64, m = 64, n = 128, strategy = "split" })), "strategy: only fused kernels read intervals")
  harness.is(sm90a.lacks({ pass = "bwd", mask = "interval", head_dim = 192 }), true)
  harness.is(sm90a.lacks({ pass = "bwd", mask = "interval", head_dim = 128 }), false)
end)

harness.case("sm90a: names say the schedule and are read back", function()
  harness.is(sm90a.how(record()), "sm90a_m192n80")
  harness.is(sm90a.how(record({ m = 64, n = 64, schedule = "short" })), "sm90a_short_m64n64")
  harness.is(sm90a.parse("sm90a_short_m64n64").n, 64)
  harness.is(sm90a.parse("sm80_m64n64"), nil)
end)

harness.case("sm90a: the limits", function()
  harness.is(mistakes(), "")
  harness.has(mistakes({ n = 128 }), "scores, weights and O are 160 numbers")
  harness.has(mistakes({ head_dim = 256, m = 128, n = 128 }), "bytes of shared memory, and a block has 232448")
  harness.has(mistakes({ m = 64 }), "two or three warpgroups")
  harness.has(mistakes({ m = 128, n = 64, schedule = "short" }), "a short tile is one warpgroup's")
  harness.has(mistakes({ m = 64, n = 64, head_dim = 64, schedule = "short", blocks_per_sm = 8 }), "numbers a thread")
  harness.has(mistakes({ head_dim = 40 }), "slabs of 32 or 64 columns")
  harness.has(mistakes({ dtype = "f32", dtype_bytes = 4 }), "16-bit")
  harness.has(mistakes({ m = 128, n = 64, registers = 240, blocks_per_sm = 2 }), "a multiprocessor to itself")
  harness.is(mistakes({ n = 64, mask = "band", causal = true, bounds_first = true }), "")
  harness.has(mistakes({ n = 48, mask = "band", causal = true, bounds_first = true }), "up to 3 blocks of keys apart, and there are 2 stages")
  harness.is(mistakes({ n = 48, stages = 3, mask = "band", causal = true, bounds_first = true }), "")
  harness.is(mistakes({ n = 96, head_dim = 96 }), "")
  harness.has(mistakes({ n = 112, head_dim = 96 }), "132 numbers a thread, which has 160")
end)

local function backward(fields)
  local made = { pass = "bwd", m = 64, n = 128 }
  for name, value in pairs(fields or {}) do made[name] = value end
  return made
end

harness.case("sm90a: the backward is fused up to head_dim 128, and split beyond", function()
  local fused, split = record(backward()), record(backward({ head_dim = 256, n = 64 }))
  harness.is(sm90a.how(fused), "sm90a_fused_m64n128")
  harness.is(sm90a.how(split), "sm90a_split_m64n64")
  harness.is(fused.smem_bytes, 2 * 128 * 256 + 4 * 64 * 256 + 4 * 64 * 4 + 2 * 64 * 512 + 2 * 64 * 256 + 8 * 27 + 16)
  harness.is(split.smem_bytes, 2 * 64 * 512 + 4 * 64 * 512 + 4 * 64 * 4 + 2 * 64 * 256 + 8 * 14)
  harness.is(split.dq_smem_bytes, 2 * 128 * 512 + 3 * 64 * 512 + 8 * 8)
  harness.is(fused.launches[3].blocks_per_sm, 1)
  harness.is(#fused.launches, 3)
  harness.is(#split.launches, 4)
  harness.is(split.launches[3].blocks_per_sm, nil)
  harness.is(#fused.maps, 7)
  harness.is(split.maps[7].tensor, "GLINT_GPU_DV")
end)

harness.case("sm90a: the limits of the backward", function()
  harness.is(mistakes(backward()), "")
  harness.is(mistakes(backward({ m = 128, head_dim = 64 })), "")
  harness.is(mistakes(backward({ n = 64, head_dim = 192 })), "")
  harness.is(mistakes(backward({ strategy = "split" })), "")
  harness.has(mistakes(backward({ m = 128 })), "128 queries x 128 keys are not what the fused kernels are made for")
  harness.has(mistakes(backward({ head_dim = 192, n = 64, strategy = "fused" })), "too few at head_dim 192")
  harness.is(mistakes(backward({ head_dim = 96 })), "")
  harness.has(mistakes(backward({ head_dim = 96, strategy = "split" })), "strategy: head_dim 96 has fused kernels only")
  harness.has(mistakes(backward({ head_dim = 96, m = 128 })), "128 queries x 128 keys are not what the fused kernels are made for")
  for _, head_dim in ipairs({ 32, 160, 224 }) do
    harness.has(mistakes(backward({ head_dim = head_dim })), ("there are no kernels of head_dim %d"):format(head_dim))
  end
  harness.has(mistakes(backward({ dtype = "f32", dtype_bytes = 4 })), "16-bit")
  harness.has(mistakes(backward({ turns = true })), "turns: is the forward's")
  harness.has(mistakes({ strategy = "split" }), "strategy: is the backward's")
  harness.is(mistakes(backward({ part_heads = 2 })), "")
  harness.has(mistakes(backward({ part_heads = 2, strategy = "split" })), "part_heads: a block of the split kernels takes all query heads")
  harness.has(mistakes({ part_heads = 2 }), "part_heads: is the backward's")
end)

harness.case("sm90a: forward tiles of other head dims are proposed, and go", function()
  for _, head_dim in ipairs({ 32, 96, 160, 192, 224 }) do
    local key = { pass = "fwd", dtype = "bf16", dtype_bytes = 2, head_dim = head_dim, mask = "causal", causal = true }
    local found = sm90a.candidates(key)
    assert(#found >= 2, "nothing is proposed for head_dim " .. head_dim)
    for _, candidate in ipairs(found) do
      assert(sm90a.fits(key, candidate.tile), candidate.how)
      assert(candidate.tile.n >= 64, "so few keys a step: " .. candidate.how)
    end
  end
  harness.is(sm90a.candidates({ pass = "fwd", dtype = "bf16", dtype_bytes = 2, head_dim = 96, mask = "none", causal = false })[1].how, "sm90a_m192n96")
  harness.is(sm90a.candidates({ pass = "fwd", dtype = "bf16", dtype_bytes = 2, head_dim = 96, mask = "causal", causal = true })[1].how, "sm90a_m192n96")
  harness.is(#sm90a.candidates({ pass = "fwd", dtype = "f32", dtype_bytes = 4, head_dim = 96, mask = "none", causal = false }), 0)
  harness.is(#sm90a.candidates({ pass = "bwd", dtype = "bf16", dtype_bytes = 2, head_dim = 96, mask = "none", causal = false }), 0)
end)

harness.case("sm90a: the least length that a row is for is in the table", function()
  local loaded = assert(records_of(harness.file([[return {
    passes = { "fwd" }, dtypes = { "bf16" }, head_dims = { 64 }, masks = { "causal" },
    families = { sm90a = { archs = { "90a" }, step = true } } }]])))
  for _, row in ipairs(loaded.records) do
    if row.schedule == "step" then harness.yes(emit.table({ row }, "s"):find((".least = %d"):format(row.least), 1, true), row.name) end
  end
end)

harness.case("sm90a: a step alone reads K and V of 8 bits, of bf16, whose bytes come in pieces", function()
  local function narrow(fields)
    local made = { m = 128, n = 128, schedule = "step", kv_dtype = "i8", narrow = true, mask = "causal", causal = true }
    for name, value in pairs(fields) do made[name] = value end
    return made
  end
  local made = record(narrow({}))
  harness.is(made.smem_bytes, 128 * 256 + 3 * 128 * 256 + 8 * 32 * 128 + 128 * 512 + 4 * 512 + 64 + 3 * 32 + 16 * 8 + 3 * 112)
  harness.is(made.maps[2].swizzle, "TENSOR_MAP_NO_SWIZZLE")
  harness.is(made.maps[2].rows, 32)
  harness.is(made.maps[2].slabs, nil)
  harness.is(made.maps[1].packed, 1)
  harness.is(mistakes(narrow({})), "")
  harness.is(mistakes(narrow({ head_dim = 64, stages = 4 })), "")
  harness.has(mistakes(narrow({ dtype = "f16" })), "m: weights times scales of V may leave the range of f16")
  harness.has(mistakes(narrow({ stages = 2 })), "stages: a tile of K, one of V and the next one are in shared memory")
  harness.has(mistakes(narrow({ schedule = "persistent" })), "schedule: only a step reads K and V of 8 bits")
  harness.is(sm90a.lacks({ narrow = true, pass = "fwd", dtype = "bf16", mask = "causal", head_dim = 128 }), false)
  harness.is(sm90a.lacks({ narrow = true, pass = "fwd", dtype = "f16", mask = "causal", head_dim = 128 }), true)
  harness.is(sm90a.lacks({ narrow = true, pass = "fwd", dtype = "bf16", mask = "tree", head_dim = 96 }), false)
  harness.is(sm90a.lacks({ narrow = true, pass = "fwd", dtype = "bf16", mask = "tree", head_dim = 128 }), true)
  harness.is(sm90a.lacks({ narrow = true, pass = "dec", dtype = "bf16", mask = "causal", head_dim = 128 }), true)
end)

harness.case("sm90a: a step of head_dim 80 has slabs that are not whole, and one of 256 keeps O of the spans before in the workspace", function()
  local function step(fields)
    local made = { m = 128, n = 128, schedule = "step", mask = "causal", causal = true }
    for name, value in pairs(fields) do made[name] = value end
    return made
  end
  local odd, wide = record(step({ head_dim = 80, stages = 3 })), record(step({ head_dim = 256, n = 64 }))
  harness.is(odd.slabs, 3)
  harness.is(odd.maps[2].slabs, 0)
  harness.is(odd.maps[2].columns, 32)
  harness.is(odd.smem_bytes, 128 * 192 + 6 * 128 * 192 + 128 * 320 + 32 + 3 * 48 + 3 * 112)
  harness.is(odd.folded, nil)
  harness.is(wide.maps[2].slabs, 4)
  harness.is(wide.smem_bytes, 128 * 512 + 4 * 64 * 512 + 8192 + 32 + 2 * 48 + 3 * 112)
  harness.is(wide.folded, 1)
  harness.is(mistakes(step({ head_dim = 80, stages = 3 })), "")
  harness.is(mistakes(step({ head_dim = 256, n = 64 })), "")
  harness.has(mistakes(step({ head_dim = 256 })), "m: the order of a step's sums is that of tiles of 64 keys, for two warpgroups")
  harness.has(mistakes(step({ head_dim = 72 })), "m: a step has no kernel for head_dim 72")
  local bytes = record(step({ head_dim = 256, n = 64, narrow = true, kv_dtype = "i8" }))
  harness.is(bytes.smem_bytes, 128 * 512 + 3 * 64 * 512 + 6 * 32 * 256 + 8192 + 16 * 64 + 64 + 3 * 32 + 6 * 16 + 3 * 112)
  harness.is(mistakes(step({ head_dim = 80, stages = 3, narrow = true, kv_dtype = "i8" })), "")
  harness.has(mistakes(step({ head_dim = 128, narrow = true, kv_dtype = "i8", mask = "interval", causal = false, intervals = true })),
    "m: a step with intervals over 8 bits has no kernel for head_dim 128")
end)
