-- Rows of sm90a whose gradients bench/gpu/masks.py compares bit by bit: intervals beside the masks that they can say.
return {
  passes = { "fwd", "bwd" },
  dtypes = { "bf16" },
  head_dims = { 64, 128 },
  masks = { "none", "causal", "band", "interval" },
  families = { sm90a = { archs = { "90a" } } },
  exclude = { { pass = "fwd", mask = { "none", "causal", "band" }, reason = "O and LSE are those of an interval's row for all" } },
}
