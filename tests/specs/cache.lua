-- What a cache of 8 bits is appended to and served with: for tests only, in the same build as the library's own spec.
-- Lowest instruction sets, so that every machine runs all of it. "same" is here for the batches of a server's step
-- (ragged queries, keys in pages).
return {
  passes = { "fwd", "dec" },
  dtypes = { "f32", "f16", "bf16" },
  kv_dtypes = { "same", "i8", "e4m3" },
  head_dims = { 64 },
  masks = { "causal" },
  families = { cpu = { isas = { "x86_64", "aarch64" } } },
  exclude = {
    { dtype = { "f16", "bf16" }, pass = "fwd", reason = "forward of float32 is enough" },
    { dtype = { "f16", "bf16" }, kv_dtype = { "same", "e4m3" }, reason = "in 16 bits decode of int8 is enough: new rows have another dtype" },
    { dtype = "f32", kv_dtype = "e4m3", pass = "fwd", reason = "of e4m3 decode is enough" },
  },
}
