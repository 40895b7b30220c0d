-- Hopper's kernels with their own tiles: forward the persistent schedule with and without a counter and turns, and the short one; backward fused
-- and split. For tests only, in the same build as the library's own spec.
return {
  passes = { "fwd", "bwd" },
  dtypes = { "f16", "bf16" },
  head_dims = { 64, 128, 256 },
  masks = { "none", "causal" },
  families = { sm90a = { archs = { "90a" } } },
  exclude = {
    { dtype = "f16", head_dim = 256, reason = "one head dim of float16 is enough" },
    { dtype = "f16", head_dim = 128, reason = "one head dim of float16 is enough" },
    { dtype = "f16", mask = "none", reason = "and one mask" },
    { head_dim = 256, mask = "none", reason = "the one with a mask does more" },
  },
}
