-- Head dims that fill no whole vectors or tiles, 40, 72 and 104, and register tiles of fewer rows than 4; decode of
-- head dims that are one vector, 8 of AVX2 and 16 of AVX-512. For tests only, in the same build as the library's own
-- spec. Nobody measured tiles for them, so these kernels, in the simulator too, have what the generator proposes.
return {
  passes = { "fwd", "bwd", "dec" },
  dtypes = { "f32", "f16", "bf16" },
  kv_dtypes = { "same", "i8", "e4m3" },
  head_dims = { 8, 16, 40, 72, 104 },
  masks = { "none", "causal", "band" },
  softcaps = { "none", "softcap" },
  families = {
    cpu = {
      isas = { "x86_64", "x86_64_v3", "x86_64_v4", "aarch64" },
      tiles = {
        fwd = { [40] = {
          { m = 64, n = 96, isas = { "x86_64", "aarch64" } },
          { m = 48, n = 62, rows = 2, isas = { "x86_64", "aarch64" }, dtypes = { "f32" } },
          { m = 48, n = 63, rows = 3, isas = { "x86_64", "aarch64" }, dtypes = { "f32" } },
        } },
        bwd = { [40] = {
          { m = 64, n = 96, isas = { "x86_64", "aarch64" } },
          { m = 48, n = 62, rows = 2, isas = { "x86_64", "aarch64" }, dtypes = { "f32" } },
          { m = 48, n = 63, rows = 3, isas = { "x86_64", "aarch64" }, dtypes = { "f32" } },
        } },
      },
    },
    sm80 = {
      archs = { 90 },
      dtypes = { "f32", "bf16" },
      masks = { "causal", "band" },
      kv_dtypes = { "same" },
      tiles = { fwd = { [72] = { -- zeros beside whole fragments, so that two warps have as many columns each
        { m = 64, n = 32, warps = 4, softcaps = { "softcap" }, dtypes = { "bf16" }, d_split = 2, padded_dim = 96 },
      } }, bwd = { [72] = {
        { m = 32, n = 32, warps = 2, masks = { "band" }, dtypes = { "f32" } },
        { m = 32, n = 32, warps = 2, masks = { "band" }, dtypes = { "bf16" }, strategy = "split", dq_m = 32, dq_warps = 2 },
        { m = 32, n = 16, warps = 4, softcaps = { "softcap" }, dtypes = { "bf16" }, d_split = 2, padded_dim = 96 },
        { m = 32, n = 32, warps = 2, softcaps = { "softcap" }, dtypes = { "f32" }, strategy = "split", stages = 3, dq_m = 32, dq_warps = 2 },
      } } },
    },
  },
  override = {
    { family = "sm80", pass = "fwd", head_dim = 72, softcap = "none", set = { device_lengths = true, device_pages = true, device_ragged = true },
      reason = "one head dim with lengths of the device, K and V in pages, and ragged sequences" },
    { family = "sm80", pass = "bwd", head_dim = 72, strategy = "split", set = { device_lengths = true, device_ragged = true },
      reason = "and lengths and ragged sequences backward" },
    { family = "sm80", pass = "dec", dtype = "bf16", head_dim = 72, softcap = "none", set = { device_pages = true, device_ragged = true },
      reason = "and in decode" },
  },
  exclude = {
    { head_dim = { 8, 16 }, pass = { "fwd", "bwd" }, reason = "decode alone cuts a head dim into slices" },
    { head_dim = { 8, 16 }, family = "sm80", reason = "and that of the CPU" },
    { head_dim = { 8, 16 }, kv_dtype = { "i8", "e4m3" }, reason = "two dtypes of each width have all of its lines" },
    { head_dim = { 8, 16 }, dtype = "f16", reason = "as above" },
    { family = "cpu", head_dim = 8, isa = { "x86_64", "x86_64_v4", "aarch64" }, reason = "one vector of AVX2" },
    { family = "cpu", head_dim = 16, isa = { "x86_64", "x86_64_v3", "aarch64" }, reason = "one vector of AVX-512" },
    { family = "sm80", mask = "band", head_dim = { 40, 104 }, reason = "one head dim of windows is enough" },
    { family = "sm80", softcap = "softcap", head_dim = { 40, 104 }, reason = "one head dim with a softcap is enough" },
    { family = "sm80", softcap = "softcap", mask = "band", reason = "and one mask" },
    { family = "sm80", dtype = "f32", head_dim = { 40, 104 }, reason = "one head dim of float32 is enough" },
    -- Of 8 bits: decode of bf16 in both, of float32 with int8 and of float16 with e4m3; forward of bf16 with int8 in
    -- all masks, of float32 with e4m3 in one.
    { kv_dtype = "i8", dtype = "f16", reason = "every pair of dtypes twice over would be many kernels" },
    { kv_dtype = "e4m3", dtype = "f32", pass = "dec", reason = "as above" },
    { kv_dtype = "e4m3", dtype = { "f16", "bf16" }, pass = "fwd", reason = "as above" },
    { kv_dtype = "e4m3", dtype = "f32", mask = { "none", "causal" }, reason = "as above" },
    { kv_dtype = "i8", dtype = "f32", pass = "fwd", reason = "as above" },
    { kv_dtype = { "i8", "e4m3" }, pass = "fwd", head_dim = { 40, 104 }, reason = "one head dim of them is enough" },
    { kv_dtype = "i8", dtype = "bf16", pass = "dec", head_dim = { 40, 72 }, reason = "and in decode one for each pair of dtypes" },
    { kv_dtype = "i8", dtype = "f32", pass = "dec", head_dim = { 40, 104 }, reason = "as above" },
    { kv_dtype = "e4m3", pass = "dec", head_dim = 104, reason = "as above" },
    { kv_dtype = "e4m3", dtype = "bf16", pass = "dec", head_dim = 72, reason = "as above" },
    { kv_dtype = "e4m3", dtype = "f16", pass = "dec", head_dim = 40, reason = "as above" },
    { family = "cpu", pass = { "fwd", "bwd" }, mask = { "none", "band" }, head_dim = { 40, 104 },
      reason = "what a head dim leaves over is the same under every mask; dec has all masks in one" },
    { family = "cpu", dtype = "f16", pass = { "fwd", "bwd" }, head_dim = { 40, 104 }, reason = "bf16 has them from the same source" },
    { family = "cpu", dtype = "f16", pass = "dec", head_dim = 104, reason = "and decode, which widens in vectors, at 40 and 72" },
    { family = "sm80", pass = "dec", dtype = "f32", head_dim = 72, reason = "decode on GPUs is for 16-bit dtypes" },
  },
}
