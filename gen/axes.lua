-- What a variant computes: the generator's one list of axes. lib/axes.h is the one in C, and gen/tests/lists.lua
-- compares the two. Names, columns of the table, lists, explanations, matches and the check of a spec follow from it. A
-- feature of the kernels (a window, a cap on the scores, pages) is one more entry with a default: at its default it
-- adds nothing to a name, to a list or to a spec.
--
--   name, plural   the field of a record and of a match; the list of a spec, of which every value makes variants
--   of             what a value may be (gen/schema.lua)
--   default        nil: every spec must list the axis. Else a spec may leave it out, and the name leaves out this
--                  value
--   default_is     in the place of default: an axis before it, whose value is the default. A spec may leave the axis
--                  out, and the name leaves out such a value, but every row of the table has it
--   unbuilt        no kernel has another value than the default yet: what is said of one, from it and the default
--   part, token    how a name says a value, and the pattern by which it is read back
--   column         the field of struct glint_variant (lib/variant.h); axes that share `features` add their bits to
--                  it
--   c              by value: the constant in that column; nil: the value itself
--   fields         by value: further fields of a record, for families and templates
--   says           by value, or a format: the words in a kernel's header
--   not_in         by pass, family, or both (sm80_dec): values that it has no kernels of; of a list only the others
--                  are made
--   widest         by pass or family: values that serve those before them too, the widest first; of those that a
--                  spec lists only the first is made
--   in_tiles       a tile may be for some of its values only, under the plural
local schema = require("gen.schema")

local axes = {}

axes.list = {
  { name = "pass", plural = "passes", of = schema.choice({ "fwd", "bwd", "dec" }), part = "%s", token = "^(%a+)$", column = "pass",
    c = { fwd = "GLINT_FORWARD", bwd = "GLINT_BACKWARD", dec = "GLINT_FORWARD" }, -- dec: a row of the forward pass, with queries_up_to
    says = { fwd = "Attention, forward: O and LSE from Q, K, V", bwd = "Attention, backward: dQ, dK, dV from Q, K, V, O, LSE, dO",
      dec = "Attention, decode: O and LSE of few queries, split over the keys" } },
  { name = "dtype", plural = "dtypes", of = schema.choice({ "f32", "f16", "bf16" }), part = "%s", token = "^(%w+)$", column = "dtype",
    c = { f32 = "GLINT_F32", f16 = "GLINT_F16", bf16 = "GLINT_BF16" }, in_tiles = true,
    fields = { f32 = { dtype_bytes = 4 }, f16 = { dtype_bytes = 2 }, bf16 = { dtype_bytes = 2 } }, says = "%s" },
  -- How K and V are stored: as the rest, or in 8 bits with float32 scales, which are a problem's. Forward passes only.
  { name = "kv_dtype", plural = "kv_dtypes", of = schema.choice({ "same", "i8", "e4m3" }), default = "same", part = "%s", token = "^(%w+)$",
    column = "kv_dtype", in_tiles = true, c = { same = 0, i8 = "GLINT_I8", e4m3 = "GLINT_E4M3" }, not_in = { bwd = { "i8", "e4m3" } },
    fields = { same = { narrow = false }, i8 = { narrow = true }, e4m3 = { narrow = true } },
    says = { i8 = "K and V in int8", e4m3 = "K and V in e4m3" } },
  { name = "head_dim", plural = "head_dims", of = schema.integer(8, 1024, 8), part = "d%d", token = "^d(%d+)$", column = "head_dim",
    says = "head_dim %d" },
  -- The width of V and O.
  { name = "head_dim_v", plural = "head_dim_vs", of = schema.integer(8, 1024, 8), default_is = "head_dim", part = "v%d", token = "^v(%d+)$",
    column = "head_dim_v", says = "head_dim_v %d", unbuilt = "V and O of %d numbers a row, beside Q and K of %d, are not built yet" },
  -- Classes of a band: query i sees the keys from first_key(i) to last_key(i). "none" bounds neither end, "causal" the
  -- last and "band" both, whatever the offset and the window, which are known only at run time. Of "interval" each
  -- query has two bounds more, which the call gives, and of "tree" also a bit for each of the last keys.
  { name = "mask", plural = "masks", of = schema.choice({ "none", "causal", "band", "interval", "tree" }), part = "%s", token = "^(%a+)$",
    column = "features", widest = { dec = { "tree", "interval", "band", "causal" } }, in_tiles = true,
    not_in = { bwd = { "tree" } },
    c = { none = 0, causal = "GLINT_FEATURE_RIGHT_BOUND", band = "GLINT_FEATURE_LEFT_BOUND | GLINT_FEATURE_RIGHT_BOUND",
      interval = "GLINT_FEATURE_LEFT_BOUND | GLINT_FEATURE_RIGHT_BOUND | GLINT_FEATURE_INTERVALS",
      tree = "GLINT_FEATURES_OF_MASKS" },
    fields = { none = { causal = false, bounds_first = false, intervals = false, tree_bits = false, band = "no_mask" },
      causal = { causal = true, bounds_first = false, intervals = false, tree_bits = false, band = "causal_mask" },
      band = { causal = true, bounds_first = true, intervals = false, tree_bits = false, band = "window_mask" },
      interval = { causal = true, bounds_first = true, intervals = true, tree_bits = false, band = "interval_mask" },
      tree = { causal = true, bounds_first = true, intervals = true, tree_bits = true, band = "tree_mask" } },
    says = { none = "no mask", causal = "causal, both alignments", band = "a window with two sides, both alignments",
      interval = "an interval of keys a query, and a window with two sides",
      tree = "a tree of the last keys, an interval of keys a query, and a window with two sides" } },
  -- A cap on the scores, s = cap tanh(s / cap). Kernels of the CPU read at run time whether there is one.
  { name = "softcap", plural = "softcaps", of = schema.choice({ "none", "softcap" }), default = "none", part = "%s", token = "^(softcap)$",
    column = "features", widest = { cpu = { "softcap" } }, in_tiles = true, c = { none = 0, softcap = "GLINT_FEATURE_SOFTCAP" },
    fields = { none = { capped = false, score = "plain_score" }, softcap = { capped = true, score = "capped_score" } }, says = { softcap = "softcap" } },
  -- What is added to the scores after the cap: ALiBi's slopes times distances, or a tensor. A row has it or has not:
  -- slopes of 0 and a tensor of zeros give the bits of none.
  { name = "bias", plural = "biases", of = schema.choice({ "none", "alibi", "tensor" }), default = "none", part = "%s", token = "^([at]%a+)$",
    column = "features", in_tiles = true, not_in = { sm90a_bwd = { "tensor" } },
    c = { none = 0, alibi = "GLINT_FEATURE_ALIBI", tensor = "GLINT_FEATURE_BIAS" },
    fields = { none = { biased = false, bias_tensor = false, bias_type = "no_bias" }, alibi = { biased = true, bias_tensor = false, bias_type = "alibi_bias" },
      tensor = { biased = true, bias_tensor = true, bias_type = "tensor_bias<element>" } },
    says = { alibi = "ALiBi", tensor = "a bias" } },
}

--- The axis called `name`.
function axes.get(name)
  for _, axis in ipairs(axes.list) do
    if axis.name == name then return axis end
  end
end

--- Whether a spec may leave out an axis.
function axes.optional(axis) return axis.default ~= nil or axis.default_is ~= nil end

--- What an axis is where neither a spec nor a name says it, beside the other values of `key`; nil for one that must be
-- said.
function axes.default(axis, key)
  if axis.default_is then return key[axis.default_is] end
  return axis.default
end

--- The values of an axis that a table of a spec lists; its default where it lists none, an empty list where the default
-- is another axis's value; nil for an axis that must be listed.
function axes.values(spec, axis)
  return spec[axis.plural] or axis.default ~= nil and { axis.default } or axis.default_is and {} or nil
end

--- Whether variants of a pass, of a family, or of a pass of a family (sm80_dec) have a value.
function axes.has(axis, value, of)
  for _, absent in ipairs(axis.not_in and axis.not_in[of] or {}) do
    if absent == value then return false end
  end
  return true
end

--- The axis of whose value in `key` there is no kernel yet, and what is to be said of it; nil if there is none.
function axes.unbuilt(key)
  for _, axis in ipairs(axes.list) do
    local value, default = key[axis.name], axes.default(axis, key)
    if axis.unbuilt and value ~= default then return axis, axis.unbuilt:format(value, default) end
  end
end

--- The values of an axis that variants of `family` with the values of `key` are made for, of those that are listed.
function axes.made(axis, listed, key, family)
  if #listed == 0 then return { axes.default(axis, key) } end
  if axis.not_in then
    local had = {}
    for _, value in ipairs(listed) do
      local has = axes.has(axis, value, key.pass) and axes.has(axis, value, family) and axes.has(axis, value, family .. "_" .. key.pass)
      if has then had[#had + 1] = value end
    end
    listed = had
  end
  for _, widest in ipairs(axis.widest and (axis.widest[key.pass] or axis.widest[family]) or {}) do
    for _, value in ipairs(listed) do
      if value == widest then return { widest } end
    end
  end
  return listed
end

--- The left half of a name, from the axes of `key`.
function axes.key_name(key)
  local parts = {}
  for _, axis in ipairs(axes.list) do
    local value = key[axis.name]
    if value ~= nil and value ~= axes.default(axis, key) then parts[#parts + 1] = axis.part:format(value) end
  end
  return table.concat(parts, "_")
end

--- The axes that the left half of a name says, or nil when it is none.
function axes.parse(name)
  local parts, key, at = {}, {}, 1
  for part in (name .. "_"):gmatch("(.-)_") do parts[#parts + 1] = part end
  for _, axis in ipairs(axes.list) do
    local value = parts[at] and parts[at]:match(axis.token)
    if value and axis.of.kind == "integer" then value = tonumber(value) end
    local says = value and (not axes.optional(axis) or axes.allows(axis, value) and value ~= axes.default(axis, key))
    if says then -- a part that is not said is the next axis's
      key[axis.name], at = value, at + 1
    elseif axes.optional(axis) then
      key[axis.name] = axes.default(axis, key)
    else
      return nil
    end
  end
  return at == #parts + 1 and key or nil
end

--- Whether a value may stand on an axis.
function axes.allows(axis, value)
  local right = true
  schema.check(axis.of, value, { path = "", line = 0 }, function() right = false end, {})
  return right
end

--- Whether `lists`, a tile, is for `key`, as far as its lists of values go.
function axes.serves(lists, key)
  for _, axis in ipairs(axes.list) do
    local values = axis.in_tiles and lists[axis.plural]
    if values then
      local found = false
      for _, value in ipairs(values) do found = found or value == (key[axis.name] or axis.default) end
      if not found then return false end
    end
  end
  return true
end

--- A field that the value of `key` on an axis brings to a record.
function axes.field(key, name, field)
  local axis = axes.get(name)
  return axis.fields[key[name] or axis.default][field]
end

--- Adds to a record what its values bring with them, and the values that are another axis's.
function axes.fill(record)
  for _, axis in ipairs(axes.list) do
    if axis.default_is and record[axis.name] == nil then record[axis.name] = record[axis.default_is] end
    for field, value in pairs(axis.fields and axis.fields[record[axis.name]] or {}) do record[field] = value end
  end
end

--- Columns of a record's row: { field =, value = } each, in the order of the axes. An axis at its own default adds
-- nothing.
function axes.columns(record)
  local columns, by_field = {}, {}
  for _, axis in ipairs(axes.list) do
    local value = record[axis.name]
    if value ~= axis.default then
      local constant, column = axis.c and axis.c[value] or value, by_field[axis.column]
      if column then
        column.value = column.value .. " | " .. constant
      else
        by_field[axis.column] = { field = axis.column, value = constant }
        columns[#columns + 1] = by_field[axis.column]
      end
    end
  end
  return columns
end

--- What a record computes, as the first sentence of its kernel.
function axes.sentence(record)
  local words = {}
  for _, axis in ipairs(axes.list) do
    local value = record[axis.name]
    if value ~= axes.default(axis, record) then
      words[#words + 1] = type(axis.says) == "table" and axis.says[value] or axis.says:format(value)
    end
  end
  return words[1] .. "; " .. table.concat(words, ", ", 2) .. "."
end

return axes
