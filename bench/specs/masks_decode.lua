-- The rows of decode that bench/gpu/masks.py compares trees with: those of a spec without trees.
return {
  passes = { "dec" },
  dtypes = { "f16" },
  head_dims = { 64, 128 },
  masks = { "causal" },
  families = { sm80 = { archs = { 90 } } },
}
