-- What this library supports: the default. Every combination below becomes one kernel, one row of the dispatch table
-- and one test. To support something else, edit this file and rebuild; no other file changes. It is data in Lua's
-- notation and is never run. A mistake is answered with `file:line: field: what is wrong; what would be right`.
--
--   lua5.4 gen/glint.lua check             is it right, and what does it make?
--   lua5.4 gen/glint.lua list              the variants by name
--   lua5.4 gen/glint.lua explain NAME      why a variant exists (or does not), its tile and its budget
return {
  -- Forward ("fwd"), backward ("bwd"), and forward split over the keys, for few queries ("dec", for decode). A library
  -- that only infers leaves "bwd" out.
  passes = { "fwd", "bwd", "dec" },

  -- How tensors are stored. Arithmetic on CPUs is in float32 for all of them, but for the products of bf16 of
  -- AVX-512 BF16 and of AMX.
  dtypes = { "f32", "f16", "bf16" },

  -- How K and V of the forward passes may be stored: as the rest, or in 8 bits with float32 scales, "i8" (int8) and
  -- "e4m3", for caches. A list of its own that is left out is { "same" }.
  kv_dtypes = { "same" },

  -- Multiples of 8. A head dim of 112 is one more number here.
  head_dims = { 32, 64, 80, 96, 128, 256 },

  -- "causal" serves both alignments of the diagonal, top left and bottom right: the offset is known only at run time. A
  -- model with a sliding window needs "band" too. It is left out here, for it is half as many kernels of the CPU again,
  -- 60 a pass, and most models have none. In "dec" one kernel then serves all masks. "interval" is for bounds of each
  -- query that the call gives (prefixes, blocks, chunks, documents): on the CPU, in sm80, and in sm90a's "fwd".
  -- "tree" has a bit for each of the last keys beside them (speculative decoding): in "fwd" and "dec" of the CPU and
  -- of sm80, without ALiBi, and in sm80's "fwd" without a bias by a tensor; of sm90a in the row of a server's step.
  masks = { "none", "causal" },

  -- Not listed: softcaps = { "none", "softcap" }, a cap on the scores, cap tanh(s / cap), which few models have. A
  -- kernel of the CPU then serves problems with and without one; of the GPU families `sm80` has it in all passes, and
  -- `sm90a` forward: exclude its "bwd". Sinks need no word here. Nor biases = { "none", "alibi", "tensor" }: kernels
  -- of the CPU that add ALiBi or a tensor to the scores, the latter with its gradient, beside those that add nothing,
  -- and kernels of `sm80` that do so; `sm90a` adds ALiBi.

  -- A family does all of the above, or less: passes, dtypes, head_dims, masks may be given here again, shorter.
  families = {
    -- C with vector extensions. Runs on any host; also what is used when there is no GPU. One object for each ISA; the
    -- best that the CPU has is chosen when a context is opened. "x86_64_bf16" (AVX-512 BF16, on AMD's CPUs) and
    -- "x86_64_amx" (where the host sets glint_options.amx) are for bf16 alone. max_logit = true, here and in sm80,
    -- makes "fwd" and "dec" write the largest logit of each head where a problem asks for it (QK-clip, calibration).
    cpu = { isas = { "x86_64", "x86_64_v3", "x86_64_v4", "x86_64_bf16", "x86_64_amx", "aarch64" } },

    -- CUDA kernels for NVIDIA GPUs since Ampere, one cubin for each architecture: 80 is the A100, 87 the Jetson Orin,
    -- 90 the H100 and H200. 86, 89, 100, 110 and 120 are one more number each, and dropping one drops its bytes. Three
    -- fields, of both GPU families, add kernels to the rows: device_lengths = true for lengths on the device
    -- (GLINT_LENGTHS_DEVICE), device_ragged = true for ragged sequences (GLINT_LENGTHS_RAGGED), device_pages = true for
    -- K and V in pages. Which rows then take what:
    --   lua5.4 gen/glint.lua list --takes
    -- step = true adds a row of a server's step to head_dims up to 128, and up to sm_90 to 256 (docs/limits.md).
    sm80 = { archs = { 80, 87, 90 } },

    -- Warp-specialised kernels for Hopper alone, the H100 and H200, up to twice as fast there. Decode, float32, and
    -- what TMA does not take go to sm80. step = true adds a row to head_dims 64, 80, 96, 128 and 256 that takes lengths
    -- on the device, ragged sequences, pages and sinks, from one query against a cache to thousands: a server's step
    -- (docs/limits.md).
    sm90a = { archs = { "90a" }, passes = { "fwd", "bwd" }, dtypes = { "f16", "bf16" }, head_dims = { 64, 96, 128, 256 }, step = true },
  },

  -- Not listed: compress = "none". GPU kernels lie in the archive as `fatbinary --compress-mode=size` makes them, at a
  -- quarter of their bytes, and the driver unpacks them; that takes a driver of CUDA 12.4 or newer. "none" is for older
  -- drivers.

  -- Variants that the lists above would make and that are not wanted, each with its reason.
  exclude = {
    { family = "sm80", head_dim = 32, reason = "few models have it; without this line GPUs have it too" },
    { family = "sm80", pass = "bwd", head_dim = { 80, 96 }, reason = "models that have them are run more often than trained" },
    { family = "sm90a", pass = "bwd", head_dim = 96, reason = "as in sm80" },
    { family = "sm80", pass = "fwd", dtype = "f32", head_dim = { 80, 96 }, reason = "models that have them are run in 16 bits" },
    { family = "cpu", pass = "bwd", head_dim = 80, reason = "models that have it are run more often than trained" },
    { family = "sm90a", schedule = "step", head_dim = 256, reason = "four kernels more are 0.2 MB; without this line it has a step, too" },
    { family = "sm80", dtype = "f32", head_dim = 256, reason = "a block holds few rows of it" },
    { family = "sm80", pass = "dec", dtype = "f32", reason = "decode on GPUs is for 16-bit dtypes" },
  },

  -- Not here, and seldom needed: `tiles` of your own in a family, and `override`, which changes fields of some:
  -- gen/README.md.
}
