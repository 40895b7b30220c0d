-- The tests of the trace: who waits for whom, what lies where, what is drawn.
package.path = "./?.lua;" .. package.path
local replay = require("tests.hostsim.trace.replay")
local trace = require("tests.hostsim.trace.trace")

local checks = 0
local function expect(condition, what)
  checks = checks + 1
  if not condition then error("trace_test: " .. what, 2) end
end

-- "warp name a b" for each event, one line of the kernel after another
local function events(lines)
  local list = {}
  for line in lines:gmatch("[^\n]+") do
    local warp, name, a, b = line:match("^%s*(%d+) (%S+) ?(%d*) ?(%d*)")
    list[#list + 1] = { warp = tonumber(warp) + 1, name = name, file = "k.cu", line = #list + 1, a = tonumber(a) or 0, b = tonumber(b) or 0 }
  end
  return list
end

local function run(warps, lines) return replay.run(events(lines), { warps = warps, latency = 10 }) end

-- a barrier of all warps: everybody goes on one step after the last
local warps = run(2, "0 ex2\n0 ex2\n0 bar.sync 0 64\n0 ex2\n1 bar.sync 0 64\n1 ex2")
expect(warps[1][3].from == 2 and warps[1][3].to == 3, "the last one at a barrier does not wait")
expect(warps[2][1].from == 0 and warps[2][1].to == 3 and warps[2][1].last == 1, "the first one waits for the last")
expect(warps[1][4].from == 3 and warps[2][2].from == 3, "and then both go on")

-- one tells, the other waits; barriers are used again
local told = "bar.arrive 3 64\n0 ex2\n0 bar.sync 0 64\n0 bar.arrive 3 64\n"
warps = run(2, "0 ex2\n0 " .. told .. "1 bar.sync 3 64\n1 bar.sync 0 64\n1 ex2\n1 bar.sync 3 64")
expect(warps[1][3].from == 2, "who tells does not wait")
expect(warps[2][1].to == 2 and warps[2][1].last == 1, "who waits goes on when told")
expect(warps[2][4].from == 5 and warps[2][4].to == 6 and warps[2][4].last == 2, "and at once when the other has told before")

-- whole-block barriers that look at a condition count like others, and a named barrier is of those who use it
warps = run(3, "0 bar.red 0 96\n1 bar.red 0 96\n2 ex2\n2 bar.red 0 96\n0 bar.sync 1 64\n1 bar.sync 1 64\n2 ex2")
expect(warps[1][1].to == 2 and warps[3][3].from == 2 and warps[1][2].to == 3, "barriers of all and of some")

-- phases of an mbarrier: the n-th wait is for the n-th arrival, before or after it
warps = run(2, "0 ex2\n0 mbarrier.arrive 8\n0 ex2\n0 ex2\n0 mbarrier.arrive 8\n1 mbarrier.try_wait 8\n1 ex2\n1 mbarrier.try_wait 8\n1 mbarrier.try_wait 16\n" ..
  "0 mbarrier.arrive 16")
expect(warps[2][1].to == 2 and warps[2][1].last == 1 and warps[2][3].to == 5 and warps[2][4].to == 6, "a wait for each phase")

-- copies: a wait lets the newest groups run on
warps = run(1, "0 cp.async\n0 cp.async.commit_group\n0 cp.async\n0 cp.async.commit_group\n0 cp.async.wait_group 1\n" ..
  "0 cp.async.wait_group 0\n0 cp.async.wait_group 0")
expect(warps[1][5].to == 10 and warps[1][6].to == 12 and warps[1][7].to == 13, "a wait ends when what it covers has landed")
warps = run(1, "0 cp.async\n0 cp.async.wait_group 0")
expect(warps[1][2].to == 2, "a copy in no group is not waited for")

-- what cannot go on is said
local none, problem = run(2, "0 bar.sync 0 64\n1 ex2")
expect(none == nil and problem:find("warp 0 waits at barrier 0", 1, true) and problem:find("line 1"), "a barrier where one does not come")

-- shared memory
local layout = replay.layout("K 32 x 16 x 2 + Q 2 x 16 x 16 x 2 + P, dS 3 x 8 x 8 x 2 + LSE, delta 4 x 16 x 1 x 4 + 16 + keys 32 x 1 x 4 = 2736")
for _, case in ipairs({ { 0, "K" }, { 1023, "K" }, { 1024, "Q[0]" }, { 1536, "Q[1]" }, { 2048, "P, dS[0]" }, { 2304, "P, dS[2]" }, { 2432, "LSE[0]" },
  { 2496, "LSE[1]" }, { 2560, "delta[0]" }, { 2688, "number" }, { 2704, "keys" }, { 4096, "0x1000" } }) do
  expect(replay.tile(layout, case[1]) == case[2], ("%d is in %s, not %s"):format(case[1], case[2], replay.tile(layout, case[1])))
end

-- runs: products of other tiles are apart, what passes within a warp is not
warps = run(1, "0 ldmatrix 0\n0 ldmatrix 1024\n0 mma.bf16\n0 ldmatrix 0\n0 vote.sync.any\n0 mma.bf16\n" ..
  "0 ldmatrix 1536\n0 ex2\n0 ex2")
local runs = replay.runs(warps[1], layout)
expect(#runs == 3 and runs[1].kind == "product" and runs[2].kind == "product" and runs[3].kind == "exponential", "three runs")
expect(table.concat(runs[1].tiles, " ") == "K Q[0]" and runs[1].counts.ldmatrix == 3 and runs[1].to == 6, "the first product's")
expect(runs[3].counts.ex2 == 2 and runs[3].line == 8 and runs[3].last_line == 9, "the lines of a run")

-- the whole, from a file's text
local header = "variant: v\nabout: a <block>\nwarps: 2\nshared: K 32 x 16 x 2 = 1024\n\n"
local text, drawn = trace.make(header ..
  "0\tcp.async\tsteps.h\t7\t0\t16\n0\tcp.async.commit_group\tv.cu\t8\t0\t0\n0\tcp.async.wait_group\tv.cu\t9\t0\t0\n" ..
  "0\tbar.sync\tv.cu\t10\t0\t64\n1\tbar.sync\tv.cu\t10\t0\t64\n")
expect(text:find("w0    steps.h:7    begins copies of K: 1 cp.async", 1, true), "the text says what is copied, and where in the source")
expect(text:find("w1    10           waits for all warps, 41 steps: warp 0 comes last", 1, true), "and who waits for whom")
expect(drawn:find("^<svg ") and drawn:find("</svg>%s*$"), "the picture is one")
expect(drawn:find("a &lt;block&gt;", 1, true) and drawn:find('class="flight"', 1, true) and drawn:find('class="arrow"', 1, true), "with copies and arrows")
for _, wrong in ipairs({ "", "variant: v\n\n", header .. "0\tex2\tk.cu\tx\t0\t0\n",
  header .. "7\tex2\tk.cu\t1\t0\t0\n", header .. "0\tbar.sync\tk.cu\t1\t0\t64\n" }) do
  local made, why = trace.make(wrong)
  expect(made == nil and #why > 0, "refused")
end

print(("trace_test: %d checks"):format(checks))
