-- The library that bench/gpu/steps.py measures: Hopper's kernels of a server's step, and beside them, under a causal
-- mask in bfloat16, all rows that could take a problem in their place.
return {
  passes = { "fwd", "dec" },
  dtypes = { "f16", "bf16" },
  kv_dtypes = { "same", "i8", "e4m3" },
  head_dims = { 64, 80, 96, 128, 256 },
  masks = { "none", "causal", "band" },
  softcaps = { "none", "softcap" },
  families = {
    sm80 = { archs = { 90 }, device_lengths = true, device_pages = true, device_ragged = true },
    sm90a = { archs = { "90a" }, passes = { "fwd" }, device_lengths = true, device_ragged = true, step = true },
  },
  exclude = {
    { dtype = "f16", kv_dtype = { "i8", "e4m3" }, reason = "K and V of 8 bits are widened to bf16" },
    { family = "sm80", pass = "fwd", kv_dtype = { "i8", "e4m3" }, reason = "the same, in decode and in a step" },
    { kv_dtype = { "i8", "e4m3" }, mask = "none", reason = "under a causal mask and a window" },
    { kv_dtype = { "i8", "e4m3" }, softcap = "softcap", mask = "causal", reason = "a window has it" },
    { kv_dtype = "e4m3", softcap = "softcap", reason = "int8 has it" },
    { head_dim = { 80, 256 }, kv_dtype = { "i8", "e4m3" }, reason = "bench/specs/steps_narrow.lua has them" },
    { head_dim = { 80, 96, 256 }, dtype = "f16", reason = "the other head_dims have it" },
    { head_dim = { 80, 96, 256 }, softcap = "softcap", reason = "the same" },
    { family = "sm80", dtype = "f16", reason = "a step is measured in bfloat16" },
    { family = "sm80", softcap = "softcap", reason = "and without a softcap" },
    { family = "sm80", pass = "fwd", mask = { "none", "band" }, reason = "under a causal mask" },
    { family = "sm90a", schedule = { "persistent", "short" }, dtype = "f16", reason = "the same" },
    { family = "sm90a", schedule = { "persistent", "short" }, softcap = "softcap", reason = "the same" },
    { family = "sm90a", schedule = { "persistent", "short" }, mask = { "none", "band" }, reason = "the same" },
  },
}
