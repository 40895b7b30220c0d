-- The library in which bench/gpu/steps_bias.py measures steps with something added to their scores.
return {
  passes = { "fwd" }, dtypes = { "bf16" }, head_dims = { 64, 128 }, masks = { "causal", "interval" }, biases = { "none", "alibi", "tensor" },
  families = {
    sm80 = { archs = { 90 }, tiles = { fwd = {
      { step = true, m = 64, n = 128, biases = { "none" } },
      { step = true, m = 64, n = 128, biases = { "alibi", "tensor" }, max_logit = true },
    } } },
    sm90a = { archs = { "90a" }, tiles = { fwd = {
      [64] = { { m = 128, n = 128, schedule = "step", stages = 4 } },
      [128] = { { m = 128, n = 128, schedule = "step" } },
    } } },
  },
  exclude = {
    { bias = "none", mask = "interval", reason = "not timed" }, { bias = "tensor", mask = "interval", reason = "one is enough" },
    { family = "sm80", mask = "interval", head_dim = 64, reason = "one is enough" } },
}
