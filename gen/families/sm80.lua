-- The `sm80` family: CUDA C with mma.sync, ldmatrix and cp.async, for every NVIDIA GPU since Ampere. This file holds
-- what a spec may say about it, its limits with their arithmetic, and what a variant of it is. It must not mention
-- another family. gen/README.md says what each part is for.
local axes = require("gen.axes")
local architectures = require("gen.archs")
local backward = require("gen.families.sm80_backward")
local decode = require("gen.families.sm80_decode")
local gpu = require("gen.gpu")
local model = require("gen.families.sm80_model")
local schema = require("gen.schema")
local step = require("gen.families.sm80_step")
local text = require("gen.text")

local KIB = 1024

local ARCHS = {} -- SASS for them; "90a" has instructions that this family does not use
for _, name in ipairs(architectures.names) do
  if not name:find("%a") then ARCHS[#ARCHS + 1] = name end
end

local FRAGMENT = 16   -- rows of one mma; head_dim is padded to whole ones in shared memory
local STAGES = 2      -- tiles of a streamed operand
local MASK_BYTES = 16 -- of shared memory, where the kernel that reads lengths keeps a sequence's mask: put_mask of lib/device/lengths.h
local TILE_BYTES = backward.TILE_BYTES
local KEYS_BYTES = 32 -- and the one for pages where a head of K and V begins, and the table: put_keys of lib/device/keys.h
local KEPT_BYTES = { given = 0, padded = MASK_BYTES, ragged = TILE_BYTES, numbered = TILE_BYTES } -- forward, by type of rows

local function is_step(record) return record.step and record.pass == "fwd" end

local function smem_limit(arch) return architectures.get(arch).block_kib * KIB end

local arch_list = schema.list(schema.name(ARCHS))

local sm80 = {
  name = "sm80",
  what = "mma.sync, ldmatrix and cp.async: NVIDIA GPUs since Ampere",
  backend = gpu,
  extension = "cu",
  templates = { fwd = "sm80_fwd.cu.lua", bwd = "sm80_bwd.cu.lua", dec = "sm80_dec.cu.lua" },
  template = function(record) return is_step(record) and "sm80_step.cu.lua" or nil end,
  fields = { archs = arch_list, device_lengths = schema.flag(), device_pages = schema.flag(), device_ragged = schema.flag(),
    max_logit = schema.flag(),
    step = schema.flag() }, -- adds the row of a server's step to each forward key that has one
  passed = { "device_lengths", "device_pages", "device_ragged", "max_logit" },
  required = { "archs" },
  target_field = "archs",
  all_targets = ARCHS,
  tile_fields = {
    m = schema.integer(8, 256, 8),                      -- queries a tile, a multiple of 16; decode: rows, 8 or a multiple of 16
    n = schema.integer(16, 256, 16),                    -- keys a tile
    up_to = schema.integer(1, 1 << 30),                 -- lengths for which the plan takes it before tiles without: the shorter of the two
    warps = schema.integer(1, 16),                      -- of a block
    blocks_per_sm = schema.integer(1, 8),               -- that the registers must leave room for
    sequences_blocks_per_sm = schema.integer(1, 8),     -- forward: blocks_per_sm of kernels that read lengths; else as many
    q_kept = schema.integer(0, 32),                     -- forward: mma steps of head_dim for which Q stays in registers
    strategy = schema.choice({ "fused", "split" }),     -- backward: dQ summed by key blocks in turn, or in a kernel of its own
    -- forward: any rows of queries in one canonical order, of every kind of sequences and in pages
    -- (gen/families/sm80_step.lua)
    step = schema.flag(),
    span = schema.integer(16, 1 << 20, 16),             -- step: keys of the first spans
    -- step: against a cache the plan takes it before other rows, from so many rows of a key head to so many queries
    cache_from = schema.integer(1, 1 << 30),
    cache_up_to = schema.integer(1, 1 << 30),
    kv_kept = schema.integer(0, 32),                    -- backward: mma steps of head_dim for which K's or V's fragments stay in registers
    part_m = schema.integer(16, 64, 16),                -- backward: queries whose scores a warp holds at a time
    stages = schema.integer(1, 6),                      -- backward: of Q and dO; with 3, warps that make P are a step ahead. Decode: of K and V
    chunk_steps = schema.integer(1, 8),                 -- decode: steps whose results are folded before those of other chunks
    queries_up_to = schema.integer(1, 1 << 30),         -- decode: how many queries it is taken for
    d_split = schema.integer(1, 2),                     -- warps that share the columns of O; backward: of dV, and of dK
    dq_row_tiles = schema.integer(1, 4),                -- fused: groups of 16 queries of dQ that a warp makes
    part_heads = schema.integer(0, 1 << 30),            -- fused: query heads of a block, where a key head has more; 0: always all
    parts_from = schema.integer(0, 1 << 30),            -- fused: the least queries that see a key, on average, for which it is so; with fewer, more
    dq_m = schema.integer(16, 128, 16),                 -- split: queries a block of the kernel for dQ
    dq_n = schema.integer(16, 128, 16),                 -- split: keys a step of it
    dq_warps = schema.integer(1, 16),                   -- split: warps of its block
    dq_blocks_per_sm = schema.integer(1, 8),            -- split: that its registers must leave room for
    math = schema.choice({ "tf32", "tf32x3" }),         -- f32 only: one tf32 product, or three for fp32-grade accuracy
    archs = arch_list,                                  -- only for these architectures
    padded_dim = schema.integer(16, 1024, 16),          -- head_dim in shared memory, with zeros, when not up to whole fragments only
    device_lengths = schema.flag(),                     -- forward, and backward of split tiles: one more of each kernel, for GLINT_LENGTHS_DEVICE;
                                                        -- the family's own unless it is said
    device_pages = schema.flag(),                       -- forward: a third one, for K and V in pages, where device_lengths is set, and one more
                                                        -- of ragged sequences, where device_ragged is; decode: one more
    device_ragged = schema.flag(),                      -- forward, decode, and backward of split tiles: one more of each kernel, for GLINT_LENGTHS_RAGGED
    max_logit = schema.flag(),                          -- forward and decode: writes the largest logit of a head, if a problem asks
    spills = schema.sentence(),                         -- allows register spills, and says why
  },
  match_fields = {},
  listed = { "archs", "up_to", "queries_up_to", "stages", "chunk_steps", "warps", "strategy", "step", "math", "padded_dim", "smem_bytes",
    "dq_m", "dq_warps", "dq_smem_bytes", "spills", "compress" },
}

-- A spec's list of architectures by their names, in the order of their table.
local function named(list)
  local archs = {}
  for i, arch in ipairs(list) do archs[i] = tostring(arch) end
  table.sort(archs, architectures.before)
  return archs
end

-- Forward with a tree and a bias by a tensor spills registers beyond, beside a softcap: 4 bytes at head_dim 192 on
-- sm_90, up to 40 at 256.
local TREE_AND_TENSOR = 128

-- ALiBi knows no tree.
function sm80.targets(config, key)
  local biased = key and key.mask and axes.field(key, "mask", "tree_bits") and axes.field(key, "bias", "biased")
  local goes = biased and axes.field(key, "bias", "bias_tensor") and (key.pass == "dec" or key.head_dim <= TREE_AND_TENSOR)
  return biased and not goes and {} or named(config.archs)
end

function sm80.target_name(arch) return "sm_" .. arch end

--- One variant a tile, compiled for each of the architectures `targets` that the tile does not leave out.
function sm80.variants(targets, tile)
  local archs, own = {}, tile.archs and named(tile.archs)
  for _, arch in ipairs(targets) do
    if not own or text.contains(own, arch) then archs[#archs + 1] = arch end
  end
  return #archs > 0 and { { archs = archs } } or {}
end

function sm80.covers(target) return target.archs end

--- The tiles of `key` beside those that it has in any case: where the spec says `step`, a step's.
function sm80.more(config, key)
  local tile = config.step and step.tile(key)
  return tile and { { tile = tile, origin = { kind = "proposed", timed = {} } } } or {}
end

function sm80.how(record)
  if is_step(record) then return step.how(record) end
  if record.pass == "dec" then
    local blocks = record.blocks_per_sm > 1 and ("b%d"):format(record.blocks_per_sm) or ""
    return ("sm80_s%d%s_m%dn%d"):format(record.stages, blocks, record.m, record.n)
  end
  local strategy = record.pass == "bwd" and record.strategy .. "_" or ""
  local math = record.math == "tf32x3" and "tf32x3_" or ""
  local heads = record.part_heads and record.part_heads ~= backward.PART_HEADS and ("h%d_"):format(record.part_heads) or ""
  return ("sm80_%s%s%sm%dn%d"):format(strategy, math, heads, record.m, record.n)
end

--- The fields that the right half of a name says, or nil when it is none of this family's.
function sm80.parse(how)
  local m, n = how:match("^sm80_[%w_]-m(%d+)n(%d+)$")
  return m and { m = tonumber(m), n = tonumber(n) }
end

-- A part of a block's shared memory: { what, bytes }.
local function tile(what, copies, rows, columns, bytes)
  local many = copies > 1 and copies .. " x " or ""
  return { ("%s %s%d x %d x %d"):format(what, many, rows, columns, bytes), copies * rows * columns * bytes }
end

local function sum(parts)
  local total, shown = 0, {}
  for i, part in ipairs(parts) do
    total, shown[i] = total + part[2], part[1]
  end
  return total, table.concat(shown, " + ")
end

local function total_of(name, parts)
  local total, shown = sum(parts)
  return { kernel = name, bytes = total, text = ("%s = %d"):format(shown, total) }
end

--- Shared memory of each kernel of a variant: a list of { kernel =, bytes =, text = the arithmetic }.
function sm80.smem(record)
  local m, n, d, bytes = record.m, record.n, record.padded_dim, record.dtype_bytes
  if record.pass == "dec" then return { total_of("dec", decode.parts(record, tile)) } end
  if is_step(record) then return { total_of("fwd", step.parts(record, tile)) } end
  if record.pass == "fwd" then -- O leaves through Q's room
    local parts = { tile("Q", 1, m, d, bytes), tile("K", STAGES, n, d, bytes), tile("V", STAGES, n, d, bytes) }
    if record.d_split > 1 then parts[4] = tile("P", 1, m, n, bytes) end
    if record.intervals then parts[#parts + 1] = tile("ranges", 1, m, 2, 4) end -- of keys, one a query
    return { total_of("fwd", parts) }
  end
  local all = {}
  for i, kernel in ipairs(backward.parts(record, tile)) do all[i] = total_of(kernel[1], kernel[2]) end
  return all
end

-- struct glint_gpu_launch, in launch order; the entry is the variant's symbol and a suffix.
local function launches(record)
  if record.pass == "dec" then return decode.launches(record) end
  if is_step(record) then return step.launches(record) end
  if record.pass == "bwd" then return backward.launches(record) end
  local all = {}
  for i, kernel in ipairs(record.kernels) do
    all[i] = { suffix = kernel.suffix, lengths = kernel.lengths, pages = kernel.pages, threads = record.threads,
      grid = "GLINT_GPU_QUERY_BLOCKS", rows = record.m,
      smem_bytes = record.smem[1].bytes + KEPT_BYTES[kernel.rows] + (kernel.keys == "paged" and KEYS_BYTES or 0) }
  end
  return all
end

--- Fills in everything that follows from the spec's fields. Makes no checks.
function sm80.complete(record)
  record.warps, record.blocks_per_sm = record.warps or 4, record.blocks_per_sm or (not is_step(record) and 1 or nil)
  record.math = record.math or (record.dtype == "f32" and "tf32" or nil)
  local whole = record.narrow and record.pass == "dec" and 2 * FRAGMENT or FRAGMENT -- of 8 bits: an ldmatrix has two fragments
  record.padded_dim = record.padded_dim or (record.head_dim + whole - 1) // whole * whole
  record.threads = 32 * record.warps
  local takes_lengths = record.pass == "fwd" or (record.pass == "bwd" and record.strategy == "split")
  record.device_lengths = takes_lengths and record.device_lengths or false
  record.device_ragged = (takes_lengths or record.pass == "dec") and record.device_ragged or false
  local finds_pages = record.pass == "dec" or (record.pass == "fwd" and record.device_lengths)
  record.device_pages = finds_pages and record.device_pages or false
  record.max_logit = record.pass ~= "bwd" and not (is_step(record) and not step.has_logit(record)) and record.max_logit or false
  if is_step(record) then
    step.complete(record, backward.page_chunks)
  elseif record.pass == "fwd" then
    record.q_kept, record.d_split = record.q_kept or 0, record.d_split or 1
    record.page_chunks = backward.page_chunks(record)
    record.strategy_id = "GLINT_GPU_FORWARD"
  elseif record.pass == "dec" then
    decode.complete(record)
  else
    backward.complete(record)
  end
  record.block_keys = record.intervals and record.pass == "bwd" and 1 or nil
  record.smem = sm80.smem(record)
  local dq_alone = record.pass == "bwd" and record.strategy == "split" -- another tile's strategy is a mistake, which check() says
  record.smem_bytes, record.dq_smem_bytes = record.smem[1].bytes, dq_alone and record.smem[2].bytes or nil
  record.bias_smem_bytes = record.bias_tile and record.smem[#record.smem].bytes
  record.kept_at = backward.behind(record.smem_bytes)
  record.alignment_bytes = 16
  record.reads_lengths = record.pass == "dec"
  local calls = is_step(record) and { "glint_gpu_step", "glint_gpu_biased_step" } or { "glint_gpu_call", "glint_gpu_biased_call" }
  record.call_type = calls[record.bias_tensor and 2 or 1] -- of forward and backward kernels
  record.call_of = record.bias_tensor and "p.base" or "p"
  record.kernels = gpu.kernels(record)
  record.launches = launches(record)
end

function sm80.takes(record)
  local set = (is_step(record) and step or gpu).takes(record)
  set.max_logit = record.max_logit or nil
  return set
end

--- Whether `key` has tiles that no spec asks for: forward over 8 bits has a step's alone.
function sm80.proposes(key) return key.kv_dtype == "same" or key.pass ~= "fwd" end

--- The list of measured tiles for `key`. Forward with a tree is for few queries, and its bits take registers.
function sm80.list(key) return key.pass == "fwd" and axes.field(key, "mask", "tree_bits") and "trees" or key.pass end

--- The tile of another head dim's, `line`, made to go with the head dim of `key`; nil when it cannot.
function sm80.adapt(line, key) return (key.pass == "dec" and decode or model).adapt(sm80, line, key) end

--- The next smaller tile than `than` for `key`, or nil: where that would spill with further kernels of the row.
function sm80.smaller(than, key) return key.pass ~= "dec" and model.smaller(sm80, than, key) or nil end

--- Whether a tile with `fields` goes with `key` on the architecture `target`, and should not spill.
function sm80.fits(key, fields, target) return (key.pass == "dec" and decode or model).fits(sm80, key, fields, target) end

--- The right half of the name that a tile with `fields` gives `key`.
function sm80.how_of(key, fields) return model.how_of(sm80, key, fields) end

--- Tiles for `key` on the architecture `target` that fit and should not spill, the one that should be fastest first: {
-- tile =, how = } each.
function sm80.candidates(key, target) return (key.pass == "dec" and decode or model).candidates(sm80, key, target) end

--- What the model says of a record, for explain.
function sm80.estimate(record)
  if is_step(record) then return step.describe(record) end
  return record.pass == "dec" and decode.estimate(record) or model.describe(record)
end

local ONLY_SPLIT = { "dq_m", "dq_n", "dq_warps", "dq_blocks_per_sm" }
local ONLY = { fwd = { "q_kept", "sequences_blocks_per_sm", "step" },
  bwd = { "strategy", "stages", "kv_kept", "part_m", "dq_row_tiles", "part_heads", "parts_from", "dq_m", "dq_n", "dq_warps",
    "dq_blocks_per_sm" },
  dec = { "stages", "chunk_steps", "queries_up_to" } }
local NOT_DEC = { "d_split" }
local CALLED = { fwd = "forward", bwd = "backward", dec = "decode" }

local STEPS = { "span", "cache_from", "cache_up_to" }

local function check_fields(record, report)
  for _, field in ipairs(STEPS) do
    if record[field] ~= nil then report(field, "is a step's", 'leave it out, or step = true') end
  end
  for _, other in ipairs({ "fwd", "bwd", "dec" }) do
    for _, field in ipairs(ONLY[other]) do
      if record[field] ~= nil and not text.contains(ONLY[record.pass], field) then
        report(field, ("a %s tile has none"):format(CALLED[record.pass]), ("leave it out, or move the tile to tiles.%s"):format(other))
      end
    end
  end
  if record.pass == "dec" then
    for _, field in ipairs(NOT_DEC) do
      if record[field] ~= nil then report(field, "a decode tile has none", "leave it out") end
    end
  end
  if record.pass == "bwd" and record.strategy == "fused" then
    for _, field in ipairs(ONLY_SPLIT) do
      if record[field] ~= nil then report(field, "a fused tile has no kernel for dQ alone", 'strategy = "split", or leave it out') end
    end
  elseif record.pass == "bwd" then
    if record.dq_row_tiles ~= nil then
      report("dq_row_tiles", "dQ is not made by key blocks when the strategy is split", 'strategy = "fused", or leave it out')
    end
    for _, field in ipairs({ "part_heads", "parts_from" }) do
      if record[field] ~= nil then
        report(field, "the blocks of a split tile take all query heads of a key head", 'strategy = "fused", or leave it out')
      end
    end
  end
  if record.math and record.dtype ~= "f32" then
    report("math", record.dtype .. " has one kind of product", 'leave it out, or give the tile dtypes = { "f32" }')
  end
end

local function check_forward(record, report)
  local warps, split = record.warps, record.d_split
  local rows, steps = FRAGMENT * warps // split, record.padded_dim * record.dtype_bytes // 32
  local chunks = record.padded_dim * record.dtype_bytes // 16
  if warps % split ~= 0 then
    report("warps", ("%d warps are not whole groups of %d that share queries"):format(warps, split), ("a multiple of %d"):format(split))
    return
  end
  if record.m % rows ~= 0 then
    report("m", ("%d queries are not whole groups of %d = %d warps x %d rows"):format(record.m, rows, warps // split, FRAGMENT),
      ("a multiple of %d, or other warps"):format(rows))
  end
  if record.n % (FRAGMENT * split) ~= 0 then
    report("n", ("%d keys do not go evenly over %d warps, %d at a time"):format(record.n, split, FRAGMENT),
      ("a multiple of %d"):format(FRAGMENT * split))
  end
  if record.q_kept > steps then
    report("q_kept", ("head_dim %d has %d mma steps"):format(record.head_dim, steps), ("0 to %d"):format(steps))
  end
  if split == 2 and record.dtype == "f32" then
    report("d_split", "it is for 16-bit dtypes", "1")
  elseif chunks % (2 * split) ~= 0 then
    report("d_split", ("head_dim %d does not halve into whole fragments"):format(record.head_dim), "1")
  end
  if record.threads % (8 * backward.page_chunks(record)) ~= 0 then -- of a page's rows, the threads copy a multiple of 8 at a time
    report("warps", ("%d threads do not copy whole groups of 8 rows of %d bytes"):format(record.threads, 16 * backward.page_chunks(record)),
      "an even number")
  end
end

--- K and V of 8 bits are read in bf16 alone, by decode and by a step.
function sm80.lacks(key)
  return key.narrow and (key.dtype ~= "bf16" or key.pass == "bwd" or key.pass == "fwd" and not step.tile(key))
end

--- The limits; report(field, wrong, right) for each that is broken.
function sm80.check(record, report)
  if is_step(record) then
    step.check(record, report)
  else
    check_fields(record, report)
  end
  if #record.launches > gpu.most_launches then
    report("device_ragged", ("with a bias the tile has %d kernels, and a variant has %d at most"):format(#record.launches, gpu.most_launches),
      'device_ragged = false or device_lengths = false, or strategy = "fused"')
  end
  if record.padded_dim < record.head_dim then
    report("padded_dim", ("%d has no room for head_dim %d"):format(record.padded_dim, record.head_dim), "leave it out, or more")
  end
  if record.pass ~= "dec" and record.m % FRAGMENT ~= 0 then
    local below = record.m // FRAGMENT * FRAGMENT
    report("m", ("%d queries are not whole fragments of %d"):format(record.m, FRAGMENT),
      below > 0 and ("%d or %d"):format(below, below + FRAGMENT) or tostring(FRAGMENT))
  elseif record.pass == "fwd" then
    if not is_step(record) then
      if record.narrow then report("step", "decode and a step alone read K and V of 8 bits", "step = true") end
      if record.tree_bits and record.bias_tensor and record.head_dim > TREE_AND_TENSOR then
        report("head_dim", "forward with a tree and a bias by a tensor would spill registers", "up to " .. TREE_AND_TENSOR)
      end
      check_forward(record, report)
    end
  elseif record.pass == "bwd" then
    backward.check(record, report)
  else
    decode.check(record, report)
  end
  local of_pages = (not record.device_pages or is_step(record)) and 0 or record.pass == "dec" and decode.runs_bytes(record) or KEYS_BYTES
  local by_lengths = (record.device_lengths and not is_step(record) and (record.pass == "bwd" and TILE_BYTES or MASK_BYTES) or 0) + of_pages
  local by_ragged = record.device_ragged and not is_step(record) and TILE_BYTES + (record.pass == "fwd" and of_pages or 0) or 0
  local kept = math.max(by_lengths, by_ragged)
  for _, kernel in ipairs(record.smem) do
    for _, arch in ipairs(record.archs) do
      if backward.behind(kernel.bytes) + kept > smem_limit(arch) then
        report("tile", ("at head_dim %d the %s kernel needs %s bytes of shared memory, and a block on sm_%s has %d"):format(
          record.head_dim, kernel.kernel, kernel.text, arch, smem_limit(arch)),
          "a smaller m or n, or archs = { ... } without it")
      end
    end
  end
end

--- Lines for the header of an emitted kernel and for explain.
function sm80.describe(record)
  local archs = {}
  for i, arch in ipairs(record.archs) do archs[i] = sm80.target_name(arch) end
  if record.pass == "dec" then return { ("For %s."):format(table.concat(archs, ", ")), table.unpack(decode.describe(record)) } end
  if is_step(record) then
    return { ("For %s."):format(table.concat(archs, ", ")), step.describe(record),
      ("Shared memory of a block: %d bytes."):format(record.smem_bytes) }
  end
  local how = record.strategy and record.strategy .. ", " or ""
  if record.math then how = how .. record.math .. " products, " end
  local lines = {
    ("For %s."):format(table.concat(archs, ", ")),
    ("Tile: %d queries x %d keys; %s%d warps, %d block%s a multiprocessor."):format(record.tile_m, record.tile_n, how, record.warps,
      record.blocks_per_sm, record.blocks_per_sm > 1 and "s" or ""),
    ("Shared memory of a block: %d bytes."):format(record.smem_bytes),
  }
  if record.device_lengths then
    lines[#lines + 1] = record.pass == "bwd" and "Others read the lengths of the sequences." or "A second kernel reads the lengths of the sequences."
  end
  if record.device_pages then lines[#lines + 1] = "A third one finds K and V in pages." end
  if record.device_ragged then lines[#lines + 1] = record.pass == "bwd" and "Others take ragged sequences." or "Another one takes ragged sequences." end
  if record.device_ragged and record.device_pages then lines[#lines + 1] = "And one more of these finds K and V in pages." end
  if record.strategy == "fused" and record.part_heads > 0 then
    lines[#lines + 1] = ("A block takes %d query head%s of a key head's where %d or more queries see a key, %d from %d on and %d above %d."):format(
      record.part_heads, record.part_heads > 1 and "s" or "", record.parts_from, 2 * record.part_heads, record.parts_from // 8,
      8 * record.part_heads, record.parts_from // 32)
  end
  if record.strategy == "split" then
    lines[#lines + 1] = ("For dQ: %d queries x %d keys; %d warps, %d block%s a multiprocessor, %d bytes."):format(record.dq_m, record.dq_n,
      record.dq_warps, record.dq_blocks_per_sm, record.dq_blocks_per_sm > 1 and "s" or "", record.dq_smem_bytes)
  end
  return lines
end

--- The arithmetic of the budget, for explain.
function sm80.budget(record)
  local lines = {}
  for i, kernel in ipairs(record.smem) do lines[i] = ("shared memory of %s, bytes: %s"):format(kernel.kernel, kernel.text) end
  local most = math.max(record.smem_bytes, record.dq_smem_bytes or 0)
  for _, arch in ipairs(record.archs) do
    local limit = smem_limit(arch)
    lines[#lines + 1] = ("sm_%s: %d of %d bytes, %.0f %%"):format(arch, most, limit, 100 * most / limit)
  end
  return lines
end

--- The budget in a few words, for lists.
function sm80.size(record)
  return text.bytes(record.smem_bytes) .. " shared"
end

--- The table row's columns that depend on the family.
function sm80.row(record)
  local math = "GLINT_MATH_" .. (record.math or "native"):upper()
  return { isa = 0, sm = architectures.get(record.archs[1]).number, math = math, up_to = record.up_to, queries_up_to = record.queries_up_to,
    cache_from = record.cache_from, cache_up_to = record.cache_up_to, alignment_bytes = record.alignment_bytes }
end

return sm80
