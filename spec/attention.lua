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
  },

  -- Variants that the lists above would make and that are not wanted, such as
  --   { family = "cpu", isa = "x86_64", dtype = { "f16", "bf16" }, reason = "no such machine in the field" }
  -- Matches: family, pass, dtype, head_dim, mask, and with a family what its tiles have. A value or a list of values each.
  exclude = {},

  -- Other tile fields for some variants, such as
  --   { family = "cpu", pass = "bwd", head_dim = 256, set = { n = 48 }, reason = "measured: fits the second-level cache" }
  override = {},
}
