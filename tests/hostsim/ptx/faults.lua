-- Faults for the instructions of a PTX text, drawn from a seed. A kernel is compiled once with all that were drawn, and
-- a run has one of them.
--
--   draw(kernels, seed, count) -> faults, by_item       faults: { { text, line }... }; by_item[ITEM] = { { number,
--                                                       item = the changed ITEM }... }
local M = {}

local function copy(item)
  local made = {}
  for key, value in pairs(item) do made[key] = value end
  made.operands = table.move(item.operands, 1, #item.operands, 1, {})
  made.words = table.move(item.words, 1, #item.words, 1, {})
  return made
end

--- The item with another name.
local function renamed(item, op)
  local made = copy(item)
  made.op, made.words = op, {}
  for word in op:gmatch("[^.]+") do made.words[#made.words + 1] = word end
  return made
end

local function replaced(item, n, operand)
  local made = copy(item)
  made.operands[n] = operand
  return made
end

local function exchanged(item, a, b)
  local made = copy(item)
  made.operands[a], made.operands[b] = made.operands[b], made.operands[a]
  return made
end

local function number(item, n) return item.operands[n] and item.operands[n].kind == "number" and item.operands[n].value end

local NOTHING = { kind = "nothing", operands = {}, words = {}, op = "nothing" }
local STRICTER = { lt = "le", le = "lt", gt = "ge", ge = "gt" }

-- Each class gives the changed instruction, or nothing where it has none. The table is in the order in which faults are
-- drawn.
local CLASSES = {
  { "predicate inverted", function(i)
    if i.op ~= "bra" or not i.predicate then return end
    local made = copy(i)
    made.negated = not i.negated
    return made
  end },
  { "comparison", function(i)
    local compare = i.op:match("^setp%.(l[te])%.[su]") or i.op:match("^setp%.(g[te])%.[su]")
    return compare and renamed(i, (i.op:gsub("%." .. compare, "." .. STRICTER[compare], 1)))
  end },
  { "shift", function(i)
    if not i.op:find("^sh[lr]%.") then return end
    local n = number(i, 3)
    return n and replaced(i, 3, { kind = "number", value = n + 1 })
  end },
  { ".trans", function(i)
    if not i.op:find("^[ls][dt]matrix") then return end
    return renamed(i, i.op:find("%.trans") and (i.op:gsub("%.trans", "")) or (i.op:gsub("%.x4", ".x4.trans")))
  end },
  { "operands of a difference exchanged", function(i) return i.op:find("^sub%.") and exchanged(i, 2, 3) end },
  { "operands of a selection exchanged", function(i) return i.op:find("^selp%.") and exchanged(i, 2, 3) end },
  { "an addend 16 more", function(i)
    local n = i.op:find("^add%.[su]%d") and number(i, 3)
    return n and replaced(i, 3, { kind = "number", value = n + 16 })
  end },
  { "an operand of a product of another", function(i)
    if not i.op:find("^mma%.") or #i.operands[3] ~= 2 then return end
    return replaced(i, 3, { kind = "list", i.operands[3][2], i.operands[3][1] })
  end },
  { "barrier of the block is one of the warp", function(i)
    if i.op ~= "bar.sync" or #i.operands > 1 then return end
    return replaced(renamed(i, "bar.warp.sync"), 1, { kind = "number", value = -1 })
  end },
  { "barrier of the warp lost", function(i) return i.op == "bar.warp.sync" and NOTHING end },
  { "wait one later", function(i)
    if not i.op:find("wait_group") then return end
    return replaced(i, 1, { kind = "number", value = number(i, 1) + 1 })
  end },
  { "fence lost", function(i) return (i.op:find("^fence") or i.op:find("^membar") or i.op == "wgmma.fence.sync.aligned") and NOTHING end },
  { "release is a plain store", function(i) return i.op:find("^st%.release") and renamed(i, "st.global.u32") end },
  { "acquire is relaxed", function(i) return i.op:find("^ld%.acquire") and renamed(i, (i.op:gsub("acquire", "relaxed"))) end },
  { "parity", function(i)
    if not i.op:find("_wait%.parity") then return end
    return replaced(i, 3, { kind = "flipped", i.operands[3] })
  end },
  { "arrival lost", function(i) return i.op:find("^mbarrier%.arrive%.shared") and NOTHING end },
  { "bytes expected 16 more", function(i)
    local n = i.op:find("^mbarrier%.[%w_.]*expect_tx") and number(i, #i.operands)
    return n and replaced(i, #i.operands, { kind = "number", value = n + 16 })
  end },
  { "a descriptor's immediate", function(i)
    local n = i.op:find("^or%.b64") and number(i, 3)
    return n and replaced(i, 3, { kind = "number", value = n ~ (1 << 16) })
  end },
  { "rounding", function(i)
    if i.op == "cvt.rna.tf32.f32" then return renamed(i, "cvt.rn.tf32.f32") end
    if i.op == "cvt.rn.tf32.f32" then return renamed(i, "cvt.rna.tf32.f32") end
    if i.op:find("^cvt%.rzi") then return renamed(i, (i.op:gsub("rzi", "rpi"))) end
  end },
  { "waits for no launch ahead", function(i) return i.op == "griddepcontrol.wait" and NOTHING end },
}

--- Random numbers, the same on every machine.
local function random(seed)
  local state = seed * 0x9e3779b97f4a7c15 + 0x1234567
  return function(n)
    state = state * 6364136223846793005 + 1442695040888963407
    return (state >> 33) % n + 1
  end
end

function M.draw(kernels, seed, count)
  local places, draw = {}, random(seed)
  for c, class in ipairs(CLASSES) do
    places[c] = {}
    for _, kernel in ipairs(kernels) do
      for _, item in ipairs(kernel.items) do
        local changed = item.kind == "instruction" and class[2](item)
        if changed then table.insert(places[c], { item = item, changed = changed }) end
      end
    end
  end
  local faults, by_item, left = {}, {}, true
  while #faults < count and left do -- one of each class in turn
    left = false
    for c, class in ipairs(CLASSES) do
      if #places[c] > 0 and #faults < count then
        left = true
        local place = table.remove(places[c], draw(#places[c]))
        local item = place.item
        faults[#faults + 1] = { text = ("%s: %s"):format(class[1], item.op), line = item.line, place = item.place }
        local changed = copy(place.changed)
        changed.line, changed.place = item.line, item.place
        by_item[item] = by_item[item] or {}
        table.insert(by_item[item], { number = #faults, item = changed })
      end
    end
  end
  return faults, by_item
end

return M
