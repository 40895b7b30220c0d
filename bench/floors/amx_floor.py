#!/usr/bin/env python3
"""The floor of the kernels for AMX, by adding up their stages, and the share of it that a file of peers_cpu.py reached with one thread.

    ./bazelw run //bench/floors:amx_rates        what the stages are made of, timed
    python3 bench/floors/amx_floor.py bench/results/cpu_amx_2cores_2026-11-23.csv

AMX and AVX-512 are taken not to overlap, and tiles to be loaded and stored beside the products. Nanoseconds for 16 queries by 16 keys, without a mask.
"""

import csv
import sys

# Of amx_rates on an Intel Xeon (Sapphire Rapids class), in nanoseconds. A product is 16 clocks.
PRODUCT, WEIGHTS = 4.3, 24.5
CLOCK = PRODUCT / 16
VECTORS, PORTS = 16, 2  # of 16 scores; vector instructions go two a clock, and the shuffles of a transposition one


def packing(dim, rows, transposed):
    """K or V of 16 keys, a copy or a transposition, once for `rows` queries."""
    steps = (dim + 31) // 32
    return steps * (16 * 2 + 64 if transposed else 16) * CLOCK / (rows / 16)


def forward(dim, length):
    steps = (dim + 31) // 32
    return {
        "products": 2 * steps * PRODUCT,  # S^T, and O^T with half a step of keys
        "softmax": WEIGHTS,
        "packing": packing(dim, min(length, 1024), False) + packing(dim, min(length, 1024), True),
    }


def backward(dim, length):
    steps = (dim + 31) // 32
    return {
        "products": 5 * steps * PRODUCT,  # S^T and dP^T; dV, dK and dQ
        # exponential 7, LSE, minimum, delta, product 4; rounding both, and dS in pairs
        "softmax": VECTORS * (11 + (2 * 2 + 4) / 2) / PORTS * CLOCK,
        "packing": 2 * packing(dim, length, False) + packing(dim, length, True),
    }


def measured(path):
    """Nanoseconds for 16 queries by 16 keys, by pass, head_dim and length."""
    found = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            if row["impl"] == "glint" and "_amx_" in row["variant"] and row["mask"] == "none" and row["threads"] == "1":
                units = int(row["batch"]) * int(row["heads_q"]) * int(row["seqlen_q"]) * int(row["seqlen_k"]) / 256
                found[row["pass"], int(row["head_dim"]), int(row["seqlen_q"])] = float(row["ms"]) * 1e6 / units
    return found


def main():
    reached = measured(sys.argv[1]) if len(sys.argv) > 1 else {}
    print("| pass | head_dim | length | products | softmax | packing | together | measured | share |\n|---|---|---|---|---|---|---|---|---|")
    for name, stages in (("fwd", forward), ("bwd", backward)):
        for dim in (64, 128, 256):
            for length in (128, 512, 2048):
                times = stages(dim, length)
                total, took = sum(times.values()), reached.get((name, dim, length))
                shown = f"{took:.0f} | {100 * total / took:.0f} %" if took else "- | -"
                print(f"| {name} | {dim} | {length} | " + " | ".join(f"{t:.0f}" for t in times.values()) + f" | {total:.0f} | {shown} |")


if __name__ == "__main__":
    main()
