-- The library that bench/triangle.py measures: triangle attention, a bias by a tensor at head_dim 32, and beside it the
-- rows without a bias.
return {
  passes = { "fwd", "bwd" },
  dtypes = { "f32", "bf16" },
  head_dims = { 32 },
  masks = { "none" },
  biases = { "none", "tensor" },
  families = { sm80 = { archs = { 90 } } },
}
