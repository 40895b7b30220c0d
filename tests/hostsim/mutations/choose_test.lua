-- choose.lua: many faults in one text.
local choose = dofile("tests/hostsim/mutations/choose.lua")

local SOURCE = [[
f(a, b);
g(a);
wait();
wait();
if (a)
    h(1);
else
    h(2);
for (int i = 0; i < n; ++i)
    x += y::z + i;
const int c = p ? q : r;
pair(u, v);
]]

local function made(faults, source)
  for i, fault in ipairs(faults) do
    fault.number, fault.count = fault.number or i, fault.count or 1
  end
  return choose.apply(source or SOURCE, faults)
end

-- Whether `text` takes the place of `was` in the source.
local function becomes(faults, was, text)
  local first, last = SOURCE:find(was, 1, true)
  local wanted, is = SOURCE:sub(1, first - 1) .. text .. SOURCE:sub(last + 1), made(faults)
  assert(is == wanted, is)
end

-- An expression; a statement; the same of two faults.
becomes({ { was = "b", now = "c" } }, "b", "(sim_fault(1) ? (c) : (b))")
becomes({ { was = "g(a);", now = ";" } }, "g(a);", "if (sim_fault(1)) { ; } else { g(a); }")
becomes({ { was = "g(a);", now = ";" }, { was = "g(a);", now = "g(b);" } }, "g(a);",
  "if (sim_fault(2)) { g(b); } else { if (sim_fault(1)) { ; } else { g(a); } }")
-- What both texts begin and end with says only where it is.
becomes({ { was = "g(a);\nwait();\nwait();\nif (a)", now = "g(a);\nwait();\nif (a)" } }, "wait();\nwait();\nif",
  "wait();\nif (sim_fault(1)) {  } else { wait(); }\nif")
becomes({ { was = "f(a, b)", now = "f(a, c)" } }, "b", "(sim_fault(1) ? (c) : (b))")
becomes({ { was = "g(a);\nwait();", now = "g(a);\nstop();\nwait();" } }, "wait();", "if (sim_fault(1)) { stop(); }wait();")
becomes({ { was = "else\n    h(2);", now = "else\n    ;" } }, "h(2);", "if (sim_fault(1)) { ; } else { h(2); }")
-- Not within a `for`, a name, a declaration or a choice; and a comma is none of an expression's.
becomes({ { was = "i < n; ++i", now = "i <= n; ++i" } }, "i < n", "(sim_fault(1) ? (i <= n) : (i < n))")
becomes({ { was = "y::z + i", now = "y::w + i" } }, "y::z + i", "(sim_fault(1) ? (y::w + i) : (y::z + i))")
becomes({ { was = "const int c = p ? q : r;", now = "const int c = q;" } }, "p ? q : r", "(sim_fault(1) ? (q) : (p ? q : r))")
becomes({ { was = "pair(u, v)", now = "pair(v, u)" } }, "pair(u, v)", "(sim_fault(1) ? (pair(v, u)) : (pair(u, v)))")
-- One fault in two places, and text of one that holds that of another.
local two = made({ { number = 7, was = "g(a);", now = "g(0);" }, { number = 7, was = "h(1)", now = "h(0)" } })
assert(select(2, two:gsub("sim_fault%(7%)", "")) == 2, two)
becomes({ { was = "f(a, b);", now = ";" }, { was = "a, b", now = "a, c" } }, "f(a, b);",
  "if (sim_fault(2)) { f(a, c); } else { if (sim_fault(1)) { ; } else { f(a, b); } }")

for _, case in ipairs({
  { { was = "g(a);\nwait();\nwait();", now = "wait();\n  wait();" } },
  { { was = "wait();\nif (a)", now = "wait(); stop();  if (a)" } },
}) do
  local _, lines = made(case):gsub("\n", "\n")
  assert(lines == select(2, SOURCE:gsub("\n", "\n")), "line numbers stay")
end
assert(select(2, made({ { was = "wait();", now = ";", count = 2 } }):gsub("sim_fault", "")) == 2)
for _, case in ipairs({
  { { { was = "k", now = "i" } }, "is there 0 times, not 1" },
  { { { was = "wait();", now = ";" } }, "is there 2 times, not 1" },
  { { { was = "b", now = "b" } }, "changes nothing" },
  { { { was = "g(a", now = "g((a" } }, "neither statements nor an expression" },
  -- A part of what is assigned cannot be chosen together with the assignment.
  { { { was = "x += y::z", now = "x += y::w" } }, "neither statements nor an expression" },
  { { { was = "const int c = p ? q : r;", now = ";" } }, "neither statements nor an expression" },
}) do
  local text, problem = made(case[1])
  assert(text == nil and problem:find(case[2], 1, true), problem or text)
end
assert(not pcall(made, { { was = "b", now = "c // d" } }), "a comment would swallow what follows it")
print("choose_test: right")
