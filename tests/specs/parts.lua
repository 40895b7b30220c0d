-- The query heads of a key head shared by several blocks, at every length: the library's own spec does it for long
-- sequences alone, which no check in the simulator reaches. One head, two or three a part, with each strategy of warps,
-- and in Hopper's kernels. And decode of K and V of 8 bits on a GPU, linear and in pages, and of head dims beyond 256,
-- which that spec has not. For tests only, in the same build as the library's own spec.
return {
  passes = { "fwd", "bwd", "dec" },
  dtypes = { "f32", "bf16" },
  kv_dtypes = { "same", "i8", "e4m3" },
  head_dims = { 40, 64, 128, 320, 512 },
  masks = { "none", "causal" },
  families = {
    sm90a = {
      archs = { "90a" },
      passes = { "bwd" },
      dtypes = { "bf16" },
      kv_dtypes = { "same" },
      head_dims = { 64, 128 },
      device_lengths = true,
      device_ragged = true,
      tiles = {
        bwd = {
          [64] = { { m = 128, n = 128, part_heads = 1 } },
          [128] = { { m = 64, n = 128, part_heads = 3 } },
        },
      },
    },
    sm80 = {
      archs = { 80, 90 },
      head_dims = { 40, 128, 320, 512 },
      device_pages = true,
      tiles = {
        fwd = {
          { dtypes = { "bf16" }, m = 32, n = 32, warps = 2 },
          { dtypes = { "f32" }, m = 32, n = 16, warps = 2 },
        },
        bwd = {
          [40] = {
            { dtypes = { "bf16" }, m = 32, n = 32, warps = 2, stages = 3, part_heads = 1, parts_from = 0 },
            { dtypes = { "f32" }, m = 32, n = 32, warps = 2, part_heads = 2, parts_from = 0 },
          },
          [128] = { { dtypes = { "bf16" }, m = 32, n = 16, warps = 4, d_split = 2, part_heads = 3, parts_from = 0 } },
        },
        dec = {
          { m = 8, n = 64, stages = 2, chunk_steps = 2 },
          [128] = { { m = 8, n = 192, stages = 2, chunk_steps = 2 } }, -- a warp's 48 keys lie across pages of 64
          [320] = { { dtypes = { "bf16" }, m = 8, n = 64, stages = 1, chunk_steps = 2 } },
          [512] = { { dtypes = { "bf16" }, m = 8, n = 64, stages = 1, chunk_steps = 2 } },
        },
      },
    },
  },
  exclude = {
    { family = "sm90a", head_dim = 64, mask = "none", reason = "the order of a causal mask is the harder one; 128 has both" },
    { dtype = "f32", head_dim = { 128, 320, 512 }, reason = "one head dim of float32 is enough, and two warps share no columns in it" },
    { kv_dtype = { "i8", "e4m3" }, pass = "fwd", reason = "of 8 bits GPUs have decode alone" },
    { kv_dtype = "same", pass = "dec", head_dim = 128, reason = "the library's own spec and that of odd head dims have it" },
    { pass = { "fwd", "bwd" }, head_dim = { 320, 512 }, reason = "no tile of these passes has room for them" },
    { kv_dtype = { "i8", "e4m3" }, head_dim = 320, reason = "one head dim beyond 256 is enough for them" },
    { kv_dtype = "e4m3", head_dim = 512, reason = "and one of the two" },
    { pass = "dec", head_dim = 40, reason = "rows of 8 bits are whole pieces of 16 bytes" },
  },
}
