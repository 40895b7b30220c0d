-- The library with which `bench/gpu/masks.py alibi` measures ALiBi in Hopper's forward rows beside the rows without it.
return {
  passes = { "fwd" },
  dtypes = { "f16", "bf16" },
  head_dims = { 64, 128 },
  masks = { "none", "causal", "band", "interval" },
  biases = { "none", "alibi" },
  families = { sm90a = { archs = { "90a" }, device_lengths = true, device_ragged = true } },
  exclude = { { dtype = "f16", mask = { "none", "band", "interval" }, reason = "bf16 has them from the same source" } },
}
