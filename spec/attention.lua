-- What this library supports: the default. Every combination below becomes one kernel, one row of the dispatch table and one test.
-- To support something else, edit this file and rebuild; no other file changes. It is data in Lua's notation and is never run:
-- strings, numbers, true, false and tables. A mistake is answered with `file:line: field: what is wrong; what would be right`.
--
--   lua5.4 gen/glint.lua check             is it right, and what does it make?
--   lua5.4 gen/glint.lua list              the variants by name
--   lua5.4 gen/glint.lua explain NAME      why a variant exists (or does not), its tile and its budget
return {
  -- Forward ("fwd") and backward ("bwd"). A library that only infers leaves "bwd" out.
  passes = { "fwd", "bwd" },

  -- How tensors are stored. Arithmetic is in float32 for all of them.
  dtypes = { "f32", "f16", "bf16" },

  -- Multiples of 8. A head dim of 80 is one more number here.
  head_dims = { 32, 64, 96, 128, 256 },

  -- "causal" serves both alignments of the diagonal, top left and bottom right: the offset is known only at run time.
  masks = { "none", "causal" },

  families = {
    -- C with vector extensions. Runs on any host; also what is used when there is no GPU.
    -- A family may do less than the lists above: passes, dtypes, head_dims, masks may be given here again, shorter.
    cpu = {
      -- One object for each; the best that the CPU has is chosen when a context is opened. Those of another architecture than
      -- the one that is built for are left out of the library.
      isas = { "x86_64", "x86_64_v3", "x86_64_v4", "aarch64" },

      -- Queries (m) by keys (n) that are worked on at a time, for each pass. A list: several tiles make several variants.
      --   m: a multiple of the micro-kernel's queries (64 on x86_64_v4, 16 on x86_64_v3 and aarch64, 8 on x86_64)
      --   n: a multiple of the micro-kernel's rows (6)
      -- [head_dim] = { ... } replaces the list for that head dim. A tile may be for some only: isas, dtypes, masks = { ... };
      -- and may have a micro-kernel of its own: rows, vecs.
      -- 64 x 96: 64 queries are one row of AVX-512 micro-kernels; with AVX2, from 48 to 192 keys the speed changes by less than 3 %.
      -- Backward with AVX-512 on a Xeon (Sapphire Rapids class, 2 cores, S = 2048, share of the multiply-add peak at d64 / d128):
      -- 64 x 192 78 / 82 %, 64 x 96 75 / 77, 96 x 96 74 / 77, 48 x 96 72 / 74, 128 x 48 70 / 71, 64 x 48 68 / 72. Forward there:
      -- 64 x 96 79 / 80, 128 x 96 78 / 84, 64 x 192 77 / 83, 192 x 48 79 / 82, 48 x 96 73 / 79.
      tiles = {
        fwd = { { m = 64, n = 96 } },
        bwd = {
          { m = 64, n = 96, isas = { "x86_64", "x86_64_v3", "aarch64" } },
          { m = 64, n = 192, isas = { "x86_64_v4" } },
          [256] = { { m = 64, n = 96 } }, -- 192 keys would not stay in the second-level cache
        },
      },
    },

    -- CUDA kernels for every NVIDIA GPU since Ampere, compiled by nvcc to SASS for exactly these architectures: 80 is the A100, 87 the
    -- Jetson Orin, 90 the H100 and H200. Another one (86, 89, 100, 110, 120) is one more number here, and dropping one drops its bytes.
    -- Shared memory of a block comes in three classes: 227 KiB on sm_90, 100 and 110, 163 on sm_80 and 87, 99 on sm_86, 89 and 120. A
    -- tile that does not fit is an error with the arithmetic; then give that class a tile of its own with archs = { ... }, as below.
    -- spec/full.lua has tiles for every architecture and for head dims 32, 96 and 192, to be copied.
    sm80 = {
      archs = { 80, 87, 90 },
      head_dims = { 64, 128, 256 },
      -- Tiles: queries (m) by keys (n) of a block of `warps` warps. What else a tile may say: gen/families/sm80.lua. Measured on an
      -- H200: bench/results/sm80_notes.md says what else was tried, and by how much it lost.
      -- float32 products are tf32, one each: relative errors of 2^-11. math = "tf32x3" in a tile makes three, as good as float32.
      tiles = {
        fwd = {
          [64] = {
            { dtypes = { "f16", "bf16" }, m = 128, n = 64, warps = 4, blocks_per_sm = 2, q_kept = 4, masks = { "none" } },
            { dtypes = { "f16", "bf16" }, m = 128, n = 80, warps = 4, blocks_per_sm = 2, q_kept = 4, masks = { "causal" } }, -- 3 % faster
            -- Short sequences with a mask: less is hidden, and of six small blocks one begins or ends while others compute.
            { dtypes = { "f16", "bf16" }, m = 64, n = 32, warps = 2, blocks_per_sm = 6, q_kept = 4, masks = { "causal" }, up_to = 1024,
              archs = { 80, 86, 87, 89, 90 } },
            { dtypes = { "f32" }, m = 128, n = 32, warps = 4, blocks_per_sm = 2, q_kept = 8 },
            { dtypes = { "f32" }, m = 128, n = 32, warps = 4, math = "tf32x3" },
          },
          [128] = {
            { dtypes = { "f16", "bf16" }, m = 128, n = 64, warps = 4, blocks_per_sm = 2, q_kept = 1, archs = { 80, 86, 87, 89, 90 } },
            { dtypes = { "f16", "bf16" }, m = 128, n = 48, warps = 4, blocks_per_sm = 2, archs = { 100, 110, 120 } }, -- 64 keys spill there
            { dtypes = { "f32" }, m = 256, n = 48, warps = 8, archs = { 90 } }, -- 20 % faster than 128 queries; spills on sm_100 and 110
            { dtypes = { "f32" }, m = 128, n = 32, warps = 4, archs = { 80, 87, 100, 110 } },
            { dtypes = { "f32" }, m = 64, n = 32, warps = 4, archs = { 86, 89, 120 } },
            { dtypes = { "f32" }, m = 64, n = 32, warps = 4, math = "tf32x3" },
          },
          [256] = {
            { dtypes = { "f16", "bf16" }, m = 128, n = 64, warps = 8, d_split = 2, q_kept = 1, archs = { 90 } },
            { dtypes = { "f16", "bf16" }, m = 128, n = 32, warps = 8, q_kept = 8, archs = { 80, 87, 100, 110 } },
            { dtypes = { "f16", "bf16" }, m = 64, n = 32, warps = 4, archs = { 86, 89, 120 } },
          },
        },
        -- Two strategies. "fused", the default, goes over key blocks once; dQ is summed in float32 by one key block after another, in
        -- order. "split" makes P and dS a second time for dQ, and no block waits for another: faster with few queries or few keys. up_to
        -- says for which lengths it is taken. Both give the same bits every time.
        -- Of query heads that share a key head a fused block takes part_heads (1; 0: all) where parts_from (4096) queries or more see a key, on
        -- average, twice as many from an eighth of that on, eight times as many above a 32nd, and all of them elsewhere. Blocks that share a
        -- key head add to its dK and dV in turn, through float32 sums in the workspace.
        bwd = {
          [64] = {
            { dtypes = { "f16", "bf16" }, strategy = "split", m = 64, n = 128, warps = 4, blocks_per_sm = 2, part_m = 32,
              dq_m = 128, dq_n = 64, dq_warps = 4, dq_blocks_per_sm = 2, archs = { 80, 86, 87, 89, 90, 100, 110 }, up_to = 128 },
            -- 128 queries of dQ spill a register on sm_120
            { dtypes = { "f16", "bf16" }, strategy = "split", m = 32, n = 128, warps = 4, blocks_per_sm = 2, part_m = 32,
              dq_m = 64, dq_n = 64, dq_warps = 4, dq_blocks_per_sm = 2, archs = { 120 }, up_to = 128 },
            { dtypes = { "f32" }, strategy = "split", m = 32, n = 64, warps = 4, blocks_per_sm = 2, kv_kept = 8,
              dq_m = 64, dq_n = 32, dq_warps = 4, dq_blocks_per_sm = 2, up_to = 128 },
            { dtypes = { "f16", "bf16" }, m = 64, n = 256, warps = 8, stages = 3, part_m = 32, dq_row_tiles = 2, archs = { 90, 100, 110 } },
            -- two blocks share a multiprocessor: at 512, 1024, 2048 and from 4096 keys on 3, 2, 1 and -1 % faster than 256 keys, and with a mask
            -- 20, 9, 0 and -1 %
            { dtypes = { "f16", "bf16" }, m = 64, n = 128, warps = 4, blocks_per_sm = 2, part_m = 32, dq_row_tiles = 2, up_to = 2048 },
            { dtypes = { "f32" }, m = 32, n = 64, warps = 4, blocks_per_sm = 2, kv_kept = 8 },
            { dtypes = { "f32" }, m = 32, n = 64, warps = 4, math = "tf32x3" },
          },
          [128] = {
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
            { dtypes = { "f16", "bf16" }, m = 64, n = 128, warps = 8, dq_row_tiles = 2, masks = { "causal" }, archs = { 80, 87, 90 } },
            { dtypes = { "f16", "bf16" }, m = 64, n = 128, warps = 8, dq_row_tiles = 2, masks = { "none" }, archs = { 80, 90 } },
            { dtypes = { "f16", "bf16" }, m = 32, n = 128, warps = 8, dq_row_tiles = 2, archs = { 100, 110 } }, -- 64 queries spill there
            -- 128 keys spill a register on sm_87
            { dtypes = { "f16", "bf16" }, m = 32, n = 64, warps = 4, masks = { "none" }, archs = { 86, 87, 89, 120 } },
            { dtypes = { "f16", "bf16" }, m = 32, n = 64, warps = 4, masks = { "causal" }, archs = { 86, 89, 120 } },
            { dtypes = { "f32" }, m = 32, n = 128, warps = 8, dq_row_tiles = 2, archs = { 90, 100, 110 } }, -- 30 % faster than 64 keys
            { dtypes = { "f32" }, m = 32, n = 64, warps = 8, kv_kept = 16, dq_row_tiles = 2, archs = { 80, 87 } },
            { dtypes = { "f32" }, m = 16, n = 32, warps = 4, archs = { 86, 89, 120 } },
            { dtypes = { "f32" }, m = 32, n = 64, warps = 8, dq_row_tiles = 2, math = "tf32x3", archs = { 80, 87, 90, 100, 110 } },
            { dtypes = { "f32" }, m = 16, n = 32, warps = 4, math = "tf32x3", archs = { 86, 89, 120 } },
          },
          [256] = {
            { dtypes = { "f16", "bf16" }, strategy = "split", m = 64, n = 64, warps = 8, d_split = 2, dq_m = 128, dq_n = 32, dq_warps = 8,
              archs = { 90, 100, 110 }, masks = { "none" }, up_to = 256 },
            { dtypes = { "f16", "bf16" }, strategy = "split", m = 64, n = 64, warps = 8, d_split = 2, dq_m = 128, dq_n = 32, dq_warps = 8,
              archs = { 90, 100, 110 }, masks = { "causal" }, up_to = 1024 },
            { dtypes = { "f16", "bf16" }, strategy = "split", m = 32, n = 64, warps = 8, d_split = 2, dq_m = 64, dq_n = 32, dq_warps = 4,
              archs = { 80, 87 }, up_to = 128 },
            { dtypes = { "f16", "bf16" }, strategy = "split", m = 32, n = 16, warps = 4, d_split = 2, dq_m = 32, dq_n = 16, dq_warps = 2,
              archs = { 86, 89, 120 }, up_to = 128 },
            { dtypes = { "f16", "bf16" }, m = 64, n = 64, warps = 8, d_split = 2, dq_row_tiles = 2, archs = { 90, 100, 110 } },
            { dtypes = { "f16", "bf16" }, m = 32, n = 64, warps = 8, d_split = 2, dq_row_tiles = 2, archs = { 80, 87 } },
            { dtypes = { "f16", "bf16" }, m = 32, n = 16, warps = 4, d_split = 2, archs = { 86, 89, 120 } },
          },
        },
      },
    },
  },

  -- Variants that the lists above would make and that are not wanted, such as
  --   { family = "cpu", isa = "x86_64", dtype = { "f16", "bf16" }, reason = "no such machine in the field" }
  -- Matches: family, pass, dtype, head_dim, mask, and with a family what its tiles have. A value or a list of values each.
  exclude = {
    { family = "sm80", dtype = "f32", head_dim = 256, reason = "a block holds few rows of it: spec/full.lua has tiles" },
  },

  -- Other tile fields for some variants, such as
  --   { family = "cpu", pass = "bwd", head_dim = 256, set = { n = 48 }, reason = "measured: fits the second-level cache" }
  override = {},
}
