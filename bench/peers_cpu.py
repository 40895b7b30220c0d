#!/usr/bin/env python3
"""Times PyTorch's and onnxruntime's CPU attention beside Glint's, on the same shapes, in turn.

    ./bazelw build //bench:glint_bench
    python3 -m venv peers && peers/bin/pip install numpy onnxruntime torch
    peers/bin/python bench/peers_cpu.py --csv bench/results/cpu.csv

Either peer may be missing: what is installed is measured. Every repetition visits every cell, and in a cell every implementation, in
an order that rotates, so that a slow minute of the machine is shared by all of them. Glint runs in a process of its own, as a
stopwatch that answers one request a line (glint_bench --serve). Inputs are [batch, seqlen, heads, head_dim] for all.
"""

import argparse
import csv
import itertools
import math
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import time

import numpy as np

COLUMNS = ["impl", "variant", "pass", "dtype", "head_dim", "mask", "seqlen_q", "seqlen_k", "batch", "heads_q", "heads_kv", "threads",
           "ms", "tflops"]


class Cell:
    """One shape, pass, mask and number of threads."""

    def __init__(self, pass_name, dtype, head_dim, mask, seqlen, batch, heads, threads):
        self.pass_name, self.dtype, self.head_dim, self.mask = pass_name, dtype, head_dim, mask
        self.seqlen, self.batch, self.heads, self.threads = seqlen, batch, heads, threads

    def request(self):
        s = self
        return f"{s.pass_name} {s.dtype} {s.head_dim} {s.mask} {s.seqlen} {s.seqlen} {s.batch} {s.heads} {s.heads} {s.threads}"

    def name(self):
        s = self
        return f"{s.pass_name} {s.dtype} d{s.head_dim} {s.mask:6} S={s.seqlen:<5} {s.threads} threads"

    def tflops(self, ms):
        flops = 4.0 * self.batch * self.heads * self.seqlen * self.seqlen * self.head_dim
        flops *= (2.5 if self.pass_name == "bwd" else 1.0) * (0.5 if self.mask == "causal" else 1.0)
        return flops / ms * 1e-9


def time_calls(call, least_ms, warm):
    """Milliseconds of one call, averaged over as many as last least_ms, after one that is not counted when warm is asked for."""
    if warm:
        call()
    calls, start = 0, time.perf_counter()
    while True:
        call()
        calls += 1
        took = 1e3 * (time.perf_counter() - start)
        if took >= least_ms:
            return took / calls


def reference(q, k, v, causal):
    """Attention of the last head of the last batch in float64; q, k, v are [batch, seqlen, heads, head_dim]."""
    q, k, v = (x[-1, :, -1, :].astype(np.float64) for x in (q, k, v))
    scores = q @ k.T / math.sqrt(q.shape[1])
    if causal:
        scores[np.triu_indices(len(q), 1)] = -np.inf
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True) @ v


def make_inputs(cell):
    random = np.random.default_rng(0)
    shape = (cell.batch, cell.seqlen, cell.heads, cell.head_dim)
    return [random.standard_normal(shape, dtype=np.float32) for _ in range(4)]


class Glint:
    name = "glint"

    def __init__(self, program, least_ms):
        self.process = subprocess.Popen([program, "--serve", "--least-ms", str(least_ms)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)

    def supports(self, cell):
        return True

    def sample(self, cell):
        self.process.stdin.write(cell.request() + "\n")
        variant, _, answer = self.process.stdout.readline().strip().partition(" ")
        if variant in ("error", ""):
            raise RuntimeError(f"glint: {answer or 'the stopwatch stopped'}")
        return variant, float(answer)


class Torch:
    name = "pytorch"

    def __init__(self, least_ms):
        import torch

        self.torch, self.least_ms, self.calls, self.last = torch, least_ms, {}, {}
        self.version = torch.__version__

    def supports(self, cell):
        return True

    def prepare(self, cell):
        torch = self.torch
        dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[cell.dtype]
        backward = cell.pass_name == "bwd"
        arrays = make_inputs(cell)
        q, k, v, dout = (torch.from_numpy(a).to(dtype).transpose(1, 2).requires_grad_(backward) for a in arrays)
        attention = torch.nn.functional.scaled_dot_product_attention
        causal = cell.mask == "causal"
        out = attention(q, k, v, is_causal=causal)
        if cell.dtype == "f32" and cell.seqlen <= 512:
            error = np.abs(out[-1, -1].detach().numpy() - reference(*arrays[:3], causal)).max()
            assert error < 1e-4, f"pytorch differs by {error}"
        if backward:
            return lambda: torch.autograd.grad(out, (q, k, v), dout, retain_graph=True)

        def forward():
            with torch.no_grad():
                attention(q, k, v, is_causal=causal)

        return forward

    def sample(self, cell):
        self.torch.set_num_threads(cell.threads)
        call = self.calls.get(cell) or self.calls.setdefault(cell, self.prepare(cell))
        ms = time_calls(call, self.least_ms, self.last.get(cell, 0) < self.least_ms)
        self.last[cell] = ms
        return "scaled_dot_product_attention", ms


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def field(number, value):
    """One field of a protocol buffer: an int as varint, a float as 32 bits, everything else as bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def onnx_model(operator, domain, attributes, shape):
    """An ONNX model of one attention node with inputs q, k, v and output o, all float32 of `shape`: as bytes, without the onnx package."""
    dims = b"".join(field(1, field(1, n)) for n in shape)
    tensor = field(1, field(1, 1) + field(2, dims))

    def value(name):
        return field(1, name) + field(2, tensor)

    node = b"".join(field(1, name) for name in "qkv") + field(2, "o") + field(4, operator) + field(7, domain)
    for name, number in attributes.items():
        kind, slot = (1, 2) if isinstance(number, float) else (2, 3)
        node += field(5, field(1, name) + field(slot, number) + field(20, kind))
    graph = field(1, node) + field(2, "attention") + b"".join(field(11, value(name)) for name in "qkv") + field(12, value("o"))
    opsets = field(8, field(1, "") + field(2, 23)) + field(8, field(1, "com.microsoft") + field(2, 1))
    return field(1, 10) + field(7, graph) + opsets


class Onnxruntime:
    """One operator of onnxruntime: its own MultiHeadAttention, or ONNX's Attention of operator set 23. Forward, float32."""

    def __init__(self, operator, least_ms):
        import onnxruntime

        self.runtime, self.operator, self.least_ms = onnxruntime, operator, least_ms
        self.name = "onnxruntime" if operator == "MultiHeadAttention" else "onnxruntime_attention23"
        self.version, self.calls, self.last = onnxruntime.__version__, {}, {}

    def supports(self, cell):
        return cell.pass_name == "fwd" and cell.dtype == "f32"

    def prepare(self, cell):
        causal = cell.mask == "causal"
        shape = (cell.batch, cell.seqlen, cell.heads * cell.head_dim)
        if self.operator == "MultiHeadAttention":
            model = onnx_model(self.operator, "com.microsoft", {"num_heads": cell.heads, "unidirectional": int(causal)}, shape)
        else:
            model = onnx_model(self.operator, "", {"q_num_heads": cell.heads, "kv_num_heads": cell.heads, "is_causal": int(causal)}, shape)
        options = self.runtime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = cell.threads, 1
        # Its threads spin while it works, as they like to, and stop when it is done: they must not run into the others' time.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        session = self.runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        arrays = make_inputs(cell)[:3]
        binding = session.io_binding()
        for name, array in zip("qkv", arrays):
            binding.bind_ortvalue_input(name, self.runtime.OrtValue.ortvalue_from_numpy(array.reshape(shape)))
        out = self.runtime.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32))
        binding.bind_ortvalue_output("o", out)
        session.run_with_iobinding(binding)
        if cell.seqlen <= 512:
            got = out.numpy().reshape(arrays[0].shape)[-1, :, -1, :]
            error = np.abs(got - reference(*arrays, causal)).max()
            assert error < 1e-4, f"{self.name} differs by {error}"
        return lambda: session.run_with_iobinding(binding)

    def sample(self, cell):
        call = self.calls.get(cell) or self.calls.setdefault(cell, self.prepare(cell))
        ms = time_calls(call, self.least_ms, self.last.get(cell, 0) < self.least_ms)
        self.last[cell] = ms
        return self.operator, ms


def find_peers(arguments):
    """What is installed; a missing peer is said once."""
    makers = [("torch", lambda: Torch(arguments.least_ms)),
              ("onnxruntime", lambda: Onnxruntime("MultiHeadAttention", arguments.least_ms)),
              ("onnxruntime", lambda: Onnxruntime("Attention", arguments.least_ms))]
    peers = []
    for package, make in makers:
        if package in arguments.without:
            continue
        try:
            peers.append(make())
            print(f"{peers[-1].name} {peers[-1].version}", file=sys.stderr)
        except ImportError as error:
            print(f"{package} is not installed here and is left out: {error}", file=sys.stderr)
    return peers


def measure(arguments, implementations, cells):
    """{(implementation's name, cell): [variant, [ms, ...]]}"""
    results, started, told = {}, time.monotonic(), 0.0
    for rep in range(arguments.reps):
        for number, cell in enumerate(cells if rep % 2 == 0 else reversed(cells)):
            able = [one for one in implementations if one.supports(cell)]
            for turn in range(len(able)):
                one = able[(turn + rep + number) % len(able)]
                time.sleep(0.01)  # the threads of the one before come to rest
                try:
                    variant, ms = one.sample(cell)
                except Exception as error:  # a peer that cannot do a cell costs that cell only
                    if one.name == "glint":
                        raise
                    print(f"{one.name}: {cell.name()}: {str(error).splitlines()[0]}", file=sys.stderr)
                    one.supports = lambda other, bad=cell, before=one.supports: other is not bad and before(other)
                    continue
                results.setdefault((one.name, cell), [variant, []])[1].append(ms)
            if time.monotonic() - told > 5:
                told = time.monotonic()
                share = (rep + (number + 1) / len(cells)) / arguments.reps
                print(f"repetition {rep + 1} of {arguments.reps}, cell {number + 1} of {len(cells)}, "
                      f"about {(told - started) * (1 / share - 1):.0f} s left", file=sys.stderr)
    return results


def report(results, cells, names):
    print(f"\n{'':40} {'glint ms':>10}" + "".join(f"{name + ' / glint':>32}" for name in names))
    worst = None
    for cell in cells:
        ours = statistics.median(results["glint", cell][1])
        line = f"{cell.name():40} {ours:10.4f}"
        for name in names:
            if (name, cell) not in results:
                line += f"{'-':>32}"
                continue
            ratio = statistics.median(results[name, cell][1]) / ours
            line += f"{ratio:32.2f}"
            if worst is None or ratio < worst[0]:
                worst = ratio, name, cell
        print(line)
    ratios = [statistics.median(results[name, cell][1]) / statistics.median(results["glint", cell][1])
              for name in names for cell in cells if (name, cell) in results]
    if ratios:
        print(f"\nglint is ahead in {sum(r > 1 for r in ratios)} of {len(ratios)} comparisons; "
              f"the closest: {worst[1]} / glint = {worst[0]:.2f} in {worst[2].name()}")


def write_csv(path, results):
    with open(path, "w", newline="", encoding="ascii") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for (name, cell), (variant, samples) in results.items():
            ms = statistics.median(samples)
            writer.writerow([name, variant, cell.pass_name, cell.dtype, cell.head_dim, cell.mask, cell.seqlen, cell.seqlen, cell.batch,
                             cell.heads, cell.heads, cell.threads, f"{ms:.6f}", f"{cell.tflops(ms):.6f}"])


def main():
    def integers(text):
        return [int(word) for word in text.split(",")]

    def words(text):
        return text.split(",")

    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--glint", default=str(root / "bazel-bin/bench/glint_bench"), help="the benchmark's program (%(default)s)")
    parser.add_argument("--pass", dest="passes", type=words, default=["fwd", "bwd"])
    parser.add_argument("--dtype", type=words, default=["f32"])
    parser.add_argument("--head-dim", type=integers, default=[64, 128])
    parser.add_argument("--mask", type=words, default=["none", "causal"])
    parser.add_argument("--seqlen", type=integers, default=[128, 512, 2048])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--threads", type=integers, default=[1, 2])
    parser.add_argument("--reps", type=int, default=7, help="repetitions; the median counts (%(default)s)")
    parser.add_argument("--least-ms", type=int, default=20, help="milliseconds that a repetition lasts at least (%(default)s)")
    parser.add_argument("--without", type=words, default=[], help="peers to leave out: torch,onnxruntime")
    parser.add_argument("--csv", help="write the results to this file")
    arguments = parser.parse_args()
    if not os.access(arguments.glint, os.X_OK):
        sys.exit(f"{arguments.glint} is not there: ./bazelw build //bench:glint_bench, or name it with --glint")

    cells = [Cell(p, t, d, m, s, arguments.batch, arguments.heads, n)
             for n, t, d, m, p, s in itertools.product(arguments.threads, arguments.dtype, arguments.head_dim, arguments.mask,
                                                       arguments.passes, arguments.seqlen)]
    peers = find_peers(arguments)
    results = measure(arguments, [Glint(arguments.glint, arguments.least_ms), *peers], cells)
    report(results, cells, [peer.name for peer in peers])
    if arguments.csv:
        write_csv(arguments.csv, results)
        print(f"written: {arguments.csv}")


if __name__ == "__main__":
    main()
