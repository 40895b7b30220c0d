-- Trees of new tokens, in float32 beside the rows of the masks that they can say, whose bits they have; with a bias, in
-- bf16 and with keys of 8 bits alone. For tests only. What an instruction set has of its own for the other masks,
-- tests/specs/odd.lua shows. Of a GPU's rows the tiles are small, and each way of sharing work among warps is there.
return {
  passes = { "fwd", "dec" },
  dtypes = { "f32", "bf16" },
  kv_dtypes = { "same", "i8" },
  head_dims = { 32, 40 },
  masks = { "none", "causal", "band", "interval", "tree" },
  softcaps = { "none", "softcap" },
  biases = { "none", "tensor" },
  families = {
    cpu = { isas = { "x86_64_v3", "x86_64_v4", "aarch64" }, head_dims = { 40 }, max_logit = true },
    sm80 = {
      archs = { 80, 90 },
      passes = { "fwd" },
      kv_dtypes = { "same" },
      masks = { "tree" },
      biases = { "none" },
      device_lengths = true,
      device_ragged = true,
      device_pages = true,
      tiles = {
        fwd = {
          [32] = { { m = 32, n = 32, warps = 4, d_split = 2 } },
          [40] = { { m = 32, n = 32, warps = 2 } },
        },
      },
    },
  },
  exclude = {
    { dtype = "bf16", mask = { "none", "causal", "band", "interval" }, reason = "float32 has all masks" },
    { kv_dtype = "i8", dtype = "bf16", reason = "one dtype is enough" },
    { kv_dtype = "i8", mask = { "none", "causal", "band", "interval" }, reason = "tests/specs/odd.lua has them" },
    { bias = "tensor", dtype = "bf16", reason = "float32 is enough" },
    { bias = "tensor", kv_dtype = "i8", reason = "tests/specs/bias.lua has it" },
    { bias = "tensor", mask = { "none", "causal", "band", "interval" }, reason = "tests/specs/bias.lua has them" },
    { family = "cpu", isa = { "x86_64_v4", "aarch64" }, mask = { "none", "causal", "band", "interval" }, reason = "x86_64_v3 has them from the same source" },
    { family = "cpu", isa = { "x86_64_v4", "aarch64" }, dtype = "bf16", reason = "x86_64_v3 has it from the same source" },
    { family = "sm80", head_dim = 32, dtype = "f32", reason = "two warps share columns in 16 bits alone" },
    { family = "sm80", head_dim = 32, softcap = "none", reason = "the other head dim has it" },
    { family = "sm80", head_dim = 40, dtype = "bf16", reason = "the other head dim has it" },
    { family = "sm80", head_dim = 40, softcap = "softcap", reason = "the other head dim has it" },
    { family = "cpu", isa = { "x86_64_v4", "aarch64" }, bias = "tensor", reason = "as above" },
  },
}
