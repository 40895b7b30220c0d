-- Ragged sequences on GPUs, for bench/peers_gpu.py --group ragged: the default spec's 16-bit GPU kernels, forward, and one more of each of sm80.
return {
  passes = { "fwd" },
  dtypes = { "bf16" },
  head_dims = { 64, 128, 256 },
  masks = { "none", "causal" },
  families = {
    cpu = { isas = { "x86_64_v3" } },
    sm80 = { archs = { 80, 90 }, device_ragged = true },
    sm90a = { archs = { "90a" } },
  },
}
