-- What threads do together: branches aside, barriers, fences, shuffles and votes, matrix instructions of a warp.
local expand = require("tests.hostsim.ptx.expand")

local M = { emitters = {} }

local function row(pattern, emit)
  for _, name in ipairs(expand(pattern)) do M.emitters[name] = emit end
end

--- A row whose instruction has no operands and is one call.
local function plain(pattern, call)
  row(pattern, function(kernel, item)
    if #item.operands ~= 0 then kernel:fail("operands") end
    kernel:out("%s;", (call:gsub("@", function() return kernel:site() end)))
  end)
end

---- barriers of a block -----------------------------------------------------------------------------------------------------------

--- The threads that come to a barrier: those that are said, or all of the block.
local function threads(kernel, operand) return operand and kernel:value(operand, "u32") or "sim::launch().threads" end

row("{bar,barrier.cta,barrier}.sync", function(kernel, item)
  kernel:out("sim::barrier_sync(%s, %s, %s);", kernel:value(item.operands[1], "u32"), threads(kernel, item.operands[2]), kernel:site())
end)
row("{bar,barrier.cta}.arrive", function(kernel, item)
  kernel:out("sim::barrier_arrive(%s, %s, %s);", kernel:value(item.operands[1], "u32"), threads(kernel, item.operands[2]), kernel:site())
end)
row("{bar,barrier.cta}.red.or.pred", function(kernel, item)
  local o = item.operands
  kernel:set(o[1], "pred", ("sim::barrier_any(%s, %s, %s, %s)"):format(kernel:value(o[2], "u32"), threads(kernel, #o == 4 and o[3] or nil),
    kernel:value(o[#o], "pred"), kernel:site()))
end)
plain("barrier.cluster.arrive{,.release}.aligned", "sim::cluster_arrive(@)")
plain("barrier.cluster.wait{,.acquire}.aligned", "sim::cluster_wait(@)")

---- order -------------------------------------------------------------------------------------------------------------------------

plain("{fence.acq_rel.gpu,fence.sc.gpu,membar.gl}", "ptx::fence(@)")
plain("fence.mbarrier_init.release.cluster", "ptx::fence_mbarrier_init(@)")
plain("fence.proxy.async.shared::cta", "sim::fence_async(@)")
plain("fence.proxy.async.global", "sim::fence_async_global(@)")
plain("griddepcontrol.wait", "sim::await_predecessors(@)")
plain("griddepcontrol.launch_dependents", 'sim::event("griddepcontrol.launch_dependents", @)')

---- warps -------------------------------------------------------------------------------------------------------------------------

row("bar.warp.sync", function(kernel, item)
  kernel:out("ptx::whole_warp(%s, %s); sim::warp_sync(%s);", kernel:value(item.operands[1], "u32"), kernel:site(), kernel:site())
end)
row("shfl.sync.{up,down,bfly,idx}.b32", function(kernel, item)
  local o, to, valid = item.operands, item.operands[1], nil
  if to.kind == "pair" then to, valid = to[1], to[2] end
  kernel:out("{ bool valid; const uint32_t got = ptx::shuffle(ptx::Shuffle::%s, %s, %s, %s, %s, valid, %s);", item.words[3], kernel:value(o[2], "b32"),
    kernel:value(o[3], "u32"), kernel:value(o[4], "u32"), kernel:value(o[5], "u32"), kernel:site())
  kernel:set(to, "b32", "got")
  if valid then kernel:set(valid, "pred", "valid") end
  kernel:out("}")
end)
row("vote.sync.any.pred", function(kernel, item)
  local o = item.operands
  kernel:out("ptx::whole_warp(%s, %s);", kernel:value(o[3], "u32"), kernel:site())
  kernel:set(o[1], "pred", ("sim::warp_any(%s, %s)"):format(kernel:value(o[2], "pred"), kernel:site()))
end)
row("elect.sync", function(kernel, item)
  local to = item.operands[1]
  if to.kind ~= "pair" or to[1].name ~= "_" then kernel:fail("the elected lane's number is not known") end
  kernel:out("ptx::whole_warp(%s, %s);", kernel:value(item.operands[2], "u32"), kernel:site())
  kernel:set(to[2], "pred", ("sim::elect_one(%s)"):format(kernel:site()))
end)

---- matrices ----------------------------------------------------------------------------------------------------------------------

row("ldmatrix.sync.aligned.m8n8.x4{,.trans}.shared.b16", function(kernel, item)
  kernel:out("{ uint32_t v[4]; sim::load_matrices(v, %s, %s, %s);", kernel:shared_address(item.operands[2]), tostring(item.op:find("%.trans") ~= nil),
    kernel:site())
  kernel:set_list(item.operands[1], "b32", "v")
  kernel:out("}")
end)
row("stmatrix.sync.aligned.m8n8.x4{,.trans}.shared.b16", function(kernel, item)
  kernel:out("{ const %s sim::store_matrices(%s, v, %s, %s); }", kernel:array("v", item.operands[2], "b32"), kernel:shared_address(item.operands[1]),
    tostring(item.op:find("%.trans") ~= nil), kernel:site())
end)

local PRODUCTS = { "m16n8k16.row.col.f32.bf16.bf16.f32", "m16n8k16.row.col.f32.f16.f16.f32", "m16n8k8.row.col.f32.tf32.tf32.f32" }
for _, shape in ipairs(PRODUCTS) do
  row("mma.sync.aligned." .. shape, function(kernel, item)
    local o = item.operands
    local b = kernel:values(o[3], "b32")
    kernel:out("{ %s const %s", kernel:array("d", o[4], "f32"), kernel:array("a", o[2], "b32"))
    kernel:out("sim::multiply(sim::Element::%s, d, a, %s, %s, %s);", shape:match("col%.f32%.(%w+)"), b[1], b[2], kernel:site())
    kernel:set_list(o[1], "f32", "d")
    kernel:out("}")
  end)
end

row("setmaxnreg.{inc,dec}.sync.aligned.u32", function(kernel, item)
  kernel:out("sim::set_registers(%s, %s, %s);", kernel:value(item.operands[1], "u32"), tostring(item.words[2] == "inc"), kernel:site())
end)

row("{ret,exit}", function(kernel) kernel:out("return;") end)
row("{bra,bra.uni}", function(kernel, item) kernel:out("goto %s;", kernel:label(item.operands[1].name)) end)

return M
