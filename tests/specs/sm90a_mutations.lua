-- The kernels of Hopper's that tests/hostsim/mutations/sm90a changes: every schedule and strategy, with small tiles
-- where they can be.
return {
  passes = { "fwd", "bwd" },
  dtypes = { "bf16" },
  kv_dtypes = { "same", "e4m3" },
  head_dims = { 64, 128, 192 },
  masks = { "none", "causal", "band", "interval" },
  softcaps = { "none", "softcap" },
  biases = { "none", "alibi", "tensor" },
  families = {
    sm90a = {
      archs = { "90a" },
      tiles = {
        fwd = {
          { m = 128, n = 32, turns = true, kv_dtypes = { "same" } },
          [64] = {
            { m = 128, n = 32, turns = true, kv_dtypes = { "same" } },
            { m = 64, n = 32, schedule = "short", kv_dtypes = { "same" }, blocks_per_sm = 4, masks = { "none", "interval" }, softcaps = { "none" },
              biases = { "none" } },
            { m = 64, n = 32, schedule = "short", kv_dtypes = { "same" }, blocks_per_sm = 4, masks = { "causal" }, softcaps = { "none" },
              biases = { "none", "alibi" } },
            { m = 128, n = 128, schedule = "step", span = 128, masks = { "causal" }, softcaps = { "none" }, biases = { "none" }, kv_dtypes = { "same" } },
            { m = 128, n = 128, schedule = "step", span = 128, stages = 3, masks = { "causal" }, softcaps = { "none" }, biases = { "none" },
              kv_dtypes = { "e4m3" } },
            { m = 128, n = 128, schedule = "step", span = 128, masks = { "band" }, softcaps = { "softcap" }, biases = { "none" }, kv_dtypes = { "same" } },
          },
        },
        bwd = {
          [64] = {
            { m = 128, n = 128, part_heads = 3, masks = { "causal" } }, -- of a group of four a part of one head and one of three
            { m = 128, n = 128, part_heads = 1, masks = { "none", "interval" } },
          },
          [128] = { { m = 64, n = 128 } },
          [192] = { { m = 64, n = 64 } },
        },
      },
    },
  },
  override = {
    { family = "sm90a", pass = "fwd", bias = { "alibi", "tensor" }, set = { device_ragged = true }, reason = "positions are counted in sequences" },
    { family = "sm90a", pass = "fwd", head_dim = 128, set = { device_lengths = true }, reason = "faults of the kernel that reads lengths" },
    { family = "sm90a", pass = "fwd", head_dim = 192, mask = "causal", set = { device_ragged = true }, reason = "and of the one for ragged sequences" },
    { family = "sm90a", pass = "fwd", head_dim = 64, mask = "interval", set = { device_ragged = true }, reason = "faults of rows that intervals are of" },
    { family = "sm90a", pass = "bwd", head_dim = 192, mask = "causal", bias = "none", set = { device_lengths = true, device_ragged = true },
      reason = "faults of split kernels that read lengths" },
    { family = "sm90a", pass = "bwd", mask = "interval", set = { device_lengths = true, device_ragged = true }, reason = "backward, too" },
    { family = "sm90a", pass = "bwd", head_dim = 64, mask = "causal", bias = "alibi", set = { device_ragged = true }, reason = "as forward" },
    { family = "sm90a", pass = "bwd", head_dim = { 64, 128 }, mask = "none", bias = "none",
      set = { device_lengths = true, device_ragged = true }, reason = "and of that backward" },
  },
  exclude = {
    { bias = { "alibi", "tensor" }, head_dim = 128, reason = "64 is fused, too" },
    { bias = { "alibi", "tensor" }, head_dim = 192, pass = "fwd", reason = "64 has both schedules" },
    { bias = { "alibi", "tensor" }, mask = { "band", "interval" }, reason = "a causal mask and none are enough" },
    { bias = { "alibi", "tensor" }, softcap = "softcap", reason = "as above" },
    { bias = { "alibi", "tensor" }, kv_dtype = "e4m3", reason = "a step adds nothing to scores" },
    { bias = "tensor", mask = "none", reason = "a causal mask is enough" },
    { kv_dtype = "e4m3", head_dim = { 128, 192 }, reason = "a step of 64 reads K and V of 8 bits" },
    { kv_dtype = "e4m3", mask = { "none", "band", "interval" }, reason = "under a causal mask" },
    { kv_dtype = "e4m3", softcap = "softcap", reason = "and without a softcap" },
    { mask = "none", pass = "bwd", head_dim = 192, reason = "faults without a mask are forward, but for those of sequences" },
    { mask = "none", pass = "fwd", head_dim = { 128, 192 }, reason = "one head dim without a mask is enough" },
    { mask = "none", softcap = "softcap", reason = "and none with a softcap" },
    { mask = "interval", head_dim = { 128, 192 }, reason = "64 has both schedules" },
    { mask = "interval", softcap = "softcap", reason = "as above" },
    { mask = "causal", head_dim = 128, reason = "64 and 192 have it" },
    { mask = "band", pass = "bwd", head_dim = 64, reason = "128 is fused, too, and //tests/sm90a has it" },
    { softcap = "softcap", pass = "bwd", reason = "no kernels" },
    { family = "sm90a", softcap = "softcap", mask = "band", n = 32, reason = "one mask with a softcap is enough" },
    { softcap = "softcap", head_dim = { 128, 192 }, reason = "and one head dim" },
  },
}
