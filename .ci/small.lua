-- A small library with one of everything, for the configurations that compile it all again: sanitizers, and the check that two clean
-- builds have the same bytes.
return {
  passes = { "fwd", "bwd" },
  dtypes = { "f32", "f16", "bf16" },
  head_dims = { 40, 64 },
  masks = { "none", "causal" },
  families = {
    cpu = {
      isas = { "x86_64", "x86_64_v3", "aarch64" },
      tiles = { fwd = { { m = 64, n = 96 } }, bwd = { { m = 64, n = 96 } } },
    },
    sm80 = {
      archs = { 90 },
      head_dims = { 64 },
      dtypes = { "f32", "bf16" },
      tiles = {
        fwd = {
          { dtypes = { "bf16" }, m = 64, n = 32, warps = 4 },
          { dtypes = { "f32" }, m = 64, n = 32, warps = 4 },
        },
        bwd = {
          { dtypes = { "bf16" }, m = 32, n = 64, warps = 4, masks = { "none" } },
          { dtypes = { "bf16" }, strategy = "split", m = 32, n = 64, warps = 4, dq_m = 64, dq_n = 32, dq_warps = 4,
            masks = { "causal" } },
          { dtypes = { "f32" }, m = 32, n = 64, warps = 4 },
        },
      },
    },
  },
}
