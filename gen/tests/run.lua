-- All tests of the generator: `lua5.4 gen/tests/run.lua [--update] [SUITE]...` from any folder. Prints each case and a
-- count; exits 1 when any fails or none ran. --update renews the messages that gen/tests/texts keeps.
local here = arg[0]:match("^(.*)/[^/]*$") or "."
local root = here == "gen/tests" and "." or here:match("^(.*)/gen/tests$") or here .. "/../.."
package.path = root .. "/?.lua"

local SUITES = { "parse", "spec_errors", "limits", "expand", "drawn", "values", "walks", "holes", "axes", "takes", "tiles", "list",
  "template", "emit", "explain", "command_line", "gpu", "sm80", "sm90a", "lists" }

local harness = require("gen.tests.harness")
harness.root = root

local update = arg[1] == "--update"
if update then table.remove(arg, 1) end
local wanted = #arg > 0 and arg or SUITES
for _, suite in ipairs(wanted) do
  print("== " .. suite)
  harness.suite(suite)
  require("gen.tests." .. suite)
end
harness.finish(update)
