-- Kernels of a server's step (lib/device/step.h) with spans of 128 keys, which let small problems have many
-- of them, and under the masks and the softcap that the library's own spec has not. For tests only, in the same build.
return {
  passes = { "fwd" },
  dtypes = { "f16", "bf16" },
  kv_dtypes = { "same", "i8", "e4m3" },
  head_dims = { 40, 64, 80, 192, 256 },
  masks = { "none", "causal", "band", "interval", "tree" },
  softcaps = { "none", "softcap" },
  families = {
    sm80 = { archs = { 80 }, head_dims = { 40, 64, 80, 192, 256 }, tiles = { fwd = {
      [40] = { { step = true, m = 64, n = 128, span = 128 } },
      [64] = { { step = true, m = 64, n = 128, span = 128 } },
      [80] = { { step = true, m = 64, n = 128, span = 128 } },
      [192] = { { step = true, m = 64, n = 64, span = 128 } },
      [256] = { { step = true, m = 64, n = 32, span = 128 } },
    } } },
    sm90a = { archs = { "90a" }, head_dims = { 64, 80, 256 }, tiles = { fwd = {
      [64] = {
        { m = 128, n = 128, schedule = "step", span = 128, stages = 4, kv_dtypes = { "same" } },
        { m = 128, n = 128, schedule = "step", span = 128, stages = 3, kv_dtypes = { "i8", "e4m3" } },
      },
      [80] = { { m = 128, n = 128, schedule = "step", span = 128, stages = 3 } }, -- slabs that are not whole
      [256] = { { m = 128, n = 64, schedule = "step", span = 128 } }, -- O of the spans before in the workspace
    } } },
  },
  exclude = {
    { head_dim = 40, dtype = "f16", reason = "64 has it" },
    { head_dim = 40, mask = { "none", "band" }, reason = "the same" },
    { head_dim = 40, softcap = "softcap", reason = "the same" },
    { head_dim = 40, kv_dtype = { "i8", "e4m3" }, reason = "rows of 8 bits are copied by 16 numbers" },
    { family = "sm90a", head_dim = { 80, 256 }, kv_dtype = { "i8", "e4m3" }, reason = "a step over 8 bits has no kernel for them" },
    { family = "sm80", head_dim = 80, kv_dtype = { "same", "e4m3" }, reason = "64 has it, and 80 an odd number of chunks of int8" },
    { family = "sm80", head_dim = 80, mask = { "none", "band" }, reason = "64 has it" },
    { family = "sm80", head_dim = 192, kv_dtype = "i8", reason = "256 has it" },
    { family = "sm80", head_dim = 256, kv_dtype = "e4m3", reason = "192 has it" },
    { family = "sm80", head_dim = 192, kv_dtype = "e4m3", mask = { "band", "interval" }, reason = "the causal row is enough" },
    { family = "sm80", head_dim = 192, kv_dtype = "same", mask = { "none", "causal", "band", "tree" }, reason = "256 has them" },
    { family = "sm80", head_dim = 256, mask = { "none", "causal", "interval" }, reason = "the rows with a window and with a tree do more" },
    { family = "sm80", head_dim = 256, mask = "band", dtype = "bf16", reason = "one dtype is enough" },
    { dtype = "f16", kv_dtype = { "i8", "e4m3" }, reason = "weights times scales of V may leave the range of f16" },
    { family = "sm90a", mask = { "interval", "tree" }, kv_dtype = { "i8", "e4m3" }, reason = "a step over 8 bits has no kernel for them" },
    { family = "sm90a", mask = "none", head_dim = { 80, 256 }, reason = "64 has it, and the rows with a window have what is theirs" },
    { mask = "none", kv_dtype = { "i8", "e4m3" }, reason = "the causal rows do more" },
    { mask = { "interval", "tree" }, head_dim = { 40, 80 }, reason = "64 has them" },
    { family = "sm90a", mask = { "interval", "tree" }, head_dim = 256, reason = "kernels would spill registers" },
    { mask = { "interval", "tree" }, dtype = "f16", reason = "so has bf16" },
    { mask = "interval", kv_dtype = "i8", reason = "the one with a tree does more" },
    { mask = "tree", kv_dtype = "i8", softcap = "none", reason = "the one with a softcap does more" },
    { mask = "tree", kv_dtype = "e4m3", reason = "int8 has it" },
    { dtype = "f16", mask = { "none", "causal" }, reason = "the one with a window does more" },
    { dtype = "f16", softcap = "none", reason = "and the one with a softcap" },
    { dtype = "bf16", kv_dtype = "same", softcap = "softcap", reason = "f16 has it" },
    { kv_dtype = "i8", mask = { "none", "causal" }, softcap = "softcap", reason = "the one with a window has it" },
    { kv_dtype = "i8", mask = "band", softcap = "none", reason = "the one with a softcap does more" },
    { kv_dtype = "e4m3", softcap = "softcap", reason = "int8 has it" },
  },
}
