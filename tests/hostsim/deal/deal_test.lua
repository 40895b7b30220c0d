-- Does deal.lua leave no check out, and does each check see every axis of the rows that have it?
package.path = "tests/hostsim/deal/?.lua;" .. package.path
local deal = require("deal")

local failures = 0
local function expect(holds, ...)
  if not holds then
    failures = failures + 1
    print(string.format(...))
  end
end

local parsed = deal.parse("tests/step", "fwd_bf16_i8_d104_band_softcap__sm90a_step_s128_m128n64")
expect(parsed.kind == "fwd_sm90a", "kind %s", parsed.kind)
expect(parsed.strategy == "step", "strategy %s", parsed.strategy)
expect(parsed.head_dim == 104, "head_dim %s", parsed.head_dim)
expect(table.concat(parsed.values, " ") == "bf16 i8 band softcap padded step", "values %s", table.concat(parsed.values, " "))

parsed = deal.parse("tests/parts", "bwd_bf16_d64_causal__sm90a_fused_h1_m128n128")
expect(table.concat(parsed.values, " ") == "bf16 causal parts fused", "values %s", table.concat(parsed.values, " "))

parsed = deal.parse("tests/odd", "bwd_bf16_d40_band_softcap__cpu_x86_64_v3_m64n96")
expect(parsed.kind == "bwd_x86_64_v3", "kind %s", parsed.kind)
expect(table.concat(parsed.values, " ") == "bf16 band softcap padded cpu", "values %s", table.concat(parsed.values, " "))

-- Rows of a whole product, and of another strategy and room; a check that all have, of some rows, of one row, of tiles.
local list = {}
local function add(room, row, ...)
  for _, check in ipairs({ ... }) do list[#list + 1] = { room, row, check } end
end
local count = 0
for _, dtype in ipairs({ "f32", "bf16" }) do
  for _, dim in ipairs({ 64, 128, 256 }) do
    for _, mask in ipairs({ "none", "causal", "band" }) do
      local row = ("bwd_%s_d%d_%s__sm80_fused_m64n64"):format(dtype, dim, mask)
      count = count + 1
      add("tests", row, "law/repeat", "accuracy/q65_k1", "accuracy/several_tiles", "lengths/full", "lengths/each_end")
      if mask == "band" then add("tests", row, "law/window") end
      if count == 5 then add("tests", row, "special/alone") end
    end
  end
end
add("tests", "bwd_bf16_d64_none__sm80_split_m64n64", "law/repeat", "accuracy/q65_k1", "accuracy/several_tiles", "lengths/full", "lengths/each_end")
for _, dtype in ipairs({ "f32", "bf16" }) do
  for _, mask in ipairs({ "causal", "interval" }) do
    local row = ("bwd_%s_d40_%s__sm80_fused_m32n32"):format(dtype, mask)
    add("tests/intervals", row, "law/repeat", "accuracy/q65_k1", "accuracy/several_tiles", "law/of_this_room")
  end
end
for _, isa in ipairs({ "x86_64", "x86_64_v4" }) do
  for _, dtype in ipairs({ "f32", "bf16" }) do add("tests", ("bwd_%s_d64_none__cpu_%s_m64n96"):format(dtype, isa), "identity/cpu") end
end
local runs = deal.out(list)

-- How many rows run a check, of a room and with a strategy where they are given; and the values that they have.
local function of(check, room, strategy)
  local found, seen = 0, {}
  for in_room, rows in pairs(runs) do
    for name, checks in pairs(rows) do
      local running = deal.parse(in_room, name)
      for _, other in ipairs(checks) do
        if other == check and (room or in_room) == in_room and (strategy or running.strategy) == running.strategy then
          found = found + 1
          for _, value in ipairs(running.values) do seen[value] = true end
        end
      end
    end
  end
  return found, seen
end

local found, seen = of("law/repeat", "tests")
expect(found >= 3 and found <= 4, "law/repeat is run by %d rows of the library, not by 3 or 4", found)
for _, value in ipairs({ "f32", "bf16", "none", "causal", "band", "fused", "split" }) do
  expect(seen[value], "law/repeat is not run with %s", value)
end
for room, rows in pairs(runs) do
  for name, checks in pairs(rows) do expect(#checks > 0, "%s of %s runs no check", name, room) end
end
found, seen = of("law/repeat", "tests/intervals")
expect(found == 1 and seen.interval, "law/repeat is not run by one row of another room, which has what the library has not")
expect(of("law/of_this_room") == 2, "a check that only another room has is not run by two of its rows")
expect(of("lengths/full", nil, "fused") == 3, "lengths/full is not run by three rows of one strategy")
expect(of("lengths/full", nil, "split") == 1, "lengths/full is not run by the other strategy")
found, seen = of("lengths/each_end")
expect(found <= 4 and seen.split and seen.fused, "lengths/each_end is not run by a few rows of both strategies together")
expect(of("law/window") == 2, "law/window is not run by two rows")
expect(of("special/alone") == 1, "special/alone is not run")
local of_tile = {}
for name, checks in pairs(runs.tests) do
  if table.concat(checks, " "):find("accuracy/q65_k1", 1, true) then
    local dtype, dim, mask, strategy = name:match("^bwd_(%w+)_(d%d+)_(%w+)__sm80_(%w+)")
    if strategy == "fused" then of_tile[dim .. dtype], of_tile[dim .. mask] = true, true end
  end
end
for _, dim in ipairs({ "d64", "d128", "d256" }) do
  for _, value in ipairs({ "f32", "bf16", "none", "causal", "band" }) do
    expect(of_tile[dim .. value], "a check about tiles is not run with %s and %s", dim, value)
  end
end
expect(of("accuracy/q65_k1") == 12, "a check about tiles is not run by 3 rows of each head dim, one of another strategy, and 2 of another tile")
expect(of("identity/cpu") == 4, "identity/cpu is not run with each dtype for each instruction set")

-- Products: the factors that are meant, written out here, meet each value of the rows that have a check with them.
local product, meant = {}, {}
local function point(row, check, ...)
  product[#product + 1] = { "tests", row, check }
  meant[check] = { ... }
end
local LAWS, SIDES, PLACES = { "future_keys", "past_keys", "past_queries" }, { "bottom_right", "top_left" }, { "first", "middle", "last" }
for _, dtype in ipairs({ "f32", "bf16" }) do
  for _, mask in ipairs({ "causal", "band", "interval" }) do
    for _, cap in ipairs({ "", "_softcap" }) do
      local row = ("bwd_%s_d64_%s%s__sm90a_fused_m64n64"):format(dtype, mask, cap)
      for _, law in ipairs(LAWS) do
        point(row, "law/" .. law, law, "any")
        point(row, "law/sinks_" .. law, law, "sinks")
        for _, side in ipairs(mask ~= "causal" and SIDES or {}) do
          for _, place in ipairs(PLACES) do point(row, ("law/window_%s_%s_%s"):format(law, side, place), law, "window " .. side, place) end
        end
      end
      for _, tensor in ipairs({ "Q", "K", "V", "dO" }) do
        for _, number in ipairs({ "nan", "inf", "minus_inf" }) do
          local special = number .. "_in_" .. tensor
          point(row, "special/" .. special, special, "plainly")
          if mask ~= "causal" then point(row, "special/window_top_left_" .. special, special, "in a window") end
          for tiles = 0, 3 do point(row, ("special/partial_tiles_%d_%s"):format(tiles, special), "partial " .. special, "partial tiles " .. tiles) end
        end
      end
      for _, queries in ipairs({ 1, 63, 65, 131 }) do
        for _, keys in ipairs({ 1, 64, 65 }) do
          point(row, ("accuracy/q%d_k%d_top_left"):format(queries, keys), "q" .. queries, "k" .. keys, "shape top left")
          point(row, ("accuracy/q%d_k%d"):format(queries, keys), "q" .. queries, "k" .. keys, "shape")
        end
      end
      for _, check in ipairs({ "ragged/top_left", "ragged/many", "ragged/diagonal_1" }) do point(row, check, "ragged") end
    end
  end
end
local function is_covered(points)
  local possible, met, running, stated = {}, {}, 0, 0
  local function pairs_of(check, values, into)
    for _, value in ipairs(values) do
      for _, factor in ipairs(meant[check]) do into[factor .. " with " .. value] = true end
      if check:find("ragged") and ("causal band interval"):find(value, 1, true) then into[check .. " with " .. value] = true end
    end
  end
  for _, entry in ipairs(points) do
    possible[entry[3]] = true
    pairs_of(entry[3], deal.parse("tests", entry[2]).values, possible)
  end
  for row, checks in pairs(deal.out(points).tests) do
    for _, check in ipairs(checks) do
      running = running + 1
      met[check] = true
      pairs_of(check, deal.parse("tests", row).values, met)
    end
  end
  for what in pairs(possible) do
    stated = stated + 1
    expect(met[what], "%s is run by no row", what)
  end
  return running, stated
end
local running, stated = is_covered(product)
expect(stated > 400, "%d pairs and checks alone are stated", stated)
expect(running < #product / 5, "%d of %d points run, more than a covering array has", running, #product)
-- Of one factor alone no other check meets values on the way.
for _, one in ipairs({ "^law/window_past_keys_top_left_", "^law/window_past_keys_.*_last$", "^law/.*past_keys$", "^special/.*nan_in_V$" }) do
  local part = {}
  for _, entry in ipairs(product) do
    if entry[3]:find(one) and not entry[3]:find("partial_tiles") then part[#part + 1] = entry end
  end
  is_covered(part)
end

-- What is dealt depends on the list alone.
local again = deal.out(list)
for room, rows in pairs(runs) do
  for name, checks in pairs(rows) do
    expect(table.concat(checks, " ") == table.concat(again[room][name], " "), "%s is dealt otherwise", name)
  end
end

if failures > 0 then os.exit(1) end
print("deal.lua: all right")
