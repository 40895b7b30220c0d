"""floors.py against counts made otherwise, and the files made by it: floors_test.sh runs it from the root of the repository."""

import csv
import io
import pathlib
import random
import re
import sys

sys.path.insert(0, "bench/floors")
import floors  # noqa: E402

RESULTS = pathlib.Path("bench/results")
FLOORS = RESULTS / "h200_floors_2026-11-23.csv"


def near(value, wanted, what):
    assert abs(value - wanted) <= 1e-9 * abs(wanted), f"{what}: {value}, not {wanted}"


def cell(which="fwd", mask="none", dim=128, queries=1920, keys=1920, batch=11, heads=12, heads_kv=12, window=0, how="sm90a_m192n80"):
    variant = f"{which}_bf16_d{dim}_{'band' if window else mask}__{how}"
    return floors.Cell(which, mask, dim, queries, keys, batch, heads, heads_kv, window, variant)


def sees(of, query, key):
    last = query + of.keys - of.queries
    return of.mask == "none" or (key <= last and (not of.window or key > last - of.window))


def test_blocks():
    """Blocks that are visited are those with a visible pair, but for blocks between a window's sides, which always have one."""
    chance = random.Random(1)
    for _ in range(300):
        queries, keys, m, n = (chance.randrange(1, 40) for _ in range(4))
        of = cell(mask=chance.choice(["none", "causal"]), queries=queries, keys=keys)
        if of.mask == "causal" and chance.random() < 0.5:
            of = of._replace(window=chance.randrange(1, 30))
        for query in range(0, queries, m):
            rows = range(query, min(query + m, queries))
            wanted = sum(any(sees(of, i, j) for i in rows for j in range(k, min(k + n, keys))) for k in range(0, keys, n))
            assert floors.blocks(of, query, m, n) >= wanted, (of, query)
            if not of.window or keys >= queries:
                assert floors.blocks(of, query, m, n) == wanted, (of, query, m, n)
        for key in range(0, keys, n):
            columns = range(key, min(key + n, keys))
            wanted = sum(any(sees(of, i, j) for i in range(k, min(k + m, queries)) for j in columns) for k in range(0, queries, m))
            assert floors.query_blocks(of, key, n, m) >= wanted, (of, key)
            if not of.window or keys >= queries:
                assert floors.query_blocks(of, key, n, m) == wanted, (of, key, m, n)


def test_makespan():
    near(floors.makespan([3.0], 132), 3, "one job each")
    near(floors.makespan([3.0], 133), 6, "one job more")
    near(floors.makespan([1.0, 100.0], 1), 100, "the longest job")
    near(floors.makespan([2.0, 1.0], 132), 3, "two of different length each")


def test_forward():
    """Where whole tiles go evenly over the multiprocessors the products are 4 S^2 D a head, and a causal mask has more than half of them."""
    of = cell()
    flops = 4 * of.batch * of.heads * of.queries**2 * of.dim
    whole = floors.floors(of, 1000)
    near(whole["tensor"], flops / (4096 * 132 * 1e9), "products")
    near(whole["exponentials"], of.batch * of.heads * of.queries**2 / (16 * 132 * 1e9), "exponentials")
    near(whole["memory"], of.batch * of.heads * of.queries * (4 * 2 * of.dim + 4) / 4.8e12, "bytes")
    near(whole["floor"], max(whole[part] for part in floors.PARTS) + 0.7e-6, "one kernel")
    causal = floors.floors(cell(mask="causal"), 1000)
    assert 0.5 * whole["tensor"] < causal["tensor"] < 0.6 * whole["tensor"]
    near(floors.floors(of, 2000)["tensor"], whole["tensor"] / 2, "twice the clock")
    # 128 x 128 of head_dim 128: per step 64 KB of K and V to each of two warpgroups, 16 KB of Q; 64 KB arrive
    tile = floors.forward_tile(cell(how="sm90a_m128n128", queries=128, keys=128), floors.Row("persistent", 128, 128), 0)
    near(tile["shared"], (2 * (65536 + 16384) + 65536 + 32768) / 128, "shared memory")


def test_backward():
    """Five products; in two kernels seven."""
    fused, split = floors.Row("fused", 64, 128), floors.Row("split", 64, 64)
    near(floors.fused_block(cell("bwd", queries=64, how="sm90a_fused_m64n128"), fused, 0)["tensor"], 5 * 2 * 64 * 128 * 128 / 4096, "fused")
    # of each of two warpgroups eight operands of 16 KB; Q and dO arrive, dS is stored, dQ is stored and read in float32
    shared = (2 * 8 * 16 + 32 + 16 + 2 * 32) * 1024 / 128
    near(floors.fused_block(cell("bwd", queries=64, how="sm90a_fused_m64n128"), fused, 0)["shared"], shared, "shared memory of the fused one")
    near(floors.fused_block(cell("bwd", queries=64, heads=24, how="sm90a_fused_m64n128"), fused, 0)["tensor"], 5120, "two heads of a group")
    one = cell("bwd", dim=256, queries=128, keys=64, how="sm90a_split_m64n64")
    products = 2 * 128 * 64 * 256 / 4096
    near(floors.role_block(one, split, 0)["tensor"], 4 * products, "dK and dV")
    near(floors.query_tile(one, 0)["tensor"], 3 * products, "dQ")
    assert len(floors.kernels(one, 1000)) == 3


def test_decode():
    of = cell("dec", queries=1, keys=8192, batch=64, heads=32, heads_kv=8, how="sm80_s3_m8n128")
    near(floors.floors(of, 1980)["floor"], 2 * 64 * 8 * 8192 * 128 * 2 / 4.8e12 + 0.7e-6, "K and V once")
    counted = of._replace(variant="dec_bf16_d128_causal__sm80_s3_m8n128")
    issued = 64 * 8 * 64 * floors.instructions(counted, "")[0]  # tiles of a sequence and key head, steps
    assert issued > 0
    near(floors.floors(counted, 1980)["issue"], issued / 132 / 1980e6, "four warps, one a scheduler")
    assert floors.floors(of._replace(batch=1), 1980)["memory"] == 0, "what fits into L2 is not read again"


def test_count():
    """The shortest way through the innermost loop with products."""
    lines = ["MOV R0, R1", "HGMMA.64x8x16.F32 R4, R8", *["MUFU.EX2 R2, R2"] * 8, "@P1 BRA 0x00e0", *["FMUL R3, R3, R4"] * 2, "FADD R3, R3, R4",
             "FMNMX R3, R3, R4, PT", "@!P0 BRA 0x0010", "EXIT"]
    text = "\t\tFunction : k_dq\n" + "".join(f"        /*{16 * i:04x}*/    {line} ;\n" for i, line in enumerate(lines))
    kept, sys.stdout = sys.stdout, io.StringIO()
    try:
        floors.count("k", text)
        shown = sys.stdout.getvalue()
    finally:
        sys.stdout = kept
    assert shown == "k,_dq,12,0,1,8,1\n", shown


def test_files():
    """What is kept is what the program makes, and no share is above 1."""
    with open(FLOORS, newline="", encoding="ascii") as file:
        kept = list(csv.DictReader(file))
    made = floors.compute([RESULTS / name for name in dict.fromkeys(row["file"] for row in kept)], 512)
    assert len(made) == len(kept) >= 72 + 35
    for row, wanted in zip(kept, made, strict=True):
        assert row == {name: str(wanted.get(name, "")) for name in row}, f"{FLOORS} is not what floors.py makes: {row}"
        assert 0 < float(row["share"]) <= 1, row
    text = pathlib.Path("docs/floors.md").read_text(encoding="utf-8")
    tables = floors.tables(kept)
    for table in re.split(r"\n(?=`h200)", tables):
        assert table.strip() in text, "docs/floors.md lacks a table of floors.py:\n" + table


def main():
    tests = [value for name, value in globals().items() if name.startswith("test_")]
    for test in tests:
        test()
    print(f"floors_test: {len(tests)} tests")


if __name__ == "__main__":
    main()
