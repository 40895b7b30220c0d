-- The sm90a family's tiles, chosen by measurement: what a variant is made with unless the spec has `tiles` of its own.
-- gen/families/sm90a.lua says what each field is; bench/results/sm90a_notes.md has what else was tried, and by how
-- much it lost. Windows (the mask "band") were timed with these tiles alone, and a softcap was not: of 64 keys the
-- sides of a window hide the least, and with four stages and two Q no warpgroup waits for those whose windows end
-- elsewhere.
local HALF = { "f16", "bf16" }
local PLAIN, CAPPED = { "none" }, { "softcap" } -- a softcap takes some 16 registers more
local NO_BIAS, ALIBI, TENSOR = { "none" }, { "alibi" }, { "tensor" }
local NONE, CAUSAL, WINDOW, UNBOUNDED = { "none" }, { "causal" }, { "band" }, { "none", "causal" }
local INTERVAL, TWO_SIDES, NO_WINDOW = { "interval" }, { "band", "interval" }, { "none", "causal", "interval" }
local NOT_INTERVAL = { "none", "causal", "band" }

local data = {
  measured = { ["90a"] = "2026-11-22 on an NVIDIA H200" },

  fwd = {
    [32] = {
      { dtypes = HALF, m = 192, n = 128, turns = true, masks = NO_WINDOW, softcaps = PLAIN, biases = TENSOR },
      { dtypes = HALF, m = 128, n = 128, turns = true, up_to = 256, masks = NONE, softcaps = PLAIN, biases = TENSOR,
        why = "two whole tiles of 256 queries: 86 microseconds for 111 of triangle attention" },
      { dtypes = HALF, m = 128, n = 128, turns = true, masks = WINDOW, softcaps = PLAIN, biases = TENSOR,
        why = "192 queries spill 60 bytes" },
      { dtypes = HALF, m = 128, n = 128, turns = true, softcaps = CAPPED, biases = TENSOR, why = "192 queries spill, by 80 keys, too" },
    },
    [64] = {
      { dtypes = HALF, m = 192, n = 128, turns = true, dynamic = true, least = 97, masks = NONE, softcaps = PLAIN },
      { dtypes = HALF, m = 192, n = 128, turns = true, least = 33, masks = CAUSAL, softcaps = PLAIN },
      { dtypes = HALF, m = 64, n = 64, schedule = "short", blocks_per_sm = 4, both_up_to = 1024, least = 33, masks = CAUSAL,
        why = "short sequences with a mask: less is hidden, and of four small blocks one begins or ends while others compute" },
      { dtypes = HALF, m = 192, n = 128, turns = true, masks = INTERVAL, softcaps = PLAIN,
        why = "as without a mask: 12 % ahead of 64 keys" },
      { dtypes = HALF, m = 192, n = 64, q_slots = 2, stages = 4, registers = 152, masks = WINDOW },
      { dtypes = HALF, m = 192, n = 64, q_slots = 2, stages = 4, registers = 152, masks = NO_WINDOW, softcaps = CAPPED },
      { dtypes = HALF, m = 64, n = 64, schedule = "short", blocks_per_sm = 4, up_to = 1024, masks = TWO_SIDES },
      { dtypes = HALF, m = 192, n = 128, turns = true, masks = NOT_INTERVAL, softcaps = PLAIN, biases = TENSOR },
      { dtypes = HALF, m = 192, n = 112, turns = true, masks = INTERVAL, softcaps = PLAIN, biases = TENSOR,
        why = "128 keys spill 4 bytes" },
      { dtypes = HALF, m = 128, n = 80, turns = true, softcaps = CAPPED, biases = TENSOR, why = "192 queries spill, by 64 keys, too" },
    },
    [96] = {
      { dtypes = HALF, m = 192, n = 80, turns = true, softcaps = PLAIN, biases = TENSOR, why = "96 keys spill 20 bytes" },
      { dtypes = HALF, m = 128, n = 128, turns = true, softcaps = CAPPED, biases = TENSOR },
    },
    [128] = {
      { dtypes = HALF, m = 192, n = 80, turns = true, masks = UNBOUNDED, softcaps = PLAIN,
        why = "192 queries read K and V least often; 80 keys is what 160 registers hold" },
      { dtypes = HALF, m = 128, n = 128, q_slots = 2, up_to = 1024, masks = UNBOUNDED, softcaps = PLAIN,
        why = "4 to 9 % faster: 512 and 1024 are whole tiles" },
      { dtypes = HALF, m = 192, n = 64, q_slots = 2, stages = 4, masks = WINDOW },
      { dtypes = HALF, m = 128, n = 128, q_slots = 2, masks = INTERVAL, why = "5 % ahead of 192 queries by 80 keys" },
      { dtypes = HALF, m = 192, n = 64, q_slots = 2, stages = 4, masks = UNBOUNDED, softcaps = CAPPED },
      { dtypes = HALF, m = 192, n = 80, turns = true, softcaps = PLAIN, biases = TENSOR, why = "128 keys leave no room for the bias" },
      { dtypes = HALF, m = 128, n = 64, turns = true, softcaps = CAPPED, biases = TENSOR },
    },
    [192] = {
      { dtypes = HALF, m = 128, n = 112, turns = true, masks = { "none", "band", "interval" }, biases = NO_BIAS },
      { dtypes = HALF, m = 128, n = 112, turns = true, masks = { "none", "band", "interval" }, biases = ALIBI, softcaps = PLAIN },
      { dtypes = HALF, m = 128, n = 96, turns = true, masks = CAUSAL, biases = NO_BIAS, why = "ahead of 112 keys by 0 to 2 %" },
      { dtypes = HALF, m = 128, n = 96, turns = true, masks = CAUSAL, biases = ALIBI, softcaps = PLAIN, why = "as without ALiBi" },
      { dtypes = HALF, m = 128, n = 80, turns = true, biases = ALIBI, softcaps = CAPPED, why = "96 and 112 keys spill up to 44 bytes" },
      { dtypes = HALF, m = 128, n = 64, turns = true, biases = TENSOR },
    },
    [256] = {
      { dtypes = HALF, m = 128, n = 64, turns = true },
      { dtypes = HALF, m = 128, n = 48, turns = true, softcaps = PLAIN, biases = TENSOR, why = "64 keys leave no room for the bias" },
    },
  },

  -- Where the family has step = true, one more of each mask. cache_from: rows, (query, query head) pairs of a key head,
  -- of which decode has 8 a tile; cache_up_to: queries. lib/choose.c has what was measured; at 80 and 96 a step is
  -- faster with one row, too, but for one sequence of few keys.
  step = {
    [64] = { m = 128, n = 128, schedule = "step", stages = 4, cache_from = 9, cache_up_to = 256, least = 33,
      why = "any number of queries against a cache, one order of sums", measured = "2026-11-26 on an NVIDIA H100 and an H200" },
    [80] = { m = 128, n = 128, schedule = "step", stages = 3, cache_from = 1, cache_up_to = 256,
      why = "as at 96", measured = "2026-11-28 on an NVIDIA H200" },
    [96] = { m = 128, n = 128, schedule = "step", stages = 3, cache_from = 1, cache_up_to = 256,
      why = "any number of queries against a cache, one order of sums", measured = "2026-11-24 on an NVIDIA H200" },
    [128] = { m = 128, n = 128, schedule = "step", cache_from = 9, cache_up_to = 256,
      why = "any number of queries against a cache, one order of sums", measured = "2026-11-24 on an NVIDIA H200" },
    [256] = { m = 128, n = 64, schedule = "step", cache_from = 9, cache_up_to = 256,
      why = "two stages of K and V, and O of the spans before in the workspace", measured = "2026-11-28 on an NVIDIA H200" },
  },

  -- A step where K and V are of 8 bits, which no other forward row of a GPU reads, but decode, which is ahead up to 32
  -- rows, and at 80 and 96 up to 16.
  narrow_step = {
    [64] = { m = 128, n = 128, schedule = "step", stages = 4, cache_from = 33, cache_up_to = 256, why = "K and V of 8 bits",
      measured = "2026-11-26 on an NVIDIA H100, 2026-11-28 on an NVIDIA H200" },
    [80] = { m = 128, n = 128, schedule = "step", stages = 4, cache_from = 17, cache_up_to = 256, why = "K and V of 8 bits",
      measured = "2026-11-28 on an NVIDIA H200" },
    [96] = { m = 128, n = 128, schedule = "step", stages = 4, cache_from = 17, cache_up_to = 256, why = "K and V of 8 bits",
      measured = "2026-11-28 on an NVIDIA H200" },
    [128] = { m = 128, n = 128, schedule = "step", stages = 3, cache_from = 33, cache_up_to = 256, why = "K and V of 8 bits",
      measured = "2026-11-26 on an NVIDIA H100, 2026-11-28 on an NVIDIA H200" },
    [256] = { m = 128, n = 64, schedule = "step", stages = 3, cache_from = 33, cache_up_to = 256,
      why = "K and V of 8 bits, and O of the spans before in the workspace", measured = "2026-11-28 on an NVIDIA H200" },
  },

  bwd = {
    [64] = { { dtypes = HALF, m = 128, n = 128, least = 65, why = "the most queries that two buffers of dS leave room for" } },
    [96] = { { dtypes = HALF, m = 64, n = 128, why = "as at 128; 1.00 of the best peer in the mean" } },
    [128] = { { dtypes = HALF, m = 64, n = 128, why = "80 queries gain nothing" } },
    [192] = { { dtypes = HALF, m = 64, n = 64 } },
    [256] = { { dtypes = HALF, m = 64, n = 64, least = 65, why = "split: 6 to 23 % ahead of the best peer, where sums of dQ would be over what L2 takes" } },
  },
}

-- Forward, a step alone reads K and V of 8 bits. Lines that do not say so have no shared memory for a bias by a tensor.
for _, lines in pairs(data.fwd) do
  for _, line in ipairs(lines) do line.kv_dtypes, line.biases = { "same" }, line.biases or { "none", "alibi" } end
end

return data
