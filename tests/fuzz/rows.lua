-- The rows that are fuzzed: one of each pass, of 16 bits and with K and V in 8, on any CPU of the architecture.
return {
  passes = { "fwd", "bwd", "dec" },
  dtypes = { "f32", "bf16" },
  kv_dtypes = { "same", "i8" },
  head_dims = { 8 },
  masks = { "band" },
  families = { cpu = { isas = { "x86_64", "aarch64" } } },
  exclude = { { kv_dtype = "i8", dtype = "bf16", reason = "float32 has it" } },
}
