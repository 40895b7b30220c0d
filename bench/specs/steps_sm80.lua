-- The library in which bench/gpu/steps.py --family sm80 measures the step of sm80 on Hopper, with Hopper's own beside
-- it for its bits.
return {
  passes = { "fwd" },
  dtypes = { "f16", "bf16" },
  kv_dtypes = { "same", "i8", "e4m3" },
  head_dims = { 64, 96, 128 },
  masks = { "none", "causal", "band", "interval", "tree" },
  softcaps = { "none", "softcap" },
  families = {
    sm80 = { archs = { 90 }, tiles = { fwd = { { step = true, m = 64, n = 128 } } } },
    sm90a = { archs = { "90a" }, tiles = { fwd = {
      [64] = {
        { m = 128, n = 128, schedule = "step", stages = 4, kv_dtypes = { "same" } },
        { m = 128, n = 128, schedule = "step", stages = 4, kv_dtypes = { "i8", "e4m3" } },
      },
      [96] = { { m = 128, n = 128, schedule = "step", stages = 3, kv_dtypes = { "same" } } },
      [128] = {
        { m = 128, n = 128, schedule = "step", kv_dtypes = { "same" } },
        { m = 128, n = 128, schedule = "step", stages = 3, kv_dtypes = { "i8", "e4m3" } },
      },
    } } },
  },
  exclude = {
    { head_dim = { 64, 96 }, dtype = "f16", reason = "128 has it" },
    { dtype = "f16", kv_dtype = { "i8", "e4m3" }, reason = "K and V of 8 bits are widened to bf16" },
    { head_dim = 96, kv_dtype = { "i8", "e4m3" }, reason = "the other head_dims have it" },
    { kv_dtype = { "i8", "e4m3" }, mask = "none", reason = "under a causal mask and a window" },
    { kv_dtype = { "i8", "e4m3" }, softcap = "softcap", reason = "and without a softcap" },
    { head_dim = 96, softcap = "softcap", reason = "the other head_dims have it" },
    { family = "sm90a", mask = { "interval", "tree" }, reason = "a step of sm90a has no kernel for them" },
    { mask = { "interval", "tree" }, dtype = "f16", reason = "bfloat16 has them" },
    { mask = { "interval", "tree" }, kv_dtype = { "i8", "e4m3" }, reason = "the simulator has them over 8 bits" },
    { mask = { "interval", "tree" }, softcap = "softcap", reason = "and with a softcap" },
    { family = "sm90a", dtype = "f16", reason = "bits are compared in bfloat16" },
    { family = "sm90a", mask = "none", reason = "under a causal mask and a window" },
  },
}
