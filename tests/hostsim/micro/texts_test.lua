-- Is a change of a primitive's text noticed, whatever it is, and of nothing else? Each change is made in a copy of lib/device/, in the function
-- that it names, wherever that lies; then the primitives that are not what was recorded must be those that are expected.
package.path = "./?.lua;" .. package.path
local texts = require("tests.hostsim.micro.texts")

local copy = os.getenv("TEST_TMPDIR") or os.tmpname() .. "_texts"
copy = copy .. "/copy"

local function run(command, ...)
  assert(os.execute(command:format(...)), command)
end

local function fresh()
  run("rm -rf '%s' && mkdir -p '%s/tests/hostsim' && mkdir -p '%s/lib'", copy, copy, copy)
  run("cp -rL lib/device '%s/lib/' && cp -rL tests/hostsim/micro '%s/tests/hostsim/' && chmod -R u+w '%s'", copy, copy, copy)
end

local function read(path)
  local file <close> = assert(io.open(path))
  return file:read("a")
end

local function write(path, text)
  local file <close> = assert(io.open(path, "w"))
  file:write(text)
end

-- Puts `now` in the place of `was`, once, after the head of a function (or after the #define of a macro) in whichever header has it.
local function change(name, was, now)
  local headers <close> = assert(io.popen(("find '%s/lib/device' -name '*.h'"):format(copy)))
  for path in headers:lines() do
    local text = read(path)
    local head = text:find("\n[^\n*]*GLINT_DEVICE[^\n]*%f[%w_]" .. name .. "%(") or text:find("\n#define " .. name .. "%(")
    local from, to = text:find(was, head or #text, true)
    if head and from then
      write(path, text:sub(1, from - 1) .. now .. text:sub(to + 1))
      return
    end
  end
  error(("'%s' is not in %s any more: choose another change"):format(was, name))
end

local function unrecorded()
  local found, names = texts.primitives(copy), {}
  for name, primitive in pairs(found) do
    if primitive.unrecorded or primitive.unused then names[name] = true end
  end
  return names
end

local checks, failed = 0, 0

-- Compares the list with `wanted`, name by name.
local function expect(wanted, what)
  local got = unrecorded()
  for name in pairs(wanted) do
    checks = checks + 1
    if not got[name] then
      failed = failed + 1
      io.stderr:write(("%s: the change of %s is not noticed\n"):format(what, name))
    end
  end
  for name in pairs(got) do
    checks = checks + 1
    if not wanted[name] then
      failed = failed + 1
      io.stderr:write(("%s: %s is said to have changed\n"):format(what, name))
    end
  end
end

fresh()
expect({}, "no change")

-- ---- changes that a recording does not know ----------------------------------------------------------------------------------
local WGMMA_TF32 = ""
for n = 8, 256, 8 do WGMMA_TF32 = WGMMA_TF32 .. (" wgmma_m64n%dk8_tf32"):format(n) end
-- Function, text, its replacement, what must be recorded again (default: the function). Changes of different functions are made at once.
local CHANGES = {
  { "st_release_u32", "st.release.gpu", "st.relaxed.gpu" }, -- order
  { "ld_acquire_u32", "ld.acquire.gpu", "ld.relaxed.gpu" },
  { "fence_device", "fence.acq_rel.gpu", "fence.sc.gpu" },
  { "cluster_arrive", "arrive.release", "arrive.relaxed" },
  { "st_release_u32", "release.gpu", "release.cta" }, -- scope
  { "atom_global_add_u32", "relaxed.gpu", "relaxed.cta" },
  { "fence_device", "acq_rel.gpu", "acq_rel.cta" },
  { "red_global_add_f32", "red.relaxed.gpu", "red.relaxed.sys", "red_four red_global_add_f32" },
  { "mma_m16n8k16_f16", "m16n8k16.row.col.f32.f16.f16", "m16n8k8.row.col.f32.f16.f16" }, -- shape
  { "ldmatrix_x4", "m8n8.x4.shared", "m8n8.x2.shared" },
  { "GLINT_WGMMA_32", '"m64n" #n "k8"', '"m64n" #n "k16"', WGMMA_TF32 },
  { "mbarrier_wait", '"r"(parity)', '"r"(parity ^ 1)' }, -- parity
  { "mbarrier_test", "test_wait.parity", "test_wait" },
  { "mma_m16n8k16_bf16", '"r"(b0), "r"(b1)', '"r"(b1), "r"(b0)' }, -- order of operands
  { "pack_bf16", '"f"(high), "f"(low)', '"f"(low), "f"(high)' },
  { "mma_m16n8k8_tf32", '"r"(a[1]), "r"(a[2])', '"r"(a[2]), "r"(a[1])' },
  { "to_tf32", "cvt.rna", "cvt.rn", "nearest_tf32 to_tf32" }, -- rounding: before sm_90 the other one calls it
  { "ex2", "ex2.approx.ftz", "ex2.approx" },
  { "cp_async_wait", "wait_group 1", "wait_group 2" }, -- one of several branches
  { "cp_async_16", "inside ? 16u : 0u", "16u" },
  { "named_sync", ': "memory"', ": " }, -- what the compiler is told
  { "thread_index_anew", "volatile", "" },
  { "lane_index", "31u", "15u" }, -- no PTX in it
  { "ld_four", "ld_global_cg_f32", "ld_global_f32" }, -- who is called, before sm_90
  { "ld_global_cg_f32", "ld.global.cg", "ld.global.ca", "ld_four ld_global_cg_f32" },
  { "mbarrier_try_wait_cluster", "acquire.cluster", "acquire.cta", "mbarrier_try_wait_cluster mbarrier_wait_cluster" },
  { "tma_load", 'GLINT_TMA_LOAD("3d"', 'GLINT_TMA_LOAD("2d"' },
  { "GLINT_TMA_MULTICAST", '"h"(blocks), "l"(hint)', '"l"(hint), "h"(blocks)', "tma_load_multicast" }, -- in a macro
  { "block_index", "GLINT_DEVICE", "GLINT_DEVICE void brand_new(void)\n{\n}\nGLINT_DEVICE", "brand_new" }, -- a new primitive
}
local left, rounds = CHANGES, 0
while #left > 0 do
  local later, touched, wanted = {}, {}, {}
  fresh()
  rounds = rounds + 1
  for _, m in ipairs(left) do
    local names, free = {}, not touched[m[1]]
    for name in (m[4] or m[1]):gmatch("%S+") do
      names[#names + 1], free = name, free and not wanted[name] and not touched[name]
    end
    if free then
      change(m[1], m[2], m[3])
      touched[m[1]] = true
      for _, name in ipairs(names) do wanted[name] = true end
    else
      later[#later + 1] = m
    end
  end
  expect(wanted, "round " .. rounds)
  left = later
end

-- ---- changes that change nothing ----------------------------------------------------------------------------------------------
fresh()
change("ex2", "float y;", "float y; /* a comment */\n\n    // and another")
change("fence_device", '"fence.acq_rel.gpu;"', '"fence.acq_rel"\n   ".gpu;"')
change("mma_m16n8k16_f16", "uint32_t b0, uint32_t b1)", "uint32_t\n  b0,uint32_t b1 )")
change("st_shared_f32", "uint32_t address, float value", "uint32_t at, float number")
change("st_shared_f32", '"r"(address), "f"(value)', '"r"(at), "f"(number)')
expect({}, "comments, white space, a string in pieces, names of parameters")

fresh()
local device = copy .. "/lib/device/device.h"
local text = [[

GLINT_DEVICE uint32_t lane_index(void)
{
    return threadIdx.x & 31u;
}
]]
change("lane_index", text:sub(2), "")
write(copy .. "/lib/device/other.h", text)
write(device, (read(device):gsub('#include "device_impl.h"', '%0\n#include "lib/device/other.h"')))
expect({}, "a function in another file")

run("rm -rf '%s'", copy)
print(("%d changes in %d rounds: %d checks, %d failed"):format(#CHANGES, rounds, checks, failed))
os.exit(failed == 0 and checks > #CHANGES)
