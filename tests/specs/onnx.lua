-- What the node tests of the ONNX operator Attention need: heads of 8. For tests only, in the same build as the
-- library's own spec.
return {
  passes = { "fwd" },
  dtypes = { "f32", "f16", "bf16" },
  head_dims = { 8 },
  masks = { "none", "causal", "band" },
  softcaps = { "none", "softcap" },
  families = { cpu = { isas = { "x86_64", "aarch64" } } },
}
