-- One product's spec: a Jetson Orin, which is an AArch64 host and a GPU of sm_87. `--config=orin` builds it on another machine. The
-- fields are explained in attention.lua; the tiles are those of its lists that fit the 163 KiB of shared memory of sm_80 and 87.
return {
  passes = { "fwd", "bwd" },
  dtypes = { "f32", "f16", "bf16" },
  head_dims = { 64, 128 },
  masks = { "none", "causal" },

  families = {
    cpu = {
      isas = { "aarch64" },
      tiles = { fwd = { { m = 64, n = 96 } }, bwd = { { m = 64, n = 96 } } },
    },
    sm80 = {
      archs = { 87 },
      tiles = {
        fwd = {
          [64] = {
            { dtypes = { "f16", "bf16" }, m = 128, n = 64, warps = 4, blocks_per_sm = 2, q_kept = 4, masks = { "none" } },
            { dtypes = { "f16", "bf16" }, m = 128, n = 80, warps = 4, blocks_per_sm = 2, q_kept = 4, masks = { "causal" } }, -- 3 % faster
            -- Short sequences with a mask: less is hidden, and of six small blocks one begins or ends while others compute.
            { dtypes = { "f16", "bf16" }, m = 64, n = 32, warps = 2, blocks_per_sm = 6, q_kept = 4, masks = { "causal" }, up_to = 1024 },
            { dtypes = { "f32" }, m = 128, n = 32, warps = 4, blocks_per_sm = 2, q_kept = 8 },
            { dtypes = { "f32" }, m = 128, n = 32, warps = 4, math = "tf32x3" },
          },
          [128] = {
            { dtypes = { "f16", "bf16" }, m = 128, n = 64, warps = 4, blocks_per_sm = 2, q_kept = 1 },
            { dtypes = { "f32" }, m = 128, n = 32, warps = 4 },
            { dtypes = { "f32" }, m = 64, n = 32, warps = 4, math = "tf32x3" },
          },
        },
        bwd = {
          [64] = {
            { dtypes = { "f16", "bf16" }, strategy = "split", m = 64, n = 128, warps = 4, blocks_per_sm = 2, part_m = 32,
              dq_m = 128, dq_n = 64, dq_warps = 4, dq_blocks_per_sm = 2, up_to = 128 },
            { dtypes = { "f32" }, strategy = "split", m = 32, n = 64, warps = 4, blocks_per_sm = 2, kv_kept = 8,
              dq_m = 64, dq_n = 32, dq_warps = 4, dq_blocks_per_sm = 2, up_to = 128 },
            { dtypes = { "f16", "bf16" }, m = 64, n = 128, warps = 4, blocks_per_sm = 2, part_m = 32, dq_row_tiles = 2 },
            { dtypes = { "f32" }, m = 32, n = 64, warps = 4, blocks_per_sm = 2, kv_kept = 8 },
            { dtypes = { "f32" }, m = 32, n = 64, warps = 4, math = "tf32x3" },
          },
          [128] = {
            { dtypes = { "f16", "bf16" }, strategy = "split", m = 32, n = 64, warps = 4, dq_m = 128, dq_n = 32, dq_warps = 4, up_to = 128 },
            { dtypes = { "f32" }, strategy = "split", m = 32, n = 64, warps = 8, kv_kept = 16, dq_m = 64, dq_n = 16, dq_warps = 4, up_to = 128 },
            { dtypes = { "f16", "bf16" }, m = 64, n = 128, warps = 8, dq_row_tiles = 2, masks = { "causal" } },
            { dtypes = { "f16", "bf16" }, m = 32, n = 64, warps = 4, masks = { "none" } }, -- 128 keys spill a register
            { dtypes = { "f32" }, m = 32, n = 64, warps = 8, kv_kept = 16, dq_row_tiles = 2 },
            { dtypes = { "f32" }, m = 32, n = 64, warps = 8, dq_row_tiles = 2, math = "tf32x3" },
          },
        },
      },
    },
  },
}
