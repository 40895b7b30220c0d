-- A test of every row of arithmetic.lua on values that matter: a kernel a row, and what it must give, computed here in
-- another way.
--
--   lua5.4 tests/hostsim/ptx/kinds.lua ptx         a PTX file: kernel kind_NAME reads operands, executes one instruction, stores the result
--   lua5.4 tests/hostsim/ptx/kinds.lua table       for kinds.cc: the rows, and the values of each type
--   lua5.4 tests/hostsim/ptx/kinds.lua expected    a golden file, as a GPU's recording is one (tests/hostsim/micro/golden.h)
--
-- Run from the root. Nothing but the ISA's words leads to `expected`: it shares no line with the translator.
package.path = "./?.lua"

local rows = require("tests.hostsim.ptx.arithmetic").rows

-- Rows that a micro-test has with numbers of its own, recorded on a GPU: tests/hostsim/micro.
local ELSEWHERE = {
  ["ex2.approx.ftz.f32"] = "ex2", ["lg2.approx.f32"] = "lg2", ["fma.rn.bf16x2"] = "fma_bf16x2", ["fma.rn.f16x2"] = "fma_f16x2",
  ["cvt.rn.bf16x2.f32"] = "pack_bf16", ["cvt.rn.f16x2.f32"] = "pack_f16", ["cvt.rna.tf32.f32"] = "to_tf32", ["cvt.rn.tf32.f32"] = "nearest_tf32",
}

-- The third operand of lop3.
local LOGIC = 0x6a

-- Instructions one after another, whose first result overflows. A number without bounds would be another in the second
-- instruction: so it is in C++, whose compiler may take it that a sum of integers with signs never overflows. Operands
-- are %r1 and %r2, the result is %r8 or %p8.
local CHAINS = {
  ["chain.sub.max"] = { "s32", "sub.s32 %r9, %r1, %r2; max.s32 %r8, %r9, 0;", function(a, b, cut) return math.max(cut(a - b), 0) end },
  ["chain.sub.setp"] = { "pred", "sub.s32 %r9, %r1, %r2; setp.lt.s32 %p8, %r9, 0;", function(a, b, cut) return cut(a - b) < 0 and 1 or 0 end },
  ["chain.add.setp"] = { "pred", "add.s32 %r9, %r1, %r2; setp.lt.s32 %p8, %r9, %r1;", function(a, b, cut) return cut(a + b) < a and 1 or 0 end },
  ["chain.neg.max"] = { "s32", "neg.s32 %r9, %r1; max.s32 %r8, %r9, %r2;", function(a, b, cut) return math.max(cut(-a), b) end },
  ["chain.abs.setp"] = { "pred", "abs.s32 %r9, %r1; setp.lt.s32 %p8, %r9, %r2;", function(a, b, cut) return cut(math.abs(a)) < b and 1 or 0 end },
  ["chain.mul.shr"] = { "s32", "mul.lo.s32 %r9, %r1, %r2; shr.s32 %r8, %r9, 1;", function(a, b, cut) return cut(a * b) >> 1 end },
  ["chain.shl.setp"] = { "pred", "shl.b32 %r9, %r1, 1; setp.lt.s32 %p8, %r9, %r2;", function(a, b, cut) return cut(a << 1) < b and 1 or 0 end },
}

local tested, names = {}, {}
for name, row in pairs(rows) do
  if not ELSEWHERE[name] then tested[name] = row end
end
for name, chain in pairs(CHAINS) do tested[name] = { types = { chain[1], "s32", "s32" } } end
for name in pairs(tested) do names[#names + 1] = name end
rows = tested
table.sort(names)

---- values ----------------------------------------------------------------------------------------------------------------------

local WORDS = {
  0, 1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xffff, 0x10000, 0x7ffffffe, 0x7fffffff, 0x80000000,
  0x80000001, 0xfffffffe, 0xffffffff, 0x12345678, 0x9abcdef0, 0x55555555, 0xaaaaaaaa,
}
local VALUES = {
  pred = { 0, 1 },
  b16 = { 0, 1, 2, 3, 7, 8, 15, 16, 17, 0x7f, 0x80, 0xff, 0x100, 0x7ffe, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff, 0x1234, 0x5555, 0xaaaa },
  b32 = WORDS,
  b64 = { 0x100000000, 0x17fffffff, 0x7ffffffffffffffe, 0x7fffffffffffffff, 0x8000000000000000, 0x8000000000000001, 0xfffffffffffffffe,
    0xffffffffffffffff, 0xffffffff80000000, 0x123456789abcdef0, 0x5555555555555555, 0xaaaaaaaaaaaaaaaa, 0x1000000000001, 0x8000000080000000 },
  byte = { 0, 1, 4, 7, 8, 15, 16, 24, 31, 32, 33, 63, 64, 128, 255 }, -- a place or a count of bits
  -- Zeros, denormals, the ends of the range, ties of conversions to whole numbers, to f16 and to bf16, the ends of
  -- whole numbers, infinities, NaNs.
  f32 = {
    0, 0x80000000, 1, 0x80000001, 0x007fffff, 0x00800000, 0x807fffff, 0x3f800000, 0xbf800000, 0x3f800001, 0x3f7fffff, 0x40000000, 0x40490fdb, 0x3f000000,
    0x3effffff, 0xbf000000, 0x3fc00000, 0x40200000, 0xc0200000, 0x4b000000, 0x4b800001, 0x4effffff, 0x4f000000, 0xcf000000, 0x4f7fffff, 0x4f800000,
    0x5f000000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7fbadbad, 0x33800000, 0x33000000, 0x33000001, 0x38800000,
    0x387fffff, 0x477fe000, 0x477ff000, 0x47800000, 0x3f808000, 0x3f818000, 0x3f801000, 0x3f803000, 0x322bcc77, 0xc2aeac50,
  },
}
for n, word in ipairs(WORDS) do table.insert(VALUES.b64, n, word) end

local MOST = 4096 -- tuples of a row

-- The values of a row's n-th operand.
local function values_of(name, n)
  local type = rows[name].types[n + 1]
  if name:find("^bf[ie]%.") and n >= #rows[name].types - 2 then return "byte" end
  return VALUES[type] and type or "b" .. type:match("%d+")
end

local function sources(name)
  local list = {}
  for n = 1, #rows[name].types - 1 do
    if rows[name].types[n + 1] ~= "immediate" then list[#list + 1] = values_of(name, n) end
  end
  return list
end

-- No answer is promised for a division by zero: kinds.cc, too, has 1 in place of 0 there.
local function divides(name) return name:find("^div%.[su]") or name:find("^rem%.") end

---- the kernels -----------------------------------------------------------------------------------------------------------------

-- Of a NaN that arithmetic makes no bits are promised: all become one.
local function makes_nan(name) return rows[name].types[1] == "f32" and not name:find("^mov") and not name:find("^selp") end

local function kernel_name(name) return "kind_" .. name:gsub("[^%w]", "_") end

local CLASS = { pred = "%p", b16 = "%h", b32 = "%r", b64 = "%d", f32 = "%f" }
local function class(type) return (type == "pred" or type == "f32") and type or "b" .. type:match("%d+") end

local function kernel(name)
  local types, out = rows[name].types, {}
  local function line(format, ...) out[#out + 1] = "\t" .. format:format(...) end
  local count = #sources(name)
  out[1] = (".visible .entry %s(\n\t.param .align 64 .b8 kind_p[192]\n)\n{"):format(kernel_name(name))
  line(".reg .pred %%p<9>;\n\t.reg .b16 %%h<9>;\n\t.reg .b32 %%r<19>;\n\t.reg .b64 %%d<19>;\n\t.reg .f32 %%f<9>;")
  line("ld.param.u64 %%d10, [kind_p+128];\n\tld.param.u64 %%d11, [kind_p+136];")
  line("cvta.to.global.u64 %%d10, %%d10;\n\tcvta.to.global.u64 %%d11, %%d11;")
  line("mov.u32 %%r10, %%tid.x;\n\tmov.u32 %%r11, %%ctaid.x;\n\tmad.lo.s32 %%r12, %%r11, 128, %%r10;")
  line("mad.wide.u32 %%d10, %%r12, %d, %%d10;\n\tmad.wide.u32 %%d11, %%r12, 8, %%d11;", 8 * count)
  local operands = { CLASS[class(types[1])] .. "8" }
  for n = 1, #types - 1 do
    local type = types[n + 1]
    if type == "immediate" then
      operands[#operands + 1] = tostring(LOGIC)
    else
      line("ld.global.v2.u32 {%%r13, %%r14}, [%%d10+%d];", 8 * (n - 1))
      local c = class(type)
      line(({ pred = "setp.ne.u32 %%p%d, %%r13, 0;", b16 = "cvt.u16.u32 %%h%d, %%r13;", b32 = "mov.b32 %%r%d, %%r13;", f32 = "mov.b32 %%f%d, %%r13;",
        b64 = "mov.b64 %%d%d, {%%r13, %%r14};" })[c], n)
      operands[#operands + 1] = CLASS[c] .. n
    end
  end
  if CHAINS[name] then
    line("%s", CHAINS[name][2])
  else
    line("%s %s;", name, table.concat(operands, ", "))
  end
  local result = class(types[1])
  line("mov.u32 %%r14, 0;")
  if makes_nan(name) then line("setp.nan.f32 %%p0, %%f8, %%f8;\n\tselp.f32 %%f8, 0f7FFFFFFF, %%f8, %%p0;") end
  line(({ pred = "selp.u32 %%r13, 1, 0, %%p8;", b16 = "cvt.u32.u16 %%r13, %%h8;", b32 = "mov.b32 %%r13, %%r8;", f32 = "mov.b32 %%r13, %%f8;",
    b64 = "mov.b64 {%%r13, %%r14}, %%d8;" })[result])
  line("st.global.v2.u32 [%%d11], {%%r13, %%r14};\n\tret;")
  out[#out + 1] = "}\n"
  return table.concat(out, "\n")
end

---- what the ISA says -------------------------------------------------------------------------------------------------------------

local function number(bits) return (string.unpack("<f", string.pack("<I4", bits))) end
local function is_nan(x) return x ~= x end

--- The float32 nearest to a double, as bits.
local function nearest(x)
  if is_nan(x) then return 0x7fffffff end
  return (string.unpack("<I4", string.pack("<f", x)))
end

--- a b + c rounded once: the double sum is made odd where it is not exact, so that rounding it again is right.
local function fused(a, b, c)
  local product = a * b
  local sum = product + c
  if is_nan(sum) or math.abs(sum) == math.huge then return nearest(sum) end
  local part = sum - product
  local rest = (product - (sum - part)) + (c - part)
  local bits = string.unpack("<i8", string.pack("<d", sum))
  if rest ~= 0 and bits & 1 == 0 then
    local away = (rest > 0) == (sum > 0)
    bits = away and bits + 1 or bits - 1
    sum = string.unpack("<d", string.pack("<i8", bits))
  end
  return nearest(sum)
end

local function bits_of(type) return type == "f32" and 32 or tonumber(type:match("%d+")) end
local function cut(value, bits) return bits == 64 and value or value & ((1 << bits) - 1) end
local function signed(value, bits)
  if bits == 64 then return value end
  value = cut(value, bits)
  return value >= 1 << (bits - 1) and value - (1 << bits) or value
end

--- An operand's bits as a Lua integer of the type.
local function integer(value, type)
  return type:sub(1, 1) == "s" and signed(value, bits_of(type)) or cut(value, bits_of(type))
end

local function less(a, b, type) return type == "u64" and math.ult(a, b) or (type ~= "u64" and a < b) end

--- The high 64 bits of a product, from four products of halves.
local function high64(a, b)
  local al, ah, bl, bh = a & 0xffffffff, a >> 32, b & 0xffffffff, b >> 32
  local middle = ah * bl + (al * bl >> 32)
  local low = al * bh + (middle & 0xffffffff)
  return ah * bh + (middle >> 32) + (low >> 32)
end

local function divided(a, b, type)
  if type == "u64" then -- by long division
    local q, r = 0, 0
    for bit = 63, 0, -1 do
      local carry = r < 0
      r = r << 1 | (a >> bit & 1)
      if carry or not math.ult(r, b) then q, r = q | 1 << bit, r - b end
    end
    return q, r
  end
  local q, r = a // b, math.fmod(a, b)
  if r ~= 0 and (a < 0) ~= (b < 0) then q = q + 1 end
  return q, r
end

local function shifted_right(a, n, type)
  local bits = bits_of(type)
  local negative = type:sub(1, 1) == "s" and a < 0
  if n >= bits then return negative and -1 or 0 end
  for _ = 1, n do a = negative and (a >> 1 | math.mininteger) or a >> 1 end
  return a
end

--- One bit of what lies in a register and, above it, of its sign or of zeros.
local function bit_of(a, n, sign) return n < 32 and a >> n & 1 or (sign and a >> 31 & 1 or 0) end

local function whole(mode, x, type)
  if is_nan(x) then return 0 end
  local low, high = type == "s32" and -0x80000000 or 0, type == "s32" and 0x7fffffff or 0xffffffff
  if x <= low then return low end
  if x >= high then return high end
  local floor = math.floor(x)
  if mode == "rmi" then return floor end
  if mode == "rpi" then return math.ceil(x) end
  if mode == "rzi" then return x < 0 and math.ceil(x) or floor end
  local over = x - floor
  return (over > 0.5 or (over == 0.5 and floor % 2 == 1)) and floor + 1 or floor
end

--- A float as a 16-bit one with so many bits of exponent and mantissa, to nearest even.
local function narrowed(bits, exponent_bits, mantissa_bits)
  local x = number(bits)
  if is_nan(x) then return 0x7fff end
  local sign, most = bits >> 31 << 15, (1 << (exponent_bits - 1)) - 1
  x = math.abs(x)
  local top = 2.0 ^ most * (2 - 2.0 ^ -mantissa_bits)
  if x >= top + 2.0 ^ (most - mantissa_bits - 1) then return sign | ((1 << exponent_bits) - 1) << mantissa_bits end
  local exponent = 1 - most -- the denormals'
  while exponent < most and x >= 2.0 ^ (exponent + 1) do exponent = exponent + 1 end
  local scaled = x * 2.0 ^ (mantissa_bits - exponent)
  local units = whole("rni", scaled, "u32")
  if units < 1 << mantissa_bits then return sign | units end
  return sign | (units + ((exponent + most - 1) << mantissa_bits))
end

local function widened_half(half)
  local sign, exponent, mantissa = half >> 15, half >> 10 & 31, half & 1023
  local x
  if exponent == 31 then
    if mantissa ~= 0 then return 0x7fffffff end
    x = math.huge
  elseif exponent == 0 then x = mantissa * 2.0 ^ -24
  else x = (1024 + mantissa) * 2.0 ^ (exponent - 25) end
  return nearest(sign == 1 and -x or x)
end

local COMPARE = {
  eq = function(a, b) return a == b end, ne = function(a, b) return a ~= b end,
  lt = function(a, b, t) return less(a, b, t) end, gt = function(a, b, t) return less(b, a, t) end,
  le = function(a, b, t) return not less(b, a, t) end, ge = function(a, b, t) return not less(a, b, t) end,
}
local COMBINE = { ["and"] = function(p, q) return p and q end, ["or"] = function(p, q) return p or q end, xor = function(p, q) return p ~= q end }

local function compared(words, v, type)
  local how = words[2]
  local result
  if type == "f32" then
    local a, b = number(v[1]), number(v[2])
    local unordered = is_nan(a) or is_nan(b)
    if how == "num" then result = not unordered
    elseif how == "nan" then result = unordered
    elseif unordered then result = #how == 3
    else result = COMPARE[how:sub(1, 2)](a, b, type) end
  else
    result = COMPARE[how](integer(v[1], type), integer(v[2], type), type)
  end
  if COMBINE[words[3]] then result = COMBINE[words[3]](result, v[3] ~= 0) end
  return result and 1 or 0
end

--- Zeros of two signs are told apart: -0 is less.
local function before(a, b, x, y) return x < y or (x == y and a >> 31 > b >> 31) end

local FLOAT = {
  add = function(a, b) return nearest(number(a) + number(b)) end,
  sub = function(a, b) return nearest(number(a) - number(b)) end,
  mul = function(a, b) return nearest(number(a) * number(b)) end,
  div = function(a, b) return nearest(number(a) / number(b)) end,
  rcp = function(a) return nearest(1 / number(a)) end,
  sqrt = function(a) return a == 0x80000000 and a or nearest(math.sqrt(number(a))) end,
  fma = function(a, b, c) return fused(number(a), number(b), number(c)) end,
  neg = function(a) return is_nan(number(a)) and 0x7fffffff or a ~ 0x80000000 end,
  abs = function(a) return is_nan(number(a)) and 0x7fffffff or a & 0x7fffffff end,
  min = function(a, b)
    local x, y = number(a), number(b)
    if is_nan(x) then return is_nan(y) and 0x7fffffff or b end
    return (is_nan(y) or before(a, b, x, y)) and a or b
  end,
  max = function(a, b)
    local x, y = number(a), number(b)
    if is_nan(x) then return is_nan(y) and 0x7fffffff or b end
    return (is_nan(y) or before(b, a, y, x)) and a or b
  end,
}

local INTEGER -- by the first word; gets operands of the type, and the type
INTEGER = {
  add = function(_, a, b) return a + b end,
  sub = function(_, a, b) return a - b end,
  neg = function(_, a) return -a end,
  abs = function(_, a) return a < 0 and -a or a end,
  div = function(t, a, b) return (divided(a, b, t)) end,
  rem = function(t, a, b) return (select(2, divided(a, b, t))) end,
  min = function(t, a, b) return less(b, a, t) and b or a end,
  max = function(t, a, b) return less(a, b, t) and b or a end,
  ["and"] = function(_, a, b) return a & b end,
  ["or"] = function(_, a, b) return a | b end,
  xor = function(_, a, b) return a ~ b end,
  ["not"] = function(_, a) return ~a end,
  mov = function(_, a) return a end,
  shl = function(t, a, n) return n >= bits_of(t) and 0 or a << n end,
  shr = function(t, a, n) return shifted_right(a, n, t) end,
  clz = function(_, a)
    local n = 0
    while n < 32 and a >> (31 - n) & 1 == 0 do n = n + 1 end
    return n
  end,
  popc = function(_, a)
    local n = 0
    for bit = 0, 31 do n = n + (a >> bit & 1) end
    return n
  end,
  brev = function(_, a)
    local r = 0
    for bit = 0, 31 do r = r << 1 | (a >> bit & 1) end
    return r
  end,
}

local NAMED = {
  ["mul.hi"] = function(t, a, b)
    if t == "s32" or t == "u32" then return a * b >> 32 end
    local high = high64(a, b)
    if t == "s64" then high = high - (a < 0 and b or 0) - (b < 0 and a or 0) end
    return high
  end,
  ["shf.l"] = function(_, a, b, n) return (b << 32 | a) >> (32 - (n & 31)) end,
  ["shf.r"] = function(_, a, b, n) return (b << 32 | a) >> (n & 31) end,
}

local function expected(name, v)
  local words = {}
  for word in name:gmatch("[^.]+") do words[#words + 1] = word end
  local first, types = words[1], rows[name].types
  local type, bits = words[#words], types[1] == "pred" and 1 or bits_of(types[1])
  if CHAINS[name] then
    return cut(CHAINS[name][3](signed(v[1], 32), signed(v[2], 32), function(value) return signed(value, 32) end), bits)
  end
  if first == "setp" then return compared(words, v, type) end
  if first == "selp" then return v[3] ~= 0 and v[1] or v[2] end
  if type == "pred" then return cut(INTEGER[first](type, v[1], v[2]), 1) end
  if first == "mov" then return v[1] end
  if first == "cvt" then
    local from, to = type, words[#words - 1]
    if from == "f16" then return widened_half(v[1]) end
    if from == "bf16" then return nearest(number(v[1] << 16)) end
    if to == "bf16" then return narrowed(v[1], 8, 7) end
    if to == "f16" then return narrowed(v[1], 5, 10) end
    if from == "f32" then return cut(whole(words[2], number(v[1]), to), 32) end
    local value = integer(v[1], from)
    if to ~= "f32" then return cut(value, bits) end
    if from ~= "u64" and from ~= "s64" then return nearest(value + 0.0) end
    -- 64 bits are more than a double holds: what is cut off stays as one bit that is set.
    local negative = from == "s64" and value < 0
    local size, shift = negative and -value or value, 0
    while size >> 53 ~= 0 do size, shift = size >> 1 | size & 1, shift + 1 end
    local float = size * 2.0 ^ shift
    return nearest(negative and -float or float)
  end
  if type == "f32" then return FLOAT[first](v[1], v[2], v[3]) end
  if first == "bfi" then
    local result, at, count = v[2], v[3], v[4]
    for n = 0, count - 1 do
      if at + n < bits then result = (result & ~(1 << (at + n))) | (v[1] >> n & 1) << (at + n) end
    end
    return result
  elseif first == "bfe" then
    local result, sign, at, count = 0, type == "s32", v[2], v[3]
    local last = bit_of(v[1], math.min(at + count - 1, 31), false)
    for n = 0, 31 do
      local bit
      if n < count and at + n < 32 then bit = v[1] >> (at + n) & 1 else bit = sign and count > 0 and last or 0 end
      result = result | bit << n
    end
    return result
  elseif first == "prmt" then
    local result = 0
    for n = 0, 3 do
      local nibble = v[3] >> 4 * n & 15
      local from = nibble & 7
      local byte = (from < 4 and v[1] or v[2]) >> 8 * (from & 3) & 255
      if nibble & 8 ~= 0 then byte = byte >= 128 and 255 or 0 end
      result = result | byte << 8 * n
    end
    return result
  elseif first == "lop3" then
    local result = 0
    for n = 0, 31 do
      local index = (v[1] >> n & 1) << 2 | (v[2] >> n & 1) << 1 | v[3] >> n & 1
      result = result | (LOGIC >> index & 1) << n
    end
    return result
  end
  local operands = {}
  for n = 1, #v do operands[n] = (first == "shl" or first == "shr") and n == 2 and v[n] or integer(v[n], types[n + 1]) end
  local a, b, c = operands[1], operands[2], operands[3]
  local function is(word) return words[2] == word end
  if (first == "mul" or first == "mad") and not is("hi") then return cut(a * b + (first == "mad" and c or 0), bits) end
  if NAMED[first .. "." .. words[2]] then return cut(NAMED[first .. "." .. words[2]](type, a, b, c), bits) end
  return cut(INTEGER[first](type, a, b), bits)
end

---- tuples ------------------------------------------------------------------------------------------------------------------------

-- The n-th tuple of a row: kinds.cc has the same rule.
local function tuple(name, lists, n, total)
  local index = total <= MOST and n or (n * 7919) % total
  local v = {}
  for j, list in ipairs(lists) do
    v[j] = VALUES[list][index % #VALUES[list] + 1]
    index = index // #VALUES[list]
  end
  if divides(name) and v[2] == 0 then v[2] = 1 end
  return v
end

local function golden(name)
  local lists, total = sources(name), 1
  for _, list in ipairs(lists) do total = total * #VALUES[list] end
  local count, words = math.min(total, MOST), {}
  for n = 0, count - 1 do
    local result = expected(name, tuple(name, lists, n, total))
    if makes_nan(name) and is_nan(number(result)) then result = 0x7fffffff end
    words[#words + 1] = result & 0xffffffff
    words[#words + 1] = result >> 32
  end
  local hash = 0xcbf29ce484222325
  for _, word in ipairs(words) do
    for byte = 0, 3 do hash = (hash ~ (word >> 8 * byte & 0xff)) * 0x100000001b3 end
  end
  local line = { ("%s %d %016x"):format(name, #words, hash) }
  local shown = math.min(8, #words)
  for i = 0, shown - 1 do line[#line + 1] = ("%08x"):format(words[#words * i // shown + 1]) end
  return table.concat(line, " ")
end

---- the program -------------------------------------------------------------------------------------------------------------------

local command = arg[1]
if command == "ptx" then
  print(".version 8.0\n.target sm_90\n.address_size 64\n")
  for _, name in ipairs(names) do print(kernel(name)) end
elseif command == "table" then
  local lists = {}
  for list in pairs(VALUES) do lists[#lists + 1] = list end
  table.sort(lists)
  for _, list in ipairs(lists) do
    local words = {}
    for n, value in ipairs(VALUES[list]) do words[n] = ("0x%xu%s"):format(value, list == "b64" and "ll" or "") end
    print(("static const std::vector<uint64_t> values_%s = {%s};"):format(list, table.concat(words, ", ")))
  end
  print("static const struct kind kinds[] = {")
  for _, name in ipairs(names) do
    local list = {}
    for n, source in ipairs(sources(name)) do list[n] = "&values_" .. source end
    print(('    {"%s", "%s", {%s}, %s},'):format(name, kernel_name(name), table.concat(list, ", "), tostring(divides(name) ~= nil)))
  end
  print("};")
elseif command == "expected" then
  for _, name in ipairs(names) do print(golden(name)) end
elseif command == "value" then -- NAME OPERANDS...: one row on one tuple, for whoever looks for a difference
  local v = {}
  for n = 3, #arg do v[n - 2] = math.tointeger(tonumber(arg[n])) end
  print(("%x"):format(expected(arg[2], v)))
else
  io.stderr:write("usage: kinds.lua ptx | table | expected | value NAME OPERAND...\n")
  os.exit(2, true)
end
