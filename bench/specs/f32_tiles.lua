-- float32 tiles for sm_90, to be timed beside each other and beside PyTorch's memory-efficient attention in one
-- process. What a model expected of each, how the model was made and what was measured: bench/results/sm80_notes.md. On
-- a machine with an H100 or H200:
--
--   ./bazelw build --repo_env=GLINT_SPEC=$PWD/bench/specs/f32_tiles.lua //examples/pytorch:libglint_shared.so
--   python3 bench/peers/peers_gpu.py --variants --group f32 --csv f32_tiles.csv
return {
  passes = { "fwd", "bwd" },
  dtypes = { "f32" },
  head_dims = { 64, 128 },
  masks = { "none", "causal" },

  families = {
    sm80 = {
      archs = { 90 },
      tiles = {
        fwd = {
          [64] = {
            { m = 128, n = 32, warps = 4, blocks_per_sm = 2, q_kept = 8 },
            { m = 128, n = 48, warps = 4, blocks_per_sm = 2, q_kept = 8 },
            { m = 128, n = 64, warps = 4, blocks_per_sm = 2, q_kept = 4 },
            { m = 256, n = 64, warps = 8, q_kept = 8 },                   -- K and V copied half as often
            { m = 64, n = 32, warps = 2, blocks_per_sm = 4, q_kept = 8 }, -- for short sequences with a mask
          },
          [128] = {
            { m = 128, n = 32, warps = 4 },
            { m = 128, n = 48, warps = 4 },
            { m = 128, n = 64, warps = 4, spills = "one register with a mask: on trial" }, -- Q is read half as often
            { m = 256, n = 32, warps = 8 },                   -- two warps a scheduler
            { m = 256, n = 48, warps = 8 },                   -- both, as far as shared memory goes
            { m = 64, n = 32, warps = 2, blocks_per_sm = 2 }, -- one block begins or ends while another computes
          },
        },
        bwd = {
          [64] = {
            { m = 32, n = 64, warps = 4, blocks_per_sm = 2, kv_kept = 8 },
            { m = 32, n = 128, warps = 8, kv_kept = 8 }, -- half of the sums of dQ and of the copies of Q and dO
            { strategy = "split", m = 32, n = 64, warps = 4, blocks_per_sm = 2, kv_kept = 8, dq_m = 64, dq_n = 32, dq_warps = 4,
              dq_blocks_per_sm = 2 },
            { strategy = "split", m = 32, n = 128, warps = 8, kv_kept = 8, dq_m = 128, dq_n = 32, dq_warps = 4, dq_blocks_per_sm = 2 },
          },
          [128] = {
            { m = 32, n = 64, warps = 8, dq_row_tiles = 2, kv_kept = 16 },
            { m = 32, n = 128, warps = 8, dq_row_tiles = 2 }, -- 32 keys a warp instead of 16
            { strategy = "split", m = 32, n = 64, warps = 8, kv_kept = 16, dq_m = 64, dq_n = 32, dq_warps = 4 },
            { strategy = "split", m = 32, n = 128, warps = 8, dq_m = 128, dq_n = 16, dq_warps = 4 },
          },
        },
      },
    },
  },

  exclude = {},
  override = {},
}
