-- The library in which bench/gpu/steps.py --family sm80 --dims 192,256 measures the step of sm80 beyond head_dim 128 on
-- Hopper, with Hopper's own beside it at 256.
return {
  passes = { "fwd" },
  dtypes = { "f16", "bf16" },
  kv_dtypes = { "same", "i8" },
  head_dims = { 192, 256 },
  masks = { "causal", "band", "interval", "tree" },
  softcaps = { "none", "softcap" },
  families = {
    sm80 = { archs = { 90 }, tiles = { fwd = {
      [192] = { { step = true, m = 64, n = 64 } },
      [256] = { { step = true, m = 64, n = 32 } },
    } } },
    sm90a = { archs = { "90a" }, head_dims = { 256 }, tiles = { fwd = { { m = 128, n = 64, schedule = "step" } } } },
  },
  exclude = {
    { family = "sm90a", mask = { "interval", "tree" }, reason = "a step of sm90a has no kernel for them at 256" },
    { family = "sm90a", softcap = "softcap", reason = "bits are compared without one" },
    { family = "sm90a", dtype = "f16", reason = "and in bfloat16" },
    { kv_dtype = "i8", dtype = "f16", reason = "weights times scales of V may leave the range of f16" },
    { family = "sm90a", kv_dtype = "i8", reason = "its step of 8 bits is measured elsewhere" },
    { dtype = "f16", mask = { "causal", "interval", "tree" }, reason = "a window has it" },
    { dtype = "f16", softcap = "none", reason = "the same" },
    { mask = { "causal", "interval", "tree" }, softcap = "softcap", reason = "the same" },
  },
}
