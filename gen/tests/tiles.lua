-- The tiles that nobody wrote into a spec: those that were measured, those that are proposed, and what is said of each.
local explain = require("gen.explain")
local harness = require("gen.tests.harness")
local registry = require("gen.registry")
local specs = require("gen.tests.specs")
local text = require("gen.text")
local tiles = require("gen.tiles")

local sm80, cpu = registry.get("sm80"), registry.get("cpu")
local PASSES, MASKS = { "fwd", "bwd" }, { "none", "causal" }

-- A spec without a tile.
local function plain(dtypes, head_dims, families, more)
  return ([[
return {
  passes = { "fwd", "bwd" },
  dtypes = { %s },
  head_dims = { %s },
  masks = { "none", "causal" },
  families = { %s },
  %s
}
]]):format(dtypes, head_dims, families, more or "")
end

local function open(source)
  local loaded, why = specs.open(source)
  harness.yes(loaded, why)
  return loaded
end

local function of_pass(loaded, pass)
  local found = {}
  for _, record in ipairs(loaded.records) do
    if record.pass == pass then found[#found + 1] = record end
  end
  return found
end

local ALL_ARCHS = "archs = { 80, 86, 87, 89, 90, 100, 110, 120 }"
local ALL_ISAS = 'isas = { "x86_64", "x86_64_v3", "x86_64_v4", "x86_64_amx", "aarch64" }'

local function every_eighth(last)
  local dims = {}
  for head_dim = 8, last, 8 do dims[#dims + 1] = head_dim end
  return table.concat(dims, ", ")
end

-- What the records must have for every key on every target.
-- An ISA may have kernels for some dtypes and passes only.
local function targets_of(family, key)
  return family == cpu and cpu.targets({ isas = cpu.all_targets }, key) or family.all_targets
end

local function covers(loaded, family, dtypes, last)
  local made = {}
  for _, record in ipairs(loaded.records) do
    for _, target in ipairs(family.covers(record)) do
      made[table.concat({ record.pass, record.dtype, record.head_dim, record.mask, target }, " ")] = true
    end
  end
  for _, pass in ipairs(PASSES) do
    for _, dtype in ipairs(dtypes) do
      for _, mask in ipairs(MASKS) do
        for head_dim = 8, last, 8 do
          for _, target in ipairs(targets_of(family, { pass = pass, dtype = dtype })) do
            local key = table.concat({ pass, dtype, head_dim, mask, target }, " ")
            harness.yes(made[key], "nothing for " .. key)
          end
        end
      end
    end
  end
end

harness.case("every multiple of 8 up to 256 expands for every architecture in 16 bits", function()
  covers(open(plain('"f16", "bf16"', every_eighth(256), "sm80 = { " .. ALL_ARCHS .. " }")), sm80, { "f16", "bf16" }, 256)
end)

harness.case("every multiple of 8 up to 256 expands for every architecture in float32", function()
  covers(open(plain('"f32"', every_eighth(256), "sm80 = { " .. ALL_ARCHS .. " }")), sm80, { "f32" }, 256)
end)

harness.case("an exclusion covers what fits some architectures only", function()
  local decode = plain('"bf16"', "64, 352", "sm80 = { archs = { 86, 90 } }", "%s"):gsub('"fwd", "bwd"', '"dec"')
  local loaded, why = specs.open(decode:format(""))
  harness.yes(loaded == nil)
  harness.has(why, "no tile for dec_bf16_d352_causal fits sm_86")
  loaded = open(decode:format('exclude = { { pass = "dec", dtype = "bf16", head_dim = 352, reason = "too large for 99 KiB" } },'))
  harness.is(#of_pass(loaded, "dec"), 2)
  harness.yes(#loaded.excluded > 0)
end)

harness.case("every multiple of 8 up to 256 decodes on every architecture in 16 bits, by one row for all masks", function()
  local source = plain('"f16", "bf16"', every_eighth(256), "sm80 = { " .. ALL_ARCHS .. " }"):gsub('"fwd", "bwd"', '"dec"')
  local made = {}
  for _, record in ipairs(open(source).records) do
    harness.is(record.mask, "causal")
    for _, arch in ipairs(record.archs) do
      local key = ("%s %d %s"):format(record.dtype, record.head_dim, arch)
      made[key] = (made[key] or 0) + 1
    end
  end
  for _, dtype in ipairs({ "f16", "bf16" }) do
    for head_dim = 8, 256, 8 do
      for _, arch in ipairs(sm80.all_targets) do
        local key = ("%s %d %s"):format(dtype, head_dim, arch)
        harness.is(made[key], 1, key)
      end
    end
  end
end)

harness.case("every multiple of 16 up to 256 decodes caches of 8 bits on every architecture", function()
  local dims = {}
  for head_dim = 16, 256, 16 do dims[#dims + 1] = head_dim end
  local source = plain('"bf16"', table.concat(dims, ", "), "sm80 = { " .. ALL_ARCHS .. " }"):gsub('"fwd", "bwd"', '"dec"')
    :gsub("head_dims =", 'kv_dtypes = { "i8", "e4m3" },\n  head_dims =', 1)
  local made = {}
  for _, record in ipairs(open(source).records) do
    harness.is(record.padded_dim % 32, 0)
    for _, arch in ipairs(record.archs) do made[("%s %d %s"):format(record.kv_dtype, record.head_dim, arch)] = true end
  end
  for _, kv_dtype in ipairs({ "i8", "e4m3" }) do
    for _, head_dim in ipairs(dims) do
      for _, arch in ipairs(sm80.all_targets) do
        local key = ("%s %d %s"):format(kv_dtype, head_dim, arch)
        harness.yes(made[key], key)
      end
    end
  end
end)

specs.refuses("decode of float32 on a GPU", plain('"f32"', "64", "sm80 = { archs = { 90 }, passes = { \"dec\" } }"):gsub('"fwd", "bwd" }', '"dec" }', 1),
  { "6: families.sm80", "has no kernel for anything", "such as dec_f32_d64_causal" })

harness.case("a decode tile without a measured one has the most bytes on their way that fit", function()
  local key = { pass = "dec", dtype = "bf16", head_dim = 128, mask = "causal" }
  for _, arch in ipairs(sm80.all_targets) do
    local found, last = sm80.candidates(key, arch), 0
    harness.yes(#found >= 2, arch)
    for _, candidate in ipairs(found) do
      harness.yes(candidate.cost >= last and sm80.fits(key, candidate.tile, arch), candidate.how)
      last = candidate.cost
    end
  end
end)

harness.case("decode goes on to head_dim 512, with so many keys a step as spill no registers; on later architectures to 320", function()
  local function found(head_dim, arch, kv_dtype)
    return sm80.candidates({ pass = "dec", dtype = "bf16", kv_dtype = kv_dtype, narrow = kv_dtype ~= nil, head_dim = head_dim, mask = "causal" }, arch)
  end
  for _, arch in ipairs({ "80", "87", "90" }) do
    for head_dim = 264, 512, 8 do
      local best = found(head_dim, arch)[1]
      harness.is(best.tile.n, 64)
      harness.yes(head_dim % 16 ~= 0 or found(head_dim, arch, "i8")[1].tile.n == 64, arch)
      local paged = { m = 8, n = 64, warps = 4, stages = best.tile.stages, device_pages = true }
      harness.yes(sm80.fits({ pass = "dec", dtype = "bf16", head_dim = head_dim, mask = "causal" }, paged, arch), "no room for pages")
    end
    harness.is(#found(520, arch), 0)
  end
  for _, arch in ipairs(sm80.all_targets) do harness.yes(#found(320, arch) > 0, arch) end
  for _, arch in ipairs({ "100", "110", "120" }) do harness.is(#found(328, arch), 0) end
  harness.yes(#found(336, "86") > 0 and #found(352, "86") == 0) -- 99 KiB
end)

harness.case("a proposed tile of a name that is taken serves a further target only where it fits", function()
  package.loaded["gen.tiles.of_two"] = { fwd = {} }
  local asked = {}
  local family = { name = "of_two", target_field = "archs", all_targets = { "small", "large" } }
  -- two tiles have the name "a"; the first fits no small target
  function family.candidates(_, target)
    local all = { { how = "a", tile = { m = 64, stages = 3 } }, { how = "a", tile = { m = 64, stages = 2 } }, { how = "b", tile = { m = 32, stages = 2 } } }
    return target == "large" and all or { all[2], all[3] }
  end
  function family.fits(_, tile, target)
    asked[#asked + 1] = target
    return target == "large" or tile.stages < 3
  end
  function family.how_of(_, tile) return tile.m == 64 and "a" or "b" end
  local key = { pass = "fwd", dtype = "bf16", head_dim = 64, mask = "none" }
  local found = tiles.of(family, key, { "large", "small" })
  harness.is(#found, 2)
  harness.is(found[1].tile.m .. " " .. table.concat(found[1].tile.archs, " "), "64 large")
  harness.is(found[2].tile.m .. " " .. table.concat(found[2].tile.archs, " "), "32 small")
  found = tiles.of(family, key, { "small", "large" })
  harness.is(#found, 1)
  harness.is(found[1].tile.stages .. " " .. table.concat(found[1].tile.archs, " "), "2 small large")
  harness.yes(#asked > 0)
  package.loaded["gen.tiles.of_two"] = nil
end)

harness.case("two lines of a larger head dim that come to one name are one tile for the targets that it fits", function()
  local measured = { { m = 64, stages = 2, archs = { "small" } }, { m = 64, stages = 3, archs = { "large" } } }
  package.loaded["gen.tiles.of_two"] = { fwd = { [64] = measured } }
  local family = { name = "of_two", target_field = "archs", all_targets = { "small", "large" } }
  function family.candidates() return { { how = "b", tile = { m = 32, stages = 2 } } } end
  function family.fits(_, tile, target) return target == "large" or tile.stages < 3 end
  function family.how_of(_, tile) return tile.m == 64 and "a" or "b" end
  function family.adapt(tile) return tile end
  local function shown(targets)
    local lines = {}
    for i, entry in ipairs(tiles.of(family, { pass = "fwd", dtype = "bf16", head_dim = 56, mask = "none" }, targets)) do
      lines[i] = ("%d x %d: %s"):format(entry.tile.m, entry.tile.stages, table.concat(entry.tile.archs, " "))
    end
    return table.concat(lines, "; ")
  end
  harness.is(shown({ "small", "large" }), "64 x 2: small large")
  harness.is(shown({ "large", "small" }), "64 x 3: large; 32 x 2: small")
  package.loaded["gen.tiles.of_two"] = nil
end)

harness.case("every multiple of 8 up to 1024 expands for every ISA", function()
  covers(open(plain('"f32", "bf16"', every_eighth(1024), "cpu = { " .. ALL_ISAS .. " }")), cpu, { "f32", "bf16" }, 1024)
end)

-- Every line of gen/tiles makes a variant on every target that it is for: a line that breaks a limit or that another
-- hides is dead.
for _, family in ipairs({ sm80, cpu }) do
  harness.case("every measured tile of " .. family.name .. " is used", function()
    local data = require("gen.tiles." .. family.name)
    for _, pass in ipairs({ "fwd", "bwd", "dec" }) do
      for head_dim, lines in pairs(data[pass]) do
        for i, line in ipairs(lines) do
          for _, target in ipairs(line[family.target_field] or family.all_targets) do
            for _, dtype in ipairs(line.dtypes or { "f32" }) do
              for _, mask in ipairs(line.masks or MASKS) do
                local key, same = { pass = pass, dtype = dtype, head_dim = head_dim, mask = mask }, false
                key.softcap, key.kv_dtype = (line.softcaps or { "none" })[1], (line.kv_dtypes or { "same" })[1]
                key.bias = (line.biases or { "none" })[1]
                key.narrow = key.kv_dtype ~= "same"
                for _, found in ipairs(tiles.of(family, key, { target })) do
                  local all = found.origin.kind == "measured"
                  for field in pairs(family.tile_fields) do
                    all = all and (field == family.target_field or found.tile[field] == line[field])
                  end
                  same = same or all
                end
                harness.yes(same, ("%s[%d][%d] for %s"):format(pass, head_dim, i, target))
              end
            end
          end
        end
      end
    end
    for target in pairs(data.measured) do harness.yes(text.contains(family.all_targets, target), target) end
  end)
end

harness.case("a head dim that was not measured has the tile of the next one that was", function()
  local loaded = open(plain('"bf16"', "80", "sm80 = { archs = { 90 } }"))
  for _, record in ipairs(loaded.records) do
    harness.is(record.tile_from, "proposed")
    harness.is(record.origin.head_dim, 96)
  end
  local forward = of_pass(loaded, "fwd")[1]
  harness.is(forward.name, "fwd_bf16_d80_causal__sm80_m128n64")
  harness.is(forward.padded_dim, 80)
  local backward = of_pass(loaded, "bwd")[1]
  harness.is(backward.name, "bwd_bf16_d80_causal__sm80_fused_m64n128")
  harness.is(backward.padded_dim, 96) -- 80 columns of dQ do not go over 8 warps
  harness.has(explain.variant(loaded, forward.name), "proposed: nothing was measured for head_dim 80", "the tile of head_dim 96",
    "2026-11-21 on an NVIDIA H200 for sm_90", "registers of a thread")
end)

harness.case("two warps that share columns have whole fragments each", function()
  for _, record in ipairs(open(plain('"bf16"', "136, 176, 208, 248", "sm80 = { archs = { 90 } }")).records) do
    if record.d_split == 2 then harness.is(record.padded_dim % 32, 0, record.name) end
  end
end)

harness.case("beyond what was measured the model proposes", function()
  local loaded = open(plain('"bf16"', "288", 'cpu = { isas = { "x86_64_v4" } }, sm80 = { archs = { 80, 86, 90, 120 } }'))
  harness.yes(#loaded.records >= 4)
  for _, record in ipairs(loaded.records) do
    harness.is(record.tile_from, "proposed")
    harness.is(record.origin.head_dim, nil)
    harness.has(explain.variant(loaded, record.name), "of what fits, the model's fastest")
  end
end)

harness.case("a tile says that it was measured, where and why, and where it was not", function()
  local loaded = open(plain('"bf16"', "64", "sm80 = { archs = { 80, 90 } }"))
  local said = explain.variant(loaded, "fwd_bf16_d64_causal__sm80_m128n80")
  harness.has(said, "gen/tiles/sm80.lua, head_dim 64: measured 2026-11-21 on an NVIDIA H200 for sm_90", "not timed for sm_80",
    "3 % faster than 64 keys with a mask")
  harness.yes(not said:find("spec:%d+: families.sm80.tiles"))
end)

harness.case("tiles of a spec take the place of the generator's, for what they are for", function()
  local loaded = open(plain('"f16", "bf16"', "64, 128", [[sm80 = { archs = { 80, 90 },
    tiles = { fwd = { [64] = { { m = 32, n = 32, warps = 2, dtypes = { "bf16" }, archs = { 90 } } } } } }]]))
  local from = {}
  for _, record in ipairs(of_pass(loaded, "fwd")) do
    for _, arch in ipairs(record.archs) do
      local key = ("%s %d %s %s"):format(record.dtype, record.head_dim, record.mask, arch)
      from[key] = (from[key] or "") .. record.tile_from:sub(1, 1)
    end
  end
  harness.is(from["bf16 64 none 90"], "s")
  harness.is(from["bf16 64 causal 90"], "s")
  harness.is(from["bf16 64 none 80"], "m")
  harness.is(from["f16 64 none 90"], "m")
  harness.is(from["bf16 128 none 90"], "m")
  harness.has(explain.variant(loaded, "fwd_bf16_d64_none__sm80_m32n32"), ":7: families.sm80.tiles.fwd[64][1]", "the spec's own")
end)

specs.refuses("a tile of a spec with the name of the generator's for another architecture",
  plain('"bf16"', "96", "sm80 = { archs = { 80, 90 }, tiles = { fwd = { { m = 128, n = 64, archs = { 90 } } } } }"),
  { "6: families.sm80.tiles.fwd[1]", "makes fwd_bf16_d96_causal__sm80_m128n64, as does the generator's own tile for 80", "another m or n" })

specs.refuses("a head dim for which nothing fits", plain('"f32"', "64, 1024", "sm80 = { archs = { 86 }, passes = { \"fwd\" } }"),
  { "6: families.sm80", "such as fwd_f32_d1024_causal", '{ family = "sm80", head_dim = 1024, reason = "sm80 has no kernel for it" },' })

harness.case("an override changes a tile that the spec does not have", function()
  local loaded = open(plain('"bf16"', "64", "sm80 = { archs = { 90 } }",
    'override = { { family = "sm80", pass = "fwd", mask = "none", m = 128, set = { n = 96 }, reason = "x" } },'))
  harness.is(of_pass(loaded, "fwd")[3].name, "fwd_bf16_d64_none__sm80_m128n96")
end)

harness.case("what the model proposes fits, and nothing of it twice", function()
  for _, arch in ipairs({ "80", "86", "90", "100", "120" }) do
    for _, pass in ipairs(PASSES) do
      local key, seen = { pass = pass, dtype = "bf16", head_dim = 80, mask = "none" }, {}
      local found, last = sm80.candidates(key, arch), 0
      harness.yes(#found >= 4, #found)
      for _, candidate in ipairs(found) do
        harness.yes(not seen[candidate.how] and candidate.cost >= last and sm80.fits(key, candidate.tile, arch), candidate.how)
        seen[candidate.how], last = true, candidate.cost
      end
    end
  end
end)

harness.case("112 in the default spec is one more number, on every device", function()
  local source = harness.read(harness.root .. "/spec/attention.lua")
  local more, count = source:gsub("head_dims = { 32, 64,", "head_dims = { 32, 64, 112,")
  harness.is(count, 1)
  local before, after, made = open(source), open(more), {}
  for _, record in ipairs(after.records) do
    if record.head_dim == 112 then
      for _, target in ipairs(registry.get(record.family).covers(record)) do
        made[table.concat({ record.pass, record.dtype, record.mask, target }, " ")] = true
      end
    end
  end
  for _, dtype in ipairs({ "f32", "f16", "bf16" }) do
    for _, target in ipairs({ "x86_64", "x86_64_v3", "x86_64_v4", "aarch64", "80", "87", "90" }) do
      for _, pass in ipairs(PASSES) do
        for _, mask in ipairs(MASKS) do
          local key = table.concat({ pass, dtype, mask, target }, " ")
          harness.yes(made[key], "nothing of 112 for " .. key)
        end
      end
    end
  end
  local names = {}
  for _, record in ipairs(after.records) do names[record.name] = true end
  for _, record in ipairs(before.records) do harness.yes(names[record.name], record.name) end
end)
