-- Everything that the library can do today, for every architecture: far more than one product needs. Copy the lines that you want
-- into a spec of your own; spec/attention.lua is the manual of the fields.
return {
  passes = { "fwd", "bwd" },
  dtypes = { "f32", "f16", "bf16" },
  head_dims = { 32, 64, 96, 128, 192, 256 },
  masks = { "none", "causal" },

  families = {
    cpu = {
      isas = { "x86_64", "x86_64_v3", "x86_64_v4", "aarch64" },
      tiles = {
        fwd = { { m = 64, n = 96 } },
        bwd = { { m = 64, n = 96 } },
      },
    },

    -- Shared memory of a block decides which tiles fit: 227 KiB on sm_90, 100 and 110, 163 on sm_80 and 87, 99 on sm_86, 89 and 120.
    -- Measured on an H200 (sm_90), bf16: bench/results/sm80_notes.md says what else was tried, and by how much it lost.
    sm80 = {
      archs = { 80, 86, 87, 89, 90, 100, 110, 120 },
      -- float32 products are tf32, one each: relative errors of 2^-11. math = "tf32x3" in a tile makes three, as good as float32: here for
      -- head dims 64 and 128.
      tiles = {
        fwd = {
          -- 32 queries a warp halve what is read of K and V from shared memory, against 16; at head_dim 192 and 256 two warps share them,
          -- each with half of the columns of O. Short sequences with a mask are better off with blocks of 64 queries, six of which a
          -- multiprocessor holds: less is hidden, and one begins or ends while others compute.
          { dtypes = { "f16", "bf16" }, m = 128, n = 64, warps = 4, blocks_per_sm = 2, q_kept = 1 },
          { dtypes = { "f32" }, m = 128, n = 32, warps = 4 },
          [32] = {
            { dtypes = { "f16", "bf16" }, m = 64, n = 64, warps = 2, blocks_per_sm = 5, q_kept = 2, archs = { 90 } },
            { dtypes = { "f16", "bf16" }, m = 64, n = 32, warps = 2, blocks_per_sm = 5, q_kept = 2, archs = { 80, 86, 87, 89, 100, 110, 120 } },
            { dtypes = { "f32" }, m = 128, n = 32, warps = 4 },
          },
          [64] = {
            { dtypes = { "f16", "bf16" }, m = 128, n = 64, warps = 4, blocks_per_sm = 2, q_kept = 4, masks = { "none" } },
            { dtypes = { "f16", "bf16" }, m = 128, n = 80, warps = 4, blocks_per_sm = 2, q_kept = 4, masks = { "causal" } }, -- 3 % faster
            { dtypes = { "f16", "bf16" }, m = 64, n = 32, warps = 2, blocks_per_sm = 6, q_kept = 4, masks = { "causal" }, up_to = 1024,
              archs = { 80, 86, 87, 89, 90 } },
            { dtypes = { "f32" }, m = 128, n = 32, warps = 4, blocks_per_sm = 2, q_kept = 8 },
            { dtypes = { "f32" }, m = 128, n = 32, warps = 4, math = "tf32x3" },
          },
          [128] = {
            { dtypes = { "f16", "bf16" }, m = 128, n = 64, warps = 4, blocks_per_sm = 2, q_kept = 1, archs = { 80, 86, 87, 89, 90 } },
            -- 64 keys spill registers in SASS of sm_100, 110 and 120
            { dtypes = { "f16", "bf16" }, m = 128, n = 48, warps = 4, blocks_per_sm = 2, archs = { 100, 110, 120 } },
            { dtypes = { "f32" }, m = 256, n = 48, warps = 8, archs = { 90 } }, -- 20 % faster than 128 queries; spills on sm_100 and 110
            { dtypes = { "f32" }, m = 128, n = 32, warps = 4, archs = { 80, 87, 100, 110 } },
            { dtypes = { "f32" }, m = 64, n = 32, warps = 4, archs = { 86, 89, 120 } },
            { dtypes = { "f32" }, m = 64, n = 32, warps = 4, math = "tf32x3" },
          },
          [192] = {
            { dtypes = { "f16", "bf16" }, m = 128, n = 96, warps = 8, d_split = 2, archs = { 90 } }, -- spills on sm_100 and 110
            { dtypes = { "f16", "bf16" }, m = 128, n = 64, warps = 8, d_split = 2, q_kept = 2, archs = { 90, 100, 110 }, up_to = 512 },
            { dtypes = { "f16", "bf16" }, m = 128, n = 32, warps = 8, archs = { 80, 87, 100, 110 } },
            { dtypes = { "f16", "bf16" }, m = 64, n = 32, warps = 4, archs = { 86, 89, 120 } },
            { dtypes = { "f32" }, m = 64, n = 16, warps = 4 },
          },
          [256] = {
            { dtypes = { "f16", "bf16" }, m = 128, n = 64, warps = 8, d_split = 2, q_kept = 1, archs = { 90 } },
            { dtypes = { "f16", "bf16" }, m = 128, n = 32, warps = 8, q_kept = 8, archs = { 80, 87, 100, 110 } },
            { dtypes = { "f16", "bf16" }, m = 64, n = 32, warps = 4, archs = { 86, 89, 120 } },
            { dtypes = { "f32" }, m = 64, n = 16, warps = 4, archs = { 80, 87, 90, 100, 110 } },
            { dtypes = { "f32" }, m = 32, n = 16, warps = 2, archs = { 86, 89, 120 } },
          },
        },
        bwd = {
          -- 32 keys for a pair of warps, 64 where the accumulators allow: each fragment read feeds 2 to 4 products.
          -- strategy = "split" makes P and dS twice and no block waits for another: faster with few queries or few keys. `up_to` is the longest
          -- length at which it was, of 128, 256, ...: with 128 queries of 8192 keys it takes a third (head_dim 64) to a tenth (256) of fused's
          -- time.
          { dtypes = { "f16", "bf16" }, m = 64, n = 128, warps = 4, blocks_per_sm = 2, part_m = 32, dq_row_tiles = 1 },
          { dtypes = { "f32" }, m = 32, n = 64, warps = 4, blocks_per_sm = 2 },
          [64] = {
            { dtypes = { "f16", "bf16" }, m = 64, n = 256, warps = 8, stages = 3, part_m = 32, dq_row_tiles = 2, archs = { 90, 100, 110 } },
            -- two blocks share a multiprocessor: at 512, 1024, 2048 and from 4096 keys on 3, 2, 1 and -1 % faster than 256 keys, and with a mask
            -- 20, 9, 0 and -1 %
            { dtypes = { "f16", "bf16" }, m = 64, n = 128, warps = 4, blocks_per_sm = 2, part_m = 32, dq_row_tiles = 2, up_to = 2048 },
            { dtypes = { "f32" }, m = 32, n = 64, warps = 4, blocks_per_sm = 2, kv_kept = 8 },
            { dtypes = { "f32" }, m = 32, n = 64, warps = 4, math = "tf32x3" },
            { dtypes = { "f16", "bf16" }, strategy = "split", m = 64, n = 128, warps = 4, blocks_per_sm = 2, part_m = 32,
              dq_m = 128, dq_n = 64, dq_warps = 4, dq_blocks_per_sm = 2, archs = { 80, 86, 87, 89, 90, 100, 110 }, up_to = 128 },
            -- 128 queries of dQ spill a register on sm_120
            { dtypes = { "f16", "bf16" }, strategy = "split", m = 32, n = 128, warps = 4, blocks_per_sm = 2, part_m = 32,
              dq_m = 64, dq_n = 64, dq_warps = 4, dq_blocks_per_sm = 2, archs = { 120 }, up_to = 128 },
            { dtypes = { "f32" }, strategy = "split", m = 32, n = 64, warps = 4, blocks_per_sm = 2, kv_kept = 8,
              dq_m = 64, dq_n = 32, dq_warps = 4, dq_blocks_per_sm = 2, up_to = 128 },
          },
          [96] = {
            -- 8 warps, two for each scheduler: 15 % faster than 6 warps over 96 keys
            { dtypes = { "f16", "bf16" }, m = 64, n = 128, warps = 8, archs = { 80, 87, 90, 100, 110 } },
            { dtypes = { "f16", "bf16" }, m = 64, n = 64, warps = 4, archs = { 86, 89, 120 } },
            { dtypes = { "f32" }, m = 32, n = 96, warps = 6, archs = { 80, 87, 90, 100, 110 } },
            { dtypes = { "f32" }, m = 32, n = 32, warps = 2, archs = { 86, 89, 120 } },
          },
          [128] = {
            { dtypes = { "f16", "bf16" }, m = 64, n = 128, warps = 8, dq_row_tiles = 2, masks = { "causal" }, archs = { 80, 87, 90 } },
            { dtypes = { "f16", "bf16" }, m = 64, n = 128, warps = 8, dq_row_tiles = 2, masks = { "none" }, archs = { 80, 90 } },
            { dtypes = { "f16", "bf16" }, m = 32, n = 128, warps = 8, dq_row_tiles = 2, archs = { 100, 110 } }, -- 64 queries spill there
            { dtypes = { "f16", "bf16" }, m = 32, n = 64, warps = 4, masks = { "none" }, archs = { 86, 87, 89, 120 } }, -- 128 keys spill on sm_87
            { dtypes = { "f16", "bf16" }, m = 32, n = 64, warps = 4, masks = { "causal" }, archs = { 86, 89, 120 } },
            { dtypes = { "f32" }, m = 32, n = 128, warps = 8, dq_row_tiles = 2, archs = { 90, 100, 110 } }, -- 30 % faster than 64 keys
            { dtypes = { "f32" }, m = 32, n = 64, warps = 8, kv_kept = 16, dq_row_tiles = 2, archs = { 80, 87 } },
            { dtypes = { "f32" }, m = 16, n = 32, warps = 4, archs = { 86, 89, 120 } },
            { dtypes = { "f32" }, m = 32, n = 64, warps = 8, dq_row_tiles = 2, math = "tf32x3", archs = { 80, 87, 90, 100, 110 } },
            { dtypes = { "f32" }, m = 16, n = 32, warps = 4, math = "tf32x3", archs = { 86, 89, 120 } },
            -- A step ahead: 5 to 7 % here, nothing for fused.
            { dtypes = { "f16", "bf16" }, strategy = "split", m = 64, n = 128, warps = 8, stages = 3, dq_m = 128, dq_n = 32, dq_warps = 4,
              archs = { 90 }, up_to = 128 },
            -- 64 queries spill registers on sm_100 and 110
            { dtypes = { "f16", "bf16" }, strategy = "split", m = 32, n = 128, warps = 8, dq_m = 64, dq_n = 32, dq_warps = 4,
              archs = { 100, 110 }, up_to = 128 },
            { dtypes = { "f16", "bf16" }, strategy = "split", m = 32, n = 64, warps = 4, dq_m = 128, dq_n = 32, dq_warps = 4,
              archs = { 80, 86, 87, 89 }, up_to = 128 },
            { dtypes = { "f16", "bf16" }, strategy = "split", m = 16, n = 64, warps = 4, dq_m = 64, dq_n = 32, dq_warps = 4,
              archs = { 120 }, up_to = 128 },
            { dtypes = { "f32" }, strategy = "split", m = 32, n = 64, warps = 8, kv_kept = 16, dq_m = 64, dq_n = 16, dq_warps = 4,
              archs = { 80, 87, 90, 100, 110 }, up_to = 128 },
            { dtypes = { "f32" }, strategy = "split", m = 16, n = 32, warps = 4, dq_m = 64, dq_n = 16, dq_warps = 4, archs = { 86, 89, 120 },
              up_to = 128 },
          },
          [192] = {
            -- 32 keys for four warps: 11 % faster than 16 keys for two, in pages of 64 bytes, which halve
            { dtypes = { "f16", "bf16" }, m = 64, n = 64, warps = 8, d_split = 2, archs = { 90, 100, 110 } },
            { dtypes = { "f16", "bf16" }, m = 64, n = 48, warps = 6, dq_row_tiles = 2, archs = { 80, 87 } },
            { dtypes = { "f16", "bf16" }, m = 32, n = 16, warps = 2, archs = { 86, 89, 120 } },
            { dtypes = { "f32" }, m = 16, n = 48, warps = 6, archs = { 80, 87, 90, 100, 110 } },
            { dtypes = { "f32" }, m = 16, n = 16, warps = 2, archs = { 86, 89, 120 } },
          },
          [256] = {
            { dtypes = { "f16", "bf16" }, m = 64, n = 64, warps = 8, d_split = 2, dq_row_tiles = 2, archs = { 90, 100, 110 } },
            { dtypes = { "f16", "bf16" }, m = 32, n = 64, warps = 8, d_split = 2, dq_row_tiles = 2, archs = { 80, 87 } },
            { dtypes = { "f16", "bf16" }, m = 32, n = 16, warps = 4, d_split = 2, archs = { 86, 89, 120 } },
            { dtypes = { "f32" }, m = 16, n = 32, warps = 4, archs = { 80, 87, 90, 100, 110 } },
            { dtypes = { "f32" }, m = 16, n = 16, warps = 2, archs = { 86, 89, 120 } },
            { dtypes = { "f16", "bf16" }, strategy = "split", m = 64, n = 64, warps = 8, d_split = 2, dq_m = 128, dq_n = 32, dq_warps = 8,
              archs = { 90, 100, 110 }, masks = { "none" }, up_to = 256 },
            { dtypes = { "f16", "bf16" }, strategy = "split", m = 64, n = 64, warps = 8, d_split = 2, dq_m = 128, dq_n = 32, dq_warps = 8,
              archs = { 90, 100, 110 }, masks = { "causal" }, up_to = 1024 },
            { dtypes = { "f16", "bf16" }, strategy = "split", m = 32, n = 64, warps = 8, d_split = 2, dq_m = 64, dq_n = 32, dq_warps = 4,
              archs = { 80, 87 }, up_to = 128 },
            { dtypes = { "f16", "bf16" }, strategy = "split", m = 32, n = 16, warps = 4, d_split = 2, dq_m = 32, dq_n = 16, dq_warps = 2,
              archs = { 86, 89, 120 }, up_to = 128 },
          },
        },
      },
    },
  },

  exclude = {},
  override = {},
}
