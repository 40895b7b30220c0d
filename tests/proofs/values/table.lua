-- A row of each kind, for the harnesses here.
return {
  passes = { "fwd", "bwd", "dec" },
  dtypes = { "bf16" },
  kv_dtypes = { "same", "i8" },
  head_dims = { 64 },
  masks = { "causal" },
  families = {
    cpu = { isas = { "x86_64_v3" } },
    sm80 = { archs = { 80 }, kv_dtypes = { "same" }, device_lengths = true, device_ragged = true, device_pages = true },
    sm90a = { archs = { "90a" }, kv_dtypes = { "same" }, passes = { "fwd", "bwd" }, device_lengths = true, step = true },
  },
}
