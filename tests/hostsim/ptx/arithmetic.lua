-- Instructions that make one result of their operands and do nothing else: arithmetic, moves, comparisons, conversions.
--
-- A row is { types, expression }. `types` are those of the result and of each source; in the expression $1, $2 ... are
-- the sources, converted to their types. Integers are computed without a sign wherever the result's bits are the same,
-- for they wrap on a GPU, where C++ has no answer. kinds.lua makes a test of every row, so a row here is all that a new
-- instruction needs.
local expand = require("tests.hostsim.ptx.expand")

local M = {}

local rows = {}
M.rows = rows

--- One row a combination of the names in braces: "add.{s32,u32}". T in `types` is the name's last word, U the same
-- without a sign, W twice as wide.
local WIDE = { u16 = "u32", s16 = "s32", u32 = "u64", s32 = "s64" }

local function row(pattern, types, expression)
  for _, name in ipairs(expand(pattern)) do
    local last = name:match("[^.]+$")
    local list = {}
    for word in types:gmatch("%S+") do
      list[#list + 1] = word == "T" and last or word == "U" and last:gsub("^[sb]", "u") or word == "W" and WIDE[last] or word
    end
    rows[name] = { types = list, expression = expression }
  end
end

local INTEGERS = "{s16,u16,s32,u32,s64,u64}"

row("add." .. INTEGERS, "U U U", "$1 + $2")
row("sub." .. INTEGERS, "U U U", "$1 - $2")
row("mul.lo." .. INTEGERS, "U U U", "1u * $1 * $2")
row("mul.wide.s16", "W T T", "(int32_t)$1 * $2")
row("mul.wide.u16", "W T T", "(uint32_t)$1 * $2")
row("mul.wide.s32", "W T T", "(int64_t)$1 * $2")
row("mul.wide.u32", "W T T", "(uint64_t)$1 * $2")
row("mul.hi.{s32,u32,s64,u64}", "T T T", "ptx::multiply_high($1, $2)")
row("mad.lo." .. INTEGERS, "U U U U", "1u * $1 * $2 + $3")
row("mad.wide.s32", "u64 s32 s32 u64", "(uint64_t)((int64_t)$1 * $2) + $3")
row("mad.wide.u32", "u64 u32 u32 u64", "(uint64_t)$1 * $2 + $3")
row("div." .. INTEGERS, "T T T", "ptx::divide($1, $2)")
row("rem." .. INTEGERS, "T T T", "ptx::remainder($1, $2)")
row("min." .. INTEGERS, "T T T", "$2 < $1 ? $2 : $1")
row("max." .. INTEGERS, "T T T", "$1 < $2 ? $2 : $1")
row("neg.{s16,s32,s64}", "U U", "0u - $1")
row("abs.{s16,s32,s64}", "U T", "ptx::magnitude($1)")

row("and.{b16,b32,b64}", "T T T", "$1 & $2")
row("or.{b16,b32,b64}", "T T T", "$1 | $2")
row("xor.{b16,b32,b64}", "T T T", "$1 ^ $2")
row("not.{b16,b32,b64}", "T T", "~$1")
row("and.pred", "pred pred pred", "$1 & $2")
row("or.pred", "pred pred pred", "$1 | $2")
row("xor.pred", "pred pred pred", "$1 ^ $2")
row("not.pred", "pred pred", "!$1")
row("shl.{b16,b32,b64}", "T T u32", "ptx::shift_left($1, $2)")
row("shr.{s16,s32,s64,u16,u32,u64,b16,b32,b64}", "T T u32", "ptx::shift_right($1, $2)")
row("shf.l.wrap.b32", "b32 b32 b32 u32", "ptx::funnel_left($1, $2, $3)")
row("shf.r.wrap.b32", "b32 b32 b32 u32", "ptx::funnel_right($1, $2, $3)")
row("bfi.{b32,b64}", "T T T u32 u32", "ptx::insert($1, $2, $3, $4)")
row("bfe.{u32,s32}", "T T u32 u32", "ptx::extract($1, $2, $3)")
row("prmt.b32", "b32 b32 b32 b32", "ptx::permute($1, $2, $3)")
row("lop3.b32", "b32 b32 b32 b32 immediate", "ptx::logic($1, $2, $3, $4)")
row("clz.b32", "u32 b32", "ptx::leading_zeros($1)")
row("popc.b32", "u32 b32", "(uint32_t)__builtin_popcount($1)")
row("brev.b32", "b32 b32", "ptx::reversed($1)")

row("mov.{pred,b16,u16,s16,b32,u32,s32,b64,u64,s64,f32}", "T T", "$1")
row("selp.{b16,u16,s16,b32,u32,s32,b64,u64,s64,f32}", "T T T pred", "$3 ? $1 : $2")

row("add{,.rn}.f32", "f32 f32 f32", "$1 + $2")
row("sub{,.rn}.f32", "f32 f32 f32", "$1 - $2")
row("mul{,.rn}.f32", "f32 f32 f32", "$1 * $2")
row("fma.rn.f32", "f32 f32 f32 f32", "__builtin_fmaf($1, $2, $3)")
row("div.rn.f32", "f32 f32 f32", "$1 / $2")
row("rcp.rn.f32", "f32 f32", "1.0f / $1")
row("sqrt.rn.f32", "f32 f32", "__builtin_sqrtf($1)")
row("min.f32", "f32 f32 f32", "ptx::least($1, $2)")
row("max.f32", "f32 f32 f32", "ptx::greatest($1, $2)")
row("neg.f32", "f32 f32", "-$1")
row("abs.f32", "f32 f32", "__builtin_fabsf($1)")
row("ex2.approx.ftz.f32", "f32 f32", "ptx::ex2($1, @)")
row("lg2.approx.f32", "f32 f32", "ptx::lg2($1, @)")
row("fma.rn.bf16x2", "b32 b32 b32 b32", "ptx::fma_bf16x2($1, $2, $3)")
row("fma.rn.f16x2", "b32 b32 b32 b32", "ptx::fma_f16x2($1, $2, $3)")

row("cvt.rn.bf16x2.f32", "b32 f32 f32", "sim::to_bf16($2) | sim::to_bf16($1) << 16")
row("cvt.rn.f16x2.f32", "b32 f32 f32", "sim::to_f16($2) | sim::to_f16($1) << 16")
row("cvt.rn.bf16.f32", "b16 f32", "sim::to_bf16($1)")
row("cvt.rn.f16.f32", "b16 f32", "sim::to_f16($1)")
row("cvt.f32.f16", "f32 b16", "sim::from_f16($1)")
row("cvt.f32.bf16", "f32 b16", "sim::from_bf16($1)")
row("cvt.rna.tf32.f32", "b32 f32", "sim::round_tf32($1)")
row("cvt.rn.tf32.f32", "b32 f32", "sim::nearest_tf32($1)")
row("cvt.rn.f32.{s16,u16,s32,u32,s64,u64}", "f32 T", "(float)$1")
for _, type in ipairs { "s32", "u32" } do
  row("cvt.rzi." .. type .. ".f32", type .. " f32", "ptx::whole<@R>(__builtin_truncf($1))")
  row("cvt.rmi." .. type .. ".f32", type .. " f32", "ptx::whole<@R>(__builtin_floorf($1))")
  row("cvt.rpi." .. type .. ".f32", type .. " f32", "ptx::whole<@R>(__builtin_ceilf($1))")
  row("cvt.rni." .. type .. ".f32", type .. " f32", "ptx::whole<@R>(__builtin_rintf($1))")
end
for _, to in ipairs { "s16", "u16", "s32", "u32", "s64", "u64" } do
  for _, from in ipairs { "s16", "u16", "s32", "u32", "s64", "u64" } do
    row(("cvt.%s.%s"):format(to, from), to .. " " .. from, "(@R)$1")
  end
end

-- Comparisons: of integers, and of floats, where those with a `u` are true of a NaN.
local COMPARE = { eq = "$1 == $2", ne = "$1 != $2", lt = "$1 < $2", le = "$1 <= $2", gt = "$1 > $2", ge = "$1 >= $2" }
local FLOAT = {
  eq = "$1 == $2",
  ne = "$1 < $2 || $1 > $2",
  lt = "$1 < $2",
  le = "$1 <= $2",
  gt = "$1 > $2",
  ge = "$1 >= $2",
  equ = "!($1 < $2 || $1 > $2)",
  neu = "!($1 == $2)",
  ltu = "!($1 >= $2)",
  leu = "!($1 > $2)",
  gtu = "!($1 <= $2)",
  geu = "!($1 < $2)",
  num = "$1 == $1 && $2 == $2",
  nan = "$1 != $1 || $2 != $2",
}
local COMBINE = { ["and"] = "&", ["or"] = "|", xor = "^" }

local function comparison(name, types, expression)
  row(name, "pred " .. types, expression)
  local compare, type = name:match("^setp%.(%w+)%.(%w+)$")
  for word, symbol in pairs(COMBINE) do
    row(("setp.%s.%s.%s"):format(compare, word, type), ("pred %s pred"):format(types), ("(%s) %s $3"):format(expression, symbol))
  end
end

for _, type in ipairs { "b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64" } do
  for compare, expression in pairs(COMPARE) do
    if type:sub(1, 1) ~= "b" or compare == "eq" or compare == "ne" then
      comparison(("setp.%s.%s"):format(compare, type), type .. " " .. type, expression)
    end
  end
end
for compare, expression in pairs(FLOAT) do comparison(("setp.%s.f32"):format(compare), "f32 f32", expression) end

--- Writes an instruction of one of the rows.
function M.emit(kernel, item)
  local made, operands = rows[item.op], item.operands
  local types = made.types
  if item.op:find("^mov%.b") and (operands[1].kind == "list" or operands[2].kind == "list") then return M.pieces(kernel, item) end
  if #operands ~= #types then kernel:fail("%d operands, of which there should be %d", #operands, #types) end
  local expression = made.expression:gsub("@R", kernel.C[types[1]]):gsub("@", function() return kernel:site() end):gsub("%$(%d)", function(n)
    local index = tonumber(n) + 1
    if types[index] == "immediate" then
      if operands[index].kind ~= "number" then kernel:fail("operand %s is no number", n) end
      return ("0x%xu"):format(operands[index].value)
    end
    return kernel:value(operands[index], types[index])
  end)
  kernel:set(operands[1], types[1], expression)
end

--- mov between a register and the pieces that it is made of, the lowest first.
function M.pieces(kernel, item)
  local to, from = kernel:list(item.operands[1]), kernel:list(item.operands[2])
  local whole = item.words[2]
  local part = "b" .. kernel.width(whole) // math.max(#to, #from)
  local bits = kernel.width(part)
  if bits ~= 16 and bits ~= 32 then kernel:fail("pieces of %d bits", bits) end
  if #to > 1 and #from > 1 then kernel:fail("two lists") end
  if #to == 1 then
    local terms = {}
    for n, piece in ipairs(from) do terms[n] = ("(%s)%s << %d"):format(kernel.C[whole], kernel:value(piece, part), (n - 1) * bits) end
    return kernel:set(to[1], whole, table.concat(terms, " | "))
  end
  kernel:out("{ const %s whole = %s;", kernel.C[whole], kernel:value(from[1], whole))
  for n, piece in ipairs(to) do kernel:set(piece, part, ("(%s)(whole >> %d)"):format(kernel.C[part], (n - 1) * bits)) end
  kernel:out("}")
end

return M
