-- The smallest useful library: float32, head dim 64, causal, on x86-64 with AVX2 or AArch64. For a size-bound
-- firmware, and as the shortest example of a spec. What every field means is said in attention.lua.
return {
  passes = { "fwd", "bwd" },
  dtypes = { "f32" },
  head_dims = { 64 },
  masks = { "causal" },
  families = { cpu = { isas = { "x86_64_v3", "aarch64" } } },
}
