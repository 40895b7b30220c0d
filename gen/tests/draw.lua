-- Draws specs from the whole of what a spec may say: specs of one combination each, such that any two values of two
-- axes that some kernel has together are in one of them (a pairwise covering array). For the test that expands them
-- all, and for the one that compiles a sample (tests/drawn). The same seed draws the same specs.
local axes = require("gen.axes")

local draw = {}

local function dims()
  local all = {}
  for head_dim = 8, 256, 8 do all[#all + 1] = head_dim end
  return all
end

local NO_YES = { false, true }

--- What a spec of one combination says: the axes of gen/axes.lua, the fields of families, and what the kernel is for.
draw.axes = {
  { name = "target", values = { "sm80 80", "sm80 86", "sm80 87", "sm80 89", "sm80 90", "sm80 100", "sm80 110", "sm80 120", "sm90a 90a",
    "cpu x86_64", "cpu x86_64_v3", "cpu x86_64_v4", "cpu x86_64_bf16", "cpu x86_64_amx", "cpu aarch64" } },
  { name = "pass", values = { "fwd", "bwd", "dec" } },
  { name = "dtype", values = { "f32", "f16", "bf16" } },
  { name = "kv_dtype", values = { "same", "i8", "e4m3" } },
  { name = "head_dim", values = dims() },
  { name = "mask", values = { "none", "causal", "band", "interval", "tree" } },
  { name = "softcap", values = { "none", "softcap" } },
  { name = "bias", values = { "none", "alibi", "tensor" } },
  { name = "device_lengths", values = NO_YES },
  { name = "device_ragged", values = NO_YES },
  { name = "device_pages", values = NO_YES },
}

-- Whether a row, of which values may be nil yet, has `name` with one of the values.
local function has(row, name, ...)
  for _, value in ipairs({ ... }) do
    if row[name] == value then return true end
  end
  return false
end

local function family_of(row) return row.target and row.target:match("^%w+") end

local NO_FIELD = { cpu = { device_lengths = true, device_ragged = true, device_pages = true }, sm90a = { device_pages = true } }
local BACKWARD_OF_SM90A = { [64] = true, [96] = true, [128] = true, [192] = true, [256] = true }

-- What no kernel is for, whatever the values that are nil yet: the contract, written a second time. Each: a sentence
-- and whether a row falls under it.
draw.holes = {
  { "K and V of 8 bits are read by the forward passes", function(row) return row.pass == "bwd" and has(row, "kv_dtype", "i8", "e4m3") end },
  { "sm80 reads K and V of 8 bits in decode of bf16, with head_dims of whole pieces of 16 bytes", function(row)
    if family_of(row) ~= "sm80" or not has(row, "kv_dtype", "i8", "e4m3") then return false end
    return has(row, "pass", "fwd") or has(row, "dtype", "f32", "f16") or (row.head_dim or 0) % 16 ~= 0
  end },
  { "decode of sm80 is for 16 bits", function(row) return family_of(row) == "sm80" and row.pass == "dec" and row.dtype == "f32" end },
  { "sm90a is for 16 bits, forward and backward", function(row)
    return family_of(row) == "sm90a" and (has(row, "pass", "dec") or has(row, "dtype", "f32") or has(row, "kv_dtype", "i8", "e4m3"))
  end },
  { "a GPU reads intervals in sm80, and in sm90a, backward where its kernels are fused", function(row)
    return row.mask == "interval" and family_of(row) == "sm90a" and row.pass == "bwd" and row.head_dim > 128
  end },
  { "sm90a has head_dims of slabs of 32 columns, backward five of them without a softcap", function(row)
    if family_of(row) ~= "sm90a" then return false end
    if (row.head_dim or 0) % 32 ~= 0 then return true end
    return row.pass == "bwd" and (row.head_dim and not BACKWARD_OF_SM90A[row.head_dim] or row.softcap == "softcap")
  end },
  { "AMX and AVX-512 BF16 multiply bf16, K and V, too", function(row)
    return has(row, "target", "cpu x86_64_bf16", "cpu x86_64_amx") and (has(row, "dtype", "f32", "f16") or has(row, "kv_dtype", "i8", "e4m3"))
  end },
  { "trees are forward on the CPU, without ALiBi, and in sm80, for many queries with a bias up to head_dim 128", function(row)
    if row.mask ~= "tree" then return false end
    local family = family_of(row)
    return row.pass == "bwd" or row.bias == "alibi" or family == "sm90a" or
      (family == "sm80" and row.pass ~= "dec" and row.bias == "tensor" and (row.head_dim or 0) > 128)
  end },
  { "AMX and AVX-512 BF16 read no intervals", function(row)
    return has(row, "mask", "interval", "tree") and has(row, "target", "cpu x86_64_bf16", "cpu x86_64_amx")
  end },
  { "a bias is on the CPU, in kernels whose products are float32's, in sm80, and ALiBi in sm90a", function(row)
    local vectors = family_of(row) == "cpu" and not has(row, "target", "cpu x86_64_bf16", "cpu x86_64_amx")
    if not row.target or vectors or family_of(row) == "sm80" then return false end
    return row.bias == "tensor" or (row.bias == "alibi" and family_of(row) ~= "sm90a")
  end },
  { "decode of bf16 by AVX-512 BF16 is that of AVX-512", function(row) return row.target == "cpu x86_64_bf16" and row.pass == "dec" end },
}

-- The fields that a row's family does not have.
local function lacks_field(row)
  for field in pairs(NO_FIELD[family_of(row)] or {}) do
    if row[field] then return true end
  end
  return false
end

--- The sentence of the hole that a row is in, or nil.
function draw.hole(row)
  for _, hole in ipairs(draw.holes) do
    if hole[2](row) then return hole[1] end
  end
end

--- Whether there is a kernel for a row, as far as its values say.
function draw.legal(row) return not lacks_field(row) and not draw.hole(row) end

--- A function that draws 1 to `below`, from a seed: the same in every version of Lua.
function draw.random(seed)
  local state = seed
  return function(below)
    state = (state * 6364136223846793005 + 1442695040888963407) & 0x7fffffffffffffff
    return (state >> 33) % below + 1
  end
end

--- The list in an order by `random(below)`.
function draw.shuffled(list, random)
  local all = table.move(list, 1, #list, 1, {})
  for i = #all, 2, -1 do
    local j = random(i)
    all[i], all[j] = all[j], all[i]
  end
  return all
end

local function id(a, x, b, y)
  if a > b then a, x, b, y = b, y, a, x end
  return ("%d %s %d %s"):format(a, tostring(x), b, tostring(y))
end

-- The row with the pairs of `row`, completed by what covers the most of `left`; nil where it ends in a hole.
local function complete(row, left, random)
  for _, i in ipairs(draw.shuffled({ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 }, random)) do
    local axis, best, most = draw.axes[i], nil, -1
    if row[axis.name] == nil then
      for _, value in ipairs(draw.shuffled(axis.values, random)) do
        row[axis.name] = value
        if draw.legal(row) then
          local gain = 0
          for j, other in ipairs(draw.axes) do
            if j ~= i and row[other.name] ~= nil and left[id(i, value, j, row[other.name])] then gain = gain + 1 end
          end
          if gain > most then best, most = value, gain end
        end
      end
      row[axis.name] = best
      if best == nil then return nil end
    end
  end
  return row
end

local TRIES = 40 -- completions of a pair before it counts as one that no kernel has

--- Rows that cover every pair which some kernel has; and the pairs that none has: { axis, value, axis, value } each.
function draw.rows(seed)
  local random, left, order = draw.random(seed), {}, {}
  for i, a in ipairs(draw.axes) do
    for j = i + 1, #draw.axes do
      for _, x in ipairs(a.values) do
        for _, y in ipairs(draw.axes[j].values) do
          left[id(i, x, j, y)] = true
          order[#order + 1] = { i, x, j, y }
        end
      end
    end
  end
  local rows, none = {}, {}
  for _, pair in ipairs(draw.shuffled(order, random)) do
    local i, x, j, y = table.unpack(pair)
    if left[id(i, x, j, y)] then
      local row
      for _ = 1, TRIES do
        row = { [draw.axes[i].name] = x, [draw.axes[j].name] = y }
        row = draw.legal(row) and complete(row, left, random) or nil
        if row then break end
      end
      if row then
        rows[#rows + 1] = row
        for a, axis in ipairs(draw.axes) do
          for b = a + 1, #draw.axes do left[id(a, row[axis.name], b, row[draw.axes[b].name])] = nil end
        end
      else
        none[#none + 1] = { draw.axes[i], x, draw.axes[j], y }
      end
    end
  end
  return rows, none
end

--- The spec of a row, as text.
function draw.spec(row)
  local family, target = row.target:match("^(%w+) (.*)$")
  local lists, fields = {}, { ('%s = { "%s" }'):format(family == "cpu" and "isas" or "archs", target) }
  for _, axis in ipairs(axes.list) do
    local value = row[axis.name] or axes.default(axis, row)
    lists[#lists + 1] = ("%s = { %s }"):format(axis.plural, axis.of.kind == "integer" and value or ('"%s"'):format(value))
  end
  for _, field in ipairs({ "device_lengths", "device_ragged", "device_pages", "max_logit" }) do
    if row[field] then fields[#fields + 1] = field .. " = true" end
  end
  return ("return {\n  %s,\n  families = { %s = { %s } },\n}\n"):format(table.concat(lists, ",\n  "), family, table.concat(fields, ", "))
end

return draw
