-- The sm80 family's backward pass (gen/templates/sm80_bwd.cu.lua): its shared memory, its launches and the limits of
-- its tiles. In fused tiles key blocks add to dQ in turn; split tiles have a kernel for dQ alone.
local PAD_ROWS = 128     -- GLINT_GPU_ROW_PAD of lib/device/call.h: queries that the first kernel takes at a time
local FRAGMENT = 16      -- rows of one mma
local STAGES = 2         -- tiles of a streamed operand
-- The queries that a key is seen by from which on several blocks share its query heads; lib/cuda/policy.c says why.
local PARTS_FROM = 4096
-- Of shared memory, where the kernel for ragged sequences looks for its tile and there is no tile of numbers yet.
local SEARCH_BYTES = 256
local BARRIERS = 15      -- named barriers of a block, beside the one of all threads

local backward = {
  PART_HEADS = 1, -- query heads of a fused tile's block, when those of a key head are shared by several blocks
  -- Of shared memory, where a kernel that reads lengths keeps its tile: put_ragged_tile of lib/device/ragged.h.
  TILE_BYTES = 48,
}

-- Whether dQ goes over a fused tile's warps in pieces that do not cross pages.
local function dq_goes(record, page)
  local rows = FRAGMENT * record.dq_row_tiles
  local row_groups = record.m // rows
  local columns = row_groups > 0 and record.padded_dim * row_groups / record.warps or 0
  local wide = columns * record.dtype_bytes / 16
  return record.m % rows == 0 and record.warps % row_groups == 0 and columns % FRAGMENT == 0 and (wide % page == 0 or page % wide == 0)
end

--- Chunks of 16 bytes in a page of a tile's row (see tile_offset in lib/device/steps.h): as many as each warp's
-- columns are whole pages of.
function backward.page_chunks(record)
  local chunks = record.padded_dim * record.dtype_bytes // 16
  for page = 8, 4, -4 do
    if chunks % (page * record.d_split) == 0 and (record.pass == "fwd" or record.strategy == "split" or dq_goes(record, page)) then return page end
  end
  return 2
end

--- Where the kernel for ragged sequences keeps its tile, which it reads 16 bytes at a time: behind the rest.
function backward.behind(bytes) return (bytes + 15) // 16 * 16 end

--- The parts of each kernel's shared memory: { { kernel, parts }, ... }. `tile` makes one.
function backward.parts(record, tile)
  local m, n, d, bytes = record.m, record.n, record.padded_dim, record.dtype_bytes
  local parts = { tile("K", 1, n, d, bytes), tile("V", 1, n, d, bytes), tile("Q", record.stages, m, d, bytes),
    tile("dO", record.stages, m, d, bytes) }
  if record.strategy == "fused" then -- with d_split 1, P stands where dS will
    parts[5] = tile(record.d_split == 1 and "dS" or "P, dS", record.d_split + record.stages - 1, n, m, bytes)
  else
    parts[5] = tile(record.d_split == 1 and "P" or "P, dS", record.stages == 3 and 3 or record.d_split, n, m, bytes)
  end
  parts[6] = tile("LSE, delta", 2 * record.stages, m, 1, 4)
  if record.intervals then parts[#parts + 1] = tile("ranges", record.stages, m, 2, 4) end -- of keys, one a query
  parts[#parts + 1] = tile("barriers", 1, record.phases, 1, 8)
  local of_bias
  if record.bias_tensor then
    of_bias = { "dBias", { tile("Q, dO, K, V", 4 * record.bias_stages, record.bias_tile, d, bytes) } }
    if record.intervals then table.insert(of_bias[2], tile("ranges", 1, record.bias_tile, 2, 4)) end
  end
  if record.strategy == "fused" then
    parts[#parts + 1] = { "16", 16 }
    return { { "bwd", parts }, of_bias }
  end
  local dq_parts = { tile("Q", 1, record.dq_m, d, bytes), tile("dO", 1, record.dq_m, d, bytes) }
  for stage = 0, STAGES - 1 do -- a stage is K and after it V
    for _, name in ipairs({ "K", "V" }) do
      dq_parts[#dq_parts + 1] = tile(("%s[%d]"):format(name, stage), 1, record.dq_n, d, bytes)
    end
  end
  if record.intervals then dq_parts[#dq_parts + 1] = tile("ranges", 1, record.dq_m, 2, 4) end
  return { { "dK and dV", parts }, { "dQ", dq_parts }, of_bias }
end

--- struct glint_gpu_launch, in launch order. Kernels that read lengths keep a tile behind the rest of their shared
-- memory.
function backward.launches(record)
  local given = { { suffix = "_delta", grid = "GLINT_GPU_QUERY_BLOCKS", rows = PAD_ROWS, threads = 256, smem_bytes = 0 },
    { suffix = "_sinks", grid = "GLINT_GPU_QUERY_HEADS", threads = 256, smem_bytes = 32, sinks = 1 },
    { suffix = "", grid = "GLINT_GPU_KEY_BLOCKS", rows = record.n, threads = record.threads, smem_bytes = record.smem[1].bytes } }
  if record.strategy == "split" then
    given[4] = { suffix = "_dq", grid = "GLINT_GPU_QUERY_BLOCKS", rows = record.dq_m, threads = 32 * record.dq_warps,
      smem_bytes = record.dq_smem_bytes }
  end
  if record.bias_tensor then
    given[#given + 1] = { suffix = "_dbias", grid = "GLINT_GPU_BIAS_TILES", rows = record.bias_tile, threads = 2 * record.bias_tile,
      smem_bytes = record.bias_smem_bytes, dbias = 1 }
    given[#given + 1] = { suffix = "_bias_sum", grid = "GLINT_GPU_BIAS_SUMS", rows = record.bias_tile, threads = 2 * record.bias_tile,
      smem_bytes = record.bias_tile * record.bias_tile // 4, dbias = 1 } -- a float of each key from each warp
  end
  local all = {}
  for _, kernel in ipairs(record.kernels) do
    for _, launch in ipairs(given) do
      local own = { lengths = kernel.lengths }
      for field, value in pairs(launch) do own[field] = value end
      own.suffix = kernel.suffix .. launch.suffix
      if kernel.lengths then
        own.smem_bytes = backward.behind(launch.smem_bytes) + ((launch.sinks or launch.dbias) and 0 or backward.TILE_BYTES)
        if launch.smem_bytes == 0 and kernel.rows == "ragged" then own.smem_bytes = own.smem_bytes + SEARCH_BYTES end
      end
      all[#all + 1] = own
    end
  end
  return all
end

--- Fills in what follows from the tile's fields. Makes no checks.
function backward.complete(record)
  record.strategy, record.d_split = record.strategy or "fused", record.d_split or 1
  record.stages, record.kv_kept = record.stages or STAGES, record.kv_kept or 0
  record.part_m = record.part_m or record.m // record.d_split
  record.key_turns = record.warps -- of the parts that add to dK and dV of a block of keys
  -- barriers through which warps pass P on: a group of warps has one for each part of the queries
  record.phases = record.stages == 2 and math.max(1, record.warps // (2 * record.d_split) * (record.m // record.part_m)) or 0
  if record.strategy == "fused" then
    record.dq_row_tiles, record.strategy_id = record.dq_row_tiles or 1, "GLINT_GPU_FUSED"
    record.part_heads, record.parts_from = record.part_heads or backward.PART_HEADS, record.parts_from or PARTS_FROM
  else
    record.dq_m, record.dq_n, record.dq_warps = record.dq_m or 64, record.dq_n or 32, record.dq_warps or 4
    record.dq_blocks_per_sm, record.strategy_id = record.dq_blocks_per_sm or 1, "GLINT_GPU_SPLIT"
  end
  record.page_chunks = backward.page_chunks(record)
  if record.bias_tensor then -- dBias: queries and keys of a tile, and stages, in 64 KiB where 16 rows allow it
    local row = record.padded_dim * record.dtype_bytes
    record.bias_tile = row <= 128 and 64 or row <= 256 and 32 or 16
    record.bias_stages = row <= 512 and 2 or 1
    record.bias_blocks = row <= 64 and not record.capped and not record.causal and 3 or 2 -- of a multiprocessor, that registers must leave room for
  end
end

--- The limits; report(field, wrong, right) for each that is broken.
function backward.check(record, report)
  local m, n, warps, split = record.m, record.n, record.warps, record.d_split
  local groups = warps // (2 * split)
  if warps % (2 * split) ~= 0 then
    report("warps", ("%d warps are not whole groups of %d: %d for dV and %d for dK"):format(warps, 2 * split, split, split),
      ("a multiple of %d"):format(2 * split))
    return
  end
  if n % (FRAGMENT * groups) ~= 0 then
    report("n", ("%d keys do not go evenly over %d groups of warps, %d keys at a time"):format(n, groups, FRAGMENT),
      ("a multiple of %d, or other warps"):format(FRAGMENT * groups))
  end
  if PAD_ROWS % m ~= 0 or m * record.dtype_bytes > 128 then
    report("m", ("a row of %d queries of dS is not one page of 32, 64 or 128 bytes"):format(m), "16, 32 or 64, in f32 up to 32")
    return
  end
  if m // split % record.part_m ~= 0 then
    report("part_m", ("%d queries of a warp are not whole parts of %d"):format(m // split, record.part_m),
      ("a divisor of %d"):format(m // split))
    return
  end
  local steps = record.padded_dim * record.dtype_bytes // 32
  if record.kv_kept > steps then
    report("kv_kept", ("head_dim %d has %d mma steps"):format(record.head_dim, steps), ("0 to %d"):format(steps))
  end
  if record.stages ~= 2 and record.stages ~= 3 then
    report("stages", ("%d stages of Q and dO"):format(record.stages), "2 or 3")
  end
  if record.stages == 3 and split == 2 then
    report("stages", "with d_split 2 the warps of P wait for each other within a step", "2")
  end
  local barriers = split == 1 and 0 or 2 * groups
  if barriers > BARRIERS then
    report("warps", ("%d barriers are needed, and a block has %d"):format(barriers, BARRIERS), "fewer warps")
  end
  local page = record.page_chunks
  if split == 2 and record.dtype == "f32" then
    report("d_split", "it is for 16-bit dtypes", "1")
  end
  if split == 2 and record.padded_dim * record.dtype_bytes // 16 % (2 * page) ~= 0 then
    report("d_split", ("head_dim %d does not halve into whole pages of %d bytes"):format(record.head_dim, page * 16), "1")
  end
  if record.strategy == "split" then
    local step = FRAGMENT * record.dq_warps
    if record.dq_m % step ~= 0 then
      report("dq_m", ("%d queries are not whole groups of %d = %d warps x %d rows"):format(record.dq_m, step, record.dq_warps, FRAGMENT),
        ("a multiple of %d, or other dq_warps"):format(step))
    elseif PAD_ROWS % record.dq_m ~= 0 then
      report("dq_m", ("%d is no divisor of %d, to which arrays of rows are padded"):format(record.dq_m, PAD_ROWS), "16, 32, 64 or 128")
    end
    return
  end
  if not dq_goes(record, page) then
    report("dq_row_tiles", ("%d x %d of dQ do not go over %d warps in pieces of %d queries by whole fragments of one page"):format(
      m, record.padded_dim, warps, FRAGMENT * record.dq_row_tiles), "1, 2 or 4; with 1 and as many warps as groups of 16 queries it always goes")
  end
end

return backward
