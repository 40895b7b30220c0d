-- The library in which bench/gpu/steps.py checks and measures Hopper's step over K and V of 8 bits at head_dim 80 and
-- 256, and with intervals and trees.
return {
  passes = { "fwd", "dec" },
  dtypes = { "bf16" },
  kv_dtypes = { "same", "i8", "e4m3" },
  head_dims = { 64, 80, 96, 256 },
  masks = { "causal", "band", "interval", "tree" },
  families = {
    sm80 = { archs = { 90 }, passes = { "dec" }, head_dims = { 80, 256 }, masks = { "causal" }, device_pages = true, device_ragged = true },
    sm90a = { archs = { "90a" }, passes = { "fwd" }, step = true },
  },
  exclude = {
    { family = "sm90a", schedule = { "persistent", "short" }, reason = "a step alone" },
    { family = "sm90a", head_dim = 256, mask = { "interval", "tree" }, reason = "kernels would spill registers" },
    { family = "sm90a", head_dim = { 64, 96 }, mask = { "causal", "band" }, reason = "the same" },
    { kv_dtype = "same", mask = { "band", "interval", "tree" }, reason = "what 8 bits are beside" },
  },
}
