#!/usr/bin/env python3
"""The classic test and the classic plot of a FlashAttention in PyTorch.

    python3 examples/pytorch/classic.py                       both, on the GPU if there is one
    python3 examples/pytorch/classic.py --test --device cpu
    python3 examples/pytorch/classic.py --plot classic.png --csv classic.csv

Test: float32 tensors of B, H, N, D = (1, 1, 128, 32), (1, 1, 128, 64), (1, 1, 128, 128), (32, 8, 69, 128), causal and not, O and the three
gradients against scaled_dot_product_attention, absolute tolerance 5e-3. What the library was built without is said and fails the test: on a GPU
the default spec has no head_dim 32, and ./bazelw build --repo_env=GLINT_SPEC=spec/full.lua //examples/pytorch:libglint_shared.so makes all.
Plot: B = 32, H = 4, D = 128, N = 512 ... 8192, causal, forward and backward, TFLOP/s beside PyTorch's.
"""

import argparse
import csv
import itertools
import pathlib
import statistics
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import glint_torch as glint  # noqa: E402

SHAPES = [(1, 1, 128, 32), (1, 1, 128, 64), (1, 1, 128, 128), (32, 8, 69, 128)]
TOLERANCE = 5e-3
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def sdpa(q, k, v, causal):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


def test(device):
    """The number of comparisons that failed and of cases that were not run."""
    failed = compared = missing = 0
    for (b, h, n, d), causal in itertools.product(SHAPES, [False, True]):
        torch.manual_seed(0)
        q, k, v = (torch.randn(b, h, n, d, device=device, requires_grad=True) for _ in range(3))
        dout = torch.randn(b, h, n, d, device=device)
        want = sdpa(q, k, v, causal)
        want = [want, *torch.autograd.grad(want, (q, k, v), dout)]
        try:
            got = glint.attention(q, k, v, causal=causal)
        except glint.GlintError as error:
            print(f"({b}, {h}, {n}, {d}) {'causal' if causal else 'full':6}  not run: {str(error).splitlines()[0]}")
            missing += 1
            continue
        got = [got, *torch.autograd.grad(got, (q, k, v), dout)]
        errors = [(x - y).abs().max().item() for x, y in zip(got, want)]
        wrong = [not error <= TOLERANCE for error in errors]
        failed, compared = failed + sum(wrong), compared + len(wrong)
        print(f"({b}, {h}, {n}, {d}) {'causal' if causal else 'full':6}  " + "  ".join(
            f"{name} {error:.1e}{' FAILED' if bad else ''}" for name, error, bad in zip(("o", "dq", "dk", "dv"), errors, wrong)))
    print(f"{compared} comparisons, {failed} above {TOLERANCE}" + (f"; {missing} cases not run" if missing else ""))
    return failed + missing


def milliseconds(call, device, calls=12):
    """The median of some calls, after two that are not counted."""
    if device == "cpu":
        times = []
        for _ in range(5):
            start = time.perf_counter()
            call()
            times.append(1e3 * (time.perf_counter() - start))
        return statistics.median(times[1:])
    events = [torch.cuda.Event(enable_timing=True) for _ in range(calls + 3)]
    for event in events:
        event.record()
        call()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in itertools.pairwise(events[2:]))


def measure(device, dtype, batch, heads, head_dim, lengths, causal):
    """Rows of (implementation, pass, seqlen, ms, TFLOP/s)."""
    rows = []
    for n in lengths:
        q, k, v = (torch.randn(batch, heads, n, head_dim, device=device, dtype=dtype, requires_grad=True) for _ in range(3))
        dout = torch.randn_like(q)
        flops = 4.0 * batch * heads * n * n * head_dim * (0.5 if causal else 1.0)
        for name, attention in [("glint", lambda: glint.attention(q, k, v, causal=causal)), ("pytorch", lambda: sdpa(q, k, v, causal))]:
            with torch.no_grad():
                forward = milliseconds(attention, device)
            out = attention()
            backward = milliseconds(lambda: torch.autograd.grad(out, (q, k, v), dout, retain_graph=True), device)
            del out
            for which, ms, times in [("fwd", forward, 1.0), ("bwd", backward, 2.5)]:
                rows.append((name, which, n, ms, times * flops / ms * 1e-9))
                print(f"{name:8} {which} N={n:<5} {ms:9.3f} ms {rows[-1][4]:7.1f} TFLOP/s", flush=True)
    return rows


def plot(path, rows, title):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True)
    for axis, (which, label) in zip(axes, [("fwd", "forward"), ("bwd", "backward")]):
        for name, text, colour in [("glint", "Glint", "#cc4125"), ("pytorch", "PyTorch scaled_dot_product_attention", "#3d78d8")]:
            points = [(n, rate) for impl, w, n, _, rate in rows if (impl, w) == (name, which)]
            axis.plot(*zip(*points), marker="o", color=colour, label=text)
        axis.set_xscale("log", base=2)
        lengths = sorted({row[2] for row in rows})
        axis.set_xticks(lengths, [str(n) for n in lengths])
        axis.set_title(label)
        axis.set_xlabel("N")
        axis.grid(color="#e3e3e3")
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("TFLOP/s")
    axes[0].set_ylim(bottom=0)
    axes[0].legend(frameon=False)
    figure.suptitle(title, fontsize=11)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    print(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--test", action="store_true", help="the test alone")
    parser.add_argument("--plot", metavar="PNG", help="the plot alone, to this file (both: classic.png)")
    parser.add_argument("--csv", help="the plot's numbers")
    parser.add_argument("--dtype", choices=DTYPES, default="f32", help="of the plot")
    parser.add_argument("--full", action="store_true", help="the plot without a mask")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lengths", type=lambda text: [int(word) for word in text.split(",")], default=[512, 1024, 2048, 4096, 8192])
    options = parser.parse_args()

    failed = 0 if options.plot else test(options.device)
    if options.test:
        return bool(failed)
    rows = measure(options.device, DTYPES[options.dtype], options.batch, 4, 128, options.lengths, not options.full)
    where = torch.cuda.get_device_name() if options.device != "cpu" else f"CPU, {torch.get_num_threads()} threads"
    plot(options.plot or "classic.png", rows, f"Attention, B={options.batch}, H=4, D=128, {'full' if options.full else 'causal'}, {options.dtype}, {where}")
    if options.csv:
        with open(options.csv, "w", newline="", encoding="ascii") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["impl", "pass", "seqlen", "ms", "tflops"])
            writer.writerows((*row[:3], f"{row[3]:.6f}", f"{row[4]:.6f}") for row in rows)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
