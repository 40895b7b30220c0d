-- Writes the report of the variants: lua report.lua PTXAS.LUA MANIFEST WORKSPACES COSTS TEXT MARKDOWN CSV GPU.CSV
-- [COSTS.CSV]
--
-- MANIFEST has a line a variant, tab-separated: name, pass, dtype, head_dim, mask, family, target, tile_m, tile_n,
-- object, logs (by ","), and of a GPU variant its cubins (in the order of the logs), a block's dynamic shared memory,
-- and why the spec allows spills. WORKSPACES has "name bytes" a line, from report_workspace. COSTS has the path of a
-- file a line, from tests/hostsim/cost/measure.cc. The same inputs give the same bytes.
local ptxas_path, manifest_path, workspaces_path, costs_path, text_path, markdown_path, csv_path, gpu_path, costs_csv_path = table.unpack(arg)
local ptxas = dofile(ptxas_path)
local read = ptxas.read

local function write(path, text)
  local file <close> = assert(io.open(path, "wb"))
  assert(file:write(text))
end

-- Bytes that an object puts into a program: its sections that are loaded, which have the flag A.
local function loaded_bytes(path)
  local pipe <close> = assert(io.popen(("LC_ALL=C readelf -W -S '%s'"):format(path)))
  local bytes, sections = 0, 0
  for line in pipe:lines() do
    local size, flags = line:match("^  %[ *%d+%] .* %x+ %x+ (%x+) %x%x +([%a ]-) +%d+ +%d+ +%d+$")
    if size then
      sections = sections + 1
      if flags:find("A", 1, true) then bytes = bytes + tonumber(size, 16) end
    end
  end
  assert(pipe:close() and sections > 0, path .. ": readelf finds no sections")
  return bytes
end

-- The parts of a list, which may be empty.
local function parts_of(list)
  local parts = {}
  for part in list:gmatch("[^,]+") do parts[#parts + 1] = part end
  return parts
end

-- The largest stack frame of a CPU kernel's functions: from the compiler's .su file.
local function largest_frame(logs)
  local frame = 0
  for _, path in ipairs(logs) do
    for bytes in read(path):gmatch("\t(%d+)\t%a") do frame = math.max(frame, tonumber(bytes)) end
  end
  return frame
end

-- One row for each architecture of a GPU variant, over its kernels: sums of bytes, the most of what a thread or a block
-- has.
local function gpu_rows(variant)
  local rows = {}
  for i, cubin in ipairs(variant.cubins) do
    local row = { variant = variant.variant, registers = 0, spills = 0, frame = 0, shared = 0, bytes = #read(cubin), reason = variant.reason }
    local kernels = ptxas.kernels(read(variant.logs[i]))
    for _, kernel in ipairs(kernels) do
      row.arch = "sm_" .. kernel.arch
      row.registers = math.max(row.registers, kernel.registers)
      row.frame = math.max(row.frame, kernel.frame)
      row.spills = row.spills + kernel.spill_stores + kernel.spill_loads
      row.shared = math.max(row.shared, kernel.shared + (kernel.name == "glint_" .. variant.variant and variant.smem_bytes or 0))
    end
    row.shared = math.max(row.shared, variant.smem_bytes)
    row.kernels = #kernels
    rows[i] = row
  end
  return rows
end

-- What the simulator counted in one variant: its kernels and the places in them, in the order of the files.
local CLASSES = { -- of primitives, by the first of these that begins the name
  { "mma", "mma" }, { "wgmma", "mma" }, { "ldmatrix", "matrices" }, { "stmatrix", "matrices" }, { "ld.shared", "shared" },
  { "st.shared", "shared" }, { "cp.async.source", "sources" }, { "cp.async.commit", "order" }, { "cp.async.wait", "order" },
  { "cp.async", "copies" }, { "ld.global", "global" }, { "st.global", "global" }, { "red.global", "global" }, { "atom.global", "global" },
  { "shfl", "exchanges" }, { "vote", "exchanges" }, { "ex2", "exponentials" }, { "lg2", "exponentials" },
}

local function class_of(primitive)
  for _, class in ipairs(CLASSES) do
    if primitive:sub(1, #class[1]) == class[1] then return class[2] end
  end
  return "order"
end

local function part_beyond(least, all)
  return all > 0 and ("%.0f%%"):format(100 * (all - least) / all) or ""
end

-- The place with the most wavefronts beyond the least, and with the most sectors.
local function worst_place(kernel)
  local worst, most = nil, 0
  for _, place in ipairs(kernel.places) do
    local beyond = math.max(place.wavefronts - place.least_wavefronts, place.sectors - place.least_sectors)
    if beyond > most then worst, most = place, beyond end
  end
  if not worst then return "" end
  local by_banks = worst.wavefronts - worst.least_wavefronts == most
  return ("%s, %s:%d, %d of %d %s"):format(worst.primitive, worst.file:match("[^/]*$"), worst.line, most,
    by_banks and worst.wavefronts or worst.sectors, by_banks and "wavefronts" or "sectors")
end

local function read_costs(path)
  local kernels, by_name = {}, {}
  for line in read(path):gmatch("[^\n]+") do
    local values = {}
    for value in line:gmatch("[^\t]+") do values[#values + 1] = math.tointeger(value) or value end
    if values[1] == "kernel" then
      local kernel = { kernel = values[2]:gsub("^glint_", ""), blocks = values[3], threads = values[4], seqlen = values[5],
        barriers = values[6], idle = ("%.0f%%"):format(values[7] / 10), places = {} }
      kernels[#kernels + 1], by_name[values[2]] = kernel, kernel
    else
      local kernel = by_name[values[2]]
      kernel.places[#kernel.places + 1] = { kernel = kernel.kernel, primitive = values[3],
        file = values[4]:gsub("^bazel%-out/[^/]+/bin/", ""):gsub("^%./", ""), line = values[5], instructions = values[6], wavefronts = values[7],
        least_wavefronts = values[8], sectors = values[9], least_sectors = values[10] }
    end
  end
  for _, kernel in ipairs(kernels) do
    local sums = { wavefronts = 0, least_wavefronts = 0, sectors = 0, least_sectors = 0 }
    for _, class in ipairs(CLASSES) do kernel[class[2]] = 0 end
    for _, place in ipairs(kernel.places) do
      local class = class_of(place.primitive)
      kernel[class] = (kernel[class] or 0) + place.instructions
      for field, sum in pairs(sums) do sums[field] = sum + place[field] end
    end
    kernel.wavefronts, kernel.sectors = sums.wavefronts, sums.sectors
    kernel.conflicts = part_beyond(sums.least_wavefronts, sums.wavefronts)
    kernel.scattered = part_beyond(sums.least_sectors, sums.sectors)
    kernel.worst = worst_place(kernel)
  end
  return kernels
end

local simulated, places = {}, {}
for path in read(costs_path):gmatch("[^\n]+") do
  for _, kernel in ipairs(read_costs(path)) do
    simulated[#simulated + 1] = kernel
    table.move(kernel.places, 1, #kernel.places, #places + 1, places)
  end
end

local workspaces = {}
for name, bytes in read(workspaces_path):gmatch("(%S+) (%S+)\n") do workspaces[name] = bytes end

local FIELDS = { "variant", "pass", "dtype", "head_dim", "mask", "family", "target", "tile_m", "tile_n", "object", "logs", "cubins",
  "smem_bytes", "reason" }
local variants, gpu = {}, {}
for line in read(manifest_path):gmatch("[^\n]+") do
  local variant, i = {}, 0
  for value in (line .. "\t"):gmatch("([^\t]*)\t") do
    i = i + 1
    variant[FIELDS[i]] = value
  end
  variant.logs, variant.cubins, variant.smem_bytes = parts_of(variant.logs), parts_of(variant.cubins), tonumber(variant.smem_bytes) or 0
  variant.tile = variant.tile_m .. " x " .. variant.tile_n
  variant.workspace_bytes = assert(workspaces[variant.variant], variant.variant .. ": not in the library's table")
  variant.code_bytes = loaded_bytes(variant.object)
  variant.stack_bytes = #variant.cubins == 0 and largest_frame(variant.logs) or ""
  variant.gpu = gpu_rows(variant)
  variants[#variants + 1] = variant
end
table.sort(variants, function(a, b) return a.variant < b.variant end)
for _, variant in ipairs(variants) do table.move(variant.gpu, 1, #variant.gpu, #gpu + 1, gpu) end

-- A table: columns { title, field, is a number }, rows, a last row of totals, and notes below.
local function total_of(rows, field, where)
  local total = 0
  for _, row in ipairs(rows) do
    if not where or where(row) then total = total + row[field] end
  end
  return total
end

local TABLES = { {
  columns = {
    { "variant", "variant" }, { "family", "family" }, { "target", "target" }, { "tile (q x k)", "tile" },
    { "workspace", "workspace_bytes", true }, { "code", "code_bytes", true }, { "stack", "stack_bytes", true },
  },
  rows = variants,
  totals = { { variant = ("%d variants"):format(#variants), code_bytes = total_of(variants, "code_bytes") } },
  notes = {
    "workspace  bytes for batch 1, 8 heads, seqlen 2048, one thread; glint_plan says it for any problem",
    "code       bytes of code and constants that the variant adds to a program that links it; of a GPU variant all its cubins",
    "stack      bytes of the largest stack frame of the kernel's functions",
  },
} }

if #gpu > 0 then
  local totals, archs = {}, {}
  for _, row in ipairs(gpu) do archs[row.arch] = true end
  local sorted = {}
  for arch in pairs(archs) do sorted[#sorted + 1] = arch end
  table.sort(sorted)
  for _, arch in ipairs(sorted) do
    local function of_arch(row) return row.arch == arch end
    local count = 0
    for _, row in ipairs(gpu) do count = count + (of_arch(row) and 1 or 0) end
    totals[#totals + 1] = { variant = ("%d variants"):format(count), arch = arch, bytes = total_of(gpu, "bytes", of_arch) }
  end
  totals[#totals + 1] = { variant = ("%d cubins"):format(#gpu), bytes = total_of(gpu, "bytes") }
  TABLES[2] = {
    columns = {
      { "GPU variant", "variant" }, { "arch", "arch" }, { "kernels", "kernels", true }, { "registers", "registers", true },
      { "spills", "spills", true }, { "local", "frame", true }, { "shared", "shared", true }, { "bytes", "bytes", true },
      { "spills are allowed because", "reason" },
    },
    rows = gpu,
    totals = totals,
    notes = {
      "registers  of a thread, the most over the variant's kernels; spills: bytes stored and loaded; local: bytes of a thread's frame",
      "shared     bytes of a block, the most; bytes: of the cubin, which is SASS for this architecture alone",
    },
  }
end

if #simulated > 0 then
  TABLES[#TABLES + 1] = {
    columns = {
      { "GPU kernel, simulated", "kernel" }, { "blocks", "blocks", true }, { "threads", "threads", true }, { "seqlen", "seqlen", true },
      { "mma", "mma", true }, { "ldmatrix", "matrices", true }, { "ld/st shared", "shared", true }, { "copies", "copies", true },
      { "ld/st global", "global", true }, { "shfl+vote", "exchanges", true }, { "ex2+lg2", "exponentials", true },
      { "barriers", "barriers", true }, { "idle", "idle", true }, { "wavefronts", "wavefronts", true }, { "conflicts", "conflicts", true },
      { "sectors", "sectors", true }, { "scattered", "scattered", true }, { "the most beyond the least", "worst" },
    },
    rows = simulated,
    totals = {},
    notes = {
      "            One batch and head, as many queries as keys. Counts are instructions of a warp.",
      "copies      cp.async; barriers: times that a warp comes to a barrier (or mbarrier) to wait; idle: share of the threads' time at barriers, were every",
      "            instruction of the table as long as any other",
      "wavefronts  turns that shared memory takes for loads, stores, ldmatrix and copies; conflicts: the share that bank conflicts cause",
      "sectors     of 32 bytes of global memory that requests touch; scattered: the share beyond what as many bytes in a row would touch",
      "            report.costs.csv has all of it by place",
    },
  }
end

-- Text of a table; left, separator and right go round its cells; `rule` makes the line below the titles, if any.
local function lay_out(t, separator, left, right, rule)
  local widths, lines = {}, {}
  local function cell(row, column) return tostring(row[column[2]] or "") end
  local all = { {} }
  for _, column in ipairs(t.columns) do all[1][column[2]] = column[1] end
  table.move(t.rows, 1, #t.rows, 2, all)
  table.move(t.totals, 1, #t.totals, #all + 1, all)
  for i, column in ipairs(t.columns) do
    widths[i] = 0
    for _, row in ipairs(all) do widths[i] = math.max(widths[i], #cell(row, column)) end
  end
  for _, row in ipairs(all) do
    local cells = {}
    for i, column in ipairs(t.columns) do
      local value = cell(row, column)
      local pad = (" "):rep(widths[i] - #value)
      cells[i] = column[3] and pad .. value or value .. pad
    end
    lines[#lines + 1] = (left .. table.concat(cells, separator) .. right):gsub(" +$", "")
    if row == all[1] and rule then lines[#lines + 1] = rule(t, widths) end
  end
  return table.concat(lines, "\n") .. "\n"
end

local function markdown_rule(t, widths)
  local cells = {}
  for i, column in ipairs(t.columns) do
    cells[i] = column[3] and ("-"):rep(widths[i] - 1) .. ":" or ("-"):rep(widths[i])
  end
  return "| " .. table.concat(cells, " | ") .. " |"
end

local texts, markdowns = {}, {}
for i, t in ipairs(TABLES) do
  texts[i] = lay_out(t, "  ", "", "") .. "\n" .. table.concat(t.notes, "\n") .. "\n"
  markdowns[i] = lay_out(t, " | ", "| ", " |", markdown_rule) .. "\n" .. table.concat(t.notes, "  \n") .. "\n"
end
write(text_path, table.concat(texts, "\n"))
write(markdown_path, table.concat(markdowns, "\n"))

local function csv(rows, fields)
  local lines = { table.concat(fields, ",") .. "\n" }
  for _, row in ipairs(rows) do
    local cells = {}
    for i, field in ipairs(fields) do cells[i] = (tostring(row[field]):gsub(",", ";")) end
    lines[#lines + 1] = table.concat(cells, ",") .. "\n"
  end
  return table.concat(lines)
end

write(csv_path, csv(variants, { "variant", "pass", "dtype", "head_dim", "mask", "family", "target", "tile_m", "tile_n", "workspace_bytes",
  "code_bytes", "stack_bytes" }))
write(gpu_path, csv(gpu, { "variant", "arch", "kernels", "registers", "spills", "frame", "shared", "bytes", "reason" }))
if costs_csv_path then
  write(costs_csv_path, csv(places, { "kernel", "primitive", "file", "line", "instructions", "wavefronts", "least_wavefronts", "sectors",
    "least_sectors" }))
end
