-- By how many blocks the query heads of a key head are best walked over in the backward pass: the tiles of
-- spec/full.lua for head_dim 64 and 128, each with 1, 2, 4 and all (h0) of the heads to a block at every length. For
-- tuning part_heads and parts_from (gen/families/sm80.lua):
--
--   ./bazelw build --repo_env=GLINT_SPEC=bench/specs/gqa_parts.lua //examples/pytorch:libglint_shared.so
--   python3 bench/peers/peers_gpu.py --group gqa,mqa --variants --csv parts.csv
--
-- Of eight query heads a key head that is 8, 4, 2 and 1 parts. A row of sm80 without h in its name has one head to a
-- block. One of sm90a follows the rule of lib/cuda/policy.c, glint_gpu_persistent_part_heads, and h64 takes all heads.
-- Windows are for `--group gqa_windows`.
return {
  passes = { "fwd", "bwd" },
  dtypes = { "bf16" },
  head_dims = { 64, 128 },
  masks = { "none", "causal", "band" },
  families = {
    sm90a = {
      archs = { "90a" },
      tiles = {
        bwd = {
          [64] = {
            { m = 128, n = 128 },
            { m = 128, n = 128, part_heads = 1 },
            { m = 128, n = 128, part_heads = 2 },
            { m = 128, n = 128, part_heads = 4 },
            { m = 128, n = 128, part_heads = 64 },
          },
          [128] = {
            { m = 64, n = 128 },
            { m = 64, n = 128, part_heads = 1 },
            { m = 64, n = 128, part_heads = 2 },
            { m = 64, n = 128, part_heads = 4 },
            { m = 64, n = 128, part_heads = 64 },
          },
        },
      },
    },
    sm80 = {
      archs = { 90 },
      masks = { "none", "causal" },
      tiles = {
        fwd = {
          [64] = { { m = 128, n = 64, warps = 4, blocks_per_sm = 2, q_kept = 4 } },
          [128] = { { m = 128, n = 64, warps = 4, blocks_per_sm = 2, q_kept = 1 } },
        },
        bwd = {
          [64] = {
            { m = 64, n = 256, warps = 8, stages = 3, part_m = 32, dq_row_tiles = 2, part_heads = 1, parts_from = 0 },
            { m = 64, n = 256, warps = 8, stages = 3, part_m = 32, dq_row_tiles = 2, part_heads = 2, parts_from = 0 },
            { m = 64, n = 256, warps = 8, stages = 3, part_m = 32, dq_row_tiles = 2, part_heads = 4, parts_from = 0 },
            { m = 64, n = 256, warps = 8, stages = 3, part_m = 32, dq_row_tiles = 2, part_heads = 0 },
          },
          [128] = {
            { m = 64, n = 128, warps = 8, dq_row_tiles = 2, part_heads = 1, parts_from = 0 },
            { m = 64, n = 128, warps = 8, dq_row_tiles = 2, part_heads = 2, parts_from = 0 },
            { m = 64, n = 128, warps = 8, dq_row_tiles = 2, part_heads = 4, parts_from = 0 },
            { m = 64, n = 128, warps = 8, dq_row_tiles = 2, part_heads = 0 },
          },
        },
      },
    },
  },
  exclude = {},
  override = {},
}
