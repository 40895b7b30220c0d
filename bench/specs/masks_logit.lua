-- The rows that write the largest logit, which bench/gpu/masks.py compares with those of bench/specs/masks.lua that do
-- not.
return {
  passes = { "fwd" },
  dtypes = { "f16" },
  head_dims = { 64, 128 },
  masks = { "causal" },
  families = { sm80 = { archs = { 90 }, max_logit = true } },
}
