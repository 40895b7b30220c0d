-- Why a kernel has instructions that no check can enter. A row is a part of a kernel's name, a line of a source by a
-- part of its text, which the file must have once, and the reason. reach.lua counts what comes from such a line apart.
--
--   rows: { { kernel, file, text, reason }... }      place(root, row): "FILE:LINE" of the row's line, below a folder
local M = {}

local OTHER_KEYS = "sequence_at and note_faults ask the call, not the kernel's type, whether keys are in pages; the host gives this kernel one answer"

M.rows = {
  { kernel = "_ragged$", file = "lib/device/sequences.h", text = "k.length = within(int_at(p.sequences.seqlens_k, sequence)", reason = OTHER_KEYS },
  { kernel = "_ragged$", file = "lib/device/sequences.h", text = "note_ragged_fault<true>(p.sequences, p.shape);", reason = OTHER_KEYS },
  { kernel = "_ragged_pages$", file = "lib/device/sequences.h", text = "k = find_rows_of(keys_of<false>(p.sequences,", reason = OTHER_KEYS },
  { kernel = "_ragged_pages$", file = "lib/device/sequences.h", text = "if (warp_index() == 0 && p.sequences.first_k)", reason = OTHER_KEYS },
  { kernel = "_ragged_pages$", file = "lib/device/sequences.h", text = "note_ragged_fault<false>(p.sequences, p.shape);", reason = OTHER_KEYS },
  { kernel = "^glint_dec_", file = "lib/device/decode/results.h", text = "st_global_u32(to + column * S::BYTES, odd ? element::pack(other, odd_row)",
    reason = "a fragment has columns beyond HEAD_DIM, which is no multiple of 16: nvcc does not see that no lane of it stores" },
}

function M.place(root, row)
  local file = assert(io.open(("%s/%s"):format(root, row.file)))
  local number, found = 0, nil
  for line in file:lines() do
    number = number + 1
    if line:find(row.text, 1, true) then
      if found then error(("several lines of %s have the text %q; a longer part of the line would be right"):format(row.file, row.text), 0) end
      found = number
    end
  end
  file:close()
  if not found then error(("no line of %s has the text %q; that of the line as it is now would be right"):format(row.file, row.text), 0) end
  return ("%s:%d"):format(row.file:match("[^/]*$"), found)
end

return M
