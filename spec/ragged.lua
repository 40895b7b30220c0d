-- Ragged sequences on GPUs, for bench/peers/peers_gpu.py --group ragged and for glint_bench --ragged: the default
-- spec's 16-bit GPU kernels, and those of both families for lengths of the device and ragged sequences, in sm80 K and V
-- in pages, too.
return {
  passes = { "fwd", "bwd", "dec" },
  dtypes = { "bf16" },
  head_dims = { 64, 128, 256 },
  masks = { "none", "causal" },
  families = {
    cpu = { isas = { "x86_64_v3" }, passes = { "fwd", "dec" } },
    sm80 = { archs = { 80, 90 }, device_lengths = true, device_pages = true, device_ragged = true },
    sm90a = { archs = { "90a" }, passes = { "fwd", "bwd" }, device_lengths = true, device_ragged = true },
  },
}
