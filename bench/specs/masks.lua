-- The library that bench/gpu/masks.py measures: intervals, trees and ALiBi beside the masks that they are compared
-- with. float16 has rows of sm80 alone and bfloat16 of sm90a, so that a call's dtype says which family runs it.
return {
  passes = { "fwd", "bwd", "dec" },
  dtypes = { "f16", "bf16" },
  head_dims = { 64, 128 },
  masks = { "none", "causal", "interval", "tree" },
  biases = { "none", "alibi" },
  families = {
    sm80 = { archs = { 90 }, dtypes = { "f16" } },
    sm90a = { archs = { "90a" }, passes = { "fwd", "bwd" }, dtypes = { "bf16" } },
  },
  exclude = {
    { family = "sm90a", mask = "tree", reason = "a step alone reads one there" },
    { bias = "alibi", mask = { "none", "interval", "tree" }, reason = "ALiBi is measured under a causal mask" },
    { pass = "bwd", family = "sm80", head_dim = 128, reason = "one head_dim is enough" },
  },
}
