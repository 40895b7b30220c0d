-- Biases of scores: ALiBi beside each mask and a softcap, and beside the rows without it, whose bits slopes of 0 give;
-- bf16 and keys of 8 bits once each. For tests only. What an instruction set has of its own, tests/specs/odd.lua shows.
-- Of a GPU's rows the tiles are small, and each way of sharing work among warps is there.
return {
  passes = { "fwd", "bwd", "dec" },
  dtypes = { "f32", "bf16" },
  kv_dtypes = { "same", "i8" },
  head_dims = { 32, 40, 96, 192 },
  masks = { "none", "causal", "interval" },
  softcaps = { "none", "softcap" },
  biases = { "none", "alibi", "tensor" },
  families = {
    cpu = { isas = { "x86_64_v3", "aarch64" }, head_dims = { 40 }, max_logit = true },
    sm80 = {
      archs = { 80, 90 },
      head_dims = { 32, 40 },
      biases = { "alibi", "tensor" },
      device_lengths = true,
      device_ragged = true,
      device_pages = true,
      tiles = {
        fwd = {
          [32] = { { m = 32, n = 32, warps = 4, d_split = 2 } },
          [40] = { { m = 32, n = 32, warps = 2 } },
        },
        dec = { [32] = { { m = 8, n = 64, stages = 2, chunk_steps = 2 } } },
        bwd = {
          [32] = {
            { m = 32, n = 32, warps = 4, d_split = 2, strategy = "split", dq_m = 32, dq_n = 32, dq_warps = 2, biases = { "alibi" } },
            { m = 32, n = 32, warps = 4, d_split = 2, strategy = "split", dq_m = 32, dq_n = 32, dq_warps = 2, biases = { "tensor" },
              device_lengths = false }, -- one of the two is all that there is room for; triangle.lua has the other
            { m = 32, n = 16, warps = 2, stages = 3, part_heads = 1, parts_from = 0 },
          },
          [40] = { { m = 32, n = 32, warps = 2 } },
        },
      },
    },
    sm90a = { -- a tile of each schedule and of each strategy, beside a bias alone
      archs = { "90a" },
      passes = { "fwd", "bwd" },
      dtypes = { "bf16" },
      head_dims = { 32, 96, 192 },
      kv_dtypes = { "same" },
      biases = { "alibi", "tensor" },
      device_lengths = true,
      device_ragged = true,
      tiles = {
        fwd = {
          { m = 128, n = 48, turns = true, stages = 3 },
          { m = 64, n = 32, schedule = "short", blocks_per_sm = 4, up_to = 64, biases = { "alibi" } },
        },
      },
    },
  },
  exclude = {
    { family = "cpu", isa = "aarch64", bias = "none", reason = "x86_64_v3 has them from the same source" },
    { family = "cpu", isa = "aarch64", mask = { "none", "interval" }, reason = "as above" },
    { family = "cpu", dtype = "bf16", mask = { "none", "causal" }, reason = "float32 has all masks" },
    { family = "cpu", dtype = "bf16", bias = "none", reason = "float32 has both" },
    { family = "cpu", dtype = "bf16", kv_dtype = "i8", reason = "one dtype is enough" },
    { family = "cpu", kv_dtype = "i8", bias = "none", reason = "tests/specs/odd.lua has them" },
    { family = "cpu", kv_dtype = "i8", mask = { "none", "causal" }, reason = "one mask is enough" },
    { family = "cpu", isa = "aarch64", dtype = "bf16", reason = "float32 is enough" },
    { family = "sm80", pass = "fwd", kv_dtype = "i8", reason = "sm80 has no kernel for it" },
    { family = "sm80", head_dim = 32, dtype = "f32", reason = "two warps share columns in 16 bits alone" },
    { family = "sm80", head_dim = 32, softcap = "none", reason = "the other head dim has it" },
    { family = "sm80", head_dim = 32, mask = { "none", "interval" }, reason = "the other head dim has them" },
    { family = "sm80", head_dim = 40, dtype = "bf16", reason = "the other head dim has it" },
    { family = "sm80", head_dim = 40, softcap = "softcap", reason = "the other head dim has it" },
    { family = "sm80", head_dim = 40, mask = "causal", reason = "the other head dim has it" },
    { family = "sm80", pass = "bwd", head_dim = 40, mask = "none", reason = "an interval is enough" },
    { family = "sm90a", softcap = "softcap", mask = { "none", "interval" }, reason = "one mask with a softcap is enough" },
    { family = "sm90a", pass = "fwd", head_dim = { 96, 192 }, reason = "one head dim is enough" },
    { family = "sm90a", bias = "tensor", mask = "causal", softcap = "none", reason = "one with a softcap is enough" },
    { family = "sm90a", pass = "bwd", head_dim = 32, reason = "it has no backward kernel" },
    { family = "sm90a", pass = "bwd", softcap = "softcap", reason = "no kernels" },
    { family = "sm90a", pass = "bwd", mask = { "causal", "interval" },
      reason = "without a mask lines turn; hostsim/mutations/sm90a has a causal one of each strategy" },
    { family = "sm80", pass = "dec", head_dim = 40, reason = "decode on GPUs is for 16 bits" },
  },
}
