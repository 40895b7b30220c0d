-- Head dims that nobody measured beside the measured ones above them, for sm_90: bench/gpu/dims_gpu.py says how to run
-- it.
return {
  passes = { "fwd", "bwd" },
  dtypes = { "bf16" },
  head_dims = { 40, 64, 72, 80, 96, 112, 128, 160, 192, 224, 256 },
  masks = { "none", "causal" },
  families = { sm80 = { archs = { 90 } } },
}
