-- Kernels of a server's step (lib/device/warpgroup_step.h) with spans of 128 keys, which let small problems have many
-- of them, and under the masks and the softcap that the library's own spec has not. For tests only, in the same build.
return {
  passes = { "fwd" },
  dtypes = { "f16", "bf16" },
  head_dims = { 64 },
  masks = { "none", "causal", "band" },
  softcaps = { "none", "softcap" },
  families = { sm90a = { archs = { "90a" }, tiles = { fwd = {
    [64] = { { m = 128, n = 128, schedule = "step", span = 128, stages = 4 } },
  } } } },
  exclude = {
    { dtype = "f16", mask = { "none", "causal" }, reason = "the one with a window does more" },
    { dtype = "f16", softcap = "none", reason = "and the one with a softcap" },
    { dtype = "bf16", softcap = "softcap", reason = "f16 has it" },
  },
}
