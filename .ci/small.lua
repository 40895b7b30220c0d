-- A small library with one of everything, for the configurations that compile it all again: sanitizers, AArch64, and
-- the check that two clean builds have the same bytes. Its GPU tiles are small too, and one of each strategy. Every
-- mask is there in float32; the odd head dim has the widest, 16 bits and the oldest instruction set have one or two,
-- for they run the same lines: a source for all.
return {
  passes = { "fwd", "bwd", "dec" },
  dtypes = { "f32", "f16", "bf16" },
  head_dims = { 40, 64 },
  masks = { "none", "causal", "band", "interval", "tree" },
  softcaps = { "none", "softcap" },
  families = {
    cpu = { isas = { "x86_64", "x86_64_v3", "aarch64" }, max_logit = true },
    sm80 = {
      archs = { 90 },
      passes = { "fwd", "bwd" },
      head_dims = { 64 },
      masks = { "causal", "band" },
      dtypes = { "f32", "bf16" },
      softcaps = { "none" },
      tiles = {
        fwd = {
          { m = 64, n = 32, warps = 4, masks = { "causal" } },
          { m = 64, n = 32, warps = 4, masks = { "band" }, d_split = 2 },
        },
        bwd = {
          { m = 32, n = 64, warps = 4, dtypes = { "f32" } },
          { m = 32, n = 64, warps = 4, dtypes = { "bf16" }, masks = { "band" } },
          { m = 32, n = 64, warps = 4, dtypes = { "bf16" }, masks = { "causal" }, strategy = "split", dq_m = 64 },
        },
      },
    },
  },
  override = { { family = "sm80", pass = "fwd", dtype = "bf16", set = { device_lengths = true, device_ragged = true }, reason = "one dtype is enough" } },
  exclude = {
    { family = "cpu", mask = { "interval", "tree" }, head_dim = 40, reason = "the other head dim has them" },
    { family = "cpu", mask = { "interval", "tree" }, dtype = { "f16", "bf16" }, reason = "float32 has them from the same source" },
    { family = "cpu", mask = { "interval", "tree" }, isa = "x86_64", reason = "x86_64_v3 has them from the same source" },
    { family = "cpu", isa = "x86_64", dtype = { "f16", "bf16" }, reason = "x86_64_v3 has them from the same source" },
    { family = "cpu", head_dim = 40, mask = { "none", "causal" }, reason = "the kernels of a band have all of their lines" },
    { family = "cpu", isa = "x86_64", pass = { "fwd", "bwd" }, head_dim = 64, mask = { "none", "band" }, reason = "x86_64_v3 has them" },
    { family = "cpu", dtype = "bf16", pass = { "fwd", "bwd" }, head_dim = 64, mask = { "none", "band" }, reason = "float32 has all masks" },
    { family = "cpu", dtype = "f16", pass = { "fwd", "bwd" }, mask = { "none", "band" }, reason = "bf16 has them from the same source" },
    { family = "cpu", dtype = "f16", pass = "dec", head_dim = 40, reason = "bf16 has both from the same source" },
    { family = "sm80", dtype = "f32", mask = "band", reason = "two warps share queries in 16 bits only" },
  },
}
