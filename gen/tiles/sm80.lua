-- The sm80 family's tiles that were chosen by measurement, by pass and head dim: what a variant is made with unless
-- the spec has `tiles` of its own. A head dim that is not here gets the tiles of the next one that is (gen/tiles.lua).
-- A line is a tile as a spec writes it (gen/families/sm80.lua says what each field is), with `why`, a reason that
-- `explain` prints, `measured`, when and on what, if not as said below: a text for all of its archs, or {} where
-- nothing was timed, and `spills_with`: fields of the family with which a spec gets a smaller tile, by the model.
--
-- Two laws. Every line compiles without register spills for each of its archs: the build sees to that. And only sm_90
-- was timed: on the others a line is what fits and does not spill. No window was timed (the mask "band").
-- bench/results/sm80_notes.md has what else was tried, and by how much it lost. `./bazelw run //bench:tune` measures
-- candidates and prints lines for this file.
local HALF, BF16, F32 = { "f16", "bf16" }, { "bf16" }, { "f32" }
local SAME, NARROW = { "same" }, { "i8", "e4m3" } -- K and V: as Q; of 8 bits
local NONE, CAUSAL, MASKED = { "none" }, { "causal" }, { "causal", "band", "interval" }
local PLAIN, CAPPED = { "none" }, { "softcap" } -- a cap on the scores takes a few registers more, and was not timed either
-- Without a first key; with one, which takes a few registers more. Intervals, which were not timed, have a window's
-- tiles.
local UNBOUNDED, WINDOW = { "none", "causal" }, { "band", "interval" }
-- A bias takes a few registers more, too, and was not timed. A tensor's elements take as many as the scores: lines that
-- do not say that they are for it are not, and the model proposes its tiles.
local UNBIASED, BIASED, TENSOR, NOT_TENSOR = { "none" }, { "alibi" }, { "tensor" }, { "none", "alibi" }
local BAND, INTERVAL, NOT_INTERVAL = { "band" }, { "interval" }, { "none", "causal", "band" }

-- Shared memory of a block comes in three classes (gen/archs.lua): 227, 163 and 99 KiB.
local KIB_227, KIB_163, KIB_99 = { "90", "100", "110" }, { "80", "87" }, { "86", "89", "120" }
local ALL = { "80", "86", "87", "89", "90", "100", "110", "120" }
local FROM_163 = { "80", "87", "90", "100", "110" }
local DECODE = { ["90"] = "2026-11-22 on an NVIDIA H200" }
local BEFORE_100 = { "80", "86", "87", "89", "90" } -- SASS of sm_100 and later needs a few registers more

local data = {
  -- When and on what the lines were timed, by architecture.
  measured = { ["90"] = "2026-11-21 on an NVIDIA H200" },

  -- 32 queries a warp read half as much of K and V from shared memory as 16; at 192 and 256 two warps share 32
  -- queries, each with half of the columns of O (d_split).
  fwd = {
    [32] = {
      { dtypes = HALF, m = 64, n = 64, warps = 4, blocks_per_sm = 4, q_kept = 2, biases = TENSOR, softcaps = PLAIN, masks = NOT_INTERVAL,
        measured = {} },
      { dtypes = HALF, m = 64, n = 64, warps = 4, blocks_per_sm = 3, q_kept = 2, biases = TENSOR, softcaps = CAPPED, measured = {},
        why = "of four blocks kernels would spill registers" },
      { dtypes = HALF, m = 64, n = 64, warps = 4, blocks_per_sm = 3, q_kept = 2, biases = TENSOR, softcaps = PLAIN, masks = INTERVAL, measured = {},
        why = "of four blocks kernels would spill registers" },
      { dtypes = HALF, m = 64, n = 64, warps = 2, blocks_per_sm = 5, q_kept = 2, archs = { "90" }, masks = UNBOUNDED },
      { dtypes = HALF, m = 64, n = 64, warps = 2, blocks_per_sm = 5, sequences_blocks_per_sm = 4, q_kept = 2, archs = { "90" }, masks = BAND,
        why = "of five blocks the kernel for ragged sequences would spill registers" },
      { dtypes = HALF, m = 64, n = 64, warps = 2, blocks_per_sm = 4, q_kept = 2, archs = { "90" }, masks = INTERVAL,
        why = "of five blocks kernels would spill registers" },
      { dtypes = HALF, m = 64, n = 32, warps = 2, blocks_per_sm = 5, q_kept = 2, archs = { "80", "86", "87", "89", "100", "110", "120" } },
      { dtypes = F32, m = 128, n = 32, warps = 4 },
    },
    [64] = {
      { dtypes = HALF, m = 64, n = 64, warps = 4, blocks_per_sm = 2, q_kept = 4, biases = TENSOR, measured = {} },
      { dtypes = HALF, m = 128, n = 64, warps = 4, blocks_per_sm = 2, q_kept = 4, masks = NONE },
      { dtypes = HALF, m = 128, n = 80, warps = 4, blocks_per_sm = 2, q_kept = 4, masks = MASKED, softcaps = PLAIN,
        why = "3 % faster than 64 keys with a mask" },
      { dtypes = HALF, m = 128, n = 80, warps = 4, blocks_per_sm = 2, q_kept = 4, masks = { "causal", "interval" }, softcaps = CAPPED,
        why = "as without a cap" },
      { dtypes = HALF, m = 128, n = 80, warps = 4, blocks_per_sm = 2, q_kept = 4, masks = BAND, softcaps = CAPPED, archs = ALL,
        spills_with = { "max_logit" }, why = "as without a cap" },
      { dtypes = HALF, m = 64, n = 32, warps = 2, blocks_per_sm = 6, sequences_blocks_per_sm = 4, q_kept = 4, softcaps = PLAIN, biases = UNBIASED,
        masks = CAUSAL, up_to = 1024, archs = BEFORE_100,
        why = "short sequences with a mask: less is hidden, and of six small blocks one begins or ends while others compute. "
          .. "Of more than four blocks the kernels that read lengths would spill registers, and of six those with ALiBi" },
      { dtypes = F32, m = 128, n = 32, warps = 4, blocks_per_sm = 2, q_kept = 8 },
      { dtypes = F32, m = 128, n = 32, warps = 4, math = "tf32x3" },
    },
    [96] = {
      { dtypes = HALF, m = 128, n = 64, warps = 4, blocks_per_sm = 2, q_kept = 1, masks = UNBOUNDED },
      { dtypes = HALF, m = 128, n = 64, warps = 4, blocks_per_sm = 2, q_kept = 1, masks = WINDOW, archs = { "80", "86", "87", "89", "90", "120" } },
      { dtypes = HALF, m = 128, n = 48, warps = 4, blocks_per_sm = 2, masks = WINDOW, archs = { "100", "110" }, why = "64 keys spill registers there" },
      { dtypes = F32, m = 128, n = 32, warps = 4 },
    },
    [128] = {
      { dtypes = HALF, m = 128, n = 64, warps = 4, blocks_per_sm = 2, q_kept = 1, softcaps = PLAIN, biases = UNBIASED, masks = UNBOUNDED,
        archs = BEFORE_100 },
      { dtypes = HALF, m = 128, n = 64, warps = 4, blocks_per_sm = 2, q_kept = 1, softcaps = PLAIN, biases = UNBIASED, masks = BAND,
        archs = { "80", "90" } },
      { dtypes = HALF, m = 128, n = 48, warps = 4, blocks_per_sm = 2, softcaps = PLAIN, biases = UNBIASED, masks = INTERVAL, archs = ALL,
        spills_with = { "device_pages" }, why = "64 keys spill registers" },
      { dtypes = HALF, m = 128, n = 48, warps = 4, blocks_per_sm = 2, softcaps = PLAIN, biases = UNBIASED, masks = BAND,
        archs = { "86", "87", "89", "100", "110", "120" }, why = "64 keys spill registers there" },
      { dtypes = HALF, m = 128, n = 48, warps = 4, blocks_per_sm = 2, softcaps = PLAIN, biases = UNBIASED, masks = UNBOUNDED,
        archs = { "100", "110", "120" }, why = "64 keys spill registers there" },
      { dtypes = HALF, m = 128, n = 32, warps = 4, blocks_per_sm = 2, softcaps = CAPPED, why = "48 and 64 keys spill registers on sm_90" },
      { dtypes = HALF, m = 128, n = 32, warps = 4, blocks_per_sm = 2, softcaps = PLAIN, biases = BIASED, why = "48 and 64 keys spill registers" },
      { dtypes = F32, m = 256, n = 48, warps = 8, archs = { "90" }, softcaps = PLAIN, masks = NOT_INTERVAL,
        why = "20 % faster than 128 queries; spills registers on sm_100 and 110" },
      { dtypes = F32, m = 256, n = 32, warps = 8, archs = { "90" }, softcaps = PLAIN, masks = INTERVAL, why = "48 keys spill registers" },
      { dtypes = F32, m = 256, n = 48, warps = 8, archs = { "90" }, softcaps = CAPPED, spills_with = { "device_ragged" }, why = "as without a cap" },
      { dtypes = F32, m = 128, n = 32, warps = 4, archs = { "80", "87", "100", "110" } },
      { dtypes = F32, m = 64, n = 32, warps = 4, archs = KIB_99 },
      { dtypes = F32, m = 64, n = 32, warps = 4, math = "tf32x3" },
    },
    [192] = {
      { dtypes = HALF, m = 128, n = 96, warps = 8, d_split = 2, archs = { "90" }, why = "spills registers on sm_100 and 110" },
      { dtypes = HALF, m = 128, n = 64, warps = 8, d_split = 2, q_kept = 2, archs = KIB_227, up_to = 512 },
      { dtypes = HALF, m = 128, n = 32, warps = 8, archs = { "80", "87", "100", "110" } },
      { dtypes = HALF, m = 64, n = 32, warps = 4, archs = KIB_99 },
      { dtypes = F32, m = 64, n = 16, warps = 4 },
    },
    [256] = {
      { dtypes = HALF, m = 128, n = 64, warps = 8, d_split = 2, q_kept = 1, masks = UNBOUNDED, archs = { "90" },
        spills_with = { "max_logit" } },
      { dtypes = HALF, m = 128, n = 64, warps = 8, d_split = 2, masks = BAND, archs = { "90" }, spills_with = { "max_logit" } },
      { dtypes = HALF, m = 128, n = 32, warps = 8, q_kept = 8, masks = NOT_INTERVAL, archs = { "80", "87", "100", "110" } },
      { dtypes = HALF, m = 128, n = 32, warps = 8, q_kept = 8, masks = INTERVAL, archs = FROM_163, why = "64 keys spill registers" },
      { dtypes = HALF, m = 64, n = 32, warps = 4, archs = KIB_99 },
      { dtypes = F32, m = 64, n = 16, warps = 4, archs = FROM_163 },
      { dtypes = F32, m = 32, n = 16, warps = 2, archs = KIB_99 },
    },
  },

  -- Forward, with a tree of new tokens: few queries. Nothing was timed.
  trees = {
    [128] = {
      { dtypes = HALF, m = 64, n = 64, warps = 4, measured = {} },
      { dtypes = F32, m = 64, n = 32, warps = 4, measured = {} },
      { dtypes = F32, m = 64, n = 32, warps = 4, math = "tf32x3", measured = {} },
    },
    [256] = {
      { dtypes = HALF, m = 64, n = 32, warps = 4, measured = {} },
      { dtypes = F32, m = 32, n = 16, warps = 2, measured = {} },
    },
  },

  -- Decode: bench/results/decode_notes.md. Steps of 32 KB of K, as larger steps have fewer waits; as many stages as
  -- fit. Of 8 bits two blocks share a multiprocessor: a warp that is alone on its scheduler converts too slowly.
  dec = {
    [64] = {
      { dtypes = HALF, kv_dtypes = SAME, m = 8, n = 256, stages = 3, chunk_steps = 4, archs = KIB_227, measured = DECODE },
      { dtypes = HALF, kv_dtypes = SAME, m = 8, n = 256, stages = 2, chunk_steps = 4, archs = KIB_163 },
      { dtypes = HALF, kv_dtypes = SAME, m = 8, n = 128, stages = 2, chunk_steps = 8, archs = KIB_99 },
      { dtypes = BF16, kv_dtypes = NARROW, m = 8, n = 256, stages = 3, chunk_steps = 4, blocks_per_sm = 2, archs = KIB_227, measured = {} },
      { dtypes = BF16, kv_dtypes = NARROW, m = 8, n = 256, stages = 4, chunk_steps = 4, archs = KIB_163 },
      { dtypes = BF16, kv_dtypes = NARROW, m = 8, n = 256, stages = 2, chunk_steps = 4, archs = KIB_99 },
    },
    [96] = {
      { dtypes = HALF, kv_dtypes = SAME, m = 8, n = 64, stages = 6, chunk_steps = 8, archs = FROM_163, measured = {} },
      { dtypes = HALF, kv_dtypes = SAME, m = 8, n = 64, stages = 3, chunk_steps = 8, archs = KIB_99 },
      { dtypes = BF16, kv_dtypes = NARROW, m = 8, n = 128, stages = 4, chunk_steps = 4, blocks_per_sm = 2, archs = KIB_227, measured = {} },
      { dtypes = BF16, kv_dtypes = NARROW, m = 8, n = 128, stages = 5, chunk_steps = 4, archs = KIB_163 },
      { dtypes = BF16, kv_dtypes = NARROW, m = 8, n = 128, stages = 3, chunk_steps = 4, archs = KIB_99 },
    },
    [128] = {
      { dtypes = HALF, kv_dtypes = SAME, m = 8, n = 128, stages = 3, chunk_steps = 4, archs = KIB_227, measured = DECODE },
      { dtypes = HALF, kv_dtypes = SAME, m = 8, n = 128, stages = 2, chunk_steps = 4, archs = KIB_163 },
      { dtypes = HALF, kv_dtypes = SAME, m = 8, n = 64, stages = 2, chunk_steps = 8, archs = KIB_99 },
      { dtypes = BF16, kv_dtypes = NARROW, m = 8, n = 128, stages = 3, chunk_steps = 8, blocks_per_sm = 2, archs = KIB_227, measured = {} },
      { dtypes = BF16, kv_dtypes = NARROW, m = 8, n = 256, stages = 2, chunk_steps = 4, archs = KIB_163 },
      { dtypes = BF16, kv_dtypes = NARROW, m = 8, n = 128, stages = 2, chunk_steps = 4, archs = KIB_99 },
    },
    [256] = {
      { dtypes = HALF, kv_dtypes = SAME, m = 8, n = 64, stages = 3, chunk_steps = 8, archs = KIB_227, measured = DECODE },
      { dtypes = HALF, kv_dtypes = SAME, m = 8, n = 64, stages = 2, chunk_steps = 8, archs = KIB_163 },
      { dtypes = HALF, kv_dtypes = SAME, m = 8, n = 64, stages = 1, chunk_steps = 8, archs = KIB_99, why = "two stages do not fit" },
      { dtypes = BF16, kv_dtypes = { "i8" }, m = 8, n = 128, stages = 3, chunk_steps = 4, archs = { "90" }, measured = {} },
      { dtypes = BF16, kv_dtypes = { "e4m3" }, m = 8, n = 64, stages = 2, chunk_steps = 8, blocks_per_sm = 2, archs = { "90" }, measured = {} },
      { dtypes = BF16, kv_dtypes = NARROW, m = 8, n = 64, stages = 5, chunk_steps = 8, archs = { "100", "110" },
        why = "128 keys of e4m3 spill a register there" },
      { dtypes = BF16, kv_dtypes = NARROW, m = 8, n = 128, stages = 2, chunk_steps = 4, archs = KIB_163 },
      { dtypes = BF16, kv_dtypes = NARROW, m = 8, n = 64, stages = 2, chunk_steps = 8, archs = KIB_99 },
    },
  },

  -- Two strategies. "fused" goes over key blocks once; dQ is summed in float32 by one key block after another, in
  -- order. "split" makes P and dS a second time for dQ, and no block waits for another: with 128 queries of 8192 keys
  -- it takes a third (head_dim 64) to a tenth (256) of fused's time. Its up_to is the longest of 128, 256, ... at
  -- which it was ahead. Both give the same bits every time. 32 keys for a pair of warps, 64 where the accumulators
  -- allow: each fragment read feeds 2 to 4 products.
  bwd = {
    [32] = {
      { dtypes = HALF, m = 64, n = 64, warps = 4, blocks_per_sm = 3, part_m = 32, biases = TENSOR, measured = {} },
      { dtypes = HALF, m = 64, n = 128, warps = 4, blocks_per_sm = 2, part_m = 32, dq_row_tiles = 1 },
      { dtypes = F32, m = 32, n = 64, warps = 4, blocks_per_sm = 2 },
    },
    [64] = {
      { dtypes = HALF, m = 64, n = 64, warps = 4, blocks_per_sm = 2, part_m = 32, biases = TENSOR, measured = {} },
      { dtypes = HALF, softcaps = PLAIN, strategy = "split", m = 64, n = 128, warps = 4, blocks_per_sm = 2, part_m = 32,
        dq_m = 128, dq_n = 64, dq_warps = 4, dq_blocks_per_sm = 2, masks = UNBOUNDED, archs = { "80", "86", "87", "89", "90", "100", "110" },
        up_to = 128 },
      { dtypes = HALF, softcaps = PLAIN, strategy = "split", m = 64, n = 128, warps = 4, blocks_per_sm = 2, part_m = 32,
        dq_m = 128, dq_n = 64, dq_warps = 4, dq_blocks_per_sm = 2, masks = WINDOW, archs = BEFORE_100, up_to = 128 },
      { dtypes = HALF, softcaps = PLAIN, strategy = "split", m = 32, n = 128, warps = 4, blocks_per_sm = 2, part_m = 32,
        dq_m = 64, dq_n = 64, dq_warps = 4, dq_blocks_per_sm = 2, masks = UNBOUNDED, archs = { "120" }, up_to = 128,
        why = "128 queries of dQ spill a register there" },
      { dtypes = HALF, softcaps = PLAIN, strategy = "split", m = 32, n = 128, warps = 4, blocks_per_sm = 2, part_m = 32,
        dq_m = 64, dq_n = 64, dq_warps = 4, dq_blocks_per_sm = 2, masks = WINDOW, archs = { "100", "110", "120" }, up_to = 128,
        why = "128 queries of dQ spill a register there" },
      { dtypes = HALF, softcaps = CAPPED, strategy = "split", m = 64, n = 128, warps = 4, blocks_per_sm = 2, part_m = 16,
        dq_m = 64, dq_n = 64, dq_warps = 4, dq_blocks_per_sm = 2, up_to = 128, why = "parts of 32 queries spill registers on sm_100" },
      { dtypes = F32, strategy = "split", m = 32, n = 64, warps = 4, blocks_per_sm = 2, kv_kept = 8,
        dq_m = 64, dq_n = 32, dq_warps = 4, dq_blocks_per_sm = 2, up_to = 128 },
      { dtypes = HALF, softcaps = PLAIN, m = 64, n = 256, warps = 8, stages = 3, part_m = 32, dq_row_tiles = 2, archs = KIB_227 },
      { dtypes = HALF, softcaps = PLAIN, m = 64, n = 128, warps = 4, blocks_per_sm = 2, part_m = 32, dq_row_tiles = 2, up_to = 2048,
        why = "two blocks share a multiprocessor: at 512, 1024, 2048 and from 4096 keys on 3, 2, 1 and -1 % faster than 256 keys, and with a "
          .. "mask 20, 9, 0 and -1 %" },
      { dtypes = HALF, softcaps = CAPPED, m = 64, n = 256, warps = 8, stages = 3, part_m = 16, dq_row_tiles = 2, archs = KIB_227,
        why = "parts of 32 queries spill registers" },
      { dtypes = HALF, softcaps = CAPPED, m = 64, n = 128, warps = 4, blocks_per_sm = 2, part_m = 16, dq_row_tiles = 2,
        archs = { "80", "86", "87", "89" }, why = "parts of 32 queries spill registers" },
      { dtypes = HALF, softcaps = CAPPED, m = 32, n = 64, warps = 4, dq_row_tiles = 2, archs = { "120" }, why = "128 keys spill registers" },
      { dtypes = F32, m = 32, n = 64, warps = 4, blocks_per_sm = 2, kv_kept = 8 },
      { dtypes = F32, m = 32, n = 64, warps = 4, math = "tf32x3" },
    },
    [96] = {
      { dtypes = HALF, m = 64, n = 128, warps = 8, archs = FROM_163, why = "two warps for each scheduler: 15 % faster than 6 warps over 96 keys" },
      { dtypes = HALF, m = 64, n = 64, warps = 4, archs = KIB_99 },
      { dtypes = F32, m = 32, n = 96, warps = 6, archs = FROM_163 },
      { dtypes = F32, m = 32, n = 32, warps = 2, archs = KIB_99 },
    },
    [128] = {
      { dtypes = HALF, strategy = "split", m = 64, n = 128, warps = 8, stages = 3, dq_m = 128, dq_n = 32, dq_warps = 4, masks = UNBOUNDED,
        softcaps = PLAIN, archs = { "90" }, up_to = 128, why = "warps that make P a step ahead: 5 to 7 % here, nothing for fused" },
      { dtypes = HALF, strategy = "split", m = 64, n = 128, warps = 8, stages = 3, dq_m = 128, dq_n = 32, dq_warps = 4, masks = UNBOUNDED,
        softcaps = CAPPED, archs = { "90" }, up_to = 128, spills_with = { "device_lengths", "device_ragged" } },
      { dtypes = HALF, strategy = "split", m = 32, n = 128, warps = 8, dq_m = 64, dq_n = 32, dq_warps = 4, masks = UNBOUNDED,
        archs = { "100", "110" }, up_to = 128, why = "64 queries spill registers there" },
      { dtypes = HALF, strategy = "split", m = 32, n = 128, warps = 8, dq_m = 64, dq_n = 32, dq_warps = 4, masks = WINDOW, archs = KIB_227,
        up_to = 128, why = "64 queries spill registers there" },
      { dtypes = HALF, strategy = "split", m = 32, n = 64, warps = 4, dq_m = 128, dq_n = 32, dq_warps = 4, archs = { "80", "86", "87", "89" },
        up_to = 128 },
      { dtypes = HALF, strategy = "split", m = 16, n = 64, warps = 4, dq_m = 64, dq_n = 32, dq_warps = 4, archs = { "120" }, up_to = 128 },
      { dtypes = F32, strategy = "split", m = 32, n = 64, warps = 8, kv_kept = 16, dq_m = 64, dq_n = 16, dq_warps = 4, archs = FROM_163,
        up_to = 128 },
      { dtypes = F32, strategy = "split", m = 16, n = 32, warps = 4, dq_m = 64, dq_n = 16, dq_warps = 4, archs = KIB_99, up_to = 128 },
      { dtypes = HALF, softcaps = PLAIN, m = 64, n = 128, warps = 8, dq_row_tiles = 2, masks = CAUSAL, archs = { "80", "87", "90" } },
      { dtypes = HALF, softcaps = CAPPED, m = 64, n = 128, warps = 8, part_m = 32, dq_row_tiles = 2, masks = CAUSAL, archs = { "80", "87", "90" },
        why = "64 queries at a time spill registers" },
      { dtypes = HALF, softcaps = PLAIN, m = 64, n = 128, warps = 8, dq_row_tiles = 2, masks = WINDOW, archs = { "80", "87" } },
      { dtypes = HALF, softcaps = CAPPED, m = 64, n = 128, warps = 8, dq_row_tiles = 2, masks = BAND, archs = { "80", "87" } },
      { dtypes = HALF, softcaps = CAPPED, m = 64, n = 128, warps = 8, part_m = 32, dq_row_tiles = 2, masks = INTERVAL, archs = { "80", "87" },
        why = "64 queries at a time spill registers" },
      { dtypes = HALF, m = 64, n = 128, warps = 8, dq_row_tiles = 2, masks = NONE, archs = { "80", "90" } },
      { dtypes = HALF, m = 32, n = 128, warps = 8, dq_row_tiles = 2, masks = UNBOUNDED, archs = { "100", "110" }, why = "64 queries spill registers there" },
      { dtypes = HALF, m = 32, n = 128, warps = 8, dq_row_tiles = 2, masks = WINDOW, archs = KIB_227, why = "64 queries spill registers there" },
      { dtypes = HALF, softcaps = PLAIN, m = 32, n = 64, warps = 4, masks = NONE, archs = { "86", "87", "89", "120" },
        why = "128 keys spill a register on sm_87" },
      { dtypes = HALF, softcaps = CAPPED, m = 32, n = 64, warps = 4, part_m = 16, masks = NONE, archs = { "86", "87", "89", "120" },
        why = "32 queries at a time spill a register on sm_120" },
      { dtypes = HALF, m = 32, n = 64, warps = 4, masks = MASKED, archs = KIB_99 },
      { dtypes = F32, m = 32, n = 128, warps = 8, dq_row_tiles = 2, archs = KIB_227, why = "30 % faster than 64 keys" },
      { dtypes = F32, m = 32, n = 64, warps = 8, kv_kept = 16, dq_row_tiles = 2, archs = KIB_163 },
      { dtypes = F32, m = 16, n = 32, warps = 4, archs = KIB_99 },
      { dtypes = F32, m = 32, n = 64, warps = 8, dq_row_tiles = 2, math = "tf32x3", archs = FROM_163 },
      { dtypes = F32, m = 16, n = 32, warps = 4, math = "tf32x3", archs = KIB_99 },
    },
    [192] = {
      { dtypes = HALF, m = 64, n = 64, warps = 8, d_split = 2, archs = KIB_227,
        why = "32 keys for four warps: 11 % faster than 16 keys for two, in pages of 64 bytes, which halve" },
      { dtypes = HALF, m = 64, n = 48, warps = 6, dq_row_tiles = 2, archs = KIB_163 },
      { dtypes = HALF, m = 32, n = 16, warps = 2, archs = KIB_99 },
      { dtypes = F32, m = 16, n = 48, warps = 6, archs = FROM_163 },
      { dtypes = F32, m = 16, n = 16, warps = 2, archs = KIB_99 },
    },
    [256] = {
      { dtypes = HALF, strategy = "split", m = 64, n = 64, warps = 8, d_split = 2, dq_m = 128, dq_n = 32, dq_warps = 8, archs = KIB_227,
        masks = NONE, up_to = 256 },
      { dtypes = HALF, strategy = "split", m = 64, n = 64, warps = 8, d_split = 2, dq_m = 128, dq_n = 32, dq_warps = 8, archs = KIB_227,
        masks = MASKED, up_to = 1024 },
      { dtypes = HALF, strategy = "split", m = 32, n = 64, warps = 8, d_split = 2, dq_m = 64, dq_n = 32, dq_warps = 4, archs = KIB_163,
        up_to = 128 },
      { dtypes = HALF, strategy = "split", m = 32, n = 16, warps = 4, d_split = 2, dq_m = 32, dq_n = 16, dq_warps = 2, archs = KIB_99,
        up_to = 128 },
      { dtypes = HALF, softcaps = PLAIN, m = 64, n = 64, warps = 8, d_split = 2, dq_row_tiles = 2, masks = UNBOUNDED, archs = KIB_227 },
      { dtypes = HALF, softcaps = CAPPED, m = 64, n = 64, warps = 8, d_split = 2, dq_row_tiles = 2, masks = UNBOUNDED, archs = { "90" } },
      { dtypes = HALF, softcaps = CAPPED, m = 32, n = 64, warps = 8, d_split = 2, dq_row_tiles = 2, masks = UNBOUNDED,
        archs = { "80", "87", "100", "110" }, why = "64 queries spill registers on sm_100" },
      { dtypes = HALF, softcaps = PLAIN, m = 64, n = 64, warps = 8, d_split = 2, dq_row_tiles = 2, masks = WINDOW, archs = { "90", "110" } },
      { dtypes = HALF, softcaps = CAPPED, m = 64, n = 64, warps = 8, d_split = 2, dq_row_tiles = 2, masks = BAND, archs = { "90", "110" } },
      { dtypes = HALF, softcaps = CAPPED, m = 32, n = 64, warps = 8, d_split = 2, dq_row_tiles = 2, masks = INTERVAL, archs = FROM_163,
        why = "64 queries spill registers" },
      { dtypes = HALF, softcaps = PLAIN, m = 32, n = 64, warps = 8, d_split = 2, dq_row_tiles = 2, masks = UNBOUNDED, archs = KIB_163 },
      { dtypes = HALF, softcaps = PLAIN, m = 32, n = 64, warps = 8, d_split = 2, dq_row_tiles = 2, masks = WINDOW, archs = { "80", "87", "100" },
        why = "64 queries spill registers on sm_100" },
      { dtypes = HALF, softcaps = CAPPED, m = 32, n = 64, warps = 8, d_split = 2, dq_row_tiles = 2, masks = BAND, archs = { "80", "87", "100" },
        why = "64 queries spill registers on sm_100" },
      { dtypes = HALF, m = 32, n = 16, warps = 4, d_split = 2, archs = KIB_99 },
      { dtypes = F32, m = 16, n = 32, warps = 4, archs = FROM_163 },
      { dtypes = F32, m = 16, n = 16, warps = 2, archs = KIB_99 },
    },
  },
}

for _, pass in ipairs({ "fwd", "bwd" }) do
  for _, lines in pairs(data[pass]) do
    for _, line in ipairs(lines) do line.biases = line.biases or NOT_TENSOR end
  end
end

return data
