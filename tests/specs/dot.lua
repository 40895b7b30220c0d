-- Kernels for AVX-512 BF16 that tests/dot runs, with the instructions emulated too. At 8 scores are small, so that LSE
-- shows each rounding. 40 fills no whole tiles, and its blocks are of two panels by few keys, so that tests cross them
-- often. Rows of AVX-512 are there for the choice between the two. For tests only, in the same build as the library's
-- own spec.
return {
  passes = { "fwd", "bwd" },
  dtypes = { "bf16" },
  head_dims = { 8, 40, 64, 128 },
  masks = { "none", "causal", "band" },
  softcaps = { "none", "softcap" },
  families = {
    cpu = {
      isas = { "x86_64_v4", "x86_64_bf16" },
      max_logit = true,
      tiles = {
        fwd = { [40] = { { m = 64, n = 64, isas = { "x86_64_bf16" } } } },
        bwd = { [40] = { { m = 64, n = 64, isas = { "x86_64_bf16" } } } },
      },
    },
  },
  exclude = {
    { family = "cpu", isa = "x86_64_v4", pass = "bwd", reason = "the choice is the same" },
    { family = "cpu", isa = "x86_64_v4", head_dim = { 8, 40, 128 }, reason = "here only AVX-512 BF16 has rows" },
    { head_dim = 8, mask = { "causal", "band" }, reason = "tested above it" },
    { pass = "bwd", head_dim = 8, reason = "tested above it" },
    { head_dim = 40, mask = { "none", "causal" }, reason = "tested at 64 and 128" },
    { head_dim = 64, mask = { "none", "band" }, reason = "tested at 40 and 128" },
    { head_dim = 128, mask = { "causal", "band" }, reason = "tested at 40 and 64" },
  },
}
