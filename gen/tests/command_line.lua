-- The command line as a user meets it: help, options, exit statuses, files that cannot be read.
local harness = require("gen.tests.harness")
local specs = require("gen.tests.specs")

local spec = harness.file(specs.with({}))
local NAME = "fwd_f32_d64_causal__cpu_x86_64_v3_m64n96"

local function runs(what, words, status, ...)
  local want = { ... }
  harness.case(what, function()
    local have, out, err = harness.glint(table.unpack(words))
    harness.is(have, status, out .. err)
    harness.has(status == 0 and out or err, table.unpack(want))
    harness.is(status == 0 and err or out, "", "the other stream")
    harness.yes(not (out .. err):find("stack traceback", 1, true), "a runtime error")
  end)
end

runs("--help", { "--help" }, 0, "list", "emit", "check", "explain", "Exit status")
for _, command in ipairs({ "list", "emit", "check", "explain" }) do
  runs(command .. " --help", { command, "--help" }, 0, "glint.lua " .. command, "--spec FILE", "--out FILE")
  runs(command .. " -h", { command, "-h" }, 0, "glint.lua " .. command)
  runs(command .. ", mistyped", { command .. "s" }, 2, ("no command %q; did you mean %s?"):format(command .. "s", command))
end
runs("no command", {}, 2, "no command", "--help")
runs("an unknown command", { "lst" }, 2, 'no command "lst"', "did you mean list?")
runs("an option for a command", { "--spec", spec }, 2, "no command")
runs("an unknown option", { "list", "--sepc", spec }, 2, 'unknown option "--sepc"', "did you mean --spec?")
runs("a short option", { "list", "-x" }, 2, 'unknown option "-x"')
runs("another command's option", { "check", "--format", "json" }, 2, "unknown option")
runs("an option without its value", { "list", "--spec" }, 2, "--spec needs a value")
for _, words in ipairs({ "list --spec", "list --out", "list --format", "list --arch", "list --variant", "emit --spec", "emit --out",
  "emit --arch", "emit --variant", "check --spec", "check --out", "explain --spec", "explain --out" }) do
  local command, option = words:match("(%S+) (%S+)")
  runs(words .. " without its value", { command, option }, 2, option .. " needs a value: ")
end
runs("an option with an empty value", { "list", "--spec=" }, 2, "empty value")
runs("an option twice", { "list", "--spec", spec, "--spec", spec }, 2, "--spec is given twice")
runs("a flag with a value", { "emit", "--table=yes" }, 2, "--table takes no value")
runs("a stray word", { "list", "names" }, 2, 'unexpected "names"')
runs("an unknown format", { "list", "--format", "xml" }, 2, '"xml" is not known', "names, bzl, json or table")
runs("an unknown architecture", { "list", "--arch", "arm" }, 2, '"arm" is not known')
runs("emit of nothing", { "emit", "--spec", spec }, 2, "--variant NAME", "--table")
runs("emit of two kernels", { "emit", "--variant", "a", "--variant", "b" }, 2, "one --variant at a time")
runs("emit of a kernel for an architecture", { "emit", "--variant", "a", "--arch", "x86_64" }, 2, "--arch is for --table")
for _, words in ipairs({ { "--variant", "a" }, { "--table" }, { "--arch", "x86_64" }, { "--out", "a" } }) do
  runs("emit of outputs and " .. words[1], { "emit", "--outputs", "a", table.unpack(words) }, 2,
    "--outputs FILE says all of what is emitted")
end
runs("explain of nothing", { "explain" }, 2, "give one variant's NAME")
runs("explain of two", { "explain", "a", "b" }, 2, "give one variant's NAME")
runs("emit of an unknown variant", { "emit", "--spec", spec, "--variant", "fwd_f32_d64_causl" }, 1, "no variant",
  "nearest: fwd_f32_d64_causal__")
runs("a variant that would be a path", { "emit", "--spec", spec, "--variant", "../../etc/passwd" }, 1, "no variant")
runs("explain of an unknown variant", { "explain", "--spec", spec, "fwd_f32_d80_causal__cpu_x86_64_v3_m64n96" }, 1,
  ":4: head_dims: has no 80")

runs("list", { "list", "--spec", spec }, 0, NAME .. "\n")
runs("list of one variant as JSON", { "list", "--spec=" .. spec, "--format=json", "--variant=" .. NAME }, 0, '[\n  {"name": "'
  .. NAME)
runs("list for reading", { "list", "--spec", spec, "--format", "table" }, 0, "variant", "64 x 96")
runs("list for an architecture", { "list", "--spec", spec, "--arch", "x86_64" }, 0, NAME)
runs("list for an architecture that has none", { "list", "--spec", spec, "--arch", "aarch64" }, 1, "no variant is left for aarch64")
runs("check", { "check", "--spec", spec }, 0, "4 variants, 0 excluded")
runs("check of the default spec", { "check" }, 0, "spec/attention.lua: ", " variants")
runs("explain", { "explain", "--spec", spec, NAME }, 0, "because", "budget", "= 106496")
runs("explain --fields", { "explain", NAME, "--fields", "--spec", spec }, 0, "head_dim = 64")

runs("a missing spec", { "check", "--spec", "/nowhere/x.lua" }, 1,
  "/nowhere/x.lua:1: spec: cannot be read: No such file or directory; ")
runs("a folder as a spec", { "check", "--spec", harness.root }, 1, ":1: spec: cannot be read: Is a directory; ")
runs("an endless file as a spec", { "check", "--spec", "/dev/zero" }, 1, "/dev/zero:1: spec: larger than 256 KiB; ")
runs("an empty device as a spec", { "check", "--spec", "/dev/null" }, 1, "/dev/null:1: spec: ")
runs("bytecode as a spec", { "check", "--spec", harness.file(string.dump(function() end)) }, 1,
  ":1: spec: compiled Lua, not text; ")

harness.case("of what is no text of a spec nothing else is said", function()
  for _, content in ipairs({ string.dump(function() end), "return {}\0", ("x"):rep(300 << 10) }) do
    local status, _, err = harness.glint("check", "--spec", harness.file(content))
    harness.is(status, 1)
    harness.is(select(2, err:gsub("\n", "")), 1, err)
  end
end)

harness.case("a mistake is printed once, with the path as it was given", function()
  local wrong = harness.file(specs.with({ [4] = "  head_dims = { 64, 65 }," }))
  local status, out, err = harness.glint("check", "--spec", wrong)
  harness.is(status, 1)
  harness.is(out, "")
  harness.is(err, wrong .. ":4: head_dims[2]: 65 is not a multiple of 8 (8 x 8 + 1); 64 or 72\n")
end)

harness.case("what is near a number is within the bounds, with the bounds", function()
  for value, near in pairs({ [1] = "from 8 to 1024", [1023] = "1016 or 1024", [15] = "8 or 16" }) do
    local _, _, err = harness.glint("check", "--spec", harness.file(specs.with({ [4] = ("  head_dims = { 64, %d },"):format(value) })))
    harness.has(err, ("; %s\n"):format(near))
  end
end)

local function outputs(content) return harness.glint("emit", "--spec", spec, "--outputs", harness.file(content)) end

harness.case("several sources are what each is alone", function()
  local kernel, rows, one = harness.file(nil, ".out"), harness.file(nil, ".out"), harness.file(nil, ".out")
  local other = NAME:gsub("fwd", "bwd")
  local status, out, err = outputs(("%s %s\n\n%s --table %s %s\n%s --table %s"):format(kernel, NAME, rows, NAME, other, one, NAME))
  harness.is(status, 0, err)
  harness.is(out, "")
  for path, words in pairs({ [kernel] = { "--variant", NAME }, [rows] = { "--table", "--variant", NAME, "--variant", other },
    [one] = { "--table", "--variant", NAME } }) do
    harness.is(harness.read(path), select(2, harness.glint("emit", "--spec", spec, table.unpack(words))), table.concat(words, " "))
  end
end)

harness.case("a mistake in what is to be emitted, and nothing is written", function()
  local path = harness.file(nil, ".out")
  for _, case in ipairs({
    { "", ":1: no output; a line for each, `PATH NAME`" },
    { path, ":1: not an output; `PATH NAME`, or `PATH --table NAME...`" },
    { path .. " --table", ":1: not an output" },
    { ("%s %s %s"):format(path, NAME, NAME), ":1: not an output" },
    { ("%s %s\n\n%s fwd"):format(path, NAME, path), ":3: " .. spec .. ": no variant \"fwd\"" },
    { ("%s %s\n%s %s"):format(path, NAME, spec, NAME), "is the spec itself" },
  }) do
    local content, want = table.unpack(case)
    local status, out, err = outputs(content)
    harness.is(status, want:find("itself", 1, true) and 2 or 1, err)
    harness.is(out, "")
    harness.has(err, want)
    harness.is(harness.read(path), nil, content)
  end
  local status, _, err = harness.glint("emit", "--spec", spec, "--outputs", "/nowhere/x")
  harness.is(status, 1)
  harness.has(err, "/nowhere/x: cannot be read: No such file or directory; give a file with a line for each output")
end)

harness.case("a spec is not overwritten", function()
  local path = harness.file(specs.with({}))
  local status, _, err = harness.glint("list", "--spec", path, "--out", path)
  harness.is(status, 2)
  harness.has(err, "is the spec itself")
  harness.is(harness.read(path), specs.with({}))
end)

harness.case("nor is the default spec, whose name is not given", function()
  local root, out = harness.tree({}), harness.file(nil, ".err")
  harness.write(root .. "/spec/attention.lua", specs.with({}))
  local _, _, status = os.execute(("cd '%s' && '%s' gen/glint.lua list --out spec/attention.lua 2>'%s'"):format(root, harness.lua, out))
  harness.is(status, 2)
  harness.has(harness.read(out), "--out spec/attention.lua: is the spec itself")
  harness.is(harness.read(root .. "/spec/attention.lua"), specs.with({}))
end)

harness.case("it runs from any folder", function()
  local root = harness.tree({})
  harness.write(root .. "/spec/attention.lua", specs.with({}))
  for _, way in ipairs({ { "/", root .. "/gen/glint.lua" }, { root, "gen/glint.lua" }, { root, "./gen/glint.lua" }, { root
    .. "/gen", "glint.lua" },
    { root .. "/spec", "../gen/glint.lua" } }) do
    local out = harness.file(nil, ".out")
    local command = ("cd '%s' && '%s' '%s' list --format bzl >'%s'"):format(way[1], harness.lua, way[2], out)
    harness.yes(os.execute(command), command)
    harness.has(harness.read(out), 'SPEC = "spec/attention.lua"')
  end
end)

harness.case("what is emitted calls a spec by its path in the repository, else from its last spec/ on or by its file's name", function()
  local root = harness.tree({})
  for path, name in pairs({ ["spec/x.lua"] = "spec/x.lua", ["./spec/x.lua"] = "spec/x.lua", ["of/spec/x.lua"] = "of/spec/x.lua",
    ["external/of/spec/x.lua"] = "spec/x.lua", ["external/x.lua"] = "x.lua", ["externals/x.lua"] = "externals/x.lua",
    ["bazel-out/of/spec/x.lua"] = "spec/x.lua", ["bazel-out/x.lua"] = "x.lua", ["bazel/x.lua"] = "bazel/x.lua",
    ["spec/../spec/x.lua"] = "spec/../spec/x.lua", ["./../" .. root:match("[^/]*$") .. "/spec/x.lua"] = "spec/x.lua",
    [root .. "/spec/x.lua"] = "spec/x.lua", [root .. "/of/x.lua"] = "x.lua", ["of/a b*&.lua"] = "of/a_b__.lua" }) do
    local folder, out = path:match("^(.*)/"), harness.file(nil, ".out")
    harness.yes(os.execute(("cd '%s' && mkdir -p '%s'"):format(root, folder)))
    harness.write(path:sub(1, 1) == "/" and path or root .. "/" .. path, specs.with({}))
    harness.yes(os.execute(("cd '%s' && '%s' gen/glint.lua list --spec '%s' --format bzl >'%s'"):format(root, harness.lua, path, out)))
    harness.is(harness.read(out):match('SPEC = "(.-)"'), name, path)
  end
end)

harness.case("a spec that calls something leaves no trace", function()
  local trace = harness.file(nil, ".trace")
  for _, code in ipairs({ "os.execute('touch %s')", "io.open('%s', 'w')", "(function() os.execute('touch %s') end)()" }) do
    local path = harness.file(specs.with({ [15] = "exclude = " .. code:format(trace) .. "," }))
    harness.is((harness.glint("check", "--spec", path)), 1)
    harness.is(harness.read(trace), nil, "the spec was run")
  end
end)
