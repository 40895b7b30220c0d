-- The part of the `sm80` family that is a server's step: forward, any number of queries of each sequence in one
-- launch, of every kind of sequences, linear or in pages, in the canonical order of lib/device/step.h.
-- gen/families/sm80.lua says what a spec may say.
local axes = require("gen.axes")
local shared = require("gen.gpu_step")
local text = require("gen.text")

local ROWS, WARPS = 16, 4                -- of a warp, of a block
-- Against a cache a step is for so many rows at least, (query, query head) pairs of a key head, and so many queries at
-- most: fewer rows are decode's.
local CACHE_FROM, CACHE_UP_TO = 33, 256
local TO_89 = { "80", "86", "87", "89" }
local TO_90 = { "80", "86", "87", "89", "90" }
-- A tile serves head dims up to `most`. `n`: its keys; up to 128 the order of sums is sm90a's. `archs`: where O and the
-- scores of its keys stay in registers; nil: all. `e4m3_archs`: where they do while keys of e4m3 are widened.
-- `capped_archs`: where they do with intervals or a tree, and a softcap.
local TILES = {
  { most = 128, n = 128 },
  { most = 192, n = 64, archs = TO_90, e4m3_archs = TO_89 },
  { most = 256, n = 32, archs = TO_90, e4m3_archs = TO_89, capped_archs = TO_89 },
}
local UNIT_BYTES, RUN_BYTES, RUN = 4 * 24, 8, 16 -- of the unit at hand; of where runs of 16 keys of a tile lie
local SCALES_BYTES = 2 * 4               -- of a key's K and V, where they are of 8 bits

local step = { takes = shared.takes }

-- Whether a bias by a tensor beside a tree and a softcap would spill registers: at head_dim 128 it spills 4 bytes on
-- sm_90.
local function spills(of)
  local both = axes.field(of, "bias", "bias_tensor") and axes.field(of, "mask", "tree_bits")
  return both and of.head_dim > 96 and axes.field(of, "softcap", "capped")
end

-- `of`: a key or a record.
local function archs_of(tile, of)
  local found = of.kv_dtype == "e4m3" and tile.e4m3_archs
  if axes.field(of, "mask", "intervals") and axes.field(of, "softcap", "capped") then found = found or tile.capped_archs end
  return found or tile.archs
end

local function tile_of(head_dim)
  for _, tile in ipairs(TILES) do
    if head_dim <= tile.most then return tile end
  end
end

--- The tile for `key`, of any head dim, or nil.
function step.tile(key)
  local tile = tile_of(key.head_dim)
  if tile and axes.field(key, "bias", "biased") and (key.head_dim > 128 or key.kv_dtype ~= "same" or spills(key)) then return nil end
  local goes = tile and key.pass == "fwd" and key.dtype ~= "f32" and
    (key.kv_dtype == "same" or key.dtype == "bf16" and key.head_dim % ROWS == 0)
  if not goes then return nil end
  return { step = true, m = ROWS * WARPS, n = tile.n, warps = WARPS, archs = archs_of(tile, key) }
end

--- Whether a step can write the largest logits: at head_dim 256 one with a tree would spill 8 bytes on sm_90.
function step.has_logit(record) return record.head_dim <= 192 end

function step.how(record) return shared.how("sm80", record) end

--- Parts of the shared memory of a block.
function step.parts(record, tile)
  local d, bytes = record.padded_dim, record.dtype_bytes
  local parts = { tile("Q", 1, record.m, d, bytes), tile("K, V", 2, record.n, d, bytes), { "unit", UNIT_BYTES },
    { "runs of keys", RUN_BYTES * (record.n // RUN) } }
  if record.narrow then parts[#parts + 1] = { "scales", SCALES_BYTES * record.n } end
  if record.intervals then parts[#parts + 1] = tile("ranges", 1, record.m, 2, 4) end -- of keys, one a query
  return parts
end

--- Fills in what follows from the tile's fields. Makes no checks.
function step.complete(record, page_chunks)
  record.strategy_id, record.span, record.d_split, record.folded = "GLINT_GPU_STEP", record.span or shared.SPAN, 1, 1
  record.warps, record.threads = record.warps or WARPS, 32 * (record.warps or WARPS)
  record.blocks_per_sm = record.blocks_per_sm or 2
  record.q_kept = record.q_kept or record.head_dim <= 64 and record.padded_dim // 16 or 0
  record.page_chunks, record.chunk_steps = page_chunks(record), record.span // record.n
  record.cache_from, record.cache_up_to = record.cache_from or CACHE_FROM, record.cache_up_to or CACHE_UP_TO
  record.device_lengths, record.device_pages, record.device_ragged = true, true, true -- one kernel for all
end

--- struct glint_gpu_launch, in launch order.
function step.launches(record) return shared.launches(record, record.blocks_per_sm) end

local NONE = { "d_split", "up_to", "sequences_blocks_per_sm", "padded_dim" }

--- The limits; report(field, wrong, right) for each that is broken.
function step.check(record, report)
  for _, field in ipairs(NONE) do
    local own = field == "d_split" and 1 or field == "padded_dim" and (record.head_dim + ROWS - 1) // ROWS * ROWS or nil
    if record[field] ~= own then report(field, "a step has none of its own", "leave it out") end
  end
  if record.dtype == "f32" then report("m", "a step's products are of 16-bit numbers", 'dtypes = { "f16", "bf16" }') end
  if record.narrow and record.dtype == "f16" then
    report("m", "weights times scales of V may leave the range of f16", 'dtypes = { "bf16" }')
  end
  if record.narrow and record.head_dim % ROWS ~= 0 then
    report("head_dim", ("copies of 8 bits are of 16 numbers, and a row has %d"):format(record.head_dim), "a multiple of 16")
  end
  if record.narrow and record.biased then report("biases", "a step over 8 bits adds nothing to scores", 'biases = { "none" }') end
  if record.biased and record.head_dim > 128 then
    report("biases", ("a step adds nothing to scores at head_dim %d"):format(record.head_dim), "head_dims up to 128")
  end
  if spills(record) then
    report("biases", "a step with a tree, a softcap and a bias by a tensor would spill registers beyond head_dim 96",
      'softcaps = { "none" }')
  end
  if record.warps ~= WARPS or record.m ~= ROWS * WARPS then
    report("m", "four warps have 16 rows each", "m = 64, warps = 4")
  end
  local tile, most = tile_of(record.head_dim), TILES[#TILES].most
  if not tile then
    report("head_dim", ("O of head_dim %d takes more registers than there are"):format(record.head_dim), "up to " .. most)
  else
    if record.n ~= tile.n then
      report("n", ("the order of a step's sums is that of tiles of %d keys at head_dim %d"):format(tile.n, record.head_dim),
        tostring(tile.n))
    end
    local archs = archs_of(tile, record)
    for _, arch in ipairs(archs and record.archs or {}) do
      if not text.contains(archs, arch) then
        report("archs", ("a step of head_dim %d would spill registers on sm_%s"):format(record.head_dim, arch), text.words(archs))
      end
    end
  end
  shared.check(record, report)
  local steps = record.padded_dim // 16
  if record.q_kept > steps then
    report("q_kept", ("head_dim %d has %d mma steps"):format(record.head_dim, steps), ("0 to %d"):format(steps))
  end
end

--- Lines for the header of an emitted kernel and for explain.
function step.describe(record)
  return ("Tile: %d rows x %d keys; a step of a server: units of work that a first kernel plans, spans %s %d keys; %d warps, "
    .. "%d blocks a multiprocessor."):format(record.m, record.n, record.bounds_first and "of" or "from", record.span, record.warps,
    record.blocks_per_sm)
end

return step
