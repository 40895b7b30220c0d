-- One variant a template. generated/golden/ keeps their sources, so that a change of a template is seen in review as a change of a kernel;
-- `bazel run //generated:update_golden` renews them. Apart from the library's own spec, which may change without touching them.
return {
  passes = { "fwd", "bwd", "dec" },
  dtypes = { "f32", "bf16" },
  head_dims = { 64 },
  masks = { "causal" },
  families = {
    cpu = {
      isas = { "x86_64_v3", "x86_64_amx" },
      tiles = {
        fwd = { { m = 64, n = 96, isas = { "x86_64_v3" } }, { m = 64, n = 256, isas = { "x86_64_amx" } } },
        bwd = { { m = 64, n = 96, isas = { "x86_64_v3" } }, { m = 256, n = 128, isas = { "x86_64_amx" } } },
        dec = { { m = 32, n = 256, isas = { "x86_64_v3" } }, { m = 32, n = 512, isas = { "x86_64_amx" } } },
      },
    },
    sm80 = {
      dtypes = { "bf16" },
      archs = { 80 },
      tiles = { fwd = { { m = 128, n = 32, warps = 4 } }, bwd = {
        { m = 64, n = 128, warps = 4, part_m = 32 },
        { strategy = "split", m = 64, n = 128, warps = 4, part_m = 32, dq_m = 128, dq_n = 64, up_to = 1024 },
      } },
    },
    sm90a = { passes = { "fwd", "bwd" }, dtypes = { "bf16" }, archs = { "90a" } },
  },
  exclude = {
    { family = "cpu", isa = "x86_64_v3", dtype = "bf16", reason = "one dtype a template" },
  },
}
