-- The sm90a family's tiles, chosen by measurement: what a variant is made with unless the spec has `tiles` of its own. gen/families/sm90a.lua
-- says what each field is; bench/results/sm90a_notes.md has what else was tried, and by how much it lost.
local HALF = { "f16", "bf16" }
local NONE, CAUSAL = { "none" }, { "causal" }

return {
  measured = { ["90a"] = "2026-11-22 on an NVIDIA H200" },

  fwd = {
    [64] = {
      { dtypes = HALF, m = 192, n = 128, turns = true, dynamic = true, masks = NONE },
      { dtypes = HALF, m = 192, n = 128, turns = true, masks = CAUSAL },
      { dtypes = HALF, m = 64, n = 64, schedule = "short", blocks_per_sm = 4, up_to = 1024, masks = CAUSAL,
        why = "short sequences with a mask: less is hidden, and of four small blocks one begins or ends while others compute" },
    },
    [128] = {
      { dtypes = HALF, m = 192, n = 80, turns = true, why = "192 queries read K and V least often; 80 keys is what 160 registers hold" },
      { dtypes = HALF, m = 128, n = 128, q_slots = 2, up_to = 1024, why = "4 to 9 % faster: 512 and 1024 are whole tiles" },
    },
    [256] = {
      { dtypes = HALF, m = 128, n = 64, turns = true },
    },
  },

  bwd = {
    [64] = { { dtypes = HALF, m = 128, n = 128, why = "the most queries that two buffers of dS leave room for" } },
    [128] = { { dtypes = HALF, m = 64, n = 128, why = "80 queries gain nothing" } },
    [192] = { { dtypes = HALF, m = 64, n = 64 } },
    [256] = { { dtypes = HALF, m = 64, n = 64, why = "split: 6 to 23 % ahead of the best peer, where sums of dQ would be over what L2 takes" } },
  },
}
