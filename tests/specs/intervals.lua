-- Intervals of keys a query, in float32 beside the rows of the masks that they can say, whose bits they have; in bf16
-- and with keys of 8 bits alone. For tests only. What an instruction set has of its own for the other masks,
-- tests/specs/odd.lua shows. Of a GPU's rows the tiles are small, and each way of sharing work among warps is there.
return {
  passes = { "fwd", "bwd", "dec" },
  dtypes = { "f32", "bf16" },
  kv_dtypes = { "same", "i8" },
  head_dims = { 32, 40, 64, 72, 128 },
  masks = { "none", "causal", "band", "interval" },
  softcaps = { "none", "softcap" },
  families = {
    cpu = { isas = { "x86_64_v3", "x86_64_v4", "aarch64" }, head_dims = { 72 }, max_logit = true },
    sm80 = {
      archs = { 80, 90 },
      masks = { "interval" },
      head_dims = { 32, 40 },
      device_lengths = true,
      device_ragged = true,
      device_pages = true,
      max_logit = true,
      tiles = {
        fwd = {
          [32] = { { m = 32, n = 32, warps = 4, d_split = 2 } },
          [40] = { { m = 32, n = 32, warps = 2 } },
        },
        bwd = {
          [32] = {
            { m = 32, n = 32, warps = 4, d_split = 2, strategy = "split", dq_m = 32, dq_n = 32, dq_warps = 2 },
            { m = 32, n = 16, warps = 2, stages = 3, part_heads = 1, parts_from = 0 },
          },
          [40] = { { m = 32, n = 32, warps = 2 } },
        },
        dec = { { m = 8, n = 64, stages = 2, chunk_steps = 2 } },
      },
    },
    sm90a = {
      archs = { "90a" },
      passes = { "fwd", "bwd" },
      dtypes = { "bf16" },
      kv_dtypes = { "same" },
      masks = { "interval" },
      head_dims = { 32, 64, 128 },
      device_lengths = true,
      device_ragged = true,
      tiles = {
        fwd = {
          [32] = {
            { m = 128, n = 32, turns = true, q_slots = 2, stages = 3, softcaps = { "softcap" } },
            { m = 64, n = 32, schedule = "short", blocks_per_sm = 2, softcaps = { "none" } },
            { m = 192, n = 128, turns = true, softcaps = { "none" } },
          },
        },
        bwd = {
          [64] = { { m = 128, n = 128, part_heads = 1 } },
          [128] = { { m = 64, n = 128 } },
        },
      },
    },
  },
  exclude = {
    { dtype = "bf16", mask = { "none", "causal", "band" }, reason = "float32 has all masks" },
    { family = "cpu", kv_dtype = "i8", dtype = "bf16", reason = "one dtype is enough" },
    { family = "sm80", pass = { "fwd", "bwd" }, kv_dtype = "i8", reason = "for few queries alone" },
    { family = "sm80", pass = "dec", dtype = "f32", reason = "16 bits alone" },
    { family = "sm80", pass = "dec", head_dim = 40, kv_dtype = "i8", reason = "no whole pieces of 16 bytes" },
    { family = "sm80", pass = "dec", kv_dtype = "i8", softcap = "softcap", reason = "16 bits have it" },
    { family = "sm80", pass = "dec", head_dim = 32, kv_dtype = "same", softcap = "none", reason = "the other head dim has it" },
    { family = "sm80", pass = "dec", head_dim = 40, softcap = "softcap", reason = "the other head dim has it" },
    { kv_dtype = "i8", mask = { "none", "causal", "band" }, reason = "tests/specs/odd.lua has them" },
    { family = "sm90a", pass = "fwd", head_dim = { 64, 128 }, reason = "32 has every schedule" },
    { family = "sm90a", pass = "bwd", head_dim = 32, reason = "no kernels" },
    { family = "sm90a", pass = "bwd", softcap = "softcap", reason = "no kernels" },
    { family = "cpu", isa = { "x86_64_v4", "aarch64" }, mask = { "none", "causal", "band" }, reason = "x86_64_v3 has them from the same source" },
    { family = "cpu", isa = "x86_64_v4", dtype = "bf16", reason = "as above" },
    { family = "sm80", head_dim = 32, dtype = "f32", reason = "two warps share columns in 16 bits alone" },
    { family = "sm80", pass = { "fwd", "bwd" }, head_dim = 32, softcap = "none", reason = "the other head dim has it" },
    { family = "sm80", pass = { "fwd", "bwd" }, head_dim = 40, dtype = "bf16", reason = "the other head dim has it" },
    { family = "sm80", pass = { "fwd", "bwd" }, head_dim = 40, softcap = "softcap", reason = "the other head dim has it" },
  },
}
