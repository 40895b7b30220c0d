-- The library in which bench/gpu/steps.py check law measures the steps of both families under intervals and trees, on
-- Hopper, and of which tests/gpu/run_backend.sh runs the checks and compute-sanitizer.
return {
  passes = { "fwd" },
  dtypes = { "bf16" },
  kv_dtypes = { "same", "i8" },
  head_dims = { 64, 96, 128 },
  masks = { "causal", "band", "interval", "tree" },
  families = {
    sm80 = { archs = { 90 }, head_dims = { 64, 128 }, tiles = { fwd = { { step = true, m = 64, n = 128 } } } },
    sm90a = { archs = { "90a" }, tiles = { fwd = {
      [64] = {
        { m = 128, n = 128, schedule = "step", stages = 4, kv_dtypes = { "same" } },
        { m = 128, n = 128, schedule = "step", stages = 4, kv_dtypes = { "i8" } },
      },
      [96] = { { m = 128, n = 128, schedule = "step", stages = 3, kv_dtypes = { "same" } } },
      [128] = {
        { m = 128, n = 128, schedule = "step", kv_dtypes = { "same" } },
        { m = 128, n = 128, schedule = "step", stages = 3, kv_dtypes = { "i8" } },
      },
    } } },
  },
  exclude = {
    { family = "sm80", mask = "band", reason = "intervals have it" },
    { kv_dtype = "i8", mask = { "band", "interval", "tree" }, reason = "under a causal mask" },
    { head_dim = 96, kv_dtype = "i8", reason = "the other head_dims have it" },
  },
}
