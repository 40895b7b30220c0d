-- Kernels for AMX that tests/amx runs with the tiles emulated: a few, as that is slow. 40 fills no whole tiles, and
-- its blocks are of two panels by few keys, so that tests cross them often; 16, in decode, is half a tile. For tests
-- only, in the same build as the library's own spec.
return {
  passes = { "fwd", "bwd", "dec" },
  dtypes = { "bf16" },
  head_dims = { 16, 40, 64, 128 },
  masks = { "none", "causal", "band" },
  softcaps = { "none", "softcap" },
  families = {
    cpu = {
      isas = { "x86_64_amx" },
      max_logit = true,
      tiles = {
        dec = { [40] = { { m = 16, n = 32 } } },
        fwd = { [40] = { { m = 64, n = 64 } } },
        bwd = { [40] = { { m = 64, n = 64, masks = { "band" } }, { m = 32, n = 64, masks = { "causal" } } }, [128] = { { m = 64, n = 128 } } },
      },
    },
  },
  exclude = {
    { head_dim = 16, pass = { "fwd", "bwd" }, reason = "decode alone reads V by rows of tiles" },
    { head_dim = 40, mask = "none", reason = "tested at 128" },
    { head_dim = 64, mask = { "none", "band" }, reason = "tested at 40 and 128, decode too" },
    { pass = { "fwd", "bwd" }, head_dim = 128, mask = { "causal", "band" }, reason = "tested at 40 and 64" },
  },
}
