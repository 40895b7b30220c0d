#!/usr/bin/env python3
"""The floor of the kernels for AMX, by adding up their stages: a calculation, nothing is timed.

    python3 bench/amx_floor.py            clocks for 16 queries by 16 keys, and floating-point operations a clock of a core

AMX and AVX-512 are taken not to overlap. Clocks of the tile instructions are those of Intel's Optimization Reference Manual (chapter on AMX); vector
instructions go two a clock, and are counted in lib/cpu/amx.h and the templates.
"""

MULTIPLY, LOAD, STORE = 16, 8, 16  # TDPBF16PS; TILELOADD from the first-level cache; TILESTORED
PORTS = 2
VECTORS = 16  # of 16 scores


def forward(dim, length):
    steps = (dim + 31) // 32
    tiles = 2 * steps
    return {
        "products": (steps + tiles / 2) * MULTIPLY,  # S^T, and O^T with half a step of keys
        "tiles moved": STORE + tiles / 16 * (LOAD + STORE),  # S; O once for 256 keys. Operands load beside the products
        # maximum 1, exponential 9, sum 1; rounding, pairing and storing two vectors 4
        "softmax": VECTORS * (11 + 4 / 2) / PORTS,
        # K copied, V in pairs and transposed; once for 1,024 queries
        "packing": (16 * steps * 2 + steps * (64 + 128)) / PORTS / (min(length, 1024) / 16),
    }


def backward(dim, length):
    steps = (dim + 31) // 32
    tiles = 2 * steps
    queries, keys = min(length, 256 if dim <= 128 else 128), 128
    return {
        "products": (2 * steps + 3 * tiles / 2) * MULTIPLY,  # S^T and dP^T; dV, dK and dQ
        "tiles moved": 2 * STORE + (tiles / (keys / 16) + 2 * tiles / (queries / 16)) * (LOAD + STORE),
        # exponential 9, LSE, minimum, delta, product 4; rounding both, and dS in pairs
        "softmax": VECTORS * (13 + (2 * 2 + 4) / 2) / PORTS,
        "packing": (2 * 16 * steps * 2 + steps * (64 + 128)) / PORTS / (length / 16),
    }


def main():
    for name, stages, products in (("forward", forward, 2), ("backward", backward, 5)):
        for dim in (64, 128, 256):
            for length in (128, 512, 2048):
                clocks = stages(dim, length)
                total = sum(clocks.values())
                shown = ", ".join(f"{stage} {value:.0f}" for stage, value in clocks.items())
                print(f"{name:8} d{dim:<3} S={length:<4} {shown}; together {total:.0f}: {products * 2 * 256 * dim / total:.0f} a clock")


if __name__ == "__main__":
    main()
