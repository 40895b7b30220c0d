-- The list of axes is the only one: an axis that is added to it is in names, columns, lists, explanations, matches and
-- the check of a spec; and no other file of the generator spells what the list says.
local axes = require("gen.axes")
local emit = require("gen.emit")
local explain = require("gen.explain")
local harness = require("gen.tests.harness")
local list = require("gen.list")
local schema = require("gen.schema")
local specs = require("gen.tests.specs")

local OLD, NEW = "fwd_f32_d64_causal__cpu_x86_64_v3_m64n96", "fwd_f32_d64_causal_wsliding__cpu_x86_64_v3_m64n96"

local function open(changes)
  local loaded, why = specs.open(specs.with(changes))
  harness.yes(loaded, why)
  loaded.path = "spec"
  return loaded
end

-- Runs body with one more axis, as a feature of the kernels would add it.
local function with_axis(body)
  table.insert(axes.list, { name = "window", plural = "windows", of = schema.choice({ "none", "sliding" }), default = "none", part = "w%s",
    token = "^w(%a+)$", column = "features", c = { sliding = "GLINT_FEATURE_LEFT_BOUND" },
    fields = { sliding = { windowed = true }, none = { windowed = false } },
    says = { sliding = "a sliding window" }, in_tiles = true })
  local ok, why = xpcall(body, debug.traceback)
  table.remove(axes.list)
  harness.yes(ok, why)
end

harness.case("a name says its axes and is read back", function()
  local key = { pass = "bwd", dtype = "bf16", head_dim = 72, mask = "none", softcap = "none" }
  harness.is(axes.key_name(key), "bwd_bf16_d72_none")
  local read = axes.parse("bwd_bf16_d72_none")
  for axis, value in pairs(key) do harness.is(read[axis], value) end
  for _, wrong in ipairs({ "", "bwd", "bwd_bf16_d72", "bwd_bf16_72_none", "bwd_bf16_d72_none_x", "_bwd_bf16_d72_none" }) do
    harness.is(axes.parse(wrong), nil, wrong)
  end
end)

harness.case("an axis at its default adds nothing", function()
  local before, rows = list.bzl(open({}).records, "s"), emit.table(open({}).records, "s")
  with_axis(function()
    harness.is(list.bzl(open({}).records, "s"), before)
    harness.is(emit.table(open({}).records, "s"), rows)
    harness.is(axes.parse("fwd_f32_d64_causal").window, "none")
    harness.has(explain.variant(open({}), OLD), 'masks lists "causal"')
  end)
end)

harness.case("an axis that a spec lists is everywhere", function()
  with_axis(function()
    local loaded = open({ [5] = '  masks = { "causal" }, windows = { "none", "sliding" },' })
    harness.is(#loaded.records, 8)
    local record
    for _, one in ipairs(loaded.records) do record = one.name == NEW and one or record end
    harness.yes(record, table.concat(specs.names(loaded), " "))
    harness.is(record.windowed, true)
    harness.has(list.json(loaded.records), '"window": "sliding"')
    harness.has(emit.table(loaded.records, "s"), ".head_dim_v = 64, .features = GLINT_FEATURE_RIGHT_BOUND | GLINT_FEATURE_LEFT_BOUND,")
    harness.has(explain.variant(loaded, NEW), 'spec:5: windows lists "sliding"')
    harness.is(explain.variant(loaded, "fwd_f32_d64_causal_wsliding"), NEW .. "\n")
    harness.has(axes.sentence(record), "causal, both alignments, a sliding window.")
    harness.is(axes.parse(NEW:match("^(.-)__")).window, "sliding")
  end)
end)

harness.case("an axis that a spec does not list is explained, matched, narrowed and checked", function()
  with_axis(function()
    local _, why = explain.variant(open({}), NEW)
    harness.has(why, 'windows: has no "sliding"; add it')
    local both = { [5] = '  masks = { "causal" }, windows = { "none", "sliding" },' }
    both[15] = '  exclude = { { window = "sliding", head_dim = 128, reason = "x" } },'
    harness.is(#open(both).records, 6)
    both[15], both[8] = nil, '      isas = { "x86_64_v3" }, windows = { "none" },'
    harness.is(#open(both).records, 4)
    both[8], both[10] = nil, '        fwd = { { m = 64, n = 96, windows = { "none" } }, { m = 32, n = 48, windows = { "sliding" } } },'
    harness.has(table.concat(specs.names(open(both)), " "), "fwd_f32_d64_causal_wsliding__cpu_x86_64_v3_m32n48")
    _, why = specs.open(specs.with({ [5] = '  masks = { "causal" }, windows = { "slide" },' }))
    harness.has(why, 'windows[1]: "slide" is not known')
  end)
end)

harness.case("of the masks, decode has one kernel of the widest that the spec lists", function()
  local dec = { [2] = '  passes = { "fwd", "dec" },', [11] = "" }
  for masks, expected in pairs({ ['"none"'] = "none", ['"none", "causal"'] = "causal", ['"band", "none"'] = "band",
    ['"causal", "band", "none"'] = "band" }) do
    dec[5] = ("  masks = { %s },"):format(masks)
    local made = {}
    for _, name in ipairs(specs.names(open(dec))) do made[#made + 1] = name:match("^dec_f32_d64_(%a+)__") end
    harness.is(table.concat(made, " "), expected, masks)
  end
end)

harness.case("a kernel of the CPU caps scores or not; the spec of another family must leave the cap out", function()
  local capped = { [5] = '  masks = { "causal" }, softcaps = { "none", "softcap" },' }
  local loaded = open(capped)
  harness.is(#loaded.records, 4)
  harness.is(loaded.records[3].name, "fwd_f32_d128_causal_softcap__cpu_x86_64_v3_m64n96")
  harness.is(loaded.records[3].capped, true)
  harness.is(axes.parse("fwd_f32_d128_causal_softcap").softcap, "softcap")
  harness.is(axes.parse("fwd_f32_d128_causal").softcap, "none")
  harness.has(emit.table(loaded.records, "s"), ".features = GLINT_FEATURE_RIGHT_BOUND | GLINT_FEATURE_SOFTCAP,")
  local _, why = explain.variant(loaded, OLD)
  harness.has(why, 'softcaps lists "softcap", and variants of fwd for it serve "none" too')
  capped[13] = "    }, sm90a = { archs = { \"90a\" } },"
  _, why = specs.open(specs.with(capped))
  harness.has(why, 'families.sm90a: has no kernel for anything that the spec\'s lists ask for, such as bwd_f32_d64_causal')
end)

harness.case("a band bounds both ends of what a query sees", function()
  local loaded = open({ [5] = '  masks = { "band" },' })
  harness.is(loaded.records[1].causal, true)
  harness.is(loaded.records[1].bounds_first, true)
  harness.has(emit.table(loaded.records, "s"), ".features = GLINT_FEATURE_LEFT_BOUND | GLINT_FEATURE_RIGHT_BOUND,")
end)

harness.case("what a family has no kernel for is narrowed away, or excluded", function()
  local narrow = '  kv_dtypes = { "same", "i8" },'
  local gpu = { [4] = "  head_dims = { 64 },", [5] = '  masks = { "causal" },' .. narrow, [13] = "    }, sm80 = { archs = { 80 } }," }
  local _, why = specs.open(specs.with(gpu))
  harness.is(why, "spec:13: families.sm80: has no kernel for 1 of 3 combinations of the spec's lists, such as fwd_f32_i8_d64_causal; exclude them, "
    .. 'or give the family shorter lists of its own:\n    { family = "sm80", kv_dtype = "i8", reason = "sm80 has no kernel for it" },')
  gpu[13] = '    }, sm80 = { archs = { 80 }, kv_dtypes = { "same" } },'
  harness.is(table.concat(specs.names(open(gpu)), " "):find("i8_d64_causal__sm80"), nil)
  gpu[13], gpu[15] = "    }, sm80 = { archs = { 80 } },", '  exclude = { { family = "sm80", kv_dtype = "i8", reason = "x" } },'
  harness.is(table.concat(specs.names(open(gpu)), " "):find("i8_d64_causal__sm80"), nil)
  harness.has(table.concat(specs.names(open(gpu)), " "), "fwd_f32_d64_causal__sm80")
  gpu[2], gpu[11], gpu[13], gpu[15] = '  passes = { "fwd", "dec" },', "", '    }, sm90a = { archs = { "90a" }, masks = { "causal" } },', nil
  _, why = specs.open(specs.with(gpu))
  harness.has(why, 'spec:13: families.sm90a: has no kernel for anything that the spec\'s lists ask for, such as dec_f32_i8_d64_causal; leave the family out')
end)

harness.case("a kernel of a GPU caps scores or does not, in both passes", function()
  local gpu = { [2] = '  passes = { "fwd", "bwd" },', [4] = "  head_dims = { 64 },",
    [5] = '  masks = { "causal" }, softcaps = { "none", "softcap" },', [13] = "    }, sm80 = { archs = { 80 } }," }
  local names = table.concat(specs.names(open(gpu)), " ")
  for _, pass in ipairs({ "fwd", "bwd" }) do
    harness.has(names, pass .. "_f32_d64_causal_softcap__sm80", pass .. "_f32_d64_causal__sm80")
  end
end)

-- Words of the axes that no other file of the generator may spell: values and constants, apart from those of a pass,
-- which templates and families are keyed by, and of a dtype, by which tiles differ.
harness.case("no other file has a list of its own", function()
  local words = {}
  for _, axis in ipairs(axes.list) do
    for value, constant in pairs(axis.c or {}) do
      if type(constant) == "string" then words[#words + 1] = constant end
      if axis.name == "mask" then words[#words + 1] = '"' .. value .. '"' end
    end
  end
  harness.yes(#words >= 7)
  for _, file in ipairs({ "commands", "emit", "expand", "explain", "gpu", "list", "records", "tiles", "validate", "families/cpu", "families/sm80",
    "families/sm80_model" }) do
    local source = harness.read(("%s/gen/%s.lua"):format(harness.root, file))
    harness.yes(source, file)
    for _, word in ipairs(words) do harness.yes(not source:find(word, 1, true), file .. " spells " .. word) end
  end
end)

harness.case("V and O are as wide as Q and K, which no name says and every row does; another width is refused", function()
  local width, names = "fwd_f32_d64_v32_causal__cpu_x86_64_v3_m64n96", table.concat(specs.names(open({})), " ")
  for _, record in ipairs(open({}).records) do harness.is(record.head_dim_v, record.head_dim) end
  local same = open({ [4] = "  head_dims = { 64 }, head_dim_vs = { 64 }," })
  harness.is(table.concat(specs.names(same), " "), table.concat(specs.names(open({ [4] = "  head_dims = { 64 }," })), " "))
  harness.has(emit.table(same.records, "s"), ".head_dim = 64, .head_dim_v = 64,")
  harness.is(axes.parse("fwd_f32_d64_causal").head_dim_v, 64)
  harness.is(axes.parse("fwd_f32_d64_v32_causal").head_dim_v, 32)
  harness.is(axes.parse("fwd_f32_d64_v64_causal"), nil, "two names of one variant")
  harness.is(axes.key_name(axes.parse("fwd_f32_d64_v32_causal")), "fwd_f32_d64_v32_causal")
  harness.is(axes.sentence({ pass = "fwd", dtype = "f32", kv_dtype = "same", head_dim = 64, head_dim_v = 32, mask = "none", softcap = "none",
    bias = "none" }), "Attention, forward: O and LSE from Q, K, V; f32, head_dim 64, head_dim_v 32, no mask.")
  local _, why = specs.open(specs.with({ [4] = "  head_dims = { 64, 128 }, head_dim_vs = { 64 }," }))
  harness.is(why, "spec:4: head_dim_vs[1]: V and O of 64 numbers a row, beside Q and K of 128, are not built yet; leave head_dim_vs out, or "
    .. "exclude it with a reason")
  _, why = specs.open(specs.with({ [4] = "  head_dims = { 64 }, head_dim_vs = { 32, 64 },", [8] = '      isas = { "x86_64_v3" }, head_dim_vs = { 32 },' }))
  harness.has(why, "spec:8: families.cpu.head_dim_vs[1]: V and O of 32 numbers a row, beside Q and K of 64, are not built yet")
  _, why = specs.open(specs.with({ [8] = '      isas = { "x86_64_v3" }, head_dim_vs = { 64 },' }))
  harness.has(why, "spec:8: families.cpu.head_dim_vs[1]: 64 is not in the spec's own head_dim_vs")
  local rest = open({ [4] = "  head_dims = { 64, 128 }, head_dim_vs = { 64, 128 },",
    [15] = '  exclude = { { head_dim = 128, head_dim_v = 64, reason = "x" }, { head_dim = 64, head_dim_v = 128, reason = "x" } },' })
  harness.is(table.concat(specs.names(rest), " "), names)
  _, why = explain.variant(same, width)
  harness.has(why, "V and O of 32 numbers a row, beside Q and K of 64, are not built yet")
end)

local variant_h = harness.read(harness.root .. "/lib/variant.h")
harness.case_if(variant_h, "needs lib/", "every axis is a column of lib/variant.h", function()
  for _, axis in ipairs(axes.list) do harness.yes(variant_h:find("%f[%w_]" .. axis.column .. ";"), axis.column) end
end)
