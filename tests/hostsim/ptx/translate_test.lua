-- The translator refuses what it does not know, with the line, and makes the same text every time.
package.path = "./?.lua;" .. package.path

local lua = arg[-1]
local checks = 0

local HEAD = [[
.version 8.0
.target sm_90
.address_size 64
.file 1 "/somewhere/else/kernel.cu"
.extern .shared .align 16 .b8 memory[];
.visible .entry k(
	.param .align 8 .b8 k_param_0[16]
)
.maxntid 32, 1, 1
{
	.reg .pred %p<3>;
	.reg .b16 %rs<3>;
	.reg .b32 %r<5>;
	.reg .f32 %f<5>;
	.reg .b64 %rd<5>;
	.loc 1 12 3
]]

--- What the translator says of a kernel with these lines, the first of which is line 17: its text, or its complaint.
local function translated(lines)
  local name = os.tmpname()
  local file = assert(io.open(name, "w"))
  file:write(HEAD, lines, "\n\tret;\n}\n")
  file:close()
  local process = assert(io.popen(("%s tests/hostsim/ptx/translate.lua %s %s.cc image 2>&1"):format(lua, name, name)))
  local said = process:read("a")
  local right = process:close()
  local out = right and assert(io.open(name .. ".cc")):read("a") or nil
  os.remove(name)
  os.remove(name .. ".cc")
  return out, said
end

local function refuses(lines, what)
  local out, said = translated(lines)
  checks = checks + 1
  if out or not said:find(what, 1, true) then error(("%s\nis not refused with '%s', but: %s"):format(lines, what, said), 2) end
end

local function takes(lines, what)
  local out, said = translated(lines)
  checks = checks + 1
  if not out or not out:find(what, 1, true) then error(("%s\ndoes not become '%s': %s%s"):format(lines, what, said, out or ""), 2) end
  if translated(lines):gsub("lua_%w+", "") ~= out:gsub("lua_%w+", "") then error("the text is another the second time", 2) end
end

refuses("\tadd.sat.s32 %r1, %r2, %r3;", "line 17: add.sat.s32: this instruction is not known")
refuses("\tadd.s32 %r1, %r2, %r3;\n\tmul.ftz.f32 %f1, %f2, %f3;", "line 18: mul.ftz.f32: this instruction is not known")
refuses("\tdiv.full.f32 %f1, %f2, %f3;", "line 17: div.full.f32")
refuses("\tld.local.u32 %r1, [%rd1];", "line 17: ld.local.u32")
refuses("\tcall.uni f;", "line 17: call.uni")
refuses("\tadd.s32 %r1, %r2;", "2 operands, of which there should be 3")
refuses("\tadd.s32 %r1, %r2, %r9;", "%r9 is not known")
refuses("\tadd.s32 %r1, %r2, %rs1;", "a register of .b16 as .u32")
refuses("\tadd.s32 %r1, %r2, %p1;", "a register of .pred as .u32")
refuses("\tadd.s64 %r1, %rd1, %rd2;", "a result of .u64 in a register of .b32")
refuses("\tmov.u32 %r1, 4294967296;", "4294967296 does not fit into .u32")
refuses("\tmov.u32 %r1, %clock;", "%clock is not known")
refuses("\tsetp.lt.s32 %p1|%p2, %r1, %r2;", "a result that is a pair")
refuses("\tbra nowhere;", "the label nowhere is not in this kernel")
refuses("\tld.param.u64 %rd1, [k_param_0+12];", "offset 12 of a parameter of 16 bytes")
refuses("\t.local .b8 stack[16];", "line 17: .local: not known within a kernel")
refuses("\t.reg .f64 %fd<2>;", "line 17: .reg .f64")
refuses('\t.pragma "enable_smem_spilling";', "the pragma enable_smem_spilling")
refuses("\t{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%r1]; mov.b64 %rd1, s; }", "the state of a phase, which is not known")

takes("\tsub.s32 %r1, %r2, %r3;", "r1 = (uint32_t)(uint32_t)(r2 - r3)")
takes("\tshr.s32 %r1, %r2, 31;", "ptx::shift_right((int32_t)r2")
takes("\tsetp.neu.f32 %p1, %f1, %f2;", "p1 = !(f1 == f2)")
takes("\tst.shared.u32 [%r1+-4], %r2;", "r1 + 0xfffffffcu")
takes("\tst.shared.u32 [%r1], %r2;", "kernel.cu:12") -- a place, without its folder
takes("$a:\n\t@!%p1 bra $a;", "if (!p1) {\ngoto L__a;")
takes("\t{ .reg .pred p; $w: mbarrier.try_wait.parity.shared.b64 p, [%r1], %r2; @!p bra $w; }", "sim::mbarrier_wait(")
takes("\t{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%r1], %r2; mov.pred %p1, p; }", "ptx::mbarrier_test(")

print(("translate_test: %d checks"):format(checks))
