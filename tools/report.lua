-- Writes the report of the variants: lua report.lua MANIFEST WORKSPACES TEXT MARKDOWN CSV
--
-- MANIFEST has a line a variant, tab-separated: name, pass, dtype, head_dim, mask, family, target, tile_m, tile_n, object, logs (by ",").
-- WORKSPACES has "name bytes" a line, from report_workspace. The same inputs give the same bytes.
local manifest_path, workspaces_path, text_path, markdown_path, csv_path = table.unpack(arg)

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read("a")
end

local function write(path, text)
  local file <close> = assert(io.open(path, "wb"))
  assert(file:write(text))
end

-- Bytes that an ELF64 little-endian object puts into a program: its sections that are loaded (SHF_ALLOC).
local function loaded_bytes(path)
  local elf = read(path)
  assert(elf:sub(1, 6) == "\127ELF\2\1", path .. ": not a 64-bit little-endian ELF object")
  local section_offset = string.unpack("<I8", elf, 0x28 + 1)
  local entry_bytes, count = string.unpack("<I2I2", elf, 0x3a + 1)
  local bytes = 0
  for i = 0, count - 1 do
    local flags = string.unpack("<I8", elf, section_offset + i * entry_bytes + 8 + 1)
    local size = string.unpack("<I8", elf, section_offset + i * entry_bytes + 32 + 1)
    if flags & 2 ~= 0 then bytes = bytes + size end
  end
  return bytes
end

-- The largest stack frame, and for GPU kernels the most registers of a thread: from the compiler's .su or ptxas' messages.
local function frame_and_registers(logs)
  local frame, registers = 0, nil
  for path in logs:gmatch("[^,]+") do
    local text = read(path)
    for bytes in text:gmatch("\t(%d+)\t%a") do frame = math.max(frame, tonumber(bytes)) end
    for bytes in text:gmatch("(%d+) bytes stack frame") do frame = math.max(frame, tonumber(bytes)) end
    for number in text:gmatch("Used (%d+) registers") do registers = math.max(registers or 0, tonumber(number)) end
  end
  return frame, registers
end

local workspaces = {}
for name, bytes in read(workspaces_path):gmatch("(%S+) (%S+)\n") do workspaces[name] = bytes end

local FIELDS = { "variant", "pass", "dtype", "head_dim", "mask", "family", "target", "tile_m", "tile_n", "object", "logs" }
local variants = {}
for line in read(manifest_path):gmatch("[^\n]+") do
  local variant, i = {}, 0
  for value in (line .. "\t"):gmatch("([^\t]*)\t") do
    i = i + 1
    variant[FIELDS[i]] = value
  end
  variant.tile = variant.tile_m .. " x " .. variant.tile_n
  variant.workspace_bytes = assert(workspaces[variant.variant], variant.variant .. ": not in the library's table")
  variant.code_bytes = loaded_bytes(variant.object)
  variant.stack_bytes, variant.registers = frame_and_registers(variant.logs)
  variant.registers = variant.registers or ""
  variants[#variants + 1] = variant
end
table.sort(variants, function(a, b) return a.variant < b.variant end)

local NOTES = {
  "workspace  bytes for batch 1, 8 heads, seqlen 2048, one thread; glint_plan says it for any problem",
  "code       bytes of code and constants that the variant adds to a program that links it",
  "stack      bytes of the largest stack frame of the kernel's functions",
}
local COLUMNS = {
  { "variant", "variant" }, { "family", "family" }, { "target", "target" }, { "tile (q x k)", "tile" },
  { "workspace", "workspace_bytes", true }, { "code", "code_bytes", true }, { "stack", "stack_bytes", true },
}

local total = { variant = ("%d variants"):format(#variants), family = "", target = "", tile = "", workspace_bytes = "", stack_bytes = "" }
total.code_bytes = 0
for _, variant in ipairs(variants) do
  total.code_bytes = total.code_bytes + variant.code_bytes
  if variant.registers ~= "" and not COLUMNS[8] then
    COLUMNS[8] = { "registers", "registers", true }
    NOTES[#NOTES + 1] = "registers  most registers of a GPU thread, over the architectures"
    total.registers = ""
  end
end

local function table_rows(separator, left, right)
  local widths = {}
  for i, column in ipairs(COLUMNS) do
    widths[i] = math.max(#column[1], #tostring(total[column[2]]))
    for _, variant in ipairs(variants) do widths[i] = math.max(widths[i], #tostring(variant[column[2]])) end
  end
  local function row(value_of)
    local cells = {}
    for i, column in ipairs(COLUMNS) do
      local value = tostring(value_of(column))
      local pad = (" "):rep(widths[i] - #value)
      cells[i] = column[3] and pad .. value or value .. pad
    end
    return ((left .. table.concat(cells, separator) .. right):gsub(" +$", "")) .. "\n"
  end
  return row, widths
end

local row = table_rows("  ", "", "")
local lines = { row(function(column) return column[1] end) }
for _, variant in ipairs(variants) do lines[#lines + 1] = row(function(column) return variant[column[2]] end) end
lines[#lines + 1] = row(function(column) return total[column[2]] end)
write(text_path, table.concat(lines) .. "\n" .. table.concat(NOTES, "\n") .. "\n")

local markdown_row, widths = table_rows(" | ", "| ", " |")
lines = { markdown_row(function(column) return column[1] end) }
local rule = {}
for i, column in ipairs(COLUMNS) do rule[i] = column[3] and ("-"):rep(widths[i] - 1) .. ":" or ("-"):rep(widths[i]) end
lines[2] = "| " .. table.concat(rule, " | ") .. " |\n"
for _, variant in ipairs(variants) do lines[#lines + 1] = markdown_row(function(column) return variant[column[2]] end) end
lines[#lines + 1] = markdown_row(function(column) return total[column[2]] end)
write(markdown_path, table.concat(lines) .. "\n" .. table.concat(NOTES, "  \n") .. "\n")

local CSV = { "variant", "pass", "dtype", "head_dim", "mask", "family", "target", "tile_m", "tile_n", "workspace_bytes", "code_bytes",
  "stack_bytes", "registers" }
lines = { table.concat(CSV, ",") .. "\n" }
for _, variant in ipairs(variants) do
  local cells = {}
  for i, field in ipairs(CSV) do cells[i] = tostring(variant[field]) end
  lines[#lines + 1] = table.concat(cells, ",") .. "\n"
end
write(csv_path, table.concat(lines))
