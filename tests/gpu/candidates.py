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


def fwd(head_dim, warps, tile_m, tile_n, blocks_per_sm, q_kept, pipelined=False, **more):
    more.setdefault("tag", ("i" if pipelined else "") + "q%d" % q_kept)
    return list(spread(BASE_F, head_dim=head_dim, warps=warps, tile_m=tile_m, tile_n=tile_n, blocks_per_sm=blocks_per_sm, q_kept=q_kept,
                       pipelined=pipelined, **more))


def bwd(head_dim, warps, tile_m, tile_n, part_m, dq_row_tiles, blocks_per_sm, **more):
    more.setdefault("tag", "p%d" % part_m)
    more.setdefault("d_split", 1)
    both = [dict(BASE_B), dict(BASE_B, ordered=False)]
    out = []
    for base in both:
        tag = more["tag"] + ("" if base["ordered"] else "un")
        out += spread(base, head_dim=head_dim, warps=warps, tile_m=tile_m, tile_n=tile_n, part_m=part_m, dq_row_tiles=dq_row_tiles,
                      blocks_per_sm=blocks_per_sm, **dict(more, tag=tag))
    return out


CANDIDATES = (
    fwd(64, 4, 128, 32, 2, 4, True) + fwd(64, 4, 128, 48, 2, 4, True) + fwd(64, 4, 128, 48, 2, 2, True) + fwd(64, 4, 128, 64, 2, 4)
    + fwd(128, 4, 128, 64, 2, 0) + fwd(128, 4, 128, 48, 2, 0) + fwd(128, 4, 128, 48, 2, 0, True) + fwd(128, 4, 128, 48, 2, 2)
    + fwd(256, 8, 128, 64, 1, 4) + fwd(256, 8, 128, 64, 1, 8) + fwd(256, 8, 128, 32, 1, 8, True)
    + fwd(72, 4, 128, 32, 2, 0, True) + fwd(128, 4, 128, 64, 2, 0, dtypes=("f16",)) + fwd(96, 4, 128, 64, 2, 0)
    + bwd(128, 8, 64, 128, 64, 2, 1) + bwd(128, 8, 64, 128, 32, 2, 1)
    + bwd(64, 8, 64, 256, 32, 2, 1) + bwd(64, 4, 64, 128, 32, 2, 2)
    + bwd(256, 8, 64, 64, 32, 2, 1, d_split=2)
)
