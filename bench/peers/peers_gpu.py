#!/usr/bin/env python3
"""Times Glint beside other GPU attention on the same tensors, in turn, in one process: FlashAttention-2, cuDNN and, in float32, the
memory-efficient kernel, each through PyTorch's scaled_dot_product_attention, and FlashAttention-3 where Python finds flash_attn_interface.

    ./bazelw build //examples/pytorch:libglint_shared.so
    python3 bench/peers/peers_gpu.py --csv bench/results/h200.csv
    python3 bench/peers/plot.py bench/results/h200.csv --name h200

The group "decode" is one query a sequence against many keys, over 35 cells, and needs a library with the pass `dec` of sm80: spec/full.lua
has it. A call takes microseconds, so 20 of them are captured in a graph; they read the same K and V, which stay in the L2 cache where they
are below some 40 MB. Its unit is TB/s of K and V. With --features Glint is timed beside itself, in any group: lengths on the device, ragged sequences, sinks, a
softcap, pages, and another dtype, where the library has rows for them. All of them run in turn, so none has a warmer card than another.

    ./bazelw build --repo_env=GLINT_SPEC=spec/full.lua //examples/pytorch:libglint_shared.so
    python3 bench/peers/peers_gpu.py --group decode --csv bench/results/h200_decode.csv

The group "ragged" is sequences of several lengths, one after another, forward: beside as much work in equal lengths, by the same row of the table
("equal_row") and by the planner's choice ("equal"), and beside FA2's and FlashAttention-3's functions for such batches. It needs rows with
device_ragged: spec/ragged.lua.

    ./bazelw build --repo_env=GLINT_SPEC=spec/ragged.lua //examples/pytorch:libglint_shared.so
    python3 bench/peers/peers_gpu.py --group ragged --csv bench/results/h200_ragged.csv

It needs PyTorch, a GPU and the shared object ($GLINT_LIBRARY, if it is not where Bazel leaves it). Apart from decode: 16384 tokens, heads = 2048 / head_dim,
[batch, seqlen, heads, head_dim] in memory, random normal data. In every round each implementation runs a few times, in an order that
rotates from round to round, so that a warm or throttled minute of the GPU is shared by all; a call is timed by CUDA events with the queue kept
full, and the median of all rounds counts. Results of all are compared before the clock starts. With --sustained SECONDS each implementation
runs that long by itself, as a GPU that is always busy does: the median of the second half counts, with the clock and the power near its end.

FLOPs: 4 B H Sq Sk D forward, 2.5 times that backward, half of it for causal; in windows and where lengths differ, of the pairs that are seen.
"""

import argparse
import csv
import ctypes
import itertools
import math
import pathlib
import statistics
import subprocess
import sys
import threading
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples/pytorch"))
import glint_torch as glint  # noqa: E402

COLUMNS = ["impl", "variant", "pass", "dtype", "head_dim", "mask", "seqlen_q", "seqlen_k", "batch", "heads_q", "heads_kv", "threads",
           "ms", "tflops", "mhz", "watts"]
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
PASSES = {"fwd": glint.FORWARD, "bwd": glint.BACKWARD}
RESULTS = {"fwd": ["o"], "bwd": ["dq", "dk", "dv"]}
TOKENS, WIDTH = 16384, 2048
SEQLENS = [512, 1024, 2048, 4096, 8192, 16384]
# name: dtypes, head dims, query heads for one key head, the peer that the bar is about, the bar
GROUPS = {
    "grid": (["bf16"], [64, 128, 256], 1, "fa2", 1.15),
    "f16": (["f16"], [64, 128, 256], 1, "fa2", 1.15),
    "f32": (["f32"], [64, 128], 1, "efficient", 3.0),
    "gqa": (["bf16"], [64, 128], 8, "fa2", 1.15),
    "mqa": (["bf16"], [64, 128], 16, "fa2", 1.15),
    "gqa4": (["bf16"], [128], 4, "best", 1.0),
    "gqa5": (["bf16"], [128], 5, "best", 1.0),
    "gqa7": (["bf16"], [128], 7, "best", 1.0),
    "gqa_windows": (["bf16"], [64, 128], 8, "fa3", 1.0),
    "dims": (["bf16"], [96, 192], 1, "fa2", 1.15),
    "lengths": (["bf16"], [64, 128, 256], 1, "best", 1.0),
    "windows": (["bf16"], [64, 128, 256], 1, "fa3", 1.0),
    "decode": (["bf16"], [64, 128, 256], None, "best", 1.0),
    "ragged": (["bf16"], [64, 128, 256], 4, "equal_row", 0.95),
}
BESIDES = ("decode", "windows", "ragged", "gqa4", "gqa5", "gqa7", "gqa_windows")  # groups that are asked for by name
# Sequences of TOKENS rows: as long as each other; each longer than the one before; one long and many short; very many.
RAGGED = [[2048] * 8, [256 + 512 * i for i in range(8)], [8192] + [128] * 64, [16 + 32 * (i % 8) for i in range(128)]]
LENGTHS = [(1000, 1000), (1024, 1024), (3333, 3333), (4096, 4096), (1024, 4096), (4096, 1024)]  # queries, keys
WINDOWS = [(8192, 512), (8192, 8192)]  # keys, of which a query sees so many before it and itself
GQA_WINDOWS = [(8192, 512), (8192, 4096), (32768, 512), (32768, 4096)]
HEAD_SCALES, ROW_SCALES = 2, 3
EIGHT_BITS = {"i8": (4, torch.int8, 127.0, ROW_SCALES), "e4m3": (5, torch.float8_e4m3fn, 448.0, HEAD_SCALES)}  # of lib/glint.h
DECODE_HEADS = [(128, 32, 8), (128, 64, 8), (64, 64, 8), (128, 32, 32), (256, 16, 8)]  # head_dim, query heads, key heads
DECODE_SIZES = [(1, 1024), (1, 8192), (1, 65536), (16, 1024), (16, 8192), (128, 2048), (64, 8192)]  # batch, keys


class Shape:
    """One dtype, head_dim, mask and length; both passes run on the same tensors."""

    passes, unit = ("fwd", "bwd"), "TFLOP/s"
    calls = 1  # that are timed as one

    def __init__(self, dtype, head_dim, mask, seqlen, group, seqlen_k=None, window=None):
        self.dtype, self.head_dim, self.mask, self.seqlen_q, self.seqlen_k = dtype, head_dim, mask, seqlen, seqlen_k or seqlen
        self.batch, self.heads_q = max(1, TOKENS // max(seqlen, self.seqlen_k)), max(group, WIDTH // head_dim // group * group)
        self.heads_kv, self.window = self.heads_q // group, window
        self.causal, self.scale = mask == "causal", head_dim**-0.5

    def name(self):
        group, keys = self.heads_q // self.heads_kv, f"S={self.seqlen_k:<5}" if self.seqlen_q == self.seqlen_k else f"{self.seqlen_q} x {self.seqlen_k}"
        return f"{self.dtype} d{self.head_dim} {self.mask:6} {keys}" + (f" {group}:1" if group > 1 else "") + (f" window {self.window}" if self.window else "")

    def rate(self, which, ms):
        return self.tflops(which, ms)

    def tflops(self, which, ms):
        return 4e-9 * self.batch * self.heads_q * self.pairs() * self.head_dim * (2.5 if which == "bwd" else 1.0) / ms

    def pairs(self):
        """Pairs of query and key that are seen; the last query sees the last key."""
        if not self.causal:
            return self.seqlen_q * self.seqlen_k
        if self.seqlen_q == self.seqlen_k and not self.window:
            return 0.5 * self.seqlen_q * self.seqlen_k
        ends = (max(0, self.seqlen_k - self.seqlen_q + 1 + query) for query in range(self.seqlen_q))
        return sum(min(end, self.window or end) for end in ends)

    def tensors(self):
        """q, k, v, dout as [B, H, N, D] views of [B, N, H, D] memory."""
        sizes = (self.seqlen_q, self.heads_q), (self.seqlen_k, self.heads_kv), (self.seqlen_k, self.heads_kv), (self.seqlen_q, self.heads_q)
        return [torch.randn(self.batch, n, h, self.head_dim, device="cuda").to(DTYPES[self.dtype]).transpose(1, 2) for n, h in sizes]


class Decode(Shape):
    """One query a sequence, which sees all keys. Few operations: what counts is how fast K and V are read."""

    passes, unit, calls = ("fwd",), "TB/s", 20

    def __init__(self, dtype, head_dim, heads_q, heads_kv, batch, keys):
        super().__init__(dtype, head_dim, "none", keys, 1)
        self.heads_q, self.heads_kv, self.batch, self.seqlen_q = heads_q, heads_kv, batch, 1

    def name(self):
        return f"{self.dtype} d{self.head_dim} {self.heads_q}:{self.heads_kv} heads, batch {self.batch}, {self.seqlen_k} keys"

    def rate(self, which, ms):
        return 2e-9 * self.batch * self.heads_kv * self.seqlen_k * self.head_dim * DTYPES[self.dtype].itemsize / ms


class Ragged(Shape):
    """Sequences of these lengths, one after another: tensors of one batch."""

    passes = ("fwd",)

    def __init__(self, dtype, head_dim, mask, group, lengths):
        super().__init__(dtype, head_dim, mask, sum(lengths), group)
        self.batch, self.lengths = 1, lengths

    def name(self):
        return f"{self.dtype} d{self.head_dim} {self.mask:6} {len(self.lengths)} of {min(self.lengths)} to {max(self.lengths)}"

    def pairs(self):
        return sum(n * n for n in self.lengths) * (0.5 if self.causal else 1.0)

    def first_rows(self):
        return torch.tensor([0, *itertools.accumulate(self.lengths)], dtype=torch.int32, device="cuda")

    def equal(self):
        """Equal lengths with as many rows and pairs, as nearly as whole numbers allow."""
        length = round(sum(n * n for n in self.lengths) / sum(self.lengths))
        shape = Shape(self.dtype, self.head_dim, self.mask, length, self.heads_q // self.heads_kv)
        shape.batch, shape.passes = max(1, round(sum(self.lengths) / length)), self.passes
        return shape


class Glint:
    """Plans once a shape; then one call of the library a pass. `row`: a row of the table instead of the planner's choice."""

    name = "glint"
    fields, more = {}, {}  # of the problem, and tensors of the call, beyond the plain ones

    def __init__(self, passes=("fwd", "bwd"), row=None):
        self.passes, self.row = passes, row

    def prepare(self, shape, q, k, v, dout):
        passes = [which for which in self.passes if which in shape.passes]
        names = "q k v o dout dq dk dv".split()
        tensors = dict(zip(names, [q, k, v, torch.empty_like(q), dout, *(torch.empty_like(t) for t in (q, k, v))]))
        lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
        self.addresses = glint.Tensors(lse=lse.data_ptr(), **{name: t.data_ptr() for name, t in (tensors | self.more).items()})
        mask = glint.BANDS["bottom_right"] if shape.window else glint.MASKS["bottom_right" if shape.causal else "none"]
        self.problem = glint.Problem(dtype=glint.DTYPES[q.dtype], mask=mask, softmax_scale=shape.scale, batch=shape.batch, heads_q=shape.heads_q,
                                     heads_kv=shape.heads_kv, head_dim=shape.head_dim, seqlen_q=shape.seqlen_q, seqlen_k=shape.seqlen_k)
        if shape.window:
            self.problem.window_left = shape.window - 1
        for name, t in tensors.items():
            setattr(self.problem, name, glint.strides(t))
        for name, value in self.fields.items():
            setattr(self.problem, name, value)
        self.keep, self.variants = [tensors, lse, self.more], {}
        if "fwd" not in passes:
            self.call("fwd", None)()  # backward reads O and LSE
        calls = {which: self.call(which, self.row) for which in passes}
        for call in calls.values():
            call()
        self.results = {name: tensors[name] for which in passes for name in RESULTS[which]}
        return calls

    def label(self, which):
        """Rows that were asked for one by one are told apart by how they do it."""
        return self.name if self.row is None else self.variants[which].split("__")[1]

    def call(self, which, row):
        plan = glint.context(torch.device("cuda", torch.cuda.current_device())).plan(self.problem, PASSES[which], row)
        workspace = torch.empty(plan.workspace_bytes, dtype=torch.uint8, device="cuda")
        self.keep += [plan, workspace]
        self.variants[which], self.index = glint.variant_info(plan.variant).name.decode(), plan.variant
        function = glint.library().glint_forward if which == "fwd" else glint.library().glint_backward
        arguments = ctypes.byref(plan), ctypes.byref(self.addresses), workspace.data_ptr(), plan.workspace_bytes
        return lambda: glint.check(function(*arguments, torch.cuda.current_stream().cuda_stream), self.variants[which])


class GlintWith(Glint):
    """Glint with one thing more. Both passes: "lengths" of the sequences, read on the device, "ragged", the same rows as sequences that follow one
    another, and a dtype, "f16", in which the same tensors are. Forward alone: "sinks", "softcap", "pages N" of so many rows, anywhere in the pool or one after another ("pages N in order"), and
    K and V in 8 bits, "i8" with a scale a row and "e4m3" with one a head."""

    def __init__(self, feature):
        super().__init__(passes=("fwd", "bwd") if feature in ("lengths", "ragged", *DTYPES) else ("fwd",))
        self.name, self.dtype = feature, feature if feature in DTYPES else None

    def prepare(self, shape, q, k, v, dout):
        word, *rest = self.name.split()
        self.fields, self.more = {}, {}
        if word == "sinks":
            self.fields["sinks"], self.more["sinks"] = 1, torch.zeros(shape.heads_q, device="cuda")
        elif word == "softcap":
            self.fields["softcap"] = 30.0
        elif word in EIGHT_BITS:
            number, dtype, largest, scales = EIGHT_BITS[word]
            self.fields.update(kv_dtype=number, kv_scales=scales)
            (k, self.more["k_scale"]), (v, self.more["v_scale"]) = (self.quantised(t, dtype, largest, scales) for t in (k, v))
        elif word in DTYPES:
            q, k, v, dout = (t.to(DTYPES[word]) for t in (q, k, v, dout))
        elif word == "ragged":
            sides = {"q": shape.seqlen_q, "k": shape.seqlen_k}
            self.fields.update(lengths=glint.LENGTHS_RAGGED, **{f"rows_{side}": shape.batch * n for side, n in sides.items()})
            self.more.update({f"first_{side}": torch.arange(shape.batch + 1, dtype=torch.int32, device="cuda") * n for side, n in sides.items()})
            q, k, v, dout = (t.transpose(1, 2).flatten(0, 1)[None].transpose(1, 2) for t in (q, k, v, dout))
        else:
            self.fields["lengths"] = glint.LENGTHS_DEVICE
            self.more["seqlens_k"] = torch.full([shape.batch], shape.seqlen_k, dtype=torch.int32, device="cuda")
            self.more["seqlens_q"] = torch.full([shape.batch], shape.seqlen_q, dtype=torch.int32, device="cuda")
        if word == "pages":
            rows, each = int(rest[0]), -(-shape.seqlen_k // int(rest[0]))
            order = torch.arange if rest[1:] == ["in", "order"] else torch.randperm
            table = order(shape.batch * each, dtype=torch.int32, device="cuda").view(shape.batch, each)
            self.more["page_table"] = table
            self.fields.update(page_rows=rows, pages=shape.batch * each, pages_per_sequence=each)
            k, v = ([self.paged(t, table, rows) for t in (k, v)])
        try:
            calls = super().prepare(shape, q, k, v, dout)
        except glint.GlintError as error:
            print(f"{shape.name()} {self.name}: {error}")
            return {}
        if word in ("sinks", "softcap", *EIGHT_BITS):
            self.results = {}  # another function
        if word == "ragged":
            self.results = {name: t[0].unflatten(1, (shape.batch, -1)).transpose(0, 1) for name, t in self.results.items()}
        return calls

    @staticmethod
    def quantised(t, dtype, largest, scales):
        """A tensor in 8 bits in the same layout, and its float32 scales: a row's or a head's."""
        most = t.abs().amax(dim=(3,) if scales == ROW_SCALES else (0, 2, 3), keepdim=True).float().clamp(min=1e-20)
        small = (t.float() * (largest / most)).round() if dtype == torch.int8 else t.float() * (largest / most)
        return small.to(dtype), (most / largest).flatten().contiguous()

    @staticmethod
    def paged(t, table, rows):
        """[B, H, N, D] as [pages, H, rows, D] views of [pages, rows, H, D] memory, in the order of the table."""
        batch, heads, keys, dim = t.shape
        each = table.shape[1]
        flat = torch.zeros(batch, each * rows, heads, dim, dtype=t.dtype, device=t.device)
        flat[:, :keys] = t.transpose(1, 2)
        pages = torch.empty(batch * each, rows, heads, dim, dtype=t.dtype, device=t.device)
        pages[table.flatten().long()] = flat.view(batch * each, rows, heads, dim)
        return pages.transpose(1, 2)


class GlintRagged(Glint):
    """Ragged sequences."""

    def prepare(self, shape, q, k, v, dout):
        rows, most, first = sum(shape.lengths), max(shape.lengths), shape.first_rows()
        self.fields = dict(lengths=glint.LENGTHS_RAGGED, batch=len(shape.lengths), seqlen_q=most, seqlen_k=most, rows_q=rows, rows_k=rows)
        self.more = {"first_q": first, "first_k": first}
        return super().prepare(shape, q, k, v, dout)


class GlintEqual(Glint):
    """As much work in equal lengths: by the row that `like` has taken, or by the planner's choice. `work`: over that of the ragged sequences."""

    def __init__(self, name, like=None):
        super().__init__()
        self.name, self.like, self.work = name, like, 1.0

    def label(self, which):
        return self.name

    def prepare(self, shape, q, k, v, dout):
        equal = shape.equal()
        self.row, self.work = self.like and self.like.index, equal.batch * equal.pairs() / shape.pairs()
        calls = super().prepare(equal, *equal.tensors())
        self.results = {}  # of other numbers
        return calls


class Torch:
    """One backend of scaled_dot_product_attention."""

    def __init__(self, name, backend, dtypes):
        self.name, self.backend, self.dtypes = name, backend, dtypes
        self.variants = dict.fromkeys(PASSES, backend.name.lower())

    def label(self, which):
        return self.name

    def prepare(self, shape, q, k, v, dout):
        if shape.dtype not in self.dtypes or shape.window or (shape.causal and shape.seqlen_q != shape.seqlen_k):
            return {}  # is_causal is aligned top left
        leaves = [t.detach().requires_grad_() for t in (q, k, v)]

        def attention(*qkv):
            with sdpa_kernel(self.backend):
                return F.scaled_dot_product_attention(*qkv, is_causal=shape.causal, scale=shape.scale, enable_gqa=shape.heads_q != shape.heads_kv)

        def gradients():
            return torch.autograd.grad(out, leaves, dout, retain_graph=True)

        try:
            out = attention(*leaves)
            self.results = {"o": out.detach()}
            if "bwd" in shape.passes:
                self.results.update(zip(RESULTS["bwd"], gradients()))
        except RuntimeError as error:
            print(f"{shape.name()} {self.name} does not take this shape: {str(error).splitlines()[0]}")
            return {}
        calls = {"fwd": lambda: attention(q, k, v), "bwd": gradients}
        return {which: calls[which] for which in shape.passes}


class Fa3:
    """FlashAttention-3: flash_attn_func and, for decode, flash_attn_with_kvcache."""

    name, variants = "fa3", dict.fromkeys(PASSES, "flash_attn_func")

    def __init__(self, interface):
        self.interface = interface

    def label(self, which):
        return self.name

    def prepare(self, shape, q, k, v, dout):
        if shape.dtype == "f32":
            return {}
        mine, options = [t.detach().transpose(1, 2) for t in (q, k, v)], {"softmax_scale": shape.scale}
        if isinstance(shape, Decode):
            def decode():
                return self.interface.flash_attn_with_kvcache(*mine, **options)

            self.results = {"o": decode().transpose(1, 2)}
            return {"fwd": decode}
        options.update(causal=shape.causal, **({"window_size": (shape.window - 1, 0)} if shape.window else {}))
        leaves, grad = [t.requires_grad_() for t in mine], dout.transpose(1, 2)

        def attention():
            out = self.interface.flash_attn_func(*leaves, **options)
            return out[0] if isinstance(out, tuple) else out

        def forward():
            with torch.no_grad():
                attention()

        def gradients():
            return torch.autograd.grad(out, leaves, grad, retain_graph=True)

        try:
            out = attention()
            found = [out, *(gradients() if "bwd" in shape.passes else [])]
            self.results = {name: t.detach().transpose(1, 2) for name, t in zip(["o", *RESULTS["bwd"]], found)}
        except RuntimeError as error:  # a build of some dtypes and head dims
            print(f"{shape.name()} {self.name} does not take this shape: {str(error).splitlines()[0]}")
            return {}
        return {which: {"fwd": forward, "bwd": gradients}[which] for which in shape.passes}


class VaryingLengths:
    """Another library's function of ragged sequences: attention(q, k, v, first_rows, longest, scale, causal)."""

    variants = dict.fromkeys(PASSES, "varlen")

    def __init__(self, name, attention):
        self.name, self.attention = name, attention

    def label(self, which):
        return self.name

    def prepare(self, shape, q, k, v, dout):
        rows, first = [t[0].transpose(0, 1) for t in (q, k, v)], shape.first_rows()

        def forward():
            with torch.no_grad():
                return self.attention(*rows, first, max(shape.lengths), shape.scale, shape.causal)

        try:
            self.results = {"o": forward().transpose(0, 1)[None]}
        except RuntimeError as error:
            print(f"{shape.name()} {self.name} does not take this shape: {str(error).splitlines()[0]}")
            return {}
        return {"fwd": forward}


def ragged_implementations(without):
    """Glint with ragged sequences and with equal ones, and the peers that take ragged ones."""
    def fa2(q, k, v, first, longest, scale, causal):
        return torch.ops.aten._flash_attention_forward(q, k, v, first, first, longest, longest, 0.0, causal, False, scale=scale)[0]

    mine = GlintRagged(passes=("fwd",))
    found = [VaryingLengths("fa2", fa2)]
    try:
        import flash_attn_interface

        def fa3(q, k, v, first, longest, scale, causal):
            out = flash_attn_interface.flash_attn_varlen_func(q, k, v, first, first, longest, longest, softmax_scale=scale, causal=causal)
            return out[0] if isinstance(out, tuple) else out

        found.append(VaryingLengths("fa3", fa3))
    except ImportError:
        pass
    return [mine, GlintEqual("equal_row", mine), GlintEqual("equal"), *(peer for peer in found if peer.name not in without)]


def peers():
    found = [Torch("fa2", SDPBackend.FLASH_ATTENTION, ("f16", "bf16")), Torch("cudnn", SDPBackend.CUDNN_ATTENTION, ("f16", "bf16")),
             Torch("efficient", SDPBackend.EFFICIENT_ATTENTION, ("f32",))]
    try:
        import flash_attn_interface
        found.append(Fa3(flash_attn_interface))
    except ImportError:
        pass
    return found


def compare(shape, implementations):
    """Sentences about results that differ between implementations by more than rounding, relative to the norm."""
    unit = {"bf16": 2.0**-8, "f16": 2.0**-10, "f32": 2.0**-10}[shape.dtype]  # f32: tf32 products
    known, wrong = {}, []
    for implementation in implementations:
        for name, mine in implementation.results.items():
            other, theirs = known.setdefault(name, (implementation, mine))
            difference = ((mine.float() - theirs.float()).norm() / theirs.float().norm()).item()
            if not difference < 3 * unit:
                wrong.append(f"{shape.name()}: {name} of {implementation.name} and of {other.name} differ by {difference:.2e} of its norm")
    return wrong


def captured(call, times):
    """A graph of so many calls, as one call."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()  # what it allocates or loads once it does before
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(times):
            call()
    return graph.replay


def queue(call, times):
    """Runs it `times` times between events, without waiting."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(times + 1)]
    events[0].record()
    for event in events[1:]:
        call()
        event.record()
    return events


def queue_and_wait(call, times):
    events = queue(call, times)
    torch.cuda.synchronize()
    return events


def elapsed(events):
    return [a.elapsed_time(b) for a, b in itertools.pairwise(events)]


def sustained(call, seconds, calls):
    """The median time of the second half, and the clock and power near the end, of one call back to back for so long."""
    once = max(elapsed(queue_and_wait(call, 3))[-1], 1e-3)
    events = queue(call, max(8, math.ceil(1e3 * seconds / once)))
    while not events[len(events) * 4 // 5].query():
        time.sleep(0.002)
    state = ask_gpu()
    torch.cuda.synchronize()
    times = elapsed(events)
    return statistics.median(times[len(times) // 2:]) / calls, state


def measure(shape, implementations, options, filler):
    """{(number of the implementation, pass): median ms} without those that do not take the shape, {the same: clock, power, temperature} where
    each ran by itself, and what is wrong with results."""
    inputs, calls = shape.tensors(), {}
    for number, implementation in enumerate(implementations):
        implementation.results = {}
        calls.update({(number, which): call if shape.calls == 1 else captured(call, shape.calls)
                      for which, call in implementation.prepare(shape, *inputs).items()})
    wrong, times = compare(shape, implementations), {}
    for key, call in calls.items():
        filler()
        times[key] = max(2, min(20, math.ceil(options.least_ms / options.rounds / elapsed(queue_and_wait(call, 3))[-1])))
    keys, samples = list(calls), {key: [] for key in calls}
    if options.sustained:
        found = {key: sustained(call, options.sustained, shape.calls) for key, call in calls.items()}
        times, states = ({key: pair[i] for key, pair in found.items()} for i in range(2))
    for turn in range(0 if options.sustained else options.rounds):
        start = turn % len(keys)
        filler()  # the GPU is busy while the host begins to queue
        queued = [(key, queue(calls[key], times[key])) for key in keys[start:] + keys[:start]]
        torch.cuda.synchronize()
        for key, events in queued:
            samples[key] += elapsed(events)
    for implementation in implementations:  # the next shape needs the memory
        implementation.results = implementation.keep = None
    if options.sustained:
        return times, states, wrong
    return {key: statistics.median(values) / shape.calls for key, values in samples.items()}, {}, wrong


def ask_gpu():
    """MHz, watts and degrees Celsius, or nothing."""
    done = subprocess.run(["nvidia-smi", "--query-gpu=clocks.sm,power.draw,temperature.gpu", "--format=csv,noheader,nounits", "--id=0"],
                          capture_output=True, text=True, check=False)
    try:
        return [float(word) for word in done.stdout.split(",")]
    except ValueError:
        return []


class Clocks(threading.Thread):
    """Asks nvidia-smi for the clock, power and temperature now and then while the work runs."""

    def __init__(self):
        super().__init__(daemon=True)
        self.rows, self.stop = [], threading.Event()

    def run(self):
        while not self.stop.wait(3):
            state = ask_gpu()
            if not state:
                return
            self.rows.append(state)

    def summary(self):
        self.stop.set()
        self.join()
        if not self.rows:
            return "not known"
        return ", ".join(f"{name} {min(column):.0f} / {statistics.median(column):.0f} / {max(column):.0f} {unit}" for name, unit, column in
                         zip(("SM clock", "power", "temperature"), ("MHz", "W", "C"), zip(*self.rows))) + " (least, median, most)"


def rows_that_fit(shape):
    """Every row of the table for the shape that the device has, each as an implementation of its own."""
    device = torch.device("cuda", torch.cuda.current_device())
    for index in range(glint.library().glint_variant_count()):
        info = glint.variant_info(index)
        serves = info.features == int(shape.causal) + 2 * bool(shape.window) if info.queries_up_to == 0 else info.queries_up_to >= shape.seqlen_q
        if (info.sm and serves and (info.dtype, info.head_dim) == (glint.DTYPES[DTYPES[shape.dtype]], shape.head_dim)
                and glint.library().glint_variant_available(glint.context(device).handle, index) == 0):
            yield Glint(["fwd" if info.pass_ == glint.FORWARD else "bwd"], index)


def show(shape, measured, implementations, peer):
    """One line a pass: the rate of each, and Glint's over each peer's. Returns {pass: ratio to the peer of the bar}."""
    ratios = {}
    for which in shape.passes:
        taken = [i for n, i in enumerate(implementations) if (n, which) in measured]
        found = [(i.name, shape.rate(which, measured[n, which]) * getattr(i, "work", 1.0), i.label(which))
                 for n, i in enumerate(implementations) if (n, which) in measured]
        mine = max((rate for name, rate, _ in found if name == "glint"), default=math.nan)
        width = 6.1 if shape.unit == "TFLOP/s" else 5.2
        words = [f"{label} {rate:{width}f}" + ("" if name == "glint" else f" ({mine / rate:.2f}x)") for name, rate, label in found]
        print(f"{shape.name()} {which}  " + "  ".join(words), flush=True)
        ratios.update({which: mine / rate for name, rate, _ in found if name == peer})
        others = [rate for (name, rate, _), i in zip(found, taken) if not isinstance(i, Glint)]
        if peer == "best" and others:
            ratios[which] = mine / max(others)
    return ratios


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def report(ratios, groups):
    """Geometric means by group, head_dim and pass, and the cells under their bar."""
    below = {}
    for group in groups:
        _, _, _, peer, bar = GROUPS[group]
        mine = {key: ratio for key, ratio in ratios.items() if key[0] == group}
        if not mine:
            continue
        print(f"\n{group}: Glint over {peer}, geometric means; the bar of a cell is {bar}")
        for which in PASSES:
            dims = sorted({key[1].head_dim for key in mine})
            means = [(f"d{d}", [r for k, r in mine.items() if k[2] == which and k[1].head_dim == d]) for d in dims]
            means.append(("all", [r for k, r in mine.items() if k[2] == which]))
            if not means[-1][1]:
                continue
            print(f"  {which}  " + "  ".join(f"{name} {geometric_mean(rs):.3f} (least {min(rs):.3f})" for name, rs in means if rs))
        below.update({key: (ratio, bar) for key, ratio in mine.items() if ratio < bar})
    print(f"\n{len(ratios) - len(below)} of {len(ratios)} cells reach their bar" + ("; these do not (seqlen: ratio):" if below else ""))
    rows = {}
    for (group, shape, which), (ratio, bar) in below.items():
        rows.setdefault((group, which, shape.dtype, shape.head_dim, shape.mask, bar), []).append(f"{shape.seqlen_k}: {ratio:.2f}" if group != "decode" else
                                                                                                         f"{shape.name()}: {ratio:.2f}")
    for (group, which, dtype, head_dim, mask, bar), cells in sorted(rows.items(), key=lambda row: (groups.index(row[0][0]), row[0][3], row[0])):
        print(f"  {group:4} {which} {dtype} d{head_dim} {mask:6} of {bar}  " + ", ".join(cells))


def shapes(group, options):
    """The cells of a group that the options leave."""
    dtypes, head_dims, share, _, _ = GROUPS[group]
    dtypes = options.dtype or dtypes
    if group == "decode":
        cells = [Decode(t, *heads, *size) for t, heads, size in itertools.product(dtypes, DECODE_HEADS, DECODE_SIZES)
                 if not options.seqlen or size[1] in options.seqlen]
    elif group == "lengths":
        cells = [Shape(t, d, m, q, share, k) for t, d, m, (q, k) in itertools.product(dtypes, head_dims, options.mask, LENGTHS)]
    elif group == "ragged":
        cells = [Ragged(t, d, m, share, lengths) for t, d, m, lengths in itertools.product(dtypes, head_dims, options.mask, RAGGED)]
    elif group in ("windows", "gqa_windows"):
        windows = WINDOWS if group == "windows" else GQA_WINDOWS
        cells = [Shape(t, d, "causal", s, share, window=w if w < s else None) for t, d, (s, w) in itertools.product(dtypes, head_dims, windows)]
    else:
        cells = [Shape(t, d, m, s, share) for t, d, m, s in itertools.product(dtypes, head_dims, options.mask, options.seqlen or SEQLENS)]
    for cell in cells:
        cell.passes = tuple(which for which in cell.passes if which in options.passes)
    return [cell for cell in cells if not options.head_dim or cell.head_dim in options.head_dim]


def main():
    def words(text):
        return text.split(",")

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--group", type=words, default=[g for g in GROUPS if g not in BESIDES],
                        help=f"of {','.join(GROUPS)} (all but {', '.join(BESIDES)})")
    parser.add_argument("--head-dim", type=lambda t: [int(w) for w in words(t)], help="only these")
    parser.add_argument("--dtype", type=words, help="these in place of the group's")
    parser.add_argument("--pass", dest="passes", type=words, default=list(PASSES), help="only these (fwd,bwd)")
    parser.add_argument("--seqlen", type=lambda t: [int(w) for w in words(t)], help=f"only these ({SEQLENS}; decode: all of its cells)")
    parser.add_argument("--mask", type=words, default=["none", "causal"])
    parser.add_argument("--without", type=words, default=[], help="peers to leave out: fa2,cudnn,efficient,fa3")
    parser.add_argument("--variants", action="store_true", help="every row of the table that fits a shape, not the planner's choice alone")
    parser.add_argument("--rounds", type=int, default=6, help="(%(default)s)")
    parser.add_argument("--least-ms", type=float, default=60, help="that an implementation and pass runs in a cell, at 2 calls a round or more (%(default)s)")
    parser.add_argument("--best", action="store_true", help="the bar of a cell is 1 of its best peer, not the group's")
    parser.add_argument("--sustained", type=float, metavar="SECONDS", help="each implementation by itself for so long, in place of rounds")
    parser.add_argument("--features", type=words, default=[], help="Glint beside itself with these: f16,lengths,ragged,sinks,softcap,i8,e4m3,pages 16,pages 64,pages 64 in order ...")
    parser.add_argument("--list", action="store_true", help="print the cells, and do nothing else: no GPU is needed")
    parser.add_argument("--csv", help="write the results to this file, a line as soon as it is known")
    options = parser.parse_args()

    if options.list:
        for group in options.group:
            for number, shape in enumerate(shapes(group, options)):
                print(f"{group:7} {number + 1:3}  {shape.name()}")
        return 0
    if options.best:
        GROUPS.update({group: (*GROUPS[group][:3], "best", 1.0) for group in options.group})
    torch.manual_seed(0)
    everyone = [p for p in peers() if p.name not in options.without]
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}; "
          f"Glint from {glint.find_library()}")
    square = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    product = torch.empty_like(square)

    def filler():
        torch.mm(square, square, out=product)

    product_ms = statistics.median(elapsed(queue_and_wait(filler, 12)))
    print(f"8192^3 bf16 matrix product: {2e-9 * 8192**3 / product_ms:.0f} TFLOP/s", flush=True)

    file = open(options.csv, "w", newline="", encoding="ascii") if options.csv else None
    writer = csv.writer(file, lineterminator="\n") if file else None
    if writer:
        writer.writerow(COLUMNS)
    clocks, start, ratios, wrong = Clocks(), time.monotonic(), {}, []
    clocks.start()
    for group in options.group:
        cells, peer = shapes(group, options), GROUPS[group][3]
        print(f"\n{group}: {len(cells)} shapes, {time.monotonic() - start:.0f} s so far", flush=True)
        for shape in cells:
            implementations = [*([Glint()] if not options.variants else rows_that_fit(shape)), *map(GlintWith, options.features), *everyone]
            if group == "ragged":
                implementations = ragged_implementations(options.without)
            measured, states, differ = measure(shape, implementations, options, filler)
            wrong += differ
            ratios.update({(group, shape, which): ratio for which, ratio in show(shape, measured, implementations, peer).items()})
            for (index, which), ms in measured.items() if writer else ():
                i = implementations[index]
                writer.writerow([i.name, i.variants[which], which, getattr(i, "dtype", None) or shape.dtype, shape.head_dim, shape.mask, shape.seqlen_q, shape.seqlen_k,
                                 shape.batch, shape.heads_q, shape.heads_kv, 0, f"{ms:.6f}", f"{shape.tflops(which, ms):.6f}",
                                 *[f"{x:.0f}" for x in states.get((index, which), [])[:2]]])
                file.flush()
    report(ratios, options.group)
    print(f"{time.monotonic() - start:.0f} s; {clocks.summary()}")
    for sentence in wrong:
        print(f"DIFFERENT RESULTS: {sentence}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
