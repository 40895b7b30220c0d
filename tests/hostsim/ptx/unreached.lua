-- Why a kernel has instructions that no check can enter. A row is a part of a kernel's name, a line of a source by a
-- part of its text, which the file must have once, and the reason. reach.lua counts what comes from such a line apart.
-- first, last: the row means those lines, counted from that one, 0 and 0 without them. within: the text of another line
-- of the file, in which the first is inlined.
--
--   rows: { { kernel, file, text, reason, first, last, within }... }
--   place(root, row): "FILE:LINE" of the row's line, below a folder
--   means(root, row): a function that says whether the row means a chain of places
local M = {}

local STAGES = "nvcc unrolls by four a loop that a warpgroup runs through as many times at most as the ring has stages, two"
local GIVEN = "the kernel of given lengths is the one that reads them, and the host gives it none"
local OWN_PLAN = "a block plans for itself where a step has up to OWN_PLAN_SEQUENCES sequences alone (lib/cuda/step.c); this copy takes any number"
local ONE_TURN = "a warp looks at 32 queries at a time, and a tile has no more"

local LARGE = "a division of 64 bits has a way of its own for numbers beyond 2^32"

M.rows = {
  { kernel = "__sm90a_m%d+n%d+", file = "lib/device/warpgroup_persistent.h", text = "if (begun) {", first = 1, last = 2,
    reason = STAGES },
  { kernel = "__sm90a_m%d+n%d+", file = "lib/device/warpgroup_persistent.h", text = "} else if (!alone) {", first = -2, last = -1, reason = STAGES },
  { kernel = "__sm90a_m%d+n%d+", file = "lib/device/warpgroup_persistent.h", text = "i < left; ++i) {", first = 0, last = 2, within = "end_tile(more);",
    reason = STAGES },
  { kernel = "_interval_[%w_]*__sm90a_m%d+n%d+$", file = "lib/device/lengths.h", text = "return lengths ? (int32_t)ld_relaxed_u32(", reason = GIVEN },
  { kernel = "_interval_[%w_]*__sm90a_m%d+n%d+$", file = "lib/device/warpgroup_persistent.h", text = "note_fault(p.base, (int32_t)batch);", reason = GIVEN },
  { kernel = "_interval_[%w_]*__sm90a_m%d+n%d+$", file = "lib/device/warpgroup_lengths.h",
    text = "const uint32_t after = tile_after_empty<TILE_M>(shape, work, own.seqlen_q, tile);", reason = GIVEN },
  { kernel = "_step_s%d+_m%d+n%d+$", file = "lib/device/warpgroup_step_kernel.h", text = "make_plan<order, 32>(p, plan_of_block(p),", reason = OWN_PLAN },
  { kernel = "_step_s%d+_m%d+n%d+$", file = "lib/device/step_rows.h", text = "make_plan<order, 32>(p, plan,", reason = OWN_PLAN },
  { kernel = "_h%d+_m%d+n%d+_", file = "lib/device/parts.h", text = "return p->queries == 0 ? all : glint_part_heads_by(",
    reason = "the row has a number of heads of its own" },
  { kernel = "__sm80_m32n", file = "lib/device/intervals.h", text = "add_query(bounds, keys_of_query(mask, query));", first = -1, reason = ONE_TURN },
  { kernel = "^glint_merge_rows$", file = "lib/cuda/rows.cu", text = "const struct merged_row at = {(int32_t)(head / p.heads)", first = -2, reason = LARGE },
  { kernel = "^glint_append_", file = "lib/cuda/rows.cu", text = "const struct new_row r = find_new_row(p, from / p.token_chunks, token);", reason = LARGE },
  { kernel = "^glint_dec_", file = "lib/device/decode/results.h", text = "st_global_u32(to + column * S::BYTES, odd ? element::pack(other, odd_row)",
    reason = "a fragment has columns beyond HEAD_DIM, which is no multiple of 16: nvcc does not see that no lane of it stores" },
}

function M.place(root, row, text)
  text = text or row.text
  local file = assert(io.open(("%s/%s"):format(root, row.file)))
  local number, found = 0, nil
  for line in file:lines() do
    number = number + 1
    if line:find(text, 1, true) then
      if found then error(("several lines of %s have the text %q; a longer part of the line would be right"):format(row.file, text), 0) end
      found = number
    end
  end
  file:close()
  if not found then error(("no line of %s has the text %q; that of the line as it is now would be right"):format(row.file, text), 0) end
  return ("%s:%d"):format(row.file:match("[^/]*$"), found)
end

function M.means(root, row)
  local name, line = M.place(root, row):match("^(.*:)(%d+)$")
  local within = row.within and M.place(root, row, row.within) .. " " or ""
  return function(chain)
    for at = line + (row.first or 0), line + (row.last or 0) do
      local place = ("%s%d "):format(name, at)
      local _, after = (chain .. " "):find(place, 1, true)
      if after and (chain .. " "):find(within, after, true) then return true end
    end
    return false
  end
end

return M
