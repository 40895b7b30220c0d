-- One product's spec: a Jetson Orin, which is an AArch64 host and a GPU of sm_87. `--config=orin` builds it on another
-- machine. The fields are explained in attention.lua.
return {
  passes = { "fwd", "bwd", "dec" },
  dtypes = { "f32", "f16", "bf16" },
  head_dims = { 64, 128 },
  masks = { "none", "causal" },
  families = {
    cpu = { isas = { "aarch64" } },
    sm80 = { archs = { 87 } },
  },
  exclude = { { family = "sm80", pass = "dec", dtype = "f32", reason = "decode on GPUs is for 16-bit dtypes" } },
}
