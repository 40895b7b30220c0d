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
  },
}
