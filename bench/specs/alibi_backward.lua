-- The library with which `bench/gpu/alibi_backward.py` measures ALiBi in Hopper's backward rows, beside the rows
-- without it and those of sm80.
return {
  passes = { "bwd" },
  dtypes = { "bf16" },
  head_dims = { 64, 96, 128, 192 },
  masks = { "none", "causal", "band" },
  biases = { "none", "alibi" },
  families = {
    sm90a = { archs = { "90a" } },
    sm80 = { archs = { 90 }, biases = { "alibi" }, head_dims = { 64, 128 }, masks = { "none", "causal" } },
  },
}
