-- What models of the `transformers` library ask of Glint. Data only; spec/attention.lua explains the fields.
--
--   ./bazelw build --repo_env=GLINT_SPEC=examples/transformers/spec.lua //examples/pytorch:libglint_shared.so
return {
  passes = { "fwd", "bwd", "dec" },
  dtypes = { "f32", "bf16" },
  head_dims = { 32, 64, 128 },

  -- "band" is for sliding windows, and "interval" for padding, documents that share a sequence, chunks, prefixes and
  -- blocks of an image.
  masks = { "none", "causal", "band", "interval" },

  softcaps = { "none", "softcap" }, -- Gemma 2
  biases = { "none", "tensor" },    -- T5, and masks with holes

  -- For GPUs add the families that you have: sm80 = { archs = { 80, 90 } }, sm90a = { archs = { "90a" }, ... }.
  families = { cpu = { isas = { "x86_64_v3", "x86_64_v4", "x86_64_bf16", "x86_64_amx", "aarch64" } } },
}
