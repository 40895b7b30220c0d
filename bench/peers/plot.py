#!/usr/bin/env python3
"""Draws TFLOP/s by sequence length, one line an implementation, from the CSV files of glint_bench and peers_*.py.

    python3 bench/peers/plot.py bench/results/*.csv --out plots --format svg
    python3 bench/peers/plot.py bench/results/cpu_decode*.csv --decode --out plots
    python3 bench/peers/plot.py bench/results/h200_decode_library_2026-11-22.csv --decode --name h200 --title "NVIDIA H200"

One picture for each dtype, number of threads and number of query heads for one key head; in it one panel for each pass, mask and
head_dim. With --decode it is GB/s of K and V by keys, or by their bytes where batches differ, one picture for each number of threads; in it one
panel for each dtype, row of heads and head_dim.
"""

import argparse
import csv
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

COLOURS = {"glint": "#cc4125", "pytorch": "#3d78d8", "onnxruntime": "#6aa84f", "onnxruntime_attention23": "#b6d7a8",
           "ggml": "#e69138", "cudnn": "#6aa84f", "fa2": "#3d78d8", "fa3": "#8e7cc3", "efficient": "#e69138"}
LABELS = {"glint": "Glint", "pytorch": "PyTorch", "fa2": "FlashAttention-2 (PyTorch)", "cudnn": "cuDNN (PyTorch)", "fa3": "FlashAttention-3",
          "efficient": "memory-efficient (PyTorch)", "onnxruntime_attention23": "onnxruntime, Attention"}


def read(paths, decode):
    """Rows with seqlen_q == seqlen_k, or those of decode; the columns may come in any order."""
    rows = []
    for path in paths:
        with open(path, newline="", encoding="ascii") as file:
            for row in csv.DictReader(file):
                if ("gbytes_s" in row or row["seqlen_q"] == "1" if decode else row["seqlen_q"] == row["seqlen_k"]) and float(row["ms"]) > 0:
                    rows.append(with_bytes(row) if decode else row)
    return rows


def with_bytes(row):
    """The row with the megabytes of its K and V, and GB/s where the file has none: K and V in the dtype."""
    size = 2 * int(row["batch"]) * int(row["heads_kv"]) * int(row["seqlen_k"]) * int(row["head_dim"]) * (4 if row["dtype"] == "f32" else 2)
    return {"gbytes_s": size / float(row["ms"]) * 1e-6, **row, "megabytes": round(size / 1e6)}


def draw_panel(axis, rows, x="seqlen_q", y="tflops"):
    for impl in sorted({row["impl"] for row in rows}, key=lambda name: (name != "glint", name)):
        points = {}
        for row in rows:
            if row["impl"] == impl:  # several variants on one shape: the fastest
                points[int(row[x])] = max(points.get(int(row[x]), 0), float(row[y]))
        lengths = sorted(points)
        axis.plot(lengths, [points[n] for n in lengths], marker="o", markersize=3.5, linewidth=2 if impl == "glint" else 1.2,
                  color=COLOURS.get(impl), label=LABELS.get(impl, impl))
    axis.set_xscale("log", base=2)
    lengths = sorted({int(row[x]) for row in rows})
    axis.set_xticks(lengths, [str(n) for n in lengths], **({"fontsize": 7, "rotation": 60} if x == "megabytes" else {"fontsize": 8}))
    axis.tick_params(axis="y", labelsize=8)
    axis.grid(color="#e3e3e3")
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def draw(rows, title):
    across = sorted({int(row["head_dim"]) for row in rows})
    down = sorted({(row["pass"], row["mask"]) for row in rows}, reverse=True)
    figure, axes = plt.subplots(len(down), len(across), figsize=(3.4 * len(across) + 0.3, 2.5 * len(down) + 0.9), squeeze=False, sharey="row")
    for axis_row, (which, mask) in zip(axes, down, strict=True):
        for axis, head_dim in zip(axis_row, across, strict=True):
            draw_panel(axis, [r for r in rows if (r["pass"], r["mask"], int(r["head_dim"])) == (which, mask, head_dim)])
            axis.set_title(f"{which}, {'causal' if mask == 'causal' else 'no mask'}, head_dim {head_dim}", fontsize=9)
    return finish(figure, axes, title, "sequence length", "TFLOP/s")


def draw_decode(rows, title):
    def place(row):
        return int(row["heads_q"]), int(row["heads_kv"]), int(row["head_dim"])

    across = sorted(set(map(place, rows)), key=lambda at: (at[2], at[0] // at[1], at))
    x, name = ("seqlen_k", "keys") if len({row["batch"] for row in rows}) == 1 else ("megabytes", "MB of K and V")
    down = [dtype for dtype in ("f32", "f16", "bf16", "f16/i8", "bf16/i8", "f32/i8") if any(row["dtype"] == dtype for row in rows)]
    figure, axes = plt.subplots(len(down), len(across), figsize=(2.6 * len(across) + 0.3, 2.3 * len(down) + 0.9), squeeze=False, sharey=True)
    for axis_row, dtype in zip(axes, down, strict=True):
        for axis, at in zip(axis_row, across, strict=True):
            draw_panel(axis, [r for r in rows if r["dtype"] == dtype and place(r) == at], x, "gbytes_s")
            axis.set_title(f"{dtype}, {at[0]}:{at[1]} heads, head_dim {at[2]}", fontsize=8)
    return finish(figure, axes, title, name, "GB/s of K and V")


def finish(figure, axes, title, x, y):
    """What the axes are, and one legend for all panels."""
    for axis in axes[:, 0]:
        axis.set_ylabel(y, fontsize=8)
        axis.set_ylim(bottom=0)
    for axis in axes[-1]:
        axis.set_xlabel(x, fontsize=8)
    handles = {}
    for axis in axes.flat:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.suptitle(title, fontsize=11)
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncols=len(handles), fontsize=9, frameon=False)
    figure.tight_layout(rect=(0, 0.35 / figure.get_figheight(), 1, 1))
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", nargs="+", help="files to draw, together")
    parser.add_argument("--decode", action="store_true", help="a query against a cache: files of --decode")
    parser.add_argument("--out", default=".", help="folder for the pictures")
    parser.add_argument("--name", default="attention", help="what the pictures' names start with")
    parser.add_argument("--title", default="Attention", help="what the titles start with, such as the machine")
    parser.add_argument("--format", choices=["png", "svg"], default="png")
    arguments = parser.parse_args()
    rows = read(arguments.csv, arguments.decode)
    if not rows:
        sys.exit("nothing to draw: no row " + ("of decode" if arguments.decode else "with equal lengths and a time"))
    pathlib.Path(arguments.out).mkdir(parents=True, exist_ok=True)
    plt.rcParams["svg.hashsalt"] = "glint"  # the same numbers, the same bytes
    def key(row):
        threads = int(row["threads"])
        return ("decode", threads, 1) if arguments.decode else (row["dtype"], threads, int(row["heads_q"]) // int(row["heads_kv"]))

    for what, threads, group in sorted(set(map(key, rows))):
        suffix = (f"_t{threads}" if threads else "") + (f"_gqa{group}" if group > 1 else "")
        path = pathlib.Path(arguments.out) / f"{arguments.name}_{what}{suffix}.{arguments.format}"
        title = f"{arguments.title}, {what}" + (f", {threads} thread{'s' if threads > 1 else ''}" if threads else "")
        title += f", {group} query heads for one key head" if group > 1 else ""
        figure = (draw_decode if arguments.decode else draw)([row for row in rows if key(row) == (what, threads, group)], title)
        metadata = {"Date": None} if arguments.format == "svg" else None
        figure.savefig(path, dpi=110, metadata=metadata)
        plt.close(figure)
        print(path)


if __name__ == "__main__":
    main()
