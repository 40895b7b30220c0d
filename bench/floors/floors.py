#!/usr/bin/env python3
"""What bounds each measured cell on an H200 from below, and the share of that bound that was reached: a calculation over files of peers_gpu.py.

    python3 bench/floors/floors.py --csv FILE bench/results/h200_grid_2026-11-23.csv ...      the floors of Glint's rows of these files
    python3 bench/floors/floors.py --tables bench/results/h200_floors_2026-11-23.csv          the tables of docs/floors.md
    python3 bench/floors/floors.py --plot FILE.png --of grid,decode FILE.csv                  bars of the shares (needs matplotlib)
    cuobjdump -sass NAME.cubin | python3 bench/floors/floors.py --count NAME                  a line of bench/results/h200_instructions.csv

A floor is the time that one part of the machine needs for a call if it is never idle and nothing else takes time, at the clock that the file
has for the cell, or at 1,980 MHz where it has none: the most that the card runs at, so the share is then the least that it can be. A kernel's floor
is the longest of its parts, a call's the sum of its kernels' and of their launches. Counted is what the row of the table does: whole tiles, hidden
halves on the diagonal too, and a multiprocessor has whole tiles. What a row does is in gen/templates/sm90a_*.lua and sm80_dec.cu.lua.
"""

import argparse
import collections
import csv
import functools
import pathlib
import re
import sys

INSTRUCTIONS = pathlib.Path(__file__).resolve().parents[1] / "results/h200_instructions.csv"

# The machine. "Guide" is the table of arithmetic throughput, compute capability 9.0, in NVIDIA's CUDA C++ Programming
# Guide.
MULTIPROCESSORS = 132  # NVIDIA H200 data sheet; tests/gpu/run_backend.sh promises prints it
MOST_MHZ = 1980  # the same
TENSOR = 4096  # operations in 16 bits a clock: 989.4 TFLOP/s on 132 multiprocessors at 1,830 MHz in NVIDIA's H100 architecture paper
EXPONENTIALS = 16  # a clock: Guide
SCHEDULERS = 4  # instructions of a warp a clock: Guide, "Compute Capability 9.x"
ALU = 64  # threads a clock: comparisons, maxima, integers, logic, conversions: Guide. Multiply-adds: 128, as many as are issued
SHARED = 128  # bytes a clock: 32 banks of 4 bytes, Guide
L2 = 64  # bytes a clock and multiprocessor. Assumed: NVIDIA gives no number for Hopper. No cell comes near it
L2_BYTES = 50e6  # H100 architecture paper
MEMORY = 4.8e12  # bytes a second: H200 data sheet
LAUNCH = 0.7e-6  # a kernel in a graph: bench/results/decode_notes.md, "What is left"

COLUMNS = ["file", "pass", "mask", "head_dim", "seqlen_q", "seqlen_k", "batch", "heads_q", "heads_kv", "variant", "mhz", "ms"]
PARTS = ["tensor", "exponentials", "issue", "alu", "shared", "l2", "memory"]
OWN_COLUMNS = [part + "_us" for part in PARTS] + ["launch_us", "floor_us", "limit", "share"]

Cell = collections.namedtuple("Cell", "which mask dim queries keys batch heads heads_kv window variant")
Row = collections.namedtuple("Row", "schedule m n")  # of the table: a tile of m x n


def row_of(variant):
    """What the name of a variant says of its tile."""
    found = re.fullmatch(r"(?:fwd|bwd|dec)_\w+__sm\w+?_(?:(short|fused|split|s\d)(?:b\d)?_)?m(\d+)n(\d+)", variant)
    return found and Row(found[1] or "persistent", int(found[2]), int(found[3]))


# ---- what is visible -------------------------------------------------------------------------------------------------


def keys_of(cell, query):
    """[first, end) of the keys that a query sees. The diagonal ends at the last query and key."""
    if cell.mask == "none":
        return 0, cell.keys
    end = query + cell.keys - cell.queries + 1
    first = max(0, end - cell.window) if cell.window else 0
    return first, max(first, min(end, cell.keys))


def blocks(cell, query, rows, n):
    """How many blocks of n keys some of `rows` queries see."""
    if query >= cell.queries:
        return 0
    first, end = keys_of(cell, query)[0], keys_of(cell, min(query + rows, cell.queries) - 1)[1]
    return max(0, -(-end // n) - first // n)


def query_blocks(cell, key, rows, m):
    """How many blocks of m queries see some of `rows` keys."""
    if cell.mask == "none":
        return -(-cell.queries // m)
    offset = cell.keys - cell.queries
    first = max(0, key - offset)
    last = min(cell.queries, key + rows - 1 - offset + cell.window) - 1 if cell.window else cell.queries - 1
    return max(0, last // m - first // m + 1)


# ---- work of a tile, in clocks of a multiprocessor and bytes ---------------------------------------------------------


@functools.lru_cache(maxsize=None)
def counts():
    with open(INSTRUCTIONS, newline="", encoding="ascii") as file:
        return {(line["variant"], line["kernel"]): line for line in csv.DictReader(file)}


def instructions(cell, kernel):
    """Issued, and of these the ALU's, for a warp and a step of the inner loop. A row with a window has those of the causal row of its dims."""
    table = counts()
    names = [cell.variant, re.sub("_band__", "_causal__", cell.variant)]
    near = sorted(name for name, _ in table if re.match(re.sub("_band__.*", "_causal__", cell.variant), name))
    for name in names + near:
        if (name, kernel) in table:
            found = table[name, kernel]
            scale = row_of(cell.variant).n / row_of(name).n if cell.which == "fwd" else 1
            return int(found["instructions"]) * scale, int(found["alu"]) * scale
    return 0, 0


def step(cell, kernel, warpgroups, scores, products, shared, l2):
    """The parts of a step. products: multiply-adds; shared, l2: bytes."""
    issued, alu = instructions(cell, kernel)
    return {
        "tensor": 2 * products / TENSOR,
        "exponentials": scores / EXPONENTIALS,
        "issue": issued * 4 * warpgroups / SCHEDULERS,
        "alu": alu * 4 * warpgroups * 32 / ALU,
        "shared": shared / SHARED,
        "l2": l2 / L2,
    }


def add(total, part, times):
    for name, clocks in part.items():
        total[name] = total.get(name, 0.0) + clocks * times


def forward_tile(cell, row, query):
    """One tile of queries. A warpgroup has 64 and leaves out blocks that none of them sees; the loader brings all of the tile's."""
    d, n = cell.dim, row.n
    total = {}
    # of a warpgroup: Q, K and V from shared memory
    own = step(cell, "", 1, 64 * n, 2 * 64 * n * d, (64 + 2 * n) * d * 2, 0)
    for at in range(query, query + row.m, 64):
        add(total, own, blocks(cell, at, 64, n))
    add(total, {"shared": 2 * n * d * 2 / SHARED, "l2": 2 * n * d * 2 / L2}, blocks(cell, query, row.m, n))  # K and V arrive
    add(total, {"shared": row.m * d * 2 / SHARED, "l2": 2 * row.m * d * 2 / L2}, 1)  # Q arrives, O leaves from registers
    return total


def fused_block(cell, row, key):
    """dK and dV of a block of keys, and parts of dQ. Two warpgroups of half the keys."""
    d, m, n = cell.dim, row.m, row.n
    of_one = (n // 2 * d + m * d) * 2  # an operand of 64 keys and one of the queries: S^T, dP^T
    of_one = 2 * of_one + 2 * m * d * 2  # dV and dK, whose other operand is in registers
    of_one += (64 * n + n * 64) * 2  # 64 x 64 of dQ: dS and K
    shared = 2 * of_one + 2 * m * d * 2 + m * n * 2 + 2 * m * d * 4  # Q and dO arrive, dS is stored, dQ is stored and leaves
    one = step(cell, "", 2, m * n, 5 * m * n * d, shared, 2 * m * d * 2 + m * d * 4)
    total = {}
    add(total, one, query_blocks(cell, key, n, m) * (cell.heads // cell.heads_kv))
    return total


def role_block(cell, row, key):
    """dK and dV of a block of keys: one warpgroup makes S^T and dV, one dP^T and dK, and P goes from one to the other in float32."""
    d, m, n = cell.dim, row.m, row.n
    shared = 2 * (n * d + 2 * m * d) * 2 + 2 * m * d * 2 + 2 * m * n * 4
    one = step(cell, "", 2, m * n, 4 * m * n * d, shared, 2 * m * d * 2)
    total = {}
    add(total, one, query_blocks(cell, key, n, m) * (cell.heads // cell.heads_kv))
    return total


def query_tile(cell, query):
    """dQ of 128 queries in a kernel of its own: blocks of 64 keys."""
    d, m, n = cell.dim, 128, 64
    shared = 2 * (2 * (64 + n) * d + n * d) * 2 + 2 * n * d * 2
    one = step(cell, "_dq", 2, m * n, 3 * m * n * d, shared, 2 * n * d * 2)
    total = {}
    add(total, one, blocks(cell, query, m, n))
    return total


# ---- kernels and calls -----------------------------------------------------------------------------------------------


def makespan(jobs, copies):
    """The least time of jobs that each have one multiprocessor: `jobs` come `copies` times. Of the longest k M + 1, some multiprocessor has k + 1."""
    ordered = sorted((job for job in jobs for _ in range(copies)), reverse=True)
    most = sum(ordered) / MULTIPROCESSORS
    for k in range((len(ordered) - 1) // MULTIPROCESSORS + 1):
        last = k * MULTIPROCESSORS
        most = max(most, sum(ordered[last - k : last + 1]))
    return most


def kernel(tiles, copies, mhz, memory):
    """Seconds of each part of a kernel: its tiles' clocks, and bytes from memory at least."""
    parts = {name: makespan([tile[name] for tile in tiles], copies) / mhz * 1e-6 for name in PARTS[:-1]}
    return dict(parts, memory=memory / MEMORY)


def kernels(cell, mhz):
    """The kernels of a call, each its parts' seconds."""
    row = row_of(cell.variant)
    q, k = (cell.batch * heads * length * cell.dim * 2 for heads, length in ((cell.heads, cell.queries), (cell.heads_kv, cell.keys)))
    rows = cell.batch * cell.heads * cell.queries * 4  # LSE, delta
    if cell.which == "dec":
        return [decode(cell, row, mhz, 2 * k)]
    if cell.which == "fwd":
        tiles = [forward_tile(cell, row, at) for at in range(0, cell.queries, row.m)]
        return [kernel(tiles, cell.batch * cell.heads, mhz, 2 * q + 2 * k + rows)]
    delta = dict({name: 0.0 for name in PARTS}, memory=(2 * q + 2 * rows) / MEMORY)
    block = fused_block if row.schedule == "fused" else role_block
    of_keys = [block(cell, row, at) for at in range(0, cell.keys, row.n)]
    own = kernel(of_keys, cell.batch * cell.heads_kv, mhz, (3 if row.schedule == "fused" else 2) * q + 4 * k + 2 * rows)
    if row.schedule == "fused":
        return [delta, own]
    tiles = [query_tile(cell, at) for at in range(0, cell.queries, 128)]
    return [delta, own, kernel(tiles, cell.batch * cell.heads, mhz, 3 * q + 2 * k + 2 * rows)]


def decode(cell, row, mhz, stored):
    """One query a sequence: the query heads of a key head are the tile's 8 rows. Calls after one another find K and V in L2 when they fit there."""
    steps = cell.batch * cell.heads_kv * -(-cell.keys // row.n) * -(-(cell.heads // cell.heads_kv) // row.m)
    read = row.n * cell.dim * 2 * 2
    # K and V arrive, and are loaded once; four warps, as many as a warpgroup has
    one = step(cell, "", 1, row.m * row.n, 2 * row.m * row.n * cell.dim, 2 * read, read)
    parts = {name: clocks * steps / MULTIPROCESSORS / mhz * 1e-6 for name, clocks in one.items()}
    return dict(parts, memory=stored / MEMORY if stored > L2_BYTES else 0.0)


def floors(cell, mhz):
    """Seconds of each part, of the launches and of the whole, and the part that is longest where most of the time is."""
    each = kernels(cell, mhz)
    limits = [max(parts, key=parts.get) for parts in each]
    longest = max(range(len(each)), key=lambda i: each[i][limits[i]])
    total = {name: sum(parts[name] for parts in each) for name in PARTS}
    launch = len(each) * LAUNCH
    whole = sum(parts[limit] for parts, limit in zip(each, limits, strict=True)) + launch
    return dict(total, launch=launch, floor=whole, limit=limits[longest] if whole > 2 * launch else "launch")


def cells_of(path, window):
    """Glint's rows of a file that this program has floors for."""
    with open(path, newline="", encoding="ascii") as file:
        for line in csv.DictReader(file):
            if line["impl"] != "glint" or row_of(line["variant"]) is None:
                continue
            name = line["variant"]
            yield line, Cell(name[:3], line["mask"], int(line["head_dim"]), int(line["seqlen_q"]), int(line["seqlen_k"]), int(line["batch"]),
                             int(line["heads_q"]), int(line["heads_kv"]), window if "_band_" in name and name[:3] != "dec" else 0, name)


def compute(paths, window):
    out = []
    for path in paths:
        for line, cell in cells_of(path, window):
            mhz = float(line.get("mhz") or MOST_MHZ)
            of = floors(cell, mhz)
            own = {f"{name}_us": f"{of[name] * 1e6:.2f}" for name in PARTS + ["launch", "floor"]}
            row = dict({name: line[name] for name in COLUMNS if name in line}, **own)
            row.update({"file": pathlib.Path(path).name, "pass": cell.which, "mask": "window" if cell.window else cell.mask, "mhz": f"{mhz:.0f}",
                        "limit": of["limit"], "share": f"{of['floor'] * 1e3 / float(line['ms']):.3f}"})
            out.append(row)
    return out


# ---- instructions ----------------------------------------------------------------------------------------------------

FMA = {"FFMA", "FMUL", "FADD"}
OTHER = {  # neither: tensor cores, exponentials, memory, barriers, branches, moves
    "HGMMA", "HMMA", "MUFU", "LDS", "STS", "LDSM", "STSM", "LDG", "STG", "LDGSTS", "LDGDEPBAR", "DEPBAR", "LDC", "ULDC", "SYNCS", "BAR", "FENCE",
    "WARPSYNC", "WARPGROUP", "BSSY", "BSYNC", "BRA", "NOP", "YIELD", "SHFL", "VOTE", "VOTEU", "REDUX", "ELECT", "S2R", "S2UR", "CS2R", "R2UR", "MOV",
}


def parse(text):
    """The instructions of each function in cuobjdump's listing: (address, operation, target of a branch or None, whether it has a predicate)."""
    functions, name = {}, None
    for line in text.splitlines():
        if "Function :" in line:
            name = line.split("Function :")[1].strip()
            functions[name] = []
        found = re.match(r"\s+/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+\s+)?(\w+)([^;]*);", line)
        if found and name:
            to = re.search(r"0x([0-9a-f]+)", found[4]) if found[3] == "BRA" else None
            may = found[2] is not None or bool(re.search(r"U?P\d|\.DIV", found[4]))
            functions[name].append((int(found[1], 16), found[3], int(to[1], 16) if to else None, may))
    return functions


def shortest(body):
    """The operations on the shortest way through a loop's body: what is skipped is the mask's, or a rare branch."""
    index = {address: i for i, (address, *_) in enumerate(body)}
    best = [None] * (len(body) + 1)
    best[0] = (0, None)

    def reach(to, length, at):
        if best[to] is None or length < best[to][0]:
            best[to] = (length, at)

    for i, (address, _, target, may) in enumerate(body):
        if best[i] is None:
            continue
        ahead = target is not None and target > address
        if ahead and target in index:
            reach(index[target], best[i][0] + 1, i)
        if may or not ahead:
            reach(i + 1, best[i][0] + 1, i)
    way, at = [], len(body)
    while best[at][1] is not None:
        at = best[at][1]
        way.append(body[at][1])
    return way


def inner_loop(body):
    """The shortest loop that has matrix products, and the exponentials of a step."""
    found = []
    for i, (address, _, target, _) in enumerate(body):
        if target is not None and target <= address:
            loop = [line for line in body[: i + 1] if line[0] >= target]
            operations = [line[1] for line in loop]
            if operations.count("MUFU") >= 8 and ("HGMMA" in operations or "HMMA" in operations):
                found.append(loop)
    return min(found, key=len) if found else None


def count(variant, text):
    for name, body in parse(text).items():
        loop = inner_loop(body)
        if loop is None:
            continue
        operations = collections.Counter(shortest(loop))
        fma = sum(operations[name] for name in FMA)
        alu = sum(number for name, number in operations.items() if name not in FMA | OTHER and not name.startswith("U"))
        suffix = name.split(variant)[-1] if variant in name else ""
        print(",".join(map(str, [variant, suffix, sum(operations.values()), fma, alu, operations["MUFU"], operations["HGMMA"] + operations["HMMA"]])))


# ---- tables and pictures ---------------------------------------------------------------------------------------------

NAMES = {"fwd": "forward", "bwd": "backward", "dec": "decode"}


def groups(rows):
    """Rows of a file, pass, mask, head_dim and ratio of heads, in the order of the file."""
    found = {}
    for row in rows:
        found.setdefault((row["file"], row["pass"], row["mask"], int(row["head_dim"]), int(row["heads_q"]) // int(row["heads_kv"])), []).append(row)
    return found


def length(row):
    q, k = row["seqlen_q"], row["seqlen_k"]
    if row["pass"] == "dec":
        return f"{row['batch']} x {k}"
    return q if q == k else f"{q}:{k}"


def tables(rows):
    """For each file: a line a group, a column a length; the share and what limits."""
    out, files = [], {}
    for key, group in groups(rows).items():
        files.setdefault(key[0], []).append((key, group))
    for file, found in files.items():
        columns = list(dict.fromkeys(length(row) for _, group in found for row in group))
        out += ["", f"`{file}`", "", "| pass | mask | head_dim | heads | " + " | ".join(columns) + " |", "|---" * (4 + len(columns)) + "|"]
        found.sort(key=lambda entry: (entry[0][1] != "fwd", entry[0][2] != "none", entry[0][3:]))
        for (_, which, mask, dim, ratio), group in found:
            by_length = {length(row): f"{float(row['share']):.2f} {row['limit']}" for row in group}
            out.append(f"| {NAMES[which]} | {mask} | {dim} | {ratio}:1 | " + " | ".join(by_length.get(column, "") for column in columns) + " |")
    return "\n".join(out[1:])


COLOURS = {"tensor": "#3d78d8", "exponentials": "#e69138", "issue": "#cc4125", "alu": "#a61c00", "shared": "#6aa84f", "l2": "#8e7cc3",
           "memory": "#45818e", "launch": "#999999"}


def plot(rows, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = sorted(groups(rows).items(), key=lambda entry: (list(NAMES).index(entry[0][1]), entry[0][2] != "none", *entry[0][3:]))
    across = 3
    down = -(-len(found) // across)
    figure, axes = plt.subplots(down, across, figsize=(3.9 * across, 2.0 * down + 1.1), squeeze=False, sharey=True)
    for axis in axes.flat[len(found) :]:
        axis.set_visible(False)
    for axis, ((_, which, mask, dim, ratio), group) in zip(axes.flat, found):
        for i, row in enumerate(group):
            share = float(row["share"])
            axis.bar(i, share, color=COLOURS[row["limit"]], width=0.75)
            axis.text(i, share + 0.02, f"{share:.2f}", ha="center", fontsize=8)
        axis.set_xticks(range(len(group)), [length(row) for row in group], fontsize=7, rotation=25 if which == "dec" else 0)
        heads = f", {ratio}:1 heads" if which == "dec" else ""
        axis.set_title(f"{NAMES[which]}{'' if which == 'dec' else ', ' + mask}, head_dim {dim}{heads}", fontsize=9)
        axis.set_ylim(0, 1.15)
        axis.axhline(1, color="#bbbbbb", linewidth=0.8)
        axis.tick_params(axis="y", labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    used = [name for name in COLOURS if any(row["limit"] == name for row in rows)]
    handles = [plt.Rectangle((0, 0), 1, 1, color=COLOURS[name]) for name in used]
    figure.legend(handles, [f"{name} limits" for name in used], loc="lower center", ncols=len(used), fontsize=9, frameon=False)
    figure.suptitle("NVIDIA H200, bf16: share of the floor that is reached, by length (decode: batch x keys)", fontsize=11)
    figure.tight_layout(rect=(0, 0.4 / figure.get_figheight(), 1, 1 - 0.1 / figure.get_figheight()))
    figure.savefig(path, dpi=100)


def read(path):
    with open(path, newline="", encoding="ascii") as file:
        return list(csv.DictReader(file))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="of peers_gpu.py; with --tables and --plot of this program")
    parser.add_argument("--csv", help="where the floors go; else to standard output")
    parser.add_argument("--window", type=int, default=512, help="of rows of the mask band, which a file does not say")
    parser.add_argument("--tables", action="store_true")
    parser.add_argument("--plot", metavar="PNG")
    parser.add_argument("--of", default="", help="with --tables and --plot: only cells of files with one of these words in their name")
    parser.add_argument("--count", metavar="VARIANT", help="instructions of the inner loops, from cuobjdump's listing on standard input")
    arguments = parser.parse_args()
    if arguments.count:
        count(arguments.count, sys.stdin.read())
        return
    if not arguments.files:
        parser.error("no file")
    if arguments.tables or arguments.plot:
        words = arguments.of.split(",")
        rows = [row for path in arguments.files for row in read(path) if any(word in row["file"] for word in words)]
        if arguments.tables:
            print(tables(rows))
        if arguments.plot:
            plot(rows, arguments.plot)
        return
    out = open(arguments.csv, "w", newline="", encoding="ascii") if arguments.csv else sys.stdout
    writer = csv.DictWriter(out, COLUMNS + OWN_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(compute(arguments.files, arguments.window))


if __name__ == "__main__":
    main()
