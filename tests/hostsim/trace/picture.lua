-- The pipeline of one block as a picture (SVG): a row for each warp, time to the right, on as many lines as it takes.
-- Under a warp's row are its copies on their way; arrows go from the warp that comes last to a barrier to those that
-- waited for it.
local picture = {}

local ROW, STRIP, GAP = 26, 9, 9       -- heights of a warp's row, of a group of its copies, and of the space below
local LEFT, RIGHT, TOP = 74, 26, 84    -- margins; TOP has the title
local HEAD = 26                        -- above the first row of a line: the time
local WIDTH = 1500                     -- of a line
local STEPS = 1000                     -- on a line, at most

local COLOURS = {
  copy = "#3d7fc1", product = "#3a9d6e", exponential = "#ee9a3a", shared = "#8f6fc0", global = "#9a6a48", turn = "#c8507f",
  barrier = "#dcdee3", wait = "#cfe0f2", phase = "#dcdee3", arrive = "#4b5563", signal = "#4b5563", warp = "#b9bec8", commit = "#3d7fc1", other = "#b9bec8",
}
local LEGEND = {
  { "copy", "begins copies" }, { "product", "products" }, { "exponential", "exponentials" }, { "shared", "shared memory" },
  { "global", "global memory" }, { "turn", "turns of blocks" }, { "wait", "waits for copies" }, { "barrier", "waits at a barrier" },
}

local function escape(text) return (tostring(text):gsub("[&<>\"]", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" })) end

local Canvas = {}
Canvas.__index = Canvas

function Canvas:add(format, ...) self[#self + 1] = format:format(...) end

function Canvas:rect(class, x, y, width, height, title)
  local body = title and ("<title>%s</title>"):format(escape(title)) or ""
  self:add('<rect class="%s" x="%.2f" y="%.1f" width="%.2f" height="%.1f">%s</rect>', class, x, y, width, height, body)
end

function Canvas:text(class, x, y, text)
  self:add('<text class="%s" x="%.2f" y="%.1f">%s</text>', class, x, y, escape(text))
end

-- Where things are: time to line and x, warp to y.
local function geometry(total, warps, strips)
  local lines = math.max(1, math.ceil(total / STEPS))
  local steps = math.ceil(total / lines)
  local pitch = ROW + strips * STRIP + GAP
  local line_height = HEAD + warps * pitch + 16
  local place = { lines = lines, steps = steps, scale = WIDTH / steps, warps = warps, height = TOP + lines * line_height + 46 }
  function place.line(time) return math.min(math.floor(time / steps), lines - 1) end
  function place.x(time, line) return LEFT + (time - line * steps) * place.scale end
  function place.top(line) return TOP + line * line_height end
  function place.y(warp, line) return TOP + line * line_height + HEAD + (warp - 1) * pitch end
  return place
end

-- Calls draw(line, from, to) for each line that has a part of the interval.
local function over_lines(place, from, to, draw)
  for line = place.line(from), place.line(math.max(from, to - 1e-9)) do
    local first, last = math.max(from, line * place.steps), math.min(to, (line + 1) * place.steps)
    if last > first then draw(line, first, last) end
  end
end

local function counted(run)
  local parts = {}
  for _, name in ipairs(run.names) do parts[#parts + 1] = run.counts[name] .. " " .. name end
  return table.concat(parts, ", ")
end

local function describe(run)
  local tiles = #run.tiles > 0 and " of " .. table.concat(run.tiles, " ") or ""
  return ("%d-%d: %s%s; lines %d-%d"):format(run.from, run.to, counted(run), tiles, run.line, run.last_line)
end

local function draw_run(canvas, place, warp, run)
  over_lines(place, run.from, run.to, function(line, from, to)
    local x, width, y = place.x(from, line), (to - from) * place.scale, place.y(warp, line)
    local waits = run.kind == "barrier" or run.kind == "wait" or run.kind == "phase"
    canvas:rect(run.kind, x, waits and y + 5 or y, math.max(width, 0.6), waits and ROW - 10 or ROW, describe(run))
    local tiles = table.concat(run.tiles, run.kind == "product" and " \u{b7} " or " ")
    local label = (run.kind == "barrier" or run.kind == "phase") and ("line %d"):format(run.line) or tiles
    local room = (width - 5) / utf8.len(label)
    if #label > 0 and room > 5 and run.kind ~= "wait" then
      canvas:text((waits and "quiet" or "label") .. (room < 6.2 and " small" or ""), x + width / 2, y + ROW / 2 + 3.5, label)
    end
  end)
end

-- Gives each group of copies of a warp a `strip` that no other has at that time; returns how many strips it takes.
local function give_strips(groups)
  local free_at = {}
  for _, group in ipairs(groups) do
    if group.first then
      local strip = 1
      while free_at[strip] and free_at[strip] > group.first.from do strip = strip + 1 end
      free_at[strip], group.strip = group.landed, strip
    end
  end
  return #free_at
end

local function draw_copies(canvas, place, warp, groups, layout_tiles)
  for _, group in ipairs(groups) do
    if group.first then
      over_lines(place, group.first.from, group.landed, function(line, from, to)
        local x, width, y = place.x(from, line), (to - from) * place.scale, place.y(warp, line) + ROW + 1 + (group.strip - 1) * STRIP
        local label = layout_tiles(group)
        canvas:rect("flight", x, y, width, STRIP - 1, ("%d copies of %s, on their way %d-%d"):format(group.count, label, group.first.from, group.landed))
        if width > 5.2 * #label + 6 then canvas:text("tiny", x + width / 2, y + STRIP - 2.6, label) end
      end)
    end
  end
end

local function draw_arrows(canvas, place, warps)
  for _, warp in ipairs(warps) do
    for _, event in ipairs(warp) do
      if event.last and event.last ~= warp.index and event.to - event.from > 1 then
        local line = place.line(event.last_time)
        local below = event.last > warp.index
        local x, from = place.x(event.last_time + 0.5, line), place.y(event.last, line) + (below and 2 or ROW - 2)
        local to = place.y(warp.index, line) + (below and ROW - 6 or 6)
        canvas:add('<path class="arrow" d="M%.2f %.1f L%.2f %.1f"/>', x, from, x, to)
      end
    end
  end
end

local function draw_axis(canvas, place, total)
  local tick = 10
  while place.steps / tick > 16 do tick = tick * (tostring(tick):sub(1, 1) == "2" and 2.5 or 2) end
  for line = 0, place.lines - 1 do
    local bottom = place.y(place.warps, line) + ROW + STRIP
    for time = math.ceil(line * place.steps / tick) * tick, math.min((line + 1) * place.steps, total), tick do
      local x = place.x(time, line)
      canvas:add('<line class="grid" x1="%.2f" y1="%.1f" x2="%.2f" y2="%.1f"/>', x, place.top(line) + 14, x, bottom)
      canvas:text("time", x, place.top(line) + 10, math.tointeger(time) or time)
    end
    for warp = 1, place.warps do
      canvas:text("warp", LEFT - 10, place.y(warp, line) + ROW / 2 + 4, "warp " .. warp - 1)
    end
  end
end

local function draw_legend(canvas, y)
  local x = LEFT
  for _, entry in ipairs(LEGEND) do
    canvas:rect(entry[1], x, y, 14, 14)
    canvas:text("key", x + 20, y + 11, entry[2])
    x = x + 44 + 6.6 * #entry[2]
  end
  canvas:rect("flight", x, y + 4, 14, STRIP - 1)
  canvas:text("key", x + 20, y + 11, "copies on their way")
  x = x + 44 + 6.6 * 19
  canvas:add('<path class="arrow" d="M%.1f %.1f L%.1f %.1f"/>', x + 6, y + 14, x + 6, y + 1)
  canvas:text("key", x + 16, y + 11, "from the last to arrive to who waited")
end

local STYLE = [[
text { font-family: "DejaVu Sans", Verdana, sans-serif; fill: #1f2933; }
.title { font-size: 19px; font-weight: bold; } .about { font-size: 12.5px; fill: #52606d; }
.label { font-size: 10.5px; fill: #ffffff; text-anchor: middle; } .quiet { font-size: 10px; fill: #6b7280; text-anchor: middle; }
.small { font-size: 8.5px; } .tiny { font-size: 7.5px; fill: #1d4f86; text-anchor: middle; } .time { font-size: 10px; fill: #7b8794; text-anchor: middle; }
.warp { font-size: 12px; text-anchor: end; } .key { font-size: 12px; }
.grid { stroke: #e4e7eb; stroke-width: 1; } .arrow { stroke: #1f2933; stroke-width: 1.1; fill: none; marker-end: url(#head); }
.flight { fill: #a9cbec; }
]]

--- The picture of warps from replay.run: title and about are lines of text, runs(warp) and tiles(group) say what is
-- drawn.
function picture.draw(warps, options)
  local total = 1
  for _, warp in ipairs(warps) do total = math.max(total, warp.time) end
  local strips = 1
  for _, warp in ipairs(warps) do strips = math.max(strips, give_strips(warp.groups)) end
  local place = geometry(total, #warps, strips)
  local canvas = setmetatable({}, Canvas)
  canvas:add('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d">', LEFT + WIDTH + RIGHT, place.height,
    LEFT + WIDTH + RIGHT, place.height)
  local style = { STYLE }
  for _, kind in ipairs({ "copy", "product", "exponential", "shared", "global", "turn", "barrier", "phase", "wait", "arrive", "signal",
    "warp", "commit", "other" }) do
    style[#style + 1] = ("rect.%s { fill: %s; stroke: #ffffff; stroke-width: 0.7; }\n"):format(kind, COLOURS[kind])
  end
  canvas:add("<style>\n%s</style>", table.concat(style))
  canvas:add('<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">' ..
    '<path d="M0 0.6 L7.4 4 L0 7.4 Z" fill="#1f2933"/></marker></defs>')
  canvas:add('<rect width="100%%" height="100%%" fill="#ffffff"/>')
  canvas:text("title", LEFT, 32, options.title)
  canvas:text("about", LEFT, 54, options.about)
  draw_axis(canvas, place, total)
  for _, warp in ipairs(warps) do
    for _, run in ipairs(options.runs(warp)) do
      if COLOURS[run.kind] then draw_run(canvas, place, warp.index, run) end
    end
    draw_copies(canvas, place, warp.index, warp.groups, options.tiles)
  end
  draw_arrows(canvas, place, warps)
  draw_legend(canvas, place.height - 34)
  canvas:add("</svg>\n")
  return table.concat(canvas, "\n")
end

return picture
