-- From the events of one simulated block to a time for each: who waits for whom.
--
-- The simulator runs threads one at a time, in an order of its own. Here the warps' events are played again as if each
-- warp had a processor to itself: every event takes one step, an asynchronous copy lands `latency` steps after it was
-- begun, and a warp waits where its program waits. So time is not that of a GPU; what is real is the order of
-- everything, and which waits depend on what.
--
-- events: { warp =, name = of the primitive, file =, line =, a =, b = its arguments }, in the order of each warp's
-- program.
local replay = {}

-- What an instruction is for, in the picture and in the text. The first that fits.
local KINDS = {
  { "copy", "^cp%.async$" }, { "commit", "^cp%.async%.commit_group" }, { "wait", "^cp%.async%.wait_group" },
  { "barrier", "^bar%.sync" }, { "barrier", "^bar%.red" }, { "arrive", "^bar%.arrive" },
  { "phase", "^mbarrier%.try_wait" }, { "signal", "^mbarrier%.arrive" },
  { "product", "^ldmatrix" }, { "product", "^mma" }, { "exponential", "^ex2" }, { "exponential", "^lg2" },
  { "shared", "^ld%.shared" }, { "shared", "^st%.shared" }, { "shared", "^mbarrier" },
  { "turn", "^ld%.relaxed" }, { "turn", "^ld%.acquire" }, { "turn", "^st%.release" }, { "turn", "^atom" }, { "turn", "^fence" },
  { "global", "%.global" },
  { "warp", "^bar%.warp" }, { "warp", "^vote" }, { "warp", "^shfl" },
}

function replay.kind(name)
  for _, kind in ipairs(KINDS) do
    if name:find(kind[2]) then return kind[1] end
  end
  return "other"
end

local function copies_waited_for(warp, groups)
  local last = #warp.groups - groups
  local landed, first
  for i = 1, last do
    local group = warp.groups[i]
    if group.landed and (not landed or group.landed > landed) then landed, first = group.landed, group end
  end
  return landed, first
end

-- Counts `event`'s warp in at its barrier. When all have come, every warp that waits there goes on, one step after the
-- last of them.
local function meet(barriers, warps, warp, event, id, threads, waits)
  local barrier = barriers[id] or { threads = 0, arrived = {} }
  barriers[id] = barrier
  barrier.threads = barrier.threads + 32
  barrier.arrived[#barrier.arrived + 1] = { warp = warp.index, time = event.from, event = event, waits = waits }
  if waits then warp.blocked = id end
  if barrier.threads < threads then return end
  barriers[id] = nil
  local last = barrier.arrived[1]
  for _, arrival in ipairs(barrier.arrived) do
    if arrival.time >= last.time then last = arrival end
  end
  for _, arrival in ipairs(barrier.arrived) do
    if arrival.waits then
      local waiting = warps[arrival.warp]
      arrival.event.to = last.time + 1
      arrival.event.last, arrival.event.last_time = last.warp, last.time
      waiting.time, waiting.blocked = last.time + 1, nil
    end
  end
end

-- An mbarrier: each arrival of a warp ends a phase (32 lanes are counted as one), and a wait is for the n-th phase, n
-- counting the waits of that warp there.
local function barrier_of(state, address)
  state.phases[address] = state.phases[address] or { ended = {}, waiting = {} }
  return state.phases[address]
end

local function signal(state, warp, event)
  local barrier = barrier_of(state, event.a)
  barrier.ended[#barrier.ended + 1] = { warp = warp.index, time = event.from }
  for _, waiting in ipairs(barrier.waiting) do
    if waiting.phase == #barrier.ended then
      local late = state.warps[waiting.warp]
      waiting.event.to = math.max(waiting.event.from, event.from) + 1
      waiting.event.last, waiting.event.last_time = warp.index, event.from
      late.time, late.blocked = waiting.event.to, nil
    end
  end
end

local function await(state, warp, event)
  local barrier = barrier_of(state, event.a)
  warp.waits[event.a] = (warp.waits[event.a] or 0) + 1
  local phase = warp.waits[event.a]
  local ended = barrier.ended[phase]
  if not ended then
    barrier.waiting[#barrier.waiting + 1] = { warp = warp.index, phase = phase, event = event }
    warp.blocked = event.a
  elseif ended.time >= event.from then
    event.to, event.last, event.last_time = ended.time + 1, ended.warp, ended.time
    warp.time = event.to
  end
end

local function perform(state, warp, event)
  local kind = event.kind
  event.from, event.to = warp.time, warp.time + 1
  if kind == "copy" then
    event.landed = event.from + state.latency
    local open = warp.open
    open.first, open.landed = open.first or event, event.landed
    open.count = (open.count or 0) + 1
  elseif kind == "commit" then
    warp.open.committed = event.from
    warp.groups[#warp.groups + 1] = warp.open
    warp.open = {}
  elseif kind == "wait" then
    local landed, group = copies_waited_for(warp, event.a)
    if landed and landed > event.from then event.to, event.group = landed, group end
  end
  warp.time = event.to
  if kind == "barrier" or kind == "arrive" then
    meet(state.barriers, state.warps, warp, event, event.a, event.b, kind == "barrier")
  elseif kind == "signal" then
    signal(state, warp, event)
  elseif kind == "phase" then
    await(state, warp, event)
  end
end

--- Gives every event `from`, `to` and `kind`, and a wait its cause: `group`, or `last` (a warp) and `last_time`.
--- Returns the warps:
--- lists of events with `index`, `time` at the end and `groups` of copies; or nil and why it cannot go on.
function replay.run(events, options)
  local state = { warps = {}, barriers = {}, phases = {}, latency = options.latency }
  for index = 1, options.warps do state.warps[index] = { index = index, time = 0, next = 1, groups = {}, open = {}, waits = {} } end
  for _, event in ipairs(events) do
    event.kind = replay.kind(event.name)
    table.insert(state.warps[event.warp], event)
  end
  local moved = true
  while moved do
    moved = false
    for _, warp in ipairs(state.warps) do
      while not warp.blocked and warp[warp.next] do
        perform(state, warp, warp[warp.next])
        warp.next, moved = warp.next + 1, true
      end
    end
  end
  for _, warp in ipairs(state.warps) do
    if warp.blocked then
      return nil, ("warp %d waits at barrier %d for ever (line %d)"):format(warp.index - 1, warp.blocked, warp[warp.next - 1].line)
    end
  end
  return state.warps
end

-- ---- what lies where ------------------------------------------------------------------------------------------------

--- The parts of shared memory, from their description in the generator's record, "K 2 x 32 x 48 x 2 + ...": { name =,
--- stages =, from =, bytes = of one stage }.
function replay.layout(description)
  local parts, at = {}, 0
  for part in (description:gsub(" = %d+$", "") .. " + "):gmatch("(.-) %+ ") do
    local name, numbers = part:match("^(.-)%s*(%d[%d x]*)$")
    local factors, bytes = {}, 1
    for factor in numbers:gmatch("%d+") do
      factors[#factors + 1] = tonumber(factor)
      bytes = bytes * factors[#factors]
    end
    local copies, names = #factors == 4 and factors[1] or 1, {}
    for one in (name ~= "" and name or "number"):gmatch("[^,%s]+") do names[#names + 1] = one end
    if copies % #names ~= 0 then names = { name } end
    for _, one in ipairs(names) do
      parts[#parts + 1] = { name = one, stages = copies // #names, from = at, bytes = bytes // copies }
      at = at + bytes // #names
    end
  end
  return parts
end

--- The tile of a shared address, such as "K[1]".
function replay.tile(layout, address)
  for _, part in ipairs(layout) do
    local inside = address - part.from
    if inside >= 0 and inside < part.bytes * part.stages then
      return part.stages == 1 and part.name or ("%s[%d]"):format(part.name, inside // part.bytes), part.name
    end
  end
  return ("0x%x"):format(address)
end

-- ---- runs of events of one kind -------------------------------------------------------------------------------------

local ALONE = { wait = true, barrier = true, arrive = true, phase = true, signal = true }
local PASSING = { warp = true, commit = true }

local function has_tile(event)
  return event.kind == "copy" or event.kind == "shared" or event.name:find("^ldmatrix")
end

local function add(run, event, tile)
  run.to, run.last_line = event.to, event.line
  if not run.counts[event.name] then run.names[#run.names + 1] = event.name end
  run.counts[event.name] = (run.counts[event.name] or 0) + 1
  run.multiplied = run.multiplied or event.name:find("^mma") ~= nil
  if tile and not run.tiles[tile] then
    run.tiles[tile] = true
    run.tiles[#run.tiles + 1] = tile
  end
end

--- One warp's events in runs of a kind: { kind =, from =, to =, counts = by primitive, names = of those in order, tiles
--- = a list, file =, line = of the first event, last_line =, event = the first }. A product of another tile is another
--- run.
function replay.runs(warp, layout)
  local runs, run = {}, nil
  for i = 1, #warp do
    local event = warp[i]
    local kind = PASSING[event.kind] and run and not ALONE[run.kind] and run.kind or event.kind
    local tile = has_tile(event) and replay.tile(layout, event.a) or nil
    if not run or run.kind ~= kind or ALONE[kind] or (kind == "product" and tile and run.multiplied and not run.tiles[tile]) then
      run = { kind = kind, from = event.from, counts = {}, names = {}, tiles = {}, file = event.file, line = event.line, event = event }
      runs[#runs + 1] = run
    end
    add(run, event, tile)
  end
  return runs
end

return replay
