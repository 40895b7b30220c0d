-- The library that bench/steps.py measures: Hopper's kernels of a server's step alone, so that every problem is theirs.
return {
  passes = { "fwd" },
  dtypes = { "f16", "bf16" },
  head_dims = { 64, 128 },
  masks = { "none", "causal" },
  families = { sm90a = { archs = { "90a" }, tiles = { fwd = {
    [64] = { { m = 128, n = 128, schedule = "step", stages = 4, masks = { "none", "causal" } } },
    [128] = { { m = 128, n = 128, schedule = "step", masks = { "none", "causal" } } },
  } } } },
}
