-- What serve_text asks of the library, and no more: causal attention of one head dim, prompts and single queries over a
-- cache in pages, on the CPU and on GPUs. Data only; spec/attention.lua explains the fields.
--
--   ./bazelw run --repo_env=GLINT_SPEC=examples/serve_text/spec.lua //examples:serve_text -- --load model.ckpt --device cuda
return {
  passes = { "fwd", "dec" },
  dtypes = { "f32", "bf16" },    -- of Q: bf16 for a cache of bf16, f32 for one of f32; for int8 f32 on CPUs, bf16 on GPUs
  kv_dtypes = { "same", "i8" },
  head_dims = { 64 },            -- of train_text's models
  masks = { "causal" },

  families = {
    cpu = { isas = { "x86_64", "x86_64_v3", "x86_64_v4", "aarch64" } },

    -- Lengths and pages change at every step, and a step is one ragged batch: kernels read them on the device.
    sm80 = { archs = { 80, 87, 90 }, device_lengths = true, device_ragged = true, device_pages = true },
  },

  exclude = {
    { family = "cpu", kv_dtype = "i8", dtype = "bf16", reason = "a cache of int8 is served with float32 queries there" },
    { family = "sm80", kv_dtype = "i8", pass = "fwd", reason = "of int8 GPUs have decode, which takes prompts too" },
    { family = "sm80", pass = "dec", dtype = "f32", reason = "decode on GPUs is for 16-bit dtypes" },
  },
}
