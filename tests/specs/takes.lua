-- A row of every family, pass, strategy and mask, without the fields that make further kernels: what docs/limits.md's
-- table of what rows take is made from. Nothing of it is compiled.
return {
  passes = { "fwd", "bwd", "dec" },
  dtypes = { "f32", "f16", "bf16" },
  head_dims = { 64, 96, 128, 192, 256 },
  masks = { "none", "causal", "band" },
  softcaps = { "none", "softcap" },
  families = {
    cpu = { isas = { "x86_64_v3" } },
    sm80 = { archs = { 80, 90 } },
    sm90a = { archs = { "90a" }, passes = { "fwd", "bwd" }, dtypes = { "f16", "bf16" } },
  },
  exclude = {
    { family = "sm80", pass = "dec", dtype = "f32", reason = "decode on GPUs is for 16-bit dtypes" },
    { family = "sm80", dtype = "f32", head_dim = { 192, 256 }, reason = "16 bits have the same tiles and more" },
    { family = "sm90a", pass = "bwd", softcap = "softcap", reason = "no backward kernel of the family caps scores" },
  },
}
