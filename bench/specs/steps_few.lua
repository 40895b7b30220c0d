-- The library in which bench/gpu/steps.py few --family sm80 measures a step of sm80 beside decode, for cache_from of
-- gen/families/sm80_step.lua.
return {
  passes = { "fwd", "dec" },
  dtypes = { "bf16" },
  kv_dtypes = { "same", "i8" },
  head_dims = { 64, 128 },
  masks = { "causal" },
  families = {
    sm80 = { archs = { 90 }, device_lengths = true, device_pages = true, tiles = { fwd = { { step = true, m = 64, n = 128 } } } },
  },
}
