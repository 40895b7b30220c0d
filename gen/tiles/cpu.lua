-- The cpu family's tiles that were chosen by measurement, by pass and head dim: what a variant is made with unless the
-- spec has `tiles` of its own. A head dim that is not here gets the tiles of the next one that is (gen/tiles.lua). A
-- line is a tile as a spec writes it:
--   m      queries, a multiple of the micro-kernel's (64 on x86_64_v4, 16 on x86_64_v3 and aarch64, 8 on x86_64)
--   n      keys, a multiple of the micro-kernel's rows (6)
--   isas   only for these; rows, vecs: another micro-kernel than the ISA's own
--   why    a reason that `explain` prints; measured: when and on what, if not as said below: a text, or {} where
--          nothing was timed
-- `./bazelw run //bench:tune` measures candidates and prints lines for this file.
local NOT_V4, NOT_AMX = { "x86_64", "x86_64_v3", "aarch64" }, { "x86_64", "x86_64_v3", "x86_64_v4", "aarch64" }
local AMX, BF16 = { "x86_64_amx", "x86_64_bf16" }, { "bf16" }

-- 64 queries are one row of AVX-512 micro-kernels; with AVX2, from 48 to 192 keys the speed changes by less than 3 %.
-- Share of the multiply-add peak at head_dim 64 / 128 with AVX-512, S = 2048
-- (bench/results/cpu_avx512_bench_2026-11-21.txt):
--   forward    64 x 96 79 / 80, 128 x 96 78 / 84, 64 x 192 77 / 83, 192 x 48 79 / 82, 48 x 96 73 / 79
--   backward   64 x 192 78 / 82, 64 x 96 75 / 77, 96 x 96 74 / 77, 48 x 96 72 / 74, 128 x 48 70 / 71, 64 x 48 68 / 72
-- AMX, forward: 64 and 128 keys are up to 10 % slower than 256 (bench/results/cpu_amx_floor.md). Blocks are 64 queries
-- so that a task of 16 of them packs its keys for 1,024 queries. Backward's other tiles are not timed. AVX-512 BF16
-- has AMX's tiles. Of 64 x 128, 64 x 512, 128 x 256 and 32 x 256 forward, and 128 x 128, 128 x 256, 64 x 256, 128 x 64
-- and 64 x 128 backward, none is faster in all cells, and none by more than 11 % in one (Zen 4, lengths 128, 512 and
-- 2048). Backward's sums are loaded and stored for each pair of blocks, those of dK and dV once for 256 queries and
-- those of dQ once for 128 keys.
local AMX_64 = { m = 64, n = 256, isas = AMX, dtypes = BF16 }
local FORWARD = { { m = 64, n = 96, isas = NOT_AMX }, AMX_64 }
local BACKWARD = { { m = 64, n = 96, isas = NOT_V4 }, { m = 64, n = 192, isas = { "x86_64_v4" }, why = "4 % faster than 96 keys" },
  { m = 256, n = 128, isas = AMX, dtypes = BF16 } }
-- A chunk's keys are the same whatever the length, so that a sequence's bits do not depend on it. 256 of them are
-- enough that what is done once a chunk (queries, merging) does not show, and few enough that 2048 keys of one head
-- keep 8 threads busy. With AMX a chunk of 512 keys takes 0.87 to 0.98 of the time of two of 256: what is done once a
-- chunk counts for more.
local DECODE = { { m = 32, n = 256, isas = NOT_AMX, measured = {} },
  { m = 32, n = 512, isas = { "x86_64_amx" }, dtypes = BF16, measured = "2026-11-23 on an Intel Xeon (Sapphire Rapids class), 2 cores" } }

return {
  -- When and on what the lines were timed, by ISA.
  measured = {
    x86_64_v3 = "2026-11-21 on an AMD EPYC (Zen 3), 2 cores",
    x86_64_v4 = "2026-11-21 on an Intel Xeon (Sapphire Rapids class), 2 cores",
    x86_64_bf16 = "2026-11-23 on an AMD EPYC (Zen 4), 2 cores, bf16",
    x86_64_amx = "2026-11-23 on an Intel Xeon (Sapphire Rapids class), 2 cores, bf16",
  },
  fwd = { [64] = FORWARD, [128] = FORWARD, [256] = { { m = 64, n = 96, isas = NOT_AMX, measured = {} }, AMX_64 } },
  dec = { [64] = DECODE, [128] = DECODE, [256] = DECODE },
  bwd = { [64] = BACKWARD, [128] = BACKWARD,
    [256] = { { m = 64, n = 96, isas = NOT_AMX, measured = {}, why = "192 keys would not stay in the second-level cache" },
      { m = 128, n = 128, isas = AMX, dtypes = BF16, why = "half of a second-level cache" } } },
}
