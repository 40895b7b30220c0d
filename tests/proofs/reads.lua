-- Every number that a kernel reads of the caller's lengths, first rows and page tables goes through `within` of
-- lib/device/lengths.h, or stands below with a reason: lua reads.lua FILE...
--
-- `within` is proved (device_lengths.acsl). A line that reads has int_at( or given_length( in it. One that is not
-- listed fails, and so does one that is listed and no longer there.
local EQUAL = "compared with what it counts as, and nothing else"
local INTERVALS = "bounds of a query, between the band's by max and min: no address"
local OWN = "the kernels' own plan, not the caller's"

local LISTED = {
  { "lengths.h", "GLINT_DEVICE int32_t given_length(", "it is what is read" },
  { "lengths.h", "(uint32_t)given_length(all.seqlens_q", EQUAL },
  { "lengths.h", "(uint32_t)given_length(all.seqlens_k", EQUAL },
  { "ragged.h", "GLINT_DEVICE int32_t int_at(", "it is what is read" },
  { "ragged.h", "return own.at != int_at(side.first, sequence)", EQUAL },
  { "ragged.h", "own.length != (side.lengths ? int_at(", EQUAL },
  { "ragged.h", "return own.length != int_at(side.lengths, sequence);", EQUAL },
  { "keys.h", "if ((uint32_t)int_at(table, index) >=", EQUAL },
  { "keys.h", "if ((uint32_t)int_at(table, index) <", EQUAL },
  { "step.h", "if ((uint32_t)int_at(table, index) >=", EQUAL },
  { "step_plan.h", "const int32_t q = given_length(", "counts by `within` where it is used, in two lines" },
  { "step_plan.h", "const int32_t k = given_length(", "counts by `within` where it is used, in two lines" },
  { "step_plan.h", "s.own.seqlen_k != int_at(keys.lengths, sequence)", EQUAL },
  { "step_plan.h", "const int32_t end = int_at((const int32_t *)ends", OWN },
  { "step_plan.h", "int_at((const int32_t *)p.plan, PLAN_MERGES)", OWN },
  { "step_rows.h", "int_at((const int32_t *)plan, which)", OWN },
  { "warpgroup_step_load.h", "int_at((const int32_t *)plan, PLAN_MANY)", OWN },
  { "decode/copy.h", "return int_at(c.table, min(key, c.at.own.seqlen_k - 1)", "counts by `within` where find_run uses it" },
  { "decode/walk.h", "int_at(p.key_begin + first, query)", INTERVALS },
  { "intervals.h", "int_at(mask.begin, query), int_at(mask.end, query)", INTERVALS },
  { "warpgroup_key_intervals.h", "return key >= int_at(mask.rows, 2 * query)", "ranges that the first kernel has made, compared with a key" },
  { "warpgroup_bias_tile.h", "if (int_at(sequences.first_q, middle) <= row)", "compared with a row: what is found is a sequence of the batch" },
  { "tree.h", "int_at((const int32_t *)tree.bits", "bits of a tree: no number" },
  { "tree.h", "int_at(mask.begin, query)", INTERVALS },
  { "tree.h", "int_at(mask.end, query)", INTERVALS },
}

local bad, lines, clamped = 0, 0, 0
local function fail(...)
  bad = bad + 1
  print(string.format(...))
end

local function listed_as(file, line)
  for _, entry in ipairs(LISTED) do
    if file:sub(-#entry[1] - 1) == "/" .. entry[1] and line:find(entry[2], 1, true) then
      entry.seen = true
      return true
    end
  end
end

for _, file in ipairs(arg) do
  local number = 0
  for line in io.lines(file) do
    number = number + 1
    if line:find("[^%w_]int_at%(") or line:find("[^%w_]given_length%(") then
      lines = lines + 1
      if line:find("within%(int_at%(") or line:find("within%(given_length%(") then
        clamped = clamped + 1
      elseif not listed_as(file, line) then
        fail("%s:%d: a number of the caller's is used as it is: %s", file, number, line:match("^%s*(.*)"))
      end
    end
  end
end
for _, entry in ipairs(LISTED) do
  if not entry.seen then fail("%s has no line `%s`: the list is out of date", entry[1], entry[2]) end
end
print(("%d lines read numbers, %d of them within their bounds at once"):format(lines, clamped))
os.exit(bad == 0)
