#!/usr/bin/env python3
"""Draws TFLOP/s by sequence length, one line an implementation, from the CSV files of glint_bench and peers_*.py.

    python3 bench/plot.py bench/results/*.csv --out plots --format svg

One picture for each dtype and number of threads; in it one panel for each pass, mask and head_dim.
"""

import argparse
import csv
import pathlib
import sys

import matplotlib.pyplot as plt

COLOURS = {"glint": "#cc4125", "pytorch": "#3d78d8", "onnxruntime": "#6aa84f", "onnxruntime_attention23": "#b6d7a8",
           "cudnn": "#6aa84f", "fa2": "#3d78d8", "fa3": "#8e7cc3"}


def read(paths):
    """Rows with seqlen_q == seqlen_k; the columns may come in any order."""
    rows = []
    for path in paths:
        with open(path, newline="", encoding="ascii") as file:
            for row in csv.DictReader(file):
                if row["seqlen_q"] == row["seqlen_k"] and float(row["ms"]) > 0:
                    rows.append(row)
    return rows


def draw(rows, title):
    def panels(key):
        return sorted({key(row) for row in rows}, reverse=True)

    across = sorted(panels(lambda row: (int(row["head_dim"]), row["mask"])))
    down = panels(lambda row: row["pass"])
    figure, axes = plt.subplots(len(down), len(across), figsize=(3.4 * len(across), 2.9 * len(down) + 0.6), squeeze=False, sharey=True)
    for axis_row, pass_name in zip(axes, down, strict=True):
        for axis, (head_dim, mask) in zip(axis_row, across, strict=True):
            chosen = [r for r in rows if r["pass"] == pass_name and r["mask"] == mask and int(r["head_dim"]) == head_dim]
            for impl in sorted({row["impl"] for row in chosen}, key=lambda name: (name != "glint", name)):
                points = {}
                for row in chosen:
                    if row["impl"] == impl:  # several variants on one shape: the fastest
                        points[int(row["seqlen_q"])] = max(points.get(int(row["seqlen_q"]), 0), float(row["tflops"]))
                lengths = sorted(points)
                axis.plot(lengths, [points[n] for n in lengths], marker="o", markersize=3.5, linewidth=2 if impl == "glint" else 1.2,
                          color=COLOURS.get(impl), label=impl)
            axis.set_title(f"{pass_name}, head_dim {head_dim}, {'causal' if mask == 'causal' else 'no mask'}", fontsize=9)
            axis.set_xscale("log", base=2)
            lengths = sorted({int(row["seqlen_q"]) for row in chosen})
            axis.set_xticks(lengths, [str(n) for n in lengths], fontsize=8)
            axis.tick_params(axis="y", labelsize=8)
            axis.grid(color="#e3e3e3")
            axis.set_axisbelow(True)
            axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[-1]:
        axis.set_xlabel("sequence length", fontsize=8)
    for axis in axes[:, 0]:
        axis.set_ylabel("TFLOP/s", fontsize=8)
    axes[0][0].set_ylim(bottom=0)
    handles = {}
    for axis in axes.flat:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.suptitle(title, fontsize=11)
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncols=len(handles), fontsize=9, frameon=False)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", nargs="+", help="files to draw, together")
    parser.add_argument("--out", default=".", help="folder for the pictures")
    parser.add_argument("--name", default="attention", help="what the pictures' names start with")
    parser.add_argument("--title", default="Attention", help="what the titles start with, such as the machine")
    parser.add_argument("--format", choices=["png", "svg"], default="png")
    arguments = parser.parse_args()
    rows = read(arguments.csv)
    if not rows:
        sys.exit("nothing to draw: no row with equal lengths and a time")
    pathlib.Path(arguments.out).mkdir(parents=True, exist_ok=True)
    plt.rcParams["svg.hashsalt"] = "glint"  # the same numbers, the same bytes
    for dtype, threads in sorted({(row["dtype"], int(row["threads"])) for row in rows}):
        chosen = [row for row in rows if row["dtype"] == dtype and int(row["threads"]) == threads]
        suffix = f"_t{threads}" if threads else ""
        path = pathlib.Path(arguments.out) / f"{arguments.name}_{dtype}{suffix}.{arguments.format}"
        title = f"{arguments.title}, {dtype}" + (f", {threads} thread{'s' if threads > 1 else ''}" if threads else "")
        figure = draw(chosen, title)
        metadata = {"Date": None} if arguments.format == "svg" else None
        figure.savefig(path, dpi=130, metadata=metadata)
        plt.close(figure)
        print(path)


if __name__ == "__main__":
    main()
