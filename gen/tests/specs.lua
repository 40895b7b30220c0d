-- Specs for tests: a small right one, line by line, so that a test changes one line and knows the number of it.
local harness = require("gen.tests.harness")
local records_of = require("gen.records")

local specs = {}

specs.LINES = {
  "return {",
  '  passes = { "fwd", "bwd" },',
  '  dtypes = { "f32" },',
  "  head_dims = { 64, 128 },",
  '  masks = { "causal" },',
  "  families = {",
  "    cpu = {",
  '      isas = { "x86_64_v3" },',
  "      tiles = {",
  "        fwd = { { m = 64, n = 96 } },",
  "        bwd = { { m = 64, n = 96 } },",
  "      },",
  "    },",
  "  },",
  "  exclude = {},",
  "  override = {},",
  "}",
}

--- The text of the right spec with some lines replaced: `changes` before `base`.
function specs.with(changes, base)
  local lines = {}
  for i, line in ipairs(specs.LINES) do lines[i] = changes[i] or base and base[i] or line end
  return table.concat(lines, "\n") .. "\n"
end

--- What the generator makes of a spec's text: records, or nil and its mistakes without the path. Never a runtime error.
function specs.open(source)
  local path = harness.file(source)
  local loaded, mistakes = records_of(path)
  if loaded then return loaded end
  return nil, (mistakes:gsub(path:gsub("%p", "%%%0"), "spec"))
end

--- The names of the records.
function specs.names(loaded)
  local names = {}
  for i, record in ipairs(loaded.records) do names[i] = record.name end
  return names
end

--- One case: the spec must be refused with exactly these mistakes. Each is "line: field" and words that its message
-- must have.
function specs.refuses(name, source, ...)
  local wanted = { ... }
  harness.case(name, function()
    local loaded, mistakes = specs.open(source)
    harness.yes(loaded == nil, "the spec was accepted")
    local lines = {}
    for line in mistakes:gmatch("[^\n]+") do
      if line:find("^    ") then -- a line to paste, of the mistake before it
        lines[#lines] = lines[#lines] .. "\n" .. line
      else
        lines[#lines + 1] = line
      end
    end
    harness.is(#lines, #wanted, "number of mistakes, which are:\n" .. mistakes)
    for i, want in ipairs(wanted) do
      local prefix = "spec:" .. want[1] .. ": "
      harness.is(lines[i]:sub(1, #prefix), prefix, "where the mistake is")
      harness.has(lines[i], "; ", table.unpack(want, 2))
    end
  end)
end

return specs
