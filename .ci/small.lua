-- A small library with one of everything, for the configurations that compile it all again: sanitizers, and the check that two clean
-- builds have the same bytes. Its GPU tiles are small too, and one of each strategy.
return {
  passes = { "fwd", "bwd", "dec" },
  dtypes = { "f32", "f16", "bf16" },
  head_dims = { 40, 64 },
  masks = { "none", "causal", "band" },
  softcaps = { "none", "softcap" },
  families = {
    cpu = { isas = { "x86_64", "x86_64_v3", "aarch64" } },
    sm80 = {
      archs = { 90 },
      head_dims = { 64 },
      dtypes = { "f32", "bf16" },
      softcaps = { "none" },
      tiles = {
        fwd = {
          { m = 64, n = 32, warps = 4, masks = { "none", "causal" } },
          { m = 64, n = 32, warps = 4, masks = { "band" }, d_split = 2 },
        },
        bwd = {
          { m = 32, n = 64, warps = 4, dtypes = { "f32" } },
          { m = 32, n = 64, warps = 4, dtypes = { "bf16" }, masks = { "none" } },
          { m = 32, n = 64, warps = 4, dtypes = { "bf16" }, masks = { "causal" }, strategy = "split", dq_m = 64 },
        },
        dec = { { m = 8, n = 64, stages = 2, chunk_steps = 1, dtypes = { "bf16" } } },
      },
    },
  },
  override = { { family = "sm80", pass = "fwd", dtype = "bf16", set = { device_lengths = true }, reason = "one dtype is enough" } },
  exclude = {
    { family = "sm80", pass = "dec", dtype = "f32", reason = "decode on GPUs is for 16-bit dtypes" },
    { family = "sm80", pass = "bwd", mask = "band", reason = "no kernels yet" },
    { family = "sm80", dtype = "f32", mask = "band", reason = "two warps share queries in 16 bits only" },
  },
}
