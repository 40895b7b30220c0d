-- What goes on by itself: copies, mbarriers, products of warpgroups.
local expand = require("tests.hostsim.ptx.expand")

local M = { emitters = {} }

local function row(pattern, emit)
  for _, name in ipairs(expand(pattern)) do M.emitters[name] = emit end
end

---- cp.async ----------------------------------------------------------------------------------------------------------------------

row("cp.async.{ca,cg}.shared.global{,.L2::cache_hint}{,.L2::64B,.L2::128B,.L2::256B}", function(kernel, item)
  local o = item.operands
  if o[3].kind ~= "number" then kernel:fail("a copy of how many bytes?") end
  local hinted = item.op:find("cache_hint") and 1 or 0 -- the hint, which changes no result, is the last operand
  local inside = #o - hinted == 4 and kernel:value(o[4], "u32") or ("%du"):format(o[3].value)
  kernel:out("ptx::copy(%s, %s, %d, %s, %s);", kernel:shared_address(o[1]), kernel:address(o[2]), o[3].value, inside, kernel:site())
end)
row("cp.async.commit_group", function(kernel) kernel:out("sim::copy_commit(%s);", kernel:site()) end)
row("cp.async.wait_group", function(kernel, item)
  kernel:out("sim::copy_wait(%s, %s);", kernel:value(item.operands[1], "u32"), kernel:site())
end)

---- bulk copies -------------------------------------------------------------------------------------------------------------------

row("cp.async.bulk.commit_group", function(kernel) kernel:out("sim::bulk_commit(%s);", kernel:site()) end)
row("cp.async.bulk.wait_group{,.read}", function(kernel, item)
  kernel:out("sim::bulk_wait(%s, %s, %s);", kernel:value(item.operands[1], "u32"), tostring(item.op:find("read") ~= nil), kernel:site())
end)
row("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes", function(kernel, item)
  local o = item.operands
  kernel:out("sim::bulk_load(%s, (const void *)%s, %s, %s, %s);", kernel:shared_address(o[1]), kernel:address(o[2]), kernel:value(o[3], "u32"),
    kernel:shared_address(o[4]), kernel:site())
end)
row("cp{,.reduce}.async.bulk.global.shared::cta.bulk_group{,.add.f32}", function(kernel, item)
  local o, adds = item.operands, item.op:find("%.add%.f32$") ~= nil
  if adds ~= (item.op:find("reduce") ~= nil) then kernel:fail("a reduction without its operation, or a copy with one") end
  kernel:out("sim::bulk_store((void *)%s, %s, %s, %s, %s);", kernel:address(o[1]), kernel:shared_address(o[2]), kernel:value(o[3], "u32"),
    adds and "TENSOR_MAP_F32" or "-1", kernel:site())
end)

--- [map, {coordinates}]: the coordinates as an array `at`, and the map's address.
local function tensor(kernel, operand)
  if operand.kind ~= "address" or not operand.coordinates then kernel:fail("a tensor without coordinates") end
  return kernel:array("at", operand.coordinates, "s32"), ("(const struct tensor_map *)%s"):format(kernel:value(operand.base, "u64")), #operand.coordinates
end

row("cp.async.bulk.tensor.{1d,2d,3d,4d,5d}.shared::cluster.global.tile.mbarrier::complete_tx::bytes{,.multicast::cluster}{,.L2::cache_hint}",
  function(kernel, item)
    local o = item.operands
    local at, map, rank = tensor(kernel, o[2])
    local multicast = item.op:find("multicast") and (kernel:value(o[4], "u16") .. ", ") or ""
    kernel:out("{ const %s sim::%stensor_load(%s, %s, %d, at, %s, %s%s); }", at, multicast ~= "" and "cluster_" or "", kernel:shared_address(o[1]), map, rank,
      kernel:shared_address(o[3]), multicast, kernel:site())
  end)
row("cp.async.bulk.tensor.{1d,2d,3d,4d,5d}.global.shared::cta.tile.bulk_group", function(kernel, item)
  local at, map, rank = tensor(kernel, item.operands[1])
  kernel:out("{ const %s sim::tensor_store(%s, %d, at, %s, false, %s); }", at, map, rank, kernel:shared_address(item.operands[2]), kernel:site())
end)
row("cp.reduce.async.bulk.tensor.{1d,2d,3d,4d,5d}.global.shared::cta.add.tile.bulk_group", function(kernel, item)
  local at, map, rank = tensor(kernel, item.operands[1])
  kernel:out("{ const %s sim::tensor_store(%s, %d, at, %s, true, %s); }", at, map, rank, kernel:shared_address(item.operands[2]), kernel:site())
end)
row("prefetch.tensormap", function(kernel) kernel:out('sim::event("prefetch.tensormap", %s);', kernel:site()) end)

---- mbarriers ---------------------------------------------------------------------------------------------------------------------

--- The barrier of an arrival, `state, [barrier]`. The engine has no states of phases: whoever reads one is refused.
local function arrival(kernel, item)
  local state = item.operands[1]
  if state.name ~= "_" then kernel:register(state.name).unknown = "the state of a phase" end
  return kernel:shared_address(item.operands[2])
end

row("mbarrier.init.shared{,::cta}.b64", function(kernel, item)
  kernel:out("sim::mbarrier_init(%s, %s, %s);", kernel:shared_address(item.operands[1]), kernel:value(item.operands[2], "u32"), kernel:site())
end)
row("mbarrier.inval.shared{,::cta}.b64", function(kernel, item)
  kernel:out("sim::mbarrier_inval(%s, %s);", kernel:shared_address(item.operands[1]), kernel:site())
end)
row("mbarrier.arrive.shared{,::cta}.b64", function(kernel, item)
  kernel:out('sim::mbarrier_arrive(%s, 0, "mbarrier.arrive", %s);', arrival(kernel, item), kernel:site())
end)
row("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64", function(kernel, item)
  kernel:out('sim::mbarrier_arrive(%s, %s, "mbarrier.arrive.expect_tx", %s);', arrival(kernel, item), kernel:value(item.operands[3], "u32"), kernel:site())
end)
row("mbarrier.expect_tx.relaxed.cta.shared::cta.b64", function(kernel, item)
  kernel:out("sim::mbarrier_expect(%s, %s, %s);", kernel:shared_address(item.operands[1]), kernel:value(item.operands[2], "u32"), kernel:site())
end)
row("mbarrier.arrive.release.cluster.shared::cluster.b64", function(kernel, item)
  kernel:out("sim::cluster_mbarrier_arrive(%s, %s);", arrival(kernel, item), kernel:site())
end)

-- A wait is a loop about one instruction. The loop as a whole waits once, and a thread that waits polls nothing.
local function waited(kernel, item, test, wait)
  local o = item.operands
  local barrier, parity = kernel:shared_address(o[2]), kernel:value(o[3], "u32")
  if kernel:loops_until(o[1]) then
    kernel:out("%s(%s, %s, %s);", wait, barrier, parity, kernel:site())
    kernel:set(o[1], "pred", "true")
  else
    kernel:set(o[1], "pred", ("%s(%s, %s, %s)"):format(test, barrier, parity, kernel:site()))
  end
end
row("mbarrier.{try_wait,test_wait}.parity{,.acquire.cta}.shared{,::cta}.b64", function(kernel, item)
  waited(kernel, item, "ptx::mbarrier_test", "sim::mbarrier_wait")
end)
row("mbarrier.{try_wait,test_wait}.parity.acquire.cluster.shared::cta.b64", function(kernel, item)
  waited(kernel, item, "sim::cluster_mbarrier_test", "sim::cluster_mbarrier_wait")
end)

---- products of warpgroups --------------------------------------------------------------------------------------------------------

row("wgmma.fence.sync.aligned", function(kernel) kernel:out("sim::wgmma_fence(%s);", kernel:site()) end)
row("wgmma.commit_group.sync.aligned", function(kernel) kernel:out("sim::wgmma_commit(%s);", kernel:site()) end)
row("wgmma.wait_group.sync.aligned", function(kernel, item)
  kernel:out("sim::wgmma_wait(%s, %s);", kernel:value(item.operands[1], "u32"), kernel:site())
end)

--- An immediate operand: is it this number?
local function is(kernel, operand, number)
  if not operand or operand.kind ~= "number" then kernel:fail("an immediate operand is missing") end
  return tostring(operand.value == number)
end

local function product(kernel, item)
  local o = item.operands
  local n, element = item.op:match("m64n(%d+)k%d+%.f32%.(%w+)")
  local from_registers = o[2].kind == "list"
  if #o[1] ~= tonumber(n) // 2 or (from_registers and #o[2] ~= 4) then kernel:fail("%s registers of a result, which should be %d", #o[1], n // 2) end
  local d = kernel:register(o[1][1].name).c
  local a = from_registers and ("&%s, 0"):format(kernel:register(o[2][1].name).c) or ("nullptr, %s"):format(kernel:value(o[2], "u64"))
  local transpose_a, transpose_b, expected = "false", "false", 6
  if element ~= "tf32" then
    expected = from_registers and 7 or 8
    if not from_registers then transpose_a = is(kernel, o[7], 1) end
    transpose_b = is(kernel, o[expected], 1)
  end
  if #o ~= expected then kernel:fail("%d operands, of which there should be %d", #o, expected) end
  kernel:out("sim::wgmma({sim::Element::%s, %s, &%s, %s, %s, %s, %s, %s, %s, %s}, %s);", element, n, d, a, kernel:value(o[3], "u64"), transpose_a, transpose_b,
    is(kernel, o[5], -1), is(kernel, o[6], -1), kernel:value(o[4], "pred"), kernel:site())
end
for n = 8, 256, 8 do
  row(("wgmma.mma_async.sync.aligned.m64n%dk{16.f32.bf16.bf16,16.f32.f16.f16,8.f32.tf32.tf32}"):format(n), product)
end

return M
