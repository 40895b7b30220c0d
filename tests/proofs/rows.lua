-- What contracts assume of a row is true of each row of the table: lua rows.lua, from the root.
local ASSUMED = { -- a member of the table's structs, its least and its largest number
  { "tile_m", 8, 1024 }, { "tile_n", 1, 1024 }, { "head_dim", 8, 1024 }, { "row_dim", 16, 4096 }, { "chunk_steps", 1, 1024 },
  { "span_chunks", 1, 1024 }, { "blocks_per_sm", 0, 64 }, { "threads", 1, 1024 }, { "rows", 1, 1024 },
}

local path = (os.getenv("TEST_TMPDIR") or "/tmp") .. "/rows_table.c"
assert(os.execute(("%s gen/glint.lua emit --table --out %s"):format(arg[-1], path)), "the generator made no table")
local file <close> = assert(io.open(path))
local text, bad, all = file:read("a"), false, 0
for _, assumed in ipairs(ASSUMED) do
  local member, low, high = table.unpack(assumed)
  local count, least, most = 0, math.huge, -math.huge
  for number in text:gmatch("%." .. member .. " = (%d+)") do
    count, least, most = count + 1, math.min(least, tonumber(number)), math.max(most, tonumber(number))
  end
  if count == 0 or least < low or most > high then
    bad = true
    print(("%s is %s to %s in %d places, and contracts assume %d to %d"):format(member, least, most, count, low, high))
  end
  all = all + count
end
local rows = select(2, text:gsub("%.tile_m = ", ""))
print(("%d rows, %d numbers"):format(rows, all))
if bad or rows < 100 then error("the contracts' assumptions do not hold", 0) end
