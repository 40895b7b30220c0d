-- Hopper's kernels that the library's own spec has not: forward tiles that are proposed, and windows with each
-- schedule. For tests only, in the same build.
return {
  passes = { "fwd", "bwd" },
  dtypes = { "f16", "bf16" },
  head_dims = { 64, 96, 128, 192, 256 },
  masks = { "none", "causal", "band" },
  softcaps = { "none", "softcap" },
  families = { sm90a = { archs = { "90a" }, device_lengths = true, device_ragged = true,
    tiles = { bwd = { [64] = { { m = 128, n = 128, masks = { "band" } }, { m = 64, n = 128, strategy = "split", masks = { "band" } } } } } } },
  exclude = {
    { head_dim = { 64, 128 }, mask = { "none", "causal" }, softcap = "none", reason = "the default spec has them" },
    { head_dim = 256, mask = { "none", "causal" }, pass = "fwd", softcap = "none", reason = "the default spec has them" },
    { head_dim = 256, mask = "causal", pass = "bwd", softcap = "none", reason = "192 has split kernels with a mask, and that read lengths" },
    { head_dim = 96, pass = "fwd", mask = "causal", softcap = "none",
      reason = "the default spec has it; without a mask its lengths spare the fewest registers" },
    { dtype = "f16", reason = "the default spec has it" },
    { head_dim = 192, mask = "none", reason = "the one with a mask does more" },
    { head_dim = 96, pass = "bwd", mask = "none", reason = "the one with a mask does more; forward 96 has more keys and fewer registers to spare" },
    { softcap = "softcap", pass = "bwd", reason = "no kernels" },
    { softcap = "softcap", mask = { "causal", "band" }, reason = "one mask with a softcap is enough, and only that one reads lengths without a mask" },
    { softcap = "softcap", head_dim = { 96, 128, 192, 256 }, reason = "and one head dim" },
    { mask = "band", head_dim = { 96, 128, 192, 256 }, reason = "64 has both schedules and a fused backward; hostsim/mutations/sm90a has others" },
  },
}
