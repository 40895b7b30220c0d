-- The kernels that mutations.bzl changes: every strategy, with the smallest tiles that it can have, and once query
-- heads of a group in parts of two. Head dim 40 is not a whole fragment, and 128 is the least whose columns two warps
-- can share.
return {
  passes = { "fwd", "bwd", "dec" },
  dtypes = { "bf16" },
  kv_dtypes = { "same", "e4m3" },
  head_dims = { 32, 40, 64, 128 },
  masks = { "none", "causal", "band" },
  softcaps = { "none", "softcap" },
  biases = { "none", "tensor" },
  families = {
    sm80 = {
      archs = { 80 },
      tiles = {
        fwd = {
          { m = 32, n = 32, warps = 2, q_kept = 1 },
          [64] = { { m = 32, n = 32, warps = 2, q_kept = 1, kv_dtypes = { "same" } }, { step = true, m = 64, n = 128, span = 128, masks = { "causal" } } },
          [128] = { { m = 32, n = 32, warps = 4, d_split = 2 } },
        },
        bwd = {
          { m = 32, n = 32, warps = 4, part_heads = 2, parts_from = 0 },
          [40] = { { m = 32, n = 32, warps = 2 } },
          [64] = { { strategy = "split", m = 32, n = 32, warps = 4, dq_m = 32, dq_n = 32, dq_warps = 2 } },
          [128] = { { m = 32, n = 16, warps = 4, d_split = 2 } },
        },
        dec = {
          { m = 8, n = 64, stages = 2, chunk_steps = 1 },
          [32] = { { m = 8, n = 128, stages = 2, chunk_steps = 1 } }, -- where pages have as many rows as a warp copies, and fewer
          [64] = { { m = 8, n = 128, stages = 2, chunk_steps = 1 } },
        },
      },
    },
  },
  exclude = {
    { bias = "tensor", head_dim = { 32, 64, 128 }, reason = "one head dim of biases is enough" },
    { bias = "tensor", mask = { "none", "band" }, reason = "and one mask" },
    { bias = "tensor", softcap = "softcap", reason = "without a softcap" },
    { bias = "tensor", pass = "dec", reason = "and for many queries" },
    { softcap = "softcap", head_dim = { 32, 64, 128 }, reason = "one head dim of softcaps is enough" },
    { softcap = "softcap", mask = { "none", "band" }, reason = "and one mask" },
    { mask = "band", pass = { "fwd", "bwd" }, head_dim = { 32, 64, 128 }, reason = "one head dim of windows is enough" },
    { pass = "dec", kv_dtype = "e4m3", head_dim = 128, reason = "of 16 bits one with pages, one without and one of ragged sequences" },
    { pass = "dec", kv_dtype = "same", head_dim = 32, reason = "the one of 8 bits" },
    { pass = "dec", kv_dtype = "e4m3", head_dim = { 40, 64 }, reason = "the others" },
    { pass = "fwd", kv_dtype = "e4m3", head_dim = { 32, 40, 128 }, reason = "a step's alone" },
    { pass = "fwd", kv_dtype = "e4m3", mask = { "none", "band" }, reason = "and under one mask" },
  },
  override = {
    { family = "sm80", pass = "fwd", head_dim = 40, mask = "causal", set = { max_logit = true }, reason = "faults of the largest logit" },
    { family = "sm80", pass = "fwd", mask = "band", set = { device_lengths = true, device_ragged = true }, reason = "faults of the kernels that read lengths" },
    { family = "sm80", pass = "fwd", head_dim = 32, mask = "causal", set = { device_lengths = true, device_pages = true, device_ragged = true },
      reason = "and of those that find K and V in pages" },
    { family = "sm80", pass = "bwd", head_dim = 64, mask = "causal", set = { device_ragged = true }, reason = "and of those backward" },
    { family = "sm80", pass = "bwd", head_dim = 64, mask = "none", set = { device_lengths = true }, reason = "and of a padded batch's" },
    { family = "sm80", pass = "dec", head_dim = { 32, 64 }, set = { device_pages = true }, reason = "faults of those that find K and V in pages" },
    { family = "sm80", pass = "dec", head_dim = { 32, 128 }, set = { device_ragged = true }, reason = "and of the one for ragged sequences" },
  },
}
