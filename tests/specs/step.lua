-- Kernels of a server's step (lib/device/warpgroup_step.h), which the library's own spec has not. Spans of 128 keys
-- let small problems have many of them. For tests only, in the same build.
return {
  passes = { "fwd" },
  dtypes = { "f16", "bf16" },
  head_dims = { 64, 128 },
  masks = { "none", "causal" },
  families = { sm90a = { archs = { "90a" }, tiles = { fwd = {
    [64] = { { m = 128, n = 128, schedule = "step", span = 128, stages = 4, masks = { "none", "causal" } } },
    [128] = { { m = 128, n = 128, schedule = "step", masks = { "none", "causal" } } },
  } } } },
  exclude = {
    { dtype = "f16", head_dim = 128, reason = "head_dim 64 has f16, and bf16 this head_dim" },
    { dtype = "f16", mask = "none", reason = "the one with a mask does more" },
    { head_dim = 128, mask = "none", reason = "head_dim 64 has it" },
  },
}
