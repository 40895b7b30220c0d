-- Ragged sequences on GPUs, for bench/peers_gpu.py --group ragged and for glint_bench --ragged: the default spec's 16-bit GPU kernels, forward and
-- decode, and those of sm80 for lengths of the device, K and V in pages, and ragged sequences with both.
return {
  passes = { "fwd", "dec" },
  dtypes = { "bf16" },
  head_dims = { 64, 128, 256 },
  masks = { "none", "causal" },
  families = {
    cpu = { isas = { "x86_64_v3" } },
    sm80 = { archs = { 80, 90 }, device_lengths = true, device_pages = true, device_ragged = true },
    sm90a = { archs = { "90a" }, passes = { "fwd" }, device_ragged = true },
  },
}
