-- The readable trace and the picture of one simulated block:
--
--   lua trace.lua EVENTS TEXT SVG
--
-- EVENTS: lines "field: value" (variant, about, warps, shared: the parts of shared memory as the generator's record
-- gives them), an empty line, then one line an event: warp, primitive, file, line and its two arguments, with tabs
-- between.
package.path = "./?.lua;" .. package.path
local picture = require("tests.hostsim.trace.picture")
local replay = require("tests.hostsim.trace.replay")

local LATENCY = 40 -- steps that a copy takes, as drawn

local trace = {}

--- Header fields and events, or nil and what is wrong.
function trace.parse(text)
  local header, body = text:match("^(.-)\n\n(.*)$")
  if not header then return nil, "no header" end
  local fields, events = {}, {}
  for field, value in header:gmatch("([%a_]+): ([^\n]*)") do fields[field] = value end
  fields.warps = math.tointeger(fields.warps)
  if not (fields.variant and fields.about and fields.warps and fields.shared) then return nil, "an incomplete header" end
  for line in body:gmatch("[^\n]+") do
    local warp, name, file, at, a, b = line:match("^(%d+)\t(%S+)\t(%S+)\t(%d+)\t(%-?%d+)\t(%-?%d+)$")
    if not warp or warp + 1 > fields.warps then return nil, "not an event: " .. line end
    events[#events + 1] = { warp = math.tointeger(warp) + 1, name = name, file = file, line = math.tointeger(at), a = math.tointeger(a),
      b = math.tointeger(b) }
  end
  return fields, events
end

local function counted(run)
  local parts = {}
  for _, name in ipairs(run.names) do parts[#parts + 1] = run.counts[name] .. " " .. name end
  return table.concat(parts, ", ")
end

local VERB = {
  copy = "begins copies", product = "products", exponential = "exponentials", shared = "shared memory", global = "global memory",
  turn = "turn of blocks", warp = "within the warp", commit = "closes a group", other = "other",
}

local function said(run)
  local event = run.event
  if run.kind == "wait" then
    local allowed = event.a == 0 and "all its copies" or ("all but its newest %d groups of copies"):format(event.a)
    return "waits for " .. allowed .. (event.group and (", %d steps"):format(event.to - event.from) or ": they are there")
  elseif run.kind == "arrive" then
    return ("tells barrier %d that it has come"):format(event.a)
  elseif run.kind == "signal" then
    return ("ends a phase of the barrier at %d"):format(event.a)
  elseif run.kind == "phase" then
    local phase = ("waits for a phase of the barrier at %d"):format(event.a)
    return event.last and ("%s, %d steps: warp %d ends it"):format(phase, event.to - event.from, event.last - 1) or phase .. ": it has ended"
  elseif run.kind == "barrier" then
    local which = event.a == 0 and "all warps" or "barrier " .. event.a
    if event.last == event.warp then return "is the last at " .. which end
    return ("waits for %s, %d steps: warp %d comes last"):format(which, event.to - event.from, event.last - 1)
  end
  local tiles = #run.tiles > 0 and " of " .. table.concat(run.tiles, ", ") or ""
  return ("%s%s: %s"):format(VERB[run.kind], tiles, counted(run))
end

-- A line of the kernel, or of a header.
local function place(fields, run)
  return run.file:find(fields.variant, 1, true) and tostring(run.line) or run.file .. ":" .. run.line
end

--- The text: all warps' runs in the order of their first step.
function trace.text(fields, warps, runs)
  local lines, all = {}, {}
  for _, warp in ipairs(warps) do
    for _, run in ipairs(runs(warp)) do all[#all + 1] = { warp = warp.index, run = run } end
  end
  table.sort(all, function(a, b)
    if a.run.from ~= b.run.from then return a.run.from < b.run.from end
    if a.warp ~= b.warp then return a.warp < b.warp end
    return a.run.to < b.run.to
  end)
  lines[1] = fields.variant
  lines[2] = fields.about
  lines[3] = ""
  lines[4] = " step  to     warp  line         what"
  for _, entry in ipairs(all) do
    local run = entry.run
    lines[#lines + 1] = ("%5d  %-5d  w%-3d  %-12s %s"):format(run.from, run.to, entry.warp - 1, place(fields, run), said(run))
  end
  return table.concat(lines, "\n") .. "\n"
end

-- What a warp does with its steps, in hundredths.
local function shares(warps)
  local sums, total = { waits = 0, products = 0 }, 0
  for _, warp in ipairs(warps) do
    for _, event in ipairs(warp) do
      local steps = event.to - event.from
      total = total + steps
      if event.kind == "barrier" or event.kind == "wait" or event.kind == "phase" then sums.waits = sums.waits + steps - 1 end
      if event.kind == "product" then sums.products = sums.products + steps end
    end
  end
  return 100 * sums.products / total, 100 * sums.waits / total
end

local function tiles_of(layout, group_first_events)
  return function(group)
    local seen, names = {}, {}
    for _, event in ipairs(group_first_events[group]) do
      local tile = replay.tile(layout, event.a)
      if not seen[tile] then
        seen[tile], names[#names + 1] = true, tile
      end
    end
    return table.concat(names, " ")
  end
end

local function copies_by_group(warps)
  local of = {}
  for _, warp in ipairs(warps) do
    local next_group, list = 1, {}
    for _, event in ipairs(warp) do
      if event.kind == "copy" then list[#list + 1] = event end
      if event.kind == "commit" then
        of[warp.groups[next_group]] = list
        next_group, list = next_group + 1, {}
      end
    end
  end
  return of
end

--- The text and the picture of the contents of an EVENTS file, or nil and what is wrong.
function trace.make(contents)
  local fields, events = trace.parse(contents)
  if not fields then return nil, events end
  local warps, problem = replay.run(events, { warps = fields.warps, latency = LATENCY })
  if not warps then return nil, problem end
  local layout = replay.layout(fields.shared)
  local function runs(warp) return replay.runs(warp, layout) end
  local products, waits = shares(warps)
  local drawn = picture.draw(warps, {
    title = fields.variant,
    about = ("%s. A step is one instruction of a warp; a copy is drawn to take %d. Products: %.0f %% of all steps; waiting: %.0f %%."):format(
      fields.about, LATENCY, products, waits),
    runs = runs,
    tiles = tiles_of(layout, copies_by_group(warps)),
  })
  return trace.text(fields, warps, runs), drawn
end

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  assert(file:close())
end

function trace.main(arguments)
  local file = assert(io.open(arguments[1], "rb"))
  local contents = file:read("a")
  file:close()
  local text, drawn = trace.make(contents)
  if not text then error(arguments[1] .. ": " .. drawn, 0) end
  write(arguments[2], text)
  write(arguments[3], drawn)
end

if arg and arg[0] and arg[0]:match("trace%.lua$") then trace.main(arg) end

return trace
