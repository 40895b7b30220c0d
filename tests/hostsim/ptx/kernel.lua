-- One kernel as C++ while it is being written: its types, its registers in their scopes, its operands as expressions,
-- and its lines.
--
-- A register is a variable of the class that it was declared with. An instruction has types of its own, so each operand
-- is converted to the instruction's type, bit by bit, and each result back.
local Kernel = {}
Kernel.__index = Kernel

-- The C++ type of each PTX type.
local C = { pred = "bool", f32 = "float", b8 = "uint8_t", f16 = "uint16_t", bf16 = "uint16_t", f16x2 = "uint32_t", bf16x2 = "uint32_t", tf32 = "uint32_t" }
for _, bits in ipairs { "16", "32", "64" } do
  C["b" .. bits], C["u" .. bits], C["s" .. bits] = "uint" .. bits .. "_t", "uint" .. bits .. "_t", "int" .. bits .. "_t"
end
Kernel.C = C

local WIDTH = { pred = 1, f16 = 16, bf16 = 16, f16x2 = 32, bf16x2 = 32, tf32 = 32 }
function Kernel.width(type) return WIDTH[type] or tonumber(type:match("%d+$")) end
local width = Kernel.width

-- The class of a register that is declared with a type.
local CLASSES = { pred = "pred", f32 = "f32" }
for _, type in ipairs { "b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64" } do CLASSES[type] = "b" .. type:sub(2) end

-- Special registers.
local SPECIAL = {
  ["%tid.x"] = "sim::self->index",
  ["%tid.y"] = "0u",
  ["%tid.z"] = "0u",
  ["%ntid.x"] = "sim::launch().threads",
  ["%ctaid.x"] = "sim::self->block->index",
  ["%ctaid.y"] = "0u",
  ["%ctaid.z"] = "0u",
  ["%nctaid.x"] = "sim::launch().blocks",
  ["%laneid"] = "sim::self->lane",
  ["%cluster_ctarank"] = "sim::cluster_rank()",
  WARP_SZ = "32u",
}

--- `parsed` is parse.lua's kernel, `shared` the names of shared memory, `places` a function that numbers places in the
-- source.
function Kernel.new(parsed, shared, places)
  return setmetatable({
    parsed = parsed,
    shared = shared,
    places = places,
    lines = {},
    variables = {}, -- of each class, in the order of their first use
    scopes = { { names = {}, ranges = {}, labels = {}, tag = "" } },
    tags = 0,
    members = {}, -- registers that lie in arrays, by name: their C++ and the array's number
  }, Kernel)
end

function Kernel:fail(format, ...)
  local item = self.item
  error(("line %d: %s: %s"):format(item and item.line or self.parsed.line, item and item.op or self.parsed.name, format:format(...)), 0)
end

function Kernel:out(format, ...) self.lines[#self.lines + 1] = select("#", ...) > 0 and format:format(...) or format end

--- The place of the instruction, as an argument of the run time.
function Kernel:site() return ("AT(%d, %d)"):format(self.places(self.item.place), self.item.line) end

---- registers -------------------------------------------------------------------------------------------------------------------

local function c_name(name) return (name:gsub("^%%", ""):gsub("[^%w_]", "_")) end

function Kernel:scope() return self.scopes[#self.scopes] end

--- A scope begins; `labels` are those that it has.
function Kernel:open(labels)
  self.tags = self.tags + 1
  self.scopes[#self.scopes + 1] = { names = {}, ranges = {}, labels = labels, tag = "_" .. self.tags }
end

function Kernel:close() self.scopes[#self.scopes] = nil end

function Kernel:label(name)
  for n = #self.scopes, 1, -1 do
    if self.scopes[n].labels[name] then return "L_" .. c_name(name) .. self.scopes[n].tag end
  end
  self:fail("the label %s is not in this kernel", name)
end

function Kernel:declare(item)
  local class = CLASSES[item.type]
  if not class then error(("line %d: .reg .%s: registers of this type are not known"):format(item.line, item.type), 0) end
  local scope = self:scope()
  scope.ranges[item.name] = { class = class, count = item.count }
end

function Kernel:variable(class, name)
  local made = { class = class, c = name }
  local list = self.variables[class] or {}
  self.variables[class] = list
  list[#list + 1] = name
  return made
end

--- The register of a name: { class, c }; nil when there is none.
function Kernel:register(name)
  for n = #self.scopes, 1, -1 do
    local scope = self.scopes[n]
    local known = scope.names[name]
    if known then return known end
    local range, base, number = scope.ranges[name], name:match("^(.-)(%d+)$")
    if range and range.count then range = nil end
    if not range and base then
      range = scope.ranges[base]
      if range and not (range.count and tonumber(number) < range.count) then range = nil end
    end
    if range then
      local member = n == 1 and self.members[name]
      scope.names[name] = member and { class = range.class, c = member.c, array = member.array } or self:variable(range.class, c_name(name) .. scope.tag)
      return scope.names[name]
    end
  end
end

---- operands --------------------------------------------------------------------------------------------------------------------

local function unsigned_constant(value, type)
  local bits = width(type)
  if bits < 64 then value = value & ((1 << bits) - 1) end
  return ("(%s)0x%xu%s"):format(C[type], value, bits == 64 and "ll" or "")
end

function Kernel:number(operand, type)
  if type == "pred" then return operand.value ~= 0 and "true" or "false" end
  if type == "f32" then self:fail("a whole number where a float should be") end
  local bits = width(type)
  if bits < 64 and (operand.value < -(1 << (bits - 1)) or operand.value >= 1 << bits) then
    self:fail("%d does not fit into .%s", operand.value, type)
  end
  return unsigned_constant(operand.value, type)
end

--- What a register holds, as the type.
function Kernel:read(register, type)
  if register.unknown then self:fail("%s, which is not known", register.unknown) end
  if (type == "pred") ~= (register.class == "pred") then self:fail("a register of .%s as .%s", register.class, type) end
  if type == "pred" or type == register.class then return register.c end
  local class_width = width(register.class)
  if width(type) > class_width then self:fail("a register of .%s as .%s", register.class, type) end
  if type == "f32" then return ("ptx::number(%s)"):format(register.c) end
  local bits = register.class == "f32" and ("ptx::bits(%s)"):format(register.c) or register.c
  return C[type] == C[register.class] and bits or ("(%s)%s"):format(C[type], bits)
end

--- An operand as a C++ expression of the type.
function Kernel:value(operand, type)
  if not operand then self:fail("an operand is missing") end
  if not C[type] then self:fail("the type .%s", type) end
  if operand.kind == "number" then return self:number(operand, type) end
  if operand.kind == "float" then
    if type == "f32" then return ("ptx::number(0x%08xu)"):format(operand.bits) end
    if width(type) == 32 then return ("0x%08xu"):format(operand.bits) end
    self:fail("a float as .%s", type)
  end
  if operand.kind == "not" then
    if type ~= "pred" then self:fail("! of what is no predicate") end
    return "!" .. self:value({ kind = "name", name = operand.name }, type)
  end
  if operand.kind == "flipped" then return ("(%s ^ 1u)"):format(self:value(operand[1], type)) end -- of a fault
  if operand.kind ~= "name" then self:fail("an operand that is a %s", operand.kind) end
  local register = self:register(operand.name)
  if register then return self:read(register, type) end
  if SPECIAL[operand.name] then return ("(%s)%s"):format(C[type], SPECIAL[operand.name]) end
  if self.shared[operand.name] then return ("(%s)sim::shared_window()"):format(C[type]) end
  if operand.name == self.parsed.parameter then return ("(%s)(uintptr_t)P"):format(C[type]) end
  self:fail("%s is not known", operand.name)
end

--- The operands of a list, or the one that there is.
function Kernel:list(operand)
  if not operand then self:fail("an operand is missing") end
  return operand.kind == "list" and operand or { operand }
end

function Kernel:values(operand, type)
  local values = {}
  for n, each in ipairs(self:list(operand)) do values[n] = self:value(each, type) end
  return values
end

function Kernel:array(name, operand, type)
  local values = self:values(operand, type)
  return ("%s %s[%d] = {%s};"):format(C[type], name, #values, table.concat(values, ", "))
end

--- Puts an expression of the type into a register. `_` drops it.
function Kernel:set(operand, type, expression)
  if operand.kind ~= "name" then self:fail("a result that is a %s", operand.kind) end
  if operand.name == "_" then return self:out("(void)(%s);", expression) end
  local register = self:register(operand.name)
  if not register then self:fail("the result %s is no register", operand.name) end
  local class = register.class
  if (type == "pred") ~= (class == "pred") or (type ~= "pred" and width(type) > width(class)) then
    self:fail("a result of .%s in a register of .%s", type, class)
  end
  if type == "f32" and class ~= "f32" then
    expression = ("ptx::bits(%s)"):format(expression)
  elseif type ~= "f32" and class == "f32" then
    expression = ("ptx::number((uint32_t)(%s))"):format(expression)
  elseif type ~= class then
    expression = ("(%s)(%s)(%s)"):format(C[class], C[type], expression) -- a smaller result is extended by its own sign
  end
  self:out("%s = %s;", register.c, expression)
end

function Kernel:set_list(operand, type, array)
  for n, each in ipairs(self:list(operand)) do self:set(each, type, ("%s[%d]"):format(array, n - 1)) end
end

--- [base + offset] as an expression of 64 bits: an address of global memory or of a parameter.
function Kernel:address(operand)
  if not operand or operand.kind ~= "address" then self:fail("an address is missing") end
  local base = self:value(operand.base, "b64")
  return operand.offset == 0 and base or ("(%s + (uint64_t)%dll)"):format(base, operand.offset)
end

--- [base + offset] in shared memory, where the base may be in a register of 64 bits.
function Kernel:shared_address(operand)
  if not operand or operand.kind ~= "address" then self:fail("an address is missing") end
  local base = self:value(operand.base, "b32")
  return operand.offset == 0 and base or ("(%s + 0x%xu)"):format(base, operand.offset & 0xffffffff)
end

return Kernel
