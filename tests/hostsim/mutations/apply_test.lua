-- The tests of apply.lua: what it changes, and that it refuses whatever would make a fault disappear without a word.
package.path = "./?.lua;" .. package.path
local apply = require("tests.hostsim.mutations.apply")

local checks = 0
local function expect(condition, what)
  checks = checks + 1
  if not condition then error("apply_test: " .. what, 2) end
end

-- what is changed
expect(apply.mutate("a(b + 1);\n", "b + 1", "b", 1) == "a(b);\n", "one place")
expect(apply.mutate("x.x.x", ".x", "%1", 2) == "x%1%1", "two places, no character of either text is special")
expect(apply.mutate("keep();\nsync();\n", "sync();\n", "", 1) == "keep();\n", "a line is left out")
expect(apply.mutate("  if (a[i] ^ %d)\n    f();\n", "(a[i] ^ %d)\n    f", "(a[j])\n    g", 1) == "  if (a[j])\n    g();\n", "over lines")
expect(apply.occurrences("aaaa", "aa") == 2, "without overlaps")

-- what is refused
local function refused(text, was, now, count, reason)
  local changed, problem = apply.mutate(text, was, now, count)
  expect(changed == nil and problem:find(reason, 1, true), "refused because " .. reason)
end
refused("a b", "c", "d", 1, "0 times, not 1")
refused("a b a", "a", "d", 1, "2 times, not 1")
refused("a b", "a", "d", 2, "1 times, not 2")
refused("a b", "a", "a", 1, "changes nothing")
refused("a b", "", "a", 1, "no text to look for")

-- the whole command
local source, out = os.tmpname(), os.tmpname()
local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end
local function contents(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("a")
  file:close()
  return text
end
write(source, "f(1);\n")
expect(apply.main({ source, out, "1", "f(1)", "f(2)" }), "the kernel")
expect(contents(out) == "f(2);\n", "its change is written")
for _, arguments in ipairs({ { source, out, "1", "f(7)", "f(2)" }, { source, out, "one", "f(1)", "f(2)" }, { source, out, "1", "f(1)" },
  { source .. ".none", out, "1", "f(1)", "f(2)" } }) do
  local done, message = apply.main(arguments)
  expect(done == nil and #message > 0, "the command refuses, and says why")
end
for _, path in ipairs({ source, out }) do os.remove(path) end

print(("apply_test: %d checks"):format(checks))
