-- choose.lua: many faults in one text.
local choose = dofile("tests/hostsim/mutations/choose.lua")

local SOURCE = "f(a, b);\ng(a);\nwait();\nwait();\n"

local function made(faults)
  for _, fault in ipairs(faults) do fault.count = fault.count or 1 end
  return choose.apply(SOURCE, faults)
end

assert(made({ { was = "b", now = "c" } }) == "f(a, (sim_fault(1) ? (c) : (b)));\ng(a);\nwait();\nwait();\n")
assert(made({ { was = "g(a);", now = ";" } }):find("if (sim_fault(1)) { ; } else { g(a); }", 1, true))
local both = made({ { was = "g(a);", now = ";" }, { was = "g(a);", now = "g(b);" } })
assert(both:find("if (sim_fault(2)) { g(b); } else { if (sim_fault(1)) { ; } else { g(a); } }", 1, true), both)
local _, lines = made({ { was = "g(a);\nwait();\nwait();", now = "wait();\n  wait();" } }):gsub("\n", "\n")
assert(lines == 4, "line numbers stay")
assert(select(2, made({ { was = "wait();", now = ";", count = 2 } }):gsub("sim_fault", "")) == 2)
for _, case in ipairs({
  { { { was = "h", now = "i" } }, "is there 0 times, not 1" },
  { { { was = "wait();", now = ";" } }, "is there 2 times, not 1" },
  { { { was = "b", now = "b" } }, "changes nothing" },
  { { { was = "f(a, b)", now = "c" }, { was = "b", now = "c" } }, "two faults change the same text" },
}) do
  local text, problem = made(case[1])
  assert(text == nil and problem:find(case[2], 1, true), problem)
end
assert(not pcall(made, { { was = "b", now = "c // d" } }), "a comment would swallow what follows it")
print("choose_test: right")
