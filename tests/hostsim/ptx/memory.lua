-- Loads, stores and atomic operations, and addresses of one space as addresses of another.
local expand = require("tests.hostsim.ptx.expand")

local M = { emitters = {} }

local function row(pattern, emit)
  for _, name in ipairs(expand(pattern)) do M.emitters[name] = emit end
end

-- Of the sizes that the engine looks at: 4 and 8 bytes, up to 16 in all. In global memory halves of words, too.
local LENGTHS_AND_TYPES = "{,.v2,.v4}.{b32,u32,s32,f32,b64,u64,s64}"

local function length(kernel, item)
  local count = tonumber(item.op:match("%.v(%d)%.")) or 1
  local type = item.words[#item.words]
  if count * kernel.width(type) > 128 then kernel:fail("more than 16 bytes") end
  return count, type
end

--- A load into a list of registers; `call` gets the array's name.
local function load(kernel, item, call)
  local count, type = length(kernel, item)
  local to = kernel:list(item.operands[1])
  if #to ~= count then kernel:fail("%d registers for %d elements", #to, count) end
  kernel:out("{ %s v[%d]; %s;", kernel.C[type], count, call)
  kernel:set_list(item.operands[1], type, "v")
  kernel:out("}")
end

local function store(kernel, item, format, address)
  local count, type = length(kernel, item)
  if #kernel:list(item.operands[2]) ~= count then kernel:fail("%d values for %d elements", #kernel:list(item.operands[2]), count) end
  kernel:out("{ const %s " .. format .. "; }", kernel:array("v", item.operands[2], type), address, kernel:site())
end

--- The name of the memory access in traces and costs: without its type.
local function told(item) return (item.op:gsub("%.%w+$", "")) end

row("ld.param{,.v2,.v4}.{b16,u16,s16,b32,u32,s32,f32,b64,u64,s64}", function(kernel, item)
  local from = item.operands[2]
  local count, type = length(kernel, item)
  local bytes = count * kernel.width(type) // 8
  if from.kind == "address" and from.base.name == kernel.parsed.parameter then
    if from.offset < 0 or from.offset + bytes > kernel.parsed.bytes then
      kernel:fail("offset %d of a parameter of %d bytes", from.offset, kernel.parsed.bytes)
    end
    load(kernel, item, ("std::memcpy(v, P + %d, sizeof v)"):format(from.offset))
  else
    load(kernel, item, ("ptx::load_parameter(v, P, %d, %s, %s)"):format(kernel.parsed.bytes, kernel:address(from), kernel:site()))
  end
end)

row("ld.shared" .. LENGTHS_AND_TYPES, function(kernel, item)
  load(kernel, item, ('ptx::load_shared("%s", v, %s, %s)'):format(told(item), kernel:shared_address(item.operands[2]), kernel:site()))
end)
row("st.shared" .. LENGTHS_AND_TYPES, function(kernel, item)
  store(kernel, item, 'ptx::store_shared("' .. told(item) .. '", %s, v, %s)', kernel:shared_address(item.operands[1]))
end)
for _, types in ipairs { LENGTHS_AND_TYPES, ".u16" } do
  row("ld.global{,.cg,.ca}" .. types, function(kernel, item)
    load(kernel, item, ('ptx::load_global("%s", v, %s, %s)'):format(told(item), kernel:address(item.operands[2]), kernel:site()))
  end)
  row("st.global" .. types, function(kernel, item)
    store(kernel, item, 'ptx::store_global("' .. told(item) .. '", %s, v, %s)', kernel:address(item.operands[1]))
  end)
end
row("ld.shared::cluster.f32", function(kernel, item)
  kernel:set(item.operands[1], "f32", ("sim::cluster_load(%s, %s)"):format(kernel:shared_address(item.operands[2]), kernel:site()))
end)
row("st.shared::cluster.f32", function(kernel, item)
  kernel:out("sim::cluster_store(%s, %s, %s);", kernel:shared_address(item.operands[1]), kernel:value(item.operands[2], "f32"), kernel:site())
end)

row("ld.{acquire,relaxed}.gpu.global.u32", function(kernel, item)
  kernel:set(item.operands[1], "u32", ("ptx::load_%s(%s, %s)"):format(item.words[2], kernel:address(item.operands[2]), kernel:site()))
end)
row("st.release.gpu.global.u32", function(kernel, item)
  kernel:out("ptx::store_release(%s, %s, %s);", kernel:address(item.operands[1]), kernel:value(item.operands[2], "u32"), kernel:site())
end)
row("red.relaxed.gpu.global.add{,.v4}.f32", function(kernel, item)
  store(kernel, item, "ptx::add_global(%s, v, %s)", kernel:address(item.operands[1]))
end)

local function atomic(pattern, expression)
  row(pattern, function(kernel, item)
    kernel:set(item.operands[1], "u32", ("ptx::atomic(%s, %s, [](uint32_t before, uint32_t operand) { return %s; }, %s)"):format(
      kernel:address(item.operands[2]), kernel:value(item.operands[3], "u32"), expression, kernel:site()))
  end)
end
atomic("atom{,.relaxed.gpu}.global.add.u32", "before + operand")
atomic("atom{,.relaxed.gpu}.global.min.u32", "operand < before ? operand : before")
atomic("atom{,.relaxed.gpu}.global.max.s32", "(int32_t)operand > (int32_t)before ? operand : before")

-- Global and parameter addresses are the same with a space and without one; addresses of shared memory without their
-- space are not made.
row("cvta{.to,}.global.u64", function(kernel, item) kernel:set(item.operands[1], "u64", kernel:value(item.operands[2], "u64")) end)
row("cvta.param.u64", function(kernel, item) kernel:set(item.operands[1], "u64", kernel:value(item.operands[2], "u64")) end)
row("mapa.shared::cluster.u32", function(kernel, item)
  local o = item.operands
  kernel:set(o[1], "u32", ("sim::cluster_address(%s, %s, %s)"):format(kernel:value(o[2], "u32"), kernel:value(o[3], "u32"), kernel:site()))
end)

return M
