-- The generator's command line: `lua5.4 gen/glint.lua list | emit | check | explain`. See --help, and gen/README.md
-- for the whole. It reads one spec and the templates, and writes one file, several, or standard output. Exit status:
-- 0 done, 1 the spec, a template or a file is wrong (nothing was written), 2 the command line is wrong. No logic here:
-- only where the other files are found.
os.setlocale("C")

local here = arg[0]:match("^(.*)/[^/]*$") or "."
local root = here == "gen" and "." or here:match("^(.*)/gen$") or here .. "/.."
package.path = root .. "/?.lua"
package.cpath = ""

local commands = require("gen.commands")

local status, message = commands.run(arg, root)
if message then io.stderr:write(message, "\n") end
os.exit(status, true)
