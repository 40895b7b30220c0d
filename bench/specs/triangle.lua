-- The library that bench/gpu/triangle.py measures: triangle attention, a bias by a tensor at head_dim 32, and beside it
-- the rows without a bias. Forward in bf16 Hopper's own rows are taken.
return {
  passes = { "fwd", "bwd" },
  dtypes = { "f32", "bf16" },
  head_dims = { 32 },
  masks = { "none" },
  biases = { "none", "tensor" },
  families = {
    sm80 = { archs = { 90 } },
    sm90a = {
      archs = { "90a" },
      passes = { "fwd" },
      dtypes = { "bf16" },
      tiles = { fwd = { { m = 192, n = 128, turns = true } } },
    },
  },
}
