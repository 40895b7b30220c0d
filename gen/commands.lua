-- The four commands of the command line: from arguments to an exit status. Each command takes a loaded spec and its
-- options and returns the text to write, or nil and a message. Only glint.lua calls this; what the commands say is
-- made elsewhere.
local batch = require("gen.batch")
local emit = require("gen.emit")
local explain = require("gen.explain")
local list = require("gen.list")
local options = require("gen.options")
local output = require("gen.output")
local records_of = require("gen.records")
local takes = require("gen.takes")
local text = require("gen.text")

local commands = {}

local COMMON = {
  help = { flag = true },
  spec = { help = "the spec file; default spec/attention.lua" },
  out = { help = "the file to write; default standard output" },
}

local VARIANT = { many = true, help = "a variant's name; may be given several times" }
local ARCH = { help = "x86_64 or aarch64: leave out CPU variants of the other" }

local OPTIONS = {
  list = { format = { help = "names, bzl, json or table" }, takes = { flag = true, help = "what the rows take" }, arch = ARCH, variant = VARIANT },
  emit = { variant = VARIANT, table = { flag = true, help = "the dispatch table" }, arch = ARCH,
    outputs = { help = "a file that says what to emit, and where" } },
  check = {},
  explain = { fields = { flag = true, help = "every field of its record" } },
}

local HELP = {
  list = [[
glint.lua list [--format names|bzl|json|table] [--arch x86_64|aarch64] [--variant NAME]... [--spec FILE] [--out FILE]
  The variants that the spec makes, sorted by name.
    names   one name a line (the default)
    table   name, family, tile, budget, line of the spec: for reading
    bzl     a file for Bazel: SPEC and VARIANTS
    json    the same records for other programs
  --arch    leaves out CPU variants of the other architecture
  --variant only these
glint.lua list --takes [--arch ...] [--variant NAME]... [--spec FILE] [--out FILE]
  Which rows take lengths on the device, ragged sequences, K and V in pages, and sinks: yes, no, or the fields of
  the family in the spec that would make it so.]],
  emit = [[
glint.lua emit --variant NAME [--spec FILE] [--out FILE]
  The source of one kernel, from its template.
glint.lua emit --table [--arch x86_64|aarch64] [--variant NAME]... [--spec FILE] [--out FILE]
  The dispatch table (lib/variant.h): all rows, or only those of the variants given.
  --arch    leaves out CPU rows of the other architecture
glint.lua emit --outputs FILE [--spec FILE]
  Several sources in the time of one. A line of FILE is `PATH NAME`, and PATH gets the source of that kernel, or
  `PATH --table NAME...`, and PATH gets the dispatch table over those variants.
  A file is replaced whole, and only when nothing went wrong.]],
  check = [[
glint.lua check [--spec FILE] [--out FILE]
  Says what the spec makes, and which parts of it are not used; or every mistake in it as
  `file:line: field: what is wrong; what would be right`.]],
  explain = [[
glint.lua explain NAME [--fields] [--spec FILE] [--out FILE]
  Why a variant exists: the lines of the spec behind it, its tile, its budget with the arithmetic.
  For a name that the spec does not make: why not, what would make it, and the nearest names.
  --fields  every field that its template sees, one a line]],
}

local TOP_HELP = [[
glint.lua COMMAND [options]: kernels and their table from a spec
  list      the variants of the spec
  emit      the source of a kernel, or the dispatch table
  check     is the spec right, and what does it make?
  explain   why a variant exists, or does not
Each has --help, --spec FILE (default spec/attention.lua) and --out FILE (default standard output).
Exit status: 0 done; 1 the spec, a template or a file is wrong, and nothing was written; 2 the command line is wrong.]]

local function by_arch(records, arch)
  if arch == nil then return records end
  local kept = {}
  for _, record in ipairs(records) do
    if record.arch == nil or record.arch == arch then kept[#kept + 1] = record end
  end
  return kept
end

local function no_such_variant(loaded, name)
  local names = {}
  for i, record in ipairs(loaded.records) do names[i] = record.name end
  return ("%s: no variant %s; nearest: %s; `explain` says what would make it"):format(loaded.path, text.show(name),
    table.concat(text.nearest(name, names, 2), ", "))
end

local function some(records, loaded, arch)
  if #records > 0 then return records end
  return nil, ("%s: no variant is left for %s; add an ISA of it to families.cpu.isas"):format(loaded.path, arch)
end

-- The records named by --variant, in the order of the table; all of them when there is none.
local function selected(loaded, wanted, arch)
  if wanted == nil then return some(by_arch(loaded.records, arch), loaded, arch) end
  local asked, kept = {}, {}
  for _, name in ipairs(wanted) do asked[name] = true end
  for _, record in ipairs(loaded.records) do
    if asked[record.name] then
      kept[#kept + 1] = record
      asked[record.name] = nil
    end
  end
  local missing = text.sorted_keys(asked)[1]
  if missing then return nil, no_such_variant(loaded, missing) end
  return some(by_arch(kept, arch), loaded, arch)
end

local act = {}

function act.list(loaded, given)
  local records, why = selected(loaded, given.variant, given.arch)
  if not records then return nil, why end
  return given.takes and takes.matrix(records) or list[given.format or "names"](records, loaded.name)
end

local function emitted(loaded, given, root)
  local records, why = selected(loaded, given.variant, given.arch)
  if not records then return nil, why end
  if given.table then return emit.table(records, loaded.name) end
  local ok, source = pcall(emit.kernel, records[1], loaded.name, root)
  if not ok then return nil, ("%s (for %s)"):format(source, records[1].name) end
  return source
end

-- With --outputs a list of { path, content }.
function act.emit(loaded, given, root)
  if not given.outputs then return emitted(loaded, given, root) end
  local wanted, why = batch.read(given.outputs)
  if not wanted then return nil, why end
  local files = {}
  for i, want in ipairs(wanted) do
    local content
    content, why = emitted(loaded, want, root)
    if not content then return nil, ("%s:%d: %s"):format(given.outputs, want.line, why) end
    files[i] = { path = want.path, content = content }
  end
  return files
end

function act.check(loaded) return explain.summary(loaded) end

function act.explain(loaded, given)
  return explain.variant(loaded, given[1], given.fields)
end

-- Mistakes of the command line that depend on several options at once; nil when there are none.
local function misuse(command, given)
  if command == "explain" and #given ~= 1 then return "give one variant's NAME" end
  if command ~= "explain" and #given > 0 then return ("unexpected %s; options start with --"):format(text.show(given[1])) end
  if given.format and not text.contains({ "names", "bzl", "json", "table" }, given.format) then
    return ("--format %s is not known; names, bzl, json or table"):format(text.show(given.format))
  end
  if given.takes and given.format then return "--takes is a format of its own" end
  if given.arch and not text.contains({ "x86_64", "aarch64" }, given.arch) then
    return ("--arch %s is not known; x86_64 or aarch64"):format(text.show(given.arch))
  end
  if given.outputs then
    if given.variant or given.table or given.arch or given.out then return "--outputs FILE says all of what is emitted, and where" end
  elseif command == "emit" and not given.table then
    if not given.variant then return "give --variant NAME for a kernel, --table for the dispatch table, or --outputs FILE for several" end
    if #given.variant > 1 then return "one --variant at a time for kernels; several are for --table" end
    if given.arch then return "--arch is for --table" end
  end
end

local function usage(command, why)
  local name = command and "glint.lua " .. command or "glint.lua"
  return 2, ("%s: %s; see `%s --help`"):format(name, why, name)
end

local function options_of(command)
  local known = {}
  for name, option in pairs(COMMON) do known[name] = option end
  for name, option in pairs(OPTIONS[command]) do known[name] = option end
  return known
end

local function write(path, content)
  local ok, why = output.write(path, content)
  if not ok then return 1, ("%s: cannot be written: %s"):format(path or "standard output", why) end
  return 0
end

--- Runs the command line `args`. Returns the exit status, and a message for standard error or nil.
function commands.run(args, root)
  local command = args[1]
  if command == "--help" or command == "-h" or command == "help" then return write(nil, TOP_HELP .. "\n") end
  if command == nil then return usage(nil, "no command; list, emit, check or explain") end
  if not OPTIONS[command] then
    local near = text.meant(command, { "list", "emit", "check", "explain" })
    return usage(nil, ("no command %s%s"):format(text.show(command), near and "; did you mean " .. near .. "?" or ""))
  end
  local given, why = options.parse(args, 2, options_of(command))
  if not given then return usage(command, why) end
  if given.help then return write(nil, HELP[command] .. "\n") end
  why = misuse(command, given)
  if why then return usage(command, why) end
  local loaded, content
  loaded, why = records_of(given.spec or (root == "." and "" or root .. "/") .. "spec/attention.lua")
  if not loaded then return 1, why end
  content, why = act[command](loaded, given, root)
  if not content then return 1, why end
  local files = given.outputs and content or { { path = given.out, content = content } }
  for _, file in ipairs(files) do
    if file.path == (given.spec or "spec/attention.lua") then return 2, ("--out %s: is the spec itself"):format(file.path) end
  end
  for _, file in ipairs(files) do
    local status
    status, why = write(file.path, file.content)
    if status ~= 0 then return status, why end
  end
  return 0
end

return commands
