-- What ThreadSanitizer looks at: every pass and mask of the family that shares its work among threads. Tasks and their
-- workspace are the same for every head dim and instruction set; storage in 16 bits adds rows of the workspace, and
-- softcaps and sinks are arithmetic of one task.
return {
  passes = { "fwd", "bwd", "dec" },
  dtypes = { "f32", "bf16" },
  head_dims = { 64 },
  masks = { "none", "causal", "band" },
  softcaps = { "none", "softcap" },
  families = { cpu = { isas = { "x86_64", "aarch64" } } },
  exclude = { { dtype = "bf16", mask = { "none", "causal" }, reason = "the kernels of a band have all of their lines" } },
}
