#!/usr/bin/env python3
"""Times several libraries beside each other, FlashAttention-3 and cuDNN on the same tensors, in turn, in one process: what a design gains over the
kernel before it, on a card that is as warm for both. As bench/peers/peers_gpu.py, by its shapes and its clock.

    python3 bench/gpu/designs.py --group gqa,grid --head-dim 128 --pass fwd --mask causal --seqlen 512,1024 --csv FILE base=a.so new=b.so tiles=c.so:all

Each library is NAME=FILE, a shared object of //examples/pytorch; with :all every row of its table that fits a shape is timed. One without a row for
a shape is left out there. The bar is the first library.
"""

import argparse
import csv
import importlib.util
import os
import pathlib
import sys
import types

ROOT = pathlib.Path(__file__).resolve().parents[2]


def module(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    found = importlib.util.module_from_spec(spec)
    sys.modules[name] = found
    spec.loader.exec_module(found)
    return found


def load(word):
    """(name, bench/peers/peers_gpu.py over that library, whether all of its rows are asked for). A module loads one library."""
    name, file = word.split("=", 1)
    file, _, every = file.partition(":")
    os.environ["GLINT_LIBRARY"] = file
    module("glint_torch", ROOT / "examples/pytorch/glint_torch.py").library()
    return name, module("peers_gpu", ROOT / "bench/peers/peers_gpu.py"), every == "all"


def implementations(libraries, shape):
    for name, peers, every in libraries:
        for one in peers.rows_that_fit(shape) if every else [peers.Glint(passes=tuple(shape.passes))]:
            prepare, error = one.prepare, peers.glint.GlintError

            def guarded(*arguments, prepare=prepare, error=error):
                try:
                    return prepare(*arguments)
                except error as why:
                    print(str(why).splitlines()[0][:120])
                    return {}

            one.prepare, one.library = guarded, name
            yield one


def main():
    def words(text):
        return text.split(",")

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs="+", metavar="NAME=FILE[:all]")
    parser.add_argument("--group", type=words, default=["grid"])
    for name in ("head-dim", "seqlen"):
        parser.add_argument(f"--{name}", type=lambda text: [int(word) for word in words(text)])
    parser.add_argument("--pass", dest="passes", type=words, default=["fwd", "bwd"])
    parser.add_argument("--mask", type=words, default=["none", "causal"])
    parser.add_argument("--without", type=words, default=["fa2", "efficient"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--least-ms", type=float, default=20)
    parser.add_argument("--csv")
    options = parser.parse_args()
    options.dtype = options.sustained = None
    libraries = [load(word) for word in options.libraries]
    peers = libraries[0][1]
    torch = peers.torch
    square = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    product = torch.empty_like(square)
    print(torch.cuda.get_device_name(), flush=True)
    file = open(options.csv, "w", newline="", encoding="ascii") if options.csv else None
    writer = csv.writer(file, lineterminator="\n") if file else types.SimpleNamespace(writerow=lambda row: None)
    writer.writerow(["what", "pass", "head_dim", "mask", "seqlen", "heads", "ms", "tflops", "over_best_peer"])
    wrong = []
    for shape in (shape for group in options.group for shape in peers.shapes(group, options)):
        everyone = [*implementations(libraries, shape), *(p for p in peers.peers() if p.name not in options.without)]
        measured, _, differ = peers.measure(shape, everyone, options, lambda: torch.mm(square, square, out=product))
        wrong += differ
        for which in shape.passes:
            mine = {everyone[n]: ms for (n, w), ms in measured.items() if w == which}
            best = min((ms for i, ms in mine.items() if not hasattr(i, "library")), default=float("nan"))
            first = next(iter(mine.values()), float("nan"))
            shown = []
            for i, ms in mine.items():
                label = f"{i.library}:{i.variants[which].split('__')[1]}" if hasattr(i, "library") else i.name
                shown.append(f"{label} {shape.tflops(which, ms):.0f} ({first / ms:.3f})")
                writer.writerow([label, which, shape.head_dim, shape.mask, shape.seqlen_q, f"{shape.heads_q}:{shape.heads_kv}", f"{ms:.6f}",
                                 f"{shape.tflops(which, ms):.1f}", f"{best / ms:.4f}"])
            print(f"{shape.name()} {which}  " + "  ".join(shown), flush=True)
        if file:
            file.flush()
    for sentence in wrong:
        print(f"DIFFERENT RESULTS: {sentence}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
