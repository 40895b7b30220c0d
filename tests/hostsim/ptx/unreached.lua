-- Why a kernel has instructions that no check can enter. A row is a part of a kernel's name, a line of a source by a
-- part of its text, which the file must have once, and the reason. reach.lua counts what comes from such a line apart.
-- first, last: the row means those lines, counted from that one, 0 and 0 without them. within: the text of another
-- line, in which the first is inlined, of the file or of `within_file`. most: so many instructions of a kernel have the
-- reason; what is beyond them has none.
--
--   rows: { { kernel, file, text, reason, first, last, within, within_file, most }... }
--   place(root, row): "FILE:LINE" of the row's line, below a folder
--   means(root, row): a function that says whether the row means a chain of places
local M = {}

local STAGES = "nvcc unrolls by four a loop that a warpgroup runs through as many times at most as the ring has stages, two"
local GIVEN = "the kernel of given lengths is the one that reads them, and the host gives it none"
local OWN_PLAN = "a block plans for itself where a step has up to OWN_PLAN_SEQUENCES sequences alone (lib/cuda/step.c); this copy takes any number"
local ONE_TURN = "a warp looks at 32 queries at a time, and a tile has no more"

local CHUNKS = "nvcc unrolls by four a loop over the chunks of a tile, of which a thread has a number that it does not see, here "
local FIRST_ROWS = "the host gives first rows to the kernels of ragged sequences alone, and this one reads lengths"

local LARGE = "a division of 64 bits has a way of its own for numbers beyond 2^32"

M.rows = {
  { kernel = "__sm90a_m%d+n%d+", file = "lib/device/warpgroup_persistent.h", text = "if (begun) {", first = 1, last = 2,
    reason = STAGES, most = 131 },
  { kernel = "__sm90a_m%d+n%d+", file = "lib/device/warpgroup_persistent.h", text = "} else if (!alone) {", first = -2, last = -1,
    reason = STAGES, most = 112 },
  { kernel = "__sm90a_m%d+n%d+", file = "lib/device/warpgroup_persistent.h", text = "i < left; ++i) {", first = 0, last = 2, within = "end_tile(more);",
    reason = STAGES, most = 251 },
  { kernel = "_interval_[%w_]*__sm90a_m%d+n%d+$", file = "lib/device/lengths.h", text = "return lengths ? (int32_t)ld_relaxed_u32(",
    reason = GIVEN, most = 76 },
  { kernel = "_interval_[%w_]*__sm90a_m%d+n%d+$", file = "lib/device/warpgroup_persistent.h", text = "note_fault(p.base, (int32_t)batch);",
    reason = GIVEN, most = 7 },
  { kernel = "_interval_[%w_]*__sm90a_m%d+n%d+$", file = "lib/device/warpgroup_lengths.h",
    text = "const uint32_t after = tile_after_empty<TILE_M>(shape, work, own.seqlen_q, tile);", reason = GIVEN, most = 9 },
  { kernel = "_step_s%d+_m%d+n%d+$", file = "lib/device/warpgroup_step_kernel.h", text = "make_plan<order, 32>(p, plan_of_block(p),", reason = OWN_PLAN,
    most = 337 },
  { kernel = "_step_s%d+_m%d+n%d+$", file = "lib/device/step_rows.h", text = "make_plan<order, 32>(p, plan,", reason = OWN_PLAN, most = 298 },
  { kernel = "_d64_.*__sm90a_short_m64n64$", file = "lib/device/warpgroup.h", text = "sum = gather_special(sum, v[j], exponent, 2);", first = -6,
    within = "block_any(sees_special(values, key_tile::bytes, thread_index(), THREADS, element::EXPONENT))) {",
    within_file = "lib/device/warpgroup_short.h", reason = CHUNKS .. "four: the copies behind the loop", most = 43 },
  { kernel = "_d64_.*_split_m64n128_dq$", file = "lib/device/warpgroup.h", text = "sum = gather_special(sum, v[j], exponent, 2);", first = -6,
    within = "named_any(DQ_BOTH_BARRIER, 256, sees_special(k, key_tile::bytes, thread, 256, element::EXPONENT))",
    within_file = "lib/device/warpgroup_queries.h", reason = CHUNKS .. "two: the loop, and the third copy behind it", most = 71 },
  { kernel = "_split_m%d+n%d+_dq$", file = "lib/device/warpgroup_queries.h", text = "mbarrier_arrive_expect(full, DQ_OWN_BYTES);",
    within = "load_own_queries(shared + DQ_DO_AT, &p.map[MAP_DOUT], work, shared + DQ_DO_FULL);",
    reason = "nvcc unrolls by four a loop whose first turn alone loads what is the block's own", most = 47 },
  { kernel = "_lengths_delta$", file = "lib/device/warpgroup_units.h",
    text = "return side.first ? row_at(static_cast<const struct ragged_side &>(side), index) : 0;",
    reason = FIRST_ROWS, most = 26 },
  { kernel = "_lengths_delta$", file = "lib/device/warpgroup_units.h", text = "const uint32_t blocks = (uint32_t)(r.first_k ? padded_first(",
    reason = FIRST_ROWS, most = 6 },
  { kernel = "_h%d+_m%d+n%d+_", file = "lib/device/parts.h", text = "return p->queries == 0 ? all : glint_part_heads_by(",
    reason = "the row has a number of heads of its own", most = 43 },
  { kernel = "__sm80_m32n", file = "lib/device/intervals.h", text = "add_query(bounds, keys_of_query(mask, query));", first = -1,
    reason = ONE_TURN, most = 41 },
  { kernel = "^glint_merge_rows$", file = "lib/cuda/rows.cu", text = "const struct merged_row at = {(int32_t)(head / p.heads)", first = -2, reason = LARGE },
  { kernel = "^glint_append_", file = "lib/cuda/rows.cu", text = "const struct new_row r = find_new_row(p, from / p.token_chunks, token);", reason = LARGE },
  { kernel = "^glint_dec_", file = "lib/device/decode/results.h", text = "st_global_u32(to + column * S::BYTES, odd ? element::pack(other, odd_row)",
    reason = "a fragment has columns beyond HEAD_DIM, which is no multiple of 16: nvcc does not see that no lane of it stores" },
}

function M.place(root, row, text, name)
  text, name = text or row.text, name or row.file
  local file = assert(io.open(("%s/%s"):format(root, name)))
  local number, found = 0, nil
  for line in file:lines() do
    number = number + 1
    if line:find(text, 1, true) then
      if found then error(("several lines of %s have the text %q; a longer part of the line would be right"):format(name, text), 0) end
      found = number
    end
  end
  file:close()
  if not found then error(("no line of %s has the text %q; that of the line as it is now would be right"):format(name, text), 0) end
  return ("%s:%d"):format(name:match("[^/]*$"), found)
end

function M.means(root, row)
  local name, line = M.place(root, row):match("^(.*:)(%d+)$")
  local within = row.within and M.place(root, row, row.within, row.within_file) .. " " or ""
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
