-- The `exclude` lines that a refused spec is answered with: pasted into the spec, they make it valid, and they take
-- away nothing that exists.
local axes = require("gen.axes")
local harness = require("gen.tests.harness")
local holes = require("gen.holes")
local specs = require("gen.tests.specs")

-- Everything that a spec may list, in each of the GPU families and in both.
local ALL = [[
return {
  passes = { "fwd", "bwd", "dec" }, dtypes = { "f32", "f16", "bf16" }, kv_dtypes = { "same", "i8", "e4m3" },
  head_dims = { %s }, masks = { "none", "causal", "band", "interval", "tree" }, softcaps = { "none", "softcap" },
  families = { %s },
  exclude = { %s },
}
]]
local SM80 = "sm80 = { archs = { 80, 86, 90 }, device_lengths = true, device_pages = true, device_ragged = true },"
local SM90A = 'sm90a = { archs = { "90a" }, device_lengths = true, device_ragged = true },'

for name, families in pairs({ sm80 = SM80, sm90a = SM90A, both = SM80 .. SM90A }) do
  for _, head_dims in ipairs({ "64", "24, 64, 104, 128, 160, 256", "8, 16, 32, 40, 72, 80, 96, 112, 192, 224" }) do
    harness.case(("the lines to paste make a spec valid: %s, head_dims %s"):format(name, head_dims), function()
      local loaded, why = specs.open(ALL:format(head_dims, families, ""))
      harness.yes(loaded == nil, "there is a kernel for everything")
      local lines = {}
      for line in why:gmatch("\n    (%b{},)") do lines[#lines + 1] = line end
      harness.yes(#lines > 0, why)
      loaded, why = specs.open(ALL:format(head_dims, families, table.concat(lines, "\n")))
      harness.yes(loaded, why)
      harness.is(#loaded.excluded, 0, "kernels that exist and are excluded")
    end)
  end
end

local function key(pass, dtype, head_dim)
  return { pass = pass, dtype = dtype, kv_dtype = "same", head_dim = head_dim, head_dim_v = head_dim, mask = "none", softcap = "none", bias = "none" }
end

harness.case("a line has as few axes as tell what is missing from what is made", function()
  local missing = { key("fwd", "f32", 64), key("fwd", "f32", 128), key("bwd", "f32", 64), key("bwd", "bf16", 128) }
  local rules = holes.rules(missing, { key("fwd", "bf16", 64), key("fwd", "bf16", 128), key("bwd", "bf16", 64) })
  harness.is(#rules, 2)
  harness.is(holes.line("sm80", rules[1]), '{ family = "sm80", dtype = "f32", reason = "sm80 has no kernel for it" },')
  harness.is(holes.line("sm80", rules[2]), '{ family = "sm80", pass = "bwd", head_dim = 128, reason = "sm80 has no kernel for it" },')
end)

harness.case("a line lists the values of all that is missing", function()
  local missing = { key("fwd", "f32", 64), key("bwd", "f16", 64), key("bwd", "f32", 64), key("fwd", "f16", 64) }
  local rules = holes.rules(missing, { key("fwd", "bf16", 64), key("bwd", "bf16", 64) })
  harness.is(#rules, 1)
  harness.is(holes.line("sm80", rules[1]), '{ family = "sm80", dtype = { "f16", "f32" }, reason = "sm80 has no kernel for it" },')
end)

harness.case("where nothing is made, one line takes all of a family away", function()
  local rules = holes.rules({ key("fwd", "f32", 64), key("bwd", "f16", 128) }, {})
  harness.is(#rules, 1)
  harness.is(holes.line("sm80", rules[1]), '{ family = "sm80", reason = "sm80 has no kernel for it" },')
end)

harness.case("an error of the caller's is said: a key that is made cannot be missing", function()
  local ok, why = pcall(holes.rules, { key("fwd", "f32", 64) }, { key("fwd", "f32", 64) })
  harness.yes(not ok)
  harness.has(why, "both made and missing: " .. axes.key_name(key("fwd", "f32", 64)))
end)

harness.case("an error of the caller's is said: a key has a value on every axis", function()
  for _, axis in ipairs(axes.list) do
    local less = key("fwd", "f32", 64)
    less[axis.name] = nil
    for _, call in ipairs({ { { less }, {} }, { { key("fwd", "f32", 64) }, { less } } }) do
      local ok, why = pcall(holes.rules, call[1], call[2])
      harness.yes(not ok, axis.name)
      harness.has(why, ("a key has no %s: "):format(axis.name))
    end
  end
end)
