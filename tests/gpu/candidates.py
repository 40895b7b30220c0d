"""Tiles of the sm80 family that are being compared. Spread over dtypes and masks here, so that a line is one tile."""
BASE_F = {"pass": "fwd", "stages": 2}
BASE_B = {"pass": "bwd", "stages": 2, "strategy": "fused", "ordered": True}


def spread(base, masks=("none", "causal"), dtypes=("bf16",), **tile):
    for dtype in dtypes:
        for mask in masks:
            c = dict(base, dtype=dtype, causal=mask == "causal", **tile)
            how = "m%dn%dw%d" % (c["tile_m"], c["tile_n"], c["warps"]) + tile.get("tag", "")
            c["name"] = "%s_%s_d%d_%s__sm80_%s" % (c["pass"], dtype, c["head_dim"], mask, how)
            yield c


def fwd(head_dim, warps, tile_m, tile_n, blocks_per_sm, q_in_registers, **more):
    return list(spread(BASE_F, head_dim=head_dim, warps=warps, tile_m=tile_m, tile_n=tile_n, blocks_per_sm=blocks_per_sm,
                       q_in_registers=q_in_registers, **more))


def bwd(head_dim, warps, tile_m, tile_n, part_m, dq_row_tiles, blocks_per_sm, k_in_registers=False, v_in_registers=False, **more):
    return list(spread(dict(BASE_B, **more.pop("base", {})), head_dim=head_dim, warps=warps, tile_m=tile_m, tile_n=tile_n, part_m=part_m,
                       dq_row_tiles=dq_row_tiles, blocks_per_sm=blocks_per_sm, k_in_registers=k_in_registers,
                       v_in_registers=v_in_registers, **more))


CANDIDATES = (
    fwd(64, 4, 128, 64, 3, False, tag="c3") + fwd(64, 4, 128, 64, 2, True, tag="qr") + fwd(64, 8, 128, 64, 2, True, tag="qr")
    + fwd(128, 4, 128, 64, 2, False) + fwd(128, 8, 128, 64, 2, True, tag="qr") + fwd(128, 4, 128, 32, 2, True, tag="qr")
    + fwd(128, 8, 256, 64, 1, False)
    + fwd(256, 8, 128, 64, 1, True, tag="qr") + fwd(256, 8, 128, 64, 1, False)
    + fwd(96, 4, 128, 64, 2, False) + fwd(72, 4, 128, 64, 2, False) + fwd(128, 4, 128, 64, 2, False, dtypes=("f16",))
    + bwd(128, 8, 64, 128, 64, 2, 1) + bwd(128, 8, 64, 128, 32, 2, 1, tag="p32") + bwd(128, 8, 64, 128, 64, 2, 1, tag="un", base={"ordered": False})
    + bwd(64, 4, 64, 128, 32, 2, 2, False, True, tag="vr") + bwd(64, 4, 64, 128, 32, 2, 2) + bwd(64, 8, 64, 128, 64, 1, 1, True, True, tag="kvr")
    + bwd(64, 4, 64, 128, 32, 2, 2, tag="un", base={"ordered": False})
    + bwd(96, 6, 64, 96, 64, 2, 1)
)
