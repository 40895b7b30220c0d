-- One variant a template, and of the GPU families one a kind of rows and a feature: lengths of the device, ragged sequences, pages, a window, a
-- softcap, warps that share columns, tf32. generated/golden/ keeps their sources, so that a change of a template is seen in review as a change of
-- a kernel; `bazel run //generated:update_golden` renews them. This spec is apart from the library's own, which may change without touching it.
return {
  passes = { "fwd", "bwd", "dec" },
  dtypes = { "f32", "bf16" },
  head_dims = { 64, 128 },
  masks = { "none", "causal", "band" },
  softcaps = { "none", "softcap" },
  families = {
    cpu = {
      head_dims = { 64 },
      masks = { "causal" },
      softcaps = { "none" },
      isas = { "x86_64_v3", "x86_64_amx" },
      tiles = {
        fwd = { { m = 64, n = 96, isas = { "x86_64_v3" } }, { m = 64, n = 256, isas = { "x86_64_amx" } } },
        bwd = { { m = 64, n = 96, isas = { "x86_64_v3" } }, { m = 256, n = 128, isas = { "x86_64_amx" } } },
        dec = { { m = 32, n = 256, isas = { "x86_64_v3" } }, { m = 32, n = 512, isas = { "x86_64_amx" } } },
      },
    },
    sm80 = {
      archs = { 80 },
      tiles = {
        fwd = {
          { m = 128, n = 32, warps = 4 },
          [128] = { { m = 64, n = 32, warps = 4, d_split = 2 } },
        },
        bwd = {
          { m = 64, n = 128, warps = 4, part_m = 32, masks = { "causal" }, dtypes = { "bf16" } },
          { strategy = "split", m = 64, n = 128, warps = 4, part_m = 32, dq_m = 128, dq_n = 64, up_to = 1024, dtypes = { "bf16" } },
          { strategy = "split", m = 32, n = 64, warps = 4, stages = 3, dq_m = 64, dq_n = 32, dtypes = { "f32" } },
          [128] = { { m = 32, n = 64, warps = 8, d_split = 2 } },
        },
      },
    },
    sm90a = { passes = { "fwd", "bwd" }, dtypes = { "bf16" }, softcaps = { "none" }, archs = { "90a" } },
  },
  override = {
    { family = "sm80", pass = "fwd", mask = "band", set = { device_lengths = true, device_pages = true, device_ragged = true },
      reason = "every kind of rows and of keys, forward" },
    { family = "sm80", pass = "bwd", mask = "band", set = { device_lengths = true, device_ragged = true }, reason = "and backward" },
    { family = "sm90a", mask = "none", set = { device_lengths = true, device_ragged = true }, reason = "and on Hopper" },
  },
  exclude = {
    { family = "cpu", isa = "x86_64_v3", dtype = "bf16", reason = "one dtype a template" },
    { family = "sm80", mask = "none", reason = "a kernel a feature, not each product of features" },
    { family = "sm80", mask = "band", softcap = "softcap", reason = "as above" },
    { family = "sm80", mask = "band", dtype = "f32", reason = "as above" },
    { family = "sm80", mask = "band", head_dim = 128, reason = "as above" },
    { family = "sm80", head_dim = 128, softcap = "none", reason = "as above" },
    { family = "sm80", head_dim = 128, dtype = "f32", reason = "as above" },
    { family = "sm80", head_dim = 64, dtype = "bf16", softcap = "softcap", reason = "as above" },
    { family = "sm80", head_dim = 64, dtype = "f32", softcap = "none", reason = "as above" },
    { family = "sm80", pass = "dec", dtype = "f32", reason = "decode on GPUs is for 16-bit dtypes" },
    { family = "sm80", pass = "dec", softcap = "softcap", reason = "as above" },
    { family = "sm90a", mask = "none", head_dim = 64, reason = "as above" },
    { family = "sm90a", mask = "causal", head_dim = 128, reason = "as above" },
    { family = "sm90a", mask = "band", reason = "as above" },
    { family = "sm90a", head_dim = 128, pass = "fwd", m = 192, reason = "as above" },
  },
}
