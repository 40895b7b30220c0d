-- Records to C: one kernel's source from its template, and the dispatch table of lib/variant.h. Returns text; writes
-- nothing. What is emitted depends on the record alone: no dates, no absolute paths, no lines of the spec.
local axes = require("gen.axes")
local registry = require("gen.registry")
local takes = require("gen.takes")
local template = require("gen.template")

local emit = {}

emit.name_bytes = 72 -- GLINT_NAME_BYTES of lib/variant.h

-- Parts of a record that belong to the generator. A template that used them would be rebuilt by every edit of a
-- comment.
local HIDDEN = { line = true, sites = true, overrides = true, excluded = true, origin = true, tile_from = true,
  compress = true }

local function command(record, spec_name)
  return ("lua5.4 gen/glint.lua emit --spec %s --variant %s"):format(spec_name, record.name)
end

-- The comment that every emitted kernel starts with.
local function header(record, spec_name)
  local lines = { "/* " .. record.name, " *", " * " .. axes.sentence(record) }
  for _, line in ipairs(registry.get(record.family).describe(record)) do lines[#lines + 1] = " * " .. line end
  lines[#lines + 1] = " *"
  lines[#lines + 1] = " * Made from gen/templates/" .. record.template .. " by"
  lines[#lines + 1] = " *   " .. command(record, spec_name)
  lines[#lines + 1] = " * and overwritten by it: change the template or the spec. */"
  return table.concat(lines, "\n") .. "\n"
end

--- What a template sees of a record.
function emit.values(record, spec_name)
  local values = {}
  for field, value in pairs(record) do
    if not HIDDEN[field] then values[field] = value end
  end
  values.command = command(record, spec_name)
  return values
end

local function read_template(root)
  return function(file)
    if not (type(file) == "string" and file:find("^[%w_][%w_.]*$")) then return nil, "a file name in gen/templates is wanted" end
    local handle, why = io.open(root .. "/gen/templates/" .. file, "rb")
    if not handle then return nil, (why:gsub("^.*: ", "")) end
    local source = handle:read("a")
    handle:close()
    if not source then return nil, "not a file" end
    return source, "gen/templates/" .. file
  end
end

--- The source of one kernel. `spec_name` is how the spec is called in the header. Throws a string on any mistake of the
-- template.
function emit.kernel(record, spec_name, root)
  local read = read_template(root)
  local source, name = read(record.template)
  if not source then error(("gen/templates/%s:1: cannot be read: %s"):format(record.template, name), 0) end
  return header(record, spec_name) .. "\n" .. template.render(source, name, emit.values(record, spec_name), { read = read })
end

local function family_symbol(family) return "glint_family_" .. family.name end

-- What a search of the table tells apart first: lib/choose.c.
local SEARCHED = { pass = true, dtype = true, head_dim = true }

local function searched(record)
  local values = {}
  for _, column in ipairs(axes.columns(record)) do
    if SEARCHED[column.field] then values[#values + 1] = column.value end
  end
  return table.concat(values, " ")
end

-- For each record the number of records behind it that agree with it in what is searched for. A column of the table
-- holds no more than 65535.
local function alike(records)
  local counts = {}
  for i = #records, 1, -1 do
    local next = records[i + 1]
    counts[i] = next and searched(next) == searched(records[i]) and math.min(counts[i + 1] + 1, 0xffff) or 0
  end
  return counts
end

local function row(record, kernel, behind)
  local family = registry.get(record.family)
  local own = family.row(record)
  local computes, how = {}, {}
  for i, column in ipairs(axes.columns(record)) do computes[i] = (".%s = %s"):format(column.field, column.value) end
  for i, column in ipairs({ { "tile_m", record.tile_m }, { "tile_n", record.tile_n }, { "isa", own.isa }, { "sm", own.sm }, { "math", own.math },
    { "up_to", own.up_to or 0 }, { "alignment_bytes", own.alignment_bytes } }) do how[i] = (".%s = %s"):format(column[1], column[2]) end
  if own.both_up_to then how[#how + 1] = (".both_up_to = %d"):format(own.both_up_to) end
  if own.least then how[#how + 1] = (".least = %d"):format(own.least) end
  if own.cache_from then how[#how + 1] = (".cache_from = %d, .cache_up_to = %d"):format(own.cache_from, own.cache_up_to) end
  if own.queries_up_to then how[#how + 1] = (".queries_up_to = %d"):format(own.queries_up_to) end
  local taken = (".takes = %s"):format(#record.takes > 0 and takes.constant(record.takes) or "0")
  if #record.could > 0 then taken = ("%s, .could = %s"):format(taken, takes.constant(record.could)) end
  if own.untimed then taken = ("%s, .untimed = %s"):format(taken, takes.constant(own.untimed)) end
  if behind > 0 then taken = ("%s, .alike = %d"):format(taken, behind) end
  assert(#record.name < emit.name_bytes, record.name)
  return ([[
    {.name = "%s",
     %s,
     %s,
     %s,
     .family = %s, .kernel = %d},
]]):format(record.name, table.concat(computes, ", "), table.concat(how, ", "), taken, record.family:upper(), kernel)
end

-- The families of `records`, by name, and the words that stand for their indexes.
local function families_of(records)
  local families, seen = {}, {}
  for _, record in ipairs(records) do
    if not seen[record.family] then families[#families + 1] = record.family end
    seen[record.family] = true
  end
  table.sort(families)
  local declarations, words, pointers = {}, {}, {}
  for i, name in ipairs(families) do
    local symbol = family_symbol(registry.get(name))
    declarations[i], words[i], pointers[i] = ("extern const struct glint_family %s;\n"):format(symbol), name:upper(), "&" .. symbol
  end
  return ("%s\nenum { %s };\nconst struct glint_family *const glint_families[] = {%s};\n"):format(table.concat(declarations),
    table.concat(words, ", "), table.concat(pointers, ", "))
end

--- The dispatch table of `records`, which are sorted by name.
function emit.table(records, spec_name)
  local rows, backends, records_of, behind = {}, {}, {}, alike(records)
  for _, name in ipairs(registry.names) do
    local backend = registry.get(name).backend
    if not records_of[backend] then
      backends[#backends + 1], records_of[backend] = backend, {}
    end
  end
  for i, record in ipairs(records) do
    local beside = records_of[registry.get(record.family).backend]
    rows[i] = row(record, #beside, behind[i])
    beside[#beside + 1] = record
  end
  local headers, tables = {}, {}
  for i, backend in ipairs(backends) do
    tables[i] = backend.tables(records_of[backend])
    if tables[i] ~= "" then headers[#headers + 1] = ('#include "%s"\n'):format(backend.header) end
  end
  return table.concat({
    "/* The dispatch table: one row a variant, sorted by name.\n *\n * Made from ", spec_name,
    " by gen/glint.lua emit --table, and overwritten by it: change the spec. */\n",
    table.concat(headers), '#include "lib/takes.h"\n\n', families_of(records),
    "\nconst struct glint_variant glint_variants[] = {\n", table.concat(rows), "};\n\n",
    ("const uint32_t glint_variants_count = %du;\n"):format(#records), table.concat(tables),
  })
end

return emit
