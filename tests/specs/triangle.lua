-- A bias by a tensor where there is no softcap, so that it is added as scores are summed: every kind of vector that the
-- CPUs have, and a window. Beside rows without it, for //bench:bias.
return {
  passes = { "fwd", "bwd" },
  dtypes = { "f32", "f16", "bf16" },
  head_dims = { 32, 64 },
  masks = { "none", "band" },
  biases = { "none", "alibi", "tensor" },
  families = {
    cpu = { isas = { "x86_64", "x86_64_v3", "x86_64_v4" }, dtypes = { "f32", "bf16" }, head_dims = { 32 } },
    sm80 = {
      archs = { 80, 90 },
      biases = { "none", "tensor" },
      masks = { "none" },
      tiles = { bwd = { [64] = { { m = 32, n = 32, warps = 2, strategy = "split", dq_m = 32, dq_n = 32, dq_warps = 2, device_lengths = true } } } },
    },
  },
  exclude = {
    { family = "sm80", dtype = "f16", head_dim = 32, reason = "bf16 has it from the same source" },
    { family = "sm80", bias = "none", dtype = { "f32", "f16" }, reason = "what a bias costs is timed in bf16" },
    { family = "sm80", bias = "none", head_dim = 64, reason = "and at head_dim 32" },
    { family = "cpu", mask = "band", bias = { "none", "alibi" }, reason = "tests/specs/bias.lua has the second, and its kernels are the first's" },
    { family = "cpu", mask = "band", isa = { "x86_64", "x86_64_v4" }, reason = "one kind of vector is enough" },
    { family = "cpu", mask = "band", dtype = "bf16", reason = "float32 is enough" },
    { family = "cpu", dtype = "bf16", isa = { "x86_64", "x86_64_v4" }, reason = "one kind of vector is enough" },
    { family = "cpu", dtype = "bf16", bias = "alibi", reason = "float32 is enough" },
    { family = "cpu", isa = { "x86_64", "x86_64_v4" }, bias = { "none", "alibi" }, reason = "one kind of vector is enough" },
  },
}
