-- Head dims that nobody measured, for one architecture of each class of shared memory: 99 KiB (86), 163 (87) and 227
-- (100, whose SASS needs the most registers). Only compiled: the tiles that the generator proposes must not spill. 40
-- is no whole fragment, 112 is as near to the limit of registers as any, and at 208 two warps share columns. 320 is
-- the largest that decode has on all of them.
return {
  passes = { "fwd", "bwd", "dec" },
  dtypes = { "f32", "bf16" },
  head_dims = { 40, 72, 112, 208, 320 },
  masks = { "causal" },
  families = { sm80 = { archs = { 86, 87, 100 } } },
  exclude = {
    { dtype = "f32", head_dim = { 40, 208 }, reason = "16 bits need the most registers" },
    { pass = { "fwd", "bwd" }, head_dim = 320, reason = "they have no room for it" },
    { pass = "dec", dtype = "f32", reason = "decode on GPUs is for 16-bit dtypes" },
    { pass = "dec", head_dim = { 72, 112 }, reason = "the least and the most registers are enough" },
  },
}
