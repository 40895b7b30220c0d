-- Everything that the library has tiles for, for every architecture: far more than one product needs.
-- spec/attention.lua says what the fields mean, gen/tiles/ has the tiles.
return {
  passes = { "fwd", "bwd", "dec" },
  dtypes = { "f32", "f16", "bf16" },
  head_dims = { 32, 64, 96, 128, 192, 256 },
  masks = { "none", "causal" },
  families = {
    cpu = { isas = { "x86_64", "x86_64_v3", "x86_64_v4", "x86_64_bf16", "x86_64_amx", "aarch64" } },
    sm80 = { archs = { 80, 86, 87, 89, 90, 100, 110, 120 } },
    sm90a = { archs = { "90a" }, passes = { "fwd", "bwd" }, dtypes = { "f16", "bf16" }, head_dims = { 64, 96, 128, 192, 256 } },
  },
  exclude = {
    { family = "sm80", pass = "dec", dtype = "f32", reason = "decode on GPUs is for 16-bit dtypes" },
    { family = "sm90a", pass = "bwd", head_dim = 96, reason = "its backward has slabs of 64 columns: sm80's goes there" },
  },
}
