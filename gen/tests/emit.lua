-- Emission: the header, the table, the same bytes each time, and files that are replaced whole or not at all.
local emit = require("gen.emit")
local harness = require("gen.tests.harness")
local output = require("gen.output")
local specs = require("gen.tests.specs")

local NAME = "fwd_f32_d64_causal__cpu_x86_64_v3_m64n96"

local GOOD = { ["cpu_fwd.c.lua"] = "int ${symbol}_d = ${head_dim};\n$ include('tail.lua')\n", ["tail.lua"] = "/* ${mask} */\n",
  ["cpu_bwd.c.lua"] = "$ for i = 1, lanes do\nint x${i};\n$ end\n" }

local function tree(templates)
  local root = harness.tree(templates)
  harness.write(root .. "/spec/x.lua", specs.with({}))
  return root, root .. "/spec/x.lua"
end

harness.case("a kernel: the header, then its template", function()
  local root, spec = tree(GOOD)
  local status, out, err = harness.glint_at(root, "emit", "--spec", spec, "--variant", NAME)
  harness.is(status, 0, err)
  harness.is(out, [[
/* fwd_f32_d64_causal__cpu_x86_64_v3_m64n96
 *
 * Attention, forward: O and LSE from Q, K, V; f32, head_dim 64, causal, both alignments.
 * ISA: x86-64-v3 (AVX2, FMA, F16C).
 * Tile: 64 queries x 96 keys. Micro-kernel: 6 rows x 2 vectors of 8 floats.
 * Working set of a tile: 104 KiB in f32.
 *
 * Made from gen/templates/cpu_fwd.c.lua by
 *   lua5.4 gen/glint.lua emit --spec spec/x.lua --variant fwd_f32_d64_causal__cpu_x86_64_v3_m64n96
 * and overwritten by it: change the template or the spec. */

int glint_fwd_f32_d64_causal__cpu_x86_64_v3_m64n96_d = 64;
/* causal */
]])
end)

harness.case("the same bytes each time, to a file or not, whatever the comments of the spec", function()
  local root, spec = tree(GOOD)
  local out = root .. "/out.c"
  local _, first = harness.glint_at(root, "emit", "--spec", spec, "--variant", NAME)
  harness.is(harness.glint_at(root, "emit", "--spec", spec, "--variant=" .. NAME, "--out=" .. out), 0)
  harness.is(harness.read(out), first)
  harness.write(spec, "-- new\n-- comments\n" .. specs.with({ [15] = "-- none\n" }))
  harness.is(select(2, harness.glint_at(root, "emit", "--spec", spec, "--variant", NAME)), first)
  harness.yes(not first:find("/tmp", 1, true), "an absolute path in the output")
end)

harness.case("nothing of the spec's lines reaches a template", function()
  local root, spec = tree({ ["cpu_fwd.c.lua"] = "${line}\n" })
  local status, _, err = harness.glint_at(root, "emit", "--spec", spec, "--variant", NAME)
  harness.is(status, 1)
  harness.has(err, "gen/templates/cpu_fwd.c.lua:1: undefined name `line`", NAME)
end)

local function keeps_old_file(what, template, ...)
  local words = { ... }
  harness.case("the old file is kept: " .. what, function()
    local root, spec = tree({ ["cpu_fwd.c.lua"] = template })
    local out = root .. "/out.c"
    harness.write(out, "old")
    local status, _, err = harness.glint_at(root, "emit", "--spec", spec, "--variant", NAME, "--out", out)
    harness.is(status, 1)
    harness.has(err, table.unpack(words))
    harness.is(harness.read(out), "old")
    harness.is(harness.read(out .. ".partial"), nil)
  end)
end

keeps_old_file("an undefined name", "int x;\n${nope}\n", "gen/templates/cpu_fwd.c.lua:2: undefined name `nope`")
keeps_old_file("bad Lua in the template", "$ if\n", "gen/templates/cpu_fwd.c.lua:1:")
keeps_old_file("a missing include", "\n$ include('none.lua')\n", "gen/templates/cpu_fwd.c.lua:2: cannot include", "No such file")
keeps_old_file("an include outside the folder", "$ include('../../glint.lua')\n", "gen/templates/cpu_fwd.c.lua:1: cannot include")
keeps_old_file("an include that is a path", "$ include('/etc/passwd')\n", "cpu_fwd.c.lua:1: cannot include")
keeps_old_file("an error late in the text", ("x\n"):rep(5000) .. "$ error('late')\n", "gen/templates/cpu_fwd.c.lua:5001: late")

harness.case("a missing template", function()
  local root, spec = tree({})
  local status, _, err = harness.glint_at(root, "emit", "--spec", spec, "--variant", NAME, "--out", root .. "/out.c")
  harness.is(status, 1)
  harness.has(err, "gen/templates/cpu_fwd.c.lua:1: cannot be read: No such file")
  harness.is(harness.read(root .. "/out.c"), nil)
end)

harness.case("a wrong spec writes nothing", function()
  local root, spec = tree(GOOD)
  harness.write(spec, specs.with({ [4] = "  head_dims = { 64, 65 }," }))
  for _, words in ipairs({ { "emit", "--table" }, { "emit", "--variant", NAME }, { "list" }, { "check" }, { "explain", NAME } }) do
    words[#words + 1] = "--spec=" .. spec
    words[#words + 1] = "--out=" .. root .. "/out"
    local status, out, err = harness.glint_at(root, table.unpack(words))
    harness.is(status, 1)
    harness.is(out, "")
    harness.has(err, spec .. ":4: head_dims[2]: 65 is not a multiple of 8")
    harness.is(harness.read(root .. "/out"), nil)
  end
end)

harness.case("a file that cannot be written", function()
  local root, spec = tree(GOOD)
  local status, _, err = harness.glint_at(root, "list", "--spec", spec, "--out", root .. "/none/out")
  harness.is(status, 1)
  harness.has(err, "cannot be written", "No such file")
  status, _, err = harness.glint_at(root, "list", "--spec", spec, "--out", root .. "/gen")
  harness.is(status, 1)
  harness.has(err, "is a directory")
  status, _, err = harness.glint_at(root, "list", "--spec", spec, "--out", "/dev/full")
  harness.is(status, 1)
  harness.has(err, "No space left")
  -- a disk that is full leaves the old file, and nothing beside it
  local out = root .. "/out"
  harness.write(out, "old")
  harness.yes(os.execute(("ln -s /dev/full %s.partial"):format(out)))
  status, _, err = harness.glint_at(root, "list", "--spec", spec, "--out", out)
  harness.is(status, 1)
  harness.has(err, "No space left")
  harness.is(harness.read(out), "old")
  harness.yes(not os.execute(("test -L %s.partial"):format(out)), "a part of the file stays")
end)

harness.case("a disk that is full says so while a long text is written, and when a short one's file is closed", function()
  for _, bytes in ipairs({ 1, 1 << 10, 1 << 20 }) do
    local ok, why = output.write("/dev/full", ("x"):rep(bytes))
    harness.is(ok, nil, ("%d bytes are on a full disk"):format(bytes))
    harness.is(why, "No space left on device")
  end
end)

harness.case("standard output that cannot be written", function()
  local root, spec = tree(GOOD)
  local said = root .. "/said"
  local _, _, status = os.execute(("%s %s/gen/glint.lua list --spec %s >/dev/full 2>%s"):format(harness.lua, root, spec, said))
  harness.is(status, 1)
  harness.has(harness.read(said), "No space left")
end)

harness.case("the table: rows sorted, one declaration each, a count", function()
  local loaded = assert(specs.open(specs.with({})))
  local text, more = emit.table(loaded.records, "spec/x.lua"):gsub(" %.could = GLINT_TAKES_MAX_LOGIT,", "")
  harness.is(more, 2) -- rows that could take more
  harness.is(text, [[
/* The dispatch table: one row a variant, sorted by name.
 *
 * Made from spec/x.lua by gen/glint.lua emit --table, and overwritten by it: change the spec. */
#include "lib/cpu/cpu.h"
#include "lib/takes.h"

extern const struct glint_family glint_family_cpu;

enum { CPU };
const struct glint_family *const glint_families[] = {&glint_family_cpu};

const struct glint_variant glint_variants[] = {
    {.name = "bwd_f32_d128_causal__cpu_x86_64_v3_m64n96",
     .pass = GLINT_BACKWARD, .dtype = GLINT_F32, .head_dim = 128, .head_dim_v = 128, .features = GLINT_FEATURE_RIGHT_BOUND,
     .tile_m = 64, .tile_n = 96, .isa = GLINT_ISA_X86_64_V3, .sm = 0, .math = GLINT_MATH_NATIVE, .up_to = 0, .alignment_bytes = 4,
     .takes = GLINT_TAKES_LENGTHS | GLINT_TAKES_RAGGED | GLINT_TAKES_SINKS,
     .family = CPU, .kernel = 0},
    {.name = "bwd_f32_d64_causal__cpu_x86_64_v3_m64n96",
     .pass = GLINT_BACKWARD, .dtype = GLINT_F32, .head_dim = 64, .head_dim_v = 64, .features = GLINT_FEATURE_RIGHT_BOUND,
     .tile_m = 64, .tile_n = 96, .isa = GLINT_ISA_X86_64_V3, .sm = 0, .math = GLINT_MATH_NATIVE, .up_to = 0, .alignment_bytes = 4,
     .takes = GLINT_TAKES_LENGTHS | GLINT_TAKES_RAGGED | GLINT_TAKES_SINKS,
     .family = CPU, .kernel = 1},
    {.name = "fwd_f32_d128_causal__cpu_x86_64_v3_m64n96",
     .pass = GLINT_FORWARD, .dtype = GLINT_F32, .head_dim = 128, .head_dim_v = 128, .features = GLINT_FEATURE_RIGHT_BOUND,
     .tile_m = 64, .tile_n = 96, .isa = GLINT_ISA_X86_64_V3, .sm = 0, .math = GLINT_MATH_NATIVE, .up_to = 0, .alignment_bytes = 4,
     .takes = GLINT_TAKES_LENGTHS | GLINT_TAKES_RAGGED | GLINT_TAKES_PAGES | GLINT_TAKES_RAGGED_PAGES | GLINT_TAKES_SINKS | GLINT_TAKES_CANONICAL,
     .family = CPU, .kernel = 2},
    {.name = "fwd_f32_d64_causal__cpu_x86_64_v3_m64n96",
     .pass = GLINT_FORWARD, .dtype = GLINT_F32, .head_dim = 64, .head_dim_v = 64, .features = GLINT_FEATURE_RIGHT_BOUND,
     .tile_m = 64, .tile_n = 96, .isa = GLINT_ISA_X86_64_V3, .sm = 0, .math = GLINT_MATH_NATIVE, .up_to = 0, .alignment_bytes = 4,
     .takes = GLINT_TAKES_LENGTHS | GLINT_TAKES_RAGGED | GLINT_TAKES_PAGES | GLINT_TAKES_RAGGED_PAGES | GLINT_TAKES_SINKS | GLINT_TAKES_CANONICAL,
     .family = CPU, .kernel = 3},
};

const uint32_t glint_variants_count = 4u;

glint_cpu_phase_fn glint_bwd_f32_d128_causal__cpu_x86_64_v3_m64n96;
glint_cpu_phase_fn glint_bwd_f32_d128_causal__cpu_x86_64_v3_m64n96_then;
glint_cpu_phase_fn glint_bwd_f32_d64_causal__cpu_x86_64_v3_m64n96;
glint_cpu_phase_fn glint_bwd_f32_d64_causal__cpu_x86_64_v3_m64n96_then;
glint_cpu_phase_fn glint_fwd_f32_d128_causal__cpu_x86_64_v3_m64n96;
glint_cpu_phase_fn glint_fwd_f32_d64_causal__cpu_x86_64_v3_m64n96;

void glint_cpu_run_task(uint32_t kernel, uint32_t phase, const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    (void)call, (void)scratch, (void)task;
    switch (GLINT_CPU_PHASES * kernel + phase) {
    case 0: glint_bwd_f32_d128_causal__cpu_x86_64_v3_m64n96(call, scratch, task); return;
    case 1: glint_bwd_f32_d128_causal__cpu_x86_64_v3_m64n96_then(call, scratch, task); return;
    case 2: glint_bwd_f32_d64_causal__cpu_x86_64_v3_m64n96(call, scratch, task); return;
    case 3: glint_bwd_f32_d64_causal__cpu_x86_64_v3_m64n96_then(call, scratch, task); return;
    case 4: glint_fwd_f32_d128_causal__cpu_x86_64_v3_m64n96(call, scratch, task); return;
    case 6: glint_fwd_f32_d64_causal__cpu_x86_64_v3_m64n96(call, scratch, task); return;
    default: return;
    }
}
]])
end)

harness.case("a name that has no room in a row is not emitted; the longest that a spec can make has", function()
  local record = assert(specs.open(specs.with({}))).records[1]
  record.name = "dec_bf16_e4m3_d1024_interval_softcap_alibi__cpu_x86_64_bf16_m512n1024"
  harness.yes(pcall(emit.table, { record }, "s"), "the longest")
  record.name = record.name .. "000"
  harness.yes(not pcall(emit.table, { record }, "s"), "a longer one")
end)

harness.case("a row says how many behind it have its pass, dtype and head_dim", function()
  local spec = specs.with({ [5] = '  masks = { "none", "causal" },', [8] = '      isas = { "x86_64", "x86_64_v3" },' })
  local text = emit.table(assert(specs.open(spec)).records, "s")
  local rows, behind = {}, {}
  for row in text:gmatch("{%.name =.-}") do
    rows[#rows + 1] = row:match("%.pass = ([%w_]+)") .. row:match("%.dtype = ([%w_]+)") .. row:match("%.head_dim = (%d+)")
    behind[#rows] = tonumber(row:match("%.alike = (%d+)") or 0)
  end
  harness.is(#rows, 16)
  for i, key in ipairs(rows) do
    local count = 0
    while rows[i + count + 1] == key do count = count + 1 end
    harness.is(behind[i], count)
  end
  harness.is(behind[1], 3)
end)

harness.case("the table of some variants, in the table's order", function()
  local root, spec = tree(GOOD)
  local other = "bwd_f32_d64_causal__cpu_x86_64_v3_m64n96"
  local status, out = harness.glint_at(root, "emit", "--table", "--spec", spec, "--variant", NAME, "--variant", other)
  harness.is(status, 0)
  harness.has(out, "glint_variants_count = 2u;")
  harness.yes(out:find(other, 1, true) < out:find(NAME, 1, true), "not sorted")
  local _, twice = harness.glint_at(root, "emit", "--table", "--spec", spec, "--variant", NAME, "--variant", other, "--variant",
    NAME)
  harness.is(twice, out)
end)

harness.case("the table of one architecture", function()
  local root, spec = tree(GOOD)
  harness.write(spec, specs.with({ [8] = '      isas = { "x86_64", "aarch64" },' }))
  local _, out = harness.glint_at(root, "emit", "--table", "--spec", spec, "--arch", "aarch64")
  harness.has(out, "glint_variants_count = 4u;", "cpu_aarch64")
  harness.yes(not out:find("x86_64"), "rows of the other architecture")
  harness.write(spec, specs.with({}))
  local status, _, err = harness.glint_at(root, "emit", "--table", "--spec", spec, "--arch", "aarch64")
  harness.is(status, 1)
  harness.has(err, "no variant is left for aarch64", "families.cpu.isas")
end)

-- The build compiles every table that it makes; this is for a run without it.
local can_compile = os.execute("command -v gcc >/dev/null 2>&1") and harness.read(harness.root .. "/lib/variant.h")
harness.case_if(can_compile, "needs gcc and lib/", "the table compiles", function()
  local path = harness.file(emit.table(assert(specs.open(specs.with({}))).records, "spec/x.lua"), ".c")
  local command = "gcc -std=c11 -Wall -Wextra -Wpedantic -Wconversion -Werror -fsyntax-only -I '%s' '%s'"
  harness.yes(os.execute(command:format(harness.root, path)), "gcc refuses it")
end)
