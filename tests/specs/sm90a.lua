-- Hopper's kernels with their own tiles: forward the persistent schedule with and without a counter and turns, and the short one; backward fused
-- and split; and forward tiles that are proposed. Windows with each schedule. For tests only, in the same build as the library's own spec.
return {
  passes = { "fwd", "bwd" },
  dtypes = { "f16", "bf16" },
  head_dims = { 64, 96, 128, 192, 256 },
  masks = { "none", "causal", "band" },
  softcaps = { "none", "softcap" },
  families = { sm90a = { archs = { "90a" } } },
  exclude = {
    { dtype = "f16", head_dim = { 96, 128, 192, 256 }, reason = "one head dim of float16 is enough" },
    { dtype = "f16", mask = "none", reason = "and one mask" },
    { head_dim = { 96, 192, 256 }, mask = "none", reason = "the one with a mask does more" },
    { softcap = "softcap", pass = "bwd", reason = "no kernels yet" },
    { softcap = "softcap", mask = { "none", "band" }, reason = "one mask with a softcap is enough" },
    { softcap = "softcap", dtype = "f16", reason = "and one dtype" },
    { softcap = "softcap", head_dim = { 96, 128, 192, 256 }, reason = "and one head dim" },
    { mask = "band", pass = "bwd", reason = "no kernels yet" },
    { mask = "band", dtype = "f16", reason = "one dtype of windows is enough" },
    { mask = "band", head_dim = { 96, 128, 192, 256 }, reason = "64 has both schedules; hostsim/mutations/sm90a has two stages and turns" },
    { head_dim = { 96, 192 }, pass = "bwd", reason = "there is none of 96, and the faults of hostsim/mutations/sm90a are in that of 192" },
  },
}
